//! What is pulled can be used.

use crate::{
    docker_registry::{PASSWORD, Registry, USER, run},
    is_wanted, login,
    node::Node,
};

#[test]
fn skopeo_and_podman_read_what_was_pulled() {
    if !is_wanted() {
        return;
    }
    let registry = Registry::start();
    let digest = registry.push("team/app:v1", Some(&login()), &[100_000, 10]);
    let other = registry.push("team/other:v2", Some(&login()), &[20]);
    let address = registry.address.as_str();
    let node = Node::new().answering("plugin", &[address], &[[address, USER, PASSWORD]]);
    // podman takes no path with capital letters.
    let folder = format!("keyfob-{}", fastrand::u64(..));
    let folder = tempfile::Builder::new().prefix(&folder).rand_bytes(0).tempdir().unwrap();
    let dest = folder.path().to_str().unwrap();
    for name in ["team/app:v1", "team/other:v2"] {
        let said = node.run("pull", &[&format!("{address}/{name}"), dest]);
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    }

    for (name, digest) in [("team/app:v1", &digest), ("team/other:v2", &other)] {
        let pulled = format!("oci:{dest}:{address}/{name}");
        let inspected = run("skopeo", &["inspect", "--format", "{{.Digest}}", &pulled]);
        let inspected = String::from_utf8(inspected.stdout).unwrap();
        assert_eq!(inspected.trim(), digest, "{name}");
        let copy = node.path("copy");
        let copied =
            run("skopeo", &["copy", "--quiet", &pulled, &format!("dir:{}", copy.display())]);
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    }
    let store = node.path("store");
    let (root, runs) = (store.join("root"), store.join("run"));
    let [root, runs] = [&root, &runs].map(|path| path.to_str().unwrap());
    let podman = ["--root", root, "--runroot", runs, "--storage-driver", "vfs"];
    let image = format!("oci:{dest}:{address}/team/app:v1");
    let loaded = run("podman", &[&podman[..], &["pull", "--quiet", &image]].concat());
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
}
