use std::time::{Duration, SystemTime};

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::{KeyPair as RsaKeyPair, KeySize},
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256,
        RSA_PKCS1_SHA512,
    },
};
use keyfob_testkit::ManualClock;
use serde_json::{Value, json};

use super::*;

const NAME: &str = "https://cluster.example";
const AUDIENCE: &str = "registry.example";
const NOW: u64 = 1_900_000_000;

/// Signs with either kind of key, and says anything about it.
struct Signing {
    rsa: RsaKeyPair,
    elliptic: EcdsaKeyPair,
}

impl Signing {
    fn new() -> Self {
        Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            elliptic: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
        }
    }

    fn issuer(&self) -> Issuer {
        let number = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        // PKCS #1: a sequence of the modulus, of 256 bytes and a zero before them, and of the exponent, 65537.
        let key = self.rsa.public_key().as_ref();
        let (n, e) = (number(&key[9..265]), number(&key[267..]));
        let (x, y) = self.elliptic.public_key().as_ref()[1..].split_at(32);
        let keys = json!({"keys": [
            {"kty": "OKP", "kid": "other", "crv": "Ed25519", "x": "AA"},
            {"kty": "RSA", "kid": "r", "n": n, "e": e},
            {"kty": "EC", "kid": "e", "crv": "P-256", "x": number(x), "y": number(y)},
        ]});
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        Issuer::new(NAME, &keys.to_string(), Arc::new(ManualClock::new(now))).unwrap()
    }

    fn token(&self, alg: &str, kid: &str, claims: &Value) -> Secret<String> {
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": alg, "kid": kid})), part(claims));
        let random = SystemRandom::new();
        let rsa = |how| {
            let mut signature = vec![0; self.rsa.public_modulus_len()];
            self.rsa.sign(how, &random, signed.as_bytes(), &mut signature).unwrap();
            signature
        };
        let signature = match alg {
            "RS256" => rsa(&RSA_PKCS1_SHA256),
            "RS512" => rsa(&RSA_PKCS1_SHA512),
            "ES256" => self.elliptic.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
            _ => Vec::new(),
        };
        Secret::new(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn claims() -> Value {
    json!({"iss": NAME, "sub": "system:serviceaccount:a:b", "aud": [AUDIENCE], "exp": NOW + 1})
}

fn with(name: &str, value: &Value) -> Value {
    let mut claims = claims();
    claims[name] = value.clone();
    claims
}

#[test]
fn a_token_of_the_issuer_is_believed_with_either_kind_of_key() {
    let signing = Signing::new();
    let issuer = signing.issuer();
    for (alg, kid) in [("RS256", "r"), ("ES256", "e")] {
        let believed = issuer.believe(&signing.token(alg, kid, &claims()), AUDIENCE).unwrap();
        assert_eq!(believed.service_account(), Some(("a", "b")), "{alg}");
    }
}

#[test]
fn a_signature_that_is_not_the_issuers_is_refused() {
    let signing = Signing::new();
    let issuer = signing.issuer();
    let refusal = |token: &Secret<String>| issuer.believe(token, AUDIENCE).unwrap_err();
    let unsigned = "no key of the issuer has signed the token";
    let stranger = Signing::new();
    for (alg, kid) in [("RS256", "r"), ("ES256", "e")] {
        assert_eq!(refusal(&stranger.token(alg, kid, &claims())), unsigned, "{alg}");
    }
    // A header that lies about the key or the kind, or wants none.
    let lies = [("RS256", "e"), ("ES256", "r"), ("RS256", "x"), ("RS512", "r"), ("RS256", "other")];
    for (alg, kid) in lies {
        assert_eq!(refusal(&signing.token(alg, kid, &claims())), unsigned, "{alg} {kid}");
    }
    for alg in ["none", "None", "HS256", ""] {
        assert_eq!(refusal(&signing.token(alg, "r", &claims())), unsigned, "{alg}");
    }
}

#[test]
fn a_token_that_was_changed_is_refused() {
    let signing = Signing::new();
    let issuer = signing.issuer();
    let token = signing.token("RS256", "r", &claims());
    let parts: Vec<&str> = token.expose().split('.').collect();
    let other =
        BASE64_URL_SAFE_NO_PAD.encode(with("sub", &json!("system:serviceaccount:a:c")).to_string());
    let changed = [parts[0], &other, parts[2]].join(".");
    for changed in [
        changed,
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{}.{}.{}", parts[0], other, token.expose()),
        format!("{}.x", token.expose()),
        format!("{}=", token.expose()),
        String::new(),
        "...".to_owned(),
        "é.é.é".to_owned(),
    ] {
        assert!(issuer.believe(&changed.clone().into(), AUDIENCE).is_err(), "{changed}");
    }
}

#[test]
fn a_genuine_token_must_also_be_for_us_from_him_and_not_have_ended() {
    let signing = Signing::new();
    let issuer = signing.issuer();
    let rows = [
        ("iss", json!("https://elsewhere.example"), "the token is of another issuer"),
        ("iss", Value::Null, "the token is of another issuer"),
        ("aud", json!(["vault.example"]), "the token is for another audience"),
        ("aud", json!([]), "the token is for another audience"),
        ("exp", json!(NOW), "the token has ended, or does not say when it ends"),
        ("exp", Value::Null, "the token has ended, or does not say when it ends"),
    ];
    for (name, value, want) in rows {
        let token = signing.token("RS256", "r", &with(name, &value));
        assert_eq!(issuer.believe(&token, AUDIENCE), Err(want), "{name} {value}");
    }
}

#[test]
fn what_is_no_key_set_is_refused() {
    let clock = || Arc::new(ManualClock::new(SystemTime::UNIX_EPOCH));
    for text in ["", "[]", r#"{"keys":[{"kty":"RSA"}]}"#] {
        assert!(Issuer::new(NAME, text, clock()).is_err(), "{text}");
    }
}
