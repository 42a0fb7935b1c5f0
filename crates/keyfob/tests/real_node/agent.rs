//! The kubelet gets all credentials from the agent of its node, through the relay as its only plugin.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    containerd::Runtime,
    documented::Page,
    node::{Node, NodeOptions},
    pod::Pod,
    process::Process,
    registry::{Access, Registry},
    shell::succeed,
    systemd::{Systemd, write},
    wait::wait_for,
    world::World,
};

const HOST: &str = "registry.example.com";
const OTHER_HOST: &str = "other.example.com";
const PASSWORD: &str = "hunter2-correct-horse";
/// Where [`AgentFiles::install_service`] installs it.
const INSTALLED: &str = "/usr/bin/keyfob";
/// Where an agent serves metrics, as in its files in `deploy`.
const HTTP: &str = "127.0.0.1:9977";
const PATIENCE: Duration = Duration::from_mins(1);
const PLUGIN: &str = "docker-config-credential-provider";
/// The kubelet's configuration and directory of plugins.
const KUBELET_CONFIG: &str = "/etc/kubernetes/credential-providers.yaml";
const KUBELET_PLUGINS: &str = "/usr/local/lib/kubelet-plugins";

pub(crate) fn the_agent_serves_a_new_provider_without_a_kubelet_restart(world: &mut World) {
    let registries = [HOST, OTHER_HOST]
        .map(|host| Registry::start(world, host, Access::password("ada", PASSWORD)));
    let [image, other_image] = registries.each_ref().map(|registry| registry.push("team/app:v1"));
    let agent = AgentFiles::new(world);
    agent.write_providers(&[agent.file_provider()]);
    let mut process = agent.start(world);
    agent.install_relay(world, &[]);
    let mut node = Node::start(world, &options());
    let kubelet = node.kubelet.pid();

    world.pod("app", &image).create().wait_until_running();
    assert_eq!(registries[0].logins(), [(None, 401), (Some("ada".to_owned()), 200)]);
    let asked = "Getting image credentials from external exec plugin";
    let message =
        format!("\"{asked}\" pluginName=\"keyfob-credential-provider\" image=\"{HOST}/team/app\"");
    assert_eq!(node.kubelet.messages(asked), [message]);
    let pod = world.pod("other", &other_image).create();
    assert_denied(&pod);
    assert_eq!(agent.last_event()["reason"], format!("no provider matches {OTHER_HOST}/team/app"));

    agent.write_providers(&[agent.file_provider(), agent.helper_provider()]);
    pod.wait_until_running();
    assert!(node.kubelet.is_running(), "the kubelet has ended");
    assert_eq!(node.kubelet.pid(), kubelet, "the kubelet is another one");
    assert_eq!(registries[1].logins(), [(None, 401), (Some("ada".to_owned()), 200)]);
    let event = agent.last_event();
    assert_eq!((&event["outcome"], &event["rule"]), (&json!("allowed"), &json!("root")), "{event}");
    let executable = event["caller"]["executable"].as_str().unwrap();
    assert!(executable.ends_with("/keyfob-relay"), "the kubelet's plugin is a link to it: {event}");
    process.stop();
}

/// Why the relay refuses is in the kubelet's log. In the pod's events is what the registry says to a pull without credentials.
pub(crate) fn without_its_agent_the_relay_runs_the_plugin_or_refuses(world: &mut World) {
    let registry = Registry::start(world, HOST, Access::password("ada", PASSWORD));
    let [first, second] = ["team/first:v1", "team/second:v1"].map(|name| registry.push(name));
    let agent = AgentFiles::new(world);
    agent.write_providers(&[agent.file_provider()]);
    let mut process = agent.start(world);
    process.kill();

    let plugin = agent.plugin(PLUGIN);
    agent.install_relay(world, &["--if-down", "run", plugin.to_str().unwrap()]);
    let mut node = Node::start(world, &options());
    world.pod("first", &first).create().wait_until_running();

    node.kubelet.stop();
    agent.install_relay(world, &[]);
    node.start_kubelet(&options());
    node.wait_until_ready();
    let pod = world.pod("second", &second).create();
    assert_denied(&pod);
    let failures = node.kubelet.messages("Failed to provide credentials for image");
    let reason = format!(
        "error execing credential provider plugin keyfob-credential-provider for image {HOST}/team/second: exit status 1: \
         keyfob-relay: the agent is not running: {}: Connection refused; start it with: systemctl start keyfob-agent",
        agent.socket.display()
    );
    assert!(failures[0].contains(&reason), "{failures:#?}");

    process.start_again();
    pod.wait_until_running();
}

/// The units of `deploy/systemd`. The agent starts with the first request, knows a caller's unit and user, and cannot identify other
/// users without `CAP_SYS_PTRACE`.
pub(crate) fn systemd_starts_the_agent_with_its_first_caller(world: &mut World) {
    let agent = AgentFiles::new(world);
    let systemd = Systemd::start(world);
    let rules = json!([
        {"name": "builds", "callers": {"units": ["build.service"]}, "action": "Allow"},
        {"name": "nobody", "callers": {"uids": [65534]}, "action": "Allow"},
    ]);
    agent.install_service(&rules);
    agent.write_providers(&[agent.file_provider()]);

    let page = Page::read("docs/agent.md");
    systemd.run("systemctl daemon-reload");
    systemd.run(&page.command(&["systemctl enable"]));
    let state = "systemctl show --property=ActiveState --value keyfob-agent";
    assert_eq!(systemd.run(state), "inactive\n");
    let get = format!("echo {HOST} | docker-credential-keyfob get");
    let refused = systemd.try_run(&get);
    let reason = String::from_utf8(refused.stderr).unwrap();
    assert!(reason.contains("no rule allows registry.example.com/ to user id 0"), "{reason}");
    assert_eq!(systemd.run(state), "active\n");

    let unit = format!("[Service]\nType=oneshot\nUser=daemon\nExecStart=/bin/sh -c '{get}'\n");
    write(&Systemd::unit("build.service"), &unit);
    systemd.run("systemctl daemon-reload && systemctl start build.service");
    let as_nobody = format!("setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '{get}'");
    assert!(systemd.run(&as_nobody).contains(PASSWORD));
    let status = systemd.run("keyfob agent status -o json");
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["rules"], json!(["builds", "nobody"]));
    systemd.run("systemctl reload keyfob-agent && systemctl restart keyfob-agent");
    assert!(systemd.run(&as_nobody).contains(PASSWORD));

    let drop_in = "[Service]\nCapabilityBoundingSet=\nCapabilityBoundingSet=CAP_DAC_READ_SEARCH\n";
    write(&Systemd::unit("keyfob-agent.service.d/10-no-ptrace.conf"), drop_in);
    systemd.run("systemctl daemon-reload && systemctl restart keyfob-agent");
    let refused = systemd.try_run(&as_nobody);
    let reason = String::from_utf8(refused.stderr).unwrap();
    assert!(reason.contains("the caller could not be identified"), "{reason}");
    systemd.run("systemctl stop keyfob-agent");
    assert_eq!(systemd.run(state), "inactive\n");
}

/// The login of the plugin comes from systemd, as the page says. Whoever asks an agent that hangs is answered by the next one.
pub(crate) fn a_hardened_agent_that_hangs_is_started_again(world: &mut World) {
    let agent = AgentFiles::new(world);
    let systemd = Systemd::start(world);
    agent.install_service(&json!([{"name": "root", "callers": {"uids": [0]}, "action": "Allow"}]));
    let page = Page::read("docs/agent.md");
    write(
        &Systemd::unit("keyfob-agent.service.d/credentials.conf"),
        &page.block("ini", &["LoadCredential="]),
    );
    let logins = fs::read_to_string(agent.directory.join("logins.json")).unwrap();
    write(Path::new("/etc/keyfob/secrets/logins.json"), &logins);
    fs::remove_file(agent.directory.join("logins.json")).unwrap();
    let credential = page.block("yaml", &["/run/credentials/"]);
    let (_, path) = credential.split_once("--path=").unwrap();
    let path = path.split(['"', ']']).next().unwrap();
    agent.write_providers(&[agent.provider(PLUGIN, HOST, &format!("--path={path}"))]);
    let watchdog = "[Service]\nWatchdogSec=2\n";
    write(&Systemd::unit("keyfob-agent.service.d/watchdog.conf"), watchdog);

    let analyze = page.command(&["systemd-analyze security"]);
    let rated = systemd.run(&analyze.replace("| tail -1", "--offline=true --threshold=29"));
    assert!(rated.contains("Overall exposure level for keyfob-agent.service: 2."), "{rated}");
    systemd.run("systemctl daemon-reload");
    systemd.run(&page.command(&["systemctl enable"]));
    let get = format!("echo {HOST} | docker-credential-keyfob get");
    assert!(systemd.run(&get).contains(PASSWORD));
    let show = |property| {
        systemd.run(&format!("systemctl show --property={property} --value keyfob-agent"))
    };
    let hung = show("MainPID");
    assert_hardened(&systemd.run(&format!("cat /proc/{}/status", hung.trim())));
    for (path, part) in [("/readyz", "ready"), ("/metrics", "keyfob_agent_build_info{")] {
        let body = http_get(path).unwrap();
        assert!(body.contains(part), "{path}: {body}");
    }
    systemd.run(&format!("kill -STOP {hung}"));
    let asked = systemd.run(&get);
    assert!(asked.contains(PASSWORD), "the agent that follows answers");
    assert_eq!((show("NRestarts"), show("ActiveState")), ("1\n".into(), "active\n".into()));
    assert_ne!(show("MainPID"), hung);
    let modes =
        systemd.run("stat --format=%a /var/lib/keyfob /var/log/keyfob/audit.log /run/keyfob");
    assert_eq!(modes, "700\n600\n755\n");
    systemd.run("systemctl stop keyfob-agent");
    assert!(Path::new("/run/keyfob/agent.sock").exists(), "systemd goes on to listen");
}

/// Whoever asks meanwhile waits. With systemd's own limits, the service and its sockets would have failed within a second.
pub(crate) fn an_agent_with_a_broken_file_serves_once_that_is_corrected(world: &mut World) {
    let agent = AgentFiles::new(world);
    let systemd = Systemd::start(world);
    agent.install_service(&json!([{"name": "root", "callers": {"uids": [0]}, "action": "Allow"}]));
    agent.write_providers(&[agent.file_provider()]);
    let file = Path::new("/etc/keyfob/agent.yaml");
    let good = fs::read_to_string(file).unwrap();
    write(file, &good.replace("pluginDirectory", "pluginDirectori"));

    systemd.run("systemctl daemon-reload");
    systemd.run(&Page::read("docs/agent.md").command(&["systemctl enable"]));
    let asked = thread::scope(|scope| {
        let asking =
            scope.spawn(|| systemd.run(&format!("echo {HOST} | docker-credential-keyfob get")));
        let restarts = "systemctl show --property=NRestarts --value keyfob-agent";
        wait_for("systemd to start it again", PATIENCE, || {
            let restarts = systemd.run(restarts);
            let count: u32 = restarts.trim().parse().unwrap();
            if count >= 2 { Ok(()) } else { Err(restarts) }
        });
        let probe = systemd.try_run("systemctl is-active keyfob-agent.socket");
        assert_eq!(String::from_utf8(probe.stdout).unwrap(), "active\n");
        write(file, &good);
        asking.join().unwrap()
    });

    assert!(asked.contains(PASSWORD), "{asked}");
    let log = fs::read_to_string(world.directory.join("services.log")).unwrap();
    assert!(log.contains("pluginDirectori: there is no field of this name"), "{log}");
    systemd.run("systemctl stop keyfob-agent");
}

/// The kernel has taken from the process what the unit says, by its `status` in `/proc`.
fn assert_hardened(status: &str) {
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("no {name}: {status}")).trim()
    };
    assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1", "2"));
    // CAP_DAC_READ_SEARCH is the second, CAP_SYS_PTRACE the nineteenth.
    assert_eq!(u64::from_str_radix(field("CapBnd"), 16), Ok(1 << 2 | 1 << 19), "{status}");
}

/// What the agent serves to Prometheus, probes and people.
pub(crate) fn http_get(path: &str) -> Result<String, String> {
    let get = || {
        let mut stream = TcpStream::connect(HTTP)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    let answer = get().map_err(|error| error.to_string())?;
    if answer.starts_with("HTTP/1.1 200 ") { Ok(answer) } else { Err(answer) }
}

/// The registry refuses a pull without credentials.
fn assert_denied(pod: &Pod) {
    pod.wait_for_event("Failed", "authorization failed: no basic auth credentials");
}

fn options() -> NodeOptions {
    let flags = [
        format!("--image-credential-provider-config={KUBELET_CONFIG}"),
        format!("--image-credential-provider-bin-dir={KUBELET_PLUGINS}"),
        "--v=5".to_owned(),
    ];
    NodeOptions::new(Runtime::Containerd21).flags(&flags)
}

/// The files of an agent whose plugins know ada's login.
struct AgentFiles {
    directory: PathBuf,
    socket: PathBuf,
}

impl AgentFiles {
    fn new(world: &World) -> Self {
        let directory = world.files.join(format!("agent-{}", world.namespace));
        let socket = directory.join("agent.sock");
        let agent = Self { directory, socket };
        let logins = json!({"auths": {HOST: {"username": "ada", "password": PASSWORD}}});
        write(&agent.directory.join("logins.json"), &logins.to_string());
        let file = json!({
            "apiVersion": "keyfob.dev/v1alpha1",
            "kind": "AgentConfiguration",
            "providerConfig": agent.directory.join("providers.json"),
            "pluginDirectory": agent.directory.join("plugins"),
            "listeners": {"agent": {"path": agent.socket}},
            "audit": {"to": "file", "path": agent.directory.join("audit.log")},
        });
        write(&agent.directory.join("agent.yaml"), &file.to_string());
        agent
    }

    /// The agent notices by itself.
    fn write_providers(&self, providers: &[Value]) {
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": providers,
        });
        write(&self.directory.join("providers.json"), &config.to_string());
    }

    /// Has the login of a file for the first registry.
    fn file_provider(&self) -> Value {
        let argument = format!("--path={}", self.directory.join("logins.json").display());
        self.provider(PLUGIN, HOST, &argument)
    }

    /// Has the login of a docker credential helper for the second registry.
    fn helper_provider(&self) -> Value {
        let helper = self.directory.join("docker-credential-vault");
        let script = format!(
            "#!/bin/sh\nread -r url\n\
             printf '{{\"ServerURL\":\"%s\",\"Username\":\"ada\",\"Secret\":\"{PASSWORD}\"}}\\n' \"$url\"\n"
        );
        write(&helper, &script);
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        let argument = format!("--helper={}", helper.display());
        self.provider("exec-credential-provider", OTHER_HOST, &argument)
    }

    /// A provider for a registry, with its plugin, which is one of ours.
    fn provider(&self, name: &str, host: &str, argument: &str) -> Value {
        let plugin = self.plugin(name);
        fs::create_dir_all(plugin.parent().unwrap()).unwrap();
        if !plugin.exists() {
            let installed = Path::new(INSTALLED);
            let built = Path::new(env!("CARGO_BIN_EXE_keyfob"));
            symlink(if installed.exists() { installed } else { built }, plugin).unwrap();
        }
        json!({
            "name": name,
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [host],
            "defaultCacheDuration": "1m",
            "args": [argument],
        })
    }

    fn plugin(&self, name: &str) -> PathBuf {
        self.directory.join("plugins").join(name)
    }

    /// Makes the relay the only plugin of the kubelet, with one broad entry.
    fn install_relay(&self, world: &World, flags: &[&str]) {
        let relay = std::env::var("KEYFOB_RELAY").unwrap();
        let file = self.directory.join("agent.yaml");
        let install = ["provider", "install", KUBELET_PLUGINS, "--config-file", KUBELET_CONFIG];
        let agent = ["--agent", "--any-registry", "--agent-file", file.to_str().unwrap()];
        fs::remove_file(KUBELET_CONFIG).unwrap_or_default();
        succeed(world.keyfob(&install).args(agent).args(["--relay", &relay]).args(flags));
    }

    /// Installs programs, units and a file with these rules as `docs/agent.md` says.
    fn install_service(&self, rules: &Value) {
        let deployed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd");
        for unit in ["keyfob-agent.service", "keyfob-agent.socket", "keyfob-agent-admin.socket"] {
            let text = fs::read_to_string(deployed.join(unit)).unwrap();
            write(&Systemd::unit(unit), &text.replace("/usr/local/bin/keyfob", INSTALLED));
        }
        let relay = std::env::var("KEYFOB_RELAY").unwrap();
        let programs =
            [("keyfob", env!("CARGO_BIN_EXE_keyfob")), ("docker-credential-keyfob", &relay)];
        for (name, program) in programs {
            // A copy, because the service does not see what is in /home, /root or /tmp, where the checkout may be.
            let copy = Path::new("/usr/bin").join(name);
            fs::remove_file(&copy).unwrap_or_default();
            fs::copy(program, copy).unwrap();
        }
        let file = json!({
            "apiVersion": "keyfob.dev/v1alpha1",
            "kind": "AgentConfiguration",
            "providerConfig": self.directory.join("providers.json"),
            "pluginDirectory": self.directory.join("plugins"),
            "stateDirectory": "/var/lib/keyfob",
            "listeners": {
                "agent": {"path": "/run/keyfob/agent.sock"},
                "admin": {"path": "/run/keyfob/admin.sock"},
                "http": {"address": HTTP},
            },
            "audit": {"to": "file", "path": "/var/log/keyfob/audit.log"},
            "rules": rules,
        });
        write(Path::new("/etc/keyfob/agent.yaml"), &file.to_string());
    }

    fn start(&self, world: &World) -> Process {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_keyfob"));
        serve.args(["serve", "-v", "--config"]).arg(self.directory.join("agent.yaml"));
        serve.env_clear().env("PATH", world.parts.search_path());
        let mut process = Process::start("agent", serve, &world.directory);
        process.wait_until("the agent serves", || {
            UnixStream::connect(&self.socket).map(drop).map_err(|error| error.to_string())
        });
        process
    }

    /// The latest line of the audit log.
    fn last_event(&self) -> Value {
        let log = fs::read_to_string(self.directory.join("audit.log")).unwrap();
        serde_json::from_str(log.lines().last().unwrap()).unwrap()
    }
}
