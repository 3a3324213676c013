//! `trueup plan ACTION NODE…` and `trueup apply ACTION NODE…`, as far as a simulated site goes.

use serde_json::Value;

use super::fixture::{Ended, Fixture};

/// The example site with an etcd cluster of its three control nodes, deployed.
fn deployed() -> Fixture {
    let fixture = Fixture::one_rack();
    let members: Vec<String> = (1..=3)
        .map(|number| {
            let host = format!("10.20.2.{}", 11 + number);
            format!(
                "{{node: control0{number}, name: control0{number}, \
                 peer_url: 'https://{host}:2380', client_url: 'https://{host}:2379'}}"
            )
        })
        .collect();
    fixture.checkout.write(
        "etcd.yaml",
        format!(
            "schema: promenade/EtcdClusters/v1\nmetadata: {{name: etcd-clusters}}\ndata:\n  clusters:\n  \
             - name: kubernetes\n    credentials: {{ca: {{file: ca.pem}}, cert: {{file: cert.pem}}, key: {{file: key.pem}}}}\n    \
             members: [{}]\n",
            members.join(", ")
        ),
    );
    fixture.checkout.commit("An etcd cluster");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    fixture
}

/// The steps on nodes of the plan that was printed as JSON.
fn steps(ended: &Ended) -> Vec<String> {
    let plan = ended.json();
    let steps = plan["steps"].as_array().unwrap().iter();
    steps
        .filter(|step| step["node"].is_string())
        .map(|step| step["id"].as_str().unwrap().to_owned())
        .collect()
}

/// The status object at the end of a run whose events were printed as JSON.
fn status(ended: &Ended) -> Value {
    let last = ended.stdout.lines().last().unwrap_or_default();
    let status: Value = serde_json::from_str(last).unwrap();
    assert_eq!(status["kind"], "Status", "{}", ended.stdout);
    status
}

#[test]
fn a_node_that_is_relabelled_alone_is_recorded_with_nothing_else_of_its_design() {
    let fixture = super::accepted::example("edge");
    fixture.commit_and_apply("The site", &[]).with(0);
    fixture.edit(
        "profiles.yaml",
        "image: ubuntu-24.04",
        "image: ubuntu-26.04",
    );
    fixture.edit("profiles.yaml", "role: worker}", "role: guard}");
    fixture.checkout.commit("Another image, and another label");
    let relabelled = fixture.run(&["apply", "relabel", "edge-2", "--yes"]);
    relabelled.with(0);
    let plan = fixture.run(&["plan", "--format", "json"]).with(0).json();
    let changes = plan["changes"].as_array().unwrap();
    let kinds = changes
        .iter()
        .map(|change| change["kind"].as_str().unwrap());
    assert_eq!(kinds.collect::<Vec<_>>(), ["redeploy"; 3], "{plan}");
    fixture
        .run(&["apply", "--yes", "--allow-redeploy", "all"])
        .with(0);
    assert_eq!(fixture.ledger()["edge-2 deployed"], 2);
}

#[test]
fn a_control_node_is_redeployed_and_votes_again() {
    let fixture = deployed();
    let planned = fixture
        .run(&["plan", "redeploy", "control01", "--format", "json"])
        .with(0);
    let kinds = [
        "drain",
        "clear-labels",
        "remove-etcd",
        "check-etcd",
        "shutdown-kubelet",
        "destroy",
        "remove-from-cluster",
        "prepare",
        "deploy",
        "await-ready",
    ];
    assert_eq!(
        steps(&planned),
        kinds.map(|kind| format!("{kind}/control-nodes/control01"))
    );
    let tags = fixture.tags();
    let ended = fixture
        .run(&[
            "apply",
            "redeploy",
            "control01",
            "--yes",
            "--format",
            "json",
        ])
        .with(0);
    let status = status(&ended);
    assert_eq!(
        (&status["reason"], &status["code"]),
        (&"Success".into(), &200.into())
    );
    assert_eq!(fixture.tags(), tags);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    // And so may the next one.
    fixture
        .run(&["apply", "redeploy", "control02", "--yes"])
        .with(0);
}

#[test]
fn more_members_than_a_cluster_bears_are_refused_together() {
    let fixture = deployed();
    let ended = fixture
        .run(&[
            "apply",
            "teardown",
            "control02",
            "control03",
            "--yes",
            "--format",
            "json",
        ])
        .with(4)
        .saying("together with the others that this plan takes out, etcd cluster `kubernetes`");
    let status = status(&ended);
    assert_eq!(
        (&status["reason"], &status["code"]),
        (&"Conflict".into(), &409.into())
    );
    assert_eq!(fixture.effects("destroyed"), 0);
    // What is retired is not built again: of a quorum no more is than of its documents.
    let words = [
        "apply",
        "retire",
        "control02",
        "control03",
        "--reason",
        "old",
        "--yes",
    ];
    fixture
        .run(&words)
        .with(4)
        .saying("would have 1 of 3 members on machines that are not retired");
}

#[test]
fn a_second_member_is_not_removed_where_the_first_is_gone_and_that_is_said() {
    let fixture = deployed();
    fixture
        .run(&["apply", "--yes", "remove-etcd", "control01"])
        .with(0);
    fixture
        .run(&["plan", "remove-etcd", "control01"])
        .with(0)
        .stdout
        .find("its members are gone already")
        .expect("a member that is gone is no error");
    let refused = fixture
        .run(&[
            "apply",
            "--yes",
            "remove-etcd",
            "control02",
            "--format",
            "json",
        ])
        .with(7);
    assert!(
        refused
            .stderr
            .contains("would be left with 1 healthy voter"),
        "{}",
        refused.stderr
    );
    assert_eq!(status(&refused)["reason"], "RemoveEtcdError");
    let refused = fixture
        .run(&[
            "apply",
            "--yes",
            "decommission",
            "control02",
            "--format",
            "json",
        ])
        .with(7);
    assert_eq!(status(&refused)["reason"], "DisassociateStepFailure");
}

#[test]
fn every_outcome_has_exactly_one_status_object() {
    let fixture = deployed();
    fixture
        .run(&["apply", "--yes", "teardown", "compute12"])
        .with(0);
    fixture
        .run(&["apply", "--yes", "drain", "compute13"])
        .with(0);
    // What is asked for, the exit code, the reason and its code.
    let table: &[(&[&str], i32, &str, u16)] = &[
        (&["apply", "uncordon", "compute11"], 0, "Success", 200),
        (&["apply", "remove-etcd", "compute11"], 0, "Success", 200),
        (&["apply", "relabel", "compute11"], 0, "Success", 200),
        (&["apply", "uncordon", "compute13"], 0, "Success", 200),
        (&["apply", "drain", "compute12"], 1, "NotFound", 404),
        (&["apply", "decommission", "compute12"], 1, "NotFound", 404),
        (&["apply", "remove-etcd", "compute12"], 1, "NotFound", 404),
        (
            &["apply", "remove-from-cluster", "compute11"],
            4,
            "Conflict",
            409,
        ),
        (&["apply", "dran", "compute11"], 64, "BadRequest", 400),
        (&["apply", "drain"], 64, "BadRequest", 400),
        (
            &["apply", "drain", "compute11", "--bogus"],
            64,
            "BadRequest",
            400,
        ),
        (
            &["apply", "drain", "compute11", "--parallelism", "x"],
            64,
            "BadRequest",
            400,
        ),
        (&["apply", "./nothing"], 1, "BadRequest", 400),
        (&["etcd", "nothing"], 1, "NotFound", 404),
        (&["etcd", "--bogus"], 64, "BadRequest", 400),
        (&["etcd", "--rev", "nothing"], 1, "BadRequest", 400),
    ];
    for (arguments, code, reason, number) in table {
        let mut all = arguments.to_vec();
        all.extend(["--format", "json"]);
        if arguments[0] == "apply" {
            all.push("--yes");
        }
        let ended = fixture.run(&all).with(*code);
        let mut statuses = serde_json::Deserializer::from_str(&ended.stdout)
            .into_iter::<Value>()
            .map(Result::unwrap)
            .filter(|value| value["kind"] == "Status");
        let status = statuses.next().expect(&ended.stdout);
        assert!(statuses.next().is_none(), "{}", ended.stdout);
        assert_eq!(
            (&status["reason"], &status["code"]),
            (&(*reason).into(), &(*number).into()),
            "{arguments:?}"
        );
    }
}

#[test]
fn an_only_member_is_not_said_to_be_gone() {
    let fixture = Fixture::one_rack();
    fixture.checkout.write(
        "etcd.yaml",
        "schema: promenade/EtcdClusters/v1\nmetadata: {name: etcd-clusters}\ndata:\n  clusters:\n  \
         - name: kube\n    credentials: {ca: {file: ca.pem}, cert: {file: cert.pem}, key: {file: key.pem}}\n    \
         members: [{node: control01, name: control01, peer_url: 'https://10.20.2.12:2380', \
         client_url: 'https://10.20.2.12:2379'}]\n",
    );
    fixture.checkout.commit("An etcd cluster of one member");
    fixture
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    let planned = ["plan", "remove-etcd", "control01", "--destroy-etcd", "kube"];
    let shown = fixture.run(&planned).with(0).stdout;
    assert!(
        shown.contains("etcd never removes its only member"),
        "{shown}"
    );
    assert!(!shown.contains("gone already"), "{shown}");
    let mut apply = planned.to_vec();
    apply[0] = "apply";
    apply.extend(["--yes", "--format", "json"]);
    let ended = fixture.run(&apply).with(7);
    assert_eq!(status(&ended)["reason"], "RemoveEtcdError");
}

#[test]
fn a_step_on_the_cluster_for_a_machine_that_is_not_in_it_is_not_found() {
    let fixture = deployed();
    for action in ["decommission", "remove-from-cluster"] {
        fixture
            .run(&["apply", "--yes", action, "compute11"])
            .with(0);
    }
    let ended = fixture
        .run(&[
            "apply",
            "--yes",
            "drain",
            "control01",
            "compute11",
            "--format",
            "json",
        ])
        .with(1);
    assert!(
        ended.stderr.contains("are not in it: `compute11`"),
        "{}",
        ended.stderr
    );
    assert_eq!(status(&ended)["code"], 404);
}

#[test]
fn a_node_is_drained_and_takes_pods_again() {
    let fixture = deployed();
    let forced = [
        "plan",
        "drain",
        "compute11",
        "--on-drain-timeout",
        "force-delete",
    ];
    let shown = fixture.run(&forced).with(0).stdout;
    assert!(shown.contains("whatever their budgets say"), "{shown}");
    fixture
        .run(&["apply", "drain", "compute11", "--yes"])
        .with(0);
    let planned = fixture
        .run(&[
            "plan",
            "uncordon",
            "compute11",
            "compute12",
            "--format",
            "json",
        ])
        .with(0);
    assert_eq!(steps(&planned), ["uncordon/compute11"]);
    fixture
        .run(&["apply", "uncordon", "compute11", "--yes"])
        .with(0);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn a_node_that_was_torn_down_is_built_again_by_the_next_plan() {
    let fixture = deployed();
    fixture
        .run(&["apply", "teardown", "monitor01", "--yes"])
        .with(0);
    let planned = fixture.planned(&[]);
    assert_eq!(planned.get("monitor01").map(String::as_str), Some("create"));
    fixture.run(&["apply", "--yes"]).with(0);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
}

#[test]
fn machines_are_switched_off_and_on() {
    let fixture = deployed();
    fixture
        .run(&["apply", "power", "off", "compute21", "--yes"])
        .with(0);
    let planned = fixture.planned(&[]);
    assert_eq!(planned.get("compute21").map(String::as_str), Some("drift"));
    fixture
        .run(&["apply", "power", "on", "compute21", "--yes"])
        .with(0);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    fixture
        .run(&["apply", "power", "off", "ntp01", "--yes"])
        .with(4);
}

#[test]
fn an_unknown_name_or_a_wrong_flag_is_an_error_and_nothing_is_done() {
    let fixture = deployed();
    let table: &[(&[&str], i32, &str)] = &[
        (
            &["drain", "compute99"],
            1,
            "unknown node `compute99`; did you mean",
        ),
        (&["drain"], 64, "`drain` requires at least one node"),
        (
            &["dran", "compute11"],
            64,
            "there is no action `dran`; did you mean `drain`?",
        ),
        (&["power", "compute11"], 64, "`power` wants `on` or `off`"),
        (
            &["drain", "compute11", "--unset"],
            64,
            "`--unset` does not belong to `drain`",
        ),
        (
            &["drain", "compute11", "--target", "x"],
            64,
            "`--target` does not belong to `drain`",
        ),
        (
            &[
                "drain",
                "compute11",
                "--drain-node-timeout",
                "60",
                "--drain-node-grace-period",
                "60",
            ],
            64,
            "must be less than its timeout: 60 s are not less than 60 s",
        ),
        (
            &["drain", "compute11", "--drain-node-grace-period", "4000"],
            64,
            "4000 s are not less than 3600 s",
        ),
        (
            &["update", "compute11"],
            64,
            "`update` is about the whole site",
        ),
        (
            &["redeploy", "compute11", "--rev", "HEAD"],
            64,
            "`--rev HEAD` does not belong",
        ),
        (
            &["clean", "compute11", "--step", "erase"],
            64,
            "is not of the form `interface.step`",
        ),
    ];
    for (arguments, code, words) in table {
        let mut all = vec!["plan"];
        all.extend_from_slice(arguments);
        fixture.run(&all).with(*code).saying(words);
    }
    let ended = fixture
        .run(&["apply", "drain", "compute99", "--yes", "--format", "json"])
        .with(1);
    assert_eq!(status(&ended)["reason"], "NotFound");
    let ended = fixture
        .run(&[
            "apply",
            "drain",
            "compute11",
            "--unset",
            "--yes",
            "--format",
            "json",
        ])
        .with(64);
    assert_eq!(status(&ended)["reason"], "BadRequest");
}

#[test]
fn a_redeploy_without_a_site_action_before_it_is_an_error_before_anything() {
    let fixture = Fixture::one_rack();
    fixture
        .run(&["plan", "redeploy", "compute11"])
        .with(1)
        .saying("nothing was applied with success to site");
}

#[test]
fn a_saved_plan_of_an_action_is_applied_like_any_other() {
    let fixture = deployed();
    fixture
        .run(&["plan", "drain", "compute13", "-o", "drain"])
        .with(0);
    // The word is the action; the file is `./drain`.
    fixture.run(&["apply", "drain", "--yes"]).with(64);
    fixture.run(&["apply", "./drain"]).with(0);
    fixture
        .run(&["apply", "./drain"])
        .with(5)
        .saying("the records of nodes that the plan relies on have changed");
}

#[test]
fn what_was_decided_since_holds_for_an_older_revision_too() {
    let fixture = deployed();
    fixture.edit(
        "policy.yaml",
        "node_names: [ntp01]",
        "node_names: [ntp01, compute11]",
    );
    fixture.checkout.commit("Protect one more");
    fixture
        .run(&["apply", "redeploy", "compute11", "--yes"])
        .with(4)
        .saying("the policy protects it");
}

#[test]
fn a_member_whose_removal_would_be_refused_is_not_drained_for_it() {
    // Two may be away at the same time, as far as the policy is about it.
    let fixture = deployed();
    fixture.edit("policy.yaml", "control: 1", "control: 2");
    let loosen = ["--allow-loosening"];
    fixture.commit_and_apply("Let two go", &loosen).with(0);
    let group = |name: &str, nodes: &str| {
        format!(
            "  - {{name: {name}, critical: false, depends_on: [], \
             selectors: [{{node_names: [{nodes}]}}]}}\n"
        )
    };
    // The second is in both groups: where the first does not come back, only its own group holds it up.
    fixture.checkout.write(
        "strategy.yaml",
        format!(
            "schema: shipyard/DeploymentStrategy/v1\nmetadata: {{name: deployment-strategy}}\n\
             data:\n  groups:\n{}{}",
            group("both", "control01, control02"),
            group("again", "control02")
        ),
    );
    fixture.faults("[{nodes: [control01], step: deploy, outcome: fail}]");
    fixture
        .checkout
        .commit("A machine that is in two groups, and one that does not come back");
    let arguments = ["apply", "redeploy", "control01", "control02", "--yes"];
    // The order of the groups before was another one, and stricter.
    let more = ["--target-revision", "committed", "--allow-loosening"];
    let ended = fixture.run(&[&arguments[..], &more].concat());
    let ended = ended.saying("would be left with 1 healthy voter without control02");
    assert!(
        ended.stdout.contains("drain/again/control02"),
        "{}",
        ended.stdout
    );
    let ledger = fixture.ledger();
    assert!(ledger.contains_key("control01 drained"), "{ledger:?}");
    for effect in ["cordoned", "drained", "evicted"] {
        let effect = format!("control02 {effect}");
        assert!(!ledger.contains_key(&effect), "{effect}: {ledger:?}");
    }
}

#[test]
fn a_machine_that_a_redeploy_does_not_name_is_reported_as_its_record_says_and_does_not_count() {
    let fixture = super::accepted::example("edge");
    fixture.faults("[{nodes: [edge-3], step: deploy, outcome: fail}]");
    let ended = fixture.commit_and_apply("The site", &[]);
    assert!(
        ended.stdout.contains("2 deployed, 1 failed"),
        "{}",
        ended.stdout
    );
    let arguments = ["apply", "redeploy", "edge-1", "--yes"];
    let ended = fixture.run(&arguments).with(0);
    let said = [&*ended.stdout, &*ended.stderr].concat();
    assert!(
        said.contains("1 not deployed before and not in this plan"),
        "{said}"
    );
    assert!(said.contains("2 deployed, 1 failed"), "{said}");
    assert!(!said.contains("3 deployed"), "{said}");
}

#[test]
fn a_machine_that_joins_after_the_run_that_built_it_counts_as_deployed() {
    let fixture = super::accepted::example("edge");
    let backends = fixture.read("backends.yaml");
    let faults = "[{nodes: [edge-3], outcome: not-ready, times: 1}]";
    let cluster = format!("  clusters: {{kubernetes: {{kind: sim, sim: {{faults: {faults}}}}}}}\n");
    fixture
        .checkout
        .write("backends.yaml", format!("{backends}{cluster}"));
    let ended = fixture.commit_and_apply("The site", &[]);
    assert!(
        ended.stdout.contains("2 deployed, 1 failed"),
        "{}",
        ended.stdout
    );
    fixture.checkout.write("backends.yaml", backends);
    fixture.checkout.commit("Kubelets that answer");
    let ended = fixture.run(&["apply", "--yes"]).with(0);
    ended.saying("await-ready/workers/edge-3 succeeded");
    let shown = fixture.run(&["show", "--format", "json"]).with(0).json();
    assert_eq!(
        shown["report"]["groups"][0]["standings"],
        serde_json::json!({"deployed": 3})
    );
}

#[test]
fn a_redeploy_of_the_last_success_says_what_it_leaves_out() {
    let fixture = super::accepted::example("edge");
    fixture.commit_and_apply("The site", &[]).with(0);
    let arguments = ["plan", "redeploy", "edge-1", "--observed", "none"];
    let ended = fixture.run(&arguments).with(0);
    assert!(!ended.stderr.contains("this builds of"), "{ended:?}");
    for (path, text) in [("README", "Not of the site"), ("notes.yaml", "# None\n")] {
        fixture.checkout.write(path, text);
        fixture.checkout.commit("More");
    }
    let ended = fixture.run(&arguments).with(0);
    ended.saying("the last success, without the 1 commit of the site since; `--target-revision committed` builds of ");
    let newer = [&arguments[..], &["--target-revision", "committed"]].concat();
    let ended = fixture.run(&newer).with(0);
    assert!(!ended.stderr.contains("this builds of"), "{ended:?}");
}
