//! Plugins of a version that only old kubeconfigs name.

use std::convert::Infallible;

use http::{Request, Response, StatusCode};
use keyfob_api::{ExecCredentialStatus, ExecVersion};
use keyfob_client::{Behaviour, ExecConfig, ExecLayer};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use crate::support::{Stage, config};

#[tokio::test]
async fn one_is_told_of_the_401_that_it_is_run_for() {
    let infos = infos_of_two_runs(Behaviour::of_client_go(), 1).await;
    assert_eq!(infos, [FIRST, TOLD]);
}

#[tokio::test]
async fn a_run_that_waited_for_the_next_request_is_told_too() {
    let infos = infos_of_two_runs(Behaviour::default(), 2).await;
    assert_eq!(infos, [FIRST, TOLD]);
}

const FIRST: &str = "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1alpha1\",\"spec\":{}}\n";
const TOLD: &str = "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1alpha1\",\"spec\":{\"response\":\
                    {\"header\":{\"Www-Authenticate\":[\"Bearer\",\"Basic\"]},\"code\":401}}}\n";

/// What the plugin is told by requests that cannot be sent twice, to a server that refuses them all.
async fn infos_of_two_runs(mut behaviour: Behaviour, requests: usize) -> Vec<String> {
    behaviour.v1alpha1 = true;
    let stage = Stage::with(behaviour);
    let status = ExecCredentialStatus { token: Some("t".into()), ..<_>::default() };
    stage.plugin.prints(status.encode(ExecVersion::V1Alpha1).expose().clone());
    let api_version = ExecVersion::V1Alpha1.api_version().into();
    let authenticator =
        stage.authenticators().get(&ExecConfig { api_version, ..config() }, None).unwrap();
    let server = service_fn(|_: Request<()>| async {
        let response = Response::builder()
            .status(StatusCode::UNAUTHORIZED)
            .header("www-authenticate", "Bearer")
            .header("www-authenticate", "Basic");
        Ok::<_, Infallible>(response.body(()).unwrap())
    });
    let mut service = ExecLayer::without_replay(authenticator).layer(server);
    for _ in 0..requests {
        let response = service.ready().await.unwrap().call(Request::new(())).await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    }
    let infos = stage.plugin.infos.lock().unwrap();
    infos.clone()
}
