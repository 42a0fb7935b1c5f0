//! What stands in a directory now.

use std::{ffi::OsStr, fs, io, path::Path};

use keyfob_api::{Claims, Secret};
use keyfob_exec::read_bounded;

use thiserror::Error;

use super::manifest;
use crate::identity::{IdentityError, ServiceAccount, ServiceAccountsError};

/// A token is a few kilobytes, and so is an account.
const LARGEST_FILE: u64 = 1 << 20;
/// A projected volume holds a handful.
const MOST_FILES: usize = 1_000;
/// How many files an error speaks of.
const MOST_TOLD: usize = 20;

/// The files, each read once.
#[derive(Debug)]
pub(super) struct Scan {
    directory: String,
    pub(super) tokens: Vec<TokenFile>,
    /// By namespace and name, in the order of the files.
    pub(super) accounts: Vec<((String, String), ServiceAccount)>,
    /// Files that are neither, and why.
    useless: Vec<(String, String)>,
}

/// A file with a token in it.
#[derive(Debug)]
pub(super) struct TokenFile {
    file: String,
    pub(super) token: Secret<String>,
    pub(super) claims: Claims,
}

impl Scan {
    /// Reads every file, in the order of their names.
    pub(super) fn of(path: &Path) -> Result<Self, IdentityError> {
        let directory = path.display().to_string();
        let names = match names(path) {
            Ok(names) => names,
            Err(source) => {
                let unreadable = UnreadableDirectory { directory, source };
                return Err(IdentityError::Unavailable(ServiceAccountsError::new(unreadable)));
            }
        };
        let mut scan =
            Self { directory, tokens: Vec::new(), accounts: Vec::new(), useless: Vec::new() };
        for name in names {
            let file = name.to_string_lossy().into_owned();
            if let Err(why) = scan.add(&path.join(&name), &file) {
                scan.useless.push((file, why));
            }
        }
        Ok(scan)
    }

    fn add(&mut self, path: &Path, file: &str) -> Result<(), String> {
        let text = read_bounded(path, LARGEST_FILE);
        let text = text.map_err(|error| format!("cannot be read: {error}"))?;
        if is_manifest(path) {
            self.accounts.extend(manifest::accounts(text.expose())?);
        } else {
            self.tokens.push(TokenFile::read(file, text.expose()).ok_or("is no JSON web token")?);
        }
        Ok(())
    }

    /// Fails if there is one that may be of any account.
    pub(super) fn every_manifest_is_read(&self) -> Result<(), IdentityError> {
        match self.useless.iter().find(|(file, _)| is_manifest(Path::new(file))) {
            None => Ok(()),
            Some((file, why)) => {
                let message = format!(
                    "a manifest in token directory {} cannot be used: {file} {why}",
                    self.directory
                );
                Err(IdentityError::Unavailable(ServiceAccountsError::new(message)))
            }
        }
    }

    /// That there is no such thing, and what every file is instead.
    pub(super) fn nothing(
        &self,
        what: &str,
        why_not: impl Fn(&Claims) -> Option<String>,
    ) -> IdentityError {
        let tokens = self.tokens.iter();
        let tokens = tokens.filter_map(|each| Some((each.file.clone(), why_not(&each.claims)?)));
        let accounts = self.accounts.iter();
        let accounts = accounts.map(|((namespace, name), _)| {
            ("a manifest".to_owned(), format!("is of service account {namespace}/{name}"))
        });
        let mut all: Vec<_> = tokens.chain(self.useless.iter().cloned()).chain(accounts).collect();
        let more = all.len().saturating_sub(MOST_TOLD);
        all.truncate(MOST_TOLD);
        let told: Vec<_> = all.into_iter().map(|(file, why)| format!("{file} {why}")).collect();
        let told = match (told.is_empty(), more) {
            (true, _) => "it is empty".to_owned(),
            (false, 0) => told.join("; "),
            (false, more) => format!("{}; and {more} more", told.join("; ")),
        };
        let message = format!("no {what} in {}: {told}", self.directory);
        IdentityError::NotFound(ServiceAccountsError::new(message))
    }
}

/// The directory's files cannot be listed.
#[derive(Debug, Error)]
#[error("token directory {directory} cannot be read")]
struct UnreadableDirectory {
    directory: String,
    source: io::Error,
}

impl TokenFile {
    fn read(file: &str, text: &[u8]) -> Option<Self> {
        let token = Secret::from(std::str::from_utf8(text).ok()?.trim());
        let claims = Claims::of(&token)?;
        Some(Self { file: file.to_owned(), token, claims })
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    matches!(extension, Some("json" | "yaml" | "yml"))
}

/// The files' names, in order, but for hidden ones.
fn names(path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            names.push(name);
        }
        if names.len() > MOST_FILES {
            let reason =
                format!("it holds more than {MOST_FILES} files: give tokens one of their own");
            return Err(io::Error::other(reason));
        }
    }
    names.sort_unstable();
    Ok(names)
}
