//! The metrics of a watcher, in the text format of Prometheus.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::backend::Watched;
use crate::journal::StepOutcome;
use crate::remediation::{Activity, AttemptProgress};
use crate::run::{EventKind, RunEvent};
use crate::serve::{Exposition, MetricKind};
use crate::step::StepKind;

/// The upper bounds of the histogram of durations, in seconds.
const BOUNDS: [u64; 8] = [60, 120, 300, 600, 1200, 1800, 3600, 7200];

/// Counts of a watcher since it began.
#[derive(Debug, Default)]
pub(in crate::cli) struct Metrics {
    leader: AtomicBool,
    machines: AtomicU64,
    hosts: AtomicU64,
    not_ready: AtomicU64,
    begun: AtomicU64,
    attempts: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    unknown: AtomicU64,
    rounds_failed: AtomicU64,
    troubles: AtomicU64,
    seconds: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len()],
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Metrics {
    pub(super) fn leads(&self, leads: bool) {
        self.leader.store(leads, Ordering::Relaxed);
    }

    /// How many names are known of a collection.
    pub(super) fn names(&self, watched: Watched, number: usize) {
        let gauge = match watched {
            Watched::Machines => &self.machines,
            Watched::Hosts => &self.hosts,
            Watched::Nodes => &self.not_ready,
        };
        gauge.store(number as u64, Ordering::Relaxed);
    }

    pub(super) fn request_failed(&self) {
        add(&self.troubles);
    }

    pub(super) fn failed_round(&self) {
        add(&self.rounds_failed);
    }

    /// Counts what happens in a run.
    pub(in crate::cli) fn on_event(&self, event: &RunEvent) {
        match &event.kind {
            EventKind::StepStarted {
                kind: StepKind::Remediate,
                attempt: 1,
                ..
            } => add(&self.begun),
            // Each attempt reports once that it fences the machine.
            EventKind::StepProgress { step, message } if step.kind == StepKind::Remediate => {
                let progress = message.parse::<AttemptProgress>();
                if progress.is_ok_and(|progress| progress.activity == Activity::Hold) {
                    add(&self.attempts);
                }
            }
            EventKind::StepFinished {
                kind: StepKind::Remediate,
                outcome,
                duration_ms,
                ..
            } => {
                match outcome {
                    StepOutcome::Succeeded => add(&self.succeeded),
                    StepOutcome::Failed { .. } => add(&self.failed),
                    StepOutcome::Unknown { .. } => add(&self.unknown),
                    StepOutcome::Skipped { .. } | StepOutcome::NotNeeded => return,
                }
                let seconds = duration_ms / 1000;
                self.seconds.fetch_add(seconds, Ordering::Relaxed);
                for (bound, bucket) in BOUNDS.iter().zip(&self.buckets) {
                    if seconds <= *bound {
                        add(bucket);
                    }
                }
            }
            _ => {}
        }
    }

    /// The text that Prometheus reads.
    pub(super) fn text(&self) -> String {
        let mut out = Exposition::default();
        let leader = u64::from(self.leader.load(Ordering::Relaxed));
        let help = "Whether this watcher is the active one.";
        gauge(&mut out, "leader", help, &[(None, leader)]);
        let help = "Machines with a request for remediation, and fenced hosts.";
        let kind = |name| Some(("kind", name));
        let asking = [
            (kind("machine"), get(&self.machines)),
            (kind("host"), get(&self.hosts)),
        ];
        gauge(&mut out, "asking", help, &asking);
        let help = "Nodes of the cluster that are not Ready.";
        gauge(
            &mut out,
            "nodes_not_ready",
            help,
            &[(None, get(&self.not_ready))],
        );
        self.write_counters(&mut out);
        let name = "remediation_duration_seconds";
        out.metric(name, MetricKind::Histogram, "How long remediations took.");
        let count = get(&self.succeeded) + get(&self.failed) + get(&self.unknown);
        let buckets = BOUNDS.into_iter().zip(self.buckets.iter().map(get));
        let sum = Duration::from_secs(get(&self.seconds)).as_secs_f64();
        out.histogram(name, &[], buckets, (sum, count));
        out.into_text()
    }

    fn write_counters(&self, out: &mut Exposition) {
        let outcome = |name| Some(("outcome", name));
        let ended = [
            (outcome("succeeded"), get(&self.succeeded)),
            (outcome("given_up"), get(&self.failed)),
            (outcome("unknown"), get(&self.unknown)),
        ];
        let one = |counter| [(None, get(counter))];
        for (name, help, values) in [
            (
                "remediations_begun_total",
                "Remediations that were begun or resumed.",
                &one(&self.begun)[..],
            ),
            (
                "remediation_attempts_total",
                "Attempts that fenced a machine.",
                &one(&self.attempts),
            ),
            (
                "remediations_total",
                "Remediations that ended, by how.",
                &ended,
            ),
            (
                "rounds_failed_total",
                "Rounds that ended with an error.",
                &one(&self.rounds_failed),
            ),
            (
                "api_troubles_total",
                "Times that a cluster could not be asked.",
                &one(&self.troubles),
            ),
        ] {
            write(out, MetricKind::Counter, (name, help), values);
        }
    }
}

/// A value with its label, if it has one.
type Value = (Option<(&'static str, &'static str)>, u64);

fn gauge(out: &mut Exposition, name: &str, help: &str, values: &[Value]) {
    write(out, MetricKind::Gauge, (name, help), values);
}

fn write(out: &mut Exposition, kind: MetricKind, (name, help): (&str, &str), values: &[Value]) {
    out.metric(name, kind, help);
    for (label, value) in values {
        out.value(name, label.as_slice(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::StepId;
    use std::sync::Arc;

    fn event(kind: impl FnOnce(StepId) -> EventKind) -> RunEvent {
        RunEvent {
            time: Arc::from(""),
            elapsed_ms: 0,
            remaining_ms: None,
            kind: kind(StepId {
                kind: StepKind::Remediate,
                group: None,
                node: Some(crate::design::NodeName::from("n1")),
                wave: None,
            }),
        }
    }

    fn progress(message: &str) -> RunEvent {
        let message = Arc::from(message);
        event(|step| EventKind::StepProgress { step, message })
    }

    fn finished(outcome: StepOutcome, seconds: u64) -> RunEvent {
        event(|step| EventKind::StepFinished {
            node: step.node.clone(),
            kind: step.kind,
            step,
            outcome,
            duration_ms: seconds * 1000,
        })
    }

    #[test]
    fn what_ended_is_counted_by_how_and_by_how_long_it_took() {
        let metrics = Metrics::default();
        metrics.leads(true);
        metrics.names(Watched::Machines, 3);
        metrics.names(Watched::Nodes, 2);
        metrics.on_event(&finished(StepOutcome::Succeeded, 100));
        metrics.on_event(&progress("attempt 1: fencing it (power off)"));
        metrics.on_event(&progress("attempt 1: waiting until it is off"));
        let message = Arc::from("not Ready");
        metrics.on_event(&finished(StepOutcome::Failed { message }, 700));
        let text = metrics.text();
        for line in [
            "trueup_leader 1",
            "trueup_asking{kind=\"machine\"} 3",
            "trueup_nodes_not_ready 2",
            "trueup_remediation_attempts_total 1",
            "trueup_remediations_total{outcome=\"succeeded\"} 1",
            "trueup_remediations_total{outcome=\"given_up\"} 1",
            "trueup_remediation_duration_seconds_bucket{le=\"60\"} 0",
            "trueup_remediation_duration_seconds_bucket{le=\"120\"} 1",
            "trueup_remediation_duration_seconds_bucket{le=\"1200\"} 2",
            "trueup_remediation_duration_seconds_bucket{le=\"+Inf\"} 2",
            "trueup_remediation_duration_seconds_sum 800",
        ] {
            assert!(text.lines().any(|each| each == line), "{line}:\n{text}");
        }
    }
}
