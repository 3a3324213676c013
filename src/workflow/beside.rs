//! The files that a Policy names beside its documents, checked before a plan needs them.

use super::approvals::signers_problems;
use super::rules::rules;
use crate::design::Policy;
use crate::diagnostic::Diagnostic;
use crate::rego::{self, Problem};
use crate::repository::{CommitId, Repository};

/// The problems of the files that a Policy names, at a commit or in the worktree (`None`): those that would refuse plans
/// and runs.
#[must_use]
pub fn problems_beside(
    repository: &Repository,
    commit: Option<CommitId>,
    policy: &Policy,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if policy.asks_for_signatures() {
        let path = policy.allowed_signers();
        let problems = signers_problems(repository, commit, policy).into_iter();
        found.extend(problems.map(|(why, hint)| {
            Diagnostic::error_in("rule-allowed-signers", Some(path), why).hint(hint)
        }));
    }
    if let Some(folder) = &policy.rego {
        found.extend(problem_of_rules(repository, commit, folder));
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
        Err(failure) => {
            let named = format!("`rego: {folder}` of the Policy names it");
            let problem = Diagnostic::error_in(code, Some(folder), failure.message);
            return Some(problem.hint(named));
        }
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
