//! Contradictions within a plan that was read.

use super::effect::word;
use super::{Action, ChangeKind};
use crate::design::NodeName;
use crate::step::{Effect, StepId};

/// A contradiction within a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// A step has another effect than its kind.
    #[error("step `{id}` is {}, which steps of its kind are not", of_effect(*.effect))]
    Effect {
        /// The step.
        id: StepId,
        /// Its effect.
        effect: Effect,
    },
    /// A step is about a node whose change has no such step.
    #[error("step `{id}` does not belong to the change of its node, which is `{}`", word(*.change))]
    Change {
        /// The step.
        id: StepId,
        /// The change.
        change: ChangeKind,
    },
    /// A step is about a node whose change is not carried out.
    #[error("step `{id}` is about a node whose change is not carried out")]
    NotCarriedOut {
        /// The step.
        id: StepId,
    },
    /// A step is about a node that its group does not have, or lacks one, or stands before what it has to wait for.
    #[error("step `{id}` is not where steps of its kind are")]
    Place {
        /// The step.
        id: StepId,
    },
    /// A step does not wait for another one that has to come before it.
    #[error("step `{id}` does not wait for `{other}` as steps of its kind do")]
    Waits {
        /// The step.
        id: StepId,
        /// The step that it has to wait for.
        other: StepId,
    },
    /// More machines are taken out of service together than the limits allow.
    #[error(
        "the wave that begins with `{id}` takes more machines out of service together than the limits of the site allow"
    )]
    Wave {
        /// The step.
        id: StepId,
    },
    /// A change is not one of the plan's action.
    #[error("`{node}` has the change `{}`, which `{action}` does not make", word(*.change))]
    Action {
        /// The node.
        node: NodeName,
        /// The change.
        change: ChangeKind,
        /// The action.
        action: Action,
    },
    /// Steps destroy data, and the change lacks the mark.
    #[error(
        "the steps of `{node}` destroy data or take the machine away, and its change is not marked as destructive"
    )]
    Harmless {
        /// The node.
        node: NodeName,
    },
    /// A node stands in the list of changes more than once, or not in order.
    #[error("`{node}` is not in its place in the list of changes")]
    Order {
        /// The node.
        node: NodeName,
    },
    /// A step needs an allowance that the plan's options do not hold.
    #[error("step `{id}` takes `{flag}`, which the plan's options do not hold")]
    Allowance {
        /// The step.
        id: StepId,
        /// The flag.
        flag: &'static str,
    },
    /// The counts are not those of the changes.
    #[error("the summary does not count the changes")]
    Summary,
}

fn of_effect(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "without effect",
        Effect::Reversible => "reversible",
        Effect::Destructive => "destructive",
    }
}
