//! The steps of a plan as text: every step, or one line a phase, where groups that go through the same phases fold.

use std::fmt::{self, Write};

use rustc_hash::FxHashMap;

use super::graph::{Phase, phases};
use super::{View, words};
use crate::design::GroupName;
use crate::plan::Plan;
use crate::report::{Palette, Role, Visible, counted};
use crate::step::{Effect, Step, StepKind, Wait};

/// Groups whose phases are all shown.
const FEW_GROUPS: usize = 10;
/// Groups with phases of their own that are shown.
const MOST_GROUPS: usize = 30;
/// Waves like the one before, from which on they fold.
const FEW_WAVES: usize = 3;
/// Groups that a fold names.
const MOST_NAMES: usize = 8;

/// All steps, or one line a phase.
pub(super) fn write(out: &mut dyn Write, plan: &Plan, view: View) -> fmt::Result {
    if plan.steps.is_empty() {
        return Ok(());
    }
    let palette = view.palette;
    let title = palette.paint(Role::Strong, "Steps");
    if view.steps {
        writeln!(out, "\n{title} ({})", plan.steps.len())?;
        for step in &plan.steps {
            one_step(out, plan, step, palette)?;
        }
        return Ok(());
    }
    writeln!(out, "\n{title} ({}; --steps shows all)", plan.steps.len())?;
    let phases = phases(&plan.steps);
    let blocks = blocks(&phases);
    let groups = blocks.iter().filter(|block| block.group.is_some()).count();
    let folds = !view.full && groups > FEW_GROUPS;
    let mut shown: Vec<(&Block<'_, '_>, Vec<&Block<'_, '_>>)> = Vec::new();
    let mut others = Vec::new();
    let mut positions: FxHashMap<Vec<_>, usize> = FxHashMap::default();
    for block in &blocks {
        if !folds || block.group.is_none() {
            shown.push((block, Vec::new()));
            continue;
        }
        match positions.get(&block.key()) {
            Some(position) => shown[*position].1.push(block),
            None if positions.len() < MOST_GROUPS => {
                positions.insert(block.key(), shown.len());
                shown.push((block, Vec::new()));
            }
            None => others.push(block),
        }
    }
    for (block, like) in &shown {
        one_block(out, plan, block.phases, view)?;
        folded(out, like, " like this", palette)?;
    }
    folded(out, &others, "", palette)
}

/// The phases of a group that come one after the other.
struct Block<'p, 'a> {
    group: Option<&'a GroupName>,
    phases: &'p [Phase<'a>],
}

impl Block<'_, '_> {
    /// The key of its phases, for any number of nodes and waves.
    fn key(&self) -> Vec<Vec<PhaseKey>> {
        let waves = self.phases.chunk_by(|one, next| one.wave == next.wave);
        let mut keys: Vec<Vec<PhaseKey>> = waves.map(keys).collect();
        keys.dedup();
        keys
    }
}

/// The common part of phases that are alike: their kind, whether they are of a wave, their time, and their effect.
type PhaseKey = (StepKind, bool, u64, Effect);

fn keys(phases: &[Phase<'_>]) -> Vec<PhaseKey> {
    let key = |phase: &Phase<'_>| {
        let of_wave = phase.wave.is_some();
        (phase.kind, of_wave, phase.timeout, phase.effect)
    };
    phases.iter().map(key).collect()
}

fn blocks<'p, 'a>(phases: &'p [Phase<'a>]) -> Vec<Block<'p, 'a>> {
    let runs = phases.chunk_by(|one, next| one.group == next.group);
    runs.map(|phases| Block {
        group: phases[0].group,
        phases,
    })
    .collect()
}

/// The phases of a group, where waves that go through the same phases fold.
fn one_block(out: &mut dyn Write, plan: &Plan, phases: &[Phase<'_>], view: View) -> fmt::Result {
    let waves: Vec<&[Phase<'_>]> = phases.chunk_by(|one, next| one.wave == next.wave).collect();
    let mut at = 0;
    while let Some(wave) = waves.get(at).copied() {
        for phase in wave {
            one_phase(out, plan, phase, view.palette)?;
        }
        at += 1;
        let of_wave = wave[0].wave.is_some();
        let like = waves[at..]
            .iter()
            .take_while(|next| of_wave && keys(next) == keys(wave))
            .count();
        if view.full || like < FEW_WAVES {
            continue;
        }
        let folded = &waves[at..at + like];
        let of_nodes = |wave: &&[Phase<'_>]| {
            let nodes = wave.iter().filter(|phase| phase.of_nodes);
            nodes.map(|phase| phase.steps).max().unwrap_or(0)
        };
        let nodes = counted(folded.iter().map(of_nodes).sum(), "node", "nodes");
        let group = wave[0].group.map_or("", |group| group.as_str());
        let line =
            format!("… and {like} more waves of {group} like this, of {nodes}; --full shows all");
        let is_destructive = wave.iter().any(|phase| phase.effect == Effect::Destructive);
        let role = if is_destructive {
            Role::Removed
        } else {
            Role::Faint
        };
        writeln!(out, "  {}", view.palette.paint(role, Visible(&line)))?;
        at += like;
    }
    Ok(())
}

/// Groups whose phases are not shown, with their numbers of nodes.
fn folded(
    out: &mut dyn Write,
    blocks: &[&Block<'_, '_>],
    what: &str,
    palette: Palette,
) -> fmt::Result {
    if blocks.is_empty() {
        return Ok(());
    }
    let phases = || blocks.iter().flat_map(|block| block.phases);
    let mut nodes: Vec<(StepKind, usize)> = Vec::new();
    for phase in phases().filter(|phase| phase.of_nodes) {
        match nodes.iter_mut().find(|(kind, _)| *kind == phase.kind) {
            Some((_, number)) => *number += phase.steps,
            None => nodes.push((phase.kind, phase.steps)),
        }
    }
    let nodes: String = nodes
        .iter()
        .map(|(kind, number)| format!(", {kind} {}", counted(*number, "node", "nodes")))
        .collect();
    let names = blocks.iter().filter_map(|block| block.group);
    let mut names: Vec<&str> = names.map(|group| group.as_str()).collect();
    // A group may be in several blocks.
    names.dedup();
    let names = words::first_of(&names, MOST_NAMES);
    let groups = counted(blocks.len(), "more group", "more groups");
    let line = format!("… and {groups}{what}{nodes}: {names}; --full shows all");
    let role = match phases().any(|phase| phase.effect == Effect::Destructive) {
        true => Role::Removed,
        false => Role::Faint,
    };
    writeln!(out, "  {}", palette.paint(role, Visible(&line)))
}

fn one_phase(out: &mut dyn Write, plan: &Plan, phase: &Phase<'_>, palette: Palette) -> fmt::Result {
    let nodes = match phase.kind {
        kind if !phase.of_nodes => kind.to_string(),
        kind => {
            let nodes = counted(phase.steps, "node", "nodes");
            let together = plan.options.parallelism;
            let at_once = if phase.steps > together && together > 0 {
                format!(", {together} at a time")
            } else {
                String::new()
            };
            format!("{kind} {nodes}{at_once}")
        }
    };
    let longest = if phase.timeout > 0 {
        format!(", at most {} each", words::duration(phase.timeout))
    } else {
        String::new()
    };
    let longest = if phase.of_nodes {
        longest
    } else {
        longest.replace(" each", "")
    };
    let line = match (&phase.group, phase.wave) {
        (Some(group), Some(wave)) => {
            format!("{} wave {wave}: {nodes}{longest}", Visible(group.as_str()))
        }
        (Some(group), None) => format!("{}: {nodes}{longest}", Visible(group.as_str())),
        (None, _) => format!("{nodes}{longest}"),
    };
    if phase.effect == Effect::Destructive {
        writeln!(out, "  {}", palette.paint(Role::Removed, line))
    } else {
        writeln!(out, "  {line}")
    }
}

fn one_step(out: &mut dyn Write, plan: &Plan, step: &Step, palette: Palette) -> fmt::Result {
    let id = step.id.to_string();
    if step.effect == Effect::Destructive {
        write!(out, "  {}", palette.paint(Role::Destructive, Visible(&id)))?;
        write!(out, " destructive")?;
    } else {
        write!(out, "  {}", Visible(&id))?;
    }
    if step.standby {
        write!(out, ", only if not sent before")?;
    }
    if step.timeout > 0 {
        write!(out, ", at most {}", words::duration(step.timeout))?;
    }
    // A barrier may wait for thousands of steps; how many is what a reader wants.
    let name = |wait: Wait| -> Option<String> {
        let mut needs = step.needs.iter().filter(|need| need.wait == wait);
        let first = needs.next()?;
        let first = plan.steps.get(first.step.0 as usize)?;
        let more = match needs.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("{}{more}", Visible(&first.id.to_string())))
    };
    if let Some(needs) = name(Wait::Success) {
        write!(out, ", after success of {needs}")?;
    }
    if let Some(needs) = name(Wait::Done) {
        write!(out, ", after the end of {needs}")?;
    }
    if step.id.kind == StepKind::Tag {
        let what = match plan.is_partial() {
            true => "tags no success, since machines are left out",
            false => "tags the revision",
        };
        write!(out, ", {what}")?;
    }
    writeln!(out)
}
