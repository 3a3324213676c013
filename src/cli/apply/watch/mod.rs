//! `trueup apply remediate --watch`: stays, and remediates machines with a request, a run at a time.
//!
//! One of several watchers is active, the one that holds the Lease. The site's lock is held only while
//! there is a run. A run that crashed is resumed first, so that no host stays off. A thread
//! of its own holds the Lease, follows the watches and serves health and metrics; when the Lease is
//! lost, the running run is asked to stop.

mod metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::process::listen;
use super::{ApplyCommand, actor, apply_new, resume};
use crate::backend::{LeaseSettings, WatchListener, Watched, Watcher};
use crate::cli::context::{Context, Printer};
use crate::cli::{Failure, FailureKind};
use crate::plan::Request;
use crate::report::Visible;
use crate::repository::Repository;
use crate::run::{self, RunEvent, Stop, StopHandle, find_interrupted};
use crate::serve::{self, Address, Limits, Listener, Vitals, answer, health};
use crate::site::At;
use crate::telemetry::Scope;
use crate::threads::lock;
use crate::workflow::{self, Checkout, Client, signing_site};

use metrics::Metrics;

/// The interval of rounds without an event.
const AGAIN: Duration = Duration::from_secs(60);

/// The delay of a round after a node became Ready, or is so no more.
const CALM: Duration = Duration::from_secs(10);

/// The longest wait after a round that failed.
const LONGEST: Duration = Duration::from_secs(600);

/// How often is looked whether this process is asked to end.
const TICK: Duration = Duration::from_millis(500);

/// How long the Lease may be unknown before the process counts as not alive.
const SILENCE: Duration = Duration::from_secs(120);

/// The additional state of a watcher's run.
#[derive(Clone, Default)]
pub(super) struct Hooks(Option<Arc<Shared>>);

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
            "Hooks(watched)"
        } else {
            "Hooks"
        })
    }
}

impl Hooks {
    /// The stop of the watcher as a whole, also between two runs.
    pub(super) fn process_stop(&self) -> Option<Stop> {
        self.0.as_ref()?.process.clone()
    }

    /// A run begins, which ends when the Lease is lost.
    pub(super) fn begin(&self, stop: StopHandle) {
        let Some(shared) = &self.0 else { return };
        if !shared.is_active() {
            stop.stop();
        }
        *lock(&shared.stop) = Some(stop);
    }

    /// Something happened in it.
    pub(super) fn on_event(&self, event: &RunEvent) {
        if let Some(shared) = &self.0 {
            shared.metrics.on_event(event);
        }
    }
}

/// The shared state of the threads.
#[derive(Default)]
struct Shared {
    seen: Mutex<WatchedNames>,
    changed: Condvar,
    is_leader: AtomicBool,
    /// When the Lease was last asked for, and answered.
    heard: Mutex<Option<Instant>>,
    stop: Mutex<Option<StopHandle>>,
    /// How the process is asked to end.
    process: Option<Stop>,
    metrics: Metrics,
    printer: Option<Printer>,
    /// The last failure of each collection, and of the Lease.
    failures: Mutex<BTreeMap<Option<Watched>, String>>,
}

/// The observed requests: names.
#[derive(Default)]
struct WatchedNames {
    machines: BTreeSet<Arc<str>>,
    hosts: BTreeSet<Arc<str>>,
    not_ready: BTreeSet<Arc<str>>,
    /// Whether requests have changed since the last round.
    is_new: bool,
    /// Nodes have.
    has_new_nodes: bool,
}

impl WatchedNames {
    /// Whether there may be anything to do.
    fn asks(&self) -> bool {
        !(self.machines.is_empty() && self.hosts.is_empty())
    }

    /// Whether to look now, so long after the last round; `again`: after how long in any case.
    fn is_due(&self, since: Duration, again: Duration) -> bool {
        self.is_new || (self.has_new_nodes && since >= CALM) || since >= again
    }
}

impl Shared {
    fn is_active(&self) -> bool {
        self.is_leader.load(Ordering::Acquire)
    }

    /// Waits until something asks and this is the active watcher; `false`: the process is to end.
    fn wait(&self, again: Duration, stop: &Stop) -> bool {
        let began = Instant::now();
        let mut seen = lock(&self.seen);
        loop {
            if stop.is_asked() {
                return false;
            }
            if self.is_active() && seen.asks() && seen.is_due(began.elapsed(), again) {
                (seen.is_new, seen.has_new_nodes) = (false, false);
                return true;
            }
            let waited = self.changed.wait_timeout(seen, TICK);
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Vitals for Shared {
    /// The watcher works if it renewed or read its Lease within a while.
    fn alive(&self) -> Result<(), String> {
        match lock(&self.heard).is_none_or(|heard| heard.elapsed() < SILENCE) {
            true => Ok(()),
            false => Err("the Lease has not been read for a while".to_owned()),
        }
    }

    /// A watcher that waits for the Lease is ready to take over.
    fn ready(&self) -> Result<(), String> {
        match lock(&self.heard).is_some() {
            true => Ok(()),
            false => Err("the Lease was not read yet".to_owned()),
        }
    }

    fn metrics(&self) -> String {
        self.metrics.text()
    }
}

impl WatchListener for Shared {
    fn lease(&self, held: bool) {
        *lock(&self.heard) = Some(Instant::now());
        let was = self.is_leader.swap(held, Ordering::AcqRel);
        self.metrics.leads(held);
        if was
            && !held
            && let Some(stop) = &*lock(&self.stop)
        {
            stop.stop();
        }
        if !was && held {
            lock(&self.seen).is_new = true;
            self.changed.notify_all();
        }
    }

    fn seen(&self, watched: Watched, change: &mut dyn FnMut(&mut BTreeSet<Arc<str>>) -> bool) {
        let mut seen = lock(&self.seen);
        let names = match watched {
            Watched::Machines => &mut seen.machines,
            Watched::Hosts => &mut seen.hosts,
            Watched::Nodes => &mut seen.not_ready,
        };
        let is_changed = change(names);
        self.metrics.names(watched, names.len());
        if is_changed {
            match watched {
                Watched::Machines | Watched::Hosts => seen.is_new = true,
                Watched::Nodes => seen.has_new_nodes = true,
            }
            self.changed.notify_all();
        }
    }

    fn request_failed(&self, watched: Option<Watched>, why: &str) {
        self.metrics.request_failed();
        let before = lock(&self.failures).insert(watched, why.to_owned());
        if let Some(printer) = &self.printer
            && before.as_deref() != Some(why)
        {
            let of = watched.map_or("the Lease".to_owned(), |watched| watched.to_string());
            printer.tell(&format!("error: {of}: {}", Visible(why)));
        }
    }
}

/// Watches until it is asked to end.
pub(super) fn watch(
    context: &Context,
    command: &ApplyCommand,
    checkout: &Checkout<'_>,
    site: &run::SiteRepository<'_>,
    request: &Request,
) -> Result<u8, Failure> {
    let watcher = open(context, checkout)?;
    let stop = Stop::new();
    let shared = Arc::new(Shared {
        printer: Some(context.printer),
        process: Some(stop.clone()),
        ..Shared::default()
    });
    let identity = format!("{}_{}", host_name(), actor(site.repository)?.random);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::error(format!("the runtime could not be started: {error}")))?;
    let health = match &command.watching.listen {
        Some(address) => {
            let bound = runtime.block_on(listener(address));
            vec![bound.map_err(|error| Failure::from_error(FailureKind::Error, &error, None))?]
        }
        None => Vec::new(),
    };
    let mut command = command.clone();
    command.yes = true;
    command.arguments.leave_blocked_out();
    command.hooks = Hooks(Some(shared.clone()));
    context.printer.tell(&format!("watching as `{identity}`"));
    let lease_settings = LeaseSettings {
        lease: Arc::from(command.watching.lease.as_str()),
        identity: identity.into(),
        duration: Duration::from_secs(command.watching.lease_duration),
    };
    let rounds = Rounds {
        context,
        command: &command,
        repository: site.repository,
        request,
    };
    // The Lease is held until the last run has ended.
    let (over, is_over) = oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let (background, handle) = (shared.clone(), stop.handle());
        let background = scope.spawn(move || {
            runtime.block_on(async {
                let signals = tokio::spawn(listen(handle));
                let ended = async {
                    // Either it was sent or the other thread has panicked: it is over.
                    let _ = is_over.await;
                };
                tokio::select! {
                    () = watcher.run(lease_settings, &*background, ended) => {}
                    () = answer_health(health, background.clone()) => {}
                }
                signals.abort();
            });
        });
        rounds.run(&shared, &stop);
        drop(over);
        // The thread ends with what it was asked; whether it did so well changes nothing any more.
        let _ = background.join();
    });
    Ok(0)
}

/// Listens on an address for requests for health and metrics.
async fn listener(address: &str) -> Result<Listener, serve::Error> {
    let address = match address.parse() {
        Ok(address) => address,
        // The name of a host, which is listened on as well.
        Err(error) => {
            let found = tokio::net::lookup_host(address).await;
            let found = found.ok().and_then(|mut found| found.next());
            Address::Tcp(found.ok_or(error)?)
        }
    };
    Listener::bind(&address, None, true).await
}

/// Answers what asks for health and metrics, for ever.
async fn answer_health(listeners: Vec<Listener>, shared: Arc<Shared>) {
    let limits = Limits {
        connections: 16,
        header_time: Duration::from_secs(5),
        ..Limits::default()
    };
    let (_never, stop) = tokio::sync::watch::channel(false);
    answer(listeners, health(shared), limits, stop).await;
}

/// The rounds of a watcher, each of which may have one run.
struct Rounds<'a> {
    context: &'a Context,
    command: &'a ApplyCommand,
    repository: &'a Repository,
    request: &'a Request,
}

impl Rounds<'_> {
    /// Does a round whenever something asks for one, until the process is to end.
    fn run(&self, shared: &Shared, stop: &Stop) {
        let mut pause = Duration::ZERO;
        while shared.wait(pause.max(AGAIN), stop) {
            pause = match self.round() {
                Ok(_) => Duration::ZERO,
                Err(failure) => {
                    if !failure.message.is_empty() {
                        let message = Visible(&failure.message);
                        self.context.printer.tell(&format!("error: {message}"));
                    }
                    shared.metrics.failed_round();
                    (pause * 2).clamp(AGAIN, LONGEST)
                }
            };
        }
    }

    /// One round: an interrupted run is resumed, else requests are planned and remediated.
    fn round(&self) -> Result<u8, Failure> {
        // A trace a round: that of the command would have no end.
        let span = Scope::root("remediation round", &Default::default());
        let result = self.remediate();
        if let Err(failure) = &result {
            span.fail(&failure.message);
        }
        result
    }

    fn remediate(&self) -> Result<u8, Failure> {
        let Self {
            context,
            repository,
            ..
        } = *self;
        // The site is opened anew: a protected revision, a signer or a key that was trusted in an earlier round counts for
        // no later one.
        let checkout = &context.checkout(repository)?;
        let remote = &self.command.arguments.remote;
        let site = &signing_site(checkout, remote.lasting_connection(repository)?)?;
        if find_interrupted(site, None).is_ok() {
            let mut command = self.command.clone();
            command.resume = true;
            command.take_over_dead = true;
            return resume::resume(context, &command, checkout, site);
        }
        apply_new(context, self.command, checkout, site, self.request)
    }
}

fn open(context: &Context, checkout: &Checkout<'_>) -> Result<Watcher, Failure> {
    let at = At::Commit(checkout.head()?);
    let location = checkout.location_at(at)?;
    let mut loader = checkout.loader()?;
    let loaded = loader.load(&location, at, workflow::AS_APPLIED)?;
    let backends = context.backends(checkout, &location)?;
    let guards = checkout.documented(&loaded)?.guards;
    let watcher = Watcher::open(&guards, &backends)
        .map_err(|error| workflow::backend_failure(&error, &loader))?;
    watcher.ok_or_else(|| {
        Failure::new(
            FailureKind::Usage,
            "`--watch` follows the Machines and hosts of Metal3, and no machine of this site is moved by it",
        )
        .hint("`trueup apply remediate NODE` remediates a machine of any backend")
    })
}

/// The name of this machine or pod.
fn host_name() -> String {
    let named = std::env::var("HOSTNAME").ok();
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "trueup".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ColorChoice;
    use crate::cli::apply::ProcessClock;
    use crate::run::Timekeeper;

    #[test]
    fn what_a_watcher_waits_for_ends_when_its_process_is_to_end() {
        let stop = Stop::new();
        let shared = Shared {
            process: Some(stop.clone()),
            ..Shared::default()
        };
        let hooks = Hooks(Some(Arc::new(shared)));
        let clock =
            ProcessClock::new(Printer::new(ColorChoice::Never)).stopped_by(hooks.process_stop());
        assert!(!clock.is_stopped());
        stop.handle().stop();
        // Without the stop this would take a year.
        clock.pause(Duration::from_secs(365 * 24 * 3600));
        assert!(clock.is_stopped());
    }
}
