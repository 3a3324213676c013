//! The images that the documents of a commit name.

use super::{AS_APPLIED, Checkout, Client, Failure, backend_failure, refuse_errors};
use crate::backend::WantedImages;
use crate::repository::CommitId;
use crate::site::{At, Depth, Settings};

/// The images that the controllers of a site fetch by the documents of a commit.
///
/// # Errors
///
/// The documents have errors, or the settings of a backend cannot be read.
pub fn wanted_images(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    commit: CommitId,
) -> Result<WantedImages, Failure> {
    let at = At::Commit(commit);
    let location = checkout.location_at(at)?;
    let mut loader = checkout.loader()?;
    // With an error that only a check finds, a backend may be none that has images.
    let settings = Settings {
        depth: Depth::Checked,
        ..AS_APPLIED
    };
    let site = loader.load(&location, at, settings)?;
    let site = refuse_errors(client, &loader, settings.depth, site)?;
    let guarded = checkout.guarded(&site)?;
    WantedImages::of(&guarded).map_err(|error| backend_failure(&error, &loader))
}
