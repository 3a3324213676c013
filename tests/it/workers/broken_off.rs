//! Workers that are killed, stopped or late, ends that are killed, and runs that are aborted.

use super::{NAME, Site};
use crate::accepted::example;
use crate::cli_interrupted::{everything_happened_once, in_real_time};
use crate::fixture::{Fixture, signal, wait_until};
use crate::folder::folder;
use crate::git::Checkout;

/// Carries out the parts before one.
fn up_to(site: &Site, wanted: &str) {
    for part in site.parts().iter().take_while(|part| *part != wanted) {
        site.carry_out(0, part).with(0);
    }
}

const PART: &str = "control-nodes.deploy-1";

fn hanging() -> Fixture {
    hanging_for(3)
}

fn hanging_for(seconds: u32) -> Fixture {
    in_real_time(&format!(
        "[{{nodes: [control01], step: deploy, outcome: late, seconds: {seconds}}}]"
    ))
}

#[test]
fn a_worker_that_is_killed_is_succeeded_in_another_clone_and_nothing_happens_twice() {
    let site = Site::begun(hanging(), 2);
    up_to(&site, PART);
    let mut worker = site.clones[0].start(&site.part(PART));
    wait_until("the deploy begins", || site.state(PART) == "running");
    wait_until("the other machine is deployed", || {
        site.first.ledger().contains_key("control02 deployed")
    });
    site.end().with(8);
    worker.kill().unwrap();
    worker.wait().unwrap();
    site.end().with(8).saying(PART);
    site.carry_out(1, PART).with(0);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn a_worker_that_is_killed_is_succeeded_in_its_own_clone_by_its_journal() {
    let site = Site::begun(hanging(), 1);
    up_to(&site, PART);
    let mut worker = site.clones[0].start(&site.part(PART));
    wait_until("the other machine is deployed", || {
        site.first.ledger().contains_key("control02 deployed")
    });
    worker.kill().unwrap();
    worker.wait().unwrap();
    site.carry_out(0, PART).with(0);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn a_task_that_is_delivered_twice_is_carried_out_once() {
    let site = Site::begun(hanging(), 2);
    up_to(&site, PART);
    let worker = site.clones[0].start(&site.part(PART));
    wait_until("the deploy begins", || site.state(PART) == "running");
    // The other one waits for the first to be silent, and finds that it has ended.
    let second = site.clones[1].start(&site.part(PART));
    assert!(worker.wait_with_output().unwrap().status.success());
    let ended = crate::fixture::Ended::from(second.wait_with_output().unwrap());
    ended.with(0).saying("had ended before");
    site.carry_out(1, PART).with(0).saying("had ended before");
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn an_interrupted_worker_leaves_the_part_in_good_order() {
    let site = Site::begun(hanging(), 2);
    up_to(&site, PART);
    let mut part = site.part(PART);
    part.extend(["--stop-grace", "0"]);
    let worker = site.clones[0].start(&part);
    wait_until("the deploy begins", || site.state(PART) == "running");
    wait_until("the other machine is deployed", || {
        site.first.ledger().contains_key("control02 deployed")
    });
    signal(&worker, "TERM");
    let ended = crate::fixture::Ended::from(worker.wait_with_output().unwrap());
    ended.with(8).saying("is unfinished");
    assert_eq!(site.state(PART), "interrupted");
    site.carry_out(1, PART).with(0);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn an_aborted_run_fences_its_workers_and_names_what_may_be_half_done() {
    let site = Site::begun(hanging(), 2);
    up_to(&site, PART);
    let mut worker = site.clones[0].start(&site.part(PART));
    wait_until("the deploy begins", || site.state(PART) == "running");
    wait_until("the other machine is deployed", || {
        site.first.ledger().contains_key("control02 deployed")
    });
    worker.kill().unwrap();
    worker.wait().unwrap();
    let aborted = site.clones[1].run(&["run", "abort", NAME]).with(0);
    assert!(aborted.stdout.contains("is aborted"), "{aborted:?}");
    // Unknown, or found deployed where the abort came late.
    assert!(aborted.stdout.contains("  control01"), "{aborted:?}");
    site.carry_out(0, PART).with(99).saying("has ended");
    site.end().with(7);
    assert!(
        site.refs()
            .iter()
            .all(|name| !name.contains("/run/") && !name.ends_with("/lock"))
    );
    // A plan finds out how the machines are, and the rest is done.
    wait_until("the machine is deployed", || {
        site.first.run(&["status"]).with(0);
        site.first.ledger().contains_key("control01 deployed")
    });
    site.first
        .run(&[
            "apply",
            "--yes",
            "--adopt",
            "all",
            "--allow-redeploy",
            "all",
        ])
        .with(0);
}

#[test]
fn a_part_that_an_abort_has_fenced_before_it_was_killed_is_not_taken_while_its_worker_may_act() {
    // So long that the worker is still at work when it is stopped, however busy the machine is.
    let site = Site::begun(hanging_for(20), 2);
    up_to(&site, PART);
    let mut worker = site.clones[0].start(&site.part(PART));
    wait_until("the other machine is deployed", || {
        site.first.ledger().contains_key("control02 deployed")
    });
    // It sleeps, and may send a request of its own when it wakes up before its bound is over.
    site.first.suspend(&worker);
    let mut abort = site.first.start(&["run", "abort", NAME]);
    wait_until("the part is fenced", || {
        // Both fetch into one clone.
        assert_eq!(abort.try_wait().unwrap(), None, "the abort has ended");
        site.state(PART) == "fenced"
    });
    abort.kill().unwrap();
    abort.wait().unwrap();
    // Nothing begins until that is over.
    let refused = site.carry_out(1, PART).with(6);
    refused.saying("and was interrupted").saying("does it now");
    // The begin, repeated, leaves the lock of the killed process to the workers again.
    site.begin(&[]).with(0);
    let mut second = site.clones[1].start(&site.part(PART));
    std::thread::sleep(std::time::Duration::from_secs(3));
    let state = site.state(PART);
    second.kill().unwrap();
    let ended = crate::fixture::Ended::from(second.wait_with_output().unwrap());
    assert_eq!(state, "fenced", "another worker has taken it: {ended:?}");
    ended.saying("may the worker on");
    worker.kill().unwrap();
    worker.wait().unwrap();
    // Nothing tells the successor in another clone of the deploy that had begun: it observes each machine first.
    site.carry_out(1, PART).with(0);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn an_end_that_is_killed_anywhere_is_repeated() {
    let site = Site::begun(Fixture::one_rack(), 1);
    site.carry_out_all();
    for delay in [20, 80, 140, 200, 260, 320, 400, 500] {
        let mut end = site.clones[0].start(&["run", "end", NAME]);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        end.kill().unwrap();
        end.wait().unwrap();
    }
    site.end().with(0);
    everything_happened_once(&site.first);
    assert!(
        site.refs()
            .iter()
            .all(|name| !name.contains("/run/") && !name.ends_with("/lock"))
    );
    assert_eq!(site.origin.git(&["tag", "--list"]).lines().count(), 1);
}

#[test]
fn a_worker_in_a_clone_that_is_behind_fetches_what_it_needs() {
    let fixture = Fixture::one_rack();
    let site = Site::planned(fixture, 1);
    site.first.edit(
        "nodes/monitoring.yaml",
        "{rack: rack01, tags: [monitoring]}",
        "{rack: rack01, tags: [monitoring, late]}",
    );
    site.first.checkout.commit("Label it");
    site.first.checkout.git(&["push", "--quiet"]);
    let mut site = site;
    let path = site.plan.to_str().unwrap();
    site.first.run(&["plan", "-o", path]).with(0);
    let shown = site
        .first
        .run(&["show", path, "--format", "json"])
        .with(0)
        .json();
    shown["effect"]
        .as_str()
        .unwrap()
        .clone_into(&mut site.effect);
    let begun = site.begin(&[]).with(0).json();
    begun["plan_digest"]
        .as_str()
        .unwrap()
        .clone_into(&mut site.digest);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

/// Answers a fetch, and then moves the ref of a part.
const MOVES: &str = r#"#!/bin/sh
git-upload-pack "$@"
code=$?
left=$(cat COUNT)
echo $((left - 1)) > COUNT
[ "$left" -eq 1 ] && git -C "$1" update-ref REF "$(cat NEXT)" || true
exit $code
"#;

/// At least as many calls as a command makes.
const CALLS: i32 = 8;

#[test]
fn a_part_that_moves_between_its_listing_and_its_fetch_is_read_as_it_is_then() {
    let site = Site::begun(Fixture::one_rack(), 1);
    let origin = &site.origin;
    origin.git(&["config", "core.logAllRefUpdates", "always"]);
    let part = site.parts().remove(0);
    site.carry_out(0, &part).with(0);
    let refs = origin.git(&["for-each-ref", "--format=%(refname)"]);
    let end = format!("/{part}");
    let name = refs.lines().find(|name| name.ends_with(&end)).unwrap();
    let moves = origin.git(&["log", "--walk-reflogs", "--format=%H", name]);
    let (last, first) = (moves.lines().next().unwrap(), moves.lines().last().unwrap());
    assert_ne!(last, first);
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let script = MOVES
        .replace("COUNT", path("count").to_str().unwrap())
        .replace("NEXT", path("next").to_str().unwrap())
        .replace("REF", name);
    std::fs::write(path("upload-pack"), script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path("upload-pack"), mode).unwrap();
    let mut gone = 0;
    for (next, call) in [last, ""]
        .into_iter()
        .flat_map(|next| (1..=CALLS).map(move |call| (next, call)))
    {
        origin.git(&["update-ref", name, first]);
        let clone = Fixture::of(Checkout::clone_of(&origin.url(), &[]), site.first.site());
        let program = path("upload-pack");
        clone.checkout.git(&[
            "config",
            "remote.origin.uploadpack",
            program.to_str().unwrap(),
        ]);
        std::fs::write(path("count"), call.to_string()).unwrap();
        let moved = if next.is_empty() {
            "0".repeat(40)
        } else {
            next.to_owned()
        };
        std::fs::write(path("next"), moved).unwrap();
        let status = clone
            .run(&["run", "status", NAME, "--format", "json"])
            .with(0)
            .json();
        let parts = status["parts"].as_array().unwrap();
        let found = parts.iter().find(|each| each["part"] == *part).unwrap();
        let left = std::fs::read_to_string(path("count")).unwrap();
        assert!(
            call < CALLS || left.trim() != "0",
            "there may be more calls"
        );
        gone += usize::from(found["state"].is_null());
    }
    assert!(gone > 0);
}

#[test]
fn a_begin_that_is_killed_anywhere_is_repeated() {
    let mut site = Site::planned(Fixture::one_rack(), 2);
    let plan = site.plan.to_str().unwrap().to_owned();
    let mut killed = 0;
    for delay in [20, 60, 100, 140, 180, 220, 260, 300, 350, 400] {
        let begin = [
            "run",
            "begin",
            &plan,
            "--run",
            NAME,
            "--effect",
            &site.effect,
        ];
        let more = ["--nodes-per-part", "2", "--pushes-per-minute", "0"];
        let mut begin = site.first.start(&[&begin[..], &more].concat());
        std::thread::sleep(std::time::Duration::from_millis(delay));
        begin.kill().unwrap();
        killed += usize::from(begin.wait().unwrap().code().is_none());
    }
    assert!(killed > 0);
    let begun = site.begin(&[]).with(0).json();
    let digest = begun["plan_digest"].as_str().unwrap();
    digest.clone_into(&mut site.digest);
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
    let log = site.first.run(&["log", "--format", "json"]).with(0).json();
    assert_eq!(log["runs"].as_array().unwrap().len(), 1, "{log}");
}

/// The state of each recorded machine, as `status` tells it in a clone.
fn phases(clone: &Fixture) -> Vec<String> {
    let status = clone.run(&["status", "--format", "json"]).with(0).json();
    let nodes = status["nodes"].as_array().unwrap().iter();
    let phase = |node: &serde_json::Value| {
        let (name, record) = (&node["node"], &node["record"]);
        format!("{name} {}", record["phase"]).replace('"', "")
    };
    nodes.map(phase).collect()
}

#[test]
fn the_ended_parts_of_a_run_count_in_every_clone_before_its_end_and_after_its_abort() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let mut site = Site::planned(fixture, 2);
    site.first.run(&["apply", "--yes"]).with(0);
    let built = ["edge-1 deployed", "edge-2 deployed", "edge-3 deployed"];
    assert_eq!(phases(&site.clones[1]), built);
    site.first.edit(
        "profiles.yaml",
        "image: ubuntu-24.04",
        "image: ubuntu-26.04",
    );
    site.first.checkout.commit("Another image");
    site.first.checkout.git(&["push", "--quiet"]);
    site.plan(&["--allow-redeploy", "all"]);
    let begun = site.begin(&[]).with(0).json();
    begun["plan_digest"]
        .as_str()
        .unwrap()
        .clone_into(&mut site.digest);
    let clones = [&site.first, &site.clones[0], &site.clones[1]];
    let everywhere = |expected: [&str; 3]| {
        for clone in clones {
            assert_eq!(phases(clone), expected);
        }
    };
    up_to(&site, "workers.wave-1.prepare-1");
    everywhere(["edge-1 not-started", "edge-2 deployed", "edge-3 deployed"]);
    up_to(&site, "workers.wave-2.prepare-1");
    let half = ["edge-1 deployed", "edge-2 not-started", "edge-3 deployed"];
    everywhere(half);
    let shown = clones.map(|clone| clone.run(&["show"]).with(0).stdout);
    for text in &shown {
        assert!(
            text.lines().next().unwrap().ends_with(": running"),
            "{text}"
        );
        assert!(
            text.contains("running: 1 succeeded, 0 failed, 1 half-done, 1 not started"),
            "{text}"
        );
    }
    let aborted = site.clones[1].run(&["run", "abort", NAME]).with(0);
    let left = "Left half-done:\n  edge-2: not-started: torn down, and not built again\n";
    assert!(aborted.stdout.contains(left), "{}", aborted.stdout);
    everywhere(half);
    // The machine that the run has rebuilt is not built again.
    let rest = ["apply", "--yes", "--allow-redeploy", "all"];
    site.first.run(&rest).with(0);
    let ledger = site.first.ledger();
    for node in ["edge-1", "edge-2", "edge-3"] {
        assert_eq!(ledger[&format!("{node} deployed")], 2, "{ledger:?}");
    }
}

#[test]
fn a_run_of_workers_has_its_page_before_its_end_and_after_it() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let site = Site::begun(fixture, 1);
    let page = |clone: &Fixture| {
        clone.run(&["log"]).with(0);
        clone.run(&["show", "--format", "html"]).with(0).stdout
    };
    let under_way = page(&site.first);
    assert!(under_way.contains("trueup run part"), "{under_way}");
    site.carry_out_all();
    site.end().with(0);
    for clone in [&site.first, &site.clones[0]] {
        let ended = page(clone);
        assert!(!ended.contains("trueup run part"), "{ended}");
        assert!(ended.contains("deploy/workers/edge-1"), "{ended}");
    }
}

#[test]
fn a_part_whose_ref_was_deleted_is_resumed_in_the_clone_that_has_its_journal() {
    let site = Site::begun(in_real_time("[]"), 1);
    for part in site.parts() {
        site.carry_out(0, &part).with(0);
    }
    let refs = "refs/trueup";
    let origin = &site.origin;
    let all = origin.git(&["for-each-ref", "--format=%(refname)", refs]);
    let parts = all.lines().filter(|name| name.contains("/run/"));
    for name in parts {
        origin.git(&["update-ref", "-d", name]);
    }
    site.carry_out_all();
    site.end().with(0);
    everything_happened_once(&site.first);
}

#[test]
fn what_parts_have_done_whose_refs_were_deleted_is_recorded_by_an_abort() {
    let delete = |site: &Site, of: &str| {
        let origin = &site.origin;
        let all = origin.git(&["for-each-ref", "--format=%(refname)", "refs/trueup"]);
        let parts = all
            .lines()
            .filter(|name| name.contains("/run/") && name.contains(of));
        parts.for_each(|name| drop(origin.git(&["update-ref", "-d", name])));
    };
    for of in ["", "deploy"] {
        let site = Site::begun(in_real_time("[]"), 1);
        for part in site.parts() {
            site.carry_out(0, &part).with(0);
        }
        delete(&site, of);
        let log = site.clones[0].run(&["log"]).with(0).stdout;
        assert!(!log.contains("not started"), "{log}");
        let run = site.clones[0]
            .run(&["log", "--format", "json"])
            .with(0)
            .json();
        let run = run["runs"][0]["run"].as_str().unwrap().to_owned();
        site.clones[0].run(&["run", "abort", &run]).with(0);
        // All of it was done, and nothing of it is done again.
        site.clones[0].run(&["apply", "--yes"]).with(0);
        everything_happened_once(&site.first);
    }
}

#[test]
fn a_part_whose_ref_is_broken_names_a_way_out_that_works() {
    let site = Site::begun(in_real_time("[]"), 1);
    for part in site.parts() {
        site.carry_out(0, &part).with(0);
    }
    let origin = &site.origin;
    let all = origin.git(&["for-each-ref", "--format=%(refname)", "refs/trueup"]);
    let mut broken = all.lines().filter(|name| name.contains("/run/"));
    let broken = broken.find(|name| name.contains("deploy"));
    let broken = broken.unwrap_or_else(|| panic!("{all}"));
    let part = broken.rsplit('/').next().unwrap_or_default();
    let head = origin.git(&["for-each-ref", "--format=%(objectname)", "refs/heads"]);
    origin.git(&["update-ref", broken, head.lines().next().expect("a commit")]);
    let clone = &site.clones[0];
    let run = clone.run(&["log", "--format", "json"]).json();
    let run = run["runs"][0]["run"].as_str().expect("a run").to_owned();
    let delete = format!("git push origin --delete {broken}");
    clone
        .run(&["run", "abort", &run])
        .with(1)
        .saying(&format!("the status of part `{part}`"))
        .saying(&delete)
        .saying(&format!("`trueup run abort {run}`"));
    clone.checkout.git(&["push", "origin", "--delete", broken]);
    clone.run(&["run", "abort", &run]).with(0);
    clone.run(&["apply", "--yes"]).with(0);
    everything_happened_once(&site.first);
}
