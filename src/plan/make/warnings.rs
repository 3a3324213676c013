//! Notices, shown before everything else of a plan, and warnings, shown behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{Built, Carried};
use crate::design::{GroupName, HardwareBackend, NodeName, Section};
use crate::document::Node;
use crate::guard;
use crate::guard::Guarded;
use crate::plan::action::Action;
use crate::plan::change::cannot_be_compared;
use crate::plan::input::Input;
use crate::plan::item::Item;
use crate::plan::rules::Retired;
use crate::plan::subject::{Membership, Observation, Subject};
use crate::plan::{ChangeKind, Options, PlannedGroup, Standing};
use crate::record::{Join, Phase, Unproven};
use crate::step::{OnDrainTimeout, Step, StepKind};

/// Names of nodes that a warning lists before it only counts.
const NAMED: usize = 8;

/// The notices: which guards count, and where credentials can be read on their way.
pub(super) fn notices(site: &Guarded) -> Vec<Arc<str>> {
    let mut notices = Vec::new();
    if let Some(source) = &site.guards().from
        && !source.changed.is_empty()
    {
        notices.push(format!(
            "this revision changes documents that guard the site: {}; the plan uses those of `{}`",
            source.changed.join(", "),
            source.revision
        ));
    }
    if let Some(built) = site.built_of() {
        notices.extend(built.differing.iter().map(|(node, sections)| {
            let sections: Vec<&str> = sections.iter().map(|section| section.as_str()).collect();
            format!(
                "`{node}` is built of revision {}; the commit that is checked out differs in {}, and \
                 `--target-revision committed` takes that one",
                built.revision,
                sections.join(", ")
            )
        }));
    }
    let backends = &site.guards().backends;
    if backends.allow_plain_http {
        notices.push(
            "credentials may be sent over plain HTTP (`allow_plain_http: true`), where the network in between can \
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
            "certificates of `{kind}` are not verified (`verify: false`): an attacker on the network can read the \
             password and act in the place of the service"
        ));
    }
    notices.into_iter().map(Arc::from).collect()
}

/// Returns the warnings of what is carried out.
pub(super) fn of_plan(
    input: &Input<'_>,
    options: &Options,
    (items, carried): (&[Item<'_>], &Carried<'_>),
    built: &Built,
) -> Vec<Arc<str>> {
    let steps = &built.steps[..];
    let mut warnings: Vec<Arc<str>> = hopeless(items, options, carried, built);
    let mut about = |what: &str, nodes: &[&NodeName]| {
        if !nodes.is_empty() {
            warnings.push(format!("{what}: {}", listed(nodes)).into());
        }
    };
    about(
        "are deployed unverified: their backend sees them switched on, and nothing proves that the new \
         system has come up (plain Redfish: name `deploy.url` or `deploy.port`)",
        &unproven(carried),
    );
    about(
        "are set to boot from a source that may install them when they are switched on: what a deploy left is taken back \
         first, and anything else keeps them off",
        &installing(carried, steps),
    );
    about(
        "came back in a wave whose soak has not succeeded since: they have it again, before a machine is taken out of service \
         and before a success is tagged",
        &built.owed.iter().collect::<Vec<_>>(),
    );
    let unknown = carried.values();
    let unknown = unknown.filter(|item| item.change.kind == ChangeKind::Unknown);
    let unknown: Vec<&NodeName> = unknown.map(|item| item.subject.name).collect();
    about(
        "are to be built, and could not be observed (`trueup status NODE` tells why): their steps fail, and a plan that observes \
         them builds them",
        &unknown,
    );
    let unverified = carried.values().filter(|item| item.change.unverified);
    let unverified: Vec<&NodeName> = unverified.map(|item| item.subject.name).collect();
    about(
        "are changed though nothing proves that they are the machines that are meant (unverified)",
        &unverified,
    );
    let kinds = || steps.iter().map(|step| step.id.kind);
    if kinds().any(|kind| kind == StepKind::Drain) {
        warnings.extend(round_budgets(options.leaving.on_drain_timeout));
    }
    let windows = &input.after.guards().policy.maintenance_windows;
    let waits = input.request.action.waits_for_window(steps) && !options.outside_windows;
    if !windows.is_empty() && waits {
        let windows = guard::windows::in_words(windows);
        let text = format!("this plan is carried out in maintenance windows only: {windows}");
        warnings.push(text.into());
    }
    warnings
}

/// The warnings about critical groups that fail however their nodes end, and with them the run.
fn hopeless(
    items: &[Item<'_>],
    options: &Options,
    carried: &Carried<'_>,
    built: &Built,
) -> Vec<Arc<str>> {
    // With what is blocked there is no run, unless that is skipped.
    let stays_undeployed = |item: &&Item<'_>| {
        item.change.counts_as != Standing::Deployed
            && (item.change.blocked.is_none() || options.skip_blocked)
            && !carried.contains_key(item.subject.name)
    };
    let undeployed = items.iter().filter(stays_undeployed);
    let undeployed: FxHashSet<&NodeName> = undeployed.map(|item| item.subject.name).collect();
    let text = |group: &PlannedGroup| {
        let counts = |node: &&NodeName| {
            undeployed.contains(*node) && !group.not_deployed.contains_key(*node)
        };
        let lost = match undeployed.is_empty() {
            true => 0,
            false => group.nodes.iter().filter(counts).count(),
        };
        let total = group.judged();
        let verdict = guard::evaluate(&group.criteria(), total, total.saturating_sub(lost));
        let retired = match group.retired {
            0 => String::new(),
            retired => format!(" ({retired} more retired)"),
        };
        let left_out = match lost {
            0 => "",
            _ => "; what the plan leaves out counts as not deployed",
        };
        (!verdict.passed).then(|| {
            let unmet = verdict.unmet.join("; ");
            Arc::from(format!(
                "a run of this plan fails whatever its machines do: critical group `{}` ends, at best, with {unmet}{retired}{left_out}",
                group.name
            ))
        })
    };
    let critical = built.groups.iter().filter(|group| group.critical);
    let found: Vec<(&PlannedGroup, Arc<str>)> = critical
        .filter_map(|group| Some((group, text(group)?)))
        .collect();
    if found.is_empty() {
        return Vec::new();
    }
    let judged: FxHashSet<&GroupName> = built
        .steps
        .iter()
        .filter_map(|step| step.id.group.as_ref())
        .collect();
    let is_judged = |(group, _): &(&PlannedGroup, Arc<str>)| judged.contains(&group.name);
    let found = found.into_iter().filter(is_judged);
    found.map(|(_, text)| text).collect()
}

/// The warning if pods are deleted despite their budgets at a drain's timeout.
fn round_budgets(policy: Option<OnDrainTimeout>) -> Option<Arc<str>> {
    let when = match policy? {
        OnDrainTimeout::Fail => return None,
        OnDrainTimeout::ForceDelete => "when a drain's time is over",
        OnDrainTimeout::Continue => "when their machine is off",
    };
    let text =
        format!("pods that a drain could not evict are deleted {when}, whatever their budgets say");
    Some(Arc::from(text))
}

/// Warnings, gathered node by node.
#[derive(Default)]
pub(super) struct Notes<'a> {
    pub(super) ungrouped: Vec<&'a NodeName>,
    /// By why.
    unobserved: BTreeMap<&'a str, Vec<&'a NodeName>>,
    /// Deployed machines whose cluster could not be read, by why.
    unread: BTreeMap<&'a str, Vec<&'a NodeName>>,
    not_comparable: Vec<&'a NodeName>,
    /// Machines that were taken as they were, by the sections that were not compared.
    assumed: BTreeMap<(bool, &'a [Section]), Vec<&'a NodeName>>,
    /// Machines that were built, and have not joined their clusters yet.
    not_joined: Vec<&'a NodeName>,
    /// Retired machines that are other than their design by now.
    retired: Vec<&'a NodeName>,
    pub(super) unwiped: Vec<&'a NodeName>,
}

/// The nodes whose deploys nothing proves to have come up.
fn unproven<'a>(carried: &Carried<'a>) -> Vec<&'a NodeName> {
    let is_unproven = |item: &&&Item<'a>| {
        let machine = item.subject.machine;
        item.work.deploy && machine.is_some_and(|machine| machine.deploys_unverified)
    };
    let items = carried.values().filter(is_unproven);
    items.map(|item| item.subject.name).collect()
}

/// The nodes that are switched on or adopted, and set to boot from what may install them.
fn installing<'a>(carried: &Carried<'a>, steps: &[Step]) -> Vec<&'a NodeName> {
    let items = carried.values().filter(|item| {
        let machine = item.subject.machine;
        let name = item.subject.name;
        let is_switched_on = || {
            let mut steps = steps.iter().map(|step| &step.id);
            steps.any(|id| id.kind == StepKind::PowerOn && id.node.as_ref() == Some(name))
        };
        machine.is_some_and(|machine| machine.boots_from.is_some())
            && (item.work.adopt || is_switched_on())
    });
    items.map(|item| item.subject.name).collect()
}

impl<'a> Notes<'a> {
    /// Adds what was noticed about the nodes behind these.
    pub(super) fn add(&mut self, next: Self) {
        self.ungrouped.extend(next.ungrouped);
        for (why, names) in next.unobserved {
            self.unobserved.entry(why).or_default().extend(names);
        }
        for (why, names) in next.unread {
            self.unread.entry(why).or_default().extend(names);
        }
        self.not_comparable.extend(next.not_comparable);
        for (sections, names) in next.assumed {
            self.assumed.entry(sections).or_default().extend(names);
        }
        self.not_joined.extend(next.not_joined);
        self.retired.extend(next.retired);
        self.unwiped.extend(next.unwiped);
    }

    pub(super) fn about(&mut self, input: &Input<'_>, subject: &Subject<'a>, retired: Retired<'_>) {
        if let (Some(_), Observation::Unknown(why)) = (input.observations, subject.seen) {
            let known = subject.after.is_some() && subject.record.is_some();
            if known {
                self.unobserved.entry(why).or_default().push(subject.name);
            }
        }
        if let (Some(record), Some(after)) = (subject.record, subject.after) {
            let is_in_cluster = record.join == Some(Join::Joined)
                || record.join.is_none() && !after.labels.is_empty();
            if let Membership::Unseen(why) = subject.membership
                && record.phase == Phase::Deployed
                && is_in_cluster
            {
                self.unread.entry(why).or_default().push(subject.name);
            }
            let assumed = record.assumed();
            if !assumed.is_empty() {
                let is_said = record.reason_to_assume().is_some();
                let as_these = self.assumed.entry((is_said, assumed)).or_default();
                as_these.push(subject.name);
            }
            if record.awaited_since().is_some() {
                self.not_joined.push(subject.name);
            }
        }
        if retired.is_retired()
            && subject.is_recorded_deployed()
            && subject
                .differing()
                .is_some_and(|sections| !sections.is_empty())
        {
            self.retired.push(subject.name);
        }
        if cannot_be_compared(subject) {
            self.not_comparable.push(subject.name);
        }
    }

    /// How many machines are not known to be as designed.
    pub(super) fn unproven(&self) -> Unproven {
        let unseen = [&self.unobserved, &self.unread].map(BTreeMap::values);
        let unseen: BTreeSet<&NodeName> = unseen.into_iter().flatten().flatten().copied().collect();
        Unproven {
            // The changes of the plan show those.
            differing: 0,
            unobserved: unseen.len(),
            assumed: self.assumed.values().map(Vec::len).sum(),
            not_joined: self.not_joined.len(),
        }
    }

    pub(super) fn warnings(&self, input: &Input<'_>) -> Vec<Arc<str>> {
        let mut warnings: Vec<String> = Vec::new();
        if input.observations.is_none() && input.request.action != Action::Guards {
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
        let unseen = [
            (
                &self.unobserved,
                "could not be observed, and are planned on their records",
            ),
            (
                &self.unread,
                "are in clusters that cannot be read, and count as joined",
            ),
        ];
        for (all, what) in unseen {
            for (why, nodes) in all.iter().take(NAMED) {
                about(nodes, &format!("{what} ({why})"));
            }
            let others: Vec<_> = all.values().skip(NAMED).flatten().copied().collect();
            about(&others, &format!("{what} (for other reasons)"));
        }
        about(
            &self.not_comparable,
            "were recorded by other rules, at a revision that is not at hand, and count as unchanged",
        );
        for ((is_said, sections), nodes) in &self.assumed {
            let sections: Vec<&str> = sections.iter().map(|section| section.as_str()).collect();
            let by = match is_said {
                true => "were taken as an operator said",
                false => "were adopted",
            };
            let what = format!(
                "{by}, and are assumed to be as designed in what was not verified ({})",
                sections.join(", ")
            );
            about(nodes, &what);
        }
        about(
            &self.not_joined,
            "were built, and are not recorded as joined to their clusters yet",
        );
        about(
            &self.retired,
            "are retired, and are left as they are though they differ from their design",
        );
        about(
            &self.ungrouped,
            "are selected by no deployment group, and are neither built nor torn down",
        );
        about(
            &self.unwiped,
            "are torn down without their disks being erased (`wipe: skip`), since their backend cannot",
        );
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
