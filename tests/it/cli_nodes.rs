//! `trueup nodes`: which nodes selectors name, and which clean steps their machines would run.

use super::fixture::Fixture;

#[test]
fn selectors_intersect_and_a_name_that_is_none_is_told_the_nearest() {
    let fixture = Fixture::one_rack();
    let all = fixture.run(&["nodes", "--format", "names"]).with(0).stdout;
    assert_eq!(all.lines().count(), 13);
    let some = fixture
        .run(&[
            "nodes",
            "compute*",
            "--group",
            "compute-nodes-1",
            "--format",
            "names",
        ])
        .with(0)
        .stdout;
    assert!(!some.is_empty() && some.lines().count() < 13, "{some}");
    assert!(
        some.lines().all(|name| name.starts_with("compute")),
        "{some}"
    );
    fixture
        .run(&["nodes", "ntp1"])
        .with(1)
        .saying("did you mean `ntp01`?");
}

#[test]
fn every_list_of_nodes_is_divided_in_one_way_and_printed_as_it_is_typed() {
    let fixture = Fixture::empty("edge");
    fixture.run(&["init"]).with(0);
    let nodes = fixture.read("nodes.yaml");
    let nodes = nodes.replace("rack: closet", "rack: \"Rack 1, row A\"");
    fixture.checkout.write("nodes.yaml", nodes);
    fixture.checkout.commit("A rack with a comma");
    let word = r"rack:Rack 1\, row A";
    let names = |arguments: &[&str]| fixture.run(arguments).with(0).stdout;
    let all = names(&["nodes", "--format", "names"]);
    assert_eq!(names(&["nodes", word, "--format", "names"]), all);
    assert_eq!(
        names(&["nodes", "--rack", r"Rack 1\, row A", "--format", "names"]),
        all
    );
    assert_eq!(
        names(&["nodes", "edge-1,edge-2", "--format", "names"]),
        "edge-1\nedge-2\n"
    );
    assert!(names(&["status", word]).contains("edge-3"));
    assert!(names(&["plan", "retire", "edge-1,edge-2", "--reason", "old"]).contains("edge-2"));
    let plan = names(&["plan", "--exclude", word]);
    assert!(
        plan.contains(r"In force: --exclude 'rack:Rack 1\, row A'"),
        "{plan}"
    );
    fixture
        .run(&["nodes", "--rack", "Rack 1, row A"])
        .with(1)
        .saying(r"did you mean `Rack 1\, row A`?");
}

#[test]
fn clean_steps_are_shown_in_the_order_of_the_policy_before_anything_runs() {
    let fixture = Fixture::one_rack();
    fixture.checkout.write(
        "cleaning.yaml",
        "---\nschema: trueup/CleaningPolicy/v1\nmetadata: {name: cleaning}\ndata:\n  priorities:\n    \
         bios.reset_bios: 120\n    deploy.erase_devices: 0\n\
         ---\nschema: trueup/CleaningPolicy/v1\nmetadata: {name: never}\ndata:\n  automated: false\n  \
         selectors: [{node_names: [ntp01]}]\n",
    );
    let shown = fixture
        .run(&["nodes", "--clean-steps", "--format", "json"])
        .with(0)
        .json();
    let of = |node: &str| {
        let rows = shown["nodes"].as_array().unwrap();
        rows.iter().find(|row| row["node"] == node).unwrap().clone()
    };
    let steps = |row: &serde_json::Value, list: &str| -> Vec<String> {
        let steps = row[list].as_array().unwrap().iter();
        steps
            .map(|step| {
                let (interface, name) = (&step["interface"], &step["step"]);
                format!("{}.{}", interface.as_str().unwrap(), name.as_str().unwrap())
            })
            .collect()
    };
    let policy = of("compute11");
    assert_eq!(policy["automated"], true);
    assert_eq!(
        steps(&policy, "enabled"),
        [
            "bios.reset_bios",
            "management.verify_properties",
            "firmware.verify_firmware",
            "deploy.erase_devices_metadata",
        ]
    );
    assert_eq!(
        steps(&policy, "switched_off"),
        ["deploy.erase_devices", "bios.apply_bios_settings"]
    );
    let exception = of("ntp01");
    assert_eq!(exception["automated"], false);
    assert_eq!(
        steps(&exception, "enabled")[0],
        "management.verify_properties",
        "the first policy that selects a node is the only one"
    );
    let table = fixture.run(&["nodes", "ntp01", "--clean-steps"]).with(0);
    assert!(
        table.stdout.contains("automated cleaning is off"),
        "{}",
        table.stdout
    );
    assert!(
        !fixture.simulated_site().exists(),
        "looking changes nothing"
    );
}
