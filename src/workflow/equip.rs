//! The equipment of a known plan: its documents, the applied designs, and the backends.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AS_APPLIED, Checkout, Client, Failure, FailureKind, Planned};
use super::{allow_applied, applied, choose, identities, recorded, runtime};
use crate::backend::Backends;
use crate::design::{Design, NodeDesign, NodeName};
use crate::plan::Plan;
use crate::record::{NodeRecord, Store};
use crate::repository::CommitId;
use crate::run::{Connection, Interrupted, SiteRepository};
use crate::site::{At, Loader};

/// Refuses documents that were not merged: a commit that is neither checked out nor in the history of what is, nor in
/// that of its upstream.
///
/// # Errors
///
/// It is such a commit, or git fails.
pub fn in_history(checkout: &Checkout<'_>, commit: CommitId) -> Result<(), Failure> {
    let repository = checkout.repository;
    let upstream = repository.resolve("@{upstream}").ok();
    for tip in [Some(checkout.head()?), upstream].into_iter().flatten() {
        if tip == commit || repository.is_ancestor(commit, tip)? {
            return Ok(());
        }
    }
    let text = format!(
        "commit {} is not in the history of the checkout, so its documents are not applied",
        commit.short()
    );
    Err(Failure::new(FailureKind::Guard, text)
        .hint("check out a branch that holds it, and try again"))
}

/// A plan, and what it is carried out with.
pub struct Equipped {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The design to be reached.
    pub design: Arc<Design>,
    /// The designs that were applied last, of the nodes that the plan is about.
    pub applied: BTreeMap<NodeName, Arc<NodeDesign>>,
    /// The runtime of the backends.
    pub runtime: tokio::runtime::Runtime,
    /// The backends.
    pub hardware: Arc<Backends>,
}

impl Planned {
    /// The plan with what it is carried out with. The documents of the site go: a run of a large one needs
    /// the memory that they take.
    ///
    /// # Errors
    ///
    /// The plan was made of what was observed elsewhere.
    pub fn equipped(self) -> Result<Equipped, Failure> {
        let hardware = self.hardware.ok_or_else(|| {
            let text = "a plan made without asking the backends cannot be applied";
            Failure::new(FailureKind::Usage, text).hint("leave `--observed` away")
        })?;
        Ok(Equipped {
            plan: Arc::new(self.plan),
            design: self.site.design,
            applied: self.applied,
            runtime: self.runtime,
            hardware,
        })
    }
}

/// Loads the documents of an interrupted run and finds the equipment of its plan: its design alone stays of
/// them, since a run of a large site needs the memory that the rest takes.
///
/// # Errors
///
/// The records or the documents that they name cannot be read, the run's commit does not have the files that were
/// planned, or a backend is refused.
pub fn equip(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
    interrupted: &Interrupted,
    plan: Plan,
) -> Result<Equipped, Failure> {
    let at = At::Commit(interrupted.commit);
    let location = checkout.location_at(at)?;
    let backends = client.backends(checkout, &location)?;
    let mut loader = checkout.loader()?;
    let documents = loader.load(&location, at, AS_APPLIED)?;
    if documents.digest != plan.target.site_digest {
        let (commit, run) = (interrupted.commit.short(), &interrupted.record.run);
        let text =
            format!("commit {commit} of run {run} does not have the files that were planned");
        return Err(Failure::new(FailureKind::Stale, text));
    }
    let store = Store::open(site.repository, &site.name)?;
    let records = store.nodes(&store.read()?)?;
    backends.identities.record(identities(&records));
    let applied = applied_of((checkout, &mut loader), &records, &plan, &site.connection)?;
    let design = documents.design.clone();
    allow_applied(&backends, &design, &records, &applied);
    Ok(Equipped {
        plan: Arc::new(plan),
        runtime: runtime(&design)?,
        hardware: choose(&mut loader, &documents, &backends)?,
        design,
        applied,
    })
}

/// The designs that were applied last, of the nodes that the plan is about.
fn applied_of(
    (checkout, loader): (&Checkout<'_>, &mut Loader<'_>),
    records: &BTreeMap<NodeName, NodeRecord>,
    plan: &Plan,
    connection: &Connection<'_>,
) -> Result<BTreeMap<NodeName, Arc<NodeDesign>>, Failure> {
    let about: std::collections::BTreeSet<&NodeName> =
        plan.changes.iter().map(|change| &change.node).collect();
    let mut designs: BTreeMap<Arc<str>, Arc<Design>> = BTreeMap::new();
    let mut records = records.clone();
    records.retain(|name, _| about.contains(name));
    for record in records.values() {
        let Some(revision) = &record.revision else {
            continue;
        };
        if !designs.contains_key(revision) {
            let commit = recorded(checkout, connection, revision)?;
            let location = checkout.location_at(At::Commit(commit))?;
            let site = loader.load(&location, At::Commit(commit), AS_APPLIED)?;
            designs.insert(revision.clone(), site.design);
        }
    }
    Ok(applied(&records, &designs))
}
