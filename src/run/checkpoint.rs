//! The heartbeat of a run: the lock renewed, the records written and published while it runs.

use std::time::Duration;

use super::durations::Durations;
use super::error::{self, Error};
use super::event::EventKind;
use super::session::{RENEWAL, Session};
use crate::diagnostic::chain;
use crate::record::{self, Checkpoint, Packed};
use crate::repository::PushOutcome;
use crate::threads::lock;

/// How long nothing is tried after the remote did not answer.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// How often the records are written and published while something changes.
const CHECKPOINT: Duration = Duration::from_secs(30);

impl Session<'_> {
    /// Renews the lock every 60 s; writes what has changed, and publishes it, every 30 s.
    pub(super) fn renew_and_write(&self) {
        let now = self.process.time.monotonic();
        self.renew(now);
        let is_due = {
            let records = lock(&self.records);
            records.has_news() && now.saturating_sub(records.written) >= CHECKPOINT
        };
        if is_due {
            self.write_checkpoint();
        }
        let is_due = lock(&self.published).next <= now;
        if is_due {
            self.publish_records();
        }
    }

    fn renew(&self, now: Duration) {
        let mut renewal = lock(&self.held);
        if now < renewal.next || self.lease.is_lost() {
            return;
        }
        let taken = self.process.renew(&renewal.held, self.approved.plan_file);
        match taken {
            Ok(held) => {
                renewal.next = held.renewed + RENEWAL;
                self.lease.fence.confirm(held.renewed);
                renewal.held = held;
            }
            Err(error) if error.is_lost_race() => self.lose(),
            Err(error) => {
                renewal.next = now + AFTER_FAILURE;
                self.lease
                    .warn(format!("the lock could not be renewed: {}", chain(&error)));
            }
        }
    }

    /// Writes what has changed; a failure is a warning, and is retried.
    pub(super) fn write_checkpoint(&self) -> bool {
        match self.checkpoint(None) {
            Ok(nodes) => {
                self.lease.notice(EventKind::Checkpoint { nodes });
                true
            }
            Err(Error::Fenced { .. }) => false,
            Err(error) => {
                self.lease.warn(format!(
                    "the records could not be written: {}",
                    chain(&error)
                ));
                false
            }
        }
    }

    /// Writes what has changed; gives the number of nodes in it. The records can be changed meanwhile.
    pub(super) fn checkpoint(&self, report: Option<&Packed>) -> Result<usize, Error> {
        let _writing = lock(&self.writing);
        let began = self.process.time.monotonic();
        let (taken, timed) = {
            let mut records = lock(&self.records);
            (records.take(&self.journal)?, records.timed.clone())
        };
        let durations = match report {
            Some(_) if !timed.is_empty() => {
                let before = Durations::read(&self.store, &taken.state);
                Some(before.unwrap_or_default().with(&timed).to_bytes())
            }
            _ => None,
        };
        let written = taken.nodes.len() + taken.forgotten.len();
        let draft = self.store.draft(
            &taken.state,
            &Checkpoint {
                run: &taken.run,
                nodes: taken.nodes.iter().collect(),
                forgotten: &taken.forgotten,
                plan: None,
                events: &taken.parts,
                report,
                durations: durations.as_deref(),
                author: self.process.signature(),
            },
        );
        let unsigned = draft.as_ref().ok().and_then(|draft| draft.unsigned.clone());
        self.note_unsigned(unsigned);
        let advanced = draft.and_then(|draft| self.store.advance(draft));
        let mut records = lock(&self.records);
        records.written = self.process.time.monotonic();
        records.cost = records.written.saturating_sub(began);
        log::info!("records of {written} nodes written in {:.1?}", records.cost);
        match advanced {
            Ok(state) => {
                records.state = state;
                Ok(written)
            }
            Err(error) => {
                records.give_back(taken);
                drop(records);
                if matches!(error, record::Error::LostRace { .. }) {
                    self.lose();
                    return Err(Error::Fenced {
                        run: self.run.clone(),
                    });
                }
                Err(error::records("write the records")(error))
            }
        }
    }

    /// Warns that records are not signed, once until they are signed again: they are written all the same, since what has
    /// happened must not be lost.
    pub(super) fn note_unsigned(&self, why: Option<String>) {
        let before = std::mem::replace(&mut *lock(&self.unsigned), why.clone());
        if let Some(why) = why.filter(|_| before.is_none()) {
            let run = &self.run;
            self.lease.warn(format!(
                "records of run {run} are written without a signature: {why}; once it has ended, `trueup log --sign` signs them"
            ));
        }
    }

    /// Publishes the records that are written, as far as that is possible now.
    pub(super) fn publish_records(&self) {
        let mut published = lock(&self.published);
        published.next = self.process.time.monotonic() + CHECKPOINT;
        if self.process.site.audience().is_none() || self.lease.is_lost() {
            return;
        }
        let (update, tip) = {
            let records = lock(&self.records);
            let update = self.store.publication(&records.state, published.tip);
            (update, records.state.tip)
        };
        let Some(update) = update else { return };
        match self.process.site.push(&[update]) {
            Ok(PushOutcome::Published) => published.tip = tip,
            Ok(PushOutcome::LostRace { .. }) => self.lose(),
            Err(error) => self.lease.warn(chain(&error)),
        }
    }
}
