//! The records of a site on their ref, alone and with a remote.

use std::sync::Arc;
use std::time::Duration;

use trueup::design::{NodeName, RunId, Section, SectionDigest, SiteName};
use trueup::record::{
    Checkpoint, Counts, Error, ExchangeOutcome, NodeRecord, Outcome, Packed, Phase, RunFile,
    RunRecord, State, Store, Unproven,
};
use trueup::repository::{CommitId, ProgramTimeout, PushOutcome, Repository, Signature};

use crate::git::{Checkout, Origin};

const TIMEOUT: ProgramTimeout = ProgramTimeout::Unattended(Duration::from_secs(60));

fn node(name: &str, phase: Phase) -> NodeRecord {
    NodeRecord {
        phase,
        digests: [(Section::Storage, SectionDigest([7; 32]))]
            .into_iter()
            .collect(),
        revision: Some(Arc::from("0123456789")),
        ..NodeRecord::blank(NodeName::from(name), RunId::from("R1"))
    }
}

fn run(id: &str, outcome: Outcome, tag: Option<&str>) -> RunRecord {
    RunRecord {
        run: RunId::from(id),
        site: SiteName::from("one"),
        action: Arc::from("update"),
        revision: Arc::from(format!("revision of {id}")),
        site_digest: Arc::from("d1"),
        plan_digest: Arc::from("d2"),
        started: Arc::from("2026-01-01T00:00:00Z"),
        ended: None,
        outcome,
        partial: false,
        unverified: 0,
        counts: Counts::default(),
        unproven: Unproven::default(),
        halted: None,
        tag: tag.map(|kind| Arc::from(format!("{kind}/one/{id}"))),
        annotation: None,
        tag_owed: false,
        actor: None,
        requested: None,
        journal: None,
        approvals: Vec::new(),
        ticket: None,
        break_glass: None,
        repositories: Default::default(),
        policy_asks: false,
        workers: None,
    }
}

fn packed(text: &str) -> Packed {
    Packed::new(|out| out.write_all(text.as_bytes())).unwrap().0
}

fn checkpoint<'a>(run: &'a RunRecord, nodes: &'a [NodeRecord]) -> Checkpoint<'a> {
    Checkpoint {
        run,
        nodes: nodes.iter().collect(),
        forgotten: &[],
        plan: None,
        events: &[],
        report: None,
        durations: None,
        author: Signature {
            name: "Ada".to_owned(),
            email: "ada@example.org".to_owned(),
            seconds: 1_700_000_000,
        },
    }
}

fn store<'a>(repository: &'a Repository) -> Store<'a> {
    Store::open(repository, &SiteName::from("one")).unwrap()
}

#[test]
fn records_are_read_as_they_were_written_and_only_changed_files_are_written_again() {
    let checkout = Checkout::new();
    let repository = checkout.open();
    let store = store(&repository);
    let empty = store.read().unwrap();
    assert_eq!(empty, State::default());
    assert!(store.nodes(&empty).unwrap().is_empty() && store.runs(&empty).unwrap().is_empty());

    let begun = run("R1", Outcome::Running, None);
    let nodes: Vec<NodeRecord> = (0..1000)
        .map(|number| node(&format!("n{number}"), Phase::Prepared))
        .collect();
    let plan = packed("{\"plan\":1}");
    let first = store
        .checkpoint(
            &empty,
            &Checkpoint {
                plan: Some(&plan),
                events: &[packed("{\"event\":1}\n")],
                ..checkpoint(&begun, &nodes)
            },
        )
        .unwrap();
    assert_eq!(first.site.last_run, Some(RunId::from("R1")));
    assert_eq!(first.site.last_action, None, "still running");

    let ended = run("R1", Outcome::Succeeded, Some("site-action-success"));
    let n7 = node("n7", Phase::Deployed);
    let second = store
        .checkpoint(
            &first,
            &Checkpoint {
                forgotten: &[NodeName::from("n8")],
                events: &[packed("{\"event\":2}\n")],
                report: Some(&packed("{\"report\":1}")),
                ..checkpoint(&ended, std::slice::from_ref(&n7))
            },
        )
        .unwrap();
    assert_eq!(store.read().unwrap(), second);
    let success = second.site.last_success.clone().unwrap();
    assert_eq!(
        (success.run.as_str(), &*success.revision),
        ("R1", "revision of R1")
    );
    assert_eq!(second.site.last_action, Some(success));

    let records = store.nodes(&second).unwrap();
    assert_eq!(records.len(), 999);
    assert_eq!(records["n7"], n7);
    assert_eq!(records["n9"], nodes[9]);
    assert_eq!(
        store.node(&second, &NodeName::from("n7")).unwrap(),
        Some(n7)
    );
    assert_eq!(store.node(&second, &NodeName::from("n8")).unwrap(), None);
    assert_eq!(store.node(&second, &NodeName::from("x")).unwrap(), None);
    assert_eq!(
        store.nodes(&first).unwrap().len(),
        1000,
        "the older state is still there"
    );

    let r1 = RunId::from("R1");
    assert_eq!(store.runs(&second).unwrap(), std::slice::from_ref(&r1));
    assert_eq!(store.run(&second, &r1).unwrap(), Some(ended));
    assert_eq!(store.run(&second, &RunId::from("R2")).unwrap(), None);
    let file = |file| store.run_file(&second, &r1, file).unwrap();
    assert_eq!(file(RunFile::Plan).unwrap(), b"{\"plan\":1}");
    assert_eq!(file(RunFile::Report).unwrap(), b"{\"report\":1}");
    assert_eq!(
        store.events(&second, &r1).unwrap(),
        b"{\"event\":1}\n{\"event\":2}\n"
    );

    let state = store.place().own();
    let changed = checkout.git(&["diff", "--name-only", &format!("{state}~"), state]);
    let changed: Vec<&str> = changed
        .lines()
        .filter(|path| path.starts_with("nodes/"))
        .collect();
    assert_eq!(changed.len(), 2, "{changed:?}");
    checkout.git(&["fsck", "--strict", "--full"]);
    assert_eq!(
        checkout.git(&["log", "--format=%s", state]),
        "update R1: succeeded\nupdate R1: running"
    );
}

#[test]
fn the_same_records_in_any_order_are_the_same_commit() {
    let ids: Vec<_> = [false, true]
        .into_iter()
        .map(|is_reversed| {
            let checkout = Checkout::new();
            let repository = checkout.open();
            let mut nodes: Vec<_> = (0..50)
                .map(|number| node(&format!("n{number}"), Phase::Deployed))
                .collect();
            if is_reversed {
                nodes.reverse();
            }
            let run = run("R1", Outcome::Running, None);
            let done = checkpoint(&run, &nodes);
            store(&repository)
                .checkpoint(&State::default(), &done)
                .unwrap()
                .tip
        })
        .collect();
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn a_failed_action_moves_the_last_action_and_not_the_last_success() {
    let checkout = Checkout::new();
    let repository = checkout.open();
    let store = store(&repository);
    let mut state = State::default();
    for (id, outcome, tag) in [
        ("R1", Outcome::Succeeded, Some("site-action-success")),
        ("R2", Outcome::Failed, Some("site-action-failure")),
        ("R3", Outcome::Succeeded, None),
    ] {
        let run = run(id, outcome, tag);
        state = store.checkpoint(&state, &checkpoint(&run, &[])).unwrap();
    }
    let name = |action: &Option<trueup::record::SiteAction>| {
        action.as_ref().map(|action| action.run.to_string())
    };
    assert_eq!(name(&state.site.last_success).as_deref(), Some("R1"));
    assert_eq!(name(&state.site.last_action).as_deref(), Some("R2"));
    assert_eq!(state.site.last_run, Some(RunId::from("R3")));
    // An older run that is given up later does not become the newest.
    let abandoned = run("R2", Outcome::Abandoned, None);
    state = store
        .checkpoint(&state, &checkpoint(&abandoned, &[]))
        .unwrap();
    assert_eq!(state.site.last_run, Some(RunId::from("R3")));
}

#[test]
fn a_run_is_greater_than_the_one_before_though_the_clock_went_back() {
    let mut state = State::default().site;
    let candidate = ulid::Ulid::from_parts(1000, 5);
    assert_eq!(state.next_run(candidate).as_str(), candidate.to_string());
    let later = ulid::Ulid::from_parts(2000, 0);
    state.last_run = Some(RunId::from(later.to_string()));
    let next = state.next_run(candidate);
    assert!(next.as_str() > later.to_string().as_str(), "{next}");
    let other = ulid::Ulid::from_parts(1000, 6);
    assert_ne!(
        state.next_run(other),
        next,
        "it has a random number of its own"
    );
    let end = ulid::Ulid::from_parts((1 << 48) - 1, 7);
    state.last_run = Some(RunId::from(end.to_string()));
    let next = state.next_run(candidate);
    assert!(next.as_str() > end.to_string().as_str(), "{next}");
}

#[test]
fn who_loses_the_race_changes_nothing_and_learns_who_won() {
    let checkout = Checkout::new();
    let (one, two) = (checkout.open(), checkout.open());
    let (one, two) = (store(&one), store(&two));
    let seen = one.read().unwrap();
    let winner = run("R1", Outcome::Running, None);
    let state = two.checkpoint(&seen, &checkpoint(&winner, &[])).unwrap();
    let loser = run("R2", Outcome::Running, None);
    let error = one.checkpoint(&seen, &checkpoint(&loser, &[])).unwrap_err();
    assert!(
        matches!(&error, Error::LostRace { by: Some(run), .. } if run.as_str() == "R1"),
        "{error:?}"
    );
    assert!(error.to_string().contains("run R1"), "{error}");
    assert_eq!(one.read().unwrap(), state);
}

#[test]
fn site_names_are_parts_of_refs_and_unique_ignoring_case() {
    let checkout = Checkout::new();
    let repository = checkout.open();
    for wrong in ["", "a/b", "a..b", "-a", "a.lock", "a b"] {
        let error = Store::open(&repository, &SiteName::from(wrong)).unwrap_err();
        assert!(matches!(error, Error::BadName { .. }), "{wrong}");
    }
    let run = run("R1", Outcome::Running, None);
    store(&repository)
        .checkpoint(&State::default(), &checkpoint(&run, &[]))
        .unwrap();
    let error = Store::open(&repository, &SiteName::from("ONE")).unwrap_err();
    assert!(matches!(error, Error::SameIgnoringCase { .. }), "{error:?}");
    Store::open(&repository, &SiteName::from("ones")).unwrap();
}

#[test]
fn records_that_are_broken_or_newer_are_errors_that_name_the_file() {
    let checkout = Checkout::new();
    let repository = checkout.open();
    let store = store(&repository);
    let write = |path: &str, text: &str| {
        checkout.write(path, text);
        let commit = checkout.commit("x");
        checkout.git(&["update-ref", store.place().own(), &commit.to_string()]);
        store.read()
    };
    let error = write("other", "").unwrap_err();
    assert!(error.to_string().contains("site.json"), "{error}");
    let error = write("site.json", "{\"format_version\": 99}").unwrap_err();
    assert!(
        matches!(error, Error::NewerFormat { found: 99, .. }),
        "{error:?}"
    );
    let state = write("site.json", "{\"format_version\": 1}").unwrap();
    assert!(store.nodes(&state).unwrap().is_empty());
    let state = write("nodes/80", "not json\n")
        .map(|_| store.read().unwrap())
        .unwrap();
    let error = store.nodes(&state).unwrap_err();
    assert!(error.to_string().contains("nodes/80"), "{error}");
    let state = write("runs/R1/plan.json.zz", "no zlib")
        .map(|_| store.read().unwrap())
        .unwrap();
    let error = store
        .run_file(&state, &RunId::from("R1"), RunFile::Plan)
        .unwrap_err();
    assert!(error.to_string().contains("plan.json.zz"), "{error}");
}

#[test]
fn records_travel_between_clones_and_are_never_merged_by_guessing() {
    let origin = Origin::new();
    let seed = Checkout::new();
    seed.commit("one");
    seed.commit("two");
    seed.git(&["push", "--quiet", &origin.url(), "main"]);
    // A pipeline's clone is shallow; the records in it are whole all the same.
    let ours_checkout = Checkout::clone_of(&origin.url(), &[]);
    let theirs_checkout = Checkout::clone_of(&origin.url(), &["--depth=1"]);
    let (here, there) = (ours_checkout.open(), theirs_checkout.open());
    let (ours, theirs) = (store(&here), store(&there));
    let remote = here.remote("origin", TIMEOUT).unwrap();
    let their_remote = there.remote("origin", TIMEOUT).unwrap();

    assert_eq!(
        ours.follow(&remote).unwrap().standing,
        ExchangeOutcome::NotThere
    );
    let first = run("R1", Outcome::Succeeded, Some("site-action-success"));
    let nodes = [node("n1", Phase::Deployed)];
    let state = ours
        .checkpoint(&State::default(), &checkpoint(&first, &nodes))
        .unwrap();
    let push = ours.publication(&state, None).unwrap();
    assert_eq!(remote.push(&[push]).unwrap(), PushOutcome::Published);
    assert_eq!(
        ours.follow(&remote).unwrap().standing,
        ExchangeOutcome::Same
    );
    assert_eq!(ours.publication(&state, state.tip), None);

    assert_eq!(
        theirs.read().unwrap(),
        State::default(),
        "nothing here is not nothing applied"
    );
    let exchange = theirs.follow(&their_remote).unwrap();
    assert_eq!(
        (exchange.standing, exchange.remote_tip),
        (ExchangeOutcome::Followed, state.tip)
    );
    assert_eq!(theirs.read().unwrap(), state);
    assert_eq!(theirs.nodes(&state).unwrap()["n1"], nodes[0]);

    let second = run("R2", Outcome::Running, None);
    let ahead = theirs
        .checkpoint(&state, &checkpoint(&second, &[]))
        .unwrap();
    let exchange = theirs.follow(&their_remote).unwrap();
    assert_eq!(
        (exchange.standing, exchange.remote_tip),
        (ExchangeOutcome::Ahead, state.tip)
    );
    let push = theirs.publication(&ahead, exchange.remote_tip).unwrap();
    assert_eq!(their_remote.push(&[push]).unwrap(), PushOutcome::Published);

    let third = run("R3", Outcome::Running, None);
    ours.checkpoint(&state, &checkpoint(&third, &[])).unwrap();
    // Both have gone on, and the remote does not know the run of ours: it is kept, and named.
    let exchange = ours.follow(&remote).unwrap();
    let kept = "refs/trueup-kept/runs/one/R3".to_owned();
    let run_of_ours = RunId::from("R3");
    assert_eq!(
        exchange.standing,
        ExchangeOutcome::SetAside {
            run: run_of_ours.clone(),
            kept: kept.clone()
        }
    );
    assert_eq!(ours.read().unwrap().tip, ahead.tip);
    let aside = here.read_ref(&kept).unwrap().unwrap();
    let aside = ours.read_at(CommitId(aside)).unwrap();
    assert_eq!(aside.site.last_run, Some(run_of_ours));
    assert_eq!(
        ours.follow(&remote).unwrap().standing,
        ExchangeOutcome::Same
    );
    // In a shallow clone too.
    let fourth = run("R4", Outcome::Running, None);
    there
        .update_ref(
            theirs.place().own(),
            ahead.tip.map(|tip| tip.0),
            state.tip.unwrap().0,
        )
        .unwrap();
    let back = theirs.read().unwrap();
    theirs.checkpoint(&back, &checkpoint(&fourth, &[])).unwrap();
    let exchange = theirs.follow(&their_remote).unwrap();
    assert!(
        matches!(exchange.standing, ExchangeOutcome::SetAside { .. }),
        "{exchange:?}"
    );
}
