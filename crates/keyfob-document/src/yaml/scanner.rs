//! Characters to tokens: indentation, keys that only a later `:` reveals, flow brackets.
//!
//! A token that may turn out to be a key is held back until a `:` follows, its line ends, or 1,024 characters have passed.

mod key;

use std::collections::{HashMap, VecDeque};

use key::PossibleKey;

use super::{
    Mark, YamlError, YamlProblem,
    input::{END, Input},
    token::{Placed, Token, is_blank_or_end, is_break, is_break_or_end},
    words,
};
use crate::MAX_DEPTH;

pub(super) struct Scanner {
    pub(super) input: Input,
    pub(super) mark: Mark,
    /// How many flow brackets are open.
    pub(super) flow_level: usize,
    pub(super) key_allowed: bool,
    /// The block indentation as column + 1; zero outside of any block.
    pub(super) indent: usize,
    indents: Vec<usize>,
    tokens: VecDeque<Placed>,
    /// How many tokens have left the queue: the number of its first.
    taken: usize,
    /// One per flow level.
    keys: Vec<PossibleKey>,
    key_of_token: HashMap<usize, usize>,
}

impl Scanner {
    pub(super) fn new(text: &[u8]) -> Self {
        Self {
            input: Input::new(text),
            mark: Mark::default(),
            flow_level: 0,
            key_allowed: true,
            indent: 0,
            indents: Vec::new(),
            tokens: VecDeque::new(),
            taken: 0,
            keys: vec![PossibleKey::default()],
            key_of_token: HashMap::new(),
        }
    }

    /// The next token, which stays next.
    pub(super) fn peek(&mut self) -> Result<&Placed, YamlError> {
        self.fill()?;
        self.tokens.front().ok_or_else(|| self.mark.syntax(words::EARLY_END))
    }

    fn fill(&mut self) -> Result<(), YamlError> {
        while self.tokens.is_empty() || self.next_may_be_key()? {
            let fetched = self.fetch();
            // What cannot be read looks like the end, and is the better reason.
            self.input.check()?;
            fetched?;
        }
        Ok(())
    }

    /// The next token.
    pub(super) fn take(&mut self) -> Result<Placed, YamlError> {
        let end = self.peek()?.end;
        self.taken += 1;
        self.tokens.pop_front().ok_or_else(|| end.syntax(words::EARLY_END))
    }

    /// The character so many places ahead.
    pub(super) fn ahead(&mut self, count: usize) -> char {
        self.input.at(self.mark.index + count)
    }

    pub(super) fn current(&mut self) -> char {
        self.ahead(0)
    }

    pub(super) fn skip(&mut self) {
        self.mark.index += 1;
        self.mark.column += 1;
    }

    pub(super) fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        while wanted(self.current()) {
            self.skip();
        }
    }

    /// Steps over a line break and returns what it counts as; nothing happens elsewhere.
    pub(super) fn line_break(&mut self) -> Option<char> {
        let c = self.current();
        if !is_break(c) {
            return None;
        }
        let width = if c == '\r' && self.ahead(1) == '\n' { 2 } else { 1 };
        self.mark = Mark { index: self.mark.index + width, line: self.mark.line + 1, column: 0 };
        // Unlike the others, the Unicode separators stay what they are.
        Some(if matches!(c, '\u{2028}' | '\u{2029}') { c } else { '\n' })
    }

    pub(super) fn at_document_indicator(&mut self) -> bool {
        self.mark.column == 0
            && (self.three_of('-') || self.three_of('.'))
            && is_blank_or_end(self.ahead(3))
    }

    fn three_of(&mut self, c: char) -> bool {
        (0..3).all(|place| self.ahead(place) == c)
    }

    /// Adds at least one token to the queue.
    fn fetch(&mut self) -> Result<(), YamlError> {
        self.skip_to_token();
        self.unroll_indent(self.mark.column + 1);
        // Upstream always reads as far as `--- ` reaches, and so may find what cannot be read.
        self.ahead(3);
        let (c, next) = (self.current(), self.ahead(1));
        let (block, spaced) = (self.flow_level == 0, is_blank_or_end(next));
        match c {
            END => self.fetch_stream_end(),
            '%' if self.mark.column == 0 => self.fetch_directive(),
            '-' | '.' if self.at_document_indicator() => self.fetch_document_indicator(c),
            '[' => self.fetch_flow_start(Token::FlowSequenceStart),
            '{' => self.fetch_flow_start(Token::FlowMappingStart),
            ']' => self.fetch_flow_end(Token::FlowSequenceEnd),
            '}' => self.fetch_flow_end(Token::FlowMappingEnd),
            ',' => self.fetch_indicator(Token::FlowEntry, true),
            '-' if spaced => self.fetch_block_entry(),
            '?' if !block || spaced => self.fetch_key(),
            ':' if !block || spaced => self.fetch_value(),
            '*' | '&' => self.fetch_scanned(Self::scan_anchor),
            '!' => self.fetch_scanned(Self::scan_tag),
            '|' | '>' if block => self.fetch_block_scalar(),
            '\'' | '"' => self.fetch_scanned(Self::scan_quoted),
            '?' | ':' if block => self.fetch_scanned(Self::scan_plain),
            '\t' | '?' | ':' | '#' | '|' | '>' | '%' | '@' | '`' => {
                Err(self.mark.syntax(words::UNKNOWN_CHARACTER))
            }
            _ => self.fetch_scanned(Self::scan_plain),
        }
    }

    /// Steps over spaces, comments and line breaks.
    fn skip_to_token(&mut self) {
        loop {
            // A tab may not indent, so it is no space where a key could start.
            let tabs = self.flow_level > 0 || !self.key_allowed;
            self.skip_while(|c| c == ' ' || (tabs && c == '\t'));
            self.skip_comment();
            if self.line_break().is_none() {
                return;
            }
            self.key_allowed |= self.flow_level == 0;
        }
    }

    pub(super) fn skip_comment(&mut self) {
        if self.current() == '#' {
            self.skip_while(|c| !is_break_or_end(c));
        }
    }

    fn fetch_stream_end(&mut self) -> Result<(), YamlError> {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
        self.leave_blocks()?;
        self.push(Token::StreamEnd, self.mark);
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), YamlError> {
        self.leave_blocks()?;
        let start = self.mark;
        let token = self.scan_directive()?;
        self.push(token, start);
        Ok(())
    }

    fn fetch_document_indicator(&mut self, c: char) -> Result<(), YamlError> {
        self.leave_blocks()?;
        let start = self.mark;
        (0..3).for_each(|_| self.skip());
        self.push(if c == '-' { Token::DocumentStart } else { Token::DocumentEnd }, start);
        Ok(())
    }

    fn leave_blocks(&mut self) -> Result<(), YamlError> {
        self.unroll_indent(0);
        self.remove_key()?;
        self.key_allowed = false;
        Ok(())
    }

    fn fetch_flow_start(&mut self, token: Token) -> Result<(), YamlError> {
        self.save_key()?;
        self.keys.push(PossibleKey::none(self.taken + self.tokens.len()));
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return Err(self.mark.error(YamlProblem::TooDeep));
        }
        self.key_allowed = true;
        self.push_character(token);
        Ok(())
    }

    fn fetch_flow_end(&mut self, token: Token) -> Result<(), YamlError> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let Some(key) = self.keys.pop() {
                self.key_of_token.remove(&key.token);
            }
        }
        self.key_allowed = false;
        self.push_character(token);
        Ok(())
    }

    fn fetch_indicator(&mut self, token: Token, key_allowed: bool) -> Result<(), YamlError> {
        self.remove_key()?;
        self.key_allowed = key_allowed;
        self.push_character(token);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), YamlError> {
        self.open_block(Token::BlockSequenceStart, YamlProblem::Syntax(words::ENTRY_NOT_ALLOWED))?;
        self.fetch_indicator(Token::BlockEntry, true)
    }

    fn fetch_key(&mut self) -> Result<(), YamlError> {
        self.open_block(Token::BlockMappingStart, YamlProblem::Syntax(words::KEY_NOT_ALLOWED))?;
        self.fetch_indicator(Token::Key, self.flow_level == 0)
    }

    fn fetch_value(&mut self) -> Result<(), YamlError> {
        let level = self.keys.len() - 1;
        if self.key_is_valid(level)? {
            let key = self.keys.get(level).copied().unwrap_or_default();
            let number = Some(key.token);
            self.insert(number, Placed { token: Token::Key, start: key.mark, end: key.mark });
            self.roll_indent(key.mark, number, Token::BlockMappingStart)?;
            self.forget_key(level);
            self.key_allowed = false;
        } else {
            self.open_block(Token::BlockMappingStart, YamlProblem::UnexpectedColon)?;
            self.key_allowed = self.flow_level == 0;
        }
        self.push_character(Token::Value);
        Ok(())
    }

    /// A token that may start a key.
    fn fetch_scanned(
        &mut self,
        scan: fn(&mut Self) -> Result<Placed, YamlError>,
    ) -> Result<(), YamlError> {
        self.save_key()?;
        self.key_allowed = false;
        let placed = scan(self)?;
        self.tokens.push_back(placed);
        Ok(())
    }

    fn fetch_block_scalar(&mut self) -> Result<(), YamlError> {
        self.remove_key()?;
        self.key_allowed = true;
        let placed = self.scan_block_scalar()?;
        self.tokens.push_back(placed);
        Ok(())
    }

    fn open_block(&mut self, token: Token, refusal: YamlProblem) -> Result<(), YamlError> {
        if self.flow_level > 0 {
            return Ok(());
        }
        if !self.key_allowed {
            return Err(self.mark.error(refusal));
        }
        self.roll_indent(self.mark, None, token)
    }

    fn roll_indent(
        &mut self,
        mark: Mark,
        number: Option<usize>,
        token: Token,
    ) -> Result<(), YamlError> {
        if self.flow_level > 0 || self.indent > mark.column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = mark.column + 1;
        if self.indents.len() > MAX_DEPTH {
            return Err(mark.error(YamlProblem::TooDeep));
        }
        self.insert(number, Placed { token, start: mark, end: mark });
        Ok(())
    }

    /// Closes every block that is indented further than `indent` (a column + 1).
    fn unroll_indent(&mut self, indent: usize) {
        while self.flow_level == 0 && self.indent > indent {
            self.push(Token::BlockEnd, self.mark);
            self.indent = self.indents.pop().unwrap_or_default();
        }
    }

    fn push_character(&mut self, token: Token) {
        let start = self.mark;
        self.skip();
        self.push(token, start);
    }

    fn push(&mut self, token: Token, start: Mark) {
        self.tokens.push_back(Placed { token, start, end: self.mark });
    }

    /// Puts a token where another one has its number, or at the end.
    fn insert(&mut self, number: Option<usize>, placed: Placed) {
        let end = self.tokens.len();
        let place = number.map_or(end, |number| number.saturating_sub(self.taken).min(end));
        self.tokens.insert(place, placed);
    }
}
