//! The rehearsal of a plan: its run is simulated many times, and in each some steps go wrong.
//!
//! A simulated run follows the dispatcher's own decisions, as an estimate does ([`super::estimate`]), so criteria of groups,
//! gates, waves, parallelism and the limit of failures count as they will. What goes wrong with a step depends on the seed
//! of the run and the step alone: the same seed is the same run. Machines are not simulated, and guards that
//! are judged at the instant of the act refuse nothing here.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Error;
use super::estimate::{Play, Random, played};
use super::expected::ExpectedDurations;
use super::finish::node_results;
use super::schedule::Schedule;
use crate::design::{ClusterName, NodeName};
use crate::journal::StepOutcome;
use crate::plan::{Plan, Rehearsal, RehearsedCluster, RehearsedGroup, WorstRun};
use crate::record::Outcome;
use crate::step::{KindStage, KindSubject, LeavingRole, StepKind};

/// Steps of the worst run that are listed.
const MOST_FAILURES: usize = 8;

/// Of a hundred attempts of a step, how many go wrong in which way; the others do not.
const FAULTS: [(u64, Fault); 4] = [
    (1, Fault::Fails),
    (1, Fault::Hangs),
    (3, Fault::Passes),
    (3, Fault::Late),
];

/// How many times as long a step takes that is late.
const LATE: u64 = 3;

/// A way in which an attempt of a step goes wrong.
#[derive(Clone, Copy)]
enum Fault {
    /// It takes its time, and fails for good.
    Fails,
    /// It does not end before its timeout.
    Hangs,
    /// It fails in a way that passes: it is retried, as often as its kind may be.
    Passes,
    /// It takes longer, and fails if that is longer than its timeout.
    Late,
}

/// The course of a step in one run.
struct Course {
    takes: u64,
    failure: Option<&'static str>,
}

/// A step that does not end before its timeout.
const HANGS: &str = "does not end before its timeout";
/// A step that would end after its timeout.
const TOO_LATE: &str = "takes longer than its timeout";

/// One run: what happens in it, and what is counted meanwhile.
struct Take<'a> {
    plan: &'a Plan,
    expected: &'a ExpectedDurations,
    /// The last step of each node that is to succeed for it to be back.
    last_of: &'a FxHashMap<&'a NodeName, usize>,
    seed: u64,
    failing: FxHashMap<usize, &'static str>,
    away: BTreeMap<&'a NodeName, usize>,
    most_away: usize,
    members: BTreeMap<&'a ClusterName, usize>,
    fewest: BTreeMap<&'a ClusterName, usize>,
}

impl<'a> Take<'a> {
    fn new(
        plan: &'a Plan,
        expected: &'a ExpectedDurations,
        last_of: &'a FxHashMap<&'a NodeName, usize>,
        seed: u64,
    ) -> Self {
        let clusters = plan.forecast.etcd.iter();
        let members: BTreeMap<_, _> = clusters.map(|each| (&each.cluster, each.now)).collect();
        Self {
            plan,
            expected,
            last_of,
            seed,
            failing: FxHashMap::default(),
            away: BTreeMap::new(),
            most_away: 0,
            fewest: members.clone(),
            members,
        }
    }

    /// Draws the course of a step.
    fn course(&self, index: usize) -> Course {
        let step = &self.plan.steps[index];
        let facts = step.id.kind.facts();
        let values = self.expected.of_step(index);
        let mut random = Random::of(self.seed, index as u64);
        let mut draw = || values[random.below(values.len())];
        let own = draw();
        if !facts.touches_world() {
            return Course {
                takes: own,
                failure: None,
            };
        }
        let limit = match step.timeout {
            0 => u64::MAX,
            timeout => timeout.saturating_mul(1000),
        };
        let mut takes = 0_u64;
        for attempt in 1..=facts.attempts.max(1) {
            let own = if attempt == 1 {
                own
            } else {
                values[random.below(values.len())]
            };
            let (spent, failure) = match fault(&mut random) {
                None => (own, None),
                Some(Fault::Fails) => (own, Some("fails for good")),
                Some(Fault::Hangs) if step.timeout > 0 => (limit, Some(HANGS)),
                Some(Fault::Hangs) => (own, Some("fails for good")),
                Some(Fault::Late) if own.saturating_mul(LATE) > limit => (limit, Some(TOO_LATE)),
                Some(Fault::Late) => (own.saturating_mul(LATE), None),
                Some(Fault::Passes) if attempt < facts.attempts => {
                    takes = takes.saturating_add(own / 2);
                    continue;
                }
                Some(Fault::Passes) => (own / 2, Some("is refused in each attempt")),
            };
            return Course {
                takes: takes.saturating_add(spent),
                failure,
            };
        }
        Course {
            takes,
            failure: None,
        }
    }

    /// How many members a step takes out of each cluster.
    fn removed(&self, index: usize) -> impl Iterator<Item = &'a ClusterName> + use<'a> {
        let step = &self.plan.steps[index];
        let is_removal = step.id.kind == StepKind::RemoveEtcd && !step.standby;
        let removals = match is_removal {
            true => &**step.given().etcd_members(),
            false => &[],
        };
        removals.iter().map(|each| &each.cluster)
    }
}

/// The fault of an attempt.
fn fault(random: &mut Random) -> Option<Fault> {
    let mut drawn = random.below(100) as u64;
    for (share, fault) in FAULTS {
        if drawn < share {
            return Some(fault);
        }
        drawn -= share;
    }
    None
}

impl Play for Take<'_> {
    fn begin(&mut self, index: usize) -> u64 {
        let step = &self.plan.steps[index];
        let facts = step.id.kind.facts();
        let takes_away = matches!(facts.stage, KindStage::TearDown | KindStage::TakeOff)
            || facts.leaving == LeavingRole::Takes;
        if let Some(node) = step
            .id
            .node
            .as_ref()
            .filter(|_| takes_away && !step.standby)
        {
            self.away.entry(node).or_insert(index);
            self.most_away = self.most_away.max(self.away.len());
        }
        for cluster in self.removed(index) {
            if let Some(count) = self.members.get_mut(cluster) {
                *count = count.saturating_sub(1);
                let fewest = self.fewest.entry(cluster).or_insert(*count);
                *fewest = (*fewest).min(*count);
            }
        }
        let course = self.course(index);
        if let Some(failure) = course.failure {
            self.failing.insert(index, failure);
        }
        course.takes
    }

    fn end(&mut self, index: usize) -> StepOutcome {
        if let Some(failure) = self.failing.get(&index) {
            return StepOutcome::Failed {
                message: Arc::from(*failure),
            };
        }
        let step = &self.plan.steps[index];
        let node = step.id.node.as_ref();
        if let Some(node) = node.filter(|node| self.last_of.get(node) == Some(&index))
            && self.away.remove(node).is_some()
            && step.id.kind.facts().stage == KindStage::Deploy
        {
            // It is back, and so are its members.
            let own = self.plan.steps.iter().enumerate();
            let own = own.filter(|(_, each)| each.id.node.as_ref() == Some(node));
            for (at, _) in own {
                for cluster in self.removed(at) {
                    *self.members.entry(cluster).or_default() += 1;
                }
            }
        }
        StepOutcome::Succeeded
    }
}

/// Rehearses a plan in so many runs, with the seeds from `first_seed` on. The same plan, durations and seeds give the same.
///
/// # Errors
///
/// The steps are no graph that can be run.
pub fn rehearse(
    plan: &Plan,
    expected: &ExpectedDurations,
    first_seed: u64,
    runs: usize,
) -> Result<Rehearsal, Error> {
    let start = Schedule::new(plan)?;
    let last_of = last_steps(plan);
    let mut whole = Gathered::new(plan, first_seed, runs);
    for number in 0..runs as u64 {
        let seed = first_seed.wrapping_add(number);
        let mut take = Take::new(plan, expected, &last_of, seed);
        let (took, schedule) = played(start.clone(), &[], None, &mut take);
        whole.add(&take, took, &schedule);
    }
    Ok(whole.into_rehearsal())
}

/// The last step of each node that is to succeed for it to be back.
fn last_steps(plan: &Plan) -> FxHashMap<&NodeName, usize> {
    let mut last_of: FxHashMap<&NodeName, usize> = FxHashMap::default();
    for (index, step) in plan.steps.iter().enumerate() {
        let is_of_node = step.id.kind.facts().subject != KindSubject::Site && !step.standby;
        if let Some(node) = step.id.node.as_ref().filter(|_| is_of_node) {
            last_of.insert(node, index);
        }
    }
    last_of
}

/// The steps that go wrong by themselves in the run of a seed, in the order of the plan, and whether they hang.
///
/// # Errors
///
/// The steps are no graph that can be run.
pub fn failing_in(
    plan: &Plan,
    expected: &ExpectedDurations,
    seed: u64,
) -> Result<Vec<(usize, bool)>, Error> {
    let last_of = last_steps(plan);
    let mut take = Take::new(plan, expected, &last_of, seed);
    played(Schedule::new(plan)?, &[], None, &mut take);
    let failing = take.failing.into_iter();
    let mut failing: Vec<_> = failing
        .map(|(index, how)| (index, how == HANGS || how == TOO_LATE))
        .collect();
    failing.sort_unstable();
    Ok(failing)
}

/// The steps that go wrong in the run of a seed if they are begun.
#[cfg(test)]
pub(super) fn failing_steps(plan: &Plan, expected: &ExpectedDurations, seed: u64) -> Vec<usize> {
    let last_of = FxHashMap::default();
    let take = Take::new(plan, expected, &last_of, seed);
    let fails = |index: &usize| take.course(*index).failure.is_some();
    (0..plan.steps.len()).filter(fails).collect()
}

/// The results of the runs up to now.
struct Gathered<'a> {
    plan: &'a Plan,
    rehearsal: Rehearsal,
    /// How long each run took, in milliseconds.
    took: Vec<u64>,
}

impl<'a> Gathered<'a> {
    fn new(plan: &'a Plan, first_seed: u64, runs: usize) -> Self {
        let is_worked_on = |name| {
            let mut steps = plan.steps.iter();
            steps.any(|step| {
                step.id.kind == StepKind::GateDeployed && step.id.group.as_ref() == Some(name)
            })
        };
        let groups = plan.groups.iter().filter(|group| is_worked_on(&group.name));
        let groups = groups.map(|group| RehearsedGroup {
            group: group.name.clone(),
            critical: group.critical,
            failed: 0,
            seed: None,
        });
        let etcd = plan.forecast.etcd.iter().map(|each| RehearsedCluster {
            cluster: each.cluster.clone(),
            now: each.now,
            fewest: each.now,
            seed: first_seed,
            left_short: 0,
        });
        Self {
            plan,
            rehearsal: Rehearsal {
                runs,
                first_seed,
                faults: FAULTS.iter().map(|(share, _)| share).sum(),
                failed: 0,
                groups: groups.collect(),
                etcd: etcd.collect(),
                most_away: 0,
                most_away_seed: first_seed,
                median: 0,
                longest: 0,
                longest_seed: first_seed,
                worst: None,
            },
            took: Vec::with_capacity(runs),
        }
    }

    fn add(&mut self, take: &Take<'_>, took: u64, schedule: &Schedule<'_>) {
        let seed = take.seed;
        let all = &mut self.rehearsal;
        let results: Vec<_> = (0..self.plan.groups.len())
            .map(|group| schedule.tally.result(group))
            .collect();
        let (nodes, counts) = node_results(&schedule.tally.nodes);
        let is_failed = schedule.outcome(&results, counts) == Outcome::Failed;
        for group in &mut all.groups {
            let succeeded = results
                .iter()
                .any(|result| result.group == group.group && result.succeeded);
            if !succeeded {
                group.failed += 1;
                group.seed.get_or_insert(seed);
            }
        }
        all.failed += usize::from(is_failed);
        for (cluster, forecast) in all.etcd.iter_mut().zip(&self.plan.forecast.etcd) {
            let of = |counts: &BTreeMap<&ClusterName, usize>| {
                counts.get(&cluster.cluster).copied().unwrap_or_default()
            };
            let (fewest, end) = (of(&take.fewest), of(&take.members));
            if fewest < cluster.fewest {
                (cluster.fewest, cluster.seed) = (fewest, seed);
            }
            cluster.left_short += usize::from(end < forecast.after);
        }
        if take.most_away > all.most_away {
            (all.most_away, all.most_away_seed) = (take.most_away, seed);
        }
        self.took.push(took);
        if took.div_ceil(1000) > all.longest {
            (all.longest, all.longest_seed) = (took.div_ceil(1000), seed);
        }
        let undone = nodes.iter().filter(|node| !node.complete).count();
        let worst = all.worst.as_ref().map_or(0, |worst| worst.undone);
        if undone > worst {
            all.worst = Some(worst_run(self.plan, take, undone));
        }
    }

    fn into_rehearsal(mut self) -> Rehearsal {
        self.took.sort_unstable();
        let median = self.took.get(self.took.len() / 2).copied();
        self.rehearsal.median = median.unwrap_or_default().div_ceil(1000);
        self.rehearsal
    }
}

fn worst_run(plan: &Plan, take: &Take<'_>, undone: usize) -> WorstRun {
    let mut failing: Vec<usize> = take.failing.keys().copied().collect();
    failing.sort_unstable();
    let failures = failing.iter().take(MOST_FAILURES).map(|index| {
        let what = take.failing.get(index).copied().unwrap_or_default();
        format!("{} {what}", plan.steps[*index].id)
    });
    WorstRun {
        seed: take.seed,
        undone,
        failures: failures.collect(),
        more: failing.len().saturating_sub(MOST_FAILURES),
    }
}
