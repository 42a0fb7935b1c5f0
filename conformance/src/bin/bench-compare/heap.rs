//! What a kept answer costs. Ours is measured by `cargo bench -p keyfob-host --bench heap`, in a process of its own: it counts
//! every byte that is asked of the allocator, which is slow.

use std::{io, path::Path, process::Command};

use keyfob_conformance::Judge as _;
use serde_json::{Value, json};

use crate::{
    hosts::{ECR, three_clouds},
    page::{Row, Unit},
    pairs::answering,
};

/// As many as that benchmark has.
const ENTRIES: u32 = 100_000;

pub(crate) fn measure(oracle: &Path) -> io::Result<[Row; 2]> {
    let ours = ours()?;
    let [heap, resident] = upstream(oracle)?;
    let row =
        |what, upstream, ours, target| Row { what, upstream, ours, unit: Unit::Bytes, target };
    Ok([
        row("heap of one of 100,000 cached answers", heap, figure(&ours, "heap,"), "≤ 1.00"),
        row("the process grows by, for each", resident, figure(&ours, "the process"), ""),
    ])
}

fn upstream(oracle: &Path) -> io::Result<[f64; 2]> {
    let answer = json!({ "cacheKeyType": "Image", "keys": [ECR], "password": "" });
    let mut oracle = answering(oracle, &three_clouds(), &answer)?;
    let mut fill = |from: u32, to: u32| -> io::Result<Value> {
        let fill = json!({ "prefix": format!("{ECR}/team/app-"), "from": from, "to": to });
        let answer = oracle.ask_about("bench", &json!({ "fill": fill }))?;
        assert_eq!(answer["kept"], to, "not everything was kept");
        Ok(answer)
    };
    let (before, after) = (fill(0, 100)?, fill(100, 100 + ENTRIES)?);
    Ok(["heap", "resident"].map(|of| {
        let bytes = |answer: &Value| answer[of].as_f64().expect("a number");
        (bytes(&after) - bytes(&before)) / f64::from(ENTRIES)
    }))
}

fn ours() -> io::Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ran = Command::new(cargo)
        .args(["bench", "--quiet", "--locked", "-p", "keyfob-host", "--bench", "heap"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// The figure in the row of a table that begins with these words.
fn figure(table: &str, row: &str) -> f64 {
    let cells = table.lines().find_map(|line| line.strip_prefix("| ")?.strip_prefix(row));
    let figure =
        cells.and_then(|cells| cells.split(" | ").nth(1)?.strip_suffix(" B")?.parse().ok());
    figure.unwrap_or_else(|| panic!("no row {row} in:\n{table}"))
}
