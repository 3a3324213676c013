//! The schemas that trueup has itself, as they lie in `schemas/`.
//!
//! One for each kind of document that trueup acts on, describing its `data`; `document.json` is for
//! editors, and names them all.

use super::super::kind;

/// `schema` of a document, and the text of the JSON Schema (2020-12) for its data.
pub(super) const OWN: [(&str, &str); 22] = [
    (
        kind::NODE,
        include_str!("../../../schemas/drydock.BaremetalNode.v1.json"),
    ),
    (
        kind::HOST_PROFILE,
        include_str!("../../../schemas/drydock.HostProfile.v1.json"),
    ),
    (
        kind::HARDWARE_PROFILE,
        include_str!("../../../schemas/drydock.HardwareProfile.v1.json"),
    ),
    (
        kind::RACK,
        include_str!("../../../schemas/drydock.Rack.v1.json"),
    ),
    (
        kind::NETWORK,
        include_str!("../../../schemas/drydock.Network.v1.json"),
    ),
    (
        kind::NETWORK_LINK,
        include_str!("../../../schemas/drydock.NetworkLink.v1.json"),
    ),
    (
        kind::REGION,
        include_str!("../../../schemas/drydock.Region.v1.json"),
    ),
    (
        kind::BOOT_ACTION,
        include_str!("../../../schemas/drydock.BootAction.v1.json"),
    ),
    (
        kind::STRATEGY,
        include_str!("../../../schemas/shipyard.DeploymentStrategy.v1.json"),
    ),
    (
        kind::CONFIGURATION,
        include_str!("../../../schemas/shipyard.DeploymentConfiguration.v1.json"),
    ),
    (
        kind::ETCD_CLUSTERS,
        include_str!("../../../schemas/promenade.EtcdClusters.v1.json"),
    ),
    (
        kind::RETIREMENT,
        include_str!("../../../schemas/trueup.NodeRetirement.v1.json"),
    ),
    (
        kind::ADOPTION,
        include_str!("../../../schemas/trueup.Adoption.v1.json"),
    ),
    (
        kind::ROLLOUT,
        include_str!("../../../schemas/trueup.Rollout.v1.json"),
    ),
    (
        kind::CLEANING,
        include_str!("../../../schemas/trueup.CleaningPolicy.v1.json"),
    ),
    (
        kind::HARDWARE,
        include_str!("../../../schemas/trueup.Hardware.v1.json"),
    ),
    (
        kind::POLICY,
        include_str!("../../../schemas/trueup.Policy.v1.json"),
    ),
    (
        kind::BACKENDS,
        include_str!("../../../schemas/trueup.Backends.v1.json"),
    ),
    (
        kind::SITE_DEFINITION,
        include_str!("../../../schemas/pegleg.SiteDefinition.v1.json"),
    ),
    (
        kind::LAYERING_POLICY,
        include_str!("../../../schemas/deckhand.LayeringPolicy.v1.json"),
    ),
    (
        kind::DATA_SCHEMA,
        include_str!("../../../schemas/deckhand.DataSchema.v1.json"),
    ),
    (
        kind::VALIDATION_POLICY,
        include_str!("../../../schemas/deckhand.ValidationPolicy.v1.json"),
    ),
];

/// Deckhand's kinds whose data is one text.
pub(super) const TEXTS: [&str; 7] = [
    "deckhand/Certificate/v1",
    "deckhand/CertificateAuthority/v1",
    "deckhand/CertificateAuthorityKey/v1",
    "deckhand/CertificateKey/v1",
    "deckhand/Passphrase/v1",
    "deckhand/PrivateKey/v1",
    "deckhand/PublicKey/v1",
];

/// The schema of a saved plan.
pub(super) const PLAN: &str = include_str!("../../../schemas/plan.json");

/// The schema of the input of rules.
pub(super) const POLICY_INPUT: &str = include_str!("../../../schemas/policy-input.json");

/// The schema of the parts of a plan.
pub(super) const PARTS: &str = include_str!("../../../schemas/parts.json");

/// The schema of an explanation.
pub(super) const EXPLANATION: &str = include_str!("../../../schemas/explanation.json");

/// The schemas of what commands print as JSON and of what a run sends to webhooks, by their file.
pub(super) const OUTPUTS: [(&str, &str); 7] = [
    ("diff.json", include_str!("../../../schemas/diff.json")),
    ("log.json", include_str!("../../../schemas/log.json")),
    ("nodes.json", include_str!("../../../schemas/nodes.json")),
    (
        "notification.json",
        include_str!("../../../schemas/notification.json"),
    ),
    (
        "rollout.json",
        include_str!("../../../schemas/rollout.json"),
    ),
    ("show.json", include_str!("../../../schemas/show.json")),
    ("status.json", include_str!("../../../schemas/status.json")),
];

/// The schema of an editor's whole document.
pub(super) const DOCUMENT: &str = include_str!("../../../schemas/document.json");
