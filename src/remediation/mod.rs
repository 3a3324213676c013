//! How a failed machine is brought back: switched off, its Kubernetes node released, switched on again.
//!
//! The truth table of metal3-remediation ([`TABLE`]) is data, total over its sixteen rows. [`next`] lays it
//! over the observed state of one machine and returns the next task, so that a remediation can be
//! interrupted anywhere and resumes by observing again. Its promise is at-most-once: a Node is never released
//! unless its machine was observed off while it is fenced. Values only: observing and acting is elsewhere.

mod course;
mod limits;
mod memory;
mod progress;
mod refusal;
mod share;
mod table;
#[cfg(test)]
mod tests;

pub use course::{MachineSeen, NodeSeen, Power, Task, next, way};
pub use limits::{
    Broken, COOLDOWN, MAX_UNHEALTHY, Release, RemediationLimits, Tried, UnhealthyCount,
    after_failure, breaker,
};
pub use memory::{Backup, Memory, Note, Taint};
pub use progress::{Activity, AttemptProgress, NoProgress};
pub use refusal::{HostState, Refusal, refusal};
pub use share::{NoShare, Share};
pub use table::{Facts, Row, TABLE, TableAction, action};
