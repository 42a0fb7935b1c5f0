//! What others say, short enough for a line of a log.

/// The text, or as many of its first words as fit. No word is cut in two: half of a secret would not be known as one, and
/// be shown.
pub fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let first = text.get(..text.floor_char_boundary(longest)).unwrap_or_default();
    let whole = first.rsplit_once(char::is_whitespace).map_or("", |(words, _)| words);
    format!("{}…", whole.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_cut_in_two() {
        let rows = [
            ("", 5, ""),
            ("short", 5, "short"),
            ("a token hunter2", 14, "a token…"),
            ("a token hunter2 more", 15, "a token…"),
            ("hunter2-hunter2", 8, "…"),
            ("größer als hunter2", 3, "…"),
        ];
        for (text, longest, expected) in rows {
            assert_eq!(shortened(text, longest), expected, "{text}");
        }
    }
}
