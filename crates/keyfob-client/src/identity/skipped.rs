//! The names of PEM blocks, for an error.

use std::fmt;

/// Blocks that were passed over, by their names. Names come from a plugin, so only a few are kept, and only what looks like
/// one is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedBlocks {
    names: Vec<String>,
    more: bool,
}

impl SkippedBlocks {
    const MOST: usize = 8;

    pub(super) fn push(&mut self, label: &[u8]) {
        if self.names.len() < Self::MOST {
            self.names.push(shown(label));
        } else {
            self.more = true;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The one that was passed over, if it was just one.
    pub(super) fn only(&self) -> Option<&str> {
        match self.names.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

fn shown(label: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b' ';
    match std::str::from_utf8(label) {
        Ok(text) if text.len() <= 40 && label.iter().all(is_plain) => text.to_owned(),
        _ => "something else".to_owned(),
    }
}

/// As Go shows a list.
impl fmt::Display for SkippedBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}{}]", self.names.join(" "), if self.more { " …" } else { "" })
    }
}
