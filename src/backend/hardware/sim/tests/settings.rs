//! Settings, and which simulator a node goes to.

use super::*;
use crate::backend::{BackendContext, Clock, Error, NoSecrets, choose, clock};
use crate::design::{BackendKind, HardwareBackend};

#[test]
fn settings_that_do_not_fit_are_named_with_their_place() {
    let table = [
        (
            "hardware: {kind: sim, sim: {clok: real}}",
            Some("schema-sim clok"),
        ),
        (
            "hardware: {kind: sim, sim: {state: ../x}}",
            Some("schema-sim ../x"),
        ),
        (
            "hardware: {kind: sim, sim: {durations: {deploy: -1}}}",
            Some("schema-sim -1"),
        ),
        (
            "hardware: {kind: sim, sim: {durations: {deploy: .nan}}}",
            Some("schema-sim .nan"),
        ),
        (
            "hardware: {kind: sim, sim: {durations: {deploy: 1e99}}}",
            Some("schema-sim 1e99"),
        ),
        (
            "hardware: {kind: sim, sim: {faults: [{nodes: ['['], outcome: fail}]}}",
            Some("schema-sim '['"),
        ),
        (
            "hardware: {kind: sim, sim: {faults: [{outcome: explode}]}}",
            Some("schema-sim explode"),
        ),
        ("hardware: {kind: maas}", Some("schema-maas {kind: maas}")),
        (
            "hardware: {kind: sim, sim: {faults: [{step: dreain, outcome: fail}]}}",
            Some("schema-sim dreain"),
        ),
        (
            "hardware: {kind: sim}, clusters: {kubernetes: {kind: sim, sim: {pods: [{nam: x}]}}}",
            Some("schema-sim nam"),
        ),
        (
            "hardware: {kind: sim}, clusters: {kubernetes: {kind: sim, sim: {pods: [{name: x, count: 501}]}}}",
            Some("schema-sim 501"),
        ),
        (
            "hardware: {kind: sim}, clusters: {kubernetes: {kind: sim, sim: {budgets: [{name: x, yields_after: -1}]}}}",
            Some("schema-sim -1"),
        ),
        (
            "hardware: {kind: sim}, clusters: {kubernetes: {kind: sim, sim: {faults: [{step: drain, outcome: hang}]}}}",
            None,
        ),
        (
            "hardware: {kind: sim}, overrides: [{selector: {}, hardware: {kind: maas}}]",
            Some("schema-maas {kind: maas}"),
        ),
        ("hardware: {kind: sim}", None),
        (
            "hardware: {kind: sim, sim: {clock: real, durations: {deploy: 1.5}}}",
            None,
        ),
    ];
    for (data, expected) in table {
        let (sources, design) = design(&backends(data));
        let folder = TempDir::new().unwrap();
        let context = BackendContext::trusting(
            folder.path().join("simulated-site.json"),
            Arc::new(NoSecrets),
        );
        let found = choose(&design, &context).err().map(|error| {
            let diagnostic = error.diagnostic().unwrap();
            let place = sources.place(diagnostic.mark.unwrap());
            let text = &data[place.column as usize - "data: {".len() - 1..];
            (place.line, diagnostic.code.to_string(), text.to_owned())
        });
        match (&found, expected) {
            (Some((3, code, text)), Some(expected)) => {
                let (expected_code, place) = expected.split_once(' ').unwrap();
                assert_eq!(code, expected_code, "{data}");
                assert!(text.starts_with(place), "{data}: {text}");
            }
            (found, expected) => assert!(found.is_none() && expected.is_none(), "{data}"),
        }
    }
}

#[test]
fn a_site_that_names_no_backend_is_told_how_to_name_one() {
    let (_, design) = design("");
    let context = BackendContext::trusting("nowhere".into(), Arc::new(NoSecrets));
    let error = choose(&design, &context).err().unwrap();
    assert!(matches!(error, Error::NoBackends));
    assert!(error.hint().unwrap().contains("trueup/Backends/v1"));
    assert_eq!(clock(design.guards()), Clock::Real);
    assert_eq!(HardwareBackend::default().kind, BackendKind::None);
}

#[tokio::test(start_paused = true)]
async fn each_node_goes_to_the_backend_that_selects_it_and_time_jumps_only_where_all_allow_it() {
    let site = Site::new(2);
    let data = "hardware: {kind: sim}, overrides: [{selector: {node_names: [n2]}, hardware: {kind: sim, sim: {state: other.json, faults: [{outcome: fail, message: here}]}}}]";
    let (_, design) = design(&backends(data));
    assert_eq!(clock(design.guards()), Clock::Virtual);
    let context = BackendContext::trusting(site.path(), Arc::new(NoSecrets));
    let hardware = choose(&design, &context).unwrap();
    assert_eq!(hardware.observe(&site.nodes).await.len(), 2);
    hardware
        .act(&site.order("R1", StepKind::Prepare, 0))
        .await
        .unwrap();
    let answer = hardware.act(&site.order("R1", StepKind::Prepare, 1)).await;
    assert_eq!(answer, Err(ActError::Permanent(Arc::from("here"))));
    assert!(site.path().with_file_name("other.json").exists());
    let (_, real) = self::design(&backends(&data.replace("{state", "{clock: real, state")));
    assert_eq!(clock(real.guards()), Clock::Real);
}
