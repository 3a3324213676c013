//! The texts and problems that several sites have in common, each shown once.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Things that were found, each with the sites that it was found in.
#[derive(Debug)]
pub(super) struct Common<T> {
    known: FxHashMap<Arc<T>, usize>,
    list: Vec<(Arc<T>, Vec<u32>)>,
}

impl<T> Default for Common<T> {
    fn default() -> Self {
        Self {
            known: FxHashMap::default(),
            list: Vec::new(),
        }
    }
}

/// Things that the same sites have in common, in the order in which they were found.
pub(super) struct Section<'c, T> {
    /// The positions of the sites, sorted.
    pub(super) sites: &'c [u32],
    pub(super) things: Vec<&'c T>,
}

impl<T: Eq + Hash> Common<T> {
    /// Adds a thing of a site.
    pub(super) fn add(&mut self, site: usize, thing: T) {
        let site = site as u32;
        if let Some(at) = self.known.get(&thing) {
            let sites = &mut self.list[*at].1;
            if let Err(place) = sites.binary_search(&site) {
                sites.insert(place, site);
            }
            return;
        }
        let thing = Arc::new(thing);
        self.known.insert(thing.clone(), self.list.len());
        self.list.push((thing, vec![site]));
    }

    /// All things once.
    pub(super) fn things(&self) -> impl Iterator<Item = &T> {
        self.list.iter().map(|(thing, _)| &**thing)
    }

    /// The things that the same sites have in common, those of the most sites first, those of one site last.
    pub(super) fn sections(&self) -> Vec<Section<'_, T>> {
        let mut at: FxHashMap<&[u32], usize> = FxHashMap::default();
        let mut sections: Vec<Section<'_, T>> = Vec::new();
        for (thing, sites) in &self.list {
            let position = *at.entry(sites).or_insert(sections.len());
            if position == sections.len() {
                sections.push(Section {
                    sites,
                    things: Vec::new(),
                });
            }
            sections[position].things.push(thing);
        }
        sections.sort_by(|one, other| {
            let most = other.sites.len().cmp(&one.sites.len());
            most.then_with(|| one.sites.cmp(other.sites))
        });
        sections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_same_sites_have_is_one_section_and_most_sites_come_first() {
        let mut common = Common::default();
        for (site, thing) in [
            (2, "b"),
            (0, "a"),
            (2, "a"),
            (1, "a"),
            (0, "c"),
            (1, "d"),
            (2, "e"),
        ] {
            common.add(site, thing);
            common.add(site, thing);
        }
        for site in [2, 0, 1] {
            common.add(site, "f");
        }
        let sections = common.sections().into_iter();
        let sections: Vec<(&[u32], Vec<&str>)> = sections
            .map(|section| (section.sites, section.things.into_iter().copied().collect()))
            .collect();
        let expected: [(&[u32], Vec<&str>); 4] = [
            (&[0, 1, 2], vec!["a", "f"]),
            (&[0], vec!["c"]),
            (&[1], vec!["d"]),
            (&[2], vec!["b", "e"]),
        ];
        assert_eq!(sections, expected);
        assert_eq!(common.things().count(), 6);
    }
}
