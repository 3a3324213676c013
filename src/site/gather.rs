//! Keeps a large site piece by piece, so that the trees of all its files are never in memory at once.
//!
//! Files that look as if they held machines only are taken a thousand or more at a time, among the documents
//! of all other files; each piece is rendered and checked by itself, on its own thread, and only the
//! summaries of its machines stay. What is kept is what [`Kept`] has of the site that is loaded as a whole.
//!
//! That is so since nothing that a machine takes up can be in another piece: what is no machine is in none
//! of them, and takes nothing from machines. Rules about several machines are checked when the rest of the
//! site is loaded among the summaries, and addresses here. Where anything is found to be otherwise, or
//! wrong, nothing comes of it, and the whole site has to be loaded.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::design::{self, MACHINE, NodeDesign};
use crate::diagnostic::{Diagnostics, Severity, SourceId, Sources};
use crate::document::{Document, LoadSettings, decode, load};
use crate::render::render;
use crate::repository::{Entry, Moment};

use super::kept::{self, Kept, Nodes};
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
struct Candidate {
    /// Its position among the files of the site.
    position: usize,
    path: Arc<str>,
    text: Arc<str>,
}

/// What every piece is rendered with, and how.
struct Rest<'a> {
    documents: Vec<Arc<Document>>,
    sources: &'a Sources,
    location: &'a Location,
    settings: Settings,
    load_settings: LoadSettings,
}

/// What is kept of a piece: of each file its position, its mark, and how many machines are kept of it.
struct Piece {
    files: Vec<(usize, u32, usize)>,
    nodes: Nodes,
    /// Addresses of all machines in it.
    addresses: Vec<IpAddr>,
    /// Addresses of machines in the rest.
    others: Vec<IpAddr>,
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
        let load_settings = load_settings(location);
        let limit = load_settings.limits.file_bytes as u64;
        let (mut files, mut candidates) = (Vec::with_capacity(entries.len()), Vec::new());
        let mut rest = Vec::new();
        let repository = self.repository();
        let contents = on_threads(&entries, |entry| {
            let content = match repository.read(entry, limit) {
                Ok(content) => content,
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
                }),
                None => rest.push(entry.clone()),
            }
            files.push(SiteFile {
                path: entry.path.clone(),
                mode: entry.mode,
                blob,
            });
        }
        if candidates.len() < pieces.fewest {
            return Ok(None);
        }
        let listing = Listing::new(entries, files);
        let segment = self.in_pieces(location, settings, pieces, &listing, &rest, candidates)?;
        let Some(segment) = segment else {
            return Ok(None);
        };
        let kept = Kept::put(self.repository(), location, settings, segment);
        self.repository().remember(moment, listing.blobs());
        Ok(Some((kept, listing)))
    }

    /// The bytes of what is kept of a site; `rest`: what does not seem to hold machines only.
    fn in_pieces(
        &mut self,
        location: &Location,
        settings: Settings,
        pieces: Pieces<'_>,
        listing: &Listing,
        rest: &[Entry],
        candidates: Vec<Candidate>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let load_settings = load_settings(location);
        let mut diagnostics = Diagnostics::default();
        let (files, loaded) = self.files(rest, &load_settings, &mut diagnostics)?;
        let documents = own_documents(location, &files, &loaded);
        let takes_from_machine = |document: &Arc<Document>| {
            let mut sources = document.substitutions.iter();
            *document.id.schema != *MACHINE
                && sources.any(|each| *each.source.document.schema == *MACHINE)
        };
        if diagnostics.has_errors() || documents.iter().any(takes_from_machine) {
            return Ok(None);
        }
        let size = pieces.size.max(documents.len() * FILES_PER_DOCUMENT);
        let rest = Rest {
            documents,
            sources: self.sources(),
            location,
            settings,
            load_settings,
        };
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
            let count = |node: &NodeDesign| {
                if !(pieces.is_expected)(node)
                    && unexpected.fetch_add(1, Ordering::Relaxed) >= pieces.most
                {
                    is_over.store(true, Ordering::Relaxed);
                }
            };
            let piece = rest.piece(&candidates, &count);
            is_over.fetch_or(piece.is_none(), Ordering::Relaxed);
            piece
        });
        if is_over.into_inner() {
            return Ok(None);
        }
        Ok(join(parts, listing))
    }
}

impl Rest<'_> {
    /// Renders and checks a piece.
    fn piece(&self, candidates: &[Candidate], count: &dyn Fn(&NodeDesign)) -> Option<Piece> {
        let mut sources = self.sources.clone();
        let mut documents = self.documents.clone();
        let mut warnings: FxHashMap<SourceId, u32> = FxHashMap::default();
        let mut found = Vec::new();
        let mut loaded = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let source = sources.add(candidate.path.clone(), candidate.text.clone());
            warnings.insert(source, 0);
            let content = load(source, &candidate.text, &self.load_settings);
            let mut own = content.documents.iter();
            if !own.all(|document| *document.id.schema == *MACHINE) {
                return None;
            }
            documents.extend(content.documents.iter().cloned());
            found.extend(content.diagnostics.iter().cloned());
            loaded.push(content);
        }
        let mut rendering = render(&documents, &options(self.location, self.settings));
        found.extend(std::mem::take(&mut rendering.diagnostics));
        let rendered = rendering.documents.iter();
        let rendered: Vec<design::Input<'_>> =
            rendered.map(|each| (&*each.document, &each.data)).collect();
        let site = self.location.site.clone();
        let (design, more) = design::check_among(site, &rendered, Vec::new(), 1);
        found.extend(more);
        for diagnostic in found {
            // What is found in the rest may be so only since most machines are not there.
            if let Some(warnings) = warnings.get_mut(&diagnostic.mark?.source) {
                if diagnostic.severity == Severity::Error {
                    return None;
                }
                *warnings += 1;
            }
        }
        let mut piece = Piece {
            files: Vec::with_capacity(candidates.len()),
            nodes: Nodes::default(),
            addresses: Vec::new(),
            others: Vec::new(),
        };
        for (candidate, content) in candidates.iter().zip(&loaded) {
            let before = piece.nodes.len();
            let source = kept::leaf_file(&rendering, &design, content, &mut piece.nodes);
            let mark = source.map_or(0, |source| warnings[&source] + 1);
            let kept = piece.nodes.len() - before;
            piece.files.push((candidate.position, mark, kept));
        }
        for each in rendering.of_schema(MACHINE) {
            let addresses =
                kept::addresses(&each.data).filter_map(|text| text.parse::<IpAddr>().ok());
            if warnings.contains_key(&each.document.mark.source) {
                count(design.nodes.get(&*each.id().name)?);
                piece.addresses.extend(addresses);
            } else {
                piece.others.extend(addresses);
            }
        }
        Some(piece)
    }
}

/// Puts the pieces together; `None` where an address is there twice.
fn join(pieces: Vec<Option<Piece>>, listing: &Listing) -> Option<Vec<u8>> {
    let mut marks = vec![0; listing.files.len()];
    let mut counts = vec![0; listing.files.len()];
    let mut addresses = FxHashSet::default();
    let mut nodes = Nodes::default();
    for (number, piece) in pieces.into_iter().enumerate() {
        let piece = piece?;
        for (position, mark, count) in piece.files {
            marks[position] = mark;
            counts[position] = count;
        }
        if number == 0 {
            addresses.extend(piece.others);
        }
        let mut own = piece.addresses.into_iter();
        if !own.all(|address| addresses.insert(address)) {
            return None;
        }
        nodes.append(piece.nodes);
    }
    let mut end = 0;
    let ends = counts.into_iter().map(|count| {
        end += count;
        end as u32
    });
    Some(kept::segment(&listing.files, marks, ends.collect(), nodes))
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
