//! The design of a real site, rendered from its documents.

use trueup::design::{Design, SiteName, check};
use trueup::diagnostic::{Diagnostics, Sources};
use trueup::document::{LoadSettings, load};
use trueup::render::{Options, Rendering, render};

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
    Some(render(&documents, &Options::default()))
}

fn seaworthy() -> Option<(Design, Diagnostics, Sources)> {
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
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.nodes(&design).len()))
        .collect();
    assert_eq!(groups, [("masters", 2), ("workers", 3)]);
    assert_eq!(design.configuration.join_wait, 0);

    let node = &design.nodes["cab23-r720-14"];
    assert_eq!(node.hardware_profile.as_deref(), Some("dell_r720"));
    assert_eq!(node.out_of_band.address.as_deref(), Some("10.23.104.14"));
    assert_eq!(node.addresses["calico"], "10.23.22.14".into());
    assert_eq!(*node.disks, ["bootdisk".into(), "ephemeral".into()]);
    assert_eq!(node.labels["openvswitch"], "enabled".into());
    assert_eq!(node.labels.len(), 8);
}
