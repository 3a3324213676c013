//! `/healthz`, `/readyz` and `/metrics`, of the service and of a watcher alike.

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;

/// The state of a process as its supervisor and its monitoring ask for it.
pub trait Vitals: Send + Sync + 'static {
    /// Whether it works.
    ///
    /// # Errors
    ///
    /// Why not.
    fn alive(&self) -> Result<(), String>;

    /// Whether it takes work.
    ///
    /// # Errors
    ///
    /// Why not.
    fn ready(&self) -> Result<(), String>;

    /// Its metrics, in the text format of Prometheus.
    fn metrics(&self) -> String;
}

/// The paths of the two probes.
pub(super) const PROBES: [&str; 2] = [ALIVE, READY];

/// The path of the images for controllers, which prove themselves as little as a supervisor does.
pub(super) const IMAGES: &str = "/images/";

const ALIVE: &str = "/healthz";
const READY: &str = "/readyz";

/// The routes of a process whose state is no secret if it listens.
pub fn health(vitals: Arc<dyn Vitals>) -> Router {
    let metrics = vitals.clone();
    probes(vitals).route("/metrics", get(async move || text(metrics.metrics())))
}

/// The two probes alone.
pub(super) fn probes(vitals: Arc<dyn Vitals>) -> Router {
    let ready = vitals.clone();
    Router::new()
        .route(ALIVE, get(async move || state(vitals.alive())))
        .route(READY, get(async move || state(ready.ready())))
}

fn state(state: Result<(), String>) -> Response {
    match state {
        Ok(()) => plain(StatusCode::OK, "ok\n".to_owned()),
        Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
    }
}

fn plain(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
}

/// Metrics as an answer.
pub(super) fn text(metrics: String) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], metrics).into_response()
}
