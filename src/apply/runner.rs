//! Runs one step: probes, acts, retries, and times out.
//!
//! A runner knows nothing of the graph. Nothing is done twice here: a step is only acted on again when
//! the probe shows that it was not begun, or that it is running and has to be waited for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::Preconditions;
use crate::backend::{
    self, ActError, Fence, Hardware, Order, Pending, Probe, Reporter, fence, retry,
};
use crate::journal::StepOutcome;
use crate::run::Stop;
use crate::step::StepIndex;
use crate::threads::lock;

/// The first wait between two attempts; each further one is twice as long.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest wait between two attempts.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// The reports of a running runner.
pub(super) enum Report {
    /// The step is going to be retried.
    Retry {
        index: usize,
        message: Arc<str>,
        delay: Duration,
    },
    /// It is retried now.
    Attempt { index: usize, attempt: u32 },
    /// How far it is.
    Progress { index: usize, text: Arc<str> },
    /// It waits until this is in the journal, and durable.
    Note {
        index: usize,
        text: Arc<str>,
        durable: oneshot::Sender<()>,
    },
}

/// Hands the reports of a step to the dispatcher.
pub(super) struct StepListener {
    index: usize,
    reports: UnboundedSender<Report>,
    /// Its notes so far, for its next attempt.
    notes: Mutex<Vec<Arc<str>>>,
    /// Its last reported progress: a poll that finds the same is reported once.
    told: Mutex<Option<Arc<str>>>,
}

impl StepListener {
    pub(super) fn new(
        index: usize,
        reports: UnboundedSender<Report>,
        notes: Vec<Arc<str>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            index,
            reports,
            notes: Mutex::new(notes),
            told: Mutex::default(),
        })
    }

    /// How far the step was when it was last told.
    fn last(&self) -> Option<Arc<str>> {
        let told = lock(&self.told);
        told.clone()
    }

    fn notes(&self) -> Vec<Arc<str>> {
        let notes = lock(&self.notes);
        notes.clone()
    }
}

impl backend::Listener for StepListener {
    fn progress(&self, text: Arc<str>) {
        let mut told = lock(&self.told);
        if told.as_ref() == Some(&text) {
            return;
        }
        *told = Some(text.clone());
        let index = self.index;
        let _ = self.reports.send(Report::Progress { index, text });
    }

    fn note<'a>(&'a self, text: Arc<str>) -> Pending<'a, Result<(), ActError>> {
        Box::pin(async move {
            let (durable, is_durable) = oneshot::channel();
            let report = Report::Note {
                index: self.index,
                text: text.clone(),
                durable,
            };
            let sent = self.reports.send(report).is_ok();
            if !sent || is_durable.await.is_err() {
                let message = "a note for a later attempt could not be persisted";
                return Err(ActError::Permanent(message.into()));
            }
            let mut notes = lock(&self.notes);
            notes.push(text);
            Ok(())
        })
    }
}

/// How a runner ended.
pub(super) enum End {
    /// The step ended; whether anything was asked of the world.
    Outcome(StepOutcome, bool),
    /// It was begun by an earlier run and cannot be told from outside; the evidence.
    Undecided(Arc<str>),
    /// The run stops, and the step was not begun again.
    Stopped,
    /// It came to a request that the lease did not cover, which was not sent.
    LeaseUnconfirmed,
}

/// One step to be carried out.
pub(super) struct Runner {
    pub(super) index: usize,
    pub(super) order: Order,
    /// Hears what the step reports.
    pub(super) listener: Arc<StepListener>,
    /// An earlier process of the run may have begun it: it is probed first.
    pub(super) probe_first: bool,
    /// How it ends unless it was begun.
    pub(super) held_back: Option<StepOutcome>,
    /// From its start to its end, all attempts together.
    pub(super) timeout: Option<Duration>,
    pub(super) hardware: Arc<dyn Hardware>,
    pub(super) preconditions: Arc<dyn Preconditions>,
    pub(super) stop: Stop,
    pub(super) fence: Fence,
    pub(super) reports: UnboundedSender<Report>,
    /// The gate that it waits for before it starts; its time runs from then on.
    pub(super) gate: Option<oneshot::Receiver<()>>,
    /// Whether anything was asked of the world.
    pub(super) attempted: bool,
    /// It was decided that it is done: only what it set for its own time is taken back.
    pub(super) is_decided: bool,
}

impl Runner {
    /// Runs the step to its end.
    pub(super) async fn run(mut self) -> (usize, End) {
        self.order.reporter = Reporter::new(self.listener.clone());
        if let Some(gate) = self.gate.take() {
            tokio::select! {
                _ = gate => {}
                () = self.stop.asked() => return (self.index, End::Stopped),
            }
        }
        let fence = self.fence.clone();
        let end = fence::within(&fence, self.in_time()).await;
        (self.index, end.unwrap_or(End::LeaseUnconfirmed))
    }

    async fn in_time(&mut self) -> End {
        match self.timeout {
            None => self.drive().await,
            Some(timeout) => match tokio::time::timeout(timeout, self.drive()).await {
                Ok(end) => end,
                Err(_) => End::Outcome(self.too_late(timeout), self.attempted),
            },
        }
    }

    fn too_late(&self, timeout: Duration) -> StepOutcome {
        let seconds = timeout.as_secs();
        if self.attempted {
            let last = match self.listener.last() {
                Some(last) => format!("; when it was last heard of: {last}"),
                None => String::new(),
            };
            let message =
                format!("no end within {seconds} s; the request may still be running{last}");
            StepOutcome::Unknown {
                message: message.into(),
            }
        } else {
            StepOutcome::Failed {
                message: format!("could not be begun within {seconds} s").into(),
            }
        }
    }

    fn report(&self, report: Report) {
        // The receiver is gone only when the run is being torn down.
        let _ = self.reports.send(report);
    }

    /// Carries the step out, in as many attempts as its kind has.
    async fn drive(&mut self) -> End {
        if self.is_decided {
            return self.take_back().await;
        }
        let mut begun = match self.probe_begun().await {
            Ok(begun) => begun,
            Err(end) => return end,
        };
        let attempts = self.order.step.id.kind.facts().attempts;
        let mut attempt = 1;
        loop {
            let message = match self.attempt(begun).await {
                Ok(message) => message,
                Err(end) => return end,
            };
            self.order.notes = self.listener.notes();
            begun = match self.hardware.probe(&self.order).await {
                Probe::Done => return self.take_back().await,
                Probe::NotBegun => false,
                Probe::UnderWay => true,
                Probe::Ambiguous(evidence) => {
                    let message = format!("{message}; {evidence}").into();
                    return End::Outcome(StepOutcome::Unknown { message }, true);
                }
            };
            if attempt >= attempts {
                let outcome = match begun {
                    true => StepOutcome::Unknown { message },
                    false => StepOutcome::Failed { message },
                };
                return End::Outcome(outcome, true);
            }
            let delay = delay(&self.order, attempt);
            attempt += 1;
            self.report(Report::Retry {
                index: self.index,
                message,
                delay,
            });
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = self.stop.asked(), if !begun => return End::Stopped,
            }
            self.report(Report::Attempt {
                index: self.index,
                attempt,
            });
        }
    }

    /// Takes back what a step has set that is done, as it was decided or as is observed. It is done in any case: what
    /// stays is reported.
    async fn take_back(&mut self) -> End {
        self.attempted = true;
        if let Err(error) = self.hardware.take_back(&self.order).await {
            let text = format!("it is done, and left something behind: {error}");
            self.report(Report::Progress {
                index: self.index,
                text: text.into(),
            });
        }
        End::Outcome(StepOutcome::Succeeded, true)
    }

    /// Whether an earlier process of the run began the step, and it is running; or how it ended.
    async fn probe_begun(&mut self) -> Result<bool, End> {
        if !self.probe_first {
            return Ok(false);
        }
        self.attempted = true;
        match self.hardware.probe(&self.order).await {
            Probe::NotBegun => {
                self.attempted = false;
                Ok(false)
            }
            Probe::UnderWay => Ok(true),
            Probe::Done => Err(self.take_back().await),
            Probe::Ambiguous(evidence) => Err(End::Undecided(evidence)),
        }
    }

    /// Attempts the step once; an error that may pass, or how it ended.
    async fn attempt(&mut self, begun: bool) -> Result<Arc<str>, End> {
        let step = StepIndex::from_position(self.index);
        if let Some(outcome) = self.held_back.take().filter(|_| !begun) {
            return Err(End::Outcome(outcome, false));
        }
        if !begun && let Err(message) = self.preconditions.check(step, &self.order).await {
            let failed = StepOutcome::Failed { message };
            return Err(End::Outcome(failed, self.attempted));
        }
        let was_attempted = std::mem::replace(&mut self.attempted, true);
        match self.hardware.act(&self.order).await {
            Ok(()) => Err(End::Outcome(StepOutcome::Succeeded, true)),
            Err(ActError::Refused(message)) => {
                let failed = StepOutcome::Failed { message };
                Err(End::Outcome(failed, was_attempted))
            }
            Err(ActError::Permanent(message)) => {
                Err(End::Outcome(StepOutcome::Failed { message }, true))
            }
            Err(ActError::Passing(message) | ActError::Ambiguous(message)) => Ok(message),
        }
    }
}

/// How long to wait after an attempt; it depends on run, step and attempt only, so that a run is
/// reproducible.
fn delay(order: &Order, attempt: u32) -> Duration {
    let key = (order.run.as_str(), &order.step.id);
    let mut waits = retry::waits(FIRST_DELAY, LONGEST_DELAY, key);
    let before = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
    waits.nth(before).unwrap_or(LONGEST_DELAY)
}
