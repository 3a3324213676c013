//! What is kept of a site that was sound, so that most of its files need not be parsed the next time.
//!
//! Nearly all files of a large site hold machines that nothing depends on. What such a file says is a
//! function of its own bytes and of the other files, those that something may depend on. As long as
//! these are what they were, a file whose bytes are what they were says what it said: its machines are
//! taken from here, as summaries, and only what has changed is parsed, rendered and checked again.
//!
//! A summary has what selectors, groups, limits and records are compared with, and the digests of the
//! sections, not the sections. Whoever needs more of a machine loads its file (`wanted` of [`Kept::split`]).
//!
//! Nothing is kept of a site with errors. Warnings are counted with the file that they point into.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Listing, Location, Settings, Site, SiteFile};
use crate::cache::Key;
use crate::cache::columns::{Numbers, Reader, Texts, Writer};
use crate::design::{
    self, Design, Digests, NodeDesign, NodeName, Section, SectionDigest, Sections,
};
use crate::diagnostic::{SourceId, Sources};
use crate::document::{Document, LoadedFile, MetadataKind, Node, Value};
use crate::render::Rendering;
use crate::repository::{BlobId, Mode, Repository};

/// The version of what is kept.
const VERSION: u8 = 1;
/// A number for what is not there.
const NONE: u32 = u32::MAX;
/// Between the parts of a text that holds several.
const SEPARATOR: char = '\n';
const BLOB: usize = 20;
const SUM: usize = 32;

/// The bytes of what is kept of a site.
#[derive(PartialEq, Eq)]
pub struct Kept {
    segment: Vec<u8>,
}

/// What is kept of a site, column by column.
struct Columns<'a> {
    paths: Texts<'a>,
    modes: Numbers<'a>,
    blobs: &'a [[u8; BLOB]],
    /// 0: something may depend on it; else one more than its warnings.
    marks: Numbers<'a>,
    /// Where the machines of each file end.
    ends: Numbers<'a>,
    names: Texts<'a>,
    racks: Numbers<'a>,
    tags: Numbers<'a>,
    labels: Numbers<'a>,
    digests: Numbers<'a>,
    boots: Numbers<'a>,
    addresses: Texts<'a>,
    all_racks: Texts<'a>,
    all_tags: Texts<'a>,
    all_labels: Texts<'a>,
    all_digests: &'a [[u8; SUM]],
}

/// What of a listing is kept, and what has to be loaded.
pub struct Parts {
    /// By position in the listing, whether the file has to be loaded.
    pub load: Vec<bool>,
    /// The machines of all other files.
    pub settled: Vec<Arc<NodeDesign>>,
    /// Warnings in the other files.
    pub warnings: usize,
    /// The files that are loaded though their bytes are known: what they depend on, and what depends on
    /// them, is in them alone.
    known: FxHashSet<Arc<str>>,
    /// Which of the kept machines are settled.
    positions: Vec<usize>,
}

impl Kept {
    fn key(repository: &Repository, location: &Location, settings: Settings) -> Key {
        let mut key = vec![
            vec![
                VERSION,
                u8::from(location.is_flat),
                u8::from(settings.allow_missing_sources),
            ],
            location.site.as_str().as_bytes().to_vec(),
            location.definition.as_bytes().to_vec(),
        ];
        let prefixes = location.selection.prefixes().iter();
        key.extend(prefixes.map(|prefix| prefix.as_bytes().to_vec()));
        let parts = key.iter().map(Vec::as_slice);
        repository.cache().key("site", parts)
    }

    /// What was kept of a site; `None` where that is nothing.
    #[must_use]
    pub fn read(repository: &Repository, location: &Location, settings: Settings) -> Option<Self> {
        let key = Self::key(repository, location, settings);
        let segment = repository.cache().read(&key)?;
        Some(Self { segment })
    }

    /// Keeps a site that was checked; a site with errors is left as it was kept before.
    pub(super) fn write(
        repository: &Repository,
        site: &Site,
        settings: Settings,
        loaded: &[Arc<LoadedFile>],
    ) {
        if repository.cache().keeps()
            && let Some(segment) = whole(site, loaded)
        {
            Self::put(repository, &site.location, settings, segment);
        }
    }

    /// Keeps what is to be kept of a site, which is given back.
    pub(super) fn put(
        repository: &Repository,
        location: &Location,
        settings: Settings,
        segment: Vec<u8>,
    ) -> Self {
        if repository.cache().keeps() {
            let key = Self::key(repository, location, settings);
            repository.cache().write(&key, &segment);
        }
        Self { segment }
    }

    /// Splits a listing into what is kept and what has to be loaded: what has changed, what something
    /// may depend on, and the files of the `wanted` machines. `None` where too much has changed, so that
    /// everything has to be loaded. `known` may know the name and the digests of a machine already: what
    /// is the same is shared.
    #[must_use]
    pub fn split(
        &self,
        listing: &Listing,
        wanted: &BTreeSet<NodeName>,
        most: usize,
        known: &mut dyn FnMut(&str) -> Option<(NodeName, Digests)>,
    ) -> Option<Parts> {
        let columns = Columns::read(&self.segment)?;
        let mut parts = Parts {
            load: Vec::with_capacity(listing.files.len()),
            settled: Vec::with_capacity(columns.names.len()),
            warnings: 0,
            known: FxHashSet::default(),
            positions: Vec::with_capacity(columns.names.len()),
        };
        let shared = columns.shared()?;
        let (mut at, mut changed) = (0, 0);
        for file in &listing.files {
            // What is gone is no loss, unless something may depend on it.
            while at < columns.paths.len() && columns.paths.get(at)? < &*file.path {
                if columns.marks.get(at)? == 0 {
                    return None;
                }
                changed += 1;
                at += 1;
            }
            let is_there = at < columns.paths.len() && columns.paths.get(at)? == &*file.path;
            let position = at;
            at += usize::from(is_there);
            let is_same = is_there && columns.is_same(position, file)?;
            let mark = match is_there {
                true => columns.marks.get(position)?,
                false => 1,
            };
            if mark == 0 {
                if !is_same {
                    return None;
                }
                parts.known.insert(file.path.clone());
                parts.load.push(true);
                continue;
            }
            let nodes = if is_there {
                columns.nodes(position)?
            } else {
                0..0
            };
            let is_wanted = !wanted.is_empty()
                && nodes.clone().any(|node| {
                    columns
                        .names
                        .get(node)
                        .is_some_and(|name| wanted.contains(name))
                });
            parts.load.push(!is_same || is_wanted);
            if !is_same || is_wanted {
                changed += 1;
                if is_same {
                    parts.known.insert(file.path.clone());
                }
            } else {
                parts.warnings += mark as usize - 1;
                for node in nodes {
                    parts.settled.push(columns.node(node, &shared, known)?);
                    parts.positions.push(node);
                }
            }
            if changed > most {
                return None;
            }
        }
        while at < columns.paths.len() {
            if columns.marks.get(at)? == 0 {
                return None;
            }
            at += 1;
        }
        Some(parts)
    }

    /// Whether any of the settled machines has one of these addresses; also where that cannot be told.
    fn has_any(&self, addresses: &FxHashSet<IpAddr>, positions: &[usize]) -> bool {
        let Some(columns) = Columns::read(&self.segment) else {
            return true;
        };
        !addresses.is_empty()
            && positions.iter().any(|node| {
                let mut texts = columns.addresses.get(*node).into_iter();
                texts.any(|texts| {
                    let mut texts = texts.split_terminator(SEPARATOR);
                    texts.any(|text| {
                        text.parse()
                            .is_ok_and(|address| addresses.contains(&address))
                    })
                })
            })
    }
}

impl Parts {
    /// Whether what was loaded of the parts changes nothing for what was not: all documents that are new
    /// or changed are machines that nothing depends on, of names and addresses that are nobody else's.
    pub(super) fn fit(&self, kept: &Kept, site: &Site, sources: &Sources, settled: usize) -> bool {
        let loaded = site.rendering.of_schema(design::MACHINE).len();
        if site.diagnostics.has_errors() || site.design.nodes.len() != loaded + settled {
            return false;
        }
        let mut new = FxHashSet::default();
        for document in &site.documents {
            if self.known.contains(&sources.path(document.mark.source)) {
                continue;
            }
            if !is_leaf(document, &site.rendering) {
                return false;
            }
            let rendered = site.rendering.get(&document.id.schema, &document.id.name);
            let addresses = rendered.into_iter().flat_map(|each| addresses(&each.data));
            new.extend(addresses.filter_map(|text| text.parse::<IpAddr>().ok()));
        }
        !kept.has_any(&new, &self.positions)
    }
}

/// The static addresses of a machine.
pub(super) fn addresses(data: &Node) -> impl Iterator<Item = &str> {
    let entries = data.get("addressing").and_then(Node::as_list);
    let entries = entries.unwrap_or_default().iter();
    entries.filter_map(|entry| entry.get("address")?.as_str())
}

/// Whether a document is a machine that no other document depends on, and that depends on no machine.
fn is_leaf(document: &Document, rendering: &Rendering) -> bool {
    let is_plain = &*document.id.schema == design::MACHINE
        && document.kind == MetadataKind::Document
        && !document.is_abstract
        && !document.is_replacement
        && !document.is_encrypted
        && document.labels.is_empty()
        && document.parent_selector.is_none();
    let takes_from_none = || {
        let mut sources = document.substitutions.iter();
        sources.all(|each| &*each.source.document.schema != design::MACHINE)
    };
    let is_alone = || {
        let index = rendering.origin(document.mark);
        index.is_some_and(|index| {
            rendering.dependencies.on(index).is_empty()
                && rendering
                    .get(&document.id.schema, &document.id.name)
                    .is_some_and(|rendered| rendered.index == index && !rendered.encrypted)
        })
    };
    is_plain && takes_from_none() && is_alone()
}

/// Numbers for texts, in the order in which they come.
#[derive(Default)]
struct Numbered {
    numbers: FxHashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

impl Numbered {
    fn number(&mut self, text: &Arc<str>) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.numbers.insert(text.clone(), number);
        self.texts.push(text.clone());
        number
    }

    /// The numbers here of the texts of others, by their numbers there.
    fn numbers(&mut self, others: &Self) -> Vec<u32> {
        let texts = others.texts.iter();
        texts.map(|text| self.number(text)).collect()
    }

    fn write(&self, writer: &mut Writer) {
        writer.texts(self.texts.iter().map(|text| &**text));
    }
}

/// The columns of machines.
#[derive(Default)]
pub(super) struct Nodes {
    names: Vec<Arc<str>>,
    racks: Vec<u32>,
    tags: Vec<u32>,
    labels: Vec<u32>,
    digests: Vec<u32>,
    boots: Vec<u32>,
    addresses: Vec<String>,
    all_racks: Numbered,
    all_tags: Numbered,
    all_labels: Numbered,
    all_digests: Vec<SectionDigest>,
    digest_numbers: FxHashMap<SectionDigest, u32>,
    /// Whether sections that many machines have in common hold a secret, by where they are in memory.
    secrets: FxHashMap<usize, bool>,
}

fn has_secret(node: &Node) -> bool {
    node.secret
        || match &node.value {
            Value::List(items) => items.iter().any(has_secret),
            Value::Map(map) => map.iter().any(|(_, field)| has_secret(&field.node)),
            _ => false,
        }
}

impl Nodes {
    /// How many machines there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    fn truncate(&mut self, length: usize) {
        self.names.truncate(length);
        self.racks.truncate(length);
        self.tags.truncate(length);
        self.labels.truncate(length);
        self.digests.truncate(length * Section::ALL.len());
        self.boots.truncate(length);
        self.addresses.truncate(length);
    }

    /// Adds the machines of others behind these.
    pub(super) fn append(&mut self, others: Self) {
        let racks = self.all_racks.numbers(&others.all_racks);
        let tags = self.all_tags.numbers(&others.all_tags);
        let labels = self.all_labels.numbers(&others.all_labels);
        let digests = others.all_digests.iter();
        let digests: Vec<u32> = digests.map(|digest| self.digest(*digest)).collect();
        let put = |column: &mut Vec<u32>, others: &[u32], numbers: &[u32]| {
            let number = |other: &u32| match *other {
                NONE => NONE,
                other => numbers[other as usize],
            };
            column.extend(others.iter().map(number));
        };
        put(&mut self.racks, &others.racks, &racks);
        put(&mut self.tags, &others.tags, &tags);
        put(&mut self.labels, &others.labels, &labels);
        put(&mut self.digests, &others.digests, &digests);
        self.names.extend(others.names);
        self.boots.extend(others.boots);
        self.addresses.extend(others.addresses);
    }

    fn digest(&mut self, digest: SectionDigest) -> u32 {
        *self.digest_numbers.entry(digest).or_insert_with(|| {
            self.all_digests.push(digest);
            self.all_digests.len() as u32 - 1
        })
    }

    fn has_secret(&mut self, section: &Arc<Node>) -> bool {
        let place = Arc::as_ptr(section).addr();
        if let Some(known) = self.secrets.get(&place) {
            return *known;
        }
        let has_secret = has_secret(section);
        // A section that many machines have in common is looked through once.
        if Arc::strong_count(section) > 2 {
            self.secrets.insert(place, has_secret);
        }
        has_secret
    }

    /// Adds a machine; `None` where it has something that cannot be kept.
    fn add(&mut self, node: &NodeDesign, data: &Node) -> Option<()> {
        // Labels and tags may come from a profile that took a secret.
        for section in [Section::Labels, Section::Inventory] {
            if node
                .sections
                .shared(&section)
                .is_some_and(|each| self.has_secret(each))
            {
                return None;
            }
        }
        let joined = |texts: &mut dyn Iterator<Item = &str>| {
            let mut all = String::new();
            for text in texts {
                if text.contains(SEPARATOR) {
                    return None;
                }
                all.push_str(text);
                all.push(SEPARATOR);
            }
            Some(all)
        };
        let tags = joined(&mut node.tags.iter().map(|tag| &**tag))?;
        let labels = joined(
            &mut node
                .labels
                .iter()
                .flat_map(|(key, value)| [&**key, &**value]),
        )?;
        let addresses = joined(&mut addresses(data))?;
        let mut digests = Vec::with_capacity(Section::ALL.len());
        for section in Section::ALL {
            digests.push(match node.digests.get(&section) {
                Some(digest) => self.digest(*digest),
                None => NONE,
            });
        }
        let boots = node.sections.get(&Section::BootActions);
        let boots = boots.and_then(|section| section.get("boot_actions")?.as_map());
        let rack = node.rack.as_ref();
        self.names.push(Arc::from(node.name.as_str()));
        self.racks
            .push(rack.map_or(NONE, |rack| self.all_racks.number(rack)));
        self.tags.push(self.all_tags.number(&Arc::from(tags)));
        self.labels.push(self.all_labels.number(&Arc::from(labels)));
        self.digests.extend(digests);
        self.boots
            .push(u32::from(boots.is_some_and(|map| !map.is_empty())));
        self.addresses.push(addresses);
        Some(())
    }
}

/// The bytes of what is kept of a site that was loaded; `None` where that is nothing.
fn whole(site: &Site, loaded: &[Arc<LoadedFile>]) -> Option<Vec<u8>> {
    if site.diagnostics.has_errors() || loaded.len() != site.files.len() {
        return None;
    }
    let mut warnings: FxHashMap<SourceId, u32> = FxHashMap::default();
    for diagnostic in site.diagnostics.iter() {
        *warnings.entry(diagnostic.mark?.source).or_default() += 1;
    }
    let mut nodes = Nodes::default();
    let (mut marks, mut ends) = (Vec::new(), Vec::new());
    for content in loaded {
        let source = leaf_file(&site.rendering, &site.design, content, &mut nodes);
        let mark = source.map(|source| {
            let warnings = warnings.get(&source).copied().unwrap_or_default();
            warnings + 1
        });
        marks.push(mark.unwrap_or(0));
        ends.push(nodes.len() as u32);
    }
    Some(segment(&site.files, marks, ends, nodes))
}

/// The bytes of columns.
pub(super) fn segment(
    files: &[SiteFile],
    marks: Vec<u32>,
    ends: Vec<u32>,
    nodes: Nodes,
) -> Vec<u8> {
    let mut blobs = Vec::with_capacity(files.len() * BLOB);
    for file in files {
        blobs.extend_from_slice(file.blob.0.as_bytes());
    }
    let mut writer = Writer::new();
    writer.texts(files.iter().map(|file| &*file.path));
    writer.numbers(files.iter().map(|file| number_of(file.mode)));
    writer.bytes(blobs);
    writer.numbers(marks);
    writer.numbers(ends);
    writer.texts(nodes.names.iter().map(|name| &**name));
    for column in [
        nodes.racks,
        nodes.tags,
        nodes.labels,
        nodes.digests,
        nodes.boots,
    ] {
        writer.numbers(column);
    }
    writer.texts(nodes.addresses.iter().map(String::as_str));
    nodes.all_racks.write(&mut writer);
    nodes.all_tags.write(&mut writer);
    nodes.all_labels.write(&mut writer);
    let digests = nodes.all_digests.iter();
    writer.bytes(digests.flat_map(|digest| digest.0).collect());
    writer.finish()
}

/// Adds the machines of a file that holds nothing else, and nothing that something depends on.
pub(super) fn leaf_file(
    rendering: &Rendering,
    design: &Design,
    content: &LoadedFile,
    nodes: &mut Nodes,
) -> Option<SourceId> {
    let first = content.documents.first()?;
    let mut machines = Vec::with_capacity(content.documents.len());
    for document in &content.documents {
        if !is_leaf(document, rendering) {
            return None;
        }
        let rendered = rendering.get(&document.id.schema, &document.id.name)?;
        machines.push((design.nodes.get(&*document.id.name)?, &rendered.data));
    }
    let before = nodes.len();
    for (node, data) in machines {
        if nodes.add(node, data).is_none() {
            nodes.truncate(before);
            return None;
        }
    }
    Some(first.mark.source)
}

fn number_of(mode: Mode) -> u32 {
    match mode {
        Mode::Regular => 0,
        Mode::Executable => 1,
        Mode::Link => 2,
    }
}

/// What machines have in common, made once.
struct Shared {
    racks: Vec<Arc<str>>,
    tags: Vec<Arc<BTreeSet<Arc<str>>>>,
    labels: Vec<Arc<BTreeMap<Arc<str>, Arc<str>>>>,
    /// Stands for some boot actions.
    boots: Arc<Node>,
    template: NodeDesign,
}

impl<'a> Columns<'a> {
    fn read(segment: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::open(segment)?;
        let columns = Self {
            paths: reader.texts()?,
            modes: reader.numbers()?,
            blobs: chunks(reader.bytes()?)?,
            marks: reader.numbers()?,
            ends: reader.numbers()?,
            names: reader.texts()?,
            racks: reader.numbers()?,
            tags: reader.numbers()?,
            labels: reader.numbers()?,
            digests: reader.numbers()?,
            boots: reader.numbers()?,
            addresses: reader.texts()?,
            all_racks: reader.texts()?,
            all_tags: reader.texts()?,
            all_labels: reader.texts()?,
            all_digests: chunks(reader.bytes()?)?,
        };
        let (files, nodes) = (columns.paths.len(), columns.names.len());
        let fits = [columns.modes, columns.marks, columns.ends]
            .iter()
            .all(|column| column.len() == files)
            && columns.blobs.len() == files
            && [columns.racks, columns.tags, columns.labels, columns.boots]
                .iter()
                .all(|column| column.len() == nodes)
            && columns.addresses.len() == nodes
            && columns.digests.len() == nodes * Section::ALL.len();
        fits.then_some(columns)
    }

    fn is_same(&self, position: usize, file: &SiteFile) -> Option<bool> {
        let mode = self.modes.get(position)?;
        let blob = self.blobs.get(position)?;
        Some(mode == number_of(file.mode) && blob == file.blob.0.as_bytes())
    }

    /// The positions of the machines of a file.
    fn nodes(&self, file: usize) -> Option<std::ops::Range<usize>> {
        let start = match file.checked_sub(1) {
            Some(before) => self.ends.get(before)? as usize,
            None => 0,
        };
        let end = self.ends.get(file)? as usize;
        (start <= end && end <= self.names.len()).then_some(start..end)
    }

    fn shared(&self) -> Option<Shared> {
        let texts = |column: &Texts<'a>| -> Option<Vec<Arc<str>>> {
            (0..column.len())
                .map(|at| column.get(at).map(Arc::from))
                .collect()
        };
        let lists = |column: &Texts<'a>| -> Option<Vec<Vec<Arc<str>>>> {
            let list = |text: &str| text.split_terminator(SEPARATOR).map(Arc::from).collect();
            (0..column.len())
                .map(|at| column.get(at).map(list))
                .collect()
        };
        let labels = lists(&self.all_labels)?.into_iter().map(|list| {
            let pairs = list.chunks_exact(2);
            Arc::new(
                pairs
                    .map(|pair| (pair[0].clone(), pair[1].clone()))
                    .collect(),
            )
        });
        let tags = lists(&self.all_tags)?.into_iter();
        Some(Shared {
            racks: texts(&self.all_racks)?,
            tags: tags
                .map(|list| Arc::new(list.into_iter().collect()))
                .collect(),
            labels: labels.collect(),
            boots: Arc::new(design::some_boot_actions()),
            template: NodeDesign::summary(NodeName::from("")),
        })
    }

    fn node(
        &self,
        position: usize,
        shared: &Shared,
        known: &mut dyn FnMut(&str) -> Option<(NodeName, Digests)>,
    ) -> Option<Arc<NodeDesign>> {
        let rack = match self.racks.get(position)? {
            NONE => None,
            rack => Some(shared.racks.get(rack as usize)?.clone()),
        };
        let sections = match self.boots.get(position)? {
            0 => Sections::default(),
            _ => Sections::from_iter([(Section::BootActions, shared.boots.clone())]),
        };
        let start = position * Section::ALL.len();
        let mut digests = [None; Section::ALL.len()];
        for (digest, at) in digests.iter_mut().zip(start..) {
            *digest = match self.digests.get(at)? {
                NONE => None,
                number => Some(SectionDigest(*self.all_digests.get(number as usize)?)),
            };
        }
        let name = self.names.get(position)?;
        let (name, digests) = match known(name) {
            Some((name, known)) if known == digests => (name, known),
            Some((name, _)) => (name, Digests::from(digests)),
            None => (NodeName::from(name), Digests::from(digests)),
        };
        let mut node = shared.template.clone();
        node.digests = digests;
        node.document.name = name.clone().into();
        node.name = name;
        node.rack = rack;
        node.tags = shared.tags.get(self.tags.get(position)? as usize)?.clone();
        node.labels = shared
            .labels
            .get(self.labels.get(position)? as usize)?
            .clone();
        node.sections = sections;
        Some(Arc::new(node))
    }
}

fn chunks<const N: usize>(bytes: &[u8]) -> Option<&[[u8; N]]> {
    let (chunks, rest) = bytes.as_chunks();
    rest.is_empty().then_some(chunks)
}

/// The ids of the files of a listing that are kept as they are, for another revision of the site.
#[must_use]
pub fn settled_files(listing: &Listing, load: &[bool]) -> FxHashSet<(Arc<str>, BlobId)> {
    let files = listing.files.iter().zip(load);
    files
        .filter(|(_, load)| !**load)
        .map(|(file, _)| (file.path.clone(), file.blob))
        .collect()
}
