//! A request to a service: path, body, credentials, and how its refusals are read.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use reqwest::{Method, StatusCode, Url};
use serde::Serialize;

use super::answer::Answer;
use super::endpoint::authority;
use super::failure::{Class, Failure};
use super::oauth::OAuthKey;
use super::origin::Origin;
use super::text::{percent_encoded, plain};
use crate::backend::Secret;
use crate::backend::masked::{Forms, remember};

/// The credentials of a request.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// An account, by HTTP Basic.
    Basic {
        /// Its name.
        username: Arc<str>,
        /// Its password.
        password: Secret,
    },
    /// A header that carries a secret as it is (`X-Auth-Token`).
    Header {
        /// The header, in lower case.
        name: &'static str,
        /// Its value.
        value: Secret,
    },
    /// A key that signs each request anew, by OAuth 1.0.
    OAuth(OAuthKey),
}

impl Credentials {
    /// A text of the service that has them, as it may be shown: it may repeat them.
    #[must_use]
    pub fn masked(&self, text: &str, longest: usize) -> String {
        plain(&Forms::of(self.secrets()).masked(text), longest)
    }

    /// The texts to mask.
    fn secrets(&self) -> Vec<Cow<'_, str>> {
        match self {
            Self::Basic { username, password } => vec![
                Cow::Owned(format!("{username}:{}", password.reveal())),
                Cow::Borrowed(password.reveal()),
            ],
            Self::Header { value, .. } => vec![Cow::Borrowed(value.reveal())],
            Self::OAuth(key) => vec![Cow::Borrowed(key.secret())],
        }
    }
}

/// The error format of a kind of service.
pub trait Dialect: Send + Sync {
    /// Its own words in an answer that is no success; `None` if it has none, and then a page's title or
    /// the first words of the body are shown. What it gives is shortened and made printable by the caller.
    fn words(&self, answer: &Answer) -> Option<String>;

    /// The retry class of an answer that is no success.
    fn class(&self, answer: &Answer, is_safe: bool) -> Class {
        Class::of_status(answer.status(), is_safe)
    }

    /// Whether an answer with the status of a success is a refusal all the same.
    fn refuses(&self, _: &Answer) -> bool {
        false
    }

    /// How long a refusal asks to wait before a retry.
    fn retry_after(&self, answer: &Answer) -> Option<Duration> {
        answer.retry_after()
    }
}

/// A service without words of its own.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Dialect for Plain {
    fn words(&self, _: &Answer) -> Option<String> {
        None
    }
}

/// One request. It is safe to repeat if its method is GET or HEAD, or if it is said to be
/// ([`Self::repeatable`]).
#[derive(Clone)]
pub struct Request<'a> {
    pub(super) subject: &'a str,
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) attempts: u32,
    pub(super) timeout: Option<Duration>,
    headers: Vec<(HeaderName, String)>,
    body: Option<Vec<u8>>,
    credentials: Option<&'a Credentials>,
    hidden: Vec<&'a Secret>,
    pub(super) dialect: &'a dyn Dialect,
    is_repeatable: bool,
    /// Nothing of a success is read but that it is one.
    pub(super) is_status_enough: bool,
}

impl<'a> Request<'a> {
    /// A request about a subject (``node `n04` ``), by which its failures begin.
    #[must_use]
    pub fn new(subject: &'a str, method: Method, url: Url) -> Self {
        let is_repeatable = matches!(method, Method::GET | Method::HEAD);
        Self {
            subject,
            method,
            url,
            attempts: 1,
            timeout: None,
            headers: Vec::new(),
            body: None,
            credentials: None,
            hidden: Vec::new(),
            dialect: &Plain,
            is_repeatable,
            is_status_enough: false,
        }
    }

    /// The status of a success is all that counts: the rest of the answer is left unread, however long it is.
    #[must_use]
    pub fn for_its_status(mut self) -> Self {
        self.is_status_enough = true;
        self
    }

    /// Adds a header; a value that cannot be one is a failure when it is sent.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let name = HeaderName::from_static(name);
        self.headers.push((name, value.into()));
        self
    }

    /// Sends a value as JSON.
    #[must_use]
    pub fn json(mut self, value: &impl Serialize) -> Self {
        // Serialisation fails only for maps with keys that are no strings, and no request has those.
        self.body = serde_json::to_vec(value).ok();
        self.header(CONTENT_TYPE.as_str(), "application/json")
    }

    /// Sends fields as a form; a list repeats its name.
    #[must_use]
    pub fn form(mut self, fields: &[(Cow<'_, str>, Cow<'_, str>)]) -> Self {
        let pair = |(name, value): &(Cow<'_, str>, Cow<'_, str>)| {
            format!("{}={}", percent_encoded(name), percent_encoded(value))
        };
        let pairs: Vec<String> = fields.iter().map(pair).collect();
        self.body = Some(pairs.join("&").into_bytes());
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        self.header(CONTENT_TYPE.as_str(), form)
    }

    /// Sets the credentials.
    #[must_use]
    pub fn credentials(mut self, credentials: Option<&'a Credentials>) -> Self {
        self.credentials = credentials;
        self
    }

    /// A secret in the body, which no failure shows should the service repeat it.
    #[must_use]
    pub fn hide(mut self, secret: &'a Secret) -> Self {
        self.hidden.push(secret);
        self
    }

    /// How the service's refusals are read.
    #[must_use]
    pub fn dialect(mut self, dialect: &'a dyn Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Doing it twice is doing it once: an answer that was lost can be asked for again.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// How often it is sent in all, if a failure can pass; 1 if nothing is said.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// A bound of its own for each attempt, in the place of the client's.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Nothing follows to this host soon: the connection is not kept.
    #[must_use]
    pub fn last(self) -> Self {
        self.header(CONNECTION.as_str(), "close")
    }

    /// Whether the service may be another after it: a request that only reads, or can be sent again and
    /// again, may still be one that changes something.
    pub(super) fn changes_something(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD)
    }

    /// The class of a request without an answer, which may have arrived.
    pub(super) fn when_lost(&self) -> Class {
        if self.is_repeatable {
            Class::Passing
        } else {
            Class::Ambiguous
        }
    }

    /// The class of an answer that cannot be read.
    pub(super) fn when_unreadable(&self, status: StatusCode) -> Class {
        if self.is_repeatable || !status.is_success() {
            Class::Permanent
        } else {
            Class::Ambiguous
        }
    }

    /// For whom, to whom and what is asked.
    pub(super) fn origin(&self) -> Origin {
        // Without its query, which may be long and is no evidence.
        let path = plain(self.url.path(), 160);
        Origin {
            subject: Arc::from(self.subject),
            authority: Arc::from(authority(&self.url)),
            what: Arc::from(format!("{} {path}", self.method)),
            secrets: self.secrets(),
        }
    }

    /// The failure that a refusal is, in the service's own words.
    pub(super) fn refused(&self, answer: Answer) -> Failure {
        let class = self.dialect.class(&answer, self.is_repeatable);
        let words = self.dialect.words(&answer);
        let wait = self.dialect.retry_after(&answer);
        answer.into_refusal(class, words).with_retry_after(wait)
    }

    /// Whether it carries a secret.
    pub(super) fn has_secrets(&self) -> bool {
        self.credentials.is_some() || !self.hidden.is_empty()
    }

    /// The secrets of this request in the forms in which a service may repeat them.
    fn secrets(&self) -> Forms {
        let own = self.credentials.map(Credentials::secrets);
        let hidden = self
            .hidden
            .iter()
            .map(|secret| Cow::Borrowed(secret.reveal()));
        Forms::of(hidden.chain(own.into_iter().flatten()))
    }

    /// The request as it is sent.
    pub(super) fn prepare(
        &self,
        client: &reqwest::Client,
        url: &Url,
        origin: &Arc<Origin>,
    ) -> Result<reqwest::Request, Failure> {
        let refuse = |text: &str| Failure::new(origin.clone(), Class::Permanent, text.to_owned());
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            let value = HeaderValue::from_str(value)
                .map_err(|_| refuse("a header has a value that cannot be sent"))?;
            headers.insert(name.clone(), value);
        }
        let mut prepared = client.request(self.method.clone(), url.clone());
        match self.credentials {
            None => {}
            Some(Credentials::Basic { username, password }) => {
                remember(&format!("{username}:{}", password.reveal()));
                prepared = prepared.basic_auth(username, Some(password.reveal()));
            }
            Some(Credentials::Header { name, value }) => {
                let mut value = HeaderValue::from_str(value.reveal())
                    .map_err(|_| refuse("the secret cannot be sent in a header"))?;
                value.set_sensitive(true);
                headers.insert(HeaderName::from_static(name), value);
            }
            Some(Credentials::OAuth(key)) => {
                let value = key.header();
                let value = value.and_then(|value| HeaderValue::from_str(&value).ok());
                let mut value = value.ok_or_else(|| refuse("the request cannot be signed"))?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
        }
        prepared = prepared.headers(headers);
        if let Some(body) = &self.body {
            prepared = prepared.body(body.clone());
        }
        prepared
            .build()
            .map_err(|_| refuse("the request cannot be built"))
    }
}
