//! Traces in a real collector, and metrics in a real Prometheus.

#[path = "../it/telemetry/collector.rs"]
#[expect(
    dead_code,
    reason = "a collector that behaves badly, and what it keeps of requests, are for tests of commands"
)]
pub(crate) mod collector;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use self::collector::Collector;
use crate::harness::{Peer, shared, skip, turn, wait_until};
use crate::serve::client::{Answer, Service, bytes, exchange};
use crate::serve::keystone::deployed;

/// The collector of PyPI.
const ROTEL: &str = "rotel==0.0.1a15";

/// The program of the collector; `None`, said loudly, if it cannot be had.
fn rotel() -> Option<PathBuf> {
    let script = shared("peers/python-env.sh")?;
    let _turn = turn("python-rotel");
    let ended = Command::new(script).args(["rotel", ROTEL]).output();
    let Some(ended) = ended.ok().filter(|ended| ended.status.success()) else {
        skip(&format!("{ROTEL} cannot be got from PyPI"));
        return None;
    };
    let folder = String::from_utf8(ended.stdout).unwrap();
    let packages = Path::new(folder.trim()).join("lib");
    let versions = std::fs::read_dir(packages).unwrap().flatten();
    let mut programs =
        versions.map(|version| version.path().join("site-packages/rotel/rotel-agent"));
    programs.find(|program| program.exists())
}

/// A real collector that passes spans on to the one of the test.
fn pipeline(behind: &Collector) -> Option<Peer> {
    let program = rotel()?;
    let endpoint = behind.endpoint();
    let peer = Peer::program(|folder, ports| {
        let at = |position| format!("127.0.0.1:{}", ports.at(position));
        let mut command = Command::new(&program);
        command
            .current_dir(folder)
            .args(["start", "--exporter", "otlp"])
            .args(["--otlp-http-endpoint", &at(0)])
            .args(["--otlp-grpc-endpoint", &at(1)])
            .args(["--otlp-exporter-endpoint", &endpoint])
            .args(["--otlp-exporter-protocol", "http"])
            .args(["--batch-timeout", "100ms"])
            .args(["--debug-log", "traces"])
            .args(["--debug-log-verbosity", "detailed"]);
        command
    })?;
    wait_until("the collector listens", || listens(peer.ports().at(0)));
    Some(peer)
}

/// Whether something listens on a port of loopback.
fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[test]
fn a_real_collector_takes_the_trace_of_an_apply_and_of_the_service() {
    let behind = Collector::start();
    let Some(peer) = pipeline(&behind) else {
        return;
    };
    let endpoint = format!("http://127.0.0.1:{}", peer.ports().at(0));
    let log = || std::fs::read_to_string(peer.path("log")).unwrap();
    let site = deployed();
    for compression in ["none", "gzip"] {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", compression),
            ("OTEL_SERVICE_NAME", compression),
        ];
        let apply = ["apply", "redeploy", "compute11", "--yes"];
        let ended = site.trueup(&apply, &variables).with(0);
        assert!(!ended.stderr.contains("warning: "), "{}", ended.stderr);
        let all = || {
            let spans = behind.spans().into_iter();
            let own = spans.filter(|span| span.resource["service.name"] == compression);
            own.collect::<Vec<_>>()
        };
        let has_root = || all().iter().any(|span| span.name == "trueup apply");
        wait_until("the trace has passed the collector", has_root);
        let spans = all();
        let root = spans.iter().find(|span| span.name == "trueup apply");
        let trace = &root.unwrap().trace;
        let of_trace: Vec<_> = spans.iter().filter(|span| span.trace == *trace).collect();
        // Every span has its parent, whichever batch it was in.
        let ids: BTreeSet<&str> = of_trace.iter().map(|span| &*span.id).collect();
        for span in &of_trace {
            let has_parent = span.parent.is_empty() || ids.contains(&*span.parent);
            assert!(has_parent, "{span:?}");
        }
        for name in ["load", "observe", "plan", "apply", "deploy"] {
            assert!(of_trace.iter().any(|span| span.name == name), "{name}");
        }
        assert!(log().contains(&format!("Trace ID       : {trace}")));
    }
    let config = peer.path("serve.yaml");
    std::fs::write(&config, "loopback: viewer\n").unwrap();
    let config = config.to_str().unwrap();
    let serve = ["serve", "--config", config, "--listen", "127.0.0.1:0"];
    let mut command = site.program(&serve);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "100");
    let service = Service::spawn(&mut command);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("traceparent", parent)];
    let answer = service.request("GET", "/api/v1/nodes", &headers, "");
    assert_eq!(answer.code, 200, "{answer:?}");
    let is_there = || !behind.named("GET /api/v1/nodes").is_empty();
    wait_until("the request has passed the collector", is_there);
    let span = behind.one("GET /api/v1/nodes");
    assert_eq!(span.parent, "00f067aa0ba902b7");
    assert_eq!(span.attribute("http.response.status_code"), "200");
}

/// Checks metrics as Prometheus's own tool does; says loudly if it is not there.
pub(crate) fn check(metrics: &str) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let started = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        return skip("promtool is not installed (Debian: prometheus)");
    };
    let mut input = child.stdin.take().unwrap();
    input.write_all(metrics.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// A question to a Prometheus.
fn ask(port: u16, path: &str) -> Value {
    let address = format!("127.0.0.1:{port}");
    let answer = Answer::parse(&exchange(&address, &bytes("GET", path, &[], "")));
    match answer.code {
        200 => answer.json(),
        _ => Value::Null,
    }
}

/// The only value that a query has.
fn value(port: u16, query: &str) -> Option<f64> {
    let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let found = ask(port, &format!("/api/v1/query?query={query}"));
    let text = found["data"]["result"][0]["value"][1].as_str()?.to_owned();
    text.parse().ok()
}

#[test]
fn a_real_prometheus_scrapes_the_service() {
    let site = deployed();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("serve.yaml");
    std::fs::write(&config, "loopback: operator\n").unwrap();
    let config = config.to_str().unwrap();
    let serve = ["serve", "-v", "--config", config, "--listen", "127.0.0.1:0"];
    let service = Service::spawn(&mut site.program(&serve));
    let answer = service.post("/api/v1.0/nodes/compute11/drain");
    assert_eq!(answer.reason().0, 200, "{answer:?}");
    check(&service.get("/metrics").body);
    let prometheus = Peer::program(|folder, ports| {
        let config = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: trueup\n  static_configs:\n  - targets: ['{}']\n",
            service.address()
        );
        std::fs::write(folder.join("prometheus.yml"), config).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!(
                "--config.file={}",
                folder.join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{}", ports.at(0)));
        command
    });
    let Some(prometheus) = prometheus else { return };
    let port = prometheus.ports().at(0);
    wait_until("it listens", || listens(port));
    wait_until("it is scraped", || {
        value(port, "up{job=\"trueup\"}") == Some(1.0)
            && value(port, "trueup_nodes{state=\"deployed\"}").is_some()
    });
    for (query, expected) in [
        ("sum(trueup_nodes)", 13.0),
        ("trueup_nodes{state=\"deployed\"}", 13.0),
        ("trueup_nodes_differing", 0.0),
        ("trueup_site_readable", 1.0),
        ("trueup_lock_held", 0.0),
        ("trueup_actions_total{action=\"drain\",code=\"200\"}", 1.0),
        (
            "trueup_steps_total{kind=\"drain\",outcome=\"succeeded\"}",
            1.0,
        ),
        ("trueup_step_duration_seconds_count{kind=\"drain\"}", 1.0),
    ] {
        assert_eq!(value(port, query), Some(expected), "{query}");
    }
    let quantile = "histogram_quantile(0.9, sum by (le) (trueup_step_duration_seconds_bucket))";
    assert!(value(port, quantile).is_some_and(|seconds| seconds >= 0.0));
    // Each metric has its type and its help.
    let metadata = ask(port, "/api/v1/targets/metadata");
    let metadata = metadata["data"].as_array().unwrap();
    for (metric, kind) in [
        ("trueup_nodes", "gauge"),
        ("trueup_steps_total", "counter"),
        ("trueup_step_duration_seconds", "histogram"),
    ] {
        let found = metadata.iter().find(|entry| entry["metric"] == metric);
        let found = found.unwrap_or_else(|| panic!("{metric}: {metadata:?}"));
        assert_eq!(found["type"], kind, "{metric}");
        assert_ne!(found["help"], "", "{metric}");
    }
}
