//! Many controllers at once: a measurement, run by hand.
//!
//! `cargo test --lib redfish::tests::many -- --ignored --nocapture`

use std::collections::HashMap;

use std::time::Instant;

use super::*;

/// How long each answer takes.
const LATENCY: Duration = Duration::from_millis(50);

#[tokio::test]
#[ignore = "a measurement of about a minute"]
async fn a_thousand_controllers_are_cycled_nearly_as_fast_as_their_latency_allows() {
    const COUNT: usize = 1000;
    let on: Arc<Mutex<HashMap<String, bool>>> = Arc::default();
    // One listener is every address of the loopback network: each controller is a host of its own.
    let server = Server::everywhere(move |received| {
        let host = received.headers["host"].clone();
        let mut on = on.lock().unwrap();
        let is_on = on.entry(host).or_default();
        let answer = match (received.method.as_str(), received.path.as_str()) {
            ("POST", _) => {
                *is_on = received.body["ResetType"] == "On";
                Reply::json(204, Value::Null)
            }
            (_, "/redfish/v1/") => {
                Reply::json(200, json!({"Systems": {"@odata.id": "/redfish/v1/Systems"}}))
            }
            (_, "/redfish/v1/Systems") => {
                Reply::json(200, json!({"Members": [{"@odata.id": SYSTEM}]}))
            }
            _ => Reply::json(200, json!({
                "PowerState": if *is_on { "On" } else { "Off" },
                "Actions": {"#ComputerSystem.Reset": {"target": format!("{SYSTEM}/Reset"), "ResetType@Redfish.AllowableValues": ["On", "ForceOff"]}},
            })),
        };
        Reply::Late(LATENCY, Box::new(answer))
    })
    .await;
    let port = server.url.rsplit_once(':').unwrap().1.parse().unwrap();
    let site = |count: usize, first: usize| {
        let text = text(&vec![port; count], "", "address: HOST")
            .replace("settling_time: 0.3", "settling_time: 0.2");
        let address = |at: usize| format!("127.1.{}.{}", at / 250, at % 250 + 1);
        let text: String = text
            .split_inclusive("HOST")
            .enumerate()
            .map(|(at, part)| part.replace("HOST", &address(first + at)))
            .collect();
        opened(&text)
    };
    let cycle = async |site: &Site, at: usize| {
        for kind in [StepKind::PowerOn, StepKind::PowerOff] {
            site.hardware.act(&site.order_for(at, kind)).await.unwrap();
        }
    };
    let one = site(1, COUNT);
    let begun = Instant::now();
    cycle(&one, 0).await;
    let alone = begun.elapsed();
    let many = site(COUNT, 0);
    let begun = Instant::now();
    stream::iter(0..COUNT)
        .map(|at| cycle(&many, at))
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<_>>()
        .await;
    let took = begun.elapsed();
    let rounds = COUNT.div_ceil(AT_ONCE);
    let ideal = alone * u32::try_from(rounds).unwrap();
    let asked = server.received.lock().unwrap().len();
    eprintln!(
        "{COUNT} power cycles of {alone:?}, {AT_ONCE} at a time: {took:?}, ideal {ideal:?}, ratio {:.2}; {asked} requests, {} connections",
        took.as_secs_f64() / ideal.as_secs_f64(),
        *server.connections.lock().unwrap(),
    );
    let begun = Instant::now();
    let seen = many.hardware.observe(&many.nodes).await;
    assert!(
        seen.values()
            .all(|node| node.power == Fact::Known(PowerState::Off))
    );
    eprintln!("{COUNT} machines seen in {:?}", begun.elapsed());
}

/// The requests of one machine that is planned and deployed as a run does it: an observation and then, in a run, one before each step.
#[tokio::test(start_paused = true)]
async fn a_deploy_takes_thirty_requests() {
    let bmc = Bmc::start().await;
    let text = text(
        &[bmc.port()],
        "image: 'http://images/{node}.iso', deploy: {boot_time: 1}",
        "",
    );
    // Settled as slowly as controllers are, so that nothing that was read before counts after it.
    let site = opened(&text.replace("settling_time: 0.3", "settling_time: 1"));
    bmc.state().drives.truncate(1);
    site.see().await;
    site.hardware
        .act(&site.order(StepKind::VerifySite))
        .await
        .ok();
    for kind in [StepKind::Prepare, StepKind::Deploy] {
        site.see().await;
        site.hardware.act(&site.order(kind)).await.unwrap();
    }
    site.hardware.leave().await;
    let lines = bmc.server.lines();
    assert!(
        bmc.state().is_on && lines.len() <= 30,
        "{} {lines:#?}",
        lines.len()
    );
}
