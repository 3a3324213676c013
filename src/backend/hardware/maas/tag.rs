//! Tags of trueup's own: what MAAS has no field for, and keeps in every state of a machine.
//!
//! A machine's owner data is lost when it is released, so that retirement, maintenance and "managed, but not
//! available" are tags. A reason is the comment of its tag, which is called by a digest of it: machines with one
//! reason share one tag.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::design::RunId;

/// The prefix of all.
pub(super) const PREFIX: &str = "trueup-";
/// Of a machine that is retired; a dash and a digest of the reason follow.
pub(super) const RETIRED: &str = "trueup-retired";
/// Of a machine in maintenance; a dash and a digest of the reason follow.
pub(super) const MAINTENANCE: &str = "trueup-maintenance";
/// Of a machine that is ready in MAAS and not available.
pub(super) const MANAGED: &str = "trueup-managed";
/// Of a machine with kernel parameters; a dash and a digest of them follow.
pub(super) const KERNEL: &str = "trueup-kernel";

/// Of a machine that a run has begun to prepare; a dash and a digest of the run follow.
pub(super) const RUN: &str = "trueup-run";

/// A tag as MAAS lists it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Listed {
    pub(super) name: Arc<str>,
    pub(super) comment: Arc<str>,
}

/// Whether a tag is put on a machine or taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is put on.
    Add,
    /// It is taken off.
    Remove,
}

impl Change {
    /// The field of the request.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
        }
    }
}

/// A tag to put on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) name: Arc<str>,
    pub(super) comment: Arc<str>,
    pub(super) kernel_options: Arc<str>,
}

impl Tag {
    /// A tag without more.
    pub(super) fn plain(name: &str) -> Self {
        Self {
            name: Arc::from(name),
            comment: Arc::from("set by trueup"),
            kernel_options: Arc::default(),
        }
    }

    /// The tag of a kind with a reason.
    pub(super) fn with_reason(kind: &str, reason: &str) -> Self {
        Self {
            name: digested(kind, reason),
            comment: Arc::from(reason),
            kernel_options: Arc::default(),
        }
    }

    /// The tag of the machines that a run has begun to prepare.
    pub(super) fn run(run: &RunId) -> Self {
        Self {
            name: digested(RUN, run.as_str()),
            comment: Arc::from(format!("prepared by run {run} of trueup")),
            kernel_options: Arc::default(),
        }
    }

    /// The tag that carries kernel parameters.
    pub(super) fn kernel(parameters: &str) -> Self {
        Self {
            name: digested(KERNEL, parameters),
            comment: Arc::from("kernel parameters, set by trueup"),
            kernel_options: Arc::from(parameters),
        }
    }
}

fn digested(kind: &str, text: &str) -> Arc<str> {
    let digest = HEXLOWER.encode(&Sha256::digest(text.as_bytes())[..6]);
    Arc::from(format!("{kind}-{digest}"))
}

/// Whether a tag is of a kind.
pub(super) fn is_of(kind: &str, name: &str) -> bool {
    let rest = name.strip_prefix(kind);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_with_one_reason_share_one_tag_and_others_have_another() {
        let tag = |reason| Tag::with_reason(RETIRED, reason).name;
        assert_eq!(tag("disks"), tag("disks"));
        assert_ne!(tag("disks"), tag("disk"));
        assert!(is_of(RETIRED, &tag("disks")) && is_of(RETIRED, RETIRED));
        assert!(!is_of(RETIRED, "trueup-retiredness") && !is_of(MAINTENANCE, &tag("disks")));
    }
}
