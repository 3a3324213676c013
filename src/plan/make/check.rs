//! Refusals before a plan is made, and the times of its drains.

use rustc_hash::FxHashSet;

use super::subjects::{has_cluster, membership};
use crate::design::{Guards, NodeName};
use crate::plan::Options;
use crate::plan::action::{Action, Does};
use crate::plan::etcd::Clusters;
use crate::plan::input::{Error, Input};
use crate::plan::subject::Membership;
use crate::step::{Step, StepKind};

/// Whether what was asked for can be planned at all.
pub(super) fn request(
    input: &Input<'_>,
    options: &Options,
    asked: &FxHashSet<&NodeName>,
    clusters: &Clusters<'_>,
) -> Result<(), Error> {
    let action = input.request.action;
    let flags = input.options.forbidden(&input.after.guards().policy);
    if !flags.is_empty() {
        return Err(Error::Forbidden { flags });
    }
    if action.wants_nodes() && asked.is_empty() {
        return Err(Error::NoNodes { action });
    }
    let is_about_etcd = matches!(action, Action::CheckEtcd | Action::RemoveEtcd);
    if is_about_etcd && input.after.guards().etcd_clusters.is_empty() {
        return Err(Error::NoEtcd);
    }
    let is_on_cluster = matches!(action.does(), Does::Cluster(_)) || action == Action::Decommission;
    if is_on_cluster && action != Action::CheckEtcd {
        let has_cluster = has_cluster(input);
        let removes = matches!(action, Action::RemoveEtcd | Action::Decommission);
        let is_out = |name: &&&NodeName| {
            let seen = input.observations.map(|seen| seen.node(name.as_str()));
            let is_out = seen.is_some_and(|seen| match membership(has_cluster, seen) {
                Membership::Out => true,
                Membership::NoCluster => action == Action::RemoveEtcd,
                _ => false,
            });
            // What etcd knows can be taken out of it.
            is_out && !(removes && clusters.of_node(name).next().is_some())
        };
        let mut missing: Vec<NodeName> = asked
            .iter()
            .filter(is_out)
            .map(|name| (**name).clone())
            .collect();
        if !missing.is_empty() {
            missing.sort_unstable();
            return Err(Error::NotInCluster {
                action,
                nodes: missing,
            });
        }
    }
    let given = &options.leaving;
    if given.drain_grace_period.is_some() || given.drain_timeout.is_some() {
        return grace(input.after.guards(), options);
    }
    Ok(())
}

/// Checks the times of the drains of a plan, if it has any.
pub(super) fn grace_of(guards: &Guards, options: &Options, steps: &[Step]) -> Result<(), Error> {
    match steps.iter().any(|step| step.id.kind == StepKind::Drain) {
        true => grace(guards, options),
        false => Ok(()),
    }
}

fn grace(guards: &Guards, options: &Options) -> Result<(), Error> {
    let (given, configured) = (&options.leaving, &guards.configuration);
    let grace = given
        .drain_grace_period
        .unwrap_or(configured.drain_grace_period);
    let timeout = given.drain_timeout.unwrap_or(configured.drain_timeout);
    if grace < timeout {
        return Ok(());
    }
    Err(Error::GracePeriod { grace, timeout })
}
