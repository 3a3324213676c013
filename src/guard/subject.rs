//! The subject of guards: the guards of a design, the files beside its documents, and the nodes that count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::design::{Design, Documented, Guards, NodeName, Selector};

/// The files beside the documents that guard a site, at a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardFiles {
    /// The digest of its rules in Rego without comments and blanks; `None`: it has none.
    pub rules: Option<Arc<str>>,
    /// Its allowed signers, by who they are and for which purpose.
    pub signers: BTreeMap<Arc<str>, SignerTime>,
}

/// The time in which a key counts, as digits of a date: `20310101000000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SignerTime {
    /// Since when.
    pub after: Option<u64>,
    /// Until when.
    pub before: Option<u64>,
}

impl SignerTime {
    /// An instant as digits of its date.
    #[must_use]
    pub fn digits(now: Timestamp) -> u64 {
        let digits = now.strftime("%Y%m%d%H%M%S").to_string();
        digits.parse().unwrap_or_default()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.before
            .is_some_and(|before| before <= Self::digits(now))
    }
}

/// The subject of guards: those of a design, and what they are read for.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The guards.
    pub guards: &'a Guards,
    /// The design.
    pub design: &'a Design,
    /// The files beside it.
    pub files: &'a GuardFiles,
    /// The nodes that count; `None`: all.
    pub nodes: Option<&'a BTreeSet<&'a NodeName>>,
    /// The documents that it is compared with.
    pub against: Option<&'a Documented>,
}

impl<'a> Subject<'a> {
    /// All guards of a revision.
    #[must_use]
    pub fn of(site: &'a Documented, files: &'a GuardFiles) -> Self {
        Self {
            guards: &site.guards,
            design: site,
            files,
            nodes: None,
            against: None,
        }
    }
}

impl Subject<'_> {
    /// The nodes that selectors mean, by name.
    pub(super) fn named(&self, selectors: &[Selector]) -> BTreeSet<&str> {
        let nodes = selectors.iter().flat_map(|each| each.nodes(self.design));
        let counted = nodes.filter(|name| self.counts(name));
        counted.map(NodeName::as_str).collect()
    }

    pub(super) fn counts(&self, name: &NodeName) -> bool {
        self.nodes.is_none_or(|nodes| nodes.contains(name))
    }
}
