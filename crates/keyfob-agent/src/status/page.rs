//! The page: rendered by the agent, complete without its script.

use std::{sync::Arc, time::Duration};

use askama::Template;
use tokio::{
    sync::{Mutex, Semaphore},
    time::Instant,
};

use super::{
    gather,
    model::Status,
    records::RecordsCache,
    view::{ROWS, View},
};
use crate::agent::Shared;

/// How many pages are kept up to date at the same time. Each holds a connection open.
const FOLLOWERS: usize = 16;
/// How long a gathered status is shown to all who ask. So the cost of the page does not grow with the number of its readers.
const KEPT: Duration = Duration::from_millis(400);

/// The style sheet, the script and the icon of the page.
pub(crate) const STYLE: &str = include_str!("../../templates/status.css");
pub(crate) const SCRIPT: &str = include_str!("../../templates/status.js");
pub(crate) const ICON: &str = include_str!("../../templates/status.svg");

/// How large the parts of the page may be together: with everything else, it has less than 100,000 bytes.
const MOST: usize = 100_000 - STYLE.len() - SCRIPT.len() - ICON.len() - FRAME;
/// Room for what is around the parts.
const FRAME: usize = 3_000;

/// What all readers of the page share.
#[derive(Debug)]
pub(crate) struct StatusPage {
    kept: Mutex<Option<(Instant, Arc<Status>)>>,
    pub(super) followers: Arc<Semaphore>,
    pub(super) records: RecordsCache,
}

impl Default for StatusPage {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            followers: Arc::new(Semaphore::new(FOLLOWERS)),
            records: RecordsCache::default(),
        }
    }
}

impl StatusPage {
    /// The page; `None` if the runtime is shutting down, as for the following.
    pub(crate) async fn html(&self, shared: &Arc<Shared>) -> Option<String> {
        let view = self.view(shared, true).await?;
        let sections = sections(&view);
        // Writing to a String does not fail.
        Some(Page { view: &view, sections }.render().unwrap_or_default())
    }

    /// What is shown now, with relative times or without.
    pub(super) async fn view(&self, shared: &Arc<Shared>, relative: bool) -> Option<View> {
        let status = self.status(shared).await?;
        let now = relative.then_some(status.now.0);
        let [rows, ..] = ROWS;
        Some(View { status, detail: shared.config().status_detail, now, rows })
    }

    /// How the agent was doing a moment ago. Only one reader gathers it, and the others wait for that.
    async fn status(&self, shared: &Arc<Shared>) -> Option<Arc<Status>> {
        let mut kept = self.kept.lock().await;
        if let Some((gathered, status)) = &*kept
            && gathered.elapsed() < KEPT
        {
            return Some(status.clone());
        }
        let status = Arc::new(gather(shared).await?);
        *kept = Some((Instant::now(), status.clone()));
        Some(status)
    }
}

/// A part of the page, which is replaced when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) html: String,
}

/// All parts of the page, in their order, with as many rows as there is room for.
pub(super) fn sections(view: &View) -> Vec<Section> {
    let mut sections = Vec::new();
    for rows in ROWS {
        sections = rendered(&View { rows, ..view.clone() });
        let bytes: usize = sections.iter().map(|section| section.html.len()).sum();
        if bytes <= MOST {
            break;
        }
    }
    sections
}

fn rendered(view: &View) -> Vec<Section> {
    let section = |id, html: askama::Result<String>| Section {
        id,
        html: html.unwrap_or_default().trim().to_owned(),
    };
    vec![
        section("verdict", Verdict { view }.render()),
        section("providers", Providers { view }.render()),
        section("hour", LastHour { view }.render()),
        section("decisions", Decisions { view }.render()),
        section("cached", Cached { view }.render()),
        section("configuration", Configuration { view }.render()),
        section("records", Records { view }.render()),
    ]
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    view: &'a View,
    sections: Vec<Section>,
}

#[derive(Template)]
#[template(path = "verdict.html")]
struct Verdict<'a> {
    view: &'a View,
}

#[derive(Template)]
#[template(path = "providers.html")]
struct Providers<'a> {
    view: &'a View,
}

#[derive(Template)]
#[template(path = "hour.html")]
struct LastHour<'a> {
    view: &'a View,
}

#[derive(Template)]
#[template(path = "decisions.html")]
struct Decisions<'a> {
    view: &'a View,
}

#[derive(Template)]
#[template(path = "cached.html")]
struct Cached<'a> {
    view: &'a View,
}

#[derive(Template)]
#[template(path = "configuration.html")]
struct Configuration<'a> {
    view: &'a View,
}

#[derive(Template)]
#[template(path = "records.html")]
struct Records<'a> {
    view: &'a View,
}
