//! The start and the course of chains, and the fields that are shown.

use std::sync::Arc;

use super::{document, documents_of};
use crate::design::{Documented, NodeName, Section, SiteName, build};
use crate::diagnostic::Sources;
use crate::diff::{NodeReasons, Reasons, Revision};
use crate::document::Document;
use crate::render::{RenderOptions, Rendering, render};

const NODE: &str = "drydock/BaremetalNode/v1";
const PROFILE: &str = "drydock/HostProfile/v1";
const HARDWARE: &str = "drydock/HardwareProfile/v1";
const NETWORK: &str = "drydock/Network/v1";
const ACTION: &str = "drydock/BootAction/v1";

struct Built {
    rendering: Rendering,
    design: Documented,
}

impl Built {
    fn revision(&self) -> Revision<'_> {
        Revision {
            rendering: &self.rendering,
            design: &self.design,
        }
    }
}

fn built(documents: &[Arc<Document>]) -> Built {
    let layers = ["global", "site"].into_iter().map(Arc::from).collect();
    let options = RenderOptions {
        default_layers: Some(layers),
        ..RenderOptions::default()
    };
    let rendering = render(documents, &options);
    assert!(
        !rendering.diagnostics.has_errors(),
        "{:#?}",
        rendering.diagnostics
    );
    let inputs = rendering.documents.iter();
    let inputs: Vec<_> = inputs
        .map(|rendered| (&*rendered.document, &rendered.data))
        .collect();
    let (design, _) = build(SiteName::from("test"), &inputs);
    Built { rendering, design }
}

/// Each file with what is changed in it. An unchanged file is loaded once, as the loader does it.
struct Files(Vec<(&'static str, String)>);

impl Files {
    fn site() -> Self {
        let password = document(
            "deckhand/Passphrase/v1",
            "bmc",
            ", storagePolicy: encrypted",
            "hunter2",
        );
        let versions = document(
            "example/Versions/v1",
            "versions",
            "",
            "image: xenial\nkernel: ga",
        );
        let base = document(
            PROFILE,
            "base",
            ", layeringDefinition: {layer: global, abstract: true}, labels: {is: base}",
            "storage: {physical_devices: {sda: {labels: {bootdrive: 'true'}}}}\nhardware_profile: old",
        );
        let defaults = document(
            PROFILE,
            "defaults",
            ", layeringDefinition: {layer: site, parentSelector: {is: base}, actions: [{method: merge, path: .}]}, substitutions: [{src: {schema: example/Versions/v1, name: versions, path: .image}, dest: {path: .platform.image}}, {src: {schema: deckhand/Passphrase/v1, name: bmc, path: .}, dest: {path: .oob.credential}}]",
            "oob: {type: ipmi, account: root}\nmetadata: {owner_data: {role: worker}}",
        );
        let compute = document(
            PROFILE,
            "compute",
            "",
            "host_profile: defaults\ninterfaces: {bond0: {networks: [oam]}}",
        );
        let network = document(
            NETWORK,
            "oam",
            "",
            "cidr: 10.0.0.0/24\nmtu: 1500\nvlan: '7'",
        );
        let hardware = document(HARDWARE, "old", "", "vendor: Dell\nbios_version: '2'")
            + &document(HARDWARE, "new", "", "vendor: HPE\nbios_version: '2'");
        let actions = document(
            ACTION,
            "special",
            "",
            "node_filter: {filter_set_type: union, filter_set: [{filter_type: union, node_tags: [special]}]}\nassets: [{path: /etc/special, type: file}]",
        );
        let node = document(
            NODE,
            "n1",
            "",
            "host_profile: compute\naddressing: [{network: oam, address: 10.0.0.1}]\nmetadata: {tags: [plain]}",
        );
        Self(vec![
            ("secrets.yaml", password),
            ("versions.yaml", versions),
            ("base.yaml", base),
            ("profiles.yaml", defaults + &compute),
            ("networks.yaml", network),
            ("hardware.yaml", hardware),
            ("actions.yaml", actions),
            ("node.yaml", node),
        ])
    }
}

/// Replaces `from` by `to` in one file, and tells why the node changes.
fn reasons(file: &str, from: &str, to: &str) -> Vec<String> {
    let mut sources = Sources::new();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (path, text) in Files::site().0 {
        let documents = documents_of(&mut sources, path, &text);
        if path == file {
            assert!(text.contains(from), "{from} is not in {text}");
            let text = text.replace(from, to);
            after.extend(documents_of(&mut sources, path, &text));
        } else {
            after.extend(documents.iter().cloned());
        }
        before.extend(documents);
    }
    told(&sources, &built(&before), &built(&after))
}

fn told(sources: &Sources, before: &Built, after: &Built) -> Vec<String> {
    let reasons = NodeReasons::new(sources, &[before.revision()], after.revision());
    let (old, new) = (&before.design.nodes["n1"], &after.design.nodes["n1"]);
    let sections: Vec<_> = Section::ALL
        .into_iter()
        .filter(|section| old.digests.get(section) != new.digests.get(section))
        .collect();
    let name = NodeName::from("n1");
    let fields = reasons.fields(&name, Some(old), new, &sections);
    assert_eq!(reasons.fields(&name, None, new, &sections), []);
    let line = |field: &crate::diff::FieldChange| {
        let side =
            |text: &Option<Arc<str>>| text.as_ref().map_or("∅".to_owned(), ToString::to_string);
        let links = field.chain.iter().map(|link| {
            let name = link.document.rsplit('/').next().unwrap_or_default();
            format!("{name} {} {}:{}", link.by, link.place.path, link.place.line)
        });
        let links: Vec<_> = links.collect();
        format!(
            "{} {}: {} → {} | {}",
            field.section,
            field.path,
            side(&field.before),
            side(&field.after),
            links.join(" > ")
        )
    };
    fields.iter().map(line).collect()
}

#[test]
fn a_chain_goes_from_the_field_that_was_edited_to_the_node() {
    let table: &[(&str, [&str; 3], &[&str])] = &[
        (
            "the node's own field",
            ["node.yaml", "10.0.0.1", "10.0.0.2"],
            &["network addressing.oam: 10.0.0.1 → 10.0.0.2 | n1 edited node.yaml:6"],
        ),
        (
            "a host profile",
            ["profiles.yaml", "role: worker", "role: master"],
            &[
                "labels metadata.owner_data.role: worker → master | defaults edited profiles.yaml:6 > compute host_profile profiles.yaml:11 > n1 host_profile node.yaml:5",
            ],
        ),
        (
            "what a host profile is layered on",
            ["base.yaml", "sda", "sdb"],
            &[
                "storage storage.physical_devices.sda: {\"labels\":{\"bootdrive\":\"true\"}} → ∅ | base edited base.yaml:5 > defaults layering profiles.yaml:3 > compute host_profile profiles.yaml:11 > n1 host_profile node.yaml:5",
                "storage storage.physical_devices.sdb: ∅ → {\"labels\":{\"bootdrive\":\"true\"}} | base edited base.yaml:5 > defaults layering profiles.yaml:3 > compute host_profile profiles.yaml:11 > n1 host_profile node.yaml:5",
            ],
        ),
        (
            "a value that is substituted",
            ["versions.yaml", "xenial", "bionic"],
            &[
                "operating-system platform.image: xenial → bionic | versions edited versions.yaml:5 > defaults substitution profiles.yaml:3 > compute host_profile profiles.yaml:11 > n1 host_profile node.yaml:5",
            ],
        ),
        (
            "a secret that is substituted, under the same reference",
            ["secrets.yaml", "hunter2", "hunter3"],
            &[],
        ),
        (
            "a network",
            ["networks.yaml", "1500", "9000"],
            &[
                "network networks.oam.mtu: 1500 → 9000 | oam edited networks.yaml:6 > compute interfaces.bond0.networks profiles.yaml:12 > n1 host_profile node.yaml:5",
            ],
        ),
        (
            "a field that is gone",
            ["networks.yaml", "mtu: 1500", "# none"],
            &[
                "network networks.oam.mtu: 1500 → ∅ | oam edited networks.yaml:6 > compute interfaces.bond0.networks profiles.yaml:12 > n1 host_profile node.yaml:5",
            ],
        ),
        (
            "a substitution that reads elsewhere",
            ["profiles.yaml", "path: .image", "path: .kernel"],
            &[
                "operating-system platform.image: xenial → ga | defaults edited profiles.yaml:3 > compute host_profile profiles.yaml:11 > n1 host_profile node.yaml:5",
            ],
        ),
        (
            "a reference to another document",
            [
                "base.yaml",
                "hardware_profile: old",
                "hardware_profile: new",
            ],
            &[
                "hardware hardware_profile.vendor: Dell → HPE | base edited base.yaml:6 > defaults layering profiles.yaml:3 > compute host_profile profiles.yaml:11 > n1 host_profile node.yaml:5",
            ],
        ),
        (
            "a tag by which a boot action selects",
            ["node.yaml", "tags: [plain]", "tags: [plain, special]"],
            &[
                "boot-actions boot_actions.special: ∅ → {\"assets\":[{\"path\":\"/etc/special\",\"type\":\"file\"}]} | n1 edited node.yaml:7",
                "inventory metadata.tags[1]: ∅ → special | n1 edited node.yaml:7",
            ],
        ),
        (
            "a filter that selects the node",
            ["actions.yaml", "[special]", "[plain]"],
            &[
                "boot-actions boot_actions.special: ∅ → {\"assets\":[{\"path\":\"/etc/special\",\"type\":\"file\"}]} | special edited actions.yaml:5 > special node_filter actions.yaml:5",
            ],
        ),
    ];
    for (what, [file, from, to], expected) in table {
        assert_eq!(reasons(file, from, to), *expected, "{what}");
    }
}

#[test]
fn a_value_that_takes_the_place_of_an_inherited_one_was_edited_where_it_stands() {
    let own = "host_profile: compute\n  platform: {image: focal}";
    let expected = "operating-system platform.image: xenial → focal | n1 edited node.yaml:6";
    assert_eq!(
        reasons("node.yaml", "host_profile: compute", own),
        [expected]
    );
}

#[test]
fn nothing_of_an_encrypted_host_profile_is_shown() {
    let told = reasons(
        "profiles.yaml",
        "{name: compute}\ndata:\n",
        "{name: compute, storagePolicy: encrypted}\ndata:\n  platform: {kernel_params: {token: hunter2}}\n",
    );
    let expected = "operating-system platform: (secret) → (secret) | compute edited profiles.yaml:11 > n1 host_profile node.yaml:5";
    assert_eq!(told, [expected]);
}
