//! OpenTelemetry: spans of commands, their phases, runs and requests, and their way to a collector.
//!
//! Without an [`Export`] nothing is recorded: each function here costs as much as a look at a variable of the thread, and
//! no thread is started. The environment is read by `cli` alone, which hands [`ExportSettings`] down; the exporter of the
//! library reads the endpoint, the headers, the sampler and the resource by the names that OpenTelemetry gives them.

mod collector;
mod export;
mod parent;
mod span;
mod tally;

pub use export::{Export, ExportError, ExportSettings};
pub use parent::parent;
pub use span::{Phase, Scope, clipped, in_phase, in_same_span, tracer};
pub use tally::{Losses, Notice};
