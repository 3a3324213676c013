//! Inputs for all nodes of a plan: the guards, and the allowances of the flags.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::allowance::Allowed;
use super::etcd::Clusters;
use super::joining::Joins;
use super::options::Leaving;
use super::remedy::Remedy;
use super::renamed::Renames;
use crate::design::{Design, FieldPattern, Guards, NodeName, Retirement};
use crate::diff::Reasons;
use crate::record::NodeRecord;

/// Inputs for all nodes.
pub(super) struct Rules<'a> {
    pub(super) guards: &'a Guards,
    pub(super) records: &'a BTreeMap<NodeName, NodeRecord>,
    pub(super) renames: &'a Renames,
    pub(super) reasons: &'a dyn Reasons,
    /// The design that is to be reached.
    pub(super) after: &'a Design,
    pub(super) allow_restart: Allowed<'a>,
    pub(super) allow_reinstall: Allowed<'a>,
    pub(super) allow_redeploy: Allowed<'a>,
    pub(super) allow_destroy: Allowed<'a>,
    pub(super) adopt: Allowed<'a>,
    pub(super) allow_unverified: Allowed<'a>,
    /// The fields whose differences are accepted.
    pub(super) fields: Vec<FieldPattern>,
    pub(super) leaving: &'a Leaving,
    pub(super) gone: Allowed<'a>,
    /// Nodes that look as if they ran etcd, and do not.
    pub(super) no_etcd_here: Allowed<'a>,
    /// The etcd clusters, and the nodes that each lists.
    pub(super) clusters: &'a Clusters<'a>,
    /// The machines that are to join, and when.
    pub(super) joins: Joins<'a>,
    /// The nodes on whose controllers another node is, each with one of those, where controllers are changed.
    pub(super) beside: FxHashMap<&'a NodeName, &'a NodeName>,
    /// How failed machines are brought back.
    pub(super) remedy: Remedy<'a>,
}

/// How a node stands to retirement.
#[derive(Clone, Copy)]
pub(super) enum Retired<'a> {
    /// It is not retired.
    No,
    /// By an entry of the design.
    By(&'a Retirement),
    /// By a flag that no entry accounts for; it is left as it is.
    ByHand,
    /// The entry that retired it is gone.
    NoLonger,
}

impl Retired<'_> {
    /// Whether it is retired now.
    pub(super) fn is_retired(self) -> bool {
        matches!(self, Self::By(_) | Self::ByHand)
    }
}
