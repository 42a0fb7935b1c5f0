//! `acr-credential-provider` against an Azure on loopback: the metadata service, Microsoft Entra ID, registries, a resource
//! manager and a cluster's API server, written from their documentation.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "acr/azure.rs"]
mod azure;

use std::sync::atomic::{AtomicBool, Ordering};

use azure::{ANNOTATED, Azure, CLIENT, IMAGE, LIFE, NODE, POD, SECRET, TENANT, refresh_token};
use keyfob_plugin::{CacheKeyType, testing::Asking};
use keyfob_testkit::{Internet, LeakCheck, Request, Response};

const MANAGED: &str = r#"{"useManagedIdentityExtension":true,"tenantId":"node-tenant"}"#;
const PRINCIPAL: &str =
    r#"{"tenantId":"node-tenant","aadClientId":"principal","aadClientSecret":"hunter2-secret"}"#;
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

fn with_token(image: &str) -> Asking {
    let [(client, client_id), (tenant, tenant_id)] = ANNOTATED;
    Asking::about(image).token(POD).annotation(client, client_id).annotation(tenant, tenant_id)
}

#[tokio::test]
async fn the_nodes_managed_identity_gets_a_refresh_token_of_the_registry() {
    let azure = Azure::new(MANAGED);

    let answer = azure.answer(Asking::about(IMAGE)).await;

    assert_eq!(answer.logins(), [("foo.azurecr.io", NOBODY, refresh_token(LIFE).as_str())]);
    assert_eq!(answer.key_type, CacheKeyType::Registry);
    assert!((8640..=9720).contains(&answer.seconds), "{} of three hours", answer.seconds);
    let [imds, challenge, exchange] = &azure.requests()[..] else { panic!("three requests") };
    assert_eq!(imds.path(), "/metadata/identity/oauth2/token");
    assert_eq!(query(imds, "resource").as_deref(), Some("https://containerregistry.azure.net"));
    assert_eq!((query(imds, "client_id"), query(imds, "msi_res_id")), (None, None));
    for request in [challenge, exchange] {
        assert_eq!(request.header("user-agent"), Some("kubernetes-credentialprovider-acr"));
    }
    let form = "service=foo.azurecr.io&grant_type=access_token_refresh_token&access_token=aad-of-node-hunter2\
                &refresh_token=aad-of-node-hunter2&tenant=node-tenant";
    assert_eq!((exchange.path(), exchange.body.as_str()), ("/oauth2/exchange", form));
}

#[tokio::test]
async fn a_user_assigned_identity_is_named_by_client_or_by_resource() {
    let resource = "/Subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i";
    for (id, parameter) in [("some-client", "client_id"), (resource, "msi_res_id")] {
        let azure = Azure::new(format!(
            r#"{{"useManagedIdentityExtension":true,"userAssignedIdentityID":"{id}"}}"#
        ));
        azure.answer(Asking::about(IMAGE)).await;
        assert_eq!(query(&azure.requests()[0], parameter).as_deref(), Some(id));
        assert!(!azure.requests()[2].body.contains("tenant"), "none is known");
    }
}

#[tokio::test]
async fn a_service_principals_secret_is_traded_and_never_handed_out() {
    let azure = Azure::new(PRINCIPAL);

    let answer = azure.answer(Asking::about(IMAGE)).await;

    assert_eq!(answer.logins(), [("foo.azurecr.io", NOBODY, refresh_token(LIFE).as_str())]);
    let token = &azure.requests()[0];
    assert_eq!(token.host, "login.microsoftonline.com");
    assert_eq!(token.path(), "/node-tenant/oauth2/v2.0/token");
    assert_eq!(form(token, "client_secret").as_deref(), Some(SECRET));
}

#[tokio::test]
async fn a_principals_own_secret_is_handed_out_only_when_asked_for() {
    let without_tenant = r#"{"aadClientId":"foo","aadClientSecret":"bar"}"#;
    let azure = Azure::new(without_tenant).flag("--legacy-service-principal");
    let keys = ["*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"];
    let mut expected = keys.map(|key| (key, "foo", "bar")).to_vec();

    let answer = azure.answer(Asking::about("foo.azurecr.io/nginx:v1")).await;
    assert_eq!(answer.sorted(), sorted(&expected));
    assert_eq!((answer.seconds, answer.key_type), (3600, CacheKeyType::Registry));

    let regional = azure.answer(Asking::about("foo.eastus2.geo.azurecr.io/nginx:v1")).await;
    expected.push(("foo.eastus2.geo.azurecr.io", "foo", "bar"));
    assert_eq!(regional.sorted(), sorted(&expected));
    assert_eq!(azure.requests().len(), 0);
}

#[tokio::test]
async fn what_a_mirror_stands_in_for_never_gets_the_principals_secret() {
    let azure = Azure::new(PRINCIPAL)
        .flag("--legacy-service-principal")
        .flag("-r=mcr.microsoft.com:foo.azurecr.io");

    let answer = azure.answer(Asking::about("mcr.microsoft.com/app")).await;

    assert!(answer.logins().iter().all(|(_, user, _)| *user == NOBODY), "{:?}", answer.logins());
}

#[tokio::test]
async fn a_pod_speaks_for_itself_in_its_own_tenant_whatever_the_node_is() {
    for config in [MANAGED, PRINCIPAL, r#"{"tenantId":"node-tenant"}"#] {
        for flags in [&[][..], &["--legacy-service-principal"]] {
            let azure = flags.iter().fold(Azure::new(config), |azure, flag| azure.flag(flag));

            let answer = azure.answer(with_token(IMAGE)).await;

            assert_eq!(answer.logins(), [("foo.azurecr.io", NOBODY, refresh_token(LIFE).as_str())]);
            let [token, _, exchange] = &azure.requests()[..] else { panic!("three requests") };
            assert_eq!(token.path(), format!("/{TENANT}/oauth2/v2.0/token"));
            assert_eq!(form(token, "client_assertion").as_deref(), Some(POD));
            assert_eq!(form(token, "client_id").as_deref(), Some(CLIENT));
            let scope = "https://containerregistry.azure.net/.default";
            assert_eq!(form(token, "scope").as_deref(), Some(scope));
            assert_eq!(form(exchange, "tenant").as_deref(), Some(TENANT), "not the node's");
        }
    }
}

#[tokio::test]
async fn a_pod_that_does_not_say_who_it_is_gets_nothing_of_the_nodes() {
    let azure = Azure::new(MANAGED);
    let [client, tenant] = ANNOTATED;
    for (key, value, expected) in [
        (tenant.0, tenant.1, "client id annotation"),
        (client.0, client.1, "tenant id annotation"),
        (client.0, "", "client id annotation"),
    ] {
        let failure = azure.failure(Asking::about(IMAGE).token(POD).annotation(key, value)).await;
        assert!(failure.contains(expected), "{failure}");
    }
    assert_eq!(azure.requests().len(), 0);
}

#[tokio::test]
async fn a_mirrored_image_is_pulled_as_the_node_under_both_names() {
    let azure = Azure::new(MANAGED).flag("--registry-mirror=mcr.microsoft.com:foo.azurecr.io");

    let answer = azure.answer(with_token("mcr.microsoft.com/azure-cli:latest")).await;

    let token = refresh_token(LIFE);
    let expected =
        [("foo.azurecr.io", NOBODY, token.as_str()), ("mcr.microsoft.com", NOBODY, &token)];
    assert_eq!(answer.sorted(), sorted(&expected));
    assert_eq!(azure.requests()[0].path(), "/metadata/identity/oauth2/token");
}

#[tokio::test]
async fn a_host_that_is_not_azures_is_refused_before_any_call() {
    let azure = Azure::new(MANAGED);
    for image in [
        "docker.io/library/busybox",
        "evilazurecr.io/x",
        "docker/foo.azurecr.io/bar",
        "foo.eastus2.data.azurecr.io/x",
        "foo.azurecr.io:443/x",
        "foo.azurecr.io.example/x",
    ] {
        let answer = azure.answer(with_token(image)).await;
        assert_eq!((answer.logins().len(), answer.seconds), (0, 0), "{image}");
    }
    assert_eq!(azure.requests().len(), 0);
}

#[tokio::test]
async fn a_challenge_that_is_none_ends_the_conversation() {
    let valid = r#"realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io""#;
    let elsewhere = r#"Bearer realm="https://evil.example/oauth2/token",service="foo.azurecr.io""#;
    let rows: &[(u16, &[&str], &str)] = &[
        (200, &[], "valid AAD challenge, status: 200"),
        (302, &[&format!("Bearer {valid}")], "valid AAD challenge, status: 302"),
        (401, &[], "does not contain header 'Www-Authenticate'"),
        (401, &["a", "b"], "authenticate header [a, b]"),
        (401, &[&format!("Auth {valid}")], "expected realm: Bearer, actual: auth"),
        (401, &["Basic"], "expected realm: Bearer, actual: basic"),
        (401, &[r#"Bearer realm="x",service="""#], "missing header \"service\""),
        (401, &[&format!("Bearer {valid},extra=")], "not a list of"),
        (401, &[elsewhere], "names a realm elsewhere"),
    ];
    for (status, headers, expected) in rows {
        let status = *status;
        let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
        let azure = Azure::with(MANAGED, move |request| {
            let first = Response::status(status).header("Location", "https://evil.example/");
            let with = |answer: Response, header| answer.header("Www-Authenticate", header);
            let answer = headers.iter().map(String::as_str).fold(first, with);
            (request.path() == "/v2/").then_some(answer)
        });
        let failure = azure.failure(Asking::about(IMAGE)).await;
        assert!(failure.contains(expected), "{failure}");
        assert_eq!(azure.requests().len(), 2, "the token goes nowhere: {expected}");
    }
}

#[tokio::test]
async fn parameters_without_quotes_are_read_as_the_rfc_has_them() {
    for header in [
        r#"Bearer service=foo.azurecr.io,realm="https://foo.azurecr.io/oauth2/token""#,
        r#"Bearer realm="https://foo.azurecr.io/oauth2/token",service=foo.azurecr.io"#,
    ] {
        let azure = Azure::with(MANAGED, move |request| {
            let answer = Response::status(401).header("Www-Authenticate", header);
            (request.path() == "/v2/").then_some(answer)
        });
        azure.answer(Asking::about(IMAGE)).await;
        assert_eq!(form(&azure.requests()[2], "service").as_deref(), Some("foo.azurecr.io"));
    }
}

#[tokio::test]
async fn an_endpoint_in_a_region_may_send_us_home_to_its_registry() {
    let azure = Azure::with(MANAGED, |request| {
        let realm = r#"Bearer realm="https://demo-abc123.azurecr.io/oauth2/token",service="s""#;
        let answer = Response::status(401).header("Www-Authenticate", realm);
        (request.path() == "/v2/").then_some(answer)
    });

    let answer = azure.answer(Asking::about("demo-abc123.eastus2.geo.azurecr.io/app")).await;

    assert_eq!(answer.logins()[0].0, "demo-abc123.eastus2.geo.azurecr.io");
    let hosts: Vec<String> = azure.requests().into_iter().skip(1).map(|seen| seen.host).collect();
    assert_eq!(hosts, ["demo-abc123.eastus2.geo.azurecr.io", "demo-abc123.azurecr.io"]);
}

#[tokio::test]
async fn an_exchange_without_a_living_token_is_a_failure() {
    let gone = Response::status(404).header("X-Ms-Correlation-Request-Id", "c0ffee");
    let ended = format!(r#"{{"refresh_token":"{}"}}"#, refresh_token(-1));
    let rows = [
        (gone, "responded with status code 404 (correlation ID c0ffee)"),
        (Response::json("{}"), "without a refresh token"),
        (Response::json(r#"{"refresh_token":""}"#), "without a refresh token"),
        (Response::text("hunter2-body"), "not the JSON that was expected"),
        (Response::json(ended), "ended at"),
    ];
    for (response, expected) in rows {
        let azure = Azure::with(MANAGED, move |request| {
            (request.path() == "/oauth2/exchange").then(|| response.clone())
        });
        let failure = azure.failure(Asking::about(IMAGE)).await;
        assert!(failure.contains(expected), "{failure}");
    }
}

#[tokio::test]
async fn a_token_that_does_not_say_when_it_ends_is_kept_for_an_hour() {
    let azure = Azure::with(MANAGED, |request| {
        let answer = Response::json(r#"{"refresh_token":"opaque-hunter2"}"#);
        (request.path() == "/oauth2/exchange").then_some(answer)
    });

    assert_eq!(azure.answer(Asking::about(IMAGE)).await.seconds, 3600);
}

#[tokio::test]
async fn a_registry_that_throttles_is_asked_again() {
    let throttled = AtomicBool::new(false);
    let azure = Azure::with(MANAGED, move |request| {
        let exchange = request.path() == "/oauth2/exchange";
        let first = exchange && !throttled.swap(true, Ordering::SeqCst);
        first.then(|| Response::status(429).header("Retry-After", "0"))
    });

    azure.answer(Asking::about(IMAGE)).await;

    assert_eq!(azure.requests().len(), 4);
}

#[tokio::test]
async fn every_cloud_has_its_own_place_for_tokens() {
    for (cloud, image, host) in [
        ("AzureChinaCloud", "foo.azurecr.cn/app", "login.chinacloudapi.cn"),
        ("AzureUSGovernmentCloud", "foo.azurecr.us/app", "login.microsoftonline.us"),
        ("AzurePublicCloud", "foo.azurecr.io/app", "login.microsoftonline.com"),
        ("AzureGermanCloud", "foo.azurecr.de/app", "login.microsoftonline.com"),
    ] {
        let azure = Azure::new(PRINCIPAL.replace('{', &format!(r#"{{"cloud":"{cloud}","#)));
        let answer = azure.answer(Asking::about(image)).await;
        assert_eq!(azure.requests()[0].host, host);
        assert_eq!(Some(answer.logins()[0].0), image.split('/').next());
    }
}

#[tokio::test]
async fn a_cloud_of_ones_own_is_described_by_a_file() {
    let azure = Azure::new(PRINCIPAL.replace('{', r#"{"cloud":"AzureStackCloud","#));
    let failure = azure.failure(Asking::about(IMAGE)).await;
    assert!(failure.contains("AZURE_ENVIRONMENT_FILEPATH"), "{failure}");
    let file = azure.file(
        "cloud.json",
        r#"{"activeDirectoryEndpoint":"https://login.my.cloud/","containerRegistryDNSSuffix":"azurecr.my.cloud"}"#,
    );
    let azure = azure.variable("AZURE_ENVIRONMENT_FILEPATH", &file);

    let answer = azure.answer(Asking::about("foo.azurecr.my.cloud/app")).await;

    assert_eq!(answer.logins()[0].0, "foo.azurecr.my.cloud");
    assert_eq!(azure.requests()[0].host, "login.my.cloud");
}

#[tokio::test]
async fn a_cloud_of_ones_own_may_describe_itself() {
    let own = r#"{"cloud":"Mine","resourceManagerEndpoint":"https://management.my.cloud/","#;
    let azure = Azure::new(PRINCIPAL.replace('{', own));

    let answer = azure.answer(Asking::about("foo.azurecr.my.cloud/app")).await;

    assert_eq!(answer.logins()[0].0, "foo.azurecr.my.cloud");
    let [described, token, ..] = &azure.requests()[..] else { panic!("two requests") };
    assert_eq!(described.target, "/metadata/endpoints?api-version=2019-05-01");
    assert_eq!(token.host, "login.my.cloud");

    let azure = Azure::new(PRINCIPAL.replace('{', &own.replace("https", "http")));
    let failure = azure.failure(Asking::about(IMAGE)).await;
    assert!(failure.contains("must be an https address"), "{failure}");
}

#[tokio::test]
async fn a_federated_identity_shows_the_token_of_its_file() {
    let azure = Azure::new("{}");
    let file = azure.file("token", &format!("{NODE}\n"));
    let azure = azure
        .variable("AZURE_FEDERATED_TOKEN_FILE", &file)
        .variable("AZURE_CLIENT_ID", CLIENT)
        .variable("AZURE_TENANT_ID", TENANT);

    azure.answer(Asking::about(IMAGE)).await;

    let [token, _, exchange] = &azure.requests()[..] else { panic!("three requests") };
    assert_eq!(form(token, "client_assertion").as_deref(), Some(NODE));
    assert_eq!(form(exchange, "tenant").as_deref(), Some(TENANT));
}

#[tokio::test]
async fn the_api_server_vouches_for_a_pod_past_any_proxy() {
    let api_server = Internet::start(|request| match (request.tls, request.path()) {
        (true, "/") => Response::json(r#"{"access_token":"aad-of-bound-hunter2"}"#),
        _ => Response::status(404),
    });
    let azure = Azure::new(r#"{"tenantId":"node-tenant"}"#);
    let certificate = azure.file("api-server.crt", api_server.ca_pem());
    let azure = azure
        .flag("--ib-sni-name=tokens.my-cluster.example")
        .flag(&format!("--ib-apiserver-ip={}", api_server.address()))
        .flag(&format!("--ib-ca-file={certificate}"))
        .flag("--ib-default-client-id=default-client");

    azure.answer(Asking::about(IMAGE).token(POD)).await;

    let [traded] = &api_server.requests()[..] else { panic!("one request") };
    assert_eq!((&*traded.host, &*traded.method), ("tokens.my-cluster.example", "POST"));
    let fields = [
        ("grant_type", "client_credentials"),
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
        ("scope", "https://containerregistry.azure.net/.default"),
        ("client_assertion", POD),
        ("client_id", "default-client"),
    ];
    for (name, value) in fields {
        assert_eq!(form(traded, name).as_deref(), Some(value));
    }
    let exchange = &azure.requests()[1];
    assert_eq!(form(exchange, "access_token").as_deref(), Some("aad-of-bound-hunter2"));
    assert_eq!(form(exchange, "tenant").as_deref(), Some("node-tenant"));

    azure.answer(with_token(IMAGE)).await;
    let [_, traded] = &api_server.requests()[..] else { panic!("another request") };
    assert_eq!(form(traded, "client_id").as_deref(), Some(CLIENT), "the pod's own");
    assert_eq!(form(&azure.requests()[3], "tenant").as_deref(), Some(TENANT));

    let failure = azure.failure(Asking::about(IMAGE)).await;
    assert!(failure.contains("identity bindings"), "{failure}");
}

#[tokio::test]
async fn failures_say_what_was_asked() {
    let refused = |path: &'static str, body: &'static str| {
        move |request: &Request| {
            let answer = Response::json(body).with_status(401);
            request.path().ends_with(path).then_some(answer)
        }
    };
    let entra =
        r#"{"error":"invalid_client","error_description":"AADSTS7000215: not hunter2-secret"}"#;
    let azure = Azure::with(PRINCIPAL, refused("/oauth2/v2.0/token", entra));
    let failure = azure.failure(Asking::about(IMAGE)).await;
    let expected = "the service principal of azure.json: POST https://login.microsoftonline.com/node-tenant/oauth2/v2.0/token: \
                    responded with status code 401: invalid_client: AADSTS7000215: not [redacted]";
    assert!(failure.contains(expected), "{failure}");

    let imds = r#"{"error":"invalid_request","error_description":"Identity not found"}"#;
    let azure = Azure::with(MANAGED, refused("/identity/oauth2/token", imds));
    let failure = azure.failure(Asking::about(IMAGE)).await;
    assert!(failure.contains("the node's managed identity: GET http://127.0.0.1"), "{failure}");
    assert!(failure.contains("401: invalid_request: Identity not found"), "{failure}");
}

/// An Azure in which one path refuses, and says this.
fn refusing(config: &str, path: &'static str, said: String) -> Azure {
    Azure::with(config, move |request: &Request| {
        let refusal = Response::json(format!(r#"{{"error":"denied","message":"{said}"}}"#));
        let refusal = refusal.header("x-ms-correlation-request-id", "id-1");
        request.path().ends_with(path).then(|| refusal.with_status(401))
    })
}

#[tokio::test]
async fn what_is_repeated_of_a_token_is_not_told() {
    let azure = refusing(MANAGED, "/oauth2/exchange", "no aad-of-node-hunter2".into());
    let failure = azure.failure(Asking::about(IMAGE)).await;
    assert!(failure.ends_with("401: denied: no [redacted] (correlation ID id-1)\n"), "{failure}");

    let config = r#"{"tenantId":"t","aadClientId":"c"}"#;
    let azure = refusing(config, "/oauth2/v2.0/token", format!("no {NODE}"));
    let file = azure.file("token", NODE);
    let azure = azure.variable("AZURE_FEDERATED_TOKEN_FILE", &file);
    let failure = azure.failure(Asking::about(IMAGE)).await;
    assert!(failure.ends_with("401: denied: no [redacted]\n"), "{failure}");
}

#[tokio::test]
async fn a_long_complaint_does_not_show_the_half_of_a_token() {
    let said = format!("{} aad-of-node-hunter2", "x".repeat(280));
    let azure = refusing(MANAGED, "/oauth2/exchange", said);

    let failure = azure.failure(Asking::about(IMAGE)).await;

    assert!(failure.ends_with("xxx… (correlation ID id-1)\n"), "{failure}");
}

#[tokio::test]
async fn no_failure_holds_a_secret() {
    let leaks = LeakCheck::new(["hunter2"]);
    for (config, path, body) in [
        (MANAGED, "/identity/oauth2/token", r#"{"access_token":["hunter2"]}"#),
        (PRINCIPAL, "/oauth2/v2.0/token", r#"{"access_token":"x","expires_in":"hunter2"}"#),
        (PRINCIPAL, "/oauth2/v2.0/token", "{}"),
        (PRINCIPAL, "/oauth2/exchange", r#"{"refresh_token":{"hunter2":1}}"#),
        (PRINCIPAL, "/oauth2/exchange", r#"{"refresh_token":""}"#),
    ] {
        let azure = Azure::with(config, move |request: &Request| {
            request.path().ends_with(path).then(|| Response::json(body))
        });
        let refused = azure.ask(Asking::about(IMAGE)).await.unwrap_err();
        leaks.error(&refused);
        let refused = azure.ask(with_token(IMAGE)).await;
        leaks.debug("what a pod is told", &refused);
    }
    for config in [r#"{"aadClientSecret":["hunter2"]}"#, "{hunter2", "random-hunter2"] {
        let refused = Azure::new(config).ask(Asking::about(IMAGE)).await.unwrap_err();
        assert!(refused.to_string().contains("failed to load config"), "{refused}");
        leaks.error(&refused);
    }
    let answer = Azure::new(PRINCIPAL).ask(Asking::about(IMAGE)).await.unwrap();
    leaks.debug("an answer", &answer);
}

fn sorted<'a>(logins: &[(&'a str, &'a str, &'a str)]) -> Vec<(&'a str, &'a str, &'a str)> {
    let mut logins = logins.to_vec();
    logins.sort_unstable();
    logins
}

fn query(request: &Request, name: &str) -> Option<String> {
    field(request.target.split_once('?')?.1, name)
}

fn form(request: &Request, name: &str) -> Option<String> {
    field(&request.body, name)
}

fn field(form: &str, name: &str) -> Option<String> {
    let url = reqwest::Url::parse(&format!("http://form/?{form}")).unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
