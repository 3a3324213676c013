//! Problems as GitLab's code quality report, and the fingerprints by which forges recognise a problem.

use std::fmt::{self, Write};

use data_encoding::HEXLOWER;
use rustc_hash::FxHashMap;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::whereabouts;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity, Sources};
use crate::report::escape::visible;

/// Stands for the file of a problem that is in none.
const NO_FILE: &str = "site";

/// The fingerprint of each problem: of its code, file and message, not of its line, so that it stays the same when
/// lines above it come or go; those that are equal otherwise are numbered.
pub(super) fn fingerprints(diagnostics: &Diagnostics, sources: &Sources) -> Vec<String> {
    let mut known: FxHashMap<[u8; 32], u64> = FxHashMap::default();
    let fingerprint = |diagnostic: &Diagnostic| {
        let (file, _) = whereabouts(diagnostic, sources);
        let file = file.as_deref().unwrap_or(NO_FILE);
        let mut hash = Sha256::new();
        for part in [diagnostic.code.0, file, &diagnostic.message] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let same = known.entry(hash.clone().finalize().into()).or_default();
        hash.update(same.to_le_bytes());
        *same += 1;
        HEXLOWER.encode(&hash.finalize())
    };
    diagnostics.iter().map(fingerprint).collect()
}

#[derive(Serialize)]
struct Issue<'a> {
    description: String,
    check_name: &'a str,
    fingerprint: String,
    severity: &'static str,
    location: Location,
}

#[derive(Serialize)]
struct Location {
    path: String,
    lines: Lines,
}

#[derive(Serialize)]
struct Lines {
    begin: u32,
}

/// Writes the report: an array of problems, each complete, since GitLab stops at the first that is not.
///
/// # Errors
///
/// Only if `out` fails.
pub fn codequality(
    out: &mut dyn Write,
    diagnostics: &Diagnostics,
    sources: &Sources,
) -> fmt::Result {
    let problems = diagnostics.iter().zip(fingerprints(diagnostics, sources));
    let issues = problems.map(|(diagnostic, fingerprint)| {
        let (file, place) = whereabouts(diagnostic, sources);
        let hint = diagnostic.hint.as_deref();
        let hint = hint.map_or_else(String::new, |hint| format!("; {}", visible(hint)));
        Issue {
            description: format!("{}{hint}", visible(&diagnostic.message)),
            check_name: diagnostic.code.0,
            fingerprint,
            severity: match diagnostic.severity {
                Severity::Error => "major",
                Severity::Warning => "minor",
            },
            location: Location {
                path: visible(file.as_deref().unwrap_or(NO_FILE)),
                lines: Lines {
                    begin: place.map_or(1, |place| place.line.max(1)),
                },
            },
        }
    });
    crate::report::json::pretty(out, &issues.collect::<Vec<_>>())
}
