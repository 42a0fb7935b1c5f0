//! Where Keyfob's records are others on purpose.

use std::path::Path;

use keyfob_api::ImageRef;
use serde_json::{Map, Value, json};

use super::{File, Question, Step, Wanted};

/// The row that explains why two answers differ, if every step that differs has one.
pub(super) fn row(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
    let (our_steps, their_steps) = (ours["steps"].as_array()?, upstream["steps"].as_array()?);
    let mut first = None;
    for (at, (one, other)) in our_steps.iter().zip(their_steps).enumerate() {
        if one == other {
            continue;
        }
        let (row, follows) = Pair { question, at, ours: one, upstream: other }.explained()?;
        first = first.or(Some(row));
        if follows == Follows::Anything {
            break;
        }
    }
    // Metrics follow from the steps; but they also tell an error from a pull that is needed anyway.
    first.or_else(|| Pair { question, at: our_steps.len(), ours, upstream }.row_of_files())
}

/// What a difference does to the steps behind it.
#[derive(PartialEq)]
enum Follows {
    /// They begin with the same files.
    Nothing,
    /// The files are others by now.
    Anything,
}

/// What came of one step on both sides.
struct Pair<'a> {
    question: &'a Question,
    at: usize,
    ours: &'a Value,
    upstream: &'a Value,
}

impl Pair<'_> {
    fn explained(&self) -> Option<(&'static str, Follows)> {
        if self.ours_changes_less(is_unfinished) {
            return Some(("records-unfinished-files", Follows::Nothing));
        }
        if let Some(row) = self.row_of_files() {
            return Some((row, Follows::Anything));
        }
        match self.question.steps.get(self.at)? {
            // Such an intent is looked into again and again, in vain.
            Step::Intent(image)
                if ImageRef::parse(image).is_err() && self.ours["failed"] == true =>
            {
                Some(("records-names-of-no-image", Follows::Anything))
            }
            Step::Must(wanted) if self.is_refused_for_another_name(wanted) => {
                Some(("records-names-of-an-intent", Follows::Nothing))
            }
            Step::Start { images, .. } => {
                let mut names =
                    images.iter().flat_map(|image| image.tags.iter().chain(&image.digests));
                let known = names.any(|name| self.has_intent_of_another_name(name));
                let mut others = changed(self.upstream);
                others.retain(|file, _| !is_unfinished(file));
                let ours = changed(self.ours);
                let more = others.keys().all(|file| ours.contains_key(file));
                (known && more).then_some(("records-names-of-an-intent", Follows::Anything))
            }
            Step::Prune { until, .. } => {
                // What is recovered at a start was pulled, too.
                let pulled = self.steps().any(|step| match step {
                    Step::Start { images, .. } => !images.is_empty(),
                    step => matches!(step, Step::Pulled { .. }),
                });
                let may_keep = pulled || until.contains('.');
                (may_keep && self.ours_changes_less(|_| true))
                    .then_some(("records-pulled-while-listed", Follows::Anything))
            }
            _ => None,
        }
    }

    /// Whether the only difference is that some of the files that upstream deletes are left alone.
    fn ours_changes_less(&self, may_be_left: impl Fn(&str) -> bool) -> bool {
        let (ours, mut upstream) = (changed(self.ours), changed(self.upstream));
        upstream
            .retain(|file, text| ours.contains_key(file) || !text.is_null() || !may_be_left(file));
        let without = |result: &Value| {
            let mut result = result.clone();
            result.as_object_mut().and_then(|fields| fields.remove("changed"));
            result
        };
        ours == upstream && without(self.ours) == without(self.upstream)
    }

    /// The row of a file that should not be there.
    fn row_of_files(&self) -> Option<&'static str> {
        if self.files().any(File::is_misnamed) {
            return Some("records-misnamed");
        }
        self.files().any(File::is_folder_for_a_file).then_some("records-folder-for-a-file")
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.question.steps.iter().take(self.at + 1)
    }

    fn files(&self) -> impl Iterator<Item = &File> {
        self.steps().flat_map(|step| match step {
            Step::Start { files, .. } => files.as_slice(),
            _ => &[],
        })
    }

    fn is_refused_for_another_name(&self, wanted: &Wanted) -> bool {
        self.question.policy == "NeverVerifyPreloadedImages"
            && *self.upstream == json!({ "must": false })
            && *self.ours == json!({ "must": true })
            && self.has_intent_of_another_name(&wanted.image)
    }

    /// Whether there was an intent for an image of the same repository.
    fn has_intent_of_another_name(&self, name: &str) -> bool {
        let is_other = |intent: &str| {
            let [intent_of, name_of] = [intent, name].map(|text| ImageRef::parse(text).ok());
            let pair = intent_of.zip(name_of);
            intent != name
                && pair.is_some_and(|(one, other)| one.repository() == other.repository())
        };
        let mut written = self.steps().filter_map(|step| match step {
            Step::Intent(image) => Some(image.as_str()),
            _ => None,
        });
        let mut found = self
            .files()
            .filter(|file| file.folder == "pulling")
            .filter_map(|file| file.key.as_deref());
        written.any(is_other) || found.any(is_other)
    }
}

fn is_unfinished(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension == "tmp")
}

fn changed(result: &Value) -> Map<String, Value> {
    result["changed"].as_object().cloned().unwrap_or_default()
}
