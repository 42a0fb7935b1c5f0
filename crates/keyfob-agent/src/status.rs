//! What the agent shows of itself: the status page, its live updates, and the answer of `/v1/status`.
//!
//! `history` remembers what happened, in bounded memory. `gather` makes a `Status` of that and of the agent's state, and everything
//! else only shows it: `page` as HTML, `events` as a stream of the parts of the page that changed.
//!
//! Every local process can open a port on loopback. So what is shown there never depends on what plugins print, has no hash of a
//! credential and no user name, and names of images and callers only if the agent's file says so (see [`StatusDetail`](keyfob_agent_config::StatusDetail)).

mod events;
mod explanation;
mod gather;
mod history;
mod hour;
mod model;
mod page;
mod problems;
mod records;
mod time;
mod view;

pub use self::time::relative_time;
pub(crate) use self::{
    explanation::Explanation,
    gather::gather,
    history::{History, ReloadRecord},
    page::{ICON, SCRIPT, STYLE, StatusPage},
    time::Moment,
};
