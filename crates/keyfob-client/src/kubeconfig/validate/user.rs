//! Whether a user can be used.

use super::{ConfigProblem, unreadable};
use crate::{InteractiveMode, User};

pub(super) fn check(name: &str, user: &User) -> Vec<ConfigProblem> {
    let mut problems = check_certificate(name, user);
    problems.extend(check_exec(name, user));
    // Neither a plugin nor a certificate is a method that excludes another.
    let is_basic = !user.username.is_empty() || !user.password.expose().is_empty();
    if is_basic && !user.token.expose().is_empty() {
        problems.push(ConfigProblem::TwoMethods(name.to_owned()));
    }
    let impersonate = &user.impersonate;
    let asks_for_more = !impersonate.uid.is_empty()
        || !impersonate.groups.is_empty()
        || !impersonate.extra.is_empty();
    if asks_for_more && impersonate.user.is_empty() {
        problems.push(ConfigProblem::ImpersonationOfNobody(name.to_owned()));
    }
    problems
}

fn check_certificate(name: &str, user: &User) -> Vec<ConfigProblem> {
    let (certificate, key) = (&user.client_certificate, &user.client_key);
    let has_data = !user.client_certificate_data.is_empty();
    let has_key_data = !user.client_key_data.expose().is_empty();
    let mut problems = Vec::new();
    if certificate.is_empty() && !has_data {
        return problems;
    }
    if !certificate.is_empty() && has_data {
        problems.push(ConfigProblem::TwoCertificates(name.to_owned()));
    }
    if !key.is_empty() && has_key_data {
        problems.push(ConfigProblem::TwoKeys(name.to_owned()));
    }
    if key.is_empty() && !has_key_data {
        problems.push(ConfigProblem::NoKey(name.to_owned()));
    }
    problems.extend(unreadable("client-cert", certificate, name));
    problems.extend(unreadable("client-key", key, name));
    problems
}

fn check_exec(name: &str, user: &User) -> Vec<ConfigProblem> {
    let Some(exec) = &user.exec else { return Vec::new() };
    let mut problems = Vec::new();
    if user.auth_provider.is_some() {
        problems.push(ConfigProblem::ExecAndAuthProvider(name.to_owned()));
    }
    let musts = [
        ("command", exec.command.is_empty()),
        ("apiVersion", exec.api_version.is_empty()),
        ("env variable name", exec.env.iter().any(|(name, _)| name.is_empty())),
        ("interactiveMode", exec.interactive_mode == InteractiveMode::Unspecified),
    ];
    let missing = musts.into_iter().filter(|(_, is_missing)| *is_missing);
    problems.extend(missing.map(|(what, _)| ConfigProblem::Exec { what, user: name.to_owned() }));
    if let InteractiveMode::Unknown(mode) = &exec.interactive_mode {
        let (user, mode) = (name.to_owned(), mode.clone());
        problems.push(ConfigProblem::InteractiveMode { user, mode });
    }
    problems.extend(exec.policy.validate().err().map(ConfigProblem::Policy));
    problems
}
