//! The actions of a service: one at a time, the last ones remembered for those who follow them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tokio::sync::watch;

use super::answer::Refusal;
use super::design_ref::DesignRef;
use super::rights::Permit;
use super::shipyard::Steps;
use crate::design::RunId;
use crate::plan::{Action, Leaving};
use crate::record::Requested;
use crate::report::airship::Status;
use crate::run::{RunEvent, Stop, StopHandle};
use crate::threads::lock;
use crate::workflow::Failure;

/// Actions that have ended and are remembered; the records have all that began a run.
const REMEMBERED: usize = 200;

/// An action that was asked for.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) action: Action,
    pub(super) task: Task,
    pub(super) requested: Requested,
    /// The caller, in the forms that allowed signers have.
    pub(super) principals: Arc<[Arc<str>]>,
    /// The caller's permission for it.
    pub(super) permit: Permit,
    /// When it was asked for, RFC 3339 in UTC.
    pub(super) accepted: Arc<str>,
}

/// The subject of an action.
#[derive(Debug)]
pub(super) enum Task {
    /// The site, or nodes of it.
    Nodes(Box<NodesTask>),
    /// A plan that was made before.
    Plan(PlanTask),
}

/// An action that is planned when it is asked for.
#[derive(Debug, Default)]
pub(super) struct NodesTask {
    /// The nodes, by their names; none: the site.
    pub(super) nodes: BTreeSet<Arc<str>>,
    pub(super) leaving: Leaving,
    /// Times of drains were given, which may contradict each other or the documents.
    pub(super) gives_times: bool,
    pub(super) allow_intermediate_commits: bool,
    /// The rest is carried out if a node is blocked.
    pub(super) skip_blocked: bool,
    /// Nothing is carried out: it succeeds if there is nothing to do.
    pub(super) only_tests: bool,
    pub(super) design: DesignRef,
    /// The commit of the design, if it is known already.
    pub(super) revision: Option<Arc<str>>,
}

/// A plan that is kept, and the effect that its caller approves.
#[derive(Debug)]
pub(super) struct PlanTask {
    pub(super) id: Arc<str>,
    pub(super) effect: Arc<str>,
}

impl Task {
    /// The node, if it is one.
    fn node(&self) -> Option<&str> {
        match self {
            Self::Nodes(task) if task.nodes.len() == 1 => task.nodes.first().map(|node| &**node),
            Self::Nodes(_) | Self::Plan(_) => None,
        }
    }

    fn plan(&self) -> Option<&str> {
        match self {
            Self::Nodes(_) => None,
            Self::Plan(task) => Some(&task.id),
        }
    }

    /// The subject, in words.
    fn subject(&self) -> String {
        let nodes = match self {
            Self::Plan(task) => return format!("plan {}", task.id),
            Self::Nodes(task) => &task.nodes,
        };
        let nodes: Vec<String> = nodes.iter().map(|node| format!("`{node}`")).collect();
        match &nodes[..] {
            [] => "the site".to_owned(),
            [node] => format!("node {node}"),
            nodes => format!("nodes {}", nodes.join(", ")),
        }
    }
}

/// How far an action is.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Its run, once one has begun.
    pub(super) run: Option<RunId>,
    /// How it ended, and when.
    pub(super) ended: Option<(Arc<Status>, Arc<str>)>,
}

/// An action that was begun.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) order: Order,
    pub(super) stop: Stop,
    progress: watch::Sender<Progress>,
    /// Asks its run to stop.
    run_stop: Mutex<Option<StopHandle>>,
    /// How far its steps are, in this process.
    steps: Mutex<Steps>,
    /// Once it has stopped, its run is aborted.
    is_aborted: AtomicBool,
}

/// An action as JSON.
#[derive(Serialize)]
pub(super) struct View<'a> {
    pub(super) id: &'a str,
    pub(super) url: String,
    pub(super) action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plan: Option<&'a str>,
    pub(super) state: &'static str,
    pub(super) subject: &'a str,
    pub(super) authenticated_by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context_marker: Option<&'a str>,
    pub(super) accepted: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'a Status>,
}

/// The address of an action.
pub(super) fn url(id: &str) -> String {
    format!("/api/v1/actions/{id}")
}

impl Entry {
    fn new(order: Order) -> Self {
        Self {
            order,
            stop: Stop::new(),
            progress: watch::channel(Progress::default()).0,
            run_stop: Mutex::default(),
            steps: Mutex::new(Steps::begun()),
            is_aborted: AtomicBool::default(),
        }
    }

    /// How far it is.
    pub(super) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Its status, once it has ended.
    pub(super) async fn status(&self) -> Option<Arc<Status>> {
        let mut progress = self.progress.subscribe();
        let ended = progress.wait_for(|progress| progress.ended.is_some()).await;
        let (status, _) = ended.ok()?.ended.clone()?;
        Some(status)
    }

    /// How far it is once its run has begun, or it has ended without one.
    pub(super) async fn begun(&self) -> Progress {
        let mut progress = self.progress.subscribe();
        let begun =
            progress.wait_for(|progress| progress.run.is_some() || progress.ended.is_some());
        begun.await.map(|begun| begun.clone()).unwrap_or_default()
    }

    /// Notes its run, which `stop` asks to stop.
    pub(super) fn run_begins(&self, stop: StopHandle) {
        if self.stop.is_asked() {
            stop.stop();
        }
        if self.stop.is_immediate() {
            stop.stop();
        }
        *lock(&self.run_stop) = Some(stop);
    }

    /// Notes the id of its run.
    pub(super) fn run_is(&self, run: &RunId) {
        self.progress
            .send_modify(|progress| progress.run = Some(run.clone()));
    }

    /// Takes an event of its run in.
    pub(super) fn on_event(&self, event: &RunEvent) {
        lock(&self.steps).on_event(event);
    }

    /// Reads or changes its steps.
    pub(super) fn with_steps<T>(&self, work: impl FnOnce(&mut Steps) -> T) -> T {
        work(&mut lock(&self.steps))
    }

    /// Notes why no run of it began, or that none was needed.
    pub(super) fn ends_without_run(&self, failure: Option<&Failure>, now: &Arc<str>) {
        lock(&self.steps).end_without_run(failure, now);
    }

    /// Asks it to stop; `aborts`: its run is aborted then. Asked to abort, it stays so.
    pub(super) fn stop(&self, aborts: bool) {
        self.is_aborted.fetch_or(aborts, Ordering::SeqCst);
        self.ask_to_stop();
    }

    /// Whether its run is to be aborted once it has stopped.
    pub(super) fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::SeqCst)
    }

    /// Writes it as JSON.
    pub(super) fn view<T>(&self, write: impl FnOnce(&View<'_>) -> T) -> T {
        let progress = self.progress();
        let Order {
            action,
            task,
            requested,
            accepted,
            principals: _,
            permit: _,
        } = &self.order;
        let state = match &progress.ended {
            None => "running",
            Some((status, _)) if status.reason.code < 400 => "succeeded",
            Some(_) => "failed",
        };
        write(&View {
            id: &requested.id,
            url: url(&requested.id),
            action: action.as_str(),
            node: task.node(),
            plan: task.plan(),
            state,
            subject: &requested.subject,
            authenticated_by: &requested.by,
            context_marker: requested.marker.as_deref(),
            accepted,
            run: progress.run.as_ref().map(RunId::as_str),
            ended: progress.ended.as_ref().map(|(_, at)| &**at),
            status: progress.ended.as_ref().map(|(status, _)| &**status),
        })
    }

    fn ask_to_stop(&self) {
        self.stop.handle().stop();
        if let Some(run) = &*lock(&self.run_stop) {
            run.stop();
        }
    }
}

/// The work that holds the place.
#[derive(Debug)]
enum Work {
    Action(Arc<Entry>),
    /// A run that was interrupted is resumed or aborted; it hears of signals itself.
    Resume(Arc<Resuming>),
}

/// A run that is resumed.
#[derive(Debug, Default)]
pub(super) struct Resuming {
    run_stop: Mutex<Option<StopHandle>>,
    is_stopped: AtomicBool,
    is_aborted: AtomicBool,
}

impl Resuming {
    /// Notes that its run has begun, which `stop` asks to stop.
    pub(super) fn begins(&self, stop: StopHandle) {
        let mut run_stop = lock(&self.run_stop);
        if self.is_stopped.load(Ordering::SeqCst) {
            stop.stop();
        }
        *run_stop = Some(stop);
    }

    /// Asks it to stop; `aborts`: its run is aborted then.
    pub(super) fn stop(&self, aborts: bool) {
        self.is_aborted.fetch_or(aborts, Ordering::SeqCst);
        let run_stop = lock(&self.run_stop);
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(stop) = &*run_stop {
            stop.stop();
        }
    }

    /// Whether its run is to be aborted once it has stopped.
    pub(super) fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Default)]
struct Inner {
    running: Option<Work>,
    ended: VecDeque<Arc<Entry>>,
    is_stopping: bool,
}

impl Inner {
    /// Ends an action, and remembers it.
    fn remember(&mut self, entry: Arc<Entry>, status: Status, at: Arc<str>) {
        let ended = Some((Arc::new(status), at));
        entry
            .progress
            .send_modify(|progress| progress.ended = ended);
        if entry.progress().run.is_some() {
            // From now on the records tell them.
            *lock(&entry.steps) = Steps::default();
        }
        self.ended.push_back(entry);
        if self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
    }
}

/// All actions of a service.
#[derive(Debug)]
pub(super) struct Actions {
    inner: Mutex<Inner>,
    idle: watch::Sender<bool>,
}

impl Default for Actions {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            idle: watch::channel(true).0,
        }
    }
}

impl Actions {
    /// Takes the one place for an action.
    pub(super) fn begin(&self, order: Order) -> Result<Arc<Entry>, Refusal> {
        let entry = Arc::new(Entry::new(order));
        self.take(Work::Action(entry.clone()))?;
        Ok(entry)
    }

    /// Takes the one place for an action; an action that cannot have it is one that has failed, with what `refuse` makes
    /// of it.
    pub(super) fn begin_or_fail(
        &self,
        order: Order,
        refuse: impl FnOnce(&Entry, &Refusal) -> (Status, Arc<str>),
    ) -> Result<Arc<Entry>, Arc<Entry>> {
        let entry = Arc::new(Entry::new(order));
        let Err(refusal) = self.take(Work::Action(entry.clone())) else {
            return Ok(entry);
        };
        let (status, at) = refuse(&entry, &refusal);
        let mut inner = lock(&self.inner);
        inner.remember(entry.clone(), status, at);
        Err(entry)
    }

    /// Takes the one place to resume a run.
    pub(super) fn begin_resume(&self) -> Result<Arc<Resuming>, Refusal> {
        let resuming = Arc::new(Resuming::default());
        self.take(Work::Resume(resuming.clone()))?;
        Ok(resuming)
    }

    /// The resumption that holds the place.
    pub(super) fn resuming(&self) -> Option<Arc<Resuming>> {
        match &lock(&self.inner).running {
            Some(Work::Resume(resuming)) => Some(resuming.clone()),
            _ => None,
        }
    }

    fn take(&self, work: Work) -> Result<(), Refusal> {
        let mut inner = lock(&self.inner);
        if inner.is_stopping {
            return Err(Refusal::unavailable("the service is about to end"));
        }
        match &inner.running {
            Some(Work::Action(holder)) => return Err(Refusal::conflict(held(holder))),
            Some(Work::Resume(_)) => {
                return Err(Refusal::conflict(
                    "an interrupted run of the site is being resumed",
                ));
            }
            None => {}
        }
        inner.running = Some(work);
        self.idle.send_replace(false);
        Ok(())
    }

    /// Ends what holds the place.
    pub(super) fn end(&self, ended: Option<(Status, Arc<str>)>) {
        let mut inner = lock(&self.inner);
        if let (Some(Work::Action(entry)), Some((status, at))) = (inner.running.take(), ended) {
            inner.remember(entry, status, at);
        }
        self.idle.send_replace(true);
    }

    /// An action by its id.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Entry>> {
        let all = self.all();
        all.into_iter()
            .find(|entry| *entry.order.requested.id == *id)
    }

    /// All actions, the newest first.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        let inner = lock(&self.inner);
        let running = inner.running.as_ref().and_then(|work| match work {
            Work::Action(entry) => Some(entry),
            Work::Resume(_) => None,
        });
        running
            .into_iter()
            .chain(inner.ended.iter().rev())
            .cloned()
            .collect()
    }

    /// Begins no other action, and asks the running one to stop: once gracefully, twice at once.
    pub(super) fn stop(&self) {
        let mut inner = lock(&self.inner);
        inner.is_stopping = true;
        if let Some(Work::Action(entry)) = &inner.running {
            entry.ask_to_stop();
        }
    }

    /// Whether an action or a resumption holds the place.
    pub(super) fn is_busy(&self) -> bool {
        lock(&self.inner).running.is_some()
    }

    /// Whether no other action is begun.
    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.inner).is_stopping
    }

    /// Waits until no action runs.
    pub(super) async fn idle(&self) {
        let mut idle = self.idle.subscribe();
        // The sender lives as long as `self`.
        let _ = idle.wait_for(|idle| *idle).await;
    }
}

/// The holder of the site, for those who cannot have it.
fn held(holder: &Entry) -> String {
    let Order {
        action,
        task,
        requested,
        accepted,
        principals: _,
        permit: _,
    } = &holder.order;
    let run = holder.progress().run;
    let run = run.map(|run| format!(", run {run}")).unwrap_or_default();
    format!(
        "the site is held by `{action}` of {} for {}, since {accepted} (action {}{run})",
        task.subject(),
        requested.subject,
        requested.id
    )
}
