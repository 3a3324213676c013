//! Changing one host and waiting for what the operator makes of it, as safely as a shared object allows.
//!
//! Each change is made for the observed version, and made again if another client was
//! faster. A management cluster that goes away is waited for. The operator retries forever what it
//! fails at; a step does not wait for that beyond a number of failures.

use std::future::Future;
use std::time::Duration;

use backon::Retryable as _;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::Metal3;
use super::resource::Host;
use super::watch::{HostObservation, Waiter};
use crate::backend::api_server::{ApiError, OUTAGE};
use crate::backend::hardware::driver::Result;
use crate::backend::hardware::provisioner::Task;
use crate::backend::retry::policy;

/// The first and the longest wait before a request is sent again that can pass.
const RETRIES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));
/// How often a change is made again because another client was faster.
pub(super) const CONFLICTS: u32 = 20;
/// How often the operator failed at something since a step waits for it.
#[derive(Debug)]
pub(super) struct Failures {
    before: u64,
}

impl Failures {
    /// No failures since the observed state.
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

impl Task<'_, Metal3> {
    /// Sends a request until it is answered, as long as what is against it can pass.
    pub(super) async fn ask<T, F>(&self, request: &str, send: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        let began = Instant::now();
        let passes = |error: &ApiError| {
            let passes = error.passes() && !error.is_conflict();
            passes && began.elapsed() < OUTAGE && !self.is_over()
        };
        let answer = send
            .retry(policy(RETRIES.0, RETRIES.1, &self.name))
            .when(passes)
            .notify(|error, _| self.report(format!("{request}: {error}; retrying")))
            .await;
        answer.map_err(|error| error.into_error(&format!("{}: {request}", self.subject)))
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
                    Err(error) if error.is_conflict() => Ok(None),
                    Err(error) => Err(error),
                }
            };
            if let Some(changed) = self.ask(request, send).await? {
                return Ok(changed);
            }
            conflicts += 1;
            if conflicts >= CONFLICTS {
                return Err(self.passing(format!(
                    "{request}: another client changes it all the time; find it by the managers in `kubectl get --show-managed-fields`"
                )));
            }
            host = self.known().await?;
        }
    }

    /// Refuses a host that is paused or detached, or in use by another consumer.
    pub(super) fn ours(&self, host: &Host) -> Result<()> {
        if let Some(who) = host.claimed(&self.backend.roster.site) {
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
            self.report(host.failed());
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
                            "`{what}` did not come about within {} s; last observed {}",
                            self.began.elapsed().as_secs(),
                            host.failed()
                        )));
                    }
                },
            };
            match seen {
                HostObservation::There(host) => return Ok(Some((*host).clone())),
                HostObservation::Gone(_) => return Ok(None),
                HostObservation::Away { why, passes } => {
                    let since = *away_since.get_or_insert_with(Instant::now);
                    if !passes && since.elapsed() >= OUTAGE {
                        return Err(self.permanent(why));
                    }
                    self.report(format!("{why}; retrying"));
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
            self.report(format!("power was {} for a moment only", word(on)));
        }
    }
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
