//! Runs from the lock to the tag, alone and with a remote, on a plan by hand and scripted machines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trueup::apply::session::{
    Actor, Connection, Error, HalfDone, History, Kind, Proposal, Recorder, Session, Site, TakeOver,
    Timekeeper, abort, admit, begin, find_interrupted, intermediate_commits, resume, unlock,
};
use trueup::apply::{
    Clock, Event, EventKind, Finished, NoPreconditions, Replay, RunReport, Stop, Work, execute,
};
use trueup::backend::{ActError, Hardware, Order, Pending, Probe};
use trueup::design::{Digest, GroupName, NodeDesign, NodeName, RunId, SiteName, SuccessCriteria};
use trueup::journal::Journal;
use trueup::observed::ObservedNode;
use trueup::plan::{Change, ChangeKind, Options, Plan, PlannedGroup, Standing, Summary, Target};
use trueup::record::{Outcome, Packed, Phase, SiteAction, SiteState, State, Store};
use trueup::repository::{CommitId, Holder, NewLock, Patience, Repository, Selection, Signature};
use trueup::step::{Need, Step, StepId, StepIndex, StepKind, Wait};

use crate::git::{Checkout, Origin};

const PATIENCE: Patience = Patience::Unattended(Duration::from_secs(60));
const MINUTE: Duration = Duration::from_secs(60);

/// A clock that only moves when it is told to.
struct Hand(AtomicU64);

impl Hand {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_secs(), Ordering::SeqCst);
    }
}

impl Timekeeper for Hand {
    fn seconds(&self) -> i64 {
        1_800_000_000 + i64::try_from(self.0.load(Ordering::SeqCst)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }

    fn pause(&self, time: Duration) {
        self.pass(time);
    }
}

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Arc<str> {
        Arc::from("2027-01-15T12:00:00.000Z")
    }
}

/// Machines on which some steps fail for good.
struct Machines(BTreeSet<&'static str>);

impl Hardware for Machines {
    fn observe<'a>(
        &'a self,
        _: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, ObservedNode>> {
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
        group: Some(GroupName::from("g")),
        blocked: None,
        excluded: false,
        shown_only: false,
        destructive: false,
        disks: Vec::new(),
        cleaning: None,
        reasons: Vec::new(),
        fields: Vec::new(),
        counts_as: Standing::NotStarted,
    };
    Plan {
        site: SiteName::from("one"),
        action: Arc::from("update"),
        target: Target {
            revision: None,
            site_digest: Digest::from("d1"),
            dirty: Vec::new(),
        },
        base: None,
        options: Options {
            parallelism: 10,
            parallel_groups: 1,
            ..Options::default()
        },
        intermediate_commits: Vec::new(),
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
            retired: 0,
        }],
        steps,
        relies_on: Vec::new(),
        records_digest: Digest::from("r1"),
        warnings: Vec::new(),
        summary: Summary::default(),
        forecast: trueup::plan::Forecast::default(),
    }
}

fn actor() -> Actor {
    Actor {
        name: "Ada".to_owned(),
        email: "ada@example.org".to_owned(),
        random: 7,
    }
}

fn alone(repository: &Repository) -> Site<'_> {
    Site {
        repository,
        name: SiteName::from("one"),
        connection: Connection::Alone,
    }
}

fn shared(repository: &Repository) -> Site<'_> {
    Site {
        connection: Connection::Shared {
            remote: repository.remote("origin", PATIENCE).unwrap(),
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

    fn proposal(&self, supersede: bool) -> Proposal<'_> {
        Proposal {
            plan: &self.plan,
            plan_file: &self.plan_file,
            plan_digest: &self.digest,
            commit: self.commit,
            nodes: &self.nodes,
            supersede,
        }
    }
}

fn holds(_: &State) -> Result<Vec<String>, trueup::record::Error> {
    Ok(Vec::new())
}

fn dispatch(
    session: &Session<'_>,
    order: &Job,
    journal: &mut Journal,
    replay: Replay,
    broken: &[&'static str],
    recorder: &mut Recorder<'_, '_>,
) -> Finished {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let work = Work {
        run: session.run().clone(),
        plan: &order.plan,
        nodes: &order.nodes,
        applied: &order.nodes,
        hardware: Arc::new(Machines(broken.iter().copied().collect())),
        log: journal,
        replay,
        clock: &Noon,
        stop: Stop::new(),
        stop_grace: None,
        stop_after: None,
        preconditions: Arc::new(NoPreconditions),
        may_start: &|| session.may_start(),
    };
    runtime.block_on(execute(work, recorder)).unwrap()
}

/// A whole run.
fn apply(
    site: &Site<'_>,
    time: &Hand,
    order: &Job,
    broken: &[&'static str],
    supersede: bool,
) -> Result<(RunReport, Vec<Event>), Error> {
    let actor = actor();
    let mut begun = begin(site, &actor, time, order.proposal(supersede), &mut holds)?;
    let mut events = Vec::new();
    let mut sink = |event: &Event| events.push(event.clone());
    let mut recorder = Recorder::new(&begun.session, &mut sink);
    let finished = dispatch(
        &begun.session,
        order,
        &mut begun.journal,
        begun.replay.clone(),
        broken,
        &mut recorder,
    );
    let report = recorder.finish(&finished, &Noon.now(), 0)?;
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

#[test]
fn a_run_that_succeeds_leaves_records_a_success_tag_and_no_lock() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let order = Job::new(plan(&["a", "b"]), commit);
    let (report, events) = apply(&site, &Hand::new(), &order, &[], false).unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    let tag = report.tag.clone().unwrap();
    assert_eq!(*tag, *format!("site-action-success/one/{}", report.run));
    let message = checkout.git(&["tag", "--list", "--format=%(contents)", &tag]);
    assert!(
        message.starts_with(&format!("dag_id: {}\naction: update\n", report.run)),
        "{message}"
    );
    assert!(
        message.contains("nodes: 2 succeeded, 0 failed, 0 not started"),
        "{message}"
    );
    assert_eq!(
        checkout.git(&["rev-parse", &format!("{tag}^{{commit}}")]),
        commit.to_string()
    );
    let (store, state) = state(&repository);
    let nodes = store.nodes(&state).unwrap();
    assert!(
        nodes
            .values()
            .all(|node| node.phase == Phase::Deployed && node.last_error.is_none())
    );
    assert_eq!(nodes.len(), 2);
    assert_eq!(state.site.last_success.unwrap().run, report.run);
    assert!(repository.read_lock("one").unwrap().is_none());
    assert!(matches!(
        events.last().unwrap().kind,
        EventKind::RunFinished { .. }
    ));
    assert!(
        events
            .iter()
            .any(|event| matches!(event.kind, EventKind::Checkpoint { .. }))
    );
    let directory = repository
        .common_dir()
        .join("trueup/one")
        .join(report.run.as_str());
    assert!(!directory.exists(), "what is published needs no journal");
}

#[test]
fn one_commit_carries_a_failure_and_then_a_success_from_another_run() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let time = Hand::new();
    let order = Job::new(plan(&["a", "b"]), commit);
    let (failed, _) = apply(&site, &time, &order, &["deploy/g/b"], false).unwrap();
    assert_eq!(failed.outcome, Outcome::Failed);
    assert!(
        failed
            .tag
            .as_ref()
            .unwrap()
            .starts_with("site-action-failure/one/")
    );
    let (store, now) = state(&repository);
    assert_eq!(now.site.last_success, None);
    let b = store.node(&now, &NodeName::from("b")).unwrap().unwrap();
    assert_eq!(
        (b.phase, b.last_error.as_deref()),
        (Phase::Failed, Some("broken"))
    );
    let (done, _) = apply(&site, &time, &order, &[], false).unwrap();
    assert!(
        done.run > failed.run,
        "the clock stood still, the runs do not"
    );
    assert_eq!(tags(&checkout).len(), 2);
    // Nothing left to do on the commit that is tagged already.
    let mut nothing = plan(&[]);
    nothing.groups.clear();
    let (none, _) = apply(&site, &time, &Job::new(nothing, commit), &[], false).unwrap();
    assert_eq!((none.outcome, none.tag), (Outcome::Succeeded, None));
}

#[test]
fn a_run_that_could_not_change_anything_or_left_changes_out_makes_no_tag() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let time = Hand::new();
    let order = Job::new(plan(&["a"]), commit);
    let (failed, _) = apply(&site, &time, &order, &["verify-site"], false).unwrap();
    assert_eq!((failed.outcome, failed.tag), (Outcome::Failed, None));
    let mut narrowed = plan(&["a"]);
    narrowed.options.targets.insert(Arc::from("a"));
    let (partial, _) = apply(&site, &time, &Job::new(narrowed, commit), &[], false).unwrap();
    assert_eq!((partial.outcome, partial.tag), (Outcome::Succeeded, None));
    let (store, now) = state(&repository);
    assert_eq!(now.site.last_action, None);
    assert!(store.run(&now, &partial.run).unwrap().unwrap().partial);
    assert_eq!(
        store.nodes(&now).unwrap().len(),
        1,
        "its records count all the same"
    );
}

#[test]
fn intermediate_commits_are_those_of_this_site_between_the_last_action_and_the_target() {
    let checkout = Checkout::new();
    let commit = |path: &str, text: &str| {
        checkout.write(path, text);
        checkout.commit(text)
    };
    let c1 = commit("one/a.yaml", "1");
    let c2 = commit("one/a.yaml", "2");
    let c3 = commit("two/a.yaml", "3");
    let c4 = commit("one/a.yaml", "4");
    let c5 = commit("one/a.yaml", "5");
    checkout.git(&["checkout", "--quiet", "-b", "side", &c2.to_string()]);
    let side = commit("one/b.yaml", "side");
    let repository = checkout.open();
    let selection = Selection::below(["one"]);
    let listed = |history: History| match history {
        History::None => "none".to_owned(),
        History::Between(commits) | History::Rollback(commits) => {
            let subjects: Vec<_> = commits.iter().map(|commit| &*commit.subject).collect();
            subjects.join(" ")
        }
        History::Diverged { .. } => "diverged".to_owned(),
    };
    let none = None;
    for (what, base, target, is_rollback, wanted) in [
        ("the first action", none, c1, false, "none"),
        ("no action yet", none, c4, false, "2 1"),
        ("the same commit", Some(c2), c2, false, "none"),
        ("the next commit", Some(c1), c2, false, "none"),
        ("another site's commit", Some(c2), c4, false, "none"),
        ("one between", Some(c2), c5, false, "4"),
        ("two between", Some(c1), c5, false, "4 2"),
        ("another line", Some(c4), side, false, "diverged"),
        ("back by two", Some(c5), c3, true, "5 4"),
        ("back by another site's", Some(c3), c2, false, "none"),
    ] {
        let state = SiteState {
            last_action: base.map(|base| SiteAction {
                run: RunId::from("R1"),
                revision: Arc::from(base.to_string()),
                site_digest: Digest::from("d"),
            }),
            ..SiteState::default()
        };
        let name = SiteName::from("one");
        let found = intermediate_commits(&repository, &name, &selection, &state, target).unwrap();
        assert_eq!(matches!(found, History::Rollback(_)), is_rollback, "{what}");
        assert_eq!(listed(found), wanted, "{what}");
        let site = alone(&repository);
        let mut plan = plan(&["a"]);
        let digest = plan.target.site_digest.clone();
        let refused = admit(&site, &selection, &state, &plan, target, &digest);
        let is_refused = refused
            .as_ref()
            .is_err_and(|error| error.kind() == Kind::Guard);
        assert_eq!(is_refused, wanted != "none", "{what}: {refused:?}");
        plan.options.allow_intermediate_commits = true;
        admit(&site, &selection, &state, &plan, target, &digest).unwrap();
    }
}

#[test]
fn a_plan_for_other_files_is_stale_and_a_dirty_worktree_is_refused() {
    let checkout = Checkout::new();
    checkout.write("a.yaml", "1");
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let (none, everything) = (SiteState::default(), Selection::everything());
    let plan = plan(&["a"]);
    let other = Digest::from("d2");
    let stale = admit(&site, &everything, &none, &plan, commit, &other).unwrap_err();
    assert_eq!(stale.kind(), Kind::Stale);
    checkout.write("a.yaml", "2");
    let digest = plan.target.site_digest.clone();
    let dirty = admit(&site, &everything, &none, &plan, commit, &digest).unwrap_err();
    assert!(matches!(dirty, Error::Dirty { .. }) && dirty.kind() == Kind::Guard);

    let order = Job::new(plan, commit);
    let (actor, time) = (actor(), Hand::new());
    let mut says = |_: &State| Ok(vec!["the records have moved".to_owned()]);
    let refused = begin(&site, &actor, &time, order.proposal(false), &mut says);
    let error = refused.err().unwrap();
    assert_eq!(error.kind(), Kind::Stale);
    assert!(
        repository.read_lock("one").unwrap().is_none(),
        "released again"
    );
}

#[test]
fn a_held_lock_keeps_the_next_run_out_until_it_is_dead() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let time = Hand::new();
    let order = Job::new(plan(&["a"]), commit);
    let (actor, elsewhere) = (actor(), Hand::new());
    let begun = begin(&site, &actor, &time, order.proposal(false), &mut holds).unwrap();
    let run = begun.session.run().clone();
    let error = apply(&site, &time, &order, &[], true).unwrap_err();
    assert_eq!(error.kind(), Kind::LockHeld);
    assert!(error.to_string().contains("held by Ada"), "{error}");
    let error = unlock(&site, &actor, &time, &run).unwrap_err();
    assert_eq!(error.kind(), Kind::LockHeld, "this very process runs");
    assert!(begun.session.may_start());
    time.pass(MINUTE);
    begun.session.tick();
    time.pass(4 * MINUTE + Duration::from_secs(50));
    assert!(begun.session.may_start(), "renewed");
    time.pass(Duration::from_secs(10));
    assert!(!begun.session.may_start(), "the last renewal is too old");

    // Dead for whoever watches it for ten minutes.
    let found = find_interrupted(&site, Some(&run)).unwrap();
    assert_eq!(found.plan.unpack("plan").unwrap(), b"the plan");
    let take_over = TakeOver {
        dead: true,
        longest_request: MINUTE,
    };
    let aborted = abort(&site, &actor, &elsewhere, &run, take_over).unwrap();
    assert_eq!(
        (aborted.half_done.len(), aborted.tag),
        (0, None),
        "nothing had begun"
    );
    assert!(elsewhere.monotonic() >= 11 * MINUTE);
    begun.session.tick();
    assert!(begun.session.is_lost() && !begun.session.may_start());
    let (_, state) = state(&repository);
    assert_eq!(state.site.last_action, None);
}

/// A run that stops after its group was prepared, as a killed process leaves it.
fn killed(repository: &Repository, site: &Site<'_>, time: &Hand, order: &Job) -> RunId {
    use trueup::apply::{Entry, NodeOutcome, StepOutcome};
    let actor = actor();
    let mut begun = begin(site, &actor, time, order.proposal(false), &mut holds).unwrap();
    for step in ["verify-site", "prepare-site", "start/g", "prepare/g/a"] {
        let ended = Entry::Ended {
            step: Arc::from(step),
            outcome: StepOutcome::Succeeded,
            attempted: true,
            duration_ms: 1,
        };
        begun.journal.append(&ended).unwrap();
    }
    let prepare = order
        .plan
        .steps
        .iter()
        .find(|step| step.id.to_string() == "prepare/g/a");
    let id = &prepare.unwrap().id;
    let outcome = NodeOutcome::of(id, &StepOutcome::Succeeded, true, &[]).unwrap();
    trueup::apply::Listener::node_changed(&mut Recorder::new(&begun.session, &mut |_| {}), outcome);
    begun
        .journal
        .append(&Entry::Intent {
            step: Arc::from("prepare/g/b"),
        })
        .unwrap();
    begun.journal.commit().unwrap();
    let run = begun.session.run().clone();
    drop(begun);
    // The lock is a process's that is gone.
    let seen = site.repository.read_lock("one").unwrap().unwrap();
    let holder = Holder {
        pid: 1,
        process_start: Some(u64::MAX),
        ..seen.holder
    };
    let author = Signature {
        name: "Ada".to_owned(),
        email: String::new(),
        seconds: time.seconds(),
    };
    let new = NewLock {
        site: "one",
        holder: &holder,
        plan: b"the plan",
        nonce: "killed",
        author,
    };
    let remote = match &site.connection {
        Connection::Shared { remote, .. } => Some(remote),
        _ => None,
    };
    repository.move_lock(seen.id, &new, remote).unwrap();
    run
}

#[test]
fn a_killed_run_goes_on_with_its_plan_and_commit_and_is_tagged_once() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let time = Hand::new();
    let order = Job::new(plan(&["a", "b"]), commit);
    let run = killed(&repository, &site, &time, &order);
    checkout.commit("later");

    let error = apply(&site, &time, &order, &[], false).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted, "{error}");
    let found = find_interrupted(&site, None).unwrap();
    assert_eq!((&found.record.run, found.commit), (&run, commit));
    let (actor, nodes) = (actor(), BTreeMap::new());
    let decisions = BTreeMap::new();
    let take = TakeOver::default();
    let mut begun = resume(
        &site,
        &actor,
        &time,
        &found,
        &order.plan,
        &nodes,
        decisions,
        take,
    )
    .unwrap();
    assert!(!begun.replay.all_possibly_begun && begun.replay.entries.len() == 5);
    let mut steps = Vec::new();
    let mut sink = |event: &Event| {
        if let EventKind::StepStarted { step, .. } = &event.kind {
            steps.push(step.to_string());
        }
    };
    let mut recorder = Recorder::new(&begun.session, &mut sink);
    let finished = dispatch(
        &begun.session,
        &order,
        &mut begun.journal,
        begun.replay.clone(),
        &[],
        &mut recorder,
    );
    let report = recorder.finish(&finished, &Noon.now(), 0).unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(!steps.contains(&"prepare/g/a".to_owned()), "{steps:?}");
    assert_eq!(tags(&checkout), [format!("site-action-success/one/{run}")]);
    let (store, now) = state(&repository);
    assert_eq!(
        now.site.last_success.as_ref().unwrap().revision.to_string(),
        commit.to_string()
    );
    assert!(
        store
            .nodes(&now)
            .unwrap()
            .values()
            .all(|node| node.phase == Phase::Deployed)
    );
    let ended = find_interrupted(&site, Some(&run)).unwrap_err();
    assert!(matches!(ended, Error::Ended { .. }), "{ended}");
}

#[test]
fn a_killed_run_that_is_given_up_is_tagged_as_failed_and_says_what_stays_half_done() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let time = Hand::new();
    let order = Job::new(plan(&["a", "b"]), commit);
    let run = killed(&repository, &site, &time, &order);
    let aborted = abort(&site, &actor(), &time, &run, TakeOver::default()).unwrap();
    let said: Vec<_> = aborted
        .half_done
        .iter()
        .map(|each| match each {
            HalfDone::Node { node, phase, .. } => format!("{node} {phase:?}"),
            HalfDone::Step { step } => step.to_string(),
        })
        .collect();
    assert_eq!(said, ["a Unknown", "b Unknown", "prepare/g/b"]);
    assert_eq!(tags(&checkout), [format!("site-action-failure/one/{run}")]);
    assert!(repository.read_lock("one").unwrap().is_none());

    // A new run does the same where it is told to.
    let second = killed(&repository, &site, &time, &order);
    let (report, _) = apply(&site, &time, &order, &[], true).unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(tags(&checkout).contains(&format!("site-action-failure/one/{second}")));
    assert!(tags(&checkout).contains(&format!("site-action-success/one/{}", report.run)));
}

#[test]
fn two_clones_share_lock_records_and_tags_through_their_remote() {
    let origin = Origin::new();
    let ours = Checkout::clone_of(&origin.url(), &[]);
    let commit = ours.commit("one");
    ours.git(&["push", "--quiet", "origin", "HEAD:main"]);
    let theirs = Checkout::clone_of(&origin.url(), &[]);
    let (here, there) = (ours.open(), theirs.open());
    let (our_site, their_site) = (shared(&here), shared(&there));
    let time = Hand::new();
    let order = Job::new(plan(&["a", "b"]), commit);
    let actor = actor();
    let begun = begin(&our_site, &actor, &time, order.proposal(false), &mut holds).unwrap();
    let error = apply(&their_site, &time, &order, &[], false).unwrap_err();
    assert_eq!(error.kind(), Kind::LockHeld);
    drop(begun);
    let run = here.read_lock("one").unwrap().unwrap().holder.run;
    // The runner is gone, with its clone: it goes on in the other one.
    let found = find_interrupted(&their_site, None).unwrap();
    assert_eq!(found.record.run.as_str(), run);
    let nodes = BTreeMap::new();
    let take = TakeOver {
        dead: true,
        longest_request: Duration::ZERO,
    };
    let decisions = BTreeMap::new();
    let mut begun = resume(
        &their_site,
        &actor,
        &time,
        &found,
        &order.plan,
        &nodes,
        decisions,
        take,
    )
    .unwrap();
    assert!(begun.replay.all_possibly_begun);
    let mut sink = |_: &Event| {};
    let mut recorder = Recorder::new(&begun.session, &mut sink);
    let replay = begun.replay.clone();
    let finished = dispatch(
        &begun.session,
        &order,
        &mut begun.journal,
        replay,
        &[],
        &mut recorder,
    );
    let report = recorder.finish(&finished, &Noon.now(), 0).unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    let refs = origin.git(&["for-each-ref", "--format=%(refname)"]);
    let refs: Vec<_> = refs.lines().collect();
    let tag = format!("refs/tags/site-action-success/one/{run}");
    assert_eq!(
        refs,
        ["refs/heads/main", tag.as_str(), "refs/trueup/one/state"]
    );
}

#[test]
fn a_remote_that_does_not_answer_at_the_end_is_caught_up_by_the_next_run() {
    let origin = Origin::new();
    let ours = Checkout::clone_of(&origin.url(), &[]);
    let commit = ours.commit("one");
    ours.git(&["push", "--quiet", "origin", "HEAD:main"]);
    let repository = ours.open();
    let site = shared(&repository);
    let (time, actor) = (Hand::new(), actor());
    let order = Job::new(plan(&["a"]), commit);
    let mut begun = begin(&site, &actor, &time, order.proposal(false), &mut holds).unwrap();
    let away = origin.path().with_extension("away");
    std::fs::rename(origin.path(), &away).unwrap();
    let mut warnings = Vec::new();
    let mut sink = |event: &Event| {
        if let EventKind::Warning { message } = &event.kind {
            warnings.push(message.clone());
        }
    };
    let mut recorder = Recorder::new(&begun.session, &mut sink);
    let replay = Replay::default();
    let finished = dispatch(
        &begun.session,
        &order,
        &mut begun.journal,
        replay,
        &[],
        &mut recorder,
    );
    let report = recorder.finish(&finished, &Noon.now(), 0).unwrap();
    std::fs::rename(&away, origin.path()).unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(
        warnings
            .iter()
            .any(|message| message.contains("in this clone")),
        "{warnings:?}"
    );
    let tag = format!("refs/tags/{}", report.tag.unwrap());
    assert!(!origin.git(&["for-each-ref"]).contains(&tag));
    // The lock stayed: here it is this living process's, which a person may know better.
    let lock = repository.read_lock("one").unwrap().unwrap();
    repository
        .release_lock(
            "one",
            lock.id,
            Some(&repository.remote("origin", PATIENCE).unwrap()),
        )
        .unwrap();
    apply(&site, &time, &order, &[], false).unwrap();
    assert!(origin.git(&["for-each-ref"]).contains(&tag));
}

#[test]
fn nothing_is_applied_offline_where_there_is_a_remote() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = Site {
        connection: Connection::Offline,
        ..alone(&repository)
    };
    let order = Job::new(plan(&["a"]), commit);
    let error = apply(&site, &Hand::new(), &order, &[], false).unwrap_err();
    assert!(matches!(error, Error::Offline { .. }) && error.kind() == Kind::Error);
    assert!(repository.refs("refs/trueup").unwrap().is_empty());
}
