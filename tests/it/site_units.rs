//! Machines that nothing depends on are taken as units: their files need not be parsed again, and what they say
//! is the same as if all files had been taken.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use trueup::design::{Design, Guards, NodeDesign, NodeName, Section};
use trueup::repository::{OtherRepository, Repository};
use trueup::site::{Accept, At, Depth, Detail, Loader, Location, Settings, Site, Sizes, locate};

use super::git::Checkout;

#[path = "../../benches/generator.rs"]
pub(crate) mod generator;

use generator::{Size, files};

const SETTINGS: Settings = Settings {
    depth: Depth::Checked,
    detail: Detail::Designs,
    accept: Accept {
        missing_sources: false,
        duplicate_keys: false,
    },
};
const SIZES: Sizes = Sizes {
    fewest: 10,
    chunk: 16,
};
const NODES: usize = 120;
/// All take the credential of their controller from their profiles, and one of them is parsed to tell it.
const LENDERS: usize = 1;

/// A site of one file a machine, loaded once.
fn checkout() -> Checkout {
    let checkout = written(NODES);
    let site = units(&checkout);
    assert_eq!(site.unexplained(), NODES);
    checkout
}

fn written(nodes: usize) -> Checkout {
    let checkout = Checkout::new();
    for (path, text) in files(&Size::of(nodes)) {
        checkout.write(&path, text);
        age(&checkout, &path);
    }
    checkout
}

/// Makes a file look as if it had been written long ago, so that nobody takes it for one that is being written.
fn age(checkout: &Checkout, path: &str) {
    let file = std::fs::File::options()
        .write(true)
        .open(checkout.path().join(path))
        .unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(1000);
    file.set_modified(long_ago).unwrap();
}

fn open(checkout: &Checkout) -> Repository {
    checkout.open().with_cache(b"test")
}

fn location(repository: &Repository) -> Location {
    locate(repository, "", None).unwrap()
}

fn load(checkout: &Checkout, at: At, settings: Settings) -> Site {
    let repository = open(checkout);
    let mut loader = Loader::new(&repository).with_sizes(SIZES);
    loader.load(&location(&repository), at, settings).unwrap()
}

/// The site in the worktree, with units if there can be any.
fn units(checkout: &Checkout) -> Site {
    load(checkout, At::Worktree, SETTINGS)
}

/// The same with all of its documents.
fn whole(checkout: &Checkout) -> Site {
    let settings = Settings {
        detail: Detail::Documents,
        ..SETTINGS
    };
    let site = load(checkout, At::Worktree, settings);
    assert_eq!(site.unexplained(), 0);
    site
}

/// Documents that are no machines.
fn others() -> usize {
    let names = ["baremetal", "site-definition"];
    let files = files(&Size::of(NODES)).into_iter();
    let others = files.filter(|(path, _)| !names.iter().any(|name| path.contains(name)));
    others
        .map(|(_, text)| text.matches("\nschema:").count())
        .sum()
}

/// Loads with units and without, and expects the same of both; how many machines were parsed in the end.
#[track_caller]
fn same(checkout: &Checkout) -> usize {
    let (site, whole) = (units(checkout), whole(checkout));
    alike(&site, &whole);
    whole.design.nodes.len() - site.unexplained()
}

#[track_caller]
fn alike(site: &Site, whole: &Site) {
    assert_eq!(errors(whole), Vec::<String>::new());
    assert_eq!((&site.files, &site.digest), (&whole.files, &whole.digest));
    assert_eq!(site.warnings, whole.warnings);
    assert_eq!(
        site.documents.len() + site.unexplained(),
        whole.documents.len()
    );
    same_designs(&site.design, &whole.design);
    same_guards(&site.documented_guards, &whole.documented_guards);
    let groups = site.documented_guards.groups.iter();
    for (one, other) in groups.zip(&whole.documented_guards.groups) {
        assert_eq!(one.nodes(&site.design), other.nodes(&whole.design));
    }
}

fn node(number: usize) -> String {
    format!(
        "site/large/baremetal/{:04}/nodes-{number:06}.yaml",
        number / 100
    )
}

fn edit(checkout: &Checkout, path: &str, old: &str, new: &str) {
    let text = std::fs::read_to_string(checkout.path().join(path)).unwrap();
    assert!(text.contains(old), "`{old}` in {path}");
    checkout.write(path, text.replace(old, new));
}

#[test]
fn only_what_something_may_depend_on_is_parsed_where_nothing_has_changed() {
    let checkout = checkout();
    assert_eq!(units(&checkout).documents.len(), others() + LENDERS);
    assert_eq!(same(&checkout), LENDERS);
    let repository = open(&checkout);
    let mut loader = Loader::new(&repository).with_sizes(SIZES);
    let location = location(&repository);
    let mut site = loader.load(&location, At::Worktree, SETTINGS).unwrap();
    let names = ["node-000007", "node-000119"].map(NodeName::from);
    loader.explain(&mut site, &names.iter().collect()).unwrap();
    assert_eq!(site.unexplained(), NODES - 2 - LENDERS);
    let mut whole = Loader::new(&repository);
    let settings = Settings {
        detail: Detail::Documents,
        ..SETTINGS
    };
    let all = whole.load(&location, At::Worktree, settings).unwrap();
    alike(&site, &all);
    for name in &names {
        let (own, other) = (&site.design.nodes[name], &all.design.nodes[name]);
        let places = (
            loader.sources().place(own.mark),
            whole.sources().place(other.mark),
        );
        assert_eq!(places.0, places.1);
        assert_eq!(told(&own.depends_on), told(&other.depends_on));
        assert!(
            site.rendering
                .get(&own.document.schema, name.as_str())
                .is_some()
        );
    }
    loader.explain(&mut site, &names.iter().collect()).unwrap();
    assert_eq!(
        site.unexplained(),
        NODES - 2 - LENDERS,
        "they are explained already"
    );
}

#[test]
fn what_was_changed_is_parsed_and_nothing_else() {
    let checkout = checkout();
    edit(&checkout, &node(3), "- worker", "- worker\n      - edited");
    assert_eq!(same(&checkout), 1 + LENDERS);
    age(&checkout, &node(3));
    units(&checkout);
    assert_eq!(same(&checkout), LENDERS, "it was kept");
    std::fs::remove_file(checkout.path().join(node(4))).unwrap();
    assert_eq!(same(&checkout), LENDERS);
    edit(&checkout, &node(5), "node-000005", "node-a-new-one");
    assert_eq!(same(&checkout), 1 + LENDERS);
}

#[test]
fn a_change_with_the_same_size_in_the_same_moment_is_seen() {
    let checkout = checkout();
    edit(&checkout, &node(3), "worker", "warder");
    assert_eq!(same(&checkout), 1 + LENDERS);
    edit(&checkout, &node(3), "warder", "wander");
    assert_eq!(same(&checkout), 1 + LENDERS);
    let site = units(&checkout);
    assert!(site.design.nodes["node-000003"].tags.contains("wander"));
}

#[test]
fn a_commit_is_loaded_from_what_was_kept_of_the_worktree() {
    let checkout = checkout();
    let commit = checkout.commit("A site");
    let site = load(&checkout, At::Commit(commit), SETTINGS);
    assert_eq!(site.unexplained(), NODES - LENDERS);
    alike(&site, &whole(&checkout));
    edit(&checkout, "global/profiles/host/base.yaml", "30g", "31g");
    assert_eq!(same(&checkout), 0, "all are made anew");
    edit(&checkout, "global/profiles/host/base.yaml", "31g", "30g");
    let before = load(&checkout, At::Commit(commit), SETTINGS);
    alike(&before, &whole(&checkout));
}

#[test]
fn what_an_older_revision_has_alike_is_left_out_beside_a_newer_one() {
    let checkout = checkout();
    let commit = checkout.commit("A site");
    edit(&checkout, &node(3), "- worker", "- edited");
    let repository = open(&checkout);
    let mut loader = Loader::new(&repository).with_sizes(SIZES);
    let location = location(&repository);
    let mut site = loader.load(&location, At::Worktree, SETTINGS).unwrap();
    let names = ["node-000003", "node-000007"].map(NodeName::from);
    loader.explain(&mut site, &names.iter().collect()).unwrap();
    let settings = Settings {
        depth: Depth::Typed,
        ..SETTINGS
    };
    let old = loader
        .load_beside(&site, &location, commit, settings)
        .unwrap();
    let there: BTreeSet<&NodeName> = old.design.nodes.keys().collect();
    assert!(names.iter().all(|name| there.contains(name)));
    assert_eq!(there.len(), names.len() + LENDERS);
    assert!(old.design.nodes["node-000003"].tags.contains("worker"));
}

/// What is changed, and how.
type Edit<'a> = (&'a str, &'a dyn Fn(&Checkout));

#[test]
fn what_may_change_more_than_itself_is_seen_in_all_that_it_changes() {
    let edits: [Edit<'_>; 7] = [
        ("a profile", &|checkout| {
            edit(checkout, "global/profiles/host/base.yaml", "30g", "31g");
        }),
        ("a machine that is no machine any more", &|checkout| {
            edit(
                checkout,
                &node(3),
                "drydock/BaremetalNode/v1",
                "example/Other/v1",
            );
        }),
        ("labels that somebody may select a parent by", &|checkout| {
            edit(
                checkout,
                &node(3),
                "  storagePolicy",
                "  labels: {hosttype: other}\n  storagePolicy",
            );
        }),
        ("many", &|checkout| {
            for number in 0..11 {
                edit(checkout, &node(number), "- worker", "- other");
            }
        }),
        ("a warning in a machine", &|checkout| {
            edit(checkout, &node(5), "- worker", "- 0o17");
        }),
        (
            "a document that takes something from a machine",
            &|checkout| {
                checkout.write("site/large/other.yaml", TAKES_FROM_A_MACHINE);
            },
        ),
        ("a machine that takes something from another", &|checkout| {
            edit(
                checkout,
                &node(3),
                "  storagePolicy",
                "  substitutions:\n    - src:\n        schema: drydock/BaremetalNode/v1\n        name: node-000007\n        \
                 path: .metadata.rack\n      dest:\n        path: .metadata.rack\n  storagePolicy",
            );
        }),
    ];
    for (what, edit) in edits {
        let warm = checkout();
        edit(&warm);
        alike(&units(&warm), &whole(&warm));
        alike(&units(&warm), &whole(&warm));
        let cold = written(NODES);
        edit(&cold);
        let site = units(&cold);
        alike(&site, &whole(&cold));
        assert!(site.unexplained() > 0 || what.contains("takes"), "{what}");
    }
}

const TAKES_FROM_A_MACHINE: &str = "---\nschema: example/Other/v1\nmetadata:\n  schema: metadata/Document/v1\n  name: other\n  \
     storagePolicy: cleartext\n  layeringDefinition: {abstract: false, layer: site}\n  substitutions:\n  \
     - dest: {path: .a}\n    src: {schema: drydock/BaremetalNode/v1, name: node-000007, path: .metadata}\ndata: {}\n";

#[test]
fn accepted_duplicate_keys_do_not_load_the_site_whole() {
    let accepting = Settings {
        accept: Accept {
            duplicate_keys: true,
            ..SETTINGS.accept
        },
        ..SETTINGS
    };
    let policy = "---\nschema: trueup/Policy/v1\nmetadata:\n  schema: metadata/Document/v1\n  name: policy\n  \
         storagePolicy: cleartext\n  layeringDefinition: {abstract: false, layer: site}\n\
         data: {allow_duplicate_keys: true}\n";
    for (what, policy, settings) in [
        ("by a setting", None, accepting),
        ("by a policy", Some(policy), SETTINGS),
    ] {
        let checkout = written(NODES);
        for number in [5, 100] {
            edit(
                &checkout,
                &node(number),
                "  rack: ",
                "  rack: none\n    rack: ",
            );
        }
        if let Some(policy) = policy {
            checkout.write("site/large/policy.yaml", policy);
        }
        let documents = Settings {
            detail: Detail::Documents,
            ..settings
        };
        let whole = load(&checkout, At::Worktree, documents);
        let repeated = whole.diagnostics.iter();
        let repeated = repeated.filter(|each| each.code.0 == "yaml-duplicate-key");
        assert_eq!(repeated.count(), 2, "{what}");
        for warmth in ["cold", "warm"] {
            let site = load(&checkout, At::Worktree, settings);
            assert!(site.unexplained() > 0, "{what}, {warmth}");
            alike(&site, &whole);
        }
    }
}

#[test]
fn machines_in_another_repository_are_taken_as_units_too() {
    let (checkout, other) = (Checkout::new(), Checkout::new());
    for (path, text) in files(&Size::of(NODES)) {
        let named = "\ndata:\n  repositories:\n    machines:\n      revision: main\n";
        let text = match path.ends_with("site-definition.yaml") {
            true => format!("{}{named}", text.split("\ndata:\n").next().unwrap()),
            false => text,
        };
        match path.contains("/baremetal/") {
            true => other.write(&path, text),
            false => checkout.write(&path, text),
        }
    }
    other.commit("The machines");
    let open = || {
        let machines = {
            let variables = |_: &std::path::Path| std::env::vars_os().collect();
            OtherRepository::open("machines".into(), other.path(), None, &variables).unwrap()
        };
        open(&checkout).with_others(vec![machines])
    };
    let load = |detail: Detail| {
        let repository = open();
        let mut loader = Loader::new(&repository).with_sizes(SIZES);
        let settings = Settings { detail, ..SETTINGS };
        let location = location(&repository);
        loader.load(&location, At::Worktree, settings).unwrap()
    };
    let whole = load(Detail::Documents);
    assert_eq!(whole.design.nodes.len(), NODES);
    let mut paths = whole.files.iter().map(|file| &*file.path);
    assert!(paths.any(|path| path.starts_with("machines:site/large/")));
    for _ in 0..2 {
        let site = load(Detail::Designs);
        assert!(site.unexplained() > 0);
        alike(&site, &whole);
    }
    let node = "site/large/baremetal/0000/nodes-000003.yaml";
    edit(&other, node, "- worker", "- edited");
    other.commit("Another tag");
    let site = load(Detail::Designs);
    assert_eq!(site.unexplained(), NODES - 1 - LENDERS);
    assert!(site.design.nodes["node-000003"].tags.contains("edited"));
    alike(&site, &load(Detail::Documents));
}

/// What is wrong with a site, without the numbers of sources.
fn problems(site: &Site) -> Vec<String> {
    let problems = site.diagnostics.iter();
    problems
        .map(|each| format!("{} {}", each.code.0, each.message))
        .collect()
}

fn errors(site: &Site) -> Vec<String> {
    match site.diagnostics.has_errors() {
        true => problems(site),
        false => Vec::new(),
    }
}

#[test]
fn what_is_wrong_is_said_as_it_is_of_the_whole_and_nothing_of_it_is_kept() {
    let edits: [Edit<'_>; 6] = [
        ("an address that is another's", &|checkout| {
            edit(checkout, &node(3), "10.64.0.4", "10.64.0.9");
        }),
        ("a name that is another's", &|checkout| {
            edit(checkout, &node(3), "node-000003", "node-000004");
        }),
        ("an error", &|checkout| {
            edit(checkout, &node(3), "rack-0", "rack-0: x");
        }),
        ("no such profile", &|checkout| {
            edit(checkout, &node(3), "profile-3", "no-profile");
        }),
        ("no YAML", &|checkout| {
            edit(checkout, &node(3), "\ndata:", "\ndata: [");
        }),
        ("a board that is another's", &|checkout| {
            for number in [3, 90] {
                edit(
                    checkout,
                    &node(number),
                    "\ndata:",
                    "\ndata:\n  oob: {uuid: 4c4c4544-0042-3510-8058-b7c04f503332}",
                );
            }
        }),
    ];
    for (what, edit) in edits {
        for checkout in [checkout(), written(NODES)] {
            edit(&checkout);
            let site = units(&checkout);
            assert!(site.diagnostics.has_errors(), "{what}");
            assert_eq!(problems(&site), problems(&whole(&checkout)), "{what}");
            assert_eq!(site.unexplained(), 0, "{what}");
        }
    }
}

#[test]
fn nothing_is_taken_that_another_program_kept() {
    let checkout = checkout();
    let folder = checkout.path().join(".git/trueup/.cache");
    let kept = |kind: &str| {
        let entries = std::fs::read_dir(&folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(kind)).count()
    };
    assert_eq!(kept("site-"), 1);
    let other = checkout.open().with_cache(b"another build");
    let mut loader = Loader::new(&other).with_sizes(SIZES);
    let site = loader
        .load(&location(&other), At::Worktree, SETTINGS)
        .unwrap();
    alike(&site, &whole(&checkout));
    assert_eq!(kept("site-"), 2);
}

#[test]
fn no_secret_is_kept_and_none_is_missing() {
    let checkout = checkout();
    let secret = "site/large/secrets/bmc.yaml";
    edit(&checkout, secret, "not-a-password", "very-secret-word");
    // One machine takes it as a parameter of its kernel, all of one profile as another one; every machine has a
    // controller of its own beside the credential of its profile.
    let from = "  substitutions:\n    - src:\n        schema: deckhand/Passphrase/v1\n        name: bmc_password\n        \
                path: .\n      dest:\n        path: ";
    let to = |path: &str| format!("{from}{path}\n  storagePolicy");
    edit(
        &checkout,
        &node(3),
        "  storagePolicy",
        &to(".platform.kernel_params.unlock"),
    );
    edit(
        &checkout,
        "site/large/profiles/host/profile-4.yaml",
        "      dest:\n        path: .oob.credential",
        "      dest:\n        - path: .oob.credential\n        - path: .platform.kernel_params.secret",
    );
    for number in 0..NODES {
        let own = format!("\ndata:\n  oob: {{serial: S-{number}}}");
        edit(&checkout, &node(number), "\ndata:", &own);
        age(&checkout, &node(number));
    }
    alike(&units(&checkout), &whole(&checkout));
    for entry in std::fs::read_dir(checkout.path().join(".git/trueup/.cache")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let word = b"very-secret-word";
        let found = bytes.windows(word.len()).any(|window| window == word);
        assert!(!found, "{path:?}");
    }
    let parsed = same(&checkout);
    assert!(
        (1..4).contains(&parsed),
        "{parsed} machines lend their secrets"
    );
    let site = units(&checkout);
    let oob = |name: &str| {
        site.design.nodes[name]
            .sections
            .get(&Section::OutOfBand)
            .unwrap()
    };
    for name in ["node-000050", "node-000119"] {
        let credential = oob(name).at(&["oob", "credential"]).unwrap();
        assert!(credential.is_secret(), "{name}");
        assert_eq!(credential.as_str(), Some("very-secret-word"));
    }
}

#[test]
fn two_loaders_may_keep_and_read_at_once() {
    let checkout = Arc::new(checkout());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3 {
                    assert_eq!(units(&checkout).unexplained(), NODES - LENDERS);
                }
            });
        }
    });
}

#[test]
fn a_folder_of_what_was_kept_that_is_damaged_costs_time_and_nothing_else() {
    let checkout = checkout();
    let expected = whole(&checkout);
    for entry in std::fs::read_dir(checkout.path().join(".git/trueup/.cache")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    alike(&units(&checkout), &expected);
    assert_eq!(same(&checkout), LENDERS);
}

/// Expects the same of two designs; nobody explains a machine of a unit, and its marks tell little.
fn same_designs(one: &Design, other: &Design) {
    assert_eq!(one.nodes.len(), other.nodes.len());
    let nodes = one.nodes.values().zip(other.nodes.values());
    for (one, other) in nodes {
        let sections = |node: &NodeDesign| -> Vec<_> {
            let sections = node.sections.iter();
            sections
                .map(|(section, fields)| (section, fields.to_node().into_owned()))
                .collect()
        };
        assert_eq!((&one.name, &one.digests), (&other.name, &other.digests));
        assert_eq!((&one.tags, &one.rack), (&other.tags, &other.rack));
        assert_eq!(sections(one), sections(other));
        assert_eq!((&one.labels, &one.disks), (&other.labels, &other.disks));
        assert_eq!(
            (&one.document, &one.addresses),
            (&other.document, &other.addresses)
        );
        assert_eq!(
            (&one.host_profiles, &one.hardware_profile, &one.out_of_band),
            (
                &other.host_profiles,
                &other.hardware_profile,
                &other.out_of_band
            )
        );
    }
}

#[track_caller]
fn same_guards(one: &Guards, other: &Guards) {
    assert_eq!(told(&one.groups), told(&other.groups));
    assert_eq!(told(&one.etcd_clusters), told(&other.etcd_clusters));
    assert_eq!(told(&one.retirements), told(&other.retirements));
    assert_eq!(told(&one.cleaning), told(&other.cleaning));
    assert_eq!(told(&one.policy), told(&other.policy));
    assert_eq!(told(&one.backends), told(&other.backends));
    assert_eq!(one.configuration, other.configuration);
}

/// A part of a design without the numbers of sources, which depend on how it was loaded.
fn told(part: &dyn std::fmt::Debug) -> String {
    let all = format!("{part:?}");
    let mut parts = all.split("SourceId(");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    text
}

#[test]
fn the_design_and_the_warnings_are_those_of_the_whole() {
    let checkout = written(400);
    assert_eq!(same(&checkout), 0);

    // What a machine alone says, what all machines are asked about, and what their profiles say.
    let machine = |old: &str, new: &str| {
        let text = std::fs::read_to_string(checkout.path().join(node(5))).unwrap();
        assert!(text.contains(old), "{old}");
        (node(5), text.replace(old, new))
    };
    let other = |path: &str, old: &str, new: &str| {
        let text = std::fs::read_to_string(checkout.path().join(path)).unwrap();
        assert!(text.contains(old), "{old}");
        (path.to_owned(), text.replace(old, new))
    };
    let base = "global/profiles/host/base.yaml";
    let profile = "site/large/profiles/host/profile-3.yaml";
    let strategy = "site/large/strategy.yaml";
    let cases = [
        (
            "a warning in a machine",
            machine("- worker", "- 0o17"),
            true,
        ),
        (
            "a disk of one machine",
            machine(
                "data:\n",
                "data:\n  storage: {physical_devices: {bootdisk: {partitions: [{name: x, size: 1z}]}}}\n",
            ),
            false,
        ),
        (
            "a machine in no group",
            machine("rack: rack-5", "rack: none-5"),
            true,
        ),
        ("a profile's disk", other(base, "30g", "30z"), false),
        (
            "a profile's kernel",
            other(base, "console: ttyS1", "hugepages: 5\n      console: ttyS1"),
            false,
        ),
        (
            "a profile's primary network",
            other(profile, "primary_network: oam", "primary_network: none"),
            true,
        ),
        (
            "the hardware of a profile that only machines of units use",
            other(base, "hardware_profile: ", "hardware_profile: no-"),
            false,
        ),
        (
            "a profile's controller",
            other(profile, "type: ipmi", "type: telnet"),
            false,
        ),
        (
            "a group of a machine that is not there",
            other(strategy, "node_names: []", "node_names: [nobody]"),
            true,
        ),
        (
            "a group of a machine",
            other(strategy, "node_names: []", "node_names: [node-000007]"),
            true,
        ),
    ];
    for (what, (path, text), is_sound) in cases {
        let before = std::fs::read_to_string(checkout.path().join(&path)).unwrap();
        checkout.write(&path, text);
        let (site, whole) = (units(&checkout), whole(&checkout));
        assert_eq!(!whole.diagnostics.has_errors(), is_sound, "{what}");
        match is_sound {
            true => alike(&site, &whole),
            false => assert_eq!(problems(&site), problems(&whole), "{what}"),
        }
        checkout.write(&path, before);
    }
}

#[test]
fn the_mark_of_each_machine_names_its_own_file_whether_it_was_kept_or_made() {
    let checkout = checkout();
    for number in (0..NODES).step_by(5) {
        edit(&checkout, &node(number), "- worker", "- other");
    }
    let repository = open(&checkout);
    let mut loader = Loader::new(&repository).with_sizes(SIZES);
    let location = location(&repository);
    let site = loader.load(&location, At::Worktree, SETTINGS).unwrap();
    assert!(site.unexplained() >= NODES - LENDERS);
    for (number, design) in site.design.nodes.values().enumerate() {
        let path = loader.sources().path(design.mark.source);
        assert_eq!(*path, *node(number), "{}", design.name);
    }
}
