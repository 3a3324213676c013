//! The examples: each is a site without a problem, whose simulator can be opened.

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;
use trueup::backend::{BackendContext, Clock, choose, clock};
use trueup::site::{Accept, At, Depth, Detail, Loader, Settings, locate};

use crate::git::Checkout;

/// All files below a folder, by path.
fn files(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            files(&entry.path(), &format!("{path}/"), found);
        } else {
            found.insert(path, std::fs::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn each_example_is_a_site_without_a_problem() {
    let table = [
        ("edge", None, 3, 1),
        ("control-plane", None, 5, 2),
        ("one-rack", None, 13, 5),
        ("multi-site", Some("north"), 5, 2),
        ("multi-site", Some("south"), 4, 2),
    ];
    for (example, name, nodes, groups) in table {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples");
        let checkout = Checkout::new();
        let mut found = BTreeMap::new();
        files(&source.join(example), "", &mut found);
        for (path, bytes) in &found {
            checkout.write(path, bytes);
            let text = std::str::from_utf8(bytes).unwrap();
            let schema = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("# yaml-language-server: $schema="));
            let schema = source
                .join(example)
                .join(path)
                .with_file_name(schema.unwrap());
            assert!(schema.is_file(), "{path}: {}", schema.display());
        }
        let repository = checkout.open();
        let location = locate(&repository, At::Worktree, "", name).unwrap();
        let mut loader = Loader::new(&repository);
        let settings = Settings {
            depth: Depth::Checked,
            detail: Detail::Documents,
            accept: Accept::default(),
        };
        let site = loader.load(&location, At::Worktree, settings).unwrap();
        let problems: Vec<String> = site
            .diagnostics
            .iter()
            .map(|diagnostic| {
                let place = diagnostic.mark.map(|mark| loader.sources().place(mark));
                format!("{diagnostic:?} at {place:?}")
            })
            .collect();
        assert_eq!(problems, [""; 0], "{example}");
        assert_eq!(site.design.nodes.len(), nodes, "{example}");
        assert_eq!(site.design.groups.len(), groups, "{example}");
        assert_eq!(clock(&site.design), Clock::Virtual, "{example}");
        let folder = TempDir::new().unwrap();
        let simulated_state = folder.path().join("simulated-site.json");
        choose(
            &site.design,
            &BackendContext::trusting(
                simulated_state,
                std::sync::Arc::new(trueup::backend::NoSecrets),
            ),
        )
        .unwrap();
    }
}
