//! Rendered documents to a design, with all that is wrong with them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::catalog::{Catalog, Input};
use super::cluster::read_clusters;
use super::exposed;
use super::node::add_nodes;
use super::open;
use super::policy::add_policies;
use super::read::Findings;
use super::strategy::add_strategy;
use super::{
    Design, Documented, Guards, NodeDesign, NodeName, SchemaCache, SiteName, rules, schema,
};
use crate::diagnostic::Diagnostics;

/// Machines by name.
pub type Nodes = BTreeMap<NodeName, Arc<NodeDesign>>;

/// Gives the machines of a site that are not among its documents at hand, when it is told those that are.
pub type Others<'a> = &'a mut dyn FnMut(&Nodes) -> Vec<Arc<NodeDesign>>;

/// Makes a design of the rendered documents of a site; the problems are references that lead nowhere.
///
/// There is always a design: what cannot be understood is left out of it. Meant for a revision that
/// was checked before; [`check`] is for a revision that is to be applied.
#[must_use]
pub fn build(site: SiteName, documents: &[Input<'_>]) -> (Documented, Diagnostics) {
    build_among(site, documents, &mut alone)
}

/// Makes a design of a part of a site, among its other machines.
#[must_use]
pub fn build_among(
    site: SiteName,
    documents: &[Input<'_>],
    others: Others<'_>,
) -> (Documented, Diagnostics) {
    let catalog = Catalog::new(documents);
    let mut findings = Findings::default();
    let design = make(site, &catalog, others, &mut findings);
    (design, findings.into_diagnostics())
}

/// The same, and all problems at once: schemas on up to `threads` threads, references, rules.
#[must_use]
pub fn check(site: SiteName, documents: &[Input<'_>], threads: usize) -> (Documented, Diagnostics) {
    let checking = Checking {
        threads,
        cache: None,
    };
    check_among(site, documents, &mut alone, checking)
}

/// How documents are checked.
#[derive(Clone, Copy, Debug)]
pub struct Checking<'c> {
    /// The most threads.
    pub threads: usize,
    /// Valid documents that other sites have as well.
    pub cache: Option<&'c SchemaCache>,
}

/// Checks a part of a site, among its other machines, which were found sound before. Rules about several machines
/// count them too.
#[must_use]
pub fn check_among(
    site: SiteName,
    documents: &[Input<'_>],
    others: Others<'_>,
    checking: Checking<'_>,
) -> (Documented, Diagnostics) {
    let mut diagnostics = schema::validate_with(documents, checking.threads, checking.cache);
    let catalog = Catalog::new(documents);
    let mut findings = Findings::default();
    let design = make(site, &catalog, others, &mut findings);
    rules::check(&catalog, &design, &mut findings);
    diagnostics.extend(findings.into_diagnostics());
    (design, diagnostics)
}

/// No other machines: all are among the documents at hand.
pub fn alone(_: &Nodes) -> Vec<Arc<NodeDesign>> {
    Vec::new()
}

fn make(
    site: SiteName,
    catalog: &Catalog<'_>,
    others: Others<'_>,
    findings: &mut Findings,
) -> Documented {
    exposed::check(catalog, findings);
    Documented {
        design: Arc::new(make_design(site, catalog, others, findings)),
        guards: Arc::new(make_guards(catalog, findings)),
    }
}

/// Builds what the machines of a site are made of.
fn make_design(
    site: SiteName,
    catalog: &Catalog<'_>,
    others: Others<'_>,
    findings: &mut Findings,
) -> Design {
    let mut design = Design::empty(site);
    add_nodes(catalog, &mut design, findings);
    design.adoptions = open::read(catalog);
    let others = others(&design.nodes);
    if !others.is_empty() {
        // What was found of the machines so far was about those alone.
        design.index = OnceLock::new();
        let named = others.into_iter().map(|node| (node.name.clone(), node));
        let loaded = std::mem::replace(&mut design.nodes, named.collect());
        design.nodes.extend(loaded);
    }
    design
}

/// Reads what may be done to a site.
fn make_guards(catalog: &Catalog<'_>, findings: &mut Findings) -> Guards {
    let mut guards = Guards::default();
    add_strategy(catalog, &mut guards, findings);
    guards.etcd_clusters = read_clusters(catalog);
    add_policies(catalog, &mut guards, findings);
    guards
}
