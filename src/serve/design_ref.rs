//! The reference to a design that a caller names: the revision that an action is planned of.
//!
//! It never supplies Backends, Policy or any other guard of the site: those are of the commit that is checked out, or of
//! the revision that the operator protects. Without such a revision the only design is the one that is checked out.

use serde::Deserialize;

use super::answer::Refusal;
use super::host::Host;
use crate::run::Connection;
use crate::site::At;
use crate::workflow::{Checkout, Failure, FailureKind, commit_of, follow, in_history};

/// The longest reference, in bytes.
const LONGEST: usize = 512;

/// The words for revisions besides those of git.
const WORDS: [&str; 3] = ["committed", "successful-site-action", "last-site-action"];

/// A reference to a design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DesignRef(String);

impl Default for DesignRef {
    /// The design that is checked out.
    fn default() -> Self {
        Self(WORDS[0].to_owned())
    }
}

/// A reference as the body of a request has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    rel: Option<String>,
    href: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl DesignRef {
    /// Reads `git:REV` or a word for a revision.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let refused = |why: &str| {
            let words = WORDS.map(|word| format!("`{word}`")).join(", ");
            Err(Refusal::bad_request(format!(
                "the design reference {why}: it is `git:REV`, {words}"
            )))
        };
        if text.len() > LONGEST || text.chars().any(|sign| sign.is_control() || sign == ' ') {
            return refused("cannot be read");
        }
        match text.strip_prefix("git:") {
            Some("") => refused("names no revision"),
            Some(revision) => Ok(Self(revision.to_owned())),
            None if WORDS.contains(&text) => Ok(Self(text.to_owned())),
            None if text.starts_with("deckhand+") => refused(
                "leads to documents that Deckhand has rendered, and this service plans from those in git",
            ),
            None => refused("has no scheme that is taken"),
        }
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

    /// The revision.
    pub(super) fn resolve(
        &self,
        host: &dyn Host,
        checkout: &Checkout<'_>,
        connection: &Connection<'_>,
    ) -> Result<At, Failure> {
        if Checkout::is_of_site(&self.0) {
            follow(host.client(), checkout, connection)?;
        }
        let wrong = |failure: Failure| Failure {
            kind: FailureKind::Usage,
            ..failure
        };
        let at = checkout.resolve(&self.0).map_err(wrong)?;
        let head = checkout.head()?;
        let commit = commit_of(at).unwrap_or(head);
        if commit != head {
            if !host.has_protected_guards() {
                let text = format!(
                    "the design reference `{}` names another commit than the one that is checked out, and the service \
                     was started without `--backends-from`",
                    self.0
                );
                return Err(Failure::new(FailureKind::Usage, text));
            }
            in_history(checkout, commit).map_err(wrong)?;
        }
        Ok(At::Commit(commit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_revision_of_git() {
        let parse = |text: &str| DesignRef::parse(text).ok().map(|found| found.0);
        assert_eq!(parse("git:v1").as_deref(), Some("v1"));
        assert_eq!(parse("committed").as_deref(), Some("committed"));
        assert_eq!(
            parse("last-site-action").as_deref(),
            Some("last-site-action")
        );
        for wrong in [
            "",
            "git:",
            "worktree",
            "main",
            "file:///etc/passwd",
            "/etc/passwd",
            "http://x",
            "deckhand+http://x/revisions/1/rendered-documents",
            "git:a b",
            "git:a\nb",
            &format!("git:{}", "a".repeat(600)),
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_body_is_the_specification_s_object_or_nothing() {
        let body = |text: &str| {
            DesignRef::of_body(text.as_bytes())
                .ok()
                .map(|found| found.0)
        };
        let whole = r#"{"rel": "design", "href": "git:v1", "type": "application/x-yaml"}"#;
        assert_eq!(body(whole).as_deref(), Some("v1"));
        assert_eq!(body("").as_deref(), Some("committed"));
        for wrong in [
            "{}",
            "[]",
            "x",
            r#"{"rel": "other", "href": "git:v1"}"#,
            r#"{"href": "git:v1", "type": "text/plain"}"#,
            r#"{"href": "git:v1", "more": 1}"#,
        ] {
            assert_eq!(body(wrong), None, "{wrong}");
        }
    }
}
