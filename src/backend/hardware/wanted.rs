//! The images that the documents of a site name for its controllers, and the addresses that fetch them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::ranges::address_ranges;
use super::redfish::boot_images;
use crate::backend::{Error, controller_address};
use crate::design::{BackendKind, ImageTerms, NodeName};
use crate::guard::Guarded;

/// An image that the documents name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedImage {
    /// The first node that it is for.
    pub node: NodeName,
    /// How many it is for.
    pub nodes: usize,
    /// Its SHA-256, in lower case.
    pub sha256: Option<Arc<str>>,
    /// Its size in bytes.
    pub size: Option<u64>,
}

/// The images that the documents of a site name over HTTP, and who fetches them.
#[derive(Clone, Debug, Default)]
pub struct WantedImages {
    /// By their addresses.
    pub images: BTreeMap<Arc<str>, WantedImage>,
    /// The addresses of the controllers, and of machines that boot an image by HTTP themselves.
    pub clients: Vec<IpNet>,
}

impl WantedImages {
    /// Those of a site.
    ///
    /// # Errors
    ///
    /// The settings of a backend cannot be read, with their place.
    pub fn of(site: &Guarded) -> Result<Self, Error> {
        let guards = site.guards();
        let backends = &guards.backends;
        let overrides = backends.overrides.iter().map(|(_, backend)| backend);
        let mut wanted = Self::default();
        for backend in std::iter::once(&backends.hardware).chain(overrides) {
            wanted.clients.extend(address_ranges(backend)?);
            let boots = match backend.kind {
                BackendKind::Redfish => Some(boot_images(backend)?),
                _ => None,
            };
            let own = site.nodes.values();
            for node in own.filter(|node| std::ptr::eq(guards.backend_of(node), backend)) {
                wanted.admits(controller_address(node, backend.kind).as_deref());
                if let Some((url, is_own)) = boots.as_ref().and_then(|boots| boots(node)) {
                    wanted.add(&node.name, ImageTerms::at(url));
                    for address in node.addresses.values().filter(|_| is_own) {
                        wanted.admits(Some(address));
                    }
                }
                for terms in node.firmware_images() {
                    wanted.add(&node.name, terms);
                }
            }
        }
        wanted.clients = IpNet::aggregate(&wanted.clients);
        Ok(wanted)
    }

    fn admits(&mut self, address: Option<&str>) {
        let parsed = address.and_then(|address| address.parse::<IpAddr>().ok());
        let range = parsed.map(|address| IpNet::from(address.to_canonical()));
        self.clients.extend(range);
    }

    fn add(&mut self, node: &NodeName, terms: ImageTerms) {
        if !(terms.url.starts_with("http://") || terms.url.starts_with("https://")) {
            return;
        }
        let image = self.images.entry(terms.url).or_insert_with(|| WantedImage {
            node: node.clone(),
            nodes: 0,
            sha256: None,
            size: None,
        });
        image.nodes += 1;
        image.sha256 = image.sha256.take().or(terms.sha256);
        image.size = image.size.or(terms.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::{document, site};
    use crate::design::kind;

    const BACKENDS: &str = "\
---
schema: trueup/Backends/v1
metadata: {name: backends}
data:
  hardware:
    kind: redfish
    redfish:
      networks: [10.1.0.0/24, bmc.example.org]
      image: https://images.example.org/iso/{node}.iso
      deploy: {port: 22}
  overrides:
  - selector: {node_names: [n3]}
    hardware:
      kind: redfish
      redfish: {image: 'http://images.example.org/all.efi', deploy: {from: uefi-http, port: 22}}
  - selector: {node_names: [n4]}
    hardware: {kind: none}
";

    #[test]
    fn images_are_those_of_machines_and_of_their_firmware_and_controllers_fetch_them() {
        let node = |name: &str, number: u8| {
            let data = format!(
                "oob: {{type: redfish, network: oob}}\naddressing: [{{network: oob, address: 10.2.0.{number}}}, {{network: \
                 oam, address: 10.3.0.{number}}}]"
            );
            document(kind::NODE, name, &data)
        };
        let digest = "ab".repeat(32);
        let hardware = format!(
            "---\nschema: trueup/Hardware/v1\nmetadata: {{name: all}}\ndata: {{mode: report, firmware: {{bios: {{version: \
             '2', image: {{url: 'https://images.example.org/bios.bin', sha256: {digest}, size: 7}}}}, nic: {{version: '1', \
             image: {{url: 'nfs://10.0.0.1/nic.bin'}}}}}}}}\n"
        );
        let nodes = [node("n1", 1), node("n2", 2), node("n3", 3), node("n4", 4)];
        let site = site(&(nodes.concat() + BACKENDS + &hardware));
        let site = Guarded::of_test(&site.design, &site.guards);
        let wanted = WantedImages::of(&site).unwrap();
        let named = |url: &str| wanted.images[url].clone();
        let image = |node: &str, nodes| WantedImage {
            node: NodeName::from(node),
            nodes,
            sha256: None,
            size: None,
        };
        assert_eq!(
            named("https://images.example.org/iso/n1.iso"),
            image("n1", 1)
        );
        assert_eq!(named("http://images.example.org/all.efi"), image("n3", 1));
        let bios = WantedImage {
            sha256: Some(Arc::from(digest)),
            size: Some(7),
            ..image("n1", 4)
        };
        assert_eq!(named("https://images.example.org/bios.bin"), bios);
        assert_eq!(wanted.images.len(), 4, "{:?}", wanted.images);
        let clients: Vec<String> = wanted.clients.iter().map(ToString::to_string).collect();
        // A machine that boots the image itself has an address of its own.
        for client in ["10.1.0.0/24", "10.3.0.3/32"] {
            assert!(clients.iter().any(|each| each == client), "{clients:?}");
        }
        let admits = |address: &str| {
            let address: IpAddr = address.parse().unwrap();
            wanted.clients.iter().any(|range| range.contains(&address))
        };
        assert!(admits("10.2.0.1") && admits("10.2.0.4"));
        assert!(!admits("10.3.0.1") && !admits("10.3.0.4"));
    }
}
