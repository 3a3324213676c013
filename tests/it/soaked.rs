//! Soaks that end a run, and a process that is killed in one.

use crate::accepted::example;
use crate::fixture::Fixture;

/// A site whose next run builds its machines anew, one at a time, each with a soak behind it.
fn about_to_soak(faults: &str) -> Fixture {
    let site = example("edge");
    let policy = "schema: trueup/Policy/v1\nmetadata: {name: policy}\n\
                  data: {disruption: {default: wipe}, soak: {time: 30m, namespaces: [default]}}\n";
    std::fs::write(site.checkout.path().join("policy.yaml"), policy).unwrap();
    let mut backends = site.read("backends.yaml");
    let cluster = format!(
        "  clusters: {{kubernetes: {{kind: sim, sim: {{pods: [{{name: web}}], faults: {faults}}}}}}}\n"
    );
    backends.push_str(&cluster);
    site.checkout.write("backends.yaml", backends);
    site.commit_and_apply("Begin", &[]).with(0);
    site.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    site.checkout.commit("Another image");
    site
}

#[test]
fn a_run_that_is_killed_in_a_soak_has_it_when_it_resumes() {
    let site = about_to_soak("[]");
    let kill = site.simulated_site().with_extension("json.kill");
    std::fs::write(&kill, r#"{"step": "soak"}"#).unwrap();
    site.run(&["apply", "--yes"]).with(137);
    assert!(!kill.exists());
    assert_eq!(site.tags(), ["success"]);
    let resumed = site.run(&["apply", "--resume"]).with(0);
    resumed.saying("soak/workers/1 succeeded");
    assert_eq!(site.tags(), ["success", "success"]);
}

#[test]
fn a_group_with_machines_that_a_halted_run_left_is_not_said_to_have_succeeded() {
    let site = about_to_soak("[{nodes: [edge-1], step: soak, outcome: fail}]");
    for (run, stopped) in [
        ("the soak of its first wave", false),
        ("the soak that is owed", true),
    ] {
        let ended = site.run(&["apply", "--yes"]).with(7);
        assert!(ended.stdout.contains("halted: `soak/"), "{}", ended.stdout);
        let shown = site.run(&["show", "--format", "json"]).with(0).json();
        let group = &shown["report"]["groups"][0];
        assert_eq!(group["succeeded"], false, "{run}: {group}");
        assert_eq!(group["stopped"] == true, stopped, "{run}: {group}");
        assert_eq!(group["standings"]["deployed"], 3, "{run}: {group}");
    }
}
