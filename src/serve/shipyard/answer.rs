//! Answers in Shipyard's form: its status objects, whose code is a text.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Value, json};

use crate::serve::answer::{Refusal, json as answer};
use crate::serve::call;
use crate::serve::query::{BadParameter, ParameterProblem};
use crate::workflow::{Failure, Problem};

/// A request of Shipyard's API.
pub(super) type Call = call::Call<ApiError>;

/// An error of Shipyard's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    code: u16,
    title: String,
    reason: String,
    messages: Vec<String>,
    retry: bool,
}

impl ApiError {
    /// An error with a title, and why.
    pub(super) fn new(code: u16, title: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            code,
            title: title.into(),
            reason: reason.into(),
            messages: Vec::new(),
            retry: false,
        }
    }

    /// The same, with what belongs to it, a message each.
    pub(super) fn messages(mut self, messages: impl IntoIterator<Item = String>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// The same, for a request that may succeed later.
    pub(super) fn retry(mut self) -> Self {
        self.retry = true;
        self
    }

    /// A parameter that cannot be used.
    pub(super) fn parameter(name: &str, reason: impl Into<String>) -> Self {
        Self::new(400, format!("Invalid parameter {name}"), reason)
    }

    /// The service failed; what the records or the documents are read with.
    pub(super) fn failure(failure: &Failure) -> Self {
        let messages = failure.details.iter().chain(&failure.hints).cloned();
        let mut error = Self::new(500, "Unable to read the site", failure.message.as_str());
        error.messages.push(failure.message.clone());
        error.messages(messages).retry()
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        Self::failure(&failure)
    }
}

impl From<BadParameter> for ApiError {
    fn from(bad: BadParameter) -> Self {
        let why = match bad.problem {
            ParameterProblem::Unknown(_) => "the operation does not know it".to_owned(),
            ParameterProblem::Twice => "it is given twice".to_owned(),
            ParameterProblem::Not(wanted) => format!("it is {wanted}"),
        };
        Self::parameter(&bad.name, why)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let status = refusal.status();
        let error = Self::new(
            status.reason.code,
            status.reason.word,
            status.message.as_str(),
        );
        match status.reason.code {
            429 | 500.. => error.retry(),
            _ => error,
        }
    }
}

/// A code as Shipyard writes it: `404 Not Found`.
pub(super) fn code_text(code: u16) -> String {
    let reason = StatusCode::from_u16(code).ok();
    let reason = reason.and_then(|code| code.canonical_reason());
    format!("{code} {}", reason.unwrap_or("Unknown"))
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let messages = match &self.messages[..] {
            [] => std::slice::from_ref(&self.reason),
            messages => messages,
        };
        let list: Vec<Value> = messages
            .iter()
            .map(|message| json!({"message": message, "error": true}))
            .collect();
        let body = json!({
            "kind": "status",
            "apiVersion": "v1.0",
            "metadata": {},
            "status": "Failure",
            "message": self.title,
            "reason": self.reason,
            "details": {"errorType": "ApiError", "errorCount": list.len(), "messageList": list},
            "code": code_text(self.code),
            "retry": self.retry,
        });
        let mut response = with(self.code, &body);
        let headers = response.headers_mut();
        match self.code {
            401 => {
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Keystone"));
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            503 => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("10"));
            }
            _ => {}
        }
        response
    }
}

/// JSON with a code.
pub(super) fn with(code: u16, body: &Value) -> Response {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(code, body.to_string())
}

/// The status of a validation of documents; `code` is that of its body.
pub(super) fn validations(problems: &[Problem], code: u16, message: Option<&str>) -> Value {
    let errors = problems.iter().filter(|problem| problem.is_error).count();
    let (status, outcome) = match errors {
        0 => ("Success", "Validations succeeded"),
        _ => ("Failure", "Validations failed"),
    };
    let list: Vec<Value> = problems.iter().map(validation_message).collect();
    let words: Vec<&str> = [Some(outcome), message].into_iter().flatten().collect();
    json!({
        "kind": "Status",
        "apiVersion": "v1.0",
        "metadata": {},
        "status": status,
        "message": words.join(" "),
        "reason": "Validation",
        "details": {"errorCount": errors, "messageList": list},
        "code": code_text(code),
    })
}

/// A problem of documents as a message of a validation.
pub(super) fn validation_message(problem: &Problem) -> Value {
    let documents = problem.document.iter();
    let documents: Vec<Value> = documents
        .map(|(schema, name)| json!({"schema": &**schema, "name": &**name}))
        .collect();
    json!({
        "kind": "ValidationMessage",
        "message": problem.message,
        "error": problem.is_error,
        "name": problem.code,
        "documents": documents,
        "level": if problem.is_error { "Error" } else { "Warning" },
        "diagnostic": problem.diagnostic,
        "source": "trueup",
    })
}
