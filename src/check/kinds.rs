//! The tables of the specifications that rules read: the kinds of step, and the steps of each change.

use crate::design::{Rung, Section};
use crate::plan::{Action, ChangeKind};
use crate::step::{Effect, StepKind};

/// The subject of a kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Site,
    Group,
    Wave,
    Node,
    NodeOrSite,
}

/// The facts of a kind of step, as the specifications have them.
pub(super) struct KindFacts {
    pub(super) place: Place,
    pub(super) effect: Effect,
    /// How far it goes with a machine that is in service.
    pub(super) rung: Rung,
    /// The machine is not in service any more once it begins.
    pub(super) takes_away: bool,
    /// A machine, or what moves it, is asked for something.
    pub(super) acts: bool,
}

/// The facts of a kind of step.
pub(super) const fn facts_of(kind: StepKind) -> KindFacts {
    use Effect as E;
    use StepKind as S;
    let (place, effect, takes_away, acts) = match kind {
        S::VerifySite | S::CriticalCheck | S::Tag => (Place::Site, E::None, false, false),
        S::PrepareSite => (Place::Site, E::Reversible, false, false),
        S::StartGroup | S::GatePrepared | S::GateDeployed => (Place::Group, E::None, false, false),
        S::StartWave | S::Soak => (Place::Wave, E::None, false, false),
        S::CheckEtcd => (Place::NodeOrSite, E::None, false, false),
        S::Record | S::Adopt | S::Rename | S::Forget | S::AcceptIdentity | S::AcceptDifferences => {
            (Place::Node, E::None, false, false)
        }
        // A drained node takes no work; a stopped kubelet, a member that is gone and a machine that is off do none.
        S::Drain | S::ShutdownKubelet => (Place::Node, E::Reversible, true, false),
        S::PowerOff | S::Service => (Place::Node, E::Reversible, true, true),
        S::RemoveEtcd => (Place::Node, E::Destructive, true, false),
        S::Destroy | S::Remediate => (Place::Node, E::Destructive, true, true),
        S::Deploy | S::Clean => (Place::Node, E::Destructive, false, true),
        S::RemoveFromCluster => (Place::Node, E::Destructive, false, false),
        S::Prepare
        | S::PowerOn
        | S::Lock
        | S::SetRetired
        | S::UnsetRetired
        | S::Manage
        | S::Provide
        | S::RotateBmcPassword
        | S::ServiceLive
        | S::SetMaintenance
        | S::UnsetMaintenance => (Place::Node, E::Reversible, false, true),
        S::Relabel
        | S::Uncordon
        | S::ClearLabels
        | S::AwaitReady
        | S::SetOutOfService
        | S::UnsetOutOfService
        | S::RestoreNode => (Place::Node, E::Reversible, false, false),
    };
    KindFacts {
        place,
        effect,
        rung: rung_of(kind),
        takes_away,
        acts,
    }
}

/// The rung of a kind of step ("Rungs").
const fn rung_of(kind: StepKind) -> Rung {
    use StepKind as S;
    match kind {
        S::VerifySite
        | S::CriticalCheck
        | S::Tag
        | S::StartGroup
        | S::StartWave
        | S::Soak
        | S::GatePrepared
        | S::GateDeployed
        | S::CheckEtcd
        | S::Record
        | S::Adopt
        | S::Rename
        | S::Forget
        | S::AcceptIdentity
        | S::AcceptDifferences => Rung::Record,
        S::PrepareSite
        | S::Drain
        | S::Uncordon
        | S::ShutdownKubelet
        | S::ClearLabels
        | S::RemoveEtcd
        | S::RemoveFromCluster
        | S::AwaitReady
        | S::Relabel
        | S::PowerOn
        | S::Lock
        | S::SetRetired
        | S::UnsetRetired
        | S::Manage
        | S::Provide
        | S::RotateBmcPassword
        | S::ServiceLive
        | S::SetMaintenance
        | S::UnsetMaintenance
        | S::SetOutOfService
        | S::UnsetOutOfService
        | S::RestoreNode => Rung::Live,
        // Its machine is switched off, or boots something else.
        S::PowerOff | S::Service | S::Remediate | S::Prepare => Rung::Restart,
        S::Deploy => Rung::Reinstall,
        S::Destroy | S::Clean => Rung::Wipe,
    }
}

/// The lowest rung that brings a section true ("Rungs").
pub(super) const fn rung_of_section(section: Section) -> Rung {
    match section {
        Section::OutOfBand | Section::Inventory | Section::Expected => Rung::Record,
        Section::Labels => Rung::Live,
        Section::Firmware => Rung::Restart,
        Section::Hardware | Section::OperatingSystem | Section::Network | Section::BootActions => {
            Rung::Reinstall
        }
        Section::Storage | Section::Raid => Rung::Wipe,
    }
}

/// The steps of a change: those that it may have, and those that it has to.
pub(super) struct ChangeSteps {
    pub(super) may_have: &'static [StepKind],
    pub(super) needs: &'static [StepKind],
    /// It needs all of these; else one of them.
    pub(super) all: bool,
}

const fn one(kinds: &'static [StepKind]) -> ChangeSteps {
    ChangeSteps {
        may_have: kinds,
        needs: kinds,
        all: false,
    }
}

const fn some_of(may_have: &'static [StepKind], needs: &'static [StepKind]) -> ChangeSteps {
    ChangeSteps {
        may_have,
        needs,
        all: true,
    }
}

/// The steps of a change in a plan of an action ("What changes, and what that means for a node").
pub(super) const fn steps_of(change: ChangeKind, action: Action) -> ChangeSteps {
    use StepKind as S;
    match action {
        Action::Update => steps_of_update(change),
        Action::Redeploy => REBUILT,
        Action::Teardown => TORN_DOWN,
        Action::Decommission => one(&[
            S::Drain,
            S::ClearLabels,
            S::RemoveEtcd,
            S::CheckEtcd,
            S::ShutdownKubelet,
        ]),
        Action::Destroy => one(&[S::Destroy]),
        Action::Drain => one(&[S::Drain]),
        Action::Uncordon => one(&[S::Uncordon]),
        Action::ClearLabels => one(&[S::ClearLabels]),
        Action::RemoveEtcd => one(&[S::RemoveEtcd]),
        Action::CheckEtcd => one(&[S::CheckEtcd]),
        Action::ShutdownKubelet => one(&[S::ShutdownKubelet]),
        Action::RemoveFromCluster => one(&[S::RemoveFromCluster]),
        Action::Relabel => one(&[S::Relabel]),
        Action::PowerOn => one(&[S::PowerOn]),
        Action::PowerOff => one(&[S::PowerOff]),
        Action::Manage => one(&[S::Manage]),
        Action::Provide => one(&[S::Provide]),
        Action::Clean => one(&[S::Clean]),
        Action::Retire => one(&[S::SetRetired]),
        Action::Unretire => one(&[S::UnsetRetired]),
        Action::SetMaintenance => one(&[S::SetMaintenance]),
        Action::UnsetMaintenance => one(&[S::UnsetMaintenance]),
        Action::RotateBmcPassword => one(&[S::RotateBmcPassword]),
        Action::Forget => one(&[S::Forget]),
        Action::Remediate => one(&[S::Remediate]),
        Action::Accept => one(&[S::AcceptIdentity, S::AcceptDifferences, S::Adopt]),
        Action::Guards => some_of(&[], &[]),
    }
}

const REBUILT: ChangeSteps = {
    use StepKind as S;
    let may_have = &[
        S::UnsetRetired,
        S::Drain,
        S::ClearLabels,
        S::RemoveEtcd,
        S::CheckEtcd,
        S::ShutdownKubelet,
        S::Destroy,
        S::RemoveFromCluster,
        S::Prepare,
        S::Deploy,
        S::AwaitReady,
    ];
    some_of(may_have, &[S::Destroy, S::Prepare, S::Deploy])
};

const TORN_DOWN: ChangeSteps = {
    use StepKind as S;
    one(&[
        S::Drain,
        S::ClearLabels,
        S::RemoveEtcd,
        S::CheckEtcd,
        S::ShutdownKubelet,
        S::Destroy,
        S::RemoveFromCluster,
    ])
};

const fn steps_of_update(change: ChangeKind) -> ChangeSteps {
    use ChangeKind as K;
    use StepKind as S;
    match change {
        K::Create => some_of(
            &[S::UnsetRetired, S::Prepare, S::Deploy, S::AwaitReady],
            &[S::Deploy],
        ),
        K::Unknown => some_of(&[S::UnsetRetired, S::Prepare], &[S::Prepare]),
        K::Adopt => some_of(&[S::UnsetRetired, S::Adopt], &[S::Adopt]),
        K::Rename => some_of(&[S::Rename], &[S::Rename]),
        K::Record | K::Relabel | K::Drift | K::Accept => one(&[
            S::UnsetRetired,
            S::PowerOn,
            S::Lock,
            S::AwaitReady,
            S::Uncordon,
            S::Relabel,
            S::Record,
            S::AcceptDifferences,
        ]),
        K::AwaitReady => some_of(
            &[
                S::UnsetRetired,
                S::PowerOn,
                S::Lock,
                S::AwaitReady,
                S::Uncordon,
                S::Relabel,
                S::Record,
                S::AcceptDifferences,
            ],
            &[S::AwaitReady],
        ),
        K::Service => ChangeSteps {
            may_have: &[
                S::UnsetRetired,
                S::Drain,
                S::Service,
                S::ServiceLive,
                S::AwaitReady,
                S::Uncordon,
                S::PowerOn,
                S::Lock,
                S::Relabel,
                S::Record,
                S::AcceptDifferences,
            ],
            needs: &[S::Service, S::ServiceLive],
            all: false,
        },
        K::Redeploy => REBUILT,
        K::Destroy => TORN_DOWN,
        K::Retire => some_of(&[S::SetRetired], &[S::SetRetired]),
        K::Unretire => some_of(&[S::UnsetRetired], &[S::UnsetRetired]),
        K::Operation | K::None => some_of(&[], &[]),
    }
}

/// Whether a plan of an action has changes of a kind.
pub(super) const fn is_made_by(change: ChangeKind, action: Action) -> bool {
    use ChangeKind as K;
    match (action, change) {
        (_, K::None) => true,
        (Action::Update, change) => !matches!(change, K::Operation),
        (Action::Redeploy, change) => matches!(change, K::Redeploy),
        (Action::Teardown | Action::Destroy, change) => matches!(change, K::Destroy),
        (Action::Relabel, change) => matches!(change, K::Relabel),
        (Action::Retire, change) => matches!(change, K::Retire),
        (Action::Unretire, change) => matches!(change, K::Unretire),
        (Action::Guards, _) => false,
        (_, change) => matches!(change, K::Operation),
    }
}
