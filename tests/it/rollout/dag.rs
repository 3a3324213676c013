//! What `trueup export airflow --rollout` writes, called as a scheduler calls it.

use std::process::Command;

use crate::skipped::skipped;

use super::{ALL_DONE, Fleet};

/// As much of Airflow as the file of a rollout uses.
const AIRFLOW: &str = "
import logging
class DAG:
    def __init__(self, *named, **more): pass
    def __enter__(self): return self
    def __exit__(self, *more): return False
class BaseOperator:
    log = logging.getLogger('task')
    def __init__(self, **more): self.arguments = more
    def __rshift__(self, other): return other
class BaseSensorOperator(BaseOperator): pass
class Variable:
    @staticmethod
    def get(name, default=None): return default
";
const AIRFLOW_ERRORS: &str = "
class AirflowException(Exception): pass
class AirflowFailException(AirflowException): pass
";

/// Does what a scheduler does with that file: calls its second task once, and prints the outcome.
const SCHEDULER: &str = "
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location('dag', sys.argv[1])
dag = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dag)
revision = dag.revision.execute({})
class Instance:
    def xcom_pull(self, task_ids): return revision
try:
    outcome = dag.following.poke({'ti': Instance()})
except dag.AirflowFailException as error:
    outcome = str(error)
print(json.dumps([dag.DAG_ID, dag.following.arguments['mode'], outcome]))
";

#[test]
fn the_dag_of_a_rollout_continues_it_until_all_sites_are_proven() {
    let (fleet, _origin) = Fleet::new("  soak: 1h\n").shared();
    let outside = fleet.fixture.checkout.outside();
    let write = |path: &str, text: &str| {
        let path = outside.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    write("python/airflow/__init__.py", "");
    write("python/airflow/sdk/__init__.py", AIRFLOW);
    write("python/airflow/sdk/exceptions.py", AIRFLOW_ERRORS);
    let scheduler = write("scheduler.py", SCHEDULER);
    let dags = outside.join("dags");
    let export = ["export", "airflow", "--rollout", "fleet", "-o"];
    let export = [&export[..], &[dags.to_str().unwrap()]].concat();
    fleet.fixture.run(&export).with(0);
    let run = || {
        let as_trueup = fleet.fixture.command(&[]);
        let mut python = Command::new("python3");
        let variables = as_trueup.get_envs();
        python
            .env_clear()
            .envs(variables.filter_map(|(name, value)| Some((name, value?))))
            .env("PYTHONPATH", outside.join("python"))
            .env("TRUEUP_PROGRAM", as_trueup.get_program())
            .env("TRUEUP_CHECKOUT", fleet.fixture.checkout.path())
            .env("TRUEUP_REVISION", "origin/main")
            .arg(&scheduler)
            .arg(dags.join("trueup-rollout-fleet.py"));
        let ended = python.output().ok()?;
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{errors}");
        let told: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        Some(told)
    };
    let Some(told) = run() else {
        skipped("there is no python3");
        return;
    };
    // One that is not over is called again later, in a slot of its own.
    let each = |outcome: bool| serde_json::json!(["trueup.rollout.fleet", "reschedule", outcome]);
    assert_eq!(told, each(false));
    fleet.let_soaks_end();
    assert_eq!(run(), Some(each(false)));
    assert_eq!(fleet.results(), ALL_DONE);
    fleet.let_soaks_end();
    assert_eq!(run(), Some(each(true)));
    // One that is complete is not begun again, and one that is stopped fails the task.
    assert_eq!(run(), Some(each(true)));
    fleet.faults("canary", "[{nodes: [edge-4], step: deploy, outcome: fail}]");
    let nodes = fleet
        .fixture
        .checkout
        .path()
        .join("sites/canary/nodes.yaml");
    let more = std::fs::read_to_string(&nodes).unwrap();
    let last = more.rsplit("---\n").next().unwrap();
    let fourth = last.replace("edge-3", "edge-4").replace(".13}", ".14}");
    std::fs::write(&nodes, format!("{more}---\n{fourth}")).unwrap();
    let strategy = "sites/canary/strategy.yaml";
    fleet.fixture.edit(strategy, "nodes: 2", "nodes: 4");
    let git = |words: &[&str]| fleet.fixture.checkout.git(words);
    fleet.fixture.checkout.commit("One machine more");
    git(&["push", "--quiet", "origin", "main"]);
    let head = git(&["rev-parse", "HEAD"]);
    let told = run().unwrap();
    let stopped = told[2].as_str().is_some_and(|why| why.contains("stopped"));
    assert!(stopped, "{told}");
    let status = fleet.rollout(&["status", "fleet", "--format", "json"]);
    assert_eq!(status.with(0).json()["revision"], head.trim());
    // Its worktrees are gone.
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
}
