//! Requests that want more than their answer: other files, other readers' requests, memory, time, and markup.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::shipyard::document;
use super::{Answer, Service, bytes, connect, deployed, exchange, on, settings};
use crate::fixture::{Fixture, wait_until};

/// A service that counts no requests.
fn start(fixture: &Fixture, more: &[&str]) -> Service {
    let config = fixture.checkout.outside().join("serve.yaml");
    std::fs::write(&config, "limits: {requests_per_second: 10000}").unwrap();
    let arguments = [&["--config", config.to_str().unwrap()], more].concat();
    Service::start(fixture, &arguments)
}

/// Sends the bytes of a request, and reads all answers.
fn raw(service: &Service, request: &str) -> (Answer, usize) {
    let text = exchange(service.address(), request.as_bytes());
    (Answer::parse(&text), text.matches("HTTP/1.1 ").count())
}

#[test]
fn a_target_leads_to_nothing_but_resources() {
    let fixture = deployed("");
    let service = start(&fixture, &[]);
    for target in [
        "/api/v1.0/../../../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/runs/../../.git/config",
        "/api/v1/plans/..%2f..%2fconfig.json",
        "/api/v1/plans/....json",
        "/api/v1/plans/%00.json",
        "/api/v1/runs/%00",
        "/api/v1/runs/..%2f..%2fconfig.md",
        "/api/v1/nodes/..%2f..%2fetc%2fpasswd",
        "/api/v1/actions/..",
        "/api/v1.0/configdocs/..%2f..%2f..%2fetc%2fpasswd?version=committed",
        "/api/v1.0/configdocs/.git?version=committed",
        "/api/v1.0/configdocs/.git%2fconfig?version=committed",
        "/api/v1.0/actions/%e2%80%ae/steps/x/logs",
        "/api/v1.0/actions/\u{202e}\u{e9}/steps/x/logs",
        "/api/v1.0/notedetails/%2e%2e",
        "/api/v1.0/workflows/..__..%2f..",
        "\\..\\..\\etc\\passwd",
        "etc/passwd",
        "*",
    ] {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        let (answer, count) = raw(&service, &request);
        let is_nothing = answer.body == "{}" && target.contains("workflows");
        assert!(
            (400..500).contains(&answer.code) || is_nothing,
            "{target}: {answer:?}"
        );
        assert!(
            !answer.body.contains("root:") && !answer.body.contains("[core]"),
            "{answer:?}"
        );
        assert!(count <= 1, "{target}");
    }
    // A whole address as the target: it is that of `Host`.
    for (target, code) in [
        ("http://127.0.0.1/versions", 200),
        ("http://evil.example/versions", 400),
        ("http://127.0.0.1@evil.example/versions", 400),
        ("http://127.0.0.1:1/versions", 400),
    ] {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        assert_eq!(raw(&service, &request).0.code, code, "{target}");
    }
    let connect =
        "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\nConnection: close\r\n\r\n";
    assert!(raw(&service, connect).0.code >= 400);
}

#[test]
fn a_request_is_never_read_as_two() {
    let fixture = deployed("");
    let service = start(&fixture, &[]);
    let hidden = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\n\r\n",
        on("compute11", "drain")
    );
    let length = hidden.len();
    let extension = "a".repeat(10 << 10);
    let post =
        |headers: &str| format!("POST /versions HTTP/1.1\r\nHost: x\r\n{headers}\r\n{hidden}");
    let before = service.get("/api/v1/actions").body;
    for request in [
        // Line ends that only some readers know, between which headers hide.
        post(&format!(
            "X: a\nTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n"
        )),
        post(&format!(
            "X: a\nContent-Length: 0\r\nContent-Length: {length}\r\n"
        )),
        post(&format!(
            "X: a\rContent-Length: 0\r\nContent-Length: {length}\r\n"
        )),
        post(&format!("X: \0\r\nContent-Length: {length}\r\n")),
        post(&format!(
            "X: a\r\n\tContent-Length: 0\r\nContent-Length: {length}\r\n"
        )),
        // Lengths that only some readers take.
        post(&format!("Content-Length: {length}, {length}\r\n")),
        post(&format!("Content-Length: {length} {length}\r\n")),
        post(&format!("Content-Length: -{length}\r\n")),
        post("Content-Length: 18446744073709551616\r\n"),
        post(&format!(
            "Content-Length: {length}\r\nContent-Length : 0\r\n"
        )),
        post(&format!(
            "Content Length: 0\r\nContent-Length: {length}\r\n"
        )),
        // Chunks, whose extensions have no end.
        post(&format!(
            "Transfer-Encoding: chunked\r\n\r\n1;{extension}\r\nx\r\n0\r\n"
        )),
        post(&format!(
            "Content-Length: {length}\r\nTransfer-Encoding:\u{b}chunked\r\n"
        )),
        post(&format!(
            "Content-Length: {length}\r\nTransfer-Encoding: identity\r\n"
        )),
        // Other versions, and other protocols.
        format!("POST /versions HTTP/1.2\r\nHost: x\r\n\r\n{hidden}"),
        format!("POST /versions\r\n{hidden}"),
        format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{hidden}"),
        format!("\0\0{hidden}"),
    ] {
        let (answer, count) = raw(&service, &request);
        assert!(count <= 1, "{request:?}: {answer:?}");
        assert!(
            answer.code == 0 || answer.code >= 400,
            "{request:?}: {answer:?}"
        );
    }
    // A request to change the protocol changes nothing.
    let upgrade = "GET /versions HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n\
                   HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n";
    assert_eq!(raw(&service, upgrade).0.code, 200);
    assert_eq!(service.get("/api/v1/actions").body, before);
}

/// A few lines of YAML that stand for 10^12 values.
pub(super) fn bomb() -> String {
    let level = |level: usize| {
        let values = match level.checked_sub(1) {
            None => vec!["x".to_owned(); 10],
            Some(before) => vec![format!("*a{before}"); 10],
        };
        format!("a{level}: &a{level} [{}]\n", values.join(", "))
    };
    (0..12).map(level).collect()
}

#[test]
fn documents_without_end_are_refused_at_once() {
    let fixture = deployed("");
    let service = start(&fixture, &[]);
    let deep = "[".repeat(500_000);
    let nested = format!(
        "{{\"name\": \"update_site\", \"parameters\": {}}}",
        "{\"a\":".repeat(100_000)
    );
    let json = [("Content-Type", "application/json")];
    let id = "01JB0000000000000000000000";
    let began = Instant::now();
    for path in [
        "/api/v1.0/actions".to_owned(),
        "/api/v1/plans".to_owned(),
        format!("/api/v1/plans/{id}/apply"),
        on("compute11", "decommission"),
    ] {
        for body in [&deep, &nested] {
            let answer = service.request("POST", &path, &json, body);
            assert_eq!(answer.code, 400, "{path}: {answer:?}");
        }
    }
    for text in [
        bomb(),
        "[".repeat(500_000),
        format!("a: {}", "- ".repeat(200_000)),
        "--- a\n".repeat(150_000),
        format!(
            "{}data: &a [*a]\n",
            document("self").replace("data: hello\n", "")
        ),
    ] {
        let answer = service.put("new", "append", &text);
        assert_eq!(answer.code, 400, "{answer:?}");
        assert!(answer.body.len() < 1 << 20, "{}", answer.body.len());
    }
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(fixture.checkout.git(&["branch", "--list", "trueup/*"]), "");
}

#[test]
fn a_body_that_does_not_come_keeps_nobody_waiting() {
    let fixture = deployed("");
    let service = start(&fixture, &[]);
    let path = on("compute11", "remove-etcd");
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
    let mut slow: Vec<_> = (0..100).map(|_| connect(service.address())).collect();
    for stream in &mut slow {
        stream.write_all(head.as_bytes()).unwrap();
    }
    let began = Instant::now();
    assert_eq!(service.get("/versions").code, 200);
    assert_eq!(service.post(&on("compute11", "drain")).code, 200);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    let mut last = slow.pop().unwrap();
    drop(slow);
    let mut text = String::new();
    let _ = last.read_to_string(&mut text);
    assert_eq!(Answer::parse(&text).code, 408, "{text}");
    let took = began.elapsed().as_secs();
    assert!((20..45).contains(&took), "{took}");
}

#[test]
fn what_a_caller_names_itself_adds_no_header_and_no_line() {
    let fixture = deployed("");
    let service = start(&fixture, &[]);
    for marker in [
        "6f0c7b1e-3a54-4f3a-9a1e-6d8a53c8b1aa%0d%0aSet-Cookie:%20a=b",
        "6f0c7b1e-3a54-4f3a-9a1e-6d8a53c8b1aa, x",
        "<script>alert(1)</script>",
        "../../etc/passwd",
    ] {
        let headers = [
            ("X-Context-Marker", marker),
            ("User-Agent", "a\tforged line"),
        ];
        let answer = service.request("GET", "/versions", &headers, "");
        assert_eq!(answer.code, 200);
        assert_eq!(answer.header("x-context-marker"), None, "{marker}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    // Nor does a path, in the log.
    service.get("/a%0aINFO%20forged");
    service.request("GET", "/\u{1b}[31m\u{202e}", &[], "");
    let log = service.log();
    assert!(
        !log.contains('\u{1b}') && !log.contains('\u{202e}'),
        "{log}"
    );
    assert!(
        !log.lines().any(|line| line.starts_with("INFO forged")),
        "{log}"
    );
}

#[test]
fn links_among_the_collections_lead_to_no_other_file() {
    const SECRET: &str = "the text of another file";
    let fixture = deployed("");
    let other = fixture.checkout.outside().join("other.yaml");
    std::fs::write(&other, document("other").replace("hello", SECRET)).unwrap();
    let service = start(&fixture, &[]);
    let link = |target: &std::path::Path, name: &str| {
        std::os::unix::fs::symlink(target, fixture.checkout.path().join(name)).unwrap();
    };
    link(&other, "leak.yaml");
    link(std::path::Path::new(".git/config"), "config.yaml");
    fixture.checkout.commit("Links");
    for name in ["leak", "config"] {
        let answer = service.get(&format!("/api/v1.0/configdocs/{name}?version=committed"));
        assert!(
            !answer.body.contains(SECRET) && !answer.body.contains("[core]"),
            "{answer:?}"
        );
        assert!(answer.code >= 400, "{answer:?}");
        let answer = service.put(name, "replace", &document("motd"));
        // Whether the link is refused or replaced by a file, the file behind it stays.
        if answer.code == 201 {
            service.commit("force=true");
        }
        assert!(std::fs::read_to_string(&other).unwrap().contains(SECRET));
        let config = fixture.checkout.path().join(".git/config");
        assert!(std::fs::read_to_string(config).unwrap().contains("[core]"));
    }
    for path in [
        "/api/v1.0/renderedconfigdocs?version=committed",
        "/",
        "/api/v1/status",
    ] {
        let answer = service.get(path);
        assert!(!answer.body.contains(SECRET), "{path}: {answer:?}");
    }
}

#[test]
fn names_of_people_and_reasons_are_shown_as_text() {
    const HOSTILE: &str = "<img src=x onerror=alert(1)>";
    let fixture = deployed("");
    fixture.checkout.git(&["config", "user.name", HOSTILE]);
    fixture
        .run(&["apply", "--yes", "drain", "compute11"])
        .with(0);
    let service = start(&fixture, &[]);
    let order =
        json!({"action": "maintenance", "nodes": ["compute12"], "reason": HOSTILE}).to_string();
    let json = [("Content-Type", "application/json")];
    let made = service.request("POST", "/api/v1/plans", &json, &order);
    assert_eq!(made.code, 201, "{made:?}");
    let plan = made.json();
    let run = fixture.run(&["log", "--format", "json"]).with(0).json()["runs"][0].clone();
    let run = run["run"].as_str().unwrap();
    let mut shown = 0;
    for path in [
        "/".to_owned(),
        "/nodes".to_owned(),
        format!("/runs/{run}"),
        format!("/api/v1/runs/{run}.html"),
        format!("{}.html", plan["url"].as_str().unwrap()),
    ] {
        let page = service.get(&path);
        assert_eq!(page.code, 200, "{path}");
        assert!(!page.body.contains("<img"), "{path}: {page:?}");
        assert!(page.body.contains("Content-Security-Policy"), "{path}");
        shown += page.body.matches("&lt;img src=x").count();
    }
    assert!(shown > 0, "the names and reasons are on no page");
}

#[test]
fn of_many_actions_of_shipyard_s_at_once_one_is_carried_out() {
    let fixture = deployed("");
    settings(
        &fixture,
        "clock: real",
        "durations: {change: 0.2, shutdown_kubelet: 0.2, join: 0.2}, pods: [{name: web, nodes: [compute11], ends_after: 4}]",
    );
    fixture.checkout.commit("In real time");
    let service = start(&fixture, &[]);
    let parameters = json!({"target_nodes": ["compute11"], "target-revision": "committed"});
    let begun: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..40)
            .map(|_| scope.spawn(|| service.begin("redeploy_server", &parameters)))
            .collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let state = |id: &String| service.described(id)["action_lifecycle"].clone();
    wait_until("an action does not end", || {
        begun.iter().all(|id| state(id) != "Processing")
    });
    let all = begun.iter().map(state);
    let complete = all.filter(|state| *state == "Complete").count();
    assert_eq!(complete, 1);
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    let runs = log["runs"].as_array().unwrap().iter();
    assert_eq!(
        runs.filter(|run| run["action"] == "redeploy").count(),
        1,
        "{log}"
    );
}

/// Sends a request again and again, until the time is over or the service is gone.
fn ask_for(time: Duration, address: &str, request: &[u8]) {
    let began = Instant::now();
    let path = address.trim_start_matches("unix:");
    while began.elapsed() < time {
        let Ok(mut stream) = std::os::unix::net::UnixStream::connect(path) else {
            return;
        };
        let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
        let _ = stream.write_all(request);
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

/// How often each machine was deployed.
fn deployments(fixture: &Fixture) -> Vec<(String, usize)> {
    let ledger = fixture.ledger().into_iter();
    ledger
        .filter(|(what, _)| what.ends_with(" deployed"))
        .collect()
}

#[test]
fn a_service_that_is_killed_under_load_does_nothing_twice_and_loses_nothing() {
    let fixture = deployed("");
    let fast = "durations: {change: 0.2, shutdown_kubelet: 0.2, join: 0.2}";
    settings(&fixture, "clock: real", fast);
    fixture.checkout.commit("In real time");
    let before = deployments(&fixture);
    let parameters = json!({"target_nodes": "compute11,compute12", "target-revision": "committed"});
    let mut service = start(&fixture, &["--resume-interrupted"]);
    let id = service.begin("redeploy_server", &parameters);
    // A run is recorded from its beginning on; an action that waits for its turn is not.
    wait_until("no run begins", || {
        let action = service.get(&format!("/api/v1/actions/{id}"));
        action.json()["run"].is_string()
    });
    // It is killed three times, at other points of the run, while callers ask for more.
    for round in 0..3_u64 {
        std::thread::scope(|scope| {
            for caller in 0..12 {
                let address = service.address().to_owned();
                let (method, path) = match caller % 4 {
                    0 => ("POST", on("compute13", "drain")),
                    1 => ("GET", "/api/v1.0/actions".to_owned()),
                    2 => ("GET", "/api/v1/status".to_owned()),
                    _ => ("POST", on("compute13", "clear-labels")),
                };
                let time = Duration::from_millis(600 + 500 * round);
                scope.spawn(move || ask_for(time, &address, &bytes(method, &path, &[], "")));
            }
            std::thread::sleep(Duration::from_millis(400 + 400 * round));
            service.signal("KILL");
        });
        service.wait();
        service = start(&fixture, &["--resume-interrupted"]);
    }
    let ended = service.wait_for(&id, "Complete");
    assert_eq!(ended["parameters"], parameters);
    let after: Vec<(String, usize)> = before
        .into_iter()
        .map(|(what, count)| {
            let is_meant = what.starts_with("compute11 ") || what.starts_with("compute12 ");
            let count = count + usize::from(is_meant);
            (what, count)
        })
        .collect();
    assert_eq!(deployments(&fixture), after);
    let log = || fixture.run(&["log", "--format", "json"]).with(0).json();
    let count = |log: &Value, is_meant: &dyn Fn(&Value) -> bool| {
        let runs = log["runs"].as_array().unwrap().iter();
        runs.filter(|run| is_meant(run)).count()
    };
    assert_eq!(count(&log(), &|run| run["action"] == "redeploy"), 1);
    // What another caller had begun when the service was killed is resumed, too.
    wait_until("a run is lost", || {
        count(&log(), &|run| run["outcome"] != "succeeded") == 0
    });
    // The site is free.
    wait_until("the place stays taken", || {
        service.post(&on("compute21", "drain")).code == 200
    });
}
