//! The time for which a machine is away.

use crate::design::NodeName;

/// A machine that is away for a time, in one group.
#[derive(Clone, Debug)]
pub(super) struct Away<'a> {
    pub(super) node: &'a NodeName,
    /// The steps that take it away before any other of its own.
    pub(super) firsts: Vec<usize>,
    /// Those of its own that nothing of its own follows.
    pub(super) lasts: Vec<usize>,
    /// The barrier of the series behind which it is taken away, and the one before which it is back.
    pub(super) from: usize,
    pub(super) to: usize,
    /// It is built again; else it is gone for good.
    pub(super) comes_back: bool,
    /// It was out of service before.
    pub(super) was_down: bool,
    /// It is taken out of service, and is still down when all is done.
    pub(super) goes_down: bool,
    /// It left the design, and is not missed.
    pub(super) has_left: bool,
}
