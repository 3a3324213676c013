//! The sites that no document defines any more, by their records: a site that was given another name would take its own
//! machines for new ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Failure, Scope, sites};
use crate::design::{NodeName, SiteName};
use crate::plan::FormerSite;
use crate::record::{Phase, Store};
use crate::repository::Repository;

/// How many other sites with records are read for the plan of one among many: each of hundreds would read all others.
pub(super) const AMONG_MANY: usize = 16;

/// The machines among these that a former site has as deployed. If more than `most` other sites have records, none of them is
/// read.
///
/// # Errors
///
/// The refs of the repository cannot be listed.
pub(super) fn former_sites<'n>(
    (repository, own): (&Repository, &SiteName),
    nodes: impl Iterator<Item = &'n NodeName>,
    most: usize,
) -> Result<BTreeMap<NodeName, FormerSite>, Failure> {
    let mut found = BTreeMap::new();
    let mut nodes = nodes.peekable();
    if nodes.peek().is_none() {
        return Ok(found);
    }
    let prefix = repository.ref_prefix()?;
    let refs = repository.refs(&prefix)?;
    let recorded = refs.keys().filter_map(|name| {
        let below = name.strip_prefix(&*prefix)?.strip_prefix('/')?;
        below.strip_suffix("/state")
    });
    let others: Vec<&str> = recorded.filter(|name| *name != own.as_str()).collect();
    if others.is_empty() || others.len() > most {
        return Ok(found);
    }
    // What cannot be read of others keeps no site from its plan.
    let Ok(defined) = sites(repository, &Scope::All, None, None) else {
        return Ok(found);
    };
    let defined: BTreeSet<String> = defined.into_iter().map(|site| site.name).collect();
    let nodes: Vec<&NodeName> = nodes.collect();
    for name in others.into_iter().filter(|name| !defined.contains(*name)) {
        let known = Store::open(repository, &SiteName::from(name)).and_then(|store| {
            let state = store.read()?;
            let records = store.nodes(&state)?;
            Ok((state, records))
        });
        let Ok((state, records)) = known else {
            continue;
        };
        let in_force = state.site.guards_in_force();
        let former = FormerSite {
            name: Arc::from(name),
            asks: in_force.is_some_and(|action| action.policy_asks),
        };
        for node in &nodes {
            let record = records.get(*node);
            if record.is_some_and(|record| record.phase == Phase::Deployed) {
                let known: &mut FormerSite = found
                    .entry((*node).clone())
                    .or_insert_with(|| former.clone());
                // What asks for approvals counts more than what does not.
                if former.asks && !known.asks {
                    *known = former.clone();
                }
            }
        }
    }
    Ok(found)
}
