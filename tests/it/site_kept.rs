//! What is kept of a site spares what it says it spares: files that are as they were are not parsed again, and what
//! they say is the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use trueup::design::{Design, MACHINE, NodeDesign, NodeName, Section};
use trueup::repository::Repository;
use trueup::site::{At, Depth, Kept, Loader, Location, Pieces, Settings, Site, locate};

use super::git::Checkout;

#[path = "../../benches/generator.rs"]
mod generator;

use generator::{Size, files};

const SETTINGS: Settings = Settings {
    depth: Depth::Checked,
    allow_missing_sources: false,
};
const NODES: usize = 120;

/// A site of one file a machine, loaded once.
fn checkout() -> Checkout {
    let checkout = written(NODES);
    let repository = open(&checkout);
    load(&repository, &mut Loader::new(&repository));
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
    locate(repository, At::Worktree, "", None).unwrap()
}

fn load(repository: &Repository, loader: &mut Loader<'_>) -> Site {
    let site = loader.load(&location(repository), At::Worktree, SETTINGS);
    let site = site.unwrap();
    assert!(!site.diagnostics.has_errors());
    site
}

/// The site loaded in part, its warnings, and how many files were parsed; `None`: not possible.
fn load_part(checkout: &Checkout, wanted: &[&str]) -> Option<(Site, usize, usize)> {
    let repository = open(checkout);
    let location = location(&repository);
    let kept = Kept::read(&repository, &location, SETTINGS)?;
    let mut loader = Loader::new(&repository);
    let listing = loader.list(&location).unwrap()?;
    let wanted: BTreeSet<NodeName> = wanted.iter().map(|name| NodeName::from(*name)).collect();
    let mut parts = kept.split(&listing, &wanted, 10, &mut |_| None)?;
    let parsed = parts.load.iter().filter(|load| **load).count();
    let part = loader.load_part(&location, SETTINGS, &listing, &kept, &mut parts);
    let (site, warnings) = part.unwrap()?;
    Some((site, warnings, parsed))
}

/// Loads both ways, and expects the same of them; how many files were parsed.
#[track_caller]
fn same(checkout: &Checkout, wanted: &[&str]) -> usize {
    let (part, warnings, parsed) = load_part(checkout, wanted).expect("the short way");
    let repository = checkout.open();
    let whole = load(&repository, &mut Loader::new(&repository));
    assert_eq!(part.digest, whole.digest);
    assert_eq!(part.files, whole.files);
    assert_eq!(warnings, whole.diagnostics.counts().1);
    assert_eq!(part.design.nodes.len(), whole.design.nodes.len());
    for (one, other) in part.design.nodes.values().zip(whole.design.nodes.values()) {
        assert_eq!((&one.name, &one.rack), (&other.name, &other.rack));
        assert_eq!((&one.tags, &one.labels), (&other.tags, &other.labels));
        assert_eq!(one.digests, other.digests);
    }
    for (one, other) in part.design.groups.iter().zip(&whole.design.groups) {
        assert_eq!(one.nodes(&part.design), other.nodes(&whole.design));
    }
    parsed
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
    let others = files(&Size::of(NODES)).len() - NODES;
    assert_eq!(same(&checkout, &[]), others);
    assert_eq!(same(&checkout, &["node-000007", "node-000119"]), others + 2);
}

#[test]
fn what_was_changed_is_parsed_and_nothing_else() {
    let checkout = checkout();
    let others = files(&Size::of(NODES)).len() - NODES;
    edit(&checkout, &node(3), "- worker", "- worker\n      - edited");
    assert_eq!(same(&checkout, &[]), others + 1);
    std::fs::remove_file(checkout.path().join(node(4))).unwrap();
    assert_eq!(same(&checkout, &[]), others + 1);
    edit(&checkout, &node(5), "node-000005", "node-a-new-one");
    assert_eq!(same(&checkout, &[]), others + 2);
}

#[test]
fn a_change_with_the_same_size_in_the_same_moment_is_seen() {
    let checkout = checkout();
    let before = same(&checkout, &[]);
    edit(&checkout, &node(3), "worker", "warder");
    assert_eq!(same(&checkout, &[]), before + 1);
    edit(&checkout, &node(3), "warder", "wander");
    assert_eq!(same(&checkout, &[]), before + 1);
    let (site, ..) = load_part(&checkout, &[]).unwrap();
    assert!(site.design.nodes["node-000003"].tags.contains("wander"));
}

/// What is changed, and how.
type Edit<'a> = (&'a str, &'a dyn Fn(&Checkout));

#[test]
fn what_may_change_more_than_itself_is_not_loaded_in_part() {
    let edits: [Edit<'_>; 7] = [
        ("a profile", &|checkout| {
            edit(checkout, "global/profiles/host/base.yaml", "30g", "31g");
        }),
        ("an address that is another's", &|checkout| {
            edit(checkout, &node(3), "10.64.0.4", "10.64.0.9");
        }),
        ("a name that is another's", &|checkout| {
            edit(checkout, &node(3), "node-000003", "node-000004");
        }),
        ("a machine that is no machine any more", &|checkout| {
            edit(
                checkout,
                &node(3),
                "drydock/BaremetalNode/v1",
                "drydock/Rack/v1",
            );
        }),
        ("labels that somebody may select a parent by", &|checkout| {
            edit(
                checkout,
                &node(3),
                "  storagePolicy",
                "  labels: {hosttype: base}\n  storagePolicy",
            );
        }),
        ("an error", &|checkout| {
            edit(checkout, &node(3), "rack-0", "rack-0: x");
        }),
        ("too many", &|checkout| {
            for number in 0..11 {
                edit(checkout, &node(number), "- worker", "- other");
            }
        }),
    ];
    for (what, edit) in edits {
        let checkout = checkout();
        edit(&checkout);
        assert!(load_part(&checkout, &[]).is_none(), "{what}");
    }
}

#[test]
fn nothing_is_kept_of_a_site_with_errors_and_nothing_for_another_program() {
    let checkout = checkout();
    let other = checkout.open().with_cache(b"another build");
    assert!(Kept::read(&other, &location(&other), SETTINGS).is_none());
    std::fs::remove_dir_all(checkout.path().join(".git/trueup/.cache")).unwrap();
    edit(&checkout, &node(3), "profile-3", "no-profile");
    let repository = open(&checkout);
    let location = location(&repository);
    let site = Loader::new(&repository).load(&location, At::Worktree, SETTINGS);
    assert!(site.unwrap().diagnostics.has_errors());
    assert!(Kept::read(&repository, &location, SETTINGS).is_none());
}

#[test]
fn no_secret_is_kept() {
    let checkout = checkout();
    let secret = "site/large/secrets/bmc.yaml";
    edit(&checkout, secret, "not-a-password", "very-secret-word");
    // One machine takes it as a parameter of its kernel, all of one profile as another one.
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
    let repository = open(&checkout);
    load(&repository, &mut Loader::new(&repository));
    for entry in std::fs::read_dir(checkout.path().join(".git/trueup/.cache")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let word = b"very-secret-word";
        let found = bytes.windows(word.len()).any(|window| window == word);
        assert!(!found, "{path:?}");
    }
    same(&checkout, &[]);
}

#[test]
fn two_loaders_may_keep_and_read_at_once() {
    let checkout = Arc::new(checkout());
    let expected = same(&checkout, &[]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let repository = open(&checkout);
                    load(&repository, &mut Loader::new(&repository));
                    let (_, _, parsed) = load_part(&checkout, &[]).unwrap();
                    assert_eq!(parsed, expected);
                }
            });
        }
    });
}

/// What is kept of a site that is taken to pieces; `None` where it has to be loaded as a whole.
fn gathered(checkout: &Checkout, unexpected: usize) -> Option<Kept> {
    let repository = checkout.open();
    let location = location(&repository);
    let mut loader = Loader::new(&repository);
    let is_expected = |node: &NodeDesign| node.name.as_str() >= &*format!("node-{unexpected:06}");
    let pieces = Pieces {
        fewest: 10,
        size: 16,
        is_expected: &is_expected,
        most: 10,
    };
    let gathered = loader.gather(&location, SETTINGS, pieces);
    let (kept, listing) = gathered.unwrap()?;
    let mut parts = kept
        .split(&listing, &BTreeSet::new(), 10, &mut |_| None)
        .unwrap();
    let part = loader.load_part(&location, SETTINGS, &listing, &kept, &mut parts);
    let (part, _) = part.unwrap()?;
    let site = loader.load(&location, At::Worktree, SETTINGS).unwrap();
    assert_eq!(
        (&listing.files, &listing.digest),
        (&site.files, &site.digest)
    );
    assert_eq!(part.design.nodes.len(), site.design.nodes.len());
    Some(kept)
}

/// Loads a site in pieces and as a whole, and expects the same of both; how many machines were loaded with
/// their documents all the same. `None` where only the whole can be loaded.
fn in_pieces(checkout: &Checkout, at: At, unexpected: usize) -> Option<usize> {
    let repository = checkout.open();
    let location = location(&repository);
    let is_expected = |node: &NodeDesign| node.name.as_str() >= &*format!("node-{unexpected:06}");
    let pieces = Pieces {
        fewest: 10,
        size: 16,
        is_expected: &is_expected,
        most: 10,
    };
    let mut loader = Loader::new(&repository);
    let gathered = loader.load_in_pieces(&location, at, SETTINGS, pieces);
    let gathered = gathered.unwrap()?;
    let site = &gathered.site;
    let mut whole_loader = Loader::new(&repository);
    let whole = whole_loader.load(&location, at, SETTINGS).unwrap();
    assert_eq!((&site.files, &site.digest), (&whole.files, &whole.digest));
    assert!(!whole.diagnostics.has_errors());
    assert_eq!(gathered.warnings, whole.diagnostics.counts().1);
    same_designs(&site.design, &whole.design);
    let loaded = site.rendering.of_schema(MACHINE);
    for each in loaded {
        let own = &site.design.nodes[&*each.id().name];
        assert!(!own.depends_on.is_empty());
        let other = &whole.design.nodes[&*each.id().name];
        assert_eq!(
            loader.sources().place(own.mark),
            whole_loader.sources().place(other.mark)
        );
    }
    for (own, other) in site.design.nodes.values().zip(whole.design.nodes.values()) {
        assert_eq!(
            loader.sources().path(own.mark.source),
            whole_loader.sources().path(other.mark.source)
        );
    }
    Some(loaded.len())
}

/// Expects the same of two designs, marks included.
fn same_designs(one: &Design, other: &Design) {
    assert_eq!(one.nodes.len(), other.nodes.len());
    let nodes = one.nodes.values().zip(other.nodes.values());
    for (number, (one, other)) in nodes.enumerate() {
        let sections = |node: &NodeDesign| -> Vec<_> {
            let sections = node.sections.iter();
            sections
                .map(|(section, fields)| (section, fields.to_node().into_owned()))
                .collect()
        };
        assert_eq!((&one.name, &one.digests), (&other.name, &other.digests));
        assert_eq!((&one.tags, &one.rack), (&other.tags, &other.rack));
        assert_eq!(sections(one), sections(other));
        // Some, since that is much text. Nobody explains a machine that was in a piece.
        if number % 50 == 5 {
            let mut other = NodeDesign::clone(other);
            let is_explained = !one.depends_on.is_empty();
            if !is_explained {
                other.depends_on.clear();
                let inventory = one.sections.shared(&Section::Inventory).unwrap();
                other.sections.insert(Section::Inventory, inventory.clone());
            }
            assert_eq!(told(one), told(&other));
        }
    }
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

/// What is kept of a site that is loaded as a whole.
fn kept_as_a_whole(checkout: &Checkout) -> Option<Kept> {
    let repository = open(checkout);
    let location = location(&repository);
    let loaded = Loader::new(&repository).load(&location, At::Worktree, SETTINGS);
    let is_sound = !loaded.unwrap().diagnostics.has_errors();
    // What was kept before stays where a site is not sound.
    is_sound.then(|| Kept::read(&repository, &location, SETTINGS).unwrap())
}

#[test]
fn of_a_site_in_pieces_the_same_is_kept_as_of_the_whole() {
    let checkout = written(400);
    let whole = kept_as_a_whole(&checkout);
    assert!(whole.is_some());
    assert!(gathered(&checkout, 0) == whole);
    assert!(gathered(&checkout, 10) == whole);
    assert!(gathered(&checkout, 11).is_none(), "more are unexpected");

    // The first machine, and what it says instead; whether the site can be taken to pieces then.
    let machine = std::fs::read_to_string(checkout.path().join(node(0))).unwrap();
    let other = std::fs::read_to_string(checkout.path().join(node(399))).unwrap();
    let address = |text: &str| {
        let (_, address) = text.split_once("address: ").unwrap();
        address.lines().next().unwrap().to_owned()
    };
    let changes = [
        (format!("# A comment.\n{machine}"), true),
        (
            format!(
                "{machine}---\n{}",
                machine
                    .replace("node-000000", "node-x")
                    .replace(".0.1\n", ".1.201\n")
            ),
            true,
        ),
        (machine.replace(&address(&machine), &address(&other)), false),
        (machine.replace("node-000000", "node-000399"), false),
        (
            machine.replace("host_profile: ", "host_profile: no-"),
            false,
        ),
        (machine.replace("data:", "data: ["), false),
        (
            machine.replace("schema: metadata/", "labels: {a: b}\n  schema: metadata/"),
            true,
        ),
        (
            machine.replace(
                "schema: metadata/",
                "replacement: true\n  schema: metadata/",
            ),
            false,
        ),
        (
            format!(
                "{machine}---\n{{schema: example/Other/v1, metadata: {{schema: metadata/Document/v1, name: x, layeringDefinition: {{abstract: false, layer: site}}}}, data: {{}}}}\n"
            ),
            false,
        ),
    ];
    for (text, can_be) in changes {
        checkout.write(&node(0), &text);
        let whole = kept_as_a_whole(&checkout);
        let pieces = gathered(&checkout, 0);
        assert_eq!(pieces.is_some(), can_be, "{text}");
        assert!(pieces.is_none() || pieces == whole, "{text}");
        let loaded = in_pieces(&checkout, At::Worktree, 0);
        assert_eq!(loaded.is_some(), can_be, "{text}");
    }
}

#[test]
fn a_site_in_pieces_has_the_design_and_the_warnings_of_the_whole() {
    let checkout = written(400);
    assert_eq!(in_pieces(&checkout, At::Worktree, 0), Some(0));
    assert_eq!(in_pieces(&checkout, At::Worktree, 10), Some(10));
    assert_eq!(in_pieces(&checkout, At::Worktree, 11), None);
    let commit = At::Commit(checkout.commit("A site"));
    edit(&checkout, &node(3), "- worker", "- edited");
    assert_eq!(in_pieces(&checkout, commit, 0), Some(0));
    assert_eq!(in_pieces(&checkout, At::Worktree, 0), Some(0));

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
            "a profile's network",
            other(profile, "primary_network: oam", "primary_network: none"),
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
    for (what, (path, text), can_be) in cases {
        let before = std::fs::read_to_string(checkout.path().join(&path)).unwrap();
        checkout.write(&path, text);
        let repository = checkout.open();
        let whole = Loader::new(&repository).load(&location(&repository), At::Worktree, SETTINGS);
        assert_eq!(!whole.unwrap().diagnostics.has_errors(), can_be, "{what}");
        let loaded = in_pieces(&checkout, At::Worktree, 0);
        assert_eq!(loaded.is_some(), can_be, "{what}");
        checkout.write(&path, before);
    }
}

#[test]
fn a_site_whose_documents_take_something_from_machines_is_not_taken_to_pieces() {
    let checkout = written(100);
    assert!(gathered(&checkout, 0).is_some());
    checkout.write(
        "site/large/other.yaml",
        "---\nschema: example/Other/v1\nmetadata:\n  schema: metadata/Document/v1\n  name: other\n  storagePolicy: cleartext\n  \
         layeringDefinition: {abstract: false, layer: site}\n  substitutions:\n  - dest: {path: .a}\n    \
         src: {schema: drydock/BaremetalNode/v1, name: node-000007, path: .metadata}\ndata: {}\n",
    );
    assert!(kept_as_a_whole(&checkout).is_some());
    assert!(gathered(&checkout, 0).is_none());
}
