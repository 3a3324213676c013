//! Why a workflow did not come to its end.

use crate::apply;
use crate::check::Finding;
use crate::design::RunId;
use crate::{record, run, site};

/// Why a workflow did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run could not begin, be resumed, be aborted, or end.
    #[error(transparent)]
    Run(#[from] run::Error),
    /// No maintenance window is open.
    #[error("no maintenance window is open now: {windows}{}", next_opening(opens.as_deref()))]
    WindowClosed {
        /// The windows of the site.
        windows: String,
        /// When the next one opens, if one does within a week.
        opens: Option<String>,
        /// Whether the policy lets a flag lift them.
        may_leave: bool,
        /// The command that opens others, if only those in force are closed.
        way_out: Option<String>,
    },
    /// The checker found something in the plan.
    #[error("the plan breaks rules that every plan keeps")]
    Unsound(Vec<Finding>),
    /// The steps of a run could not continue, though its machines could.
    #[error("the steps of run {run} could not continue")]
    Steps {
        /// The run.
        run: Box<RunId>,
        /// Why.
        source: apply::Error,
    },
    /// The records could not be read.
    #[error(transparent)]
    Records(#[from] record::Error),
    /// The documents of a commit could not be loaded.
    #[error(transparent)]
    Site(#[from] site::Error),
}

/// The words about the next window.
fn next_opening(opens: Option<&str>) -> String {
    match opens {
        Some(opens) => format!("; the next opens {opens}"),
        None => "; none opens within a week".to_owned(),
    }
}
