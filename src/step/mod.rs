//! The kinds of step: what each does, how much harm it can do, and what it waits for.
//!
//! A plan is a graph of steps. Everything about a kind that does not depend on the backend stands in
//! the table [`StepKind::facts`]; the backends bring `probe` and `act` for the kinds that touch the world.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{GroupName, NodeName};

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
    /// No critical group failed.
    CriticalCheck,
    /// Tag the revision.
    Tag,
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
    /// Whether a machine or a provisioner is asked for something.
    pub touches_world: bool,
}

impl StepKind {
    /// All kinds.
    pub const ALL: [Self; 17] = [
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
        Self::CriticalCheck,
        Self::Tag,
    ];

    /// The table of kinds.
    #[must_use]
    pub const fn facts(self) -> Facts {
        const fn row(
            name: &'static str,
            effect: Effect,
            attempts: u32,
            touches_world: bool,
        ) -> Facts {
            Facts {
                name,
                effect,
                attempts,
                touches_world,
            }
        }
        match self {
            Self::VerifySite => row("verify-site", Effect::None, 3, true),
            Self::PrepareSite => row("prepare-site", Effect::Reversible, 3, true),
            Self::StartGroup => row("start", Effect::None, 1, false),
            Self::StartWave => row("wave", Effect::None, 1, false),
            Self::Destroy => row("destroy", Effect::Destructive, 3, true),
            Self::Prepare => row("prepare", Effect::Reversible, 3, true),
            Self::GatePrepared => row("gate-prepared", Effect::None, 1, false),
            Self::Deploy => row("deploy", Effect::Destructive, 3, true),
            Self::GateDeployed => row("gate-deployed", Effect::None, 1, false),
            Self::Relabel => row("relabel", Effect::Reversible, 3, true),
            Self::PowerOn => row("power-on", Effect::Reversible, 3, true),
            Self::Record => row("record", Effect::None, 1, false),
            Self::Adopt => row("adopt", Effect::None, 1, false),
            Self::SetRetired => row("set-retired", Effect::Reversible, 3, true),
            Self::UnsetRetired => row("unset-retired", Effect::Reversible, 3, true),
            Self::CriticalCheck => row("critical-check", Effect::None, 1, false),
            Self::Tag => row("tag", Effect::None, 1, false),
        }
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Why it must not be attempted: it fails at once, with this as its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Arc<str>>,
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
