//! Finds runs that were interrupted.

use super::error::{self, Error};
use super::files::RunFiles;
use super::site_repository::SiteRepository;
use super::unfinished::unfinished;
use crate::design::{Digest, RunId};
use crate::record::{Packed, RunFile, RunRecord, State, Store};
use crate::repository::CommitId;

/// A run that was interrupted.
#[derive(Clone, Debug)]
pub struct Interrupted {
    /// Its record.
    pub record: RunRecord,
    /// Its plan, as it was saved, packed.
    pub plan: Packed,
    /// Its commit, which is kept.
    pub commit: CommitId,
    /// The digest of the plan that this clone began the run with, if it did. The plan and all else come from the
    /// records, which every account with push rights can write.
    pub noted_plan: Option<Digest>,
}

/// Finds the run that was interrupted: the one that is named, or the newest.
///
/// # Errors
///
/// [`Error::NoSuchRun`], [`Error::Ended`], [`Error::NothingInterrupted`]; the records or the remote
/// cannot be read.
pub fn find_interrupted(
    site: &SiteRepository<'_>,
    run: Option<&RunId>,
) -> Result<Interrupted, Error> {
    let store = site.store()?;
    let state = site.records(&store)?.state;
    let record = match run {
        Some(run) => named(site, &store, &state, run)?,
        None => unfinished(&store, &state)?.ok_or_else(|| Error::NothingInterrupted {
            site: site.name.clone(),
        })?,
    };
    let plan = store
        .packed_file(&state, &record.run, RunFile::Plan)
        .map_err(error::records("read the plan of the run"))?
        .ok_or_else(|| broken(&record, "it has no plan"))?;
    let commit = commit_of(&record)?;
    let files = RunFiles::of(site.repository, &site.name, &record.run);
    Ok(Interrupted {
        noted_plan: files.noted_plan(),
        record,
        plan,
        commit,
    })
}

/// The record of a run that has not ended.
pub(super) fn named(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    state: &State,
    run: &RunId,
) -> Result<RunRecord, Error> {
    let record = store
        .run(state, run)
        .map_err(error::records("read the record of the run"))?
        .ok_or_else(|| Error::NoSuchRun {
            site: site.name.clone(),
            run: run.clone(),
        })?;
    let outcome = record.outcome;
    if outcome.has_ended() {
        let run = run.clone();
        return Err(Error::Ended { run, outcome });
    }
    Ok(record)
}

fn commit_of(record: &RunRecord) -> Result<CommitId, Error> {
    record
        .revision
        .parse()
        .map_err(|_| broken(record, "its revision is no commit"))
}

fn broken(record: &RunRecord, reason: &str) -> Error {
    Error::Broken {
        what: format!("the record of run {}", record.run),
        reason: reason.to_owned(),
    }
}
