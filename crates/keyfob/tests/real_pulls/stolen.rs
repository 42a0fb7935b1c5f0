//! A private image on disk, and a repository of the same real registry that names its blobs.

use serde_json::json;

use crate::{
    docker_registry::{PASSWORD, Registry, USER},
    is_wanted, login,
    node::{Node, Said, keyfob},
};

const OTHER: &str = "bob";

/// A node that pulls with the secret of a user, or with none.
fn pull(node: &Node, registry: &Registry, name: &str, user: Option<&str>) -> Said {
    let (image, dest) = (format!("{}/{name}", registry.address), node.path("oci"));
    let secret = user.map(|user| {
        let login = json!({"username": user, "password": PASSWORD});
        let secret = json!({"auths": {&registry.address: login}});
        node.file(&format!("{user}.json"), &secret.to_string())
    });
    let mut args = vec!["pull", "--quiet", "-o", "json", "--pull-policy", "Always"];
    args.extend([image.as_str(), dest.to_str().unwrap()]);
    args.extend(secret.iter().flat_map(|secret| ["--pull-secret", secret]));
    keyfob(&args)
}

#[test]
fn a_manifest_that_names_the_blobs_of_a_private_image_does_not_open_it() {
    if !is_wanted() {
        return;
    }
    let registry = Registry::start_for(&[USER, OTHER]);
    let digest = registry.push("private/a:v1", Some(&login()), &[3_000_000, 10]);
    registry.copy_without_blobs("private/a", "steal/b", "v1", &login());
    let node = Node::new();
    let private = |user| pull(&node, &registry, "private/a:v1", user);
    let said = private(Some(USER));
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.json()["digest"], digest.as_str());

    // The manifest is the same, and can be had. The blobs are on disk, and cannot.
    for user in [USER, OTHER] {
        let said = pull(&node, &registry, "steal/b:v1", Some(user));
        assert_ne!(said.code, 0, "{}", said.stdout);
        let report = said.json().to_string();
        assert!(report.contains("/v2/steal/b/blobs/"), "{report}");
    }
    let dest = node.path("oci");
    let listed = keyfob(&["records", "list", dest.to_str().unwrap()]);
    assert!(!listed.stdout.contains("steal/b"), "{}", listed.stdout);

    // Whoever may have the image still has it: the same secret, another one, but not nobody.
    for user in [USER, OTHER, USER, OTHER] {
        let said = private(Some(user));
        assert_eq!(said.code, 0, "{user}: {}{}", said.stdout, said.stderr);
        assert_eq!(said.json()["digest"], digest.as_str());
    }
    let said = private(None);
    assert_eq!(said.code, 1, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.json()["attempts"][0]["result"], "refused");
}
