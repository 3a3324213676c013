//! Requests to an API server: each bounded in time and size, and what its answer means.
//!
//! Paths are the API's own; queries are encoded by kube. A list is read page by page, each page decoded
//! into small structs and dropped before the next is asked for.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backon::Retryable as _;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::Status;
use kube::core::request::{Error as RequestError, Request as Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::page::Page;
use crate::backend::masked::{masked, masked_json};
use crate::backend::pages::Pages;
use crate::backend::retry::policy;
use crate::backend::{ActError, fence};
use crate::diagnostic::chain;
use crate::threads::lock;

/// How long one request may take. A server gives itself sixty seconds at most.
pub(in crate::backend) const REQUEST: Duration = Duration::from_secs(65);

/// The biggest answer about one object, in bytes; etcd holds none bigger than some 1.5 MB.
const LARGEST_OBJECT: usize = 16 << 20;

/// The biggest page, in bytes: 500 pods of 256 KiB.
const LARGEST_PAGE: usize = 128 << 20;

/// Objects in a page.
const PAGE: u32 = 500;

/// How long a server that was away may answer that it does not know us, or what we may do: it reads both
/// after it has begun to answer.
const FORGETFUL: Duration = Duration::from_secs(30);

/// How long a server may be away while a step waits for something, before the step ends for now.
pub(in crate::backend) const OUTAGE: Duration = Duration::from_secs(120);

/// How often a list is begun anew that the server forgot in its middle.
const LISTS: u32 = 5;

/// The name under which trueup manages fields.
pub(in crate::backend) const MANAGER: &str = "trueup";

/// An error of a request to an API server.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The connection cannot be opened.
    #[error("{0}")]
    Unusable(String),
    /// No answer, or not in time.
    #[error("the API server does not answer: {0}")]
    Unreachable(String),
    /// The server answered with an error.
    #[error("the API server answers {}", Said(.0))]
    Refused(Box<Status>),
    /// The body is not of the expected shape.
    #[error("the API server sent an answer that cannot be read: {0}")]
    Unreadable(String),
}

/// An error as a server said it.
struct Said<'a>(&'a Status);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}: {}", self.0.reason, self.0.message);
        let text: String = masked(&text)
            .chars()
            .filter(|each| !each.is_control())
            .take(600)
            .collect();
        write!(f, "{} {text}", self.0.code)?;
        match self.0.code {
            401 => f.write_str("; its kubeconfig's user is not known to it, or no longer"),
            403 => f.write_str(
                "; docs/kubernetes.md lists the rights that are needed, docs/metal3.md those for hosts",
            ),
            _ => Ok(()),
        }
    }
}

impl ApiError {
    /// Whether it can pass by itself.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self {
            Self::Unusable(_) => false,
            Self::Unreachable(_) | Self::Unreadable(_) => true,
            Self::Refused(status) => matches!(status.code, 408 | 409 | 410 | 429 | 500..),
        }
    }

    /// Whether the object changed since it was observed.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The code of the answer, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            _ => None,
        }
    }

    /// The error of a step: passing or permanent, beginning with the specification's reason.
    pub(in crate::backend) fn into_error(self, reason: &str) -> ActError {
        let text: Arc<str> = format!("{reason}: {self}").into();
        if self.passes() {
            ActError::Passing(text)
        } else {
            ActError::Permanent(text)
        }
    }
}

/// An API server.
#[derive(Clone)]
pub(in crate::backend) struct Server {
    client: Client,
    cluster: Arc<str>,
    /// Until when its credential counts.
    until: Option<Timestamp>,
    /// When it did not answer, the last time.
    away: Arc<Mutex<Option<Instant>>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.cluster)
    }
}

impl Server {
    pub(in crate::backend) fn new(
        client: Client,
        cluster: Arc<str>,
        until: Option<Timestamp>,
    ) -> Self {
        Self {
            client,
            cluster,
            until,
            away: Arc::default(),
        }
    }

    /// Whether its credential still counts.
    pub(in crate::backend) fn is_valid(&self) -> bool {
        self.until.is_none_or(|until| until > Timestamp::now())
    }

    /// One object; `None` if not found.
    pub(in crate::backend) async fn get<T: DeserializeOwned>(
        &self,
        collection: &str,
        name: &str,
    ) -> Result<Option<T>, ApiError> {
        let request = Resource::new(collection).get(checked(name)?, &GetParams::default());
        found(self.object(request).await)
    }

    /// The answer at a path that is no object's.
    pub(in crate::backend) async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<T, ApiError> {
        self.object(Resource::new(path).list(&ListParams::default()))
            .await
    }

    /// Asks for one object of a collection, to see whether it can be listed.
    pub(in crate::backend) async fn peek(&self, collection: &str) -> Result<(), ApiError> {
        let request = Resource::new(collection).list(&ListParams::default().limit(1));
        self.object::<serde::de::IgnoredAny>(request)
            .await
            .map(drop)
    }

    /// Creates an object.
    pub(in crate::backend) async fn create<T: DeserializeOwned>(
        &self,
        collection: &str,
        object: &Value,
    ) -> Result<T, ApiError> {
        let body = object.to_string().into_bytes();
        self.object(Resource::new(collection).create(&PostParams::default(), body))
            .await
    }

    /// Creates what a path asks for, such as an eviction.
    pub(in crate::backend) async fn post(&self, path: &str, body: &Value) -> Result<(), ApiError> {
        let created = self.create::<serde::de::IgnoredAny>(path, body);
        created.await.map(drop)
    }

    /// Changes an object by a JSON merge patch.
    pub(in crate::backend) async fn merge<T: DeserializeOwned>(
        &self,
        collection: &str,
        name: &str,
        patch: &Value,
    ) -> Result<T, ApiError> {
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        self.patch(collection, name, &parameters, &Patch::Merge(patch))
            .await
    }

    /// Makes an object have the fields that are given, which are trueup's from then on (server-side apply).
    pub(in crate::backend) async fn apply<T: DeserializeOwned>(
        &self,
        collection: &str,
        name: &str,
        object: &Value,
    ) -> Result<T, ApiError> {
        let parameters = PatchParams::apply(MANAGER).force();
        self.patch(collection, name, &parameters, &Patch::Apply(object))
            .await
    }

    async fn patch<T: DeserializeOwned, P: Serialize>(
        &self,
        collection: &str,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<T, ApiError> {
        self.object(Resource::new(collection).patch(checked(name)?, parameters, patch))
            .await
    }

    /// Changes the status of an object by a strategic merge patch, by which conditions that are not named stay.
    pub(in crate::backend) async fn merge_status(
        &self,
        collection: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), ApiError> {
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Strategic(patch);
        let resource = Resource::new(collection);
        let request = resource.patch_subresource("status", checked(name)?, &parameters, &patch);
        let answer = self.object::<serde::de::IgnoredAny>(request).await;
        answer.map(drop)
    }

    /// Deletes an object; whether there was one.
    pub(in crate::backend) async fn delete(
        &self,
        collection: &str,
        name: &str,
        parameters: &DeleteParams,
    ) -> Result<bool, ApiError> {
        let request = Resource::new(collection).delete(checked(name)?, parameters);
        let answer = self.object::<serde::de::IgnoredAny>(request).await;
        found(answer).map(|answer| answer.is_some())
    }

    /// Lists a collection page by page, into a collector that is made anew if the server forgot the
    /// list in its middle (410). Gives the collector and the version at which the list was taken.
    pub(in crate::backend) async fn list<T: DeserializeOwned, C>(
        &self,
        collection: &str,
        parameters: &ListParams,
        fresh: impl Fn() -> C,
        mut take: impl FnMut(&mut C, T),
    ) -> Result<(C, String), ApiError> {
        let mut lists = 1;
        'anew: loop {
            let mut collector = fresh();
            let mut parameters = parameters.clone().limit(PAGE);
            let (mut tokens, mut pages) = (BTreeSet::new(), Pages::begin());
            loop {
                let request = Resource::new(collection).list(&parameters);
                let (page, bytes): (Page<T>, usize) = match self.send(request, LARGEST_PAGE).await {
                    Ok(page) => page,
                    Err(ApiError::Refused(status)) if status.code == 410 && lists < LISTS => {
                        lists += 1;
                        continue 'anew;
                    }
                    Err(error) => return Err(error),
                };
                for item in page.items {
                    take(&mut collector, item);
                }
                let next = page.metadata.next;
                if next.is_empty() {
                    return Ok((collector, page.metadata.resource_version));
                }
                if !tokens.insert(next.clone()) {
                    let text = "a list comes round to a page that was there".to_owned();
                    return Err(ApiError::Unreadable(text));
                }
                pages.and_more(bytes).map_err(ApiError::Unreadable)?;
                parameters.continue_token = Some(next);
            }
        }
    }

    async fn object<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, RequestError>,
    ) -> Result<T, ApiError> {
        let (object, _) = self.send(request, LARGEST_OBJECT).await?;
        Ok(object)
    }

    /// Sends a request, and reads its answer up to a size; also tells how large that was.
    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, RequestError>,
        largest: usize,
    ) -> Result<(T, usize), ApiError> {
        let answer = async {
            let (status, body) = self.begin(request).await?;
            let body = read(body, largest).await?;
            if !status.is_success() {
                return Err(refusal(status, &body));
            }
            let object = serde_json::from_slice(&masked_json(&body))
                .map_err(|error| ApiError::Unreadable(masked(&error.to_string()).into_owned()))?;
            Ok((object, body.len()))
        };
        let late = || ApiError::Unreachable(format!("nothing within {} s", REQUEST.as_secs()));
        let answer = timeout(REQUEST, answer).await;
        answer
            .unwrap_or_else(|_| Err(late()))
            .map_err(|error| self.weigh(error))
    }

    /// Classifies an error in the light of those before: a refusal by a server that has just come back can
    /// pass.
    pub(in crate::backend) fn weigh(&self, error: ApiError) -> ApiError {
        let mut away = lock(&self.away);
        match error {
            ApiError::Unreachable(why) => {
                *away = Some(Instant::now());
                ApiError::Unreachable(why)
            }
            ApiError::Refused(status)
                if matches!(status.code, 401 | 403)
                    && away.is_some_and(|since| since.elapsed() < FORGETFUL) =>
            {
                let said = Said(&status);
                ApiError::Unreachable(format!("it was away, and now answers {said}"))
            }
            error => error,
        }
    }

    /// Sends a request; its answer is read by the caller.
    pub(in crate::backend) async fn begin(
        &self,
        request: Result<Request<Vec<u8>>, RequestError>,
    ) -> Result<(StatusCode, Body), ApiError> {
        let request = request.map_err(|error| ApiError::Unreadable(error.to_string()))?;
        let asked = format!("{} {}", request.method(), request.uri().path());
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            fence::pass().await;
        }
        let began = Instant::now();
        let answer = self.client.send(request.map(Body::from)).await;
        let answer = answer.map_err(|error| ApiError::Unreachable(causes(&error)));
        let (cluster, took) = (&self.cluster, began.elapsed());
        match &answer {
            Ok(answer) => log::debug!("{cluster}: {asked}: {}, in {took:.1?}", answer.status()),
            Err(error) => log::debug!("{cluster}: {asked}: {error}, in {took:.1?}"),
        }
        let answer = answer?;
        Ok((answer.status(), answer.into_body()))
    }
}

/// An object's name as a part of a path.
fn checked(name: &str) -> Result<&str, ApiError> {
    let fits = |each: u8| each.is_ascii_alphanumeric() || b"-._:".contains(&each);
    if !name.is_empty() && name.bytes().all(fits) && name.bytes().any(|each| each != b'.') {
        Ok(name)
    } else {
        Err(ApiError::Unusable(format!(
            "`{}` is no name of an object",
            name.escape_default()
        )))
    }
}

fn found<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(ApiError::Refused(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// The body of an answer, up to a size.
pub(in crate::backend) async fn read(mut body: Body, largest: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::Unreachable(causes(&error)))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > largest {
                return Err(ApiError::Unreadable(format!("more than {largest} bytes")));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// An error with its causes, without secrets; kube's own words for where in it the error came up
/// (`ServiceError:`) mean nothing to an operator.
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let text = chain(error);
    let text = masked(&text);
    let own = ["ServiceError: ", "HyperError: "];
    let rest = own.iter().find_map(|own| text.strip_prefix(own));
    rest.unwrap_or(&text).to_owned()
}

/// The error in an answer that is no success; a proxy on the way may have sent it.
pub(in crate::backend) fn refusal(status: StatusCode, body: &[u8]) -> ApiError {
    let said = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body[..body.len().min(2000)]);
        Status::failure(text.trim(), status.canonical_reason().unwrap_or_default())
    });
    ApiError::Refused(said.with_code(status.as_u16()).boxed())
}

/// Tries up to three times while the error can pass, a little later each time; not again if one try took long, as with a
/// server that takes requests and answers none.
pub(in crate::backend) async fn again<T, F: Future<Output = Result<T, ApiError>>>(
    ask: impl FnMut() -> F,
) -> Result<T, ApiError> {
    const RETRIES: usize = 2;
    const DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(2));
    /// Half of what a request may take.
    const LONGEST: Duration = Duration::from_secs(30);
    let begun = tokio::time::Instant::now();
    ask.retry(policy(DELAYS.0, DELAYS.1, ()).with_max_times(RETRIES))
        .when(|error| error.passes() && begun.elapsed() < LONGEST)
        .notify(|error, wait| log::trace!("{error}: again in {wait:.1?}"))
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_lets_a_request_wait_is_not_asked_again_and_one_that_refuses_is() {
        for (takes, asked) in [(0, 3), (60, 1)] {
            let mut count = 0;
            let tried: Result<(), _> = again(|| {
                count += 1;
                async move {
                    tokio::time::sleep(Duration::from_secs(takes)).await;
                    Err(ApiError::Unreachable("no answer".to_owned()))
                }
            })
            .await;
            assert!(tried.is_err());
            assert_eq!(count, asked, "after {takes} s");
        }
    }

    #[test]
    fn names_that_would_lead_elsewhere_are_no_part_of_a_path() {
        for good in ["n1", "node.example.org", "system:node", "a-b_c"] {
            assert!(checked(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "../pods", "a/b", "a?b", "a%2fb", "a b", "ü"] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_has_just_come_back_may_not_know_yet_what_we_may_do() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        let client = Client::try_from(config).unwrap();
        let server = Server::new(client, Arc::from("kubernetes"), None);
        let forbidden = || refusal(StatusCode::FORBIDDEN, b"");
        assert!(!server.weigh(forbidden()).passes());
        server.weigh(ApiError::Unreachable("connection refused".to_owned()));
        let said = server.clone().weigh(forbidden());
        assert!(said.passes(), "{said}");
        assert!(said.to_string().contains("403"), "{said}");
        tokio::time::sleep(FORGETFUL).await;
        assert!(!server.weigh(forbidden()).passes());
    }

    #[test]
    fn an_answer_says_whether_waiting_helps_and_what_to_do() {
        let table = [
            (503, "", true, "503 Service Unavailable"),
            (
                429,
                r#"{"kind":"Status","code":429,"reason":"TooManyRequests"}"#,
                true,
                "429 TooMany",
            ),
            (
                403,
                r#"{"kind":"Status","reason":"Forbidden","message":"no"}"#,
                false,
                "docs/kubernetes.md",
            ),
            (401, "<html>", false, "not known to it"),
            (
                422,
                r#"{"kind":"Status","reason":"Invalid"}"#,
                false,
                "422 Invalid",
            ),
        ];
        for (code, body, passes, text) in table {
            let error = refusal(StatusCode::from_u16(code).unwrap(), body.as_bytes());
            assert_eq!(error.passes(), passes, "{code}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
