//! What the parts of an image are called, by the Open Container Initiative and by docker.

/// Whose media types an image has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MediaTypes {
    /// The Open Container Initiative's.
    #[default]
    Oci,
    /// Docker's, version 2 schema 2.
    Docker,
}

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Layer,
    Config,
    Manifest,
    Index,
}

impl MediaTypes {
    pub(super) const fn of(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Oci, Kind::Layer) => "application/vnd.oci.image.layer.v1.tar+gzip",
            (Self::Oci, Kind::Config) => "application/vnd.oci.image.config.v1+json",
            (Self::Oci, Kind::Manifest) => "application/vnd.oci.image.manifest.v1+json",
            (Self::Oci, Kind::Index) => "application/vnd.oci.image.index.v1+json",
            (Self::Docker, Kind::Layer) => "application/vnd.docker.image.rootfs.diff.tar.gzip",
            (Self::Docker, Kind::Config) => "application/vnd.docker.container.image.v1+json",
            (Self::Docker, Kind::Manifest) => {
                "application/vnd.docker.distribution.manifest.v2+json"
            }
            (Self::Docker, Kind::Index) => {
                "application/vnd.docker.distribution.manifest.list.v2+json"
            }
        }
    }
}

impl Kind {
    /// A manifest or an index; nothing, if it is neither.
    pub(super) fn of_manifest(media_type: &str) -> Option<Self> {
        let is_it = |kind: &Self| {
            [MediaTypes::Oci, MediaTypes::Docker].iter().any(|whose| whose.of(*kind) == media_type)
        };
        [Self::Manifest, Self::Index].into_iter().find(is_it)
    }
}
