//! Mistakes on the command line, each with an error that names the way out, and nothing done.

use super::accepted::example;
use super::fixture::Fixture;
use super::skipped::skipped;

#[test]
fn a_long_flag_with_one_dash_is_not_a_short_one_with_a_value() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    for (arguments, long) in [
        (&["plan", "-out=x"][..], "--out"),
        (&["plan", "-out", "x"], "--out"),
        (&["apply", "-yes"], "--yes"),
        (&["-site", "edge", "plan"], "--site"),
    ] {
        let ended = fixture.run(arguments).with(64);
        let hint = format!("did you mean `{long}`?");
        assert!(ended.stderr.contains(&hint), "{ended:?}");
        assert!(!fixture.checkout.path().join("ut=x").exists());
    }
    fixture.run(&["plan", "-oplan.json"]).with(0);
    fixture.run(&["-vv", "validate"]).with(0);
}

#[test]
fn a_clock_beyond_all_times_is_refused_before_anything_is_done() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let at = |year: u32, arguments: &[&str]| {
        let clock = format!("@{year}-12-31 23:59:58");
        let mut command = std::process::Command::new("faketime");
        command.args(["-f", &clock, env!("CARGO_BIN_EXE_trueup")]);
        command.args(arguments).current_dir(fixture.checkout.path());
        command.output().ok()
    };
    for arguments in [&["plan"][..], &["status"], &["doctor"], &["apply", "--yes"]] {
        let Some(ended) = at(9999, arguments) else {
            return skipped("faketime is not installed");
        };
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(
            text.contains("is after the year 9000") && text.contains("timedatectl"),
            "{text}"
        );
    }
    // A run of a late year that is believed blocks none of today: the ids of runs follow each other.
    let late = at(2500, &["apply", "--yes"]).unwrap();
    assert!(late.status.success(), "{late:?}");
    fixture
        .run(&["apply", "redeploy", "edge-1", "--yes"])
        .with(0);
}

#[test]
fn numbers_of_which_none_makes_no_sense_are_at_least_one() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    for arguments in [
        ["plan", "--parallelism", "0"],
        ["plan", "--parallel-groups", "0"],
        ["plan", "--max-unavailable", "0"],
        ["log", "-n", "0"],
    ] {
        fixture.run(&arguments).with(64).saying("the least is 1");
    }
    fixture
        .run(&["log", "-n", "many"])
        .with(64)
        .saying("this is not a whole number");
}

/// The number of waves that a redeploy of the three machines takes, and why they are not larger.
fn waves(fixture: &Fixture, flags: &[&str]) -> (usize, String) {
    let arguments = ["plan", "redeploy", "edge-*", "--format", "json"];
    let plan = fixture
        .run(&[&arguments[..], flags].concat())
        .with(0)
        .json();
    let steps = plan["steps"].as_array().unwrap().iter();
    let ids = steps.map(|step| step["id"].as_str().unwrap());
    let begun = ids.filter(|id| id.starts_with("wave/")).count();
    let size = &plan["summary"]["waves"];
    (begun, size["reason"].as_str().unwrap().to_owned())
}

#[test]
fn the_most_unavailable_machines_are_a_number_or_a_share() {
    let fixture = example("edge");
    fixture.commit_and_apply("The site", &[]).with(0);
    let of = |number, reason: &str| (number, reason.to_owned());
    assert_eq!(waves(&fixture, &[]), of(3, "quarter"));
    for (share, expected) in [
        ("1", 3),
        ("2", 2),
        ("1%", 3),
        ("34%", 3),
        ("67%", 2),
        ("100%", 1),
    ] {
        let flags = ["--max-unavailable", share];
        assert_eq!(waves(&fixture, &flags), of(expected, "flag"), "{share}");
    }
    for wrong in ["0", "0%", "101%", "some", "-1%"] {
        let flag = format!("--max-unavailable={wrong}");
        fixture.run(&["plan", &flag]).with(64);
    }
    let policy = |limits: &str| {
        let text = format!(
            "---\nschema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{max_unavailable: {{{limits}}}}}\n"
        );
        fixture.checkout.write("policy.yaml", text);
        fixture
            .commit_and_apply("A policy", &["--allow-loosening"])
            .with(0);
    };
    policy("total: 67%");
    assert_eq!(waves(&fixture, &[]), of(2, "policy"));
    assert_eq!(
        waves(&fixture, &["--max-unavailable", "100%"]),
        of(1, "flag")
    );
    let text = fixture.run(&["plan", "redeploy", "edge-*"]).with(0).stdout;
    for told in [
        "waves of 2: max_",
        "; waves of 2 (max_unavailable of the policy).",
    ] {
        assert!(text.contains(told), "{text}");
    }
    fixture.edit("policy.yaml", "67%", "0%");
    let refused = fixture.run(&["validate"]).with(1).stdout;
    assert!(
        refused.contains("`data.max_unavailable.total`"),
        "{refused}"
    );
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let fixture = example("edge");
    fixture
        .run(&["-C", "gone", "plan"])
        .with(64)
        .saying("there is no folder `");
}

#[test]
fn the_first_apply_of_a_site_is_not_refused_for_the_commits_before_it() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("Another image");
    fixture.run(&["apply", "--yes"]).with(0);
}

#[test]
fn no_changes_among_the_selected_nodes_is_not_said_of_the_site() {
    let fixture = example("edge");
    fixture.commit_and_apply("The site", &[]).with(0);
    let planned = fixture.run(&["plan"]).with(0).stdout;
    assert!(
        planned.contains("No changes: the site is as designed"),
        "{planned}"
    );
    for arguments in [
        &["plan", "--target", "edge-1"][..],
        &["plan", "--exclude", "edge-1"],
        &["plan", "--target", "edge-1", "--exclude", "edge-1"],
    ] {
        let planned = fixture.run(arguments).with(0).stdout;
        assert!(planned.contains("No changes among the nodes"), "{planned}");
        assert!(!planned.contains("as designed"), "{planned}");
    }
}

#[test]
fn init_inside_a_repository_makes_no_other_one() {
    let fixture = Fixture::empty("edge");
    fixture.checkout.write("README", "Sites\n");
    fixture.checkout.commit("Sites");
    let told = fixture.run(&["init", "sites/edge"]).with(0).stderr;
    assert!(told.contains("git add . && git commit"), "{told}");
    let folder = fixture.checkout.path().join("sites/edge");
    assert!(folder.join("nodes.yaml").exists() && !folder.join(".git").exists());
    fixture.checkout.commit("A site");
    fixture.run(&["-C", "sites/edge", "apply", "--yes"]).with(0);
}

#[test]
fn init_takes_a_repository_without_files_for_an_empty_folder() {
    let fixture = Fixture::empty("edge");
    let told = fixture.run(&["init"]).with(0).stderr;
    assert!(told.contains("git add . && git commit"), "{told}");
    fixture.checkout.commit("A site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.run(&["init"]).with(64).saying("is not empty");
}

#[test]
fn no_site_and_no_sandbox_is_made_among_the_files_of_a_site() {
    let fixture = example("edge");
    fixture.commit_and_apply("The site", &[]).with(0);
    for arguments in [
        &["init", "edge2"][..],
        &["init", "deep/below"],
        &["try", "new", "sand"],
        &["adopt", "--from", "sim", "-o", "other"],
    ] {
        fixture
            .run(arguments)
            .with(64)
            .saying("would be among the files of site `edge`");
    }
    fixture.run(&["validate"]).with(0);
    assert_eq!(fixture.checkout.git(&["status", "--porcelain"]), "");
    // Hidden folders are of no site.
    fixture.run(&["try", "new", ".sand"]).with(0);
    fixture.run(&["validate"]).with(0);
    let fixture = Fixture::empty("edge");
    fixture.run(&["init", "sites/edge"]).with(0);
    fixture.checkout.commit("A site");
    fixture
        .run(&["init", "other/edge"])
        .with(64)
        .saying("there is a site `edge` in this repository");
    fixture
        .run(&["adopt", "--from", "sim", "-o", "site/south"])
        .with(64)
        .saying("is the folder of a site in layers");
    assert!(!fixture.checkout.path().join("site").exists());
}

#[test]
fn a_run_is_shown_by_the_beginning_of_its_id_or_as_the_last_one() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture
        .run(&["show"])
        .with(1)
        .saying("nothing was applied to site `edge` yet");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.edit("profiles.yaml", "role: worker", "role: other");
    fixture.commit_and_apply("Another label", &[]).with(0);
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    let runs = log["runs"].as_array().unwrap();
    let id = |position: usize| runs[position]["run"].as_str().unwrap();
    let (newest, oldest) = (id(0), id(1));
    let shown = |arguments: &[&str]| fixture.run(arguments).with(0).stdout;
    assert_eq!(shown(&["show"]), shown(&["show", newest]));
    assert_eq!(shown(&["show", &newest.to_lowercase()]), shown(&["show"]));
    let mut starts = (1..=oldest.len()).map(|end| &oldest[..end]);
    let unique = starts.find(|start| !newest.starts_with(*start)).unwrap();
    assert_eq!(shown(&["show", unique]), shown(&["show", oldest]));
    fixture
        .run(&["show", &oldest[..1]])
        .with(64)
        .saying("give more of the id");
    fixture
        .run(&["show", "--format", "mermaid"])
        .with(64)
        .saying("--plan");
    let plan = shown(&["show", "--plan", "--format", "markdown"]);
    assert!(plan.starts_with("<!-- trueup"), "{plan}");
}

#[test]
fn init_writes_the_example_that_is_asked_for() {
    let fixture = Fixture::empty("control-plane");
    let folder = fixture.checkout.outside().join("new");
    let folder = folder.to_str().unwrap();
    let told = fixture
        .run(&["init", "--example", "control-plane", folder])
        .with(0);
    assert!(told.stderr.contains("Wrote the site `new`"), "{told:?}");
    let told = fixture.run(&["-C", folder, "validate"]).with(0).stdout;
    assert!(told.contains("site `new` is valid"), "{told}");
    assert!(told.contains("5 nodes"), "{told}");
    // A saved plan is nothing that the next commit takes with it.
    fixture
        .run(&["-C", folder, "plan", "-o", "first.plan"])
        .with(0);
    let mut status = std::process::Command::new("git");
    let status = status.args(["-C", folder, "status", "--porcelain"]);
    assert_eq!(status.output().unwrap().stdout, b"");
    fixture
        .run(&["init", "../a site"])
        .with(64)
        .saying("cannot be the name of a site");
    // A name is a text, whatever it looks like.
    for name in ["1", "no", "0x10", "2026-01-01"] {
        let folder = fixture.checkout.outside().join(name);
        let folder = folder.to_str().unwrap();
        fixture.run(&["init", folder]).with(0);
        let told = fixture.run(&["-C", folder, "validate"]).with(0).stdout;
        assert!(told.contains(&format!("site `{name}` is valid")), "{told}");
    }
    fixture.run(&["init", "--example", "none", folder]).with(64);
}

#[test]
fn durations_are_seconds_or_days_hours_minutes_and_seconds() {
    let fixture = example("control-plane");
    fixture.commit_and_apply("The site", &[]).with(0);
    let drain = |timeout: &str| {
        let flag = format!("--drain-node-timeout={timeout}");
        let arguments = ["plan", "drain", "worker-1", "--format", "json", &flag];
        let plan = fixture.run(&arguments).with(0).json();
        plan["options"]["leaving"]["drain_timeout"].clone()
    };
    assert_eq!(drain("5400"), 5400);
    assert_eq!(drain("1h30m"), 5400);
    assert_eq!(drain("90m"), 5400);
    assert_eq!(drain("2d"), 172_800);
    for wrong in ["5x", "-5m", "m", "1.5"] {
        let flag = format!("--drain-node-timeout={wrong}");
        fixture.run(&["plan", "drain", "worker-1", &flag]).with(64);
    }
    fixture
        .run(&["plan", "--drain-node-timeout", "soon"])
        .with(64)
        .saying("such as `30d`, `1h30m`");
    let policy = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {remediation: {ready_timeout: 20m, backoff: 1m30s, power_settling: 5}}\n";
    fixture.checkout.write("policy.yaml", policy);
    fixture.run(&["validate"]).with(0);
    for wrong in ["20x", "1m30", "0s"] {
        fixture
            .checkout
            .write("policy.yaml", policy.replace("20m", wrong));
        let refused = fixture.run(&["validate"]).with(1).stdout;
        assert!(
            refused.contains("`data.remediation.ready_timeout`"),
            "{refused}"
        );
    }
}

#[test]
fn a_run_is_aborted_and_unlocked_by_the_beginning_of_its_id_and_the_log_shows_who_began_it() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture
        .run(&["apply", "--yes", "--stop-after", "0s"])
        .with(8);
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    let run = log["runs"][0]["run"].as_str().unwrap();
    assert_eq!(log["runs"][0]["actor"], "Ada");
    let shown = fixture.run(&["log"]).with(0).stdout;
    assert!(shown.lines().next().unwrap().contains(" BY "), "{shown}");
    assert!(shown.contains(" Ada "), "{shown}");
    fixture.run(&["unlock", "7ZZ"]).with(1);
    fixture
        .run(&["unlock", &run[..5]])
        .with(1)
        .saying("is not locked");
    let aborted = fixture.run(&["abort", &run[..5]]).with(0).stdout;
    assert!(
        aborted.contains(&format!("Run {run} is aborted")),
        "{aborted}"
    );
}

#[test]
fn a_run_goes_on_when_nobody_reads_what_it_prints() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let mut run = fixture.start(&["apply", "--yes"]);
    drop((run.stdout.take(), run.stderr.take()));
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(fixture.tags(), ["success"]);
}

#[test]
fn a_blocked_plan_is_not_said_to_be_applied() {
    let fixture = example("edge");
    fixture.commit_and_apply("The site", &[]).with(0);
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("Another image");
    let file = fixture.checkout.outside().join("x.plan");
    let file = file.to_str().unwrap();
    let told = fixture.run(&["plan", "-o", file]).with(0).stderr;
    assert!(told.contains("`trueup apply` refuses it"), "{told}");
    assert!(!told.contains("applies it"), "{told}");
    const LINE: &str = "Apply the saved plan";
    let markdown = |arguments: &[&str]| {
        let all = [arguments, &["--format", "markdown"]].concat();
        fixture.run(&all).with(0).stdout
    };
    assert!(!markdown(&["show", file]).contains(LINE));
    let allowed = ["plan", "--allow-redeploy", "all"];
    assert!(markdown(&allowed).contains(LINE));
    let told = fixture
        .run(&[&allowed[..], &["-o", file]].concat())
        .with(0)
        .stderr;
    assert!(told.contains("applies it"), "{told}");
}

#[test]
fn files_and_words_that_cannot_be_read_are_told_in_plain_words() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.checkout.write("broken", "{\"a\": [1,");
    for (arguments, code, said) in [
        (
            &["show", "broken"][..],
            1,
            "is not JSON, or cut off (line 1, column 9)",
        ),
        (
            &["apply", "broken"],
            1,
            "is not JSON, or cut off (line 1, column 9)",
        ),
        (
            &["status", "["],
            64,
            "`[` is not a pattern: unclosed character class",
        ),
        (
            &["plan", "--as-of", "yesterday"],
            64,
            "a day is written as `2026-11-23`",
        ),
        (
            &["plan", "clean", "edge-1", "--step", "a.b=[1]"],
            64,
            "are not a JSON map",
        ),
        (
            &["plan", "remediate", "--attempts", "21"],
            64,
            "it is from 1 to 20",
        ),
    ] {
        fixture.run(arguments).with(code).saying(said);
    }
}

#[test]
fn what_is_only_in_the_worktree_or_broken_in_the_records_is_told_with_the_way_on() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.edit("site-definition.yaml", "{name: edge}", "{name: other}");
    for command in ["plan", "status"] {
        fixture
            .run(&[command])
            .with(1)
            .saying("has no site `other`")
            .saying("in the worktree only; the sites there are: `edge`");
    }
    fixture.checkout.git(&["checkout", "site-definition.yaml"]);
    let state = "refs/trueup/edge/state";
    fixture.checkout.git(&["update-ref", state, "HEAD"]);
    for command in ["plan", "status", "log"] {
        fixture
            .run(&[command])
            .with(1)
            .saying("`site.json` in the records is broken")
            .saying(
                "broken ones here alone are deleted (`git update-ref -d refs/trueup/SITE/state`)",
            );
    }
    fixture.checkout.git(&["update-ref", "-d", state]);
    let lock = "refs/trueup/edge/lock";
    fixture.checkout.git(&["update-ref", lock, "HEAD"]);
    for command in ["plan", "apply", "status"] {
        fixture
            .run(&[command])
            .with(1)
            .saying("it names no holder")
            .saying("`git update-ref -d refs/trueup/SITE/lock`");
    }
}

#[test]
fn a_service_whose_protected_revision_or_settings_are_not_there_does_not_start() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture
        .run(&["serve", "--backends-from", "main"])
        .with(1)
        .saying("there is no ref `refs/remotes/main`")
        .saying("`refs/heads/main` is the branch of this clone");
    fixture
        .run(&["serve", "--config", "../nowhere/serve.yaml"])
        .with(1)
        .saying("cannot be read");
}

#[test]
fn numbers_without_their_unit_and_negative_ones_are_told_and_an_exit_code_may_be_two_words() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture
        .run(&["reserve", "edge-1", "--until", "-4h", "--reason", "x"])
        .with(64)
        .saying("no number or time here is negative");
    fixture
        .run(&["try", "clock", "3"])
        .with(64)
        .saying("a time ahead has a unit");
    let explained = fixture.run(&["explain", "exit", "8"]).with(0);
    assert!(explained.stdout.contains("interrupted"), "{explained:?}");
    let sign = fixture.run(&["explain", "-/+"]).with(0);
    assert!(sign.stdout.contains("built again"), "{sign:?}");
    fixture
        .run(&["apply", "power", "off", "all", "--yes"])
        .with(1)
        .saying("`--all` where an action names its nodes");
}
