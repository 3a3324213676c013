//! Waves: which machines are out of service together.
//!
//! Every limit is a number of places in each wave, and a machine takes a place under each limit that is
//! about it. It goes into the first wave with a free place under all of them. Full waves are skipped by
//! links that are shortened as they are followed, so thousands of machines under a limit of one cost
//! little more than thousands of machines under none.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::design::{Design, NodeDesign, NodeName};

/// Labels by which a machine is one of the control plane, whatever their value but `disabled` and `false`.
pub const CONTROL_PLANE_LABELS: [&str; 5] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "ucp-control-plane",
    "ucp_control_plane",
    "kubernetes-apiserver",
];

/// Tags by which a machine is one of the control plane.
pub const CONTROL_PLANE_TAGS: [&str; 4] = ["control", "control-plane", "master", "masters"];

/// Most control-plane machines out of service together, where neither flag nor policy says otherwise.
const CONTROL_PLANE: usize = 1;

/// Most other machines out of service together, where neither flag nor policy says otherwise.
const OTHERS: usize = 10;

/// Whether a machine is one of the control plane by its labels or tags.
#[must_use]
pub fn is_control_plane(node: &NodeDesign) -> bool {
    CONTROL_PLANE_TAGS
        .iter()
        .any(|tag| node.tags.contains(*tag))
        || has_control_plane_label(|label| node.labels.get(label))
}

/// Whether labels, designed or observed, mark a machine as one of the control plane; `value_of` gives
/// their values.
#[must_use]
pub fn has_control_plane_label<'a>(value_of: impl Fn(&str) -> Option<&'a Arc<str>>) -> bool {
    CONTROL_PLANE_LABELS
        .iter()
        .any(|label| value_of(label).is_some_and(|value| !matches!(&**value, "disabled" | "false")))
}

/// The subject of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum About<'a> {
    Site,
    ControlPlane,
    Others,
    Rack(&'a str),
    Tag(&'a str),
    Etcd(&'a str),
}

/// The limits of a site on machines out of service together.
///
/// The flag, else the policy's total, else one machine of the control plane (by
/// [`is_control_plane`], or as a member of an etcd cluster) and ten others. The policy's limits by rack
/// and tag hold beside any of these, and so does the number of healthy members of each etcd cluster.
#[derive(Debug)]
pub struct WaveLimits<'a> {
    design: &'a Design,
    flag: Option<usize>,
    /// By node, the clusters of which it is a member, each with the members that it can lose.
    clusters: FxHashMap<&'a str, Vec<(&'a str, usize)>>,
    /// By limit, the machines that take a place already.
    held: FxHashMap<(u8, String), Vec<String>>,
}

impl<'a> WaveLimits<'a> {
    /// The limits of a design under `--max-unavailable`.
    #[must_use]
    pub fn new(design: &'a Design, flag: Option<usize>) -> Self {
        let mut clusters: FxHashMap<_, Vec<_>> = FxHashMap::default();
        for cluster in &design.etcd_clusters {
            let spare = cluster
                .members
                .len()
                .saturating_sub(cluster.minimum_healthy);
            for member in &cluster.members {
                let of_node = clusters.entry(member.node.as_str()).or_default();
                of_node.push((cluster.name.as_str(), spare));
            }
        }
        Self {
            design,
            flag,
            clusters,
            held: FxHashMap::default(),
        }
    }

    /// The limits that are about a machine, each with its number of places.
    fn about<'n>(&'n self, node: &'n NodeDesign) -> Vec<(About<'n>, usize)> {
        let policy = &self.design.policy.max_unavailable;
        let clusters = self.clusters.get(node.name.as_str());
        let mut result = Vec::with_capacity(4);
        result.push(match self.flag.or(policy.total) {
            Some(total) => (About::Site, total),
            None if clusters.is_some() || is_control_plane(node) => {
                (About::ControlPlane, CONTROL_PLANE)
            }
            None => (About::Others, OTHERS),
        });
        if let (Some(limit), Some(rack)) = (policy.per_rack, &node.rack) {
            result.push((About::Rack(rack), limit));
        }
        for (tag, limit) in &policy.by_tag {
            if node.tags.contains(tag) {
                result.push((About::Tag(tag), *limit));
            }
        }
        for (cluster, spare) in clusters.into_iter().flatten() {
            result.push((About::Etcd(cluster), *spare));
        }
        result
    }

    /// Adds the observed state of etcd clusters: how many of the members of each may be out together.
    #[must_use]
    pub fn with_etcd<'n>(mut self, places: impl IntoIterator<Item = (&'n str, usize)>) -> Self {
        let places: FxHashMap<&str, usize> = places.into_iter().collect();
        for (cluster, spare) in self.clusters.values_mut().flatten() {
            if let Some(seen) = places.get(cluster) {
                *spare = *seen;
            }
        }
        self
    }

    /// A machine is out of service already: it takes its places. `why`: what it is (`not Ready`).
    pub fn hold(&mut self, node: &NodeDesign, why: &'static str) {
        let about = self.about(node);
        // The observed state of etcd counts its members that do not answer.
        let about = about
            .iter()
            .filter(|(about, _)| !matches!(about, About::Etcd(_)));
        let keys: Vec<_> = about.map(|(about, _)| about.key()).collect();
        for key in keys {
            let held = self.held.entry(key).or_default();
            held.push(format!("{} is {why}", node.name));
        }
    }

    /// Why a machine may not be taken out of service, if a limit leaves it no place at all.
    #[must_use]
    pub fn refusal(&self, node: &NodeDesign) -> Option<String> {
        let about = self.about(node);
        about.into_iter().find_map(|(about, limit)| {
            let held = self.held.get(&about.key()).map_or(&[][..], |held| held);
            if matches!(about, About::Etcd(_)) || limit > held.len() {
                return None;
            }
            let whose = match about {
                About::Etcd(_) | About::Site => "may be unavailable".to_owned(),
                About::ControlPlane => "of the control plane may be unavailable".to_owned(),
                About::Others => "outside the control plane may be unavailable".to_owned(),
                About::Rack(rack) => format!("of rack `{rack}` may be unavailable"),
                About::Tag(tag) => format!("with tag `{tag}` may be unavailable"),
            };
            Some(match (limit, held) {
                (0, _) => format!("no machine {whose}"),
                (_, [one]) => format!("at most {limit} machine {whose}, and {one}"),
                (_, [one, more @ ..]) => {
                    let more = more.len();
                    format!("at most {limit} machines {whose}, and {one}, and {more} more are down")
                }
                (_, []) => return None,
            })
        })
    }

    /// Puts machines into waves, in the order given; each wave keeps that order. With `canary` the
    /// first wave is one machine. A machine under a limit of 0 goes alone ([`Self::refusal`] refuses it
    /// before).
    #[must_use]
    pub fn waves<'n>(
        &self,
        nodes: impl IntoIterator<Item = &'n NodeDesign>,
        canary: bool,
    ) -> Vec<Vec<&'n NodeName>> {
        let mut waves: Vec<Vec<&NodeName>> = Vec::new();
        let mut numbers: FxHashMap<(u8, String), usize> = FxHashMap::default();
        let mut places: Vec<Places> = Vec::new();
        for node in nodes {
            let mine: Vec<usize> = self
                .about(node)
                .into_iter()
                .map(|(about, limit)| {
                    let key = about.key();
                    let held = self.held.get(&key).map_or(0, Vec::len);
                    *numbers.entry(key).or_insert_with(|| {
                        places.push(Places::new(limit.saturating_sub(held).max(1)));
                        places.len() - 1
                    })
                })
                .collect();
            let mut wave = usize::from(canary && !waves.is_empty());
            loop {
                let free = mine
                    .iter()
                    .fold(wave, |wave, each| places[*each].first_free(wave));
                if free == wave {
                    break;
                }
                wave = free;
            }
            for each in mine {
                places[each].take(wave);
            }
            if wave >= waves.len() {
                waves.resize_with(wave + 1, Vec::new);
            }
            waves[wave].push(&node.name);
        }
        waves
    }
}

impl About<'_> {
    fn key(self) -> (u8, String) {
        match self {
            Self::Site => (0, String::new()),
            Self::ControlPlane => (1, String::new()),
            Self::Others => (2, String::new()),
            Self::Rack(name) => (3, name.to_owned()),
            Self::Tag(name) => (4, name.to_owned()),
            Self::Etcd(name) => (5, name.to_owned()),
        }
    }
}

/// The places under one limit, wave by wave.
struct Places {
    limit: usize,
    taken: Vec<usize>,
    /// A wave that is not before the first one with a free place, from here on; itself while it has one.
    next: Vec<usize>,
}

impl Places {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: Vec::new(),
            next: Vec::new(),
        }
    }

    fn first_free(&mut self, from: usize) -> usize {
        let mut free = from;
        while let Some(next) = self.next.get(free).filter(|next| **next != free) {
            free = *next;
        }
        let mut at = from;
        while at != free {
            at = std::mem::replace(&mut self.next[at], free);
        }
        free
    }

    fn take(&mut self, wave: usize) {
        while self.taken.len() <= wave {
            self.next.push(self.taken.len());
            self.taken.push(0);
        }
        self.taken[wave] += 1;
        if self.taken[wave] >= self.limit {
            self.next[wave] = wave + 1;
        }
    }
}
