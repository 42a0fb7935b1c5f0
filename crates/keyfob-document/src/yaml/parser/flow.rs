//! The parser inside brackets and braces.

use super::{Event, Parser, Place, Placement, State};
use crate::yaml::{token::Token, words};

impl Parser {
    pub(super) fn flow_sequence(&mut self) -> Placement {
        match self.scanner.peek()?.token {
            Token::FlowSequenceEnd => self.close(Event::SequenceEnd),
            Token::FlowEntry => {
                self.scanner.take()?;
                self.flow_sequence_entry()
            }
            _ => Err(self.expected(words::EXPECTED_LIST_END)),
        }
    }

    pub(super) fn flow_sequence_entry(&mut self) -> Placement {
        match self.scanner.peek()?.token {
            Token::FlowSequenceEnd => self.close(Event::SequenceEnd),
            Token::Key => {
                let start = self.scanner.take()?.start;
                self.state = State::PairKey;
                Ok((Event::MappingStart(None), start))
            }
            _ => self.nested(State::FlowSequence, Place::Flow),
        }
    }

    /// `[? a : b]` and `[a: b]` hold a mapping of one pair.
    pub(super) fn pair_key(&mut self) -> Placement {
        match self.scanner.peek()?.token {
            Token::Value | Token::FlowEntry | Token::FlowSequenceEnd => {
                // Upstream swallows the token here; a missing key in a pair therefore takes its `:` along.
                let end = self.scanner.take()?.end;
                Ok(self.empty_at(State::PairValue, end))
            }
            _ => self.nested(State::PairValue, Place::Flow),
        }
    }

    pub(super) fn pair_value(&mut self) -> Placement {
        let start = self.scanner.peek()?.start;
        if matches!(self.scanner.peek()?.token, Token::Value) {
            self.scanner.take()?;
            if !matches!(self.scanner.peek()?.token, Token::FlowEntry | Token::FlowSequenceEnd) {
                return self.nested(State::PairEnd, Place::Flow);
            }
        }
        Ok(self.empty_at(State::PairEnd, start))
    }

    pub(super) fn pair_end(&mut self) -> Placement {
        self.state = State::FlowSequence;
        Ok((Event::MappingEnd, self.scanner.peek()?.start))
    }

    pub(super) fn flow_mapping(&mut self) -> Placement {
        match self.scanner.peek()?.token {
            Token::FlowMappingEnd => self.close(Event::MappingEnd),
            Token::FlowEntry => {
                self.scanner.take()?;
                self.flow_mapping_entry()
            }
            _ => Err(self.expected(words::EXPECTED_MAP_END)),
        }
    }

    pub(super) fn flow_mapping_entry(&mut self) -> Placement {
        match self.scanner.peek()?.token {
            Token::FlowMappingEnd => self.close(Event::MappingEnd),
            Token::Key => {
                self.scanner.take()?;
                match self.scanner.peek()?.token {
                    Token::Value | Token::FlowEntry | Token::FlowMappingEnd => {
                        self.empty(State::FlowMappingValue)
                    }
                    _ => self.nested(State::FlowMappingValue, Place::Flow),
                }
            }
            _ => self.nested(State::FlowMappingNoValue, Place::Flow),
        }
    }

    pub(super) fn flow_mapping_value(&mut self) -> Placement {
        if matches!(self.scanner.peek()?.token, Token::Value) {
            self.scanner.take()?;
            if !matches!(self.scanner.peek()?.token, Token::FlowEntry | Token::FlowMappingEnd) {
                return self.nested(State::FlowMapping, Place::Flow);
            }
        }
        self.empty(State::FlowMapping)
    }
}
