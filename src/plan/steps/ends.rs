//! The first and last steps of a plan: the site, the critical check, teardowns of
//! machines that left the design, and the tag.

use std::net::IpAddr;

use rustc_hash::FxHashMap;

use super::leaving::{Place, tear_down};
use super::{NewStep, StepInputs, StepList};
use crate::design::{NodeDesign, NodeName};
use crate::plan::addresses::of_machine;
use crate::plan::item::Item;
use crate::step::{StepKind, VerifySiteParameters};

/// Outside all groups.
const OUTSIDE: Place<'static> = Place {
    group: None,
    standby: false,
};

/// Backends and credentials are good; the provisioner has what it needs once.
pub(super) fn site(draft: &mut StepList, inputs: &StepInputs<'_>) {
    let configuration = &inputs.site.guards().configuration;
    let deployed = inputs.items.iter().filter(|(_, item)| item.work.deploy);
    let parameters = draft.share(VerifySiteParameters {
        deploys: deployed.map(|(name, _)| (*name).clone()).collect(),
    });
    let verify = NewStep::new(StepKind::VerifySite, None, None)
        .timeout(configuration.verify_timeout)
        .parameters(parameters);
    let verify = draft.add(verify);
    let prepare = NewStep::new(StepKind::PrepareSite, None, None)
        .timeout(configuration.prepare_site_timeout)
        .success([verify]);
    let prepare = draft.add(prepare);
    draft.verify_site = Some(verify);
    draft.prepare_site = Some(prepare);
    draft.sinks.extend([verify, prepare]);
}

/// Before the first wave: machines that earlier waves took out of service are healthy for their soak.
pub(super) fn owed_soak(draft: &mut StepList, inputs: &StepInputs<'_>) {
    let owed = inputs.owed.iter().filter(|each| !each.is_repaired);
    let prepared = (draft.prepare_site, None);
    let soak = draft.soak_owed(inputs, (None, 0), owed, prepared);
    draft.back_before.extend(soak);
    draft.sinks.extend(soak);
}

/// The machines that left the design and are torn down.
fn left<'g>(inputs: &'g StepInputs<'_>) -> impl Iterator<Item = &'g Item<'g>> {
    let items = inputs.items.values().copied();
    items.filter(|item| item.work.tears_down() && item.subject.after.is_none())
}

/// Addresses of a machine and of its management controller, in one form for each.
fn addresses(node: &NodeDesign) -> impl Iterator<Item = IpAddr> {
    let controller = node.out_of_band.address.iter();
    of_machine(node).chain(controller.filter_map(|address| address.parse().ok()))
}

/// Teardowns of machines that hold an address which another node has now: before that node's groups.
pub(super) fn early_teardowns(draft: &mut StepList, inputs: &StepInputs<'_>) {
    if left(inputs).next().is_none() {
        return;
    }
    let mut holders: FxHashMap<IpAddr, Vec<&NodeName>> = FxHashMap::default();
    for node in inputs.site.nodes.values() {
        for address in addresses(node) {
            holders.entry(address).or_default().push(&node.name);
        }
    }
    for item in left(inputs) {
        let Some(before) = item.subject.before else {
            continue;
        };
        let mut heirs: Vec<_> = addresses(before)
            .filter_map(|address| holders.get(&address))
            .flatten()
            .copied()
            .collect();
        if heirs.is_empty() {
            continue;
        }
        heirs.sort_unstable();
        heirs.dedup();
        let prepare_site = draft.prepare_site;
        let last = tear_down(draft, inputs, item, &OUTSIDE, |first| {
            first.success(prepare_site)
        });
        draft.sinks.extend(last);
        for heir in heirs {
            draft.early.entry(heir.clone()).or_default().extend(last);
        }
        draft.torn_down.insert(item.subject.name.clone());
    }
}

/// No critical group failed; then the other machines that left the design are torn down.
pub(super) fn check_and_teardowns(draft: &mut StepList, inputs: &StepInputs<'_>) {
    let check = NewStep::new(StepKind::CriticalCheck, None, None);
    let check = check.done(std::mem::take(&mut draft.sinks));
    let check = draft.add(check);
    draft.critical_check = Some(check);
    draft.sinks.push(check);
    for item in left(inputs) {
        if draft.torn_down.contains(item.subject.name) {
            continue;
        }
        let last = tear_down(draft, inputs, item, &OUTSIDE, |first| {
            first.success([check])
        });
        draft.sinks.extend(last);
    }
}

/// The revision is tagged when all has ended.
pub(super) fn tag(draft: &mut StepList, _: &StepInputs<'_>) {
    let tag = NewStep::new(StepKind::Tag, None, None);
    let tag = tag.done(std::mem::take(&mut draft.sinks));
    draft.add(tag);
}
