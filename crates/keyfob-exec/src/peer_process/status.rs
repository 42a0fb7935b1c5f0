//! `/proc/PID/status`.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::BorrowedFd,
    str,
};

use rustix::fs::{Mode, OFlags, openat};

/// Room for 65,536 supplementary groups, the most that Linux allows.
const LIMIT: u64 = 1 << 20;

/// What `/proc/PID/status` says about the ids of a process. Ids are those of this process' user namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessStatus {
    /// Real, effective and saved user id, and that for access to files.
    pub uids: [u32; 4],
    /// Real, effective and saved group id, and that for access to files.
    pub gids: [u32; 4],
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// Whether the process has exited, and only waits to be reaped.
    pub exited: bool,
}

impl ProcessStatus {
    /// Reads the file `status` in a directory of `/proc`.
    pub(super) fn read(directory: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(directory, "status", flags, Mode::empty())?);
        let mut text = Vec::with_capacity(4 << 10);
        if file.take(LIMIT + 1).read_to_end(&mut text)? as u64 > LIMIT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Self::parse(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no process status"))
    }

    /// Nothing if a line is missing, twice there, or not as the kernel writes it.
    fn parse(text: &[u8]) -> Option<Self> {
        let (mut state, mut uids, mut gids, mut groups) = (None, None, None, None);
        // In one pass: this is read for every request. A process chooses its name, the first line, which may be anything but several lines.
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (key, value) = (line.get(..colon)?, line.get(colon + 1..)?);
            let slot = match key {
                b"State" => &mut state,
                b"Uid" => &mut uids,
                b"Gid" => &mut gids,
                b"Groups" => &mut groups,
                _ => continue,
            };
            if slot.replace(str::from_utf8(value).ok()?).is_some() {
                return None;
            }
        }
        let groups = groups?.split_ascii_whitespace();
        Some(Self {
            uids: four_ids(uids?)?,
            gids: four_ids(gids?)?,
            groups: groups.map(|group| group.parse().ok()).collect::<Option<_>>()?,
            // Zombie and dead.
            exited: state?.trim_ascii_start().starts_with(['Z', 'X']),
        })
    }

    pub(super) fn effective_uid(&self) -> u32 {
        let [_real, effective, _saved, _file_system] = self.uids;
        effective
    }
}

fn four_ids(text: &str) -> Option<[u32; 4]> {
    let ids = text.split_ascii_whitespace().map(|id| id.parse().ok());
    ids.collect::<Option<Vec<_>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Name:\tUid:\\n0 0 0 0\nUmask:\t0022\nState:\tS (sleeping)\nUid:\t1\t2\t3\t4\n\
        Gid:\t5\t6\t7\t8\nFDSize:\t64\nGroups:\t27 999 \nNStgid:\t4\n";

    #[test]
    fn ids_groups_and_state_are_read() {
        let status = ProcessStatus {
            uids: [1, 2, 3, 4],
            gids: [5, 6, 7, 8],
            groups: vec![27, 999],
            exited: false,
        };
        assert_eq!(ProcessStatus::parse(TEXT.as_bytes()), Some(status.clone()));
        assert_eq!(status.effective_uid(), 2);
        let zombie = TEXT.replace("S (sleeping)", "Z (zombie)").replace("27 999 ", " ");
        let zombie = ProcessStatus::parse(zombie.as_bytes()).unwrap();
        assert_eq!(zombie, ProcessStatus { groups: Vec::new(), exited: true, ..status });
        // The name may be any bytes.
        let mut text = TEXT.as_bytes().to_vec();
        text[6..9].copy_from_slice(b"\xff\xfe\0");
        assert!(ProcessStatus::parse(&text).is_some());
    }

    #[test]
    fn a_status_that_the_kernel_would_not_write_is_refused() {
        for (from, to) in [
            ("Uid:\t1\t2\t3\t4\n", ""),
            ("Uid:\t1\t2\t3\t4\n", "Uid:\t1\t2\t3\n"),
            ("Uid:\t1\t2\t3\t4\n", "Uid:\t1\t2\t3\t4\t5\n"),
            ("Uid:\t1\t2\t3\t4\n", "Uid:\t1\t2\t3\t4294967296\n"),
            ("Uid:\t1\t2\t3\t4\n", "Uid:\t0\t0\t0\t0\nUid:\t1\t2\t3\t4\n"),
            ("Gid:\t5", "Gid:\t-5"),
            ("Groups:\t27", "Groups:\tdocker"),
            ("Groups:", "Group:"),
            ("State:", "Stat:"),
        ] {
            let text = TEXT.replace(from, to);
            assert_eq!(ProcessStatus::parse(text.as_bytes()), None, "{text}");
        }
    }
}
