//! The graph of steps as a picture, in Graphviz's language and in mermaid's: folded by wave if it is large.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::design::GroupName;
use crate::plan::Plan;
use crate::report::escape::visible;
use crate::step::{Effect, Step, StepId, StepKind, Wait};

/// Steps of a kind in a group and wave.
pub(super) struct Phase<'a> {
    pub(super) kind: StepKind,
    pub(super) group: Option<&'a GroupName>,
    pub(super) wave: Option<u32>,
    /// How many.
    pub(super) steps: usize,
    /// Whether each is about a node.
    pub(super) of_nodes: bool,
    /// The longest of their timeouts, in seconds.
    pub(super) timeout: u64,
    /// The worst of their effects.
    pub(super) effect: Effect,
}

/// The phases, in the order of the first step of each.
pub(super) fn phases(steps: &[Step]) -> Vec<Phase<'_>> {
    fold(steps).0
}

/// The phases, and for each step the position of its phase.
pub(super) fn fold(steps: &[Step]) -> (Vec<Phase<'_>>, Vec<usize>) {
    // A step belongs to the wave of what it waits for in its own group; every need points back.
    let mut waves: Vec<Option<u32>> = Vec::with_capacity(steps.len());
    let mut positions: FxHashMap<_, usize> = FxHashMap::default();
    let mut phases: Vec<Phase<'_>> = Vec::new();
    let mut of_step = Vec::with_capacity(steps.len());
    for step in steps {
        let group = step.id.group.as_ref();
        let inherited = step
            .needs
            .iter()
            .filter_map(|need| {
                let other = steps.get(need.step.0 as usize)?;
                (other.id.group.as_ref() == group).then_some(())?;
                *waves.get(need.step.0 as usize)?
            })
            .max();
        let is_in_wave = group.is_some() && step.id.kind != StepKind::GateDeployed;
        let wave = step.id.wave.or(inherited).filter(|_| is_in_wave);
        waves.push(wave);
        let position = *positions
            .entry((step.id.kind, group, wave))
            .or_insert_with(|| {
                phases.push(Phase {
                    kind: step.id.kind,
                    group,
                    wave,
                    steps: 0,
                    of_nodes: step.id.node.is_some(),
                    timeout: 0,
                    effect: Effect::None,
                });
                phases.len() - 1
            });
        let phase = &mut phases[position];
        phase.steps += 1;
        phase.timeout = phase.timeout.max(step.timeout);
        phase.effect = phase.effect.max(step.effect);
        of_step.push(position);
    }
    (phases, of_step)
}

/// Writes the graph in Graphviz's language: a cluster a group, dashed edges wait for the end only. With more than `most`
/// steps, the steps of a kind in a group and wave are one box with their count.
///
/// # Errors
///
/// Only if `out` fails.
pub fn dot(out: &mut dyn Write, plan: &Plan, most: usize) -> fmt::Result {
    let quoted = |text: &str| format!("\"{}\"", escaped(text));
    writeln!(out, "digraph {} {{", quoted(plan.site.as_str()))?;
    writeln!(out, "  rankdir=LR;")?;
    writeln!(out, "  node [shape=box, fontname=\"sans-serif\"];")?;
    let picture = Picture::of(plan, most);
    let (free, groups) = by_group(picture.boxes.iter().map(|shape| shape.group));
    let node = |out: &mut dyn Write, indent: &str, index: usize| -> fmt::Result {
        let shape = &picture.boxes[index];
        write!(out, "{indent}s{index} [label={}", quoted(&shape.label))?;
        if shape.kind.is_barrier() {
            write!(out, ", shape=diamond")?;
        }
        if shape.effect == Effect::Destructive {
            write!(out, ", color=red, penwidth=2")?;
        }
        writeln!(out, "];")
    };
    for index in free {
        node(out, "  ", index)?;
    }
    for (number, (group, list)) in ordered(plan, groups).into_iter().enumerate() {
        writeln!(out, "  subgraph cluster_{number} {{")?;
        writeln!(out, "    label={};", quoted(group))?;
        for index in list {
            node(out, "    ", index)?;
        }
        writeln!(out, "  }}")?;
    }
    for (from, to, wait) in picture.arrows {
        let style = match wait {
            Wait::Success => "",
            Wait::Done => " [style=dashed]",
        };
        writeln!(out, "  s{from} -> s{to}{style};")?;
    }
    writeln!(out, "}}")
}

/// Writes a mermaid flowchart: a subgraph a group, dotted edges wait for the end only. With more than
/// `most` steps, the steps of a kind in a group and wave are one box with their count.
///
/// # Errors
///
/// Only if `out` fails.
pub fn mermaid(out: &mut dyn Write, plan: &Plan, most: usize) -> fmt::Result {
    writeln!(out, "flowchart LR")?;
    let Picture { boxes, arrows } = Picture::of(plan, most);
    let (free, groups) = by_group(boxes.iter().map(|shape| shape.group));
    for index in free {
        boxes[index].write(out, "  ", index)?;
    }
    for (number, (group, list)) in ordered(plan, groups).into_iter().enumerate() {
        writeln!(out, "  subgraph g{number}[\"{}\"]", entities(group))?;
        for index in list {
            boxes[index].write(out, "    ", index)?;
        }
        writeln!(out, "  end")?;
    }
    for (from, to, wait) in arrows {
        let arrow = match wait {
            Wait::Success => "-->",
            Wait::Done => "-.->",
        };
        writeln!(out, "  s{from} {arrow} s{to}")?;
    }
    let destructive = boxes.iter().enumerate();
    let destructive = destructive.filter(|(_, shape)| shape.effect == Effect::Destructive);
    let destructive: Vec<String> = destructive.map(|(index, _)| format!("s{index}")).collect();
    if !destructive.is_empty() {
        writeln!(
            out,
            "  classDef destructive stroke:#d1242f,stroke-width:3px"
        )?;
        writeln!(out, "  class {} destructive", destructive.join(","))?;
    }
    Ok(())
}

/// The boxes and the arrows of a graph.
struct Picture<'p> {
    boxes: Vec<Shape<'p>>,
    /// From which box to which, in the order of the steps.
    arrows: Vec<(usize, usize, Wait)>,
}

impl<'p> Picture<'p> {
    /// Every step, or with more than `most` of them its phases.
    fn of(plan: &'p Plan, most: usize) -> Self {
        let whole = plan.steps.len() <= most;
        let (phases, of_step) = fold(&plan.steps);
        let position = |index: usize| if whole { index } else { of_step[index] };
        let boxes = match whole {
            true => plan.steps.iter().map(Shape::of_step).collect(),
            false => phases.iter().map(Shape::of_phase).collect(),
        };
        let (mut drawn, mut arrows) = (FxHashSet::default(), Vec::new());
        for (index, step) in plan.steps.iter().enumerate() {
            for need in &step.needs {
                let (from, to) = (position(need.step.0 as usize), position(index));
                if from != to && drawn.insert((from, to, need.wait)) {
                    arrows.push((from, to, need.wait));
                }
            }
        }
        Self { boxes, arrows }
    }
}

/// A box of the graph: a step, or the steps of a phase.
struct Shape<'p> {
    group: Option<&'p GroupName>,
    label: String,
    kind: StepKind,
    effect: Effect,
}

impl<'p> Shape<'p> {
    fn of_step(step: &'p Step) -> Self {
        let StepId {
            kind,
            group,
            node,
            wave,
        } = &step.id;
        let mut label = kind.to_string();
        if let Some(node) = node {
            label = format!("{label} {node}");
        }
        if let Some(wave) = wave {
            label = format!("{label} {wave}");
        }
        Self {
            group: group.as_ref(),
            label,
            kind: *kind,
            effect: step.effect,
        }
    }

    fn of_phase(phase: &Phase<'p>) -> Self {
        let mut label = phase.kind.to_string();
        if phase.of_nodes {
            label = format!("{label} × {}", phase.steps);
        }
        if let Some(wave) = phase.wave {
            label = format!("{label}, wave {wave}");
        }
        Self {
            group: phase.group,
            label,
            kind: phase.kind,
            effect: phase.effect,
        }
    }

    fn write(&self, out: &mut dyn Write, indent: &str, index: usize) -> fmt::Result {
        let label = entities(&self.label);
        match self.kind.is_barrier() {
            true => writeln!(out, "{indent}s{index}{{\"{label}\"}}"),
            false => writeln!(out, "{indent}s{index}[\"{label}\"]"),
        }
    }
}

/// The positions of what is in no group, and of what is in each.
fn by_group<'p>(
    all: impl Iterator<Item = Option<&'p GroupName>>,
) -> (Vec<usize>, BTreeMap<&'p str, Vec<usize>>) {
    let mut free = Vec::new();
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, group) in all.enumerate() {
        match group {
            Some(group) => groups.entry(group.as_str()).or_default().push(index),
            None => free.push(index),
        }
    }
    (free, groups)
}

/// The groups in the order in which they run, then others by name.
fn ordered<'a>(
    plan: &'a Plan,
    mut groups: BTreeMap<&'a str, Vec<usize>>,
) -> Vec<(&'a str, Vec<usize>)> {
    let mut result: Vec<_> = plan
        .groups
        .iter()
        .filter_map(|group| groups.remove_entry(group.name.as_str()))
        .collect();
    result.extend(groups);
    result
}

/// Inside a quoted string of dot.
fn escaped(text: &str) -> String {
    visible(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Inside a quoted label of mermaid: everything that could mean something as a numbered entity.
fn entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in visible(text).chars() {
        if character.is_alphanumeric()
            || matches!(character, ' ' | '-' | '_' | '.' | '/' | ',' | '×')
        {
            out.push(character);
        } else {
            let _ = write!(out, "#{};", u32::from(character));
        }
    }
    out
}
