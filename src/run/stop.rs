//! How a run is asked to stop.

use std::sync::Arc;

use tokio::sync::watch;

/// How urgently a run should stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    #[default]
    None,
    /// Nothing new starts, what runs is waited for.
    Graceful,
    /// At once.
    Immediate,
}

/// Asks a run to stop: once, nothing new starts; twice, at once.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<watch::Sender<Urgency>>);

/// The run's side of a [`StopHandle`].
#[derive(Clone, Debug)]
pub struct Stop {
    receiver: watch::Receiver<Urgency>,
    /// Keeps the channel open if no handle is kept.
    handle: StopHandle,
}

impl StopHandle {
    /// Asks once more.
    pub fn stop(&self) {
        self.0.send_modify(|urgency| {
            *urgency = match *urgency {
                Urgency::None => Urgency::Graceful,
                _ => Urgency::Immediate,
            };
        });
    }

    /// Asks as if a stop had been requested twice.
    pub fn stop_at_once(&self) {
        self.0.send_replace(Urgency::Immediate);
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// A run without a request to stop.
    #[must_use]
    pub fn new() -> Self {
        let (sender, receiver) = watch::channel(Urgency::None);
        Self {
            receiver,
            handle: StopHandle(Arc::new(sender)),
        }
    }

    /// The handle that asks it to stop.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        self.handle.clone()
    }

    /// Whether it was asked at least once.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.receiver.borrow() >= Urgency::Graceful
    }

    /// Whether it was asked at least twice.
    #[must_use]
    pub fn is_immediate(&self) -> bool {
        *self.receiver.borrow() >= Urgency::Immediate
    }

    /// Waits until it was asked once.
    pub async fn asked(&mut self) {
        self.at_least(Urgency::Graceful).await;
    }

    /// Waits until it was asked twice.
    pub async fn immediately(&mut self) {
        self.at_least(Urgency::Immediate).await;
    }

    async fn at_least(&mut self, wanted: Urgency) {
        if self
            .receiver
            .wait_for(|urgency| *urgency >= wanted)
            .await
            .is_err()
        {
            // The channel cannot close while `handle` lives.
            std::future::pending::<()>().await;
        }
    }
}
