//! `keyfob demo`: what there is so far, shown on this machine with real processes and nothing to install.
//!
//! The plugins of the demo are this very program under a hidden command, so that the demo needs no other file.

use std::{
    io::{self, Read as _, Write as _},
    time::Duration,
};

use clap::ValueEnum;
use keyfob_api::{
    AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse, GoDuration,
    ImageRef, MatchPattern, ProviderVersion,
};
use keyfob_exec::{
    Finished, Invocation, ProcessRunner, Program, REDACTED, RunError, Runner as _, Stdin,
    SystemEnvironment,
};

use crate::{Outcome, Verdict};

const IMAGE: &str = "registry.example:5000/team/app:v1";
const TOKEN: &str = "demo-service-account-token";
const PASSWORD: &str = "demo-registry-password";

/// How the demo's plugin behaves.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Manner {
    Answer,
    Hang,
    Flood,
    Fail,
}

impl Manner {
    /// Long enough for any machine, but for the one that is to be waited for in vain.
    fn deadline(self) -> Duration {
        match self {
            Self::Hang => Duration::from_millis(500),
            Self::Answer | Self::Flood | Self::Fail => Duration::from_mins(1),
        }
    }
}

pub(crate) fn run() -> Outcome {
    let mut story = Story::default();
    story.heading("Which images does a pattern of a CredentialProviderConfig match?");
    for (pattern, image, expected) in [
        ("registry.example:5000/team", IMAGE, true),
        ("*.dkr.ecr.*.amazonaws.com", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/app", true),
        ("registry.example", IMAGE, false),
        ("*.example/*", "registry.example/team/app", false),
        ("index.docker.io", "nginx", false),
    ] {
        story.matching(pattern, image, expected);
    }
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(story.plugins()),
        Err(error) => story.step("a runtime for plugins", false, &error.to_string()),
    }
    story.end()
}

/// What is told, and whether every step did what it should.
#[derive(Debug, Default)]
struct Story {
    text: String,
    steps: usize,
    wrong: usize,
}

impl Story {
    fn heading(&mut self, title: &str) {
        self.text += &["\n== ", title, "\n"].concat();
    }

    fn step(&mut self, what: &str, as_expected: bool, told: &str) {
        self.steps += 1;
        let mark = if as_expected { "ok   " } else { "WRONG" };
        self.text += &[mark, "  ", what, "\n       ", told, "\n"].concat();
        self.wrong += usize::from(!as_expected);
    }

    fn matching(&mut self, pattern: &str, image: &str, expected: bool) {
        let checked =
            MatchPattern::parse(pattern).map_err(|error| error.to_string()).and_then(|pattern| {
                let image = ImageRef::parse(image).map_err(|error| error.to_string())?;
                let target = image.target().map_err(|error| error.to_string())?;
                Ok(pattern.check(&target).map_err(|why| why.to_string()))
            });
        let (matches, told) = match checked {
            Ok(Ok(())) => (true, "matches".to_owned()),
            Ok(Err(why)) => (false, format!("no match: {why}")),
            Err(error) => return self.step(&format!("{pattern} and {image}"), false, &error),
        };
        self.step(&format!("{pattern} and {image}"), matches == expected, &told);
    }

    async fn plugins(&mut self) {
        self.heading("A plugin is asked for credentials: a real process, over stdin and stdout");
        let answered = ask(Manner::Answer).await;
        let (as_expected, told) = match &answered {
            Ok(finished) => credentials(finished),
            Err(error) => (false, error.to_string()),
        };
        self.step("a good plugin", as_expected, &told);

        self.heading("Plugins that misbehave harm nobody");
        let hung = ask(Manner::Hang).await;
        self.refused("one that hangs", hung, |error| matches!(error, RunError::TimedOut { .. }));
        let flooded = ask(Manner::Flood).await;
        self.refused("one that never stops printing", flooded, |error| {
            matches!(error, RunError::OutputTooLarge { .. })
        });
        let failed = ask(Manner::Fail).await;
        self.refused("one that shouts its token on stderr", failed, |error| {
            let told = error.to_string();
            matches!(error, RunError::Failed { .. })
                && told.contains(REDACTED)
                && !told.contains(TOKEN)
        });
    }

    fn refused(
        &mut self,
        what: &str,
        ran: Result<Finished, RunError>,
        expected: impl Fn(&RunError) -> bool,
    ) {
        match ran.and_then(Finished::success) {
            Ok(_) => self.step(what, false, "it was believed"),
            Err(error) => self.step(what, expected(&error), &error.to_string()),
        }
    }

    fn end(self) -> Outcome {
        let (steps, wrong) = (self.steps, self.wrong);
        let summary = format!("\n{steps} steps, {wrong} went wrong. Next: keyfob match --help\n");
        let verdict = if wrong == 0 { Verdict::Yes } else { Verdict::No };
        Outcome { stdout: self.text + &summary, verdict, ..Outcome::default() }
    }
}

/// Runs this program as a plugin of the given manner.
async fn ask(manner: Manner) -> Result<Finished, RunError> {
    let system = |source| RunError::System {
        program: "keyfob".into(),
        step: "finding this program",
        source,
    };
    let program = std::env::current_exe().map_err(system)?;
    let program = Program::at(program).map_err(|error| system(io::Error::other(error)))?;
    let request = CredentialProviderRequest {
        image: ImageRef::parse(IMAGE)
            .map_or_else(|_| IMAGE.into(), |image| image.repository().into()),
        service_account_token: Some(TOKEN.into()),
        ..CredentialProviderRequest::default()
    };
    let name =
        manner.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let invocation = Invocation::new(program)
        .args(["demo-plugin".to_owned(), name])
        .stdin(Stdin::Bytes(request.encode(ProviderVersion::V1)))
        .redact(TOKEN)
        .deadline(manner.deadline());
    ProcessRunner::new(SystemEnvironment).run(&invocation).await
}

fn credentials(finished: &Finished) -> (bool, String) {
    match CredentialProviderResponse::decode(finished.stdout.expose(), ProviderVersion::V1) {
        Err(error) => (false, error.to_string()),
        Ok(response) => {
            let login = |(key, auth): &(String, AuthConfig)| {
                format!("{key}: user {}, password {:?}", auth.username, auth.password)
            };
            let told = format!(
                "{}; in {:.1} ms, to be kept per {:?} for {}",
                response.auth.iter().map(login).collect::<Vec<_>>().join(", "),
                finished.elapsed.as_secs_f64() * 1e3,
                response.cache_key_type,
                response.cache_duration.unwrap_or_default(),
            );
            (response.auth.len() == 1, told)
        }
    }
}

/// The plugin's side.
pub(crate) fn plugin(manner: Manner) -> Outcome {
    let mut request = Vec::new();
    let answer = io::stdin().read_to_end(&mut request).ok().and_then(|_| answer(&request));
    match manner {
        Manner::Answer => {
            answer.unwrap_or_else(|| failure("not a CredentialProviderRequest\n".into()))
        }
        Manner::Hang => loop {
            std::thread::park();
        },
        Manner::Flood => {
            while io::stdout().write_all(&[b'x'; 4096]).is_ok() {}
            Outcome::default()
        }
        Manner::Fail => failure(format!("tried {TOKEN}: refused\n")),
    }
}

fn failure(stderr: String) -> Outcome {
    Outcome { stderr, verdict: Verdict::No, ..Outcome::default() }
}

fn answer(request: &[u8]) -> Option<Outcome> {
    let (version, request) = CredentialProviderRequest::decode(request).ok()?;
    let registry = request.image.split('/').next()?.to_owned();
    let login = AuthConfig { username: "demo".into(), password: PASSWORD.into() };
    let response = CredentialProviderResponse {
        cache_key_type: CacheKeyType::Registry,
        cache_duration: GoDuration::parse("10m").ok(),
        auth: vec![(registry, login)],
    };
    let stdout = String::from_utf8(response.encode(version).expose().clone()).ok()?;
    Some(Outcome { stdout, ..Outcome::default() })
}
