//! The holder of the two annotations of a remediation, and of the power of its host.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{ActError, Pending};
use crate::remediation::Backup;

/// A host, and the annotations that are about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSeen {
    /// Whether it is on; why that is not known.
    pub powered_on: Result<bool, Arc<str>>,
    /// Whether its Machine asks for remediation.
    pub needs_remediation: bool,
    /// Whether the host carries our reboot annotation.
    pub reboot_annotation: bool,
    /// Why it cannot be remediated, if it cannot.
    pub refused: Option<Arc<str>>,
    /// Labels, taints and annotations of its nodes, if they are stored outside the notes.
    pub backup: Option<Backup>,
    /// The running attempt, if it is stored outside the notes; 0: none.
    pub attempt: u32,
}

/// Holds the two annotations of a machine. Every method can be called again without harm.
pub trait Holder: Send + Sync {
    /// The host and its annotations now.
    fn look(&self) -> Pending<'_, Result<HostSeen, ActError>>;

    /// An attempt begins: the machine asks for remediation. Not called for the first, which was requested from
    /// outside.
    fn mark(&self, attempt: u32) -> Pending<'_, Result<(), ActError>>;

    /// Puts the reboot annotation on the host: it is to be off, and stay so.
    fn hold(&self) -> Pending<'_, Result<(), ActError>>;

    /// Waits until one sample of the host's power is off.
    fn await_off(&self, attempt: u32, bound: Duration) -> Pending<'_, Result<(), ActError>>;

    /// Keeps what the node carries, durable when this returns.
    fn keep<'a>(&'a self, backup: &'a Backup) -> Pending<'a, Result<(), ActError>>;

    /// Takes the annotation off that asks for remediation.
    fn unmark(&self) -> Pending<'_, Result<(), ActError>>;

    /// Takes the reboot annotation off the host: it is to be on.
    fn let_go(&self) -> Pending<'_, Result<(), ActError>>;

    /// Waits until the host is on.
    fn await_on(&self, attempt: u32, bound: Duration) -> Pending<'_, Result<(), ActError>>;

    /// Drops the backup: it was restored, and observed there.
    fn drop_kept(&self) -> Pending<'_, Result<(), ActError>>;

    /// Reports that remediation was aborted, or (`None`) that the machine is back.
    fn end<'a>(&'a self, given_up: Option<&'a Arc<str>>) -> Pending<'a, Result<(), ActError>>;
}
