//! The kubelet's scheduled image garbage collection, and what becomes of records.
//!
//! It runs when the kubelet starts, and then every five minutes, which no setting changes. So both scenarios show the first collection.
//!
//! Upstream: `StartGarbageCollection` and `ImageGCPeriod` in `pkg/kubelet/kubelet.go`; `GarbageCollect`, `freeOldImages` and `freeSpace` in
//! `pkg/kubelet/images/image_gc_manager.go`, of which only the path over the high threshold calls the hook that deletes records
//! (`PruneUnknownRecords`), with the images that it looked at and left.

use std::{path::Path, time::Duration};

use serde_json::json;

use crate::{
    containerd::Runtime,
    image_service::HeldImageService,
    node::{KUBELET, NODE, Node, NodeOptions},
    pod::delete_when_running,
    record_garbage::{recorded, sorted},
    records::snapshot,
    registry::Pushed,
    teams::{Teams, Who, recorded_ids, wait_for_records},
    wait::wait_for,
    world::World,
};

pub(crate) fn images_that_are_removed_for_their_age_keep_their_records(world: &mut World) {
    let teams = Teams::start(world);
    let [used, unused] = ["team/used:v1", "team/unused:v1"].map(|name| teams.registry.push(name));
    let runtime = Runtime::Containerd21;
    let mut node = Node::start(world, &teams.node(runtime));
    bring(&teams, &node, &used, &[&unused]);
    node.kubelet.stop();
    let directory = Path::new(KUBELET).join("image_manager");
    let before = snapshot(&directory);

    let age = |options: NodeOptions| {
        let options = options.config("imageMinimumGCAge", json!("1ns"));
        options.config("imageMaximumGCAge", json!("2ns"))
    };
    node.start_kubelet(&age(teams.node(runtime)));
    node.wait_until_ready();
    wait_for("the image that nobody uses to be removed", Duration::from_secs(30), || {
        let images = present(&node, &[&used, &unused]);
        if images == sorted(&[&used]) { Ok(()) } else { Err(format!("{images:?}")) }
    });
    assert_eq!(removed(&node, "age"), 1);
    assert_eq!(snapshot(&directory), before);
    assert_eq!(recorded(world), sorted(&[&used, &unused]));

    // If the image comes back, whoever had proved access to it may use it, and nobody else.
    node.containerd.ctr(&["images", "pull", "--user", "ada:hunter2", &unused.reference]);
    teams.assert_all_usable_by(&[(&unused, &[Who::Secret]), (&used, &[Who::Secret])]);
}

pub(crate) fn above_the_threshold_the_kubelet_forgets_images_that_it_leaves(world: &mut World) {
    let teams = Teams::start(world);
    let used = teams.registry.push("team/used:v1");
    // They share a layer, whose size counts for each of them: some of them are enough.
    let unused: [_; 8] =
        std::array::from_fn(|number| teams.registry.push(&format!("team/unused-{number}:v1")));
    let unused = unused.each_ref();
    let all: Vec<_> = unused.into_iter().chain([&used]).collect();
    let runtime = Runtime::Containerd21;
    let mut node = Node::start(world, &teams.node(runtime));
    bring(&teams, &node, &used, &unused);
    node.kubelet.stop();
    assert_eq!(recorded(world), sorted(&all));

    // The first collection comes too early for statistics of disks. So the request for them, which it makes next, has to wait.
    let images = HeldImageService::start();
    node.start_kubelet(&above_the_high_threshold(teams.node(runtime)));
    node.wait_until_ready();
    let statistics = format!("/api/v1/nodes/{NODE}/proxy/metrics/cadvisor");
    wait_for("statistics of disks", Duration::from_secs(30), || {
        let metrics = world.cluster.api.text(&statistics).map_err(|refusal| refusal.message)?;
        if metrics.contains("container_fs_limit_bytes{") { Ok(()) } else { Err(metrics) }
    });
    images.release();
    let listed =
        wait_for_records(world, "all records to go", |listed| recorded_ids(listed).is_empty());
    assert_eq!(listed["intents"], json!([]));

    let reason =
        "\"Disk usage on image filesystem is over the high threshold, trying to free bytes";
    assert_eq!(node.kubelet.messages(reason).len(), 1);
    let left = present(&node, &all);
    assert_eq!(removed(&node, "space"), all.len() - left.len());
    let left: Vec<_> = unused.into_iter().filter(|image| left.contains(&image.id)).collect();
    assert!((1..unused.len()).contains(&left.len()), "of those that nobody uses: {left:?}");
    // Every pod may use what is left.
    let everybody: &[_] = &[Who::Secret, Who::Account, Who::Stranger];
    teams.assert_all_usable_by(&[(&used, everybody), (left[0], everybody)]);
}

/// Any disk that is not empty is above the threshold, and everything that is on it shall go.
fn above_the_high_threshold(options: NodeOptions) -> NodeOptions {
    options
        .config("imageGCHighThresholdPercent", json!(1))
        .config("imageGCLowThresholdPercent", json!(0))
        // Without it, the kubelet does not look at disks.
        .config("localStorageCapacityIsolation", json!(true))
        .config("imageServiceEndpoint", json!(HeldImageService::endpoint()))
        // In the configuration, 0 stands for two minutes.
        .flags(&["--minimum-image-ttl-duration=0s"])
}

/// Has all images pulled for pods of the shop, of which only the first goes on.
fn bring(teams: &Teams, node: &Node, used: &Pushed, unused: &[&Pushed]) {
    let create = |image: &Pushed| teams.pod(Who::Secret, image).create();
    let (stays, others) = (create(used), unused.iter().map(|image| create(image)));
    let others = others.collect();
    stays.wait_until_running();
    delete_when_running(others);
    wait_for("the containers of the deleted pods to be removed", Duration::from_secs(30), || {
        let containers = node.containerd.ctr(&["containers", "list"]);
        let are_left = unused.iter().any(|image| containers.contains(&image.reference));
        if are_left { Err(containers) } else { Ok(()) }
    });
}

/// The IDs of those of these images that containerd has, sorted.
fn present(node: &Node, images: &[&Pushed]) -> Vec<String> {
    let names = node.containerd.ctr(&["images", "list", "--quiet"]);
    let is_present = |image: &&Pushed| names.lines().any(|name| name == image.id);
    sorted(&images.iter().copied().filter(is_present).collect::<Vec<_>>())
}

/// How many images the kubelet has removed for this reason.
fn removed(node: &Node, reason: &str) -> usize {
    let metric = format!("kubelet_image_garbage_collected_total{{reason=\"{reason}\"}} ");
    let metrics = node.metrics();
    let value = metrics.lines().find_map(|line| line.strip_prefix(&metric));
    value.map_or(0, |value| value.parse().unwrap())
}
