//! In a process of its own, because it changes the process.

use keyfob_exec::forbid_core_dumps;
use rustix::process::{DumpableBehavior, Resource, Rlimit, dumpable_behavior, getrlimit};

#[test]
fn a_process_that_holds_secrets_is_not_dumpable() {
    forbid_core_dumps();

    assert_eq!(getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: Some(0) });
    assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
}
