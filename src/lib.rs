//! trueup brings a bare-metal site true to its design.
//!
//! The rooms of the house, in the order in which data flows:
//!
//! - [`diagnostic`]: problems in documents, and the texts they point into.
//! - [`cache`]: what can be computed again, in files.
//! - [`repository`]: git, bytes only: trees, refs by compare-and-swap, tags, the lock, the remote.
//! - [`document`]: YAML to documents with identity and provenance.
//! - [`render`]: layering, substitution and replacement.
//! - [`lifecycle`]: the node's states and verbs, as tables.
//! - [`remediation`]: how a failed machine is brought back, as a table.
//! - [`identity`]: what distinguishes one machine from all others.
//! - [`design`]: the typed site, and the rules that check it.
//! - [`site`]: the only loader: a site at one revision, through all stages.
//! - [`observed`]: what machines and clusters were seen to be.
//! - [`record`]: what was done to each node, and by which run.
//! - [`step`]: the kinds of step.
//! - [`diff`]: what differs between two revisions, and why a node changes.
//! - [`guard`]: what keeps a site alive while it changes.
//! - [`plan`]: the whole way, as a value.
//! - [`backend`]: who talks to machines and clusters.
//! - [`journal`]: what a run meant to do and what came of it.
//! - [`run`]: a run's life in the repository, from the lock to the tag.
//! - [`apply`]: carries a plan out.
//! - [`workflow`]: the way from documents to a plan, for whoever calls.
//! - [`report`]: what people and programs read.
//! - [`cli`]: the command line.

pub mod apply;
pub mod backend;
pub mod cache;
pub mod cli;
pub mod design;
pub mod diagnostic;
pub mod diff;
pub mod document;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod guard;
pub mod identity;
pub mod journal;
pub mod lifecycle;
pub mod observed;
pub mod plan;
pub mod record;
pub mod remediation;
pub mod render;
pub mod report;
pub mod repository;
pub mod run;
pub mod site;
#[cfg(test)]
#[path = "../tests/it/skipped.rs"]
mod skipped;
pub mod step;
pub mod workflow;
