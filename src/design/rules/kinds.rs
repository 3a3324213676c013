//! Kinds of documents in the namespaces of trueup and of the systems whose documents it reads.
//!
//! A slip there would be read as a document that is not trueup's business: a machine of a mistyped kind would
//! have left the design, and a policy of one would protect nothing.

use super::super::read::Findings;
use super::super::schema::own_kinds;
use super::{Catalog, kind};
use crate::diagnostic::Diagnostic;

/// Namespaces in which a kind is known, declared by the site, or a mistake.
const RESERVED: [&str; 6] = [
    "deckhand",
    "drydock",
    "pegleg",
    "promenade",
    "shipyard",
    "trueup",
];

/// Kinds of those systems that trueup has no schema for.
const OTHERS: [&str; 22] = [
    "pegleg/AccountCatalogue/v1",
    "pegleg/AppArmorProfile/v1",
    "pegleg/CommonAddresses/v1",
    "pegleg/CommonSoftwareConfig/v1",
    "pegleg/DeploymentData/v1",
    "pegleg/EndpointCatalogue/v1",
    "pegleg/NetworkSettings/v1",
    "pegleg/PKICatalog/v1",
    "pegleg/PassphraseCatalog/v1",
    "pegleg/PeglegManagedDocument/v1",
    "pegleg/Script/v1",
    "pegleg/SeccompProfile/v1",
    "pegleg/SoftwareVersions/v1",
    "promenade/Docker/v1",
    "promenade/EncryptionPolicy/v1",
    "promenade/Genesis/v1",
    "promenade/HostSystem/v1",
    "promenade/Kubelet/v1",
    "promenade/KubernetesNetwork/v1",
    "promenade/KubernetesNode/v1",
    "promenade/Masters/v1",
    "promenade/PKICatalog/v1",
];

pub(super) fn check(catalog: &Catalog<'_>, findings: &mut Findings) {
    for schema in catalog.schemas() {
        let namespace = schema.split('/').next().unwrap_or_default();
        let reserved = RESERVED
            .iter()
            .find(|each| each.eq_ignore_ascii_case(namespace));
        let Some(reserved) = reserved else {
            continue;
        };
        let is_known = own_kinds().chain(OTHERS).any(|known| known == schema);
        if is_known || catalog.get(kind::DATA_SCHEMA, schema).is_some() {
            continue;
        }
        let message = format!("`{schema}` is not a kind of document of {reserved}");
        // The same kind of another namespace is meant before one whose name differs.
        let name = &schema[namespace.len()..];
        let mut kinds = own_kinds().chain(OTHERS);
        let of_its_name = kinds.find(|known| {
            let start = known.len().saturating_sub(name.len());
            !name.is_empty() && known.get(start..) == Some(name)
        });
        let declare = format!("declare a kind of your own by a DataSchema of the name `{schema}`");
        for (document, _) in catalog.of(schema) {
            let finding =
                Diagnostic::error("rule-unknown-kind", document.schema_mark, message.clone());
            let finding = match of_its_name {
                Some(known) => finding.hint(format!("did you mean `{known}`?")),
                None => finding.did_you_mean(schema, own_kinds().chain(OTHERS)),
            };
            findings.push(match finding.hint {
                Some(_) => finding,
                None => finding.hint(declare.clone()),
            });
        }
    }
}
