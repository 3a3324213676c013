//! Makes units of a large site chunk by chunk, so that the trees of all its files are never in memory at once.
//!
//! A chunk is a thousand or more files that seem to hold machines only. It is rendered and checked by itself,
//! on its own thread, among the documents of all other files, and only the designs of its machines stay.
//!
//! That is so since nothing that a machine takes up can be in another chunk: what is no machine is in none
//! of them, and takes nothing from machines. Rules about several machines are checked when the rest of the
//! site is loaded among what stayed. Where anything is found to be otherwise, or wrong, no unit comes of it.
//!
//! A finding in the rest while most machines are missing may exist for that alone: a finding
//! also without any machine means nothing, and an error that is not has to do with the machines of the chunk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};

use super::files::Files;
use super::leaf::is_leaf;
use super::unit::{Designs, Finding, Unit, finding};
use super::wanted::{Wanted, accepts_duplicates, load_settings, options, own_documents, problems};
use super::{Error, SiteFile};
use crate::design::{self, Design, Documented, MACHINE, NodeDesign, Section, SectionDigest};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity, SourceId};
use crate::document::{Document, LoadSettings, LoadedFile, Node, SiteLimits, load};
use crate::render::{Rendering, render};
use crate::repository::Entry;
use crate::threads::{self, lock};

/// For each document that every chunk is rendered with, a chunk has so many files at least.
const FILES_PER_DOCUMENT: usize = 4;

/// A file that seems to hold machines only.
pub(super) struct Candidate {
    /// Its position among the files of the site.
    pub(super) position: usize,
    pub(super) file: SiteFile,
    pub(super) text: Arc<str>,
    /// The source of marks into it.
    pub(super) source: SourceId,
}

/// The common inputs of the rendering of every chunk.
struct Rest<'a> {
    documents: Vec<Arc<Document>>,
    wanted: &'a Wanted<'a>,
    load_settings: LoadSettings,
    accepts_duplicates: bool,
    /// The limits of the machines of all chunks.
    limits: SiteLimits,
    /// The findings in it without any machine.
    without: FxHashSet<Finding>,
    /// Inventories that many machines have in common.
    inventories: Mutex<FxHashMap<SectionDigest, Arc<Node>>>,
}

/// The result of chunks.
#[derive(Default)]
pub(super) struct Made {
    pub(super) units: Vec<Unit>,
    /// The findings in the rest that are not found without machines.
    pub(super) found: FxHashSet<Finding>,
}

/// Makes units of files, among the others; `None` if anything is wrong.
pub(super) fn units(
    files: &mut Files<'_>,
    wanted: &Wanted<'_>,
    others: &[Entry],
    candidates: Vec<Candidate>,
    size: usize,
) -> Result<Option<Made>, Error> {
    let load_settings = load_settings(wanted.location);
    let mut diagnostics = Diagnostics::default();
    let (others, loaded) = files.load(others, &load_settings, &mut diagnostics)?;
    if diagnostics.has_errors() {
        return Ok(None);
    }
    let documents = own_documents(wanted.location, &others, &loaded);
    let mut rest = Rest {
        accepts_duplicates: accepts_duplicates(wanted.settings, &documents),
        documents,
        wanted,
        load_settings,
        limits: SiteLimits::new(),
        without: FxHashSet::default(),
        inventories: Mutex::default(),
    };
    let (.., found) = rest.checked(&rest.documents);
    rest.without = found.iter().filter_map(finding).collect();
    let size = size.max(rest.documents.len() * FILES_PER_DOCUMENT);
    let mut chunks: Vec<Mutex<Vec<Candidate>>> = Vec::new();
    let mut candidates = candidates.into_iter().peekable();
    while candidates.peek().is_some() {
        chunks.push(Mutex::new(candidates.by_ref().take(size).collect()));
    }
    let is_over = AtomicBool::new(false);
    let chunks = threads::spread(&chunks, |candidates| {
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        // The texts go with their chunk.
        let mut candidates = lock(candidates);
        let chunk = rest.chunk(std::mem::take(&mut candidates));
        is_over.fetch_or(chunk.is_none(), Ordering::Relaxed);
        chunk
    });
    let Some(chunks) = chunks.into_iter().collect::<Option<Vec<Made>>>() else {
        return Ok(None);
    };
    let mut all = Made::default();
    let count = chunks.iter().map(|chunk| chunk.units.len()).sum();
    all.units.reserve_exact(count);
    for chunk in chunks {
        all.units.extend(chunk.units);
        all.found.extend(chunk.found);
    }
    Ok(Some(all))
}

impl Rest<'_> {
    /// Renders and checks documents.
    fn checked(&self, documents: &[Arc<Document>]) -> (Rendering, Documented, Vec<Diagnostic>) {
        let Wanted {
            location, settings, ..
        } = *self.wanted;
        let mut rendering = render(documents, &options(location, settings));
        let mut found: Vec<Diagnostic> = std::mem::take(&mut rendering.diagnostics)
            .into_iter()
            .collect();
        let rendered = rendering.documents.iter();
        let rendered: Vec<design::Input<'_>> =
            rendered.map(|each| (&*each.document, &each.data)).collect();
        let site = location.site.clone();
        let (design, more) = design::check(site, &rendered, 1);
        found.extend(more);
        (rendering, design, found)
    }

    /// Makes units of the files of a chunk that nothing depends on.
    fn chunk(&self, candidates: Vec<Candidate>) -> Option<Made> {
        let mut documents = self.documents.clone();
        let mut warnings: FxHashMap<SourceId, u32> = FxHashMap::default();
        let mut found = Vec::new();
        let mut loaded: Vec<LoadedFile> = Vec::with_capacity(candidates.len());
        for candidate in &candidates {
            warnings.insert(candidate.source, 0);
            let blob = *candidate.file.blob.0.as_bytes();
            let settings = self.load_settings.of_file(blob);
            let content = load(candidate.source, &candidate.text, &settings);
            let mut own = content.documents.iter();
            if !self.limits.take_values(content.size.1)
                || !own.all(|document| *document.id.schema == *MACHINE)
            {
                return None;
            }
            documents.extend(content.documents.iter().cloned());
            found.extend(problems(&content, self.accepts_duplicates));
            loaded.push(content);
        }
        let (rendering, design, more) = self.checked(&documents);
        found.extend(more);
        let mut chunk = Made::default();
        let silenced = &design.guards.policy.silenced;
        for diagnostic in found {
            if diagnostic.is_silenced_by(silenced) {
                continue;
            }
            let finding = finding(&diagnostic)?;
            let is_error = diagnostic.severity == Severity::Error;
            match warnings.get_mut(&finding.2.source) {
                Some(_) if is_error => return None,
                Some(warnings) => *warnings += 1,
                None if self.without.contains(&finding) => {}
                None if is_error => return None,
                None => {
                    chunk.found.insert(finding);
                }
            }
        }
        for (candidate, content) in candidates.into_iter().zip(loaded) {
            if let Some(designs) = self.designs(&content, &rendering, &design) {
                chunk.units.push(Unit {
                    position: candidate.position,
                    file: candidate.file,
                    warnings: warnings[&candidate.source],
                    source: candidate.source,
                    designs: Designs::Made(designs),
                });
            }
        }
        Some(chunk)
    }

    /// The designs of the machines of a file, if nothing depends on any of them.
    fn designs(
        &self,
        content: &LoadedFile,
        rendering: &Rendering,
        design: &Design,
    ) -> Option<Vec<Arc<NodeDesign>>> {
        let documents = content.documents.iter();
        let designs = documents.map(|document| {
            let node = design.nodes.get(&*document.id.name)?;
            is_leaf(document, rendering).then(|| Arc::new(self.unexplained(node)))
        });
        designs.collect()
    }

    /// A design without what only explains it. Inventories are shared: no part of them is hidden if the same digest
    /// is the same inventory.
    fn unexplained(&self, node: &NodeDesign) -> NodeDesign {
        let mut node = NodeDesign {
            depends_on: Vec::new(),
            ..node.clone()
        };
        let section = Section::Inventory;
        if let Some(digest) = node.digests.get(&section)
            && let Some(fields) = node.sections.shared(&section)
            && !fields.has_secret()
        {
            let mut inventories = lock(&self.inventories);
            let shared = inventories.entry(*digest);
            let shared = shared.or_insert_with(|| fields.clone()).clone();
            drop(inventories);
            node.sections.insert(section, shared);
        }
        node
    }
}
