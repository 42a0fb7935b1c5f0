//! The configuration file that `install` writes: a new one, or one that is there already and keeps what else it configures.
//!
//! A kubelet that reads a wrong file does not start. So everything is decided before anything is changed ([`Plan::new`]),
//! what is written was read back and found to mean what was meant, the old file is kept as a backup, and the new one
//! replaces it in one step.

use std::{
    fs::{self, Metadata, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    path::{self, Path, PathBuf},
};

use keyfob_api::{FeatureGates, Timestamp};
use keyfob_config::{Config, Invalid, ProviderConfig};
use keyfob_exec::{Clock as _, LookupError, Program, SystemClock, read_bounded};
use tempfile::NamedTempFile;
use thiserror::Error;

use super::{
    install::Form,
    merge::{self, Merged},
};
use crate::explain::command::quoted;

/// More than any configuration has.
const MOST: u64 = 16 << 20;

/// What is to be written where, for which plugins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) path: &'a Path,
    pub(super) config: &'a Config,
    /// The form of a new file.
    pub(super) form: Form,
    /// Whether a file that is there may be changed.
    pub(super) merge: bool,
    /// The directory where the kubelet will look for the plugins of all providers.
    pub(super) plugins: &'a Path,
}

/// What will become of the file.
#[derive(Debug)]
pub(super) enum Plan {
    /// It has these providers already, just as they are wanted.
    Nothing(PathBuf),
    /// There is none yet.
    Create { path: PathBuf, text: String, mode: u32 },
    /// It gets these providers, and keeps its others.
    Merge { old: OldFile, merged: Box<Merged> },
}

/// A file that is there.
#[derive(Debug)]
pub(super) struct OldFile {
    /// Where it really is, if a link leads to it.
    path: PathBuf,
    text: Vec<u8>,
    metadata: Box<Metadata>,
}

/// Why nothing is written.
#[derive(Debug, Error)]
pub(super) enum ConfigFileError {
    #[error(
        "{} is there already and configures {providers}: nothing was changed\n\
         add --merge to add or replace just {ours} in it (a backup is kept), or name another --config-file",
        path.display()
    )]
    Exists { path: PathBuf, providers: String, ours: String },
    #[error(
        "{} is there already, and it cannot be read as a configuration of credential providers: nothing was changed\n\
         name another --config-file, or move this one away; to see what is wrong with it: {}",
        .0.display(),
        validate(.0)
    )]
    Foreign(PathBuf),
    #[error(
        "a kubelet would not start with {}, merged or not: {reason}; nothing was changed\n\
         fix it first; to see how: {}",
        path.display(),
        validate(path)
    )]
    Broken { path: PathBuf, reason: String },
    #[error("a kubelet would not start with {} and these providers merged: {error}; nothing was changed", path.display())]
    Invalid { path: PathBuf, error: Invalid },
    #[error(
        "a kubelet would not start with {}: it looks for the plugins of all providers in one directory, and {}; nothing \
         was changed\n\
         install into the directory that the kubelet uses already (its --image-credential-provider-bin-dir)",
        path.display(),
        there_is(error)
    )]
    MissingPlugin { path: PathBuf, error: LookupError },
    #[error(
        "{} is a directory: nothing was changed\n\
         name a file in it, such as {}; a kubelet reads the .yaml, .yml and .json files of a directory",
        .0.display(),
        .0.join("keyfob.yaml").display()
    )]
    Directory(PathBuf),
    #[error("{} is no regular file: nothing was changed\nname another --config-file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} cannot be read: {error}; nothing was changed", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("the providers cannot be added to {} without changing its meaning: nothing was changed\nadd them by hand", .0.display())]
    Unmergeable(PathBuf),
    #[error("cannot write {}: {reason}", path.display())]
    Unwritable { path: PathBuf, reason: String },
}

/// The command that says what is wrong with a configuration.
fn validate(path: &Path) -> String {
    format!("keyfob validate {}", quoted(&path.to_string_lossy()))
}

/// The error, behind "and".
fn there_is(error: &LookupError) -> String {
    match error {
        LookupError::NotFound { .. } => format!("there is {error}"),
        _ => error.to_string(),
    }
}

impl Plan {
    /// Looks at what is there; nothing is changed.
    pub(super) fn new(wanted: &Wanted<'_>) -> Result<Self, ConfigFileError> {
        let Some(old) = OldFile::read(wanted.path)? else {
            check_place(wanted.path)?;
            let text = wanted.form.print(wanted.config);
            let mode = mode_of_new_file(wanted.config);
            return Ok(Self::Create { path: wanted.path.to_owned(), text, mode });
        };
        let path = old.path.clone();
        let config = Config::from_files([(&path, &old.text)]);
        let config = config.map_err(|_| ConfigFileError::Foreign(path.clone()))?;
        let ours = &wanted.config.providers;
        if ours.iter().all(|provider| config.providers.contains(provider)) {
            return Ok(Self::Nothing(path));
        }
        if !wanted.merge {
            let (providers, ours) = (names(&config.providers), names(ours));
            return Err(ConfigFileError::Exists { path, providers, ours });
        }
        let refused = config.lint(None).into_iter().find(|warning| warning.kubelet_refuses);
        if let Some(warning) = refused {
            return Err(ConfigFileError::Broken { path, reason: warning.message });
        }
        let merged = merge::merge(&old.text, &config, ours);
        let merged = merged.ok_or_else(|| ConfigFileError::Unmergeable(path.clone()))?;
        check(&path, &merged, wanted)?;
        Ok(Self::Merge { old, merged: Box::new(merged) })
    }

    /// What was done, or would be, in sentences.
    pub(super) fn describe(&self, verb: Verb) -> Vec<String> {
        match self {
            Self::Nothing(path) => {
                vec![format!("{} has these providers already: it stays as it is", path.display())]
            }
            Self::Create { path, .. } => vec![format!("{} {}", path.display(), verb.made())],
            Self::Merge { old, merged } => {
                let mut lines = merged.changes(&old.path, verb);
                if merged.loses_comments {
                    let comments = "comments of the old file are only in its backup";
                    lines.push(comments.to_owned());
                }
                lines
            }
        }
    }

    /// The whole file as it will be; nothing if it stays as it is.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Nothing(_) => None,
            Self::Create { text, .. } => Some(text),
            Self::Merge { merged, .. } => Some(&merged.text),
        }
    }

    /// Writes the file beside its place: what cannot be written is known before anything is changed. The directory of a new
    /// file is created if it is missing, as the plugin directory is.
    pub(super) fn stage(self) -> io::Result<Staged> {
        if let Self::Create { path, .. } = &self
            && let Some(parent) = directory(path)
        {
            fs::create_dir_all(parent)?;
        }
        let draft = match &self {
            Self::Nothing(_) => None,
            Self::Create { path, text, mode } => {
                let draft = draft(path, text.as_bytes())?;
                draft.as_file().set_permissions(Permissions::from_mode(*mode))?;
                Some(draft)
            }
            Self::Merge { old, merged } => {
                Some(draft_like(&old.path, merged.text.as_bytes(), &old.metadata)?)
            }
        };
        Ok(Staged { plan: self, draft })
    }
}

/// Whether something was done, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Done,
    Planned,
}

impl Verb {
    pub(super) fn is(self) -> &'static str {
        match self {
            Self::Done => "is",
            Self::Planned => "would be",
        }
    }

    fn made(self) -> &'static str {
        match self {
            Self::Done => "was written",
            Self::Planned => "would be written",
        }
    }
}

/// A file that only needs its name.
#[derive(Debug)]
pub(super) struct Staged {
    plan: Plan,
    draft: Option<NamedTempFile>,
}

impl Staged {
    /// Gives the file its name, and says what was done. A kubelet that starts meanwhile reads the old file or the new one.
    pub(super) fn commit(self) -> io::Result<Vec<String>> {
        let mut done = self.plan.describe(Verb::Done);
        let Some(draft) = self.draft else { return Ok(done) };
        match &self.plan {
            Plan::Create { path, .. } => drop(draft.persist_noclobber(path)?),
            Plan::Merge { old, .. } => {
                let backup = old.back_up()?;
                draft.persist(&old.path)?;
                done.push(format!("the old file is kept as {}", backup.display()));
            }
            Plan::Nothing(_) => {}
        }
        Ok(done)
    }
}

impl OldFile {
    /// What is at this path, or where a link there leads; nothing if nothing is there.
    fn read(path: &Path) -> Result<Option<Self>, ConfigFileError> {
        let unreadable =
            |error: io::Error| ConfigFileError::Unreadable { path: path.to_owned(), error };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Whatever else is wrong, writing will meet it too, and say so.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
            Err(error) => return Err(unreadable(error)),
            Ok(_) => {}
        }
        let path = path.canonicalize().map_err(unreadable)?;
        let metadata = fs::metadata(&path).map_err(unreadable)?;
        if metadata.is_dir() {
            return Err(ConfigFileError::Directory(path));
        }
        if !metadata.is_file() {
            return Err(ConfigFileError::NotAFile(path));
        }
        let text = read_bounded(&path, MOST).map_err(unreadable)?.expose().clone();
        Ok(Some(Self { path, text, metadata: Box::new(metadata) }))
    }

    /// Keeps the old file under a name that no file has, and that no kubelet reads in a directory of configurations.
    fn back_up(&self) -> io::Result<PathBuf> {
        if fs::read(&self.path)? != self.text {
            return Err(io::Error::other("somebody else has just changed it: try again"));
        }
        let now = Timestamp::from(SystemClock.now()).to_string().replace(['-', ':'], "");
        let numbers = std::iter::once(String::new()).chain((1..100).map(|n| format!("-{n}")));
        for number in numbers {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".bak-{now}{number}"));
            let draft = draft_like(&self.path, &self.text, &self.metadata)?;
            match draft.persist_noclobber(&name) {
                Ok(_) => return Ok(name.into()),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("there are a hundred backups of this second already"))
    }
}

/// The directory of a file, from the root.
fn directory(path: &Path) -> Option<PathBuf> {
    Some(path::absolute(path).ok()?.parent()?.to_owned())
}

/// A new file needs a directory, which can be created unless something else has its name.
fn check_place(path: &Path) -> Result<(), ConfigFileError> {
    let Some(parent) = directory(path) else { return Ok(()) };
    let reason = match fs::metadata(&parent) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => format!("{} is not a directory", parent.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(ConfigFileError::Unwritable { path: path.to_owned(), reason })
}

/// A merged configuration must be one that a kubelet starts with.
fn check(path: &Path, merged: &Merged, wanted: &Wanted<'_>) -> Result<(), ConfigFileError> {
    let path = || path.to_owned();
    merged
        .config
        .validate(FeatureGates::default())
        .map_err(|error| ConfigFileError::Invalid { path: path(), error })?;
    // Ours are put there together with the file.
    let is_ours = |name: &str| wanted.config.providers.iter().any(|ours| ours.name == name);
    let mut others = merged.config.providers.iter().filter(|each| !is_ours(&each.name));
    let missing = others.find_map(|each| Program::in_directory(wanted.plugins, &each.name).err());
    missing.map_or(Ok(()), |error| Err(ConfigFileError::MissingPlugin { path: path(), error }))
}

/// Other files of the same directory that configure one of these providers: a kubelet may be given the whole directory.
pub(super) fn also_configured(path: &Path, config: &Config) -> Vec<String> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = fs::read_dir(directory.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let mut others: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|other| other.file_name() != path.file_name())
        .filter(|other| {
            other
                .extension()
                .is_some_and(|end| ["json", "yaml", "yml"].map(Some).contains(&end.to_str()))
        })
        .collect();
    others.sort();
    let warning = |other: PathBuf| {
        let theirs = Config::read(&other).ok()?.providers;
        let is_theirs = |ours: &&ProviderConfig| theirs.iter().any(|each| each.name == ours.name);
        let both: Vec<_> = config.providers.iter().filter(is_theirs).cloned().collect();
        (!both.is_empty()).then(|| {
            format!(
                "{} configures {} too: a kubelet whose --image-credential-provider-config is the whole directory would not start",
                other.display(),
                names(&both)
            )
        })
    };
    others.into_iter().filter_map(warning).collect()
}

/// Who may read a new file: only its owner, such as the kubelet, if it has variables for plugins, which may be secrets.
fn mode_of_new_file(config: &Config) -> u32 {
    let has_variables = config.providers.iter().any(|provider| !provider.env.is_empty());
    if has_variables { 0o600 } else { 0o644 }
}

/// A file without its name yet, beside its place. Only its owner may read it.
fn draft(path: &Path, text: &[u8]) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".keyfob-")
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// The same, with the owner and the mode of another file.
fn draft_like(path: &Path, text: &[u8], like: &Metadata) -> io::Result<NamedTempFile> {
    let draft = draft(path, text)?;
    let file = draft.as_file();
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        fchown(file, Some(like.uid()), Some(like.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))?;
    Ok(draft)
}

/// Provider names in a sentence.
pub(super) fn names(providers: &[ProviderConfig]) -> String {
    let names: Vec<_> = providers.iter().map(|provider| provider.name.as_str()).collect();
    match names.as_slice() {
        [] => "no providers".to_owned(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
