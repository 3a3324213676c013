//! The move of a site's records at the remote to a branch, or back, under the lock of the site.
//!
//! No run is at work meanwhile. A run that was interrupted moves with its records, and is resumed from the new place.

use super::catch_up::catch_up;
use super::error::{self, Error};
use super::owed_records::{OwedRuns, publish_owed};
use super::process::Process;
use super::site_repository::SiteRepository;
use super::unfinished::unfinished;
use crate::design::RunId;
use crate::record::{self, Direction, Move};
use crate::repository::{PushOutcome, Remote};

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The ref at the remote that holds the records.
    pub to: String,
    /// Whether there was anything left to do.
    pub is_new: bool,
    /// Whether the remote has records of the site at all.
    pub has_records: bool,
    /// Runs that the remote lacked: they are published there now.
    pub published: Option<OwedRuns>,
}

/// Moves the records of a site at the remote to the branch that its place names, or back. Killed at any instant, it
/// can be begun again, here or elsewhere, and completes what is left.
///
/// # Errors
///
/// [`Error::NotShared`] if there is no remote to publish to; [`Error::LockHeld`];
/// [`Error::Unpublished`]; [`Error::Moving`] if a ref moved meanwhile; those of
/// [`Store::relocation`](record::Store::relocation); the remote refuses it.
pub fn migrate(process: Process<'_>, how: Move) -> Result<Migration, Error> {
    let site = process.site;
    let remote = site.audience().ok_or_else(|| Error::NotShared {
        site: site.name.clone(),
    })?;
    let target = at(site, how.direction);
    let source = at(site, opposite(how.direction));
    publish_ended(process, &source)?;
    let milliseconds = u64::try_from(process.time.seconds()).unwrap_or_default() * 1000;
    let id = ulid::Ulid::from_parts(milliseconds, process.actor.random);
    let held = process.acquire(&RunId::from(id.to_string()), b"", || Ok(()))?;
    let moved = refuse_workers(&[&source, &target]);
    let moved = moved.and_then(|()| relocate(process, remote, how));
    let moved = moved.and_then(|mut migration| {
        // From now on this clone finds them where they are.
        let store = target.store()?;
        let mut records = target.records(&store)?;
        migration.published = publish_owed(&target, &store, &mut records, &process.signature())?;
        migration.is_new |= migration.published.is_some();
        migration.has_records = records.remote_tip.is_some();
        Ok(migration)
    });
    let released = site.release(&held.lock);
    let migration = moved?;
    released?;
    Ok(migration)
}

/// Refuses to move the records from under a run that is divided: its parts are beside them, and its workers look for them there.
fn refuse_workers(places: &[&SiteRepository<'_>]) -> Result<(), Error> {
    for site in places {
        let store = site.store()?;
        // They are at one of both places, or at none: then nothing is moved.
        let Ok(records) = site.records(&store) else {
            continue;
        };
        if let Some(run) = unfinished(&store, &records.state)?
            && run.workers.is_some()
        {
            return Err(Error::OfWorkers {
                site: site.name.clone(),
                run: run.run,
            });
        }
    }
    Ok(())
}

fn relocate(process: Process<'_>, remote: &Remote<'_>, how: Move) -> Result<Migration, Error> {
    let site = process.site;
    let relocation = site
        .store()?
        .relocation(remote, how, &process.signature())
        .map_err(|error| match error {
            record::Error::Unsigned { why, .. } => site.not_ready(why),
            error => error::records("move the records")(error),
        })?;
    let pushed = remote
        .push(&relocation.updates)
        .map_err(error::repository(&site.name, "move the records"))?;
    match pushed {
        PushOutcome::Published => Ok(Migration {
            to: relocation.to,
            is_new: !relocation.updates.is_empty(),
            has_records: true,
            published: None,
        }),
        PushOutcome::LostRace { name, .. } => Err(Error::Moving {
            site: site.name.clone(),
            name,
        }),
    }
}

/// Publishes the end of a run that this clone could not publish, if the records are still.
fn publish_ended(process: Process<'_>, source: &SiteRepository<'_>) -> Result<(), Error> {
    let process = Process::new(source, process.actor, process.time);
    match catch_up(process) {
        // They have left, or are on their way.
        Err(Error::Records {
            source:
                record::Error::Moved { .. }
                | record::Error::NotMoved { .. }
                | record::Error::MarkerMissing { .. },
            ..
        }) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// The site with its records at one end of the move.
fn at<'a>(site: &SiteRepository<'a>, direction: Direction) -> SiteRepository<'a> {
    let place = match direction {
        Direction::ToBranch => site.place.clone(),
        Direction::Back => site.place.without_branch(),
    };
    SiteRepository {
        place,
        ..site.clone()
    }
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::ToBranch => Direction::Back,
        Direction::Back => Direction::ToBranch,
    }
}
