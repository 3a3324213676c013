//! Data beside the repository that some tests read when it is there.

use std::path::PathBuf;

use super::skipped::skipped;

/// A file or folder of the shared data, or `None`, said loudly, where there is none.
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
