//! The report of a run as Markdown and as JUnit, for files that a pipeline keeps.

use std::fmt::{self, Write};

use super::ending::counts;
use super::{milliseconds, words};
use crate::plan::Standing;
use crate::record::RunRecord;
use crate::report::escape::{markdown_code, markdown_text, xml};
use crate::run::{GroupResult, NodeResult, RunReport};

/// Nodes that are not done which have a line each in Markdown.
const MOST_NODES: usize = 200;

/// The nodes that are not done.
fn unfinished(report: &RunReport) -> impl Iterator<Item = &NodeResult> {
    let nodes = report.nodes.iter();
    nodes.filter(|node| !node.complete || node.message.is_some())
}

/// Writes a run as Markdown: its report, or, where it has none, how it stands.
///
/// # Errors
///
/// Only where `out` fails.
pub fn show_markdown(
    out: &mut dyn Write,
    run: &RunRecord,
    report: Option<&RunReport>,
) -> fmt::Result {
    match report {
        Some(report) => report_markdown(out, report),
        None => writeln!(
            out,
            "### Run {} {}\n\n{}",
            markdown_code(run.run.as_str()),
            words(run.outcome),
            counts(&run.counts)
        ),
    }
}

/// Writes a report as Markdown: the outcome, the groups, and the nodes that are not done.
///
/// # Errors
///
/// Only where `out` fails.
pub fn report_markdown(out: &mut dyn Write, report: &RunReport) -> fmt::Result {
    writeln!(
        out,
        "### Run {} {}\n\n{}, in {}",
        markdown_code(report.run.as_str()),
        words(report.outcome),
        counts(&report.counts),
        milliseconds(report.duration_ms)
    )?;
    if !report.groups.is_empty() {
        writeln!(out, "\n| group | result | reason |\n| --- | --- | --- |")?;
    }
    for group in &report.groups {
        let result = match group {
            GroupResult {
                succeeded: true, ..
            } => "succeeded",
            GroupResult { stopped: true, .. } => "not ended",
            GroupResult { critical: true, .. } => "**FAILED (critical)**",
            _ => "**FAILED**",
        };
        let reason = markdown_text(group.reason.as_deref().unwrap_or(""));
        let name = markdown_code(group.group.as_str());
        writeln!(out, "| {name} | {result} | {reason} |")?;
    }
    let all = unfinished(report).count();
    if all > 0 {
        writeln!(out, "\n**Not done**\n")?;
    }
    for node in unfinished(report).take(MOST_NODES) {
        write!(out, "- {}", markdown_code(node.node.as_str()))?;
        if let Some(step) = &node.failed_step {
            write!(out, " at {}", markdown_code(step))?;
        }
        if let Some(message) = &node.message {
            write!(out, ": {}", markdown_text(message))?;
        }
        writeln!(out)?;
    }
    if all > MOST_NODES {
        writeln!(out, "- and {} more", all - MOST_NODES)?;
    }
    for next in &report.next {
        writeln!(out, "\nNext: {}", markdown_text(next))?;
    }
    if let Some(tag) = &report.tag {
        writeln!(out, "\nTagged {}", markdown_code(tag))?;
    }
    Ok(())
}

/// Writes a report as JUnit: a suite of the groups and one of the nodes, a case each. A node that failed is a failure, one
/// that was not begun or not ended is skipped.
///
/// # Errors
///
/// Only where `out` fails.
pub fn report_junit(out: &mut dyn Write, report: &RunReport) -> fmt::Result {
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>"
    )?;
    let failed = report
        .groups
        .iter()
        .filter(|group| !group.succeeded && !group.stopped);
    let stopped = report
        .groups
        .iter()
        .filter(|group| !group.succeeded && group.stopped);
    suite(
        out,
        "groups",
        report.groups.len(),
        [failed.count(), stopped.count()],
        0,
    )?;
    for group in &report.groups {
        let (name, reason) = (
            xml(group.group.as_str()),
            xml(group.reason.as_deref().unwrap_or("")),
        );
        write!(out, "    <testcase classname=\"groups\" name=\"{name}\"")?;
        match (group.succeeded, group.stopped) {
            (true, _) => writeln!(out, "/>")?,
            (false, true) => writeln!(out, "><skipped message=\"{reason}\"/></testcase>")?,
            (false, false) => writeln!(
                out,
                "><failure type=\"group\" message=\"{reason}\">{reason}</failure></testcase>"
            )?,
        }
    }
    writeln!(out, "  </testsuite>")?;
    let is_failed = |node: &&NodeResult| !node.complete && node.standing == Standing::Failed;
    let failed = report.nodes.iter().filter(is_failed).count();
    let open = report.nodes.iter().filter(|node| !node.complete).count() - failed;
    suite(
        out,
        "nodes",
        report.nodes.len(),
        [failed, open],
        report.duration_ms,
    )?;
    for node in &report.nodes {
        let seconds = seconds(node.duration_ms);
        let name = xml(node.node.as_str());
        write!(
            out,
            "    <testcase classname=\"nodes\" name=\"{name}\" time=\"{seconds}\""
        )?;
        let message = xml(node.message.as_deref().unwrap_or("not done"));
        let step = xml(node.failed_step.as_deref().unwrap_or("node"));
        match (node.complete, is_failed(&node)) {
            (true, _) => writeln!(out, "/>")?,
            (false, true) => writeln!(
                out,
                "><failure type=\"{step}\" message=\"{message}\">{step}: {message}</failure></testcase>"
            )?,
            (false, false) => writeln!(out, "><skipped message=\"{message}\"/></testcase>")?,
        }
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

fn suite(
    out: &mut dyn Write,
    name: &str,
    tests: usize,
    [failures, skipped]: [usize; 2],
    milliseconds: u64,
) -> fmt::Result {
    writeln!(
        out,
        "  <testsuite name=\"trueup apply: {name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" \
         skipped=\"{skipped}\" time=\"{}\">",
        seconds(milliseconds)
    )
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1_000, milliseconds % 1_000)
}
