//! `--format html`, the pages of plans and of runs, and `apply --report`.

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
        "<h2 id=\"h-why\">Why</h2>",
        "r-failed",
        "r-done",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let plan = fixture.run(&["show", "--plan", "--format", "html"]).with(0);
    assert!(plan.stdout.contains("<b>trueup</b> plan"));
    let text = fixture
        .run(&["show", "--format", "markdown"])
        .with(0)
        .stdout;
    assert!(text.starts_with("### Run `01"), "{text}");
    assert!(text.contains("| group | result | reason |"), "{text}");
    fixture
        .run(&["show", "--format", "dot"])
        .with(64)
        .saying("the report of a run is printed as text, Markdown, JSON or HTML");
}

#[test]
fn apply_writes_the_report_of_its_run_in_the_format_of_each_file() {
    let fixture = Fixture::one_rack();
    let outside = fixture.checkout.outside();
    let path = |name: &str| outside.join(name).to_str().unwrap().to_owned();
    let [page, comment, values, suite] = ["r.html", "r.md", "r.json", "r.xml"].map(path);
    let reports = [&page, &comment, &values, &suite].map(|path| ["--report", path.as_str()]);
    let arguments = [&["apply", "--yes"][..], reports.as_flattened()].concat();
    fixture.run(&arguments).with(0);
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert_eq!(
        read(&page),
        fixture.run(&["show", "--format", "html"]).stdout
    );
    assert_eq!(
        read(&values),
        fixture.run(&["show", "--format", "json"]).stdout
    );
    assert!(
        read(&comment).contains("13 succeeded, 0 failed"),
        "{}",
        read(&comment)
    );
    assert!(
        read(&suite).contains("tests=\"13\" failures=\"0\""),
        "{}",
        read(&suite)
    );
}

#[test]
fn a_report_in_no_known_format_or_place_is_told() {
    let fixture = Fixture::one_rack();
    fixture
        .run(&["apply", "--yes", "--report", "report.pdf"])
        .with(64)
        .saying("its name ends with .html, .md, .json or .xml (JUnit)");
    assert!(fixture.tags().is_empty());
    // What can be known before is told before anything is done.
    fixture
        .run(&["apply", "--yes", "--report", "none/report.md"])
        .with(1)
        .saying("`--report none/report.md` could not be written");
    assert!(fixture.tags().is_empty() && !fixture.simulated_site().exists());
}

#[test]
fn the_counts_of_a_plan_are_what_gitlab_reads() {
    let fixture = Fixture::one_rack();
    let counts = fixture.run(&["plan", "--format", "gitlab"]).with(0).json();
    assert_eq!(
        counts,
        serde_json::json!({"create": 13, "update": 0, "delete": 0})
    );
}

#[test]
fn a_difference_names_the_nodes_that_its_document_reaches_in_every_format() {
    let fixture = super::accepted::example("edge");
    fixture.checkout.commit("The site");
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    let text = fixture.run(&["diff"]).with(0).stdout;
    let reaches = "reaches 3 nodes: edge-1, edge-2, edge-3";
    assert!(text.contains(reaches), "{text}");
    let changed = &fixture.run(&["diff", "--format", "json"]).json()["changed"][0];
    assert_eq!(
        changed["nodes"],
        serde_json::json!(["edge-1", "edge-2", "edge-3"])
    );
    let page = fixture.run(&["diff", "--format", "html"]).with(0).stdout;
    for part in [
        "Reaches 3 machines: edge-1, edge-2, edge-3",
        "<h1>1 document changed, 0 added, 0 removed</h1>",
        "<ins>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(policy(&page).starts_with("default-src 'none'"));
    let rendered = fixture
        .run(&["diff", "--rendered", "--format", "html"])
        .with(0);
    assert!(rendered.stdout.contains("rendered documents"));
    // A node that comes is reached by its own document.
    fixture.checkout.commit("Another image");
    let nodes = fixture.read("nodes.yaml");
    let first = nodes
        .split("---\n")
        .find(|part| part.contains("edge-1"))
        .unwrap();
    let fourth = first.replace("edge-1", "edge-4").replace(".11}", ".14}");
    fixture
        .checkout
        .write("nodes.yaml", format!("{nodes}---\n{fourth}"));
    let text = fixture.run(&["diff"]).with(0).stdout;
    assert!(text.contains("reaches 1 node: edge-4"), "{text}");
}
