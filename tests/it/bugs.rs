//! The bank of bugs: serious defects of the past, each with a patch that puts it back and the test that finds it.
//!
//! `TRUEUP_TEST_BUGS=all` applies each patch to a copy of the tree, builds that, and expects the test to fail;
//! `TRUEUP_TEST_BUGS=7` tries one. It takes minutes for each.

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

fn cargo(tree: &Path, bug: &Bug, more: &[&str]) -> Output {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--locked"]).args(bug.binary());
    cargo.args(more).current_dir(tree);
    cargo
        .env("CARGO_TARGET_DIR", root().join("target/bugs"))
        .env_remove("TRUEUP_TEST_BUGS")
        .env_remove("RUSTFLAGS");
    cargo.output().unwrap()
}

#[test]
fn each_bug_that_is_put_back_is_found_by_its_test() {
    let Some(wanted) = std::env::var_os("TRUEUP_TEST_BUGS") else {
        return;
    };
    let tree = root().join("target/bugs/tree");
    for bug in bank() {
        if wanted != "all" && wanted != *bug.number {
            continue;
        }
        copied(&tree);
        let applied = apply(&tree, &bug.patch(), &[]);
        assert!(applied.status.success(), "bug {}: {applied:?}", bug.number);
        let built = cargo(&tree, &bug, &["--no-run"]);
        let told = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "bug {}:\n{told}", bug.number);
        let ran = cargo(&tree, &bug, &["--", "--exact", &bug.test]);
        let told = String::from_utf8_lossy(&ran.stdout);
        assert!(
            told.contains("test result: FAILED. 0 passed; 1 failed"),
            "bug {} is not found by {}:\n{told}",
            bug.number,
            bug.test
        );
    }
}
