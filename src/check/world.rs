//! The world: what steps rely on is written down, is what was observed, and nothing unknown is acted on.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::kinds::facts_of;
use super::rule::Found;
use super::view::{Names, View};
use crate::design::{NodeName, Section};
use crate::identity::Proof;
use crate::observed::{EtcdSeen, Fact, Observations, ObservedNode};
use crate::plan::{Action, ChangeKind, FactName, FactSubject, Precondition, Relation};
use crate::record::Phase;
use crate::step::{Effect, StepKind, Wait};

/// Whether a step asks a machine for something.
fn acts(view: &View<'_>, position: usize) -> bool {
    facts_of(view.kind(position)).acts && view.step(position).effect != Effect::None
}

/// The machine of every step that acts on one was proven to be the one that is meant, or that was done without as allowed.
pub(super) fn identity(view: &View<'_>, found: &mut Found<'_, '_>) {
    let unverified = Names::of(&view.plan.options.allow_unverified);
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        let Some(seen) = view.observed(name) else {
            continue;
        };
        let is_flag = |at: &usize| {
            let kind = view.kind(*at);
            seen.kept_by_records && matches!(kind, StepKind::SetRetired | StepKind::UnsetRetired)
        };
        let acting = steps
            .iter()
            .copied()
            .filter(|at| acts(view, *at) && !is_flag(at));
        let acting: Vec<usize> = acting.collect();
        if acting.is_empty() {
            continue;
        }
        match &seen.proof {
            Proof::Proven => {}
            Proof::Refused(why) => found.add(acting, format!("`{name}`: {why}")),
            Proof::Unverified(why) => {
                let policy = view.guards().map(|guards| &guards.policy.unverified);
                let node = view.designed(name).or(view.applied(name));
                let by_policy = node.is_some_and(|node| {
                    policy.is_some_and(|all| all.iter().any(|each| each.matches(node)))
                });
                let is_shown = change.unverified && (by_policy || unverified.contain(&change.node));
                if !is_shown {
                    found.add(acting, format!("`{name}` is unverified: {why}"));
                }
            }
        }
    }
}

/// Nothing is acted on that could not be observed: its prepare fails without an attempt.
pub(super) fn unknown(view: &View<'_>, found: &mut Found<'_, '_>) {
    let observations = view.world.and_then(|world| world.observations);
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        if change.kind == ChangeKind::Unknown {
            let is_refused = |at: &usize| {
                view.kind(*at) != StepKind::Prepare || view.given(*at).refused().is_some()
            };
            if !steps.iter().all(is_refused) {
                found.add(
                    steps.iter().copied(),
                    format!("`{name}` is unknown, and acted on"),
                );
            }
        }
        // Of a machine that is recorded each step is held to what it shows when it starts, and fails without that.
        let is_recorded = view
            .record(name)
            .is_some_and(|record| !record.digests.is_empty());
        let Some(seen) = observations.filter(|_| !is_recorded) else {
            continue;
        };
        let is_known = seen
            .node(name)
            .is_some_and(|seen| matches!(seen.provision, Fact::Known(_)) || seen.kept_by_records);
        let destroys = |at: &usize| {
            use StepKind as S;
            let kind = view.kind(*at);
            let destroys = matches!(kind, S::Destroy | S::Deploy | S::Clean);
            destroys && view.step(*at).effect != Effect::None
        };
        let destroying: Vec<usize> = steps.iter().copied().filter(destroys).collect();
        if !is_known && !destroying.is_empty() {
            found.add(
                destroying,
                format!("`{name}` could not be observed, and is acted on"),
            );
        }
    }
}

/// If the policy demands the parts that documents expect, no machine is deployed that is observed without one, of which
/// not all could be read, or of which another revision that has a say expects one more.
pub(super) fn expected(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    if !guards.policy.demands_expected_hardware {
        return;
    }
    for (change, steps) in view.worked_on() {
        let Some(seen) = view.observed(change.node.as_str()) else {
            continue;
        };
        let deploys = steps.iter().copied();
        let deploys = deploys.filter(|at| view.kind(*at) == StepKind::Deploy);
        let deploys: Vec<usize> = deploys.collect();
        if deploys.is_empty() {
            continue;
        }
        let part = seen
            .drift
            .iter()
            .find(|part| part.section == Section::Expected && part.field.starts_with("expect."));
        let elsewhere = guards.expected_elsewhere.get(&change.node);
        let elsewhere = elsewhere.and_then(|parts| parts.first());
        let why = match (&seen.unread_parts, part, elsewhere) {
            (Some(why), _, _) => format!("not all of its parts could be read: {why}"),
            (None, Some(part), _) => part.to_string(),
            (None, None, Some(part)) => format!("{} is demanded, and not expected", part.name),
            (None, None, None) => continue,
        };
        found.add(
            deploys,
            format!(
                "`{}` is deployed without the parts that the policy demands: {why}",
                change.node
            ),
        );
    }
}

/// A machine in maintenance is left alone, and one that carries a system is not deployed over.
pub(super) fn held(view: &View<'_>, found: &mut Found<'_, '_>) {
    use StepKind as S;
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        let Some(seen) = view.observed(name) else {
            continue;
        };
        let touches = |at: &usize| {
            matches!(
                view.kind(*at),
                S::Destroy
                    | S::Prepare
                    | S::Deploy
                    | S::Service
                    | S::ServiceLive
                    | S::PowerOn
                    | S::Relabel
            )
        };
        let touching: Vec<usize> = steps.iter().copied().filter(touches).collect();
        let is_whole = matches!(
            view.plan.request.action,
            Action::Update | Action::Redeploy | Action::Teardown
        );
        if seen.maintenance.is_some() && is_whole && !touching.is_empty() {
            found.add(touching, format!("`{name}` is in maintenance"));
        }
        let carries = matches!(&seen.provision, Fact::Known(state) if state.is_deployed());
        let over = carries && view.has(name, S::Deploy) && !view.has(name, S::Destroy);
        if over {
            found.about(name, "carries a system, and is deployed over");
        }
    }
}

/// The names that machines get, by those that they have in the records.
fn renames<'a>(view: &View<'a>) -> FxHashMap<&'a NodeName, &'a NodeName> {
    let renames = view.of_kind(StepKind::Rename).filter_map(|at| {
        let before = view.given(at).renamed_from().as_ref()?;
        Some((before, view.step(at).id.node.as_ref()?))
    });
    renames.collect()
}

/// No machine is built with an address of another one whose system is still there: that one is torn down first, and is not
/// built again in the same run.
pub(super) fn addresses(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(world) = view.world else { return };
    let address = |text: &Arc<str>| text.split('/').next()?.parse::<IpAddr>().ok();
    let mut built: FxHashMap<IpAddr, usize> = FxHashMap::default();
    for at in view.of_kind(StepKind::Deploy) {
        let node = view.step(at).id.node.as_ref();
        let design = node.and_then(|node| view.designed(node.as_str()));
        let own = design.into_iter().flat_map(|node| node.addresses.values());
        built.extend(own.filter_map(address).map(|each| (each, at)));
    }
    if built.is_empty() {
        return;
    }
    let renames = renames(view);
    let carries = world
        .records
        .iter()
        .filter(|(_, record)| record.has_system() && !record.is_torn_down());
    for (holder, _) in carries {
        let own = view.applied(holder.as_str()).into_iter();
        let own = own.flat_map(|node| node.addresses.values());
        for address in own.filter_map(address) {
            let Some(deploy) = built.get(&address).copied() else {
                continue;
            };
            let heir = view.step(deploy).id.node.as_ref();
            if heir == Some(holder) || heir == renames.get(holder).copied() {
                continue;
            }
            let mut steps = view.of_node(holder.as_str()).iter();
            let is_gone = !view.has(holder.as_str(), StepKind::Deploy)
                && steps.any(|at| {
                    view.kind(*at) == StepKind::Destroy && view.is_after(deploy, *at, Wait::Success)
                });
            if !is_gone {
                let heir = heir.map_or("", NodeName::as_str);
                found.add(
                    [deploy],
                    format!("`{heir}` is built with {address}, which `{holder}` has"),
                );
            }
        }
    }
}

/// A machine that a person works on is left alone by every plan, whatever its action; that it is observed is no act.
pub(super) fn reserved(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(world) = view.world else { return };
    // Under the name that the plan gives it, too.
    let renames = renames(view);
    for (node, reservation) in &world.reservations.nodes {
        let names = [Some(node), renames.get(node).copied()];
        let names = names.into_iter().flatten();
        let steps = names.flat_map(|name| view.of_node(name.as_str()).iter().copied());
        let acting = steps.filter(|at| facts_of(view.kind(*at)).effect != Effect::None);
        let acting: Vec<usize> = acting.collect();
        if !acting.is_empty() {
            found.add(
                acting,
                format!("`{node}` is reserved by {}", reservation.by),
            );
        }
    }
}

/// A retired machine is left as it is by an update, and is not built again.
pub(super) fn retired(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    let action = view.plan.request.action;
    if !matches!(action, Action::Update | Action::Redeploy) {
        return;
    }
    let today = &*view.plan.options.as_of;
    let entries = guards.retirements.iter();
    let entries = entries.filter(|entry| entry.from.as_deref().is_none_or(|from| from <= today));
    let entries: Vec<_> = entries.collect();
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        let Some(node) = view.designed(name) else {
            continue;
        };
        let by_entry = entries.iter().any(|entry| entry.selector.matches(node));
        let by_flag = view
            .observed(name)
            .is_some_and(|seen| seen.retired.is_some())
            && !view.has(name, StepKind::UnsetRetired);
        let others = steps.iter().copied();
        let others =
            others.filter(|at| !matches!(view.kind(*at), StepKind::SetRetired | StepKind::Rename));
        let others: Vec<usize> = others.collect();
        if change.kind == ChangeKind::Retire && action == Action::Update && !by_entry {
            found.add(
                steps.iter().copied(),
                format!("`{name}` is retired, and by no entry"),
            );
        }
        if (by_entry || by_flag) && !others.is_empty() {
            found.add(others, format!("`{name}` is retired"));
        }
    }
}

/// The preconditions by what they are about.
struct Preconditions<'a> {
    of_node: FxHashMap<&'a str, Vec<&'a Precondition>>,
    of_etcd: FxHashMap<&'a str, Vec<&'a Precondition>>,
}

impl<'a> Preconditions<'a> {
    fn of(view: &View<'a>) -> Self {
        let (mut of_node, mut of_etcd) = (FxHashMap::default(), FxHashMap::default());
        for precondition in &view.plan.relies_on {
            let (list, name): (&mut FxHashMap<&str, Vec<_>>, &str) = match &precondition.subject {
                FactSubject::Node(name) => (&mut of_node, name.as_str()),
                FactSubject::Etcd(name) => (&mut of_etcd, name.as_str()),
            };
            list.entry(name).or_default().push(precondition);
        }
        Self { of_node, of_etcd }
    }

    /// Whether a fact is relied on, with a relation and a value.
    fn hold(
        all: Option<&Vec<&Precondition>>,
        fact: FactName,
        relation: Relation,
        value: &str,
    ) -> bool {
        let mut all = all.into_iter().flatten().map(|each| &each.what);
        all.any(|what| what.fact == fact && what.relation == relation && *what.expected == *value)
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The facts of machines that steps with an effect rely on are written down: with the value that was observed, and to be
/// the same at the act.
pub(super) fn relied_on(view: &View<'_>, found: &mut Found<'_, '_>) {
    use StepKind as S;
    if view.world.is_none_or(|world| world.observations.is_none()) {
        return;
    }
    let preconditions = Preconditions::of(view);
    let mut states: FxHashMap<crate::lifecycle::ProvisionState, String> = FxHashMap::default();
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        let Some(seen) = view.observed(name) else {
            continue;
        };
        let is_seen = matches!(seen.provision, Fact::Known(_)) || seen.kept_by_records;
        let acting = is_seen && steps.iter().any(|at| acts(view, *at));
        let own = preconditions.of_node.get(name);
        let mut lack = |fact: FactName, value: &str| {
            if !Preconditions::hold(own, fact, Relation::Equal, value) {
                let what =
                    format!("`{name}`: steps rely on `{fact}`, which the plan does not hold");
                found.add(steps.iter().copied(), what);
            }
        };
        if acting {
            if let Fact::Known(state) = &seen.provision {
                let value = states.entry(*state).or_insert_with(|| json(state));
                lack(FactName::Provision, value);
            }
            let flag =
                |flag: &Option<Arc<str>>| flag.as_ref().map_or_else(|| "null".to_owned(), json);
            lack(FactName::Retired, &flag(&seen.retired));
            lack(FactName::Maintenance, &flag(&seen.maintenance));
            lack(
                FactName::Protected,
                if seen.protected { "true" } else { "false" },
            );
        }
        let wipes = steps
            .iter()
            .any(|at| matches!(view.kind(*at), S::Destroy | S::Deploy));
        if let (true, true, Fact::Known(disks)) = (wipes, acting, &seen.disks) {
            let mut serials: Vec<&Arc<str>> = disks.iter().map(|disk| &disk.serial).collect();
            serials.sort_unstable();
            lack(FactName::Disks, &json(&serials));
        }
        if is_seen
            && view.has(name, S::PowerOn)
            && let Fact::Known(power) = &seen.power
        {
            lack(FactName::Power, &json(power));
        }
        if is_seen
            && view.has(name, S::Drain)
            && let Fact::Known(node) = &seen.cluster
        {
            lack(
                FactName::KubernetesNode,
                &json(&node.as_ref().map(|node| &node.uid)),
            );
        }
    }
    for position in view.of_kind(S::RemoveEtcd) {
        for removal in view.given(position).etcd_members() {
            let all = preconditions.of_etcd.get(removal.cluster.as_str());
            let table = [
                (FactName::ClusterId, Relation::Equal),
                (FactName::Voters, Relation::Equal),
                (FactName::Learners, Relation::Equal),
                (FactName::Alarms, Relation::Equal),
                (FactName::Healthy, Relation::AtLeast),
            ];
            for (fact, relation) in table {
                let mut all = all.into_iter().flatten().map(|each| &each.what);
                if !all.any(|what| what.fact == fact && what.relation == relation) {
                    let cluster = &removal.cluster;
                    found.add([position], format!("relies on `{fact}` of etcd cluster `{cluster}`, which the plan does not hold"));
                }
            }
        }
    }
}

/// The node UID, member ids and cluster ids that steps name are those observed.
pub(super) fn ids(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(seen) = view.world.and_then(|world| world.observations) else {
        return;
    };
    for (position, step) in view.steps() {
        let given = step.given();
        if let (Some(uid), Some(node)) = (given.node_uid(), &step.id.node) {
            let cluster = seen
                .node(node.as_str())
                .map(|seen: &ObservedNode| &seen.cluster);
            let is_seen = matches!(cluster, Some(Fact::Known(Some(node))) if node.uid == *uid);
            if !is_seen {
                found.add(
                    [position],
                    format!("means the Kubernetes node {uid}, which was not observed"),
                );
            }
        }
        for removal in given.etcd_members() {
            let etcd = seen.etcd.get(&removal.cluster);
            if !etcd.is_some_and(|etcd| is_listed(etcd, &removal.cluster_id, &removal.member_id)) {
                let (member, cluster) = (&removal.member_id, &removal.cluster);
                found.add(
                    [position],
                    format!(
                        "means member {member} of etcd cluster `{cluster}`, which was not observed"
                    ),
                );
            }
        }
    }
}

fn is_listed(seen: &EtcdSeen, cluster: &Arc<str>, member: &Arc<str>) -> bool {
    let mut answers = seen.answers.values().filter_map(Fact::known);
    answers.any(|answer| {
        let mut members = answer.members.iter();
        answer.cluster_id == *cluster && members.any(|live| live.id == *member)
    })
}

/// Nothing is said to be unchanged that differs from its record, or has none.
pub(super) fn unchanged(view: &View<'_>, found: &mut Found<'_, '_>) {
    let (Some(site), Some(world)) = (view.site, view.world) else {
        return;
    };
    if view.plan.request.action != Action::Update {
        return;
    }
    let guards = site.guards();
    let today = &*view.plan.options.as_of;
    let retired = guards.retirements.iter();
    let retired = retired.filter(|entry| entry.from.as_deref().is_none_or(|from| from <= today));
    let retired: Vec<_> = retired.collect();
    let flagged: BTreeSet<&str> = world
        .observations
        .into_iter()
        .flat_map(|seen: &Observations| &seen.nodes)
        .filter(|(_, seen)| seen.retired.is_some())
        .map(|(name, _)| name.as_str())
        .collect();
    let mut records = world.records.iter().peekable();
    let mut changes = view.plan.changes.iter().peekable();
    for (name, node) in &site.nodes {
        while records.next_if(|(other, _)| *other < name).is_some() {}
        while changes.next_if(|other| other.node < *name).is_some() {}
        if changes.peek().is_some_and(|change| change.node == *name) {
            continue;
        }
        let record = records.peek().filter(|(other, _)| *other == name);
        let is_as_recorded = record.is_some_and(|(_, record)| {
            let is_same = record.digest_version != crate::design::DIGEST_VERSION
                || record.accepted.is_some()
                || record.digests == node.digests;
            is_same && record.phase == Phase::Deployed
        });
        let is_retired = || {
            let recorded = record.is_some_and(|(_, record)| record.retired.is_some());
            recorded
                || flagged.contains(name.as_str())
                || retired.iter().any(|entry| entry.selector.matches(node))
        };
        if !is_as_recorded && !is_retired() {
            found.add(
                [],
                format!("`{name}` is said to be unchanged, and differs from its record"),
            );
        }
    }
}
