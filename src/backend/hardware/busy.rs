//! How long a provisioner is asked again that has no time for a machine: longer than one attempt of a step, and as
//! long as it works on others.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::http::Failure;
use crate::backend::retry::{Waits, waits};
use crate::backend::{ActError, Order};

/// How long a request is retried while the provisioner works on no other machine.
const BUSY: Duration = Duration::from_secs(600);
/// The first and the longest wait before that, added to what the provisioner asks for.
const BUSY_DELAY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));

/// Why a provisioner did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    /// A request failed.
    #[error(transparent)]
    Http(#[from] Failure),
    /// It cannot be asked for, or the answer makes no sense.
    #[error("{0}")]
    Stays(String),
}

impl RequestError {
    /// The status of the answer, if there was one.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Http(failure) => failure.status().map(|status| status.as_u16()),
            Self::Stays(_) => None,
        }
    }

    /// Whether it was answered 503.
    fn is_unavailable(&self) -> bool {
        self.status() == Some(503)
    }

    /// How long the provisioner asks to wait.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Http(failure) => failure.retry_after(),
            Self::Stays(_) => None,
        }
    }
}

impl From<RequestError> for ActError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Http(failure) => failure.into(),
            RequestError::Stays(text) => Self::Permanent(Arc::from(text)),
        }
    }
}

/// How long a request is retried while a provisioner is busy: as long as it works on other machines, since it
/// bounds how many it works on at once, and not much longer if it works on none.
pub(super) struct RetryBudget {
    /// The end of the step's own time.
    end: Option<Instant>,
    until: Instant,
    waits: Waits,
}

impl RetryBudget {
    pub(super) fn new(order: &Order) -> Self {
        let now = Instant::now();
        let limit = Duration::from_secs(order.step.timeout).mul_f64(0.9);
        Self {
            end: (!limit.is_zero()).then(|| now + limit),
            until: now + BUSY,
            waits: waits(BUSY_DELAY.0, BUSY_DELAY.1, &order.step.id),
        }
    }

    /// The wait before the next request; `None`: it would be too late. `is_active`: whether the
    /// provisioner works on a machine, which frees it when it ends.
    pub(super) fn next(&mut self, refusal: &RequestError, is_active: bool) -> Option<Duration> {
        let now = Instant::now();
        if is_active && refusal.is_unavailable() {
            self.until = now + BUSY;
        }
        let own = self.waits.next().unwrap_or(BUSY_DELAY.1);
        // Many machines that ask in the same moment would find it as busy, again and again.
        let delay = match refusal.retry_after() {
            Some(asked) => asked.clamp(Duration::from_secs(1), BUSY) + own,
            None => own,
        };
        let until = self.end.map_or(self.until, |end| end.min(self.until));
        (now + delay <= until).then_some(delay)
    }

    /// The failure when there is no time left; `stuck`: what it means that nothing has moved meanwhile.
    pub(super) fn ended(&self, refusal: &RequestError, stuck: &str) -> ActError {
        let is_at_end = self.end.is_some_and(|end| end <= self.until);
        if is_at_end || !refusal.is_unavailable() {
            return refusal.clone().into();
        }
        ActError::Passing(Arc::from(format!("{refusal}; {stuck}")))
    }
}
