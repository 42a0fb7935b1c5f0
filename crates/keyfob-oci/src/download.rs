//! A blob, from a repository into a layout.

use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::{
    Blob, Client, Layout, Progress, PullError,
    client::Repository,
    layout::{Asker, Found, Kept, Partial, Proof, Written},
};

/// How many pieces may wait to be written: each is what one read of a connection gave, some 400 KiB at most.
const PIECES: usize = 4;

/// Receiving this many bytes counts as progress and resets the count of attempts.
const PROGRESS: u64 = 1 << 20;

/// Brings blobs of one repository, asked with one credential.
#[derive(Debug)]
pub(crate) struct Download<'a> {
    pub(crate) client: &'a Client,
    pub(crate) repository: &'a Repository,
    pub(crate) asker: Asker,
    pub(crate) layout: &'a Layout,
    pub(crate) progress: &'a dyn Progress,
    /// What was brought so far.
    pub(crate) written: Mutex<Vec<Written>>,
}

impl Download<'_> {
    /// Brings a blob, unless it is here and the repository has it too. What broke off is taken up again, also where an
    /// earlier process left it.
    pub(crate) async fn fetch(&self, blob: &Blob) -> Result<(), PullError> {
        let (mut may_ask, mut is_brought) = (true, false);
        while !self.is_here(blob, &mut may_ask).await? {
            let partial = self.layout.partial(blob, self.asker.registry()).await?;
            // Whoever held it may have completed the blob.
            if self.is_here(blob, &mut may_ask).await? {
                partial.discard();
                break;
            }
            self.progress.started(blob, partial.length());
            let proof = self.bring(blob, partial).await?;
            let written = self.layout.written(&blob.digest).await?;
            self.written.lock().unwrap_or_else(PoisonError::into_inner).extend(written);
            is_brought = true;
            if proof == Proof::Access {
                break;
            }
        }
        if is_brought {
            self.progress.finished(blob);
        } else {
            self.progress.skipped(blob);
        }
        Ok(())
    }

    /// What was brought, at the end.
    pub(crate) fn into_written(self) -> Vec<Written> {
        self.written.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a blob is here, whole, and this repository has it for this credential, as far as that can be found out
    /// without a download. The repository is asked once.
    async fn is_here(&self, blob: &Blob, may_ask: &mut bool) -> Result<bool, PullError> {
        let Found::Intact(known) = self.layout.inspect(blob).await? else { return Ok(false) };
        if blob.size == 0 || known.is_proved_by(&self.asker) {
            return Ok(true);
        }
        if !known.was_sent_by(&self.asker) || !std::mem::take(may_ask) {
            return Ok(false);
        }
        let sample = self.layout.sample(blob).await?;
        let has_it = self.repository.has(blob, &sample).await.unwrap_or_else(|error| {
            tracing::debug!(digest = %blob.digest, %error, "a blob that is here is not proved");
            false
        });
        if has_it {
            self.layout.remember(&blob.digest, &self.asker, Proof::Access).await?;
        }
        Ok(has_it)
    }

    /// Downloads a blob. What was there before came from the same registry, but perhaps for another credential.
    async fn bring(&self, blob: &Blob, mut partial: Partial) -> Result<Proof, PullError> {
        let mut may_begin_anew = true;
        loop {
            partial = self.complete(blob, partial).await?;
            may_begin_anew &= partial.is_mixed();
            let proof = if partial.is_inherited() { Proof::Registry } else { Proof::Access };
            if partial.is_right() {
                // Before whoever waits for the blob finds it.
                self.layout.remember(&blob.digest, &self.asker, proof).await?;
            }
            match partial.keep().await? {
                Kept::Here => return Ok(proof),
                Kept::Wrong(emptied, found) if may_begin_anew => {
                    tracing::warn!(digest = %blob.digest, %found, "a blob in several pieces is wrong; it is fetched anew");
                    self.progress.restarted(blob);
                    (partial, may_begin_anew) = (*emptied, false);
                }
                Kept::Wrong(emptied, found) => {
                    emptied.discard();
                    let (what, wanted) = (self.repository.name_of(blob), blob.digest.clone());
                    return Err(PullError::WrongDigest { what, wanted, found });
                }
            }
        }
    }

    /// Asks for what is missing until nothing is.
    async fn complete(&self, blob: &Blob, mut partial: Partial) -> Result<Partial, PullError> {
        let mut attempt = 1;
        while partial.length() < blob.size {
            let before = partial.length();
            let ended_by;
            (partial, ended_by) = self.attempt(blob, partial).await?;
            let Some(error) = ended_by else { continue };
            if partial.length() >= before + PROGRESS {
                attempt = 1;
            }
            let error = error.after(attempt);
            let Some(pause) = self.client.pause(&error, attempt) else { return Err(error) };
            tracing::debug!(digest = %blob.digest, %error, ?pause, "blob is asked for again");
            self.progress.retried(blob, &error, pause);
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
        Ok(partial)
    }

    /// One answer, as far as it goes, and what ended it early. No more bytes are taken than the blob has.
    async fn attempt(
        &self,
        blob: &Blob,
        partial: Partial,
    ) -> Result<(Partial, Option<PullError>), PullError> {
        let mut stream = match self.repository.blob(blob, partial.length()).await {
            Ok(stream) => stream,
            Err(error) => return Ok((partial, Some(missing(error)))),
        };
        if stream.at < partial.length() {
            self.progress.restarted(blob);
        }
        let mut left = blob.size - stream.at;
        let (sender, receiver) = mpsc::channel(PIECES);
        let writing = partial.write(stream.at, receiver);
        let passing_on = async move {
            while let Some(piece) = stream.answer.piece().await? {
                let bytes = piece.as_ref().len() as u64;
                left = left.checked_sub(bytes).ok_or_else(|| self.too_large(blob))?;
                if sender.send(piece).await.is_err() {
                    // Whoever writes says why it is no longer done.
                    break;
                }
                self.progress.advanced(blob, bytes);
            }
            if left == 0 { Ok(()) } else { Err(self.broken_off(blob, left)) }
        };
        let (written, passed_on) = tokio::join!(writing, passing_on);
        Ok((written?, passed_on.err()))
    }

    fn too_large(&self, blob: &Blob) -> PullError {
        let reason = format!("the content has more than its {} bytes", blob.size);
        PullError::BadAnswer { what: self.repository.name_of(blob), reason }
    }

    fn broken_off(&self, blob: &Blob, left: u64) -> PullError {
        let reason = format!("broke off {left} bytes before the end");
        PullError::unavailable(self.repository.name_of(blob), reason)
    }
}

/// A blob that is not found is the manifest's fault: the image is there.
fn missing(error: PullError) -> PullError {
    match error {
        PullError::NotFound { what, reason } => {
            let reason = format!(
                "the manifest names this blob, but the repository does not have it: {reason}"
            );
            PullError::BadAnswer { what, reason }
        }
        other => other,
    }
}
