//! The effects of each kind of step on a machine and its node: while it runs, when it ends, and
//! its result; or why it is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cluster::{kept, runs_server};
use super::life::DECOMMISSION;
use super::pods::{self, Course, Drain};
use super::rules::permanent;
use super::world::Change;
use super::{
    Deployed, Effect, Machine, MemberRemoved, NodeRestored, Relabelled, Settings, Simulator, Stage,
    clean, etcd, machine, values,
};
use crate::backend::hardware::service::next_rung;
use crate::backend::{ActError, Order};
use crate::design::{ClusterName, NodeDesign};
use crate::guard::api_servers_left;
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::ClusterNode;
use crate::remediation::Backup;
use crate::step::{Actor, FailureReason, Given, OnDrainTimeout, StepKind};

/// How long a drain may take if the step has no bound, in seconds (airship-node-teardown).
const DRAIN_TIMEOUT: u64 = 3600;

/// Whether a step that sets something to a level would change nothing.
pub(super) fn is_at_level(
    settings: &Settings,
    machine: &Machine,
    order: &Order,
    node: &NodeDesign,
) -> bool {
    let given = order.step.given();
    let cluster = machine.cluster.as_ref();
    match order.step.id.kind {
        StepKind::PowerOn => machine.power == PowerState::On,
        StepKind::PowerOff => machine.power == PowerState::Off,
        StepKind::SetRetired => machine.retired.as_ref() == Some(&reason_of(order, "retired")),
        StepKind::UnsetRetired => machine.retired.is_none(),
        StepKind::SetMaintenance => {
            machine.maintenance.as_ref() == Some(&reason_of(order, "maintenance"))
        }
        StepKind::UnsetMaintenance => machine.maintenance.is_none(),
        StepKind::Manage => machine.provision == ProvisionState::Manageable,
        StepKind::Provide => machine.provision == ProvisionState::Available,
        // What an update reports does not count, and what the machine shows does.
        StepKind::Service | StepKind::ServiceLive => {
            machine.power == PowerState::On
                && values::missing(&settings.hardware, order, &node.name, machine).is_none()
        }
        StepKind::Drain => {
            // A cordon of an earlier run is taken over, so that its mark and the records name the same run.
            let is_other = |by: &Arc<str>| **by != *order.run.as_str();
            cluster.is_some_and(|node| {
                let is_taken = !node.cordoned_by.as_ref().is_some_and(is_other);
                is_meant(node, given) && node.unschedulable && is_taken
            }) && pods::left(&settings.cluster, &node.name, machine).is_empty()
        }
        StepKind::Uncordon => {
            given.backup().is_none()
                && cluster.is_some_and(|node| is_meant(node, given) && !node.unschedulable)
        }
        StepKind::ClearLabels => {
            cluster.is_some_and(|node| is_meant(node, given) && labels_to_clear(node).is_empty())
        }
        StepKind::ShutdownKubelet => {
            cluster.is_some_and(|node| is_meant(node, given) && !node.ready)
        }
        StepKind::RemoveFromCluster => cluster.is_none_or(|node| !is_meant(node, given)),
        StepKind::SetOutOfService => {
            machine.out_of_service && cluster.is_some_and(|node| is_meant(node, given))
        }
        StepKind::UnsetOutOfService => !machine.out_of_service,
        StepKind::RemoveEtcd => members_meant(machine, given).is_empty(),
        _ => false,
    }
}

/// Whether the node that a step means was there, and is gone: nothing is left to be emptied, changed or stopped.
pub(super) fn is_gone(order: &Order, machine: &Machine) -> bool {
    let was_there = order.step.given().node_uid().is_some();
    matches!(
        order.step.id.kind,
        StepKind::Drain | StepKind::ClearLabels | StepKind::ShutdownKubelet
    ) && was_there
        && machine.cluster.is_none()
}

/// Whether a node is the one that a step means.
fn is_meant(node: &ClusterNode, given: &dyn Given) -> bool {
    given.node_uid().as_ref().is_none_or(|uid| *uid == node.uid)
}

/// The labels that are to be cleared.
fn labels_to_clear(node: &ClusterNode) -> Vec<Arc<str>> {
    let keys = node.labels.keys();
    keys.filter(|key| !node.kept_labels.contains(*key) && ***key != *DECOMMISSION.0)
        .cloned()
        .collect()
}

/// The members of a machine that a step means: those named, by their ids, else all.
fn members_meant(machine: &Machine, given: &dyn Given) -> Vec<(ClusterName, Arc<str>)> {
    let named = given.etcd_members();
    let all = machine.members.iter();
    all.filter(|(cluster, member)| {
        named.is_empty()
            || named
                .iter()
                .any(|each| each.cluster == **cluster && each.member_id == member.id)
    })
    .map(|(cluster, member)| (cluster.clone(), member.id.clone()))
    .collect()
}

fn reason_of(order: &Order, otherwise: &str) -> Arc<str> {
    let reason = order.step.given().reason().clone();
    reason.unwrap_or_else(|| Arc::from(otherwise))
}

/// The course of a step; or why it is refused.
pub(super) fn course_of(
    simulator: &Simulator,
    change: &Change<'_>,
    order: &Order,
    node: &NodeDesign,
    machine: &Machine,
    step: &str,
) -> Result<Course, ActError> {
    let kind = order.step.id.kind;
    let lasts = u64::try_from(simulator.lasts(kind).as_millis()).unwrap_or(u64::MAX);
    let plain = |effects| Course {
        stages: Vec::new(),
        ends: Some(change.now.saturating_add(lasts)),
        effects,
    };
    match kind {
        StepKind::Clean => clean::course(order, node, machine, change.now, lasts),
        StepKind::Destroy | StepKind::Prepare | StepKind::Provide => {
            let effects = effects_of(simulator, machine, order, node, step)?;
            let lasts = match kind {
                StepKind::Provide => simulator.lasts(StepKind::Clean).as_millis(),
                _ => simulator.lasts(kind).as_millis(),
            };
            let lasts = u64::try_from(lasts).unwrap_or(u64::MAX);
            let mut course = plain(effects);
            course.stages = clean::on_the_way(order, node, machine, change.now, lasts)?;
            if !course.stages.is_empty() {
                course.ends = Some(change.now.saturating_add(lasts));
            }
            Ok(course)
        }
        StepKind::Service | StepKind::ServiceLive => {
            keep_api_server(simulator, change, order, node, machine)?;
            serviced(simulator, order, node, machine, (change.now, lasts, step))
        }
        StepKind::Drain => {
            keep_api_server(simulator, change, order, node, machine)?;
            drain(simulator, change, order, node, machine)
        }
        StepKind::AwaitReady => {
            let owed = machine.cluster.as_ref();
            Ok(plain(
                owed.map_or_else(Vec::new, |cluster| put_back(order, cluster)),
            ))
        }
        StepKind::RemoveEtcd => {
            let mut course = plain(vec![Effect::LeftEtcd]);
            course.stages = removals(simulator, change, order, machine)?;
            Ok(course)
        }
        StepKind::RemoveFromCluster => {
            let mut course = plain(Vec::new());
            let cluster = found(order, node, machine)?;
            course.stages = leftovers(simulator, change, order, node, machine, cluster)?;
            let uid = cluster.uid.clone();
            course.effects.push(Effect::NodeDeleted { uid });
            Ok(course)
        }
        StepKind::SetOutOfService => {
            let cluster = found(order, node, machine)?;
            let mut course = plain(vec![Effect::OutOfService]);
            course.stages = leftovers(simulator, change, order, node, machine, cluster)?;
            Ok(course)
        }
        _ if kind.facts().actor == Actor::Cluster => {
            let cluster = found(order, node, machine)?;
            if kind == StepKind::ShutdownKubelet {
                keep_api_server(simulator, change, order, node, machine)?;
            }
            on_node(order, node, cluster).map(plain)
        }
        _ => effects_of(simulator, machine, order, node, step).map(plain),
    }
}

/// The course of a step that changes only labels, taints and annotations of a node.
fn on_node(
    order: &Order,
    node: &NodeDesign,
    cluster: &ClusterNode,
) -> Result<Vec<Effect>, ActError> {
    Ok(match order.step.id.kind {
        StepKind::Uncordon if cluster.unschedulable && cluster.cordoned_by.is_none() => {
            return permanent(FailureReason::Conflict.message(format_args!(
                "node `{}` was not cordoned by trueup, which therefore leaves it so",
                node.name
            )));
        }
        StepKind::Uncordon => {
            let owed = put_back(order, cluster).into_iter();
            [Effect::Uncordoned].into_iter().chain(owed).collect()
        }
        StepKind::UnsetOutOfService => vec![Effect::InService],
        StepKind::RestoreNode => vec![restored(order, cluster)],
        StepKind::ClearLabels => vec![Effect::LabelsCleared(labels_to_clear(cluster).into())],
        _ => vec![Effect::KubeletStopped],
    })
}

/// Refuses to take a node away with the last API server that is ready, as the real cluster's driver does.
fn keep_api_server(
    simulator: &Simulator,
    change: &Change<'_>,
    order: &Order,
    node: &NodeDesign,
    machine: &Machine,
) -> Result<(), ActError> {
    let settings = &simulator.settings.cluster;
    let given = order.step.given();
    let is_allowed = *given.node_is_gone() || !given.etcd_given_up().is_empty();
    if is_allowed || !settings.has_api_server(&node.name) {
        return Ok(());
    }
    let ready = change
        .machines()
        .filter(|(name, each)| runs_server(settings, name, each))
        .count();
    let here = usize::from(runs_server(settings, &node.name, machine));
    api_servers_left(ready, here).or_else(|why| permanent(FailureReason::Conflict.message(why)))
}

/// Labels, taints and annotations of the node before, as far as a simulated node has them.
fn restored(order: &Order, cluster: &ClusterNode) -> Effect {
    let backup = order.step.given().backup().as_deref();
    let missing = backup.map(|backup| backup.missing_on(&kept(cluster)));
    let missing = missing.unwrap_or_default();
    Effect::NodeRestored(Box::new(NodeRestored {
        labels: missing.labels,
        unschedulable: missing.unschedulable,
    }))
}

/// The labels of the design and those that the node is owed, if a step puts them back.
fn put_back(order: &Order, cluster: &ClusterNode) -> Vec<Effect> {
    let given = order.step.given();
    let mut effects = Vec::new();
    if !given.set_labels().is_empty() && order.step.id.kind == StepKind::Uncordon {
        effects.push(Effect::Relabelled(Box::new(Relabelled {
            set: given.set_labels().iter().cloned().collect(),
            remove: Vec::new(),
        })));
    }
    if let Some(backup) = given.backup() {
        let mut missing = backup.missing_on(&kept(cluster));
        let removed = given.remove_labels();
        missing.labels.retain(|key, _| !removed.contains(key));
        effects.push(Effect::NodeRestored(Box::new(NodeRestored {
            labels: missing.labels,
            unschedulable: false,
        })));
    }
    effects
}

/// The labels that clear-labels takes off a node and the design does not set again; `None`: none.
pub(super) fn taken(order: &Order, cluster: &ClusterNode) -> Option<Backup> {
    let designed = order.node.as_ref().map(|node| &node.labels);
    let labels = labels_to_clear(cluster).into_iter();
    let foreign = labels.filter(|key| designed.is_none_or(|labels| !labels.contains_key(key)));
    let labels: BTreeMap<_, _> = foreign
        .filter_map(|key| {
            let value = cluster.labels.get(&key)?.clone();
            Some((key, value))
        })
        .collect();
    (!labels.is_empty()).then(|| Backup {
        labels,
        ..Backup::default()
    })
}

/// The node that a step means.
fn found<'a>(
    order: &Order,
    node: &NodeDesign,
    machine: &'a Machine,
) -> Result<&'a ClusterNode, ActError> {
    let Some(cluster) = &machine.cluster else {
        let text = format_args!("the cluster has no node `{}`", node.name);
        return permanent(FailureReason::NotFound.message(text));
    };
    if !is_meant(cluster, order.step.given()) {
        return permanent(FailureReason::Conflict.message(format_args!(
            "node `{}` was made anew: its UID is {}, and not the one that is meant",
            node.name, cluster.uid
        )));
    }
    Ok(cluster)
}

fn drain(
    simulator: &Simulator,
    change: &Change<'_>,
    order: &Order,
    node: &NodeDesign,
    machine: &Machine,
) -> Result<Course, ActError> {
    found(order, node, machine)?;
    let given = order.step.given();
    let settings = &simulator.settings.cluster;
    let in_cluster = change.machines().filter(|(_, each)| each.cluster.is_some());
    let healthy = pods::healthy(settings, in_cluster.map(|(name, _)| name));
    let seconds = match order.step.timeout {
        0 => DRAIN_TIMEOUT,
        seconds => seconds,
    };
    // A second before the time of the step is over, so that it can say why.
    let millis = seconds.saturating_mul(1000).saturating_sub(1000).max(1);
    let others = change.machines().filter(|(name, _)| **name != node.name);
    let absences = pods::absences(settings, others, change.now);
    let drain = Drain {
        absences: &absences,
        run: &order.run,
        now: change.now,
        grace: *given.grace_period(),
        deadline: change.now.saturating_add(millis),
        on_timeout: given.on_drain_timeout().unwrap_or(OnDrainTimeout::Fail),
        is_gone: *given.node_is_gone(),
    };
    Ok(drain.course(settings, &node.name, machine, &healthy))
}

/// The members that leave, at once: who asks next sees them gone.
fn removals(
    simulator: &Simulator,
    change: &Change<'_>,
    order: &Order,
    machine: &Machine,
) -> Result<Vec<Stage>, ActError> {
    let mut stages = Vec::new();
    for (cluster, id) in members_meant(machine, order.step.given()) {
        let seats = simulator.seats(&cluster, change.machines(), change.now);
        match etcd::may_remove(&seats, &id) {
            Ok(()) => stages.push(Stage {
                at: change.now,
                effect: Effect::MemberRemoved(Box::new(MemberRemoved { cluster, id })),
            }),
            Err(etcd::Refused::Unhealthy) => {
                let text = format_args!("cluster `{cluster}`: etcdserver: unhealthy cluster");
                return permanent(FailureReason::RemoveEtcdError.message(text));
            }
            Err(etcd::Refused::NoLeader) => {
                let text =
                    format_args!("cluster `{cluster}` does not answer: etcdserver: no leader");
                let message = FailureReason::RemoveEtcdError.message(text);
                return Err(ActError::Passing(message));
            }
        }
    }
    Ok(stages)
}

/// The leftovers of a node that may be deleted with it, and the effects of its deletion.
fn leftovers(
    simulator: &Simulator,
    change: &Change<'_>,
    order: &Order,
    node: &NodeDesign,
    machine: &Machine,
    cluster: &ClusterNode,
) -> Result<Vec<Stage>, ActError> {
    let name = &node.name;
    let given = order.step.given();
    let is_gone = *given.node_is_gone();
    let left = pods::left(&simulator.settings.cluster, name, machine);
    let is_ready = cluster.ready && !simulator.is_silent(name, machine);
    let mut missing = Vec::new();
    if *given.machine_is_off() {
        if is_ready {
            missing.push("it is Ready, so that its machine is not off".to_owned());
        }
    } else if !is_gone {
        if !cluster.unschedulable {
            missing.push("it is not cordoned".to_owned());
        }
        let labels = labels_to_clear(cluster);
        if !labels.is_empty() {
            missing.push(format!("it has the labels {}", labels.join(", ")));
        }
        let forced = *given.on_drain_timeout() == Some(OnDrainTimeout::Continue);
        if !left.is_empty() && !forced {
            missing.push(format!("it is not drained: {} pods are left", left.len()));
        }
    }
    if is_ready && (is_gone || !left.is_empty()) && missing.is_empty() {
        let why = "it is Ready: its kubelet reports, so that its machine is not off";
        missing.push(why.to_owned());
    }
    if !missing.is_empty() {
        return permanent(FailureReason::Conflict.message(format_args!(
            "node `{name}` cannot be removed: {}",
            missing.join("; ")
        )));
    }
    let deleted = left.into_iter().map(Box::new).map(Effect::PodDeleted);
    let at = change.now;
    Ok(deleted.map(|effect| Stage { at, effect }).collect())
}

/// The effects of a step on the machine itself, all at its end.
fn effects_of(
    simulator: &Simulator,
    machine: &Machine,
    order: &Order,
    node: &NodeDesign,
    step: &str,
) -> Result<Vec<Effect>, ActError> {
    let switched_on = (machine.power == PowerState::Off).then_some(Effect::PoweredOn);
    Ok(match order.step.id.kind {
        StepKind::Prepare => switched_on.into_iter().chain([Effect::Prepared]).collect(),
        StepKind::Deploy => deployed(simulator, machine, order, node, step)?,
        StepKind::Destroy => destroyed(machine, order, node)?,
        StepKind::Relabel => relabelled(machine, order, node),
        StepKind::PowerOn => {
            let joins = machine.image.is_some()
                && machine.provision == ProvisionState::Active
                && machine.cluster.is_none()
                && !machine.kubelet_stopped;
            // Its kubelet registers if the cluster has no node of its name.
            let joined = joins.then(|| Effect::NodeJoined {
                uid: machine::uid_of(&node.name, &order.run, step),
            });
            switched_on.into_iter().chain(joined).collect()
        }
        StepKind::PowerOff => vec![Effect::PoweredOff],
        StepKind::SetRetired => vec![Effect::Retired(reason_of(order, "retired"))],
        StepKind::UnsetRetired => vec![Effect::Unretired],
        StepKind::SetMaintenance => {
            vec![Effect::MaintenanceBegan(reason_of(order, "maintenance"))]
        }
        StepKind::UnsetMaintenance => vec![Effect::MaintenanceEnded],
        StepKind::Manage => vec![Effect::Managed],
        StepKind::Provide => vec![Effect::Provided],
        StepKind::RotateBmcPassword => vec![Effect::PasswordChanged],
        _ => Vec::new(),
    })
}

/// The course of a change of firmware and settings: firmware is written while the machine runs, the settings take effect at
/// its one restart.
fn serviced(
    simulator: &Simulator,
    order: &Order,
    node: &NodeDesign,
    machine: &Machine,
    (now, lasts, step): (u64, u64, &str),
) -> Result<Course, ActError> {
    let is_first = machine.ledger.end_of(&order.run, step).is_none();
    let rows = &simulator.settings.hardware;
    let update = values::course(rows, order, &node.name, is_first);
    if let Some(name) = update.refused {
        return permanent(format!(
            "the controller of `{}` refuses `{name}` in place{}",
            node.name,
            next_rung(order, [&*name].into_iter())
        ));
    }
    let later = u64::try_from(update.later.as_millis()).unwrap_or(u64::MAX);
    let lasts = lasts.saturating_add(later);
    if order.step.id.kind == StepKind::ServiceLive {
        let set = [update.firmware, update.settings].into_iter();
        let set = set.filter(|values| !values.is_empty());
        return Ok(Course {
            stages: Vec::new(),
            ends: Some(now.saturating_add(lasts)),
            effects: set
                .map(|values| Effect::HardwareSet(Box::new(values)))
                .chain([Effect::Serviced])
                .collect(),
        });
    }
    let at = |part: u64| now.saturating_add(lasts / 4 * part);
    let mut stages = Vec::new();
    if !update.firmware.is_empty() {
        stages.push(Stage {
            at: at(1),
            effect: Effect::HardwareSet(Box::new(update.firmware)),
        });
    }
    if machine.power == PowerState::On {
        stages.push(Stage {
            at: at(2),
            effect: Effect::PoweredOff,
        });
    }
    let settings = (!update.settings.is_empty()).then(|| Box::new(update.settings));
    let settings = settings.map(Effect::HardwareSet);
    let reported = (!update.vanishes).then_some(Effect::Serviced);
    let ends = [Effect::PoweredOn].into_iter().chain(reported);
    Ok(Course {
        stages,
        ends: Some(now.saturating_add(lasts)),
        effects: settings.into_iter().chain(ends).collect(),
    })
}

/// The volumes that a deploy makes before it writes the system: those that the machine does not have yet.
fn raid(
    simulator: &Simulator,
    machine: &Machine,
    order: &Order,
    node: &NodeDesign,
) -> Result<Option<Effect>, ActError> {
    let rows = &simulator.settings.hardware;
    let made = values::course(rows, order, &node.name, true);
    if let Some(name) = made.refused {
        return permanent(format!(
            "the controller of `{}` refuses `{name}`; no system was written",
            node.name
        ));
    }
    let shown = values::of_machine(rows, &node.name, machine);
    let mut made = made.settings;
    for wanted in values::wanted(order) {
        let before = shown.get(&wanted.name);
        if before == Some(&wanted.value) {
            made.remove(&wanted.name);
        } else if !made.contains_key(&wanted.name) {
            return permanent(format!(
                "`{}` was reported to be made, and its second reading shows {}, not {}; no system was written",
                wanted.name,
                before.map_or("nothing", |before| &**before),
                wanted.value
            ));
        }
    }
    Ok((!made.is_empty()).then(|| Effect::HardwareSet(Box::new(made))))
}

/// The effects of a deploy: it makes volumes, writes disks, switches the machine on, and brings its node and its members.
fn deployed(
    simulator: &Simulator,
    machine: &Machine,
    order: &Order,
    node: &NodeDesign,
    step: &str,
) -> Result<Vec<Effect>, ActError> {
    let preserves = *order.step.given().preserve_local_storage();
    let first = machine.disks.first().map(|disk| disk.name.clone());
    let system = clean::system_disk(machine, node);
    let written = match &*node.disks {
        _ if preserves => system.as_slice(),
        [] => first.as_slice(),
        named => named,
    };
    let mut effects: Vec<Effect> = raid(simulator, machine, order, node)?.into_iter().collect();
    effects.extend(written.iter().cloned().map(Effect::WroteDisk));
    effects.extend((machine.power == PowerState::Off).then_some(Effect::PoweredOn));
    let cluster = &simulator.settings.cluster;
    let join = u64::try_from(cluster.durations.join.as_millis()).unwrap_or(u64::MAX);
    let marker = (&order.run, step);
    let joins = etcd::joins(&cluster.etcd, &node.name, machine, marker, join);
    effects.extend(joins);
    effects.push(Effect::Deployed(Box::new(Deployed {
        image: machine::image_of(node),
        uid: machine::uid_of(&node.name, &order.run, step),
        labels: (&*node.labels).into(),
    })));
    Ok(effects)
}

/// The effects of a teardown: it erases disks, and switches the machine off.
fn destroyed(machine: &Machine, order: &Order, node: &NodeDesign) -> Result<Vec<Effect>, ActError> {
    let given = order.step.given();
    let mut effects = Vec::new();
    for name in given.disks() {
        if !machine.disks.iter().any(|disk| disk.name == *name) {
            return permanent(format!("`{}` has no disk `{name}` to erase", node.name));
        }
    }
    // Erased once: if a clean step does it, that is it.
    if !clean::erases(order) {
        let wiped = clean::disks(order, node, machine);
        effects.extend(wiped.into_iter().map(Effect::WipedDisk));
    }
    effects.extend((machine.power == PowerState::On).then_some(Effect::PoweredOff));
    effects.push(Effect::Destroyed);
    let forgets = *given.forget();
    effects.extend(forgets.then_some(Effect::Forgotten));
    Ok(effects)
}

/// The effects of a change of labels, with the labels to restore.
fn relabelled(machine: &Machine, order: &Order, node: &NodeDesign) -> Vec<Effect> {
    let given = order.step.given();
    let mut effects = vec![Effect::Relabelled(Box::new(Relabelled {
        set: match order.step.parameters {
            Some(_) => given.set_labels().iter().cloned().collect(),
            None => (*node.labels).clone(),
        },
        remove: given.remove_labels().clone(),
    }))];
    let cluster = machine.cluster.as_ref();
    effects.extend(cluster.into_iter().flat_map(|node| put_back(order, node)));
    effects
}
