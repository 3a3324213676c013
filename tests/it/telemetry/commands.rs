//! The spans of commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{ABOVE, Behaviour, Collector, PARENT, Span, TRACE, run, steps, traced};
use crate::fixture::{Ended, Fixture};

/// The events of a run of a kind, as the command printed them.
fn events(ended: &Ended, kind: &str) -> Vec<Value> {
    let lines = ended.stdout.lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == kind).collect()
}

/// Checks that a span is below another one, and within its time.
#[track_caller]
fn below(span: &Span, above: &Span) {
    assert_eq!(
        (&span.trace, &span.parent),
        (&above.trace, &above.id),
        "{span:?}\n{above:?}"
    );
    assert!(span.start <= span.end, "{span:?}");
    // The times of steps are those of events, in milliseconds.
    let tolerance = 1_000_000;
    assert!(above.start <= span.start + tolerance, "{span:?} {above:?}");
    assert!(span.end <= above.end + tolerance, "{span:?} {above:?}");
}

/// Checks that there is one span a step, as it was told when it ended, and no other.
#[track_caller]
fn one_a_step(collector: &Collector, finished: &[Value], of_run: &Span) -> BTreeMap<String, Span> {
    let spans = steps(collector);
    assert_eq!(spans.len(), finished.len());
    let all = collector.spans().into_iter();
    let all = all.filter(|span| span.attributes.contains_key("trueup.step"));
    assert_eq!(all.count(), finished.len());
    for event in finished {
        let span = &spans[event["step"].as_str().unwrap()];
        below(span, of_run);
        let step = event["step"].as_str().unwrap();
        let kind = step.split('/').next().unwrap();
        assert_eq!(span.name, kind);
        assert_eq!(span.attribute("trueup.step.kind"), kind);
        assert_eq!(span.attribute("trueup.outcome"), event["outcome"]);
        assert_eq!(span.attribute("trueup.run"), of_run.attribute("trueup.run"));
        let node = span.attributes.get("trueup.node").map(|node| &**node);
        assert_eq!(node, event["node"].as_str());
        let time = event["time"].as_str().unwrap();
        let time: jiff::Timestamp = time.parse().unwrap();
        assert_eq!(i128::from(span.end), time.as_nanosecond());
    }
    spans
}

#[test]
fn an_apply_is_a_trace_of_its_phases_and_of_each_step() {
    let fixture = Fixture::one_rack();
    let collector = Collector::start();
    let apply = ["apply", "--yes", "--format", "json"];
    let ended = traced(&fixture, &collector, &apply).with(0);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    let root = collector.one("trueup apply");
    assert_eq!((&*root.parent, root.kind), ("", 1));
    assert_eq!(root.attribute("process.exit.code"), "0");
    assert_eq!(root.attribute("process.executable.name"), "trueup");
    assert_eq!(root.failure, None);
    assert_eq!(root.resource["service.name"], "trueup");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(root.resource["service.version"], version);
    for phase in ["load", "observe", "plan", "apply"] {
        let phases = collector.named(phase);
        assert!(!phases.is_empty(), "{phase}: {:?}", collector.names());
        for span in phases {
            below(&span, &root);
        }
    }
    let started = events(&ended, "run-started").remove(0);
    let of_run = collector.one("apply");
    for (attribute, field) in [
        ("trueup.run", "run"),
        ("trueup.site", "site"),
        ("trueup.action", "action"),
        ("trueup.revision", "revision"),
    ] {
        assert_eq!(of_run.attribute(attribute), started[field], "{attribute}");
    }
    assert_eq!(of_run.attribute("trueup.outcome"), "succeeded");
    assert_eq!(of_run.attribute("trueup.resumed"), "false");
    let spans = one_a_step(&collector, &events(&ended, "step-finished"), &of_run);
    let deploy = spans.values().find(|span| span.name == "deploy").unwrap();
    assert!(deploy.attributes.contains_key("trueup.group"), "{deploy:?}");
    let gates = of_run.events.iter().filter(|(name, _)| name == "gate");
    assert_eq!(gates.count(), events(&ended, "gate-evaluated").len());
}

#[test]
fn steps_that_fail_are_told_with_their_reason_and_so_is_the_command() {
    let fixture = Fixture::one_rack_with_faults(
        "[{nodes: [ntp01], step: prepare, outcome: fail, message: no power}]",
    );
    let collector = Collector::start();
    let ended = traced(
        &fixture,
        &collector,
        &["apply", "--yes", "--format", "json"],
    );
    assert_eq!(ended.code, 7, "{ended:?}");
    let failed = events(&ended, "step-finished")
        .into_iter()
        .find(|event| event["outcome"] == "failed")
        .unwrap();
    let span = &steps(&collector)[failed["step"].as_str().unwrap()];
    let message = failed["message"].as_str().unwrap();
    assert_eq!(span.failure.as_deref(), Some(message));
    assert_eq!(span.attribute("trueup.outcome"), "failed");
    let exceptions = span.events.iter().filter(|(name, _)| name == "exception");
    let exceptions: Vec<_> = exceptions.collect();
    assert_eq!(exceptions.len(), 1, "{span:?}");
    assert_eq!(exceptions[0].1["exception.message"], message);
    let root = collector.one("trueup apply");
    assert_eq!(root.attribute("process.exit.code"), "7");
    assert_eq!(root.attribute("error.type"), "7");
    assert!(root.failure.is_some(), "{root:?}");
    let of_run = collector.one("apply");
    assert!(of_run.failure.is_some(), "{of_run:?}");
    assert_ne!(of_run.attribute("trueup.outcome"), "succeeded");
}

#[test]
fn every_command_has_a_span_of_its_name_and_exit_code() {
    let fixture = Fixture::one_rack();
    for (arguments, name, code) in [
        (&["validate"][..], "trueup validate", 0),
        (&["plan", "--detailed-exitcode"], "trueup plan", 3),
        (&["run", "parts", "nothing.plan"], "trueup run parts", 1),
        (&["show", "nothing"], "trueup show", 1),
        (&["actions"], "trueup actions", 0),
        (&["status"], "trueup status", 0),
    ] {
        let collector = Collector::start();
        let ended = traced(&fixture, &collector, arguments);
        let root = collector.one(name);
        let expected = ended.code.to_string();
        assert_eq!(root.attribute("process.exit.code"), expected, "{name}");
        assert_eq!(ended.code != 0, code != 0, "{name}: {ended:?}");
        // Changes are none.
        let has_failed = !matches!(ended.code, 0 | 2 | 3);
        assert_eq!(root.failure.is_some(), has_failed, "{name}: {root:?}");
    }
}

#[test]
fn a_run_that_is_resumed_and_the_parts_of_one_are_told_like_others() {
    let fixture = Fixture::one_rack();
    let collector = Collector::start();
    let stopped = ["apply", "--yes", "--stop-after", "0"];
    traced(&fixture, &collector, &stopped).with(8);
    let first = collector.one("apply");
    assert_eq!(first.attribute("trueup.outcome"), "interrupted");
    let collector = Collector::start();
    let resume = ["apply", "--resume", "--format", "json"];
    let ended = traced(&fixture, &collector, &resume).with(0);
    let of_run = collector.one("apply");
    assert_eq!(of_run.attribute("trueup.resumed"), "true");
    assert_eq!(
        of_run.attribute("trueup.run"),
        first.attribute("trueup.run")
    );
    let finished = events(&ended, "step-finished").len();
    assert_eq!((steps(&collector).len(), finished > 0), (finished, true));

    let fixture = Fixture::one_rack();
    fixture.run(&["plan", "-o", "saved.plan"]).with(0);
    let begin = ["run", "begin", "saved.plan", "--run", "r"];
    fixture.run(&begin).with(0);
    let status = fixture.run(&["run", "status", "r", "--format", "json"]);
    let status = status.with(0).json();
    let part = status["parts"][0]["part"].as_str().unwrap();
    let collector = Collector::start();
    traced(&fixture, &collector, &["run", "part", "r", part]).with(0);
    let root = collector.one("trueup run part");
    let of_part = collector.one("apply");
    below(&of_part, &root);
    assert_eq!(of_part.attribute("trueup.part"), part);
    assert!(!steps(&collector).is_empty());
}

#[test]
fn the_parent_in_the_environment_is_taken_and_one_that_is_none_ignored() {
    let fixture = Fixture::one_rack();
    let collector = Collector::start();
    let endpoint = collector.endpoint();
    let validate = |more: &[(&str, &str)]| {
        let variables = [&[("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)], more].concat();
        run(&fixture, &["validate"], &variables).with(0);
        collector.spans()
    };
    let spans = validate(&[("TRACEPARENT", PARENT), ("TRACESTATE", "vendor=x")]);
    let root = collector.one("trueup validate");
    assert_eq!((&*root.trace, &*root.parent), (TRACE, ABOVE));
    assert_eq!(root.state, "vendor=x");
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:?}");
    let mut before = spans.len();
    let long = format!("{PARENT}{}", "-x".repeat(4000));
    for hostile in [
        "",
        "x",
        &long,
        "00-\u{1b}[31m-00f067aa0ba902b7-01",
        "ff-0-0-0",
    ] {
        let spans = validate(&[("TRACEPARENT", hostile)]);
        assert!(spans.len() > before, "{hostile}");
        let new = &spans[before..];
        assert!(new.iter().all(|span| span.trace != TRACE), "{hostile}");
        let roots = new.iter().filter(|span| span.parent.is_empty());
        assert_eq!(roots.count(), 1, "{hostile}");
        before = spans.len();
    }
    // A parent that is not recorded: neither is this.
    let unrecorded = format!("{}00", PARENT.trim_end_matches("01"));
    assert_eq!(validate(&[("TRACEPARENT", &unrecorded)]).len(), before);
}

#[test]
fn nothing_is_sent_unless_it_is_asked_for() {
    let fixture = Fixture::one_rack();
    let collector = Collector::start();
    let endpoint = collector.endpoint();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint);
    for variables in [
        &[("OTEL_SERVICE_NAME", "x"), ("TRACEPARENT", PARENT)][..],
        &[endpoint, ("OTEL_SDK_DISABLED", "true")],
        &[endpoint, ("OTEL_TRACES_EXPORTER", "none")],
        &[endpoint, ("OTEL_TRACES_SAMPLER", "always_off")],
        &[
            endpoint,
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0"),
        ],
    ] {
        let ended = run(&fixture, &["validate"], variables).with(0);
        assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
        assert_eq!(collector.heads(), [""; 0], "{variables:?}");
    }
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "no endpoint"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file"),
    ] {
        let ended = run(&fixture, &["validate"], &[endpoint, (variable, value)]);
        let ended = ended.with(0).saying("warning: traces are not exported: ");
        assert_eq!(ended.stderr.matches("warning").count(), 1, "{ended:?}");
        assert_eq!(collector.heads(), [""; 0], "{variable}");
    }
}

#[test]
fn the_variables_of_opentelemetry_are_honoured() {
    let fixture = Fixture::one_rack();
    let collector = Collector::start();
    let traces = format!("{}/own/path", collector.endpoint());
    let variables = [
        ("OTEL_TRACES_EXPORTER", "otlp"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &*traces),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b,x-other=c"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_SERVICE_NAME", "pipeline"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=lab,service.version=9",
        ),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1"),
    ];
    run(&fixture, &["validate"], &variables).with(0);
    let heads = collector.heads();
    assert_eq!(heads.len(), 1);
    let head = heads[0].to_lowercase();
    assert!(head.starts_with("post /own/path http/1.1"), "{head}");
    for line in [
        "x-tenant: a b",
        "x-other: c",
        "content-encoding: gzip",
        "content-type: application/x-protobuf",
    ] {
        assert!(head.lines().any(|each| each == line), "{line}: {head}");
    }
    let root = collector.one("trueup validate");
    let resource: BTreeMap<String, String> = (*root.resource).clone();
    assert_eq!(resource["service.name"], "pipeline");
    assert_eq!(resource["service.version"], "9");
    assert_eq!(resource["deployment.environment.name"], "lab");
    // The endpoint for all signals has a path for each.
    let collector = Collector::start();
    traced(&fixture, &collector, &["validate"]).with(0);
    let head = collector.heads().remove(0);
    assert!(head.starts_with("POST /v1/traces "), "{head}");
}

#[test]
fn a_collector_with_a_certificate_is_trusted_by_its_authority_only() {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let der = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], der)
        .unwrap();
    let collector = Collector::that(Behaviour::Encrypts(Arc::new(config)));
    let endpoint = format!("https://localhost:{}", collector.port());
    let fixture = Fixture::one_rack();
    let file = fixture.checkout.outside().join("collector.pem");
    std::fs::write(&file, key.cert.pem()).unwrap();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint);
    let headers = (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "authorization=Bearer%20hunter2",
    );
    let ended = run(&fixture, &["validate"], &[endpoint, headers]).with(0);
    let ended = ended.saying("not exported: ");
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    assert_eq!(collector.heads(), [""; 0]);
    let certificate = ("OTEL_EXPORTER_OTLP_CERTIFICATE", file.to_str().unwrap());
    let variables = [endpoint, headers, certificate];
    let ended = run(&fixture, &["validate"], &variables).with(0);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    collector.one("trueup validate");
    let head = collector.heads().remove(0).to_lowercase();
    assert!(head.contains("authorization: bearer hunter2"), "{head}");
}
