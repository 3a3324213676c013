//! The lines that end a plan: what happens to how many nodes, what is blocked, and how long it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::forecast;
use super::words::{self, at_most, outlook, rounded};
use crate::plan::{Action, Change, ChangeKind, Lineage, Plan, PlanEffect};
use crate::report::counted;

/// The kinds in the order of the summary, and whether a 0 is worth saying.
const ORDER: [(ChangeKind, bool); 15] = [
    (ChangeKind::Create, true),
    (ChangeKind::Relabel, true),
    (ChangeKind::Redeploy, true),
    (ChangeKind::Destroy, true),
    (ChangeKind::Service, false),
    (ChangeKind::AwaitReady, false),
    (ChangeKind::Rename, false),
    (ChangeKind::Adopt, false),
    (ChangeKind::Record, false),
    (ChangeKind::Retire, false),
    (ChangeKind::Unretire, false),
    (ChangeKind::Operation, false),
    (ChangeKind::Accept, false),
    (ChangeKind::Drift, false),
    (ChangeKind::Unknown, false),
];

/// The lines of the summary, without line breaks; the first lists the changes, then the blocked ones
/// if something is, the last how long it takes if something is done.
#[must_use]
pub fn summary(plan: &Plan) -> Vec<String> {
    let summary = &plan.summary;
    let done: usize = summary.changes.values().sum();
    let blocked: usize = summary.blocked.values().sum();
    let rest = remaining(plan);
    let mut lines = vec![match done + blocked {
        0 if plan.guards.changes => {
            "Puts the guards of the documents in force; does nothing to any machine.".to_owned()
        }
        0 => format!("{}{rest}.", nothing(plan)),
        _ => format!("Plan: {}{rest}.", parts(plan).join(", ")),
    }];
    if plan.is_refused_for_commits() {
        let what = match plan.history.lineage {
            Lineage::Rollback => "a rollback",
            Lineage::Diverged => "the last site action applied a commit of another line",
            _ => "commits since the last site action",
        };
        lines.push(format!(
            "BLOCKED: {what}; nothing is applied without `--allow-intermediate-commits`."
        ));
    }
    if plan.is_refused_for_loosening() {
        let loosened = plan.guards.loosened_by_documents();
        let guards: BTreeSet<&str> = loosened.map(|each| &*each.guard).collect();
        let guards = counted(guards.len(), "guard becomes", "guards become");
        lines.push(format!(
            "LOOSENING: {guards} weaker; nothing is applied without `--allow-loosening`."
        ));
    }
    if !plan.guards.exceeded.is_empty() {
        let exceeded = plan.guards.exceeded.iter().map(ToString::to_string);
        let exceeded: Vec<String> = exceeded.collect();
        let way_out = match plan.is_refused_for_reach() {
            true => "nothing is applied until it is narrowed by `--target`",
            false => "approvals lift that",
        };
        lines.push(format!(
            "BLAST RADIUS: {} by the policy; {way_out}.",
            exceeded.join("; ")
        ));
    }
    if plan.is_refused_for_ticket() {
        lines.push(
            "TICKET: the policy asks for one; nothing is applied without `--ticket`.".to_owned(),
        );
    }
    if plan.is_denied() {
        let denied = plan.policies.denied.iter();
        let rules: BTreeSet<&str> = denied.map(|verdict| &*verdict.rule).collect();
        let rules = counted(rules.len(), "rule", "rules");
        lines.push(format!(
            "DENIED by {rules} of the site; nothing is applied."
        ));
    }
    if plan.approvals.is_missing_any() {
        let rules = plan.approvals.needed.iter();
        let missing = rules.map(|rule| rule.missing).max().unwrap_or_default();
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        let missing = counted(missing, "approval is", "approvals are");
        let reason = plan.options.break_glass.as_deref().unwrap_or_default();
        lines.push(match &plan.approvals.break_glass {
            None => format!(
                "UNAPPROVED: {missing} missing; nothing is applied without (`trueup approve`)."
            ),
            Some(outlook) => match &outlook.refused {
                Some(why) => format!(
                    "UNAPPROVED: {missing} missing; `--break-glass` cannot do without: {why}."
                ),
                None => format!(
                    "BREAK-GLASS: {missing} missing, and done without if {} signs the run: {reason}.",
                    outlook.by.join(" or ")
                ),
            },
        });
    }
    if blocked > 0 {
        let parts: Vec<String> = ORDER
            .iter()
            .filter_map(|(kind, _)| {
                let number = of(&summary.blocked, *kind);
                (number > 0).then(|| format!("{number} {}", outlook(*kind)))
            })
            .collect();
        let so = match plan.options.skip_blocked {
            true => "skipped".to_owned(),
            false => format!("nothing is applied {}", words::until_unblocked(plan)),
        };
        lines.push(format!("BLOCKED: {}; {so}.", parts.join(", ")));
    }
    if let Some(time) = time(plan).filter(|_| done > 0) {
        let touches = forecast::etcd(plan).map_or_else(String::new, |etcd| format!(", {etcd}"));
        let waves = in_waves(plan);
        lines.push(format!("{time}{touches}{waves}."));
    }
    lines
}

/// The size of its waves and why, and whether their machines come back.
fn in_waves(plan: &Plan) -> String {
    let Some(size) = plan.summary.waves else {
        return String::new();
    };
    let (waves, reason) = words::waves(size);
    let leaves_down = [Action::PowerOff, Action::Drain, Action::ShutdownKubelet];
    let stay = match leaves_down.contains(&plan.request.action) {
        true => ", and each stays down",
        false => "",
    };
    format!("; {waves} ({reason}){stay}")
}

/// How long a run takes: half of the runs less than the first figure, nine of ten less than the second.
fn time(plan: &Plan) -> Option<String> {
    let Some(time) = plan.forecast.time else {
        let longest = plan.summary.longest_path;
        return (longest > 0).then(|| {
            let longest = at_most(longest);
            format!("Not estimated; timeouts allow {longest} on the longest path")
        });
    };
    let (median, most) = (rounded(time.median), at_most(time.percentile_90));
    let nine_of_ten = match median == most {
        true => String::new(),
        false => format!("90 %: under {most}; "),
    };
    let timeouts = at_most(time.timeouts);
    Some(format!(
        "Takes about {median} ({nine_of_ten}timeouts allow {timeouts})"
    ))
}

fn of(counts: &BTreeMap<ChangeKind, usize>, kind: ChangeKind) -> usize {
    counts.get(&kind).copied().unwrap_or(0)
}

/// Why nothing is to be done.
fn nothing(plan: &Plan) -> String {
    if let Some(run) = &plan.unfinished {
        return format!("Nothing is planned: run {} {}", run.run, run.state.words());
    }
    if plan.repeats_soak() {
        return "No machine is changed: a run waits for the soak that an earlier one owes"
            .to_owned();
    }
    let differing = plan.changes.iter();
    let differing = differing.filter(|change| change.shown_only).count();
    if differing > 0 && plan.changes.iter().all(Change::is_accepted) {
        let nodes = counted(differing, "node differs", "nodes differ");
        return format!("No changes: {nodes} as accepted, as shown");
    }
    if differing > 0 && !plan.request.action.is_targeted() {
        let nodes = counted(differing, "node differs", "nodes differ");
        // If a group waits for such a node, a run still judges it.
        return match plan.steps.is_empty() {
            true => format!("Nothing to carry out: {nodes}, as shown"),
            false => {
                format!("No machine is changed: {nodes}, as shown, and a run judges the groups")
            }
        };
    }
    let options = &plan.options;
    let why = match plan.request.action {
        Action::Update if !options.targets.is_empty() || !options.excludes.is_empty() => {
            return "No changes among the nodes that `--target` and `--exclude` select".to_owned();
        }
        Action::Update if !plan.summary.unproven.is_none() => {
            "nothing is known to differ from the design"
        }
        Action::Update => "the site is as designed",
        Action::Remediate => "nothing asks for remediation",
        Action::Guards => "the guards of the documents are in force",
        Action::Accept if plan.request.undo => {
            "the nodes have no such acceptance that could be undone"
        }
        Action::Accept => "the nodes have no such difference that is not accepted already",
        _ => "all is so already",
    };
    format!("No changes: {why}")
}

/// How many machines a plan takes, and the words that named them: the beginning of the question whether to carry it out.
#[must_use]
pub fn scope(plan: &Plan) -> String {
    /// Words that are listed.
    const MOST: usize = 8;
    let taken = PlanEffect::of(plan).scale().nodes;
    let machines = counted(taken, "machine", "machines");
    let action = plan.request.action;
    let words = match action.is_targeted() {
        true => &plan.request.nodes,
        false => &plan.options.targets,
    };
    if words.is_empty() {
        return format!("`{action}` takes {machines} of site `{}`", plan.site);
    }
    let listed: Vec<String> = words
        .iter()
        .take(MOST)
        .map(|word| format!("`{word}`"))
        .collect();
    let more = match words.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "`{action}` takes {machines}, named by {}{more}",
        listed.join(", ")
    )
}

/// The number of nodes for each kind of change, and its costs.
fn parts(plan: &Plan) -> Vec<String> {
    let summary = &plan.summary;
    let disks = (summary.wiped_disks > 0)
        .then(|| format!("wipes {}", counted(summary.wiped_disks, "disk", "disks")));
    // The disks belong to the redeploys if nothing else can wipe any.
    let only_redeploys = of(&summary.changes, ChangeKind::Redeploy) > 0
        && of(&summary.changes, ChangeKind::Destroy) == 0
        && of(&summary.changes, ChangeKind::Create) == 0;
    let mut parts = Vec::new();
    for (kind, always) in ORDER {
        let number = of(&summary.changes, kind);
        if number == 0 && !always {
            continue;
        }
        let mut part = format!("{number} {}", outlook(kind));
        if let (ChangeKind::Redeploy, true, Some(disks)) = (kind, only_redeploys, &disks) {
            part = format!("{part} ({disks})");
        }
        parts.push(part);
    }
    if let (false, Some(disks)) = (only_redeploys, disks) {
        parts.push(format!("{disks} in all"));
    }
    parts
}

/// The nodes without a change: `, 2 retired left out, 40 unchanged`.
fn remaining(plan: &Plan) -> String {
    let mut text = String::new();
    for (number, words) in [
        (plan.summary.retired, "retired left out"),
        (plan.summary.excluded, "left out as asked"),
        (plan.unchanged, "unchanged"),
    ] {
        if number > 0 {
            let _ = write!(text, ", {number} {words}");
        }
    }
    for words in plan.summary.unproven.words() {
        let _ = write!(text, ", {words}");
    }
    text
}
