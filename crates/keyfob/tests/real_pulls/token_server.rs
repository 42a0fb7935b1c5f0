//! The server that a registry sends its clients to for a token, as docker's specification has it.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use keyfob_testkit::{Internet, Request, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::login;

const SERVICE: &str = "the-registry";
const ISSUER: &str = "the-token-server";

pub(crate) struct TokenServer {
    internet: Internet,
    state: Arc<State>,
}

struct State {
    key: EcdsaKeyPair,
    certificate: Vec<u8>,
    /// How long tokens live, in seconds; those that ended before they began have a negative life.
    life: AtomicI64,
    given: AtomicUsize,
}

impl TokenServer {
    /// Starts it, with what a registry must be told to believe it.
    pub(crate) fn start(folder: &TempDir) -> (Self, Value) {
        let pair = rcgen::KeyPair::generate().unwrap();
        let names = vec!["token.example".to_owned()];
        let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&pair).unwrap();
        let bundle = folder.path().join("issuer.pem");
        fs::write(&bundle, certificate.pem()).unwrap();
        let der = pair.serialize_der();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).unwrap();
        let state = Arc::new(State {
            key,
            certificate: certificate.der().to_vec(),
            life: AtomicI64::new(300),
            given: AtomicUsize::new(0),
        });
        let asked = Arc::clone(&state);
        let internet = Internet::start(move |request| asked.answer(request));
        let realm = format!("{}/token", internet.url());
        let auth = json!({"token": {"realm": realm, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": bundle}});
        (Self { internet, state }, auth)
    }

    pub(crate) fn tokens_live_for(&self, seconds: i64) {
        self.state.life.store(seconds, Ordering::SeqCst);
    }

    pub(crate) fn given(&self) -> usize {
        self.state.given.load(Ordering::SeqCst)
    }

    /// What it was asked.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.internet.requests()
    }
}

impl State {
    fn answer(&self, request: &Request) -> Response {
        let expected = format!("Basic {}", BASE64_STANDARD.encode(login()));
        if request.header("authorization") != Some(&expected) {
            return Response::json(
                json!({"details": "incorrect username or password"}).to_string(),
            )
            .with_status(401);
        }
        self.given.fetch_add(1, Ordering::SeqCst);
        let query = request.target.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let scope = query.split('&').find_map(|pair| pair.strip_prefix("scope="));
        let scope =
            scope.unwrap_or_default().replace("%3A", ":").replace("%2F", "/").replace("%2C", ",");
        let mut parts = scope.split(':').skip(1);
        let (name, actions) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let actions: Vec<&str> = actions.split(',').collect();
        let access = json!([{"type": "repository", "name": name, "actions": actions}]);
        Response::json(json!({"token": self.token(&access), "expires_in": 300}).to_string())
    }

    fn token(&self, access: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let life = self.life.load(Ordering::SeqCst);
        let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [BASE64_STANDARD.encode(&self.certificate)]});
        let claims = json!({
            "iss": ISSUER, "aud": SERVICE, "sub": "ada", "jti": fastrand::u64(..).to_string(),
            "iat": now - 600, "nbf": now - 600, "exp": now + life, "access": access,
        });
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}
