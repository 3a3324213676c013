//! The known facts of a run that was interrupted: its journal in this clone, and its checkpoints.
//!
//! A journal that is whole and that the newest records name is all there is to know. Else what checkpoints
//! told is put beside it: where both tell of the end of a step, the checkpoint counts; what only the journal
//! tells counts unless another process has worked on that node since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::effects::{PlanEffects, take_note};
use super::error::{self, Error};
use super::event::{EventKind, RunEvent};
use super::files::{FoundJournal, RunFiles};
use super::node;
use super::outcome::NodeOutcome;
use super::part::{collected, possibly_begun};
use super::records::Part;
use super::site_repository::SiteRepository;
use super::view::View;
use crate::design::{Digests, NodeName};
use crate::journal::{Entry, StepOutcome};
use crate::plan::Plan;
use crate::record::{NodeRecord, Outcome, Phase, RunRecord, State, Store};
use crate::step::{Actor, Effect, Step, StepId, StepKind};

/// Steps that had begun, or may have, and whose end is not known; each with its notes.
pub type OpenSteps = BTreeMap<StepId, Vec<Arc<str>>>;

/// The end of a step that had begun, or may have, as its machine shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is done.
    Done,
    /// Nothing was asked for.
    NotBegun,
    /// It is not done, and what it had set for its own time is taken back.
    TakenBack,
    /// It is in the state that its failure leaves.
    Failed,
}

/// The reason of a failure that no process has heard.
const FOUND_FAILED: &str = "it failed after the process of its run was gone, as its machine shows";

/// The known facts of a run that was interrupted.
pub(super) struct KnownRun {
    /// The id of the journal.
    pub(super) id: Option<Arc<str>>,
    /// All entries, of the journal and of checkpoints.
    entries: Vec<Entry>,
    /// How many of them are of the journal.
    journal: usize,
    /// Steps of whose end checkpoints tell, so that it is in the records.
    recorded: BTreeSet<StepId>,
    /// Whether the journal is whole, and the run was not resumed since it was written.
    pub(super) is_newest: bool,
    is_incomplete: bool,
    /// Whether workers carry it out: of the steps of a part that is open each has its beginning among the entries.
    is_divided: bool,
    /// The events of the parts of a divided run, which its records have from its end on.
    pub(super) events: Vec<RunEvent>,
    /// Steps that count as begun because nothing is known of them.
    suspected: FxHashSet<StepId>,
    /// The damage of the journal, for messages.
    pub(super) damage: Vec<String>,
}

/// The plan of a run, for the effects of its steps on records.
struct KnownPlan<'a> {
    effects: PlanEffects<'a>,
    steps: FxHashMap<&'a StepId, &'a Step>,
    /// The digests of the designs to be reached.
    designs: FxHashMap<&'a NodeName, Digests>,
}

impl<'a> KnownPlan<'a> {
    fn of(plan: &'a Plan) -> Self {
        let changes = plan.changes.iter();
        let designs = changes.filter_map(|change| Some((&change.node, change.digests()?)));
        Self {
            effects: PlanEffects::of(plan),
            steps: plan.steps.iter().map(|step| (&step.id, step)).collect(),
            designs: designs.collect(),
        }
    }
}

impl KnownRun {
    pub(super) fn gather(
        site: &SiteRepository<'_>,
        (store, state): (&Store<'_>, &State),
        record: &RunRecord,
        files: &RunFiles,
    ) -> Result<Self, Error> {
        if let Some(parts) = collected(site, store, state, record)? {
            return Ok(Self {
                id: None,
                journal: parts.entries.len(),
                is_incomplete: !parts.open.is_empty(),
                is_divided: true,
                suspected: FxHashSet::default(),
                entries: parts.entries,
                events: parts.events,
                recorded: BTreeSet::new(),
                is_newest: true,
                damage: Vec::new(),
            });
        }
        let mark = record.journal.as_ref();
        let found = files.read()?;
        let mut damage = Vec::new();
        if let Some(found) = &found {
            let path = files.directory.display();
            let careful = "every step that has no end in the records may have been begun, and is probed first";
            if let Some(place) = &found.damage {
                damage.push(format!(
                    "the journal in `{path}` is damaged ({place}) and kept as `journal.damaged`: {careful}"
                ));
            } else if found.is_shorter_than(mark) {
                damage.push(format!(
                    "the journal in `{path}` has lost entries that it had: {careful}"
                ));
            }
        }
        let found = found.unwrap_or_default();
        if found.is_of(mark) && damage.is_empty() {
            return Ok(Self {
                journal: found.entries.len(),
                is_incomplete: found.incomplete,
                is_divided: false,
                suspected: FxHashSet::default(),
                id: found.id,
                entries: found.entries,
                events: Vec::new(),
                recorded: BTreeSet::new(),
                is_newest: true,
                damage,
            });
        }
        let events = store
            .events(state, &record.run)
            .map_err(error::records("read the events of the run"))?;
        let told = Told::read(&events, &found);
        let mut known = Self {
            id: found.id,
            entries: Vec::new(),
            events: Vec::new(),
            journal: 0,
            recorded: told.ends.keys().cloned().collect(),
            is_newest: false,
            is_incomplete: true,
            is_divided: false,
            suspected: FxHashSet::default(),
            damage,
        };
        known.merge(found.entries, told);
        Ok(known)
    }

    /// Takes in what the journal and the checkpoints tell.
    fn merge(&mut self, journal: Vec<Entry>, told: Told) {
        let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for entry in journal {
            let Some(step) = entry.step().cloned() else {
                continue;
            };
            let entry = match entry {
                Entry::Ended { .. } => match told.ends.get(&step) {
                    Some(end) => end.clone(),
                    None if told.is_doubtful(&step) => continue,
                    None => entry,
                },
                // What the session remembers from the records counts; the notes of a step that others have begun
                // are not those of what they began.
                Entry::Note { .. }
                    if matches!(step.kind, StepKind::Remediate | StepKind::ClearLabels)
                        || told.is_doubtful(&step) =>
                {
                    continue;
                }
                entry => entry,
            };
            match entry {
                Entry::Ended { .. } if !ended.insert(step.clone()) => continue,
                Entry::Intent { .. } => {
                    begun.insert(step);
                }
                _ => {}
            }
            self.entries.push(entry);
        }
        self.journal = self.entries.len();
        for entry in told.entries {
            let Some(step) = entry.step().cloned() else {
                continue;
            };
            let is_new = match entry {
                Entry::Intent { .. } => !ended.contains(&step) && begun.insert(step),
                _ => ended.insert(step),
            };
            if is_new {
                self.entries.push(entry);
            }
        }
    }

    /// All entries, in whatever order they were found.
    pub(super) fn all(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries that a resumed run of this plan begins with.
    pub(super) fn entries(&self, plan: &Plan) -> Vec<Entry> {
        match self.is_newest {
            true => self.entries.clone(),
            false => fitting(self.entries.clone(), plan),
        }
    }

    /// Whether steps may have been begun of which nothing is known.
    pub(super) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Whether a process whose journal is not here, or not whole, may have begun more than it has published: every reader tells that of
    /// what it has not begun otherwise.
    pub(super) fn may_have_begun_more(&self, record: &RunRecord) -> bool {
        record.outcome == Outcome::Running && self.is_incomplete && !self.is_divided
    }

    /// Whether it has passed its verification, so that something could have been changed.
    pub(super) fn is_past_verification(&self) -> bool {
        is_past_verification(&self.entries)
    }

    /// Whether the records have what a step did to its node.
    pub(super) fn is_recorded(&self, outcome: &NodeOutcome) -> bool {
        self.recorded.contains(&outcome.step)
    }

    /// Brings records up to date with what is known of the run and they lack, each end as the run itself would have recorded
    /// it; a machine whose rebuilding or teardown has begun without an end is unknown. Gives the nodes whose records it
    /// changed. Without the plan, a step that had begun counts as begun, unless the record has its end.
    pub(super) fn take_in(
        &self,
        nodes: &mut BTreeMap<NodeName, NodeRecord>,
        run: &RunRecord,
        plan: Option<&Plan>,
        now: i64,
    ) -> BTreeSet<NodeName> {
        let known_plan = plan.map(KnownPlan::of);
        let mut changed = BTreeSet::new();
        let mut begun: BTreeMap<&NodeName, &StepId> = BTreeMap::new();
        let mut drains: BTreeSet<&NodeName> = BTreeSet::new();
        let mut notes: FxHashMap<&StepId, Vec<Arc<str>>> = FxHashMap::default();
        for entry in &self.entries[..self.journal] {
            changed.extend(self.take_in_soak(entry, nodes, run, known_plan.as_ref()));
            let Some((step, node)) = entry
                .step()
                .and_then(|step| Some((step, step.node.as_ref()?)))
            else {
                continue;
            };
            match (entry, &known_plan) {
                (Entry::Opened { .. }, _) => {}
                (Entry::Intent { .. }, _) => {
                    if step.kind.rebuilds() {
                        begun.insert(node, step);
                    } else if step.kind == StepKind::Drain {
                        drains.insert(node);
                    }
                }
                (Entry::Ended { outcome, .. }, None) => {
                    let is_recorded = step.kind.facts().reaches == Some(Phase::Deployed)
                        && *outcome == StepOutcome::Succeeded
                        && nodes
                            .get(node)
                            .is_some_and(|it| it.is_deployed_by(&run.run));
                    let is_done = !matches!(
                        outcome,
                        StepOutcome::Skipped { .. } | StepOutcome::NotNeeded
                    );
                    if is_recorded {
                        begun.remove(node);
                    } else if is_done && step.kind.rebuilds() {
                        begun.insert(node, step);
                    }
                }
                (Entry::Note { text, .. }, _) => {
                    notes.entry(step).or_default().push(text.clone());
                    if self.is_newest && take_note(nodes, step, text, run) {
                        changed.insert(node.clone());
                    }
                }
                (
                    Entry::Ended {
                        outcome, attempted, ..
                    },
                    Some(plan),
                ) => {
                    let design = plan.designs.get(node);
                    // Of what design it was built cannot be told.
                    if step.kind.facts().reaches == Some(Phase::Deployed) && design.is_none() {
                        continue;
                    }
                    if begun.get(node) == Some(&step) {
                        begun.remove(node);
                    }
                    if step.kind == StepKind::Drain {
                        drains.remove(node);
                    }
                    let notes = notes.remove(step).unwrap_or_default();
                    let outcome = NodeOutcome::of(step, outcome, *attempted, &notes);
                    let lacks = |outcome: &NodeOutcome| {
                        !self.is_recorded(outcome)
                            || (outcome.phase == Some(Phase::Deployed)
                                && !nodes
                                    .get(node)
                                    .is_some_and(|it| it.is_deployed_by(&run.run)))
                    };
                    if plan.steps.contains_key(step)
                        && let Some(outcome) = outcome.filter(lacks)
                    {
                        changed.extend(plan.effects.apply(nodes, &outcome, run, design, now));
                        changed.insert(node.clone());
                    }
                }
            }
        }
        if let Some(plan) = &known_plan {
            let begun = drains
                .into_iter()
                .filter(|node| plan.effects.begin_drain(nodes, node, &run.run));
            changed.extend(begun.cloned());
        }
        let begun = begun.into_iter();
        let begun = begun.filter(|(_, step)| !self.recorded.contains(step));
        for (node, step) in begun {
            if self.take_in_begun(nodes, run, known_plan.as_ref(), (node, step)) {
                changed.insert(node.clone());
            }
        }
        changed
    }

    /// Takes in that a step had begun whose end is not known; whether that changed the record.
    fn take_in_begun(
        &self,
        nodes: &mut BTreeMap<NodeName, NodeRecord>,
        run: &RunRecord,
        plan: Option<&KnownPlan<'_>>,
        (node, step): (&NodeName, &StepId),
    ) -> bool {
        let before = nodes.get(node);
        let keeps_disks = plan.is_some_and(|plan| plan.effects.keeps_disks(step));
        let step_of = (step, keeps_disks);
        let mut record = node::under_way(before, node, step_of, &run.run, &run.revision);
        if self.is_suspected(step) {
            record.last_error = Some(Arc::from(format!("{step} may have begun")));
        }
        let is_new = before != Some(&record);
        if is_new {
            nodes.insert(node.clone(), record);
        }
        is_new
    }

    /// Takes the end of a soak into the records of its nodes; gives them.
    fn take_in_soak(
        &self,
        entry: &Entry,
        nodes: &mut BTreeMap<NodeName, NodeRecord>,
        run: &RunRecord,
        plan: Option<&KnownPlan<'_>>,
    ) -> Vec<NodeName> {
        let Entry::Ended { step, outcome, .. } = entry else {
            return Vec::new();
        };
        let soak = plan.filter(|_| step.kind == StepKind::Soak);
        let Some((plan, soak)) = soak.and_then(|plan| Some((plan, *plan.steps.get(step)?))) else {
            return Vec::new();
        };
        let outcomes = NodeOutcome::each(soak, outcome, true, &[]);
        let mut changed = Vec::new();
        for outcome in outcomes.filter(|outcome| !self.is_recorded(outcome)) {
            plan.effects.apply(nodes, &outcome, run, None, 0);
            changed.push(outcome.node);
        }
        changed
    }

    /// How far the steps are.
    pub(super) fn view(&self) -> View<'_> {
        View::of(&self.entries)
    }

    /// Counts the steps on nodes as begun of which nothing is known here, and that may have begun elsewhere.
    pub(super) fn suspect(&mut self, plan: &Plan) {
        if !self.is_incomplete || self.is_divided {
            return;
        }
        // Nothing more begins on a machine once a step of it has failed.
        let stopped = self.entries.iter().filter_map(|entry| match entry {
            Entry::Ended { step, outcome, .. } => match outcome {
                StepOutcome::Succeeded | StepOutcome::NotNeeded => None,
                StepOutcome::Failed { .. }
                | StepOutcome::Unknown { .. }
                | StepOutcome::Skipped { .. } => step.node.as_ref(),
            },
            Entry::Opened { .. } | Entry::Intent { .. } | Entry::Note { .. } => None,
        });
        let stopped: FxHashSet<&NodeName> = stopped.collect();
        let steps = plan.steps.iter().map(|step| &step.id);
        let steps = steps.filter(|step| {
            let is_stopped = step
                .node
                .as_ref()
                .is_some_and(|node| stopped.contains(node));
            changes_node(step) && !is_stopped
        });
        let suspected = possibly_begun(steps, &self.entries);
        self.suspected = suspected.iter().filter_map(Entry::step).cloned().collect();
        self.entries.splice(self.journal..self.journal, suspected);
        self.journal += self.suspected.len();
    }

    /// All entries but the beginnings of steps that count as begun only because nothing is known of them.
    pub(super) fn without_suspected(&self) -> Vec<Entry> {
        let is_suspected = |entry: &&Entry| match entry {
            Entry::Intent { step } => self.is_suspected(step),
            Entry::Opened { .. } | Entry::Ended { .. } | Entry::Note { .. } => false,
        };
        let entries = self.entries.iter().filter(|entry| !is_suspected(entry));
        entries.cloned().collect()
    }

    /// Whether a step counts as begun only because nothing is known of it.
    pub(super) fn is_suspected(&self, step: &StepId) -> bool {
        self.suspected.contains(step)
    }

    /// The steps whose machines and clusters show how they ended, each with its notes, of those that had begun, or may have.
    pub(super) fn open_to_see(&self) -> OpenSteps {
        let view = self.view();
        let open = view
            .open()
            .filter(|(step, _)| shows_end(step.kind) || self.is_suspected(step));
        open.map(|(step, view)| (step.clone(), view.notes().cloned().collect()))
            .collect()
    }

    /// Takes in how steps ended that had begun, or may have.
    pub(super) fn settle(&mut self, seen: &BTreeMap<StepId, Seen>) {
        // What only checkpoints told is told by this clone now: they have the beginning, and not the end.
        let told = self.entries.split_off(self.journal);
        let (begun, told): (Vec<Entry>, Vec<Entry>) = told
            .into_iter()
            .partition(|entry| matches!(entry, Entry::Intent { step } if seen.contains_key(step)));
        // What may have begun came after what is known to have begun.
        let first = self.entries.len() - self.suspected.len();
        self.entries.splice(first..first, begun);
        let settled = |entry: Entry| match &entry {
            Entry::Intent { step } => match seen.get(step) {
                Some(Seen::Done) => Some(Entry::Ended {
                    step: step.clone(),
                    outcome: StepOutcome::Succeeded,
                    attempted: true,
                    duration_ms: 0,
                }),
                Some(Seen::Failed) => Some(Entry::Ended {
                    step: step.clone(),
                    outcome: StepOutcome::Failed {
                        message: Arc::from(FOUND_FAILED),
                    },
                    attempted: true,
                    duration_ms: 0,
                }),
                Some(Seen::NotBegun) => None,
                Some(Seen::TakenBack) | None => Some(entry),
            },
            Entry::Opened { .. } | Entry::Ended { .. } | Entry::Note { .. } => Some(entry),
        };
        self.entries = self.entries.drain(..).filter_map(settled).collect();
        self.journal = self.entries.len();
        self.entries.extend(told);
    }
}

/// Whether the machine or the cluster shows how far a step came that had begun: not where it may have stopped between two
/// requests that leave no trace outside, such as those of the enrolment of a machine. A service shows it by its values.
const fn shows_end(kind: StepKind) -> bool {
    let facts = kind.facts();
    match facts.actor {
        Actor::Hardware => facts.changes_machine() || kind.sets_hardware(),
        Actor::Cluster => !matches!(facts.effect, Effect::None),
        Actor::Dispatcher | Actor::Both => false,
    }
}

/// The content of the checkpoints of a run.
#[derive(Default)]
struct Told {
    /// The beginnings and ends, each once, in order.
    entries: Vec<Entry>,
    ends: FxHashMap<StepId, Entry>,
    /// The nodes that other processes have worked on since the journal was written; `None`: the run was not
    /// resumed the run since.
    others: Option<BTreeSet<NodeName>>,
}

/// For how long a run was carried out, as far as its events tell, in milliseconds.
pub(super) fn elapsed(events: &[u8]) -> u64 {
    let lines = events.split(|byte| *byte == b'\n');
    let events = lines.filter_map(|line| serde_json::from_slice::<RunEvent>(line).ok());
    events.map(|event| event.elapsed_ms).max().unwrap_or(0)
}

/// How long the node took that took longest, in milliseconds: the run was carried out as long at least.
pub(super) fn longest_node(entries: &[Entry]) -> u64 {
    let mut of_nodes: FxHashMap<&NodeName, u64> = FxHashMap::default();
    for entry in entries {
        if let Entry::Ended {
            step, duration_ms, ..
        } = entry
            && let Some(node) = &step.node
        {
            *of_nodes.entry(node).or_default() += duration_ms;
        }
    }
    of_nodes.into_values().max().unwrap_or_default()
}

/// The beginnings and ends of steps that the events of all checkpoints tell.
pub(super) fn entries_of_events(events: &[u8]) -> Vec<Entry> {
    Told::read(events, &FoundJournal::default()).entries
}

impl Told {
    /// Reads the events of all checkpoints; `found` is the journal of this clone.
    fn read(events: &[u8], found: &FoundJournal) -> Self {
        let mut told = Self::default();
        let mut begun: BTreeSet<StepId> = BTreeSet::new();
        for line in events.split(|byte| *byte == b'\n') {
            if let Ok(part) = serde_json::from_slice::<Part>(line) {
                told.others = match found.is_named(&part.journal) {
                    true => None,
                    false => Some(told.others.unwrap_or_default()),
                };
                continue;
            }
            // What is not an event, or a newer trueup's, is of no use here.
            if let Ok(event) = serde_json::from_slice::<RunEvent>(line) {
                told.take_in(event.kind, &mut begun);
            }
        }
        told.keep_last_ends();
        told
    }

    /// Takes in an event; `begun`: the steps that began before it.
    fn take_in(&mut self, event: EventKind, begun: &mut BTreeSet<StepId>) {
        match event {
            EventKind::StepStarted { step, .. } => {
                self.touched(step.node.as_ref());
                // Another process began it again without knowing of its end: how it stands now is open.
                self.ends.remove(&step);
                if begun.insert(step.clone()) {
                    self.entries.push(Entry::Intent { step });
                }
            }
            EventKind::StepFinished {
                step,
                outcome,
                duration_ms,
                ..
            } => {
                self.touched(step.node.as_ref());
                let end = Entry::Ended {
                    attempted: begun.contains(&step),
                    step: step.clone(),
                    outcome,
                    duration_ms,
                };
                if !self.ends.contains_key(&step) {
                    self.entries.push(end.clone());
                    self.ends.insert(step, end);
                }
            }
            _ => {}
        }
    }

    /// Drops the ends that a later beginning has made void.
    fn keep_last_ends(&mut self) {
        let mut found: BTreeSet<StepId> = BTreeSet::new();
        let mut kept: Vec<Entry> = Vec::with_capacity(self.entries.len());
        for entry in self.entries.drain(..).rev() {
            let is_kept = match &entry {
                Entry::Ended { step, .. } => {
                    self.ends.contains_key(step) && found.insert(step.clone())
                }
                _ => true,
            };
            if is_kept {
                kept.push(entry);
            }
        }
        kept.reverse();
        self.entries = kept;
    }

    fn touched(&mut self, node: Option<&NodeName>) {
        if let (Some(others), Some(node)) = (&mut self.others, node) {
            others.insert(node.clone());
        }
    }

    /// Whether the end of a step that only the journal tells of may not count any more.
    fn is_doubtful(&self, step: &StepId) -> bool {
        let Some(others) = &self.others else {
            return false;
        };
        // What is of no node is judged again.
        let node = step.node.as_ref();
        node.is_none_or(|node| others.contains(node))
    }
}

/// The beginnings and ends, as far as they fit together: a process that crashed put its last
/// steps into no checkpoint, and its successor with that journal did not repeat them. A step that waits for such a step is probed
/// at like it.
fn fitting(mut entries: Vec<Entry>, plan: &Plan) -> Vec<Entry> {
    let positions = plan.positions();
    let mut ended = vec![false; plan.steps.len()];
    let fits = |entry: &Entry| {
        let Some(&index) = entry.step().and_then(|step| positions.get(step)) else {
            return false;
        };
        let mut needs = plan.steps[index].needs.iter();
        let fits = needs.all(|need| ended[need.step.0 as usize]);
        if let Entry::Ended { .. } = entry {
            ended[index] = fits;
        }
        fits
    };
    entries.retain(fits);
    entries
}

/// Whether a step changes the machine or the node that it is about.
fn changes_node(step: &StepId) -> bool {
    step.node.is_some() && step.kind.facts().effect != Effect::None
}

/// Whether a run has passed its verification: what follows it has begun, or may have, where nothing tells of its end.
pub(super) fn is_past_verification(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| match entry {
        Entry::Ended {
            step,
            outcome: StepOutcome::Succeeded,
            ..
        } => step.kind == StepKind::VerifySite || changes_node(step),
        Entry::Intent { step } => changes_node(step),
        Entry::Opened { .. } | Entry::Ended { .. } | Entry::Note { .. } => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Outcome;

    #[test]
    fn a_record_names_the_last_step_that_had_begun() {
        let step = |kind| StepId {
            kind,
            group: None,
            node: Some(NodeName::from("n1")),
            wave: None,
        };
        let intent = |kind| Entry::Intent { step: step(kind) };
        let ended = |kind| Entry::Ended {
            step: step(kind),
            outcome: StepOutcome::Succeeded,
            attempted: true,
            duration_ms: 1,
        };
        let (destroy, deploy) = (StepKind::Destroy, StepKind::Deploy);
        let known = |entries: &[Entry]| KnownRun {
            id: None,
            entries: entries.to_vec(),
            events: Vec::new(),
            journal: entries.len(),
            recorded: BTreeSet::new(),
            is_newest: true,
            is_incomplete: false,
            is_divided: false,
            suspected: FxHashSet::default(),
            damage: Vec::new(),
        };
        let run = crate::run::tag::tests::run(Outcome::Running, "site", false);
        let name = NodeName::from("n1");
        let mut record = NodeRecord::blank(name.clone(), run.run.clone());
        record.phase = Phase::Unknown;
        record.last_error = Some(Arc::from("destroy/n1 had begun"));
        let mut nodes: BTreeMap<_, _> = [(name.clone(), record.clone())].into();
        let begun = known(&[intent(destroy)]);
        assert!(begun.take_in(&mut nodes, &run, None, 0).is_empty());
        assert_eq!(nodes[&name], record);
        let all = known(&[intent(destroy), ended(destroy), intent(deploy)]);
        let changed = all.take_in(&mut nodes, &run, None, 0);
        assert_eq!(changed, [name.clone()].into());
        let last = nodes[&name].last_error.as_deref();
        assert_eq!(last, Some("deploy/n1 had begun"));
        // A step that was skipped did nothing.
        let skipped = Entry::Ended {
            step: step(deploy),
            outcome: StepOutcome::Skipped {
                reason: "the group has failed".into(),
            },
            attempted: false,
            duration_ms: 0,
        };
        let mut nodes = BTreeMap::new();
        let changed = known(&[skipped]).take_in(&mut nodes, &run, None, 0);
        assert!(changed.is_empty() && nodes.is_empty(), "{nodes:?}");
    }
}
