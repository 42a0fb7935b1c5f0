//! JSON texts, good ones and others: what docker configurations and plugins' answers are made of.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::{Index, select},
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words::one_of;

/// What stands in a file or comes through a pipe.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Plain(String),
    Bytes { base64: String },
}

impl Text {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Plain(text) => text.as_bytes().to_vec(),
            Self::Bytes { base64 } => STANDARD.decode(base64).expect("a question has base64"),
        }
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(
            |error| Self::Bytes { base64: STANDARD.encode(error.as_bytes()) },
            Self::Plain,
        )
    }
}

/// A string, and not much in it that is odd.
pub(crate) fn quoted(words: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        12 => one_of(words).prop_map(|word| format!("\"{word}\"")),
        1 => one_of(r#""\ud83d\ude00" "\ud800" "\udc00x" "\ud800\u0041" "\u0000" "\u2028 \u2029" "<&>" "é😀" "a\nb\t" "\/\b\f\r" "\u00e9\u0041" "" " ""#)
            .prop_map(str::to_owned),
    ]
}

/// Whatever may stand where something else should.
pub(crate) fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("null".to_owned()),
        3 => one_of(r#"true false 0 5 -0.5e3 1e400 123456789012345678901234567890 [] {} [1] {"a":1} [[[[]]]] {"a":{"a":[null]}} "x" """#)
            .prop_map(str::to_owned),
        1 => one_of(r#"01 1. - +1 .5 nul NaN 'x' "\q" "\u12" [1,] {"a":1,} {a:1} {"a"} /**/1 undefined"#).prop_map(str::to_owned),
    ]
}

/// A field's name, which now and then is not what it should be.
pub(crate) fn name(right: &'static str) -> impl Strategy<Value = String> {
    let odd = select(vec![
        right.to_uppercase(),
        right.to_lowercase(),
        right.replace('s', "\u{17f}").replace('k', "\u{212a}"),
        format!("{right} "),
        format!(
            "\\u{:04x}{}",
            right.bytes().next().unwrap_or_default(),
            right.get(1..).unwrap_or_default()
        ),
    ]);
    prop_oneof![30 => Just(right.to_owned()), 1 => odd]
}

/// A text as it stands in a string of JSON.
pub(crate) fn inside_quotes(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default().to_owned()
}

/// `{"name":value,…}`.
pub(crate) fn object(fields: Vec<(String, String)>) -> String {
    let fields: Vec<String> =
        fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// A text as it is; or, one time of so many, with something added, left out, repeated or cut off.
pub(crate) fn spoiled(
    text: BoxedStrategy<String>,
    one_time_of: u32,
) -> impl Strategy<Value = Text> {
    let slips = vec((any::<Index>(), 0_usize..12, select(PIECES), 0_u8..5), 1..3);
    let bad = (text.clone(), slips).prop_map(|(text, slips)| {
        let mut bytes = text.into_bytes();
        for (at, length, piece, what) in slips {
            let at = at.index(bytes.len() + 1);
            let end = bytes.len().min(at + length);
            match what {
                0 => drop(bytes.splice(at..at, piece.bytes())),
                1 => drop(bytes.splice(at..bytes.len().min(at + 1), piece.bytes())),
                2 => drop(bytes.drain(at..end)),
                3 => {
                    let again = bytes.get(at..end).unwrap_or_default().to_vec();
                    drop(bytes.splice(at..at, again));
                }
                _ => bytes.truncate(at),
            }
        }
        Text::from(bytes)
    });
    let framed = (one_of(FRAMES), text.clone(), one_of(FRAMES))
        .prop_map(|(before, text, after)| Text::Plain(format!("{before}{text}{after}")));
    let raw = (text.clone(), any::<Index>(), select(RAW)).prop_map(|(text, at, raw)| {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len() + 1);
        drop(bytes.splice(at..at, raw.iter().copied()));
        Text::from(bytes)
    });
    prop_oneof![
        3 * (one_time_of - 1) => text.prop_map(Text::Plain),
        1 => bad,
        1 => framed,
        1 => raw,
    ]
}

const PIECES: &[&str] = &[
    "null", "{", "}", "[", "]", ",", ":", "\"", "\\", "\\ud800", "\\u", "0", "1e400", " ", "\n",
    "\t", "\0", "\u{7f}", "//", "---\n", "\u{a0}", "{}", "\u{feff}", "é", "\u{2028}", "'", "- ",
    "a: b\n",
];
const FRAMES: &str = "   \n \t \r\n \u{b} \u{c} \u{a0} \u{feff} {} , ] } null x # --- \0 \u{2028}";
const RAW: &[&[u8]] = &[
    b"\xff",
    b"\xfe",
    b"\xe2\x82",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\x80",
    b"\xf0\x9f\x98",
    b"\xef\xbb\xbf",
];
