//! `keyfob records` as its users see it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and so do its helpers"
)]

#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod node;
#[path = "support/registry.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod registry;

use std::{
    fs,
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::SystemTime,
};

use aws_lc_rs::digest::{SHA256, digest};
use node::{Said, keyfob, program};
use registry::{Served, layer};
use serde_json::{Value, json};
use tempfile::TempDir;

const OLD: &str = "2024-05-06T07:08:09Z";

/// A kubelet's root directory.
struct Root(TempDir);

impl Root {
    fn new() -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        for kind in ["pulling", "pulled"] {
            fs::create_dir_all(root.path().join("image_manager").join(kind)).unwrap();
        }
        root
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file as a kubelet writes it.
    fn write(&self, kind: &str, subject: &str, content: &Value) -> PathBuf {
        let hash = digest(&SHA256, subject.as_bytes());
        let two_digits = |byte: &u8| format!("{byte:02x}");
        let hex: String = hash.as_ref().iter().map(two_digits).collect();
        let path = self.path().join("image_manager").join(kind).join(format!("sha256-{hex}"));
        fs::write(&path, format!("{content}\n")).unwrap();
        path
    }

    fn record(&self, id: &str, mapping: &Value) {
        let record = json!({
            "kind": "ImagePulledRecord", "apiVersion": "kubelet.config.k8s.io/v1beta1", "lastUpdatedTime": OLD,
            "imageRef": id, "credentialMapping": mapping,
        });
        self.write("pulled", id, &record);
    }

    fn intent(&self, image: &str) {
        let intent = json!({
            "kind": "ImagePullIntent", "apiVersion": "kubelet.config.k8s.io/v1beta1", "image": image,
        });
        self.write("pulling", image, &intent);
    }

    fn run(&self, command: &str, args: &[&str]) -> Said {
        let root = self.path().to_str().unwrap();
        keyfob(&[&["records", command, "--records-dir", root], args].concat())
    }

    /// The same with something on stdin.
    fn run_with(&self, command: &str, args: &[&str], stdin: &str) -> Said {
        let mut started = program();
        started.args(["records", command, "--records-dir"]).arg(self.path()).args(args);
        started.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = started.spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }
}

fn id(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

fn with_three() -> Root {
    let root = Root::new();
    root.record(&id('a'), &json!({"nginx": {"nodePodsAccessible": true}}));
    let secret =
        json!({"uid": "u1", "namespace": "team", "name": "pull", "credentialHash": "c0ffee"});
    let account = json!({"uid": "u2", "namespace": "shop", "name": "cart"});
    let access = json!({"kubernetesSecrets": [secret], "kubernetesServiceAccounts": [account]});
    root.record(&id('b'), &json!({"r.example/app": access}));
    root.record(&id('c'), &json!({}));
    root.intent("r.example/next:v1");
    root
}

#[test]
fn a_list_tells_who_may_use_what() {
    let root = with_three();

    let said = root.run("list", &[]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let mut lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].starts_with("IMAGE ID  "), "{}", said.stdout);
    assert!(lines[0].ends_with("  SINCE"), "{}", said.stdout);
    lines[1..4].sort_unstable();
    let cells = |line: &str| {
        line.split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(cells(lines[1]), ["sha256:aaaaaaaaaaaa", "nginx", "every pod of the node", OLD]);
    let who = "pods with the pull secret team/pull, pods of the service account shop/cart";
    assert_eq!(cells(lines[2]), ["sha256:bbbbbbbbbbbb", "r.example/app", who, OLD]);
    assert_eq!(cells(lines[3]), ["sha256:cccccccccccc", "-", "nobody yet", OLD]);
    assert_eq!(
        cells(lines[4]),
        [
            "-",
            "r.example/next:v1",
            "a pull ended halfway; the next pull or start of the kubelet looks into it"
        ]
    );
    assert_eq!(lines.len(), 5);
}

#[test]
fn json_is_the_documented_object() {
    let root = with_three();

    let said = root.run("list", &["-o", "json"]);

    let mut json = said.json();
    json["records"].as_array_mut().unwrap().sort_by_key(|record| record["imageId"].to_string());
    let nginx =
        json!({"name": "nginx", "everyPod": true, "pullSecrets": [], "serviceAccounts": []});
    let app = json!({
        "name": "r.example/app", "everyPod": false,
        "pullSecrets": [{"namespace": "team", "name": "pull", "uid": "u1"}],
        "serviceAccounts": [{"namespace": "shop", "name": "cart", "uid": "u2"}],
    });
    let expected = json!({
        "records": [
            {"imageId": id('a'), "lastUpdated": OLD, "names": [nginx]},
            {"imageId": id('b'), "lastUpdated": OLD, "names": [app]},
            {"imageId": id('c'), "lastUpdated": OLD, "names": []},
        ],
        "intents": [{"image": "r.example/next:v1", "state": "abandoned"}],
        "errors": [],
    });
    assert_eq!((said.code, json), (0, expected));
    assert!(!said.stdout.contains("c0ffee"), "the hash of a credential");
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_too() {
    let root = with_three();
    let broken = root.write("pulled", "whatever", &json!({"kind": "hunter2"}));

    let said = root.run("list", &[]);

    assert_eq!(said.code, 1);
    assert!(
        said.stderr.starts_with(&format!("keyfob: {} is no ", broken.display())),
        "{}",
        said.stderr
    );
    assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
    assert_eq!(said.stdout.lines().count(), 5, "{}", said.stdout);
    let json = root.run("list", &["-o", "json"]);
    assert_eq!((json.code, json.stderr.as_str()), (1, ""));
    assert_eq!(json.json()["errors"].as_array().unwrap().len(), 1);
}

#[test]
fn where_there_are_no_records_none_are_made() {
    let empty = tempfile::tempdir().unwrap();
    let root = empty.path().to_str().unwrap();
    for args in [["list", root], ["prune", root]] {
        let said = keyfob(&[&["records"], &args[..]].concat());
        assert_eq!((said.code, said.stdout.as_str()), (3, ""), "{}", said.stderr);
        assert!(said.stderr.contains(&format!("no records in {root}: ")), "{}", said.stderr);
    }
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
}

/// What was forgotten, kept, and neither.
fn pruned(said: &Said) -> [Vec<Value>; 3] {
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{}", said.stdout);
    ["forgotten", "kept", "stayed"].map(|name| {
        let mut ids = said.json()[name].as_array().unwrap().clone();
        ids.sort_by_key(Value::to_string);
        ids
    })
}

#[test]
fn images_that_are_gone_are_forgotten() {
    let root = with_three();
    // Of one the algorithm is left out, as some container runtimes do.
    let list = format!("{}\n\n  {}\n", id('a'), "d".repeat(64));

    let said = root.run_with(
        "prune",
        &["--present", "-", "--image-id", &"c".repeat(64), "-o", "json"],
        &list,
    );

    assert_eq!(pruned(&said), [vec![json!(id('b'))], vec![json!(id('a')), json!(id('c'))], vec![]]);
    let again = root.run("prune", &["--image-id", &id('a')]);
    assert_eq!(again.stdout, format!("forgotten  {}\nkept       {}\n", id('c'), id('a')));
    assert_eq!(root.run("list", &["-o", "json"]).json()["intents"].as_array().unwrap().len(), 1);
}

#[test]
fn nothing_is_forgotten_by_a_list_that_is_none() {
    let root = with_three();
    let refused = |args: &[&str], stdin: &str, words: &str| {
        let said = root.run_with("prune", args, stdin);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(words), "{args:?}: {}", said.stderr);
    };
    refused(&[], "", "which images are there? Name the layout, or give --present FILE");
    refused(&["--present", "-"], "\n", "the list of images is empty");
    refused(&["--present", "-"], "aaaaaaaaaaaa\n", "aaaaaaaaaaaa is no image id");
    refused(&["--present", "/no/such"], "", "cannot read the list /no/such");
    refused(&["/no/such/layout"], "", "the images that are there cannot be listed");
    assert_eq!(root.run("list", &["-o", "json"]).json()["records"].as_array().unwrap().len(), 3);
}

#[test]
fn the_images_of_a_layout_are_looked_up() {
    let served = Served::open();
    let pushed = served.push("app", "v1", &[layer(1, 1000)]);
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("oci");
    let layout = layout.to_str().unwrap();
    let said = keyfob(&["pull", &served.image("app:v1"), layout, "-q"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = keyfob(&["records", "list", layout, "-o", "json"]);
    assert_eq!(said.json()["records"][0]["imageId"], json!(pushed.configs[0]));

    let root = Root::new();
    root.record(&pushed.configs[0], &json!({"a": {"nodePodsAccessible": true}}));
    root.record(&id('a'), &json!({}));
    let said = root.run("prune", &[layout, "-o", "json"]);
    assert_eq!(pruned(&said), [vec![json!(id('a'))], vec![json!(pushed.configs[0])], vec![]]);

    fs::write(Path::new(layout).join("index.json"), r#"{"schemaVersion":2,"manifests":[]}"#)
        .unwrap();
    let said = root.run("prune", &[layout, "-o", "json"]);
    assert_eq!(pruned(&said), [vec![json!(pushed.configs[0])], vec![], vec![]]);
}

#[test]
fn help_tells_the_exit_codes() {
    for command in ["list", "prune"] {
        let said = keyfob(&["records", command, "--help"]);
        assert!(said.stdout.contains("Exit codes: 0 "), "{}", said.stdout);
    }
}

/// Every file and directory, with what it holds and when it changed.
fn state(root: &Path) -> Vec<(PathBuf, SystemTime, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, metadata) = (entry.path(), entry.metadata().unwrap());
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            let content = fs::read(&path).unwrap_or_default();
            found.push((path, metadata.modified().unwrap(), content));
        }
    }
    found.sort();
    found
}

fn permit(root: &Path, directories: u32) {
    for path in ["image_manager/pulling", "image_manager/pulled", "image_manager", ""] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(directories)).unwrap();
    }
}

#[test]
fn a_list_creates_nothing_and_needs_no_right_to_write() {
    let root = with_three();
    let old = json!({
        "kind": "ImagePulledRecord", "apiVersion": "kubelet.config.k8s.io/v1alpha1", "lastUpdatedTime": OLD,
        "imageRef": id('d'), "credentialMapping": {"old.example/app": {"nodePodsAccessible": true}},
    });
    root.write("pulled", &id('d'), &old);
    permit(root.path(), 0o555);
    let before = state(root.path());

    let said = root.run("list", &["-o", "json"]);

    permit(root.path(), 0o755);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(said.json()["records"].as_array().unwrap().len(), 4);
    assert!(said.stdout.contains("old.example/app"), "{}", said.stdout);
    assert_eq!(said.json()["intents"][0]["state"], json!("abandoned"));
    assert_eq!(state(root.path()), before);
}

#[test]
fn a_pull_of_a_kubelet_that_runs_is_not_called_abandoned() {
    let root = with_three();
    fs::create_dir(root.path().join("pod-resources")).unwrap();
    let listener = UnixListener::bind(root.path().join("pod-resources/kubelet.sock")).unwrap();
    let state = || root.run("list", &["-o", "json"]).json()["intents"][0]["state"].clone();

    assert_eq!(state(), json!("pulling"));

    drop(listener);
    assert_eq!(state(), json!("abandoned"));
}

#[test]
fn nothing_is_forgotten_beside_a_kubelet_that_runs() {
    let root = with_three();
    fs::create_dir(root.path().join("pod-resources")).unwrap();
    let _listener = UnixListener::bind(root.path().join("pod-resources/kubelet.sock")).unwrap();
    let before = state(root.path());
    let present = id('a');

    let said = root.run("prune", &["--image-id", &present]);

    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(
        said.stderr.contains("nothing was forgotten: stop the kubelet first"),
        "{}",
        said.stderr
    );
    assert_eq!(state(root.path()), before);
    assert_eq!(root.run("list", &[]).code, 0, "looking does no harm");
    let said = root.run("prune", &["--image-id", &present, "--beside-running-kubelet"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_ne!(state(root.path()), before);
}
