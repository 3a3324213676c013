//! A site that something is planned for or done to: all of its design, and as little else as it takes.

use std::sync::Arc;

use super::backend_failure;
use crate::backend::{self, Backends};
use crate::cli::Failure;
use crate::cli::revision::Checkout;
use crate::site::{At, Detail, Loader, Location, Settings, Site};

/// Loads a site, and says where what backends refuse of it is written.
pub(in crate::cli) struct Opened<'a> {
    pub(in crate::cli) checkout: &'a Checkout<'a>,
    pub(in crate::cli) loader: Loader<'a>,
    settings: Option<Settings>,
}

impl<'a> Opened<'a> {
    pub(in crate::cli) fn new(checkout: &'a Checkout<'a>) -> Result<Self, Failure> {
        Ok(Self {
            checkout,
            loader: checkout.loader()?,
            settings: None,
        })
    }

    /// Loads a site at a revision.
    pub(in crate::cli) fn load(
        &mut self,
        location: &Location,
        at: At,
        settings: Settings,
    ) -> Result<Site, crate::site::Error> {
        self.settings = Some(settings);
        self.loader.load(location, at, settings)
    }

    /// The backends of a site.
    pub(in crate::cli) fn choose(
        &mut self,
        site: &Site,
        backends: &backend::Context,
    ) -> Result<Arc<Backends>, Failure> {
        let error = match backend::choose(&site.design, backends) {
            Ok(chosen) => return Ok(chosen),
            Err(error) => error,
        };
        let Some(settings) = self.settings.filter(|_| site.unexplained() > 0) else {
            return Err(backend_failure(&error, &self.loader));
        };
        // The place of what it refuses may be in any file.
        let mut loader = self.checkout.loader()?;
        let settings = Settings {
            detail: Detail::Documents,
            ..settings
        };
        let explained = loader.load(&site.location, site.at, settings)?;
        match backend::choose(&explained.design, backends) {
            Ok(chosen) => Ok(chosen),
            Err(error) => Err(backend_failure(&error, &loader)),
        }
    }
}
