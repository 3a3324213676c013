//! The one HTTP client of all backends: bounded in every direction, and exact about what went wrong.
//!
//! A service is slow, fragile or hostile until it has shown otherwise. Each request ends in time, its
//! answer has a largest size, redirects to another host are refused, and at most a few requests go to one host
//! at once. What fails says for whom, to whom, which request and what was answered, never a secret, and
//! whether it can be retried ([`Class`]).

mod answer;
mod dates;
mod endpoint;
mod failure;
mod oauth;
mod origin;
mod request;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod trust;
mod validity;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backon::Retryable as _;
use reqwest::header::LOCATION;
use reqwest::{Method, StatusCode, Url};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use origin::Origin;

use crate::backend::fence;
use crate::backend::retry::policy;
use crate::threads::lock;

pub use answer::Answer;
pub use dates::{ServerDate, server_dates};
pub use endpoint::{Endpoint, EndpointError, is_loopback};
pub use failure::{Class, Failure};
pub use oauth::OAuthKey;
pub use request::{Credentials, Dialect, Plain, Request};
pub use text::{percent_encoded, plain};
pub use trust::{Fingerprint, Identity, Trust, TrustError};
pub(in crate::backend) use validity::expired;

/// The first wait between two attempts; each further one is twice as long.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// How long an idle connection is kept: longer than between two polls of one machine.
const IDLE: Duration = Duration::from_secs(10);

/// Why a credential is not sent.
pub const PLAIN_HTTP: &str = "credentials are not sent over plain HTTP beyond this machine, where the network \
                              in between can read them: use `https`, or set `allow_plain_http: true` in the \
                              site's Backends document";

/// How far a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Until a connection is there, TLS included.
    pub connect: Duration,
    /// One attempt of a request: from the connection to the last byte of the answer.
    pub request: Duration,
    /// The largest answer, in bytes.
    pub body: usize,
    /// Most redirects that one request follows; all of them to the same host.
    pub redirects: u32,
    /// Most requests at once to one host.
    pub per_host: usize,
    /// Most requests at once in all.
    pub total: usize,
    /// The longest wait between two attempts, also if a service asks for more.
    pub delay: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request: Duration::from_secs(60),
            body: 16 << 20,
            redirects: 3,
            per_host: 2,
            total: 128,
            delay: Duration::from_secs(30),
        }
    }
}

/// Sends requests, reuses connections, and keeps to its [`HttpLimits`].
#[derive(Debug)]
pub struct Client {
    inner: reqwest::Client,
    limits: HttpLimits,
    allows_plain_http: bool,
    hosts: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
    total: Semaphore,
}

impl Client {
    /// A client that trusts whom `trust` says. No proxy of the environment is used: what is sent here
    /// is meant for the host that it is addressed to.
    ///
    /// # Errors
    ///
    /// The certificates or keys that are to be used cannot be read.
    pub fn new(trust: &Trust, limits: HttpLimits) -> Result<Self, TrustError> {
        let inner = reqwest::Client::builder()
            .tls_backend_preconfigured(trust.config()?)
            .http1_only()
            .no_proxy()
            .referer(false)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(limits.connect.min(limits.request))
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(limits.per_host)
            .user_agent(crate::USER_AGENT)
            .build()
            .map_err(TrustError::Client)?;
        Ok(Self {
            inner,
            limits,
            allows_plain_http: trust.allow_plain_http,
            hosts: Mutex::default(),
            total: Semaphore::new(limits.total.clamp(1, Semaphore::MAX_PERMITS)),
        })
    }

    /// The settings of the client.
    #[must_use]
    pub fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    /// Sends a request, and again as often as it says ([`Request::attempts`]) if that does no harm. An
    /// answer that is no success is a [`Failure`] with its status.
    ///
    /// # Errors
    ///
    /// No connection, no trust, no answer in time, an answer that is too large, or a refusal.
    pub async fn send(&self, request: &Request<'_>) -> Result<Answer, Failure> {
        let attempts = usize::try_from(request.attempts).unwrap_or(usize::MAX);
        let key = (request.subject, request.url.as_str());
        let policy = policy(FIRST_DELAY, self.limits.delay, key).with_max_times(attempts - 1);
        let wait = |failure: &Failure, own: Duration| match failure.retry_after() {
            Some(asked) => asked.min(self.limits.delay),
            None => own,
        };
        (|| self.timed(request))
            .retry(policy)
            .when(|failure| failure.class() == Class::Passing)
            .adjust(|failure, own| own.map(|own| wait(failure, own)))
            .notify(|failure, wait| log::trace!("{}: again in {wait:.1?}", failure.what()))
            .await
    }

    /// One attempt, logged with the time that it took.
    async fn timed(&self, request: &Request<'_>) -> Result<Answer, Failure> {
        let began = Instant::now();
        let result = self.once(request).await;
        let took = began.elapsed();
        match &result {
            Ok(answer) => log::debug!("{answer}, in {took:.1?}"),
            Err(failure) => log::debug!("{failure}, in {took:.1?}"),
        }
        result
    }

    /// One attempt, redirects on the same host included.
    async fn once(&self, request: &Request<'_>) -> Result<Answer, Failure> {
        let origin = Arc::new(request.origin());
        let host = self.host(&origin.authority);
        let _host = turn(&host).await;
        let _total = turn(&self.total).await;
        let limit = request.timeout.unwrap_or(self.limits.request);
        match tokio::time::timeout(limit, self.follow(request, &origin)).await {
            Ok(result) => result,
            Err(_) => {
                let text = format!("no complete answer within {} s", limit.as_secs_f64());
                Err(Failure::new(origin, request.when_lost(), text))
            }
        }
    }

    async fn follow(&self, request: &Request<'_>, origin: &Arc<Origin>) -> Result<Answer, Failure> {
        let mut url = request.url.clone();
        let mut redirects = 0;
        loop {
            let answer = self.exchange(request, &url, origin).await?;
            let status = answer.status();
            let is_success = status.is_success() || status == StatusCode::NOT_MODIFIED;
            if is_success && !request.dialect.refuses(&answer) {
                return Ok(answer);
            }
            if is_success || !status.is_redirection() {
                return Err(request.refused(answer));
            }
            url = redirected(request, &url, &answer, origin)?;
            log::trace!("{origin}: {status} to {}", plain(url.path(), 160));
            redirects += 1;
            if redirects > self.limits.redirects {
                let text = match self.limits.redirects {
                    0 => format!(
                        "{status}: a redirect, which is not followed: is the address right?"
                    ),
                    most => format!("more than {most} redirects"),
                };
                return Err(Failure::new(origin.clone(), Class::Permanent, text));
            }
        }
    }

    async fn exchange(
        &self,
        request: &Request<'_>,
        url: &Url,
        origin: &Arc<Origin>,
    ) -> Result<Answer, Failure> {
        let host = url.host_str().unwrap_or_default();
        let is_readable = url.scheme() == "http" && !is_loopback(host);
        if is_readable && request.has_secrets() && !self.allows_plain_http {
            let text = PLAIN_HTTP.to_owned();
            return Err(Failure::new(origin.clone(), Class::Permanent, text));
        }
        let prepared = request.prepare(&self.inner, url, origin)?;
        if request.changes_something() {
            fence::pass().await;
        }
        let lost =
            |error: &reqwest::Error| failure::of_transport(origin, request.when_lost(), error);
        let mut response = self.inner.execute(prepared).await.map_err(|e| lost(&e))?;
        let status = response.status();
        let headers = response.headers().clone();
        if request.is_status_enough && status.is_success() {
            dates::note(&origin.authority, &headers);
            return Ok(Answer::new(origin.clone(), status, headers, Vec::new()));
        }
        let too_large = || {
            let text = format!("an answer of more than {} bytes", self.limits.body);
            // What was asked for was done, or is done no better the next time.
            Failure::new(origin.clone(), request.when_unreadable(status), text).with_status(status)
        };
        let announced = response.content_length().unwrap_or(0);
        if announced > self.limits.body as u64 {
            return Err(too_large());
        }
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > self.limits.body => {
                    return Err(too_large());
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                // A refusal is one, however little of its text came.
                Err(_) if !status.is_success() => break,
                Err(_) => {
                    let text = format!("the answer broke off after {} bytes", body.len());
                    let class = request.when_lost();
                    return Err(Failure::new(origin.clone(), class, text).with_status(status));
                }
            }
        }
        dates::note(&origin.authority, &headers);
        Ok(Answer::new(origin.clone(), status, headers, body))
    }

    fn host(&self, authority: &Arc<str>) -> Arc<Semaphore> {
        let mut hosts = lock(&self.hosts);
        let per_host = self.limits.per_host.clamp(1, Semaphore::MAX_PERMITS);
        hosts
            .entry(authority.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(per_host)))
            .clone()
    }
}

/// Waits for one's turn; these semaphores are never closed.
async fn turn(gate: &Semaphore) -> Option<SemaphorePermit<'_>> {
    gate.acquire().await.ok()
}

/// Where a redirect leads, if it may be followed: the same host, and nothing asked for that the answer
/// does not ask for again.
fn redirected(
    request: &Request<'_>,
    from: &Url,
    answer: &Answer,
    origin: &Arc<Origin>,
) -> Result<Url, Failure> {
    let refuse = |text: String| {
        Failure::new(origin.clone(), Class::Permanent, text).with_status(answer.status())
    };
    let Some(location) = answer.header(LOCATION.as_str()) else {
        return Err(refuse(format!(
            "{}: a redirect to nowhere",
            answer.status()
        )));
    };
    let Ok(to) = from.join(location) else {
        let location = origin.plain(location, 100);
        return Err(refuse(format!(
            "a redirect to `{location}`, which is no address"
        )));
    };
    if to.origin() != from.origin() {
        let elsewhere = origin.plain(&to.origin().ascii_serialization(), 100);
        return Err(refuse(format!(
            "a redirect to another host ({elsewhere}), which is not followed"
        )));
    }
    let is_safe = matches!(request.method, Method::GET | Method::HEAD);
    let keeps_method = matches!(answer.status().as_u16(), 307 | 308);
    if !is_safe && !keeps_method {
        return Err(refuse(format!(
            "{}: a redirect that would turn the request into another",
            answer.status()
        )));
    }
    Ok(to)
}
