//! The parts of a plan: sets of steps, each of which one worker carries out without another.
//!
//! Each step but the critical check and the tag is in one part. Where machines are torn down behind the critical
//! check, it is a part too, so that what ends the run acts on nothing. A part names the parts that must have ended
//! before it; then none of its steps waits for a step outside it. Steps of one node are never in two parts that may
//! run at the same time, nor are two removals from one etcd cluster, nor two remediations.
//!
//! The cut depends on the plan and one number only, so that each worker makes the same one. Up to the number of nodes
//! in the plan (or 1,000), the number is that of the nodes of one stage of a wave that a part has at most. A higher number
//! also puts whole waves and groups of so many nodes together: a plan of a thousand waves has too many parts
//! however few nodes each wave has.

mod edges;
mod name;
mod order;
mod pack;
mod reduce;
mod stage;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Plan;
use crate::design::GroupName;
use crate::step::StepIndex;

/// The tasks of a run that are no parts: its begin and its end.
pub const TASKS_BESIDE: usize = 2;

/// A plan, cut into parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The number that the cut was made with.
    pub nodes_per_part: usize,
    /// The parts, in an order in which they could run one after the other.
    pub parts: Vec<Part>,
    positions: FxHashMap<Arc<str>, usize>,
    group_ids: name::GroupIds,
}

/// A set of steps that one worker carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name: `[a-z0-9_.-]`, below 200 characters.
    pub id: Arc<str>,
    /// The kind.
    pub kind: PartKind,
    /// The group of all its steps.
    pub group: Option<GroupName>,
    /// The wave of all its steps.
    pub wave: Option<u32>,
    /// The steps, in the order of the plan.
    pub steps: Vec<StepIndex>,
    /// The positions of the parts that must have ended before, sorted, without those that others imply.
    pub after: Vec<usize>,
}

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartKind {
    /// Verification and preparation of the site.
    Site,
    /// The start of a group or wave.
    Start,
    /// Teardowns of nodes.
    Teardown,
    /// Prepares of nodes.
    Prepare,
    /// Deploys of nodes.
    Deploy,
    /// A gate of a group, or the critical check.
    Gate,
    /// All other steps of nodes.
    Nodes,
    /// Whole waves or groups.
    Several,
}

impl PartKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Site,
        Self::Start,
        Self::Teardown,
        Self::Prepare,
        Self::Deploy,
        Self::Gate,
        Self::Nodes,
        Self::Several,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Start => "start",
            Self::Teardown => "teardown",
            Self::Prepare => "prepare",
            Self::Deploy => "deploy",
            Self::Gate => "gate",
            Self::Nodes => "nodes",
            Self::Several => "several",
        }
    }
}

impl Parts {
    /// Cuts a plan.
    #[must_use]
    pub fn of(plan: &Plan, nodes_per_part: usize) -> Self {
        let stages = stage::Stages::of(plan);
        Self::cut(plan, &stages, nodes_per_part.max(1))
    }

    /// Cuts a plan into no more parts than make `max_tasks` tasks with the begin and the end of the run: with the smallest
    /// number that does. There is one part at least.
    #[must_use]
    pub fn fitting(plan: &Plan, max_tasks: usize) -> Self {
        let stages = stage::Stages::of(plan);
        let most = max_tasks.saturating_sub(TASKS_BESIDE).max(1);
        Self::cut(plan, &stages, pack::smallest(&stages, most))
    }

    fn cut(plan: &Plan, stages: &stage::Stages<'_>, nodes_per_part: usize) -> Self {
        let cut = pack::Cut::new(stages, nodes_per_part);
        let part_of: Vec<Option<u32>> = stages
            .places
            .iter()
            .map(|place| place.map(|place| cut.part_of(place)))
            .collect();
        let edges = edges::between(plan, &part_of);
        let order = order::Order::of(cut.count, edges);
        let (mut drafts, group_ids) = name::drafts(stages, &cut, &order);
        for (place, part) in (0..).zip(&part_of) {
            if let Some(part) = part {
                drafts[order.position(*part)].steps.push(StepIndex(place));
            }
        }
        for (draft, after) in drafts.iter_mut().zip(reduce::reduced(order.after)) {
            draft.after = after;
        }
        let ids = drafts.iter().map(|part| part.id.clone());
        Self {
            nodes_per_part,
            positions: ids.zip(0..).collect(),
            parts: drafts,
            group_ids,
        }
    }

    /// The position of a part.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<usize> {
        self.positions.get(id).copied()
    }

    /// How the ids of the parts of a group begin.
    #[must_use]
    pub fn group_id(&self, group: &GroupName) -> Option<&Arc<str>> {
        self.group_ids.get(group)
    }

    /// How many tasks a run of the parts is, with its begin and its end.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.parts.len() + TASKS_BESIDE
    }
}
