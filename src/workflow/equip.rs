//! The equipment of a known plan: its documents, the applied designs, and the backends.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::begun_guards::BegunRun;
use super::guarded::GuardScope;
use super::renewed::renewed;
use super::reservations::ReservationRef;
use super::{AS_APPLIED, Approving, Checkout, Client, Failure, FailureKind, Planned};
use super::{allow_applied, applied, choose, identities, if_recorded, runtime};
use crate::backend::Backends;
use crate::design::{Design, Digests, NodeDesign, NodeName};
use crate::guard::Guarded;
use crate::plan::Plan;
use crate::record::{NodeRecord, Store};
use crate::repository::{CommitId, Repository};
use crate::run::{Connection, Interrupted, SiteRepository};
use crate::site::{At, Loader};

/// Ensures that the commit of a run is in this clone, from the remote if it has it: one that was never pushed is in the clone
/// that began the run alone.
///
/// # Errors
///
/// It is nowhere; the remote cannot be asked.
pub(super) fn ensure_commit_is_here(
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    commit: CommitId,
) -> Result<(), Failure> {
    if if_recorded(checkout, connection, &commit.to_string())?.is_some() {
        return Ok(());
    }
    let text = format!(
        "commit {} is not in this clone: its documents cannot be read",
        commit.short()
    );
    let hint = "push it from the clone that has it, and try again; `trueup abort` needs no commit";
    Err(Failure::error(text).hint(hint))
}

/// Refuses documents that were not merged: a commit that is neither checked out nor in the history of what is, nor in
/// that of its upstream, which is asked for if this clone may be behind it.
///
/// # Errors
///
/// It is such a commit, or git fails.
pub fn in_history(
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    commit: CommitId,
) -> Result<(), Failure> {
    let repository = checkout.repository;
    ensure_commit_is_here(checkout, connection, commit)?;
    let holds = |tip: CommitId| {
        if tip == commit {
            return Ok::<_, Failure>(true);
        }
        if let Connection::Shared { remote, .. } = connection {
            remote.deepen(commit, tip)?;
        }
        Ok(repository.is_ancestor(commit, tip)?)
    };
    let upstream = repository.resolve("@{upstream}").ok();
    for tip in [Some(checkout.head()?), upstream].into_iter().flatten() {
        if holds(tip)? {
            return Ok(());
        }
    }
    if let Some(tip) = upstream_there(repository, connection)
        && holds(tip)?
    {
        return Ok(());
    }
    let text = format!(
        "commit {} is not in the history of the checkout, so its documents are not applied",
        commit.short()
    );
    Err(Failure::new(FailureKind::Guard, text)
        .hint("check out a branch that holds it, and try again"))
}

/// The commit that the upstream of the branch has at the remote, with its history; `None` if that does not answer.
fn upstream_there(repository: &Repository, connection: &Connection<'_>) -> Option<CommitId> {
    let Connection::Shared { remote, .. } = connection else {
        return None;
    };
    let branch = repository.branch_there().ok()??;
    let listed = remote.ls_remote(&[&branch]).ok()?;
    let tip = CommitId(*listed.get(&branch)?);
    remote.fetch_commit(tip).ok()?;
    Some(tip)
}

/// A plan, and what it is carried out with.
pub struct Equipped {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The design to be reached, and the guards that hold.
    pub guarded: Guarded,
    /// The designs that were applied last, of the nodes that the plan is about.
    pub applied: BTreeMap<NodeName, Arc<NodeDesign>>,
    /// The runtime of the backends.
    pub runtime: tokio::runtime::Runtime,
    /// The backends.
    pub hardware: Arc<Backends>,
    /// Steps that are found out about and never begun, by their positions, and why.
    pub refused: BTreeMap<usize, Arc<str>>,
    /// The digests by the rules of now of records of earlier ones.
    pub renewed: BTreeMap<NodeName, Digests>,
    /// Whether rules about approvals hold.
    pub is_under_approval: bool,
}

/// The purpose for which a run that has begun is equipped.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// Its steps are carried out, but for some, by their positions, and why. It is held to the guards of now.
    Act(BTreeMap<usize, Arc<str>>),
    /// Nothing acts any more: it is ended, whatever the guards.
    End,
}

impl Equipped {
    /// Refuses to lift the maintenance windows for a run whose plan does not: that was not approved, or is forbidden.
    ///
    /// # Errors
    ///
    /// It is so.
    pub fn may_leave_windows(&self) -> Result<(), Failure> {
        let forbidden = &self.guarded.guards().policy.forbidden_flags;
        let why = match () {
            () if self.plan.options.outside_windows => return Ok(()),
            () if forbidden.contains("outside-windows") => "the policy of the site forbids it",
            () if self.is_under_approval => "approvals of a plan cover only what it asks for",
            () => return Ok(()),
        };
        let text = format!("`--outside-windows` is not in the plan of the run: {why}");
        Err(Failure::new(FailureKind::Guard, text)
            .hint("resume the run inside of a window, or abort it and make a plan with the flag"))
    }
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
            guarded: self.guarded,
            applied: self.applied,
            runtime: self.runtime,
            hardware,
            refused: BTreeMap::new(),
            renewed: self.renewed,
            is_under_approval: self.gate.from().is_some(),
        })
    }
}

/// Loads the documents of an interrupted run and finds the equipment of its plan: its design alone stays of
/// them, since a run of a large site needs the memory that the rest takes.
///
/// # Errors
///
/// The records or the documents that they name cannot be read, the run's commit does not have the files that were
/// planned, or a backend is refused; the guards that hold now refuse the run.
pub fn equip(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
    interrupted: &Interrupted,
    mut plan: Plan,
    purpose: Purpose,
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
    let state = store.read()?;
    let records = store.nodes(&state)?;
    backends.identities.record(identities(&records));
    let (applied, renewed) =
        applied_of((checkout, &mut loader), &records, &plan, &site.connection)?;
    let scope = GuardScope {
        checkout,
        connection: &site.connection,
        request: &plan.request,
        state: &state.site,
        records: &records,
    };
    let resolved = scope.resolve(&mut loader, &documents)?;
    let refused = match purpose {
        Purpose::End => BTreeMap::new(),
        Purpose::Act(mut refused) => {
            let run = BegunRun {
                record: &interrupted.record,
                design: &resolved.guarded,
                applied: &applied,
            };
            let held = resolved.judge_begun(&mut plan, run, Approving::of(client, site))?;
            refused.extend(held);
            refused.extend(reserved(client, site, &plan)?);
            refused
        }
    };
    let guarded = resolved.guarded;
    allow_applied(&backends, &guarded, &records, &applied);
    Ok(Equipped {
        plan: Arc::new(plan),
        runtime: runtime(guarded.guards())?,
        hardware: choose(&mut loader, (&documents, &guarded), &backends)?,
        guarded,
        applied,
        refused,
        renewed,
        is_under_approval: resolved.gate.from().is_some(),
    })
}

/// The steps of a run that has begun on machines that persons have reserved since, by their positions, and why they are not begun.
fn reserved(
    client: &dyn Client,
    site: &SiteRepository<'_>,
    plan: &Plan,
) -> Result<BTreeMap<usize, Arc<str>>, Failure> {
    let now = client.clock().seconds();
    let reservations = ReservationRef::of(site).holding_at(now)?;
    if reservations.nodes.is_empty() {
        return Ok(BTreeMap::new());
    }
    let acting = plan.acting_steps();
    let refused = reservations.nodes.iter().flat_map(|(node, reservation)| {
        let why: Arc<str> = Arc::from(format!("{node} {}", reservation.left_alone(node)));
        let own = acting.get(node).into_iter().flatten();
        own.map(move |position| (*position, why.clone()))
    });
    Ok(refused.collect())
}

/// The designs that were applied last, of the nodes that the plan is about, and the digests by the rules of now of the
/// records of earlier ones.
#[allow(clippy::type_complexity)]
fn applied_of(
    (checkout, loader): (&Checkout<'_>, &mut Loader<'_>),
    records: &BTreeMap<NodeName, NodeRecord>,
    plan: &Plan,
    connection: &Connection<'_>,
) -> Result<
    (
        BTreeMap<NodeName, Arc<NodeDesign>>,
        BTreeMap<NodeName, Digests>,
    ),
    Failure,
> {
    let about: std::collections::BTreeSet<&NodeName> =
        plan.changes.iter().map(|change| &change.node).collect();
    let mut designs: BTreeMap<Arc<str>, Arc<Design>> = BTreeMap::new();
    let wanted = records.values().flat_map(|record| {
        let own = record.revision.as_ref();
        let is_applied = about.contains(&record.node) || record.is_of_earlier_rules();
        let installed = record.installed().filter(|_| record.is_of_earlier_rules());
        own.filter(|_| is_applied).into_iter().chain(installed)
    });
    for revision in wanted {
        if !designs.contains_key(revision) {
            let Some(commit) = if_recorded(checkout, connection, revision)? else {
                continue;
            };
            let location = checkout.location_at(At::Commit(commit))?;
            let site = loader.load(&location, At::Commit(commit), AS_APPLIED)?;
            designs.insert(revision.clone(), site.design);
        }
    }
    let renewed = renewed(records, |revision| {
        designs.get(revision).map(|design| &**design)
    });
    let mut records = records.clone();
    records.retain(|name, _| about.contains(name));
    Ok((applied(&records, &designs), renewed))
}
