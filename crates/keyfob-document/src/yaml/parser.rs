//! Tokens to events: what starts, what ends, which text stands between.
//!
//! A stack of states instead of recursion, because the nesting is the text's choice.

mod flow;

use std::collections::HashMap;

use super::scanner::Scanner;
use super::token::{Placed, Token};
use super::{Mark, YamlError, YamlProblem, words};
use crate::Secret;

/// What happens next in a document.
pub(super) enum Event {
    Alias(String),
    Scalar(Scalar, Option<String>),
    SequenceStart(Option<String>),
    SequenceEnd,
    MappingStart(Option<String>),
    MappingEnd,
    DocumentEnd,
}

/// Text and what decides its type.
pub(super) struct Scalar {
    pub(super) text: Secret<String>,
    /// The full tag; empty if there is none.
    pub(super) tag: Vec<u8>,
    /// Whether the text may resolve to something else than a string.
    pub(super) implicit: bool,
}

#[derive(Clone, Copy)]
enum State {
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequence,
    IndentlessSequence,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirst,
    FlowSequence,
    PairKey,
    PairValue,
    PairEnd,
    FlowMappingFirst,
    FlowMapping,
    FlowMappingValue,
    FlowMappingNoValue,
}

/// Where a node stands decides which forms it may take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Flow,
    Block,
    /// A block where `- a` may stand without further indentation: a mapping's key or value.
    BlockOrIndentless,
}

type Placement = Result<(Event, Mark), YamlError>;

pub(super) struct Parser {
    scanner: Scanner,
    state: State,
    /// What follows when the current node is complete.
    states: Vec<State>,
    tag_prefixes: HashMap<Vec<u8>, Vec<u8>>,
}

impl Parser {
    /// A parser inside the first document of a text; `None` if there is no document.
    pub(super) fn first_document(text: &[u8]) -> Result<Option<Self>, YamlError> {
        let mut parser = Self {
            scanner: Scanner::new(text),
            state: State::BlockNode,
            states: vec![State::DocumentEnd],
            tag_prefixes: HashMap::new(),
        };
        match parser.scanner.peek()?.token {
            Token::StreamEnd => return Ok(None),
            Token::Version(..) | Token::TagDirective { .. } | Token::DocumentStart => {
                parser.directives()?;
                let start = parser.scanner.take()?;
                if !matches!(start.token, Token::DocumentStart) {
                    return Err(start.start.syntax(words::EXPECTED_DOCUMENT));
                }
                parser.state = State::DocumentContent;
            }
            _ => {}
        }
        parser.default_prefix(b"!", b"!");
        parser.default_prefix(b"!!", b"tag:yaml.org,2002:");
        Ok(Some(parser))
    }

    /// The next event and where it starts.
    pub(super) fn next(&mut self) -> Placement {
        match self.state {
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => Ok((Event::DocumentEnd, self.scanner.peek()?.start)),
            State::BlockNode => self.node(Place::Block),
            State::BlockSequence => self.block_sequence(),
            State::IndentlessSequence => self.indentless_sequence(),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirst => self.flow_sequence_entry(),
            State::FlowSequence => self.flow_sequence(),
            State::PairKey => self.pair_key(),
            State::PairValue => self.pair_value(),
            State::PairEnd => self.pair_end(),
            State::FlowMappingFirst => self.flow_mapping_entry(),
            State::FlowMapping => self.flow_mapping(),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingNoValue => self.empty(State::FlowMapping),
        }
    }

    fn directives(&mut self) -> Result<(), YamlError> {
        let mut version_seen = false;
        loop {
            let at = self.scanner.peek()?.start;
            match &self.scanner.peek()?.token {
                Token::Version(..) if version_seen => {
                    return Err(at.syntax(words::REPEATED_VERSION));
                }
                Token::Version(1, 1) => version_seen = true,
                Token::Version(..) => return Err(at.error(YamlProblem::UnsupportedVersion)),
                Token::TagDirective { .. } => {}
                _ => return Ok(()),
            }
            if let Token::TagDirective { handle, prefix } = self.scanner.take()?.token {
                if self.prefix(&handle).is_some() {
                    return Err(at.syntax(words::REPEATED_TAG));
                }
                self.tag_prefixes.insert(handle, prefix);
            }
        }
    }

    fn default_prefix(&mut self, handle: &[u8], prefix: &[u8]) {
        if self.prefix(handle).is_none() {
            self.tag_prefixes.insert(handle.to_vec(), prefix.to_vec());
        }
    }

    fn prefix(&self, handle: &[u8]) -> Option<&[u8]> {
        self.tag_prefixes.get(handle).map(Vec::as_slice)
    }

    fn document_content(&mut self) -> Placement {
        match self.scanner.peek()?.token {
            Token::Version(..)
            | Token::TagDirective { .. }
            | Token::DocumentStart
            | Token::DocumentEnd
            | Token::StreamEnd => self.empty(State::DocumentEnd),
            _ => self.node(Place::Block),
        }
    }

    fn node(&mut self, place: Place) -> Placement {
        let start = self.scanner.peek()?.start;
        if matches!(self.scanner.peek()?.token, Token::Alias(_)) {
            return self.alias();
        }
        let (anchor, tag) = self.properties()?;
        let has_properties = anchor.is_some() || !tag.is_empty();
        let event = match self.scanner.peek()?.token {
            Token::BlockEntry if place == Place::BlockOrIndentless => {
                self.state = State::IndentlessSequence;
                Event::SequenceStart(anchor)
            }
            Token::Scalar { .. } => self.scalar(anchor, tag)?,
            Token::FlowSequenceStart => self.sequence(State::FlowSequenceFirst, anchor)?,
            Token::FlowMappingStart => self.mapping(State::FlowMappingFirst, anchor)?,
            Token::BlockSequenceStart if place != Place::Flow => {
                self.sequence(State::BlockSequence, anchor)?
            }
            Token::BlockMappingStart if place != Place::Flow => {
                self.mapping(State::BlockMappingKey, anchor)?
            }
            _ if has_properties => self.empty_with(anchor, tag),
            _ => return Err(self.expected(words::EXPECTED_VALUE)),
        };
        Ok((event, start))
    }

    fn alias(&mut self) -> Placement {
        self.leave();
        let Placed { token, start, .. } = self.scanner.take()?;
        match token {
            Token::Alias(name) => Ok((Event::Alias(name), start)),
            _ => Err(start.syntax(words::EXPECTED_VALUE)),
        }
    }

    /// The anchor and the tag before a node, in either order.
    fn properties(&mut self) -> Result<(Option<String>, Vec<u8>), YamlError> {
        let (mut anchor, mut tag) = (None, None);
        loop {
            match self.scanner.peek()?.token {
                Token::Anchor(_) if anchor.is_none() => {}
                Token::Tag { .. } if tag.is_none() => {}
                _ => break,
            }
            let Placed { token, start, .. } = self.scanner.take()?;
            match token {
                Token::Anchor(name) => anchor = Some(name),
                Token::Tag { handle, suffix } => tag = Some((handle, suffix, start)),
                _ => {}
            }
        }
        // Only now: what comes next may be no token at all, and that is said first.
        let tag = tag.map(|(handle, suffix, start)| self.full_tag(&handle, suffix, start));
        Ok((anchor, tag.transpose()?.unwrap_or_default()))
    }

    fn full_tag(&self, handle: &[u8], suffix: Vec<u8>, at: Mark) -> Result<Vec<u8>, YamlError> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        let tag = self.prefix(handle).map(|prefix| [shortened(prefix), &suffix].concat());
        tag.filter(|tag| !tag.is_empty()).ok_or_else(|| at.syntax(words::UNKNOWN_TAG))
    }

    fn scalar(&mut self, anchor: Option<String>, tag: Vec<u8>) -> Result<Event, YamlError> {
        self.leave();
        let Placed { token, start, .. } = self.scanner.take()?;
        let Token::Scalar { text, plain } = token else {
            return Err(start.syntax(words::EXPECTED_VALUE));
        };
        let implicit = (plain && tag.is_empty()) || tag == b"!";
        Ok(Event::Scalar(Scalar { text, tag, implicit }, anchor))
    }

    /// Nothing but an anchor or a tag.
    fn empty_with(&mut self, anchor: Option<String>, tag: Vec<u8>) -> Event {
        self.leave();
        let scalar = Scalar { text: Secret::default(), implicit: tag.is_empty(), tag };
        Event::Scalar(scalar, anchor)
    }

    fn sequence(&mut self, state: State, anchor: Option<String>) -> Result<Event, YamlError> {
        self.scanner.take()?;
        self.state = state;
        Ok(Event::SequenceStart(anchor))
    }

    fn mapping(&mut self, state: State, anchor: Option<String>) -> Result<Event, YamlError> {
        self.scanner.take()?;
        self.state = state;
        Ok(Event::MappingStart(anchor))
    }

    /// What is wrong with the next token.
    fn expected(&mut self, problem: &'static str) -> YamlError {
        match self.scanner.peek() {
            Ok(next) => next.start.syntax(problem),
            Err(error) => error,
        }
    }

    fn block_sequence(&mut self) -> Placement {
        match self.scanner.peek()?.token {
            Token::BlockEntry => {
                let end = self.scanner.take()?.end;
                match self.scanner.peek()?.token {
                    Token::BlockEntry | Token::BlockEnd => {
                        Ok(self.empty_at(State::BlockSequence, end))
                    }
                    _ => self.nested(State::BlockSequence, Place::Block),
                }
            }
            Token::BlockEnd => self.close(Event::SequenceEnd),
            _ => Err(self.expected(words::EXPECTED_DASH)),
        }
    }

    fn indentless_sequence(&mut self) -> Placement {
        if !matches!(self.scanner.peek()?.token, Token::BlockEntry) {
            self.leave();
            return Ok((Event::SequenceEnd, self.scanner.peek()?.start));
        }
        let end = self.scanner.take()?.end;
        match self.scanner.peek()?.token {
            Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd => {
                Ok(self.empty_at(State::IndentlessSequence, end))
            }
            _ => self.nested(State::IndentlessSequence, Place::Block),
        }
    }

    fn block_mapping_key(&mut self) -> Placement {
        match self.scanner.peek()?.token {
            Token::Key => self.block_mapping_part(State::BlockMappingValue),
            Token::BlockEnd => self.close(Event::MappingEnd),
            _ => Err(self.expected(words::EXPECTED_FIELD)),
        }
    }

    fn block_mapping_value(&mut self) -> Placement {
        match self.scanner.peek()?.token {
            Token::Value => self.block_mapping_part(State::BlockMappingKey),
            _ => self.empty(State::BlockMappingKey),
        }
    }

    /// What follows a `?` or `:` in a block.
    fn block_mapping_part(&mut self, after: State) -> Placement {
        let end = self.scanner.take()?.end;
        match self.scanner.peek()?.token {
            Token::Key | Token::Value | Token::BlockEnd => Ok(self.empty_at(after, end)),
            _ => self.nested(after, Place::BlockOrIndentless),
        }
    }

    fn nested(&mut self, after: State, place: Place) -> Placement {
        self.states.push(after);
        self.node(place)
    }

    fn close(&mut self, event: Event) -> Placement {
        self.leave();
        Ok((event, self.scanner.take()?.start))
    }

    fn leave(&mut self) {
        self.state = self.states.pop().unwrap_or(State::DocumentEnd);
    }

    /// A node that is not there: null.
    fn empty(&mut self, after: State) -> Placement {
        let start = self.scanner.peek()?.start;
        Ok(self.empty_at(after, start))
    }

    fn empty_at(&mut self, after: State, at: Mark) -> (Event, Mark) {
        self.state = after;
        let nothing = Scalar { text: Secret::default(), tag: Vec::new(), implicit: true };
        (Event::Scalar(nothing, None), at)
    }
}

/// No long tag means anything here, and a document could repeat a long prefix until the memory is full.
fn shortened(prefix: &[u8]) -> &[u8] {
    const LONGEST: usize = 64;
    prefix.get(..LONGEST).unwrap_or(prefix)
}
