//! Notifications: messages about runs for those who wait for them elsewhere, by webhooks that the Backends document names.
//!
//! A destination belongs to the reach of the site, so that nothing is sent anywhere that the operator does not trust. Each has a
//! thread and a short queue of its own: a run hands a message over and continues, and what could not be delivered is told
//! once, at the end.

mod delivery;
mod message;
mod settings;
mod shapes;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delivery::Delivery;
use settings::Destination;

use super::{BackendContext, Error, Secrets};
use crate::design::Guards;

pub use message::{FailedNode, Moment, NodeCounts, Notification, StopReason};

/// How long the end of a run waits for what is not delivered yet.
pub const LAST_WAIT: Duration = Duration::from_secs(5);

/// The destinations of a site, and what is on its way to them.
pub struct Notifier {
    deliveries: Vec<Delivery>,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.deliveries.iter().map(Delivery::name);
        f.debug_list().entries(names).finish()
    }
}

/// How the trial of a destination ended: its name and host, and why it failed.
pub type Trial = (String, Result<(), String>);

impl Notifier {
    /// Whether documents name destinations.
    #[must_use]
    pub fn is_named(guards: &Guards) -> bool {
        let data = guards.backends.data.as_ref();
        data.is_some_and(|data| data.get("notify").is_some())
    }

    /// The destinations of the site; `None`: it has none. Reads no secret and contacts nothing.
    ///
    /// # Errors
    ///
    /// The reach is not trusted, or a setting cannot be used.
    pub fn open(guards: &Guards, context: &BackendContext) -> Result<Option<Self>, Error> {
        let destinations = Destination::all(guards).map_err(Error::Settings)?;
        if destinations.is_empty() {
            return Ok(None);
        }
        context.admit(guards)?;
        let secrets: &Arc<dyn Secrets> = &context.secrets;
        let deliveries = destinations
            .into_iter()
            .map(|destination| Delivery::new(destination, secrets.clone()));
        Ok(Some(Self {
            deliveries: deliveries.collect(),
        }))
    }

    /// Hands a message over to each destination that wants its kind; waits for none of them.
    pub fn tell(&self, notification: &Notification) {
        let notification = Arc::new(notification.clone());
        for delivery in &self.deliveries {
            delivery.hand_over(&notification);
        }
    }

    /// Waits until all is delivered or has failed, and at most so long; what was not delivered, a line for each
    /// destination. Nothing is told twice.
    #[must_use]
    pub fn settle(&self, limit: Duration) -> Vec<Arc<str>> {
        let deadline = Instant::now() + limit;
        let lines = self
            .deliveries
            .iter()
            .filter_map(|delivery| delivery.settle(deadline));
        lines.map(Arc::from).collect()
    }

    /// Sends a message that is a test to every destination, and waits for each.
    #[must_use]
    pub fn try_all(&self, notification: &Notification) -> Vec<Trial> {
        let trial =
            |delivery: &Delivery| (delivery.name().to_owned(), delivery.try_now(notification));
        std::thread::scope(|scope| {
            let trials = self
                .deliveries
                .iter()
                .map(|delivery| scope.spawn(move || trial(delivery)));
            let trials: Vec<_> = trials.collect();
            let ended = trials.into_iter().filter_map(|trial| trial.join().ok());
            ended.collect()
        })
    }
}
