//! The examples: each is a site without a problem, whose simulator can be opened.

use std::collections::BTreeMap;
use std::path::Path;

use trueup::backend::{BackendContext, Clock, choose, clock};
use trueup::guard::Guarded;
use trueup::site::{Accept, At, Depth, Detail, Loader, Settings, locate};

use crate::fixture::Fixture;
use crate::folder::folder;
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
fn the_example_of_redfish_machines_is_valid_and_planned_as_init_writes_it() {
    let fixture = Fixture::empty("redfish");
    let folder = fixture.checkout.outside().join("redfish");
    let folder = folder.to_str().unwrap();
    let told = fixture
        .run(&["init", "--example", "redfish", folder])
        .with(0)
        .stderr;
    assert!(told.contains("trueup plan --observed none"), "{told}");
    let here = |arguments: &[&str]| fixture.run(&[&["-C", folder], arguments].concat());
    let valid = here(&["validate", "--format", "json"]).with(0).json();
    assert_eq!(
        valid["diagnostics"].as_array().map(Vec::len),
        Some(0),
        "{valid:#}"
    );
    let plan = here(&["plan", "--observed", "none", "--format", "json"])
        .with(0)
        .json();
    assert_eq!(
        plan["changes"].as_array().map(Vec::len),
        Some(9),
        "{plan:#}"
    );
    // A twentieth of nine machines is one, and the control plane is protected.
    assert_eq!(plan["groups"].as_array().map(Vec::len), Some(4));
    let reach = here(&["trust", "--format", "json", "--yes"]).with(0).stdout;
    for named in [
        "10.60.0.0/22",
        "images.example.org",
        "/run/secrets/bmc/",
        "/etc/trueup/bmc-ca.pem",
    ] {
        assert!(reach.contains(named), "{named}: {reach}");
    }
    let secret = here(&["render"]).with(0).stdout;
    assert!(secret.contains("/run/secrets/bmc/{node}"), "{secret}");
    for file in ["README.md", "nodes.yaml"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/redfish");
        let read = |folder: &Path| std::fs::read_to_string(folder.join(file)).unwrap();
        let written = read(Path::new(folder)).replace(".schemas/", "../../schemas/");
        assert_eq!(written, read(&source));
    }
}

#[test]
fn the_example_of_machines_in_maas_is_valid_and_planned_as_init_writes_it() {
    let fixture = Fixture::empty("maas");
    let folder = fixture.checkout.outside().join("maas");
    let folder = folder.to_str().unwrap();
    let init = ["init", "--example", "maas", folder];
    let told = fixture.run(&init).with(0).stderr;
    assert!(told.contains("trueup plan --observed none"), "{told}");
    let here = |arguments: &[&str]| fixture.run(&[&["-C", folder], arguments].concat());
    let valid = here(&["validate", "--format", "json"]).with(0).json();
    let found = valid["diagnostics"].as_array().map(Vec::len);
    assert_eq!(found, Some(0), "{valid:#}");
    let plan = ["plan", "--observed", "none", "--format", "json"];
    let plan = here(&plan).with(0).json();
    let changes = plan["changes"].as_array().map(Vec::len);
    assert_eq!(changes, Some(4), "{plan:#}");
    let reach = here(&["trust", "--format", "json", "--yes"]).with(0).stdout;
    for named in [
        "https://maas.example.org:5443/MAAS",
        "/run/secrets/maas-api-key",
        "/run/secrets/bmc/",
        "/etc/trueup/maas-ca.pem",
        "10.70.0.0/24",
        "smartctl-validate",
    ] {
        assert!(reach.contains(named), "{named}: {reach}");
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
        let location = locate(&repository, "", name).unwrap();
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
        assert_eq!(site.documented_guards.groups.len(), groups, "{example}");
        assert_eq!(clock(&site.documented_guards), Clock::Virtual, "{example}");
        let folder = folder();
        let simulated_state = folder.path().join("simulated-site.json");
        choose(
            &Guarded::under_one(&site.documented()),
            &BackendContext::trusting(
                simulated_state,
                std::sync::Arc::new(trueup::backend::NoSecrets),
            ),
        )
        .unwrap();
    }
}
