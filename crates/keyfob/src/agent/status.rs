//! `keyfob agent status`: what the status page shows, in a terminal.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use keyfob_agent::{AgentClient, AgentClientError, relative_time};
use keyfob_api::{Chain, Timestamp};
use keyfob_exec::{on_one_line, write_stdout};
use serde_json::Value;

use super::{ADMIN_SOCKET, append, counted, field, items, joined, text};
use crate::{Outcome, Verdict, cli::Output, get::aligned, page::Page, records::short_id};

/// How often `--watch` asks.
const INTERVAL: Duration = Duration::from_secs(1);
/// How many rows of a list are shown; `-o json` has more.
const ROWS: usize = 10;
/// Clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// The administrators' socket.
    #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET)]
    socket: PathBuf,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Follow the agent until Ctrl-C: redraw the screen each second. If stdout is no terminal, print the status anew whenever it has
    /// changed; with `-o json`, one object a line.
    #[arg(long)]
    watch: bool,
}

impl StatusArgs {
    pub(super) async fn run(&self) -> Result<Outcome, AgentClientError> {
        let client = AgentClient::new(&self.socket);
        let status = client.status().await?;
        if !self.watch {
            return Ok(super::printed(&status, self.output, status_text));
        }
        Ok(match self.follow(&client, status).await {
            Ok(never) => match never {},
            Err(error) => Outcome {
                stderr: format!("keyfob: the status could not be written: {error}\n"),
                verdict: Verdict::Unwritten,
                ..Outcome::default()
            },
        })
    }

    /// Ends with a signal, or when nobody reads any more. An agent that restarts is waited for.
    async fn follow(
        &self,
        client: &AgentClient,
        status: Value,
    ) -> io::Result<std::convert::Infallible> {
        let is_terminal = io::stdout().is_terminal();
        let mut shown = None;
        let mut status = Ok(status);
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            let told = match &status {
                Ok(status) => without_time(status),
                Err(error) => Value::String(Chain(error).to_string()),
            };
            if is_terminal || shown.as_ref() != Some(&told) {
                self.print(&status, is_terminal)?;
            }
            shown = Some(told);
            status = client.status().await;
        }
    }

    fn print(&self, status: &Result<Value, AgentClientError>, is_terminal: bool) -> io::Result<()> {
        let text = match (status, self.output) {
            (Ok(status), Output::Json) => keyfob_exec::printable_json(&status.to_string()) + "\n",
            (Err(error), Output::Json) => {
                serde_json::json!({"error": Chain(error).to_string()}).to_string() + "\n"
            }
            (status, Output::Table) => {
                let text = match status {
                    Ok(status) => status_text(status),
                    Err(error) => format!("keyfob: {}\n", on_one_line(&Chain(error).to_string())),
                };
                if is_terminal { format!("{CLEAR}{text}") } else { text + "\n" }
            }
        };
        write_stdout(text.as_bytes())
    }
}

/// What does not change with every look.
fn without_time(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("now");
        // They move with the clock; what happened is in the rest.
        fields.remove("minutes");
    }
    status
}

/// The status for people.
pub(super) fn status_text(status: &Value) -> String {
    let mut page = Page::default();
    let (version, node) = (text(status, "version"), text(status, "node"));
    page.line(&format!(
        "keyfob agent {version} on {node}, running since {}",
        text(status, "started")
    ));
    problems(&mut page, status);
    configuration(&mut page, status);
    last_hour(&mut page, status);
    for provider in items(status, "providers") {
        provider_lines(&mut page, status, provider);
    }
    let tables = [
        ("cached answers", cached(status)),
        ("decisions", decisions(status)),
        ("reloads", reloads(status)),
        ("pull records", pull_records(status)),
    ];
    let mut written = page.text();
    for (title, table) in tables {
        if !table.is_empty() {
            append(&mut written, format_args!("\n{title}\n{table}"));
        }
    }
    written
}

fn problems(page: &mut Page, status: &Value) {
    for problem in items(status, "problems") {
        page.line("");
        page.line(&format!("! {}", text(problem, "summary")));
        for (name, label) in [
            ("since", "since"),
            ("reason", "reason"),
            ("effect", "effect"),
            ("help", "fix"),
            ("command", "see"),
        ] {
            if let Some(told) = field(problem, name).as_str() {
                page.line(&format!("  {label:<8} {told}"));
            }
        }
    }
    match items(status, "problems").next() {
        Some(_) => page.line(""),
        None => page.line("problems   none"),
    }
}

fn configuration(page: &mut Page, status: &Value) {
    let hash = field(status, "providerConfigHash").as_str();
    let hash = hash.map(|hash| format!(" ({hash})")).unwrap_or_default();
    page.line(&format!("file       {}", text(status, "configFile")));
    page.line(&format!("providers  {}{hash}", text(status, "providerConfig")));
    page.line(&format!("rules      {}", joined(field(status, "rules"))));
    page.line(&format!("images     {} remembered", field(status, "rememberedImages")));
    let audit = field(status, "audit");
    page.line(&format!(
        "audit      {} written, {} lost",
        field(audit, "written"),
        field(audit, "lost")
    ));
    let reloads = field(status, "reloads");
    page.line(&format!(
        "reloads    {} succeeded, {} failed",
        field(reloads, "succeeded"),
        field(reloads, "failed")
    ));
}

fn last_hour(page: &mut Page, status: &Value) {
    let sum = |name: &str| {
        let counts = items(status, "minutes").filter_map(|minute| field(minute, name).as_u64());
        Value::from(counts.sum::<u64>())
    };
    page.line(&format!(
        "last hour  {}, {} refused, {} failed; {}, {} failed",
        counted(&sum("responses"), "response"),
        sum("refused"),
        sum("failed"),
        counted(&sum("pluginRuns"), "plugin run"),
        sum("pluginFailures")
    ));
}

fn provider_lines(page: &mut Page, status: &Value, provider: &Value) {
    let state = match text(provider, "state") {
        "failing" => "FAILING",
        "working" => "working",
        _ => "not asked yet",
    };
    page.line("");
    page.line(&format!("provider {}: {state}", text(provider, "name")));
    page.line(&format!("  patterns   {}", joined(field(provider, "matchImages"))));
    let run = field(provider, "lastRun");
    if run.is_object() {
        let how = if field(run, "succeeded") == true { "succeeded" } else { "failed" };
        let took = field(run, "milliseconds").as_u64();
        let took = took.map(|took| format!(" after {took} ms")).unwrap_or_default();
        let (when, image) = (ago(status, text(run, "time")), text(run, "image"));
        page.line(&format!("  last run   {when}, {how}{took}, for {image}"));
    }
    let runs = counted(field(provider, "runs"), "run");
    page.line(&format!("  in all     {runs}, {} failed", field(provider, "failures")));
    let error = field(provider, "lastError");
    if error.is_object() {
        let when = ago(status, text(error, "time"));
        page.line(&format!("  last error {when}: {}", text(error, "message")));
        page.line(&format!("  fix        {}", text(error, "help")));
    }
    let cached = counted(field(provider, "cachedAnswers"), "cached answer");
    let expiry = field(provider, "nextExpiry").as_str();
    let expiry = expiry.map(|at| format!(", the first expires {}", ago(status, at)));
    page.line(&format!("  cache      {cached}{}", expiry.unwrap_or_default()));
    if let Some(renewal) = field(provider, "nextRenewal").as_str() {
        page.line(&format!("  renewal    {}", ago(status, renewal)));
    }
}

fn cached(status: &Value) -> String {
    let row = |cached: &Value| {
        let account = field(cached, "serviceAccount").as_str();
        let whose = account.map_or("everybody".to_owned(), |account| format!("pods of {account}"));
        let expires = ago(status, text(cached, "expires"));
        [text(cached, "key").to_owned(), text(cached, "provider").to_owned(), whose, expires]
    };
    let all = field(status, "cachedAnswers").as_u64().unwrap_or_default();
    table(["KEY", "PROVIDER", "FOR", "EXPIRES"], items(status, "cached").map(row), all)
}

fn decisions(status: &Value) -> String {
    let row = |event: &Value| {
        [
            text(event, "time").to_owned(),
            text(event, "outcome").to_owned(),
            // A request that asks for no credentials has no image.
            match text(event, "image") {
                "" => text(event, "request").to_owned(),
                image => image.to_owned(),
            },
            caller(field(event, "caller")),
            field(event, "rule").as_str().unwrap_or("-").to_owned(),
            text(event, "reason").to_owned(),
        ]
    };
    let titles = ["TIME", "OUTCOME", "IMAGE", "CALLER", "RULE", "REASON"];
    let all = items(status, "decisions").count();
    table(titles, items(status, "decisions").map(row), all as u64)
}

fn caller(caller: &Value) -> String {
    let pod = field(caller, "pod");
    if pod.is_object() {
        return format!("pod {}/{}", text(pod, "namespace"), text(pod, "name"));
    }
    let Some(uid) = field(caller, "uid").as_u64() else { return "unidentified".to_owned() };
    if field(caller, "container").is_string() {
        return format!("user {uid} in a container");
    }
    format!("user {uid}, {}", text(caller, "executable"))
}

fn reloads(status: &Value) -> String {
    let reloads = field(status, "reloads");
    let row = |reload: &Value| {
        let time = text(reload, "time").to_owned();
        if let Some(error) = field(reload, "error").as_str() {
            return [time, "rejected".to_owned(), error.to_owned()];
        }
        let labels = [("started", "new or changed"), ("removed", "removed")];
        let changes = labels.into_iter().filter_map(|(name, label)| {
            let names = joined(field(reload, name));
            (!names.is_empty()).then(|| format!("{label}: {names}"))
        });
        [time, "in use".to_owned(), changes.collect::<Vec<_>>().join("; ")]
    };
    let mut written = table(
        ["TIME", "RESULT", "WHAT"],
        items(reloads, "history").map(row),
        items(reloads, "history").count() as u64,
    );
    let waiting = joined(field(reloads, "restartNeeded"));
    if !waiting.is_empty() {
        let waiting = on_one_line(&waiting);
        append(&mut written, format_args!("  restart the agent for changed fields: {waiting}\n"));
    }
    written
}

fn pull_records(status: &Value) -> String {
    let records = field(status, "pullRecords");
    if !records.is_object() {
        return String::new();
    }
    let images = counted(field(records, "images"), "image");
    let mut written = format!("  {images} in {}\n", on_one_line(text(records, "directory")));
    for (name, label) in [("pulling", "being pulled"), ("abandoned", "pulled halfway")] {
        let names = joined(field(records, name));
        if !names.is_empty() {
            append(&mut written, format_args!("  {label}: {}\n", on_one_line(&names)));
        }
    }
    for error in items(records, "errors").filter_map(Value::as_str) {
        append(&mut written, format_args!("  error: {}\n", on_one_line(error)));
    }
    let row = |record: &Value| {
        let updated = field(record, "updated").as_str().unwrap_or("-").to_owned();
        let id = short_id(text(record, "imageId"));
        [text(record, "name").to_owned(), text(record, "usableBy").to_owned(), id, updated]
    };
    let all = items(records, "records").count() as u64;
    written
        + &table(["NAME", "USABLE BY", "IMAGE", "SINCE"], items(records, "records").map(row), all)
}

/// The first rows, and how many more there are; nothing without rows.
fn table<const N: usize>(
    titles: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    all: u64,
) -> String {
    let mut lines = vec![titles.map(str::to_owned)];
    lines.extend(rows.take(ROWS).map(|row| row.map(|cell| on_one_line(&cell))));
    if lines.len() == 1 {
        return String::new();
    }
    let mut indented = String::new();
    for line in aligned(&lines).lines() {
        append(&mut indented, format_args!("  {line}\n"));
    }
    match all.saturating_sub(ROWS as u64) {
        0 => indented,
        more => format!("{indented}  and {more} more\n"),
    }
}

/// A time, and how far it is from when the agent was asked.
fn ago(status: &Value, time: &str) -> String {
    let parsed = |text: &str| Timestamp::parse(text).ok()?.to_system_time();
    let (Some(now), Some(at)) = (parsed(text(status, "now")), parsed(time)) else {
        return time.to_owned();
    };
    format!("{} ({time})", relative_time(at, now))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_wrote_cannot_forge_a_line() {
        let status = json!({
            "now": "2026-11-18T20:00:00Z",
            "node": "n\u{1b}[2J",
            "problems": [{"summary": "a\nb", "help": "c"}],
            "decisions": [{"time": "t", "outcome": "denied", "image": "i\nj", "reason": "\u{1b}[31m"}],
        });
        let text = status_text(&status);
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.lines().all(|line| line != "b" && !line.starts_with('j')), "{text}");
    }

    #[test]
    fn a_time_is_told_with_its_distance() {
        let status = json!({"now": "2026-11-18T20:00:00Z"});
        let told = |time| ago(&status, time);
        assert_eq!(told("2026-11-18T20:02:05Z"), "in 2 min 5 s (2026-11-18T20:02:05Z)");
        assert_eq!(told("2026-11-18T19:00:01Z"), "59 min ago (2026-11-18T19:00:01Z)");
        assert_eq!(told("2026-11-15T15:00:00Z"), "3 d 5 h ago (2026-11-15T15:00:00Z)");
        assert_eq!(told("soon"), "soon");
    }
}
