//! Fields in which there may be no secret, since trueup prints or records them, or uses them as a name.
//!
//! Masking is for what only lies beside them. A name of a group, the image of a machine or the reason of a retirement is in plans, reports,
//! records, tags, messages and the names of other systems; a secret there would be out, however well one of these was masked.

use super::catalog::Catalog;
use super::kind;
use super::read::Findings;
use crate::diagnostic::{Diagnostic, has_password, is_credential};
use crate::document::{Node, Value};

/// A field of documents of one kind.
struct Exposed {
    path: &'static [&'static str],
    /// Its name in a message.
    what: &'static str,
    /// Whether there are fields for credentials in it, which nothing shows.
    has_credentials: bool,
}

const fn exposed(path: &'static [&'static str], what: &'static str) -> Exposed {
    Exposed {
        path,
        what,
        has_credentials: false,
    }
}

const fn around_credentials(path: &'static [&'static str], what: &'static str) -> Exposed {
    Exposed {
        path,
        what,
        has_credentials: true,
    }
}

/// The fields of a machine that trueup shows, whether from the machine or its profile.
const OF_MACHINE: &[Exposed] = &[
    exposed(&["host_profile"], "the profile of a node"),
    exposed(&["hardware_profile"], "the hardware profile of a node"),
    exposed(&["primary_network"], "the primary network of a node"),
    exposed(&["platform", "image"], "the image of a node"),
    exposed(&["platform", "kernel"], "the kernel of a node"),
    exposed(&["addressing"], "an address of a node"),
    exposed(&["metadata", "rack"], "the rack of a node"),
    exposed(&["metadata", "tags"], "a tag of a node"),
    exposed(&["metadata", "owner_data"], "a label of a node"),
    exposed(&["metadata", "boot_mac"], "the boot MAC address of a node"),
    around_credentials(&["oob"], "the controller of a node"),
];

/// All such fields, by kind; without fields it is the whole document.
const TABLE: &[(&str, &[Exposed])] = &[
    (kind::NODE, OF_MACHINE),
    (kind::HOST_PROFILE, OF_MACHINE),
    (
        kind::STRATEGY,
        &[exposed(&[], "part of a deployment strategy")],
    ),
    (
        kind::CONFIGURATION,
        &[exposed(
            &["physical_provisioner", "deployment_strategy"],
            "the name of a deployment strategy",
        )],
    ),
    (
        kind::ETCD_CLUSTERS,
        &[exposed(&[], "part of an etcd cluster")],
    ),
    (kind::RETIREMENT, &[exposed(&[], "part of a retirement")]),
    (kind::ADOPTION, &[exposed(&[], "part of an adoption")]),
    (kind::ROLLOUT, &[exposed(&[], "part of a rollout")]),
    (kind::CLEANING, &[exposed(&[], "part of a cleaning policy")]),
    (
        kind::HARDWARE,
        &[exposed(&[], "part of a Hardware document")],
    ),
    (kind::POLICY, &[exposed(&[], "part of a policy")]),
    (
        kind::BACKENDS,
        &[around_credentials(&[], "a setting of a backend")],
    ),
];

/// Fields beside those of [`is_credential`] that nothing shows.
const FOR_SECRETS: [&str; 6] = [
    "account",
    "driver_info",
    "libvirt_uri",
    "network_data",
    "user_data",
    "username",
];

/// Reports every secret in such a field, each place once.
pub(super) fn check(catalog: &Catalog<'_>, findings: &mut Findings) {
    for (kind, fields) in TABLE {
        for (_, data) in catalog.of(kind) {
            for field in *fields {
                if let Some(node) = secret_at(data, field) {
                    let is_written = node.as_str().is_some_and(has_password);
                    let (message, hint) = match is_written {
                        true => (
                            "an address does not carry a password".to_owned(),
                            "plans and reports show addresses in plain text; accounts have fields of their own, which nothing shows",
                        ),
                        false => (
                            format!("a secret cannot be {}", field.what),
                            "clusters, plans and reports show it in plain text; take it from a document that is not encrypted",
                        ),
                    };
                    findings.push(Diagnostic::error("rule-secret", node.mark, message).hint(hint));
                }
            }
        }
    }
}

/// The first secret in a field; what is within a secret is one.
fn secret_at<'n>(data: &'n Node, field: &Exposed) -> Option<&'n Node> {
    let mut node = data;
    let mut is_within = false;
    for key in field.path {
        is_within |= node.is_secret();
        node = node.get(key)?;
    }
    match is_within && !node.is_null() {
        true => Some(node),
        false => secret_in(node, field.has_credentials),
    }
}

/// The first secret in a value.
fn secret_in(node: &Node, has_credentials: bool) -> Option<&Node> {
    if node.is_secret() || node.as_str().is_some_and(has_password) {
        return Some(node);
    }
    match &node.value {
        Value::Map(map) => map.iter().find_map(|(key, field)| {
            let is_for_one = has_credentials && is_for_secret(&key.text, &field.node);
            (!is_for_one).then(|| secret_in(&field.node, has_credentials))?
        }),
        Value::List(list) => list
            .iter()
            .find_map(|below| secret_in(below, has_credentials)),
        _ => None,
    }
}

/// Whether a field is there for a secret. A reference to one (`{file: PATH}`) is none, and is printed.
fn is_for_secret(key: &str, value: &Node) -> bool {
    match value.value {
        Value::Map(_) => key == "driver_info",
        _ => is_credential(key) || FOR_SECRETS.contains(&key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_found_in_the_account_of_an_address_only() {
        for text in [
            "https://me:pw@h.example/x",
            "redfish://:pw@10.0.0.1",
            "a b://c:d@e",
        ] {
            assert!(has_password(text), "{text}");
        }
        for text in [
            "https://h.example:8443/x",
            "https://me@h.example/x",
            "https://h.example/image:1@sha256:0",
            "https://h.example?to=me:pw@here",
            "me:pw@h.example",
        ] {
            assert!(!has_password(text), "{text}");
        }
    }
}
