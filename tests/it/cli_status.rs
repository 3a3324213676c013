//! `trueup status`: what differs, from all sides.

use serde_json::Value;

use super::fixture::Fixture;

fn row<'a>(status: &'a Value, node: &str) -> &'a Value {
    let rows = status["nodes"].as_array().unwrap();
    rows.iter()
        .find(|row| row["node"] == node)
        .unwrap_or_else(|| panic!("{node} is not in {status}"))
}

#[test]
fn status_tells_what_differs_from_all_sides_and_changes_nothing() {
    let fixture = Fixture::one_rack();
    let before = fixture.run(&["status", "--format", "json"]).with(0).json();
    assert_eq!(before["nodes"].as_array().unwrap().len(), 13);
    assert_eq!(row(&before, "ntp01")["differs"][0], "no record");
    assert_eq!(row(&before, "ntp01")["record"], Value::Null);

    fixture.run(&["apply", "--yes"]).with(0);
    let ended = fixture.run(&["status"]).with(0);
    assert!(
        ended.stdout.contains("13 nodes, all as designed"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("deployed") && ended.stdout.contains("ready"),
        "{}",
        ended.stdout
    );

    fixture.edit(
        "host-profiles.yaml",
        "    image: ubuntu-24.04\n",
        "    image: ubuntu-26.04\n",
    );
    let status = fixture.run(&["status", "--format", "json"]).with(0).json();
    let differs = row(&status, "ntp01")["differs"].to_string();
    assert!(differs.contains("platform.image"), "{differs}");
    let committed = fixture.run(&["status", "--rev", "committed"]).with(0);
    assert!(
        committed.stdout.contains("all as designed"),
        "{}",
        committed.stdout
    );

    let some = fixture
        .run(&["status", "ntp01", "--format", "json"])
        .with(0)
        .json();
    assert_eq!(some["nodes"].as_array().unwrap().len(), 1);
    let none = fixture
        .run(&[
            "status",
            "--differing",
            "--rev",
            "committed",
            "--format",
            "json",
        ])
        .with(0)
        .json();
    assert_eq!(none["nodes"].as_array().unwrap().len(), 0);
}
