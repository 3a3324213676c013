//! An action as Shipyard shows it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use ulid::Ulid;

use super::steps::{State, Step, Steps, VALIDATION};
use super::times::{Form, format_time, of_id, reshown};
use crate::design::RunId;

/// The least verbosity at which notes are shown.
const VERBOSITY: u8 = 1;

/// Which part of an action an id of its own kind is for: it differs from the action's in its last bits.
const VALIDATION_ID: u128 = 1;
const COMMAND_ID: u128 = 2;
const NOTE_ID: u128 = 3;
const STEP_NOTE_IDS: u128 = 16;

/// How far an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Running,
    Succeeded,
    Failed,
    /// It was stopped, and can be resumed.
    Paused,
}

impl Standing {
    /// The state of the DAG.
    pub(super) const fn dag_status(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "success",
            Self::Failed => "failed",
            Self::Paused => "paused",
        }
    }

    const fn lifecycle(self) -> &'static str {
        match self {
            Self::Running => "Processing",
            Self::Succeeded => "Complete",
            Self::Failed => "Failed",
            Self::Paused => "Paused",
        }
    }
}

/// An action: of this process, or of a run in the records.
#[derive(Clone, Debug)]
pub(super) struct ActionView {
    pub(super) id: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) parameters: Map<String, Value>,
    pub(super) allow_intermediate_commits: bool,
    pub(super) user: Arc<str>,
    /// The caller's own id of the request, if it had one.
    pub(super) marker: Option<Arc<str>>,
    /// The commit.
    pub(super) revision: Option<Arc<str>>,
    pub(super) run: Option<RunId>,
    pub(super) standing: Standing,
    pub(super) steps: Steps,
    /// The texts of its notes: how it ended, and what is left.
    pub(super) notes: Vec<String>,
    /// When it ended.
    pub(super) ended: Option<Arc<str>>,
}

/// An id that differs from an action's in its last bits.
fn derived(id: &str, part: u128) -> String {
    Ulid::from_string(id).map_or_else(|_| id.to_owned(), |id| Ulid(id.0 ^ part).to_string())
}

/// Whether an id is that of a part of an action.
pub(super) fn is_part_of(action: &str, id: &str) -> bool {
    let (Ok(action), Ok(id)) = (Ulid::from_string(action), Ulid::from_string(id)) else {
        return false;
    };
    (action.0 ^ id.0) < 1 << 10
}

/// An id as a UUID: both are 128 bits.
pub(in crate::serve) fn as_uuid(id: &str) -> String {
    Ulid::from_string(id).map_or_else(
        |_| id.to_owned(),
        |id| uuid::Uuid::from_u128(id.0).to_string(),
    )
}

/// Seconds between two times of events.
fn seconds(from: Option<&Arc<str>>, to: Option<&Arc<str>>) -> Value {
    let time = |text: Option<&Arc<str>>| text?.parse::<Timestamp>().ok();
    match (time(from), time(to)) {
        (Some(from), Some(to)) => json!(to.duration_since(from).as_secs_f64()),
        _ => Value::Null,
    }
}

/// A note.
struct Note<'a> {
    assoc_id: String,
    subject: &'a str,
    sub_type: &'static str,
    id: String,
    texts: &'a [String],
}

impl ActionView {
    fn time(&self) -> Timestamp {
        of_id(&self.id)
    }

    /// The id of its workflow.
    pub(super) fn workflow_id(&self) -> String {
        format!(
            "{}__{}",
            self.name,
            format_time(self.time(), Form::Workflow)
        )
    }

    /// The answer to the request that begins it.
    pub(super) fn created(&self) -> Value {
        json!({
            "id": &*self.id,
            "name": &*self.name,
            "parameters": self.parameters,
            "user": &*self.user,
            "timestamp": format_time(self.time(), Form::Plain),
            "context_marker": self.context_marker(),
            "dag_id": &*self.name,
            "dag_execution_date": format_time(self.time(), Form::Execution),
            "dag_status": "SCHEDULED",
            "committed_rev_id": self.revision.as_deref(),
            "allow_intermediate_commits": self.allow_intermediate_commits,
        })
    }

    fn context_marker(&self) -> String {
        let marker = self.marker.as_deref().map(str::to_owned);
        marker.unwrap_or_else(|| as_uuid(&self.id))
    }

    /// It among others.
    pub(super) fn listed(&self, verbosity: u8) -> Value {
        let steps = self.steps.all().iter().enumerate();
        let steps: Vec<Value> = steps
            .map(|(at, step)| {
                json!({
                    "id": step.id,
                    "index": at + 1,
                    "state": step.state.as_str(),
                    "url": format!("/actions/{}/steps/{}", self.id, step.id),
                    "notes": self.step_notes(at, step, verbosity.min(1)),
                })
            })
            .collect();
        json!({
            "id": &*self.id,
            "name": &*self.name,
            "parameters": self.parameters,
            "dag_id": &*self.name,
            "dag_status": self.standing.dag_status(),
            "dag_execution_date": format_time(self.time(), Form::Execution),
            "action_lifecycle": self.standing.lifecycle(),
            "user": &*self.user,
            "datetime": format_time(self.time(), Form::WithZone),
            "context_marker": self.context_marker(),
            "committed_rev_id": self.revision.as_deref(),
            "allow_intermediate_commits": self.allow_intermediate_commits,
            "notes": self.notes(verbosity),
            "steps": steps,
        })
    }

    /// It alone.
    pub(super) fn described(&self, verbosity: u8) -> Value {
        let mut value = self.listed(verbosity);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("validations".to_owned(), json!([self.validation()]));
            let command = json!({
                "id": derived(&self.id, COMMAND_ID),
                "action_id": &*self.id,
                "command": "invoke",
                "user": &*self.user,
                "datetime": format_time(self.time(), Form::WithZone),
            });
            fields.insert("command_audit".to_owned(), json!([command]));
        }
        value
    }

    /// The validation of the documents that it began with.
    pub(super) fn validation(&self) -> Value {
        let step = self.steps.find(VALIDATION).map(|(_, step)| step);
        let state = step.map_or(State::None, |step| step.state);
        let revision = self.revision.as_deref().unwrap_or("what is committed");
        let details = match state {
            State::Success => format!("The documents of {revision} are valid."),
            State::Failed => step.map_or_else(String::new, |step| step.failures.join("\n")),
            _ => "The documents were not validated yet.".to_owned(),
        };
        json!({
            "id": derived(&self.id, VALIDATION_ID),
            "action_id": &*self.id,
            "validation_name": VALIDATION,
            "details": details,
        })
    }

    fn note(&self, note: &Note<'_>, verbosity: u8) -> Vec<Value> {
        let Some(first) = note.texts.first().filter(|_| verbosity >= VERBOSITY) else {
            return Vec::new();
        };
        let more = (note.texts.len() > 1).then(|| format!("Details at notedetails/{}", note.id));
        let ended = self
            .ended
            .as_deref()
            .map(|time| reshown(time, Form::WithZone));
        vec![json!({
            "assoc_id": note.assoc_id,
            "subject": note.subject,
            "sub_type": note.sub_type,
            "note_val": first,
            "verbosity": VERBOSITY,
            "note_id": note.id,
            "note_timestamp": ended.unwrap_or_else(|| format_time(self.time(), Form::WithZone)),
            "resolved_url_value": more,
        })]
    }

    fn notes(&self, verbosity: u8) -> Vec<Value> {
        let note = Note {
            assoc_id: format!("action/{}", self.id),
            subject: &self.name,
            sub_type: "action metadata",
            id: derived(&self.id, NOTE_ID),
            texts: &self.notes,
        };
        self.note(&note, verbosity)
    }

    fn step_notes(&self, at: usize, step: &Step, verbosity: u8) -> Vec<Value> {
        let note = Note {
            assoc_id: format!("step/{}/{}", self.id, step.id),
            subject: step.id,
            sub_type: "step metadata",
            id: self.step_note_id(at),
            texts: &step.failures,
        };
        self.note(&note, verbosity)
    }

    fn step_note_id(&self, at: usize) -> String {
        derived(&self.id, STEP_NOTE_IDS + at as u128)
    }

    /// The texts of a note that has more than it shows.
    pub(super) fn note_details(&self, id: &str) -> Option<String> {
        let own = (derived(&self.id, NOTE_ID) == id).then_some(&self.notes);
        let steps = self.steps.all().iter().enumerate();
        let mut steps = steps.filter(|(at, _)| self.step_note_id(*at) == id);
        let texts = own.or_else(|| steps.next().map(|(_, step)| &step.failures))?;
        (texts.len() > 1).then(|| texts.join("\n") + "\n")
    }

    /// One of its steps.
    pub(super) fn step(&self, id: &str, verbosity: u8) -> Option<Value> {
        let (at, step) = self.steps.find(id)?;
        let mut value = self.task(at, step);
        if let Some(fields) = value.as_object_mut() {
            let notes = self.step_notes(at, step, verbosity);
            fields.insert("notes".to_owned(), Value::Array(notes));
        }
        Some(value)
    }

    fn task(&self, at: usize, step: &Step) -> Value {
        let time = |time: &Option<Arc<str>>| {
            let time = time.as_deref();
            time.map(|time| reshown(time, Form::WithZone))
        };
        let is_over = !matches!(step.state, State::None | State::Running);
        json!({
            "task_id": step.id,
            "dag_id": &*self.name,
            "index": at + 1,
            "state": step.state.as_str(),
            "try_number": step.tries,
            "start_date": time(&step.started),
            "end_date": is_over.then(|| time(&step.ended)).flatten(),
            "duration": if is_over { seconds(step.started.as_ref(), step.ended.as_ref()) } else { Value::Null },
            "operator": "trueup",
            "execution_date": format_time(self.time(), Form::WithZone),
            "queued_dttm": Value::Null,
        })
    }

    /// Its workflow.
    pub(super) fn workflow(&self) -> Value {
        let execution = format_time(self.time(), Form::WithZone);
        json!({
            "workflow_id": self.workflow_id(),
            "dag_id": &*self.name,
            "run_id": self.run.as_ref().map_or_else(|| self.id.to_string(), ToString::to_string),
            "state": self.standing.dag_status(),
            "execution_date": execution,
            "start_date": execution,
            "end_date": self.ended.as_deref().map(|time| reshown(time, Form::WithZone)),
            "external_trigger": true,
            "conf": {"action": {"id": &*self.id, "name": &*self.name, "parameters": self.parameters}},
        })
    }

    /// Its workflow with its steps.
    pub(super) fn workflow_described(&self) -> Value {
        let mut value = self.workflow();
        let steps = self.steps.all().iter().enumerate();
        let steps: Vec<Value> = steps.map(|(at, step)| self.task(at, step)).collect();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("steps".to_owned(), Value::Array(steps));
            fields.insert("sub_dags".to_owned(), json!([]));
        }
        value
    }
}
