//! Each status of MAAS with each kind of step: what is asked for, and what is left alone with the words of the way out.

use serde_json::{Value, json};
use trueup::backend::Hardware;
use trueup::lifecycle::ProvisionState as S;
use trueup::observed::Fact;
use trueup::step::{CleanStep, StepKind};

use super::lab::{Lab, reason};
use super::life::VERSIONS;
use super::region::{Region, Version};
use super::rules::{STATUSES, name};

/// The kinds of step that a machine is moved by.
const MOVES: [StepKind; 9] = [
    StepKind::Prepare,
    StepKind::Deploy,
    StepKind::Destroy,
    StepKind::Clean,
    StepKind::Manage,
    StepKind::Provide,
    StepKind::PowerOn,
    StepKind::PowerOff,
    StepKind::Lock,
];

/// What a machine in a status is taken for, with a system on it and without, and the operation that each kind of step
/// first asks for there, in the order of [`MOVES`]; an empty text: none, a dash: the machine is waited for.
type Row = (u8, S, [&'static str; 9]);

const ROWS: [Row; 23] = [
    (
        0,
        S::Enroll,
        ["commission", "", "", "", "commission", "", "", "", ""],
    ),
    (1, S::Inspecting, ["-"; 9]),
    (
        2,
        S::InspectFailed,
        [
            "commission",
            "",
            "",
            "",
            "commission",
            "",
            "power_on",
            "",
            "",
        ],
    ),
    (3, S::Other, [""; 9]),
    (
        4,
        S::Available,
        ["tag", "deploy", "", "", "tag", "", "", "", ""],
    ),
    (5, S::Other, [""; 9]),
    (
        6,
        S::Active,
        ["", "", "release", "", "", "", "", "power_off", "lock"],
    ),
    (7, S::Other, [""; 9]),
    (8, S::Error, ["", "", "release", "", "", "", "", "", ""]),
    (9, S::Deploying, ["-"; 9]),
    (
        10,
        S::Available,
        [
            "release", "deploy", "release", "release", "tag", "", "", "", "",
        ],
    ),
    (
        11,
        S::DeployFailed,
        ["release", "", "release", "", "", "", "power_on", "", ""],
    ),
    (12, S::Deleting, ["-"; 9]),
    (
        13,
        S::Error,
        ["release", "", "release", "", "", "", "power_on", "", ""],
    ),
    (14, S::Cleaning, ["-"; 9]),
    (
        15,
        S::CleanFailed,
        [
            "", "", "", "release", "release", "release", "power_on", "", "",
        ],
    ),
    (16, S::Rescue, ["", "", "", "", "", "", "power_on", "", ""]),
    (17, S::Rescuing, ["-"; 9]),
    (
        18,
        S::RescueFailed,
        ["", "", "", "", "", "", "power_on", "", ""],
    ),
    (19, S::Unrescuing, ["-"; 9]),
    (
        20,
        S::UnrescueFailed,
        ["", "", "", "", "", "", "power_on", "", ""],
    ),
    (21, S::Inspecting, ["-"; 9]),
    (
        22,
        S::InspectFailed,
        ["test", "", "", "", "", "", "power_on", "", ""],
    ),
];

fn of(kind: StepKind) -> Value {
    match kind {
        StepKind::Clean => json!({"clean_steps": [CleanStep::new("deploy", "erase_devices")]}),
        _ => json!({}),
    }
}

/// The operation of a request that moves a machine.
fn operation(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(' ')?;
    if rest.starts_with("tags/") {
        return (rest != "tags/").then_some("tag");
    }
    rest.split_once("?op=").map(|(_, operation)| operation)
}

/// What a step first asks for that moves the machine; a dash: it waits for the machine.
async fn first_of(version: Version, status: u8, kind: StepKind) -> String {
    let lab = Lab::one(Region::new(version).with("abc001", "n1", status), "").await;
    let (order, _) = lab.order(kind, Some("n1"), of(kind));
    let backends = lab.backends();
    let acted = tokio::time::timeout(std::time::Duration::from_secs(3600), backends.act(&order));
    let is_waiting = acted.await.is_err();
    let changes = lab.changes();
    let marks = ["set_owner_data", "update_nodes"];
    let moves = changes.iter().filter_map(|line| operation(line));
    let first = moves.filter(|each| !marks.contains(each));
    // The tag of the run that prepares it is a mark, too; that of a machine that is managed is all that there is.
    let all: Vec<&str> = first.collect();
    let moved = all
        .iter()
        .find(|each| **each != "tag" && **each != "allocate");
    let state = lab.region.state();
    let mut refused = state.refused.iter().filter(|line| !line.contains("tags/"));
    if let Some(refused) = refused.next() {
        return refused.clone();
    }
    match (is_waiting, moved, all.first()) {
        (true, None, _) => "-".to_owned(),
        (_, Some(moved), _) => (*moved).to_owned(),
        (false, None, Some(first)) => (*first).to_owned(),
        (false, None, None) => String::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn each_status_is_treated_as_the_table_has_it_and_nothing_is_asked_for_that_maas_refuses() {
    let mut wrong = Vec::new();
    for (number, version) in VERSIONS.into_iter().enumerate() {
        for (status, _, firsts) in &ROWS {
            let is_tried = |move_of: usize| {
                super::takes_all()
                    || (move_of + usize::from(*status)).is_multiple_of(2) == (number == 0)
            };
            let moves = MOVES.into_iter().zip(firsts).enumerate();
            // Each move of each status is tried in one of the versions, unless all are.
            for (_, (kind, expected)) in moves.filter(|(move_of, _)| is_tried(*move_of)) {
                let first = first_of(version, *status, kind).await;
                if first != *expected {
                    let status = name(*status);
                    wrong.push(format!(
                        "{version:?} {status} {kind}: `{first}`, expected `{expected}`"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn each_status_is_shown_and_what_is_left_alone_has_the_way_out_with_it() {
    let numbers: Vec<u8> = ROWS.iter().map(|row| row.0).collect();
    let known: Vec<u8> = STATUSES.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, known);
    let ways_out = [
        (3, "test it in MAAS (`test`)"),
        (5, "release it there"),
        (7, "which is not trueup's retirement"),
        (16, "exit rescue mode in MAAS (`exit_rescue_mode`)"),
        (17, "wait until MAAS has entered rescue mode"),
        (18, "exit rescue mode in MAAS"),
        (19, "wait until MAAS has left rescue mode"),
        (20, "exit rescue mode in MAAS once more"),
    ];
    for (status, state, _) in ROWS {
        let lab = Lab::one(Region::new(Version::V34).with("abc001", "n1", status), "").await;
        let seen = lab.seen("n1").await;
        assert_eq!(seen.provision, Fact::Known(state), "{}", name(status));
        let way_out = ways_out.iter().find(|(number, _)| *number == status);
        match (way_out, &seen.way_out) {
            (None, None) => {}
            (Some((_, words)), Some(text)) => assert!(text.contains(words), "{text}"),
            other => panic!("{}: {other:?}", name(status)),
        }
        assert_eq!(state.is_driven(), way_out.is_none(), "{}", name(status));
    }
    // With a system on it a test is a service of that, and a failed one is left to whom it is for.
    for (status, state, words) in [
        (21, S::Servicing, "wait until its tests have ended"),
        (22, S::ServiceFailed, "override the failed tests there"),
    ] {
        let lab = Lab::one(Region::new(Version::V34).with("abc001", "n1", status), "").await;
        lab.region
            .change("abc001", |machine| machine.osystem = "ubuntu".to_owned());
        let seen = lab.seen("n1").await;
        assert_eq!(seen.provision, Fact::Known(state));
        assert!(seen.way_out.unwrap().contains(words));
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_in_rescue_mode_is_not_moved_and_the_refusal_tells_the_way_out() {
    for kind in [
        StepKind::Prepare,
        StepKind::Deploy,
        StepKind::Destroy,
        StepKind::Clean,
    ] {
        let lab = Lab::one(Region::new(Version::V34).with("abc001", "n1", 16), "").await;
        let why = lab.fails(kind, "n1", of(kind)).await;
        let words = "exit rescue mode in MAAS (`exit_rescue_mode`)";
        assert!(why.contains("Rescue mode") && why.contains(words), "{why}");
        assert_eq!(lab.changes(), [""; 0], "{kind}");
    }
    // Flags are tags, which no status is against, and nothing but them is asked for.
    let lab = Lab::one(Region::new(Version::V34).with("abc001", "n1", 16), "").await;
    lab.run(StepKind::SetRetired, "n1", reason("old")).await;
    lab.run(StepKind::SetMaintenance, "n1", reason("cables"))
        .await;
    assert!(lab.changes().iter().all(|line| line.contains(" tags/")));
    assert_eq!(lab.region.machine("abc001").status, 16);
}
