//! The story of many workers: a plan is cut into parts, which processes in clones of their own carry out.
//!
//! They are started as an engine such as Airflow starts its tasks: a part once those before it have ended, again if
//! its process died. The time of the simulated site is held for the moment in which one of them is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{Story, begin, print_line, shown};
use crate::backend::hardware::sim::{Answer, HeldTime, MachineRequest, StateError, site_time};
use crate::cli::Failure;
use crate::cli::client::SIMULATED_SITES;
use crate::cli::context::Context;
use crate::cli::init::CONTROL_PLANE;
use crate::plan::{Parts, saved};
use crate::report::Role;
use crate::repository::Repository;
use crate::workflow::saved_plan;

/// The name of the run.
const RUN: &str = "tuesday";
/// The site of the example.
const SITE: &str = "control-plane";
/// The part whose worker is killed.
const KILLED: &str = "control-plane.deploy-2";
const WORKERS: usize = 4;
/// How long the parts may take, on a machine however slow.
const LONGEST: Duration = Duration::from_secs(120);
/// The interval at which the workers are polled.
const POLL: Duration = Duration::from_millis(5);

pub(super) fn tell(context: &Context, folder: &Path) -> Result<(), Failure> {
    print_line(
        context,
        "Where one process is not enough, a plan is cut into parts, and an engine such as Airflow runs them as tasks. Here four \
         processes do, each in a clone of its own beside one remote:",
    )?;
    let site = folder.join("site");
    begin(context, &site, &CONTROL_PLANE)?;
    let clones = clones(context, folder, &site)?;
    let worker = Story {
        context,
        folder: &clones[0],
        repository: Repository::discover(&clones[0])?,
    };
    worker.trueup(&["plan", "--out", "../plan.json"], 0)?;
    worker.trueup(&["run", "parts", "../plan.json"], 0)?;
    print_line(
        context,
        "The run takes the lock of its site for all workers, and not for a process:",
    )?;
    // The remote is a folder, which takes as many pushes as there are.
    let begin = ["run", "begin", "../plan.json", "--run", RUN];
    worker.trueup(&[&begin[..], &["--pushes-per-minute", "0"]].concat(), 0)?;

    print_line(
        context,
        "A part is carried out once those before it have ended. The worker of control-plane.deploy-2 is killed while its machine is \
         being deployed, and the part is given to the next one:",
    )?;
    let plan = saved_plan(folder, "plan.json".as_ref())?;
    let mut tasks = Tasks {
        context,
        clones: &clones,
        parts: Parts::fitting(&plan, 400),
        digest: saved::digest(&plan).to_string(),
        site: simulated_site(folder),
        done: BTreeSet::new(),
        running: BTreeMap::new(),
        killed: None,
    };
    tasks.run()?;
    drop(tasks);

    print_line(
        context,
        "The machine did not stop with the worker. The next one found its deploy under way, and waited for the end of it:",
    )?;
    print_requests(context, &simulated_site(folder))?;
    print_line(
        context,
        "The end of the run collects what all of them did, writes the records and the tag, and releases the lock:",
    )?;
    worker.trueup(&["run", "end", RUN], 0)?;
    worker.trueup(&["plan", "--detailed-exitcode"], 0)?;
    print_line(
        context,
        "Airflow takes the same plan as a DAG, with one task for each part:",
    )?;
    worker.trueup(
        &["export", "airflow", "../plan.json", "--out", "../dags"],
        0,
    )
}

/// A bare remote of a repository, and a clone of it for each worker.
fn clones(context: &Context, folder: &Path, site: &Path) -> Result<Vec<PathBuf>, Failure> {
    let (origin, machines) = (folder.join("origin.git"), folder.join("machines"));
    shown(context, "git clone --bare site origin.git")?;
    Repository::clone_local(site, &origin, true)?;
    let file = simulated_site(folder);
    let requests = file.with_added_extension("requests");
    std::fs::create_dir_all(machines.join(SITE))?;
    std::fs::write(requests, "")?;
    let mut clones = Vec::new();
    for number in 1..=WORKERS {
        let name = format!("worker-{number}");
        let clone = folder.join(&name);
        shown(
            context,
            &format!("git clone -c {SIMULATED_SITES}=$PWD/machines origin.git {name}"),
        )?;
        Repository::clone_local(&origin, &clone, false)?;
        let repository = Repository::discover(&clone)?;
        repository.configure(SIMULATED_SITES, &machines.to_string_lossy())?;
        clones.push(clone);
    }
    Ok(clones)
}

fn simulated_site(folder: &Path) -> PathBuf {
    folder
        .join("machines")
        .join(SITE)
        .join("simulated-site.json")
}

fn state_error(error: &StateError) -> Failure {
    Failure::error(format!("the simulated site cannot be used: {error}"))
}

/// Prints what the machine was asked whose worker was killed, and that no machine was asked for anything twice.
fn print_requests(context: &Context, site: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(site.with_added_extension("requests"))?;
    let requests = text.lines().map(serde_json::from_str::<MachineRequest>);
    let requests: Vec<_> = requests
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::error(format!("the requests cannot be read: {error}")))?;
    let mut steps = BTreeSet::new();
    let mut lines = String::from("\n");
    for request in &requests {
        let (step, answer) = (&request.step, request.answer);
        if answer == Answer::Begun && !steps.insert(step) {
            return Err(Failure::error(format!("`{step}` was begun twice")));
        }
        if step.starts_with("deploy/") && request.node.as_str() == "control-2" {
            let said = match answer {
                Answer::Begun => "begun",
                Answer::UnderWay => "under way already",
                Answer::Repeated | Answer::AtLevel => "done already",
                Answer::Refused => "refused",
            };
            let (minutes, process) = (request.at / 60_000, request.process);
            writeln!(
                lines,
                "  {minutes:>3} min  {step}  process {process}: {said}"
            )?;
        }
    }
    let count = steps.len();
    writeln!(
        lines,
        "\n  {count} operations on machines were begun, each of them once."
    )?;
    context.printer.print(&lines)
}

/// The parts of the run, and the workers that carry them out.
struct Tasks<'a> {
    context: &'a Context,
    clones: &'a [PathBuf],
    parts: Parts,
    digest: String,
    site: PathBuf,
    done: BTreeSet<usize>,
    /// By worker: the part that it carries out.
    running: BTreeMap<usize, (usize, Child)>,
    /// The worker that was killed, and its part.
    killed: Option<(usize, usize)>,
}

impl Drop for Tasks<'_> {
    fn drop(&mut self) {
        for (_, child) in self.running.values_mut() {
            // It may have ended by now.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Tasks<'_> {
    /// Carries all parts out. Those that begin together have the same time: it is held until all of them wait for it.
    fn run(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let mut held = None;
        self.context.printer.print("\n")?;
        while self.done.len() < self.parts.parts.len() {
            let is_starting = (0..self.parts.parts.len()).any(|part| self.is_ready(part));
            if is_starting && held.is_none() {
                held = Some(HeldTime::of(&self.site).map_err(|error| state_error(&error))?);
            }
            self.start_ready()?;
            if let Some(time) = &held
                && time.waiting().map_err(|error| state_error(&error))? >= self.running.len()
                && !self.kill()?
            {
                held = None;
            }
            self.take_ended()?;
            if began.elapsed() > LONGEST {
                return Err(Failure::error("the workers have not ended in time"));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn is_ready(&self, part: usize) -> bool {
        let after = &self.parts.parts[part].after;
        let is_running = self.running.values().any(|(running, _)| *running == part);
        !self.done.contains(&part)
            && !is_running
            && after.iter().all(|before| self.done.contains(before))
    }

    /// Gives the parts that may begin to workers without one; that of a worker that was killed to another.
    fn start_ready(&mut self) -> Result<(), Failure> {
        for part in 0..self.parts.parts.len() {
            let is_free = |worker: &usize| {
                !self.running.contains_key(worker) && self.killed != Some((*worker, part))
            };
            let free = (0..self.clones.len()).find(is_free);
            let Some(worker) = free.filter(|_| self.is_ready(part)) else {
                continue;
            };
            let id = &self.parts.parts[part].id;
            let child = Command::new(std::env::current_exe()?)
                .current_dir(&self.clones[worker])
                .args(["run", "part", RUN, id, "--plan-digest", &self.digest])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?;
            self.running.insert(worker, (part, child));
        }
        Ok(())
    }

    /// Kills the worker of the part that is named for it, once; whether it did.
    fn kill(&mut self) -> Result<bool, Failure> {
        let part = self.parts.find(KILLED);
        let mut running = self.running.iter();
        let found = running.find(|(_, (running, _))| Some(*running) == part);
        let found = found.map(|(worker, _)| *worker);
        let Some(worker) = found.filter(|_| self.killed.is_none()) else {
            return Ok(false);
        };
        if let Some((part, mut child)) = self.running.remove(&worker) {
            child.kill()?;
            child.wait()?;
            self.killed = Some((worker, part));
            self.print(worker, part, (Role::Error, "killed"))?;
        }
        Ok(true)
    }

    /// Takes in what has ended.
    fn take_ended(&mut self) -> Result<(), Failure> {
        let mut ended = Vec::new();
        for (worker, (_, child)) in &mut self.running {
            if child.try_wait()?.is_some() {
                ended.push(*worker);
            }
        }
        for worker in ended {
            let Some((part, child)) = self.running.remove(&worker) else {
                continue;
            };
            let output = child.wait_with_output()?;
            let said = self.outcome(part, &output)?;
            self.done.insert(part);
            self.print(worker, part, (Role::Success, &said))?;
        }
        Ok(())
    }

    /// The last line of a worker: how its part ended.
    fn outcome(&self, part: usize, output: &Output) -> Result<String, Failure> {
        let id = &self.parts.parts[part].id;
        let text = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let status = output.status;
            return Err(Failure::error(format!(
                "part `{id}` ended with {status}: {text}"
            )));
        }
        let last = text.lines().last().unwrap_or_default();
        let outcome = last.split_once(": ").map_or(last, |(_, outcome)| outcome);
        let again = match self.killed {
            Some((_, killed)) if killed == part => ", resumed",
            _ => "",
        };
        Ok(format!("{}{again}", outcome.trim_end_matches('.')))
    }

    fn print(&self, worker: usize, part: usize, (role, said): (Role, &str)) -> Result<(), Failure> {
        let minutes = site_time(&self.site).map_err(|error| state_error(&error))?;
        let minutes = minutes.as_secs() / 60;
        let ids = self.parts.parts.iter().map(|part| part.id.len());
        let (id, width) = (&self.parts.parts[part].id, ids.max().unwrap_or_default());
        let said = self.context.printer.out.paint(role, said);
        let number = worker + 1;
        let line = format!("  {minutes:>3} min  worker-{number}  {id:<width$}  {said}\n");
        self.context.printer.print(&line)
    }
}
