//! Watches what asks for remediation in a management cluster, and holds the Lease of the one active watcher.
//!
//! Of each collection only the names are kept of what asks for something, so that five thousand hosts cost
//! no more than the few that have failed; the stream of each is decoded to the annotations that count.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::lease::{Held, Lease, RENEWAL};
use super::management::Management;
use super::settings::Settings;
use crate::backend::api_server::{Event, Trouble, Watch, or_empty};
use crate::backend::{Context, Error};
use crate::design::{BackendKind, Design};

/// The first and the longest wait before a collection is listed again whose watch broke.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// What asks for remediation: names of Machines and of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attention {
    /// Machines that ask for it.
    pub machines: BTreeSet<Arc<str>>,
    /// Hosts that are held off, or keep something of a remediation.
    pub hosts: BTreeSet<Arc<str>>,
}

impl Attention {
    /// Whether anything asks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.machines.is_empty() && self.hosts.is_empty()
    }
}

/// Hears what the watcher sees. Called often; each call replaces what was said before.
pub trait Listener: Send + Sync {
    /// The Lease is ours, or somebody else has it.
    fn lease(&self, held: bool);
    /// What asks for remediation has changed, or was seen again.
    fn attention(&self, change: &mut dyn FnMut(&mut Attention));
    /// The cluster could not be asked.
    fn trouble(&self, what: &str);
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

/// A collection that is watched.
#[derive(Clone, Copy, Debug)]
enum Which {
    Machines,
    Hosts,
}

/// Watches a management cluster.
#[derive(Debug)]
pub struct Watcher {
    management: Management,
}

impl Watcher {
    /// The watcher of a design's management cluster; `None` where no machine of it is moved by Metal3. Nothing
    /// is asked yet.
    ///
    /// # Errors
    ///
    /// A setting does not fit.
    pub fn open(design: &Design, context: &Context) -> Result<Option<Self>, Error> {
        let backends = &design.backends;
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
        let management = Management::open(design, &settings, context)?;
        Ok(Some(Self { management }))
    }

    /// Holds the Lease and watches, for ever. `lease`: its name; `identity`: who this process is.
    pub async fn run(&self, lease: Arc<str>, identity: Arc<str>, listener: &dyn Listener) {
        tokio::join!(
            self.keep(Lease::new(&self.management, lease, identity), listener),
            self.follow(Which::Machines, listener),
            self.follow(Which::Hosts, listener),
        );
    }

    async fn keep(&self, mut lease: Lease<'_>, listener: &dyn Listener) {
        loop {
            let asked = Instant::now();
            // An answer that does not come is no Lease.
            let held = tokio::time::timeout(RENEWAL * 2, lease.hold()).await;
            match held {
                Ok(Ok(Held::Ours | Held::Other(_))) => {}
                Ok(Err(trouble)) => listener.trouble(&format!("the Lease: {trouble}")),
                Err(_) => listener.trouble("the Lease: no answer in time"),
            }
            listener.lease(lease.is_held());
            sleep(RENEWAL.saturating_sub(asked.elapsed())).await;
        }
    }

    async fn follow(&self, which: Which, listener: &dyn Listener) {
        let mut pause = AGAIN[0];
        loop {
            match self.follow_once(which, listener).await {
                Ok(()) => pause = AGAIN[0],
                Err(trouble) => {
                    let what = match which {
                        Which::Machines => "Machines",
                        Which::Hosts => "hosts",
                    };
                    listener.trouble(&format!("{what}: {trouble}"));
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(AGAIN[1]);
        }
    }

    /// Lists the collection, and follows it until the stream ends.
    async fn follow_once(&self, which: Which, listener: &dyn Listener) -> Result<(), Trouble> {
        let server = self.management.server().await?;
        let path = match which {
            Which::Machines => self.management.machine_path(),
            Which::Hosts => self.management.host_path(),
        };
        let take = |asking: &mut BTreeSet<Arc<str>>, each: Slim| {
            if each.asks() {
                asking.insert(each.metadata.name);
            }
        };
        let list = server
            .list(&path, &ListParams::default(), BTreeSet::new, take)
            .await?;
        let (mut asking, version) = list;
        let tell = |change: &mut dyn FnMut(&mut BTreeSet<Arc<str>>)| {
            listener.attention(&mut |attention| {
                change(match which {
                    Which::Machines => &mut attention.machines,
                    Which::Hosts => &mut attention.hosts,
                });
            });
        };
        tell(&mut |names| *names = std::mem::take(&mut asking));
        let mut watch: Watch<Slim> = Watch::open(&server, &path, None, &version).await?;
        while let Some(event) = watch.next().await {
            match event {
                Event::There(each) if each.asks() => tell(&mut |names| {
                    names.insert(each.metadata.name.clone());
                }),
                Event::There(each) | Event::Gone(each) => tell(&mut |names| {
                    names.remove(&each.metadata.name);
                }),
            }
        }
        Ok(())
    }
}
