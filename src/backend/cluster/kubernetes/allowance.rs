//! The allowances of a cluster's budgets now, watched while a drain waits for them.
//!
//! A budget that refuses one eviction refuses all others until its status changes. So a drain asks for as
//! many evictions as a budget allows, and for the next ones when the budget has changed: not again and
//! again by time. The allowance here is a hint; the server decides whether a pod may go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::{Selector, SelectorExt};
use tokio::time::Instant;

use super::budget::{BudgetVersion, selector};
use super::discovery;
use super::evict::Answer;
use super::object::Budget;
use crate::backend::api_server::{ApiError, Event, Server, Watch};

/// How long nothing is tried after the watch could not be opened.
const REOPEN: Duration = Duration::from_secs(5);

/// A budget by namespace and name.
type Key = (Arc<str>, Arc<str>);

/// One budget as it is now.
#[derive(Debug)]
struct KnownBudget {
    selector: Selector,
    allowed: usize,
    healthy: i64,
    wanted: i64,
    /// It refused an eviction, and has not changed since.
    has_refused: bool,
    /// Evictions that are being asked for.
    asked: usize,
    /// How often it changed since it is known.
    changes: u64,
}

impl KnownBudget {
    fn of(budget: Budget, version: BudgetVersion) -> Option<(Key, Self)> {
        let key = (
            budget.metadata.namespace.clone(),
            budget.metadata.name.clone(),
        );
        let status = budget.status.clone();
        let known = Self {
            selector: selector(budget, version)?,
            allowed: usize::try_from(status.disruptions_allowed).unwrap_or_default(),
            healthy: status.current_healthy,
            wanted: status.desired_healthy,
            has_refused: false,
            asked: 0,
            changes: 0,
        };
        Some((key, known))
    }

    /// Takes over what the server does not know of.
    fn follow(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before {
            self.asked = before.asked;
            self.changes = before.changes + 1;
        }
        self
    }

    /// Whether another eviction may be asked for. One is, even if none is allowed, as long as the budget
    /// has not changed: the status that was listed may be older than the budget.
    fn has_room(&self) -> bool {
        let allowance = match (self.allowed, self.changes) {
            (0, 0) => 1,
            (allowed, _) => allowed,
        };
        !self.has_refused && self.asked < allowance
    }
}

/// The budgets of all namespaces.
#[derive(Debug)]
pub(super) struct Allowances {
    version: Option<BudgetVersion>,
    watch: Option<Watch<Budget>>,
    known: BTreeMap<Key, KnownBudget>,
    /// When the watch is opened again.
    due: Instant,
}

/// A budget that changed, and whom it is about.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) namespace: Arc<str>,
    /// `None`: all pods of the namespace.
    selector: Option<Selector>,
}

impl Changed {
    /// Whether it is about a pod with these labels.
    pub(super) fn is_about(&self, labels: &BTreeMap<String, String>) -> bool {
        let selector = self.selector.as_ref();
        selector.is_none_or(|selector| selector.matches(labels))
    }
}

impl Allowances {
    /// Nothing is known yet.
    pub(super) fn none() -> Self {
        Self {
            version: None,
            watch: None,
            known: BTreeMap::new(),
            due: Instant::now(),
        }
    }

    /// Lists the budgets, and watches them from there on, unless they are watched. Gives whether what is
    /// known was read anew. A server that refuses either costs only that evictions are retried by time.
    pub(super) async fn open(&mut self, server: &Server) -> bool {
        if self.watch.is_some() || Instant::now() < self.due {
            return false;
        }
        self.due = Instant::now() + REOPEN;
        match self.list_and_watch(server).await {
            Ok(()) => true,
            Err(error) => {
                log::debug!("budgets are not watched: {error}");
                self.known.clear();
                false
            }
        }
    }

    async fn list_and_watch(&mut self, server: &Server) -> Result<(), ApiError> {
        let version = match self.version {
            Some(version) => version,
            None => discovery::budgets(server).await?,
        };
        self.version = Some(version);
        let path = version.collection("");
        let take =
            |found: &mut Vec<_>, budget: Budget| found.extend(KnownBudget::of(budget, version));
        let parameters = ListParams::default();
        let (found, from) = server.list(&path, &parameters, Vec::new, take).await?;
        let found = found.into_iter().map(|(key, known): (Key, KnownBudget)| {
            let known = known.follow(self.known.get(&key));
            (key, known)
        });
        self.known = found.collect();
        self.watch = Some(Watch::open(server, &path, None, &from).await?);
        Ok(())
    }

    /// Whether changes are heard of.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// The next budget that changes; waits for ever if none is watched. Nothing is lost when it is not
    /// waited for to the end.
    pub(super) async fn next(&mut self) -> Option<Changed> {
        let Some(watch) = &mut self.watch else {
            return std::future::pending().await;
        };
        let Some(event) = watch.next().await else {
            self.watch = None;
            return None;
        };
        let version = self.version?;
        Some(match event {
            Event::There(budget) => {
                let namespace = budget.metadata.namespace.clone();
                let Some((key, now)) = KnownBudget::of(*budget, version) else {
                    return Some(Changed {
                        namespace,
                        selector: None,
                    });
                };
                let selector = Some(now.selector.clone());
                let now = now.follow(self.known.get(&key));
                self.known.insert(key, now);
                Changed {
                    namespace,
                    selector,
                }
            }
            Event::Gone(budget) => {
                let metadata = budget.metadata;
                let key = (metadata.namespace.clone(), metadata.name);
                let gone = self.known.remove(&key);
                Changed {
                    namespace: metadata.namespace,
                    selector: gone.map(|gone| gone.selector),
                }
            }
        })
    }

    /// The one budget that holds a pod with these labels. Pods of several are refused by the server in any
    /// case.
    fn of<'k>(
        &'k mut self,
        namespace: &Arc<str>,
        labels: &BTreeMap<String, String>,
    ) -> Option<(&'k Arc<str>, &'k mut KnownBudget)> {
        let first = (namespace.clone(), Arc::from(""));
        let here = self.known.range_mut(first..);
        let mut here = here
            .take_while(|((other, _), _)| other == namespace)
            .filter(|(_, known)| known.selector.matches(labels));
        let one = here.next();
        one.filter(|_| here.next().is_none())
            .map(|((_, name), known)| (name, known))
    }

    /// Notes that an eviction is requested, or returns the budget that allows none now. `is_forced`: it is
    /// requested in any case.
    pub(super) fn ask(
        &mut self,
        namespace: &Arc<str>,
        labels: &Arc<BTreeMap<String, String>>,
        is_forced: bool,
    ) -> Result<Asked, Arc<str>> {
        let is_watched = self.is_watched();
        let mut asked = Asked {
            namespace: namespace.clone(),
            labels: labels.clone(),
            changes: 0,
        };
        let Some((name, known)) = self.of(namespace, labels) else {
            return Ok(asked);
        };
        if is_watched && !is_forced && !known.has_room() {
            let (wanted, healthy) = (known.wanted, known.healthy);
            let text = format!("budget `{name}`, which needs {wanted} and has {healthy}");
            return Err(Arc::from(text));
        }
        known.asked += 1;
        asked.changes = known.changes;
        Ok(asked)
    }

    /// Notes the answer to an eviction. Gives whether a budget that refused it is now waited for: it
    /// allows nothing by all that is known, and its changes are heard of.
    pub(super) fn answered(&mut self, asked: &Asked, answer: Option<&Answer>) -> bool {
        let is_watched = self.is_watched();
        let Some((_, known)) = self.of(&asked.namespace, &asked.labels) else {
            return false;
        };
        known.asked = known.asked.saturating_sub(1);
        let is_news = known.changes == asked.changes;
        match answer {
            // Its status shows it a moment later, or already.
            Some(Answer::Accepted) if is_news => {
                known.allowed = known.allowed.saturating_sub(1);
                known.has_refused |= known.allowed == 0;
                false
            }
            // If it changed while the refusal was under way, no further event would come.
            Some(Answer::Budget(_)) if is_watched && (is_news || known.allowed == 0) => {
                known.has_refused = true;
                true
            }
            _ => false,
        }
    }
}

/// An eviction that is being asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) namespace: Arc<str>,
    labels: Arc<BTreeMap<String, String>>,
    changes: u64,
}
