//! Traces: what commands and the service send to a collector, and that a bad collector changes nothing else.

mod broken;
mod collector;
mod commands;
#[cfg(unix)]
mod service;

pub(crate) use collector::{Behaviour, Collector, Span, dead};

use crate::fixture::{Ended, Fixture};

/// The parent of a trace, and its ids.
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const ABOVE: &str = "00f067aa0ba902b7";

/// Runs a command with variables of OpenTelemetry.
fn run(fixture: &Fixture, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = fixture.command(arguments);
    command.envs(variables.iter().copied());
    command.output().unwrap().into()
}

/// Runs a command that sends its spans to a collector.
fn traced(fixture: &Fixture, collector: &Collector, arguments: &[&str]) -> Ended {
    let endpoint = collector.endpoint();
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)];
    run(fixture, arguments, &variables)
}

/// Spans of steps by the step.
fn steps(collector: &Collector) -> std::collections::BTreeMap<String, Span> {
    let spans = collector.spans().into_iter();
    let steps = spans.filter(|span| span.attributes.contains_key("trueup.step"));
    steps
        .map(|span| (span.attribute("trueup.step").to_owned(), span))
        .collect()
}
