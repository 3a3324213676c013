//! Steps outside the groups: retirement, records, and repairs on nodes that no group selects.

use super::leaving::{OUTSIDE, written};
use super::{NewStep, StepInputs, StepList};
use crate::design::NodeDesign;
use crate::plan::item::Item;
use crate::plan::leave::Leave;
use crate::step::{
    AcceptDifferencesParameters, AdoptParameters, RecordParameters, RenameParameters,
    SetRetiredParameters, StepKind,
};

/// The identity of an adopted machine from now on, and the sections in which it was observed to be as designed.
fn adopted(item: &Item<'_>) -> AdoptParameters {
    let machine = item.subject.machine;
    let observed = machine.and_then(|machine| machine.identity.as_deref());
    let designed = item.subject.after.map(NodeDesign::identity);
    let identity = observed.map(|observed| {
        let mut identity = observed.of_boot_interfaces(&designed.unwrap_or_default());
        identity.unverified = item.change.unverified;
        Box::new(identity)
    });
    AdoptParameters {
        reason: None,
        identity: identity.filter(|identity| !identity.is_empty()),
        verified: item.subject.compared(),
        open: item.work.open.as_deref().unwrap_or_default().to_vec(),
    }
}

/// The retired flag is set and taken off. Taking it off comes before all that the node is for.
pub(super) fn retirement(draft: &mut StepList, inputs: &StepInputs<'_>) {
    let timeout = inputs.site.guards().configuration.prepare_node_timeout;
    for (name, item) in inputs.items {
        if let Some(reason) = &item.work.set_retired {
            let reason = Some(reason.clone());
            let parameters = draft.share(SetRetiredParameters { reason });
            let set = NewStep::new(StepKind::SetRetired, None, Some(name))
                .timeout(timeout)
                .parameters(parameters)
                .success(draft.verify_site);
            let step = draft.add(set);
            draft.sinks.push(step);
        }
        if item.work.unset_retired {
            let unset = NewStep::new(StepKind::UnsetRetired, None, Some(name))
                .timeout(timeout)
                .success(draft.verify_site);
            let step = draft.add(unset);
            draft.sinks.push(step);
            draft.unset_retired.insert((*name).clone(), step);
        }
    }
}

/// Records and adoptions; and labels and power of nodes that no group selects.
pub(super) fn records_and_labels(draft: &mut StepList, inputs: &StepInputs<'_>) {
    let configuration = &inputs.site.guards().configuration;
    for (name, item) in inputs.items {
        let work = &item.work;
        if item.change.group.is_none() {
            let mut on = None;
            if work.power_on {
                let written = NewStep::new(StepKind::PowerOn, None, Some(name))
                    .timeout(configuration.node_status_timeout)
                    .success(draft.verify_site);
                let step = draft.add(written);
                draft.sinks.push(step);
                on = Some(step);
            }
            if let Some(labels) = &work.relabel {
                let written = NewStep::new(StepKind::Relabel, None, Some(name))
                    .timeout(configuration.relabel_nodes_timeout)
                    .parameters(draft.share((**labels).clone()))
                    .success(draft.verify_site);
                let step = draft.add(written);
                draft.sinks.push(step);
                draft.relabels.insert((*name).clone(), vec![step]);
            }
            let live = draft.service_live(inputs, item, &OUTSIDE, draft.verify_site);
            draft.sinks.extend(live);
            if let Some(wait) = work.rejoins.as_ref().filter(|_| !work.deploy) {
                let written = written(draft, inputs, StepKind::AwaitReady, item, wait, &OUTSIDE);
                let step = draft.add(written.success(draft.verify_site).success(on));
                draft.sinks.push(step);
                draft.joins.entry((*name).clone()).or_default().push(step);
            }
        }
        if work.uncordon && item.change.group.is_none() {
            let leave = Leave::of_a_cordoned(item.subject.membership);
            let written = written(draft, inputs, StepKind::Uncordon, item, &leave, &OUTSIDE);
            let back = draft.joins.get(*name).into_iter().flatten().copied();
            let written = written.success(draft.verify_site).success(back);
            let step = draft.add(written);
            draft.sinks.push(step);
        }
        if work.lock {
            let written = NewStep::new(StepKind::Lock, None, Some(name))
                .timeout(configuration.node_status_timeout)
                .success(draft.verify_site);
            let step = draft.add(written);
            draft.sinks.push(step);
        }
        let kinds = [
            (work.record, StepKind::Record),
            (work.accept.is_some(), StepKind::AcceptDifferences),
            (work.adopt, StepKind::Adopt),
            (work.renamed_from.is_some(), StepKind::Rename),
        ];
        for (_, kind) in kinds.into_iter().filter(|(wanted, _)| *wanted) {
            let parameters = match kind {
                StepKind::Adopt => draft.share(adopted(item)),
                StepKind::Record if let Some(verified) = &work.verified => {
                    draft.share(RecordParameters {
                        verified: verified.to_vec(),
                    })
                }
                StepKind::Rename => draft.share(RenameParameters {
                    renamed_from: work.renamed_from.clone(),
                }),
                StepKind::AcceptDifferences => draft.share(AcceptDifferencesParameters {
                    accepted: work.accept.clone(),
                }),
                _ => None,
            };
            let written = NewStep::new(kind, None, Some(name))
                .parameters(parameters)
                .success(draft.verify_site)
                .success(draft.relabels.get(*name).into_iter().flatten().copied())
                // No record is one of a finished machine before that has joined.
                .success(draft.joins.get(*name).into_iter().flatten().copied());
            let step = draft.add(written);
            draft.sinks.push(step);
        }
    }
}
