//! `keyfob match`.

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
    let pattern = match MatchPattern::parse(&args.pattern) {
        Ok(pattern) => pattern,
        Err(error) => return malformed(&format!("the pattern is malformed: {error}\n")),
    };
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for image in &args.images {
        match row(&pattern, image, args) {
            Ok(row) => rows.push(row),
            Err(error) => errors.push(format!("keyfob: {error}\n")),
        }
    }
    let verdict = match (errors.is_empty(), rows.iter().all(|row| row.matches)) {
        (false, _) => Verdict::WrongInput,
        (true, false) => Verdict::No,
        (true, true) => Verdict::Yes,
    };
    Outcome { stdout: print(&rows, args.output), stderr: errors.concat(), verdict }
}

fn malformed(error: &str) -> Outcome {
    Outcome {
        stderr: format!("keyfob: {error}"),
        verdict: Verdict::WrongInput,
        ..Outcome::default()
    }
}

fn row<'a>(pattern: &MatchPattern, image: &'a str, args: &'a MatchArgs) -> Result<Row<'a>, String> {
    let repository = repository(image, args.raw)?;
    let target = MatchTarget::parse(&repository)
        .map_err(|error| format!("the image is malformed: {error}"))?;
    let checked = pattern.check(&target);
    Ok(Row {
        pattern: &args.pattern,
        image,
        repository,
        matches: checked.is_ok(),
        reason: checked
            .err()
            .map_or_else(|| "host, port and path match".into(), |why| why.to_string()),
    })
}

/// What a pattern is held against: the kubelet never shows it a tag, a digest or a short name.
fn repository(image: &str, raw: bool) -> Result<String, String> {
    if raw {
        return Ok(image.into());
    }
    ImageRef::parse(image).map(|image| image.repository().into()).map_err(|error| error.to_string())
}

fn print(rows: &[Row<'_>], output: Output) -> String {
    match output {
        Output::Json => serde_json::to_string(rows).unwrap_or_default() + "\n",
        Output::Table => rows.iter().map(line).collect(),
    }
}

fn line(row: &Row<'_>) -> String {
    let verdict = if row.matches { "match   " } else { "no match" };
    let known_as = match &row.repository {
        same if same == row.image => String::new(),
        other => format!(" (as {other})"),
    };
    format!("{verdict}  {}{known_as}: {}\n", row.image, row.reason)
}
