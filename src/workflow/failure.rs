//! Why something that was asked for was not done.

use std::fmt;

use super::Error;
use crate::apply;
use crate::check::Finding;
use crate::diagnostic::{chain, without_code};
use crate::guard::WordError;
use crate::plan::Action;
use crate::run;
use crate::step::FailureReason;

/// The kinds of failure: callers tell them apart, a command line by its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Invalid documents, a backend that does not answer, a broken file.
    Error,
    /// The subject of an action was not found.
    NotFound,
    /// Refused by a guard: blocked change, protected node, intermediate commits, dirty worktree.
    Guard,
    /// The plan is stale.
    Stale,
    /// Another run holds the lock.
    Locked,
    /// The run ended with failed nodes or groups.
    Failed,
    /// Interrupted; it can be resumed.
    Interrupted,
    /// Done, and not published: the records, or the tag, are in this clone only.
    Unpublished,
    /// Wrong usage.
    Usage,
}

/// A failure as the user sees it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which exit code.
    pub kind: FailureKind,
    /// The message, one sentence; empty if it was shown already.
    pub message: String,
    /// The details, a line each.
    pub details: Vec<String>,
    /// The ways out.
    pub hints: Vec<String>,
}

impl Failure {
    /// A failure with a message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: without_code(message.into()),
            details: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// A failure of the kind that most are.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Error, message)
    }

    /// The message; of documents whose errors were shown already, if they are shown again.
    #[must_use]
    pub fn words(&self) -> &str {
        match self.message.as_str() {
            "" => "the documents of the site have errors; `trueup validate` shows them",
            message => message,
        }
    }

    /// A failure that was shown already: only the exit code is left.
    #[must_use]
    pub fn reported(kind: FailureKind) -> Self {
        Self::new(kind, "")
    }

    /// The refusal of a plan in which the checker found something.
    pub(super) fn unsound(findings: &[Finding]) -> Self {
        let text = "the plan breaks rules that every plan keeps, so nothing was done:";
        Self::new(FailureKind::Guard, text)
            .details(findings.iter().map(ToString::to_string))
            .hint(
                "an altered plan is made again by `trueup plan`; otherwise this is a bug of trueup: report it with the \
                 rule's code, which docs/checker.md explains",
            )
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub fn hint_if(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }

    /// Adds details, a line each.
    #[must_use]
    pub fn details(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }

    /// The reason by the words of airship-node-teardown; `action`: `None` if the request names no action.
    #[must_use]
    pub fn reason(&self, action: Option<Action>) -> FailureReason {
        match self.kind {
            FailureKind::Usage | FailureKind::Error => FailureReason::BadRequest,
            FailureKind::NotFound => FailureReason::NotFound,
            FailureKind::Guard | FailureKind::Stale | FailureKind::Locked => {
                FailureReason::Conflict
            }
            FailureKind::Failed | FailureKind::Interrupted | FailureKind::Unpublished => action
                .map_or(
                    FailureReason::DisassociateStepFailure,
                    Action::failure_reason,
                ),
        }
    }

    /// An error with its chain of causes as one line, and its hint.
    pub fn from_error(
        kind: FailureKind,
        error: &dyn std::error::Error,
        hint: Option<String>,
    ) -> Self {
        Self {
            kind,
            message: chain(error),
            details: Vec::new(),
            hints: hint.into_iter().collect(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A word that names no machine is not found; one that is no name or pattern is wrong usage.
impl From<&WordError> for Failure {
    fn from(error: &WordError) -> Self {
        let kind = match error.is_unknown() {
            true => FailureKind::NotFound,
            false => FailureKind::Usage,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<crate::repository::Error> for Failure {
    fn from(error: crate::repository::Error) -> Self {
        Self::from_error(FailureKind::Error, &error, error.hint())
    }
}

impl From<crate::record::Error> for Failure {
    fn from(error: crate::record::Error) -> Self {
        Self::from_error(FailureKind::Error, &error, error.hint())
    }
}

impl From<crate::site::Error> for Failure {
    fn from(error: crate::site::Error) -> Self {
        use crate::site::Error;
        let kind = match error {
            Error::Outside(_) => FailureKind::Usage,
            Error::Repository(_)
            | Error::NoSite { .. }
            | Error::UnknownSite { .. }
            | Error::NotThere { .. }
            | Error::SeveralSites { .. }
            | Error::UnknownRepository { .. }
            | Error::NoRevision { .. }
            | Error::NothingThere { .. }
            | Error::OtherRepository { .. }
            | Error::RepeatedSite { .. }
            | Error::Sandbox { .. }
            | Error::BadName { .. } => FailureKind::Error,
        };
        Self::from_error(kind, &error, error.hint())
    }
}

impl From<fmt::Error> for Failure {
    fn from(_: fmt::Error) -> Self {
        Self::error("output could not be written")
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::error(format!("output could not be written: {error}"))
    }
}

impl From<&run::Error> for Failure {
    fn from(error: &run::Error) -> Self {
        let kind = match error.kind() {
            run::Kind::Stale => FailureKind::Stale,
            run::Kind::LockHeld => FailureKind::Locked,
            run::Kind::Guard => FailureKind::Guard,
            run::Kind::Interrupted => FailureKind::Interrupted,
            run::Kind::Unpublished => FailureKind::Unpublished,
            run::Kind::Error => FailureKind::Error,
        };
        Self::from_error(kind, error, error.hint())
    }
}

impl From<run::Error> for Failure {
    fn from(error: run::Error) -> Self {
        Self::from(&error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Run(error) => Self::from(error),
            Error::WindowClosed {
                way_out, may_leave, ..
            } => Self::from_error(FailureKind::Guard, &error, way_out.clone()).hint(
                match may_leave {
                    true => "wait for one, or give `--outside-windows`",
                    false => "wait for one: the policy forbids `--outside-windows`",
                },
            ),
            Error::Unsound(findings) => Self::unsound(findings),
            Error::Steps { run, source } => {
                let hint = matches!(source, apply::Error::Journal(_)).then(|| {
                format!("nothing more is begun; when that is repaired, `trueup apply --resume` resumes run {run}")
            });
                Self::from_error(FailureKind::Error, source, hint)
            }
            Error::Records(error) => Self::from_error(FailureKind::Error, error, error.hint()),
            Error::Site(error) => Self::from_error(FailureKind::Error, error, error.hint()),
        }
    }
}
