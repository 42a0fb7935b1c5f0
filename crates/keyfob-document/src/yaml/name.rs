//! The scanner's names: directives, anchors, aliases and tags.

use super::scanner::Scanner;
use super::token::{Placed, Token, is_blank, is_blank_or_end, is_break_or_end};
use super::{Mark, YamlError, words};

impl Scanner {
    /// `%YAML 1.1` or `%TAG !e! tag:example.com,2000:`, with its line break.
    pub(super) fn scan_directive(&mut self) -> Result<Token, YamlError> {
        let start = self.mark;
        self.skip();
        let name = self.take_word();
        if name.is_empty() {
            return Err(start.syntax(words::DIRECTIVE_WITHOUT_NAME));
        }
        if !is_blank_or_end(self.current()) {
            return Err(start.syntax(words::BAD_DIRECTIVE_NAME));
        }
        self.skip_while(is_blank);
        let token = match name.as_str() {
            "YAML" => self.scan_version()?,
            "TAG" => self.scan_tag_directive()?,
            _ => return Err(start.syntax(words::UNKNOWN_DIRECTIVE)),
        };
        self.skip_while(is_blank);
        self.skip_comment();
        if !is_break_or_end(self.current()) {
            return Err(start.syntax(words::TRAILING_DIRECTIVE));
        }
        self.line_break();
        Ok(token)
    }

    fn scan_version(&mut self) -> Result<Token, YamlError> {
        let major = self.scan_version_number()?;
        if self.current() != '.' {
            return Err(self.mark.syntax(words::NO_VERSION_DOT));
        }
        self.skip();
        Ok(Token::Version(major, self.scan_version_number()?))
    }

    fn scan_version_number(&mut self) -> Result<u32, YamlError> {
        let start = self.mark;
        let mut number = 0;
        while let Some(digit) = self.current().to_digit(10) {
            number = number * 10 + digit;
            self.skip();
            if self.mark.index - start.index > 2 {
                return Err(start.syntax(words::LONG_VERSION));
            }
        }
        if self.mark.index == start.index {
            return Err(start.syntax(words::NO_VERSION));
        }
        Ok(number)
    }

    fn scan_tag_directive(&mut self) -> Result<Token, YamlError> {
        let handle = self.take_handle()?;
        if handle != b"!" && !(handle.len() > 1 && handle.ends_with(b"!")) {
            return Err(self.mark.syntax(words::NO_TAG_HANDLE));
        }
        if !is_blank(self.current()) {
            return Err(self.mark.syntax(words::NO_TAG_SPACE));
        }
        self.skip_while(is_blank);
        let prefix = self.take_uri(Vec::new())?;
        if prefix.is_empty() {
            return Err(self.mark.syntax(words::NO_TAG_NAME));
        }
        if !is_blank_or_end(self.current()) {
            return Err(self.mark.syntax(words::BAD_TAG_PREFIX));
        }
        Ok(Token::TagDirective { handle, prefix })
    }

    /// `&anchor` or `*alias`.
    pub(super) fn scan_anchor(&mut self) -> Result<Placed, YamlError> {
        let start = self.mark;
        let is_alias = self.current() == '*';
        self.skip();
        let name = self.take_word();
        let end = self.current();
        let ended =
            is_blank_or_end(end) || matches!(end, '?' | ':' | ',' | ']' | '}' | '%' | '@' | '`');
        if name.is_empty() || !ended {
            return Err(start.syntax(words::NO_ALIAS_NAME));
        }
        Ok(self.placed(if is_alias { Token::Alias(name) } else { Token::Anchor(name) }, start))
    }

    /// `!<verbatim>`, `!handle!suffix`, `!suffix` or `!`.
    pub(super) fn scan_tag(&mut self) -> Result<Placed, YamlError> {
        let start = self.mark;
        let token = if self.ahead(1) == '<' {
            self.scan_verbatim_tag(start)?
        } else {
            self.scan_shorthand_tag(start)?
        };
        if !is_blank_or_end(self.current()) {
            return Err(start.syntax(words::BAD_TAG));
        }
        Ok(self.placed(token, start))
    }

    fn scan_verbatim_tag(&mut self, start: Mark) -> Result<Token, YamlError> {
        self.skip();
        self.skip();
        let suffix = self.take_uri(Vec::new())?;
        if suffix.is_empty() {
            return Err(start.syntax(words::NO_TAG_NAME));
        }
        if self.current() != '>' {
            return Err(start.syntax(words::NO_TAG_END));
        }
        self.skip();
        Ok(Token::Tag { handle: Vec::new(), suffix })
    }

    fn scan_shorthand_tag(&mut self, start: Mark) -> Result<Token, YamlError> {
        let handle = self.take_handle()?;
        if handle.len() > 1 && handle.ends_with(b"!") {
            let suffix = self.take_uri(Vec::new())?;
            if suffix.is_empty() {
                return Err(start.syntax(words::NO_TAG_NAME));
            }
            return Ok(Token::Tag { handle, suffix });
        }
        let suffix = self.take_uri(handle.get(1..).unwrap_or_default().to_vec())?;
        // A lone `!` is no shorthand: it is the tag itself.
        Ok(if suffix.is_empty() {
            Token::Tag { handle: Vec::new(), suffix: handle }
        } else {
            Token::Tag { handle: b"!".to_vec(), suffix }
        })
    }

    fn take_handle(&mut self) -> Result<Vec<u8>, YamlError> {
        if self.current() != '!' {
            return Err(self.mark.syntax(words::NO_TAG_HANDLE));
        }
        self.skip();
        let mut handle = format!("!{}", self.take_word());
        if self.current() == '!' {
            self.skip();
            handle.push('!');
        }
        Ok(handle.into_bytes())
    }

    /// The characters of a URI, escapes decoded, after what was already read of it.
    fn take_uri(&mut self, mut uri: Vec<u8>) -> Result<Vec<u8>, YamlError> {
        loop {
            match self.current() {
                '%' => self.take_escaped_character(&mut uri)?,
                c if is_uri(c) => {
                    uri.extend(c.encode_utf8(&mut [0; 4]).bytes());
                    self.skip();
                }
                _ => return Ok(uri),
            }
        }
    }

    /// One character as `%C3%A9`.
    fn take_escaped_character(&mut self, uri: &mut Vec<u8>) -> Result<(), YamlError> {
        let first = self.take_escaped_byte()?;
        let more = match first {
            0..0x80 => 0,
            0xc0..0xe0 => 1,
            0xe0..0xf0 => 2,
            0xf0..0xf8 => 3,
            _ => return Err(self.mark.syntax(words::TAG_OCTET)),
        };
        uri.push(first);
        for _ in 0..more {
            let byte = self.take_escaped_byte()?;
            if byte & 0xc0 != 0x80 {
                return Err(self.mark.syntax(words::TAG_OCTET));
            }
            uri.push(byte);
        }
        Ok(())
    }

    fn take_escaped_byte(&mut self) -> Result<u8, YamlError> {
        let digits = [self.ahead(1), self.ahead(2)].map(|c| c.to_digit(16));
        let ('%', [Some(high), Some(low)]) = (self.current(), digits) else {
            return Err(self.mark.syntax(words::BAD_TAG_ESCAPE));
        };
        (0..3).for_each(|_| self.skip());
        Ok(u8::try_from(high * 16 + low).unwrap_or_default())
    }

    fn take_word(&mut self) -> String {
        let mut word = String::new();
        while is_word(self.current()) {
            word.push(self.current());
            self.skip();
        }
        word
    }

    pub(super) fn placed(&self, token: Token, start: Mark) -> Placed {
        Placed { token, start, end: self.mark }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn is_uri(c: char) -> bool {
    is_word(c) || ";/?:@&=+$,.!~*'()[]".contains(c)
}
