//! What must hold for every message, however strange: no panic, no secret in an error, what is written is read.

use std::fmt::{Debug, Display};

use keyfob_api::{
    AuthConfig, CacheKeyType, ClientIdentity, CredentialProviderRequest,
    CredentialProviderResponse, ExecCluster, ExecCredentialSpec, ExecCredentialStatus, ExecVersion,
    GoDuration, ProviderVersion, RawJson, RegistryCredentialPluginRequest,
    RegistryCredentialPluginResponse, Secret, Timestamp, document::Document,
};
use proptest::prelude::*;

/// Too odd to occur by chance, and not the shape of a version or kind, which errors may show.
const PLANTED: &str = "hunter2 is planted";

/// Everything that anyone may print about a text: what the decoders say, and how their values look in `Debug`.
fn said_about(text: &[u8]) -> Vec<String> {
    let mut said = vec![
        show(RegistryCredentialPluginRequest::decode(text).map(drop)),
        show(RegistryCredentialPluginResponse::decode(text).map(|answer| answer.password.clone())),
        show(
            CredentialProviderRequest::decode(text)
                .map(|(_, request)| request.service_account_token),
        ),
        show(ExecCredentialSpec::decode(text)),
        show(Document::read(text)),
        show(Document::read_yaml(text)),
        show(Document::read_json(text)),
    ];
    for version in ProviderVersion::ALL {
        let passwords = |answer: CredentialProviderResponse| {
            answer.auth.into_iter().map(|(_, auth)| auth.password).collect::<Vec<_>>()
        };
        said.push(show(CredentialProviderResponse::decode(text, version).map(passwords)));
    }
    for version in ExecVersion::ALL {
        said.push(show(ExecCredentialStatus::decode(text, version)));
    }
    said
}

fn show<T: Debug, E: Debug + Display>(result: Result<T, E>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{error} {error:?}"),
    }
}

/// Answers that are right, to be bent.
const ANSWERS: [&str; 6] = [
    r#"{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","cacheDuration":"5m","auth":{"r.io":{"username":"u","password":"p"},"s.io":{"username":"v","password":"q"}}}"#,
    r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"s","tls-server-name":"n","proxy-url":"p","certificate-authority-data":"YQ==","config":{"k":"v"}},"interactive":false},"status":{"token":"t","expirationTimestamp":"2030-01-01T00:00:00Z","clientCertificateData":"c","clientKeyData":"k"}}"#,
    "apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus:\n  token: &t \"abc\"\n  other: [*t, \"x\"]\n  <<: {\"clientKeyData\": k}\n",
    r#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"i","serviceAccountToken":"t","serviceAccountAnnotations":{"a":"b"}}"#,
    r#"{"kind":"RegistryCredentialPluginResponse","expirationTimestamp":"2030-01-01T00:00:00Z","username":"u","password":"p"}"#,
    r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1","spec":{"response":{"header":{"h":["v"]},"code":401}},"status":{"token":"t"}}"#,
];

/// The answer with the text inside its n-th pair of double quotes replaced.
fn with_planted(answer: &str, nth: usize) -> String {
    let strings = answer.matches('"').count() / 2;
    let chosen = 2 * (nth % strings) + 1;
    let parts: Vec<&str> = answer
        .split('"')
        .enumerate()
        .map(|(place, part)| if place == chosen { PLANTED } else { part })
        .collect();
    parts.join("\"")
}

#[test]
fn a_secret_in_any_string_is_never_shown() {
    for answer in ANSWERS {
        for nth in 0..answer.matches('"').count() / 2 {
            let text = with_planted(answer, nth);
            let wrong_types = text.replace(":\"", ":5,\"");
            let wrong_brackets = text.replace('}', "]");
            for broken in [&text, &wrong_types, &format!("{text}x"), &wrong_brackets] {
                for said in said_about(broken.as_bytes()) {
                    assert!(!said.contains("hunter2"), "{broken}\n{said}");
                }
            }
        }
    }
}

/// A right answer with a secret somewhere in it and a few bytes changed.
fn bent_answer() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..3), 0..4_usize);
    let edits = prop::collection::vec(edit, 0..4);
    (prop::sample::select(&ANSWERS[..]), any::<usize>(), edits).prop_map(|(answer, nth, edits)| {
        let mut text = with_planted(answer, nth).into_bytes();
        for (place, inserted, removed) in edits {
            let start = place.index(text.len() + 1);
            let end = (start + removed).min(text.len());
            text.splice(start..end, inserted);
        }
        text
    })
}

fn status() -> impl Strategy<Value = ExecCredentialStatus> {
    let identity = prop::option::of((".+", ".+")).prop_map(|pair| {
        pair.map(|(certificate, key): (String, String)| ClientIdentity {
            certificate_pem: certificate.into(),
            key_pem: key.into(),
        })
    });
    let expiration = prop::option::of(0..250_000_000_000_u64).prop_map(|seconds| {
        let after = std::time::Duration::from_secs(seconds?);
        Some(Timestamp::from(std::time::UNIX_EPOCH + after))
    });
    (expiration, ".+", identity).prop_map(|(expiration, token, identity)| ExecCredentialStatus {
        expiration,
        token: Some(Secret::new(token)),
        identity,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bent_answers_neither_panic_nor_leak(text in bent_answer()) {
        for said in said_about(&text) {
            prop_assert!(!said.contains("hunter2"), "{}", said);
        }
    }

    #[test]
    fn any_bytes_get_an_answer(text in prop::collection::vec(any::<u8>(), 0..60)) {
        said_about(&text);
    }

    #[test]
    fn anything_like_yaml_gets_an_answer(text in "[-a:{}\\[\\]?|>&*!%#'\"\\\\ \t\n,<1.]{0,40}") {
        said_about(text.as_bytes());
    }

    #[test]
    fn requests_are_read_as_written(
        image in ".*",
        token in prop::option::of(".+"),
        annotations in prop::collection::btree_map(".*", ".*", 0..3),
    ) {
        let request = CredentialProviderRequest {
            image,
            service_account_token: token.map(Secret::new),
            service_account_annotations: annotations,
        };
        let read = CredentialProviderRequest::decode(request.encode(ProviderVersion::V1).expose());
        prop_assert_eq!(read, Ok((ProviderVersion::V1, request)));
    }

    #[test]
    fn responses_are_read_as_written(
        nanos in any::<Option<i64>>(),
        auth in prop::collection::btree_map(".*", (".*", ".*"), 0..3),
    ) {
        let auth = auth.into_iter().map(|(key, (username, password))| {
            (key, AuthConfig { username, password: Secret::new(password) })
        });
        let response = CredentialProviderResponse {
            cache_key_type: CacheKeyType::Global,
            cache_duration: nanos.map(GoDuration::from_nanos),
            auth: auth.collect(),
        };
        for version in ProviderVersion::ALL {
            let read = CredentialProviderResponse::decode(response.encode(version).expose(), version);
            prop_assert_eq!(read.as_ref(), Ok(&response));
        }
    }

    #[test]
    fn statuses_are_read_as_written(status in status()) {
        for version in ExecVersion::ALL {
            let read = ExecCredentialStatus::decode(status.encode(version).expose(), version);
            prop_assert_eq!(read.as_ref(), Ok(&status));
        }
    }

    #[test]
    fn specs_are_read_as_written(
        server in ".*",
        proxy_url in ".*",
        certificates in prop::collection::vec(any::<u8>(), 0..9),
        setting in ".*",
        interactive in any::<bool>(),
    ) {
        let config = serde_json::json!({ "k": setting }).to_string();
        let config = RawJson::from(&Document::read_json(config.as_bytes()).unwrap().root);
        let cluster = ExecCluster {
            server,
            proxy_url: Secret::new(proxy_url),
            certificate_authority_data: certificates,
            config: Some(config),
            ..ExecCluster::default()
        };
        let spec = ExecCredentialSpec { cluster: Some(cluster), interactive, response: None };
        let read = ExecCredentialSpec::decode(spec.encode(ExecVersion::V1).expose());
        prop_assert_eq!(read, Ok((ExecVersion::V1, spec)));
    }

    #[test]
    fn durations_print_what_they_read(nanos in any::<i64>()) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
    }

    #[test]
    fn times_print_what_they_read(year in 0..10_000, month in 1..13, day in 1..29, second in 0..86_400) {
        let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
        let text = format!("{year:04}-{month:02}-{day:02}T{clock}Z");
        prop_assert_eq!(Timestamp::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn json_comes_out_of_a_tree_as_it_went_in(text in ".*", number in any::<i64>()) {
        let json = serde_json::json!([text, number, { "k": null }]);
        let again = RawJson::from(&Document::read_json(json.to_string().as_bytes()).unwrap().root);
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(again.as_str()).unwrap(), json);
    }
}
