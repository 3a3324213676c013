//! Explanations of what stands in a plan that is kept, or in a run, as `trueup explain` prints them.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;

use super::plan_folder::plan_folder;
use super::runs::{seconds, with_records};
use super::{admit, head, is_id, part, refused};
use crate::design::{NodeName, RunId};
use crate::plan::{ExplanationBasis, Plan};
use crate::report::explain::write_thing_json;
use crate::serve::answer::{Refusal, json};
use crate::serve::listen::Peer;
use crate::serve::policy::Operation;
use crate::serve::shared::Shared;
use crate::workflow::{ExplainedRun, Failure, Known, Thing, explain};

/// The parameter that names the thing.
const OF: &str = "of";

/// Explains a node, a step or a group of a plan: what becomes of it, the smallest causes, and the ways out.
#[utoipa::path(get, path = "/api/v1/plans/{id}/explanation", tag = "plans",
    params(("id" = String, Path, description = "The id of the plan."),
           ("of" = String, Query, description = "A node, a step (`deploy/GROUP/NODE`) or `group:NAME`.")),
    responses(
        (status = 200, description = "The explanation, as `trueup explain --format json` prints it.", body = super::objects::ExplanationObject),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn of_plan(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, query) = admit(&shared, &peer, head(&request), Operation::ReadPlan, &[OF]).await?;
    let id = part(request.uri().path(), "/api/v1/plans/").to_owned();
    let Some(word) = query.text(OF).map(str::to_owned) else {
        return Err(Refusal::bad_request(
            "`of` names the node, step or group that is explained",
        ));
    };
    let asking = shared.clone();
    let text = shared
        .ask(move || text_of_plan(&asking, &id, &word))
        .await?;
    text.map(|text| json(StatusCode::OK, text))
        .map_err(|failure| refused(&failure))
}

fn text_of_plan(shared: &Shared, id: &str, word: &str) -> Result<String, Failure> {
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    let plan = plan_folder(&checkout)?.read(id)?;
    let basis = ExplanationBasis::File {
        path: Arc::from(format!("/api/v1/plans/{id}")),
    };
    let thing = thing(&plan, word)?;
    text(&plan, basis, &thing, Known::default())
}

/// Explains a run, or a node, a step or a group of it: why it waits, was skipped or failed, and the ways out.
#[utoipa::path(get, path = "/api/v1/runs/{id}/explanation", tag = "runs",
    params(("id" = String, Path, description = "The id of the run."),
           ("of" = Option<String>, Query, description = "A node, a step (`deploy/GROUP/NODE`) or `group:NAME`; the run as a whole by default.")),
    responses(
        (status = 200, description = "The explanation, as `trueup explain --format json` prints it.", body = super::objects::ExplanationObject),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn of_run(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, query) = admit(&shared, &peer, head(&request), Operation::ReadRun, &[OF]).await?;
    let id = part(request.uri().path(), "/api/v1/runs/");
    if !is_id(id) {
        return Err(Refusal::not_found("there is no such run"));
    }
    let run = RunId::from(id);
    let word = query.text(OF).map(str::to_owned);
    let asking = shared.clone();
    let text = shared
        .ask(move || text_of_run(&asking, &run, word.as_deref()))
        .await?;
    text.map(|text| json(StatusCode::OK, text))
        .map_err(|failure| refused(&failure))
}

fn text_of_run(shared: &Shared, run: &RunId, word: Option<&str>) -> Result<String, Failure> {
    with_records(shared, |checkout, store, records| {
        let site = checkout.site_here()?;
        let unfinished = shared.unfinished(checkout)?;
        let ExplainedRun { plan, basis, known } = ExplainedRun::read(
            (checkout, &site),
            (store, records),
            run,
            unfinished.as_ref(),
            seconds(&shared.now()),
        )?;
        let thing = match word {
            Some(word) => thing(&plan, word)?,
            None => Thing::Run,
        };
        text(&plan, basis, &thing, known)
    })
}

fn thing(plan: &Plan, word: &str) -> Result<Thing, Failure> {
    Thing::named(word, plan, &|_| false).ok_or_else(|| {
        let known = plan.changes.iter().map(|change| &change.node);
        let known = known.chain(plan.groups.iter().flat_map(|group| &group.nodes));
        Thing::unknown(word, known.map(NodeName::as_str))
    })
}

fn text(
    plan: &Plan,
    basis: ExplanationBasis,
    thing: &Thing,
    known: Known<'_>,
) -> Result<String, Failure> {
    let explained = explain(plan, basis, thing, known);
    let explanation = explained.map_err(|error| Failure::error(error.to_string()))?;
    let mut out = String::new();
    write_thing_json(&mut out, &explanation)?;
    Ok(out)
}
