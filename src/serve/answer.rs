//! Answers: Airship's status object, whatever went wrong.

use std::fmt::Write as _;

use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};

use crate::report::airship::{Message, MessageKind, Reason, Status};
use crate::workflow::{Failure, FailureKind};

/// How many details a message of its own lists.
const LISTED: usize = 3;

/// An answer that is no result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: Status,
    /// Whether the connection is closed: the rest of the request is not read.
    closes: bool,
}

impl Refusal {
    /// Its status object.
    pub(super) fn status(&self) -> &Status {
        &self.status
    }

    fn new(word: &'static str, code: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status: Status {
                reason: Reason { word, code },
                messages: vec![Message {
                    message: message.clone(),
                    error: true,
                    kind: MessageKind::SimpleMessage,
                    name: None,
                }],
                message,
            },
            closes: false,
        }
    }

    /// Its status object.
    pub(super) fn into_status(self) -> Status {
        self.status
    }

    /// The same, whose message ends with the first of what it announces by a colon, for callers that read it alone.
    fn listing(mut self, details: &[String]) -> Self {
        if self.status.message.ends_with(':') {
            let first: Vec<&str> = details.iter().take(LISTED).map(|it| it.trim()).collect();
            let more = match details.len().saturating_sub(LISTED) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let _ = write!(self.status.message, " {}{more}", first.join("; "));
            if let Some(own) = self.status.messages.first_mut() {
                own.message.clone_from(&self.status.message);
            }
        }
        self
    }

    /// The same, with one more message behind its own.
    pub(super) fn and(mut self, message: String) -> Self {
        self.status.messages.push(Message {
            message,
            error: false,
            kind: MessageKind::SimpleMessage,
            name: None,
        });
        self
    }

    /// The same, after which the connection is closed.
    pub(super) fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new("BadRequest", 400, message)
    }

    pub(super) fn missing_design_ref() -> Self {
        let message = "the parameter `design_ref` is missing: such as `committed` or `git:REV`";
        Self::new("MissingDesignRef", 400, message)
    }

    pub(super) fn unauthenticated(why: &str) -> Self {
        let message = format!("Credentials are not established: {why}");
        Self::new("Unauthenticated", 401, message)
    }

    pub(super) fn forbidden(why: &str) -> Self {
        let message = format!("Credentials do not permit access: {why}");
        Self::new("Forbidden", 403, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new("NotFound", 404, message)
    }

    pub(super) fn method_not_allowed(method: &Method) -> Self {
        let message = format!("the resource does not take {method}");
        Self::new("MethodNotAllowed", 405, message)
    }

    pub(super) fn timeout(message: &str) -> Self {
        Self::new("RequestTimeout", 408, message).closing()
    }

    pub(super) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new("NotAcceptable", 406, message)
    }

    /// Something beside the request is broken: documents with errors, a backend that does not answer.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new("Failed", 500, message)
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new("Conflict", 409, message)
    }

    pub(super) fn length_required() -> Self {
        let message = "the length of the body is not given: send `Content-Length`, and no `Transfer-Encoding`";
        Self::new("LengthRequired", 411, message).closing()
    }

    pub(super) fn too_large(most: usize) -> Self {
        let message = format!("the body is larger than {most} bytes");
        Self::new("ContentTooLarge", 413, message).closing()
    }

    pub(super) fn unsupported_type(wanted: &str) -> Self {
        Self::new(
            "UnsupportedMediaType",
            415,
            format!("the body must be {wanted}"),
        )
    }

    pub(super) fn too_many() -> Self {
        Self::new("TooManyRequests", 429, "too many requests in a short time")
    }

    pub(super) fn internal() -> Self {
        let message = "the request failed by a defect of the service; its log has more";
        Self::new("InternalError", 500, message)
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new("ServiceUnavailable", 503, message)
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let message = failure.words();
        let refusal = match failure.kind {
            FailureKind::Usage => Self::bad_request(message),
            FailureKind::NotFound => Self::not_found(message),
            FailureKind::Guard
            | FailureKind::Stale
            | FailureKind::Locked
            | FailureKind::Interrupted => Self::conflict(message),
            FailureKind::Error | FailureKind::Failed | FailureKind::Unpublished => {
                Self::failed(message)
            }
        };
        let refusal = refusal.listing(&failure.details);
        let notes = failure.details.into_iter().chain(failure.hints);
        notes.fold(refusal, |refusal, note| refusal.and(note))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let code = self.status.reason.code;
        let mut response = of_status(&self.status);
        let headers = response.headers_mut();
        if self.closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        match code {
            401 => {
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Keystone"));
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            429 => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            503 => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("10"));
            }
            _ => {}
        }
        response
    }
}

/// A status object as an answer with its code.
pub(super) fn of_status(status: &Status) -> Response {
    let code =
        StatusCode::from_u16(status.reason.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json(code, status.to_line())
}

/// A text of JSON as an answer.
pub(super) fn json(code: StatusCode, body: String) -> Response {
    (code, [(CONTENT_TYPE, "application/json")], body).into_response()
}
