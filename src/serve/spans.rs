//! The span of a request, by the semantic conventions of OpenTelemetry for HTTP servers.

use axum::extract::{MatchedPath, Request};
use http::{HeaderMap, Method, StatusCode};
use opentelemetry::trace::{SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};

use super::listen::{Peer, Scheme};
use crate::telemetry::{clipped, parent, tracer};

/// The methods by their names; a request with another one must not choose an attribute.
const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::CONNECT,
    Method::OPTIONS,
    Method::TRACE,
    Method::PATCH,
];

/// Begins the span of a request, below the one that its headers name. The query is left out: it may hold what is secret.
pub(super) fn begin(request: &Request, id: &str) -> Context {
    let headers = request.headers();
    let context = parent(only(headers, "traceparent"), only(headers, "tracestate"));
    let method = match METHODS.contains(request.method()) {
        true => request.method().as_str(),
        false => "_OTHER",
    };
    let extensions = request.extensions();
    let route = extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    let scheme = extensions.get::<Scheme>().map_or("http", |scheme| scheme.0);
    let mut attributes = vec![
        KeyValue::new("http.request.method", method.to_owned()),
        KeyValue::new("url.scheme", scheme),
        KeyValue::new("url.path", clipped(request.uri().path())),
        KeyValue::new("trueup.request", id.to_owned()),
    ];
    attributes.extend(route.map(|route| KeyValue::new("http.route", route.to_owned())));
    if let Some(Peer::Tcp { address, .. }) = extensions.get::<Peer>() {
        let client = address.ip().to_string();
        attributes.push(KeyValue::new("client.address", client));
    }
    let name = match route {
        Some(route) => format!("{method} {route}"),
        None => method.to_owned(),
    };
    let tracer = tracer();
    let span = tracer
        .span_builder(name)
        .with_kind(SpanKind::Server)
        .with_attributes(attributes)
        .start_with_context(&tracer, &context);
    context.with_span(span)
}

/// Ends it with the answer, whose body may still be on its way.
pub(super) fn end(context: &Context, status: StatusCode) {
    let span = context.span();
    let code = status.as_u16();
    span.set_attribute(KeyValue::new("http.response.status_code", i64::from(code)));
    if status.is_server_error() {
        span.set_attribute(KeyValue::new("error.type", code.to_string()));
        span.set_status(Status::error(""));
    }
    span.end();
}

/// The value of a header that is given once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none());
    value?.to_str().ok()
}
