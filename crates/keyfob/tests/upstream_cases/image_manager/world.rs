//! A runtime, a ledger and credentials as upstream's tests have them.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex},
};

use keyfob_api::ImageRef;
use keyfob_exec::BoxFuture;
use keyfob_host::Pull;
use keyfob_images::{
    Abandoned, Attempt, CredentialLookupError, EventReason, ImageManager, ImageOptions,
    ImageService, ImageServiceError, ImageSpec, LocalImage, MustPull, PodCredentials, PullAccess,
    PullCredentials, PullFailure, PullLedger, Recorded, RecordsError, SecretAccess,
};
use keyfob_keyring::{
    Login, Logins, ProviderSource, PullSecret, SecretCoordinates, ServiceAccountCoordinates,
    Source, select,
};
use keyfob_testkit::ManualClock;
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::text;

/// What a manager is made of.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    /// Nothing if the gate is off.
    pub(crate) allowed: Option<Allowed>,
    options: ImageOptions,
}

/// A manager and whatever it deals with. Clones are the same.
#[derive(Clone)]
pub(crate) struct Built {
    pub(crate) manager: Arc<ImageManager>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) clock: ManualClock,
    events: Arc<Mutex<Vec<EventReason>>>,
    checks: Arc<Mutex<Vec<Value>>>,
    registry: Arc<Registry>,
}

impl World {
    pub(crate) fn new(options: ImageOptions) -> Self {
        Self { runtime: Runtime::default(), allowed: None, options }
    }

    pub(crate) fn build(self) -> Built {
        let (runtime, clock) = (Arc::new(self.runtime), ManualClock::default());
        let events: Arc<Mutex<Vec<EventReason>>> = Arc::default();
        let (told, checks) = (events.clone(), Arc::default());
        let mut registry = Registry::default();
        let mut builder = ImageManager::builder(runtime.clone())
            .clock(Arc::new(clock.clone()))
            .options(self.options)
            .events(move |_, event| told.lock().unwrap().push(event.reason));
        if let Some(allowed) = self.allowed {
            builder = builder.ledger(Arc::new(Ledger { allowed, checks: Arc::clone(&checks) }));
        }
        let manager = Arc::new(builder.build());
        manager.register_metrics(&mut registry);
        Built { manager, runtime, clock, events, checks, registry: Arc::new(registry) }
    }
}

impl Built {
    pub(crate) fn take_events(&self) -> Vec<&'static str> {
        mem::take(&mut *self.events.lock().unwrap()).into_iter().map(EventReason::as_str).collect()
    }

    /// What the ledger was told of the pod's credentials, each time it wanted to know.
    pub(crate) fn checks(&self) -> Vec<Value> {
        self.checks.lock().unwrap().clone()
    }

    pub(crate) fn metrics(&self) -> String {
        let mut shown = String::new();
        encode(&mut shown, &self.registry).unwrap();
        shown
    }
}

/// Upstream's `FakeRuntime`: it has one image.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) inspect_error: Option<String>,
    pub(crate) pull_error: Option<String>,
    images: Mutex<Vec<ImageSpec>>,
    calls: Mutex<Vec<&'static str>>,
    blocked: Option<Semaphore>,
}

impl Default for Runtime {
    fn default() -> Self {
        let present = ImageSpec { image: "present_image:latest".into(), ..ImageSpec::default() };
        Self {
            inspect_error: None,
            pull_error: None,
            images: Mutex::new(vec![present]),
            calls: Mutex::default(),
            blocked: None,
        }
    }
}

impl Runtime {
    pub(crate) fn block_pulls(&mut self) {
        self.blocked = Some(Semaphore::new(0));
    }

    pub(crate) fn unblock_pulls(&self, count: usize) {
        self.blocked.as_ref().unwrap().add_permits(count);
    }

    pub(crate) fn take_calls(&self) -> Vec<&'static str> {
        mem::take(&mut self.calls.lock().unwrap())
    }

    pub(crate) fn pulls(&self) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| **call == "PullImage").count()
    }

    pub(crate) fn last_pulled(&self) -> ImageSpec {
        self.images.lock().unwrap().last().unwrap().clone()
    }

    fn call(&self, name: &'static str) {
        self.calls.lock().unwrap().push(name);
    }
}

impl ImageService for Runtime {
    fn image_id<'a>(
        &'a self,
        spec: &'a ImageSpec,
    ) -> BoxFuture<'a, Result<Option<String>, ImageServiceError>> {
        Box::pin(async {
            self.call("GetImageRef");
            if let Some(error) = &self.inspect_error {
                return Err(ImageServiceError::new(error.clone()));
            }
            let images = self.images.lock().unwrap();
            Ok(images.iter().find(|image| image.image == spec.image).map(|it| it.image.clone()))
        })
    }

    fn pull<'a>(
        &'a self,
        spec: &'a ImageSpec,
        _attempt: &'a Attempt,
    ) -> BoxFuture<'a, Result<String, PullFailure>> {
        Box::pin(async {
            self.call("PullImage");
            if let Some(blocked) = &self.blocked {
                blocked.acquire().await.unwrap().forget();
            }
            if let Some(error) = &self.pull_error {
                return Err(PullFailure::of_runtime(error));
            }
            self.images.lock().unwrap().push(spec.clone());
            Ok(spec.image.clone())
        })
    }

    fn size<'a>(&'a self, _spec: &'a ImageSpec) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async {
            self.call("GetImageSize");
            Some(0)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<LocalImage>, ImageServiceError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Whom upstream's mock of the pull manager lets in.
#[derive(Clone, Debug)]
pub(crate) enum Allowed {
    /// Everybody, and nobody is asked for anything.
    All,
    /// Everybody who has been asked.
    WhoeverHas,
    /// Nobody.
    Nobody,
    /// Who has one of these, by image.
    Listed { secrets: Value, accounts: Value },
}

impl Allowed {
    pub(crate) fn of(config: &Value) -> Self {
        if config.is_null() || config["allowAll"] == true {
            return Self::All;
        }
        let [secrets, accounts] =
            ["allowedSecrets", "allowedServiceAccounts"].map(|field| config[field].clone());
        Self::Listed { secrets, accounts }
    }
}

#[derive(Debug)]
struct Ledger {
    allowed: Allowed,
    checks: Arc<Mutex<Vec<Value>>>,
}

impl PullLedger for Ledger {
    fn record_intent(&self, _image: &str) -> Result<(), RecordsError> {
        Ok(())
    }

    fn record_pulled(
        &self,
        _image: &str,
        _image_id: &str,
        _access: &PullAccess,
    ) -> Result<(), RecordsError> {
        Ok(())
    }

    fn record_failed(&self, _image: &str) {}

    fn must_pull(&self, image: &str, image_id: &str) -> MustPull {
        match self.allowed {
            Allowed::All => MustPull::No,
            _ => MustPull::Depends(Recorded::new(image, image_id, PullAccess::default())),
        }
    }

    fn settle(&self, recorded: Recorded, credentials: &PodCredentials) -> bool {
        let PodCredentials { secrets, service_account } = credentials;
        let secrets: Vec<Value> = secrets
            .iter()
            .map(|SecretAccess { secret, .. }| {
                coordinates(&secret.namespace, &secret.name, &secret.uid)
            })
            .collect();
        let accounts: Vec<Value> = service_account
            .iter()
            .map(|account| coordinates(&account.namespace, &account.name, &account.uid))
            .collect();
        let is_listed = |listed: &Value, own: &[Value]| {
            let listed = listed[recorded.image()].as_array();
            listed.is_some_and(|listed| own.iter().any(|own| listed.contains(own)))
        };
        let may_use = match &self.allowed {
            Allowed::All | Allowed::WhoeverHas => true,
            Allowed::Nobody => false,
            Allowed::Listed { secrets: s, accounts: a } => {
                is_listed(s, &secrets) || is_listed(a, &accounts)
            }
        };
        let told = json!({ "secrets": secrets, "accounts": accounts });
        self.checks.lock().unwrap().push(told);
        !may_use
    }

    fn unsettled(&self, _recorded: Recorded) {}

    fn abandoned(&self) -> Abandoned {
        Abandoned::default()
    }

    fn recover(&self, _abandoned: Abandoned, _images: &[LocalImage]) {}
}

fn coordinates(namespace: &str, name: &str, uid: &str) -> Value {
    json!({ "Namespace": namespace, "Name": name, "UID": uid })
}

/// The pod's secrets, and then what the node's keyring has.
#[derive(Debug)]
pub(crate) struct PodsCredentials {
    image: String,
    secrets: Vec<Arc<Logins>>,
    registry: Vec<Arc<Logins>>,
}

impl PodsCredentials {
    pub(crate) fn of(image: &str, row: &Value) -> Self {
        let secrets: Vec<PullSecret> =
            row["pullSecrets"].as_array().into_iter().flatten().map(pull_secret).collect();
        let registry = row["registryCredentials"].as_object().into_iter().flatten();
        let registry = registry.flat_map(|(repository, credentials)| {
            let logins = |credential| Arc::new(tracked(repository, credential));
            credentials.as_array().unwrap().iter().map(logins)
        });
        let registry = registry.collect();
        let secrets = PullSecret::all_logins(&secrets).unwrap();
        Self { image: image.to_owned(), secrets, registry }
    }
}

fn pull_secret(secret: &Value) -> PullSecret {
    let (username, password) = text(secret, "auth").split_once(':').unwrap();
    let login = json!({ "username": username, "password": password });
    let config = json!({ "auths": { text(secret, "repo"): login } });
    let data =
        BTreeMap::from([(".dockerconfigjson".to_owned(), config.to_string().into_bytes().into())]);
    let [namespace, name, uid] = parts(&secret["secret"]);
    let coordinates = SecretCoordinates { uid, namespace, name };
    PullSecret { coordinates, secret_type: text(secret, "type").into(), data }
}

fn tracked(repository: &str, credential: &Value) -> Logins {
    let auth = &credential["AuthConfig"];
    let login = Login {
        username: text(auth, "Username").into(),
        password: text(auth, "Password").into(),
        ..Login::default()
    };
    let source = &credential["Source"];
    let account = source.get("ServiceAccount").map(|account| {
        let [namespace, name, uid] = parts(account);
        Arc::new(ServiceAccountCoordinates { uid, namespace, name })
    });
    let source = Source::Provider(Arc::new(ProviderSource { name: "provider".into(), account }));
    Logins::new(source, [(repository, login)])
}

fn parts(coordinates: &Value) -> [String; 3] {
    ["Namespace", "Name", "UID"].map(|part| text(coordinates, part).to_owned())
}

impl PullCredentials for PodsCredentials {
    fn attempts(&self) -> BoxFuture<'_, Result<Vec<Attempt>, CredentialLookupError>> {
        Box::pin(async {
            let image = ImageRef::parse(&self.image).unwrap();
            let pull = Pull::new(&image);
            let find = |sources: &[Arc<Logins>]| select(pull.image(), pull.target(), sources);
            let found = find(&self.secrets).into_iter().chain(find(&self.registry));
            let attempt =
                |credential| Attempt { from: image.clone(), credential: Some(credential) };
            Ok(found.map(attempt).collect())
        })
    }

    fn refused<'a>(&'a self, _attempt: &'a Attempt) -> BoxFuture<'a, Option<Attempt>> {
        Box::pin(async { None })
    }
}
