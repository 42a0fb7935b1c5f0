//! The agent as a `DaemonSet`: the manifests of `deploy/agent` with an image of this keyfob, and the real controller.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{fs::symlink, net::UnixStream},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{
    agent::http_get,
    containerd::Runtime,
    documented::Page,
    image::Image,
    node::{NODE, Node, NodeOptions},
    pod::Pod,
    process::Process,
    registry::Pushed,
    shell::{run, stdout, succeed},
    systemd::write,
    wait::wait_for,
    world::World,
};

const HOST: &str = "registry.example.com";
const PASSWORD: &str = "hunter2-correct-horse";
const AUDIENCE: &str = "registry.example.com";
/// As in the manifests.
const NAMESPACE: &str = "keyfob-agent";
const SOCKET: &str = "/run/keyfob/agent.sock";
const PLUGINS: &str = "/usr/local/lib/keyfob-plugins";
const AGENT_IMAGE: &str = "docker.io/library/keyfob:0.1.0";
/// The same with a shell, for pods that ask.
const CLIENT_IMAGE: &str = "docker.io/library/client:0.1.0";
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) fn a_pod_gets_from_the_daemon_set_what_its_own_identity_permits(world: &mut World) {
    let (_node, _cluster) = start(world);
    world.cluster.create_service_account(&world.namespace, "cart", &[]);
    let other = "strangers";
    world.cluster.create_namespace(other);
    world.cluster.create_service_account(other, "cart", &[]);
    let ask = |name: &str, namespace: &str, account: &str| {
        let pod =
            world.pod(name, &imported()).in_namespace(namespace).service_account(account).with(
                |pod| client(pod, &format!("{}; echo exit $?", get("-o json --show-secrets"))),
            );
        printed(world, &pod.create())
    };

    let allowed = ask("cart", &world.namespace, "cart");
    let (answer, exit) = allowed.rsplit_once("exit ").unwrap();
    assert_eq!(exit, "0\n", "{allowed}");
    let answer = &answer[answer.find('{').unwrap()..=answer.rfind('}').unwrap()];
    let answer: Value = serde_json::from_str(answer).unwrap();
    let credentials = answer["credentials"].as_array().unwrap();
    assert_eq!(credentials.len(), 1, "the provider with the login of the node is not asked");
    let token = credentials[0]["password"].as_str().unwrap();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let subject = format!("system:serviceaccount:{}:cart", world.namespace);
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!(subject), &json!([AUDIENCE])));
    assert_eq!(claims["kubernetes.io"]["pod"]["name"], "cart", "bound to the pod that asks");

    for (name, namespace, account) in
        [("default", &*world.namespace, "default"), ("cart", other, "cart")]
    {
        let denied = ask(name, namespace, account);
        assert!(!denied.contains(PASSWORD) && denied.ends_with("exit 1\n"), "{denied}");
        let reason = format!(
            "no rule allows {HOST}/team/app to a pod of service account {namespace}/{account}"
        );
        assert!(denied.contains(&reason), "{denied}");
    }
    assert!(
        ask_as_root().unwrap().contains(PASSWORD),
        "root on the node has the login of the node"
    );
}

pub(crate) fn a_rolling_update_of_the_daemon_set_fails_no_request(world: &mut World) {
    let (node, _cluster) = start(world);
    world.cluster.create_service_account(&world.namespace, "cart", &[]);
    let pod = world.pod("shopper", &imported()).service_account("cart").with(|pod| {
        let asks = get("");
        client(
            pod,
            &format!(
                "while {asks} >/tmp/out 2>&1; do echo answered; done; cat /tmp/out; echo failed"
            ),
        );
    });
    let pod = pod.create();
    pod.wait_until_running();
    let answered = || logs(world, &pod).lines().filter(|line| *line == "answered").count();
    wait_for("the pod to be answered", PATIENCE, || match answered() {
        0 => Err(logs(world, &pod)),
        _ => Ok(()),
    });

    let (is_over, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failures: Vec<String> = thread::scope(|scope| {
        let callers = [(); 4].map(|()| scope.spawn(|| failed_request(&is_over, &requests)));
        let prometheus = scope.spawn(|| failed_scrape(&is_over));
        // Also if this panics: the scope waits for the callers.
        let end = End(&is_over);
        for version in ["1", "2", "3"] {
            let (before, asked) = (agents(world), requests.load(Ordering::Relaxed));
            let pod_before = answered();
            update(world, version);
            let after = agents(world);
            assert!(
                before.len() == 1 && after.len() == 1 && before != after,
                "{before:?} {after:?}"
            );
            wait_for("requests to the new pod", PATIENCE, || {
                let log = logs(world, &pod);
                assert!(!log.contains("failed"), "the pod got no answer: {log}");
                let now = (requests.load(Ordering::Relaxed) - asked, answered() - pod_before);
                if now.0 > 100 && now.1 > 2 { Ok(()) } else { Err(format!("{now:?}")) }
            });
        }
        drop(end);
        assert_eq!(prometheus.join().unwrap(), None, "a scrape failed");
        callers.into_iter().filter_map(|caller| caller.join().unwrap()).collect()
    });
    let requests = requests.load(Ordering::Relaxed);
    println!("{requests} requests of root and {} of a pod during 3 updates", answered());
    assert!(failures.is_empty(), "{} of {requests} failed: {:?}", failures.len(), failures.first());
    let log = logs(world, &pod);
    assert!(!log.contains("failed"), "{log}");
    drop(node);
}

/// Asks as root until it is over or fails, and says how.
fn failed_request(is_over: &AtomicBool, requests: &AtomicUsize) -> Option<String> {
    while !is_over.load(Ordering::Relaxed) {
        let asked = ask_as_root();
        requests.fetch_add(1, Ordering::Relaxed);
        if !asked.as_ref().is_ok_and(|answer| answer.contains(PASSWORD)) {
            return Some(format!("{asked:?}"));
        }
    }
    None
}

/// Scrapes until it is over or fails, and says how.
fn failed_scrape(is_over: &AtomicBool) -> Option<String> {
    while !is_over.load(Ordering::Relaxed) {
        if let Err(failed) = scrape() {
            return Some(failed);
        }
        thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Ends the callers when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The controller that is under test, and the scheduler's part. Dropped before the node.
struct Controllers {
    _manager: Process,
}

/// A node with the `DaemonSet`, whose agent is ready.
fn start(world: &mut World) -> (Node, Controllers) {
    // Without cgroups of their own pods cannot be told apart.
    let options = NodeOptions::new(Runtime::Containerd21).config("cgroupsPerQOS", json!(true));
    let node = Node::start(world, &options);
    import_images(world, &node);
    install_plugins();
    let kubeconfig = world.cluster.kubeconfig(&format!("system:node:{NODE}"), "system:nodes");
    fs::create_dir_all("/etc/kubernetes").unwrap();
    fs::copy(kubeconfig, "/etc/kubernetes/kubelet.conf").unwrap();
    world.cluster.apply(&stdout(&mut world.keyfob(&["audience", "rbac", "--audience", AUDIENCE])));
    let mut manager = Command::new(world.parts.program("kube-controller-manager"));
    manager.env_clear().arg(format!("--kubeconfig={}", world.cluster.admin().display()));
    manager.args(["--controllers=daemonset-controller", "--leader-elect=false", "--secure-port=0"]);
    let manager = Process::start("kube-controller-manager", manager, &world.directory);

    let page = Page::read("docs/agent.md");
    let checkout = world.checkout();
    let manifests = checkout.join("deploy/agent");
    fs::create_dir_all(&manifests).unwrap();
    let deployed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/agent");
    for entry in fs::read_dir(deployed).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), manifests.join(entry.file_name())).unwrap();
    }
    let shop = json!({
        "name": "shop",
        "callers": {"serviceAccounts": [format!("{}/cart", world.namespace)]},
        "action": "AllowAsPod",
    });
    let file = fs::read_to_string(manifests.join("agent.yaml")).unwrap();
    write(&manifests.join("agent.yaml"), &format!("{file}- {shop}\n"));
    let file = fs::read_to_string(manifests.join("providers.yaml")).unwrap();
    let echo = json!({
        "name": "echo-credential-provider",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": [HOST],
        "defaultCacheDuration": "1m",
        "args": [format!("--registry={HOST}")],
        "tokenAttributes": {"serviceAccountTokenAudience": AUDIENCE, "cacheType": "Token", "requireServiceAccount": true},
    });
    write(&manifests.join("providers.yaml"), &format!("{file}- {echo}\n"));
    world.run_documented(&page.command(&["kubectl apply --kustomize"]));
    roll_out(world);
    (node, Controllers { _manager: manager })
}

/// An image with nothing but keyfob and the libraries that this build of it needs, and one with a shell too.
fn import_images(world: &World, node: &Node) {
    let root = world.files.join("image");
    fs::remove_dir_all(&root).unwrap_or_default();
    let keyfob = env!("CARGO_BIN_EXE_keyfob");
    let program = root.join("usr/local/bin/keyfob");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    // Without what only a debugger needs.
    run("strip", &["-o", program.to_str().unwrap(), keyfob]);
    let libraries = String::from_utf8(run("ldd", &[keyfob]).stdout).unwrap();
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(library, copy).unwrap();
    }
    let import = |name: &str| {
        let archive = Image::of_directory(&root, &json!({})).archive(name, &world.files);
        node.containerd.ctr(&["images", "import", archive.to_str().unwrap()]);
        fs::remove_file(archive).unwrap();
    };
    import(AGENT_IMAGE);
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy(world.parts.program("busybox"), root.join("bin/busybox")).unwrap();
    for applet in ["cat", "sh"] {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    import(CLIENT_IMAGE);
    fs::remove_dir_all(root).unwrap();
}

/// Links lead to the program in the image.
fn install_plugins() {
    fs::create_dir_all(PLUGINS).unwrap();
    for plugin in ["docker-config-credential-provider", "echo-credential-provider"] {
        let link = Path::new(PLUGINS).join(plugin);
        fs::remove_file(&link).unwrap_or_default();
        symlink("/usr/local/bin/keyfob", link).unwrap();
    }
    let logins = json!({"auths": {HOST: {"username": "ada", "password": PASSWORD}}});
    write(&Path::new(PLUGINS).join("logins.json"), &logins.to_string());
}

/// Waits until the controller has replaced all pods. There is no scheduler, so the pods are bound here.
fn roll_out(world: &World) {
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/keyfob-agent");
    wait_for("the DaemonSet to be rolled out", PATIENCE, || {
        bind_pods(world);
        let set = world.cluster.api.get(&path).map_err(|refusal| refusal.message)?;
        let status = &set["status"];
        let is_done = status["observedGeneration"] == set["metadata"]["generation"]
            && status["updatedNumberScheduled"] == 1
            && status["numberAvailable"] == 1
            && agents(world).len() == 1;
        if is_done { Ok(()) } else { Err(format!("{status} {:#?}", pods(world))) }
    });
}

fn bind_pods(world: &World) {
    for pod in pods(world) {
        if pod["spec"]["nodeName"].is_null() {
            let name = &pod["metadata"]["name"];
            let binding = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
            });
            let name = name.as_str().unwrap();
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding");
            world.cluster.api.post(&path, &binding).unwrap();
        }
    }
}

fn pods(world: &World) -> Vec<Value> {
    let pods = world.cluster.api.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods")).unwrap();
    pods["items"].as_array().unwrap().clone()
}

/// The names of the agent's pods.
fn agents(world: &World) -> Vec<String> {
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    pods(world).iter().map(name).collect()
}

fn update(world: &World, version: &str) {
    let patch =
        json!({"spec": {"template": {"metadata": {"annotations": {"test/version": version}}}}});
    let patch = patch.to_string();
    let args = ["--namespace", NAMESPACE, "patch", "daemonset", "keyfob-agent", "--patch", &patch];
    succeed(&mut world.cluster.kubectl(&args));
    roll_out(world);
}

/// As Prometheus on the node does. It may meet an agent that closes the port; then another one has it already.
fn scrape() -> Result<(), String> {
    http_get("/metrics").or_else(|_| http_get("/metrics")).map(drop)
}

/// What root on the node gets.
fn ask_as_root() -> std::io::Result<String> {
    let mut stream = UnixStream::connect(SOCKET)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = json!({"image": format!("{HOST}/team/app")}).to_string();
    write!(
        stream,
        "POST /v1/credentials HTTP/1.1\r\nhost: agent\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The command with which a pod asks.
fn get(flags: &str) -> String {
    format!("keyfob get --agent {SOCKET} {flags} {HOST}/team/app")
}

/// No registry has the image.
fn imported() -> Pushed {
    Pushed { reference: CLIENT_IMAGE.to_owned(), digest: String::new(), id: String::new() }
}

/// Makes a pod run a script with the agent's socket.
fn client(pod: &mut Value, script: &str) {
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["spec"]["volumes"] = json!([
        {"name": "keyfob", "hostPath": {"path": "/run/keyfob", "type": "Directory"}},
        {"name": "tmp", "emptyDir": {}},
    ]);
    let container = &mut pod["spec"]["containers"][0];
    container["imagePullPolicy"] = json!("Never");
    container["command"] = json!(["/bin/sh", "-c", script]);
    container["env"] = json!([{"name": "PATH", "value": "/bin:/usr/local/bin"}]);
    container["volumeMounts"] = json!([
        {"name": "keyfob", "mountPath": "/run/keyfob", "readOnly": true},
        {"name": "tmp", "mountPath": "/tmp"},
    ]);
}

/// What a pod has printed when it has ended. The last line may be in the log a little later.
fn printed(world: &World, pod: &Pod) -> String {
    pod.wait_for("it has ended", |pod| {
        matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
    });
    wait_for("the last line of the pod", PATIENCE, || {
        let log = logs(world, pod);
        let has_ended = log.lines().last().is_some_and(|line| line.starts_with("exit "));
        if has_ended { Ok(log) } else { Err(log) }
    })
}

fn logs(world: &World, pod: &Pod) -> String {
    let path = format!("/api/v1/namespaces/{}/pods/{}/log", pod.namespace, pod.name);
    world.cluster.api.text(&path).unwrap_or_else(|refusal| refusal.message)
}
