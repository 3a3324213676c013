//! Makes a plan: judges every node, builds the steps, counts, and says what somebody should know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::action::{Action, Does, Request};
use super::asked::BY_HAND;
use super::change::{Item, Retired, Rules, cannot_be_compared};
use super::etcd::Clusters;
use super::input::{Error, Input};
use super::remediate::Remedy;
use super::select::Names;
use super::subject::{Membership, Seen, Subject};
use super::{
    ChangeKind, Options, Plan, PlannedGroup, Summary, cluster, forecast, graph, groups, relies,
    remediate, steps, unavailable,
};
use crate::design::{Beside, Design, HardwareBackend, NodeDesign, NodeName};
use crate::document::Node;
use crate::guard::{self, Limits};
use crate::observed::{Fact, ObservedNode};
use crate::record::NodeRecord;
use crate::step::{OnDrainTimeout, Step, StepKind};

/// Nodes worked on at the same time, where neither flag nor policy says otherwise.
const PARALLELISM: usize = 10;

/// Names of nodes that a warning lists before it only counts.
const NAMED: usize = 8;

/// Makes the plan. The same input gives the same plan.
///
/// # Errors
///
/// A pattern of a flag names nothing, or is none; groups that cannot be put in an order, which
/// validation finds before.
pub fn make(input: &Input<'_>) -> Result<Plan, Error> {
    let design = input.after;
    let options = effective(input);
    let retired = retirements(input);
    let left_out = retired
        .iter()
        .filter(|(_, retired)| matches!(retired, Retired::By(_) | Retired::ByHand))
        .map(|(name, _)| *name)
        .collect::<FxHashSet<_>>();
    let mut groups = groups::in_order(design, &left_out)?;
    let request = &input.request;
    let action = request.action;
    let is_targeted = action.is_targeted();
    let narrowed = is_targeted || !(options.targets.is_empty() && options.excludes.is_empty());
    let all_groups = groups.clone();
    let names = Names::new(design, input.records, &all_groups, narrowed);
    let mut asked = names.asked(&request.nodes)?;
    if action == Action::Remediate && request.nodes.is_empty() {
        let mut subjects = Subjects::of(input);
        for name in names.all() {
            let subject = subjects.get(name);
            if let Some(reason) = remediate::unseen(&subject) {
                let reason = reason.clone();
                return Err(Error::RemediationUnseen { reason });
            }
            if remediate::is_asked_for(&subject) {
                asked.insert(name);
            }
        }
    }
    let mut clusters = Clusters::of(input);
    check_request(input, &options, &asked, &clusters)?;
    let targets = names.select("--target", &options.targets)?;
    let excludes = names.select("--exclude", &options.excludes)?;
    let rules = Rules {
        design,
        records: input.records,
        reasons: input.reasons,
        allow_redeploy: names.allow("--allow-redeploy", &options.allow_redeploy)?,
        allow_destroy: names.allow("--allow-destroy", &options.allow_destroy)?,
        adopt: names.allow("--adopt", &options.adopt)?,
        allow_unverified: names.allow("--allow-unverified", &options.allow_unverified)?,
        leaving: &options.leaving,
        gone: names.named("--node-is-gone", &options.leaving.gone)?,
        remedy: Remedy::of(input, &options),
    };
    let no_etcd_here = names.named("--no-etcd-here", &options.leaving.no_etcd_here)?;
    let mut down: Vec<(&NodeDesign, &'static str)> = Vec::new();
    let first_groups = first_groups(&all_groups);
    let mut notes = Notes::default();
    let mut items: Vec<Item<'_>> = Vec::new();
    let mut subjects = Subjects::of(input);
    let mut settled = input.settled.iter().peekable();
    for name in names.all() {
        let group = first_groups.get(name).copied();
        if settled.next_if(|next| *next == name).is_some() {
            if group.is_none() {
                notes.ungrouped.push(name);
            }
            continue;
        }
        let subject = subjects.get(name);
        let retired = retired.get(name).copied().unwrap_or(Retired::No);
        let is_retired = matches!(retired, Retired::By(_) | Retired::ByHand);
        let ungrouped = subject.after.is_some() && group.is_none() && !is_retired;
        if let (Some(after), Some(why)) = (subject.after, subject.down())
            && subject.is_recorded_deployed()
        {
            down.push((after, why));
        }
        if is_targeted {
            if asked.contains(name) {
                let mut item = rules.asked(request, subject, retired);
                if action == Action::Redeploy {
                    item.change.group = group.map(|group: usize| all_groups[group].name.clone());
                    if ungrouped {
                        item.because("no deployment group selects it: it is built again by itself");
                    }
                }
                if item.unwiped && item.work.destroy {
                    notes.unwiped.push(name);
                }
                items.push(item);
            }
            continue;
        }
        notes.about(input, &subject);
        if ungrouped {
            notes.ungrouped.push(name);
        }
        let Some(mut item) = rules.judge(subject, retired) else {
            continue;
        };
        item.change.group = group.map(|position: usize| groups[position].name.clone());
        if ungrouped && (item.work.prepare || item.work.deploy) {
            item.because("no deployment group selects it");
            item.show_only();
        }
        let targeted = options.targets.is_empty() || targets.contains(name);
        if !targeted || excludes.contains(name) {
            item.exclude();
        }
        if item.unwiped && item.work.destroy {
            notes.unwiped.push(name);
        }
        items.push(item);
    }
    for item in &mut items {
        rules.prove(item);
    }
    let facts = input.observations.and_then(|seen| seen.cluster.as_ref());
    cluster::keep_api_servers(facts, &mut items, &clusters, &options.leaving);
    clusters.settle(&mut items, &options.leaving, &no_etcd_here);
    cluster::await_joining(design, facts, &mut items);
    cluster::need_rights(facts, &mut items);
    let mut limits = match action {
        Action::Remediate => {
            let mut subjects = Subjects::of(input);
            let all = names.all().map(|name| subjects.get(name));
            rules.remedy.breaker(all, &mut items);
            Limits::new(design, Some(rules.remedy.max_at_once))
        }
        _ => Limits::new(design, options.max_unavailable),
    };
    limits.see_etcd(clusters.places());
    if action != Action::Remediate {
        unavailable::judge(&mut items, &mut limits, &down);
    }
    let carried: BTreeMap<&NodeName, &Item<'_>> = items
        .iter()
        .filter(|item| item.change.blocked.is_none() && !item.work.is_empty())
        .map(|item| (item.subject.name, item))
        .collect();
    let skipped = |item: &Item<'_>| item.change.blocked.is_some() || item.change.excluded;
    let partial = narrowed || items.iter().any(skipped);
    let base_digest = input.base.as_ref().map(|base| &base.site_digest);
    let nothing_new = is_targeted || partial || base_digest == Some(&input.target.site_digest);
    if is_targeted {
        groups = asked_groups(groups, &carried, action);
    }
    let mut order: Vec<&NodeName> = carried.keys().copied().collect();
    order.sort_by_cached_key(|name| first_groups.get(name).copied().unwrap_or(usize::MAX));
    let checks_site = action == Action::CheckEtcd && asked.is_empty();
    let steps = if carried.is_empty() && nothing_new && !checks_site {
        Vec::new()
    } else {
        let ground = steps::Ground {
            design,
            options: &options,
            limits: &limits,
            groups: &groups,
            order: &order,
            items: &carried,
        };
        steps::build(&ground, action)
    };
    check_grace(design, &options, &steps)?;
    let mut summary = Summary {
        retired: if is_targeted { 0 } else { left_out.len() },
        longest_path: graph::longest_path(&steps),
        ..Summary::default()
    };
    summary.count(items.iter().map(|item| &item.change));
    let relies_on = relies::all(&carried, &steps, &clusters, input.observations.is_some());
    let has_daemon_set = facts.is_none_or(|cluster| cluster.shutdown_daemon_set);
    let forecast = forecast::of(&carried, &steps, &clusters, has_daemon_set);
    let records_digest = relies::records_digest(&steps, input.records);
    let mut warnings = notes.into_warnings(input);
    let unverified: Vec<&NodeName> = carried
        .values()
        .filter(|item| item.change.unverified)
        .map(|item| item.subject.name)
        .collect();
    let unproven = unproven(&carried);
    if !unproven.is_empty() {
        let text = format!(
            "are deployed unverified: their backend sees them switched on, and nothing proves that the new \
             system has come up (plain Redfish: name `deploy.url` or `deploy.port`): {}",
            listed(&unproven)
        );
        warnings.push(Arc::from(text));
    }
    if !unverified.is_empty() {
        let text = format!(
            "are changed though nothing proves that they are the machines that are meant (unverified): {}",
            listed(&unverified)
        );
        warnings.push(Arc::from(text));
    }
    if steps.iter().any(|step| step.id.kind == StepKind::Drain) {
        warnings.extend(round_budgets(options.leaving.on_drain_timeout));
    }
    let windows = &design.policy.maintenance_windows;
    if !windows.is_empty()
        && action.waits_for_window()
        && steps
            .iter()
            .any(|step| step.id.kind.facts().touches_world())
    {
        let windows = guard::windows::in_words(windows);
        let text = format!("this plan is carried out in maintenance windows only: {windows}");
        warnings.push(Arc::from(text));
    }
    let changed_here = items.iter().filter(|item| item.subject.after.is_some());
    let unchanged = match is_targeted {
        true => 0,
        false => design.nodes.len() - changed_here.count(),
    };
    let mut changes: Vec<super::Change> = items.into_iter().map(|item| item.change).collect();
    // They stand where the work stood that went with them, and a large plan is kept for hours.
    changes.shrink_to_fit();
    Ok(Plan {
        site: design.site.clone(),
        request: request.clone(),
        unfinished: None,
        target: input.target.clone(),
        base: input.base.clone(),
        intermediate_commits: input.intermediate_commits.clone(),
        unchanged,
        changes,
        groups,
        steps,
        relies_on,
        records_digest,
        notices: notices(design),
        warnings,
        summary,
        forecast,
        options,
    })
}

/// What a reader has to know first: which guards count, and where credentials can be read on their way.
fn notices(design: &Design) -> Vec<Arc<str>> {
    let mut notices = Vec::new();
    if let Some(source) = &design.guards_from
        && !source.changed.is_empty()
    {
        notices.push(format!(
            "this revision changes documents that guard the site: {}; the plan uses those of `{}`",
            source.changed.join(", "),
            source.revision
        ));
    }
    let backends = &design.backends;
    if backends.allow_plain_http {
        notices.push(
            "credentials may be sent over plain HTTP (`allow_plain_http: true`), where anybody between can \
             read them"
                .to_owned(),
        );
    }
    let all = backends.overrides.iter().map(|(_, backend)| backend);
    let all = all.chain([&backends.hardware]);
    let is_unverified = |backend: &&HardwareBackend| {
        let verify = backend
            .settings
            .as_ref()
            .and_then(|settings| settings.get("verify"));
        verify.and_then(Node::as_bool) == Some(false)
    };
    let kinds: BTreeSet<&str> = all
        .filter(is_unverified)
        .map(|each| each.kind.as_str())
        .collect();
    for kind in kinds {
        notices.push(format!(
            "certificates of `{kind}` are not verified (`verify: false`): anybody between can read the \
             password and act in the place of the service"
        ));
    }
    notices.into_iter().map(Arc::from).collect()
}

/// The nodes that a request names, before anything is observed: those whose pods are wanted. `None`: all,
/// or what is named cannot be told, which making the plan says.
#[must_use]
pub fn named(
    design: &Design,
    records: &BTreeMap<NodeName, NodeRecord>,
    request: &Request,
) -> Option<BTreeSet<NodeName>> {
    if request.nodes.is_empty() {
        return None;
    }
    let groups = groups::in_order(design, &FxHashSet::default()).ok()?;
    let names = Names::new(design, records, &groups, true);
    let named = names.asked(&request.nodes).ok()?;
    Some(named.into_iter().cloned().collect())
}

/// Whether what was asked for can be planned at all.
fn check_request(
    input: &Input<'_>,
    options: &Options,
    asked: &FxHashSet<&NodeName>,
    clusters: &Clusters<'_>,
) -> Result<(), Error> {
    let action = input.request.action;
    if action.wants_nodes() && asked.is_empty() {
        return Err(Error::NoNodes { action });
    }
    let is_about_etcd = matches!(action, Action::CheckEtcd | Action::RemoveEtcd);
    if is_about_etcd && input.after.etcd_clusters.is_empty() {
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
        return grace(input.after, options);
    }
    Ok(())
}

/// What somebody should know who lets pods go round their budgets at the end of a drain's time.
fn round_budgets(policy: Option<OnDrainTimeout>) -> Option<Arc<str>> {
    let when = match policy? {
        OnDrainTimeout::Fail => return None,
        OnDrainTimeout::ForceDelete => "when a drain's time is over",
        OnDrainTimeout::Continue => "when their machine was seen off",
    };
    let text =
        format!("pods that a drain could not evict are deleted {when}, whatever their budgets say");
    Some(Arc::from(text))
}

/// Checks the times of the drains of a plan, where it has any.
fn check_grace(design: &Design, options: &Options, steps: &[Step]) -> Result<(), Error> {
    match steps.iter().any(|step| step.id.kind == StepKind::Drain) {
        true => grace(design, options),
        false => Ok(()),
    }
}

fn grace(design: &Design, options: &Options) -> Result<(), Error> {
    let (given, configured) = (&options.leaving, &design.configuration);
    let grace = given
        .drain_grace_period
        .unwrap_or(configured.drain_grace_period);
    let timeout = given.drain_timeout.unwrap_or(configured.drain_timeout);
    if grace < timeout {
        return Ok(());
    }
    Err(Error::GracePeriod { grace, timeout })
}

/// The groups of the nodes that are built again, in their order; those without one take no part, and
/// nothing waits for them.
fn asked_groups(
    groups: Vec<PlannedGroup>,
    items: &BTreeMap<&NodeName, &Item<'_>>,
    action: Action,
) -> Vec<PlannedGroup> {
    if action != Action::Redeploy {
        return Vec::new();
    }
    let holds = |group: &PlannedGroup| group.nodes.iter().any(|name| items.contains_key(name));
    let mut groups: Vec<PlannedGroup> = groups.into_iter().filter(holds).collect();
    let names: FxHashSet<_> = groups.iter().map(|group| group.name.clone()).collect();
    for group in &mut groups {
        group.depends_on.retain(|name| names.contains(name));
    }
    groups
}

/// The options, with the policy's values where no flag gave one.
fn effective(input: &Input<'_>) -> Options {
    let policy = &input.after.policy;
    let mut options = input.options.clone();
    if options.parallelism == 0 {
        options.parallelism = policy.parallelism.unwrap_or(PARALLELISM).max(1);
    }
    options.parallel_groups = options.parallel_groups.max(1);
    options.max_failures = options.max_failures.or(policy.max_failures);
    options
}

/// Goes through all nodes, in the order of their names, with all that is known of each.
struct Subjects<'a> {
    input: &'a Input<'a>,
    after: Beside<'a, Arc<NodeDesign>>,
    records: Beside<'a, NodeRecord>,
    seen: Option<Beside<'a, Box<ObservedNode>>>,
    has_cluster: bool,
}

impl<'a> Subjects<'a> {
    fn of(input: &'a Input<'a>) -> Self {
        Self {
            input,
            after: Beside::of(&input.after.nodes),
            records: Beside::of(input.records),
            seen: input.observations.map(|seen| Beside::of(&seen.nodes)),
            has_cluster: has_cluster(input),
        }
    }

    fn get(&mut self, name: &'a NodeName) -> Subject<'a> {
        let input = self.input;
        let record = self.records.get(name.as_str());
        let revision = record.and_then(|record| record.revision.as_ref());
        let old = revision.and_then(|revision| input.designs.get(revision));
        let old = old.map(|design| &**design);
        let before = old.and_then(|design| design.nodes.get(name));
        let seen = self.seen.as_mut();
        let seen = seen.map(|seen| seen.get(name.as_str()).map(|node| &**node));
        let observations = input.observations;
        Subject {
            name,
            after: self.after.get(name.as_str()).map(|node| &**node),
            old,
            before: before.map(|node| &**node),
            record,
            machine: seen.flatten(),
            seen: match seen {
                None => Seen::NotAsked,
                Some(node) => Seen::of(node, record),
            },
            membership: match seen {
                None => Membership::NotAsked,
                Some(node) => membership(self.has_cluster, node),
            },
            pods: observations.and_then(|observations| observations.pods.get(name)),
            remediation: observations.and_then(|observations| observations.remediation.get(name)),
        }
    }
}

/// Whether the site has a Kubernetes cluster that somebody can ask.
fn has_cluster(input: &Input<'_>) -> bool {
    let named = || {
        let backends = input.after.backends.data.as_ref();
        backends.is_some_and(|data| data.at(&["clusters", "kubernetes"]).is_some())
    };
    let seen = input.observations;
    seen.is_some_and(|seen| seen.cluster.is_some()) || named()
}

/// How a node that was asked for stands to the cluster.
fn membership(has_cluster: bool, seen: Option<&ObservedNode>) -> Membership<'_> {
    if !has_cluster {
        return Membership::NoCluster;
    }
    match seen.map(|node| &node.cluster) {
        None => Membership::Unseen("it was not looked at"),
        Some(Fact::Unknown(reason)) => Membership::Unseen(reason),
        Some(Fact::Known(None)) => Membership::Out,
        Some(Fact::Known(Some(node))) => Membership::In(node),
    }
}

/// How each node stands to retirement; those that have nothing to do with it are not in it.
fn retirements<'a>(input: &Input<'a>) -> FxHashMap<&'a NodeName, Retired<'a>> {
    let mut result = FxHashMap::default();
    let entries = input.after.retired(&input.options.as_of);
    let mut records = Beside::of(input.records);
    let mut seen = input.observations.map(|seen| Beside::of(&seen.nodes));
    for name in input.after.nodes.keys() {
        if let Some(entry) = entries.get(name) {
            result.insert(name, Retired::By(entry));
            continue;
        }
        let record = records.get(name.as_str());
        let seen = seen.as_mut().and_then(|seen| seen.get(name.as_str()));
        let flagged = seen.is_some_and(|node| node.retired.is_some());
        let recorded = record.and_then(|record| record.retired.as_deref());
        let by_hand = recorded.is_some_and(|reason| reason.starts_with(BY_HAND));
        if recorded.is_some() && !by_hand {
            result.insert(name, Retired::NoLonger);
        } else if flagged || by_hand {
            result.insert(name, Retired::ByHand);
        }
    }
    result
}

/// The first group, in run order, that holds each node.
fn first_groups(groups: &[PlannedGroup]) -> FxHashMap<&NodeName, usize> {
    let mut result = FxHashMap::default();
    for (position, group) in groups.iter().enumerate() {
        for name in &group.nodes {
            result.entry(name).or_insert(position);
        }
    }
    result
}

/// What somebody should know, gathered node by node.
#[derive(Default)]
struct Notes<'a> {
    ungrouped: Vec<&'a NodeName>,
    /// By why.
    unobserved: BTreeMap<&'a str, Vec<&'a NodeName>>,
    not_comparable: Vec<&'a NodeName>,
    unwiped: Vec<&'a NodeName>,
}

/// The nodes whose deploys nothing proves to have come up.
fn unproven<'a>(carried: &BTreeMap<&'a NodeName, &Item<'a>>) -> Vec<&'a NodeName> {
    let is_unproven = |item: &&&Item<'a>| {
        let machine = item.subject.machine;
        item.work.deploy && machine.is_some_and(|machine| machine.deploys_unverified)
    };
    let items = carried.values().filter(is_unproven);
    items.map(|item| item.subject.name).collect()
}

impl<'a> Notes<'a> {
    fn about(&mut self, input: &Input<'_>, subject: &Subject<'a>) {
        if let (Some(_), Seen::Unknown(why)) = (input.observations, subject.seen) {
            let known = subject.after.is_some() && subject.record.is_some();
            if known {
                self.unobserved.entry(why).or_default().push(subject.name);
            }
        }
        if cannot_be_compared(subject) {
            self.not_comparable.push(subject.name);
        }
    }

    fn into_warnings(self, input: &Input<'_>) -> Vec<Arc<str>> {
        let mut warnings: Vec<String> = Vec::new();
        if input.observations.is_none() {
            warnings.push(
                "nothing was observed: whether machines are as recorded, and whether those without a \
                 record are free, is not known; a machine that turns out to be deployed is not deployed over"
                    .to_owned(),
            );
        }
        let mut about = |nodes: &[&NodeName], what: &str| {
            if !nodes.is_empty() {
                warnings.push(format!("{what}: {}", listed(nodes)));
            }
        };
        for (why, nodes) in self.unobserved.iter().take(NAMED) {
            let what = format!("could not be observed, and are planned on their records ({why})");
            about(nodes, &what);
        }
        let others = self.unobserved.values().skip(NAMED).flatten();
        about(
            &others.copied().collect::<Vec<_>>(),
            "could not be observed for other reasons, and are planned on their records",
        );
        about(
            &self.not_comparable,
            "were recorded by other rules, at a revision that is not at hand, and count as unchanged",
        );
        about(
            &self.ungrouped,
            "are selected by no deployment group, and are left alone",
        );
        about(
            &self.unwiped,
            "are torn down without their disks being erased (`wipe: skip`), since their backend cannot",
        );
        if !input.target.dirty.is_empty() {
            warnings.push(format!(
                "planned from a worktree with changes in {} of the site's files; it cannot be applied \
                 before they are committed",
                input.target.dirty.len()
            ));
        }
        warnings.into_iter().map(Arc::from).collect()
    }
}

/// Names, the first few of them.
fn listed(nodes: &[&NodeName]) -> String {
    let shown: Vec<_> = nodes.iter().take(NAMED).map(|name| name.as_str()).collect();
    let shown = shown.join(", ");
    match nodes.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl Summary {
    /// Counts changes.
    pub(super) fn count<'c>(&mut self, changes: impl IntoIterator<Item = &'c super::Change>) {
        for change in changes {
            if change.excluded {
                self.excluded += 1;
            } else if change.blocked.is_some() {
                *self.blocked.entry(change.kind).or_default() += 1;
            } else if !change.shown_only {
                *self.changes.entry(change.kind).or_default() += 1;
                if change.destructive {
                    self.wiped_disks += change.disks.len();
                }
            }
        }
    }
}

impl Plan {
    /// Whether a run of it leaves something out, so that it cannot mark the revision as reached.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let skipped = |change: &super::Change| change.blocked.is_some() || change.excluded;
        !self.options.targets.is_empty()
            || !self.options.excludes.is_empty()
            || self.changes.iter().any(skipped)
    }

    /// Whether there is nothing to be done, not even a tag to be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The machines that are changed though nothing proves that they are the ones that are meant.
    pub fn unverified(&self) -> impl Iterator<Item = &NodeName> {
        let is_carried_out = |change: &&super::Change| {
            change.unverified && change.blocked.is_none() && !change.excluded && !change.shown_only
        };
        let changes = self.changes.iter().filter(is_carried_out);
        changes.map(|change| &change.node)
    }

    /// The changes that wait for a flag, or that nothing allows.
    pub fn blocked(&self) -> impl Iterator<Item = &super::Change> {
        self.changes
            .iter()
            .filter(|change| change.blocked.is_some())
    }

    /// By its id, where each step stands.
    #[must_use]
    pub fn positions(&self) -> FxHashMap<String, usize> {
        let ids = self.steps.iter().map(|step| step.id.to_string());
        ids.zip(0..).collect()
    }

    /// How many changes of a kind are carried out.
    #[must_use]
    pub fn count(&self, kind: ChangeKind) -> usize {
        self.summary.changes.get(&kind).copied().unwrap_or_default()
    }
}
