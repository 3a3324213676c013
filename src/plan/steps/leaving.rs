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
use crate::step::{
    AwaitReadyParameters, CheckEtcdParameters, ClearLabelsParameters, DrainParameters, Parameters,
    RelabelParameters, RemoveEtcdParameters, RemoveFromClusterParameters, ServiceParameters,
    ShutdownKubeletParameters, StepIndex, StepKind, UncordonParameters,
};

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
    draft: &mut StepList,
    inputs: &StepInputs<'_>,
    kind: StepKind,
    item: &Item<'_>,
    leave: &Leave,
    place: &Place<'_>,
) -> NewStep {
    let bounds = Bounds::of(inputs);
    let mut timeout = bounds.of_kind(kind);
    if kind == StepKind::AwaitReady && leave.is_member {
        timeout = timeout.saturating_add(bounds.of_kind(StepKind::CheckEtcd));
    }
    let parameters = parameters(&bounds, kind, item, leave);
    NewStep::new(kind, place.group, Some(item.subject.name))
        .timeout(timeout)
        .standby(place.standby)
        .parameters(parameters.and_then(|parameters| draft.share(parameters)))
}

/// The parameters of such a step.
fn parameters(
    bounds: &Bounds<'_>,
    kind: StepKind,
    item: &Item<'_>,
    leave: &Leave,
) -> Option<Parameters> {
    let node_uid = leave.node_uid.clone();
    let node_is_gone = leave.is_gone;
    let etcd_given_up = leave.given_up.clone();
    let on_drain_timeout = leave.on_drain_timeout;
    let subject = item.subject;
    Some(match kind {
        StepKind::Drain => Parameters::Drain(DrainParameters {
            grace_period: Some(bounds.grace_period()),
            on_drain_timeout,
            etcd_given_up,
            node_uid,
            node_is_gone,
        }),
        StepKind::ClearLabels => Parameters::ClearLabels(ClearLabelsParameters {
            node_uid,
            node_is_gone,
        }),
        StepKind::RemoveFromCluster => Parameters::RemoveFromCluster(RemoveFromClusterParameters {
            on_drain_timeout,
            node_uid,
            node_is_gone,
            machine_is_off: false,
        }),
        StepKind::RemoveEtcd => Parameters::RemoveEtcd(RemoveEtcdParameters {
            etcd_members: leave.etcd.clone(),
            node_uid,
            node_is_gone,
        }),
        StepKind::CheckEtcd => Parameters::CheckEtcd(CheckEtcdParameters {
            etcd_given_up,
            node_uid,
            node_is_gone,
        }),
        StepKind::ShutdownKubelet => Parameters::ShutdownKubelet(ShutdownKubeletParameters {
            etcd_given_up,
            node_uid,
            node_is_gone,
        }),
        StepKind::Uncordon => {
            let after = subject.after;
            let labels = after.and_then(|after| labels_to_set(subject, after, true));
            let RelabelParameters {
                set_labels, backup, ..
            } = labels.map_or_else(RelabelParameters::default, |labels| *labels);
            Parameters::Uncordon(UncordonParameters {
                set_labels,
                node_uid,
                node_is_gone,
                backup,
            })
        }
        StepKind::AwaitReady => {
            let (before, after) = (subject.before, subject.after);
            let before = before.into_iter().flat_map(|before| before.labels.keys());
            let is_gone =
                |key: &&Arc<str>| after.is_some_and(|after| !after.labels.contains_key(*key));
            let is_built = item.work.deploy || leave.serviced;
            let awaited = subject.record.and_then(NodeRecord::awaited_since);
            Parameters::AwaitReady(AwaitReadyParameters {
                remove_labels: before.filter(is_gone).cloned().collect(),
                etcd_members: leave.etcd.clone(),
                members_only: leave.node_uid.is_none() && !leave.joins,
                node_uid,
                backup: subject.record.and_then(NodeRecord::owed).map(Box::new),
                deployed_at: (!is_built).then_some(awaited.unwrap_or_default()),
            })
        }
        _ => return None,
    })
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
            let written = written(draft, inputs, kind, item, leave, place).success(success);
            let step = draft.add(first(written));
            if kind == StepKind::ShutdownKubelet {
                kubelet = Some(step);
            } else {
                success = Some(step);
            }
        }
    }
    if let Some(service) = item.work.service.as_ref().filter(|each| !each.is_live) {
        let parameters = draft.share(ServiceParameters {
            settings: service.settings.clone(),
            kept_parts: service.kept_parts.clone(),
            runbook: service.runbook.clone(),
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
        let written = written(
            draft,
            inputs,
            StepKind::RemoveFromCluster,
            item,
            leave,
            place,
        )
        .success(success)
        .done(kubelet.take());
        success = Some(draft.add(first(written)));
    }
    kubelet.or(success)
}
