//! Where the scanner may have passed the start of a key without knowing it.

use super::Scanner;
use crate::yaml::{Mark, YamlError, YamlProblem};

/// A place where a key may have started.
#[derive(Clone, Copy, Default)]
pub(super) struct PossibleKey {
    possible: bool,
    required: bool,
    pub(super) token: usize,
    pub(super) mark: Mark,
}

impl PossibleKey {
    /// For a flow level where nothing has been read yet.
    pub(super) fn none(token: usize) -> Self {
        Self { token, ..Self::default() }
    }
}

impl Scanner {
    pub(super) fn next_may_be_key(&mut self) -> Result<bool, YamlError> {
        match self.key_of_token.get(&self.taken) {
            Some(key) => self.key_is_valid(*key),
            None => Ok(false),
        }
    }

    pub(super) fn save_key(&mut self) -> Result<(), YamlError> {
        if !self.key_allowed {
            return Ok(());
        }
        self.remove_key()?;
        let key = PossibleKey {
            possible: true,
            required: self.flow_level == 0 && self.indent == self.mark.column + 1,
            token: self.taken + self.tokens.len(),
            mark: self.mark,
        };
        self.key_of_token.insert(key.token, self.keys.len() - 1);
        if let Some(last) = self.keys.last_mut() {
            *last = key;
        }
        Ok(())
    }

    pub(super) fn remove_key(&mut self) -> Result<(), YamlError> {
        let level = self.keys.len() - 1;
        match self.keys.get(level) {
            Some(key) if key.possible && key.required => Err(missing_colon(key)),
            Some(key) if key.possible => {
                self.forget_key(level);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn forget_key(&mut self, level: usize) {
        if let Some(key) = self.keys.get_mut(level) {
            key.possible = false;
            self.key_of_token.remove(&key.token);
        }
    }

    pub(super) fn key_is_valid(&mut self, level: usize) -> Result<bool, YamlError> {
        const LONGEST: usize = 1_024;
        let now = self.mark;
        let Some(key) = self.keys.get_mut(level).filter(|key| key.possible) else {
            return Ok(false);
        };
        if key.mark.line == now.line && key.mark.index + LONGEST >= now.index {
            return Ok(true);
        }
        if key.required {
            return Err(missing_colon(key));
        }
        key.possible = false;
        Ok(false)
    }
}

fn missing_colon(key: &PossibleKey) -> YamlError {
    key.mark.error(YamlProblem::MissingColon)
}
