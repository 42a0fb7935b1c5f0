//! A ledger.

use std::{
    error::Error,
    sync::{Arc, Mutex},
};

use keyfob_images::{
    AbandonedPulls, Access, AccessCheck, LocalImage, OpenCheck, PodCredentials, PullAccess,
    PullLedger,
};
use tokio::sync::mpsc;

use super::Diary;

/// What a ledger says of images that are here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    MayUse,
    MustPull,
    /// Those who have a secret of this name may use them.
    Secret(&'static str),
}

/// Remembers what it is told.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) diary: Diary,
    pub(crate) says: Says,
    pub(crate) intents_left: bool,
    pub(crate) full_disk: bool,
    /// The disk gets full while images are pulled.
    pub(crate) no_room_for_records: bool,
    /// What is waited for before anything is recorded, if there is something.
    pause: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    told: mpsc::UnboundedSender<String>,
    heard: tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>,
}

impl Books {
    pub(crate) fn new(says: Says) -> Self {
        let (told, heard) = mpsc::unbounded_channel();
        Self {
            diary: Diary::default(),
            says,
            intents_left: false,
            full_disk: false,
            no_room_for_records: false,
            pause: Mutex::default(),
            told,
            heard: tokio::sync::Mutex::new(heard),
        }
    }

    /// The next entry waits for what is sent here.
    pub(crate) fn pause(&self) -> std::sync::mpsc::Sender<()> {
        let (resume, pause) = std::sync::mpsc::channel();
        *self.pause.lock().unwrap() = Some(pause);
        resume
    }

    /// Waits for the next entry, or for it to be paused.
    pub(crate) async fn next(&self) -> String {
        self.heard.lock().await.recv().await.unwrap()
    }

    fn write(&self, entry: String) {
        if let Some(pause) = self.pause.lock().unwrap().take() {
            self.told.send("paused".into()).unwrap();
            pause.recv().unwrap();
        }
        self.diary.write(entry.clone());
        self.told.send(entry).unwrap();
    }
}

impl PullLedger for Books {
    fn record_intent(&self, image: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.full_disk {
            return Err("no space left on device".into());
        }
        self.write(format!("intent {image}"));
        Ok(())
    }

    fn record_pulled(
        &self,
        image: &str,
        image_id: &str,
        access: &PullAccess,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.no_room_for_records {
            return Err("no space left on device".into());
        }
        let secrets = access.secrets.iter().map(|each| each.secret.name.as_str());
        let accounts = access.service_accounts.iter().map(|account| account.name.as_str());
        let node = access.node_pods_accessible.then_some("every pod");
        let by: Vec<&str> = secrets.chain(accounts).chain(node).collect();
        self.write(format!("pulled {image} {image_id} for {}", by.join(",")));
        Ok(())
    }

    fn record_failed(&self, image: &str) {
        self.write(format!("failed {image}"));
    }

    fn check(self: Arc<Self>, image: &str, image_id: &str) -> AccessCheck {
        self.write(format!("check {image} {image_id}"));
        match self.says {
            Says::MayUse => AccessCheck::Settled(Access::MayUse),
            Says::MustPull => AccessCheck::Settled(Access::MustPull),
            Says::Secret(name) => AccessCheck::Depends(Box::new(Needs { name, books: self })),
        }
    }

    fn abandoned(self: Arc<Self>) -> Option<Box<dyn AbandonedPulls>> {
        self.intents_left.then(|| -> Box<dyn AbandonedPulls> { Box::new(Left(self)) })
    }
}

#[derive(Debug)]
struct Left(Arc<Books>);

impl AbandonedPulls for Left {
    fn recover(self: Box<Self>, images: &[LocalImage]) {
        self.0.write(format!("recover {}", images.len()));
    }
}

#[derive(Debug)]
struct Needs {
    name: &'static str,
    books: Arc<Books>,
}

impl OpenCheck for Needs {
    fn settle(self: Box<Self>, credentials: &PodCredentials) -> Access {
        self.books.write("settle".into());
        let has = credentials.secrets.iter().any(|each| each.secret.name == self.name);
        if has { Access::MayUse } else { Access::MustPull }
    }

    fn give_up(self: Box<Self>) {
        self.books.write("give up".into());
    }
}
