//! An archive with one file.
//!
//! Upstream: `ustar` of POSIX.

const BLOCK: usize = 512;

/// An archive with one file, which everybody may read.
pub(super) fn tar(name: &str, content: &[u8]) -> Vec<u8> {
    let mut out = header(name, content.len()).to_vec();
    out.extend(content);
    let end = out.len().next_multiple_of(BLOCK) + 2 * BLOCK;
    out.resize(end, 0);
    out
}

fn header(name: &str, size: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    put(&mut header, 0..100, name);
    put(&mut header, 100..108, "0000644");
    put(&mut header, 108..116, "0000000");
    put(&mut header, 116..124, "0000000");
    put(&mut header, 124..136, &format!("{size:011o}"));
    put(&mut header, 136..148, "00000000000");
    // While it is summed up, its sum is blank.
    put(&mut header, 148..156, "        ");
    put(&mut header, 156..157, "0");
    put(&mut header, 257..265, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    put(&mut header, 148..156, &format!("{sum:06o}\0 "));
    header
}

fn put(header: &mut [u8; BLOCK], field: std::ops::Range<usize>, text: &str) {
    let field = header.get_mut(field).into_iter().flatten();
    field.zip(text.bytes()).for_each(|(place, byte)| *place = byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_fills_whole_blocks_and_two_empty_ones_follow() {
        for (size, blocks) in [(0, 3), (1, 4), (512, 4), (513, 5)] {
            assert_eq!(tar("a", &vec![1; size]).len(), blocks * BLOCK, "{size}");
        }
        let archive = tar("layer-1", b"hello");
        assert_eq!(archive[..7], *b"layer-1");
        assert_eq!(archive[124..136], *b"00000000005\0");
        assert_eq!(archive[257..265], *b"ustar\x0000");
        assert_eq!(archive[BLOCK..BLOCK + 6], *b"hello\0");
    }

    #[test]
    fn the_sum_is_that_of_the_header_with_a_blank_in_its_place() {
        let mut header = header("layer-1", 5);
        let said = String::from_utf8(header[148..154].to_vec()).unwrap();
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        assert_eq!(u32::from_str_radix(&said, 8).unwrap(), sum);
    }
}
