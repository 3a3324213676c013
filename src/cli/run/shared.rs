//! How a run that is divided among workers is found.

use crate::cli::{Failure, FailureKind};
use crate::record::RunRecord;
use crate::run::{self, Interrupted, SiteRepository, find_interrupted};

/// A run, by its id or name.
pub(super) fn record(site: &SiteRepository<'_>, name: &str) -> Result<Option<RunRecord>, Failure> {
    Ok(run::find_shared(site, name)?)
}

/// A run that has not ended, by its id or name.
pub(super) fn find(site: &SiteRepository<'_>, name: &str) -> Result<Interrupted, Failure> {
    match record(site, name)? {
        Some(record) => Ok(find_interrupted(site, Some(&record.run))?),
        None => Err(unknown(site, name)),
    }
}

/// The failure for a name that no run has.
pub(super) fn unknown(site: &SiteRepository<'_>, name: &str) -> Failure {
    let text = format!(
        "site `{}` has no run `{name}` that is divided among workers",
        site.name
    );
    Failure::new(FailureKind::NotFound, text).hint("`trueup run begin` begins one")
}
