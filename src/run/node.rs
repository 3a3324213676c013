//! The effect of a step that ended on the record of its node.
//!
//! A record holds certain facts. After a success it has the digests of the design that was applied;
//! after a failure, and while a step is under way, it has none, so that nothing is taken for done; which
//! revision was applied last it holds all the same.

use std::sync::Arc;

use super::outcome::{DECIDED_DONE, NodeOutcome};
use crate::design::{
    AcceptedDesign, Class, DIGEST_VERSION, Digests, NodeDesign, NodeName, RunId, Section,
};
use crate::identity::Identity;
use crate::plan::ChangeKind;
use crate::record::{Accepted, AcceptedDifference, Adopted, Join, Known, NodeRecord, Phase};
use crate::remediation::{Memory, Note};

use crate::step::{StepId, StepKind};

/// The facts of a run about a node beside its record.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeInRun<'a> {
    /// The run.
    pub(super) run: &'a RunId,
    /// The commit that it applies.
    pub(super) revision: &'a Arc<str>,
    /// The design to be reached; `None` where the node left it.
    pub(super) design: Option<&'a NodeDesign>,
    /// The change of the node in the plan.
    pub(super) change: Option<ChangeKind>,
    /// The reason of a retirement.
    pub(super) reason: Option<&'a Arc<str>>,
    /// Whether the plan still has to take its node out of the cluster once the machine is torn down.
    pub(super) leaves_cluster: bool,
    /// Whether the machine is gone for good.
    pub(super) is_gone: bool,
    /// The identity of an adopted machine.
    pub(super) identity: Option<&'a Identity>,
    /// The differences that are accepted, for a step that does that; and by whom.
    pub(super) accepted: Option<(&'a AcceptedDesign, &'a Arc<str>)>,
    /// Whether another step of the plan accepts differences of the node.
    pub(super) is_accepting: bool,
    /// The sections of an adopted machine that were compared and are equal.
    pub(super) verified: &'a [Section],
    /// The time, in seconds since 1970, where the step builds a machine that is to join its clusters.
    pub(super) joins_after: Option<i64>,
}

/// The record after a step; `None`: the node is forgotten.
pub(super) fn after(
    before: Option<&NodeRecord>,
    outcome: &NodeOutcome,
    context: NodeInRun<'_>,
) -> Option<NodeRecord> {
    let mut record = before
        .cloned()
        .unwrap_or_else(|| NodeRecord::blank(outcome.node.clone(), context.run.clone()));
    record.run = context.run.clone();
    record.last_error.clone_from(&outcome.message);
    let adopted = || context.identity.filter(|_| outcome.message.is_none());
    if let Some(identity) = outcome.identity.as_deref().or_else(adopted) {
        record.identity = Some(Box::new(identity.clone()));
    }
    if let Some(phase) = outcome.phase {
        // A machine that was torn down stays torn down, whatever becomes of its node in the cluster, until it is built
        // again or taken as it is.
        let is_gone = record.phase == Phase::NotStarted && before.is_some();
        if rebuilds(outcome.step.kind) || phase == Phase::Deployed || !is_gone {
            record.phase = phase;
        }
        let is_uncertain = matches!(phase, Phase::Failed | Phase::Unknown | Phase::NotStarted);
        if is_uncertain && rebuilds(outcome.step.kind) {
            forget_digests(&mut record);
            if phase == Phase::NotStarted && context.design.is_some() {
                record.revision = None;
            } else {
                know(&mut record, outcome.step.kind, context.revision);
            }
        }
    }
    if let Some(message) = &outcome.message {
        if let Some(step) = &outcome.clean_step {
            // No action on it without manual intervention (ironic-cleaning).
            record.clean_step = Some(step.clone());
            record.maintenance = Some(Arc::from(format!("`{step}` failed: {message}")));
        }
        return Some(record);
    }
    if rebuilds(outcome.step.kind) {
        record.clean_step = None;
        record.manageable = false;
    }
    let was_stopped = before.is_some_and(|before| {
        before.phase == Phase::Unknown && before.run == *context.run && !before.digests.is_empty()
    });
    if was_stopped && outcome.phase.is_none() {
        // The run was interrupted in a step on a machine that stays what it is, and has seen it through.
        record.phase = Phase::Deployed;
    }
    let record = of_success(record, outcome.step.kind, context)?;
    Some(
        match outcome.decided && outcome.step.kind == StepKind::Deploy {
            true => as_decided(record),
            false => record,
        },
    )
}

/// The record of a machine that an operator holds for built: no part of its design was compared.
pub(super) fn as_decided(mut record: NodeRecord) -> NodeRecord {
    record.known = Some(Known::Adopted(Box::new(Adopted {
        verified: Vec::new(),
        assumed: Section::ON_MACHINE.to_vec(),
        reason: Some(Arc::from(DECIDED_DONE)),
    })));
    record
}

/// The record of a node on which a step of a kind has succeeded; `None`: it is dropped.
fn of_success(
    mut record: NodeRecord,
    kind: StepKind,
    context: NodeInRun<'_>,
) -> Option<NodeRecord> {
    match kind {
        StepKind::Manage | StepKind::Clean => {
            record.clean_step = None;
            record.manageable = true;
        }
        StepKind::Provide => {
            record.clean_step = None;
            record.manageable = false;
        }
        StepKind::Destroy if context.leaves_cluster => {}
        StepKind::Destroy => {
            context.design?;
        }
        StepKind::RemoveFromCluster => {
            if context.is_gone || record.phase == Phase::NotStarted {
                context.design?;
            }
        }
        StepKind::Deploy => {
            if let Some(design) = context.design {
                let (revision, joins_after) = (context.revision, context.joins_after);
                build(&mut record, &design.digests, revision, joins_after);
            }
        }
        StepKind::Adopt => {
            take_digests(&mut record, context);
            let (verified, assumed) = Section::ON_MACHINE
                .into_iter()
                .partition(|section| context.verified.contains(section));
            record.known = Some(Known::Adopted(Box::new(Adopted {
                verified,
                assumed,
                reason: context.reason.cloned(),
            })));
        }
        StepKind::Prepare | StepKind::Record => take_digests(&mut record, context),
        StepKind::AwaitReady => {
            record.join = Some(Join::Joined);
            if !record.digests.is_empty() {
                record.phase = Phase::Deployed;
            }
        }
        StepKind::Relabel => relabelled(&mut record, context),
        StepKind::AcceptDifferences => accept(&mut record, context),
        StepKind::SetRetired => {
            let unsaid = || Arc::from("retired by the design");
            record.retired = Some(context.reason.cloned().unwrap_or_else(unsaid));
        }
        StepKind::UnsetRetired => record.retired = None,
        StepKind::SetMaintenance => {
            record.maintenance = Some(context.reason.cloned().unwrap_or_default());
        }
        StepKind::UnsetMaintenance => record.maintenance = None,
        StepKind::Forget => return None,
        StepKind::Remediate => record.remediation = None,
        StepKind::VerifySite
        | StepKind::PrepareSite
        | StepKind::StartGroup
        | StepKind::StartWave
        | StepKind::GatePrepared
        | StepKind::GateDeployed
        | StepKind::PowerOn
        | StepKind::PowerOff
        | StepKind::Lock
        | StepKind::Rename
        | StepKind::AcceptIdentity
        | StepKind::Drain
        | StepKind::Uncordon
        | StepKind::ClearLabels
        | StepKind::RemoveEtcd
        | StepKind::CheckEtcd
        | StepKind::ShutdownKubelet
        | StepKind::SetOutOfService
        | StepKind::UnsetOutOfService
        | StepKind::RestoreNode
        | StepKind::CriticalCheck
        | StepKind::Tag => {}
    }
    Some(record)
}

/// The record of a node while a step that rebuilds or tears it down is under way.
pub(super) fn under_way(
    before: Option<&NodeRecord>,
    node: &NodeName,
    step: &StepId,
    run: &RunId,
    revision: &Arc<str>,
) -> NodeRecord {
    let mut record = of_run(before, node, run);
    record.phase = Phase::Unknown;
    record.last_error = Some(Arc::from(format!("{step} had begun")));
    forget_digests(&mut record);
    know(&mut record, step.kind, revision);
    record
}

/// The record of a node of whose remediation something was noted.
pub(super) fn noted(
    before: Option<&NodeRecord>,
    node: &NodeName,
    text: &str,
    run: &RunId,
) -> NodeRecord {
    let mut record = of_run(before, node, run);
    let memory = record.remediation.take().unwrap_or_default();
    record.remediation = Some(Box::new(memory.with([text])));
    if is_back(text) {
        record.owed = None;
    }
    record
}

/// The record of a node of which a step noted what it takes off it, or that it has put that back.
pub(super) fn carried(
    before: Option<&NodeRecord>,
    node: &NodeName,
    text: &str,
    run: &RunId,
) -> NodeRecord {
    let mut record = of_run(before, node, run);
    let memory = Memory {
        backup: record.owed.take().map(|owed| *owed),
        ..Memory::default()
    };
    record.owed = memory.with([text]).backup.map(Box::new);
    if let Some(memory) = record.remediation.as_mut().filter(|_| is_back(text)) {
        memory.backup = None;
    }
    record
}

/// The record of a node that a run changes, as it was before.
fn of_run(before: Option<&NodeRecord>, node: &NodeName, run: &RunId) -> NodeRecord {
    let mut record = before
        .cloned()
        .unwrap_or_else(|| NodeRecord::blank(node.clone(), run.clone()));
    record.run = run.clone();
    record
}

/// Whether a note marks all labels and taints of a node as restored.
fn is_back(text: &str) -> bool {
    serde_json::from_str::<Note>(text).is_ok_and(|note| note == Note::Restored)
}

/// Whether what a step of this kind notes stands in the record of its node.
pub(super) fn is_recorded(kind: StepKind) -> bool {
    matches!(
        kind,
        StepKind::Remediate
            | StepKind::ClearLabels
            | StepKind::Uncordon
            | StepKind::Relabel
            | StepKind::AwaitReady
    )
}

/// Whether a step of this kind rebuilds or tears down its node.
pub(super) fn rebuilds(kind: StepKind) -> bool {
    matches!(
        kind,
        StepKind::Prepare | StepKind::Deploy | StepKind::Destroy
    )
}

/// Nothing is taken for done any more. The revision stays: by its design alone is a machine known that has
/// left the documents, and may have to be torn down once more.
fn forget_digests(record: &mut NodeRecord) {
    record.accepted = None;
    record.join = None;
    record.digests.clear();
    record.digest_version = DIGEST_VERSION;
}

/// A machine that was built on for the first time, and not to the end, is known by the design that it was to get.
fn know(record: &mut NodeRecord, kind: StepKind, revision: &Arc<str>) {
    if matches!(kind, StepKind::Prepare | StepKind::Deploy) && record.revision.is_none() {
        record.revision = Some(revision.clone());
    }
}

/// The machine is built by a design; `joins_after`: it is to join its clusters, from that time on.
pub(super) fn build(
    record: &mut NodeRecord,
    digests: &Digests,
    revision: &Arc<str>,
    joins_after: Option<i64>,
) {
    put_digests(record, digests, revision);
    record.join = joins_after.map(|since| Join::Awaited { since });
    record.known = Some(Known::Applied);
}

fn take_digests(record: &mut NodeRecord, context: NodeInRun<'_>) {
    if let Some(design) = context.design {
        put_digests(record, &design.digests, context.revision);
    }
}

fn put_digests(record: &mut NodeRecord, digests: &Digests, revision: &Arc<str>) {
    record.digests.clone_from(digests);
    record.digest_version = DIGEST_VERSION;
    record.revision = Some(revision.clone());
    record.accepted = None;
}

/// The sections on the machine stay as they were. In a plan of the whole site all others are as designed now.
fn accept(record: &mut NodeRecord, context: NodeInRun<'_>) {
    let Some((accepted, by)) = context.accepted else {
        return;
    };
    let known = record.accepted.take();
    let mut known = known.map_or_else(Vec::new, |known| known.differences);
    let differences = accepted.differences.iter().map(|acceptance| {
        let is_known = |each: &AcceptedDifference| each.acceptance == *acceptance;
        match known.iter().position(is_known) {
            Some(at) => known.swap_remove(at),
            None => AcceptedDifference {
                acceptance: acceptance.clone(),
                by: by.clone(),
                run: context.run.clone(),
            },
        }
    });
    record.accepted = Some(Box::new(Accepted {
        revision: accepted.revision.clone(),
        differences: differences.collect(),
    }));
    record.digests.clone_from(&accepted.digests);
    record.digest_version = DIGEST_VERSION;
    if context.change != Some(ChangeKind::Operation) {
        record.phase = Phase::Deployed;
        record.revision = Some(context.revision.clone());
    }
}

/// Labels are as designed now, and so is what is on no machine. What the machine is made of stays as it
/// was recorded: a redeploy may be blocked.
fn relabelled(record: &mut NodeRecord, context: NodeInRun<'_>) {
    let Some(design) = context.design else {
        return;
    };
    // Then nothing but labels differs, unless the rest is accepted.
    let is_accepted = record.accepted.is_some() || context.is_accepting;
    if context.change == Some(ChangeKind::Relabel) && !is_accepted {
        return take_digests(record, context);
    }
    // Digests of different versions do not belong into one record.
    if record.digest_version == DIGEST_VERSION && !record.digests.is_empty() {
        for (section, digest) in design.digests.iter() {
            if section.class() != Class::Redeploy {
                record.digests.insert(section, digest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::StepOutcome;
    use crate::step::clean_step_begins;

    fn outcome(kind: StepKind, failed: bool) -> NodeOutcome {
        let step = StepId {
            kind,
            group: None,
            node: Some(NodeName::from("n1")),
            wave: None,
        };
        let notes = [
            Arc::from(clean_step_begins("management.verify_properties")),
            Arc::from("a note of another author"),
            Arc::from(clean_step_begins("deploy.erase_devices")),
        ];
        let outcome = match failed {
            true => StepOutcome::Failed {
                message: Arc::from("the drive is dead"),
            },
            false => StepOutcome::Succeeded,
        };
        NodeOutcome::of(&step, &outcome, true, &notes).unwrap()
    }

    #[test]
    fn a_clean_step_that_fails_fences_the_machine_in_its_record_until_it_was_cleaned_or_skipped() {
        let (run, revision) = (RunId::from("R1"), Arc::from("r1"));
        let context = NodeInRun {
            run: &run,
            revision: &revision,
            design: None,
            change: None,
            reason: None,
            leaves_cluster: true,
            is_gone: false,
            identity: None,
            accepted: None,
            is_accepting: false,
            verified: &[],
            joins_after: None,
        };
        let failed = after(None, &outcome(StepKind::Destroy, true), context).unwrap();
        assert_eq!(failed.clean_step.as_deref(), Some("deploy.erase_devices"));
        assert_eq!(
            failed.maintenance.as_deref(),
            Some("`deploy.erase_devices` failed: the drive is dead")
        );
        assert_eq!(failed.phase, Phase::Failed);
        // A request without an answer is not fenced: it is probed, and may still be running.
        let step = outcome(StepKind::Destroy, true).step;
        let unknown = StepOutcome::Unknown {
            message: Arc::from("no answer"),
        };
        let note = [Arc::from(clean_step_begins("deploy.erase_devices"))];
        let unknown = NodeOutcome::of(&step, &unknown, true, &note).unwrap();
        assert_eq!(unknown.clean_step, None);
        for (kind, manageable) in [
            (StepKind::Clean, true),
            (StepKind::Provide, false),
            (StepKind::Destroy, false),
        ] {
            let record = after(Some(&failed), &outcome(kind, false), context).unwrap();
            assert_eq!(
                (record.clean_step, record.manageable),
                (None, manageable),
                "{kind}"
            );
        }
    }
}
