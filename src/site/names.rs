//! The names of a site, for the completion of command lines.
//!
//! A key press waits for them, so those of a large site are kept when it is loaded, and may be one edit behind.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Location, Site};
use crate::cache::Key;
use crate::design::Design;
use crate::repository::Repository;

/// The names of sites with fewer machines are not kept: such a site is loaded in no time.
const FEWEST: usize = 500;

/// The names of a site, each list sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Machines.
    pub nodes: Vec<String>,
    /// Deployment groups.
    pub groups: Vec<String>,
    /// Racks of machines.
    pub racks: Vec<String>,
    /// Tags of machines.
    pub tags: Vec<String>,
    /// Etcd clusters.
    pub clusters: Vec<String>,
}

/// Names, and the digest of the site that has them.
#[derive(Serialize, Deserialize)]
struct CachedNames {
    digest: String,
    names: Names,
}

impl Names {
    /// The names of a site. If its documents have errors, these are the names of its machines only: what else is a
    /// name may be a secret by mistake.
    #[must_use]
    pub fn of(site: &Site) -> Self {
        match site.diagnostics.has_errors() {
            true => Self {
                nodes: node_names(&site.design),
                ..Self::default()
            },
            false => Self::of_sound(site),
        }
    }

    fn of_sound(site: &Site) -> Self {
        let (design, guards) = (&site.design, &site.documented_guards);
        let sorted = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
        let nodes = || design.nodes.values();
        let tags = nodes().flat_map(|node| node.tags.iter().map(|tag| &**tag));
        let clusters = guards.etcd_clusters.iter();
        Self {
            nodes: node_names(design),
            groups: sorted(
                guards
                    .groups
                    .iter()
                    .map(|group| group.name.as_str())
                    .collect(),
            ),
            racks: sorted(nodes().filter_map(|node| node.rack.as_deref()).collect()),
            tags: sorted(tags.collect()),
            clusters: sorted(clusters.map(|cluster| cluster.name.as_str()).collect()),
        }
    }

    /// Reads the names that the last load of a site left in the cache; `None` if there are none.
    #[must_use]
    pub fn cached(repository: &Repository, location: &Location) -> Option<Self> {
        let segment = repository.cache().read(&key(repository, location))?;
        segment.decode().map(|cached: CachedNames| cached.names)
    }
}

fn node_names(design: &Design) -> Vec<String> {
    design.nodes.keys().map(ToString::to_string).collect()
}

fn key(repository: &Repository, location: &Location) -> Key {
    let parts = [
        location.site.as_str().as_bytes(),
        location.definition.as_bytes(),
    ];
    repository.cache().key("names", parts)
}

/// Keeps the names of a large site without errors.
pub(super) fn keep(repository: &Repository, site: &Site) {
    let cache = repository.cache();
    if site.design.nodes.len() < FEWEST || !cache.keeps() || site.diagnostics.has_errors() {
        return;
    }
    let key = key(repository, &site.location);
    let known = cache.read(&key);
    let known = known
        .as_ref()
        .and_then(|segment| segment.decode::<CachedNames>());
    if known.is_none_or(|known| *known.digest != *site.digest) {
        let cached = CachedNames {
            digest: site.digest.to_string(),
            names: Names::of_sound(site),
        };
        cache.write(&key, &cached);
    }
}
