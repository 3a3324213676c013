//! A plan as a DAG of Airflow: a file of Python that calls `trueup run` for each part.
//!
//! The file is a fixed program and the constants of the plan, written as literals of ASCII: no name of a site, group
//! or node is ever read as code, as a template or as markup. It holds no secret and no path of this machine.

mod python;
mod rollout;
mod sites;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use super::plan::{few, nodes};
use super::{Visible, counted};
use crate::design::GroupName;
use crate::plan::{Part, PartKind, Parts, Plan, PlanEffect, digest};
use crate::report::short_id;
use python::{Literal, text};
pub use rollout::{RolloutOptions, rollout_dag};
pub use sites::{SitesOptions, sites_dag};

/// The program of a plan, and what all programs have in common.
const PROGRAM: &str = include_str!("run.py");
const WORKER: &str = include_str!("worker.py");
/// The places of constants and of [`WORKER`] in a program.
const CONSTANTS: &str = "# The plan.\n";
const WORKER_PLACE: &str = "# The worker.\n";
/// How many characters of the name of a site an id has.
const LONGEST_SITE: usize = 100;
/// Where a worker has its checkout, if nothing says otherwise.
const CHECKOUT: &str = "/var/lib/trueup/checkout";

/// Where and how many tasks run.
#[derive(Clone, Debug, Default)]
pub struct AirflowOptions {
    /// How many tasks run at the same time.
    pub workers: usize,
    /// The pool of all parts.
    pub pool: Option<String>,
    /// The most pushes a minute of all workers together, if it is given.
    pub pushes_per_minute: Option<u64>,
    /// The queues of tasks.
    pub queues: BTreeMap<QueueKey, String>,
}

/// The tasks that a queue is for; the last that fits a task counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueKey {
    /// All.
    All,
    /// The begin of the run.
    Begin,
    /// Parts of a kind.
    Kind(PartKind),
    /// Parts of a group.
    Group(GroupName),
    /// The end of the run.
    End,
}

/// The name of the files of a plan, without an ending.
#[must_use]
pub fn file_name(plan: &Plan) -> String {
    format!("trueup-{}-{}", site(plan), short_digest(plan))
}

/// The name of the file of the plan itself.
#[must_use]
pub fn plan_file_name(plan: &Plan) -> String {
    format!("{}.plan.json", file_name(plan))
}

fn short_digest(plan: &Plan) -> String {
    short_id(&digest(plan)).to_owned()
}

/// The name of the site in ids and names of files.
fn site(plan: &Plan) -> String {
    let kept = |char: char| match char {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => char,
        _ => '-',
    };
    let name = plan.site.as_str().chars();
    name.take(LONGEST_SITE).map(kept).collect()
}

/// Writes the DAG of a plan.
///
/// # Errors
///
/// Those of `out`.
pub fn dag(
    out: &mut dyn Write,
    plan: &Plan,
    parts: &Parts,
    options: &AirflowOptions,
) -> fmt::Result {
    assemble(out, PROGRAM, &mut |out| {
        constants(out, plan, parts, options)?;
        groups(out, parts)?;
        table(out, plan, parts, options)
    })
}

/// Writes a program with its constants.
fn assemble(
    out: &mut dyn Write,
    program: &str,
    constants: &mut dyn FnMut(&mut dyn Write) -> fmt::Result,
) -> fmt::Result {
    let (before, behind) = program.split_once(CONSTANTS).unwrap_or((program, ""));
    writeln!(out, "{before}{CONSTANTS}# fmt: off")?;
    writeln!(out, "DEFAULT_CHECKOUT = {}", text(CHECKOUT))?;
    constants(out)?;
    out.write_str("# fmt: on\n")?;
    out.write_str(&behind.replacen(WORKER_PLACE, WORKER, 1))
}

/// A pool or a queue, as arguments of a task.
fn argument(key: &str, name: &Option<String>) -> String {
    let name = name
        .as_ref()
        .map(|name| format!("{}: {}", text(key), text(name)));
    format!("{{{}}}", name.unwrap_or_default())
}

fn constants(
    out: &mut dyn Write,
    plan: &Plan,
    parts: &Parts,
    options: &AirflowOptions,
) -> fmt::Result {
    let name = Visible(plan.site.as_str()).to_string().replace('`', "'");
    let (short, file) = (short_digest(plan), plan_file_name(plan));
    let size = counted(parts.parts.len(), "part", "parts");
    let description = format!("{} of site {name}, plan {short}", plan.request.action);
    let doc = format!(
        "Plan `{short}` of site `{name}`, in {size}. The plan is `{file}` beside this file: \
         `trueup show {file}` prints it, and `trueup run parts {file} --nodes-per-part {}` its parts.",
        parts.nodes_per_part
    );
    let id = format!("trueup.{}.{short}", site(plan));
    writeln!(out, "DAG_ID = {}", text(&id))?;
    writeln!(out, "DESCRIPTION = {}", text(&description))?;
    writeln!(out, "DOC = {}", text(&doc))?;
    writeln!(out, "SITE = {}", text(plan.site.as_str()))?;
    writeln!(out, "PLAN = str(Path(__file__).with_name({}))", text(&file))?;
    writeln!(out, "NODES_PER_PART = {}", parts.nodes_per_part)?;
    writeln!(out, "EFFECT = {}", text(&PlanEffect::of(plan).digest()))?;
    writeln!(out, "WORKERS = {}", options.workers.max(1))?;
    let pushes = options.pushes_per_minute.map(|pushes| pushes.to_string());
    let words = pushes
        .as_deref()
        .map(|pushes| ["--pushes-per-minute", pushes]);
    let words = Literal::list(words.into_iter().flatten());
    writeln!(out, "BEGIN_WORDS = {words}")?;
    writeln!(out, "RUN = \"<run>\"")?;
    places(out, parts, options)
}

/// Pools and queues, by the word that a task names.
fn places(out: &mut dyn Write, parts: &Parts, options: &AirflowOptions) -> fmt::Result {
    let mut places: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    let mut add = |word: String, keys: &[QueueKey], is_part: bool| {
        let pool = options.pool.as_deref().filter(|_| is_part);
        let queue = keys.iter().rev().find_map(|key| options.queues.get(key));
        let queue = queue.map(|queue| ("queue", queue.as_str()));
        let place: Vec<_> = pool
            .map(|pool| ("pool", pool))
            .into_iter()
            .chain(queue)
            .collect();
        if !place.is_empty() {
            places.insert(word, place);
        }
    };
    add("begin".to_owned(), &[QueueKey::All, QueueKey::Begin], false);
    add("end".to_owned(), &[QueueKey::All, QueueKey::End], false);
    for part in &parts.parts {
        let mut keys = vec![QueueKey::All, QueueKey::Kind(part.kind)];
        keys.extend(part.group.clone().map(QueueKey::Group));
        add(place(part, options), &keys, true);
    }
    out.write_str("PLACES = {")?;
    for (word, place) in &places {
        let place = place
            .iter()
            .map(|(key, value)| format!("{}: {}", text(key), text(value)));
        let place = place.collect::<Vec<_>>().join(", ");
        write!(out, "\n    {}: {{{place}}},", text(word))?;
    }
    out.write_str(if places.is_empty() { "}\n" } else { "\n}\n" })
}

/// The word by which a part names its pool and queue.
fn place(part: &Part, options: &AirflowOptions) -> String {
    let group = part.group.as_ref();
    let own = group.filter(|group| {
        options
            .queues
            .contains_key(&QueueKey::Group((*group).clone()))
    });
    match own {
        Some(group) => format!("group:{group}"),
        None => part.kind.as_str().to_owned(),
    }
}

/// The id of each group of tasks, by the group of the plan.
fn group_ids(parts: &Parts) -> BTreeMap<&GroupName, String> {
    let mut taken = BTreeSet::new();
    let mut ids = BTreeMap::new();
    for group in parts.parts.iter().filter_map(|part| part.group.as_ref()) {
        if ids.contains_key(group) {
            continue;
        }
        let known = parts.group_id(group).map_or("group", |id| id);
        // Airflow allows no dot in the id of a group.
        let mut id = known.replace('.', "__");
        while !taken.insert(id.clone()) {
            id.push('_');
        }
        ids.insert(group, id);
    }
    ids
}

fn groups(out: &mut dyn Write, parts: &Parts) -> fmt::Result {
    let ids = group_ids(parts);
    out.write_str("# Groups of tasks, and the deployment groups that they are.\nGROUPS = {")?;
    for (group, id) in &ids {
        let name = Visible(group.as_str()).to_string();
        write!(out, "\n    {}: {},", text(id), text(&name))?;
    }
    out.write_str(if ids.is_empty() { "}\n" } else { "\n}\n" })
}

/// The parts, and those that no other waits for.
fn table(out: &mut dyn Write, plan: &Plan, parts: &Parts, options: &AirflowOptions) -> fmt::Result {
    let ids = group_ids(parts);
    let mut last: BTreeSet<usize> = (0..parts.parts.len()).collect();
    out.write_str("# Each part: its id, its group, its pool and queue, its content, and the parts before it.\nPARTS = [\n")?;
    for part in &parts.parts {
        let group = part.group.as_ref().and_then(|group| ids.get(group));
        let after = part.after.iter().map(|at| &*parts.parts[*at].id);
        for at in &part.after {
            last.remove(at);
        }
        writeln!(
            out,
            "    ({}, {}, {}, {}, {}),",
            text(&part.id),
            Literal::optional(group.map(String::as_str)),
            text(&place(part, options)),
            text(&content(plan, part)),
            Literal::list(after),
        )?;
    }
    let last = last.iter().map(|at| &*parts.parts[*at].id);
    writeln!(out, "]\nLAST = {}", Literal::list(last))
}

/// The content of a part, for people.
fn content(plan: &Plan, part: &Part) -> String {
    let nodes = nodes(plan, part);
    let steps = counted(part.steps.len(), "step", "steps");
    match nodes.len() {
        0 => format!("{steps}."),
        count => {
            let nodes_of_it = counted(count, "node", "nodes");
            let names = Visible(&few(&nodes)).to_string();
            format!("{steps} on {nodes_of_it}: {names}.")
        }
    }
}
