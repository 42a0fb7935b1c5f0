//! What goes to stderr, and what happens when nothing can.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "support/node.rs"]
mod node;

use std::fs::File;

use serde_json::json;

use node::{Node, Said, program};

const IMAGE: &str = "r.example/team/app";

#[test]
fn a_log_that_cannot_be_written_costs_no_credential() {
    let node = Node::new().answering("good", &["r.example"], &[["r.example", "ada", "secret"]]);
    for logs in [&["-vvv"][..], &["-v", "--log-format", "json", "--feature-gates", "Some=true"]] {
        let mut command = program();
        command.args(["get", IMAGE, "-o", "json", "--config", &node.config(), "--bin-dir"]);
        command.arg(node.path("plugins")).args(logs);
        let full = File::options().write(true).open("/dev/full").unwrap();

        let said = Said::from(command.stderr(full).output().unwrap());

        assert_eq!(said.code, 0, "{}", said.stdout);
        assert_eq!(said.json()["credentials"][0]["username"], "ada");
    }
}

#[test]
fn whatever_a_variable_is_called_its_value_is_not_repeated() {
    let script = "cat >/dev/null\necho \"cannot use $PLAIN in $REGION\" >&2\nexit 3\n";
    let node = Node::new().with("bad", &["r.example"], script).having(
        "env",
        json!([{"name": "PLAIN", "value": "hunter2-plain"}, {"name": "REGION", "value": "eu-1"}]),
    );
    for command in ["get", "explain"] {
        let said = node.run(command, &[IMAGE, "-vvv"]);
        let shown = said.stdout + &said.stderr;
        assert!(shown.contains("cannot use [redacted] in eu-1"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
