//! Runs from the lock to the tag, alone and with a remote, on a plan by hand and scripted machines.

mod ended;
mod interrupted;
mod publishing;
mod race;
mod remote;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup::apply::{DispatchRequest, EventClock, NoPreconditions, execute, sum_up};
use trueup::backend::{ActError, Hardware, LeaseClock, Order, Pending, Probe};
use trueup::design::{Digest, GroupName, NodeDesign, NodeName, SiteName, SuccessCriteria};
use trueup::observed::ObservedNodes;
use trueup::plan::{
    Change, ChangeKind, CommitHistory, Options, Plan, PlannedGroup, Standing, Summary, Target,
};
use trueup::record::{Packed, Place, State, Store};
use trueup::repository::{
    CommitId, Holder, NewLock, ProgramTimeout, Remote, Repository, Signature,
};
use trueup::run::{
    ApprovedPlan, Begun, Committer, Connection, Error, Interrupted, Process, Proposal, Recorder,
    Resumption, SiteRepository, TakeOver, Timekeeper, begin, resume,
};
use trueup::run::{Inspection, LeaseHolder, RunEvent, RunReport, Stop};
use trueup::step::{Need, Step, StepId, StepIndex, StepKind, Wait};

use crate::git::Checkout;

/// An abort that cannot observe any machine.
pub(crate) const SEES_NOTHING: Inspection<'static> = Inspection {
    leave_cordoned: &|_| {},
    look: &|_| BTreeMap::new(),
    sum_up: &|plan, entries| sum_up(plan, entries).ok(),
};

const TIMEOUT: ProgramTimeout = ProgramTimeout::Unattended(Duration::from_secs(60));
const MINUTE: Duration = Duration::from_secs(60);

/// A clock that only moves when it is told to.
#[derive(Default)]
struct Hand {
    seconds: Arc<AtomicU64>,
    explained: Mutex<Vec<String>>,
    /// When the process is asked to stop.
    stopped_at: Option<Duration>,
}

impl Hand {
    fn new() -> Self {
        Self::default()
    }

    fn pass(&self, time: Duration) {
        self.seconds.fetch_add(time.as_secs(), Ordering::SeqCst);
    }
}

impl Timekeeper for Hand {
    fn seconds(&self) -> i64 {
        1_800_000_000 + i64::try_from(self.seconds.load(Ordering::SeqCst)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.seconds.load(Ordering::SeqCst))
    }

    fn lease_clock(&self) -> LeaseClock {
        let seconds = self.seconds.clone();
        Arc::new(move || Duration::from_secs(seconds.load(Ordering::SeqCst)))
    }

    fn pause(&self, time: Duration) {
        self.pass(time);
    }

    fn is_stopped(&self) -> bool {
        self.stopped_at.is_some_and(|stop| self.monotonic() >= stop)
    }

    fn explain(&self, waits_for: &str) {
        self.explained.lock().unwrap().push(waits_for.to_owned());
    }
}

struct Noon;

impl EventClock for Noon {
    fn now(&self) -> Arc<str> {
        Arc::from("2027-01-15T12:00:00.000Z")
    }
}

/// Machines on which some steps fail for good.
struct Machines(BTreeSet<&'static str>);

impl Hardware for Machines {
    fn observe<'a>(&'a self, _: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
        Box::pin(std::future::ready(BTreeMap::new()))
    }

    fn probe<'a>(&'a self, _: &'a Order) -> Pending<'a, Probe> {
        Box::pin(std::future::ready(Probe::NotBegun))
    }

    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>> {
        let fails = self.0.contains(order.step.id.to_string().as_str());
        Box::pin(std::future::ready(if fails {
            Err(ActError::Permanent("broken".into()))
        } else {
            Ok(())
        }))
    }
}

/// A plan that deploys these nodes in one critical group, all of which must succeed.
#[expect(clippy::too_many_lines, reason = "a plan, step by step")]
fn plan(nodes: &[&str]) -> Plan {
    use StepKind::{
        CriticalCheck, Deploy, GateDeployed, GatePrepared, Prepare, PrepareSite, StartGroup, Tag,
        VerifySite,
    };
    use Wait::{Done, Success};
    let mut steps: Vec<Step> = Vec::new();
    let mut add = |kind: StepKind, node: Option<&str>, needs: Vec<(usize, Wait)>| {
        let in_group = !matches!(kind, VerifySite | PrepareSite | CriticalCheck | Tag);
        steps.push(Step {
            id: StepId {
                kind,
                group: in_group.then(|| GroupName::from("g")),
                node: node.map(NodeName::from),
                wave: None,
            },
            timeout: 0,
            effect: kind.facts().effect,
            standby: false,
            parameters: None,
            needs: needs
                .into_iter()
                .map(|(step, wait)| Need {
                    step: StepIndex(u32::try_from(step).unwrap()),
                    wait,
                })
                .collect(),
        });
        steps.len() - 1
    };
    let verify = add(VerifySite, None, vec![]);
    let site = add(PrepareSite, None, vec![(verify, Success)]);
    let start = add(StartGroup, None, vec![(site, Success)]);
    let prepares: Vec<usize> = nodes
        .iter()
        .map(|node| add(Prepare, Some(node), vec![(start, Success)]))
        .collect();
    let mut needs = vec![(start, Success)];
    needs.extend(prepares.iter().map(|prepare| (*prepare, Done)));
    let prepared = add(GatePrepared, None, needs);
    let mut needs = vec![(prepared, Done)];
    for (node, prepare) in nodes.iter().zip(&prepares) {
        let deploy = add(
            Deploy,
            Some(node),
            vec![(*prepare, Success), (prepared, Success)],
        );
        needs.push((deploy, Done));
    }
    let deployed = add(GateDeployed, None, needs);
    let check = add(CriticalCheck, None, vec![(deployed, Done)]);
    add(Tag, None, vec![(check, Done)]);
    let change = |node: &&str| Change {
        does: None,
        node: NodeName::from(*node),
        kind: ChangeKind::Create,
        rung: None,
        group: Some(GroupName::from("g")),
        rack: None,
        blocked: None,
        excluded: false,
        shown_only: false,
        unverified: false,
        destructive: false,
        disks: Vec::new(),
        cleaning: None,
        reasons: Vec::new(),
        fields: Vec::new(),
        counts_as: Standing::NotStarted,
        machine: None,
        inventory: None,
    };
    Plan {
        site: SiteName::from("one"),
        request: trueup::plan::Request::default(),
        way_back: None,
        unfinished: None,
        target: Target {
            revision: None,
            site_digest: Digest::from("d1"),
            dirty: Vec::new(),
            repositories: BTreeMap::new(),
        },
        base: None,
        options: Options {
            parallelism: 10,
            parallel_groups: 1,
            ..Options::default()
        },
        intermediate_commits: Vec::new(),
        history: CommitHistory::default(),
        changes: nodes.iter().map(change).collect(),
        unchanged: 0,
        groups: vec![PlannedGroup {
            name: GroupName::from("g"),
            critical: true,
            depends_on: Vec::new(),
            success_criteria: SuccessCriteria {
                percent_successful_nodes: Some(100),
                minimum_successful_nodes: None,
                maximum_failed_nodes: None,
            },
            nodes: nodes.iter().map(|node| NodeName::from(*node)).collect(),
            not_deployed: BTreeMap::new(),
            retired: 0,
            waves: None,
        }],
        steps,
        relies_on: Vec::new(),
        records_digest: Digest::from("r1"),
        notices: Vec::new(),
        warnings: Vec::new(),
        policies: trueup::plan::Verdicts::default(),
        guards: trueup::plan::PlanGuards::default(),
        approvals: trueup::plan::Approvals::default(),
        summary: Summary::default(),
        forecast: trueup::plan::Forecast::default(),
        checked: None,
        rehearsal: None,
    }
}

fn actor() -> Committer {
    Committer {
        name: "Ada".to_owned(),
        email: "ada@example.org".to_owned(),
        random: 7,
    }
}

fn alone(repository: &Repository) -> SiteRepository<'_> {
    SiteRepository {
        signing: None,
        repository,
        name: SiteName::from("one"),
        connection: Connection::Alone,
        place: Place::of(repository, &SiteName::from("one"), None).unwrap(),
    }
}

fn shared(repository: &Repository) -> SiteRepository<'_> {
    SiteRepository {
        signing: None,
        connection: Connection::Shared {
            remote: repository.remote("origin", TIMEOUT).unwrap(),
            publish: true,
        },
        ..alone(repository)
    }
}

/// Plan, designs and digest of one run, kept together.
struct Job {
    plan: Plan,
    plan_file: Packed,
    digest: Digest,
    nodes: BTreeMap<NodeName, Arc<NodeDesign>>,
    commit: CommitId,
}

impl Job {
    fn new(plan: Plan, commit: CommitId) -> Self {
        Self {
            plan,
            plan_file: Packed::new(|out| out.write_all(b"the plan")).unwrap().0,
            digest: Digest::from("p1"),
            nodes: BTreeMap::new(),
            commit,
        }
    }

    fn proposal(&self) -> Proposal<'_> {
        Proposal {
            approved: ApprovedPlan {
                plan: &self.plan,
                plan_file: &self.plan_file,
                commit: self.commit,
                nodes: &self.nodes,
            },
            plan_digest: &self.digest,
            approvals: &[],
            break_glass: None,
            policy_asks: false,
            workers: None,
        }
    }
}

/// Gives the site's lock to another holder.
fn move_lock(site: &SiteRepository<'_>, time: &Hand, other: impl FnOnce(Holder) -> Holder) {
    let seen = site.repository.read_lock("one").unwrap().unwrap();
    let holder = other(seen.holder);
    let author = Signature {
        name: "Ada".to_owned(),
        email: String::new(),
        seconds: time.seconds(),
    };
    let new = NewLock {
        site: "one",
        holder: &holder,
        plan: b"the plan",
        nonce: "another",
        author,
    };
    let remote = remote_of(site);
    site.repository.move_lock(seen.id, &new, remote).unwrap();
}

/// The remote that has the site's lock, if there is one.
fn remote_of<'a>(site: &'a SiteRepository<'_>) -> Option<&'a Remote<'a>> {
    match &site.connection {
        Connection::Shared { remote, .. } => Some(remote),
        _ => None,
    }
}

/// Gives the site's lock to a process on another machine.
fn move_elsewhere(site: &SiteRepository<'_>, time: &Hand) {
    move_lock(site, time, |holder| Holder {
        host: "elsewhere".to_owned(),
        ..holder
    });
}

fn holds(_: &State) -> Result<Vec<String>, trueup::run::Error> {
    Ok(Vec::new())
}

/// Goes on with a run that was interrupted.
fn go_on<'a>(
    site: &'a SiteRepository<'a>,
    actor: &'a Committer,
    time: &'a Hand,
    found: &'a Interrupted,
    order: &'a Job,
    take_over: TakeOver,
) -> Begun<'a> {
    static NO_NODES: BTreeMap<NodeName, Arc<NodeDesign>> = BTreeMap::new();
    let (plan, decisions) = (&order.plan, BTreeMap::new());
    resume(
        Process::new(site, actor, time),
        found,
        plan,
        &NO_NODES,
        Resumption {
            decisions,
            take_over,
        },
    )
    .unwrap()
}

/// Carries a run out that has begun, from its journal to its end.
fn carry_out(
    begun: &mut Begun<'_>,
    order: &Job,
    broken: &[&'static str],
    sink: &mut dyn FnMut(&RunEvent),
) -> Result<RunReport, Error> {
    let session = &begun.session;
    let mut recorder = Recorder::new(session, sink);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let work = DispatchRequest {
        expected: None,
        scope: None,
        run: session.run().clone(),
        plan: &order.plan,
        nodes: &order.nodes,
        applied: &order.nodes,
        hardware: Arc::new(Machines(broken.iter().copied().collect())),
        log: &mut begun.journal,
        replay: begun.replay.clone(),
        clock: &Noon,
        stop: Stop::new(),
        stop_grace: None,
        stop_after: None,
        closes_after: None,
        preconditions: Arc::new(NoPreconditions),
        may_start: &|| session.lease().may_start(),
        fence: session.lease().fence(),
    };
    let finished = runtime.block_on(execute(work, &mut recorder)).unwrap();
    session.finish_heard(recorder, &finished, &Noon.now(), 0, |_| ())
}

/// A whole run.
fn apply(
    site: &SiteRepository<'_>,
    time: &Hand,
    order: &Job,
    broken: &[&'static str],
) -> Result<(RunReport, Vec<RunEvent>), Error> {
    let actor = actor();
    let mut begun = begin(
        Process::new(site, &actor, time),
        order.proposal(),
        &mut holds,
    )?;
    let mut events = Vec::new();
    let mut sink = |event: &RunEvent| events.push(event.clone());
    let report = carry_out(&mut begun, order, broken, &mut sink)?;
    Ok((report, events))
}

fn tags(checkout: &Checkout) -> Vec<String> {
    let list = checkout.git(&["tag", "--list"]);
    list.lines().map(str::to_owned).collect()
}

fn state(repository: &Repository) -> (Store<'_>, State) {
    let store = Store::open(repository, &SiteName::from("one")).unwrap();
    let state = store.read().unwrap();
    (store, state)
}
