//! Operations that take long: what an answer says of one, and what its task says later.

use std::sync::Arc;

use reqwest::StatusCode;
use serde_json::Value;

use super::resource::Resource;
use crate::backend::http::{Answer, plain};

/// The state of a request that may take long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// It was done, or so it is said.
    Done,
    /// It runs; the task to poll.
    Task(Arc<str>),
}

/// How a long operation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    /// It runs, with its reported progress.
    Running(String),
    /// It ended well.
    Done,
    /// It ended, and warns of something; its messages.
    Warned(String),
    /// It ended badly; what it says.
    Failed(String),
    /// Not found any more.
    Gone,
}

pub(super) fn accepted(answer: &Answer) -> Accepted {
    if answer.status() != StatusCode::ACCEPTED {
        return Accepted::Done;
    }
    let body: Option<Value> = answer.json().ok();
    let of_body = || {
        let body = body.as_ref()?;
        let monitor = body.get("TaskMonitor").or_else(|| body.get("@odata.id"))?;
        monitor.as_str()
    };
    match answer.header("location").or_else(of_body) {
        Some(location) => Accepted::Task(Arc::from(location)),
        None => Accepted::Done,
    }
}

pub(super) fn task_state(status: StatusCode, body: Option<&Resource>) -> TaskState {
    let state = body.and_then(|body| body.text("/TaskState"));
    let list = body.and_then(|body| body.value.get("Messages")?.as_array());
    let list = list.map_or(&[][..], Vec::as_slice);
    let messages = || {
        let texts = list.iter();
        let texts: Vec<&str> = texts
            .filter_map(|message| message.get("Message")?.as_str())
            .collect();
        texts.join(" ")
    };
    let has = |severity: &str| {
        let own = |message: &Value| {
            let told = message
                .get("Severity")
                .or_else(|| message.get("MessageSeverity"));
            told.and_then(Value::as_str) == Some(severity)
        };
        body.and_then(|body| body.text("/TaskStatus")) == Some(severity) || list.iter().any(own)
    };
    match state {
        Some("Completed") if has("Critical") => {
            TaskState::Failed(format!("it ended, critical: {}", messages()))
        }
        Some("Completed") if has("Warning") => TaskState::Warned(messages()),
        Some("Completed") => TaskState::Done,
        Some(ended @ ("Exception" | "Killed" | "Cancelled")) => {
            TaskState::Failed(format!("{ended}: {}", messages()))
        }
        None if status != StatusCode::ACCEPTED => TaskState::Done,
        other => {
            let state = plain(other.unwrap_or("Running"), 40);
            TaskState::Running(
                match body.and_then(|body| body.number("/PercentComplete")) {
                    Some(percent) => format!("{state}, {percent} %"),
                    None => state,
                },
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_read_from_its_state_and_a_monitor_from_its_status() {
        let table = [
            (202, json!({}), TaskState::Running("Running".to_owned())),
            (
                202,
                json!({"TaskState": "Pending", "PercentComplete": 3}),
                TaskState::Running("Pending, 3 %".to_owned()),
            ),
            (
                200,
                json!({"TaskState": "Running"}),
                TaskState::Running("Running".to_owned()),
            ),
            (
                200,
                json!({"TaskState": "Completed", "TaskStatus": "OK"}),
                TaskState::Done,
            ),
            (
                200,
                json!({"TaskState": "Completed", "TaskStatus": "Critical", "Messages": [{"Message": "no"}]}),
                TaskState::Failed("it ended, critical: no".to_owned()),
            ),
            (
                200,
                json!({"TaskState": "Completed", "TaskStatus": "Warning", "Messages": [{"Message": "odd"}]}),
                TaskState::Warned("odd".to_owned()),
            ),
            (
                200,
                json!({"TaskState": "Completed", "TaskStatus": "Warning", "Messages": [{"Message": "erase failed", "Severity": "Critical"}]}),
                TaskState::Failed("it ended, critical: erase failed".to_owned()),
            ),
            (
                200,
                json!({"TaskState": "Exception", "Messages": [{"Message": "bad drive"}, {}]}),
                TaskState::Failed("Exception: bad drive".to_owned()),
            ),
            (200, json!({"Id": "drive"}), TaskState::Done),
            (204, Value::Null, TaskState::Done),
        ];
        for (status, value, expected) in table {
            let body = Resource {
                value,
                path: Arc::from("/t"),
                etag: None,
            };
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(task_state(status, Some(&body)), expected, "{}", body.value);
        }
    }
}
