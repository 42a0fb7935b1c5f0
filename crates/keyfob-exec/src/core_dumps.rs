//! No copy of this process's memory on disk.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Keeps the kernel from writing this process's memory into a file if it crashes, and other processes of its user from
/// reading it: it may hold passwords.
///
/// Processes that it starts inherit the limit, so a plugin that crashes writes no core file either. A kernel that hands core
/// dumps to a program (`|` in `core_pattern`) ignores the limit; that this process is not dumpable, it does not ignore.
pub fn forbid_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Everybody may lower a limit.
    setrlimit(Resource::Core, none).unwrap_or_default();
    set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap_or_default();
}
