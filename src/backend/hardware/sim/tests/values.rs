//! Firmware and settings of simulated machines, and updates that go wrong.

use super::*;
use crate::observed::{Fact, PartDrift};

const OLD: &str = "values: {firmware.bios: '2.9', bios.Turbo: 'false'}";

#[tokio::test(start_paused = true)]
async fn an_update_counts_by_what_its_second_reading_shows() {
    let refused = "permanent: the controller of `n1` refuses `bios.Turbo` in place";
    let unchanged = "permanent: the update of `firmware.bios` reported no failure, and its second reading shows 2.9, not 2.10";
    let table = [
        ("", "ok", 1),
        ("{name: bios.Turbo, outcome: task-vanishes}", "ok", 1),
        (
            "{name: bios.Turbo, outcome: controller-restarts, seconds: 5}",
            "ok",
            1,
        ),
        ("{name: firmware.bios, outcome: second-try}", "ok", 2),
        ("{name: firmware.bios, outcome: unchanged}", unchanged, 2),
        ("{name: bios.Turbo, outcome: refused}", refused, 0),
    ];
    for (update, expected, restarts) in table {
        let site = Site::new(1);
        let script = format!("{{hardware: [{{{OLD}, updates: [{update}]}}]}}");
        let simulator = site.open(&script);
        site.deployed(&simulator).await;
        let wanted = of_settings(&[("bios.Turbo", "true"), ("firmware.bios", "2.10")]);
        let order = site.order_with("R1", StepKind::Service, 0, Some(wanted));
        assert_eq!(Hardware::probe(&simulator, &order).await, Probe::NotBegun);
        let answer = match Hardware::act(&simulator, &order).await {
            Ok(()) => "ok".to_owned(),
            Err(ActError::Permanent(why)) => format!("permanent: {why}"),
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(answer, expected, "{update}");
        let probe = match expected {
            "ok" => Probe::Done,
            _ => Probe::NotBegun,
        };
        assert_eq!(Hardware::probe(&simulator, &order).await, probe, "{update}");
        let ledger = site.ledger(&simulator, 0);
        let off = ledger.iter().filter(|each| **each == Effect::PoweredOff);
        assert_eq!(off.count(), restarts, "{update}: {ledger:?}");
        assert!(
            !ledger
                .iter()
                .any(|each| matches!(each, Effect::WipedDisk(_)))
        );
        // Asked again, nothing is restarted that is as wanted.
        if expected == "ok" {
            let again = Order {
                run: RunId::from("R2"),
                ..order
            };
            Hardware::act(&simulator, &again).await.unwrap();
            assert_eq!(site.ledger(&simulator, 0), ledger, "{update}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_machine_shows_is_compared_with_what_its_documents_say() {
    let mut site = Site::new(2);
    let hardware =
        crate::design::fixture::value("{firmware: {bios: {version: '2.10'}}, bios: {Turbo: true}}");
    let expected = crate::design::fixture::value("{expect: {cpus: 2, drives: 4}}");
    for node in &mut site.nodes {
        let node = Arc::make_mut(node);
        let fields = Arc::new(hardware.clone());
        node.sections.insert(Section::Firmware, fields);
        let fields = Arc::new(expected.clone());
        node.sections.insert(Section::Expected, fields);
    }
    let script = "{hardware: [{nodes: [n1], values: {firmware.bios: '2.9', bios.Turbo: 'true', expect.cpus: '1'}}]}";
    let simulator = site.open(script);
    site.deployed(&simulator).await;
    let seen = Hardware::observe(&simulator, &site.nodes).await;
    let drift = |name: &str| {
        let parts = seen[name].drift.iter().map(PartDrift::to_string);
        parts.collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        drift("n1"),
        "firmware.bios: 2.9, designed 2.10; expect.cpus: 1, designed 2"
    );
    assert_eq!(*seen["n1"].compared, [Section::Firmware]);
    // What a controller does not show is neither equal nor different.
    assert_eq!((drift("n2"), seen["n2"].compared.len()), (String::new(), 0));
    assert!(matches!(seen["n2"].provision, Fact::Known(_)));
}
