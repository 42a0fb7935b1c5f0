//! Which token of a service account is given out, while time passes and the server does what it likes?
//!
//! A token is renewed sooner than it must be, by up to ten seconds that both sides draw by lot. So everything happens at
//! full minutes, and no token must be renewed within those seconds before one: their lifetimes see to that.

use std::{
    iter,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use keyfob_api::GoDuration;
use keyfob_exec::BoxFuture;
use keyfob_exec::Clock as _;
use keyfob_host::{
    IdentityError, PodReference, ServiceAccount, ServiceAccounts, ServiceAccountsError, Token,
    TokenManager, TokenRequest,
};
use keyfob_testkit::ManualClock;
use proptest::{
    collection::vec,
    option,
    prelude::{Just, Strategy, any},
    prop_oneof,
    sample::{Index, select},
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::words::one_of;
use crate::Topic;

pub(crate) struct Tokens;

const AUDIENCES: &[&[&str]] = &[&[], &["r"], &["r"], &["r", "s"], &["s", "r"], &["r\", \"s"]];

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    Advance(String),
    /// From now on the server's tokens end so long after they are made, and live for so many seconds as it says, if it
    /// does; without an end it gives none.
    Serve {
        expires: Option<String>,
        seconds: Option<u32>,
    },
    Get(Wanted),
    /// The pod of this uid is gone.
    Forget(String),
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Wanted {
    namespace: String,
    name: String,
    uid: String,
    audiences: Vec<String>,
    seconds: Option<i64>,
    pod: String,
    pod_uid: String,
}

impl Topic for Tokens {
    const NAME: &'static str = "tokens";
    const QUESTIONS: u32 = 20_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        (vec(wanted(), 1..=3), serve(), vec(step(), 3..=16))
            .prop_map(|(wanted, serve, steps)| {
                let step = |step: Result<Step, Index>| {
                    step.unwrap_or_else(|at| Step::Get(at.get(&wanted).clone()))
                };
                Question { steps: iter::once(Ok(serve)).chain(steps).map(step).collect() }
            })
            .boxed()
    }

    fn ours(question: &Question) -> Value {
        let clock = ManualClock::default();
        let server =
            Server(Arc::new(Mutex::new(State { clock: clock.clone(), ..State::default() })));
        let manager = TokenManager::new(Arc::new(server.clone()), Arc::new(clock.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut given = Vec::new();
        for step in &question.steps {
            match step {
                Step::Advance(by) => clock.advance(length(by)),
                Step::Serve { expires, seconds } => server.serve(expires.as_deref(), *seconds),
                Step::Forget(uid) => manager.forget_pod(uid),
                Step::Get(wanted) => {
                    let token = runtime.block_on(manager.token(&wanted.request())).ok();
                    given.push(token.map(|token| token.token.expose().clone()));
                }
            }
        }
        json!({ "given": given, "requests": server.requests() })
    }

    fn sort(upstream: &Value) -> &'static str {
        let given = upstream.get("given").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let failed = given.iter().any(Value::is_null);
        let requests = upstream.get("requests").and_then(Value::as_u64).unwrap_or_default();
        let kept = u64::try_from(given.len()).is_ok_and(|gets| requests < gets);
        match (kept, failed) {
            (false, false) => "always asked",
            (false, true) => "always asked, with failures",
            (true, false) => "kept",
            (true, true) => "kept, with failures",
        }
    }
}

fn step() -> impl Strategy<Value = Result<Step, Index>> {
    let lengths = "1m 1m 2m 4m 5m 8m 10m 47m 48m 1h 12h 23h57m 23h58m 24h 50h";
    let refuse = Just(Step::Serve { expires: None, seconds: None });
    prop_oneof![
        12 => any::<Index>().prop_map(Err),
        5 => one_of(lengths).prop_map(|by| Ok(Step::Advance(by.to_owned()))),
        2 => prop_oneof![serve().boxed(), refuse.boxed()].prop_map(Ok),
        1 => one_of("1 2").prop_map(|uid| Ok(Step::Forget(uid.to_owned()))),
    ]
}

/// Mostly the server says how long its tokens live, more or less. The last fifth of each lifetime begins half a minute past
/// a full one.
fn serve() -> impl Strategy<Value = Step> {
    let (ends, lifetimes) = ("2m 7m 12m 1h 24h 50h", [150, 450, 750, 3_750, 86_550, 180_150]);
    let likely: Vec<_> = ends.split(' ').zip(lifetimes.map(Some)).collect();
    let any_end = one_of("-1m 0s 1m 2m 5m 10m 1h 24h 50h");
    let any_lifetime = option::weighted(0.7, select(lifetimes.to_vec()));
    prop_oneof![3 => select(likely).boxed(), 1 => (any_end, any_lifetime).boxed()]
        .prop_map(|(expires, seconds)| Step::Serve { expires: Some(expires.to_owned()), seconds })
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let audiences = select(AUDIENCES);
    let seconds = prop_oneof![3 => Just(None), 1 => select(vec![Some(0), Some(600)])];
    let account = (one_of("a a b \"/a"), one_of("a a x /a"), one_of("1 1 2 "));
    (account, audiences, seconds, (one_of("p p q"), one_of("1 1 2"))).prop_map(
        |((namespace, name, uid), audiences, seconds, (pod, pod_uid))| Wanted {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            audiences: audiences.iter().copied().map(str::to_owned).collect(),
            seconds,
            pod: pod.to_owned(),
            pod_uid: pod_uid.to_owned(),
        },
    )
}

impl Wanted {
    fn request(&self) -> TokenRequest {
        TokenRequest {
            namespace: self.namespace.clone(),
            service_account: self.name.clone(),
            service_account_uid: self.uid.clone(),
            audiences: self.audiences.clone(),
            expiration_seconds: self.seconds,
            pod: Some(PodReference { name: self.pod.clone(), uid: self.pod_uid.clone() }),
        }
    }
}

/// A server that numbers its tokens. Clones are the same.
#[derive(Clone, Debug)]
struct Server(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    clock: ManualClock,
    requests: u32,
    expires: Option<GoDuration>,
    seconds: Option<u32>,
}

impl Server {
    fn serve(&self, expires: Option<&str>, seconds: Option<u32>) {
        let mut state = self.0.lock().expect("nobody panics with it");
        state.expires = expires.map(|text| GoDuration::parse(text).expect("a duration"));
        state.seconds = seconds;
    }

    fn requests(&self) -> u32 {
        self.0.lock().expect("nobody panics with it").requests
    }
}

impl State {
    fn token(&mut self) -> Option<Token> {
        self.requests += 1;
        Some(Token {
            token: self.requests.to_string().into(),
            expires: after(self.clock.now(), self.expires?),
            lifetime: self.seconds.map(|seconds| Duration::from_secs(seconds.into())),
        })
    }
}

impl ServiceAccounts for Server {
    fn get<'a>(
        &'a self,
        _namespace: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        unreachable!("a manager asks for tokens")
    }

    fn token<'a>(
        &'a self,
        _request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        let token = self.0.lock().expect("nobody panics with it").token();
        Box::pin(async {
            token.ok_or_else(|| IdentityError::Unavailable(ServiceAccountsError::new("no token")))
        })
    }
}

fn after(time: SystemTime, by: GoDuration) -> SystemTime {
    let length = Duration::from_nanos(by.as_nanos().unsigned_abs());
    if by.is_negative() { time - length } else { time + length }
}

fn length(text: &str) -> Duration {
    Duration::from_nanos(GoDuration::parse(text).expect("a duration").as_nanos().unsigned_abs())
}
