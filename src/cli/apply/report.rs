//! `apply --report FILE`: the report of a run, in the format that the file's name ends with.

use std::path::{Path, PathBuf};

use crate::cli::context::Context;
use crate::cli::{Failure, FailureKind, interrupted};
use crate::plan::Plan;
use crate::record::{Outcome, Store};
use crate::report::plan::{RunPage, html};
use crate::report::run::{RunRow, report_junit, report_markdown, show_json};
use crate::repository::Repository;
use crate::run::RunReport;
use crate::workflow::{ExplainedRun, signature_of};

/// A file that a report is written to.
#[derive(Clone, Debug)]
pub(in crate::cli) struct ReportFile {
    path: PathBuf,
    format: ReportFormat,
}

#[derive(Clone, Copy, Debug)]
enum ReportFormat {
    Html,
    Markdown,
    Json,
    Junit,
}

/// Reads the argument: the end of the name says the format, so that it is known before anything is done.
pub(in crate::cli) fn report_file(text: &str) -> Result<ReportFile, String> {
    let path = PathBuf::from(text);
    let end = path.extension().and_then(|end| end.to_str());
    let format = match end {
        Some("html") => ReportFormat::Html,
        Some("md") => ReportFormat::Markdown,
        Some("json") => ReportFormat::Json,
        Some("xml") => ReportFormat::Junit,
        _ => return Err("its name ends with .html, .md, .json or .xml (JUnit)".to_owned()),
    };
    Ok(ReportFile { path, format })
}

impl ReportFile {
    /// Refuses a file that must not be replaced, or that could not be written, before anything is done.
    pub(in crate::cli) fn refuse(
        &self,
        context: &Context,
        repository: &Repository,
    ) -> Result<(), Failure> {
        let path = context.directory().join(&self.path);
        repository.refuse_output(&path).map_err(|error| {
            let message = format!("`--report {}`: {error}", self.path.display());
            Failure::new(FailureKind::Usage, message)
        })?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let written = [folder, &path];
        let exist = written
            .into_iter()
            .filter(|path| *path == folder || path.exists());
        for each in exist {
            rustix::fs::access(each, rustix::fs::Access::WRITE_OK).map_err(|error| {
                let (file, error) = (self.path.display(), std::io::Error::from(error));
                let message = format!(
                    "`--report {file}` could not be written: `{}`: {error}",
                    each.display()
                );
                Failure::new(FailureKind::Error, message)
            })?;
        }
        Ok(())
    }

    /// Writes the report of a run that has ended.
    pub(in crate::cli) fn write(
        &self,
        context: &Context,
        plan: &Plan,
        report: &RunReport,
    ) -> Result<(), Failure> {
        let path = context.directory().join(&self.path);
        let text = self.text(context, plan, report)?;
        write_file(context, &path, &text).map_err(|error| {
            let path = path.display();
            let message = format!(
                "run {} has ended, and its report cannot be written to `{path}`: {error}",
                report.run
            );
            let again = format!("`trueup show {}` prints it", report.run);
            Failure::new(FailureKind::Error, message).hint(again)
        })
    }

    fn text(&self, context: &Context, plan: &Plan, report: &RunReport) -> Result<String, Failure> {
        let mut out = String::new();
        match self.format {
            ReportFormat::Markdown => report_markdown(&mut out, report)?,
            ReportFormat::Junit => report_junit(&mut out, report)?,
            ReportFormat::Html | ReportFormat::Json => {
                let repository = context.repository()?;
                let store = Store::open(&repository, &plan.site)?;
                let state = store.read()?;
                let record = store
                    .run(&state, &report.run)?
                    .ok_or_else(|| Failure::error(format!("run {} has no record", report.run)))?;
                let checkout = context.checkout(&repository)?;
                let row = RunRow {
                    signature: signature_of(&checkout, &store, &state, &report.run)?,
                    record,
                };
                if matches!(self.format, ReportFormat::Json) {
                    show_json(&mut out, &row, Some(report))?;
                } else {
                    let site = checkout.site_here()?;
                    let ways_out = match report.outcome {
                        Outcome::Interrupted => {
                            interrupted::ways_out_of_interrupted(&site, &report.run)
                        }
                        _ => Vec::new(),
                    };
                    let now = context.now().as_second();
                    let (_, explanation) =
                        ExplainedRun::whole(&checkout, &site, (&store, &state), &report.run, now)?;
                    let page = RunPage {
                        ways_out: &ways_out,
                        explanation: explanation.as_ref(),
                        signature: row.signature.as_ref(),
                        record: &row.record,
                        report: Some(report),
                    };
                    html(&mut out, plan, Some(page))?;
                }
            }
        }
        Ok(out)
    }
}

fn write_file(
    context: &Context,
    path: &Path,
    text: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let repository = context.repository().map_err(|failure| failure.message)?;
    repository.write_output(path, |out| out.write_all(text.as_bytes()))?;
    Ok(())
}
