//! Events to nodes that know their aliases.

use std::collections::HashMap;

use super::parser::{Event, Parser, Scalar};
use super::{Mark, YamlError, YamlProblem};

/// The nodes of one document; the first is the root. Nodes refer to each other by index.
#[derive(Default)]
pub(super) struct Composed {
    pub(super) nodes: Vec<Composite>,
}

/// A node as it was written.
pub(super) struct Composite {
    pub(super) content: Content,
    pub(super) mark: Mark,
}

/// What a node is made of.
pub(super) enum Content {
    Scalar(Scalar),
    Sequence(Vec<usize>),
    /// Keys and values in turn.
    Mapping(Vec<usize>),
    /// The node that an alias stands for.
    Alias(usize),
}

pub(super) fn compose(text: &[u8], max_values: usize) -> Result<Composed, YamlError> {
    let mut composer = Composer { max_values, ..Composer::default() };
    if let Some(mut parser) = Parser::first_document(text)? {
        while composer.add(parser.next()?)? {}
    }
    Ok(composer.composed)
}

#[derive(Default)]
struct Composer {
    composed: Composed,
    /// The sequences and mappings that are not closed yet.
    open: Vec<usize>,
    anchors: HashMap<String, usize>,
    max_values: usize,
}

impl Composer {
    /// Returns whether the document goes on.
    fn add(&mut self, (event, mark): (Event, Mark)) -> Result<bool, YamlError> {
        match event {
            Event::DocumentEnd => return Ok(false),
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
            }
            Event::Alias(name) => {
                let target = self.anchors.get(&name).copied();
                let target = target.ok_or_else(|| mark.error(YamlProblem::UnknownAnchor))?;
                self.push(Content::Alias(target), mark, None)?;
            }
            Event::Scalar(scalar, anchor) => {
                self.push(Content::Scalar(scalar), mark, anchor)?;
            }
            Event::SequenceStart(anchor) => {
                let node = self.push(Content::Sequence(Vec::new()), mark, anchor)?;
                self.open.push(node);
            }
            Event::MappingStart(anchor) => {
                let node = self.push(Content::Mapping(Vec::new()), mark, anchor)?;
                self.open.push(node);
            }
        }
        Ok(true)
    }

    fn push(
        &mut self,
        content: Content,
        mark: Mark,
        anchor: Option<String>,
    ) -> Result<usize, YamlError> {
        let node = self.composed.nodes.len();
        if node >= self.max_values {
            return Err(mark.error(YamlProblem::TooManyValues(self.max_values)));
        }
        self.composed.nodes.push(Composite { content, mark });
        let parent = self.open.last().and_then(|parent| self.composed.nodes.get_mut(*parent));
        if let Some(Content::Sequence(children) | Content::Mapping(children)) =
            parent.map(|p| &mut p.content)
        {
            children.push(node);
        }
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, node);
        }
        Ok(node)
    }
}
