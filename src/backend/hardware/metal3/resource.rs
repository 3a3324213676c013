//! The resources of a management cluster, as far as they are read here: hosts, Machines, Metal3Machines.
//!
//! Only the fields that count are decoded, straight from the answer. What is changed is changed by
//! patches that name nothing else, so that fields which are not known here stay as they are. Every field
//! can be missing. `metal3.io/v1alpha1`, `cluster.x-k8s.io/v1beta2`,
//! `infrastructure.cluster.x-k8s.io/v1beta2`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::backend::api_server::or_empty;

/// Annotations and labels that mean something to the operator, to Cluster API or to trueup.
pub mod key {
    /// One power cycle; with `/` and a name behind it: powered off until it is removed.
    pub const REBOOT: &str = "reboot.metal3.io";
    /// The operator leaves the host alone.
    pub const PAUSED: &str = "baremetalhost.metal3.io/paused";
    /// The operator manages the host no longer.
    pub const DETACHED: &str = "baremetalhost.metal3.io/detached";
    /// The operator inspects an available host again, and takes it away.
    pub const INSPECT: &str = "inspect.metal3.io";
    /// On a Metal3Machine: its host, as `NAMESPACE/NAME`.
    pub const HOST: &str = "metal3.io/BareMetalHost";
    /// Label: the host is retired (`true`).
    pub const RETIRED: &str = "trueup.dev/retired";
    /// Annotation: why it is.
    pub const RETIRED_REASON: &str = "trueup.dev/retired-reason";
    /// Annotation: the host is in maintenance, and why.
    pub const MAINTENANCE: &str = "trueup.dev/maintenance";
    /// Annotation: the host is managed, and not available to be deployed.
    pub const MANAGEABLE: &str = "trueup.dev/manageable";
    /// Annotation: cleaning is off until the next deploy has ended, so that disks are kept.
    pub const PRESERVED: &str = "trueup.dev/preserved";
    /// Annotation: trueup created the host.
    pub const CREATED: &str = "trueup.dev/created";
    /// Annotation: the step that began something which must happen once.
    pub const STEP: &str = "trueup.dev/step";
}

/// The metadata of every object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Its name.
    #[serde(deserialize_with = "or_empty")]
    pub name: Arc<str>,
    /// Its namespace.
    #[serde(deserialize_with = "or_empty")]
    pub namespace: Arc<str>,
    /// Tells it from another object of its name.
    #[serde(deserialize_with = "or_empty")]
    pub uid: Arc<str>,
    /// The observed version; a change that names it is refused if there is a newer one.
    #[serde(deserialize_with = "or_empty")]
    pub resource_version: Arc<str>,
    /// Counts the changes of its spec.
    #[serde(deserialize_with = "or_empty")]
    pub generation: i64,
    /// Labels.
    #[serde(deserialize_with = "or_empty")]
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations.
    #[serde(deserialize_with = "or_empty")]
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Whose it is.
    #[serde(deserialize_with = "or_empty")]
    pub owner_references: Vec<Owner>,
    /// When its deletion was asked for.
    pub deletion_timestamp: Option<Arc<str>>,
}

impl Metadata {
    /// Whether another version of the object is as new as this or newer. Versions of one collection grow; one that
    /// is no number is taken for newer.
    #[must_use]
    pub fn is_reached_by(&self, version: &str) -> bool {
        match (self.resource_version.parse::<u64>(), version.parse::<u64>()) {
            (Ok(own), Ok(other)) => other >= own,
            _ => true,
        }
    }
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// Group and version.
    #[serde(deserialize_with = "or_empty")]
    pub api_version: Arc<str>,
    /// Kind.
    #[serde(deserialize_with = "or_empty")]
    pub kind: Arc<str>,
    /// Name.
    #[serde(deserialize_with = "or_empty")]
    pub name: Arc<str>,
    /// Whether it is the one that manages the object.
    #[serde(deserialize_with = "or_empty")]
    pub controller: bool,
}

/// Which object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// Group and version, if the reference has both in one.
    #[serde(deserialize_with = "or_empty")]
    pub api_version: Arc<str>,
    /// Group, if the reference has it alone.
    #[serde(deserialize_with = "or_empty")]
    pub api_group: Arc<str>,
    /// Kind.
    #[serde(deserialize_with = "or_empty")]
    pub kind: Arc<str>,
    /// Namespace.
    #[serde(deserialize_with = "or_empty")]
    pub namespace: Arc<str>,
    /// Name.
    #[serde(deserialize_with = "or_empty")]
    pub name: Arc<str>,
}

/// A BareMetalHost.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Its metadata.
    #[serde(deserialize_with = "or_empty")]
    pub metadata: Metadata,
    /// Its spec.
    #[serde(deserialize_with = "or_empty")]
    pub spec: HostSpec,
    /// Its status.
    #[serde(deserialize_with = "or_empty")]
    pub status: HostStatus,
}

/// The spec of a host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostSpec {
    /// Whether it is meant to be on.
    #[serde(deserialize_with = "or_empty")]
    pub online: bool,
    /// How its management controller is reached.
    #[serde(deserialize_with = "or_empty")]
    pub bmc: Bmc,
    /// The MAC address from which it boots.
    #[serde(rename = "bootMACAddress", deserialize_with = "or_empty")]
    pub boot_mac_address: Arc<str>,
    /// Its consumer.
    pub consumer_ref: Option<ObjectReference>,
    /// The image that is or shall be deployed on it.
    pub image: Option<Image>,
    /// The system that is or shall be deployed on it without an image.
    pub custom_deploy: Option<CustomDeploy>,
    /// It is externally provisioned.
    #[serde(deserialize_with = "or_empty")]
    pub externally_provisioned: bool,
    /// `metadata` (the default) or `disabled`.
    #[serde(deserialize_with = "or_empty")]
    pub automated_cleaning_mode: Arc<str>,
    /// The operator restarts it instead of switching it off.
    #[serde(deserialize_with = "or_empty")]
    pub disable_power_off: bool,
}

/// How a management controller is reached.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bmc {
    /// Its address.
    #[serde(deserialize_with = "or_empty")]
    pub address: Arc<str>,
    /// The Secret with its account.
    #[serde(deserialize_with = "or_empty")]
    pub credentials_name: Arc<str>,
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Image {
    /// Where it is.
    #[serde(deserialize_with = "or_empty")]
    pub url: Arc<str>,
}

/// A way to deploy that is no image.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CustomDeploy {
    /// Its name.
    #[serde(deserialize_with = "or_empty")]
    pub method: Arc<str>,
}

/// The status of a host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostStatus {
    /// `OK`, `error`, `detached` and others.
    #[serde(deserialize_with = "or_empty")]
    pub operational_status: Arc<str>,
    /// At what the operator failed.
    #[serde(deserialize_with = "or_empty")]
    pub error_type: Arc<str>,
    /// The message of its error.
    #[serde(deserialize_with = "or_empty")]
    pub error_message: Arc<str>,
    /// How often it failed since it last did not.
    #[serde(deserialize_with = "or_empty")]
    pub error_count: u64,
    /// How often the same image failed.
    #[serde(deserialize_with = "or_empty")]
    pub provisioning_fail_count: u64,
    /// Whether it was last observed on; one sample is no proof.
    #[serde(deserialize_with = "or_empty")]
    pub powered_on: bool,
    /// Where it stands.
    #[serde(deserialize_with = "or_empty")]
    pub provisioning: Provisioning,
    /// The result of inspection.
    pub hardware: Option<Hardware>,
}

/// Where a host stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Provisioning {
    /// The state.
    #[serde(deserialize_with = "or_empty")]
    pub state: Arc<str>,
    /// The deployed image.
    #[serde(deserialize_with = "or_empty")]
    pub image: Image,
    /// The deployed system without an image.
    #[serde(deserialize_with = "or_empty")]
    pub custom_deploy: CustomDeploy,
}

/// The result of inspection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hardware {
    /// Disks.
    #[serde(deserialize_with = "or_empty")]
    pub storage: Vec<Storage>,
    /// Its network interfaces.
    #[serde(deserialize_with = "or_empty")]
    pub nics: Vec<Interface>,
    /// Its maker.
    #[serde(deserialize_with = "or_empty")]
    pub system_vendor: Vendor,
    /// Its memory.
    #[serde(deserialize_with = "or_empty")]
    pub ram_mebibytes: u64,
}

/// A network interface that inspection found.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Interface {
    /// Its MAC address.
    #[serde(deserialize_with = "or_empty")]
    pub mac: Arc<str>,
}

/// The maker of a machine, as inspection found it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Vendor {
    /// Its serial number.
    #[serde(deserialize_with = "or_empty")]
    pub serial_number: Arc<str>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Storage {
    /// Its name, such as `/dev/sda` or `/dev/disk/by-path/…`.
    #[serde(deserialize_with = "or_empty")]
    pub name: Arc<str>,
    /// Its serial number.
    #[serde(deserialize_with = "or_empty")]
    pub serial_number: Arc<str>,
    /// Its size in bytes.
    #[serde(deserialize_with = "or_empty")]
    pub size_bytes: u64,
}

/// A Machine of Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Its metadata.
    #[serde(deserialize_with = "or_empty")]
    pub metadata: Metadata,
    /// Its spec.
    #[serde(deserialize_with = "or_empty")]
    pub spec: MachineSpec,
    /// Its status.
    #[serde(deserialize_with = "or_empty")]
    pub status: MachineStatus,
}

/// The spec of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// The cluster that it is of.
    #[serde(deserialize_with = "or_empty")]
    pub cluster_name: Arc<str>,
    /// Its Metal3Machine, in the same namespace.
    #[serde(deserialize_with = "or_empty")]
    pub infrastructure_ref: ObjectReference,
}

/// The status of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// Its node, if there is one.
    pub node_ref: Option<NodeReference>,
    /// Its phase.
    #[serde(deserialize_with = "or_empty")]
    pub phase: Arc<str>,
}

/// The node of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeReference {
    /// Its name.
    #[serde(deserialize_with = "or_empty")]
    pub name: Arc<str>,
}

/// A Metal3Machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Metal3Machine {
    /// Its metadata; the host is named by the annotation [`key::HOST`].
    #[serde(deserialize_with = "or_empty")]
    pub metadata: Metadata,
}

impl Metal3Machine {
    /// The name of its host. The namespace that the annotation names does not count: a host is always
    /// looked for in the machine's own.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        let written = self.metadata.annotations.get(key::HOST)?;
        let name = written.rsplit('/').next()?;
        (!name.is_empty()).then_some(name)
    }
}

impl Host {
    /// An annotation's value.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&Arc<str>> {
        self.metadata.annotations.get(key)
    }

    /// The keys of the annotations that power it off: the bare one, and those with a name.
    pub fn reboots(&self) -> impl Iterator<Item = &Arc<str>> {
        let is_reboot = |key: &&Arc<str>| {
            let rest = key.strip_prefix(key::REBOOT);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.metadata.annotations.keys().filter(is_reboot)
    }

    /// The keys of the annotations that power it off until they are removed.
    pub fn power_holds(&self) -> impl Iterator<Item = &Arc<str>> {
        self.reboots().filter(|each| ***each != *key::REBOOT)
    }
}
