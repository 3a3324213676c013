//! One list and one stream of events for all who wait for hosts.
//!
//! A task lists the hosts while there are waiters and then follows their events, and ends with the last
//! one. Each waiter receives its own host only. A server that is away is asked again, at most once a
//! second; waiters receive the error.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::management::Management;
use super::resource::Host;
use crate::backend::api_server::{ApiError, Event};
use crate::backend::hardware::follow::{self, Followed};
use crate::backend::retry::waits;

/// The shortest time between two lists.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest time between two lists while they fail.
const LONGEST: Duration = Duration::from_secs(10);

/// The last observed state of a host.
#[derive(Clone, Debug)]
pub(super) enum HostObservation {
    /// It is there, and so.
    There(Arc<Host>),
    /// Not found at this version.
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
    followed: Arc<Followed<HostObservation>>,
}

/// Waits for one host; while it lives, the host is followed.
#[derive(Debug)]
pub(super) struct Waiter(follow::Subscription<HostObservation>);

impl Watch {
    pub(super) fn new(management: Arc<Management>) -> Self {
        Self {
            management,
            followed: Arc::default(),
        }
    }

    /// Begins to follow a host. What happens to it from now on will be heard.
    pub(super) fn wait_for(self: &Arc<Self>, name: &Arc<str>) -> Waiter {
        let (waiter, starts) = self.followed.wait_for(name);
        if starts {
            tokio::spawn(follow(self.clone()));
        }
        Waiter(waiter)
    }
}

impl Waiter {
    /// The observed state of the host that is newer than the known one.
    pub(super) async fn next(&mut self, than: &Host) -> HostObservation {
        loop {
            let seen = self.0.next().await;
            let is_news = match &seen {
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

async fn follow(watch: Arc<Watch>) {
    let renewed = || waits(2 * SHORTEST, LONGEST, &*watch.management.host_path());
    let mut waits = renewed();
    while watch.followed.goes_on() {
        let began = Instant::now();
        let pause = match round(&watch).await {
            Ok(()) => {
                waits = renewed();
                SHORTEST
            }
            Err(error) => {
                let (why, passes) = (Arc::from(error.to_string()), error.passes());
                let away = HostObservation::Away { why, passes };
                watch.followed.tell_all(|_| away.clone());
                waits.next().unwrap_or(LONGEST)
            }
        };
        sleep(pause.saturating_sub(began.elapsed())).await;
    }
}

/// Lists the hosts, and follows them until the stream or the last waiter ends.
async fn round(watch: &Watch) -> Result<(), ApiError> {
    let (hosts, version) = watch.management.hosts().await?;
    let mut listed: HashMap<Arc<str>, Host> = hosts
        .into_iter()
        .map(|host| (host.metadata.name.clone(), host))
        .collect();
    let gone: Arc<str> = Arc::from(version.as_str());
    watch.followed.tell_all(|name| match listed.remove(name) {
        Some(host) => HostObservation::There(Arc::new(host)),
        None => HostObservation::Gone(gone.clone()),
    });
    let mut stream = watch.management.follow_hosts(&version).await?;
    loop {
        match timeout(SHORTEST, stream.next()).await {
            Ok(None) => return Ok(()),
            Ok(Some(Event::There(host))) => {
                let name = host.metadata.name.clone();
                watch
                    .followed
                    .tell(&name, HostObservation::There(Arc::new(*host)));
            }
            Ok(Some(Event::Gone(host))) => {
                let metadata = host.metadata;
                watch.followed.tell(
                    &metadata.name,
                    HostObservation::Gone(metadata.resource_version),
                );
            }
            Err(_) if watch.followed.names().is_empty() => return Ok(()),
            Err(_) => {}
        }
    }
}
