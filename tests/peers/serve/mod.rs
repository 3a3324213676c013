//! `trueup serve` before real counterparts.

#[path = "../../it/serve/client.rs"]
mod client;
mod keystone;
mod nodes;
