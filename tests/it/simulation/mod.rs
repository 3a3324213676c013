//! Whole sites in process: the real loader, planner, session, journal and dispatcher on the simulator, with
//! deaths wherever one is wanted, and time that only the test moves.
//!
//! A [`Stage`] is a site in a repository. Every [`Stage::live`] is the life of one process on it: it begins a
//! run or goes on with one, and comes to its end or to the death that it was given. Nothing in it depends on
//! the machine that the test runs on, so that a life can be told again.

mod claims;
mod clones;
mod death;
mod decide;
mod disturbance;
mod domains;
mod drawn;
mod exhaustive;
mod hub;
mod ledger;
mod model;
mod processes;
mod seeds;
mod sites;
mod soaked;
mod storms;
mod workers;
mod workers_kinds;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use trueup::apply::{self, EventClock, PreconditionChecker, Preconditions};
use trueup::backend::{self, Backends, Hardware, NoSecrets};
use trueup::design::{NodeDesign, NodeName, Policy, RunId, SiteName};
use trueup::diagnostic::{Diagnostics, Sources};
use trueup::guard::Guarded;
use trueup::journal::{Decision, Journal, Log};
use trueup::plan::{self, Action, Options, Plan, Request};
use trueup::record::{NodeRecord, Place, RunFile, State, Store};
use trueup::repository::{CommitId, Holder, NewLock, Repository, Signature};
use trueup::run::{
    Committer, Connection, Error, Finished, Interrupted, LeaseHolder, Process, RunReport,
    SiteRepository, Timekeeper, ensure_site_is_free, find_interrupted,
};
use trueup::site::{Accept, At, Location};
use trueup::workflow::{
    self, AbortRequest, ApplyRequest, Asking, Caller, Carried, Checkout, Clearance, Client,
    Execution, Failure, FailureKind, Observed, PlanFile, PlanRequest, Planner, Purpose,
    ResumeRequest, RunHost, RunLimits, Steps, equip, plan_of,
};

use death::{Death, Dying, Hand, Mortal, Noon, Undertaker};
use hub::Hub;
use ledger::{Ledger, Outcome};

use crate::folder::folder;

/// The name of every simulated site.
const SITE: &str = "stage";

/// The day of every plan.
const TODAY: &str = "2027-01-15";

/// How often a session looks at its lock and its records.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Something that happens elsewhere; it may let the time of the process pass.
type Elsewhere = Box<dyn FnOnce(&Stage) + Send>;

/// When something happens elsewhere.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// While this event of a life is told.
    Event(usize),
    /// At a time of the stage.
    Time(Duration),
}

/// The clones of a stage that has a remote; the first of them is the one of a stage without.
const CLONES: [&str; 3] = ["repository", "clone-1", "clone-2"];

/// A site in a repository of its own, or in one of the clones of a remote.
struct Stage {
    folder: Arc<TempDir>,
    repository: Repository,
    /// Which of the clones that is.
    clone: usize,
    /// The remote, if there is one.
    hub: Option<Arc<Hub>>,
    clock: Hand,
    /// Every node that was ever in the design.
    names: RefCell<BTreeSet<NodeName>>,
    /// What happens elsewhere while the next life goes on.
    elsewhere: RefCell<Vec<(Moment, Elsewhere)>>,
    /// The part of a run that this process carries out.
    part: RefCell<Option<Arc<str>>>,
    /// Whether it acts before it has heard of its lease again, as a process may that was suspended.
    is_hasty: Cell<bool>,
}

/// A plan, and what a life needs to carry it out.
struct Planned {
    plan: Arc<Plan>,
    commit: CommitId,
    guarded: Guarded,
    applied: BTreeMap<NodeName, Arc<NodeDesign>>,
}

/// The command of a process.
enum RunCommand<'a> {
    /// A new run.
    Apply(&'a Planned),
    /// A resume, with decisions of the operator.
    Resume(BTreeMap<Arc<str>, Decision>),
}

/// How a life ended.
#[derive(Debug)]
enum End {
    /// At the drawn instant.
    Died,
    /// There was nothing to resume.
    Nothing,
    /// With an error, which a person would have seen.
    Failed(String),
    /// At the end of its run, or where that waits for somebody.
    Ended(Box<(RunReport, Finished)>),
}

/// A life.
#[derive(Debug)]
struct Life {
    end: End,
    /// What was said, one line each.
    told: Vec<String>,
    /// How often it came by each place where it could have died.
    passed: death::Places,
}

fn ada(seconds: i64) -> Signature {
    Signature {
        name: "Ada".to_owned(),
        email: "ada@example.org".to_owned(),
        seconds,
    }
}

impl Stage {
    /// An empty repository.
    fn new() -> Self {
        let folder = folder();
        let root = folder.path().join("repository");
        // Only what a repository has to have: samples of hooks are of no use to thousands of them.
        for part in ["objects/pack", "refs"] {
            std::fs::create_dir_all(root.join(".git").join(part)).unwrap();
        }
        std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";
        std::fs::write(root.join(".git/config"), config).unwrap();
        Self {
            repository: Repository::discover(&root).unwrap(),
            clone: 0,
            hub: None,
            folder: Arc::new(folder),
            clock: Hand::default(),
            names: RefCell::default(),
            elsewhere: RefCell::default(),
            part: RefCell::default(),
            is_hasty: Cell::default(),
        }
    }

    /// Empty clones of an empty remote.
    fn shared() -> Self {
        let folder = folder();
        hub::place(folder.path(), "origin");
        for clone in CLONES {
            hub::place(folder.path(), clone);
        }
        Self {
            repository: Repository::discover(&folder.path().join(CLONES[0])).unwrap(),
            clone: 0,
            hub: Some(Arc::new(Hub::open(folder.path()))),
            folder: Arc::new(folder),
            clock: Hand::default(),
            names: RefCell::default(),
            elsewhere: RefCell::default(),
            part: RefCell::default(),
            is_hasty: Cell::default(),
        }
    }

    /// Goes to another clone.
    fn move_to(&mut self, clone: usize) {
        self.clone = clone;
        self.repository = Repository::discover(&self.folder.path().join(CLONES[clone])).unwrap();
    }

    /// Where records, lock and tags count: the remote, if there is one.
    fn authority(&self) -> &Repository {
        self.hub
            .as_ref()
            .map_or(&self.repository, |hub| &hub.repository)
    }

    /// The same stage, for another process at the same time.
    fn alias(&self) -> Self {
        let root = self.folder.path().join(CLONES[self.clone]);
        let repository = Repository::discover(&root).unwrap();
        Self {
            folder: self.folder.clone(),
            clone: self.clone,
            hub: self.hub.clone(),
            repository,
            clock: self.clock.copy(),
            names: self.names.clone(),
            elsewhere: RefCell::default(),
            part: RefCell::default(),
            is_hasty: Cell::default(),
        }
    }

    /// The same as it is now, to be used up.
    fn copy(&self) -> Self {
        let folder = folder();
        copy(self.folder.path(), folder.path());
        let repository = Repository::discover(&folder.path().join(CLONES[self.clone])).unwrap();
        let hub = self
            .hub
            .as_ref()
            .map(|_| Arc::new(Hub::open(folder.path())));
        Self {
            folder: Arc::new(folder),
            clone: self.clone,
            hub,
            repository,
            clock: self.clock.copy(),
            names: self.names.clone(),
            elsewhere: RefCell::default(),
            part: RefCell::default(),
            is_hasty: Cell::default(),
        }
    }

    /// The worktrees of all clones.
    fn roots(&self) -> impl Iterator<Item = PathBuf> {
        let count = self.hub.as_ref().map_or(1, |_| CLONES.len());
        let clones = CLONES.iter().take(count);
        clones.map(|clone| self.folder.path().join(clone))
    }

    /// Commits documents in the place of those before.
    fn commit(&self, documents: &str) -> CommitId {
        let handle = git2::Repository::open(self.folder.path().join("repository")).unwrap();
        let mut tree = handle.treebuilder(None).unwrap();
        for (name, text) in [
            ("site-definition.yaml", sites::DEFINITION),
            ("site.yaml", documents),
        ] {
            let blob = handle.blob(text.as_bytes()).unwrap();
            tree.insert(name, blob, 0o100_644).unwrap();
            for root in self.roots() {
                std::fs::write(root.join(name), text).unwrap();
            }
        }
        let tree = handle.find_tree(tree.write().unwrap()).unwrap();
        let time = git2::Time::new(1_700_000_000, 0);
        let author = git2::Signature::new("Ada", "ada@example.org", &time).unwrap();
        let parent = handle
            .head()
            .ok()
            .map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        let commit = handle
            .commit(Some("HEAD"), &author, &author, "Documents", &tree, &parents)
            .unwrap();
        for root in self.roots() {
            std::fs::create_dir_all(root.join(".git/refs/heads")).unwrap();
            std::fs::write(root.join(".git/refs/heads/main"), format!("{commit}\n")).unwrap();
        }
        commit.to_string().parse().unwrap()
    }

    /// The machines, and all that happened to them.
    fn ledger(&self) -> Ledger {
        Ledger::read(&self.machines(), &*self.names.borrow())
    }

    /// All that a run came to.
    fn outcome(&self, report: &RunReport) -> Outcome {
        Outcome::of(&self.ledger(), self.records().1, &self.tags(), report)
    }

    /// The file of the simulated machines.
    fn machines(&self) -> PathBuf {
        match self.hub {
            Some(_) => self.folder.path().join("machines.json"),
            None => self.repository.common_dir().join("trueup/machines.json"),
        }
    }

    /// The tags of the site, sorted.
    fn tags(&self) -> Vec<String> {
        let refs = self.authority().refs("refs/tags/").unwrap();
        refs.into_keys().collect()
    }

    /// The tags that the runs in the records say they have made, sorted.
    fn tags_of_runs(&self) -> String {
        let store = Store::open(self.authority(), &SiteName::from(SITE)).unwrap();
        let (state, _) = self.records();
        let runs = store.runs(&state).unwrap().into_iter();
        let tags = runs.filter_map(|run| store.run(&state, &run).unwrap()?.tag);
        let mut tags: Vec<String> = tags.map(|tag| format!("refs/tags/{tag}")).collect();
        tags.sort();
        tags.join(" ")
    }

    /// The records as they are.
    fn records(&self) -> (State, BTreeMap<NodeName, NodeRecord>) {
        let store = Store::open(self.authority(), &SiteName::from(SITE)).unwrap();
        let state = store.read().unwrap();
        let nodes = store.nodes(&state).unwrap();
        (state, nodes)
    }

    /// The report of the last run, which nobody may have heard.
    fn last_report(&self) -> RunReport {
        let store = Store::open(self.authority(), &SiteName::from(SITE)).unwrap();
        let (state, _) = self.records();
        let run = state.site.last_run.as_ref().unwrap();
        let report = store
            .run_file(&state, run, RunFile::Report)
            .unwrap()
            .unwrap();
        serde_json::from_slice(&report).unwrap()
    }

    fn site(&self) -> SiteRepository<'_> {
        SiteRepository {
            signing: None,
            repository: &self.repository,
            name: SiteName::from(SITE),
            connection: match &self.hub {
                Some(hub) => Connection::Shared {
                    remote: self.repository.remote_through("origin", hub.clone()),
                    publish: true,
                },
                None => Connection::Alone,
            },
            place: Place::of(&self.repository, &SiteName::from(SITE), None).unwrap(),
        }
    }

    fn checkout(&self) -> Checkout<'_> {
        Checkout::find(&self.repository, "", None, None).unwrap()
    }

    fn client(&self) -> StageClient<'_> {
        StageClient {
            clock: &self.clock,
            machines: self.machines(),
        }
    }

    /// Plans what is committed; `None`: what is asked for cannot be planned.
    fn plan(&self, request: &Request, options: Options) -> Option<Planned> {
        let (checkout, site) = (self.checkout(), self.site());
        let commit = checkout.head().unwrap();
        let plan_request = PlanRequest {
            only_looks: false,
            options,
            allowed: None,
            observed: Observed::Now,
            accept: Accept::default(),
            without_forecast: false,
            by_checkpoints: false,
            gives_times: true,
            unblock: None,
            resumes: BTreeSet::new(),
            reservations: None,
        };
        let planner = Planner {
            client: &self.client(),
            checkout: &checkout,
            at: At::Commit(commit),
            connection: &site.connection,
            request,
            plan_request: &plan_request,
        };
        let planned = match planner.plan() {
            Ok(planned) => planned,
            Err(failure) => {
                let is_refused = [FailureKind::NotFound, FailureKind::Usage];
                assert!(is_refused.contains(&failure.kind), "{failure:?}");
                return None;
            }
        };
        let names = planned.guarded.nodes.keys().cloned();
        self.names.borrow_mut().extend(names);
        Some(Planned {
            plan: Arc::new(planned.plan),
            commit,
            guarded: planned.guarded,
            applied: planned.applied,
        })
    }

    /// The life of a process. It may end before its death was due.
    fn live(&self, command: &RunCommand<'_>, death: Option<Death>) -> Life {
        let undertaker = Undertaker::new(death);
        let mut told = Vec::new();
        let end = undertaker.attend(&self.clock, || self.life(command, &undertaker, &mut told));
        self.elsewhere.borrow_mut().clear();
        disturbance::mend(self);
        let end = match end {
            Some(Ok(Some(done))) => End::Ended(Box::new(done)),
            None | Some(Ok(None)) => End::Died,
            Some(Err(_)) if undertaker.came() => End::Died,
            Some(Err(Error::NothingInterrupted { .. })) => End::Nothing,
            Some(Err(error)) => End::Failed(chain(&error)),
        };
        // What is left of its lock is that of a process that is gone.
        self.bury();
        Life {
            end,
            told,
            passed: undertaker.places(),
        }
    }

    /// `None`: it died.
    fn life(
        &self,
        command: &RunCommand<'_>,
        undertaker: &Arc<Undertaker>,
        told: &mut Vec<String>,
    ) -> Result<Option<(RunReport, Finished)>, Error> {
        let (site, actor) = (self.site(), actor());
        let process = Process::new(&site, &actor, &self.clock);
        match command {
            RunCommand::Apply(planned) => {
                ensure_site_is_free(process)?;
                let file = PlanFile::of(&planned.plan).unwrap();
                self.carried(planned, undertaker, told, |execution, caller| {
                    let request = ApplyRequest {
                        execution,
                        file: &file,
                        commit: planned.commit,
                        clearance: &Clearance::without_approvals(&Policy::default()).unwrap(),
                    };
                    ended(workflow::apply(process, &request, caller))
                })
            }
            RunCommand::Resume(decisions) => {
                let interrupted = match find_interrupted(&site, None) {
                    Err(nothing @ Error::NothingInterrupted { .. }) => {
                        ensure_site_is_free(process)?;
                        return Err(nothing);
                    }
                    other => other?,
                };
                let planned = self.interrupted(&interrupted);
                self.carried(&planned, undertaker, told, |execution, caller| {
                    let request = ResumeRequest {
                        interrupted: &interrupted,
                        execution,
                        decisions: decisions.clone(),
                        take_over_dead: false,
                    };
                    ended(workflow::resume(process, &request, caller))
                })
            }
        }
    }

    /// The machines and clusters of a plan.
    fn chosen(&self, planned: &Planned) -> Arc<Backends> {
        let context = backend::BackendContext::trusting(self.machines(), Arc::new(NoSecrets));
        backend::choose(&planned.guarded, &context).unwrap()
    }

    /// Has a plan carried out by `carry`; `None`: the process died.
    fn carried<T>(
        &self,
        planned: &Planned,
        undertaker: &Arc<Undertaker>,
        told: &mut Vec<String>,
        carry: impl FnOnce(Execution<'_>, Caller<'_>) -> Result<T, workflow::Error>,
    ) -> Result<Option<T>, Error> {
        let events = Cell::new(told.len());
        let host = MortalHost {
            stage: self,
            undertaker,
            events: &events,
        };
        let caller = Caller {
            host: &host,
            events: &mut |session, event| {
                self.pass(events.get());
                told.push(serde_json::to_string(event).unwrap());
                events.set(told.len());
                self.tick(session);
            },
        };
        let execution = Execution {
            plan: &planned.plan,
            guarded: &planned.guarded,
            applied: &planned.applied,
            backends: &|| self.chosen(planned),
            refused: &BTreeMap::new(),
            renewed: &BTreeMap::new(),
            limits: RunLimits::default(),
        };
        match carry(execution, caller) {
            Ok(done) => Ok(Some(done)),
            Err(workflow::Error::Run(error)) => Err(error),
            Err(error) => {
                assert!(undertaker.came(), "{error:?}");
                Ok(None)
            }
        }
    }

    /// Loses what this clone keeps of the run that could be gone on with: whoever goes on now is in another one.
    /// Whether there is such a run.
    fn move_elsewhere(&self) -> bool {
        let Some(run) = self.interrupted_run() else {
            return false;
        };
        if let Err(error) = std::fs::remove_dir_all(self.run_files(&run)) {
            // It was moved before, and nobody has begun anything since.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
        true
    }

    /// The run that could be gone on with.
    fn interrupted_run(&self) -> Option<RunId> {
        match find_interrupted(&self.site(), None) {
            Ok(found) => Some(found.record.run),
            Err(Error::NothingInterrupted { .. }) => None,
            Err(error) => panic!("{}", chain(&error)),
        }
    }

    /// The life of a process that gives a run up; `None`: it died.
    fn give_up(&self, run: &RunId, death: Option<Death>) -> Option<Result<(), String>> {
        let undertaker = Undertaker::new(death);
        let end = undertaker.attend(&self.clock, || {
            let site = self.site();
            let actor = actor();
            let process = Process::new(&site, &actor, &self.clock);
            let (client, checkout) = (self.client(), self.checkout());
            let request = AbortRequest {
                client: &client,
                checkout: &checkout,
                run,
                take_over_dead: false,
            };
            match workflow::abort(process, request) {
                // It died when all but its tag was done.
                Err(workflow::Error::Run(Error::Ended { .. })) => ensure_site_is_free(process)
                    .map(drop)
                    .map_err(workflow::Error::Run),
                other => other.map(drop),
            }
        });
        if end.is_none() {
            self.bury();
        }
        end.map(|end| end.map_err(|error| chain(&error)))
    }

    /// The plan of a run that was interrupted.
    fn interrupted(&self, interrupted: &Interrupted) -> Planned {
        let plan = plan_of(interrupted).unwrap();
        let (checkout, site) = (self.checkout(), self.site());
        let equipped = equip(
            &self.client(),
            &checkout,
            &site,
            interrupted,
            plan,
            Purpose::Act(BTreeMap::new()),
        )
        .unwrap();
        Planned {
            plan: equipped.plan,
            commit: interrupted.commit,
            guarded: equipped.guarded,
            applied: equipped.applied,
        }
    }

    /// Lets happen elsewhere what is due.
    fn pass(&self, events: usize) {
        loop {
            let now = self.clock.now();
            let is_due = |moment: &Moment| match *moment {
                Moment::Event(event) => event <= events,
                Moment::Time(time) => time <= now,
            };
            let mut all = self.elsewhere.borrow_mut();
            let Some(next) = all.iter().position(|(moment, _)| is_due(moment)) else {
                return;
            };
            let (_, happens) = all.remove(next);
            drop(all);
            happens(self);
        }
    }

    /// What this clone keeps of a run.
    fn run_files(&self, run: &RunId) -> PathBuf {
        let runs = self.repository.common_dir().join("trueup").join(SITE);
        runs.join(run.as_str())
    }

    fn journal(&self, run: &RunId) -> PathBuf {
        let files = self.run_files(run);
        match &*self.part.borrow() {
            Some(part) => files.join("parts").join(&**part).join("journal"),
            None => files.join("journal"),
        }
    }

    /// Who has the site.
    fn lock(&self) -> Option<trueup::repository::Lock> {
        self.authority().read_lock(SITE).unwrap()
    }

    /// The lock of the process that died is one of a process that is gone.
    fn bury(&self) {
        let Some(lock) = self.lock() else {
            return;
        };
        let plan = self.authority().lock_plan(&lock).unwrap();
        let holder = Holder {
            pid: 1,
            process_start: Some(u64::MAX),
            ..lock.holder
        };
        let new = NewLock {
            site: SITE,
            holder: &holder,
            plan: &plan,
            nonce: &lock.id.to_string(),
            author: ada(lock.renewed),
        };
        let buried = self.authority().move_lock(lock.id, &new, None).unwrap();
        // The clone that had it knows it as its own all the same.
        for clone in CLONES.iter().filter(|_| self.hub.is_some()) {
            let path = format!("{clone}/.git/refs/trueup/{SITE}/lock");
            let path = self.folder.path().join(path);
            if std::fs::read_to_string(&path).is_ok_and(|id| id.trim() == lock.id.to_string()) {
                std::fs::write(&path, format!("{}\n", buried.id)).unwrap();
            }
        }
    }
}

/// The report of a run that was carried out, and how it stood.
fn ended(
    carried: Result<Carried<'_>, workflow::Error>,
) -> Result<(RunReport, Finished), workflow::Error> {
    carried.map(|carried| (carried.report, carried.finished))
}

/// Who plans on a stage, in its time.
struct StageClient<'a> {
    clock: &'a Hand,
    machines: PathBuf,
}

impl Client for StageClient<'_> {
    fn tell(&self, _: &str) {}

    fn show(&self, diagnostics: &Diagnostics, _: &Sources) {
        panic!("the site is not sound: {diagnostics:?}");
    }

    fn backends(&self, _: &Checkout<'_>, _: &Location) -> Result<backend::BackendContext, Failure> {
        let machines = self.machines.clone();
        Ok(backend::BackendContext::trusting(
            machines,
            Arc::new(NoSecrets),
        ))
    }

    fn actor(&self, _: &Repository) -> Result<Committer, Failure> {
        Ok(actor())
    }

    fn principals(&self) -> &[Arc<str>] {
        &[]
    }

    fn clock(&self) -> Box<dyn Timekeeper + '_> {
        Box::new(self.clock.copy())
    }

    fn drive(&self, _: &tokio::runtime::Runtime, asks: Asking<'_>) {
        self.clock.run(asks);
    }
}

/// A process that may die wherever one can, in the time of its stage.
struct MortalHost<'a> {
    stage: &'a Stage,
    undertaker: &'a Arc<Undertaker>,
    /// How many events were told.
    events: &'a Cell<usize>,
}

impl RunHost for MortalHost<'_> {
    fn clock(&self) -> &dyn EventClock {
        &Noon
    }

    fn drive(&self, session: &dyn LeaseHolder, steps: Steps<'_>) -> Result<Finished, apply::Error> {
        self.stage.clock.run(async {
            // Elsewhere it is another thread that does so.
            let ticks = async {
                loop {
                    tokio::time::sleep(HEARTBEAT).await;
                    session.tick();
                }
            };
            let died = || Err(apply::Error::Plan("the process died".into()));
            tokio::select! {
                biased;
                () = self.undertaker.comes() => died(),
                () = ticks => died(),
                finished = steps => finished,
            }
        })
    }

    fn may_start(&self, session: &dyn LeaseHolder) -> bool {
        self.stage.pass(self.events.get());
        self.stage.tick(session);
        session.lease().fence().holds()
    }

    fn log(&self, run: &RunId, journal: Journal) -> Box<dyn Log> {
        let path = self.stage.journal(run);
        Box::new(Dying::new(journal, path, self.undertaker.clone()))
    }

    fn hardware(&self, backends: Arc<Backends>) -> Arc<dyn Hardware> {
        Arc::new(Mortal::new(backends, self.undertaker.clone()))
    }

    fn preconditions(&self, preconditions: PreconditionChecker) -> Arc<dyn Preconditions> {
        Arc::new(Mortal::new(preconditions, self.undertaker.clone()))
    }
}

fn actor() -> Committer {
    Committer {
        name: "Ada".to_owned(),
        email: "ada@example.org".to_owned(),
        random: 7,
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_symlink() {
            let link = std::fs::read_link(entry.path()).unwrap();
            std::os::unix::fs::symlink(link, target).unwrap();
        } else if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// An error with all that caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// What an update is asked for with: everything that may be allowed is.
fn allowing_all() -> Options {
    let all = plan::Allowance {
        all: true,
        ..plan::Allowance::default()
    };
    Options {
        as_of: TODAY.into(),
        allow_redeploy: all.clone(),
        allow_destroy: all.clone(),
        adopt: all,
        skip_blocked: true,
        allow_intermediate_commits: true,
        ..Options::default()
    }
}

/// An action on nodes.
fn request(action: Action, nodes: &[&str]) -> Request {
    Request {
        action,
        nodes: nodes.iter().map(|node| Arc::from(*node)).collect(),
        reason: Some("because".into()),
        ..Request::default()
    }
}
