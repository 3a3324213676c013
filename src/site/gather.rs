//! Loads or keeps a large site piece by piece ([`super::pieces`]): with all that a run needs of it, or as
//! the summaries that a plan needs which knows what was seen.

use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashSet;

use crate::design::MACHINE;
use crate::repository::{BlobId, Moment};

use super::kept::{Kept, settled_files};
use super::load::Loader;
use super::pieces::{Joined, Pieces, finding};
use super::{At, Depth, Error, Listing, Location, Settings, Site};

/// A site that was loaded piece by piece: all of its design, and the documents of what was no piece.
#[derive(Debug)]
pub struct Gathered {
    /// The site. Its files and its digest are of all of it; its documents, their rendering and the
    /// diagnostics are without the files that were taken piece by piece, in which nothing is wrong.
    pub site: Site,
    /// The warnings in all of it.
    pub warnings: usize,
    /// The files that were taken piece by piece.
    pub settled: FxHashSet<(Arc<str>, BlobId)>,
}

impl Loader<'_> {
    /// Reads the site in the worktree piece by piece and keeps it, where its machines are, nearly all of
    /// them, as they are expected to be. `None` where it has to be loaded as a whole.
    ///
    /// # Errors
    ///
    /// A folder or a file cannot be read.
    pub fn gather(
        &mut self,
        location: &Location,
        settings: Settings,
        pieces: Pieces<'_>,
    ) -> Result<Option<(Kept, Listing)>, Error> {
        let moment = Moment::now();
        let Some(entries) = self.entries(location)? else {
            return Ok(None);
        };
        let Some(apart) = self.apart(location, entries)? else {
            return Ok(None);
        };
        if apart.candidates.len() < pieces.fewest {
            return Ok(None);
        }
        let joined = self.in_pieces(location, settings, pieces, apart, false)?;
        let Some((joined, listing)) = joined else {
            return Ok(None);
        };
        let kept = Kept::put(self.repository(), location, settings, joined.segment);
        self.repository().remember(moment, listing.blobs());
        Ok(Some((kept, listing)))
    }

    /// Checks a site at a revision piece by piece. Machines that are not as they are expected to be are
    /// loaded with all that they were made of, and so is what is no machine. `None` where the site has
    /// to be loaded as a whole, which also says what is wrong with it.
    ///
    /// Machines of files that were taken piece by piece have no hops to what they were made of, and their
    /// marks tell little: a path, or that of another machine which says the same.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn load_in_pieces(
        &mut self,
        location: &Location,
        at: At,
        settings: Settings,
        pieces: Pieces<'_>,
    ) -> Result<Option<Gathered>, Error> {
        let (moment, began) = (Moment::now(), Instant::now());
        let tree = self.tree(location, at)?;
        if !tree.problems.is_empty() || settings.depth != Depth::Checked {
            return Ok(None);
        }
        if tree.entries.len() < pieces.fewest {
            return Ok(None);
        }
        let Some(apart) = self.apart(location, tree.entries)? else {
            return Ok(None);
        };
        if apart.candidates.len() < pieces.fewest {
            return Ok(None);
        }
        let joined = self.in_pieces(location, settings, pieces, apart, true)?;
        let Some((joined, listing)) = joined else {
            return Ok(None);
        };
        let Joined {
            segment,
            load,
            settled,
            warnings,
            found,
            sources,
        } = joined;
        let count = settled.len();
        let site = self.load_listed(location, at, settings, &listing, &load, settled)?;
        let Some(mut site) = site else {
            return Ok(None);
        };
        // Of two machines of one name, one would be lost.
        let machines = site.rendering.of_schema(MACHINE).len();
        let all: FxHashSet<_> = site.diagnostics.iter().filter_map(finding).collect();
        if site.diagnostics.has_errors()
            || site.design.nodes.len() != machines + count
            || !found.is_subset(&all)
        {
            return Ok(None);
        }
        let settled = settled_files(&listing, &load);
        // What the rules found in the pieces again was counted there.
        let diagnostics = std::mem::take(&mut site.diagnostics);
        site.diagnostics = diagnostics
            .into_iter()
            .filter(|each| {
                each.mark
                    .is_none_or(|mark| !sources.contains(&mark.source.0))
            })
            .collect();
        let (_, own) = site.diagnostics.counts();
        log::info!(
            "`{}` at {at}: {} files, piece by piece, in {:.1?}",
            location.site,
            load.len(),
            began.elapsed()
        );
        Kept::put(self.repository(), location, settings, segment);
        if at == At::Worktree {
            self.repository().remember(moment, listing.blobs());
        }
        Ok(Some(Gathered {
            site,
            warnings: own + warnings,
            settled,
        }))
    }
}
