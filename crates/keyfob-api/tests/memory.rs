//! What it costs to read documents that are made to cost memory.
//!
//! A text of `[0,0,…]` used to take 65 times its length. One test, because the heap is measured as a whole.

use std::alloc::System;

use cap::Cap;
use keyfob_api::{
    CredentialProviderResponse, ExecCredentialStatus, ExecVersion, ProviderVersion,
    RegistryCredentialPluginResponse,
    document::{Document, MAX_VALUES},
};

#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// Shorter than a plugin's answer may be, and long enough for more values than are read.
const SIZE: usize = 1 << 20;

const MIB: usize = 1 << 20;

/// Four times the 8 MiB that a plugin's answer may have.
const LIMIT: usize = 32 * MIB;

const ANSWER: &str = r#""kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image""#;

const STATUS: &str = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}"#;

/// YAML is read slowly without optimisation: a part of the values has to do.
const PART: usize = 16;

/// What it is called, and how it is made.
type Case = (&'static str, fn() -> String);

#[test]
fn no_document_takes_more_memory_than_the_bound_allows() {
    let yaml: [Case; 11] = [
        ("flow items", || format!("a: {}", flow("0,"))),
        ("flow items beyond ASCII", || format!("é: {}", flow("é,"))),
        ("empty lists", || flow("[],")),
        ("block items", || part("-\n")),
        ("block fields", || numbered(SIZE / PART / 10, |n| format!("a{n}: 1\n"))),
        ("repeated keys", || part("a: 1\n")),
        ("explicit keys", || part("? \n")),
        ("tags", || flow("!a b,")),
        ("anchors", || flow("&a b,")),
        ("aliases", || format!("a: &a [x]\nb: {}", flow("*a,"))),
        ("aliases of aliases", laughs),
    ];
    for (name, document) in yaml {
        let text = document();

        drop(Document::read_up_to(text.as_bytes(), MAX_VALUES / PART));

        // Some 64 MiB for a whole answer, and what does not depend on its length.
        check(name, (2 * LIMIT + 16 * MIB) / PART);
    }
    let json: [Case; 11] = [
        ("items", || format!("{{\"a\":{}}}", list("0,"))),
        ("strings", || format!("{{\"a\":{}}}", list(r#""a","#))),
        ("fields", || object(r#""":0,"#)),
        ("many digits", || format!("{{\"a\":{}}}", "9".repeat(SIZE))),
        ("a long text", || format!("{{\"{0}\":\"{0}\"}}", "a".repeat(SIZE / 2))),
        ("deep lists", || {
            format!("{{\"a\":{}}}", list(&format!("{}{},", "[".repeat(9_000), "]".repeat(9_000))))
        }),
        ("an unknown field", || format!("{{{ANSWER},\"x\":{}}}", list("0,"))),
        ("many unknown fields", || format!("{{{ANSWER},{}\"y\":0}}", of_size(r#""x":0,"#))),
        ("logins", || format!("{{{ANSWER},\"auth\":{}}}", logins())),
        ("a list for a login", || format!("{{{ANSWER},\"auth\":{{\"a\":{}}}}}", list("0,"))),
        ("a list beside a token", || format!("{{{STATUS},\"x\":{}}}", list("0,"))),
    ];
    for (name, document) in json {
        let text = document();

        drop(Document::read(text.as_bytes()));
        drop(CredentialProviderResponse::decode(text.as_bytes(), ProviderVersion::V1));
        drop(RegistryCredentialPluginResponse::decode(text.as_bytes()));
        drop(ExecCredentialStatus::decode(text.as_bytes(), ExecVersion::V1));

        check(name, LIMIT);
    }
}

/// The most that has been allocated at once until now, the text itself included.
fn check(name: &str, limit: usize) {
    let most = HEAP.max_allocated();
    assert!(most <= limit, "{name}: {} MiB at most", most >> 20);
}

fn of_size(piece: &str) -> String {
    piece.repeat(SIZE / piece.len())
}

fn part(piece: &str) -> String {
    piece.repeat(SIZE / PART / piece.len())
}

fn flow(piece: &str) -> String {
    format!("[{}0]", part(piece))
}

fn list(piece: &str) -> String {
    format!("[{}0]", of_size(piece))
}

fn object(piece: &str) -> String {
    format!("{{{}\"z\":0}}", of_size(piece))
}

fn numbered(count: usize, piece: fn(usize) -> String) -> String {
    (0..count).map(piece).collect::<Vec<_>>().concat()
}

/// As many different registries as fit.
fn logins() -> String {
    let entries = numbered(SIZE / 13, |n| format!("\"{n:07}\":{{}},"));
    format!("{{{entries}\"z\":{{}}}}")
}

/// Each list repeats the one before ten times.
fn laughs() -> String {
    let mut lines = vec!["a0: &a0 [x]\n".to_owned()];
    for n in 1..9 {
        let before = format!("*a{}, ", n - 1).repeat(10);
        lines.push(format!("a{n}: &a{n} [{before}]\n"));
    }
    lines.concat()
}
