//! The command line. Which program this is depends on the name it was started by, because a kubelet and docker find their
//! plugins by file name and docker passes no options.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{outcome::Outcome, text::on_one_line};

const DEFAULT_SOCKET: &str = "/run/keyfob/agent.sock";
/// A kubelet kills a plugin after a minute. This leaves time to report the reason.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(55);
const MAX_TIMEOUT: Duration = Duration::from_hours(1);

pub(crate) const USAGE: &str = "\
Asks keyfob-agent on this node for registry credentials.

usage: keyfob-relay provider [OPTIONS] [-- PROGRAM [ARG]...]
       keyfob-relay docker [OPTIONS] get|list|store|erase|version
       keyfob-relay --help | --version

By its file name: `keyfob-credential-provider` is `keyfob-relay provider`, a kubelet plugin;
`docker-credential-keyfob` is `keyfob-relay docker`, a credential helper for docker, podman, skopeo and buildkit.

options:
  --socket PATH          the agent's socket [env: KEYFOB_AGENT_SOCKET] [default: /run/keyfob/agent.sock]
  --timeout DURATION     how long to wait for the answer, such as 500ms, 20s or 1m
                         [env: KEYFOB_AGENT_TIMEOUT] [default: 55s; a kubelet waits for a minute]
  --if-down refuse|run   what a plugin does if the agent is not running or does not answer [default: refuse]
                         refuse: fail with the reason; run: become PROGRAM, with the same request on stdin.
                         An agent that denies or fails is not down.
";

const DOCKER_USAGE: &str = "usage: docker-credential-keyfob get|list|store|erase|version";

/// What to do.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum Command {
    Provider { agent: AgentOptions, if_down: IfDown },
    Docker { agent: AgentOptions, action: DockerAction },
    Help,
    Version,
}

/// How to reach the agent.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct AgentOptions {
    pub(crate) socket: PathBuf,
    pub(crate) timeout: Duration,
}

/// What a kubelet plugin does without an agent.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum IfDown {
    Refuse,
    Run { program: OsString, args: Vec<OsString> },
}

/// The words of docker's credential helper protocol.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum DockerAction {
    Get,
    List,
    Store,
    Erase,
    Version,
}

/// Which of the two protocols is spoken.
pub(crate) enum Role {
    Provider,
    Docker,
}

impl Role {
    /// The role that a program has by its name alone.
    pub(crate) fn of_program(program: &OsStr) -> Option<Self> {
        match Path::new(program).file_name()?.to_str()? {
            "keyfob-credential-provider" => Some(Self::Provider),
            "docker-credential-keyfob" => Some(Self::Docker),
            _ => None,
        }
    }
}

/// Why there is nothing to do, on one line.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct ArgsError {
    message: String,
    /// Whether it is docker or another of its clients that reads what is printed.
    is_for_docker: bool,
}

impl ArgsError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_for_docker: false }
    }

    /// Docker's clients show what a helper prints on stdout, and expect the exit code 1.
    pub(crate) fn outcome(&self) -> Outcome {
        let Self { message, is_for_docker } = self;
        let outcome = Outcome::wrong_arguments(message);
        if *is_for_docker {
            Outcome { code: 1, ..outcome }.with_stdout(format!("{}\n", on_one_line(message)))
        } else {
            outcome
        }
    }
}

/// Reads the arguments, of which the first is the program's name, and for what they do not say the environment.
pub(crate) fn parse(
    mut args: impl Iterator<Item = OsString>,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Command, ArgsError> {
    let program = args.next().unwrap_or_default();
    let role = match Role::of_program(&program) {
        Some(role) => role,
        None => match args.next().as_deref().and_then(OsStr::to_str) {
            Some("provider") => Role::Provider,
            Some("docker") => Role::Docker,
            Some("--help" | "-h" | "help") => return Ok(Command::Help),
            Some("--version" | "-V" | "-v") => return Ok(Command::Version),
            Some(word) => return Err(ArgsError::new(format!("unknown command {word:?}"))),
            None => return Err(ArgsError::new("a command is missing: provider or docker")),
        },
    };
    command(&role, args, env)
        .map_err(|message| ArgsError { message, is_for_docker: matches!(role, Role::Docker) })
}

fn command(
    role: &Role,
    args: impl Iterator<Item = OsString>,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Command, String> {
    match (Given::collect(args)?, role) {
        (Given { help: true, .. }, _) => Ok(Command::Help),
        (Given { version: true, .. }, Role::Provider) => Ok(Command::Version),
        (given, _) => given.command(role, env),
    }
}

/// The arguments as they were given.
#[derive(Default)]
struct Given {
    socket: Option<OsString>,
    timeout: Option<OsString>,
    if_down: Option<OsString>,
    words: Vec<OsString>,
    /// What follows `--`.
    program: Option<Vec<OsString>>,
    help: bool,
    version: bool,
}

impl Given {
    fn collect(mut args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut given = Self::default();
        while let Some(arg) = args.next() {
            let text = arg.to_str().unwrap_or_default();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.into())),
                _ => (text, None),
            };
            let option = match name {
                "--" => {
                    given.program = Some(args.collect());
                    break;
                }
                "--help" | "-h" => {
                    given.help = true;
                    continue;
                }
                "--version" | "-V" | "-v" => {
                    given.version = true;
                    continue;
                }
                "--socket" => &mut given.socket,
                "--timeout" => &mut given.timeout,
                "--if-down" => &mut given.if_down,
                _ if name.starts_with('-') => return Err(format!("unknown option {name:?}")),
                _ => {
                    given.words.push(arg);
                    continue;
                }
            };
            let value =
                value.or_else(|| args.next()).ok_or_else(|| format!("{name} needs a value"))?;
            if option.replace(value).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        Ok(given)
    }

    fn command(
        self,
        role: &Role,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Command, String> {
        // An empty variable counts as unset, as it does for docker.
        let env = |name| env(name).filter(|value| !value.is_empty());
        let socket = self.socket.or_else(|| env("KEYFOB_AGENT_SOCKET"));
        let socket = socket.map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from);
        let timeout = match (self.timeout, env("KEYFOB_AGENT_TIMEOUT")) {
            (Some(given), _) => duration(&given, "--timeout")?,
            (None, Some(given)) => duration(&given, "KEYFOB_AGENT_TIMEOUT")?,
            (None, None) => DEFAULT_TIMEOUT,
        };
        let agent = AgentOptions { socket, timeout };
        match role {
            Role::Provider => {
                if let Some(word) = self.words.first() {
                    return Err(format!(
                        "unexpected argument \"{}\"; a program to run follows `--`",
                        word.display()
                    ));
                }
                Ok(Command::Provider { agent, if_down: if_down(self.if_down, self.program)? })
            }
            Role::Docker => {
                if self.if_down.is_some() || self.program.is_some() {
                    return Err("--if-down is an option of `keyfob-relay provider`".to_owned());
                }
                // Docker's own helpers have it as an option too.
                let action =
                    if self.version { DockerAction::Version } else { docker_action(&self.words)? };
                Ok(Command::Docker { agent, action })
            }
        }
    }
}

/// A program without `--if-down run`, and the other way round, is an error: otherwise it would be noticed only when the agent is
/// down for the first time.
fn if_down(given: Option<OsString>, program: Option<Vec<OsString>>) -> Result<IfDown, String> {
    let mut words = program.unwrap_or_default().into_iter();
    let program = words.next();
    match (given.as_ref().map(|word| word.to_str()), program) {
        (None | Some(Some("refuse")), None) => Ok(IfDown::Refuse),
        (Some(Some("run")), Some(program)) => Ok(IfDown::Run { program, args: words.collect() }),
        (Some(Some("run")), None) => {
            Err("--if-down run needs a program: --if-down run -- /path/to/plugin ARG...".to_owned())
        }
        (None | Some(Some("refuse")), Some(_)) => {
            Err("a program is given, but not --if-down run".to_owned())
        }
        (Some(_), _) => Err(format!(
            "--if-down is refuse or run, not \"{}\"",
            given.unwrap_or_default().display()
        )),
    }
}

fn docker_action(words: &[OsString]) -> Result<DockerAction, String> {
    let [word] = words else {
        return Err(format!("one action is needed; {DOCKER_USAGE}"));
    };
    match word.to_str() {
        Some("get") => Ok(DockerAction::Get),
        Some("list") => Ok(DockerAction::List),
        Some("store") => Ok(DockerAction::Store),
        Some("erase") => Ok(DockerAction::Erase),
        Some("version") => Ok(DockerAction::Version),
        _ => Err(format!("unknown action: {}; {DOCKER_USAGE}", word.display())),
    }
}

/// A whole number with a unit. Zero is refused: to the kernel it means that there is no limit.
fn duration(given: &OsStr, from: &str) -> Result<Duration, String> {
    let text = given.to_str().unwrap_or_default();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).unwrap_or_default();
    let millis = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let total =
        number.parse::<u64>().ok().zip(millis).and_then(|(number, unit)| number.checked_mul(unit));
    let total = total
        .map(Duration::from_millis)
        .filter(|total| (1..=MAX_TIMEOUT.as_millis()).contains(&total.as_millis()));
    total.ok_or_else(|| {
        format!(
            "{from} is a duration up to 60m such as 500ms, 20s or 1m, not \"{}\"",
            given.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str, env: &[(&str, &str)]) -> Result<Command, String> {
        let find = |name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        parse(line.split(' ').map(OsString::from), find).map_err(|error| error.message)
    }

    fn options(socket: &str, millis: u64) -> AgentOptions {
        AgentOptions { socket: socket.into(), timeout: Duration::from_millis(millis) }
    }

    #[test]
    fn the_file_name_or_the_first_word_selects_the_protocol() {
        for line in
            ["/opt/bin/keyfob-credential-provider", "keyfob-relay provider", "relay-2 provider"]
        {
            let expected = Command::Provider {
                agent: options(DEFAULT_SOCKET, 55_000),
                if_down: IfDown::Refuse,
            };
            assert_eq!(parsed(line, &[]), Ok(expected), "{line}");
        }
        for line in ["docker-credential-keyfob get", "./keyfob-relay docker get"] {
            let expected = Command::Docker {
                agent: options(DEFAULT_SOCKET, 55_000),
                action: DockerAction::Get,
            };
            assert_eq!(parsed(line, &[]), Ok(expected), "{line}");
        }
    }

    #[test]
    fn options_win_over_the_environment() {
        let env = [("KEYFOB_AGENT_SOCKET", "/env.sock"), ("KEYFOB_AGENT_TIMEOUT", "2m")];
        let agent = |line| match parsed(line, &env) {
            Ok(Command::Provider { agent, .. } | Command::Docker { agent, .. }) => agent,
            other => panic!("{other:?}"),
        };
        assert_eq!(agent("docker-credential-keyfob list"), options("/env.sock", 120_000));
        assert_eq!(
            agent("keyfob-relay provider --socket /a.sock --timeout=250ms"),
            options("/a.sock", 250)
        );
    }

    #[test]
    fn everything_after_two_dashes_is_the_program() {
        let line = "keyfob-credential-provider --if-down run -- /p/ecr --socket x -- y";
        let args = ["--socket", "x", "--", "y"].map(OsString::from).to_vec();
        let if_down = IfDown::Run { program: "/p/ecr".into(), args };
        let expected = Command::Provider { agent: options(DEFAULT_SOCKET, 55_000), if_down };
        assert_eq!(parsed(line, &[]), Ok(expected));
    }

    #[test]
    fn a_line_says_what_is_wrong_with_the_arguments() {
        let cases = [
            ("keyfob-relay", "a command is missing: provider or docker"),
            ("keyfob-relay serve", "unknown command \"serve\""),
            ("keyfob-relay provider --sockett x", "unknown option \"--sockett\""),
            ("keyfob-relay provider --socket", "--socket needs a value"),
            ("keyfob-relay provider --socket a --socket b", "--socket is given twice"),
            ("keyfob-relay provider x", "unexpected argument \"x\"; a program to run follows `--`"),
            (
                "keyfob-relay provider --if-down run",
                "--if-down run needs a program: --if-down run -- /path/to/plugin ARG...",
            ),
            ("keyfob-relay provider -- /p/ecr", "a program is given, but not --if-down run"),
            ("keyfob-relay provider --if-down ask", "--if-down is refuse or run, not \"ask\""),
            (
                "docker-credential-keyfob --if-down run get",
                "--if-down is an option of `keyfob-relay provider`",
            ),
            (
                "docker-credential-keyfob",
                "one action is needed; usage: docker-credential-keyfob get|list|store|erase|version",
            ),
            (
                "docker-credential-keyfob put",
                "unknown action: put; usage: docker-credential-keyfob get|list|store|erase|version",
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(parsed(line, &[]), Err(expected.to_owned()), "{line}");
        }
        for timeout in [
            "",
            "0s",
            "55",
            "1.5s",
            "-1s",
            "1h",
            "61m",
            "99999999999999999999s",
            "18446744073709551615m",
        ] {
            let line = format!("keyfob-relay provider --timeout={timeout}");
            let expected = format!(
                "--timeout is a duration up to 60m such as 500ms, 20s or 1m, not {timeout:?}"
            );
            assert_eq!(parsed(&line, &[]), Err(expected));
        }
    }
}
