//! The file of a plan: written, read back, altered, hostile.

use super::*;
use crate::guard::{WaveReason, WaveSize};
use crate::plan::saved::{SavedError, digest, read, write};

fn rich() -> Plan {
    let mut fixture = PlanFixture::settled(&["gone", "n1", "n2", "n3", "n4"]);
    fixture.leave("gone");
    fixture.bare("n1");
    fixture.edit("n2", Section::Labels);
    fixture.edit("n3", Section::Storage);
    fixture.options.allow_redeploy.nodes = these(&["n3"]);
    fixture.options.allow_destroy = all();
    fixture.options.max_failures = Some(3);
    fixture.plan()
}

#[test]
fn a_plan_comes_back_as_it_was_written_and_its_digest_is_in_it() {
    let plan = rich();
    let bytes = write(&plan);
    assert_eq!(read(&bytes).unwrap(), plan);
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(value["digest"], *digest(&plan));
    assert_eq!(value["steps"][1]["needs"][0]["wait"], "success");
}

/// A rehearsal with all that it may have.
fn rehearsal() -> crate::plan::Rehearsal {
    crate::plan::Rehearsal {
        runs: 3,
        first_seed: 1,
        faults: 8,
        failed: 1,
        groups: vec![crate::plan::RehearsedGroup {
            group: GroupName::from("g"),
            critical: true,
            failed: 1,
            seed: Some(2),
        }],
        etcd: vec![crate::plan::RehearsedCluster {
            cluster: crate::design::ClusterName::from("kubernetes"),
            now: 3,
            fewest: 2,
            seed: 1,
            left_short: 1,
        }],
        most_away: 1,
        most_away_seed: 1,
        median: 60,
        longest: 90,
        longest_seed: 3,
        worst: Some(crate::plan::WorstRun {
            seed: 2,
            undone: 1,
            failures: vec!["deploy/g/n1 fails for good".to_owned()],
            more: 0,
        }),
    }
}

#[test]
fn a_rehearsal_in_a_file_is_no_part_of_its_digest_and_is_never_read_back() {
    let mut plan = rich();
    let digest_before = digest(&plan);
    plan.rehearsal = Some(rehearsal());
    assert_eq!(digest(&plan), digest_before);
    assert_eq!(read(&write(&plan)).unwrap().rehearsal, None);
}

#[test]
fn the_verdict_in_a_file_is_no_part_of_its_digest_and_is_never_read_back() {
    let mut plan = rich();
    let digest_before = digest(&plan);
    plan.checked = Some(VERDICT);
    assert_eq!(digest(&plan), digest_before);
    let bytes = write(&plan);
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(value["checked"]["rules"], 48);
    assert_eq!(read(&bytes).unwrap().checked, None);
    // Whatever it says.
    let text = String::from_utf8(bytes).unwrap();
    let text = text.replace("\"findings\":0", "\"findings\":[\"none\"]");
    assert_eq!(read(text.as_bytes()).unwrap().checked, None);
}

/// The text of a plan with the digests that it should have, as an attacker makes it who knows the digests.
pub(crate) fn forge(altered: &str) -> String {
    let mut text = altered.to_owned();
    while let Err(
        SavedError::Altered { written, computed } | SavedError::AnotherEffect { written, computed },
    ) = read(text.as_bytes())
    {
        text = text.replace(&format!("\"{written}\""), &format!("\"{computed}\""));
    }
    text
}

#[test]
fn each_thing_wrong_with_a_file_has_its_own_message() {
    let text = String::from_utf8(write(&rich())).unwrap();
    // Altered by an attacker who knows how the digest is made.
    let forged = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let forged = forge(&text.replacen(from, to, 1));
        read(forged.as_bytes()).unwrap_err().to_string()
    };
    let plain = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
    assert!(plain("").starts_with("the file is not JSON"));
    assert!(plain(&text[..text.len() / 2]).starts_with("the file is not JSON"));
    assert_eq!(
        plain("{}"),
        "the file is not a plan: it has no `format_version`"
    );
    assert_eq!(
        plain("[1]"),
        "the file is not a plan: it has no `format_version`"
    );
    assert_eq!(
        plain("{\"format_version\":99}"),
        "the plan has format version 99; this program reads version 3"
    );
    let altered = text.replacen("\"timeout\":60", "\"timeout\":61", 1);
    assert!(plain(&altered).starts_with("the plan was altered"));
    let unknown = text.replacen("\"site\":", "\"run\":\"x\",\"site\":", 1);
    assert!(plain(&unknown).contains("unknown field `run`"));
    let table = [
        (
            "\"id\":\"verify-site\"",
            "\"id\":\"verify-cite\"",
            "step 0 calls itself \"verify-cite\" and is `verify-site`",
        ),
        (
            "\"needs\":[{\"step\":0,",
            "\"needs\":[{\"step\":1,",
            "step `prepare-site` needs step 1, which does not come before it",
        ),
        (
            "\"steps\":[4]",
            "\"steps\":[4000]",
            "is for step 4000, which was not found in the plan",
        ),
        (
            "\"site\":\"site\"",
            "\"site\":\"a/b\"",
            "\"a/b\" cannot be the name of a site",
        ),
        (
            "\"name\":\"all\"",
            "\"name\":\"other\"",
            "step `start/all` is about a group that the plan does not have",
        ),
    ];
    for (from, to, expected) in table {
        let from = if from.starts_with("\"steps\":[") {
            let at = text.rfind("\"steps\":[").unwrap();
            let end = text[at..].find(']').unwrap();
            text[at..=at + end].to_owned()
        } else {
            from.to_owned()
        };
        let told = forged(&from, to);
        assert!(told.contains(expected), "{told}");
    }
}

/// A forecast of the time of a run.
fn forecast() -> crate::plan::Forecast {
    crate::plan::Forecast {
        time: Some(crate::plan::TimeForecast {
            median: 60,
            percentile_5: 50,
            percentile_90: 70,
            percentile_95: 80,
            timeouts: 600,
            runs: 99,
        }),
        ..crate::plan::Forecast::default()
    }
}

fn full_guards() -> crate::plan::PlanGuards {
    crate::plan::PlanGuards {
        in_force: Some(Arc::from("c")),
        changes: true,
        stricter_in_force: these(&["wipe"]),
        loosened: vec![crate::plan::Loosened {
            guard: Arc::from("maintenance_windows"),
            flag: Some(Arc::from("outside-windows")),
            how: Arc::from("not only by night"),
        }],
        exceeded: vec![crate::plan::Exceeded {
            rung: crate::design::Rung::Wipe,
            limit: Arc::from("machines"),
            reached: 2,
            most: 1,
        }],
        places: vec![crate::guard::PlaceLimit {
            of: Arc::from("of rack `r1`"),
            most: 2,
            places: 1,
            is_given: true,
            nodes: vec![NodeName::from("n1"), NodeName::from("n2")],
            down: vec![NodeName::from("n1")],
        }],
        values: [(Arc::from("max_failures"), serde_json::json!(2))].into(),
    }
}

/// A machine of which all is known.
fn machine() -> crate::plan::CoveredMachine {
    let text = |text: &str| Some(Arc::from(text));
    let sections = Section::ALL.into_iter().take(7);
    let digest = crate::design::SectionDigest([7; 32]);
    crate::plan::CoveredMachine {
        sections: sections.map(|section| (section, digest)).collect(),
        controller: crate::design::OutOfBand {
            kind: text("redfish"),
            address: text("10.0.0.1"),
            account: text("admin"),
        },
        backend: Some(Arc::new(crate::plan::CoveredBackend {
            kind: crate::design::BackendKind::Ironic,
            address: text("https://ironic.example:6385"),
            settings: Some(digest),
        })),
        clusters: Some(digest),
        names: [(Arc::from("ironic"), Arc::from("n1"))].into(),
        identity: crate::identity::Identity {
            unverified: true,
            ..crate::identity::Identity::of(
                Some("6f5902ac-2b24-4e4b-9c1e-6d9f3b1f0001"),
                Some("SN1"),
            )
            .in_provisioner("p1")
            .with_macs(["52:54:00:12:34:56"])
        },
    }
}

const VERDICT: crate::plan::CheckSummary = crate::plan::CheckSummary {
    rules: 48,
    findings: 0,
    version: 1,
};

fn describe_machine(change: &mut crate::plan::Change) {
    change.machine = Some(Box::new(machine()));
    change.inventory = Some(crate::design::SectionDigest([8; 32]));
}

fn first_place() -> crate::diagnostic::Place {
    crate::diagnostic::Place {
        path: Arc::from("site.yaml"),
        line: 1,
        column: 2,
    }
}

fn way_back() -> crate::plan::WayBack {
    crate::plan::WayBack {
        target: Arc::from("1111111"),
        was_applied: true,
        undone: vec![RunId::from("run-1")],
        losses: vec![crate::plan::WayBackLoss {
            node: NodeName::from("n1"),
            what: Arc::from("the data of sda"),
            run: Some(RunId::from("run-1")),
            at: Some(Arc::from("2030-05-01T00:00:00Z")),
        }],
        kept: vec![Arc::from("policy.yaml")],
        shared_with: vec![Arc::from("south")],
    }
}

/// Approvals with each field.
fn approvals() -> crate::plan::Approvals {
    crate::plan::Approvals {
        void: vec![Arc::from("no signer is known")],
        needed: vec![crate::plan::NeededApproval {
            rule: Arc::from("destroy"),
            count: 2,
            of: vec![Arc::from("ada")],
            recovery: Some(crate::plan::RecoveryApproval {
                count: 1,
                of: vec![Arc::from("vault")],
            }),
            missing: 1,
        }],
        given: vec![crate::plan::GivenApproval {
            by: Arc::from("ada"),
            expires: Arc::from("2030-01-01T00:00:00Z"),
        }],
        refused: vec![crate::plan::RefusedApproval {
            by: Arc::from("bob"),
            reason: Arc::from("it has expired"),
        }],
        rules_from: Arc::from("origin/main"),
        advisory: true,
        break_glass: Some(crate::plan::BreakGlassOutlook {
            by: vec![Arc::from("ada")],
            refused: Some(Arc::from("the plan makes guards weaker")),
        }),
    }
}

/// A plan in which every field has a value.
pub(crate) fn full() -> Plan {
    let mut plan = rich();
    plan.intermediate_commits
        .push(crate::plan::IntermediateCommit {
            commit: Arc::from("c"),
            subject: Arc::from("s"),
        });
    plan.history.lineage = crate::plan::Lineage::Rollback;
    let verdict = crate::plan::Verdict {
        rule: Arc::from("main.deny"),
        message: Arc::from("no"),
    };
    plan.policies = crate::plan::Verdicts {
        denied: vec![verdict.clone()],
        warned: vec![verdict],
    };
    plan.approvals = approvals();
    plan.guards = full_guards();
    plan.checked = Some(VERDICT);
    plan.rehearsal = Some(rehearsal());
    (plan.options.allow_loosening, plan.options.outside_windows) = (true, true);
    plan.options.break_glass = Some(Arc::from("the site is down"));
    plan.options.ticket = Some("OPS-1".parse().unwrap());
    let place = first_place();
    plan.changes[0].fields.push(crate::plan::FieldChange {
        section: Section::Network,
        path: Arc::from("mtu"),
        before: Some(Arc::from("1500")),
        after: None,
        accepted: Some(Arc::from("by the policy")),
        chain: vec![crate::plan::Link {
            document: Arc::from("d"),
            by: Arc::from("edited"),
            place,
        }],
    });
    plan.changes[0].does = Some(Arc::from("drain"));
    plan.changes[0].rack = Some(Arc::from("r1"));
    plan.changes[0].cleaning = Some(Arc::new(crate::step::Cleaning {
        because: Arc::from("automated cleaning"),
        foreign: true,
        steps: vec![crate::step::CleanStep {
            arguments: Some(Arc::from("{}")),
            priority: Some(10),
            erases: true,
            ..crate::step::CleanStep::new("deploy", "erase_devices")
        }],
    }));
    describe_machine(&mut plan.changes[0]);
    plan.options.as_of_given = true;
    (plan.options.allow_restart, plan.options.allow_reinstall) = (all(), all());
    plan.options.leaving.drain_timeout = Some(60);
    plan.options.remediation.attempts = Some(3);
    plan.request.nodes = these(&["n1"]);
    plan.unfinished = Some(crate::plan::UnfinishedRun {
        run: RunId::from("run-2"),
        action: Arc::from("update"),
        state: crate::plan::RunState::Interrupted,
        started: Arc::from("2030-06-01T00:00:00Z"),
        actor: Some(Arc::from("Ada")),
        host: Some(Arc::from("host")),
    });
    plan.way_back = Some(way_back());
    plan.forecast = crate::plan::Forecast {
        creates_daemon_set: true,
        schedule: vec![crate::plan::StepTimes(0, 7); plan.steps.len()],
        ..forecast()
    };
    let common = (Arc::from("common"), Arc::from("1111111"));
    plan.target.repositories = BTreeMap::from([common]);
    let waves = Some(WaveSize {
        most: 1,
        reason: WaveReason::Quarter,
    });
    (plan.groups[0].waves, plan.summary.waves) = (waves, waves);
    plan.groups[0].not_deployed =
        BTreeMap::from([(NodeName::from("n"), crate::plan::Standing::Failed)]);
    let unproven = &mut plan.summary.unproven;
    (unproven.assumed, unproven.not_joined, unproven.unobserved) = (1, 1, 1);
    plan
}

#[test]
fn a_plan_is_valid_by_its_schema_and_the_schema_says_nothing_else() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../schemas/plan.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let plan = full();
    let value: serde_json::Value = serde_json::from_slice(&write(&plan)).unwrap();
    let problems: Vec<_> = validator
        .iter_errors(&value)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(problems, Vec::<String>::new());
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&schema["properties"]), keys(&value));
    let table = [
        ("change", &value["changes"][0]),
        ("field", &value["changes"][0]["fields"][0]),
        ("link", &value["changes"][0]["fields"][0]["chain"][0]),
        ("cleaning", &value["changes"][0]["cleaning"]),
        ("machine", &value["changes"][0]["machine"]),
        ("identity", &value["changes"][0]["machine"]["identity"]),
        ("clean_step", &value["changes"][0]["cleaning"]["steps"][0]),
        ("options", &value["options"]),
        ("target", &value["target"]),
        ("history", &value["history"]),
        ("base", &value["base"]),
        ("unfinished_run", &value["unfinished_run"]),
        ("way_back", &value["way_back"]),
        ("way_back_loss", &value["way_back"]["losses"][0]),
        ("summary", &value["summary"]),
        ("group", &value["groups"][0]),
        ("waves", &value["groups"][0]["waves"]),
        ("precondition", &value["relies_on"][0]),
        ("time_forecast", &value["forecast"]["time"]),
    ];
    assert_eq!(
        keys(&schema["properties"]["checked"]["properties"]),
        keys(&value["checked"])
    );
    let of_file = &schema["properties"]["rehearsal"]["properties"];
    let rehearsed = &value["rehearsal"];
    for (schema, value) in [
        (of_file, rehearsed),
        (
            &of_file["groups"]["items"]["properties"],
            &rehearsed["groups"][0],
        ),
        (
            &of_file["etcd"]["items"]["properties"],
            &rehearsed["etcd"][0],
        ),
        (&of_file["worst"]["properties"], &rehearsed["worst"]),
    ] {
        assert_eq!(keys(schema), keys(value));
    }
    for (name, value) in table {
        assert_eq!(
            keys(&schema["$defs"][name]["properties"]),
            keys(value),
            "{name}"
        );
    }
    let mut wrong = value.clone();
    wrong["steps"][0]["command"] = "rm".into();
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn the_schema_of_a_plan_has_every_action_and_kind() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../schemas/plan.json")).unwrap();
    let listed = |pointer: &str| -> BTreeSet<String> {
        serde_json::from_value(schema.pointer(pointer).unwrap().clone()).unwrap()
    };
    fn written<T: serde::Serialize>(all: impl IntoIterator<Item = T>) -> BTreeSet<String> {
        let words = all.into_iter().map(serde_json::to_value);
        words
            .map(|word| word.unwrap().as_str().unwrap().to_owned())
            .collect()
    }
    let actions = listed("/properties/action/enum");
    assert_eq!(actions, written(crate::plan::Action::ALL));
    let steps = listed("/$defs/step/properties/kind/enum");
    assert_eq!(steps, written(crate::step::StepKind::ALL));
}
