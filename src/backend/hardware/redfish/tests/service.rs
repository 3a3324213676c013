//! The service of a machine by its controller: never a success that a second reading does not show.

use futures_util::future::join_all;

use super::updates::{Dealt, Hardware as Simulated, Report, Truth};
use super::*;

const DOCUMENT: &str = "---\nschema: trueup/Hardware/v1\nmetadata: {name: all}\ndata:\n  mode: enforce\n  firmware:\n    \
    bios: {version: '2.5', image: {url: 'http://images/bios_2.5.bin'}}\n    \
    bmc: {version: '7.1', image: {url: 'http://images/bmc_7.1.bin'}}\n    \
    NIC.1: {version: '22.5', image: {url: 'http://images/NIC.1_22.5.bin'}}\n  \
    bios: {Turbo: Enabled, NumLock: false}\n";

fn text_of(bmc: &Bmc) -> String {
    let settings =
        "settling_time: 0.05, request_timeout: 1, shutdown_time: 1, deploy: {boot_time: 0.3}";
    let text = text(&[bmc.port()], "", "");
    text.replace(
        "settling_time: 0.3, request_timeout: 1, shutdown_time: 2",
        settings,
    )
}

/// A machine that is on, and its controller.
async fn machine(change: impl FnOnce(&mut Simulated)) -> (Bmc, Site) {
    let bmc = Bmc::start().await;
    {
        let mut state = bmc.state();
        state.is_on = true;
        state.delay = Duration::from_millis(20);
        change(state.hardware());
    }
    let site = opened(&(text_of(&bmc) + DOCUMENT));
    (bmc, site)
}

const NIC: (&str, &str) = ("firmware.NIC.1", "22.5");
const TURBO: (&str, &str) = ("bios.Turbo", "Enabled");

async fn run(site: &Site, parameters: &Value, notes: Vec<Arc<str>>) -> Result<(), ActError> {
    let parameters = Some(parameters.clone());
    site.carried_out(StepKind::Service, parameters, notes).await
}

fn resets(bmc: &Bmc) -> usize {
    let changes = bmc.changes();
    changes.iter().filter(|change| *change == "On").count()
}

#[tokio::test(start_paused = true)]
async fn updates_and_pending_values_come_about_with_one_restart() {
    let (bmc, site) = machine(|_| ()).await;
    let seen = &site.see().await[0];
    assert!(seen.fixed.is_empty(), "{:?}", seen.fixed);
    assert!(seen.capabilities.contains(Capability::Service));
    let all = [
        ("bios.NumLock", "false"),
        TURBO,
        NIC,
        ("firmware.bmc", "7.1"),
        ("firmware.bios", "2.5"),
    ];
    run(&site, &of_settings(&all), Vec::new()).await.unwrap();
    assert_eq!(resets(&bmc), 1);
    let mut state = bmc.state();
    let hardware = state.hardware();
    assert_eq!(hardware.attributes["Turbo"], "Enabled");
    assert_eq!(hardware.attributes["NumLock"], false);
    let versions: Vec<&str> = hardware.versions.values().map(String::as_str).collect();
    assert_eq!(versions, ["22.5", "2.5", "7.1"]);
    let nic = "/redfish/v1/UpdateService/FirmwareInventory/NIC.1";
    assert_eq!(
        hardware.asked,
        [
            json!({"ImageURI": "http://images/NIC.1_22.5.bin", "Targets": [nic]}),
            // The shape that the controller took before.
            json!({"ImageURI": "http://images/bmc_7.1.bin", "Targets": ["/redfish/v1/Managers/1"]}),
            json!({"ImageURI": "http://images/bios_2.5.bin", "Targets": ["/redfish/v1/Systems/1"]}),
        ]
    );
    let attributes = json!({"NumLock": false, "Turbo": "Enabled"});
    let time = json!({"ApplyTime": "OnReset"});
    let pending = json!({"Attributes": attributes, "@Redfish.SettingsApplyTime": time});
    assert_eq!(hardware.patched, [pending]);
}

/// Without a target a controller may update every system that it has.
#[tokio::test(start_paused = true)]
async fn of_several_systems_the_one_that_is_updated_is_always_named() {
    let (bmc, _) = machine(|_| ()).await;
    bmc.state().others = vec!["2"];
    let site = opened(&(text_of(&bmc).replace("port:", "system: '1', port:") + DOCUMENT));
    let own = [("firmware.bmc", "7.1"), ("firmware.bios", "2.5")];
    run(&site, &of_settings(&own), Vec::new()).await.unwrap();
    let mut state = bmc.state();
    let asked = &state.hardware().asked;
    assert_eq!(asked.len(), 2);
    for body in asked {
        assert!(body["Targets"].is_array(), "{body}");
    }
}

/// The ways of an update, whether the step may succeed, and how often the update is asked for.
const UPDATES: [(Dealt, bool, usize); 16] = [
    (Dealt::Well, true, 1),
    (Dealt::WithoutTask, true, 1),
    (Dealt::Unchanged, false, 2),
    (Dealt::SecondTry, true, 2),
    (Dealt::Vanishes, true, 1),
    (Dealt::VanishesUnchanged, false, 2),
    (Dealt::Fails, false, 2),
    (Dealt::FailsChanged, true, 1),
    (Dealt::Warns, true, 1),
    (Dealt::WarnsUnchanged, false, 2),
    (Dealt::Restarts, true, 1),
    (Dealt::RestartsUnchanged, false, 2),
    (Dealt::Refused, false, 1),
    (Dealt::Waits, true, 1),
    (Dealt::LosesAnswer, true, 1),
    (Dealt::LosesRequest, true, 2),
];

#[tokio::test(start_paused = true)]
async fn no_report_of_an_update_makes_a_success() {
    let case = async |(dealt, succeeds, times): (Dealt, bool, usize), more: &[(&str, &str)]| {
        let (bmc, site) = machine(|hardware| hardware.updates = dealt).await;
        let ended = run(&site, &of_settings(more), Vec::new()).await;
        let mut state = bmc.state();
        let hardware = state.hardware();
        let is_true = hardware.versions["NIC.1"] == "22.5";
        assert_eq!(
            (ended.is_ok(), is_true),
            (succeeds, succeeds),
            "{dealt:?}: {ended:?}"
        );
        assert_eq!(hardware.asked.len(), times, "{dealt:?}");
        assert!(state.is_on, "{dealt:?}");
    };
    // An update alone, and one with pending values beside it.
    let alone = UPDATES.map(|row| case(row, &[NIC]));
    let both = UPDATES.map(|row| case(row, &[NIC, TURBO]));
    join_all(alone).await;
    join_all(both).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_a_controller_reports_only_what_it_shows_after_the_restart_counts() {
    let case = async |lie: (Report, Truth)| {
        let (bmc, site) = machine(|hardware| hardware.lie = Some(lie)).await;
        let ended = run(&site, &of_settings(&[NIC]), Vec::new()).await;
        let mut state = bmc.state();
        let hardware = state.hardware();
        let is_true = hardware.versions["NIC.1"] == "22.5";
        assert_eq!(ended.is_ok(), is_true, "{lie:?}: {ended:?}");
        let succeeds = matches!(lie.1, Truth::Changed | Truth::SecondTry | Truth::Late);
        // What the restart takes back stays where a failure was reported, and no restart came.
        assert!(is_true == succeeds || lie.1 == Truth::TakenBack, "{lie:?}");
        assert!(hardware.asked.len() <= 2, "{lie:?}");
        assert!(state.is_on, "{lie:?}");
    };
    let reports = Report::ALL.into_iter();
    let lies = reports.flat_map(|report| Truth::ALL.map(|truth| (report, truth)));
    let lies: Vec<_> = lies.collect();
    assert_eq!(lies.len(), 165);
    for some in lies.chunks(25) {
        join_all(some.iter().map(|lie| case(*lie))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_is_found_done_only_where_its_values_are_shown_twice() {
    for (truth, probed) in [
        (Truth::ShownOnce, Probe::NotBegun),
        (Truth::Changed, Probe::Done),
    ] {
        let (bmc, site) = machine(|hardware| {
            if truth == Truth::Changed {
                hardware.versions.insert("NIC.1", "22.5".to_owned());
            }
            hardware.lie = Some((Report::Completed, truth));
            hardware.is_restarted();
        })
        .await;
        let (order, _) = site.order_with(StepKind::Service, Some(of_settings(&[NIC])), Vec::new());
        assert_eq!(site.hardware.probe(&order).await, probed, "{truth:?}");
        drop(bmc);
    }
}

#[tokio::test(start_paused = true)]
async fn pending_values_count_only_where_they_are_read_after_the_restart() {
    let table = [
        (Dealt::Well, false, true, 1),
        (Dealt::Unchanged, false, false, 2),
        // A controller that shows as set what the restart drops.
        (Dealt::Unchanged, true, false, 2),
        (Dealt::SecondTry, true, true, 2),
        (Dealt::Refused, false, false, 0),
    ];
    for (dealt, shows_pending, succeeds, times) in table {
        let change = |hardware: &mut Simulated| {
            hardware.pending_values = dealt;
            hardware.shows_pending = shows_pending;
        };
        let (bmc, site) = machine(change).await;
        let ended = run(&site, &of_settings(&[TURBO]), Vec::new()).await;
        let mut state = bmc.state();
        let hardware = state.hardware();
        let is_true = hardware.attributes["Turbo"] == "Enabled";
        assert_eq!(
            (ended.is_ok(), is_true),
            (succeeds, succeeds),
            "{dealt:?}: {ended:?}"
        );
        assert_eq!(hardware.patched.len(), times, "{dealt:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_tells_what_is_left_and_what_was_reported() {
    let (_bmc, site) = machine(|hardware| hardware.updates = Dealt::Fails).await;
    let error = run(&site, &of_settings(&[NIC]), Vec::new())
        .await
        .unwrap_err();
    let error = error.to_string();
    let left = "tried 2 times, and not changed: `firmware.NIC.1` shows 21.0, designed 22.5 (update 2 firmware.NIC.1 failed: \
                Exception: Flash of the component.)";
    assert!(error.ends_with(left), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_killed_at_any_request_is_ended_by_the_next_process() {
    let parameters = of_settings(&[TURBO, NIC]);
    let (bmc, site) = machine(|_| ()).await;
    run(&site, &parameters, Vec::new()).await.unwrap();
    let requests = bmc.server.received.lock().unwrap().len();
    let case = async |killed_at: usize| {
        let (bmc, site) = machine(|_| ()).await;
        let (order, listener) =
            site.order_with(StepKind::Service, Some(parameters.clone()), Vec::new());
        tokio::select! {
            _ = site.hardware.act(&order) => {}
            () = bmc.server.has_received(killed_at) => {}
        }
        let notes = notes_of(&listener);
        // The process that is gone keeps nothing.
        let site = opened(&(text_of(&bmc) + DOCUMENT));
        let (order, _) =
            site.order_with(StepKind::Service, Some(parameters.clone()), notes.clone());
        if site.hardware.probe(&order).await != Probe::Done {
            run(&site, &parameters, notes)
                .await
                .unwrap_or_else(|error| panic!("{killed_at}: {error}"));
        }
        let mut state = bmc.state();
        let hardware = state.hardware();
        assert_eq!(hardware.versions["NIC.1"], "22.5", "{killed_at}");
        assert_eq!(hardware.attributes["Turbo"], "Enabled", "{killed_at}");
        assert!(
            hardware.asked.len() <= 2,
            "{killed_at}: {:?}",
            hardware.asked
        );
        assert!(state.is_on, "{killed_at}");
    };
    let cases: Vec<usize> = (1..=requests).collect();
    for some in cases.chunks(8) {
        join_all(some.iter().map(|at| case(*at))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_controller_does_not_offer_is_told_when_it_is_observed() {
    let reasons = |seen: &ObservedNode| -> Vec<String> {
        let fixed = seen.fixed.iter();
        fixed
            .map(|value| format!("{}: {}", value.name, value.reason))
            .collect()
    };
    let (bmc, site) = machine(|hardware| {
        hardware.attributes.remove("Turbo");
        hardware.service = json!({"ServiceEnabled": false});
    })
    .await;
    let off = "its UpdateService is switched off";
    assert_eq!(
        reasons(&site.see().await[0]),
        [
            "bios.Turbo: its BIOS has no attribute `Turbo`".to_owned(),
            format!("firmware.NIC.1: {off}"),
            format!("firmware.bios: {off}"),
            format!("firmware.bmc: {off}"),
        ]
    );
    let target = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate";
    let table = [
        (
            json!({"Actions": {}}),
            "its UpdateService fetches no images (no action SimpleUpdate)",
        ),
        (
            json!({"Actions": {"#UpdateService.SimpleUpdate": {"target": target, "TransferProtocol@Redfish.AllowableValues": ["HTTPS", "NFS"]}}}),
            "its controller does not fetch images by HTTP, but by: HTTPS, NFS",
        ),
        (
            json!({"Actions": {"#UpdateService.SimpleUpdate": {"target": target, "@Redfish.OperationApplyTimeSupport": {"SupportedValues": ["AtMaintenanceWindowStart"]}}}}),
            "its controller applies updates only at: AtMaintenanceWindowStart",
        ),
    ];
    for (service, reason) in table {
        bmc.state().hardware().service = service;
        let seen = &site.see().await[0];
        assert!(
            reasons(seen).contains(&format!("firmware.NIC.1: {reason}")),
            "{:?}",
            seen.fixed
        );
    }
    // What cannot be read changes nothing.
    let inventory = json!({"FirmwareInventory": {"@odata.id": "/redfish/v1/UpdateService/Gone"}});
    bmc.state().hardware().service = inventory;
    let unread = reasons(&site.see().await[0]);
    let says = |reason: &String| reason.contains("what that depends on could not be read");
    assert!(unread.iter().any(says), "{unread:?}");
    // A document without an image, and a name that is not in the inventory.
    bmc.state().hardware().service = json!({});
    let other = "---\nschema: trueup/Hardware/v1\nmetadata: {name: all}\ndata: {mode: enforce, bios: {Turbo: 'On'}, \
        firmware: {NIC.1: {version: '22.5'}, NIC.2: {version: '1', image: {url: 'http://images/x'}}}}\n";
    bmc.state()
        .hardware()
        .attributes
        .insert("Turbo".to_owned(), json!("Disabled"));
    let site = opened(&(text_of(&bmc) + other));
    assert_eq!(
        reasons(&site.see().await[0]),
        [
            "bios.Turbo: its BIOS has no value `On` for `Turbo`, but: Enabled, Disabled",
            "firmware.NIC.1: its Hardware document names no `image`",
            "firmware.NIC.2: its UpdateService does not list it",
        ]
    );
    // A controller that fails to answer tells of nothing that it cannot.
    bmc.state().busy = 1000;
    assert!(site.see().await[0].fixed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_controller_has_taken_of_a_service_is_told_to_stay() {
    let (bmc, site) = machine(|_| ()).await;
    let order = |notes| {
        let parameters = Some(of_settings(&[TURBO]));
        site.order_with(StepKind::Service, parameters, notes)
    };
    let (first, listener) = order(Vec::new());
    assert_eq!(site.hardware.take_back(&first).await, Ok(Probe::NotBegun));
    let is_set = || !bmc.state().hardware().patched.is_empty();
    tokio::select! {
        _ = site.hardware.act(&first) => {}
        () = async { while !is_set() { tokio::time::sleep(Duration::from_millis(1)).await; } } => {}
    }
    let (begun, _) = order(notes_of(&listener));
    let error = site.hardware.take_back(&begun).await.unwrap_err();
    let stays = "its controller may keep the pending values and the updates that it has taken";
    assert!(error.to_string().ends_with(stays), "{error}");
    // Nothing is remembered of a run that has ended.
    site.hardware.leave().await;
    bmc.state().busy = 1000;
    let error = site.hardware.take_back(&begun).await.unwrap_err();
    let unread = "how far its service is cannot be read: ";
    assert!(error.to_string().contains(unread), "{error}");
    bmc.state().busy = 0;
    site.hardware.act(&begun).await.unwrap();
    let (done, _) = order(Vec::new());
    assert_eq!(site.hardware.take_back(&done).await, Ok(Probe::Done));
}

const LIVE: &str = "---\nschema: trueup/Hardware/v1\nmetadata: {name: all}\ndata:\n  mode: enforce\n  firmware:\n    \
    NIC.1: {version: '22.5', apply: live, image: {url: 'http://images/NIC.1_22.5.bin'}}\n  \
    bmc: {ntp: [10.0.0.1, 10.0.0.2], services_off: [ipmi, telnet]}\n";
const NTP: (&str, &str) = ("bmc.ntp", "10.0.0.1, 10.0.0.2");
const OFF: (&str, &str) = ("bmc.services_off", "ipmi, telnet");

#[tokio::test(start_paused = true)]
async fn settings_of_a_controller_are_set_while_its_machine_runs() {
    let table = [
        (Dealt::Well, true, 1),
        (Dealt::Unchanged, false, 2),
        (Dealt::SecondTry, true, 2),
        (Dealt::LosesAnswer, true, 1),
        (Dealt::Refused, false, 0),
    ];
    for (dealt, succeeds, times) in table {
        let (bmc, _) = machine(|hardware| hardware.protocol_changes = dealt).await;
        let site = opened(&(text_of(&bmc) + LIVE));
        let seen = &site.see().await[0];
        assert!(seen.capabilities.contains(Capability::ServiceLive));
        let differs: Vec<(&str, &str)> = seen
            .drift
            .iter()
            .map(|part| (&*part.field, &*part.observed))
            .collect();
        let shown = [
            ("bmc.ntp", "off"),
            ("bmc.services_off", "ftp, kvm, snmp, telnet"),
            ("firmware.NIC.1", "21.0"),
        ];
        assert_eq!(differs, shown);
        let parameters = of_settings(&[NTP, OFF]);
        let attempt = async |notes| {
            let parameters = Some(parameters.clone());
            site.carried_out(StepKind::ServiceLive, parameters, notes)
                .await
        };
        let mut ended = attempt(Vec::new()).await;
        if matches!(ended, Err(ActError::Passing(_) | ActError::Ambiguous(_))) {
            ended = attempt(Vec::new()).await;
        }
        assert_eq!(ended.is_ok(), succeeds, "{dealt:?}: {ended:?}");
        assert_eq!(resets(&bmc), 0, "{dealt:?}: the machine runs");
        let mut state = bmc.state();
        let hardware = state.hardware();
        let ntp = json!({"ProtocolEnabled": true, "NTPServers": ["10.0.0.1", "10.0.0.2"]});
        let is_true = hardware.protocols["NTP"] == ntp
            && hardware.protocols["IPMI"] == json!({"ProtocolEnabled": false});
        assert_eq!(is_true, succeeds, "{dealt:?}");
        assert_eq!(hardware.protocols["SSH"], json!({"ProtocolEnabled": true}));
        assert_eq!(hardware.patched.len(), times, "{dealt:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn firmware_that_applies_at_once_is_changed_without_a_restart_or_names_the_next_rung() {
    for (dealt, succeeds) in [(Dealt::Well, true), (Dealt::Unchanged, false)] {
        let (bmc, _) = machine(|hardware| hardware.updates = dealt).await;
        let site = opened(&(text_of(&bmc) + LIVE));
        let parameters = Some(of_settings(&[NIC]));
        let ended = site
            .carried_out(StepKind::ServiceLive, parameters, Vec::new())
            .await;
        assert_eq!(ended.is_ok(), succeeds, "{dealt:?}: {ended:?}");
        if let Err(error) = ended {
            let next = "without `apply: live` in its Hardware document the next plan changes it with a restart";
            assert!(error.to_string().ends_with(next), "{error}");
        }
        assert_eq!(resets(&bmc), 0, "{dealt:?}");
    }
    // What applies only at a restart is told when it is observed.
    let (bmc, _) = machine(|_| ()).await;
    let target = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate";
    bmc.state().hardware().service = json!({"Actions": {"#UpdateService.SimpleUpdate":
        {"target": target, "@Redfish.OperationApplyTimeSupport": {"SupportedValues": ["OnReset"]}}}});
    let site = opened(&(text_of(&bmc) + LIVE));
    let seen = &site.see().await[0];
    let reasons: Vec<&str> = seen.fixed.iter().map(|each| &*each.reason).collect();
    let only = "its controller applies updates only at: OnReset, and its Hardware document says `apply: live`";
    assert_eq!(reasons, [only]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_running_machine_that_is_killed_at_any_request_is_ended_by_the_next_process()
{
    let parameters = of_settings(&[NTP, OFF, NIC]);
    let run = async |site: &Site, notes| {
        let parameters = Some(parameters.clone());
        site.carried_out(StepKind::ServiceLive, parameters, notes)
            .await
    };
    let begun = async || {
        let (bmc, _) = machine(|_| ()).await;
        let site = opened(&(text_of(&bmc) + LIVE));
        (bmc, site)
    };
    let (bmc, site) = begun().await;
    run(&site, Vec::new()).await.unwrap();
    let requests = bmc.server.received.lock().unwrap().len();
    let case = async |killed_at: usize| {
        let (bmc, site) = begun().await;
        let order = |site: &Site, notes| {
            site.order_with(StepKind::ServiceLive, Some(parameters.clone()), notes)
        };
        let (first, listener) = order(&site, Vec::new());
        tokio::select! {
            _ = site.hardware.act(&first) => {}
            () = bmc.server.has_received(killed_at) => {}
        }
        let notes = notes_of(&listener);
        // The process that is gone keeps nothing.
        let site = opened(&(text_of(&bmc) + LIVE));
        let (next, _) = order(&site, notes.clone());
        if site.hardware.probe(&next).await != Probe::Done {
            let ended = run(&site, notes).await;
            ended.unwrap_or_else(|error| panic!("{killed_at}: {error}"));
        }
        let mut state = bmc.state();
        let hardware = state.hardware();
        assert_eq!(hardware.versions["NIC.1"], "22.5", "{killed_at}");
        assert_eq!(hardware.protocols["NTP"]["ProtocolEnabled"], true);
        assert!(hardware.asked.len() <= 2, "{killed_at}");
        assert!(state.is_on, "{killed_at}");
    };
    let cases: Vec<usize> = (1..=requests).collect();
    for some in cases.chunks(8) {
        join_all(some.iter().map(|at| case(*at))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_comes_back_with_a_part_less_fails_its_service_and_is_restarted_once() {
    for (left, succeeds) in [(384, true), (352, false)] {
        let (bmc, site) = machine(|hardware| hardware.memory_left_gib = left).await;
        let mut parameters = of_settings(&[TURBO]);
        parameters["kept_parts"] = json!([{"name": "expect.memory_gib", "value": "384"}]);
        let ended = run(&site, &parameters, Vec::new()).await;
        assert_eq!(ended.is_ok(), succeeds, "{left}: {ended:?}");
        if let Err(error) = ended {
            let says = "firmware and settings are as designed, and parts are missing: `expect.memory_gib` shows 352, before its \
                        restart 384";
            assert!(error.to_string().contains(says), "{error}");
        }
        assert_eq!(resets(&bmc), 1, "{left}");
        assert_eq!(bmc.state().hardware().attributes["Turbo"], "Enabled");
        let (order, _) = site.order_with(StepKind::Service, Some(parameters), Vec::new());
        let is_done = site.hardware.probe(&order).await == Probe::Done;
        assert_eq!(is_done, succeeds, "{left}");
    }
}
