//! The inventory of a site, described or not: its backends list it, and etcd clusters are asked by the address of one member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::client::driven;
use super::{Checkout, Client, Failure, choose, refuse_errors, runtime};
use crate::adopt::Known;
use crate::backend::cluster::etcd::Etcd;
use crate::backend::{ActError, controller_address};
use crate::design::{ClusterName, EtcdCluster, EtcdMember, NodeName, Reference, kind};
use crate::diagnostic::{Mark, SourceId};
use crate::observed::Inventory;
use crate::site::{At, Depth, Detail, Settings};
use crate::telemetry::{Phase, Scope};

/// An etcd cluster that no document describes, by the address of one of its members.
#[derive(Clone, Debug)]
pub struct EtcdSeed {
    /// The name that it gets.
    pub name: ClusterName,
    /// Where clients reach the member.
    pub client_url: Arc<str>,
    /// References to the credentials.
    pub credentials: BTreeMap<Arc<str>, Reference>,
}

/// A site, and all that its backends list.
#[derive(Debug)]
pub struct AdoptionSite {
    /// The backend of its machines, as documents name it.
    pub backend: &'static str,
    /// Names of documents that are there.
    pub known: Known,
    /// All that was found.
    pub inventory: Inventory,
}

/// Lists what a site has. Its backends are those that its documents in the worktree name, if they are trusted; the seeds
/// are named by the operator.
///
/// # Errors
///
/// The documents have errors; the backends are not trusted, cannot be opened, or list nothing.
pub fn found(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    seeds: &[EtcdSeed],
) -> Result<AdoptionSite, Failure> {
    let location = &checkout.location;
    let mut loader = checkout.loader()?;
    let settings = Settings {
        depth: Depth::Typed,
        detail: Detail::Documents,
        accept: super::AS_APPLIED.accept,
    };
    let site = loader.load(location, At::Worktree, settings)?;
    let site = refuse_errors(client, &loader, settings.depth, site)?;
    let guarded = checkout.guarded(&site)?;
    let context = client.backends(checkout, location)?;
    let backends = choose(&mut loader, (&site, &guarded), &context)?;
    let guards = guarded.guards();
    let hardware = &guards.backends.hardware;
    let seeds = seeds.iter().map(seed);
    let etcd = Etcd::new(&seeds.collect::<Vec<_>>(), &context.secrets);
    let runtime = runtime(guards)?;
    let observing = Scope::phase(Phase::Observe);
    let asks = async {
        let (inventory, etcd) = tokio::join!(backends.inventory(), etcd.look());
        Some(inventory.map(|inventory| Inventory { etcd, ..inventory }))
    };
    let listed: Option<Result<Inventory, ActError>> = driven(client, &runtime, asks);
    drop(observing);
    let inventory = match listed {
        Some(Ok(inventory)) => inventory,
        Some(Err(error)) => return Err(Failure::error(error.to_string())),
        None => return Err(Failure::error("the machines were not listed")),
    };
    let named = |schemas: &[&str]| {
        let documents = site.documents.iter();
        let of_kind = documents.filter(|document| schemas.contains(&&*document.id.schema));
        let names = of_kind.map(|document| document.id.name.clone());
        names.collect::<BTreeSet<Arc<str>>>()
    };
    // What is published may be newer: the plan after it tells of that.
    let records = checkout.site_here()?.store()?;
    let records = records.nodes(&records.read()?)?.into_values();
    let recorded = records.filter(|record| {
        !record.digests.is_empty() && !site.design.nodes.contains_key(&record.node)
    });
    let controllers = site.design.nodes.values();
    let controllers = controllers.filter_map(|node| controller_address(node, hardware.kind));
    let known = Known {
        nodes: site.design.nodes.keys().cloned().collect(),
        recorded: recorded.map(|record| record.node).collect(),
        controllers: controllers.map(|address| Arc::from(&*address)).collect(),
        profiles: named(&[kind::HOST_PROFILE, kind::HARDWARE_PROFILE]),
        adoptions: named(&[kind::ADOPTION]),
        etcd: guards
            .etcd_clusters
            .iter()
            .map(|it| it.name.clone())
            .collect(),
        has_strategy: !named(&[kind::STRATEGY]).is_empty(),
    };
    Ok(AdoptionSite {
        backend: hardware.kind.as_str(),
        known,
        inventory,
    })
}

/// A cluster of which one member is known, on a machine that is not.
fn seed(seed: &EtcdSeed) -> EtcdCluster {
    EtcdCluster {
        name: seed.name.clone(),
        minimum_healthy: 1,
        members: vec![EtcdMember {
            node: NodeName::from("seed"),
            name: Arc::from("seed"),
            peer_url: Arc::from(""),
            client_url: seed.client_url.clone(),
        }],
        credentials: seed.credentials.clone(),
        username: None,
        mark: Mark::new(SourceId(u32::MAX), 0),
    }
}
