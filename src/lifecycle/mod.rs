//! The node's life, with Ironic's names, as tables that can be laid beside the specification.
//!
//! One state machine serves all backends: each maps what its provisioner says to a
//! [`ProvisionState`], and asks [`step`] before it sends a verb, so that what the tables do not have
//! is neither planned nor sent. The tables are data ([`TRANSITIONS`], [`LEVELS`], [`RULES`]); they hold
//! what ironic-cleaning and ironic-retirement promise, also if Ironic itself is more lenient.

mod cleaning;
mod state;
mod table;

use std::fmt;

pub use cleaning::{CleanInterface, OWN_STEPS, OfferedStep, OwnStep, Tie, in_order};
pub use state::{PowerState, ProvisionState};
pub use table::{
    Cause, LEVELS, Level, LifecycleEvent, RULES, Rule, TRANSITIONS, Transition, Verb, Where,
};

/// The flags beside the state of a machine; they decide with it which verbs are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flags {
    /// It is on its way out, and never deployed to again (ironic-retirement).
    pub retired: bool,
    /// It is in maintenance, or needs intervention.
    pub maintenance: bool,
    /// It must not be torn down.
    pub protected: bool,
}

impl Flags {
    /// Whether one of them is set.
    #[must_use]
    pub const fn has(self, flag: Flag) -> bool {
        match flag {
            Flag::Retired => self.retired,
            Flag::Maintenance => self.maintenance,
            Flag::Protected => self.protected,
        }
    }
}

/// One of the [`Flags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// [`Flags::retired`].
    Retired,
    /// [`Flags::maintenance`].
    Maintenance,
    /// [`Flags::protected`].
    Protected,
}

/// Asks for something: the state that follows at once, or why it is refused. A verb that leaves the
/// state alone (power, flags) gives the state back.
///
/// # Errors
///
/// The tables do not have it; the text names state, verb and what would be allowed.
pub fn step(state: ProvisionState, verb: Verb, flags: Flags) -> Result<ProvisionState, Refusal> {
    let refuse = |because: Because| {
        Err(Refusal {
            state,
            verb,
            because,
            allowed: allowed(state, flags),
        })
    };
    let Some(next) = next(state, verb) else {
        return refuse(Because::State);
    };
    match rule_against(state, verb, flags) {
        Some(rule) => refuse(Because::Rule(rule)),
        None => Ok(next),
    }
}

/// Something happens by itself while the machine is in a state: the state that follows; `None` if
/// it cannot happen there.
#[must_use]
pub fn follow(
    state: ProvisionState,
    event: LifecycleEvent,
    flags: Flags,
) -> Option<ProvisionState> {
    TRANSITIONS
        .iter()
        .find(|row| {
            row.from == state
                && row.cause == Cause::Happens(event)
                && row.retired.is_none_or(|retired| retired == flags.retired)
        })
        .map(|row| row.to)
}

/// All that may be asked of a machine, in the order of [`Verb::ALL`].
#[must_use]
pub fn allowed(state: ProvisionState, flags: Flags) -> Vec<Verb> {
    let may =
        |verb: &Verb| next(state, *verb).is_some() && rule_against(state, *verb, flags).is_none();
    Verb::ALL.into_iter().filter(may).collect()
}

/// The state that follows a verb, whatever the flags are.
fn next(state: ProvisionState, verb: Verb) -> Option<ProvisionState> {
    let moves = TRANSITIONS
        .iter()
        .find(|row| row.from == state && row.cause == Cause::Asked(verb))
        .map(|row| row.to);
    let level = || {
        LEVELS
            .iter()
            .find(|row| row.verb == verb && row.states.has(state))
    };
    moves.or_else(|| level().map(|_| state))
}

fn rule_against(state: ProvisionState, verb: Verb, flags: Flags) -> Option<&'static Rule> {
    RULES
        .iter()
        .find(|rule| flags.has(rule.flag) && rule.verb == verb && rule.states.has(state))
}

/// That something was asked for which the tables do not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// The state of the machine.
    pub state: ProvisionState,
    /// The requested verb.
    pub verb: Verb,
    /// Whether it is the state that is against it, or a flag.
    pub because: Because,
    /// The allowed verbs.
    pub allowed: Vec<Verb>,
}

/// The reason against a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// The state has no such verb.
    State,
    /// A flag forbids it.
    Rule(&'static Rule),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, verb, .. } = self;
        write!(f, "`{verb}` is refused while the machine is {state}")?;
        if let Because::Rule(rule) = self.because {
            write!(f, ", since {}", rule.why)?;
        }
        f.write_str("; allowed: ")?;
        for (position, verb) in self.allowed.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{verb}")?;
        }
        if self.allowed.is_empty() {
            f.write_str("nothing")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
