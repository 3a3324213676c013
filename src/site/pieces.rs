//! Takes a large site to pieces, so that the trees of all its files are never in memory at once.
//!
//! Files that look as if they held machines only are taken a thousand or more at a time, among the documents
//! of all other files; each piece is rendered and checked by itself, on its own thread, and only what
//! is wanted of its machines stays: their summaries ([`Kept`](super::Kept)), and their designs.
//!
//! That is so since nothing that a machine takes up can be in another piece: what is no machine is in none
//! of them, and takes nothing from machines. Rules about several machines are checked when the rest of the
//! site is loaded among what stayed, and addresses here. Where anything is found to be otherwise, or
//! wrong, nothing comes of it, and the whole site has to be loaded.
//!
//! What is found in the rest while most machines are not there may be so for that alone: what is found there
//! also without any machine says nothing, and an error that is not has to do with the machines of the piece.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::design::{self, Design, MACHINE, NodeDesign, Section, SectionDigest};
use crate::diagnostic::{Diagnostic, Diagnostics, Mark, Severity, SourceId};
use crate::document::{Document, LoadSettings, Node, SiteLimits, decode, load};
use crate::render::{Rendering, render};
use crate::repository::Entry;

use super::kept::{self, Nodes};
use super::load::{Loader, load_settings, on_threads, options, own_documents, spread};
use super::{Error, Listing, Location, Settings, SiteFile};

/// For each document that every piece is rendered with, a piece has so many files at least.
const FILES_PER_DOCUMENT: usize = 4;

/// How a site is taken to pieces.
#[derive(Clone, Copy)]
pub struct Pieces<'a> {
    /// A site of fewer files that hold machines only is not.
    pub fewest: usize,
    /// Files of a piece, at least.
    pub size: usize,
    /// Whether a machine is as it is expected to be.
    pub is_expected: &'a (dyn Fn(&NodeDesign) -> bool + Sync),
    /// The site is left as soon as more machines than that are not.
    pub most: usize,
}

/// A file that seems to hold machines only.
pub(super) struct Candidate {
    /// Its position among the files of the site.
    position: usize,
    pub(super) path: Arc<str>,
    text: Arc<str>,
    /// What marks into it have.
    source: SourceId,
}

/// The files of a site, those that seem to hold machines only apart from the rest.
pub(super) struct Apart {
    pub(super) listing: Listing,
    pub(super) rest: Vec<Entry>,
    pub(super) candidates: Vec<Candidate>,
}

/// What came of all pieces.
pub(super) struct Joined {
    /// What is kept of the site.
    pub(super) segment: Vec<u8>,
    /// By position in the listing, whether the file has to be loaded beside the designs.
    pub(super) load: Vec<bool>,
    /// The machines of all other files, where designs are wanted.
    pub(super) settled: Vec<Arc<NodeDesign>>,
    /// Warnings in the other files.
    pub(super) warnings: usize,
    /// What was found in the rest that is not found without machines.
    pub(super) found: FxHashSet<Finding>,
    /// The sources of the files that were taken piece by piece.
    pub(super) sources: Range<u32>,
}

/// A problem, as far as it is told from others.
pub(super) type Finding = (&'static str, Mark);

pub(super) fn finding(diagnostic: &Diagnostic) -> Option<Finding> {
    Some((diagnostic.code.0, diagnostic.mark?))
}

/// What every piece is rendered with, and how.
struct Rest<'a> {
    documents: Vec<Arc<Document>>,
    location: &'a Location,
    settings: Settings,
    load_settings: LoadSettings,
    /// What the machines of all pieces may have.
    limits: SiteLimits,
    /// What is found in it without any machine.
    without: FxHashSet<Finding>,
    /// Whether the designs of the machines stay.
    keeps_designs: bool,
    /// Inventories of machines whose designs stay, which many have in common.
    inventories: Mutex<FxHashMap<SectionDigest, Arc<Node>>>,
}

/// What stays of a file.
struct Part {
    position: usize,
    /// 0: something may depend on it; else one more than its warnings.
    mark: u32,
    /// Machines of it that are kept as summaries.
    kept: usize,
    /// Whether its machines are among the designs.
    is_settled: bool,
}

/// What stays of a piece.
struct Piece {
    files: Vec<Part>,
    nodes: Nodes,
    designs: Vec<Arc<NodeDesign>>,
    /// Addresses of all machines in it.
    addresses: Vec<IpAddr>,
    /// Addresses of machines in the rest.
    others: Vec<IpAddr>,
    /// What was found in the rest.
    found: FxHashSet<Finding>,
}

impl Loader<'_> {
    /// Reads files, and tells those that seem to hold machines only from the rest. `None` where one cannot
    /// be used.
    pub(super) fn apart(
        &self,
        location: &Location,
        entries: Vec<Entry>,
    ) -> Result<Option<Apart>, Error> {
        let load_settings = load_settings(location);
        let limit = load_settings.limits.file_bytes as u64;
        let (mut files, mut candidates) = (Vec::with_capacity(entries.len()), Vec::new());
        let mut rest = Vec::new();
        let repository = self.repository();
        let limits = SiteLimits::new();
        let contents = on_threads(&entries, |entry| {
            let content = match repository.read(entry, limit) {
                Ok(content) if limits.take_bytes(content.bytes.len() as u64) => content,
                Ok(_) => return Ok(None),
                Err(crate::repository::Error::TooLarge { .. }) => return Ok(None),
                Err(error) => return Err(Error::from(error)),
            };
            let text = decode(&entry.path, &content.bytes, &load_settings.limits).ok();
            Ok(text.map(|text| (content.blob, seems_machines_only(&text).then_some(text))))
        });
        for (entry, content) in entries.iter().zip(contents) {
            let Some((blob, text)) = content? else {
                return Ok(None);
            };
            match text {
                Some(text) => candidates.push(Candidate {
                    position: files.len(),
                    path: entry.path.clone(),
                    text,
                    source: SourceId(0),
                }),
                None => rest.push(entry.clone()),
            }
            files.push(SiteFile {
                path: entry.path.clone(),
                mode: entry.mode,
                blob,
            });
        }
        Ok(Some(Apart {
            listing: Listing::new(entries, files),
            rest,
            candidates,
        }))
    }

    /// Takes a site through every stage piece by piece; the designs stay of the machines that are as
    /// expected, where designs are wanted.
    pub(super) fn in_pieces(
        &mut self,
        location: &Location,
        settings: Settings,
        pieces: Pieces<'_>,
        apart: Apart,
        keeps_designs: bool,
    ) -> Result<Option<(Joined, Listing)>, Error> {
        let Apart {
            listing,
            rest,
            mut candidates,
        } = apart;
        let load_settings = load_settings(location);
        let mut diagnostics = Diagnostics::default();
        let (files, loaded) = self.files(&rest, &load_settings, &mut diagnostics)?;
        let documents = own_documents(location, &files, &loaded);
        let takes_from_machine = |document: &Arc<Document>| {
            let mut sources = document.substitutions.iter();
            *document.id.schema != *MACHINE
                && sources.any(|each| *each.source.document.schema == *MACHINE)
        };
        if diagnostics.has_errors() || documents.iter().any(takes_from_machine) {
            return Ok(None);
        }
        let first = self.sources().len() as u32;
        let sources = first..first + candidates.len() as u32;
        let nothing: Arc<str> = Arc::from("");
        for (candidate, source) in candidates.iter_mut().zip(sources.clone()) {
            candidate.source = SourceId(source);
            if keeps_designs {
                // Marks into it stay, its text does not.
                self.sources_mut()
                    .add(candidate.path.clone(), nothing.clone());
            }
        }
        let size = pieces.size.max(documents.len() * FILES_PER_DOCUMENT);
        let mut rest = Rest {
            documents,
            location,
            settings,
            load_settings,
            limits: SiteLimits::new(),
            without: FxHashSet::default(),
            keeps_designs,
            inventories: Mutex::default(),
        };
        let (.., found) = rest.checked(&rest.documents);
        rest.without = found.iter().filter_map(finding).collect();
        let mut parts: Vec<Mutex<Vec<Candidate>>> = Vec::new();
        let mut candidates = candidates.into_iter().peekable();
        while candidates.peek().is_some() {
            parts.push(Mutex::new(candidates.by_ref().take(size).collect()));
        }
        let (is_over, unexpected) = (AtomicBool::new(false), AtomicUsize::new(0));
        let parts = spread(&parts, |part| {
            if is_over.load(Ordering::Relaxed) {
                return None;
            }
            // The texts go with their piece.
            let candidates =
                std::mem::take(&mut *part.lock().unwrap_or_else(PoisonError::into_inner));
            let is_expected = |node: &NodeDesign| {
                let is_expected = (pieces.is_expected)(node);
                if !is_expected && unexpected.fetch_add(1, Ordering::Relaxed) >= pieces.most {
                    is_over.store(true, Ordering::Relaxed);
                }
                is_expected
            };
            let piece = rest.piece(&candidates, &is_expected);
            is_over.fetch_or(piece.is_none(), Ordering::Relaxed);
            piece
        });
        if is_over.into_inner() {
            return Ok(None);
        }
        Ok(join(parts, &listing, sources).map(|joined| (joined, listing)))
    }
}

impl Rest<'_> {
    /// Renders and checks documents.
    fn checked(&self, documents: &[Arc<Document>]) -> (Rendering, Design, Vec<Diagnostic>) {
        let mut rendering = render(documents, &options(self.location, self.settings));
        let mut found: Vec<Diagnostic> = std::mem::take(&mut rendering.diagnostics)
            .into_iter()
            .collect();
        let rendered = rendering.documents.iter();
        let rendered: Vec<design::Input<'_>> =
            rendered.map(|each| (&*each.document, &each.data)).collect();
        let site = self.location.site.clone();
        let (design, more) = design::check_among(site, &rendered, Vec::new(), 1);
        found.extend(more);
        (rendering, design, found)
    }

    /// Takes from a design what only explains it. An inventory holds no secret where the file is kept, so that
    /// the same digest is the same inventory.
    fn unexplained(&self, node: &mut NodeDesign) {
        node.depends_on = Vec::new();
        let section = Section::Inventory;
        if let Some(digest) = node.digests.get(&section)
            && let Some(fields) = node.sections.shared(&section)
        {
            let mut inventories = self
                .inventories
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let shared = inventories.entry(*digest);
            let shared = shared.or_insert_with(|| fields.clone()).clone();
            node.sections.insert(section, shared);
        }
    }

    /// Renders and checks a piece.
    fn piece(
        &self,
        candidates: &[Candidate],
        is_expected: &dyn Fn(&NodeDesign) -> bool,
    ) -> Option<Piece> {
        let mut documents = self.documents.clone();
        let mut warnings: FxHashMap<SourceId, u32> = FxHashMap::default();
        let mut found = Vec::new();
        let mut loaded = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let source = candidate.source;
            warnings.insert(source, 0);
            let content = load(source, &candidate.text, &self.load_settings);
            if !self.limits.take_values(content.size.1) {
                return None;
            }
            let mut own = content.documents.iter();
            if !own.all(|document| *document.id.schema == *MACHINE) {
                return None;
            }
            documents.extend(content.documents.iter().cloned());
            found.extend(content.diagnostics.iter().cloned());
            loaded.push(content);
        }
        let (rendering, mut design, more) = self.checked(&documents);
        found.extend(more);
        let mut piece = Piece {
            files: Vec::with_capacity(candidates.len()),
            nodes: Nodes::default(),
            designs: Vec::new(),
            addresses: Vec::new(),
            others: Vec::new(),
            found: FxHashSet::default(),
        };
        for diagnostic in found {
            let finding = finding(&diagnostic)?;
            let own = warnings.get_mut(&finding.1.source);
            let is_error = diagnostic.severity == Severity::Error;
            match own {
                Some(_) if is_error => return None,
                Some(warnings) => *warnings += 1,
                None if self.without.contains(&finding) => {}
                None if is_error => return None,
                None => {
                    piece.found.insert(finding);
                }
            }
        }
        let mut unexpected: FxHashSet<SourceId> = FxHashSet::default();
        for each in rendering.of_schema(MACHINE) {
            let addresses =
                kept::addresses(&each.data).filter_map(|text| text.parse::<IpAddr>().ok());
            let source = each.document.mark.source;
            if warnings.contains_key(&source) {
                if !is_expected(design.nodes.get(&*each.id().name)?) {
                    unexpected.insert(source);
                }
                piece.addresses.extend(addresses);
            } else {
                piece.others.extend(addresses);
            }
        }
        for (candidate, content) in candidates.iter().zip(&loaded) {
            let before = piece.nodes.len();
            let source = kept::leaf_file(&rendering, &design, content, &mut piece.nodes);
            let is_settled =
                self.keeps_designs && source.is_some_and(|source| !unexpected.contains(&source));
            if is_settled {
                for document in &content.documents {
                    let mut node = design.nodes.remove(&*document.id.name)?;
                    self.unexplained(Arc::make_mut(&mut node));
                    piece.designs.push(node);
                }
            }
            piece.files.push(Part {
                position: candidate.position,
                mark: source.map_or(0, |source| warnings[&source] + 1),
                kept: piece.nodes.len() - before,
                is_settled,
            });
        }
        piece.designs.shrink_to_fit();
        Some(piece)
    }
}

/// Puts the pieces together; `None` where an address is there twice.
fn join(pieces: Vec<Option<Piece>>, listing: &Listing, sources: Range<u32>) -> Option<Joined> {
    let mut marks = vec![0; listing.files.len()];
    let mut counts = vec![0; listing.files.len()];
    let mut load = vec![true; listing.files.len()];
    let mut addresses = FxHashSet::default();
    let mut nodes = Nodes::default();
    let (mut settled, mut warnings) = (Vec::new(), 0);
    let mut found = FxHashSet::default();
    for (number, piece) in pieces.into_iter().enumerate() {
        let piece = piece?;
        for part in piece.files {
            marks[part.position] = part.mark;
            counts[part.position] = part.kept;
            if part.is_settled {
                load[part.position] = false;
                warnings += part.mark as usize - 1;
            }
        }
        if number == 0 {
            addresses.extend(piece.others);
        }
        let mut own = piece.addresses.into_iter();
        if !own.all(|address| addresses.insert(address)) {
            return None;
        }
        nodes.append(piece.nodes);
        settled.extend(piece.designs);
        found.extend(piece.found);
    }
    let mut end = 0;
    let ends = counts.into_iter().map(|count| {
        end += count;
        end as u32
    });
    Some(Joined {
        segment: kept::segment(&listing.files, marks, ends.collect(), nodes),
        load,
        settled,
        warnings,
        found,
        sources,
    })
}

/// Whether a file seems to hold machines only, none of which another document could build on. A file of
/// which that seems wrongly is found out when it is parsed.
fn seems_machines_only(text: &str) -> bool {
    let mut holds_any = false;
    for line in text.lines() {
        if let Some(schema) = line.strip_prefix("schema:") {
            if schema.trim().trim_matches(['"', '\'']) != MACHINE {
                return false;
            }
            holds_any = true;
        }
        let line = line.trim_start();
        if [
            "labels:",
            "parentSelector:",
            "abstract: true",
            "replacement: true",
        ]
        .iter()
        .any(|sign| line.starts_with(sign))
        {
            return false;
        }
    }
    holds_any
}
