//! A service from its settings to its end.

use std::sync::Arc;
use std::time::Duration;

use axum::{Router, middleware};
use http::HeaderMap;
use tokio::sync::{Semaphore, watch};
use tower_http::catch_panic::CatchPanicLayer;

use super::actions::Actions;
use super::answer::Refusal;
use super::authenticate::{Authenticator, Subject};
use super::certificate::acceptor;
use super::guard::{Rates, guard, panicked};
use super::health::{Vitals, probes};
use super::host::Host;
use super::listen::{Address, Limits, Listener, Peer, answer};
use super::metrics::Metrics;
use super::settings::{Files, Settings};
use super::{Error, own, promenade};
use crate::run::Stop;

/// Questions that are answered at once; further ones wait their turn.
const QUESTIONS: usize = 4;

/// How long a question waits for its turn.
const TURN: Duration = Duration::from_secs(30);

/// What the requests of a service share.
pub(super) struct Shared {
    pub(super) host: Arc<dyn Host>,
    pub(super) actions: Actions,
    pub(super) metrics: Metrics,
    pub(super) rates: Rates,
    authenticator: Authenticator,
    questions: Semaphore,
    body_bytes: usize,
}

impl Shared {
    /// The caller of a request.
    pub(super) async fn subject(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<Subject, Refusal> {
        self.authenticator
            .subject(peer, headers, self.host.seconds())
            .await
    }

    /// Most bytes of a body.
    pub(super) fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Now, RFC 3339 in UTC.
    pub(super) fn now(&self) -> Arc<str> {
        self.host.clock(None).events().now()
    }

    /// An id of its own.
    pub(super) fn new_id(&self) -> String {
        let milliseconds = self.host.seconds().saturating_mul(1000);
        ulid::Ulid::from_parts(milliseconds, self.host.random()).to_string()
    }

    /// Answers a question that reads the repository or asks machines, beside the requests of others.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = tokio::time::timeout(TURN, self.questions.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(Refusal::unavailable(
                "too many questions are being answered",
            ));
        };
        let answered = tokio::task::spawn_blocking(question).await;
        answered.map_err(|_| Refusal::internal())
    }
}

impl Vitals for Shared {
    fn alive(&self) -> Result<(), String> {
        Ok(())
    }

    fn ready(&self) -> Result<(), String> {
        match self.actions.is_stopping() {
            true => Err("the service is about to end".to_owned()),
            false => Ok(()),
        }
    }

    fn metrics(&self) -> String {
        self.metrics.text(&*self.host)
    }
}

/// A service that listens.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    limits: Limits,
}

impl Server {
    /// Listens on addresses.
    ///
    /// # Errors
    ///
    /// The settings cannot be used; an address would be open to callers who are not authenticated, or cannot be listened
    /// on.
    pub async fn bind(
        host: Arc<dyn Host>,
        settings: &Settings,
        files: &Files,
        addresses: &[Address],
        own_uid: u32,
    ) -> Result<Self, Error> {
        for address in addresses {
            settings.admits(address)?;
        }
        let authenticator = Authenticator::new(settings, own_uid)?;
        let tls = acceptor(files, settings.has_tokens())?;
        let mut listeners = Vec::with_capacity(addresses.len());
        for address in addresses {
            let is_shared = !settings.peers.is_empty() || settings.has_tokens();
            listeners.push(Listener::bind(address, tls.clone(), is_shared).await?);
        }
        let shared = Shared {
            host,
            actions: Actions::default(),
            metrics: Metrics::default(),
            rates: Rates::new(settings.limits.requests_per_second),
            authenticator,
            questions: Semaphore::new(QUESTIONS),
            body_bytes: settings.limits.body_bytes,
        };
        Ok(Self {
            shared: Arc::new(shared),
            listeners,
            limits: Limits {
                connections: settings.limits.connections,
                ..Limits::default()
            },
        })
    }

    /// The addresses that it listens on, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// Resumes the run that was interrupted, beside the answers to requests.
    pub fn resume_interrupted(&self) {
        let shared = self.shared.clone();
        if shared.actions.begin_resume().is_err() {
            return;
        }
        let worker = shared.clone();
        let spawned = std::thread::Builder::new()
            .name("resume".to_owned())
            .spawn(move || {
                let resumed =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker.host.resume()));
                match resumed {
                    Ok(Ok(())) => {}
                    Ok(Err(failure)) if failure.message.is_empty() => {}
                    Ok(Err(failure)) => worker.host.client().tell(&format!("error: {failure}")),
                    Err(_) => log::error!("the resumption of a run failed by a defect"),
                }
                worker.actions.end(None);
            });
        if let Err(error) = spawned {
            log::error!("no thread could be started to resume a run: {error}");
            shared.actions.end(None);
        }
    }

    /// Answers until a stop is asked for; then begins nothing more, asks the running action to stop, and ends when it
    /// has. Asked again, the action stops at once.
    pub async fn run(self, mut stop: Stop) {
        let Self {
            shared,
            listeners,
            limits,
        } = self;
        let router = router(&shared);
        let (over, is_over) = watch::channel(false);
        let stopping = shared.clone();
        let ending = async move {
            stop.asked().await;
            stopping.actions.stop();
            tokio::select! {
                () = stopping.actions.idle() => {}
                () = stop.immediately() => {
                    stopping.actions.stop();
                    stopping.actions.idle().await;
                }
            }
            over.send_replace(true);
        };
        tokio::join!(answer(listeners, router, limits, is_over), ending);
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    let routes = promenade::routes()
        .merge(own::routes())
        .fallback(async || Refusal::not_found("there is no such resource"))
        .method_not_allowed_fallback(promenade::no_method)
        .with_state(shared.clone());
    routes
        .merge(probes(shared.clone()))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
}
