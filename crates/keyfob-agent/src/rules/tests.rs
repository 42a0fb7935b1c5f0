use super::*;

const CONTAINER: Subject = Subject::Container { uid: Some(0) };

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
    for subject in [process(0), process(1000), pod("a", "b"), CONTAINER] {
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

#[test]
fn a_rule_that_denies_a_user_denies_its_containers_too() {
    let anyone = CallerSelector { anyone: true, ..CallerSelector::default() };
    let rules = [rule("deny", uids(&[1000]), Action::Deny), rule("others", anyone, Action::Allow)];
    let target = image("registry.example/app");
    let decided = |uid: u32| {
        let subject = Subject::Container { uid: Some(uid) };
        decide(&rules, &subject, &target, "echo").map(|rule| rule.action)
    };
    assert_eq!(decided(1000), Some(Action::Deny), "`unshare -U` is no way around it");
    assert_eq!(decided(1001), Some(Action::Allow));
}
