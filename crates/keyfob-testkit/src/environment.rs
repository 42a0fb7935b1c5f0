use std::ffi::OsString;

use keyfob_exec::Environment;

/// An environment written down in a test.
#[derive(Debug, Clone, Default)]
pub struct MapEnvironment(Vec<(OsString, OsString)>);

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for MapEnvironment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(vars: I) -> Self {
        Self(vars.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Environment for MapEnvironment {
    fn var(&self, name: &str) -> Option<OsString> {
        self.0.iter().rev().find(|(each, _)| each == name).map(|(_, value)| value.clone())
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        self.0.clone()
    }
}
