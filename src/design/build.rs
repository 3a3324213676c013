//! Rendered documents to a design, with all that is wrong with them.

use super::catalog::{Catalog, Input};
use super::cluster::add_clusters;
use super::node::add_nodes;
use super::policy::add_policies;
use super::read::Findings;
use super::strategy::add_strategy;
use super::{Design, SiteName};
use crate::diagnostic::Diagnostics;

/// Makes a design of the rendered documents of a site.
///
/// There is always a design: what cannot be understood is left out of it and is among the problems.
#[must_use]
pub fn build(site: SiteName, documents: &[Input<'_>]) -> (Design, Diagnostics) {
    let catalog = Catalog::new(documents);
    let mut findings = Findings::default();
    let mut design = Design::empty(site);
    add_nodes(&catalog, &mut design, &mut findings);
    add_strategy(&catalog, &mut design, &mut findings);
    add_clusters(&catalog, &mut design);
    add_policies(&catalog, &mut design, &mut findings);
    (design, findings.into_diagnostics())
}
