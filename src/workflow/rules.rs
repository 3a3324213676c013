//! The rules of a site that judge its plans: which there are, and what they say.

use std::sync::Arc;

use super::{Failure, FailureKind};
use crate::plan::{Plan, Verdicts};
use crate::rego::{self, Problem, RuleFile, VERSION};
use crate::repository::{CommitId, Content, Repository};

/// Bytes of the largest file with rules.
const LARGEST: u64 = 1 << 20;

/// Rules that judge together: those of one folder at one revision.
pub(super) struct RuleSet {
    pub(super) files: Vec<RuleFile>,
    /// The revision, if it is only that whose guards are in force.
    pub(super) from: Option<Arc<str>>,
}

impl RuleSet {
    /// The verdicts on a plan.
    ///
    /// # Errors
    ///
    /// They cannot be evaluated.
    pub(super) fn judged(&self, plan: &Plan) -> Result<Verdicts, Failure> {
        judged(&self.files, plan).map_err(|failure| match &self.from {
            None => failure,
            Some(from) => Failure {
                message: format!("{} (rules of {from})", failure.message),
                ..failure
            }
            .hint("`trueup apply guards` puts the rules of the documents in force"),
        })
    }
}

/// The rules in a folder of the repository, at a commit or in the worktree (`None`).
///
/// # Errors
///
/// One cannot be read, or is no UTF-8; or there is none.
pub fn rules(
    repository: &Repository,
    commit: Option<CommitId>,
    folder: &str,
) -> Result<Vec<RuleFile>, Failure> {
    let files = repository.folder_files(commit, folder, ".rego", LARGEST)?;
    if files.is_empty() {
        let text = format!("there are no rules in `{folder}`: no file of it ends in `.rego`");
        return Err(Failure::new(FailureKind::NotFound, text));
    }
    let file = |(path, content): (Arc<str>, Content)| {
        let text = String::from_utf8(content.bytes)
            .map_err(|_| Failure::error(format!("the rules in `{path}` are not UTF-8")))?;
        Ok(RuleFile {
            path,
            text: text.into(),
        })
    };
    files.into_iter().map(file).collect()
}

/// The verdicts of rules on a plan that has none yet.
///
/// # Errors
///
/// They cannot be evaluated.
pub fn judged(rules: &[RuleFile], plan: &Plan) -> Result<Verdicts, Failure> {
    rego::judge(rules, plan).map_err(|error| {
        let kind = match &error {
            // No verdict counts as one that denies.
            rego::Error::Stopped { .. } | rego::Error::TooLarge { .. } => FailureKind::Guard,
            rego::Error::Rules(_) | rego::Error::Start(_) => FailureKind::Error,
        };
        let failure = Failure::new(kind, error.to_string());
        match error {
            rego::Error::Stopped { .. } => failure.hint("`trueup policy test PLAN` tries changed rules on a saved plan"),
            rego::Error::Rules(Problem::Version { .. }) => failure.hint(format!(
                "adapt them to version {VERSION} (`trueup schemas` writes `policy-input.json`), and state it: `input_version := {VERSION}`"
            )),
            _ => failure,
        }
    })
}

/// Refuses a plan that rules deny.
pub(super) fn not_denied(plan: &Plan) -> Result<(), Failure> {
    let denied = &plan.policies.denied;
    if denied.is_empty() {
        return Ok(());
    }
    let lines = denied
        .iter()
        .map(|verdict| format!("{}: {}", verdict.rule, verdict.message));
    let failure = Failure::new(FailureKind::Guard, "the rules of the site deny the plan:")
        .details(lines)
        .hint("`trueup policy test` judges a saved plan by changed rules");
    Err(failure.hint_if(plan.guards.way_out(&["rego"])))
}
