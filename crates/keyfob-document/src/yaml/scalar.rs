//! The scanner's scalars: plain, quoted and block text.

use super::input::END;
use super::scanner::Scanner;
use super::token::{Placed, Token, is_blank, is_blank_or_end, is_break, is_break_or_end};
use super::{Mark, YamlError, YamlProblem, words};
use crate::buffer::WipingBuffer;

/// How a scalar is written that may go on over several lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Quoted,
}

/// White space between two words of a scalar: blanks on one line, or line breaks.
#[derive(Default)]
struct Gap {
    blanks: String,
    /// The first line break, and those after it.
    first_break: Option<char>,
    breaks: String,
}

impl Gap {
    /// Joins the words: one line break is a space, more are themselves without the first.
    fn fold_into(&mut self, text: &mut WipingBuffer) {
        match self.first_break.take() {
            None => text.push_str(&self.blanks),
            Some('\n') if self.breaks.is_empty() => text.push(' '),
            Some('\n') => text.push_str(&self.breaks),
            Some(separator) => {
                text.push(separator);
                text.push_str(&self.breaks);
            }
        }
        self.blanks.clear();
        self.breaks.clear();
    }

    /// Leaves every line break as it is.
    fn keep_in(&mut self, text: &mut WipingBuffer) {
        if let Some(line_break) = self.first_break.take() {
            text.push(line_break);
        }
        text.push_str(&self.breaks);
        self.breaks.clear();
    }
}

impl Scanner {
    /// Text without quotes, possibly over several lines.
    pub(super) fn scan_plain(&mut self) -> Result<Placed, YamlError> {
        let start = self.mark;
        let mut end = start;
        let mut text = WipingBuffer::default();
        let mut gap = Gap::default();
        while !self.at_document_indicator() && self.current() != '#' {
            while !self.at_plain_end() {
                gap.fold_into(&mut text);
                text.push(self.current());
                self.skip();
                end = self.mark;
            }
            if !is_blank(self.current()) && !is_break(self.current()) {
                break;
            }
            self.take_gap(&mut gap, Style::Plain)?;
            if self.flow_level == 0 && self.mark.column < self.indent {
                break;
            }
        }
        self.key_allowed |= gap.first_break.is_some();
        let token = Token::Scalar { text: text.into_text(), plain: true };
        Ok(Placed { token, start, end })
    }

    fn at_plain_end(&mut self) -> bool {
        match self.current() {
            ':' => is_blank_or_end(self.ahead(1)),
            ',' | '?' | '[' | ']' | '{' | '}' => self.flow_level > 0,
            c => is_blank_or_end(c),
        }
    }

    /// Reads blanks and line breaks; plain text may not be indented by tabs.
    fn take_gap(&mut self, gap: &mut Gap, style: Style) -> Result<(), YamlError> {
        loop {
            let c = self.current();
            if let Some(line_break) = self.line_break() {
                match gap.first_break {
                    None => {
                        gap.blanks.clear();
                        gap.first_break = Some(line_break);
                    }
                    Some(_) => gap.breaks.push(line_break),
                }
                continue;
            }
            if !is_blank(c) {
                return Ok(());
            }
            if gap.first_break.is_none() {
                gap.blanks.push(c);
            } else if c == '\t' && style == Style::Plain && self.mark.column < self.indent {
                return Err(self.mark.error(YamlProblem::TabInIndentation));
            }
            self.skip();
        }
    }

    /// Text in single or double quotes.
    pub(super) fn scan_quoted(&mut self) -> Result<Placed, YamlError> {
        let start = self.mark;
        let quote = self.current();
        self.skip();
        let mut text = WipingBuffer::default();
        loop {
            if self.at_document_indicator() {
                return Err(start.syntax(words::DOCUMENT_INDICATOR));
            }
            if self.current() == END {
                return Err(start.error(YamlProblem::UnclosedQuote));
            }
            let continued = self.take_quoted_word(quote, &mut text)?;
            if self.current() == quote {
                self.skip();
                let token = Token::Scalar { text: text.into_text(), plain: false };
                return Ok(self.placed(token, start));
            }
            self.take_quoted_gap(continued, &mut text)?;
        }
    }

    /// Reads up to white space or the closing quote. Returns whether the line was continued with a backslash.
    fn take_quoted_word(
        &mut self,
        quote: char,
        text: &mut WipingBuffer,
    ) -> Result<bool, YamlError> {
        while !is_blank_or_end(self.current()) {
            match (self.current(), self.ahead(1)) {
                ('\'', '\'') if quote == '\'' => {
                    text.push('\'');
                    self.skip();
                    self.skip();
                }
                (c, _) if c == quote => return Ok(false),
                ('\\', next) if quote == '"' && is_break(next) => {
                    self.skip();
                    self.line_break();
                    return Ok(true);
                }
                ('\\', next) if quote == '"' => text.push(self.take_escape(next)?),
                (c, _) => {
                    text.push(c);
                    self.skip();
                }
            }
        }
        Ok(false)
    }

    /// After a continued line, blanks do not count, and every line break does.
    fn take_quoted_gap(
        &mut self,
        continued: bool,
        text: &mut WipingBuffer,
    ) -> Result<(), YamlError> {
        let mut gap = Gap::default();
        if !continued {
            self.take_gap(&mut gap, Style::Quoted)?;
            gap.fold_into(text);
            return Ok(());
        }
        loop {
            self.skip_while(is_blank);
            match self.line_break() {
                Some(line_break) => text.push(line_break),
                None => return Ok(()),
            }
        }
    }

    fn take_escape(&mut self, code: char) -> Result<char, YamlError> {
        let at = self.mark;
        let c = match code {
            '0' => '\0',
            'a' => '\u{7}',
            'b' => '\u{8}',
            't' | '\t' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            'e' => '\u{1b}',
            ' ' | '"' | '\'' | '\\' => code,
            'N' => '\u{85}',
            '_' => '\u{a0}',
            'L' => '\u{2028}',
            'P' => '\u{2029}',
            'x' => return self.take_code_point(2),
            'u' => return self.take_code_point(4),
            'U' => return self.take_code_point(8),
            _ => return Err(at.syntax(words::BAD_ESCAPE)),
        };
        self.skip();
        self.skip();
        Ok(c)
    }

    fn take_code_point(&mut self, digits: usize) -> Result<char, YamlError> {
        let at = self.mark;
        self.skip();
        self.skip();
        let mut value = 0_u32;
        for _ in 0..digits {
            let Some(digit) = self.current().to_digit(16) else {
                return Err(at.syntax(words::NO_HEX_DIGITS));
            };
            value = value << 4 | digit;
            self.skip();
        }
        char::from_u32(value).ok_or_else(|| at.syntax(words::BAD_UNICODE_ESCAPE))
    }

    /// Literal (`|`) or folded (`>`) text.
    pub(super) fn scan_block_scalar(&mut self) -> Result<Placed, YamlError> {
        let start = self.mark;
        let folded = self.current() == '>';
        self.skip();
        let (chomping, increment) = self.scan_block_header(start)?;
        let mut indent = increment.map_or(0, |increment| self.indent.saturating_sub(1) + increment);
        let mut text = WipingBuffer::default();
        let mut gap = Gap::default();
        self.take_block_breaks(&mut indent, &mut gap.breaks, start)?;
        let mut after_blank = false;
        while self.mark.column == indent && self.current() != END {
            let blank = is_blank(self.current());
            if folded && !after_blank && !blank && gap.first_break == Some('\n') {
                gap.fold_into(&mut text);
            } else {
                gap.keep_in(&mut text);
            }
            after_blank = blank;
            self.take_line(&mut text);
            gap.first_break = self.line_break();
            self.take_block_breaks(&mut indent, &mut gap.breaks, start)?;
        }
        chomping.end(&gap, &mut text);
        let token = Token::Scalar { text: text.into_text(), plain: false };
        Ok(self.placed(token, start))
    }

    fn take_line(&mut self, text: &mut WipingBuffer) {
        while !is_break_or_end(self.current()) {
            text.push(self.current());
            self.skip();
        }
    }

    /// The chomping and indentation marks in either order, and the rest of their line.
    fn scan_block_header(&mut self, start: Mark) -> Result<(Chomping, Option<usize>), YamlError> {
        let mut chomping = self.take_chomping();
        let increment = self.take_increment(start)?;
        if chomping == Chomping::Clip {
            chomping = self.take_chomping();
        }
        self.skip_while(is_blank);
        self.skip_comment();
        if !is_break_or_end(self.current()) {
            return Err(start.syntax(words::BAD_BLOCK_HEADER));
        }
        self.line_break();
        Ok((chomping, increment))
    }

    fn take_chomping(&mut self) -> Chomping {
        let chomping = match self.current() {
            '+' => Chomping::Keep,
            '-' => Chomping::Strip,
            _ => return Chomping::Clip,
        };
        self.skip();
        chomping
    }

    fn take_increment(&mut self, start: Mark) -> Result<Option<usize>, YamlError> {
        match self.current().to_digit(10) {
            None => Ok(None),
            Some(0) => Err(start.syntax(words::ZERO_INDENT)),
            Some(digit) => {
                self.skip();
                Ok(usize::try_from(digit).ok())
            }
        }
    }

    /// Reads empty lines and the indentation of the next one; finds the indentation (0: not known yet) by it.
    fn take_block_breaks(
        &mut self,
        indent: &mut usize,
        breaks: &mut String,
        start: Mark,
    ) -> Result<(), YamlError> {
        let mut deepest = 0;
        loop {
            let inside = |column: usize| *indent == 0 || column < *indent;
            while inside(self.mark.column) && self.current() == ' ' {
                self.skip();
            }
            deepest = deepest.max(self.mark.column);
            if inside(self.mark.column) && self.current() == '\t' {
                return Err(start.error(YamlProblem::TabInIndentation));
            }
            match self.line_break() {
                Some(line_break) => breaks.push(line_break),
                None => break,
            }
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent).max(1);
        }
        Ok(())
    }
}

/// What becomes of the line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Clip,
    Strip,
    Keep,
}

impl Chomping {
    fn end(self, gap: &Gap, text: &mut WipingBuffer) {
        if let Some(line_break) = gap.first_break
            && self != Self::Strip
        {
            text.push(line_break);
        }
        if self == Self::Keep {
            text.push_str(&gap.breaks);
        }
    }
}
