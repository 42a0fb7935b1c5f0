//! Rows about when a token is asked for anew.

use std::{
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
use serde_json::{Value, json};

use crate::{Check, fact, same, stage::block_on, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/token_manager.json", "TestTokenCachingAndExpiration", caching),
    ("kubelet/token_manager.json", "TestRequiresRefresh", refresh),
    ("kubelet/token_manager.json", "TestDeleteServiceAccountToken", delete),
    ("kubelet/token_manager.json", "TestCleanup", cleanup),
    ("kubelet/token_manager.json", "TestKeyFunc", key),
];

/// A manager, and a server whose tokens are as it is told.
struct Scene {
    clock: ManualClock,
    server: Server,
    manager: TokenManager,
}

#[derive(Clone, Debug)]
struct Server(Arc<Mutex<Told>>);

#[derive(Debug)]
struct Told {
    calls: usize,
    fails: bool,
    expires: SystemTime,
    lifetime: Option<Duration>,
}

impl Scene {
    /// Tokens end at a time that is told from now on, and live as long as that.
    fn new(expires: &str) -> Self {
        let clock = ManualClock::default();
        let (expires, lifetime) = after(&clock, expires);
        let told = Told { calls: 0, fails: false, expires, lifetime };
        let server = Server(Arc::new(Mutex::new(told)));
        let manager = TokenManager::new(Arc::new(server.clone()), Arc::new(clock.clone()));
        Self { clock, server, manager }
    }

    fn get(&self, request: &TokenRequest) -> Result<Arc<Token>, IdentityError> {
        block_on(self.manager.token(request))
    }

    fn advance(&self, by: &str) {
        self.clock.advance(GoDuration::parse(by).unwrap().to_std().unwrap());
    }

    fn calls(&self) -> usize {
        self.server.0.lock().unwrap().calls
    }
}

/// A time so long after the clock's, or before it, and how long that is.
fn after(clock: &ManualClock, duration: &str) -> (SystemTime, Option<Duration>) {
    let duration = GoDuration::parse(duration).unwrap();
    let length = Duration::from_nanos(duration.as_nanos().unsigned_abs());
    let now = clock.now();
    (if duration.is_negative() { now - length } else { now + length }, Some(length))
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
        let mut told = self.0.lock().unwrap();
        told.calls += 1;
        let token = Token {
            token: told.calls.to_string().into(),
            expires: told.expires,
            lifetime: told.lifetime,
        };
        let fails = told.fails;
        Box::pin(async move {
            if fails {
                Err(IdentityError::Unavailable(ServiceAccountsError::new("down")))
            } else {
                Ok(token)
            }
        })
    }
}

/// A request in the notation of the rows.
fn request(of: &Value) -> TokenRequest {
    let (meta, spec) = (&of["tr"]["ObjectMeta"], &of["tr"]["Spec"]);
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let bound = spec.get("BoundObjectRef");
    TokenRequest {
        namespace: string(&of["namespace"]),
        service_account: string(&of["name"]),
        service_account_uid: string(&meta["UID"]),
        audiences: spec["Audiences"].as_array().into_iter().flatten().map(string).collect(),
        expiration_seconds: spec["ExpirationSeconds"].as_i64(),
        pod: bound.map(|pod| PodReference { name: string(&pod["Name"]), uid: string(&pod["UID"]) }),
    }
}

fn caching(_file: &Value, row: &Value) -> Result<(), String> {
    let scene = Scene::new(text(row, "exp"));
    let plain = TokenRequest::default();
    let with_uid = |uid: &str| TokenRequest { service_account_uid: uid.into(), ..plain.clone() };
    let first = scene.get(&plain).unwrap();
    scene.get(&plain).unwrap();
    fact("calls at first", &scene.calls(), &1)?;
    let mut last = Ok(first.clone());
    for step in text(row, "then").split(", ") {
        match step.split_once(' ') {
            None if step == "get" => last = scene.get(&plain),
            Some(("advance", by)) => scene.advance(by),
            Some(("API", "fails")) => scene.server.0.lock().unwrap().fails = true,
            Some(("get", "twice with the same SA uid")) => {
                scene.get(&with_uid("uid")).unwrap();
                last = scene.get(&with_uid("uid"));
            }
            Some(("get", uid)) => last = scene.get(&with_uid(uid)),
            _ => return Err(format!("no such step: {step}")),
        }
    }
    if let Some(calls) = row.get("expected_api_calls") {
        return fact("calls", &json!(scene.calls()), calls);
    }
    match (text(row, "expected").starts_with("old token"), last) {
        (true, Ok(last)) => same(last.token.expose(), first.token.expose()),
        (is_old, last) => fact("failed", &last.is_err(), &!is_old),
    }
}

/// Jitter is random, as upstream's: the rows are far from it.
fn refresh(_file: &Value, row: &Value) -> Result<(), String> {
    let from_start = |field: &str| text(row, field).strip_prefix("start+").unwrap();
    let scene = Scene::new(from_start("exp"));
    if row["note"].is_string() {
        scene.server.0.lock().unwrap().lifetime = None;
    }
    scene.get(&TokenRequest::default()).unwrap();
    scene.advance(from_start("now"));
    scene.get(&TokenRequest::default()).unwrap();
    same(&Some(scene.calls() == 2), &row["expectRefresh"].as_bool())
}

fn delete(file: &Value, row: &Value) -> Result<(), String> {
    let groups = file["groups"].as_array().unwrap().iter();
    let group = groups.into_iter().find(|group| group["test"] == "TestDeleteServiceAccountToken");
    let requests = &group.unwrap()["requests"];
    let indices = |field: &str| row[field].as_array().cloned().unwrap_or_default();
    let at = |index: &Value| &requests[usize::try_from(index.as_u64().unwrap()).unwrap()];
    let scene = Scene::new("1h");
    for index in indices("requestIndex") {
        let fails = at(&index)["shouldFail"] == true;
        scene.server.0.lock().unwrap().fails = fails;
        fact("failed", &scene.get(&request(at(&index))).is_err(), &fails)?;
    }
    for uid in indices("deletePodUID") {
        scene.manager.forget_pod(uid.as_str().unwrap());
    }
    let (left, calls) = (indices("expLeftIndex"), scene.calls());
    fact("left", &scene.manager.kept(), &left.len())?;
    for index in left {
        scene.get(&request(at(&index))).unwrap();
    }
    fact("asked for again", &(scene.calls() - calls), &0)
}

/// Expired tokens go when another is asked for a minute later.
fn cleanup(_file: &Value, row: &Value) -> Result<(), String> {
    let scene = Scene::new(text(row, "relativeExp"));
    scene.get(&TokenRequest::default()).unwrap();
    scene.advance("1m");
    let another = TokenRequest { namespace: "another".into(), ..TokenRequest::default() };
    scene.get(&another).unwrap();
    same(&json!(scene.manager.kept() - 1), &row["expectedCacheSize"])
}

fn key(_file: &Value, row: &Value) -> Result<(), String> {
    let scene = Scene::new("1h");
    for stored in row["trus"].as_array().unwrap() {
        scene.get(&request(stored)).unwrap();
    }
    let calls = scene.calls();
    scene.get(&request(&row["target"])).unwrap();
    same(&Some(scene.calls() == calls), &row["shouldHit"].as_bool())
}
