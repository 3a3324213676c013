//! Loads several sites of one repository, of which most files are the same.
//!
//! The way of each is that of [`Loader::load`]. What they have in common is done once: a folder is listed, a file is read and
//! parsed, a document of a shared layer is rendered and checked against its schemas. Two sites are worked out at a time.

use std::sync::Mutex;

use rustc_hash::FxHashSet;

use super::load::{Contents, Loader, Stages};
use super::wanted::{Wanted, load_settings};
use super::{At, Error, Location, Settings, Site};
use crate::design;
use crate::repository::{Entry, Tree};
use crate::telemetry::{Phase, Scope};
use crate::threads;

/// A site on its way.
struct Begun<'l> {
    wanted: Wanted<'l>,
    tree: Tree,
    /// Its files; absent: it is large, and is loaded alone.
    contents: Option<Mutex<Contents>>,
}

impl Loader<'_> {
    /// How many sites are best loaded at once: so many are in memory together.
    pub const TOGETHER: usize = 64;

    /// Lists the files of sites that are going to be loaded at a revision. From then on, the files of the worktree count as
    /// they are now.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn list_all<'l>(
        &mut self,
        sites: impl Iterator<Item = &'l Location> + Clone,
        at: At,
    ) -> Result<(), Error> {
        let revision = match at {
            At::Worktree => None,
            At::Commit(commit) => Some(commit),
        };
        let selections = sites.clone().map(|site| &site.selection);
        let listings = self.files.repository.listings(revision, selections)?;
        self.files.read_once();
        let common = self.common.get_or_insert_default();
        common.list(at, listings, sites);
        Ok(())
    }

    /// Reads sites at a revision, each as [`Loader::load`] does. What they share is done once where
    /// [`Loader::list_all`] has listed them.
    pub fn load_all(
        &mut self,
        sites: &[&Location],
        at: At,
        settings: Settings,
    ) -> Vec<Result<Site, Error>> {
        let _loading = Scope::phase(Phase::Load);
        let trees: Vec<_> = sites.iter().map(|site| self.tree(site, at)).collect();
        self.read_ahead(sites, &trees);
        let sites = sites.iter().zip(trees);
        let begun = sites.map(|(location, tree)| {
            let wanted = Wanted {
                location,
                at,
                settings,
            };
            self.begun(wanted, tree?)
        });
        let begun: Vec<Result<Begun<'_>, Error>> = begun.collect();
        let work: Vec<&Begun<'_>> = begun.iter().flatten().collect();
        let this = &*self;
        let worked = threads::spread(&work, |begun| {
            let mut contents = begun.contents.as_ref()?.lock().ok()?;
            let contents = std::mem::take(&mut *contents);
            let one = (&mut design::alone as design::Others<'_>, 1);
            Some(this.worked_out(&begun.wanted, &begun.tree, contents, one))
        });
        let mut worked = worked.into_iter();
        let all = begun.into_iter().map(|begun| {
            let Begun { wanted, tree, .. } = begun?;
            match worked.next().flatten() {
                None => self.load(wanted.location, at, settings),
                Some(stages) => self.ended(&wanted, &tree, stages?),
            }
        });
        all.collect()
    }

    /// Reads the files of all sites at once, on all threads.
    fn read_ahead(&mut self, sites: &[&Location], trees: &[Result<Tree, Error>]) {
        for is_flat in [false, true] {
            let mut settings = None;
            let mut new: FxHashSet<&Entry> = FxHashSet::default();
            let mut entries = Vec::new();
            for (location, tree) in sites.iter().zip(trees) {
                let Some(tree) = tree.as_ref().ok().filter(|_| location.is_flat == is_flat) else {
                    continue;
                };
                let settings = settings.get_or_insert_with(|| load_settings(location));
                let unknown = tree
                    .entries
                    .iter()
                    .filter(|entry| !self.is_large(tree) && !self.files.is_known(entry, settings));
                entries.extend(unknown.filter(|entry| new.insert(entry)).cloned());
            }
            if let Some(settings) = settings {
                // What cannot be read is an error of each site that has it.
                let _ = self.files.read_ahead(&entries, &settings);
            }
        }
    }

    /// Whether a site may be large, so that its machines are best taken in chunks.
    fn is_large(&self, tree: &Tree) -> bool {
        tree.entries.len() >= self.sizes.fewest
    }

    /// Reads the files of a site.
    fn begun<'l>(&mut self, wanted: Wanted<'l>, tree: Tree) -> Result<Begun<'l>, Error> {
        if self.is_large(&tree) {
            return Ok(Begun {
                wanted,
                tree,
                contents: None,
            });
        }
        let contents = self.contents(&wanted, &tree, &tree.entries)?;
        if let Some(common) = &mut self.common {
            for (file, content) in contents.files.iter().zip(&contents.loaded) {
                common.share(&file.path, content);
            }
        }
        Ok(Begun {
            wanted,
            tree,
            contents: Some(Mutex::new(contents)),
        })
    }

    /// The site that was worked out.
    fn ended(&mut self, wanted: &Wanted<'_>, tree: &Tree, stages: Stages) -> Result<Site, Error> {
        let stages = self.finished(wanted, tree, stages)?;
        let site = stages.into_site(wanted);
        self.keep_names(&site, wanted.settings);
        Ok(site)
    }
}
