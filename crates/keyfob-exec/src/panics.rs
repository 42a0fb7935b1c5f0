//! What is said when something panics.

use std::{
    any::Any,
    io::{self, Write as _},
    panic::{self, AssertUnwindSafe, PanicHookInfo},
};

/// What is wrong, and what to do, if the system starts no thread.
pub const NO_THREAD: &str = "the system refused to start another thread: raise the limit on processes (ulimit -u, or pids.max \
                             of the control group) or on memory";

/// Runs the whole of a program. `None` if it panicked: one line on stderr said so, and nothing of what the panic says, which
/// may be a secret.
///
/// Tokio and the standard library panic if the system refuses them a thread. That is no fault of the program, so its line
/// tells what to do.
pub fn without_panics<T>(name: &str, program: impl FnOnce() -> T) -> Option<T> {
    let name = name.to_owned();
    panic::set_hook(Box::new(move |panicked| {
        let line = format!("{name}: {}\n", described(panicked));
        io::stderr().write_all(line.as_bytes()).unwrap_or_default();
    }));
    panic::catch_unwind(AssertUnwindSafe(program)).ok()
}

fn described(panicked: &PanicHookInfo<'_>) -> String {
    if is_about_threads(panicked.payload()) {
        return NO_THREAD.to_owned();
    }
    let place = panicked.location().map(ToString::to_string).unwrap_or_default();
    format!("a fault in this program, at {place}: please report it")
}

fn is_about_threads(payload: &dyn Any) -> bool {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
    ["OS can't spawn worker thread", "failed to spawn thread"]
        .iter()
        .any(|known| text.starts_with(known))
}
