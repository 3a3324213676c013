//! Honest runs that stop and are resumed in another clone, if their plan is held to one that is made now: none gets
//! stuck, whenever it stopped.

use super::{Fixture, changed, control_plane, pin, remove, save};
use crate::git::{Checkout, Origin};

/// After how many seconds of the simulated machines a run stops, with whatever goes on then.
const LIVES: [&str; 8] = ["1", "20", "100", "300", "500", "900", "1500", "1900"];

/// A clone of what a run of another one left, with the same machines.
fn clone(first: &Fixture, origin: &Origin) -> Fixture {
    let second = Fixture::of(Checkout::clone_of(&origin.url(), &[]), first.site());
    let target = second.simulated_site();
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::copy(first.simulated_site(), target).unwrap();
    second
}

fn shared() -> (Fixture, Origin) {
    published(changed())
}

/// A site whose records everybody can see.
fn published(first: Fixture) -> (Fixture, Origin) {
    let origin = Origin::new();
    let git = |arguments: &[&str]| first.checkout.git(arguments);
    git(&["remote", "add", "origin", &origin.url()]);
    git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    git(&["push", "--quiet", "origin", "refs/trueup/*:refs/trueup/*"]);
    (first, origin)
}

#[test]
fn a_run_with_allowances_that_stops_anywhere_is_resumed_elsewhere_by_who_allows_the_same() {
    let allowed = ["--allow-redeploy", "all", "--allow-destroy", "all"];
    let mut resumed = 0;
    for seconds in LIVES {
        let (first, origin) = shared();
        let before = first.ledger();
        let stop = ["--yes", "--stop-grace", "0", "--stop-after", seconds];
        let ended = first.run(&[&["apply"], &stop[..], &allowed].concat());
        assert_eq!(ended.code, 8, "{seconds}: {ended:?}");
        let second = clone(&first, &origin);
        // What it allows is nobody's word here.
        let ended = second.run(&["apply", "--resume"]);
        assert_eq!(ended.code, 4, "{seconds}: {ended:?}");
        let ended = second.run(&[&["apply", "--resume"], &allowed[..]].concat());
        assert!([0, 7].contains(&ended.code), "{seconds}: {ended:?}");
        resumed += usize::from(ended.code == 0);
        for (what, times) in second.ledger() {
            let earlier = before.get(&what).copied().unwrap_or_default();
            assert!(
                times <= earlier + 1,
                "{seconds}: {what} happened {times} times"
            );
        }
        // Whatever it left, a new plan does it.
        let more = ["--yes", "--adopt", "all"];
        let last = second.run(&[&["apply"], &more[..], &allowed].concat());
        assert_eq!(last.code, 0, "{seconds}: {last:?}");
        second.run(&["plan", "--detailed-exitcode"]).with(0);
        let gone = second.ledger().get("monitor02 destroyed").copied();
        assert_eq!(gone, Some(1), "{seconds}");
        eprintln!("{seconds}: {}", ended.code);
    }
    assert_eq!(resumed, LIVES.len());
}

#[test]
fn a_run_that_stopped_is_resumed_elsewhere_with_its_effect() {
    let (first, origin) = shared();
    let file = save(&first, &["--allow-destroy", "all", "--skip-blocked"]);
    let pinned = pin(&file);
    let stop = ["--stop-grace", "0", "--stop-after", "1"];
    first
        .run(&[&["apply", &file, "--effect", &pinned], &stop[..]].concat())
        .with(8);
    let second = clone(&first, &origin);
    let again = format!("trueup apply --resume --effect {pinned}");
    second.run(&["apply", "--resume"]).with(4).saying(&again);
    let other = "0123456789abcdef";
    second
        .run(&["apply", "--resume", "--effect", other])
        .with(5);
    second
        .run(&["apply", "--resume", "--effect", &pinned])
        .with(0);
    assert_eq!(second.ledger()["monitor02 destroyed"], 1);
}

#[test]
fn a_run_that_has_torn_down_one_of_its_machines_is_resumed_elsewhere() {
    // Between the two teardowns, and in the middle of the second.
    for seconds in ["340", "400", "600"] {
        let first = Fixture::one_rack();
        first.run(&["apply", "--yes"]).with(0);
        remove(&first, "monitor02");
        remove(&first, "monitor03");
        first.checkout.commit("Two less");
        let (first, origin) = published(first);
        let allowed = ["--allow-destroy", "all"];
        let stop = ["--stop-grace", "0", "--stop-after", seconds];
        let begin = ["apply", "--yes", "--parallelism", "1"];
        first.run(&[&begin[..], &stop, &allowed].concat()).with(8);
        assert_eq!(first.ledger()["monitor02 destroyed"], 1);
        let second = clone(&first, &origin);
        second
            .run(&[&["apply", "--resume"], &allowed[..]].concat())
            .with(0);
        for node in ["monitor02", "monitor03"] {
            assert_eq!(second.ledger()[&format!("{node} destroyed")], 1);
        }
        second.run(&["plan", "--detailed-exitcode"]).with(0);
    }
}

#[test]
fn a_redeploy_that_stops_anywhere_is_resumed_elsewhere_with_its_effect() {
    // Behind the drain and the member of etcd, while it is cleaned, deployed, and waited for.
    for seconds in ["20", "300", "900", "1300"] {
        let (first, origin) = published(control_plane());
        let file = save(&first, &["redeploy", "control-1"]);
        let pinned = pin(&file);
        let stop = ["--stop-grace", "0", "--stop-after", seconds];
        let begin = ["apply", &file, "--effect", &pinned];
        first.run(&[&begin[..], &stop].concat()).with(8);
        let second = clone(&first, &origin);
        second
            .run(&["apply", "--resume", "--effect", &pinned])
            .with(0);
        for effect in ["destroyed", "deployed"] {
            let times = usize::from(effect == "deployed") + 1;
            assert_eq!(second.ledger()[&format!("control-1 {effect}")], times);
        }
    }
}
