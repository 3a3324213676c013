//! Aborts an interrupted run.

use super::abandon::{Aborted, Inspection, abandon};
use super::error::Error;
use super::interrupted::{find_interrupted, named};
use super::owed_records::publish_owed_beside;
use super::process::{Held, Process};
use super::publish::{End, Publication};
use super::site_repository::Records;
use super::take_over::{TakeOver, take_over};
use crate::design::RunId;

/// Aborts an interrupted run: it is tagged as failed if it could have changed something, and what
/// it left half-done is said.
///
/// # Errors
///
/// As [`resume`](super::resume).
pub fn abort(
    process: Process<'_>,
    run: &RunId,
    how: TakeOver,
    inspection: Inspection<'_>,
) -> Result<Aborted, Error> {
    let found = find_interrupted(process.site, Some(run))?;
    let held = take_over(process, &found, how)?;
    abort_held(process, run, &held, inspection)
}

/// Aborts a run whose lock is held.
pub(super) fn abort_held(
    process: Process<'_>,
    run: &RunId,
    held: &Held,
    inspection: Inspection<'_>,
) -> Result<Aborted, Error> {
    let site = process.site;
    let store = site.store()?;
    let end = || -> Result<Aborted, Error> {
        let mut records = site.records(&store)?;
        publish_owed_beside(process, &store, &mut records);
        let Records {
            state, remote_tip, ..
        } = records;
        let record = named(site, &store, &state, run)?;
        let abandoned = abandon(process, (&store, &state), record, inspection)?;
        let ended = End {
            run: &abandoned.run,
            state: &abandoned.state,
            remote_tip,
            lock: Some(held.lock.id),
            author: process.signature(),
        };
        match site.publish_end(&store, &ended)?.0 {
            Publication::Missing { why } => Err(Error::Unpublished {
                run: run.clone(),
                why,
            }),
            Publication::Whole | Publication::TagOwed { .. } => {
                abandoned.files.remove();
                Ok(abandoned.aborted)
            }
        }
    };
    end().inspect_err(|error| {
        // What is written and not published keeps its lock.
        if !matches!(error, Error::Unpublished { .. }) {
            let _ = site.release(&held.lock);
        }
    })
}
