//! Clean steps and deploy steps: what is run on a machine besides the steps of its backend's own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::lifecycle::OfferedStep;

/// The clean steps of a machine, and their source (ironic-cleaning).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cleaning {
    /// Why these steps, or why none: the policy that decides.
    pub because: Arc<str>,
    /// The provisioner of the machine chooses steps and order itself: they cannot be requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// The steps, in the order in which they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<CleanStep>,
}

impl Cleaning {
    /// The steps that a backend is told to run; none if it chooses them itself.
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

/// A clean step to be run (ironic-cleaning).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanStep {
    /// Its interface: `power`, `management`, `deploy`, `bios`, `raid`, `firmware`.
    pub interface: Arc<str>,
    /// Its name.
    pub step: Arc<str>,
    /// Its arguments, as compact JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<str>>,
    /// The priority that gave it its place, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Whether it erases data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub erases: bool,
}

impl CleanStep {
    /// A step by its name, as in a request.
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
    /// Its interface: `power`, `management`, `firmware`, `deploy`, `bios`, `raid`, `vendor`.
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

/// The prefix of the note that names the clean step that is begun: a machine that only the records
/// know is fenced by it when the step fails.
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
