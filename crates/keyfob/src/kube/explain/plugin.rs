//! A plugin as it would be run, without its secrets.

use std::path::Path;

use keyfob_api::{ExecCluster, ExecCredentialSpec, ExecVersion, GoDuration, Secret};
use keyfob_client::{
    Authenticator, EXEC_EXTENSION, ExecConfig, InteractiveMode, Kuberc, PluginPolicy, PolicyType,
    Selection,
};
use keyfob_exec::{Environment, Program, go::clean, may_execute};

use super::{
    super::chosen::named,
    report::{ClusterInfo, Extension, Found, Info, Plugin, Policy, Wrapped},
};
use crate::{explain::command::without_user, match_images::shown, page::Variable};

impl Plugin {
    /// What the configuration says. What the policy and the terminal say to it comes later.
    pub(super) fn new(exec: &ExecConfig, written: &str, environment: &dyn Environment) -> Self {
        let variable =
            |(name, _): &(String, Secret<String>)| Variable::over(environment, name.clone());
        Self {
            command: written.to_owned(),
            resolved: Some(exec.command.clone()).filter(|resolved| resolved != written),
            found: Found::of(&exec.command, environment),
            api_version: exec.api_version.clone(),
            arguments: exec.args.len(),
            environment: exec.env.iter().map(variable).collect(),
            info: None,
            extension: None,
            interactive_mode: exec.interactive_mode.as_str().to_owned(),
            interactive: None,
            why_interactive: String::new(),
            policy: None,
            deadline: None,
            wraps: wrapped(exec, environment),
            is_used: false,
            why_not_used: None,
        }
    }

    /// How it would be run now.
    pub(super) fn as_run_by(
        &mut self,
        authenticator: &Authenticator,
        cluster: Option<&ExecCluster>,
    ) {
        self.is_used = true;
        let mode = &authenticator.config().interactive_mode;
        let interactive = authenticator.is_interactive();
        self.why_interactive = match (&interactive, mode) {
            (Ok(true), _) => "standard input is a terminal".to_owned(),
            (Ok(false), InteractiveMode::Never) => "it is never asked to".to_owned(),
            (Ok(false), _) => "standard input is not a terminal".to_owned(),
            (Err(error), _) => error.to_string(),
        };
        self.interactive = interactive.ok();
        self.deadline = authenticator
            .behaviour()
            .deadline
            .filter(|_| self.interactive == Some(false))
            .map(|after| GoDuration::from(after).to_string());
        let version = authenticator.config().api_version.parse::<ExecVersion>();
        self.info = version.ok().map(|version| info(version, self.interactive, cluster));
    }
}

impl Found {
    fn of(command: &str, environment: &dyn Environment) -> Self {
        let found = Program::on_path(&clean(command), environment);
        let checked = found.map_err(|error| error.to_string()).and_then(|program| {
            let path = program.path();
            let runs = may_execute(path).and_then(|()| path.metadata());
            match runs {
                Ok(metadata) if metadata.is_file() => Ok(named(path)),
                Ok(_) => Err(format!("{} is no file that can be run", named(path))),
                Err(error) => Err(format!("{} cannot be run: {error}", named(path))),
            }
        });
        match checked {
            Ok(program) => Self { program: Some(program), not_found: None },
            Err(why) => Self { program: None, not_found: Some(why) },
        }
    }
}

impl Extension {
    /// The extension by this name, and what whoever wrote it may not know.
    pub(super) fn new(name: &str, selection: &Selection) -> Self {
        let is_sent = selection.user.exec.as_ref().is_some_and(|exec| exec.provide_cluster_info);
        let user = shown(&selection.user_name);
        let not_sent = (!is_sent).then(|| {
            format!("not sent to the plugin: add `provideClusterInfo: true` to exec of user {user}")
        });
        let of_the_kep = (name != EXEC_EXTENSION).then(|| {
            format!("kubectl does not know this name of KEP-541: call it {EXEC_EXTENSION}")
        });
        let notes = not_sent.into_iter().chain(of_the_kep).collect();
        Self { name: name.to_owned(), is_sent, notes }
    }
}

/// What `keyfob kube exec-cache -- COMMAND…` runs itself.
fn wrapped(exec: &ExecConfig, environment: &dyn Environment) -> Option<Wrapped> {
    let args: Vec<&str> = exec.args.iter().map(String::as_str).collect();
    let ["kube", "exec-cache", rest @ ..] = args.as_slice() else { return None };
    if Path::new(&exec.command).file_name()? != "keyfob" {
        return None;
    }
    let command = *rest.iter().skip_while(|arg| **arg != "--").nth(1)?;
    Some(Wrapped { command: command.to_owned(), found: Found::of(command, environment) })
}

fn info(version: ExecVersion, interactive: Option<bool>, cluster: Option<&ExecCluster>) -> Info {
    let spec = ExecCredentialSpec {
        cluster: cluster.cloned(),
        interactive: interactive.unwrap_or_default(),
        response: None,
    };
    Info {
        bytes: spec.encode(version).expose().len(),
        cluster: cluster.map(|cluster| ClusterInfo {
            server: without_user(&cluster.server),
            certificate_authority_bytes: cluster.certificate_authority_data.len(),
            proxy: !cluster.proxy_url.expose().is_empty(),
            config: cluster.config.is_some(),
        }),
    }
}

impl Policy {
    /// What a policy says to a command.
    pub(super) fn of(
        policy: &PluginPolicy,
        kuberc: Option<&Kuberc>,
        command: &str,
        environment: &dyn Environment,
    ) -> Self {
        let checked = policy.check(&clean(command), environment);
        let kind = match &policy.policy_type {
            PolicyType::Unspecified => "AllowAll".to_owned(),
            other => other.as_str().to_owned(),
        };
        Self {
            kind,
            file: kuberc.map(|kuberc| named(kuberc.path())),
            allowed: checked.is_ok(),
            reason: checked.err().map(|denied| denied.to_string()),
            warnings: kuberc.map(|kuberc| kuberc.warnings().to_vec()).unwrap_or_default(),
        }
    }
}
