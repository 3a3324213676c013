//! The parts that all requests of Shipyard's API have: the caller, and the parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use http::HeaderMap;

use super::answer::ApiError;
use super::names::truth;
use crate::serve::listen::Peer;
use crate::serve::policy::Operation;
use crate::serve::shared::Shared;
use crate::serve::subject::Subject;

/// Authenticates the caller of a request, and checks its role.
pub(super) async fn caller(
    shared: &Shared,
    peer: &Peer,
    headers: &HeaderMap,
    operation: Operation,
) -> Result<Subject, ApiError> {
    let subject = shared.subject(peer, headers).await?;
    subject.may(operation)?;
    Ok(subject)
}

/// The parameters of a request; those of the name `versions` may come again.
#[derive(Debug)]
pub(super) struct Query {
    single: BTreeMap<String, String>,
    pub(super) versions: Vec<String>,
    /// How many notes are wanted, from 0 to 5.
    pub(super) verbosity: u8,
}

impl Query {
    /// Reads the parameters that an operation knows, and `verbosity`.
    pub(super) fn parse(request: &Request, known: &[&str]) -> Result<Self, ApiError> {
        let mut query = Self {
            single: BTreeMap::new(),
            versions: Vec::new(),
            verbosity: 1,
        };
        let text = request.uri().query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "verbosity" => {
                    let number = value.parse().ok().filter(|number| *number <= 5);
                    let wrong = || ApiError::parameter("verbosity", "it is a number from 0 to 5");
                    query.verbosity = number.ok_or_else(wrong)?;
                }
                // Its documentation writes `version=A,B`, its client `versions=A&versions=B`.
                "versions" | "version" if known.contains(&"versions") => {
                    let listed = value.split(',').filter(|word| !word.is_empty());
                    query.versions.extend(listed.map(str::to_owned));
                }
                name if known.contains(&name) => {
                    let before = query.single.insert(name.to_owned(), value.into_owned());
                    if before.is_some() {
                        return Err(ApiError::parameter(name, "it is given twice"));
                    }
                }
                name => {
                    let name = crate::report::Visible(name).to_string();
                    return Err(ApiError::parameter(&name, "the operation does not know it"));
                }
            }
        }
        Ok(query)
    }

    /// A text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.single.get(name).map(String::as_str)
    }

    /// A parameter that is true or false; absent it is false.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.text(name) {
            None => Ok(false),
            Some(text) => {
                truth(text).ok_or_else(|| ApiError::parameter(name, "it is `true` or `false`"))
            }
        }
    }
}

/// The parts of a request's path below the base, from the left.
pub(super) fn parts(request: &Request) -> Vec<Arc<str>> {
    let path = request.uri().path().trim_start_matches("/api/v1.0/");
    path.split('/').map(Arc::from).collect()
}
