//! `trueup export`: a saved plan, the plans of all sites, or a rollout, for the engine that is to run them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::context::Context;
use super::run::PartsArguments;
use super::value::{at_least_one, number};
use super::{Failure, FailureKind};
use crate::design::GroupName;
use crate::diagnostic::nearest;
use crate::plan::PartKind;
use crate::report;
use crate::report::airflow::{
    AirflowOptions, QueueKey, RolloutOptions, SitesOptions, dag, file_name, plan_file_name,
    rollout_dag, sites_dag,
};
use crate::repository::{Repository, replace_file};
use crate::workflow::{check_rollout_name, rollout_names, saved_plan_with_file};

/// The file of the DAG of all sites.
const SITES_FILE: &str = "trueup-sites.py";

#[derive(Debug, Args)]
pub(super) struct ExportCommand {
    /// Engine
    #[arg(value_enum)]
    engine: Engine,
    /// A plan that `trueup plan -o FILE` saved
    #[arg(value_name = "PLAN", required_unless_present_any = ["all_sites", "rollout"])]
    plan: Option<PathBuf>,
    /// Instead of a plan: one that plans all sites of the repository and reports what differs
    #[arg(long, conflicts_with_all = ["plan", "nodes_per_part", "pushes_per_minute"])]
    all_sites: bool,
    /// Instead of a plan: one that calls `trueup rollout next` until all sites of this rollout are proven
    #[arg(long, value_name = "NAME", conflicts_with_all = ["plan", "all_sites", "nodes_per_part", "pushes_per_minute", "workers", "max_tasks"])]
    rollout: Option<String>,
    /// When all sites are planned, or a rollout begins: a cron expression, or a word such as `@hourly` [default: `@daily`; a rollout: when its DAG is triggered]
    #[arg(long, value_name = "WHEN", value_parser = schedule, conflicts_with = "plan")]
    schedule: Option<String>,
    /// Folder for the DAG, and the plan beside it; it is created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    size: PartsArguments,
    /// Most pushes a minute of all workers together; 0: without limit [default: that of `trueup run begin`]
    #[arg(long, value_name = "N", value_parser = number)]
    pushes_per_minute: Option<u64>,
    /// Most tasks at the same time: the workers together
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    workers: usize,
    /// Pool of the engine that the parts take a place of
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Queue of the tasks of a kind: `all`, `begin`, `site`, `start`, `teardown`, `prepare`, `gate`, `deploy`, `nodes`, `several`, `end`, or `group:NAME`
    #[arg(long, value_name = "KIND=NAME", value_parser = queue)]
    queue: Vec<(QueueKey, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// A DAG of Airflow 3, one task a part.
    Airflow,
}

/// A queue, and the tasks that it is for.
fn queue(text: &str) -> Result<(QueueKey, String), String> {
    let (key, name) = text
        .rsplit_once('=')
        .filter(|(_, name)| !name.is_empty())
        .ok_or("this is not of the form `KIND=NAME`")?;
    let kind = PartKind::ALL.into_iter().find(|kind| kind.as_str() == key);
    let key = match (key, kind, key.strip_prefix("group:")) {
        ("all", ..) => QueueKey::All,
        ("begin", ..) => QueueKey::Begin,
        ("end", ..) => QueueKey::End,
        (_, Some(kind), _) => QueueKey::Kind(kind),
        (_, _, Some(group)) if !group.is_empty() => QueueKey::Group(GroupName::from(group)),
        _ => return Err(format!("`{key}` is no kind of task")),
    };
    Ok((key, name.to_owned()))
}

/// Five fields of cron, or a word of Airflow.
fn schedule(text: &str) -> Result<String, String> {
    const WORDS: [&str; 8] = [
        "@once",
        "@continuous",
        "@hourly",
        "@daily",
        "@weekly",
        "@monthly",
        "@quarterly",
        "@yearly",
    ];
    let is_field = |field: &str| {
        let allowed = |char: char| char.is_ascii_alphanumeric() || "*/,-#".contains(char);
        field.chars().all(allowed)
    };
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    if WORDS.contains(&text) || (fields.len() == 5 && fields.into_iter().all(is_field)) {
        return Ok(text.to_owned());
    }
    let words = WORDS.join("`, `");
    Err(format!(
        "this is neither of the five fields of cron nor one of `{words}`"
    ))
}

pub(super) fn run(context: &mut Context, command: &ExportCommand) -> Result<u8, Failure> {
    let Engine::Airflow = command.engine;
    let folder = context.directory().join(&command.out);
    // Outside of any repository there are no links that a change of a design could bring.
    let repository = context.repository().ok();
    let files = Files { repository, folder };
    let mut text = String::new();
    if let Some(name) = &command.rollout {
        check_rollout_name(name)?;
        if let Some(repository) = &files.repository {
            let named = rollout_names(repository)?;
            if !named.iter().any(|each| each == name) {
                context.printer.tell(&format!(
                    "warning: `HEAD` of this repository has no rollout `{name}`: the DAG fails where its workers find none either"
                ));
            }
        }
        let options = RolloutOptions {
            name: name.clone(),
            schedule: command.schedule.clone(),
            pool: command.pool.clone(),
            queue: command.only_queue("--rollout")?,
        };
        rollout_dag(&mut text, &options)?;
        let file = format!("trueup-rollout-{name}.py");
        files.write(&file, text.as_bytes())?;
        context.printer.tell(&format!(
            "Wrote `{file}` to `{}`: each run of it calls `trueup rollout next {name}` until all sites are proven",
            command.out.display(),
        ));
        return Ok(0);
    }
    let Some(plan) = &command.plan else {
        let options = command.sites_options()?;
        sites_dag(&mut text, &options)?;
        files.write(SITES_FILE, text.as_bytes())?;
        context.printer.tell(&format!(
            "Wrote `{SITES_FILE}` to `{}`: all sites, {}",
            command.out.display(),
            options.schedule
        ));
        return Ok(0);
    };
    let (plan, file) = saved_plan_with_file(context.directory(), plan)?;
    let pace = PartsArguments::pace(context, command.pushes_per_minute);
    let parts = command.size.cut(&plan, pace);
    for group in command.groups_of_queues() {
        let known = || plan.groups.iter().map(|group| group.name.as_str());
        if !known().any(|name| name == group.as_str()) {
            let text = format!("`--queue group:{group}`: the plan has no group `{group}`");
            let near = nearest(group.as_str(), known());
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            return Err(Failure::new(FailureKind::NotFound, text).hint_if(hint));
        }
    }
    let options = AirflowOptions {
        workers: command.workers,
        pool: command.pool.clone(),
        pushes_per_minute: command.pushes_per_minute,
        queues: command.queue.iter().cloned().collect::<BTreeMap<_, _>>(),
    };
    dag(&mut text, &plan, &parts, &options)?;
    let name = format!("{}.py", file_name(&plan));
    // The plan first: Airflow may read the DAG as soon as it is there.
    files.write(&plan_file_name(&plan), &file)?;
    files.write(&name, text.as_bytes())?;
    context.printer.tell(&format!(
        "Wrote `{name}` and the plan beside it to `{}`: {} of at most {}",
        command.out.display(),
        report::counted(parts.tasks(), "task", "tasks"),
        report::counted(parts.nodes_per_part, "node", "nodes"),
    ));
    PartsArguments::tell_cost(context, &parts, pace);
    Ok(0)
}

impl ExportCommand {
    /// The groups whose parts have a queue of their own.
    fn groups_of_queues(&self) -> impl Iterator<Item = &GroupName> {
        self.queue.iter().filter_map(|(key, _)| match key {
            QueueKey::Group(group) => Some(group),
            QueueKey::All | QueueKey::Begin | QueueKey::Kind(_) | QueueKey::End => None,
        })
    }

    fn sites_options(&self) -> Result<SitesOptions, Failure> {
        let schedule = self.schedule.as_deref().unwrap_or("@daily");
        Ok(SitesOptions {
            schedule: schedule.to_owned(),
            shares: self.size.shares(),
            workers: self.workers,
            pool: self.pool.clone(),
            queue: self.only_queue("--all-sites")?,
        })
    }

    /// The queue of all tasks, the only one that a DAG has that is made with `flag`.
    fn only_queue(&self, flag: &str) -> Result<Option<String>, Failure> {
        if self.queue.iter().any(|(key, _)| *key != QueueKey::All) {
            let message = format!("`--queue` has only `all=NAME` with `{flag}`");
            return Err(Failure::new(FailureKind::Usage, message));
        }
        Ok(self.queue.last().map(|(_, name)| name.clone()))
    }
}

/// The folder for the files of a DAG.
struct Files {
    repository: Option<Repository>,
    folder: PathBuf,
}

impl Files {
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        std::fs::create_dir_all(&self.folder).map_err(|error| unwritten(&self.folder, &error))?;
        let path = self.folder.join(name);
        let write = |out: &mut dyn Write| out.write_all(bytes);
        let written = match &self.repository {
            Some(repository) => repository.replace_file(&path, write),
            None => replace_file(&path, write),
        };
        written.map_err(|error| unwritten(&path, &error))
    }
}

fn unwritten(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::error(format!("`{}` cannot be written: {error}", path.display()))
}
