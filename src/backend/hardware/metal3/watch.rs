//! One list and one stream of events for all who wait for hosts.
//!
//! A task lists the hosts while anybody waits and then follows what happens to them, and ends when nobody
//! does. Each waiter hears of its own host only. A server that is away is asked again, at most once a
//! second; who waits hears why.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::management::Management;
use super::resource::Host;
use crate::backend::api_server::{Event, Trouble};
use crate::backend::retry::waits;

/// The shortest time between two lists.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest time between two lists while they fail.
const LONGEST: Duration = Duration::from_secs(10);

/// What was last seen of a host.
#[derive(Clone, Debug)]
pub(super) enum HostObservation {
    /// Nothing yet.
    NotYet,
    /// It is there, and so.
    There(Arc<Host>),
    /// It was not there at this version.
    Gone(Arc<str>),
    /// The management cluster does not say.
    Away {
        /// Why not.
        why: Arc<str>,
        /// Whether that can pass by itself.
        passes: bool,
    },
}

/// Follows hosts for all who wait.
#[derive(Debug)]
pub(super) struct Watch {
    management: Arc<Management>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    hosts: BTreeMap<Arc<str>, Entry>,
    is_running: bool,
}

#[derive(Debug)]
struct Entry {
    waiters: usize,
    seen: watch::Sender<HostObservation>,
}

/// Waits for one host; while it lives, the host is followed.
#[derive(Debug)]
pub(super) struct Waiter {
    watch: Arc<Watch>,
    name: Arc<str>,
    seen: watch::Receiver<HostObservation>,
}

impl Watch {
    pub(super) fn new(management: Arc<Management>) -> Self {
        Self {
            management,
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to follow a host. What happens to it from now on will be heard.
    pub(super) fn wait_for(self: &Arc<Self>, name: &Arc<str>) -> Waiter {
        let mut inner = self.inner();
        let entry = inner.hosts.entry(name.clone()).or_insert_with(|| Entry {
            waiters: 0,
            seen: watch::Sender::new(HostObservation::NotYet),
        });
        entry.waiters += 1;
        let seen = entry.seen.subscribe();
        if !inner.is_running {
            inner.is_running = true;
            tokio::spawn(follow(self.clone()));
        }
        Waiter {
            watch: self.clone(),
            name: name.clone(),
            seen,
        }
    }

    fn tell(&self, name: &str, seen: HostObservation) {
        if let Some(entry) = self.inner().hosts.get(name) {
            entry.seen.send_replace(seen);
        }
    }

    /// Ends the task where nobody waits.
    fn ends(&self) -> bool {
        let mut inner = self.inner();
        if inner.hosts.is_empty() {
            inner.is_running = false;
        }
        !inner.is_running
    }
}

impl Waiter {
    /// What is seen of the host that is newer than what was seen already.
    pub(super) async fn next(&mut self, than: &Host) -> HostObservation {
        loop {
            // The sender lives in the watch, which lives in this waiter.
            if self.seen.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let seen = self.seen.borrow_and_update().clone();
            let is_news = match &seen {
                HostObservation::NotYet => false,
                HostObservation::There(host) => {
                    let version = &host.metadata.resource_version;
                    *version != than.metadata.resource_version
                        && than.metadata.is_reached_by(version)
                }
                HostObservation::Gone(version) => than.metadata.is_reached_by(version),
                HostObservation::Away { .. } => true,
            };
            if is_news {
                return seen;
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut inner = self.watch.inner();
        if let Some(entry) = inner.hosts.get_mut(&self.name) {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                inner.hosts.remove(&self.name);
            }
        }
    }
}

async fn follow(watch: Arc<Watch>) {
    let renewed = || waits(2 * SHORTEST, LONGEST, &*watch.management.host_path());
    let mut waits = renewed();
    while !watch.ends() {
        let began = Instant::now();
        let pause = match round(&watch).await {
            Ok(()) => {
                waits = renewed();
                SHORTEST
            }
            Err(trouble) => {
                let (why, passes) = (Arc::from(trouble.to_string()), trouble.passes());
                let away = HostObservation::Away { why, passes };
                for entry in watch.inner().hosts.values() {
                    entry.seen.send_replace(away.clone());
                }
                waits.next().unwrap_or(LONGEST)
            }
        };
        sleep(pause.saturating_sub(began.elapsed())).await;
    }
}

/// Lists the hosts, and follows them until the stream ends or nobody waits.
async fn round(watch: &Watch) -> Result<(), Trouble> {
    let (hosts, version) = watch.management.hosts().await?;
    let listed: HashMap<Arc<str>, Host> = hosts
        .into_iter()
        .map(|host| (host.metadata.name.clone(), host))
        .collect();
    tell_all(watch, listed, &Arc::from(version.as_str()));
    let mut stream = watch.management.follow_hosts(&version).await?;
    loop {
        match timeout(SHORTEST, stream.next()).await {
            Ok(None) => return Ok(()),
            Ok(Some(Event::There(host))) => {
                let name = host.metadata.name.clone();
                watch.tell(&name, HostObservation::There(Arc::new(*host)));
            }
            Ok(Some(Event::Gone(host))) => {
                let metadata = host.metadata;
                watch.tell(
                    &metadata.name,
                    HostObservation::Gone(metadata.resource_version),
                );
            }
            Err(_) if watch.inner().hosts.is_empty() => return Ok(()),
            Err(_) => {}
        }
    }
}

fn tell_all(watch: &Watch, mut listed: HashMap<Arc<str>, Host>, version: &Arc<str>) {
    for (name, entry) in &watch.inner().hosts {
        entry.seen.send_replace(match listed.remove(name) {
            Some(host) => HostObservation::There(Arc::new(host)),
            None => HostObservation::Gone(version.clone()),
        });
    }
}
