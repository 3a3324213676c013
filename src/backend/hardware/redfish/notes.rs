//! Notes for requests that must not be repeated: written before the request, and found again after a crash.
//!
//! A note is a line of JSON in the journal. Of each thing the last note counts: asked for, begun as a
//! task, refused, or done. Requested and nothing more means that it is unknown whether it was begun.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::Machine;
use super::powered::power_of;
use super::task::{Accepted, TaskState};
use crate::backend::http::{Class, Failure};
use crate::backend::{ActError, Order, Probe};

/// A note of this backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "redfish")]
pub(super) enum Note {
    /// It is going to be asked for.
    Asked { what: Arc<str>, before: Before },
    /// It was begun; where to look.
    Task { what: Arc<str>, task: Arc<str> },
    /// The controller would not, and nothing was begun.
    Refused { what: Arc<str> },
    /// It ended well.
    Done { what: Arc<str> },
}

/// The state of a machine before a request, so that a repeated request can be told to be the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Before {
    pub(super) serial: Arc<str>,
    pub(super) power: Arc<str>,
}

/// How something stands by its notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    NotAsked,
    Asked(Before),
    Task(Arc<str>),
    Done,
}

impl Note {
    fn text(&self) -> Arc<str> {
        // A note has only texts in it, which can always be written.
        Arc::from(serde_json::to_string(self).unwrap_or_default())
    }
}

/// How everything stands that was noted, by what it is.
pub(super) fn states(notes: &[Arc<str>]) -> BTreeMap<Arc<str>, RequestState> {
    let mut found = BTreeMap::new();
    for note in notes {
        match serde_json::from_str(note) {
            Ok(Note::Asked { what, before }) => found.insert(what, RequestState::Asked(before)),
            Ok(Note::Task { what, task }) => found.insert(what, RequestState::Task(task)),
            Ok(Note::Refused { what }) => found.insert(what, RequestState::NotAsked),
            Ok(Note::Done { what }) => found.insert(what, RequestState::Done),
            // Another author's.
            Err(_) => None,
        };
    }
    found
}

/// How one thing stands.
pub(super) fn state(notes: &[Arc<str>], what: &str) -> RequestState {
    states(notes).remove(what).unwrap_or(RequestState::NotAsked)
}

/// How erasing a drive is noted.
pub(super) fn erase_of(path: &str) -> String {
    format!("erase {path}")
}

impl Machine<'_> {
    pub(super) async fn note(&self, order: &Order, note: Note) -> Result<(), ActError> {
        order.reporter.note(note.text()).await
    }

    /// Sends a request that must not be repeated, unless its notes show that it runs or was
    /// done; gives the running task. The observer of its end notes it as done.
    pub(super) async fn once<F>(
        &self,
        order: &Order,
        what: &str,
        before: Before,
        ask: impl FnOnce() -> F,
    ) -> Result<Begun, ActError>
    where
        F: Future<Output = Result<Accepted, Failure>>,
    {
        match state(&order.notes, what) {
            RequestState::Done => return Ok(Begun::Done),
            RequestState::Task(task) => return Ok(Begun::Task(task)),
            // That it may be asked for again was decided before it came to this.
            RequestState::Asked(_) | RequestState::NotAsked => {}
        }
        let what: Arc<str> = Arc::from(what);
        let asked = Note::Asked {
            what: what.clone(),
            before,
        };
        self.note(order, asked).await?;
        match ask().await {
            Ok(Accepted::Done) => Ok(Begun::Said),
            Ok(Accepted::Task(task)) => {
                let note = Note::Task {
                    what,
                    task: task.clone(),
                };
                self.note(order, note).await?;
                Ok(Begun::Task(task))
            }
            Err(failure) => {
                if failure.class() != Class::Ambiguous {
                    self.note(order, Note::Refused { what }).await?;
                }
                Err(failure.into())
            }
        }
    }

    /// How a step stands all of whose parts must not be asked for twice.
    pub(super) async fn probe_once_only(&self, order: &Order) -> Result<Probe, ActError> {
        let states = states(&order.notes);
        for (what, state) in &states {
            let evidence = match state {
                RequestState::NotAsked | RequestState::Done => continue,
                RequestState::Task(task) => match self.controller.task(task).await? {
                    TaskState::Running(_) | TaskState::Done | TaskState::Failed(_) => continue,
                    TaskState::Warned(text) => format!(
                        "`{what}` ended with a warning, so that it may not be complete: {text}"
                    ),
                    TaskState::Gone => format!(
                        "`{what}` was begun as {task}, which is not found any more: check in the controller's log whether it ended"
                    ),
                },
                RequestState::Asked(before) => {
                    let target = what.split_once(' ').map_or("", |(_, path)| path);
                    if self.running_on(target).await?.is_some()
                        || self.may_repeat(what, before).await?
                    {
                        continue;
                    }
                    format!(
                        "the answer to `{what}` was lost and no task of it was found: check \
                         the controller's log and the drive itself, whether it was done"
                    )
                }
            };
            return Ok(Probe::Ambiguous(Arc::from(self.about(&evidence))));
        }
        Ok(Probe::UnderWay)
    }

    /// Whether a request whose answer was lost may be repeated: the settings allow to do it twice,
    /// and drive and power are as they were.
    async fn may_repeat(&self, what: &str, before: &Before) -> Result<bool, ActError> {
        if !self.backend.settings.may_repeat_erase {
            return Ok(false);
        }
        let Some(path) = what.strip_prefix("erase ") else {
            return Ok(false);
        };
        let drive = self.controller.get(path).await?;
        let serial = drive.text("/SerialNumber").unwrap_or_default();
        Ok(*before == self.before(serial).await?)
    }

    /// The state now, for a note.
    pub(super) async fn before(&self, serial: &str) -> Result<Before, ActError> {
        let system = self.read_system().await?;
        let power = power_of(&system).map(|power| format!("{power:?}"));
        Ok(Before {
            serial: Arc::from(serial),
            power: Arc::from(power.unwrap_or_default()),
        })
    }

    /// The running task for a target, by the task service.
    pub(super) async fn running_on(&self, target: &str) -> Result<Option<Arc<str>>, ActError> {
        /// Most tasks that are read.
        const MOST: usize = 100;
        let Some(service) = &self.tasks else {
            return Ok(None);
        };
        let Some(service) = self.controller.get_if_there(service).await? else {
            return Ok(None);
        };
        let Some(tasks) = service.link("/Tasks") else {
            return Ok(None);
        };
        // Newest last, as a rule.
        for path in self
            .controller
            .members(tasks)
            .await?
            .iter()
            .rev()
            .take(MOST)
        {
            let Some(task) = self.controller.get_if_there(path).await? else {
                continue;
            };
            let ended = ["Completed", "Exception", "Killed", "Cancelled"];
            let goes_on = task
                .text("/TaskState")
                .is_some_and(|state| !ended.contains(&state));
            if goes_on && names(&task.value, target) {
                return Ok(Some(path.clone()));
            }
        }
        Ok(None)
    }
}

/// How far something came by being asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// Observed done before.
    Done,
    /// It is said to be done.
    Said,
    /// It runs.
    Task(Arc<str>),
}

/// Whether a value names a path, or something below it, somewhere.
fn names(value: &Value, path: &str) -> bool {
    match value {
        Value::String(text) => match text.strip_prefix(path) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        },
        Value::Array(list) => list.iter().any(|each| names(each, path)),
        Value::Object(map) => map.values().any(|each| names(each, path)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_each_thing_the_last_note_counts() {
        let asked = |what: &str| Note::Asked {
            what: Arc::from(what),
            before: Before {
                serial: "S1".into(),
                power: "On".into(),
            },
        };
        let notes: Vec<Arc<str>> = vec![
            asked("erase /a").text(),
            Note::Task {
                what: "erase /a".into(),
                task: "/t/1".into(),
            }
            .text(),
            asked("erase /b").text(),
            asked("erase /c").text(),
            Note::Refused {
                what: "erase /c".into(),
            }
            .text(),
            Arc::from("a note of another author"),
            Note::Done {
                what: "erase /d".into(),
            }
            .text(),
        ];
        assert_eq!(state(&notes, "erase /a"), RequestState::Task("/t/1".into()));
        assert!(
            matches!(state(&notes, "erase /b"), RequestState::Asked(before) if &*before.serial == "S1")
        );
        assert_eq!(state(&notes, "erase /c"), RequestState::NotAsked);
        assert_eq!(state(&notes, "erase /d"), RequestState::Done);
        assert_eq!(state(&notes, "erase /e"), RequestState::NotAsked);
        assert_eq!(states(&notes).len(), 4);
    }

    #[test]
    fn a_task_is_for_a_drive_where_it_names_it_or_something_below_it() {
        let task = json!({"Payload": {"TargetUri": "/redfish/v1/D/1/Actions/Drive.SecureErase"}, "Messages": [{"MessageArgs": ["x"]}]});
        assert!(names(&task, "/redfish/v1/D/1"));
        assert!(
            !names(&task, "/redfish/v1/D/10") && !names(&task, "/redfish/v1/D/1/Actions/Other")
        );
    }
}
