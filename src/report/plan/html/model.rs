//! The plan arranged for its page: machines in classes of equal changes, and in stages and waves.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use super::RunPage;
use crate::plan::{Change, ChangeKind, Plan, StepTimes};
use crate::report::plan::graph::{Phase, fold};
use crate::report::plan::outline::{Alike, Stage, gather_by, likeness, stages, visible_changes};
use crate::run::NodeResult;
use crate::step::Step;

/// A plan arranged for its page.
pub(super) struct Model<'p> {
    pub(super) plan: &'p Plan,
    pub(super) run: Option<RunPage<'p>>,
    /// Changes that are alike, steps included; destructive ones first.
    pub(super) classes: Vec<Class<'p>>,
    /// One for each change, in the order of the plan.
    pub(super) machines: Vec<Machine<'p>>,
    pub(super) stages: Vec<StageView<'p>>,
    /// The racks of machines that change, sorted.
    pub(super) racks: Vec<&'p str>,
    pub(super) phases: Vec<Phase<'p>>,
    /// For each step, the position of its phase.
    pub(super) phase_of: Vec<usize>,
}

/// Changes that differ in nothing but their machines.
pub(super) struct Class<'p> {
    /// Stands for all.
    pub(super) first: &'p Change,
    /// Positions of the machines, in the order of their names.
    pub(super) machines: Vec<usize>,
    /// Positions of the steps of the first machine.
    pub(super) steps: Vec<usize>,
}

/// A machine that changes.
pub(super) struct Machine<'p> {
    pub(super) change: &'p Change,
    /// The position of its class.
    pub(super) class: usize,
    /// The position of its stage.
    pub(super) stage: usize,
    pub(super) wave: Option<u32>,
    /// Whether it has steps.
    pub(super) works: bool,
    /// From its first step's beginning to its last step's end.
    pub(super) times: Option<StepTimes>,
    /// How it ended in the run.
    pub(super) result: Option<&'p NodeResult>,
}

/// A stage with its machines by wave.
pub(super) struct StageView<'p> {
    pub(super) stage: Stage<'p>,
    pub(super) waves: Vec<Wave>,
    /// How many machines, by kind of change.
    pub(super) kinds: BTreeMap<ChangeKind, usize>,
    pub(super) machines: usize,
}

/// The machines of a wave.
pub(super) struct Wave {
    pub(super) number: Option<u32>,
    /// Whether its machines have steps; those that are blocked or left out have none.
    pub(super) works: bool,
    pub(super) machines: Vec<usize>,
}

/// The steps of each node, one list behind the other.
struct StepsOf<'p> {
    nodes: FxHashMap<&'p str, usize>,
    starts: Vec<usize>,
    steps: Vec<usize>,
}

impl<'p> StepsOf<'p> {
    fn new(plan: &'p Plan) -> Self {
        let changes = plan.changes.iter().map(|change| change.node.as_str());
        let nodes: FxHashMap<&str, usize> = changes.zip(0..).collect();
        let node_of = |step: &Step| nodes.get(step.id.node.as_ref()?.as_str()).copied();
        let of_steps: Vec<Option<usize>> = plan.steps.iter().map(node_of).collect();
        let mut starts = vec![0; nodes.len() + 1];
        for node in of_steps.iter().flatten() {
            starts[node + 1] += 1;
        }
        for node in 1..starts.len() {
            starts[node] += starts[node - 1];
        }
        let mut next = starts.clone();
        let mut steps = vec![0; starts.last().copied().unwrap_or_default()];
        for (step, node) in of_steps.iter().enumerate() {
            if let Some(node) = *node {
                steps[next[node]] = step;
                next[node] += 1;
            }
        }
        Self {
            nodes,
            starts,
            steps,
        }
    }

    fn of(&self, change: &Change) -> &[usize] {
        match self.nodes.get(change.node.as_str()) {
            Some(node) => &self.steps[self.starts[*node]..self.starts[node + 1]],
            None => &[],
        }
    }
}

impl<'p> Model<'p> {
    pub(super) fn new(plan: &'p Plan, run: Option<RunPage<'p>>) -> Self {
        let (phases, phase_of) = fold(&plan.steps);
        let steps_of = StepsOf::new(plan);
        let results = run.and_then(|run| run.report).map(|report| &report.nodes);
        let results: FxHashMap<&str, &NodeResult> = results
            .into_iter()
            .flatten()
            .map(|result| (result.node.as_str(), result))
            .collect();
        let mut model = Self {
            plan,
            run,
            classes: Vec::new(),
            machines: Vec::new(),
            stages: Vec::new(),
            racks: Vec::new(),
            phases,
            phase_of,
        };
        let mut position_of: FxHashMap<&str, usize> = FxHashMap::default();
        for change in visible_changes(plan) {
            let steps = steps_of.of(change);
            position_of.insert(change.node.as_str(), model.machines.len());
            model.machines.push(Machine {
                change,
                class: 0,
                stage: 0,
                wave: steps
                    .iter()
                    .find_map(|step| model.phases[model.phase_of[*step]].wave),
                works: !steps.is_empty(),
                times: model.times(steps),
                result: results.get(change.node.as_str()).copied(),
            });
        }
        model.sort_into_classes(&position_of, &steps_of);
        model.sort_into_stages(&position_of);
        let racks = model.machines.iter();
        model.racks = racks
            .filter_map(|machine| machine.change.rack.as_deref())
            .collect();
        model.racks.sort_unstable();
        model.racks.dedup();
        model
    }

    /// From the first beginning to the last end of steps; `None` if that was not estimated.
    fn times(&self, steps: &[usize]) -> Option<StepTimes> {
        let steps = steps.iter().filter(|step| !self.plan.steps[**step].standby);
        let times = steps.filter_map(|step| self.plan.forecast.schedule.get(*step));
        times
            .copied()
            .reduce(|all, next| StepTimes(all.0.min(next.0), all.1.max(next.1)))
    }

    fn sort_into_classes(&mut self, position_of: &FxHashMap<&str, usize>, steps_of: &StepsOf<'p>) {
        let plan = self.plan;
        let changes = self.machines.iter().map(|machine| machine.change);
        let mut alike = gather_by(changes, |change| {
            let mut key = likeness(change);
            let _ = write!(key, "{:?}{}\u{1f}", change.does, change.unverified);
            for step in steps_of.of(change) {
                shape(&mut key, plan, &plan.steps[*step]);
            }
            key
        });
        alike.sort_by_key(|alike| alike.first().map(rank));
        for Alike { changes } in alike {
            let Some(first) = changes.first().copied() else {
                continue;
            };
            let positions = changes
                .iter()
                .map(|change| position_of[change.node.as_str()]);
            let machines: Vec<usize> = positions.collect();
            for machine in &machines {
                self.machines[*machine].class = self.classes.len();
            }
            self.classes.push(Class {
                first,
                machines,
                steps: steps_of.of(first).to_vec(),
            });
        }
    }

    fn sort_into_stages(&mut self, position_of: &FxHashMap<&str, usize>) {
        for (stage, changes) in stages(self.plan) {
            let mut view = StageView {
                stage,
                waves: Vec::new(),
                kinds: BTreeMap::new(),
                machines: changes.len(),
            };
            let mut waves: BTreeMap<(bool, Option<u32>), Vec<usize>> = BTreeMap::new();
            for change in changes {
                *view.kinds.entry(change.kind).or_default() += 1;
                let position = position_of[change.node.as_str()];
                let machine = &mut self.machines[position];
                machine.stage = self.stages.len();
                // What is not carried out comes behind the waves.
                let wave = waves.entry((!machine.works, machine.wave)).or_default();
                wave.push(position);
            }
            view.waves = waves
                .into_iter()
                .map(|((idle, number), machines)| Wave {
                    number,
                    works: !idle,
                    machines,
                })
                .collect();
            self.stages.push(view);
        }
    }

    /// The classes that destroy data or take machines away, and the others.
    pub(super) fn split(&self) -> (&[Class<'p>], &[Class<'p>]) {
        let destructive = |class: &Class<'_>| class.first.destructive;
        self.classes
            .split_at(self.classes.partition_point(destructive))
    }

    /// The machines that are wiped or taken away, and how many of them are blocked or left out.
    pub(super) fn destructive(&self) -> (usize, usize) {
        let all = self
            .machines
            .iter()
            .filter(|machine| machine.change.wipes_or_takes_away());
        all.fold((0, 0), |(all, idle), machine| {
            (all + 1, idle + usize::from(is_idle(machine.change)))
        })
    }
}

/// Whether a change is not carried out.
pub(super) fn is_idle(change: &Change) -> bool {
    change.blocked.is_some() || change.excluded || change.shown_only
}

/// In which order classes come: what is carried out before what is not, the gravest first.
fn rank(change: &Change) -> (bool, bool, u8) {
    let gravity = match change.kind {
        ChangeKind::Destroy => 0,
        ChangeKind::Redeploy => 1,
        ChangeKind::Operation | ChangeKind::Service => 2,
        ChangeKind::Create => 3,
        ChangeKind::Drift | ChangeKind::Unknown | ChangeKind::Adopt => 4,
        ChangeKind::AwaitReady
        | ChangeKind::Rename
        | ChangeKind::Relabel
        | ChangeKind::Retire
        | ChangeKind::Unretire => 5,
        ChangeKind::Record | ChangeKind::Accept | ChangeKind::None => 6,
    };
    (!change.destructive, is_idle(change), gravity)
}

/// A step and its needs, without names of nodes, groups and waves, as a part of a key.
fn shape(key: &mut String, plan: &Plan, step: &Step) {
    let sign = |number: u8| char::from(number);
    key.push(sign(step.id.kind as u8));
    key.push(sign(step.effect as u8 * 2 + u8::from(step.standby)));
    let _ = write!(key, "{}", step.timeout);
    for need in &step.needs {
        let Some(other) = plan.steps.get(need.step.0 as usize) else {
            continue;
        };
        let whose = match &other.id.node {
            None => 0,
            node if *node == step.id.node => 1,
            Some(_) => 2,
        };
        key.push(sign(other.id.kind as u8));
        key.push(sign(need.wait as u8 * 3 + whose));
    }
    key.push('\u{1f}');
}

/// The class in the style sheet of a kind of change.
pub(super) fn colour(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Destroy | ChangeKind::Redeploy => "k-destroy",
        ChangeKind::Create => "k-create",
        ChangeKind::Drift | ChangeKind::Unknown | ChangeKind::Adopt => "k-attention",
        ChangeKind::Operation => "k-operation",
        ChangeKind::AwaitReady
        | ChangeKind::Rename
        | ChangeKind::Relabel
        | ChangeKind::Service
        | ChangeKind::Record
        | ChangeKind::Accept
        | ChangeKind::Retire
        | ChangeKind::Unretire
        | ChangeKind::None => "k-change",
    }
}

/// The classes in the style sheet of a machine.
pub(super) fn looks(change: &Change) -> String {
    let colour = match change.destructive {
        true => "k-destroy",
        false => colour(change.kind),
    };
    let idle = if is_idle(change) { " idle" } else { "" };
    format!("{colour}{idle}")
}
