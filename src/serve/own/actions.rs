//! Actions to be followed, and the metrics.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;

use super::super::actions::{View, url};
use super::super::answer::{Refusal, json};
use super::super::call::Call;
use super::super::health::{self, Vitals};
use super::super::shared::Shared;
use super::is_id;
use crate::record::{Outcome, RunRecord, Store};
use crate::report::json::line;
use crate::run::outcome_now;
use crate::workflow::Failure;

/// The newest runs among which an action is looked for that the service does not remember.
const NEWEST: usize = 1000;
/// Actions of earlier processes that are listed.
const MOST: usize = 200;

/// Lists the actions that the service remembers, and those of earlier processes that began a run, the newest first.
#[utoipa::path(get, path = "/api/v1/actions", tag = "actions", responses(
    (status = 200, description = "The actions.", body = Vec<super::objects::ActionObject>),
    (status = "default", response = super::objects::Refused),
))]
pub(super) async fn actions(call: Call) -> Result<Response, Refusal> {
    let shared = &call.shared;
    let remembered = shared.actions.all();
    let views = remembered.iter();
    let views = views.map(|entry| entry.view(|view| line(view).unwrap_or_default()));
    let mut all: Vec<String> = views.collect();
    let known: BTreeSet<Arc<str>> = remembered
        .iter()
        .map(|entry| entry.order.requested.id.clone())
        .collect();
    let asking = shared.clone();
    let earlier = move || recorded(&asking, MOST, &|id| !known.contains(id));
    all.extend(shared.ask(earlier).await?.map_err(unreadable)?);
    Ok(json(StatusCode::OK, format!("[{}]\n", all.join(","))))
}

fn unreadable(failure: Failure) -> Refusal {
    log::warn!("the records were not read: {failure}");
    Refusal::unavailable("the records cannot be read now")
}

/// Tells how far an action is; also after a restart, where it began a run.
#[utoipa::path(get, path = "/api/v1/actions/{id}", tag = "actions",
    params(("id" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "The action.", body = super::objects::ActionObject),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn action(call: Call) -> Result<Response, Refusal> {
    let (shared, id) = (&call.shared, call.named("id"));
    let unknown = || Refusal::not_found("there is no such action");
    if !is_id(id) {
        return Err(unknown());
    }
    if let Some(entry) = shared.actions.find(id) {
        let body = entry.view(|view| line(view).unwrap_or_default());
        return Ok(json(StatusCode::OK, body + "\n"));
    }
    let (asking, id) = (shared.clone(), id.to_owned());
    let found = shared.ask(move || recorded(&asking, 1, &|known| *known == *id));
    match found.await?.map_err(unreadable)?.pop() {
        Some(body) => Ok(json(StatusCode::OK, body + "\n")),
        None => Err(unknown()),
    }
}

/// Actions that earlier processes of the service began, at most so many, as the records have their runs; the newest first.
fn recorded(
    shared: &Shared,
    most: usize,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, Failure> {
    shared.follow(true);
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    let store = Store::open(&repository, &checkout.location.site)?;
    let state = store.read()?;
    let unfinished = shared.unfinished(&checkout)?;
    let mut found = Vec::new();
    for run in store.runs(&state)?.iter().rev().take(NEWEST) {
        let Some(record) = store.run(&state, run)? else {
            continue;
        };
        let request = record.requested.as_deref();
        if request.is_some_and(|request| is_wanted(&request.id)) {
            found.push(of_record(
                &record,
                outcome_now(&record, unfinished.as_ref()),
            ));
        }
        if found.len() == most {
            break;
        }
    }
    Ok(found)
}

fn of_record(record: &RunRecord, outcome: Outcome) -> String {
    let Some(request) = record.requested.as_deref() else {
        return String::new();
    };
    let view = View {
        id: &request.id,
        url: url(&request.id),
        action: &record.action,
        node: None,
        plan: None,
        state: match outcome {
            Outcome::Succeeded => "succeeded",
            Outcome::Running => "running",
            Outcome::Interrupted => "interrupted",
            _ => "failed",
        },
        subject: &request.subject,
        authenticated_by: &request.by,
        context_marker: request.marker.as_deref(),
        accepted: &record.started,
        run: Some(record.run.as_str()),
        ended: record.ended.as_deref(),
        status: None,
    };
    line(&view).unwrap_or_default()
}

pub(super) async fn metrics(call: Call) -> Result<Response, Refusal> {
    let text = call.ask(|shared| Ok(Vitals::metrics(&**shared)));
    text.await.map(health::text)
}
