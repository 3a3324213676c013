//! The commits between the last site action and the commit that is to be applied.
//!
//! The check for intermediate commits of airship-node-teardown, "Shipyard Tag Releases": a site action
//! that would apply more than the one commit which its caller reviewed is refused. The records, not
//! the tags, hold the commit that the last action applied.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::error::{self, Error};
use crate::design::{Digest, SiteName};
use crate::plan::IntermediateCommit;
use crate::record::SiteState;
use crate::repository::{self, CommitId, CommitSummary, Repository, Selection};

/// Commits whose files are compared with those that were applied, if the applied commit is on another line. Each takes
/// a walk over the files of the site.
const MOST_COMPARED: usize = 50;

/// How the commit to be applied stands to the last site action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum History {
    /// Nothing that touches this site lies between them.
    None,
    /// These commits touch this site and were not applied on their own; the newest first.
    Between(Vec<IntermediateCommit>),
    /// The commit of the last action is not on the first-parent line of the one to be applied.
    Diverged {
        /// The commit of the last action.
        base: CommitId,
        /// The commit to be applied.
        target: CommitId,
    },
    /// The commit of the last action no longer exists: the history was rewritten.
    Gone {
        /// The commit of the last action.
        base: CommitId,
    },
    /// The commit to be applied is older than the last action, which undoes these; the newest first.
    Rollback(Vec<IntermediateCommit>),
}

impl History {
    /// The refusal that it means, if it is one.
    pub(super) fn refusal(self) -> Option<Error> {
        match self {
            Self::None => None,
            Self::Between(commits) => Some(Error::IntermediateCommits { commits }),
            Self::Rollback(undone) => Some(Error::Rollback { undone }),
            Self::Gone { base } => Some(Error::Gone { base: base.short() }),
            Self::Diverged { base, target } => Some(Error::Diverged {
                base: base.short(),
                target: target.short(),
            }),
        }
    }
}

/// Finds the commits on the first-parent line between the last site action (of either result) and
/// `target`, both left out, that touch the selected files. If no action was ever tagged, commits are
/// counted from the first one on.
///
/// A rollback that undoes nothing of this site is [`History::None`].
///
/// # Errors
///
/// The history cannot be read, or this clone does not have it.
pub fn intermediate_commits(
    repository: &Repository,
    site: &SiteName,
    selection: &Selection,
    state: &SiteState,
    target: CommitId,
) -> Result<History, Error> {
    let reading = || error::repository(site, "look for intermediate commits");
    // Where nothing was applied yet all nodes are new, and the plan shows them all.
    let Some(action) = &state.last_action else {
        return Ok(History::None);
    };
    let base: CommitId = action.revision.parse().map_err(|_| Error::Broken {
        what: format!("the record of run {}", action.run),
        reason: format!("`{}` is no commit", action.revision),
    })?;
    let same = || same_files(repository, selection, &action.site_digest, target);
    if is_gone(repository, base).map_err(reading())? {
        return Ok(same().map_err(reading())?.unwrap_or(History::Gone { base }));
    }
    match repository.commits_touching(Some(base), target, selection) {
        Ok(commits) if commits.is_empty() => Ok(History::None),
        Ok(commits) => Ok(History::Between(listed(commits))),
        Err(repository::Error::Diverged { from: base, .. }) => {
            match repository.commits_touching(Some(target), base, selection) {
                Ok(mut undone) => {
                    // The end of this line is the action that is undone first.
                    if repository.touches(base, selection).map_err(reading())? {
                        undone.insert(0, repository.summary(base).map_err(reading())?);
                    }
                    Ok(match undone.is_empty() {
                        true => History::None,
                        false => History::Rollback(listed(undone)),
                    })
                }
                Err(repository::Error::Diverged { .. }) => {
                    let found = same().map_err(reading())?;
                    Ok(found.unwrap_or(History::Diverged { base, target }))
                }
                Err(error) => Err(reading()(error)),
            }
        }
        Err(error) => Err(reading()(error)),
    }
}

/// Finds the commits since the last success that touch the selected files, `target` among them; the newest first.
/// If nothing succeeded before, or elsewhere than on the line of `target`, there are none.
///
/// # Errors
///
/// The history cannot be read, or this clone does not have it.
pub fn since_success(
    repository: &Repository,
    site: &SiteName,
    selection: &Selection,
    state: &SiteState,
    target: CommitId,
) -> Result<Vec<IntermediateCommit>, Error> {
    let reading = || error::repository(site, "look for commits since the last success");
    let base = state.last_success.as_ref();
    let Some(base) = base.and_then(|base| base.revision.parse::<CommitId>().ok()) else {
        return Ok(Vec::new());
    };
    if base == target || is_gone(repository, base).map_err(reading())? {
        return Ok(Vec::new());
    }
    let mut commits = match repository.commits_touching(Some(base), target, selection) {
        Ok(commits) => commits,
        Err(repository::Error::Diverged { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(reading()(error)),
    };
    if repository.touches(target, selection).map_err(reading())? {
        commits.insert(0, repository.summary(target).map_err(reading())?);
    }
    Ok(listed(commits))
}

/// How the target stands to the newest commit on its line that has the files which the last action applied: a merge by
/// squash or rebase has them in another commit. `None`: there is none among the newest.
fn same_files(
    repository: &Repository,
    selection: &Selection,
    applied: &Digest,
    target: CommitId,
) -> Result<Option<History>, repository::Error> {
    let mut line = Vec::new();
    repository.first_parents(target, &mut |commit| {
        line.push(commit.id);
        match line.len() < MOST_COMPARED {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    for commit in line {
        if *repository.digest_at(commit, selection)? == **applied {
            let commits = repository.commits_touching(Some(commit), target, selection)?;
            return Ok(Some(match commits.is_empty() {
                true => History::None,
                false => History::Between(listed(commits)),
            }));
        }
    }
    Ok(None)
}

/// Whether a commit that was fetched if the remote still has it is in no history. A history that was cut off may have it.
fn is_gone(repository: &Repository, commit: CommitId) -> Result<bool, repository::Error> {
    Ok(!repository.has(commit.0)? && !repository.is_shallow()?)
}

fn listed(commits: Vec<CommitSummary>) -> Vec<IntermediateCommit> {
    let commit = |commit: CommitSummary| IntermediateCommit {
        commit: Arc::from(commit.id.to_string()),
        subject: commit.subject,
    };
    commits.into_iter().map(commit).collect()
}
