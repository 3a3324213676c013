//! `trueup serve` before real counterparts.

#[path = "../../it/serve/client.rs"]
#[expect(
    dead_code,
    reason = "signals and headers are for the tests on simulated sites"
)]
mod client;
mod generated;
mod keystone;
mod manifests;
mod nodes;
mod page;
