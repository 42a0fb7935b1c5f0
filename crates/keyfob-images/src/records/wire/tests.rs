//! What is written, and what is read.

use keyfob_api::Timestamp;

use super::*;

fn full() -> PulledRecord {
    let secret = SecretAccess {
        secret: SecretCoordinates { uid: "u".into(), namespace: "n".into(), name: "s".into() },
        credential_hash: String::new(),
    };
    let account = ServiceAccountCoordinates {
        uid: "u".into(),
        namespace: "n".into(),
        name: "<robot>".into(),
    };
    let access = PullAccess {
        secrets: vec![secret],
        service_accounts: vec![account],
        node_pods_accessible: false,
    };
    let node = PullAccess { node_pods_accessible: true, ..PullAccess::default() };
    PulledRecord {
        image_ref: "sha256:1".into(),
        last_updated_time: Timestamp::parse("2030-01-02T03:04:05Z").ok(),
        credential_mapping: [
            ("r.test/b".to_owned(), node),
            ("r.test/a".to_owned(), access),
            ("r.test/c".to_owned(), PullAccess::default()),
        ]
        .into(),
    }
}

const FULL: &str = concat!(
    r#"{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","#,
    r#""lastUpdatedTime":"2030-01-02T03:04:05Z","imageRef":"sha256:1","credentialMapping":{"#,
    r#""r.test/a":{"kubernetesSecrets":[{"uid":"u","namespace":"n","name":"s","credentialHash":""}],"#,
    r#""kubernetesServiceAccounts":[{"uid":"u","namespace":"n","name":"\u003crobot\u003e"}]},"#,
    r#""r.test/b":{"nodePodsAccessible":true},"r.test/c":{}}}"#,
    "\n"
);

#[test]
fn a_record_is_written_in_gos_order_and_read_back() {
    assert_eq!(encode_record(&full()), FULL);
    let decoded = decode_record(FULL.as_bytes()).unwrap();
    assert_eq!((decoded.value, decoded.version), (full(), Version::Current));
}

#[test]
fn an_unknown_time_is_null_and_an_empty_mapping_is_left_out() {
    let record = PulledRecord { image_ref: "x".into(), ..PulledRecord::default() };
    let text = encode_record(&record);
    assert!(text.ends_with(",\"lastUpdatedTime\":null,\"imageRef\":\"x\"}\n"), "{text}");
    assert_eq!(decode_record(text.as_bytes()).unwrap().value, record);
    let zero = text.replace("null", "\"0001-01-01T00:00:00Z\"");
    assert_eq!(decode_record(zero.as_bytes()).unwrap().value, record);
}

#[test]
fn an_intent_is_one_line() {
    let text = "{\"kind\":\"ImagePullIntent\",\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\",\"image\":\"r.test/a:v1\"}\n";
    assert_eq!(encode_intent("r.test/a:v1"), text);
    assert_eq!(decode_intent(text.as_bytes()).unwrap().value, "r.test/a:v1");
}

#[test]
fn older_versions_and_gos_own_names_are_read() {
    let old = FULL.replace("v1beta1", "v1alpha1");
    let decoded = decode_record(old.as_bytes()).unwrap();
    assert_eq!((decoded.value, decoded.version), (full(), Version::Old));
    let internal = "kind: ImagePullIntent\napiVersion: kubelet.config.k8s.io/__internal\nImage: a";
    let decoded = decode_intent(internal.as_bytes()).unwrap();
    assert_eq!((decoded.value.as_str(), decoded.version), ("a", Version::Internal));
}

#[test]
fn what_a_strict_decoder_refuses_is_refused() {
    let head = r#""kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1""#;
    for (text, why) in [
        (format!(r#"{{{head},"image":"a","x":1}}"#), r#"unknown field "x""#),
        (format!(r#"{{{head},"Image":"a"}}"#), r#"unknown field "Image""#),
        (format!(r#"{{{head},"image":"a","image":"b"}}"#), r#"duplicate field "image""#),
        (
            format!(r#"{{{head},"image":5}}"#),
            "image: expected a string, found a number (line 1, column 80)",
        ),
        (format!(r#"{{{head},"image":"a"}}x"#), "invalid JSON at line 1, column 84: "),
        (
            r#"{"apiVersion":"kubelet.config.k8s.io/v1beta1","image":"a"}"#.into(),
            "its kind or apiVersion is another",
        ),
        (FULL.into(), "its kind or apiVersion is another"),
        (
            format!(r#"{{{head},"image":"a"}}"#).replace("v1beta1", "v1"),
            "its kind or apiVersion is another",
        ),
        ("image: a\nimage: b".into(), "its kind or apiVersion is another"),
        (String::new(), "its kind or apiVersion is another"),
    ] {
        let refused = decode_intent(text.as_bytes()).unwrap_err().to_string();
        assert!(refused.starts_with(why), "{refused}: {text}");
    }
}
