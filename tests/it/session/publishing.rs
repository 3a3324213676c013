//! Ends of runs that the remote does not take, and what becomes of them; locks that are released by hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trueup::design::{NodeName, RunId};
use trueup::plan::Standing;
use trueup::record::{Counts, Outcome, Store};
use trueup::run::{
    Error, Kind, Process, Publication, Recorder, Resumption, TakeOver, Timekeeper as _, Unlock,
    begin, catch_up, ensure_site_is_free, find_interrupted, resume, unlock, unpublished,
};
use trueup::run::{Finished, LeaseHolder, NodeResult};

use super::{
    Hand, Job, MINUTE, actor, alone, apply, carry_out, holds, move_elsewhere, plan, shared, state,
    tags,
};
use crate::git::{Checkout, Origin};

/// An origin, a clone with one commit, and the run of a plan on it.
fn published_site() -> (Origin, Checkout, Job) {
    let origin = Origin::new();
    let ours = Checkout::clone_of(&origin.url(), &[]);
    let commit = ours.commit("one");
    ours.git(&["push", "--quiet", "origin", "HEAD:main"]);
    let job = Job::new(plan(&["a", "b"]), commit);
    (origin, ours, job)
}

/// Lets the origin refuse refs that begin so; none if it is empty.
#[cfg(unix)]
fn refuse(origin: &Origin, prefix: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let hook = origin.path().join("hooks/update");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let pattern = match prefix {
        "" => "no-ref",
        prefix => prefix,
    };
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in {pattern}*) echo \"protected: $1\" >&2; exit 1;; esac\nexit 0\n"
    );
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn refs(origin: &Origin) -> String {
    origin.git(&["for-each-ref", "--format=%(refname)"])
}

#[cfg(unix)]
#[test]
fn a_state_that_is_refused_at_the_end_keeps_its_lock_and_is_published_by_the_next_command() {
    let (origin, ours, job) = published_site();
    let theirs = Checkout::clone_of(&origin.url(), &[]);
    let (here, there) = (ours.open(), theirs.open());
    let (our_site, their_site) = (shared(&here), shared(&there));
    let (time, actor) = (Hand::new(), actor());
    let mut begun = begin(
        Process::new(&our_site, &actor, &time),
        job.proposal(),
        &mut holds,
    )
    .unwrap();
    refuse(&origin, "refs/trueup/one/state");
    let report = carry_out(&mut begun, &job, &[], &mut |_| {}).unwrap();
    let Some(Publication::Missing { why }) = begun.session.publication() else {
        panic!("{:?}", begun.session.publication());
    };
    assert!(why.contains("protected: refs/trueup/one/state"), "{why}");
    drop(begun);
    let found = refs(&origin);
    assert!(
        found.contains("refs/trueup/one/lock") && !found.contains("tags"),
        "{found}"
    );

    // Nobody else takes it for a run that goes on, or never happened.
    let error = ensure_site_is_free(Process::new(&their_site, &actor, &time)).unwrap_err();
    assert!(matches!(error, Error::EndedElsewhere { .. }), "{error}");
    assert_eq!(error.kind(), Kind::LockHeld);
    let interrupted = find_interrupted(&their_site, None).unwrap();
    let error = resume(
        Process::new(&their_site, &actor, &time),
        &interrupted,
        &job.plan,
        &job.nodes,
        Resumption {
            decisions: Default::default(),
            take_over: TakeOver::default(),
        },
    );
    let error = error.err().unwrap();
    assert!(matches!(error, Error::EndedElsewhere { .. }), "{error}");
    // Here it is known, and still refused.
    let error = catch_up(Process::new(&our_site, &actor, &time)).unwrap_err();
    assert_eq!(error.kind(), Kind::Unpublished, "{error}");
    let left = unpublished(Process::new(&our_site, &actor, &time))
        .unwrap()
        .unwrap();
    assert_eq!(left.run, report.run);

    refuse(&origin, "");
    let caught_up = catch_up(Process::new(&our_site, &actor, &time))
        .unwrap()
        .unwrap();
    assert_eq!(caught_up.run.run, report.run);
    let tag = report.tag.unwrap();
    let expected = [
        "refs/heads/main",
        &format!("refs/tags/{tag}"),
        "refs/trueup/one/state",
    ];
    assert_eq!(refs(&origin).lines().collect::<Vec<_>>(), expected);
    assert_eq!(
        catch_up(Process::new(&our_site, &actor, &time)).unwrap(),
        None
    );
    ensure_site_is_free(Process::new(&their_site, &actor, &time)).unwrap();
    let (store, now) = state(&there);
    assert_eq!(store.nodes(&now).unwrap().len(), 2);
    assert_eq!(now.site.last_success.unwrap().run, report.run);
}

#[cfg(unix)]
#[test]
fn a_tag_that_is_refused_is_owed_and_made_the_same_by_any_clone() {
    let (origin, ours, job) = published_site();
    let theirs = Checkout::clone_of(&origin.url(), &[]);
    let (here, there) = (ours.open(), theirs.open());
    let (our_site, their_site) = (shared(&here), shared(&there));
    let (time, actor) = (Hand::new(), actor());
    refuse(&origin, "refs/tags/site-action");
    let mut begun = begin(
        Process::new(&our_site, &actor, &time),
        job.proposal(),
        &mut holds,
    )
    .unwrap();
    let report = carry_out(&mut begun, &job, &[], &mut |_| {}).unwrap();
    let owed = begun.session.publication();
    assert!(
        matches!(owed, Some(Publication::TagOwed { .. })),
        "{owed:?}"
    );
    drop(begun);
    let found = refs(&origin);
    assert!(
        !found.contains("lock") && !found.contains("tags") && found.contains("state"),
        "{found}"
    );
    // It stays owed, and keeps nobody from anything.
    ensure_site_is_free(Process::new(&their_site, &actor, &time)).unwrap();
    let (_, now) = state(&there);
    assert!(now.site.tags_owed.contains(&report.run));
    refuse(&origin, "");
    ensure_site_is_free(Process::new(&their_site, &actor, &time)).unwrap();
    let tag = report.tag.unwrap();
    assert_eq!(
        origin.git(&["rev-parse", &format!("refs/tags/{tag}")]),
        ours.git(&["rev-parse", &format!("refs/tags/{tag}")]),
        "the same tag, byte for byte"
    );
    // All clones see that nothing is owed any more, also if no run follows.
    assert!(state(&there).1.site.tags_owed.is_empty());
    assert!(!refs(&origin).contains("lock"), "{}", refs(&origin));
    ensure_site_is_free(Process::new(&our_site, &actor, &time)).unwrap();
    assert!(state(&here).1.site.tags_owed.is_empty());
    let (second, _) = apply(&their_site, &time, &job, &[]).unwrap();
    let (_, now) = state(&there);
    assert!(now.site.tags_owed.is_empty());
    assert_eq!(now.site.last_success.unwrap().run, second.run);
}

#[cfg(unix)]
#[test]
fn a_run_whose_first_records_are_refused_begins_nothing() {
    let (origin, ours, job) = published_site();
    let repository = ours.open();
    let site = shared(&repository);
    let (time, actor) = (Hand::new(), actor());
    refuse(&origin, "refs/trueup/one/state");
    let error = apply(&site, &time, &job, &[]).unwrap_err();
    assert!(error.to_string().contains("publish"), "{error}");
    assert_eq!(refs(&origin), "refs/heads/main");
    assert_eq!(repository.read_ref("refs/trueup/one/state").unwrap(), None);
    assert_eq!(repository.read_lock("one").unwrap(), None);
    refuse(&origin, "");
    ensure_site_is_free(Process::new(&site, &actor, &time)).unwrap();
    apply(&site, &time, &job, &[]).unwrap();
}

#[test]
fn a_run_that_would_succeed_without_a_record_of_a_node_is_not_tagged() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let (time, actor) = (Hand::new(), actor());
    let job = Job::new(plan(&["a", "b"]), commit);
    let begun = begin(
        Process::new(&site, &actor, &time),
        job.proposal(),
        &mut holds,
    )
    .unwrap();
    let node = |name: &str| NodeResult {
        node: NodeName::from(name),
        standing: Standing::Deployed,
        failed_step: None,
        message: None,
        unended_step: None,
        complete: true,
        begun: true,
        may_be_begun: false,
        duration_ms: 1,
    };
    let finished = Finished {
        outcome: Outcome::Succeeded,
        groups: Vec::new(),
        nodes: vec![node("a"), node("b")],
        counts: Counts::default(),
        standings: Default::default(),
        interrupted: false,
        critical_failed: false,
        halted: None,
        under_way: Vec::new(),
        undecided: Vec::new(),
        left: Vec::new(),
        duration_ms: 1,
    };
    let mut sink = |_: &_| {};
    let recorder = Recorder::new(&begun.session, &mut sink);
    let noon = Arc::from("2027-01-15T12:00:00.000Z");
    let error = begun
        .session
        .finish_heard(recorder, &finished, &noon, 0, |_| ())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("2 nodes are not recorded as deployed: a, b"),
        "{error}"
    );
    assert!(tags(&checkout).is_empty());
    assert!(find_interrupted(&site, None).is_ok(), "it can be resumed");
}

#[test]
fn a_lock_is_released_by_the_rule_by_which_it_is_taken_over() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let (time, actor) = (Hand::new(), actor());
    let job = Job::new(plan(&["a"]), commit);
    let begun = begin(
        Process::new(&site, &actor, &time),
        job.proposal(),
        &mut holds,
    )
    .unwrap();
    let run = begun.session.run().clone();
    drop(begun);
    move_elsewhere(&site, &time);
    // Whether the process on another machine lives cannot be told.
    let error = unlock(Process::new(&site, &actor, &time), &run, Unlock::Dead).unwrap_err();
    assert_eq!(error.kind(), Kind::LockHeld);
    let other = RunId::from("01J00000000000000000000000");
    let error = unlock(Process::new(&site, &actor, &time), &other, Unlock::Forced).unwrap_err();
    assert_eq!(error.kind(), Kind::LockHeld, "that is not its run");
    let before = time.monotonic();
    unlock(Process::new(&site, &actor, &time), &run, Unlock::Unmoved).unwrap();
    assert!(time.monotonic() - before >= 10 * MINUTE);
    assert_eq!(repository.read_lock("one").unwrap(), None);

    // Who resumes it then waits until the last request of that process has its answer.
    let found = find_interrupted(&site, None).unwrap();
    let before = time.monotonic();
    let take = TakeOver {
        dead: false,
        longest_request: MINUTE,
    };
    let begun = super::go_on(&site, &actor, &time, &found, &job, take);
    assert!(time.monotonic() - before >= MINUTE);
    drop(begun);
    move_elsewhere(&site, &time);
    unlock(Process::new(&site, &actor, &time), &run, Unlock::Forced).unwrap();
    assert_eq!(repository.read_lock("one").unwrap(), None);

    // A lock that is gone, whatever took it away, is no sign that its process is: its lease is waited out, too.
    let found = find_interrupted(&site, None).unwrap();
    let before = time.monotonic();
    let begun = super::go_on(&site, &actor, &time, &found, &job, take);
    assert!(time.monotonic() - before >= 6 * MINUTE);
    let told = time.explained.lock().unwrap().join("\n");
    assert!(
        told.contains(&format!("the lock of run {run} is gone")),
        "{told}"
    );
    drop(begun);
}

#[test]
fn a_run_that_ends_while_another_clone_waits_for_its_lock_is_not_waited_for_any_longer() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let (time, actor) = (Hand::new(), actor());
    let job = Job::new(plan(&["a"]), commit);
    let mut begun = begin(
        Process::new(&site, &actor, &time),
        job.proposal(),
        &mut holds,
    )
    .unwrap();
    let found = find_interrupted(&site, None).unwrap();
    carry_out(&mut begun, &job, &[], &mut |_| {}).unwrap();
    drop(begun);
    assert_eq!(repository.read_lock("one").unwrap(), None);
    let (before, nodes) = (time.monotonic(), BTreeMap::new());
    let how = Resumption {
        take_over: TakeOver {
            dead: true,
            longest_request: MINUTE,
        },
        ..Resumption::default()
    };
    let process = Process::new(&site, &actor, &time);
    let error = resume(process, &found, &job.plan, &nodes, how).err();
    assert!(matches!(error, Some(Error::Ended { .. })), "{error:?}");
    assert_eq!(time.monotonic(), before, "nothing is waited for");
    assert_eq!(repository.read_lock("one").unwrap(), None);
}

#[test]
fn a_process_that_sleeps_sends_nothing_that_changes_something_once_its_lease_is_old() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let (time, actor) = (Hand::new(), actor());
    let job = Job::new(plan(&["a"]), commit);
    let begun = begin(
        Process::new(&site, &actor, &time),
        job.proposal(),
        &mut holds,
    )
    .unwrap();
    let fence = begun.session.lease().fence();
    time.pass(4 * MINUTE);
    assert!(fence.holds());
    // Its clock goes on in suspend, and nobody has ticked.
    time.pass(Duration::from_secs(61));
    assert!(!fence.holds() && !fence.is_lost());
    begun.session.tick();
    assert!(
        fence.holds(),
        "nobody has taken it, and it is confirmed again"
    );
    // Another has: it is lost for good.
    move_elsewhere(&site, &time);
    time.pass(MINUTE);
    begun.session.tick();
    assert!(fence.is_lost() && !fence.holds());
    let store = Store::open(&repository, &trueup::design::SiteName::from("one")).unwrap();
    assert!(store.read().unwrap().site.last_run.is_some());
}
