//! The rules, and the tables of the specifications that they read: kinds of step, and the steps of each change.

use super::rule::{Family, Rule, Sees};
use super::{
    claims, design, failures, groups, guards, interleaving, node_order, quorum, shape, site_order,
    teardown, world,
};
use crate::plan::{Action, ChangeKind};
use crate::step::{Effect, StepKind};

/// What a kind of step is about.
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
        S::StartWave => (Place::Wave, E::None, false, false),
        S::CheckEtcd => (Place::NodeOrSite, E::None, false, false),
        S::Record | S::Adopt | S::Rename | S::Forget | S::AcceptIdentity | S::AcceptDifferences => {
            (Place::Node, E::None, false, false)
        }
        // A drained node takes no work; a stopped kubelet, a member that is gone and a machine that is off do none.
        S::Drain | S::ShutdownKubelet => (Place::Node, E::Reversible, true, false),
        S::PowerOff => (Place::Node, E::Reversible, true, true),
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
        takes_away,
        acts,
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
                S::Relabel,
                S::AcceptDifferences,
            ],
            &[S::AwaitReady],
        ),
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

/// Writes the rules, one a line: its function and code, what it is about, what it has to see, and the sentence that it holds.
macro_rules! rules {
    ($($module:ident::$judge:ident: $code:literal, $family:ident, $sees:ident, $sentence:literal;)+) => {
        /// All rules, in the order in which a plan is held to them.
        pub static RULES: [Rule; [$($code),+].len()] = [$(Rule {
            code: $code,
            sentence: $sentence,
            family: Family::$family,
            sees: Sees::$sees,
            judge: $module::$judge,
        }),+];
    };
}

rules! {
    shape::ids: "check-ids", Shape, Plan, "ids are unique and parse";
    shape::needs: "check-needs", Shape, Plan, "needs exist and are acyclic";
    shape::belongs: "check-belongs", Shape, Plan, "every step belongs to a change, a group or the site";
    shape::once: "check-once", Shape, Plan, "a node has one change, and is in a run once";
    shape::of_change: "check-steps", Shape, Plan, "every change has the steps of its kind and no others";
    shape::carried_out: "check-carried-out", Shape, Plan, "nothing blocked, excluded or only shown has a step";
    shape::effects: "check-effect", Shape, Plan, "a step has the effect of its kind";
    shape::destructive: "check-destructive", Shape, Plan, "what destroys is in a change that is shown as destructive";
    shape::allowed: "check-allowed", Shape, Plan, "what destroys is allowed by flag, approval or Policy";
    shape::narrowed: "check-targets", Shape, Plan, "no step is on a node that is not targeted, or excluded";
    node_order::order: "check-node-order", Order, Plan, "the steps of a node wait for each other in the order of airship-node-teardown";
    teardown::complete: "check-teardown", Order, Plan, "no step of a teardown is left out";
    site_order::first: "check-site-order", Order, Plan, "the site is verified and prepared before it is changed";
    groups::in_turn: "check-group-order", Order, Plan, "a group begins after its dependencies have succeeded";
    groups::inside: "check-gates", Order, Plan, "the prepare gate comes before each deploy, and a gate judges all nodes of its group";
    site_order::critical: "check-critical", Order, Plan, "the check of critical groups comes before removals";
    site_order::tag: "check-tag", Order, Plan, "the tag comes last, in a plan of the site only";
    design::grace: "check-grace", Shape, Plan, "the grace period of a drain is less than its timeout";
    design::disks: "check-disks", Shape, Plan, "disks that are erased are shown, and local storage that is preserved is kept";
    failures::behind_a_check: "check-wave-start", Failures, Plan, "each wave stands behind a check at the act";
    claims::summary: "check-summary", Claims, Plan, "the counts of the summary are those of the changes";
    claims::longest_path: "check-longest-path", Claims, Plan, "the longest way takes as long as the summary says";
    claims::waves: "check-wave-size", Claims, Plan, "no wave is larger than the plan says";
    quorum::quorum: "check-quorum", Interleaving, Site, "whichever members are away together, each etcd cluster keeps its quorum and its threshold";
    interleaving::control_plane: "check-control-plane", Interleaving, Site, "one machine of the control plane is away at a time";
    interleaving::within_limits: "check-limits", Interleaving, Site, "no more machines of a site, group, rack or tag are away together than the guards allow";
    failures::back_before: "check-back-before", Failures, Site, "no wave starts before what a cluster stands on is back";
    guards::protected: "check-protected", Guards, Site, "no protected machine is taken away";
    world::retired: "check-retired", World, Site, "a retired machine is left alone";
    guards::forbidden: "check-forbidden-flags", Guards, Site, "no flag is used that the policy forbids";
    guards::loosened: "check-loosened", Guards, Site, "a flag that loosens a guard is shown with it";
    guards::values: "check-guards", Guards, Site, "the guards of the plan are those that are resolved";
    guards::approvals: "check-approvals", Guards, Site, "approvals counted meet the rules";
    design::change: "check-change", Shape, Site, "only what has left the design is torn down for good by an update";
    design::times: "check-times", Reach, Site, "timeouts and grace periods are those of flags and configuration";
    groups::of_strategy: "check-groups", Reach, Site, "groups have the members that their selectors select";
    design::parameters: "check-parameters", Reach, Site, "image and labels are those of the design";
    design::machine: "check-machine", Reach, Site, "a machine is designed and reached as the documents say";
    design::secrets: "check-secrets", Reach, Site, "no secret stands in the plan";
    claims::counted: "check-counted", Claims, Site, "every designed node is changed, unchanged or retired";
    world::identity: "check-identity", World, World, "the machine of every step was proven to be the one that is meant";
    world::unknown: "check-unknown", World, World, "nothing unknown is acted on";
    world::held: "check-held", World, World, "a machine in maintenance is left alone, and none is deployed over";
    teardown::observed: "check-leaves", World, World, "a machine that is in a cluster leaves it before it is destroyed";
    world::relied_on: "check-relies-on", World, World, "what a step relies on is in `relies_on`, with the value observed";
    world::ids: "check-observed-ids", World, World, "node UID, member id and cluster id are those observed";
    design::renamed: "check-renamed", Reach, World, "a record gets another name from a node that left";
    world::unchanged: "check-unchanged", Claims, World, "nothing is said to be unchanged that differs from its record";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_checker_has_every_rule_with_its_sentence() {
        let page = include_str!("../../docs/checker.md");
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `check-"))
            .collect();
        for rule in &RULES {
            let row = format!("| `{}` | {} | ", rule.code, rule.sentence);
            let found = rows.iter().filter(|line| line.starts_with(&row)).count();
            assert_eq!(found, 1, "{row}");
        }
        assert_eq!(rows.len(), RULES.len());
        let verdict = format!("\"rules\": {}", RULES.len());
        assert!(page.contains(&verdict), "{verdict}");
    }
}
