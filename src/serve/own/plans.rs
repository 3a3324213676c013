//! Plans: made, listed, read as JSON, Markdown or HTML, and applied by the digest of their effect.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};

use super::order::{Asked, object};
use super::plan_folder::plan_folder;
use super::view::{ApplyOrder, PlanView};
use crate::plan::{Plan, PlanEffect, effect, saved};
use crate::report;
use crate::report::json::{Escaped, line};
use crate::run::unfinished_run;
use crate::serve::actions::{Order, PlanTask, Task};
use crate::serve::answer::{Refusal, json, of_status};
use crate::serve::call::Call;
use crate::serve::form::{Form, of_text};
use crate::serve::promenade::begin;
use crate::serve::shared::Shared;
use crate::serve::subject::Subject;
use crate::workflow::{Acting, Failure, FailureKind, Planner};

/// Lists the plans that are kept, the newest first.
#[utoipa::path(get, path = "/api/v1/plans", tag = "plans", responses(
    (status = 200, description = "The plans.", body = Vec<PlanView>),
    (status = "default", response = super::objects::Refused),
))]
pub(super) async fn plans(call: Call) -> Result<Response, Refusal> {
    let views = call.ask(|shared| views(shared)).await?;
    Ok(json(
        StatusCode::OK,
        line(&views).unwrap_or_default() + "\n",
    ))
}

/// The plans that are kept.
pub(in crate::serve) fn views(shared: &Shared) -> Result<Vec<PlanView>, Failure> {
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    plan_folder(&checkout)?.views()
}

/// Makes a plan, as `trueup plan` does, and keeps it. Nothing is changed.
#[utoipa::path(post, path = "/api/v1/plans", tag = "plans",
    request_body(content = super::view::PlanOrder, description = "Absent: an update of the whole site."),
    responses(
        (status = 201, description = "The plan was made.", body = PlanView,
         headers(("Location" = String, description = "Its address."))),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn create(mut call: Call) -> Result<Response, Refusal> {
    let asked = Asked::of_body(&call.json_body().await?)?;
    let (asking, subject) = (call.shared.clone(), call.subject.clone());
    let made = call.shared;
    let made = made.ask_for_plan(move || make(&asking, &asked, &subject));
    let view = made.await??;
    let mut response = json(StatusCode::CREATED, line(&view).unwrap_or_default() + "\n");
    if let Ok(location) = HeaderValue::from_str(&view.url) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

fn make(shared: &Shared, asked: &Asked, subject: &Subject) -> Result<PlanView, Failure> {
    let host = &*shared.host;
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let site = checkout.location.site.as_str();
    if asked.site().is_some_and(|named| named != site) {
        let text = format!("the service plans site `{site}` alone");
        return Err(Failure::new(FailureKind::NotFound, text));
    }
    let connection = host.connection(&repository)?;
    let at = asked.design.resolve(host, &checkout, &connection)?;
    let planner = Planner {
        client: &Acting::of(host.client(), &subject.principals),
        checkout: &checkout,
        at,
        connection: &connection,
        request: &asked.request,
        plan_request: &asked.plan_request(host),
    };
    let mut plan = planner.plan()?.into_plan();
    plan.unfinished = unfinished_run(&checkout.site(connection.clone())?)?;
    let view = view(&plan, shared.new_id(), &shared.now(), &subject.name);
    plan_folder(&checkout)?.keep(&plan, &view, &subject.principals)?;
    Ok(view)
}

fn view(plan: &Plan, id: String, created: &str, subject: &str) -> PlanView {
    let changes = plan.summary.changes.iter();
    let word = |kind| serde_json::to_value(kind).ok()?.as_str().map(str::to_owned);
    PlanView {
        url: format!("/api/v1/plans/{id}"),
        id,
        site: plan.site.to_string(),
        action: plan.request.action.to_string(),
        nodes: plan.request.nodes.iter().map(ToString::to_string).collect(),
        revision: plan.target.revision.as_deref().map(str::to_owned),
        effect: PlanEffect::of(plan).digest().to_string(),
        is_blocked: plan.is_refused(),
        is_empty: plan.is_empty(),
        changes: changes
            .filter_map(|(kind, count)| Some((word(kind)?, *count)))
            .collect(),
        wiped_disks: plan.summary.wiped_disks,
        seconds: plan.forecast.time.map(|time| time.median),
        created: created.to_owned(),
        created_by: subject.to_owned(),
    }
}

/// Reads a plan: as it is saved, or as Markdown or HTML, by an ending of the address (`.json`, `.md`, `.html`) or by
/// `Accept`.
#[utoipa::path(get, path = "/api/v1/plans/{id}", tag = "plans",
    params(("id" = String, Path, description = "Its id, with or without an ending.")),
    responses(
        (status = 200, description = "The plan, as `trueup plan` saves and prints it.", content(
            (serde_json::Value = "application/json"), (String = "text/markdown"), (String = "text/html"))),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn plan(call: Call) -> Result<Response, Refusal> {
    let (id, form) = Form::of(call.named("id"), call.headers())?;
    let id = id.to_owned();
    let text = call.ask(move |shared| text(shared, &id, form)).await;
    text.map(|text| of_text(form, text))
}

fn text(shared: &Shared, id: &str, form: Form) -> Result<String, Failure> {
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    let plan = plan_folder(&checkout)?.read(id)?;
    plan_text(&plan, form)
}

/// A plan in a form.
fn plan_text(plan: &Plan, form: Form) -> Result<String, Failure> {
    let mut out = String::new();
    match form {
        Form::Json => {
            let mut bytes = Vec::new();
            saved::write_to(plan, &mut Escaped::new(&mut bytes))?;
            out = String::from_utf8(bytes).map_err(|_| Failure::error("the plan is no text"))?;
        }
        Form::Markdown => {
            let digest = saved::digest(plan);
            let comment = report::plan::Comment {
                digest: Some(&digest),
                ..Default::default()
            };
            report::plan::markdown(&mut out, plan, &comment)?;
        }
        Form::Html => report::plan::html(&mut out, plan, None)?,
    }
    Ok(out)
}

/// Applies a plan, as `trueup apply PLAN --effect DIGEST` does: it is made again, and carried out if it does nothing
/// that the kept one does not show. Answered once the run has begun; the run continues if its caller does not wait.
#[utoipa::path(post, path = "/api/v1/plans/{id}/apply", tag = "plans",
    params(("id" = String, Path, description = "The id of the plan.")),
    request_body = ApplyOrder,
    responses(
        (status = 200, description = "There was nothing to do.", body = super::objects::StatusObject),
        (status = 202, description = "The run has begun.", body = super::objects::ActionObject,
         headers(("Location" = String, description = "The address of the run."))),
        (status = 409, description = "The effect is another one, a guard refuses the plan, or something else holds the site, \
         which the message names.", body = super::objects::StatusObject),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn apply(mut call: Call) -> Result<Response, Refusal> {
    let id = call.named("id").to_owned();
    let body = call.json_body().await?;
    let approved: ApplyOrder = object(&body, "the approval of an effect")?;
    let wanted = id.clone();
    let view = call.ask(move |shared| about(shared, &wanted)).await?;
    pinned(&approved.effect, &view)?;
    let action = crate::plan::Action::named(&view.action).unwrap_or_default();
    let order = Order {
        action,
        task: Task::Plan(PlanTask {
            id: Arc::from(id),
            effect: Arc::from(approved.effect),
        }),
        principals: call.subject.principals.clone(),
        permit: call.permit.clone(),
        requested: call.requested()?,
        accepted: call.shared.now(),
    };
    let entry = begin(&call.shared, order)?;
    let progress = entry.begun().await;
    if let (None, Some((status, _))) = (&progress.run, &progress.ended) {
        return Ok(of_status(status));
    }
    let body = entry.view(|view| line(view).unwrap_or_default());
    let mut response = json(StatusCode::ACCEPTED, body + "\n");
    let location = progress.run.map(|run| format!("/api/v1/runs/{run}"));
    if let Some(Ok(location)) = location.map(|url| HeaderValue::from_str(&url)) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

fn about(shared: &Shared, id: &str) -> Result<PlanView, Failure> {
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    plan_folder(&checkout)?.view(id)
}

/// Refuses the approval of another effect before anything is begun; the effect of the plan itself is compared later.
fn pinned(given: &str, view: &PlanView) -> Result<(), Refusal> {
    match effect::is_pinned(given, &crate::design::Digest::from(view.effect.as_str())) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refusal::conflict(format!(
            "plan {} has the effect {}, and another one was approved",
            view.id, view.effect
        ))),
        Err(_) => Err(Refusal::bad_request(
            "`effect` is the digest of the plan's effect, or at least its first 16 digits",
        )),
    }
}
