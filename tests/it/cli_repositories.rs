//! Documents of a site in another repository: `repositories` of its definition, and `--repository NAME=PATH@REV`.

use std::path::Path;

use super::fixture::{Fixture, copy_folder};
use super::git::Checkout;

const NORTH: &str = "site/north/site-definition.yaml";

/// A site whose common layer is in a repository of its own.
struct Split {
    fixture: Fixture,
    common: Checkout,
}

impl Split {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/multi-site");
        let fixture = Fixture::of(Checkout::new(), "north");
        copy_folder(&root, fixture.checkout.path());
        let common = Checkout::new();
        for folder in ["global", "type"] {
            copy_folder(&root.join(folder), &common.path().join(folder));
            std::fs::remove_dir_all(fixture.checkout.path().join(folder)).unwrap();
        }
        common.commit("The common layer");
        let definition = fixture.read(NORTH);
        fixture.checkout.write(
            NORTH,
            format!(
                "{}\n  repositories:\n    common: {{revision: main}}\n",
                definition.trim_end()
            ),
        );
        fixture.checkout.commit("The site");
        Self { fixture, common }
    }

    /// The flag for the other repository at a revision; empty: that of the definition.
    fn flag(&self, revision: &str) -> String {
        let at = if revision.is_empty() { "" } else { "@" };
        format!(
            "--repository=common={}{at}{revision}",
            self.common.path().display()
        )
    }
}

const SITE: [&str; 2] = ["--site", "north"];

#[test]
fn documents_in_another_repository_are_those_of_the_site() {
    let split = Split::new();
    let whole = Fixture::of(Checkout::new(), "north");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/multi-site");
    copy_folder(&root, whole.checkout.path());
    whole.checkout.commit("The site");
    let rendered = |fixture: &Fixture, more: &[&str]| {
        let render = ["render", "--site", "north"];
        fixture.run(&[&render, more].concat()).with(0).stdout
    };
    let expected = rendered(&whole, &[]);
    let without = split.fixture.run(&["validate", "--site", "north"]).with(1);
    let said = format!("{}{}", without.stdout, without.stderr);
    assert!(said.contains("reference-repository"), "{said}");
    assert!(said.contains("--repository common=PATH@REV"), "{said}");
    for revision in ["", "main", "HEAD"] {
        let flag = split.flag(revision);
        // The definition differs on purpose.
        let own =
            |text: &str| text.replace("  repositories:\n    common:\n      revision: main\n", "");
        assert_eq!(own(&rendered(&split.fixture, &[&flag])), own(&expected));
    }
    // What is not committed there does not count, and a problem is shown where it is.
    split.common.write("global/more.yaml", "no: [document");
    let flag = split.flag("main");
    let validate = [&["validate", &flag], &SITE[..]].concat();
    split.fixture.run(&validate).with(0);
    split.common.commit("A slip");
    let ended = split.fixture.run(&validate).with(1);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("common:global/more.yaml:1"), "{said}");
    assert!(said.contains("no: [document"), "{said}");
}

#[test]
fn a_saved_plan_holds_for_the_commit_of_the_other_repository_that_it_was_made_of() {
    let split = Split::new();
    let first = split.common.git(&["rev-parse", "HEAD"]);
    let path = split.fixture.checkout.outside().join("plan.json");
    let (file, flag) = (path.to_str().unwrap(), split.flag(""));
    let plan = [&["plan", "-o", file, &flag], &SITE[..]].concat();
    let shown = split.fixture.run(&plan).with(0).stdout;
    let title = format!(" + common {}, as of ", &first[..12]);
    assert!(shown.contains(&title), "{shown}");
    let apply = |revision: &str| {
        let flag = split.flag(revision);
        let apply = [&["apply", file, "--yes", &flag], &SITE[..]].concat();
        split.fixture.run(&apply)
    };

    let profiles = split.common.path().join("global/profiles.yaml");
    let text = std::fs::read_to_string(&profiles).unwrap();
    std::fs::write(&profiles, format!("{text}# another line\n")).unwrap();
    split.common.commit("Another line");
    let stale = apply("");
    assert_eq!(stale.code, 5, "{stale:?}");
    apply(&first).with(0);
    let plan = [
        &["plan", "--detailed-exitcode", &split.flag(&first)],
        &SITE[..],
    ];
    let nothing = split.fixture.run(&plan.concat()).with(0);
    assert!(nothing.stdout.contains("No changes"), "{nothing:?}");
}

#[test]
fn a_repository_that_cannot_be_read_is_one_error() {
    let split = Split::new();
    let empty = Checkout::new();
    empty.write("other/x.yaml", "a: 1\n");
    empty.commit("Nothing of a site");
    let common = split.common.path().display().to_string();
    let folder = split.common.path().join("global").display().to_string();
    let other = empty.path().display().to_string();
    for (given, code, says) in [
        (
            vec![format!("comon={common}@main")],
            1,
            "names no repository `comon`\n\nhint: did you mean `common`?",
        ),
        (
            vec![format!("common={common}@no-such-branch")],
            1,
            "repository `common`: `no-such-branch` names no commit",
        ),
        (
            vec![format!("common={other}@main")],
            1,
            "repository `common` has no documents of the site at `main`: no YAML files in `global/`, `site/north/`, `type/edge/`",
        ),
        (
            vec![format!("common={folder}@main")],
            64,
            "is not the top of a git repository",
        ),
        (
            vec!["common=/is/not/there@main".to_owned()],
            64,
            "`/is/not/there` is not the top of a git repository",
        ),
        (
            vec!["common".to_owned()],
            64,
            "this is not of the form `NAME=PATH@REV`",
        ),
        (
            vec![format!("common={common}@main"), format!("common={other}")],
            64,
            "repository `common` is given twice",
        ),
    ] {
        let flags: Vec<String> = given
            .iter()
            .map(|given| format!("--repository={given}"))
            .collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let ended = split
            .fixture
            .run(&[&["validate"], &SITE[..], &flags].concat());
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.stderr.contains(says), "{says}\n{}", ended.stderr);
    }
}

#[test]
fn the_guards_in_force_are_those_of_the_other_repository_when_they_came_in_force() {
    let split = Split::new();
    let policy = |data: &str| {
        let text = format!(
            "schema: trueup/Policy/v1\nmetadata: {{schema: metadata/Document/v1, name: policy, storagePolicy: cleartext, \
             layeringDefinition: {{layer: global, abstract: false}}}}\ndata: {data}\n"
        );
        split.common.write("global/zz-policy.yaml", text);
        split.common.commit("A policy");
    };
    let run = |words: &[&str], revision: &str| {
        let flag = split.flag(revision);
        split.fixture.run(&[words, &[&flag], &SITE[..]].concat())
    };
    let before = split.common.git(&["rev-parse", "HEAD"]);
    policy("{protected: [{node_names: [north-worker-1]}]}");
    let strict = split.common.git(&["rev-parse", "HEAD"]);
    run(&["apply", "--yes"], "").with(0);
    let teardown = ["apply", "teardown", "north-worker-1", "--yes"];
    let protects = "the policy protects it";
    run(&teardown, "").with(4).saying(protects);
    // Neither a commit there, nor another revision of it takes that away.
    policy("{}");
    run(&teardown, "").with(4).saying(protects);
    run(&teardown, before.trim()).with(4).saying(protects);
    let plan = run(&["plan"], "").with(0).stdout;
    assert!(plan.contains("no longer north-worker-1"), "{plan}");
    run(&["apply", "guards", "--yes"], "").with(4);
    run(&["apply", "guards", "--yes", "--allow-loosening"], "").with(0);
    run(&teardown, strict.trim()).with(4).saying(protects);
    run(&teardown, "").with(0);
}
