//! The service's own resources: sites, nodes, drift, plans that are kept and applied by their effect, runs and their events.

use serde_json::{Value, json};

use super::{Answer, Service, connect, deployed, exchange, settings, slow};
use crate::fixture::{Fixture, wait_until};

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn post(service: &Service, path: &str, body: &Value) -> Answer {
    service.request("POST", path, &[JSON], &body.to_string())
}

/// Makes a plan.
#[track_caller]
fn plan(service: &Service, body: &Value) -> Value {
    let answer = post(service, "/api/v1/plans", body);
    assert_eq!(answer.code, 201, "{answer:?}");
    let view = answer.json();
    assert_eq!(
        answer.header("location"),
        view["url"].as_str().map(str::to_lowercase).as_deref()
    );
    view
}

/// Applies a plan by its whole effect.
fn apply(service: &Service, plan: &Value) -> Answer {
    let path = format!("{}/apply", plan["url"].as_str().unwrap());
    post(service, &path, &json!({"effect": plan["effect"]}))
}

/// The events of a run, until its stream ends.
fn events(service: &Service, run: &str, headers: &str) -> Vec<Event> {
    let request = format!(
        "GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"
    );
    let text = exchange(service.address(), request.as_bytes());
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        head.to_lowercase()
            .contains("content-type: text/event-stream"),
        "{head}"
    );
    parsed(&unchunked(body))
}

/// A body of chunks as one text.
fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    text
}

#[derive(Debug)]
struct Event {
    id: Option<u64>,
    name: Option<String>,
    data: Value,
}

fn parsed(text: &str) -> Vec<Event> {
    let blocks = text.split("\n\n").filter(|block| block.contains("data: "));
    blocks
        .map(|block| {
            let field = |name: &str| {
                let mut lines = block.lines();
                lines
                    .find_map(|line| line.strip_prefix(name))
                    .map(str::to_owned)
            };
            Event {
                id: field("id: ").map(|id| id.parse().unwrap()),
                name: field("event: "),
                data: serde_json::from_str(&field("data: ").unwrap()).unwrap(),
            }
        })
        .collect()
}

fn run_of(answer: &Answer) -> String {
    assert_eq!(answer.code, 202, "{answer:?}");
    answer.json()["run"].as_str().unwrap().to_owned()
}

#[track_caller]
fn wait_for_end(service: &Service, run: &str) -> Value {
    let path = format!("/api/v1/runs/{run}");
    wait_until("the run does not end", || {
        service.get(&path).json()["run"]["ended"].is_string()
    });
    service.get(&path).json()
}

#[test]
fn the_site_is_told_by_its_design_and_its_records() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let sites = service.get("/api/v1/sites").json();
    assert_eq!(sites[0]["is_served"], true);
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(sites[0]["last_success"]["run"], log["runs"][0]["run"]);
    let status = service.get("/api/v1/status").json();
    let shown = fixture
        .run(&["status", "--observed", "none", "--format", "json"])
        .with(0)
        .json();
    let names = |nodes: &Value, key: &str| -> Vec<Value> {
        let nodes = nodes.as_array().unwrap().iter();
        nodes.map(|node| node[key].clone()).collect()
    };
    assert_eq!(
        names(&status["nodes"], "node"),
        names(&shown["nodes"], "node")
    );
    assert_eq!(status["differing"], 0);
    assert!(
        names(&status["nodes"], "phase")
            .iter()
            .all(|phase| phase == "deployed")
    );
    let node = service.get("/api/v1/nodes/compute%31%31").json();
    assert_eq!(node["design"]["name"], "compute11");
    assert_eq!(node["status"]["phase"], "deployed");
    assert_eq!(
        service.get("/api/v1/nodes/nothing").reason(),
        (404, "NotFound".to_owned())
    );
    // A commit that changes a profile is drift by the records; what is observed besides is asked for.
    fixture.edit(
        "host-profiles.yaml",
        "kernel: generic",
        "kernel: lowlatency",
    );
    fixture.checkout.commit("Another kernel");
    wait_until("the drift does not show", || {
        service.get("/api/v1/status").json()["differing"] != 0
    });
    let drift = service.get("/api/v1/drift").json();
    assert_eq!(drift["is_observed"], false);
    assert_eq!(drift["nodes"][0]["change"], "redeploy");
    let observed = service.get("/api/v1/drift?observed=now").json();
    assert_eq!(observed["is_observed"], true);
    assert_eq!(
        observed["nodes"].as_array().unwrap().len(),
        drift["nodes"].as_array().unwrap().len()
    );
    for wrong in ["observed=/etc/passwd", "observed=", "more=1"] {
        let answer = service.get(&format!("/api/v1/drift?{wrong}"));
        assert_eq!(answer.reason(), (400, "BadRequest".to_owned()), "{wrong}");
    }
}

#[test]
fn a_plan_is_kept_read_in_each_form_and_applied_by_its_effect() {
    let fixture = deployed("");
    let mut service = Service::start(&fixture, &[]);
    let order = json!({"action": "redeploy", "nodes": ["compute11"], "revision": "committed"});
    let made = plan(&service, &order);
    assert_eq!(made["changes"], json!({"redeploy": 1}));
    assert_eq!(made["is_blocked"], false);
    let url = made["url"].as_str().unwrap().to_owned();
    // The plan is the command's own saved plan, found again after a restart.
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    let service = Service::start(&fixture, &[]);
    assert_eq!(service.get("/api/v1/plans").json(), json!([made]));
    let saved = service.get(&format!("{url}.json"));
    let file = fixture.checkout.outside().join("plan.json");
    std::fs::write(&file, &saved.body).unwrap();
    let file = file.to_str().unwrap();
    let shown = fixture.run(&["show", file, "--format", "html"]).with(0);
    let page = service.request("GET", &url, &[("Accept", "text/html")], "");
    assert_eq!(page.body, shown.stdout);
    assert_eq!(
        page.header("content-security-policy"),
        Some("frame-ancestors 'none'")
    );
    let markdown = fixture.run(&["show", file, "--format", "markdown"]).with(0);
    assert_eq!(service.get(&format!("{url}.md")).body, markdown.stdout);
    assert_eq!(
        service
            .request("GET", &url, &[("Accept", "image/png")], "")
            .code,
        406
    );
    // Another effect, too little of one, or none, begin nothing.
    for (body, code) in [
        (json!({"effect": "0".repeat(64)}), 409),
        (json!({"effect": "abc"}), 400),
        (json!({"effect": "../../etc/passwd"}), 400),
        (json!({}), 400),
        (json!({"effect": made["effect"], "more": 1}), 400),
    ] {
        assert_eq!(
            post(&service, &format!("{url}/apply"), &body).code,
            code,
            "{body}"
        );
    }
    let run = run_of(&apply(&service, &made));
    let ended = wait_for_end(&service, &run);
    assert_eq!(ended["run"]["outcome"], "succeeded");
    let uid = rustix::process::getuid().as_raw();
    assert_eq!(ended["run"]["requested"]["subject"], format!("uid {uid}"));
    assert_eq!(ended["run"]["action"], "redeploy");
    let listed = service.get("/api/v1/runs?limit=1").json();
    assert_eq!(listed[0]["id"], run.as_str());
    let html = fixture.run(&["show", &run, "--format", "html"]).with(0);
    assert_eq!(
        service.get(&format!("/api/v1/runs/{run}.html")).body,
        html.stdout
    );
}

#[test]
fn a_kept_plan_does_not_do_more_than_it_shows() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let order = json!({"action": "drain", "nodes": ["compute11"]});
    let made = plan(&service, &order);
    let file = fixture
        .checkout
        .path()
        .join(".git/trueup")
        .join(made["site"].as_str().unwrap())
        .join("plans")
        .join(format!("{}.plan.json", made["id"].as_str().unwrap()));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("compute11", "compute12")).unwrap();
    let answer = apply(&service, &made);
    assert_eq!(answer.reason(), (409, "Conflict".to_owned()), "{answer:?}");
    std::fs::write(&file, text).unwrap();
    // Documents of another day: what the plan was made of does not hold any more.
    let update = plan(&service, &json!({}));
    assert_eq!(update["is_empty"], true);
    assert_eq!(
        apply(&service, &update).reason(),
        (200, "Success".to_owned())
    );
    fixture.edit(
        "host-profiles.yaml",
        "kernel: generic",
        "kernel: lowlatency",
    );
    fixture.checkout.commit("Another kernel");
    assert_eq!(
        apply(&service, &update).reason(),
        (409, "Conflict".to_owned())
    );
    assert_eq!(fixture.effects("destroyed"), 0);
}

#[test]
fn rules_judge_the_plans_of_the_service_within_their_limits() {
    let fixture = deployed("");
    let rules = |body: &str| {
        let text = format!("package main\nimport rego.v1\ndeny contains m if {{ {body} }}\n");
        fixture.checkout.write("policies/main.rego", text);
        fixture.checkout.commit("Rules");
    };
    fixture.checkout.write(
        "policy.yaml",
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {rego: policies}\n",
    );
    rules("some change in input.changes; change.kind == \"redeploy\"; m := change.node");
    let service = Service::start(&fixture, &[]);
    let order = json!({"action": "redeploy", "nodes": ["compute11"], "revision": "committed"});
    let made = plan(&service, &order);
    let url = made["url"].as_str().unwrap();
    let saved = service.get(&format!("{url}.json")).json();
    assert_eq!(saved["policies"]["denied"][0]["message"], "compute11");
    let refused = apply(&service, &made);
    assert_eq!(refused.code, 409, "{refused:?}");
    rules("m := sprintf(\"%2000000000d\", [1])");
    let refused = post(&service, "/api/v1/plans", &order);
    assert_eq!(refused.code, 409, "{refused:?}");
    let says = "the rules of package `main` take more than 256 MiB of memory";
    assert!(refused.body.contains(says), "{refused:?}");
    assert_eq!(fixture.effects("destroyed"), 0);
}

#[test]
fn a_request_for_a_plan_names_no_file_and_no_other_guards() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    for (body, code) in [
        (json!({"observed": "/etc/passwd"}), 400),
        (json!({"revision": "worktree"}), 400),
        (json!({"revision": "file:///etc/passwd"}), 400),
        (json!({"revision": "git:no-such-revision"}), 400),
        (json!({"action": "explode"}), 400),
        (json!({"action": "power-of"}), 400),
        (json!({"action": "drain", "nodes": []}), 400),
        (json!({"action": "drain", "nodes": ["nothing"]}), 404),
        (json!({"site": "elsewhere"}), 404),
        (json!({"as_of": "2099-01-01"}), 400),
        (json!([]), 400),
    ] {
        let answer = post(&service, "/api/v1/plans", &body);
        assert_eq!(answer.code, code, "{body}: {answer:?}");
        answer.reason();
    }
    let misspelt = post(&service, "/api/v1/plans", &json!({"action": "power-of"}));
    assert!(
        misspelt.body.contains("did you mean `power off`"),
        "{misspelt:?}"
    );
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(
        service.request("POST", "/api/v1/plans", &form, "a=b").code,
        415
    );
    for path in [
        "/api/v1/plans/..%2f..%2fconfig",
        "/api/v1/plans/../../config",
        "/api/v1/plans/01JB0000000000000000000000",
        "/api/v1/plans/01JB0000000000000000000000.exe",
        "/api/v1/runs/01JB0000000000000000000000",
        "/api/v1/runs/HEAD/events",
        "/runs/..%2fx",
    ] {
        assert_eq!(
            service.get(path).reason(),
            (404, "NotFound".to_owned()),
            "{path}"
        );
    }
    assert_eq!(service.get("/api/v1/plans").json(), json!([]));
}

#[test]
fn one_action_at_a_time_and_the_others_learn_of_the_holder() {
    let fixture = slow();
    let service = Service::start(&fixture, &[]);
    let drain = plan(
        &service,
        &json!({"action": "drain", "nodes": ["compute11"]}),
    );
    let run = run_of(&apply(&service, &drain));
    let refused = apply(&service, &drain);
    assert_eq!(refused.reason(), (409, "Conflict".to_owned()));
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    let id = drain["id"].as_str().unwrap();
    assert!(
        message.starts_with(&format!(
            "the site is held by `drain` of plan {id} for uid "
        )),
        "{message}"
    );
    assert!(message.contains(&run), "{message}");
    assert_eq!(service.post(&super::on("compute12", "drain")).code, 409);
    // A plan of this moment is read, and says what is at work.
    let while_running = plan(&service, &json!({"observed": "none"}));
    let text = service.get(while_running["url"].as_str().unwrap()).json();
    assert_eq!(text["unfinished_run"]["run"], run.as_str());
    assert_eq!(wait_for_end(&service, &run)["run"]["outcome"], "succeeded");
}

#[test]
fn the_events_of_a_run_are_streamed_and_resumed_behind_an_id() {
    let fixture = deployed("");
    let quick = "durations: {change: 0.3, shutdown_kubelet: 0.3, join: 0.3}";
    settings(&fixture, "clock: real", quick);
    fixture.checkout.commit("In real time");
    let service = Service::start(&fixture, &[]);
    let order = json!({"action": "redeploy", "nodes": ["compute11"], "revision": "committed"});
    let run = run_of(&apply(&service, &plan(&service, &order)));
    let progress = service.get(&format!("/api/v1/runs/{run}/progress")).json();
    assert_eq!(progress["outcome"], "running");
    let live = events(&service, &run, "");
    let first = &live[0].data;
    assert_eq!(
        (&first["event"], &first["run"]),
        (&"run-started".into(), &run.as_str().into())
    );
    assert!(
        first["text"].as_str().unwrap().contains("starts: redeploy"),
        "{first}"
    );
    let last = live.last().unwrap();
    assert_eq!(last.name.as_deref(), Some("end"));
    assert_eq!(last.data, json!({"run": run, "outcome": "succeeded"}));
    let ids =
        |events: &[Event]| -> Vec<u64> { events.iter().filter_map(|event| event.id).collect() };
    // What is not recorded has no id.
    let of = |event: &str| {
        live.iter()
            .filter(|each| each.data["event"] == event)
            .collect::<Vec<_>>()
    };
    assert!(!of("checkpoint").is_empty() && of("checkpoint").iter().all(|each| each.id.is_none()));
    let all = ids(&live);
    assert!(all.len() > 5, "{all:?}");
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
    // By the records, also in another process, the ids are the same.
    let numbered = |events: &[Event]| -> Vec<Value> {
        let numbered = events.iter().filter(|event| event.id.is_some());
        numbered.map(|event| event.data.clone()).collect()
    };
    let again = Service::start(
        &fixture,
        &[
            "--listen",
            &format!("unix:{}", fixture.checkout.outside().join("t").display()),
        ],
    );
    let recorded = events(&again, &run, "");
    assert_eq!(numbered(&recorded), numbered(&live));
    let rest = events(&again, &run, "Last-Event-ID: 5\r\n");
    assert_eq!(ids(&rest), all[5..]);
    let none = events(&again, &run, &format!("Last-Event-ID: {}\r\n", all.len()));
    assert!(ids(&none).is_empty(), "{none:?}");
    let ended = again.get(&format!("/api/v1/runs/{run}/progress")).json();
    assert_eq!(ended["outcome"], "succeeded");
    let explained = |of: &str| again.get(&format!("/api/v1/runs/{run}/explanation{of}"));
    assert_eq!(explained("").json()["subject"]["kind"], "run");
    let node = explained("?of=compute11").json();
    assert_eq!(node["subject"]["name"], "compute11");
    assert_eq!(node["steps"][0]["standing"], "succeeded", "{node}");
    assert_eq!(explained("?of=compute99").code, 404);
    assert_eq!(explained("?by=compute11").code, 400);
    assert_eq!(ended["steps"], ended["steps_ended"]);
    assert_eq!(
        service
            .get(&format!("/api/v1/runs/{run}/events?after=x"))
            .code,
        400
    );
}

#[test]
fn the_run_of_a_command_is_followed_by_its_records() {
    let fixture = slow();
    let service = Service::start(&fixture, &[]);
    let mut running = fixture
        .command(&["apply", "--yes", "drain", "compute11"])
        .spawn()
        .unwrap();
    wait_until("the run does not begin", || {
        service.get("/api/v1/runs?limit=1").json()[0]["outcome"] == "running"
    });
    let run = service.get("/api/v1/runs?limit=1").json()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let heard = events(&service, &run, "");
    assert_eq!(heard.last().unwrap().data["outcome"], "succeeded");
    let finished = |event: &&Event| event.data["event"] == "step-finished";
    assert!(heard.iter().any(|event| finished(&event)), "{heard:?}");
    assert!(running.wait().unwrap().success());
}

#[test]
fn streams_are_bounded_and_end_with_the_service() {
    let fixture = slow();
    let config = fixture.checkout.outside().join("serve.yaml");
    std::fs::write(&config, "limits: {streams: 2}").unwrap();
    let mut service = Service::start(&fixture, &["--config", config.to_str().unwrap()]);
    let drain = plan(
        &service,
        &json!({"action": "drain", "nodes": ["compute11"]}),
    );
    let run = run_of(&apply(&service, &drain));
    let path = format!("/api/v1/runs/{run}/events");
    let open = || {
        let mut stream = connect(service.address());
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut head = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    };
    let held = [open(), open()];
    assert_eq!(
        service.get(&path).reason(),
        (503, "ServiceUnavailable".to_owned())
    );
    let began = std::time::Instant::now();
    service.signal("TERM");
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
    for mut stream in held {
        let mut text = String::new();
        let _ = std::io::Read::read_to_string(&mut stream, &mut text);
        assert!(text.contains("step-started"), "{text}");
    }
}

#[test]
fn the_document_of_the_api_is_the_one_that_is_checked_in() {
    let document = trueup::serve::openapi();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    if std::env::var_os("TRUEUP_TEST_UPDATE").is_some() {
        std::fs::write(path, &document).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        document,
        "run with TRUEUP_TEST_UPDATE=1"
    );
    let fixture = Fixture::one_rack();
    let service = Service::start(&fixture, &[]);
    let served = service.get("/api/v1/openapi.json").json();
    assert_eq!(served, serde_json::from_str::<Value>(&document).unwrap());
    assert_eq!(served["openapi"], "3.1.0");
    // Each path of it is there, and takes its methods.
    for (path, methods) in served["paths"].as_object().unwrap() {
        let path = path
            .replace("{id}", "01JB0000000000000000000000")
            .replace("{node}", "nothing");
        for method in methods.as_object().unwrap().keys() {
            let answer = service.request(&method.to_uppercase(), &path, &[], "");
            let message = format!("{method} {path}: {answer:?}");
            assert_ne!(answer.code, 405, "{message}");
            assert!(
                !answer.body.contains("there is no such resource"),
                "{message}"
            );
        }
    }
}

#[test]
fn the_page_is_readable_without_scripts_and_shows_no_value_as_markup() {
    let fixture = deployed("");
    settings(
        &fixture,
        "clock: virtual, faults: [{nodes: [compute11], step: drain, outcome: fail, message: '<script>alert(1)</script>'}]",
        "",
    );
    fixture.checkout.commit("A drain that fails");
    let service = Service::start(&fixture, &[]);
    let drain = plan(
        &service,
        &json!({"action": "drain", "nodes": ["compute11"]}),
    );
    let run = run_of(&apply(&service, &drain));
    wait_for_end(&service, &run);
    let home = service.get("/").body;
    for part in [
        "Drift",
        "Plans",
        "Runs",
        "Sites of the repository",
        &run,
        drain["effect"].as_str().unwrap().get(..12).unwrap(),
    ] {
        assert!(home.contains(part), "{part}: {home}");
    }
    let page = service.get(&format!("/runs/{run}"));
    assert_eq!(
        page.header("content-security-policy"),
        Some("frame-ancestors 'none'")
    );
    assert!(page.body.contains("drain failed"), "{}", page.body);
    assert!(
        page.body.contains("&lt;script&gt;alert(1)"),
        "{}",
        page.body
    );
    assert_eq!(page.body.matches("<script>").count(), 1);
    let policy = "connect-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'";
    assert!(page.body.contains(policy), "{}", page.body);
}
