//! Explains a thing of a plan or a run: what becomes of it, the minimal causes of that, and the ways out.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use super::{Failure, FailureKind};
use crate::apply::{self, RunProgress};
use crate::design::{GroupName, NodeName, RunId};
use crate::diagnostic::{in_shell, nearest};
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::{Fact, Observations};
use crate::plan::{
    APPROVE, Block, BlockedNode, Cause, Change, ExplainedSubject, Explanation, ExplanationBasis,
    Lineage, PROTECTED, Plan, PlanEffect, RunState, StepExplanation, StepStanding, StepTiming,
    SubjectKind, Unblocking, WayOut, effect,
};
use crate::record::{NodeRecord, Outcome};
use crate::reservation::{Reservation, Reservations};
use crate::run::{Durations, KnownSteps, Undecided};
use crate::step::StepId;

/// Steps that are explained for one thing at most, and nodes that are listed.
const MOST: usize = 20;
/// Seconds of milliseconds.
const SECOND: u64 = 1000;

/// A thing that a word names in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A node.
    Node(NodeName),
    /// A step, by its place in the plan.
    Step(usize),
    /// A group, by its place in the plan.
    Group(usize),
    /// The run itself.
    Run,
}

impl Thing {
    /// Returns the thing of a plan that a word names; `nodes`: those of the design, which the plan may leave alone.
    #[must_use]
    pub fn named(word: &str, plan: &Plan, nodes: &dyn Fn(&str) -> bool) -> Option<Self> {
        let group = |name: &str| {
            let mut groups = plan.groups.iter();
            let position = groups.position(|group| group.name.as_str() == name);
            position.map(Self::Group)
        };
        if let Some(name) = word.strip_prefix("group:") {
            return group(name);
        }
        let name = word.strip_prefix("node:").unwrap_or(word);
        let is_changed = |change: &Change| change.node.as_str() == name;
        if plan.changes.iter().any(is_changed) || nodes(name) {
            return Some(Self::Node(NodeName::from(name)));
        }
        if let Ok(id) = word.parse::<StepId>()
            && let Some(position) = plan.steps.iter().position(|step| step.id == id)
        {
            return Some(Self::Step(position));
        }
        let in_group = plan.groups.iter().flat_map(|group| &group.nodes);
        let mut in_group = in_group.filter(|node| node.as_str() == name);
        match in_group.next() {
            Some(node) => Some(Self::Node(node.clone())),
            None => group(word),
        }
    }

    /// The failure for a word that names nothing.
    #[must_use]
    pub fn unknown<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Failure {
        let message = format!("`{word}` is no code, word, field, node, step, group or run");
        let hint = match nearest(word, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`trueup nodes` lists the nodes, `trueup plan --steps` the steps, `trueup log` the runs, \
                     docs/diagnostics.md the codes, docs/words.md the words"
                .to_owned(),
        };
        Failure::new(FailureKind::NotFound, message).hint(hint)
    }
}

/// The known facts beside a plan.
#[derive(Default)]
pub struct Known<'a> {
    /// The steps of its run.
    pub steps: KnownSteps,
    /// Durations of past runs.
    pub durations: Durations,
    /// The hardware profile of each node that is explained.
    pub profiles: BTreeMap<NodeName, Arc<str>>,
    /// The records of the nodes.
    pub records: Option<&'a BTreeMap<NodeName, NodeRecord>>,
    /// The machines that persons work on.
    pub reservations: Option<&'a Reservations>,
    /// The observed state, if the plan was made of one.
    pub observations: Option<&'a Observations>,
    /// The reasons against a saved plan by now: nothing but a new plan helps.
    pub outdated: Vec<String>,
    /// Why no run of the plan begins now, where no maintenance window is open.
    pub closed: Option<String>,
    /// The flags that the blocked change of the node needs.
    pub unblocking: Option<Unblocking>,
    /// The last run, where it left the thing short of what its plan was to make of it.
    pub left_by: Option<(RunId, Outcome)>,
    /// Its steps that wait for a decision.
    pub undecided: Vec<Undecided>,
    /// The flags that its run needs again to be resumed here, since another clone began it.
    pub resume_flags: Vec<String>,
    /// Whether workers carry its run out, part by part.
    pub is_divided: bool,
    /// The time, in seconds since 1970.
    pub now: i64,
}

/// Explains a thing of a plan.
///
/// # Errors
///
/// The steps of the plan are no graph, or what is known is about another plan.
pub fn explain(
    plan: &Plan,
    basis: ExplanationBasis,
    thing: &Thing,
    known: Known<'_>,
) -> Result<Explanation, apply::Error> {
    let progress = RunProgress::new(plan, &known.steps.entries)?;
    let has_ended = matches!(
        &basis,
        ExplanationBasis::Run {
            unfinished: None,
            outcome: Some(_),
            ..
        }
    );
    let progress = match has_ended {
        true => progress.ended(),
        false => progress,
    };
    let explainer = Explainer {
        plan,
        progress,
        basis,
        known,
    };
    Ok(explainer.explained(thing))
}

struct Explainer<'a> {
    plan: &'a Plan,
    progress: RunProgress<'a>,
    basis: ExplanationBasis,
    known: Known<'a>,
}

impl Explainer<'_> {
    fn explained(self, thing: &Thing) -> Explanation {
        let plan = self.plan;
        let (kind, name): (_, Arc<str>) = match thing {
            Thing::Node(node) => (SubjectKind::Node, node.as_str().into()),
            Thing::Step(index) => (SubjectKind::Step, plan.steps[*index].id.to_string().into()),
            Thing::Group(group) => (SubjectKind::Group, plan.groups[*group].name.as_str().into()),
            Thing::Run => (SubjectKind::Run, self.run_name()),
        };
        let node = match thing {
            Thing::Node(node) => Some(node),
            Thing::Step(index) => plan.steps[*index].id.node.as_ref(),
            Thing::Group(_) | Thing::Run => None,
        };
        let change = node.and_then(|node| plan.changes.iter().find(|change| change.node == *node));
        let group = match thing {
            Thing::Group(group) => Some(plan.groups[*group].clone()),
            Thing::Node(_) | Thing::Step(_) | Thing::Run => None,
        };
        let (steps, more_steps) = self.steps(thing);
        let is_run = matches!(self.basis, ExplanationBasis::Run { .. });
        let is_changed = change.is_some_and(|change| !change.excluded && !change.shown_only);
        let mut explanation = Explanation {
            subject: ExplainedSubject { kind, name },
            site: plan.site.clone(),
            change: change.cloned(),
            unchanged: node
                .filter(|_| change.is_none())
                .map(|node| self.unchanged(node)),
            unobserved: node.and_then(|node| self.unobserved(node.as_str())),
            blocked: group
                .as_ref()
                .map_or_else(Vec::new, |group| self.blocked(&group.name)),
            group,
            unblocking: self.known.unblocking.clone(),
            // What keeps others from being changed is nothing to a node that the plan leaves alone.
            refusals: match is_run || node.is_some() && !is_changed {
                true => Vec::new(),
                false => plan.refusals(),
            },
            steps,
            more_steps,
            ways_out: Vec::new(),
            basis: self.basis.clone(),
        };
        explanation.ways_out = self.ways_out(&explanation);
        explanation
    }

    fn run_name(&self) -> Arc<str> {
        match &self.basis {
            ExplanationBasis::Run { run, .. } => run.as_str().into(),
            ExplanationBasis::Plan
            | ExplanationBasis::File { .. }
            | ExplanationBasis::ServicePlan { .. } => "plan".into(),
        }
    }

    /// The steps that belong to a thing, explained, and how many are left out.
    fn steps(&self, thing: &Thing) -> (Vec<StepExplanation>, usize) {
        let steps = self.plan.steps.iter().enumerate();
        let found: Vec<usize> = match thing {
            Thing::Step(index) => vec![*index],
            Thing::Node(node) => steps
                .filter(|(_, step)| {
                    let owes = || step.is_owed_soak() && step.soaked().any(|each| each == node);
                    step.id.node.as_ref() == Some(node) || owes()
                })
                .map(|(index, _)| index)
                .collect(),
            Thing::Group(group) => {
                let name = &self.plan.groups[*group].name;
                let is_own = |index: usize, id: &StepId| {
                    let is_open = matches!(
                        self.progress.standing(index),
                        StepStanding::Begun | StepStanding::Failed | StepStanding::Unknown
                    );
                    id.group.as_ref() == Some(name) && (id.node.is_none() || is_open)
                };
                steps
                    .filter(|(index, step)| is_own(*index, &step.id))
                    .map(|(index, _)| index)
                    .collect()
            }
            Thing::Run => steps
                .filter(|(index, step)| {
                    // Of what was skipped the steps of the site and its groups are enough: nodes have theirs from these.
                    match self.progress.standing(*index) {
                        StepStanding::Begun | StepStanding::Failed | StepStanding::Unknown => true,
                        StepStanding::Skipped => step.id.node.is_none(),
                        StepStanding::Planned
                        | StepStanding::Waiting
                        | StepStanding::Ready
                        | StepStanding::Succeeded
                        | StepStanding::NotNeeded
                        | StepStanding::NotReached => false,
                    }
                })
                .map(|(index, _)| index)
                .collect(),
        };
        let more = found.len().saturating_sub(MOST);
        let explained = found.into_iter().take(MOST).map(|index| self.step(index));
        (explained.collect(), more)
    }

    fn step(&self, index: usize) -> StepExplanation {
        let mut explained = self.progress.explain(index);
        explained.timing = self.timing(&explained);
        explained
    }

    /// The usual duration of a step, if enough are recorded for its kind and hardware profile.
    fn timing(&self, step: &StepExplanation) -> Option<StepTiming> {
        let profile = match &step.step.node {
            Some(node) => self.known.profiles.get(node).map_or("", |profile| profile),
            None => "",
        };
        let mut values = self.known.durations.of(step.step.kind, profile)?.to_vec();
        values.sort_unstable();
        let at = |percent: usize| values[(values.len() - 1) * percent / 100];
        let running = (step.standing == StepStanding::Begun)
            .then(|| self.running(&step.step))
            .flatten();
        let longest = values.last().copied().unwrap_or_default();
        Some(StepTiming {
            usual_least: at(10) / SECOND,
            usual_most: at(90).div_ceil(SECOND),
            recorded: values.len(),
            running,
            overdue: running.is_some_and(|seconds| seconds > longest.div_ceil(SECOND)),
        })
    }

    /// For how many seconds a step has run.
    fn running(&self, step: &StepId) -> Option<u64> {
        let began = self.known.steps.began.get(step)?;
        let began: jiff::Timestamp = began.parse().ok()?;
        u64::try_from(self.known.now - began.as_second()).ok()
    }

    fn blocked(&self, group: &GroupName) -> Vec<BlockedNode> {
        let of_group = self.plan.blocked();
        let of_group = of_group.filter(|change| change.group.as_ref() == Some(group));
        let blocked = of_group.filter_map(|change| {
            Some(BlockedNode {
                node: change.node.clone(),
                block: change.blocked.clone()?,
            })
        });
        blocked.take(MOST).collect()
    }

    /// The reservation of a node, if a person works on it.
    fn reservation(&self, node: &str) -> Option<&Reservation> {
        self.known.reservations?.of(node)
    }

    /// Why the machine of a node could not be observed, if that was tried.
    fn unobserved(&self, node: &str) -> Option<Arc<str>> {
        let seen = self.known.observations?.node(node)?;
        seen.unobserved().cloned()
    }

    /// Why nothing is done to a node, and who works on it.
    fn unchanged(&self, node: &NodeName) -> String {
        let why = self.unchanged_by_record(node);
        match self.reservation(node.as_str()) {
            Some(reservation) => format!("it is {reservation}; {why}"),
            None => why,
        }
    }

    /// Why nothing is done to a node: it is as designed only if that is known.
    fn unchanged_by_record(&self, node: &NodeName) -> String {
        let record = self.known.records.and_then(|records| records.get(node));
        let Some(record) = record else {
            return "no step is about it".to_owned();
        };
        if let Some(reason) = &record.retired {
            return format!("it is retired, and left out of every group: {reason}");
        }
        let revision = record.revision.as_deref().map(crate::diagnostic::short_id);
        let revision = revision.map(|revision| format!(" from commit {revision}"));
        // What was done since then, such as a service, may be of a later commit.
        let by = format!(
            "{}{}; run {} wrote it last",
            record.phase.as_str(),
            revision.unwrap_or_default(),
            record.run,
        );
        let by = match &record.maintenance {
            Some(reason) => format!("{by}; it is in maintenance: {reason}"),
            None => by,
        };
        let seen = self
            .known
            .observations
            .and_then(|seen| seen.node(node.as_str()));
        let is_seen = seen.is_some_and(|seen| seen.unobserved().is_none());
        let assumed: Vec<&str> = record.assumed().iter().map(|each| each.as_str()).collect();
        if !assumed.is_empty() {
            let assumed = assumed.join(", ");
            return format!(
                "it is assumed to be as designed ({assumed}: {}, not verified): its record says {by}",
                record.assumed_by()
            );
        }
        let owes = self.plan.owing_soak().any(|each| each == node);
        let by = match record.soaking.as_ref().filter(|_| owes) {
            Some(run) => format!("{by}; it owes the soak of run {run}, with which the plan begins"),
            None => by,
        };
        match is_seen {
            true => format!("it is as designed: its record says {by}"),
            false => format!(
                "its design is the one of its record, which says {by}; the machine was not observed"
            ),
        }
    }

    fn ways_out(&self, explanation: &Explanation) -> Vec<WayOut> {
        let mut ways = Vec::new();
        match &self.basis {
            ExplanationBasis::Plan
            | ExplanationBasis::File { .. }
            | ExplanationBasis::ServicePlan { .. } => {
                self.ways_of_plan(explanation, &mut ways);
                if let Some((run, outcome)) = &self.known.left_by {
                    let name = in_shell([&*explanation.subject.name]);
                    ways.push(way(
                        format!("see how far the last run brought it, which {}", outcome.words()),
                        Some(format!("trueup explain {name} {run}")),
                    ));
                }
            }
            ExplanationBasis::Run {
                run, unfinished, ..
            } => match unfinished.as_ref().map(|unfinished| unfinished.state) {
                Some(RunState::Running | RunState::Interrupted) if self.known.is_divided => {
                    let command = |command: &str| Some(format!("trueup run {command} {run}"));
                    ways.push(way(
                        "workers carry it out; its parts that have not ended are carried out by `trueup run part`",
                        command("status"),
                    ));
                    ways.push(way("end it, once all its parts have ended", command("end")));
                    ways.push(way("abort it, and see what stays half-done", command("abort")));
                }
                Some(RunState::EndedElsewhere) => ways.push(way(
                    "publish its records, in the clone in which it has ended",
                    Some("trueup log".to_owned()),
                )),
                Some(RunState::Running) => ways.push(way(
                    "the run continues by itself; its process reports it as it goes",
                    None,
                )),
                Some(RunState::Interrupted) => {
                    let undecided = self.known.undecided.iter();
                    ways.extend(undecided.map(|undecided| {
                        let what = format!("check it, and decide: {}", undecided.evidence);
                        let step = &undecided.step;
                        way(what, Some(format!("trueup apply --resume --decide {step}=done")))
                    }));
                    let resume = ["trueup apply --resume".to_owned()].into_iter();
                    let resume: Vec<_> = resume.chain(self.known.resume_flags.clone()).collect();
                    ways.push(way("resume the run", Some(resume.join(" "))));
                    let abort = format!("trueup abort {run}");
                    ways.push(way("abort it, and see what stays half-done", Some(abort)));
                }
                None if explanation.steps.iter().any(StepExplanation::is_unsuccessful) => ways.push(way(
                    "correct the causes; what failed or was skipped is in the next plan, and nothing else",
                    Some("trueup plan".to_owned()),
                )),
                None => {}
            },
        }
        let overdue = explanation.steps.iter();
        let overdue = overdue.filter(|step| step.timing.is_some_and(|timing| timing.overdue));
        for node in overdue.filter_map(|step| step.step.node.as_ref()) {
            let change = self.plan.changes.iter().find(|change| change.node == *node);
            let machine = change.and_then(|change| change.machine.as_ref());
            let controller = machine.and_then(|machine| machine.controller.address.clone());
            let what = match controller {
                Some(address) => {
                    format!(
                        "check the console and the event log of {node}, at its controller {address}"
                    )
                }
                None => format!("check the console of {node}"),
            };
            ways.push(way(what, Some(format!("trueup status {node}"))));
        }
        ways
    }

    fn ways_of_plan(&self, explanation: &Explanation, ways: &mut Vec<WayOut>) {
        if !self.known.outdated.is_empty() {
            if explanation.subject.kind == SubjectKind::Node {
                ways.extend(self.ways_back_to_work(&explanation.subject.name));
            }
            let what = format!(
                "the plan is stale: {}; plan again",
                self.known.outdated.join("; ")
            );
            ways.push(way(what, Some(self.plan_command(&self.plan.allowances()))));
            return;
        }
        if self.plan.history.lineage == Lineage::Rollback {
            let what = "if this clone is only behind: follow the branch, and plan again";
            ways.push(way(what, Some("git pull".to_owned())));
        }
        let blocked = explanation
            .change
            .as_ref()
            .and_then(|change| change.blocked.as_ref());
        if let Some(unblocking) = &explanation.unblocking
            && !unblocking.flags.is_empty()
        {
            let what = match unblocking.remaining {
                None => "allow the change",
                Some(_) => "allow what flags allow; the rest has to change first",
            };
            ways.push(way(what, Some(self.plan_command(&unblocking.command))));
        } else if let (Some(block), None) = (blocked, &explanation.unblocking)
            && let Some(flag) = &block.flag
        {
            let mut flags = self.plan.allowances();
            flags.push(flag.to_string());
            ways.push(way("allow the change", Some(self.plan_command(&flags))));
        }
        let remaining = explanation
            .unblocking
            .as_ref()
            .map_or(blocked, |unblocking| unblocking.remaining.as_ref());
        if let Some(block) = remaining.filter(|block| block.flag.is_none())
            && let Some(change) = &explanation.change
        {
            ways.extend(self.ways_out_of_a_block(block, &change.node));
        }
        if explanation.subject.kind == SubjectKind::Node {
            ways.extend(self.ways_back_to_work(&explanation.subject.name));
            ways.extend(self.ways_out_of_a_loss(explanation));
        }
        for refusal in &explanation.refusals {
            let what = format!("{}: {}", refusal.reason, refusal.who);
            let command = refusal.command.as_deref();
            ways.push(way(what, command.map(|command| self.of_its_file(command))));
        }
        if explanation
            .change
            .as_ref()
            .is_some_and(|change| change.excluded)
        {
            let what =
                "a flag (`--target`, `--exclude`, `--canary`) leaves it out: plan without that";
            ways.push(way(what, Some(self.of_its_file(&self.plan.again_whole()))));
        }
        let is_carried_out = explanation.change.as_ref().is_some_and(|change| {
            change.blocked.is_none() && !change.excluded && !change.shown_only
        });
        if is_carried_out && explanation.refusals.is_empty() {
            let command = match &self.basis {
                ExplanationBasis::File { path } => apply_command(self.plan, path),
                ExplanationBasis::ServicePlan { path } => format!("POST {path}/apply"),
                ExplanationBasis::Plan | ExplanationBasis::Run { .. } => {
                    self.plan.request_as("apply", &self.plan.allowances())
                }
            };
            match &self.known.closed {
                Some(why) => ways.push(way(format!("apply the plan then: {why}"), Some(command))),
                None => ways.push(way("apply the plan", Some(command))),
            }
        } else if let Some(why) = &self.known.closed {
            let what = format!("and then apply the plan in a maintenance window: {why}");
            ways.push(way(what, None));
        }
    }

    /// The ways out of what no flag allows, by what would have to change.
    fn ways_out_of_a_block(&self, block: &Block, node: &NodeName) -> Vec<WayOut> {
        let what = format!("no flag allows it while this holds: {}", block.reason);
        let status = |node: &str| Some(format!("trueup status {node}"));
        match block.cause {
            Cause::Protected if &*block.reason == PROTECTED => vec![way(
                "no flag allows what the policy protects: take it out of `protected` of the Policy, commit that, and put it in force",
                Some("trueup apply guards".to_owned()),
            )],
            Cause::Protected | Cause::Rule | Cause::Unreadable => {
                vec![way(what, status(node.as_str()))]
            }
            Cause::Etcd => {
                let silent = self.silent_members(node);
                if silent.is_empty() {
                    // The others show which of them is out.
                    return vec![way(what, Some("trueup status".to_owned()))];
                }
                let ways = silent.into_iter().map(|(member, is_off)| match is_off {
                    true if self.reservation(member).is_some() => way(
                        format!("switch {member} on, whose member of etcd does not answer, once the one who reserved it has ended that"),
                        Some(format!("trueup release {member}")),
                    ),
                    true => way(
                        format!("switch {member} on, whose member of etcd does not answer"),
                        Some(format!("trueup apply power on {member}")),
                    ),
                    false => way(
                        format!("repair the member of etcd on {member}, which does not answer"),
                        status(member),
                    ),
                });
                ways.collect()
            }
        }
    }

    /// The machines of the etcd clusters of a node whose members do not answer, and whether each is off.
    fn silent_members(&self, node: &NodeName) -> BTreeMap<&str, bool> {
        let mut silent = BTreeMap::new();
        let Some(seen) = self.known.observations else {
            return silent;
        };
        let clusters = seen.etcd.values();
        for cluster in clusters.filter(|cluster| cluster.answers.contains_key(node.as_str())) {
            let unknown = |(_, answer): &(_, &Fact<_>)| matches!(answer, Fact::Unknown(_));
            for (member, _) in cluster.answers.iter().filter(unknown) {
                if let Some(machine) = seen.node(member) {
                    let is_off = machine.power == Fact::Known(PowerState::Off);
                    silent.insert(&**member, is_off);
                }
            }
        }
        silent
    }

    /// The ways out of what an operator has set for a node by hand, or what moves it, where its cleaning failed.
    fn ways_back_to_work(&self, node: &str) -> Vec<WayOut> {
        let record = self.known.records.and_then(|records| records.get(node));
        let seen = self.known.observations.and_then(|seen| seen.node(node));
        let unset = |action: &str| Some(format!("trueup apply {action} {node} --unset"));
        // What moves it sets that by itself where its cleaning fails.
        let in_maintenance = record.is_some_and(|record| record.maintenance.is_some())
            || seen.is_some_and(|seen| seen.maintenance.is_some());
        let is_fenced = seen
            .is_some_and(|seen| seen.provision == Fact::Known(ProvisionState::CleanFailed))
            || record.is_some_and(|record| record.clean_step.is_some());
        let is_retired = record.is_some_and(|record| record.retired.is_some());
        let member = seen.and_then(|seen| match &seen.cluster {
            Fact::Known(node) => node.as_ref(),
            Fact::Unknown(_) => None,
        });
        let mut steps = self.plan.steps.iter();
        let is_cordoned = member.is_some_and(|member| member.ready && member.unschedulable)
            && !steps.any(|step| step.id.node.as_ref().is_some_and(|of| of.as_str() == node));
        let ways = [
            self.reservation(node).map(|reservation| {
                let what = format!(
                    "{} works on it until {}; release it when that is done",
                    reservation.by, reservation.until
                );
                way(what, Some(format!("trueup release {node}")))
            }),
            is_fenced.then(|| {
                way(
                    "its cleaning failed: clean it again, once the cause is gone",
                    Some(format!("trueup apply clean {node}")),
                )
            }),
            in_maintenance.then(|| way("take it out of maintenance", unset("maintenance"))),
            is_cordoned.then(|| {
                way(
                    "its node is cordoned, and nothing of the plan ends that: let pods be scheduled on it again",
                    Some(format!("trueup apply uncordon {node}")),
                )
            }),
            is_retired.then(|| {
                way(
                    "end its retirement, unless a document retires it",
                    unset("retire"),
                )
            }),
        ];
        ways.into_iter().flatten().collect()
    }

    /// The ways on from a machine that does not answer: it comes back, is repaired, or is gone.
    fn ways_out_of_a_loss(&self, explanation: &Explanation) -> Vec<WayOut> {
        let node = &explanation.subject.name;
        let has_record = self
            .known
            .records
            .is_some_and(|records| records.contains_key(&**node));
        if explanation.unobserved.is_none() || !has_record {
            return Vec::new();
        }
        let mut ways = vec![way(
            "check its power, its network and the address of its controller; once it answers, the next plan includes it again",
            Some(format!("trueup status {node}")),
        )];
        if self.reservation(node).is_none() {
            ways.push(way(
                "if it is being repaired, have every plan leave it alone until then",
                Some(format!("trueup reserve {node} --until 2d --reason repair")),
            ));
        }
        ways.push(way(
            "if it is gone for good, and off: take it down without the machine; then replace it, or delete its document",
            Some(format!(
                "trueup plan teardown {node} --i-have-checked --node-is-gone {node}"
            )),
        ));
        ways
    }

    /// The command that makes the plan again under some flags, into its file where it has one.
    fn plan_command(&self, flags: &[String]) -> String {
        self.of_its_file(&self.plan.request_as("plan", flags))
    }

    /// A command about the plan, with its file where it has one.
    fn of_its_file(&self, command: &str) -> String {
        match &self.basis {
            ExplanationBasis::File { path } if command.starts_with("trueup plan") => {
                format!("{command} -o {}", in_shell([&**path]))
            }
            ExplanationBasis::File { path } if command == APPROVE => {
                command.replace("FILE", &in_shell([&**path]))
            }
            _ => command.to_owned(),
        }
    }
}

/// The command that applies a saved plan: what it allows is confirmed by its effect.
#[must_use]
pub fn apply_command(plan: &Plan, path: &dyn Display) -> String {
    let path = in_shell([&*path.to_string()]);
    let allows = !plan.allowances().is_empty() || plan.request.action.is_targeted();
    match allows {
        true => {
            let digest = PlanEffect::of(plan).digest();
            format!("trueup apply {path} --effect {}", effect::short(&digest))
        }
        false => format!("trueup apply {path}"),
    }
}

fn way(what: impl Into<String>, command: Option<String>) -> WayOut {
    WayOut {
        what: what.into(),
        command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Entry;
    use crate::plan::tests::saved;

    /// A step that began at a time, and whose kind took these times before, after so many seconds.
    fn after(seconds: i64) -> (StepExplanation, Vec<WayOut>) {
        let plan = saved::full();
        let touches = |id: &StepId| id.kind.facts().touches_world() && id.node.is_some();
        let index = plan
            .steps
            .iter()
            .position(|step| touches(&step.id))
            .unwrap();
        let step = plan.steps[index].id.clone();
        let node = step.node.clone().unwrap();
        let profile: Arc<str> = "generic".into();
        let mut known = Known {
            profiles: [(node, profile.clone())].into(),
            now: 1_800_000_000 + seconds,
            ..Known::default()
        };
        for minutes in [12, 13, 14, 15, 18, 17, 16] {
            known.durations.add(step.kind, &profile, minutes * 60_000);
        }
        let began = jiff::Timestamp::from_second(1_800_000_000)
            .unwrap()
            .to_string();
        known.steps.began.insert(step.clone(), began.into());
        known.steps.entries.push(Entry::Intent { step });
        let basis = ExplanationBasis::Run {
            run: "01RUN".into(),
            outcome: None,
            halted: None,
            unfinished: None,
            may_be_begun: false,
        };
        let explained = explain(&plan, basis, &Thing::Step(index), known).unwrap();
        (explained.steps[0].clone(), explained.ways_out)
    }

    #[test]
    fn a_step_that_runs_longer_than_any_before_is_overdue_and_its_machine_is_to_be_checked() {
        let (step, ways) = after(41 * 60);
        let timing = step.timing.unwrap();
        assert_eq!((timing.usual_least, timing.usual_most), (12 * 60, 17 * 60));
        assert_eq!((timing.running, timing.recorded), (Some(41 * 60), 7));
        assert!(timing.overdue);
        let node = step.step.node.unwrap();
        let status = format!("trueup status {node}");
        assert!(
            ways.iter()
                .any(|way| way.command.as_deref() == Some(&status)),
            "{ways:?}"
        );
        let (step, ways) = after(18 * 60);
        assert!(!step.timing.unwrap().overdue);
        assert!(
            ways.iter()
                .all(|way| way.command.as_deref() != Some(&status))
        );
    }
}
