//! Rollouts: in which order the sites of a repository get a revision, and what may be done now.
//!
//! Functions from values to values. The document tells the sites and the phases, the state the progress of each site, and
//! [`decide`] what comes next. `workflow` loads, plans, applies and persists.

mod decision;
mod document;
mod state;
#[cfg(test)]
mod tests;

pub use decision::{Decision, decide, stopped};
pub use document::{Phase, Phases, Rollout, RolloutSite, Stop};
pub use state::{Decree, MOST_BYTES, RolloutState, SiteProgress, SiteResult, StateError};
