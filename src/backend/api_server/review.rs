//! Access reviews: what the client itself may do. Changes nothing.

use std::fmt;

use serde::Deserialize;
use serde_json::json;

use super::call::{ApiError, Server};

/// Where reviews are asked for.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A right that is asked for; empty: all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::backend) struct Review {
    pub(in crate::backend) verb: &'static str,
    pub(in crate::backend) group: &'static str,
    pub(in crate::backend) resource: &'static str,
    pub(in crate::backend) subresource: &'static str,
    pub(in crate::backend) namespace: &'static str,
    pub(in crate::backend) name: &'static str,
}

impl fmt::Display for Review {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match (self.namespace, self.name) {
            ("", _) => Ok(()),
            (namespace, "") => write!(f, " in namespace {namespace}"),
            (namespace, name) => write!(f, " `{name}` in namespace {namespace}"),
        }
    }
}

#[derive(Deserialize)]
struct Reviewed {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    allowed: bool,
}

impl Server {
    /// Whether the server allows a request to this client.
    pub(in crate::backend) async fn allows(&self, review: &Review) -> Result<bool, ApiError> {
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": review.verb,
                "group": review.group,
                "resource": review.resource,
                "subresource": review.subresource,
                "namespace": review.namespace,
                "name": review.name,
            }},
        });
        let reviewed: Reviewed = self.create(REVIEWS, &body).await?;
        Ok(reviewed.status.allowed)
    }
}
