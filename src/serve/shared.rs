//! The shared state of a service's requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::Semaphore;

use super::actions::Actions;
use super::answer::Refusal;
use super::authenticate::Authenticator;
use super::deckhand::Deckhand;
use super::followed::Followed;
use super::health::Vitals;
use super::host::Host;
use super::listen::Peer;
use super::metrics::Metrics;
use super::own::{Feeds, SiteCache, SiteView};
use super::rate::Rates;
use super::settings::Settings;
use super::shipyard::Steps;
use super::subject::{Subject, note_caller};
use crate::design::RunId;
use crate::plan::UnfinishedRun;
use crate::telemetry::in_same_span;
use crate::threads::lock;
use crate::workflow::{Checkout, Failure};

/// Questions that are answered at once; further ones wait their turn.
const QUESTIONS: usize = 4;

/// Plans that are made at once, beside other questions.
const PLANS: usize = 1;

/// How long a question waits for its turn.
const TURN: Duration = Duration::from_secs(30);

/// The state that the requests of a service share.
pub(super) struct Shared {
    pub(super) host: Arc<dyn Host>,
    pub(super) actions: Actions,
    pub(super) metrics: Metrics,
    pub(super) rates: Rates,
    followed: Arc<Followed>,
    /// The steps of runs that have ended, without their logs: reading the events of a run takes a while.
    pub(super) ended_steps: Mutex<BTreeMap<RunId, Steps>>,
    /// The newest id that was given out.
    last_id: Mutex<u128>,
    authenticator: Authenticator,
    /// Where design references may lead besides the repository.
    pub(super) deckhand: Option<Deckhand>,
    questions: Semaphore,
    plans: Semaphore,
    pub(super) feeds: Feeds,
    pub(super) site: SiteCache,
    body_bytes: usize,
}

impl Shared {
    pub(super) fn new(
        host: Arc<dyn Host>,
        settings: &Settings,
        (authenticator, deckhand): (Authenticator, Option<Deckhand>),
    ) -> Self {
        Self {
            host,
            actions: Actions::default(),
            metrics: Metrics::default(),
            rates: Rates::new(settings.limits.requests_per_second),
            followed: Arc::default(),
            ended_steps: Mutex::default(),
            last_id: Mutex::default(),
            authenticator,
            deckhand,
            questions: Semaphore::new(QUESTIONS),
            plans: Semaphore::new(PLANS),
            feeds: Feeds::new(settings.limits.streams.min(settings.limits.connections - 1)),
            site: SiteCache::new(settings.parts()),
            body_bytes: settings.limits.body_bytes,
        }
    }

    /// The caller of a request.
    pub(super) async fn subject(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<Subject, Refusal> {
        let now = self.host.seconds();
        let subject = self.authenticator.subject(peer, headers, now).await?;
        note_caller(&subject);
        Ok(subject)
    }

    /// Whether roles are bound to parts of the site.
    pub(super) fn has_parts(&self) -> bool {
        self.site.has_parts()
    }

    /// Most bytes of a body.
    pub(super) fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Brings the records of this clone to where those of the remote are, for a question. An action of this process does that
    /// itself, and no other process writes records while it holds the lock.
    pub(super) fn follow(&self, is_of_run: bool) {
        if !self.actions.is_busy() {
            self.followed.follow(&self.host, is_of_run);
        }
    }

    /// The run of the site that has not ended, in whatever clone.
    pub(super) fn unfinished(
        &self,
        checkout: &Checkout<'_>,
    ) -> Result<Option<UnfinishedRun>, Failure> {
        self.followed.unfinished(checkout)
    }

    /// The site by its committed design and the newest records.
    pub(super) fn view_of_site(&self) -> Result<Arc<SiteView>, Failure> {
        self.follow(false);
        self.site.view(&*self.host)
    }

    /// Now, RFC 3339 in UTC.
    pub(super) fn now(&self) -> Arc<str> {
        self.host.clock(None).events().now()
    }

    /// An id of its own; ids are in the order in which they were given out.
    pub(super) fn new_id(&self) -> String {
        let milliseconds = self.host.seconds().saturating_mul(1000);
        let id = ulid::Ulid::from_parts(milliseconds, self.host.random());
        let mut last = lock(&self.last_id);
        // Two ids of one second are in order, too; their last bits are left to the parts of an action.
        *last = id.0.max(last.saturating_add(1 << 16));
        ulid::Ulid(*last).to_string()
    }

    /// Answers a question that reads the repository or asks machines, beside the requests of others.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        in_turn(&self.questions, question).await
    }

    /// Does the same for a question that is as much work as a plan.
    pub(super) async fn ask_for_plan<T: Send + 'static>(
        &self,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        in_turn(&self.plans, question).await
    }
}

async fn in_turn<T: Send + 'static>(
    places: &Semaphore,
    question: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let turn = tokio::time::timeout(TURN, places.acquire()).await;
    let Ok(Ok(_turn)) = turn else {
        return Err(Refusal::unavailable(
            "too many questions are being answered",
        ));
    };
    let answered = tokio::task::spawn_blocking(in_same_span(question)).await;
    answered.map_err(|_| Refusal::internal())
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
        self.follow(false);
        let at_remote = self.followed.holder();
        self.metrics.text(&*self.host, &self.site, at_remote)
    }
}
