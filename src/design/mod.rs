//! The typed site: what the rendered documents say, as values that a planner can work with.
//!
//! Nodes come with their profiles inherited as Drydock does it, groups with their selectors resolved
//! only when asked ([`Group::nodes`]), everything with the mark of the document that said it.
//! [`build`] makes a [`Design`] of rendered documents and reports all that is wrong with them.

mod approvals;
mod boot_action;
mod build;
mod canonical;
mod catalog;
mod cluster;
mod digests;
mod disruption;
mod drain_rules;
mod exposed;
mod failure_domain;
mod field_rung;
#[cfg(test)]
pub(crate) mod fixture;
mod guards;
mod hardware;
#[cfg(test)]
mod hostile;
mod identity;
mod ignored;
mod inherit;
pub(crate) mod kind;
mod merge_join;
mod names;
mod network;
mod node;
mod open;
mod own;
mod part;
mod policy;
mod profile;
mod raid;
mod read;
mod recent;
mod rules;
pub mod schema;
mod section;
mod selector;
mod shared;
mod soak;
mod strategy;
mod ticket;
mod time_zone;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::diagnostic::{Mark, SourceId};
use crate::document::{DocumentId, Node, digest};
pub use crate::remediation::Share;
use crate::remediation::{COOLDOWN, MAX_UNHEALTHY, RemediationLimits};

pub use approvals::{ApprovalPolicy, ApprovalRule, ApprovalScope, BreakGlassPolicy, RecoveryRule};
pub use build::{Checking, Nodes, Others, alone, build, build_among, check, check_among};
pub use catalog::Input;
pub use cluster::quorum;
pub use digests::{Acceptance, AcceptedDesign, DesignDifference, Digests, NoDigest, SectionDigest};
pub use disruption::{BlastRadius, DisruptionPolicy};
pub use drain_rules::{DrainBehavior, DrainRule, DrainRules};
pub use failure_domain::{FailureDomain, FailureDomains};
pub use field_rung::rung_of_field;
pub use guards::{Documented, GuardOrigin, Guards};
pub use hardware::{FirmwareTerms, HardwareSetting, HardwareValue, ImageTerms};
pub use ignored::{FieldPattern, IgnoredChanges, NoPattern};
pub use kind::{GUARDS, POLICY, ROLLOUT, SITE_DEFINITION};
pub use merge_join::MergeJoin;
pub use names::{ClusterName, GroupName, NodeName, RunId, SiteName, name_problem};
pub use open::OpenField;
pub use own::{Addresses, Fields, OwnAddresses, Sections};
pub use policy::backends_of;
pub use raid::{HOT_SPARES, Raid, RaidDrives, RaidLevel, RaidVolume, ShownVolume, VOLUMES};
pub use recent::Recent;
pub(crate) use rules::RESERVED_LABELS;
pub use rules::Size;
pub(crate) use rules::{node_name_problem, sharing_controllers};
pub use schema::SchemaCache;
pub use section::{Class, Rung, Section};
pub use soak::SoakPolicy;
pub use strategy::DEFAULT_STRATEGY;
pub use ticket::{NoTicket, Ticket};
pub use time_zone::SiteTimeZone;

/// The version of the rules by which section digests are computed; digests of different versions are
/// never compared.
pub const DIGEST_VERSION: u32 = 3;

/// The schema of the documents that are machines.
pub const MACHINE: &str = "drydock/BaremetalNode/v1";

/// A SHA-256 in lower-case hexadecimal.
pub type Digest = Arc<str>;

/// The machines of one site at one revision: what they are made of.
#[derive(Clone, Debug)]
pub struct Design {
    /// Which site.
    pub site: SiteName,
    /// All machines.
    pub nodes: BTreeMap<NodeName, Arc<NodeDesign>>,
    adoptions: Vec<open::Adoption>,
    index: OnceLock<selector::NodeIndex>,
}

impl Design {
    /// A site without machines.
    #[must_use]
    pub fn empty(site: SiteName) -> Self {
        Self {
            site,
            nodes: BTreeMap::new(),
            adoptions: Vec::new(),
            index: OnceLock::new(),
        }
    }

    /// Sets the machines in the place of those that are there.
    pub fn set_nodes(&mut self, nodes: BTreeMap<NodeName, Arc<NodeDesign>>) {
        self.nodes = nodes;
        self.index = OnceLock::new();
    }

    /// The nodes of each name, tag, rack and label, found when first asked for: [`Self::nodes`] changes
    /// by [`Self::set_nodes`] only after that.
    fn index(&self) -> &selector::NodeIndex {
        self.index
            .get_or_init(|| selector::NodeIndex::new(&self.nodes))
    }
}

/// One machine, its profiles inherited.
#[derive(Clone, Debug)]
pub struct NodeDesign {
    /// Its name.
    pub name: NodeName,
    /// The `drydock/BaremetalNode/v1` document.
    pub document: DocumentId,
    /// Where that document begins.
    pub mark: Mark,
    /// The rack it stands in.
    pub rack: Option<Arc<str>>,
    /// Tags that selectors name, shared between nodes that have the same.
    pub tags: Arc<BTreeSet<Arc<str>>>,
    /// Kubernetes labels (owner data), shared between nodes that have the same.
    pub labels: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    /// The host profiles that it inherits from, nearest first.
    pub host_profiles: Arc<[Arc<str>]>,
    /// The hardware profile.
    pub hardware_profile: Option<Arc<str>>,
    /// How its management controller is reached.
    pub out_of_band: OutOfBand,
    /// Addresses by network name (`address` of static ones).
    pub addresses: Addresses,
    /// Disks as the storage section names them (device or alias), for a plan to show what is written.
    pub disks: Arc<[Arc<str>]>,
    /// The effective fields of each section, every leaf with the mark of its document; shared
    /// between nodes if they are the same.
    pub sections: Sections,
    /// The digest of each section ([`DIGEST_VERSION`]), in which a secret counts by where it comes from.
    pub digests: Digests,
    /// The documents that make this node what it is (profiles, networks, links, boot actions), each
    /// with the field that refers to it: the hops of a chain of reasons, in lists that nodes share.
    /// [`Self::dependences`] goes through them all.
    pub depends_on: Vec<Arc<[Dependence]>>,
}

impl NodeDesign {
    /// A machine that no document describes, to be observed by its name, and by the kind and the address of its
    /// controller if these are known.
    #[must_use]
    pub fn undescribed(name: NodeName, controller: Option<(Arc<str>, Arc<str>)>) -> Self {
        let (kind, address) = controller.unzip();
        Self {
            document: DocumentId {
                schema: Arc::from(MACHINE),
                name: name.shared().clone(),
            },
            name,
            mark: Mark::new(SourceId(u32::MAX), 0),
            rack: None,
            tags: Arc::default(),
            labels: Arc::default(),
            host_profiles: Arc::from([]),
            hardware_profile: None,
            out_of_band: OutOfBand {
                kind,
                address,
                account: None,
            },
            addresses: Addresses::default(),
            disks: Arc::from([]),
            sections: Sections::default(),
            digests: Digests::default(),
            depends_on: Vec::new(),
        }
    }

    /// The same machine, reached and placed as `now` says: by its address and account, in its rack, with its tags.
    #[must_use]
    pub fn reached_as(&self, now: &Self) -> Self {
        let mut node = self.clone();
        node.rack.clone_from(&now.rack);
        node.tags = now.tags.clone();
        node.out_of_band = now.out_of_band.clone();
        for section in [Section::OutOfBand, Section::Inventory] {
            match now.digests.get(&section) {
                Some(digest) => node.digests.insert(section, *digest),
                None => node.digests.remove(section),
            }
        }
        node.sections.reach_as(&now.sections);
        node
    }

    /// The same machine, compared with the hardware that `now` says: a profile that was wrong when it was applied, and was
    /// corrected since, keeps nothing from being torn down.
    #[must_use]
    pub fn compared_as(&self, now: &Self) -> Self {
        let mut node = self.clone();
        node.hardware_profile.clone_from(&now.hardware_profile);
        node.sections.compare_as(&now.sections);
        match now.digests.get(&Section::Hardware) {
            Some(digest) => node.digests.insert(Section::Hardware, *digest),
            None => node.digests.remove(Section::Hardware),
        }
        node
    }

    /// Whether a section of the machine is another one than it was. A digest says where to look: it is another one also
    /// if only the file was edited that a secret is written in, and there the values decide.
    #[must_use]
    pub fn differs_in(&self, section: Section, before: &Self) -> bool {
        if self.digests.get(&section) == before.digests.get(&section) {
            return false;
        }
        let fields = [self, before].map(|node| node.sections.get(&section));
        let [Some(now), Some(then)] = fields.map(|fields| fields.map(|fields| fields.to_node()))
        else {
            return true;
        };
        !(now.has_secret() || then.has_secret()) || digest(&now) != digest(&then)
    }

    /// All hops from this node to the documents that make it what it is.
    pub fn dependences(&self) -> impl Iterator<Item = &Dependence> {
        self.depends_on.iter().flat_map(|list| list.iter())
    }
}

/// That a document makes a node, or another document, what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// The dependent; absent: the node itself.
    pub dependent: Option<DocumentId>,
    /// On what.
    pub on: DocumentId,
    /// Whether it selects the dependent: then the field is written there.
    pub selects: bool,
    /// By which field (`host_profile`, `hardware_profile`, `interfaces.bond0.networks`, `node_filter`).
    pub by: Arc<str>,
    /// Where that field was written.
    pub mark: Mark,
}

/// How the management controller of a machine is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutOfBand {
    /// `ipmi`, `redfish`, `libvirt`, `manual`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Arc<str>>,
    /// The address on the out-of-band network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// The account's name, if the documents give one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Arc<str>>,
}

impl OutOfBand {
    /// Whether nothing is known of it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kind.is_none() && self.address.is_none() && self.account.is_none()
    }
}

/// A member of an etcd cluster that documents of two revisions place on different nodes, by one name and address: no
/// document proves which machine holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedMember {
    /// Its name in etcd.
    pub name: Arc<str>,
    /// Its node by the newest documents.
    pub now: NodeName,
    /// Its node by the older ones.
    pub then: NodeName,
}

impl MovedMember {
    /// The member, if `now` and `then` are one on different nodes.
    #[must_use]
    pub fn of(now: &EtcdMember, then: &EtcdMember) -> Option<Self> {
        let is_same = now.name == then.name && now.peer_url == then.peer_url;
        (is_same && now.node != then.node).then(|| Self {
            name: now.name.clone(),
            now: now.node.clone(),
            then: then.node.clone(),
        })
    }
}

/// Which nodes: the intersection of the criteria given, each a union of its values.
///
/// An absent or empty criterion is ignored; without any criterion it is all nodes
/// (airship-deployment-grouping, "Selectors").
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selector {
    /// Names of nodes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub node_names: BTreeSet<Arc<str>>,
    /// Tags, any of which a node must have.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub node_tags: BTreeSet<Arc<str>>,
    /// Labels (`key`, `value`), any of which a node must have.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub node_labels: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Racks, in one of which a node must stand.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub rack_names: BTreeSet<Arc<str>>,
}

/// A deployment group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: GroupName,
    /// Whether the site action fails when this group does.
    pub critical: bool,
    /// The groups that must have succeeded before.
    pub depends_on: Vec<GroupName>,
    /// A union; empty, or with a selector without criteria: all nodes.
    pub selectors: Vec<Selector>,
    /// All given must hold; none given: nothing is checked.
    pub success_criteria: SuccessCriteria,
    /// Where the group was written.
    pub mark: Mark,
}

/// When a group counts as successful (airship-deployment-grouping, "Success Criteria").
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuccessCriteria {
    /// Percent (0 to 100) of the group's nodes, compared as a fraction, not rounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_successful_nodes: Option<u32>,
    /// At least so many nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_successful_nodes: Option<u64>,
    /// At most so many nodes that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum_failed_nodes: Option<u64>,
}

/// Timeouts of `shipyard/DeploymentConfiguration/v1`, all in seconds, with Shipyard's defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentConfiguration {
    /// Name of the strategy document, if one is named.
    pub deployment_strategy: Option<Arc<str>>,
    /// Bound of verify-site.
    pub verify_timeout: u64,
    /// Bound of prepare-site.
    pub prepare_site_timeout: u64,
    /// Bound of the prepare of one node.
    pub prepare_node_timeout: u64,
    /// Bound of the deploy of one node.
    pub deploy_timeout: u64,
    /// Bound of the destroy of one node.
    pub destroy_timeout: u64,
    /// Bound of a relabel.
    pub relabel_nodes_timeout: u64,
    /// Wait between a deploy and asking the cluster for the node.
    pub join_wait: u64,
    /// Bound of a node's way to Ready.
    pub node_status_timeout: u64,
    /// Bound of a drain.
    pub drain_timeout: u64,
    /// Grace period given to pods in a drain.
    pub drain_grace_period: u64,
    /// Bound of clear-labels.
    pub clear_labels_timeout: u64,
    /// Bound of remove-etcd.
    pub remove_etcd_timeout: u64,
    /// Bound of check-etcd.
    pub etcd_ready_timeout: u64,
}

impl Default for DeploymentConfiguration {
    fn default() -> Self {
        Self {
            deployment_strategy: None,
            verify_timeout: 60,
            prepare_site_timeout: 300,
            prepare_node_timeout: 1800,
            deploy_timeout: 3600,
            destroy_timeout: 900,
            relabel_nodes_timeout: 900,
            join_wait: 120,
            node_status_timeout: 1800,
            drain_timeout: 3600,
            drain_grace_period: 1800,
            clear_labels_timeout: 1800,
            remove_etcd_timeout: 1800,
            etcd_ready_timeout: 600,
        }
    }
}

/// An etcd cluster of `promenade/EtcdClusters/v1`.
#[derive(Clone, Debug)]
pub struct EtcdCluster {
    /// Its name.
    pub name: ClusterName,
    /// Its members.
    pub members: Vec<EtcdMember>,
    /// Healthy members that the site needs; default the quorum of the full size.
    pub minimum_healthy: usize,
    /// How to authenticate, by reference.
    pub credentials: BTreeMap<Arc<str>, Reference>,
    /// The user whose password is one of them.
    pub username: Option<Arc<str>>,
    /// Where it was written.
    pub mark: Mark,
}

/// A member of an etcd cluster.
#[derive(Clone, Debug)]
pub struct EtcdMember {
    /// The machine it runs on.
    pub node: NodeName,
    /// Its name in etcd.
    pub name: Arc<str>,
    /// Peer URL.
    pub peer_url: Arc<str>,
    /// Client URL.
    pub client_url: Arc<str>,
}

/// An entry of `trueup/NodeRetirement/v1`.
#[derive(Clone, Debug)]
pub struct Retirement {
    /// Which nodes.
    pub selector: Selector,
    /// Why; always shown.
    pub reason: Arc<str>,
    /// From which day on (`YYYY-MM-DD`); absent: at once.
    pub from: Option<Arc<str>>,
    /// Where it was written.
    pub mark: Mark,
}

impl Retirement {
    /// Whether it holds on a day (`YYYY-MM-DD`).
    #[must_use]
    pub fn holds_on(&self, as_of: &str) -> bool {
        self.from.as_deref().is_none_or(|from| from <= as_of)
    }
}

/// `trueup/CleaningPolicy/v1`.
#[derive(Clone, Debug)]
pub struct CleaningPolicy {
    /// The name of its document.
    pub name: Arc<str>,
    /// Which nodes; none: all.
    pub selectors: Vec<Selector>,
    /// Whether machines are cleaned on their way to available.
    pub automated: bool,
    /// Priority by `interface.step`; 0 switches the step off.
    pub priorities: BTreeMap<Arc<str>, u32>,
    /// Where it was written.
    pub mark: Mark,
}

impl CleaningPolicy {
    /// Whether it is for this node.
    #[must_use]
    pub fn is_about(&self, node: &NodeDesign) -> bool {
        self.selectors.is_empty() || self.selectors.iter().any(|each| each.matches(node))
    }
}

/// `trueup/Policy/v1`: what a run may do to the site.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Nodes that are never torn down.
    pub protected: Vec<Selector>,
    /// Nodes whose machines may be changed though nothing proves that they are the ones that are meant.
    pub unverified: Vec<Selector>,
    /// Most nodes out of service at the same time.
    pub max_unavailable: MaxUnavailable,
    /// The failure domains: machines out of service together are in one of each kind.
    pub failure_domains: FailureDomains,
    /// The soak behind each wave.
    pub soak: SoakPolicy,
    /// The rules of drains for pods.
    pub drain_rules: DrainRules,
    /// The time zone of its windows and days.
    pub time_zone: SiteTimeZone,
    /// When changes may be made: in a window of each list, one for each revision that has a say; none: always.
    pub maintenance_windows: Vec<WindowList>,
    /// The behaviour of a destroy if a backend cannot wipe.
    pub wipe: WipePolicy,
    /// Nodes worked on at the same time, if no flag says otherwise.
    pub parallelism: Option<usize>,
    /// A run halts when more nodes than this have failed.
    pub max_failures: Option<u64>,
    /// The requirement of a change that needs a redeploy.
    pub redeploy_on_change: RedeployPolicy,
    /// A machine whose parts are not as a Hardware document expects them is not deployed.
    pub demands_expected_hardware: bool,
    /// How far a change goes that needs no flag.
    pub disruption: DisruptionPolicy,
    /// The most that one plan of the documents reaches, by rung.
    pub blast_radius: BTreeMap<Rung, BlastRadius>,
    /// Where machines stand, and their tags, in another revision whose limits hold, too: each limit holds over the machines
    /// of its own revision.
    pub elsewhere: BTreeMap<NodeName, Placement>,
    /// How failed machines are brought back.
    pub remediation: RemediationPolicy,
    /// Changes of fields that need a redeploy, and are accepted as they are instead; the first that applies counts.
    pub ignored: Vec<IgnoredChanges>,
    /// The folder of the repository whose rules in Rego judge every plan.
    pub rego: Option<Arc<str>>,
    /// The branches at the remote that hold the records of sites; it counts at a protected revision only.
    pub state_branch: Option<Arc<str>>,
    /// The signatures that plans need; none: no plan needs any.
    pub approvals: Option<Arc<ApprovalPolicy>>,
    /// Whether runs have to be signed by allowed signers.
    pub signed_runs: bool,
    /// Whether plans have to name a ticket.
    pub demands_ticket: bool,
    /// The people who may do without approvals that are missing.
    pub break_glass: Option<Arc<BreakGlassPolicy>>,
    /// Flags that loosen a limit, by name, and are not to be used.
    pub forbidden_flags: BTreeSet<Arc<str>>,
    /// Codes of warnings that are not reported.
    pub silenced: BTreeSet<Arc<str>>,
}

/// How failed machines are brought back (metal3-remediation).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemediationPolicy {
    /// Most at the same time, if no flag says otherwise.
    pub max_at_once: Option<usize>,
    /// With more unhealthy machines than this, none is remediated.
    pub max_unhealthy: Option<Share>,
    /// How long machines that came back count as unhealthy still, in seconds.
    pub cooldown: Option<u64>,
    /// The bounds of each.
    pub limits: RemediationLimits,
}

impl RemediationPolicy {
    /// How many machines may be unhealthy, by a flag, else by the policy, else by default.
    #[must_use]
    pub fn max_unhealthy(&self, flag: Option<Share>) -> Share {
        flag.or(self.max_unhealthy).unwrap_or(MAX_UNHEALTHY)
    }

    /// How long machines that came back count as unhealthy still, in seconds.
    #[must_use]
    pub fn cooldown(&self) -> u64 {
        self.cooldown.unwrap_or(COOLDOWN)
    }
}

/// The requirement of a change that needs a redeploy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedeployPolicy {
    /// The flag `--allow-redeploy`.
    #[default]
    Ask,
    /// It is refused, whatever flags say.
    Never,
}

/// Limits on nodes that are out of service at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaxUnavailable {
    /// In the whole site.
    pub total: Option<usize>,
    /// In each deployment group, as a share of it in percent; one machine at least.
    pub percent: Option<u32>,
    /// In one rack.
    pub per_rack: Option<usize>,
    /// By tag.
    pub by_tag: BTreeMap<Arc<str>, usize>,
    /// The defaults that hold beside the numbers.
    pub defaults: DefaultLimits,
}

/// Where a machine stands, and its tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Its racks.
    pub racks: BTreeSet<Arc<str>>,
    /// Its tags.
    pub tags: BTreeSet<Arc<str>>,
    /// Whether it is one of the control plane by them, or by its labels.
    pub control_plane: bool,
}

impl MaxUnavailable {
    /// Whether one machine of the control plane at a time is the limit, beside any number.
    #[must_use]
    pub const fn has_control_plane_default(&self) -> bool {
        self.total.is_none() || self.defaults.control_plane
    }

    /// Whether the defaults for all other machines and for groups hold, beside any number.
    #[must_use]
    pub const fn has_default(&self) -> bool {
        (self.total.is_none() && self.percent.is_none()) || self.defaults.others
    }
}

/// Defaults that hold though a number is given, since one of two revisions gives none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultLimits {
    /// One machine of the control plane at a time.
    pub control_plane: bool,
    /// Ten others, a quarter of each group, and what its criteria leave.
    pub others: bool,
}

/// The maintenance windows of a revision, by the clock of its time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowList {
    /// The zone.
    pub time_zone: SiteTimeZone,
    /// The windows.
    pub windows: Vec<MaintenanceWindow>,
}

/// A weekly time in which changes may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceWindow {
    /// Days (`monday` …); empty: every day.
    pub days: Vec<Arc<str>>,
    /// From, `HH:MM`.
    pub from: Arc<str>,
    /// To, `HH:MM`; earlier than `from` means the next day.
    pub to: Arc<str>,
}

/// The behaviour of a destroy if a backend cannot wipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WipePolicy {
    /// Refused at plan time.
    #[default]
    Require,
    /// Left out, with a warning in every format.
    Skip,
}

/// `trueup/Backends/v1`.
#[derive(Clone, Debug, Default)]
pub struct Backends {
    /// The backend of the hardware if no override selects another.
    pub hardware: HardwareBackend,
    /// Overrides, the first that selects a node counts.
    pub overrides: Vec<(Selector, HardwareBackend)>,
    /// How nodes are called elsewhere, by node, then by system (`kubernetes`, `ironic`, `metal3`, `maas`).
    pub names: BTreeMap<NodeName, BTreeMap<Arc<str>, Arc<str>>>,
    /// When machines have to have joined their clusters, if no override selects them; `None`: as it follows from
    /// whether an API server has ever answered.
    pub join: Option<JoinMode>,
    /// Overrides, the first that selects a node counts.
    pub join_overrides: Vec<(Selector, JoinMode)>,
    /// Whether credentials may be sent over plain HTTP beyond this machine.
    pub allow_plain_http: bool,
    /// The variables that programs which print secrets get beside the usual ones.
    pub exec_environment: Vec<Arc<str>>,
    /// The document's data, for what a backend reads itself.
    pub data: Option<Node>,
}

/// When a machine that is to join its clusters has to have joined them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinMode {
    /// In the run that builds it: until then it is not finished.
    InRun,
    /// In a later one: what brings it into its clusters comes after its deploy.
    Later,
    /// It joins none.
    Never,
}

impl Backends {
    /// When a node has to have joined its clusters, if the documents say it.
    #[must_use]
    pub fn join_mode(&self, node: &NodeDesign) -> Option<JoinMode> {
        let mut overrides = self.join_overrides.iter();
        let found = overrides.find(|(selector, _)| selector.matches(node));
        found.map(|(_, mode)| *mode).or(self.join)
    }
}

/// Which hardware backend, and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct HardwareBackend {
    /// Its kind.
    pub kind: BackendKind,
    /// Its settings as written, below the field that is called like the kind; each backend reads its own.
    pub settings: Option<Node>,
}

impl Default for HardwareBackend {
    fn default() -> Self {
        Self {
            kind: BackendKind::None,
            settings: None,
        }
    }
}

/// The kinds of hardware backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// The site has no Backends document: planning works on records alone, applying does not.
    None,
    /// The simulator.
    Sim,
    /// Each node's BMC by Redfish.
    Redfish,
    /// Each node's BMC by IPMI.
    Ipmi,
    /// The Ironic API.
    Ironic,
    /// BareMetalHost resources.
    Metal3,
    /// The MAAS API.
    Maas,
}

impl BackendKind {
    /// Returns its name in documents; empty if it has none.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Sim => "sim",
            Self::Redfish => "redfish",
            Self::Ipmi => "ipmi",
            Self::Ironic => "ironic",
            Self::Metal3 => "metal3",
            Self::Maas => "maas",
        }
    }

    /// The port of the controllers that are asked for machines, if none is written; `None`: none of them is asked.
    /// `is_plain`: without TLS.
    #[must_use]
    pub const fn controller_port(self, is_plain: bool) -> Option<u16> {
        match (self, is_plain) {
            (Self::Redfish, false) => Some(443),
            (Self::Redfish, true) => Some(80),
            (Self::Ipmi, _) => Some(623),
            (Self::None | Self::Sim | Self::Ironic | Self::Metal3 | Self::Maas, _) => None,
        }
    }
}

/// A secret by reference, never by value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Reference {
    /// The name of an environment variable.
    Env(Arc<str>),
    /// A path, relative to the repository's root.
    File(Arc<str>),
    /// A program and its arguments; its standard output is the secret.
    Exec(Vec<Arc<str>>),
    /// A program and its arguments that keeps a current and a pending secret; it is run with the word of what it is to do.
    Store(Vec<Arc<str>>),
}
