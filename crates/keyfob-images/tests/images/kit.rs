//! A world for an image manager.

mod books;
mod purse;
mod shelf;

use std::sync::{Arc, Mutex};

use keyfob_images::{
    EnsureError, Ensured, ImageManager, ImageManagerBuilder, ImageOptions, Parallelism, PullPolicy,
    Wanted,
};
use keyfob_testkit::ManualClock;

pub(crate) use self::{
    books::{Books, Says},
    purse::{Purse, plain, with_provider, with_secret},
    shelf::{Shelf, failure, refusal},
};

/// Everything that happened, in order, by whoever did it. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn write(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    /// What was written since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Waits until something is written.
    pub(crate) async fn has(&self, entry: &str) {
        while !self.0.lock().unwrap().iter().any(|each| each == entry) {
            tokio::task::yield_now().await;
        }
    }
}

/// A manager, and everything it deals with.
pub(crate) struct Stage {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) books: Arc<Books>,
    pub(crate) clock: ManualClock,
    pub(crate) events: Diary,
    pub(crate) manager: ImageManager,
}

impl Stage {
    /// With records, and as many pulls as there are.
    pub(crate) fn new(shelf: Shelf, books: Books) -> Self {
        Self::build(shelf, books, options(Parallelism::Unlimited), |builder, books| {
            builder.ledger(books)
        })
    }

    pub(crate) fn without_records(shelf: Shelf, options: ImageOptions) -> Self {
        Self::build(shelf, Books::new(Says::MustPull), options, |builder, _| builder)
    }

    pub(crate) fn with_options(shelf: Shelf, options: ImageOptions) -> Self {
        Self::build(shelf, Books::new(Says::MayUse), options, |builder, books| {
            builder.ledger(books)
        })
    }

    fn build(
        shelf: Shelf,
        books: Books,
        options: ImageOptions,
        more: impl FnOnce(ImageManagerBuilder, Arc<Books>) -> ImageManagerBuilder,
    ) -> Self {
        let (shelf, books, clock) = (Arc::new(shelf), Arc::new(books), ManualClock::default());
        let events = Diary::default();
        let told = events.clone();
        let builder = ImageManager::builder(shelf.clone())
            .clock(Arc::new(clock.clone()))
            .options(options)
            .events(move |_, event| told.write(format!("{}: {}", event.reason, event.message)));
        let manager = more(builder, books.clone()).build();
        Self { shelf, books, clock, events, manager }
    }

    pub(crate) async fn ensure(
        &self,
        image: &str,
        policy: PullPolicy,
        purse: &Purse,
    ) -> Result<Ensured, EnsureError> {
        self.manager.ensure(&Wanted::new(image, policy), purse).await
    }
}

pub(crate) fn options(parallelism: Parallelism) -> ImageOptions {
    let mut options = ImageOptions::default();
    (options.parallelism, options.rate) = (parallelism, None);
    options
}

/// Lets every task go on as far as it can; there is nothing in them that waits for a thread.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
