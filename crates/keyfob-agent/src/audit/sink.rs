//! Where events are written.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::{fs::OpenOptionsExt as _, net::UnixDatagram},
    path::{Path, PathBuf},
};

use keyfob_agent_config::AuditConfig;

/// Where systemd's journal takes entries.
const JOURNAL: &str = "/run/systemd/journal/socket";

#[derive(Debug)]
pub(super) enum Sink {
    Stdout,
    Journal(Journal),
    File(RotatedFile),
}

impl Sink {
    pub(super) fn open(config: &AuditConfig) -> io::Result<Option<Self>> {
        Ok(match config {
            AuditConfig::None => None,
            AuditConfig::Stdout => Some(Self::Stdout),
            AuditConfig::Journald => Some(Self::Journal(Journal::open(Path::new(JOURNAL))?)),
            AuditConfig::File { path, max_bytes, keep } => {
                Some(Self::File(RotatedFile::open(path, *max_bytes, *keep)?))
            }
        })
    }

    pub(super) fn write(&mut self, event: &str) -> io::Result<()> {
        match self {
            Self::Stdout => keyfob_exec::write_stdout(format!("{event}\n").as_bytes()),
            Self::Journal(journal) => journal.write(event),
            Self::File(file) => file.write(event),
        }
    }
}

/// The journal. It is found by its path for each event, because a restart of `systemd-journald.socket` makes a new socket there.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// Fails if no journal is there now.
    fn open(path: &Path) -> io::Result<Self> {
        UnixDatagram::unbound()?.connect(path)?;
        Ok(Self { socket: UnixDatagram::unbound()?, path: path.to_owned() })
    }

    fn write(&self, event: &str) -> io::Result<()> {
        // JSON has no line breaks, so the simple form of an entry does.
        let entry = format!("MESSAGE={event}\nPRIORITY=6\nSYSLOG_IDENTIFIER=keyfob-audit\n");
        self.socket.send_to(entry.as_bytes(), &self.path).map(drop)
    }
}

/// A file that is renamed when it is full: `audit.log` becomes `audit.log.1`, that becomes `audit.log.2`, and so on.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    max_bytes: u64,
    keep: u32,
    /// Nothing after a failure; the next event opens it again.
    file: Option<File>,
    size: u64,
    /// Whether the last line may be there only in part.
    torn: bool,
}

impl RotatedFile {
    fn open(path: &Path, max_bytes: u64, keep: u32) -> io::Result<Self> {
        let mut file =
            Self { path: path.into(), max_bytes, keep, file: None, size: 0, torn: false };
        file.reopen()?;
        Ok(file)
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(crate::warm::NO_FOLLOW)
            .open(&self.path)?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    fn write(&mut self, event: &str) -> io::Result<()> {
        let line = if self.torn { format!("\n{event}\n") } else { format!("{event}\n") };
        if self.file.is_none() {
            self.reopen()?;
        }
        if self.size > 0 && self.size + line.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        if let Err(error) = file.write_all(line.as_bytes()) {
            (self.file, self.torn) = (None, true);
            return Err(error);
        }
        self.torn = false;
        self.size += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        if self.keep == 0 {
            fs::remove_file(&self.path)?;
        }
        for number in (0..self.keep).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.reopen()
    }

    fn numbered(&self, number: u32) -> PathBuf {
        if number == 0 {
            return self.path.clone();
        }
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{number}"));
        path.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_gets_an_entry_for_each_event_also_after_it_was_restarted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut journal = UnixDatagram::bind(&path).unwrap();
        let mut sink = Sink::Journal(Journal::open(&path).unwrap());
        for event in [r#"{"image":"a"}"#, r#"{"image":"b"}"#] {
            sink.write(event).unwrap();
            let mut entry = [0; 1024];
            let length = journal.recv(&mut entry).unwrap();
            let expected = format!("MESSAGE={event}\nPRIORITY=6\nSYSLOG_IDENTIFIER=keyfob-audit\n");
            assert_eq!(String::from_utf8_lossy(&entry[..length]), expected);

            drop(journal);
            assert!(sink.write("{}").is_err(), "a journal that is gone is no success");
            fs::remove_file(&path).unwrap();
            journal = UnixDatagram::bind(&path).unwrap();
        }
    }

    #[test]
    fn a_journal_that_is_not_there_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Journal::open(&folder.path().join("socket")).is_err());
    }
}
