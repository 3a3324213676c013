//! A revision on its way through the sites of a repository: `trueup rollout`.

#[cfg(test)]
mod dag;

use std::path::Path;

use crate::fixture::{Ended, Fixture, copy_folder};
use crate::git::{Checkout, Origin};

const SITES: [&str; 4] = ["canary", "east", "north", "west"];

impl Ended {
    /// The same, if it printed some words for people, wherever.
    #[track_caller]
    fn telling(self, words: &str) -> Self {
        let all = format!("{}{}", self.stdout, self.stderr);
        assert!(all.contains(words), "`{words}` is not told:\n{all}");
        self
    }
}

/// Four small sites with a rollout: the canary, then the rest.
struct Fleet {
    fixture: Fixture,
}

impl Fleet {
    fn new(more: &str) -> Self {
        let fixture = Fixture::of(Checkout::new(), "none");
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/edge");
        for site in SITES {
            let folder = format!("sites/{site}");
            copy_folder(&example, &fixture.checkout.path().join(&folder));
            let definition = format!("{folder}/site-definition.yaml");
            let canary = if site == "canary" { "yes" } else { "no" };
            fixture.edit(
                &definition,
                "metadata: {name: edge}",
                &format!("metadata: {{name: {site}, labels: {{canary: \"{canary}\"}}}}"),
            );
        }
        let fleet = Self { fixture };
        fleet.document(&format!(
            "  phases:\n    - {{labels: {{canary: \"yes\"}}}}\n    - {{rest: true}}\n{more}"
        ));
        fleet.fixture.checkout.commit("The sites");
        fleet
    }

    fn document(&self, data: &str) {
        let text =
            format!("---\nschema: trueup/Rollout/v1\nmetadata: {{name: fleet}}\ndata:\n{data}");
        self.fixture.checkout.write("rollouts/fleet.yaml", text);
    }

    /// Injects faults into a site.
    fn faults(&self, site: &str, faults: &str) {
        let path = format!("sites/{site}/backends.yaml");
        let settings = format!("{{clock: virtual, faults: {faults}}}");
        self.fixture.simulator_at(&path, &settings);
    }

    fn rollout(&self, words: &[&str]) -> Ended {
        self.fixture.run(&[&["rollout"], words].concat())
    }

    /// The result of each site.
    fn results(&self) -> Vec<String> {
        let report = self.rollout(&["status", "fleet", "--format", "json"]);
        let report = report.with(0).json();
        let sites = report["sites"].as_array().unwrap().iter();
        sites
            .map(|site| {
                let text = |key: &str| site[key].as_str().unwrap().to_owned();
                format!("{} {}", text("site"), text("result"))
            })
            .collect()
    }

    /// The tags of a site.
    fn tags(&self, site: &str) -> usize {
        let pattern = format!("site-action-*/{site}/*");
        let tags = self.fixture.checkout.git(&["tag", "--list", &pattern]);
        tags.lines().count()
    }

    fn state(&self) -> String {
        let fixture = &self.fixture.checkout;
        fixture.git(&["rev-parse", "refs/trueup/rollouts/fleet"])
    }

    /// Moves the end of each soak that its state has into the past, as if a day had gone by.
    fn let_soaks_end(&self) {
        const REF: &str = "refs/trueup/rollouts/fleet";
        let git = |words: &[&str]| self.fixture.checkout.git(words).trim().to_owned();
        let shared = !git(&["remote"]).is_empty();
        if shared {
            git(&["fetch", "--quiet", "origin", &format!("+{REF}:{REF}")]);
        }
        let state = git(&["show", &format!("{REF}:rollout.json")]);
        let mut state: serde_json::Value = serde_json::from_str(&state).unwrap();
        for site in state["sites"].as_object_mut().unwrap().values_mut() {
            if let Some(until) = site.get_mut("soak_until") {
                *until = "2026-01-01T00:00:00Z".into();
            }
        }
        let file = self.fixture.checkout.outside().join("rollout.json");
        std::fs::write(&file, state.to_string()).unwrap();
        let blob = git(&["hash-object", "-w", file.to_str().unwrap()]);
        git(&["read-tree", "--empty"]);
        let entry = format!("100644,{blob},rollout.json");
        git(&["update-index", "--add", "--cacheinfo", &entry]);
        let tree = git(&["write-tree"]);
        git(&["read-tree", "HEAD"]);
        let commit = git(&["commit-tree", &tree, "-p", REF, "-m", "A day later"]);
        git(&["update-ref", REF, &commit]);
        if shared {
            git(&["push", "--quiet", "origin", REF]);
        }
    }

    /// The same repository with a remote that has it.
    fn shared(self) -> (Self, Origin) {
        let origin = Origin::new();
        let git = |words: &[&str]| self.fixture.checkout.git(words);
        git(&["remote", "add", "origin", &origin.url()]);
        git(&["push", "--quiet", "-u", "origin", "main"]);
        // Both clones move the same machines.
        let machines = self.fixture.checkout.outside().join("machines");
        git(&[
            "config",
            "trueup.simulatedSites",
            machines.to_str().unwrap(),
        ]);
        (self, origin)
    }

    /// Another clone, which moves the same machines.
    fn clone_of(&self, origin: &Origin) -> Self {
        let checkout = Checkout::clone_of(&origin.url(), &[]);
        let machines = self.fixture.checkout.outside().join("machines");
        checkout.git(&[
            "config",
            "trueup.simulatedSites",
            machines.to_str().unwrap(),
        ]);
        Self {
            fixture: Fixture::of(checkout, "none"),
        }
    }
}

const ALL_DONE: [&str; 4] = [
    "canary succeeded",
    "east succeeded",
    "north succeeded",
    "west succeeded",
];

#[test]
fn the_canary_comes_first_then_the_rest_and_a_second_call_does_nothing() {
    let fleet = Fleet::new("");
    let plan = fleet.rollout(&["plan", "fleet"]).with(0);
    for words in [
        "Phase 1: 1 site",
        "1 site (canary), pending",
        "3 sites (east, north, west), pending: the same, changes: Plan: 3 to deploy",
        "was not begun",
    ] {
        assert!(plan.stdout.contains(words), "{words} in {}", plan.stdout);
    }
    fleet
        .rollout(&["status", "fleet"])
        .with(1)
        .telling("was not begun");
    let next = fleet.rollout(&["next", "fleet"]).with(0);
    let next = next.telling("Rollout `fleet` is complete: 4 sites");
    let begun = next.stderr.find("canary: succeeded").unwrap();
    assert!(
        begun < next.stderr.find("east: running").unwrap(),
        "{}",
        next.stderr
    );
    assert_eq!(fleet.results(), ALL_DONE);
    let (state, tags) = (fleet.state(), SITES.map(|site| fleet.tags(site)));
    assert_eq!(tags, [1; 4]);
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("is complete");
    assert_eq!(
        (fleet.state(), SITES.map(|site| fleet.tags(site))),
        (state, tags)
    );

    // Another revision is another rollout, if it is asked for.
    for site in SITES {
        let path = format!("sites/{site}/profiles.yaml");
        fleet.fixture.edit(&path, "role: worker}", "role: edge}");
    }
    fleet.fixture.checkout.commit("Other labels");
    let plan = fleet.rollout(&["plan", "fleet", "--rev", "HEAD", "--format", "json"]);
    let plan = plan.with(0).json();
    assert_eq!(plan["next"], "begin");
    assert_eq!(plan["sites"][0]["state"], "changes");
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("is complete");
    fleet
        .rollout(&["next", "fleet", "--rev", "HEAD"])
        .with(0)
        .telling("is complete");
    assert_eq!(SITES.map(|site| fleet.tags(site)), [2; 4]);
}

#[test]
fn what_a_rollout_has_not_reached_goes_over_commits_where_that_is_allowed() {
    let fleet = Fleet::new("");
    fleet.rollout(&["next", "fleet"]).with(0);
    let path = "sites/canary/profiles.yaml";
    for (old, new) in [
        ("role: worker}", "role: edge}"),
        ("role: edge}", "role: rim}"),
    ] {
        fleet.fixture.edit(path, old, new);
        fleet.fixture.checkout.commit("Other labels");
    }
    fleet
        .rollout(&["next", "fleet", "--rev", "HEAD"])
        .with(4)
        .telling("--allow-intermediate-commits");
    assert_eq!(fleet.results()[0], "canary held");
    fleet
        .rollout(&["next", "fleet", "--allow-intermediate-commits"])
        .with(0)
        .telling("is complete");
}

#[test]
fn a_success_before_a_later_run_does_not_count() {
    let fleet = Fleet::new("");
    let run = |words: &[&str]| fleet.fixture.run(words).with(0);
    run(&["apply", "--site", "canary", "--yes"]);
    run(&[
        "apply", "power", "off", "edge-1", "--site", "canary", "--yes",
    ]);
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("canary: running")
        .telling("is complete");
    assert_eq!(fleet.tags("canary"), 2);
}

#[test]
fn what_is_not_observed_is_held_and_never_counted_as_done() {
    let fleet = Fleet::new("");
    fleet.rollout(&["next", "fleet"]).with(0);
    fleet.faults("canary", "[{nodes: ['edge-*'], outcome: unobservable}]");
    fleet.fixture.checkout.commit("No answer");
    for words in [&["next", "fleet", "--rev", "HEAD"][..], &["next", "fleet"]] {
        fleet
            .rollout(words)
            .with(1)
            .telling("not observed")
            .telling("the phase waits for 1 site held (canary)");
        assert_eq!(fleet.results()[..2], ["canary held", "east pending"]);
    }
}

#[test]
fn a_run_at_work_when_the_soak_ends_is_waited_for() {
    let fleet = Fleet::new("  soak: 1h\n");
    fleet.rollout(&["next", "fleet"]).with(0).telling("soak");
    let folder = fleet.fixture.checkout.path().join(".git/trueup/canary");
    let kill = r#"{"nodes": ["edge-2"], "step": "deploy"}"#;
    std::fs::write(folder.join("simulated-site.json.kill"), kill).unwrap();
    let by_hand = ["apply", "redeploy", "edge-2", "--site", "canary", "--yes"];
    fleet.fixture.run(&by_hand).with(137);
    fleet.let_soaks_end();
    fleet
        .rollout(&["next", "fleet"])
        .with(8)
        .telling("is not known: run ");
    assert_eq!(fleet.results()[..2], ["canary succeeded", "east pending"]);
    let resume = ["apply", "--resume", "--site", "canary", "--yes"];
    fleet.fixture.run(&resume).with(0);
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("east: running");
}

#[test]
fn an_end_that_the_remote_does_not_have_is_held() {
    use std::os::unix::fs::PermissionsExt as _;
    let (fleet, origin) = Fleet::new("").shared();
    let hook = origin.path().join("hooks/pre-receive");
    let refuse =
        "#!/bin/sh\nwhile read old new ref; do case $ref in refs/tags/*) exit 1;; esac; done\n";
    std::fs::write(&hook, refuse).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    fleet
        .rollout(&["next", "fleet"])
        .with(9)
        .telling("the phase waits for 1 site held (canary)");
    assert_eq!(fleet.tags("east"), 0);
    std::fs::remove_file(&hook).unwrap();
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("is complete");
    assert_eq!(fleet.tags("canary"), 1);
}

#[test]
fn a_site_that_the_checkout_does_not_have_is_planned_all_the_same() {
    let fleet = Fleet::new("  soak: 1h\n");
    fleet.rollout(&["next", "fleet"]).with(0);
    fleet.fixture.checkout.git(&["rm", "-rq", "sites/west"]);
    fleet.fixture.checkout.commit("One site less");
    fleet
        .rollout(&["plan", "fleet"])
        .with(0)
        .telling("1 site (west), pending");
}

#[test]
fn a_failing_canary_stops_and_a_repaired_one_lets_go_on() {
    let fleet = Fleet::new("");
    fleet.faults(
        "canary",
        "[{nodes: ['edge-*'], step: deploy, outcome: fail, message: no answer from PXE}]",
    );
    fleet.fixture.checkout.commit("Faults");
    fleet
        .rollout(&["next", "fleet"])
        .with(7)
        .telling("is stopped: 1 site has failed");
    let stopped = [
        "canary failed",
        "east pending",
        "north pending",
        "west pending",
    ];
    assert_eq!(fleet.results(), stopped);
    assert_eq!(
        ["east", "north", "west"].map(|site| fleet.tags(site)),
        [0; 3]
    );
    fleet
        .rollout(&["explain", "fleet", "canary"])
        .with(0)
        .telling("`trueup plan --site canary`")
        .telling("made no success of the site");
    fleet
        .rollout(&["explain", "fleet", "cnary"])
        .with(1)
        .telling("did you mean `canary`?");
    // Without a word of an operator it stays so.
    fleet.rollout(&["next", "fleet"]).with(7);
    assert_eq!(fleet.tags("canary"), 1);

    // A new revision needs the end of the old one.
    fleet.faults("canary", "[]");
    fleet.fixture.checkout.commit("Repaired");
    fleet
        .rollout(&["next", "fleet", "--rev", "HEAD"])
        .with(4)
        .telling("is under way at");
    fleet
        .rollout(&["abort", "fleet", "--reason", "repaired in another commit"])
        .with(0);
    let aborted = fleet.rollout(&["next", "fleet"]).with(0);
    aborted
        .telling("was aborted by Ada")
        .telling("repaired in another commit");
    fleet.rollout(&["resume", "fleet"]).with(4);
    fleet
        .rollout(&["next", "fleet", "--rev", "HEAD"])
        .with(0)
        .telling("is complete");
    assert_eq!(fleet.results(), ALL_DONE);
}

#[test]
fn a_paused_or_aborted_rollout_does_nothing() {
    let fleet = Fleet::new("  soak: 1h\n");
    fleet
        .rollout(&["plan", "fleet"])
        .with(0)
        .telling("then a soak of 1 h");
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("the soak of the phase ends at");
    fleet.rollout(&["pause", "fleet"]).with(64);
    fleet
        .rollout(&["pause", "fleet", "--reason", "a\nstorm"])
        .with(0);
    let state = fleet.state();
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("is paused by Ada")
        .telling("a storm");
    assert_eq!(fleet.state(), state);
    fleet.rollout(&["resume", "fleet"]).with(0);
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("the soak of the phase ends at");
    fleet
        .rollout(&["abort", "fleet", "--reason", "not wanted"])
        .with(0);
    let state = fleet.state();
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("was aborted by Ada");
    fleet
        .rollout(&["pause", "fleet", "--reason", "late"])
        .with(4);
    assert_eq!(fleet.state(), state);
    assert_eq!(
        fleet.results()[1..],
        ["east pending", "north pending", "west pending"]
    );
    assert_eq!(fleet.tags("east"), 0);
}

#[test]
fn what_drifts_in_its_soak_fails_and_what_does_not_lets_the_next_phase_begin() {
    let fleet = Fleet::new("  soak: 1h\n");
    fleet.rollout(&["next", "fleet"]).with(0);
    fleet.let_soaks_end();
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("the soak of the phase ends at");
    assert_eq!(fleet.results(), ALL_DONE);
    fleet.let_soaks_end();
    // A machine of the last phase is switched off behind its back.
    fleet
        .fixture
        .run(&["apply", "power", "off", "edge-1", "--site", "east", "--yes"])
        .with(0);
    fleet
        .rollout(&["next", "fleet"])
        .with(7)
        .telling("is stopped");
    assert_eq!(fleet.results()[1], "east failed");
    fleet
        .rollout(&["explain", "fleet", "east"])
        .with(0)
        .telling("it has drifted in its soak");
    // Begun once more, it gets a run of its own.
    fleet.rollout(&["resume", "fleet"]).with(0);
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("east: running");
    assert_eq!(fleet.tags("east"), 2);
    fleet.let_soaks_end();
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("is complete");
}

#[test]
fn a_killed_call_leaves_its_site_held_until_it_is_resumed() {
    let fleet = Fleet::new("");
    let folder = fleet.fixture.checkout.path().join(".git/trueup/canary");
    std::fs::create_dir_all(&folder).unwrap();
    let kill = r#"{"nodes": ["edge-2"], "step": "deploy"}"#;
    std::fs::write(folder.join("simulated-site.json.kill"), kill).unwrap();
    fleet.rollout(&["next", "fleet"]).with(137);
    assert_eq!(fleet.results()[0], "canary running");
    fleet
        .rollout(&["next", "fleet"])
        .with(8)
        .telling("was interrupted");
    let results = fleet.results();
    assert_eq!(
        results,
        [
            "canary held",
            "east pending",
            "north pending",
            "west pending"
        ]
    );
    fleet
        .rollout(&["explain", "fleet", "canary"])
        .with(0)
        .telling("`trueup apply --resume --site canary` resumes it");
    fleet
        .fixture
        .run(&["apply", "--resume", "--site", "canary", "--yes"])
        .with(0);
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("is complete");
    assert_eq!(SITES.map(|site| fleet.tags(site)), [1; 4]);
}

#[test]
fn what_a_guard_refuses_is_held_and_an_apply_by_hand_counts() {
    let fleet = Fleet::new("");
    fleet.rollout(&["next", "fleet"]).with(0);
    let path = "sites/canary/profiles.yaml";
    fleet.fixture.edit(path, "ubuntu-24.04", "ubuntu-24.10");
    fleet.fixture.checkout.commit("Another image");
    let plan = fleet.rollout(&["plan", "fleet", "--rev", "HEAD"]).with(0);
    plan.telling("1 site (canary), pending: blocked")
        .telling("BLOCKED: 3 to redeploy");
    let next = fleet.rollout(&["next", "fleet", "--rev", "HEAD"]).with(4);
    next.telling("the phase waits for 1 site held (canary)");
    assert_eq!(fleet.results()[0], "canary held");
    fleet.rollout(&["next", "fleet"]).with(4);
    let allowed = [
        "apply",
        "--site",
        "canary",
        "--yes",
        "--allow-redeploy",
        "all",
    ];
    fleet.fixture.run(&allowed).with(0);
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("is complete");
    // The other sites have nothing to do at this revision.
    assert_eq!(SITES.map(|site| fleet.tags(site)), [2, 1, 1, 1]);
    fleet
        .rollout(&["status", "fleet"])
        .with(0)
        .telling("there was nothing to do");
}

#[test]
fn two_callers_begin_each_site_once() {
    let (fleet, origin) = Fleet::new("").shared();
    let other = fleet.clone_of(&origin);
    let mut callers = Vec::new();
    for each in [&fleet, &other] {
        callers.push(each.fixture.start(&["rollout", "next", "fleet"]));
    }
    let ended: Vec<Ended> = callers
        .into_iter()
        .map(|child| child.wait_with_output().unwrap().into())
        .collect();
    let begun: String = ended.iter().map(|each| each.stderr.clone()).collect();
    for site in SITES {
        let begins = begun.matches(&format!("\n{site}: running\n")).count()
            + usize::from(begun.starts_with(&format!("{site}: running\n")));
        assert_eq!(begins, 1, "{site}: {begun}");
    }
    // If one waited for the other, a further call ends it.
    for each in [&fleet, &other] {
        each.rollout(&["next", "fleet"])
            .with(0)
            .telling("is complete");
        assert_eq!(each.results(), ALL_DONE);
    }
    let tags = origin.git(&["tag", "--list", "site-action-success/*"]);
    assert_eq!(tags.lines().count(), 4, "{tags}");
}

#[test]
fn another_clone_continues_and_a_revision_that_is_not_checked_out_is_refused() {
    let (fleet, origin) = Fleet::new("  soak: 1h\n").shared();
    fleet.rollout(&["next", "fleet"]).with(0).telling("soak");
    let other = fleet.clone_of(&origin);
    fleet.let_soaks_end();
    assert_eq!(other.results()[0], "canary succeeded");
    other
        .fixture
        .checkout
        .git(&["commit", "--quiet", "--allow-empty", "-m", "Newer"]);
    let refused = other.rollout(&["next", "fleet"]).with(4);
    refused
        .telling("is checked out")
        .telling("git switch --detach");
    other
        .fixture
        .checkout
        .git(&["switch", "--quiet", "--detach", "HEAD~1"]);
    other.rollout(&["next", "fleet"]).with(0).telling("soak");
    assert_eq!(fleet.results(), ALL_DONE);

    // A state that is none is refused with a sentence.
    let blob = "not a state";
    fleet.fixture.checkout.write("rollout.json", blob);
    fleet.fixture.checkout.git(&["add", "rollout.json"]);
    fleet
        .fixture
        .checkout
        .git(&["commit", "--quiet", "-m", "Hostile"]);
    fleet.fixture.checkout.git(&[
        "push",
        "--quiet",
        "--force",
        "origin",
        "HEAD:refs/trueup/rollouts/fleet",
    ]);
    fleet
        .rollout(&["next", "fleet"])
        .with(1)
        .telling("the state of rollout `fleet` cannot be used");
}

#[test]
fn an_unreachable_remote_or_site_is_never_counted_as_done() {
    let (fleet, origin) = Fleet::new("").shared();
    fleet
        .fixture
        .checkout
        .git(&["remote", "set-url", "origin", "file:///nowhere"]);
    fleet.rollout(&["next", "fleet"]).with(1);
    fleet
        .fixture
        .checkout
        .git(&["remote", "set-url", "origin", &origin.url()]);
    fleet.rollout(&["next", "fleet", "--no-push"]).with(64);
    fleet
        .rollout(&["next", "fleet", "--offline"])
        .with(64)
        .telling("--offline");
    // Documents with errors hold a site.
    fleet
        .fixture
        .checkout
        .write("sites/canary/broken.yaml", "a: [b\n");
    fleet.fixture.checkout.commit("Broken");
    let held = fleet.rollout(&["next", "fleet"]).with(1);
    held.telling("the phase waits for 1 site held (canary)");
    assert_eq!(fleet.results()[0], "canary held");
    assert_eq!(fleet.tags("east"), 0);
}

#[test]
fn problems_of_a_document_are_shown_with_file_line_and_hint() {
    let fleet = Fleet::new("");
    fleet.document(
        "  sites: [{names: [est]}]\n  phases:\n    - {rest: true}\n    - {percent: 200}\n",
    );
    fleet.fixture.checkout.commit("Slips");
    let refused = fleet.rollout(&["plan", "fleet"]).with(1);
    refused
        .telling("rollouts/fleet.yaml:7")
        .telling("rule-rollout-rest");
    fleet.document("  sites: [{names: [est]}]\n  phases: [{rest: true}]\n");
    fleet.fixture.checkout.commit("A slip");
    let refused = fleet.rollout(&["next", "fleet"]).with(1);
    refused
        .telling("did you mean `east`?")
        .telling("rule-rollout-nothing");
    for site in [&["--all-sites"][..], &["--site", "east"]] {
        let refused = fleet.fixture.run(&[&["validate"], site].concat()).with(1);
        refused
            .telling("rule-rollout-nothing")
            .telling("rollouts/fleet.yaml:6");
    }
    fleet
        .fixture
        .run(&["explain", "Rollout.phases.rest"])
        .with(0)
        .telling("boolean");
    fleet
        .rollout(&["next", "flet"])
        .with(1)
        .telling("did you mean `fleet`?");
    fleet.rollout(&["next", "../fleet"]).with(64);
    fleet.rollout(&["next", "fleet", "--site", "east"]).with(64);
}

#[test]
fn what_is_printed_as_json_is_valid_by_its_schema() {
    let fleet = Fleet::new("  soak: 1h\n");
    let schema = include_str!("../../../schemas/rollout.json");
    let schema = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let check = |command: &str| {
        let shown = fleet.rollout(&[command, "fleet", "--format", "json"]);
        let shown = shown.with(0).json();
        let found: Vec<String> = validator
            .iter_errors(&shown)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert_eq!(found, Vec::<String>::new(), "{command}: {shown:#}");
    };
    check("plan");
    fleet.rollout(&["next", "fleet"]).with(0);
    check("status");
    check("plan");
    fleet
        .rollout(&["abort", "fleet", "--reason", "another image"])
        .with(0);
    check("status");
}

#[test]
fn the_remote_is_asked_once_for_all_sites() {
    let (fleet, origin) = Fleet::new("").shared();
    fleet.rollout(&["next", "fleet"]).with(0);
    let other = fleet.clone_of(&origin);
    let outside = other.fixture.checkout.outside();
    let (folder, log) = (outside.join("bin"), outside.join("git.log"));
    std::fs::create_dir(&folder).unwrap();
    let path = std::env::var("PATH").unwrap();
    let own = format!("{}:{path}", folder.display());
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> '{}'\nPATH='{path}' exec git \"$@\"\n",
        log.display()
    );
    let file = folder.join("git");
    std::fs::write(&file, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, mode).unwrap();
    let mut plan = other
        .fixture
        .command(&["rollout", "plan", "fleet", "--format", "json"]);
    let ended = plan.env("PATH", own).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let shown: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let sites = shown["sites"].as_array().unwrap();
    assert!(
        sites.iter().all(|site| site["state"] == "no-changes"),
        "{shown:#}"
    );
    let log = std::fs::read_to_string(&log).unwrap();
    let count = |word: &str| {
        let lines = log
            .lines()
            .filter(|line| line.split(' ').any(|own| own == word));
        lines.count()
    };
    // For the state of the rollout, and for the records of all sites.
    assert_eq!((count("ls-remote"), count("fetch")), (2, 2), "{log}");
}

#[test]
fn a_site_that_is_held_is_told_with_the_way_on_and_one_rollout_needs_no_name() {
    let fleet = Fleet::new("");
    fleet.rollout(&["status"]).with(1).saying("was not begun");
    fleet
        .rollout(&["status", "flet"])
        .with(1)
        .saying("did you mean `fleet`?");
    let first = ["apply", "--yes", "--site", "canary"];
    fleet.fixture.run(&first).with(0);
    fleet.fixture.edit(
        "sites/canary/profiles.yaml",
        "image: ubuntu-24.04",
        "image: ubuntu-26.04",
    );
    fleet.fixture.checkout.commit("An image that wipes");
    fleet
        .rollout(&["next", "fleet"])
        .with(4)
        .saying("a success of that at its revision counts");
    let status = fleet.rollout(&["status"]).with(0).stdout;
    assert!(
        status.contains("Site `canary` stays held while the reason lasts"),
        "{status}"
    );
    fleet.fixture.checkout.write(
        "rollouts/second.yaml",
        "schema: trueup/Rollout/v1\nmetadata: {name: second}\ndata: {phases: [{rest: true}]}\n",
    );
    fleet.fixture.checkout.commit("Another rollout");
    fleet
        .rollout(&["status"])
        .with(64)
        .saying("there are several rollouts: fleet, second");
}

#[test]
fn a_site_whose_machine_is_reserved_is_held_with_who_has_it_and_a_complete_rollout_is_not_aborted()
{
    let fleet = Fleet::new("");
    let first = ["apply", "--yes", "--site", "canary"];
    fleet.fixture.run(&first).with(0);
    fleet.fixture.edit(
        "sites/canary/nodes.yaml",
        "{name: edge-1}\ndata:\n  host_profile: worker\n  metadata: {rack: closet,",
        "{name: edge-1}\ndata:\n  host_profile: worker\n  metadata: {owner_data: {tier: gold}, rack: closet,",
    );
    fleet.fixture.checkout.commit("A label");
    let reserve = [
        "reserve", "edge-1", "--until", "4h", "--reason", "a fan", "--site", "canary",
    ];
    fleet.fixture.run(&reserve).with(0);
    fleet
        .rollout(&["next", "fleet"])
        .with(4)
        .telling("trueup release edge-1 --site canary");
    for words in [&["explain", "fleet"][..], &["explain", "fleet", "canary"]] {
        fleet
            .rollout(words)
            .with(0)
            .telling("edge-1 is reserved by")
            .telling("trueup release edge-1 --site canary");
    }
    fleet
        .rollout(&["pause", "fleet", "--reason", "storm"])
        .with(0);
    fleet
        .rollout(&["explain", "fleet", "canary"])
        .with(0)
        .telling("next: once the rollout is resumed");
    fleet.rollout(&["resume", "fleet"]).with(0);
    let release = ["release", "edge-1", "--site", "canary"];
    fleet.fixture.run(&release).with(0);
    fleet
        .rollout(&["next", "fleet"])
        .with(0)
        .telling("is complete");
    let state = fleet.state();
    fleet
        .rollout(&["abort", "fleet", "--reason", "late"])
        .with(4)
        .saying("is complete");
    assert_eq!(fleet.state(), state);
}

#[test]
fn a_second_abort_tells_of_the_first_and_ends_what_comes_next() {
    let fleet = Fleet::new("  soak: 1h\n");
    fleet.rollout(&["next", "fleet"]).with(0);
    let abort = |reason: &str| fleet.rollout(&["abort", "fleet", "--reason", reason]);
    abort("not wanted").with(0).saying("Aborted:");
    abort("another").with(0).saying("aborted already, by Ada");
    fleet
        .rollout(&["explain", "fleet", "east"])
        .with(0)
        .telling("next: nothing, since the rollout was aborted");
}
