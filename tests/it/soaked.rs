//! A process that is killed in a soak.

use crate::accepted::example;

#[test]
fn a_run_that_is_killed_in_a_soak_has_it_when_it_resumes() {
    let site = example("edge");
    let policy = "schema: trueup/Policy/v1\nmetadata: {name: policy}\n\
                  data: {disruption: {default: wipe}, soak: {time: 30m, namespaces: [default]}}\n";
    std::fs::write(site.checkout.path().join("policy.yaml"), policy).unwrap();
    let mut backends = site.read("backends.yaml");
    backends.push_str("  clusters: {kubernetes: {kind: sim, sim: {pods: [{name: web}]}}}\n");
    site.checkout.write("backends.yaml", backends);
    site.commit_and_apply("Begin", &[]).with(0);
    site.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    site.checkout.commit("Another image");
    let kill = site.simulated_site().with_extension("json.kill");
    std::fs::write(&kill, r#"{"step": "soak"}"#).unwrap();
    site.run(&["apply", "--yes"]).with(137);
    assert!(!kill.exists());
    assert_eq!(site.tags(), ["success"]);
    let resumed = site.run(&["apply", "--resume"]).with(0);
    resumed.saying("soak/workers/1 succeeded");
    assert_eq!(site.tags(), ["success", "success"]);
}
