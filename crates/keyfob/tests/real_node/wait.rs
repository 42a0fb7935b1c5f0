//! Waiting for something that can be observed.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Checks until the answer is `Ok`, and returns that. Panics when the time is over, with the last `Err`: what was there instead.
pub(crate) fn wait_for<T>(
    what: &str,
    time: Duration,
    mut check: impl FnMut() -> Result<T, String>,
) -> T {
    let start = Instant::now();
    loop {
        match check() {
            Ok(value) => return value,
            Err(state) if start.elapsed() > time => {
                panic!("waited {time:?} in vain for {what}; instead: {state}")
            }
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}
