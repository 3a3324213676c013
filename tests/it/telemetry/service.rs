//! The spans of the service: requests, and the actions that they ask for.

use super::{ABOVE, Collector, PARENT, Span, TRACE, dead, steps};
use crate::fixture::{Fixture, wait_until};
use crate::serve::Service;

/// A service that sends its spans to a collector, soon.
fn service(fixture: &Fixture, endpoint: &str) -> Service {
    let mut command = fixture.command(&["serve", "-v"]);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_BSP_SCHEDULE_DELAY", "100");
    Service::spawn(&mut command)
}

fn deployed() -> Fixture {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    fixture
}

/// The span of the only request with a route.
fn request(collector: &Collector, name: &str) -> Span {
    wait_until(name, || !collector.named(name).is_empty());
    collector.one(name)
}

#[test]
fn each_request_has_a_span_with_its_route_and_code() {
    let fixture = deployed();
    let collector = Collector::start();
    let mut service = service(&fixture, &collector.endpoint());
    let path = "/api/v1/nodes/compute11";
    let answer = service.request("GET", path, &[("traceparent", PARENT)], "");
    assert_eq!(answer.code, 200, "{answer:?}");
    let span = request(&collector, "GET /api/v1/nodes/{node}");
    assert_eq!(span.kind, 2);
    assert_eq!((&*span.trace, &*span.parent), (TRACE, ABOVE));
    for (attribute, expected) in [
        ("http.request.method", "GET"),
        ("http.route", "/api/v1/nodes/{node}"),
        ("url.path", "/api/v1/nodes/compute11"),
        ("url.scheme", "http"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(span.attribute(attribute), expected, "{attribute}");
    }
    let id = answer.header("x-trueup-req").unwrap().to_uppercase();
    assert_eq!(span.attribute("trueup.request"), id);
    assert_eq!(span.failure, None);
    // What others send chooses neither names nor parents.
    let long = "a".repeat(9000);
    for headers in [
        &[("traceparent", "00-x")][..],
        &[("traceparent", PARENT), ("traceparent", PARENT)],
        &[("traceparent", &long)],
    ] {
        let before = collector.named("GET /healthz").len();
        assert_eq!(service.request("GET", "/healthz", headers, "").code, 200);
        wait_until("the probe", || {
            collector.named("GET /healthz").len() > before
        });
        let span = collector.named("GET /healthz").pop().unwrap();
        assert_eq!((&*span.parent, span.trace == TRACE), ("", false));
    }
    let nothing = format!("/nothing/{}?token=hunter2", "b".repeat(9000));
    assert_eq!(service.request("BREW", &nothing, &[], "").code, 404);
    let span = request(&collector, "_OTHER");
    assert!(span.attribute("url.path").len() <= 4096);
    assert_eq!(span.attribute("http.response.status_code"), "404");
    assert_eq!(span.failure, None, "the caller's mistake");
    assert!(!collector.bodies().contains("hunter2"));
    // The span of the process comes at its end, and what waits with it.
    assert!(collector.named("trueup serve").is_empty());
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    assert_eq!(
        collector.one("trueup serve").attribute("process.exit.code"),
        "0"
    );
}

#[test]
fn an_action_is_traced_below_its_request() {
    let fixture = crate::serve::deployed("");
    let collector = Collector::start();
    let service = service(&fixture, &collector.endpoint());
    let path = "/api/v1.0/nodes/compute11/drain";
    let asynchronous = [("Prefer", "respond-async"), ("traceparent", PARENT)];
    let answer = service.request("POST", path, &asynchronous, "");
    assert_eq!(answer.code, 202, "{answer:?}");
    let asked = request(&collector, "POST /api/v1.0/nodes/{node}/drain");
    assert_eq!(asked.trace, TRACE);
    let action = request(&collector, "action");
    assert_eq!(action.parent, asked.id);
    assert_eq!(
        action.attribute("trueup.request"),
        asked.attribute("trueup.request")
    );
    for phase in ["load", "plan"] {
        let span = request(&collector, phase);
        assert_eq!(
            (&span.trace, &span.parent),
            (&asked.trace, &action.id),
            "{phase}"
        );
    }
    let spans = steps(&collector);
    let code = action.attribute("trueup.action.code");
    assert!(!spans.is_empty(), "{code}: {:?}", collector.names());
    let of_run = collector.one("apply");
    assert_eq!(of_run.parent, action.id);
    assert!(spans.values().all(|span| span.parent == of_run.id));
}

#[test]
fn a_service_without_its_collector_warns_once_and_serves() {
    let fixture = deployed();
    let mut service = service(&fixture, &dead());
    assert_eq!(service.get("/healthz").code, 200);
    let warning = "warning: spans are not exported: ";
    wait_until("it is told at once", || service.log().contains(warning));
    for _ in 0..5 {
        assert_eq!(service.get("/api/v1/nodes").code, 200);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    let log = service.log();
    assert_eq!(log.matches("not exported").count(), 1, "{log}");
}
