//! Questions with their answers, as files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{AnyTopic, Judge as _, Oracle, TOPICS};

/// A question with its answer. Both sides give it, or `differs` says why Keyfob gives another.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Case {
    /// Where it was read from.
    #[serde(skip)]
    pub file: PathBuf,
    /// What it shows.
    pub about: String,
    /// An object with one field: the topic, and what is asked.
    question: Map<String, Value>,
    /// Upstream's answer.
    pub answer: Value,
    /// What else upstream may answer, if it draws lots.
    #[serde(default)]
    pub or: Vec<Value>,
    /// Keyfob's answer, where it is another.
    pub ours: Option<Value>,
    /// The row of `DIFFERENCES.md` that says why it is another.
    pub differs: Option<String>,
}

impl Case {
    /// Every case of the project, in the order of their files' names.
    pub fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        let entries = |folder: &Path| {
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
        };
        let mut files: Vec<PathBuf> =
            entries(&root).iter().flat_map(|folder| entries(folder)).collect();
        files.sort();
        files.into_iter().map(Self::read).collect()
    }

    fn read(file: PathBuf) -> Self {
        let text = fs::read(&file).unwrap();
        let case: Self = serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self { file, ..case }
    }

    /// The topic, and what is asked of it.
    pub fn question(&self) -> (&'static AnyTopic, &Value) {
        let file = self.file.display();
        let mut fields = self.question.iter();
        let (Some((name, question)), None) = (fields.next(), fields.next()) else {
            panic!("{file}: a question has one field");
        };
        let topic = TOPICS.iter().find(|topic| topic.name == name);
        let folder = self.file.parent().and_then(Path::file_name);
        assert_eq!(folder, Some(name.as_ref()), "{file}: a case is in the folder of its topic");
        (topic.unwrap_or_else(|| panic!("{file}: there is no topic {name}")), question)
    }

    /// Whether Keyfob gives the answer that it should.
    pub fn check_ours(&self) -> Result<(), String> {
        let (topic, question) = self.question();
        let ours = (topic.ours)(question);
        self.same("Keyfob", &ours, self.ours.as_ref().unwrap_or(&self.answer))
    }

    /// Whether upstream's code gives the answer that the file says, or one of them.
    pub fn check_upstream(&self, oracle: &mut Oracle) -> io::Result<Result<(), String>> {
        let (topic, question) = self.question();
        let upstream = oracle.ask_about(topic.name, question)?;
        let drew_another = self.or.contains(&upstream);
        let expected = if drew_another { &upstream } else { &self.answer };
        Ok(self.same("upstream", &upstream, expected))
    }

    fn same(&self, who: &str, answer: &Value, expected: &Value) -> Result<(), String> {
        if answer == expected {
            return Ok(());
        }
        let name = self.file.display();
        Err(format!("{name}: {}\n  expected {expected}\n  {who} {answer}", self.about))
    }
}
