//! The feature gates of `docs/plugins.md`, with a real kubelet and API server.

use serde_json::json;

use crate::{
    containerd::Runtime,
    identity::write_config,
    node::{Node, NodeOptions},
    shell::output,
    world::World,
};

/// The gates that are on by default, with their stages.
const OF_KUBELET: [[&str; 2]; 2] = [
    ["KubeletServiceAccountTokenForCredentialProviders", "BETA"],
    ["KubeletEnsureSecretPulledImages", "BETA"],
];
const OF_API_SERVER: [[&str; 2]; 2] =
    [["ServiceAccountNodeAudienceRestriction", "BETA"], ["PodCertificateRequest", ""]];
const REMOVED: [&str; 4] = [
    "KubeletCredentialProvider",
    "KubeletCredentialProviders",
    "DisableKubeletCloudCredentialProviders",
    "DynamicKubeletConfig",
];

pub(crate) fn gates_are_on_or_keep_the_kubelet_from_starting(world: &mut World) {
    let options = NodeOptions::new(Runtime::Containerd21);
    let mut node = Node::start(world, &options);
    let line = |[name, stage]: [&str; 2]| {
        format!("kubernetes_feature_enabled{{name={name:?},stage={stage:?}}} 1")
    };
    let of_api_server = world.cluster.api.text("/metrics").unwrap();
    for (gates, metrics) in [(OF_KUBELET, node.metrics()), (OF_API_SERVER, of_api_server)] {
        for gate in gates.map(line) {
            assert!(metrics.lines().any(|metric| metric == gate), "{gate}");
        }
    }
    let provider = json!({
        "name": "plugin",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": ["registry.example.com"],
        "defaultCacheDuration": "10m",
    });
    let config = write_config(world, &provider);
    for gate in REMOVED {
        let flag = format!("--feature-gates={gate}=true");
        node.kubelet.kill();
        node.start_kubelet(&options.clone().flags(&[&flag]));
        assert_eq!(node.kubelet.wait_for_exit().code(), Some(1), "{gate}");
        let reason = format!("unrecognized feature gate: {gate}");
        assert!(node.kubelet.log().contains(&reason), "{}", node.kubelet.log());
        let refused = output(world.keyfob(&["validate", &flag]).arg(&config));
        let text = String::from_utf8(refused.stdout).unwrap();
        assert!(text.contains(&format!("error: the feature gate {gate} ")), "{text}");
        assert_eq!(refused.status.code(), Some(1), "{text}");
    }
}
