//! Who may use the images of a node (KEP-2535): the kubelet's policies, its records as `keyfob records list` shows them, and
//! records that `keyfob pull` writes for it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    containerd::Runtime,
    node::{KUBELET, Node},
    pod::Pod,
    registry::Pushed,
    teams::{SHOP, Teams, Who, records},
    world::World,
};

pub(crate) const POLICY: &str = "imagePullCredentialsVerificationPolicy";

/// Which images each policy keeps from the other team: those by secret, by account, preloaded and on the list.
const POLICIES: [(&str, [bool; 4]); 4] = [
    ("NeverVerify", [false; 4]),
    ("NeverVerifyPreloadedImages", [true, true, false, false]),
    ("NeverVerifyAllowlistedImages", [true, true, true, false]),
    ("AlwaysVerify", [true; 4]),
];

/// Images that came to the node in different ways.
struct Images {
    by_secret: Pushed,
    by_account: Pushed,
    by_node: Pushed,
    preloaded: Pushed,
    allowlisted: Pushed,
}

pub(crate) fn each_policy_verifies_the_images_that_it_names(world: &mut World) {
    let teams = Teams::start(world);
    let push = |name: &str| teams.registry.push(name);
    let images = Images {
        by_secret: push("team/by-secret:v1"),
        by_account: push("team/by-account:v1"),
        by_node: push("node/app:v1"),
        preloaded: push("team/preloaded:v1"),
        allowlisted: push("listed/app:v1"),
    };
    for (runtime, policies) in
        [(Runtime::Containerd21, &POLICIES[..]), (Runtime::Containerd16, &POLICIES[1..2])]
    {
        let options = teams.node(runtime);
        let mut node = Node::start(world, &options);
        let pods = bring(&teams, &node, &images);
        assert_list_reads_only(world, &teams, &images);
        for (policy, kept) in policies {
            let mut options = options.clone().config(POLICY, json!(policy));
            if *policy == "NeverVerifyAllowlistedImages" {
                let list = json!(["registry.example/listed/*"]);
                options = options.config("preloadedImagesVerificationAllowlist", list);
            }
            node.kubelet.stop();
            node.start_kubelet(&options);
            node.wait_until_ready();
            let Images { by_secret, by_account, by_node, preloaded, allowlisted } = &images;
            let strangers = [by_secret, by_account, preloaded, allowlisted, by_node];
            let others =
                [(Who::Secret, by_secret), (Who::Account, by_account), (Who::Account, by_node)];
            let cases: Vec<_> =
                strangers.map(|image| (Who::Stranger, image)).into_iter().chain(others).collect();
            let expected: Vec<_> = kept.iter().map(|kept| !kept).chain([true; 4]).collect();
            assert_eq!(teams.may_use(&cases), expected, "{policy} with {runtime:?}");
        }
        // Containers go on running while the kubelet is stopped.
        for pod in pods {
            assert_eq!(pod.get()["status"]["containerStatuses"][0]["restartCount"], 0);
        }
    }
}

/// Brings the images to the node: three by pods, of which one with the node's own login, and two past the kubelet.
fn bring(teams: &Teams, node: &Node, images: &Images) -> [Pod; 3] {
    let login =
        json!({"auths": {"registry.example/node": {"username": "node", "password": "own"}}});
    fs::write(format!("{KUBELET}/config.json"), login.to_string()).unwrap();
    let pods = [
        teams.pod(Who::Secret, &images.by_secret).create(),
        teams.pod(Who::Account, &images.by_account).create(),
        teams.pod(Who::Stranger, &images.by_node).create(),
    ];
    for image in [&images.preloaded, &images.allowlisted] {
        node.containerd.ctr(&["images", "pull", "--user", "ada:hunter2", &image.reference]);
    }
    for pod in &pods {
        pod.wait_until_running();
    }
    pods
}

/// `keyfob records list` shows the kubelet's records, and changes nothing.
fn assert_list_reads_only(world: &World, teams: &Teams, images: &Images) {
    let before = snapshot(Path::new(KUBELET).join("image_manager").as_path());
    assert!(before.len() >= 5, "two directories and three records: {before:#?}");
    let mut listed = records(world);
    assert_eq!(snapshot(&Path::new(KUBELET).join("image_manager")), before);
    for record in listed["records"].as_array_mut().unwrap() {
        assert!(record["lastUpdated"].take().is_string(), "{record}");
    }
    let object =
        |path: &str, name: &str| json!({"namespace": SHOP, "name": name, "uid": teams.uid(path)});
    let record = |image: &Pushed, every_pod: bool, secrets: Value, accounts: Value| {
        let (name, _) = image.reference.rsplit_once(':').unwrap();
        json!({"imageId": image.id, "lastUpdated": null, "names": [
            {"name": name, "everyPod": every_pod, "pullSecrets": secrets, "serviceAccounts": accounts},
        ]})
    };
    let mut expected = vec![
        record(&images.by_secret, false, json!([object("secrets/regcred", "regcred")]), json!([])),
        record(
            &images.by_account,
            false,
            json!([]),
            json!([object("serviceaccounts/cart", "cart")]),
        ),
        record(&images.by_node, true, json!([]), json!([])),
    ];
    expected.sort_by_key(|record| record["imageId"].to_string());
    let mut found = listed["records"].as_array().unwrap().clone();
    found.sort_by_key(|record| record["imageId"].to_string());
    assert_eq!(found, expected);
    assert_eq!(listed["intents"], json!([]));
    assert_eq!(listed["errors"], json!([]));
}

/// Everything in a directory: times, and contents of files.
pub(crate) fn snapshot(directory: &Path) -> BTreeMap<PathBuf, (i64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let metadata = fs::metadata(directory).unwrap();
    found.insert(directory.to_owned(), (metadata.mtime(), metadata.mtime_nsec(), Vec::new()));
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(snapshot(&path));
        } else {
            let metadata = fs::metadata(&path).unwrap();
            found.insert(
                path.clone(),
                (metadata.mtime(), metadata.mtime_nsec(), fs::read(&path).unwrap()),
            );
        }
    }
    found
}
