//! Tags that a run should have made and did not publish: made, published, and noted in the records.

use super::error::{self, Error};
use super::files::RunFiles;
use super::process::Process;
use super::publish::is_refusal;
use super::site_repository::SiteRepository;
use crate::diagnostic::chain;
use crate::record::{Checkpoint, RunRecord, State, Store};
use crate::repository::Signature;

/// Makes the tag of the last site action, and publishes it, if a process was killed before it did; gives
/// the run that it is about.
pub(super) fn repair_tag(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    state: &State,
) -> Result<Option<RunRecord>, Error> {
    let Some(action) = &state.site.last_action else {
        return Ok(None);
    };
    let files = RunFiles::of(site.repository, &site.name, &action.run);
    if !files.exists() {
        return Ok(None);
    }
    let record = store
        .run(state, &action.run)
        .map_err(error::records("read the record of the last run"))?;
    let Some(run) = record.filter(|run| !run.tag_owed) else {
        return Ok(None);
    };
    let name = run.tag.as_ref().map(|tag| format!("refs/tags/{tag}"));
    // The process that resumed or aborted it elsewhere may have published it.
    let was_there = match (&name, site.audience()) {
        (None, _) => true,
        (Some(name), Some(remote)) => !remote
            .ls_remote(&[name])
            .map_err(error::repository(&site.name, "ask for a tag"))?
            .is_empty(),
        (Some(name), None) => site
            .repository
            .read_ref(name)
            .map_err(error::repository(&site.name, "read a tag"))?
            .is_some(),
    };
    if let Some(tag) = site.make_tag(&run)? {
        // Another tag with that name there stays.
        site.push(&[tag])?;
    }
    files.remove();
    Ok((!was_there).then_some(run))
}

/// Publishes the tags that the remote has refused; gives the runs whose tags are there now.
pub(super) fn settle_tags(
    site: &SiteRepository<'_>,
    store: &Store<'_>,
    state: &State,
) -> Result<Vec<RunRecord>, Error> {
    let mut settled = Vec::new();
    for run in &state.site.tags_owed {
        let record = store
            .run(state, run)
            .map_err(error::records("read the record of a run"))?;
        let Some(mut record) = record else { continue };
        let Some(tag) = site.make_tag(&record)? else {
            continue;
        };
        match site.push(&[tag]) {
            Ok(_) => {
                record.tag_owed = false;
                settled.push(record);
            }
            Err(error) if is_refusal(&error) => {
                log::warn!("the tag of run {run} is still refused: {}", chain(&error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(settled)
}

/// Writes that tags that were owed are published.
pub(super) fn write_settled(
    store: &Store<'_>,
    mut state: State,
    settled: &[RunRecord],
    author: &Signature,
) -> Result<State, Error> {
    for record in settled {
        state = store
            .checkpoint(&state, &Checkpoint::of_run(record, author.clone()))
            .map_err(error::records("write that a tag is published"))?;
    }
    Ok(state)
}

/// Publishes that tags that were owed are there, under the lock. If another process takes the lock first, its run
/// reports it.
pub(super) fn note_settled(
    process: Process<'_>,
    store: &Store<'_>,
    settled: &[RunRecord],
) -> Result<(), Error> {
    let Some(last) = settled.last() else {
        return Ok(());
    };
    let site = process.site;
    let held = match process.take_as(None, process.holder(&last.run), b"") {
        Err(Error::LockHeld { .. }) => return Ok(()),
        other => other?,
    };
    let publish = || -> Result<(), Error> {
        let records = site.records(store)?;
        let owed = |record: &&RunRecord| records.state.site.tags_owed.contains(&record.run);
        let settled: Vec<RunRecord> = settled.iter().filter(owed).cloned().collect();
        let state = write_settled(store, records.state, &settled, &process.signature())?;
        let update = store.publication(&state, records.remote_tip);
        site.push(&update.into_iter().collect::<Vec<_>>())?;
        Ok(())
    };
    let published = publish();
    site.release(&held.lock)?;
    published
}
