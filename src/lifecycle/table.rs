//! The tables: what leads from which state to which, what sets a level in which states, and which flag
//! is against what.
//!
//! [`TRANSITIONS`] is Ironic's state machine with the changes that the specifications ask for; the
//! tests lay it beside Ironic's own and name every difference with its reason.

use std::fmt;

use super::{Flag, ProvisionState, ProvisionState as S};

/// The verbs of a machine, by Ironic's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Bring it under management: try the credentials, or take it out of use.
    Manage,
    /// Inspect the hardware.
    Inspect,
    /// Make it available for deployment; it is cleaned on the way (from clean failed: skip the rest).
    Provide,
    /// Clean it with steps that are named (the specification's ZAPPING).
    Clean,
    /// End what waits.
    Abort,
    /// Continue after a pause.
    Unhold,
    /// Deploy a system (Ironic's `active`).
    Deploy,
    /// Deploy again without cleaning, keeping what is kept.
    Rebuild,
    /// Tear the system down (Ironic's `deleted`); it is cleaned afterwards.
    Delete,
    /// Take over a machine that runs already.
    Adopt,
    /// Start a rescue system.
    Rescue,
    /// End the rescue.
    Unrescue,
    /// Run steps on a machine that is in use.
    Service,
    /// Switch it on.
    PowerOn,
    /// Switch it off.
    PowerOff,
    /// Set the retired flag.
    SetRetired,
    /// Take the retired flag off.
    UnsetRetired,
    /// Set the maintenance flag.
    SetMaintenance,
    /// Take the maintenance flag off.
    UnsetMaintenance,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 19] = [
        Self::Manage,
        Self::Inspect,
        Self::Provide,
        Self::Clean,
        Self::Abort,
        Self::Unhold,
        Self::Deploy,
        Self::Rebuild,
        Self::Delete,
        Self::Adopt,
        Self::Rescue,
        Self::Unrescue,
        Self::Service,
        Self::PowerOn,
        Self::PowerOff,
        Self::SetRetired,
        Self::UnsetRetired,
        Self::SetMaintenance,
        Self::UnsetMaintenance,
    ];

    /// The name, as Ironic's state machine has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manage => "manage",
            Self::Inspect => "inspect",
            Self::Provide => "provide",
            Self::Clean => "clean",
            Self::Abort => "abort",
            Self::Unhold => "unhold",
            Self::Deploy => "deploy",
            Self::Rebuild => "rebuild",
            Self::Delete => "delete",
            Self::Adopt => "adopt",
            Self::Rescue => "rescue",
            Self::Unrescue => "unrescue",
            Self::Service => "service",
            Self::PowerOn => "power on",
            Self::PowerOff => "power off",
            Self::SetRetired => "set retired",
            Self::UnsetRetired => "unset retired",
            Self::SetMaintenance => "set maintenance",
            Self::UnsetMaintenance => "unset maintenance",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Events of a running operation. They cannot be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LifecycleEvent {
    /// It ended well; cleaning: the automated one.
    Done,
    /// A manual cleaning ended well, and the machine goes back to where it was.
    Return,
    /// It failed.
    Fail,
    /// It waits for the machine.
    Wait,
    /// The machine answered.
    Resume,
    /// A step asked for a pause.
    Hold,
    /// The tear-down ended, and cleaning begins.
    Clean,
}

impl LifecycleEvent {
    /// All events.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::Return,
        Self::Fail,
        Self::Wait,
        Self::Resume,
        Self::Hold,
        Self::Clean,
    ];
}

/// Why a machine changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A requested verb.
    Asked(Verb),
    /// It happened.
    Happens(LifecycleEvent),
}

/// One row: what leads from a state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// In which state.
    pub from: ProvisionState,
    /// Why.
    pub cause: Cause,
    /// The state that follows at once.
    pub to: ProvisionState,
    /// The row is only for machines that are retired, or only for those that are not; absent: all.
    pub retired: Option<bool>,
}

impl Transition {
    const fn if_retired(mut self) -> Self {
        self.retired = Some(true);
        self
    }

    const fn unless_retired(mut self) -> Self {
        self.retired = Some(false);
        self
    }
}

const fn row(from: ProvisionState, cause: Cause, to: ProvisionState) -> Transition {
    Transition {
        from,
        cause,
        to,
        retired: None,
    }
}

const fn asked(from: ProvisionState, verb: Verb, to: ProvisionState) -> Transition {
    row(from, Cause::Asked(verb), to)
}

const fn happens(from: ProvisionState, event: LifecycleEvent, to: ProvisionState) -> Transition {
    row(from, Cause::Happens(event), to)
}

/// From state to state.
pub const TRANSITIONS: &[Transition] = &[
    asked(S::Enroll, Verb::Manage, S::Verifying),
    happens(S::Verifying, LifecycleEvent::Done, S::Manageable),
    happens(S::Verifying, LifecycleEvent::Fail, S::Enroll),
    asked(S::Manageable, Verb::Adopt, S::Adopting),
    asked(S::Manageable, Verb::Clean, S::Cleaning),
    asked(S::Manageable, Verb::Inspect, S::Inspecting),
    asked(S::Manageable, Verb::Provide, S::Cleaning),
    happens(S::Inspecting, LifecycleEvent::Done, S::Manageable),
    happens(S::Inspecting, LifecycleEvent::Fail, S::InspectFailed),
    happens(S::Inspecting, LifecycleEvent::Wait, S::InspectWait),
    asked(S::InspectWait, Verb::Abort, S::InspectFailed),
    happens(S::InspectWait, LifecycleEvent::Done, S::Manageable),
    happens(S::InspectWait, LifecycleEvent::Fail, S::InspectFailed),
    happens(S::InspectWait, LifecycleEvent::Resume, S::Inspecting),
    asked(S::InspectFailed, Verb::Inspect, S::Inspecting),
    asked(S::InspectFailed, Verb::Manage, S::Manageable),
    happens(S::Adopting, LifecycleEvent::Done, S::Active),
    happens(S::Adopting, LifecycleEvent::Fail, S::AdoptFailed),
    asked(S::AdoptFailed, Verb::Adopt, S::Adopting),
    asked(S::AdoptFailed, Verb::Manage, S::Manageable),
    happens(S::Cleaning, LifecycleEvent::Done, S::Available).unless_retired(),
    happens(S::Cleaning, LifecycleEvent::Done, S::Manageable).if_retired(),
    happens(S::Cleaning, LifecycleEvent::Fail, S::CleanFailed),
    happens(S::Cleaning, LifecycleEvent::Hold, S::CleanHold),
    happens(S::Cleaning, LifecycleEvent::Return, S::Manageable),
    happens(S::Cleaning, LifecycleEvent::Wait, S::CleanWait),
    asked(S::CleanWait, Verb::Abort, S::CleanFailed),
    happens(S::CleanWait, LifecycleEvent::Fail, S::CleanFailed),
    happens(S::CleanWait, LifecycleEvent::Hold, S::CleanHold),
    happens(S::CleanWait, LifecycleEvent::Resume, S::Cleaning),
    asked(S::CleanHold, Verb::Abort, S::CleanFailed),
    asked(S::CleanHold, Verb::Unhold, S::CleanWait),
    asked(S::CleanFailed, Verb::Manage, S::Manageable),
    asked(S::CleanFailed, Verb::Clean, S::Cleaning),
    asked(S::CleanFailed, Verb::Provide, S::Available),
    asked(S::Available, Verb::Deploy, S::Deploying),
    asked(S::Available, Verb::Manage, S::Manageable),
    happens(S::Deploying, LifecycleEvent::Done, S::Active),
    happens(S::Deploying, LifecycleEvent::Fail, S::DeployFailed),
    happens(S::Deploying, LifecycleEvent::Hold, S::DeployHold),
    happens(S::Deploying, LifecycleEvent::Wait, S::WaitCallback),
    asked(S::WaitCallback, Verb::Abort, S::DeployFailed),
    asked(S::WaitCallback, Verb::Delete, S::Deleting),
    happens(S::WaitCallback, LifecycleEvent::Fail, S::DeployFailed),
    happens(S::WaitCallback, LifecycleEvent::Hold, S::DeployHold),
    happens(S::WaitCallback, LifecycleEvent::Resume, S::Deploying),
    asked(S::DeployHold, Verb::Abort, S::DeployFailed),
    asked(S::DeployHold, Verb::Unhold, S::WaitCallback),
    asked(S::DeployFailed, Verb::Delete, S::Deleting),
    asked(S::DeployFailed, Verb::Deploy, S::Deploying),
    asked(S::DeployFailed, Verb::Rebuild, S::Deploying),
    asked(S::Active, Verb::Delete, S::Deleting),
    asked(S::Active, Verb::Rebuild, S::Deploying),
    asked(S::Active, Verb::Rescue, S::Rescuing),
    asked(S::Active, Verb::Service, S::Servicing),
    happens(S::Deleting, LifecycleEvent::Clean, S::Cleaning),
    happens(S::Deleting, LifecycleEvent::Fail, S::Error),
    asked(S::Error, Verb::Delete, S::Deleting),
    asked(S::Error, Verb::Rebuild, S::Deploying),
    happens(S::Rescuing, LifecycleEvent::Done, S::Rescue),
    happens(S::Rescuing, LifecycleEvent::Fail, S::RescueFailed),
    happens(S::Rescuing, LifecycleEvent::Wait, S::RescueWait),
    asked(S::RescueWait, Verb::Abort, S::RescueFailed),
    asked(S::RescueWait, Verb::Delete, S::Deleting),
    happens(S::RescueWait, LifecycleEvent::Fail, S::RescueFailed),
    happens(S::RescueWait, LifecycleEvent::Resume, S::Rescuing),
    asked(S::RescueFailed, Verb::Delete, S::Deleting),
    asked(S::RescueFailed, Verb::Rescue, S::Rescuing),
    asked(S::RescueFailed, Verb::Unrescue, S::Unrescuing),
    asked(S::Rescue, Verb::Delete, S::Deleting),
    asked(S::Rescue, Verb::Rescue, S::Rescuing),
    asked(S::Rescue, Verb::Unrescue, S::Unrescuing),
    happens(S::Unrescuing, LifecycleEvent::Done, S::Active),
    happens(S::Unrescuing, LifecycleEvent::Fail, S::UnrescueFailed),
    asked(S::UnrescueFailed, Verb::Delete, S::Deleting),
    asked(S::UnrescueFailed, Verb::Rescue, S::Rescuing),
    asked(S::UnrescueFailed, Verb::Unrescue, S::Unrescuing),
    happens(S::Servicing, LifecycleEvent::Done, S::Active),
    happens(S::Servicing, LifecycleEvent::Fail, S::ServiceFailed),
    happens(S::Servicing, LifecycleEvent::Hold, S::ServiceHold),
    happens(S::Servicing, LifecycleEvent::Wait, S::ServiceWait),
    asked(S::ServiceWait, Verb::Abort, S::ServiceFailed),
    asked(S::ServiceWait, Verb::Delete, S::Deleting),
    happens(S::ServiceWait, LifecycleEvent::Fail, S::ServiceFailed),
    happens(S::ServiceWait, LifecycleEvent::Hold, S::ServiceHold),
    happens(S::ServiceWait, LifecycleEvent::Resume, S::Servicing),
    asked(S::ServiceHold, Verb::Abort, S::ServiceFailed),
    asked(S::ServiceHold, Verb::Service, S::Servicing),
    asked(S::ServiceHold, Verb::Unhold, S::ServiceWait),
    asked(S::ServiceFailed, Verb::Abort, S::Active),
    asked(S::ServiceFailed, Verb::Delete, S::Deleting),
    asked(S::ServiceFailed, Verb::Rescue, S::Rescuing),
    asked(S::ServiceFailed, Verb::Service, S::Servicing),
];

/// In which states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In all.
    Everywhere,
    /// In these.
    In(&'static [ProvisionState]),
    /// In all but these.
    Outside(&'static [ProvisionState]),
    /// In known ones if nothing is under way and nothing is paused.
    AtRest,
}

impl Where {
    /// Whether a state is among them.
    #[must_use]
    pub fn has(self, state: ProvisionState) -> bool {
        match self {
            Self::Everywhere => true,
            Self::In(states) => states.contains(&state),
            Self::Outside(states) => !states.contains(&state),
            Self::AtRest => !state.is_transient() && !state.is_held() && state != S::Other,
        }
    }
}

/// One row: a verb that leaves the state alone, and where it may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The verb.
    pub verb: Verb,
    /// In which states.
    pub states: Where,
}

const fn level(verb: Verb, states: Where) -> Level {
    Level { verb, states }
}

/// Power and flags. Power stays as it is while a machine is cleaned, and may be switched where cleaning
/// failed, since its repair needs it (ironic-cleaning, "REST API impact"). A machine that is
/// available goes to manageable before it is retired (ironic-retirement, "State Machine Impact").
pub const LEVELS: &[Level] = &[
    level(Verb::PowerOn, Where::AtRest),
    level(Verb::PowerOff, Where::AtRest),
    level(Verb::SetRetired, Where::Outside(&[S::Available])),
    level(Verb::UnsetRetired, Where::Everywhere),
    level(Verb::SetMaintenance, Where::Everywhere),
    level(Verb::UnsetMaintenance, Where::Everywhere),
];

/// One row: a flag that is against a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where this is set,
    pub flag: Flag,
    /// this is refused,
    pub verb: Verb,
    /// in these states,
    pub states: Where,
    /// for this reason.
    pub why: &'static str,
}

const fn rule(flag: Flag, verb: Verb, states: Where, why: &'static str) -> Rule {
    Rule {
        flag,
        verb,
        states,
        why,
    }
}

const NEVER_AVAILABLE: &str = "a retired machine never becomes available: take the flag off first";
const NEVER_DEPLOYED: &str = "a retired machine is never deployed to: take the flag off first";
const SOMEBODY_WORKS: &str = "it is in maintenance: take the flag off first";
const PROTECTED: &str = "it is protected";

/// Which flags are against what. Retirement stands in the way of neither cleaning nor rebuilding
/// (ironic-retirement, "Proposed change"). A new cleaning, or skipping the rest of it, after
/// cleaning failed, is allowed although that failure has put the machine into maintenance (ironic-cleaning).
pub const RULES: &[Rule] = &[
    rule(
        Flag::Retired,
        Verb::Provide,
        Where::Everywhere,
        NEVER_AVAILABLE,
    ),
    rule(
        Flag::Retired,
        Verb::Deploy,
        Where::Everywhere,
        NEVER_DEPLOYED,
    ),
    rule(
        Flag::Maintenance,
        Verb::Deploy,
        Where::Everywhere,
        SOMEBODY_WORKS,
    ),
    rule(
        Flag::Maintenance,
        Verb::Rebuild,
        Where::Everywhere,
        SOMEBODY_WORKS,
    ),
    rule(
        Flag::Maintenance,
        Verb::Clean,
        Where::In(&[S::Manageable]),
        SOMEBODY_WORKS,
    ),
    rule(
        Flag::Maintenance,
        Verb::Service,
        Where::Everywhere,
        SOMEBODY_WORKS,
    ),
    rule(Flag::Protected, Verb::Delete, Where::Everywhere, PROTECTED),
    rule(Flag::Protected, Verb::Rebuild, Where::Everywhere, PROTECTED),
];
