//! All backends of a site as one: each order goes to whom its kind is for, and what they saw is put together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::BackendContext;
use super::hardware::sim::{Simulators, SiteClock, taking_part};
use super::{
    ActError, Clock, Cluster, Console, Error, Hardware, Look, Notifier, Order, Pending, Probe,
    cluster, hardware, remediation, soak,
};
use crate::design::{NodeDesign, NodeName, name_problem};
use crate::guard::Guarded;
use crate::identity::{Proof, Registry, Verdict};
use crate::lifecycle::PowerState;
use crate::observed::{
    Capability, ClusterNode, Fact, Inventory, InventoryMachine, LearnedHardware, Observations,
    ObservedNode, ObservedNodes,
};
use crate::step::{Actor, StepKind};

/// Opens the backends of a site.
///
/// # Errors
///
/// Its reach is not trusted, no document names one, a setting does not fit, this build has no such backend, or the file of the
/// simulated site cannot be used.
pub fn choose(site: &Guarded, context: &BackendContext) -> Result<Arc<Backends>, Error> {
    let guards = site.guards();
    context.admit(guards)?;
    let mut simulators = Simulators::new(guards, context)?;
    Ok(Arc::new(Backends {
        notifier: Notifier::open(guards, context)?,
        hardware: hardware::choose(site, context, &mut simulators)?,
        cluster: cluster::choose(guards, context, &mut simulators)?,
        identities: context.identities.clone(),
        simulated: (hardware::clock(guards) == Clock::Virtual).then(|| simulators.clock().clone()),
    }))
}

/// The backends of a site.
pub struct Backends {
    hardware: Arc<dyn Hardware>,
    cluster: Option<Arc<dyn Cluster>>,
    identities: Arc<Registry>,
    /// The time of the site where it is simulated; else it is the real one.
    simulated: Option<Arc<SiteClock>>,
    /// The destinations that are told of its runs.
    notifier: Option<Notifier>,
}

/// The reason for a machine that is in neither design.
const NO_DESIGN: &str = "not found in the design, nor in any revision that its record names, so its controller's address is unknown";

/// The reason if the site has no cluster.
const NO_CLUSTER: &str = "the site's Backends document names no cluster";

impl Backends {
    /// Backends that are at hand already; `cluster`: `None` if the site has none.
    #[must_use]
    pub fn new(hardware: Arc<dyn Hardware>, cluster: Option<Arc<dyn Cluster>>) -> Self {
        Self {
            hardware,
            cluster,
            identities: Arc::default(),
            simulated: None,
            notifier: None,
        }
    }

    /// The destinations that are told of the runs of the site, if the documents name destinations.
    #[must_use]
    pub fn notifier(&self) -> Option<&Notifier> {
        self.notifier.as_ref()
    }

    /// How time passes for them.
    #[must_use]
    pub fn clock(&self) -> Clock {
        match self.simulated {
            Some(_) => Clock::Virtual,
            None => Clock::Real,
        }
    }

    /// Carries steps out in the time of the site, which is that of all processes at it if it is simulated. The runtime
    /// has to be one that calls [`arrived`](super::arrived).
    pub async fn in_time<T>(&self, steps: impl Future<Output = T>) -> T {
        let ended = match &self.simulated {
            Some(clock) => taking_part(clock, steps).await,
            None => steps.await,
        };
        self.hardware.leave().await;
        ended
    }

    /// Which node is known by what.
    #[must_use]
    pub fn identities(&self) -> &Registry {
        &self.identities
    }

    /// Machines that look the same, or differ only in what several boards share, are found when all were
    /// observed.
    fn judge_again(&self, machines: &mut ObservedNodes) {
        let observed = machines.iter_mut();
        for (name, machine) in observed.filter(|(_, machine)| machine.identity.is_some()) {
            let verdict = self.identities.judge_again(name.as_str());
            match verdict.map(Verdict::into_proof) {
                Some(Proof::Refused(why)) if !matches!(machine.proof, Proof::Refused(_)) => {
                    let identity = machine.identity.take();
                    **machine = ObservedNode::refused(&why);
                    machine.identity = identity;
                }
                Some(proof @ Proof::Unverified(_)) if machine.proof.is_proven() => {
                    machine.proof = proof;
                }
                _ => {}
            }
        }
    }

    /// Whether there is a cluster that knows the nodes of Kubernetes.
    fn knows_nodes(&self) -> bool {
        self.cluster.as_ref().is_some_and(|it| it.knows_nodes())
    }

    /// The backend that runs an order: labels are the cluster's if there is one.
    fn actor(&self, order: &Order) -> Actor {
        match order.step.id.kind {
            StepKind::Relabel if self.knows_nodes() => Actor::Cluster,
            kind => kind.facts().actor,
        }
    }

    /// Sees machines, and the cluster that runs on them; `pods_of`: the nodes whose pods are wanted, where
    /// those are not all.
    pub async fn see(
        &self,
        nodes: &[Arc<NodeDesign>],
        look: Look,
        pods_of: Option<&BTreeSet<NodeName>>,
    ) -> Observations {
        self.see_all(nodes, true, Some(look), pods_of).await
    }

    /// All that there is, described by documents or not: reads only.
    ///
    /// # Errors
    ///
    /// The machines cannot be listed.
    pub async fn inventory(&self) -> Result<Inventory, ActError> {
        let mut listed = self.hardware.list().await?;
        listed.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut inventory = Inventory::default();
        let twice = listed
            .windows(2)
            .filter(|pair| pair[0].name == pair[1].name);
        inventory.unusable = twice.map(|pair| pair[0].name.clone()).collect();
        let invalid = listed.iter().filter(|it| name_problem(&it.name).is_some());
        inventory.unusable.extend(invalid.map(|it| it.name.clone()));
        listed.retain(|it| !inventory.unusable.contains(&it.name));
        let candidates = listed.iter().map(|it| {
            let name = NodeName::from(it.name.clone());
            Arc::new(NodeDesign::undescribed(name, it.controller.clone()))
        });
        let candidates: Vec<Arc<NodeDesign>> = candidates.collect();
        let none = BTreeSet::new();
        let cluster = async {
            match self.cluster.as_ref().filter(|_| self.knows_nodes()) {
                Some(cluster) => Some(cluster.observe(&none, Look::default()).await.nodes),
                None => None,
            }
        };
        let (mut machines, nodes) = tokio::join!(self.hardware.observe(&candidates), cluster);
        self.judge_again(&mut machines);
        if let Some(nodes) = nodes {
            match &nodes {
                Fact::Known(nodes) => {
                    let alone = nodes.keys().filter(|name| !machines.contains_key(*name));
                    inventory.nodes_alone = alone.cloned().collect();
                }
                Fact::Unknown(reason) => inventory.cluster_unknown = Some(reason.clone()),
            }
            give_nodes(&mut machines, nodes);
        }
        let observed = listed.into_iter().filter_map(|listed| {
            let observed = machines.remove(&*listed.name)?;
            Some(InventoryMachine { listed, observed })
        });
        inventory.machines = observed.collect();
        Ok(inventory)
    }

    /// Observes `machines`, and the parts of the cluster that `look` names. Other machines
    /// are in the result, too, with the cluster's facts about them.
    pub async fn see_only(
        &self,
        nodes: &[Arc<NodeDesign>],
        machines: bool,
        look: Option<Look>,
    ) -> Observations {
        self.see_all(nodes, machines, look, None).await
    }

    async fn see_all(
        &self,
        nodes: &[Arc<NodeDesign>],
        machines: bool,
        look: Option<Look>,
        pods_of: Option<&BTreeSet<NodeName>>,
    ) -> Observations {
        let names: BTreeSet<NodeName> = nodes.iter().map(|node| node.name.clone()).collect();
        let cluster = async {
            match (&self.cluster, look) {
                (Some(cluster), Some(look)) => {
                    Some(cluster.observe(pods_of.unwrap_or(&names), look).await)
                }
                _ => None,
            }
        };
        let hardware = async {
            // Without a cluster backend, the machines' backends may have the nodes of the cluster.
            let is_about_nodes = look.is_some_and(|look| !look.etcd);
            if machines || (is_about_nodes && !self.knows_nodes()) {
                return self.hardware.observe(nodes).await;
            }
            let unasked = Box::new(ObservedNode::unknown("not asked for"));
            let named = names.iter().map(|name| (name.clone(), unasked.clone()));
            named.collect()
        };
        let remediations = async {
            match look.is_some_and(|look| look.remediation) {
                true => self.hardware.remediations(nodes).await,
                false => BTreeMap::new(),
            }
        };
        let (mut machines, sight, remediation) = tokio::join!(hardware, cluster, remediations);
        self.judge_again(&mut machines);
        let mut seen = Observations {
            remediation,
            ..Observations::default()
        };
        // Without a cluster of its own, the site knows what its machines' backends say.
        if let Some(sight) = sight {
            seen.cluster = sight.facts;
            seen.pods = sight.pods;
            seen.etcd = sight.etcd;
            if self.knows_nodes() {
                give_nodes(&mut machines, sight.nodes);
            }
        }
        seen.nodes = machines;
        seen
    }
}

/// Gives machines the nodes of the cluster, both in the order of their names.
fn give_nodes(machines: &mut ObservedNodes, nodes: Fact<BTreeMap<NodeName, ClusterNode>>) {
    let (nodes, reason) = match nodes {
        Fact::Known(nodes) => (nodes, None),
        Fact::Unknown(reason) => (BTreeMap::new(), Some(reason)),
    };
    let mut nodes = nodes.into_iter().peekable();
    for (name, machine) in machines {
        machine.capabilities.insert(Capability::Relabel);
        while nodes.next_if(|(other, _)| other < name).is_some() {}
        machine.cluster = match &reason {
            None => Fact::Known(nodes.next_if(|(other, _)| other == name).map(|it| it.1)),
            Some(reason) => Fact::Unknown(reason.clone()),
        };
    }
}

impl Hardware for Backends {
    fn observe<'a>(&'a self, nodes: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
        Box::pin(async move { self.see(nodes, Look::default(), None).await.nodes })
    }

    fn learn<'a>(&'a self, node: &'a NodeDesign) -> Pending<'a, Result<LearnedHardware, ActError>> {
        self.hardware.learn(node)
    }

    fn console<'a>(&'a self, node: &'a NodeDesign) -> Pending<'a, Result<Console, ActError>> {
        self.hardware.console(node)
    }

    fn controller_power<'a>(
        &'a self,
        node: &'a NodeDesign,
    ) -> Pending<'a, Option<Fact<PowerState>>> {
        self.hardware.controller_power(node)
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        // A soak that was interrupted begins anew.
        if order.step.id.kind == StepKind::Soak {
            return Box::pin(std::future::ready(Probe::NotBegun));
        }
        match (self.actor(order), &self.cluster) {
            (Actor::Cluster, Some(cluster)) => cluster.probe(order),
            (Actor::Cluster, None) => Box::pin(async { Probe::Ambiguous(Arc::from(NO_CLUSTER)) }),
            (Actor::Dispatcher | Actor::Hardware, _) => self.hardware.probe(order),
            (Actor::Both, _) => Box::pin(std::future::ready(remediation::probe(order))),
        }
    }

    fn take_back<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<Probe, ActError>> {
        match self.actor(order) {
            Actor::Hardware => self.hardware.take_back(order),
            Actor::Dispatcher | Actor::Cluster | Actor::Both => {
                Box::pin(std::future::ready(Ok(Probe::NotBegun)))
            }
        }
    }

    fn leave_cordoned<'a>(&'a self, order: &'a Order) -> Pending<'a, ()> {
        match &self.cluster {
            Some(cluster) => cluster.leave_cordoned(order),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn leave(&self) -> Pending<'_, ()> {
        self.hardware.leave()
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        if order.step.id.kind == StepKind::Soak {
            return Box::pin(soak::await_end(
                order,
                self.cluster.as_deref(),
                &*self.hardware,
            ));
        }
        match (self.actor(order), &self.cluster) {
            (Actor::Cluster, Some(cluster)) => cluster.act(order),
            (Actor::Cluster, None) => {
                Box::pin(async { Err(ActError::Permanent(Arc::from(NO_CLUSTER))) })
            }
            // Never taken for a step of the whole site, which many have nothing to do for.
            (Actor::Hardware, _) if order.node.is_none() && order.step.id.node.is_some() => {
                Box::pin(async { Err(ActError::Permanent(Arc::from(NO_DESIGN))) })
            }
            (Actor::Dispatcher | Actor::Hardware, _) => self.hardware.act(order),
            (Actor::Both, cluster) => {
                Box::pin(remediation::act(order, &*self.hardware, cluster.as_deref()))
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::backend) fn node(uid: &str) -> ClusterNode {
        ClusterNode {
            uid: Arc::from(uid),
            ready: true,
            ..ClusterNode::default()
        }
    }

    #[test]
    fn each_machine_gets_its_own_node_whatever_else_the_cluster_has() {
        let machines = || -> ObservedNodes {
            let unasked = Box::new(ObservedNode::unknown("not asked for"));
            let names = ["b", "c", "e", "f"].map(NodeName::from);
            names.map(|name| (name, unasked.clone())).into()
        };
        let nodes = ["a", "b", "d", "e", "g"].map(|name| (NodeName::from(name), node(name)));
        let mut seen = machines();
        give_nodes(&mut seen, Fact::Known(nodes.into()));
        let uid = |machine: &ObservedNode| {
            let node = machine.cluster.known().expect("it is known");
            node.as_ref().map(|node| node.uid.to_string())
        };
        let uids: Vec<_> = seen.values().map(|machine| uid(machine)).collect();
        assert_eq!(
            uids,
            [Some("b".to_owned()), None, Some("e".to_owned()), None]
        );

        let mut unseen = machines();
        give_nodes(&mut unseen, Fact::Unknown(Arc::from("it does not answer")));
        assert!(unseen.values().all(|each| each.cluster.known().is_none()));
        assert!(
            unseen
                .values()
                .all(|each| each.capabilities.contains(Capability::Relabel))
        );
    }
}
