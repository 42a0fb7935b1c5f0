//! Bodies that can be had again.

/// A body that can perhaps be sent twice.
pub trait ReplayBody: Sized {
    /// The same body again; nothing if it can be had only once.
    fn try_clone(&self) -> Option<Self>;
}

impl ReplayBody for () {
    fn try_clone(&self) -> Option<Self> {
        Some(())
    }
}

#[cfg(feature = "kube")]
impl ReplayBody for kube::client::Body {
    fn try_clone(&self) -> Option<Self> {
        Self::try_clone(self)
    }
}

#[cfg(feature = "kube")]
impl<D> ReplayBody for http_body_util::Empty<D> {
    fn try_clone(&self) -> Option<Self> {
        Some(Self::new())
    }
}

#[cfg(feature = "kube")]
impl<D: Clone> ReplayBody for http_body_util::Full<D> {
    fn try_clone(&self) -> Option<Self> {
        Some(self.clone())
    }
}
