//! Addresses that one machine has and another one would get: two machines with one address cut each other off.

use super::accepted::example;
use super::fixture::Fixture;

/// A site whose `edge-3` is gone from the documents, and whose new `edge-4` has its addresses.
fn replaced() -> Fixture {
    let site = example("edge");
    site.checkout.commit("The site");
    site.run(&["apply", "--yes"]).with(0);
    site.edit("nodes.yaml", "name: edge-3", "name: edge-4");
    site.checkout.commit("Another machine in place of edge-3");
    site
}

const KEPT: &str = "is one of `edge-3`, which keeps it";

#[test]
fn a_machine_is_not_built_with_an_address_of_one_that_stays() {
    let site = replaced();
    for left_out in [
        &["--skip-blocked"][..],
        &["--target", "edge-4"],
        &["--exclude", "edge-3"],
    ] {
        let plan = site.run(&[&["plan"], left_out].concat()).with(0);
        assert!(plan.stdout.contains(KEPT), "{left_out:?}: {}", plan.stdout);
    }
    site.run(&["apply", "--yes", "--skip-blocked"]).with(0);
    site.run(&[
        "reserve",
        "edge-3",
        "--until",
        "4h",
        "--reason",
        "a vendor works on it",
    ])
    .with(0);
    site.run(&["apply", "--yes"]).with(4).saying(KEPT);
    site.run(&["release", "edge-3"]).with(0);
    assert!(
        !site
            .run(&["status"])
            .with(0)
            .stdout
            .contains("edge-4  deployed")
    );
    site.run(&["apply", "--yes", "--allow-destroy", "edge-3"])
        .with(0);
    let status = site.run(&["status"]).with(0).stdout;
    assert!(status.contains("edge-4  deployed"), "{status}");
}

#[test]
fn a_machine_is_not_built_where_the_teardown_before_it_has_failed() {
    let site = replaced();
    site.simulator(
        "{clock: virtual, faults: [{nodes: [edge-3], step: destroy, outcome: fail, times: 1}]}",
    );
    site.checkout.commit("A teardown that fails");
    let words = [
        "apply",
        "--yes",
        "--allow-destroy",
        "edge-3",
        "--allow-intermediate-commits",
    ];
    let ended = site.run(&words).with(7);
    assert!(
        ended.stdout.contains("edge-4  not started"),
        "{}",
        ended.stdout
    );
    site.run(&words).with(0);
}

#[test]
fn machines_that_exchange_their_addresses_are_torn_down_before_and_a_chain_is_built_in_order() {
    let site = example("edge");
    site.checkout.commit("The site");
    site.run(&["apply", "--yes"]).with(0);
    let nodes = site.read("nodes.yaml");
    let move_to = |nodes: &str, from: &str, to: &str| {
        let nets = ["10.40.0.", "10.40.1."];
        nets.iter().fold(nodes.to_owned(), |text, net| {
            text.replace(&format!("{net}{from}}}"), &format!("{net}{to}}}"))
        })
    };
    let swapped = move_to(
        &move_to(&move_to(&nodes, "12", "99"), "13", "12"),
        "99",
        "13",
    );
    site.checkout.write("nodes.yaml", &swapped);
    site.checkout
        .commit("Exchange the addresses of edge-2 and edge-3");
    let words = ["apply", "--yes", "--allow-redeploy", "all"];
    site.run(&words)
        .with(4)
        .saying("which keeps it: tear that down first");
    site.run(&["apply", "teardown", "edge-3", "--yes"]).with(0);
    site.run(&words).with(4).saying("`--target edge-2`");
    site.run(&[&words[..], &["--target", "edge-2"]].concat())
        .with(0);
    site.run(&words).with(0);
    let plan = site.run(&["plan", "--detailed-exitcode"]).with(0);
    assert!(plan.stdout.contains("No changes"), "{}", plan.stdout);
}
