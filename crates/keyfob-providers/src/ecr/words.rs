//! A command line, without a shell.

/// The words of a command line, by the quoting rules of a shell and nothing else of it: no variables, no pipes, no
/// patterns. `None` if a quote is left open.
pub(super) fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => word.get_or_insert_default().push_str(&single_quoted(&mut chars)?),
            '"' => word.get_or_insert_default().push_str(&double_quoted(&mut chars)?),
            '\\' => word.get_or_insert_default().push(chars.next()?),
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    Some(words)
}

fn single_quoted(chars: &mut impl Iterator<Item = char>) -> Option<String> {
    let mut text = String::new();
    loop {
        match chars.next()? {
            '\'' => return Some(text),
            char => text.push(char),
        }
    }
}

/// A backslash stands for itself here, except before what it keeps from ending the quote.
fn double_quoted(chars: &mut impl Iterator<Item = char>) -> Option<String> {
    let mut text = String::new();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => match chars.next()? {
                kept @ ('"' | '\\') => text.push(kept),
                char => text.extend(['\\', char]),
            },
            char => text.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_would() {
        let rows: &[(&str, &[&str])] = &[
            ("", &[]),
            ("/opt/helper  --user\thelen", &["/opt/helper", "--user", "helen"]),
            (r#""/opt/a b/helper" 'x y'"#, &["/opt/a b/helper", "x y"]),
            (r#"helper --name="a b"c '' "#, &["helper", "--name=a bc", ""]),
            (r"helper a\ b \'", &["helper", "a b", "'"]),
            (r#"helper "a\"b\\c\d" '\'"#, &["helper", r#"a"b\c\d"#, r"\"]),
            ("helper $HOME ; rm * | sh", &["helper", "$HOME", ";", "rm", "*", "|", "sh"]),
        ];
        for (line, words) in rows {
            assert_eq!(split(line).unwrap(), *words, "{line}");
        }
    }

    #[test]
    fn a_quote_left_open_is_no_command() {
        for line in ["helper 'x", "helper \"x", "helper \"x\\", "helper \\"] {
            assert_eq!(split(line), None, "{line}");
        }
    }
}
