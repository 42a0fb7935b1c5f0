//! An image from a registry into a layout.

mod resolve;

use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use keyfob_api::ImageRef;
use keyfob_exec::{Clock as _, SystemClock, on_one_line};
use keyfob_keyring::Login;

use self::resolve::Resolved;
use crate::{
    Blob, BlobKind, Client, Descriptor, Layout, LayoutError, Platform, Progress, PullError, Silent,
    StoredImage,
    client::Repository,
    download::Download,
    layout::{NAME, PULLED},
    manifest::Manifest,
};

/// Pulls images into a layout.
#[derive(Clone, Debug)]
pub struct Puller {
    client: Client,
    layout: Layout,
    platform: Wanted,
    parallel: usize,
    progress: Arc<dyn Progress>,
}

/// For what an image must be.
#[derive(Clone, Debug)]
enum Wanted {
    /// This machine. An image that is one for another, and not one of several, is taken as a container runtime takes it.
    Here(Platform),
    /// What was asked for, and nothing else.
    Exactly(Platform),
}

/// A puller to come.
#[derive(Debug)]
#[must_use = "nothing is set before `build`"]
pub struct PullerBuilder(Puller);

impl Puller {
    /// Pulls images for this machine, four blobs at a time, and tells nobody.
    pub fn builder(client: Client, layout: Layout) -> PullerBuilder {
        let (platform, progress) = (Wanted::Here(Platform::this_machine()), Arc::new(Silent));
        PullerBuilder(Self { client, layout, platform, parallel: 4, progress })
    }

    /// Where the images are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// For what images are pulled.
    pub fn platform(&self) -> &Platform {
        match &self.platform {
            Wanted::Here(platform) | Wanted::Exactly(platform) => platform,
        }
    }

    /// Who asks the registries.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Pulls an image from where it is, or from a mirror, as someone or as nobody, and keeps it under its name.
    ///
    /// The registry is always asked for the manifest, and every blob must be one that it has for this login, also if the
    /// blob is in the layout already. A digest in the name decides what is pulled, wherever it comes from.
    pub async fn pull_image(
        &self,
        name: &ImageRef,
        from: &ImageRef,
        login: Option<&Login>,
    ) -> Result<StoredImage, PullError> {
        let repository = self.client.repository(from, login)?;
        let pulled = self.pull_from(&repository, name, from).await;
        pulled.map_err(|error| error.redacted(&repository.secrets))
    }

    /// The image of this name in the layout, if it is there, whole, and what a pull would bring.
    pub async fn find(&self, name: &ImageRef) -> Result<Option<StoredImage>, LayoutError> {
        let (layout, name, wanted) = (self.layout.clone(), name.clone(), self.platform.clone());
        let find = move || match wanted {
            Wanted::Here(platform) => layout.find_or_take(&name, &platform),
            Wanted::Exactly(platform) => layout.find(&name, &platform),
        };
        self.layout.off_thread(find).await.flatten()
    }

    /// Every image in the layout that is there, whole.
    pub async fn images(&self) -> Result<Vec<StoredImage>, LayoutError> {
        let layout = self.layout.clone();
        self.layout.off_thread(move || layout.images()).await.flatten()
    }

    async fn pull_from(
        &self,
        repository: &Repository,
        name: &ImageRef,
        from: &ImageRef,
    ) -> Result<StoredImage, PullError> {
        let reference = name.digest().or(from.digest()).or(from.tag()).unwrap_or("latest");
        let mut resolved = self.resolve(repository, from, reference).await?;
        if let Err(error) = self.layout.remove_stale(SystemClock.now()).await {
            tracing::debug!(%error, "cannot remove what was not finished");
        }
        let download = self.download(repository).await?;
        let blobs = self.blobs(&resolved.manifest);
        refuse_echoes(repository, &blobs)?;
        self.progress.resolved(&resolved.descriptor.digest, &blobs);
        let mut platform = resolved.descriptor.platform.clone();
        let mut to_come = blobs.as_slice();
        if let (None, [config, layers @ ..]) = (&platform, to_come) {
            download.fetch(config).await?;
            platform = self.own_platform(repository, from, &mut resolved).await?;
            to_come = layers;
        }
        self.fetch(&download, to_come).await?;
        let image = self.keep(name, platform, resolved).await?;
        self.layout.settle(download.into_written()).await?;
        self.layout.forget_missing().await?;
        Ok(image)
    }

    /// What brings the blobs of a repository.
    async fn download<'a>(&'a self, repository: &'a Repository) -> Result<Download<'a>, PullError> {
        let (client, layout, progress) = (&self.client, &self.layout, &*self.progress);
        let (registry, address) = (repository.registry(), repository.address());
        let asker = layout.asker(registry, address, repository.login().cloned()).await?;
        let written = Mutex::default();
        Ok(Download { client, repository, asker, layout, progress, written })
    }

    /// What to fetch, the configuration first. A layer with external URLs is included only if it is in the layout, because
    /// then access to it must be proved.
    fn blobs(&self, manifest: &Manifest) -> Vec<Blob> {
        let is_here = |each: &&Descriptor| self.layout.has_any(&each.digest);
        let contents = manifest.contents().into_iter();
        let contents = contents.chain(manifest.elsewhere().filter(is_here)).enumerate();
        let kind = |at| if at == 0 { BlobKind::Config } else { BlobKind::Layer };
        contents
            .map(|(at, each)| Blob { digest: each.digest.clone(), size: each.size, kind: kind(at) })
            .collect()
    }

    /// Fetches some blobs at a time. Of a list without end only those take up memory.
    async fn fetch(&self, download: &Download<'_>, blobs: &[Blob]) -> Result<(), PullError> {
        let (mut waiting, mut running) = (blobs.iter(), FuturesUnordered::new());
        loop {
            let room = self.parallel.saturating_sub(running.len());
            running.extend(waiting.by_ref().take(room).map(|blob| download.fetch(blob)));
            match running.next().await {
                Some(fetched) => fetched?,
                None => return Ok(()),
            }
        }
    }

    /// Of an image that is not one of several, its configuration says what it runs on.
    async fn own_platform(
        &self,
        repository: &Repository,
        from: &ImageRef,
        resolved: &mut Resolved,
    ) -> Result<Option<Platform>, PullError> {
        let (layout, config) = (self.layout.clone(), resolved.manifest.config.clone());
        let own = self.layout.off_thread(move || layout.platform_of(&config)).await?;
        match (&self.platform, &own) {
            (Wanted::Exactly(wanted), Some(own)) if !wanted.accepts(own) => {
                let (image, wanted) = (from.to_string(), Box::new(wanted.clone()));
                return Err(PullError::Platform { image, wanted, offered: vec![own.clone()] });
            }
            // It is taken as it is: nobody chose it for its platform.
            (Wanted::Here(here), Some(own)) if !here.accepts(own) => {
                let own = repository.secrets.redact(&on_one_line(&own.to_string()));
                tracing::warn!(image = %from, platform = own, "image is for another platform");
            }
            _ => resolved.descriptor.platform.clone_from(&own),
        }
        Ok(own)
    }

    async fn keep(
        &self,
        name: &ImageRef,
        platform: Option<Platform>,
        resolved: Resolved,
    ) -> Result<StoredImage, PullError> {
        let Resolved { mut descriptor, bytes, manifest, pulled } = resolved;
        descriptor.annotations.insert(NAME.into(), name.to_string());
        if pulled != descriptor.digest {
            descriptor.annotations.insert(PULLED.into(), pulled.to_string());
        }
        let image = StoredImage {
            name: Some(name.clone()),
            id: manifest.config.digest.clone(),
            manifest: descriptor.digest.clone(),
            pulled,
            platform,
            is_chosen: descriptor.platform.is_some(),
            size: manifest.size().saturating_add(descriptor.size),
        };
        self.layout.add(bytes, descriptor).await?;
        tracing::debug!(%name, id = %image.id, "pulled an image");
        Ok(image)
    }
}

/// A digest is written to logs and is the name of a file, so a registry must not choose one that spells a secret.
fn refuse_echoes(repository: &Repository, blobs: &[Blob]) -> Result<(), PullError> {
    let echoes = |blob: &&Blob| {
        let digest = blob.digest.to_string();
        repository.secrets.redact(&digest) != digest
    };
    match blobs.iter().find(echoes) {
        Some(blob) => Err(PullError::BadAnswer {
            what: repository.name_of(blob),
            reason: "the digest repeats a secret".into(),
        }),
        None => Ok(()),
    }
}

impl PullerBuilder {
    /// Pull images for this platform, and no others.
    pub fn platform(mut self, platform: Platform) -> Self {
        self.0.platform = Wanted::Exactly(platform);
        self
    }

    /// Fetch so many blobs at a time, at least one.
    pub fn parallel(mut self, blobs: usize) -> Self {
        self.0.parallel = blobs.max(1);
        self
    }

    /// Tell this what a pull is at.
    pub fn progress(mut self, progress: impl Progress + 'static) -> Self {
        self.0.progress = Arc::new(progress);
        self
    }

    /// The puller.
    pub fn build(self) -> Puller {
        self.0
    }
}
