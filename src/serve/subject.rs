//! An authenticated caller, and the operations that its role permits.

use std::sync::{Arc, OnceLock};

use super::Role;
use super::answer::Refusal;
use super::policy::Operation;
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
    /// The rights of the caller.
    pub(super) role: Role,
}

impl Subject {
    /// Refuses an operation that needs more than the caller's role.
    pub(super) fn may(&self, operation: Operation) -> Result<(), Refusal> {
        let (policy, least) = operation.policy();
        if self.role >= least {
            return Ok(());
        }
        let (role, least) = (self.role.as_str(), least.as_str());
        Err(Refusal::forbidden(&format!(
            "`{policy}` needs the role `{least}`, and the caller has `{role}`"
        )))
    }
}
