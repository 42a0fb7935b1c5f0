//! Objects: reading, writing and watching them.

use std::time::Duration;

use axum::http::{Method, Request};
use futures_util::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use keyfob_control::objects::{Kind, Objects};
use keyfob_playground::embedded::{ApiServer, Options};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Cluster, call, client, delete, get, post};

const PODS: &str = "/api/v1/namespaces/team/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/team/serviceaccounts";

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn kube_creates_changes_and_deletes() {
    let cluster = Cluster::start().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin.clone(), "team");
    let mut account = ServiceAccount::default();
    account.metadata.generate_name = Some("made-".into());
    let made = accounts.create(&PostParams::default(), &account).await.unwrap();
    let name = made.metadata.name.clone().unwrap();
    assert!(name.starts_with("made-"));
    assert_eq!(made.metadata.creation_timestamp.unwrap().0.as_second(), 1_900_000_000);
    let patch = json!({"metadata": {"annotations": {"a": "1", "b": "2"}}});
    let params = PatchParams::default();
    accounts.patch(&name, &params, &Patch::Merge(patch)).await.unwrap();
    let patch = json!({"metadata": {"annotations": {"a": null}}});
    let patched = accounts.patch(&name, &params, &Patch::Strategic(patch)).await.unwrap();
    assert_eq!(
        patched.metadata.annotations.clone().unwrap().into_keys().collect::<Vec<_>>(),
        ["b"]
    );
    assert_eq!(patched.metadata.uid, made.metadata.uid);
    accounts.replace(&name, &PostParams::default(), &patched).await.unwrap();
    accounts.delete(&name, &DeleteParams::default()).await.unwrap();
    assert!(accounts.get_opt(&name).await.unwrap().is_none());
    cluster.end().await;
}

#[tokio::test]
async fn an_object_changed_in_the_meantime_is_not_overwritten() {
    let cluster = Cluster::start().await;
    let path = format!("{ACCOUNTS}/puller");
    let mut account = get(&cluster.admin, &path).await.unwrap();
    let stale = account.clone();
    account["metadata"]["labels"] = json!({"a": "b"});
    call(&cluster.admin, Method::PUT, &path, &account).await.unwrap();
    let words = "409 Conflict: Operation cannot be fulfilled on serviceaccounts \"puller\": the object has been \
                 modified; please apply your changes to the latest version and try again";
    assert_eq!(call(&cluster.admin, Method::PUT, &path, &stale).await.unwrap_err(), words);
    let mut unversioned = stale;
    unversioned["metadata"]["resourceVersion"] = Value::Null;
    assert!(call(&cluster.admin, Method::PUT, &path, &unversioned).await.is_ok());
    cluster.end().await;
}

#[tokio::test]
async fn lists_are_selected() {
    let cluster = Cluster::start().await;
    let list = |query: &str| {
        let (admin, path) = (cluster.admin.clone(), format!("/api/v1/pods?{query}"));
        async move { get(&admin, &path).await }
    };
    let cases: [(&str, &[&str]); 5] = [
        ("", &["other", "web"]),
        ("fieldSelector=spec.nodeName%3Dn1", &["web"]),
        ("fieldSelector=metadata.name!%3Dweb,metadata.namespace%3Dteam", &["other"]),
        ("labelSelector=app%3Dweb", &["web"]),
        ("labelSelector=!app", &["other"]),
    ];
    for (query, want) in cases {
        assert_eq!(names(&list(query).await.unwrap()), want, "{query}");
    }
    let refused = list("fieldSelector=status.phase%3DRunning").await.unwrap_err();
    assert_eq!(refused, "400 BadRequest: field label not supported: status.phase");
    assert!(
        list("labelSelector=app+in+(a,b)")
            .await
            .unwrap_err()
            .starts_with("400 BadRequest: unable to parse")
    );
    cluster.end().await;
}

#[tokio::test]
async fn what_is_wrong_is_refused_with_a_status() {
    let cluster = Cluster::start().await;
    let admin = &cluster.admin;
    let web = json!({"metadata": {"name": "web"}, "spec": {"containers": []}});
    let named = |name: &str| json!({"metadata": {"name": name}});
    let post = |path: &'static str, body: Value| async move {
        post(admin, path, &body).await.unwrap_err()
    };
    assert_eq!(post(PODS, web).await, "409 AlreadyExists: pods \"web\" already exists");
    assert_eq!(
        post(
            "/api/v1/namespaces/gone/pods",
            json!({"metadata": {"name": "p"}, "spec": {"containers": []}})
        )
        .await,
        "404 NotFound: namespaces \"gone\" not found"
    );
    assert_eq!(
        post(ACCOUNTS, json!({})).await,
        "422 Invalid: ServiceAccount \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    assert!(post(ACCOUNTS, named("No")).await.starts_with(
        "422 Invalid: ServiceAccount \"No\" is invalid: metadata.name: Invalid value: \"No\": a lowercase RFC 1123 subdomain"
    ));
    assert_eq!(
        post(PODS, json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "x", "containers": []}})).await,
        "403 Forbidden: pods \"p\" is forbidden: error looking up service account team/x: serviceaccount \"x\" not found"
    );
    assert!(
        post(PODS, json!({"metadata": {"name": "p"}, "spec": 3}))
            .await
            .starts_with("400 BadRequest: Pod in version \"v1\" cannot be handled as a Pod: ")
    );
    assert!(
        post(PODS, json!({"kind": "Node", "metadata": {"name": "p"}}))
            .await
            .starts_with("400 BadRequest")
    );
    assert_eq!(
        post(
            PODS,
            json!({"metadata": {"name": "p", "namespace": "other"}, "spec": {"containers": []}})
        )
        .await,
        "400 BadRequest: the namespace of the provided object does not match the namespace sent on the request"
    );
    let dry = "/api/v1/namespaces?dryRun=All";
    assert_eq!(post(dry, named("n")).await, "400 BadRequest: dryRun is not served here");
    cluster.end().await;
}

#[tokio::test]
async fn what_is_not_served_is_refused_with_a_status() {
    let cluster = Cluster::start().await;
    let admin = &cluster.admin;
    let missing = "404 NotFound: the server could not find the requested resource";
    for path in [
        "/api/v1/secrets",
        "/apis/apps/v1/deployments",
        "/api/v2/pods",
        "/openapi/v2",
        "/nowhere",
        // What lies in no namespace is not found in one: a role there would open it.
        "/api/v1/namespaces/team/nodes",
        "/api/v1/namespaces/team/nodes/n1",
        "/api/v1/namespaces/team/namespaces/default",
        "/apis/authentication.k8s.io/v1/namespaces/team/tokenreviews",
    ] {
        assert_eq!(get(admin, path).await.unwrap_err(), missing, "{path}");
    }
    let wrong = call(admin, Method::DELETE, PODS, &Value::Null).await.unwrap_err();
    assert!(wrong.starts_with("405 MethodNotAllowed"), "{wrong}");
    let lists = json!({"spec": {"$setElementOrder/containers": []}});
    let wrong = call(admin, Method::PATCH, &format!("{PODS}/web"), &lists).await.unwrap_err();
    assert!(wrong.starts_with("400 BadRequest: strategic merging of lists"), "{wrong}");
    cluster.end().await;
}

#[tokio::test]
async fn a_namespace_has_an_account_and_takes_everything_along() {
    let cluster = Cluster::start().await;
    let admin = &cluster.admin;
    post(admin, "/api/v1/namespaces", &json!({"metadata": {"name": "new"}})).await.unwrap();
    let accounts = get(admin, "/api/v1/namespaces/new/serviceaccounts").await.unwrap();
    assert_eq!(names(&accounts), ["default"]);
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = post(admin, "/api/v1/namespaces/new/pods", &pod).await.unwrap();
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    delete(admin, "/api/v1/namespaces/new").await;
    assert!(names(&get(admin, "/api/v1/namespaces/new/pods").await.unwrap()).is_empty());
    assert!(get(admin, "/api/v1/namespaces/new").await.is_err());
    cluster.end().await;
}

#[tokio::test]
async fn a_watch_shows_what_is_there_and_what_changes() {
    let cluster = Cluster::start().await;
    let pods: Api<Pod> = Api::namespaced(cluster.admin.clone(), "team");
    let params = WatchParams::default().labels("app=web").timeout(30);
    let mut events = pods.watch(&params, "0").await.unwrap().boxed();
    let mut next = async || {
        let event = timeout(Duration::from_secs(20), events.try_next()).await.unwrap();
        match event.unwrap().unwrap() {
            WatchEvent::Added(pod) => format!("added {}", pod.metadata.name.unwrap()),
            WatchEvent::Modified(pod) => format!("modified {}", pod.metadata.name.unwrap()),
            WatchEvent::Deleted(pod) => format!("deleted {}", pod.metadata.name.unwrap()),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(next().await, "added web");
    let label = |name: &'static str, app: Value| {
        let pods = pods.clone();
        async move {
            let patch = json!({"metadata": {"labels": {"app": app}}});
            pods.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
    };
    label("other", json!("web")).await;
    assert_eq!(next().await, "added other");
    label("web", json!("web")).await;
    assert_eq!(next().await, "modified web");
    label("web", Value::Null).await;
    assert_eq!(next().await, "deleted web");
    delete(&cluster.admin, &format!("{PODS}/other")).await;
    assert_eq!(next().await, "deleted other");
    cluster.end().await;
}

#[tokio::test]
async fn a_watch_goes_on_from_a_list_and_ends_when_told() {
    let cluster = Cluster::start().await;
    let pods: Api<Pod> = Api::namespaced(cluster.admin.clone(), "team");
    let version =
        pods.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    delete(&cluster.admin, &format!("{PODS}/web")).await;
    let events = async |params: WatchParams, version: &str| {
        let events = pods.watch(&params.timeout(1), version).await.unwrap();
        events.collect::<Vec<_>>().await
    };
    let (since, all) = tokio::join!(
        events(WatchParams::default(), &version),
        events(WatchParams::default().initial_events(), "0"),
    );
    assert!(matches!(since.as_slice(), [Ok(WatchEvent::Deleted(_))]), "{since:?}");
    assert!(matches!(all.as_slice(), [Ok(WatchEvent::Added(_)), Ok(WatchEvent::Bookmark(_))]));
    cluster.end().await;
}

#[tokio::test]
async fn a_watch_that_is_too_far_behind_is_told() {
    let mut objects = Objects::default();
    for number in 0..1100 {
        objects.put(Kind::Node, "", &format!("n{number}"), json!({}));
    }
    let options = Options { objects, ..Options::default() };
    let server = ApiServer::start(options).await.unwrap();
    let admin = client(server.admin_kubeconfig().unwrap().expose()).await;
    let request = Request::get(format!("{PODS}?watch=1&resourceVersion=1")).body(Vec::new());
    let lines = admin.request_stream(request.unwrap()).await.unwrap();
    let lines: Vec<String> = lines.lines().try_collect().await.unwrap();
    let event: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!((lines.len(), &event["object"]["reason"]), (1, &json!("Expired")));
    server.stop().await;
}

#[tokio::test]
async fn an_object_stays_the_one_it_is() {
    let mut cluster = Cluster::start().await;
    let path = format!("{ACCOUNTS}/puller");
    let token = cluster.token("vault").await;
    let nameless = json!({"metadata": {"name": "puller"}});
    let replaced = call(&cluster.admin, Method::PUT, &path, &nameless).await.unwrap();
    assert_eq!(replaced["metadata"]["uid"], "sa-1");
    let another = json!({"metadata": {"name": "puller", "uid": "another"}});
    let refused = call(&cluster.admin, Method::PUT, &path, &another).await.unwrap_err();
    assert!(refused.contains("UID in precondition: another"), "{refused}");
    assert_eq!(cluster.review(&token, &["vault"]).await["authenticated"], true);
    // One that is made again under its name is another, and the tokens of the first are not its own.
    delete(&cluster.admin, &path).await;
    post(&cluster.admin, ACCOUNTS, &nameless).await.unwrap();
    let status = cluster.review(&token, &["vault"]).await;
    let error = status["error"].as_str().unwrap();
    assert!(error.ends_with("does not match claim (sa-1)"), "{error}");
    cluster.end().await;
}
