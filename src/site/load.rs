//! The way of a site from its files to what they say, each stage reporting all it finds.
//!
//! There is one way, for all callers. The files are listed and told apart: those of machines that nothing depends
//! on need not all be read again and held in memory; they become [`Units`], which have the designs of their machines and
//! nothing else ([`super::units`]). All other files are parsed, rendered, typed and checked, and their machines
//! join those of the units. If a reader needs to be told why a machine is what it is, [`Loader::explain`]
//! takes the files of that machine in too. A site without units is the same with more to do: that is how a small
//! one is loaded, one whose documents are wanted, and one with which anything is wrong.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashSet;

use crate::design::{self, Checking, Design, Documented, Guards, MACHINE, NodeName, Nodes};
use crate::diagnostic::{Diagnostics, Mark, Sources};
use crate::document::{Document, LoadedFile};
use crate::render::{Rendering, render_with};
use crate::repository::{BlobId, CommitId, Entry, Moment, Repository, Tree};
use crate::telemetry::{Phase, in_phase};
use crate::threads::THREADS;

use super::cached;
use super::common::Common;
use super::consequence::Lost;
use super::definition;
use super::files::{Files, unusable};
use super::leaf::addresses;
use super::mask::mask;
use super::names;
use super::sandbox::Sandbox;
use super::unit::finding;
use super::units::{Sizes, Units};
use super::wanted::{
    Listing, Wanted, accepts_duplicates, is_tool, load_settings, options, own_documents, problems,
};
use super::{
    At, Depth, Detail, Error, Location, Settings, Site, SiteFile, Unexplained, UnexplainedFile,
    digest_of,
};

/// The ids of the files are written down again when one in so many was not known.
const REMEMBERED: usize = 64;

/// Loads sites of one repository.
#[derive(Debug)]
pub struct Loader<'a> {
    pub(super) files: Files<'a>,
    silencing: Option<Arc<Guards>>,
    pub(super) sizes: Sizes,
    pub(super) common: Option<Common>,
}

/// The content of the files.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) files: Vec<SiteFile>,
    pub(super) loaded: Vec<Arc<LoadedFile>>,
    pub(super) diagnostics: Diagnostics,
}

/// The results of the files that are no units.
pub(super) struct Stages {
    files: Vec<SiteFile>,
    loaded: Vec<Arc<LoadedFile>>,
    documents: Vec<Arc<Document>>,
    rendering: Rendering,
    design: Documented,
    silencing: Arc<Guards>,
    diagnostics: Diagnostics,
}

impl Stages {
    /// The site that these files are all of.
    pub(super) fn into_site(mut self, wanted: &Wanted<'_>) -> Site {
        self.diagnostics.silence(&self.silencing.policy.silenced);
        let (_, warnings) = self.diagnostics.counts();
        Site {
            location: wanted.location.clone(),
            at: wanted.at,
            digest: digest_of(&self.files),
            files: self.files,
            documents: self.documents,
            rendering: self.rendering,
            design: self.design.design,
            documented_guards: self.design.guards,
            diagnostics: self.diagnostics,
            warnings,
            unexplained: None,
        }
    }
}

impl<'a> Loader<'a> {
    /// A loader that has read nothing yet.
    #[must_use]
    pub fn new(repository: &'a Repository) -> Self {
        Self {
            files: Files::new(repository),
            silencing: None,
            sizes: Sizes::default(),
            common: None,
        }
    }

    /// The same, with warnings silenced by the Policy of a protected revision in the place of each site's own.
    #[must_use]
    pub fn silencing_by(mut self, guards: Option<Arc<Guards>>) -> Self {
        self.silencing = guards;
        self
    }

    /// The same, for sites that are large with fewer machines than usual.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// All texts that were read so far.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.files.sources
    }

    /// The same, to add texts of documents that are of no site.
    pub fn sources_mut(&mut self) -> &mut Sources {
        &mut self.files.sources
    }

    /// Reads a site at a revision. Problems in its documents are in the result.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn load(&mut self, location: &Location, at: At, settings: Settings) -> Result<Site, Error> {
        in_phase(Phase::Load, || self.load_one(location, at, settings))
    }

    fn load_one(&mut self, location: &Location, at: At, settings: Settings) -> Result<Site, Error> {
        let wanted = Wanted {
            location,
            at,
            settings,
        };
        let (moment, began) = (Moment::now(), Instant::now());
        let listing = self.list(location, at)?;
        let may_have_units = settings.detail != Detail::Documents
            && settings.depth != Depth::Rendered
            && listing.tree.problems.is_empty();
        let mut joined = None;
        if may_have_units {
            let repository = self.files.repository;
            let segment = cached::read(repository, location, settings);
            let known = segment.as_ref().and_then(cached::decode);
            let units = Units::find(
                &mut self.files,
                &wanted,
                &listing,
                known.as_ref(),
                self.sizes,
            )?;
            if let Some(units) = units {
                joined = self.join(&wanted, &listing, units, true)?;
            }
        }
        let site = match joined {
            Some(site) => site,
            None => self.whole(&wanted, &listing)?,
        };
        log::info!(
            "`{}` at {at}: {} files, {} documents read, in {:.1?}",
            location.site,
            site.files.len(),
            site.documents.len(),
            began.elapsed()
        );
        self.remember(moment, at, &listing, &site);
        self.keep_names(&site, settings);
        Ok(site)
    }

    /// Keeps the names of a site of the worktree that was checked.
    pub(super) fn keep_names(&self, site: &Site, settings: Settings) {
        if site.at == At::Worktree && settings.depth == Depth::Checked {
            names::keep(self.files.repository, site);
        }
    }

    /// Takes the files in that some machines were made of, so that the site has all that explains them.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn explain(&mut self, site: &mut Site, names: &BTreeSet<&NodeName>) -> Result<(), Error> {
        let Some(unexplained) = site.unexplained.take() else {
            return Ok(());
        };
        let is_wanted = |file: &UnexplainedFile| file.nodes.iter().any(|name| names.contains(name));
        if !unexplained.files.iter().any(is_wanted) {
            site.unexplained = Some(unexplained);
            return Ok(());
        }
        let nodes = &site.design.nodes;
        let units = Units::of(&unexplained, &site.files, nodes, |file| !is_wanted(file));
        let location = site.location.clone();
        let wanted = Wanted {
            location: &location,
            at: site.at,
            settings: Settings {
                depth: Depth::Typed,
                ..unexplained.settings
            },
        };
        let listing = Listing {
            tree: unexplained.tree,
            ids: site.files.iter().map(|file| Some(file.blob)).collect(),
        };
        let joined = self.join(&wanted, &listing, units, false)?;
        let explained = joined.filter(|joined| joined.digest == site.digest);
        *site = match explained {
            Some(mut joined) => {
                joined.diagnostics = std::mem::take(&mut site.diagnostics);
                joined.warnings = site.warnings;
                joined
            }
            // Another process writes while we read.
            None => {
                let settings = Settings {
                    detail: Detail::Documents,
                    ..unexplained.settings
                };
                self.load(&location, site.at, settings)?
            }
        };
        Ok(())
    }

    /// Loads a site again with all of its documents; `None` if it has them.
    ///
    /// # Errors
    ///
    /// As [`Loader::load`].
    pub fn load_documents(&mut self, site: &Site) -> Result<Option<Site>, Error> {
        let unexplained = site.unexplained.as_ref();
        let Some(unexplained) = unexplained.filter(|unexplained| !unexplained.files.is_empty())
        else {
            return Ok(None);
        };
        let settings = Settings {
            detail: Detail::Documents,
            ..unexplained.settings
        };
        self.load(&site.location, site.at, settings).map(Some)
    }

    /// Reads a site at a commit without the files that are as they are in another one, and are not explained there.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn load_beside(
        &mut self,
        other: &Site,
        location: &Location,
        commit: CommitId,
        settings: Settings,
    ) -> Result<Site, Error> {
        let at = At::Commit(commit);
        let mut listing = self.list(location, at)?;
        let alike: FxHashSet<(&str, BlobId)> = other
            .unexplained
            .iter()
            .flat_map(|unexplained| &unexplained.files)
            .map(|file| &other.files[file.position])
            .map(|file| (&*file.path, file.blob))
            .collect();
        let is_needed = |entry: &Entry| {
            let id = entry.blob.map(|blob| (&*entry.path, blob));
            id.is_none_or(|id| !alike.contains(&id))
        };
        Arc::make_mut(&mut listing.tree).entries.retain(is_needed);
        let wanted = Wanted {
            location,
            at,
            settings,
        };
        self.whole(&wanted, &listing)
    }

    /// The files of a site at a revision.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn tree(&self, location: &Location, at: At) -> Result<Tree, Error> {
        let repository = self.files.repository;
        let selection = &location.selection;
        let listings = self.common.as_ref().and_then(|common| common.listings(at));
        let mut tree = match (listings, at) {
            (Some(listings), _) => repository.tree_of(listings, selection)?,
            (None, At::Worktree) => repository.worktree(selection)?,
            (None, At::Commit(commit)) => repository.tree_at(commit, selection)?,
        };
        tree.entries
            .retain(|entry| !is_tool(location.is_flat, &entry.path));
        Ok(tree)
    }

    /// The same, and the ids of their bytes as far as they are known.
    fn list(&self, location: &Location, at: At) -> Result<Listing, Error> {
        let tree = self.tree(location, at)?;
        let ids = match at {
            At::Worktree => self.files.repository.known(&tree.entries),
            At::Commit(_) => tree.entries.iter().map(|entry| entry.blob).collect(),
        };
        Ok(Listing {
            tree: Arc::new(tree),
            ids,
        })
    }

    /// Remembers the ids of the files of the worktree, if many were not known.
    fn remember(&self, moment: Moment, at: At, listing: &Listing, site: &Site) {
        let (entries, ids) = (&listing.tree.entries, &listing.ids);
        let unknown = ids.iter().filter(|id| id.is_none()).count();
        let is_whole = site.files.len() == entries.len();
        if at == At::Worktree && is_whole && unknown * REMEMBERED > entries.len() {
            let blobs = site.files.iter().map(|file| &file.blob);
            self.files
                .repository
                .remember(moment, entries.iter().zip(blobs));
        }
    }

    /// Takes all files through every stage.
    fn whole(&mut self, wanted: &Wanted<'_>, listing: &Listing) -> Result<Site, Error> {
        let (tree, entries) = (&*listing.tree, &listing.tree.entries);
        let stages = self.stages(wanted, tree, entries, &mut design::alone)?;
        Ok(stages.into_site(wanted))
    }

    /// Takes the files that are no units through every stage, and puts both together; `None` if they do not fit
    /// together, or anything is wrong, so that all files have to be taken.
    fn join(
        &mut self,
        wanted: &Wanted<'_>,
        listing: &Listing,
        units: Units<'_>,
        is_kept: bool,
    ) -> Result<Option<Site>, Error> {
        let tree = &*listing.tree;
        let is_unit = units.marks(tree.entries.len());
        let others = tree.entries.iter().zip(&is_unit);
        let entries: Vec<Entry> = others
            .filter(|(_, is_unit)| !**is_unit)
            .map(|(entry, _)| entry.clone())
            .collect();
        let mut settled = None;
        let mut join = |loaded: &Nodes| {
            settled = units.designs(loaded);
            settled.clone().unwrap_or_default()
        };
        let mut stages = self.stages(wanted, tree, &entries, &mut join)?;
        let Some(settled) = settled else {
            return Ok(None);
        };
        let machines = stages.rendering.of_schema(MACHINE).len();
        let all: FxHashSet<_> = stages.diagnostics.iter().filter_map(finding).collect();
        let is_sound = !stages.diagnostics.has_errors() && stages.files.len() == entries.len();
        if units.list.is_empty() && !is_sound {
            return Ok(Some(stages.into_site(wanted)));
        }
        if !is_sound
            || stages.design.nodes.len() != machines + settled.len()
            || !units.found.is_subset(&all)
            || takes_from_one(&stages, &units, &settled)
            || (units.is_new && has_repeated_address(&stages.design.nodes))
        {
            return Ok(None);
        }
        // What the rules found again in the units was counted there.
        let is_own = |mark: Mark| !units.sources.contains(&mark.source.0);
        stages.diagnostics = std::mem::take(&mut stages.diagnostics)
            .into_iter()
            .filter(|each| each.mark.is_none_or(is_own))
            .collect();
        let Some(files) = units.files(&tree.entries, &stages.files) else {
            return Ok(None);
        };
        stages.files = files;
        let loaded = std::mem::take(&mut stages.loaded);
        let mut site = stages.into_site(wanted);
        site.warnings += units.warnings();
        site.unexplained = Some(Unexplained {
            tree: listing.tree.clone(),
            files: units.unexplained(&settled),
            sources: units.sources.clone(),
            settings: wanted.settings,
        });
        let is_written = is_kept && units.is_new && wanted.settings.depth == Depth::Checked;
        drop(units);
        if is_written {
            cached::write(self.files.repository, &site, wanted.settings, &loaded);
        }
        Ok(Some(site))
    }

    /// Takes files through every stage.
    fn stages(
        &mut self,
        wanted: &Wanted<'_>,
        tree: &Tree,
        entries: &[Entry],
        others: design::Others<'_>,
    ) -> Result<Stages, Error> {
        let contents = self.contents(wanted, tree, entries)?;
        let stages = self.worked_out(wanted, tree, contents, (others, THREADS))?;
        self.finished(wanted, tree, stages)
    }

    /// Reads and parses files.
    pub(super) fn contents(
        &mut self,
        wanted: &Wanted<'_>,
        tree: &Tree,
        entries: &[Entry],
    ) -> Result<Contents, Error> {
        let mut diagnostics = unusable(tree);
        let load_settings = load_settings(wanted.location);
        let (files, loaded) = self.files.load(entries, &load_settings, &mut diagnostics)?;
        Ok(Contents {
            files,
            loaded,
            diagnostics,
        })
    }

    /// Renders, types and checks what was read, on so many threads.
    pub(super) fn worked_out(
        &self,
        wanted: &Wanted<'_>,
        tree: &Tree,
        contents: Contents,
        (others, threads): (design::Others<'_>, usize),
    ) -> Result<Stages, Error> {
        let Wanted {
            location, settings, ..
        } = *wanted;
        let Contents {
            files,
            loaded,
            mut diagnostics,
        } = contents;
        let documents = own_documents(location, &files, &loaded);
        let accepts_duplicates = accepts_duplicates(settings, &documents);
        for content in &loaded {
            diagnostics.extend(problems(content, accepts_duplicates));
        }
        let lost = Lost::of(&diagnostics);
        let is_broken = diagnostics.has_errors();
        let cache = self.common.as_ref().map(|common| &common.rendered);
        let mut rendering = render_with(&documents, &options(location, settings), cache);
        let mut found = std::mem::take(&mut rendering.diagnostics);
        if is_broken {
            found = lost.own(found, &documents, &self.files.sources);
        }
        diagnostics.extend(found);

        let is_sound = !diagnostics.has_errors();
        let (mut design, mut found) = self.designed(wanted, &rendering, others, threads);
        if let Some(sandbox) = Sandbox::of(self.files.repository)? {
            // Whatever the documents name, at whatever revision.
            Arc::make_mut(&mut design.guards).backends = sandbox.read(&location.site)?.backends();
        }
        if !is_sound && settings.depth == Depth::Checked {
            found = lost.own(found, &documents, &self.files.sources);
        }
        diagnostics.extend(found);
        let silencing = self.silencing.as_ref().unwrap_or(&design.guards).clone();
        let common = self.common.as_ref();
        let may_be_secret = documents.iter().map(|document| &**document);
        let may_be_secret = may_be_secret
            .filter(|document| common.is_none_or(|common| !common.is_plain(document.mark.source)));
        let diagnostics = mask(diagnostics, may_be_secret, &rendering);
        let repository = self.files.repository;
        let diagnostics =
            definition::judged(diagnostics, repository, wanted, tree, (&files, &loaded))?;
        Ok(Stages {
            files,
            loaded,
            documents,
            rendering,
            design,
            silencing,
            diagnostics,
        })
    }

    /// The design of a rendering, as far as it is wanted, and what is wrong with it.
    fn designed(
        &self,
        wanted: &Wanted<'_>,
        rendering: &Rendering,
        others: design::Others<'_>,
        threads: usize,
    ) -> (Documented, Diagnostics) {
        let rendered: Vec<design::Input<'_>> = rendering
            .documents
            .iter()
            .map(|each| (&*each.document, &each.data))
            .collect();
        let site = wanted.location.site.clone();
        match wanted.settings.depth {
            Depth::Rendered => {
                let empty = Documented {
                    design: Arc::new(Design::empty(site)),
                    guards: Arc::default(),
                };
                (empty, Diagnostics::new())
            }
            Depth::Typed => design::build_among(site, &rendered, others),
            Depth::Checked => {
                let cache = self.common.as_ref().map(|common| &common.checked);
                let checking = Checking { threads, cache };
                design::check_among(site, &rendered, others, checking)
            }
        }
    }

    /// Brings what was found into the form in which it is shown.
    pub(super) fn finished(
        &mut self,
        wanted: &Wanted<'_>,
        tree: &Tree,
        mut stages: Stages,
    ) -> Result<Stages, Error> {
        if wanted.at == At::Worktree {
            stages.diagnostics = self.files.unquoted(stages.diagnostics, tree)?;
        }
        stages.diagnostics.sort(&self.files.sources);
        Ok(stages)
    }
}

/// Whether a document takes something from a machine of a unit.
fn takes_from_one(stages: &Stages, units: &Units<'_>, settled: &[Arc<design::NodeDesign>]) -> bool {
    let substitutions = stages.documents.iter().flat_map(|each| &each.substitutions);
    let mut sources = substitutions
        .map(|each| &each.source.document)
        .filter(|source| *source.schema == *MACHINE)
        .peekable();
    if units.list.is_empty() || sources.peek().is_none() {
        return false;
    }
    let names: FxHashSet<&str> = settled.iter().map(|node| node.name.as_str()).collect();
    sources.any(|source| names.contains(&*source.name))
}

/// Whether two machines have the same address, of which the rules see those only that were loaded.
fn has_repeated_address(nodes: &Nodes) -> bool {
    let mut seen = FxHashSet::default();
    let mut all = nodes.values().flat_map(|node| addresses(node));
    !all.all(|address| seen.insert(address))
}
