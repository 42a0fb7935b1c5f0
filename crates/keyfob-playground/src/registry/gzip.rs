//! gzip that does not compress.
//!
//! Upstream: RFC 1952, and the stored blocks of RFC 1951. Whoever unpacks the result cannot tell; nothing that can compress
//! is needed to make it.

/// Of a stored block.
const LARGEST_BLOCK: usize = 0xffff;
/// Deflate, no flags, no time, no hints, an unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// The bytes as one member of a gzip file.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = HEAD.to_vec();
    out.reserve(bytes.len() + bytes.len() / LARGEST_BLOCK * 5 + 16);
    let mut blocks = bytes.chunks(LARGEST_BLOCK).peekable();
    if blocks.peek().is_none() {
        block(&mut out, &[], true);
    }
    while let Some(each) = blocks.next() {
        block(&mut out, each, blocks.peek().is_none());
    }
    out.extend(crc32(bytes).to_le_bytes());
    // The size modulo 2^32, as the format has it.
    out.extend(bytes.len().to_le_bytes().into_iter().take(4));
    out
}

fn block(out: &mut Vec<u8>, bytes: &[u8], is_last: bool) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.push(u8::from(is_last));
    out.extend(length.to_le_bytes());
    out.extend((!length).to_le_bytes());
    out.extend(bytes);
}

fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |sum: u32, byte: &u8| {
        let [low, ..] = sum.to_le_bytes();
        sum >> 8 ^ TABLE.get(usize::from(low ^ byte)).copied().unwrap_or_default()
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[expect(clippy::indexing_slicing, reason = "the compiler runs it, and would refuse")]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut number = 0;
    while number < 256 {
        let (mut sum, mut bit) = (number, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        table[number as usize] = sum;
        number += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_that_everybody_has() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn a_small_file_is_one_block() {
        let want = [
            &HEAD[..],
            &[1, 2, 0, 0xfd, 0xff],
            b"hi",
            &0xd893_2aac_u32.to_le_bytes(),
            &2_u32.to_le_bytes(),
        ];
        assert_eq!(gzip(b"hi"), want.concat());
        assert_eq!(gzip(b"")[HEAD.len()..], [1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn only_the_last_block_is_the_last() {
        let packed = gzip(&vec![7; LARGEST_BLOCK + 1]);
        assert_eq!(packed[HEAD.len()..][..5], [0, 0xff, 0xff, 0, 0]);
        assert_eq!(packed[HEAD.len() + 5 + LARGEST_BLOCK..][..6], [1, 1, 0, 0xfe, 0xff, 7]);
    }
}
