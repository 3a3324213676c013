//! Carries a plan out.
//!
//! The dispatcher owns the graph and decides; runners act and report; listeners of the
//! [`RunEvent`](crate::run::RunEvent)s (progress, JSON lines, the record) only listens. An event is sent before the thing it
//! tells of is done.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod cause;
mod consequences;
mod decide;
mod dispatch;
mod dispatcher;
mod driver;
mod ending;
mod estimate;
mod expected;
mod finish;
mod graph;
mod places;
mod preconditions;
mod rehearse;
mod replay;
mod request;
mod runner;
mod schedule;
mod settle;
mod start;
mod take_in;
mod tally;

pub use cause::RunProgress;
pub use consequences::steps_to_act;
pub use dispatch::execute;
pub use ending::orders_to_leave;
pub use estimate::{Estimate, estimate};
pub use expected::ExpectedDurations;
pub use finish::sum_up;
pub use preconditions::PreconditionChecker;
pub use rehearse::{failing_in, rehearse};
pub use request::{DispatchRequest, Error, EventClock, NoPreconditions, PartScope, Preconditions};

#[cfg(test)]
mod tests;
