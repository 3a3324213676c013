//! Runs whose lock, records and tags are shared through a remote.

use std::time::Duration;

use trueup::record::Outcome;
use trueup::run::{
    Connection, Error, Kind, Outlook, Process, Publication, SiteRepository, TakeOver, begin,
    ensure_site_is_free, find_interrupted, unpublished,
};
use trueup::run::{EventKind, RunEvent};

use super::{Hand, Job, actor, alone, apply, carry_out, go_on, holds, plan, shared};
use crate::git::{Checkout, Origin};

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
    let begun = begin(
        Process::new(&our_site, &actor, &time),
        order.proposal(),
        &mut holds,
    )
    .unwrap();
    let error = apply(&their_site, &time, &order, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::LockHeld);
    drop(begun);
    let run = here.read_lock("one").unwrap().unwrap().holder.run;
    // The runner is gone, with its clone: it goes on in the other one.
    let found = find_interrupted(&their_site, None).unwrap();
    assert_eq!(found.record.run.as_str(), run);
    let take = TakeOver {
        dead: true,
        longest_request: Duration::ZERO,
    };
    let mut begun = go_on(&their_site, &actor, &time, &found, &order, take);
    assert!(begun.replay.all_possibly_begun);
    let report = carry_out(&mut begun, &order, &[], &mut |_| {}).unwrap();
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
    let mut begun = begin(
        Process::new(&site, &actor, &time),
        order.proposal(),
        &mut holds,
    )
    .unwrap();
    let away = origin.path().with_extension("away");
    std::fs::rename(origin.path(), &away).unwrap();
    let mut warnings = Vec::new();
    let mut sink = |event: &RunEvent| {
        if let EventKind::Warning { message } = &event.kind {
            warnings.push(message.clone());
        }
    };
    let report = carry_out(&mut begun, &order, &[], &mut sink).unwrap();
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(
        warnings
            .iter()
            .any(|message| message.contains("in this clone")),
        "{warnings:?}"
    );
    assert!(matches!(
        begun.session.publication(),
        Some(Publication::Missing { .. })
    ));
    drop(begun);
    let left = unpublished(Process::new(&site, &actor, &time))
        .unwrap()
        .unwrap();
    assert_eq!(
        (left.run, left.outcome),
        (report.run.clone(), report.outcome)
    );
    let error = ensure_site_is_free(Process::new(&site, &actor, &time)).unwrap_err();
    assert_eq!(error.kind(), Kind::Error, "nothing can be asked: {error}");

    std::fs::rename(&away, origin.path()).unwrap();
    let tag = format!("refs/tags/{}", report.tag.unwrap());
    let refs = origin.git(&["for-each-ref", "--format=%(refname)"]);
    assert!(!refs.contains(&tag) && refs.contains("refs/trueup/one/lock"));
    // The next process publishes it before anything else, and says so once.
    let outlook = ensure_site_is_free(Process::new(&site, &actor, &time)).unwrap();
    assert_eq!(outlook.ended.unwrap().run.run, report.run);
    let refs = origin.git(&["for-each-ref", "--format=%(refname)"]);
    assert!(refs.contains(&tag) && !refs.contains("lock"), "{refs}");
    assert_eq!(
        origin.git(&["rev-parse", "refs/trueup/one/state"]),
        ours.git(&["rev-parse", "refs/trueup/one/state"])
    );
    assert_eq!(
        ensure_site_is_free(Process::new(&site, &actor, &time)).unwrap(),
        Outlook::default()
    );
    assert_eq!(
        unpublished(Process::new(&site, &actor, &time)).unwrap(),
        None
    );
}

#[test]
fn nothing_is_applied_offline_where_there_is_a_remote() {
    let checkout = Checkout::new();
    let commit = checkout.commit("one");
    let repository = checkout.open();
    let site = SiteRepository {
        signing: None,
        connection: Connection::Offline,
        ..alone(&repository)
    };
    let order = Job::new(plan(&["a"]), commit);
    let error = apply(&site, &Hand::new(), &order, &[]).unwrap_err();
    assert!(matches!(error, Error::Offline { .. }) && error.kind() == Kind::Error);
    assert!(repository.refs("refs/trueup").unwrap().is_empty());
}
