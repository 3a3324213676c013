//! The effect of a plan: what it does to the site, whatever way it was planned and in whatever order it is done.
//!
//! Two plans of one effect are the same decision for a reviewer. It holds what each node is changed to and by which
//! kinds of steps, the disks, etcd members and Kubernetes node that are meant, labels and image, what had to be
//! allowed for it, the limits of the site and the order of its groups. It does not hold which wave a node is in,
//! texts, estimates, ids of commits, or anything of a node that has no step.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::fact::FactName;
use super::{Action, Change, ChangeKind, Plan};
use crate::design::{AcceptedDesign, ClusterName, Digest, GroupName, NodeName, Share, SiteName};
use crate::identity::Identity;
use crate::remediation;
use crate::step::{
    CleanStep, DeployStep, Effect, EtcdRemoval, OnDrainTimeout, Parameters, StepKind,
};

/// Digits of a digest that pin an effect, at least.
pub const SHORTEST_PIN: usize = 16;

/// The effect of a plan. Its digest is SHA-256 over its canonical JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanEffect<'p> {
    site: &'p SiteName,
    action: Action,
    limits: EffectLimits,
    groups: Vec<&'p GroupName>,
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
    /// Those that are erased and built again.
    pub redeployed: usize,
    /// Those that are taken away, their data, their etcd members or their records with them.
    pub taken_away: usize,
}

/// The effect on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct NodeEffect<'p> {
    node: &'p NodeName,
    change: ChangeKind,
    destructive: bool,
    /// Nothing proves that it is the machine that is meant.
    #[serde(skip_serializing_if = "is_false")]
    unverified: bool,
    /// The identity that is recorded for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<&'p Identity>,
    /// The differences from its design that are recorded as accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<&'p AcceptedDesign>,
    steps: Kinds,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    disks: &'p [Arc<str>],
    /// The serials of its disks as compact JSON, where its inventory was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    serials: Option<&'p str>,
    #[serde(skip_serializing_if = "is_false")]
    preserve_local_storage: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    etcd_members: &'p [EtcdRemoval],
    #[serde(skip_serializing_if = "Option::is_none")]
    node_uid: Option<&'p str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    set_labels: &'p [(Arc<str>, Arc<str>)],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    remove_labels: &'p [Arc<str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'p str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    clean_steps: &'p [CleanStep],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    deploy_steps: &'p [DeployStep],
    #[serde(skip_serializing_if = "Option::is_none")]
    remediation: Option<remediation::RemediationLimits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_drain_timeout: Option<OnDrainTimeout>,
    /// Seconds that its pods are given to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    destroy_etcd: &'p [ClusterName],
    #[serde(skip_serializing_if = "is_false")]
    node_is_gone: bool,
    #[serde(skip_serializing_if = "is_false")]
    forget: bool,
}

fn is_false(value: &bool) -> bool {
    !value
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

    pub(super) fn insert(&mut self, kind: StepKind) {
        self.0 |= 1 << (kind as u32);
    }

    pub(super) fn contains(self, kind: StepKind) -> bool {
        self.0 & (1 << (kind as u32)) != 0
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that `other` does not have.
    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectPart {
    /// Which kinds of steps there are.
    Steps,
    /// Whether data is destroyed, where the change is the same: a new machine whose disks were not known may turn out empty.
    Data,
    /// Which members are taken out of their etcd clusters.
    Etcd,
    /// The parts of a teardown: the change, disks, etcd members, clean steps, the Kubernetes node.
    Teardown,
    /// Which groups there are, and their order.
    Groups,
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
            let parameters = step.parameters.as_deref();
            match &step.id.node {
                None if kind.is_barrier() => {}
                None => steps.insert(kind),
                // It fails before anything is tried.
                Some(_) if parameters.is_some_and(|all| all.refused.is_some()) => {}
                Some(name) => {
                    if let Ok(position) = nodes.binary_search_by_key(&name, |node| node.node) {
                        nodes[position].take(kind, step.effect, parameters);
                    }
                }
            }
        }
        nodes.retain(|node| !node.steps.is_empty());
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
                None => vec![(EffectPart::Steps, format!("{} added", node.steps))],
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

    /// The nodes to which `reviewed` does something that this effect does not.
    #[must_use]
    pub fn leaves_out(&self, reviewed: &Self) -> Vec<Difference> {
        let mine: FxHashMap<&NodeName, &NodeEffect<'_>> =
            self.nodes.iter().map(|node| (node.node, node)).collect();
        let left = reviewed.nodes.iter().filter_map(|node| {
            let done = mine.get(node.node).map(|node| node.steps);
            let left = node.steps.without(done.unwrap_or_default());
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
    pub fn takes_without(&self, now: &Self) -> Vec<Difference> {
        let taking = Kinds::of(&[
            StepKind::ShutdownKubelet,
            StepKind::Destroy,
            StepKind::RemoveFromCluster,
        ]);
        let guarding = Kinds::of(&[
            StepKind::Drain,
            StepKind::RemoveEtcd,
            StepKind::CheckEtcd,
            StepKind::AwaitReady,
        ]);
        let takes = |node: &&NodeEffect<'_>| node.steps.without(taking) != node.steps;
        let taken = self.nodes.iter().filter(takes);
        let taken: FxHashMap<&NodeName, Kinds> =
            taken.map(|node| (node.node, node.steps)).collect();
        let missing = now.nodes.iter().filter(takes).filter_map(|node| {
            let missing = node.steps.without(*taken.get(node.node)?);
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
        found.is_ok_and(|position| self.nodes[position].steps.contains(kind))
    }

    /// Whether machines are erased or taken out of a cluster for good, or their records dropped or given to others:
    /// what an action does to the nodes that an operator names, and to no other.
    #[must_use]
    pub fn takes_away(&self) -> bool {
        let kinds = Kinds::of(&[
            StepKind::Destroy,
            StepKind::Clean,
            StepKind::RemoveEtcd,
            StepKind::RemoveFromCluster,
            StepKind::Forget,
            StepKind::AcceptIdentity,
            StepKind::AcceptDifferences,
        ]);
        let mut nodes = self.nodes.iter();
        nodes.any(|node| node.steps.without(kinds) != node.steps)
    }

    /// How many nodes it does what kind of thing to.
    #[must_use]
    pub fn scale(&self) -> EffectScale {
        let taking = Kinds::of(&[
            StepKind::Destroy,
            StepKind::Clean,
            StepKind::RemoveEtcd,
            StepKind::RemoveFromCluster,
            StepKind::Forget,
        ]);
        let mut scale = EffectScale {
            nodes: self.nodes.len(),
            ..EffectScale::default()
        };
        for node in &self.nodes {
            match node.change {
                ChangeKind::Redeploy => scale.redeployed += 1,
                ChangeKind::Create if node.destructive => scale.redeployed += 1,
                ChangeKind::Destroy => scale.taken_away += 1,
                _ if node.destructive || node.steps.without(taking) != node.steps => {
                    scale.taken_away += 1;
                }
                _ => {}
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
            destructive: change.destructive,
            unverified: change.unverified,
            identity: None,
            accepted: None,
            steps: Kinds::default(),
            disks: &change.disks,
            serials: None,
            preserve_local_storage: false,
            etcd_members: &[],
            node_uid: None,
            set_labels: &[],
            remove_labels: &[],
            image: None,
            clean_steps: &[],
            deploy_steps: &[],
            remediation: None,
            on_drain_timeout: None,
            grace_period: None,
            destroy_etcd: &[],
            node_is_gone: false,
            forget: false,
        }
    }

    /// Takes in a step.
    fn take(&mut self, kind: StepKind, harm: Effect, parameters: Option<&'p Parameters>) {
        self.steps.insert(kind);
        let destroys = matches!(
            kind,
            StepKind::Destroy | StepKind::Clean | StepKind::Remediate
        );
        self.destructive |= destroys && harm == Effect::Destructive;
        let Some(all) = parameters else { return };
        if kind == StepKind::RemoveEtcd {
            self.etcd_members = &all.etcd_members;
        }
        for (mine, theirs) in [
            (&mut self.remove_labels, &all.remove_labels),
            (&mut self.disks, &all.disks),
        ] {
            if !theirs.is_empty() {
                *mine = theirs;
            }
        }
        if !all.set_labels.is_empty() {
            self.set_labels = &all.set_labels;
        }
        if !all.clean_steps.is_empty() {
            self.clean_steps = &all.clean_steps;
        }
        if !all.deploy_steps.is_empty() {
            self.deploy_steps = &all.deploy_steps;
        }
        if !all.etcd_given_up.is_empty() {
            self.destroy_etcd = &all.etcd_given_up;
        }
        self.preserve_local_storage |= all.preserve_local_storage;
        self.node_uid = all.node_uid.as_deref().or(self.node_uid);
        self.image = all.image.as_deref().or(self.image);
        self.remediation = all.remediation.or(self.remediation);
        self.on_drain_timeout = all.on_drain_timeout.or(self.on_drain_timeout);
        self.grace_period = all.grace_period.or(self.grace_period);
        if kind == StepKind::AcceptIdentity {
            self.identity = all.identity.as_deref();
        }
        self.accepted = all.accepted.as_deref().or(self.accepted);
        self.node_is_gone |= all.node_is_gone;
        self.forget |= all.forget;
    }

    fn adds_to(&self, before: &NodeEffect<'_>) -> Vec<(EffectPart, String)> {
        let steps = self.steps.without(before.steps);
        let steps = (!steps.is_empty()).then(|| (EffectPart::Steps, format!("{steps} added")));
        let of = |part: EffectPart| move |what: String| (part, what);
        let members = self.members_added(before).map(of(EffectPart::Etcd));
        let destroys = self.destructive && !before.destructive;
        let data = destroys.then(|| "data is destroyed, or a machine taken away".to_owned());
        let teardown = self.teardown_adds(before).into_iter();
        let rest = self.meant_adds(before).into_iter();
        let all = teardown
            .map(of(EffectPart::Teardown))
            .chain(data.map(of(EffectPart::Data)))
            .chain(members)
            .chain(steps);
        all.chain(rest.map(of(EffectPart::Rest))).collect()
    }

    /// The members that are taken out of etcd clusters.
    fn members_added(&self, before: &NodeEffect<'_>) -> impl Iterator<Item = String> {
        let members = self.etcd_members.iter();
        let added = members.filter(|member| !before.etcd_members.contains(member));
        added.map(|member| {
            format!(
                "member {} (`{}`) of etcd cluster `{}` is removed",
                member.member_id, member.name, member.cluster
            )
        })
    }

    /// The destroyed and removed objects.
    fn teardown_adds(&self, before: &NodeEffect<'_>) -> Vec<String> {
        let mut added = Vec::new();
        if weight(self.change) > weight(before.change) {
            added.push(format!(
                "the change is `{}`, not `{}`",
                word(self.change),
                word(before.change)
            ));
        }
        if let Some(disk) = self.disks.iter().find(|disk| !before.disks.contains(disk)) {
            added.push(format!("disk `{disk}` is erased or written"));
        }
        if self.node_uid.is_some() && self.node_uid != before.node_uid {
            added.push("another Kubernetes node with that name is meant".to_owned());
        }
        if !self.clean_steps.is_empty() && self.clean_steps != before.clean_steps {
            added.push("other clean steps are run".to_owned());
        }
        added
    }

    /// The subjects, settings and allowances.
    fn meant_adds(&self, before: &NodeEffect<'_>) -> Vec<String> {
        let mut added = Vec::new();
        // What was not seen when it was reviewed is no other than it was.
        if let (Some(now), Some(then)) = (self.serials, before.serials)
            && now != then
        {
            added.push(format!("the serials of its disks are {now}, not {then}"));
        }
        if before.preserve_local_storage && !self.preserve_local_storage {
            added.push("disks that were to be preserved are erased".to_owned());
        }
        if self.unverified && !before.unverified {
            added.push("nothing proves any more that it is the machine that is meant".to_owned());
        }
        if self.identity.is_some() && self.identity != before.identity {
            added.push("another machine is recorded for it".to_owned());
        }
        if self.accepted.is_some() && self.accepted != before.accepted {
            added.push("other differences from its design are accepted".to_owned());
        }
        if self.image.is_some() && self.image != before.image {
            added.push(format!(
                "image `{}` is deployed",
                self.image.unwrap_or_default()
            ));
        }
        // A deploy without the steps that were reviewed does not do less: the machine is set up otherwise.
        let deploys = self.steps.contains(StepKind::Deploy);
        if deploys && self.deploy_steps != before.deploy_steps {
            added.push("other deploy steps are run".to_owned());
        }
        let set = self.set_labels.iter();
        let set = set.filter(|label| !before.set_labels.contains(label));
        added.extend(set.map(|(key, value)| format!("label `{key}` is set to `{value}`")));
        let removed = self.remove_labels.iter();
        let removed = removed.filter(|label| !before.remove_labels.contains(label));
        added.extend(removed.map(|key| format!("label `{key}` is removed")));
        if self.remediation.is_some() && self.remediation != before.remediation {
            added.push("the bounds of its remediation are others".to_owned());
        }
        if let (Some(now), Some(then)) = (self.grace_period, before.grace_period)
            && now < then
        {
            added.push(format!("its pods are given {now} s to end, not {then} s"));
        }
        let allowances = [
            (
                "--on-drain-timeout",
                self.on_drain_timeout
                    .is_some_and(|what| what != OnDrainTimeout::Fail)
                    && self.on_drain_timeout != before.on_drain_timeout,
            ),
            ("--node-is-gone", self.node_is_gone && !before.node_is_gone),
            ("--forget", self.forget && !before.forget),
            (
                "--destroy-etcd",
                self.destroy_etcd
                    .iter()
                    .any(|cluster| !before.destroy_etcd.contains(cluster)),
            ),
        ];
        let allowances = allowances.into_iter().filter(|(_, adds)| *adds);
        added.extend(allowances.map(|(flag, _)| format!("`{flag}` takes effect")));
        added
    }
}

/// How much a change takes from a node.
fn weight(kind: ChangeKind) -> u8 {
    match kind {
        ChangeKind::None | ChangeKind::Unknown => 0,
        ChangeKind::Record
        | ChangeKind::Adopt
        | ChangeKind::Relabel
        | ChangeKind::Retire
        | ChangeKind::Unretire
        | ChangeKind::Accept
        | ChangeKind::Drift => 1,
        ChangeKind::Create | ChangeKind::Operation => 2,
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
