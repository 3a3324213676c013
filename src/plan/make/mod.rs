//! Makes a plan in named stages, each a function of what the one before gave: select the nodes, judge
//! each by itself, settle them together, build the steps, draw the consequences, sum up.

mod check;
mod judge;
mod settle;
mod subjects;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::action::{Action, Does, Request};
use super::allowance::{Allowance, Allowed};
use super::covered::{Covering, SECTION_LEFT_OUT};
use super::etcd::Clusters;
use super::input::{Error, Input};
use super::item::Item;
use super::joining::Joins;
use super::remedy::Remedy;
use super::rules::{Retired, Rules};
use super::{
    Approvals, Change, Forecast, Options, Plan, PlanGuards, PlannedGroup, Precondition, Standing,
    Summary, Verdicts, blast_radius, forecast, graph, groups, preconditions, remedy, soak, steps,
    unavailable,
};
use crate::design::{Digest, FieldPattern, NoPattern, NodeName, sharing_controllers};
use crate::guard::{self, Guarded, Machines, PlaceLimit, WaveSize};
use crate::record::NodeRecord;
use crate::step::Step;

use settle::Settled;
use subjects::{Subjects, retirements};

/// The changes that are carried out, by node.
type Carried<'a> = BTreeMap<&'a NodeName, &'a Item<'a>>;

/// Makes the plan. The same input gives the same plan.
///
/// # Errors
///
/// A pattern of a flag names nothing, or is none; groups that cannot be put in an order, which
/// validation finds before.
pub fn make(input: &Input<'_>) -> Result<Plan, Error> {
    let machines = Machines::new(input.after, &input.after.guards().groups, input.records);
    let selection = Selection::of(input, machines)?;
    let options = effective(input, machines)?;
    let retired = retirements(input);
    let groups = groups::in_order(input.after, &left_out(&retired))?;
    let clusters = Clusters::of(input);
    check::request(input, &options, &selection.asked, &clusters)?;
    let terms = Terms {
        input,
        options: &options,
        groups: &groups,
        first_groups: first_groups(&groups),
        retired: &retired,
        selection: &selection,
        clusters: &clusters,
        rules: rules(input, &options, machines, &clusters)?,
    };
    let judged = judge::each(&terms, machines.all());
    let mut settled = settle::together(&terms, judged, machines.all());
    let carried = settled.carried();
    let mut built = build(&terms, &settled, &carried);
    let items = carried.values().copied();
    built.places = unavailable::of_run(items, &settled.limits, input.request.action);
    check::grace_of(input.after.guards(), &options, &built.steps)?;
    let consequences = Consequences::of(&terms, &settled, &carried, &built);
    cover(input.after, &mut settled, &built.steps);
    Ok(sum_up(&terms, settled, built, consequences))
}

/// The terms of a plan: the input, and the nodes that the flags and the request name in it.
struct Terms<'a> {
    input: &'a Input<'a>,
    /// With the policy's values if no flag gave one.
    options: &'a Options,
    /// All groups, in run order.
    groups: &'a [PlannedGroup],
    first_groups: FxHashMap<&'a NodeName, usize>,
    retired: &'a FxHashMap<&'a NodeName, Retired<'a>>,
    selection: &'a Selection<'a>,
    clusters: &'a Clusters<'a>,
    rules: Rules<'a>,
}

impl Terms<'_> {
    fn is_targeted(&self) -> bool {
        self.input.request.action.is_targeted()
    }

    /// Returns the position of the first group, in run order, that holds a node.
    fn group_of(&self, name: &NodeName) -> Option<usize> {
        self.first_groups.get(name).copied()
    }
}

/// The steps of what is carried out, and the groups that they are in.
struct Built {
    groups: Vec<PlannedGroup>,
    steps: Vec<Step>,
    /// The widest waves of machines that are taken out of service.
    waves: Option<WaveSize>,
    /// The limits that its run holds.
    places: Vec<PlaceLimit>,
    /// The machines that have the soak that an earlier run owes them.
    owed: Vec<NodeName>,
}

/// Builds the steps of what is carried out, node by node in the order of their groups.
fn build(terms: &Terms<'_>, settled: &Settled<'_>, carried: &Carried<'_>) -> Built {
    let input = terms.input;
    let mut groups = match terms.is_targeted() {
        true => asked_groups(terms, settled, carried),
        false => terms.groups.to_vec(),
    };
    let left_out = left_out(terms.retired);
    let owed = soak::owed(input, &left_out, |name| carried.get(name).copied());
    if !has_steps(terms, settled, carried) && owed.is_empty() {
        return Built {
            groups,
            steps: Vec::new(),
            waves: None,
            places: Vec::new(),
            owed: Vec::new(),
        };
    }
    let mut order: Vec<&NodeName> = carried.keys().copied().collect();
    order.sort_by_cached_key(|name| terms.group_of(name).unwrap_or(usize::MAX));
    let inputs = steps::StepInputs {
        site: input.after,
        options: terms.options,
        limits: &settled.limits,
        groups: &groups,
        order: &order,
        items: carried,
        owed: &owed,
    };
    let (steps, sizes) = steps::build(&inputs, input.request.action);
    let waves = sizes.iter().map(|(_, size)| *size).max();
    let sizes: FxHashMap<_, _> = sizes.into_iter().collect();
    for group in &mut groups {
        group.waves = sizes.get(&Some(group.name.clone())).copied();
    }
    Built {
        groups,
        steps,
        waves,
        places: Vec::new(),
        owed: owed.iter().map(|each| each.node.name.clone()).collect(),
    }
}

/// Adds to the changes of machines that steps are about what an approval covers of them.
fn cover(site: &Guarded, settled: &mut Settled<'_>, steps: &[Step]) {
    let subjects: FxHashSet<&NodeName> = steps
        .iter()
        .filter_map(|step| step.id.node.as_ref())
        .collect();
    let mut covering = Covering::new(site.guards());
    for item in &mut settled.items {
        if subjects.contains(item.subject.name) {
            item.change.machine = Some(Box::new(covering.of(&item.subject)));
            let designed = item.subject.after;
            let inventory = designed.and_then(|node| node.digests.get(&SECTION_LEFT_OUT));
            item.change.inventory = inventory.copied();
        }
    }
}

/// Whether there is anything to do: a change, a check, or a revision that is reached without one.
fn has_steps(terms: &Terms<'_>, settled: &Settled<'_>, carried: &Carried<'_>) -> bool {
    let Input {
        request,
        base,
        target,
        ..
    } = terms.input;
    let mut changes = settled.items.iter().map(|item| &item.change);
    let is_partial = is_narrowed(terms.input, terms.options) || changes.any(Change::is_left_out);
    let base_digest = base.as_ref().map(|base| &base.site_digest);
    let is_same = base_digest == Some(&target.site_digest) && !terms.input.signers_changed;
    let is_reached = terms.is_targeted() || is_partial || is_same;
    let checks_site = request.action == Action::CheckEtcd && terms.selection.asked.is_empty();
    !carried.is_empty() || !is_reached || checks_site
}

/// The consequences of the steps.
struct Consequences {
    relies_on: Vec<Precondition>,
    records_digest: Digest,
    forecast: Forecast,
    warnings: Vec<Arc<str>>,
}

impl Consequences {
    fn of(terms: &Terms<'_>, settled: &Settled<'_>, carried: &Carried<'_>, built: &Built) -> Self {
        let steps = &built.steps[..];
        let input = terms.input;
        let facts = input.observations.and_then(|seen| seen.cluster.as_ref());
        let has_daemon_set = facts.is_none_or(|cluster| cluster.shutdown_daemon_set);
        let mut warnings = settled.notes.warnings(input);
        warnings.extend(warnings::of_plan(
            input,
            terms.options,
            (&settled.items, carried),
            built,
        ));
        Self {
            relies_on: preconditions::all(
                carried,
                steps,
                terms.clusters,
                input.observations.is_some(),
            ),
            records_digest: preconditions::records_digest(steps, input.records),
            forecast: forecast::of(carried, steps, terms.clusters, has_daemon_set),
            warnings,
        }
    }
}

/// Puts the plan together and counts.
fn sum_up(
    terms: &Terms<'_>,
    settled: Settled<'_>,
    built: Built,
    consequences: Consequences,
) -> Plan {
    let mut guards = {
        let input = terms.input;
        let action = input.request.action;
        PlanGuards::of(
            action,
            &input.options,
            input.after,
            input.guards,
            &built.steps,
        )
    };
    let unproven = settled.notes.unproven();
    let (input, mut items) = (terms.input, settled.items);
    let forbidden = &input.after.guards().policy.forbidden_flags;
    for item in &mut items {
        if !item.change.excluded {
            item.change.rung = item.rung();
        }
        if let Some(block) = &mut item.change.blocked {
            block.hold_to(forbidden);
        }
    }
    let changed: FxHashSet<&NodeName> = items
        .iter()
        .filter(|item| item.subject.after.is_some())
        .map(|item| item.subject.name)
        .collect();
    let (unchanged, retired) = match terms.is_targeted() {
        true => (0, 0),
        false => {
            let left_out = left_out(terms.retired).into_iter();
            let retired = left_out
                .filter(|name| input.after.nodes.contains_key(*name) && !changed.contains(name))
                .count();
            let rest = input.after.nodes.len() - changed.len();
            (rest - retired, retired)
        }
    };
    let mut summary = Summary {
        unproven,
        retired,
        longest_path: graph::longest_path(&built.steps),
        waves: built.waves,
        ..Summary::default()
    };
    summary.count(items.iter().map(|item| &item.change));
    let mut changes: Vec<Change> = items.into_iter().map(|item| item.change).collect();
    // They stand where the work stood that went with them, and a large plan is kept for hours.
    changes.shrink_to_fit();
    guards.places = built.places;
    guards.exceeded = blast_radius::exceeded(input.request.action, &changes, input.after.guards());
    Plan {
        site: input.after.site.clone(),
        request: input.request.clone(),
        unfinished: None,
        target: input.target.clone(),
        base: input.base.clone(),
        intermediate_commits: input.intermediate_commits.clone(),
        history: input.history.clone(),
        unchanged,
        changes,
        groups: built.groups,
        steps: built.steps,
        relies_on: consequences.relies_on,
        records_digest: consequences.records_digest,
        way_back: None,
        notices: warnings::notices(input.after),
        warnings: consequences.warnings,
        policies: Verdicts::default(),
        guards,
        approvals: Approvals::default(),
        summary,
        forecast: consequences.forecast,
        checked: None,
        rehearsal: None,
        options: terms.options.clone(),
    }
}

/// The nodes that flags and the request name.
struct Selection<'a> {
    /// Those that the action is asked for.
    asked: FxHashSet<&'a NodeName>,
    targets: FxHashSet<&'a NodeName>,
    excludes: FxHashSet<&'a NodeName>,
}

impl<'a> Selection<'a> {
    fn of(input: &Input<'a>, machines: Machines<'a>) -> Result<Self, Error> {
        let (request, options) = (&input.request, &input.options);
        let mut asked = machines.select(&request.nodes)?;
        if request.action == Action::Remediate && request.nodes.is_empty() {
            let mut subjects = Subjects::of(input);
            for name in machines.all() {
                let subject = subjects.get(name);
                if let Some(reason) = remedy::unseen(&subject) {
                    let reason = reason.clone();
                    return Err(Error::RemediationUnseen { reason });
                }
                if remedy::is_asked_for(&subject) {
                    asked.insert(name);
                }
            }
        }
        let narrowed =
            |flag, words: &BTreeSet<Arc<str>>| machines.select(words).map_err(Error::of_flag(flag));
        Ok(Self {
            asked,
            targets: narrowed("--target", &options.targets)?,
            excludes: narrowed("--exclude", &options.excludes)?,
        })
    }
}

/// The rules by which a node is judged, with what the flags allow.
fn rules<'a>(
    input: &'a Input<'a>,
    options: &'a Options,
    machines: Machines<'a>,
    clusters: &'a Clusters<'a>,
) -> Result<Rules<'a>, Error> {
    let allowed =
        |flag, allowance: &Allowance| allowance.resolve(machines).map_err(Error::of_flag(flag));
    let named = |flag, words: &BTreeSet<Arc<str>>| {
        Allowed::named(words, machines).map_err(Error::of_flag(flag))
    };
    Ok(Rules {
        guards: input.after.guards(),
        records: input.records,
        renames: input.renames,
        reasons: input.reasons,
        after: input.after,
        allow_restart: allowed("--allow-restart", &options.allow_restart)?,
        allow_reinstall: allowed("--allow-reinstall", &options.allow_reinstall)?,
        allow_redeploy: allowed("--allow-redeploy", &options.allow_redeploy)?,
        allow_destroy: allowed("--allow-destroy", &options.allow_destroy)?,
        adopt: allowed("--adopt", &options.adopt)?,
        allow_unverified: allowed("--allow-unverified", &options.allow_unverified)?,
        no_etcd_here: named("--no-etcd-here", &options.leaving.no_etcd_here)?,
        leaving: &options.leaving,
        gone: named("--node-is-gone", &options.leaving.gone)?,
        clusters,
        joins: Joins::of(input, clusters),
        remedy: Remedy::of(input, options),
        beside: match matches!(input.request.action.does(), Does::Controller(_)) {
            true => {
                let nodes = input.after.nodes.values();
                sharing_controllers(nodes.map(|node| &**node), input.after.guards())
            }
            false => FxHashMap::default(),
        },
        fields: fields(&input.request)?,
    })
}

/// The patterns of the fields whose differences are accepted.
fn fields(request: &Request) -> Result<Vec<FieldPattern>, Error> {
    let pattern = |text: &Arc<str>| {
        text.parse().map_err(|error: NoPattern| Error::Field {
            path: text.clone(),
            reason: error.to_string().into(),
        })
    };
    request.fields.iter().map(pattern).collect()
}

/// The nodes that a request names, before anything is observed: those whose pods are wanted. `None`: all,
/// or what is named cannot be told, which making the plan says.
#[must_use]
pub fn named(
    site: &Guarded,
    records: &BTreeMap<NodeName, NodeRecord>,
    request: &Request,
) -> Option<BTreeSet<NodeName>> {
    if request.nodes.is_empty() {
        return None;
    }
    let named = Machines::new(site, &site.guards().groups, records)
        .select(&request.nodes)
        .ok()?;
    Some(named.into_iter().cloned().collect())
}

/// The nodes that retirement leaves out of every group.
fn left_out<'a>(retired: &FxHashMap<&'a NodeName, Retired<'a>>) -> FxHashSet<&'a NodeName> {
    let retired = retired.iter().filter(|(_, retired)| retired.is_retired());
    retired.map(|(name, _)| *name).collect()
}

/// The groups of the nodes that are built again, in their order; those without one take no part, and
/// nothing waits for them.
fn asked_groups(
    terms: &Terms<'_>,
    settled: &Settled<'_>,
    carried: &Carried<'_>,
) -> Vec<PlannedGroup> {
    if terms.input.request.action != Action::Redeploy {
        return Vec::new();
    }
    let changes = settled.items.iter().map(|item| item.subject.name);
    let changes: FxHashSet<&NodeName> = changes.collect();
    let holds = |group: &PlannedGroup| group.nodes.iter().any(|name| carried.contains_key(name));
    let mut groups: Vec<PlannedGroup> = terms
        .groups
        .iter()
        .filter(|group| holds(group))
        .cloned()
        .collect();
    let names: FxHashSet<_> = groups.iter().map(|group| group.name.clone()).collect();
    for group in &mut groups {
        group.depends_on.retain(|name| names.contains(name));
        let others = group.nodes.iter().filter(|name| !changes.contains(name));
        let others = others.map(|name| (name, Standing::of(terms.input.records.get(name))));
        let others = others.filter(|(_, standing)| *standing != Standing::Deployed);
        group.not_deployed = others
            .map(|(name, standing)| (name.clone(), standing))
            .collect();
    }
    groups
}

/// The options, with the policy's values if no flag gave one, and what they allow by name: a saved plan names each
/// machine that a group or a rack stood for when it was made.
fn effective(input: &Input<'_>, machines: Machines<'_>) -> Result<Options, Error> {
    let policy = &input.after.guards().policy;
    let mut options = input.options.clone();
    for (flag, allowance) in options.allowances_mut() {
        *allowance = allowance.by_name(machines).map_err(Error::of_flag(flag))?;
    }
    for (flag, words) in options.leaving.words_mut() {
        *words = machines.by_name(words).map_err(Error::of_flag(flag))?;
    }
    if options.parallelism == 0 {
        options.parallelism = policy.parallelism.unwrap_or(guard::PARALLELISM).max(1);
    }
    options.parallel_groups = options.parallel_groups.max(1);
    options.max_failures = options.max_failures.or(policy.max_failures);
    Ok(options)
}

/// Whether the plan is for some of the nodes only.
fn is_narrowed(input: &Input<'_>, options: &Options) -> bool {
    let is_selected = !(options.targets.is_empty() && options.excludes.is_empty());
    input.request.action.is_targeted() || is_selected
}

/// The first group, in run order, that holds each node.
fn first_groups(groups: &[PlannedGroup]) -> FxHashMap<&NodeName, usize> {
    let most = groups.iter().map(|group| group.nodes.len()).sum();
    let mut result = FxHashMap::with_capacity_and_hasher(most, FxBuildHasher);
    for (position, group) in groups.iter().enumerate() {
        for name in &group.nodes {
            result.entry(name).or_insert(position);
        }
    }
    result
}
