//! Which signals a program that a test starts heeds.

use nix::sys::signal::Signal;

/// Whether we, and so whatever we start, were not started to ignore it: `nohup` does that, and a shell's `&`.
pub(crate) fn heeded(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    mask & (1 << (signal as i32 - 1)) == 0
}
