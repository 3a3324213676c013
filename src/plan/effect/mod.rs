//! The effect of a plan: what it does to the site, whatever way it was planned and in whatever order it is done.
//!
//! Two plans of one effect are the same decision for a reviewer. So it holds all that a person who approves it would
//! want to have known, of each node that has a step: the digests of the sections of its design, its controller, the
//! backend that reaches it, its identity, its change, and each step with all its parameters; and of the site the
//! limits and the order of its groups. What does not count are the waves that nodes are in, texts, estimates, ids of
//! commits, nodes that have no step, and the rows of `parameters::EXCEPTIONS` and
//! `covered::SECTION_LEFT_OUT`.

pub(super) mod parameters;
mod parts;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::fact::FactName;
use super::{Action, Change, ChangeKind, CoveredMachine, Plan, PlanGuards};
use crate::design::{Digest, GroupName, NodeName, OutOfBand, Rung, Section, Share, SiteName};
use crate::step::{Effect, Facts, LeavingRole, Loss, Step, StepKind};
use parameters::Covered;

pub use parts::CoveredNode;

/// Digits of a digest that pin an effect, at least.
pub const SHORTEST_PIN: usize = 16;

/// The effect of a plan. Its digest is SHA-256 over its canonical JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanEffect<'p> {
    site: &'p SiteName,
    action: Action,
    limits: EffectLimits,
    groups: Vec<&'p GroupName>,
    /// The guards that it is held to, and what it makes weaker.
    #[serde(serialize_with = "PlanGuards::write_effect")]
    guards: &'p PlanGuards,
    /// Steps that are about no node; barriers left out.
    steps: Kinds,
    /// Nodes that have steps, sorted by name.
    nodes: Vec<NodeEffect<'p>>,
}

/// How much is done at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct EffectLimits {
    parallelism: usize,
    parallel_groups: usize,
    overlap: bool,
    max_unavailable: Option<Share>,
    canary: bool,
    max_failures: Option<u64>,
    max_remediations: Option<usize>,
    max_unhealthy: Option<Share>,
}

/// How many nodes an effect does what kind of thing to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EffectScale {
    /// All that something is done to.
    pub nodes: usize,
    /// Those that are erased and built again, or restarted.
    pub redeployed: usize,
    /// Those that are taken away, their data, their etcd members or their records with them.
    pub taken_away: usize,
}

/// The effect on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct NodeEffect<'p> {
    node: &'p NodeName,
    change: ChangeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    rung: Option<Rung>,
    destructive: bool,
    /// Nothing proves that it is the machine that is meant.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unverified: bool,
    /// Its design, and the controller and backend that are contacted.
    machine: Option<&'p CoveredMachine>,
    steps: Vec<StepEffect<'p>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    disks: &'p [Arc<str>],
    /// The serials of its disks as compact JSON, if its inventory was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    serials: Option<&'p str>,
}

/// A step on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct StepEffect<'p> {
    kind: StepKind,
    /// The time that a drain has: when it is over, pods may be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    parameters: Covered<'p>,
}

/// A set of kinds of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u64);

impl Kinds {
    pub(super) fn of(kinds: &[StepKind]) -> Self {
        let mut all = Self::default();
        kinds.iter().for_each(|kind| all.insert(*kind));
        all
    }

    /// All kinds of which this is so.
    fn that(holds: impl Fn(&Facts) -> bool) -> Self {
        let mut all = Self::default();
        let kinds = StepKind::ALL.into_iter();
        kinds
            .filter(|kind| holds(kind.facts()))
            .for_each(|kind| all.insert(kind));
        all
    }

    fn insert(&mut self, kind: StepKind) {
        self.0 |= 1 << (kind as u32);
    }

    pub(super) fn contains(self, kind: StepKind) -> bool {
        self.0 & (1 << (kind as u32)) != 0
    }

    /// Those that `other` does not have.
    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether both have a kind.
    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = StepKind> {
        let all = StepKind::ALL.into_iter();
        all.filter(move |kind| self.contains(*kind))
    }
}

impl Serialize for Kinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(StepKind::as_str))
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, kind) in self.iter().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            write!(f, "{comma}`{kind}`")?;
        }
        Ok(())
    }
}

/// One thing that a plan does and another does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The node; `None`: the site.
    pub node: Option<NodeName>,
    /// The description.
    pub what: String,
    /// Of what it is a part.
    pub part: EffectPart,
}

/// The part that a difference belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectPart {
    /// Which kinds of steps there are.
    Steps,
    /// Whether data is destroyed, if the change is the same: a new machine whose disks were not known may turn out empty.
    Data,
    /// Which members are taken out of their etcd clusters.
    Etcd,
    /// The parts of a teardown: the change, disks, etcd members, clean steps, the Kubernetes node.
    Teardown,
    /// Which groups there are, and their order.
    Groups,
    /// The guards that it is held to. A run is held to those of the moment, whatever its plan was made under.
    Guards,
    /// The time that a drain has: a run gets the one of the moment.
    Drain,
    /// The design of the machine.
    Design,
    /// Which machine it is, and how it is reached.
    Machine,
    /// Anything else.
    Rest,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{node}: {}", self.what),
            None => write!(f, "the site: {}", self.what),
        }
    }
}

impl<'p> PlanEffect<'p> {
    /// The effect of a plan, read off its changes and steps.
    #[must_use]
    pub fn of(plan: &'p Plan) -> Self {
        let options = &plan.options;
        let mut nodes: Vec<NodeEffect<'p>> = plan.changes.iter().map(NodeEffect::of).collect();
        nodes.sort_by_key(|node| node.node);
        let mut steps = Kinds::default();
        for step in &plan.steps {
            let kind = step.id.kind;
            match &step.id.node {
                None if kind.is_barrier() => {}
                None => steps.insert(kind),
                // It fails before anything is tried.
                Some(_) if step.given().refused().is_some() => {}
                Some(name) => {
                    if let Ok(position) = nodes.binary_search_by_key(&name, |node| node.node) {
                        nodes[position].take(step);
                    }
                }
            }
        }
        nodes.retain(|node| !node.steps.is_empty());
        for node in &mut nodes {
            node.steps.sort_by_key(|step| step.kind);
        }
        let mut effect = Self {
            site: &plan.site,
            action: plan.request.action,
            limits: EffectLimits {
                parallelism: options.parallelism,
                parallel_groups: options.parallel_groups,
                overlap: options.overlap,
                max_unavailable: options.max_unavailable,
                canary: options.canary,
                max_failures: options.max_failures,
                max_remediations: options.remediation.max_at_once,
                max_unhealthy: options.remediation.max_unhealthy,
            },
            groups: plan.groups.iter().map(|group| &group.name).collect(),
            guards: &plan.guards,
            steps,
            nodes,
        };
        effect.see_serials(plan);
        effect
    }

    /// Takes the serials of disks from what the plan relies on.
    fn see_serials(&mut self, plan: &'p Plan) {
        for precondition in &plan.relies_on {
            let Some(name) = precondition.subject.node() else {
                continue;
            };
            if precondition.what.fact != FactName::Disks {
                continue;
            }
            let found = self.nodes.binary_search_by_key(&name, |node| node.node);
            if let Ok(position) = found {
                self.nodes[position].serials = Some(&precondition.what.expected);
            }
        }
    }

    /// SHA-256 over its canonical JSON.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut hash = Hash(Sha256::new());
        // Nothing is written anywhere, and all of it is text, numbers and lists.
        let _ = serde_json::to_writer(io::BufWriter::with_capacity(1 << 16, &mut hash), self);
        HEXLOWER.encode(&hash.0.finalize()).into()
    }

    /// The effects that `reviewed` lacks, node by node. None: the approval of `reviewed` covers
    /// this one.
    #[must_use]
    pub fn adds_to(&self, reviewed: &Self) -> Vec<Difference> {
        let mut found: Vec<Difference> = self
            .site_adds(reviewed)
            .into_iter()
            .map(|(part, what)| Difference {
                node: None,
                what,
                part,
            })
            .collect();
        let steps = self.steps.without(reviewed.steps);
        if !steps.is_empty() {
            found.push(Difference {
                node: None,
                what: format!("{steps} added"),
                part: EffectPart::Steps,
            });
        }
        let known: FxHashMap<&NodeName, &NodeEffect<'_>> = reviewed
            .nodes
            .iter()
            .map(|node| (node.node, node))
            .collect();
        for node in &self.nodes {
            let added = match known.get(node.node) {
                None => vec![(EffectPart::Steps, format!("{} added", node.kinds()))],
                Some(before) => node.adds_to(before),
            };
            found.extend(added.into_iter().map(|(part, what)| Difference {
                node: Some(node.node.clone()),
                what,
                part,
            }));
        }
        found
    }

    /// By what it does more than an effect that was approved, the steps that go before a taking counted, too. None: the
    /// approval covers it, being equal or less.
    #[must_use]
    pub fn exceeds(&self, approved: &Self) -> Vec<Difference> {
        let mut more = self.adds_to(approved);
        more.append(&mut self.takes_without(approved));
        more
    }

    /// The nodes to which `reviewed` does something that this effect does not.
    #[must_use]
    pub fn leaves_out(&self, reviewed: &Self) -> Vec<Difference> {
        let mine: FxHashMap<&NodeName, &NodeEffect<'_>> =
            self.nodes.iter().map(|node| (node.node, node)).collect();
        let left = reviewed.nodes.iter().filter_map(|node| {
            let done = mine.get(node.node).map(|node| node.kinds());
            let left = node.kinds().without(done.unwrap_or_default());
            (!left.is_empty()).then(|| Difference {
                node: Some(node.node.clone()),
                what: format!("{left} left out"),
                part: EffectPart::Steps,
            })
        });
        left.collect()
    }

    /// The steps that go before a machine is taken away, or confirm that it is back, and that `now` has and this effect has
    /// not, of nodes that both take away: to leave them out is to do more.
    #[must_use]
    fn takes_without(&self, now: &Self) -> Vec<Difference> {
        let leaving = |place| Kinds::that(|facts| facts.leaving == place);
        let (taking, guarding) = (leaving(LeavingRole::Takes), leaving(LeavingRole::Guards));
        let takes = |node: &&NodeEffect<'_>| node.kinds().meets(taking);
        let taken = self.nodes.iter().filter(takes);
        let taken: FxHashMap<&NodeName, Kinds> =
            taken.map(|node| (node.node, node.kinds())).collect();
        let missing = now.nodes.iter().filter(takes).filter_map(|node| {
            let missing = node.kinds().without(*taken.get(node.node)?);
            let missing = missing.without(missing.without(guarding));
            (!missing.is_empty()).then(|| Difference {
                node: Some(node.node.clone()),
                what: format!("{missing} left out"),
                part: EffectPart::Rest,
            })
        });
        missing.collect()
    }

    /// Whether a step of a kind on a node is part of it.
    #[must_use]
    pub fn holds(&self, node: Option<&NodeName>, kind: StepKind) -> bool {
        let Some(node) = node else {
            return kind.is_barrier() || self.steps.contains(kind);
        };
        let found = self.nodes.binary_search_by_key(&node, |each| each.node);
        found.is_ok_and(|position| self.nodes[position].kinds().contains(kind))
    }

    /// Whether machines are erased or taken out of a cluster for good, or their records dropped or given to others:
    /// what an action does to the nodes that an operator names, and to no other.
    #[must_use]
    pub fn takes_away(&self) -> bool {
        let kinds =
            Kinds::that(|facts| matches!(facts.loss, Loss::Machine | Loss::Record | Loss::Doubt));
        let mut nodes = self.nodes.iter();
        nodes.any(|node| node.kinds().meets(kinds))
    }

    /// The nodes that it does anything to.
    pub fn machines(&self) -> impl Iterator<Item = &'p NodeName> {
        self.nodes.iter().map(|node| node.node)
    }

    /// How many nodes it does what kind of thing to.
    #[must_use]
    pub fn scale(&self) -> EffectScale {
        let taking = Kinds::that(|facts| matches!(facts.loss, Loss::Machine | Loss::Record));
        let mut scale = EffectScale {
            nodes: self.nodes.len(),
            ..EffectScale::default()
        };
        for node in &self.nodes {
            match node.change {
                ChangeKind::Redeploy => scale.redeployed += 1,
                ChangeKind::Create if node.destructive => scale.redeployed += 1,
                ChangeKind::Destroy => scale.taken_away += 1,
                ChangeKind::Create
                | ChangeKind::Adopt
                | ChangeKind::Unknown
                | ChangeKind::Record
                | ChangeKind::AwaitReady
                | ChangeKind::Rename
                | ChangeKind::Relabel
                | ChangeKind::Service
                | ChangeKind::Retire
                | ChangeKind::Unretire
                | ChangeKind::Operation
                | ChangeKind::Drift
                | ChangeKind::Accept
                | ChangeKind::None => {
                    // The name of an action tells what it does, and its rules are of their own.
                    let is_asked = node.change == ChangeKind::Operation;
                    let is_disruptive = node.rung.is_some_and(Rung::is_disruptive);
                    if node.destructive || node.kinds().meets(taking) {
                        scale.taken_away += 1;
                    } else if is_disruptive && !is_asked {
                        scale.redeployed += 1;
                    }
                }
            }
        }
        scale
    }

    fn site_adds(&self, reviewed: &Self) -> Vec<(EffectPart, String)> {
        let mut added = Vec::new();
        if self.action != reviewed.action {
            let what = format!("the action is `{}`, not `{}`", self.action, reviewed.action);
            added.push((EffectPart::Rest, what));
        }
        let mut order = reviewed.groups.iter();
        if let Some(group) = self
            .groups
            .iter()
            .find(|group| !order.any(|other| other == *group))
        {
            let what = format!("group `{group}` is added, or has another place in the order");
            added.push((EffectPart::Groups, what));
        }
        let takes = |name: &str| {
            let nodes = &self.nodes;
            nodes
                .binary_search_by_key(&name, |node| node.node.as_str())
                .is_ok()
        };
        let weaker = self.guards.looser_than(reviewed.guards, &takes).into_iter();
        added.extend(weaker.map(|what| (EffectPart::Guards, what)));
        let looser = self.limits.looser_than(&reviewed.limits).into_iter();
        added.extend(looser.map(|what| (EffectPart::Rest, what)));
        added
    }
}

impl EffectLimits {
    /// The limits that allow more than others do, by their flags.
    fn looser_than(&self, other: &Self) -> Vec<String> {
        let most = |number: Option<usize>| number.unwrap_or(usize::MAX);
        let failures = |number: Option<u64>| number.unwrap_or(u64::MAX);
        // A default that no flag replaces is the policy's.
        let unavailable = match (self.max_unavailable, other.max_unavailable) {
            (Some(mine), Some(other)) => !mine.is_within(other),
            (Some(_), None) => true,
            (None, _) => false,
        };
        let table = [
            ("--parallelism", self.parallelism > other.parallelism),
            (
                "--parallel-groups",
                self.parallel_groups > other.parallel_groups,
            ),
            ("--overlap", self.overlap && !other.overlap),
            ("--max-unavailable", unavailable),
            ("--canary", other.canary && !self.canary),
            (
                "--max-failures",
                failures(self.max_failures) > failures(other.max_failures),
            ),
            (
                "--max-remediations",
                self.max_remediations.is_some()
                    && most(self.max_remediations) > other.max_remediations.unwrap_or_default(),
            ),
            (
                "--max-unhealthy",
                self.max_unhealthy.is_some() && self.max_unhealthy != other.max_unhealthy,
            ),
        ];
        let looser = table.into_iter().filter(|(_, looser)| *looser);
        looser
            .map(|(flag, _)| format!("`{flag}` allows more"))
            .collect()
    }
}

impl<'p> NodeEffect<'p> {
    fn of(change: &'p Change) -> Self {
        Self {
            node: &change.node,
            change: change.kind,
            rung: change.rung,
            destructive: change.destructive,
            unverified: change.unverified,
            machine: change.machine.as_deref(),
            steps: Vec::new(),
            disks: &change.disks,
            serials: None,
        }
    }

    /// Takes in a step. A node that is in several groups has it in each.
    fn take(&mut self, step: &'p Step) {
        let kind = step.id.kind;
        let destroys = matches!(
            kind,
            StepKind::Destroy | StepKind::Clean | StepKind::Remediate
        );
        self.destructive |= destroys && step.effect == Effect::Destructive;
        let step = StepEffect {
            kind,
            timeout: (kind == StepKind::Drain && step.timeout > 0).then_some(step.timeout),
            parameters: Covered {
                kind,
                all: step.parameters.as_deref(),
            },
        };
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// The kinds of its steps.
    fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::default();
        self.steps.iter().for_each(|step| kinds.insert(step.kind));
        kinds
    }

    fn adds_to(&self, before: &NodeEffect<'_>) -> Vec<(EffectPart, String)> {
        let mut added = Vec::new();
        let mut add = |part: EffectPart, what: String| added.push((part, what));
        if weight(self.change) > weight(before.change) {
            let (now, then) = (word(self.change), word(before.change));
            let what = format!("the change is `{now}`, not `{then}`");
            add(EffectPart::Teardown, what);
        }
        for disk in self
            .disks
            .iter()
            .filter(|disk| !before.disks.contains(disk))
        {
            add(
                EffectPart::Teardown,
                format!("disk `{disk}` is erased or written"),
            );
        }
        if let Some(rung) = self.rung.filter(|rung| Some(*rung) > before.rung) {
            let then = before.rung.map_or("none", Rung::as_str);
            add(
                EffectPart::Teardown,
                format!("it goes as far as `{rung}`, not `{then}`"),
            );
        }
        if self.destructive && !before.destructive {
            let what = "data is destroyed, or a machine taken away";
            add(EffectPart::Data, what.to_owned());
        }
        // To wait until it is there does no more than not to wait.
        let waits = Kinds::of(&[StepKind::AwaitReady]);
        let kinds = self.kinds().without(before.kinds()).without(waits);
        if !kinds.is_empty() {
            add(EffectPart::Steps, format!("{kinds} added"));
        }
        // What was not seen when it was reviewed is no other than it was.
        if let (Some(now), Some(then)) = (self.serials, before.serials)
            && now != then
        {
            let [now, then] = [now, then].map(parts::display_serials);
            let what = format!("the serials of its disks are {now}, not {then}");
            add(EffectPart::Machine, what);
        }
        if self.unverified && !before.unverified {
            let what = "nothing proves any more that it is the machine that is meant";
            add(EffectPart::Machine, what.to_owned());
        }
        added.append(&mut self.machine_adds(before));
        for step in &self.steps {
            let mut alike = before.steps.iter().filter(|other| other.kind == step.kind);
            let adds = alike.clone().map(|other| step.adds_to(other));
            let least = adds.min_by_key(Vec::len);
            if alike.next().is_some() {
                added.extend(least.unwrap_or_default());
            }
        }
        // Steps on the same object have the same parameters.
        let mut known = FxHashSet::default();
        added.retain(|each| known.insert(each.clone()));
        added
    }

    /// The machine that is meant, what it is made of, and how it is reached.
    fn machine_adds(&self, before: &NodeEffect<'_>) -> Vec<(EffectPart, String)> {
        let none = CoveredMachine::default();
        let (now, then) = [self.machine, before.machine]
            .map(|machine| machine.unwrap_or(&none))
            .into();
        let differing = Section::ALL
            .into_iter()
            .filter(|section| now.sections.get(section) != then.sections.get(section));
        let mut added: Vec<(EffectPart, String)> = differing
            .map(|section| {
                let what = format!("the section `{section}` of its design is another");
                (EffectPart::Design, what)
            })
            .collect();
        let mut add = |what: String| added.push((EffectPart::Machine, what));
        controller_adds(&now.controller, &then.controller, &mut add);
        if now.backend != then.backend {
            let name = |machine: &CoveredMachine| {
                let backend = machine.backend.as_deref();
                backend.map_or_else(|| "none".to_owned(), ToString::to_string)
            };
            let (now, then) = (name(now), name(then));
            add(match now == then {
                true => format!("the settings of the backend that reaches it ({now}) are others"),
                false => format!("it is reached by {now}, not {then}"),
            });
        }
        if now.clusters != then.clusters {
            add("the clusters of the site are reached otherwise".to_owned());
        }
        for (system, name) in &now.names {
            if then.names.get(system) != Some(name) {
                add(format!("it is called `{name}` in `{system}`"));
            }
        }
        let known: Vec<_> = then.identity.values().collect();
        for (kind, value) in now.identity.values() {
            let mut same_kind = known.iter().filter(|(other, _)| *other == kind).peekable();
            let is_known = same_kind.peek().is_some();
            if is_known && !same_kind.any(|(_, other)| *other == value) {
                add(format!("its {kind} is {value}"));
            }
        }
        added
    }
}

/// The controller of a machine, if it is not the one that was reviewed.
fn controller_adds(now: &OutOfBand, then: &OutOfBand, add: &mut dyn FnMut(String)) {
    let fields = [
        ("kind", &now.kind, &then.kind),
        ("address", &now.address, &then.address),
        ("account", &now.account, &then.account),
    ];
    for (name, now, then) in fields {
        if now != then {
            let [now, then] = [now, then].map(|value| value.as_deref().unwrap_or("none"));
            add(format!(
                "the {name} of its controller is `{now}`, not `{then}`"
            ));
        }
    }
}

impl StepEffect<'_> {
    fn adds_to(&self, reviewed: &StepEffect<'_>) -> Vec<(EffectPart, String)> {
        let mut added = self.parameters.adds_to(&reviewed.parameters);
        let bound = |step: &StepEffect<'_>| step.timeout.unwrap_or(u64::MAX);
        if bound(self) < bound(reviewed) {
            let what = format!("its drain has {} s", bound(self));
            added.push((EffectPart::Drain, what));
        }
        added
    }
}

/// How much a change takes from a node.
fn weight(kind: ChangeKind) -> u8 {
    match kind {
        ChangeKind::None | ChangeKind::Unknown => 0,
        ChangeKind::Record
        | ChangeKind::AwaitReady
        | ChangeKind::Adopt
        | ChangeKind::Rename
        | ChangeKind::Relabel
        | ChangeKind::Retire
        | ChangeKind::Unretire
        | ChangeKind::Accept
        | ChangeKind::Drift => 1,
        ChangeKind::Create | ChangeKind::Operation | ChangeKind::Service => 2,
        ChangeKind::Redeploy => 3,
        ChangeKind::Destroy => 4,
    }
}

/// A kind of change as it is written in a saved plan.
pub(super) fn word(kind: ChangeKind) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Bytes into a digest.
struct Hash(Sha256);

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The digits of a digest that a person reads and gives.
#[must_use]
pub fn short(digest: &Digest) -> &str {
    digest.get(..SHORTEST_PIN).unwrap_or(digest)
}

/// Whether the digits that were given pin an effect.
///
/// # Errors
///
/// They are too few, or not of a digest.
pub fn is_pinned(given: &str, digest: &Digest) -> Result<bool, String> {
    let is_hexadecimal = given.bytes().all(|byte| byte.is_ascii_hexdigit());
    if given.len() < SHORTEST_PIN || !is_hexadecimal {
        return Err(format!(
            "`--effect` wants at least {SHORTEST_PIN} hexadecimal digits of the effect's digest"
        ));
    }
    Ok(digest.starts_with(&given.to_ascii_lowercase()))
}
