//! The steps of an action: those before its run, then one for each kind of step of its plan.
//!
//! A plan has a step for each node; Shipyard's steps are stages, of which a person reads a dozen. The steps of a kind are
//! one of these, and the log of it has a line for each event of any of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::journal::StepOutcome;
use crate::plan::Plan;
use crate::report::Visible;
use crate::run::{EventKind, RunEvent};
use crate::step::{StepId, StepKind};
use crate::workflow::{Failure, FailureKind};

/// The most lines of one log.
const MOST_LINES: usize = 20_000;

/// The step that takes the site.
pub(super) const CONCURRENCY: &str = "dag_concurrency_check";
/// The step that validates the documents.
pub(super) const VALIDATION: &str = "validate_site_design";
/// The step that observes and plans.
const PLANNING: &str = "plan";
/// The step that tags the revision.
const TAG: &str = "create_action_tag";

/// The state of a step, as Airflow calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    None,
    Running,
    Success,
    Failed,
    UpstreamFailed,
}

impl State {
    /// Its name; `None` if it was not scheduled yet.
    pub(super) const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Running => Some("running"),
            Self::Success => Some("success"),
            Self::Failed => Some("failed"),
            Self::UpstreamFailed => Some("upstream_failed"),
        }
    }
}

/// Whether the steps of a kind are shown: those that only open a group or a wave tell nothing.
fn is_shown(kind: StepKind) -> bool {
    !matches!(kind, StepKind::StartGroup | StepKind::StartWave)
}

/// One step.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) id: &'static str,
    pub(super) state: State,
    pub(super) started: Option<Arc<str>>,
    pub(super) ended: Option<Arc<str>>,
    pub(super) tries: u32,
    /// The first failures, as people read them.
    pub(super) failures: Vec<String>,
    kind: Option<StepKind>,
    lines: Vec<(u32, String)>,
    left_out: usize,
    expected: usize,
    /// The steps of the kind that have begun; `None`: and have not ended.
    ends: BTreeMap<StepId, Option<End>>,
    tally: Tally,
}

/// How a step of a kind ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Succeeded,
    Failed,
    Skipped,
}

/// How many steps of a kind ended how.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    open: usize,
    succeeded: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    fn of(&mut self, end: Option<End>) -> &mut usize {
        match end {
            None => &mut self.open,
            Some(End::Succeeded) => &mut self.succeeded,
            Some(End::Failed) => &mut self.failed,
            Some(End::Skipped) => &mut self.skipped,
        }
    }
}

impl Step {
    fn new(id: &'static str, kind: Option<StepKind>, state: State) -> Self {
        Self {
            id,
            state,
            started: None,
            ended: None,
            tries: 1,
            failures: Vec::new(),
            kind,
            lines: Vec::new(),
            left_out: 0,
            expected: 0,
            ends: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// Notes how far a step of the kind is; what an earlier process told of it does not count any more.
    fn note(&mut self, step: &StepId, end: Option<End>) {
        let before = self.ends.insert(step.clone(), end);
        let tally = &mut self.tally;
        if let Some(before) = before {
            let place = tally.of(before);
            *place = place.saturating_sub(1);
        }
        *tally.of(end) += 1;
    }

    fn line(&mut self, attempt: u32, text: String) {
        match self.lines.len() < MOST_LINES {
            true => self.lines.push((attempt, text)),
            false => self.left_out += 1,
        }
    }

    fn judge(&mut self) {
        let Tally {
            open,
            succeeded,
            failed,
            skipped,
        } = self.tally;
        let has_more = succeeded + failed + skipped < self.expected && self.started.is_some();
        self.state = match () {
            () if open > 0 || has_more => State::Running,
            () if failed > 0 => State::Failed,
            () if succeeded > 0 => State::Success,
            () if skipped > 0 => State::UpstreamFailed,
            () => self.state,
        };
    }

    /// The log of one attempt, or of all.
    pub(super) fn log(&self, attempt: Option<u32>) -> String {
        let mut text = String::new();
        for (of, line) in &self.lines {
            if attempt.is_none_or(|attempt| attempt == *of) {
                text.push_str(line);
                text.push('\n');
            }
        }
        if self.left_out > 0 {
            // Writing into a text does not fail.
            let _ = writeln!(text, "{} further lines are left out", self.left_out);
        }
        text
    }
}

/// The steps of an action.
#[derive(Clone, Debug, Default)]
pub(in crate::serve) struct Steps(Vec<Step>);

impl Steps {
    /// The steps of an action that has just begun.
    pub(in crate::serve) fn begun() -> Self {
        let before = [
            (CONCURRENCY, State::Running),
            (VALIDATION, State::None),
            (PLANNING, State::None),
        ];
        Self(before.map(|(id, state)| Step::new(id, None, state)).into())
    }

    /// The steps of a run, by its events.
    pub(super) fn of_events(events: &[u8]) -> Self {
        let mut steps = Self::begun();
        steps.before_run(&[State::Success; 3]);
        for line in events.split(|byte| *byte == b'\n') {
            // The beginnings of parts, and what a newer version writes, are no events.
            if let Ok(event) = serde_json::from_slice::<RunEvent>(line) {
                steps.on_event(&event);
            }
        }
        steps
    }

    fn before_run(&mut self, states: &[State; 3]) {
        for (step, state) in self.0.iter_mut().zip(states) {
            step.state = *state;
        }
    }

    /// Notes that no run began: why, or that none was needed.
    pub(in crate::serve) fn end_without_run(&mut self, failure: Option<&Failure>, now: &Arc<str>) {
        if self
            .0
            .iter()
            .any(|step| step.kind.is_some() && step.started.is_some())
        {
            return;
        }
        self.0.truncate(3);
        let Some(failure) = failure else {
            return self.before_run(&[State::Success; 3]);
        };
        let at = match failure.kind {
            FailureKind::Locked | FailureKind::Interrupted => 0,
            FailureKind::Error if failure.message.is_empty() => 1,
            _ => 2,
        };
        let state = |position: usize| match position.cmp(&at) {
            std::cmp::Ordering::Less => State::Success,
            std::cmp::Ordering::Equal => State::Failed,
            std::cmp::Ordering::Greater => State::UpstreamFailed,
        };
        self.before_run(&[state(0), state(1), state(2)]);
        let message = match failure.message.as_str() {
            "" => "the documents of the site have errors; `trueup validate` shows them",
            message => message,
        };
        let lines = std::iter::once(message.to_owned())
            .chain(failure.details.iter().cloned())
            .chain(failure.hints.iter().map(|hint| format!("hint: {hint}")));
        if let Some(step) = self.0.get_mut(at) {
            step.ended = Some(now.clone());
            for line in lines {
                let line = Visible(&line).to_string();
                step.line(1, format!("{now} {line}"));
                step.failures.push(line);
            }
        }
    }

    /// Notes the plan that is about to be carried out.
    pub(in crate::serve) fn expect(&mut self, plan: &Plan) {
        self.before_run(&[State::Success; 3]);
        for step in plan.steps.iter().filter(|step| is_shown(step.id.kind)) {
            self.of_kind(step.id.kind).expected += 1;
        }
    }

    /// Takes an event in.
    pub(in crate::serve) fn on_event(&mut self, event: &RunEvent) {
        let time = &event.time;
        match &event.kind {
            EventKind::StepStarted { kind, .. } | EventKind::StepFinished { kind, .. }
                if !is_shown(*kind) => {}
            EventKind::StepStarted {
                step,
                kind,
                attempt,
                ..
            } => {
                let stage = self.of_kind(*kind);
                stage.started.get_or_insert_with(|| time.clone());
                stage.ended = None;
                stage.tries = stage.tries.max(*attempt);
                stage.note(step, None);
                stage.line(*attempt, format!("{time} {step} has begun"));
                stage.judge();
            }
            EventKind::StepRetried { step, message, .. } => {
                let stage = self.of_kind(step.kind);
                let attempt = stage.tries;
                stage.line(
                    attempt,
                    format!("{time} {step} is retried: {}", Visible(message)),
                );
            }
            EventKind::StepProgress { step, message } => {
                let stage = self.of_kind(step.kind);
                let attempt = stage.tries;
                stage.line(attempt, format!("{time} {step}: {}", Visible(message)));
            }
            EventKind::StepFinished {
                step,
                kind,
                outcome,
                ..
            } => {
                let stage = self.of_kind(*kind);
                let (text, failure) = match outcome {
                    StepOutcome::Succeeded => ("succeeded".to_owned(), false),
                    StepOutcome::NotNeeded => ("was not needed".to_owned(), false),
                    StepOutcome::Failed { message } => (format!("failed: {message}"), true),
                    StepOutcome::Unknown { message } => {
                        (format!("has an unknown end: {message}"), true)
                    }
                    StepOutcome::Skipped { reason } => (format!("was skipped: {reason}"), false),
                };
                let end = match outcome {
                    StepOutcome::Succeeded | StepOutcome::NotNeeded => End::Succeeded,
                    StepOutcome::Failed { .. } | StepOutcome::Unknown { .. } => End::Failed,
                    StepOutcome::Skipped { .. } => End::Skipped,
                };
                stage.note(step, Some(end));
                stage.ended = Some(time.clone());
                let text = Visible(&text).to_string();
                if failure {
                    stage.failures.push(format!("{step} {text}"));
                }
                let attempt = stage.tries;
                stage.line(attempt, format!("{time} {step} {text}"));
                stage.judge();
            }
            EventKind::RunFinished { report } => self.tagged(report.tag.as_deref(), time),
            _ => {}
        }
    }

    /// Notes the tag of its run.
    pub(super) fn tagged(&mut self, tag: Option<&str>, time: &Arc<str>) {
        if tag.is_none() || self.0.iter().any(|step| step.id == TAG) {
            return;
        }
        let mut step = Step::new(TAG, None, State::Success);
        step.started = Some(time.clone());
        step.ended = Some(time.clone());
        step.line(1, format!("{time} {}", Visible(tag.unwrap_or_default())));
        self.0.push(step);
    }

    /// The same without their logs, for lists.
    pub(super) fn without_logs(mut self) -> Self {
        for step in &mut self.0 {
            step.lines = Vec::new();
            step.ends = BTreeMap::new();
            step.failures.truncate(2);
        }
        self
    }

    /// Notes that the run has ended: nothing of it runs any more.
    pub(super) fn close(&mut self) {
        for step in &mut self.0 {
            if step.state == State::Running {
                step.state = State::Failed;
            }
        }
    }

    /// The step of a kind.
    fn of_kind(&mut self, kind: StepKind) -> &mut Step {
        let at = self.0.iter().position(|step| step.kind == Some(kind));
        let at = at.unwrap_or_else(|| {
            self.0
                .push(Step::new(kind.as_str(), Some(kind), State::None));
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// All steps, in order.
    pub(super) fn all(&self) -> &[Step] {
        &self.0
    }

    /// A step by its id.
    pub(super) fn find(&self, id: &str) -> Option<(usize, &Step)> {
        self.0.iter().enumerate().find(|(_, step)| step.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind) -> RunEvent {
        RunEvent {
            time: "2027-01-15T12:00:00.000Z".into(),
            elapsed_ms: 7,
            remaining_ms: None,
            kind,
        }
    }

    fn started(step: &str, attempt: u32) -> RunEvent {
        let step: StepId = step.parse().unwrap();
        event(EventKind::StepStarted {
            kind: step.kind,
            node: step.node.clone(),
            step,
            attempt,
        })
    }

    fn finished(step: &str, outcome: StepOutcome) -> RunEvent {
        let step: StepId = step.parse().unwrap();
        event(EventKind::StepFinished {
            kind: step.kind,
            node: step.node.clone(),
            step,
            outcome,
            duration_ms: 1,
        })
    }

    fn states(steps: &Steps) -> Vec<(&'static str, Option<&'static str>)> {
        let all = steps.all().iter();
        all.map(|step| (step.id, step.state.as_str())).collect()
    }

    #[test]
    fn the_steps_of_a_kind_are_one_step_with_one_log() {
        let failed = StepOutcome::Failed {
            message: "no \u{1b}power".into(),
        };
        let mut steps = Steps::of_events(b"");
        for event in [
            started("prepare/g/a", 1),
            started("prepare/g/b", 1),
            finished("prepare/g/a", StepOutcome::Succeeded),
        ] {
            steps.on_event(&event);
        }
        assert_eq!(states(&steps)[3], ("prepare", Some("running")));
        steps.on_event(&started("prepare/g/b", 2));
        steps.on_event(&finished("prepare/g/b", failed));
        let skipped = StepOutcome::Skipped {
            reason: "halted".into(),
        };
        steps.on_event(&finished("deploy/g/b", skipped));
        assert_eq!(
            states(&steps)[3..],
            [
                ("prepare", Some("failed")),
                ("deploy", Some("upstream_failed"))
            ]
        );
        let (_, prepare) = steps.find("prepare").unwrap();
        assert_eq!(prepare.tries, 2);
        let log = prepare.log(None);
        assert!(
            log.contains("prepare/g/a succeeded\n") && !log.contains('\u{1b}'),
            "{log}"
        );
        assert!(!prepare.log(Some(1)).contains("failed"));
        assert!(prepare.log(Some(2)).contains("failed: no"));
    }

    #[test]
    fn an_action_without_a_run_fails_at_the_step_that_refused_it() {
        let now: Arc<str> = "2027-01-15T12:00:00.000Z".into();
        let failed = |failure: Failure| {
            let mut steps = Steps::begun();
            steps.end_without_run(Some(&failure), &now);
            let failed = steps.all().iter().find(|step| step.state == State::Failed);
            (states(&steps).len(), failed.unwrap().id)
        };
        let of = |kind| failed(Failure::new(kind, "why"));
        assert_eq!(of(FailureKind::Locked), (3, CONCURRENCY));
        assert_eq!(of(FailureKind::Interrupted), (3, CONCURRENCY));
        assert_eq!(of(FailureKind::Guard), (3, PLANNING));
        assert_eq!(
            failed(Failure::reported(FailureKind::Error)),
            (3, VALIDATION)
        );
    }
}
