//! Units: files of machines that nothing depends on, of which only the designs of the machines are wanted.
//!
//! A unit is kept from an earlier load ([`super::cached`]), or made now ([`super::chunks`]), or what is left of
//! another unit's load when some machines are explained. Its designs are the same in each case, without the
//! hops to what they were made of, and with marks that tell no more than a path.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::cached::{CachedSite, Place};
use super::chunks::{self, Candidate};
use super::files::{Files, file_of};
use super::leaf::seems_leaf;
use super::unit::{Designs, Finding, Unit};
use super::wanted::{Listing, Wanted, load_settings};
use super::{Detail, Error, SiteFile, Unexplained, UnexplainedFile, digest_of};
use crate::design::{NodeDesign, Nodes};
use crate::diagnostic::{Mark, SourceId};
use crate::document::{SiteLimits, decode};
use crate::repository::{self, Entry};
use crate::threads;

/// Which sites are large.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Fewer files of machines are not worth being taken in chunks: they are loaded with all others.
    pub fewest: usize,
    /// Files of a chunk, at least.
    pub chunk: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            fewest: 1000,
            chunk: 2000,
        }
    }
}

/// The units of a site.
pub(super) struct Units<'k> {
    /// Sorted by position.
    pub(super) list: Vec<Unit>,
    /// The findings in the other files that are not found without machines.
    pub(super) found: FxHashSet<Finding>,
    /// The sources of the units, and of files that might have been some.
    pub(super) sources: Range<u32>,
    /// Whether files have changed since the site was kept.
    pub(super) is_new: bool,
    cached: Option<&'k CachedSite<'k>>,
    /// Of the kept machines those that are loaded since they have secrets that others have too.
    lenders: Vec<usize>,
}

/// The files of a site, told apart.
#[derive(Default)]
struct Sorted {
    /// Files of machines that are as they were kept.
    units: Vec<Unit>,
    /// Files that seem to hold machines only.
    candidates: Vec<Candidate>,
    /// The positions of all others.
    others: Vec<usize>,
    is_new: bool,
}

impl<'k> Units<'k> {
    /// Tells the files of a site apart; `None` if one cannot be used, or the units cannot be made.
    pub(super) fn find(
        files: &mut Files<'_>,
        wanted: &Wanted<'_>,
        listing: &Listing,
        cached: Option<&'k CachedSite<'k>>,
        sizes: Sizes,
    ) -> Result<Option<Self>, Error> {
        let Some((mut sorted, cached)) = sorted(files, wanted, listing, cached)? else {
            return Ok(None);
        };
        if wanted.settings.detail == Detail::Warnings {
            sorted.units.retain(|unit| unit.warnings == 0);
        }
        let mut lenders = Vec::new();
        if let Some(cached) = cached {
            let rows = sorted.units.iter().filter_map(Unit::rows).flatten();
            lenders = cached.machines.lenders(rows);
            // Both are in the order of the files.
            let mut left = lenders.iter().peekable();
            sorted.units.retain(|unit| {
                let rows = unit.rows().unwrap_or_default();
                let mut lends = false;
                while left.next_if(|row| **row < rows.end).is_some() {
                    lends = true;
                }
                !lends
            });
        }
        let is_chunked = sorted.candidates.len() >= sizes.fewest;
        let candidates = sorted.candidates.iter().filter(|_| is_chunked);
        let paths = sorted.units.iter().map(|unit| &unit.file.path);
        let paths = paths.chain(candidates.map(|candidate| &candidate.file.path));
        let sources = files.name(paths);
        let named = sorted.units.iter_mut().map(|unit| &mut unit.source);
        let named = named.chain(sorted.candidates.iter_mut().map(|each| &mut each.source));
        for (source, number) in named.zip(sources.clone()) {
            *source = SourceId(number);
        }
        let mut units = Self {
            list: sorted.units,
            found: FxHashSet::default(),
            sources,
            is_new: sorted.is_new,
            cached,
            lenders,
        };
        if is_chunked {
            let others = sorted.others.iter();
            let others: Vec<Entry> = others
                .map(|position| listing.tree.entries[*position].clone())
                .collect();
            let made = chunks::units(files, wanted, &others, sorted.candidates, sizes.chunk)?;
            let Some(made) = made else {
                return Ok(None);
            };
            units.found = made.found;
            match units.list.is_empty() {
                true => units.list = made.units,
                false => units.list.extend(made.units),
            }
            units.list.sort_unstable_by_key(|unit| unit.position);
        }
        Ok(Some(units))
    }

    /// Those of the files that are not explained which are to stay so.
    pub(super) fn of(
        unexplained: &Unexplained,
        files: &[SiteFile],
        nodes: &Nodes,
        stays: impl Fn(&UnexplainedFile) -> bool,
    ) -> Self {
        let staying = unexplained.files.iter().filter(|file| stays(file));
        let list = staying.map(|each| Unit {
            position: each.position,
            file: files[each.position].clone(),
            warnings: each.warnings,
            // Its designs have their marks.
            source: SourceId(u32::MAX),
            designs: {
                let nodes = each.nodes.iter().filter_map(|name| nodes.get(name));
                Designs::Made(nodes.cloned().collect())
            },
        });
        Self {
            list: list.collect(),
            found: FxHashSet::default(),
            sources: unexplained.sources.clone(),
            is_new: false,
            cached: None,
            lenders: Vec::new(),
        }
    }

    /// Of so many files, which are units.
    pub(super) fn marks(&self, files: usize) -> Vec<bool> {
        let mut marks = vec![false; files];
        for unit in &self.list {
            marks[unit.position] = true;
        }
        marks
    }

    /// Warnings in all units.
    pub(super) fn warnings(&self) -> usize {
        self.list.iter().map(|unit| unit.warnings as usize).sum()
    }

    /// The designs of all units; `loaded` are the machines of the other files. `None` if one cannot be made.
    pub(super) fn designs(&self, loaded: &Nodes) -> Option<Vec<Arc<NodeDesign>>> {
        let lender = |row: &usize| {
            let node = loaded.get(self.cached?.machines.name(*row)?)?;
            Some((*row, node.clone()))
        };
        let lenders: Vec<_> = self.lenders.iter().map(lender).collect::<Option<_>>()?;
        // Each half has its own common values: threads that share them would wait for each other.
        let halves = threads::halves(&self.list, |units| self.designs_of(units, &lenders));
        let halves: Option<Vec<_>> = halves.into_iter().collect();
        Some(halves?.into_iter().flatten().collect())
    }

    fn designs_of(
        &self,
        units: &[Unit],
        lenders: &[(usize, Arc<NodeDesign>)],
    ) -> Option<Vec<Arc<NodeDesign>>> {
        let mut restored = self.cached.map(|cached| cached.machines.restored(lenders));
        let mut designs = Vec::with_capacity(units.iter().map(Unit::len).sum());
        for unit in units {
            match &unit.designs {
                Designs::Made(made) => designs.extend(made.iter().cloned()),
                Designs::CachedSite(rows) => {
                    let mark = Mark::new(unit.source, 0);
                    let restored = restored.as_mut()?;
                    for row in rows.clone() {
                        designs.push(restored.design(row, mark)?);
                    }
                }
            }
        }
        Some(designs)
    }

    /// All files of a site: those of the units, and the others, which were loaded; `None` if these are not those
    /// that were listed.
    pub(super) fn files(&self, entries: &[Entry], loaded: &[SiteFile]) -> Option<Vec<SiteFile>> {
        let mut units = self.list.iter().peekable();
        let mut loaded = loaded.iter();
        let files = entries.iter().enumerate().map(|(position, entry)| {
            let file = match units.next_if(|unit| unit.position == position) {
                Some(unit) => &unit.file,
                None => loaded.next()?,
            };
            (file.path == entry.path).then(|| file.clone())
        });
        files.collect()
    }

    /// The files of the units, each with the names of its machines.
    pub(super) fn unexplained(&self, designs: &[Arc<NodeDesign>]) -> Vec<UnexplainedFile> {
        let mut designs = designs.iter();
        let files = self.list.iter().map(|unit| {
            let nodes = designs.by_ref().take(unit.len());
            UnexplainedFile {
                position: unit.position,
                nodes: nodes.map(|node| node.name.clone()).collect(),
                warnings: unit.warnings,
            }
        });
        files.collect()
    }
}

/// Tells files apart by what is kept, and the others by their texts; what is kept counts as long as the files are what
/// they were that something may depend on.
fn sorted<'k>(
    files: &Files<'_>,
    wanted: &Wanted<'_>,
    listing: &Listing,
    cached: Option<&'k CachedSite<'k>>,
) -> Result<Option<(Sorted, Option<&'k CachedSite<'k>>)>, Error> {
    let Some((sorted, others)) = sorted_by(files, wanted, listing, cached)? else {
        return Ok(None);
    };
    if cached.is_none_or(|cached| *cached.others == *others) {
        return Ok(Some((sorted, cached)));
    }
    let sorted = sorted_by(files, wanted, listing, None)?;
    Ok(sorted.map(|(sorted, _)| (sorted, None)))
}

/// The same, and the digest of the files that something may depend on.
fn sorted_by(
    files: &Files<'_>,
    wanted: &Wanted<'_>,
    listing: &Listing,
    cached: Option<&CachedSite<'_>>,
) -> Result<Option<(Sorted, Arc<str>)>, Error> {
    let entries = &listing.tree.entries;
    let mut sorted = Sorted {
        is_new: cached.is_none(),
        ..Sorted::default()
    };
    let mut places = cached.into_iter().flat_map(CachedSite::files).peekable();
    let (mut others, mut unknown) = (Vec::new(), Vec::new());
    for (position, (entry, id)) in entries.iter().zip(&listing.ids).enumerate() {
        while places.next_if(|place| *place.path < *entry.path).is_some() {
            sorted.is_new = true;
        }
        let place = places.next_if(|place| *place.path == *entry.path);
        let file = id.map(|blob| file_of(entry, blob));
        match place
            .as_ref()
            .zip(file)
            .filter(|(place, file)| place.is_same(file))
        {
            Some((place, file)) => sorted.known(position, place, file, &mut others),
            None => unknown.push((position, place)),
        }
    }
    sorted.is_new |= places.next().is_some();
    for ((position, place), read) in unknown.iter().zip(read(files, wanted, entries, &unknown)) {
        let Some((file, text)) = read? else {
            return Ok(None);
        };
        if let Some(place) = place.as_ref().filter(|place| place.is_same(&file)) {
            sorted.known(*position, place, file, &mut others);
            continue;
        }
        sorted.is_new = true;
        match text {
            None => others.push((*position, file)),
            Some(text) => sorted.candidates.push(Candidate {
                position: *position,
                file,
                text,
                source: SourceId(0),
            }),
        }
    }
    sorted.units.sort_unstable_by_key(|unit| unit.position);
    others.sort_by_key(|(position, _)| *position);
    let (positions, others): (Vec<usize>, Vec<SiteFile>) = others.into_iter().unzip();
    sorted.others = positions;
    Ok(Some((sorted, digest_of(&others))))
}

impl Sorted {
    /// Takes a file that is as it was kept.
    fn known(
        &mut self,
        position: usize,
        place: &Place<'_>,
        file: SiteFile,
        others: &mut Vec<(usize, SiteFile)>,
    ) {
        match &place.leaf {
            None => others.push((position, file)),
            Some((rows, warnings)) => self.units.push(Unit {
                position,
                file,
                warnings: *warnings,
                source: SourceId(u32::MAX),
                designs: Designs::CachedSite(rows.clone()),
            }),
        }
    }
}

/// A file that can be used, and its text if it seems to hold machines only.
type Read = Option<(SiteFile, Option<Arc<str>>)>;

/// Reads files.
fn read(
    files: &Files<'_>,
    wanted: &Wanted<'_>,
    entries: &[Entry],
    unknown: &[(usize, Option<Place<'_>>)],
) -> Vec<Result<Read, Error>> {
    let settings = load_settings(wanted.location);
    let limit = settings.limits.file_bytes as u64;
    let limits = SiteLimits::new();
    threads::map(unknown, |(position, place)| {
        let entry = &entries[*position];
        let content = match files.repository.read(entry, limit) {
            Ok(content) if limits.take_bytes(content.bytes.len() as u64) => content,
            Ok(_) | Err(repository::Error::TooLarge { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let file = file_of(entry, content.blob);
        if place.as_ref().is_some_and(|place| place.is_same(&file)) {
            return Ok(Some((file, None)));
        }
        let text = decode(&entry.path, &content.bytes, &settings.limits).ok();
        Ok(text.map(|text| (file, seems_leaf(&text).then_some(text))))
    })
}
