//! The stages of a plan: stretches that are cut by nodes only, in the order of the plan.

use rustc_hash::FxHashMap;

use super::PartKind;
use crate::design::{GroupName, NodeName};
use crate::plan::{Action, Plan};
use crate::step::{KindStage, Step, StepKind};

/// A stretch of a plan.
pub(super) struct PartStage<'p> {
    pub(super) kind: PartKind,
    /// The last word of the ids of its parts.
    pub(super) word: &'static str,
    pub(super) group: Option<&'p GroupName>,
    pub(super) wave: Option<u32>,
    /// How many nodes it has; none for a barrier.
    pub(super) nodes: u32,
}

/// The place of a step: its stage, and which of the nodes of the stage it is about.
#[derive(Clone, Copy)]
pub(super) struct StepPlace {
    pub(super) stage: u32,
    pub(super) node: u32,
}

/// All stages, and the place of each step that is in one.
pub(super) struct Stages<'p> {
    pub(super) all: Vec<PartStage<'p>>,
    pub(super) places: Vec<Option<StepPlace>>,
}

/// The common traits of the steps of one stage: no barrier between them, the kind, and the group.
type Key<'p> = (u32, PartKind, Option<&'p GroupName>);

struct Walk<'p> {
    action: Action,
    stages: Stages<'p>,
    /// How many barriers there were.
    section: u32,
    wave: Option<u32>,
    by_key: FxHashMap<Key<'p>, u32>,
    nodes: FxHashMap<(u32, Option<&'p NodeName>), u32>,
}

impl<'p> Stages<'p> {
    pub(super) fn of(plan: &'p Plan) -> Self {
        let acts_behind_check = {
            let mut behind = plan.steps.iter();
            behind.any(|step| step.id.kind == StepKind::CriticalCheck)
                && behind.any(|step| step.id.kind != StepKind::Tag)
        };
        let mut walk = Walk {
            action: plan.request.action,
            stages: Stages {
                all: Vec::new(),
                places: Vec::with_capacity(plan.steps.len()),
            },
            section: 0,
            wave: None,
            by_key: FxHashMap::default(),
            nodes: FxHashMap::default(),
        };
        for step in &plan.steps {
            let place = match step.id.kind {
                StepKind::Tag => None,
                StepKind::CriticalCheck if !acts_behind_check => None,
                _ => Some(walk.place(step)),
            };
            walk.stages.places.push(place);
        }
        walk.stages
    }
}

impl<'p> Walk<'p> {
    fn place(&mut self, step: &'p Step) -> StepPlace {
        let id = &step.id;
        let group = id.group.as_ref();
        let stage = match id.kind {
            StepKind::VerifySite | StepKind::PrepareSite => {
                self.stage((self.section, PartKind::Site, None))
            }
            StepKind::StartGroup => {
                self.wave = None;
                self.barrier(PartKind::Start, PartKind::Start.as_str(), group)
            }
            StepKind::StartWave => {
                self.wave = id.wave;
                self.barrier(PartKind::Start, PartKind::Start.as_str(), group)
            }
            StepKind::GatePrepared | StepKind::Soak => {
                self.barrier(PartKind::Gate, id.kind.as_str(), group)
            }
            StepKind::GateDeployed | StepKind::CriticalCheck => {
                self.wave = None;
                self.barrier(PartKind::Gate, id.kind.as_str(), group)
            }
            kind => {
                let part = kind_of(kind, group.is_some(), self.action);
                let stage = self.stage((self.section, part, group));
                let nodes = &mut self.stages.all[stage as usize].nodes;
                let node = self.nodes.entry((stage, id.node.as_ref()));
                let node = *node.or_insert_with(|| {
                    *nodes += 1;
                    *nodes - 1
                });
                return StepPlace { stage, node };
            }
        };
        StepPlace { stage, node: 0 }
    }

    fn barrier(&mut self, kind: PartKind, word: &'static str, group: Option<&'p GroupName>) -> u32 {
        self.section += 1;
        self.open(kind, word, group)
    }

    fn stage(&mut self, key: Key<'p>) -> u32 {
        if let Some(known) = self.by_key.get(&key) {
            return *known;
        }
        let (_, kind, group) = key;
        let stage = self.open(kind, kind.as_str(), group);
        self.by_key.insert(key, stage);
        stage
    }

    fn open(&mut self, kind: PartKind, word: &'static str, group: Option<&'p GroupName>) -> u32 {
        let stage = self.stages.all.len() as u32;
        self.stages.all.push(PartStage {
            kind,
            word,
            group,
            wave: self.wave,
            nodes: 0,
        });
        stage
    }
}

/// The kind of part that a step of a node belongs to. Outside the groups no gate stands between a teardown and the
/// deploy behind it.
fn kind_of(kind: StepKind, in_group: bool, action: Action) -> PartKind {
    if !in_group && action == Action::Redeploy {
        return PartKind::Nodes;
    }
    match kind.facts().stage {
        KindStage::TearDown => PartKind::Teardown,
        KindStage::Prepare => PartKind::Prepare,
        KindStage::Deploy => PartKind::Deploy,
        KindStage::Site
        | KindStage::TakeOff
        | KindStage::Provision
        | KindStage::Other
        | KindStage::Barrier
        | KindStage::Tag => PartKind::Nodes,
    }
}
