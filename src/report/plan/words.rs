//! The words that all formats of a plan share.

use std::fmt::Write;

use rustc_hash::FxHashSet;
use serde_json::Value;

use crate::design::{Rung, SuccessCriteria};
use crate::diff::Link;
use crate::guard::{WaveReason, WaveSize};
use crate::plan::{
    Change, ChangeKind, IntermediateCommit, Lineage, Plan, PlanEffect, PlannedGroup, Verdict,
    effect,
};
use crate::report::escape::visible;
use crate::report::{Visible, counted, short_id};

/// Fields of a node that are shown where not everything is.
pub(super) const MOST_FIELDS: usize = 12;
/// Characters of a value that are shown at most.
const MOST_OF_A_VALUE: usize = 120;

/// Edits that are named where changes are said to come from several.
const MOST_CAUSES: usize = 3;

/// The signatures that a plan needs, and those that it has, a line each, and whether the line is about one that is missing or
/// refused.
pub(super) fn approvals(plan: &Plan) -> Vec<(String, bool)> {
    let approvals = &plan.approvals;
    let needed = approvals.needed.iter().map(|rule| {
        let of = match rule.of.is_empty() {
            true => String::new(),
            false => format!(" of {}", rule.of.join(", ")),
        };
        let state = match rule.missing {
            0 => "given".to_owned(),
            missing => format!("{missing} missing"),
        };
        let count = usize::try_from(rule.count).unwrap_or(usize::MAX);
        let count = counted(count, "approval", "approvals");
        let instead = rule.recovery.as_ref().map_or_else(String::new, |recovery| {
            format!(", or {} of {}", recovery.count, recovery.of.join(", "))
        });
        let line = format!("{}: {count}{of}{instead}, {state}", rule.rule);
        (line, rule.missing > 0)
    });
    let given = approvals.given.iter();
    let given = given.map(|each| {
        (
            format!("approved by {} until {}", each.by, each.expires),
            false,
        )
    });
    let refused = approvals.refused.iter();
    let refused = refused.map(|each| {
        let line = format!("that of {} does not count: {}", each.by, each.reason);
        (line, true)
    });
    let advisory = approvals.advisory.then(|| {
        let line = "advisory: an account that may push the records can take these rules away; a protected revision (`--backends-from`), \
                    records in a branch or `signed_runs: required` prevents that";
        (line.to_owned(), false)
    });
    let all = needed.chain(given).chain(refused).chain(advisory);
    all.map(|(line, is_open)| (visible(&line), is_open))
        .collect()
}

/// The verb of a change: of an action on nodes, its name.
pub(in crate::report) fn verb(change: &Change) -> String {
    change
        .does
        .as_deref()
        .map_or_else(|| verb_of_kind(change.kind).to_owned(), visible)
}

fn verb_of_kind(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Create => "deploy",
        ChangeKind::Adopt => "adopt",
        ChangeKind::Unknown => "unknown",
        ChangeKind::Record => "record",
        ChangeKind::AwaitReady => "await-ready",
        ChangeKind::Rename => "rename",
        ChangeKind::Relabel => "relabel",
        ChangeKind::Service => "service",
        ChangeKind::Redeploy => "redeploy",
        ChangeKind::Destroy => "destroy",
        ChangeKind::Retire => "retire",
        ChangeKind::Unretire => "unretire",
        ChangeKind::Drift => "drift",
        ChangeKind::Operation => "do as asked",
        ChangeKind::Accept => "accept",
        ChangeKind::None => "none",
    }
}

/// The change of nodes, after their number: `40 to deploy`.
pub(super) fn outlook(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Create => "to deploy",
        ChangeKind::Adopt => "to adopt",
        ChangeKind::Unknown => "unknown",
        ChangeKind::Record => "to record",
        ChangeKind::AwaitReady => "to await",
        ChangeKind::Rename => "to rename",
        ChangeKind::Relabel => "to relabel",
        ChangeKind::Service => "to service",
        ChangeKind::Redeploy => "to redeploy",
        ChangeKind::Destroy => "to destroy",
        ChangeKind::Retire => "to retire",
        ChangeKind::Unretire => "to unretire",
        ChangeKind::Drift => "drifted",
        ChangeKind::Operation => "as asked",
        ChangeKind::Accept => "to accept",
        ChangeKind::None => "unchanged",
    }
}

/// Verb, rung, disks and whether it is carried out: `redeploy [wipe], wipes sda, sdb, BLOCKED`.
pub(super) fn headline(change: &Change) -> String {
    let mut text = verb(change);
    if let Some(rung) = change.rung.filter(|rung| *rung > Rung::Record) {
        let _ = write!(text, " [{rung}]");
    }
    if !change.disks.is_empty() {
        let disks: Vec<String> = change.disks.iter().map(|disk| visible(disk)).collect();
        let does = if change.destructive {
            "wipes"
        } else {
            "writes"
        };
        let _ = write!(text, ", {does} {}", disks.join(", "));
    }
    if change.unverified {
        text.push_str(", unverified");
    }
    if change.excluded {
        text.push_str(", left out as asked");
    }
    if change.is_accepted() {
        text.push_str("ed before");
    } else if change.shown_only {
        text.push_str(", shown only");
    }
    text
}

/// The cleaning of a change's machine: its source, then the steps in their order, those that erase
/// with the disks that they erase. Nothing if it is not cleaned.
pub(super) fn cleaning(change: &Change) -> Vec<String> {
    let Some(cleaning) = &change.cleaning else {
        return Vec::new();
    };
    let mut lines = vec![format!("cleaning: {}", visible(&cleaning.because))];
    for (number, step) in (1..).zip(&cleaning.steps) {
        let mut line = format!("  {number}. {}", visible(&step.name()));
        if let Some(arguments) = &step.arguments {
            let _ = write!(line, " {}", visible(arguments));
        }
        if let Some(priority) = step.priority {
            let _ = write!(line, " (priority {priority})");
        }
        if step.erases && change.disks.is_empty() {
            line.push_str(", erases");
        } else if step.erases {
            let disks: Vec<String> = change.disks.iter().map(|disk| visible(disk)).collect();
            let _ = write!(line, ", erases {}", disks.join(", "));
        }
        lines.push(line);
    }
    lines
}

/// A verdict on a plan, and the rule that it is of.
pub(in crate::report) fn verdict(verdict: &Verdict) -> String {
    format!("{} ({})", visible(&verdict.message), visible(&verdict.rule))
}

/// A value for output: on one line, not too long; `(none)` for an absent one.
pub(in crate::report) fn value(value: Option<&str>) -> String {
    let Some(text) = value else {
        return "(none)".to_owned();
    };
    match text.char_indices().nth(MOST_OF_A_VALUE) {
        Some((end, _)) => format!("{}…", visible(&text[..end])),
        None => visible(text),
    }
}

/// The chain of documents: `site/x/host.yaml:31 HostProfile cp_r720 (edited) → …`.
pub(super) fn chain(links: &[Link]) -> String {
    let mut text = String::new();
    for (index, link) in links.iter().enumerate() {
        if index > 0 {
            text.push_str(" → ");
        }
        if !link.place.path.is_empty() {
            let _ = write!(text, "{}:{} ", Visible(&link.place.path), link.place.line);
        }
        let _ = write!(
            text,
            "{} ({})",
            Visible(&document(&link.document)),
            Visible(&link.by)
        );
    }
    text
}

/// The edits that changes come from: the first link of each chain, the first few of them.
pub(super) fn causes<'a>(changes: impl Iterator<Item = &'a Change>) -> String {
    let chains = changes.flat_map(|change| &change.fields);
    let mut seen = FxHashSet::default();
    let mut shown: Vec<String> = Vec::new();
    for link in chains.filter_map(|field| field.chain.first()) {
        if seen.insert((&link.document, &link.by, &link.place)) && shown.len() < MOST_CAUSES {
            shown.push(chain(std::slice::from_ref(link)));
        }
    }
    let text = shown.join(", ");
    match seen.len() - shown.len() {
        0 => text,
        more => format!("{text} and {}", counted(more, "more edit", "more edits")),
    }
}

/// `drydock/HostProfile/v1/cp_r720` as `HostProfile cp_r720`.
pub(in crate::report) fn document(name: &str) -> String {
    let mut parts = name.splitn(4, '/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(kind), Some(_), Some(name)) => format!("{kind} {name}"),
        _ => name.to_owned(),
    }
}

/// The description of a group: `critical, 40 nodes, at least 90 % must succeed, after control`.
pub(in crate::report) fn about(group: &PlannedGroup) -> String {
    let mut parts = Vec::new();
    if group.critical {
        parts.push("critical".to_owned());
    }
    parts.push(counted(group.nodes.len(), "node", "nodes"));
    parts.extend(criteria(&group.success_criteria));
    if !group.depends_on.is_empty() {
        let names: Vec<&str> = group.depends_on.iter().map(|name| name.as_str()).collect();
        parts.push(format!("after {}", names.join(", ")));
    }
    if !group.not_deployed.is_empty() {
        let count = group.not_deployed.len();
        parts.push(format!(
            "{count} not deployed before and not in this plan, which do not count"
        ));
    }
    if group.retired > 0 {
        parts.push(format!("{} retired left out", group.retired));
    }
    if let Some(size) = group.waves {
        let (waves, reason) = waves(size);
        parts.push(format!("{waves}: {reason}"));
    }
    visible(&parts.join(", "))
}

/// The size of waves, `waves of 3`, and its reason, `a quarter of the group`.
pub(super) fn waves(size: WaveSize) -> (String, &'static str) {
    let reason = match size.reason {
        WaveReason::Flag => "--max-unavailable",
        WaveReason::Policy => "max_unavailable of the policy",
        WaveReason::ControlPlane => "the control plane's limit",
        WaveReason::Ten => "the default limit",
        WaveReason::Quarter => "a quarter of the group",
        WaveReason::FailureDomain => "one failure domain",
        WaveReason::Criteria => "what the success criteria leave",
        WaveReason::Etcd => "what etcd can lose",
    };
    let waves = match size.most {
        1 => "one machine at a time".to_owned(),
        most => format!("waves of {most}"),
    };
    (waves, reason)
}

/// Part of the commits that lead to the target, under a title.
pub(super) struct HistoryPart<'p> {
    pub(super) title: String,
    pub(super) is_refused: bool,
    pub(super) commits: &'p [IntermediateCommit],
}

/// Why it cannot be applied as it stands, as one sentence; `None` if it can.
pub(super) fn refusal(plan: &Plan) -> Option<String> {
    let reasons: Vec<String> = plan
        .refusals()
        .into_iter()
        .map(|each| each.reason)
        .collect();
    let because = reasons.join("; ");
    (!reasons.is_empty()).then(|| format!("Cannot be applied as it stands: {because}"))
}

/// Until when nothing is applied, for the blocked changes of a plan.
pub(super) fn until_unblocked(plan: &Plan) -> &'static str {
    let blocks = plan.blocked().filter_map(|change| change.blocked.as_ref());
    let (allowable, fixed): (Vec<_>, Vec<_>) = blocks.partition(|block| block.flag.is_some());
    if plan.guards.forbid("skip-blocked") {
        return match (allowable.is_empty(), fixed.is_empty()) {
            (_, true) => "until they are allowed",
            (true, false) => "until the reasons are gone",
            (false, false) => "until they are allowed, or the reasons gone that no flag allows",
        };
    }
    match (allowable.is_empty(), fixed.is_empty()) {
        (_, true) => "until they are allowed or skipped",
        (true, false) => "until the reasons are gone or they are skipped",
        (false, false) => {
            "until they are allowed, or the reasons gone that no flag allows, or they are skipped"
        }
    }
}

/// The commits that lead to the target: how it stands to the last site action, and whether it is published.
pub(super) fn history(plan: &Plan) -> Vec<HistoryPart<'_>> {
    let is_refused = plan.is_refused_for_commits();
    let between = &plan.intermediate_commits[..];
    let (title, commits) = match plan.history.lineage {
        Lineage::Follows => {
            let commits = &plan.history.since_base[..];
            let number = counted(commits.len(), "commit", "commits");
            (format!("{number} since the last success"), commits)
        }
        Lineage::IntermediateCommits => {
            let one = "commit since the last site action was never applied as a whole";
            let more = "commits since the last site action were never applied as a whole";
            (counted(between.len(), one, more), between)
        }
        Lineage::Rollback => {
            let commits = counted(between.len(), "commit", "commits");
            let behind = match is_refused {
                true => " (`git pull`, if this clone is only behind)",
                false => "",
            };
            (
                format!("this is a rollback, which undoes {commits}{behind}"),
                between,
            )
        }
        Lineage::Diverged => {
            let text = "the commit of the last site action is not on the line of this one";
            (text.to_owned(), between)
        }
    };
    let judged = match (plan.history.lineage, is_refused) {
        (Lineage::Follows, _) => "",
        (_, true) => "; `apply` refuses this without `--allow-intermediate-commits`",
        (_, false) => ", which `--allow-intermediate-commits` allows",
    };
    let colon = if commits.is_empty() { "" } else { ":" };
    let mut parts = Vec::new();
    if plan.history.lineage != Lineage::Follows || !commits.is_empty() {
        parts.push(HistoryPart {
            title: capitalized(&format!("{title}{judged}{colon}")),
            is_refused,
            commits,
        });
    }
    if let Some(upstream) = &plan.history.unpublished {
        let upstream = visible(upstream);
        parts.push(HistoryPart {
            title: format!("The commit is not on `{upstream}` yet"),
            is_refused: false,
            commits: &[],
        });
    }
    parts
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// The flags under which a plan was made, those that narrow it and those that allow.
pub(super) fn flags(plan: &Plan) -> Option<String> {
    let options = &plan.options;
    let mut flags = options.narrowing();
    flags.extend(plan.allowances());
    let mut parts = vec![flags.join(" ")];
    if let Some(Value::Object(rungs)) = plan.guards.values.get("disruption") {
        let rungs = rungs.iter();
        let rungs = rungs.map(|(of, rung)| format!("{of}: {}", rung.as_str().unwrap_or_default()));
        let rungs: Vec<String> = rungs.collect();
        parts.push(format!("Policy disruption {{{}}}", rungs.join(", ")));
    }
    if let (Some(most), Some(own)) = (
        options.max_failures,
        plan.guards
            .values
            .get("max_failures")
            .and_then(Value::as_u64),
    ) && most == own
    {
        parts.push(format!("Policy max_failures {own}"));
    }
    parts.retain(|part| !part.is_empty());
    let flags = visible(&parts.join("; "));
    (!flags.is_empty()).then(|| format!("In force: {flags}"))
}

/// The guards of a plan that become weaker, and those that hold only as they are in force. Each line with whether it
/// makes something weaker.
pub(super) fn guards(plan: &Plan) -> Vec<(String, bool)> {
    let guards = &plan.guards;
    let mut lines: Vec<(String, bool)> = Vec::new();
    for each in &guards.loosened {
        let by = match &each.flag {
            Some(flag) => format!("by `--{flag}`"),
            None => "by the documents".to_owned(),
        };
        let line = format!("weaker {by}: `{}`: {}", each.guard, each.how);
        lines.push((visible(&line), true));
    }
    let in_force = guards.in_force.as_deref().map(short);
    let stricter = &guards.stricter_in_force;
    if let Some(in_force) = in_force.filter(|_| !stricter.is_empty()) {
        let names: Vec<String> = stricter.iter().map(|guard| format!("`{guard}`")).collect();
        let line = format!(
            "as in commit {in_force}, until a run with these documents succeeds: {}",
            names.join(", ")
        );
        lines.push((visible(&line), false));
    }
    lines
}

/// The conditions of a group, without its nodes: whether it is critical, and its criteria.
pub(super) fn conditions(group: &PlannedGroup) -> String {
    format!("{} {:?}", group.critical, criteria(&group.success_criteria))
}

/// The criteria in words; nothing if nothing is checked.
fn criteria(criteria: &SuccessCriteria) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(percent) = criteria.percent_successful_nodes {
        parts.push(format!("{percent} % must succeed"));
    }
    if let Some(minimum) = criteria.minimum_successful_nodes {
        parts.push(format!("at least {minimum} must succeed"));
    }
    if let Some(maximum) = criteria.maximum_failed_nodes {
        parts.push(format!("at most {maximum} may fail"));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The first nodes by name, and how many there are beyond them: `n3, n4 and 388 more`.
pub(super) fn names<'a>(
    changes: impl ExactSizeIterator<Item = &'a Change>,
    most: usize,
    show: impl Fn(&str) -> String,
) -> String {
    let total = changes.len();
    let shown: Vec<String> = changes
        .take(most)
        .map(|change| show(change.node.as_str()))
        .collect();
    match total - shown.len() {
        0 => shown.join(", "),
        more if shown.is_empty() => counted(more, "node", "nodes"),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The first few names, and how many more there are.
pub(super) fn first_of(names: &[&str], most: usize) -> String {
    let shown = names[..names.len().min(most)].join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The beginning of a commit's id or a digest.
pub(super) fn short(id: &str) -> String {
    visible(short_id(id))
}

/// The target of the plan, and its base.
pub(super) fn revisions(plan: &Plan) -> (String, String) {
    let mut target = match &plan.target.revision {
        Some(revision) => short(revision),
        None => "worktree".to_owned(),
    };
    for (name, revision) in &plan.target.repositories {
        let _ = write!(target, " + {} {}", visible(name), short(revision));
    }
    let base = match &plan.base {
        Some(base) => short(&base.revision),
        // Runs on a part of the site are no base.
        None if has_records(plan) => "no action on the whole site yet".to_owned(),
        None => "nothing applied".to_owned(),
    };
    (target, base)
}

/// Whether machines of a plan were applied before.
fn has_records(plan: &Plan) -> bool {
    let is_new = |change: &Change| {
        matches!(
            change.kind,
            ChangeKind::Create | ChangeKind::Adopt | ChangeKind::Unknown
        )
    };
    plan.unchanged > 0 || !plan.changes.iter().all(is_new)
}

/// The parts that an approval of a plan covers: a title, and for the site and each of the first nodes its name and parts.
pub(super) struct Covers {
    pub(super) title: String,
    pub(super) parts: Vec<(String, Vec<String>)>,
    /// The nodes that are left out.
    pub(super) more: usize,
}

/// The parts that an approval of a plan covers, if it needs any, of so many nodes.
pub(super) fn covers(plan: &Plan, most: usize) -> Option<Covers> {
    if plan.approvals.is_empty() || plan.steps.is_empty() {
        return None;
    }
    let effect = PlanEffect::of(plan);
    let nodes = effect.nodes();
    let more = nodes.len().saturating_sub(most);
    let site = ("the site".to_owned(), vec![visible(&effect.of_site())]);
    let nodes = nodes.take(most).map(|covered| {
        let parts = covered.parts.iter().map(|part| visible(part));
        (visible(covered.node.as_str()), parts.collect())
    });
    Some(Covers {
        title: format!(
            "An approval of effect {} covers this, or less",
            effect::short(&effect.digest())
        ),
        parts: std::iter::once(site).chain(nodes).collect(),
        more,
    })
}

/// The digits of the effect by which a plan is pinned.
pub(super) fn effect(plan: &Plan) -> String {
    effect::short(&PlanEffect::of(plan).digest()).to_owned()
}

/// A duration that is not known exactly, rounded to what can be said of it.
pub(crate) fn rounded(seconds: u64) -> String {
    let unit = unit(seconds);
    duration((seconds + unit / 2) / unit * unit)
}

/// A bound of a duration, rounded up.
pub(in crate::report) fn at_most(seconds: u64) -> String {
    duration(seconds.next_multiple_of(unit(seconds)))
}

/// The part of a duration that is worth saying, in seconds.
fn unit(seconds: u64) -> u64 {
    match seconds {
        0..120 => 1,
        120..600 => 10,
        600..7_200 => 60,
        7_200..36_000 => 300,
        36_000..DAY => 1_800,
        _ => 3_600,
    }
}

/// The seconds of a day.
const DAY: u64 = 24 * 3_600;

/// `37 d 5 h`, `2 h 10 min`, `45 min`, `30 s`.
pub(in crate::report) fn duration(seconds: u64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
    if seconds >= DAY {
        return match (seconds / DAY, hours % 24) {
            (days, 0) => format!("{days} d"),
            (days, hours) => format!("{days} d {hours} h"),
        };
    }
    match (hours, minutes, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) if minutes < 10 => format!("{minutes} min {seconds} s"),
        (0, minutes, _) => format!("{minutes} min"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod duration_tests {
    use super::{DAY, at_most, duration, rounded};

    #[test]
    fn durations_are_told_in_the_units_that_count() {
        for (seconds, expected) in [
            (0, "0 s"),
            (61, "1 min 1 s"),
            (45 * 60, "45 min"),
            (2 * 3_600 + 600, "2 h 10 min"),
            (DAY - 60, "23 h 59 min"),
            (DAY, "1 d"),
            (DAY + 3_599, "1 d"),
            (893 * 3_600, "37 d 5 h"),
        ] {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
        assert_eq!(rounded(DAY - 1), "1 d");
        assert_eq!(at_most(DAY + 1), "1 d 1 h");
    }
}
