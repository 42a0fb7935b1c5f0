//! Feature gates beside a configuration.

use serde_json::Value;

use crate::{GOOD, validate, with};

#[test]
fn gates_decide_and_unknown_ones_are_told() {
    let tokens = "  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}\n";
    let folder = with(&format!("{GOOD}{tokens}"));
    let gates = |gates: &str| validate(&["c.yaml", "--feature-gates", gates], folder.path());

    assert_eq!(validate(&["c.yaml"], folder.path()).0, 0);
    let (code, stdout, _) = gates("KubeletServiceAccountTokenForCredentialProviders=false");
    assert_eq!(code, 1);
    assert!(
        stdout.contains("c.yaml:8:20: error: providers.tokenAttributes: Forbidden: "),
        "{stdout}"
    );
    let (code, stdout, _) = gates("NodeSwap=true");
    assert_eq!(code, 0);
    assert!(
        stdout.starts_with("warning: the feature gate NodeSwap decides nothing here\n"),
        "{stdout}"
    );
    let (code, stdout, _) = gates("ServiceAccountTokenForKubeletCredentialProviders=false");
    assert_eq!(code, 1);
    assert!(
        stdout.contains("error: ServiceAccountTokenForKubeletCredentialProviders is KEP-4412's"),
        "{stdout}"
    );
    assert_eq!(gates("NodeSwap").0, 2);
    let (code, stdout, _) = gates("ServiceAccountNodeAudienceRestriction=false");
    assert_eq!(code, 0);
    let warning = "\
warning: the feature gate ServiceAccountNodeAudienceRestriction decides nothing in a kubelet
    help: set it on the kube-apiserver, which reads it
";
    assert!(stdout.starts_with(warning), "{stdout}");
}

#[test]
fn a_gate_that_kubernetes_has_removed_is_an_error_for_kubelets_and_keyfob() {
    let folder = with(GOOD);
    for (gate, version, help) in [
        (
            "KubeletCredentialProviders=true",
            "1.28",
            "credential providers are always on since 1.26",
        ),
        ("KubeletCredentialProvider=false", "1.28", "to turn credential providers off, remove "),
        ("DisableKubeletCloudCredentialProviders=true", "1.33", "kubelets no longer contain "),
    ] {
        for reader in ["kubelet", "keyfob"] {
            let flags = ["c.yaml", "--feature-gates", gate, "--for", reader];
            let (code, stdout, _) = validate(&flags, folder.path());

            assert_eq!(code, 1, "{gate}: {stdout}");
            let name = gate.split('=').next().unwrap();
            let lines: Vec<_> = stdout.lines().collect();
            assert!(lines[0].starts_with(&format!("error: the feature gate {name} ")), "{stdout}");
            let removed = format!(" was removed in Kubernetes {version}");
            assert!(lines[0].ends_with(&removed), "{stdout}");
            let fix = format!("    help: remove {name} from the feature gates; {help}");
            assert!(lines[1].starts_with(&fix), "{stdout}");
        }
        let (_, json, _) =
            validate(&["c.yaml", "--feature-gates", gate, "-o", "json"], folder.path());
        let report: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["errors"][0]["kubeletRefuses"], true, "{json}");
    }
}

#[test]
fn gates_may_be_given_in_several_lists_and_the_last_counts() {
    let tokens = "  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}\n";
    let folder = with(&format!("{GOOD}{tokens}"));
    let [on, off] = ["true", "false"]
        .map(|value| format!("KubeletServiceAccountTokenForCredentialProviders={value}"));
    let code = |first: &str, second: &str| {
        let args = ["c.yaml", "--feature-gates", first, "--feature-gates", second];
        validate(&args, folder.path()).0
    };

    assert_eq!((code(&on, &off), code(&off, &on), code(&off, "NodeSwap=true")), (1, 0, 1));
}
