//! The reference to a design that a caller names: the revision that an action is planned of.
//!
//! It never supplies Backends, Policy or any other guard of the site: those are of the commit that is checked out, or of
//! the revision that the operator protects. Without such a revision the only design is the one that is checked out.
//! Documents of Deckhand supply nothing at all: they are held against the design that is checked out.

use std::sync::Arc;

use super::answer::Refusal;
use super::host::Host;
use crate::design::Guards;
use crate::run::Connection;
use crate::site::At;
use crate::workflow::{
    Checkout, Failure, FailureKind, RenderedDesign, commit_of, follow, in_history,
};

/// The longest reference, in bytes.
pub(super) const LONGEST: usize = 512;

/// The words for revisions besides those of git.
const WORDS: [&str; 3] = ["committed", "successful-site-action", "last-site-action"];

/// The beginning of a reference to documents of Deckhand.
pub(super) const DECKHAND: &str = "deckhand+";

/// A reference to a design of this repository.
#[derive(Clone, Debug)]
pub(super) struct DesignRef {
    /// A revision of git, or a word for one.
    revision: String,
    /// The documents that the design has to agree with.
    rendered: Option<Arc<RenderedDesign>>,
}

impl Default for DesignRef {
    /// The design that is checked out.
    fn default() -> Self {
        Self::of(WORDS[0])
    }
}

pub(super) fn is_unreadable(text: &str) -> bool {
    text.chars().any(|sign| sign.is_control() || sign == ' ')
}

pub(super) fn refused(why: &str) -> Refusal {
    let words = WORDS.map(|word| format!("`{word}`")).join(", ");
    Refusal::bad_request(format!(
        "the design reference {why}: it is `git:REV`, {words}, or of a node endpoint also \
         `deckhand+https://HOST/…/revisions/N/rendered-documents`"
    ))
}

impl DesignRef {
    fn of(revision: &str) -> Self {
        Self {
            revision: revision.to_owned(),
            rendered: None,
        }
    }

    /// Reads `git:REV` or a word for a revision.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        if text.len() > LONGEST || is_unreadable(text) {
            return Err(refused("cannot be read"));
        }
        match text.strip_prefix("git:") {
            Some("") => Err(refused("names no revision")),
            Some(revision) => Ok(Self::of(revision)),
            None if WORDS.contains(&text) => Ok(Self::of(text)),
            None if text.starts_with(DECKHAND) => Err(refused("leads to documents of Deckhand")),
            None => Err(refused("has no scheme that is taken")),
        }
    }

    /// The revision, or the word for one.
    #[cfg(test)]
    pub(super) fn revision(&self) -> &str {
        &self.revision
    }

    /// The design that is checked out, if it agrees with documents of Deckhand.
    pub(super) fn agreeing(rendered: RenderedDesign) -> Self {
        Self {
            rendered: Some(Arc::new(rendered)),
            ..Self::default()
        }
    }

    /// The documents of Deckhand that the design has to agree with.
    pub(super) fn rendered(&self) -> Option<&RenderedDesign> {
        self.rendered.as_deref()
    }

    /// Refuses an action on nodes of which the documents of Deckhand say something else.
    pub(super) fn agrees_on<'n>(
        &self,
        mut nodes: impl Iterator<Item = &'n Arc<str>>,
        guards: &Guards,
    ) -> Result<(), Failure> {
        match self.rendered() {
            None => Ok(()),
            Some(rendered) => nodes.try_for_each(|node| rendered.agrees_on(node, guards)),
        }
    }

    /// The revision.
    pub(super) fn resolve(
        &self,
        host: &dyn Host,
        checkout: &Checkout<'_>,
        connection: &Connection<'_>,
    ) -> Result<At, Failure> {
        if Checkout::is_of_site(&self.revision) {
            follow(host.client(), checkout, connection)?;
        }
        let wrong = |failure: Failure| Failure {
            kind: FailureKind::Usage,
            ..failure
        };
        let at = checkout.resolve(&self.revision).map_err(wrong)?;
        let head = checkout.head()?;
        let commit = commit_of(at).unwrap_or(head);
        if commit != head {
            if !host.has_protected_guards() {
                let text = format!(
                    "the design reference `{}` names another commit than the one that is checked out, and the service \
                     was started without `--backends-from`",
                    self.revision
                );
                return Err(Failure::new(FailureKind::Usage, text)
                    .hint("`committed` is the commit that is checked out"));
            }
            in_history(checkout, connection, commit).map_err(wrong)?;
        }
        Ok(At::Commit(commit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_revision_of_git() {
        let parse = |text: &str| DesignRef::parse(text).ok().map(|found| found.revision);
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
}
