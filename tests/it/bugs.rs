//! The bank of bugs: serious defects of the past, each with a patch that puts it back and the test that finds it.
//!
//! `TRUEUP_TEST_BUGS=all` puts all of them back, several to a build, and expects each test to fail; `TRUEUP_TEST_BUGS=07` tries one,
//! in a build of its own, and `TRUEUP_TEST_BUGS=07,12` some. Each bug is in two builds, which have no other bug in common: a test that fails in both fails by its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::fixture::copy_folder;
use super::source_files::{root, source_files};

/// A row of `tests/bugs.md`.
struct Bug {
    number: String,
    /// The binary of the test: `lib`, or one of `tests`.
    target: String,
    /// The whole name of the test.
    test: String,
}

impl Bug {
    fn patch(&self) -> PathBuf {
        root().join(format!("tests/bugs/{}.patch", self.number))
    }

    /// The arguments that choose its binary.
    fn binary(&self) -> Vec<&str> {
        match &*self.target {
            "lib" => vec!["--lib"],
            name => vec!["--test", name],
        }
    }
}

fn bank() -> Vec<Bug> {
    let text = std::fs::read_to_string(root().join("tests/bugs.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, _, test] = cells[..] else {
            return None;
        };
        let (target, test) = test.trim_matches('`').split_once(' ')?;
        number.parse::<u32>().ok()?;
        Some(Bug {
            number: number.to_owned(),
            target: target.to_owned(),
            test: test.to_owned(),
        })
    });
    rows.collect()
}

fn apply(tree: &Path, patch: &Path, more: &[&str]) -> Output {
    let mut git = Command::new("git");
    git.arg("apply").args(more).arg(patch).current_dir(tree);
    // In a repository, files outside of the current folder are left out without a word.
    git.env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap());
    git.output().unwrap()
}

#[test]
fn each_bug_has_a_patch_that_applies_and_a_test_that_exists() {
    let bugs = bank();
    let numbers: BTreeSet<String> = bugs.iter().map(|bug| bug.number.clone()).collect();
    assert_eq!(numbers.len(), bugs.len(), "a number stands twice");
    let patches: BTreeSet<String> = source_files("tests/bugs", "patch")
        .iter()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(numbers, patches);
    let sources: String = ["src", "tests/it", "tests/peers"]
        .iter()
        .flat_map(|folder| source_files(folder, "rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for bug in &bugs {
        let checked = apply(root(), &bug.patch(), &["--check"]);
        assert!(
            checked.status.success(),
            "tests/bugs/{}.patch does not apply any more: put the bug back by hand, and write `git diff` there\n{}",
            bug.number,
            String::from_utf8_lossy(&checked.stderr)
        );
        let name = bug.test.rsplit("::").next().unwrap();
        let is_there = sources.contains(&format!("fn {name}("));
        assert!(is_there, "bug {}: there is no test `{name}`", bug.number);
    }
}

/// The tree as it is, in a folder of its own.
fn copied(tree: &Path) {
    let _ = std::fs::remove_dir_all(tree);
    std::fs::create_dir_all(tree).unwrap();
    for entry in std::fs::read_dir(root()).unwrap().map(Result::unwrap) {
        let (name, target) = (entry.file_name(), tree.join(entry.file_name()));
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        } else if name != "target" && name != ".git" {
            copy_folder(&entry.path(), &target);
        }
    }
}

/// Where all that is built stays, so that a build compiles only what its bugs change.
fn tree() -> PathBuf {
    root().join("target/bugs/tree")
}

fn cargo(bug: &Bug, more: &[&str]) -> Output {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--locked"]).args(bug.binary());
    cargo.args(more).current_dir(tree());
    cargo
        .env("CARGO_TARGET_DIR", root().join("target/bugs"))
        .env("CARGO_INCREMENTAL", "1")
        .env_remove("TRUEUP_TEST_BUGS")
        .env_remove("RUSTFLAGS");
    cargo.output().unwrap()
}

/// Bugs whose patches apply together, and whose tests are in one binary.
type Build<'b> = Vec<&'b Bug>;

/// Each bug in one build of at most as many as there are builds, and with none that it is with in another one.
fn builds<'b>(bugs: &[&'b Bug], most: usize, others: &[Build<'b>]) -> Vec<Build<'b>> {
    let mut left: Build<'b> = bugs.to_vec();
    let mut builds = Vec::new();
    while !left.is_empty() {
        copied(&tree());
        let (mut build, mut later) = (Build::new(), Build::new());
        for bug in left {
            let meets = |other: &Build<'_>| {
                let has = |bug: &Bug| other.iter().any(|other| other.number == bug.number);
                has(bug) && build.iter().any(|mate| has(mate))
            };
            let fits = build.len() < most && !others.iter().any(meets);
            if fits && apply(&tree(), &bug.patch(), &[]).status.success() {
                build.push(bug);
            } else {
                later.push(bug);
            }
        }
        assert!(!build.is_empty(), "no patch applies");
        builds.push(build);
        left = later;
    }
    builds
}

/// What keeps each bug of a build from being found in it, by number.
fn missed<'b>(build: &[&'b Bug]) -> Vec<(&'b str, String)> {
    copied(&tree());
    for bug in build {
        let applied = apply(&tree(), &bug.patch(), &[]);
        assert!(applied.status.success(), "bug {}: {applied:?}", bug.number);
    }
    let built = cargo(build[0], &["--no-run"]);
    if !built.status.success() && build.len() > 1 {
        let (some, others) = build.split_at(build.len() / 2);
        return [missed(some), missed(others)].concat();
    }
    let all_of = |output: &Output| {
        let [told, errors] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        format!("{told}{errors}")
    };
    let mut missed = Vec::new();
    for bug in build {
        if !built.status.success() {
            missed.push((&*bug.number, all_of(&built)));
            continue;
        }
        let told = all_of(&cargo(bug, &["--", "--exact", &bug.test]));
        if !told.contains("test result: FAILED. 0 passed; 1 failed") {
            missed.push((&*bug.number, told));
        }
    }
    let numbers: Vec<&str> = build.iter().map(|bug| &*bug.number).collect();
    let names: Vec<&str> = missed.iter().map(|(number, _)| *number).collect();
    println!("bugs {numbers:?}: missed {names:?}");
    missed
}

#[test]
fn each_bug_that_is_put_back_is_found_by_its_test() {
    let Some(wanted) = std::env::var_os("TRUEUP_TEST_BUGS") else {
        return;
    };
    let bank = bank();
    let wanted = wanted.to_str().unwrap();
    let numbers: Vec<&str> = wanted.split(',').collect();
    let is_wanted = |bug: &&Bug| wanted == "all" || numbers.contains(&&*bug.number);
    let tried: Build<'_> = bank.iter().filter(is_wanted).collect();
    let is_short = wanted != "all" && tried.len() != numbers.len();
    assert!(!is_short, "there is a bug less than {wanted:?} names");
    let mut alone: BTreeSet<&str> = BTreeSet::new();
    if tried.len() > 1 {
        let targets: BTreeSet<&str> = tried.iter().map(|bug| &*bug.target).collect();
        for target in targets {
            let of_target = tried.iter().filter(|bug| bug.target == target);
            let bugs: Build<'_> = of_target.copied().collect();
            let most = bugs.len().isqrt().max(1);
            let first = builds(&bugs, most, &[]);
            let second = builds(&bugs, most, &first);
            for build in first.iter().chain(&second) {
                alone.extend(missed(build).into_iter().map(|(number, _)| number));
            }
        }
    } else {
        alone.extend(tried.iter().map(|bug| &*bug.number));
    }
    // Others that it was built with may have kept it from being seen, or the build from being made.
    let unfound: Vec<_> = (bank.iter().filter(|bug| alone.contains(&*bug.number)))
        .flat_map(|bug| missed(&[bug]))
        .map(|(number, told)| format!("bug {number} is not found by its test:\n{told}"))
        .collect();
    assert!(unfound.is_empty(), "{}", unfound.join("\n"));
}
