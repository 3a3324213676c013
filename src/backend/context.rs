//! The context that backends are opened with: secrets, trust, and where controllers were at the last apply.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Error, EveryReach, Gate, Looks, Reach, Secrets};
use crate::cache::Cache;
use crate::design::{BackendKind, Guards, NodeDesign, Section};
use crate::document::Node;
use crate::identity::Registry;

/// Inputs of the backends that no document holds.
#[derive(Clone, Debug)]
pub struct BackendContext {
    /// The file of the simulated site, if the document names none.
    pub simulated_state: PathBuf,
    /// Resolves references to secrets.
    pub secrets: Arc<dyn Secrets>,
    /// Decides whether what the documents name may be used.
    pub gate: Arc<dyn Gate>,
    /// Where controllers were at the last apply.
    pub applied: Arc<AppliedAddresses>,
    /// Which node is known by what.
    pub identities: Arc<Registry>,
    /// How far an observation is.
    pub looks: Arc<Looks>,
    /// Keeps from process to process how controllers took what they were asked for.
    pub cache: Cache,
}

impl BackendContext {
    /// A context for tests and tools that decide themselves what is contacted.
    #[must_use]
    pub fn trusting(simulated_state: PathBuf, secrets: Arc<dyn Secrets>) -> Self {
        Self {
            simulated_state,
            secrets,
            gate: Arc::new(EveryReach),
            applied: Arc::new(AppliedAddresses {
                everywhere: true,
                ..AppliedAddresses::default()
            }),
            identities: Arc::default(),
            looks: Arc::default(),
            cache: Cache::none(),
        }
    }

    /// Lets the backends of a design be contacted, if their reach is trusted.
    ///
    /// # Errors
    ///
    /// It is not.
    pub(super) fn admit(&self, guards: &Guards) -> Result<(), Error> {
        let reach = Reach::of(guards);
        if reach.is_empty() {
            return Ok(());
        }
        self.gate.admit(&reach, &*self.secrets)?;
        self.secrets.pass_on(&guards.backends.exec_environment);
        Ok(())
    }
}

/// The addresses of controllers in the designs that were applied last.
#[derive(Debug, Default)]
pub struct AppliedAddresses {
    known: RwLock<HashSet<Arc<str>>>,
    /// Whether every address counts as applied.
    everywhere: bool,
}

impl AppliedAddresses {
    /// Adds the address of a node's controller as it was applied; `kind`: who contacts it.
    pub fn add(&self, node: &NodeDesign, kind: BackendKind) {
        if let Some(address) = controller_address(node, kind) {
            let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
            all.insert(Arc::from(&*address));
        }
    }

    /// Whether an address was applied.
    #[must_use]
    pub fn contains(&self, address: &str) -> bool {
        let all = self.known.read().unwrap_or_else(PoisonError::into_inner);
        self.everywhere || all.contains(address)
    }
}

/// Returns the address at which a kind of backend contacts a node's controller: plain Redfish takes
/// `oob.address` before the address on the out-of-band network, which all others take.
#[must_use]
pub fn controller_address(node: &NodeDesign, kind: BackendKind) -> Option<Cow<'_, str>> {
    let section = node.sections.get(&Section::OutOfBand);
    let section = section.filter(|_| kind == BackendKind::Redfish);
    let own = section.and_then(|section| section.at(&["oob", "address"]));
    let own = own.filter(|value| !value.is_null());
    own.and_then(Node::scalar_text)
        .or_else(|| node.out_of_band.address.as_deref().map(Cow::Borrowed))
}
