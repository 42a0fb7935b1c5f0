//! A document before it is written down, and what may go wrong with one.

use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::{Index, select},
};

use super::document::{bare, text};

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Text(String),
    /// Written as it stands here: a number, a boolean, null, or what only YAML knows.
    Bare(String),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

impl Node {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(super) fn bare(text: &str) -> Self {
        Self::Bare(text.to_owned())
    }

    /// A map of the fields that there are.
    pub(super) fn map<const N: usize>(fields: [(&str, Option<Self>); N]) -> Self {
        let fields = fields.into_iter();
        Self::Map(fields.filter_map(|(name, value)| Some((Self::text(name), value?))).collect())
    }

    fn size(&self) -> usize {
        1 + match self {
            Self::Text(_) | Self::Bare(_) => 0,
            Self::List(items) => items.iter().map(Self::size).sum(),
            Self::Map(fields) => fields.iter().map(|(_, value)| value.size()).sum::<usize>(),
        }
    }

    /// The value at a place, counted from the root down.
    fn at(&mut self, place: usize) -> &mut Self {
        if place == 0 {
            return self;
        }
        let values: Vec<&mut Self> = match self {
            Self::Text(_) | Self::Bare(_) => Vec::new(),
            Self::List(items) => items.iter_mut().collect(),
            Self::Map(fields) => fields.iter_mut().map(|(_, value)| value).collect(),
        };
        let mut rest = place - 1;
        for value in values {
            let size = value.size();
            if rest < size {
                return value.at(rest);
            }
            rest -= size;
        }
        unreachable!("a place is less than the size")
    }

    /// The names that Go has for the fields.
    pub(super) fn with_go_names(self) -> Self {
        match self {
            Self::List(items) => Self::List(items.into_iter().map(Self::with_go_names).collect()),
            Self::Map(fields) => {
                let field = |(name, value): (Self, Self)| (go_name(name), value.with_go_names());
                Self::Map(fields.into_iter().map(field).collect())
            }
            scalar => scalar,
        }
    }
}

fn go_name(name: Node) -> Node {
    match name {
        Node::Text(name) if name == "apiVersion" => Node::text("APIVersion"),
        Node::Text(name) => Node::Text(with_first(&name, char::to_ascii_uppercase)),
        name => name,
    }
}

fn with_first(text: &str, change: fn(&char) -> char) -> String {
    let first = text.chars().next();
    first.iter().map(change).chain(text.chars().skip(1)).collect()
}

/// Something that goes wrong with a document, somewhere.
#[derive(Clone, Debug)]
pub(super) enum Slip {
    /// Something else stands here.
    Replace(Node),
    /// A value is put into a list of its own.
    Wrap,
    Remove(Index),
    /// A field is there twice.
    Repeat(Index, Option<Node>),
    /// A field with an odd name.
    Add(Index, Node, Node),
    /// A field's name changes its case.
    Recase(Index, fn(&str) -> String),
    Reverse,
}

/// Any of them, with its place.
pub(super) fn slip() -> impl Strategy<Value = (Index, Slip)> {
    let key = prop_oneof![
        4 => select(ODD_NAMES).prop_map(Node::text),
        1 => bare().prop_map(Node::Bare),
        1 => text().prop_map(Node::Text),
        1 => value(),
    ];
    let cases: [fn(&str) -> String; 4] = [
        str::to_uppercase,
        str::to_lowercase,
        |name| with_first(name, char::to_ascii_uppercase),
        // The sign for kelvins and the long s are a k and an s to those who do not mind the case.
        |name| name.replace('k', "\u{212a}").replace('s', "\u{17f}"),
    ];
    let at = any::<Index>;
    let slip = prop_oneof![
        3 => value().prop_map(Slip::Replace),
        1 => Just(Slip::Wrap),
        2 => at().prop_map(Slip::Remove),
        3 => (at(), proptest::option::of(value())).prop_map(|(at, value)| Slip::Repeat(at, value)),
        4 => (at(), key, value()).prop_map(|(at, key, value)| Slip::Add(at, key, value)),
        3 => (at(), select(cases.to_vec())).prop_map(|(at, case)| Slip::Recase(at, case)),
        1 => Just(Slip::Reverse),
    ];
    (at(), slip)
}

const ODD_NAMES: &[&str] = &[
    "nam",
    "Name",
    "names",
    "foo",
    "é",
    "\"q\"",
    "x y",
    "",
    "value",
    "cacheDuration",
    "matchImage",
    "kind",
    "apiVersion",
    "providers",
    "serviceAccountAnnotationKeys",
    "serviceAccountAnnotationKeys",
    "serviceAccountToken",
    "audience",
    "tokenattributes",
    "CacheType",
    "APIVERSION",
    "KIND",
    "<<",
    "metadata",
    "items",
    "env",
    "args",
    "a\nb",
    "\u{7f}",
    "imageMatchers",
    "extraArgs",
];

/// Anything.
fn value() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![text().prop_map(Node::Text), bare().prop_map(Node::Bare)];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let name = prop_oneof![
            3 => select(vec!["name", "value", "a", "Name", "x y"]).prop_map(Node::text),
            1 => bare().prop_map(Node::Bare),
        ];
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Node::List),
            vec((name, inner), 0..3).prop_map(Node::Map),
        ]
    })
}

impl Slip {
    pub(super) fn happen(self, root: &mut Node, at: Index) {
        let only_maps = !matches!(self, Self::Replace(_) | Self::Wrap);
        let places: Vec<usize> = (0..root.size())
            .filter(|place| {
                !only_maps || matches!(root.at(*place), Node::Map(fields) if !fields.is_empty())
            })
            .collect();
        if places.is_empty() {
            return;
        }
        let node = root.at(*at.get(&places));
        match (self, node) {
            (Self::Replace(with), node) => *node = with,
            (Self::Wrap, node) => *node = Node::List(vec![node.clone()]),
            (slip, Node::Map(fields)) => slip.happen_to(fields),
            _ => {}
        }
    }

    fn happen_to(self, fields: &mut Vec<(Node, Node)>) {
        let count = fields.len();
        match self {
            Self::Remove(at) => drop(fields.remove(at.index(count))),
            Self::Repeat(at, value) => {
                let (name, first) = at.get(fields).clone();
                fields.push((name, value.unwrap_or(first)));
            }
            Self::Add(at, name, value) => fields.insert(at.index(count + 1), (name, value)),
            Self::Recase(at, change) => {
                if let Node::Text(name) = &mut at.get_mut(fields).0 {
                    *name = change(name);
                }
            }
            Self::Reverse => fields.reverse(),
            Self::Replace(_) | Self::Wrap => {}
        }
    }
}
