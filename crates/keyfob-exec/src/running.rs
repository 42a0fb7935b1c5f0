//! The programs that run now, for a process that must end before their runs are dropped.
//!
//! Usually a run that is dropped kills its program. When a signal must end the process while its thread is blocked, nothing is
//! dropped any more. The list is the process's own, as its children are, whichever host started them.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
};

use rustix::process::Pid;

use crate::process::{Group, kill};

static RUNNING: Mutex<Vec<(Pid, Group)>> = Mutex::new(Vec::new());

/// Held for reading while a program is started, until it is in the list.
static STARTING: RwLock<()> = RwLock::new(());

/// Kills every program that was started here and has not ended, each with its process group.
///
/// For the moment before [`std::process::exit`], which leaves programs running: from now on no program can be started, and
/// whoever tries waits for the end of the process.
pub fn kill_running_programs() {
    mem::forget(STARTING.write().unwrap_or_else(PoisonError::into_inner));
    // While the lock is held nobody reaps them, so their numbers are theirs.
    for (pid, group) in running().iter() {
        // One that is gone already needs no killing.
        kill(*pid, *group).unwrap_or_default();
    }
}

/// Keep it until a program that is started is in the list.
pub(crate) fn starting() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Call right after it was started.
pub(crate) fn add(pid: Pid, group: Group) {
    running().push((pid, group));
}

/// Call before it is reaped: afterwards its number may be another program's.
pub(crate) fn remove(pid: Pid) {
    running().retain(|(running, _)| *running != pid);
}

fn running() -> MutexGuard<'static, Vec<(Pid, Group)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
