//! The ids of images, as container runtimes list them.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::match_images::shown;

/// Why a list of ids is none.
#[derive(Debug, Error)]
pub(super) enum IdsError {
    #[error("cannot read the list {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{} is no image id: write it whole, sha256: and 64 digits, as \"crictl images -q\" does",
        shown(.0)
    )]
    NoId(String),
    #[error(
        "the list of images is empty, and then everything would be forgotten: look whether what made it has failed; if really \
         no image is left, delete the directory image_manager"
    )]
    Empty,
}

/// Reads a list, an id on each line, from a file or with `-` from stdin.
pub(super) fn read(path: &Path) -> Result<Vec<String>, IdsError> {
    let unread = |source| IdsError::Unreadable { path: path.to_owned(), source };
    let text = match path.to_str() {
        Some("-") => bounded(io::stdin()),
        _ => File::open(path).and_then(bounded),
    };
    let text = text.map_err(unread)?;
    let ids = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(parse);
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() { Err(IdsError::Empty) } else { Ok(ids) }
}

/// An id with its algorithm. A short one could be anybody's.
pub(super) fn parse(text: &str) -> Result<String, IdsError> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if hex.len() == 64 && hex.chars().all(is_digit) {
        Ok(format!("sha256:{hex}"))
    } else {
        Err(IdsError::NoId(text.to_owned()))
    }
}

fn bounded(from: impl Read) -> io::Result<String> {
    const MOST: u64 = 16 << 20;
    let mut text = String::new();
    from.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_whole_or_none() {
        let hex = "0f".repeat(32);
        let full = format!("sha256:{hex}");
        assert_eq!(parse(&hex).unwrap(), full);
        assert_eq!(parse(&full).unwrap(), full);
        for wrong in ["", "0f0f0f0f0f0f", "sha256:", &full.to_uppercase(), "nginx:1.27"] {
            assert!(matches!(parse(wrong), Err(IdsError::NoId(_))), "{wrong}");
        }
    }
}
