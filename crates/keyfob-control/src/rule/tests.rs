use serde_json::{Value, json};

use super::*;
use crate::{
    facts::judge_objects,
    objects::{Kind, Objects},
};

fn object(kind: Kind, mut value: Value, metadata: Value) -> Value {
    value["apiVersion"] = kind.api_version().into();
    value["kind"] = kind.name().into();
    value["metadata"] = metadata;
    value
}

/// A pod on the node `n` with these volumes, a driver that asks for `foo`, and a claim that leads to it.
fn cluster(volumes: &Value) -> Objects {
    let mut objects = Objects::default();
    let mut put = |kind: Kind, name: &str, value: Value| {
        let namespace = if kind.namespaced() { "ns" } else { "" };
        let value = object(kind, value, json!({"name": name, "namespace": namespace, "uid": "1"}));
        objects.put(kind, namespace, name, value);
    };
    put(Kind::Pod, "p", json!({"spec": {"nodeName": "n", "volumes": volumes}}));
    put(Kind::Pod, "pending", json!({"spec": {}}));
    put(Kind::Pod, "elsewhere", json!({"spec": {"nodeName": "m"}}));
    put(
        Kind::CSIDriver,
        "d",
        json!({"spec": {"tokenRequests": [{"audience": "foo"}, {"audience": ""}]}}),
    );
    put(
        Kind::CSIDriver,
        "file.csi.azure.com",
        json!({"spec": {"tokenRequests": [{"audience": "azure"}]}}),
    );
    put(Kind::PersistentVolumeClaim, "c", json!({"spec": {"volumeName": "v"}}));
    put(Kind::PersistentVolumeClaim, "unbound", json!({"spec": {}}));
    put(Kind::PersistentVolumeClaim, "p-vol", json!({"spec": {"volumeName": "v"}}));
    put(Kind::PersistentVolumeClaim, "local", json!({"spec": {"volumeName": "local"}}));
    put(Kind::PersistentVolume, "v", json!({"spec": {"csi": {"driver": "d"}}}));
    put(Kind::PersistentVolume, "local", json!({"spec": {"local": {"path": "/x"}}}));
    objects
}

fn asked(audience: &str) -> Asked {
    Asked {
        namespace: "ns".into(),
        service_account: "sa".into(),
        audiences: vec![audience.into()],
        bound: Some(BoundObject::pod("p", "1")),
        ..Asked::by_node("n")
    }
}

fn verdict(asked: &Asked, volumes: &Value) -> Verdict {
    judge_objects(asked, &Policy::default(), &cluster(volumes))
}

fn name(asked: &Asked) -> &'static str {
    verdict(asked, &json!([])).name()
}

#[test]
fn who_is_no_node_is_not_restricted() {
    let outsider =
        Asked { groups: vec!["system:authenticated".into()], bound: None, ..asked("foo") };
    assert_eq!(name(&outsider), "not-a-node");
    let other_name = Asked { user: "node:n".into(), ..asked("foo") };
    assert_eq!(name(&other_name), "not-a-node");
    assert!(verdict(&other_name, &json!([])).allowed());
    let nameless = Asked { user: "system:node:".into(), ..asked("foo") };
    let verdict = verdict(&nameless, &json!([]));
    assert_eq!((verdict.name(), verdict.code()), ("unknown-node", 403));
    let text =
        r#"serviceaccounts "sa" is forbidden: could not determine node from user "system:node:""#;
    assert_eq!(verdict.message(), text);
}

#[test]
fn a_token_must_be_bound_to_a_pod_of_the_node() {
    let bound = |change: fn(&mut BoundObject)| {
        let mut asked = asked("foo");
        change(asked.bound.as_mut().unwrap());
        let verdict = verdict(&asked, &json!([]));
        assert!(!verdict.allowed());
        (verdict.name(), verdict.message(), verdict.code())
    };
    let forbidden = |words: &str| format!(r#"serviceaccounts "sa" is forbidden: {words}"#);
    let not_bound = ("not-bound-to-pod", forbidden("node requested token not bound to a pod"), 403);
    assert_eq!(bound(|bound| bound.api_version = "v2".into()), not_bound);
    assert_eq!(bound(|bound| bound.kind = "Secret".into()), not_bound);
    assert_eq!(bound(|bound| bound.name.clear()), not_bound);
    assert_eq!(name(&Asked { bound: None, ..asked("foo") }), "not-bound-to-pod");
    let no_uid = forbidden("node requested token with a pod binding without a uid");
    assert_eq!(bound(|bound| bound.uid.clear()), ("no-pod-uid", no_uid, 403));
    let gone = ("pod-not-found", r#"pod "gone" not found"#.to_owned(), 404);
    assert_eq!(bound(|bound| bound.name = "gone".into()), gone);
    let other = forbidden(
        "the UID in the bound object reference (2) does not match the UID in record. \
         The object might have been deleted and then recreated",
    );
    assert_eq!(bound(|bound| bound.uid = "2".into()), ("different-pod", other, 403));
    let elsewhere = forbidden("node requested token bound to a pod scheduled on a different node");
    for pod in ["elsewhere", "pending"] {
        let asked = Asked { bound: Some(BoundObject::pod(pod, "1")), ..asked("foo") };
        let verdict = verdict(&asked, &json!([]));
        assert_eq!((verdict.name(), verdict.message()), ("different-node", elsewhere.clone()));
    }
}

#[test]
fn a_pod_that_cannot_be_looked_up_is_forbidden() {
    let mut facts = Facts::default();
    let asked = asked("foo");
    let question = Question::Pod("ns".into(), "p".into());
    assert_eq!(decide(&asked, &Policy::default(), &facts), Step::Needs(question.clone()));
    facts.give_up(question, "the server is gone");
    let Step::Decided(verdict) = decide(&asked, &Policy::default(), &facts) else {
        panic!("decided")
    };
    assert_eq!(verdict.name(), "pod-unknown");
    assert_eq!(verdict.message(), r#"serviceaccounts "sa" is forbidden: the server is gone"#);
}

#[test]
fn audiences_are_looked_at_only_if_restricted_and_one_by_one() {
    let two = Asked { audiences: vec!["a".into(), "b".into()], ..asked("foo") };
    let refused = verdict(&two, &json!([]));
    let text = r#"serviceaccounts "sa" is forbidden: node may only request 0 or 1 audiences"#;
    assert_eq!((refused.name(), refused.message().as_str()), ("too-many-audiences", text));
    let mut policy = Policy::default();
    policy.gates.node_audience_restriction = false;
    let free = judge_objects(&two, &policy, &cluster(&json!([])));
    assert_eq!((free.name(), free.allowed()), ("audiences-not-restricted", true));
}

#[test]
fn a_projected_token_allows_its_audience() {
    let volumes = json!([
        {"name": "none", "emptyDir": {}},
        {"name": "tok", "projected": {"sources": [
            {"configMap": {"name": "x"}},
            {"serviceAccountToken": {"path": "a"}},
            {"serviceAccountToken": {"path": "b", "audience": "bar"}},
        ]}},
    ]);
    for audiences in [vec![], vec![String::new()], vec!["bar".to_owned()]] {
        let verdict = verdict(&Asked { audiences, ..asked("") }, &volumes);
        assert_eq!(verdict.clause, Clause::ProjectedVolume { volume: "tok".into() });
        assert_eq!(
            verdict.to_string(),
            r#"allowed by projected-volume: the pod's volume "tok" projects a token for it"#
        );
    }
    let refused = verdict(&asked("baz"), &volumes);
    assert_eq!(refused.name(), "not-authorized");
    let [seen] = &refused.seen[..] else { panic!("{:?}", refused.seen) };
    assert_eq!(seen.to_string(), r#"volume "tok", projected: "", "bar""#);
    let text = r#"serviceaccounts "sa" is forbidden: system:node:n is not authorized to request tokens for audience "baz""#;
    assert_eq!(refused.message(), text);
}

#[test]
fn a_driver_allows_its_audiences_however_it_is_reached() {
    for (volume, way) in [
        (json!({"csi": {"driver": "d"}}), r#"driver "d""#),
        (
            json!({"persistentVolumeClaim": {"claimName": "c"}}),
            r#"claim "c", persistent volume "v", driver "d""#,
        ),
        (
            json!({"ephemeral": {"volumeClaimTemplate": {}}}),
            r#"claim "p-vol", persistent volume "v", driver "d""#,
        ),
    ] {
        let mut volume = volume;
        volume["name"] = "vol".into();
        for audience in ["foo", ""] {
            let verdict = verdict(&asked(audience), &json!([volume]));
            let words = format!(
                r#"allowed by csi-driver: the pod's volume "vol", through {way}, asks for it"#
            );
            assert_eq!(verdict.to_string(), words);
        }
        let refused = verdict(&asked("bar"), &json!([volume]));
        assert_eq!(refused.name(), "not-authorized");
        assert_eq!(
            refused.seen[0].to_string(),
            format!(r#"volume "vol", through {way}: "foo", """#)
        );
    }
    let azure = verdict(&asked("azure"), &json!([{"name": "vol", "azureFile": {}}]));
    let Clause::CsiDriver { path, .. } = &azure.clause else { panic!("{azure}") };
    assert_eq!(path.to_string(), r#"in-tree azureFile, driver "file.csi.azure.com""#);
}

#[test]
fn volumes_that_lead_nowhere_ask_for_nothing() {
    let volumes = json!([
        {"name": "a", "ephemeral": {}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "local"}},
        {"name": "c", "csi": {"driver": ""}},
    ]);
    let verdict = verdict(&asked("foo"), &volumes);
    assert_eq!(verdict.name(), "not-authorized");
    let seen: Vec<String> = verdict.seen.iter().map(ToString::to_string).collect();
    let local = r#"volume "b", through claim "local", persistent volume "local": no audience"#;
    assert_eq!(seen, [local, r#"volume "c", through driver "": no audience"#]);
}

#[test]
fn errors_are_gathered_and_forbid_unless_another_volume_allows() {
    let broken = json!([
        {"name": "a", "persistentVolumeClaim": {"claimName": "gone"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "unbound"}},
        {"name": "c", "csi": {"driver": "gone"}},
        {"name": "d", "csi": {"driver": "gone"}},
        {"name": "e", "azureDisk": {"kind": "Shared"}},
    ]);
    let refused = verdict(&asked("foo"), &broken);
    let text = "serviceaccounts \"sa\" is forbidden: error validating audience \"foo\": \
        [persistentvolumeclaim \"gone\" not found, persistentvolume \"\" not found, \
        csidriver.storage.k8s.io \"gone\" not found, kind(Shared) is not supported in csi migration]";
    assert_eq!((refused.name(), refused.message().as_str()), ("volume-error", text));
    assert_eq!(refused.seen.len(), 5);
    let one = verdict(&asked("foo"), &json!([broken[2], broken[3]]));
    assert!(
        one.message().ends_with(r#"audience "foo": csidriver.storage.k8s.io "gone" not found"#)
    );
    let mut volumes = broken;
    volumes.as_array_mut().unwrap().push(json!({"name": "f", "csi": {"driver": "d"}}));
    let allowed = verdict(&asked("foo"), &volumes);
    assert_eq!((allowed.name(), allowed.seen.len()), ("csi-driver", 6));
}

#[test]
fn the_list_allows_what_no_volume_does_even_if_one_is_broken() {
    let listed = |audience: &str, volumes: Value| {
        let list = vec!["listed".to_owned(), String::new()];
        let policy = Policy { allowed_kubelet_audiences: list, ..Policy::default() };
        judge_objects(&asked(audience), &policy, &cluster(&volumes)).name()
    };
    let broken = || json!([{"name": "a", "csi": {"driver": "gone"}}]);
    assert_eq!(listed("listed", json!([])), "allowed-kubelet-audiences");
    assert_eq!(listed("listed", broken()), "allowed-kubelet-audiences");
    assert_eq!(listed("foo", json!([{"name": "a", "csi": {"driver": "d"}}])), "csi-driver");
    assert_eq!(listed("other", broken()), "volume-error");
    assert_eq!(listed("", json!([])), "not-authorized", "an empty name on the list is none");
}

#[test]
fn the_authorizer_is_asked_last_and_its_allowing_goes_before_its_errors() {
    let mut facts = Facts::default();
    let question = Question::Pod("ns".into(), "p".into());
    crate::facts::Manifests(&cluster(&json!([]))).answer(question, &mut facts);
    let asked = asked("foo");
    let Step::Needs(Question::Authorizer(access)) = decide(&asked, &Policy::default(), &facts)
    else {
        panic!("the authorizer is not asked")
    };
    assert_eq!((access.audience.as_str(), access.service_account.as_str()), ("foo", "sa"));
    let mut with = |allowed, error: Option<&str>| {
        let error = error.map(str::to_owned);
        let opinion = Opinion { allowed, reason: "r".into(), error };
        facts.authorizer.insert("foo".into(), opinion);
        match decide(&asked, &Policy::default(), &facts) {
            Step::Decided(verdict) => (verdict.name(), verdict.message()),
            Step::Needs(question) => panic!("{question:?}"),
        }
    };
    assert_eq!(with(true, Some("e")).0, "authorizer");
    let failed = r#"serviceaccounts "sa" is forbidden: error authorizing system:node:n to request tokens for audience "foo": e"#;
    assert_eq!(with(false, Some("e")), ("authorizer-error", failed.to_owned()));
    assert_eq!(with(false, None).0, "not-authorized");
}

/// What a webhook sees: the API server has these audiences, and the request this list.
fn seen_later(own: &[&str], audiences: &[&str], volumes: &Value) -> Verdict {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    let policy = Policy { api_audiences: texts(own), ..Policy::default() };
    let asked = Asked { audiences: texts(audiences), ..asked("") };
    judge_objects(&asked, &policy, &cluster(volumes))
}

fn projecting(audience: &Value) -> Value {
    let source = json!({"serviceAccountToken": {"path": "t", "audience": audience}});
    json!([{"name": "tok", "projected": {"sources": [source]}}])
}

#[test]
fn the_servers_own_audiences_stand_for_none() {
    let mounted = projecting(&Value::Null);
    for (own, audiences) in [
        (&["api"][..], &["api"][..]),
        (&["api", "api2"], &["api", "api2"]),
        (&["api", "api2"], &["api2", "api"]),
        (&["api"], &[]),
    ] {
        let verdict = seen_later(own, audiences, &mounted);
        assert_eq!(verdict.name(), "projected-volume", "{own:?} {audiences:?}");
    }
    for (own, audiences, name) in [
        (&[][..], &["api"][..], "not-authorized"),
        (&["other"], &["api"], "not-authorized"),
        (&["api", "api2"], &["api"], "not-authorized"),
        (&["api"], &["api", "api2"], "too-many-audiences"),
        (&["api"], &["api", "api"], "too-many-audiences"),
        (&["api", "api2"], &["api", "api"], "too-many-audiences"),
    ] {
        let verdict = seen_later(own, audiences, &mounted);
        assert_eq!(verdict.name(), name, "{own:?} {audiences:?}");
    }
}

#[test]
fn the_servers_one_audience_may_be_named_too() {
    let named = projecting(&json!("api"));
    assert_eq!(seen_later(&["api"], &["api"], &named).name(), "projected-volume");
    assert_eq!(seen_later(&["api", "b"], &["api", "b"], &named).name(), "not-authorized");
    let broken = json!([{"name": "a", "csi": {"driver": "gone"}}, named[0]]);
    assert_eq!(seen_later(&["api"], &["api"], &broken).name(), "projected-volume");
    let message = |own: &[&str], volumes| seen_later(own, own, &volumes).message();
    let (one, none) = (message(&["api"], json!([])), message(&["api", "b"], json!([])));
    assert!(one.ends_with(r#"not authorized to request tokens for audience "api""#), "{one}");
    assert!(none.ends_with(r#"not authorized to request tokens for audience """#), "{none}");
    let refused = seen_later(&["api"], &["api"], &json!([broken[0]]));
    assert!(refused.message().contains(r#"error validating audience "api": "#));
    assert_eq!(refused.seen.len(), 1, "each volume is told once");
}

#[test]
fn the_authorizer_is_asked_by_both_names() {
    let mut facts = Facts::default();
    let question = Question::Pod("ns".into(), "p".into());
    crate::facts::Manifests(&cluster(&json!([]))).answer(question, &mut facts);
    let policy = Policy { api_audiences: vec!["api".into()], ..Policy::default() };
    let mut about = Vec::new();
    let verdict = loop {
        match decide(&asked("api"), &policy, &facts) {
            Step::Needs(Question::Authorizer(access)) => {
                about.push(access.audience.clone());
                let opinion = Opinion { allowed: access.audience == "api", ..Opinion::default() };
                facts.authorizer.insert(access.audience, opinion);
            }
            Step::Needs(question) => panic!("{question:?}"),
            Step::Decided(verdict) => break verdict,
        }
    };
    assert_eq!((about, verdict.name()), (vec![String::new(), "api".into()], "authorizer"));
}
