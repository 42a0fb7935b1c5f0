//! Finding out, step by step. A step that fails is a problem, and what can be told without it still is.

use std::time::Duration;

use keyfob_client::{
    Kubeconfig, LoadError, LoadingRules, Messages, RelativePaths, Selection, StaticCredentials,
};
use keyfob_exec::{Clock as _, SystemClock, SystemEnvironment};
use tokio::time::Instant;

use super::{
    super::{
        chosen::{Chosen, Cluster, Wanted, named},
        cluster_args::ClusterArgs,
        described::Described,
        failure::KubeFailure,
        held::Held,
    },
    report::{Entry, Extension, File, FileState, Plugin, Policy, Report, Run},
};
use crate::{Verdict, explain::command::without_user, match_images::shown, page::Problem};

/// What to do about a problem that says itself what is wrong.
const OTHERWISE: &str = "mend that";

/// A report that grows.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    report: Report,
}

impl Gathering {
    /// Everything, and how it went.
    pub(super) async fn all(mut self, args: &ClusterArgs, no_run: bool) -> (Report, Verdict) {
        let wanted = args.wanted();
        let failure = match self.find(&wanted) {
            Ok(chosen) => self.ask(chosen, args, no_run).await.err(),
            Err(failure) => Some(failure),
        };
        let verdict = match &failure {
            None => Verdict::Yes,
            Some(failure) if failure.is_of_the_credential() => Verdict::No,
            Some(_) => Verdict::WrongInput,
        };
        if let Some(failure) = &failure {
            let remedy = failure.remedy().unwrap_or_else(|| OTHERWISE.to_owned());
            self.report.problems.push(Problem::new(failure.problem(), remedy));
        }
        self.report.verdict = self.sentence(failure.as_ref());
        (self.report, verdict)
    }

    /// What counts, without running anything.
    fn find(&mut self, wanted: &Wanted) -> Result<Chosen, KubeFailure> {
        let loaded = wanted.rules.load();
        self.report.files = files(&wanted.rules, &loaded);
        let kubeconfig = wanted.load()?;
        let selection = wanted.select(&kubeconfig)?;
        self.selected(&selection);
        if let Some(exec) = &selection.user.exec {
            let written = as_written(wanted).unwrap_or_else(|| exec.command.clone());
            let mut plugin = Plugin::new(exec, &written, &SystemEnvironment);
            let name = kubeconfig.plugin_extension_name(&selection.cluster);
            plugin.extension = name.map(|name| Extension::new(name, &selection));
            self.report.plugin = Some(plugin);
        }
        let chosen = wanted.choose_from(&kubeconfig, &SystemEnvironment)?;
        self.report.namespace = Some(chosen.config.namespace.clone());
        self.report.own_credentials = own(&chosen.config.user);
        if let (Some(plugin), Some(exec)) = (&mut self.report.plugin, &chosen.config.exec) {
            let kuberc = chosen.kuberc.as_ref();
            let policy = Policy::of(&exec.policy, kuberc, &exec.command, &SystemEnvironment);
            plugin.policy = Some(policy);
        }
        Ok(chosen)
    }

    fn selected(&mut self, selection: &Selection) {
        let entry = |name: &str, origin: &Option<std::path::PathBuf>| {
            let file = origin.as_deref().map(named);
            Some(Entry { name: name.to_owned(), file }).filter(|entry| !entry.name.is_empty())
        };
        let report = &mut self.report;
        report.context = entry(&selection.context_name, &selection.context.origin);
        report.cluster = entry(&selection.cluster_name, &selection.cluster.origin);
        report.user = entry(&selection.user_name, &selection.user.origin);
        report.server = Some(without_user(&selection.cluster.server));
    }

    /// Runs the plugin, if it is the plugin that counts.
    async fn ask(
        &mut self,
        chosen: Chosen,
        args: &ClusterArgs,
        no_run: bool,
    ) -> Result<(), KubeFailure> {
        let info = chosen.config.exec_cluster().ok().flatten();
        let cluster = Cluster::new(chosen, args.authenticators(Messages::nowhere()));
        let authenticator = cluster.authenticator()?;
        let is_used = authenticator.is_some();
        if let Some(plugin) = &mut self.report.plugin {
            match &authenticator {
                Some(authenticator) => plugin.as_run_by(authenticator, info.as_ref()),
                None => plugin.why_not_used = Some(unused(&cluster.chosen)),
            }
        }
        if no_run && is_used {
            return self.may_run();
        }
        let began = Instant::now();
        let held = cluster.held().await;
        if is_used {
            self.report.run = Some(ran(&held, began.elapsed()));
        }
        self.report.credential = Some(Described::new(&held?, SystemClock.now()));
        Ok(())
    }

    /// What already speaks against a run that is not made.
    fn may_run(&self) -> Result<(), KubeFailure> {
        let Some(plugin) = &self.report.plugin else { return Ok(()) };
        let denied = plugin.policy.as_ref().and_then(|policy| policy.reason.clone());
        let no_terminal = plugin.interactive.is_none().then(|| plugin.why_interactive.clone());
        let against = denied.or_else(|| plugin.found.not_found.clone()).or(no_terminal);
        against.map_or(Ok(()), |why| Err(KubeFailure::WouldFail(why)))
    }

    fn sentence(&self, failure: Option<&KubeFailure>) -> String {
        let report = &self.report;
        let command = report.plugin.as_ref().filter(|plugin| plugin.is_used);
        let command = command.map(|plugin| shown(&plugin.command));
        match (failure, command, &report.credential) {
            (Some(_), Some(command), _) => format!("the plugin {command} gives no credential"),
            (Some(failure @ KubeFailure::AuthProvider(_)), None, _) => failure.problem(),
            (Some(KubeFailure::Nobody(_)), None, _) => "nobody is who asks the server".to_owned(),
            (Some(_), None, _) => "nothing can be asked with this".to_owned(),
            (None, Some(command), Some(credential)) => {
                format!("the plugin {command} gives {}", credential.summary())
            }
            (None, Some(command), None) => format!("the plugin {command} would be run"),
            (None, None, Some(credential)) => {
                format!("the user has {} of its own; no plugin is run", credential.summary())
            }
            (None, None, None) => String::new(),
        }
    }
}

fn files(rules: &LoadingRules, loaded: &Result<Kubeconfig, LoadError>) -> Vec<File> {
    let paths = rules.explicit.iter().chain(&rules.precedence);
    let paths = paths.filter(|path| !path.as_os_str().is_empty());
    paths
        .map(|path| {
            let (problem, ignored) = match loaded {
                Ok(kubeconfig) => {
                    let source = kubeconfig.sources.iter();
                    let mut source = source.filter(|source| source.path.as_ref() == Some(path));
                    let issues = source.next().map(|source| source.ignored.as_slice());
                    (None, issues.unwrap_or_default().iter().map(ToString::to_string).collect())
                }
                Err(LoadError::Files(problems)) => {
                    let of_this = problems.iter().find(|(file, _)| file == path);
                    (of_this.map(|(_, problem)| problem.to_string()), Vec::new())
                }
                Err(_) => (None, Vec::new()),
            };
            let state = match &problem {
                Some(_) => FileState::Unusable,
                None if path.exists() => FileState::Read,
                None => FileState::Missing,
            };
            File { path: named(path), state, ignored, problem }
        })
        .collect()
}

/// The plugin's command before its path was resolved.
fn as_written(wanted: &Wanted) -> Option<String> {
    let mut rules = wanted.rules.clone();
    rules.relative_paths = RelativePaths::Keep;
    let selection = rules.load().ok()?.select(&wanted.overrides).ok()?;
    Some(selection.user.exec?.command)
}

/// What stands in the plugin's way, by the names of a kubeconfig.
fn own(user: &StaticCredentials) -> Vec<&'static str> {
    let has_certificate = !user.cert_data.is_empty() || user.cert_file.is_some();
    let has_key = !user.key_data.expose().is_empty() || user.key_file.is_some();
    [
        ("token", user.token.is_some() && user.token_file.is_none()),
        ("tokenFile", user.token_file.is_some()),
        ("username", !user.username.is_empty()),
        ("client-certificate", has_certificate && has_key),
    ]
    .into_iter()
    .filter_map(|(name, is_there)| is_there.then_some(name))
    .collect()
}

/// Why a plugin is not run.
fn unused(chosen: &Chosen) -> String {
    match own(&chosen.config.user).as_slice() {
        [] => chosen.nobody(),
        own => format!("the user's own {} comes first", own.join(" and ")),
    }
}

fn ran(held: &Result<Held, KubeFailure>, took: Duration) -> Run {
    let error = match held {
        Err(KubeFailure::Plugin(error)) => Some(error),
        _ => None,
    };
    Run {
        took_ms: (took.as_secs_f64() * 1e6).round() / 1e3,
        error: held.as_ref().err().map(|failure| match failure {
            KubeFailure::Plugin(error) => error.to_string(),
            other => other.to_string(),
        }),
        stderr: error.and_then(|error| error.stderr()).map(|stderr| stderr.text().to_owned()),
    }
}
