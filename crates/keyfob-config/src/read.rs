//! Files to a configuration.
//!
//! Upstream: `readCredentialProviderConfig` in `pkg/credentialprovider/plugin/config.go`.
//! Differs: only regular files are read (upstream: a pipe blocks the start-up); a file has at most 16 MiB.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyfob_api::{Quoted, Secret};
use keyfob_exec::read_bounded;
use sha2::{Digest as _, Sha256};

use super::{
    Config, ConfigError, ErrorKind, Place,
    decode::{Decoded, Provider, decode},
    go_files::{self, PathError, quoted},
    read_error::ReadError,
};

/// More than any configuration needs, and not enough to fill the memory.
const LARGEST_FILE: u64 = 16 << 20;

impl Config {
    /// Reads a file, or the `.json`, `.yaml` and `.yml` files of a directory in the order of their names.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let mut reader = Reader::default();
        for file in files(path)? {
            reader.add(&file, contents(&file)?.expose())?;
        }
        reader.finish()
    }

    /// The same for files that somebody else has read, in their order. The names are for errors.
    pub fn from_files<N: AsRef<Path>, B: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (N, B)>,
    ) -> Result<Self, ReadError> {
        let mut reader = Reader::default();
        for (name, bytes) in files {
            reader.add(name.as_ref(), bytes.as_ref())?;
        }
        reader.finish()
    }
}

/// Takes files one after the other.
#[derive(Default)]
struct Reader {
    hash: Sha256,
    providers: Vec<Provider>,
    /// Where the first file has its providers.
    place: Option<Place>,
}

impl Reader {
    fn add(&mut self, file: &Path, bytes: &[u8]) -> Result<(), ReadError> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.hash.update(length.to_be_bytes());
        self.hash.update(bytes);
        let name: Arc<str> = file.to_string_lossy().into();
        let decoded = decode(&name, bytes).map_err(|fault| ReadError::of_fault(file, fault))?;
        let Decoded { providers, place } = decoded;
        self.providers.extend(providers);
        self.place.get_or_insert(place);
        Ok(())
    }

    fn finish(self) -> Result<Config, ReadError> {
        let hash = format!("sha256:{}", hex::encode(self.hash.finalize()));
        let (providers, origins) = self.providers.into_iter().unzip();
        let config = Config { providers, hash: Some(hash), origins, place: self.place };
        config.refuse_repeated_names()?;
        Ok(config)
    }
}

impl Config {
    fn refuse_repeated_names(&self) -> Result<(), ReadError> {
        let mut seen = HashSet::new();
        for (index, provider) in self.providers.iter().enumerate() {
            if seen.insert(&provider.name) {
                continue;
            }
            let name = Quoted(&provider.name);
            let text = format!("duplicate provider name {name} found in configuration file(s)");
            let error = ConfigError {
                path: "providers.name".to_owned(),
                kind: ErrorKind::Duplicate,
                message: text.clone(),
                place: self.place(index, provider, "name"),
                help: Some(self.about_the_first(&provider.name)),
            };
            return Err(ReadError::of_duplicate(text, error));
        }
        Ok(())
    }

    fn about_the_first(&self, name: &str) -> String {
        const DO: &str =
            "to use one plugin twice, link it in the plugin directory under a second name";
        let mut providers = self.providers.iter().enumerate();
        let first = providers.find(|(_, provider)| provider.name == name);
        let place = first.and_then(|(index, provider)| self.place(index, provider, "name"));
        place.map_or_else(|| DO.to_owned(), |place| format!("the first stands at {place}; {DO}"))
    }
}

/// The files that a path means.
fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    if path.as_os_str().is_empty() {
        let text = "credential provider config path is empty".to_owned();
        return Err(ReadError::of_file(path, text, "say which file or directory to read"));
    }
    let metadata = fs::metadata(path).map_err(|error| {
        let said = PathError { operation: "stat", path, error: &error };
        ReadError::of_io(path, format!("unable to access path {}: {said}", quoted(path)), error)
    })?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = entries(path).map_err(|error| {
        let said = PathError { operation: "open", path, error: &error };
        ReadError::of_io(path, format!("unable to read directory {}: {said}", quoted(path)), error)
    })?;
    if files.is_empty() {
        let text = format!("no configuration files found in directory {}", quoted(path));
        let help = "only files whose names end in .json, .yaml or .yml, in lower case, are read";
        return Err(ReadError::of_file(path, text, help));
    }
    files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    Ok(files)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() || !has_right_ending(&entry.file_name().to_string_lossy()) {
            continue;
        }
        files.push(match (directory.to_str(), entry.file_name().to_str()) {
            (Some(directory), Some(name)) => go_files::join(directory, name).into(),
            _ => entry.path(),
        });
    }
    Ok(files)
}

/// Go's ending is what follows the last dot, also if nothing stands before it.
fn has_right_ending(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    matches!(ending, Some("json" | "yaml" | "yml"))
}

fn contents(path: &Path) -> Result<Secret<Vec<u8>>, ReadError> {
    if path.is_dir() {
        let error = io::Error::from(io::ErrorKind::IsADirectory);
        return Err(unreadable(path, "read", error));
    }
    read_bounded(path, LARGEST_FILE).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => ReadError::of_file(
            path,
            format!("unable to read file {}: not a regular file", quoted(path)),
            "a kubelet would wait for a pipe forever: put the configuration into a file",
        ),
        io::ErrorKind::FileTooLarge => ReadError::of_file(
            path,
            format!("unable to read file {}: larger than 16 MiB", quoted(path)),
            "this is hardly a configuration; split it if it is",
        ),
        _ => unreadable(path, "open", error),
    })
}

fn unreadable(path: &Path, operation: &'static str, error: io::Error) -> ReadError {
    let said = PathError { operation, path, error: &error };
    ReadError::of_io(path, format!("unable to read file {}: {said}", quoted(path)), error)
}
