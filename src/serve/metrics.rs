//! The metrics of a service.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::exposition::{Exposition, MetricKind};
use super::host::Host;
use super::own::SiteCache;
use crate::journal::StepOutcome;
use crate::plan::Action;
use crate::record::Phase;
use crate::repository::Holder;
use crate::run::{EventKind, RunEvent};
use crate::threads;
use crate::workflow::Failure;

/// The upper bounds of the durations of steps, in seconds.
const BOUNDS: [u64; 10] = [1, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200];

/// The states of nodes.
const PHASES: [Phase; 5] = [
    Phase::NotStarted,
    Phase::Prepared,
    Phase::Deployed,
    Phase::Failed,
    Phase::Unknown,
];

#[derive(Default)]
struct Durations {
    buckets: [u64; BOUNDS.len()],
    sum_ms: u64,
    count: u64,
}

#[derive(Default)]
struct Counts {
    durations: BTreeMap<&'static str, Durations>,
    outcomes: BTreeMap<(&'static str, &'static str), u64>,
    actions: BTreeMap<(&'static str, u16), u64>,
}

/// Counts of a service since it began.
#[derive(Default)]
pub(super) struct Metrics {
    counts: Mutex<Counts>,
}

impl Metrics {
    /// Counts what happens in a run.
    pub(super) fn on_event(&self, event: &RunEvent) {
        let EventKind::StepFinished {
            kind,
            outcome,
            duration_ms,
            ..
        } = &event.kind
        else {
            return;
        };
        if *outcome == StepOutcome::NotNeeded {
            return;
        }
        let mut counts = threads::lock(&self.counts);
        let key = (kind.as_str(), outcome.as_str());
        *counts.outcomes.entry(key).or_default() += 1;
        if matches!(outcome, StepOutcome::Skipped { .. }) {
            return;
        }
        let durations = counts.durations.entry(kind.as_str()).or_default();
        let seconds = duration_ms / 1000;
        durations.sum_ms += duration_ms;
        durations.count += 1;
        for (bound, bucket) in BOUNDS.iter().zip(&mut durations.buckets) {
            *bucket += u64::from(seconds <= *bound);
        }
    }

    /// Counts an action that has ended.
    pub(super) fn action_ended(&self, action: Action, code: u16) {
        let mut counts = threads::lock(&self.counts);
        *counts.actions.entry((action.as_str(), code)).or_default() += 1;
    }

    /// The text that Prometheus reads.
    pub(super) fn text(
        &self,
        host: &dyn Host,
        site: &SiteCache,
        at_remote: Option<Holder>,
    ) -> String {
        let mut out = Exposition::default();
        self.write_counts(&mut out);
        let written = write_site(&mut out, host, site, at_remote);
        if let Err(failure) = &written {
            log::warn!("the state of the site was not counted: {failure}");
        }
        out.metric(
            "site_readable",
            MetricKind::Gauge,
            "Whether the state of the site could be read.",
        );
        out.value("site_readable", &[], u8::from(written.is_ok()));
        out.into_text()
    }

    fn write_counts(&self, out: &mut Exposition) {
        let counts = threads::lock(&self.counts);
        let name = "step_duration_seconds";
        out.metric(
            name,
            MetricKind::Histogram,
            "How long steps took, by their kind.",
        );
        for (kind, durations) in &counts.durations {
            let buckets = BOUNDS.into_iter().zip(durations.buckets);
            let sum = Duration::from_millis(durations.sum_ms).as_secs_f64();
            out.histogram(name, &[("kind", kind)], buckets, (sum, durations.count));
        }
        out.metric(
            "steps_total",
            MetricKind::Counter,
            "Steps that ended, by kind and outcome.",
        );
        for ((kind, outcome), count) in &counts.outcomes {
            out.value(
                "steps_total",
                &[("kind", kind), ("outcome", outcome)],
                count,
            );
        }
        out.metric(
            "actions_total",
            MetricKind::Counter,
            "Actions that ended, by their codes.",
        );
        for ((action, code), count) in &counts.actions {
            let code = code.to_string();
            out.value(
                "actions_total",
                &[("action", action), ("code", &code)],
                count,
            );
        }
    }
}

fn write_site(
    out: &mut Exposition,
    host: &dyn Host,
    cache: &SiteCache,
    at_remote: Option<Holder>,
) -> Result<(), Failure> {
    let repository = host.repository()?;
    let checkout = host.checkout(&repository)?;
    let site = checkout.location.site.clone();
    let here = repository.read_lock(site.as_str())?;
    let holder = at_remote.or_else(|| here.map(|lock| lock.holder));
    let since = holder.and_then(|holder| holder.since.parse::<jiff::Timestamp>().ok());
    let since = since.and_then(|since| u64::try_from(since.as_second()).ok());
    out.metric(
        "lock_held",
        MetricKind::Gauge,
        "Whether a run holds the lock of the site.",
    );
    out.value("lock_held", &[], u8::from(since.is_some()));
    out.metric(
        "lock_age_seconds",
        MetricKind::Gauge,
        "How long the lock has been held.",
    );
    let age = since.map_or(0, |since| host.seconds().saturating_sub(since));
    out.value("lock_age_seconds", &[], age);
    let counted = cache.view(host)?;
    out.metric(
        "nodes",
        MetricKind::Gauge,
        "Nodes in the records, by their states.",
    );
    for phase in PHASES {
        let count = counted.in_phase(phase);
        out.value("nodes", &[("state", phase.as_str())], count);
    }
    let help = "Nodes whose committed design differs from their records.";
    out.metric("nodes_differing", MetricKind::Gauge, help);
    out.value("nodes_differing", &[], counted.differing());
    Ok(())
}
