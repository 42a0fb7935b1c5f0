//! `ecr-credential-provider`, from its stdin to the hosts it asks.
//!
//! A process, because Amazon's SDK reads the real environment. `support/ecr.rs` looks for secrets in everything that is
//! said on stderr.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers; it runs the program under test"
)]

mod chain;
#[path = "../support/ecr.rs"]
mod ecr;
mod pods;

use std::sync::atomic::{AtomicUsize, Ordering};

use ecr::{IMAGE, Node, PASSWORD, amazon, amz_json, login, public_token, refusal, token};
use keyfob_testkit::Response;
use serde_json::json;

const HOST: &str = "123456789012.dkr.ecr.us-west-2.amazonaws.com";

#[test]
fn a_registry_is_logged_in_to_by_the_api_of_its_region() {
    let node = Node::new(amazon).env("AWS_REGION", "eu-central-1");

    let answer = node.ask(IMAGE).answer();

    assert_eq!(answer["kind"], "CredentialProviderResponse");
    assert_eq!(answer["cacheKeyType"], "Registry");
    assert_eq!(answer["auth"], json!({HOST: {"username": "AWS", "password": PASSWORD}}));
    let lasting = answer["cacheDuration"].as_str().unwrap();
    assert!(["6h0m0s", "5h59m59s", "5h59m58s"].contains(&lasting), "half of 12 h: {lasting}");
    let asked = node.internet.requests();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].tls && asked[0].method == "POST" && asked[0].target == "/");
    assert_eq!(asked[0].host, "api.ecr.us-west-2.amazonaws.com");
    assert_eq!(
        (asked[0].body.as_str(), asked[0].header("content-type")),
        ("{}", Some("application/x-amz-json-1.1"))
    );
    assert_eq!(
        asked[0].header("x-amz-target"),
        Some("AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken")
    );
    let signed = asked[0].header("authorization").unwrap();
    assert!(signed.contains("AKIANODE/") && signed.contains("/us-west-2/ecr/"), "{signed}");
}

#[test]
fn every_kind_of_host_has_its_api() {
    let rows = [
        ("dkr.ecr-fips.us-east-1.amazonaws.com", "api.ecr-fips.us-east-1.amazonaws.com"),
        ("dkr-ecr.us-east-1.on.aws", "ecr.us-east-1.api.aws"),
        ("dkr.ecr.us-east-1.on.aws", "ecr.us-east-1.api.aws"),
        ("dkr-ecr-fips.us-west-2.on.aws", "ecr-fips.us-west-2.api.aws"),
        (
            "dkr-ecr.cn-north-1.on.amazonwebservices.com.cn",
            "ecr.cn-north-1.api.amazonwebservices.com.cn",
        ),
        ("dkr.ecr.cn-northwest-1.amazonaws.com.cn", "api.ecr.cn-northwest-1.amazonaws.com.cn"),
        ("dkr.ecr.eusc-de-east-1.amazonaws.eu", "api.ecr.eusc-de-east-1.amazonaws.eu"),
        ("dkr.ecr.us-iso-east-1.c2s.ic.gov", "api.ecr.us-iso-east-1.c2s.ic.gov"),
        ("dkr.ecr.us-isob-east-1.sc2s.sgov.gov", "api.ecr.us-isob-east-1.sc2s.sgov.gov"),
        ("dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk", "api.ecr.eu-isoe-west-1.cloud.adc-e.uk"),
        ("dkr.ecr.us-isof-south-1.csp.hci.ic.gov", "api.ecr.us-isof-south-1.csp.hci.ic.gov"),
        ("DKR.ECR.US-WEST-2.AMAZONAWS.COM", "api.ecr.us-west-2.amazonaws.com"),
        ("dkr.ecr.us-west-2.amazonaws.com:443", "api.ecr.us-west-2.amazonaws.com"),
    ];
    for (host, api) in rows {
        let host = format!("123456789012.{host}");
        let node = Node::new(amazon);

        let answer = node.ask(&format!("{host}/app")).answer();

        assert_eq!(node.asked(), [api], "{host}");
        let key = answer["auth"].as_object().unwrap().keys().next().unwrap();
        assert_eq!(*key, host, "a kubelet compares case and port");
    }
}

#[test]
fn the_public_registry_has_an_api_of_its_own() {
    let rows = [
        ("public.ecr.aws", "api.ecr-public.us-east-1.amazonaws.com"),
        ("ecr-public.aws.com", "ecr-public.us-east-1.api.aws"),
    ];
    for (host, api) in rows {
        let node = Node::new(amazon).env("AWS_REGION", "eu-central-1");

        let answer = node.ask(&format!("{host}/nginx/nginx")).answer();

        assert_eq!(answer["auth"], json!({host: {"username": "AWS", "password": PASSWORD}}));
        let asked = node.internet.requests();
        assert_eq!((asked.len(), asked[0].host.as_str()), (1, api));
        let target = asked[0].header("x-amz-target").unwrap();
        assert_eq!(target, "SpencerFrontendService.GetAuthorizationToken");
        let signed = asked[0].header("authorization").unwrap();
        assert!(signed.contains("/us-east-1/ecr-public/"), "{signed}");
    }
}

#[test]
fn the_environment_can_ask_for_fips_and_dual_stack_too() {
    let node = Node::new(amazon).env("AWS_USE_FIPS_ENDPOINT", "true");
    node.ask(IMAGE).answer();
    assert_eq!(node.asked(), ["api.ecr-fips.us-west-2.amazonaws.com"]);

    let node = Node::new(amazon).env("AWS_USE_DUALSTACK_ENDPOINT", "true");
    node.ask("123456789012.dkr.ecr-fips.us-west-2.amazonaws.com/app").answer();
    assert_eq!(node.asked(), ["ecr-fips.us-west-2.api.aws"]);
}

#[test]
fn a_host_that_is_not_ecr_is_refused_before_anything_is_asked() {
    for image in
        ["nginx", "r.io/app", "evil.example/123456789012.dkr.ecr.us-west-2.amazonaws.com/app"]
    {
        let node = Node::bare(amazon);

        let said = node.ask(image);

        assert!(said.failure().contains("is not a registry of ECR"), "{}", said.stderr);
        assert!(node.asked().is_empty(), "{image}");
    }
}

#[test]
fn a_token_that_has_ended_is_no_answer() {
    for ends_in in [-60, 0] {
        let node = Node::new(move |_| token(&login(), Some(ends_in)));

        let said = node.ask(IMAGE);

        assert!(said.failure().contains("the credential that was issued ended at"), "{ends_in}");
    }
}

#[test]
fn a_token_without_an_end_or_near_it_is_not_kept() {
    for (ends_in, lasting) in [(None, "0s"), (Some(2), "0s")] {
        let node = Node::new(move |_| token(&login(), ends_in));

        assert_eq!(node.ask(IMAGE).answer()["cacheDuration"], lasting, "{ends_in:?}");
    }
}

#[test]
fn throttling_is_met_with_patience() {
    for (status, code) in [(400, "ThrottlingException"), (503, "ServiceUnavailable")] {
        let times = AtomicUsize::new(0);
        let node = Node::new(move |request| match times.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => refusal(status, code, "Rate exceeded"),
            _ => amazon(request),
        });

        node.ask(IMAGE).answer();

        assert_eq!(node.asked().len(), 3, "{code}");
    }
}

#[test]
fn what_aws_refuses_is_said_with_its_reason_and_the_way_out() {
    let no = |_: &_| refusal(400, "AccessDeniedException", "User: arn:x is not authorized");

    let said = Node::new(no).ask(IMAGE);
    let failure = said.failure();
    assert!(failure.contains("AccessDeniedException: User: arn:x is not authorized"), "{failure}");
    assert!(failure.contains("must be allowed ecr:GetAuthorizationToken"), "{failure}");
    let said = Node::new(no).ask("public.ecr.aws/a/b");
    let failure = said.failure();
    assert!(
        failure.contains("ecr-public:GetAuthorizationToken and sts:GetServiceBearerToken"),
        "{failure}"
    );
}

#[test]
fn an_answer_without_a_login_is_a_failure_that_does_not_quote_it() {
    let rows = [
        (json!({}), "response output from ECR was nil"),
        (json!({"authorizationData": []}), "response output from ECR was nil"),
        (json!({"authorizationData": [{}]}), "authorization token in response was nil"),
    ];
    for (body, told) in rows {
        let said = Node::new(move |_| amz_json(&body)).ask(IMAGE);
        assert!(said.failure().contains(told), "{}", said.stderr);
    }
    let told = "error parsing username and password from authorization token";
    let said = Node::new(|_| token(PASSWORD, None)).ask(IMAGE);
    assert!(said.failure().contains(told), "{}", said.stderr);
    let said = Node::new(|_| public_token(PASSWORD, None)).ask("ecr-public.aws.com");
    assert!(said.failure().contains(told), "{}", said.stderr);
}

#[test]
fn an_api_that_does_not_answer_is_named_when_the_time_is_up() {
    let node = Node::new(|_| Response::never()).args(&["--deadline", "1"]);

    let said = node.ask(IMAGE);

    let told = "gave up after 1.0 s, the last ";
    let failure = said.failure();
    assert!(
        failure.contains(told) && failure.contains("asking ECR in us-west-2 for a token"),
        "{failure}"
    );
}

#[test]
fn an_api_that_cannot_be_reached_is_named() {
    let node =
        Node::new(amazon).env("HTTPS_PROXY", "http://127.0.0.1:1").args(&["--deadline", "30"]);

    let said = node.ask(IMAGE);

    let failure = said.failure();
    assert!(failure.contains("POST https://api.ecr.us-west-2.amazonaws.com/: "), "{failure}");
}

#[test]
fn words_of_old_configurations_are_ignored() {
    Node::new(amazon).args(&["get-credentials"]).ask(IMAGE).answer();
}

#[test]
fn a_docker_client_gets_its_login() {
    let server = "https://123456789012.dkr.ecr.us-east-1.amazonaws.com";
    let node = Node::new(amazon).args(&["get"]);

    let said = node.run(server);

    let answer: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(answer, json!({"ServerURL": server, "Username": "AWS", "Secret": PASSWORD}));
    assert_eq!(node.asked(), ["api.ecr.us-east-1.amazonaws.com"]);
}

#[test]
fn the_help_tells_of_flags_and_variables() {
    let said = Node::bare(amazon).args(&["--help"]).run("");

    for told in [
        "--role-annotation",
        "--fallback",
        "--ca-file",
        "AWS_ECR_ROLE_ARN",
        "AWS_PROFILE",
        "AWS_REGION",
    ] {
        assert!(said.stdout.contains(told), "{told} in {}", said.stdout);
    }
}
