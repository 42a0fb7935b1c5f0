//! `--agent`: credentials of the node agent instead of those of local providers, so that its cache is shared.
//!
//! What the agent hands out becomes [`Logins`] of the providers that it names. `get`, `explain` and `pull` handle them like logins
//! from any other source.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use http::StatusCode;
use keyfob_agent::{AgentClient, AgentClientError, AgentCredential};
use keyfob_api::{Chain, ImageRef};
use keyfob_exec::{Environment, on_one_line};
use keyfob_keyring::{Login, Logins, Source};
use rustix::process::{DumpableBehavior, getuid, set_dumpable_behavior};
use serde::Serialize;
use serde_json::Value;

use crate::{Verdict, agent::AGENT_SOCKET};

/// Names another socket, for the relay too.
const SOCKET_VARIABLE: &str = "KEYFOB_AGENT_SOCKET";

/// Whether an agent is asked, and which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum AgentArg {
    /// The node's agent, if its socket exists and no flag names another source.
    #[default]
    Auto,
    /// None.
    Off,
    /// The agent that listens on this socket.
    At(PathBuf),
}

impl FromStr for AgentArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            path if path.contains('/') => Ok(Self::At(path.into())),
            _ => Err("write auto, off, or the path of the agent's socket, with a slash"),
        }
    }
}

impl AgentArg {
    /// The agent to ask; nothing if credentials are looked for without one.
    pub(crate) fn choose(
        &self,
        has_local_sources: bool,
        environment: &dyn Environment,
    ) -> Result<Option<AgentSource>, AgentAndSources> {
        match self {
            Self::Off => Ok(None),
            Self::Auto if has_local_sources => Ok(None),
            Self::Auto => {
                let named = named_socket(environment);
                let is_named = named.is_some();
                let socket = named.unwrap_or_else(|| AGENT_SOCKET.into());
                let source =
                    |socket| AgentSource { client: AgentClient::new(socket), is_required: false };
                // Without a name, an agent that is not there is none.
                Ok((is_named || socket.exists()).then(|| source(socket)))
            }
            Self::At(_) if has_local_sources => Err(AgentAndSources),
            Self::At(socket) => {
                Ok(Some(AgentSource { client: AgentClient::new(socket), is_required: true }))
            }
        }
    }
}

/// The agent's socket: the one that a flag names, or else the environment, or else where it usually is.
pub(crate) fn agent_socket(flag: Option<&Path>, environment: &dyn Environment) -> PathBuf {
    let flag = flag.map(Path::to_owned);
    flag.or_else(|| named_socket(environment)).unwrap_or_else(|| AGENT_SOCKET.into())
}

fn named_socket(environment: &dyn Environment) -> Option<PathBuf> {
    environment.var(SOCKET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// An agent and local sources at the same time.
#[derive(Debug, thiserror::Error)]
#[error(
    "--agent PATH asks the agent alone: leave out --config, --bin-dir, --pull-secret, --docker-config and the flags of a pod, \
     or write --agent off"
)]
pub(crate) struct AgentAndSources;

/// The agent that is asked.
#[derive(Debug)]
pub(crate) struct AgentSource {
    client: AgentClient,
    /// Whether the user named it. Another one is asked only because it is there, and a pull goes on without it.
    pub(crate) is_required: bool,
}

impl AgentSource {
    /// Requests the credentials for an image.
    pub(crate) async fn ask(&self, image: &ImageRef) -> AgentAnswer {
        let repository = image.repository();
        let _inspectable = Inspectable::by_agent(self.client.socket());
        let granted = self.client.credentials(repository).await.map(|granted| {
            let logins = granted.credentials.into_iter().map(|each| logins(repository, each));
            Granted { rule: granted.rule, logins: logins.collect() }
        });
        AgentAnswer { socket: self.client.socket().to_owned(), granted }
    }

    /// Which rule decides, and why the others do not apply; nothing if the agent does not say.
    pub(crate) async fn explain(&self, image: &ImageRef) -> Option<Value> {
        let _inspectable = Inspectable::by_agent(self.client.socket());
        self.client.explain(image.repository(), None).await.ok()
    }
}

/// Lets an agent of the same user read `/proc/PID/exe` of this process, by which it identifies its callers. That of a process that
/// is not dumpable, such as this one, only root may read. Agents of root and of others change nothing.
#[derive(Debug)]
pub(crate) struct Inspectable(());

impl Inspectable {
    /// As long as the value lives, if the socket is of the user who runs this.
    pub(crate) fn by_agent(socket: &Path) -> Option<Self> {
        let owner = fs::metadata(socket).ok()?.uid();
        let is_of_same_user = owner != 0 && owner == getuid().as_raw();
        is_of_same_user.then(|| {
            // Then the agent denies, and says why.
            set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap_or_default();
            Self(())
        })
    }
}

impl Drop for Inspectable {
    fn drop(&mut self) {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap_or_default();
    }
}

/// The agent answers for one repository, so that is the key of its logins.
fn logins(repository: &str, credential: AgentCredential) -> Arc<Logins> {
    let AgentCredential { username, password, provider, .. } = credential;
    let login = Login { username: username.into(), password, email: Box::default() };
    Arc::new(Logins::new(Source::provider(provider), [(repository, login)]))
}

/// What the agent said.
#[derive(Debug)]
pub(crate) struct AgentAnswer {
    socket: PathBuf,
    pub(crate) granted: Result<Granted, AgentClientError>,
}

/// What the agent handed out.
#[derive(Debug)]
pub(crate) struct Granted {
    /// The rule that allows it.
    rule: String,
    /// In the order in which they are tried.
    pub(crate) logins: Vec<Arc<Logins>>,
}

impl AgentAnswer {
    pub(crate) fn logins(&self) -> impl Iterator<Item = Arc<Logins>> {
        self.granted.iter().flat_map(|granted| granted.logins.iter().cloned())
    }

    /// Why there are no credentials, in a line.
    pub(crate) fn cause(&self) -> Option<String> {
        let error = self.granted.as_ref().err()?;
        Some(on_one_line(&Chain(error).to_string()))
    }

    /// What to do about it, in a line.
    pub(crate) fn help(&self) -> Option<String> {
        help(self.granted.as_ref().err()?, "give --config and --bin-dir to do without it")
            .map(|help| on_one_line(&help))
    }

    /// For people: where the credentials come from, or why there are none and what to do.
    pub(crate) fn lines(&self) -> String {
        let help = self.help().map(|help| format!("help: {help}\n")).unwrap_or_default();
        format!("keyfob: {}\n{help}", self.note())
    }

    /// Where the credentials come from, or why there are none.
    pub(crate) fn note(&self) -> String {
        match &self.granted {
            Ok(granted) => granted.described(&self.socket),
            Err(error) if error.is_connect() => self.cause().unwrap_or_default(),
            Err(_) => {
                let cause = self.cause().unwrap_or_default();
                format!("{cause} (asked the agent at {})", self.socket.display())
            }
        }
    }

    /// For programs.
    pub(crate) fn report(&self) -> AgentReport {
        AgentReport {
            socket: self.socket.display().to_string(),
            rule: self.granted.as_ref().ok().map(|granted| granted.rule.clone()),
            error: self.cause(),
            help: self.help(),
        }
    }

    /// The exit code if there are no credentials.
    pub(crate) fn verdict(&self) -> Verdict {
        match &self.granted {
            Ok(_) => Verdict::Nothing,
            Err(AgentClientError::Refused { status, .. }) => match *status {
                StatusCode::NOT_FOUND => Verdict::Nothing,
                StatusCode::BAD_REQUEST => Verdict::WrongInput,
                _ => Verdict::No,
            },
            Err(_) => Verdict::WrongInput,
        }
    }

    /// Whether nothing can be found out this way: the agent gives no answer, or denies.
    pub(crate) fn is_useless(&self) -> bool {
        self.granted.as_ref().is_err_and(|error| match error {
            AgentClientError::Refused { status, .. } => {
                !matches!(*status, StatusCode::NOT_FOUND | StatusCode::BAD_GATEWAY)
            }
            _ => true,
        })
    }
}

impl Granted {
    fn described(&self, socket: &Path) -> String {
        let text =
            format!("credentials from the agent at {}, rule {}", socket.display(), self.rule);
        on_one_line(&text)
    }
}

/// What to do about an agent that gives no answer. `otherwise` is what to do if it should not run.
pub(crate) fn help(error: &AgentClientError, otherwise: &str) -> Option<String> {
    match error {
        AgentClientError::Refused { help, .. } => help.clone(),
        AgentClientError::Down { .. } => {
            Some(format!("start it with `systemctl start keyfob-agent`, or {otherwise}"))
        }
        AgentClientError::NoAccess { .. } => Some(
            "its configuration sets the mode of the socket: listeners in /etc/keyfob/agent.yaml; or use sudo"
                .to_owned(),
        ),
        AgentClientError::Unreachable { .. } => {
            Some("check the path of the agent's socket".to_owned())
        }
        AgentClientError::NotAnAgent => {
            Some("something else listens on this socket: name the agent's".to_owned())
        }
        // `Broken` and `Busy`.
        _ => Some("its log may tell why: journalctl -u keyfob-agent".to_owned()),
    }
}

/// The agent in the JSON of `get`, `explain` and `pull`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AgentReport {
    /// The socket.
    pub(crate) socket: String,
    /// The rule that allows the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<String>,
    /// Why there are no credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) help: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[derive(Debug)]
    struct Variables(Option<PathBuf>);

    impl Environment for Variables {
        fn var(&self, name: &str) -> Option<OsString> {
            self.0.clone().filter(|_| name == SOCKET_VARIABLE).map(Into::into)
        }

        fn vars(&self) -> Vec<(OsString, OsString)> {
            Vec::new()
        }
    }

    #[test]
    fn an_agent_is_asked_if_it_is_there_and_nothing_else_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent.sock");
        let socket_of = |arg: &str, has_local_sources, variables: &Variables| {
            let arg: AgentArg = arg.parse().unwrap();
            let chosen = arg.choose(has_local_sources, variables);
            chosen.map(|chosen| {
                chosen.map(|agent| (agent.client.socket().to_owned(), agent.is_required))
            })
        };
        let variables = Variables(Some(socket.clone()));
        // A socket that is named and not there is an agent that is down.
        assert_eq!(socket_of("auto", false, &variables).unwrap(), Some((socket, false)));
        assert_eq!(socket_of("auto", true, &variables).unwrap(), None);
        assert_eq!(socket_of("off", false, &variables).unwrap(), None);
        let is_there = Path::new(AGENT_SOCKET).exists();
        let found = socket_of("auto", false, &Variables(None)).unwrap();
        assert_eq!(found, is_there.then(|| (AGENT_SOCKET.into(), false)));
        let named = Some(("./x".into(), true));
        assert_eq!(socket_of("./x", false, &variables).unwrap(), named);
        assert!(socket_of("./x", true, &variables).is_err());
        assert!("of".parse::<AgentArg>().is_err());
    }
}
