//! Documents made to cost time or memory. Each took seconds, or gigabytes, before it was bounded; a slow machine has no
//! say in the outcome, because what is checked is that the reader gives up or gets through.

use keyfob_api::{
    CredentialProviderResponse, ExecCredentialStatus, ExecVersion, ProviderVersion,
    document::{Document, DocumentError, JsonProblem, MAX_VALUES, YamlProblem},
};

const SIZE: usize = 1 << 18;

fn repeated(piece: &str) -> String {
    piece.repeat(SIZE / piece.len())
}

#[test]
fn a_long_tag_prefix_is_not_copied_to_every_node() {
    let text = format!("%TAG !a! {}\n---\n[{}]", repeated("x"), repeated("!a!x y,"));

    assert!(Document::read_yaml(text.as_bytes()).is_ok());
}

#[test]
fn many_tag_directives_are_looked_up_in_no_time() {
    let directives: Vec<String> = (0..SIZE / 12).map(|n| format!("%TAG !a{n}! x\n")).collect();
    let text = format!("{}---\nx: 1\n", directives.concat());

    assert!(Document::read_yaml(text.as_bytes()).is_ok());
}

#[test]
fn aliases_of_empty_merges_are_refused_in_the_end() {
    let text = format!("a: &a {{{}}}\nb: [{}]", repeated("<<: [],"), repeated("*a,"));

    let error = Document::read_yaml(text.as_bytes()).unwrap_err();

    assert!(error.to_string().contains("line 2"), "it is an alias that costs too much: {error}");
}

#[test]
fn aliases_repeat_only_so_much_text() {
    let text = format!("a: &a {}\nb: [{}]", repeated("x"), "*a,".repeat(200));

    assert!(Document::read_yaml(text.as_bytes()).is_err());
}

#[test]
fn repeated_fields_are_counted_once() {
    let kubelet = format!("{{{}\"auth\":null}}", repeated("\"auth\":null,"));
    let client = format!("{{{}\"status\":null}}", repeated("\"status\":{},"));

    assert!(CredentialProviderResponse::decode(kubelet.as_bytes(), ProviderVersion::V1).is_err());
    assert!(ExecCredentialStatus::decode(client.as_bytes(), ExecVersion::V1).is_err());
}

/// What an answer has beside the fields that a reader knows costs no more than its text.
#[test]
fn unknown_fields_of_an_answer_are_skipped_and_not_built() {
    let zeros = "0,".repeat(MAX_VALUES);
    let answer = format!(
        r#"{{"x":[{zeros}0],"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}}"#
    );
    let status = format!(
        r#"{{"x":[{zeros}0],"apiVersion":"client.authentication.k8s.io/v1","status":{{"token":"t","y":[{zeros}0]}}}}"#
    );

    let refused = CredentialProviderResponse::decode(answer.as_bytes(), ProviderVersion::V1);
    let read = ExecCredentialStatus::decode(status.as_bytes(), ExecVersion::V1);

    assert_eq!(refused.unwrap_err().to_string(), "unknown field (line 1, column 2)");
    assert_eq!(read.unwrap().token.unwrap().expose(), "t", "unknown fields are ignored");
}

#[test]
fn what_is_skipped_must_be_json_all_the_same() {
    let head = r#"{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","x":"#;
    for rest in ["[1,]}", "[\"\\x\"]}", "{\"a\" 1}}", "[tru]}", "-}", "[[1}}", "\"\t\"}"] {
        let text = format!("{head}{rest}");
        let read = CredentialProviderResponse::decode(text.as_bytes(), ProviderVersion::V1);
        let whole = Document::read_json(text.as_bytes()).unwrap_err();
        assert_eq!(read.unwrap_err().to_string(), whole.to_string(), "{rest}");
    }
}

#[test]
fn too_many_values_are_refused_where_they_become_too_many() {
    const MOST: usize = 10_000;
    let json = format!("{{\"a\":[\n{}]}}", vec!["0"; MAX_VALUES].join(","));
    let yaml = "- 0\n".repeat(MOST);
    let aliases = format!("- &a [{}]\n{}", "x,".repeat(99), "- *a\n".repeat(MOST / 100));

    let error = Document::read_json(json.as_bytes()).unwrap_err();
    assert_eq!((error.problem, error.at.line), (JsonProblem::TooManyValues(MAX_VALUES), 2));
    for (text, line) in [(yaml, MOST), (aliases, 1)] {
        let Err(DocumentError::Yaml(error)) = Document::read_up_to(text.as_bytes(), MOST) else {
            panic!("{line}")
        };
        assert_eq!((error.problem, error.at.line), (YamlProblem::TooManyValues(MOST), line));
    }
}

#[test]
fn of_many_repeated_keys_a_hundred_are_listed_and_the_rest_is_counted() {
    let document = Document::read_yaml("a: 1\n".repeat(10_000).as_bytes()).unwrap();

    assert_eq!((document.duplicates.len(), document.more_duplicates), (100, 9_899));
    let message = document.duplicates_message().unwrap();
    assert_eq!(message.lines().count(), 102);
    assert!(message.ends_with("\n  and 9899 more keys already set in map"), "{message}");
}

#[test]
fn a_mapping_of_many_keys_that_is_a_key_is_refused_in_no_time() {
    let keys: Vec<String> = (0..20_000).map(|n| format!("a{n}: 1")).collect();
    let text = format!("? {{{}}}\n: 1\n", keys.join(", "));

    let error = Document::read_yaml(text.as_bytes()).unwrap_err();

    assert_eq!(error.to_string(), "invalid YAML at line 1, column 3: invalid map key");
}
