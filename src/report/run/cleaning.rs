//! The clean steps of machines, in the order in which they run, before anything runs.

use std::fmt::{self, Write};

use serde::Serialize;

use super::FORMAT_VERSION;
use crate::design::NodeName;
use crate::lifecycle::OfferedStep;
use crate::report::table::{Cell, Table};
use crate::report::{Palette, Role, json};

/// The clean steps of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct CleanStepsRow<'a> {
    /// Which machine.
    pub node: &'a NodeName,
    /// Whether it is cleaned on its way to available, without being asked.
    pub automated: bool,
    /// The enabled steps in their order, with their effective priorities.
    pub enabled: Vec<OfferedStep>,
    /// Steps that run only when they are asked for.
    pub switched_off: Vec<OfferedStep>,
    /// Why no steps are shown, if that is so.
    pub unknown: Option<String>,
}

/// Writes a line a step.
///
/// # Errors
///
/// Only if `out` fails.
pub fn clean_steps(
    out: &mut dyn Write,
    rows: &[CleanStepsRow<'_>],
    palette: Palette,
) -> fmt::Result {
    let mut table = Table::new(&["NODE", "ORDER", "CLEAN STEP", "PRIORITY", "NOTE"]);
    for row in rows {
        let node = || Cell::in_role(Role::Strong, row.node.as_str());
        if let Some(reason) = &row.unknown {
            table.row(vec![
                node(),
                Cell::none(),
                Cell::none(),
                Cell::none(),
                Cell::in_role(Role::Warning, reason.as_str()),
            ]);
            continue;
        }
        for (number, step) in row.enabled.iter().enumerate() {
            let note = match (row.automated, step.erases) {
                (true, true) => Cell::in_role(Role::Warning, "erases"),
                (true, false) => Cell::none(),
                (false, _) => Cell::in_role(Role::Warning, "automated cleaning is off"),
            };
            table.row(vec![
                node(),
                Cell::new((number + 1).to_string()),
                Cell::new(step.name()),
                Cell::new(step.priority.to_string()),
                note,
            ]);
        }
        for step in &row.switched_off {
            table.row(vec![
                node(),
                Cell::none(),
                Cell::new(step.name()),
                Cell::new("0"),
                Cell::new("off"),
            ]);
        }
    }
    table.write(out, palette)
}

#[derive(Serialize)]
struct All<'a> {
    format_version: u32,
    nodes: &'a [CleanStepsRow<'a>],
}

/// Writes the steps as one JSON object: `format_version` and `nodes`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn clean_steps_json(out: &mut dyn Write, rows: &[CleanStepsRow<'_>]) -> fmt::Result {
    json::pretty(
        out,
        &All {
            format_version: FORMAT_VERSION,
            nodes: rows,
        },
    )
}
