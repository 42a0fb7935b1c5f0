//! What a plugin needs of the machine it runs on.

use std::{ffi::OsString, sync::Arc};

use keyfob_exec::{Environment, ProcessRunner, Runner, SystemEnvironment};

/// The environment, and the way to start a process.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct World {
    /// The environment of the plugin.
    pub environment: Arc<dyn Environment>,
    /// Starts what the plugin itself needs to run.
    pub runner: Arc<dyn Runner>,
}

impl World {
    /// This machine.
    pub fn system() -> Self {
        Self::new(SystemEnvironment, ProcessRunner::new(SystemEnvironment))
    }

    /// One without any variables.
    pub(crate) fn bare() -> Self {
        Self::new(NoVariables, ProcessRunner::new(NoVariables))
    }

    /// Another one.
    pub fn new(environment: impl Environment + 'static, runner: impl Runner + 'static) -> Self {
        Self { environment: Arc::new(environment), runner: Arc::new(runner) }
    }
}

/// The value of a variable, if it is text and not empty.
#[cfg(any(feature = "acr", feature = "ecr", feature = "gcp"))]
pub(crate) fn variable(environment: &dyn Environment, name: &str) -> Option<String> {
    let value = environment.var(name).and_then(|value| value.into_string().ok());
    value.filter(|value| !value.is_empty())
}

#[derive(Debug)]
struct NoVariables;

impl Environment for NoVariables {
    fn var(&self, _: &str) -> Option<OsString> {
        None
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }
}
