//! Refuses documents with errors, for every workflow alike.

use super::{Client, Failure, FailureKind};
use crate::diagnostic::counted;
use crate::site::{Depth, Loader, Site};

/// Refuses a site whose documents have errors, which are shown; tells of warnings if it was checked.
///
/// # Errors
///
/// It has errors.
pub fn refuse_errors(
    client: &dyn Client,
    loader: &Loader<'_>,
    depth: Depth,
    site: Site,
) -> Result<Site, Failure> {
    if site.diagnostics.has_errors() {
        client.show(&site.diagnostics, loader.sources());
        return Err(Failure::reported(FailureKind::Error));
    }
    if depth == Depth::Checked && site.warnings > 0 {
        client.tell(&format!(
            "{} in the documents; `trueup validate` shows them",
            counted(site.warnings, "warning", "warnings")
        ));
    }
    Ok(site)
}
