use super::*;

const CONTAINER: Subject = Subject::Container { uid: Some(0), may_be_pod: false };
/// A process in a static pod, or in one that the agent has not listed yet.
const UNKNOWN_POD: Subject = Subject::Container { uid: Some(0), may_be_pod: true };

fn image(name: &str) -> MatchTarget {
    MatchTarget::parse(name).unwrap()
}

fn rule(name: &str, callers: CallerSelector, action: Action) -> AccessRule {
    AccessRule { name: name.to_owned(), callers, images: Vec::new(), providers: Vec::new(), action }
}

fn uids(ids: &[u32]) -> CallerSelector {
    let users = ids.iter().map(|id| User { id: *id, name: None }).collect();
    CallerSelector { users, ..CallerSelector::default() }
}

fn process(uid: u32) -> Subject {
    Subject::Host(HostSubject { uid, gids: vec![uid], ..HostSubject::default() })
}

fn pod(namespace: &str, account: &str) -> Subject {
    Subject::Pod {
        namespace: namespace.to_owned(),
        service_account: account.to_owned(),
        uid: Some(0),
    }
}

#[test]
fn nobody_is_let_in_without_a_rule() {
    let target = image("registry.example/app");
    for subject in [process(0), process(1000), pod("a", "b"), CONTAINER, UNKNOWN_POD] {
        assert_eq!(decide(&[], &subject, &target, "echo"), None);
    }
}

#[test]
fn the_default_rule_is_for_root_on_the_host_alone() {
    let (rules, target) = ([AccessRule::root()], image("registry.example/app"));
    let decided = |subject: &Subject| decide(&rules, subject, &target, "echo").is_some();
    assert!(decided(&process(0)));
    assert!(!decided(&process(1000)));
    assert!(!decided(&pod("kube-system", "default")));
    assert!(!decided(&CONTAINER));
    assert!(!decided(&UNKNOWN_POD));
}

#[test]
fn the_first_rule_that_matches_decides() {
    let mut deny = rule("deny", uids(&[1000]), Action::Deny);
    deny.images.push(("secret.example".to_owned(), MatchPattern::parse("secret.example").unwrap()));
    let allow = rule("allow", uids(&[1000]), Action::Allow);
    let rules = [deny, allow];
    let decided =
        |name: &str| decide(&rules, &process(1000), &image(name), "echo").map(|rule| rule.action);
    assert_eq!(decided("secret.example/app"), Some(Action::Deny));
    assert_eq!(decided("open.example/app"), Some(Action::Allow));
}

#[test]
fn a_rule_says_why_it_does_not_apply() {
    let target = image("registry.example/app");
    let why = |rule: &AccessRule, subject: &Subject| {
        rule.mismatch(subject, &target, "echo").map(|why| why.to_string())
    };
    let root = AccessRule::root();
    assert_eq!(why(&root, &process(0)), None);
    assert_eq!(why(&root, &process(7)).as_deref(), Some("user id 7 is not listed"));
    let in_container = "it is for processes on the host, and the caller runs in a container";
    assert_eq!(why(&root, &CONTAINER).as_deref(), Some(in_container));
    let mut other = root.clone();
    other.providers = vec!["ecr".to_owned()];
    assert_eq!(why(&other, &process(0)).as_deref(), Some("provider echo is not listed"));
    let team =
        CallerSelector { namespaces: vec!["team-a".to_owned()], ..CallerSelector::default() };
    let team = rule("team", team, Action::AllowAsPod);
    assert_eq!(why(&team, &pod("team-a", "x")), None);
    assert_eq!(why(&team, &pod("team-b", "x")).as_deref(), Some("namespace team-b is not listed"));
    let on_host = "it is for pods, and the caller is a process on the host";
    assert_eq!(why(&team, &process(0)).as_deref(), Some(on_host));
}

#[test]
fn all_fields_of_the_callers_must_match() {
    let mut callers = uids(&[1000]);
    callers.units = vec!["docker.service".to_owned()];
    callers.groups = vec![Group { id: 50, name: "docker".to_owned() }];
    callers.executables = vec!["/usr/bin/docker".into()];
    let rules = [rule("docker", callers, Action::Allow)];
    let complete = HostSubject {
        uid: 1000,
        gids: vec![1000, 50],
        unit: Some("docker.service".to_owned()),
        program: Some(Program::Supposed("/usr/bin/docker".into())),
    };
    let target = image("registry.example/app");
    let decided =
        |subject: HostSubject| decide(&rules, &Subject::Host(subject), &target, "x").is_some();
    assert!(decided(complete.clone()));
    assert!(!decided(HostSubject { uid: 0, ..complete.clone() }));
    assert!(!decided(HostSubject { gids: vec![1000], ..complete.clone() }));
    assert!(!decided(HostSubject { unit: None, ..complete.clone() }));
    assert!(!decided(HostSubject { program: None, ..complete }));
}

fn container(uid: u32) -> Subject {
    Subject::Container { uid: Some(uid), may_be_pod: false }
}

fn pod_of_user(uid: u32) -> Subject {
    let (namespace, service_account) = ("team".to_owned(), "cart".to_owned());
    Subject::Pod { namespace, service_account, uid: Some(uid) }
}

/// Selectors of processes on the host, one for each property.
fn host_selectors() -> [CallerSelector; 5] {
    let none = CallerSelector::default;
    let group = Group { id: 50, name: "docker".to_owned() };
    let (unit, program) = ("docker.service".to_owned(), "/usr/bin/docker".into());
    [
        uids(&[1000]),
        CallerSelector { groups: vec![group.clone()], ..none() },
        CallerSelector { units: vec![unit], ..none() },
        CallerSelector { executables: vec![program], ..none() },
        CallerSelector { groups: vec![group], ..uids(&[1000]) },
    ]
}

#[test]
fn a_rule_that_denies_processes_on_the_host_denies_containers_that_they_may_have_started() {
    let anyone = || CallerSelector { anyone: true, ..CallerSelector::default() };
    let target = image("registry.example/app");
    for callers in host_selectors() {
        let rules =
            [rule("deny", callers.clone(), Action::Deny), rule("others", anyone(), Action::Allow)];
        let decided =
            |subject: &Subject| decide(&rules, subject, &target, "echo").map(|rule| rule.action);
        // The user's own id, a subordinate one, and that of root in a rootful container.
        for uid in [1000, 100_999, 0] {
            assert_eq!(decided(&container(uid)), Some(Action::Deny), "{uid}: {callers:?}");
            assert!(!may_be_allowed(&rules, &container(uid), &[Action::Allow]), "{callers:?}");
        }
        assert_eq!(rules[0].precaution(&container(100_999)), Some(Precaution::Container));
        assert_eq!(decided(&process(1001)), Some(Action::Allow), "{callers:?}");
        assert_eq!(decided(&pod_of_user(1001)), Some(Action::Allow), "{callers:?}");
    }
}

#[test]
fn a_rule_that_denies_a_user_denies_pods_that_run_as_that_user() {
    let target = image("registry.example/app");
    for (callers, precaution) in
        host_selectors().into_iter().zip([Some(Precaution::UserOfPod), None, None, None, None])
    {
        let deny = rule("deny", callers, Action::Deny);
        assert_eq!(deny.precaution(&pod_of_user(1000)), precaution, "{deny:?}");
        assert_eq!(
            deny.mismatch(&pod_of_user(1000), &target, "echo").is_none(),
            precaution.is_some()
        );
    }
}

#[test]
fn containers_that_are_no_pods_match_no_rules_that_allow_hosts_or_deny_pods() {
    for callers in host_selectors() {
        for action in [Action::Allow, Action::AllowAsPod] {
            let rule = rule("host", callers.clone(), action);
            assert_eq!(rule.precaution(&container(1000)), None);
            assert_eq!(rule.caller_mismatch(&container(1000)), Some(RuleMismatch::OnlyHosts));
        }
    }
    let team = CallerSelector { namespaces: vec!["team".to_owned()], ..CallerSelector::default() };
    let team = rule("team", team, Action::Deny);
    assert_eq!(team.caller_mismatch(&container(1000)), Some(RuleMismatch::NotAPod));
}

#[test]
fn a_rule_that_denies_pods_denies_a_pod_that_the_agent_does_not_know() {
    let anyone = || CallerSelector { anyone: true, ..CallerSelector::default() };
    let account = ServiceAccountName { namespace: "team".to_owned(), name: "cart".to_owned() };
    let target = image("registry.example/app");
    for callers in [
        CallerSelector { namespaces: vec!["team".to_owned()], ..CallerSelector::default() },
        CallerSelector { service_accounts: vec![account], ..CallerSelector::default() },
    ] {
        let rules =
            [rule("deny", callers.clone(), Action::Deny), rule("others", anyone(), Action::Allow)];
        let decided =
            |subject: &Subject| decide(&rules, subject, &target, "echo").map(|rule| rule.action);
        assert_eq!(decided(&UNKNOWN_POD), Some(Action::Deny), "{callers:?}");
        assert!(!may_be_allowed(&rules, &UNKNOWN_POD, &[Action::Allow]), "{callers:?}");
        assert_eq!(rules[0].precaution(&UNKNOWN_POD), Some(Precaution::UnknownPod));
        assert_eq!(decided(&pod("team", "cart")), Some(Action::Deny));
        assert_eq!(rules[0].precaution(&pod("team", "cart")), None, "it is certainly meant");
        for other in [pod("elsewhere", "cart"), CONTAINER, process(0)] {
            assert_eq!(decided(&other), Some(Action::Allow), "{other:?}: {callers:?}");
        }
        // A rule that allows needs certainty.
        for action in [Action::Allow, Action::AllowAsPod] {
            let rule = rule("team", callers.clone(), action);
            assert_eq!(rule.precaution(&UNKNOWN_POD), None);
            assert_eq!(rule.caller_mismatch(&UNKNOWN_POD), Some(RuleMismatch::NotAPod));
        }
    }
}

#[test]
fn a_provider_is_asked_as_the_node_if_some_caller_could_be_allowed() {
    let anyone = CallerSelector { anyone: true, ..CallerSelector::default() };
    let allow = rule("allow", uids(&[1000]), Action::Allow);
    let as_pod = rule("as-pod", anyone.clone(), Action::AllowAsPod);
    let deny_one = rule("deny-one", uids(&[1000]), Action::Deny);
    let mut deny_all = rule("deny-all", anyone, Action::Deny);
    let asked =
        |rules: &[AccessRule]| may_be_asked_as_node(rules, &image("registry.example/app"), "echo");
    assert!(asked(&[as_pod.clone(), deny_one, allow.clone()]), "somebody else may have it");
    assert!(!asked(&[as_pod]), "only with a pod's identity");
    assert!(!asked(&[deny_all.clone(), allow.clone()]), "nobody gets past the first rule");
    deny_all.providers = vec!["other".to_owned()];
    assert!(asked(&[deny_all, allow]));
}
