//! Where text with secrets in it is put together.

use std::mem;

use zeroize::Zeroize;

use crate::Secret;

/// A buffer that wipes what it outgrows and what it never hands out.
#[derive(Default)]
pub(crate) struct WipingBuffer(Vec<u8>);

impl WipingBuffer {
    pub(crate) fn push_str(&mut self, text: &str) {
        let needed = self.0.len() + text.len();
        if needed > self.0.capacity() {
            let mut larger = Vec::with_capacity(needed.max(32) * 2);
            larger.extend_from_slice(&self.0);
            self.0.zeroize();
            self.0 = larger;
        }
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn push(&mut self, c: char) {
        self.push_str(c.encode_utf8(&mut [0; 4]));
    }

    pub(crate) fn into_bytes(mut self) -> Secret<Vec<u8>> {
        Secret::new(mem::take(&mut self.0))
    }

    pub(crate) fn into_text(mut self) -> Secret<String> {
        // Only text went in.
        String::from_utf8(mem::take(&mut self.0)).map(Secret::new).unwrap_or_default()
    }
}

impl Drop for WipingBuffer {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_whole() {
        let mut buffer = WipingBuffer::default();
        for _ in 0..100 {
            buffer.push('é');
            buffer.push_str("ab");
        }
        assert_eq!(buffer.into_text().expose(), &"éab".repeat(100));
    }
}
