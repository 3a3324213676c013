//! The graph of stages, waves and gates as a picture.
//!
//! The library lays out stages and gates; waves stand in rows in their stage, machines in grids in their wave. Edges are the
//! needs of the steps, those that follow from others left out.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use rustc_hash::{FxHashMap, FxHashSet};

use super::layout::{Layout, place};
use super::machines::{MOST_MACHINES, name};
use super::model::{Model, StageView, Wave, colour, looks};
use crate::report::counted;
use crate::report::escape::xml;
use crate::report::plan::outline::Stage;
use crate::report::plan::words;
use crate::step::{StepKind, Wait};

/// The side of a machine, and the distance between two.
const CELL: f64 = 11.0;
const GAP: f64 = 3.0;
/// The least width of a stage, and the width at which its waves begin another row.
const LEAST_WIDTH: f64 = 190.0;
const MOST_WIDTH: f64 = 460.0;
/// The space inside a box, the height of its title, and that of the title of a wave.
const PADDING: f64 = 12.0;
const TITLE: f64 = 40.0;
const WAVE_TITLE: f64 = 18.0;
/// Waves of a stage that are drawn, and machines of a wave.
const MOST_WAVES: usize = 24;
const MOST_CELLS: usize = 600;
/// The width of a letter, about.
const LETTER: f64 = 6.7;

/// A box of the graph.
enum Shape {
    /// Steps for the site, before or after all stages.
    Site(&'static str),
    /// A stage, by its position.
    Stage(usize),
    /// The gate at the end of a stage.
    Gate(usize),
}

struct Chart<'m, 'p> {
    model: &'m Model<'p>,
    shapes: Vec<Shape>,
    sizes: Vec<(f64, f64)>,
    /// From one box to another, and whether success is waited for.
    edges: Vec<(u32, u32, bool)>,
}

/// Writes the graph.
pub(super) fn write(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    super::machines::tools(out)?;
    if model.plan.steps.is_empty() {
        return Ok(());
    }
    let chart = Chart::new(model);
    let ends: Vec<(u32, u32)> = chart.edges.iter().map(|edge| (edge.0, edge.1)).collect();
    let layout = place(&chart.sizes, &ends);
    let (width, height) = (layout.width + 8.0, layout.height + 8.0);
    writeln!(
        out,
        "<section aria-labelledby=\"h-order\"><h2 id=\"h-order\">Order</h2>\
         <p class=\"about\">Groups, their waves and gates in the order in which they run; each square is a machine. \
         A dashed line waits for the end only, not for success.</p>\n\
         <div class=\"zoom\" hidden role=\"group\" aria-label=\"Zoom of the graph\">\
         <button type=\"button\" data-zoom=\"in\">Zoom in</button> <button type=\"button\" data-zoom=\"out\">Zoom out</button> \
         <button type=\"button\" data-zoom=\"fit\">Whole graph</button></div>\n\
         <div class=\"canvas\" tabindex=\"0\" role=\"region\" aria-label=\"Graph of groups, waves and gates\">\
         <svg class=\"graph\" viewBox=\"-4 -4 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"group\" aria-label=\"Graph\">"
    )?;
    if layout.layered {
        for edge in &chart.edges {
            chart.edge(out, &layout, *edge)?;
        }
    }
    for (index, shape) in chart.shapes.iter().enumerate() {
        chart.shape(out, shape, layout.corners[index], chart.sizes[index])?;
    }
    writeln!(out, "</svg></div></section>")
}

impl<'m, 'p> Chart<'m, 'p> {
    fn new(model: &'m Model<'p>) -> Self {
        let mut chart = Self {
            model,
            shapes: Vec::new(),
            sizes: Vec::new(),
            edges: Vec::new(),
        };
        let of_phases = chart.boxes();
        chart.edges = edges(model, &of_phases, chart.shapes.len());
        chart
    }

    fn add(&mut self, shape: Shape) -> u32 {
        let size = match &shape {
            Shape::Site(label) => (label.len() as f64 * LETTER + 24.0, 34.0),
            Shape::Stage(stage) => self.stage_size(&self.model.stages[*stage]),
            Shape::Gate(_) => (62.0, 46.0),
        };
        self.shapes.push(shape);
        self.sizes.push(size);
        u32::try_from(self.shapes.len() - 1).unwrap_or(u32::MAX)
    }

    /// Makes the boxes; for each phase its box.
    fn boxes(&mut self) -> Vec<u32> {
        let model = self.model;
        let positions: FxHashMap<&str, usize> = model
            .stages
            .iter()
            .zip(0..)
            .filter_map(|(stage, at)| match &stage.stage {
                Stage::Group(group) => Some((group.name.as_str(), at)),
                _ => None,
            })
            .collect();
        let outside = model
            .stages
            .iter()
            .rposition(|stage| !matches!(stage.stage, Stage::Group(_)));
        let mut known: FxHashMap<(u8, usize), u32> = FxHashMap::default();
        let mut of_phases = Vec::with_capacity(model.phases.len());
        for phase in &model.phases {
            let stage = phase
                .group
                .and_then(|group| positions.get(group.as_str()).copied());
            let (key, shape) = match (stage, phase.kind) {
                (Some(stage), StepKind::GateDeployed) => ((1, stage), Shape::Gate(stage)),
                (Some(stage), _) => ((0, stage), Shape::Stage(stage)),
                (None, StepKind::VerifySite | StepKind::PrepareSite) => {
                    ((2, 0), Shape::Site("verify and prepare the site"))
                }
                (None, StepKind::CriticalCheck | StepKind::Tag) => {
                    ((3, 0), Shape::Site("critical check, tag"))
                }
                (None, _) => match outside {
                    Some(stage) => ((0, stage), Shape::Stage(stage)),
                    None => ((4, 0), Shape::Site("other steps")),
                },
            };
            let position = match known.get(&key) {
                Some(position) => *position,
                None => {
                    let position = self.add(shape);
                    known.insert(key, position);
                    position
                }
            };
            of_phases.push(position);
        }
        of_phases
    }

    /// Whether the machines of a stage are drawn one by one.
    fn has_cells(&self, stage: &StageView<'_>) -> bool {
        self.model.machines.len() <= MOST_MACHINES
            && stage.waves.len() <= MOST_WAVES
            && stage
                .waves
                .iter()
                .all(|wave| wave.machines.len() <= MOST_CELLS)
    }

    fn stage_size(&self, stage: &StageView<'_>) -> (f64, f64) {
        let title = title(stage).chars().count() as f64 * LETTER + 2.0 * PADDING;
        let least = title.clamp(LEAST_WIDTH, MOST_WIDTH);
        if !self.has_cells(stage) {
            return (least.max(240.0), TITLE + 34.0);
        }
        let places = wave_places(stage);
        let (width, height) = places.iter().fold((0.0_f64, 0.0_f64), |most, place| {
            let Place {
                x,
                y,
                width,
                height,
                ..
            } = *place;
            (most.0.max(x + width), most.1.max(y + height))
        });
        ((width + 2.0 * PADDING).max(least), TITLE + height + PADDING)
    }

    fn edge(&self, out: &mut dyn Write, layout: &Layout, edge: (u32, u32, bool)) -> fmt::Result {
        let (from, to) = (edge.0 as usize, edge.1 as usize);
        let ((x, y), (width, height)) = (layout.corners[from], self.sizes[from]);
        let ((u, v), (_, high)) = (layout.corners[to], self.sizes[to]);
        let (x, y, v) = (x + width, y + height / 2.0, v + high / 2.0);
        let bend = ((u - x) / 2.0).max(16.0);
        let class = if edge.2 { "edge" } else { "edge end" };
        writeln!(
            out,
            "<path class=\"{class}\" d=\"M{x:.1} {y:.1}C{:.1} {y:.1} {:.1} {v:.1} {u:.1} {v:.1}\"/>\
             <path class=\"tip\" d=\"M{u:.1} {v:.1}l-6 -3.5v7z\"/>",
            x + bend,
            u - bend
        )
    }

    fn shape(
        &self,
        out: &mut dyn Write,
        shape: &Shape,
        at: (f64, f64),
        size: (f64, f64),
    ) -> fmt::Result {
        let ((x, y), (width, height)) = (at, size);
        match shape {
            Shape::Site(label) => writeln!(
                out,
                "<g><rect class=\"box site\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"17\"/>\
                 <text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{label}</text></g>",
                x + width / 2.0,
                y + height / 2.0 + 4.0
            ),
            Shape::Gate(stage) => self.gate(out, *stage, at, size),
            Shape::Stage(stage) => self.stage(out, *stage, at, size),
        }
    }

    /// A gate with the least that must succeed.
    fn gate(
        &self,
        out: &mut dyn Write,
        stage: usize,
        at: (f64, f64),
        size: (f64, f64),
    ) -> fmt::Result {
        let Stage::Group(group) = &self.model.stages[stage].stage else {
            return Ok(());
        };
        let criteria = &group.success_criteria;
        let label = match (
            criteria.percent_successful_nodes,
            criteria.minimum_successful_nodes,
            criteria.maximum_failed_nodes,
        ) {
            (Some(percent), ..) => format!("{percent} %"),
            (None, Some(least), _) => format!("≥ {least}"),
            (None, None, Some(most)) => format!("≤ {most} ✗"),
            (None, None, None) => "gate".to_owned(),
        };
        let class = if group.critical {
            "gate critical"
        } else {
            "gate"
        };
        let (x, y) = (at.0 + size.0 / 2.0, at.1 + size.1 / 2.0);
        let (w, h) = (size.0 / 2.0, size.1 / 2.0);
        writeln!(
            out,
            "<g><title>Gate of {}: {}</title><path class=\"{class}\" d=\"M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}z\"/>\
             <text class=\"middle small\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text></g>",
            xml(group.name.as_str()),
            xml(&words::about(group)),
            x - w,
            y - h,
            x + w,
            y + h,
            y + 4.0
        )
    }

    fn stage(
        &self,
        out: &mut dyn Write,
        stage: usize,
        at: (f64, f64),
        size: (f64, f64),
    ) -> fmt::Result {
        let ((x, y), (width, height)) = (at, size);
        let view = &self.model.stages[stage];
        let letters = ((width - 2.0 * PADDING) / LETTER) as usize;
        let critical = match &view.stage {
            Stage::Group(group) if group.critical => " critical",
            _ => "",
        };
        let machines = match view.machines {
            0 => "nothing to do".to_owned(),
            machines => counted(machines, "machine", "machines"),
        };
        let waves = view
            .waves
            .iter()
            .filter(|wave| wave.works && wave.number.is_some());
        let about = match waves.count() {
            0 => machines,
            waves => format!("{machines}, {}", counted(waves, "wave", "waves")),
        };
        writeln!(
            out,
            "<g><rect class=\"box{critical}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\"/>\
             <a href=\"#s{stage}\"><text class=\"title\" x=\"{:.1}\" y=\"{:.1}\">{}</text></a>\
             <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{about}</text>",
            x + PADDING,
            y + 18.0,
            xml(&cut(&title(view), letters)),
            x + PADDING,
            y + 33.0
        )?;
        match self.has_cells(view) {
            true => self.cells(out, view, (x + PADDING, y + TITLE))?,
            false => tallies(
                out,
                view,
                (x + PADDING, y + TITLE + 6.0),
                width - 2.0 * PADDING,
            )?,
        }
        writeln!(out, "</g>")
    }

    fn cells(&self, out: &mut dyn Write, stage: &StageView<'_>, at: (f64, f64)) -> fmt::Result {
        let mut before: Option<Place> = None;
        for (wave, place) in stage.waves.iter().zip(wave_places(stage)) {
            let (left, top) = (at.0 + place.x, at.1 + place.y);
            if let Some(before) = before.filter(|before| wave.works && before.y == place.y) {
                let (x, y) = (at.0 + before.x + before.width, top + place.height / 2.0);
                writeln!(
                    out,
                    "<path class=\"tip\" d=\"M{:.1} {y:.1}l-6 -3.5v7z\"/>",
                    x + 10.0
                )?;
            }
            writeln!(
                out,
                "<text class=\"small\" x=\"{left:.1}\" y=\"{:.1}\">{}</text>",
                top + 11.0,
                wave_title(wave)
            )?;
            for (number, machine) in wave.machines.iter().enumerate() {
                let (column, row) = (number % place.columns, number / place.columns);
                let change = self.model.machines[*machine].change;
                writeln!(
                    out,
                    "<rect class=\"m {}\" data-m=\"{machine}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{CELL}\" height=\"{CELL}\" rx=\"2\">\
                     <title>{}: {}</title></rect>",
                    looks(change),
                    left + column as f64 * (CELL + GAP),
                    top + WAVE_TITLE + row as f64 * (CELL + GAP),
                    xml(change.node.as_str()),
                    xml(&words::headline(change))
                )?;
            }
            before = Some(place);
        }
        Ok(())
    }
}

fn title(stage: &StageView<'_>) -> String {
    name(&stage.stage)
}

fn wave_title(wave: &Wave) -> String {
    match (wave.works, wave.number) {
        (false, _) => "not carried out".to_owned(),
        (true, Some(number)) => format!("wave {number}"),
        (true, None) => "all at once".to_owned(),
    }
}

/// A text of so many letters at most.
fn cut(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Where a wave stands in its stage, and in how many columns its machines do.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    columns: usize,
}

fn wave_places(stage: &StageView<'_>) -> Vec<Place> {
    let (mut x, mut y, mut tallest) = (0.0, 0.0, 0.0_f64);
    let place = |wave: &Wave| {
        let machines = wave.machines.len().max(1);
        let columns = ((machines as f64 * 1.8).sqrt().ceil() as usize).clamp(1, 30);
        let rows = machines.div_ceil(columns);
        let side = |count: usize| count as f64 * (CELL + GAP) - GAP;
        let title = wave_title(wave).len() as f64 * LETTER;
        let (width, height) = (side(columns).max(title), WAVE_TITLE + side(rows));
        if x > 0.0 && x + width > MOST_WIDTH - 2.0 * PADDING {
            (x, y, tallest) = (0.0, y + tallest + 8.0, 0.0);
        }
        let place = Place {
            x,
            y,
            width,
            height,
            columns,
        };
        x += width + 16.0;
        tallest = tallest.max(height);
        place
    };
    stage.waves.iter().map(place).collect()
}

/// A bar in the colours of the kinds of change, by their numbers.
fn tallies(out: &mut dyn Write, stage: &StageView<'_>, at: (f64, f64), width: f64) -> fmt::Result {
    let mut x = at.0;
    for (kind, count) in &stage.kinds {
        let part = width * *count as f64 / stage.machines.max(1) as f64;
        writeln!(
            out,
            "<rect class=\"m {}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{part:.1}\" height=\"14\"><title>{count} {}</title></rect>",
            colour(*kind),
            at.1,
            words::outlook(*kind)
        )?;
        x += part;
    }
    Ok(())
}

/// The edges between boxes, each once; those that a longer way implies are left out.
fn edges(model: &Model<'_>, of_phases: &[u32], boxes: usize) -> Vec<(u32, u32, bool)> {
    let plan = model.plan;
    let box_of = |step: usize| of_phases[model.phase_of[step]];
    let mut all: FxHashMap<(u32, u32), bool> = FxHashMap::default();
    for (index, step) in plan.steps.iter().enumerate() {
        let to = box_of(index);
        for need in &step.needs {
            let from = box_of(need.step.0 as usize);
            if from != to {
                *all.entry((from, to)).or_default() |= need.wait == Wait::Success;
            }
        }
    }
    let mut targets: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); boxes];
    for (from, to) in all.keys() {
        targets[*from as usize].insert(*to);
    }
    let is_implied = |from: u32, to: u32| {
        let mut seen = FxHashSet::default();
        let next = targets[from as usize].iter().filter(|next| **next != to);
        let mut open: Vec<u32> = next.copied().collect();
        while let Some(at) = open.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                open.extend(&targets[at as usize]);
            }
        }
        false
    };
    // If boxes need each other, each edge could imply the other.
    let mutual = |from: u32, to: u32| targets[to as usize].contains(&from);
    let few = all.len() <= 1_200;
    let mut edges: Vec<(u32, u32, bool)> = all
        .iter()
        .filter(|((from, to), _)| !few || mutual(*from, *to) || !is_implied(*from, *to))
        .map(|((from, to), success)| (*from, *to, *success))
        .collect();
    edges.sort_unstable();
    edges
}
