//! A trial of the pushes of a run, on refs of its own: a remote may take one of them and refuse another, which a run would learn
//! at its end.

use std::collections::BTreeMap;

use super::error::{self, Error};
use super::publish::is_refusal;
use super::site_repository::SiteRepository;
use crate::repository::{NewCommit, ObjectId, PushOutcome, RefUpdate, Signature};

/// A push of a run that the remote refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialPush {
    /// The lock is taken.
    Lock,
    /// The lock is released.
    Release,
    /// The records are published.
    Records,
    /// A site action is tagged.
    Tag,
}

/// The result of a trial.
#[derive(Debug, Default)]
pub struct Trial {
    /// The pushes that the remote refuses, with what it says.
    pub refused: Vec<(TrialPush, Error)>,
    /// Refs of the trial that the remote has kept.
    pub left: Vec<String>,
}

/// Takes and releases a lock and makes and deletes records and a tag at the remote, each by names that no run has. Nothing is done where
/// records are not published.
///
/// # Errors
///
/// The remote cannot be reached; the repository cannot be written.
pub fn try_pushes(site: &SiteRepository<'_>, author: Signature) -> Result<Option<Trial>, Error> {
    let Some(remote) = site.audience() else {
        return Ok(None);
    };
    let prefix = site
        .repository
        .ref_prefix()
        .map_err(error::repository(&site.name, "find the lock"))?;
    let name = &site.name;
    let lock = format!("{prefix}/{name}/doctor/lock");
    let records = site.store()?.place().trial_at_remote();
    let tag = format!("refs/tags/site-action-success/{name}/doctor");
    let trying = || error::repository(name, "try a push");
    // An earlier trial may have been killed, or its refs kept.
    let there = remote
        .ls_remote(&[&lock, &records, &tag])
        .map_err(trying())?;
    let commit = NewCommit {
        base: None,
        parents: Vec::new(),
        changes: BTreeMap::new(),
        deflated: BTreeMap::new(),
        author,
        message: "a trial of `trueup doctor`".to_owned(),
    };
    let commit = site.repository.write_commit(&commit).map_err(trying())?;
    let push = |name: &str, old: Option<ObjectId>, new: Option<ObjectId>| {
        let update = RefUpdate {
            name: name.to_owned(),
            old,
            new,
        };
        match remote.push(&[update]).map_err(trying()) {
            // Another trial is under way.
            Ok(PushOutcome::Published | PushOutcome::LostRace { .. }) => Ok(None),
            Err(error) if is_refusal(&error) => Ok(Some(error)),
            Err(error) => Err(error),
        }
    };
    let mut trial = Trial::default();
    for (name, taken, removed) in [
        (&lock, TrialPush::Lock, Some(TrialPush::Release)),
        // Runs delete no records and no tags.
        (&records, TrialPush::Records, None),
        (&tag, TrialPush::Tag, None),
    ] {
        if let Some(why) = push(name, there.get(name).copied(), Some(commit.0))? {
            trial.refused.push((taken, why));
            continue;
        }
        if let Some(why) = push(name, Some(commit.0), None)? {
            trial.refused.extend(removed.map(|removed| (removed, why)));
            trial.left.push(name.clone());
        }
    }
    Ok(Some(trial))
}
