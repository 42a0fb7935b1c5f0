//! Reads the agent's error document, `{"error": {"code", "message", "help"}}`.
//!
//! This is a scanner for one known shape, not a JSON library, which would be a large part of this program. It is strict: if the
//! document is not valid JSON, or a field has another type or occurs twice, there is no result. Nesting is bounded, so
//! that the recursion is too.

const MAX_DEPTH: u8 = 16;

/// Why the agent gave no credentials.
#[derive(Default)]
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct ErrorDocument {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// Reads an error document. Fields that are not known are skipped.
pub(crate) fn error_document(body: &[u8]) -> Option<ErrorDocument> {
    let mut scanner = Scanner { rest: str::from_utf8(body).ok()? };
    let mut found = None;
    scanner.object(MAX_DEPTH, |scanner, key, depth| {
        if key != "error" {
            return scanner.skip(depth);
        }
        let (mut message, mut help) = (None, None);
        scanner.object(depth, |scanner, key, depth| match key {
            "message" => set_once(&mut message, scanner.string()?),
            "help" => set_once(&mut help, scanner.string()?),
            _ => scanner.skip(depth),
        })?;
        set_once(&mut found, ErrorDocument { message: message?, help })
    })?;
    scanner.blanks();
    found.filter(|_| scanner.rest.is_empty())
}

fn set_once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.replace(value).is_none().then_some(())
}

/// What is left of a document. Each method takes one thing from its beginning, and gives `None` if something else is there.
struct Scanner<'a> {
    rest: &'a str,
}

impl Scanner<'_> {
    /// Takes an object and calls `member` for the value of each key.
    fn object(
        &mut self,
        depth: u8,
        mut member: impl FnMut(&mut Self, &str, u8) -> Option<()>,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.token('{')?;
        if self.token('}').is_some() {
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.token(':')?;
            member(self, &key, depth)?;
            if self.token(',').is_none() {
                return self.token('}');
            }
        }
    }

    fn array(&mut self, depth: u8) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.token('[')?;
        if self.token(']').is_some() {
            return Some(());
        }
        loop {
            self.skip(depth)?;
            if self.token(',').is_none() {
                return self.token(']');
            }
        }
    }

    /// Takes a value of any type.
    fn skip(&mut self, depth: u8) -> Option<()> {
        self.blanks();
        match self.rest.chars().next()? {
            '{' => self.object(depth, Self::skip_member),
            '[' => self.array(depth),
            '"' => self.string().map(drop),
            '-' | '0'..='9' => self.number(),
            _ => ["true", "false", "null"].into_iter().find_map(|word| self.literal(word)),
        }
    }

    fn skip_member(&mut self, _key: &str, depth: u8) -> Option<()> {
        self.skip(depth)
    }

    fn string(&mut self) -> Option<String> {
        self.token('"')?;
        let mut text = String::new();
        loop {
            let end = self.rest.find(|c: char| matches!(c, '"' | '\\') || c < ' ')?;
            let (plain, rest) = self.rest.split_at_checked(end)?;
            text.push_str(plain);
            let mut chars = rest.chars();
            let c = chars.next()?;
            self.rest = chars.as_str();
            match c {
                '"' => return Some(text),
                '\\' => text.push(self.escape()?),
                // A control character that is not escaped.
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        Some(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode_escape(),
            _ => return None,
        })
    }

    /// The digits of `\uXXXX`. A character outside the basic plane is a pair of surrogates.
    fn unicode_escape(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if !(0xd800..0xdc00).contains(&first) {
            // Fails for a second surrogate that is alone.
            return char::from_u32(u32::from(first));
        }
        self.literal("\\u")?;
        let second = self.hex4()?;
        char::decode_utf16([first, second]).next()?.ok()
    }

    fn hex4(&mut self) -> Option<u16> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        self.rest = rest;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    }

    fn number(&mut self) -> Option<()> {
        // A missing sign is fine.
        self.literal("-").unwrap_or_default();
        if self.literal("0").is_none() {
            self.digits()?;
        }
        if self.literal(".").is_some() {
            self.digits()?;
        }
        if self.literal("e").or_else(|| self.literal("E")).is_some() {
            self.literal("+").or_else(|| self.literal("-")).unwrap_or_default();
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let taken = rest.len() < self.rest.len();
        self.rest = rest;
        taken.then_some(())
    }

    /// A punctuation mark, after any blanks.
    fn token(&mut self, mark: char) -> Option<()> {
        self.blanks();
        self.rest = self.rest.strip_prefix(mark)?;
        Some(())
    }

    fn literal(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Option<String>)> {
        error_document(text.as_bytes()).map(|found| (found.message, found.help))
    }

    #[test]
    fn message_and_help_are_found_among_other_fields() {
        let cases = [
            (
                r#"{"error":{"code":"denied","message":"no rule","help":"add one"}}"#,
                "no rule",
                Some("add one"),
            ),
            (r#"{"error":{"message":"no rule"}}"#, "no rule", None),
            (
                " {\"a\": [1, -2.5e+3, true, null, {}, []],\n\t\"error\" : { \"message\" : \"m\" , \"details\" : {\"message\": [\"x\"]}}, \"b\": 0 }\r\n",
                "m",
                None,
            ),
            (
                r#"{"error":{"message":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"}}"#,
                "\"\\/\u{8}\u{c}\n\r\té😀é",
                None,
            ),
            (r#"{"error":{"message":""}}"#, "", None),
        ];
        for (text, message, help) in cases {
            assert_eq!(read(text), Some((message.to_owned(), help.map(str::to_owned))), "{text}");
        }
    }

    #[test]
    fn anything_else_has_no_result() {
        let cases = [
            "",
            "null",
            "not found",
            "{}",
            r#"{"error":"message"}"#,
            r#"{"error":{}}"#,
            r#"{"error":{"help":"h"}}"#,
            r#"{"error":{"message":1}}"#,
            r#"{"error":{"message":"a","message":"b"}}"#,
            r#"{"error":{"message":"a"},"error":{"message":"b"}}"#,
            r#"{"error":{"message":"a"}} x"#,
            r#"{"error":{"message":"a"},}"#,
            r#"{"error":{"message":"a"}"#,
            r#"{"error":{"message":"a}}"#,
            r#"{"error":{"message":"\x"}}"#,
            r#"{"error":{"message":"\u12"}}"#,
            r#"{"error":{"message":"\u+123"}}"#,
            r#"{"error":{"message":"\ud83d"}}"#,
            r#"{"error":{"message":"\ude00"}}"#,
            r#"{"error":{"message":"\ud83d\u0041"}}"#,
            "{\"error\":{\"message\":\"a\nb\"}}",
            r#"{"error":{"message":"a"},"n":01}"#,
            r#"{"error":{"message":"a"},"n":-}"#,
            r#"{"error":{"message":"a"},"n":1.}"#,
            r#"{"error":{"message":"a"},"n":1e}"#,
            r#"{"error":{"message":"a"},"n":tru}"#,
            r#"{"error":{"message":"a"},n:1}"#,
        ];
        for text in cases {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(error_document(b"{\"error\":{\"message\":\"\xff\"}}"), None);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| {
            format!(
                r#"{{"error":{{"message":"a"}},"n":{}{}}}"#,
                "[".repeat(levels),
                "]".repeat(levels)
            )
        };
        assert!(read(&nested(15)).is_some());
        assert_eq!(read(&nested(16)), None);
        assert_eq!(read(&nested(100_000)), None);
    }
}
