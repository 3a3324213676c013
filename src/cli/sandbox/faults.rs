//! The faults of a sandbox: what fails, is lost, slow, or kills the process that begins it.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::Place;
use crate::backend::hardware::sim::{Durations, Kill, Settings, simulated_kinds};
use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind};
use crate::design::NodeName;
use crate::diagnostic::nearest;
use crate::report::counted;
use crate::repository::replace_file;
use crate::site::SandboxSettings;
use crate::step::{Actor, StepId, StepKind};

/// How often a node that is lost would have to be switched on to be Ready: never.
const NEVER: u64 = u64::MAX;

#[derive(Debug, Args)]
pub(in crate::cli) struct StepWords {
    /// Names or globs of nodes, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE; then `at STEP`: a kind of step such as `deploy`, else each
    #[arg(value_name = "NODE… [at STEP]", required = true)]
    words: Vec<String>,
    /// Let the steps hang until their timeout instead
    #[arg(long)]
    hang: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct KillWords {
    /// Names or globs of nodes, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE, or none: any; then `at STEP`: a kind of step such as `deploy`, else each
    #[arg(value_name = "NODE… [at STEP]")]
    words: Vec<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct NodeWords {
    /// Names or globs of nodes, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE
    #[arg(value_name = "NODE", required = true)]
    words: Vec<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RepairWords {
    /// Names or globs of nodes, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE; none: all
    #[arg(value_name = "NODE")]
    words: Vec<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SlowWords {
    /// Names or globs of nodes, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE; then how many times as long: `10x`
    #[arg(value_name = "NODE… FACTOR", required = true, num_args = 2..)]
    words: Vec<String>,
}

/// The words before `at`, and the kind of step behind it.
fn split(words: &[String]) -> Result<(&[String], Option<StepKind>), Failure> {
    match words {
        [nodes @ .., at, step] if at == "at" => {
            let names: Vec<StepKind> = simulated_kinds().collect();
            let kind = names.iter().find(|kind| kind.as_str() == step);
            let Some(kind) = kind else {
                let message = format!("unknown kind of step `{step}`");
                let near = nearest(step, names.iter().map(|kind| kind.as_str()));
                let hint = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        "a step begins with its kind: `trueup plan --steps` lists them".to_owned()
                    }
                };
                return Err(Failure::new(FailureKind::Usage, message).hint(hint));
            };
            Ok((nodes, Some(*kind)))
        }
        nodes => Ok((nodes, None)),
    }
}

/// A fault of some nodes, in one kind of step or in all of a script.
fn fault(nodes: &BTreeSet<String>, step: Option<StepKind>, outcome: &str) -> Value {
    let mut fault = json!({"nodes": nodes, "outcome": outcome});
    if let Some(step) = step {
        fault["step"] = json!(step.as_str());
    }
    fault
}

/// Puts a fault before all others of its script: the first one that fits counts.
fn first(script: &mut Vec<Value>, fault: Value) {
    script.insert(0, fault);
}

/// Lets steps fail, or hang.
pub(super) fn fail(
    context: &Context,
    place: &Place<'_>,
    command: &StepWords,
) -> Result<(), Failure> {
    let (words, step) = split(&command.words)?;
    let nodes = place.nodes(words)?;
    let outcome = if command.hang { "hang" } else { "fail" };
    let mut settings = place.settings()?;
    match step {
        Some(kind) => first(script(&mut settings, kind), fault(&nodes, step, outcome)),
        None => {
            for script in [&mut settings.machine_faults, &mut settings.cluster_faults] {
                first(script, fault(&nodes, None, outcome));
            }
        }
    }
    place.write(&settings)?;
    let verb = if command.hang { "hangs" } else { "fails" };
    let what = step.map_or("each step", StepKind::as_str);
    let text = format!("From now on {what} {verb} on {}.", shown(&nodes));
    context.printer.tell(&text);
    Ok(())
}

/// The script in which faults of a kind of step stand.
fn script(settings: &mut SandboxSettings, kind: StepKind) -> &mut Vec<Value> {
    match kind.facts().actor {
        Actor::Hardware => &mut settings.machine_faults,
        Actor::Cluster | Actor::Dispatcher | Actor::Both => &mut settings.cluster_faults,
    }
}

/// Lets machines and their nodes and members be out of reach.
pub(super) fn lose(
    context: &Context,
    place: &Place<'_>,
    command: &NodeWords,
) -> Result<(), Failure> {
    let nodes = place.nodes(&command.words)?;
    let mut settings = place.settings()?;
    let silent = |script: &mut Vec<Value>, step| {
        for outcome in ["fail", "unobservable"] {
            let mut fault = fault(&nodes, step, outcome);
            fault["message"] = json!("the machine does not answer");
            first(script, fault);
        }
    };
    silent(&mut settings.machine_faults, None);
    // Of its cluster, only what its kubelet does: the API server answers for it.
    for step in [StepKind::ShutdownKubelet, StepKind::AwaitReady] {
        silent(&mut settings.cluster_faults, Some(step));
    }
    let mut not_ready = fault(&nodes, None, "not-ready");
    not_ready["times"] = json!(NEVER);
    first(&mut settings.cluster_faults, not_ready);
    first(&mut settings.cluster_faults, fault(&nodes, None, "no-etcd"));
    place.write(&settings)?;
    let text = format!("Lost from now on: {}.", shown(&nodes));
    context.printer.tell(&text);
    Ok(())
}

/// Lets the steps of machines take longer.
pub(super) fn slow(
    context: &Context,
    place: &Place<'_>,
    command: &SlowWords,
) -> Result<(), Failure> {
    let (factor, words) = match command.words.split_last() {
        Some((factor, words)) => (factor, words),
        None => return Err(Failure::new(FailureKind::Usage, "how many times as long?")),
    };
    let times = factor
        .strip_suffix('x')
        .and_then(|number| number.parse::<u32>().ok());
    let Some(times) = times.filter(|times| (2..=1000).contains(times)) else {
        let message =
            format!("`{factor}` is not how many times as long: it is from `2x` to `1000x`");
        return Err(Failure::new(FailureKind::Usage, message));
    };
    let nodes = place.nodes(words)?;
    let mut settings = place.settings()?;
    let durations = Settings::read(&settings.backends().hardware);
    let durations = durations.map_or_else(|_| Durations::default(), |settings| settings.durations);
    let kinds = simulated_kinds();
    for kind in kinds.filter(|kind| kind.facts().actor == Actor::Hardware) {
        let late = durations
            .of(kind)
            .as_secs()
            .saturating_mul(u64::from(times - 1));
        let mut fault = fault(&nodes, Some(kind), "late");
        fault["seconds"] = json!(late);
        first(&mut settings.machine_faults, fault);
    }
    place.write(&settings)?;
    let text = format!("Slow from now on, {times} times: {}.", shown(&nodes));
    context.printer.tell(&text);
    Ok(())
}

/// Asks for a kill in the simulated site in a file. A process that works there meanwhile reads all of it or nothing.
fn ask(kill: &Kill, site: &Path) -> std::io::Result<()> {
    if let Some(folder) = site.parent() {
        std::fs::create_dir_all(folder)?;
    }
    replace_file(&Kill::file(site), |out| {
        Ok(serde_json::to_writer(out, kill)?)
    })
}

/// Kills the process that begins a step, once.
pub(super) fn kill(
    context: &Context,
    place: &Place<'_>,
    command: &KillWords,
) -> Result<(), Failure> {
    let (words, step) = split(&command.words)?;
    let nodes = match words {
        [] => BTreeSet::new(),
        words => place.nodes(words)?,
    };
    let kill = Kill {
        nodes: nodes.iter().map(|node| node.as_str().into()).collect(),
        step,
    };
    ask(&kill, &place.file()?)
        .map_err(|error| Failure::error(format!("cannot ask for the kill: {error}")))?;
    let what = step.map_or("a step", StepKind::as_str);
    let of = match nodes.is_empty() {
        true => String::new(),
        false => format!(" on {}", shown(&nodes)),
    };
    context.printer.tell(&format!(
        "The next process that begins {what}{of} is killed there, once. `trueup apply --resume` resumes its run."
    ));
    Ok(())
}

/// Takes faults back.
pub(super) fn repair(
    context: &Context,
    place: &Place<'_>,
    command: &RepairWords,
) -> Result<(), Failure> {
    let mut settings = place.settings()?;
    let file = place.file()?;
    let taking_back = |error| Failure::error(format!("cannot take the kill back: {error}"));
    let nodes = match &*command.words {
        [] => None,
        words => Some(place.nodes(words)?),
    };
    for script in [&mut settings.machine_faults, &mut settings.cluster_faults] {
        script.retain_mut(|fault| {
            let Some(nodes) = &nodes else { return false };
            let Some(listed) = fault.get_mut("nodes").and_then(Value::as_array_mut) else {
                return true;
            };
            listed.retain(|node| node.as_str().is_none_or(|node| !nodes.contains(node)));
            // A fault of no nodes would be one of all.
            !listed.is_empty()
        });
    }
    if nodes.is_none() {
        Kill::take_back(&file).map_err(taking_back)?;
    }
    place.write(&settings)?;
    context.printer.tell(&match &nodes {
        None => "Repaired: no fault is left.".to_owned(),
        Some(nodes) => format!("Repaired: {}.", shown(nodes)),
    });
    Ok(())
}

/// The node of a step that can be made to fail: one that the simulator carries out.
fn injectable(id: &StepId) -> Option<&NodeName> {
    let node = id.node.as_ref()?;
    simulated_kinds()
        .any(|kind| kind == id.kind)
        .then_some(node)
}

/// Injects the failures of a rehearsed run.
pub(super) fn play(
    context: &Context,
    place: &Place<'_>,
    failing: &[(StepId, bool)],
    seed: u64,
) -> Result<(), Failure> {
    let mut settings = place.settings()?;
    for (id, hangs) in failing {
        let Some(node) = injectable(id) else { continue };
        let nodes = BTreeSet::from([node.as_str().to_owned()]);
        let outcome = if *hangs { "hang" } else { "fail" };
        let mut fault = fault(&nodes, Some(id.kind), outcome);
        fault["message"] = json!(format!("as in the rehearsed run of seed {seed}"));
        first(script(&mut settings, id.kind), fault);
    }
    place.write(&settings)?;
    context.printer.tell(&played(failing, seed));
    Ok(())
}

/// The words for what was injected of a rehearsed run, and for what cannot be.
fn played(failing: &[(StepId, bool)], seed: u64) -> String {
    let (mut injected, mut others) = (String::new(), String::new());
    for (id, hangs) in failing {
        let verb = if *hangs { "hangs" } else { "fails" };
        match injectable(id) {
            Some(node) => {
                injected.extend(["\n  ", id.kind.as_str(), " ", verb, " on ", node.as_str()])
            }
            None => others.extend(["\n  ", &id.to_string(), " ", verb]),
        }
    }
    let ends = "`trueup apply` plays it, `trueup try repair` ends it.";
    match (injected.is_empty(), others.is_empty()) {
        (true, true) => format!("Nothing goes wrong in the run of seed {seed}."),
        (false, true) => {
            format!("As in the run of seed {seed}, where it gets so far:{injected}\n{ends}")
        }
        (true, false) => format!(
            "In the run of seed {seed} goes wrong what the simulator does not carry out, so that it cannot be played:{others}"
        ),
        (false, false) => format!(
            "As in the run of seed {seed}, where it gets so far:{injected}\nThe simulator does not carry out, and cannot play:{others}\n{ends}"
        ),
    }
}

/// The nodes, the first of them by name.
fn shown(nodes: &BTreeSet<String>) -> String {
    const NAMED: usize = 5;
    let named: Vec<&str> = nodes.iter().take(NAMED).map(String::as_str).collect();
    match nodes.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!(
            "{} and {}",
            named.join(", "),
            counted(more, "other", "others")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_played_is_named() {
        let step = |id: &str| (id.parse::<StepId>().unwrap(), false);
        let (deploy, site) = (step("deploy/workers/n1"), step("prepare-site"));
        let words = |failing: &[(StepId, bool)]| played(failing, 3);
        assert_eq!(words(&[]), "Nothing goes wrong in the run of seed 3.");
        let both = words(&[site.clone(), deploy.clone()]);
        assert!(both.contains("  deploy fails on n1\n"), "{both}");
        for text in [both, words(&[site])] {
            assert!(text.contains("\n  prepare-site fails"), "{text}");
            assert!(!text.contains("Nothing"), "{text}");
        }
        assert!(!words(&[deploy]).contains("cannot"));
        assert!(injectable(&step("lock/workers/n1").0).is_none());
    }
}
