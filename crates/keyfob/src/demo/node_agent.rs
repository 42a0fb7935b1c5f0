//! One agent for every program on the node.

use std::{
    env, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use keyfob_agent::{Agent, AgentBuilder, AgentClient, AgentClientError, InheritedSockets, Sockets};
use keyfob_agent_config::AgentConfig;
use keyfob_exec::{
    Clock as _, Finished, Invocation, ProcessRunner, Program, Runner as _, Status, Stdin,
    SystemClock, SystemEnvironment,
};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    node::{Counting, told},
    stage::{APP, BASE, Stage},
    story::{Story, Told, checked, milliseconds, since},
};

/// The rule that allows this program.
const RULE: &str = "this-program";
/// How the agent describes a caller whose user and program do not count. That is what this program is to it in a container with the
/// process ids of its node.
const CONTAINER: &str = "to a process in a container";
/// What docker calls its credential helper. This program under that name is the relay.
const HELPER: &str = "docker-credential-keyfob";
/// The directory with a copy of this program.
const COPY: &str = "copy";

pub(super) async fn play(stage: &Stage, story: &mut Story) {
    story.act(
        "One agent for every program on the node",
        "docker, builds and the kubelet share a warm cache; rules say who gets what.",
    );
    let (_stop, stopped) = watch::channel(false);
    match NodeAgent::new(stage) {
        Err(error) => story.step("an agent starts", Err(error)),
        Ok((node, sockets)) => {
            // It ends with the last step.
            tokio::select! {
                () = node.agent.serve(sockets, stopped) => {}
                () = node.play(stage, story) => {}
            }
        }
    }
}

/// An agent in this process, on a socket in the stage's directory.
struct NodeAgent {
    agent: Agent,
    socket: PathBuf,
    /// How many plugins it has started.
    started: Arc<AtomicUsize>,
}

impl NodeAgent {
    fn new(stage: &Stage) -> Result<(Self, Sockets), String> {
        let (file, socket) = (stage.file("agent.yaml"), stage.file("agent.sock"));
        let uid = rustix::process::getuid().as_raw();
        let program = env::current_exe().map_err(told)?;
        let images = [stage.image("platform/base")];
        let config = json!({
            "apiVersion": "keyfob.dev/v1alpha1",
            "kind": "AgentConfiguration",
            "providerConfig": stage.file("config.yaml"),
            "pluginDirectory": stage.file("plugins"),
            "listeners": {"agent": {"path": socket, "mode": "0600"}},
            "audit": {"to": "none"},
            "rules": [
                {
                    "name": RULE,
                    "callers": {"uids": [uid], "executables": [program]},
                    "images": images,
                    "action": "Allow",
                },
            ],
        });
        install_helpers(stage, &program).map_err(told)?;
        fs::write(&file, format!("{config:#}\n")).map_err(told)?;
        let config = AgentConfig::read(&file).map_err(told)?;
        let sockets = Sockets::open(&config, InheritedSockets::default()).map_err(told)?;
        let started = Arc::new(AtomicUsize::new(0));
        let runner = Counting { started: Arc::clone(&started) };
        let agent = AgentBuilder::new(file, config).host(|host| host.runner(runner)).build();
        Ok((Self { agent: agent.map_err(told)?, socket, started }, sockets))
    }

    async fn play(&self, stage: &Stage, story: &mut Story) {
        let denied = self.other_image(stage).await;
        if denied.as_ref().is_ok_and(|told| told.contains(CONTAINER)) {
            return story.step("a container that sees the node's processes gets nothing", denied);
        }
        story.step("two programs ask, one plugin runs", self.two_callers(stage).await);
        story.step("docker's credential helper asks, and no plugin runs", self.docker(stage).await);
        story.step("another program of the same user is denied", self.other_program(stage).await);
        story.step("an image that no rule allows is denied", denied);
    }

    async fn two_callers(&self, stage: &Stage) -> Told {
        let image = stage.image(BASE);
        let began = SystemClock.now();
        let first = AgentClient::new(&self.socket).credentials(&image).await.map_err(told)?;
        let (took, login) = (since(began), first.credentials.first().ok_or("no credentials")?);
        let (user, provider) = (&login.username, &login.provider);
        let second = self.get(stage, &image).await?;
        let is_same = second.pointer("/credentials/0/username") == Some(&json!(user));
        let runs = self.started.load(Ordering::Relaxed);
        checked(
            is_same && runs == 1,
            format!(
                "this one, cold: user {user} from {provider}, {}\nkeyfob get --agent: user {}; runs of the plugin: {runs}",
                milliseconds(took),
                second.pointer("/credentials/0/username").and_then(Value::as_str).unwrap_or("none"),
            ),
        )
    }

    /// Asks from another process.
    async fn get(&self, stage: &Stage, image: &str) -> Result<Value, String> {
        let program = Program::in_directory(stage.path(), "keyfob").map_err(told)?;
        let socket = self.socket.display().to_string();
        let invocation =
            Invocation::new(program).args(["get", "--agent", &socket, "--output", "json", image]);
        let ran = ProcessRunner::new(SystemEnvironment).run(&invocation).await.map_err(told)?;
        serde_json::from_slice(ran.stdout.expose())
            .map_err(|_| "keyfob get has no answer".to_owned())
    }

    async fn docker(&self, stage: &Stage) -> Told {
        let server = stage.image("platform/base");
        let began = SystemClock.now();
        let ran = self.ask_helper(stage.path(), &server).await?;
        let took = milliseconds(since(began));
        let login: Option<Value> = serde_json::from_slice(ran.stdout.expose()).ok();
        let user = login.as_ref().and_then(|login| login.get("Username")?.as_str());
        let runs = self.started.load(Ordering::Relaxed);
        checked(
            user.is_some() && runs == 1,
            format!(
                "echo {server} | {HELPER} get\nuser {}, {took}; runs of the plugin: {runs}",
                user.unwrap_or("none")
            ),
        )
    }

    /// The same helper, as a file of its own.
    async fn other_program(&self, stage: &Stage) -> Told {
        let ran = self.ask_helper(&stage.file(COPY), &stage.image("platform/base")).await?;
        let reason = ran.stderr.text().lines().next().unwrap_or_default();
        checked(
            ran.status == Status::Exited(1) && reason.contains("no rule allows"),
            format!("{COPY}/{HELPER} get\n{}: {reason}", ran.status),
        )
    }

    /// Asks as docker does, with the helper in this directory.
    async fn ask_helper(&self, directory: &Path, server: &str) -> Result<Finished, String> {
        let helper = Program::in_directory(directory, HELPER).map_err(told)?;
        let invocation = Invocation::new(helper)
            .args(["get"])
            .env("KEYFOB_AGENT_SOCKET", &self.socket)
            .stdin(Stdin::bytes(server));
        ProcessRunner::new(SystemEnvironment).run(&invocation).await.map_err(told)
    }

    async fn other_image(&self, stage: &Stage) -> Told {
        match AgentClient::new(&self.socket).credentials(&stage.image(APP)).await {
            Ok(_) => Err("it was allowed".to_owned()),
            Err(AgentClientError::Refused { status, message, .. }) => {
                checked(status.as_u16() == 403, format!("{}: {message}", status.as_u16()))
            }
            Err(error) => Err(told(error)),
        }
    }
}

/// Puts this program, and a copy of it, where docker would find its helper. To a rule about programs, a copy is another one.
fn install_helpers(stage: &Stage, program: &Path) -> io::Result<()> {
    symlink(program, stage.file(HELPER))?;
    fs::create_dir(stage.file(COPY))?;
    fs::copy(program, stage.file(COPY).join(HELPER))?;
    Ok(())
}
