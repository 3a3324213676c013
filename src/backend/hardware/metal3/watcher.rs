//! Watches requests for remediation in a management cluster, and holds the Lease of the one active watcher.
//!
//! Of each collection only the names of objects with a request are stored, so that five thousand hosts cost
//! no more than the few that have failed; the stream of each is decoded to what counts.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::lease::{Held, Lease, LeaseSettings};
use super::management::Management;
use super::settings::Settings;
use crate::backend::api_server::{ApiError, Connection, Event, Server, Watch, or_empty};
use crate::backend::retry::waits;
use crate::backend::{BackendContext, Error, cluster};
use crate::design::{BackendKind, Guards};

/// The first and the longest wait before a collection is listed again whose watch broke.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// A collection that is watched for some of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Machines that ask for remediation.
    Machines,
    /// Hosts that are fenced, or carry the state of a remediation.
    Hosts,
    /// Nodes that are not Ready: they decide whether anything may be remediated.
    Nodes,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machines => "Machines",
            Self::Hosts => "hosts",
            Self::Nodes => "nodes",
        })
    }
}

/// Hears what the watcher sees.
pub trait WatchListener: Send + Sync {
    /// The Lease is ours, or another watcher holds it.
    fn lease(&self, held: bool);
    /// Changes the names that are known of a collection; `change` says whether it did.
    fn seen(&self, watched: Watched, change: &mut dyn FnMut(&mut BTreeSet<Arc<str>>) -> bool);
    /// The cluster could not be asked for a collection, or for the Lease if it is none.
    fn request_failed(&self, watched: Option<Watched>, why: &str);
}

/// A machine or host as a watch sees it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Slim {
    #[serde(deserialize_with = "or_empty")]
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    #[serde(deserialize_with = "or_empty")]
    name: Arc<str>,
    #[serde(deserialize_with = "or_empty")]
    annotations: Annotations,
}

/// The annotations that count, and no others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "host.metal3.io/external-remediation")]
    needs: Option<serde::de::IgnoredAny>,
    #[serde(rename = "reboot.metal3.io/machine-remediation")]
    hold: Option<serde::de::IgnoredAny>,
    #[serde(rename = "trueup.dev/remediation")]
    state: Option<serde::de::IgnoredAny>,
}

impl Slim {
    fn asks(&self) -> bool {
        let annotations = &self.metadata.annotations;
        annotations.needs.is_some() || annotations.hold.is_some() || annotations.state.is_some()
    }
}

/// An object of a collection, as little of it as is needed.
trait Object: DeserializeOwned {
    /// Whether it counts.
    fn counts(&self) -> bool;
    fn into_name(self) -> Arc<str>;
}

impl Object for Slim {
    fn counts(&self) -> bool {
        self.asks()
    }

    fn into_name(self) -> Arc<str> {
        self.metadata.name
    }
}

impl Object for cluster::Readiness {
    fn counts(&self) -> bool {
        !self.is_ready()
    }

    fn into_name(self) -> Arc<str> {
        self.into_name()
    }
}

/// Watches a management cluster, and the nodes of the cluster that runs on its hosts.
#[derive(Debug)]
pub struct Watcher {
    management: Management,
    nodes: Option<Connection>,
}

impl Watcher {
    /// The watcher of a design's management cluster; `None` if no machine of it is moved by Metal3. Nothing
    /// is asked yet.
    ///
    /// # Errors
    ///
    /// A setting does not fit.
    pub fn open(guards: &Guards, context: &BackendContext) -> Result<Option<Self>, Error> {
        context.admit(guards)?;
        let backends = &guards.backends;
        let overrides = backends.overrides.iter().map(|(_, backend)| backend);
        let mut all = overrides.chain([&backends.hardware]);
        let Some(backend) = all.find(|backend| backend.kind == BackendKind::Metal3) else {
            return Ok(None);
        };
        let mark = backend.settings.as_ref().map(|settings| settings.mark);
        let Some(mark) = mark else {
            return Ok(None);
        };
        let settings = Settings::read(backend, mark).map_err(Error::Settings)?;
        Ok(Some(Self {
            management: Management::open(guards, &settings, context)?,
            nodes: cluster::connection(guards, context),
        }))
    }

    /// Holds the Lease and watches, until `ended`; then it gives the Lease back, so that another one need not
    /// wait until it has run out.
    pub async fn run(
        &self,
        lease_settings: LeaseSettings,
        listener: &dyn WatchListener,
        ended: impl Future<Output = ()>,
    ) {
        let timeout = lease_settings.duration / 2;
        let mut lease = Lease::new(&self.management, lease_settings);
        tokio::select! {
            () = self.keep(&mut lease, listener) => {}
            () = self.follow_all(listener) => {}
            () = ended => {}
        }
        // One that is not given back runs out.
        let _ = tokio::time::timeout(timeout, lease.give_back()).await;
        listener.lease(false);
    }

    async fn keep(&self, lease: &mut Lease<'_>, listener: &dyn WatchListener) {
        let renewal = lease.settings().renewal();
        loop {
            let asked = Instant::now();
            // An answer that does not come is no Lease.
            let held = tokio::time::timeout(renewal * 2, lease.hold()).await;
            match held {
                Ok(Ok(Held::Ours | Held::Other(_))) => {}
                Ok(Err(error)) => listener.request_failed(None, &error.to_string()),
                Err(_) => listener.request_failed(None, "no answer in time"),
            }
            listener.lease(lease.is_held());
            sleep(renewal.saturating_sub(asked.elapsed())).await;
        }
    }

    async fn follow_all(&self, listener: &dyn WatchListener) {
        let (machines, hosts) = (self.management.machine_path(), self.management.host_path());
        let management = || self.management.server();
        tokio::join!(
            follow::<Slim>(Watched::Machines, &machines, management, listener),
            follow::<Slim>(Watched::Hosts, &hosts, management, listener),
            async {
                if let Some(cluster) = &self.nodes {
                    let server = || cluster.server();
                    follow::<cluster::Readiness>(Watched::Nodes, cluster::NODES, server, listener)
                        .await;
                }
            },
        );
    }
}

/// Follows a collection for ever: again and again a list, and what happens after it.
async fn follow<T: Object>(
    watched: Watched,
    path: &str,
    server: impl AsyncFn() -> Result<Server, ApiError>,
    listener: &dyn WatchListener,
) {
    let renewed = || waits(AGAIN[0], AGAIN[1], path);
    let mut waits = renewed();
    loop {
        let followed = match server().await {
            Ok(server) => follow_once::<T>(watched, path, &server, listener).await,
            Err(error) => Err(error),
        };
        match followed {
            Ok(()) => waits = renewed(),
            Err(error) => listener.request_failed(Some(watched), &error.to_string()),
        }
        sleep(waits.next().unwrap_or(AGAIN[1])).await;
    }
}

/// Lists the collection, and follows it until the stream ends.
async fn follow_once<T: Object>(
    watched: Watched,
    path: &str,
    server: &Server,
    listener: &dyn WatchListener,
) -> Result<(), ApiError> {
    let take = |names: &mut BTreeSet<Arc<str>>, each: T| {
        if each.counts() {
            names.insert(each.into_name());
        }
    };
    let list = server
        .list(path, &ListParams::default(), BTreeSet::new, take)
        .await?;
    let (mut listed, version) = list;
    listener.seen(watched, &mut |names| {
        std::mem::swap(names, &mut listed);
        *names != listed
    });
    let mut watch: Watch<T> = Watch::open(server, path, None, &version).await?;
    while let Some(event) = watch.next().await {
        let (counts, name) = match event {
            Event::There(each) => (each.counts(), each.into_name()),
            Event::Gone(each) => (false, each.into_name()),
        };
        listener.seen(watched, &mut |names| match counts {
            true => names.insert(name.clone()),
            false => names.remove(&name),
        });
    }
    Ok(())
}
