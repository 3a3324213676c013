//! Whether a plan that was made before may still be applied, and if not, everything that speaks against it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::fact::{FactName, FactSubject};
use super::facts::{self, holds};
use super::preconditions::{recorded_nodes, records_digest};
use super::{Plan, Precondition};
use crate::design::{ClusterName, Digest, EtcdCluster, Guards, NodeName, RunId};
use crate::observed::Observations;
use crate::record::NodeRecord;
use crate::reservation::{Reservation, Reservations};
use crate::step::{Effect, StepIndex};

/// How things stand when a plan is to be applied.
#[derive(Clone, Copy)]
pub struct Current<'a> {
    /// The digest of the site's files at the commit that would be applied.
    pub site_digest: &'a Digest,
    /// The guards that hold there.
    pub guards: &'a Guards,
    /// The records and reservations.
    pub recorded: Recorded<'a>,
    /// Today (`YYYY-MM-DD`).
    pub today: &'a str,
    /// The observed state now of the subjects of the plan's preconditions; `None`: the facts are not judged.
    pub observations: Option<&'a Observations>,
}

/// The records and the reservations of a site.
#[derive(Clone, Copy)]
pub struct Recorded<'a> {
    /// The run of the last success.
    pub base_run: Option<&'a RunId>,
    /// All records.
    pub records: &'a BTreeMap<NodeName, NodeRecord>,
    /// The machines that persons work on.
    pub reservations: &'a Reservations,
}

/// One reason why a plan is stale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Staleness {
    /// The documents are others.
    #[error("the site's documents differ from those that were planned")]
    Documents,
    /// Another run succeeded since.
    #[error("the plan starts from {}, and the last success is {} now", run(.planned), run(.found))]
    Base {
        /// The base in the plan.
        planned: Option<RunId>,
        /// The base now.
        found: Option<RunId>,
    },
    /// Another run did something to the nodes that the plan is about.
    #[error("the records of nodes that the plan relies on have changed since it was made{}", changed(.run, .nodes))]
    Records {
        /// The newest run that changed one of them; `None` if none of them has a record any more.
        run: Option<RunId>,
        /// The nodes that it changed.
        nodes: Vec<NodeName>,
    },
    /// A retirement holds today that did not hold on the day that the plan was judged by.
    #[error("a retirement ({reason}) holds from {from} on, and the plan was made as of {as_of}")]
    Retirement {
        /// Its date.
        from: Arc<str>,
        /// Its reason.
        reason: Arc<str>,
        /// The day of the plan.
        as_of: Arc<str>,
    },
    /// A person works on a machine of it.
    #[error("`{node}` {}", .reservation.left_alone(.node))]
    Reserved {
        /// Which machine.
        node: NodeName,
        /// By whom, why and until when.
        reservation: Reservation,
    },
    /// A fact that it relies on does not hold any more.
    #[error("`{fact}` of `{subject}` was {expected} when the plan was made, and is {seen} now")]
    Fact {
        /// About what.
        subject: FactSubject,
        /// Which fact.
        fact: FactName,
        /// The value when the plan was made.
        expected: Arc<str>,
        /// The observed value.
        seen: Arc<str>,
    },
    /// A fact that it relies on cannot be observed.
    #[error(
        "`{fact}` of `{subject}` was {expected} when the plan was made, and cannot be observed now: {reason}"
    )]
    Unseen {
        /// About what.
        subject: FactSubject,
        /// Which fact.
        fact: FactName,
        /// The value when the plan was made.
        expected: Arc<str>,
        /// Why it cannot.
        reason: Arc<str>,
    },
}

impl Plan {
    /// The positions of the steps that do something on a node, by its name and by the one that the plan takes from it; that a
    /// node is observed is no act.
    #[must_use]
    pub fn acting_steps(&self) -> FxHashMap<&NodeName, Vec<usize>> {
        let mut acting: FxHashMap<&NodeName, Vec<usize>> = FxHashMap::default();
        for (position, step) in self.steps.iter().enumerate() {
            if let Some(node) = &step.id.node
                && step.effect != Effect::None
            {
                acting.entry(node).or_default().push(position);
            }
        }
        for step in &self.steps {
            let before = step.given().renamed_from();
            if let (Some(node), Some(before)) = (&step.id.node, before)
                && let Some(own) = acting.get(node).cloned()
            {
                acting.entry(before).or_default().extend(own);
            }
        }
        acting
    }
}

fn run(run: &Option<RunId>) -> String {
    run.as_ref()
        .map_or_else(|| "nothing".to_owned(), |run| format!("run {run}"))
}

/// Nodes that are named in a reason; more are counted.
const NAMED: usize = 5;

fn changed(run: &Option<RunId>, nodes: &[NodeName]) -> String {
    let Some(run) = run else {
        return String::new();
    };
    let names: Vec<&str> = nodes.iter().take(NAMED).map(NodeName::as_str).collect();
    let more = match nodes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(", last by run {run}: {}{more}", names.join(", "))
}

/// The newest run that changed nodes on which a plan relies: the records of these are other ones than the plan was made from.
fn changed_records(plan: &Plan, records: &BTreeMap<NodeName, NodeRecord>) -> Staleness {
    let nodes = recorded_nodes(&plan.steps, records);
    let touched = || nodes.iter().filter_map(|node| records.get(*node));
    let run = touched().map(|record| &record.run).max().cloned();
    let last = touched().filter(|record| Some(&record.run) == run.as_ref());
    let nodes = last.map(|record| record.node.clone()).collect();
    Staleness::Records { run, nodes }
}

/// Every reason why a plan may not be applied; none: it may.
#[must_use]
pub fn stale(plan: &Plan, now: &Current<'_>) -> Vec<Staleness> {
    let mut found = Vec::new();
    if plan.target.site_digest != *now.site_digest {
        found.push(Staleness::Documents);
    }
    found.extend(outdated(plan, now.recorded));
    for retirement in &now.guards.retirements {
        if let Some(from) = &retirement.from
            && retirement.holds_on(now.today)
            && !retirement.holds_on(&plan.options.as_of)
        {
            found.push(Staleness::Retirement {
                from: from.clone(),
                reason: retirement.reason.clone(),
                as_of: plan.options.as_of.clone(),
            });
        }
    }
    if let Some(observations) = now.observations {
        let facts = plan.relies_on.iter();
        let clusters = &now.guards.etcd_clusters;
        found.extend(facts.filter_map(|precondition| broken(precondition, observations, clusters)));
    }
    found
}

/// Returns the reasons that records and reservations give against a plan, wherever it would be applied: nothing but a new plan helps.
#[must_use]
pub fn outdated(plan: &Plan, now: Recorded<'_>) -> Vec<Staleness> {
    let mut found = Vec::new();
    let base = plan.base.as_ref().map(|base| &base.run);
    if base != now.base_run {
        found.push(Staleness::Base {
            planned: base.cloned(),
            found: now.base_run.cloned(),
        });
    }
    if plan.records_digest != records_digest(&plan.steps, now.records) {
        found.push(changed_records(plan, now.records));
    }
    if !now.reservations.nodes.is_empty() {
        let acting = plan.acting_steps();
        let reserved = now.reservations.nodes.iter();
        let reserved = reserved.filter(|(node, _)| acting.contains_key(node));
        found.extend(reserved.map(|(node, reservation)| Staleness::Reserved {
            node: node.clone(),
            reservation: reservation.clone(),
        }));
    }
    found
}

/// Holds a plan that was made now to the facts that a reviewed plan relied on: what speaks against it. Facts about
/// nodes that it does not contain any more are left out, but for flags that were set or taken off since.
///
/// A fact of a machine that cannot be observed just now is no reason against the rest: each step on that machine
/// relies on it, and so fails before it is tried, unless the machine is back by then.
#[must_use]
pub fn hold_to(
    reviewed: &Plan,
    plan: &mut Plan,
    observations: &Observations,
    clusters: &[EtcdCluster],
) -> Vec<Staleness> {
    let mut steps: FxHashMap<&NodeName, Vec<StepIndex>> = FxHashMap::default();
    let mut in_etcd: FxHashSet<&ClusterName> = FxHashSet::default();
    for (position, step) in plan.steps.iter().enumerate() {
        let removals = step.given().etcd_members();
        in_etcd.extend(removals.iter().map(|removal| &removal.cluster));
        if let Some(node) = &step.id.node
            && step.effect != Effect::None
        {
            let index = StepIndex::from_position(position);
            steps.entry(node).or_default().push(index);
        }
    }
    let (mut found, mut unseen) = (Vec::new(), Vec::new());
    for precondition in &reviewed.relies_on {
        let of_node = precondition.subject.node().and_then(|node| steps.get(node));
        let concerns = match &precondition.subject {
            FactSubject::Node(_) => of_node.is_some(),
            FactSubject::Etcd(cluster) => in_etcd.contains(cluster),
        };
        let is_flag = matches!(
            precondition.what.fact,
            FactName::Maintenance | FactName::Protected | FactName::Retired
        );
        let broken = (concerns || is_flag).then(|| broken(precondition, observations, clusters));
        match (broken.flatten(), of_node) {
            (None, _) => {}
            (Some(Staleness::Unseen { .. }), None) if !concerns => {}
            (Some(Staleness::Unseen { .. }), Some(steps)) => unseen.push(Precondition {
                steps: steps[..].into(),
                ..precondition.clone()
            }),
            (Some(broken), _) => found.push(broken),
        }
    }
    plan.relies_on.extend(unseen);
    plan.relies_on.sort_unstable();
    plan.relies_on.dedup();
    found
}

/// The failure of a fact, if it does not hold. The same judgement serves each step as it starts.
#[must_use]
pub fn broken(
    precondition: &Precondition,
    observations: &Observations,
    clusters: &[EtcdCluster],
) -> Option<Staleness> {
    let seen = facts::read(precondition, observations, clusters);
    let (subject, what) = (precondition.subject.clone(), &precondition.what);
    let (fact, expected) = (what.fact, what.expected.clone());
    match seen {
        Ok(seen) if holds(what.relation, &expected, &seen) => None,
        // Flags of a machine that cannot be observed are unreliable.
        Ok(_) if let Some(reason) = facts::blind(&subject, observations) => {
            Some(Staleness::Unseen {
                subject,
                fact,
                expected,
                reason,
            })
        }
        Ok(seen) => Some(Staleness::Fact {
            subject,
            fact,
            expected,
            seen: Arc::from(seen),
        }),
        Err(reason) => Some(Staleness::Unseen {
            reason: Arc::from(reason),
            subject,
            fact,
            expected,
        }),
    }
}
