//! The pipes to and from a process: bounded, and wiped behind us.

use std::{
    fs::File, io, io::Write as _, net::Shutdown, os::fd::OwnedFd, os::unix::net::UnixStream,
    sync::Arc,
};

use keyfob_api::{Redactor, Secret};
use rustix::{
    io::fcntl_dupfd_cloexec,
    pipe::{PipeFlags, pipe_with},
};
use tokio::net::unix::pipe;
use zeroize::{Zeroize as _, Zeroizing};

use crate::{Watch, printable};

/// A pipe that no child inherits by accident. Both ends lie above the standard descriptors, which the spawn overwrites.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((above_standard(reader)?, above_standard(writer)?))
}

/// A way out that leads nowhere. It is a socket: a child that another thread is just starting may hold a copy of a pipe's
/// other end for a moment, and then somebody would listen.
pub(crate) fn broken() -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.shutdown(Shutdown::Both)?;
    above_standard(theirs.into())
}

fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    let low = std::os::fd::AsRawFd::as_raw_fd(&fd) < 3;
    Ok(if low { fcntl_dupfd_cloexec(&fd, 3)? } else { fd })
}

/// Bytes on their way to a process.
///
/// Most requests fit into the pipe's own buffer: they are written, and the pipe closed, before the process exists.
#[derive(Debug)]
pub(crate) struct Feed {
    pipe: OwnedFd,
    rest: Zeroizing<Vec<u8>>,
}

impl Feed {
    /// Writes what the pipe holds; the rest, if any, is to be [`Feed::run`].
    pub(crate) fn start(pipe: OwnedFd, bytes: &[u8]) -> io::Result<Option<Self>> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let mut pipe = File::from(pipe);
        let written = match pipe.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            written => written?,
        };
        let rest = Zeroizing::new(bytes.get(written..).unwrap_or_default().to_vec());
        Ok((!rest.is_empty()).then(|| Self { pipe: pipe.into(), rest }))
    }

    /// Writes the rest. A process that closes its stdin, or exits without reading it, ends this well.
    pub(crate) async fn run(self) -> io::Result<()> {
        let pipe = pipe::Sender::from_owned_fd(self.pipe)?;
        let mut rest = self.rest.as_slice();
        while !rest.is_empty() {
            pipe.writable().await?;
            match pipe.try_write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads a pipe to its end into a sink, or until the sink has enough.
pub(crate) async fn read(pipe: OwnedFd, sink: &mut impl Sink) -> Result<(), ReadError> {
    let pipe = pipe::Receiver::from_owned_fd(pipe)?;
    let mut chunk = Zeroizing::new(vec![0; 8 << 10]);
    loop {
        pipe.readable().await?;
        match pipe.try_read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(length) => sink.accept(chunk.get(..length).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Why reading stopped before the end.
#[derive(Debug)]
pub(crate) enum ReadError {
    TooLarge,
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Takes what was read.
pub(crate) trait Sink {
    fn accept(&mut self, bytes: &[u8]) -> Result<(), ReadError>;
}

/// All of stdout, up to a limit.
#[derive(Debug)]
pub(crate) struct Answer {
    bytes: Zeroizing<Vec<u8>>,
    limit: usize,
}

impl Answer {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Zeroizing::default(), limit }
    }

    pub(crate) fn into_secret(mut self) -> Secret<Vec<u8>> {
        Secret::new(std::mem::take(&mut self.bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Sink for Answer {
    fn accept(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        let length = self.bytes.len() + bytes.len();
        if length > self.limit {
            return Err(ReadError::TooLarge);
        }
        if length > self.bytes.capacity() {
            // Growing by hand: a `Vec` would free the old place without wiping it.
            let mut larger = Vec::with_capacity(length.next_power_of_two());
            larger.extend_from_slice(&self.bytes);
            self.bytes = Zeroizing::new(larger);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// The end of stderr; optionally each line as it comes.
pub(crate) struct Messages<'a> {
    tail: Vec<u8>,
    keep: usize,
    beheaded: bool,
    forward: Option<Forward<'a>>,
    watch: Option<Arc<dyn Watch>>,
}

impl<'a> Messages<'a> {
    pub(crate) fn new(keep: usize, forward: Option<Forward<'a>>) -> Self {
        Self { tail: Vec::new(), keep, beheaded: false, forward, watch: None }
    }

    pub(crate) fn watched_by(mut self, watch: Option<Arc<dyn Watch>>) -> Self {
        self.watch = watch;
        self
    }

    /// The end, and whether more stood before it.
    pub(crate) fn tail(&self) -> (&[u8], bool) {
        let cut = self.tail.len().saturating_sub(self.keep);
        (self.tail.get(cut..).unwrap_or_default(), self.beheaded || cut > 0)
    }
}

impl Sink for Messages<'_> {
    fn accept(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        if let Some(forward) = &mut self.forward {
            forward.accept(bytes);
        }
        if let Some(watch) = &self.watch {
            watch.stderr(bytes);
        }
        self.tail.extend_from_slice(bytes);
        // Cutting only when twice the length has gathered moves each byte once, not once a chunk.
        if self.tail.len() / 2 > self.keep {
            let cut = self.tail.len() - self.keep;
            self.tail.drain(..cut);
            self.beheaded = true;
        }
        Ok(())
    }
}

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        if let Some(forward) = &mut self.forward {
            forward.end_line();
        }
        self.tail.zeroize();
    }
}

/// Hands stderr on line by line, redacted.
pub(crate) struct Forward<'a> {
    to: Arc<dyn Fn(&str) + Send + Sync>,
    redactor: &'a Redactor,
    /// How much of a line is kept: enough to recognise a secret at the end of what is shown.
    room: usize,
    line: Vec<u8>,
    is_cut: bool,
    /// Whether the lines are those of a private key, of which each looks like anything.
    in_key: bool,
}

impl<'a> Forward<'a> {
    /// The longest line that is handed on whole; the rest of it is dropped.
    const LINE: usize = 8 << 10;

    pub(crate) fn new(to: Arc<dyn Fn(&str) + Send + Sync>, redactor: &'a Redactor) -> Self {
        let room = Self::LINE + redactor.longest();
        Self { to, redactor, room, line: Vec::new(), is_cut: false, in_key: false }
    }

    fn accept(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line();
            } else if self.line.len() < self.room {
                self.line.push(byte);
            } else {
                self.is_cut = true;
            }
        }
    }

    fn end_line(&mut self) {
        // Taken first: if the callback panics, the line must not be handed to it again.
        let line = Zeroizing::new(std::mem::take(&mut self.line));
        let is_cut = std::mem::take(&mut self.is_cut);
        if line.is_empty() {
            return;
        }
        let text = Zeroizing::new(String::from_utf8_lossy(&line).into_owned());
        let was_in_key = self.in_key;
        self.in_key = is_in_key(&text, was_in_key);
        if was_in_key {
            return;
        }
        let mut shown = self.redactor.redact(&text);
        if is_cut {
            // The end may be the beginning of a secret.
            let longest = self.room - Self::LINE;
            let kept = Self::LINE.min(shown.len().saturating_sub(longest));
            shown.truncate(shown.floor_char_boundary(kept));
            shown.push('…');
        }
        (self.to)(&printable(shown.trim_end()));
    }
}

/// Whether the line behind this one is part of a private key.
fn is_in_key(line: &str, was_in_key: bool) -> bool {
    let begins = line
        .rfind("-----BEGIN ")
        .filter(|at| line.get(*at..).is_some_and(|label| label.contains("PRIVATE KEY")));
    let ends = line.rfind("-----END ");
    match (begins, ends) {
        (Some(begins), Some(ends)) => begins > ends,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => was_in_key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_private_key_are_not_handed_on() {
        let heard: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let to = Arc::clone(&heard);
        let redactor = Redactor::default();
        let hear = Arc::new(move |line: &str| to.lock().unwrap().push(line.to_owned()));
        let mut forward = Forward::new(hear, &redactor);
        forward.accept(b"one\n-----BEGIN RSA PRIVATE KEY-----\nMIIBOzCB46AD\n-----END RSA PRIVATE KEY-----\ntwo\n");

        assert_eq!(*heard.lock().unwrap(), ["one", "[redacted]", "two"]);
    }

    #[test]
    fn an_answer_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
        let mut answer = Answer::new(4);

        assert!(answer.accept(b"1234").is_ok());
        assert!(matches!(answer.accept(b"5"), Err(ReadError::TooLarge)));
        assert_eq!(answer.bytes(), b"1234");
    }

    #[test]
    fn only_the_end_of_the_messages_is_kept() {
        let mut messages = Messages::new(4, None);
        for _ in 0..100 {
            messages.accept(b"abc").unwrap();
        }

        assert_eq!(messages.tail(), (b"cabc".as_slice(), true));
        assert!(messages.tail.capacity() < 64);
    }

    #[test]
    fn a_request_that_fits_the_pipe_needs_nobody_to_wait() {
        let (_reader, writer) = pipe().unwrap();

        assert!(Feed::start(writer, b"a request").unwrap().is_none());
    }
}
