//! The steps by which a node leaves its clusters and its machine is torn down, and by which it comes back.
//!
//! Each waits for the success of the one before, but for one: stopping the kubelet may fail, since the
//! teardown of the machine stops it too (airship-node-teardown, "Shutdown the kubelet").

use std::sync::Arc;

use super::{NewStep, StepInputs, StepList};
use crate::design::{DeploymentConfiguration, GroupName};
use crate::plan::drift::labels_to_set;
use crate::plan::item::Item;
use crate::plan::leave::Leave;
use crate::plan::options::Leaving;
use crate::record::NodeRecord;
use crate::step::{Parameters, StepIndex, StepKind};

/// Where the steps of one node stand.
pub(super) struct Place<'g> {
    pub(super) group: Option<&'g GroupName>,
    pub(super) standby: bool,
}

/// Outside all groups.
pub(super) const OUTSIDE: Place<'static> = Place {
    group: None,
    standby: false,
};

/// The bounds of the steps, in seconds: the flag's, else the configuration's.
pub(in crate::plan) struct Bounds<'g> {
    leaving: &'g Leaving,
    configuration: &'g DeploymentConfiguration,
}

impl<'g> Bounds<'g> {
    pub(super) fn of(inputs: &StepInputs<'g>) -> Self {
        Self::new(&inputs.options.leaving, &inputs.site.guards().configuration)
    }

    pub(in crate::plan) fn new(
        leaving: &'g Leaving,
        configuration: &'g DeploymentConfiguration,
    ) -> Self {
        Self {
            leaving,
            configuration,
        }
    }

    pub(super) fn grace_period(&self) -> u64 {
        let own = self.configuration.drain_grace_period;
        self.leaving.drain_grace_period.unwrap_or(own)
    }

    /// The bound of a kind of step that moves the cluster; 0 for the others.
    pub(in crate::plan) fn of_kind(&self, kind: StepKind) -> u64 {
        let (flag, own) = match kind {
            StepKind::Drain | StepKind::Uncordon => {
                (self.leaving.drain_timeout, self.configuration.drain_timeout)
            }
            StepKind::ClearLabels => (
                self.leaving.clear_labels_timeout,
                self.configuration.clear_labels_timeout,
            ),
            StepKind::RemoveEtcd => (
                self.leaving.remove_etcd_timeout,
                self.configuration.remove_etcd_timeout,
            ),
            StepKind::CheckEtcd => (
                self.leaving.etcd_ready_timeout,
                self.configuration.etcd_ready_timeout,
            ),
            StepKind::ShutdownKubelet | StepKind::RemoveFromCluster | StepKind::AwaitReady => {
                (None, self.configuration.node_status_timeout)
            }
            _ => (None, 0),
        };
        flag.unwrap_or(own)
    }
}

/// A step on the cluster for a node that leaves it.
pub(super) fn written(
    inputs: &StepInputs<'_>,
    kind: StepKind,
    item: &Item<'_>,
    leave: &Leave,
    place: &Place<'_>,
) -> NewStep {
    let bounds = Bounds::of(inputs);
    let mut parameters = leave.parameters();
    let mut timeout = bounds.of_kind(kind);
    match kind {
        StepKind::Drain => {
            parameters.grace_period = Some(bounds.grace_period());
            parameters.on_drain_timeout = leave.on_drain_timeout;
            parameters.etcd_given_up.clone_from(&leave.given_up);
        }
        StepKind::RemoveFromCluster => parameters.on_drain_timeout = leave.on_drain_timeout,
        StepKind::RemoveEtcd => parameters.etcd_members.clone_from(&leave.etcd),
        StepKind::CheckEtcd | StepKind::ShutdownKubelet => {
            parameters.etcd_given_up.clone_from(&leave.given_up)
        }
        StepKind::Uncordon => {
            let subject = item.subject;
            let labels = subject
                .after
                .and_then(|after| labels_to_set(subject, after, true));
            if let Some(labels) = labels {
                parameters.set_labels.clone_from(&labels.set_labels);
                parameters.backup.clone_from(&labels.backup);
            }
        }
        StepKind::AwaitReady => {
            let (before, after) = (item.subject.before, item.subject.after);
            let before = before.into_iter().flat_map(|before| before.labels.keys());
            let is_gone =
                |key: &&Arc<str>| after.is_some_and(|after| !after.labels.contains_key(*key));
            parameters.remove_labels = before.filter(is_gone).cloned().collect();
            let owed = item.subject.record.and_then(NodeRecord::owed);
            parameters.backup = owed.map(Box::new);
            parameters.etcd_members.clone_from(&leave.etcd);
            parameters.node_is_gone = false;
            parameters.members_only = leave.node_uid.is_none() && !leave.joins;
            if !item.work.deploy && !leave.serviced {
                let awaited = item.subject.record.and_then(NodeRecord::awaited_since);
                parameters.deployed_at = Some(awaited.unwrap_or_default());
            }
            if leave.is_member {
                timeout = timeout.saturating_add(bounds.of_kind(StepKind::CheckEtcd));
            }
        }
        _ => {}
    }
    let parameters = (parameters != Parameters::default()).then(|| Arc::new(parameters));
    NewStep::new(kind, place.group, Some(item.subject.name))
        .timeout(timeout)
        .standby(place.standby)
        .parameters(parameters)
}

/// Tears a node down: it leaves its clusters, its machine is destroyed, its Kubernetes node is deleted.
/// `begin`: the steps that the first one waits for. Returns the last step, whose success the next ones need;
/// `None` if there is nothing to be done.
pub(super) fn tear_down(
    draft: &mut StepList,
    inputs: &StepInputs<'_>,
    item: &Item<'_>,
    place: &Place<'_>,
    begin: impl FnOnce(NewStep) -> NewStep,
) -> Option<StepIndex> {
    let mut begin = Some(begin);
    let mut first = |written: NewStep| match begin.take() {
        Some(begin) => begin(written),
        None => written,
    };
    let mut success = None;
    let mut kubelet = None;
    if let Some(leave) = &item.work.leave {
        for kind in leave.before_machine() {
            let written = written(inputs, kind, item, leave, place).success(success);
            let step = draft.add(first(written));
            if kind == StepKind::ShutdownKubelet {
                kubelet = Some(step);
            } else {
                success = Some(step);
            }
        }
    }
    if let Some(service) = &item.work.service {
        let parameters = draft.share(Parameters {
            settings: service.settings.clone(),
            runbook: service.runbook.clone(),
            ..Parameters::default()
        });
        let written = NewStep::new(StepKind::Service, place.group, Some(item.subject.name))
            .timeout(inputs.site.guards().configuration.deploy_timeout)
            .standby(place.standby)
            .parameters(parameters)
            .success(success);
        success = Some(draft.add(first(written)));
    }
    if item.work.destroy {
        let written = draft
            .destroy(inputs, item, place.group)
            .standby(place.standby)
            .success(success)
            .done(kubelet.take());
        success = Some(draft.add(first(written)));
    }
    if let Some(leave) = &item.work.leave
        && leave.deletes_node()
    {
        let written = written(inputs, StepKind::RemoveFromCluster, item, leave, place)
            .success(success)
            .done(kubelet.take());
        success = Some(draft.add(first(written)));
    }
    kubelet.or(success)
}
