//! Finds actions: those of this process that have no run yet, and all runs of the records.

use std::sync::{Arc, PoisonError};

use super::action::{ActionView, Standing, is_part_of};
use super::names::ShipyardAction;
use super::steps::Steps;
use crate::design::RunId;
use crate::plan::{Plan, RunState};
use crate::record::{NamedAction, Outcome, RunRecord, State, Store};
use crate::report::Visible;
use crate::run::RunReport;
use crate::serve::actions::{Entry, Task};
use crate::serve::shared::Shared;
use crate::workflow::{Checkout, Failure, plan_of_run};

/// The newest runs among which an action is found.
const NEWEST: usize = 1000;

/// The newest actions whose steps a list has.
const WITH_STEPS: usize = 100;

/// The id by which an action is looked for: its own, or that of one of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    Action,
    Part,
}

/// How much is told of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// All of it.
    Whole,
    /// All but the logs of its steps.
    Listed,
    /// No steps.
    Bare,
}

/// Whether an action is remembered by this process, and by no record.
fn is_only_here(entry: &Entry) -> bool {
    let progress = entry.progress();
    progress.ended.is_none() || progress.run.is_none()
}

/// An action of this process.
pub(super) fn of_entry(entry: &Entry) -> ActionView {
    let progress = entry.progress();
    let order = &entry.order;
    let requested = &order.requested;
    let task = match &order.task {
        Task::Nodes(task) => Some(task),
        Task::Plan(_) => None,
    };
    let named = requested.named.as_deref();
    let standing = match &progress.ended {
        None => Standing::Running,
        Some((status, _)) if status.reason.code < 400 => Standing::Succeeded,
        Some(_) => Standing::Failed,
    };
    let notes = match &progress.ended {
        Some((status, _)) => {
            let parts = status.messages.iter().map(|part| part.message.clone());
            let parts = parts.filter(|part| *part != status.message);
            std::iter::once(status.message.clone())
                .chain(parts)
                .collect()
        }
        None => Vec::new(),
    };
    ActionView {
        id: requested.id.clone(),
        name: name(named, order.action.as_str()),
        parameters: named
            .map(|named| named.parameters.clone())
            .unwrap_or_default(),
        allow_intermediate_commits: task.is_some_and(|task| task.allow_intermediate_commits),
        user: requested.subject.clone(),
        marker: requested.marker.clone(),
        revision: task.and_then(|task| task.revision.clone()),
        run: progress.run,
        standing,
        steps: entry.with_steps(|steps| steps.clone()),
        notes,
        ended: progress.ended.map(|(_, at)| at),
    }
}

/// The name of an action: the caller's, else Shipyard's own, else trueup's.
fn name(named: Option<&NamedAction>, action: &str) -> Arc<str> {
    match (named, ShipyardAction::of(action)) {
        (Some(named), _) => named.name.clone(),
        (None, Some(known)) => Arc::from(known.as_str()),
        (None, None) => Arc::from(action),
    }
}

/// The records, for the time of a question.
struct Records<'a> {
    shared: &'a Shared,
    checkout: &'a Checkout<'a>,
    store: Store<'a>,
    state: State,
}

impl<'a> Records<'a> {
    fn open(shared: &'a Shared, checkout: &'a Checkout<'a>) -> Result<Self, Failure> {
        shared.follow(true);
        let store = Store::open(checkout.repository, &checkout.location.site)?;
        let state = store.read()?;
        Ok(Self {
            shared,
            checkout,
            store,
            state,
        })
    }

    /// The newest runs, the newest first.
    fn runs(&self) -> Result<Vec<RunId>, Failure> {
        let mut runs = self.store.runs(&self.state)?;
        runs.sort_unstable();
        runs.reverse();
        runs.truncate(NEWEST);
        Ok(runs)
    }

    fn record(&self, run: &RunId) -> Result<Option<RunRecord>, Failure> {
        Ok(self.store.run(&self.state, run)?)
    }

    /// How far a run is. A process that was killed could not write that its run was interrupted: its lock shows it.
    fn standing(&self, record: &RunRecord) -> Result<Standing, Failure> {
        Ok(match record.outcome {
            Outcome::Succeeded | Outcome::SucceededWithFailures => Standing::Succeeded,
            Outcome::Failed | Outcome::Abandoned => Standing::Failed,
            Outcome::Interrupted => match self.shared.actions.resuming() {
                Some(_) if self.is_last(record) => Standing::Running,
                _ => Standing::Paused,
            },
            Outcome::Running => match self.shared.unfinished(self.checkout)? {
                Some(run) if run.run == record.run && run.state == RunState::Running => {
                    Standing::Running
                }
                _ => Standing::Paused,
            },
        })
    }

    fn is_last(&self, record: &RunRecord) -> bool {
        self.state.site.last_run.as_ref() == Some(&record.run)
    }

    fn view(&self, record: &RunRecord, detail: Detail) -> Result<ActionView, Failure> {
        let standing = self.standing(record)?;
        let (steps, notes) = match detail {
            Detail::Whole => (self.steps(record, standing)?, self.notes(record, standing)?),
            Detail::Listed => (
                self.listed(record, standing)?,
                self.notes(record, standing)?,
            ),
            Detail::Bare => (Steps::default(), Vec::new()),
        };
        let requested = record.requested.as_deref();
        let named = requested.and_then(|request| request.named.as_deref());
        let unknown: Arc<str> = Arc::from("unknown");
        Ok(ActionView {
            id: id_of(record),
            name: name(named, &record.action),
            parameters: named
                .map(|named| named.parameters.clone())
                .unwrap_or_default(),
            allow_intermediate_commits: named.is_some_and(|named| named.allow_intermediate_commits),
            user: match requested {
                Some(request) => request.subject.clone(),
                None => record.actor.clone().unwrap_or(unknown),
            },
            marker: requested.and_then(|request| request.marker.clone()),
            revision: Some(record.revision.clone()),
            run: Some(record.run.clone()),
            standing,
            steps,
            notes,
            ended: record.ended.clone(),
        })
    }

    /// The steps of a run, with their logs.
    fn steps(&self, record: &RunRecord, standing: Standing) -> Result<Steps, Failure> {
        let mut steps = Steps::of_events(&self.store.events(&self.state, &record.run)?);
        let end = record.ended.as_ref().unwrap_or(&record.started);
        steps.tagged(record.tag.as_deref(), end);
        if matches!(standing, Standing::Succeeded | Standing::Failed) {
            steps.close();
        }
        Ok(steps)
    }

    /// The steps of a run without their logs; those of one that has ended do not change any more.
    fn listed(&self, record: &RunRecord, standing: Standing) -> Result<Steps, Failure> {
        let known = || {
            let known = self.shared.ended_steps.lock();
            known.unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(steps) = known().get(&record.run) {
            return Ok(steps.clone());
        }
        let steps = self.steps(record, standing)?.without_logs();
        if matches!(standing, Standing::Succeeded | Standing::Failed) {
            let mut known = known();
            known.insert(record.run.clone(), steps.clone());
            if known.len() > WITH_STEPS {
                known.pop_first();
            }
        }
        Ok(steps)
    }

    /// The texts of the notes of a run: how it ended, and what is left.
    fn notes(&self, record: &RunRecord, standing: Standing) -> Result<Vec<String>, Failure> {
        let mut notes = match (standing, record.outcome) {
            (Standing::Succeeded, Outcome::Succeeded) | (Standing::Running, _) => Vec::new(),
            (_, outcome) => vec![format!("run {} {}", record.run, outcome.words())],
        };
        let report = RunReport::of(&self.store, &self.state, record)?;
        let next = report.into_iter().flat_map(|report| report.next);
        if !notes.is_empty() {
            notes.extend(next.map(|line| Visible(&line).to_string()));
        }
        Ok(notes)
    }
}

/// The id of the action of a run: that of the request, else its own.
fn id_of(record: &RunRecord) -> Arc<str> {
    match record.requested.as_deref() {
        Some(request) => request.id.clone(),
        None => Arc::from(record.run.as_str()),
    }
}

/// The plan of a run.
pub(super) fn plan_of(shared: &Shared, run: &RunId) -> Result<Plan, Failure> {
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    let records = Records::open(shared, &checkout)?;
    plan_of_run(&records.store, &records.state, run)
}

/// An action by its id, or by that of a part of it.
pub(super) fn find(shared: &Shared, id: &str, meant: Meant) -> Result<Option<ActionView>, Failure> {
    let is_meant = |found: &str| match meant {
        Meant::Action => found == id,
        Meant::Part => is_part_of(found, id),
    };
    let entries = shared.actions.all();
    let entry = entries
        .iter()
        .find(|entry| is_meant(&entry.order.requested.id));
    if let Some(entry) = entry.filter(|entry| is_only_here(entry)) {
        return Ok(Some(of_entry(entry)));
    }
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    let records = Records::open(shared, &checkout)?;
    let known = entry.and_then(|entry| entry.progress().run);
    let runs = match known {
        Some(run) => vec![run],
        None => records.runs()?,
    };
    for run in runs {
        if let Some(record) = records.record(&run)?
            && is_meant(&id_of(&record))
        {
            return records.view(&record, Detail::Whole).map(Some);
        }
    }
    Ok(entry.map(|entry| of_entry(entry)))
}

/// All actions, the oldest first; the newest of them with their steps.
pub(super) fn all(shared: &Shared) -> Result<Vec<ActionView>, Failure> {
    let entries = shared.actions.all();
    let here = entries.iter().filter(|entry| is_only_here(entry));
    let mut views: Vec<ActionView> = here.map(|entry| of_entry(entry)).collect();
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    let records = Records::open(shared, &checkout)?;
    for (position, run) in records.runs()?.into_iter().enumerate() {
        let Some(record) = records.record(&run)? else {
            continue;
        };
        let id = id_of(&record);
        if views.iter().all(|view| view.id != id) {
            let detail = match position < WITH_STEPS {
                true => Detail::Listed,
                false => Detail::Bare,
            };
            views.push(records.view(&record, detail)?);
        }
    }
    views.sort_unstable_by(|left, right| left.id.cmp(&right.id));
    Ok(views)
}
