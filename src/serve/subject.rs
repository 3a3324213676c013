//! An authenticated caller, and the operations that its rights permit.

use std::sync::{Arc, OnceLock};

use super::answer::Refusal;
use super::policy::Operation;
use super::rights::{Permit, Rights};
use crate::report::Visible;

tokio::task_local! {
    /// The caller of the request of this task, once that is known.
    pub(super) static CALLER: Arc<OnceLock<String>>;
}

/// Notes the caller of the request of this task, for the log.
pub(super) fn note_caller(subject: &Subject) {
    let shown = || format!("{} ({})", Visible(&subject.name), subject.by);
    let _ = CALLER.try_with(|caller| caller.get_or_init(shown).len());
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// The name, as runs record it.
    pub(super) name: Arc<str>,
    /// The name in each form in which the allowed signers of a site may have it. One too many keeps an approval from
    /// counting; one that is missing lets its caller approve alone.
    pub(super) principals: Arc<[Arc<str>]>,
    /// The means of authentication.
    pub(super) by: &'static str,
    pub(super) rights: Rights,
}

impl Subject {
    /// Refuses an operation that needs more than the caller's rights.
    pub(super) fn may(&self, operation: Operation) -> Result<Permit, Refusal> {
        self.rights.permit(operation)
    }
}
