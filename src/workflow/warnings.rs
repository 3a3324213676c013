//! Warnings before a plan: of a new site that may be a known one under another name, and of nodes that are built of an
//! older revision than the one that is checked out.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checkout, Failure, FailureKind, Scope, sites};
use crate::backend::BackendContext;
use crate::design::{BackendKind, Design, Guards, NodeName, SiteName};
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
        Some(_) => Vec::new(),
        None => former_sites((repository, own), design.nodes.keys())?,
    };
    let former = former.into_iter().next().map(|former| {
        format!(
            "warning: site `{own}` has no records, and {}: if it is the same site, give it that name again, or its machines \
             count as new",
            former.describe()
        )
    });
    Ok(former.into_iter().chain(older).collect())
}

/// The warning that the simulated machines of this clone were never touched, while the records have some as deployed: those
/// are in another clone.
pub(super) fn new_simulation(
    backends: &BackendContext,
    guards: &Guards,
    records: &BTreeMap<NodeName, NodeRecord>,
) -> Option<String> {
    let is_simulated = guards.backends.hardware.kind == BackendKind::Sim;
    if !is_simulated || backends.simulated_state.exists() {
        return None;
    }
    let mut records = records.values();
    let is_deployed = records.any(|record| record.phase == Phase::Deployed);
    is_deployed.then(|| {
        "warning: the records have machines as deployed, and the simulated ones of this clone are new: clones share theirs \
         where `git config trueup.simulatedSites FOLDER` names one folder in each, to which the first moves its own (docs/simulator.md)"
            .to_owned()
    })
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
    /// Whether the policy that is in force there asks for approvals.
    asks: bool,
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

/// The former sites whose records have some of these machines as deployed.
///
/// # Errors
///
/// The refs of the repository cannot be listed.
fn former_sites<'n>(
    (repository, own): (&Repository, &SiteName),
    nodes: impl Iterator<Item = &'n NodeName> + Clone,
) -> Result<Vec<FormerSite>, Failure> {
    let prefix = repository.ref_prefix()?;
    let refs = repository.refs(&prefix)?;
    let recorded = refs.keys().filter_map(|name| {
        let below = name.strip_prefix(&*prefix)?.strip_prefix('/')?;
        below.strip_suffix("/state")
    });
    let others: Vec<&str> = recorded.filter(|name| *name != own.as_str()).collect();
    if others.is_empty() || others.len() > MOST {
        return Ok(Vec::new());
    }
    // What cannot be read of others keeps no site from its plan.
    let Ok(defined) = sites(repository, &Scope::All, None, None) else {
        return Ok(Vec::new());
    };
    let defined: BTreeSet<String> = defined.into_iter().map(|site| site.name).collect();
    let mut found = Vec::new();
    for name in others.into_iter().filter(|name| !defined.contains(*name)) {
        let known = Store::open(repository, &SiteName::from(name)).and_then(|store| {
            let state = store.read()?;
            let records = store.nodes(&state)?;
            Ok((state, records))
        });
        let Ok((state, records)) = known else {
            continue;
        };
        let deployed = |node: &&NodeName| {
            let record = records.get(*node);
            record.is_some_and(|record| record.phase == Phase::Deployed)
        };
        let deployed: Vec<NodeName> = nodes.clone().filter(deployed).cloned().collect();
        if !deployed.is_empty() {
            let in_force = state.site.guards_in_force();
            found.push(FormerSite {
                name: name.to_owned(),
                deployed,
                asks: in_force.is_some_and(|action| action.policy_asks),
            });
        }
    }
    Ok(found)
}

/// Refuses a plan that takes over machines of which a former site has records: under another name they would be wiped
/// without the flag that a redeploy needs, and no approval would be asked for that the former site asks for.
///
/// # Errors
///
/// It does; the refs of the repository cannot be listed.
pub(super) fn takes_none_of_former(
    site: &SiteRepository<'_>,
    (plan, records): (&Plan, &BTreeMap<NodeName, NodeRecord>),
) -> Result<(), Failure> {
    let is_taken = |change: &&Change| {
        matches!(change.kind, ChangeKind::Create | ChangeKind::Adopt)
            && !change.is_left_out()
            && !records.contains_key(&change.node)
    };
    let taken = plan.changes.iter().filter(is_taken);
    if taken.clone().next().is_none() {
        return Ok(());
    }
    let nodes = taken.clone().map(|change| &change.node);
    let former = former_sites((site.repository, &site.name), nodes)?;
    let no_records = |former: &FormerSite| {
        format!(
            "site `{}` has no records of what it would take over, and {}",
            site.name,
            former.describe()
        )
    };
    if let Some(former) = former.iter().find(|former| former.asks) {
        let text = format!(
            "{}, under a policy that asks for approvals",
            no_records(former)
        );
        return Err(Failure::new(FailureKind::Guard, text).hint(format!(
            "give it the name `{}` again; a policy that asks for none is put in force there first, with the approvals of the \
             one that does",
            former.name
        )));
    }
    let allowed = &plan.options.allow_redeploy;
    let is_built = |change: &&Change| {
        change.kind == ChangeKind::Create && !allowed.all && !allowed.names(&change.node)
    };
    let built: BTreeSet<_> = taken.filter(is_built).map(|change| &change.node).collect();
    let built = former.into_iter().find_map(|mut former| {
        former.deployed.retain(|node| built.contains(node));
        (!former.deployed.is_empty()).then_some(former)
    });
    let Some(former) = built else {
        return Ok(());
    };
    Err(Failure::new(FailureKind::Guard, no_records(&former)).hint(format!(
        "if it is the same site, give it the name `{}` again; `--allow-redeploy` of these machines builds them anew",
        former.name
    )))
}
