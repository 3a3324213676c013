//! The file: death and return, many machines, and files that lie.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::lifecycle::ProvisionState;
use crate::observed::{Fact, Labels};

#[tokio::test(start_paused = true)]
async fn an_operation_that_ran_at_a_crash_continues_and_happens_once() {
    let site = Site::new(2);
    let order = site.order("R1", StepKind::Prepare, 0);
    {
        let simulator = site.open("{}");
        simulator
            .act(&site.order("R1", StepKind::Prepare, 1))
            .await
            .unwrap();
        let acting = simulator.act(&order);
        assert!(
            tokio::time::timeout(Duration::from_secs(50), acting)
                .await
                .is_err()
        );
    }
    let simulator = site.open("{}");
    assert_eq!(simulator.probe(&order).await, Probe::UnderWay);
    let seen = simulator.observe(&site.nodes[..1]).await;
    assert_eq!(
        seen["n1"].provision,
        Fact::Known(ProvisionState::Inspecting)
    );
    let other = simulator.act(&site.order("R2", StepKind::Prepare, 0)).await;
    let busy = "`n1` is busy with `prepare/n1` of run R1";
    assert_eq!(other, Err(ActError::Passing(Arc::from(busy))));
    let (first, second) = tokio::join!(simulator.act(&order), simulator.act(&order));
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(
        site.ledger(&simulator, 0),
        [Effect::PoweredOn, Effect::Prepared]
    );
    // And once more, from the file alone.
    let simulator = site.open("{}");
    assert_eq!(simulator.probe(&order).await, Probe::Done);
    assert_eq!(
        site.ledger(&simulator, 0),
        [Effect::PoweredOn, Effect::Prepared]
    );
}

#[tokio::test(start_paused = true)]
async fn a_thousand_machines_are_worked_on_at_the_same_time_through_two_simulators() {
    let site = Site::new(1000);
    let here = Arc::new(site.open("{}"));
    let there = Arc::new(site.open("{}"));
    let began = Instant::now();
    let mut acts = tokio::task::JoinSet::new();
    for node in 0..1000 {
        let orders = [StepKind::Prepare, StepKind::Deploy].map(|kind| site.order("R1", kind, node));
        let simulator = if node % 2 == 0 { &here } else { &there }.clone();
        acts.spawn(async move {
            for order in orders {
                simulator.act(&order).await.unwrap();
            }
        });
    }
    while let Some(act) = acts.join_next().await {
        act.unwrap();
    }
    assert_eq!(began.elapsed(), Duration::from_secs(120 + 900));
    let again = site.open("{}");
    let mut numbers = BTreeSet::new();
    let mut uids = BTreeSet::new();
    for (node, design) in site.nodes.iter().enumerate() {
        let machine = again.machine(&design.name).unwrap().unwrap();
        let entries: Vec<_> = machine.ledger.entries().collect();
        assert_eq!(entries.len(), 5, "{}", site.nodes[node].name);
        numbers.extend(entries.iter().map(|entry| entry.sequence));
        uids.insert(machine.cluster.unwrap().uid);
    }
    assert_eq!(numbers, (1..=5000).collect());
    assert_eq!(uids.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_anew_holds_the_same_machines() {
    let site = Site::new(2);
    let name = &site.nodes[0].name;
    {
        let simulator = site.open("{}");
        let machine = Machine::factory_new(&site.nodes[0]);
        for _ in 0..5000 {
            simulator.seed(name, machine.clone()).unwrap();
        }
        simulator
            .act(&site.order("R1", StepKind::Prepare, 0))
            .await
            .unwrap();
    }
    let before = fs::metadata(site.path()).unwrap().len();
    let held_open = site.open("{}");
    let machine = held_open.machine(name).unwrap();
    let after = fs::metadata(site.path()).unwrap().len();
    assert!(after < before / 1000, "{before} {after}");
    assert_eq!(machine.as_ref().unwrap().ledger.entries().count(), 2);
    // It is not written anew while another process has it open.
    for _ in 0..5000 {
        held_open.seed(name, machine.clone().unwrap()).unwrap();
    }
    let before = fs::metadata(site.path()).unwrap().len();
    let other = site.open("{}");
    assert_eq!(fs::metadata(site.path()).unwrap().len(), before);
    other
        .act(&site.order("R1", StepKind::Deploy, 0))
        .await
        .unwrap();
    assert_eq!(
        held_open.machine(name).unwrap(),
        other.machine(name).unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_cut_at_any_byte_is_read_up_to_its_last_whole_line_and_goes_on() {
    let site = Site::new(1);
    let order = site.order("R1", StepKind::Prepare, 0);
    site.open("{}").act(&order).await.unwrap();
    let whole = fs::read(site.path()).unwrap();
    for length in 0..whole.len() {
        fs::write(site.path(), &whole[..length]).unwrap();
        let simulator = site.open("{}");
        simulator.act(&order).await.unwrap();
        assert_eq!(
            site.ledger(&simulator, 0),
            [Effect::PoweredOn, Effect::Prepared],
            "{length}"
        );
        let ledger = site.ledger(&site.open("{}"), 0);
        assert_eq!(ledger, [Effect::PoweredOn, Effect::Prepared], "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_of_many_blocks_is_read_in_order_and_its_first_wrong_line_is_named() {
    let site = Site::new(1);
    let order = site.order("R1", StepKind::Prepare, 0);
    site.open("{}").act(&order).await.unwrap();
    let good = fs::read_to_string(site.path()).unwrap();
    let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
    // The operation of each machine begins and ends in lines far behind that of its birth.
    let own = lines.split_off(1);
    for line in &own {
        for number in 0..8_000 {
            lines.push(line.replace("\"n1\"", &format!("\"m{number}\"")));
        }
    }
    lines.extend(own);
    let text = lines.join("\n") + "\n";
    assert!(text.len() > 3 << 20);
    fs::write(site.path(), &text).unwrap();
    let ledger = site.ledger(&site.open("{}"), 0);
    assert_eq!(ledger, [Effect::PoweredOn, Effect::Prepared]);
    for (wrong, other) in [
        (5, 20_000),
        (3_000, 3_001),
        (7_999, 8_000),
        (23_000, 24_003),
    ] {
        let mut lines = lines.clone();
        "[]".clone_into(&mut lines[wrong]);
        "{}".clone_into(&mut lines[other]);
        fs::write(site.path(), lines.join("\n") + "\n").unwrap();
        let error = Simulator::open(&site.path(), Settings::default()).unwrap_err();
        let expected = format!("line {} is no entry of a simulated site: ", wrong + 1);
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_lies_is_refused_and_left_alone() {
    let site = Site::new(1);
    site.open("{}")
        .act(&site.order("R1", StepKind::Prepare, 0))
        .await
        .unwrap();
    let good = fs::read_to_string(site.path()).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    assert_eq!(lines.len(), 4, "{good}");
    let [first, born, begun, ended] = [lines[0], lines[1], lines[2], lines[3]];
    let foreign = "this file is no simulated site; nothing was written to it";
    let table: &[(String, &str)] = &[
        ("-----BEGIN KEY-----\nx\n".to_owned(), foreign),
        ("no line end".to_owned(), foreign),
        ("{}\n".to_owned(), foreign),
        (
            first.replace("\"format_version\":1", "\"format_version\":7") + "\n",
            "the file has format version 7, and this is a trueup for version 1",
        ),
        (
            format!("{first}\n{begun}\n"),
            "line 2 is no entry of a simulated site: there is no machine `n1` yet",
        ),
        (
            format!("{first}\n{born}\n{ended}\n"),
            "line 3 is no entry of a simulated site: its fields do not fit together",
        ),
        (
            format!("{first}\n{born}\n{begun}\n{begun}\n"),
            "line 4 is no entry of a simulated site: its fields do not fit together",
        ),
        (
            format!("{first}\n{born}\n{{\"at\":0,\"node\":\"n1\"}}\n"),
            "line 3 is no entry of a simulated site: its fields do not fit together",
        ),
        (
            format!("{first}\n{}\n", born.replace("n1", "../n1")),
            "line 2 is no entry of a simulated site: the name of its node does not begin with a letter or a digit",
        ),
        (
            format!(
                "{first}\n{}\n",
                born.replace("\"at\":0", "\"at\":18446744073709551615")
            ),
            "line 2 is no entry of a simulated site: its time is too far away",
        ),
        (
            format!("{first}\n{}\n", "[".repeat(100_000)),
            "line 2 is no entry of a simulated site: ",
        ),
        (
            format!("{first}\n\0\n"),
            "line 2 is no entry of a simulated site: ",
        ),
    ];
    for (text, expected) in table {
        fs::write(site.path(), text).unwrap();
        let error = Simulator::open(&site.path(), Settings::default()).unwrap_err();
        assert!(
            error.to_string().starts_with(expected),
            "{error}\n{expected}"
        );
        assert_eq!(fs::read_to_string(site.path()).unwrap(), *text);
    }
    // A file that begins to lie while it is open makes nothing known and nothing done.
    fs::write(site.path(), &good).unwrap();
    let simulator = site.open("{}");
    fs::write(site.path(), format!("{good}nonsense\n")).unwrap();
    let seen = simulator.observe(&site.nodes).await;
    assert!(matches!(seen["n1"].provision, Fact::Unknown(_)));
    let order = site.order("R1", StepKind::Deploy, 0);
    assert!(matches!(simulator.probe(&order).await, Probe::Ambiguous(_)));
    assert!(matches!(
        simulator.act(&order).await,
        Err(ActError::Permanent(_))
    ));
}

#[test]
fn a_ledger_is_in_the_file_as_a_list_of_entries_and_is_read_as_it_was_written() {
    let entry =
        |sequence: u64, at: u64, step: &str, on_the_way: bool, effect: Effect| LedgerEntry {
            sequence,
            at,
            run: RunId::from("R1"),
            step: Arc::from(step),
            on_the_way,
            effect,
        };
    let deployed = Deployed {
        image: Arc::from("image"),
        uid: Arc::from("uid"),
        labels: Labels::default(),
    };
    let entries = vec![
        entry(1, 5, "prepare/n1", false, Effect::PoweredOn),
        entry(2, 5, "prepare/n1", false, Effect::Prepared),
        entry(7, 5, "prepare/n1", false, Effect::Prepared),
        entry(8, 9, "deploy/n1", true, Effect::WroteDisk(Arc::from("sda"))),
        entry(
            9,
            9,
            "deploy/n1",
            false,
            Effect::Deployed(Box::new(deployed)),
        ),
    ];
    let ledger = Ledger::from(entries.clone());
    assert_eq!(ledger.entries().collect::<Vec<_>>(), entries);
    assert_eq!(ledger.last(), 9);
    let effects = entries.iter().rev().map(|entry| &entry.effect);
    assert!(ledger.effects().rev().eq(effects));
    let run = RunId::from("R1");
    assert_eq!(ledger.end_of(&run, "prepare/n1"), Some(&Effect::Prepared));
    assert_eq!(ledger.end_of(&run, "destroy/n1"), None);
    assert_eq!(ledger.end_of(&run, "deploy/n1"), Some(&entries[4].effect));
    let text = serde_json::to_string(&ledger).unwrap();
    assert_eq!(text, serde_json::to_string(&entries).unwrap());
    assert!(text.contains(r#""effect":{"deployed":{"image":"image","uid":"uid","labels":{}}}"#));
    assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger);
}
