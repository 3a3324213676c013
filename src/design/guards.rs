//! The guards of a site, beside the design of its machines.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::{
    Backends, CleaningPolicy, DeploymentConfiguration, Design, EtcdCluster, Group, HardwareBackend,
    HardwareValue, NodeDesign, NodeName, Policy, Retirement,
};

/// The guards of a site: what may be done to it, when, how much at a time, by whose consent, and how it is reached.
///
/// It is no part of a design, so that none is read from the revision that machines happen to be made of.
#[derive(Clone, Debug, Default)]
pub struct Guards {
    /// Deployment groups in document order; if the site names no strategy and has none of the
    /// default name, one critical group of all nodes that wants 100 %.
    pub groups: Vec<Group>,
    /// Timeouts and intervals.
    pub configuration: DeploymentConfiguration,
    /// The etcd clusters that must keep their quorum.
    pub etcd_clusters: Vec<EtcdCluster>,
    /// Which nodes retire.
    pub retirements: Vec<Retirement>,
    /// How machines are cleaned; the first policy that selects a node counts.
    pub cleaning: Vec<CleaningPolicy>,
    /// The Policy.
    pub policy: Policy,
    /// Parts that another revision which has a say demands of machines, and their design does not expect.
    pub expected_elsewhere: BTreeMap<NodeName, Vec<HardwareValue>>,
    /// The backends of the hardware and of the clusters.
    pub backends: Backends,
    /// From where they were taken, if that is another revision.
    pub from: Option<GuardOrigin>,
}

impl Guards {
    /// All nodes of a design that are retired on a day (`YYYY-MM-DD`), each with the first entry that names it.
    #[must_use]
    pub fn retired<'a>(
        &'a self,
        design: &'a Design,
        as_of: &str,
    ) -> BTreeMap<&'a NodeName, &'a Retirement> {
        let mut result = BTreeMap::new();
        for retirement in &self.retirements {
            if retirement.holds_on(as_of) {
                for name in retirement.selector.nodes(design) {
                    result.entry(name).or_insert(retirement);
                }
            }
        }
        result
    }

    /// The policy by which a node is cleaned, if there is one.
    #[must_use]
    pub fn cleaning_of(&self, node: &NodeDesign) -> Option<&CleaningPolicy> {
        self.cleaning.iter().find(|policy| policy.is_about(node))
    }

    /// The hardware backend of a node: the first override that selects it, or the site's.
    #[must_use]
    pub fn backend_of(&self, node: &NodeDesign) -> &HardwareBackend {
        self.backends
            .overrides
            .iter()
            .find(|(selector, _)| selector.matches(node))
            .map_or(&self.backends.hardware, |(_, backend)| backend)
    }

    /// Whether the policy protects a node from teardown.
    #[must_use]
    pub fn is_protected(&self, node: &NodeDesign) -> bool {
        self.policy
            .protected
            .iter()
            .any(|selector| selector.matches(node))
    }
}

/// The protected revision from which guards were taken in the place of those of the documents at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardOrigin {
    /// The revision as the operator named it.
    pub revision: Arc<str>,
    /// The documents that are different in the revision at hand.
    pub changed: Vec<Arc<str>>,
}

/// The design of a revision, and the guards as the documents of one revision say them: those that hold may be stricter.
#[derive(Clone, Debug)]
pub struct Documented {
    /// The design.
    pub design: Arc<Design>,
    /// The guards.
    pub guards: Arc<Guards>,
}

impl Documented {
    /// Whether both are of the same load of the same files.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.design, &other.design) && Arc::ptr_eq(&self.guards, &other.guards)
    }
}

impl Deref for Documented {
    type Target = Design;

    fn deref(&self) -> &Design {
        &self.design
    }
}
