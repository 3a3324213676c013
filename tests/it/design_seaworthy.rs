//! The design of a real site, rendered from its documents.

use trueup::design::schema::validate;
use trueup::design::{Documented, SiteName, build, check};
use trueup::diagnostic::{Diagnostics, Sources};
use trueup::document::{LoadSettings, load};
use trueup::render::{RenderOptions, Rendering, render};

use crate::shared::{shared, yaml_files};

fn rendered(sources: &mut Sources) -> Option<Rendering> {
    let root = shared("data/treasuremap-v1.9")?;
    let settings = LoadSettings::default();
    let mut documents = Vec::new();
    for folder in ["global", "type/foundry", "site/seaworthy"] {
        for path in yaml_files(&root.join(folder)) {
            if path.ends_with("site-definition.yaml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let source = sources.add(path.to_string_lossy(), &*text);
            documents.extend(load(source, &text, &settings).documents);
        }
    }
    Some(render(&documents, &RenderOptions::default()))
}

fn seaworthy() -> Option<(Documented, Diagnostics, Sources)> {
    let mut sources = Sources::new();
    let rendering = rendered(&mut sources)?;
    assert!(
        !rendering.diagnostics.has_errors(),
        "{:#?}",
        rendering.diagnostics
    );
    let inputs: Vec<_> = rendering
        .documents
        .iter()
        .map(|rendered| (&*rendered.document, &rendered.data))
        .collect();
    let (design, diagnostics) = check(SiteName::from("seaworthy"), &inputs, 2);
    Some((design, diagnostics, sources))
}

#[test]
fn a_real_site_becomes_a_design_without_errors() {
    let Some((design, diagnostics, sources)) = seaworthy() else {
        return;
    };
    let errors: Vec<_> = diagnostics
        .iter()
        .map(|each| {
            (
                each.code,
                &each.message,
                each.mark.map(|mark| sources.place(mark).to_string()),
            )
        })
        .collect();
    assert!(!diagnostics.has_errors(), "{errors:#?}");
    let warnings: Vec<_> = diagnostics.iter().map(|each| &*each.message).collect();
    // A schema of this site refers to definitions that were never written.
    assert!(
        warnings
            .iter()
            .all(|message| message.ends_with("is not in this schema")),
        "{errors:#?}"
    );

    let names: Vec<_> = design.nodes.keys().map(|name| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "cab23-r720-12",
            "cab23-r720-13",
            "cab23-r720-14",
            "cab23-r720-16",
            "cab23-r720-17"
        ]
    );
    let groups: Vec<_> = design
        .guards
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.nodes(&design).len()))
        .collect();
    assert_eq!(groups, [("masters", 2), ("workers", 3)]);
    assert_eq!(design.guards.configuration.join_wait, 0);

    let node = &design.nodes["cab23-r720-14"];
    assert_eq!(node.hardware_profile.as_deref(), Some("dell_r720"));
    assert_eq!(node.out_of_band.address.as_deref(), Some("10.23.104.14"));
    assert_eq!(
        node.addresses.get("calico").map(|address| &**address),
        Some("10.23.22.14")
    );
    assert_eq!(*node.disks, ["bootdisk".into(), "ephemeral".into()]);
    assert_eq!(node.labels["openvswitch"], "enabled".into());
    assert_eq!(node.labels.len(), 8);
}

/// How long things take; run with `--release -- --ignored --nocapture how_long`.
#[test]
#[ignore = "measures"]
fn how_long_it_takes() {
    fn measure<T>(what: &str, mut work: impl FnMut() -> T) {
        let mut best = f64::MAX;
        for _ in 0..7 {
            let start = std::time::Instant::now();
            let _result = std::hint::black_box(work());
            best = best.min(start.elapsed().as_secs_f64() * 1000.0);
        }
        eprintln!("{what}: {best:.1} ms");
    }
    let mut sources = Sources::new();
    if let Some(rendering) = rendered(&mut sources) {
        let inputs: Vec<_> = rendering
            .documents
            .iter()
            .map(|rendered| (&*rendered.document, &rendered.data))
            .collect();
        measure("seaworthy, schemas", || validate(&inputs, 1));
        measure("seaworthy, design", || build("s".into(), &inputs));
        measure("seaworthy, all", || check("s".into(), &inputs, 1));
        measure("seaworthy, all on two threads", || {
            check("s".into(), &inputs, 2)
        });
    }
    let text = large_site(10_000, 10, 1_000);
    let mut sources = Sources::new();
    let source = sources.add("large.yaml", &*text);
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let file = load(source, &text, &settings);
    let inputs: Vec<_> = file
        .documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    measure("10,000 nodes, schemas", || validate(&inputs, 1));
    measure("10,000 nodes, design", || build("s".into(), &inputs));
    measure("10,000 nodes, all on two threads", || {
        check("s".into(), &inputs, 2)
    });
    let (design, diagnostics) = check("s".into(), &inputs, 2);
    assert_eq!(
        diagnostics.counts(),
        (0, 0),
        "{:#?}",
        diagnostics.iter().next()
    );
    measure("1,000 groups of 10,000 nodes", || {
        design
            .guards
            .groups
            .iter()
            .map(|group| group.nodes(&design).len())
            .sum::<usize>()
    });
}

/// Nodes of some host profiles in some groups, each of one rack and tag.
fn large_site(nodes: usize, profiles: usize, groups: usize) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let mut add = |schema: &str, name: &str, data: &str| {
        let _ = write!(
            text,
            "---\nschema: {schema}\nmetadata: {{name: {name}}}\ndata:\n{data}"
        );
    };
    let labels: String = (0..60)
        .map(|at| format!("    label-{at}: enabled\n"))
        .collect();
    add("drydock/Network/v1", "oam", "  cidr: 10.0.0.0/16\n");
    add("drydock/Network/v1", "oob", "  cidr: 10.1.0.0/16\n");
    add(
        "drydock/NetworkLink/v1",
        "bond0",
        "  allowed_networks: [oam]\n  trunking: {mode: disabled, default_network: oam}\n",
    );
    add("drydock/HardwareProfile/v1", "hw", "  vendor: Dell\n");
    for at in 0..profiles {
        add(
            "drydock/HostProfile/v1",
            &format!("p{at}"),
            &format!(
                "  hardware_profile: hw\n  oob: {{type: ipmi, network: oob, account: root, credential: x}}\n  interfaces: {{bond0: {{device_link: bond0, networks: [oam]}}}}\n  storage: {{physical_devices: {{sda: {{partitions: [{{name: root, size: 30g, filesystem: {{mountpoint: /}}}}]}}}}}}\n  platform: {{image: xenial, kernel: ga}}\n  metadata:\n   owner_data:\n{labels}"
            ),
        );
    }
    for at in 0..nodes {
        let (high, low) = (at / 250, at % 250 + 1);
        add(
            "drydock/BaremetalNode/v1",
            &format!("n{at:05}"),
            &format!(
                "  host_profile: p{}\n  addressing:\n  - {{network: oob, address: 10.1.{high}.{low}}}\n  - {{network: oam, address: 10.0.{high}.{low}}}\n  metadata: {{rack: r{}, tags: [compute]}}\n",
                at % profiles,
                at % groups
            ),
        );
    }
    let mut list = String::from("  groups:\n");
    for at in 0..groups {
        let _ = writeln!(
            list,
            "  - {{name: g{at}, critical: false, depends_on: [], selectors: [{{rack_names: [r{at}], node_tags: [compute]}}]}}"
        );
    }
    add(
        "shipyard/DeploymentStrategy/v1",
        "deployment-strategy",
        &list,
    );
    text
}
