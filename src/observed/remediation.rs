//! The remediation of a machine in the resources of a management cluster.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A Machine and its host, as far as remediation goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemediationSeen {
    /// The Machine, as `namespace/name`; none if no Machine is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Arc<str>>,
    /// The host, as `namespace/name`.
    pub host: Arc<str>,
    /// The Machine asks for remediation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_remediation: bool,
    /// The host carries our reboot annotation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reboot_annotation: bool,
    /// The host carries the state of a running remediation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub under_way: bool,
    /// Why it cannot be remediated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Arc<str>>,
    /// Why nothing of this could be observed; all else is empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<Arc<str>>,
    /// Why the last remediation of it was aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<Arc<str>>,
}
