//! The report of a run as Markdown and as JUnit, for files that a pipeline keeps.

use std::fmt::{self, Write};

use super::ending::counts;
use super::milliseconds;
use crate::record::RunRecord;
use crate::report::escape::{markdown_code, markdown_text, xml};
use crate::run::{Completion, GroupResult, RunReport};

/// Nodes that are not done which have a line each in Markdown.
const MOST_NODES: usize = 200;

/// Writes a run as Markdown: its report, or, if it has none, how it stands.
///
/// # Errors
///
/// Only if `out` fails.
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
            run.outcome.words(),
            counts(&run.counts)
        ),
    }
}

/// Writes a report as Markdown: the outcome, the groups, and the nodes that are not done.
///
/// # Errors
///
/// Only if `out` fails.
pub fn report_markdown(out: &mut dyn Write, report: &RunReport) -> fmt::Result {
    writeln!(
        out,
        "### Run {} {}\n\n{}, in {}",
        markdown_code(report.run.as_str()),
        report.outcome.words(),
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
    if let Some(why) = &report.halted {
        let why = markdown_text(why);
        writeln!(out, "\n**Halted:** {why}, and nothing more was begun")?;
    }
    let all = report.unfinished().count();
    if all > 0 {
        writeln!(out, "\n**Not done**\n")?;
    }
    for node in report.unfinished().take(MOST_NODES) {
        write!(out, "- {}", markdown_code(node.node.as_str()))?;
        if let Some(step) = node.step() {
            write!(out, " at {}", markdown_code(step))?;
        }
        if let Some(reason) = node.reason() {
            write!(out, ": {}", markdown_text(reason))?;
        }
        writeln!(out)?;
    }
    if all > MOST_NODES {
        writeln!(out, "- and {} more", all - MOST_NODES)?;
    }
    for line in &report.undelivered {
        writeln!(out, "\n**Not told:** {}", markdown_text(line))?;
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
/// Only if `out` fails.
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
    let numbers = Numbers {
        tests: report.groups.len(),
        failures: failed.count(),
        errors: 0,
        skipped: stopped.count(),
    };
    suite(out, "groups", numbers, 0)?;
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
    let count = |progress| {
        let nodes = report.nodes.iter();
        nodes.filter(|node| node.completion() == progress).count()
    };
    let numbers = Numbers {
        tests: report.nodes.len(),
        failures: count(Completion::Failed),
        errors: count(Completion::HalfDone),
        skipped: count(Completion::NotStarted),
    };
    suite(out, "nodes", numbers, report.duration_ms)?;
    for node in &report.nodes {
        let seconds = seconds(node.duration_ms);
        let name = xml(node.node.as_str());
        write!(
            out,
            "    <testcase classname=\"nodes\" name=\"{name}\" time=\"{seconds}\""
        )?;
        let of = |words| {
            (
                xml(node.step().unwrap_or("node")),
                xml(node.reason().unwrap_or(words)),
            )
        };
        match node.completion() {
            Completion::Complete => writeln!(out, "/>")?,
            Completion::Failed => {
                let (step, why) = of("failed");
                writeln!(
                    out,
                    "><failure type=\"{step}\" message=\"{why}\">{step}: {why}</failure></testcase>"
                )?;
            }
            Completion::HalfDone => {
                let (step, why) = of("half-done");
                writeln!(
                    out,
                    "><error type=\"{step}\" message=\"{why}\">{step}: {why}</error></testcase>"
                )?;
            }
            Completion::NotStarted => {
                writeln!(out, "><skipped message=\"not started\"/></testcase>")?;
            }
        }
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

/// How many cases of a suite ended how.
struct Numbers {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

fn suite(out: &mut dyn Write, name: &str, numbers: Numbers, milliseconds: u64) -> fmt::Result {
    let Numbers {
        tests,
        failures,
        errors,
        skipped,
    } = numbers;
    writeln!(
        out,
        "  <testsuite name=\"trueup apply: {name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" \
         skipped=\"{skipped}\" time=\"{}\">",
        seconds(milliseconds)
    )
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1_000, milliseconds % 1_000)
}
