//! Whether a kubeconfig can be used: everything that is wrong with it, in upstream's words.
//!
//! Upstream: `clientcmd/validation.go`, and `ConfirmUsable` of `DirectClientConfig`.
//! Differs: a proxy's address that may hold a password is not quoted. A file that is a pipe or a directory is refused
//! here (upstream: later, or never). What is wrong with several entries comes in the order of their names (upstream: in a
//! random one), and a context without a name is not dumped.

mod cluster;
mod problem;
mod user;

use std::fmt;

use super::{Context, Kubeconfig, Selection, error::aggregate};
use crate::client_config::read_file;
pub use problem::{ConfigProblem, InvalidProxy};

/// What is wrong with a kubeconfig. Prints all of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct InvalidConfiguration {
    /// One thing after the other; the same may be said twice, and is printed once.
    pub problems: Vec<ConfigProblem>,
}

impl InvalidConfiguration {
    /// Whether there is no configuration at all.
    pub fn is_empty_configuration(&self) -> bool {
        matches!(self.problems.as_slice(), [ConfigProblem::Empty])
    }

    fn unless_none(problems: Vec<ConfigProblem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

impl fmt::Display for InvalidConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = aggregate(self.problems.iter().map(ToString::to_string));
        write!(f, "invalid configuration: {problems}")
    }
}

impl std::error::Error for InvalidConfiguration {}

impl Kubeconfig {
    /// Everything that is wrong with any context, user or cluster. Whether one context can be used,
    /// [`Kubeconfig::client_config`] says.
    pub fn validate(&self) -> Result<(), InvalidConfiguration> {
        let has_none =
            self.contexts.is_empty() && self.clusters.is_empty() && self.users.is_empty();
        if has_none && self.current_context.is_empty() && self.extensions.is_empty() {
            return InvalidConfiguration::unless_none(vec![ConfigProblem::Empty]);
        }
        let mut problems: Vec<_> = self.check_name(&self.current_context).collect();
        let contexts = self.contexts.iter();
        problems.extend(contexts.flat_map(|(name, context)| self.check_context(name, context)));
        problems.extend(self.users.iter().flat_map(|(name, user)| user::check(name, user)));
        let clusters = self.clusters.iter();
        problems.extend(clusters.flat_map(|(name, cluster)| cluster::check(name, cluster)));
        InvalidConfiguration::unless_none(problems)
    }

    /// Whether what was selected can be used.
    pub(crate) fn confirm(&self, selection: &Selection) -> Result<(), InvalidConfiguration> {
        let mut problems: Vec<_> = self.check_name(&selection.context_name).collect();
        problems.extend(user::check(&selection.user_name, &selection.user));
        problems.extend(cluster::check(&selection.cluster_name, &selection.cluster));
        if matches!(problems.as_slice(), [ConfigProblem::EmptyCluster]) {
            problems = vec![ConfigProblem::Empty];
        }
        InvalidConfiguration::unless_none(problems)
    }

    fn check_name(&self, context: &str) -> impl Iterator<Item = ConfigProblem> + use<> {
        let is_missing = !context.is_empty() && !self.contexts.contains_key(context);
        is_missing.then(|| ConfigProblem::NoContext(context.to_owned())).into_iter()
    }

    fn check_context(&self, name: &str, context: &Context) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if name.is_empty() {
            problems.push(ConfigProblem::NamelessContext);
        }
        let parts = [
            ("user", &context.user, self.users.contains_key(&context.user)),
            ("cluster", &context.cluster, self.clusters.contains_key(&context.cluster)),
        ];
        for (what, part, is_there) in parts {
            let context = name.to_owned();
            if part.is_empty() {
                problems.push(ConfigProblem::NotSpecified { what, context });
            } else if !is_there {
                problems.push(ConfigProblem::NotThere { what, name: part.clone(), context });
            }
        }
        if !context.namespace.is_empty() && !is_dns_label(&context.namespace) {
            let (namespace, context) = (context.namespace.clone(), name.to_owned());
            problems.push(ConfigProblem::Namespace { namespace, context });
        }
        problems
    }
}

fn is_dns_label(text: &str) -> bool {
    let in_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_bounded = !text.starts_with('-') && !text.ends_with('-');
    text.len() <= 63 && is_bounded && text.bytes().all(in_label)
}

fn unreadable(field: &'static str, file: &str, owner: &str) -> Option<ConfigProblem> {
    if file.is_empty() {
        return None;
    }
    let error = read_file(file.as_ref()).err()?;
    Some(ConfigProblem::File { field, owner: owner.to_owned(), error })
}
