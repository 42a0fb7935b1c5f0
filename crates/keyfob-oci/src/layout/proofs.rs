//! What is known of the blobs in a layout: which file was verified, and who proved access to it.
//!
//! A blob on disk belongs to whoever may have it, and a manifest that names it proves nothing: anybody can write one. A
//! pull may use a blob that is here only if its own repository, asked with its own credential, has it too:
//!
//! - Whoever downloaded all of it has proved that. So the proof is remembered, for this repository and credential.
//! - A registry that has sent the whole blob before already has its content, and it decides which of its repositories have
//!   the blob, and for whom: a sample from a random place is enough.
//! - Every other registry may lie. It has to send the whole blob again.
//!
//! `.keyfob/proofs` has a small file for each blob. One that is missing, broken or not a regular file proves nothing: the
//! blob is then downloaded again. So no lock is needed, and nothing is brought to the disk: of two who write at once, one
//! loses a proof. Credentials are stored as hashes under a random key (`.keyfob/proofs/key`), never as they are.
//!
//! A file whose content was verified is not hashed again until it changes. If it changed a moment before, its times cannot
//! tell whether it changed once more: then it is hashed again the next time.

use std::{
    fs::{File, Metadata},
    io::{self, Read as _, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    time::{Duration, UNIX_EPOCH},
};

use aws_lc_rs::{hmac, rand};
use keyfob_api::Secret;
use keyfob_exec::{Clock as _, Directory, SystemClock};
use keyfob_keyring::Login;
use serde::{Deserialize, Serialize};

use super::{Layout, LayoutError, files::OURS};
use crate::{Blob, Digest};

/// The directory of the proofs, inside ours.
const PROOFS: &str = "proofs";

/// The file with the key of all hashes.
const KEY: &str = "key";

/// How the names of files begin that are being written.
const NEW: &str = "new-";

/// After this time nobody is about to complete a file, or the blob that it is about.
const ABANDONED: Duration = Duration::from_mins(1);

/// How many registries, and how many accesses, are remembered of one blob. The oldest go first.
const MOST_REGISTRIES: usize = 16;
const MOST_ACCESSES: usize = 256;

/// No file of a blob is larger.
const LARGEST: u64 = 64 << 10;

/// A file that changed within this time may change again without a trace in its times.
const UNCERTAIN: Duration = Duration::from_millis(20);

/// A blob up to this size is proved by all of its bytes.
const SMALL: u64 = 64 << 10;

/// So many bytes of a larger one.
const SAMPLE: u64 = 4 << 10;

/// A repository that is asked with a credential, or with none.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// `https://host:port`.
    registry: String,
    /// A keyed hash of the repository's address and the credential.
    access: String,
}

impl Asker {
    /// Scheme, host and port of the registry.
    pub(crate) fn registry(&self) -> &str {
        &self.registry
    }
}

/// A blob on disk.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is none, or of another size.
    Missing,
    /// Its content has another digest, or cannot be read.
    Corrupt,
    /// Its content is what its digest says.
    Intact(Known),
}

/// What is remembered of a blob.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Known {
    /// The stamp of the file whose content was verified.
    verified: Option<String>,
    /// The registries that have sent all of it.
    registries: Vec<String>,
    /// Who proved access to it.
    accesses: Vec<String>,
}

impl Known {
    /// Whether this repository gave it before, for this credential.
    pub(crate) fn is_proved_by(&self, asker: &Asker) -> bool {
        self.accesses.contains(&asker.access)
    }

    /// Whether this registry has sent all of it before, whoever asked.
    pub(crate) fn was_sent_by(&self, asker: &Asker) -> bool {
        self.registries.contains(&asker.registry)
    }
}

/// What was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The repository has it, for the credential.
    Access,
    /// All of it came from the registry, in several pulls, perhaps for different credentials.
    Registry,
}

/// A blob that was verified while it was written.
#[derive(Debug)]
pub(crate) struct Written {
    digest: Digest,
    stamp: String,
}

/// A part of a blob, from a place that nobody can foresee.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Where it begins.
    pub(crate) first: u64,
    /// What is there.
    pub(crate) bytes: Vec<u8>,
}

impl Layout {
    /// Who asks a repository: `address` is its own, `registry` that of its registry.
    pub(crate) async fn asker(
        &self,
        registry: String,
        address: String,
        login: Option<Login>,
    ) -> Result<Asker, LayoutError> {
        let layout = self.clone();
        let asker = move || {
            let access = layout.access(&address, login.as_ref());
            let access = access.map_err(LayoutError::io("make a key for", layout.path()))?;
            Ok(Asker { registry, access })
        };
        self.off_thread(asker).await?
    }

    fn access(&self, address: &str, login: Option<&Login>) -> io::Result<String> {
        // Under a key that cannot be kept nothing is recognised: everything is proved anew.
        let key = self.proofs().and_then(|proofs| proofs.key()).or_else(|_| random::<32>())?;
        let key = Secret::new(key.to_vec());
        let mut hash = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key.expose()));
        let mut add = |part: &[u8]| {
            // With its length in front, no part can run into the next.
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        add(address.as_bytes());
        if let Some(login) = login {
            add(login.username.as_bytes());
            add(login.password.expose().as_bytes());
        }
        Ok(hex::encode(hash.sign()))
    }

    /// Looks whether a blob is here and is what its digest says.
    pub(crate) async fn inspect(&self, blob: &Blob) -> Result<Found, LayoutError> {
        let (layout, blob) = (self.clone(), blob.clone());
        self.off_thread(move || layout.inspected(&blob)).await
    }

    fn inspected(&self, blob: &Blob) -> Found {
        if !self.has(&blob.digest, blob.size) {
            return Found::Missing;
        }
        match self.verified(&blob.digest) {
            Ok(Some(known)) => return Found::Intact(known),
            Ok(None) => tracing::warn!(digest = %blob.digest, "blob is not what its digest says"),
            Err(error) => tracing::warn!(digest = %blob.digest, %error, "blob cannot be read"),
        }
        Found::Corrupt
    }

    /// What is known of a blob; nothing if its content has another digest. It is hashed unless its file was verified.
    fn verified(&self, digest: &Digest) -> io::Result<Option<Known>> {
        let (mut known, mut file) = (self.known(digest), self.open_blob(digest)?);
        let before = stamp(&file.metadata()?);
        if known.verified.as_ref() == Some(&before) {
            return Ok(Some(known));
        }
        if hashed(digest, &mut file)? != *digest {
            return Ok(None);
        }
        let after = file.metadata()?;
        if before == stamp(&after) && is_settled(&after) {
            known.verified = Some(before);
            self.write_down(digest, &known);
        }
        Ok(Some(known))
    }

    /// The stamp of a blob that was verified while it was written; nothing if it cannot be looked at.
    pub(crate) async fn written(&self, digest: &Digest) -> Result<Option<Written>, LayoutError> {
        let (layout, digest) = (self.clone(), digest.clone());
        let look = move || {
            let found = layout.open_blob(&digest).and_then(|file| file.metadata());
            found.ok().map(|found| Written { digest, stamp: stamp(&found) })
        };
        self.off_thread(look).await
    }

    /// Remembers of blobs that were written during a pull that they are verified, if any further change would show.
    pub(crate) async fn settle(&self, written: Vec<Written>) -> Result<(), LayoutError> {
        let layout = self.clone();
        let settle = move || {
            for Written { digest, stamp: before } in written {
                let found = layout.open_blob(&digest).and_then(|file| file.metadata());
                if found.is_ok_and(|found| stamp(&found) == before && is_settled(&found)) {
                    let verified = Some(before);
                    layout.write_down(&digest, &Known { verified, ..layout.known(&digest) });
                }
            }
        };
        self.off_thread(settle).await
    }

    /// Remembers what was proved of a blob whose content was verified.
    pub(crate) async fn remember(
        &self,
        digest: &Digest,
        asker: &Asker,
        proof: Proof,
    ) -> Result<(), LayoutError> {
        let (layout, digest, asker) = (self.clone(), digest.clone(), asker.clone());
        let remember = move || {
            let mut known = layout.known(&digest);
            add(&mut known.registries, asker.registry, MOST_REGISTRIES);
            if proof == Proof::Access {
                add(&mut known.accesses, asker.access, MOST_ACCESSES);
            }
            layout.write_down(&digest, &known);
        };
        self.off_thread(remember).await
    }

    /// A sample of a blob that is here.
    pub(crate) async fn sample(&self, blob: &Blob) -> Result<Sample, LayoutError> {
        let (layout, digest, size) = (self.clone(), blob.digest.clone(), blob.size);
        let sample = move || {
            let read = || {
                let length = if size <= SMALL { size } else { SAMPLE };
                // The remainder favours no place by more than one in 2^64 divided by the size.
                let first = u64::from_be_bytes(random()?) % (size - length + 1);
                let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
                layout.open_blob(&digest)?.read_exact_at(&mut bytes, first)?;
                Ok(Sample { first, bytes })
            };
            read().map_err(LayoutError::io("read", &layout.blob_path(&digest)))
        };
        self.off_thread(sample).await?
    }

    /// Forgets what was proved of blobs that are gone.
    pub(crate) async fn forget_missing(&self) -> Result<(), LayoutError> {
        let layout = self.clone();
        let forget = move || {
            let forgotten =
                layout.proofs().and_then(|proofs| proofs.retain(|digest| layout.has_any(digest)));
            if let Err(error) = forgotten {
                tracing::debug!(%error, "cannot forget proofs of blobs that are gone");
            }
        };
        self.off_thread(forget).await
    }

    fn known(&self, digest: &Digest) -> Known {
        let read = || self.proofs()?.read(&file_name(digest));
        let known = read().ok().and_then(|bytes| serde_json::from_slice(bytes.expose()).ok());
        known.unwrap_or_default()
    }

    /// What cannot be written down is proved again the next time.
    fn write_down(&self, digest: &Digest, known: &Known) {
        let write = || {
            let content = serde_json::to_vec(known)?;
            self.proofs()?.replace(&file_name(digest), &content)
        };
        if let Err(error) = write() {
            tracing::warn!(%digest, %error, "cannot remember the proof of access to a blob");
        }
    }

    fn proofs(&self) -> io::Result<Proofs> {
        Ok(Proofs(self.root.create_subdirectory(OURS)?.create_subdirectory(PROOFS)?))
    }
}

/// The directory of the proofs.
struct Proofs(Directory);

impl Proofs {
    fn read(&self, name: &str) -> io::Result<Secret<Vec<u8>>> {
        self.0.read(name, LARGEST)
    }

    /// Writes a file in one step.
    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.0.rename(&self.write_new(content)?, &self.0, name)
    }

    /// The key, which is made if there is none. Of two who make one at once, the first wins.
    fn key(&self) -> io::Result<[u8; 32]> {
        match self.read_key() {
            Ok(Some(key)) => return Ok(key),
            Ok(None) => self.0.remove(KEY)?,
            Err(_) => {}
        }
        let new = self.write_new(&random::<32>()?)?;
        if self.0.rename_new(&new, &self.0, KEY).is_err() {
            self.0.remove(&new)?;
        }
        self.read_key()?.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Nothing, if the file holds something else.
    fn read_key(&self) -> io::Result<Option<[u8; 32]>> {
        Ok(self.read(KEY)?.expose().as_slice().try_into().ok())
    }

    fn write_new(&self, content: &[u8]) -> io::Result<String> {
        let (name, mut file) = self.0.create_unique(NEW)?;
        file.write_all(content)?;
        Ok(name)
    }

    /// Removes the files of all other blobs, and what an interrupted process left.
    fn retain(&self, is_kept: impl Fn(&Digest) -> bool) -> io::Result<()> {
        let is_left = |name: &str| {
            let found = self.0.metadata(name).ok().flatten();
            found.is_some_and(|found| is_older(found.mtime(), found.mtime_nsec(), ABANDONED))
        };
        for name in self.0.names()? {
            let digest = Digest::parse(&name.replacen('-', ":", 1));
            let is_kept = name == KEY || digest.is_ok_and(|digest| is_kept(&digest));
            if !is_kept && is_left(&name) {
                self.0.remove(&name)?;
            }
        }
        Ok(())
    }
}

fn file_name(digest: &Digest) -> String {
    format!("{}-{}", digest.algorithm(), digest.hex())
}

fn hashed(like: &Digest, content: &mut File) -> io::Result<Digest> {
    let (mut hasher, mut buffer) = (like.hasher(), vec![0; 256 << 10]);
    loop {
        let count = content.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.digest());
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
}

/// Changes whenever the content does.
fn stamp(of: &Metadata) -> String {
    format!(
        "{} {} {}.{:09} {}.{:09}",
        of.ino(),
        of.len(),
        of.mtime(),
        of.mtime_nsec(),
        of.ctime(),
        of.ctime_nsec()
    )
}

/// Whether any further change would show in the stamp.
fn is_settled(of: &Metadata) -> bool {
    is_older(of.ctime(), of.ctime_nsec(), UNCERTAIN)
}

/// Whether something happened longer ago than this.
fn is_older(seconds: i64, nanos: i64, limit: Duration) -> bool {
    let since = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
    let since = since.map(|(seconds, nanos)| Duration::new(seconds, nanos));
    let happened = since.and_then(|since| UNIX_EPOCH.checked_add(since));
    let age = happened.and_then(|happened| SystemClock.now().duration_since(happened).ok());
    age.is_some_and(|age| age > limit)
}

fn add(list: &mut Vec<String>, entry: String, most: usize) {
    list.retain(|each| *each != entry);
    list.push(entry);
    list.drain(..list.len().saturating_sub(most));
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| io::Error::other("this system has no random numbers"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::BlobKind;

    #[tokio::test]
    async fn what_is_remembered_of_a_blob_does_not_grow_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::create(directory.path().join("oci")).unwrap();
        let blob = Blob { digest: Digest::sha256(b"x"), size: 1, kind: BlobKind::Layer };
        let asker = async |number: usize| {
            let registry = format!("https://r{number}.example");
            let login = Login { username: number.to_string().into(), ..Login::default() };
            layout.asker(registry.clone(), format!("{registry}/v2/a/"), Some(login)).await.unwrap()
        };
        fs::create_dir_all(layout.path().join("blobs/sha256")).unwrap();
        fs::write(layout.blob_path(&blob.digest), b"x").unwrap();
        for number in 0..MOST_ACCESSES + 50 {
            let asker = asker(number).await;
            layout.remember(&blob.digest, &asker, Proof::Access).await.unwrap();
        }

        let Found::Intact(known) = layout.inspect(&blob).await.unwrap() else { panic!("gone") };
        assert_eq!(known.registries.len(), MOST_REGISTRIES);
        assert_eq!(known.accesses.len(), MOST_ACCESSES);
        assert!(known.is_proved_by(&asker(MOST_ACCESSES + 49).await), "the newest are kept");
        assert!(!known.is_proved_by(&asker(0).await));
        assert!(serde_json::to_vec(&known).unwrap().len() as u64 <= LARGEST);
    }

    #[tokio::test]
    async fn a_verified_file_is_not_hashed_again_until_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::create(directory.path().join("oci")).unwrap();
        let blob = Blob { digest: Digest::sha256(b"good"), size: 4, kind: BlobKind::Layer };
        let path = layout.blob_path(&blob.digest);
        fs::create_dir_all(layout.path().join("blobs/sha256")).unwrap();
        fs::write(&path, "good").unwrap();
        let is_intact = || matches!(layout.inspected(&blob), Found::Intact(_));

        // It was written a moment ago: its times say nothing yet.
        assert!(is_intact() && layout.known(&blob.digest).verified.is_none());
        while !is_settled(&fs::metadata(&path).unwrap()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(is_intact());
        let verified = layout.known(&blob.digest).verified;
        assert_eq!(verified, Some(stamp(&fs::metadata(&path).unwrap())));
        // The stamp is believed.
        let known = Known { verified, ..Known::default() };
        fs::write(&path, "evil").unwrap();
        assert!(!is_intact());
        let changed = Some(stamp(&fs::metadata(&path).unwrap()));
        assert_ne!(changed, known.verified);
        layout.write_down(&blob.digest, &Known { verified: changed, ..Known::default() });
        assert!(is_intact());
    }
}
