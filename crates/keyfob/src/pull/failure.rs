//! Why an image cannot be used, and what to do.

use keyfob_api::{Chain, Quoted};
use keyfob_images::{EnsureError, EnsureReason, Ensured, FailedAttempt, PullPolicy, RecordsError};
use keyfob_oci::PullError;

use super::{
    order::{Done, Order},
    records_args::Records,
};
use crate::Verdict;

/// Everything there is to say about it.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) verdict: Verdict,
    /// A kubelet's word for it, if it has one.
    pub(super) reason: &'static str,
    /// What a kubelet would say, to whoever owns the pod.
    pub(super) message: String,
    headline: String,
    /// Why a present image may not be used, or an absent one not pulled; for whoever runs the node.
    pub(super) why: Option<String>,
    attempts: Vec<String>,
    notes: Vec<String>,
    pub(super) advice: Option<String>,
}

impl Failure {
    pub(super) fn of(order: &Order, done: &Done, error: &EnsureError) -> Self {
        let name = Quoted(&order.wanted.image);
        let headline = match error.attempts.as_slice() {
            [] => error.message.clone(),
            _ => format!("Failed to pull image {name}: {}", error.reason),
        };
        Self {
            verdict: verdict(order, error),
            reason: error.reason.as_str(),
            message: error.message.clone(),
            headline,
            why: why(order, done, error),
            attempts: error.attempts.iter().map(ToString::to_string).collect(),
            notes: done.notes.clone(),
            advice: advice(order, done, error),
        }
    }

    /// The image was pulled, and who may use it could not be recorded; nothing if it was.
    pub(super) fn of_record(order: &Order, ensured: &Ensured) -> Option<Self> {
        let error = ensured.pulled.as_ref()?.unrecorded.as_ref()?;
        let (name, layout) = (Quoted(&order.wanted.image), order.layout.path().display());
        let message = format!("Image {name} was pulled, but who may use it could not be recorded");
        Some(Self {
            verdict: Verdict::Unwritten,
            reason: "RecordNotWritten",
            headline: format!("{message}; nobody may use it before proving access again"),
            message,
            why: Some(format!(
                "it is in {layout}, and its record was not written: {}",
                Chain(&**error)
            )),
            attempts: Vec::new(),
            notes: Vec::new(),
            // In another directory of records the image would count as preloaded, for every pod to use.
            advice: order.records.as_ref().map(|records| {
                let root = records.root.display();
                format!("make room in {root}/image_manager, then run the same command again")
            }),
        })
    }

    /// For people, line by line.
    pub(super) fn told(&self) -> String {
        let mut lines = vec![format!("keyfob: {}", self.headline)];
        lines.extend(self.why.iter().map(|why| format!("keyfob: {why}")));
        let numbered = self.attempts.iter().enumerate();
        lines.extend(numbered.map(|(at, attempt)| format!("  {}. {attempt}", at + 1)));
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        lines.extend(self.advice.iter().map(|advice| format!("keyfob: {advice}")));
        lines.join("\n") + "\n"
    }
}

fn verdict(order: &Order, error: &EnsureError) -> Verdict {
    match error.reason {
        EnsureReason::InvalidImageName => Verdict::WrongInput,
        EnsureReason::ErrImageNeverPull => Verdict::Nothing,
        EnsureReason::PullIntentNotRecorded => Verdict::Unwritten,
        _ if any(error, is_unwritable) => Verdict::Unwritten,
        _ if is_nowhere(order, error) => Verdict::Nothing,
        _ => Verdict::No,
    }
}

/// Whether its own registry says that there is no such image, to whomever it listens.
fn is_nowhere(order: &Order, error: &EnsureError) -> bool {
    let own = error.attempts.iter().filter(|attempt| attempt.from == order.image);
    let mut heard = own.filter(|attempt| !pull_error(attempt).is_some_and(is_refused)).peekable();
    heard.peek().is_some() && heard.all(|attempt| pull_error(attempt).is_some_and(is_missing))
}

/// Whether an attempt failed for this.
fn any(error: &EnsureError, is_it: fn(&PullError) -> bool) -> bool {
    error.attempts.iter().filter_map(pull_error).any(is_it)
}

fn pull_error(attempt: &FailedAttempt) -> Option<&PullError> {
    attempt.downcast_ref()
}

/// The registry lets nobody in without a credential, or not with this one.
fn is_refused(error: &PullError) -> bool {
    matches!(error, PullError::Refused { .. })
}

/// The registry cannot be reached, or is busy.
fn is_unavailable(error: &PullError) -> bool {
    matches!(error, PullError::Unavailable { .. })
}

/// There is no such image, or none for the platform.
fn is_missing(error: &PullError) -> bool {
    matches!(error, PullError::NotFound { .. } | PullError::Platform { .. })
}

/// The registry speaks plain http, or no TLS that can be trusted.
fn is_untrusted(error: &PullError) -> bool {
    matches!(error, PullError::Connection { .. } | PullError::PlainHttp { .. })
}

/// The disk is full, or the layout cannot be written.
fn is_unwritable(error: &PullError) -> bool {
    matches!(error, PullError::Layout(_))
}

/// For whoever runs the node. Neither the image's id nor whose secret or account it is for is in it: somebody may show it to
/// the owner of a pod who must not learn that.
fn why(order: &Order, done: &Done, error: &EnsureError) -> Option<String> {
    let layout = order.layout.path().display();
    let was_refused = !error.attempts.is_empty() || error.reason == EnsureReason::ErrImageNeverPull;
    match (&done.stored, &order.records) {
        _ if order.wanted.policy == PullPolicy::Always || !was_refused => None,
        (Some(_), Some(Records { root, .. })) => Some(format!(
            "it is in {layout}, and {} has not proved access to it{}; \"keyfob records list --records-dir {}\" tells who has",
            whoever(done),
            if done.account.is_some() { AS_ANOTHER } else { "" },
            root.display()
        )),
        (None, _) if order.wanted.policy == PullPolicy::Never => {
            Some(format!("it is not in {layout}; with another --pull-policy it would be pulled"))
        }
        _ => None,
    }
}

/// Whether this is the reason cannot be told here: it would say whom the image is for.
const AS_ANOTHER: &str =
    "; what an account of the same name with another uid has proved does not count";

/// Whoever pulls, and nobody else.
fn whoever(done: &Done) -> String {
    match done.account.as_deref() {
        Some(account) => format!("service account {account} (uid {})", account.uid),
        None => "whoever pulls now".to_owned(),
    }
}

fn advice(order: &Order, done: &Done, error: &EnsureError) -> Option<String> {
    let (image, layout) = (&order.wanted.image, order.layout.path().display());
    let explain = format!("\"keyfob explain {image}\" with the same flags says");
    if error.reason == EnsureReason::PullIntentNotRecorded {
        if matches!(error.downcast_ref(), Some(RecordsError::LeftToKubelet { .. })) {
            return Some(
                "start the kubelet, which looks into it, and stop it again; then run the same command again".into(),
            );
        }
        return Some(
            "make the directory of the records writable, then run the same command again".into(),
        );
    }
    let is_anonymous = error.attempts.iter().all(|attempt| attempt.with.is_none());
    let advice = if any(error, is_unwritable) {
        format!("make {layout} a directory that can be written, or pull into another one")
    } else if is_nowhere(order, error) {
        "look whether the name, the tag and the platform are right".to_owned()
    } else if any(error, is_refused) && is_anonymous && !done.notes.is_empty() {
        format!(
            "a provider for this image gave nothing, so the pull was anonymous; {explain} what to do"
        )
    } else if any(error, is_refused) && is_anonymous {
        format!(
            "no credentials were found: name their sources with --config and --bin-dir, --pull-secret or --docker-config; \
             {explain} why none is for this image"
        )
    } else if any(error, is_refused) {
        format!("{explain} where each credential comes from")
    } else if any(error, is_unavailable) {
        format!("try again later; what has come is kept in {layout}")
    } else if any(error, is_untrusted) {
        "if the registry speaks plain http, name it with --insecure-registry; if its certificate is of your own, give \
         --ca-file"
            .to_owned()
    } else {
        return None;
    };
    Some(advice)
}
