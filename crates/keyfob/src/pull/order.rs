//! Everything that is opened for a pull, and the pull itself.

use std::sync::Arc;

use keyfob_api::ImageRef;
use keyfob_host::{
    EnsureError, Ensured, HostCredentials, ImageManager, ImageOptions, MirrorError, Mirrors,
    Parallelism, PlaceAnswer, PullCredentials as _, RecordsError, Wanted,
};
use keyfob_oci::{Layout, LayoutError, StoredImage};
use thiserror::Error;

use super::{
    PullArgs,
    records_args::{Records, RecordsArgsError},
    screen::Screen,
    store::{Obstacle, Store},
};
use crate::{
    host_args::SetupError,
    lookup::{LookupFailure, Sources, unless_stopped},
};

/// A pull that can be made.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) image: ImageRef,
    pub(super) wanted: Wanted,
    pub(super) layout: Layout,
    pub(super) records: Option<Records>,
    mirrors: Mirrors,
    store: Arc<Store>,
    screen: Screen,
    sources: Sources,
}

/// How it went.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) ensured: Result<Ensured, EnsureError>,
    /// What was in the way of each attempt that failed.
    pub(super) obstacles: Vec<Obstacle>,
    /// What the sources said.
    pub(super) answers: Vec<Arc<PlaceAnswer>>,
    /// What went wrong with them.
    pub(super) notes: Vec<String>,
    /// The image in the layout, if it is there, whoever may use it.
    pub(super) stored: Option<StoredImage>,
}

impl Order {
    pub(super) fn open(args: &PullArgs, image: ImageRef) -> Result<Self, NoOrder> {
        let mirrors = args.registry.mirrors()?;
        let sources = args.sources.open_any(args.registry.host_options())?;
        // The layout first: a directory with records in it and nothing else is none.
        let layout = Layout::create(&args.dest)?;
        let records = args.records.open(&args.dest, args.sources.gates())?;
        let screen = Screen::choose(args.quiet, args.sources.is_verbose());
        let puller = args.registry.puller(layout.clone(), screen.clone());
        let pod = sources.puller.as_ref().and_then(|puller| puller.pod.pod.as_ref());
        let wanted = Wanted {
            pod_uid: pod.map(|pod| pod.uid.clone()).unwrap_or_default(),
            ..Wanted::new(&args.image, args.policy(&image))
        };
        let store = Arc::new(Store::new(puller, screen.clone()));
        Ok(Self { image, wanted, layout, records, mirrors, store, screen, sources })
    }

    /// Sees to it that the image is here.
    pub(super) fn carry_out(&self) -> Result<Done, NoOrder> {
        let pull = self.sources.pull(&self.image);
        let credentials = HostCredentials::new(&self.sources.host, &self.image, &pull)
            .with_mirrors(self.mirrors.of(&self.image));
        let manager = self.manager();
        let ensuring = unless_stopped(manager.ensure(&self.wanted, &credentials));
        let ensured = self.sources.runtime.block_on(ensuring);
        self.screen.close();
        let ensured = match ensured {
            Ok(ensured) => ensured,
            Err(LookupFailure::Stopped) => {
                let layout = self.layout.path().display().to_string();
                return Err(NoOrder::Stopped { layout });
            }
            Err(failure) => return Err(NoOrder::Lookup(failure)),
        };
        let (answers, notes) = (credentials.answers(), credentials.notes());
        let stored = self.store.stored(&self.image);
        Ok(Done { ensured, obstacles: self.store.obstacles(), answers, notes, stored })
    }

    /// What a kubelet would not start with.
    pub(super) fn warnings(&self) -> String {
        self.sources.warnings()
    }

    fn manager(&self) -> ImageManager {
        let mut options = ImageOptions::default();
        (options.parallelism, options.rate) = (Parallelism::Unlimited, None);
        let manager = ImageManager::builder(self.store.clone()).options(options);
        match &self.records {
            Some(records) => manager.ledger(records.files.clone()).build(),
            None => manager.build(),
        }
    }
}

/// Why nothing was pulled, whatever a registry would have said.
#[derive(Debug, Error)]
pub(super) enum NoOrder {
    #[error(transparent)]
    Sources(#[from] SetupError),
    #[error(transparent)]
    Lookup(LookupFailure),
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
    #[error("the records cannot be used; give another --records-dir, or --no-records")]
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
            RecordsArgsError::Records(error) => Self::RecordsUnwritable(error),
            error => Self::Records(error),
        }
    }
}
