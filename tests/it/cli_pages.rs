//! `--format html`: the pages of plans and of runs.

use super::fixture::Fixture;

/// The value of a page's content security policy.
fn policy(page: &str) -> &str {
    let start = "<meta http-equiv=\"Content-Security-Policy\" content=\"";
    let from = page.find(start).expect("a policy") + start.len();
    &page[from..from + page[from..].find('"').unwrap()]
}

#[test]
fn the_page_of_a_plan_is_the_same_from_plan_and_from_the_saved_file() {
    let fixture = Fixture::one_rack();
    let file = fixture.checkout.outside().join("site.plan");
    let file = file.to_str().unwrap();
    let page = fixture
        .run(&["plan", "-o", file, "--format", "html"])
        .with(0);
    let page = page.stdout;
    assert!(page.starts_with("<!DOCTYPE html>\n"), "{page}");
    assert!(page.ends_with("</html>\n"), "{page}");
    assert!(policy(&page).starts_with("default-src 'none'; style-src 'sha256-"));
    // The machines, their racks, and the simulated times are in it.
    for part in [
        "id=\"h-order\"",
        "id=\"h-time\"",
        "Critical path",
        "\"racks\":[\"",
        "Takes about",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let again = fixture.run(&["show", file, "--format", "html"]).with(0);
    assert_eq!(again.stdout, page);
}

#[test]
fn the_page_of_a_run_shows_its_plan_with_how_it_ended() {
    let fixture = Fixture::one_rack();
    let node = fixture.run(&["nodes", "--format", "names"]).with(0).stdout;
    let node = node.lines().next().unwrap();
    fixture.faults(&format!(
        "[{{nodes: [{node}], step: deploy, outcome: fail, message: no <b>image</b>}}]"
    ));
    fixture.checkout.commit("A fault");
    fixture.run(&["apply", "--yes"]);
    let page = fixture.run(&["show", "--format", "html"]).with(0).stdout;
    for part in [
        "<b>trueup</b> run",
        "Run <code>01",
        "no &lt;b&gt;image&lt;/b&gt;",
        "r-failed",
        "r-done",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let plan = fixture.run(&["show", "--plan", "--format", "html"]).with(0);
    assert!(plan.stdout.contains("<b>trueup</b> plan"));
    fixture
        .run(&["show", "--format", "dot"])
        .with(64)
        .saying("the report of a run is printed as text, JSON or HTML");
}
