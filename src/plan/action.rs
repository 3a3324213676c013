//! The actions: bring the site to its design, or act on nodes that are named.
//!
//! One table holds the name of each action, its effect on a node, and its options.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::diagnostic::nearest;
use crate::lifecycle::Verb;
use crate::record::GUARDS_ACTION;
use crate::step::{CleanStep, Effect, FailureReason, Step, StepKind};

/// The requested action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Bring the whole site true to its design.
    #[default]
    Update,
    /// Tear nodes down and build them again.
    Redeploy,
    /// Decommission nodes, destroy their machines, and delete their Kubernetes nodes.
    Teardown,
    /// Take nodes out of their clusters, ready for their machines to be destroyed.
    Decommission,
    /// Destroy machines that are in no cluster.
    Destroy,
    /// Cordon, and evict pods.
    Drain,
    /// Let pods be scheduled again.
    Uncordon,
    /// Take labels off.
    ClearLabels,
    /// Take members out of their etcd clusters.
    RemoveEtcd,
    /// Wait until every etcd cluster meets its threshold.
    CheckEtcd,
    /// Stop kubelets.
    ShutdownKubelet,
    /// Delete Kubernetes nodes.
    RemoveFromCluster,
    /// Set the labels of the design.
    Relabel,
    /// Switch machines on.
    PowerOn,
    /// Switch machines off.
    PowerOff,
    /// Bring machines under management.
    Manage,
    /// Make machines available.
    Provide,
    /// Run clean steps.
    Clean,
    /// Set the retired flag.
    Retire,
    /// Take the retired flag off.
    Unretire,
    /// Set the maintenance flag.
    SetMaintenance,
    /// Take the maintenance flag off.
    UnsetMaintenance,
    /// Give controllers new passwords.
    RotateBmcPassword,
    /// Drop records.
    Forget,
    /// Bring failed machines back.
    Remediate,
    /// Take the machines that are there for those of the documents.
    Accept,
    /// Put the guards of the documents in force.
    Guards,
}

/// The effect of an action on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// Whatever makes it as designed.
    Compare,
    /// It leaves its clusters, is destroyed, and is built again.
    Rebuild,
    /// It leaves its clusters; whether its machine is destroyed and its Kubernetes node deleted.
    Leave { destroy: bool, delete: bool },
    /// Its machine is destroyed.
    Destroy,
    /// One step on its cluster.
    Cluster(StepKind),
    /// One step on its machine, which the life of a machine must have.
    Machine(StepKind, Verb),
    /// One step on its controller, whatever the machine is.
    Controller(StepKind),
    /// Its labels are set.
    Relabel,
    /// Its record is dropped.
    Forget,
    /// It is switched off and on, and its Kubernetes node released in between.
    Remediate,
    /// The identity that its machine shows is recorded.
    Accept,
    /// Nothing.
    Nothing,
}

/// Which steps on the Kubernetes cluster a plan of an action can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterSteps {
    /// None.
    None,
    /// Of one kind.
    One(StepKind),
    /// Of any kind.
    Any,
}

impl Action {
    /// Which steps on the Kubernetes cluster its plan can have.
    #[must_use]
    pub fn cluster_steps(self) -> ClusterSteps {
        match self.does() {
            Does::Cluster(StepKind::RemoveEtcd | StepKind::CheckEtcd) => ClusterSteps::None,
            Does::Cluster(kind) => ClusterSteps::One(kind),
            Does::Relabel => ClusterSteps::One(StepKind::Relabel),
            Does::Remediate => ClusterSteps::One(StepKind::Remediate),
            Does::Compare | Does::Rebuild | Does::Leave { .. } => ClusterSteps::Any,
            Does::Destroy
            | Does::Machine(..)
            | Does::Controller(_)
            | Does::Forget
            | Does::Accept
            | Does::Nothing => ClusterSteps::None,
        }
    }

    /// All actions.
    pub const ALL: [Self; 27] = [
        Self::Update,
        Self::Redeploy,
        Self::Teardown,
        Self::Decommission,
        Self::Destroy,
        Self::Drain,
        Self::Uncordon,
        Self::ClearLabels,
        Self::RemoveEtcd,
        Self::CheckEtcd,
        Self::ShutdownKubelet,
        Self::RemoveFromCluster,
        Self::Relabel,
        Self::PowerOn,
        Self::PowerOff,
        Self::Manage,
        Self::Provide,
        Self::Clean,
        Self::Retire,
        Self::Unretire,
        Self::SetMaintenance,
        Self::UnsetMaintenance,
        Self::RotateBmcPassword,
        Self::Forget,
        Self::Remediate,
        Self::Accept,
        Self::Guards,
    ];

    /// Its name, as on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    pub(super) const fn does(self) -> Does {
        self.row().1
    }

    const fn row(self) -> (&'static str, Does) {
        use StepKind as S;
        match self {
            Self::Update => ("update", Does::Compare),
            Self::Redeploy => ("redeploy", Does::Rebuild),
            Self::Teardown => (
                "teardown",
                Does::Leave {
                    destroy: true,
                    delete: true,
                },
            ),
            Self::Decommission => (
                "decommission",
                Does::Leave {
                    destroy: false,
                    delete: false,
                },
            ),
            Self::Destroy => ("destroy", Does::Destroy),
            Self::Drain => ("drain", Does::Cluster(S::Drain)),
            Self::Uncordon => ("uncordon", Does::Cluster(S::Uncordon)),
            Self::ClearLabels => ("clear-labels", Does::Cluster(S::ClearLabels)),
            Self::RemoveEtcd => ("remove-etcd", Does::Cluster(S::RemoveEtcd)),
            Self::CheckEtcd => ("check-etcd", Does::Cluster(S::CheckEtcd)),
            Self::ShutdownKubelet => ("shutdown-kubelet", Does::Cluster(S::ShutdownKubelet)),
            Self::RemoveFromCluster => ("remove-from-cluster", Does::Cluster(S::RemoveFromCluster)),
            Self::Relabel => ("relabel", Does::Relabel),
            Self::PowerOn => ("power on", Does::Machine(S::PowerOn, Verb::PowerOn)),
            Self::PowerOff => ("power off", Does::Machine(S::PowerOff, Verb::PowerOff)),
            Self::Manage => ("manage", Does::Machine(S::Manage, Verb::Manage)),
            Self::Provide => ("provide", Does::Machine(S::Provide, Verb::Provide)),
            Self::Clean => ("clean", Does::Machine(S::Clean, Verb::Clean)),
            Self::Retire => ("retire", Does::Machine(S::SetRetired, Verb::SetRetired)),
            Self::Unretire => (
                "retire --unset",
                Does::Machine(S::UnsetRetired, Verb::UnsetRetired),
            ),
            Self::SetMaintenance => (
                "maintenance",
                Does::Machine(S::SetMaintenance, Verb::SetMaintenance),
            ),
            Self::UnsetMaintenance => (
                "maintenance --unset",
                Does::Machine(S::UnsetMaintenance, Verb::UnsetMaintenance),
            ),
            Self::RotateBmcPassword => (
                "rotate-bmc-password",
                Does::Controller(S::RotateBmcPassword),
            ),
            Self::Forget => ("forget", Does::Forget),
            Self::Remediate => ("remediate", Does::Remediate),
            Self::Accept => ("accept", Does::Accept),
            Self::Guards => (GUARDS_ACTION, Does::Nothing),
        }
    }

    /// The action of a plan, by the name that the plan has for it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }

    /// The action that a misspelt name may mean, or all of them, as a hint.
    #[must_use]
    pub fn near(name: &str) -> String {
        let names = Self::ALL.into_iter().map(Self::as_str);
        match nearest(name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the actions are {}", names.collect::<Vec<_>>().join(", ")),
        }
    }

    /// The reason of its failure: that of its one step, else the one of all composites. Etcd clusters that answer, and
    /// are not healthy, are a step that failed, and not inaccessible.
    #[must_use]
    pub fn failure_reason(self) -> FailureReason {
        let own = match self.does() {
            Does::Cluster(kind) => kind.facts().failure,
            _ => None,
        };
        own.unwrap_or(FailureReason::DisassociateStepFailure)
    }

    /// Whether it is for nodes that are named, and not for the site as it is designed.
    #[must_use]
    pub fn is_targeted(self) -> bool {
        self != Self::Update
    }

    /// Whether a plan of it with these steps waits for a maintenance window. The remediation of a machine that has failed does
    /// not, and a fenced one is not left so until the next one; nor does what changes no machine, such as records and the tag.
    #[must_use]
    pub fn waits_for_window(self, steps: &[Step]) -> bool {
        let acts_on_machine = |step: &Step| {
            let touches = step.id.kind.facts().touches_world() && step.effect != Effect::None;
            step.id.node.is_some() && touches
        };
        let is_in_service = |step: &Step| *step.given().in_service();
        match self {
            Self::Remediate => steps.iter().any(is_in_service),
            _ => steps.iter().any(acts_on_machine),
        }
    }

    /// Whether nodes have to be named.
    #[must_use]
    pub fn wants_nodes(self) -> bool {
        !matches!(
            self,
            Self::Update | Self::CheckEtcd | Self::Remediate | Self::Guards
        )
    }

    /// Whether it builds of documents, of which a revision can be chosen (`--target-revision`).
    #[must_use]
    pub fn has_target_revision(self) -> bool {
        matches!(self, Self::Redeploy | Self::Teardown)
    }

    /// Whether nodes leave clusters in it, wholly or in part.
    #[must_use]
    pub fn leaves_clusters(self) -> bool {
        matches!(
            self,
            Self::Update | Self::Redeploy | Self::Teardown | Self::Decommission
        )
    }

    /// Whether it takes machines out of service, so that they go in waves.
    pub(super) fn goes_in_waves(self) -> bool {
        matches!(
            self,
            Self::Teardown
                | Self::Decommission
                | Self::Destroy
                | Self::Drain
                | Self::ShutdownKubelet
                | Self::RemoveEtcd
                | Self::PowerOff
                | Self::Remediate
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || serde::de::Error::custom(format!("unknown action {name:?}"));
        Self::named(&name).ok_or_else(unknown)
    }
}

/// An action, for whom, and with what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The action.
    pub action: Action,
    /// The nodes: names, globs, groups, racks, tags.
    pub nodes: BTreeSet<Arc<str>>,
    /// Why, for flags that are set.
    pub reason: Option<Arc<str>>,
    /// The clean steps to run, in order; none: the machine's automated steps.
    pub clean_steps: Vec<CleanStep>,
    /// The fields whose differences are accepted, as patterns; none: the identity is.
    pub fields: BTreeSet<Arc<str>>,
    /// Their acceptance is undone.
    pub undo: bool,
    /// The machine is accepted as it is, though a run had begun to change it.
    pub as_is: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
        assert_eq!(names.len(), Action::ALL.len());
        for action in Action::ALL {
            assert_eq!(Action::named(action.as_str()), Some(action));
        }
    }
}
