//! A plan as one file without its names: to be read by others, who have neither its repository nor its names.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Failure;
use super::context::Context;
use crate::observed;
use crate::plan::saved;
use crate::report::{self, Visible, counted};
use crate::repository::Repository;
use crate::workflow::Planned;

/// The version of the form of such a bundle.
const FORMAT_VERSION: u32 = 1;
/// Changes that are listed.
const MOST_CHANGES: usize = 100;

/// The bundle, as a file holds it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnonymousPlan {
    format_version: u32,
    /// The version of the program that made the plan.
    trueup: String,
    /// Always: what tells this form from others.
    anonymised: bool,
    /// The plan, with its names replaced.
    plan: Value,
    /// The observed state, line by line, with the same names replaced by the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    observed: Vec<Value>,
}

/// Writes a plan and what was observed for it into a file, with all names replaced.
pub(super) fn write(
    context: &Context,
    repository: &Repository,
    planned: &Planned,
    out: &Path,
) -> Result<(), Failure> {
    let failed = |error: serde_json::Error| {
        Failure::error(format!("the names of the plan cannot be replaced: {error}"))
    };
    let plan: Value = serde_json::from_slice(&saved::write(&planned.plan)).map_err(failed)?;
    let mut lines = Vec::new();
    if let Some(observations) = &planned.observations {
        let mut bytes = Vec::new();
        observed::write(observations, &mut bytes)?;
        let all = bytes.split(|byte| *byte == b'\n');
        for line in all.filter(|line| !line.is_empty()) {
            lines.push(serde_json::from_slice::<Value>(line).map_err(failed)?);
        }
    }
    // The plan has the names of those who work on machines in sentences alone, if they may be taken for plain words.
    let people = &planned.reservations.nodes;
    let mut replaced =
        report::anonymous(&json!({"plan": plan, "observed": lines, "reservations": people}));
    let bundle = AnonymousPlan {
        format_version: FORMAT_VERSION,
        trueup: env!("CARGO_PKG_VERSION").to_owned(),
        anonymised: true,
        plan: replaced["plan"].take(),
        observed: match replaced["observed"].take() {
            Value::Array(lines) => lines,
            _ => Vec::new(),
        },
    };
    let path = context.directory().join(out);
    let shown = out.display();
    let written = repository.write_output(&path, |out| {
        serde_json::to_writer(&mut *out, &bundle)?;
        out.write_all(b"\n")
    });
    written
        .map_err(|error| Failure::error(format!("cannot write the bundle `{shown}`: {error}")))?;
    context.printer.tell(&format!(
        "Wrote the bundle `{shown}`: a plan with its names replaced; `trueup replay {shown}` shows it. It cannot be made \
         again: that needs its commits, which have the names."
    ));
    Ok(())
}

/// Reads such a bundle; `None`: the file is none.
pub(super) fn read(bytes: &[u8]) -> Option<Result<AnonymousPlan, String>> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        anonymised: bool,
    }
    let head: Head = serde_json::from_slice(bytes).ok()?;
    if !head.anonymised {
        return None;
    }
    Some(match serde_json::from_slice::<AnonymousPlan>(bytes) {
        Ok(bundle) if bundle.format_version != FORMAT_VERSION => Err(format!(
            "its form has version {}, and this trueup reads {FORMAT_VERSION}",
            bundle.format_version
        )),
        Ok(bundle) => Ok(bundle),
        Err(error) => Err(error.to_string()),
    })
}

/// Prints what the plan does: each change, and why it is blocked.
pub(super) fn show(context: &Context, bundle: &AnonymousPlan) -> Result<(), Failure> {
    let plan = &bundle.plan;
    let text = |value: &Value| Visible(value.as_str().unwrap_or("?")).to_string();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (changes, steps) = (list(&plan["changes"]), list(&plan["steps"]));
    let changed = |change: &&Value| change["kind"] != "none";
    let changes: Vec<&Value> = changes.iter().filter(changed).collect();
    context.printer.stream_text(|out| {
        writeln!(
            out,
            "Site {}: {}, {}, {}",
            text(&plan["site"]),
            text(&plan["action"]),
            counted(changes.len(), "change", "changes"),
            counted(steps.len(), "step", "steps"),
        )?;
        for change in changes.iter().take(MOST_CHANGES) {
            write!(
                out,
                "  {}: {}",
                text(&change["node"]),
                text(&change["kind"])
            )?;
            match change["blocked"]["reason"].as_str() {
                Some(reason) => writeln!(out, ", blocked: {}", Visible(reason))?,
                None => writeln!(out)?,
            }
        }
        if let Some(more @ 1..) = changes.len().checked_sub(MOST_CHANGES) {
            writeln!(out, "  and {more} more")?;
        }
        let by = Visible(&bundle.trueup);
        writeln!(out, "\nWritten by trueup {by}, with its names replaced.")
    })
}
