//! Pods that pull as themselves.

use keyfob_plugin::testing::Asking;
use keyfob_testkit::Response;
use serde_json::{Value, json};

use crate::node::*;

#[tokio::test]
async fn a_pod_that_asks_for_it_pulls_as_itself() {
    let custom = "https://custom-provider.com";
    for cluster in [CLUSTER, custom] {
        let node =
            Node::usual().args(&["--identity-provider", cluster, "--project-id", "my-project"]);
        let answer = node.answer(pod()).await.unwrap();

        assert_eq!(password(&answer), FEDERATED);
        assert_eq!(keys(&answer).last(), Some(&"us-central1-docker.pkg.dev"));
        assert_eq!(duration(&answer).as_deref(), Some("54m59s"));
        assert_eq!(node.asked(), ["POST sts.googleapis.com/v1/token"]);
        let request = &node.internet.requests()[0];
        assert!(request.tls);
        assert_eq!(request.header("Content-Type"), Some("application/json"));
        let expected = json!({
            "audience": format!("identitynamespace:my-project.svc.id.goog:{cluster}"),
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "scope": "https://www.googleapis.com/auth/cloud-platform",
            "subject_token": POD_TOKEN,
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        });
        assert_eq!(request.body.parse::<Value>().unwrap(), expected);
    }
}

#[tokio::test]
async fn a_pod_that_does_not_ask_pulls_as_the_node() {
    let plain = Asking::about(IMAGE).token(POD_TOKEN);
    let rows = [
        (Node::usual().with_workload_identity(), plain.clone()),
        (Node::usual().with_workload_identity(), plain.clone().annotation(OPT_IN, "True")),
        (Node::usual().with_workload_identity(), plain.annotation(OPT_IN, "false")),
        (Node::usual(), pod()),
        (Node::usual().args(&["--identity-provider", ""]), pod()),
    ];
    for (node, asking) in rows {
        assert_eq!(password(&node.answer(asking).await.unwrap()), NODE_TOKEN);
        assert_eq!(node.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_pod_that_asks_and_is_refused_is_no_one_else() {
    let node = Node::new(|request| match request.host.as_str() {
        "sts.googleapis.com" => {
            Response::json(r#"{"error":"invalid_grant","error_description":"not mapped"}"#)
                .with_status(400)
        }
        _ => google(request),
    });
    let node = node.with_workload_identity();
    let failure = node.failure(pod()).await;
    assert!(failure.contains("the pod's own identity: trading the pod's token"), "{failure}");
    assert!(failure.contains("status code 400: invalid_grant: not mapped"), "{failure}");
    assert_eq!(node.asked(), ["POST sts.googleapis.com/v1/token"], "not the node's identity");

    let node = Node::usual().with_workload_identity();
    for asking in [Asking::about(IMAGE), Asking::about(IMAGE).token("")] {
        let failure = node.failure(asking.annotation(OPT_IN, "true")).await;
        assert!(failure.contains("set tokenAttributes"), "{failure}");
    }
    assert!(node.asked().is_empty());
}

#[tokio::test]
async fn a_pod_may_be_traded_for_a_service_account() {
    let account = "puller@my-project.iam.gserviceaccount.com";
    let path = "/v1/projects/-/serviceAccounts/puller@my-project.iam.gserviceaccount.com:generateAccessToken";
    let annotated = pod().annotation("iam.gke.io/gcp-service-account", account);
    let rows: [(&[&str], Asking); 2] = [
        (&["--impersonate", account], pod()),
        (&["--impersonate-from-annotation"], annotated.clone()),
    ];
    for (args, asking) in rows {
        let node = Node::usual().with_workload_identity().args(args);
        let answer = node.answer(asking).await.unwrap();

        assert_eq!(
            (password(&answer), duration(&answer).as_deref()),
            (IMPERSONATED, Some("55m0s"))
        );
        let request = &node.internet.requests()[1];
        assert_eq!(
            (request.host.as_str(), request.path()),
            ("iamcredentials.googleapis.com", path)
        );
        assert_eq!(request.header("Authorization"), Some("Bearer hunter2-federated"));
        let scope = json!({ "scope": ["https://www.googleapis.com/auth/cloud-platform"] });
        assert_eq!(request.body.parse::<Value>().unwrap(), scope);
    }
    let node = Node::usual().with_workload_identity();
    let answer = node.answer(annotated).await.unwrap();
    assert_eq!(password(&answer), FEDERATED, "an annotation alone chooses nothing");
}

#[tokio::test]
async fn what_is_repeated_of_the_pods_token_is_not_told() {
    let node = Node::new(|request| match request.host.as_str() {
        "iamcredentials.googleapis.com" => {
            let said = json!({ "error": { "message": format!("{FEDERATED} may not") } });
            Response::json(said.to_string()).with_status(403)
        }
        _ => google(request),
    });
    let node =
        node.with_workload_identity().args(&["--impersonate", "a@b.iam.gserviceaccount.com"]);

    let failure = node.failure(pod()).await;

    assert!(failure.contains("403: [redacted] may not"), "{failure}");
}

#[tokio::test]
async fn an_annotation_cannot_lead_impersonation_astray() {
    let node = Node::usual().with_workload_identity().args(&["--impersonate-from-annotation"]);
    for account in ["", "a@b.c/../../evil", "evil.test/a@b.c", "a@b.c:signBlob?x="] {
        let asking = pod().annotation("iam.gke.io/gcp-service-account", account);
        let failure = node.failure(asking).await;
        assert!(failure.contains("not the e-mail address of a service account"), "{failure}");
    }
    assert!(node.asked().is_empty());
}

#[tokio::test]
async fn other_addresses_of_google_are_used() {
    let node = Node::new(|request| match request.host.as_str() {
        "sts-x.p.googleapis.com" => issued(FEDERATED),
        "iam-x.p.googleapis.com" => {
            Response::json(json!({ "accessToken": IMPERSONATED }).to_string())
        }
        _ => Response::status(404),
    });
    let node = node.with_workload_identity().args(&[
        "--sts-url",
        "https://sts-x.p.googleapis.com/v1/token",
        "--iam-credentials-url",
        "https://iam-x.p.googleapis.com/",
        "--impersonate",
        "a@b.iam.gserviceaccount.com",
    ]);
    let answer = node.answer(pod()).await.unwrap();
    assert_eq!((password(&answer), duration(&answer).as_deref()), (IMPERSONATED, Some("0s")));
}
