//! Who may ask for what.

use axum::http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use super::{Cluster, call, get, post};

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

/// What somebody is told about access.
async fn may(client: &Client, kind: &str, spec: Value) -> Value {
    let review = json!({"spec": spec});
    post(client, &format!("{AUTHORIZATION}/{kind}"), &review).await.unwrap()["status"].clone()
}

#[tokio::test]
async fn without_a_token_only_what_is_public_is_served() {
    let mut cluster = Cluster::start().await;
    let nobody = cluster.bearer("nobody").await;
    let config = cluster.server.admin_kubeconfig().unwrap();
    let anonymous = config.expose().replace("\"token\"", "\"username\"");
    let anonymous = super::client(&anonymous.replace("admin", "nobody")).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        let request = Request::get(path).body(Vec::new()).unwrap();
        assert_eq!(anonymous.request_text(request).await.unwrap(), "ok");
    }
    for path in ["/version", "/.well-known/openid-configuration", "/openid/v1/jwks"] {
        assert!(get(&anonymous, path).await.is_ok(), "{path}");
    }
    for path in ["/api", "/api/v1", "/api/v1/pods", "/nowhere", "/apis"] {
        for client in [&anonymous, &nobody] {
            assert_eq!(get(client, path).await.unwrap_err(), "401 Unauthorized: Unauthorized");
        }
    }
    cluster.end().await;
}

#[tokio::test]
async fn discovery_names_what_is_served() {
    let cluster = Cluster::start().await;
    let admin = &cluster.admin;
    assert_eq!(admin.list_core_api_versions().await.unwrap().versions, ["v1"]);
    assert_eq!(admin.list_api_groups().await.unwrap().groups.len(), 4);
    let core = admin.list_core_api_resources("v1").await.unwrap();
    let names: Vec<&str> = core.resources.iter().map(|each| each.name.as_str()).collect();
    assert!(names.contains(&"serviceaccounts/token"));
    for group in ["rbac.authorization.k8s.io", "storage.k8s.io", "authentication.k8s.io"] {
        let group = format!("{group}/v1");
        assert!(!admin.list_api_group_resources(&group).await.unwrap().resources.is_empty());
    }
    assert_eq!(admin.apiserver_version().await.unwrap().minor, "37");
    cluster.end().await;
}

#[tokio::test]
async fn a_node_reads_what_concerns_it() {
    let mut cluster = Cluster::start().await;
    let n1 = cluster.node("n1").await;
    let team = "/api/v1/namespaces/team";
    for path in [
        "/api/v1/nodes/n1".to_owned(),
        "/api/v1/nodes?fieldSelector=metadata.name%3Dn1".to_owned(),
        format!("{team}/pods/web"),
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1".to_owned(),
        format!("{team}/serviceaccounts/puller"),
        format!("{team}/persistentvolumeclaims/data"),
        "/api/v1/persistentvolumes/pv1".to_owned(),
        "/apis/storage.k8s.io/v1/csidrivers".to_owned(),
    ] {
        assert!(get(&n1, &path).await.is_ok(), "{path}");
    }
    for path in [
        "/api/v1/nodes".to_owned(),
        "/api/v1/nodes/n2".to_owned(),
        "/api/v1/pods".to_owned(),
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2".to_owned(),
        "/api/v1/pods?fieldSelector=spec.nodeName!%3Dn1".to_owned(),
        format!("{team}/pods/other"),
        format!("{team}/serviceaccounts"),
        format!("{team}/serviceaccounts/default"),
        "/api/v1/persistentvolumes/pv2".to_owned(),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
    ] {
        assert!(get(&n1, &path).await.unwrap_err().starts_with("403 Forbidden"), "{path}");
    }
    // A pod that its kubelet reported does not open a claim.
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    call(&cluster.admin, Method::PATCH, &format!("{team}/pods/web"), &mirror).await.unwrap();
    let claim = get(&n1, &format!("{team}/persistentvolumeclaims/data")).await.unwrap_err();
    assert!(claim.starts_with("403 Forbidden"), "{claim}");
    // What it may see of itself is not a way to the others.
    let named = get(&n1, "/api/v1/nodes/n1?watch=true").await.unwrap();
    assert_eq!((&named["kind"], &named["metadata"]["name"]), (&json!("Node"), &json!("n1")));
    let pods = format!("{team}/pods");
    let pod = json!({"metadata": {"name": "own"}, "spec": {"nodeName": "n1", "containers": []}});
    assert!(post(&n1, &pods, &pod).await.unwrap_err().starts_with("403 Forbidden"));
    cluster.end().await;
}

#[tokio::test]
async fn reviews_say_who_may_do_what() {
    let mut cluster = Cluster::start().await;
    let admin = cluster.admin.clone();
    let audience = |audience: &str| json!({"verb": "request-serviceaccounts-token-audience", "resource": audience, "namespace": "team", "name": "puller"});
    let node = |about: Value| json!({"user": "system:node:n1", "groups": ["system:nodes"], "resourceAttributes": about});
    let status = may(&admin, "subjectaccessreviews", node(audience("registry.example"))).await;
    assert_eq!(status["allowed"], true);
    assert!(status["reason"].as_str().unwrap().contains("registry-audience"), "{status}");
    let status = may(&admin, "subjectaccessreviews", node(audience("other"))).await;
    assert_eq!(status["allowed"], false);
    let n1 = cluster.node("n1").await;
    let about = json!({"resourceAttributes": audience("registry.example")});
    assert_eq!(may(&n1, "selfsubjectaccessreviews", about).await["allowed"], true);
    let about = json!({"nonResourceAttributes": {"verb": "get", "path": "/apis"}});
    assert_eq!(may(&n1, "selfsubjectaccessreviews", about).await["allowed"], true);
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    let neither = post(&admin, &path, &json!({"spec": {"user": "a"}})).await.unwrap_err();
    assert_eq!(
        neither,
        "422 Invalid: SubjectAccessReview.authorization.k8s.io \"\" is invalid: spec: Invalid value: null: \
         exactly one of nonResourceAttributes or resourceAttributes must be specified"
    );
    let local = format!("{AUTHORIZATION}/namespaces/team/localsubjectaccessreviews");
    let puller = json!({"user": "system:serviceaccount:team:puller", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "team"}});
    let allowed = post(&admin, &local, &json!({"spec": puller})).await.unwrap();
    assert_eq!(allowed["status"]["allowed"], true);
    let elsewhere = format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews");
    let refused = post(&admin, &elsewhere, &json!({"spec": puller})).await.unwrap_err();
    assert!(refused.contains("must match metadata.namespace"), "{refused}");
    let rules = may(&admin, "selfsubjectrulesreviews", json!({"namespace": "team"})).await;
    assert_eq!(rules["incomplete"], true);
    cluster.end().await;
}

#[tokio::test]
async fn whoever_may_be_another_is_asked_as_that_one() {
    let mut cluster = Cluster::start().await;
    let whoami = async |client: &Client, headers: &[(&str, &str)]| -> Result<Value, kube::Error> {
        let mut request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let review: Value = client.request(request.body(b"{}".to_vec()).unwrap()).await?;
        Ok(review["status"]["userInfo"].clone())
    };
    let admin = cluster.admin.clone();
    let own = whoami(&admin, &[]).await.unwrap();
    assert_eq!(
        own,
        json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]})
    );
    let node = [("impersonate-user", "system:node:n1"), ("impersonate-group", "system:nodes")];
    let other = whoami(&admin, &node).await.unwrap();
    assert_eq!(
        other,
        json!({"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]})
    );
    let account = [("impersonate-user", "system:serviceaccount:team:puller")];
    let other = whoami(&admin, &account).await.unwrap();
    assert_eq!(
        other["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"])
    );
    let n1 = cluster.node("n1").await;
    let masters = [("impersonate-user", "admin"), ("impersonate-group", "system:masters")];
    let refused = whoami(&n1, &masters).await.unwrap_err().to_string();
    assert!(refused.contains("cannot impersonate resource"), "{refused}");
    // A name that cannot be read is not passed over: it would be the admin who asks.
    let spoilt = http::HeaderValue::from_bytes(b"\xff").unwrap();
    for name in ["impersonate-user", "impersonate-group", "impersonate-uid"] {
        let request = Request::get("/api/v1/pods").header("impersonate-user", "nobody");
        let mut request = request.body(Vec::new()).unwrap();
        request.headers_mut().insert(name, spoilt.clone());
        let refused = admin.request::<Value>(request).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("{name} is not UTF-8")), "{refused}");
    }
    let group = whoami(&admin, &[("impersonate-group", "system:nodes")]).await.unwrap_err();
    assert!(group.to_string().contains("without impersonating a user"), "{group}");
    cluster.end().await;
}

#[tokio::test]
async fn a_right_for_one_name_is_not_one_for_all() {
    let mut cluster = Cluster::start().await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods", "namespaces"], "resourceNames": ["web", "team"], "verbs": ["*"]}]);
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles/pods";
    let wider = json!({"rules": rules});
    call(&cluster.admin, Method::PATCH, role, &wider).await.unwrap();
    let token = cluster.token(cluster.server.issuer().to_owned().as_str()).await;
    let puller = cluster.bearer(&token).await;
    let pods = "/api/v1/namespaces/team/pods";
    let all = get(&puller, &format!("{pods}?watch=true")).await.unwrap_err();
    assert!(all.starts_with("403 Forbidden"), "{all}");
    let web = get(&puller, &format!("{pods}/web?watch=true")).await.unwrap();
    assert_eq!(web["metadata"]["name"], "web");
    let pod = json!({"metadata": {"name": "own"}, "spec": {"containers": []}});
    let namespace = json!({"metadata": {"name": "own"}});
    for (path, body) in
        [(format!("{pods}/web"), &pod), ("/api/v1/namespaces/team".into(), &namespace)]
    {
        let refused = post(&puller, &path, body).await.unwrap_err();
        assert!(refused.starts_with("405 MethodNotAllowed"), "{refused}");
    }
    cluster.end().await;
}
