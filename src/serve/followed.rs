//! The remote as the service knows it: its records, which those of the clone follow, and who holds its lock.
//!
//! It is asked when a question of the service needs it, and not without one. A question that comes soon after another is
//! answered by what is known, while newer records are fetched beside it: the remote may be slow, or not answer at all.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::host::Host;
use crate::plan::{RunState, UnfinishedRun};
use crate::repository::Holder;
use crate::run::{self, Connection, unfinished_run_known};
use crate::threads::lock;
use crate::workflow::{Checkout, Failure, ReservationRef, follow};

/// How long the records of this clone are taken for those of the remote.
const FRESH: Duration = Duration::from_secs(3);

/// How old the records are at most that answer a question while newer ones are fetched.
const STALE: Duration = Duration::from_secs(5);

/// How long questions wait for one answer of the remote if the records are older: those that come later do not wait for one that
/// does not answer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Known {
    /// When the remote was last asked.
    asked: Option<Instant>,
    /// Since when it is being asked.
    asking: Option<Instant>,
    holder: Option<Holder>,
}

/// The knowledge of the remote that all questions share.
#[derive(Debug, Default)]
pub(super) struct Followed {
    known: Mutex<Known>,
    changed: Condvar,
}

impl Followed {
    /// Follows the records of the remote, if that was not done lately. A question about a run waits until records and lock are
    /// known together (`is_of_run`): a run that began or ended between both would seem interrupted.
    pub(super) fn follow(self: &Arc<Self>, host: &Arc<dyn Host>, is_of_run: bool) {
        let mut known = lock(&self.known);
        let age = known.asked.map(|asked| asked.elapsed());
        if known.asking.is_none() {
            if age.is_some_and(|age| age < FRESH) {
                return;
            }
            let (followed, host) = (self.clone(), host.clone());
            let thread = std::thread::Builder::new().name("follow".to_owned());
            let is_asking = thread.spawn(move || followed.ask(&*host)).is_ok();
            known.asking = is_asking.then(Instant::now);
        }
        if let Some(began) = known.asking
            && (is_of_run || age.is_none_or(|age| age >= STALE))
        {
            let left = LONGEST_WAIT.saturating_sub(began.elapsed());
            drop(
                self.changed
                    .wait_timeout_while(known, left, |known| known.asking.is_some())
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }

    fn ask(&self, host: &dyn Host) {
        // Also if it panics.
        let asking = Asking(self);
        match follow_holder(host) {
            Ok(holder) => lock(&self.known).holder = holder,
            // What is here can be told all the same.
            Err(failure) => log::warn!("the records were not followed: {failure}"),
        }
        drop(asking);
    }

    /// The holder of the lock at the remote, as it was known last.
    pub(super) fn holder(&self) -> Option<Holder> {
        lock(&self.known).holder.clone()
    }

    /// The run of the site that has not ended, by what is known of the remote.
    pub(super) fn unfinished(
        &self,
        checkout: &Checkout<'_>,
    ) -> Result<Option<UnfinishedRun>, Failure> {
        Ok(unfinished_run_known(&checkout.site_here()?, self.holder())?)
    }
}

/// The time in which the remote is asked.
struct Asking<'a>(&'a Followed);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut known = lock(&self.0.known);
        known.asking = None;
        known.asked = Some(Instant::now());
        self.0.changed.notify_all();
    }
}

/// Follows the records of the remote; the holder of its lock.
fn follow_holder(host: &dyn Host) -> Result<Option<Holder>, Failure> {
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let connection = host.connection(&repository)?;
    if !matches!(connection, Connection::Shared { .. }) {
        return Ok(None);
    }
    let site = checkout.site(connection)?;
    follow(host.client(), &checkout, &site.connection)?;
    if let Err(failure) = ReservationRef::of(&site).holding_at(0) {
        log::warn!("the reservations were not followed: {failure}");
    }
    let holder = run::holder(&site)?;
    let unfinished = unfinished_run_known(&checkout.site_here()?, holder.clone())?;
    if unfinished.is_some_and(|run| run.state == RunState::Interrupted) {
        // It may have ended between both.
        follow(host.client(), &checkout, &site.connection)?;
    }
    Ok(holder)
}
