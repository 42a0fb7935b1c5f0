//! How the flags reach a kubelet that systemd starts, as `docs/plugins.md` says: on machines of kubeadm and on others.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::Duration,
};

use serde_json::json;

use crate::{
    containerd::Runtime,
    documented::Page,
    node::{KUBELET, NODE, Node, NodeOptions, health},
    registry::{Access, Registry},
    systemd::{Systemd, write},
    wait::wait_for,
    world::World,
};

const HOST: &str = "registry.example.com";
const PASSWORD: &str = "hunter2-correct-horse";
/// An argument that the kubelet has before ours are added. The page's example has another address.
const NODE_IP: &str = "--node-ip=192.0.2.1";
/// The files with `KUBELET_EXTRA_ARGS`.
const DEBIAN: &str = "/etc/default/kubelet";
const RPM: &str = "/etc/sysconfig/kubelet";
/// Where kubeadm writes the arguments of its configuration.
const KUBEADM_FLAGS: &str = "/var/lib/kubelet/kubeadm-flags.env";

pub(crate) fn kubeadm_nodes_take_the_flags_from_the_file_of_their_packages(world: &mut World) {
    let registry = Registry::start(world, HOST, Access::password("ada", PASSWORD));
    let image = registry.push("team/app:v1");
    let page = Page::read("docs/plugins.md");
    let kubelet = Kubelet::install(world, &page);
    write(
        Path::new(KUBEADM_FLAGS),
        &format!("KUBELET_KUBEADM_ARGS=\"--hostname-override={NODE}\"\n"),
    );
    let systemd = Systemd::start(world);
    let documented = page.block("sh", &["KUBELET_EXTRA_ARGS="]).replace("192.0.2.7", "192.0.2.1");
    let (variable, arguments) = documented.split_once('=').unwrap();
    assert_eq!(variable, "KUBELET_EXTRA_ARGS");
    let restart = page.block("console", &["# systemctl restart kubelet"]).replacen("# ", "", 1);

    for (file, before, after) in [
        (RPM, format!("{variable}=\"{NODE_IP}\"\n"), format!("{variable}=\"{arguments}\"\n")),
        (DEBIAN, format!("{variable}={NODE_IP}\n"), format!("{documented}\n")),
    ] {
        install_packaged_unit(file);
        write(Path::new(file), &before);
        systemd.run("systemctl daemon-reload && systemctl restart kubelet");
        assert_eq!(kubelet.credential_flags(&systemd), "", "{file}");
        assert!(kubelet.arguments(&systemd).contains(NODE_IP), "{file}");
        write(Path::new(file), &after);
        systemd.run(&restart);
        assert_eq!(kubelet.credential_flags(&systemd), kubelet.flags, "{file}");
        assert!(kubelet.arguments(&systemd).contains(NODE_IP), "{file}");
    }
    wait_until_healthy();
    world.pod("app", &image).create().wait_until_running();
    assert_eq!(registry.logins(), [(None, 401), (Some("ada".to_owned()), 200)]);

    // Containers go on running while the kubelet is stopped, as another page says.
    let running = || -> BTreeSet<String> {
        let tasks = kubelet.node.containerd.ctr(&["tasks", "list"]);
        tasks.lines().filter(|task| task.ends_with("RUNNING")).map(str::to_owned).collect()
    };
    let before = running();
    systemd.run("systemctl stop kubelet");
    assert_eq!((before.len(), running()), (2, before), "the sandbox and the container");

    // The way that the page warns against, with the file as packages install it.
    let flags = kubelet.flags.replace('\n', " ");
    let drop_in = |arguments: &str| format!("[Service]\nEnvironment=\"{variable}={arguments}\"\n");
    write(Path::new(DEBIAN), &format!("{variable}=\n"));
    write(&Systemd::unit("kubelet.service.d/30-providers.conf"), &drop_in(&flags));
    systemd.run("systemctl daemon-reload && systemctl restart kubelet");
    assert_eq!(kubelet.credential_flags(&systemd), "", "the file overrides the drop-in");
    fs::remove_file(DEBIAN).unwrap();
    write(&Systemd::unit("kubelet.service.d/20-address.conf"), &drop_in(NODE_IP));
    systemd.run("systemctl daemon-reload && systemctl restart kubelet");
    assert_eq!(kubelet.credential_flags(&systemd), kubelet.flags, "no file overrides it");
    let arguments = kubelet.arguments(&systemd);
    assert!(!arguments.contains(NODE_IP), "the drop-in replaces what was set before: {arguments}");
}

pub(crate) fn kubeadm_writes_the_flags_of_its_configuration(world: &mut World) {
    let page = Page::read("docs/plugins.md");
    let kubelet = Kubelet::install(world, &page);
    let systemd = Systemd::start(world);
    install_packaged_unit(DEBIAN);
    systemd.run("systemctl daemon-reload");
    let join = page.block("yaml", &["kind: JoinConfiguration # or InitConfiguration"]);
    let init = join.replace("kind: JoinConfiguration # or", "kind:");

    // A first node. What this machine has not, kubeadm's kubelet must not want either; and kubeadm shall ask nobody for a version.
    let config = fs::read_to_string(Path::new(KUBELET).join("config.yaml")).unwrap();
    let cluster = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": "v1.37.1",
    });
    let endpoint = "localAPIEndpoint:\n  advertiseAddress: 192.0.2.1";
    let init = format!("{init}\n{endpoint}\n---\n{cluster}\n---\n{config}\n");
    assert_eq!(kubelet.configure(world, &systemd, "init", &init), kubelet.flags);
    wait_until_healthy();

    // A second one, whose kubeadm reads the rest from the cluster, as the node.
    let file = world.files.join("init.yaml");
    let admin = world.cluster.admin();
    systemd.run(&format!(
        "kubeadm init phase upload-config all --config {} --kubeconfig {}",
        file.display(),
        admin.display()
    ));
    let known = format!("discovery:\n  file:\n    kubeConfigPath: {}", kubelet.kubeconfig);
    let join = format!("{join}\n{known}\n");
    assert_eq!(kubelet.configure(world, &systemd, "join", &join), kubelet.flags);
    wait_until_healthy();
}

pub(crate) fn any_unit_takes_the_flags_from_a_drop_in(world: &mut World) {
    let page = Page::read("docs/plugins.md");
    let kubelet = Kubelet::install(world, &page);
    let systemd = Systemd::start(world);
    let unit = format!(
        "[Service]\nExecStart=/usr/bin/kubelet --config={KUBELET}/config.yaml --kubeconfig={} --hostname-override={NODE} {NODE_IP}\n",
        kubelet.kubeconfig
    );
    write(&Systemd::unit("kubelet.service"), &unit);
    systemd.run("systemctl daemon-reload && systemctl start kubelet");
    assert_eq!(kubelet.credential_flags(&systemd), "");

    let shown = systemd.run(&page.command(&["systemctl cat kubelet"]));
    let (_, shown) = shown.split_once("\nExecStart=/usr/bin/kubelet ").unwrap();
    let (arguments, _) = shown.split_once('\n').unwrap();
    let documented =
        page.block("ini", &["ExecStart=\n"]).replace("THE ARGUMENTS IT HAS", arguments);
    let restart = page.command(&["daemon-reload"]);

    edit(world, &systemd, &documented.replace("ExecStart=\n", ""));
    let refused = systemd.try_run(&restart);
    let reason = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && reason.contains("has a bad unit file setting"),
        "{reason}"
    );
    fs::remove_dir_all(Systemd::unit("kubelet.service.d")).unwrap();

    edit(world, &systemd, &documented);
    systemd.run(&restart);
    assert_eq!(kubelet.credential_flags(&systemd), kubelet.flags);
    let (now, before) = (kubelet.arguments(&systemd), arguments.replace(' ', "\n"));
    assert_eq!(now, format!("/usr/bin/kubelet\n{before}\n{}\n", kubelet.flags));
    wait_until_healthy();
}

/// Makes a drop-in with `systemctl edit`, which wants a terminal and an editor.
fn edit(world: &World, systemd: &Systemd, text: &str) {
    let [file, editor] = ["drop-in.conf", "editor"].map(|name| world.files.join(name));
    write(&file, text);
    // The text belongs between the two comments of the file that is to be edited.
    let script = format!("#!/bin/sh\nsed -i '2r {}' \"$1\"\n", file.display());
    write(&editor, &script);
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let edit = "script --quiet --return --command 'systemctl edit kubelet' /dev/null";
    systemd.run(&format!("SYSTEMD_EDITOR={} {edit}", editor.display()));
    let made = fs::read_to_string(Systemd::unit("kubelet.service.d/override.conf")).unwrap();
    assert_eq!(made.trim_end(), text.trim_end());
}

/// The unit of Kubernetes' packages and the drop-in of their kubeadm, as far as arguments are concerned: kubernetes/release v0.21.1,
/// `cmd/krel/templates/latest`. The families differ in the name of the last file.
fn install_packaged_unit(extra_arguments: &str) {
    let unit = "[Service]\nExecStart=/usr/bin/kubelet\n";
    write(&Systemd::packaged_unit("kubelet.service"), unit);
    let drop_in = format!(
        "[Service]\n\
         Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"\n\
         Environment=\"KUBELET_CONFIG_ARGS=--config={KUBELET}/config.yaml\"\n\
         EnvironmentFile=-{KUBEADM_FLAGS}\n\
         EnvironmentFile=-{extra_arguments}\n\
         ExecStart=\n\
         ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n"
    );
    write(&Systemd::packaged_unit("kubelet.service.d/10-kubeadm.conf"), &drop_in);
}

/// The kubelet of a node, for systemd to start.
struct Kubelet {
    /// Its containerd runs; its own kubelet is stopped, and has left its configuration.
    node: Node,
    kubeconfig: &'static str,
    /// The page's flags, one in a line.
    flags: String,
    /// The page's command that shows which of them a kubelet has.
    show_flags: String,
}

impl Kubelet {
    /// Installs a plugin as the page says, and kubelet and kubeconfig where packages and kubeadm have them.
    fn install(world: &World, page: &Page) -> Self {
        let login = json!({"auths": {HOST: {"username": "ada", "password": PASSWORD}}});
        write(Path::new("/etc/kubernetes/registry.d/example.json"), &login.to_string());
        world.run_documented(&page.command(&["cargo build"]));
        world.run_documented(&page.command(&["--providers docker-config"]));
        world.run_documented(&page.command(&["keyfob validate"]));
        // kubeadm leaves an empty list out of the configuration, and the kubelet then has its default.
        let options = NodeOptions::new(Runtime::Containerd21);
        let options = options.config("enforceNodeAllocatable", json!(["none"]));
        let mut node = Node::start(world, &options);
        node.kubelet.stop();
        let program = Path::new("/usr/bin/kubelet");
        // Of another scenario.
        for file in [program, Path::new(DEBIAN), Path::new(RPM)] {
            fs::remove_file(file).unwrap_or_default();
        }
        symlink(world.parts.program("kubelet"), program).unwrap();
        let kubeconfig = "/etc/kubernetes/kubelet.conf";
        let source = world.cluster.kubeconfig(&format!("system:node:{NODE}"), "system:nodes");
        fs::copy(source, kubeconfig).unwrap();
        Self {
            node,
            kubeconfig,
            flags: page.block("text", &["--image-credential-provider-config"]),
            show_flags: page.command(&["pidof kubelet"]),
        }
    }

    /// All that the kubelet was started with, one in a line; waits until it is.
    fn arguments(&self, systemd: &Systemd) -> String {
        let (show_all, _) = self.show_flags.split_once(" | grep").unwrap();
        wait_for("the kubelet to be started", Duration::from_secs(10), || {
            let output = systemd.try_run(show_all);
            let arguments = String::from_utf8_lossy(&output.stdout).into_owned();
            // For a moment, the new process is still systemd, with other arguments.
            let is_kubelet = arguments.contains("--kubeconfig=");
            if is_kubelet { Ok(arguments) } else { Err(format!("{output:?}")) }
        })
    }

    /// What the page's command shows of the kubelet that was started last.
    fn credential_flags(&self, systemd: &Systemd) -> String {
        self.arguments(systemd);
        let shown = systemd.try_run(&self.show_flags);
        String::from_utf8(shown.stdout).unwrap().trim_end().to_owned()
    }

    /// Lets `kubeadm init` or `kubeadm join` start the kubelet with a configuration, and returns what the page's command shows.
    /// The flags are in the file of which the page speaks.
    fn configure(&self, world: &World, systemd: &Systemd, command: &str, config: &str) -> String {
        let file = world.files.join(format!("{command}.yaml"));
        write(&file, config);
        fs::remove_file(KUBEADM_FLAGS).unwrap_or_default();
        systemd.run(&format!(
            "kubeadm {command} phase kubelet-start --node-name {NODE} --config {}",
            file.display()
        ));
        let written = fs::read_to_string(KUBEADM_FLAGS).unwrap();
        for flag in self.flags.lines() {
            assert!(written.contains(flag), "kubeadm {command} wrote {written}");
        }
        let shown = self.credential_flags(systemd);
        // kubeadm sorts them.
        let mut shown: Vec<_> = shown.lines().collect();
        shown.sort_unstable_by_key(|flag| self.flags.find(flag));
        shown.join("\n")
    }
}

/// Waits until the kubelet that systemd has started is healthy.
fn wait_until_healthy() {
    wait_for("the kubelet to be healthy", Duration::from_secs(30), || {
        let health = health()?;
        if health.ends_with("\r\n\r\nok") { Ok(()) } else { Err(health) }
    });
}
