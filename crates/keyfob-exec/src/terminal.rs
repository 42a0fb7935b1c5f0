//! Texts that others wrote, on a terminal: they must not move a cursor, colour anything or turn around what is read.

/// The text with such characters spelled out. Line breaks and tabs stay.
pub fn printable(text: &str) -> String {
    spelled_out(text, |c| steers(c) && !matches!(c, '\n' | '\t'), char::escape_default)
}

/// The same on one line, so that no line can be forged.
pub fn on_one_line(text: &str) -> String {
    spelled_out(text, steers, char::escape_default)
}

/// Whether a character does something to a terminal instead of being shown.
pub fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control()
}

/// The text with some of its characters spelled in some way.
pub fn spelled_out<S: IntoIterator<Item = char>>(
    text: &str,
    is_bad: impl Fn(char) -> bool,
    spell: impl Fn(char) -> S,
) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_bad(c) {
            shown.extend(spell(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_spelled_out_and_the_rest_is_not() {
        let text = "é\t\u{1b}[2J\u{7f}\u{9b}\u{202e}\n";

        assert_eq!(printable(text), "é\t\\u{1b}[2J\\u{7f}\\u{9b}\\u{202e}\n");
        assert_eq!(on_one_line(text), "é\\t\\u{1b}[2J\\u{7f}\\u{9b}\\u{202e}\\n");
    }
}
