//! What a client asks: which plugin, told what, in which surroundings.

use std::{
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use keyfob_api::{ExecCredentialSpec, ExecInfoError, ExecVersion};
use keyfob_exec::{Environment, LookupError, Program, Terminal};
use rustix::process::geteuid;
use thiserror::Error;

use super::{AskerId, KeyPart, ParentProcess, VariablePattern, key::CacheKey, variables::relevant};

/// Where a client tells its plugin what it wants.
const INFO: &str = "KUBERNETES_EXEC_INFO";

/// The outside of a question.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "whoever asks fills it in")]
pub struct Surroundings<'a> {
    /// What the plugin will see, and what the client told.
    pub environment: &'a dyn Environment,
    /// Variables that count beside the usual ones.
    pub variables: &'a [VariablePattern],
    /// The current directory, which counts if the command or an argument names something in it.
    pub directory: Option<&'a Path>,
    /// Who asks.
    pub parent: Option<&'a ParentProcess>,
    /// Whether a person could be asked, if the client does not say.
    pub terminal: &'a dyn Terminal,
}

/// A plugin, and everything on which its answer depends.
pub struct ExecQuestion {
    pub(super) program: Program,
    pub(super) command: String,
    pub(super) args: Vec<OsString>,
    pub(super) info: Option<(ExecVersion, ExecCredentialSpec)>,
    pub(super) interactive: bool,
    pub(super) asker: Option<AskerId>,
    pub(super) key: CacheKey,
    parts: Vec<KeyPart>,
}

impl ExecQuestion {
    /// The question that a client asks by running us around a plugin.
    ///
    /// Without `KUBERNETES_EXEC_INFO` it is an old client, or a person who tries: then any version is an answer, and nobody
    /// is taken for refused who asks again.
    pub fn new(
        command: &str,
        args: Vec<OsString>,
        around: &Surroundings<'_>,
    ) -> Result<Self, QuestionError> {
        let info = around.environment.var(INFO).filter(|info| !info.is_empty());
        let info =
            info.map(|info| ExecCredentialSpec::decode(info.as_encoded_bytes())).transpose()?;
        let interactive = match &info {
            Some((_, spec)) => spec.interactive,
            None => around.terminal.stdin_is_terminal(),
        };
        let program = Program::on_path(command, around.environment)?;
        let client = around.parent.filter(|_| info.is_some());
        let told = Told { args: &args, info: info.as_ref(), client };
        let parts = parts(&program, &told, around)?;
        Ok(Self {
            key: CacheKey::new(command, &args, &parts),
            asker: client.map(|client| client.id),
            command: command.to_owned(),
            program,
            args,
            info,
            interactive,
            parts,
        })
    }

    /// Everything that makes its answer another's.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// The name of its answer.
    pub fn key(&self) -> &str {
        self.key.as_str()
    }

    /// Whether the plugin may talk to a person.
    pub fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Whether the client says itself that the server refused what it had: v1alpha1 could.
    pub(super) fn says_refused(&self) -> bool {
        let response = self.info.as_ref().and_then(|(_, spec)| spec.response.as_ref());
        response.is_some_and(|response| response.code == 401)
    }
}

/// Arguments may hold secrets.
impl fmt::Debug for ExecQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecQuestion")
            .field("program", &self.program)
            .field("args", &format_args!("{} hidden", self.args.len()))
            .field("interactive", &self.interactive)
            .field("asker", &self.asker)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// What the client says.
struct Told<'a> {
    args: &'a [OsString],
    info: Option<&'a (ExecVersion, ExecCredentialSpec)>,
    client: Option<&'a ParentProcess>,
}

fn parts(
    program: &Program,
    told: &Told<'_>,
    around: &Surroundings<'_>,
) -> Result<Vec<KeyPart>, QuestionError> {
    let mut parts = vec![
        KeyPart::new("user", geteuid().as_raw().to_string()),
        KeyPart::new("program", program.path().as_os_str().as_encoded_bytes()),
        KeyPart::new("program file", identity(program.path())?),
    ];
    for (arg, number) in told.args.iter().zip(1..) {
        parts.push(KeyPart::new(format!("argument {number}"), arg.as_encoded_bytes()));
    }
    if let Some((version, spec)) = told.info {
        parts.push(KeyPart::new("version", version.api_version()));
        // Neither whom the plugin may ask, nor why it is run, makes another answer.
        let cluster = ExecCredentialSpec { cluster: spec.cluster.clone(), ..Default::default() };
        parts.push(KeyPart::new("cluster", cluster.encode(*version).expose().as_slice()));
    }
    let inherited = told.client.and_then(|client| client.environment.as_deref());
    for (name, value) in relevant(around.environment.vars(), around.variables, inherited) {
        let name = format!("variable {}", name.to_string_lossy());
        parts.push(KeyPart::new(name, value.as_encoded_bytes()));
    }
    if let Some(directory) =
        around.directory.filter(|directory| names_something(program, told.args, directory))
    {
        parts.push(KeyPart::new("directory", directory.as_os_str().as_encoded_bytes()));
    }
    Ok(parts)
}

/// Which file a program is: one that is installed anew is another.
fn identity(program: &Path) -> Result<String, QuestionError> {
    let file = fs::metadata(program).map_err(|_| LookupError::NotFound { path: program.into() })?;
    Ok(format!("{} {} {}.{:09}", file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

/// Whether the command or an argument (`--config=…` too) is a path that begins in the directory, or is the name of something
/// there. An ARN has slashes and is neither.
fn names_something(program: &Program, args: &[OsString], directory: &Path) -> bool {
    let is_there = |text: &[u8]| {
        use std::os::unix::ffi::OsStrExt as _;
        let path = Path::new(OsStr::from_bytes(text));
        let begins_here = [&b"./"[..], b"../"].iter().any(|start| text.starts_with(start));
        !text.is_empty()
            && path.is_relative()
            && (begins_here || directory.join(path).symlink_metadata().is_ok())
    };
    let mut args = args.iter().map(|arg| arg.as_encoded_bytes());
    program.path().is_relative()
        || args.any(|arg| {
            let value = arg.iter().position(|byte| *byte == b'=').and_then(|at| arg.get(at + 1..));
            is_there(arg) || value.is_some_and(is_there)
        })
}

/// Why nothing can be asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// What the client tells cannot be read.
    #[error("{INFO}: {0}")]
    Info(#[from] ExecInfoError),
    /// The plugin is not there.
    #[error(transparent)]
    Plugin(#[from] LookupError),
}
