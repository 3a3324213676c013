//! The loop that decides what starts next.

use super::work::parallelism;
use super::{Error, Finished, Listener, Work};

/// Carries a plan out, up to its tag.
///
/// # Errors
///
/// [`Error::Journal`] where what was done could not be written down, [`Error::OtherPlan`],
/// [`Error::NothingToDecide`], [`Error::Plan`].
pub async fn execute(work: Work<'_>, _listener: &mut dyn Listener) -> Result<Finished, Error> {
    let _ = parallelism(work.plan);
    Err(Error::Plan("not built yet".into()))
}
