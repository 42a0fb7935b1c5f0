//! Pods with an identity of their own.

use keyfob_testkit::{Request, Response};
use serde_json::{Value, json};

use crate::ecr::{
    IMAGE, NODE_SECRET, Node, POD_TOKEN, ROLE_SECRET, SESSION_TOKEN, amazon, refusal,
};

const ECR_ROLE: &str = "eks.amazonaws.com/ecr-role-arn";
const POD_ROLE: &str = "eks.amazonaws.com/role-arn";

/// The role that STS was asked for, and what it was asked with.
fn role_asked_for(node: &Node) -> Option<String> {
    let requests = node.internet.requests();
    let request = requests.iter().find(|request| request.host.starts_with("sts"))?;
    let field = |name: &str| {
        let field = request.body.split('&').find_map(|field| field.strip_prefix(name));
        field.unwrap_or_default().replace("%3A", ":").replace("%2F", "/")
    };
    assert_eq!(field("Action="), "AssumeRoleWithWebIdentity");
    assert_eq!(field("RoleSessionName="), "ecr-credential-provider");
    assert_eq!(field("WebIdentityToken="), POD_TOKEN);
    assert_eq!(request.header("authorization"), None, "the pod's token is all there is");
    Some(field("RoleArn="))
}

#[test]
fn the_role_of_the_service_account_asks_ecr() {
    let node = Node::new(amazon);

    node.ask_for_pod(IMAGE, &json!({ECR_ROLE: "arn:aws:iam::1:role/pull"})).answer();

    assert_eq!(node.asked(), ["sts.us-west-2.amazonaws.com", "api.ecr.us-west-2.amazonaws.com"]);
    assert_eq!(role_asked_for(&node).unwrap(), "arn:aws:iam::1:role/pull");
    let requests = node.internet.requests();
    assert!(requests[1].header("authorization").unwrap().contains("ASIAROLE/"));
}

#[test]
fn the_first_annotation_that_is_there_decides() {
    let rows: [(Value, &[&str], Option<&str>); 8] = [
        (json!({POD_ROLE: "arn:pod"}), &[], Some("arn:pod")),
        (json!({ECR_ROLE: "arn:ecr", POD_ROLE: "arn:pod"}), &[], Some("arn:ecr")),
        (
            json!({ECR_ROLE: "arn:ecr", POD_ROLE: "arn:pod"}),
            &["--role-annotation", POD_ROLE],
            Some("arn:pod"),
        ),
        (json!({"a": "arn:a", "b": "arn:b"}), &["--role-annotation=b,a"], Some("arn:b")),
        (json!({"a": "arn:a"}), &["--role-annotation=b", "--role-annotation=a"], Some("arn:a")),
        (json!({ECR_ROLE: "", POD_ROLE: "arn:pod"}), &["--role-arn=arn:flag"], None),
        (json!({}), &["--role-arn=arn:flag"], Some("arn:flag")),
        (json!({"other": "arn:x"}), &[], None),
    ];
    for (annotations, args, role) in rows {
        let node = Node::new(amazon).args(args);

        node.ask_for_pod(IMAGE, &annotations).answer();

        assert_eq!(role_asked_for(&node).as_deref(), role, "{annotations} {args:?}");
    }
}

#[test]
fn the_peers_variable_names_a_role_for_all() {
    let node = Node::new(amazon).env("AWS_ECR_ROLE_ARN", "arn:env");
    node.ask_for_pod(IMAGE, &json!({})).answer();
    assert_eq!(role_asked_for(&node).as_deref(), Some("arn:env"));

    let node = Node::new(amazon).env("AWS_ECR_ROLE_ARN", "arn:env");
    node.ask(IMAGE).answer();
    assert_eq!(role_asked_for(&node), None, "there is no token to ask with");
}

#[test]
fn a_role_that_is_not_granted_is_the_end() {
    let no = |request: &Request| match request.host.as_str() {
        "sts.us-west-2.amazonaws.com" => Response::text(
            "<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code>\
             <Message>No OpenIDConnect provider found</Message></Error></ErrorResponse>",
        )
        .with_status(400),
        _ => amazon(request),
    };
    let node = Node::new(no);

    let said = node.ask_for_pod(IMAGE, &json!({ECR_ROLE: "arn:expected"}));

    let told = "failed to assume role: InvalidIdentityToken: No OpenIDConnect provider found (arn:expected)";
    assert!(said.failure().contains(told), "{}", said.stderr);
    assert_eq!(
        node.asked(),
        ["sts.us-west-2.amazonaws.com"],
        "the node's login is not used instead"
    );
}

#[test]
fn without_a_role_the_node_is_asked_only_if_that_is_wanted() {
    let node = Node::new(amazon);
    node.ask_for_pod(IMAGE, &json!({})).answer();
    assert_eq!(node.asked(), ["api.ecr.us-west-2.amazonaws.com"]);

    let node = Node::new(amazon).args(&["--fallback=none"]);
    let said = node.ask_for_pod(IMAGE, &json!({}));
    let failure = said.failure();
    assert!(failure.contains(&format!("names no role in {ECR_ROLE} or {POD_ROLE}")), "{failure}");
    let said = node.ask(IMAGE);
    assert!(said.failure().contains("set tokenAttributes"), "{}", said.stderr);
    assert!(node.asked().is_empty());
}

#[test]
fn sts_is_asked_at_home_for_the_public_registry() {
    for (region, sts) in
        [("", "sts.us-east-1.amazonaws.com"), ("eu-west-1", "sts.eu-west-1.amazonaws.com")]
    {
        let node = Node::new(amazon).env("AWS_REGION", region);

        node.ask_for_pod("public.ecr.aws/a/b", &json!({ECR_ROLE: "arn:x"})).answer();

        assert_eq!(node.asked(), [sts, "api.ecr-public.us-east-1.amazonaws.com"]);
    }
}

#[test]
fn sts_is_asked_beside_the_registry_whatever_the_nodes_region_is() {
    let node = Node::new(amazon).env("AWS_REGION", "eu-west-1");

    node.ask_for_pod(IMAGE, &json!({ECR_ROLE: "arn:x"})).answer();

    assert_eq!(node.asked(), ["sts.us-west-2.amazonaws.com", "api.ecr.us-west-2.amazonaws.com"]);
}

#[test]
fn what_aws_repeats_of_an_identity_is_not_told() {
    let node = Node::new(|request| match request.header("authorization") {
        Some(signed) if signed.contains("AKIANODE/") => {
            refusal(400, "Odd", &format!("no {NODE_SECRET}"))
        }
        Some(_) => refusal(400, "Odd", &format!("no {ROLE_SECRET} and {SESSION_TOKEN}")),
        None => amazon(request),
    });
    let of_node = node.ask(IMAGE);
    let of_role = node.ask_for_pod(IMAGE, &json!({ECR_ROLE: "arn:x"}));

    assert!(of_node.failure().ends_with("Odd: no [redacted]\n"), "{}", of_node.stderr);
    assert!(of_role.failure().ends_with("no [redacted] and [redacted]\n"), "{}", of_role.stderr);
}
