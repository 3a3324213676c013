//! Guards that keep a plan from being applied before anything is requested: over the plan, the
//! worktree and the history.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::error::{self, Error};
use super::history::intermediate_commits;
use super::site_repository::SiteRepository;
use crate::design::Digest;
use crate::plan::{Block, Change, Plan};
use crate::record::SiteState;
use crate::repository::{CommitId, LARGEST_FILE, Selection};

/// Checks that a plan may be applied to a commit, and in this order: for a site action, it goes neither back nor to another
/// line of commits without being allowed to; nothing in it is blocked (unless the rest is to be run); for a site action, the
/// worktree is clean if HEAD is applied; the commit has the files that were planned; for a site action, no commits lie between
/// that were not allowed.
///
/// `site_digest` is the digest of the site's files at `commit`. A plan that was made of other files is stale, not refused.
///
/// # Errors
///
/// [`Error::Blocked`], [`Error::Dirty`], [`Error::Stale`], [`Error::IntermediateCommits`],
/// [`Error::Rollback`], [`Error::Diverged`]; the repository cannot be read.
pub fn admit(
    site: &SiteRepository<'_>,
    selection: &Selection,
    state: &SiteState,
    plan: &Plan,
    commit: CommitId,
    site_digest: &Digest,
) -> Result<(), Error> {
    let is_site_action = !plan.request.action.is_targeted();
    // If nothing is done, no commit is left out.
    let is_held =
        is_site_action && !plan.options.allow_intermediate_commits && !plan.finds_nothing();
    let refusal = match is_held {
        true => {
            intermediate_commits(site.repository, &site.name, selection, state, commit)?.refusal()
        }
        false => None,
    };
    // What a plan of an older or another state of the site would do is not to be allowed before it is known that it is meant.
    if let Some(Error::Rollback { .. } | Error::Diverged { .. } | Error::Gone { .. }) = &refusal {
        return refusal.map_or(Ok(()), Err);
    }
    let blocked = blocked(plan);
    if !blocked.is_empty() && !plan.options.skip_blocked {
        let changes = plan.changes.iter().filter(|change| !change.excluded);
        let blocks = changes.filter_map(|change| change.blocked.as_ref());
        return Err(Error::Blocked {
            blocked,
            cause: blocks
                .clone()
                .map(|block| block.cause)
                .min()
                .unwrap_or_default(),
            has_flag: blocks.clone().any(|block| block.flag.is_some()),
            has_rest: plan.carries_any(),
        });
    }
    if is_site_action {
        clean(site, selection, commit)?;
    }
    if *site_digest != plan.target.site_digest {
        let planned = plan.target.revision.as_deref();
        let planned = planned.filter(|planned| **planned != *commit.to_string());
        let planned = planned.map_or_else(String::new, |planned| {
            format!(", those of {}", crate::diagnostic::short_id(planned))
        });
        return Err(Error::Stale {
            site: site.name.clone(),
            reasons: vec![format!(
                "documents: commit {} does not have the files that were planned{planned}{}",
                commit.short(),
                changed_files(site, selection, plan, commit)?
            )],
        });
    }
    refusal.map_or(Ok(()), Err)
}

/// Checks that the worktree is clean, where `HEAD` is applied.
///
/// # Errors
///
/// [`Error::Dirty`]; the repository cannot be read.
pub fn clean(
    site: &SiteRepository<'_>,
    selection: &Selection,
    commit: CommitId,
) -> Result<(), Error> {
    let reading = |attempt| error::repository(&site.name, attempt);
    let repository = site.repository;
    let head = repository.head().map_err(reading("read `HEAD`"))?;
    if head != Some(commit) {
        return Ok(());
    }
    let dirty = repository
        .dirty(selection, LARGEST_FILE)
        .map_err(reading("compare the worktree with `HEAD`"))?;
    if dirty.is_empty() {
        return Ok(());
    }
    Err(Error::Dirty {
        site: site.name.clone(),
        is_filtered: dirty.iter().all(|file| file.filter.is_some()),
        paths: dirty
            .iter()
            .map(|file| match &file.filter {
                Some(filter) => format!("{} ({filter})", file.path),
                None => file.path.to_string(),
            })
            .collect(),
    })
}

/// Files that are named in a reason; more are counted.
const NAMED: usize = 5;

/// The files of a site that are others in a commit than those that were planned, as far as they are known.
fn changed_files(
    site: &SiteRepository<'_>,
    selection: &Selection,
    plan: &Plan,
    commit: CommitId,
) -> Result<String, Error> {
    let repository = site.repository;
    let reading = || error::repository(&site.name, "compare the files of two commits");
    let planned = plan.target.revision.as_ref();
    let planned = planned.and_then(|planned| planned.parse::<CommitId>().ok());
    let (what, paths) = match planned {
        Some(planned) if repository.has(planned.0).map_err(reading())? => {
            let files = |commit| -> Result<BTreeSet<_>, Error> {
                let tree = repository.tree_at(commit, selection).map_err(reading())?;
                let entries = tree.entries.into_iter();
                Ok(entries
                    .map(|file| (file.path, file.mode, file.blob))
                    .collect())
            };
            let (old, new) = (files(planned)?, files(commit)?);
            let differing = old.symmetric_difference(&new);
            let paths: BTreeSet<Arc<str>> = differing.map(|(path, ..)| path.clone()).collect();
            ("these differ", paths)
        }
        _ => {
            let paths = plan.target.dirty.iter().cloned().collect();
            ("the plan was made of files that were not committed", paths)
        }
    };
    if paths.is_empty() {
        return Ok(String::new());
    }
    let named: Vec<&str> = paths.iter().take(NAMED).map(|path| &**path).collect();
    let more = match paths.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Ok(format!("; {what}: {}{more}", named.join(", ")))
}

/// The blocked changes: each reason once, with the first node that has it and how many more do.
fn blocked(plan: &Plan) -> Vec<String> {
    let mut alike: Vec<(&Change, &Block, usize)> = Vec::new();
    let mut position_of: FxHashMap<&str, usize> = FxHashMap::default();
    for change in plan.changes.iter().filter(|change| !change.excluded) {
        let Some(block) = &change.blocked else {
            continue;
        };
        match position_of.get(&*block.reason) {
            Some(position) => alike[*position].2 += 1,
            None => {
                position_of.insert(&block.reason, alike.len());
                alike.push((change, block, 0));
            }
        }
    }
    let reasons = alike.len().saturating_sub(NAMED);
    let left_out = (reasons > 0).then(|| format!("{reasons} more reasons"));
    let named = alike.into_iter().take(NAMED).map(|(first, block, more)| {
        let nodes = match more {
            0 => first.node.to_string(),
            more => format!("{} and {more} more", first.node),
        };
        let way = block.way_out(more + 1);
        let way = way.map_or_else(String::new, |way| format!("; {way}"));
        format!("{nodes}: {}{way}", block.reason_for(more + 1))
    });
    named.chain(left_out).collect()
}
