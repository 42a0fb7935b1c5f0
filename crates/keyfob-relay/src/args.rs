//! The command line. Which program this is depends on the name it was started by, because a kubelet and docker find their
//! plugins by file name and docker passes no options.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use keyfob_api::MatchPattern;

use crate::{
    fallback::Fallback,
    outcome::Outcome,
    policy::{FallbackPolicy, TokenPolicy},
    text::on_one_line,
};

const DEFAULT_SOCKET: &str = "/run/keyfob/agent.sock";
/// A kubelet kills a plugin after a minute. This leaves time to report the reason.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(55);
const MAX_TIMEOUT: Duration = Duration::from_hours(1);
/// Twice this is waited for an agent that is hung, which leaves the larger part of the minute to the plugin.
const DEFAULT_DOWN_AFTER: Duration = Duration::from_secs(10);

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
  --if-down refuse|run   what a plugin does if the agent is not running or hangs [default: refuse]
                         refuse: fail with the reason; run: become PROGRAM, with the request on stdin.
                         An agent that denies, fails or is busy is not down.

options of --if-down run; `keyfob provider install --agent` writes the --fallback ones from the provider's configuration:
  --fallback-image PATTERN                  PROGRAM runs for these images only, as with `matchImages`; may be repeated,
                                            and one is needed. For others there are no credentials.
  --fallback-token optional|required        PROGRAM gets the service account token of the request; required: it does
                                            not run without one. Otherwise token and annotations are left out.
  --fallback-annotation KEY                 PROGRAM gets this annotation too; may be repeated
  --fallback-required-annotation KEY        the same, and PROGRAM does not run with a token and without it
  --down-after DURATION                     how long an agent may be silent before it is asked whether it is alive, and
                                            how long it has to answer that [default: 10s]
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
    Run(Fallback),
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
    if_down: IfDownGiven,
    words: Vec<OsString>,
    help: bool,
    version: bool,
}

/// What concerns `--if-down`.
#[derive(Default, PartialEq, Eq)]
struct IfDownGiven {
    what: Option<OsString>,
    down_after: Option<OsString>,
    token: Option<OsString>,
    images: Vec<OsString>,
    annotations: Vec<OsString>,
    required_annotations: Vec<OsString>,
    /// What follows `--`.
    program: Option<Vec<OsString>>,
}

/// Where the value of an option goes.
enum Slot<'a> {
    One(&'a mut Option<OsString>),
    Many(&'a mut Vec<OsString>),
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
            match name {
                "--" => {
                    given.if_down.program = Some(args.collect());
                    break;
                }
                "--help" | "-h" => given.help = true,
                "--version" | "-V" | "-v" => given.version = true,
                _ if name.starts_with('-') => {
                    let slot = given.slot(name).ok_or(format!("unknown option {name:?}"))?;
                    let value = value.or_else(|| args.next());
                    let value = value.ok_or_else(|| format!("{name} needs a value"))?;
                    match slot {
                        Slot::Many(values) => values.push(value),
                        Slot::One(option) if option.is_some() => {
                            return Err(format!("{name} is given twice"));
                        }
                        Slot::One(option) => *option = Some(value),
                    }
                }
                _ => given.words.push(arg),
            }
        }
        Ok(given)
    }

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "--socket" => Slot::One(&mut self.socket),
            "--timeout" => Slot::One(&mut self.timeout),
            "--if-down" => Slot::One(&mut self.if_down.what),
            "--down-after" => Slot::One(&mut self.if_down.down_after),
            "--fallback-token" => Slot::One(&mut self.if_down.token),
            "--fallback-image" => Slot::Many(&mut self.if_down.images),
            "--fallback-annotation" => Slot::Many(&mut self.if_down.annotations),
            "--fallback-required-annotation" => Slot::Many(&mut self.if_down.required_annotations),
            _ => return None,
        })
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
                let if_down = self.if_down.parse(agent.timeout)?;
                Ok(Command::Provider { agent, if_down })
            }
            Role::Docker => {
                if self.if_down != IfDownGiven::default() {
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

impl IfDownGiven {
    /// What does not fit together is an error: otherwise it would be noticed only when the agent is down for the first time.
    fn parse(mut self, timeout: Duration) -> Result<IfDown, String> {
        let what = self.what.take().unwrap_or_else(|| "refuse".into());
        match what.to_str() {
            Some("run") => self.fallback(timeout).map(IfDown::Run),
            Some("refuse") if self.program.is_some() => {
                Err("a program is given, but not --if-down run".to_owned())
            }
            Some("refuse") if self != Self::default() => {
                Err("an option of --if-down run is given, but not --if-down run".to_owned())
            }
            Some("refuse") => Ok(IfDown::Refuse),
            _ => Err(format!("--if-down is refuse or run, not \"{}\"", what.display())),
        }
    }

    fn fallback(self, timeout: Duration) -> Result<Fallback, String> {
        let mut words = self.program.unwrap_or_default().into_iter();
        let program = words.next().ok_or(
            "--if-down run needs a program: --if-down run --fallback-image PATTERN -- /path/to/plugin ARG...",
        )?;
        let down_after = match self.down_after {
            Some(given) => duration(&given, "--down-after")?,
            None => DEFAULT_DOWN_AFTER,
        };
        // It is waited for twice: for the answer, and for a sign of life.
        if down_after.saturating_mul(2) >= timeout {
            return Err(format!(
                "--down-after must be shorter than half of --timeout: {down_after:?} and {timeout:?}"
            ));
        }
        let images = self.images.iter().map(|given| pattern(given));
        let images: Vec<_> = images.collect::<Result<_, _>>()?;
        if images.is_empty() {
            return Err(
                "--if-down run needs --fallback-image PATTERN: the images that the program is for"
                    .to_owned(),
            );
        }
        let token = token(self.token.as_deref(), self.required_annotations, self.annotations)?;
        let policy = FallbackPolicy { images, token };
        Ok(Fallback { program, args: words.collect(), down_after, policy })
    }
}

fn pattern(given: &OsStr) -> Result<MatchPattern, String> {
    let text = given.to_str().ok_or_else(|| {
        format!("--fallback-image is a pattern in UTF-8, not \"{}\"", given.display())
    })?;
    MatchPattern::parse(text).map_err(|error| format!("--fallback-image {text:?}: {error}"))
}

fn token(
    given: Option<&OsStr>,
    required: Vec<OsString>,
    optional: Vec<OsString>,
) -> Result<Option<TokenPolicy>, String> {
    let is_required = match given.map(OsStr::to_str) {
        None if required.is_empty() && optional.is_empty() => return Ok(None),
        None => return Err("annotations are only passed on with --fallback-token".to_owned()),
        Some(Some("optional")) => false,
        Some(Some("required")) => true,
        _ => {
            let given = given.unwrap_or_default().display();
            return Err(format!("--fallback-token is optional or required, not \"{given}\""));
        }
    };
    let keys = |given: Vec<OsString>| {
        let keys = given.into_iter().map(OsString::into_string).collect::<Result<_, _>>();
        keys.map_err(|key: OsString| {
            format!("an annotation is text in UTF-8, not \"{}\"", key.display())
        })
    };
    let (required_annotations, optional_annotations) = (keys(required)?, keys(optional)?);
    Ok(Some(TokenPolicy { is_required, required_annotations, optional_annotations }))
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
        let line =
            "keyfob-credential-provider --if-down run --fallback-image a -- /p/ecr --socket x -- y";
        let if_down = IfDown::Run(Fallback {
            program: "/p/ecr".into(),
            args: ["--socket", "x", "--", "y"].map(OsString::from).to_vec(),
            down_after: Duration::from_secs(10),
            policy: FallbackPolicy { images: vec![MatchPattern::parse("a").unwrap()], token: None },
        });
        let expected = Command::Provider { agent: options(DEFAULT_SOCKET, 55_000), if_down };
        assert_eq!(parsed(line, &[]), Ok(expected));
    }

    #[test]
    fn what_the_fallback_gets_is_given_by_its_options() {
        let line = "keyfob-credential-provider --fallback-image *.a --if-down=run --fallback-image=b:5000/c --down-after 2s \
                    --fallback-token required --fallback-annotation k --fallback-annotation=l --fallback-required-annotation m \
                    -- /p/ecr";
        let images = ["*.a", "b:5000/c"].map(|text| MatchPattern::parse(text).unwrap()).into();
        let token = TokenPolicy {
            is_required: true,
            required_annotations: vec!["m".to_owned()],
            optional_annotations: vec!["k".to_owned(), "l".to_owned()],
        };
        let if_down = IfDown::Run(Fallback {
            program: "/p/ecr".into(),
            args: Vec::new(),
            down_after: Duration::from_secs(2),
            policy: FallbackPolicy { images, token: Some(token) },
        });
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
                "--if-down run needs a program: --if-down run --fallback-image PATTERN -- /path/to/plugin ARG...",
            ),
            ("keyfob-relay provider -- /p/ecr", "a program is given, but not --if-down run"),
            ("keyfob-relay provider --if-down ask", "--if-down is refuse or run, not \"ask\""),
            (
                "docker-credential-keyfob --fallback-image a get",
                "--if-down is an option of `keyfob-relay provider`",
            ),
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

    #[test]
    fn a_fallback_that_does_not_fit_is_refused_before_the_agent_is_down() {
        let cases = [
            (
                "keyfob-relay provider --if-down run -- /p/ecr",
                "--if-down run needs --fallback-image PATTERN: the images that the program is for",
            ),
            (
                "keyfob-relay provider --if-down run --fallback-image a:b -- /p/ecr",
                "--fallback-image \"a:b\": parse \"https://a:b\": invalid port \":b\" after host",
            ),
            (
                "keyfob-relay provider --if-down run --fallback-image a --fallback-token yes -- /p/ecr",
                "--fallback-token is optional or required, not \"yes\"",
            ),
            (
                "keyfob-relay provider --if-down run --fallback-image a --fallback-annotation k -- /p/ecr",
                "annotations are only passed on with --fallback-token",
            ),
            (
                "keyfob-relay provider --if-down run --fallback-image a --timeout 20s -- /p/ecr",
                "--down-after must be shorter than half of --timeout: 10s and 20s",
            ),
            (
                "keyfob-relay provider --if-down refuse --fallback-image a",
                "an option of --if-down run is given, but not --if-down run",
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(parsed(line, &[]), Err(expected.to_owned()), "{line}");
        }
    }
}
