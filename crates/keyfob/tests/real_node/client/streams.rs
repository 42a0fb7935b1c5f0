//! `kubectl exec`, `attach`, `logs -f`, `port-forward` and `get --watch` on a real pod, through `keyfob kube proxy`.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Command, Output, Stdio},
    thread,
};

use serde_json::json;

use super::{
    ACCOUNT, create_account,
    exec_user::{ExecUser, Proxy},
    following::Following,
};
use crate::{
    containerd::Runtime,
    node::{Node, NodeOptions},
    pod::Pod,
    registry::{Access, Pushed, Registry},
    shell::{output, stdout, succeed},
    world::World,
};

const PORT: &str = "18080";
const GREETING: &str = "hello from the pod";

pub(crate) fn exec_logs_port_forward_and_watches_go_through_the_proxy(world: &mut World) {
    create_account(world);
    let registry = Registry::start(world, "registry.example.com", Access::Everybody);
    let image = registry.push("team/app:v1");
    let certificate = ExecUser::with_certificate(world, "certificate");
    certificate.answer_with_certificate(world, "ada", None);
    // Streams end in the runtime, whoever the user is.
    for (runtime, user) in [
        (Runtime::Containerd21, ExecUser::of_account(world, "token", ACCOUNT)),
        (Runtime::Containerd16, certificate),
    ] {
        let _node = Node::start(world, &NodeOptions::new(runtime));
        create_pod(world, &image).wait_until_running();
        let proxy = Proxy::start(world, &user);
        let pod = PodBehindProxy { world, proxy: &proxy };
        // kubectl asks for websockets first, and for SPDY if it must.
        for websockets in ["true", "false"] {
            pod.exec(websockets);
            pod.attach(websockets);
            pod.port_forward(websockets);
        }
        pod.logs();
        pod.watch();
        assert_eq!(user.runs(), 1, "the plugin ran once for all of them");
        proxy.stop();
    }
}

/// The pod repeats what it is told by whoever attaches, and greets whoever connects.
fn create_pod(world: &World, image: &Pushed) -> Pod {
    let greet = format!("while true; do echo '{GREETING}' | nc -l -p {PORT}; done");
    let pod =
        world.pod("app", image).command(&["sh", "-c", &format!("exec 3<&0; cat <&3 & {greet}")]);
    pod.with(|manifest| manifest["spec"]["containers"][0]["stdin"] = json!(true)).create()
}

struct PodBehindProxy<'a> {
    world: &'a World,
    proxy: &'a Proxy,
}

impl PodBehindProxy<'_> {
    fn kubectl(&self, args: &[&str]) -> Command {
        self.proxy.kubectl(self.world, args)
    }

    /// Data in both directions at once, more than any buffer holds; and the exit code.
    fn exec(&self, websockets: &str) {
        let sent = vec![b'x'; 3 << 20];
        let mut cat = self.kubectl(&["exec", "-i", "app", "--", "cat"]);
        let received = with_input(over(&mut cat, websockets), &sent);
        assert!(received.status.success(), "{}", String::from_utf8_lossy(&received.stderr));
        assert!(received.stdout == sent, "{} bytes came back", received.stdout.len());
        let mut fails = self.kubectl(&["exec", "app", "--", "sh", "-c", "echo no >&2; exit 7"]);
        let failed = output(over(&mut fails, websockets));
        let stderr = String::from_utf8(failed.stderr).unwrap();
        assert_eq!(failed.status.code(), Some(7), "{stderr}");
        assert!(stderr.starts_with("no\n"), "{stderr}");
    }

    /// A line goes to the pod's process and comes back.
    fn attach(&self, websockets: &str) {
        let mut attach = self.kubectl(&["attach", "--quiet", "-i", "app"]);
        let mut attached = Following::start_with_input(over(&mut attach, websockets));
        let line = format!("repeat with websockets {websockets}");
        attached.write_line(&line);
        attached.wait_for_line(&line);
    }

    fn port_forward(&self, websockets: &str) {
        let mut forward = self.kubectl(&["port-forward", "pod/app", &format!(":{PORT}")]);
        let forwarding = Following::start(over(&mut forward, websockets));
        let line = forwarding.wait_for_line("Forwarding from 127.0.0.1:");
        let address = line.strip_prefix("Forwarding from ").unwrap().split(' ').next().unwrap();
        let mut answer = String::new();
        TcpStream::connect(address).unwrap().read_to_string(&mut answer).unwrap();
        assert_eq!(answer, format!("{GREETING}\n"), "{line}");
    }

    /// A line arrives while kubectl runs.
    fn logs(&self) {
        let logs = Following::start(&mut self.kubectl(&["logs", "-f", "app"]));
        for line in ["first", "second"] {
            let write = format!("echo {line} >/proc/1/fd/1");
            succeed(&mut self.kubectl(&["exec", "app", "--", "sh", "-c", &write]));
            logs.wait_for_line(line);
        }
    }

    fn watch(&self) {
        let labels = "jsonpath={.metadata.labels.step}{\"\\n\"}";
        // Of a single pod, kubectl would not show what changes between its first request and its watch.
        let selector = "--field-selector=metadata.name=app";
        let watch = ["get", "pods", selector, "--watch", "-o", labels];
        let watch = Following::start(&mut self.kubectl(&watch));
        for step in ["one", "two"] {
            let label = format!("step={step}");
            let namespace = &self.world.namespace;
            let args = ["label", "pod", "app", "--overwrite", "-n", namespace, &label];
            stdout(&mut self.world.cluster.kubectl(&args));
            watch.wait_for_line(step);
        }
    }
}

/// Chooses the protocol of a kubectl.
fn over<'a>(kubectl: &'a mut Command, websockets: &str) -> &'a mut Command {
    for variable in ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"] {
        kubectl.env(variable, websockets);
    }
    kubectl
}

/// Runs a command that reads this.
fn with_input(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap_or_default());
        child.wait_with_output().unwrap()
    })
}
