//! Runs: listed, read as JSON, Markdown or HTML, and followed by their events.

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::feed::Feed;
use super::is_id;
use super::view::{RequestView, RunProgress, RunView};
use crate::design::RunId;
use crate::record::{Outcome, RunRecord, State as Records, Store};
use crate::report::json::line;
use crate::report::plan::{RunPage, html};
use crate::report::run::{RunRow, report_markdown, show_json};
use crate::report::ways_out;
use crate::run::{RunEvent, WaysOut, outcome_now};
use crate::serve::answer::{Refusal, json};
use crate::serve::call::Call;
use crate::serve::form::{Form, of_text};
use crate::serve::shared::Shared;
use crate::workflow::{
    Checkout, ExplainedRun, Failure, FailureKind, plan_of_run, record_now, report_now, signature_of,
};

/// The most runs that are listed.
const MOST: usize = 1000;

/// How often the records of a run are read that another process carries out.
const PACE: Duration = Duration::from_secs(2);

/// The header by which a listener names the last event that it heard.
const LAST: &str = "last-event-id";

/// Lists runs, the newest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 1000,
            description = "The most runs, up to 1000; 50 by default.")),
    responses(
        (status = 200, description = "The runs.", body = Vec<RunView>),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn runs(call: Call) -> Result<Response, Refusal> {
    let limit = call.query.text("limit").unwrap_or("50").parse();
    let Some(limit) = limit.ok().filter(|limit| (1..=MOST).contains(limit)) else {
        let text = format!("`limit` must be a number from 1 to {MOST}");
        return Err(Refusal::bad_request(text));
    };
    let runs = call.ask(move |shared| recorded_runs(shared, limit));
    let runs = runs.await?;
    Ok(json(StatusCode::OK, line(&runs).unwrap_or_default() + "\n"))
}

/// The newest runs, as they are recorded.
pub(in crate::serve) fn recorded_runs(
    shared: &Shared,
    limit: usize,
) -> Result<Vec<RunView>, Failure> {
    with_records(shared, |checkout, store, records| {
        let mut ids = store.runs(records)?;
        ids.sort_unstable();
        let unfinished = shared.unfinished(checkout)?;
        let mut runs = Vec::new();
        for id in ids.iter().rev().take(limit) {
            if let Some(mut record) = store.run(records, id)? {
                let site = checkout.site_here()?;
                record_now(&site, (store, records), &mut record, unfinished.as_ref())?;
                runs.push(view(&record));
            }
        }
        Ok(runs)
    })
}

/// A run, as it is recorded.
pub(in crate::serve) fn recorded_run(shared: &Shared, run: &RunId) -> Result<RunView, Failure> {
    with_records(shared, |checkout, store, records| {
        let mut record = record(store, records, run)?;
        let (site, unfinished) = (checkout.site_here()?, shared.unfinished(checkout)?);
        record_now(&site, (store, records), &mut record, unfinished.as_ref())?;
        Ok(view(&record))
    })
}

pub(super) fn with_records<T>(
    shared: &Shared,
    read: impl FnOnce(&Checkout<'_>, &Store<'_>, &Records) -> Result<T, Failure>,
) -> Result<T, Failure> {
    shared.follow(true);
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    let store = Store::open(&repository, &checkout.location.site)?;
    let records = store.read()?;
    read(&checkout, &store, &records)
}

fn record(store: &Store<'_>, records: &Records, run: &RunId) -> Result<RunRecord, Failure> {
    store.run(records, run)?.ok_or_else(|| {
        let text = format!("there is no run `{run}`");
        Failure::new(FailureKind::NotFound, text)
    })
}

fn view(record: &RunRecord) -> RunView {
    let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
    RunView {
        id: record.run.to_string(),
        url: format!("/api/v1/runs/{}", record.run),
        site: record.site.to_string(),
        action: record.action.to_string(),
        revision: record.revision.to_string(),
        outcome: record.outcome.to_string(),
        is_partial: record.partial,
        started: record.started.to_string(),
        ended: text(&record.ended),
        actor: text(&record.actor),
        requested: record.requested.as_deref().map(|request| RequestView {
            subject: request.subject.to_string(),
            by: request.by.to_string(),
            id: request.id.to_string(),
            marker: text(&request.marker),
        }),
        tag: text(&record.tag),
        succeeded: record.counts.succeeded,
        failed: record.counts.failed,
        half_done: record.counts.half_done,
        not_started: record.counts.not_started,
    }
}

/// Reads a run: its record and its report, as `trueup show` prints them, or the report as Markdown or HTML, by an ending
/// of the address (`.json`, `.md`, `.html`) or by `Accept`.
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "Its id, with or without an ending.")),
    responses(
        (status = 200, description = "The run.", content(
            (super::objects::RunDetail = "application/json"), (String = "text/markdown"), (String = "text/html"))),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn run(call: Call) -> Result<Response, Refusal> {
    let (id, form) = Form::of(call.named("id"), call.headers())?;
    let run = named_run(id)?;
    let text = call.ask(move |shared| run_text(shared, &run, form)).await;
    text.map(|text| of_text(form, text))
}

fn run_text(shared: &Shared, run: &RunId, form: Form) -> Result<String, Failure> {
    with_records(shared, |checkout, store, records| {
        let mut record = record(store, records, run)?;
        let here = checkout.site_here()?;
        let unfinished = shared.unfinished(checkout)?;
        let report = report_now(&here, (store, records), &mut record, unfinished.as_ref())?;
        let signature = signature_of(checkout, store, records, run)?;
        let row = RunRow { record, signature };
        let mut out = String::new();
        match (form, &report) {
            (Form::Json, report) => show_json(&mut out, &row, report.as_ref())?,
            (Form::Markdown, Some(report)) => report_markdown(&mut out, report)?,
            (Form::Markdown, None) => {
                let text = format!("run {run} has no report yet");
                return Err(Failure::new(FailureKind::NotFound, text));
            }
            (Form::Html, report) => {
                let now = seconds(&shared.now());
                let (plan, explanation) =
                    ExplainedRun::whole(checkout, &here, (store, records), run, now)?;
                let page = RunPage {
                    ways_out: &ways_out(
                        run,
                        WaysOut::of_unfinished(&here, run, unfinished.as_ref()),
                    ),
                    explanation: explanation.as_ref(),
                    record: &row.record,
                    signature: row.signature.as_ref(),
                    report: report.as_ref(),
                };
                html(&mut out, &plan, Some(page))?;
            }
        }
        Ok(out)
    })
}

/// A time in seconds since 1970.
pub(super) fn seconds(time: &str) -> i64 {
    let time = time.parse::<jiff::Timestamp>();
    time.map_or(0, jiff::Timestamp::as_second)
}

pub(in crate::serve) fn named_run(id: &str) -> Result<RunId, Refusal> {
    match is_id(id) {
        true => Ok(RunId::from(id)),
        false => Err(Refusal::not_found("there is no such run")),
    }
}

/// Tells how far a run is: its groups, the nodes in work and those that failed, and the expected time to its end.
#[utoipa::path(get, path = "/api/v1/runs/{id}/progress", tag = "runs",
    params(("id" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "How far it is.", body = RunProgress),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn progress(call: Call) -> Result<Response, Refusal> {
    let run = named_run(call.named("id"))?;
    let feed = follow(&call.shared, &run).await?;
    let body = line(&feed.progress()).unwrap_or_default();
    Ok(json(StatusCode::OK, body + "\n"))
}

/// Streams the events of a run (`text/event-stream`), those of the past first. Each is a JSON object as `trueup apply
/// --format json` prints it, with its line as `text`; recorded ones have an id, and `Last-Event-ID` resumes behind it. An
/// event `end` closes the run; without it, the stream is to be opened again.
#[utoipa::path(get, path = "/api/v1/runs/{id}/events", tag = "runs",
    params(
        ("id" = String, Path, description = "The id of the run."),
        ("after" = Option<u64>, Query, description = "As `Last-Event-ID`, which counts before it."),
        ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event that was heard."),
    ),
    responses(
        (status = 200, description = "The events.", content_type = "text/event-stream", body = String),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn events(call: Call) -> Result<Response, Refusal> {
    let run = named_run(call.named("id"))?;
    let header = call.headers().get(LAST).map(|value| value.to_str());
    let after = match (header, call.query.text("after")) {
        (Some(Ok(text)), _) => text.parse().ok(),
        (Some(Err(_)), _) => None,
        (None, Some(text)) => text.parse().ok(),
        (None, None) => Some(0),
    };
    let Some(after) = after else {
        let text = "`Last-Event-ID` and `after` are ids of events, which are numbers";
        return Err(Refusal::bad_request(text));
    };
    let feed = follow(&call.shared, &run).await?;
    let body = call.shared.feeds.stream(feed, after)?;
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// The feed of a run.
pub(in crate::serve) async fn follow(
    shared: &Arc<Shared>,
    run: &RunId,
) -> Result<Arc<Feed>, Refusal> {
    if let Some(feed) = shared.feeds.find(run) {
        return Ok(feed);
    }
    let (asking, wanted) = (shared.clone(), run.clone());
    let feed = shared.ask(move || load(&asking, &wanted)).await??;
    // It may have begun here meanwhile.
    if let Some(feed) = shared.feeds.find(run) {
        return Ok(feed);
    }
    let (feed, is_new) = shared.feeds.keep(feed);
    if is_new && !feed.is_over() {
        tokio::spawn(keep_up(shared.clone(), Arc::downgrade(&feed)));
    }
    Ok(feed)
}

/// The feed of a run by the records.
fn load(shared: &Shared, run: &RunId) -> Result<Feed, Failure> {
    let feed = with_records(shared, |_, store, records| {
        record(store, records, run)?;
        Ok(Feed::new(run, &plan_of_run(store, records, run)?))
    })?;
    catch_up(shared, &feed)?;
    Ok(feed)
}

/// Reads what the records of a run have got since.
fn catch_up(shared: &Shared, feed: &Feed) -> Result<(), Failure> {
    with_records(shared, |checkout, store, records| {
        let (tip, known) = feed.read();
        let record = record(store, records, feed.run())?;
        if tip != records.tip {
            let bytes = store.events(records, feed.run())?;
            let text = String::from_utf8_lossy(&bytes);
            let mut lines = 0;
            for line in text.lines() {
                lines += 1;
                // The first line of each part names the journal that it comes from, and is no event.
                if lines > known
                    && let Ok(event) = serde_json::from_str::<RunEvent>(line)
                {
                    feed.on_event(&event);
                }
            }
            feed.has_read(records.tip, lines);
        }
        match outcome_now(&record, shared.unfinished(checkout)?.as_ref()) {
            Outcome::Running => {}
            outcome => feed.end(Some(outcome)),
        }
        Ok(())
    })
}

/// Follows the records of a run as long as it has listeners.
async fn keep_up(shared: Arc<Shared>, feed: Weak<Feed>) {
    let mut closing = shared.feeds.closing();
    loop {
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            _ = closing.changed() => return,
        }
        let Some(feed) = feed.upgrade() else { return };
        let (asking, caught) = (shared.clone(), feed.clone());
        let read = shared.ask(move || catch_up(&asking, &caught)).await;
        if let Ok(Err(failure)) = &read {
            log::warn!("the events of run {} were not read: {failure}", feed.run());
        }
        if feed.is_over() {
            return;
        }
    }
}
