//! What base64 and hexadecimal digits in a text stand for.

use super::view::View;

/// A shorter text holds no secret that is looked for within words.
const SHORTEST: usize = super::forms::SHORTEST;

/// The texts that are encoded in these views, and those that are encoded in them.
pub(super) fn decoded(views: &[View]) -> Vec<View> {
    let once = decoded_once(views);
    let twice = decoded_once(&once);
    once.into_iter().chain(twice).collect()
}

fn decoded_once(views: &[View]) -> Vec<View> {
    let texts = views.iter().flat_map(|view| base64(view).into_iter().chain(hex(view)));
    texts.filter(|text| !text.bytes.is_empty()).flat_map(View::unescaped).collect()
}

/// Every run of characters of base64, of either alphabet, decoded from each of its first four characters on: what stands before an
/// encoded text may look like a part of it. White space is left out.
fn base64(view: &View) -> Vec<View> {
    (0..4).map(|skipped| groups(view, sextet, [skipped, 4, 6])).collect()
}

/// The same with pairs of hexadecimal digits.
fn hex(view: &View) -> Vec<View> {
    let digits = view.hex_digits();
    let digit = |byte: u8| Some(char::from(byte).to_digit(16));
    (0..2).map(|skipped| groups(&digits, digit, [skipped, 2, 4])).collect()
}

/// Of a byte: nothing if it does not count, `Some(None)` if it ends a run, and otherwise its value.
type Value = Option<Option<u32>>;

fn sextet(byte: u8) -> Value {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        byte if byte.is_ascii_whitespace() || byte.is_ascii_control() => return None,
        _ => return Some(None),
    };
    Some(Some(value.into()))
}

/// Decodes runs in groups: how many characters are skipped at the beginning of a run, how many make a group, and how many bits
/// each has. Only what is text comes out.
fn groups(view: &View, value: impl Fn(u8) -> Value, [skipped, size, bits]: [usize; 3]) -> View {
    let mut texts = Texts { view: View::empty(), stretch: View::empty() };
    let (mut seen, mut group, mut start) = (0, 0_u32, 0);
    for (at, byte) in view.bytes.iter().enumerate() {
        match value(*byte) {
            None => {}
            Some(Some(value)) => {
                seen += 1;
                if seen <= skipped {
                    continue;
                }
                let place = (seen - skipped - 1) % size;
                if place == 0 {
                    (group, start) = (0, at);
                }
                group = group << bits | value;
                if place + 1 == size {
                    texts.add(view, group, [size * bits / 8, 0], start..at + 1);
                }
            }
            Some(None) => {
                texts.end_group(view, group, seen.saturating_sub(skipped) % size * bits, start..at);
                seen = 0;
            }
        }
    }
    let end = view.bytes.len();
    texts.end_group(view, group, seen.saturating_sub(skipped) % size * bits, start..end);
    texts.view
}

/// Collects the stretches of bytes that are text and long enough.
struct Texts {
    view: View,
    stretch: View,
}

impl Texts {
    /// The last group of a run has fewer bits.
    fn end_group(&mut self, from: &View, group: u32, bits: usize, at: std::ops::Range<usize>) {
        self.add(from, group, [bits / 8, bits % 8], at);
        self.end_stretch();
    }

    /// Adds the bytes of a group, which has so many, and some bits behind them.
    fn add(
        &mut self,
        from: &View,
        group: u32,
        [bytes, bits]: [usize; 2],
        at: std::ops::Range<usize>,
    ) {
        let origin = from.origin(&at).unwrap_or_default();
        for number in (0..bytes).rev() {
            let byte = (group >> bits >> (8 * number)).to_le_bytes()[0];
            if byte.is_ascii_control() && !byte.is_ascii_whitespace() {
                self.end_stretch();
            } else {
                self.stretch.push(&[byte], &origin);
            }
        }
    }

    /// Keeps what is UTF-8.
    fn end_stretch(&mut self) {
        let stretch = std::mem::replace(&mut self.stretch, View::empty());
        let mut at = 0;
        for chunk in stretch.bytes.utf8_chunks() {
            let (text, length) = (chunk.valid().as_bytes(), chunk.valid().len());
            if length >= SHORTEST {
                for (place, byte) in text.iter().enumerate() {
                    let place = at + place;
                    self.view
                        .push(&[*byte], &stretch.origin(&(place..place + 1)).unwrap_or_default());
                }
                // More than may stand between two bytes of a secret.
                let last = at + length - 1;
                let origin = stretch.origin(&(last..last + 1)).unwrap_or_default();
                self.view.push(b"\xff\xff\xff\xff", &origin);
            }
            at += length + chunk.invalid().len();
        }
    }
}
