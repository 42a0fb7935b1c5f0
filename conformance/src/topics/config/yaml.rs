//! Documents written down, plainly or in the strangest ways that YAML has.

use super::tree::Node;

/// What decides how something is written: zero is the plain way, and so is what comes after the last.
#[derive(Debug)]
pub(super) struct Whims(std::vec::IntoIter<u8>);

impl Whims {
    pub(super) fn new(whims: Vec<u8>) -> Self {
        Self(whims.into_iter())
    }

    /// One of so many ways.
    fn among(&mut self, ways: u8) -> u8 {
        self.0.next().unwrap_or_default() % ways
    }
}

/// As JSON, or nearly so.
pub(super) fn json(node: &Node, whims: &mut Whims) -> String {
    let blank = match whims.among(9) {
        1 => " ",
        2 => "\n\t",
        _ => "",
    };
    let body = match node {
        Node::Text(text) => json_text(text, whims),
        Node::Bare(text) => text.clone(),
        Node::List(items) => {
            let items: Vec<String> = items.iter().map(|item| json(item, whims)).collect();
            format!("[{}]", items.join(","))
        }
        Node::Map(fields) => {
            let field = |(name, value): &(Node, Node)| {
                format!("{}:{}", json(name, whims), json(value, whims))
            };
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(","))
        }
    };
    format!("{blank}{body}{blank}")
}

fn json_text(text: &str, whims: &mut Whims) -> String {
    match whims.among(8) {
        1 => {
            let units: Vec<String> =
                text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            format!("\"{}\"", units.concat())
        }
        2 => quoted(text).replace('/', "\\/"),
        _ => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// As YAML, or nearly so.
pub(super) fn yaml(root: &Node, whims: &mut Whims) -> String {
    let head = match whims.among(24) {
        1 => "---\n",
        2 => "%YAML 1.1\n---\n",
        3 => "%YAML 1.2\n---\n",
        4 => "# a comment\n\n",
        5 => "%TAG !k! tag:yaml.org,2002:\n---\n",
        6 => "--- !!map\n",
        7 => "--- &root\n",
        8 => "%FOO bar\n---\n",
        9 => "...\n",
        10 => "%YAML 1.1\n%YAML 1.1\n---\n",
        11 => " ",
        12 => "---\n---\n",
        13 => "--- # password: x\n",
        _ => "",
    };
    let mut writer = Writer { whims, anchored: Vec::new() };
    let body = writer.block(root, 0).unwrap_or_else(|| writer.flow(root) + "\n");
    let tail = match writer.whims.among(16) {
        1 => "---\nkind: other\n",
        2 => "...\n",
        3 => "---\n}{",
        4 => "...\n---\n",
        5 => "# end",
        6 => "... x",
        7 => "\n\n  \n",
        8 => "--- ",
        9 => "...\n%YAML 3.0\n",
        _ => "",
    };
    format!("{head}{body}{tail}")
}

struct Writer<'a> {
    whims: &'a mut Whims,
    anchored: Vec<Node>,
}

impl Writer<'_> {
    /// Lines of their own, or nothing for what has to stand in a line.
    fn block(&mut self, node: &Node, indent: usize) -> Option<String> {
        match node {
            Node::Map(fields) if !fields.is_empty() && self.whims.among(16) != 1 => {
                Some(self.block_map(fields, indent))
            }
            Node::List(items) if !items.is_empty() && self.whims.among(5) != 1 => {
                let mut item = |item: &Node| {
                    let value = self.value(item, indent, Place::Item);
                    format!("{:indent$}-{value}", "")
                };
                Some(items.iter().map(&mut item).collect::<Vec<_>>().concat())
            }
            _ => None,
        }
    }

    fn block_map(&mut self, fields: &[(Node, Node)], indent: usize) -> String {
        let (fields, merged) = self.merged(fields);
        let merged = merged.map(|merged| format!("{:indent$}{merged}\n", ""));
        let mut lines: Vec<String> = merged.into_iter().collect();
        for (name, value) in fields {
            let key = self.key(name);
            let value = self.value(value, indent, Place::Field);
            lines.push(match self.whims.among(40) {
                1 => format!("{:indent$}? {key}\n{:indent$}:{value}", "", ""),
                2 => format!("{:indent$}{key} :{value}", ""),
                3 => format!("{:indent$}# comment\n{:indent$}{key}:{value}", "", ""),
                4 => format!("\n{:indent$}{key}:{value}", ""),
                5 => format!("{:indent$}{key}:\t{value}", ""),
                6 => format!("{:indent$}? {key}\n", ""),
                _ => format!("{:indent$}{key}:{value}", ""),
            });
        }
        lines.concat()
    }

    /// Some of the fields in a merge key, or in two.
    fn merged<'f>(&mut self, fields: &'f [(Node, Node)]) -> (&'f [(Node, Node)], Option<String>) {
        let (first, second) = fields.split_at(fields.len() / 2);
        let whole = |part: &[(Node, Node)]| Node::Map(part.to_vec());
        match self.whims.among(32) {
            1 => (first, Some(format!("<<: {}", self.flow(&whole(second))))),
            2 => (
                second,
                Some(format!("<<: [{}, {}]", self.flow(&whole(first)), self.flow(&whole(fields)))),
            ),
            3 => (fields, Some(format!("<<: {}", self.flow(&whole(first))))),
            4 => (second, Some(format!("<<: &m {}\n# again", self.flow(&whole(first))))),
            5 => (fields, Some("<<: *m".to_owned())),
            6 => (first, Some(format!("!!merge <<: {}", self.flow(&whole(second))))),
            _ => (fields, None),
        }
    }

    fn key(&mut self, name: &Node) -> String {
        let Node::Text(name) = name else { return self.flow(name) };
        match self.whims.among(32) {
            1 => quoted(name),
            2 => single(name),
            3 => format!("!!str {name}"),
            4 => format!("&k {name}"),
            5 => name.clone(),
            6 => escaped(name),
            7 => format!("! {name}"),
            _ if is_plain(name) => name.clone(),
            _ => quoted(name),
        }
    }

    /// What follows a colon or a dash, to the end of its last line.
    fn value(&mut self, node: &Node, indent: usize, place: Place) -> String {
        if let Some(at) = self.anchored.iter().position(|anchored| anchored == node)
            && self.whims.among(3) == 0
        {
            return format!(" *a{at}\n");
        }
        let before = self.before(node);
        let inner = indent + if self.whims.among(12) == 1 { 4 } else { 2 };
        let same_column =
            place == Place::Field && matches!(node, Node::List(_)) && self.whims.among(3) == 1;
        if let Some(lines) = self.block(node, if same_column { indent } else { inner }) {
            let in_line = place == Place::Item && before.is_empty() && matches!(node, Node::Map(_));
            return match lines.strip_prefix(" ".repeat(indent + 2).as_str()) {
                Some(rest) if in_line && inner == indent + 2 => format!(" {rest}"),
                _ => format!("{before}\n{lines}"),
            };
        }
        let text = match node {
            Node::Text(text) => self.block_text(text, inner).unwrap_or_else(|| self.flow(node)),
            _ => self.flow(node),
        };
        let comment = match self.whims.among(32) {
            1 => " # comment",
            2 => " #value: x",
            3 => "#",
            4 => " ",
            5 => "\t# c",
            _ => "",
        };
        format!("{before} {text}{comment}\n")
    }

    /// An anchor or a tag.
    fn before(&mut self, node: &Node) -> String {
        let tag = match (self.whims.among(64), node) {
            (1..=4, _) => {
                self.anchored.push(node.clone());
                return format!(" &a{}", self.anchored.len() - 1);
            }
            (5, Node::Text(_)) => "!!str",
            (5, Node::List(_)) => "!!seq",
            (5, Node::Map(_)) => "!!map",
            (6, _) => "!",
            (7, _) => "!x",
            (8, _) => "!!int",
            (9, _) => "!<tag:yaml.org,2002:str>",
            (10, _) => "!!binary",
            (11, _) => "!k!str",
            (12, _) => "!!null",
            (13, _) => "!!bool",
            (14, _) => "!!float",
            (15, _) => "!!omap",
            (16, _) => "!!timestamp",
            (17, _) => "&a0 !!str",
            _ => return String::new(),
        };
        format!(" {tag}")
    }

    fn block_text(&mut self, text: &str, indent: usize) -> Option<String> {
        let head = match self.whims.among(40) {
            1 | 2 => "|-",
            3 | 4 => ">-",
            5 => "|",
            6 => ">+",
            7 => "|2",
            8 => ">9-",
            9 => "|- # comment",
            10 => "|+1",
            11 => ">-\n",
            12 => "|\t",
            _ => return None,
        };
        let lines = text.split('\n').map(|line| format!("{:indent$}{line}", ""));
        Some(format!("{head}\n{}", lines.collect::<Vec<_>>().join("\n")))
    }

    /// In a line of its own, or in a part of one.
    fn flow(&mut self, node: &Node) -> String {
        let (comma, end) = match self.whims.among(24) {
            1 => (",", ","),
            2 => (",\n  ", ""),
            3 => (" , ", " "),
            4 => (", # c\n ", "\n "),
            _ => (", ", ""),
        };
        match node {
            Node::Text(text) => self.flow_text(text),
            Node::Bare(text) => text.clone(),
            Node::List(items) => {
                let items: Vec<String> = items.iter().map(|item| self.flow(item)).collect();
                format!("[{}{end}]", items.join(comma))
            }
            Node::Map(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|field| self.flow_field(field)).collect();
                format!("{{{}{end}}}", fields.join(comma))
            }
        }
    }

    fn flow_field(&mut self, (name, value): &(Node, Node)) -> String {
        let (key, value) = (self.key(name), self.flow(value));
        match self.whims.among(24) {
            1 => format!("? {key} : {value}"),
            2 => format!("{key}:{value}"),
            3 => format!("{key} :\n   {value}"),
            4 => key,
            _ => format!("{key}: {value}"),
        }
    }

    fn flow_text(&mut self, text: &str) -> String {
        match self.whims.among(16) {
            1 => quoted(text),
            2 => single(text),
            3 => text.to_owned(),
            4 => escaped(text),
            5 => quoted(text).replacen(' ', "\n\n   ", 1),
            6 => format!("\"\\\n    {}", quoted(text).get(1..).unwrap_or_default()),
            7 => single(text).replacen(' ', "\n   ", 1),
            8 => text.replacen(' ', "\n     ", 1),
            _ if is_plain(text) => text.to_owned(),
            _ => quoted(text),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Item,
    Field,
}

fn single(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Every character by its number.
fn escaped(text: &str) -> String {
    let escape = |letter: char| match u32::from(letter) {
        number @ ..0x100 => format!("\\x{number:02x}"),
        number @ ..0x1_0000 => format!("\\u{number:04X}"),
        number => format!("\\U{number:08x}"),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// Whether it means itself without quotes.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 7] = ["true", "null", "yes", "no", "on", "off", "y"];
    let plain = |letter: char| letter.is_alphanumeric() || "-./_".contains(letter);
    text.starts_with(|letter: char| letter.is_alphabetic())
        && text.chars().all(plain)
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
        || ["10m", "1h", "0s", "1m", "12h"].contains(&text)
}
