//! Upstream as the judge: the same questions are put to Keyfob and to Kubernetes' own code, and the answers compared.
//!
//! - A [`Topic`] is one kind of question: how it is asked, how Keyfob answers it, and how questions are made up.
//! - The [`Oracle`] is the program of `conformance/oracle`, which answers with upstream's packages.
//! - A [`Case`] is a question with its answer as data; it holds for both, or names the row of `DIFFERENCES.md` that says
//!   why not.
//! - [`examine`] makes up questions, and gives what it found as a [`Report`].
#![expect(clippy::exhaustive_structs, reason = "never published")]
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a judge stops at what it does not understand"
)]

mod case;
mod differences;
mod examine;
mod oracle;
mod topic;
mod topics;

pub use case::Case;
pub use differences::Differences;
pub use examine::{Report, Unexplained};
pub use oracle::{Judge, Oracle};
pub use topic::{AnyTopic, Topic};
pub use topics::TOPICS;
