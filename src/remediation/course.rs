//! The way of one machine through the table: from the observed state and the memory, the next task.
//!
//! Nothing here depends on the task before: after every task the machine is observed again.
//! If the table has "nothing", this has the condition that is waited for, and every wait has a bound.

use std::sync::Arc;

use super::memory::Memory;
use super::table::{Facts, TableAction, action};

/// The power of a machine, as it counts for safety.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Power {
    /// It is on.
    On,
    /// It was observed off, and again a while later.
    Off,
    /// It could not be observed, or only one sample was off: it counts as on.
    Unknown,
}

impl Power {
    /// The result of two samples, taken a while apart; `Some(true)` is on. Only two that agree count: an
    /// operator may write down what it wants before it is so.
    #[must_use]
    pub const fn of(first: Option<bool>, second: Option<bool>) -> Self {
        match (first, second) {
            (Some(false), Some(false)) => Self::Off,
            (Some(true), Some(true)) => Self::On,
            _ => Self::Unknown,
        }
    }
}

/// The Kubernetes node of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its UID.
    pub uid: Arc<str>,
    /// Whether it is Ready.
    pub ready: bool,
    /// Whether it is marked as out of service, and nothing of it is waited for any more.
    pub out_of_service: bool,
}

/// The observed state of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSeen {
    /// Its Node, if there is one.
    pub node: Option<NodeSeen>,
    /// Its Machine carries the annotation that asks for remediation.
    pub needs_remediation: bool,
    /// Its power.
    pub power: Power,
    /// Its host carries our reboot annotation.
    pub reboot_annotation: bool,
}

impl MachineSeen {
    /// The row of the table. A Node that is out of service is released, which is what its deletion is for;
    /// a host that was not observed off is on.
    #[must_use]
    pub fn facts(&self) -> Facts {
        Facts {
            node_ref: self.node.as_ref().is_some_and(|node| !node.out_of_service),
            needs_remediation: self.needs_remediation,
            powered_on: self.power != Power::Off,
            reboot_annotation: self.reboot_annotation,
        }
    }
}

/// The next task for one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Put the reboot annotation on its host.
    Hold,
    /// Wait until it is observed off.
    AwaitOff,
    /// Write down what its Node carries.
    BackUp(Arc<str>),
    /// Release the Node with this UID.
    Release(Arc<str>),
    /// Take the annotation off its Machine that asks for remediation.
    Unmark,
    /// Take the reboot annotation off its host.
    LetGo,
    /// Wait until it is observed on.
    AwaitOn,
    /// Wait until it has a Node again.
    AwaitNode,
    /// Give the Node back what the one before carried.
    Restore,
    /// Wait until its Node is Ready and it votes if it is a member.
    AwaitReady,
    /// Nothing is left to be done.
    Nothing,
    /// It is off, and not by us: the actor that switched it off has to decide.
    Stuck,
}

impl Task {
    /// The task, for messages (`fence it (power off)`).
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Hold => "fence it (power off)",
            Self::AwaitOff => "wait until it is off",
            Self::BackUp(_) => "back up labels, annotations and taints of its node",
            Self::Release(_) => "release its node",
            Self::Unmark => "remove the request for remediation",
            Self::LetGo => "unfence it (power on)",
            Self::AwaitOn => "wait until it is on",
            Self::AwaitNode => "wait for its node",
            Self::Restore => "restore labels, annotations and taints of the node",
            Self::AwaitReady => "wait until its node is Ready",
            Self::Nothing => "nothing",
            Self::Stuck => "wait, since it is off and not fenced",
        }
    }
}

/// The tasks from here to a machine that is back, if everything succeeds: [`next`] over a world that
/// does what it is asked for. Ends if nothing is left to be done, or nothing can be.
#[must_use]
pub fn way(seen: &MachineSeen, memory: &Memory) -> Vec<Task> {
    let (mut seen, mut memory) = (seen.clone(), memory.clone());
    memory.attempt = memory.attempt.max(1);
    let mut tasks = Vec::new();
    // Far more than any way has.
    while tasks.len() < 32 {
        let task = next(&seen, &memory);
        let ends = matches!(task, Task::Nothing | Task::Stuck | Task::AwaitReady);
        if task != Task::Nothing {
            tasks.push(task.clone());
        }
        if ends {
            break;
        }
        match task {
            Task::Hold => seen.reboot_annotation = true,
            Task::AwaitOff => seen.power = Power::Off,
            Task::BackUp(uid) => {
                memory.backed_up.insert(uid);
                memory.backup.get_or_insert_default();
            }
            Task::Release(uid) => {
                memory.releasing.insert(uid);
                seen.node = None;
            }
            Task::Unmark => seen.needs_remediation = false,
            Task::LetGo => {
                seen.reboot_annotation = false;
                memory.let_go = true;
            }
            Task::AwaitOn => seen.power = Power::On,
            Task::AwaitNode => {
                seen.node = Some(NodeSeen {
                    uid: Arc::from("the new one"),
                    ready: false,
                    out_of_service: false,
                });
            }
            Task::Restore => memory.backup = None,
            Task::AwaitReady | Task::Nothing | Task::Stuck => {}
        }
    }
    tasks
}

/// Returns the next task.
#[must_use]
pub fn next(seen: &MachineSeen, memory: &Memory) -> Task {
    let facts = seen.facts();
    match action(facts) {
        TableAction::AddRebootAnnotation => Task::Hold,
        TableAction::DeleteNode => match &seen.node {
            Some(node) if !memory.backed_up.contains(&node.uid) => Task::BackUp(node.uid.clone()),
            Some(node) => Task::Release(node.uid.clone()),
            // The row requires one.
            None => Task::Unmark,
        },
        TableAction::RemoveNeedsRemediation => Task::Unmark,
        TableAction::RemoveRebootAnnotation => Task::LetGo,
        // It could not be observed off, and must not go off unobserved later.
        TableAction::Nothing if facts.reboot_annotation && memory.given_up.is_some() => Task::LetGo,
        TableAction::Nothing if facts.reboot_annotation => Task::AwaitOff,
        TableAction::Nothing if !facts.powered_on && memory.let_go => Task::AwaitOn,
        // Off, not fenced, and not unfenced by us: the host is meant to be off, or it failed altogether.
        TableAction::Nothing if !facts.powered_on => Task::Stuck,
        TableAction::Nothing if seen.power == Power::Unknown => Task::AwaitOn,
        TableAction::Nothing => back(seen, memory),
    }
}

/// The remaining task for a machine that is on and neither fenced nor marked.
fn back(seen: &MachineSeen, memory: &Memory) -> Task {
    let node = seen.node.as_ref();
    let is_begun = memory.attempt > 0 || memory.backup.is_some();
    if memory.given_up.is_some() || !is_begun {
        return Task::Nothing;
    }
    let is_old = |uid: &Arc<str>| memory.releasing.contains(uid) && memory.backup.is_some();
    match node {
        None => Task::AwaitNode,
        Some(node) if !node.out_of_service && is_old(&node.uid) => Task::AwaitNode,
        Some(_) if memory.backup.is_some() => Task::Restore,
        Some(_) => Task::AwaitReady,
    }
}
