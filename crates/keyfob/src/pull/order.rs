//! Everything that is opened for a pull, and the pull itself.

use std::{io, sync::Arc};

use keyfob_api::ImageRef;
use keyfob_images::{
    EnsureError, Ensured, HostCredentials, ImageManager, ImageOptions, MirrorError, Mirrors,
    Parallelism, PlaceAnswer, PullAccess, PullCredentials as _, PullPolicy, RecordsError, Wanted,
};
use keyfob_keyring::ServiceAccountCoordinates;
use keyfob_oci::{Layout, LayoutError, Puller, StoredImage};
use thiserror::Error;

use super::{
    PullArgs,
    records_args::{Records, RecordsArgsError},
    screen::Screen,
};
use crate::agent_source::AgentAnswer;
use crate::lookup::{LookupFailure, Sources, unless_stopped};

/// A pull that can be made.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) image: ImageRef,
    pub(super) wanted: Wanted,
    pub(super) layout: Layout,
    pub(super) records: Option<Records>,
    mirrors: Mirrors,
    puller: Puller,
    screen: Screen,
}

/// How it went.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) ensured: Result<Ensured, EnsureError>,
    /// What the sources said.
    pub(super) answers: Vec<Arc<PlaceAnswer>>,
    /// What went wrong with them.
    pub(super) notes: Vec<String>,
    /// What the agent said, if it was asked.
    pub(super) agent: Option<AgentAnswer>,
    /// The image in the layout, if it is there, whoever may use it.
    pub(super) stored: Option<StoredImage>,
    /// The service account that a provider was asked with.
    pub(super) account: Option<Arc<ServiceAccountCoordinates>>,
    /// The accounts of the same name that had proved access to the image when it was here already.
    pub(super) earlier: Vec<ServiceAccountCoordinates>,
}

/// Makes a pull from its beginning to its end, unless a signal stops it, whatever it waits for.
pub(super) fn carry_out(
    args: &PullArgs,
    sources: &Sources,
    image: ImageRef,
) -> Result<(Order, Done), NoOrder> {
    let pull = async {
        let agent = sources.ask_agent(&image).await;
        let is_required = sources.agent.as_ref().is_some_and(|agent| agent.is_required);
        let agent = match agent {
            Some(useless) if is_required && useless.is_useless() => {
                return Err(NoOrder::Agent(Box::new(useless)));
            }
            agent => agent,
        };
        let order = Order::open(args, sources, image).await?;
        let done = order.carry_out(sources, agent).await;
        Ok((order, done))
    };
    let ended = sources.runtime.block_on(unless_stopped(pull)).map_err(LookupFailure::from);
    match ended.flatten() {
        Ok(ended) => ended,
        Err(LookupFailure::Stopped) => {
            Err(NoOrder::Stopped { layout: args.dest.display().to_string() })
        }
        Err(failure) => Err(NoOrder::Lookup(failure)),
    }
}

impl Order {
    async fn open(args: &PullArgs, sources: &Sources, image: ImageRef) -> Result<Self, NoOrder> {
        let mirrors = args.registry.mirrors()?;
        let records = args.records.plan(&args.dest, sources.gates)?;
        // The layout first: a directory with records in it and nothing else is none.
        let dest = args.dest.clone();
        let layout = off_thread(move || Layout::create(dest)).await??;
        let records = match records {
            Some(plan) => Some(off_thread(move || plan.open()).await??),
            None => None,
        };
        let screen = Screen::choose(args.quiet, args.sources.is_verbose());
        let puller = args.registry.puller(layout.clone(), screen.clone());
        let pod = sources.puller.as_ref().and_then(|puller| puller.pod.pod.as_ref());
        let wanted = Wanted {
            pod_uid: pod.map(|pod| pod.uid.clone()).unwrap_or_default(),
            ..Wanted::new(&args.image, args.policy(&image))
        };
        Ok(Self { image, wanted, layout, records, mirrors, puller, screen })
    }

    /// Sees to it that the image is here.
    async fn carry_out(&self, sources: &Sources, agent: Option<AgentAnswer>) -> Done {
        let mut of_agent: Vec<_> = agent.iter().flat_map(AgentAnswer::logins).collect();
        for mirror in self.mirrors.of(&self.image) {
            // A mirror that the agent has no credentials for is tried without.
            of_agent.extend(sources.ask_agent(&mirror).await.iter().flat_map(AgentAnswer::logins));
        }
        if let Some(agent) = &agent {
            self.screen.say(&agent.note());
        }
        let pull = sources.pull(&self.image, of_agent);
        let credentials = HostCredentials::new(&sources.host, &self.image, &pull)
            .with_mirrors(self.mirrors.of(&self.image))
            .telling(self.puller.client().secrets().clone());
        let recorded = self.recorded().await;
        let ensured = self.manager().ensure(&self.wanted, &credentials).await;
        self.screen.close();
        let (answers, mut notes) = (credentials.answers(), credentials.notes());
        notes.extend(agent.iter().filter_map(AgentAnswer::cause));
        let account = account(&answers);
        let earlier = match (&recorded, &account) {
            (Some(access), Some(account)) => access.earlier_accounts(account).cloned().collect(),
            _ => Vec::new(),
        };
        let stored = self.stored();
        Done { ensured, answers, notes, agent, stored, account, earlier }
    }

    /// Who has proved access to the image that is here, if that decides whether it is pulled.
    async fn recorded(&self) -> Option<PullAccess> {
        if self.wanted.policy == PullPolicy::Always {
            return None;
        }
        let (files, image) = (self.records.as_ref()?.files.clone(), self.wanted.image.clone());
        let id = self.stored()?.id.to_string();
        off_thread(move || files.access(&image, &id)).await.ok()?
    }

    /// The image in the layout. One that cannot be read is not there: whoever wanted it was told.
    fn stored(&self) -> Option<StoredImage> {
        self.layout.find(&self.image, self.puller.platform()).ok()?
    }

    fn manager(&self) -> ImageManager {
        let mut options = ImageOptions::default();
        (options.parallelism, options.rate) = (Parallelism::Unlimited, None);
        let screen = self.screen.clone();
        let manager = ImageManager::builder(Arc::new(self.puller.clone()))
            .options(options)
            .progress(move |_, progress| screen.show(progress));
        match &self.records {
            Some(records) => manager.ledger(records.files.clone()).build(),
            None => manager.build(),
        }
    }
}

/// As whom providers were asked: all of them as the same.
fn account(answers: &[Arc<PlaceAnswer>]) -> Option<Arc<ServiceAccountCoordinates>> {
    let mut reports = answers.iter().flat_map(|place| &place.answer.reports);
    reports.find_map(|report| Some(report.identity.as_ref()?.account.clone()))
}

/// Does what may wait for a file or a lock on a thread of its own: a signal must not wait for it.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoOrder> {
    let lost = |error| NoOrder::Lookup(io::Error::from(error).into());
    tokio::task::spawn_blocking(work).await.map_err(lost)
}

/// Why nothing was pulled, whatever a registry would have said.
#[derive(Debug, Error)]
pub(super) enum NoOrder {
    #[error(transparent)]
    Lookup(LookupFailure),
    #[error("the agent gives no credentials")]
    Agent(Box<AgentAnswer>),
    #[error("stopped; what has come is kept in {layout}, and the same command goes on from there")]
    Stopped { layout: String },
    #[error("the mirror cannot be asked")]
    Mirrors(#[from] MirrorError),
    #[error(transparent)]
    Layout(LayoutError),
    #[error(transparent)]
    Unwritable(LayoutError),
    #[error(transparent)]
    Records(RecordsArgsError),
    #[error(transparent)]
    KubeletRuns(RecordsError),
    #[error(
        "the records cannot be used; make their directory writable, or pull into another DEST with records of its own"
    )]
    RecordsUnwritable(#[source] RecordsError),
}

impl From<LayoutError> for NoOrder {
    fn from(error: LayoutError) -> Self {
        match error {
            LayoutError::Io { .. } => Self::Unwritable(error),
            _ => Self::Layout(error),
        }
    }
}

impl From<RecordsArgsError> for NoOrder {
    fn from(error: RecordsArgsError) -> Self {
        match error {
            RecordsArgsError::Records(error @ RecordsError::KubeletRuns { .. }) => {
                Self::KubeletRuns(error)
            }
            RecordsArgsError::Records(error) => Self::RecordsUnwritable(error),
            error => Self::Records(error),
        }
    }
}
