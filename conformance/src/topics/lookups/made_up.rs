//! Sequences that nobody thought of: providers that overlap, plugins that do not always answer, pods whose service account
//! changes, and time that stops just before, at and after an expiry.

mod accounts;

use keyfob_testkit::{Script, Step as Does};
use proptest::{
    collection::vec,
    option,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::{Index, subsequence},
    strategy::BoxedStrategy,
};
use serde_json::{Map, Value, json};

use super::{
    super::words::one_of,
    Provider, Question, Step, Variable,
    accounts::{Account, Pod},
};

/// Not in the order of the alphabet, since nothing goes by it.
const NAMES: [&str; 4] = ["second", "first", "fourth", "third"];
const PATTERNS: &str = "registry.io registry.io registry.io registry.io/team *.io *.io *.io *.registry.io \
    a.registry.io registry.io:5000 docker.io \
    docker.io/library *.* *.* * quay.io registry.io/* localhost";
const IMAGES: &str = "registry.io/a registry.io/a registry.io/a:v1 registry.io/b registry.io/b \
    registry.io/team/a registry.io/team/a:v2 \
    registry.io/team/b@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 \
    a.registry.io/b registry.io:5000/a nginx \
    docker.io/library/nginx:1 user/app quay.io/a localhost/a other.example/a";
/// Each stored under another key. How those are ordered that are stored under one, upstream leaves to chance.
const KEYS: [&[&str]; 13] = [
    &[
        "registry.io",
        "https://registry.io",
        "registry.io/v2/",
        "http://registry.io/",
        "u@registry.io",
    ],
    &["registry.io/team", "registry.io/v1/team"],
    &["*.io"],
    &["docker.io/library"],
    &["registry.io/team/a"],
    &["*.registry.io", "*.registry.io/"],
    &["a.registry.io"],
    &["registry.io:5000"],
    &["docker.io"],
    &["index.docker.io", "https://index.docker.io/v1/"],
    &["quay.io"],
    &["%zz", "reg istry.io", "[::1"],
    &["*"],
];
const LENGTHS: &str =
    "1ns 1s 59.999999999s 1m 1m 1m0.000000001s 5m 10m 14m59s 15m 15m0.000000001s 20m 1h 24h 87600h";

pub(super) fn questions() -> BoxedStrategy<Question> {
    let images = vec(one_of(IMAGES), 1..=3);
    let pods = vec(accounts::pod(), 1..=2);
    let length =
        |lengths| one_of(lengths).prop_map(|length| MadeUpStep::Advance(length.to_owned()));
    let step = prop_oneof![
        3 => any::<Index>().prop_map(MadeUpStep::LookUp),
        8 => (any::<Index>(), any::<Index>()).prop_map(|(image, pod)| MadeUpStep::LookUpFor(image, pod)),
        3 => length(LENGTHS),
        1 => length("0s -1ns -1s -30s -1m -1m -1m0.000000001s -20m"),
        2 => accounts::account().prop_map(MadeUpStep::Account),
    ];
    (vec(provider(), 1..=4), accounts::accounts(), (images, pods), vec(step, 3..=14))
        .prop_map(|(providers, accounts, (images, pods), steps)| {
            let providers = providers.into_iter().zip(NAMES);
            let mut question = Question {
                providers: providers.map(|(made_up, name)| made_up.provider(name)).collect(),
                accounts,
                steps: steps.into_iter().map(|step| step.about(&images, &pods)).collect(),
            };
            question.keep_what_expires_before_it_comes_apart();
            question
        })
        .boxed()
}

/// A step that has neither image nor pod yet.
#[derive(Clone, Debug)]
enum MadeUpStep {
    Advance(String),
    LookUp(Index),
    LookUpFor(Index, Index),
    Account(Account),
}

impl MadeUpStep {
    fn about(self, images: &[&str], pods: &[Pod]) -> Step {
        let image = |index: Index| (*index.get(images)).to_owned();
        match self {
            Self::Advance(by) => Step::Advance(by),
            Self::LookUp(index) => Step::LookUp(image(index)),
            Self::LookUpFor(index, pod) => {
                Step::LookUpFor { image: image(index), pod: pod.get(pods).clone() }
            }
            Self::Account(account) => Step::Account(account),
        }
    }
}

impl Question {
    /// An answer that had expired when it came is found again by a clock that was set back far enough, if it is kept:
    /// upstream keeps it. What follows from that cannot be foretold, so questions have the one or the other.
    fn keep_what_expires_before_it_comes_apart(&mut self) {
        if self.providers.iter().any(Provider::answers_what_has_expired) {
            self.steps.retain(|step| !matches!(step, Step::Advance(by) if by.starts_with('-')));
        }
    }
}

/// A provider that has no name yet.
#[derive(Clone, Debug)]
struct MadeUp {
    match_images: Vec<&'static str>,
    default_cache_duration: &'static str,
    version: &'static str,
    token_attributes: Option<Value>,
    args: Vec<&'static str>,
    env: Vec<(&'static str, &'static str)>,
    runs: Vec<Run>,
}

/// What a plugin does when it is run.
#[derive(Clone, Debug)]
enum Run {
    Answers(MadeUpAnswer),
    /// It says something on stderr as well.
    Mutters(MadeUpAnswer),
    /// It answers, and ends badly.
    Exits(MadeUpAnswer, i32),
    Dies,
    Prints(&'static str),
    /// It gives the token that it got for the first user name, or the first password.
    GivesBack(MadeUpAnswer, &'static str),
    /// It answers in this version, whatever it was asked in.
    AnswersIn(&'static str, MadeUpAnswer),
    /// Its answer has a field that there is not.
    SaysMore(MadeUpAnswer),
}

#[derive(Clone, Debug)]
struct MadeUpAnswer {
    scope: &'static str,
    duration: Option<&'static str>,
    keys: Vec<&'static str>,
}

const ARGS: &str = "get --region=eu * $HOME  -- é \u{1} \"quoted\"";
/// Some that everybody has.
const VARIABLES: &str = "A A B HOME PATH  a.b é A=B";
const VALUES: &str = "1 two  = x=y $HOME é";

impl From<&(&str, &str)> for Variable {
    fn from((name, value): &(&str, &str)) -> Self {
        Self { name: (*name).to_owned(), value: (*value).to_owned() }
    }
}

fn provider() -> impl Strategy<Value = MadeUp> {
    (
        vec(one_of(PATTERNS), 1..=3),
        one_of("0s 1m 1m 10m 12h"),
        one_of("v1 v1 v1 v1beta1 v1alpha1"),
        option::weighted(0.7, accounts::token_attributes()),
        (vec(one_of(ARGS), 0..=3), vec((one_of(VARIABLES), one_of(VALUES)), 0..=4)),
        vec(run(), 1..=4),
    )
        .prop_map(
            |(match_images, default_cache_duration, version, attributes, started, runs)| MadeUp {
                args: started.0,
                env: started.1,
                match_images,
                default_cache_duration,
                version,
                token_attributes: attributes.filter(|_| version == "v1"),
                runs,
            },
        )
}

fn run() -> impl Strategy<Value = Run> {
    prop_oneof![
        20 => answer().prop_map(Run::Answers),
        1 => answer().prop_map(Run::Mutters),
        1 => (answer(), 1..=255).prop_map(|(answer, code)| Run::Exits(answer, code)),
        1 => Just(Run::Dies),
        2 => one_of(" { null [] password {} 1 \u{feff}{}").prop_map(Run::Prints),
        3 => (answer(), one_of("username password password"))
            .prop_map(|(answer, field)| Run::GivesBack(answer, field)),
        1 => (one_of("v1 v1beta1 v1alpha1 v2 "), answer())
            .prop_map(|(version, answer)| Run::AnswersIn(version, answer)),
        1 => answer().prop_map(Run::SaysMore),
    ]
}

fn answer() -> impl Strategy<Value = MadeUpAnswer> {
    let scope = prop_oneof![
        20 => one_of("Image Registry Global"),
        1 => one_of(" image REGISTRY Pod"),
    ];
    let duration = prop_oneof![
        6 => one_of(LENGTHS).prop_map(Some),
        3 => Just(None),
        2 => one_of("0s 0 -0s -1m -1ns -24h null").prop_map(Some),
        1 => one_of("soon 1 ").prop_map(Some),
    ];
    let keys = prop_oneof![
        // Those that most images have in common.
        2 => subsequence(KEYS.get(..4).unwrap_or_default(), 1..=2),
        1 => subsequence(&KEYS[..], 0..=5),
        2 => subsequence(&KEYS[..], 5..=10),
    ];
    let keys = (keys, any::<Index>())
        .prop_map(|(keys, at)| keys.into_iter().map(|spelled| *at.get(spelled)).collect());
    (scope, duration, keys).prop_map(|(scope, duration, keys)| MadeUpAnswer {
        scope,
        duration,
        keys,
    })
}

impl MadeUp {
    fn provider(self, name: &str) -> Provider {
        let version = format!("credentialprovider.kubelet.k8s.io/{}", self.version);
        let script =
            |(turn, run): (usize, &Run)| run.script(self.version, &format!("{name}-{turn}"));
        Provider {
            name: name.to_owned(),
            match_images: self.match_images.iter().copied().map(str::to_owned).collect(),
            default_cache_duration: self.default_cache_duration.to_owned(),
            token_attributes: self.token_attributes.clone(),
            args: self.args.iter().copied().map(str::to_owned).collect(),
            env: self.env.iter().map(Variable::from).collect(),
            answers: self.runs.iter().enumerate().map(script).collect(),
            api_version: version,
        }
    }
}

impl Run {
    fn script(&self, version: &str, user: &str) -> Script {
        match self {
            Self::Answers(answer) => Script::new([Does::Answer(answer.json(version, user))]),
            Self::Mutters(answer) => {
                let says = Does::Say("no cache found".to_owned());
                Script::new([says, Does::Answer(answer.json(version, user))])
            }
            Self::Exits(answer, code) => {
                Script::new([Does::Answer(answer.json(version, user)), Does::Exit(*code)])
            }
            Self::Dies => Script::new([Does::Signal(9)]),
            Self::Prints(text) => Script::new([Does::Print((*text).to_owned())]),
            Self::GivesBack(answer, field) => {
                let mut answer = answer.json(version, user);
                let login =
                    answer["auth"].as_object_mut().and_then(|auth| auth.values_mut().next());
                if let Some(login) = login {
                    login[field] = json!("$TOKEN");
                }
                Script::new([Does::AnswerWithToken(answer)])
            }
            Self::AnswersIn(version, answer) => {
                Script::new([Does::Answer(answer.json(version, user))])
            }
            Self::SaysMore(answer) => {
                let mut answer = answer.json(version, user);
                answer["token"] = json!("secret");
                Script::new([Does::Answer(answer)])
            }
        }
    }
}

impl MadeUpAnswer {
    fn json(&self, version: &str, user: &str) -> Value {
        let login = |(number, key): (usize, &&str)| {
            let login = json!({
                "username": format!("{user}-{number}"),
                "password": format!("secret of {user}-{number}"),
            });
            ((*key).to_owned(), login)
        };
        let auth: Map<String, Value> = self.keys.iter().enumerate().map(login).collect();
        let mut answer = json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": format!("credentialprovider.kubelet.k8s.io/{version}"),
            "cacheKeyType": self.scope,
            "auth": auth,
        });
        if let Some(duration) = self.duration {
            answer["cacheDuration"] =
                if duration == "null" { Value::Null } else { json!(duration) };
        }
        answer
    }
}
