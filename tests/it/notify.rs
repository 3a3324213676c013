//! Notifications: what a run tells webhooks, to whom it is told, and what becomes of a run whose webhooks do not answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use data_encoding::HEXLOWER;
use ring::hmac;
use serde_json::Value;

use super::accepted::example;
use super::cli_interrupted::shared;
use super::fixture::{Ended, Fixture, copy_folder};
use super::git::Checkout;
use super::serve::{Service, deployed};

const KEY: &str = "a-key-of-webhooks-0123456789";

/// What a listener does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Takes,
    /// Answers 500.
    Fails,
    /// Reads, and closes without an answer.
    Closes,
    /// Reads, and never answers.
    Hangs,
    /// Sends elsewhere.
    Redirects,
}

/// A message as it arrived.
#[derive(Clone, Debug)]
struct Message {
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Message {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        &found.unwrap_or_else(|| panic!("no `{name}`: {self:?}")).1
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn event(&self) -> String {
        self.json()["event"].as_str().unwrap().to_owned()
    }

    /// Whether it is signed with the key.
    fn is_signed(&self) -> bool {
        let text = self.header("x-trueup-signature");
        let tag = HEXLOWER.decode(text.strip_prefix("sha256=").unwrap().as_bytes());
        let key = hmac::Key::new(hmac::HMAC_SHA256, KEY.as_bytes());
        hmac::verify(&key, &self.body, &tag.unwrap()).is_ok()
    }
}

/// A webhook that notes what it is sent.
struct Hook {
    port: u16,
    heard: Arc<Mutex<Vec<Message>>>,
}

impl Hook {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard: Arc<Mutex<Vec<Message>>> = Arc::default();
        let notes = heard.clone();
        // Ends with the process.
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(message) = read(&stream) else {
                    continue;
                };
                notes.lock().unwrap().push(message);
                let status = match answer {
                    Answer::Takes => "204 No Content",
                    Answer::Fails => "500 Internal Server Error",
                    Answer::Redirects => "307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/",
                    Answer::Closes => continue,
                    Answer::Hangs => {
                        kept.push(stream);
                        continue;
                    }
                };
                let head =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = (&stream).write_all(head.as_bytes());
            }
        });
        Self { port, heard }
    }

    fn heard(&self) -> Vec<Message> {
        self.heard.lock().unwrap().clone()
    }

    fn events(&self) -> Vec<String> {
        self.heard().iter().map(Message::event).collect()
    }

    /// A destination of this webhook.
    fn destination(&self, more: &str) -> String {
        format!(
            "{{name: ops, url: 'http://127.0.0.1:{}/hook', key: {{env: HOOK_KEY}}{more}}}",
            self.port
        )
    }
}

fn read(stream: &TcpStream) -> Option<Message> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?;
    let mut body = vec![0; length.1.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Message {
        path,
        headers,
        body,
    })
}

/// A site that tells destinations, committed and trusted.
fn site(destinations: &[String], faults: &str) -> Fixture {
    let fixture = untrusted(destinations, faults);
    run(&fixture, &["trust", "--yes"]).with(0);
    fixture
}

fn untrusted(destinations: &[String], faults: &str) -> Fixture {
    let fixture = example("edge");
    backends(&fixture, destinations, faults);
    fixture.checkout.commit("A site that tells others");
    fixture
}

fn backends(fixture: &Fixture, destinations: &[String], faults: &str) {
    fixture.simulator(&format!("{{clock: virtual, faults: {faults}}}"));
    let lines: String = destinations
        .iter()
        .map(|each| format!("    - {each}\n"))
        .collect();
    let text = fixture.read("backends.yaml");
    fixture
        .checkout
        .write("backends.yaml", format!("{text}  notify:\n{lines}"));
}

/// Runs a command that has the key of the webhooks.
fn run(fixture: &Fixture, arguments: &[&str]) -> Ended {
    let mut command = fixture.command(arguments);
    command.env("HOOK_KEY", KEY);
    command.output().unwrap().into()
}

/// Whether messages are as their schema describes them, signed, and each with an id of its own.
#[track_caller]
fn valid(messages: &[Message]) {
    let schema: Value =
        serde_json::from_str(include_str!("../../schemas/notification.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for message in messages {
        let json = message.json();
        let problems: Vec<_> = validator
            .iter_errors(&json)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(problems, Vec::<String>::new(), "{json:#}");
        assert!(message.is_signed(), "{message:?}");
        assert_eq!(
            message.header("x-trueup-delivery"),
            json["id"].as_str().unwrap()
        );
    }
}

#[test]
fn a_run_tells_its_begin_and_its_end_signed_and_with_its_ticket() {
    let hook = Hook::start(Answer::Takes);
    let fixture = site(&[hook.destination("")], "[]");
    let ended = run(&fixture, &["apply", "--yes", "--ticket", "OPS-7"]).with(0);
    assert!(!ended.stdout.contains("not told"), "{}", ended.stdout);
    let heard = hook.heard();
    valid(&heard);
    assert_eq!(hook.events(), ["begin", "end"]);
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    for message in &heard {
        let json = message.json();
        assert_eq!(message.path, "/hook");
        assert_eq!(json["ticket"], "OPS-7");
        assert_eq!(json["site"], "edge");
        assert_eq!(json["run"], log["runs"][0]["run"]);
        assert_eq!(json["revision"], log["runs"][0]["revision"]);
        assert!(
            json["summary"].as_str().unwrap().contains("(OPS-7)"),
            "{json:#}"
        );
    }
    assert_eq!(heard[1].json()["nodes"]["succeeded"], 3);
    // What does nothing tells nothing.
    run(&fixture, &["apply", "--yes"]).with(0);
    assert_eq!(hook.heard().len(), 2);
}

#[test]
fn nothing_is_told_before_the_destination_is_trusted() {
    let hook = Hook::start(Answer::Takes);
    let fixture = untrusted(&[hook.destination("")], "[]");
    let ended = run(&fixture, &["apply", "--yes"]).with(4);
    assert!(ended.stderr.contains("notify.url"), "{}", ended.stderr);
    run(&fixture, &["doctor"]).with(1);
    run(&fixture, &["trust", "--yes"]).with(0);
    // Another address has to be trusted anew.
    let other = Hook::start(Answer::Takes);
    backends(&fixture, &[other.destination("")], "[]");
    fixture.checkout.commit("Tell others");
    run(&fixture, &["apply", "--yes"]).with(4);
    assert!(hook.heard().is_empty() && other.heard().is_empty());
}

#[test]
fn a_run_that_fails_tells_which_nodes_need_a_person() {
    let hook = Hook::start(Answer::Takes);
    let faults = "[{nodes: [edge-2], step: deploy, outcome: fail, message: 'no disk <!here>', event_log: [Drive 1 is missing]}]";
    let only = hook.destination(", events: [stop]");
    let fixture = site(&[only], faults);
    let code = run(&fixture, &["apply", "--yes"]).code;
    assert!([7, 8].contains(&code), "{code}");
    let heard = hook.heard();
    valid(&heard);
    assert_eq!(hook.events(), ["stop"]);
    let json = heard[0].json();
    assert!(["failed", "halted"].contains(&json["reason"].as_str().unwrap()));
    let unfinished = json["unfinished"].as_array().unwrap();
    let failed = unfinished.iter().find(|node| node["node"] == "edge-2");
    let failed = failed.unwrap_or_else(|| panic!("{json:#}"));
    assert!(
        failed["message"].as_str().unwrap().contains("no disk"),
        "{json:#}"
    );
    assert!(
        failed["step"].as_str().unwrap().contains("deploy"),
        "{json:#}"
    );
    let logged = "; event log of its controller: Drive 1 is missing";
    let message = failed["message"].as_str().unwrap();
    assert!(message.ends_with(logged), "{message}");
    assert!(!json["next"].as_array().unwrap().is_empty(), "{json:#}");
}

#[test]
fn a_destination_that_fails_changes_nothing_and_stands_in_the_report() {
    for answer in [
        Answer::Fails,
        Answer::Closes,
        Answer::Hangs,
        Answer::Redirects,
    ] {
        let (dead, hook) = (Hook::start(answer), Hook::start(Answer::Takes));
        let second = hook.destination("").replace("name: ops", "name: second");
        let fixture = site(&[dead.destination(""), second], "[]");
        let ended = run(
            &fixture,
            &["apply", "--yes", "--report", "r.md", "--report", "r.html"],
        )
        .with(0);
        let line = format!("not delivered to `ops` (127.0.0.1:{})", dead.port);
        assert!(
            ended.stdout.contains("not told: "),
            "{answer:?}: {}",
            ended.stdout
        );
        assert!(ended.stdout.contains(&line), "{answer:?}: {}", ended.stdout);
        assert_eq!(ended.stdout.matches("not told").count(), 1);
        assert!(fixture.read("r.md").contains("not delivered to"));
        assert!(fixture.read("r.html").contains("Not told: "));
        // The other one is not held up by it.
        assert_eq!(hook.events(), ["begin", "end"], "{answer:?}");
        let attempts = dead.heard().len();
        match answer {
            // What can pass is tried three times, and then once for each message.
            Answer::Fails | Answer::Closes => assert_eq!(attempts, 4, "{answer:?}"),
            Answer::Redirects => assert_eq!(attempts, 2),
            _ => assert!(attempts >= 1),
        }
        // Attempts of one message have one id.
        let ids: std::collections::BTreeSet<String> = dead
            .heard()
            .iter()
            .map(|message| message.header("x-trueup-delivery").to_owned())
            .collect();
        assert!(ids.len() <= 2, "{ids:?}");
    }
}

#[test]
fn an_address_where_nothing_listens_and_a_key_that_cannot_be_had_are_told() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let gone = format!("{{name: gone, url: 'http://127.0.0.1:{port}/', key: {{env: HOOK_KEY}}}}");
    let hook = Hook::start(Answer::Takes);
    let keyless = hook.destination("").replace("HOOK_KEY", "NO_SUCH_VARIABLE");
    let fixture = site(&[gone, keyless], "[]");
    let ended = run(&fixture, &["apply", "--yes", "--format", "json"]).with(0);
    let last: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    let lines = last["report"]["undelivered"].as_array().unwrap();
    assert_eq!(lines.len(), 2, "{last:#}");
    assert!(
        lines[0]
            .as_str()
            .unwrap()
            .contains("cannot be connected to"),
        "{last:#}"
    );
    assert!(
        lines[1].as_str().unwrap().contains("NO_SUCH_VARIABLE"),
        "{last:#}"
    );
    assert!(hook.heard().is_empty());
}

#[test]
fn services_get_their_shapes_and_no_output_has_the_secrets() {
    let (slack, teams, pager) = (
        Hook::start(Answer::Fails),
        Hook::start(Answer::Takes),
        Hook::start(Answer::Takes),
    );
    let fixture = site(
        &[
            format!(
                "{{name: chat, url: 'http://127.0.0.1:{}/services', path: {{env: CHAT_PATH}}, shape: slack}}",
                slack.port
            ),
            format!(
                "{{name: cards, url: 'http://127.0.0.1:{}/card', shape: teams}}",
                teams.port
            ),
            format!(
                "{{name: calls, url: 'http://127.0.0.1:{}/v2/enqueue', routing_key: {{env: HOOK_KEY}}, shape: pagerduty}}",
                pager.port
            ),
        ],
        "[]",
    );
    let path = "T0000/B1111/secretpartofpath";
    let mut command = fixture.command(&["apply", "--yes", "-vvv"]);
    command.env("HOOK_KEY", KEY).env("CHAT_PATH", path);
    let ended = Ended::from(command.output().unwrap()).with(0);
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(
        !all.contains("secretpartofpath") && !all.contains(KEY),
        "{all}"
    );
    let heard = slack.heard();
    assert_eq!(heard[0].path, format!("/services/{path}"));
    assert!(heard[0].json()["text"].as_str().unwrap().contains("begins"));
    let card = &teams.heard()[1].json()["attachments"][0];
    assert_eq!(
        card["contentType"],
        "application/vnd.microsoft.card.adaptive"
    );
    // The begin of a run is no incident.
    let events = pager.heard();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].json()["event_action"], "resolve");
    assert_eq!(events[0].json()["routing_key"], KEY);
    // Another host is never reached by the secret part.
    for path in ["//127.0.0.2/x", "https://127.0.0.2/x"] {
        let mut command = fixture.command(&["apply", "power", "off", "edge-1", "--yes"]);
        command.env("HOOK_KEY", KEY).env("CHAT_PATH", path);
        let ended = Ended::from(command.output().unwrap());
        assert!(ended.stdout.contains("`path`"), "{ended:?}");
    }
    assert_eq!(slack.heard().len(), heard.len());
}

#[test]
fn an_interrupted_run_tells_that_and_its_resumption() {
    let hook = Hook::start(Answer::Takes);
    let faults = "[{nodes: [edge-1], step: deploy, outcome: hang}]";
    let fixture = site(&[hook.destination("")], faults);
    let ended = run(
        &fixture,
        &[
            "apply",
            "--yes",
            "--stop-after",
            "10m",
            "--stop-grace",
            "1s",
        ],
    );
    ended.with(8);
    assert_eq!(hook.events(), ["begin", "stop"]);
    let stop = hook.heard()[1].json();
    assert_eq!(stop["reason"], "interrupted", "{stop:#}");
    assert_eq!(stop["outcome"], "interrupted");
    run(
        &fixture,
        &[
            "apply",
            "--resume",
            "--yes",
            "--stop-after",
            "10m",
            "--stop-grace",
            "1s",
        ],
    );
    let heard = hook.heard();
    valid(&heard);
    let resumed = heard[2].json();
    assert_eq!(
        (&resumed["event"], &resumed["resumed"]),
        (&"begin".into(), &true.into())
    );
    assert_eq!(resumed["run"], stop["run"]);
    run(&fixture, &["abort", stop["run"].as_str().unwrap()]).with(0);
    let heard = hook.heard();
    valid(&heard);
    let end = heard.last().unwrap().json();
    assert_eq!(
        (&end["event"], &end["outcome"]),
        (&"end".into(), &"abandoned".into())
    );
}

#[test]
fn missing_approvals_are_told() {
    let hook = Hook::start(Answer::Takes);
    let fixture = untrusted(&[hook.destination("")], "[]");
    fixture.checkout.write(
        "policy.yaml",
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {approvals: {any: 1}}\n",
    );
    let key = fixture.checkout.outside().join("bob");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "bob", "-f"])
        .arg(&key)
        .status();
    assert!(made.unwrap().success());
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    fixture.checkout.write(
        "allowed_signers",
        format!("bob@example.org namespaces=\"trueup-approval@v1\" {public}"),
    );
    fixture.checkout.commit("Approvals");
    run(&fixture, &["trust", "--yes"]).with(0);
    let ended = run(&fixture, &["apply", "--yes"]).with(4);
    let heard = hook.heard();
    assert_eq!(heard.len(), 1, "{}", ended.stderr);
    valid(&heard);
    let json = heard[0].json();
    assert_eq!(json["reason"], "approval-missing");
    assert!(json["run"].is_null(), "{json:#}");
    // Other refusals are told to who asked only.
    run(&fixture, &["apply", "--yes", "--ticket", ""]).with(64);
    assert_eq!(hook.heard().len(), 1);
}

#[test]
fn doctor_tries_each_destination() {
    let (hook, dead) = (Hook::start(Answer::Takes), Hook::start(Answer::Fails));
    let second = dead.destination("").replace("name: ops", "name: second");
    let fixture = site(&[hook.destination(", events: [stop]"), second], "[]");
    let ended = run(&fixture, &["doctor", "--format", "json"]).with(1);
    let all = ended.json();
    let checks = all["checks"].as_array().unwrap().iter();
    let checks: Vec<_> = checks.filter(|each| each["check"] == "notify").collect();
    let states: Vec<_> = checks
        .iter()
        .map(|each| each["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["ok", "fail"], "{all:#}");
    assert_eq!(hook.events(), ["test"]);
    assert_eq!(dead.heard().len(), 1);
    valid(&hook.heard());
}

#[test]
fn a_divided_run_tells_its_begin_its_end_and_the_parts_that_need_a_person() {
    let hook = Hook::start(Answer::Takes);
    let faults = "[{nodes: [edge-2], step: deploy, outcome: fail, message: 'no disk'}]";
    let (fixture, _origin) = shared(untrusted(&[hook.destination("")], faults));
    run(&fixture, &["trust", "--yes"]).with(0);
    let plan = fixture.checkout.outside().join("site.plan");
    let plan = plan.to_str().unwrap();
    run(&fixture, &["plan", "-o", plan]).with(0);
    let shown = run(&fixture, &["show", plan, "--format", "json"])
        .with(0)
        .json();
    let effect = shown["effect"].as_str().unwrap();
    let begin = ["run", "begin", plan, "--run", "night", "--effect", effect];
    run(
        &fixture,
        &[&begin[..], &["--pushes-per-minute", "0"]].concat(),
    )
    .with(0);
    assert_eq!(hook.events(), ["begin"]);
    let status = run(&fixture, &["run", "status", "night", "--format", "json"]).json();
    for part in status["parts"].as_array().unwrap() {
        let part = part["part"].as_str().unwrap();
        run(&fixture, &["run", "part", "night", part]);
    }
    run(&fixture, &["run", "end", "night"]);
    let heard = hook.heard();
    valid(&heard);
    let told: Vec<(String, bool)> = heard
        .iter()
        .map(|message| (message.event(), message.json()["part"].is_string()))
        .collect();
    assert_eq!(told.first(), Some(&("begin".to_owned(), false)));
    assert!(told.contains(&("stop".to_owned(), true)), "{told:?}");
    assert_eq!(told.last(), Some(&("stop".to_owned(), false)), "{told:?}");
    assert_eq!(told.iter().filter(|(event, _)| event == "begin").count(), 1);
}

#[test]
fn an_action_of_the_service_tells_its_begin_and_its_end() {
    let hook = Hook::start(Answer::Takes);
    let fixture = deployed("");
    let text = fixture.read("backends.yaml");
    let notify = format!("{text}  notify: [{}]\n", hook.destination(""));
    fixture.checkout.write("backends.yaml", notify);
    fixture.checkout.commit("Tell others");
    run(&fixture, &["trust", "--yes"]).with(0);
    let mut command = fixture.command(&["serve", "-v"]);
    let service = Service::spawn(command.env("HOOK_KEY", KEY));
    let answer = service.post("/api/v1.0/nodes/compute11/drain");
    assert_eq!(answer.code, 200, "{}", service.log());
    valid(&hook.heard());
    assert_eq!(hook.events(), ["begin", "end"]);
    assert_eq!(hook.heard()[0].json()["action"], "drain");
}

#[test]
fn a_run_that_outlives_its_window_tells_that() {
    let hook = Hook::start(Answer::Takes);
    let fixture = untrusted(&[hook.destination("")], "[]");
    let text = fixture.read("backends.yaml");
    let slow = text.replace(
        "clock: virtual",
        "clock: virtual, durations: {prepare: 240}",
    );
    fixture.checkout.write("backends.yaml", slow);
    let now = std::time::SystemTime::now();
    let minutes = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 60;
    let at = |minutes: u64| format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
    // Between two and three minutes are left.
    let (from, to) = (at(minutes - 60), at(minutes + 3));
    fixture.checkout.write(
        "policy.yaml",
        format!(
            "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{maintenance_windows: [{{from: '{from}', to: '{to}'}}]}}\n"
        ),
    );
    fixture.checkout.commit("A window");
    run(&fixture, &["trust", "--yes"]).with(0);
    run(&fixture, &["apply", "--yes"]).with(8);
    assert_eq!(hook.events(), ["begin", "stop"]);
    let stop = hook.heard()[1].json();
    assert_eq!(stop["reason"], "window-closed", "{stop:#}");
}

#[test]
fn a_rollout_tells_the_runs_of_its_sites() {
    let hook = Hook::start(Answer::Takes);
    let fixture = Fixture::of(Checkout::new(), "none");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/edge");
    copy_folder(&example, &fixture.checkout.path().join("sites/canary"));
    let definition = "sites/canary/site-definition.yaml";
    fixture.edit(
        definition,
        "metadata: {name: edge}",
        "metadata: {name: canary}",
    );
    let path = "sites/canary/backends.yaml";
    fixture.simulator_at(path, "{clock: virtual}");
    let notify = format!(
        "{}  notify: [{}]\n",
        fixture.read(path),
        hook.destination("")
    );
    fixture.checkout.write(path, notify);
    fixture.checkout.write(
        "rollouts/fleet.yaml",
        "---\nschema: trueup/Rollout/v1\nmetadata: {name: fleet}\ndata: {phases: [{rest: true}]}\n",
    );
    fixture.checkout.commit("A site");
    run(&fixture, &["trust", "--site", "canary", "--yes"]).with(0);
    run(&fixture, &["rollout", "next", "fleet"]).with(0);
    valid(&hook.heard());
    assert_eq!(hook.events(), ["begin", "end"]);
    assert_eq!(hook.heard()[1].json()["site"], "canary");
}

#[test]
fn settings_that_cannot_be_used_are_refused_with_their_place() {
    let fixture = example("edge");
    for (destination, words) in [
        ("{name: a, url: 'https://h.example/x'}", "needs a `key`"),
        (
            "{name: a, url: 'https://h.example/x', shape: pagerduty}",
            "needs the `routing_key`",
        ),
    ] {
        backends(&fixture, &[destination.to_owned()], "[]");
        fixture.checkout.commit("Told");
        run(&fixture, &["trust", "--yes"]).with(0);
        let ended = run(&fixture, &["plan"]).with(1);
        assert!(
            ended.stderr.contains(words),
            "{destination}: {}",
            ended.stderr
        );
        assert!(ended.stderr.contains("backends.yaml:"), "{}", ended.stderr);
    }
    for destination in [
        "{name: a, url: 'ftp://h.example/x', key: {env: K}}",
        "{name: a, url: 'https://me:plain-text@h.example/x', key: {env: K}}",
        "{name: a, url: 'https://h.example/x?token=plain-text', key: {env: K}}",
    ] {
        backends(&fixture, &[destination.to_owned()], "[]");
        fixture.checkout.commit("Told");
        for command in ["validate", "plan"] {
            let ended = run(&fixture, &[command]).with(1);
            let said = ended.stdout + &ended.stderr;
            assert!(said.contains("backends.yaml:"), "{said}");
            assert!(!said.contains("plain-text"), "{said}");
        }
        // Documents that break rules may be what is looked into.
        let ended = run(&fixture, &["trust", "--yes"]);
        let said = ended.stdout + &ended.stderr;
        assert!(!said.contains("plain-text"), "{said}");
    }
}
