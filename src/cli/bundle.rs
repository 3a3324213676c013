//! `trueup bundle` and `trueup replay`: all that a plan was made of in one file, and the same plan again, offline.
//!
//! A bundle of a run is another file, which a replay shows.
//!
//! Documents and records are in git: a bundle names their commits, and holds neither a document nor a secret. The observed
//! state, which is nowhere else, is in it as the snapshot that `plan --save-observed` writes. A replay is made in a clone
//! of its own in the temporary folder, which has no remote that is asked and no machine that is reached.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::basis::{Basis, basis};
use super::context::Context;
use super::demo::new_folder;
use super::plan_bundle;
use super::planning::PlanArguments;
use super::run_bundle;
use super::sandbox::{self, Origin};
use super::{Failure, FailureKind, GlobalArguments};
use crate::design::SiteName;
use crate::diagnostic::short_id;
use crate::observed;
use crate::plan::{Options, Plan, PlanEffect, effect, saved};
use crate::record::Place;
use crate::report::counted;
use crate::repository::{CommitId, Links, Repository, read_file};
use crate::reservation::Reservations;
use crate::run::Connection;
use crate::site::{At, Sandbox};
use crate::workflow::{AS_APPLIED, Observed, PlanRequest, Planner, checked_as_read};

/// The version of the form of a bundle.
const FORMAT_VERSION: u32 = 1;
/// Differences that are listed.
const MOST_DIFFERENCES: usize = 20;
/// Levels of a plan's JSON: those of its own form, far fewer than that of any other.
const DEEPEST: usize = 24;

#[derive(Debug, Args)]
pub(super) struct BundleCommand {
    /// The id of a run, of which the beginning is enough; or an action, `update` by default, and its nodes, as `trueup plan`
    /// takes them
    #[arg(value_name = "RUN|ACTION NODE")]
    words: Vec<String>,
    /// Replace the names of machines, sites, people and addresses, the same by the same; such a plan cannot be made again
    #[arg(long)]
    anonymise: bool,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    arguments: PlanArguments,
}

#[derive(Debug, Args)]
pub(super) struct ReplayCommand {
    /// A file that `trueup bundle` wrote; that of a plan is from this repository
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Make a sandbox of the bundle in this new folder, instead of comparing its plan
    #[arg(long = "try", value_name = "DIR")]
    sandbox: Option<PathBuf>,
}

/// A bundle, as a file holds it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundle {
    format_version: u32,
    /// The version of the program that made the plan.
    trueup: String,
    site: SiteName,
    /// The commit of the documents.
    commit: String,
    /// The commit that was checked out, if it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    /// The commit of the records; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    records: Option<String>,
    /// The snapshot of the observed state; absent if the plan was made on records alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    observed: Option<String>,
    /// The file of the reservations that held; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservations: Option<String>,
    /// The plan, as a saved file has it.
    plan: String,
}

pub(super) fn bundle(context: &mut Context, command: &BundleCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    if let [word] = &*command.words
        && let Some(run) = run_bundle::found(&context.checkout(&repository)?, word)?
    {
        refuse_flags_of_plans(context, word)?;
        let checkout = context.checkout(&repository)?;
        run_bundle::write(context, &checkout, &run, &command.out, command.anonymise)?;
        return Ok(0);
    }
    if let [word] = &*command.words
        && looks_like_run(word)
    {
        let site = &context.checkout(&repository)?.location.site;
        let message = format!("run `{word}` of site `{site}` is not in the records here");
        return Err(Failure::new(FailureKind::NotFound, message)
            .hint("`trueup log` fetches the records of the remote, and lists the runs"));
    }
    let Basis {
        planned,
        site,
        commit,
        head,
        records,
    } = basis(context, &repository, &command.words, &command.arguments)?;
    if command.anonymise {
        plan_bundle::write(context, &repository, &planned, &command.out)?;
        return Ok(0);
    }
    let observed = match &planned.observations {
        Some(observations) => {
            let mut bytes = Vec::new();
            observed::write(observations, &mut bytes)?;
            Some(String::from_utf8(bytes).map_err(|error| Failure::error(error.to_string()))?)
        }
        None => None,
    };
    let reservations = match planned.reservations.nodes.is_empty() {
        true => None,
        false => {
            let bytes = planned.reservations.write(&site);
            let bytes = bytes.map_err(|error| Failure::error(error.to_string()))?;
            let text = String::from_utf8(bytes);
            Some(text.map_err(|error| Failure::error(error.to_string()))?)
        }
    };
    let bundle = Bundle {
        format_version: FORMAT_VERSION,
        trueup: env!("CARGO_PKG_VERSION").to_owned(),
        site,
        commit: commit.to_string(),
        head: (head != commit).then(|| head.to_string()),
        records: records.map(|records| records.to_string()),
        observed,
        reservations,
        plan: text_of(&planned.plan)?,
    };
    let path = context.directory().join(&command.out);
    let written = repository.write_output(&path, |out| {
        serde_json::to_writer(&mut *out, &bundle)?;
        out.write_all(b"\n")
    });
    let shown = command.out.display();
    written
        .map_err(|error| Failure::error(format!("cannot write the bundle `{shown}`: {error}")))?;
    context.printer.tell(&format!(
        "Wrote the bundle `{shown}`: site {}, commit {}, effect {}; `trueup replay {shown}` makes its plan again.",
        bundle.site,
        commit.short(),
        effect::short(&PlanEffect::of(&planned.plan).digest()),
    ));
    Ok(0)
}

/// Refuses flags that choose how a plan is made, if a run is meant: it was planned long ago.
fn refuse_flags_of_plans(context: &Context, run: &str) -> Result<(), Failure> {
    let global = GlobalArguments::augment_args(clap::Command::new("trueup"));
    let of_all = global.get_arguments().filter_map(clap::Arg::get_long);
    let allowed: Vec<&str> = of_all.chain(["out", "anonymise"]).collect();
    let mut given = context.given_flags().iter();
    let Some(flag) = given.find(|flag| !allowed.contains(&flag.as_str())) else {
        return Ok(());
    };
    let message = format!(
        "`--{flag}` is for the bundle of a plan, and `{run}` is a run, which is bundled as it was"
    );
    Err(Failure::new(FailureKind::Usage, message).hint(format!(
        "leave `--{flag}` out, or leave the run out to bundle a new plan"
    )))
}

/// Whether a word can only be the beginning of a run's id: no action begins with a digit.
fn looks_like_run(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_digit())
        && word.chars().all(|letter| letter.is_ascii_alphanumeric())
}

fn text_of(plan: &Plan) -> Result<String, Failure> {
    String::from_utf8(saved::write(plan)).map_err(|error| Failure::error(error.to_string()))
}

/// A bundle that was read and holds what it has to.
struct Checked {
    bundle: Bundle,
    plan: Plan,
    commit: CommitId,
    head: CommitId,
    records: Option<CommitId>,
    reservations: Reservations,
}

fn unusable(file: &Path, error: &dyn std::fmt::Display) -> Failure {
    let shown = file.display();
    Failure::error(format!("the bundle `{shown}` cannot be used: {error}"))
}

fn read(file: &Path, bytes: &[u8]) -> Result<Checked, Failure> {
    let unusable = |error: &dyn std::fmt::Display| unusable(file, error);
    let bundle: Bundle = serde_json::from_slice(bytes).map_err(|error| {
        let failure = unusable(&error);
        match saved::read(bytes) {
            Ok(_) => failure.hint(format!(
                "it is a saved plan: `trueup show {0}` shows it, and `trueup apply {0}` applies it",
                file.display()
            )),
            Err(_) => failure.hint("`trueup bundle -o FILE` writes a bundle"),
        }
    })?;
    if bundle.format_version != FORMAT_VERSION {
        let found = bundle.format_version;
        return Err(unusable(&format!(
            "its form has version {found}, and this trueup reads {FORMAT_VERSION}"
        )));
    }
    let commit = |text: &str| {
        let parsed = text.parse::<CommitId>();
        parsed.map_err(|_| unusable(&format!("`{text}` is no commit")))
    };
    let mut plan = saved::read(bundle.plan.as_bytes()).map_err(|error| unusable(&error))?;
    checked_as_read(&mut plan)?;
    if plan.site != bundle.site {
        return Err(unusable(&format!(
            "its plan is of another site, `{}`",
            plan.site
        )));
    }
    let reservations = match &bundle.reservations {
        None => Reservations::default(),
        Some(text) => {
            Reservations::read(&bundle.site, text.as_bytes()).map_err(|error| unusable(&error))?
        }
    };
    Ok(Checked {
        reservations,
        commit: commit(&bundle.commit)?,
        head: commit(bundle.head.as_ref().unwrap_or(&bundle.commit))?,
        records: bundle.records.as_deref().map(commit).transpose()?,
        plan,
        bundle,
    })
}

/// The folder of a replay, which is removed with all that is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn replay(context: &mut Context, command: &ReplayCommand) -> Result<u8, Failure> {
    let path = context.directory().join(&command.file);
    let bytes = read_file(&path, observed::LARGEST, Links::Followed);
    let bytes = bytes.map_err(|error| unusable(&command.file, &error))?;
    if let Some(bundle) = run_bundle::read(&bytes) {
        let bundle = bundle.map_err(|error| unusable(&command.file, &error))?;
        if command.sandbox.is_some() {
            return Err(run_bundle::no_sandbox());
        }
        run_bundle::show(context, bundle)?;
        return Ok(0);
    }
    if let Some(bundle) = plan_bundle::read(&bytes) {
        let bundle = bundle.map_err(|error| unusable(&command.file, &error))?;
        if command.sandbox.is_some() {
            let message = "the names of this bundle are replaced, and a sandbox is made of its commits, which have them";
            return Err(Failure::new(FailureKind::Usage, message)
                .hint("make it of a bundle that was written without `--anonymise`"));
        }
        plan_bundle::show(context, &bundle)?;
        return Ok(0);
    }
    let checked = read(&command.file, &bytes)?;
    let repository = context.repository()?;
    let commits = [
        ("documents", Some(checked.commit)),
        ("guards", Some(checked.head)),
        ("records", checked.records),
    ];
    for (what, commit) in commits {
        let is_here = commit.is_none_or(|commit| repository.resolve(&commit.to_string()).is_ok());
        if !is_here {
            let id = commit.map(|commit| commit.to_string()).unwrap_or_default();
            let message = format!(
                "this clone does not have the commit {} of the {what}",
                short_id(&id)
            );
            return Err(Failure::new(FailureKind::NotFound, message).hint(
                "replay the bundle in a clone of its repository; `trueup log` fetches the records",
            ));
        }
    }
    if let Some(folder) = &command.sandbox {
        return as_sandbox(context, &repository, &checked, folder);
    }
    let folder = Folder(new_folder(&std::env::temp_dir())?);
    let again = planned_again(context, &repository, &checked, &folder.0)?;
    let (before, after) = (&checked.bundle.plan, text_of(&again)?);
    let by = &checked.bundle.trueup;
    let effect = PlanEffect::of(&again).digest();
    let effect = effect::short(&effect);
    if *before == after {
        let steps = counted(again.steps.len(), "step", "steps");
        context.printer.print(&format!(
            "The plan is the same, byte for byte: {steps}, effect {effect}, by trueup {by} and by this one.\n"
        ))?;
        return Ok(0);
    }
    let mut differences = Vec::new();
    let parsed =
        [before, &after].map(|text| serde_json::from_str::<Value>(text).unwrap_or_default());
    differ(&parsed[0], &parsed[1], "", 0, &mut differences);
    let count = counted(differences.len(), "difference", "differences");
    let mut failure = Failure::error(format!(
        "the plan is another one than that of trueup {by}: {count}, effect {effect}"
    ));
    let more = differences.len().saturating_sub(MOST_DIFFERENCES);
    differences.truncate(MOST_DIFFERENCES);
    differences.extend((more > 0).then(|| format!("… and {more} more")));
    failure.details = differences;
    Err(failure)
}

/// Makes a sandbox of a bundle.
fn as_sandbox(
    context: &Context,
    repository: &Repository,
    checked: &Checked,
    folder: &Path,
) -> Result<u8, Failure> {
    let observed = checked.bundle.observed.as_deref();
    let observations = observed.map(|text| observed::read(text.as_bytes()));
    let observations = observations
        .transpose()
        .map_err(|error| Failure::error(format!("the observed state of the bundle: {error}")))?;
    let origin = Origin {
        repository,
        site: &checked.bundle.site,
        commit: checked.commit,
        records: checked.records,
        reservations: &checked.reservations,
        observations: observations.as_ref(),
        simulated: None,
    };
    sandbox::make(context, &origin, folder)?;
    Ok(0)
}

/// The plan of a bundle, made again in a clone in a folder.
fn planned_again(
    context: &Context,
    repository: &Repository,
    checked: &Checked,
    folder: &Path,
) -> Result<Plan, Failure> {
    let clone = folder.join("clone");
    Repository::clone_local(repository.root(), &clone, false)?;
    // The branch that is checked out here may be another one than that of the bundle.
    std::fs::write(clone.join(".git/HEAD"), format!("{}\n", checked.head))?;
    let site = &checked.bundle.site;
    let inside = context.in_folder(&clone, Some(site.as_str()));
    let cloned = inside.repository()?;
    // Site actions of later than the plan: the records of then tell of none of them.
    let later = cloned.refs("refs/tags")?;
    let later = later
        .iter()
        .filter(|(name, _)| name.starts_with("refs/tags/site-action-"));
    let later: Vec<_> = later.map(|(name, id)| (name.as_str(), *id)).collect();
    cloned.delete_refs(&later)?;
    // The backends of a sandbox stand in none of its documents.
    if let Some(sandbox) = Sandbox::of(repository)? {
        Sandbox::create(&cloned)?.write(site, &sandbox.read(site)?)?;
    }
    if let Some(records) = checked.records {
        let place = Place::of(&cloned, site, None)?;
        cloned.update_ref(place.own(), None, records.0)?;
    }
    let observed = match &checked.bundle.observed {
        Some(text) => {
            let path = folder.join("observed");
            std::fs::write(&path, text)?;
            Observed::File(path)
        }
        None => Observed::Nothing,
    };
    let plan = &checked.plan;
    let plan_request = PlanRequest {
        // The plan is of its day, whatever the day is now.
        options: Options {
            as_of_given: true,
            ..plan.options.clone()
        },
        allowed: None,
        observed,
        accept: AS_APPLIED.accept,
        without_forecast: false,
        by_checkpoints: false,
        only_looks: true,
        gives_times: false,
        unblock: None,
        resumes: BTreeSet::new(),
        reservations: Some(checked.reservations.clone()),
    };
    let checkout = inside.checkout(&cloned)?;
    let planner = Planner {
        client: &inside,
        checkout: &checkout,
        at: At::Commit(checked.commit),
        connection: &Connection::Alone,
        request: &plan.request,
        plan_request: &plan_request,
    };
    let mut again = planner.plan()?.into_plan();
    again.options.as_of_given = plan.options.as_of_given;
    // Whether a branch of a remote has the commit was true then and there.
    again
        .history
        .unpublished
        .clone_from(&plan.history.unpublished);
    Ok(again)
}

/// Lists if two plans differ, by the paths of their JSON.
fn differ(before: &Value, after: &Value, path: &str, depth: usize, found: &mut Vec<String>) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(before), Value::Object(after)) if depth < DEEPEST => {
            let names = before
                .keys()
                .chain(after.keys().filter(|name| !before.contains_key(*name)));
            for name in names {
                let (one, other) = (before.get(name), after.get(name));
                let none = &Value::Null;
                let path = format!("{path}.{name}");
                differ(
                    one.unwrap_or(none),
                    other.unwrap_or(none),
                    &path,
                    depth + 1,
                    found,
                );
            }
        }
        (Value::Array(before), Value::Array(after))
            if depth < DEEPEST && before.len() == after.len() =>
        {
            for (index, (one, other)) in before.iter().zip(after).enumerate() {
                differ(one, other, &format!("{path}[{index}]"), depth + 1, found);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            found.push(format!(
                "{path}: {} entries, now {}",
                before.len(),
                after.len()
            ));
        }
        _ => found.push(format!("{path}: {}, now {}", short(before), short(after))),
    }
}

/// The beginning of a value.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_named_by_their_paths() {
        let listed = |before: Value, after: Value| {
            let mut found = Vec::new();
            differ(&before, &after, "", 0, &mut found);
            found
        };
        let before = json!({"steps": [{"id": "a"}, {"id": "b"}], "x": 1, "y": [1]});
        assert_eq!(listed(before.clone(), before.clone()), [""; 0]);
        let after = json!({"steps": [{"id": "a"}, {"id": "c"}], "y": [1, 2], "z": "z".repeat(99)});
        let found = listed(before, after);
        assert_eq!(
            found[..3],
            [
                ".steps[1].id: \"b\", now \"c\"",
                ".x: 1, now null",
                ".y: 1 entries, now 2"
            ]
        );
        assert!(found[3].ends_with('…') && found[3].len() < 90, "{found:?}");
        // As deep as hostile JSON may be, it is gone through by its own form only.
        let deep = |end: Value| (0..100).fold(end, |value, _| json!([value]));
        assert_eq!(listed(deep(json!(1)), deep(json!(2))).len(), 1);
    }
}
