//! The machine that a change is about, as an approval of the plan covers it: what it is made of, and what is
//! contacted to make it so.
//!
//! Values only: which files, profiles or order they come from does not count, nor what a document says about a
//! machine without a consequence for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::Change;
use super::subject::Subject;
use crate::design::{
    BackendKind, Digests, Guards, HardwareBackend, NodeDesign, OutOfBand, Section, SectionDigest,
};
use crate::document::Node;
use crate::identity::Identity;

/// The section that is not covered as a whole: of what a document says about a machine, its identity stands in
/// [`CoveredMachine::identity`], rack and tags count by what they do (limits, groups, boot actions), and names of
/// profiles and descriptions do nothing.
pub(super) const SECTION_LEFT_OUT: Section = Section::Inventory;

/// The machine of a change with steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoveredMachine {
    /// The digests of the sections of its design; none if it is no longer designed.
    #[serde(default, skip_serializing_if = "Digests::is_empty")]
    pub sections: Digests,
    /// Its management controller.
    #[serde(default, skip_serializing_if = "OutOfBand::is_empty")]
    pub controller: OutOfBand,
    /// The backend that reaches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Arc<CoveredBackend>>,
    /// The digest of how the clusters of the site are reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<SectionDigest>,
    /// How it is called elsewhere, by system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<Arc<str>, Arc<str>>,
    /// Its identity, as it is recorded and designed.
    #[serde(default, skip_serializing_if = "Identity::is_empty")]
    pub identity: Identity,
}

impl Change {
    /// The digests of the design that its steps lead to; none if it is no longer designed, or has no steps.
    #[must_use]
    pub fn digests(&self) -> Option<Digests> {
        let mut digests = self.machine.as_ref()?.sections.clone();
        if digests.is_empty() {
            return None;
        }
        if let Some(inventory) = self.inventory {
            digests.insert(SECTION_LEFT_OUT, inventory);
        }
        Some(digests)
    }
}

/// The backend that reaches a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoveredBackend {
    /// Its kind.
    pub kind: BackendKind,
    /// Its endpoint, or the cluster that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// The digest of its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<SectionDigest>,
}

impl fmt::Display for CoveredBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            BackendKind::None => f.write_str("no backend")?,
            kind => write!(f, "`{}`", kind.as_str())?,
        }
        match &self.address {
            Some(address) => write!(f, " at `{address}`"),
            None => Ok(()),
        }
    }
}

impl CoveredBackend {
    fn of(backend: &HardwareBackend) -> Self {
        let settings = backend.settings.as_ref();
        let address = ["endpoint", "cluster"].into_iter().find_map(|name| {
            let node = settings?.get(name).filter(|node| !node.is_secret())?;
            node.scalar_text().map(Arc::from)
        });
        Self {
            kind: backend.kind,
            address,
            settings: settings.map(SectionDigest::of),
        }
    }
}

/// Tells of the machines of a plan what is covered of them; what they have in common is made once.
pub(super) struct Covering<'a> {
    guards: &'a Guards,
    clusters: Option<SectionDigest>,
    backends: FxHashMap<*const HardwareBackend, Arc<CoveredBackend>>,
}

impl<'a> Covering<'a> {
    pub(super) fn new(guards: &'a Guards) -> Self {
        let clusters = guards.backends.data.as_ref();
        let clusters = clusters.and_then(|data| data.get("clusters"));
        Self {
            guards,
            clusters: clusters.map(SectionDigest::of),
            backends: FxHashMap::default(),
        }
    }

    pub(super) fn of(&mut self, subject: &Subject<'_>) -> CoveredMachine {
        let designed = subject.after.or(subject.before);
        let mut sections = subject.after.map(|node| node.digests.clone());
        if let Some(digests) = &mut sections {
            digests.remove(SECTION_LEFT_OUT);
        }
        let names = self.guards.backends.names.get(subject.name);
        CoveredMachine {
            sections: sections.unwrap_or_default(),
            controller: designed.map(controller).unwrap_or_default(),
            backend: designed.map(|node| self.backend(node)),
            clusters: self.clusters,
            names: names.cloned().unwrap_or_default(),
            identity: identity(subject, designed),
        }
    }

    fn backend(&mut self, node: &NodeDesign) -> Arc<CoveredBackend> {
        let backend = self.guards.backend_of(node);
        let known = self.backends.entry(std::ptr::from_ref(backend));
        known
            .or_insert_with(|| Arc::new(CoveredBackend::of(backend)))
            .clone()
    }
}

/// The controller of a machine; an account that is secret stands in the digest of its section only.
fn controller(node: &NodeDesign) -> OutOfBand {
    let section = node.sections.get(&Section::OutOfBand);
    let account = section.and_then(|fields| fields.at(&["oob", "account"]).map(Node::is_secret));
    let mut controller = node.out_of_band.clone();
    controller.account.take_if(|_| account == Some(true));
    controller
}

/// The recorded identity, with the values that a document has.
fn identity(subject: &Subject<'_>, designed: Option<&NodeDesign>) -> Identity {
    let recorded = subject.record.and_then(|record| record.identity.as_deref());
    let mut identity = recorded.cloned().unwrap_or_default();
    let designed = designed.map(NodeDesign::identity).unwrap_or_default();
    identity.uuid = designed.uuid.or(identity.uuid);
    identity.serial = designed.serial.or(identity.serial);
    if !designed.macs.is_empty() {
        identity.macs = designed.macs;
    }
    identity.unverified = false;
    identity
}
