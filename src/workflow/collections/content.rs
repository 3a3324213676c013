//! The documents of collections: what is taken, what is wrong with them, and how they are given out.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{CollectionError, Collections, Version};
use crate::design::GUARDS;
use crate::diagnostic::{Diagnostic, Severity, Sources};
use crate::document::{Document, write_yaml};
use crate::repository::CommitId;
use crate::site::{Accept, At, Depth, Detail, Loader, Settings, Site};

/// A problem of documents, as a message of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The stable code of its kind.
    pub code: &'static str,
    /// The text.
    pub message: String,
    /// Whether the documents cannot be used for it.
    pub is_error: bool,
    /// The document, by schema and name.
    pub document: Option<(Arc<str>, Arc<str>)>,
    /// Where, and the way out.
    pub diagnostic: String,
}

/// A site as it was loaded, and the texts of its files.
struct Loaded<'a> {
    site: Site,
    loader: Loader<'a>,
}

impl Loaded<'_> {
    fn sources(&self) -> &Sources {
        self.loader.sources()
    }

    /// The documents of a file.
    fn documents(&self, path: &str) -> Vec<&Arc<Document>> {
        let is_there = |each: &&Arc<Document>| *self.sources().path(each.mark.source) == *path;
        self.site.documents.iter().filter(is_there).collect()
    }

    /// Where a problem is: its file.
    fn path(&self, problem: &Diagnostic) -> Option<Arc<str>> {
        match problem.mark {
            Some(mark) => Some(self.sources().path(mark.source)),
            None => problem.path.clone(),
        }
    }

    fn problem(&self, found: &Diagnostic) -> Problem {
        let rendering = &self.site.rendering;
        let document = found.mark.and_then(|mark| rendering.origin(mark));
        let document = document.and_then(|index| rendering.input(index));
        let place = found
            .mark
            .map(|mark| self.sources().place(mark).to_string());
        let place = place.or_else(|| found.path.as_ref().map(ToString::to_string));
        let parts = [place, found.hint.clone()].into_iter().flatten();
        Problem {
            code: found.code.0,
            message: found.message.clone(),
            is_error: found.severity == Severity::Error,
            document: document.map(|each| (each.id.schema.clone(), each.id.name.clone())),
            diagnostic: parts.collect::<Vec<_>>().join("; "),
        }
    }
}

/// Whether documents of a file could not be read at all.
fn is_unreadable(code: &str) -> bool {
    ["file-", "yaml-", "envelope-"]
        .iter()
        .any(|kind| code.starts_with(kind))
}

impl Collections<'_> {
    fn load(&self, commit: CommitId, depth: Depth) -> Result<Loaded<'_>, CollectionError> {
        let at = At::Commit(commit);
        let location = self.checkout.location_at(at)?;
        let mut loader = self.checkout.loader()?;
        let settings = Settings {
            depth,
            detail: Detail::Documents,
            accept: Accept::default(),
        };
        let site = loader.load(&location, at, settings)?;
        Ok(Loaded { site, loader })
    }

    /// The problems of all documents of a commit.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    pub fn problems(&self, commit: CommitId) -> Result<Vec<Problem>, CollectionError> {
        let loaded = self.load(commit, Depth::Checked)?;
        let found = loaded.site.diagnostics.iter();
        Ok(found.map(|each| loaded.problem(each)).collect())
    }

    /// Refuses what never comes in by the buffer; gives the problems of all documents with a file that was put in.
    pub(super) fn judged(
        &self,
        committed: CommitId,
        tip: CommitId,
        path: &str,
        is_removal: bool,
    ) -> Result<Vec<Problem>, CollectionError> {
        let loaded = self.load(tip, Depth::Checked)?;
        let own = loaded.site.diagnostics.iter();
        let own = own.filter(|found| loaded.path(found).as_deref() == Some(path));
        let unsuitable: Vec<String> = own
            .filter(|found| found.severity == Severity::Error && is_unreadable(found.code.0))
            .map(|found| format!("{}: {}", loaded.problem(found).diagnostic, found.message))
            .collect();
        if !unsuitable.is_empty() {
            return Err(CollectionError::Unsuitable(unsuitable));
        }
        let documents = loaded.documents(path);
        if documents.is_empty() && !is_removal {
            return Err(CollectionError::Unchanged);
        }
        refuse(&documents)?;
        self.refuse_lost_guards(committed, &BTreeSet::from([path.to_owned()]))?;
        let own: BTreeSet<_> = documents
            .iter()
            .map(|each| (&each.id, &each.layer))
            .collect();
        let elsewhere = loaded.site.documents.iter().filter(|each| {
            own.contains(&(&each.id, &each.layer))
                && *loaded.sources().path(each.mark.source) != *path
        });
        let elsewhere: Vec<String> = elsewhere
            .map(|each| {
                format!(
                    "`{}` is in `{}`",
                    each.id,
                    loaded.sources().path(each.mark.source)
                )
            })
            .collect();
        if !elsewhere.is_empty() {
            return Err(CollectionError::Elsewhere(elsewhere));
        }
        let found = loaded.site.diagnostics.iter();
        Ok(found.map(|each| loaded.problem(each)).collect())
    }

    /// Refuses a commit whose files of collections have what never comes in by the buffer, or lose it.
    pub(super) fn refuse_guards(
        &self,
        committed: CommitId,
        new: CommitId,
        paths: &BTreeSet<String>,
    ) -> Result<(), CollectionError> {
        let loaded = self.load(new, Depth::Rendered)?;
        for path in paths {
            refuse(&loaded.documents(path))?;
        }
        self.refuse_lost_guards(committed, paths)
    }

    fn refuse_lost_guards(
        &self,
        committed: CommitId,
        paths: &BTreeSet<String>,
    ) -> Result<(), CollectionError> {
        let loaded = self.load(committed, Depth::Rendered)?;
        for path in paths {
            let documents = loaded.documents(path);
            let guards = documents.iter().find(|each| is_guard(each));
            if let Some(guard) = guards {
                return Err(CollectionError::Refused(format!(
                    "`{path}` has `{}`, which guards the site, and is changed in git only",
                    guard.id
                )));
            }
        }
        Ok(())
    }

    /// The documents of a collection, as YAML.
    ///
    /// # Errors
    ///
    /// There are none.
    pub fn documents(
        &self,
        name: &str,
        version: Version,
        show_secrets: bool,
    ) -> Result<String, CollectionError> {
        let absent = || CollectionError::NoCollection(version);
        let commit = self.commit_of(version)?.ok_or_else(absent)?;
        let files = self.files(commit)?.remove(name).ok_or_else(absent)?;
        if version == Version::Buffer {
            let buffer = self.buffer()?.ok_or_else(absent)?;
            let changed = self.changed_paths(buffer.base, buffer.tip)?;
            if !files.iter().any(|file| changed.contains(&*file.path)) {
                return Err(absent());
            }
        }
        let loaded = self.load(commit, Depth::Rendered)?;
        let mut text = String::new();
        for file in &files {
            for document in loaded.documents(&file.path) {
                text.push_str("---\n");
                let whole = document.with_data(document.data.clone());
                write_yaml(&whole, show_secrets, &mut text);
            }
        }
        Ok(text)
    }

    /// The rendered documents of a version, as YAML.
    ///
    /// # Errors
    ///
    /// There is no such version; the documents cannot be rendered: [`CollectionError::Unsuitable`].
    pub fn rendered(
        &self,
        version: Version,
        show_secrets: bool,
    ) -> Result<String, CollectionError> {
        let commit = self.commit_of(version)?;
        let commit = commit.ok_or(CollectionError::NoVersion(version))?;
        let loaded = self.load(commit, Depth::Rendered)?;
        if loaded.site.diagnostics.has_errors() {
            let errors = loaded.site.diagnostics.iter();
            let errors = errors.filter(|found| found.severity == Severity::Error);
            let texts = errors.map(|found| {
                let Problem {
                    message,
                    diagnostic,
                    ..
                } = loaded.problem(found);
                format!("{diagnostic}: {message}")
            });
            return Err(CollectionError::Unsuitable(texts.collect()));
        }
        let mut text = String::new();
        for document in &loaded.site.rendering.documents {
            text.push_str("---\n");
            write_yaml(&document.envelope(), show_secrets, &mut text);
        }
        Ok(text)
    }
}

fn is_guard(document: &Document) -> bool {
    GUARDS.contains(&&*document.id.schema)
}

/// Refuses documents that guard a site, and those whose content is secret: they would be pushed as they are.
fn refuse(documents: &[&Arc<Document>]) -> Result<(), CollectionError> {
    for document in documents {
        let id = &document.id;
        let why = match () {
            () if is_guard(document) => "guards the site, and is changed in git only",
            () if document.is_encrypted => {
                "is to be stored encrypted, and git would store it as it is"
            }
            () => continue,
        };
        return Err(CollectionError::Refused(format!("`{id}` {why}")));
    }
    Ok(())
}
