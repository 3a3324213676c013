//! The machines as a table for the script, a column a list.

use std::fmt::{self, Write};

use serde::Serialize;

use super::model::{Machine, Model, looks};
use crate::report::json;
use crate::report::plan::words::verb;
use crate::run::Completion;

#[derive(Serialize)]
struct Table<'p> {
    /// Of each class: the verb, and how it looks.
    verbs: Vec<String>,
    looks: Vec<String>,
    racks: &'p [&'p str],
    names: Vec<&'p str>,
    class: Vec<usize>,
    stage: Vec<usize>,
    /// 0: in no wave.
    wave: Vec<u32>,
    /// From 1; 0: in none.
    rack: Vec<usize>,
    /// 1: carried out.
    works: Vec<u8>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    from: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    to: Vec<u32>,
    /// How each ended in the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    result: Vec<&'static str>,
}

/// Writes the table.
pub(super) fn write(out: &mut dyn Write, model: &Model<'_>) -> fmt::Result {
    let machines = &model.machines;
    let is_timed = !model.plan.forecast.schedule.is_empty();
    let time = |of: fn(&Machine<'_>) -> Option<u32>| -> Vec<u32> {
        let timed = machines.iter().filter(|_| is_timed);
        timed
            .map(|machine| of(machine).unwrap_or_default())
            .collect()
    };
    let rack = |machine: &Machine<'_>| {
        let rack = machine.change.rack.as_deref();
        let position = rack.map(|rack| model.racks.binary_search(&rack));
        position
            .and_then(Result::ok)
            .map_or(0, |position| position + 1)
    };
    let table = Table {
        verbs: model
            .classes
            .iter()
            .map(|class| verb(class.first))
            .collect(),
        looks: model
            .classes
            .iter()
            .map(|class| looks(class.first))
            .collect(),
        racks: &model.racks,
        names: machines
            .iter()
            .map(|machine| machine.change.node.as_str())
            .collect(),
        class: machines.iter().map(|machine| machine.class).collect(),
        stage: machines.iter().map(|machine| machine.stage).collect(),
        wave: machines
            .iter()
            .map(|machine| machine.wave.unwrap_or_default())
            .collect(),
        rack: machines.iter().map(rack).collect(),
        works: machines
            .iter()
            .map(|machine| u8::from(machine.works))
            .collect(),
        from: time(|machine| machine.times.map(|times| times.0)),
        to: time(|machine| machine.times.map(|times| times.1)),
        result: match model.run.and_then(|run| run.report) {
            Some(_) => machines.iter().map(result).collect(),
            None => Vec::new(),
        },
    };
    write!(out, "<script type=\"application/json\" id=\"table\">")?;
    json::in_html(out, &table)?;
    writeln!(out, "</script>")
}

/// How a machine ended, in the words of the page.
pub(super) fn result(machine: &Machine<'_>) -> &'static str {
    match machine.result {
        Some(result) => match result.completion() {
            Completion::Complete => "done",
            Completion::Failed => "failed",
            Completion::HalfDone => "half-done",
            Completion::NotStarted => "not started",
        },
        None => "not done",
    }
}
