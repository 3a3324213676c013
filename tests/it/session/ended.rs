//! How runs end: records, tags, and what keeps a run from beginning.

use std::sync::Arc;
use std::time::Duration;

use trueup::design::{Digest, NodeName, RunId, SiteName};
use trueup::record::{Outcome, Phase, SiteAction, SiteState, State};
use trueup::repository::Selection;
use trueup::run::{
    Error, History, Kind, TakeOver, Timekeeper, Unlock, abort, admit, begin, find_interrupted,
    intermediate_commits, unlock,
};
use trueup::run::{EventKind, LeaseHolder, Process};

use super::{Hand, Job, MINUTE, SEES_NOTHING, actor, alone, apply, holds, plan, state, tags};
use crate::git::Checkout;

#[test]
fn a_run_that_succeeds_leaves_records_a_success_tag_and_no_lock() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = alone(&repository);
    let order = Job::new(plan(&["a", "b"]), commit);
    let (report, events) = apply(&site, &Hand::new(), &order, &[]).unwrap();
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
    let (failed, _) = apply(&site, &time, &order, &["deploy/g/b"]).unwrap();
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
    let (done, _) = apply(&site, &time, &order, &[]).unwrap();
    assert!(
        done.run > failed.run,
        "the clock stood still, the runs do not"
    );
    assert_eq!(tags(&checkout).len(), 2);
    // Nothing left to do on the commit that is tagged already.
    let mut nothing = plan(&[]);
    nothing.groups.clear();
    let (none, _) = apply(&site, &time, &Job::new(nothing, commit), &[]).unwrap();
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
    let (failed, _) = apply(&site, &time, &order, &["verify-site"]).unwrap();
    assert_eq!((failed.outcome, failed.tag), (Outcome::Failed, None));
    let mut narrowed = plan(&["a"]);
    narrowed.options.targets.insert(Arc::from("a"));
    let (partial, _) = apply(&site, &time, &Job::new(narrowed, commit), &[]).unwrap();
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
        History::Gone { .. } => "gone".to_owned(),
    };
    let none = None;
    for (what, base, target, is_rollback, wanted) in [
        ("the first action", none, c1, false, "none"),
        ("no action yet", none, c4, false, "none"),
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
                repositories: Default::default(),
                policy_asks: false,
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
    let refused = begin(
        Process::new(&site, &actor, &time),
        order.proposal(),
        &mut says,
    );
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
    let begun = begin(
        Process::new(&site, &actor, &time),
        order.proposal(),
        &mut holds,
    )
    .unwrap();
    let run = begun.session.run().clone();
    let error = apply(&site, &time, &order, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::LockHeld);
    assert!(error.to_string().contains("held by Ada"), "{error}");
    let error = unlock(Process::new(&site, &actor, &time), &run, Unlock::Dead).unwrap_err();
    assert_eq!(error.kind(), Kind::LockHeld, "this very process runs");
    assert!(begun.session.lease().may_start());
    let taken = repository.read_lock("one").unwrap().unwrap();
    time.pass(MINUTE);
    begun.session.tick();
    let renewed = repository.read_lock("one").unwrap().unwrap();
    assert_ne!(renewed.id, taken.id);
    assert_eq!(renewed.holder, taken.holder, "held since it was taken");
    time.pass(4 * MINUTE + Duration::from_secs(50));
    assert!(begun.session.lease().may_start(), "renewed");
    time.pass(Duration::from_secs(10));
    assert!(
        !begun.session.lease().may_start(),
        "the last renewal is too old"
    );

    // Dead for whoever watches it for ten minutes.
    let found = find_interrupted(&site, Some(&run)).unwrap();
    assert_eq!(found.plan.unpack("plan").unwrap(), b"the plan");
    let take_over = TakeOver {
        dead: true,
        longest_request: MINUTE,
    };
    let process = Process::new(&site, &actor, &elsewhere);
    let aborted = abort(process, &run, take_over, SEES_NOTHING).unwrap();
    assert_eq!(
        (aborted.half_done.len(), aborted.tag),
        (0, None),
        "nothing had begun"
    );
    assert!(elsewhere.monotonic() >= 11 * MINUTE);
    let explained = elsewhere.explained.lock().unwrap().join("; ");
    assert!(
        explained.contains("for 10 min") && explained.contains("for 60 s"),
        "{explained}"
    );
    begun.session.tick();
    assert!(begun.session.lease().is_lost() && !begun.session.lease().may_start());
    let (_, state) = state(&repository);
    assert_eq!(state.site.last_action, None);
}
