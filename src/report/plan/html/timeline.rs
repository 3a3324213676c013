//! The time axis: when each stage works, the critical path, and how many members etcd clusters have meanwhile.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use rustc_hash::FxHashMap;

use super::critical;
use super::machines::name;
use super::model::Model;
use crate::plan::{EtcdForecast, StepTimes};
use crate::report::escape::xml;
use crate::report::plan::outline::Stage;
use crate::report::plan::words;
use crate::step::{KindStage, Step, StepKind};

/// Stages that have a row each.
const MOST_ROWS: usize = 40;
/// Bars of all rows; if their waves have more, those of a row become one.
const MOST_BARS: usize = 4_000;
/// Parts of the critical path that are listed.
const MOST_PARTS: usize = 60;
/// Distances of the marks of the axis, in seconds.
const MARKS: [u32; 18] = [
    1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 604_800,
    2_592_000, 31_104_000,
];
/// The height of a row of the axis.
const ROW: u32 = 44;

/// The lanes of a row: their look, and the work in them.
const LANES: [(&str, &str); 3] = [
    ("t-down", "tear down"),
    ("t-prepare", "prepare"),
    ("t-deploy", "deploy"),
];

fn lane(kind: StepKind) -> usize {
    match kind.facts().stage {
        KindStage::TearDown | KindStage::TakeOff => 0,
        KindStage::Site | KindStage::Provision | KindStage::Prepare => 1,
        KindStage::Deploy | KindStage::Other | KindStage::Barrier | KindStage::Tag => 2,
    }
}

/// The scale of the axis.
struct Scale {
    end: u32,
}

impl Scale {
    /// A time in percent of the width.
    fn at(&self, seconds: u32) -> f64 {
        f64::from(seconds.min(self.end)) * 100.0 / f64::from(self.end)
    }

    fn bar(
        &self,
        out: &mut dyn Write,
        times: StepTimes,
        y: u32,
        look: (&str, u32, &str),
    ) -> fmt::Result {
        let (class, height, title) = look;
        let (x, end) = (self.at(times.0), self.at(times.1));
        let width = (end - x).max(0.15);
        writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x:.3}%\" y=\"{y}\" width=\"{width:.3}%\" height=\"{height}\" rx=\"2\"><title>{}</title></rect>",
            xml(title)
        )
    }
}

fn time(seconds: u32) -> String {
    words::duration(u64::from(seconds))
}

fn span(times: StepTimes) -> String {
    let rough = |seconds: u32| words::rounded(u64::from(seconds));
    format!("{} to {}", rough(times.0), rough(times.1))
}

fn joined(all: Option<StepTimes>, next: StepTimes) -> StepTimes {
    all.map_or(next, |all| StepTimes(all.0.min(next.0), all.1.max(next.1)))
}

/// Writes the axis.
pub(super) fn write(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let plan = model.plan;
    let schedule = &plan.forecast.schedule;
    let end = schedule
        .iter()
        .map(|times| times.1)
        .max()
        .unwrap_or_default();
    if end == 0 || schedule.len() != plan.steps.len() {
        return Ok(());
    }
    let scale = Scale { end };
    let rows = rows(model);
    let path = critical::path(plan);
    let shown = rows.len().min(MOST_ROWS);
    let etcd = etcd(model);
    let height = 28 + ROW * (1 + shown + etcd.len()) as u32 + 4;
    writeln!(
        out,
        "<section aria-labelledby=\"h-time\"><h2 id=\"h-time\">Time</h2>\
         <p class=\"about\">A run of median length, with the parallelism and the waves of the plan. \
         <span class=\"key t-down\">tear down</span> <span class=\"key t-prepare\">prepare</span> \
         <span class=\"key t-deploy\">deploy and the rest</span></p>\n\
         <svg class=\"axis\" width=\"100%\" height=\"{height}\" role=\"img\" aria-label=\"Time axis; the tables below say the same\">"
    )?;
    marks(out, &scale, height)?;
    critical_row(out, model, &scale, &path)?;
    for (row, y) in rows
        .iter()
        .take(shown)
        .zip((28 + ROW..).step_by(ROW as usize))
    {
        stage_row(out, &scale, row, y, MOST_BARS / shown)?;
    }
    let below = 28 + ROW * (1 + shown) as u32;
    for (row, y) in etcd.iter().zip((below..).step_by(ROW as usize)) {
        etcd_row(out, &scale, row, y)?;
    }
    writeln!(out, "</svg>")?;
    if shown < rows.len() {
        writeln!(
            out,
            "<p class=\"more\">and {} more groups</p>",
            rows.len() - shown
        )?;
    }
    tables(out, model, &rows, &path, &etcd)?;
    writeln!(out, "</section>")
}

fn marks(out: &mut dyn Write, scale: &Scale, height: u32) -> fmt::Result {
    let distance = MARKS.into_iter().find(|mark| scale.end / mark <= 8);
    let distance = distance.unwrap_or(scale.end).max(1);
    for mark in (0..=scale.end).step_by(distance as usize) {
        let x = scale.at(mark);
        let (class, at) = match mark {
            0 => ("first", 0.0),
            _ if x > 95.0 => ("last", 100.0),
            _ => ("mark", x),
        };
        writeln!(
            out,
            "<line class=\"grid\" x1=\"{x:.3}%\" x2=\"{x:.3}%\" y1=\"18\" y2=\"{height}\"/>\
             <text class=\"{class}\" x=\"{at:.3}%\" y=\"12\">{}</text>",
            time(mark)
        )?;
    }
    Ok(())
}

fn critical_row(
    out: &mut dyn Write,
    model: &Model<'_>,
    scale: &Scale,
    path: &[usize],
) -> fmt::Result {
    writeln!(
        out,
        "<text class=\"row\" x=\"0\" y=\"40\">Critical path</text>"
    )?;
    let parts = parts(model, path);
    for Part { kind, times, title } in &parts {
        let class = LANES[lane(*kind)].0;
        scale.bar(out, *times, 46, (class, 16, title))?;
    }
    Ok(())
}

/// Steps of one kind that follow each other on the critical path.
struct Part {
    kind: StepKind,
    times: StepTimes,
    title: String,
}

fn parts(model: &Model<'_>, path: &[usize]) -> Vec<Part> {
    let plan = model.plan;
    let of = |step: &Step| {
        (
            step.id.kind,
            step.id.group.as_ref().map(ToString::to_string),
        )
    };
    let chunks = path.chunk_by(|one, next| {
        path.len() > MOST_PARTS && of(&plan.steps[*one]) == of(&plan.steps[*next])
    });
    let part = |steps: &[usize]| {
        let first = &plan.steps[steps[0]];
        let times = steps.iter().map(|step| plan.forecast.schedule[*step]);
        let times = times.fold(None, |all, next| Some(joined(all, next)))?;
        let title = match steps.len() {
            1 => first.id.to_string(),
            more => format!("{} × {more}", first.id.kind),
        };
        Some(Part {
            kind: first.id.kind,
            times,
            title: format!("{title}: {}", span(times)),
        })
    };
    chunks.filter_map(part).collect()
}

/// A stage on the axis.
struct Row {
    name: String,
    /// The position of the stage.
    stage: Option<usize>,
    times: StepTimes,
    /// For each wave and lane.
    bars: BTreeMap<(Option<u32>, usize), StepTimes>,
}

/// The stages that take time, in their order.
fn rows(model: &Model<'_>) -> Vec<Row> {
    let plan = model.plan;
    let mut of_phases: Vec<Option<StepTimes>> = vec![None; model.phases.len()];
    for ((step, times), phase) in plan
        .steps
        .iter()
        .zip(&plan.forecast.schedule)
        .zip(&model.phase_of)
    {
        if !step.standby && times.1 > times.0 {
            of_phases[*phase] = Some(joined(of_phases[*phase], *times));
        }
    }
    let mut rows: BTreeMap<Option<usize>, Row> = BTreeMap::new();
    let positions: BTreeMap<&str, usize> = model
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
    for (phase, times) in model.phases.iter().zip(of_phases) {
        let Some(times) = times else {
            continue;
        };
        let stage = match phase.group {
            Some(group) => positions.get(group.as_str()).copied(),
            None => outside.filter(|_| phase.of_nodes),
        };
        let row = rows.entry(stage).or_insert_with(|| Row {
            name: stage.map_or_else(
                || "Site".to_owned(),
                |stage| name(&model.stages[stage].stage),
            ),
            stage,
            times,
            bars: BTreeMap::new(),
        });
        row.times = joined(Some(row.times), times);
        let bar = row
            .bars
            .entry((phase.wave, lane(phase.kind)))
            .or_insert(times);
        *bar = joined(Some(*bar), times);
    }
    rows.into_values().collect()
}

fn stage_row(out: &mut dyn Write, scale: &Scale, row: &Row, y: u32, most: usize) -> fmt::Result {
    let name = xml(&row.name);
    writeln!(
        out,
        "<text class=\"row\" x=\"0\" y=\"{}\">{name}</text>",
        y + 12
    )?;
    let mut bars: BTreeMap<(Option<u32>, usize), StepTimes> = BTreeMap::new();
    for ((wave, lane), times) in &row.bars {
        let wave = wave.filter(|_| row.bars.len() <= most);
        let bar = bars.entry((wave, *lane)).or_insert(*times);
        *bar = joined(Some(*bar), *times);
    }
    for ((wave, lane), times) in bars {
        let (class, what) = LANES[lane];
        let of_wave = wave.map_or_else(String::new, |wave| format!(" wave {wave}"));
        let title = format!("{}{of_wave}, {what}: {}", row.name, span(times));
        let lane = y + 17 + 7 * lane as u32;
        scale.bar(out, times, lane, (class, 6, &title))?;
    }
    Ok(())
}

/// The members of an etcd cluster along the run.
struct Members<'p> {
    cluster: &'p EtcdForecast,
    /// From when on how many vote.
    counts: Vec<(u32, usize)>,
}

/// The members of so many that must be healthy.
fn quorum(members: usize) -> usize {
    members / 2 + 1
}

fn etcd<'p>(model: &Model<'p>) -> Vec<Members<'p>> {
    let plan = model.plan;
    let of_cluster = |cluster: &'p EtcdForecast| {
        let mut changes: BTreeMap<u32, i64> = BTreeMap::new();
        let mut lost: FxHashMap<&str, i64> = FxHashMap::default();
        for (step, times) in plan.steps.iter().zip(&plan.forecast.schedule) {
            let Some(node) = step.id.node.as_ref().filter(|_| !step.standby) else {
                continue;
            };
            let removals = step.given().etcd_members();
            let of_it = removals
                .iter()
                .filter(|each| each.cluster == cluster.cluster);
            let change = match step.id.kind {
                StepKind::RemoveEtcd => {
                    let members = i64::try_from(of_it.count()).unwrap_or_default();
                    lost.insert(node.as_str(), members);
                    -members
                }
                StepKind::AwaitReady => lost.remove(node.as_str()).unwrap_or_default(),
                _ => 0,
            };
            if change != 0 {
                *changes.entry(times.1).or_default() += change;
            }
        }
        let mut counts = vec![(0, cluster.now)];
        let mut now = i64::try_from(cluster.now).unwrap_or_default();
        for (second, change) in changes {
            now += change;
            counts.push((second, usize::try_from(now).unwrap_or_default()));
        }
        Members { cluster, counts }
    };
    plan.forecast.etcd.iter().map(of_cluster).collect()
}

fn etcd_row(out: &mut dyn Write, scale: &Scale, row: &Members<'_>, y: u32) -> fmt::Result {
    let cluster = xml(row.cluster.cluster.as_str());
    writeln!(
        out,
        "<text class=\"row\" x=\"0\" y=\"{}\">etcd {cluster}: voting members</text>",
        y + 12
    )?;
    let ends = row
        .counts
        .iter()
        .skip(1)
        .map(|count| count.0)
        .chain([scale.end]);
    for ((start, members), end) in row.counts.iter().zip(ends) {
        let least = quorum(*members);
        let class = match *members < row.cluster.now {
            true => "e-fewer",
            false => "e-all",
        };
        let title = format!(
            "{members} members, of which {least} must be healthy: {}",
            span(StepTimes(*start, end))
        );
        scale.bar(out, StepTimes(*start, end), y + 17, (class, 20, &title))?;
        let x = scale.at(*start);
        writeln!(
            out,
            "<text class=\"count\" x=\"{x:.3}%\" dx=\"4\" y=\"{}\">{members}</text>",
            y + 31
        )?;
    }
    Ok(())
}

/// The axis as tables.
fn tables(
    out: &mut dyn Write,
    model: &Model<'_>,
    rows: &[Row],
    path: &[usize],
    etcd: &[Members<'_>],
) -> fmt::Result {
    writeln!(
        out,
        "<details><summary>Times, critical path and etcd members as text</summary><table><caption>Stages</caption><thead><tr>\
         <th scope=\"col\">Stage</th><th scope=\"col\">Begins after</th><th scope=\"col\">Ends after</th></tr></thead><tbody>"
    )?;
    for row in rows {
        let [from, to] = [row.times.0, row.times.1].map(|second| words::rounded(u64::from(second)));
        let name = xml(&row.name);
        let name = match row.stage {
            Some(stage) => format!("<a href=\"#s{stage}\">{name}</a>"),
            None => name,
        };
        writeln!(
            out,
            "<tr><th scope=\"row\">{name}</th><td>{from}</td><td>{to}</td></tr>"
        )?;
    }
    writeln!(out, "</tbody></table>")?;
    let parts = parts(model, path);
    writeln!(out, "<h3>Critical path</h3><ol>")?;
    for part in parts.iter().take(MOST_PARTS) {
        writeln!(out, "<li>{}</li>", xml(&part.title))?;
    }
    writeln!(out, "</ol>")?;
    if parts.len() > MOST_PARTS {
        writeln!(
            out,
            "<p class=\"more\">and {} more</p>",
            parts.len() - MOST_PARTS
        )?;
    }
    for row in etcd {
        let cluster = xml(row.cluster.cluster.as_str());
        writeln!(out, "<h3>Members of etcd {cluster}</h3><ul>")?;
        for (second, members) in &row.counts {
            let (after, least) = (words::rounded(u64::from(*second)), quorum(*members));
            writeln!(
                out,
                "<li>after {after}: {members} vote, {least} of them must be healthy</li>"
            )?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "</details>")
}
