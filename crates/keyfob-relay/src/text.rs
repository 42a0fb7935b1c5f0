//! Text of others on a terminal: on one line, of bounded length, and without characters that control the terminal.

use std::fmt::Write as _;

/// Longer texts are cut. A message of the agent is one sentence.
const MAX_CHARS: usize = 2_000;

/// The text with control and invisible format characters escaped, so that it can neither forge a line nor move the cursor nor
/// reverse what follows it.
pub(crate) fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(MAX_CHARS));
    for (count, c) in text.chars().enumerate() {
        if count == MAX_CHARS {
            line.push('…');
            break;
        }
        if is_unsafe(c) {
            // Writing to a string cannot fail.
            write!(line, "{}", c.escape_default()).unwrap_or_default();
        } else {
            line.push(c);
        }
    }
    line
}

/// Control characters, line and paragraph separators, and format characters that change the direction of text or are invisible.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_control_a_terminal_are_escaped_and_others_are_kept() {
        let cases = [
            ("héllo wörld ✓", "héllo wörld ✓"),
            ("a\r\nkeyfob-relay: forged", "a\\r\\nkeyfob-relay: forged"),
            ("\u{1b}[31mred\u{7}\0", "\\u{1b}[31mred\\u{7}\\u{0}"),
            ("\u{202e}txt.exe\u{feff}", "\\u{202e}txt.exe\\u{feff}"),
            ("\u{9b}31m\u{2028}", "\\u{9b}31m\\u{2028}"),
        ];
        for (text, expected) in cases {
            assert_eq!(on_one_line(text), expected);
        }
    }

    #[test]
    fn long_texts_are_cut() {
        let line = on_one_line(&"x".repeat(MAX_CHARS + 1));
        assert_eq!(line, format!("{}…", "x".repeat(MAX_CHARS)));
    }
}
