//! Problems for programs: JSON, GitHub's workflow commands, SARIF 2.1.0 and JUnit.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::gitlab::fingerprints;
use super::whereabouts;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, Severity, Sources};
use crate::report::escape::{visible, xml};

/// The version of the JSON object that [`json()`] writes.
pub const FORMAT_VERSION: u32 = 1;

/// Annotations of one severity that GitHub shows of a step; of more the last one counts the others.
const MOST_ANNOTATIONS: usize = 10;

/// Results that GitHub keeps of an upload.
const MOST_RESULTS: usize = 5_000;
/// Other places that a result names.
const MOST_PLACES: usize = 100;

#[derive(Serialize)]
struct Problems<'a> {
    format_version: u32,
    valid: bool,
    errors: usize,
    warnings: usize,
    diagnostics: Vec<Problem<'a>>,
}

#[derive(Serialize)]
pub(in crate::report) struct Problem<'a> {
    code: Code,
    severity: Severity,
    file: Option<Arc<str>>,
    line: Option<u32>,
    column: Option<u32>,
    message: &'a str,
    hint: Option<&'a str>,
    related: Vec<Other<'a>>,
}

#[derive(Serialize)]
struct Other<'a> {
    #[serde(flatten)]
    place: Place,
    message: &'a str,
}

/// Writes one JSON object: `format_version`, `valid`, `errors`, `warnings` and `diagnostics`, each with
/// `code`, `severity`, `file`, `line`, `column`, `message`, `hint` and `related`.
///
/// # Errors
///
/// Only if `out` fails.
pub fn json(out: &mut dyn Write, diagnostics: &Diagnostics, sources: &Sources) -> fmt::Result {
    let (errors, warnings) = diagnostics.counts();
    let problems = Problems {
        format_version: FORMAT_VERSION,
        valid: errors == 0,
        errors,
        warnings,
        diagnostics: diagnostics
            .iter()
            .map(|diagnostic| problem(diagnostic, sources))
            .collect(),
    };
    crate::report::json::pretty(out, &problems)
}

/// One problem, as JSON has it.
pub(in crate::report) fn problem<'a>(diagnostic: &'a Diagnostic, sources: &Sources) -> Problem<'a> {
    let (file, place) = whereabouts(diagnostic, sources);
    Problem {
        code: diagnostic.code,
        severity: diagnostic.severity,
        file,
        line: place.as_ref().map(|place| place.line),
        column: place.as_ref().map(|place| place.column),
        message: &diagnostic.message,
        hint: diagnostic.hint.as_deref(),
        related: diagnostic
            .related
            .iter()
            .map(|related| Other {
                place: sources.place(related.mark),
                message: &related.message,
            })
            .collect(),
    }
}

/// Message, hint and related places, one line each.
fn in_full(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let mut text = visible(&diagnostic.message);
    for related in &diagnostic.related {
        text.push('\n');
        text.push_str(&visible(&format!(
            "{}: {}",
            sources.place(related.mark),
            related.message
        )));
    }
    if let Some(hint) = &diagnostic.hint {
        text.push_str("\nhint: ");
        text.push_str(&visible(hint));
    }
    text
}

/// Writes one workflow command of GitHub Actions a problem, which puts it on its line of the pull request: of errors and
/// of warnings as many as GitHub shows, the last of which counts the others.
///
/// # Errors
///
/// Only if `out` fails.
pub fn github(out: &mut dyn Write, diagnostics: &Diagnostics, sources: &Sources) -> fmt::Result {
    fn data(text: &str) -> String {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    }
    fn property(text: &str) -> String {
        data(text).replace(':', "%3A").replace(',', "%2C")
    }
    let (errors, warnings) = diagnostics.counts();
    let mut written = [0, 0];
    for diagnostic in diagnostics {
        let (at, all) = match diagnostic.severity {
            Severity::Error => (0, errors),
            Severity::Warning => (1, warnings),
        };
        written[at] += 1;
        if all > MOST_ANNOTATIONS && written[at] >= MOST_ANNOTATIONS {
            if written[at] == MOST_ANNOTATIONS {
                let rest = all + 1 - MOST_ANNOTATIONS;
                let severity = diagnostic.severity;
                writeln!(
                    out,
                    "::{severity} title=trueup validate::{rest} more of severity {severity}; `trueup validate --full` shows all"
                )?;
            }
            continue;
        }
        let (file, place) = whereabouts(diagnostic, sources);
        write!(out, "::{} ", diagnostic.severity)?;
        if let Some(file) = file {
            write!(out, "file={},", property(&visible(&file)))?;
        }
        if let Some(place) = place {
            write!(out, "line={},col={},", place.line, place.column)?;
        }
        writeln!(
            out,
            "title={}::{}",
            property(diagnostic.code.0),
            data(&in_full(diagnostic, sources))
        )?;
    }
    Ok(())
}

/// Writes a SARIF 2.1.0 log with one run, whose rules are the codes that occur.
///
/// # Errors
///
/// Only if `out` fails.
pub fn sarif(out: &mut dyn Write, diagnostics: &Diagnostics, sources: &Sources) -> fmt::Result {
    let mut rules: BTreeMap<Code, usize> = diagnostics
        .iter()
        .map(|diagnostic| (diagnostic.code, 0))
        .collect();
    for (index, number) in rules.values_mut().enumerate() {
        *number = index;
    }
    let fingerprints = fingerprints(diagnostics, sources);
    // If there are too many, errors are kept before warnings.
    let errors = diagnostics.counts().0.min(MOST_RESULTS);
    let (mut errors_left, mut warnings_left) = (errors, MOST_RESULTS - errors);
    let all = diagnostics.iter().zip(&fingerprints);
    let kept = all.filter(|(diagnostic, _)| {
        let left = match diagnostic.severity {
            Severity::Error => &mut errors_left,
            Severity::Warning => &mut warnings_left,
        };
        let is_kept = *left > 0;
        *left = left.saturating_sub(1);
        is_kept
    });
    let results = kept.map(|(diagnostic, fingerprint)| {
        let rule = rules.get(&diagnostic.code).copied();
        let mut result = sarif_result(diagnostic, rule, sources);
        result["partialFingerprints"] = json!({"trueup/v1": fingerprint});
        result
    });
    let results: Vec<Value> = results.collect();
    let left = fingerprints.len() - results.len();
    let rules: Vec<Value> = rules
        .keys()
        .map(|code| json!({"id": code, "shortDescription": {"text": code.0.replace('-', " ")}}))
        .collect();
    let mut log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "trueup",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    if left > 0 {
        let text = format!("{left} more problems are left out; `trueup validate --full` shows all");
        let notice = json!({"level": "note", "message": {"text": text}});
        let invocation =
            json!({"executionSuccessful": true, "toolExecutionNotifications": [notice]});
        log["runs"][0]["invocations"] = json!([invocation]);
    }
    crate::report::json::pretty(out, &log)
}

/// One result of the log; `rule`: the position of its rule.
fn sarif_result(diagnostic: &Diagnostic, rule: Option<usize>, sources: &Sources) -> Value {
    let artifact = |path: &str| json!({"uri": uri(path), "uriBaseId": "%SRCROOT%"});
    let location = |place: &Place| {
        json!({
            "artifactLocation": artifact(&place.path),
            "region": {"startLine": place.line, "startColumn": place.column},
        })
    };
    let mut text = diagnostic.message.clone();
    if let Some(hint) = &diagnostic.hint {
        text.push_str("\nhint: ");
        text.push_str(hint);
    }
    let mut result = json!({
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": diagnostic.severity,
        "message": {"text": text},
    });
    let (file, place) = whereabouts(diagnostic, sources);
    let place = place.as_ref().map(location);
    let place = place.or_else(|| Some(json!({"artifactLocation": artifact(file.as_deref()?)})));
    if let Some(place) = place {
        result["locations"] = json!([{"physicalLocation": place}]);
    }
    if !diagnostic.related.is_empty() {
        let related = diagnostic.related.iter().take(MOST_PLACES).enumerate();
        let related = related.map(|(index, related)| {
            json!({
                "id": index + 1,
                "physicalLocation": location(&sources.place(related.mark)),
                "message": {"text": related.message},
            })
        });
        result["relatedLocations"] = related.collect();
    }
    result
}

/// A path in the repository as a relative URI.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The problems of one severity, one after the other.
fn junit_lines(list: &[&Diagnostic], wanted: Severity, sources: &Sources) -> String {
    let mut text = String::new();
    for diagnostic in list.iter().filter(|each| each.severity == wanted) {
        let (_, place) = whereabouts(diagnostic, sources);
        let place = place.map_or_else(String::new, |place| format!("{place}: "));
        text.push_str(&xml(&place));
        let full = in_full(diagnostic, sources);
        for (index, line) in full.lines().enumerate() {
            let indent = if index == 0 { "" } else { "  " };
            let _ = writeln!(text, "{indent}{}", xml(line));
        }
    }
    text
}

/// Writes a JUnit report: one test case a file that has problems, failed if one of them is an error;
/// one passed case without problems.
///
/// # Errors
///
/// Only if `out` fails.
pub fn junit(out: &mut dyn Write, diagnostics: &Diagnostics, sources: &Sources) -> fmt::Result {
    let mut files: BTreeMap<Arc<str>, Vec<&Diagnostic>> = BTreeMap::new();
    for diagnostic in diagnostics {
        let (file, _) = whereabouts(diagnostic, sources);
        let file = file.unwrap_or_else(|| Arc::from("site"));
        files.entry(file).or_default().push(diagnostic);
    }
    let is_error = |diagnostic: &&&Diagnostic| diagnostic.severity == Severity::Error;
    let failures = files
        .values()
        .filter(|list| list.iter().any(|diagnostic| is_error(&diagnostic)))
        .count();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites>\n  <testsuite name=\"trueup validate\" tests=\"{}\" failures=\"{failures}\">",
        files.len().max(1)
    )?;
    if files.is_empty() {
        writeln!(out, "    <testcase classname=\"validate\" name=\"site\"/>")?;
    }
    for (file, list) in &files {
        writeln!(
            out,
            "    <testcase classname=\"validate\" name=\"{}\">",
            xml(file)
        )?;
        if let Some(first) = list.iter().find(is_error) {
            writeln!(
                out,
                "      <failure type=\"{}\" message=\"{}\">{}</failure>",
                first.code,
                xml(&first.message),
                junit_lines(list, Severity::Error, sources)
            )?;
        }
        let warnings = junit_lines(list, Severity::Warning, sources);
        if !warnings.is_empty() {
            writeln!(out, "      <system-out>{warnings}</system-out>")?;
        }
        writeln!(out, "    </testcase>")?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}
