//! The kubelet's image credential providers: what they are asked, and what is checked of their responses.

pub(crate) mod case;
pub(crate) mod checks;
pub(crate) mod keys;
pub(crate) mod plan;
pub(crate) mod requests;
pub(crate) mod response;
pub(crate) mod runs;
pub(crate) mod start;
pub(crate) mod stderr;
