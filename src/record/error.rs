//! Errors of the records.

use crate::design::{RunId, SiteName};
use crate::repository;

/// A failure to read or write the records of a site.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The repository failed.
    #[error("failed to {attempt}")]
    Repository {
        /// The attempt, as a verb phrase.
        attempt: &'static str,
        /// Why it failed.
        #[source]
        source: repository::Error,
    },
    /// A name that cannot be a part of a ref.
    #[error("`{name}` cannot be the name of a site or a run: it {problem}")]
    BadName {
        /// The name.
        name: String,
        /// The problem.
        problem: &'static str,
    },
    /// Two sites whose names differ in case only: on some disks they are one.
    #[error("site `{site}` and the recorded site `{other}` differ in case only")]
    SameIgnoringCase {
        /// The site that was asked for.
        site: SiteName,
        /// The site that has records.
        other: String,
    },
    /// Another process wrote records since these were read. Nothing was changed.
    #[error("the records of site `{site}` have moved{}", by.as_ref().map(|run| format!(": run {run} wrote them")).unwrap_or_default())]
    LostRace {
        /// The site.
        site: SiteName,
        /// The newest run by now.
        by: Option<RunId>,
    },
    /// The records were written by a newer trueup.
    #[error("the records of site `{site}` have format {found}, and this trueup knows {known}")]
    NewerFormat {
        /// The site.
        site: SiteName,
        /// The format of the records.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// A file of the records is not as trueup writes it.
    #[error("`{path}` in the records is broken: {reason}")]
    Broken {
        /// The path in the tree of the state.
        path: String,
        /// The problem.
        reason: String,
    },
}

impl Error {
    /// The way out, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Repository { source, .. } => source.hint(),
            Self::LostRace { .. } => Some(
                "nothing was lost: plan again, and the plan begins with the new records".to_owned(),
            ),
            Self::NewerFormat { .. } => Some("use the newer trueup".to_owned()),
            _ => None,
        }
    }
}

/// Turns a failure of the repository into an [`Error::Repository`].
pub(super) fn failed(attempt: &'static str) -> impl FnOnce(repository::Error) -> Error {
    move |source| Error::Repository { attempt, source }
}
