//! `trueup export airflow`: a saved plan as a file of Python.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use serde_json::Value;
use trueup::design::{GroupName, NodeName, SiteName};
use trueup::plan::{Parts, Plan, saved};
use trueup::report::airflow::{AirflowOptions, QueueKey, dag};

use super::accepted::example;
use super::fixture::Fixture;
use super::skipped::skipped;

use crate::folder::folder;

/// Reads a file of Python without running it: the values of its constants, as JSON. The file must compile.
const CONSTANTS: &str = "
import ast, json, sys
source = sys.stdin.buffer.read()
compile(source, 'dag.py', 'exec', dont_inherit=True)
values = {}
for line in ast.parse(source).body:
    if isinstance(line, ast.Assign):
        try:
            values[line.targets[0].id] = ast.literal_eval(line.value)
        except ValueError:
            pass
imports = [n.module for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ImportFrom)]
print(json.dumps([values, imports]))
";

fn planned() -> Fixture {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    fixture.run(&["plan", "-o", "site.plan"]).with(0);
    fixture
}

/// The constants of a DAG, and the modules that it takes names from; `None` if there is no Python.
fn constants(source: &str) -> Option<(BTreeMap<String, Value>, Vec<String>)> {
    let folder = folder();
    let path = folder.path().join("dag.py");
    std::fs::write(&path, source).unwrap();
    let run = Command::new("python3")
        .args(["-c", CONSTANTS])
        .stdin(std::fs::File::open(&path).unwrap())
        .output();
    let Ok(ended) = run else {
        skipped("there is no python3");
        return None;
    };
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    Some(serde_json::from_slice(&ended.stdout).unwrap())
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    entries.map(read).collect()
}

#[test]
fn a_plan_is_written_with_its_dag_the_same_each_time() {
    let fixture = planned();
    let folder = fixture.checkout.outside().join("a/dags");
    let export = |out: &Path| {
        let out = out.to_str().unwrap();
        fixture.run(&[
            "export",
            "airflow",
            "site.plan",
            "-o",
            out,
            "--workers",
            "8",
            "--pool",
            "bmc",
            "--queue",
            "deploy=images",
        ])
    };
    let told = export(&folder).with(0).stderr;
    let written = files(&folder);
    let [(dag, source), (plan, text)] = &written.clone().into_iter().collect::<Vec<_>>()[..] else {
        panic!("{written:?}");
    };
    assert!(
        told.contains(&format!("Wrote `{plan}`")) || told.contains(&format!("Wrote `{dag}`")),
        "{told}"
    );
    let (source, text) = if plan.ends_with(".py") {
        (text, source)
    } else {
        (source, text)
    };
    assert_eq!(text.trim_end(), fixture.read("site.plan").trim_end());
    let again = fixture.checkout.outside().join("b");
    export(&again).with(0);
    assert_eq!(files(&again), written);
    // No path of this machine, and nothing of the settings of the person.
    let here = fixture.checkout.outside().to_str().unwrap().to_owned();
    assert!(!source.contains(&here) && source.is_ascii());
    let Some((values, modules)) = constants(source) else {
        return;
    };
    assert_eq!(
        (&values["WORKERS"], &values["NODES_PER_PART"]),
        (&8.into(), &1.into())
    );
    let places = &values["PLACES"];
    assert_eq!(
        places["deploy"],
        serde_json::json!({"pool": "bmc", "queue": "images"})
    );
    assert_eq!(places["prepare"], serde_json::json!({"pool": "bmc"}));
    let known = [
        "__future__",
        "collections.abc",
        "contextlib",
        "datetime",
        "pathlib",
    ];
    let mut airflow = modules
        .iter()
        .filter(|module| !known.contains(&module.as_str()));
    assert!(airflow.all(|module| module == "airflow.sdk" || module.starts_with("airflow.sdk.")));
}

#[test]
fn what_cannot_be_written_or_is_no_queue_is_refused() {
    let fixture = planned();
    let export = |more: &[&str]| fixture.run(&[&["export", "airflow", "site.plan"], more].concat());
    fixture.checkout.write("file", "");
    export(&["-o", "file/dags"])
        .with(1)
        .saying("cannot be written");
    export(&["-o", "dags", "--queue", "deploi=x"])
        .with(64)
        .saying("is no kind of task");
    export(&["-o", "dags", "--queue", "deploy"])
        .with(64)
        .saying("`KIND=NAME`");
    export(&["-o", "dags", "--workers", "0"])
        .with(64)
        .saying("the least is 1");
    // A link of the checkout is not followed.
    let victim = fixture.checkout.outside().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    export(&["-o", "dags"]).with(0);
    let folder = fixture.checkout.path().join("dags");
    let name = files(&folder)
        .into_keys()
        .find(|name| name.ends_with(".py"))
        .unwrap();
    std::fs::remove_file(folder.join(&name)).unwrap();
    fixture
        .checkout
        .link(&format!("dags/{name}"), victim.to_str().unwrap());
    export(&["-o", "dags"])
        .with(1)
        .saying("is a link in the checkout");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
}

#[test]
fn one_file_plans_all_sites_and_names_none_of_them() {
    let fixture = example("edge");
    let folder = fixture.checkout.outside().join("dags");
    let out = folder.to_str().unwrap();
    let export = |more: &[&str]| {
        let arguments = ["export", "airflow", "-o", out];
        fixture.run(&[&arguments[..], more].concat())
    };
    for (more, why) in [
        (&[][..], "required"),
        (&["--all-sites", "site.plan"], "cannot be used with"),
        (
            &["--all-sites", "--nodes-per-part", "3"],
            "cannot be used with",
        ),
        (
            &["site.plan", "--schedule", "@daily"],
            "cannot be used with",
        ),
        (
            &["--all-sites", "--schedule", "0 3 * *"],
            "five fields of cron",
        ),
        (
            &["--all-sites", "--schedule", "0 3 * * \""],
            "five fields of cron",
        ),
        (&["--all-sites", "--queue", "deploy=x"], "only `all=NAME`"),
        (
            &["--rollout", "fleet", "--queue", "deploy=x"],
            "only `all=NAME`",
        ),
        (
            &["--rollout", "fleet", "--all-sites"],
            "cannot be used with",
        ),
        (&["--rollout", "../fleet"], "is no name of a rollout"),
    ] {
        export(more).with(64).saying(why);
    }
    assert!(!folder.exists());
    let more = [
        "--all-sites",
        "--schedule",
        "0 3 * * 1-5",
        "--max-tasks",
        "50",
        "--queue",
        "all=\"x",
    ];
    export(&more).with(0).saying("Wrote `trueup-sites.py`");
    let written = files(&folder);
    let Some((values, _)) = constants(&written["trueup-sites.py"]) else {
        return;
    };
    let value = |name: &str| values[name].clone();
    assert_eq!(
        (value("SCHEDULE"), value("MOST_SHARES")),
        ("0 3 * * 1-5".into(), 48.into())
    );
    assert_eq!(
        (value("POOL"), value("QUEUE")),
        (serde_json::json!({}), serde_json::json!({"queue": "\"x"}))
    );
    assert!(!written["trueup-sites.py"].contains("edge"));
}

/// The plan with other names for its site, its group and its nodes.
fn renamed(mut plan: Plan, site: &str, group: &str, node: &str) -> Plan {
    plan.site = SiteName::from(site);
    for planned in &mut plan.groups {
        planned.name = GroupName::from(group);
    }
    for step in &mut plan.steps {
        step.id.group = step.id.group.take().map(|_| GroupName::from(group));
        step.id.node = step
            .id
            .node
            .take()
            .map(|name| NodeName::from(format!("{node}{name}")));
    }
    plan
}

/// Names that try to end a literal, a comment, a template or a line.
fn names() -> impl Strategy<Value = String> {
    let tricks = prop::sample::select(vec![
        "\"",
        "'",
        "\\",
        "\n",
        "\r",
        "\"\"\"",
        "{{",
        "}}",
        "{%",
        "#",
        "\u{2028}",
        "\u{0}",
        "\u{1f600}",
        "é",
        "`",
        "</script>",
        "$(id)",
        ".md",
        "<run>",
        "# The plan.\n",
        "\u{202e}",
        "\t",
        "\\N{BULLET}",
        "%s",
        "{0}",
        "--",
        "end",
        "begin",
    ]);
    prop::collection::vec(
        prop_oneof![tricks.prop_map(str::to_owned), "[a-zA-Z0-9._-]{0,6}"],
        1..8,
    )
    .prop_map(|pieces| pieces.concat())
}

#[test]
fn hostile_names_are_texts_and_nothing_else() {
    let fixture = planned();
    let plan = saved::read(fixture.read("site.plan").as_bytes()).unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let cases = (names(), names(), names());
    let ran = runner.run(&cases, |(site, group, node)| {
        let plan = renamed(plan.clone(), &site, &group, &node);
        let parts = Parts::of(&plan, 2);
        let options = AirflowOptions {
            workers: 3,
            pool: Some(node.clone()),
            pushes_per_minute: None,
            queues: [(QueueKey::Group(GroupName::from(&*group)), site.clone())].into(),
        };
        let mut source = String::new();
        dag(&mut source, &plan, &parts, &options).unwrap();
        prop_assert!(source.is_ascii());
        let Some((values, _)) = constants(&source) else {
            return Ok(());
        };
        prop_assert_eq!(&values["SITE"], &Value::from(site.clone()));
        prop_assert_eq!(values["GROUPS"].as_object().unwrap().len(), 1);
        let listed = values["PARTS"].as_array().unwrap();
        let ids: Vec<&str> = listed
            .iter()
            .map(|part| part[0].as_str().unwrap())
            .collect();
        let own: Vec<&str> = parts.parts.iter().map(|part| &*part.id).collect();
        prop_assert_eq!(ids, own);
        let place = &values["PLACES"][&format!("group:{group}")];
        prop_assert_eq!(place, &serde_json::json!({"pool": node, "queue": site}));
        let id = values["DAG_ID"].as_str().unwrap();
        let kept = |char: char| char.is_ascii_alphanumeric() || "_.-".contains(char);
        prop_assert!(id.len() < 250 && id.chars().all(kept), "{id}");
        prop_assert!(values["DOC"].as_str().unwrap().ends_with('.'));
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn a_rollout_that_is_not_committed_here_is_warned_of_and_a_plan_is_no_bundle() {
    let fixture = planned();
    let export = |name: &str| {
        fixture
            .run(&["export", "airflow", "--rollout", name, "-o", "dags"])
            .with(0)
    };
    export("fleet").saying("`HEAD` of this repository has no rollout `fleet`");
    let text = "schema: trueup/Rollout/v1\nmetadata: {name: fleet}\ndata: {phases: [{name: all, sites: [edge]}]}\n";
    fixture.checkout.write("rollouts/fleet.yaml", text);
    fixture.checkout.commit("The rollout");
    let stderr = export("fleet").stderr;
    assert!(!stderr.contains("no rollout"), "{stderr}");
    fixture
        .run(&["replay", "site.plan"])
        .with(1)
        .saying("`trueup show site.plan` shows it");
}

#[test]
fn a_submodule_in_the_folders_of_a_site_has_a_way_out() {
    let fixture = planned();
    let checkout = &fixture.checkout;
    checkout.git(&["init", "-q", "sub"]);
    checkout.git(&[
        "-C",
        "sub",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ]);
    checkout.git(&["add", "sub"]);
    let ended = fixture.run(&["validate"]).with(1);
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(
        all.contains("hint: move the submodule out of the folders"),
        "{all}"
    );
}
