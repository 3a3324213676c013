//! The deployment groups in the order in which they run (airship-deployment-grouping).
//!
//! Any order that keeps the dependencies is right by the specification. This one is fixed, so that
//! plans can be compared: among the groups that are ready, the first in the document.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};

use super::PlannedGroup;
use super::input::Error;
use crate::design::{GroupName, Guards, NodeName, SuccessCriteria};
use crate::guard::{GroupSize, Guarded};

impl PlannedGroup {
    /// How many of its nodes its criteria are judged over.
    #[must_use]
    pub fn judged(&self) -> usize {
        self.nodes.len().saturating_sub(self.not_deployed.len())
    }

    /// Its criteria, as far as the nodes that they are judged over can meet them.
    #[must_use]
    pub fn criteria(&self) -> SuccessCriteria {
        let mut criteria = self.success_criteria.clone();
        if !self.not_deployed.is_empty() {
            let minimum = criteria.minimum_successful_nodes.as_mut();
            if let (Some(minimum), Ok(judged)) = (minimum, u64::try_from(self.judged())) {
                *minimum = judged.min(*minimum);
            }
        }
        criteria
    }

    /// Returns the part of it on which the size of its waves depends.
    pub(super) fn size(&self) -> GroupSize<'_> {
        GroupSize {
            name: self.name.as_str(),
            nodes: &self.nodes,
            total: self.nodes.len(),
            criteria: &self.success_criteria,
        }
    }
}

/// All groups in run order, retired nodes left out.
///
/// # Errors
///
/// Groups that cannot be put in an order.
pub fn in_order(
    site: &Guarded,
    retired: &FxHashSet<&NodeName>,
) -> Result<Vec<PlannedGroup>, Error> {
    let order = order(site.guards())?;
    let plan = |position: usize| {
        let group = &site.guards().groups[position];
        let all = group.nodes(site);
        let nodes: Vec<_> = all
            .iter()
            .filter(|name| !retired.contains(**name))
            .map(|name| (*name).clone())
            .collect();
        PlannedGroup {
            name: group.name.clone(),
            critical: group.critical,
            depends_on: group.depends_on.clone(),
            success_criteria: group.success_criteria.clone(),
            retired: all.len() - nodes.len(),
            nodes,
            not_deployed: BTreeMap::new(),
            waves: None,
        }
    };
    Ok(order.into_iter().map(plan).collect())
}

/// Kahn's order: positions of groups in the document.
fn order(guards: &Guards) -> Result<Vec<usize>, Error> {
    let groups = &guards.groups;
    let mut positions: FxHashMap<&GroupName, usize> = FxHashMap::default();
    for (position, group) in groups.iter().enumerate() {
        if positions.insert(&group.name, position).is_some() {
            return Err(Error::RepeatedGroup {
                group: group.name.clone(),
            });
        }
    }
    let mut waiting_for = vec![0_usize; groups.len()];
    let mut dependents = vec![Vec::new(); groups.len()];
    for (position, group) in groups.iter().enumerate() {
        for name in &group.depends_on {
            let on = *positions.get(name).ok_or_else(|| Error::UnknownGroup {
                group: group.name.clone(),
                missing: name.clone(),
            })?;
            waiting_for[position] += 1;
            dependents[on].push(position);
        }
    }
    let ready = (0..groups.len()).filter(|position| waiting_for[*position] == 0);
    let mut ready: BinaryHeap<_> = ready.map(Reverse).collect();
    let mut order = Vec::with_capacity(groups.len());
    while let Some(Reverse(position)) = ready.pop() {
        order.push(position);
        for dependent in &dependents[position] {
            waiting_for[*dependent] -= 1;
            if waiting_for[*dependent] == 0 {
                ready.push(Reverse(*dependent));
            }
        }
    }
    if order.len() < groups.len() {
        return Err(circle(guards, &positions, &waiting_for));
    }
    Ok(order)
}

/// A circle among the groups that never became ready: from any of them, backwards along dependencies
/// that never became ready either, until one comes twice.
fn circle(
    guards: &Guards,
    positions: &FxHashMap<&GroupName, usize>,
    waiting_for: &[usize],
) -> Error {
    let stuck = |position: &usize| waiting_for[*position] > 0;
    let mut path: Vec<usize> = Vec::new();
    let mut next = (0..waiting_for.len()).find(stuck);
    while let Some(position) = next {
        if let Some(start) = path.iter().position(|each| *each == position) {
            path.drain(..start);
            break;
        }
        path.push(position);
        let depends_on = guards.groups[position].depends_on.iter();
        next = depends_on
            .filter_map(|name| positions.get(name).copied())
            .find(stuck);
    }
    let groups = path
        .iter()
        .map(|position| guards.groups[*position].name.clone());
    Error::GroupCycle {
        groups: groups.collect(),
    }
}
