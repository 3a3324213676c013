//! The effects of an action on a node that was named for it.
//!
//! Naming a node is the allowance. Rules above all flags are above this too: protection, the
//! machine's lifecycle, the capabilities of its backend, quorum, and machines that are down already.

use std::sync::Arc;

use super::accept;
use super::action::{Action, Does, Request};
use super::drift::{labels_to_set, owed};
use super::item::Item;
use super::leave::Leave;
use super::rules::{Retired, Rules};
use super::subject::{Membership, Observation, Subject};
use super::work::Single;
use super::{ChangeKind, Standing};
use crate::lifecycle::{self, Flags, ProvisionState, Verb};
use crate::observed::ClusterNode;
use crate::record::NodeRecord;
use crate::step::{
    CleanParameters, Parameters, SetMaintenanceParameters, SetRetiredParameters, StepKind,
};

/// The label by which kubelets are shut down (airship-node-teardown, spelled so).
const SHUTDOWN_LABEL: &str = "promenade-decomission";

/// The prefix of a flag's reason that no document set: an update leaves it as it is.
pub(super) const BY_HAND: &str = "by hand";

impl<'a> Rules<'a> {
    /// Judges a node by what an action does to it.
    pub(super) fn asked(
        &self,
        request: &Request,
        subject: Subject<'a>,
        retired: Retired<'a>,
    ) -> Item<'a> {
        let action = request.action;
        let mut item = match action.does() {
            Does::Compare | Does::Nothing => Item::new(subject, ChangeKind::None),
            Does::Rebuild => self.rebuild(subject, retired),
            Does::Leave { destroy, delete } => self.take_out(subject, destroy, delete),
            Does::Destroy => only_machine(self.destroy(Item::new(subject, ChangeKind::Destroy))),
            Does::Cluster(kind) => self.on_cluster(subject, kind),
            Does::Machine(kind, verb) => on_machine(request, subject, kind, verb),
            Does::Controller(kind) => self.on_controller(subject, kind),
            Does::Relabel => relabel(subject),
            Does::Remediate => self.remediate(subject, !request.nodes.is_empty()),
            Does::Accept if request.as_is => accept::as_is(request, subject),
            Does::Accept if request.fields.is_empty() => accept::identity(subject, self.records),
            Does::Accept => accept::differences(self, request, subject),
            Does::Forget => forget(subject),
        };
        let name = subject.name;
        let other = self.renames.now(name).or(self.renames.before(name));
        if let Some(other) = other.filter(|_| !matches!(action.does(), Does::Forget)) {
            let reason = format!(
                "by the documents it is the machine of `{other}`, too: an update gives its record the new name first"
            );
            item.block(&reason, None);
        }
        if item.change.kind == ChangeKind::Operation {
            item.change.does = Some(Arc::from(action.as_str()));
        }
        if action != Action::Redeploy {
            item.change.counts_as = subject.standing();
        }
        self.complete(self.preserve(self.hold_back(item, action)))
    }

    fn rebuild(&self, subject: Subject<'a>, retired: Retired<'a>) -> Item<'a> {
        let mut item = Item::new(subject, ChangeKind::Redeploy);
        item.change.counts_as = Standing::Deployed;
        item.redeploy();
        match retired {
            Retired::By(entry) => {
                let reason = format!("it is retired: {}", entry.reason);
                item.block(&reason, None);
            }
            Retired::ByHand => item.block("it is retired", None),
            Retired::NoLonger => item.block(
                "it is retired, by no document any more: the next update takes that back first",
                None,
            ),
            Retired::No => {}
        }
        if subject.after.is_none() {
            item.block(
                "it is not in the design of this revision; another one is named by `--target-revision` (`committed`: \
                 that of the commit that is checked out)",
                None,
            );
        }
        if let Observation::Unknown(why) = subject.seen {
            let reason = format!("it could not be observed: {why}");
            item.block(&reason, None);
        }
        self.leave(item)
    }

    /// It leaves its clusters; its machine is destroyed and its Kubernetes node deleted, if that is asked for.
    fn take_out(&self, subject: Subject<'a>, destroy: bool, delete: bool) -> Item<'a> {
        let item = match destroy {
            true => self.destroy(Item::new(subject, ChangeKind::Destroy)),
            false => Item::new(subject, ChangeKind::Operation),
        };
        let mut item = self.leave(item);
        if let Some(leave) = &mut item.work.leave {
            leave.delete = delete;
            leave.awaits_etcd = !destroy;
        }
        item
    }

    fn destroy(&self, mut item: Item<'a>) -> Item<'a> {
        let subject = item.subject;
        item.change.destructive = true;
        item.change.disks = subject.all_disks();
        item.work.destroy = true;
        if self.gone.contains(subject.name) && matches!(subject.seen, Observation::Unknown(_)) {
            item.because("cannot be reached, so that its disks are not erased");
            if subject.after.is_none() {
                item.because(format!("is not in the design: {}", self.if_gone(subject)));
            }
            item.change.disks.clear();
            item.work.destroy = false;
        } else if let Observation::Unknown(why) = subject.seen {
            let reason = format!("it could not be observed: {why}");
            item.block(&reason, Some("--node-is-gone"));
        }
        let is_retired = item.subject.is_flagged();
        if is_retired {
            item.because("is retired: it ends manageable, and is never available");
        }
        match (self.leaving.forget, is_retired) {
            (true, true) => item.because("its provisioner deletes it afterwards"),
            (true, false) => item.block(
                "`--forget` is for retired machines, and it is not retired",
                None,
            ),
            (false, _) => {}
        }
        item
    }

    /// One step on the cluster.
    fn on_cluster(&self, subject: Subject<'a>, kind: StepKind) -> Item<'a> {
        let mut item = Item::new(subject, ChangeKind::Operation);
        let mut leave = Leave {
            on_drain_timeout: self.leaving.on_drain_timeout,
            only: Some(kind),
            ..Leave::default()
        };
        if self.gone.contains(subject.name) {
            leave.is_gone = self.is_gone(&mut item);
        }
        let node = match subject.membership {
            Membership::In(node) => Some(node),
            _ if matches!(kind, StepKind::RemoveEtcd | StepKind::CheckEtcd) => None,
            Membership::Out => {
                item.because("is no node of the cluster");
                item.show_only();
                return item;
            }
            Membership::Unseen(why) => {
                let reason = format!("the cluster could not be read: {why}");
                item.block_unreadable(&reason, None);
                None
            }
            Membership::NoCluster => {
                item.block("the site's Backends document names no cluster", None);
                None
            }
            Membership::NotAsked => {
                item.block("the cluster was not observed", None);
                None
            }
        };
        leave.node_uid = node.map(|node| node.uid.clone());
        if kind == StepKind::Drain {
            self.block_endless_drain(&mut item, &leave);
        }
        match (kind, node) {
            (StepKind::RemoveFromCluster, Some(node)) => {
                item.change.destructive = true;
                if let Some(why) = still_in_use(subject, node) {
                    item.block(&why, None);
                }
            }
            (StepKind::Uncordon, Some(node))
                if !node.unschedulable && !node.has_own_conditions && owed(subject).is_none() =>
            {
                item.because("is not cordoned");
                item.show_only();
                return item;
            }
            (StepKind::Uncordon, Some(node)) if !node.unschedulable && node.has_own_conditions => {
                item.because("is not cordoned any more, and its conditions still tell of a drain");
            }
            (StepKind::Uncordon, Some(node))
                if node.unschedulable && node.cordoned_by.is_none() =>
            {
                item.block(
                    "it was not cordoned by trueup, which therefore leaves it so: `kubectl uncordon` undoes it",
                    None,
                );
            }
            _ => {}
        }
        item.work.leave = Some(Box::new(leave));
        item
    }

    /// One step on the controller of a machine, which the life of the machine does not forbid.
    fn on_controller(&self, subject: Subject<'a>, kind: StepKind) -> Item<'a> {
        let mut item = Item::new(subject, ChangeKind::Operation);
        match subject.seen {
            Observation::NotAsked => item.block("it was not observed", None),
            Observation::Unknown(why) => {
                let reason = format!("it could not be observed: {why}");
                item.block(&reason, None);
            }
            Observation::Known(..) => {}
        }
        if let Some(other) = self.beside.get(subject.name) {
            let reason = format!(
                "its controller is that of `{other}`, too: the file of that one would have the old password, with which the \
                 account would be locked"
            );
            item.block(&reason, None);
        }
        let parameters = None;
        item.work.single = Some(Box::new(Single { kind, parameters }));
        item
    }

    /// Blocks a machine that must not be torn down or switched off.
    fn hold_back(&self, mut item: Item<'a>, action: Action) -> Item<'a> {
        // A drain is taken back by an uncordon; what else takes it out of its clusters is not.
        let leaves = match action.does() {
            Does::Leave { .. } => true,
            Does::Cluster(kind) => matches!(
                kind,
                StepKind::RemoveEtcd | StepKind::ShutdownKubelet | StepKind::RemoveFromCluster
            ),
            _ => false,
        };
        let stays = leaves && !item.work.destroy;
        if stays {
            item.block_if_protected(self.guards);
        }
        if !item.work.destroy && action != Action::PowerOff {
            return item;
        }
        if action != Action::PowerOff
            && let Some(why) = item.subject.held().or(item.subject.not_to_be_torn_down())
        {
            item.block(&why, None);
        }
        item.block_if_protected(self.guards);
        if action == Action::PowerOff {
            item.work.leave = Some(Box::new(Leave {
                only_judged: true,
                ..Leave::default()
            }));
        }
        item
    }
}

/// A machine is taken away from under nothing.
fn only_machine(mut item: Item<'_>) -> Item<'_> {
    match item.subject.membership {
        Membership::In(node) if !node.unschedulable => item.block(
            "its node in the cluster still takes pods: decommission it first, or tear it down",
            None,
        ),
        Membership::Unseen(why) => {
            let reason = format!("whether it is a node of the cluster could not be read: {why}");
            item.block_unreadable(&reason, None);
        }
        _ => {}
    }
    // Whether it is still a member of an etcd cluster is settled with all nodes.
    item.work.leave = Some(Box::new(Leave {
        only_judged: true,
        ..Leave::default()
    }));
    item
}

/// The labels of the design are set.
fn relabel(subject: Subject<'_>) -> Item<'_> {
    let mut item = Item::new(subject, ChangeKind::Relabel);
    match subject
        .after
        .map(|after| labels_to_set(subject, after, true))
    {
        None => item.block("it is not in the design", None),
        Some(None) => {
            item.because("its labels are as designed");
            item.show_only();
        }
        Some(labels) => item.work.relabel = labels,
    }
    item
}

/// Its record is dropped.
fn forget(subject: Subject<'_>) -> Item<'_> {
    let mut item = Item::new(subject, ChangeKind::Operation);
    match subject.record {
        None => {
            item.because("there is no record of it");
            item.show_only();
        }
        Some(record) => {
            item.because(format!("its record says: {}", record.phase.as_str()));
            if let Some(why) = known_by_record_alone(subject, record) {
                item.block(&why, None);
            }
            item.work.single = Some(Box::new(Single {
                kind: StepKind::Forget,
                parameters: None,
            }));
        }
    }
    item
}

/// The loss of knowledge with the record of a machine that is in the design: the machine could be taken for one that is as
/// designed, or that is in service.
fn known_by_record_alone(subject: Subject<'_>, record: &NodeRecord) -> Option<String> {
    subject.after?;
    let name = subject.name;
    if subject.left_half_done().is_some() {
        return Some(format!(
            "only its record knows that run {} had begun to change it: a redeploy ends that, or, where its operator has looked, \
             `trueup accept {name} --as-is --reason WHY`",
            record.run
        ));
    }
    if record.soaking.is_some() {
        let why = "only its record knows that the soak of its wave is owed, which the next `trueup apply` holds";
        return Some(why.to_owned());
    }
    // One that was torn down is built as a new one is.
    let why = subject.down().filter(|_| !subject.is_torn_down())?;
    Some(format!(
        "it is {why}, and takes its place among the machines out of service by its record"
    ))
}

/// One step on the machine, if its life has it.
fn on_machine<'a>(request: &Request, subject: Subject<'a>, kind: StepKind, verb: Verb) -> Item<'a> {
    let change = match kind {
        StepKind::SetRetired => ChangeKind::Retire,
        StepKind::UnsetRetired => ChangeKind::Unretire,
        _ => ChangeKind::Operation,
    };
    let mut item = Item::new(subject, change);
    match subject.seen {
        Observation::NotAsked => item.block("it was not observed", None),
        Observation::Unknown(why) => {
            let reason = format!("it could not be observed: {why}");
            item.block(&reason, None);
        }
        Observation::Known(node, state) => {
            let flags = Flags {
                retired: node.retired.is_some(),
                maintenance: node.maintenance.is_some(),
                protected: node.protected,
            };
            let goes_first = kind == StepKind::SetRetired && state == ProvisionState::Available;
            match lifecycle::step(state, verb, flags) {
                Err(_) if goes_first => item.because("is available: it goes to manageable first"),
                Err(refusal) => item.block(&refusal.to_string(), None),
                Ok(_) => {}
            }
            if kind == StepKind::Clean
                && request.clean_steps.is_empty()
                && node.cleans_itself
                && let Some(why) = no_automated_cleaning(state, flags.retired)
            {
                item.block(why, None);
            }
        }
    }
    let parameters = match kind {
        StepKind::SetRetired => {
            let reason = request.reason.as_ref();
            let reason = reason.map(|reason| Arc::from(format!("{BY_HAND}: {reason}")));
            let reason = reason.unwrap_or_else(|| Arc::from(BY_HAND));
            item.because(Arc::clone(&reason));
            let reason = Some(reason);
            Some(Parameters::SetRetired(SetRetiredParameters { reason }))
        }
        StepKind::SetMaintenance => {
            let reason = request.reason.clone();
            let reason = reason.unwrap_or_else(|| Arc::from(BY_HAND));
            item.because(Arc::clone(&reason));
            let reason = Some(reason);
            Some(Parameters::SetMaintenance(SetMaintenanceParameters {
                reason,
            }))
        }
        StepKind::Clean => {
            item.change.destructive = true;
            let clean_steps = request.clean_steps.clone();
            let disks = Vec::new();
            Some(Parameters::Clean(CleanParameters { disks, clean_steps }))
        }
        _ => None,
    };
    item.work.single = Some(Box::new(Single { kind, parameters }));
    item
}

/// Why a machine does not run its automated clean steps on demand, if its provisioner runs those on the
/// way to available only; names what is allowed.
fn no_automated_cleaning(state: ProvisionState, retired: bool) -> Option<&'static str> {
    if retired {
        return Some(
            "its automated clean steps run only before `available`, which a retired machine cannot enter; use \
             `clean --step I.S`, or `retire --unset`",
        );
    }
    (state == ProvisionState::CleanFailed).then_some(
        "its cleaning failed, and its provisioner runs no automated clean steps in that state; use \
         `clean --step I.S`, `manage` or, on purpose, `provide`",
    )
}

/// Why a Kubernetes node may not be deleted yet (airship-node-teardown, "Delete Node from Cluster").
fn still_in_use(subject: Subject<'_>, node: &ClusterNode) -> Option<String> {
    if !node.unschedulable {
        return Some("it is not cordoned: drain it first".to_owned());
    }
    if let Some(pods) = subject.pods.filter(|pods| pods.evicted > 0) {
        return Some(format!(
            "it is not drained: pods that a drain evicts are left on it ({})",
            pods.evicted
        ));
    }
    let labels = node.labels.keys();
    let left: Vec<&str> = labels
        .filter(|label| &***label != SHUTDOWN_LABEL && !node.kept_labels.contains(*label))
        .map(|label| &**label)
        .collect();
    (!left.is_empty()).then(|| format!("it still has labels: {}", left.join(", ")))
}
