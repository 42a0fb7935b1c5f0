//! Every part of a node is killed in the middle of a pull and started again: nothing hangs, no pod gets an image that it may not
//! use, and the pods that may use it run in the end.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::json;

use crate::{
    containerd::Runtime,
    node::Node,
    pod::Pod,
    registry::Pushed,
    shell::succeed,
    teams::{SHOP, Teams, Who},
    wait::wait_for,
    world::World,
};

pub(crate) fn a_pull_survives_a_killed_kubelet(world: &mut World) {
    Pull::begin(world, Runtime::Containerd21).survives(world, false, |_, pull| {
        pull.node.kubelet.kill();
        pull.teams.registry.release();
        pull.node.kubelet.start_again();
        pull.node.wait_until_ready();
    });
}

pub(crate) fn a_pull_survives_a_killed_containerd(world: &mut World) {
    for runtime in Runtime::ALL {
        Pull::begin(world, runtime).survives(world, false, |_, pull| {
            pull.node.containerd.process.kill();
            pull.teams.registry.release();
            pull.node.containerd.process.start_again();
            pull.node.containerd.wait_until_ready();
        });
    }
}

pub(crate) fn a_pull_survives_a_killed_registry(world: &mut World) {
    Pull::begin(world, Runtime::Containerd21).survives(world, true, |_, pull| {
        pull.teams.registry.process.kill();
        pull.teams.registry.release();
        // What the kubelet saw of it.
        for pod in &pull.owners {
            pod.wait_for_event("Failed", "503");
        }
        pull.teams.registry.process.start_again();
        pull.teams.registry.wait_until_ready();
    });
}

pub(crate) fn a_pull_survives_a_killed_api_server(world: &mut World) {
    Pull::begin(world, Runtime::Containerd21).survives(world, false, |world, pull| {
        world.cluster.api_server.kill();
        pull.teams.registry.release();
        pull.wait_until_images_are_present();
        world.cluster.api_server.start_again();
        world.cluster.wait_until_ready();
    });
}

pub(crate) fn a_pull_survives_a_killed_etcd(world: &mut World) {
    Pull::begin(world, Runtime::Containerd21).survives(world, false, |world, pull| {
        world.cluster.etcd.kill();
        pull.teams.registry.release();
        pull.wait_until_images_are_present();
        world.cluster.etcd.start_again();
        world.cluster.wait_until_ready();
    });
}

/// Two images on their way, for a pod with a pull secret and for one with a service account, while a pod of the other team
/// wants both; and a `keyfob pull` of the same.
struct Pull {
    teams: Teams,
    node: Node,
    images: [Pushed; 2],
    owners: [Pod; 2],
    strangers: [Pod; 2],
    keyfob: Child,
}

impl Pull {
    /// Returns when the registry holds back blobs of all three pulls.
    fn begin(world: &World, runtime: Runtime) -> Self {
        let teams = Teams::start(world);
        fs::remove_dir_all(layout(world)).unwrap_or_default();
        let images =
            ["team/by-secret:v1", "team/by-account:v1"].map(|name| teams.registry.push(name));
        let [by_secret, by_account] = &images;
        // Or all pulls would wait for the first.
        let options = teams.node(runtime).config("serializeImagePulls", json!(false));
        // A kubelet waits ten seconds before it pulls again, and up to five more before it looks at the pod.
        let options = options.config("syncFrequency", json!("1s"));
        let node = Node::start(world, &options);
        teams.registry.hold("/blobs/");
        let owners = [
            teams.pod(Who::Secret, by_secret).create(),
            teams.pod(Who::Account, by_account).create(),
        ];
        let strangers =
            [by_secret, by_account].map(|image| teams.pod(Who::Stranger, image).create());
        for stranger in &strangers {
            stranger.wait_for_event("Failed", "Failed to pull image");
        }
        let mut keyfob = keyfob_pull(world, &teams, by_account, &owners[1].name);
        let keyfob = keyfob.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The configurations of both images for the kubelet's pods, and of one for keyfob.
        wait_for("three pulls to be held back", Duration::from_secs(30), || {
            let held = teams.registry.held();
            let count = |id: &str| held.iter().filter(|path| path.contains(id)).count();
            let all = count(&by_secret.id) == 1 && count(&by_account.id) == 2;
            if all { Ok(()) } else { Err(format!("{held:?}")) }
        });
        Self { teams, node, images, owners, strangers, keyfob }
    }

    /// Only without its registry may `keyfob pull` fail; then it succeeds the next time.
    fn survives(
        mut self,
        world: &mut World,
        keyfob_may_fail: bool,
        fault: impl FnOnce(&mut World, &mut Self),
    ) {
        fault(world, &mut self);
        for owner in &self.owners {
            owner.wait_until_running();
        }
        let [by_secret, by_account] = &self.images;
        self.teams
            .assert_all_usable_by(&[(by_secret, &[Who::Secret]), (by_account, &[Who::Account])]);
        for stranger in &self.strangers {
            let started = stranger.events().into_iter().any(|event| event.reason == "Started");
            assert!(!started, "{:#?}", stranger.event_lines());
        }
        let status = wait_for("keyfob pull to end", Duration::from_mins(1), || {
            self.keyfob.try_wait().unwrap().ok_or_else(|| "it is running".to_owned())
        });
        if !status.success() {
            assert_eq!((status.code(), keyfob_may_fail), (Some(1), true), "of keyfob pull");
            succeed(&mut keyfob_pull(world, &self.teams, by_account, &self.owners[1].name));
        }
    }

    fn wait_until_images_are_present(&self) {
        wait_for("containerd to have the images", Duration::from_secs(30), || {
            let names = self.node.containerd.ctr(&["images", "list", "--quiet"]);
            let is_present = self.images.iter().all(|image| names.contains(&image.id));
            if is_present { Ok(()) } else { Err(names) }
        });
    }
}

fn layout(world: &World) -> PathBuf {
    world.directory.join("oci")
}

/// A pull on behalf of a pod of the shop's account, into a layout of its own.
fn keyfob_pull(world: &World, teams: &Teams, image: &Pushed, pod: &str) -> Command {
    let account = format!("{SHOP}/cart");
    let mut keyfob = world.keyfob(&["pull", "--quiet", &image.reference]);
    keyfob.arg(layout(world)).args(["--service-account", &account, "--pod", pod]);
    keyfob.args(teams.provider_flags());
    keyfob
}
