//! Loads several sites of one repository, of which most files are the same.
//!
//! The way of each is that of [`Loader::load`]. What they have in common is done once: a folder is listed, a file is read and
//! parsed, a document of a shared layer is rendered and checked against its schemas. Sites are worked out side by side.

use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};

use super::files::spread;
use super::load::{Contents, Loader, Stages};
use super::wanted::{Wanted, load_settings};
use super::{At, Error, Location, Settings, Site};
use crate::design::{self, SchemaCache};
use crate::diagnostic::SourceId;
use crate::document::LoadedFile;
use crate::render::RenderCache;
use crate::repository::{Entry, Listings, Tree};

/// What sites have in common.
#[derive(Debug, Default)]
pub(super) struct Common {
    listings: Vec<(At, Listings)>,
    /// The folders that several sites have.
    folders: FxHashSet<Arc<str>>,
    /// The shared sources, and whether there is nothing secret in the documents of each.
    sources: FxHashMap<SourceId, bool>,
    pub(super) rendered: RenderCache,
    pub(super) checked: SchemaCache,
}

/// A site on its way.
struct Begun<'l> {
    wanted: Wanted<'l>,
    tree: Tree,
    /// What was read of it; absent: it is large, and is loaded alone.
    contents: Option<Mutex<Contents>>,
}

impl Common {
    pub(super) fn listings(&self, at: At) -> Option<&Listings> {
        let mut listings = self.listings.iter();
        listings.find_map(|(listed, each)| (*listed == at).then_some(each))
    }

    /// Whether a file is in a folder that several sites have.
    fn has(&self, path: &str) -> bool {
        let mut ends = path.match_indices('/').map(|(at, _)| at);
        ends.any(|end| self.folders.contains(&path[..end]))
    }

    /// Whether there is nothing secret in the documents of a source.
    pub(super) fn is_plain(&self, source: SourceId) -> bool {
        self.sources.get(&source) == Some(&true)
    }

    /// Shares what is in a file, where it is in a folder that several sites have.
    fn share(&mut self, path: &str, content: &LoadedFile) {
        let Some(first) = content.documents.first() else {
            return;
        };
        let source = first.mark.source;
        if self.sources.contains_key(&source) || !self.has(path) {
            return;
        }
        let mut documents = content.documents.iter();
        let is_plain = !documents.any(|document| document.data.has_secret());
        self.sources.insert(source, is_plain);
        self.rendered.share(source);
        self.checked.share(source);
    }
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
        common.listings.retain(|(listed, _)| *listed != at);
        common.listings.push((at, listings));
        let mut sites_of: FxHashMap<&Arc<str>, usize> = FxHashMap::default();
        for folder in sites.flat_map(|site| site.selection.prefixes()) {
            *sites_of.entry(folder).or_default() += 1;
        }
        let shared = sites_of.into_iter().filter(|(_, sites)| *sites > 1);
        let shared = shared.map(|(folder, _)| folder.clone());
        common.folders.extend(shared);
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
        let worked = spread(&work, |begun| {
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
