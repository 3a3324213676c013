//! Reads actions, their steps, logs and validations, workflows and notes.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::action::ActionView;
use super::answer::{ApiError, Call, with};
use super::found::{Meant, all, find};
use super::times::{given, of_id};
use crate::report::Visible;

/// The length of an id.
const ID: usize = 26;

/// How far back workflows are listed.
const SINCE: SignedDuration = SignedDuration::from_hours(30 * 24);

type Answer = Result<Response, ApiError>;

/// That there is none of a kind by an id.
fn unknown(kind: &str, id: &str) -> ApiError {
    let text = format!("Unknown {} {}", kind.to_ascii_lowercase(), Visible(id));
    ApiError::new(404, format!("{kind} not found"), text)
}

/// The action that the path names.
pub(super) async fn action_of(call: &Call) -> Result<ActionView, ApiError> {
    let id: Arc<str> = Arc::from(call.named("id"));
    let wanted = id.clone();
    let found = call.ask(move |shared| find(shared, &wanted, Meant::Action));
    found.await?.ok_or_else(|| unknown("Action", &id))
}

pub(super) async fn actions(call: Call) -> Answer {
    let verbosity = call.query.verbosity()?;
    let found = call.ask(|shared| all(shared)).await?;
    let listed = found.iter().map(|view| view.listed(verbosity)).collect();
    Ok(with(200, &Value::Array(listed)))
}

pub(super) async fn action(call: Call) -> Answer {
    let view = action_of(&call).await?;
    Ok(with(200, &view.described(call.query.verbosity()?)))
}

pub(super) async fn validation(call: Call) -> Answer {
    let validation = action_of(&call).await?.validation();
    let id = call.named("validation");
    match validation["id"] == *id {
        true => Ok(with(200, &validation)),
        false => Err(unknown("Validation", id)),
    }
}

pub(super) async fn step(call: Call) -> Answer {
    let view = action_of(&call).await?;
    let id = call.named("step");
    let step = view.step(id, call.query.verbosity()?);
    step.map(|step| with(200, &step))
        .ok_or_else(|| unknown("Step", id))
}

pub(super) async fn logs(call: Call) -> Answer {
    let attempt = match call.query.text("try") {
        None => None,
        Some(text) => {
            let number = text.parse::<u32>().ok().filter(|number| *number > 0);
            let wrong = || ApiError::parameter("try", "it is the number of an attempt, from 1");
            Some(number.ok_or_else(wrong)?)
        }
    };
    if call.named("id").len() != ID {
        let text = format!("an action has an id of {ID} characters");
        return Err(ApiError::new(400, "Invalid action id", text));
    }
    let view = action_of(&call).await?;
    let id = call.named("step");
    let step = view.steps.find(id);
    let (_, step) = step.ok_or_else(|| unknown("Step", id))?;
    if attempt.is_some_and(|attempt| attempt > step.tries) {
        let text = format!("the step had {} attempts", step.tries);
        return Err(ApiError::new(404, "Log not found", text));
    }
    Ok(text(step.log(attempt)))
}

/// A text as it is.
fn text(text: String) -> Response {
    let kind = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
    (StatusCode::OK, kind, text).into_response()
}

pub(super) async fn note(call: Call) -> Answer {
    let id: Arc<str> = Arc::from(call.named("id"));
    if id.len() != ID {
        let text = format!("a note has an id of {ID} characters");
        return Err(ApiError::new(400, "Invalid note id", text));
    }
    let wanted = id.clone();
    let found = call.ask(move |shared| find(shared, &wanted, Meant::Part));
    let found = found.await?;
    let details = found.and_then(|view| view.note_details(&id));
    details.map(text).ok_or_else(|| unknown("Note", &id))
}

pub(super) async fn workflows(call: Call) -> Answer {
    let since = match call.query.text("since") {
        Some(text) => given(text)
            .ok_or_else(|| ApiError::parameter("since", "it is a time or a day in ISO 8601"))?,
        None => {
            let now = i64::try_from(call.shared.host.seconds()).ok();
            let now = now.and_then(|now| Timestamp::from_second(now).ok());
            let before = now.and_then(|now| now.checked_sub(SINCE).ok());
            before.unwrap_or(Timestamp::UNIX_EPOCH)
        }
    };
    let found = call.ask(|shared| all(shared)).await?;
    let recent = found.iter().filter(|view| of_id(&view.id) >= since);
    let listed: Vec<Value> = recent.map(ActionView::workflow).collect();
    Ok(with(200, &Value::Array(listed)))
}

pub(super) async fn workflow(call: Call) -> Answer {
    let id = call.named("id").replace("%3A", ":").replace("%3a", ":");
    if !id.contains("__") {
        let text = "a workflow has an id of the form DAG__TIME";
        return Err(ApiError::new(400, "Invalid workflow id", text));
    }
    let found = call.ask(move |shared| {
        let views = all(shared)?;
        let view = views.into_iter().find(|view| view.workflow_id() == id);
        // The list has the steps of the newest only.
        match view {
            Some(view) => find(shared, &view.id, Meant::Action),
            None => Ok(None),
        }
    });
    let found = found.await?;
    let described = found.map_or_else(|| json!({}), |view| view.workflow_described());
    Ok(with(200, &described))
}
