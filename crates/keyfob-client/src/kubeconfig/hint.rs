//! What a kubeconfig tells a person to install.
//!
//! Upstream: `cleanANSIEscapeCodes` in `clientcmd/client_config.go`.
//! Differs: a character that Unicode assigned after Go's tables (15.0) is shown (upstream: spelled out).

use keyfob_api::go_is_print;
use keyfob_exec::spelled_out;

/// An install hint that cannot steer a terminal: letters, marks, numbers, punctuation, symbols, spaces and line breaks stay,
/// everything else is spelled out.
///
/// ```
/// assert_eq!(keyfob_client::printable_hint("\u{1b}[1mget it\n"), "U+001B[1mget it\n");
/// ```
pub fn printable_hint(hint: &str) -> String {
    spelled_out(
        hint,
        |c| !is_shown(c),
        |c| format!("U+{:04X}", u32::from(c)).chars().collect::<Vec<_>>(),
    )
}

fn is_shown(c: char) -> bool {
    // The next line U+0085 is a control character, and the only space that is one beyond ASCII.
    let is_space = c.is_whitespace() && c != '\u{85}';
    is_space || go_is_print(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_character_is_shown_or_spelled_out() {
        let shown = "aé日\u{301}5Ⅷ!«$+\u{a0}\u{2003}\u{2028}\u{2029}\u{3000}\t\n\u{b}\u{c}\r 😀";
        assert_eq!(printable_hint(shown), shown);

        let steering = "\0\u{7}\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{378}\u{200b}\u{202e}\u{e000}\u{feff}\u{e0041}\u{10ffff}";
        for c in steering.chars() {
            assert_eq!(printable_hint(&c.to_string()), format!("U+{:04X}", u32::from(c)));
        }
    }
}
