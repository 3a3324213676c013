//! Rules in Rego that judge a plan: what they deny is not applied.
//!
//! The rules of every package are evaluated over the plan as JSON (`input`). A rule of the name `deny` or `violation`
//! denies, one of the name `warn` warns, also with a suffix (`deny_fridays`), as Conftest has it. Rules may be
//! part of the change under review: they have no network, no files and no environment, and are evaluated in a process of their
//! own (`child`) whose memory and time the system limits, since a single call of a function may take all of either.
//! Whatever ends that process in place of an answer is an error, and no plan passes.

mod child;
mod evaluate;
mod input;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use child::answer;
pub use evaluate::{Part, Problem, evaluate};
pub use input::{VERSION, write};

use crate::plan::{Plan, Verdicts};

/// Bytes of an input that is judged: its values take many times as much.
const LARGEST_INPUT: usize = 64 << 20;
/// Messages of one rule.
const MOST_MESSAGES: usize = 100;
/// Characters of a message.
const LONGEST_MESSAGE: usize = 500;

/// A file with rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFile {
    /// Its path in the repository.
    pub path: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
}

/// Why a plan could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rules are wrong.
    #[error(transparent)]
    Rules(#[from] Problem),
    /// The plan is too large.
    #[error(
        "a plan of {size} bytes is too large to be judged by rules; at most {LARGEST_INPUT} are"
    )]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// No process could be started for them.
    #[error("no process for the rules can be started: {0}")]
    Start(std::io::Error),
    /// The process did not give an answer.
    #[error("{part} {why}")]
    Stopped {
        /// Its last part, such as "the rules of package `a`".
        part: String,
        /// How it ended.
        why: String,
    },
}

/// Judges a plan that was not judged yet by rules.
///
/// # Errors
///
/// A file is no Rego, a rule fails or takes too much, or the plan is too large.
pub fn judge(files: &[RuleFile], plan: &Plan) -> Result<Verdicts, Error> {
    if files.is_empty() {
        return Ok(Verdicts::default());
    }
    let input = write(plan);
    if input.len() > LARGEST_INPUT {
        return Err(Error::TooLarge { size: input.len() });
    }
    child::ask(files, &input)
}

/// Finds out whether rules can be evaluated at all, on an empty plan.
///
/// # Errors
///
/// As [`judge`].
pub fn check(files: &[RuleFile]) -> Result<(), Error> {
    child::ask(files, "{}").map(drop)
}

#[cfg(test)]
mod tests;
