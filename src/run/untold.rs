//! The steps of which the journal of a run tells and its checkpoints do not: a process that was killed put its last entries
//! into none. Those who read the records alone hear of them from the process that resumes or aborts the run.

use rustc_hash::FxHashSet;

use super::event::{EventKind, RunEvent};
use super::known::entries_of_events;
use super::time::rfc3339;
use super::view::View;
use crate::journal::Entry;
use crate::record::RunRecord;
use crate::step::StepId;

/// The fate of a run whose steps are told late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It is resumed: its open steps begin once more.
    Resumed,
    /// It has ended: its open steps stay so.
    Ended,
}

/// The events of the known steps of a run that its events do not tell, as events of now, in seconds since 1970.
pub(super) fn untold(
    (entries, told): (&[Entry], &[u8]),
    run: &RunRecord,
    then: Then,
    now: i64,
) -> Vec<RunEvent> {
    let told = entries_of_events(told);
    let (told, known) = (View::of(&told), View::of(entries));
    let mut begun: FxHashSet<&StepId> = told.begun().collect();
    let mut ended = FxHashSet::default();
    let mut kinds = Vec::new();
    let started = |step: &StepId| EventKind::StepStarted {
        step: step.clone(),
        kind: step.kind,
        node: step.node.clone(),
        attempt: 1,
    };
    for entry in entries {
        match entry {
            Entry::Opened { .. } | Entry::Note { .. } => {}
            Entry::Intent { step } => {
                let stays_open = then == Then::Ended && !known.has_ended(step);
                if stays_open && !told.has_ended(step) && begun.insert(step) {
                    kinds.push(started(step));
                }
            }
            Entry::Ended {
                step,
                outcome,
                attempted,
                duration_ms,
            } => {
                if told.has_ended(step) || !ended.insert(step) {
                    continue;
                }
                if *attempted && begun.insert(step) {
                    kinds.push(started(step));
                }
                kinds.push(EventKind::StepFinished {
                    step: step.clone(),
                    kind: step.kind,
                    node: step.node.clone(),
                    outcome: outcome.clone(),
                    duration_ms: *duration_ms,
                });
            }
        }
    }
    let began = run.started.parse::<jiff::Timestamp>();
    let seconds = began.map_or(0, |began| now.saturating_sub(began.as_second()));
    let elapsed_ms = u64::try_from(seconds).unwrap_or_default() * 1000;
    let event = |kind| RunEvent {
        time: rfc3339(now).into(),
        elapsed_ms,
        remaining_ms: None,
        kind,
    };
    kinds.into_iter().map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::StepOutcome;
    use crate::record::Outcome;

    #[test]
    fn late_events_make_the_known_steps_whole_and_are_told_once() {
        let run = crate::run::tag::tests::run(Outcome::Running, "site", false);
        let step = |text: &str| text.parse::<StepId>().unwrap();
        let intent = |text| Entry::Intent { step: step(text) };
        let ended = |text, attempted| Entry::Ended {
            step: step(text),
            outcome: StepOutcome::Succeeded,
            attempted,
            duration_ms: 7,
        };
        let lines = |events: &[RunEvent]| -> Vec<u8> {
            let lines = events
                .iter()
                .map(|event| serde_json::to_string(event).unwrap());
            lines.map(|line| line + "\n").collect::<String>().into()
        };
        let entries = [
            intent("destroy/g/a"),
            ended("destroy/g/a", true),
            ended("gate-prepared/g", false),
            intent("deploy/g/a"),
        ];
        let first = untold((&entries[..1], b""), &run, Then::Ended, 0);
        assert_eq!(entries_of_events(&lines(&first)), &entries[..1]);
        for (then, whole) in [(Then::Resumed, &entries[..3]), (Then::Ended, &entries[..])] {
            let late = untold((&entries, &lines(&first)), &run, then, 0);
            let told = lines(&[&first[..], &late].concat());
            assert_eq!(entries_of_events(&told), whole, "{then:?}");
            assert_eq!(untold((&entries, &told), &run, then, 0), [], "{then:?}");
        }
    }
}
