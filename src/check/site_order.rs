//! The order of the steps of a site: verification first, the critical check and the tag last.

use super::kinds::{Place, facts_of};
use super::rule::Found;
use super::view::View;
use crate::plan::Action;
use crate::step::{StepKind, Wait};

/// Whether an action begins with the verification of the site.
fn verifies(action: Action) -> bool {
    matches!(action, Action::Update | Action::Redeploy)
}

/// Verification comes before everything, and the preparation of the site before all that is built.
pub(super) fn first(view: &View<'_>, found: &mut Found<'_, '_>) {
    if !verifies(view.plan.request.action) || view.plan.steps.is_empty() {
        return;
    }
    let mut verify = view.of_kind(StepKind::VerifySite);
    let mut prepare = view.of_kind(StepKind::PrepareSite);
    let (Some(verify), Some(prepare)) = (verify.next(), prepare.next()) else {
        found.add(
            [],
            "the site is not verified and prepared before it is changed",
        );
        return;
    };
    // Whether each step is behind both: its needs are before it, so one walk tells all.
    let mut behind = vec![(false, false); view.plan.steps.len()];
    for (position, step) in view.steps() {
        let (mut verified, mut prepared) = (position == verify, position == prepare);
        for need in step.needs.iter().filter(|need| need.wait == Wait::Success) {
            let before = behind
                .get(need.step.0 as usize)
                .copied()
                .unwrap_or_default();
            verified |= before.0;
            prepared |= before.1;
        }
        let ends = matches!(step.id.kind, StepKind::CriticalCheck | StepKind::Tag);
        behind[position] = (verified, prepared);
        let touches = facts_of(step.id.kind);
        if !verified && !ends {
            found.add([position], "does not wait for the site to be verified");
        } else if !prepared && needs_prepared(step.id.kind, touches.place) {
            found.add([position], "does not wait for the site to be prepared");
        }
        // The end of all, whose waits are for ends, is behind them all the same.
        if ends {
            behind[position] = (true, true);
        }
    }
}

fn needs_prepared(kind: StepKind, place: Place) -> bool {
    let is_built = matches!(
        kind,
        StepKind::Prepare | StepKind::Deploy | StepKind::Destroy
    );
    is_built || matches!(place, Place::Group | Place::Wave)
}

/// The critical check waits for the end of every group, and machines that have left the design are torn down behind it,
/// but for those whose address a node of the design has now.
pub(super) fn critical(view: &View<'_>, found: &mut Found<'_, '_>) {
    if view.plan.request.action != Action::Update || view.plan.steps.is_empty() {
        return;
    }
    let Some(check) = view.of_kind(StepKind::CriticalCheck).next() else {
        found.add([], "no step checks that no critical group failed");
        return;
    };
    for gate in view.of_kind(StepKind::GateDeployed) {
        if !view.is_after(check, gate, Wait::Done) {
            found.add([check, gate], "the check does not wait for a group");
        }
    }
    let Some(site) = view.site else { return };
    for destroy in view.of_kind(StepKind::Destroy) {
        let Some(node) = &view.step(destroy).id.node else {
            continue;
        };
        let is_left = !site.nodes.contains_key(node) && view.step(destroy).id.group.is_none();
        if is_left && destroy < check && view.world.is_some() && !gives_address(view, node.as_str())
        {
            let what = "tears down a machine that has left the design before the check, and no node has its address";
            found.add([destroy], what);
        }
    }
    for destroy in view.of_kind(StepKind::Destroy).filter(|at| *at > check) {
        let Some(node) = &view.step(destroy).id.node else {
            continue;
        };
        let first = view.of_node(node.as_str()).first();
        if let Some(first) = first
            && !view.is_after(*first, check, Wait::Success)
        {
            found.add(
                [*first, check],
                "does not wait for the check of critical groups",
            );
        }
    }
}

/// Whether a node of the design has an address of a machine that has left it.
fn gives_address(view: &View<'_>, node: &str) -> bool {
    let (Some(site), Some(before)) = (view.site, view.applied(node)) else {
        return true;
    };
    let address = |text: &std::sync::Arc<str>| {
        let text = text.split('/').next().unwrap_or_default();
        text.parse::<std::net::IpAddr>().ok()
    };
    let of = |node: &crate::design::NodeDesign| -> Vec<std::net::IpAddr> {
        let all = node.addresses.values().chain(&node.out_of_band.address);
        all.filter_map(address).collect()
    };
    let own = of(before);
    site.nodes
        .values()
        .any(|heir| of(heir).iter().any(|each| own.contains(each)))
}

/// The tag comes last: it waits for the end of every step.
pub(super) fn tag(view: &View<'_>, found: &mut Found<'_, '_>) {
    let tags: Vec<usize> = view.of_kind(StepKind::Tag).collect();
    let wanted = view.plan.request.action == Action::Update && !view.plan.steps.is_empty();
    let &[tag] = &tags[..] else {
        if wanted || !tags.is_empty() {
            found.add(
                tags,
                "a plan of the site has one step that tags its revision, and no other has any",
            );
        }
        return;
    };
    if !wanted {
        found.add([tag], "an action on nodes tags no revision");
    }
    // Everything is waited for by a later step, and so by the last one.
    let mut is_waited_for = vec![false; view.plan.steps.len()];
    for (_, step) in view.steps() {
        for need in &step.needs {
            if let Some(waited) = is_waited_for.get_mut(need.step.0 as usize) {
                *waited = true;
            }
        }
    }
    let open = is_waited_for.iter().enumerate();
    let open = open.filter(|(position, waited)| !**waited && *position != tag);
    let open: Vec<usize> = open.map(|(position, _)| position).collect();
    if !open.is_empty() {
        found.add(open, "the tag does not wait for all steps");
    }
}
