//! A provider for clusters, driven without a process.

use std::time::Duration;

use keyfob_plugin::{
    ClusterAnswer, ClusterCredentials, ClusterRequest, ExecCluster, ExecVersion, Failure, Secret,
    testing::AskingForCluster,
};
use keyfob_testkit::LeakCheck;

/// Names the cluster that it is asked about in its token.
struct Named;

impl ClusterCredentials for Named {
    async fn credentials(&self, request: &ClusterRequest) -> Result<ClusterAnswer, Failure> {
        let server = request.cluster().map_or("no cluster", |cluster| &cluster.server);
        Ok(ClusterAnswer::token(format!("{server}, interactive: {}", request.interactive())))
    }
}

/// Its credential has ended before it was asked.
struct Late;

impl ClusterCredentials for Late {
    async fn credentials(&self, request: &ClusterRequest) -> Result<ClusterAnswer, Failure> {
        let end = request.call().now() - Duration::from_secs(1);
        Ok(ClusterAnswer::token("hunter2-late").expires_at(end))
    }
}

/// Its issuer repeats the password that it refuses.
struct Repeats;

impl ClusterCredentials for Repeats {
    async fn credentials(&self, request: &ClusterRequest) -> Result<ClusterAnswer, Failure> {
        request.call().hide(&Secret::from("hunter2-password"));
        Err(Failure::new("the issuer does not take hunter2-password"))
    }
}

#[tokio::test]
async fn a_provider_sees_what_the_kubeconfig_tells_of() {
    let cluster = ExecCluster { server: "https://c.example".into(), ..Default::default() };
    let asking = AskingForCluster::new().cluster(cluster).interactive();
    for version in [ExecVersion::V1, ExecVersion::V1Beta1] {
        let status = asking.clone().version(version).of(Named).await.unwrap();
        assert_eq!(status.token.unwrap().expose(), "https://c.example, interactive: true");
    }
    let status = AskingForCluster::new().of(Named).await.unwrap();
    assert_eq!(status.token.unwrap().expose(), "no cluster, interactive: false");
}

#[tokio::test]
async fn a_credential_that_has_ended_is_no_answer_and_a_failure_is_one_line_without_secrets() {
    let late = AskingForCluster::new().of(Late).await.unwrap_err().to_string();
    let repeats = AskingForCluster::new().of(Repeats).await.unwrap_err().to_string();

    assert!(late.contains("ended at"), "{late}");
    assert_eq!(repeats, "plugin: the issuer does not take [redacted]\n");
    LeakCheck::new(["hunter2-late", "hunter2-password"])
        .text("late", &late)
        .text("repeats", &repeats);
}
