//! `keyfob match`.

use std::borrow::Cow;

use keyfob_api::{ImageRef, MatchPattern, MatchTarget};
use serde::Serialize;

use crate::{
    Outcome, Verdict,
    cli::{MatchArgs, Output},
};

/// One line of the answer.
#[derive(Debug, Serialize)]
struct Row<'a> {
    pattern: &'a str,
    image: &'a str,
    repository: String,
    matches: bool,
    reason: String,
}

pub(crate) fn run(args: &MatchArgs) -> Outcome {
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    match MatchPattern::parse(&args.pattern) {
        Err(error) => errors.push(format!("keyfob: the pattern is malformed: {error}\n")),
        Ok(pattern) => {
            for image in &args.images {
                match row(&pattern, image, args) {
                    Ok(row) => rows.push(row),
                    Err(error) => errors.push(format!("keyfob: {error}\n")),
                }
            }
        }
    }
    let verdict = match (errors.is_empty(), rows.iter().all(|row| row.matches)) {
        (false, _) => Verdict::WrongInput,
        (true, false) => Verdict::No,
        (true, true) => Verdict::Yes,
    };
    Outcome { stdout: print(&rows, args.output), stderr: errors.concat(), verdict }
}

fn row<'a>(pattern: &MatchPattern, image: &'a str, args: &'a MatchArgs) -> Result<Row<'a>, String> {
    let (repository, checked) = if args.raw {
        let target = MatchTarget::parse(image)
            .map_err(|error| format!("the image is malformed: {error}"))?;
        (image.to_owned(), checked(pattern, &target))
    } else {
        let image = ImageRef::parse(image).map_err(|error| error.to_string())?;
        let checked = match image.target() {
            Ok(target) => checked(pattern, &target),
            Err(error) => {
                Err(format!("no pattern can match a registry that is no URL's host: {error}"))
            }
        };
        (image.repository().to_owned(), checked)
    };
    let matches = checked.is_ok();
    let reason = checked.err().unwrap_or_else(|| "host, port and path match".into());
    Ok(Row { pattern: &args.pattern, image, repository, matches, reason })
}

fn checked(pattern: &MatchPattern, target: &MatchTarget) -> Result<(), String> {
    pattern.check(target).map_err(|why| why.to_string())
}

fn print(rows: &[Row<'_>], output: Output) -> String {
    match output {
        Output::Json => crate::page::json(rows),
        Output::Table => rows.iter().map(line).collect(),
    }
}

fn line(row: &Row<'_>) -> String {
    let verdict = if row.matches { "match   " } else { "no match" };
    let known_as = match &row.repository {
        same if same == row.image => String::new(),
        other => format!(" (as {other})"),
    };
    format!("{verdict}  {}{known_as}: {}\n", shown(row.image), row.reason)
}

/// An image, or another word, as it was written; one that could forge lines or steer the terminal is spelled out.
pub(crate) fn shown(image: &str) -> Cow<'_, str> {
    if !image.is_empty() && image.chars().all(|c| c.is_ascii_graphic()) {
        image.into()
    } else {
        format!("{image:?}").into()
    }
}
