//! Everything stays, and here is what to do with it.

use super::{
    cluster::{AUDIENCE, BATCH, NODE, Pod, WEB},
    stage::{APP, BASE, Stage},
    story::Story,
};
use crate::{explain::command::quoted, signals::Stop};

/// Tells what there is to play with, and waits for a signal. That is how it ends, so the exit code is the story's.
pub(super) async fn until_stopped(stage: &Stage, story: &mut Story, stop: &mut Stop) {
    stop.exits_with(story.verdict());
    story.say(&commands(stage));
    stop.signal().await;
}

/// They are short because everything is in one directory.
fn commands(stage: &Stage) -> String {
    let host = "--config config.yaml --bin-dir plugins";
    let as_pod = |pod: Pod| {
        let (account, name) = (pod.account(), pod.name);
        format!("{host} --kubeconfig {NODE}.kubeconfig --service-account {account} --pod {name}")
    };
    let (web, batch) = (as_pod(WEB), as_pod(BATCH));
    let [app, base] = [APP, BASE].map(|image| stage.image(image));
    let directory = quoted(&stage.path().to_string_lossy());
    let account = WEB.account();
    format!(
        "
Everything is still there. In another terminal:

$ cd {directory}
$ ./keyfob pull {app} {web}  # it is here, and web may use it
$ ./keyfob pull {app} {batch}  # refused
$ ./keyfob pull {base} {host} --pull-policy Always
$ ./keyfob records list
$ ./keyfob explain {app} {batch}  # it gets a login, which opens other images
$ ./keyfob audience check --kubeconfig admin.kubeconfig --pod {account} --audience {AUDIENCE}
$ ./keyfob kube explain --kubeconfig developer.kubeconfig
$ ./keyfob kube get --raw /api/v1/pods --kubeconfig developer.kubeconfig
$ kubectl --kubeconfig developer.kubeconfig get pods,roles --all-namespaces
$ skopeo inspect --tls-verify=false --authfile node-login.json docker://{base}

Ctrl-C ends it and removes everything.
"
    )
}
