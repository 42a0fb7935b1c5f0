//! Why an image name is refused.

use thiserror::Error;

use crate::Quoted;

/// Why an image name is refused. The pull fails and no provider is asked.
///
/// The text begins with the kubelet's own, word for word.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The digest's algorithm is not one the kubelet knows.
    #[error("couldn't parse image name {}: unsupported digest algorithm", Quoted(.image))]
    DigestAlgorithm {
        /// The name as written.
        image: String,
        /// Its digest.
        digest: String,
    },
    /// The digest, or the name of its algorithm, has upper-case letters.
    #[error("couldn't parse image name {}: invalid checksum digest format", Quoted(.image))]
    DigestFormat {
        /// The name as written.
        image: String,
        /// Its digest.
        digest: String,
    },
    /// The digest is not as long as its algorithm makes it.
    #[error("couldn't parse image name {}: invalid checksum digest length", Quoted(.image))]
    DigestLength {
        /// The name as written.
        image: String,
        /// Its digest.
        digest: String,
    },
    /// The name is 64 hexadecimal digits, which would be an image's id.
    #[error(
        "couldn't parse image name {}: invalid repository name ({image}), cannot specify 64-byte hexadecimal strings",
        Quoted(.image)
    )]
    Identifier {
        /// The name as written.
        image: String,
    },
    /// Some part is not written as it must be.
    #[error("couldn't parse image name {}: invalid reference format: {fault}", Quoted(.image))]
    Malformed {
        /// The name as written.
        image: String,
        /// Which part.
        fault: ImageFault,
    },
    /// The registry (or the tag) would do in lower case.
    #[error("couldn't parse image name {}: repository name must be lowercase", Quoted(.image))]
    NotLowercase {
        /// The name as written.
        image: String,
        /// Which part.
        fault: ImageFault,
    },
    /// The path is too long.
    #[error("couldn't parse image name {}: repository name must not be more than 255 characters", Quoted(.image))]
    TooLong {
        /// The name as written.
        image: String,
        /// How long the path is.
        length: usize,
    },
    /// The path has upper-case letters.
    #[error(
        "couldn't parse image name {}: invalid reference format: repository name ({repository}) must be lowercase",
        Quoted(.image)
    )]
    Uppercase {
        /// The name as written.
        image: String,
        /// Its path.
        repository: String,
    },
}

/// The first part of an image name that is not written as it must be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImageFault {
    /// A component of the path.
    #[error(
        "path component {} is not lower-case letters and digits joined by \".\", \"_\", \"__\" or dashes",
        Quoted(.0)
    )]
    Component(String),
    /// The digest.
    #[error(
        "digest {} is not an algorithm, a colon and at least 32 hexadecimal digits",
        Quoted(.0)
    )]
    Digest(String),
    /// A component of the path, or all of it, is missing.
    #[error("a path component is empty")]
    EmptyComponent,
    /// Host and port.
    #[error("registry {} is not a host name with an optional port", Quoted(.0))]
    Registry(String),
    /// The tag.
    #[error(
        "tag {} is not up to 128 letters, digits, \"_\", \".\" and \"-\" with none of the last two in front",
        Quoted(.0)
    )]
    Tag(String),
}
