//! Why a request failed, said so that a person can act on it and a program can tell what to do.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use rustls::{CertificateError, OtherError};

use super::origin::Origin;
use crate::backend::ActError;
use crate::backend::masked::Forms;

/// The retry class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It can pass, and nothing was done: the same request may be sent again.
    Passing,
    /// It stays.
    Permanent,
    /// The answer was lost: what was asked for may have been done.
    Ambiguous,
}

impl Class {
    /// The class of a status; `is_safe`: the request may be repeated. 408, 425, 429 and 503 mean that
    /// nothing was done; any other 5xx but 501 may have come after half the work.
    #[must_use]
    pub fn of_status(status: StatusCode, is_safe: bool) -> Self {
        match status.as_u16() {
            408 | 425 | 429 | 503 => Self::Passing,
            501 | 505 => Self::Permanent,
            500..=599 if is_safe => Self::Passing,
            500..=599 => Self::Ambiguous,
            _ => Self::Permanent,
        }
    }
}

/// Why a request failed: ``node `n04`: 10.0.0.4:443: POST /redfish/v1/…: 400 Bad Request: …``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    origin: Arc<Origin>,
    class: Class,
    text: String,
    status: Option<StatusCode>,
    words: Option<String>,
    retry_after: Option<Duration>,
}

impl Failure {
    pub(super) fn new(origin: Arc<Origin>, class: Class, text: String) -> Self {
        Self {
            origin,
            class,
            text,
            status: None,
            words: None,
            retry_after: None,
        }
    }

    /// The failure of a request that was not sent, since it cannot be; permanent.
    #[must_use]
    pub fn unsent(subject: &str, authority: &str, what: &str, text: &str) -> Self {
        let origin = Origin {
            subject: Arc::from(subject),
            authority: Arc::from(authority),
            what: Arc::from(what),
            secrets: Forms::default(),
        };
        Self::new(Arc::new(origin), Class::Permanent, text.to_owned())
    }

    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    pub(super) fn with_words(mut self, words: Option<String>) -> Self {
        self.words = words;
        self
    }

    pub(super) fn with_retry_after(mut self, time: Option<Duration>) -> Self {
        self.retry_after = time;
        self
    }

    /// Whether a retry is allowed.
    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }

    /// The failure with another class, for callers with more evidence.
    #[must_use]
    pub fn meaning(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// The status, if there was an answer.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// The service's own words alone, if it refused with some.
    #[must_use]
    pub fn words(&self) -> Option<&str> {
        self.words.as_deref()
    }

    /// How long the service asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The cause alone, without subject, host and request.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The request: subject, host, method and path.
    pub(super) fn what(&self) -> String {
        self.origin.to_string()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what(), self.text)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for ActError {
    fn from(failure: Failure) -> Self {
        let text = Arc::from(failure.to_string());
        match failure.class {
            Class::Passing => Self::Passing(text),
            Class::Permanent => Self::Permanent(text),
            Class::Ambiguous => Self::Ambiguous(text),
        }
    }
}

/// Classifies a transport's error: no connection, no trust, no answer. `when_lost`: the class of the last.
pub(super) fn of_transport(
    origin: &Arc<Origin>,
    when_lost: Class,
    error: &reqwest::Error,
) -> Failure {
    let cause = cause(error);
    let (class, text) = match cause {
        Cause::Certificate(problem) => (
            Class::Permanent,
            format!("its certificate is not trusted: {problem}"),
        ),
        Cause::Tls(problem) => (Class::Permanent, format!("no TLS connection: {problem}")),
        Cause::Io(kind) if error.is_connect() => {
            (Class::Passing, format!("cannot be connected to: {kind}"))
        }
        Cause::Other(_) if error.is_timeout() && error.is_connect() => {
            (Class::Passing, "no connection in time".to_owned())
        }
        Cause::Other(text) if error.is_connect() => {
            (Class::Passing, format!("cannot be connected to: {text}"))
        }
        Cause::Io(kind) => (
            when_lost,
            format!("the connection broke before an answer came: {kind}"),
        ),
        Cause::Other(text) => (
            when_lost,
            format!("the connection broke before an answer came: {text}"),
        ),
    };
    Failure::new(origin.clone(), class, origin.plain(&text, 300))
}

/// The innermost reason of a transport's error.
enum Cause {
    Certificate(String),
    Tls(String),
    Io(io::ErrorKind),
    Other(String),
}

fn cause(error: &reqwest::Error) -> Cause {
    let mut last = None;
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(found) = known_cause(error) {
            return found;
        }
        last = Some(error);
        next = error.source();
    }
    Cause::Other(last.map_or_else(|| "no reason given".to_owned(), ToString::to_string))
}

fn known_cause(error: &(dyn std::error::Error + 'static)) -> Option<Cause> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(match error {
            rustls::Error::InvalidCertificate(problem) => Cause::Certificate(match problem {
                CertificateError::UnknownIssuer => "its issuer is not trusted".to_owned(),
                CertificateError::BadSignature => {
                    "its signature is not that of a trusted issuer".to_owned()
                }
                CertificateError::Other(OtherError(other)) => other.to_string(),
                known => known.to_string(),
            }),
            other => Cause::Tls(other.to_string()),
        });
    }
    let error = error.downcast_ref::<io::Error>()?;
    // An error in an I/O error is not its source, but what it holds.
    match error.get_ref() {
        Some(inner) => known_cause(inner),
        None => Some(Cause::Io(error.kind())),
    }
}
