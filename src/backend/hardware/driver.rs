//! The frame of all hardware drivers: what a step passes through, whatever API moves the machine.
//!
//! A step of the whole site asks nothing of a machine. Any other reaches its machine, proves that it is the
//! one that the document means ([`carry_out`]), and only then asks for anything. A
//! driver fills in how its API does each ([`Driver`], [`StepTarget`]). Levels that must be observed twice have a
//! module of their own (`level`), and so has what provisioners have in common (`provisioner`).

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::proof::{self, Evidence};
use crate::backend::{ActError, Console, Hardware, Holder, NO_CONSOLE, Order, Pending, Probe};
use crate::design::{NodeDesign, NodeName};
use crate::identity::Registry;
use crate::lifecycle::PowerState;
use crate::observed::{
    Fact, LearnedHardware, ListedMachine, ObservedNode, ObservedNodes, RemediationSeen,
};
use crate::step::StepKind;

/// The refusal of a deploy that is to make volumes.
const NO_RAID: &str =
    "its backend makes no RAID volumes: with `mode: report` their Hardware document asks for none";

/// The result of a step, or of a part of it.
pub(super) type Result<T, E = ActError> = std::result::Result<T, E>;

/// Moves machines through one API.
pub(super) trait Driver: Send + Sync {
    /// Observes many nodes; each is in the answer.
    fn observe_nodes(
        &self,
        nodes: &[Arc<NodeDesign>],
    ) -> impl Future<Output = ObservedNodes> + Send;

    /// Lists the machines that the API has ([`Hardware::list`]).
    fn list_machines(&self) -> impl Future<Output = Result<Vec<ListedMachine>>> + Send {
        let text = "this backend cannot list machines";
        std::future::ready(Err(ActError::Permanent(text.into())))
    }

    /// Reads the firmware, the settings and the parts of a machine ([`Hardware::learn`]).
    fn learn_machine(
        &self,
        _node: &NodeDesign,
    ) -> impl Future<Output = Result<LearnedHardware>> + Send {
        let text = "this backend does not show firmware and settings of its machines";
        std::future::ready(Err(ActError::Permanent(text.into())))
    }

    /// The program that shows the serial console of a machine ([`Hardware::console`]).
    fn console_of(&self, _node: &NodeDesign) -> impl Future<Output = Result<Console>> + Send {
        std::future::ready(Err(ActError::Permanent(NO_CONSOLE.into())))
    }

    /// Verifies before a run what does not depend on a machine.
    fn verify_site(&self, order: &Order) -> impl Future<Output = Result<()>> + Send;

    /// Whether a step asks for nothing, since the records alone keep what it sets.
    fn is_kept_by_records(&self, _order: &Order) -> bool {
        false
    }

    /// Whether its deploys make RAID volumes.
    fn makes_raid(&self) -> bool {
        false
    }

    /// How far a step on a machine is.
    fn probe_step(&self, order: &Order, node: &NodeDesign) -> impl Future<Output = Probe> + Send;

    /// Reaches the machine of a node, and carries the step out on it ([`carry_out`]).
    fn act_on(&self, order: &Order, node: &NodeDesign) -> impl Future<Output = Result<()>> + Send;

    /// Takes back what a step has set for its own time ([`Hardware::take_back`]).
    fn take_back_on(
        &self,
        _order: &Order,
        _node: &NodeDesign,
    ) -> impl Future<Output = Result<Probe>> + Send {
        std::future::ready(Ok(Probe::NotBegun))
    }

    /// Waits for what cancelled steps left to be ended ([`Hardware::leave`]).
    fn leave_all(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// The power of a machine as its controller reports it now, if an observation is not ([`Hardware::controller_power`]).
    fn read_controller(
        &self,
        _node: &NodeDesign,
    ) -> impl Future<Output = Option<Fact<PowerState>>> + Send {
        std::future::ready(None)
    }

    /// The holder of the annotations of the remediation of a machine ([`Hardware::holder`]).
    fn remediation_holder<'a>(&'a self, _node: &'a NodeDesign) -> Option<Box<dyn Holder + 'a>> {
        None
    }

    /// The reasons for remediation of machines ([`Hardware::remediations`]).
    fn observe_remediations(
        &self,
        _nodes: &[Arc<NodeDesign>],
    ) -> impl Future<Output = BTreeMap<NodeName, RemediationSeen>> + Send {
        std::future::ready(BTreeMap::new())
    }
}

/// A machine that was reached, for the time of one step.
pub(super) trait StepTarget: Send + Sync {
    /// Observes what distinguishes the machine; `None`: it is not known yet, and each step says itself what
    /// that means.
    fn prove(&mut self, node: &NodeDesign)
    -> impl Future<Output = Result<Option<Evidence>>> + Send;

    /// Does a step.
    fn act(&self, order: &Order, node: &NodeDesign) -> impl Future<Output = Result<()>> + Send;

    /// The last entries of the event log of its controller since a time ago, a line each; none if it has none.
    fn logged_since(&self, _elapsed: Duration) -> impl Future<Output = Vec<String>> + Send {
        std::future::ready(Vec::new())
    }

    /// Ends what was opened to reach it.
    fn leave(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// Carries a step out on a machine that was reached: only if it is the one that the document means.
pub(super) async fn carry_out(
    mut machine: impl StepTarget,
    registry: &Registry,
    order: &Order,
    node: &NodeDesign,
) -> Result<()> {
    let begun = Instant::now();
    let done = async {
        if let Some(evidence) = machine.prove(node).await? {
            proof::admit(registry, order, node, &evidence).await?;
        }
        machine.act(order, node).await
    };
    let mut done = done.await;
    // What is retried, or was not begun, has no failure to be explained.
    if let Err(error @ (ActError::Permanent(_) | ActError::Ambiguous(_))) = done {
        let logged = machine.logged_since(begun.elapsed()).await;
        done = Err(error.map(|text| with_log(text, &logged)));
    }
    machine.leave().await;
    done
}

/// The message of a failure with entries of the event log of the controller, if there are any.
pub(super) fn with_log(text: Arc<str>, logged: &[impl AsRef<str>]) -> Arc<str> {
    if logged.is_empty() {
        return text;
    }
    let logged: Vec<&str> = logged.iter().map(AsRef::as_ref).collect();
    let logged = logged.join("; ");
    Arc::from(format!("{text}; event log of its controller: {logged}"))
}

impl<D: Driver> Hardware for D {
    fn observe<'a>(&'a self, nodes: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
        Box::pin(self.observe_nodes(nodes))
    }

    fn list(&self) -> Pending<'_, Result<Vec<ListedMachine>>> {
        Box::pin(self.list_machines())
    }

    fn learn<'a>(&'a self, node: &'a NodeDesign) -> Pending<'a, Result<LearnedHardware>> {
        Box::pin(self.learn_machine(node))
    }

    fn console<'a>(&'a self, node: &'a NodeDesign) -> Pending<'a, Result<Console>> {
        Box::pin(self.console_of(node))
    }

    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe> {
        match &order.node {
            Some(node) => Box::pin(self.probe_step(order, node)),
            // What is asked for the whole site leaves nothing behind.
            None => Box::pin(std::future::ready(Probe::NotBegun)),
        }
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<()>> {
        match (order.step.id.kind, &order.node) {
            (StepKind::VerifySite, _) => Box::pin(self.verify_site(order)),
            (StepKind::PrepareSite, _) | (_, None) => Box::pin(std::future::ready(Ok(()))),
            (_, Some(_)) if self.is_kept_by_records(order) => Box::pin(std::future::ready(Ok(()))),
            // Its record would claim volumes that are not made; the plan of a machine that was observed is blocked before.
            (StepKind::Deploy, Some(node))
                if !self.makes_raid() && !order.step.given().settings().is_empty() =>
            {
                let text = format!("node `{}`: {NO_RAID}", node.name);
                Box::pin(std::future::ready(Err(ActError::Permanent(text.into()))))
            }
            (_, Some(node)) => Box::pin(self.act_on(order, node)),
        }
    }

    fn take_back<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<Probe>> {
        match &order.node {
            Some(node) => Box::pin(self.take_back_on(order, node)),
            None => Box::pin(std::future::ready(Ok(Probe::NotBegun))),
        }
    }

    fn leave(&self) -> Pending<'_, ()> {
        Box::pin(self.leave_all())
    }

    fn controller_power<'a>(
        &'a self,
        node: &'a NodeDesign,
    ) -> Pending<'a, Option<Fact<PowerState>>> {
        Box::pin(self.read_controller(node))
    }

    fn holder<'a>(&'a self, node: &'a NodeDesign) -> Option<Box<dyn Holder + 'a>> {
        self.remediation_holder(node)
    }

    fn remediations<'a>(
        &'a self,
        nodes: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, RemediationSeen>> {
        Box::pin(self.observe_remediations(nodes))
    }
}

/// Whether a step only sets a flag, which the records can keep.
pub(super) fn is_flag(kind: StepKind) -> bool {
    matches!(
        kind,
        StepKind::SetRetired
            | StepKind::UnsetRetired
            | StepKind::SetMaintenance
            | StepKind::UnsetMaintenance
    )
}

/// The machines that were found and that Hardware documents are about, each with what was observed of it.
pub(super) fn documented<'n, O>(
    nodes: &'n [Arc<NodeDesign>],
    observed: &'n mut ObservedNodes,
    find: impl Fn(&NodeDesign) -> Option<&'n O>,
) -> Vec<(&'n NodeDesign, &'n O, &'n mut ObservedNode)> {
    let has_any = |node: &&Arc<NodeDesign>| node.hardware_sections().next().is_some();
    let nodes = nodes.iter().filter(has_any);
    let nodes: HashMap<_, _> = nodes.map(|node| (&node.name, &**node)).collect();
    let machines = observed.iter_mut().filter_map(|(name, observed)| {
        let node = *nodes.get(name)?;
        Some((node, find(node)?, &mut **observed))
    });
    machines.collect()
}

/// All nodes as unknown, for one reason.
pub(super) fn unknown(nodes: &[Arc<NodeDesign>], why: &str) -> ObservedNodes {
    let unknown = Box::new(ObservedNode::unknown(why));
    let nodes = nodes.iter();
    nodes
        .map(|node| (node.name.clone(), unknown.clone()))
        .collect()
}
