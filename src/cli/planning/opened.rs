//! The site that something is planned for or done to: all of its design, and as little else as it takes.
//!
//! A large site is loaded piece by piece ([`Loader::load_in_pieces`]), and as a whole only where that
//! does not do: where anything is wrong with it, or nearly everything has to be explained.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{backend_failure, differs, short};
use crate::backend::{self, Backends};
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::revision::{Checkout, load_sound, tell_warnings};
use crate::design::{Design, NodeDesign, NodeName};
use crate::record::NodeRecord;
use crate::repository::{BlobId, CommitId};
use crate::site::{At, Depth, Loader, Location, Pieces, Settings, Site};

/// A site, and who loaded it.
pub(in crate::cli) struct Opened<'a> {
    pub(in crate::cli) loader: Loader<'a>,
    pub(in crate::cli) site: Site,
    /// The backends, where they were chosen already.
    backends: Option<Arc<Backends>>,
    /// The files of which only the design stays.
    settled: Option<FxHashSet<(Arc<str>, BlobId)>>,
}

impl<'a> Opened<'a> {
    /// Loads a site at a revision; `records`: those that it is compared with; `backends`: they are asked,
    /// with this. A site that need not be checked is checked all the same where that spares most of it.
    pub(in crate::cli) fn open(
        context: &Context,
        checkout: &Checkout<'a>,
        (location, at): (&Location, At),
        settings: Settings,
        records: &BTreeMap<NodeName, NodeRecord>,
        backends: Option<&backend::Context>,
    ) -> Result<Self, Failure> {
        // What differs from its record is explained by all that it was made of.
        let is_expected = |node: &NodeDesign| {
            let record = records.get(&node.name);
            record.is_none_or(|record| !differs(record, Some(node)))
        };
        let pieces = Pieces {
            fewest: short::FEWEST,
            size: short::PIECE,
            is_expected: &is_expected,
            most: short::most_of(records.len()),
        };
        let mut loader = checkout.loader()?;
        let is_checked = settings.depth == Depth::Checked;
        let checked = Settings {
            depth: Depth::Checked,
            ..settings
        };
        if let Some(gathered) = loader.load_in_pieces(location, at, checked, pieces)? {
            let chosen = backends.map(|backends| backend::choose(&gathered.site.design, backends));
            // The place of what a backend refuses may be in any file.
            if let Ok(backends) = chosen.transpose() {
                if is_checked {
                    tell_warnings(context, gathered.warnings);
                }
                return Ok(Self {
                    loader,
                    site: gathered.site,
                    backends,
                    settled: Some(gathered.settled),
                });
            }
        }
        let mut loader = checkout.loader()?;
        let site = match is_checked {
            true => load_sound(context, &mut loader, location, at, settings)?,
            false => loader.load(location, at, settings)?,
        };
        Ok(Self {
            loader,
            site,
            backends: None,
            settled: None,
        })
    }

    /// The backends of a design of the site.
    pub(in crate::cli) fn choose(
        &mut self,
        design: &Design,
        backends: &backend::Context,
    ) -> Result<Arc<Backends>, Failure> {
        match self.backends.take() {
            Some(chosen) => Ok(chosen),
            None => backend::choose(design, backends)
                .map_err(|error| backend_failure(&error, &self.loader)),
        }
    }

    /// The same site at an older commit, without the files that are what they are now and need no
    /// explanation.
    pub(super) fn load_old(
        &mut self,
        location: &Location,
        commit: CommitId,
        settings: Settings,
    ) -> Result<Site, crate::site::Error> {
        match &self.settled {
            Some(settled) => self
                .loader
                .load_without(location, commit, settings, settled),
            None => self.loader.load(location, At::Commit(commit), settings),
        }
    }
}
