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
mod certificate;
mod chain;
mod claims;
pub mod der;
mod exec;
mod feature_gates;
mod first_kep;
mod glob;
mod go_url;
mod image;
mod pattern;
mod provider;
mod server_address;

pub use answer::{InvalidField, SeenName};
pub use certificate::{Certificate, MalformedCertificate};
pub use chain::Chain;
pub use claims::{ClaimedObject, Claims, KubernetesClaims};
pub use exec::{
    ClientIdentity, ExecAnswerError, ExecCluster, ExecCredentialSpec, ExecCredentialStatus,
    ExecDecodingError, ExecInfoError, ExecResponse, ExecVersion, NoClusterInformation,
    UnknownExecVersion,
};
pub use feature_gates::{FeatureGates, GatesError, KubernetesComponent, ParsedGates, RemovedGate};
pub use first_kep::{
    FirstKepError, RegistryCredentialPluginRequest, RegistryCredentialPluginResponse,
};
pub use go_url::{GoUrl, InvalidUrl, UrlPathError, go_url_path};
pub use image::{ImageError, ImageFault, ImageRef, registry_of};
#[doc(no_inline)]
pub use keyfob_document as document;
#[doc(no_inline)]
pub use keyfob_document::{
    DurationError, GoDuration, JsonWriter, Quoted, RawJson, Secret, Timestamp, TimestampError,
    go_is_print,
};
#[doc(no_inline)]
pub use keyfob_redact::{REDACTED, Redactor, SecretSet, speaks_of_a_secret};
pub use pattern::{
    InvalidKey, LabelPattern, MatchPattern, MatchTarget, Mismatch, NeverMatches, PatternError,
    RegistryKey,
};
pub use provider::{
    AuthConfig, CacheKeyType, CacheKeyTypeHint, CredentialProviderRequest,
    CredentialProviderResponse, ProviderVersion, RequestError, ResponseError, UncheckedResponse,
    UnknownProviderVersion,
};
pub use server_address::server_address;
