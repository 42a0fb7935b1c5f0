//! A ledger.

use std::{
    io::{self, ErrorKind},
    sync::{Arc, Mutex},
};

use keyfob_exec::SystemClock;
use keyfob_images::{
    Abandoned, LocalImage, MustPull, PodCredentials, PullAccess, PullLedger, PullRecords, Recorded,
    RecordsError, RecordsOptions,
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
    fn record_intent(&self, image: &str) -> Result<(), RecordsError> {
        if self.full_disk {
            return Err(no_space());
        }
        self.write(format!("intent {image}"));
        Ok(())
    }

    fn record_pulled(
        &self,
        image: &str,
        image_id: &str,
        access: &PullAccess,
    ) -> Result<(), RecordsError> {
        if self.no_room_for_records {
            return Err(no_space());
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

    fn must_pull(&self, image: &str, image_id: &str) -> MustPull {
        self.write(format!("check {image} {image_id}"));
        match self.says {
            Says::MayUse => MustPull::No,
            Says::MustPull => MustPull::Yes,
            Says::Secret(_) => {
                MustPull::Depends(Recorded::new(image, image_id, PullAccess::default()))
            }
        }
    }

    fn settle(&self, recorded: Recorded, credentials: &PodCredentials) -> bool {
        self.write(format!("settle {}", recorded.image()));
        let has = |name| credentials.secrets.iter().any(|each| each.secret.name == name);
        !matches!(self.says, Says::Secret(name) if has(name))
    }

    fn unsettled(&self, recorded: Recorded) {
        self.write(format!("give up {}", recorded.image()));
    }

    fn abandoned(&self) -> Abandoned {
        if self.intents_left { one_abandoned() } else { Abandoned::default() }
    }

    fn recover(&self, abandoned: Abandoned, images: &[LocalImage]) {
        let pulls: Vec<&str> = abandoned.images().collect();
        self.write(format!("recover {} from {}", pulls.join(","), images.len()));
    }
}

fn no_space() -> RecordsError {
    let source = io::Error::new(ErrorKind::StorageFull, "no space left on device");
    RecordsError::Io { action: "write", path: "/records/file".into(), source }
}

/// What records have that whoever was pulling `left` did not live to finish.
fn one_abandoned() -> Abandoned {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let (options, clock) = (RecordsOptions::default(), Arc::new(SystemClock));
        PullRecords::open(directory.path(), options, clock).unwrap()
    };
    open().record_intent("left").unwrap();
    open().abandoned()
}
