//! The account and the client of a forge, and how its rate limits are read.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::{Method, StatusCode, Url};

use super::Error;
use crate::backend::Secret;
use crate::backend::http::{
    Answer, Class, Client, Credentials, Dialect, Endpoint, Failure, HttpLimits, Request, Trust,
    is_loopback, plain,
};

/// How often a request is sent in all.
const ATTEMPTS: u32 = 4;
/// The longest wait for the end of a rate limit; a longer one fails at once.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// A page of the longest comments that forges accept.
const LARGEST: usize = 64 << 20;
/// Most pages of entries that are read.
pub(super) const MOST_PAGES: usize = 200;

/// Where a text is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The comments of a pull request or merge request.
    Change {
        /// Its number.
        number: u64,
        /// The commit that it must still have as its head.
        head: Option<String>,
    },
    /// The open issues of a repository.
    Issue {
        /// The title of a new one.
        title: String,
    },
}

impl Place {
    /// Refuses a change whose head is another commit than the one that the text is about.
    pub(super) fn check_head(&self, change: &str, found: &str) -> Result<(), Error> {
        match self {
            Self::Change {
                head: Some(head), ..
            } if head != found => Err(Error::Moved {
                change: change.to_owned(),
                expected: head.clone(),
                found: plain(found, 64),
            }),
            _ => Ok(()),
        }
    }
}

/// The account on a forge, by its API.
pub struct Account {
    pub(super) endpoint: Endpoint,
    client: Client,
    credentials: Credentials,
    token: Secret,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({})", self.endpoint.authority())
    }
}

impl Account {
    /// The account of a token; `header`: the header that carries it, behind the word `scheme`.
    ///
    /// # Errors
    ///
    /// The address is none, or one to which a token would travel readable.
    pub fn new(
        address: &str,
        token: String,
        header: &'static str,
        scheme: &str,
    ) -> Result<Self, Error> {
        let endpoint = Endpoint::parse(address)?;
        let root = endpoint.resolve("")?;
        if endpoint.is_plain() && !is_loopback(root.host_str().unwrap_or_default()) {
            let authority = endpoint.authority().to_string();
            return Err(Error::Plain { authority });
        }
        let limits = HttpLimits {
            body: LARGEST,
            delay: LONGEST_WAIT,
            ..HttpLimits::default()
        };
        let value = Secret::new(format!("{scheme}{token}"));
        Ok(Self {
            endpoint,
            client: Client::new(&Trust::default(), limits)?,
            credentials: Credentials::Header {
                name: header,
                value,
            },
            token: Secret::new(token),
        })
    }

    /// A request about a place.
    pub(super) fn request<'a>(
        &'a self,
        subject: &'a str,
        method: Method,
        url: Url,
        dialect: &'a dyn Dialect,
    ) -> Request<'a> {
        Request::new(subject, method, url)
            .attempts(ATTEMPTS)
            .credentials(Some(&self.credentials))
            .hide(&self.token)
            .dialect(dialect)
    }

    pub(super) async fn send(&self, request: &Request<'_>) -> Result<Answer, Failure> {
        self.client.send(request).await
    }
}

/// The seconds that an answer asks to wait, by its `Retry-After` or by the end of the rate limit, which counts from
/// the server's own clock.
pub(super) fn wait_of(answer: &Answer) -> Option<Duration> {
    if let Some(asked) = answer.retry_after() {
        return Some(asked);
    }
    let header = |names: [&str; 2]| names.into_iter().find_map(|name| answer.header(name));
    if header(["x-ratelimit-remaining", "ratelimit-remaining"])?.trim() != "0" {
        return None;
    }
    let end: i64 = header(["x-ratelimit-reset", "ratelimit-reset"])?
        .trim()
        .parse()
        .ok()?;
    let now = rfc2822::parse(answer.header("date")?).ok()?.timestamp();
    let end = Timestamp::from_second(end).ok()?;
    let left = u64::try_from(end.as_second() - now.as_second()).unwrap_or(0);
    Some(Duration::from_secs(left + 1))
}

/// The class of a refusal; `is_limited`: the forge names a rate limit in its words.
pub(super) fn class_of(answer: &Answer, is_limited: bool, is_safe: bool) -> Class {
    let wait = wait_of(answer);
    let status = answer.status();
    let may_be_limit = matches!(
        status,
        StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
    );
    let is_limited = is_limited || (may_be_limit && wait.is_some());
    match wait {
        Some(wait) if wait > LONGEST_WAIT => Class::Permanent,
        _ if is_limited => Class::Passing,
        _ => Class::of_status(status, is_safe),
    }
}

/// The words of a refusal, with the wait that it asks for if that is too long.
pub(super) fn words_of(answer: &Answer, own: Option<String>) -> Option<String> {
    let wait = wait_of(answer).filter(|wait| *wait > LONGEST_WAIT);
    match (own, wait) {
        (own, None) => own,
        (own, Some(wait)) => Some(format!(
            "{}; retry in {} s",
            own.unwrap_or_else(|| "the rate limit is reached".to_owned()),
            wait.as_secs()
        )),
    }
}
