//! An answer of a service, with the request that it belongs to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde::de::DeserializeOwned;

use super::failure::{Class, Failure};
use super::origin::Origin;
#[cfg(any(test, fuzzing))]
use crate::backend::masked::Forms;
use crate::backend::masked::masked_json;

/// An answer with all its bytes; shown, it says to what and how many.
#[derive(Clone, Debug)]
pub struct Answer {
    origin: Arc<Origin>,
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn new(
        origin: Arc<Origin>,
        status: StatusCode,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Self {
        Self {
            origin,
            status,
            headers,
            body,
        }
    }

    /// An answer for tests, without a server.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn invented(status: StatusCode, body: &[u8]) -> Self {
        let origin = Origin {
            subject: Arc::from("node-1"),
            authority: Arc::from("127.0.0.1:1"),
            what: Arc::from("GET /"),
            secrets: Forms::default(),
        };
        Self::new(Arc::new(origin), status, HeaderMap::new(), body.to_vec())
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// A header, if it is there and text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The seconds of a `Retry-After`; a date is not read, since nothing here has a clock.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.header(RETRY_AFTER.as_str())?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// Its bytes.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The first JSON value of the body; the rest is ignored, since some gateways append to it.
    ///
    /// # Errors
    ///
    /// The body has no JSON value, or one of another shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        // Some services begin with a byte order mark, which is no JSON.
        let body = self.body.strip_prefix(b"\xef\xbb\xbf");
        let body = masked_json(body.unwrap_or(&self.body));
        let mut values = serde_json::Deserializer::from_slice(&body).into_iter();
        let text = match values.next() {
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) if self.looks_like_json() => {
                format!("an answer that cannot be understood: {error}")
            }
            Some(Err(_)) => format!("no JSON but {}", self.first_words()),
            None => "an empty answer".to_owned(),
        };
        Err(self.failure(Class::Permanent, &text))
    }

    /// A failure to do with this answer.
    #[must_use]
    pub fn failure(&self, class: Class, text: &str) -> Failure {
        let text = self.origin.plain(text, 400);
        Failure::new(self.origin.clone(), class, text).with_status(self.status)
    }

    /// The failure that a refusal is; `class`: what it means, `own`: the service's own words.
    pub(super) fn into_refusal(self, class: Class, own: Option<String>) -> Failure {
        let printable = |words: String| self.origin.plain(&words, 400);
        let own = own.map(printable);
        let words = match &own {
            Some(own) => own.clone(),
            None if self.body.is_empty() => String::new(),
            None => printable(self.first_words()),
        };
        let text = match words.as_str() {
            "" => self.status.to_string(),
            words => format!("{}: {words}", self.status),
        };
        Failure::new(self.origin.clone(), class, text)
            .with_status(self.status)
            .with_words(own)
    }

    fn looks_like_json(&self) -> bool {
        let first = self.body.iter().find(|byte| !byte.is_ascii_whitespace());
        matches!(first, Some(b'{' | b'['))
    }

    /// The title of a page, else the first words of whatever it is.
    fn first_words(&self) -> String {
        const LONGEST: usize = 4096;
        let start = &self.body[..self.body.len().min(LONGEST)];
        let text = String::from_utf8_lossy(start);
        match title(&text) {
            Some(title) => format!("a page `{}`", self.origin.plain(title, 120)),
            None => format!("`{}`", self.origin.plain(&text, 120)),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.body.len();
        write!(f, "{}: {}, {bytes} bytes", self.origin, self.status)
    }
}

fn title(text: &str) -> Option<&str> {
    let lower = text.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let title = text[start..end].trim();
    (!title.is_empty()).then_some(title)
}
