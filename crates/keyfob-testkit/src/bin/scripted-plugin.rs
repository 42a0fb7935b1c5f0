//! A plugin that does what its first argument says: a [`Script`], or the absolute path of one.
#![expect(
    clippy::disallowed_methods,
    reason = "it is a process of its own, and misbehaves on purpose"
)]

use std::{
    error::Error,
    fs,
    io::{self, Read as _, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};

use keyfob_testkit::{Script, Step, Witness};
use nix::sys::signal::{self, SigSet, Signal};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut script = std::env::args().nth(1).ok_or("usage: scripted-plugin SCRIPT")?;
    if script.starts_with('/') {
        script = fs::read_to_string(script)?;
    }
    let mut read = String::new();
    Ok(follow(serde_json::from_str(&script)?, &mut read)?.unwrap_or(ExitCode::SUCCESS))
}

/// Takes the steps of a script, until one ends the process. All of stdin that was read is at hand.
fn follow(script: Script, read: &mut String) -> Result<Option<ExitCode>, Box<dyn Error>> {
    for step in script.0 {
        if let Some(code) = take(step, read)? {
            return Ok(Some(code));
        }
    }
    Ok(None)
}

/// Takes one step. Some end the process.
fn take(step: Step, read: &mut String) -> Result<Option<ExitCode>, Box<dyn Error>> {
    match step {
        Step::Answer(answer) => {
            read_stdin(read)?;
            print(&format!("{answer}\n"))?;
        }
        Step::AnswerWithToken(answer) => {
            read_stdin(read)?;
            print(&format!("{answer}\n").replace("$TOKEN", &token_in(read)?))?;
        }
        Step::Print(text) => print(&text)?,
        Step::Say(text) => io::stderr().write_all(text.as_bytes())?,
        Step::ReadStdin => drop(read_stdin(read)?),
        Step::RecordStdin(path) => fs::write(path, read_stdin(read)?)?,
        Step::Echo => print(&read_stdin(read)?)?,
        Step::SleepMs(length) => std::thread::sleep(Duration::from_millis(length)),
        Step::FloodStdout(length) => flood(io::stdout(), length)?,
        Step::FloodStderr(length) => flood(io::stderr(), length)?,
        Step::CloseStdout => rustix::stdio::dup2_stdout(fs::File::create("/dev/null")?)?,
        Step::CloseStdin => rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?,
        Step::Fork(script) => {
            Command::new(std::env::current_exe()?).arg(script.to_arg()).spawn()?;
        }
        Step::Await(path) => {
            while !path.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Step::IgnoreSigterm => SigSet::from_iter([Signal::SIGTERM]).thread_block()?,
        Step::LeaveGroup => {
            let group = nix::unistd::getpgid(Some(nix::unistd::getppid()))?;
            nix::unistd::setpgid(nix::unistd::Pid::from_raw(0), group)?;
        }
        Step::Exit(code) => return Ok(Some(ExitCode::from(u8::try_from(code)?))),
        Step::Signal(number) => signal::raise(Signal::try_from(number)?)?,
        Step::Record(path) => {
            // Renamed into place, so that whoever sees the file sees all of it.
            let draft = path.with_extension("draft");
            fs::write(&draft, serde_json::to_vec(&witness()?)?)?;
            fs::rename(draft, path)?;
        }
        Step::Count(path) => {
            fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(b".")?;
        }
        Step::TakeTurns(path, scripts) => return take_turns(path, scripts, read),
        Step::Heed(scripts) => {
            let request = read_stdin(read)?;
            return heed(&request, scripts, read);
        }
        Step::HeedVariable(name, scripts) => {
            let request = std::env::var(name).unwrap_or_default();
            return heed(&request, scripts, read);
        }
        unknown => return Err(format!("unknown step {unknown:?}").into()),
    }
    Ok(None)
}

/// Follows the script of the first text that stands in a request.
fn heed(
    request: &str,
    scripts: Vec<(String, Script)>,
    read: &mut String,
) -> Result<Option<ExitCode>, Box<dyn Error>> {
    match scripts.into_iter().find(|(text, _)| request.contains(text)) {
        Some((_, script)) => Ok(Some(follow(script, read)?.unwrap_or(ExitCode::SUCCESS))),
        None => Ok(None),
    }
}

fn take_turns(
    path: PathBuf,
    mut scripts: Vec<Script>,
    read: &mut String,
) -> Result<Option<ExitCode>, Box<dyn Error>> {
    let runs = fs::read_to_string(&path).unwrap_or_default().lines().count();
    let request = read_stdin(read)?;
    fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(request.as_bytes())?;
    let turn = runs.checked_rem(scripts.len()).ok_or("there are no turns to take")?;
    follow(scripts.swap_remove(turn), read)
}

/// What was not read before.
fn read_stdin(read: &mut String) -> io::Result<String> {
    let mut request = String::new();
    io::stdin().read_to_string(&mut request)?;
    read.push_str(&request);
    Ok(request)
}

/// The token of a request, as it stands between quotes.
fn token_in(request: &str) -> Result<String, Box<dyn Error>> {
    let request: serde_json::Value = serde_json::from_str(request)?;
    let token = request.get("serviceAccountToken").and_then(serde_json::Value::as_str);
    let quoted = serde_json::json!(token.unwrap_or_default()).to_string();
    Ok(quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned())
}

fn print(text: &str) -> io::Result<()> {
    io::stdout().write_all(text.as_bytes())?;
    io::stdout().flush()
}

fn flood(mut to: impl io::Write, mut length: usize) -> io::Result<()> {
    let chunk = [b'x'; 4096];
    while length > 0 {
        let part = chunk.get(..length).unwrap_or(&chunk);
        to.write_all(part)?;
        length -= part.len();
    }
    to.flush()
}

fn witness() -> io::Result<Witness> {
    let shown = |text: &std::ffi::OsStr| String::from_utf8_lossy(text.as_bytes()).into_owned();
    let listing = fs::read_dir("/proc/self/fd")?;
    // The listing itself holds one descriptor, which is gone by the time it can be looked at.
    let numbers = listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let open = |number: &i32| fs::exists(format!("/proc/self/fd/{number}")).unwrap_or(false);
    let environ = fs::read("/proc/self/environ")?;
    Ok(Witness {
        pid: nix::unistd::getpid().as_raw(),
        group: nix::unistd::getpgrp().as_raw(),
        args: std::env::args_os().map(|arg| shown(&arg)).collect(),
        env: environ
            .split(|byte| *byte == 0)
            .filter(|entry| !entry.is_empty())
            .map(|entry| String::from_utf8_lossy(entry).into_owned())
            .collect(),
        blocked: blocked_signals()?,
        descriptors: numbers.collect::<Vec<_>>().into_iter().filter(open).collect(),
    })
}

fn blocked_signals() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap_or_default();
    u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)
}
