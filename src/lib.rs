//! trueup brings a bare-metal site true to its design.
//!
//! The modules, in the order in which data flows:
//!
//! - [`threads`]: work on several threads.
//! - [`diagnostic`]: problems in documents, and the texts they point into.
//! - [`telemetry`]: OpenTelemetry: spans, and their way to a collector.
//! - [`cache`]: recomputable data, in files.
//! - [`repository`]: git, bytes only: trees, refs by compare-and-swap, tags, the lock, the remote.
//! - [`document`]: YAML to documents with identity and provenance.
//! - [`render`]: layering, substitution and replacement.
//! - [`lifecycle`]: the node's states and verbs, as tables.
//! - [`remediation`]: how a failed machine is brought back, as a table.
//! - [`identity`]: the identity of a machine.
//! - [`design`]: the typed site, and the rules that check it.
//! - [`site`]: the only loader: a site at one revision, through all stages.
//! - [`observed`]: the observed state of machines and clusters.
//! - [`record`]: the record of each node, and its last run.
//! - [`step`]: the kinds of step.
//! - [`diff`]: the differences between two revisions, and why a node changes.
//! - [`guard`]: guards that keep a site alive while it changes.
//! - [`reservation`]: the machines that persons work on.
//! - [`plan`]: the plan: changes, steps, and their order.
//! - [`backend`]: drivers of machines and clusters.
//! - [`forge`]: comments and issues on a forge.
//! - [`journal`]: the intentions of a run and their results.
//! - [`run`]: a run's life in the repository, from the lock to the tag.
//! - [`apply`]: carries a plan out.
//! - [`workflow`]: the functions from documents to a finished run, for all callers.
//! - [`report`]: output for people and programs.
//! - [`serve`]: the HTTP service.
//! - [`cli`]: the command line.

pub mod adopt;
pub mod apply;
pub mod backend;
pub mod cache;
pub mod check;
pub mod cli;
pub mod design;
pub mod diagnostic;
pub mod diff;
pub mod document;
pub mod forge;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod guard;
pub mod identity;
pub mod journal;
pub mod lifecycle;
pub mod observed;
pub mod plan;
pub mod record;
pub mod rego;
pub mod remediation;
pub mod render;
pub mod report;
pub mod repository;
pub mod reservation;
pub mod rollout;
pub mod run;
pub mod serve;
pub mod site;
#[cfg(test)]
#[path = "../tests/it/skipped.rs"]
mod skipped;
pub mod step;
pub mod telemetry;
pub mod threads;
pub mod workflow;

/// The program and its version, as each of its requests to machines, clusters, forges and collectors names them
/// (`User-Agent`).
pub const USER_AGENT: &str = concat!("trueup/", env!("CARGO_PKG_VERSION"));
