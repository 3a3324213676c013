//! The interface of the service to its process.

use std::sync::Arc;
use std::time::Duration;

use crate::apply::EventClock;
use crate::repository::Repository;
use crate::run::{Connection, Stop, StopHandle, Timekeeper};
use crate::workflow::{Checkout, Client, Failure, PlanRequest};

/// The clocks of a run.
pub trait ServiceClock: Timekeeper + EventClock {
    /// The same as the clock of a run.
    fn timekeeper(&self) -> &dyn Timekeeper;

    /// The same as the clock of events.
    fn events(&self) -> &dyn EventClock;
}

/// The process of a service: what only it can read.
pub trait Host: Send + Sync + 'static {
    /// The caller of workflows.
    fn client(&self) -> &dyn Client;

    /// Opens the repository, as each action does anew.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    fn repository(&self) -> Result<Repository, Failure>;

    /// The site in the worktree.
    ///
    /// # Errors
    ///
    /// It is not found, or there are several.
    fn checkout<'a>(&self, repository: &'a Repository) -> Result<Checkout<'a>, Failure>;

    /// The connection to the remote, for as long as a run runs.
    ///
    /// # Errors
    ///
    /// Git's configuration cannot be read.
    fn connection<'a>(&self, repository: &'a Repository) -> Result<Connection<'a>, Failure>;

    /// The clocks, whose waits end when a stop is asked for.
    fn clock(&self, stop: Option<Stop>) -> Box<dyn ServiceClock + '_>;

    /// Seconds since 1970.
    fn seconds(&self) -> u64;

    /// A random number.
    fn random(&self) -> u128;

    /// The settings of a plan without flags.
    fn plan_request(&self) -> PlanRequest;

    /// How long running steps are waited for after the first request to stop; `None`: without limit.
    fn stop_grace(&self) -> Option<Duration>;

    /// Resumes the run that was interrupted, if there is one; hears of signals itself, and gives `begins` the way to
    /// stop it.
    ///
    /// # Errors
    ///
    /// Those of the resumption.
    fn resume(&self, begins: Arc<dyn Fn(StopHandle) + Send + Sync>) -> Result<(), Failure>;

    /// Whether the documents may name a revision other than the one that is checked out: the guards of the site are
    /// taken from a protected revision.
    fn has_protected_guards(&self) -> bool;
}
