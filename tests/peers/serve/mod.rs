//! `trueup serve` before real counterparts.

#[path = "../../it/serve/client.rs"]
#[expect(
    dead_code,
    reason = "signals and headers are for the tests on simulated sites"
)]
pub(crate) mod client;
mod generated;
pub(crate) mod keystone;
mod manifests;
mod nodes;
mod page;
