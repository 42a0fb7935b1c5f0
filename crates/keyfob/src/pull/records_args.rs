//! The flags about who may use what is pulled.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, builder::PossibleValuesParser};
use keyfob_api::FeatureGates;
use keyfob_exec::{SystemClock, read_bounded};
use keyfob_images::{
    InvalidVerificationSetting, PullRecords, RecordsError, RecordsOptions, VerificationPolicy,
    VerificationSettings, VerificationSettingsError,
};
use thiserror::Error;

/// Of the policies, the one that has a list.
const LISTED: &str = "NeverVerifyAllowlistedImages";
const POLICIES: [&str; 4] = ["NeverVerify", "NeverVerifyPreloadedImages", LISTED, "AlwaysVerify"];

/// Who may use an image that is here, and where that is written down.
#[derive(Debug, Args)]
#[command(next_help_heading = "Records")]
pub(super) struct RecordsArgs {
    /// Where to record who may use the image: a kubelet's root directory, such as /var/lib/kubelet. Without it: DEST.
    #[arg(long, value_name = "DIR")]
    records_dir: Option<PathBuf>,
    /// Write records even if a kubelet runs on the directory. It does not see them until it is started again, and may let the
    /// wrong pods use the image.
    #[arg(long)]
    beside_running_kubelet: bool,
    /// Record nothing, and let everybody use what is here.
    #[arg(
        long,
        conflicts_with_all = ["records_dir", "beside_running_kubelet", "verification_policy", "preloaded_image", "kubelet_config"]
    )]
    no_records: bool,
    /// When access to an image that is here must have been proved: a kubelet's imagePullCredentialsVerificationPolicy.
    /// Without it: `NeverVerifyPreloadedImages`.
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(POLICIES))]
    verification_policy: Option<String>,
    /// An image that everybody may use: `registry.example/team/app`, or `registry.example/team/*`. Only with the policy
    /// `NeverVerifyAllowlistedImages`; may be repeated.
    #[arg(long, value_name = "NAME")]
    preloaded_image: Vec<String>,
    /// Take both from a kubelet's configuration file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["verification_policy", "preloaded_image"])]
    kubelet_config: Option<PathBuf>,
}

/// Records that are not open yet.
#[derive(Debug)]
pub(super) struct RecordsPlan {
    root: PathBuf,
    options: RecordsOptions,
}

impl RecordsPlan {
    /// Opens them. This may wait for another process that writes them.
    pub(super) fn open(self) -> Result<Records, RecordsArgsError> {
        let Self { root, options } = self;
        let files = PullRecords::open(&root, options, Arc::new(SystemClock))?;
        Ok(Records { root, files: Arc::new(files) })
    }
}

/// Records, and where they are.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) root: PathBuf,
    pub(super) files: Arc<PullRecords>,
}

impl RecordsArgs {
    /// Which records are to be opened; nothing if there are to be none.
    pub(super) fn plan(
        &self,
        dest: &Path,
        gates: FeatureGates,
    ) -> Result<Option<RecordsPlan>, RecordsArgsError> {
        if self.no_records {
            return Ok(None);
        }
        let Some(policy) = self.policy(gates)? else { return Ok(None) };
        let root = self.records_dir.as_deref().unwrap_or(dest).to_owned();
        let mut options = RecordsOptions::default();
        options.policy = policy;
        options.beside_running_kubelet = self.beside_running_kubelet;
        options.images_elsewhere = root != dest;
        // One pull looks at a few files.
        options.memory = None;
        Ok(Some(RecordsPlan { root, options }))
    }

    fn policy(&self, gates: FeatureGates) -> Result<Option<VerificationPolicy>, RecordsArgsError> {
        let settings = self.settings()?;
        settings.policy(gates).map_err(|errors| match self.kubelet_config.clone() {
            Some(path) => RecordsArgsError::Refused { path, why: told(&errors) },
            None => RecordsArgsError::Setting(told(&errors)),
        })
    }

    fn settings(&self) -> Result<VerificationSettings, RecordsArgsError> {
        if let Some(path) = &self.kubelet_config {
            return read(path);
        }
        let policy = self.verification_policy.clone().unwrap_or_default();
        let allowlist = self.preloaded_image.clone();
        if !allowlist.is_empty() && policy != LISTED {
            return Err(RecordsArgsError::ListUnused);
        }
        Ok(VerificationSettings { policy, allowlist })
    }
}

fn read(path: &Path) -> Result<VerificationSettings, RecordsArgsError> {
    const LARGEST: u64 = 1 << 20;
    let unread = |source| RecordsArgsError::Unreadable { path: path.to_owned(), source };
    let text = read_bounded(path, LARGEST).map_err(unread)?;
    VerificationSettings::read(text.expose())
        .map_err(|source| RecordsArgsError::NoConfig { path: path.to_owned(), source })
}

fn told(errors: &[InvalidVerificationSetting]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Why there are no records.
#[derive(Debug, Error)]
pub(super) enum RecordsArgsError {
    #[error("cannot read the kubelet's configuration {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is no kubelet's configuration", path.display())]
    NoConfig { path: PathBuf, source: VerificationSettingsError },
    #[error("a kubelet would not start with {}: {why}", path.display())]
    Refused { path: PathBuf, why: String },
    #[error("--preloaded-image is for --verification-policy {LISTED}: add that, or leave it out")]
    ListUnused,
    #[error("{0}")]
    Setting(String),
    #[error("the records cannot be used")]
    Records(#[from] RecordsError),
}
