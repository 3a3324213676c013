//! A real Airflow that schedules: its API server, scheduler and DAG processor as processes of a lab.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::Lab;
use super::processes::{processes, signal};
use crate::harness::{Ports, wait_until};
use crate::redfish::request;

/// How long a run may take.
const LONGEST_RUN: Duration = Duration::from_secs(2400);

/// Lines of its log that are shown of each program.
const LAST_LINES: usize = 40;

/// The programs of a set.
const PROGRAMS: [&str; 3] = ["api-server", "dag-processor", SCHEDULER];
const SCHEDULER: &str = "scheduler";

/// The set, killed with all that it started when it is dropped.
pub(super) struct Scheduler<'l> {
    lab: &'l Lab,
    ports: Ports,
    token: String,
    /// Its programs, by name.
    programs: Mutex<BTreeMap<&'static str, Child>>,
}

/// How a task stands.
#[derive(Clone, Debug)]
pub(super) struct TaskState {
    pub(super) task: String,
    pub(super) state: String,
    pub(super) tries: u64,
    /// Seconds from its last start to its end.
    pub(super) took: Option<f64>,
}

impl Lab {
    /// Puts into the environment what a set of Airflow needs, and claims its ports.
    pub(super) fn for_scheduler(&mut self, parallelism: usize) -> Ports {
        let ports = Ports::claim();
        let (api, logs) = (ports.at(0).to_string(), ports.at(1).to_string());
        let url = format!("http://127.0.0.1:{api}");
        let execution = format!("{url}/execution/");
        // A database that is locked for longer than the usual five seconds, as on a slow disk, ends the programs.
        let database = self.path("airflow/airflow.db");
        let database = format!("sqlite:///{}?timeout=120", database.display());
        let parallelism = parallelism.to_string();
        for (name, value) in [
            ("CORE__EXECUTOR", "LocalExecutor"),
            ("CORE__PARALLELISM", &*parallelism),
            ("DATABASE__SQL_ALCHEMY_CONN", &database),
            ("CORE__DAGS_ARE_PAUSED_AT_CREATION", "False"),
            ("CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True"),
            ("CORE__EXECUTION_API_SERVER_URL", &execution),
            ("API__HOST", "127.0.0.1"),
            ("API__PORT", &api),
            ("API__BASE_URL", &url),
            ("API__WORKERS", "1"),
            ("API__SECRET_KEY", "of-the-lab"),
            (
                "API_AUTH__JWT_SECRET",
                "of-the-lab-and-as-long-as-it-has-to-be",
            ),
            ("LOGGING__WORKER_LOG_SERVER_PORT", &logs),
            ("SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME", "0.2"),
        ] {
            self.set(name, value);
        }
        ports
    }

    /// Has what was lost found within seconds instead of minutes.
    pub(super) fn find_losses_soon(&mut self) {
        for (name, value) in [
            ("SCHEDULER__SCHEDULER_HEARTBEAT_SEC", "1"),
            ("SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD", "10"),
            ("SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL", "5"),
            ("SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC", "4"),
            ("SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT", "20"),
            (
                "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL",
                "5",
            ),
        ] {
            self.set(name, value);
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        let name = format!("AIRFLOW__{name}");
        self.environment.insert(name, value.to_owned());
    }

    /// Starts a program of Airflow in a session of its own.
    fn start(&self, name: &str) -> Child {
        let mut log = File::options();
        log.create(true).append(true);
        let log = log.open(self.path(&format!("{name}.log"))).unwrap();
        let mut command = self.command("setsid", ".");
        command.arg(self.airflow.join("airflow")).arg(name);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap());
        command.stderr(log).spawn().unwrap()
    }
}

impl<'l> Scheduler<'l> {
    /// Starts the set; all DAGs are in their folder.
    pub(super) fn start(lab: &'l Lab, ports: Ports) -> Self {
        lab.migrate();
        let programs = PROGRAMS.map(|name| (name, lab.start(name)));
        let mut set = Self {
            programs: Mutex::new(programs.into()),
            token: String::new(),
            ports,
            lab,
        };
        wait_until("Airflow answers", || {
            let health = set.asked("GET", "/api/v2/monitor/health", &Value::Null);
            health.is_ok_and(|health| health["scheduler"]["status"] == "healthy")
        });
        let given = set.asked("GET", "/auth/token", &Value::Null).unwrap();
        set.token = given["access_token"].as_str().unwrap().to_owned();
        set
    }

    fn asked(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let header = format!("Authorization: Bearer {}\r\n", self.token);
        let answer = request(self.ports.at(0), method, path, &header, body);
        match answer.map_err(|error| error.to_string())? {
            (200..300, text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
            (code, text) => Err(format!("{method} {path}: {code} {text}")),
        }
    }

    /// Asks again if the server does not answer for a while.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut answer = Err(String::new());
        for _ in 0..20 {
            answer = self.asked(method, path, body);
            if answer.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until Airflow knows a DAG.
    pub(super) fn await_dag(&self, dag: &str) {
        wait_until(&format!("Airflow knows {dag}"), || {
            self.asked("GET", &format!("/api/v2/dags/{dag}"), &Value::Null)
                .is_ok_and(|dag| dag["is_paused"] == false)
        });
    }

    /// Triggers a run of a DAG.
    pub(super) fn trigger(&self, dag: &str, run: &str) {
        self.await_dag(dag);
        let body = json!({"dag_run_id": run, "logical_date": null, "conf": {}});
        self.ask("POST", &format!("/api/v2/dags/{dag}/dagRuns"), &body);
    }

    /// Waits until a run has ended; whether it did well.
    pub(super) fn await_end(&self, dag: &str, run: &str) -> bool {
        let began = Instant::now();
        loop {
            let path = format!("/api/v2/dags/{dag}/dagRuns/{run}");
            let state = self.ask("GET", &path, &Value::Null)["state"].clone();
            match state.as_str() {
                Some("success") => return true,
                Some("failed") => return false,
                _ => self.start_ended(),
            }
            assert!(
                began.elapsed() < LONGEST_RUN,
                "{dag} does not end: {:?}\n{}",
                self.tasks(dag, run),
                self.said()
            );
            std::thread::sleep(Duration::from_millis(700));
        }
    }

    /// Starts the programs again that have ended, as a service manager does.
    fn start_ended(&self) {
        let mut programs = self.programs.lock().unwrap();
        for (name, program) in &mut *programs {
            if program.try_wait().unwrap().is_some() {
                *program = self.lab.start(name);
            }
        }
    }

    /// The last lines that each program wrote.
    fn said(&self) -> String {
        let mut said = String::new();
        for name in PROGRAMS {
            let log = self.lab.path(&format!("{name}.log"));
            let log = std::fs::read(log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let from = log.lines().count().saturating_sub(LAST_LINES);
            let lines: Vec<&str> = log.lines().skip(from).collect();
            let _ = writeln!(said, "{name}:\n{}", lines.join("\n"));
        }
        said
    }

    /// How the tasks of a run stand.
    pub(super) fn tasks(&self, dag: &str, run: &str) -> Vec<TaskState> {
        let path = format!("/api/v2/dags/{dag}/dagRuns/{run}/taskInstances");
        let mut tasks = Vec::new();
        loop {
            let page = format!("{path}?limit=100&offset={}", tasks.len());
            let page = self.ask("GET", &page, &Value::Null);
            let found = page["task_instances"].as_array().unwrap();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            tasks.extend(found.iter().map(|each| TaskState {
                task: text(&each["task_id"]),
                state: text(&each["state"]),
                tries: each["try_number"].as_u64().unwrap_or_default(),
                took: each["duration"].as_f64(),
            }));
            if found.is_empty() {
                return tasks;
            }
        }
    }

    /// Has the tasks that failed carried out again, as an operator does.
    pub(super) fn clear_failed(&self, dag: &str, run: &str) {
        let body = json!({
            "dag_run_id": run, "dry_run": false, "only_failed": true, "reset_dag_runs": true,
        });
        self.ask(
            "POST",
            &format!("/api/v2/dags/{dag}/clearTaskInstances"),
            &body,
        );
    }

    /// How often a task of a run was really begun. On a busy machine Airflow loses an attempt before anything of it ran,
    /// and counts it.
    pub(super) fn attempts(&self, dag: &str, run: &str, task: &str) -> usize {
        const STARTUP: &str = "Worker startup parse complete";
        let folder = format!("airflow/logs/dag_id={dag}/run_id={run}/task_id={task}");
        let entries = std::fs::read_dir(self.lab.path(&folder));
        let logs = entries.into_iter().flatten().flatten();
        let has_begun = |entry: &std::fs::DirEntry| {
            let mut text = String::new();
            read_log(&entry.path(), &mut text);
            text.lines().any(|line| !line.contains(STARTUP))
        };
        logs.filter(has_begun).count()
    }

    /// The logs of a run's tasks.
    pub(super) fn logs(&self, dag: &str) -> String {
        let folder = self.lab.path("airflow/logs").join(format!("dag_id={dag}"));
        let mut text = String::new();
        read_all(&folder, &mut text);
        text
    }

    /// Kills the scheduler, all of its processes if the machine is lost, and starts another.
    pub(super) fn kill_scheduler(&self, with_all: bool) {
        let mut programs = self.programs.lock().unwrap();
        let scheduler = programs.get_mut(SCHEDULER).unwrap();
        let pid = i32::try_from(scheduler.id()).unwrap();
        let mut lost = vec![pid];
        let all = processes(self.lab.folder.path());
        loop {
            let is_new = |pid: &i32, parent: &i32| lost.contains(parent) && !lost.contains(pid);
            let children = all.iter().filter(|each| is_new(&each.pid, &each.parent));
            let children: Vec<i32> = children.map(|each| each.pid).collect();
            if !with_all || children.is_empty() {
                break;
            }
            lost.extend(children);
        }
        for pid in lost {
            signal(pid, Signal::KILL);
        }
        scheduler.wait().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        *scheduler = self.lab.start(SCHEDULER);
    }
}

impl Drop for Scheduler<'_> {
    fn drop(&mut self) {
        let programs = self.programs.get_mut();
        for program in programs.unwrap_or_else(|all| all.into_inner()).values_mut() {
            let _ = program.kill();
            let _ = program.wait();
        }
        // Children of processes that were killed are nobody's: they are found by where they work.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(30) {
            let left = processes(self.lab.folder.path());
            if left.is_empty() {
                return;
            }
            for each in left {
                signal(each.pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Adds what trueup and the errors say in all logs below a folder.
fn read_all(folder: &Path, text: &mut String) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => read_all(&path, text),
            false => read_log(&path, text),
        }
    }
}

/// Adds what trueup and the errors say in the log of an attempt.
fn read_log(path: &Path, text: &mut String) {
    let content = std::fs::read_to_string(path).unwrap_or_default();
    let end = path.iter().rev().take(2).collect::<PathBuf>();
    for line in content.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let is_told = line["level"] != "info" || line["filename"] == "task_runner.py";
        let is_own = line["logger"]
            .as_str()
            .is_some_and(|name| name.contains("unusual_prefix"));
        let event = line["event"].as_str().unwrap_or_default();
        if (is_told || is_own) && !event.is_empty() && !event.starts_with("::") {
            let time = &line["timestamp"];
            let _ = writeln!(
                text,
                "{} {time} {event} {}",
                end.display(),
                line["error_detail"][0]["exc_value"]
            );
        }
    }
}
