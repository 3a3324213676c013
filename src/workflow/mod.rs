//! The way from a site's documents to a plan, as functions of typed requests.
//!
//! The command line, the watcher and the tests call these, so that all of them go the same way. Nothing here knows of
//! flags, terminals or the environment: what only a process has, a [`Caller`] gives.

mod backends;
mod caller;
mod checkout;
mod failure;
mod opened;
mod plan;
mod records;

pub use backends::{allow_applied, backend_failure, identities, runtime};
pub use caller::Caller;
pub use checkout::{AS_APPLIED, Checkout, ProtectedGuards};
pub use failure::{Failure, FailureKind};
pub use opened::{Opened, sound};
pub use plan::{Observed, Planned, Planner, Wish, applied, commit_of, recorded};
pub use records::{follow, tell_of_set_aside};
