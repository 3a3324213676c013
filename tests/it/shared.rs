//! Data beside the repository that some tests read when it is there.

use std::path::PathBuf;

use super::skipped::skipped;

use crate::folder::folder;

/// A file or folder of the shared data, or `None`, said loudly, if there is none.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let found = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")).join(path);
    if found.exists() {
        return Some(found);
    }
    skipped(&format!("there is no {}", found.display()));
    None
}

/// All YAML files below a folder, sorted, hidden ones left out.
pub(crate) fn yaml_files(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".yaml") || name.ends_with(".yml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(unix)]
#[test]
fn skipped_tests_are_named_and_counted_and_an_error_where_what_they_need_is_there() {
    let folder = folder();
    let list = folder.path().join("skipped");
    let here = folder.path().to_str().unwrap();
    let told = |lines: &str, shared: &str| {
        std::fs::write(&list, lines).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/skipped");
        let ended = std::process::Command::new(script)
            .args([list.to_str().unwrap(), shared])
            .output()
            .unwrap();
        let said = String::from_utf8(ended.stdout).unwrap();
        (ended.status.code(), said)
    };
    let none = "skipped, since what they need is not here: 0\n";
    assert_eq!(told("", here), (Some(0), none.to_owned()));

    let (one, two) = ("SKIPPED: a: no peers\n", "SKIPPED: b: no strace\n");
    let said = format!("{one}{two}skipped, since what they need is not here: 2\n");
    let lines = format!("{two}{one}{two}");
    assert_eq!(told(&lines, "/is/not/there"), (Some(0), said.clone()));
    assert_eq!(told(&lines, here), (Some(1), said));
}
