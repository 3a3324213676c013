//! Changing one host and waiting for what the operator makes of it, as safely as a shared object allows.
//!
//! Each change is made for the version that was seen and thought over again where somebody else was
//! faster. A management cluster that goes away is waited for. The operator tries again for ever what it
//! fails at; a step does not wait for that beyond a number of failures.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::Retryable as _;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::Metal3;
use super::resource::Host;
use super::watch::{Seen, Waiter};
use crate::backend::api_server::{OUTAGE, Trouble};
use crate::backend::hardware::proof::admit;
use crate::backend::retry::policy;
use crate::backend::{ActError, Order};
use crate::design::NodeDesign;
use crate::identity::Identity;
use crate::lifecycle::{self, Verb};
use crate::step::StepKind;

/// The first and the longest wait before a request is sent again that can pass.
const RETRIES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));
/// How often a change is thought over because somebody else was faster.
const CONFLICTS: u32 = 20;
/// The longest time by which a step ends before its limit, so that it can say why.
const LONGEST_RESERVE: Duration = Duration::from_secs(5);

pub(super) type Result<T> = std::result::Result<T, ActError>;

/// What is done with one host.
#[derive(Debug)]
pub(super) struct Mover<'a> {
    pub(super) backend: &'a Metal3,
    pub(super) order: &'a Order,
    /// The host's name.
    pub(super) name: Arc<str>,
    /// By which failures begin.
    pub(super) subject: String,
    began: Instant,
    /// The host as it was looked at before the step began, for whoever looks first.
    first: Mutex<Option<Host>>,
}

/// How often the operator failed at something since a step waits for it.
#[derive(Debug)]
pub(super) struct Failures {
    before: u64,
}

impl Failures {
    /// None since this was seen.
    pub(super) fn since(host: &Host) -> Self {
        Self {
            before: host.failures(),
        }
    }

    fn now(&mut self, host: &Host) -> u64 {
        let count = host.failures();
        self.before = self.before.min(count);
        count - self.before
    }
}

impl<'a> Mover<'a> {
    pub(super) fn new(backend: &'a Metal3, order: &'a Order, name: Arc<str>, node: &str) -> Self {
        let host = format!("{}/{name}", backend.management.namespace());
        Self {
            backend,
            order,
            name,
            subject: format!("node `{node}` (host {host})"),
            began: Instant::now(),
            first: Mutex::default(),
        }
    }

    pub(super) fn permanent(&self, text: impl Display) -> ActError {
        ActError::Permanent(Arc::from(format!("{}: {text}", self.subject)))
    }

    fn passing(&self, text: impl Display) -> ActError {
        ActError::Passing(Arc::from(format!("{}: {text}", self.subject)))
    }

    /// Says how far the step is.
    pub(super) fn say(&self, text: impl Into<Arc<str>>) {
        self.order.reporter.progress(text);
    }

    /// When the step ends at the latest, by its own word; `None` where it has no limit.
    fn deadline(&self) -> Option<Instant> {
        let limit = Duration::from_secs(self.order.step.timeout);
        let reserve = LONGEST_RESERVE.min(limit / 10);
        (!limit.is_zero()).then(|| self.began + limit - reserve)
    }

    fn is_over(&self) -> bool {
        self.deadline().is_some_and(|end| Instant::now() >= end)
    }

    /// Sends a request until it is answered, as long as what is against it can pass.
    pub(super) async fn ask<T, F>(&self, request: &str, send: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Trouble>>,
    {
        let began = Instant::now();
        let passes = |trouble: &Trouble| {
            let passes = trouble.passes() && !trouble.is_conflict();
            passes && began.elapsed() < OUTAGE && !self.is_over()
        };
        let answer = send
            .retry(policy(RETRIES.0, RETRIES.1, &self.name))
            .when(passes)
            .notify(|trouble, _| self.say(format!("{request}: {trouble}; trying again")))
            .await;
        answer.map_err(|trouble| trouble.into_error(&format!("{}: {request}", self.subject)))
    }

    /// The host as it is now, where there is one.
    pub(super) async fn look(&self) -> Result<Option<Host>> {
        let first = self.first().take();
        if first.is_some() {
            return Ok(first);
        }
        let management = &self.backend.management;
        let host = self.ask("look", || management.host(&self.name)).await?;
        let node = self.order.node.as_ref();
        let known = node.and_then(|node| self.backend.identities.known(node.name.as_str()));
        if let (Some(host), Some(id)) = (&host, known.and_then(|known| known.provisioner))
            && !host.metadata.uid.is_empty()
            && id != host.metadata.uid
        {
            return Err(self.permanent(format!(
                "it is another host than the record names: its UID is {}, expected {id}",
                host.metadata.uid
            )));
        }
        Ok(host)
    }

    fn first(&self) -> MutexGuard<'_, Option<Host>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a step begin only on the machine that the document means.
    pub(super) async fn admit(&self, node: &NodeDesign) -> Result<()> {
        let registry = &self.backend.identities;
        let (identity, proof) = match self.look().await? {
            Some(host) => {
                let judged = self.backend.judge(node, &host);
                *self.first() = Some(host);
                judged
            }
            None if self.order.step.id.kind == StepKind::Prepare => (
                Identity::default(),
                self.backend.proof_before_creation(node),
            ),
            // Each step says itself what that means.
            None => return Ok(()),
        };
        admit(
            registry,
            self.order,
            node,
            (&identity, &proof),
            &self.subject,
        )
        .await
    }

    /// The host as it is now.
    pub(super) async fn known(&self) -> Result<Host> {
        let found = self.look().await?;
        found.ok_or_else(|| self.permanent("there is no such BareMetalHost"))
    }

    /// Changes the host by what is made of the host as it is; `None`: there is nothing to change.
    pub(super) async fn change(
        &self,
        request: &str,
        mut host: Host,
        patch: impl Fn(&Host) -> Result<Option<Value>>,
    ) -> Result<Host> {
        let management = &self.backend.management;
        let mut conflicts = 0;
        loop {
            let Some(patch) = patch(&host)? else {
                return Ok(host);
            };
            let send = || async {
                match management.change_host(&host, patch.clone()).await {
                    Ok(changed) => Ok(Some(changed)),
                    Err(trouble) if trouble.is_conflict() => Ok(None),
                    Err(trouble) => Err(trouble),
                }
            };
            if let Some(changed) = self.ask(request, send).await? {
                return Ok(changed);
            }
            conflicts += 1;
            if conflicts >= CONFLICTS {
                return Err(self.passing(format!(
                    "{request}: it is changed by somebody else all the time"
                )));
            }
            host = self.known().await?;
        }
    }

    /// Refuses what trueup's own table does not have.
    pub(super) fn gate(&self, host: &Host, verb: Verb) -> Result<()> {
        let site = self.backend.site();
        let refusal = match lifecycle::step(host.state(), verb, host.flags(site)) {
            Ok(_) => return Ok(()),
            Err(refusal) => refusal,
        };
        let evidence = [
            ("retired", host.retired()),
            ("in maintenance", host.maintenance(site)),
            ("protected", host.claimed(site).map(Arc::from)),
            ("last error", host.error().map(Arc::from)),
        ];
        let evidence: String = evidence
            .iter()
            .filter_map(|(what, text)| Some(format!(" ({what}: {})", text.as_ref()?)))
            .collect();
        Err(self.permanent(format!("{refusal}{evidence}")))
    }

    /// Refuses a host that the operator leaves alone, or that somebody else uses.
    pub(super) fn ours(&self, host: &Host) -> Result<()> {
        if let Some(who) = host.claimed(self.backend.site()) {
            return Err(self.permanent(format!("is {who}, and is not taken from under them")));
        }
        self.driven(host)
    }

    /// Refuses a host that the operator leaves alone: nothing that is asked of it would happen.
    pub(super) fn driven(&self, host: &Host) -> Result<()> {
        match host.left_alone() {
            Some(why) => Err(self.permanent(format!("is {why}: the operator leaves it alone"))),
            None => Ok(()),
        }
    }

    /// Waits until the host is as wanted: `judge` says whether it is, or why it will never be.
    pub(super) async fn until(
        &self,
        what: &str,
        waiter: &mut Waiter,
        mut host: Host,
        judge: impl Fn(&Host) -> Result<bool>,
    ) -> Result<Host> {
        let mut failures = Failures::since(&host);
        loop {
            if judge(&host)? {
                return Ok(host);
            }
            self.driven(&host)?;
            let limit = self.backend.settings.error_limit;
            if host.has_failed() && failures.now(&host) >= limit {
                return Err(self.permanent(format!(
                    "`{what}`: the operator has failed {limit} times in a row: {}",
                    host.failed()
                )));
            }
            self.say(host.failed());
            host = match self.next(what, waiter, &host).await? {
                Some(host) => host,
                None => return Err(self.permanent("its BareMetalHost was deleted")),
            };
        }
    }

    /// The host when something has happened to it; `None`: it is gone.
    pub(super) async fn next(
        &self,
        what: &str,
        waiter: &mut Waiter,
        host: &Host,
    ) -> Result<Option<Host>> {
        let mut away_since = None;
        loop {
            let seen = match self.deadline() {
                None => waiter.next(host).await,
                Some(end) => match timeout_at(end, waiter.next(host)).await {
                    Ok(seen) => seen,
                    Err(_) => {
                        return Err(self.passing(format!(
                            "`{what}` did not come about within {} s; last seen {}",
                            self.began.elapsed().as_secs(),
                            host.failed()
                        )));
                    }
                },
            };
            match seen {
                Seen::There(host) => return Ok(Some((*host).clone())),
                Seen::Gone(_) => return Ok(None),
                Seen::NotYet => {}
                Seen::Away { why, passes } => {
                    let since = *away_since.get_or_insert_with(Instant::now);
                    if !passes && since.elapsed() >= OUTAGE {
                        return Err(self.permanent(why));
                    }
                    self.say(format!("{why}; trying again"));
                }
            }
        }
    }

    /// Waits until the host has been on or off for the settling time without a break.
    pub(super) async fn powered(
        &self,
        what: &str,
        waiter: &mut Waiter,
        host: Host,
        on: bool,
        judge: impl Fn(&Host) -> Result<()>,
    ) -> Result<Host> {
        let settling = self.backend.settings.settling;
        let mut host = host;
        loop {
            host = self
                .until(what, waiter, host, |host| {
                    judge(host)?;
                    Ok(host.status.powered_on == on)
                })
                .await?;
            let end = Instant::now() + settling;
            let mut stays = true;
            while stays {
                match timeout_at(end, self.next(what, waiter, &host)).await {
                    Err(_) => return Ok(host),
                    Ok(seen) => {
                        let Some(seen) = seen? else {
                            return Err(self.permanent("its BareMetalHost was deleted"));
                        };
                        host = seen;
                        stays = host.status.powered_on == on;
                    }
                }
            }
            self.say(format!("power was seen {} for a moment only", word(on)));
        }
    }
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
