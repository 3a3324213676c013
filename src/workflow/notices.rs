//! Notifications of a run: that it begins, that it needs a person, that it has ended.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Approving, Error, Failure, FailureKind, Planned};
use crate::apply::EventClock;
use crate::backend::notify::{
    FailedNode, LAST_WAIT, Moment, NodeCounts, Notification, Notifier, StopReason,
};
use crate::diagnostic::{chain, counted};
use crate::plan::{Plan, PlanEffect};
use crate::record::Outcome;
use crate::repository::CommitId;
use crate::run::{self, RunReport};
use crate::step::StepId;

/// A run that others are told of.
pub(super) struct Notices<'a> {
    notifier: Option<&'a Notifier>,
    plan: &'a Plan,
    commit: CommitId,
    run: &'a str,
    part: Option<&'a str>,
}

impl<'a> Notices<'a> {
    /// The notices of a run; without a notifier none is told.
    pub(super) fn of(
        notifier: Option<&'a Notifier>,
        plan: &'a Plan,
        commit: CommitId,
        run: &'a str,
    ) -> Self {
        Self {
            notifier,
            plan,
            commit,
            run,
            part: None,
        }
    }

    /// The notices of a part of a run.
    pub(super) fn of_part(self, part: &'a str) -> Self {
        Self {
            part: Some(part),
            ..self
        }
    }

    /// Tells that the run begins.
    pub(super) fn begins(&self, time: &Arc<str>, is_resumed: bool) {
        let verb = if is_resumed { "is resumed" } else { "begins" };
        let steps = counted(self.plan.steps.len(), "step", "steps");
        self.tell(Moment::Begin, time, |told| {
            told.resumed = is_resumed;
            told.summary = format!("{} {verb}: {steps}", self.subject());
        });
    }

    /// Tells that the run begins, which workers carry out: nothing of it is done in this process.
    pub(super) fn begins_for_workers(&self, seconds: i64) {
        self.begins(&time_of(seconds), false);
        for line in self.settle() {
            log::warn!("{line}");
        }
    }

    /// Tells how the run ended; `has_closed`: no maintenance window is open any more. What could not be delivered.
    pub(super) fn ended(
        &self,
        time: &Arc<str>,
        report: &RunReport,
        has_closed: bool,
    ) -> Vec<Arc<str>> {
        let reason = reason_of(report, has_closed);
        let moment = match reason {
            Some(_) => Moment::Stop,
            None => Moment::End,
        };
        self.tell(moment, time, |told| {
            let counts = report.counts;
            told.reason = reason;
            told.outcome = Some(report.outcome.to_string());
            told.nodes = Some(NodeCounts {
                succeeded: counts.succeeded,
                failed: counts.failed,
                half_done: counts.half_done,
                not_started: counts.not_started,
            });
            let unfinished = report.unfinished().map(|node| FailedNode {
                node: node.node.to_string(),
                step: node.step().map(str::to_owned),
                message: node.reason().map(str::to_owned),
            });
            told.unfinished = unfinished.collect();
            told.next = report.next.iter().map(ToString::to_string).collect();
            let how = reason.map_or("succeeded", StopReason::words);
            let (done, failed) = (counts.succeeded, counts.failed);
            told.summary = format!(
                "{} ended: {how}; {} succeeded, {failed} failed",
                self.subject(),
                counted(done, "node", "nodes")
            );
        });
        self.settle()
    }

    /// Tells that the run was aborted. Lines about what could not be delivered.
    pub(super) fn aborted(&self, seconds: i64) -> Vec<Arc<str>> {
        self.tell(Moment::End, &time_of(seconds), |told| {
            told.outcome = Some(Outcome::Abandoned.to_string());
            told.summary = format!("{} was aborted", self.subject());
        });
        self.settle()
    }

    /// Tells that the run could not continue.
    pub(super) fn broken(&self, clock: &dyn EventClock, error: &Error) {
        let reason = reason_of_error(error);
        self.tell(Moment::Stop, &clock.now(), |told| {
            told.reason = Some(reason);
            told.summary = format!("{} has stopped: {}", self.subject(), chain(error));
        });
        // There is no report of it.
        for line in self.settle() {
            log::warn!("{line}");
        }
    }

    /// Tells that a part of a divided run has ended so that a person has to act; `steps`: those that failed, and why.
    pub(super) fn part_stopped<'s>(
        &self,
        time: &Arc<str>,
        reason: StopReason,
        steps: impl Iterator<Item = &'s (StepId, Arc<str>)>,
    ) -> Vec<Arc<str>> {
        self.tell(Moment::Stop, time, |told| {
            told.reason = Some(reason);
            let unfinished = steps.map(|(step, why)| FailedNode {
                node: step
                    .node
                    .as_ref()
                    .map_or("", |node| node.as_str())
                    .to_owned(),
                step: Some(step.to_string()),
                message: Some(why.to_string()),
            });
            told.unfinished = unfinished.collect();
            told.summary = format!("{} ended: {}", self.subject(), reason.words());
        });
        self.settle()
    }

    fn subject(&self) -> String {
        let (run, site) = (self.run, &self.plan.site);
        let ticket = self.plan.options.ticket.as_ref();
        let ticket = ticket.map(|ticket| format!(" ({ticket})"));
        let ticket = ticket.unwrap_or_default();
        match self.part {
            Some(part) => format!("part {part} of run {run} of site {site}{ticket}"),
            None => format!("run {run} of site {site}{ticket}"),
        }
    }

    fn tell(&self, moment: Moment, time: &Arc<str>, fill: impl FnOnce(&mut Notification)) {
        let Some(notifier) = self.notifier else {
            return;
        };
        let mut told = about(self.plan, moment, time.clone(), self.commit);
        told.run = Some(self.run.to_owned());
        told.part = self.part.map(str::to_owned);
        fill(&mut told);
        notifier.tell(&told.bounded());
    }

    fn settle(&self) -> Vec<Arc<str>> {
        self.notifier
            .map_or_else(Vec::new, |notifier| notifier.settle(LAST_WAIT))
    }
}

/// A time, RFC 3339 in UTC.
fn time_of(seconds: i64) -> Arc<str> {
    let time = Timestamp::from_second(seconds).unwrap_or_default();
    Arc::from(time.to_string())
}

/// A message about a plan.
fn about(plan: &Plan, moment: Moment, time: Arc<str>, commit: CommitId) -> Notification {
    let mut told = Notification::new(plan.site.as_str(), moment, time);
    told.action = Some(plan.request.action.to_string());
    told.revision = Some(commit.to_string());
    told.ticket = plan.options.ticket.as_ref().map(ToString::to_string);
    told
}

/// Why a person has to act after the end of a run; `None`: the run needs no person.
fn reason_of(report: &RunReport, has_closed: bool) -> Option<StopReason> {
    match report.outcome {
        Outcome::Succeeded => None,
        _ if report.halted.is_some() => Some(StopReason::Halted),
        _ if !report.undecided.is_empty() => Some(StopReason::Undecided),
        Outcome::Interrupted | Outcome::Running if has_closed => Some(StopReason::WindowClosed),
        Outcome::Interrupted | Outcome::Running | Outcome::Abandoned => {
            Some(StopReason::Interrupted)
        }
        Outcome::Failed | Outcome::SucceededWithFailures => Some(StopReason::Failed),
    }
}

/// Why a run could not continue.
fn reason_of_error(error: &Error) -> StopReason {
    match error {
        Error::Run(run::Error::Fenced { .. }) => StopReason::TakenOver,
        _ => StopReason::Interrupted,
    }
}

/// Tells that a plan is not applied for want of approvals, if that is why.
pub(super) fn not_approved(
    planned: &Planned,
    approving: Approving<'_>,
    reviewed: &Plan,
    commit: CommitId,
    failure: &Failure,
) {
    let hardware = planned.hardware.as_ref();
    let Some(notifier) = hardware.and_then(|hardware| hardware.notifier()) else {
        return;
    };
    let shown = planned.gate.approvals(approving, reviewed);
    if failure.kind != FailureKind::Guard || !shown.is_ok_and(|shown| shown.is_missing_any()) {
        return;
    }
    let client = approving.client;
    let now = time_of(client.clock().seconds());
    let mut told = about(reviewed, Moment::Stop, now, commit);
    told.reason = Some(StopReason::ApprovalMissing);
    let effect = PlanEffect::of(reviewed).digest();
    told.summary = format!(
        "a plan of site {} with effect {effect} is not applied: {}",
        reviewed.site, failure.message
    );
    told.next = [&failure.details[..], &failure.hints].concat();
    notifier.tell(&told.bounded());
    for line in notifier.settle(LAST_WAIT) {
        client.tell(&format!("warning: {line}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::design::RunId;

    /// Why a person has to act after a run with such a report.
    fn reason(changes: Value, has_closed: bool) -> Option<&'static str> {
        let mut report = json!({
            "run": "01M7", "outcome": "succeeded", "groups": [], "nodes": [], "tag": null, "next": [], "duration_ms": 1,
            "counts": {"succeeded": 1, "failed": 0, "half_done": 0, "not_started": 0},
        });
        if let (Some(report), Value::Object(changes)) = (report.as_object_mut(), changes) {
            report.extend(changes);
        }
        let report: RunReport = serde_json::from_value(report).unwrap();
        reason_of(&report, has_closed).map(StopReason::words)
    }

    #[test]
    fn a_person_has_to_act_after_all_but_a_success() {
        assert_eq!(reason(json!({}), false), None);
        // A run that succeeded at the end of its window needs no person.
        assert_eq!(reason(json!({}), true), None);
        let interrupted = json!({"outcome": "interrupted"});
        for (changes, has_closed, expected) in [
            (interrupted.clone(), false, StopReason::Interrupted),
            (interrupted, true, StopReason::WindowClosed),
            (json!({"outcome": "failed"}), true, StopReason::Failed),
            (
                json!({"outcome": "succeeded-with-failures"}),
                false,
                StopReason::Failed,
            ),
            (
                json!({"outcome": "failed", "halted": "3 nodes failed"}),
                false,
                StopReason::Halted,
            ),
            (
                json!({"outcome": "interrupted", "undecided": [{"step": "deploy/a", "evidence": "lost"}]}),
                true,
                StopReason::Undecided,
            ),
        ] {
            let found = reason(changes.clone(), has_closed);
            assert_eq!(found, Some(expected.words()), "{changes}");
        }
    }

    #[test]
    fn a_lock_that_was_taken_over_is_told_as_that() {
        let run = RunId::from("01M7");
        let fenced = Error::from(run::Error::Fenced { run: run.clone() });
        assert_eq!(reason_of_error(&fenced), StopReason::TakenOver);
        let broken = Error::from(run::Error::Unrecorded {
            run,
            nodes: Vec::new(),
        });
        assert_eq!(reason_of_error(&broken), StopReason::Interrupted);
    }
}
