//! The page of the service: the site, its drift, nodes, plans and runs, and a run as it happens.
//!
//! It reads, and changes nothing. All of it is written by the service, so that it is read without scripts; the script
//! only keeps the page of a running run up to date. Plans, and runs that have ended, are the pages that `trueup plan` and
//! `trueup show` write.

mod home;
mod nodes;
mod run;
mod words;

use std::fmt::{self, Write};
use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;

use super::answer::Refusal;
use super::call::{Call, on};
use super::form::{Form, of_text};
use super::own::{self, current, follow, named_run};
use super::policy::Operation;
use super::shared::Shared;
use crate::report::{Look, page};

/// The most runs that are listed.
const RUNS: usize = 20;

const LOOK: Look = Look {
    style: include_str!("page.css"),
    script: include_str!("page.js"),
    connects: true,
};

/// The routes.
pub(super) fn routes() -> Router<Arc<Shared>> {
    let nodes = on(Operation::ReadSite, &nodes::PARAMETERS, nodes);
    Router::new()
        .route("/", get(on(Operation::ReadSite, &[], home)))
        .route("/nodes", get(nodes))
        .route("/runs/{id}", get(on(Operation::ReadRun, &[], run)))
}

fn written(
    title: &str,
    body: impl FnOnce(&mut dyn Write) -> fmt::Result,
) -> Result<Response, Refusal> {
    let mut out = String::new();
    page(&mut out, LOOK, title, body).map_err(|_| Refusal::internal())?;
    Ok(of_text(Form::Html, out))
}

async fn home(call: Call) -> Result<Response, Refusal> {
    let site = current(&call.shared).await;
    let lists = call.ask(|shared| home::Lists::read(shared, RUNS)).await?;
    // A site whose documents have errors still has runs and plans.
    let site = match site {
        Ok(site) => Ok(site),
        Err(refusal) => Err(refusal.into_status().message),
    };
    let title = format!("Site {}", lists.site);
    written(&title, |out| home::write(out, &site, &lists))
}

async fn nodes(call: Call) -> Result<Response, Refusal> {
    let wanted = nodes::Wanted::of(&call.query)?;
    let site = current(&call.shared).await?;
    let title = format!("Nodes of site {}", site.status.site);
    written(&title, |out| nodes::write(out, &site, &wanted))
}

async fn run(call: Call) -> Result<Response, Refusal> {
    let run = named_run(call.named("id"))?;
    let feed = follow(&call.shared, &run).await?;
    let record = call.ask(move |shared| own::recorded_run(shared, &run));
    let record = record.await?;
    let (lines, after) = feed.lines();
    let view = run::View {
        run: &record,
        progress: &feed.progress(),
        lines: &lines,
        after,
    };
    let title = format!("Run {} of site {}", record.id, record.site);
    written(&title, |out| run::write(out, &view))
}
