//! Answers of Ironic: versions, words, refusals, pages, and answers that are lost.

use crate::design::NodeName;
use std::time::Duration;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_ironic_that_is_too_old_or_none_at_all_is_told_so_once() {
    for (headers, expected) in [
        (
            vec![
                ("x-openstack-ironic-api-minimum-version", "1.1".to_owned()),
                ("x-openstack-ironic-api-maximum-version", "1.58".to_owned()),
            ],
            "speaks versions 1.1 to 1.58 of its API, and trueup needs one from 1.61 (node retirement) to 1.108",
        ),
        (Vec::new(), "is it Ironic?"),
    ] {
        let server =
            Server::plain(move |_| Reply::Json(200, headers.clone(), json!({"id": "v1"}))).await;
        let (ironic, design) = opened(&server.url, &["n1"]);
        let nodes: Vec<_> = design.nodes.values().cloned().collect();
        let seen = ironic.observe(&nodes).await;
        match &seen[&NodeName::from("n1")].provision {
            Fact::Unknown(why) => assert!(why.contains(expected), "{why}"),
            Fact::Known(state) => panic!("seen {state}"),
        }
        let text = permanent(act(&ironic, &design, StepKind::Prepare, "n1").await);
        assert!(text.contains(expected), "{text}");
        assert!(changes(&server).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_ironic_is_spoken_to_in_its_own_version() {
    let stand_in = StandIn::new().newest(61);
    let server = stand_in.serve().await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    for kind in [StepKind::VerifySite, StepKind::Prepare] {
        act(&ironic, &design, kind, "n1").await.unwrap();
    }
    let received = server.received.lock().unwrap();
    let versions: BTreeSet<_> = received
        .iter()
        .filter_map(|each| each.headers.get("x-openstack-ironic-api-version").cloned())
        .collect();
    assert_eq!(versions, BTreeSet::from(["1.61".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn what_ironic_says_is_dug_out_of_json_inside_json() {
    let inner =
        r#"{"faultcode": "Client", "faultstring": "Node n1 is\u001b[31m odd", "debuginfo": null}"#;
    for (body, expected) in [
        (
            json!({"error_message": inner}),
            r"400 Bad Request: Node n1 is\u{1b}[31m odd",
        ),
        (
            json!({"error_message": {"faultstring": "as it is"}}),
            "400 Bad Request: as it is",
        ),
        (
            json!({"error_message": "plain words"}),
            "400 Bad Request: plain words",
        ),
        (
            json!({"error_message": "{\"code\": 406, \"title\": \"T\", \"description\": \"D\"}"}),
            "400 Bad Request: D",
        ),
        (
            json!({"error": {"message": "from before it"}}),
            "400 Bad Request: from before it",
        ),
        (json!([1]), "400 Bad Request: `[1]`"),
    ] {
        let stand_in = StandIn::new();
        let server = stand_in
            .serve_but(move |received| {
                (received.method == "POST").then(|| Reply::json(400, body.clone()))
            })
            .await;
        let (ironic, design) = opened(&server.url, &["n1"]);
        let text = permanent(act(&ironic, &design, StepKind::Prepare, "n1").await);
        assert!(
            text.starts_with("node `n1`: ") && text.ends_with(expected),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_held_is_waited_for_and_a_rule_is_told() {
    // Held for a while: three answers 409, and then it is free.
    let stand_in = StandIn::new().with("n1", "manageable");
    stand_in.hold("n1", 3);
    let server = stand_in.serve().await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    act(&ironic, &design, StepKind::Provide, "n1")
        .await
        .unwrap();
    assert_eq!(stand_in.state("n1"), "available");

    // A rule: the node is idle, and the answer stays.
    let stand_in = StandIn::new().with("n1", "manageable");
    let server = stand_in
        .serve_but(|received| {
            let words = json!({"faultstring": "Node n1 must not"}).to_string();
            (received.method == "PUT").then(|| Reply::json(409, json!({"error_message": words})))
        })
        .await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    let text = permanent(act(&ironic, &design, StepKind::Provide, "n1").await);
    assert!(text.ends_with("409 Conflict: Node n1 must not"), "{text}");
    assert_eq!(changes(&server).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_ironic_has_no_worker_for_is_repeated_for_minutes_as_it_asks_and_no_longer() {
    let busy = |status: u16, words: &'static str, after: Option<u64>| {
        let headers = after.map(|after| ("retry-after", after.to_string()));
        let words = json!({ "faultstring": words }).to_string();
        Reply::Json(
            status,
            headers.into_iter().collect(),
            json!({ "error_message": words }),
        )
    };
    let none = "Requested action cannot be performed due to lack of free conductor workers.";
    let locked = "Node n1 is locked by host conductor, please retry after the current operation is completed.";
    for (status, words, after, times) in [
        (503, none, None, 8),
        (503, none, Some(45), 8),
        (409, locked, None, 8),
    ] {
        let stand_in = StandIn::new().with("n1", "manageable");
        let left = Mutex::new(times);
        let server = stand_in
            .serve_but(move |received| {
                let mut left = left.lock().unwrap();
                if received.method != "PUT" || *left == 0 {
                    return None;
                }
                *left -= 1;
                Some(busy(status, words, after))
            })
            .await;
        let (ironic, design) = opened(&server.url, &["n1"]);
        let begun = tokio::time::Instant::now();
        act(&ironic, &design, StepKind::Provide, "n1")
            .await
            .unwrap();
        assert!(begun.elapsed().as_secs() > 80);
        let puts = changes(&server).into_iter();
        assert_eq!(
            puts.filter(|line| line.starts_with("PUT")).count(),
            times + 1
        );
    }
    let stand_in = StandIn::new().with("n1", "manageable");
    let server = stand_in
        .serve_but(move |received| (received.method == "PUT").then(|| busy(503, none, None)))
        .await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    let begun = tokio::time::Instant::now();
    let ended = act(&ironic, &design, StepKind::Provide, "n1").await;
    assert!(matches!(ended, Err(ActError::Passing(_))), "{ended:?}");
    let took = begun.elapsed().as_secs();
    assert!((500..=600).contains(&took), "{took}");
    let Err(ActError::Passing(text)) = ended else {
        unreachable!()
    };
    assert!(
        text.contains("Ironic has worked on no machine for 10 minutes"),
        "{text}"
    );
}

/// An hour of cleaning elsewhere is no reason to fail: its end frees a worker.
#[tokio::test(start_paused = true)]
async fn what_ironic_has_no_room_for_waits_as_long_as_ironic_works_on_others() {
    const HOUR: Duration = Duration::from_secs(3600);
    let stand_in = StandIn::new()
        .with("n1", "manageable")
        .with("other", "active");
    stand_in.begin("other", "cleaning", "available");
    let begun = tokio::time::Instant::now();
    let fixture = stand_in.clone();
    let server = stand_in
        .serve_but(move |received| {
            if begun.elapsed() > HOUR {
                fixture.end("other");
            }
            let is_full = fixture.state("other") == "cleaning";
            let words = json!({"faultstring": "The concurrent action limit for cleaning has been reached."});
            (received.method == "PUT" && is_full)
                .then(|| Reply::json(503, json!({"error_message": words.to_string()})))
        })
        .await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    act(&ironic, &design, StepKind::Provide, "n1")
        .await
        .unwrap();
    assert!(begun.elapsed() > HOUR);

    // The step's own time bounds it all the same.
    let stand_in = StandIn::new()
        .with("n1", "manageable")
        .with("other", "active");
    stand_in.begin("other", "cleaning", "available");
    let server = stand_in
        .serve_but(|received| {
            (received.method == "PUT").then(|| Reply::json(503, json!({"error_message": "full"})))
        })
        .await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    let mut order = order(&design, StepKind::Provide, "n1", json!({}));
    Arc::make_mut(&mut order.step).timeout = 2000;
    let begun = tokio::time::Instant::now();
    let ended = ironic.act(&order).await;
    assert!(matches!(ended, Err(ActError::Passing(_))), "{ended:?}");
    let took = begun.elapsed().as_secs();
    assert!((1700..=1800).contains(&took), "{took}");
}
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_looked_for_before_anything_is_asked_again() {
    let stand_in = StandIn::new().with("n1", "available");
    let lost = stand_in.clone();
    let server = stand_in
        .serve_but(move |received| {
            // It is done, and the answer is lost.
            (received.method == "PUT").then(|| {
                lost.begin("n1", "deploying", "active");
                Reply::Raw(Vec::new())
            })
        })
        .await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    let order = order(&design, StepKind::Deploy, "n1", json!({}));
    match ironic.act(&order).await {
        Err(ActError::Ambiguous(text)) => assert!(text.contains("states/provision"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(ironic.probe(&order).await, Probe::UnderWay);
    stand_in.end("n1");
    assert_eq!(ironic.probe(&order).await, Probe::Done);
    ironic.act(&order).await.unwrap();
    let asked = changes(&server);
    let asked: Vec<_> = asked
        .iter()
        .filter(|line| line.starts_with("PUT"))
        .collect();
    assert_eq!(asked.len(), 1, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn another_runs_deploy_is_not_taken_for_this_ones() {
    let stand_in = StandIn::new().with("n1", "available");
    let server = stand_in.serve().await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    act(&ironic, &design, StepKind::Deploy, "n1").await.unwrap();
    let mut other = order(&design, StepKind::Deploy, "n1", json!({}));
    assert_eq!(ironic.probe(&other).await, Probe::Done);
    other.run = RunId::from("01J00000000000000000000009");
    assert_eq!(ironic.probe(&other).await, Probe::NotBegun);
    // Marked by us, but not what we deployed.
    stand_in.set(
        "n1",
        "instance_uuid",
        json!("5ce3ed53-0000-4000-8000-000000000001"),
    );
    let ours = order(&design, StepKind::Deploy, "n1", json!({}));
    assert!(matches!(ironic.probe(&ours).await, Probe::Ambiguous(_)));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_leads_elsewhere_or_never_ends_is_left() {
    let stand_in = StandIn::new()
        .with("n1", "available")
        .page(1)
        .with("n2", "active");
    stand_in.next_host("http://evil.example");
    let server = stand_in.serve().await;
    let (ironic, design) = opened(&server.url, &["n1", "n2"]);
    let nodes: Vec<_> = design.nodes.values().cloned().collect();
    let seen = ironic.observe(&nodes).await;
    let state = |node: &str| seen[&NodeName::from(node)].provision.known().copied();
    assert_eq!(state("n1"), Some(ProvisionState::Available));
    assert_eq!(state("n2"), Some(ProvisionState::Active));
}

#[tokio::test(start_paused = true)]
async fn fields_of_any_shape_are_no_harm() {
    let odd = json!([
        {"uuid": "u1", "name": "n1", "provision_state": "\u{1b}[2J", "power_state": "error",
         "last_error": "line\nline\u{202e}", "clean_step": "x", "extra": 5, "maintenance": true,
         "retired": true, "unknown": {"a": 1}},
        {"uuid": "u2", "name": null, "provision_state": null}
    ]);
    let stand_in = StandIn::new();
    let server = stand_in
        .serve_but(move |received| {
            received
                .path
                .starts_with("/v1/nodes?")
                .then(|| Reply::json(200, json!({"nodes": odd})))
        })
        .await;
    let (ironic, design) = opened(&server.url, &["n1"]);
    let nodes: Vec<_> = design.nodes.values().cloned().collect();
    let seen = &ironic.observe(&nodes).await[&NodeName::from("n1")];
    assert_eq!(seen.provision, Fact::Known(ProvisionState::Other));
    assert_eq!(seen.last_error.as_deref(), Some(r"line line\u{202e}"));
    assert_eq!(seen.maintenance.as_deref(), Some("no reason given"));
    assert!(seen.capabilities.is_empty());
    assert!(matches!(&seen.power, Fact::Unknown(why) if &**why == "Ironic says `error`"));
}
