#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - Names: [`ImageRef`], [`MatchPattern`], [`RegistryKey`].
//! - Times: [`GoDuration`], [`Timestamp`].
//! - Messages between a kubelet and its plugins: [`CredentialProviderRequest`], [`CredentialProviderResponse`].
//! - Messages between a kubeconfig's client and its plugins: [`ExecCredentialSpec`], [`ExecCredentialStatus`].
//! - Messages of the first KEP's dialect: [`RegistryCredentialPluginRequest`], [`RegistryCredentialPluginResponse`].
//! - The feature gates of Kubernetes: [`FeatureGates`].
//! - The contents of tokens and certificates: [`Claims`], [`Certificate`], [`der`].
//! - Secrets: [`Secret`], and [`Redactor`], which finds them in text from outside.
//! - JSON and YAML, which all messages are read from: [`document`].

mod answer;
mod buffer;
mod certificate;
mod chain;
mod claims;
pub mod der;
pub mod document;
mod duration;
mod encode;
mod exec;
mod feature_gates;
mod first_kep;
mod glob;
mod go_quote;
mod go_url;
mod image;
mod pattern;
mod provider;
mod raw_json;
mod redact;
mod secret;
mod timestamp;

pub use answer::{InvalidField, SeenName};
pub use certificate::{Certificate, MalformedCertificate};
pub use chain::Chain;
pub use claims::{ClaimedObject, Claims, KubernetesClaims};
pub use duration::{DurationError, GoDuration};
pub use encode::JsonWriter;
pub use exec::{
    ClientIdentity, ExecAnswerError, ExecCluster, ExecCredentialSpec, ExecCredentialStatus,
    ExecDecodingError, ExecInfoError, ExecResponse, ExecVersion, NoClusterInformation,
    UnknownExecVersion,
};
pub use feature_gates::{FeatureGates, GatesError, KubernetesComponent, ParsedGates, RemovedGate};
pub use first_kep::{
    FirstKepError, RegistryCredentialPluginRequest, RegistryCredentialPluginResponse,
};
pub use go_quote::{Quoted, go_is_print};
pub use go_url::{GoUrl, InvalidUrl, go_url_path};
pub use image::{ImageError, ImageFault, ImageRef, registry_of};
pub use pattern::{
    InvalidKey, LabelPattern, MatchPattern, MatchTarget, Mismatch, NeverMatches, PatternError,
    RegistryKey,
};
pub use provider::{
    AuthConfig, CacheKeyType, CacheKeyTypeHint, CredentialProviderRequest,
    CredentialProviderResponse, ProviderVersion, RequestError, ResponseError, UncheckedResponse,
    UnknownProviderVersion,
};
pub use raw_json::RawJson;
pub use redact::{REDACTED, Redactor, SecretSet, speaks_of_a_secret};
pub use secret::Secret;
pub use timestamp::{Timestamp, TimestampError};
