//! Records that `keyfob pull` writes into a kubelet's directory: in the documented order, and in the one that it warns against.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use serde_json::json;

use crate::{
    containerd::Runtime,
    documented::Page,
    node::{KUBELET, Node, NodeOptions},
    records::{POLICY, snapshot},
    shell::succeed,
    teams::{SHOP, Teams, Who},
    world::World,
};

/// The kubelet's records.
const RECORDS: &str = "/var/lib/kubelet/image_manager/pulled";

pub(crate) fn the_documented_order_lets_in_whom_the_image_was_pulled_for(world: &mut World) {
    let teams = Teams::start(world);
    let app = teams.registry.push("team/app:v1");
    let by_account = teams.registry.push("team/by-account:v1");
    let usable = [(&app, &[Who::Secret][..]), (&by_account, &[Who::Account])];
    for runtime in Runtime::ALL {
        let procedure = Procedure::install(world, runtime);
        let mut node = Node::start(world, &teams.node(runtime));
        let mut written = BTreeMap::new();
        for command in &procedure.commands {
            match command.as_str() {
                "systemctl stop kubelet" => node.kubelet.stop(),
                "systemctl start kubelet" => {
                    // While the kubelet is stopped: another image, for the pods of a service account.
                    pull_as_account(world, &teams, &by_account.reference);
                    procedure.import(world);
                    written = record_texts();
                    node.kubelet.start_again();
                    node.wait_until_ready();
                }
                command => drop(world.run_documented(command)),
            }
        }
        teams.assert_all_usable_by(&usable);
        teams.assert_stranger_is_refused(&app);
        node.kubelet.stop();
        node.start_kubelet(&always_verify(teams.node(runtime)));
        node.wait_until_ready();
        teams.assert_all_usable_by(&usable);
        let stranger = teams.pod(Who::Stranger, &app).pull_policy("Never").create();
        assert_eq!(
            stranger.wait_until_waiting("ErrImageNeverPull"),
            format!("Container image {:?} is not present with pull policy of Never", app.reference),
        );

        // The kubelet itself writes the same.
        node.kubelet.stop();
        fs::remove_dir_all(RECORDS).unwrap();
        node.kubelet.start_again();
        node.wait_until_ready();
        teams.pod(Who::Secret, &app).create().wait_until_running();
        teams.pod(Who::Account, &by_account).create().wait_until_running();
        assert_eq!(written.len(), 2);
        assert_eq!(record_texts(), written);
    }
}

/// The files of all records without their times.
fn record_texts() -> BTreeMap<String, String> {
    let entries = fs::read_dir(RECORDS).unwrap().map(Result::unwrap);
    let text = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).unwrap();
        let (start, rest) = text.split_once("\"lastUpdatedTime\":\"").unwrap();
        let (time, end) = rest.split_once('"').unwrap();
        assert_eq!(time.len(), "2026-01-01T00:00:00Z".len());
        (entry.file_name().into_string().unwrap(), [start, end].concat())
    };
    entries.map(text).collect()
}

pub(crate) fn beside_a_running_kubelet_the_wrong_pod_is_let_in(world: &mut World) {
    let teams = Teams::start(world);
    let app = teams.registry.push("team/app:v1");
    let nobody: &[Who] = &[];
    for (runtime, options, wrong) in [
        (
            Runtime::Containerd21,
            teams.node(Runtime::Containerd21),
            &[Who::Secret, Who::Account, Who::Stranger][..],
        ),
        (Runtime::Containerd16, always_verify(teams.node(Runtime::Containerd16)), nobody),
        (Runtime::Containerd21, always_verify(teams.node(Runtime::Containerd21)), nobody),
    ] {
        let procedure = Procedure::install(world, runtime);
        let mut node = Node::start(world, &options);
        world.run_documented(procedure.command("kubectl get secret"));
        let pull = procedure.command("keyfob pull");
        assert_is_refused(world, &teams, pull);
        world.run_documented(&format!("{pull} --beside-running-kubelet"));
        procedure.import(world);
        // The only pod that may use the image is the first of them, and the kubelet has it otherwise.
        teams.assert_usable_by(&app, wrong);
        node.kubelet.stop();
        node.kubelet.start_again();
        node.wait_until_ready();
        teams.assert_usable_by(&app, &[Who::Secret]);
    }
}

/// Without its flag, `keyfob pull` neither asks a registry nor changes anything beside a running kubelet.
fn assert_is_refused(world: &World, teams: &Teams, pull: &str) {
    let directory = Path::new(KUBELET).join("image_manager");
    let (visits, before) = (teams.registry.visits().len(), snapshot(&directory));
    let refused = world.try_documented(pull);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("a kubelet runs on /var/lib/kubelet"), "{stderr}");
    assert!(stderr.contains("--beside-running-kubelet"), "{stderr}");
    assert_eq!(teams.registry.visits().len(), visits);
    assert_eq!(snapshot(&directory), before);
}

pub(crate) fn always_verify(options: NodeOptions) -> NodeOptions {
    options.config(POLICY, json!("AlwaysVerify"))
}

/// Pulls into the layout of the procedure, on behalf of a pod of the shop's account.
fn pull_as_account(world: &World, teams: &Teams, image: &str) {
    // The token is bound to a pod, which need not run.
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": SHOP, "name": "cart-1"},
        "spec": {
            "nodeName": crate::node::NODE,
            "serviceAccountName": "cart",
            "automountServiceAccountToken": false,
            "containers": [{"name": "app", "image": image}],
        },
    });
    world.cluster.apply(&pod.to_string());
    let mut keyfob = world.keyfob(&["pull", image, "oci", "--records-dir", KUBELET]);
    keyfob.args(["--service-account", "shop/cart", "--pod", "cart-1"]).args(teams.provider_flags());
    succeed(keyfob.current_dir(world.checkout()));
}

/// The documented commands, with the programs that they need at the places where an administrator has them.
pub(crate) struct Procedure {
    commands: Vec<String>,
}

impl Procedure {
    pub(crate) fn install(world: &World, runtime: Runtime) -> Self {
        let programs = world.parts.program(runtime.directory());
        for (name, target) in [
            ("ctr", programs.join("ctr").as_path()),
            ("keyfob", Path::new(env!("CARGO_BIN_EXE_keyfob"))),
        ] {
            let link = Path::new("/usr/local/bin").join(name);
            fs::remove_file(&link).unwrap_or_default();
            symlink(target, link).unwrap();
        }
        fs::remove_dir_all(world.checkout()).unwrap_or_default();
        let page = Page::read("docs/pull.md");
        let block = page.block("console", &["systemctl stop kubelet", "images import"]);
        let commands = block.lines().map(|line| line.strip_prefix("# ").unwrap().to_owned());
        Self { commands: commands.collect() }
    }

    pub(crate) fn command(&self, text: &str) -> &str {
        let mut found = self.commands.iter().filter(|command| command.contains(text));
        let command = found.next().unwrap_or_else(|| panic!("no command with {text:?}"));
        assert_eq!(found.next(), None);
        command
    }

    /// Imports everything of the layout into containerd.
    pub(crate) fn import(&self, world: &World) {
        world.run_documented(self.command("tar -C"));
        world.run_documented(self.command("images import"));
    }
}
