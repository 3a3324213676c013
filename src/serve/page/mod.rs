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

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};

use super::answer::Refusal;
use super::form::{Form, of_text};
use super::listen::Peer;
use super::own::{self, admit, current, follow, head, is_id, refused};
use super::policy::Operation;
use super::shared::Shared;
use crate::design::RunId;
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
    Router::new()
        .route("/", get(home))
        .route("/nodes", get(nodes))
        .route("/runs/{id}", get(run))
}

fn written(
    title: &str,
    body: impl FnOnce(&mut dyn Write) -> fmt::Result,
) -> Result<Response, Refusal> {
    let mut out = String::new();
    page(&mut out, LOOK, title, body).map_err(|_| Refusal::internal())?;
    Ok(of_text(Form::Html, out))
}

async fn home(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    admit(&shared, &peer, head(&request), Operation::ReadSite, &[]).await?;
    let site = current(&shared).await;
    let asking = shared.clone();
    let lists = shared.ask(move || home::Lists::read(&asking, RUNS)).await?;
    let lists = lists.map_err(|failure| refused(&failure))?;
    // A site whose documents have errors still has runs and plans.
    let site = match site {
        Ok(site) => Ok(site),
        Err(refusal) => Err(refusal.into_status().message),
    };
    let title = format!("Site {}", lists.site);
    written(&title, |out| home::write(out, &site, &lists))
}

async fn nodes(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    let head = head(&request);
    let (_, query) = admit(
        &shared,
        &peer,
        head,
        Operation::ReadSite,
        &nodes::PARAMETERS,
    )
    .await?;
    let wanted = nodes::Wanted::of(&query)?;
    let site = current(&shared).await?;
    let title = format!("Nodes of site {}", site.status.site);
    written(&title, |out| nodes::write(out, &site, &wanted))
}

async fn run(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Refusal> {
    admit(&shared, &peer, head(&request), Operation::ReadRun, &[]).await?;
    let id = request.uri().path().rsplit('/').next().unwrap_or_default();
    if !is_id(id) {
        return Err(Refusal::not_found("there is no such run"));
    }
    let run = RunId::from(id);
    let feed = follow(&shared, &run).await?;
    let asking = shared.clone();
    let record = shared.ask(move || own::recorded_run(&asking, &run)).await?;
    let record = record.map_err(|failure| refused(&failure))?;
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
