//! One list for all waiters: nodes with a running operation are observed together.
//!
//! A task lists all nodes while there are waiters, and ends with the last one. It lists at most once a
//! second, less often while nothing changes, and never spends more than half of its time asking.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::api::Api;
use super::node::Node;
use crate::backend::hardware::follow::{self, Followed};

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest time between two looks while nothing changes.
const LONGEST: Duration = Duration::from_secs(10);

/// The result of one list.
#[derive(Debug)]
pub(super) struct Round {
    begun: Instant,
    /// All nodes by UUID, or why they could not be listed.
    pub(super) nodes: Result<HashMap<Arc<str>, Node>, Arc<str>>,
    /// The UUIDs of nodes by their names.
    names: HashMap<Arc<str>, Arc<str>>,
    /// Whether an operation runs on a node.
    is_active: bool,
}

impl Round {
    fn new(begun: Instant, listed: Result<Vec<Node>, Arc<str>>) -> Self {
        let mut names = HashMap::new();
        let mut is_active = false;
        let nodes = listed.map(|listed| {
            let nodes = listed.into_iter().map(|node| {
                is_active |= node.state().is_transient();
                if let Some(name) = &node.name {
                    names.insert(name.clone(), node.uuid.clone());
                }
                (node.uuid.clone(), node)
            });
            nodes.collect()
        });
        Self {
            begun,
            nodes,
            names,
            is_active,
        }
    }

    /// The node of this name or UUID, where it was listed.
    pub(super) fn find(&self, name: &str) -> Option<&Node> {
        let nodes = self.nodes.as_ref().ok()?;
        let uuid = self.names.get(name).map_or(name, |uuid| uuid);
        nodes.get(uuid)
    }
}

/// Observes all nodes for all waiters.
#[derive(Debug)]
pub(super) struct Watch {
    api: Arc<Api>,
    wake: Notify,
    followed: Arc<Followed<Arc<Round>>>,
    /// Whether an operation ran on a node of Ironic when all were last listed.
    is_active: AtomicBool,
}

/// A subscription to one node; while it lives, the node is polled.
pub(super) struct Waiter(follow::Subscription<Arc<Round>>);

impl Watch {
    pub(super) fn new(api: Arc<Api>) -> Self {
        Self {
            api,
            wake: Notify::new(),
            followed: Arc::default(),
            is_active: AtomicBool::new(false),
        }
    }

    /// Whether an operation ran on a node of Ironic when all were last listed.
    pub(super) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Acquire)
    }

    /// All nodes, by a list that began after this call: one for all who ask meanwhile.
    pub(super) async fn list(self: &Arc<Self>) -> Arc<Round> {
        /// No node has this UUID: nothing of it is waited for.
        const NONE: &str = "";
        self.wait_for(&Arc::from(NONE)).next().await
    }

    /// Subscribes to a node.
    pub(super) fn wait_for(self: &Arc<Self>, uuid: &Arc<str>) -> Waiter {
        let (waiter, starts) = self.followed.wait_for(uuid);
        match starts {
            true => drop(tokio::spawn(look(self.clone()))),
            false => self.wake.notify_one(),
        }
        Waiter(waiter)
    }
}

impl Waiter {
    /// Which node it waits for.
    pub(super) fn uuid(&self) -> &Arc<str> {
        self.0.name()
    }

    /// The first look that began after this call: all that was accepted before shows in it.
    pub(super) async fn next(&mut self) -> Arc<Round> {
        let since = Instant::now();
        loop {
            let round = self.0.next().await;
            if round.begun >= since {
                return round;
            }
        }
    }
}

async fn look(watch: Arc<Watch>) {
    let mut pause = SHORTEST;
    let mut before: HashMap<Arc<str>, String> = HashMap::new();
    loop {
        let begun = Instant::now();
        let listed = watch.api.list().await;
        let listed = listed.map_err(|error| Arc::from(error.to_string()));
        let round = Round::new(begun, listed);
        let seen = watched(&watch, round.nodes.as_ref().ok());
        pause = if seen == before {
            pause.mul_f64(1.5).min(LONGEST)
        } else {
            SHORTEST
        };
        before = seen;
        watch.is_active.store(round.is_active, Ordering::Release);
        let round = Arc::new(round);
        watch.followed.tell_all(|_| round.clone());
        if !watch.followed.goes_on() {
            return;
        }
        let took = begun.elapsed();
        tokio::time::sleep(SHORTEST.max(took)).await;
        let rest = pause.saturating_sub(SHORTEST);
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = watch.wake.notified() => pause = SHORTEST,
        }
    }
}

/// The running operations of the nodes with waiters.
fn watched(watch: &Watch, nodes: Option<&HashMap<Arc<str>, Node>>) -> HashMap<Arc<str>, String> {
    let waiting = watch.followed.names().into_iter();
    let doing = |uuid: Arc<str>| nodes?.get(&uuid).map(|node| (uuid, node.doing()));
    waiting.filter_map(doing).collect()
}
