//! Runs that have ended here and that the remote does not have: those of a time without a remote, or with `--no-push`.
//!
//! Nothing notes them: they are found by comparing the records here with the remote's, whatever has left them behind.

use super::error::{self, Error};
use super::process::Process;
use super::publish::is_refusal;
use super::site_repository::{Records, SiteRepository};
use super::tag;
use crate::design::RunId;
use crate::diagnostic::chain;
use crate::record::{Checkpoint, RunRecord, State, Store};
use crate::repository::{CommitId, PushOutcome, RefUpdate, Signature};

/// Runs that have ended, and whose records or tags are in this clone alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwedRuns {
    /// Their number.
    pub count: usize,
    /// The newest of them.
    pub last: RunId,
}

impl OwedRuns {
    fn of(runs: &[RunRecord]) -> Option<Self> {
        runs.last().map(|last| Self {
            count: runs.len(),
            last: last.run.clone(),
        })
    }
}

/// The runs that the remote lacks, once it was asked; `remote_tip`: its records, which were fetched.
///
/// # Errors
///
/// The records cannot be read.
pub fn owed_runs(
    store: &Store<'_>,
    state: &State,
    remote_tip: Option<CommitId>,
) -> Result<Option<OwedRuns>, Error> {
    Ok(OwedRuns::of(&owed(store, state, remote_tip)?))
}

fn owed(
    store: &Store<'_>,
    state: &State,
    remote_tip: Option<CommitId>,
) -> Result<Vec<RunRecord>, Error> {
    let reading = || error::records("compare the runs with the remote's");
    let mut owed = Vec::new();
    for run in store.runs_besides(state, remote_tip).map_err(reading())? {
        let record = store.run(state, &run).map_err(reading())?;
        owed.extend(record.filter(|run| run.outcome.has_ended()));
    }
    Ok(owed)
}

/// Publishes the runs that the remote lacks, with their tags, under a lock of its own. Costs nothing without such runs.
///
/// # Errors
///
/// [`Error::LockHeld`]; those of [`publish_owed`].
pub(super) fn settle_owed(
    process: Process<'_>,
    store: &Store<'_>,
    records: &Records,
) -> Result<Option<OwedRuns>, Error> {
    let site = process.site;
    if site.audience().is_none() || owed_runs(store, &records.state, records.remote_tip)?.is_none()
    {
        return Ok(None);
    }
    // The lock is no run's: the next process that finds it left behind releases it, and compares again.
    let milliseconds = u64::try_from(process.time.seconds()).unwrap_or_default() * 1000;
    let id = ulid::Ulid::from_parts(milliseconds, process.actor.random);
    let held = process.acquire(&RunId::from(id.to_string()), b"", || Ok(()))?;
    let published = site
        .records(store)
        .and_then(|mut records| publish_owed(site, store, &mut records, &process.signature()));
    site.release(&held.lock)?;
    published
}

/// [`publish_owed`] for a process that holds the lock of its own run, which continues if that fails.
pub(super) fn publish_owed_beside(process: Process<'_>, store: &Store<'_>, records: &mut Records) {
    let published = publish_owed(process.site, store, records, &process.signature());
    if let Err(error) = published {
        log::warn!("earlier runs are not published: {}", chain(&error));
    }
}

/// Publishes the runs that the remote lacks, with their tags; the caller holds the lock. Tags that the remote refuses are
/// owed from then on.
///
/// # Errors
///
/// [`Error::Unpublished`] if the remote refuses the records; it cannot be reached.
pub(super) fn publish_owed(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    records: &mut Records,
    author: &Signature,
) -> Result<Option<OwedRuns>, Error> {
    if site.audience().is_none() {
        return Ok(None);
    }
    let runs = owed(store, &records.state, records.remote_tip)?;
    let Some(owed) = OwedRuns::of(&runs) else {
        return Ok(None);
    };
    site.check_trust(&records.state)?;
    let unpublished = |why: &Error| Error::Unpublished {
        run: owed.last.clone(),
        why: chain(why),
    };
    let mut tags = tags_here(site, &runs)?;
    loop {
        let update = store.publication(&records.state, records.remote_tip);
        let updates: Vec<RefUpdate> = update.into_iter().chain(tags.iter().cloned()).collect();
        match site.push(&updates) {
            Ok(PushOutcome::Published) => break,
            Ok(PushOutcome::LostRace { name, .. }) => {
                let before = tags.len();
                // Another tag with that name there stays.
                tags.retain(|tag| tag.name != name);
                if tags.len() == before {
                    return Err(Error::Fenced { run: owed.last });
                }
            }
            Err(error) if is_refusal(&error) && !tags.is_empty() => {
                log::warn!("the remote refuses tags: {}", chain(&error));
                for run in &runs {
                    let is_pushed = tag::tag(run)
                        .is_some_and(|tag| tags.iter().any(|each| each.name == tag.ref_name()));
                    if is_pushed {
                        let run = RunRecord {
                            tag_owed: true,
                            ..run.clone()
                        };
                        records.state = store
                            .checkpoint(&records.state, &Checkpoint::of_run(&run, author.clone()))
                            .map_err(error::records("write that a tag is owed"))?;
                    }
                }
                tags.clear();
            }
            Err(error) if is_refusal(&error) => return Err(unpublished(&error)),
            Err(error) => return Err(error),
        }
    }
    records.remote_tip = records.state.tip;
    Ok(Some(owed))
}

/// The tags of runs that are in this clone, as they are published; not those that have been pruned, nor those that the
/// remote has refused before.
fn tags_here(site: &SiteRepository<'_>, runs: &[RunRecord]) -> Result<Vec<RefUpdate>, Error> {
    let mut tags = Vec::new();
    for run in runs.iter().filter(|run| !run.tag_owed) {
        let Some(tag) = tag::tag(run) else { continue };
        let id = site
            .repository
            .read_ref(&tag.ref_name())
            .map_err(error::repository(&site.name, "read a tag"))?;
        tags.extend(id.map(|id| RefUpdate {
            name: tag.ref_name(),
            old: None,
            new: Some(id),
        }));
    }
    Ok(tags)
}
