//! A run as spans: one a step, of the events that its listeners hear.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use opentelemetry::global::{BoxedSpan, BoxedTracer};
use opentelemetry::trace::{Span as _, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};

use crate::journal::StepOutcome;
use crate::record::Outcome;
use crate::run::{EventKind, RunEvent};
use crate::step::StepId;
use crate::telemetry::{clipped, tracer};

/// The spans of the steps of a run, below the span of this thread. Those that are open are as many as steps run at once.
pub(super) struct RunSpans {
    tracer: BoxedTracer,
    parent: Context,
    /// The attributes of every step.
    common: Vec<KeyValue>,
    open: BTreeMap<StepId, BoxedSpan>,
}

impl RunSpans {
    /// The spans of a run that begins; `None` if nothing is recorded.
    pub(super) fn begin() -> Option<Self> {
        let parent = Context::current();
        let is_recorded = parent.span().is_recording();
        is_recorded.then(|| Self {
            tracer: tracer(),
            parent,
            common: Vec::new(),
            open: BTreeMap::new(),
        })
    }

    /// Adds an attribute to the span of the run.
    pub(super) fn set(&self, key: &'static str, value: &str) {
        let attribute = KeyValue::new(key, value.to_owned());
        self.parent.span().set_attribute(attribute);
    }

    /// Takes an event in.
    pub(super) fn on_event(&mut self, event: &RunEvent) {
        let at = time(&event.time);
        match &event.kind {
            EventKind::RunStarted { .. } => self.run_started(&event.kind),
            EventKind::StepStarted { step, attempt, .. } => {
                let mut span = self.step(step, at);
                span.set_attribute(KeyValue::new("trueup.step.attempt", i64::from(*attempt)));
                self.open.insert(step.clone(), span);
            }
            EventKind::StepRetried {
                step,
                message,
                delay_ms,
            } => {
                if let Some(span) = self.open.get_mut(step) {
                    let delay = Duration::from_millis(*delay_ms).as_secs_f64();
                    let attributes = vec![
                        KeyValue::new("trueup.retry.reason", clipped(message)),
                        KeyValue::new("trueup.retry.delay_seconds", delay),
                    ];
                    span.add_event_with_timestamp("retry", at, attributes);
                }
            }
            EventKind::StepFinished { step, outcome, .. } => {
                // Steps that are skipped were not started.
                let span = self.open.remove(step);
                finish(span.unwrap_or_else(|| self.step(step, at)), outcome, at);
            }
            EventKind::GateEvaluated {
                group,
                stage,
                passed,
                ..
            } => {
                let attributes = vec![
                    KeyValue::new("trueup.group", group.as_str().to_owned()),
                    KeyValue::new("trueup.gate", stage.to_string()),
                    KeyValue::new("trueup.gate.passed", *passed),
                ];
                let span = self.parent.span();
                span.add_event_with_timestamp("gate", at, attributes);
            }
            EventKind::RunFinished { report } => {
                self.set("trueup.outcome", &report.outcome.to_string());
                if report.outcome != Outcome::Succeeded {
                    let text = format!("run {} ended: {}", report.run, report.outcome);
                    self.parent.span().set_status(Status::error(text));
                }
            }
            EventKind::StepProgress { .. }
            | EventKind::GroupStarted { .. }
            | EventKind::GroupFinished { .. }
            | EventKind::Checkpoint { .. }
            | EventKind::Stopping { .. }
            | EventKind::Warning { .. } => {}
        }
    }

    fn run_started(&mut self, kind: &EventKind) {
        let EventKind::RunStarted {
            run,
            site,
            action,
            revision,
            steps,
            resumed,
        } = kind
        else {
            return;
        };
        self.common = vec![
            KeyValue::new("trueup.site", site.as_str().to_owned()),
            KeyValue::new("trueup.run", run.as_str().to_owned()),
        ];
        let span = self.parent.span();
        span.set_attributes(self.common.iter().cloned());
        span.set_attribute(KeyValue::new("trueup.resumed", *resumed));
        let steps = i64::try_from(*steps).unwrap_or(i64::MAX);
        span.set_attribute(KeyValue::new("trueup.steps", steps));
        self.set("trueup.action", action);
        self.set("trueup.revision", revision);
    }

    /// Begins the span of a step.
    fn step(&self, step: &StepId, at: SystemTime) -> BoxedSpan {
        let kind = step.kind.as_str();
        let mut attributes = self.common.clone();
        attributes.push(KeyValue::new("trueup.step", step.to_string()));
        attributes.push(KeyValue::new("trueup.step.kind", kind));
        let group = step.group.as_ref();
        attributes.extend(group.map(|group| KeyValue::new("trueup.group", group.to_string())));
        let node = step.node.as_ref();
        attributes.extend(node.map(|node| KeyValue::new("trueup.node", node.to_string())));
        let span = self.tracer.span_builder(kind);
        span.with_start_time(at)
            .with_attributes(attributes)
            .start_with_context(&self.tracer, &self.parent)
    }
}

impl Drop for RunSpans {
    /// Steps that have not ended are those of a run that was interrupted.
    fn drop(&mut self) {
        for span in self.open.values_mut() {
            span.set_status(Status::error("the run was interrupted"));
            span.end();
        }
    }
}

/// Ends the span of a step.
fn finish(mut span: BoxedSpan, outcome: &StepOutcome, at: SystemTime) {
    span.set_attribute(KeyValue::new("trueup.outcome", outcome.as_str()));
    match outcome {
        StepOutcome::Failed { message } | StepOutcome::Unknown { message } => {
            let message = clipped(message);
            let attributes = vec![KeyValue::new("exception.message", message.clone())];
            span.add_event_with_timestamp("exception", at, attributes);
            span.set_status(Status::error(message));
        }
        StepOutcome::Skipped { reason } => {
            span.set_attribute(KeyValue::new("trueup.skipped.reason", clipped(reason)));
        }
        StepOutcome::Succeeded | StepOutcome::NotNeeded => {}
    }
    span.end_with_timestamp(at);
}

/// The time of an event.
fn time(text: &Arc<str>) -> SystemTime {
    let parsed = text.parse::<Timestamp>();
    parsed.map_or(SystemTime::UNIX_EPOCH, SystemTime::from)
}
