//! `keyfob records list`.

use std::sync::Arc;

use clap::Args;
use keyfob_api::Chain;
use keyfob_images::{PullAccess, PulledRecord, RecordsError};
use serde::Serialize;

use super::{PlaceArgs, complaints};
use crate::{Outcome, Verdict, cli::Output, get::aligned, match_images::shown, pull::access};

#[derive(Debug, Args)]
#[command(
    after_help = "JSON: {\"records\":[{\"imageId\",\"lastUpdated\",\"names\":[{\"name\",\"everyPod\",\
                  \"pullSecrets\":[{\"namespace\",\"name\",\"uid\"}],\"serviceAccounts\":[{\"namespace\",\"name\",\"uid\"}]}]}],\
                  \"intents\":[{\"image\",\"state\":\"pulling\"|\"abandoned\"}],\"errors\":[…]}, where an intent is of a pull that has \
                  not ended, or that ended halfway. Hashes of credentials are not printed. Nothing is created or changed.\n\
                  Exit codes: 0 everything was told, 1 a file cannot be read, 2 wrong usage, 3 there are no records, 4 the \
                  answer could not be written."
)]
pub(super) struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &ListArgs) -> Outcome {
    let records = match args.place.read() {
        Ok(records) => records,
        Err(error) => return error.into(),
    };
    let (known, unread) = records.records();
    let (intents, unread_intents) = records.intents();
    let abandoned = records.abandoned();
    let errors: Vec<RecordsError> = unread.into_iter().chain(unread_intents).collect();
    let listed = Listed {
        records: known.iter().map(Record::of).collect(),
        intents: intents.iter().map(|image| Intent::of(image, &abandoned)).collect(),
        errors: errors.iter().map(|error| Chain(error).to_string()).collect(),
    };
    let verdict = if errors.is_empty() { Verdict::Yes } else { Verdict::No };
    match args.output {
        Output::Json => {
            let stdout = crate::page::json(&listed);
            Outcome { stdout, verdict, ..Outcome::default() }
        }
        Output::Table => {
            Outcome { stdout: listed.table(&known), stderr: complaints(&errors), verdict }
        }
    }
}

/// The documented answer.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    records: Vec<Record<'a>>,
    intents: Vec<Intent<'a>>,
    errors: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    image_id: &'a str,
    last_updated: Option<String>,
    names: Vec<Named<'a>>,
}

/// Who may use an image by this name.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Named<'a> {
    name: &'a str,
    every_pod: bool,
    pull_secrets: Vec<Object<'a>>,
    service_accounts: Vec<Object<'a>>,
}

#[derive(Debug, Serialize)]
struct Object<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

#[derive(Debug, Serialize)]
struct Intent<'a> {
    image: &'a str,
    state: &'static str,
}

impl<'a> Record<'a> {
    fn of(record: &'a Arc<PulledRecord>) -> Self {
        let names = record.credential_mapping.iter();
        Self {
            image_id: &record.image_ref,
            last_updated: record.last_updated_time.map(|time| time.to_string()),
            names: names.map(|(name, access)| Named::of(name, access)).collect(),
        }
    }
}

impl<'a> Named<'a> {
    fn of(name: &'a str, access: &'a PullAccess) -> Self {
        let secrets = access.secrets.iter().map(|each| &each.secret);
        let secrets = secrets.map(|each| Object {
            namespace: &each.namespace,
            name: &each.name,
            uid: &each.uid,
        });
        let accounts = access.service_accounts.iter().map(|each| Object {
            namespace: &each.namespace,
            name: &each.name,
            uid: &each.uid,
        });
        Self {
            name,
            every_pod: access.node_pods_accessible,
            pull_secrets: secrets.collect(),
            service_accounts: accounts.collect(),
        }
    }
}

impl<'a> Intent<'a> {
    fn of(image: &'a str, abandoned: &[String]) -> Self {
        let state =
            if abandoned.iter().any(|each| each == image) { "abandoned" } else { "pulling" };
        Self { image, state }
    }
}

impl Listed<'_> {
    /// A line for each name of each image, and each pull that has not ended.
    fn table(&self, known: &[Arc<PulledRecord>]) -> String {
        const TITLES: [&str; 4] = ["IMAGE ID", "NAME", "FOR", "SINCE"];
        let mut rows = vec![TITLES.map(str::to_owned)];
        for record in known {
            let id = short_id(&record.image_ref);
            let since = record.last_updated_time.map(|time| time.to_string()).unwrap_or_default();
            let mut row = |name: &str, who: String| {
                rows.push([id.clone(), name.to_owned(), who, since.clone()]);
            };
            if record.credential_mapping.is_empty() {
                row("-", access::summary(&PullAccess::default()));
            }
            for (name, access) in &record.credential_mapping {
                row(&shown(name), keyfob_exec::on_one_line(&access::with_uids(access)));
            }
        }
        for Intent { image, state } in &self.intents {
            let told = match *state {
                "pulling" => "is being pulled",
                _ => "a pull ended halfway; the next pull or start of the kubelet looks into it",
            };
            rows.push(["-".into(), shown(image).into(), told.into(), String::new()]);
        }
        if rows.len() == 1 { String::new() } else { aligned(&rows) }
    }
}

/// As much of an id as container runtimes show.
pub(crate) fn short_id(id: &str) -> String {
    const DIGITS: usize = 12;
    match id.strip_prefix("sha256:") {
        Some(hex) => format!("sha256:{}", shown(&hex.chars().take(DIGITS).collect::<String>())),
        None => shown(id).into_owned(),
    }
}
