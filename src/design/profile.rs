//! Host profiles, each resolved once.
//!
//! A chain that comes back to itself is reported whole, and cut where it was met. A missing
//! profile is reported at the field that names it.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::catalog::{Catalog, Input};
use super::part::{Parts, inherit_parts};
use super::read::{Findings, text, text_of};
use super::{Dependence, kind};
use crate::diagnostic::Diagnostic;
use crate::document::{DocumentId, Node};

/// The longest chain of host profiles.
pub(super) const LONGEST_CHAIN: usize = 64;

/// A host profile with all that it inherits.
#[derive(Debug)]
pub(super) struct Profile {
    /// Its name, then those it inherits from, nearest first.
    pub(super) chain: Arc<[Arc<str>]>,
    /// Effective fields.
    pub(super) parts: Parts,
    /// The chain's references.
    pub(super) depends_on: Arc<[Dependence]>,
}

/// All host profiles that were asked for.
#[derive(Debug)]
pub(super) struct Profiles<'a> {
    catalog: &'a Catalog<'a>,
    resolved: FxHashMap<&'a str, Rc<Profile>>,
}

impl<'a> Profiles<'a> {
    /// None is resolved yet.
    pub(super) fn new(catalog: &'a Catalog<'a>) -> Self {
        Self {
            catalog,
            resolved: FxHashMap::default(),
        }
    }

    /// The names of the profiles that machines inherit from.
    pub(super) fn used(&self) -> FxHashSet<Arc<str>> {
        let mut used = FxHashSet::default();
        let machines = self.catalog.of(kind::NODE);
        let mut next: Vec<Arc<str>> = machines
            .filter_map(|(_, data)| text(data, "host_profile"))
            .collect();
        while let Some(name) = next.pop() {
            if used.insert(name.clone())
                && let Some((_, data)) = self.catalog.get(kind::HOST_PROFILE, &name)
            {
                next.extend(text(data, "host_profile"));
            }
        }
        used
    }

    /// The profile that the `host_profile` of some data names.
    pub(super) fn named_in(&mut self, data: &Node, findings: &mut Findings) -> Option<Rc<Profile>> {
        let (document, data) = self.lookup(data, findings)?;
        Some(self.resolve((document, data), findings))
    }

    /// A profile with all that it inherits.
    pub(super) fn resolve(&mut self, start: Input<'a>, findings: &mut Findings) -> Rc<Profile> {
        let mut way: Vec<Input<'a>> = Vec::new();
        let mut next = Some(start);
        let mut above: Option<Rc<Profile>> = None;
        while let Some((document, data)) = next {
            let name = &*document.id.name;
            if let Some(known) = self.resolved.get(name) {
                above = Some(known.clone());
                break;
            }
            way.push((document, data));
            next = self.lookup(data, findings);
            let reference = data
                .get("host_profile")
                .map_or(document.mark, |node| node.mark);
            if let Some((again, _)) = next
                && let Some(from) = way.iter().position(|(each, _)| each.id == again.id)
            {
                let mut names: Vec<&str> =
                    way[from..].iter().map(|(each, _)| &*each.id.name).collect();
                names.push(&again.id.name);
                let message = format!("host profiles inherit in a circle: {}", names.join(" → "));
                findings.push(Diagnostic::error(
                    "reference-profile-cycle",
                    reference,
                    message,
                ));
                next = None;
            } else if way.len() >= LONGEST_CHAIN && next.is_some() {
                let message =
                    format!("more than {LONGEST_CHAIN} host profiles inherit from each other");
                findings.push(Diagnostic::error(
                    "reference-profile-depth",
                    reference,
                    message,
                ));
                next = None;
            }
        }
        for (document, data) in way.into_iter().rev() {
            let profile = Rc::new(inherit_profile(document.id.clone(), data, above.as_deref()));
            self.resolved.insert(&document.id.name, profile.clone());
            above = Some(profile);
        }
        above.unwrap_or_else(|| Rc::new(inherit_profile(start.0.id.clone(), start.1, None)))
    }

    fn lookup(&self, data: &Node, findings: &mut Findings) -> Option<Input<'a>> {
        let reference = data.get("host_profile")?;
        let name = text_of(reference)?;
        let found = self.catalog.get(kind::HOST_PROFILE, &name);
        if found.is_none() {
            let message = format!("there is no host profile `{name}`");
            findings.push(
                Diagnostic::error("reference-host-profile", reference.mark, message)
                    .did_you_mean(&name, self.catalog.names(kind::HOST_PROFILE)),
            );
        }
        found
    }
}

fn inherit_profile(id: DocumentId, data: &Node, above: Option<&Profile>) -> Profile {
    let parts = inherit_parts(data, above.map(|profile| &profile.parts), Some(&id));
    let chain = std::iter::once(id.name.clone())
        .chain(
            above
                .into_iter()
                .flat_map(|profile| profile.chain.iter().cloned()),
        )
        .collect();
    let own = above.map(|profile| Dependence {
        dependent: Some(id.clone()),
        on: DocumentId {
            schema: id.schema.clone(),
            name: profile.chain[0].clone(),
        },
        selects: false,
        by: Arc::from("host_profile"),
        mark: data.get("host_profile").map_or(data.mark, |node| node.mark),
    });
    let depends_on = own
        .into_iter()
        .chain(
            above
                .into_iter()
                .flat_map(|profile| profile.depends_on.iter().cloned()),
        )
        .collect();
    Profile {
        chain,
        parts,
        depends_on,
    }
}
