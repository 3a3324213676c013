//! The time that a task costs on a real scheduler beside its own work: its program does nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use super::Lab;
use super::scheduler::Scheduler;

/// Answers as a run that has begun, and does nothing.
const STUB: &str = "#!/bin/sh\n[ \"$4\" = begin ] && echo '{\"plan_digest\": \"0\"}'\nexit 0\n";
/// The most tasks of a DAG if nothing else is asked for.
const SIZE: &str = "12";
/// The most seconds that a task may cost, on a machine with other work.
const MOST: f64 = 10.0;

/// Measures DAGs of at most so many tasks, such as `TRUEUP_TEST_AIRFLOW_TASKS=100,400,1006`.
#[test]
fn a_task_costs_seconds_at_most_beside_its_work() {
    let sizes = std::env::var("TRUEUP_TEST_AIRFLOW_TASKS").unwrap_or_else(|_| SIZE.to_owned());
    for size in sizes.split(',') {
        let machines = if size == SIZE { 3 } else { 500 };
        let Some(mut lab) = Lab::new(machines) else {
            return;
        };
        lab.write("stub", STUB);
        let stub = lab.path("stub");
        std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).unwrap();
        let clones = (0..4).map(|clone| lab.clone(&format!("worker-{clone}")));
        let clones = std::env::join_paths(clones).unwrap();
        for (name, value) in [
            ("TRUEUP_PROGRAM", stub.to_str().unwrap()),
            ("TRUEUP_CHECKOUT", clones.to_str().unwrap()),
        ] {
            lab.environment.insert(name.to_owned(), value.to_owned());
        }
        let dag = super::dag_id(&lab.export("dags", &["--max-tasks", size]));
        let ports = lab.for_scheduler(4);
        let scheduler = Scheduler::start(&lab, ports);
        let began = Instant::now();
        scheduler.trigger(&dag, "measured");
        assert!(scheduler.await_end(&dag, "measured"));
        let took = began.elapsed().as_secs_f64();
        let tasks = scheduler.tasks(&dag, "measured");
        assert!(
            tasks
                .iter()
                .all(|task| task.state == "success" && task.tries == 1),
            "{tasks:?}"
        );
        let count = tasks.len() as f64;
        let own = tasks.iter().filter_map(|task| task.took).sum::<f64>() / count;
        println!(
            "{count} tasks in {took:.0} s, {:.2} s a task; each ran {own:.2} s",
            took / count
        );
        assert!(took / count < MOST, "{took} s for {count} tasks");
    }
}
