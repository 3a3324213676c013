//! Reads the files of a site and takes them through every stage, each stage reporting all it finds.
//!
//! Files are read and parsed on two threads; what a stage finds broken is left out of the next one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustc_hash::FxHashSet;

use crate::design::{self, Design, NodeDesign};
use crate::diagnostic::{Diagnostic, Diagnostics, SourceId, Sources};
use crate::document::{Document, LoadSettings, LoadedFile, SiteLimits, decode, load};
use crate::render::{self, render};
use crate::repository::{BlobId, CommitId, Content, Entry, Moment, Repository, Tree};

use super::consequence::Lost;
use super::guards::Guards;
use super::kept::{Kept, Parts};
use super::mask::mask;
use super::{At, Depth, Error, Listing, Location, Settings, Site, SiteFile, digest_of};

/// How many threads read and parse.
const THREADS: usize = 2;

/// The ids of the files are written down again when one in so many had to be read.
const REMEMBERED: usize = 64;

/// Loads sites of one repository.
#[derive(Debug)]
pub struct Loader<'a> {
    repository: &'a Repository,
    sources: Sources,
    parsed: HashMap<SiteFile, Arc<LoadedFile>>,
    guards: Option<Arc<Guards>>,
}

enum Fetched {
    Known(SiteFile, Arc<LoadedFile>),
    New(SiteFile, Arc<str>),
    Broken(Box<Diagnostic>),
    /// It, or one before it, is more than a site may have.
    TooMuch,
}

impl<'a> Loader<'a> {
    /// A loader that has read nothing yet.
    #[must_use]
    pub fn new(repository: &'a Repository) -> Self {
        Self {
            repository,
            sources: Sources::new(),
            parsed: HashMap::new(),
            guards: None,
        }
    }

    /// The same, with the guards of every design that it loads taken from a protected revision.
    #[must_use]
    pub fn with_guards(mut self, guards: Option<Arc<Guards>>) -> Self {
        self.guards = guards;
        self
    }

    pub(super) fn repository(&self) -> &'a Repository {
        self.repository
    }

    /// All texts that were read so far.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    pub(super) fn sources_mut(&mut self) -> &mut Sources {
        &mut self.sources
    }

    /// Reads a site at a revision. Problems in its documents are in the result.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn load(&mut self, location: &Location, at: At, settings: Settings) -> Result<Site, Error> {
        let (moment, began) = (Moment::now(), Instant::now());
        let tree = self.tree(location, at)?;
        let (site, loaded) = self.load_tree(location, at, settings, &tree, Vec::new())?;
        log::info!(
            "`{}` at {at}: {} files, {} documents, in {:.1?}",
            location.site,
            site.files.len(),
            site.documents.len(),
            began.elapsed()
        );
        if settings.depth == Depth::Checked {
            Kept::write(self.repository, &site, settings, &loaded);
        }
        if at == At::Worktree && site.files.len() == tree.entries.len() {
            let files = tree.entries.iter().zip(&site.files);
            let blobs = files.map(|(entry, file)| (entry, file.blob));
            self.repository.remember(moment, blobs);
        }
        Ok(site)
    }

    /// The files of a site in the worktree and their ids; only those are read that have changed since
    /// they were read last. `None` where a file cannot be used, so that the site cannot either, or is
    /// none of the site's.
    ///
    /// # Errors
    ///
    /// A folder or a file cannot be read.
    pub fn list(&self, location: &Location) -> Result<Option<Listing>, Error> {
        let moment = Moment::now();
        let Some(entries) = self.entries(location)? else {
            return Ok(None);
        };
        let limit = LoadSettings::default().limits.file_bytes as u64;
        let known = self.repository.known(&entries);
        let limits = SiteLimits::new();
        let mut files = Vec::with_capacity(entries.len());
        let mut read = 0;
        for (entry, known) in entries.iter().zip(known) {
            let blob = match known {
                Some(blob) => blob,
                None => match self.repository.read(entry, limit) {
                    Ok(content) if limits.take_bytes(content.bytes.len() as u64) => {
                        read += 1;
                        content.blob
                    }
                    Ok(_) => return Ok(None),
                    Err(crate::repository::Error::TooLarge { .. }) => return Ok(None),
                    Err(error) => return Err(error.into()),
                },
            };
            files.push(SiteFile {
                path: entry.path.clone(),
                mode: entry.mode,
                blob,
            });
        }
        let listing = Listing::new(entries, files);
        if read * REMEMBERED > listing.files.len() {
            self.repository.remember(moment, listing.blobs());
        }
        Ok(Some(listing))
    }

    /// What is in the worktree; `None` where anything is there that cannot be used, or is none of the
    /// site's.
    pub(super) fn entries(&self, location: &Location) -> Result<Option<Vec<Entry>>, Error> {
        let tree = self.repository.worktree(&location.selection)?;
        let is_tool = |entry: &Entry| is_tool(location, &entry.path);
        let is_plain = tree.problems.is_empty() && !tree.entries.iter().any(is_tool);
        Ok(is_plain.then_some(tree.entries))
    }

    /// Reads a part of a site in the worktree, among machines that are settled; `None` where the parts
    /// do not fit together, and the whole has to be loaded. The files and the digest are the whole
    /// site's, and so is the number of warnings that is given with it.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn load_part(
        &mut self,
        location: &Location,
        settings: Settings,
        listing: &Listing,
        kept: &Kept,
        parts: &mut Parts,
    ) -> Result<Option<(Site, usize)>, Error> {
        let settled = std::mem::take(&mut parts.settled);
        let (at, load, count) = (At::Worktree, &parts.load, settled.len());
        let began = Instant::now();
        let site = self.load_listed(location, at, settings, listing, load, settled)?;
        log::info!(
            "`{}` at {at}: {} of {} files read, the others as they were, in {:.1?}",
            location.site,
            load.iter().filter(|load| **load).count(),
            load.len(),
            began.elapsed()
        );
        let site = site.filter(|site| parts.fit(kept, site, &self.sources, count));
        Ok(site.map(|site| {
            let (_, warnings) = site.diagnostics.counts();
            (site, warnings + parts.warnings)
        }))
    }

    /// Reads some files of a site, among machines that are settled; `None` where they are not what was
    /// listed any more. The files and the digest are the whole site's.
    pub(super) fn load_listed(
        &mut self,
        location: &Location,
        at: At,
        settings: Settings,
        listing: &Listing,
        load: &[bool],
        settled: Vec<Arc<NodeDesign>>,
    ) -> Result<Option<Site>, Error> {
        let entries = listing.entries.iter().zip(load);
        let tree = Tree {
            revision: None,
            entries: entries
                .filter(|(_, load)| **load)
                .map(|(entry, _)| entry.clone())
                .collect(),
            problems: Vec::new(),
        };
        let (mut site, _) = self.load_tree(location, at, settings, &tree, settled)?;
        // Whoever writes while we read gets the long way.
        let mut expected = listing.files.iter().zip(load);
        let is_as_listed = site.files.iter().all(|file| {
            let next = expected.find(|(_, load)| **load);
            next.is_some_and(|(listed, _)| listed == file)
        });
        if !is_as_listed {
            return Ok(None);
        }
        site.files.clone_from(&listing.files);
        site.digest = listing.digest.clone();
        Ok(Some(site))
    }

    /// Reads a part of a site at a commit: all files but those.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn load_without(
        &mut self,
        location: &Location,
        commit: CommitId,
        settings: Settings,
        left_out: &FxHashSet<(Arc<str>, BlobId)>,
    ) -> Result<Site, Error> {
        let mut tree = self.tree(location, At::Commit(commit))?;
        tree.entries.retain(|entry| {
            let id = entry.blob.map(|blob| (entry.path.clone(), blob));
            id.is_none_or(|id| !left_out.contains(&id))
        });
        let (at, began) = (At::Commit(commit), Instant::now());
        let (site, _) = self.load_tree(location, at, settings, &tree, Vec::new())?;
        log::info!(
            "`{}` at {at}: the {} files that differ, in {:.1?}",
            location.site,
            site.files.len(),
            began.elapsed()
        );
        Ok(site)
    }

    /// The files of a site at a revision.
    pub(super) fn tree(&self, location: &Location, at: At) -> Result<Tree, Error> {
        let mut tree = match at {
            At::Worktree => self.repository.worktree(&location.selection)?,
            At::Commit(commit) => self.repository.tree_at(commit, &location.selection)?,
        };
        tree.entries.retain(|entry| !is_tool(location, &entry.path));
        Ok(tree)
    }

    /// Takes files through every stage.
    fn load_tree(
        &mut self,
        location: &Location,
        at: At,
        settings: Settings,
        tree: &Tree,
        settled: Vec<Arc<NodeDesign>>,
    ) -> Result<(Site, Vec<Arc<LoadedFile>>), Error> {
        let mut diagnostics = unusable(tree);
        let load_settings = load_settings(location);
        let (files, loaded) = self.files(&tree.entries, &load_settings, &mut diagnostics)?;

        for content in &loaded {
            diagnostics.extend(content.diagnostics.iter().cloned());
        }
        let documents = own_documents(location, &files, &loaded);
        let lost = Lost::of(&diagnostics);
        let is_broken = diagnostics.has_errors();
        let mut rendering = render(&documents, &options(location, settings));
        let mut found = std::mem::take(&mut rendering.diagnostics);
        if is_broken {
            found = lost.own(found, &documents, &self.sources);
        }
        diagnostics.extend(found);

        let rendered: Vec<design::Input<'_>> = rendering
            .documents
            .iter()
            .map(|each| (&*each.document, &each.data))
            .collect();
        let is_sound = !diagnostics.has_errors();
        let site = location.site.clone();
        let mut design = match settings.depth {
            Depth::Rendered => Design::empty(site),
            Depth::Typed => {
                let (design, found) = design::build(site, &rendered);
                diagnostics.extend(found);
                design
            }
            Depth::Checked => {
                let (design, mut found) = design::check_among(site, &rendered, settled, THREADS);
                if !is_sound {
                    found = lost.own(found, &documents, &self.sources);
                }
                diagnostics.extend(found);
                design
            }
        };
        if let Some(guards) = &self.guards {
            guards.put_into(&mut design, &rendering);
        }
        let mut diagnostics = mask(
            diagnostics,
            documents.iter().map(|document| &**document),
            &rendering,
        );
        if at == At::Worktree {
            diagnostics = self.unquoted(diagnostics, tree)?;
        }
        diagnostics.sort(&self.sources);
        let digest = digest_of(&files);
        let site = Site {
            location: location.clone(),
            at,
            files,
            digest,
            documents,
            rendering,
            design: Arc::new(design),
            diagnostics,
        };
        Ok((site, loaded))
    }

    /// The same diagnostics without the lines of files that git does not track: a pipeline may have put its
    /// credentials beside the site. What such a file holds that is no document is not named either.
    fn unquoted(&mut self, diagnostics: Diagnostics, tree: &Tree) -> Result<Diagnostics, Error> {
        let mut untracked: HashMap<SourceId, bool> = HashMap::new();
        for diagnostic in &diagnostics {
            let related = diagnostic.related.iter().map(|related| related.mark);
            for mark in diagnostic.mark.into_iter().chain(related) {
                if untracked.contains_key(&mark.source) {
                    continue;
                }
                let path = self.sources.path(mark.source);
                let entries = &tree.entries;
                let found = entries.binary_search_by(|entry| entry.path.cmp(&path));
                let place = found.map_or(&*path, |at| entries[at].place());
                // A settled machine has a place in no file.
                let is_untracked = !place.is_empty() && !self.repository.is_tracked(place)?;
                untracked.insert(mark.source, is_untracked);
                if is_untracked {
                    self.sources.never_quote(mark.source);
                }
            }
        }
        let is_untracked = |diagnostic: &Diagnostic| {
            let mark = diagnostic.mark;
            mark.is_some_and(|mark| untracked.get(&mark.source) == Some(&true))
        };
        Ok(diagnostics
            .into_iter()
            .map(|diagnostic: Diagnostic| match is_untracked(&diagnostic) {
                true => without_content(diagnostic),
                false => diagnostic,
            })
            .collect())
    }

    /// The files with what is in them, in the order of their paths.
    pub(super) fn files(
        &mut self,
        entries: &[Entry],
        settings: &LoadSettings,
        diagnostics: &mut Diagnostics,
    ) -> Result<(Vec<SiteFile>, Vec<Arc<LoadedFile>>), Error> {
        let limit = settings.limits.file_bytes as u64;
        let limits = SiteLimits::new();
        let fetched = on_threads(entries, |entry| match limits.is_exceeded() {
            true => Ok(Fetched::TooMuch),
            false => self.fetch(entry, limit, settings, &limits),
        });

        let mut files = Vec::with_capacity(entries.len());
        let mut loaded: Vec<Option<Arc<LoadedFile>>> = Vec::with_capacity(entries.len());
        let mut new: Vec<(usize, SourceId, Arc<str>)> = Vec::new();
        for each in fetched {
            match each? {
                Fetched::Known(file, content) => {
                    files.push(file);
                    loaded.push(Some(content));
                }
                Fetched::New(file, text) => {
                    log::trace!("`{}`: {} bytes", file.path, text.len());
                    let source = self.sources.add(file.path.clone(), text.clone());
                    new.push((files.len(), source, text));
                    files.push(file);
                    loaded.push(None);
                }
                Fetched::Broken(problem) => diagnostics.push(*problem),
                Fetched::TooMuch => {}
            }
        }
        let contents = on_threads(&new, |(_, source, text)| {
            if limits.is_exceeded() {
                return LoadedFile::default();
            }
            let content = load(*source, text, settings);
            limits.take_values(content.size.1);
            content
        });
        if limits.is_exceeded() {
            diagnostics.push(too_large());
            return Ok((Vec::new(), Vec::new()));
        }
        for ((index, source, _), content) in new.into_iter().zip(contents) {
            for (start, end) in &content.secret {
                self.sources.hide(source, *start, *end);
            }
            let content = Arc::new(content);
            self.parsed.insert(files[index].clone(), content.clone());
            loaded[index] = Some(content);
        }
        Ok((files, loaded.into_iter().flatten().collect()))
    }

    /// A file as far as it has to be read; what was read before is as it was.
    fn fetch(
        &self,
        entry: &Entry,
        limit: u64,
        settings: &LoadSettings,
        limits: &SiteLimits,
    ) -> Result<Fetched, Error> {
        if let Some(blob) = entry.blob {
            let file = SiteFile {
                path: entry.path.clone(),
                mode: entry.mode,
                blob,
            };
            if let Some(content) = self.parsed.get(&file) {
                return Ok(known(file, content, limits));
            }
        }
        let Content { blob, bytes } = match self.repository.read(entry, limit) {
            Ok(content) => content,
            Err(crate::repository::Error::TooLarge { size, limit, .. }) => {
                return Ok(Fetched::Broken(Box::new(
                Diagnostic::error_in(
                    "yaml-file-too-large",
                    Some(&entry.path),
                    format!("the file has {size} bytes; at most {limit} are read"),
                )
                .hint("split it: a file may hold any number of documents, and a site any number of files"),
            )));
            }
            Err(error) => return Err(error.into()),
        };
        let file = SiteFile {
            path: entry.path.clone(),
            mode: entry.mode,
            blob,
        };
        if let Some(content) = self.parsed.get(&file) {
            return Ok(known(file, content, limits));
        }
        if !limits.take_bytes(bytes.len() as u64) {
            return Ok(Fetched::TooMuch);
        }
        Ok(match decode(&entry.path, &bytes, &settings.limits) {
            Ok(text) => Fetched::New(file, text),
            Err(problem) => Fetched::Broken(problem),
        })
    }
}

/// A file that was read before, as part of this site.
fn known(file: SiteFile, content: &Arc<LoadedFile>, limits: &SiteLimits) -> Fetched {
    let (bytes, values) = content.size;
    limits.take_bytes(bytes);
    limits.take_values(values);
    Fetched::Known(file, content.clone())
}

/// How files are read.
pub(super) fn load_settings(location: &Location) -> LoadSettings {
    LoadSettings {
        flat: location.is_flat,
        ..LoadSettings::default()
    }
}

/// How documents are rendered.
pub(super) fn options(location: &Location, settings: Settings) -> render::Options {
    render::Options {
        allow_missing_sources: settings.allow_missing_sources,
        default_layers: location.is_flat.then(|| vec![Arc::from("site")]),
    }
}

/// The documents of a site. What says that this is a site is none of them; all else in that file is.
pub(super) fn own_documents(
    location: &Location,
    files: &[SiteFile],
    loaded: &[Arc<LoadedFile>],
) -> Vec<Arc<Document>> {
    let mut documents = Vec::new();
    for (file, content) in files.iter().zip(loaded) {
        let is_definition = *file.path == *location.definition;
        let own = content
            .documents
            .iter()
            .filter(|document| !is_definition || *document.id.schema != *design::SITE_DEFINITION);
        documents.extend(own.cloned());
    }
    documents
}

/// Whether a file is none of a site's documents though it lies among them, as Pegleg has it.
fn is_tool(location: &Location, path: &str) -> bool {
    !location.is_flat && path.split('/').any(|part| part == "tools")
}

/// The error for a site that is more than may be loaded; none of it is.
fn too_large() -> Diagnostic {
    let message = format!(
        "the files of this site have more than {} MiB or {} values together, those that aliases stand for among them",
        SiteLimits::BYTES >> 20,
        SiteLimits::VALUES
    );
    Diagnostic::error_in("yaml-site-too-large", None, message).hint(
        "nothing of it is read: take out of its folders what is no part of it, or make two sites of it",
    )
}

/// A diagnostic of a file that git does not track.
fn without_content(mut diagnostic: Diagnostic) -> Diagnostic {
    let code = diagnostic.code.0;
    if code.starts_with("yaml-") || code.starts_with("envelope-") {
        let unnamed = |text: &str| {
            let mut parts = text.split('`');
            let mut clean = parts.next().unwrap_or_default().to_owned();
            while let (Some(_), Some(after)) = (parts.next(), parts.next()) {
                clean.push('…');
                clean.push_str(after);
            }
            clean
        };
        diagnostic.message = unnamed(&diagnostic.message);
        diagnostic.hint = None;
        for related in &mut diagnostic.related {
            related.message = unnamed(&related.message);
        }
    }
    match diagnostic.hint {
        Some(_) => diagnostic,
        None => diagnostic
            .hint("git does not track this file, so that nothing of it is quoted: `git add` it"),
    }
}

fn unusable(tree: &Tree) -> Diagnostics {
    tree.problems
        .iter()
        .map(|problem| {
            Diagnostic::error_in(
                "file-unusable",
                Some(&problem.path),
                format!("`{}` {}", problem.path, problem.reason),
            )
        })
        .collect()
}

/// Maps a list of files on up to [`THREADS`] threads, in order. A short list is not worth a thread.
pub(super) fn on_threads<T: Sync, R: Send>(list: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    match list.len() {
        0..16 => list.iter().map(work).collect(),
        _ => spread(list, work),
    }
}

/// Maps a list on [`THREADS`] threads, in order; each takes the next item that nobody has, since they
/// differ in size.
pub(super) fn spread<T: Sync, R: Send>(list: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut results = Vec::with_capacity(list.len() / THREADS + 1);
        while let Some((position, item)) = {
            let position = next.fetch_add(1, Ordering::Relaxed);
            list.get(position).map(|item| (position, item))
        } {
            results.push((position, work(item)));
        }
        results
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS).map(|_| scope.spawn(take)).collect();
        let mut results = take();
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}
