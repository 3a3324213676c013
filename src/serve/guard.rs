//! The frame of every request: refusals that no route sees, its id, its rate, and an answer whatever happens.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode, Version};
use opentelemetry::context::FutureExt as _;

use super::answer::Refusal;
use super::call::RequestIds;
use super::health::{IMAGES, PROBES};
use super::listen::Peer;
use super::shared::Shared;
use super::shipyard::as_uuid;
use super::spans;
use super::subject::CALLER;
use crate::report::Visible;

/// The header of a request's id, in answers.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-trueup-req");

/// The same as Shipyard has it: by a UUID, which has the bits of the id.
const SHIPYARD_ID: HeaderName = HeaderName::from_static("x-shipyard-req");

/// The header of the caller's own id.
const MARKER: HeaderName = HeaderName::from_static("x-context-marker");

/// Beginnings of headers by which a proxy of Keystone's middleware would name the caller: a caller's own are dropped.
const IDENTITY: [&str; 12] = [
    "x-identity-",
    "x-user",
    "x-project",
    "x-tenant",
    "x-domain",
    "x-role",
    "x-group",
    "x-service-",
    "x-is-admin",
    "x-remote-",
    "x-forwarded-",
    "x-end-user",
];

/// Guards a request before it is routed.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let ids = ids(&shared, request.headers());
    let peer = request.extensions().get::<Peer>().cloned();
    let checked = match &peer {
        None => Err(Refusal::internal()),
        // A supervisor that is refused would take a busy service for a dead one.
        // A controller reads an image in thousands of ranges.
        Some(peer) if !is_unbounded(request.uri().path()) && !shared.rates.allow(peer) => {
            Err(Refusal::too_many())
        }
        Some(_) => check(&request),
    };
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let span = spans::begin(&request, &ids.id);
    let caller = Arc::<OnceLock<String>>::default();
    let mut response = match checked {
        Err(refusal) => refusal.into_response(),
        Ok(()) => {
            drop_identity(request.headers_mut());
            request.extensions_mut().insert(ids.clone());
            let answer = next.run(request).with_context(span.clone());
            CALLER.scope(caller.clone(), answer).await
        }
    };
    let headers = response.headers_mut();
    let own = Some(ids.id.to_string());
    let of_shipyard = names_as_shipyard(&path).then(|| as_uuid(&ids.id));
    let marker = ids.marker.as_deref().map(str::to_owned);
    for (name, value) in [
        (REQUEST_ID, own),
        (SHIPYARD_ID, of_shipyard),
        (MARKER, marker),
    ] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            headers.insert(name, value);
        }
    }
    spans::end(&span, response.status());
    let path = Visible(&path);
    let level = match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => log::Level::Warn,
        _ => log::Level::Info,
    };
    let peer = peer.map_or_else(String::new, |peer| format!(" at {peer}"));
    log::log!(
        level,
        "{method} {path} by {}{peer}: {}, request {}",
        caller.get().map_or("an unknown caller", String::as_str),
        response.status(),
        ids.id
    );
    let headers = response.headers_mut();
    headers.insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        http::header::CACHE_CONTROL,
        HeaderValue::from_static("no-store"),
    );
    response
}

/// Whether a resource is asked for without a bound of its rate.
fn is_unbounded(path: &str) -> bool {
    PROBES.contains(&path) || path.starts_with(IMAGES)
}

/// Whether a resource is one of the originals', whose answers Shipyard names.
fn names_as_shipyard(path: &str) -> bool {
    path.starts_with("/api/v1.0/") || path == "/versions"
}

fn ids(shared: &Shared, headers: &HeaderMap) -> RequestIds {
    let marker = headers.get(MARKER).and_then(|value| value.to_str().ok());
    let marker = marker.and_then(|text| text.parse::<uuid::Uuid>().ok());
    RequestIds {
        id: Arc::from(shared.new_id()),
        marker: marker.map(|marker| Arc::from(marker.to_string())),
    }
}

/// Refuses a request whose length or target two readers could take for different ones, and one that a page of another
/// site makes a browser send.
fn check(request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err(Refusal::length_required());
    }
    let count = |name| headers.get_all(name).iter().count();
    if count(&CONTENT_LENGTH) > 1 {
        return Err(Refusal::bad_request("`Content-Length` is given twice").closing());
    }
    let needed = usize::from(request.version() >= Version::HTTP_11);
    if count(&HOST) < needed || count(&HOST) > 1 {
        return Err(Refusal::bad_request("the request must have one `Host`").closing());
    }
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str());
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    let is_elsewhere =
        |authority: &str| host.is_none_or(|host| !host.eq_ignore_ascii_case(authority.as_bytes()));
    if authority.is_some_and(is_elsewhere) {
        return Err(Refusal::bad_request("the target of the request is not its `Host`").closing());
    }
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_foreign = site.is_some_and(|site| site != b"same-origin" && site != b"none");
    let has_origin = headers.contains_key(ORIGIN) && site.is_none();
    if !is_safe && (is_foreign || has_origin) {
        let text = "a page of another site must not send this request";
        return Err(Refusal::forbidden(text));
    }
    Ok(())
}

fn drop_identity(headers: &mut HeaderMap) {
    let is_identity = |name: &&HeaderName| {
        let name = name.as_str();
        IDENTITY.iter().any(|beginning| name.starts_with(beginning))
    };
    let dropped: Vec<HeaderName> = headers.keys().filter(is_identity).cloned().collect();
    for name in dropped {
        headers.remove(name);
    }
}

/// The answer to a request whose handler panicked.
pub(super) fn panicked(_: Box<dyn Any + Send>) -> Response {
    Refusal::internal().into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn request(headers: &[(&'static str, &'static str)]) -> Request {
        let mut request = Request::post("/x").header(HOST, "h");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn requests_that_two_readers_may_read_differently_are_refused() {
        assert_eq!(check(&request(&[("content-length", "0")])), Ok(()));
        for headers in [
            &[("transfer-encoding", "chunked")][..],
            &[("transfer-encoding", "identity")],
            &[("content-length", "5"), ("transfer-encoding", "chunked")],
            &[("content-length", "5"), ("content-length", "5")],
            &[("host", "other")],
            &[("origin", "http://elsewhere")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
        ] {
            assert!(check(&request(headers)).is_err(), "{headers:?}");
        }
        for headers in [
            &[("sec-fetch-site", "same-origin")][..],
            &[("sec-fetch-site", "none")],
        ] {
            assert_eq!(check(&request(headers)), Ok(()));
        }
    }

    #[test]
    fn headers_that_name_a_caller_are_dropped_and_tokens_stay() {
        let mut headers = request(&[
            ("x-roles", "admin"),
            ("x-identity-status", "Confirmed"),
            ("x-user-id", "1"),
            ("x-service-roles", "admin"),
            ("x-project-id", "1"),
            ("x-auth-token", "t"),
        ])
        .headers()
        .clone();
        drop_identity(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["host", "x-auth-token"]);
    }
}
