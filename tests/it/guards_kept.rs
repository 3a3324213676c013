//! The commit whose guards are in force is kept by a ref of the site, whatever becomes of the branches.

use super::accepted::example;
use super::cli_interrupted::{clone, shared};

#[test]
fn a_new_clone_reads_the_guards_in_force_after_the_history_was_rewritten() {
    let site = example("edge");
    site.checkout.commit("A site");
    let (site, origin) = shared(site);
    site.run(&["apply", "--yes"]).with(0);
    let policy = "schema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {protected: [{node_names: [edge-1]}]}\n";
    site.checkout.write("policy.yaml", policy);
    let commit = site.checkout.commit("Protect a machine");
    site.checkout.git(&["push", "--quiet"]);
    site.run(&["apply", "guards", "--yes"]).with(0);
    let refs = origin.git(&[
        "for-each-ref",
        "--points-at",
        &commit.to_string(),
        "--format=%(refname)",
    ]);
    assert!(refs.contains("refs/trueup/edge/guards/"), "{refs}");
    // Of all commits none is left but one with other documents.
    std::fs::remove_file(site.checkout.path().join("policy.yaml")).unwrap();
    site.checkout
        .git(&["checkout", "--quiet", "--orphan", "new"]);
    site.checkout.commit("All in one");
    site.checkout
        .git(&["push", "--quiet", "--force", "origin", "new:main"]);
    origin.git(&["gc", "--quiet", "--prune=now"]);
    let other = clone(&site, &origin);
    other
        .run(&[
            "apply",
            "teardown",
            "edge-1",
            "--yes",
            "--target-revision",
            "committed",
        ])
        .with(4)
        .saying("the policy protects it");
}
