//! A command whose output is read while it runs.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// It is killed when the value is dropped.
pub(super) struct Following {
    child: Child,
    lines: Receiver<String>,
    input: Option<ChildStdin>,
}

impl Following {
    pub(super) fn start(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::null()))
    }

    /// The command reads what [`Self::write_line`] writes.
    pub(super) fn start_with_input(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::piped()))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, input }
    }

    pub(super) fn write_line(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits for a line that contains this, and returns it.
    pub(super) fn wait_for_line(&self, text: &str) -> String {
        let (start, patience) = (Instant::now(), Duration::from_secs(20));
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(patience.saturating_sub(start.elapsed())) {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("no line with {text:?}, but {seen:#?}")
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}
