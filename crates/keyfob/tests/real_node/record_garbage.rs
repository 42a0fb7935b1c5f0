//! Records of images that are gone: `keyfob records prune` and the kubelet's own garbage collection, with the IDs of real images.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    containerd::Runtime,
    documented::Page,
    node::{KUBELET, Node, NodeOptions},
    pod::delete_when_running,
    record_procedure::{Procedure, always_verify},
    records::snapshot,
    registry::Pushed,
    teams::{Teams, Who, recorded_ids, records, wait_for_records},
    world::World,
};

pub(crate) fn prune_forgets_the_images_that_containerd_has_no_more(world: &mut World) {
    let teams = Teams::start(world);
    let [kept, gone] = ["team/kept:v1", "team/gone:v1"].map(|name| teams.registry.push(name));
    let page = Page::read("docs/pull.md");
    let prune = page.command(&["keyfob records prune", "--records-dir /var/lib/kubelet"]);
    for runtime in Runtime::ALL {
        Procedure::install(world, runtime);
        let mut node = Node::start(world, &teams.node(runtime));
        let pods = [&kept, &gone].map(|image| teams.pod(Who::Secret, image).create());
        delete_when_running(pods.into());
        remove(&node, &gone);
        assert_eq!(recorded(world), sorted(&[&kept, &gone]));

        let directory = Path::new(KUBELET).join("image_manager");
        let before = snapshot(&directory);
        let refused = world.try_documented(&prune);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert_eq!(snapshot(&directory), before);

        node.kubelet.stop();
        let printed = world.run_documented(&prune);
        assert_eq!(printed, format!("forgotten  {}\nkept       {}\n", gone.id, kept.id));
        assert_eq!(recorded(world), sorted(&[&kept]));
        node.kubelet.start_again();
        node.wait_until_ready();
        teams.assert_usable_by(&kept, &[Who::Secret]);
        teams.assert_stranger_is_refused(&gone);
    }
}

pub(crate) fn under_disk_pressure_the_kubelet_forgets_who_may_use_an_image(world: &mut World) {
    let teams = Teams::start(world);
    let runtime = Runtime::Containerd21;
    let push = |name: &str| teams.registry.push(name);
    let [used, unused, app] = ["team/used:v1", "team/unused:v1", "team/app:v1"].map(push);
    let procedure = Procedure::install(world, runtime);
    let mut node = Node::start(world, &teams.node(runtime));
    world.run_documented(procedure.command("kubectl get secret"));
    // The kubelet may not end this pod to get space.
    let critical = |manifest: &mut Value| {
        manifest["spec"]["priorityClassName"] = json!("system-node-critical");
    };
    teams.pod(Who::Secret, &used).with(critical).create().wait_until_running();
    let pod = teams.pod(Who::Secret, &unused).create();
    pod.wait_until_running();
    pod.delete();
    node.kubelet.stop();
    world.run_documented(procedure.command("keyfob pull"));
    assert_eq!(recorded(world), sorted(&[&used, &unused, &app]));

    // The image that was just pulled is not imported yet.
    node.start_kubelet(&under_pressure(teams.node(runtime)));
    node.wait_until_ready();
    wait_for_records(world, "all records to go", |listed| recorded_ids(listed).is_empty());
    let images = node.containerd.ctr(&["images", "list", "--quiet"]);
    assert!(images.contains(&used.id) && !images.contains(&unused.id), "{images}");

    node.kubelet.stop();
    node.start_kubelet(&teams.node(runtime));
    node.wait_until_ready();
    procedure.import(world);
    let everybody: &[_] = &[Who::Secret, Who::Account, Who::Stranger];
    teams.assert_all_usable_by(&[(&app, everybody), (&used, everybody)]);
    node.kubelet.stop();
    node.start_kubelet(&always_verify(teams.node(runtime)));
    node.wait_until_ready();
    teams.assert_all_usable_by(&[(&app, &[]), (&used, &[])]);
}

/// No disk has as much space as the kubelet wants, so that it removes the images that no container uses.
fn under_pressure(options: NodeOptions) -> NodeOptions {
    options
        .config("evictionHard", json!({"imagefs.available": "1Ti"}))
        // Without it, the kubelet does not look at disks.
        .config("localStorageCapacityIsolation", json!(true))
        .config("imageMinimumGCAge", json!("1ns"))
}

/// Removes an image under all its names.
fn remove(node: &Node, image: &Pushed) {
    let names = node.containerd.ctr(&["images", "list", "--quiet"]);
    let (repository, _) = image.reference.rsplit_once(':').unwrap();
    for name in names.lines().filter(|name| name.starts_with(repository) || *name == image.id) {
        node.containerd.ctr(&["images", "remove", "--sync", name]);
    }
}

/// The IDs of all images with a record, sorted.
pub(crate) fn recorded(world: &World) -> Vec<String> {
    let listed: Value = records(world);
    let mut ids: Vec<_> = recorded_ids(&listed).into_iter().map(str::to_owned).collect();
    ids.sort();
    ids
}

/// The IDs of images, sorted.
pub(crate) fn sorted(images: &[&Pushed]) -> Vec<String> {
    let mut ids: Vec<_> = images.iter().map(|image| image.id.clone()).collect();
    ids.sort();
    ids
}
