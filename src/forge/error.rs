//! Reasons why nothing was published.

use crate::backend::http::{Class, EndpointError, Failure, TrustError};

/// A forge's refusal, or a use of it that cannot be right.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error("{0}")]
    Request(#[from] Failure),
    /// The address is none, or one that a token is not sent to.
    #[error("the address of the forge cannot be used: {0}")]
    Address(#[from] EndpointError),
    /// The address can be read by others on the way.
    #[error(
        "the token is not sent to {authority} over plain HTTP, which others on the way can read"
    )]
    Plain {
        /// Host and port.
        authority: String,
    },
    /// Certificates cannot be read.
    #[error("no TLS connection can be made")]
    Trust(#[from] TrustError),
    /// The change or repository was not found, or the token has no right to read it.
    #[error("{0} was not found, or the token has no right to read it")]
    NotFound(String),
    /// The head of the change is another commit by now.
    #[error("the head of {change} is {found}, not {expected}")]
    Moved {
        /// The change.
        change: String,
        /// The commit that the text is about.
        expected: String,
        /// The commit there.
        found: String,
    },
    /// There are too many entries.
    #[error("{place} has more than {most} pages of entries")]
    TooMany {
        /// The change or repository.
        place: String,
        /// Pages that are read.
        most: usize,
    },
    /// Requests and waits took too long in all.
    #[error("the forge did not complete all requests within {seconds} s")]
    Timeout {
        /// The time allowed.
        seconds: u64,
    },
}

impl Error {
    /// Whether the forge refuses the token, or what it may do.
    #[must_use]
    pub fn is_of_rights(&self) -> bool {
        let Self::Request(failure) = self else {
            return false;
        };
        let status = failure.status().map(|status| status.as_u16());
        matches!(status, Some(401 | 403 | 404))
    }

    /// Whether what was asked for may have been done.
    pub(super) fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Request(failure) if failure.class() == Class::Ambiguous)
    }
}
