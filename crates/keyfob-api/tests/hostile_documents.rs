//! Documents made to cost time or memory. Each took seconds, or gigabytes, before it was bounded; a slow machine has no
//! say in the outcome, because what is checked is that the reader gives up or gets through.

use keyfob_api::{
    CredentialProviderResponse, ExecCredentialStatus, ExecVersion, ProviderVersion,
    document::Document,
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
