//! Rendered documents to a design, with all that is wrong with them.

use std::sync::{Arc, OnceLock};

use super::catalog::{Catalog, Input};
use super::cluster::add_clusters;
use super::exposed;
use super::node::add_nodes;
use super::policy::add_policies;
use super::read::Findings;
use super::strategy::add_strategy;
use super::{Design, NodeDesign, SiteName, rules, schema};
use crate::diagnostic::Diagnostics;

/// Makes a design of the rendered documents of a site; the problems are references that lead
/// nowhere.
///
/// There is always a design: what cannot be understood is left out of it. Meant for a revision that
/// was checked before; [`check`] is for what somebody wants to apply.
#[must_use]
pub fn build(site: SiteName, documents: &[Input<'_>]) -> (Design, Diagnostics) {
    let catalog = Catalog::new(documents);
    let mut findings = Findings::default();
    let design = make(site, &catalog, Vec::new(), &mut findings);
    (design, findings.into_diagnostics())
}

/// The same, and all problems at once: schemas on up to `threads` threads, references, rules.
#[must_use]
pub fn check(site: SiteName, documents: &[Input<'_>], threads: usize) -> (Design, Diagnostics) {
    check_among(site, documents, Vec::new(), threads)
}

/// The same for a part of a site: `settled` are its other machines, of which the summaries are at hand
/// ([`NodeDesign::summary`]), and which were found sound before. Rules about several machines count
/// them too.
#[must_use]
pub fn check_among(
    site: SiteName,
    documents: &[Input<'_>],
    settled: Vec<Arc<NodeDesign>>,
    threads: usize,
) -> (Design, Diagnostics) {
    let mut diagnostics = schema::validate(documents, threads);
    let catalog = Catalog::new(documents);
    let mut findings = Findings::default();
    let design = make(site, &catalog, settled, &mut findings);
    rules::check(&catalog, &design, &mut findings);
    diagnostics.extend(findings.into_diagnostics());
    (design, diagnostics)
}

fn make(
    site: SiteName,
    catalog: &Catalog<'_>,
    settled: Vec<Arc<NodeDesign>>,
    findings: &mut Findings,
) -> Design {
    exposed::check(catalog, findings);
    let mut design = Design::empty(site);
    add_nodes(catalog, &mut design, findings);
    if !settled.is_empty() {
        // What was found of the machines so far was about those alone.
        design.index = OnceLock::new();
        let named = settled.into_iter().map(|node| (node.name.clone(), node));
        let loaded = std::mem::replace(&mut design.nodes, named.collect());
        design.nodes.extend(loaded);
    }
    add_strategy(catalog, &mut design, findings);
    add_clusters(catalog, &mut design);
    add_policies(catalog, &mut design, findings);
    design
}
