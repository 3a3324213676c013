//! What of other people's sites is accepted, with a warning or without, and what is an error though it looks sound.
//!
//! Each row edits the small example site, and names all that `trueup validate` finds then.

use std::path::Path;

use super::fixture::{Fixture, copy_folder};
use super::git::Checkout;

/// An edit of a file: a text of it, and another in its place; an empty one is the end of the file.
type Edit = (&'static str, &'static str, &'static str);

struct Row {
    what: &'static str,
    edits: &'static [Edit],
    arguments: &'static [&'static str],
    /// Severity, code and place of each problem.
    found: &'static [&'static str],
    /// A part of what is printed for people.
    says: &'static str,
}

/// A copy of one of the example sites, not committed yet.
pub(crate) fn example(name: &str) -> Fixture {
    let fixture = Fixture::of(Checkout::new(), name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("site-examples").join(name);
    copy_folder(&folder, fixture.checkout.path());
    fixture
}

fn edit(fixture: &Fixture, edits: &[Edit]) {
    for (path, old, new) in edits {
        let text = match fixture.checkout.path().join(path).exists() {
            true => fixture.read(path),
            false => String::new(),
        };
        let text = match old.is_empty() {
            true => text + new,
            false => {
                assert!(text.contains(old), "{path} has no {old}");
                text.replacen(old, new, 1)
            }
        };
        fixture.checkout.write(path, text);
    }
}

fn found(fixture: &Fixture, arguments: &[&str]) -> Vec<String> {
    let ended = fixture.run(&[&["validate", "--format", "json"], arguments].concat());
    let report = ended.json();
    let problems = report["diagnostics"].as_array().unwrap();
    let text =
        |problem: &serde_json::Value, field: &str| problem[field].as_str().unwrap_or("").to_owned();
    let line = |problem: &serde_json::Value| {
        format!(
            "{} {} {}:{}",
            text(problem, "severity"),
            text(problem, "code"),
            text(problem, "file"),
            problem["line"]
        )
    };
    let lines: Vec<String> = problems.iter().map(line).collect();
    let has_errors = lines.iter().any(|line| line.starts_with("error"));
    assert_eq!(ended.code, i32::from(has_errors), "{ended:?}");
    lines
}

fn run(rows: &[Row]) {
    let mut wrong = Vec::new();
    for row in rows {
        let fixture = example("edge");
        edit(&fixture, row.edits);
        fixture.checkout.commit("The site");
        let found = found(&fixture, row.arguments);
        let printed = fixture.run(&[&["validate"], row.arguments].concat());
        let printed = format!("{}{}", printed.stdout, printed.stderr);
        if found != row.found || !printed.contains(row.says) {
            wrong.push(format!("@@ {}\n{}\n{printed}", row.what, found.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const NONE: &[&str] = &[];

#[test]
fn a_kind_in_a_reserved_namespace_is_known_or_declared() {
    run(&[
        Row {
            what: "a machine of a mistyped kind",
            edits: &[(
                "nodes.yaml",
                "drydock/BaremetalNode/v1",
                "drydock/BareMetalNode/v1",
            )],
            arguments: NONE,
            found: &["error rule-unknown-kind nodes.yaml:4"],
            says: "did you mean `drydock/BaremetalNode/v1`?",
        },
        Row {
            what: "another spelling of the namespace",
            edits: &[(
                "nodes.yaml",
                "drydock/BaremetalNode/v1",
                "Drydock/BaremetalNode/v1",
            )],
            arguments: NONE,
            found: &["error rule-unknown-kind nodes.yaml:4"],
            says: "`Drydock/BaremetalNode/v1` is not a kind of document of drydock",
        },
        Row {
            what: "another version",
            edits: &[(
                "nodes.yaml",
                "drydock/BaremetalNode/v1",
                "drydock/BaremetalNode/v2",
            )],
            arguments: NONE,
            found: &["error rule-unknown-kind nodes.yaml:4"],
            says: "did you mean",
        },
        Row {
            what: "a strategy and a policy",
            edits: &[
                ("strategy.yaml", "DeploymentStrategy", "DeploymentStratgy"),
                (
                    "policy.yaml",
                    "",
                    "---\nschema: trueup/Polcy/v1\nmetadata: {name: policy}\ndata: {protected: [{node_names: [edge-1]}]}\n",
                ),
            ],
            arguments: NONE,
            found: &[
                "error rule-unknown-kind policy.yaml:2",
                "error rule-unknown-kind strategy.yaml:4",
            ],
            says: "did you mean `shipyard/DeploymentStrategy/v1`?",
        },
        Row {
            what: "kinds of Promenade and Pegleg, of other namespaces, and one that the site declares",
            edits: &[(
                "more.yaml",
                "",
                "---\nschema: promenade/Genesis/v1\nmetadata: {name: genesis}\ndata: {}\n---\nschema: pegleg/SoftwareVersions/v1\nmetadata: {name: versions}\ndata: {}\n---\nschema: armada/Charts/v1\nmetadata: {name: chart}\ndata: {}\n---\nschema: deckhand/DataSchema/v1\nmetadata: {name: promenade/Own/v1}\ndata: {type: object}\n---\nschema: promenade/Own/v1\nmetadata: {name: own}\ndata: {}\n",
            )],
            arguments: NONE,
            found: &[],
            says: "is valid",
        },
    ]);
}

#[test]
fn maps_that_drydock_leaves_open_are_open() {
    run(&[
        Row {
            what: "interfaces, storage and addresses",
            edits: &[
                (
                    "profiles.yaml",
                    "      slaves: [eno1]\n",
                    "      slaves: [eno1]\n      labels: {noconfig: enabled}\n      sriov: {vf_count: 4, trustmode: true}\n",
                ),
                (
                    "profiles.yaml",
                    "        labels: {bootdrive: \"true\"}\n",
                    "        labels: {bootdrive: \"true\"}\n        media: ssd\n",
                ),
                (
                    "profiles.yaml",
                    "            filesystem: {mountpoint: /, fstype: ext4}",
                    "            filesystem: {mountpoint: /, fstype: ext4, inodes: 7}",
                ),
                (
                    "profiles.yaml",
                    "  storage:\n",
                    "  storage:\n    raid: {}\n",
                ),
                (
                    "nodes.yaml",
                    "    - {network: pxe, address: 10.40.0.11}",
                    "    - {network: pxe, address: 10.40.0.11, gateway: none}",
                ),
            ],
            arguments: NONE,
            found: &[
                "warning schema-unknown-field nodes.yaml:10",
                "warning schema-unknown-field profiles.yaml:28",
                "warning schema-unknown-field profiles.yaml:29",
                "warning schema-unknown-field profiles.yaml:32",
                "warning schema-unknown-field profiles.yaml:36",
                "warning schema-unknown-field profiles.yaml:44",
            ],
            says: "did you mean `trustedmode`?",
        },
        Row {
            what: "virtual functions that are trusted",
            edits: &[(
                "profiles.yaml",
                "      slaves: [eno1]\n",
                "      slaves: [eno1]\n      sriov: {vf_count: 4, trustedmode: true}\n",
            )],
            arguments: NONE,
            found: &[],
            says: "is valid",
        },
        Row {
            what: "a field of a closed map",
            edits: &[(
                "profiles.yaml",
                "    kernel: generic",
                "    kernal: generic",
            )],
            arguments: NONE,
            found: &["error schema-unknown-field profiles.yaml:22"],
            says: "did you mean `kernel`?",
        },
        Row {
            what: "packages as a map and as text",
            edits: &[(
                "more.yaml",
                "",
                "---\nschema: drydock/BootAction/v1\nmetadata: {name: packages}\ndata:\n  node_filter: {filter_set_type: union, filter_set: [{filter_type: union, node_tags: [worker]}]}\n  assets:\n    - {type: pkg_list, data: {ceph: 10.2-1, vim: null}}\n    - {type: pkg_list, data: \"ceph: 10.2-1\"}\n    - {type: pkg_list, data: {ceph: a/b}}\n",
            )],
            arguments: NONE,
            found: &["error rule-package-list more.yaml:9"],
            says: "the version of `ceph`",
        },
    ]);
}

#[test]
fn only_what_a_machine_uses_has_to_be_whole() {
    const SPARE: &str = "---\nschema: drydock/HostProfile/v1\nmetadata: {name: spare}\ndata:\n  host_profile: gone\n  hardware_profile: lost\n  interfaces: {eno1: {device_link: nowhere, networks: [none]}}\n---\nschema: drydock/NetworkLink/v1\nmetadata: {name: unused}\ndata: {allowed_networks: [none]}\n";
    run(&[
        Row {
            what: "a profile and a link that nothing uses",
            edits: &[("spare.yaml", "", SPARE)],
            arguments: NONE,
            found: &[
                "warning reference-host-profile spare.yaml:5",
                "warning reference-hardware-profile spare.yaml:6",
                "warning reference-network-link spare.yaml:7",
                "warning reference-network spare.yaml:7",
                "error rule-trunking spare.yaml:9",
                "warning reference-network spare.yaml:11",
            ],
            says: "",
        },
        Row {
            what: "the same profile in use, by way of another",
            edits: &[
                ("spare.yaml", "", SPARE),
                (
                    "spare.yaml",
                    "data: {allowed_networks: [none]}",
                    "data: {trunking: {mode: 802.1q}, allowed_networks: [none]}",
                ),
                (
                    "profiles.yaml",
                    "  hardware_profile: small-server",
                    "  host_profile: spare\n  hardware_profile: small-server",
                ),
            ],
            arguments: NONE,
            found: &[
                "error reference-host-profile spare.yaml:5",
                "error reference-hardware-profile spare.yaml:6",
                "error reference-network-link spare.yaml:7",
                "error reference-network spare.yaml:7",
                "error rule-network-not-on-link spare.yaml:7",
                "warning reference-network spare.yaml:11",
            ],
            says: "",
        },
        Row {
            what: "a primary network that is not there",
            edits: &[(
                "profiles.yaml",
                "primary_network: oam",
                "primary_network: oan",
            )],
            arguments: NONE,
            found: &["warning reference-network profiles.yaml:19"],
            says: "the domain of the machines is `local`",
        },
    ]);
}

#[test]
fn keys_that_are_twice_in_a_map_are_accepted_where_that_is_asked_for() {
    const TWICE: Edit = (
        "profiles.yaml",
        "    kernel: generic",
        "    kernel: old\n    kernel: generic",
    );
    run(&[
        Row {
            what: "nothing accepts them",
            edits: &[TWICE],
            arguments: NONE,
            found: &["error yaml-duplicate-key profiles.yaml:23"],
            says: "first written here",
        },
        Row {
            what: "a flag does",
            edits: &[TWICE],
            arguments: &["--allow-duplicate-keys"],
            found: &["warning yaml-duplicate-key profiles.yaml:23"],
            says: "is valid",
        },
        Row {
            what: "the policy does",
            edits: &[
                TWICE,
                (
                    "policy.yaml",
                    "",
                    "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {allow_duplicate_keys: true}\n",
                ),
            ],
            arguments: NONE,
            found: &["warning yaml-duplicate-key profiles.yaml:23"],
            says: "is valid",
        },
    ]);
    let fixture = example("edge");
    edit(&fixture, &[TWICE]);
    let rendered = fixture.run(&["render", "--allow-duplicate-keys"]).with(0);
    assert!(rendered.stdout.contains("kernel: generic"), "{rendered:?}");
    assert!(!rendered.stdout.contains("kernel: old"));
}

#[test]
fn networks_and_partitions_are_held_to_drydocks_rules_and_their_own() {
    run(&[
        Row {
            what: "ranges that overlap on one link",
            edits: &[("networks.yaml", "cidr: 10.40.1.0/24", "cidr: 10.40.0.0/23")],
            arguments: NONE,
            found: &["error rule-cidr-overlap networks.yaml:15"],
            says: "the range of network `pxe` overlaps that of network `oam`",
        },
        Row {
            what: "networks without a link",
            edits: &[("profiles.yaml", "      device_link: uplink\n", "")],
            arguments: NONE,
            found: &["error rule-network-not-on-link profiles.yaml:27"],
            says: "no `device_link`",
        },
        Row {
            what: "a root partition in percent",
            edits: &[("profiles.yaml", "size: \">40g\"", "size: 60%")],
            arguments: NONE,
            found: &["error rule-root-size profiles.yaml:39"],
            says: "must be in bytes",
        },
        Row {
            what: "the permissions of a file",
            edits: &[(
                "more.yaml",
                "",
                "---\nschema: armada/Chart/v1\nmetadata: {name: chart}\ndata: {mode: 0644}\n",
            )],
            arguments: NONE,
            found: &["warning yaml-1.2-differs more.yaml:4"],
            says: "write `420`, or put it in quotes where it is a name\n",
        },
        Row {
            what: "a DataSchema that is a text",
            edits: &[(
                "more.yaml",
                "",
                "---\nschema: deckhand/DataSchema/v1\nmetadata: {name: example/Kind/v1}\ndata: |\n  type: object\n---\nschema: example/Kind/v1\nmetadata: {name: x}\ndata: 7\n",
            )],
            arguments: NONE,
            found: &["warning schema-unused more.yaml:5"],
            says: "is valid",
        },
    ]);
}

#[test]
fn a_type_that_is_not_there_is_one_error_at_its_line() {
    let fixture = example("multi-site");
    let sites = std::fs::read_dir(fixture.checkout.path().join("site")).unwrap();
    let mut sites: Vec<String> = sites
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    sites.sort();
    let path = format!("site/{}/site-definition.yaml", sites[0]);
    let text = fixture.read(&path);
    let number = text
        .lines()
        .position(|line| line.contains("site_type:"))
        .unwrap();
    let line = text.lines().nth(number).unwrap().to_owned();
    fixture.edit(&path, &line, &format!("{line}x"));
    let problems = found(&fixture, &["--site", &sites[0]]);
    assert_eq!(
        problems,
        [format!("error reference-site-type {path}:{}", number + 1)]
    );
    let told = fixture.run(&["validate", "--site", &sites[0]]).with(1);
    assert!(
        format!("{}{}", told.stdout, told.stderr).contains("did you mean"),
        "{told:?}"
    );
    // What is missing may be in another repository.
    fixture.checkout.write(
        &path,
        format!(
            "{}\n  repositories:\n    elsewhere: {{revision: main}}\n",
            text.trim_end()
        ),
    );
    std::fs::remove_dir_all(fixture.checkout.path().join("global")).unwrap();
    let problems = found(&fixture, &["--site", &sites[0]]);
    let lines = text.trim_end().lines().count();
    assert_eq!(
        problems,
        [format!("error reference-repository {path}:{}", lines + 2)]
    );
}

#[test]
fn files_of_kustomize_are_one_error() {
    let fixture = example("edge");
    for number in 0..20 {
        let path = format!("base/{number}.yaml");
        fixture
            .checkout
            .write(&path, "apiVersion: v1\nkind: ConfigMap\n");
    }
    fixture
        .checkout
        .write("base/kustomization.yaml", "resources: [1.yaml]\n");
    assert_eq!(
        found(&fixture, NONE),
        ["error file-other-tool base/kustomization.yaml:null"]
    );
}

#[test]
fn a_folder_that_a_link_leads_to_again_is_read_once() {
    let fixture = example("edge");
    std::fs::create_dir(fixture.checkout.path().join("more")).unwrap();
    fixture.checkout.write(
        "more/chart.yaml",
        "---\nschema: armada/Chart/v1\nmetadata: {name: chart}\ndata: {}\n",
    );
    fixture.checkout.link("a-link", "more");
    fixture.checkout.link("z-link", "more");
    fixture.checkout.commit("Linked");
    assert_eq!(found(&fixture, NONE), NONE);
    assert_eq!(found(&fixture, &["--rev", "HEAD"]), NONE);
}

#[test]
fn an_error_in_a_value_that_was_substituted_names_both_places() {
    let fixture = example("edge");
    edit(
        &fixture,
        &[(
            "more.yaml",
            "",
            "---\nschema: armada/Chart/v1\nmetadata: {name: chart}\ndata: {image: 7}\n---\nschema: drydock/HostProfile/v1\nmetadata:\n  name: taken\n  substitutions:\n  - src: {schema: armada/Chart/v1, name: chart, path: .image}\n    dest: {path: .platform.kernel_params}\ndata: {hardware_profile: small-server}\n",
        )],
    );
    fixture.checkout.commit("The site");
    let told = fixture.run(&["validate"]).with(1);
    let told = format!("{}{}", told.stdout, told.stderr);
    assert!(
        told.contains("`data.platform.kernel_params` must be a map"),
        "{told}"
    );
    assert!(told.contains("--> more.yaml:4:"), "{told}");
    assert!(told.contains("more.yaml:8:"), "{told}");
    assert!(
        told.contains("it ends in `drydock/HostProfile/v1"),
        "{told}"
    );
}
