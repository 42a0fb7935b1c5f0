//! The table, and where it stands.

use std::{fs, io};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");
const BEGIN: &str = "<!-- bench-compare -->\n";
const END: &str = "<!-- /bench-compare -->";

/// One thing that both do.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) upstream: f64,
    pub(crate) ours: f64,
    pub(crate) unit: Unit,
    pub(crate) target: &'static str,
}

/// What a figure is a number of.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
            Self::Bytes => format!("{figure:.0} B"),
            Self::Seconds if figure < 10e-6 => format!("{:.0} ns", figure * 1e9),
            Self::Seconds if figure < 10e-3 => format!("{:.0} µs", figure * 1e6),
            Self::Seconds => format!("{:.1} ms", figure * 1e3),
        }
    }
}

pub(crate) fn table(rows: &[Row], judge: &str) -> String {
    let head = format!(
        "Upstream here: {judge}.\n\n| what | upstream | Keyfob | ratio | target |\n|---|---:|---:|---:|---|\n"
    );
    head + &rows.iter().map(Row::line).collect::<String>()
}

impl Row {
    fn line(&self) -> String {
        let Self { what, upstream, ours, unit, target } = self;
        let ratio = match ours / upstream {
            ratio if ratio < 0.1 => format!("1/{:.0}", ratio.recip()),
            ratio => format!("{ratio:.2}"),
        };
        let (upstream, ours) = (unit.show(*upstream), unit.show(*ours));
        format!("| {what} | {upstream} | {ours} | {ratio} | {target} |\n")
    }
}

/// The page with a place for the table in it.
pub(crate) struct Page {
    before: String,
    after: String,
}

impl Page {
    pub(crate) fn open() -> io::Result<Self> {
        let page = fs::read_to_string(PAGE)?;
        let place = page.split_once(BEGIN).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(END)?;
            Some(Self { before: before.to_owned(), after: after.to_owned() })
        });
        place.ok_or_else(|| {
            let begin = BEGIN.trim_end();
            io::Error::other(format!("{PAGE} has no place for the table: {begin} … {END}"))
        })
    }

    /// Puts the table in the place of the one before it.
    pub(crate) fn write(&self, table: &str) -> io::Result<()> {
        let Self { before, after } = self;
        fs::write(PAGE, format!("{before}{BEGIN}{table}{END}{after}"))
    }
}
