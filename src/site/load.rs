//! Reads the files of a site and takes them through every stage, each stage reporting all it finds.
//!
//! Files are read and parsed on two threads; what a stage finds broken is left out of the next one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::design::{self, Design};
use crate::diagnostic::{Diagnostic, Diagnostics, SourceId, Sources};
use crate::document::{LoadSettings, LoadedFile, decode, load};
use crate::render::{self, render};
use crate::repository::{Content, Entry, Repository, Tree, site_digest};

use super::consequence::Lost;
use super::mask::mask;
use super::{At, Depth, Error, Location, Settings, Site, SiteFile};

/// How many threads read and parse.
const THREADS: usize = 2;

/// Loads sites of one repository.
#[derive(Debug)]
pub struct Loader<'a> {
    repository: &'a Repository,
    sources: Sources,
    parsed: HashMap<SiteFile, Arc<LoadedFile>>,
}

enum Fetched {
    Known(SiteFile, Arc<LoadedFile>),
    New(SiteFile, Arc<str>),
    Broken(Box<Diagnostic>),
}

impl<'a> Loader<'a> {
    /// A loader that has read nothing yet.
    #[must_use]
    pub fn new(repository: &'a Repository) -> Self {
        Self {
            repository,
            sources: Sources::new(),
            parsed: HashMap::new(),
        }
    }

    /// All texts that were read so far.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Reads a site at a revision. Problems in its documents are in the result.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn load(&mut self, location: &Location, at: At, settings: Settings) -> Result<Site, Error> {
        let mut tree = match at {
            At::Worktree => self.repository.worktree(&location.selection)?,
            At::Commit(commit) => self.repository.tree_at(commit, &location.selection)?,
        };
        if !location.is_flat {
            tree.entries
                .retain(|entry| !entry.path.split('/').any(|part| part == "tools"));
        }
        let mut diagnostics = unusable(&tree);
        let load_settings = LoadSettings {
            flat: location.is_flat,
            ..LoadSettings::default()
        };
        let (files, loaded) = self.files(&tree.entries, &load_settings, &mut diagnostics)?;

        let mut documents = Vec::new();
        for (file, content) in files.iter().zip(&loaded) {
            diagnostics.extend(content.diagnostics.iter().cloned());
            if *file.path != *location.definition {
                documents.extend(content.documents.iter().cloned());
            }
        }
        let lost = Lost::of(&diagnostics);
        let is_broken = diagnostics.has_errors();
        let options = render::Options {
            allow_missing_sources: settings.allow_missing_sources,
            default_layers: location.is_flat.then(|| vec![Arc::from("site")]),
        };
        let mut rendering = render(&documents, &options);
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
        let design = match settings.depth {
            Depth::Rendered => Design::empty(site),
            Depth::Typed => {
                let (design, found) = design::build(site, &rendered);
                diagnostics.extend(found);
                design
            }
            Depth::Checked => {
                let (design, mut found) = design::check(site, &rendered, THREADS);
                if !is_sound {
                    found = lost.own(found, &documents, &self.sources);
                }
                diagnostics.extend(found);
                design
            }
        };
        let mut diagnostics = mask(
            diagnostics,
            documents.iter().map(|document| &**document),
            &rendering,
        );
        diagnostics.sort(&self.sources);
        let digest = site_digest(files.iter().map(|file| (&*file.path, file.mode, file.blob)));
        Ok(Site {
            location: location.clone(),
            at,
            files,
            digest,
            documents,
            rendering,
            design: Arc::new(design),
            diagnostics,
        })
    }

    /// The files with what is in them, in the order of their paths.
    fn files(
        &mut self,
        entries: &[Entry],
        settings: &LoadSettings,
        diagnostics: &mut Diagnostics,
    ) -> Result<(Vec<SiteFile>, Vec<Arc<LoadedFile>>), Error> {
        let limit = settings.limits.file_bytes as u64;
        let (repository, parsed) = (self.repository, &self.parsed);
        let fetched = on_threads(entries, |entry| {
            fetch(repository, parsed, entry, limit, settings)
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
                    let source = self.sources.add(file.path.clone(), text.clone());
                    new.push((files.len(), source, text));
                    files.push(file);
                    loaded.push(None);
                }
                Fetched::Broken(problem) => diagnostics.push(*problem),
            }
        }
        let contents = on_threads(&new, |(_, source, text)| load(*source, text, settings));
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
}

fn fetch(
    repository: &Repository,
    parsed: &HashMap<SiteFile, Arc<LoadedFile>>,
    entry: &Entry,
    limit: u64,
    settings: &LoadSettings,
) -> Result<Fetched, Error> {
    if let Some(blob) = entry.blob {
        let file = SiteFile {
            path: entry.path.clone(),
            mode: entry.mode,
            blob,
        };
        if let Some(content) = parsed.get(&file) {
            return Ok(Fetched::Known(file, content.clone()));
        }
    }
    let Content { blob, bytes } = match repository.read(entry, limit) {
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
    if let Some(content) = parsed.get(&file) {
        return Ok(Fetched::Known(file, content.clone()));
    }
    Ok(match decode(&entry.path, &bytes, &settings.limits) {
        Ok(text) => Fetched::New(file, text),
        Err(problem) => Fetched::Broken(problem),
    })
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

/// Maps a list on up to [`THREADS`] threads, in order; each takes the next item that nobody has, since
/// files differ in size. A short list is not worth a thread.
fn on_threads<T: Sync, R: Send>(list: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if list.len() < 16 {
        return list.iter().map(work).collect();
    }
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
