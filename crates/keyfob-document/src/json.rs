//! JSON text to tree, accepting exactly what Go accepts.
//!
//! Upstream: `encoding/json` of Go 1.26 (its scanner for the grammar, `unquote` for strings): lone surrogates and bytes
//! that are not UTF-8 become U+FFFD, control characters in strings are refused, nesting ends at 10,000.
//! Differs: a document has at most [`super::MAX_VALUES`] values.
//! Differs: errors say where and what was wanted, and never quote the text.

mod text;

use thiserror::Error;

pub(super) use text::push_lossy;

use super::{Field, MAX_DEPTH, Node, Position, Shape, Value};
use crate::Secret;

/// Why a text is not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid JSON at {at}: {problem}")]
#[non_exhaustive]
pub struct JsonError {
    /// What is wrong.
    pub problem: JsonProblem,
    /// Where it is wrong.
    pub at: Position,
    /// How many bytes stand before that place.
    pub offset: usize,
}

/// What can be wrong with a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JsonProblem {
    /// The text stops too early.
    #[error("unexpected end")]
    UnexpectedEnd,
    /// Something else stands there.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A control character stands inside a string.
    #[error("control character in a string")]
    ControlCharacter,
    /// A backslash is followed by something that is no escape.
    #[error("invalid escape in a string")]
    InvalidEscape,
    /// Lists and objects lie too deep in each other.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// There are too many values.
    #[error("more than {0} values")]
    TooManyValues(usize),
    /// More text follows the value.
    #[error("unexpected text after the value")]
    TrailingData,
}

pub(super) fn read(
    text: &[u8],
    shape: &'static Shape,
    max_values: usize,
) -> Result<Node, JsonError> {
    let start = Position::START;
    Reader { text, at: 0, counted: 0, position: start, shape, max_values, values: 0 }.document()
}

/// A list or object that is not closed yet.
struct Open {
    at: Position,
    shape: &'static Shape,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    /// The fields before, and the name of the next.
    Map(Vec<Field>, Secret<String>, Position),
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// Up to where `position` has been counted.
    counted: usize,
    position: Position,
    /// What is wanted of the whole document.
    shape: &'static Shape,
    max_values: usize,
    /// How many values have been kept.
    values: usize,
}

impl<'a> Reader<'a> {
    /// One loop instead of recursion: text that nests too deep must not overflow the stack.
    fn document(&mut self) -> Result<Node, JsonError> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            let Some(mut node) = self.value_or_open(&mut open)? else {
                continue;
            };
            loop {
                match open.pop() {
                    None => return self.end(node),
                    Some(parent) => match self.add(parent, node)? {
                        Added::Open(parent) => {
                            open.push(parent);
                            break;
                        }
                        Added::Closed(parent) => node = parent,
                    },
                }
            }
        }
    }

    /// A whole value, or `None` after opening a list or object that is not empty.
    fn value_or_open(&mut self, open: &mut Vec<Open>) -> Result<Option<Node>, JsonError> {
        self.skip_space();
        let at = self.position();
        let shape = open.last().map_or(self.shape, Open::next);
        let keep = !matches!(shape, Shape::Nothing);
        let value = match self.peek() {
            Some(b'[' | b'{') => return self.open(at, shape, open),
            Some(b'"') => {
                let raw = self.string()?;
                if keep { Value::String(Secret::new(text::unquote(raw))) } else { Value::Null }
            }
            Some(b't') => self.literal(b"true", Value::Bool(true))?,
            Some(b'f') => self.literal(b"false", Value::Bool(false))?,
            Some(b'n') => self.literal(b"null", Value::Null)?,
            Some(b'-' | b'0'..=b'9') => {
                let raw = self.number()?;
                if keep { Value::Number(String::from_utf8_lossy(raw).into()) } else { Value::Null }
            }
            _ => return Err(self.expected("a value")),
        };
        Ok(Some(Node::new(value, at)))
    }

    fn open(
        &mut self,
        at: Position,
        shape: &'static Shape,
        open: &mut Vec<Open>,
    ) -> Result<Option<Node>, JsonError> {
        if open.len() >= MAX_DEPTH {
            return Err(self.error(JsonProblem::TooDeep));
        }
        let is_map = self.eat(b'{');
        if !is_map {
            self.at += 1;
        }
        self.skip_space();
        if self.eat(if is_map { b'}' } else { b']' }) {
            let value =
                if is_map { Value::Map(Box::default()) } else { Value::List(Box::default()) };
            return Ok(Some(Node::new(value, at)));
        }
        let content = if is_map {
            let (name, name_at) = self.name(shape.keeps(true))?;
            Content::Map(Vec::new(), name, name_at)
        } else {
            Content::List(Vec::new())
        };
        open.push(Open { at, shape, content });
        Ok(None)
    }

    fn add(&mut self, parent: Open, node: Node) -> Result<Added, JsonError> {
        self.skip_space();
        let Open { at, shape, content } = parent;
        match content {
            Content::List(mut items) => {
                if shape.keeps(false) {
                    self.count(1)?;
                    items.push(node);
                }
                if self.eat(b',') {
                    Ok(Added::Open(Open { at, shape, content: Content::List(items) }))
                } else if self.eat(b']') {
                    Ok(Added::Closed(Node::new(Value::List(items.into()), at)))
                } else {
                    Err(self.expected("`,` or `]`"))
                }
            }
            Content::Map(mut fields, name, name_at) => {
                if shape.keeps(true) {
                    self.count(2)?;
                    fields.push(Field { name, at: name_at, node });
                }
                if self.eat(b',') {
                    self.skip_space();
                    let (name, name_at) = self.name(shape.keeps(true))?;
                    let content = Content::Map(fields, name, name_at);
                    Ok(Added::Open(Open { at, shape, content }))
                } else if self.eat(b'}') {
                    Ok(Added::Closed(Node::new(Value::Map(fields.into()), at)))
                } else {
                    Err(self.expected("`,` or `}`"))
                }
            }
        }
    }

    fn count(&mut self, more: usize) -> Result<(), JsonError> {
        self.values += more;
        if self.values <= self.max_values {
            return Ok(());
        }
        Err(self.error(JsonProblem::TooManyValues(self.max_values)))
    }

    /// A field's name and the colon after it.
    fn name(&mut self, keep: bool) -> Result<(Secret<String>, Position), JsonError> {
        let at = self.position();
        if self.peek() != Some(b'"') {
            return Err(self.expected("a field name in double quotes"));
        }
        let raw = self.string()?;
        let name = if keep { Secret::new(text::unquote(raw)) } else { Secret::default() };
        self.skip_space();
        if self.eat(b':') { Ok((name, at)) } else { Err(self.expected("`:`")) }
    }

    fn end(&mut self, node: Node) -> Result<Node, JsonError> {
        self.skip_space();
        match self.peek() {
            None => Ok(node),
            Some(_) => Err(self.error(JsonProblem::TrailingData)),
        }
    }

    fn literal(&mut self, word: &[u8], value: Value) -> Result<Value, JsonError> {
        for wanted in word {
            if !self.eat(*wanted) {
                return Err(self.expected("`true`, `false` or `null`"));
            }
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<&'a [u8], JsonError> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.digits()?;
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    /// A string as it is written, without its quotes.
    fn string(&mut self) -> Result<&'a [u8], JsonError> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                None => return Err(self.error(JsonProblem::UnexpectedEnd)),
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..=0x1f) => return Err(self.error(JsonProblem::ControlCharacter)),
                Some(_) => self.at += 1,
            }
        }
        let raw = self.text.get(start..self.at).unwrap_or_default();
        self.at += 1;
        Ok(raw)
    }

    /// Checks an escape and steps over it.
    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        let hex_digits = match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 0,
            Some(b'u') => 4,
            Some(_) => return Err(self.error(JsonProblem::InvalidEscape)),
            None => return Err(self.error(JsonProblem::UnexpectedEnd)),
        };
        self.at += 1;
        for _ in 0..hex_digits {
            match self.peek() {
                Some(digit) if digit.is_ascii_hexdigit() => self.at += 1,
                Some(_) => return Err(self.error(JsonProblem::InvalidEscape)),
                None => return Err(self.error(JsonProblem::UnexpectedEnd)),
            }
        }
        Ok(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn position(&mut self) -> Position {
        for byte in self.text.get(self.counted..self.at).unwrap_or_default() {
            match byte {
                b'\n' => {
                    self.position.line += 1;
                    self.position.column = 1;
                }
                // The later bytes of a character.
                0x80..=0xbf => {}
                _ => self.position.column += 1,
            }
        }
        self.counted = self.at;
        self.position
    }

    fn expected(&mut self, what: &'static str) -> JsonError {
        self.error(match self.peek() {
            None => JsonProblem::UnexpectedEnd,
            Some(_) => JsonProblem::Expected(what),
        })
    }

    fn error(&mut self, problem: JsonProblem) -> JsonError {
        JsonError { problem, at: self.position(), offset: self.at }
    }
}

impl Open {
    /// What is wanted of the value that comes next.
    fn next(&self) -> &'static Shape {
        match &self.content {
            Content::List(_) => self.shape.item(),
            Content::Map(_, name, _) => self.shape.field(name.expose()),
        }
    }
}

enum Added {
    Open(Open),
    Closed(Node),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_VALUES;

    fn read(text: &[u8]) -> Result<Node, JsonError> {
        super::read(text, &Shape::Any, MAX_VALUES)
    }

    #[test]
    fn refusals_say_what_and_where() {
        let cases = [
            ("", JsonProblem::UnexpectedEnd, 1, 1),
            ("{\"é\":1,}", JsonProblem::Expected("a field name in double quotes"), 1, 8),
            ("[1\n 2]", JsonProblem::Expected("`,` or `]`"), 2, 2),
            ("01", JsonProblem::TrailingData, 1, 2),
            ("-", JsonProblem::UnexpectedEnd, 1, 2),
            ("1.", JsonProblem::UnexpectedEnd, 1, 3),
            ("nul", JsonProblem::UnexpectedEnd, 1, 4),
            ("\"\\x\"", JsonProblem::InvalidEscape, 1, 3),
            ("\"\\u12\"", JsonProblem::InvalidEscape, 1, 6),
            ("\"a\tb\"", JsonProblem::ControlCharacter, 1, 3),
            ("{} {}", JsonProblem::TrailingData, 1, 4),
        ];
        for (text, problem, line, column) in cases {
            let error = read(text.as_bytes()).unwrap_err();
            assert_eq!((error.problem, error.at), (problem, Position { line, column }), "{text}");
        }
    }

    #[test]
    fn repeated_fields_stay_in_order_with_their_places() {
        let root = read(b"{\"a\":1,\n \"a\": [true]}").unwrap();
        let Value::Map(fields) = &root.value else { panic!("{root:?}") };
        let places: Vec<(Position, Position)> = fields.iter().map(|f| (f.at, f.node.at)).collect();
        let place = |line, column| Position { line, column };
        assert_eq!(places, [(place(1, 2), place(1, 6)), (place(2, 2), place(2, 7))]);
    }
}
