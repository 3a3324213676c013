//! Warnings before a plan: of a new site that may be a known one under another name, and of nodes that are built of an
//! older revision than the one that is checked out.

use std::collections::BTreeSet;

use super::{Checkout, Failure, Scope, sites};
use crate::design::{Design, NodeName, SiteName};
use crate::diagnostic::counted;
use crate::plan::Action;
use crate::record::{Phase, State, Store};
use crate::repository::CommitId;
use crate::run::since_success;

/// Further sites with records among which it is looked for: in a repository of hundreds of sites each first plan would read
/// all of them.
const MOST: usize = 16;

/// The warnings before a plan for nodes that are built of a commit.
///
/// # Errors
///
/// The history, or the refs of the repository, cannot be read.
pub(super) fn warnings(
    checkout: &Checkout<'_>,
    state: &State,
    design: &Design,
    (action, commit): (Action, Option<CommitId>),
) -> Result<Vec<String>, Failure> {
    let built_of = commit.filter(|_| action == Action::Redeploy);
    let older = match built_of {
        Some(commit) => older_design(checkout, state, commit)?,
        None => None,
    };
    Ok(former_site(checkout, state, design)?
        .into_iter()
        .chain(older)
        .collect())
}

/// The warning that nodes are built of the last success, where commits since have changed the site.
fn older_design(
    checkout: &Checkout<'_>,
    state: &State,
    commit: CommitId,
) -> Result<Option<String>, Failure> {
    let success = state.site.last_success.as_ref();
    let head = checkout.head()?;
    if head == commit || success.is_none_or(|success| *success.revision != *commit.to_string()) {
        return Ok(None);
    }
    let (repository, location) = (checkout.repository, &checkout.location);
    let newer = since_success(
        repository,
        &location.site,
        &location.selection,
        &state.site,
        head,
    )?;
    Ok((!newer.is_empty()).then(|| {
        format!(
            "warning: this builds of {}, the last success, without the {} of the site since; \
             `--target-revision committed` builds of {}",
            commit.short(),
            counted(newer.len(), "commit", "commits"),
            head.short(),
        )
    }))
}

/// The warning before the first plan of a site whose machines another one has deployed that no document defines any more.
///
/// # Errors
///
/// The refs of the repository cannot be listed.
fn former_site(
    checkout: &Checkout<'_>,
    state: &State,
    design: &Design,
) -> Result<Option<String>, Failure> {
    if state.tip.is_some() {
        return Ok(None);
    }
    let (repository, own) = (checkout.repository, &checkout.location.site);
    let prefix = repository.ref_prefix()?;
    let refs = repository.refs(&prefix)?;
    let recorded = refs.keys().filter_map(|name| {
        let below = name.strip_prefix(&*prefix)?.strip_prefix('/')?;
        below.strip_suffix("/state")
    });
    let others: Vec<&str> = recorded.filter(|name| *name != own.as_str()).collect();
    if others.is_empty() || others.len() > MOST {
        return Ok(None);
    }
    // What cannot be read of others keeps no site from its plan.
    let Ok(defined) = sites(repository, &Scope::All, None) else {
        return Ok(None);
    };
    let defined: BTreeSet<String> = defined.into_iter().map(|site| site.name).collect();
    for name in others.into_iter().filter(|name| !defined.contains(*name)) {
        let records = Store::open(repository, &SiteName::from(name))
            .and_then(|store| store.nodes(&store.read()?));
        let Ok(records) = records else { continue };
        let deployed = |node: &&NodeName| {
            let record = records.get(*node);
            record.is_some_and(|record| record.phase == Phase::Deployed)
        };
        let mut nodes = design.nodes.keys().filter(deployed);
        if let Some(first) = nodes.next() {
            let more = match nodes.count() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return Ok(Some(format!(
                "warning: site `{own}` has no records, and those of site `{name}`, which no document defines any more, have \
                 `{first}`{more} as deployed: if it is the same site, give it that name again, or its machines count as new"
            )));
        }
    }
    Ok(None)
}
