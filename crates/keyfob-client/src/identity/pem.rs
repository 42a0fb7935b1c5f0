//! PEM as Go reads it: with text around the blocks, spaces at the ends of lines and headers before the content; a block
//! that is not in order is passed over.
//!
//! Upstream: `pem.Decode` of Go 1.26.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use keyfob_api::Secret;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// One block.
pub(super) struct Block<'a> {
    /// What stands behind `BEGIN`.
    pub(super) label: &'a [u8],
    /// What it holds.
    pub(super) der: Secret<Vec<u8>>,
}

/// All blocks, in order.
pub(super) fn blocks(pem: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let mut rest = pem;
    std::iter::from_fn(move || {
        let (block, behind) = next(rest)?;
        rest = behind;
        Some(block)
    })
}

/// The next block and what is behind it.
fn next(mut rest: &[u8]) -> Option<(Block<'_>, &[u8])> {
    loop {
        let end = find(rest, END)?;
        let (before, behind) = (rest.get(..end)?, rest.get(end + END.len()..)?);
        match read(rest, before, behind) {
            Some(Tried::Block(block, behind)) => return Some((block, behind)),
            Some(Tried::Nothing) => return None,
            None => rest = behind,
        }
    }
}

enum Tried<'a> {
    Block(Block<'a>, &'a [u8]),
    /// Headers without an end: nothing more is looked for.
    Nothing,
}

/// Reads the block that lies between the last `BEGIN` and an `END`; nothing if it is not in order.
fn read<'a>(all: &'a [u8], before: &[u8], behind: &'a [u8]) -> Option<Tried<'a>> {
    let begin = rfind(before, BEGIN)?;
    if begin > 0 && all.get(begin - 1) != Some(&b'\n') {
        return None;
    }
    let (type_line, mut content) = line(all.get(begin + BEGIN.len()..)?);
    let label = type_line.strip_suffix(DASHES)?;
    let mut has_headers = false;
    loop {
        if content.is_empty() {
            return Some(Tried::Nothing);
        }
        let (header, next) = line(content);
        if !header.contains(&b':') {
            break;
        }
        has_headers = true;
        content = next;
    }
    let to_trailer = content.len().checked_sub(behind.len());
    // The line break before `END` is the label's own if there is nothing between them.
    let length = to_trailer.and_then(|length| length.checked_sub(END.len()));
    if has_headers && length.is_none() {
        return to_trailer.is_none().then_some(Tried::Nothing);
    }
    let (rest_of_line, after) = line(behind.strip_prefix(label)?.strip_prefix(DASHES)?);
    if !rest_of_line.is_empty() {
        return None;
    }
    let der = decoded(content.get(..length.unwrap_or(0))?)?;
    Some(Tried::Block(Block { label, der }, after))
}

/// The first line without the white space at its end, and what is behind it.
fn line(data: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match data.iter().position(|byte| *byte == b'\n') {
        None => (data, &[][..]),
        Some(at) => {
            let (line, rest) = data.split_at(at);
            (line.strip_suffix(b"\r").unwrap_or(line), rest.get(1..).unwrap_or_default())
        }
    };
    let spaces = line.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    (line.get(..line.len() - spaces).unwrap_or_default(), rest)
}

/// Base64 with its padding; bits that stand for nothing are not looked at.
fn decoded(content: &[u8]) -> Option<Secret<Vec<u8>>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
    );
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let text = Secret::new(content.iter().copied().filter(is_text).collect::<Vec<u8>>());
    LENIENT.decode(text.expose()).ok().map(Secret::new)
}

fn find(data: &[u8], what: &[u8]) -> Option<usize> {
    data.windows(what.len()).position(|window| window == what)
}

fn rfind(data: &[u8], what: &[u8]) -> Option<usize> {
    data.windows(what.len()).rposition(|window| window == what)
}
