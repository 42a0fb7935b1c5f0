//! What a pod wants.

use std::{fmt, str::FromStr};

use keyfob_api::ImageRef;
use thiserror::Error;

use super::ImageSpec;

/// An image that a pod wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct Wanted {
    /// The image as the pod names it. Records and back-offs know it by this text.
    pub image: String,
    /// Whether it may be pulled.
    pub policy: PullPolicy,
    /// The pod's `metadata.uid`: after a failed pull each pod waits for itself.
    pub pod_uid: String,
    /// The pod's annotations.
    pub annotations: Vec<(String, String)>,
    /// The pod's runtime handler; empty if it has none.
    pub runtime_handler: String,
}

impl Wanted {
    /// An image, wanted by nobody in particular.
    pub fn new(image: impl Into<String>, policy: PullPolicy) -> Self {
        Self { image: image.into(), policy, ..Self::default() }
    }

    pub(super) fn spec(&self, image: &ImageRef) -> ImageSpec {
        ImageSpec {
            image: image.with_default_tag(),
            annotations: self.annotations.clone(),
            runtime_handler: self.runtime_handler.clone(),
        }
    }
}

/// When an image is pulled: a container's `imagePullPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PullPolicy {
    /// Each time.
    Always,
    /// If it is not here, or the pod may not use what is here.
    #[default]
    IfNotPresent,
    /// Never. An image that is here must be the pod's to use.
    Never,
}

impl PullPolicy {
    const ALL: [Self; 3] = [Self::Always, Self::IfNotPresent, Self::Never];

    /// The name that Kubernetes has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

impl fmt::Display for PullPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PullPolicy {
    type Err = UnknownPullPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPullPolicy> {
        let named = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        named.ok_or_else(|| UnknownPullPolicy(text.to_owned()))
    }
}

/// A text that is no pull policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown pull policy {0:?}: write Always, IfNotPresent or Never")]
#[non_exhaustive]
pub struct UnknownPullPolicy(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_kubernetes_writes_it() {
        for policy in PullPolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "always".parse::<PullPolicy>().unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"unknown pull policy "always": write Always, IfNotPresent or Never"#
        );
    }
}
