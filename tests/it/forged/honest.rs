//! Changes of the site between a plan and its apply, and leaves an honest plan as good as it was.

use jiff::{ToSpan, Zoned, civil::Date};

use super::{
    Fixture, another_image, changed, control_plane, forge, load, pin, relabel, remove, save,
};
use trueup::backend::hardware::sim::{Settings, Simulator};
use trueup::design::NodeName;

fn today() -> Date {
    Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC).date()
}

fn yesterday() -> String {
    today().yesterday().unwrap().to_string()
}

/// A plan as it was saved on an earlier day; gives its file.
fn saved_yesterday(fixture: &Fixture) -> String {
    let file = save(fixture, &["--as-of", &yesterday()]);
    let mut plan = load(&file);
    plan["options"]
        .as_object_mut()
        .unwrap()
        .remove("as_of_given");
    std::fs::write(&file, forge(&plan)).unwrap();
    file
}

fn deployed() -> Fixture {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    fixture
}

#[test]
fn midnight_changes_nothing_where_no_retirement_begins() {
    let fixture = deployed();
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    let file = saved_yesterday(&fixture);
    fixture.run(&["apply", &file]).with(0);
    assert_eq!(fixture.ledger()["monitor01 relabelled"], 1);
}

#[test]
fn a_retirement_that_began_since_is_more_than_was_shown() {
    let fixture = deployed();
    relabel(&fixture);
    fixture.checkout.write(
        "retirement.yaml",
        format!(
            "---\nschema: trueup/NodeRetirement/v1\nmetadata: {{name: retirement}}\ndata:\n  retirements:\n    - {{node_names: [monitor03], reason: sold, from: {}}}\n",
            today()
        ),
    );
    fixture.checkout.commit("Gold, and one is sold");
    let file = saved_yesterday(&fixture);
    fixture
        .run(&["apply", &file])
        .with(5)
        .saying("monitor03: `set-retired` added");
    assert_eq!(fixture.effects("relabelled"), 0);
}

#[test]
fn a_plan_for_a_day_to_come_waits_for_it() {
    let fixture = deployed();
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    let tomorrow = today().checked_add(1.day()).unwrap().to_string();
    let file = save(&fixture, &["--as-of", &tomorrow]);
    let mut plan = load(&file);
    plan["options"]
        .as_object_mut()
        .unwrap()
        .remove("as_of_given");
    std::fs::write(&file, forge(&plan)).unwrap();
    fixture.run(&["apply", &file]).with(4).saying("as of");
    assert_eq!(fixture.effects("relabelled"), 0);
}

#[test]
fn nothing_is_applied_by_a_day_that_a_flag_names() {
    let fixture = deployed();
    fixture.checkout.write(
        "retirement.yaml",
        format!(
            "---\nschema: trueup/NodeRetirement/v1\nmetadata: {{name: retirement}}\ndata:\n  retirements:\n    - {{node_names: [compute11], reason: sold, from: {}}}\n",
            today()
        ),
    );
    another_image(&fixture, "compute11");
    fixture
        .checkout
        .commit("One is sold, and has another image");
    let allowed = ["--allow-redeploy", "all"];
    let day = ["--as-of", &yesterday()];
    for day in [day, ["--as-of", &today().to_string()]] {
        for words in [
            &["apply", "--yes"][..],
            &["apply", "--yes", "redeploy", "compute11"],
            &["apply", "--resume"],
            &["apply", "some.plan"],
            &["run", "begin", "some.plan", "--run", "a"],
        ] {
            fixture
                .run(&[words, &day].concat())
                .with(64)
                .saying("--as-of");
        }
    }
    let mut by_environment = fixture.command(&[&["apply", "--yes"][..], &allowed].concat());
    by_environment.env("TRUEUP_AS_OF", yesterday());
    crate::fixture::Ended::from(by_environment.output().unwrap())
        .with(64)
        .saying("only reviewed");
    let file = save(&fixture, &[&day[..], &allowed].concat());
    assert_eq!(load(&file)["options"]["as_of_given"], true);
    fixture
        .run(&[&["apply", &file][..], &allowed].concat())
        .with(4)
        .saying("plan again without `--as-of`");
    fixture
        .run(&["run", "begin", &file, "--run", "a"])
        .with(4)
        .saying("plan again without `--as-of`");
    fixture
        .run(&[&["apply", "--yes", "--skip-blocked"][..], &allowed].concat())
        .with(0);
    assert!(!fixture.ledger().contains_key("compute11 destroyed"));
}

#[test]
fn a_plan_of_what_was_observed_elsewhere_is_applied_after_a_look() {
    let fixture = changed();
    let seen = fixture.checkout.outside().join("seen.json");
    let seen = seen.to_str().unwrap();
    fixture.run(&["plan", "--save-observed", seen]).with(0);
    let allowed = ["--allow-redeploy", "all", "--allow-destroy", "all"];
    let file = save(&fixture, &[&["--observed", seen][..], &allowed].concat());
    fixture
        .run(&[&["apply", &file][..], &allowed].concat())
        .with(0);
    assert_eq!(fixture.ledger()["monitor02 destroyed"], 1);
    assert_eq!(fixture.ledger()["monitor01 relabelled"], 1);
}

#[test]
fn a_new_site_that_was_planned_on_records_alone_is_applied() {
    let fixture = Fixture::one_rack();
    let file = save(&fixture, &["--observed", "none"]);
    fixture.run(&["apply", &file]).with(0);
    assert_eq!(fixture.effects("deployed"), 13);
}

/// Changes a machine behind the program's back.
fn machine(
    fixture: &Fixture,
    name: &str,
    change: impl FnOnce(&mut trueup::backend::hardware::sim::Machine),
) {
    let simulator = Simulator::open(&fixture.simulated_site(), Settings::default()).unwrap();
    let node = NodeName::from(name);
    let mut machine = simulator.machine(&node).unwrap().unwrap();
    change(&mut machine);
    simulator.seed(&node, machine).unwrap();
}

#[test]
fn a_neighbour_that_was_switched_off_is_no_part_of_the_plan() {
    use trueup::lifecycle::PowerState;
    let fixture = deployed();
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    // Seen off when it was planned, and on when it is applied: it is left out, and the rest is done.
    machine(&fixture, "compute12", |machine| {
        machine.power = PowerState::Off
    });
    let file = save(&fixture, &[]);
    machine(&fixture, "compute12", |machine| {
        machine.power = PowerState::On
    });
    fixture
        .run(&["apply", &file])
        .with(0)
        .saying("compute12: `power-on` left out");
    assert_eq!(fixture.ledger()["monitor01 relabelled"], 1);
}

#[test]
fn a_machine_that_went_off_since_is_more_than_was_shown() {
    use trueup::lifecycle::PowerState;
    let fixture = deployed();
    relabel(&fixture);
    fixture.checkout.commit("Gold");
    let file = save(&fixture, &[]);
    machine(&fixture, "compute12", |machine| {
        machine.power = PowerState::Off
    });
    fixture
        .run(&["apply", &file])
        .with(5)
        .saying("compute12: `power-on` added");
}

#[test]
fn a_node_that_left_and_came_back_is_another_design() {
    let fixture = deployed();
    remove(&fixture, "monitor02");
    fixture.checkout.commit("One less");
    let file = save(&fixture, &["--allow-destroy", "all"]);
    fixture.checkout.git(&["revert", "--no-edit", "HEAD"]);
    fixture
        .run(&["apply", &file, "--allow-destroy", "all"])
        .with(5)
        .saying("does not have the files that were planned");
    assert_eq!(fixture.effects("destroyed"), 0);
}

#[test]
fn a_neighbour_that_turned_not_ready_changes_nothing_of_the_plan() {
    let fixture = changed();
    let allowed = ["--allow-redeploy", "all", "--allow-destroy", "all"];
    let file = save(&fixture, &allowed);
    machine(&fixture, "compute12", |machine| {
        machine.cluster.as_mut().unwrap().ready = false;
    });
    fixture
        .run(&[&["apply", &file][..], &allowed].concat())
        .with(0);
    assert_eq!(fixture.ledger()["compute11 deployed"], 2);
    assert_eq!(fixture.ledger()["monitor02 destroyed"], 1);
    assert_eq!(fixture.ledger()["monitor01 relabelled"], 1);
}

#[test]
fn pods_that_moved_leave_a_plan_as_good_as_it_was() {
    let fixture = control_plane();
    let file = save(&fixture, &["redeploy", "worker-2"]);
    // All of its pods are others, of the same controllers.
    machine(&fixture, "worker-2", |machine| machine.pods.since = 1);
    fixture
        .run(&["apply", &file, "--effect", &pin(&file)])
        .with(0);
    assert_eq!(fixture.ledger()["worker-2 deployed"], 2);
}

#[test]
fn a_machine_that_cannot_be_reached_at_the_apply_is_left_alone_and_the_rest_is_done() {
    let fixture = deployed();
    relabel(&fixture);
    for node in ["compute11", "compute12"] {
        another_image(&fixture, node);
    }
    let seen = fixture.checkout.outside().join("seen.json");
    let seen = seen.to_str().unwrap();
    fixture.run(&["plan", "--save-observed", seen]).with(0);
    // From here on its controller is silent.
    fixture.faults("[{nodes: [compute12], outcome: unobservable}]");
    fixture.checkout.commit("Gold, and another image");
    let allowed = ["--allow-redeploy", "all"];
    let file = save(&fixture, &[&["--observed", seen][..], &allowed].concat());
    let ended = fixture.run(&[&["apply", &file][..], &allowed].concat());
    ended
        .with(7)
        .saying("compute12 FAILED after 0.0 s: precondition-changed")
        .saying("cannot be observed now: the machine does not answer");
    assert_eq!(fixture.ledger()["monitor01 relabelled"], 1);
    assert_eq!(fixture.ledger()["compute11 deployed"], 2);
    assert_eq!(fixture.ledger()["compute12 deployed"], 1);
    assert_eq!(fixture.ledger().get("compute12 destroyed"), None);
    // It answers again, and is done.
    fixture.faults("[]");
    let ended = fixture.commit_and_apply("It answers", &allowed);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(fixture.ledger()["compute12 deployed"], 2);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}
