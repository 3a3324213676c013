//! Warnings before a plan: of a new site that may be a known one under another name, and of nodes that are built of an
//! older revision than the one that is checked out.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checkout, Failure, FailureKind, Scope, sites};
use crate::design::{Design, NodeName, SiteName};
use crate::diagnostic::counted;
use crate::plan::{Action, Change, ChangeKind, Plan};
use crate::record::{NodeRecord, Phase, State, Store};
use crate::repository::{CommitId, Repository};
use crate::run::{SiteRepository, since_success};

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
    let (repository, own) = (checkout.repository, &checkout.location.site);
    let former = match state.tip {
        Some(_) => None,
        None => former_site((repository, own), design.nodes.keys())?,
    };
    let former = former.map(|former| {
        format!(
            "warning: site `{own}` has no records, and {}: if it is the same site, give it that name again, or its machines \
             count as new",
            former.describe()
        )
    });
    Ok(former.into_iter().chain(older).collect())
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

/// A site that no document defines any more, whose records have machines of another one as deployed.
struct FormerSite {
    name: String,
    deployed: Vec<NodeName>,
}

impl FormerSite {
    /// That its records have these machines as deployed.
    fn describe(&self) -> String {
        let first = self.deployed.first().map_or("", NodeName::as_str);
        let more = match self.deployed.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "those of site `{}`, which no document defines any more, have `{first}`{more} as deployed",
            self.name
        )
    }
}

/// The former site whose records have some of these machines as deployed.
///
/// # Errors
///
/// The refs of the repository cannot be listed.
fn former_site<'n>(
    (repository, own): (&Repository, &SiteName),
    nodes: impl Iterator<Item = &'n NodeName> + Clone,
) -> Result<Option<FormerSite>, Failure> {
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
        let deployed: Vec<NodeName> = nodes.clone().filter(deployed).cloned().collect();
        if !deployed.is_empty() {
            let name = name.to_owned();
            return Ok(Some(FormerSite { name, deployed }));
        }
    }
    Ok(None)
}

/// Refuses a plan that builds machines of which a former site has records: under another name they would be wiped without
/// the flag that a redeploy needs.
///
/// # Errors
///
/// It does; the refs of the repository cannot be listed.
pub(super) fn builds_none_of_former(
    site: &SiteRepository<'_>,
    (plan, records): (&Plan, &BTreeMap<NodeName, NodeRecord>),
) -> Result<(), Failure> {
    let allowed = &plan.options.allow_redeploy;
    let is_new = |change: &&Change| {
        let is_allowed = allowed.all || allowed.names(&change.node);
        change.kind == ChangeKind::Create
            && !is_allowed
            && !change.is_left_out()
            && !records.contains_key(&change.node)
    };
    let built = plan.changes.iter().filter(is_new);
    let built = built.map(|change| &change.node);
    if built.clone().next().is_none() {
        return Ok(());
    }
    let Some(former) = former_site((site.repository, &site.name), built)? else {
        return Ok(());
    };
    let text = format!(
        "site `{}` has no records of what it would build, and {}",
        site.name,
        former.describe()
    );
    Err(Failure::new(FailureKind::Guard, text).hint(format!(
        "if it is the same site, give it the name `{}` again; `--allow-redeploy` of these machines builds them anew",
        former.name
    )))
}
