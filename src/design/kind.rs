//! The schemas of the documents that trueup acts on.

pub(crate) const NODE: &str = super::MACHINE;
pub(crate) const HOST_PROFILE: &str = "drydock/HostProfile/v1";
pub(crate) const HARDWARE_PROFILE: &str = "drydock/HardwareProfile/v1";
pub(crate) const NETWORK: &str = "drydock/Network/v1";
pub(crate) const NETWORK_LINK: &str = "drydock/NetworkLink/v1";
pub(crate) const HARDWARE: &str = "trueup/Hardware/v1";
pub(crate) const BOOT_ACTION: &str = "drydock/BootAction/v1";
pub(crate) const STRATEGY: &str = "shipyard/DeploymentStrategy/v1";
pub(crate) const CONFIGURATION: &str = "shipyard/DeploymentConfiguration/v1";
pub(crate) const ETCD_CLUSTERS: &str = "promenade/EtcdClusters/v1";
pub(crate) const RETIREMENT: &str = "trueup/NodeRetirement/v1";
pub(crate) const ADOPTION: &str = "trueup/Adoption/v1";
/// How a revision reaches the sites of a repository.
pub const ROLLOUT: &str = "trueup/Rollout/v1";
pub(crate) const CLEANING: &str = "trueup/CleaningPolicy/v1";
/// The limits of a run on a site.
pub const POLICY: &str = "trueup/Policy/v1";
pub(crate) const BACKENDS: &str = "trueup/Backends/v1";
/// The kinds of documents that guard a site: who is contacted, what is protected, which quorum counts.
pub const GUARDS: [&str; 5] = [BACKENDS, CLEANING, ETCD_CLUSTERS, POLICY, RETIREMENT];
pub(crate) const RACK: &str = "drydock/Rack/v1";
pub(crate) const REGION: &str = "drydock/Region/v1";
/// The document that marks a folder as a site; not one of its documents.
pub const SITE_DEFINITION: &str = "pegleg/SiteDefinition/v1";
pub(crate) const LAYERING_POLICY: &str = "deckhand/LayeringPolicy/v1";
pub(crate) const DATA_SCHEMA: &str = "deckhand/DataSchema/v1";
pub(crate) const VALIDATION_POLICY: &str = "deckhand/ValidationPolicy/v1";
