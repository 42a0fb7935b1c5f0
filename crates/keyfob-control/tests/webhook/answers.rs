//! The webhook, asked as an API server asks it.

use std::{convert::Infallible, time::Duration};

use axum::http::StatusCode;
use keyfob_control::{
    rule::Opinion,
    webhook::{OnUndecided, Options},
};
use keyfob_testkit::LeakCheck;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::reviews::{API, TOKEN, Webhook, World, asking_for};

fn allowing() -> Options {
    Options { on_undecided: OnUndecided::Allow, ..Options::default() }
}

fn unanswered() -> World {
    World { down: Some("connection refused"), ..World::default() }
}

#[tokio::test]
async fn a_token_that_a_volume_of_the_pod_asks_for_is_allowed() {
    let webhook = Webhook::new(World::default(), Options::default());

    let response = webhook.review(&asking_for("vault")).await;

    let clause = json!({"clause": "projected-volume"});
    assert_eq!(response, json!({"uid": "review-1", "allowed": true, "auditAnnotations": clause}));
}

#[tokio::test]
async fn the_api_servers_own_audience_is_what_a_pod_mounts() {
    let known = Webhook::new(World::default(), Options::default());
    let ignorant = Webhook::ignorant(World::default(), Options::default());

    let response = known.review(&asking_for(API)).await;
    assert_eq!(response["auditAnnotations"]["clause"], "projected-volume");

    let refused = ignorant.review(&asking_for(API)).await;
    let message = "the API server could not be asked: its own audiences are not known yet";
    assert_eq!(refused["status"]["message"], message);
    assert_eq!(refused["status"]["code"], 503);
    assert_eq!(ignorant.review(&asking_for("vault")).await["allowed"], true);
    let probe = ignorant
        .health
        .probe(Duration::from_secs(10), || async { Ok::<_, Infallible>(vec![API.into()]) });
    let learnt = async {
        tokio::task::yield_now().await;
        ignorant.review(&asking_for(API)).await
    };
    let response = tokio::select! {
        () = probe => panic!("a probe never ends"),
        response = learnt => response,
    };
    assert_eq!(response["auditAnnotations"]["clause"], "projected-volume");
}

#[tokio::test]
async fn an_audience_that_nothing_allows_is_refused_in_upstreams_words() {
    let webhook = Webhook::new(World::default(), Options::default());

    let response = webhook.review(&asking_for("other")).await;

    let message = "serviceaccounts \"builder\" is forbidden: \
                   system:node:n is not authorized to request tokens for audience \"other\"";
    assert_eq!(
        response,
        json!({
            "uid": "review-1",
            "allowed": false,
            "auditAnnotations": {"clause": "not-authorized"},
            "status": {"status": "Failure", "message": message, "reason": "Forbidden", "code": 403},
        })
    );
}

#[tokio::test]
async fn a_pod_that_is_not_there_is_not_found() {
    let webhook = Webhook::new(World::default(), Options::default());
    let mut review = asking_for("vault");
    review["request"]["object"]["spec"]["boundObjectRef"]["name"] = json!("gone");

    let response = webhook.review(&review).await;

    assert_eq!(response["status"]["code"], 404);
    assert_eq!(response["status"]["reason"], "NotFound");
    assert_eq!(response["auditAnnotations"]["clause"], "pod-not-found");
}

#[tokio::test]
async fn the_list_and_the_authorizer_allow_other_audiences() {
    let mut listed = Options::default();
    listed.policy.allowed_kubelet_audiences = vec!["other".to_owned()];
    let world = World { opinion: Opinion::allow("a role"), ..World::default() };
    for (webhook, clause) in [
        (Webhook::new(World::default(), listed), "allowed-kubelet-audiences"),
        (Webhook::new(world, Options::default()), "authorizer"),
    ] {
        let response = webhook.review(&asking_for("other")).await;

        assert_eq!(response["allowed"], true);
        assert_eq!(response["auditAnnotations"]["clause"], clause);
    }
}

#[tokio::test]
async fn a_dry_run_is_judged_alike_and_people_are_not_judged() {
    let webhook = Webhook::new(World::default(), Options::default());
    let mut dry = asking_for("other");
    dry["request"]["dryRun"] = json!(true);
    let mut person = asking_for("other");
    person["request"]["userInfo"] = json!({"username": "ada", "groups": ["system:authenticated"]});

    assert_eq!(webhook.review(&dry).await["status"]["code"], 403);
    let response = webhook.review(&person).await;
    assert_eq!(response["allowed"], true);
    assert_eq!(response["auditAnnotations"]["clause"], "not-a-node");
}

#[tokio::test]
async fn without_the_api_server_a_token_is_refused_unless_chosen_otherwise() {
    let denies = Webhook::new(unanswered(), Options::default());
    let allows = Webhook::new(unanswered(), allowing());
    let reason = "the API server could not be asked: connection refused";

    let refused = denies.review(&asking_for("vault")).await;
    let allowed = allows.review(&asking_for("vault")).await;

    let status = json!({
        "status": "Failure",
        "message": reason,
        "reason": "ServiceUnavailable",
        "code": 503,
        "details": {"retryAfterSeconds": 1},
    });
    assert_eq!(refused["status"], status);
    let warning = format!("keyfob allowed this without a decision: {reason}");
    assert_eq!((&allowed["allowed"], &allowed["warnings"]), (&json!(true), &json!([warning])));
    for (webhook, outcome) in [(denies, "refused"), (allows, "allowed")] {
        let line = format!(
            "keyfob_audience_undecided_total{{cause=\"api-server-unanswered\",outcome=\"{outcome}\"}} 1\n"
        );
        let metrics = webhook.get("/metrics").await.text;
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[tokio::test]
async fn an_error_of_the_authorizer_is_a_decision_whatever_is_chosen() {
    // A binding to a role that is gone gives such an error with every review.
    let opinion = Opinion { error: Some("role gone".to_owned()), ..Opinion::default() };
    let webhook = Webhook::new(World { opinion, ..World::default() }, allowing());

    let response = webhook.review(&asking_for("other")).await;

    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
    assert_eq!(response["auditAnnotations"]["clause"], "authorizer-error");
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_in_time_however_slow_the_api_server_is() {
    let world = World { delay: Duration::from_mins(1), ..World::default() };
    let webhook = Webhook::new(world, Options::default());
    for (path, within) in [
        ("/validate", 4000),
        ("/validate?timeout=30s", 4000),
        ("/validate?timeout=2s", 1750),
        ("/validate?timeout=100ms", 75),
        ("/validate?timeout=soon", 4000),
        ("/validate?other=2s", 4000),
    ] {
        let asked = Instant::now();

        let response = webhook.review_at(path, &asking_for("vault")).await;

        assert_eq!(asked.elapsed().as_millis(), within, "{path}");
        assert_eq!(response["auditAnnotations"]["clause"], "out-of-time");
        assert_eq!(response["status"]["code"], 503);
    }
    let allows =
        Webhook::new(World { delay: Duration::from_mins(1), ..World::default() }, allowing());
    let response = allows.review(&asking_for("vault")).await;
    let warning = "keyfob allowed this without a decision: there was no decision within 4s";
    assert_eq!((&response["allowed"], &response["warnings"]), (&json!(true), &json!([warning])));
}

#[tokio::test(start_paused = true)]
async fn too_many_at_once_are_refused_at_once_even_if_all_is_allowed() {
    let world = World { delay: Duration::from_secs(1), ..World::default() };
    let webhook = Webhook::new(world, Options { at_once: 2, ..allowing() });
    let review = asking_for("vault");
    let asked = Instant::now();
    let last = async {
        tokio::task::yield_now().await;
        let response = webhook.review(&review).await;
        (response, asked.elapsed())
    };

    let (first, second, (last, after)) =
        tokio::join!(webhook.review(&review), webhook.review(&review), last);

    assert_eq!((&first["allowed"], &second["allowed"]), (&json!(true), &json!(true)));
    assert_eq!(after, Duration::ZERO);
    assert_eq!(last["status"]["code"], 429);
    assert_eq!(last["status"]["details"]["retryAfterSeconds"], 1);
    assert_eq!(webhook.review(&review).await["allowed"], true);
}

#[tokio::test]
async fn what_it_does_not_judge_passes_with_a_warning() {
    let webhook = Webhook::new(World::default(), Options::default());
    for (pointer, value, what) in [
        ("/request/operation", "UPDATE", "UPDATE of serviceaccounts/token"),
        ("/request/subResource", "", "CREATE of serviceaccounts"),
        ("/request/resource/resource", "pods", "CREATE of pods/token"),
    ] {
        let mut review = asking_for("other");
        *review.pointer_mut(pointer).unwrap() = json!(value);

        let response = webhook.review(&review).await;

        let warning = format!("keyfob judges only CREATE of serviceaccounts/token, not {what}");
        assert_eq!(
            (&response["allowed"], &response["warnings"]),
            (&json!(true), &json!([warning]))
        );
    }
}

#[tokio::test]
async fn what_is_no_token_request_is_refused() {
    let webhook = Webhook::new(World::default(), allowing());
    for object in [Value::Null, json!({"kind": "Pod", "apiVersion": "v1"}), json!("text")] {
        let mut review = asking_for("vault");
        review["request"]["object"] = object;

        let response = webhook.review(&review).await;

        let message = "the object of the request is no TokenRequest";
        assert_eq!(response["status"]["message"], message);
        assert_eq!(
            (&response["allowed"], &response["status"]["code"]),
            (&json!(false), &json!(400))
        );
    }
}

#[tokio::test]
async fn a_review_that_does_not_say_who_asks_is_refused() {
    let webhook = Webhook::new(World::default(), allowing());
    for user in [json!({}), json!({"groups": ["system:nodes"]}), json!({"username": ""})] {
        let mut review = asking_for("other");
        review["request"]["userInfo"] = user;

        let response = webhook.review(&review).await;

        assert_eq!(
            (&response["allowed"], &response["status"]["code"]),
            (&json!(false), &json!(400))
        );
        assert_eq!(response["auditAnnotations"]["clause"], "malformed");
    }
}

#[tokio::test]
async fn what_is_no_review_is_a_client_error_with_a_status() {
    let webhook = Webhook::new(World::default(), allowing());
    let mut beta = asking_for("vault");
    beta["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let empty = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"});
    let large = format!("\"{}\"", "x".repeat(3 << 20));
    for (content_type, body, code, message) in [
        ("text/plain", asking_for("vault").to_string(), 415, "application/json"),
        ("application/json", format!("{{\"{TOKEN}"), 400, "no AdmissionReview: line 1, column"),
        ("application/json; charset=utf-8", beta.to_string(), 400, "admissionReviewVersions"),
        ("application/json", empty.to_string(), 400, "has no request"),
        ("application/json", large, 413, "length limit exceeded"),
    ] {
        let said = webhook.post("/validate", content_type, body).await;

        assert_eq!(said.status.as_u16(), code, "{}", said.text);
        let status: Value = serde_json::from_str(&said.text).unwrap();
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(code)));
        assert!(status["message"].as_str().unwrap().contains(message), "{status}");
        LeakCheck::new([TOKEN]).text("an answer", &said.text);
    }
    assert_eq!(webhook.get("/validate").await.status, StatusCode::METHOD_NOT_ALLOWED);
}
