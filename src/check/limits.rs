//! The limits of the guards on machines that are away at the same time, each over its own machines.
//!
//! A flag stands in place of the numbers of the policy for the whole site or for each group; limits by rack and by tag hold
//! beside any. If nothing gives a number: one machine of the control plane, and of the others ten, a quarter of each
//! group, and what the group's criteria leave.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::interval::Away;
use super::view::View;
use std::sync::Arc;

use crate::design::{FailureDomain, Guards, NodeDesign, NodeName, Share, SuccessCriteria};
use crate::guard::{CONTROL_PLANE_LABELS, CONTROL_PLANE_TAGS, PARALLELISM, REMEDIATIONS};
use crate::lifecycle::PowerState;
use crate::observed::Fact;
use crate::plan::{Action, FactName};
use crate::record::Phase;

/// A limit, and the machines that it is about.
pub(super) struct Limit<'s, 'a> {
    pub(super) what: String,
    pub(super) most: usize,
    pub(super) machines: Vec<&'s Away<'a>>,
    pub(super) is_control_plane: bool,
    /// It is the default for machines outside the control plane.
    pub(super) is_parallelism: bool,
    /// No document gives the number: it makes waves smaller, and lets at least one machine go beside those that are down.
    pub(super) is_at_least_one: bool,
}

impl Limit<'_, '_> {
    /// How many machines may be away beside those that are down. A limit of 0 lets what is down already go alone, and which
    /// machines were down when a run began is not known.
    pub(super) fn left(&self, held: usize, is_observed: bool) -> usize {
        let left = self.most.saturating_sub(held);
        left.max(usize::from(self.is_at_least_one || !is_observed))
    }
}

/// Whether a machine is of the control plane: by a tag, by a label that is not switched off, or as a member of etcd.
pub(super) fn is_control_plane(guards: &Guards, node: &NodeDesign) -> bool {
    let tagged = CONTROL_PLANE_TAGS
        .iter()
        .any(|tag| node.tags.contains(*tag));
    let labelled = CONTROL_PLANE_LABELS.iter().any(|label| {
        let value = node.labels.get(*label);
        value.is_some_and(|value| !matches!(&**value, "disabled" | "false"))
    });
    let mut members = guards
        .etcd_clusters
        .iter()
        .flat_map(|cluster| &cluster.members);
    let elsewhere = guards.policy.elsewhere.get(&node.name);
    let was = elsewhere.is_some_and(|place| place.control_plane);
    tagged || labelled || was || members.any(|member| member.node == node.name)
}

/// The failure domains of a machine, those of another revision among them; one without any is in a domain of its own.
pub(super) fn domains_of(guards: &Guards, node: &NodeDesign) -> Vec<BTreeSet<String>> {
    let domains = &guards.policy.failure_domains;
    let moved = domains.elsewhere.get(&node.name);
    let of = |by: &FailureDomain| {
        let own: Option<&Arc<str>> = match by {
            FailureDomain::Rack => node.rack.as_ref(),
            FailureDomain::Label(label) => node.labels.get(label),
        };
        let moved = moved.into_iter().flatten();
        let moved = moved.filter(|(other, _)| *other == *by);
        let moved = moved.map(|(_, value)| value);
        let mut values: BTreeSet<String> = own
            .into_iter()
            .chain(moved)
            .map(|value| format!("={value}"))
            .collect();
        if values.is_empty() {
            values.insert(node.name.to_string());
        }
        values
    };
    domains.by.iter().map(of).collect()
}

/// Where the number of a limit comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    ControlPlane,
    Parallelism,
    GroupDefault,
}

/// The numbers that hold.
struct Numbers {
    total: Option<usize>,
    percent: Option<u32>,
    one_of_control_plane: bool,
    defaults: bool,
    /// Whether failure domains stand in place of the ten, and of the quarter of a group that is in several.
    by_domain: bool,
}

impl Numbers {
    fn of(view: &View<'_>, guards: &Guards) -> Self {
        let options = &view.plan.options;
        let policy = &guards.policy.max_unavailable;
        let domains = &guards.policy.failure_domains;
        let by_domain = !domains.by.is_empty()
            && !domains.with_default_width
            && view.plan.request.action != Action::Remediate;
        let flag = if view.plan.request.action == Action::Remediate {
            let at_once = options.remediation.max_at_once;
            let at_once = at_once.or(guards.policy.remediation.max_at_once);
            Some(Share::Machines(at_once.unwrap_or(REMEDIATIONS).max(1)))
        } else {
            options.max_unavailable
        };
        match flag {
            Some(Share::Machines(number)) => Self {
                total: Some(number),
                percent: None,
                one_of_control_plane: false,
                defaults: false,
                by_domain,
            },
            Some(Share::Percent(percent)) => Self {
                total: None,
                percent: Some(percent),
                one_of_control_plane: true,
                defaults: false,
                by_domain,
            },
            None => Self {
                total: policy.total,
                percent: policy.percent,
                one_of_control_plane: policy.total.is_none() || policy.defaults.control_plane,
                defaults: policy.total.is_none() && policy.percent.is_none()
                    || policy.defaults.others,
                by_domain,
            },
        }
    }

    /// How many machines of a group may be away together; one at least.
    fn of_group(
        &self,
        nodes: usize,
        criteria: &SuccessCriteria,
        has_quarter: bool,
    ) -> Option<(usize, bool)> {
        let share = self
            .percent
            .map(|percent| nodes * percent.min(100) as usize / 100);
        let share = share.map(|share| share.max(usize::from(self.percent != Some(0))));
        let default = self.defaults.then(|| {
            let percent = criteria.percent_successful_nodes.unwrap_or_default() as usize;
            let minimum = criteria.minimum_successful_nodes.unwrap_or_default();
            let wanted = (percent * nodes).div_ceil(100) as u64;
            let left = (nodes as u64).saturating_sub(wanted.max(minimum));
            let left = left.min(criteria.maximum_failed_nodes.unwrap_or(u64::MAX));
            match has_quarter {
                true => nodes.div_ceil(4).min(left as usize),
                false => left as usize,
            }
        });
        let most = share.into_iter().chain(default).min()?;
        Some((most.max(1), share != Some(most)))
    }
}

/// All limits over machines that are away in a plan.
pub(super) fn all<'s, 'a>(
    view: &View<'a>,
    guards: &'a Guards,
    away: &'s [Away<'a>],
) -> Vec<Limit<'s, 'a>> {
    let numbers = Numbers::of(view, guards);
    let policy = &guards.policy.max_unavailable;
    let mut limits: BTreeMap<String, Limit<'s, 'a>> = BTreeMap::new();
    let mut add = |what: String, most: usize, machine: &'s Away<'a>, kind: Kind| {
        let limit = limits.entry(what.clone()).or_insert_with(|| Limit {
            what,
            most,
            machines: Vec::new(),
            is_control_plane: kind == Kind::ControlPlane,
            is_parallelism: kind == Kind::Parallelism,
            is_at_least_one: kind == Kind::GroupDefault,
        });
        limit.machines.push(machine);
    };
    for machine in away.iter().filter(|away| !away.has_left) {
        if let Some(total) = numbers.total {
            add("of the site".to_owned(), total, machine, Kind::Number);
        }
        let name = machine.node.as_str();
        let Some(node) = view.designed(name).or(view.applied(name)) else {
            continue;
        };
        match is_control_plane(guards, node) {
            true if numbers.one_of_control_plane => {
                add(
                    "of the control plane".to_owned(),
                    1,
                    machine,
                    Kind::ControlPlane,
                );
            }
            false if numbers.defaults && !numbers.by_domain => {
                add(
                    "outside the control plane".to_owned(),
                    PARALLELISM,
                    machine,
                    Kind::Parallelism,
                );
            }
            _ => {}
        }
        let elsewhere = guards.policy.elsewhere.get(&node.name);
        if let Some(most) = policy.per_rack {
            let other = elsewhere.into_iter().flat_map(|place| &place.racks);
            let racks: BTreeSet<_> = node.rack.iter().chain(other).collect();
            for rack in racks {
                add(format!("of rack `{rack}`"), most, machine, Kind::Number);
            }
        }
        for (tag, most) in &policy.by_tag {
            let is_there = elsewhere.is_some_and(|place| place.tags.contains(tag));
            if node.tags.contains(tag) || is_there {
                add(format!("with tag `{tag}`"), *most, machine, Kind::Number);
            }
        }
    }
    by_group(view, guards, &numbers, away, &mut add);
    limits.into_values().collect()
}

/// Adds the limits by deployment group.
fn by_group<'s, 'a>(
    view: &View<'a>,
    guards: &Guards,
    numbers: &Numbers,
    away: &'s [Away<'a>],
    add: &mut impl FnMut(String, usize, &'s Away<'a>, Kind),
) {
    let Some(site) = view
        .site
        .filter(|_| numbers.percent.is_some() || numbers.defaults)
    else {
        return;
    };
    let mut machines: FxHashMap<&NodeName, Vec<&'s Away<'a>>> = FxHashMap::default();
    for machine in away.iter().filter(|away| !away.has_left) {
        machines.entry(machine.node).or_default().push(machine);
    }
    let retired = Retired::of(view);
    for group in &site.guards().groups {
        // The nodes of a plan's own groups are held to the selectors by another rule.
        let planned = view
            .plan
            .groups
            .iter()
            .find(|planned| planned.name == group.name);
        let selected = group.nodes(site).into_iter();
        let selected: Vec<&NodeName> = selected
            .filter(|node| !retired.by_entry.contains(*node))
            .collect();
        let count = planned.map_or(selected.len(), |planned| planned.nodes.len());
        let has_quarter = !numbers.by_domain || {
            let nodes = selected
                .iter()
                .filter_map(|name| view.designed(name.as_str()));
            let domains: BTreeSet<_> = nodes.map(|node| domains_of(guards, node)).collect();
            domains.len() < 2
        };
        let criteria = &group.success_criteria;
        let Some((most, is_default)) = numbers.of_group(count, criteria, has_quarter) else {
            continue;
        };
        let kind = if is_default {
            Kind::GroupDefault
        } else {
            Kind::Number
        };
        for node in selected
            .into_iter()
            .filter(|node| !retired.is_flagged(node))
        {
            for machine in machines.get(node).into_iter().flatten() {
                add(format!("of group `{}`", group.name), most, machine, kind);
            }
        }
    }
}

/// The nodes that are retired, and not among those of any group.
pub(super) struct Retired<'a> {
    by_entry: FxHashSet<&'a NodeName>,
    /// By a flag, or a record, which an entry that is gone may have left.
    flagged: FxHashSet<&'a NodeName>,
}

impl<'a> Retired<'a> {
    pub(super) fn of(view: &View<'a>) -> Self {
        let (mut by_entry, mut flagged) = (FxHashSet::default(), FxHashSet::default());
        let site = view.site.into_iter();
        for entry in site.clone().flat_map(|site| &site.guards().retirements) {
            let today = &*view.plan.options.as_of;
            if entry.from.as_deref().is_none_or(|from| from <= today) {
                let nodes = site.clone().flat_map(|site| site.nodes.values());
                let nodes = nodes.filter(|node| entry.selector.matches(node));
                by_entry.extend(nodes.map(|node| &node.name));
            }
        }
        if let Some(world) = view.world {
            let observed = world.observations.into_iter().flat_map(|seen| &seen.nodes);
            let observed = observed.filter(|(_, seen)| seen.retired.is_some());
            let recorded = world
                .records
                .values()
                .filter(|record| record.retired.is_some());
            flagged.extend(observed.map(|(name, _)| name));
            flagged.extend(recorded.map(|record| &record.node));
        } else {
            // What was observed when the plan was made, and is observed again before its steps act.
            let relied_on = view.plan.relies_on.iter();
            let flags = relied_on
                .filter(|one| one.what.fact == FactName::Retired && &*one.what.expected != "null");
            flagged.extend(flags.filter_map(|one| one.subject.node()));
        }
        Self { by_entry, flagged }
    }

    pub(super) fn contains(&self, node: &NodeName) -> bool {
        self.by_entry.contains(node) || self.is_flagged(node)
    }

    fn is_flagged(&self, node: &NodeName) -> bool {
        self.flagged.contains(node)
    }
}

/// Whether a machine carries a system by its record.
pub(super) fn is_deployed(view: &View<'_>, node: &str) -> bool {
    let record = view.record(node);
    record.is_some_and(|record| match record.phase {
        Phase::Deployed => true,
        Phase::Failed | Phase::Unknown => !record.digests.is_empty(),
        Phase::NotStarted | Phase::Prepared => false,
    })
}

/// Whether a run takes a machine out of service with whose plan this one is compared: it has its place in that run.
pub(super) fn is_of_resumed_run(view: &View<'_>, node: &str) -> bool {
    let resumed = view.world.map(|world| world.resumes);
    resumed.is_some_and(|resumed| resumed.contains(node))
}

/// Whether a machine is down that was in service: off, not Ready, cordoned, or not built to the end.
pub(super) fn is_down(view: &View<'_>, node: &str) -> bool {
    let Some(record) = view.record(node) else {
        return false;
    };
    let was_begun = matches!(record.phase, Phase::Failed | Phase::Unknown);
    let gives_up = matches!(view.plan.request.action, Action::Teardown | Action::Destroy);
    if record.torn_down.is_some() {
        return !gives_up;
    }
    if was_begun && record.digests.is_empty() {
        return true;
    }
    let seen = view.observed(node).filter(|_| is_deployed(view, node));
    let Some(seen) = seen else {
        return false;
    };
    let in_cluster = match &seen.cluster {
        Fact::Known(Some(node)) => !node.ready || node.unschedulable,
        Fact::Known(None) => record.join.is_some(),
        Fact::Unknown(_) => false,
    };
    seen.power == Fact::Known(PowerState::Off) || in_cluster
}

/// The machines that are down and stay so: they take a place under their limits.
pub(super) fn held<'a>(view: &View<'a>, away: &[Away<'_>]) -> Vec<&'a NodeDesign> {
    let (Some(_), Some(world)) = (view.site, view.world) else {
        return Vec::new();
    };
    let Some(seen) = world.observations else {
        return Vec::new();
    };
    // A remediation begins where machines are down; how many may be is its own bound, judged by the planner and at the act.
    if view.plan.request.action == Action::Remediate {
        return Vec::new();
    }
    let retired = Retired::of(view);
    let taken: FxHashSet<&str> = away.iter().map(|away| away.node.as_str()).collect();
    let down = seen.nodes.keys().filter(|node| {
        let name = node.as_str();
        !taken.contains(name)
            && is_down(view, name)
            && !retired.contains(node)
            && !is_of_resumed_run(view, name)
    });
    // A machine that has left the design is not back for that; one that was torn down before is not missed then.
    let left = |name: &str| {
        let record = view.record(name)?;
        view.applied(name).filter(|_| record.torn_down.is_none())
    };
    down.filter_map(|name| view.designed(name.as_str()).or_else(|| left(name.as_str())))
        .collect()
}

/// How many machines that are down count under a limit.
pub(super) fn holding(
    view: &View<'_>,
    guards: &Guards,
    limit: &Limit<'_, '_>,
    held: &[&NodeDesign],
) -> usize {
    let counts = |node: &&&NodeDesign| {
        let elsewhere = guards.policy.elsewhere.get(&node.name);
        let what = &limit.what;
        let in_rack = |rack| *what == format!("of rack `{rack}`");
        let has_tag = |tag| *what == format!("with tag `{tag}`");
        let in_group = || {
            let recorded = view.record(node.name.as_str());
            let observed = view.observed(node.name.as_str());
            if recorded.is_some_and(|record| record.retired.is_some())
                || observed.is_some_and(|seen| seen.retired.is_some())
            {
                return false;
            }
            let groups = view.site.into_iter().flat_map(|site| &site.guards().groups);
            let mut groups = groups.filter(|group| *what == format!("of group `{}`", group.name));
            groups.any(|group| {
                let is_all = group.selectors.is_empty();
                is_all
                    || group
                        .selectors
                        .iter()
                        .any(|each| each.is_all() || each.matches(node))
            })
        };
        match &**what {
            "of the site" => true,
            "of the control plane" => is_control_plane(guards, node),
            "outside the control plane" => !is_control_plane(guards, node),
            _ => {
                node.rack.iter().any(in_rack)
                    || elsewhere.is_some_and(|place| place.racks.iter().any(in_rack))
                    || node.tags.iter().any(has_tag)
                    || elsewhere.is_some_and(|place| place.tags.iter().any(has_tag))
                    || in_group()
            }
        }
    };
    held.iter().filter(counts).count()
}
