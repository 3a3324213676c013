//! The kinds of step: what each does, how much harm it can do, how often it is tried, and who carries it out.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The executor of a kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The dispatcher itself: a barrier, a check, a record.
    Dispatcher,
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

/// The facts of a kind that do not depend on backend or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name in step ids and in output.
    pub name: &'static str,
    /// How much harm it can do.
    pub effect: Effect,
    /// Attempts in all, when the failure can pass and the probe shows that nothing was begun.
    pub attempts: u32,
    /// Its executor.
    pub actor: Actor,
    /// How many seconds it typically takes, for estimates where no run has shown it.
    pub typical: u64,
}

impl Facts {
    /// Whether a machine, a provisioner or a cluster is asked for something.
    #[must_use]
    pub const fn touches_world(&self) -> bool {
        !matches!(self.actor, Actor::Dispatcher)
    }
}

/// Writes the enum and its table from one list: the name in step ids and in output, how much harm, how often it is
/// tried in all, who carries it out, how many seconds it typically takes.
macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident: $name:literal, $effect:ident, $attempts:literal, $actor:ident, $typical:literal;)+) => {
        /// The kinds of step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum StepKind {
            $($(#[$doc])+ $kind,)+
        }

        impl StepKind {
            /// All kinds.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// The table of kinds.
            #[must_use]
            pub const fn facts(self) -> Facts {
                match self {
                    $(Self::$kind => Facts {
                        name: $name,
                        effect: Effect::$effect,
                        attempts: $attempts,
                        actor: Actor::$actor,
                        typical: $typical,
                    },)+
                }
            }
        }
    };
}

kinds! {
    /// Backends reachable, credentials good, images known (Drydock's verify_site).
    VerifySite: "verify-site", None, 3, Hardware, 5;
    /// The one-time needs of the provisioner: networks, keys (Drydock's prepare_site).
    PrepareSite: "prepare-site", Reversible, 3, Hardware, 10;
    /// Barrier before a group: its dependencies succeeded, the group before it has ended.
    StartGroup: "start", None, 1, Dispatcher, 0;
    /// Barrier before a wave of redeploys inside a group.
    StartWave: "wave", None, 1, Dispatcher, 0;
    /// Tear a machine down: wipe, power off, remove from the provisioner.
    Destroy: "destroy", Destructive, 3, Hardware, 600;
    /// Identify, boot check, inspect.
    Prepare: "prepare", Reversible, 3, Hardware, 600;
    /// Gate: the group's criteria over its prepared nodes.
    GatePrepared: "gate-prepared", None, 1, Dispatcher, 0;
    /// Install and boot the system.
    Deploy: "deploy", Destructive, 3, Hardware, 1500;
    /// Gate: the group's criteria over its deployed nodes.
    GateDeployed: "gate-deployed", None, 1, Dispatcher, 0;
    /// Set Kubernetes labels.
    Relabel: "relabel", Reversible, 3, Hardware, 5;
    /// Switch a machine on that should be on.
    PowerOn: "power-on", Reversible, 3, Hardware, 180;
    /// Bring the record up to date; touches no machine.
    Record: "record", None, 1, Dispatcher, 0;
    /// Write the record of a machine that is already as it should be; touches no machine.
    Adopt: "adopt", None, 1, Dispatcher, 0;
    /// Give the record of a machine that had another name its new one; touches no machine.
    Rename: "rename", None, 1, Dispatcher, 0;
    /// Lock a deployed machine against deletion by other users of its provisioner.
    Lock: "lock", Reversible, 3, Hardware, 5;
    /// Set the retired flag.
    SetRetired: "set-retired", Reversible, 3, Hardware, 5;
    /// Take the retired flag off.
    UnsetRetired: "unset-retired", Reversible, 3, Hardware, 5;
    /// Cordon, and evict all pods that a drain evicts.
    Drain: "drain", Reversible, 3, Cluster, 180;
    /// Let pods be scheduled again.
    Uncordon: "uncordon", Reversible, 3, Cluster, 5;
    /// Take off all labels but those that the kubelet or a cloud controller manages.
    ClearLabels: "clear-labels", Reversible, 3, Cluster, 5;
    /// Take the machine's members out of their etcd clusters.
    RemoveEtcd: "remove-etcd", Destructive, 3, Cluster, 10;
    /// Wait until every etcd cluster meets its threshold, this machine left out.
    CheckEtcd: "check-etcd", None, 1, Cluster, 30;
    /// Stop and disable the kubelet, through a DaemonSet.
    ShutdownKubelet: "shutdown-kubelet", Reversible, 3, Cluster, 60;
    /// Delete the Kubernetes node.
    RemoveFromCluster: "remove-from-cluster", Destructive, 3, Cluster, 10;
    /// Wait until the Kubernetes node is there and Ready, put back what the one before carried, and wait until
    /// its etcd members vote again.
    AwaitReady: "await-ready", Reversible, 3, Cluster, 300;
    /// Switch a machine off.
    PowerOff: "power-off", Reversible, 3, Hardware, 60;
    /// Bring a machine under management (Ironic's `manage`).
    Manage: "manage", Reversible, 3, Hardware, 60;
    /// Make a machine available (Ironic's `provide`).
    Provide: "provide", Reversible, 3, Hardware, 600;
    /// Run clean steps.
    Clean: "clean", Destructive, 3, Hardware, 1800;
    /// Set the maintenance flag.
    SetMaintenance: "set-maintenance", Reversible, 3, Hardware, 5;
    /// Take the maintenance flag off.
    UnsetMaintenance: "unset-maintenance", Reversible, 3, Hardware, 5;
    /// Drop the record of a machine; touches no machine.
    Forget: "forget", None, 1, Dispatcher, 0;
    /// Record what a machine shows of itself; touches no machine.
    AcceptIdentity: "accept-identity", None, 1, Dispatcher, 0;
    /// Record differences from the design that are accepted; touches no machine.
    AcceptDifferences: "accept-differences", None, 1, Dispatcher, 0;
    /// Bring a failed machine back: off, its node released, on, its node as it was (metal3-remediation).
    Remediate: "remediate", Destructive, 5, Both, 900;
    /// Part of a remediation: mark a node as out of service, and wait until nothing of it is left.
    SetOutOfService: "set-out-of-service", Reversible, 3, Cluster, 60;
    /// Part of a remediation: take that mark off again.
    UnsetOutOfService: "unset-out-of-service", Reversible, 3, Cluster, 5;
    /// Part of a remediation: give a node back what the one before carried.
    RestoreNode: "restore-node", Reversible, 3, Cluster, 30;
    /// No critical group failed.
    CriticalCheck: "critical-check", None, 1, Dispatcher, 0;
    /// Tag the revision.
    Tag: "tag", None, 1, Dispatcher, 0;
}

impl StepKind {
    /// The kind of a name in step ids.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
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
