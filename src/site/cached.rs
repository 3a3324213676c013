//! The cache of a sound site, so that most of its files need not be parsed the next time.
//!
//! Nearly all files of a large site hold machines that nothing depends on. What such a file says is a
//! function of its own bytes and of the other files, those that something may depend on. As long as
//! these are unchanged, an unchanged file has the same content.
//!
//! Nothing is kept of a site with errors. Warnings are counted with the file that they point into.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::leaf::is_leaf;
use super::machines::{Collected, Machines};
use super::{Location, Settings, Site, SiteFile, digest_of};
use crate::cache::{Key, Segment};
use crate::design::NodeDesign;
use crate::diagnostic::SourceId;
use crate::document::LoadedFile;
use crate::repository::{Mode, Repository};

/// The cached parts of a site.
#[derive(Serialize, Deserialize)]
pub(super) struct CachedSite<'a> {
    /// The digest of the files that something may depend on.
    pub(super) others: &'a str,
    #[serde(borrow)]
    files: Vec<CachedFile<'a>>,
    #[serde(borrow)]
    pub(super) machines: Machines<'a>,
}

#[derive(Serialize, Deserialize)]
struct CachedFile<'a> {
    path: &'a str,
    mode: u8,
    blob: &'a [u8],
    /// The number of its machines and of its warnings; `None`: something may depend on it.
    leaf: Option<(u32, u32)>,
}

/// A file that is kept.
pub(super) struct Place<'a> {
    pub(super) path: &'a str,
    mode: u8,
    blob: &'a [u8],
    /// Which of the machines that are kept are in it, and its warnings; `None`: something may depend on it.
    pub(super) leaf: Option<(Range<usize>, u32)>,
}

impl Place<'_> {
    /// Whether a file is as it was.
    pub(super) fn is_same(&self, file: &SiteFile) -> bool {
        self.mode == number_of(file.mode) && self.blob == file.blob.0.as_bytes()
    }
}

impl<'a> CachedSite<'a> {
    /// The files, sorted by path.
    pub(super) fn files(&self) -> impl Iterator<Item = Place<'a>> {
        let mut end = 0;
        self.files.iter().map(move |file| {
            let leaf = file.leaf.map(|(machines, warnings)| {
                let start = end;
                end += machines as usize;
                (start..end, warnings)
            });
            Place {
                path: file.path,
                mode: file.mode,
                blob: file.blob,
                leaf,
            }
        })
    }
}

fn key(repository: &Repository, location: &Location, settings: Settings) -> Key {
    let mut key = vec![
        vec![
            u8::from(location.is_flat),
            u8::from(settings.accept.missing_sources),
            u8::from(settings.accept.duplicate_keys),
        ],
        location.site.as_str().as_bytes().to_vec(),
        location.definition.as_bytes().to_vec(),
    ];
    let prefixes = location.selection.prefixes().iter();
    key.extend(prefixes.map(|prefix| prefix.as_bytes().to_vec()));
    let parts = key.iter().map(Vec::as_slice);
    repository.cache().key("site", parts)
}

/// Reads the cached parts of a site; `None` if there are none.
pub(super) fn read(
    repository: &Repository,
    location: &Location,
    settings: Settings,
) -> Option<Segment> {
    let key = key(repository, location, settings);
    repository.cache().read(&key)
}

/// The same, decoded.
pub(super) fn decode(segment: &Segment) -> Option<CachedSite<'_>> {
    let cached: CachedSite<'_> = segment.decode()?;
    let machines = cached.files.iter().filter_map(|file| file.leaf);
    let machines: usize = machines.map(|(machines, _)| machines as usize).sum();
    (machines == cached.machines.len()).then_some(cached)
}

/// Keeps a site that was found sound; `loaded` is what is in its files that are explained.
pub(super) fn write(
    repository: &Repository,
    site: &Site,
    settings: Settings,
    loaded: &[Arc<LoadedFile>],
) {
    if !repository.cache().keeps() {
        return;
    }
    let mut collected = Collected::with_capacity(site.design.nodes.len());
    let (mut files, mut others) = (Vec::with_capacity(site.files.len()), Vec::new());
    for (file, leaf) in site.files.iter().zip(leaves(site, loaded)) {
        let leaf = leaf.filter(|leaf| collected.add(&leaf.nodes));
        if leaf.is_none() {
            others.push(file.clone());
        }
        files.push(CachedFile {
            path: &file.path,
            mode: number_of(file.mode),
            blob: file.blob.0.as_bytes(),
            leaf: leaf.map(|leaf| (leaf.nodes.len() as u32, leaf.warnings)),
        });
    }
    let cached = CachedSite {
        others: &digest_of(&others),
        files,
        machines: collected.finish(),
    };
    let key = key(repository, &site.location, settings);
    repository.cache().write(&key, &cached);
}

/// A file of machines that nothing depends on.
struct Leaf<'a> {
    nodes: Vec<&'a NodeDesign>,
    warnings: u32,
}

/// For each file of a site, what is in it if nothing depends on that.
fn leaves<'a>(
    site: &'a Site,
    loaded: &'a [Arc<LoadedFile>],
) -> impl Iterator<Item = Option<Leaf<'a>>> {
    let mut warnings: FxHashMap<SourceId, u32> = FxHashMap::default();
    for mark in site.diagnostics.iter().filter_map(|each| each.mark) {
        *warnings.entry(mark.source).or_default() += 1;
    }
    let nodes = &site.design.nodes;
    let mut unexplained = site
        .unexplained
        .iter()
        .flat_map(|all| &all.files)
        .peekable();
    let mut loaded = loaded.iter();
    (0..site.files.len()).map(move |position| {
        if let Some(file) = unexplained.next_if(|file| file.position == position) {
            let nodes = file
                .nodes
                .iter()
                .map(|name| nodes.get(name).map(|node| &**node));
            return Some(Leaf {
                nodes: nodes.collect::<Option<_>>()?,
                warnings: file.warnings,
            });
        }
        let content = loaded.next()?;
        let first = content.documents.first()?;
        let mut machines = content.documents.iter().map(|document| {
            let node = nodes.get(&*document.id.name);
            node.filter(|_| is_leaf(document, &site.rendering))
                .map(|node| &**node)
        });
        Some(Leaf {
            nodes: machines.by_ref().collect::<Option<_>>()?,
            warnings: warnings
                .get(&first.mark.source)
                .copied()
                .unwrap_or_default(),
        })
    })
}

fn number_of(mode: Mode) -> u8 {
    match mode {
        Mode::Regular => 0,
        Mode::Executable => 1,
        Mode::Link => 2,
    }
}
