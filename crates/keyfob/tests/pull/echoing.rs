//! A hostile registry that repeats the login, in every encoding and wherever it can.

use keyfob_testkit::{EchoAt, LeakCheck};

use crate::machine::Machine;

const PASSWORD: &str = "Correct-Horse/Battery+7";

#[test]
fn a_login_that_the_registry_echoes_is_not_printed() {
    for place in EchoAt::ALL {
        let (machine, registry) =
            (Machine::new(), place.server(&[PASSWORD, "ada:Correct-Horse/Battery+7"]));
        let host = registry.address().to_string();
        let login = machine.login("login.json", &host, "ada", PASSWORD);
        for verbosity in [&[][..], &["-vvv"], &["-vvv", "-o", "json"]] {
            let args = [&["--pull-secret", &login, "--retries", "0"], verbosity].concat();

            let said = machine.pull(&format!("{host}/team/app:v1"), &args);

            assert_eq!(said.code, 1, "{place:?}: {}{}", said.stdout, said.stderr);
            let leaks = LeakCheck::new([PASSWORD, &PASSWORD.to_ascii_lowercase()]);
            leaks.text("stdout", &said.stdout).text("stderr", &said.stderr);
            let all = said.stdout + &said.stderr;
            // What is no JSON is not shown at all.
            let is_shown = place != EchoAt::PlainBody && place != EchoAt::StatusMessage;
            assert!(!is_shown || all.contains("[redacted]"), "{place:?}: {all}");
        }
    }
}
