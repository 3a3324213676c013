//! Checks, as a step starts, that what it relies on still holds: the facts that the plan names, and for the
//! removal of etcd members the guard of etcd once more. A drain that such a removal follows asks it, too: no
//! node is emptied for what would then be refused.
//!
//! Only the preconditions of a step are observed, so that a hundred steps do not observe everything a hundred times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Preconditions;
use crate::backend::{Backends, Look, Order, Pending};
use crate::design::{EtcdCluster, NodeDesign, NodeName};
use crate::guard::quorum;
use crate::guard::{self, Guarded};
use crate::observed::Observations;
use crate::plan::{self, Action, Plan, Precondition, Sources};
use crate::remediation::Share;
use crate::step::{EtcdRemoval, FailureReason, StepIndex, StepKind};

/// The preconditions of the steps of a plan.
pub struct PreconditionChecker {
    plan: Arc<Plan>,
    /// For each step, where its part of `preconditions` begins; and where the last one ends.
    begins: Vec<u32>,
    /// Positions in the plan's list of what it relies on.
    preconditions: Vec<u32>,
    backends: Arc<Backends>,
    clusters: Vec<EtcdCluster>,
    /// All members that the plan removes, by cluster and id, with their nodes.
    leaving: Vec<(NodeName, EtcdRemoval)>,
    /// The removals of etcd members, by their own steps and by the drains before them.
    removals: BTreeMap<usize, usize>,
    /// Where machines are remediated: all machines of the site, with those that have left its design, of which not too many may be
    /// unhealthy.
    all: Vec<Arc<NodeDesign>>,
    max_unhealthy: Share,
    /// Etcd clusters that may end with their machine.
    given_up: BTreeSet<Arc<str>>,
    /// The machines that the plan deploys, of which the policy demands the parts that are expected.
    expected: BTreeMap<NodeName, Arc<NodeDesign>>,
    site: Guarded,
    /// Steps that must not be begun, by their positions, and why.
    refused: BTreeMap<usize, Arc<str>>,
}

impl PreconditionChecker {
    /// The preconditions of the steps of `plan`, observed through `backends`. `applied`: the recorded nodes as they were applied last.
    #[must_use]
    pub fn new(
        plan: Arc<Plan>,
        site: &Guarded,
        applied: &BTreeMap<NodeName, Arc<NodeDesign>>,
        backends: Arc<Backends>,
    ) -> Self {
        // Counted first, so that each step's part of the list is known before it is filled.
        let of_known = || {
            let preconditions = plan.relies_on.iter().zip(0u32..);
            preconditions.flat_map(|(precondition, position)| {
                let steps = precondition.steps.iter().map(|step| step.0 as usize);
                let known = steps.filter(|step| *step < plan.steps.len());
                known.map(move |step| (step, position))
            })
        };
        let mut begins = vec![0; plan.steps.len() + 1];
        for (step, _) in of_known() {
            begins[step + 1] += 1;
        }
        for step in 0..plan.steps.len() {
            begins[step + 1] += begins[step];
        }
        let mut next = begins.clone();
        let mut preconditions = vec![0; begins[plan.steps.len()] as usize];
        for (step, position) in of_known() {
            preconditions[next[step] as usize] = position;
            next[step] += 1;
        }
        let mut leaving = Vec::new();
        let mut removals = BTreeMap::new();
        for (index, step) in plan.steps.iter().enumerate() {
            if let Some(node) = &step.id.node
                && step.id.kind == StepKind::RemoveEtcd
            {
                let members = step.given().etcd_members().iter();
                leaving.extend(members.map(|member| (node.clone(), member.clone())));
                let asking = drain_before(&plan, index).into_iter().chain([index]);
                removals.extend(asking.map(|step| (step, index)));
            }
        }
        Self {
            begins,
            preconditions,
            backends,
            clusters: site.guards().etcd_clusters.clone(),
            leaving,
            removals,
            all: match plan.request.action == Action::Remediate {
                true => {
                    let mut all = applied.clone();
                    all.extend(site.nodes.clone());
                    all.into_values().collect()
                }
                false => Vec::new(),
            },
            max_unhealthy: site
                .guards()
                .policy
                .remediation
                .max_unhealthy(plan.options.remediation.max_unhealthy),
            given_up: plan.options.leaving.destroy_etcd.clone(),
            expected: expected(&plan, site),
            site: site.clone(),
            refused: BTreeMap::new(),
            plan,
        }
    }

    /// The same, and some steps are not begun at all: of those that an earlier process began, only the end is found
    /// out.
    #[must_use]
    pub fn refusing(mut self, refused: BTreeMap<usize, Arc<str>>) -> Self {
        self.refused = refused;
        self
    }

    /// The preconditions of a step.
    fn preconditions(&self, step: StepIndex) -> impl Iterator<Item = &Precondition> + Clone {
        let step = step.0 as usize;
        let range = self.begins[step] as usize..self.begins[step + 1] as usize;
        let positions = self.preconditions[range].iter();
        positions.map(|position| &self.plan.relies_on[*position as usize])
    }

    async fn observe(&self, order: &Order, sources: Sources) -> Observations {
        let nodes: Vec<_> = order.node.iter().cloned().collect();
        let looks = sources.cluster || sources.pods || sources.etcd;
        let look = looks.then_some(Look {
            named_only: !sources.etcd,
            pods: sources.pods,
            etcd: sources.etcd,
            ..Look::default()
        });
        self.backends.see_only(&nodes, sources.machines, look).await
    }

    /// Whether every etcd cluster still bears the removals of a step.
    fn guard(&self, removal: usize, seen: &Observations) -> Result<(), Arc<str>> {
        let removal = &self.plan.steps[removal];
        let Some(node) = &removal.id.node else {
            return Ok(());
        };
        let mut by_cluster: BTreeMap<_, Vec<&EtcdRemoval>> = BTreeMap::new();
        for removal in removal.given().etcd_members() {
            by_cluster
                .entry(&removal.cluster)
                .or_default()
                .push(removal);
        }
        for (name, planned) in by_cluster {
            let designed = self.clusters.iter().find(|cluster| cluster.name == *name);
            let (Some(designed), Some(seen)) = (designed, seen.etcd.get(name)) else {
                return Err(format!("etcd cluster `{name}` could not be observed").into());
            };
            // Nodes that left the design may still have members in it.
            let cluster = quorum::knowing(designed, seen, |live| {
                let mut leaving = self.leaving.iter();
                let of_plan = leaving
                    .find(|(_, removal)| removal.cluster == *name && removal.member_id == live.id);
                of_plan.map(|(node, _)| node.clone())
            });
            let found = quorum::removal(&cluster, seen, node, false);
            let found = found.map_err(|refusal| Arc::from(refusal.to_string()))?;
            let is_planned = |found: &EtcdRemoval| {
                let mut planned = planned.iter();
                planned.any(|planned| {
                    planned.member_id == found.member_id && planned.cluster_id == found.cluster_id
                })
            };
            if let Some(other) = found.iter().find(|found| !is_planned(found)) {
                return Err(format!(
                    "{node} is member {} of etcd cluster `{name}` now, which is not the one that was planned",
                    other.member_id
                )
                .into());
            }
        }
        Ok(())
    }
}

impl PreconditionChecker {
    /// Whether members of etcd clusters are on the machine of an order.
    fn is_member(&self, order: &Order) -> bool {
        let members = self.clusters.iter().flat_map(|cluster| &cluster.members);
        let mut members = members.map(|member| Some(&member.node));
        members.any(|node| node == order.step.id.node.as_ref())
    }

    /// Whether every etcd cluster bears that the machine is away for a while.
    fn tolerates_absence(&self, order: &Order, seen: &Observations) -> Result<(), Arc<str>> {
        let Some(node) = &order.step.id.node else {
            return Ok(());
        };
        let is_here = |cluster: &&EtcdCluster| {
            let mut members = cluster.members.iter();
            members.any(|member| member.node == *node)
        };
        for cluster in self.clusters.iter().filter(is_here) {
            let name = &cluster.name;
            let Some(seen) = seen.etcd.get(name) else {
                return Err(format!("etcd cluster `{name}` could not be observed").into());
            };
            let may_end = self.given_up.contains(name.as_str());
            let bears = quorum::removal(cluster, seen, node, may_end);
            bears.map_err(|refusal| Arc::from(refusal.to_string()))?;
        }
        Ok(())
    }

    /// Whether a machine has the parts that are demanded of it: asked again before it is emptied, before it is taken away,
    /// and before it is deployed, since a new machine shows its parts only once it is prepared.
    async fn has_parts(&self, order: &Order) -> Result<(), Arc<str>> {
        let asks = matches!(
            order.step.id.kind,
            StepKind::Drain | StepKind::Destroy | StepKind::Deploy
        );
        let node = order.step.id.node.as_ref().filter(|_| asks);
        let Some(node) = node.and_then(|name| self.expected.get(name)) else {
            return Ok(());
        };
        let seen = self
            .backends
            .see_only(std::slice::from_ref(node), true, None)
            .await;
        let Some(seen) = seen.nodes.get(&node.name) else {
            return Ok(());
        };
        match guard::unexpected(self.site.guards(), &node.name, seen).first() {
            Some(why) => Err(Arc::from(why.reason.as_str())),
            None => Ok(()),
        }
    }

    /// Whether it is the machine that has failed, and not a common cause. A running remediation is finished
    /// in spite of the others.
    async fn is_the_machine(&self, order: &Order) -> Result<(), Arc<str>> {
        let is_begun = order.step.given().remembered().is_some();
        let Some(node) = order.node.as_ref().filter(|_| !is_begun) else {
            return Ok(());
        };
        let look = Some(Look {
            remediation: true,
            ..Look::default()
        });
        let seen = self.backends.see_only(&self.all, true, look).await;
        let guards = (self.site.guards(), self.max_unhealthy);
        plan::may_remediate(node, &self.all, &seen, guards).map_err(|many| many.to_string().into())
    }
}

/// The machines that a plan deploys, if the policy demands the parts that are expected of them.
fn expected(plan: &Plan, site: &Guarded) -> BTreeMap<NodeName, Arc<NodeDesign>> {
    let mut deployed = BTreeMap::new();
    if site.guards().policy.demands_expected_hardware {
        let steps = plan.steps.iter();
        let steps = steps.filter(|step| step.id.kind == StepKind::Deploy);
        for name in steps.filter_map(|step| step.id.node.as_ref()) {
            if let Some(node) = site.nodes.get(name) {
                deployed.insert(name.clone(), node.clone());
            }
        }
    }
    deployed
}

/// The drain of the node whose etcd members are removed, if the plan has one before that.
fn drain_before(plan: &Plan, removal: usize) -> Option<usize> {
    let node = &plan.steps[removal].id.node;
    let before = |step: usize| {
        let needs = plan.steps[step].needs.iter();
        let mut needs = needs.map(|need| need.step.0 as usize);
        needs.find(|need| *need < step && plan.steps[*need].id.node == *node)
    };
    let mut steps = std::iter::successors(before(removal), |step| before(*step));
    steps.find(|step| plan.steps[*step].id.kind == StepKind::Drain)
}

impl Preconditions for PreconditionChecker {
    fn check<'a>(&'a self, step: StepIndex, order: &'a Order) -> Pending<'a, Result<(), Arc<str>>> {
        Box::pin(async move {
            if let Some(reason) = self.refused.get(&(step.0 as usize)) {
                return Err(reason.clone());
            }
            self.has_parts(order).await?;
            let mut preconditions = self.preconditions(step);
            let removal = self.removals.get(&(step.0 as usize)).copied();
            let mut sources = plan::sources(preconditions.clone());
            let remedies = order.step.id.kind == StepKind::Remediate;
            // A machine that is restarted takes its members along for a while.
            let restarts = order.step.id.kind == StepKind::Service && self.is_member(order);
            sources.etcd |= removal.is_some() || remedies || restarts;
            if sources == Sources::default() {
                return Ok(());
            }
            let seen = self.observe(order, sources).await;
            // A cluster that would break reports it itself, whatever else has changed.
            if let Some(removal) = removal {
                let refused = self.guard(removal, &seen);
                refused.map_err(|refusal| FailureReason::RemoveEtcdError.message(refusal))?;
            }
            let broken = preconditions
                .find_map(|precondition| plan::broken(precondition, &seen, &self.clusters));
            if let Some(broken) = broken {
                return Err(format!("precondition-changed: {broken}").into());
            }
            if remedies || restarts {
                self.tolerates_absence(order, &seen)?;
            }
            if remedies {
                self.is_the_machine(order).await?;
            }
            Ok(())
        })
    }
}
