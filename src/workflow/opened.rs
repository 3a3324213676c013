//! A site that something is planned for or done to: all of its design, and as little else as it takes.

use std::sync::Arc;

use super::backends::backend_failure;
use super::{Checkout, Client, Failure, FailureKind};
use crate::backend::{self, Backends};
use crate::site::{At, Depth, Detail, Loader, Location, Settings, Site};

/// Loads a site, and says where what backends refuse of it is written.
pub struct Opened<'a> {
    /// The site's checkout.
    pub checkout: &'a Checkout<'a>,
    /// Who has read its files.
    pub loader: Loader<'a>,
    settings: Option<Settings>,
}

impl<'a> Opened<'a> {
    /// Nothing is loaded yet.
    ///
    /// # Errors
    ///
    /// The guards of the site cannot be loaded from where they are to be taken.
    pub fn new(checkout: &'a Checkout<'a>) -> Result<Self, Failure> {
        Ok(Self {
            checkout,
            loader: checkout.loader()?,
            settings: None,
        })
    }

    /// Loads a site at a revision.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn load(
        &mut self,
        location: &Location,
        at: At,
        settings: Settings,
    ) -> Result<Site, crate::site::Error> {
        self.settings = Some(settings);
        self.loader.load(location, at, settings)
    }

    /// Refuses a site whose documents have errors, which are shown; tells of warnings where it was checked.
    ///
    /// # Errors
    ///
    /// It has errors.
    pub fn sound(&self, client: &dyn Client, depth: Depth, site: Site) -> Result<Site, Failure> {
        sound(client, &self.loader, depth, site)
    }

    /// The backends of a site.
    ///
    /// # Errors
    ///
    /// Their settings are wrong, or they are not trusted.
    pub fn choose(
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

/// Refuses a site whose documents have errors, which are shown; tells of warnings where it was checked.
///
/// # Errors
///
/// It has errors.
pub fn sound(
    client: &dyn Client,
    loader: &Loader<'_>,
    depth: Depth,
    site: Site,
) -> Result<Site, Failure> {
    if site.diagnostics.has_errors() {
        client.show(&site.diagnostics, loader.sources());
        return Err(Failure::shown(FailureKind::Error));
    }
    if depth == Depth::Checked && site.warnings > 0 {
        let warnings = match site.warnings {
            1 => "1 warning".to_owned(),
            warnings => format!("{warnings} warnings"),
        };
        client.tell(&format!(
            "{warnings} in the documents; `trueup validate` shows them"
        ));
    }
    Ok(site)
}
