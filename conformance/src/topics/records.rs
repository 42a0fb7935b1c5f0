//! Which images must a pod pull again, and what is written down about that?
//!
//! Upstream goes by the system's clock. So every time that a step wrote down is shown as the number of the step, and those
//! that files begin with, or records are pruned by, are long past or far ahead.

mod differ;
mod folder;
mod life;
mod made_up;

use keyfob_images::{Allowlist, MemorySizes, RecordsOptions, VerificationPolicy};
use proptest::strategy::BoxedStrategy;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Topic;
use folder::{File, Folder};

pub(crate) struct Records;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    policy: String,
    allowlist: Vec<String>,
    /// How many intents are kept in memory.
    intents: usize,
    /// And how many records.
    records: usize,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// The first step. Another one is a new start after a kill.
    Start {
        files: Vec<File>,
        images: Vec<Image>,
    },
    Intent(String),
    Pulled {
        image: String,
        id: String,
        access: Option<Access>,
    },
    Failed(String),
    Must(Wanted),
    Prune {
        images: Vec<String>,
        until: String,
    },
}

/// An image that is here.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Image {
    id: String,
    tags: Vec<String>,
    digests: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Access {
    secrets: Vec<Secret>,
    accounts: Vec<Coordinates>,
    node: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Secret {
    #[serde(flatten)]
    secret: Coordinates,
    hash: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Coordinates {
    namespace: String,
    name: String,
    uid: String,
}

/// What a pod wants, and has for it.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Wanted {
    image: String,
    id: String,
    secrets: Vec<Secret>,
    account: Option<Coordinates>,
    /// Nobody can say what the pod has.
    unknown: bool,
}

impl Question {
    fn options(&self) -> Result<RecordsOptions, String> {
        let policy = match self.policy.as_str() {
            "NeverVerify" => VerificationPolicy::NeverVerify,
            "NeverVerifyPreloadedImages" => VerificationPolicy::NeverVerifyPreloadedImages,
            "NeverVerifyAllowlistedImages" => {
                let list = Allowlist::parse(&self.allowlist).map_err(|error| error.to_string())?;
                VerificationPolicy::NeverVerifyAllowlistedImages(list)
            }
            "AlwaysVerify" => VerificationPolicy::AlwaysVerify,
            other => panic!("no policy is called {other}"),
        };
        let mut sizes = MemorySizes::default();
        (sizes.intents, sizes.records) = (self.intents, self.records);
        let mut options = RecordsOptions::default();
        (options.policy, options.memory) = (policy, Some(sizes));
        Ok(options)
    }
}

impl Topic for Records {
    const NAME: &'static str = "records";
    const QUESTIONS: u32 = 3_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        made_up::questions()
    }

    fn ours(question: &Question) -> Value {
        match question.options() {
            Ok(options) => life::lived(&question.steps, &options),
            Err(error) => json!({ "error": error }),
        }
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        differ::row(question, ours, upstream)
    }

    /// By the hardest decision in it.
    fn sort(upstream: &Value) -> &'static str {
        let Some(steps) = upstream["steps"].as_array() else { return "refused" };
        let must = |must, asked: bool| {
            steps.iter().any(|step| {
                step["must"] == must && step["asked"].as_bool().unwrap_or_default() == asked
            })
        };
        let proved = must(false, true);
        if proved && steps.iter().any(|step| step["must"] == false && !step["changed"].is_null()) {
            "proved, and written down"
        } else if proved {
            "proved"
        } else if must(true, true) {
            "not proved"
        } else if must(false, false) {
            "free for all"
        } else if must(true, false) {
            "to be pulled"
        } else {
            "nothing decided"
        }
    }
}
