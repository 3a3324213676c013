//! One list for all waiters: objects of a provisioner with a running operation are observed together.
//!
//! A task lists them while there are waiters, and ends with the last one. It lists at most once a
//! second, less often while nothing changes, and never spends more than half of its time asking.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::follow::{self, Followed};
use crate::backend::ActError;
use crate::observed::ListedMachine;

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest time between two looks while nothing changes.
const LONGEST: Duration = Duration::from_secs(10);

/// An object in a list.
pub(super) trait Listed: Clone + Send + Sync + 'static {
    /// Its id.
    fn id(&self) -> &Arc<str>;

    /// Its name, if it has one.
    fn name(&self) -> Option<&Arc<str>>;

    /// The running operation, in words that differ when it has moved.
    fn doing(&self) -> String;

    /// Whether an operation runs on it.
    fn is_active(&self) -> bool;
}

/// A provisioner that lists its objects.
pub(super) trait Lister: Send + Sync + 'static {
    /// Its objects.
    type Item: Listed;

    /// All objects; `wanted`: the only ids that matter, if others can be left out.
    fn list(
        &self,
        wanted: Option<&[Arc<str>]>,
    ) -> impl Future<Output = Result<Vec<Self::Item>, Arc<str>>> + Send;
}

/// The result of one list.
#[derive(Debug)]
pub(super) struct Round<T> {
    begun: Instant,
    /// The objects by id, or why they could not be listed.
    pub(super) objects: Result<HashMap<Arc<str>, T>, Arc<str>>,
    /// The ids of objects by their names.
    names: HashMap<Arc<str>, Arc<str>>,
    /// Whether an operation runs on an object.
    is_active: bool,
}

impl<T: Listed> Round<T> {
    fn new(begun: Instant, listed: Result<Vec<T>, Arc<str>>) -> Self {
        let mut names = HashMap::new();
        let mut is_active = false;
        let objects = listed.map(|listed| {
            let objects = listed.into_iter().map(|object| {
                is_active |= object.is_active();
                if let Some(name) = object.name() {
                    names.insert(name.clone(), object.id().clone());
                }
                (object.id().clone(), object)
            });
            objects.collect()
        });
        Self {
            begun,
            objects,
            names,
            is_active,
        }
    }

    /// The machines of all objects; those without a name by their ids.
    pub(super) fn machines(&self) -> Result<Vec<ListedMachine>, ActError> {
        let objects = self
            .objects
            .as_ref()
            .map_err(|why| ActError::Passing(why.clone()))?;
        let listed = objects.values().map(|object| ListedMachine {
            name: object.name().unwrap_or_else(|| object.id()).clone(),
            ..ListedMachine::default()
        });
        Ok(listed.collect())
    }

    /// The object of this name or id, if it was listed.
    pub(super) fn find(&self, name: &str) -> Option<&T> {
        let objects = self.objects.as_ref().ok()?;
        let id = self.names.get(name).map_or(name, |id| id);
        objects.get(id)
    }
}

/// Observes objects for all waiters.
#[derive(Debug)]
pub(super) struct Watch<L: Lister> {
    lister: Arc<L>,
    wake: Notify,
    followed: Arc<Followed<Arc<Round<L::Item>>>>,
    /// Whether an operation ran on an object when they were last listed.
    is_active: AtomicBool,
}

/// A subscription to one object; while it lives, the object is polled.
pub(super) struct Waiter<T>(follow::Subscription<Arc<Round<T>>>);

/// No object has this id: who waits for it waits for the list of all.
const ALL: &str = "";

impl<L: Lister> Watch<L> {
    pub(super) fn new(lister: Arc<L>) -> Self {
        Self {
            lister,
            wake: Notify::new(),
            followed: Arc::default(),
            is_active: AtomicBool::new(false),
        }
    }

    /// Whether an operation ran on an object when they were last listed.
    pub(super) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Acquire)
    }

    /// All objects, by a list that began after this call: one for all who ask meanwhile.
    pub(super) async fn list(self: &Arc<Self>) -> Arc<Round<L::Item>> {
        self.wait_for(&Arc::from(ALL)).next().await
    }

    /// Subscribes to an object.
    pub(super) fn wait_for(self: &Arc<Self>, id: &Arc<str>) -> Waiter<L::Item> {
        let (waiter, starts) = self.followed.wait_for(id);
        match starts {
            true => drop(tokio::spawn(look(self.clone()))),
            false => self.wake.notify_one(),
        }
        Waiter(waiter)
    }
}

impl<T: Listed> Waiter<T> {
    /// Which object it waits for.
    pub(super) fn id(&self) -> &Arc<str> {
        self.0.name()
    }

    /// The first look that began after this call: all that was accepted before shows in it.
    pub(super) async fn next(&mut self) -> Arc<Round<T>> {
        let since = Instant::now();
        loop {
            let round = self.0.next().await;
            if round.begun >= since {
                return round;
            }
        }
    }
}

async fn look<L: Lister>(watch: Arc<Watch<L>>) {
    let mut pause = SHORTEST;
    let mut before: HashMap<Arc<str>, String> = HashMap::new();
    loop {
        let begun = Instant::now();
        let wanted = watch.followed.names();
        let wants_all = wanted.iter().any(|id| **id == *ALL);
        let listed = watch.lister.list((!wants_all).then_some(&wanted)).await;
        let round = Round::new(begun, listed);
        let seen = watched(&watch, round.objects.as_ref().ok());
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

/// The running operations of the objects with waiters.
fn watched<L: Lister>(
    watch: &Watch<L>,
    objects: Option<&HashMap<Arc<str>, L::Item>>,
) -> HashMap<Arc<str>, String> {
    let waiting = watch.followed.names().into_iter();
    let doing = |id: Arc<str>| objects?.get(&id).map(|object| (id, object.doing()));
    waiting.filter_map(doing).collect()
}
