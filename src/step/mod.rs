//! The kinds of step: what each does, how much harm it can do, and what it waits for.
//!
//! A plan is a graph of steps. Everything about a kind that does not depend on the backend stands in
//! the table [`StepKind::facts`]; the backends bring `probe` and `act` for the kinds that touch the world.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{ClusterName, GroupName, NodeName};
use crate::identity::Identity;
use crate::lifecycle::OfferedStep;
use crate::remediation::{Backup, Limits, Memory};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// Backends reachable, credentials good, images known (Drydock's verify_site).
    VerifySite,
    /// What the provisioner needs once: networks, keys (Drydock's prepare_site).
    PrepareSite,
    /// Barrier before a group: its dependencies succeeded, the group before it has ended.
    StartGroup,
    /// Barrier before a wave of redeploys inside a group.
    StartWave,
    /// Tear a machine down: wipe, power off, remove from the provisioner.
    Destroy,
    /// Identify, boot check, inspect.
    Prepare,
    /// Gate: the group's criteria over its prepared nodes.
    GatePrepared,
    /// Install and boot the system.
    Deploy,
    /// Gate: the group's criteria over its deployed nodes.
    GateDeployed,
    /// Set Kubernetes labels.
    Relabel,
    /// Switch a machine on that should be on.
    PowerOn,
    /// Bring the record up to date; touches no machine.
    Record,
    /// Write the record of a machine that is already as it should be; touches no machine.
    Adopt,
    /// Set the retired flag.
    SetRetired,
    /// Take the retired flag off.
    UnsetRetired,
    /// Cordon, and evict all pods that a drain evicts.
    Drain,
    /// Let pods be scheduled again.
    Uncordon,
    /// Take off all labels but those that the kubelet or a cloud controller manages.
    ClearLabels,
    /// Take the machine's members out of their etcd clusters.
    RemoveEtcd,
    /// Wait until every etcd cluster meets its threshold, this machine left out.
    CheckEtcd,
    /// Stop and disable the kubelet, through a DaemonSet.
    ShutdownKubelet,
    /// Delete the Kubernetes node.
    RemoveFromCluster,
    /// Wait until the Kubernetes node is there and Ready, put back what the one before carried, and wait until
    /// its etcd members vote again.
    AwaitReady,
    /// Switch a machine off.
    PowerOff,
    /// Bring a machine under management (Ironic's `manage`).
    Manage,
    /// Make a machine available (Ironic's `provide`).
    Provide,
    /// Run clean steps.
    Clean,
    /// Set the maintenance flag.
    SetMaintenance,
    /// Take the maintenance flag off.
    UnsetMaintenance,
    /// Drop the record of a machine; touches no machine.
    Forget,
    /// Record what a machine shows of itself; touches no machine.
    AcceptIdentity,
    /// Bring a failed machine back: off, its node released, on, its node as it was (metal3-remediation).
    Remediate,
    /// Part of a remediation: mark a node as out of service, and wait until nothing of it is left.
    SetOutOfService,
    /// Part of a remediation: take that mark off again.
    UnsetOutOfService,
    /// Part of a remediation: give a node back what the one before carried.
    RestoreNode,
    /// No critical group failed.
    CriticalCheck,
    /// Tag the revision.
    Tag,
}

/// Who carries a kind of step out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The dispatcher itself: a barrier, a check, a record.
    Nobody,
    /// The backend of the machine.
    Hardware,
    /// The backend of the cluster.
    Cluster,
    /// Both, by turns.
    Both,
}

/// How much harm a step can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Touches nothing but trueup's own records.
    None,
    /// Can be undone.
    Reversible,
    /// Destroys data or takes a machine away.
    Destructive,
}

/// What does not depend on backend or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name in step ids and in output.
    pub name: &'static str,
    /// How much harm it can do.
    pub effect: Effect,
    /// How often it is tried in all, when the failure can pass and the probe says that nothing was begun.
    pub attempts: u32,
    /// Who carries it out.
    pub actor: Actor,
}

impl Facts {
    /// Whether a machine, a provisioner or a cluster is asked for something.
    #[must_use]
    pub const fn touches_world(&self) -> bool {
        !matches!(self.actor, Actor::Nobody)
    }
}

impl StepKind {
    /// All kinds.
    pub const ALL: [Self; 37] = [
        Self::VerifySite,
        Self::PrepareSite,
        Self::StartGroup,
        Self::StartWave,
        Self::Destroy,
        Self::Prepare,
        Self::GatePrepared,
        Self::Deploy,
        Self::GateDeployed,
        Self::Relabel,
        Self::PowerOn,
        Self::Record,
        Self::Adopt,
        Self::SetRetired,
        Self::UnsetRetired,
        Self::Drain,
        Self::Uncordon,
        Self::ClearLabels,
        Self::RemoveEtcd,
        Self::CheckEtcd,
        Self::ShutdownKubelet,
        Self::RemoveFromCluster,
        Self::AwaitReady,
        Self::PowerOff,
        Self::Manage,
        Self::Provide,
        Self::Clean,
        Self::SetMaintenance,
        Self::UnsetMaintenance,
        Self::Forget,
        Self::AcceptIdentity,
        Self::Remediate,
        Self::SetOutOfService,
        Self::UnsetOutOfService,
        Self::RestoreNode,
        Self::CriticalCheck,
        Self::Tag,
    ];

    /// The table of kinds.
    #[must_use]
    pub const fn facts(self) -> Facts {
        const fn row(name: &'static str, effect: Effect, attempts: u32, actor: Actor) -> Facts {
            Facts {
                name,
                effect,
                attempts,
                actor,
            }
        }
        match self {
            Self::VerifySite => row("verify-site", Effect::None, 3, Actor::Hardware),
            Self::PrepareSite => row("prepare-site", Effect::Reversible, 3, Actor::Hardware),
            Self::StartGroup => row("start", Effect::None, 1, Actor::Nobody),
            Self::StartWave => row("wave", Effect::None, 1, Actor::Nobody),
            Self::Destroy => row("destroy", Effect::Destructive, 3, Actor::Hardware),
            Self::Prepare => row("prepare", Effect::Reversible, 3, Actor::Hardware),
            Self::GatePrepared => row("gate-prepared", Effect::None, 1, Actor::Nobody),
            Self::Deploy => row("deploy", Effect::Destructive, 3, Actor::Hardware),
            Self::GateDeployed => row("gate-deployed", Effect::None, 1, Actor::Nobody),
            Self::Relabel => row("relabel", Effect::Reversible, 3, Actor::Hardware),
            Self::PowerOn => row("power-on", Effect::Reversible, 3, Actor::Hardware),
            Self::Record => row("record", Effect::None, 1, Actor::Nobody),
            Self::Adopt => row("adopt", Effect::None, 1, Actor::Nobody),
            Self::SetRetired => row("set-retired", Effect::Reversible, 3, Actor::Hardware),
            Self::UnsetRetired => row("unset-retired", Effect::Reversible, 3, Actor::Hardware),
            Self::Drain => row("drain", Effect::Reversible, 3, Actor::Cluster),
            Self::Uncordon => row("uncordon", Effect::Reversible, 3, Actor::Cluster),
            Self::ClearLabels => row("clear-labels", Effect::Reversible, 3, Actor::Cluster),
            Self::RemoveEtcd => row("remove-etcd", Effect::Destructive, 3, Actor::Cluster),
            Self::CheckEtcd => row("check-etcd", Effect::None, 1, Actor::Cluster),
            Self::ShutdownKubelet => row("shutdown-kubelet", Effect::Reversible, 3, Actor::Cluster),
            Self::RemoveFromCluster => row(
                "remove-from-cluster",
                Effect::Destructive,
                3,
                Actor::Cluster,
            ),
            Self::AwaitReady => row("await-ready", Effect::Reversible, 3, Actor::Cluster),
            Self::PowerOff => row("power-off", Effect::Reversible, 3, Actor::Hardware),
            Self::Manage => row("manage", Effect::Reversible, 3, Actor::Hardware),
            Self::Provide => row("provide", Effect::Reversible, 3, Actor::Hardware),
            Self::Clean => row("clean", Effect::Destructive, 3, Actor::Hardware),
            Self::SetMaintenance => row("set-maintenance", Effect::Reversible, 3, Actor::Hardware),
            Self::UnsetMaintenance => {
                row("unset-maintenance", Effect::Reversible, 3, Actor::Hardware)
            }
            Self::Forget => row("forget", Effect::None, 1, Actor::Nobody),
            Self::AcceptIdentity => row("accept-identity", Effect::None, 1, Actor::Nobody),
            Self::Remediate => row("remediate", Effect::Destructive, 5, Actor::Both),
            Self::SetOutOfService => {
                row("set-out-of-service", Effect::Reversible, 3, Actor::Cluster)
            }
            Self::UnsetOutOfService => row(
                "unset-out-of-service",
                Effect::Reversible,
                3,
                Actor::Cluster,
            ),
            Self::RestoreNode => row("restore-node", Effect::Reversible, 3, Actor::Cluster),
            Self::CriticalCheck => row("critical-check", Effect::None, 1, Actor::Nobody),
            Self::Tag => row("tag", Effect::None, 1, Actor::Nobody),
        }
    }

    /// Whether it only orders other steps.
    #[must_use]
    pub const fn is_barrier(self) -> bool {
        matches!(
            self,
            Self::StartGroup
                | Self::StartWave
                | Self::GatePrepared
                | Self::GateDeployed
                | Self::CriticalCheck
        )
    }

    /// The name in step ids and in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.facts().name
    }
}

impl fmt::Display for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The readable, stable name of a step, such as `deploy/compute-1/n04`.
///
/// The kind, then the group where there is one, then the node or wave.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    /// The kind.
    pub kind: StepKind,
    /// The group in which it runs.
    pub group: Option<GroupName>,
    /// The node it is about.
    pub node: Option<NodeName>,
    /// The wave, for [`StepKind::StartWave`], and for [`StepKind::GatePrepared`] where a group has
    /// more than one.
    pub wave: Option<u32>,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        if let Some(group) = &self.group {
            write!(f, "/{group}")?;
        }
        if let Some(node) = &self.node {
            write!(f, "/{node}")?;
        }
        if let Some(wave) = self.wave {
            write!(f, "/{wave}")?;
        }
        Ok(())
    }
}

impl Serialize for StepId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A step by its position in the plan's list of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepIndex(pub u32);

impl StepIndex {
    /// The step at this position. A plan has far fewer than 2³² steps.
    #[must_use]
    pub fn from_position(position: usize) -> Self {
        Self(u32::try_from(position).unwrap_or(u32::MAX))
    }
}

/// What a step waits for in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Its success; if it fails or is skipped, so is this one.
    Success,
    /// Its end, whatever the result.
    Done,
}

/// That a step waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Need {
    /// The other step.
    pub step: StepIndex,
    /// What it waits for.
    pub wait: Wait,
}

/// What a step needs to know beyond its node's design.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Labels to set, for relabel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_labels: Vec<(Arc<str>, Arc<str>)>,
    /// Labels to take off, for relabel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_labels: Vec<Arc<str>>,
    /// Disks that are erased or written, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Arc<str>>,
    /// The reason, for set-retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// What the machine was observed to be, for adopt and accept-identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Box<Identity>>,
    /// Why it must not be attempted: it fails at once, with this as its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Arc<str>>,
    /// Seconds that pods are given to end, for drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<u64>,
    /// What happens to pods that are left at the timeout, for drain and remove-from-cluster; absent: fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_drain_timeout: Option<OnDrainTimeout>,
    /// Members to remove, for remove-etcd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd_members: Vec<EtcdRemoval>,
    /// Only its members of etcd clusters are waited for, for await-ready: it was no node of Kubernetes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub members_only: bool,
    /// Etcd clusters that may end with this machine: check-etcd does not ask for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd_given_up: Vec<ClusterName>,
    /// The UID of the Kubernetes node that is meant, for the steps on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_uid: Option<Arc<str>>,
    /// The machine is gone for good: nothing of it is waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_is_gone: bool,
    /// The machine was seen off and is held off: its node is deleted as it is, for remove-from-cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub machine_is_off: bool,
    /// What the node before carried, for restore-node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Box<Backup>>,
    /// How often and how long, for remediate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Limits>,
    /// What is remembered of a remediation that another run began, for remediate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remembered: Option<Box<Memory>>,
    /// Only the disk of the operating system may be erased or written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preserve_local_storage: bool,
    /// The image of the design, for deploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Arc<str>>,
    /// The nodes that the plan deploys, for verify-site.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deploys: Vec<NodeName>,
    /// What moves the machine forgets it when it is torn down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forget: bool,
    /// The steps to run, in order: for clean, where none are named what moves the machine chooses its
    /// automated ones; for destroy, prepare and provide on the way to available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clean_steps: Vec<CleanStep>,
    /// What is run besides the steps of a deploy's own, for deploy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deploy_steps: Vec<DeployStep>,
}

/// What is run on a machine to clean it, and who says so (ironic-cleaning).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cleaning {
    /// Why these steps, or why none: which policy says so.
    pub because: Arc<str>,
    /// What moves the machine chooses steps and order itself: nobody can tell it which to run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// The steps, in the order in which they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<CleanStep>,
}

impl Cleaning {
    /// The steps that a backend is told to run; none where it chooses them itself.
    #[must_use]
    pub fn to_run(&self) -> &[CleanStep] {
        match self.foreign {
            true => &[],
            false => &self.steps,
        }
    }

    /// Whether a step of it erases data.
    #[must_use]
    pub fn erases(&self) -> bool {
        self.steps.iter().any(|step| step.erases)
    }
}

/// What happens to pods that a drain could not evict in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDrainTimeout {
    /// The drain fails, and nothing more is done to the node.
    Fail,
    /// They are deleted without regard to their budgets.
    ForceDelete,
    /// The drain ends well; they are deleted when the machine was seen off.
    Continue,
}

/// A member of an etcd cluster that is to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdRemoval {
    /// Which cluster.
    pub cluster: ClusterName,
    /// The cluster's own id, in hexadecimal digits.
    pub cluster_id: Arc<str>,
    /// The member's id, in hexadecimal digits; never used again once it was removed.
    pub member_id: Arc<str>,
    /// The member's name.
    pub name: Arc<str>,
}

/// A clean step to be run (ironic-cleaning).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanStep {
    /// Who offers it: `power`, `management`, `deploy`, `bios`, `raid`, `firmware`.
    pub interface: Arc<str>,
    /// Its name.
    pub step: Arc<str>,
    /// Its arguments, as compact JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<str>>,
    /// The priority that gave it its place, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Whether it erases data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub erases: bool,
}

impl CleanStep {
    /// A step by its name, as somebody asks for it.
    #[must_use]
    pub fn new(interface: &str, step: &str) -> Self {
        Self {
            interface: Arc::from(interface),
            step: Arc::from(step),
            arguments: None,
            priority: None,
            erases: false,
        }
    }

    /// `interface.step`, as policies and flags name it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.interface, self.step)
    }
}

impl From<&OfferedStep> for CleanStep {
    fn from(offered: &OfferedStep) -> Self {
        Self {
            interface: Arc::from(offered.interface.as_str()),
            step: offered.step.clone(),
            arguments: None,
            priority: (offered.priority > 0).then_some(offered.priority),
            erases: offered.erases,
        }
    }
}

/// A step that a deploy runs besides its own (`platform.deploy_steps`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeployStep {
    /// Who offers it: `power`, `management`, `firmware`, `deploy`, `bios`, `raid`, `vendor`.
    pub interface: Arc<str>,
    /// Its name.
    pub step: Arc<str>,
    /// Its place among all steps of the deploy: the highest first; 0 switches a step off.
    pub priority: u32,
    /// Its arguments, as compact JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<str>>,
}

impl DeployStep {
    /// `interface.step`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.interface, self.step)
    }
}

/// What the note begins with that says which clean step is begun: a machine of which nobody but the records
/// remembers it is fenced by it when the step fails.
const CLEAN_STEP_BEGINS: &str = "clean step ";

/// The note that a clean step (`interface.step`) is begun; it has to be durable before it begins.
#[must_use]
pub fn clean_step_begins(name: &str) -> String {
    format!("{CLEAN_STEP_BEGINS}{name}")
}

/// The clean step that was begun last, by the notes of a step.
#[must_use]
pub fn clean_step_of(notes: &[Arc<str>]) -> Option<&str> {
    let mut latest = notes.iter().rev();
    latest.find_map(|note| note.strip_prefix(CLEAN_STEP_BEGINS))
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub id: StepId,
    /// Longest time that it may take, in seconds; 0: no bound of its own.
    pub timeout: u64,
    /// How much harm it can do to this node: that of its kind, less where there is nothing to lose.
    pub effect: Effect,
    /// Runs only if no earlier group has sent the node already: the node is in more than one group.
    pub standby: bool,
    /// What else it needs to know; shared empty value where nothing.
    pub parameters: Option<Arc<Parameters>>,
    /// What it waits for, sorted.
    pub needs: Vec<Need>,
}
