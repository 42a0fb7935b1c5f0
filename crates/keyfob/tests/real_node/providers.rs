//! A pod's image is pulled through each of our plugins, installed as `docs/plugins.md` says.

mod services;

use keyfob_testkit::LeakCheck;

use self::services::{
    BROKER, STS, account, field, is_token_of, serve_aws, serve_broker, token_of_the_account,
    write_docker_config, write_docker_helper,
};
use crate::{
    containerd::Runtime,
    documented::Page,
    node::{Node, NodeOptions},
    pod::Pod,
    registry::{Access, Pushed, Registry},
    world::World,
};

/// The registry of the page's commands.
const HOST: &str = "registry.example.com";
const ECR: &str = "123456789012.dkr.ecr.us-west-2.amazonaws.com";
/// What moto gives to everybody.
const ECR_PASSWORD: &str = "123456789012-auth-token";
const PASSWORD: &str = "hunter2-correct-horse";
const NODE_SECRET: &str = "hunter2-node-secret";

pub(crate) fn without_a_provider_the_pull_is_refused(world: &mut World) {
    let registry = Registry::start(world, HOST, Access::password("ada", PASSWORD));
    let image = registry.push("team/app:v1");
    for runtime in Runtime::ALL {
        let _node = Node::start(world, &NodeOptions::new(runtime));
        let pod = world.pod(&format!("app-{runtime:?}").to_lowercase(), &image).create();
        assert_refused(&pod, &image, runtime);
    }
    assert_eq!(registry.logins(), [(None, 401)]);
}

pub(crate) fn docker_config_gives_the_login_of_a_file(world: &mut World) {
    let registry = Registry::start(world, HOST, Access::password("ada", PASSWORD));
    let image = registry.push("team/app:v1");
    let page = Page::read("docs/plugins.md");
    write_docker_config(HOST);
    install(world, &page, &page.command(&["--providers docker-config"]));
    let node = Node::start(world, &with_flags(&page, Runtime::Containerd21));
    let pod = world.pod("app", &image).create();
    assert_pulled(&node, &pod, &image, "docker-config-credential-provider");
    assert_eq!(registry.logins(), [(None, 401), (Some("ada".to_owned()), 200)]);
    let flags = world.run_documented(&page.command(&["pidof kubelet"]));
    assert_eq!(
        flags.trim_end(),
        documented_flags(&page),
        "the page's way to see a kubelet's flags"
    );
}

pub(crate) fn exec_gives_the_login_of_a_docker_helper(world: &mut World) {
    let registry = Registry::start(world, HOST, Access::password("ada", PASSWORD));
    let image = registry.push("team/app:v1");
    let page = Page::read("docs/plugins.md");
    write_docker_helper();
    install(world, &page, &page.command(&["--providers exec"]).replace("NAME", "vault"));
    let node = Node::start(world, &with_flags(&page, Runtime::Containerd21));
    let pod = world.pod("app", &image).create();
    assert_pulled(&node, &pod, &image, "exec-credential-provider");
    assert_eq!(registry.logins(), [(None, 401), (Some("ada".to_owned()), 200)]);
}

pub(crate) fn echo_gives_the_token_of_the_pod(world: &mut World) {
    let registry = Registry::start(world, HOST, token_of_the_account(world, HOST));
    let image = registry.push("team/app:v1");
    let page = Page::read("docs/plugins.md");
    install(world, &page, &page.command(&["--providers echo"]));
    allow_audience(world, &page, HOST);
    let node = Node::start(world, &with_flags(&page, Runtime::Containerd21));
    let pod = world.pod("app", &image).create();
    assert_pulled(&node, &pod, &image, "echo-credential-provider");
    assert_eq!(registry.logins(), [(None, 401), (Some("jwt".to_owned()), 200)]);
}

pub(crate) fn exchange_trades_the_token_of_the_pod(world: &mut World) {
    let registry = Registry::start(world, HOST, Access::password("token", PASSWORD));
    let image = registry.push("team/app:v1");
    let page = Page::read("docs/plugins.md");
    serve_broker(world);
    install(world, &page, &page.command(&["--providers exchange"]));
    allow_audience(world, &page, BROKER);
    let node = Node::start(world, &with_flags(&page, Runtime::Containerd21));
    let pod = world.pod("app", &image).create();
    assert_pulled(&node, &pod, &image, "exchange-credential-provider");
    assert_eq!(registry.logins(), [(None, 401), (Some("token".to_owned()), 200)]);
}

pub(crate) fn ecr_gives_the_login_of_the_node(world: &mut World) {
    let registry = Registry::start(world, ECR, Access::password("AWS", ECR_PASSWORD));
    let image = registry.push("team/app:v1");
    let _moto = serve_aws(world);
    let page = Page::read("docs/plugins.md");
    install(world, &page, &page.command(&["--providers ecr --config-file /etc/kubernetes"]));
    let options = with_credentials_of_node(with_flags(&page, Runtime::Containerd21));
    let node = Node::start(world, &options);
    let pod = world.pod("app", &image).create();
    assert_pulled(&node, &pod, &image, "ecr-credential-provider");
    assert_eq!(registry.logins(), [(None, 401), (Some("AWS".to_owned()), 200)]);
}

pub(crate) fn ecr_gives_the_login_of_the_role_of_the_pod(world: &mut World) {
    let registry = Registry::start(world, ECR, Access::password("AWS", ECR_PASSWORD));
    let image = registry.push("team/app:v1");
    let _moto = serve_aws(world);
    let page = Page::read("docs/plugins.md");
    install(world, &page, &page.command(&["--providers ecr --token-audience"]));
    allow_audience(world, &page, "sts.amazonaws.com");
    world.apply_in_namespace(&page.block("yaml", &["kind: ServiceAccount", "ecr-role-arn"]));
    let node = Node::start(world, &with_flags(&page, Runtime::Containerd21));
    let pod = world.pod("app", &image).service_account("app").create();
    assert_pulled(&node, &pod, &image, "ecr-credential-provider");
    assert_eq!(registry.logins(), [(None, 401), (Some("AWS".to_owned()), 200)]);
    let requests = world.hosts.requests(STS);
    assert_eq!(requests.len(), 1, "{requests:?}");
    let form = &requests[0].body;
    let role = "arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fapp-pulls";
    assert_eq!(field(form, "RoleArn"), role, "the role of the page's service account");
    let (api, token) = (&world.cluster.api, field(form, "WebIdentityToken"));
    assert!(is_token_of(api, token, "sts.amazonaws.com", &account(world, "app")), "{form}");
    let check = page.command(&["keyfob audience check"]);
    world.run_documented(&check.replace("NAMESPACE/POD", &format!("{}/app", world.namespace)));
}

/// Containerd 1.6, and all plugins at once: from the second on, the page's commands need `--merge`.
pub(crate) fn all_plugins_share_one_configuration(world: &mut World) {
    let page = Page::read("docs/plugins.md");
    let registry = |plugin: &str| format!("{plugin}.example.com");
    let [docker_config, exec, echo, exchange] =
        ["docker-config", "exec", "echo", "exchange"].map(|plugin| {
            let command =
                page.command(&[&format!("--providers {plugin} ")]).replace(HOST, &registry(plugin));
            command.replace("NAME", "vault")
        });
    let ecr = page.command(&["--providers ecr --config-file /etc/kubernetes"]);
    install(world, &page, &docker_config);
    for command in [exec, echo, exchange, ecr] {
        install(world, &page, &format!("{command} --merge"));
    }
    write_docker_config(&registry("docker-config"));
    write_docker_helper();
    serve_broker(world);
    let _moto = serve_aws(world);
    for audience in ["echo.example.com", BROKER] {
        allow_audience(world, &page, audience);
    }
    let options = with_credentials_of_node(with_flags(&page, Runtime::Containerd16));
    let _node = Node::start(world, &options);
    let pulled = [
        ("docker-config", registry("docker-config"), Access::password("ada", PASSWORD)),
        ("exec", registry("exec"), Access::password("ada", PASSWORD)),
        ("echo", registry("echo"), token_of_the_account(world, "echo.example.com")),
        ("exchange", registry("exchange"), Access::password("token", PASSWORD)),
        ("ecr", ECR.to_owned(), Access::password("AWS", ECR_PASSWORD)),
    ]
    .map(|(plugin, host, access)| {
        let registry = Registry::start(world, &host, access);
        let image = registry.push("team/app:v1");
        (plugin, world.pod(plugin, &image).create(), image, registry)
    });
    let users = ["ada", "ada", "jwt", "token", "AWS"];
    for ((plugin, pod, image, registry), user) in pulled.iter().zip(users) {
        pod.wait_for_event("Started", "");
        assert_eq!(pod.event_lines(), pulled_events(image), "{plugin}");
        assert_eq!(registry.logins(), [(None, 401), (Some(user.to_owned()), 200)], "{plugin}");
    }
}

/// A kubelet goes on without credentials when a plugin fails, and only its log says why; `explain` says it too.
pub(crate) fn why_a_plugin_failed_is_only_in_the_log(world: &mut World) {
    let registry = Registry::start(world, HOST, Access::password("ada", PASSWORD));
    let image = registry.push("team/app:v1");
    let page = Page::read("docs/plugins.md");
    install(world, &page, &page.command(&["--providers exec"]).replace("NAME", "missing"));
    let node = Node::start(world, &with_flags(&page, Runtime::Containerd21));
    let pod = world.pod("app", &image).create();
    assert_refused(&pod, &image, Runtime::Containerd21);
    let reason = "docker-credential-missing was not found on PATH";
    let failures = node.kubelet.messages("Failed to provide credentials for image");
    let start = format!(
        "\"Failed to provide credentials for image\" err=<\n\
         \tfailed to get credential from external registry credential provider: error execing credential provider plugin \
         exec-credential-provider for image {HOST}/team/app: exit status 1: exec-credential-provider: {reason} ("
    );
    assert!(failures[0].starts_with(&start), "{failures:#?}");
    let name = &image.reference;
    let pulls = node.kubelet.messages("Pulling image without credentials");
    assert_eq!(pulls[0], format!("\"Pulling image without credentials\" image=\"{name}\""));
    let explained = world.try_documented(&page.command(&["keyfob explain"]).replace("IMAGE", name));
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.status.code() == Some(1) && text.contains(reason), "{text}");
}

pub(crate) fn a_kubelet_needs_both_flags(world: &mut World) {
    let page = Page::read("docs/plugins.md");
    write_docker_config(HOST);
    install(world, &page, &page.command(&["--providers docker-config"]));
    let mut node = Node::start(world, &with_flags(&page, Runtime::Containerd21));
    let reasons =
        ["plugin binary directory  did not exist", "credential provider config path is empty"];
    for (flag, reason) in documented_flags(&page).lines().zip(reasons) {
        node.kubelet.stop();
        node.start_kubelet(&NodeOptions::new(Runtime::Containerd21).flags(&[flag]));
        assert_eq!(node.kubelet.wait_for_exit().code(), Some(1), "with {flag} alone");
        let failure = format!("\"Failed to register CRI auth plugins\" err=\"{reason}\"");
        assert_eq!(node.kubelet.messages("CRI auth plugins"), [failure]);
    }
}

/// Installs keyfob and plugins with the documented commands, one for each kind of plugin.
fn install(world: &World, page: &Page, provider: &str) {
    world.run_documented(&page.command(&["cargo build"]));
    world.run_documented(provider);
    world.run_documented(&page.command(&["keyfob validate"]));
}

/// A node whose kubelet has the documented flags.
fn with_flags(page: &Page, runtime: Runtime) -> NodeOptions {
    let flags = documented_flags(page);
    let flags: Vec<_> = flags.lines().collect();
    NodeOptions::new(runtime).flags(&flags).flags(&["--v=5"])
}

fn documented_flags(page: &Page) -> String {
    page.block("text", &["--image-credential-provider-config"])
}

/// A node with AWS credentials in the environment of its kubelet.
fn with_credentials_of_node(options: NodeOptions) -> NodeOptions {
    options.env("AWS_ACCESS_KEY_ID", "AKIANODE").env("AWS_SECRET_ACCESS_KEY", NODE_SECRET)
}

/// Lets nodes request tokens with this audience, by the command that the page has for another one.
fn allow_audience(world: &World, page: &Page, audience: &str) {
    let command = page.command(&["keyfob audience rbac"]);
    world.run_documented(&command.replace("sts.amazonaws.com", audience));
}

/// The pod runs; its events and what the kubelet logs of the plugin are these and no others; no log has a secret.
fn assert_pulled(node: &Node, pod: &Pod, image: &Pushed, plugin: &str) {
    pod.wait_until_running();
    pod.wait_for_event("Started", "");
    assert_eq!(pod.event_lines(), pulled_events(image));
    let name = &image.reference;
    let (repository, _) = name.rsplit_once(':').unwrap();
    assert_eq!(pod.image_id(), format!("{repository}@{}", image.digest));
    let account = pod.get()["spec"]["serviceAccountName"].clone();
    let (namespace, name, uid) = (&pod.namespace, &pod.name, &pod.uid);
    let messages = [
        format!("\"Registered credential provider\" provider=\"{plugin}\""),
        format!(
            "\"Generating per pod credential provider\" provider=\"{plugin}\" podName=\"{name}\" \
             podNamespace=\"{namespace}\" podUID=\"{uid}\" serviceAccountName={account}"
        ),
        format!(
            "\"Getting image credentials from external exec plugin\" pluginName=\"{plugin}\" image=\"{repository}\""
        ),
    ];
    assert_eq!(node.kubelet.messages(plugin), messages);
    let secrets = LeakCheck::new([PASSWORD, NODE_SECRET, ECR_PASSWORD]);
    secrets.text("the kubelet's log", &node.kubelet.log());
    secrets.text("containerd's log", &node.containerd.process.log());
}

fn pulled_events(image: &Pushed) -> [String; 4] {
    let name = &image.reference;
    [
        format!("Normal Pulling: Pulling image \"{name}\""),
        format!(
            "Normal Pulled: Successfully pulled image \"{name}\" in TIME (TIME including waiting). Image size: SIZE bytes."
        ),
        "Normal Created: Container created".to_owned(),
        "Normal Started: Container started".to_owned(),
    ]
}

/// The registry lets nobody in without a login, and the events say so in the words of this runtime.
fn assert_refused(pod: &Pod, image: &Pushed, runtime: Runtime) {
    pod.wait_for_event("Failed", "ImagePullBackOff");
    let name = &image.reference;
    let reason = match runtime {
        Runtime::Containerd21 => {
            "failed to resolve image: pull access denied, repository does not exist or may require authorization: \
             authorization failed: no basic auth credentials"
                .to_owned()
        }
        Runtime::Containerd16 => format!(
            "failed to resolve reference \"{name}\": pulling from host {HOST} failed with status code \
             [manifests v1]: 401 Unauthorized"
        ),
    };
    let events = [
        format!("Normal Pulling: Pulling image \"{name}\""),
        format!(
            "Warning Failed: Failed to pull image \"{name}\": failed to pull and unpack image \"{name}\": {reason}"
        ),
        "Warning Failed: Error: ErrImagePull".to_owned(),
        format!("Normal BackOff: Back-off pulling image \"{name}\""),
        "Warning Failed: Error: ImagePullBackOff".to_owned(),
    ];
    assert_eq!(pod.event_lines(), events);
}
