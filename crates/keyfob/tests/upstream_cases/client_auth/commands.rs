//! Rows about which file a command means.

use std::path::{Path, PathBuf};

use keyfob_client::ExecConfig;
use serde_json::{Value, json};

use super::{
    failures::{help, judged},
    theatre::{Theatre, answer, config},
};
use crate::{Check, same, stage::block_on, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/derived_edge_cases.json", "command_resolution", derived),
    ("client/go_verified_extra.json", "command_resolution", resolution),
];

/// Where the rows' plugins lie, and what each prints.
pub(super) const PLACES: [(&str, &str); 5] = [
    ("bin/plugin", "bin"),
    ("bin2/plugin", "bin2"),
    ("cwd/plugin", "cwd"),
    ("cwd/b/plugin", "cwd-b"),
    ("cwd/onlycwd", "onlycwd"),
];

/// A theatre with the rows' plugins, in whose `cwd` this process is for as long as it lives.
pub(super) struct Places {
    pub(super) theatre: Theatre,
    was_in: PathBuf,
}

impl Places {
    pub(super) fn new() -> Self {
        let theatre = Theatre::new();
        for (place, token) in PLACES {
            theatre.script(place, &format!("echo '{}'", answer(&json!({ "token": token }))));
        }
        let was_in = std::env::current_dir().unwrap();
        std::env::set_current_dir(theatre.folder.path().join("cwd")).unwrap();
        Self { theatre, was_in }
    }

    /// With a `PATH` in which names of the theatre's folders stand for themselves.
    pub(super) fn with_path(mut self, path: &str) -> Self {
        let folder = self.theatre.folder.path();
        let entry = |entry: &str| match entry {
            "bin" | "bin2" => folder.join(entry).to_str().unwrap().to_owned(),
            other => other.to_owned(),
        };
        self.theatre.path = path.split(':').map(entry).collect::<Vec<_>>().join(":");
        self
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        std::env::set_current_dir(&self.was_in).unwrap();
    }
}

fn resolution(_file: &Value, row: &Value) -> Result<(), String> {
    let case = text(row, "case");
    let (path, env) = match case {
        _ if case.contains("parent has bin") => ("bin:/usr/bin:/bin", Some("bin2")),
        _ if case.contains("parent without") => ("/usr/bin:/bin", Some("bin2")),
        _ if case.ends_with("PATH without") => ("/usr/bin:/bin", None),
        "PATH=. " => (".", None),
        "PATH empty entry first" => (":bin:/usr/bin:/bin", None),
        "PATH bin then ." => ("bin:.", None),
        "PATH empty string" => ("", None),
        _ => (case.strip_prefix("PATH=").unwrap_or("bin:/usr/bin:/bin"), None),
    };
    let places = Places::new().with_path(path);
    let folder = places.theatre.folder.path();
    let command = match case {
        "absolute" => folder.join("bin/plugin").to_str().unwrap().to_owned(),
        "absolute unclean" => folder.join("bin/../bin2//./plugin").to_str().unwrap().to_owned(),
        "name with space" => "plug in".to_owned(),
        "tilde" => "~/plugin".to_owned(),
        "$HOME" => "$HOME/plugin".to_owned(),
        _ if case.starts_with("PATH") || case.starts_with("env ") => "plugin".to_owned(),
        _ => case.strip_prefix("command ").unwrap_or(case).split(", ").next().unwrap().to_owned(),
    };
    let env = env.map(|place| ("PATH".into(), folder.join(place).to_str().unwrap().into()));
    let config = ExecConfig {
        env: env.into_iter().collect(),
        install_hint: "HINT".into(),
        ..config(Path::new(&command))
    };
    judged(&places.theatre, &config, row)
}

fn derived(_file: &Value, row: &Value) -> Result<(), String> {
    let token = |path: &str, config: ExecConfig| {
        let places = Places::new().with_path(path);
        let asked = block_on(places.theatre.authenticator(&config, None).credential());
        asked
            .map(|found| found.token().unwrap().expose().clone())
            .map_err(|error| error.to_string())
    };
    let command = |command: &str| config(Path::new(command));
    match (row["command"].as_str(), row["case"].as_str()) {
        (Some(""), _) => {
            let hint = ExecConfig { install_hint: "<installHint>".into(), ..command("") };
            let wanted = format!("exec: executable . not found{}", help("<installHint>"));
            same(&token("bin", hint), &Err(wanted))
        }
        (Some(text), _) if text.starts_with("./plugin") => {
            same(&token("bin", command("./plugin")), &Ok("bin".to_owned()))
        }
        (Some(text), _) => same(&token("bin", command(text)), &Ok("cwd-b".to_owned())),
        (_, Some("exec.env sets PATH")) => {
            let env = vec![("PATH".into(), "/nowhere".into())];
            same(&token("bin", ExecConfig { env, ..command("plugin") }), &Ok("bin".to_owned()))
        }
        // Windows, which is not built for.
        _ => same(&row["verified"], &json!(false)),
    }
}
