//! Explanations of what stands in a plan that is kept, or in a run, as `trueup explain` prints them.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;

use super::plan_folder::plan_folder;
use super::runs::{named_run, seconds, with_records};
use crate::design::{NodeName, RunId};
use crate::plan::{ExplanationBasis, Plan};
use crate::report::explain::write_thing_json;
use crate::serve::answer::{Refusal, json};
use crate::serve::call::Call;
use crate::serve::shared::Shared;
use crate::workflow::{ExplainedRun, Failure, Known, Thing, explain};

/// The parameter that names the thing.
pub(super) const OF: &str = "of";

/// Explains a node, a step or a group of a plan: what becomes of it, the smallest causes, and the ways out.
#[utoipa::path(get, path = "/api/v1/plans/{id}/explanation", tag = "plans",
    params(("id" = String, Path, description = "The id of the plan."),
           ("of" = String, Query, description = "A node, a step (`deploy/GROUP/NODE`) or `group:NAME`.")),
    responses(
        (status = 200, description = "The explanation, as `trueup explain --format json` prints it.", body = super::objects::ExplanationObject),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn of_plan(call: Call) -> Result<Response, Refusal> {
    let id = call.named("id").to_owned();
    let Some(word) = call.query.text(OF).map(str::to_owned) else {
        return Err(Refusal::bad_request(
            "`of` names the node, step or group that is explained",
        ));
    };
    let text = call.ask(move |shared| text_of_plan(shared, &id, &word));
    text.await.map(|text| json(StatusCode::OK, text))
}

fn text_of_plan(shared: &Shared, id: &str, word: &str) -> Result<String, Failure> {
    let repository = shared.host.repository()?;
    let checkout = shared.host.checkout(&repository)?;
    let plan = plan_folder(&checkout)?.read(id)?;
    let basis = ExplanationBasis::ServicePlan {
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
pub(super) async fn of_run(call: Call) -> Result<Response, Refusal> {
    let run = named_run(call.named("id"))?;
    let word = call.query.text(OF).map(str::to_owned);
    let text = call.ask(move |shared| text_of_run(shared, &run, word.as_deref()));
    text.await.map(|text| json(StatusCode::OK, text))
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
