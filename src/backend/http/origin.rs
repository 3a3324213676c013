//! For whom, to whom and what was asked: what failures and answers begin with.

use std::fmt;
use std::sync::Arc;

use super::text::plain;
use crate::backend::masked::Forms;

/// For whom, to whom and what was asked: the beginning of every failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) subject: Arc<str>,
    pub(super) authority: Arc<str>,
    pub(super) what: Arc<str>,
    /// Secrets masked in every text about it.
    pub(super) secrets: Forms,
}

impl Origin {
    /// A text from there as it may be shown.
    pub(super) fn plain(&self, text: &str, longest: usize) -> String {
        plain(&self.secrets.masked(text), longest)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.subject, self.authority, self.what)
    }
}
