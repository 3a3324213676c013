//! Documents that Deckhand has rendered, fetched for the caller of a request with the caller's own token.
//!
//! A caller chooses the address, so that only a Deckhand that the operator lists is ever asked: same scheme, host and port,
//! no redirect, no proxy, and only for rendered documents. The token goes nowhere else, and is not held any longer than the
//! request takes.

use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Error;
use super::answer::Refusal;
use super::settings::{DeckhandSettings, Files};
use crate::backend::Secret;
use crate::backend::http::{Client, Credentials, Endpoint, HttpLimits, Request, Trust, plain};
use crate::workflow::{Failure, FailureKind};

/// The largest set of documents, in bytes: that of a file of a site.
const LARGEST: usize = 16 << 20;

/// Sets that are fetched at once.
const AT_ONCE: usize = 2;

/// How long a request waits for its turn.
const TURN: Duration = Duration::from_secs(30);

/// Most parts of the path before `revisions/N/rendered-documents`.
const PREFIX: usize = 8;

/// The address of rendered documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RenderedUrl(Url);

impl RenderedUrl {
    /// Reads `http(s)://HOST[:PORT]/…/revisions/N/rendered-documents`; otherwise why it is none.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let is_http = text.starts_with("http://") || text.starts_with("https://");
        let url = Url::parse(text).ok().filter(|_| is_http);
        let url = url.ok_or("is no address of Deckhand")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("carries an account: the token of the request is what counts");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("has more than host and path");
        }
        let parts: Vec<&str> = url.path().split('/').skip(1).collect();
        let is_plain = |part: &&str| {
            let mut letters = part.bytes();
            !part.is_empty()
                && letters.all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
        };
        let is_number = |text: &str| {
            (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let is_rendered = match &parts[..] {
            [before @ .., "revisions", number, "rendered-documents"] => {
                before.len() <= PREFIX && before.iter().all(is_plain) && is_number(number)
            }
            _ => false,
        };
        match is_rendered {
            true => Ok(Self(url)),
            false => Err("does not end in `/revisions/N/rendered-documents`"),
        }
    }

    /// The address, as messages name it.
    pub(super) fn name(&self) -> String {
        plain(self.0.as_str(), 200)
    }
}

/// The Deckhands that the operator lists.
pub(super) struct Deckhand {
    endpoints: Vec<Endpoint>,
    client: Client,
    places: Semaphore,
}

impl Deckhand {
    pub(super) fn new(settings: &DeckhandSettings, files: &Files) -> Result<Self, Error> {
        let refused = |what: &str, error: &dyn std::fmt::Display| {
            Error::Settings(format!("`deckhand.{what}` cannot be used: {error}"))
        };
        let mut endpoints = Vec::with_capacity(settings.hosts.len());
        for host in &settings.hosts {
            let endpoint = Endpoint::parse(host).map_err(|error| refused("hosts", &error))?;
            let is_root = Url::parse(host).is_ok_and(|url| url.path() == "/");
            if !is_root || host.ends_with('/') {
                let text = format!("`{host}` is more than `https://HOST:PORT`");
                return Err(refused("hosts", &text));
            }
            if endpoint.is_plain() {
                log::warn!("tokens of callers are sent to {host} over plain HTTP");
            }
            endpoints.push(endpoint);
        }
        let authority = files.deckhand_ca.as_ref();
        let authority = authority.map(|pem| String::from_utf8_lossy(pem).into_owned());
        let trust = Trust {
            authorities: authority.map(Secret::passing),
            // The operator has listed the scheme with the host.
            allow_plain_http: true,
            ..Trust::default()
        };
        let limits = HttpLimits {
            request: Duration::from_secs(settings.timeout),
            body: LARGEST,
            redirects: 0,
            ..HttpLimits::default()
        };
        Ok(Self {
            endpoints,
            client: Client::new(&trust, limits).map_err(|error| refused("ca", &error))?,
            places: Semaphore::new(AT_ONCE),
        })
    }

    /// Refuses an address of a host that the operator does not list.
    pub(super) fn admits(&self, url: &RenderedUrl) -> Result<(), Refusal> {
        let mut endpoints = self.endpoints.iter();
        match endpoints.any(|endpoint| endpoint.resolve(url.0.as_str()).is_ok()) {
            true => Ok(()),
            false => Err(Refusal::bad_request(format!(
                "the design reference leads to {}, which `deckhand.hosts` of this service does not list",
                plain(&url.0.origin().ascii_serialization(), 200)
            ))),
        }
    }

    /// A place among those whose documents are fetched and read, which bounds their memory.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        match tokio::time::timeout(TURN, self.places.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(Refusal::unavailable(
                "too many documents of Deckhand are being fetched",
            )),
        }
    }

    /// Fetches rendered documents with the token of the caller.
    pub(super) async fn fetch(&self, url: &RenderedUrl, token: &str) -> Result<Vec<u8>, Failure> {
        let credentials = Credentials::Header {
            name: "x-auth-token",
            value: Secret::passing(token.to_owned()),
        };
        let request = Request::new("Deckhand", Method::GET, url.0.clone())
            .credentials(Some(&credentials))
            .header("accept", "application/x-yaml");
        let answer = self.client.send(&request).await;
        answer
            .map(|answer| answer.body().to_vec())
            .map_err(|failure| {
                let kind = match failure.status() {
                    // The revision does not exist, or the caller must not read it.
                    Some(
                        StatusCode::BAD_REQUEST
                        | StatusCode::UNAUTHORIZED
                        | StatusCode::FORBIDDEN
                        | StatusCode::NOT_FOUND,
                    ) => FailureKind::Usage,
                    _ => FailureKind::Error,
                };
                Failure::new(kind, format!("the design was not fetched: {failure}"))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(hosts: &[&str]) -> DeckhandSettings {
        DeckhandSettings {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            ca: None,
            timeout: 5,
        }
    }

    #[test]
    fn an_address_is_one_of_rendered_documents_and_nothing_else() {
        for text in [
            "https://deckhand:9000/api/v1.0/revisions/12/rendered-documents",
            "http://10.0.0.1/revisions/1/rendered-documents",
            "https://[fd00::1]:9000/a/b/revisions/1/rendered-documents",
        ] {
            assert!(RenderedUrl::parse(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "file:///etc/passwd",
            "https://deckhand",
            "https://deckhand/revisions/12/documents",
            "https://deckhand/revisions/x/rendered-documents",
            "https://deckhand/revisions//rendered-documents",
            "https://deckhand/revisions/1/rendered-documents/",
            "https://deckhand/revisions/1/rendered-documents?a=b",
            "https://deckhand/revisions/1/rendered-documents#a",
            "https://a:b@deckhand/revisions/1/rendered-documents",
            "https://deckhand@evil/revisions/1/rendered-documents",
            "https://deckhand/%2e%2e/x%2Fy/revisions/1/rendered-documents",
            "https://deckhand/a%0d%0ab/revisions/1/rendered-documents",
            "https://deckhand/revisions/1/rendered-documents/../../../v3/auth/tokens",
            "https:/revisions/1/rendered-documents",
        ] {
            assert!(RenderedUrl::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_hosts_of_the_operator_are_asked() {
        let hosts = ["https://deckhand.example:9000", "http://127.0.0.1:9000"];
        let deckhand = Deckhand::new(&settings(&hosts), &Files::default()).unwrap();
        let admits = |origin: &str| {
            let url = format!("{origin}/revisions/1/rendered-documents");
            deckhand.admits(&RenderedUrl::parse(&url).unwrap()).is_ok()
        };
        assert!(admits("https://deckhand.example:9000") && admits("https://DECKHAND.example:9000"));
        assert!(admits("http://127.0.0.1:9000"));
        for other in [
            "http://deckhand.example:9000",
            "https://deckhand.example",
            "https://deckhand.example:9001",
            "https://deckhand.example.evil:9000",
            "https://evil.deckhand.example:9000",
            "https://deckhand.example.:9000",
            "https://127.0.0.1:9000",
            "http://localhost:9000",
            "http://[::ffff:127.0.0.1]:9000",
        ] {
            assert!(!admits(other), "{other}");
        }
        // The same address in another spelling is the same host.
        assert!(admits("http://2130706433:9000") && admits("http://0x7f.1:9000"));
    }

    #[test]
    fn a_host_is_an_origin() {
        for wrong in [
            "deckhand:9000",
            "ftp://deckhand",
            "https://deckhand/api",
            "https://deckhand/",
            "https://a:b@deckhand",
        ] {
            let made = Deckhand::new(&settings(&[wrong]), &Files::default());
            assert!(made.is_err(), "{wrong}");
        }
    }
}
