//! Whoever dies in the middle of a pull, kubelet or `keyfob pull`: afterwards nobody uses an image without having proved access.

use std::{fs, process::Child, time::Duration};

use serde_json::json;

use crate::{
    containerd::Runtime,
    node::{KUBELET, Node},
    record_procedure::Procedure,
    registry::Pushed,
    shell::run,
    teams::{Teams, Who, recorded_ids, records},
    wait::wait_for,
    world::World,
};

pub(crate) fn a_kubelet_killed_during_a_pull_lets_nobody_in_without_proof(world: &mut World) {
    let teams = Teams::start(world);
    for runtime in Runtime::ALL {
        let [lost, arrived] =
            ["team/lost:v1", "team/arrived:v1"].map(|name| teams.registry.push(name));
        let mut node = Node::start(world, &teams.node(runtime));

        // It dies while the image is on its way, and the pull dies with it.
        teams.registry.hold("/blobs/");
        let owner = teams.pod(Who::Secret, &lost).create();
        teams.registry.wait_until_held();
        let intent = |state: &str| json!([{"image": lost.reference, "state": state}]);
        assert_eq!(records(world)["intents"], intent("pulling"));
        node.kubelet.kill();
        assert_eq!(records(world)["intents"], intent("abandoned"));
        teams.registry.release();
        node.kubelet.start_again();
        node.wait_until_ready();
        owner.wait_until_running();
        teams.assert_usable_by(&lost, &[Who::Secret]);
        teams.assert_stranger_is_refused(&lost);

        // It dies after the image has arrived, and before that is recorded.
        die_before_the_record(&teams, &mut node, &arrived);
        assert_eq!(intents(world), [arrived.reference.as_str()]);
        node.kubelet.start_again();
        node.wait_until_ready();
        teams.assert_usable_by(&arrived, &[]);
        assert!(recorded_ids(&records(world)).contains(&arrived.id.as_str()));
        teams.assert_stranger_is_refused(&arrived);
        teams.pod(Who::Secret, &arrived).create().wait_until_running();
        teams.assert_usable_by(&arrived, &[Who::Secret]);
    }
}

pub(crate) fn a_keyfob_killed_during_a_pull_lets_nobody_in_without_proof(world: &mut World) {
    let teams = Teams::start(world);
    let runtime = Runtime::Containerd21;
    let procedure = Procedure::install(world, runtime);
    let app = teams.registry.push("team/app:v1");
    let mut node = Node::start(world, &teams.node(runtime));
    world.run_documented(procedure.command("kubectl get secret"));
    node.kubelet.stop();
    let kill_pull = || {
        teams.registry.hold("/blobs/");
        let mut keyfob = start_pull(world, &app);
        teams.registry.wait_until_held();
        keyfob.kill().unwrap();
        keyfob.wait().unwrap();
        teams.registry.release();
        let abandoned = json!([{"image": app.reference, "state": "abandoned"}]);
        assert_eq!(records(world)["intents"], abandoned);
    };

    // The same command goes on where the killed one was.
    kill_pull();
    world.run_documented(procedure.command("keyfob pull"));
    assert_eq!(records(world)["intents"], json!([]));
    procedure.import(world);
    node.kubelet.start_again();
    node.wait_until_ready();
    teams.assert_usable_by(&app, &[Who::Secret]);
    drop(node);

    // Or the image comes to the node in another way, while the trace of the killed pull is there.
    let procedure = Procedure::install(world, runtime);
    let mut node = Node::start(world, &teams.node(runtime));
    world.run_documented(procedure.command("kubectl get secret"));
    node.kubelet.stop();
    kill_pull();
    node.containerd.ctr(&["images", "pull", "--user", "ada:hunter2", &app.reference]);
    node.kubelet.start_again();
    node.wait_until_ready();
    teams.assert_usable_by(&app, &[]);
    teams.assert_stranger_is_refused(&app);
    teams.pod(Who::Secret, &app).create().wait_until_running();
    teams.assert_usable_by(&app, &[Who::Secret]);
}

/// A kubelet died with an image that has no record. If the tag stands for another image by now, and that is imported before the
/// kubelet has looked what came of its pull, the first image is found by its digest only: `keyfob pull` must not go first.
pub(crate) fn a_pull_that_a_kubelet_did_not_finish_is_left_to_the_kubelet(world: &mut World) {
    let teams = Teams::start(world);
    let runtime = Runtime::Containerd21;
    let procedure = Procedure::install(world, runtime);
    let first = teams.registry.push_sized("team/app:v1", 1000);
    let mut node = Node::start(world, &teams.node(runtime));
    world.run_documented(procedure.command("kubectl get secret"));
    die_before_the_record(&teams, &mut node, &first);
    let second = teams.registry.push_sized("team/app:v1", 1000);

    let (visits, pull) = (teams.registry.visits().len(), procedure.command("keyfob pull"));
    let refused = world.try_documented(pull);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("the kubelet of /var/lib/kubelet did not finish"), "{stderr}");
    assert!(stderr.contains("start the kubelet, which looks into it"), "{stderr}");
    assert_eq!(
        (intents(world), teams.registry.visits().len()),
        (vec![first.reference.clone()], visits)
    );

    start_and_stop(&mut node);
    world.run_documented(pull);
    procedure.import(world);
    node.kubelet.start_again();
    node.wait_until_ready();
    let reference = format!("registry.example/team/app@{}", first.digest);
    teams.assert_usable_by(&second, &[Who::Secret]);
    teams.assert_usable_by(&Pushed { reference, ..first }, &[]);

    // If no image came, the kubelet leaves the trace of its pull; it does not stand in the way for ever.
    let lost = teams.registry.push("team/lost:v1");
    teams.registry.hold("/blobs/");
    let owner = teams.pod(Who::Secret, &lost).create();
    teams.registry.wait_until_held();
    node.kubelet.kill();
    owner.delete_at_once();
    teams.registry.release();
    let pull = pull.replace("team/app:v1", "team/lost:v1");
    assert_eq!(world.try_documented(&pull).status.code(), Some(4));
    start_and_stop(&mut node);
    assert_eq!(intents(world), [lost.reference.as_str()]);
    world.run_documented(&pull);
    assert_eq!(intents(world), [""; 0]);
}

/// Pulls an image for a pod with the secret and kills the kubelet before it has recorded that; then the pod is deleted.
fn die_before_the_record(teams: &Teams, node: &mut Node, image: &Pushed) {
    teams.registry.hold("/blobs/");
    let owner = teams.pod(Who::Secret, image).create();
    teams.registry.wait_until_held();
    run("kill", &["-STOP", &node.kubelet.pid().to_string()]);
    teams.registry.release();
    wait_until_present(node, image);
    node.kubelet.kill();
    owner.delete_at_once();
}

/// Starts the kubelet until it is ready for pods.
fn start_and_stop(node: &mut Node) {
    let started = || {
        fs::metadata("/var/lib/kubelet/device-plugins/kubelet.sock")
            .and_then(|socket| socket.modified())
    };
    let before = started().unwrap();
    node.kubelet.start_again();
    node.kubelet.wait_until("the kubelet is ready for device plugins", || match started() {
        Ok(time) if time > before => Ok(()),
        time => Err(format!("{time:?}")),
    });
    node.kubelet.stop();
}

/// The documented pull, in the background.
fn start_pull(world: &World, image: &Pushed) -> Child {
    let args = ["pull", "--quiet", &image.reference, "./oci", "--records-dir", KUBELET];
    let mut keyfob = world.keyfob(&args);
    keyfob.args(["--pull-secret", "regcred.yaml"]).current_dir(world.checkout());
    keyfob.spawn().unwrap()
}

/// The images of pulls that have not ended.
fn intents(world: &World) -> Vec<String> {
    let listed = records(world);
    let intents = listed["intents"].as_array().unwrap().iter();
    intents.map(|intent| intent["image"].as_str().unwrap().to_owned()).collect()
}

fn wait_until_present(node: &Node, image: &Pushed) {
    wait_for("containerd to have the image", Duration::from_secs(30), || {
        let images = node.containerd.ctr(&["images", "list", "--quiet"]);
        let is_present = images.lines().any(|name| name == image.id);
        if is_present { Ok(()) } else { Err(images) }
    });
}
