//! The report for people: the answer first, then everything it stands on.

use super::report::{Entry, File, FileState, Found, Info, Plugin, Policy, Report, Run};
use crate::{match_images::shown, page::Page};

/// The whole report.
pub(super) fn print(report: &Report) -> String {
    let mut page = Page::default();
    page.line(&report.verdict);
    page.line("");
    page.facts("kubeconfig", report.files.iter().map(file));
    for note in report.files.iter().flat_map(|file| &file.ignored) {
        page.fact("  ignored", note);
    }
    for (name, entry) in
        [("context", &report.context), ("cluster", &report.cluster), ("user", &report.user)]
    {
        if let Some(entry) = entry {
            page.fact(name, &named(entry));
        }
    }
    if let Some(server) = report.server.as_ref().filter(|server| !server.is_empty()) {
        page.fact("server", &shown(server));
    }
    if let Some(namespace) = &report.namespace {
        page.fact("namespace", &shown(namespace));
    }
    if !report.own_credentials.is_empty() {
        page.fact("its own", &report.own_credentials.join(", "));
    }
    if let Some(plugin) = &report.plugin {
        describe(&mut page, plugin);
    }
    if let Some(run) = &report.run {
        page.heading(&outcome(run));
    } else if report.credential.is_some() || !report.problems.is_empty() {
        page.line("");
    }
    if let Some(credential) = &report.credential {
        credential.print(&mut page);
    }
    let stderr = report.run.as_ref().and_then(|run| run.stderr.as_deref());
    page.facts("it said", stderr.unwrap_or_default().lines());
    page.problems(&report.problems);
    page.text()
}

fn file(file: &File) -> String {
    let problem = file.problem.as_deref().unwrap_or_default();
    match file.state {
        FileState::Read => file.path.clone(),
        FileState::Missing => format!("{}: missing", file.path),
        FileState::Unusable => format!("{}: cannot be used: {problem}", file.path),
    }
}

fn named(entry: &Entry) -> String {
    let file = entry.file.as_ref().map(|file| format!(" (of {file})"));
    format!("{}{}", shown(&entry.name), file.unwrap_or_default())
}

fn describe(page: &mut Page, plugin: &Plugin) {
    page.heading(&format!("plugin {}", shown(&plugin.command)));
    if let Some(why) = &plugin.why_not_used {
        page.fact("not run", why);
    }
    let found = found(&plugin.found);
    let command = match &plugin.resolved {
        Some(resolved) => {
            format!("{}, which is {}; {found}", shown(&plugin.command), shown(resolved))
        }
        None => format!("{}; {found}", shown(&plugin.command)),
    };
    page.fact("command", &command);
    page.fact(
        "arguments",
        &match plugin.arguments {
            0 => "none".to_owned(),
            number => format!("{number}, not shown"),
        },
    );
    page.environment(&plugin.environment);
    page.fact("version", &shown(&plugin.api_version));
    if let Some(info) = &plugin.info {
        page.fact("info", &told(info));
    }
    if let Some(extension) = &plugin.extension {
        let notes = extension.notes.iter().map(|note| format!("{}: {note}", extension.name));
        page.facts("extension", notes);
    }
    if !plugin.why_interactive.is_empty() {
        page.fact("interactive", &interactive(plugin));
    }
    if let Some(policy) = &plugin.policy {
        page.fact("policy", &judged(policy));
        page.facts("  ignored", &policy.warnings);
    }
    if let Some(deadline) = &plugin.deadline {
        page.fact("deadline", &format!("killed after {deadline}"));
    }
    page.fact(
        "cache",
        &match &plugin.wraps {
            Some(wrapped) => {
                let found = self::found(&wrapped.found);
                format!(
                    "keyfob kube exec-cache keeps the answers of {}; {found}",
                    shown(&wrapped.command)
                )
            }
            None => "none: every kubectl runs it anew".to_owned(),
        },
    );
}

fn found(found: &Found) -> String {
    match (&found.program, &found.not_found) {
        (Some(program), _) => format!("found at {program}"),
        (None, why) => why.clone().unwrap_or_default(),
    }
}

fn told(info: &Info) -> String {
    let Some(cluster) = &info.cluster else {
        return format!("{} bytes, nothing about the cluster", info.bytes);
    };
    let authorities = match cluster.certificate_authority_bytes {
        0 => "no certificates".to_owned(),
        bytes => format!("{bytes} bytes of certificates"),
    };
    let proxy = if cluster.proxy { ", its proxy" } else { "" };
    let config = if cluster.config { ", its extension" } else { "" };
    let server = shown(&cluster.server);
    format!("{} bytes, with the cluster: {server}, {authorities}{proxy}{config}", info.bytes)
}

fn interactive(plugin: &Plugin) -> String {
    let now = match plugin.interactive {
        Some(true) => "now it may ask you",
        Some(false) => "now it asks nobody",
        None => "it cannot be run now",
    };
    let why = &plugin.why_interactive;
    format!("{}: {now}, since {why}", shown(&plugin.interactive_mode))
}

fn judged(policy: &Policy) -> String {
    let file = policy.file.as_ref().map_or("no kuberc".to_owned(), |file| format!("of {file}"));
    let allowed = match &policy.reason {
        None => "it may be run".to_owned(),
        Some(reason) => format!("it may not be run: {reason}"),
    };
    format!("{} ({file}): {allowed}", policy.kind)
}

fn outcome(run: &Run) -> String {
    match run.error {
        None => format!("it answered in {:.1} ms", run.took_ms),
        Some(_) => format!("it failed after {:.1} ms", run.took_ms),
    }
}
