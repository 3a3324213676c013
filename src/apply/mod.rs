//! Carries a plan out.
//!
//! The dispatcher owns the graph and decides; runners act and report; whoever listens to the
//! [`Event`]s (progress, JSON lines, the record) only listens. An event is sent before the thing it
//! tells of is done.

mod decide;
mod dispatch;
mod entry;
mod events;
mod finish;
mod graph;
mod preconditions;
mod replay;
mod runner;
pub mod session;
mod take_in;
mod tally;
mod work;

pub use dispatch::execute;
pub use entry::{Decision, Entry, Log, NodeOutcome, Replay};
pub use events::{Event, EventKind, GroupResult, NodeResult, RunReport, StepEvent, StepOutcome};
pub use preconditions::StillHolds;
pub use work::{
    Clock, Error, Finished, Listener, NoPreconditions, Preconditions, Stop, StopHandle, Work,
};

#[cfg(test)]
mod tests;
