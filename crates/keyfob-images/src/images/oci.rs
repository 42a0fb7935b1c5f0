//! An OCI image layout as the images of a node.

use keyfob_api::ImageRef;
use keyfob_exec::BoxFuture;
use keyfob_keyring::Credential;
use keyfob_oci::{PullError, Puller, StoredImage};

use super::{
    Attempt, ImageService, ImageServiceError, ImageSpec, LocalImage, PullFailure, PullFailureKind,
};

impl ImageService for Puller {
    fn image_id<'a>(
        &'a self,
        spec: &'a ImageSpec,
    ) -> BoxFuture<'a, Result<Option<String>, ImageServiceError>> {
        Box::pin(async move { Ok(stored(self, spec).await?.map(|image| image.id.to_string())) })
    }

    fn pull<'a>(
        &'a self,
        spec: &'a ImageSpec,
        attempt: &'a Attempt,
    ) -> BoxFuture<'a, Result<String, PullFailure>> {
        Box::pin(async move {
            let name = ImageRef::parse(&spec.image)
                .map_err(|error| PullFailure::new(PullFailureKind::Other, error))?;
            let login = attempt.credential.as_ref().map(Credential::login);
            let image = self.pull_image(&name, &attempt.from, login).await?;
            Ok(image.id.to_string())
        })
    }

    fn size<'a>(&'a self, spec: &'a ImageSpec) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async move { Some(stored(self, spec).await.ok()??.size) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<LocalImage>, ImageServiceError>> {
        Box::pin(async move {
            let images = self.images().await.map_err(ImageServiceError::new)?;
            Ok(local_images(&images))
        })
    }
}

impl From<PullError> for PullFailure {
    fn from(error: PullError) -> Self {
        let kind = match &error {
            PullError::Refused { .. } => PullFailureKind::Refused,
            PullError::Unavailable { .. } => PullFailureKind::RegistryUnavailable,
            _ => PullFailureKind::Other,
        };
        Self::new(kind, error)
    }
}

async fn stored(
    puller: &Puller,
    spec: &ImageSpec,
) -> Result<Option<StoredImage>, ImageServiceError> {
    let name = ImageRef::parse(&spec.image).map_err(ImageServiceError::new)?;
    puller.find(&name).await.map_err(ImageServiceError::new)
}

/// Images as a container runtime lists them: once for each id, with all its names.
fn local_images(images: &[StoredImage]) -> Vec<LocalImage> {
    let mut listed: Vec<LocalImage> = Vec::new();
    for image in images {
        let id = image.id.to_string();
        let at = listed.iter().position(|each| each.id == id).unwrap_or_else(|| {
            listed.push(LocalImage { id, ..LocalImage::default() });
            listed.len() - 1
        });
        if let Some(local) = listed.get_mut(at) {
            local.repo_tags.extend(image.repo_tags());
            local.repo_digests.extend(image.repo_digests());
        }
    }
    listed
}
