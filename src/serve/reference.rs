//! The reference to a design as the node endpoints take it: of this repository, or of documents that Deckhand has rendered.

use std::sync::Arc;

use http::HeaderMap;
use serde::Deserialize;

use super::answer::Refusal;
use super::authenticate::token_of;
use super::deckhand::RenderedUrl;
use super::design_ref::{DECKHAND, DesignRef, LONGEST, is_unreadable, refused};
use super::shared::Shared;
use crate::site::RenderedText;
use crate::workflow::{Failure, RenderedDesign};

/// A reference as the body of a request has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    rel: Option<String>,
    href: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// A reference of the node endpoints: documents of Deckhand are fetched before they mean anything.
#[derive(Clone, Debug)]
pub(super) enum Reference {
    Git(DesignRef),
    Deckhand(RenderedUrl),
}

impl Default for Reference {
    fn default() -> Self {
        Self::Git(DesignRef::default())
    }
}

impl Reference {
    /// Reads `git:REV`, a word for a revision, or `deckhand+http(s)://…/revisions/N/rendered-documents`.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let Some(url) = text.strip_prefix(DECKHAND) else {
            return DesignRef::parse(text).map(Self::Git);
        };
        if text.len() > LONGEST || is_unreadable(text) {
            return Err(refused("cannot be read"));
        }
        RenderedUrl::parse(url).map(Self::Deckhand).map_err(refused)
    }

    /// Reads the body `{"rel": "design", "href": REFERENCE, "type": "application/x-yaml"}`; without one the design is the
    /// one that is checked out.
    pub(super) fn of_body(body: &[u8]) -> Result<Self, Refusal> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        let read: Result<Body, _> = serde_json::from_slice(body);
        let read = read.map_err(|error| {
            Refusal::bad_request(format!("the body is no reference to a design: {error}"))
        })?;
        let is_design = read.rel.as_deref().is_none_or(|rel| rel == "design");
        let is_yaml = read
            .kind
            .as_deref()
            .is_none_or(|kind| kind == "application/x-yaml");
        if !is_design || !is_yaml {
            let text = "the body must have `rel: design` and `type: application/x-yaml`";
            return Err(Refusal::bad_request(text));
        }
        Self::parse(&read.href)
    }

    /// The design that is meant: documents of Deckhand are fetched with the caller's token, and read.
    pub(super) async fn fetched(
        self,
        shared: &Arc<Shared>,
        headers: &HeaderMap,
    ) -> Result<Result<DesignRef, Failure>, Refusal> {
        let url = match self {
            Self::Git(design) => return Ok(Ok(design)),
            Self::Deckhand(url) => url,
        };
        let Some(deckhand) = &shared.deckhand else {
            let text = "the design reference leads to Deckhand, and the settings of this service list no `deckhand.hosts`";
            return Err(Refusal::bad_request(text));
        };
        deckhand.admits(&url)?;
        let token = token_of(headers)?.ok_or_else(|| {
            Refusal::bad_request(
                "documents of Deckhand are fetched with the token of the caller: send `X-Auth-Token`",
            )
        })?;
        let _turn = deckhand.turn().await?;
        let bytes = match deckhand.fetch(&url, token).await {
            Ok(bytes) => bytes,
            Err(failure) => return Ok(Err(failure)),
        };
        let asking = shared.clone();
        shared
            .ask_for_plan(move || {
                let repository = asking.host.repository()?;
                let checkout = asking.host.checkout(&repository)?;
                let text = RenderedText {
                    name: &url.name(),
                    bytes: &bytes,
                };
                RenderedDesign::read(&checkout, text).map(DesignRef::agreeing)
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_the_specification_s_object_or_nothing() {
        let body = |text: &str| match Reference::of_body(text.as_bytes()) {
            Ok(Reference::Git(found)) => Some(found.revision().to_owned()),
            Ok(Reference::Deckhand(url)) => Some(url.name()),
            Err(_) => None,
        };
        let whole = r#"{"rel": "design", "href": "git:v1", "type": "application/x-yaml"}"#;
        assert_eq!(body(whole).as_deref(), Some("v1"));
        assert_eq!(body("").as_deref(), Some("committed"));
        let url = "https://deckhand:9000/api/v1.0/revisions/2/rendered-documents";
        let given = format!(r#"{{"href": "deckhand+{url}"}}"#);
        assert_eq!(body(&given).as_deref(), Some(url));
        for wrong in [
            "{}",
            "[]",
            "x",
            r#"{"rel": "other", "href": "git:v1"}"#,
            r#"{"href": "git:v1", "type": "text/plain"}"#,
            r#"{"href": "git:v1", "more": 1}"#,
            r#"{"href": "deckhand+file:///etc/passwd"}"#,
            r#"{"href": "deckhand+deckhand+https://d/revisions/2/rendered-documents"}"#,
        ] {
            assert_eq!(body(wrong), None, "{wrong}");
        }
    }
}
