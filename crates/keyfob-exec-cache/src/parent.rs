//! Who runs us: the client, whose second question means that the first answer was refused.

use std::{
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _, process::parent_id},
    path::Path,
};

use keyfob_exec::read_bounded;

/// The process that started this one.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParentProcess {
    /// Which one it is.
    pub id: AskerId,
    /// What it was itself started with, if that may be known.
    pub environment: Option<Vec<(OsString, OsString)>>,
}

/// A program that runs. Another process that gets its number later is another; so is another program that the same process
/// becomes: a dispatcher of kubectls asks, and so does the kubectl that takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is no more to it")]
pub struct AskerId {
    /// The number of its process.
    pub pid: u32,
    /// When that started, in the kernel's ticks.
    pub started: u64,
    /// The number of its file; 0 if that is not told.
    pub file: u64,
}

impl ParentProcess {
    /// That of this process; nothing if the system does not say.
    pub fn of_this_process() -> Option<Self> {
        Self::at(parent_id())
    }

    /// A process by its number.
    pub fn at(pid: u32) -> Option<Self> {
        const MOST: u64 = 16 << 20;
        let folder = Path::new("/proc").join(pid.to_string());
        let stat = read_bounded(&folder.join("stat"), MOST).ok()?;
        let started = start_time(stat.expose())?;
        let file = fs::metadata(folder.join("exe")).map_or(0, |file| file.ino());
        let environment = read_bounded(&folder.join("environ"), MOST).ok();
        let environment = environment.map(|text| variables(text.expose()));
        Some(Self { id: AskerId { pid, started, file }, environment })
    }
}

/// The environment may hold secrets.
impl fmt::Debug for ParentProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParentProcess").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The 22nd field. The second is the program's name, which may hold anything, and ends at the last bracket.
fn start_time(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

fn variables(environ: &[u8]) -> Vec<(OsString, OsString)> {
    let pair = |entry: &[u8]| {
        let end = entry.iter().position(|byte| *byte == b'=')?;
        let [name, value] = [entry.get(..end)?, entry.get(end + 1..)?].map(OsStr::from_bytes);
        Some((name.to_owned(), value.to_owned()))
    };
    environ.split(|byte| *byte == 0).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_whatever_the_program_is_called() {
        let rest = (3..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["(kubectl)", "(a) b) S 1)", "(\u{fffd})"] {
            assert_eq!(start_time(format!("7 {name} {rest}\n").as_bytes()), Some(22));
        }
        for broken in
            ["", "7 (x", "7 (x) S 1", "7 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 x"]
        {
            assert_eq!(start_time(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn the_environment_is_read_as_the_kernel_keeps_it() {
        let read = variables(b"A=1\0B=x=y\0C=\0odd\0");
        let expected = [("A", "1"), ("B", "x=y"), ("C", "")];
        assert_eq!(read, expected.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn our_parent_is_known_and_nobody_is_not() {
        let parent = ParentProcess::of_this_process().unwrap();
        assert_eq!(ParentProcess::of_this_process().unwrap().id, parent.id);
        assert_eq!(ParentProcess::at(u32::MAX), None);
    }
}
