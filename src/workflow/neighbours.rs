//! The other sites of a repository, of which an edit of a shared layer may change machines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::sites::{Scope, load_each, revisions, sites};
use super::{AS_APPLIED, Checkout};
use crate::design::{Digests, NodeDesign, NodeName, Section};
use crate::diagnostic::Mark;
use crate::repository::Selection;
use crate::site::{Depth, Detail, Loader, Settings, Site};

/// A field of a machine, and where its value comes from.
pub(super) type FieldOrigin = (Section, Vec<Arc<str>>, Mark);

/// A site beside the one that is edited.
#[derive(Debug)]
pub(super) struct Neighbour {
    /// Its name.
    pub name: String,
    /// Its `site-definition.yaml`.
    pub definition: Arc<str>,
    /// The machines that an edit must leave as they are; an error: its documents have errors.
    pub site: Result<NeighbourSite, ()>,
    files: Option<Selection>,
}

/// The machines of such a site.
#[derive(Debug)]
pub(super) struct NeighbourSite {
    /// The digests of their designs.
    pub digests: BTreeMap<NodeName, Digests>,
    /// Where the fields that are to be edited come from, for each machine.
    pub origins: Vec<FieldOrigin>,
}

impl Neighbour {
    /// Whether it has a file, and what it makes of it is not known.
    #[must_use]
    pub(super) fn may_use(&self, path: &str) -> bool {
        let files = self.files.as_ref();
        self.site.is_err() && files.is_some_and(|files| files.selects(path))
    }
}

/// The other sites of the repository that have any of some files, by name.
pub(super) fn sharing<'p>(
    checkout: &Checkout<'_>,
    paths: impl Iterator<Item = &'p Arc<str>> + Clone,
) -> Vec<String> {
    let found = sites(checkout.repository, &Scope::All, None, None).unwrap_or_default();
    let own = &checkout.location.definition;
    let others = found.into_iter().filter(|site| site.definition != *own);
    let mut names: Vec<String> = others
        .filter(|site| {
            let files = site
                .checkout
                .as_ref()
                .map(|found| &found.location.selection);
            files.is_ok_and(|files| paths.clone().any(|path| files.selects(path)))
        })
        .map(|site| site.name)
        .collect();
    names.sort_unstable();
    names
}

/// All other sites of the repository, as the worktree has them.
pub(super) fn neighbours<'a>(
    checkout: &Checkout<'a>,
    loader: &mut Loader<'a>,
    fields: &BTreeSet<(Section, Vec<Arc<str>>)>,
) -> Vec<Neighbour> {
    let found = sites(checkout.repository, &Scope::All, None, None).unwrap_or_default();
    let own = &checkout.location.definition;
    let others: Vec<_> = found
        .into_iter()
        .filter(|site| site.definition != *own)
        .collect();
    let mut loaded: BTreeMap<usize, NeighbourSite> = BTreeMap::new();
    let settings = Settings {
        depth: Depth::Checked,
        detail: Detail::Documents,
        accept: AS_APPLIED.accept,
    };
    load_each(
        loader,
        revisions(&others, "worktree"),
        settings,
        &mut |position, site, _| {
            if let Some(site) = site.ok().filter(|site| !site.diagnostics.has_errors()) {
                let machines = site.design.nodes.iter();
                let site = NeighbourSite {
                    digests: machines
                        .map(|(name, node)| (name.clone(), node.digests.clone()))
                        .collect(),
                    origins: origins(&site, fields),
                };
                loaded.insert(position, site);
            }
        },
    );
    let others = others.into_iter().enumerate();
    others
        .map(|(position, site)| Neighbour {
            name: site.name,
            definition: site.definition,
            site: loaded.remove(&position).ok_or(()),
            files: site.checkout.ok().map(|found| found.location.selection),
        })
        .collect()
}

/// Where fields of machines come from: once for each machine that has one.
#[must_use]
pub(super) fn origins(
    site: &Site,
    fields: &BTreeSet<(Section, Vec<Arc<str>>)>,
) -> Vec<FieldOrigin> {
    let machines = site.design.nodes.values();
    let of_machine = |node: &NodeDesign| {
        let found = fields.iter().filter_map(|(section, path)| {
            let names: Vec<&str> = path.iter().map(|name| &**name).collect();
            let value = node.sections.get(section)?.at(&names)?;
            Some((*section, path.clone(), value.mark))
        });
        found.collect::<Vec<_>>()
    };
    machines.flat_map(|node| of_machine(node)).collect()
}
