//! An authenticated caller, and the operations that its role permits.

use std::sync::Arc;

use super::Role;
use super::answer::Refusal;
use super::policy::Operation;

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
