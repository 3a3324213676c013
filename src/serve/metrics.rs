//! The metrics of a service.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::exposition::{Exposition, MetricKind};
use super::host::Host;
use crate::journal::StepOutcome;
use crate::plan::{Action, Request};
use crate::record::{Phase, Store};
use crate::run::{Connection, EventKind, RunEvent};
use crate::site::At;
use crate::workflow::{Failure, Observed, PlanRequest, Planner};

/// The upper bounds of the durations of steps, in seconds.
const BOUNDS: [u64; 10] = [1, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200];

/// How long the state of the site is taken for current where nothing shows that it has changed.
const KEPT: Duration = Duration::from_secs(300);

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

/// The site by its records and its documents.
#[derive(Clone, Default)]
struct SiteCounts {
    phases: BTreeMap<&'static str, usize>,
    /// Nodes whose design differs from their record.
    differing: usize,
}

/// Of what the state of the site was counted: the commit and the records.
type Version = (String, String);

/// Counts of a service since it began.
#[derive(Default)]
pub(super) struct Metrics {
    counts: Mutex<Counts>,
    site: Mutex<Option<(Version, Instant, SiteCounts)>>,
}

impl Metrics {
    /// Counts what happens in a run.
    pub(super) fn hear(&self, event: &RunEvent) {
        let EventKind::StepFinished {
            kind,
            outcome,
            duration_ms,
            ..
        } = &event.kind
        else {
            return;
        };
        let outcome = match outcome {
            StepOutcome::Succeeded => "succeeded",
            StepOutcome::Failed { .. } => "failed",
            StepOutcome::Unknown { .. } => "unknown",
            StepOutcome::Skipped { .. } => "skipped",
            StepOutcome::NotNeeded => return,
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.outcomes.entry((kind.as_str(), outcome)).or_default() += 1;
        if outcome == "skipped" {
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
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.actions.entry((action.as_str(), code)).or_default() += 1;
    }

    /// The text that Prometheus reads.
    pub(super) fn text(&self, host: &dyn Host) -> String {
        let mut out = Exposition::default();
        self.write_counts(&mut out);
        let written = self.write_site(&mut out, host);
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
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn write_site(&self, out: &mut Exposition, host: &dyn Host) -> Result<(), Failure> {
        let repository = host.repository()?;
        let checkout = host.checkout(&repository)?;
        let site = checkout.location.site.clone();
        let lock = repository.read_lock(site.as_str())?;
        let since = lock.and_then(|lock| lock.holder.since.parse::<jiff::Timestamp>().ok());
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
        let store = Store::open(&repository, &site)?;
        let state = store.read()?;
        let version = (
            checkout.head()?.to_string(),
            state.tip.map(|tip| tip.to_string()).unwrap_or_default(),
        );
        let counted = self.site_counts(version, || {
            let records = store.nodes(&state)?;
            let mut counts = SiteCounts::default();
            for record in records.values() {
                *counts.phases.entry(record.phase.as_str()).or_default() += 1;
            }
            counts.differing = differing(host, &checkout)?;
            Ok(counts)
        })?;
        out.metric(
            "nodes",
            MetricKind::Gauge,
            "Nodes in the records, by their states.",
        );
        for phase in PHASES {
            let count = counted
                .phases
                .get(phase.as_str())
                .copied()
                .unwrap_or_default();
            out.value("nodes", &[("state", phase.as_str())], count);
        }
        let help = "Nodes whose committed design differs from their records.";
        out.metric("nodes_differing", MetricKind::Gauge, help);
        out.value("nodes_differing", &[], counted.differing);
        Ok(())
    }

    /// The counts of a version of the site, counted again where it is another one, or long ago.
    fn site_counts(
        &self,
        version: Version,
        count: impl FnOnce() -> Result<SiteCounts, Failure>,
    ) -> Result<SiteCounts, Failure> {
        let mut kept = self.site.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, at, counts)) = &*kept
            && *of == version
            && at.elapsed() < KEPT
        {
            return Ok(counts.clone());
        }
        let counts = count()?;
        *kept = Some((version, Instant::now(), counts.clone()));
        Ok(counts)
    }
}

/// How many nodes a plan of what is committed would change, by the records alone: no machine is asked.
fn differing(host: &dyn Host, checkout: &crate::workflow::Checkout<'_>) -> Result<usize, Failure> {
    let plan_request = PlanRequest {
        observed: Observed::Nothing,
        without_forecast: true,
        only_looks: true,
        ..host.plan_request()
    };
    let planner = Planner {
        client: host.client(),
        checkout,
        at: At::Commit(checkout.head()?),
        connection: &Connection::Alone,
        request: &Request::default(),
        plan_request: &plan_request,
    };
    let plan = planner.plan()?.into_plan();
    let changes = plan.changes.iter();
    Ok(changes
        .filter(|change| change.kind != crate::plan::ChangeKind::None)
        .count())
}
