//! Why something about records failed.

use std::{io, path::PathBuf};

use thiserror::Error;

use super::{kubelet::RunningKubelet, names::ImageNameError, wire::DecodeError};

/// Why records cannot be read or written. It never shows what a file holds.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// The operating system refused something.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What.
        action: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be told which files there are.
    #[error("cannot list {}", path.display())]
    List {
        /// Of which directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is neither an intent nor a record. Until it is gone, its image must be pulled.
    #[error("{} is no {kind}; if it is not needed, delete it", path.display())]
    Undecodable {
        /// Which file.
        path: PathBuf,
        /// What it should be.
        kind: &'static str,
        /// What is wrong with it.
        source: Box<DecodeError>,
    },
    /// A file has another name than what it holds would have. It is not used.
    #[error("{} does not have the name that belongs to what it holds; delete it", path.display())]
    Misnamed {
        /// Which file.
        path: PathBuf,
    },
    /// The image's name cannot be recorded.
    #[error("invalid image name {image:?}")]
    Name {
        /// The name.
        image: String,
        /// What is wrong with it.
        source: ImageNameError,
    },
    /// A kubelet has the directory, and would not see what is written.
    #[error(
        "a kubelet runs on {} ({sign}); it reads records only when it starts, so it would let the wrong pods use the image",
        root.display()
    )]
    KubeletRuns {
        /// Its root directory.
        root: PathBuf,
        /// What shows it.
        sign: RunningKubelet,
    },
    /// A process ended in the middle of a pull of this image, and nobody looked yet whether the image came. Recover, and try
    /// again.
    #[error(
        "a pull of {image} ended halfway in another process, and nobody looked yet whether the image came; try again"
    )]
    Abandoned {
        /// The image.
        image: String,
    },
    /// A thread of this process did not come to its end.
    #[error("it was lost, because the program is shutting down or by a defect of it")]
    Lost,
    /// A kubelet did not finish a pull of this image, and was not started since. Only a kubelet can look whether the image came:
    /// it knows the images of its container runtime.
    #[error(
        "the kubelet of {} did not finish its pull of {image}, and has not looked yet whether the image came",
        root.display()
    )]
    LeftToKubelet {
        /// The image.
        image: String,
        /// The kubelet's root directory.
        root: PathBuf,
    },
}

impl RecordsError {
    /// What failed, for `map_err`.
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
