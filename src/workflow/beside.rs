//! The files that a Policy names beside its documents, checked before a plan needs them.

use jiff::Timestamp;

use super::approvals::signers_problems;
use super::commit_of;
use super::rules::rules;
use crate::design::kind;
use crate::diagnostic::Diagnostic;
use crate::rego::{self, Problem};
use crate::repository::{CommitId, Repository};
use crate::site::Site;

/// The problems of the files that the Policy of a site names: those that would refuse plans and runs.
#[must_use]
pub fn problems_beside(repository: &Repository, site: &Site, now: Timestamp) -> Vec<Diagnostic> {
    let (policy, commit) = (&site.documented_guards.policy, commit_of(site.at));
    let asked_by = |problem: Diagnostic, fields: &[&str]| {
        let documents = site.rendering.of_schema(kind::POLICY).iter();
        let mut places =
            documents.flat_map(|policy| fields.iter().filter_map(|field| policy.data.get(field)));
        match places.next() {
            Some(place) => problem.related(place.mark, "the Policy asks for it here"),
            None => problem,
        }
    };
    let mut found = Vec::new();
    if policy.asks_for_signatures() {
        let path = policy.allowed_signers();
        let problems = signers_problems(repository, commit, policy, now).into_iter();
        found.extend(problems.map(|(why, hint)| {
            let problem = Diagnostic::error_in("rule-allowed-signers", Some(path), why).hint(hint);
            asked_by(problem, &["approvals", "signed_runs"])
        }));
    }
    if let Some(folder) = &policy.rego {
        let problem = problem_of_rules(repository, commit, folder);
        found.extend(problem.map(|problem| asked_by(problem, &["rego"])));
    }
    found
}

/// Why the rules of a folder judge no plan.
fn problem_of_rules(
    repository: &Repository,
    commit: Option<CommitId>,
    folder: &str,
) -> Option<Diagnostic> {
    let code = "rule-rego";
    let files = match rules(repository, commit, folder) {
        Ok(files) => files,
        Err(failure) => return Some(Diagnostic::error_in(code, Some(folder), failure.message)),
    };
    let error = rego::check(&files).err()?;
    let text = error.to_string();
    Some(match error {
        rego::Error::Rules(Problem::Invalid { path, .. }) => {
            Diagnostic::error_in(code, Some(&path), text)
        }
        rego::Error::Rules(Problem::Version { .. }) => {
            Diagnostic::error_in(code, Some(folder), text)
        }
        // A plan may give them what an empty one lacks.
        _ => Diagnostic::warning_in(code, Some(folder), format!("on an empty plan, {text}")),
    })
}
