//! The forms in which a secret may stand in a text.

use std::{collections::BTreeSet, ops::Range};

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};

use super::view::{View, compact};
use keyfob_document::Secret;

/// A shorter text stands in too many others to be looked for everywhere.
pub(super) const SHORTEST: usize = 6;

/// So much of a secret is hidden even if the rest is missing.
const LONG_BEGINNING: usize = 16;

/// So much is enough at the end of a text that may have been cut off, and everywhere if all of it are letters and digits: a secret
/// that begins with `https://` must not hide the beginning of every address.
const SHORTEST_BEGINNING: usize = 8;

/// Byte strings to look for in the views of a text, sorted.
#[derive(Debug, Default)]
pub(super) struct Needles {
    sorted: Vec<Needle>,
}

/// What follows the text does not disturb the order of the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Needle {
    text: Secret<Vec<u8>>,
    is_encoded: bool,
    /// Whether its beginning alone is no secret: a user name, and then a password that is looked for, too.
    is_whole: bool,
}

/// A needle that was found.
pub(super) struct Found {
    pub(super) at: Range<usize>,
    /// Whether what surrounds it may belong to it, as in base64 of something longer.
    pub(super) is_encoded: bool,
}

/// How thoroughly a secret is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Encodings of encodings, too.
    Nested,
    /// Encoded once.
    Once,
}

impl Needles {
    /// All forms of these secrets. The ones that are too short are left out.
    pub(super) fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>, depth: Depth) -> Self {
        let secrets: BTreeSet<&[u8]> = secrets.into_iter().collect();
        let mut all = BTreeSet::new();
        for secret in secrets.iter().filter(|secret| secret.len() >= SHORTEST) {
            let mut forms = BTreeSet::new();
            add_forms(&mut forms, secret, depth);
            let is_whole = is_login(secret, &secrets);
            all.extend(forms.into_iter().map(|(text, is_encoded)| (text, is_encoded, is_whole)));
        }
        let needle =
            |(text, is_encoded, is_whole)| Needle { text: Secret::new(text), is_encoded, is_whole };
        Self { sorted: all.into_iter().map(needle).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Every place of a needle, of a telling beginning of one, and of one that is cut off at the end.
    pub(super) fn find(&self, text: &[u8], depth: Depth) -> Vec<Found> {
        let mut found = Vec::new();
        let mut starts = [false; 256];
        for first in self.sorted.iter().filter_map(|needle| needle.text.expose().first()) {
            if let Some(starts) = starts.get_mut(usize::from(*first)) {
                *starts = true;
            }
        }
        for (at, byte) in text.iter().enumerate() {
            if !starts.get(usize::from(*byte)).copied().unwrap_or_default() {
                continue;
            }
            let rest = text.get(at..).unwrap_or_default();
            if let Some((length, is_encoded)) = self.longest_at(rest, depth) {
                found.push(Found { at: at..at + length, is_encoded });
            }
        }
        found
    }

    /// The longest match at the beginning of a text.
    fn longest_at(&self, rest: &[u8], depth: Depth) -> Option<(usize, bool)> {
        let key = rest.get(..SHORTEST)?;
        let from = self.sorted.partition_point(|needle| needle.key() < key);
        let alike = self.sorted.iter().skip(from).take_while(|needle| needle.key() == key);
        let matches = alike.filter_map(|needle| {
            let text = needle.text.expose();
            let common = text.iter().zip(rest).take_while(|(one, other)| one == other).count();
            let beginning = text.get(..common).unwrap_or_default();
            let is_cut_off = common == rest.len() && common >= SHORTEST_BEGINNING;
            let is_telling = depth == Depth::Nested && !needle.is_whole && is_telling(beginning);
            (common == text.len() || is_cut_off || is_telling)
                .then_some((common, needle.is_encoded))
        });
        matches.max()
    }
}

impl Needle {
    fn key(&self) -> &[u8] {
        self.text.expose().get(..SHORTEST).unwrap_or_default()
    }
}

/// Whether it is a user name and one of these secrets.
fn is_login(secret: &[u8], secrets: &BTreeSet<&[u8]>) -> bool {
    let colon = secret.iter().position(|byte| *byte == b':');
    let password = colon.and_then(|colon| secret.get(colon + 1..));
    password.is_some_and(|password| secrets.contains(password))
}

/// Whether the beginning of a secret gives it away.
fn is_telling(beginning: &[u8]) -> bool {
    let is_letter = |byte: &&u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    beginning.len() >= LONG_BEGINNING
        || beginning.iter().filter(is_letter).count() >= SHORTEST_BEGINNING
}

/// The forms of a secret that is too short to be looked for within words.
pub(super) fn short(secret: &Secret<String>) -> Vec<Secret<Vec<u8>>> {
    let text = secret.expose().as_bytes();
    let base64 = [BASE64_STANDARD_NO_PAD.encode(text), BASE64_URL_SAFE_NO_PAD.encode(text)];
    let forms = base64.map(String::into_bytes).into_iter();
    let hex = [hex(text), hex(text).to_ascii_uppercase()];
    let distinct: BTreeSet<_> = forms.chain(hex).chain([text.to_vec()]).collect();
    distinct.into_iter().map(Secret::new).collect()
}

/// Adds what a secret looks like in the views of a text; with each, whether it is encoded.
fn add_forms(forms: &mut BTreeSet<(Vec<u8>, bool)>, secret: &[u8], depth: Depth) {
    let mut add = |form: &[u8], is_encoded| {
        let form: Vec<u8> = form.iter().copied().filter_map(compact).collect();
        if form.len() >= SHORTEST {
            forms.insert((form, is_encoded));
        }
    };
    add(secret, false);
    if secret.contains(&b' ') {
        let plus: Vec<u8> =
            secret.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect();
        add(&plus, false);
    }
    // A secret that holds what looks like an escape reads differently once the text's escapes are undone.
    for view in View::of(secret).unescaped() {
        add(&view.bytes, false);
    }
    let percent = |hex: Vec<u8>| hex.chunks(2).flat_map(|byte| [b"%", byte].concat()).collect();
    let [little, big] = utf16(secret);
    let plains: [Vec<u8>; 7] = [
        secret.to_vec(),
        form_encoded(secret),
        json_escaped(secret),
        percent(hex(secret)),
        percent(hex(secret).to_ascii_uppercase()),
        little,
        big,
    ];
    for plain in plains {
        for core in cores(&plain) {
            add(&core, true);
        }
        add(&hex(&plain), true);
    }
    if depth == Depth::Nested {
        let hex_digits = [hex(secret), hex(secret).to_ascii_uppercase()];
        for inner in both_alphabets(secret).into_iter().chain(hex_digits) {
            for core in cores(&inner) {
                add(&core, true);
            }
            add(&hex(&inner), true);
        }
        // With its spaces: it is looked for among numbers, and nowhere else.
        forms.insert((numbers(secret), true));
    }
}

/// A text in UTF-16, little-endian and big-endian; nothing if it is not text.
fn utf16(secret: &[u8]) -> [Vec<u8>; 2] {
    let units: Vec<u16> = std::str::from_utf8(secret).unwrap_or_default().encode_utf16().collect();
    [
        units.iter().flat_map(|unit| unit.to_le_bytes()).collect(),
        units.iter().flat_map(|unit| unit.to_be_bytes()).collect(),
    ]
}

/// The characters of base64 that depend on a text alone when it stands within something longer, at each of the three
/// places that it can have in a group of three bytes.
fn cores(text: &[u8]) -> Vec<Vec<u8>> {
    (0..3).map(|before| core(text, before, |bytes| BASE64_STANDARD_NO_PAD.encode(bytes))).collect()
}

/// The same, and in the alphabet for URLs: whoever encodes it again keeps the difference.
fn both_alphabets(text: &[u8]) -> Vec<Vec<u8>> {
    let url = (0..3).map(|before| core(text, before, |bytes| BASE64_URL_SAFE_NO_PAD.encode(bytes)));
    cores(text).into_iter().chain(url).collect()
}

fn core(text: &[u8], before: usize, encode: impl Fn(&[u8]) -> String) -> Vec<u8> {
    let padded = Secret::new([vec![0; before].as_slice(), text].concat());
    let encoded = Secret::new(encode(padded.expose()).into_bytes());
    let (start, end) = ((before * 8).div_ceil(6), (before + text.len()) * 8 / 6);
    encoded.expose().get(start..end).unwrap_or_default().to_vec()
}

fn hex(text: &[u8]) -> Vec<u8> {
    hex::encode(text).into_bytes()
}

fn numbers(text: &[u8]) -> Vec<u8> {
    text.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ").into_bytes()
}

/// As a form or a query has it.
fn form_encoded(text: &[u8]) -> Vec<u8> {
    let encode = |byte: &u8| match byte {
        b'-' | b'.' | b'_' | b'~' => vec![*byte],
        byte if byte.is_ascii_alphanumeric() => vec![*byte],
        byte => format!("%{byte:02X}").into_bytes(),
    };
    text.iter().flat_map(encode).collect()
}

fn json_escaped(text: &[u8]) -> Vec<u8> {
    let encode = |byte: &u8| match byte {
        b'"' | b'\\' => vec![b'\\', *byte],
        b'\n' => b"\\n".to_vec(),
        byte => vec![*byte],
    };
    text.iter().flat_map(encode).collect()
}
