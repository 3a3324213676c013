//! Sites shaped like those of public repositories, which Deckhand and Drydock accept: they are accepted here too, with
//! a warning if trueup knows better.

use std::collections::BTreeMap;

use super::fixture::Fixture;
use super::git::Checkout;

#[path = "../../benches/pods.rs"]
pub(crate) mod shapes;

use shapes::{Shape, pod};

const MACHINES: usize = 6;

fn site(shape: Shape) -> Fixture {
    let fixture = Fixture::of(Checkout::new(), shape.site());
    for (path, text) in pod(shape, MACHINES) {
        fixture.checkout.write(&path, text);
    }
    fixture.checkout.commit("The site");
    fixture
}

/// How often each problem was found, by severity and code.
fn problems(fixture: &Fixture, code: i32) -> BTreeMap<String, usize> {
    let ended = fixture.run(&["validate", "--format", "json"]).with(code);
    let mut counts = BTreeMap::new();
    for problem in ended.json()["diagnostics"].as_array().unwrap() {
        let [severity, code] = ["severity", "code"].map(|field| problem[field].as_str().unwrap());
        *counts.entry(format!("{severity} {code}")).or_insert(0) += 1;
    }
    counts
}

fn counts(all: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let all = all.iter();
    all.map(|(problem, count)| ((*problem).to_owned(), *count))
        .collect()
}

/// Plans and applies a site: nothing that its documents have stands in the way.
fn is_carried_out(fixture: &Fixture) {
    let planned = fixture.planned(&[]);
    assert_eq!(planned.len(), MACHINES);
    assert!(planned.values().all(|kind| kind == "create"), "{planned:?}");
    fixture.run(&["apply", "--yes"]).with(0);
    assert_eq!(fixture.tags(), ["success"]);
    assert_eq!(fixture.planned(&[]), BTreeMap::new());
}

#[test]
fn a_site_like_a_pod_of_opnfv_is_accepted() {
    let fixture = site(Shape::Opnfv);
    // A field of each address that Drydock does not read, and others of one place each; a profile that no machine uses.
    let expected = counts(&[
        ("warning reference-hardware-profile", 1),
        ("warning reference-host-profile", 1),
        ("warning reference-network", 3),
        ("warning reference-network-link", 1),
        // A boot action is for a label that no machine of the site has.
        ("warning rule-selector-unknown", 1),
        ("warning schema-unknown-field", MACHINES + 5),
        ("warning yaml-duplicate-key", 2),
    ]);
    assert_eq!(problems(&fixture, 0), expected);
    is_carried_out(&fixture);
}

#[test]
fn a_site_like_one_of_akraino_is_accepted() {
    let fixture = site(Shape::Akraino);
    let expected = counts(&[
        ("warning reference-hardware-profile", 1),
        ("warning reference-network", 2),
        ("warning reference-network-link", 1),
        // A boot action is for a label that no machine of the site has.
        ("warning rule-selector-unknown", 1),
        ("warning schema-unknown-field", 7),
        ("warning yaml-duplicate-key", 1),
    ]);
    assert_eq!(problems(&fixture, 0), expected);
    is_carried_out(&fixture);
}

#[test]
fn keys_that_are_twice_in_such_sites_are_errors_where_no_policy_accepts_them() {
    for shape in [Shape::Opnfv, Shape::Akraino] {
        let fixture = site(shape);
        let path = format!("site/{}/trueup.yaml", shape.site());
        fixture.edit(
            &path,
            "allow_duplicate_keys: true",
            "allow_duplicate_keys: false",
        );
        let found = problems(&fixture, 1);
        assert!(found.contains_key("error yaml-duplicate-key"), "{found:?}");
        fixture.run(&["validate", "--allow-duplicate-keys"]).with(0);
    }
}
