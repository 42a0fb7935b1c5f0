//! Service accounts for rows, and a host that asks them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_config::{ProviderConfig, TokenAttributes};
use keyfob_exec::{BoxFuture, Clock as _, Finished, Status, StderrTail, Stdin};
use keyfob_host::{
    Answer, Host, IdentityError, PodIdentity, PodReference, Pull, ServiceAccount, ServiceAccounts,
    ServiceAccountsError, Token, TokenRequest,
};
use keyfob_testkit::{FakeRunner, ManualClock};
use serde_json::Value;

use crate::stage::{Stage, block_on};

/// A service account and its token, as a row tells of them. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    clock: ManualClock,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug)]
struct Told {
    account: Result<ServiceAccount, IdentityError>,
    token: Result<String, String>,
    /// Whether the number of the token is added to it.
    numbered: bool,
    gets: Vec<(String, String)>,
    requests: Vec<TokenRequest>,
}

impl Accounts {
    pub(crate) fn new(stage: &Stage, uid: &str, annotations: BTreeMap<String, String>) -> Self {
        let told = Told {
            account: Ok(ServiceAccount { uid: uid.into(), annotations }),
            token: Ok("tok".into()),
            numbered: false,
            gets: Vec::new(),
            requests: Vec::new(),
        };
        Self { clock: stage.clock.clone(), told: Arc::new(Mutex::new(told)) }
    }

    pub(crate) fn failing(stage: &Stage, error: IdentityError) -> Self {
        let accounts = Self::new(stage, "", BTreeMap::new());
        accounts.told.lock().unwrap().account = Err(error);
        accounts
    }

    pub(crate) fn token(self, token: Result<&str, &str>) -> Self {
        self.told.lock().unwrap().token = token.map(str::to_owned).map_err(str::to_owned);
        self
    }

    pub(crate) fn numbered(self) -> Self {
        self.told.lock().unwrap().numbered = true;
        self
    }

    /// What was said when tokens were asked for.
    pub(crate) fn requests(&self) -> Vec<TokenRequest> {
        self.told.lock().unwrap().requests.clone()
    }

    /// How many accounts and tokens were asked for.
    pub(crate) fn asked(&self) -> [usize; 2] {
        let told = self.told.lock().unwrap();
        [told.gets.len(), told.requests.len()]
    }
}

impl ServiceAccounts for Accounts {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        let mut told = self.told.lock().unwrap();
        told.gets.push((namespace.into(), name.into()));
        let account = told.account.clone();
        Box::pin(async { account })
    }

    /// The manager finds every token too old, so that each call can be counted.
    fn token<'a>(
        &'a self,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        let mut told = self.told.lock().unwrap();
        told.requests.push(request.clone());
        let number = if told.numbered { told.requests.len().to_string() } else { String::new() };
        let token = told.token.clone();
        let expires = self.clock.now() + Duration::from_secs(1);
        Box::pin(async move {
            let token = token.map_err(|message| {
                IdentityError::Unavailable(ServiceAccountsError::new(message))
            })?;
            let (token, lifetime) = (format!("{token}{number}").into(), Duration::from_hours(1));
            Ok(Token { token, expires, lifetime: Some(lifetime) })
        })
    }
}

/// A host of one provider with service accounts, and what its plugin was given.
pub(crate) struct Scene {
    pub(crate) host: Host,
    pub(crate) accounts: Accounts,
    stdins: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    pub(crate) fn new(
        stage: &mut Stage,
        config: ProviderConfig,
        accounts: &Accounts,
        says: Vec<u8>,
    ) -> Self {
        let stdins: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = stdins.clone();
        let runner = FakeRunner::new(move |invocation| {
            let Stdin::Bytes(stdin) = invocation.input() else { unreachable!() };
            seen.lock().unwrap().push(String::from_utf8(stdin.expose().clone()).unwrap());
            Ok(Finished {
                program: invocation.program().into(),
                status: Status::Exited(0),
                stdout: says.clone().into(),
                stderr: StderrTail::default(),
                elapsed: Duration::ZERO,
            })
        });
        stage.script(&config.name, "");
        let builder = stage.builder(&[config]).runner(runner);
        let host = builder.service_accounts(accounts.clone()).build().unwrap();
        Self { host, accounts: accounts.clone(), stdins }
    }

    pub(crate) fn ask(&self, image: &str, pod: PodIdentity) -> Answer {
        block_on(self.host.credentials(&Pull::of_repository(image).with_pod(pod)))
    }

    pub(crate) fn stdins(&self) -> Vec<String> {
        self.stdins.lock().unwrap().clone()
    }
}

pub(crate) fn with_attributes(
    config: ProviderConfig,
    cache_type: &str,
    [required, optional]: [&[&str]; 2],
) -> ProviderConfig {
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    let attributes = TokenAttributes {
        service_account_token_audience: "audience".into(),
        // The rows leave out what a configuration may not.
        cache_type: if cache_type.is_empty() { "ServiceAccount" } else { cache_type }.into(),
        require_service_account: Some(true),
        required_service_account_annotation_keys: keys(required),
        optional_service_account_annotation_keys: keys(optional),
        ..TokenAttributes::default()
    };
    ProviderConfig { token_attributes: Some(attributes), ..config }
}

pub(crate) fn pod(namespace: &str, service_account: &str, [name, uid]: [&str; 2]) -> PodIdentity {
    PodIdentity {
        namespace: namespace.into(),
        service_account: service_account.into(),
        pod: Some(PodReference { name: name.into(), uid: uid.into() }),
    }
}

pub(crate) fn annotations(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
}
