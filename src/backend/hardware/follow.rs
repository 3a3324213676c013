//! Objects of a provisioner that are waited for: one task follows them for all, while anyone waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::threads::lock;
use tokio::sync::watch;

/// Which objects are waited for; `T`: what is observed of one.
#[derive(Debug)]
pub(super) struct Followed<T>(Mutex<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    objects: BTreeMap<Arc<str>, Entry<T>>,
    /// Whether a task follows them.
    is_running: bool,
}

#[derive(Debug)]
struct Entry<T> {
    waiters: usize,
    observed: watch::Sender<Option<T>>,
}

/// Waits for one object, which is followed while this lives.
#[derive(Debug)]
pub(super) struct Subscription<T> {
    followed: Arc<Followed<T>>,
    name: Arc<str>,
    observed: watch::Receiver<Option<T>>,
}

impl<T> Default for Followed<T> {
    fn default() -> Self {
        Self(Mutex::new(Inner {
            objects: BTreeMap::new(),
            is_running: false,
        }))
    }
}

impl<T> Followed<T> {
    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        lock(&self.0)
    }

    /// Begins to wait for an object, and whether a task has to be started that follows it. What happens to
    /// it from now on is heard.
    pub(super) fn wait_for(self: &Arc<Self>, name: &Arc<str>) -> (Subscription<T>, bool) {
        let mut inner = self.inner();
        let entry = inner.objects.entry(name.clone()).or_insert_with(|| Entry {
            waiters: 0,
            observed: watch::Sender::new(None),
        });
        entry.waiters += 1;
        let waiter = Subscription {
            followed: self.clone(),
            name: name.clone(),
            observed: entry.observed.subscribe(),
        };
        (waiter, !std::mem::replace(&mut inner.is_running, true))
    }

    /// Tells who waits for an object what was observed of it.
    pub(super) fn tell(&self, name: &str, observed: T) {
        if let Some(entry) = self.inner().objects.get(name) {
            entry.observed.send_replace(Some(observed));
        }
    }

    /// Tells all who wait what was observed of theirs.
    pub(super) fn tell_all(&self, mut observed: impl FnMut(&Arc<str>) -> T) {
        for (name, entry) in &self.inner().objects {
            entry.observed.send_replace(Some(observed(name)));
        }
    }

    /// The names of the objects.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.inner().objects.keys().cloned().collect()
    }

    /// Whether anyone waits; if not, the task that asks has to end.
    pub(super) fn goes_on(&self) -> bool {
        let mut inner = self.inner();
        inner.is_running &= !inner.objects.is_empty();
        inner.is_running
    }
}

impl<T: Clone> Subscription<T> {
    /// Which object it waits for.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The next observation.
    pub(super) async fn next(&mut self) -> T {
        loop {
            // The sender lives as long as this does.
            if self.observed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(observed) = self.observed.borrow_and_update().clone() {
                return observed;
            }
        }
    }
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        let mut inner = self.followed.inner();
        if let Some(entry) = inner.objects.get_mut(&self.name) {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                inner.objects.remove(&self.name);
            }
        }
    }
}
