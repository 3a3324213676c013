//! Traces of this process: the variables of OpenTelemetry, the span of the command, and what is told of spans that were lost.
//!
//! `OTEL_*` comes from the operator's environment, which the repository cannot set, so that the endpoint needs no trust
//! of its own. Whatever is wrong with it or with the collector is a warning: no exit code changes.

use std::path::Path;
use std::time::Duration;

use super::context::Printer;
use super::exit;
use crate::backend::Secret;
use crate::backend::http::{Identity, Trust, is_loopback};
use crate::diagnostic::chain;
use crate::report::{Visible, counted};
use crate::repository::{Links, read_file};
use crate::telemetry::{Export, ExportSettings, Losses, Notice, Scope, parent};

/// How long the end of a command waits for the collector.
const FLUSH: Duration = Duration::from_secs(3);

/// How long a request to the collector may take, in milliseconds, unless set otherwise.
const TIMEOUT: u64 = 10_000;

/// Most spans that wait to be sent, unless set otherwise.
const QUEUE: usize = 2048;

/// Most spans that may be set to wait.
const LONGEST_QUEUE: usize = 1 << 16;

/// The largest file of certificates, in bytes.
const LARGEST: u64 = 1 << 20;

/// The traces of a command, and its own span.
pub(super) struct Telemetry {
    printer: Printer,
    root: Scope,
    export: Export,
}

impl Telemetry {
    /// Begins the span of a command if the environment asks for traces; `stays`: the process does not end soon, so
    /// that losses are told at once.
    pub(super) fn begin(command: String, printer: Printer, stays: bool) -> Option<Self> {
        let export = match exported(&variable, printer, stays) {
            Ok(export) => export?,
            Err(why) => {
                printer.tell(&format!("warning: traces are not exported: {why}"));
                return None;
            }
        };
        let (traceparent, tracestate) = (variable("TRACEPARENT"), variable("TRACESTATE"));
        let above = parent(traceparent.as_deref(), tracestate.as_deref());
        let root = Scope::root(command, &above);
        root.set("process.executable.name", "trueup");
        root.set("process.pid", i64::from(std::process::id()));
        Some(Self {
            printer,
            root,
            export,
        })
    }

    /// Ends the span of the command, and waits a little for the collector.
    pub(super) fn end(self, code: u8, failure: Option<&str>) {
        let Self {
            printer,
            root,
            export,
        } = self;
        root.set("process.exit.code", i64::from(code));
        if exit::is_failure(code) {
            root.set("error.type", code.to_string());
            root.fail(failure.unwrap_or_default());
        }
        drop(root);
        if let Some(Losses { lost, ended, why }) = export.end(FLUSH) {
            let spans = usize::try_from(ended).unwrap_or(usize::MAX);
            let of = counted(spans, "span was", "spans were");
            let why = Visible(&why);
            printer.tell(&format!("warning: {lost} of {of} not exported: {why}"));
        }
    }
}

/// A variable that is set, to anything but an empty text.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads variables.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A variable for traces alone, else the one for all signals.
fn of_traces(environment: Environment<'_>, name: &str) -> Option<String> {
    let own = environment(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
    own.or_else(|| environment(&format!("OTEL_EXPORTER_OTLP_{name}")))
}

/// The export that the environment asks for; `None`: none.
fn exported(
    environment: Environment<'_>,
    printer: Printer,
    stays: bool,
) -> Result<Option<Export>, String> {
    if !is_wanted(environment)? {
        return Ok(None);
    }
    let notice = stays.then(|| -> Notice {
        Box::new(move |why| {
            let why = Visible(why);
            printer.tell(&format!("warning: spans are not exported: {why}"));
        })
    });
    let export = Export::begin(ExportSettings {
        tls: trust(environment)?
            .config()
            .map_err(|error| format!("the certificates for the collector: {}", chain(&error)))?,
        proxied: !is_here(environment),
        timeout: Duration::from_millis(number(of_traces(environment, "TIMEOUT"), TIMEOUT).max(1)),
        queue: number(environment("OTEL_BSP_MAX_QUEUE_SIZE"), QUEUE).clamp(1, LONGEST_QUEUE),
        notice,
    });
    export.map(Some).map_err(|error| chain(&error))
}

fn number<T: std::str::FromStr>(text: Option<String>, otherwise: T) -> T {
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Whether spans are to be exported: if an endpoint is named, or the exporter.
fn is_wanted(environment: Environment<'_>) -> Result<bool, String> {
    let is_disabled = environment("OTEL_SDK_DISABLED");
    if is_disabled.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    let endpoint = of_traces(environment, "ENDPOINT");
    match environment("OTEL_TRACES_EXPORTER") {
        None if endpoint.is_none() => return Ok(false),
        None => {}
        Some(exporters) => {
            let mut exporters = exporters.split(',').map(str::trim);
            if exporters.clone().any(|exporter| exporter == "none") {
                return Ok(false);
            }
            if !exporters.any(|exporter| exporter == "otlp") {
                let text = "`OTEL_TRACES_EXPORTER` names neither `otlp` nor `none`";
                return Err(text.to_owned());
            }
        }
    }
    let protocol = of_traces(environment, "PROTOCOL");
    if protocol.is_some_and(|protocol| protocol != "http/protobuf") {
        let text = "`OTEL_EXPORTER_OTLP_PROTOCOL` is not `http/protobuf`, the only protocol that is supported";
        return Err(text.to_owned());
    }
    if let Some(endpoint) = endpoint {
        check(environment, &endpoint)?;
    }
    Ok(true)
}

/// Checks an endpoint, of which nothing is repeated: it may hold a credential.
fn check(environment: Environment<'_>, endpoint: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(endpoint).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(url) = url else {
        return Err("`OTEL_EXPORTER_OTLP_ENDPOINT` is no URL with `http` or `https`".to_owned());
    };
    let headers = of_traces(environment, "HEADERS").unwrap_or_default();
    let mut names = headers.split(',').filter_map(|pair| pair.split_once('='));
    let is_authorized = names.any(|(name, _)| name.trim().eq_ignore_ascii_case("authorization"));
    let has_credential = is_authorized || !url.username().is_empty() || url.password().is_some();
    if url.scheme() == "http" && has_credential && !url.host_str().is_some_and(is_loopback) {
        let text = "the credential for the collector would be sent over plain HTTP beyond this machine; use `https`";
        return Err(text.to_owned());
    }
    Ok(())
}

/// Whether the collector is on this machine: no proxy may come between, which would get what is meant for it.
fn is_here(environment: Environment<'_>) -> bool {
    let endpoint = of_traces(environment, "ENDPOINT");
    let url = endpoint.map(|endpoint| reqwest::Url::parse(&endpoint));
    url.is_none_or(|url| url.is_ok_and(|url| url.host_str().is_some_and(is_loopback)))
}

/// Whom the connection to the collector trusts.
fn trust(environment: Environment<'_>) -> Result<Trust, String> {
    let read = |name: &str| -> Result<Option<Secret>, String> {
        let Some(path) = of_traces(environment, name) else {
            return Ok(None);
        };
        let failed = |why: String| format!("the file of `OTEL_EXPORTER_OTLP_{name}`: {why}");
        let bytes = read_file(Path::new(&path), LARGEST, Links::Followed);
        let text = String::from_utf8(bytes.map_err(|error| failed(chain(&error)))?);
        let text = text.map_err(|_| failed("it is no PEM".to_owned()))?;
        Ok(Some(Secret::new(text)))
    };
    let identity = match (read("CLIENT_CERTIFICATE")?, read("CLIENT_KEY")?) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) => None,
        _ => {
            let text = "`OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE` and `OTEL_EXPORTER_OTLP_CLIENT_KEY` belong together";
            return Err(text.to_owned());
        }
    };
    Ok(Trust {
        authorities: read("CERTIFICATE")?,
        identity,
        ..Trust::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(set: &[(&str, &str)]) -> Result<bool, String> {
        is_wanted(&|name| {
            let found = set.iter().find(|(each, _)| *each == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn spans_are_exported_where_an_endpoint_or_the_exporter_is_named() {
        const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        const TRACES: (&str, &str) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/v1/traces");
        for (set, expected) in [
            (&[][..], false),
            (&[("OTEL_SERVICE_NAME", "x")], false),
            (&[("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://c")], false),
            (&[ENDPOINT], true),
            (&[TRACES], true),
            (&[("OTEL_TRACES_EXPORTER", "otlp")], true),
            (&[("OTEL_TRACES_EXPORTER", "console, otlp")], true),
            (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")], false),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")], false),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "1")], true),
            (
                &[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
                true,
            ),
        ] {
            assert_eq!(wanted(set), Ok(expected), "{set:?}");
        }
    }

    #[test]
    fn what_is_not_supported_is_told_without_what_may_be_a_credential() {
        let authorization = (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "a=b,Authorization=Bearer%20hunter2",
        );
        for (endpoint, more, part) in [
            ("http://c", ("OTEL_TRACES_EXPORTER", "hunter2"), "EXPORTER"),
            (
                "http://c",
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                "PROTOCOL",
            ),
            (
                "http://c",
                ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
                "PROTOCOL",
            ),
            ("hunter2:4318", ("", ""), "no URL"),
            ("hunter2", ("", ""), "no URL"),
            ("ftp://hunter2", ("", ""), "no URL"),
            ("http://u:hunter2@c", ("", ""), "plain HTTP"),
            ("http://c", authorization, "plain HTTP"),
        ] {
            let why = wanted(&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), more]).unwrap_err();
            assert!(why.contains(part) && !why.contains("hunter2"), "{why}");
        }
        for endpoint in ["https://u:p@c", "http://u:p@127.0.0.1:4318"] {
            let set = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), authorization];
            assert_eq!(wanted(&set), Ok(true), "{endpoint}");
        }
    }
}
