//! What a kubelet is made of here: a host that finds credentials, a puller with its images on disk, records of who may use
//! them, and the manager that brings the three together.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use keyfob_api::{Chain, FeatureGates, ImageRef};
use keyfob_config::Config;
use keyfob_exec::{
    BoxFuture, Clock as _, Finished, Invocation, ProcessRunner, RunError, Runner, SystemClock,
    SystemEnvironment,
};
use keyfob_host::{Host, HostOptions, KubernetesApi, Pull};
use keyfob_images::{
    EnsureError, Ensured, HostCredentials, ImageManager, PlaceAnswer, PullPolicy, PullRecords,
    Pulled, RecordsOptions, Wanted,
};
use keyfob_keyring::Credential;
use keyfob_oci::{Client, Layout, Puller};
use keyfob_playground::registry::SeenRequest;

use super::{
    cluster::{NODE, Pod},
    stage::Stage,
    story::{milliseconds, since},
};
use crate::api_args::Api;

pub(super) struct Node {
    pub(super) host: Host,
    images: ImageManager,
    pub(super) records: Arc<PullRecords>,
    started: Arc<AtomicUsize>,
}

impl Node {
    /// A node as the stage's directory has it. What is on disk is there for the next one, too.
    pub(super) fn new(stage: &Stage, options: HostOptions) -> Result<Self, String> {
        let kubeconfig = stage.cluster.node_kubeconfig(NODE).unwrap_or_default();
        let api = Api::of(kubeconfig.expose()).map_err(told)?;
        let config = Config::read(&stage.file("config.yaml")).map_err(told)?;
        let config = config.validate(FeatureGates::default()).map_err(told)?;
        let started = Arc::new(AtomicUsize::new(0));
        let host = Host::builder(config, &stage.file("plugins"))
            .service_accounts(KubernetesApi::new(api.client, api.server).redacting(api.secrets))
            .runner(Counting { started: Arc::clone(&started) })
            .options(options)
            .build()
            .map_err(told)?;

        let layout = Layout::create(stage.file("oci")).map_err(told)?;
        let puller = Puller::builder(Client::builder(&SystemEnvironment).build(), layout).build();
        let (options, clock) = (RecordsOptions::default(), Arc::new(SystemClock));
        let records = PullRecords::open(&stage.file("oci"), options, clock).map_err(told)?;
        let records = Arc::new(records);
        let images = ImageManager::builder(Arc::new(puller)).ledger(records.clone()).build();
        Ok(Self { host, images, records, started })
    }

    /// Sees to it that an image is here for a pod, or for the node itself, and counts what that takes.
    pub(super) async fn ensure(
        &self,
        stage: &Stage,
        (image, policy): (&str, PullPolicy),
        pod: Option<Pod>,
    ) -> Result<Seen, String> {
        let image = ImageRef::parse(&stage.image(image)).map_err(told)?;
        let pull = Pull::new(&image);
        let pull = pod.into_iter().fold(pull, |pull, pod| pull.with_pod(pod.identity()));
        let mut wanted = Wanted::new(image.to_string(), policy);
        wanted.pod_uid = pod.map(Pod::uid).unwrap_or_default();

        let (began, started) = (SystemClock.now(), self.started());
        stage.registry.forget_requests();
        let credentials = HostCredentials::new(&self.host, &image, &pull);
        let ended = self.images.ensure(&wanted, &credentials).await;
        Ok(Seen {
            ended,
            answers: credentials.answers(),
            processes: self.started() - started,
            requests: stage.registry.requests(),
            took: since(began),
        })
    }

    /// How many plugins were started so far.
    pub(super) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }
}

/// How it ended for an image that was wanted, and what it took.
pub(super) struct Seen {
    pub(super) ended: Result<Ensured, EnsureError>,
    /// What the host said, if it was asked.
    pub(super) answers: Vec<Arc<PlaceAnswer>>,
    pub(super) processes: usize,
    /// What the registry was asked, by anybody.
    pub(super) requests: Vec<SeenRequest>,
    pub(super) took: Duration,
}

impl Seen {
    /// The pull, and with which login it was made.
    pub(super) fn pulled(&self) -> Result<(&Pulled, &Credential), String> {
        let ensured = self.ended.as_ref().map_err(ToString::to_string)?;
        let pulled = ensured.pulled.as_ref().ok_or("it was there before")?;
        let login = pulled.attempt.credential.as_ref().ok_or("it needed no login")?;
        Ok((pulled, login))
    }

    pub(super) fn figures(&self) -> String {
        let processes = counted(self.processes, "process", "processes");
        let requests = counted(self.requests.len(), "request", "requests");
        format!("{processes} started, {requests} to the registry, {}", milliseconds(self.took))
    }
}

fn counted(number: usize, one: &str, many: &str) -> String {
    match number {
        0 => format!("no {one}"),
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// Starts real processes, and counts them.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) started: Arc<AtomicUsize>,
}

impl Runner for Counting {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        self.started.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { ProcessRunner::new(SystemEnvironment).run(invocation).await })
    }
}

/// An error and its causes.
pub(super) fn told(error: impl Error + 'static) -> String {
    Chain(&error).to_string()
}
