//! What an image manager is made of.

use std::{fmt, sync::Arc};

use keyfob_exec::{Clock, SystemClock};

use super::{
    super::{
        ImageEvent, ImageOptions, ImageService, PullLedger, PullProgress, Wanted,
        backoff::PullBackoff,
        events::{self, EventSink, ProgressSink},
        limits::Gate,
        metrics::Metrics,
    },
    ImageManager,
};

/// Everything an image manager is made of.
pub struct ImageManagerBuilder {
    service: Arc<dyn ImageService>,
    ledger: Option<Arc<dyn PullLedger>>,
    clock: Arc<dyn Clock>,
    options: ImageOptions,
    events: Box<EventSink>,
    progress: Box<ProgressSink>,
}

impl ImageManagerBuilder {
    pub(super) fn new(service: Arc<dyn ImageService>) -> Self {
        Self {
            service,
            ledger: None,
            clock: Arc::new(SystemClock),
            options: ImageOptions::default(),
            events: Box::new(events::log),
            progress: Box::new(|_, _| {}),
        }
    }

    /// Where it is remembered who may use which image. Without it every pod may use what is here.
    #[must_use]
    pub fn ledger(mut self, ledger: Arc<dyn PullLedger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// By which clock pulls are measured, limited and held back.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How many pulls there may be.
    #[must_use]
    pub fn options(mut self, options: ImageOptions) -> Self {
        self.options = options;
        self
    }

    /// Who is told what happens, at once; without it, the log is.
    #[must_use]
    pub fn events(mut self, events: impl Fn(&Wanted, &ImageEvent) + Send + Sync + 'static) -> Self {
        self.events = Box::new(events);
        self
    }

    /// Who is told what a pull is at, at once; without it, nobody is.
    #[must_use]
    pub fn progress(
        mut self,
        progress: impl Fn(&Wanted, PullProgress<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// The manager.
    pub fn build(self) -> ImageManager {
        ImageManager {
            service: self.service,
            ledger: self.ledger,
            clock: self.clock,
            events: self.events,
            progress: self.progress,
            metrics: Metrics::default(),
            backoff: PullBackoff::new(self.options.backoff),
            gate: Gate::new(&self.options),
        }
    }
}

impl fmt::Debug for ImageManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, ledger, options, .. } = self;
        let mut shown = f.debug_struct("ImageManagerBuilder");
        shown.field("service", service).field("ledger", ledger).field("options", options);
        shown.finish_non_exhaustive()
    }
}
