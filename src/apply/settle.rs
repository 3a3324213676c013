//! Reports and ends of runners: written to the journal, taken in, and reported.

use super::Error;
use super::dispatcher::{Dispatcher, Message, milliseconds};
use super::runner::{End, Report};
use crate::journal::{Entry, StepOutcome};
use crate::run::{EventKind, NodeOutcome};
use crate::step::StepKind;

impl Dispatcher<'_> {
    /// Takes in what a runner reports.
    pub(super) fn reported(&mut self, report: Report) -> Result<(), Error> {
        match report {
            Report::Retry {
                index,
                message,
                delay,
            } => self.emit(EventKind::StepRetried {
                step: self.plan.steps[index].id.clone(),
                message,
                delay_ms: milliseconds(delay),
            }),
            Report::Attempt { index, attempt } => self.say_started(index, attempt),
            Report::Progress { index, text } => self.emit(EventKind::StepProgress {
                step: self.plan.steps[index].id.clone(),
                message: text,
            }),
            Report::Note {
                index,
                text,
                durable,
            } => {
                self.work.log.append(&Entry::Note {
                    step: self.plan.steps[index].id.clone(),
                    text: text.clone(),
                })?;
                self.notes.entry(index).or_default().push(text.clone());
                self.messages.push(Message::Note(index, text, durable));
            }
        }
        Ok(())
    }

    /// Tells that an attempt of a step begins.
    pub(super) fn say_started(&mut self, index: usize, attempt: u32) {
        let step = &self.plan.steps[index].id;
        self.emit(EventKind::StepStarted {
            step: step.clone(),
            kind: step.kind,
            node: step.node.clone(),
            attempt,
        });
    }

    /// Takes in that a runner ended.
    pub(super) fn runner_ended(&mut self, index: usize, end: End) -> Result<(), Error> {
        let began = self.running.remove(&index);
        self.schedule.stopped(index);
        match end {
            End::Outcome(outcome, attempted) => {
                let duration = began.map_or(0, |began| milliseconds(began.elapsed()));
                self.settle(index, outcome, attempted, duration)
            }
            End::Undecided(evidence) => {
                let step = &self.plan.steps[index].id;
                let message = format!("`{step}` waits for a decision: {evidence}");
                self.undecided.insert(index, evidence);
                self.emit(EventKind::Warning {
                    message: message.into(),
                });
                Ok(())
            }
            End::Stopped => {
                self.schedule.begun[index] = true;
                Ok(())
            }
            End::LeaseUnconfirmed => {
                // It is probed first once the lease is confirmed again; if that is lost, the run stops.
                self.schedule.begun[index] = true;
                self.schedule.only_possibly_begun[index] = false;
                self.schedule.enqueue(index);
                let step = &self.plan.steps[index].id;
                let message = format!(
                    "`{step}` is cancelled before its next request: the lock of the site could not be confirmed in time"
                );
                self.emit(EventKind::Warning {
                    message: message.into(),
                });
                Ok(())
            }
        }
    }

    /// Persists how a step ended, takes it in, and reports it.
    pub(super) fn settle(
        &mut self,
        index: usize,
        outcome: StepOutcome,
        attempted: bool,
        duration_ms: u64,
    ) -> Result<(), Error> {
        let step = &self.plan.steps[index];
        self.work.log.append(&Entry::Ended {
            step: step.id.clone(),
            outcome: outcome.clone(),
            attempted,
            duration_ms,
        })?;
        self.schedule
            .take_in(index, &outcome, attempted, duration_ms);
        if let StepOutcome::Failed { message } | StepOutcome::Unknown { message } = &outcome
            && self.schedule.is_tolerated(index)
        {
            let message = format!(
                "`{}` failed, and is ignored, since the machine is torn down anyway: {message}",
                step.id
            );
            self.emit(EventKind::Warning {
                message: message.into(),
            });
        }
        let notes = self.notes.get(&index).map_or(&[][..], |notes| notes);
        let nodes = NodeOutcome::each(step, &outcome, attempted, notes);
        self.messages.extend(nodes.map(Message::Node));
        self.emit(EventKind::StepFinished {
            step: step.id.clone(),
            kind: step.id.kind,
            node: step.id.node.clone(),
            outcome,
            duration_ms,
        });
        if step.id.kind == StepKind::GateDeployed
            && let Some(group) = self.schedule.group_of(index)
        {
            let result = self.schedule.tally.result(group);
            self.emit(EventKind::GroupFinished { result });
        }
        Ok(())
    }
}
