use std::fmt::{Debug, Display};

use crate::echoes::traces;

/// Fails a test in which a secret got out, in whatever encoding. Its messages say where, never what.
#[derive(Clone)]
pub struct LeakCheck {
    /// The traces of each secret.
    secrets: Vec<Vec<String>>,
}

impl LeakCheck {
    /// Watches for these.
    pub fn new<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        Self { secrets: secrets.into_iter().map(|secret| traces(&secret.into())).collect() }
    }

    /// Fails if the text holds a secret.
    ///
    /// # Panics
    ///
    /// If it does.
    #[track_caller]
    pub fn text(&self, place: &str, text: &str) -> &Self {
        for (number, traces) in self.secrets.iter().enumerate() {
            let shown = traces.iter().any(|trace| text.contains(trace.as_str()));
            assert!(!shown, "secret number {number} stands in {place}");
        }
        self
    }

    /// Fails if a value shows a secret when it is printed for a developer.
    #[track_caller]
    pub fn debug(&self, place: &str, value: &impl Debug) -> &Self {
        self.text(place, &format!("{value:?} {value:#?}"))
    }

    /// Fails if an error, or anything in its chain of sources, shows a secret.
    #[track_caller]
    pub fn error<E: std::error::Error + Display>(&self, error: &E) -> &Self {
        let mut cause: Option<&dyn std::error::Error> = Some(error);
        while let Some(each) = cause {
            self.text("an error", &each.to_string());
            cause = each.source();
        }
        self.debug("an error's Debug", error)
    }
}

impl Debug for LeakCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LeakCheck({} secrets)", self.secrets.len())
    }
}
