//! The machines by stage and wave, as grids of their names.

use std::fmt::{self, Write};

use super::data::result;
use super::model::{Model, StageView, Wave, colour, looks};
use crate::plan::StepTimes;
use crate::report::counted;
use crate::report::escape::xml;
use crate::report::plan::outline::Stage;
use crate::report::plan::words;

/// Machines that are written one by one; of more, the names of a stage are one text, and the script makes the grid.
pub(super) const MOST_MACHINES: usize = 3_000;
/// Stages that are unfolded where all machines are written.
const FEW_STAGES: usize = 8;

/// The name of a stage.
pub(super) fn name(stage: &Stage<'_>) -> String {
    match stage {
        Stage::Group(group) => group.name.to_string(),
        Stage::Asked => "As asked".to_owned(),
        Stage::Outside => "In no group".to_owned(),
        Stage::Left => "No longer in the design".to_owned(),
    }
}

/// Search and filters, which the script shows.
pub(super) fn tools(out: &mut dyn Write) -> fmt::Result {
    out.write_str(
        "<search class=\"tools\" hidden><label>Search <input type=\"search\" id=\"q\" autocomplete=\"off\" \
         spellcheck=\"false\"></label>\
         <label>Change <select id=\"by-verb\"><option value=\"\">all</option></select></label>\
         <label>Group <select id=\"by-stage\"><option value=\"\">all</option></select></label>\
         <label>Rack <select id=\"by-rack\"><option value=\"\">all</option></select></label>\
         <button type=\"button\" id=\"reset\">Reset</button>\
         <output id=\"matches\" aria-live=\"polite\"></output>\
         <ul id=\"found\" class=\"machines\" hidden></ul></search>\n\
         <dialog id=\"machine\" aria-labelledby=\"machine-name\"><form method=\"dialog\"><h2 id=\"machine-name\"></h2>\
         <button>Close</button></form><p id=\"machine-about\"></p><div id=\"machine-change\"></div></dialog>\n",
    )
}

/// Writes the stages.
pub(super) fn write(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    if model.machines.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"h-machines\"><h2 id=\"h-machines\">Machines</h2>\
         <p class=\"folds\" hidden><button type=\"button\" id=\"unfold\">Unfold all</button> \
         <button type=\"button\" id=\"fold\">Fold all</button></p>"
    )?;
    let busy = model.stages.iter().filter(|stage| stage.machines > 0);
    let few = busy.count() <= FEW_STAGES && model.machines.len() <= MOST_MACHINES;
    for (number, stage) in model.stages.iter().enumerate() {
        let is_open = few && stage.machines > 0;
        one(out, model, stage, number, is_open)?;
    }
    writeln!(out, "</section>")
}

fn one(
    out: &mut dyn Write,
    model: &Model<'_>,
    stage: &StageView<'_>,
    number: usize,
    is_open: bool,
) -> fmt::Result {
    let open = if is_open { " open" } else { "" };
    write!(
        out,
        "<details class=\"stage\" id=\"s{number}\" data-stage=\"{number}\"{open}><summary><h3>{}</h3>",
        xml(&name(&stage.stage))
    )?;
    if stage.machines == 0 {
        write!(out, " <span class=\"about\">nothing to do</span>")?;
    }
    for (kind, count) in &stage.kinds {
        let colour = colour(*kind);
        write!(
            out,
            " <span class=\"tally {colour}\">{count} {}</span>",
            words::outlook(*kind)
        )?;
    }
    writeln!(out, "</summary>")?;
    if let Stage::Group(group) = &stage.stage {
        writeln!(out, "<p class=\"about\">{}</p>", xml(&words::about(group)))?;
    }
    if model.machines.len() <= MOST_MACHINES {
        for wave in &stage.waves {
            wave_of_cells(out, model, wave)?;
        }
    } else if stage.machines > 0 {
        writeln!(
            out,
            "<ul class=\"machines\" data-fill=\"{number}\"></ul><p class=\"names\">"
        )?;
        let machines = stage.waves.iter().flat_map(|wave| &wave.machines);
        for (number, machine) in machines.enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            let node = model.machines[*machine].change.node.as_str();
            write!(out, "{comma}{}", xml(node))?;
        }
        writeln!(out, "</p>")?;
    }
    writeln!(out, "</details>")
}

fn wave_of_cells(out: &mut dyn Write, model: &Model<'_>, wave: &Wave) -> fmt::Result {
    let machines = counted(wave.machines.len(), "machine", "machines");
    let title = match (wave.works, wave.number) {
        (false, _) => format!("Not carried out: {machines}"),
        (true, Some(number)) => format!("Wave {number}: {machines}"),
        (true, None) => machines,
    };
    let times = wave
        .machines
        .iter()
        .filter_map(|machine| model.machines[*machine].times);
    let times = times.reduce(|all, next| StepTimes(all.0.min(next.0), all.1.max(next.1)));
    let times = times
        .filter(|_| wave.works)
        .map_or_else(String::new, |times| {
            let StepTimes(from, to) = times;
            let time = |seconds: u32| words::rounded(u64::from(seconds));
            format!(
                " <span class=\"about\">from {} to {}</span>",
                time(from),
                time(to)
            )
        });
    writeln!(
        out,
        "<details class=\"wave\" open><summary>{title}{times}</summary><ul class=\"machines\">"
    )?;
    for position in &wave.machines {
        let machine = &model.machines[*position];
        let result = match model.run.filter(|_| machine.works) {
            Some(_) => format!(" r-{}", result(machine).replace(' ', "-")),
            None => String::new(),
        };
        writeln!(
            out,
            "<li><a class=\"m {}{result}\" href=\"#c{}\" data-m=\"{position}\">{}</a></li>",
            looks(machine.change),
            machine.class,
            xml(machine.change.node.as_str())
        )?;
    }
    writeln!(out, "</ul></details>")
}
