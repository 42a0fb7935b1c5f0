//! Nodes to the tree that Go's JSON decoder would see: aliases expanded, merges inlined, keys made strings and sorted.
//!
//! A list of tasks instead of recursion. A value that is done lies on `values` until the task after it takes it.

use std::collections::HashSet;

use super::compose::{Composed, Composite, Content};
use super::map::{Key, MapBuilder, UNSUPPORTED_KEY};
use super::parser::Scalar;
use super::resolve::{Resolved, json_float, resolve};
use super::{DuplicateKey, Mark, YamlError, YamlProblem};
use crate::{Document, MAX_DEPTH, MAX_DUPLICATES, Node, Value};

pub(super) fn convert(composed: &Composed, max_values: usize) -> Result<Document, YamlError> {
    let mut converter = Converter {
        nodes: &composed.nodes,
        tasks: Vec::new(),
        values: Vec::new(),
        keys: Vec::new(),
        maps: Vec::new(),
        depth: 0,
        // The document itself counts as one.
        decoded: 1,
        from_aliases: 0,
        copied: 0,
        steps: 0,
        active_aliases: HashSet::new(),
        duplicates: Vec::new(),
        more_duplicates: 0,
        max_values,
    };
    if !composed.nodes.is_empty() {
        converter.decode(0)?;
    }
    while let Some(task) = converter.tasks.pop() {
        converter.run(task)?;
    }
    let root = converter.values.pop();
    let root = root.unwrap_or_else(|| Node::new(Value::Null, Mark::default().position()));
    refuse_what_json_cannot_say(&root)?;
    let Converter { duplicates, more_duplicates, .. } = converter;
    Ok(Document { root, duplicates, more_duplicates })
}

#[derive(Clone, Copy)]
enum Task {
    Decode(usize),
    /// Takes this many values from a sequence that is done.
    EndSequence(usize, Mark),
    /// Goes on with a mapping at this child; `EndMapping` follows unless it is being merged.
    Mapping(usize, usize),
    EndMapping(Mark),
    Merge(usize),
    TakeKey(usize),
    SetEntry(usize),
    EndAlias(usize),
}

struct Converter<'a> {
    nodes: &'a [Composite],
    tasks: Vec<Task>,
    values: Vec<Node>,
    keys: Vec<Key>,
    maps: Vec<MapBuilder>,
    depth: usize,
    decoded: usize,
    from_aliases: usize,
    /// How much text aliases have repeated.
    copied: usize,
    /// How many steps aliases have caused.
    steps: usize,
    active_aliases: HashSet<usize>,
    duplicates: Vec<DuplicateKey>,
    more_duplicates: usize,
    max_values: usize,
}

impl<'a> Converter<'a> {
    fn run(&mut self, task: Task) -> Result<(), YamlError> {
        self.count_step()?;
        match task {
            Task::Decode(node) => self.decode(node)?,
            Task::EndSequence(count, mark) => {
                let items = self.values.split_off(self.values.len().saturating_sub(count));
                self.done(Node::new(Value::List(items.into()), mark.position()));
            }
            Task::Mapping(node, child) => self.next_entry(node, child),
            Task::EndMapping(mark) => {
                let map = self.maps.pop().unwrap_or_default();
                self.done(map.into_node(mark.position()));
            }
            Task::Merge(node) => self.merge(node)?,
            Task::TakeKey(node) => self.take_key(node)?,
            Task::SetEntry(node) => self.set_entry(node),
            Task::EndAlias(node) => {
                self.active_aliases.remove(&node);
            }
        }
        Ok(())
    }

    fn decode(&mut self, id: usize) -> Result<(), YamlError> {
        let Some(node) = self.count(id)? else {
            return Ok(());
        };
        match &node.content {
            Content::Scalar(scalar) => {
                self.count_copy(scalar, node.mark)?;
                let value = scalar_value(scalar).map_err(|problem| node.mark.error(problem))?;
                self.values.push(Node::new(value, node.mark.position()));
            }
            Content::Sequence(children) => {
                self.enter(node.mark)?;
                self.tasks.push(Task::EndSequence(children.len(), node.mark));
                self.tasks.extend(children.iter().rev().map(|child| Task::Decode(*child)));
            }
            Content::Mapping(_) => {
                self.enter(node.mark)?;
                self.maps.push(MapBuilder::default());
                self.tasks.push(Task::EndMapping(node.mark));
                self.tasks.push(Task::Mapping(id, 0));
            }
            Content::Alias(target) => {
                self.enter_alias(id, node.mark)?;
                self.tasks.push(Task::Decode(*target));
            }
        }
        Ok(())
    }

    /// Counts a step, so that a few aliases of aliases cannot make a huge document.
    fn count(&mut self, id: usize) -> Result<Option<&'a Composite>, YamlError> {
        let Some(node) = self.nodes.get(id) else {
            return Ok(None);
        };
        self.decoded += 1;
        self.from_aliases += usize::from(!self.active_aliases.is_empty());
        if is_excessive(self.from_aliases, self.decoded) {
            return Err(node.mark.error(YamlProblem::ExcessiveAliasing));
        }
        if self.decoded > self.max_values + 1 {
            return Err(node.mark.error(YamlProblem::TooManyValues(self.max_values)));
        }
        Ok(Some(node))
    }

    /// Upstream counts nodes only, so that a few aliases of one long text can still fill the memory.
    fn count_copy(&mut self, scalar: &Scalar, mark: Mark) -> Result<(), YamlError> {
        const LIMIT: usize = 32 << 20;
        if !self.active_aliases.is_empty() {
            self.copied += scalar.text.expose().len();
        }
        if self.copied > LIMIT {
            return Err(mark.error(YamlProblem::ExcessiveAliasing));
        }
        Ok(())
    }

    /// The aliasing ratio does not see what an empty merge costs: aliases of many of them could take minutes.
    fn count_step(&mut self) -> Result<(), YamlError> {
        const MOST: usize = 4 << 20;
        self.steps += usize::from(!self.active_aliases.is_empty());
        if self.steps <= MOST {
            return Ok(());
        }
        let alias = self.active_aliases.iter().min().and_then(|id| self.nodes.get(*id));
        let mark = alias.map_or_else(Mark::default, |alias| alias.mark);
        Err(mark.error(YamlProblem::ExcessiveAliasing))
    }

    fn enter(&mut self, mark: Mark) -> Result<(), YamlError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(mark.error(YamlProblem::TooDeep)) } else { Ok(()) }
    }

    fn enter_alias(&mut self, id: usize, mark: Mark) -> Result<(), YamlError> {
        if !self.active_aliases.insert(id) {
            return Err(mark.error(YamlProblem::SelfReference));
        }
        self.tasks.push(Task::EndAlias(id));
        Ok(())
    }

    fn done(&mut self, node: Node) {
        self.depth -= 1;
        self.values.push(node);
    }

    fn next_entry(&mut self, id: usize, child: usize) {
        let Some(Content::Mapping(children)) = self.nodes.get(id).map(|node| &node.content) else {
            return;
        };
        let Some([key, value]) = children.get(child..child + 2) else {
            return;
        };
        self.tasks.push(Task::Mapping(id, child + 2));
        if self.is_merge_key(*key) {
            self.tasks.push(Task::Merge(*value));
        } else {
            let tasks = [
                Task::SetEntry(*value),
                Task::Decode(*value),
                Task::TakeKey(*key),
                Task::Decode(*key),
            ];
            self.tasks.extend(tasks);
        }
    }

    fn is_merge_key(&self, id: usize) -> bool {
        match self.nodes.get(id).map(|node| &node.content) {
            Some(Content::Scalar(Scalar { text, tag, implicit })) => {
                text.expose() == "<<" && (*implicit || tag == b"tag:yaml.org,2002:merge")
            }
            _ => false,
        }
    }

    /// Sets the entries of one or more mappings in the map that is being built, where the merge key stands.
    fn merge(&mut self, id: usize) -> Result<(), YamlError> {
        let Some(node) = self.nodes.get(id) else {
            return Ok(());
        };
        let Content::Sequence(children) = &node.content else {
            return self.merge_one(id);
        };
        // Earlier mappings win, so they are set last; the last task pushed runs first.
        for child in children {
            if !self.is_mergeable(*child) {
                return Err(node.mark.error(YamlProblem::MergeOfNonMap));
            }
        }
        self.tasks.extend(children.iter().map(|child| Task::Merge(*child)));
        Ok(())
    }

    fn merge_one(&mut self, id: usize) -> Result<(), YamlError> {
        let Some(node) = self.count(id)? else {
            return Ok(());
        };
        match node.content {
            Content::Mapping(_) => self.tasks.push(Task::Mapping(id, 0)),
            Content::Alias(target) if self.is_mergeable(id) => {
                self.enter_alias(id, node.mark)?;
                self.tasks.push(Task::Merge(target));
            }
            _ => return Err(node.mark.error(YamlProblem::MergeOfNonMap)),
        }
        Ok(())
    }

    fn is_mergeable(&self, id: usize) -> bool {
        let content = |id: usize| self.nodes.get(id).map(|node| &node.content);
        match content(id) {
            Some(Content::Mapping(_)) => true,
            Some(Content::Alias(target)) => matches!(content(*target), Some(Content::Mapping(_))),
            _ => false,
        }
    }

    fn take_key(&mut self, id: usize) -> Result<(), YamlError> {
        // Through aliases to what the key really is.
        let mut scalar = None;
        let mut next = Some(id);
        while let Some(node) = next.and_then(|id| self.nodes.get(id)) {
            next = None;
            match &node.content {
                Content::Alias(target) => next = Some(*target),
                Content::Scalar(found) => scalar = Some(found),
                Content::Sequence(_) | Content::Mapping(_) => {}
            }
        }
        self.values.pop();
        let mark = self.nodes.get(id).map_or_else(Mark::default, |node| node.mark);
        let scalar = scalar.ok_or_else(|| mark.error(YamlProblem::InvalidKey))?;
        let key = Key::new(scalar, mark).map_err(|problem| mark.error(problem))?;
        self.keys.push(key);
        Ok(())
    }

    fn set_entry(&mut self, value: usize) {
        let line = self.nodes.get(value).map_or(0, |node| node.mark.line + 1);
        if let (Some(key), Some(node), Some(map)) =
            (self.keys.pop(), self.values.pop(), self.maps.last_mut())
        {
            let Some(duplicate) = map.set(key, node, line) else { return };
            if self.duplicates.len() < MAX_DUPLICATES {
                self.duplicates.push(duplicate);
            } else {
                self.more_duplicates += 1;
            }
        }
    }
}

/// Go's limit: from 99 % of a small document to 10 % of a large one may come from aliases.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn is_excessive(from_aliases: usize, decoded: usize) -> bool {
    const SMALL: f64 = 400_000.0;
    const LARGE: f64 = 4_000_000.0;
    let size = decoded as f64;
    let allowed = 0.99 - 0.89 * ((size - SMALL) / (LARGE - SMALL)).clamp(0.0, 1.0);
    from_aliases > 100 && decoded > 1_000 && from_aliases as f64 / size > allowed
}

fn scalar_value(scalar: &Scalar) -> Result<Value, YamlProblem> {
    Ok(match resolve(scalar)? {
        Resolved::Null => Value::Null,
        Resolved::Bool(value) => Value::Bool(value),
        Resolved::Int(number) => Value::Number(number.to_string().into()),
        Resolved::Large(number) => Value::Number(number.to_string().into()),
        Resolved::Float(number) => Value::Number(json_float(number).into()),
        Resolved::Text(text) => Value::String(text),
    })
}

/// Infinities, and keys that no string stands for. Only what is left after later keys replaced earlier ones counts.
fn refuse_what_json_cannot_say(root: &Node) -> Result<(), YamlError> {
    let mut rest = vec![root];
    while let Some(node) = rest.pop() {
        match &node.value {
            Value::Number(text) if **text == *UNSUPPORTED_KEY => {
                return Err(YamlError { problem: YamlProblem::UnsupportedKey, at: node.at });
            }
            Value::Number(text) if text.ends_with(['N', 'f']) => {
                return Err(YamlError { problem: YamlProblem::NotFinite, at: node.at });
            }
            Value::List(items) => rest.extend(items.iter().rev()),
            Value::Map(fields) => rest.extend(fields.iter().rev().map(|field| &field.node)),
            _ => {}
        }
    }
    Ok(())
}
