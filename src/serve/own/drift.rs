//! Drift: the nodes that a plan of the committed design would change.

use axum::response::Response;
use http::StatusCode;

use super::site::current;
use super::site_cache::{drifts, plan};
use super::view::DriftView;
use crate::report::json::line;
use crate::serve::answer::{Refusal, json};
use crate::serve::call::Call;
use crate::serve::policy::Operation;
use crate::serve::shared::Shared;
use crate::workflow::{Failure, Observed};

/// Tells which nodes differ from the committed design: by their records, or by an observation, which the role `operator`
/// may ask for.
#[utoipa::path(get, path = "/api/v1/drift", tag = "site",
    params(("observed" = Option<super::view::ObservedWord>, Query,
        description = "`none`, the default: by the records alone; `now`: machines and clusters are asked.")),
    responses(
        (status = 200, description = "The nodes that differ.", body = DriftView),
        (status = "default", response = super::objects::Refused),
    ))]
pub(super) async fn drift(call: Call) -> Result<Response, Refusal> {
    let view = match call.query.text("observed") {
        None | Some("none") => {
            let view = current(&call.shared).await?;
            DriftView {
                site: view.status.site.clone(),
                revision: view.status.revision.clone(),
                is_observed: false,
                nodes: view.drift.clone(),
            }
        }
        Some("now") => {
            // It changes nothing.
            let _ = call.subject.may(Operation::Observe)?;
            let asking = call.shared.clone();
            call.shared
                .ask_for_plan(move || observed(&asking))
                .await??
        }
        Some(_) => return Err(Refusal::bad_request("`observed` is `none` or `now`")),
    };
    Ok(json(StatusCode::OK, line(&view).unwrap_or_default() + "\n"))
}

fn observed(shared: &Shared) -> Result<DriftView, Failure> {
    let host = &*shared.host;
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let connection = host.connection(&repository)?;
    let planned = plan(host, &checkout, &connection, (Observed::Now, None))?;
    Ok(DriftView {
        site: checkout.location.site.to_string(),
        revision: checkout.head()?.to_string(),
        is_observed: true,
        nodes: drifts(&planned.plan),
    })
}
