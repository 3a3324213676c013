//! Reads and parses the files of a site, on two threads, and never more than a site may have.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::diagnostic::{Diagnostic, Diagnostics, Mark, SourceId, Sources};
use crate::document::{self, LoadSettings, LoadedFile, SiteLimits, decode};
use crate::repository::{BlobId, Content, Entry, Reason, Repository, Tree};
use crate::threads;

use super::{Error, SiteFile};

/// Files that are read ahead at once, within the limits of one site.
const READ_AHEAD: usize = 1000;

enum Fetched {
    Known(SiteFile, Arc<LoadedFile>),
    New(SiteFile, Arc<str>),
    Broken(Box<Diagnostic>),
    /// It, or one before it, is more than a site may have.
    TooMuch,
}

/// The files of one repository that were read, and all their texts.
#[derive(Debug)]
pub(super) struct Files<'a> {
    pub(super) repository: &'a Repository,
    pub(super) sources: Sources,
    /// Those of sites in layers, and those of flat sites, of which documents may leave more out.
    parsed: [FxHashMap<SiteFile, Arc<LoadedFile>>; 2],
    /// The files of the worktree that were read, where each is read once for all sites.
    read: Option<FxHashMap<Entry, Read>>,
}

/// A file of the worktree that was read.
#[derive(Debug)]
enum Read {
    File(SiteFile),
    Broken(Box<Diagnostic>),
}

impl<'a> Files<'a> {
    pub(super) fn new(repository: &'a Repository) -> Self {
        Self {
            repository,
            sources: Sources::new(),
            parsed: Default::default(),
            read: None,
        }
    }

    /// From now on, a file of the worktree that was read is taken as it was, for one site after the other.
    pub(super) fn read_once(&mut self) {
        self.read.get_or_insert_default();
    }

    /// Reads and parses files that several sites are made of. One that cannot be is left to the sites that have it.
    pub(super) fn read_ahead(
        &mut self,
        entries: &[Entry],
        settings: &LoadSettings,
    ) -> Result<(), Error> {
        for some in entries.chunks(READ_AHEAD) {
            self.load(some, settings, &mut Diagnostics::new())?;
        }
        Ok(())
    }

    /// Names files whose text is not held: what marks into them have.
    pub(super) fn name<'p>(&mut self, paths: impl Iterator<Item = &'p Arc<str>>) -> Range<u32> {
        let first = self.sources.len() as u32;
        for path in paths {
            self.sources.add_path(path.clone());
        }
        first..self.sources.len() as u32
    }

    /// Returns diagnostics of files that git does not track without lines of them: a pipeline may have put its
    /// credentials beside the site. What such a file holds that is no document is not named either. The line of a field
    /// that trueup reads is quoted all the same, unless it has a credential: it is part of a document of a site.
    pub(super) fn unquoted(
        &mut self,
        diagnostics: Diagnostics,
        tree: &Tree,
    ) -> Result<Diagnostics, Error> {
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
                let entry = found.ok().map(|at| &entries[at]);
                let place = entry.map_or(&*path, Entry::place);
                // A settled machine has a place in no file, and files of other repositories are committed.
                let is_untracked = !place.is_empty()
                    && !entry.is_some_and(Entry::is_elsewhere)
                    && !self.repository.is_tracked(place)?;
                untracked.insert(mark.source, is_untracked);
            }
        }
        let mut read: HashMap<SourceId, Vec<Mark>> = HashMap::new();
        for diagnostic in diagnostics.iter().filter(|each| is_of_a_field(each)) {
            let related = diagnostic.related.iter().map(|related| related.mark);
            for mark in diagnostic.mark.into_iter().chain(related) {
                read.entry(mark.source).or_default().push(mark);
            }
        }
        for (source, _) in untracked.iter().filter(|(_, is_untracked)| **is_untracked) {
            let marks = read.remove(source).unwrap_or_default();
            self.sources.quote_only(*source, marks);
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
    pub(super) fn load(
        &mut self,
        entries: &[Entry],
        settings: &LoadSettings,
        diagnostics: &mut Diagnostics,
    ) -> Result<(Vec<SiteFile>, Vec<Arc<LoadedFile>>), Error> {
        let limits = SiteLimits::new();
        let known = entries
            .iter()
            .map(|entry| self.known(entry, settings, &limits));
        let known: Vec<Option<Fetched>> = known.collect();
        let unknown = entries.iter().zip(&known);
        let unknown: Vec<&Entry> = unknown
            .filter_map(|(entry, known)| known.is_none().then_some(entry))
            .collect();
        let fetched = threads::map(&unknown, |entry| match limits.is_exceeded() {
            true => Ok(Fetched::TooMuch),
            false => self.fetch(entry, settings, &limits),
        });
        let mut fetched = fetched.into_iter();
        let fetched = known.into_iter().filter_map(|known| match known {
            Some(known) => Some(Ok(known)),
            None => fetched.next(),
        });

        let mut files = Vec::with_capacity(entries.len());
        let mut loaded: Vec<Option<Arc<LoadedFile>>> = Vec::with_capacity(entries.len());
        let mut new: Vec<(usize, SourceId, Arc<str>)> = Vec::new();
        for (entry, each) in entries.iter().zip(fetched) {
            match each? {
                Fetched::Known(file, content) => {
                    files.push(file);
                    loaded.push(Some(content));
                }
                Fetched::New(file, text) => {
                    log::trace!("`{}`: {} bytes", file.path, text.len());
                    if let Some(read) = self.read.as_mut().filter(|_| entry.blob.is_none()) {
                        read.insert(entry.clone(), Read::File(file.clone()));
                    }
                    let source = self.sources.add(file.path.clone(), text.clone());
                    new.push((files.len(), source, text));
                    files.push(file);
                    loaded.push(None);
                }
                Fetched::Broken(problem) => {
                    if let Some(read) = self.read.as_mut().filter(|_| entry.blob.is_none()) {
                        read.insert(entry.clone(), Read::Broken(problem.clone()));
                    }
                    diagnostics.push(*problem);
                }
                Fetched::TooMuch => {}
            }
        }
        let contents = threads::map(&new, |(index, source, text)| {
            if limits.is_exceeded() {
                return LoadedFile::default();
            }
            let settings = settings.of_file(*files[*index].blob.0.as_bytes());
            let content = document::load(*source, text, &settings);
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
            let parsed = &mut self.parsed[usize::from(settings.flat)];
            parsed.insert(files[index].clone(), content.clone());
            loaded[index] = Some(content);
        }
        Ok((files, loaded.into_iter().flatten().collect()))
    }

    /// Whether a file was read before.
    pub(super) fn is_known(&self, entry: &Entry, settings: &LoadSettings) -> bool {
        self.known(entry, settings, &SiteLimits::new()).is_some()
    }

    /// A file that was read before, as it was.
    fn known(
        &self,
        entry: &Entry,
        settings: &LoadSettings,
        limits: &SiteLimits,
    ) -> Option<Fetched> {
        let file = match entry.blob {
            Some(blob) => file_of(entry, blob),
            None => match self.read.as_ref()?.get(entry)? {
                Read::File(file) => file.clone(),
                Read::Broken(problem) => return Some(Fetched::Broken(problem.clone())),
            },
        };
        let content = self.parsed[usize::from(settings.flat)].get(&file)?;
        Some(known(file, content, limits))
    }

    /// A file as far as it has to be read.
    fn fetch(
        &self,
        entry: &Entry,
        settings: &LoadSettings,
        limits: &SiteLimits,
    ) -> Result<Fetched, Error> {
        let limit = settings.limits.file_bytes as u64;
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
        let file = file_of(entry, blob);
        if let Some(content) = self.parsed[usize::from(settings.flat)].get(&file) {
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

/// A file of which the bytes have an id.
pub(super) fn file_of(entry: &Entry, blob: BlobId) -> SiteFile {
    SiteFile {
        path: entry.path.clone(),
        mode: entry.mode,
        blob,
    }
}

/// A file that was read before, as part of this site.
fn known(file: SiteFile, content: &Arc<LoadedFile>, limits: &SiteLimits) -> Fetched {
    let (bytes, values) = content.size;
    limits.take_bytes(bytes);
    limits.take_values(values);
    Fetched::Known(file, content.clone())
}

/// The error for a site that is more than may be loaded; none of it is.
pub(super) fn too_large() -> Diagnostic {
    let message = format!(
        "the files of this site have more than {} MiB or {} values together, those that aliases stand for among them",
        SiteLimits::BYTES >> 20,
        SiteLimits::VALUES
    );
    Diagnostic::error_in("yaml-site-too-large", None, message)
        .hint("nothing of it is read: move other files out of its folders, or make two sites of it")
}

/// Whether a problem is in a field that a schema or a rule expects, in a document.
fn is_of_a_field(diagnostic: &Diagnostic) -> bool {
    let code = diagnostic.code.0;
    code.starts_with("rule-")
        || code.starts_with("reference-")
        || matches!(code, "schema-type" | "schema-value")
}

/// Whether a problem is told in words that are always the same, and name nothing of the file.
fn is_in_fixed_words(diagnostic: &Diagnostic) -> bool {
    matches!(diagnostic.code.0, "yaml-syntax" | "yaml-tab")
}

/// A diagnostic of a file that git does not track.
fn without_content(mut diagnostic: Diagnostic) -> Diagnostic {
    if is_of_a_field(&diagnostic) {
        return diagnostic;
    }
    const UNTRACKED: &str =
        "git does not track this file, so that nothing of it is quoted: `git add` it";
    if is_in_fixed_words(&diagnostic) {
        let own = diagnostic.hint.take().into_iter();
        let both: Vec<String> = own.chain([UNTRACKED.to_owned()]).collect();
        return diagnostic.hint(both.join("; "));
    }
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
        None => diagnostic.hint(UNTRACKED),
    }
}

pub(super) fn unusable(tree: &Tree) -> Diagnostics {
    tree.problems
        .iter()
        .map(|problem| {
            let text = format!("`{}` {}", problem.path, problem.reason);
            let finding = Diagnostic::error_in("file-unusable", Some(&problem.path), text);
            match problem.reason {
                Reason::Submodule => finding.hint(
                    "move the submodule out of the folders of the site, or commit its files in its place",
                ),
                Reason::OtherEnding | Reason::CaseAlone { .. } => finding.as_warning(),
                _ => finding,
            }
        })
        .collect()
}
