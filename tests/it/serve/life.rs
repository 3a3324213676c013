//! One action at a time, actions that are followed, and the ends of a service.

use serde_json::Value;

use super::{Service, deployed, on, slow};
use crate::fixture::{Fixture, wait_until};

/// The action at an address.
fn action(service: &Service, url: &str) -> Value {
    service.get(url).json()
}

/// Waits until an action has begun its run.
#[track_caller]
fn wait_for_run(service: &Service, url: &str) -> String {
    wait_until("the run does not begin", || {
        action(service, url)["run"].is_string()
    });
    action(service, url)["run"].as_str().unwrap().to_owned()
}

/// The records of all runs, the newest first.
fn runs(fixture: &Fixture) -> Vec<Value> {
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    log["runs"].as_array().unwrap().clone()
}

#[test]
fn an_action_is_followed_and_its_run_records_who_asked() {
    let fixture = deployed("");
    let mut service = Service::start(&fixture, &[]);
    let marker = "6f0c7b1e-3a54-4f3a-9a1e-6d8a53c8b1aa";
    let headers = [
        ("Prefer", "respond-async"),
        ("X-Context-Marker", marker),
        ("X-Roles", "viewer"),
        ("X-User-Name", "mallory"),
    ];
    let answer = service.request("POST", &on("compute11", "drain"), &headers, "");
    assert_eq!(answer.reason(), (202, "Accepted".to_owned()));
    assert_eq!(answer.header("x-context-marker"), Some(marker));
    let url = answer.json()["details"]["action"]["url"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(answer.header("location"), Some(url.to_lowercase().as_str()));
    wait_until("the drain does not end", || {
        action(&service, &url)["state"] == "succeeded"
    });
    let followed = action(&service, &url);
    assert_eq!(followed["status"]["reason"], "Success");
    assert_eq!(followed["node"], "compute11");
    let record = runs(&fixture).remove(0);
    let request = &record["requested"];
    let uid = rustix::process::getuid().as_raw();
    assert_eq!(request["subject"], format!("uid {uid}"));
    assert_eq!(
        (&request["by"], &request["marker"]),
        (&"peer".into(), &marker.into())
    );
    assert_eq!(request["id"], followed["id"]);
    assert_eq!(record["run"], followed["run"]);
    let shown = fixture.run(&["show"]).with(0).stdout;
    let words = format!(
        "uid {uid} (peer), request {}, marker {marker}",
        request["id"].as_str().unwrap()
    );
    assert!(shown.contains(&words), "{shown}");
    // Another process of the service finds it in the records.
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0));
    let service = Service::start(&fixture, &[]);
    let found = action(&service, &url);
    assert_eq!(
        (&found["state"], &found["run"]),
        (&"succeeded".into(), &record["run"])
    );
    assert_eq!(
        service.get("/api/v1/actions").json(),
        Value::Array(vec![found.clone()])
    );
    let unknown = service.get("/api/v1/actions/01JB0000000000000000000000");
    assert_eq!(unknown.reason(), (404, "NotFound".to_owned()));
    // A marker that is no UUID is none.
    let headers = [("X-Context-Marker", "\u{7f}x"), ("X-Context-Marker", "y")];
    assert_eq!(
        service
            .request("GET", "/versions", &headers[1..], "")
            .header("x-context-marker"),
        None
    );
}

#[test]
fn of_a_hundred_requests_at_once_one_wins_and_the_others_learn_of_the_holder() {
    let fixture = slow();
    let config = fixture.checkout.outside().join("serve.yaml");
    std::fs::write(&config, "limits: {requests_per_second: 1000}").unwrap();
    let service = Service::start(&fixture, &["--config", config.to_str().unwrap()]);
    let before = runs(&fixture).len();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..100)
            .map(|_| scope.spawn(|| service.post(&on("compute11", "drain"))))
            .collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.code == 200);
    assert_eq!((won.len(), lost.len()), (1, 99));
    for answer in lost {
        assert_eq!(answer.reason(), (409, "Conflict".to_owned()));
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(
            message.starts_with("the site is held by `drain` of node `compute11` for uid "),
            "{message}"
        );
    }
    assert_eq!(runs(&fixture).len(), before + 1);
    assert_eq!(service.post(&on("compute12", "drain")).code, 200);
}

#[test]
fn a_command_and_the_service_keep_out_of_each_other_s_way() {
    let fixture = slow();
    let service = Service::start(&fixture, &[]);
    let url = service.post_async(&on("compute11", "drain"));
    let run = wait_for_run(&service, &url);
    fixture
        .run(&["apply", "--yes", "drain", "compute12"])
        .with(6)
        .saying(&run);
    wait_until("the drain does not end", || {
        action(&service, &url)["state"] == "succeeded"
    });
    let command = fixture.start(&["apply", "--yes", "uncordon", "compute11"]);
    command.wait_with_output().unwrap();
    let slow = fixture.start(&["apply", "--yes", "drain", "compute11"]);
    wait_until("the command takes no lock", || {
        !fixture
            .checkout
            .git(&["for-each-ref", "refs/trueup/lock"])
            .is_empty()
            || service.get("/metrics").body.contains("trueup_lock_held 1")
    });
    let answer = service.post(&on("compute12", "drain"));
    assert_eq!(answer.reason(), (409, "Conflict".to_owned()));
    assert!(answer.body.contains("held by Ada"), "{answer:?}");
    slow.wait_with_output().unwrap();
}

#[test]
fn sigterm_hands_an_action_over_and_the_next_service_resumes_it() {
    let fixture = slow();
    let mut service = Service::start(&fixture, &["--stop-grace", "1"]);
    let waiting = {
        let address = service.address().to_owned();
        let request = super::bytes("POST", &on("compute11", "drain"), &[], "");
        std::thread::spawn(move || super::exchange(&address, &request))
    };
    wait_until("the action does not begin", || {
        let all = service.get("/api/v1/actions").json();
        all[0]["run"].is_string()
    });
    service.signal("TERM");
    assert_eq!(service.wait(), Some(0), "{}", service.log());
    let answer = super::Answer::parse(&waiting.join().unwrap());
    assert_eq!(
        answer.reason(),
        (500, "DrainNodeError".to_owned()),
        "{answer:?}"
    );
    assert!(answer.body.contains("interrupted"), "{answer:?}");
    assert_eq!(runs(&fixture)[0]["outcome"], "interrupted");
    // Without the flag it is reported, and nothing is begun.
    let mut idle = Service::start(&fixture, &[]);
    let answer = idle.post(&on("compute12", "drain"));
    assert_eq!(answer.reason(), (409, "Conflict".to_owned()), "{answer:?}");
    idle.signal("TERM");
    idle.wait();
    let service = Service::start(&fixture, &["--resume-interrupted"]);
    wait_until("the run is not resumed", || {
        runs(&fixture)[0]["outcome"] == "succeeded"
    });
    let resumed = runs(&fixture).remove(0);
    assert!(resumed["requested"]["id"].is_string(), "{resumed}");
    wait_until("the place stays taken", || {
        service.post(&on("compute12", "drain")).code == 200
    });
}

#[test]
fn a_service_that_is_killed_loses_nothing() {
    let fixture = slow();
    let mut service = Service::start(&fixture, &[]);
    let url = service.post_async(&on("compute11", "drain"));
    let run = wait_for_run(&service, &url);
    service.signal("KILL");
    service.wait();
    let service = Service::start(&fixture, &["--resume-interrupted"]);
    wait_until("the run is not resumed", || {
        runs(&fixture)[0]["outcome"] == "succeeded"
    });
    let last = runs(&fixture).remove(0);
    assert_eq!(last["run"], run);
    assert_eq!(action(&service, &url)["state"], "succeeded");
}

#[test]
fn an_action_goes_on_where_its_caller_does_not() {
    let fixture = slow();
    let service = Service::start(&fixture, &[]);
    let mut caller = super::connect(service.address());
    caller
        .write_all(&super::bytes("POST", &on("compute11", "drain"), &[], ""))
        .unwrap();
    wait_until("the action does not begin", || {
        service.get("/api/v1/actions").json()[0]["run"].is_string()
    });
    drop(caller);
    wait_until("the drain does not end", || {
        service.get("/api/v1/actions").json()[0]["state"] == "succeeded"
    });
}
