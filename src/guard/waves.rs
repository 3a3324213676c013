//! Waves: which machines are out of service together.
//!
//! Every limit is a number of places in each wave, and a machine takes a place under each limit that is
//! about it. It goes into the first wave with a free place under all of them. Full waves are skipped by
//! links that are shortened as they are followed, so thousands of machines under a limit of one cost
//! little more than thousands of machines under none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::criteria;
use crate::design::{DefaultLimits, Design, Guards, NodeDesign, NodeName, Share, SuccessCriteria};
use crate::diagnostic::counted;

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

/// Most control-plane machines out of service together, if neither flag nor policy says otherwise.
const CONTROL_PLANE: WaveSize = WaveSize {
    most: 1,
    reason: WaveReason::ControlPlane,
};

/// Most other machines out of service together, if neither flag nor policy says otherwise.
const OTHERS: WaveSize = WaveSize {
    most: 10,
    reason: WaveReason::Ten,
};

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
    Group(&'a str),
}

/// Where the size of a wave comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaveReason {
    /// `--max-unavailable`.
    Flag,
    /// The policy's `max_unavailable`, for the site, a group, a rack or a tag.
    Policy,
    /// One machine of the control plane at a time.
    ControlPlane,
    /// Ten machines, if nothing else is smaller.
    Ten,
    /// A quarter of the group.
    Quarter,
    /// The machines of one failure domain.
    FailureDomain,
    /// More failures than the group's success criteria leave.
    Criteria,
    /// The quorum of an etcd cluster.
    Etcd,
}

impl WaveReason {
    /// Whether a machine that finds no place stays as it is. Etcd is judged by itself; a default for a group makes its waves
    /// smaller and refuses nothing.
    const fn refuses(self) -> bool {
        match self {
            Self::Flag | Self::Policy | Self::ControlPlane | Self::Ten => true,
            Self::Quarter | Self::FailureDomain | Self::Criteria | Self::Etcd => false,
        }
    }
}

/// A limit on machines out of service together, over the machines of a plan. A run holds it, too: a machine that does not
/// come back keeps its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceLimit {
    /// The machines that it is about, such as `of rack `r1``.
    pub of: Arc<str>,
    /// How many may be out of service.
    pub most: usize,
    /// How many of these are left to the plan.
    pub places: usize,
    /// A document or a flag gives the number, and it is never exceeded. A default lets a whole wave begin while fewer
    /// machines did not come back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_given: bool,
    /// The machines of the plan that it is about.
    pub nodes: Vec<NodeName>,
    /// Those of them that are out of service before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<NodeName>,
}

/// The most machines of a wave, and why no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaveSize {
    /// How many.
    pub most: usize,
    /// Why no more.
    pub reason: WaveReason,
}

/// A deployment group, as far as the size of its waves depends on it.
#[derive(Clone, Copy, Debug)]
pub struct GroupSize<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its nodes.
    pub nodes: &'a [NodeName],
    /// How many of them count: those that are not retired.
    pub total: usize,
    /// How many of them may not fail.
    pub criteria: &'a SuccessCriteria,
}

/// The limits of a site on machines out of service together.
///
/// The flag, else the policy's total, else one machine of the control plane (by [`is_control_plane`], or as a member
/// of an etcd cluster) and of the others ten, a quarter of each group, and what the group's criteria leave. A share in
/// place of a number is of each group. The policy's limits by rack and tag hold beside any of these, and so does the
/// number of healthy members of each etcd cluster. Machines that go together are in one failure domain of each kind, if the
/// policy names some; these replace the ten, and the quarter of a group that is in several.
#[derive(Clone, Debug)]
pub struct WaveLimits<'a> {
    guards: &'a Guards,
    /// In the whole site.
    total: Option<WaveSize>,
    /// In each group, in percent.
    share: Option<(Share, WaveReason)>,
    /// The defaults that hold: of the control plane, of all others and of groups.
    defaults: DefaultLimits,
    /// Whether the ten and the quarter are among them.
    has_default_width: bool,
    /// Whether machines that go together are in one failure domain.
    has_domains: bool,
    /// By node, the clusters of which it is a member, each with the members that it can lose.
    clusters: FxHashMap<&'a str, Vec<(&'a str, usize)>>,
    /// By node, the groups that hold it, each with the machines that it can lose.
    groups: FxHashMap<&'a str, Vec<(&'a str, WaveSize)>>,
    /// By limit, the machines that take a place already, each with the reason.
    held: FxHashMap<(u8, String), BTreeMap<NodeName, &'static str>>,
    /// The machines that take a place already.
    down: FxHashSet<NodeName>,
}

/// Why a machine may not be taken out of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlace {
    /// The limit, and the machines that hold its places.
    pub reason: String,
    /// A flag under which it has a place, if one does.
    pub flag: Option<String>,
}

impl<'a> WaveLimits<'a> {
    /// The limits of guards under `--max-unavailable`.
    #[must_use]
    pub fn new(guards: &'a Guards, flag: Option<Share>) -> Self {
        let mut clusters: FxHashMap<_, Vec<_>> = FxHashMap::default();
        for cluster in &guards.etcd_clusters {
            let spare = cluster
                .members
                .len()
                .saturating_sub(cluster.minimum_healthy);
            for member in &cluster.members {
                let of_node = clusters.entry(member.node.as_str()).or_default();
                of_node.push((cluster.name.as_str(), spare));
            }
        }
        let policy = &guards.policy.max_unavailable;
        let domains = &guards.policy.failure_domains;
        let (total, share, reason) = match flag {
            Some(flag) => (flag.as_number(), flag.as_percent(), WaveReason::Flag),
            None => (policy.total, policy.percent, WaveReason::Policy),
        };
        let defaults = match flag {
            Some(_) => DefaultLimits {
                control_plane: total.is_none(),
                others: false,
            },
            None => DefaultLimits {
                control_plane: policy.has_control_plane_default(),
                others: policy.has_default(),
            },
        };
        Self {
            guards,
            total: total.map(|most| WaveSize { most, reason }),
            share: share.map(|share| (Share::Percent(share), reason)),
            has_default_width: defaults.others && domains.holds_default_width(),
            has_domains: !domains.by.is_empty(),
            defaults,
            clusters,
            groups: FxHashMap::default(),
            held: FxHashMap::default(),
            down: FxHashSet::default(),
        }
    }

    /// Drops the failure domains, for what brings back machines that are down already.
    #[must_use]
    pub const fn without_domains(mut self) -> Self {
        self.has_domains = false;
        self
    }

    /// Adds the groups that hold the machines that the limits are asked about; `left`: those that have left the design, and are missed
    /// in the groups that would select them as long as they are down.
    #[must_use]
    pub fn with_groups(
        mut self,
        groups: impl IntoIterator<Item = GroupSize<'a>>,
        (machines, left): (&FxHashSet<&NodeName>, &[&'a NodeDesign]),
        design: &Design,
    ) -> Self {
        if machines.is_empty() || (self.share.is_none() && !self.defaults.others) {
            return self;
        }
        for group in groups {
            let size = self.size_of(group, design);
            let guards = self.guards;
            let selects = |node: &NodeDesign| {
                let mut groups = guards.groups.iter();
                groups.any(|each| each.name.as_str() == group.name && each.selects(node))
            };
            let left = left.iter().filter(|node| selects(node));
            let held = group.nodes.iter().filter(|node| machines.contains(node));
            for node in held.chain(left.map(|node| &node.name)) {
                let of_node = self.groups.entry(node.as_str()).or_default();
                of_node.push((group.name, size));
            }
        }
        self
    }

    /// How many machines of a group may be out of service together; one at least.
    fn size_of(&self, group: GroupSize<'_>, design: &Design) -> WaveSize {
        let size = |most: usize, reason| WaveSize {
            most: most.max(1),
            reason,
        };
        let nodes = group.total;
        let share = self
            .share
            .map(|(share, reason)| size(share.of(nodes), reason));
        let default = self.defaults.others.then(|| {
            let left = criteria::may_fail(group.criteria, nodes);
            let left = size(left, WaveReason::Criteria);
            match self.has_default_width || !self.is_in_several_domains(group, design) {
                true => left.min(size(nodes.div_ceil(4), WaveReason::Quarter)),
                false => left,
            }
        });
        let all = share.into_iter().chain(default);
        all.min()
            .unwrap_or_else(|| size(nodes, WaveReason::Quarter))
    }

    /// Whether a group is in more than one failure domain, so that without one of them others are left.
    fn is_in_several_domains(&self, group: GroupSize<'_>, design: &Design) -> bool {
        let nodes = group.nodes.iter();
        let nodes = nodes.filter_map(|name| design.nodes.get(name));
        let mut domains = nodes.map(|node| self.domain_of(node));
        let first = domains.next();
        domains.any(|domain| first.as_ref() != Some(&domain))
    }

    /// Whether a machine is one of the control plane: here, in another revision whose guards hold, or with a member of etcd.
    #[must_use]
    pub fn has_control_plane(&self, node: &NodeDesign) -> bool {
        let elsewhere = self.guards.policy.elsewhere.get(&node.name);
        let was = elsewhere.is_some_and(|place| place.control_plane);
        was || is_control_plane(node) || self.clusters.contains_key(node.name.as_str())
    }

    /// The limits that are about a machine, each with its number of places.
    fn about<'n>(&'n self, node: &'n NodeDesign) -> Vec<(About<'n>, WaveSize)> {
        let policy = &self.guards.policy.max_unavailable;
        let of_policy = |most| WaveSize {
            most,
            reason: WaveReason::Policy,
        };
        let clusters = self.clusters.get(node.name.as_str());
        let mut result = Vec::with_capacity(4);
        if let Some(total) = self.total {
            result.push((About::Site, total));
        }
        let elsewhere = self.guards.policy.elsewhere.get(&node.name);
        match self.has_control_plane(node) {
            true if self.defaults.control_plane => {
                result.push((About::ControlPlane, CONTROL_PLANE));
            }
            false if self.has_default_width => result.push((About::Others, OTHERS)),
            true | false => {}
        }
        if let Some(limit) = policy.per_rack {
            let other = elsewhere.into_iter().flat_map(|place| &place.racks);
            let racks: BTreeSet<&Arc<str>> = node.rack.iter().chain(other).collect();
            result.extend(
                racks
                    .into_iter()
                    .map(|rack| (About::Rack(rack), of_policy(limit))),
            );
        }
        for (tag, limit) in &policy.by_tag {
            let is_elsewhere = elsewhere.is_some_and(|place| place.tags.contains(tag));
            if node.tags.contains(tag) || is_elsewhere {
                result.push((About::Tag(tag), of_policy(*limit)));
            }
        }
        for (cluster, spare) in clusters.into_iter().flatten() {
            let size = WaveSize {
                most: *spare,
                reason: WaveReason::Etcd,
            };
            result.push((About::Etcd(cluster), size));
        }
        for (group, size) in self.groups.get(node.name.as_str()).into_iter().flatten() {
            result.push((About::Group(group), *size));
        }
        result
    }

    /// The places that are left under a limit, one at least.
    fn left(&self, about: About<'_>, limit: WaveSize) -> usize {
        let held = self.held.get(&about.key()).map_or(0, BTreeMap::len);
        limit.most.saturating_sub(held).max(1)
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
        self.down.insert(node.name.clone());
        for key in self.keys(node) {
            let held = self.held.entry(key).or_default();
            held.insert(node.name.clone(), why);
        }
    }

    /// Whether two machines fail apart, so that they are not out of service together.
    #[must_use]
    pub fn is_in_another_domain(&self, one: &NodeDesign, other: &NodeDesign) -> bool {
        self.has_domains && self.domain_of(one) != self.domain_of(other)
    }

    /// A machine that was held is brought back from here on.
    pub fn release(&mut self, node: &NodeDesign) {
        self.down.remove(&node.name);
        for key in self.keys(node) {
            if let Some(held) = self.held.get_mut(&key) {
                held.remove(&node.name);
            }
        }
    }

    /// The limits under which a machine out of service takes a place. The observed state of etcd counts its members that do not
    /// answer.
    fn keys(&self, node: &NodeDesign) -> Vec<(u8, String)> {
        let about = self.about(node).into_iter();
        let about = about.filter(|(about, _)| !matches!(about, About::Etcd(_)));
        about.map(|(about, _)| about.key()).collect()
    }

    /// Why a machine may not be taken out of service, if a limit leaves it no place at all; `more`: how many machines would
    /// have to find a place with it.
    #[must_use]
    pub fn refusal(&self, node: &NodeDesign, more: usize) -> Option<NoPlace> {
        let about = self.about(node);
        about.into_iter().find_map(|(about, size)| {
            let none = BTreeMap::new();
            let held = self.held.get(&about.key()).unwrap_or(&none);
            let limit = size.most;
            if !size.reason.refuses() || limit > held.len() {
                return None;
            }
            let whose = match about {
                About::Etcd(_) | About::Site => String::new(),
                _ => format!("{about} "),
            };
            let machines = counted(limit, "machine", "machines");
            let mut all = held.iter();
            let reason = match (limit, all.next(), all.len()) {
                (0, ..) => format!("no machine {whose}may be unavailable"),
                (_, Some((one, why)), 0) => format!(
                    "at most {machines} {whose}may be unavailable, and {one} is {why}"
                ),
                (_, Some((one, why)), more) => format!(
                    "at most {machines} {whose}may be unavailable, and {one} is {why}, and {more} more are down"
                ),
                (_, None, _) => return None,
            };
            let is_loosened = size.reason != WaveReason::Policy;
            let flag = is_loosened.then(|| format!("--max-unavailable {}", self.down.len() + more));
            Some(NoPlace { reason, flag })
        })
    }

    /// The limits that a run of these machines holds, those left out under which all of them have a place; with each machine,
    /// whether it is out of service before.
    #[must_use]
    pub fn of_run<'n>(
        &self,
        machines: impl IntoIterator<Item = (&'n NodeDesign, bool)>,
    ) -> Vec<PlaceLimit> {
        let mut limits: BTreeMap<(u8, String), PlaceLimit> = BTreeMap::new();
        for (node, is_down) in machines {
            let about = self.about(node).into_iter();
            for (about, size) in about.filter(|(_, size)| size.reason.refuses()) {
                let key = about.key();
                let held = self.held.get(&key).map_or(0, BTreeMap::len);
                let limit = limits.entry(key).or_insert_with(|| PlaceLimit {
                    of: about.to_string().into(),
                    most: size.most,
                    places: size.most.saturating_sub(held),
                    is_given: matches!(size.reason, WaveReason::Flag | WaveReason::Policy),
                    nodes: Vec::new(),
                    down: Vec::new(),
                });
                limit.nodes.push(node.name.clone());
                limit.down.extend(is_down.then(|| node.name.clone()));
            }
        }
        let limits = limits.into_values();
        limits
            .filter(|limit| limit.nodes.len() > limit.places)
            .collect()
    }

    /// The widest of waves, and why no other is wider; nothing if only one machine goes.
    #[must_use]
    pub fn size(&self, waves: &[Vec<&NodeDesign>]) -> Option<WaveSize> {
        let widest = waves.iter().max_by_key(|wave| wave.len())?;
        if widest.len() == 1 && waves.len() == 1 {
            return None;
        }
        let limits = widest.iter().flat_map(|node| self.about(node));
        let limits = limits.map(|(about, limit)| (self.left(about, limit), limit.reason));
        let domain = widest.first().and_then(|node| self.domain_of(node));
        let of_domain = domain.map(|domain| {
            let all = waves.iter().flatten().map(|node| self.domain_of(node));
            let count = all.filter(|own| own.as_ref() == Some(&domain)).count();
            (count, WaveReason::FailureDomain)
        });
        let limits = limits.chain(of_domain);
        let (wide, narrow): (Vec<_>, Vec<_>) =
            limits.partition(|(places, _)| *places >= widest.len());
        let (_, reason) = wide
            .into_iter()
            .min()
            .or_else(|| narrow.into_iter().max())?;
        Some(WaveSize {
            most: widest.len(),
            reason,
        })
    }

    /// The domain of each machine, and the machines of a domain behind the first of them.
    fn by_domain<'n>(
        &self,
        nodes: impl IntoIterator<Item = &'n NodeDesign>,
    ) -> Vec<(Option<String>, &'n NodeDesign)> {
        let nodes = nodes.into_iter().map(|node| (self.domain_of(node), node));
        let mut nodes: Vec<_> = nodes.collect();
        if !self.has_domains {
            return nodes;
        }
        let mut places: FxHashMap<Option<String>, usize> = FxHashMap::default();
        for (domain, _) in &nodes {
            let next = places.len();
            places.entry(domain.clone()).or_insert(next);
        }
        nodes.sort_by_key(|(domain, _)| places[domain]);
        nodes
    }

    /// The failure domains of a machine as one word; machines with the same one may go together.
    fn domain_of(&self, node: &NodeDesign) -> Option<String> {
        let domains = &self.guards.policy.failure_domains;
        if !self.has_domains {
            return None;
        }
        let elsewhere = domains.elsewhere.get(&node.name);
        let words = domains.by.iter().map(|by| {
            let others = elsewhere.into_iter().flatten();
            let others = others.filter(|(other, _)| other == by);
            let values: BTreeSet<&Arc<str>> = by
                .of(node)
                .into_iter()
                .chain(others.map(|(_, value)| value))
                .collect();
            // A machine of no domain fails alone.
            match values.is_empty() {
                true => format!("{by} of {:?}", node.name.as_str()),
                false => format!("{by} {values:?}"),
            }
        });
        Some(words.collect::<Vec<_>>().join(", "))
    }

    /// Puts machines into waves, in the order given; each wave keeps that order. With `canary` the
    /// first wave is one machine. A machine under a limit of 0 goes alone ([`Self::refusal`] refuses it
    /// before).
    #[must_use]
    pub fn waves<'n>(
        &self,
        nodes: impl IntoIterator<Item = &'n NodeDesign>,
        canary: bool,
    ) -> Vec<Vec<&'n NodeDesign>> {
        let mut waves: Vec<Vec<&NodeDesign>> = Vec::new();
        // The first wave of a failure domain is behind the last one of the domain before.
        let (mut nodes, mut first) = (self.by_domain(nodes), 0);
        let mut domain = nodes.first().and_then(|(domain, _)| domain.clone());
        let mut numbers: FxHashMap<(u8, String), usize> = FxHashMap::default();
        let mut places: Vec<Places> = Vec::new();
        for (own, node) in nodes.drain(..) {
            if own != domain {
                (domain, first) = (own, waves.len());
            }
            let mine: Vec<usize> = self
                .about(node)
                .into_iter()
                .map(|(about, limit)| {
                    *numbers.entry(about.key()).or_insert_with(|| {
                        places.push(Places::new(self.left(about, limit)));
                        places.len() - 1
                    })
                })
                .collect();
            let mut wave = first.max(usize::from(canary && !waves.is_empty()));
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
            waves[wave].push(node);
        }
        waves
    }
}

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Site => f.write_str("of the site"),
            Self::ControlPlane => f.write_str("of the control plane"),
            Self::Others => f.write_str("outside the control plane"),
            Self::Rack(rack) => write!(f, "of rack `{rack}`"),
            Self::Tag(tag) => write!(f, "with tag `{tag}`"),
            Self::Etcd(cluster) => write!(f, "of etcd `{cluster}`"),
            Self::Group(group) => write!(f, "of group `{group}`"),
        }
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
            Self::Group(name) => (6, name.to_owned()),
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
