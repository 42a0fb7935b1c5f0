//! Files and directories of them, now and then damaged.

use proptest::{
    collection::vec,
    option::weighted,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::{Index, select},
};

use super::{
    Entry, File, Question,
    document::document,
    yaml::{Whims, json, yaml},
};

/// A file by itself, or a directory.
pub(super) fn questions() -> impl Strategy<Value = Question> {
    let name = prop_oneof![8 => Just("a.yaml"), 1 => select(NAMES)];
    let file = (name, content()).prop_map(|(name, entry)| Question {
        files: vec![File { name: name.to_owned(), entry }],
        path: name.to_owned(),
    });
    prop_oneof![3 => file, 1 => directory()]
}

fn directory() -> impl Strategy<Value = Question> {
    let name = prop_oneof![3 => select(vec!["a.yaml", "b.yaml", "c.json"]), 1 => select(NAMES)];
    let content = prop_oneof![
        15 => content(),
        1 => Just(Entry::Directory(true)),
        1 => select(vec!["a.yaml", "nothing", ".", "b.yaml", "c.json"]).prop_map(|target| Entry::Link(target.to_owned())),
    ];
    let path = prop_oneof![
        15 => Just(""),
        1 => select(vec!["./", "nothing", "a.yaml", "a.yaml/", "b.yaml/..", "sub", "nothing/x", ".//", "é\n"]),
    ];
    (vec((name, content), 0..4), path).prop_map(|(files, path)| {
        let mut question = Question { files: Vec::new(), path: path.to_owned() };
        for (name, entry) in files {
            if question.files.iter().all(|file| file.name != name) {
                question.files.push(File { name: name.to_owned(), entry });
            }
        }
        question
    })
}

const NAMES: &[&str] = &[
    "a.yaml",
    "a.yml",
    "a.json",
    "A.yaml",
    "a.YAML",
    "a.Json",
    ".yaml",
    ".a.json",
    "yaml",
    "a.yaml~",
    "a.yaml.bak",
    "a.txt",
    "a",
    "a b.yaml",
    "é.yaml",
    "日.json",
    "a\nb.yaml",
    "\".yaml",
    "a..yaml",
    "10.yaml",
    "9.yaml",
    "a-b.yaml",
    "a_b.yaml",
    "sub",
    "b.yaml.yml",
    "😀.yml",
    "a\\.yaml",
    "\u{200b}.yaml",
    "%s.yaml",
    ".json",
    "z.yaml",
];

fn content() -> impl Strategy<Value = Entry> {
    let plain = prop_oneof![2 => vec(Just(0_u8), 0..=0), 3 => vec(prop_oneof![5 => Just(0), 2 => any::<u8>()], 20..160)];
    let damages = prop_oneof![6 => vec(damage(), 0..=0), 1 => vec(damage(), 1..=2)];
    let is_json = prop_oneof![2 => Just(false), 1 => Just(true)];
    let parts = (document(), plain, is_json, encoding(), damages, weighted(0.01, any::<Index>()));
    parts.prop_map(|(root, whims, is_json, encoding, damages, cut)| {
        let mut whims = Whims::new(whims);
        let text = if is_json { json(&root, &mut whims) } else { yaml(&root, &mut whims) };
        let mut bytes = encoding.of(&text);
        for damage in damages {
            damage.happen(&mut bytes);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        Entry::Content(bytes.into())
    })
}

/// How the characters become bytes.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    Utf8,
    WithMark,
    WithReturns,
    OnlyReturns,
    /// With the line break that only Unicode has.
    NextLines,
    BigEndian,
    LittleEndian,
    /// Without a mark, so that it is none.
    LittleEndianUnmarked,
    /// Begins like Kubernetes' binary format.
    Binary,
}

fn encoding() -> impl Strategy<Value = Encoding> {
    use Encoding::{
        BigEndian, Binary, LittleEndian, LittleEndianUnmarked, NextLines, OnlyReturns, Utf8,
        WithMark, WithReturns,
    };
    let odd = vec![
        WithMark,
        WithReturns,
        WithReturns,
        OnlyReturns,
        NextLines,
        BigEndian,
        LittleEndian,
        LittleEndianUnmarked,
        Binary,
    ];
    prop_oneof![15 => Just(Utf8), 1 => select(odd)]
}

impl Encoding {
    fn of(self, text: &str) -> Vec<u8> {
        let units =
            |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect();
        match self {
            Self::Utf8 => text.into(),
            Self::Binary => format!("k8s\0{text}").into(),
            Self::WithMark => format!("\u{feff}{text}").into(),
            Self::WithReturns => text.replace('\n', "\r\n").into(),
            Self::OnlyReturns => text.replace('\n', "\r").into(),
            Self::NextLines => text.replace('\n', "\u{85}").into(),
            Self::BigEndian => units(&format!("\u{feff}{text}"), u16::to_be_bytes),
            Self::LittleEndian => units(&format!("\u{feff}{text}"), u16::to_le_bytes),
            Self::LittleEndianUnmarked => units(text, u16::to_le_bytes),
        }
    }
}

/// Bytes that are lost, or others in their place.
#[derive(Clone, Debug)]
struct Damage {
    at: Index,
    lost: usize,
    instead: &'static [u8],
}

fn damage() -> impl Strategy<Value = Damage> {
    const BYTES: &[&[u8]] = &[
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"-",
        b"*",
        b"&",
        b"!",
        b"|",
        b">",
        b"'",
        b"\"",
        b"%",
        b"@",
        b"`",
        b"#",
        b"\t",
        b"\n",
        b" ",
        b"?",
        b"~",
        b"0",
        b"a",
        b"\x01",
        b"\\",
        b"\xff",
        b"\xc3",
        b"\xe6\x97",
        b"\r",
        b"\0",
        b": ",
        b" #",
        b"- ",
        b"\n\t",
        b"\n---\n",
        b"<<: ",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98\x80",
        b"&a ",
        b"*a ",
        b"\x7f",
        b"k8s\0",
    ];
    (
        any::<Index>(),
        prop_oneof![2 => Just(0_usize), 2 => Just(1), 1 => 2_usize..20],
        select(BYTES),
        any::<bool>(),
    )
        .prop_map(|(at, lost, instead, only_lost)| Damage {
            at,
            lost,
            instead: if only_lost && lost > 0 { b"" } else { instead },
        })
}

impl Damage {
    fn happen(self, bytes: &mut Vec<u8>) {
        let start = self.at.index(bytes.len() + 1);
        let end = bytes.len().min(start + self.lost);
        bytes.splice(start..end, self.instead.iter().copied());
    }
}
