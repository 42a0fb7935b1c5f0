//! The words of YAML's grammar, and the characters that separate them.

use super::{Mark, input::END};
use crate::Secret;

/// The words of YAML's grammar.
pub(super) enum Token {
    StreamEnd,
    Version(u32, u32),
    TagDirective { handle: Vec<u8>, prefix: Vec<u8> },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: Vec<u8>, suffix: Vec<u8> },
    Scalar { text: Secret<String>, plain: bool },
}

/// A token and where it starts and ends.
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_break_or_end(c: char) -> bool {
    c == END || is_break(c)
}

pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

pub(super) fn is_blank_or_end(c: char) -> bool {
    is_blank(c) || is_break_or_end(c)
}
