//! `trueup export`: a saved plan for the engine that is to run it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::Failure;
use super::context::Context;
use super::run::PartsArguments;
use super::value::at_least_one;
use crate::design::GroupName;
use crate::plan::{PartKind, saved};
use crate::report;
use crate::report::airflow::{AirflowOptions, QueueKey, dag, file_name, plan_file_name};
use crate::repository::Repository;
use crate::workflow::saved_plan;

#[derive(Debug, Args)]
pub(super) struct ExportCommand {
    /// Engine
    #[arg(value_enum)]
    engine: Engine,
    /// A plan that `trueup plan -o FILE` saved
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Folder for the DAG, and the plan beside it; it is created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    size: PartsArguments,
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

pub(super) fn run(context: &mut Context, command: &ExportCommand) -> Result<u8, Failure> {
    let Engine::Airflow = command.engine;
    let plan = saved_plan(&context.directory().join(&command.plan))?;
    let parts = command.size.cut(&plan);
    let options = AirflowOptions {
        workers: command.workers,
        pool: command.pool.clone(),
        queues: command.queue.iter().cloned().collect::<BTreeMap<_, _>>(),
    };
    let mut text = String::new();
    dag(&mut text, &plan, &parts, &options)?;
    let folder = context.directory().join(&command.out);
    std::fs::create_dir_all(&folder).map_err(|error| unwritten(&folder, &error))?;
    // Outside of any repository there are no links that a change of a design could bring.
    let repository = context.repository().ok();
    let name = format!("{}.py", file_name(&plan));
    // The plan first: Airflow may read the DAG as soon as it is there.
    write(
        repository.as_ref(),
        &folder.join(plan_file_name(&plan)),
        &saved::write(&plan),
    )?;
    write(repository.as_ref(), &folder.join(&name), text.as_bytes())?;
    context.printer.tell(&format!(
        "Wrote `{name}` and the plan beside it to `{}`: {} of at most {}",
        command.out.display(),
        report::counted(parts.tasks(), "task", "tasks"),
        report::counted(parts.nodes_per_part, "node", "nodes"),
    ));
    Ok(0)
}

fn unwritten(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::error(format!("`{}` cannot be written: {error}", path.display()))
}

fn write(repository: Option<&Repository>, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let file = match repository {
        Some(repository) => repository.create_file(path),
        None => std::fs::File::create(path),
    };
    file.and_then(|mut file| file.write_all(bytes))
        .map_err(|error| unwritten(path, &error))
}
