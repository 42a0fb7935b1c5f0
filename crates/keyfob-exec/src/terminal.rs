//! Texts that others wrote, on a terminal: they must not move a cursor, colour anything or turn around what is read.

/// The text with such characters spelled out. Line breaks and tabs stay.
pub fn printable(text: &str) -> String {
    spelled_out(text, |c| steers(c) && !matches!(c, '\n' | '\t'), char::escape_default)
}

/// The same on one line, so that no line can be forged.
pub fn on_one_line(text: &str) -> String {
    spelled_out(text, steers, char::escape_default)
}

/// JSON whose strings have such characters as escapes. It says the same.
pub fn printable_json(json: &str) -> String {
    let escaped = |c: char| {
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units).iter();
        units
            .flat_map(|unit| format!("\\u{unit:04x}").chars().collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    // Outside of strings JSON has no control characters but line breaks and tabs.
    spelled_out(json, |c| steers(c) && !matches!(c, '\n' | '\r' | '\t'), escaped)
}

/// Whether a character does something to a terminal, or to the characters around it, instead of being shown: the control
/// and format characters of Unicode (Cc, Cf), its line and paragraph separators, and what is no character.
pub fn steers(c: char) -> bool {
    let formats = matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    let is_no_character = matches!(u32::from(c) & 0xffff, 0xfffe | 0xffff)
        || matches!(c, '\u{fdd0}'..='\u{fdef}' | '\u{f0000}'..);
    formats || is_no_character || c.is_control()
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

    #[test]
    fn format_characters_are_spelled_out_wherever_they_are() {
        let hidden = "\u{200b}\u{200d}\u{2066}\u{feff}\u{ad}\u{e0001}\u{e0041}\u{2028}\u{ffff}";
        assert!(on_one_line(hidden).is_ascii());
        assert!(printable_json(hidden).is_ascii());
        assert_eq!(on_one_line("é日本\u{1f600}"), "é日本\u{1f600}");
    }

    #[test]
    fn json_says_the_same_after_it_was_made_printable() {
        let json = "{\"a\":\n\"x\u{202e}\u{7f}\u{9b}\u{e0041}\"}\n";
        let shown = printable_json(json);
        assert_eq!(shown, "{\"a\":\n\"x\\u202e\\u007f\\u009b\\udb40\\udc41\"}\n");
        let same = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(same(&shown), same(json));
    }
}
