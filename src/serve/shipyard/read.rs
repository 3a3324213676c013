//! Reads actions, their steps, logs and validations, workflows and notes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::action::ActionView;
use super::answer::{ApiError, with};
use super::caller::{Query, caller, parts};
use super::found::{Meant, all, find};
use super::times::{given, of_id};
use crate::serve::listen::Peer;
use crate::serve::policy::Operation;
use crate::serve::shared::Shared;

/// The length of an id.
const ID: usize = 26;

/// How far back workflows are listed.
const SINCE: SignedDuration = SignedDuration::from_hours(30 * 24);

type Shares = State<Arc<Shared>>;
type Answer = Result<Response, ApiError>;

/// An action by its id.
pub(super) async fn found(shared: &Arc<Shared>, id: &Arc<str>) -> Result<ActionView, ApiError> {
    let (asking, wanted) = (shared.clone(), id.clone());
    let found = shared
        .ask(move || find(&asking, &wanted, Meant::Action))
        .await?
        .map_err(|failure| ApiError::failure(&failure))?;
    let id = crate::report::Visible(id);
    found.ok_or_else(|| ApiError::new(404, "Action not found", format!("Unknown action {id}")))
}

pub(super) async fn actions(
    State(shared): Shares,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    caller(&shared, &peer, request.headers(), Operation::ListActions).await?;
    let query = Query::parse(&request, &[])?;
    let asking = shared.clone();
    let found = shared.ask(move || all(&asking)).await?;
    let found = found.map_err(|failure| ApiError::failure(&failure))?;
    let listed: Vec<Value> = found
        .iter()
        .map(|view| view.listed(query.verbosity))
        .collect();
    Ok(with(200, &Value::Array(listed)))
}

pub(super) async fn action(
    State(shared): Shares,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    caller(&shared, &peer, request.headers(), Operation::GetAction).await?;
    let query = Query::parse(&request, &[])?;
    let view = found(&shared, &parts(&request)[1]).await?;
    Ok(with(200, &view.described(query.verbosity)))
}

pub(super) async fn validation(
    State(shared): Shares,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    caller(
        &shared,
        &peer,
        request.headers(),
        Operation::GetActionValidation,
    )
    .await?;
    Query::parse(&request, &[])?;
    let parts = parts(&request);
    let validation = found(&shared, &parts[1]).await?.validation();
    match validation["id"] == *parts[3] {
        true => Ok(with(200, &validation)),
        false => {
            let id = crate::report::Visible(&parts[3]);
            let text = format!("Unknown validation {id}");
            Err(ApiError::new(404, "Validation not found", text))
        }
    }
}

pub(super) async fn step(
    State(shared): Shares,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    caller(&shared, &peer, request.headers(), Operation::GetActionStep).await?;
    let query = Query::parse(&request, &[])?;
    let parts = parts(&request);
    let view = found(&shared, &parts[1]).await?;
    let step = view.step(&parts[3], query.verbosity);
    step.map(|step| with(200, &step))
        .ok_or_else(|| no_step(&parts[3]))
}

fn no_step(id: &str) -> ApiError {
    let text = format!("Unknown step {}", crate::report::Visible(id));
    ApiError::new(404, "Step not found", text)
}

pub(super) async fn logs(
    State(shared): Shares,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    caller(
        &shared,
        &peer,
        request.headers(),
        Operation::GetActionStepLogs,
    )
    .await?;
    let query = Query::parse(&request, &["try"])?;
    let attempt = match query.text("try") {
        None => None,
        Some(text) => {
            let number = text.parse::<u32>().ok().filter(|number| *number > 0);
            let wrong = || ApiError::parameter("try", "it is the number of an attempt, from 1");
            Some(number.ok_or_else(wrong)?)
        }
    };
    let parts = parts(&request);
    if parts[1].len() != ID {
        let text = format!("an action has an id of {ID} characters");
        return Err(ApiError::new(400, "Invalid action id", text));
    }
    let view = found(&shared, &parts[1]).await?;
    let (_, step) = view
        .steps
        .find(&parts[3])
        .ok_or_else(|| no_step(&parts[3]))?;
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

pub(super) async fn note(
    State(shared): Shares,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    caller(&shared, &peer, request.headers(), Operation::GetNoteDetails).await?;
    Query::parse(&request, &[])?;
    let id = parts(&request)[1].clone();
    if id.len() != ID {
        let text = format!("a note has an id of {ID} characters");
        return Err(ApiError::new(400, "Invalid note id", text));
    }
    let (asking, wanted) = (shared.clone(), id.clone());
    let found = shared
        .ask(move || find(&asking, &wanted, Meant::Part))
        .await?;
    let found = found.map_err(|failure| ApiError::failure(&failure))?;
    let details = found.and_then(|view| view.note_details(&id));
    details.map(text).ok_or_else(|| {
        let text = format!("Unknown note {}", crate::report::Visible(&id));
        ApiError::new(404, "Note not found", text)
    })
}

pub(super) async fn workflows(
    State(shared): Shares,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    caller(&shared, &peer, request.headers(), Operation::ListWorkflows).await?;
    let query = Query::parse(&request, &["since"])?;
    let since = match query.text("since") {
        Some(text) => given(text)
            .ok_or_else(|| ApiError::parameter("since", "it is a time or a day in ISO 8601"))?,
        None => {
            let now = i64::try_from(shared.host.seconds()).ok();
            let now = now.and_then(|now| Timestamp::from_second(now).ok());
            let before = now.and_then(|now| now.checked_sub(SINCE).ok());
            before.unwrap_or(Timestamp::UNIX_EPOCH)
        }
    };
    let asking = shared.clone();
    let found = shared.ask(move || all(&asking)).await?;
    let found = found.map_err(|failure| ApiError::failure(&failure))?;
    let recent = found.iter().filter(|view| of_id(&view.id) >= since);
    let listed: Vec<Value> = recent.map(ActionView::workflow).collect();
    Ok(with(200, &Value::Array(listed)))
}

pub(super) async fn workflow(
    State(shared): Shares,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    caller(&shared, &peer, request.headers(), Operation::GetWorkflow).await?;
    Query::parse(&request, &[])?;
    let id = parts(&request)[1].replace("%3A", ":").replace("%3a", ":");
    if !id.contains("__") {
        let text = "a workflow has an id of the form DAG__TIME";
        return Err(ApiError::new(400, "Invalid workflow id", text));
    }
    let asking = shared.clone();
    let found = shared
        .ask(move || {
            let views = all(&asking)?;
            let view = views.into_iter().find(|view| view.workflow_id() == id);
            // The list has the steps of the newest only.
            match view {
                Some(view) => find(&asking, &view.id, Meant::Action),
                None => Ok(None),
            }
        })
        .await?;
    let found = found.map_err(|failure| ApiError::failure(&failure))?;
    let described = found.map_or_else(|| json!({}), |view| view.workflow_described());
    Ok(with(200, &described))
}
