//! One list for all who wait: nodes that something goes on with are looked at together.
//!
//! A task lists all nodes while anybody waits, and ends when nobody does. It looks at most once a
//! second, less often while nothing changes, and never spends more than half of its time asking.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::api::Api;
use super::node::Node;

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest time between two looks while nothing changes.
const LONGEST: Duration = Duration::from_secs(10);

/// What one look saw.
#[derive(Debug)]
pub(super) struct Round {
    begun: Instant,
    /// All nodes by UUID, or why they could not be seen.
    pub(super) nodes: Result<HashMap<Arc<str>, Node>, Arc<str>>,
    /// The UUIDs of nodes by their names.
    names: HashMap<Arc<str>, Arc<str>>,
    /// Whether something goes on with a node.
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

/// Looks at all nodes for all who wait.
#[derive(Debug)]
pub(super) struct Watch {
    api: Arc<Api>,
    wake: Notify,
    rounds: watch::Sender<Option<Arc<Round>>>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Who waits for which node, and how many.
    waiting: BTreeMap<Arc<str>, usize>,
    is_running: bool,
}

/// Waits for one node; while it lives, the node is looked at.
pub(super) struct Waiter {
    watch: Arc<Watch>,
    uuid: Arc<str>,
    rounds: watch::Receiver<Option<Arc<Round>>>,
}

impl Watch {
    pub(super) fn new(api: Arc<Api>) -> Self {
        Self {
            api,
            wake: Notify::new(),
            rounds: watch::Sender::new(None),
            inner: Mutex::default(),
        }
    }

    /// Whether something went on with a node of Ironic when all were last listed.
    pub(super) fn is_active(&self) -> bool {
        let last = self.rounds.borrow();
        last.as_ref().is_some_and(|round| round.is_active)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All nodes, by a list that began after this call: one for all who ask meanwhile.
    pub(super) async fn list(self: &Arc<Self>) -> Arc<Round> {
        /// No node has this UUID: nothing of it is waited for.
        const NONE: &str = "";
        self.wait_for(&Arc::from(NONE)).next().await
    }

    /// Begins to look at a node.
    pub(super) fn wait_for(self: &Arc<Self>, uuid: &Arc<str>) -> Waiter {
        let mut inner = self.inner();
        *inner.waiting.entry(uuid.clone()).or_default() += 1;
        let rounds = self.rounds.subscribe();
        if inner.is_running {
            self.wake.notify_one();
        } else {
            inner.is_running = true;
            tokio::spawn(look(self.clone()));
        }
        Waiter {
            watch: self.clone(),
            uuid: uuid.clone(),
            rounds,
        }
    }
}

impl Waiter {
    /// Which node it waits for.
    pub(super) fn uuid(&self) -> &Arc<str> {
        &self.uuid
    }

    /// The first look that began after this call: all that was accepted before shows in it.
    pub(super) async fn next(&mut self) -> Arc<Round> {
        let since = Instant::now();
        loop {
            // The sender lives in the watch, which lives in this waiter.
            if self.rounds.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let round = self.rounds.borrow_and_update().clone();
            if let Some(round) = round.filter(|round| round.begun >= since) {
                return round;
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut inner = self.watch.inner();
        if let Some(count) = inner.waiting.get_mut(&self.uuid) {
            *count -= 1;
            if *count == 0 {
                inner.waiting.remove(&self.uuid);
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
        let listed = listed.map_err(|trouble| Arc::from(trouble.to_string()));
        let round = Round::new(begun, listed);
        let seen = watched(&watch, round.nodes.as_ref().ok());
        pause = if seen == before {
            pause.mul_f64(1.5).min(LONGEST)
        } else {
            SHORTEST
        };
        before = seen;
        watch.rounds.send_replace(Some(Arc::new(round)));
        {
            let mut inner = watch.inner();
            if inner.waiting.is_empty() {
                inner.is_running = false;
                return;
            }
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

/// What goes on with the nodes that somebody waits for.
fn watched(watch: &Watch, nodes: Option<&HashMap<Arc<str>, Node>>) -> HashMap<Arc<str>, String> {
    let inner = watch.inner();
    let waiting = inner.waiting.keys();
    let doing = |uuid: &Arc<str>| Some((uuid.clone(), nodes?.get(uuid)?.doing()));
    waiting.filter_map(doing).collect()
}
