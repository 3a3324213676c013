//! The effect of a step that ended on the record of its node.
//!
//! A record holds certain facts. After a success it has the digests of the design that was applied;
//! after a failure, and while a step is under way, it has none, so that nothing is taken for done; which
//! revision was applied last it holds all the same.

use std::sync::Arc;

use super::outcome::NodeOutcome;
use crate::design::{DIGEST_VERSION, NodeName, RunId};
use crate::record::{NodeRecord, Phase};
use crate::remediation::{Memory, Note};

use crate::step::{RecordContext, StepId, StepKind};

/// The record after a step; `None`: the node is forgotten.
pub(super) fn after(
    before: Option<&NodeRecord>,
    outcome: &NodeOutcome,
    context: &RecordContext<'_>,
) -> Option<NodeRecord> {
    if outcome.step.kind == StepKind::Soak {
        // Nothing is done to the machine.
        let facts = outcome.step.kind.facts();
        return before.and_then(|before| (facts.record)(before.clone(), context));
    }
    let mut record = before
        .cloned()
        .unwrap_or_else(|| NodeRecord::blank(outcome.node.clone(), context.run.clone()));
    // The doubt of an earlier run stays its own, whatever is refused since.
    let is_in_doubt = matches!(record.phase, Phase::Failed | Phase::Unknown);
    let changes_nothing = outcome.message.is_some() && outcome.phase.is_none();
    if !(before.is_some() && is_in_doubt && changes_nothing) {
        record.run = context.run.clone();
        record.last_error.clone_from(&outcome.message);
    }
    mark_soak(&mut record, outcome, context);
    mark_cordon(&mut record, outcome, context);
    let adopted = || context.identity.filter(|_| outcome.message.is_none());
    if let Some(identity) = outcome.identity.as_deref().or_else(adopted) {
        record.identity = Some(Box::new(identity.clone()));
    }
    if let Some(phase) = outcome.phase {
        // A machine that was torn down stays torn down, whatever becomes of its node in the cluster, until it is built
        // again or taken as it is.
        let is_gone = record.phase == Phase::NotStarted && before.is_some();
        if outcome.step.kind.rebuilds() || phase == Phase::Deployed || !is_gone {
            record.phase = phase;
        }
        let is_uncertain = matches!(phase, Phase::Failed | Phase::Unknown | Phase::NotStarted);
        if is_uncertain && outcome.step.kind.rebuilds() {
            forget_digests(&mut record);
            if phase == Phase::NotStarted && context.design.is_some() {
                record.revision = None;
            } else {
                know(&mut record, outcome.step.kind, context.revision);
            }
        }
    }
    mark_torn_down(&mut record, before, context.run);
    mark_kept(&mut record, outcome, context);
    if let Some(message) = &outcome.message {
        if let Some(step) = &outcome.clean_step {
            // No action on it without manual intervention (ironic-cleaning).
            record.clean_step = Some(step.clone());
            record.maintenance = Some(Arc::from(format!("`{step}` failed: {message}")));
        }
        return Some(record);
    }
    if outcome.step.kind.rebuilds() {
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
    (outcome.step.kind.facts().record)(record, context)
}

/// From when a machine of a wave is back its soak is owed; one that is torn down owes none.
fn mark_soak(record: &mut NodeRecord, outcome: &NodeOutcome, context: &RecordContext<'_>) {
    if outcome.message.is_some() {
        return;
    }
    match outcome.step.kind {
        StepKind::Deploy | StepKind::Service => {
            record.soaking = context.soaks.then(|| context.run.clone());
        }
        StepKind::Destroy => record.soaking = None,
        _ => {}
    }
}

/// A machine that carried a system, or may have, is missed from its teardown on until it is built again.
fn mark_torn_down(record: &mut NodeRecord, before: Option<&NodeRecord>, run: &RunId) {
    match record.phase {
        Phase::Deployed => record.torn_down = None,
        Phase::NotStarted => {
            let had_system = before.is_some_and(|before| match before.phase {
                Phase::Deployed | Phase::Failed | Phase::Unknown => true,
                Phase::NotStarted | Phase::Prepared => false,
            });
            if had_system {
                record.torn_down = Some(run.clone());
            }
        }
        Phase::Prepared | Phase::Failed | Phase::Unknown => {}
    }
}

/// Disks that a teardown kept are kept until its machine is built again.
fn mark_kept(record: &mut NodeRecord, outcome: &NodeOutcome, context: &RecordContext<'_>) {
    if outcome.step.kind == StepKind::Destroy && outcome.phase.is_some() {
        record.kept_disks = context.keeps_disks;
    }
    record.kept_disks &= record.phase != Phase::Deployed;
}

/// The record tells a cordon that a service lifts from one that stays: a drain sets it, an uncordon or the end of its node
/// takes it away.
fn mark_cordon(record: &mut NodeRecord, outcome: &NodeOutcome, context: &RecordContext<'_>) {
    let succeeded = outcome.message.is_none();
    let kind = outcome.step.kind;
    // One that failed may have cordoned its node, unless nothing was attempted.
    if kind == StepKind::Drain && (succeeded || outcome.phase.is_some()) {
        record.cordoned = context.lifts_cordon.then(|| context.run.clone());
    } else if succeeded && matches!(kind, StepKind::Uncordon | StepKind::RemoveFromCluster) {
        record.cordoned = None;
    }
}

/// The record of a node while a step that rebuilds or tears it down is under way; `keeps_disks`: but for those of the system
/// that a teardown erases.
pub(super) fn under_way(
    before: Option<&NodeRecord>,
    node: &NodeName,
    (step, keeps_disks): (&StepId, bool),
    run: &RunId,
    revision: &Arc<str>,
) -> NodeRecord {
    let mut record = of_run(before, node, run);
    if step.kind == StepKind::Destroy {
        record.kept_disks = keeps_disks;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::NOT_BEGUN;
    use crate::design::{Digests, Section, SectionDigest};
    use crate::journal::StepOutcome;
    use crate::record::{Accepted, Join, Known};
    use crate::step::{DECIDED_DONE, clean_step_begins};

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

    fn digests(byte: u8) -> Digests {
        let all = Section::ALL.map(|section| (section, SectionDigest([byte; 32])));
        all.into_iter().collect()
    }

    fn context<'a>(run: &'a RunId, revision: &'a Arc<str>) -> RecordContext<'a> {
        RecordContext {
            run,
            revision,
            design: None,
            only_relabels: false,
            is_operation: true,
            reason: None,
            leaves_cluster: true,
            is_gone: false,
            identity: None,
            accepted: None,
            is_accepting: false,
            verified: &[],
            open: &[],
            settings: &[],
            joins_after: None,
            keeps_disks: false,
            lifts_cordon: false,
            soaks: false,
            decided: false,
        }
    }

    #[test]
    fn a_clean_step_that_fails_fences_the_machine_in_its_record_until_it_was_cleaned_or_skipped() {
        let (run, revision) = (RunId::from("R1"), Arc::from("r1"));
        let context = &context(&run, &revision);
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

    #[test]
    fn a_deploy_that_an_operator_decided_done_is_assumed_and_not_known_as_applied() {
        let (run, revision) = (RunId::from("R1"), Arc::from("r1"));
        let digests = digests(1);
        let known = |decided| {
            let context = &RecordContext {
                design: Some(&digests),
                is_operation: false,
                decided,
                ..context(&run, &revision)
            };
            let record = after(None, &outcome(StepKind::Deploy, false), context).unwrap();
            assert_eq!(record.phase, Phase::Deployed);
            record.known
        };
        assert_eq!(known(false), Some(Known::Applied));
        let Some(Known::Adopted(adopted)) = known(true) else {
            panic!("a deploy that nothing proves is recorded as applied");
        };
        assert_eq!(adopted.verified, []);
        assert_eq!(adopted.assumed, Section::ON_MACHINE);
        assert_eq!(adopted.reason.as_deref(), Some(DECIDED_DONE));
    }

    #[test]
    fn the_last_decision_of_an_operator_about_a_step_counts() {
        let step = outcome(StepKind::Deploy, false).step;
        let table: &[(&[&str], bool)] = &[
            (&[], false),
            (&["a note of another author"], false),
            (&[DECIDED_DONE], true),
            (&[NOT_BEGUN, DECIDED_DONE], true),
            (&[DECIDED_DONE, NOT_BEGUN], false),
        ];
        for (notes, expected) in table {
            let notes: Vec<Arc<str>> = notes.iter().map(|note| Arc::from(*note)).collect();
            let found = NodeOutcome::of(&step, &StepOutcome::Succeeded, true, &notes).unwrap();
            assert_eq!(found.decided, *expected, "{notes:?}");
        }
    }

    /// The record that an earlier run left.
    fn left(phase: Phase, run: &str, digests: Digests) -> NodeRecord {
        NodeRecord {
            phase,
            digests,
            ..NodeRecord::blank(NodeName::from("n1"), RunId::from(run))
        }
    }

    #[test]
    fn a_node_that_is_ready_makes_no_half_built_machine_deployed() {
        let (run, revision) = (RunId::from("R1"), Arc::from("r1"));
        let awaited = |digests| {
            let before = left(Phase::Failed, "R0", digests);
            let joined = outcome(StepKind::AwaitReady, false);
            after(Some(&before), &joined, &context(&run, &revision)).unwrap()
        };
        let half_built = awaited(Digests::default());
        assert_eq!(half_built.phase, Phase::Failed);
        assert_eq!(half_built.join, Some(Join::Joined));
        assert_eq!(awaited(digests(1)).phase, Phase::Deployed);
    }

    #[test]
    fn a_doubt_of_another_run_stays_whatever_else_succeeds_on_the_machine() {
        let (run, revision) = (RunId::from("R1"), Arc::from("r1"));
        let relabelled = |of: &str, digests| {
            let before = left(Phase::Unknown, of, digests);
            let done = outcome(StepKind::Relabel, false);
            let record = after(Some(&before), &done, &context(&run, &revision));
            record.unwrap().phase
        };
        assert_eq!(relabelled("R1", digests(1)), Phase::Deployed);
        assert_eq!(relabelled("R0", digests(1)), Phase::Unknown);
        assert_eq!(relabelled("R1", Digests::default()), Phase::Unknown);
    }

    #[test]
    fn what_is_refused_on_a_machine_in_doubt_leaves_who_left_it_so() {
        let (run, revision) = (RunId::from("R1"), Arc::from("r1"));
        let refused = outcome(StepKind::Relabel, true);
        for (phase, by) in [
            (Phase::Unknown, "R0"),
            (Phase::Failed, "R0"),
            (Phase::Deployed, "R1"),
        ] {
            let before = NodeRecord {
                last_error: Some(Arc::from("destroy/n1 had begun")),
                ..left(phase, "R0", digests(1))
            };
            let record = after(Some(&before), &refused, &context(&run, &revision)).unwrap();
            assert_eq!(record.run, RunId::from(by), "{phase:?}");
            let is_told = record.last_error.as_deref() == Some("the drive is dead");
            assert_eq!(is_told, by == "R1", "{phase:?}");
        }
    }

    #[test]
    fn a_machine_that_was_torn_down_stays_so_whatever_becomes_of_its_node() {
        let (run, revision) = (RunId::from("R1"), Arc::from("r1"));
        let failed = outcome(StepKind::RemoveFromCluster, true);
        assert_eq!(failed.phase, Some(Phase::Failed));
        for (before, expected) in [
            (Phase::NotStarted, Phase::NotStarted),
            (Phase::Deployed, Phase::Failed),
        ] {
            let before = left(before, "R0", digests(1));
            let record = after(Some(&before), &failed, &context(&run, &revision)).unwrap();
            assert_eq!(record.phase, expected);
        }
    }

    #[test]
    fn a_machine_that_carried_a_system_is_marked_from_its_teardown_until_it_is_built() {
        let (run, revision) = (RunId::from("R1"), Arc::from("r1"));
        let design = digests(1);
        let context = RecordContext {
            design: Some(&design),
            ..context(&run, &revision)
        };
        let then = |before: &NodeRecord, kind, fails| {
            after(Some(before), &outcome(kind, fails), &context).unwrap()
        };
        let deployed = left(Phase::Deployed, "R0", digests(1));
        let torn_down = then(&deployed, StepKind::Destroy, false);
        assert_eq!(torn_down.torn_down, Some(run.clone()));
        let prepared = then(&torn_down, StepKind::Prepare, false);
        assert_eq!(prepared.phase, Phase::Prepared);
        assert!(prepared.is_torn_down());
        assert!(then(&prepared, StepKind::Deploy, true).is_torn_down());
        let built = then(&prepared, StepKind::Deploy, false);
        assert_eq!((built.phase, built.torn_down), (Phase::Deployed, None));
        // Nothing is missed that was never there.
        let new = left(Phase::NotStarted, "R0", Digests::default());
        assert!(!then(&new, StepKind::Destroy, false).is_torn_down());
    }

    #[test]
    fn a_relabel_leaves_what_differs_and_was_accepted_as_it_is_recorded() {
        let (run, revision) = (RunId::from("R2"), Arc::from("r2"));
        let (old, new) = (SectionDigest([1; 32]), SectionDigest([2; 32]));
        let design = digests(2);
        let relabelled = |accepted: Option<Box<Accepted>>| {
            let before = NodeRecord {
                accepted,
                ..left(Phase::Deployed, "R1", digests(1))
            };
            let context = RecordContext {
                design: Some(&design),
                only_relabels: true,
                ..context(&run, &revision)
            };
            after(Some(&before), &outcome(StepKind::Relabel, false), &context).unwrap()
        };
        let accepted = Box::new(Accepted {
            revision: Arc::from("r1"),
            differences: Vec::new(),
        });
        let record = relabelled(Some(accepted));
        assert!(record.accepted.is_some());
        assert_eq!(record.digests.get(&Section::Storage), Some(&old));
        assert_eq!(record.digests.get(&Section::Labels), Some(&new));
        let record = relabelled(None);
        assert_eq!(record.digests.get(&Section::Storage), Some(&new));
    }

    #[test]
    fn a_deploy_does_not_claim_the_firmware_of_the_design() {
        let (run, revision) = (RunId::from("R2"), Arc::from("r2"));
        let (old, new) = (SectionDigest([1; 32]), SectionDigest([2; 32]));
        let design = digests(2);
        let deployed = |before: Option<&NodeRecord>| {
            let context = RecordContext {
                design: Some(&design),
                ..context(&run, &revision)
            };
            after(before, &outcome(StepKind::Deploy, false), &context).unwrap()
        };
        let before = left(Phase::Deployed, "R1", digests(1));
        for (before, firmware) in [(None, None), (Some(&before), Some(&old))] {
            let record = deployed(before);
            assert_eq!(record.digests.get(&Section::Storage), Some(&new));
            assert_eq!(record.digests.get(&Section::Firmware), firmware);
            assert_eq!(record.digests.get(&Section::Raid), firmware);
        }
        // Volumes that it made are as designed, unless only its operator says that it is done.
        let made = crate::design::HardwareSetting {
            name: crate::design::VOLUMES.into(),
            before: None,
            value: "RAID1 of 2 drives".into(),
        };
        for (decided, raid) in [(false, Some(&new)), (true, Some(&old))] {
            let context = RecordContext {
                design: Some(&design),
                settings: std::slice::from_ref(&made),
                decided,
                ..context(&run, &revision)
            };
            let outcome = outcome(StepKind::Deploy, false);
            let record = after(Some(&before), &outcome, &context).unwrap();
            assert_eq!(record.digests.get(&Section::Raid), raid, "{decided}");
            assert_eq!(record.digests.get(&Section::Firmware), Some(&old));
        }
    }
}
