//! A layout as the images of a node.

use keyfob_api::ImageRef;
use keyfob_images::{
    Attempt, ImageService, ImageServiceError, ImageSpec, LocalImage, PullFailure, PullFailureKind,
    Serving,
};
use keyfob_keyring::Credential;

use super::{Puller, Wanted};
use crate::{StoredImage, layout::local_images};

impl ImageService for Puller {
    fn image_id<'a>(
        &'a self,
        spec: &'a ImageSpec,
    ) -> Serving<'a, Result<Option<String>, ImageServiceError>> {
        Box::pin(async move { Ok(self.stored(spec).await?.map(|image| image.id.to_string())) })
    }

    fn pull<'a>(
        &'a self,
        spec: &'a ImageSpec,
        attempt: &'a Attempt,
    ) -> Serving<'a, Result<String, PullFailure>> {
        Box::pin(async move {
            let name = ImageRef::parse(&spec.image)
                .map_err(|error| PullFailure::new(PullFailureKind::Other, error))?;
            let login = attempt.credential.as_ref().map(Credential::login);
            let image = self.pull_image(&name, &attempt.from, login).await?;
            Ok(image.id.to_string())
        })
    }

    fn size<'a>(&'a self, spec: &'a ImageSpec) -> Serving<'a, Option<u64>> {
        Box::pin(async move { Some(self.stored(spec).await.ok()??.size) })
    }

    fn list(&self) -> Serving<'_, Result<Vec<LocalImage>, ImageServiceError>> {
        Box::pin(async move {
            let layout = self.layout().clone();
            let images = self.layout().off_thread(move || layout.images()).await;
            Ok(local_images(&images.flatten().map_err(ImageServiceError::new)?))
        })
    }
}

impl Puller {
    async fn stored(&self, spec: &ImageSpec) -> Result<Option<StoredImage>, ImageServiceError> {
        let name = ImageRef::parse(&spec.image).map_err(ImageServiceError::new)?;
        let (layout, wanted) = (self.layout().clone(), self.platform.clone());
        let find = move || match wanted {
            Wanted::Here(platform) => layout.find_or_take(&name, &platform),
            Wanted::Exactly(platform) => layout.find(&name, &platform),
        };
        let found = self.layout().off_thread(find).await;
        found.flatten().map_err(ImageServiceError::new)
    }
}
