//! Carries a plan out.
//!
//! The dispatcher owns the graph and decides; runners act and report; whoever listens to the
//! [`Event`]s (progress, JSON lines, the record) only listens. An event is sent before the thing it
//! tells of is done.

mod events;

pub use events::{Event, EventKind, GroupResult, NodeResult, RunReport, StepOutcome};
