//! Several sites of one repository in one report: `--all-sites` and `--affected-by`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::fixture::{Fixture, copy_folder};
use super::git::Checkout;
use super::pods::shapes::{Shape, pod};
use super::site_units::generator::{Size, files, site_name};

fn of_files(files: Vec<(String, String)>) -> Fixture {
    let fixture = Fixture::of(Checkout::new(), "none");
    for (path, text) in files {
        fixture.checkout.write(&path, text);
    }
    fixture
}

/// Sites that share all but their definition and five machines.
fn generated(sites: usize) -> Fixture {
    let fixture = of_files(files(&Size {
        sites,
        nodes_per_file: 5,
        from_one: 30,
        ..Size::of(5)
    }));
    fixture.checkout.commit("The sites");
    fixture
}

fn machines(site: usize) -> String {
    format!("site/{}/baremetal/0000/nodes-000000.yaml", site_name(site))
}

/// The example with two sites.
fn north_and_south() -> Fixture {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/multi-site");
    let fixture = Fixture::of(Checkout::new(), "none");
    copy_folder(&root, fixture.checkout.path());
    fixture.checkout.commit("The sites");
    fixture
}

/// Sites that differ in what they make of their common layers: overridden, incomplete, broken.
fn varied() -> Fixture {
    let fixture = generated(7);
    let versions = fixture.read("global/versions.yaml");
    let versions = versions.replacen(
        "  name: software-versions\n",
        "  name: software-versions\n  labels: {versions: common}\n",
        1,
    );
    fixture.checkout.write("global/versions.yaml", &versions);
    let replaced = |site: usize, image: &str| {
        let own = versions
            .replacen("  labels: {versions: common}\n", "  replacement: true\n", 1)
            .replacen(
                "    layer: global\n",
                "    layer: site\n    parentSelector: {versions: common}\n    actions: [{method: merge, path: .}]\n",
                1,
            )
            .replace("xenial", image);
        let path = format!("site/{}/versions.yaml", site_name(site));
        fixture.checkout.write(&path, own);
    };
    replaced(1, "bionic");
    replaced(2, "focal");
    fixture.edit_all(&machines(3), "profile-1", "profil-1");
    let path = format!("site/{}/broken.yaml", site_name(4));
    fixture.checkout.write(&path, "a: [b\n");
    let path = format!("site/{}/site-definition.yaml", site_name(5));
    fixture.edit(&path, "site_type: edge", "site_type: egde");
    fixture.checkout.commit("Sites of all kinds");
    fixture
}

/// The same, with a chart of the layers that takes a value which is nowhere.
fn incomplete() -> Fixture {
    let fixture = varied();
    let charts = "type/edge/charts/part-0000.yaml";
    let text = fixture.read(charts);
    let text = text.replacen("path: .images.default", "path: .images.defaut", 1);
    fixture.checkout.write(charts, text);
    fixture.checkout.commit("A slip");
    fixture
}

impl Fixture {
    /// Replaces a text wherever it is in a file.
    fn edit_all(&self, path: &str, old: &str, new: &str) {
        let text = self.read(path);
        assert!(text.contains(old), "`{old}` in {path}:\n{text}");
        self.checkout.write(path, text.replace(old, new));
    }
}

/// Repositories with several sites of all kinds.
fn repositories() -> Vec<(&'static str, Fixture)> {
    let pods = || {
        let mut all = pod(Shape::Opnfv, 4);
        all.extend(pod(Shape::Akraino, 3));
        let fixture = of_files(all);
        fixture.checkout.commit("The sites");
        fixture
    };
    let flat = || {
        let fixture = Fixture::of(Checkout::new(), "none");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples");
        for name in ["one-rack", "edge"] {
            copy_folder(&root.join(name), &fixture.checkout.path().join(name));
        }
        fixture.checkout.commit("The sites");
        fixture
    };
    vec![
        ("north and south", north_and_south()),
        ("generated", generated(4)),
        ("varied", varied()),
        ("incomplete", incomplete()),
        ("pods", pods()),
        ("flat", flat()),
    ]
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|each| each.as_str().unwrap().to_owned()).collect()
}

/// The names of the sites in a report.
fn sites(report: &Value) -> Vec<String> {
    let sites = report["sites"].as_array().unwrap().iter();
    sites
        .map(|site| site["site"].as_str().unwrap().to_owned())
        .collect()
}

/// The problems of a site in a report about several, as JSON texts.
fn problems_of(report: &Value, site: &str) -> BTreeSet<String> {
    let sections = report["problems"].as_array().unwrap().iter();
    let own = sections.filter(|section| strings(&section["sites"]).iter().any(|each| each == site));
    own.flat_map(|section| section["diagnostics"].as_array().unwrap())
        .map(ToString::to_string)
        .collect()
}

/// A flat site is found from its own folder.
fn folder_of(report: &Value, site: &str) -> String {
    let sites = report["sites"].as_array().unwrap();
    let found = sites.iter().find(|each| each["site"] == site).unwrap();
    let definition = found["definition"].as_str().unwrap();
    let (folder, _) = definition.rsplit_once('/').unwrap_or((".", ""));
    folder.to_owned()
}

#[test]
fn each_site_among_all_is_validated_as_it_is_alone() {
    for (what, fixture) in repositories() {
        for more in [
            &[][..],
            &["--rev", "committed"],
            &["--allow-missing-sources"],
        ] {
            let all = ["validate", "--all-sites", "--format", "json"];
            let all = fixture.run(&[&all, more].concat());
            let report = all.json();
            let mut worst = 0;
            for site in sites(&report) {
                let folder = folder_of(&report, &site);
                let alone = ["-C", &folder, "validate", "--format", "json"];
                let alone = fixture.run(&[&alone, more].concat());
                worst = worst.max(alone.code);
                let problems = alone.json();
                let problems = problems["diagnostics"].as_array().unwrap().iter();
                let problems: BTreeSet<String> = problems.map(ToString::to_string).collect();
                assert_eq!(problems_of(&report, &site), problems, "{what}: {site}");
            }
            assert_eq!(all.code, worst, "{what}");
        }
    }
}

#[test]
fn each_site_among_all_is_planned_as_it_is_alone_without_a_lock_or_a_change() {
    for (what, fixture) in repositories() {
        let state = || {
            let refs = fixture.checkout.git(&["for-each-ref"]);
            let status = fixture.checkout.git(&["status", "--porcelain"]);
            let simulated = fixture.checkout.path().join(".git/trueup");
            let folders = std::fs::read_dir(simulated).into_iter().flatten();
            let folders = folders.map(|entry| entry.unwrap().file_name());
            let folders: Vec<_> = folders.filter(|name| name != ".cache").collect();
            (refs, status, folders)
        };
        let before = state();
        let all = fixture.run(&["plan", "--all-sites", "--format", "json"]);
        assert_eq!(state(), before, "{what}");
        let report = all.json();
        let mut codes = BTreeSet::new();
        for site in report["sites"].as_array().unwrap() {
            let name = site["site"].as_str().unwrap();
            let folder = folder_of(&report, name);
            let alone = fixture.run(&["-C", &folder, "plan", "--format", "json"]);
            codes.insert(alone.code);
            match alone.code {
                0 => assert_eq!(site["plan"], alone.json(), "{what}: {name}"),
                _ => assert_eq!(
                    (&site["plan"], &site["state"]),
                    (&Value::Null, &"failed".into())
                ),
            }
        }
        let failed = codes.into_iter().find(|code| *code != 0);
        assert_eq!(all.code, failed.unwrap_or_default(), "{what}");
    }
}

#[test]
fn a_plan_among_all_is_that_of_the_site_alone_after_it_was_applied_and_changed() {
    let fixture = generated(3);
    let applied = ["apply", "--yes", "--site", &site_name(1)];
    fixture.run(&applied).with(0);
    fixture.edit_all(&machines(1), "- worker", "- edited");
    fixture.edit_all(
        "global/profiles/host/base.yaml",
        "kernel: ga-16.04",
        "kernel: hwe-16.04",
    );
    let all = fixture
        .run(&["plan", "--all-sites", "--format", "json"])
        .with(0);
    let detailed = fixture.run(&["plan", "--all-sites", "--detailed-exitcode"]);
    let report = all.json();
    let mut worst = 0;
    for number in 0..3 {
        let name = site_name(number);
        let alone = [
            "plan",
            "--format",
            "json",
            "--detailed-exitcode",
            "--site",
            &name,
        ];
        let alone = fixture.run(&alone);
        worst = worst.max(alone.code);
        assert_eq!(report["sites"][number]["plan"], alone.json(), "{name}");
    }
    assert_eq!((detailed.code, worst), (3, 3));
    // Of the one that was applied, the machines would be built again, which nothing allows.
    let counts = "3 sites: 1 blocked, 2 changes.";
    assert!(detailed.stdout.contains(counts), "{}", detailed.stdout);
}

#[test]
fn an_error_in_a_shared_layer_is_printed_once_with_its_sites_and_one_of_a_site_in_its_section() {
    let fixture = generated(12);
    fixture.edit_all("type/edge/networks.yaml", "mtu: 9100", "mtu: 91000");
    fixture.edit_all(&machines(3), "network: oam", "network: aom");
    let ended = fixture.run(&["validate", "--all-sites"]).with(1);
    let out = &ended.stdout;
    let shared = "12 sites (`site-0000`, `site-0001`, `site-0002`, `site-0003`, `site-0004`, `site-0005`, `site-0006`, \
                  `site-0007`, `site-0008`, `site-0009` and 2 more): ";
    assert_eq!(out.matches(shared).count(), 1, "{out}");
    let common = out.find("type/edge/networks.yaml:").unwrap();
    let own = out.find("Site `site-0003`: ").unwrap();
    assert!(common < own, "{out}");
    let place = format!("--> {}", machines(3));
    assert!(
        out[own..].contains(&place) && !out[..own].contains(&place),
        "{out}"
    );
    let alone = fixture.run(&["validate", "--site", "site-0005"]).with(1);
    let errors = |text: &str| text.matches("\n --> type/edge/networks.yaml").count();
    assert_eq!(errors(out), errors(&alone.stdout), "{out}");
    assert!(out.contains("12 sites: 0 valid, 12 invalid; "), "{out}");
    // Once in the formats for a pull request, too.
    let github = fixture
        .run(&["validate", "--all-sites", "--format", "github"])
        .with(1);
    let lines: Vec<&str> = github.stdout.lines().collect();
    let distinct: BTreeSet<&&str> = lines.iter().collect();
    assert_eq!(lines.len(), distinct.len());
}

#[test]
fn many_errors_of_many_sites_are_shown_within_bounds() {
    let fixture = generated(60);
    for site in 0..60 {
        let path = format!("site/{}/own.yaml", site_name(site));
        fixture
            .checkout
            .write(&path, "---\nschema: drydock/Nothing/v1\n".repeat(70));
    }
    let ended = fixture.run(&["validate", "--all-sites"]).with(1);
    let out = ended.stdout;
    assert!(
        out.contains("more errors; `trueup validate --full` shows all"),
        "{out}"
    );
    assert!(
        out.contains("… and 10 more sections; `--full` shows all"),
        "{out}"
    );
    let full = fixture
        .run(&["validate", "--all-sites", "--full"])
        .with(1)
        .stdout;
    assert!(
        full.len() > out.len() && !full.contains("… and 10 more"),
        "{}",
        full.len()
    );
    let lines = out
        .lines()
        .filter(|line| line.starts_with("error["))
        .count();
    assert!(lines <= 50 * 50, "{lines}");
}

/// The sites that commits since `main` affect, as names.
fn affected(fixture: &Fixture, range: &str) -> Vec<String> {
    let command = ["validate", "--format", "json", "--affected-by", range];
    let ended = fixture.run(&command);
    assert!(ended.code <= 1, "{}", ended.stderr);
    sites(&ended.json())
}

#[test]
fn the_sites_that_commits_affect_are_those_that_read_a_touched_file() {
    let fixture = generated(4);
    // Another type, of which one site is.
    fixture.checkout.write("type/core/more.yaml", "");
    let definition = format!("site/{}/site-definition.yaml", site_name(3));
    for file in std::fs::read_dir(fixture.checkout.path().join("type/edge")).unwrap() {
        let from = file.unwrap().path();
        let to = fixture
            .checkout
            .path()
            .join("type/core")
            .join(from.file_name().unwrap());
        match from.is_dir() {
            true => copy_folder(&from, &to),
            false => drop(std::fs::copy(&from, &to).unwrap()),
        }
    }
    fixture.edit(&definition, "site_type: edge", "site_type: core");
    fixture.checkout.commit("Another type");
    let names = |numbers: &[usize]| numbers.iter().map(|at| site_name(*at)).collect::<Vec<_>>();
    for (path, expected) in [
        (&*machines(1), &[1][..]),
        (&definition, &[3]),
        ("type/edge/networks.yaml", &[0, 1, 2]),
        ("type/core/networks.yaml", &[3]),
        ("global/versions.yaml", &[0, 1, 2, 3]),
        ("docs/readme.yaml", &[]),
        ("type/other/networks.yaml", &[]),
        ("global/notes.txt", &[]),
        ("global/.hidden/networks.yaml", &[]),
        ("global/tools/networks.yaml", &[]),
        ("site/nobody/networks.yaml", &[]),
    ] {
        let text = std::fs::read_to_string(fixture.checkout.path().join(path));
        let text = text.unwrap_or_default();
        fixture.checkout.write(path, format!("{text}# touched\n"));
        fixture.checkout.commit(path);
        assert_eq!(
            affected(&fixture, "HEAD~1..HEAD"),
            names(expected),
            "{path}"
        );
        assert_eq!(affected(&fixture, "HEAD^.."), names(expected), "{path}");
    }
    // A commit and what undoes it have touched the file all the same; no commit touches none.
    fixture.edit_all(&machines(2), "rack-0", "rack-1");
    fixture.checkout.commit("A slip");
    fixture.checkout.git(&["revert", "--no-edit", "HEAD"]);
    assert_eq!(affected(&fixture, "HEAD~2..HEAD"), names(&[2]));
    assert_eq!(affected(&fixture, "HEAD..HEAD"), names(&[]));
    // What is on a branch came with its merge.
    fixture
        .checkout
        .git(&["switch", "--quiet", "--create", "branch"]);
    fixture.edit_all(&machines(0), "rack-0", "rack-1");
    fixture.checkout.commit("On a branch");
    fixture.checkout.git(&["switch", "--quiet", "main"]);
    fixture
        .checkout
        .git(&["merge", "--quiet", "--no-ff", "--no-edit", "branch"]);
    assert_eq!(affected(&fixture, "HEAD~1..HEAD"), names(&[0]));
    // A deleted file was read before.
    std::fs::remove_file(fixture.checkout.path().join("type/core/more.yaml")).unwrap();
    fixture.checkout.commit("Less");
    assert_eq!(affected(&fixture, "HEAD~1..HEAD"), names(&[3]));
    let text = fixture
        .run(&["validate", "--affected-by", "HEAD~1..HEAD"])
        .with(0)
        .stdout;
    assert!(text.contains("type/core/more.yaml ("), "{text}");
    let text = fixture
        .run(&["validate", "--affected-by", "HEAD..HEAD"])
        .with(0)
        .stdout;
    assert!(text.contains("No site"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_site_is_affected_by_the_files_that_its_links_lead_to() {
    let fixture = generated(3);
    fixture.checkout.write("common/file.yaml", "# one\n");
    fixture.checkout.write("common/folder/deep.yaml", "# one\n");
    fixture
        .checkout
        .link("site/site-0000/linked.yaml", "../../common/file.yaml");
    fixture
        .checkout
        .link("site/site-0002/linked", "../../common/folder");
    fixture.checkout.commit("Links");
    assert_eq!(
        affected(&fixture, "HEAD~1..HEAD"),
        ["site-0000", "site-0002"]
    );
    for (path, site) in [
        ("common/file.yaml", "site-0000"),
        ("common/folder/deep.yaml", "site-0002"),
    ] {
        fixture.checkout.write(path, "# two\n");
        fixture.checkout.commit(path);
        assert_eq!(affected(&fixture, "HEAD~1..HEAD"), [site], "{path}");
    }
    // Also if the file is gone.
    std::fs::remove_file(fixture.checkout.path().join("common/file.yaml")).unwrap();
    fixture.checkout.commit("Gone");
    assert_eq!(affected(&fixture, "HEAD~1..HEAD"), ["site-0000"]);
}

#[test]
fn a_range_that_names_no_commits_is_refused() {
    let fixture = generated(2);
    for (range, code, said) in [
        ("HEAD", 64, "no range of commits"),
        ("HEAD...HEAD", 64, "two dots and two ends"),
        ("HEAD..HEAD..HEAD", 64, "two dots and two ends"),
        ("..", 64, "names no commit in front"),
        ("..HEAD", 64, "names no commit in front"),
        ("common=HEAD..HEAD", 64, "`--repository common=PATH`"),
        ("nothing..HEAD", 1, "`nothing` names no commit"),
        ("HEAD..--all", 1, "names no commit"),
    ] {
        let affected_by = format!("--affected-by={range}");
        for command in ["validate", "diff", "plan"] {
            fixture
                .run(&[command, &affected_by])
                .with(code)
                .saying(said);
        }
    }
    for flags in [
        &["--all-sites", "--site", "site-0000"][..],
        &["--all-sites", "--affected-by", "HEAD..HEAD"],
        &["--all-sites", "--out", "plan.json"],
        &["--all-sites", "--save-observed", "seen.json"],
        &["--all-sites", "--observed", "seen.json"],
        &["--all-sites", "--format", "dot"],
        &["redeploy_server", "node-000000", "--all-sites"],
    ] {
        fixture.run(&[&["plan"], flags].concat()).with(64);
    }
}

#[test]
fn a_range_that_ends_outside_of_what_is_judged_is_refused_and_names_the_way() {
    let fixture = generated(2);
    fixture
        .checkout
        .git(&["switch", "--quiet", "-c", "feature"]);
    fixture.checkout.write("global/note.yaml", "---\n");
    fixture.checkout.commit("A change of all");
    fixture.checkout.git(&["switch", "--quiet", "main"]);
    let range = "--affected-by=main..feature";
    for command in ["validate", "plan"] {
        fixture
            .run(&[command, range])
            .with(64)
            .saying("its sites would be judged without these commits");
    }
    fixture
        .run(&["validate", range, "--rev", "feature"])
        .with(0);
}

#[test]
fn a_shallow_clone_is_named_where_its_history_does_not_reach_the_range() {
    let fixture = generated(2);
    for number in 0..4 {
        let text = format!("{}# {number}\n", fixture.read(&machines(0)));
        fixture.checkout.write(&machines(0), text);
        fixture.checkout.commit("More");
    }
    let origin = format!("file://{}", fixture.checkout.path().display());
    let first = fixture.checkout.git(&["rev-parse", "HEAD~4"]);
    let shallow = Fixture::of(Checkout::clone_of(&origin, &["--depth=2"]), "none");
    assert_eq!(affected(&shallow, "HEAD~1..HEAD"), ["site-0000"]);
    let range = format!("{first}..HEAD");
    let ended = shallow.run(&["validate", "--affected-by", &range]).with(1);
    assert!(ended.stderr.contains("git fetch"), "{}", ended.stderr);
    // The clone has the commit, and not what lies between.
    shallow
        .checkout
        .git(&["fetch", "--quiet", "--depth=1", "origin", &first]);
    shallow
        .run(&["validate", "--affected-by", &range])
        .with(1)
        .saying("shallow");
}

#[test]
fn the_failure_of_a_site_does_not_stop_the_others() {
    let fixture = generated(3);
    let flat = |folder: &str, name: &str| {
        let definition =
            format!("schema: pegleg/SiteDefinition/v1\nmetadata: {{name: '{name}'}}\ndata: {{}}\n");
        fixture
            .checkout
            .write(&format!("{folder}/site-definition.yaml"), definition);
    };
    flat("lab/one", "lab");
    flat("lab/two", "lab");
    flat("lab/three", "../../etc");
    fixture
        .checkout
        .write("lab/four/site-definition.yaml", "{{{");
    let big = format!("# {}\n", "x".repeat(17 << 20));
    fixture.checkout.write("lab/five/site-definition.yaml", big);
    let report = fixture
        .run(&["validate", "--all-sites", "--format", "json"])
        .with(1)
        .json();
    let valid: Vec<(String, bool)> = report["sites"]
        .as_array()
        .unwrap()
        .iter()
        .map(|site| {
            (
                site["site"].as_str().unwrap().to_owned(),
                site["valid"] == true,
            )
        })
        .collect();
    let expected = [
        ("../../etc", false),
        ("five", false),
        ("four", false),
        ("lab", false),
        ("lab", false),
        ("site-0000", true),
        ("site-0001", true),
        ("site-0002", true),
    ];
    let expected = expected.map(|(name, valid)| (name.to_owned(), valid));
    assert_eq!(valid, expected, "{report:#}");
    let text = report.to_string();
    for said in [
        "lab/one/site-definition.yaml`, `lab/two",
        "the site's name `../../etc`",
        "yaml-",
        "more than the 16777216",
    ] {
        assert!(text.contains(said), "{said}: {report:#}");
    }
    // A plan of the others is made.
    let report = fixture
        .run(&["plan", "--all-sites", "--format", "json"])
        .with(1)
        .json();
    let planned = report["sites"].as_array().unwrap().iter();
    let planned: Vec<bool> = planned.map(|site| site["plan"].is_object()).collect();
    assert_eq!(
        planned,
        [false, false, false, false, false, true, true, true],
        "{report:#}"
    );
    assert!(!fixture.checkout.path().join("etc").exists());
}

#[test]
fn a_change_of_a_shared_layer_is_compared_once_for_all_sites() {
    let fixture = generated(5);
    fixture.edit_all("global/versions.yaml", "xenial", "bionic");
    fixture.edit_all(&machines(4), "rack: rack-0", "rack: rack-9");
    let text = fixture.run(&["diff", "--all-sites"]).with(0).stdout;
    assert_eq!(
        text.matches("pegleg/SoftwareVersions/v1").count(),
        1,
        "{text}"
    );
    assert!(text.contains("5 sites (`site-0000`, "), "{text}");
    assert!(
        text.contains("Site `site-0004`: 5 documents differ"),
        "{text}"
    );
    assert!(
        text.contains("5 sites: 0 failed, 0 new, 5 changed, 0 unchanged."),
        "{text}"
    );
    for rendered in [&[][..], &["--rendered"]] {
        let all = ["diff", "--all-sites", "--format", "json"];
        let report = fixture.run(&[&all, rendered].concat()).with(0).json();
        for site in sites(&report) {
            let alone = ["diff", "--format", "json", "--site", &site];
            let alone = fixture.run(&[&alone, rendered].concat()).with(0).json();
            for kind in ["added", "removed", "changed"] {
                let sections = report["differences"].as_array().unwrap().iter();
                let own = sections.filter(|section| strings(&section["sites"]).contains(&site));
                let own: BTreeSet<String> = own
                    .flat_map(|section| section[kind].as_array().unwrap())
                    .map(ToString::to_string)
                    .collect();
                // The nodes that a document reaches differ from site to site.
                let expected = alone[kind].as_array().unwrap().iter().cloned();
                let expected: BTreeSet<String> = expected
                    .map(|mut document| {
                        document.as_object_mut().unwrap().remove("nodes");
                        document.to_string()
                    })
                    .collect();
                assert_eq!(own, expected, "{site} {kind}");
            }
        }
    }
    // A site that is new is no failure.
    let definition = fixture.read("site/site-0000/site-definition.yaml");
    let definition = definition.replace("site-0000", "site-0009");
    fixture
        .checkout
        .write("site/site-0009/site-definition.yaml", definition);
    let text = fixture.run(&["diff", "--all-sites"]).with(0).stdout;
    assert!(
        text.contains("6 sites: 0 failed, 1 new, 5 changed, 0 unchanged."),
        "{text}"
    );
}

#[test]
fn a_comment_about_many_plans_stays_within_its_bytes() {
    let fixture = generated(30);
    for most in ["65536", "8000", "2500"] {
        let plan = [
            "plan",
            "--all-sites",
            "--format",
            "markdown",
            "--max-bytes",
            most,
        ];
        let text = fixture.run(&plan).with(0).stdout;
        assert!(text.len() <= most.parse().unwrap(), "{}", text.len());
        assert!(text.starts_with("<!-- trueup:plan sites -->\n"), "{text}");
        assert!(text.contains("30 sites: 30 changes"), "{text}");
        assert!(!text.contains("trueup:plan site="), "{text}");
    }
}

#[test]
fn all_sites_are_listed_with_those_that_cannot_be_loaded_at_any_revision() {
    let fixture = varied();
    let names = fixture.run(&["sites", "--format", "names"]).with(0).stdout;
    let expected: Vec<String> = (0..7).map(site_name).collect();
    assert_eq!(names.lines().collect::<Vec<_>>(), expected);
    let definition = format!("site/{}/site-definition.yaml", site_name(6));
    let copy = fixture.read(&definition).replace(&site_name(6), "..");
    fixture.checkout.write("other/site-definition.yaml", copy);
    let listed = |rev: &str| -> Value {
        let ended = fixture
            .run(&["sites", "--rev", rev, "--format", "json"])
            .with(0);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let (before, now) = (listed("committed"), listed("worktree"));
    assert_eq!(before["sites"].as_array().unwrap().len(), 7);
    let sites = now["sites"].as_array().unwrap();
    let bad: Vec<_> = sites
        .iter()
        .filter(|site| site.get("problem").is_some())
        .collect();
    let [bad] = &bad[..] else { panic!("{now}") };
    assert_eq!(bad["definition"], "other/site-definition.yaml");
    let table = fixture.run(&["sites"]).with(0).stdout;
    assert!(
        table.ends_with("\n8 sites\n") && table.contains("`..`"),
        "{table}"
    );
    fixture
        .run(&["sites", "--rev", "nowhere"])
        .with(1)
        .saying("nowhere");
    fixture
        .run(&["plan", "--site", "somewhere"])
        .with(1)
        .saying("and 2 more; `trueup sites` lists them");
    Fixture::of(Checkout::new(), "none")
        .run(&["sites"])
        .with(1)
        .saying("`trueup init DIR`");
}

/// The definition of a site in one folder.
fn flat(name: &str) -> String {
    format!("schema: pegleg/SiteDefinition/v1\nmetadata: {{name: {name}}}\ndata: {{}}\n")
}

#[test]
fn one_name_has_one_definition_in_every_command() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/edge");
    let fixture = Fixture::of(Checkout::new(), "edge");
    for folder in ["first", "second"] {
        copy_folder(&example, &fixture.checkout.path().join(folder));
    }
    fixture
        .checkout
        .write("other/site-definition.yaml", flat("other"));
    fixture.checkout.commit("A site, a copy of it, and another");
    let inside = |folder: &str, words: &[&str]| -> super::fixture::Ended {
        let mut command = fixture.command(words);
        command.current_dir(fixture.checkout.path().join(folder));
        command.output().unwrap().into()
    };
    let refused = |folder: &str, words: &[&str]| {
        let ended = inside(folder, words).with(1);
        assert!(
            ended
                .stderr
                .contains("`first/site-definition.yaml`, `second/site-definition.yaml`")
                && ended.stderr.contains("give each a name of its own"),
            "{folder} {words:?}: {}",
            ended.stderr
        );
    };
    let commands: [&[&str]; 9] = [
        &["validate"],
        &["render"],
        &["diff"],
        &["plan"],
        &["apply", "--yes"],
        &["status"],
        &["nodes"],
        &["log"],
        &["serve"],
    ];
    for words in commands {
        refused(".", &[words, &["--site", "edge"]].concat());
        refused("second", &[words, &["--site", "edge"]].concat());
        refused("first", words);
    }
    refused("other", &["plan", "--site", "edge"]);
    assert_eq!(fixture.tags(), Vec::<String>::new());
    // A site that has its name alone is as good as before, and so is this one once its copy has another name, also if
    // its documents are of the time before.
    inside("other", &["log"]).with(0);
    let renamed = fixture.read("second/site-definition.yaml");
    let renamed = renamed.replace("name: edge", "name: copied");
    fixture
        .checkout
        .write("second/site-definition.yaml", renamed);
    fixture.checkout.commit("The copy has a name of its own");
    for folder in ["first", "second"] {
        inside(folder, &["validate"]).with(0);
    }
    inside("first", &["validate", "--rev", "HEAD~1"]).with(0);
}

#[test]
fn a_site_under_another_name_is_told_before_its_machines_are_built_anew() {
    let fixture = super::accepted::example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    let silent = fixture.run(&["plan"]).with(0);
    assert!(!silent.stdout.contains("site `edge`"), "{silent:?}");
    fixture.edit("site-definition.yaml", "name: edge", "name: edge2");
    fixture.checkout.commit("Another name");
    let known = "it is deployed by the records of site `edge`, which no document defines any more";
    let shown = fixture.run(&["plan"]).with(0).stdout;
    assert!(
        shown.contains(known) && shown.contains("Cannot be applied as it stands"),
        "{shown}"
    );
    // Nothing is built anew for another name.
    let ledger = fixture.ledger();
    for command in [
        &["apply", "--yes"][..],
        &["apply", "--yes", "--target", "edge-1"],
    ] {
        fixture
            .run(command)
            .with(4)
            .saying(known)
            .saying("allow it with --allow-redeploy edge-1");
    }
    assert_eq!(fixture.ledger(), ledger);
    // Nor is it taken over without the approvals that the former name asks for, with whatever flag.
    fixture.edit("site-definition.yaml", "name: edge2", "name: edge");
    fixture.checkout.write("allowed_signers", "bob@example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO23STP1EaQsQDcAuhgP5ZZCFgnhsohmzB3E0mv/yG9m\n");
    fixture.checkout.write(
        "policy.yaml",
        "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {approvals: {redeploy: 1}}\n",
    );
    fixture.checkout.commit("Approvals");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    fixture.edit("site-definition.yaml", "name: edge", "name: edge2");
    fixture.checkout.git(&["rm", "-q", "policy.yaml"]);
    fixture.checkout.commit("Another name, and no approvals");
    for flags in [
        &["--adopt", "all"][..],
        &["--allow-redeploy", "all", "--adopt", "all"],
    ] {
        let words = [&["apply", "--yes"], flags].concat();
        fixture
            .run(&words)
            .with(4)
            .saying("under a policy that asks for approvals: give the site that name again");
    }
    assert_eq!(fixture.ledger(), ledger);
    fixture.checkout.write("site-definition.yaml", "");
    fixture.checkout.commit("Emptied");
    let validated = fixture.run(&["validate"]).with(0).stdout;
    assert!(
        validated.contains("`site-definition.yaml` has no document `pegleg/SiteDefinition/v1`"),
        "{validated}"
    );
    let shown = fixture.run(&["plan"]).stdout;
    assert!(shown.contains(known), "{shown}");
}
