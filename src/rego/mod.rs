//! Rules in Rego that judge a plan: what they deny is not applied.
//!
//! The rules of every package are evaluated over the plan as JSON, the one of a saved plan. A rule of the name `deny` or
//! `violation` denies, one of the name `warn` warns, also with a suffix (`deny_fridays`), as Conftest has it. Rules
//! have no network, no files and no environment, and a budget of time; an error in one is an error of all.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, Value};

use crate::plan::{Plan, Verdict, Verdicts, saved};

/// The longest evaluation of one package.
const LONGEST: Duration = Duration::from_secs(20);
/// Steps of an evaluation between two checks of the clock.
const INTERVAL: NonZeroU32 = NonZeroU32::new(1_000).unwrap();
/// Bytes of a plan that is judged: its values take many times as much.
const LARGEST_PLAN: usize = 64 << 20;
/// Messages of one rule.
const MOST_MESSAGES: usize = 100;
/// Characters of a message.
const LONGEST_MESSAGE: usize = 500;

/// A file with rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFile {
    /// Its path in the repository.
    pub path: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
}

/// Why a plan could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is no Rego.
    #[error("the rules in `{path}` cannot be read: {problem}")]
    Invalid {
        /// Which.
        path: Arc<str>,
        /// Line, column and what is wrong.
        problem: String,
    },
    /// A rule failed.
    #[error("the rules of package `{package}` cannot be evaluated: {problem}")]
    Failed {
        /// The package.
        package: String,
        /// The problem.
        problem: String,
    },
    /// The plan is too large.
    #[error(
        "a plan of {size} bytes is too large to be judged by rules; at most {LARGEST_PLAN} are"
    )]
    TooLarge {
        /// Its size.
        size: usize,
    },
}

/// Judges a plan that was not judged yet by rules.
///
/// # Errors
///
/// A file is no Rego, a rule fails or takes too long, or the plan is too large.
pub fn judge(files: &[RuleFile], plan: &Plan) -> Result<Verdicts, Error> {
    if files.is_empty() {
        return Ok(Verdicts::default());
    }
    let json = saved::write(plan);
    evaluate(files, &String::from_utf8_lossy(&json))
}

/// The verdicts of rules on a JSON text.
fn evaluate(files: &[RuleFile], json: &str) -> Result<Verdicts, Error> {
    if json.len() > LARGEST_PLAN {
        return Err(Error::TooLarge { size: json.len() });
    }
    let mut engine = Engine::new();
    engine.set_execution_timer_config(ExecutionTimerConfig {
        limit: LONGEST,
        check_interval: INTERVAL,
    });
    for file in files {
        let added = engine.add_policy(file.path.to_string(), file.text.to_string());
        added.map_err(|error| Error::Invalid {
            path: file.path.clone(),
            problem: problem(&error),
        })?;
    }
    let input = Value::from_json_str(json).map_err(|error| Error::Failed {
        package: "input".to_owned(),
        problem: problem(&error),
    })?;
    engine.set_input(input);
    let mut packages = engine.get_packages().map_err(|error| Error::Failed {
        package: String::new(),
        problem: problem(&error),
    })?;
    packages.sort_unstable();
    packages.dedup();
    let mut verdicts = Verdicts::default();
    for package in packages {
        let failed = |error: &dyn std::fmt::Display| Error::Failed {
            package: package.trim_start_matches("data.").to_owned(),
            problem: problem(error),
        };
        let results = engine
            .eval_query(package.clone(), false)
            .map_err(|error| failed(&error))?;
        let values = results.result.iter().flat_map(|each| &each.expressions);
        for rules in values.filter_map(|each| each.value.as_object().ok()) {
            for (name, value) in rules.iter() {
                let Ok(name) = name.as_string() else { continue };
                take(&mut verdicts, &package, name, value);
            }
        }
    }
    Ok(verdicts)
}

/// Takes in the value of a rule, where it is one that denies or warns.
fn take(verdicts: &mut Verdicts, package: &str, name: &str, value: &Value) {
    let is = |word: &str| {
        let rest = name.strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let found = match () {
        () if is("deny") || is("violation") => &mut verdicts.denied,
        () if is("warn") => &mut verdicts.warned,
        () => return,
    };
    let rule: Arc<str> = format!("{}.{name}", package.trim_start_matches("data.")).into();
    let messages: Vec<String> = match value {
        Value::Set(set) => set.iter().map(message).collect(),
        Value::Array(list) => list.iter().map(message).collect(),
        Value::Bool(false) | Value::Undefined | Value::Null => Vec::new(),
        other => vec![message(other)],
    };
    let more = messages.len().saturating_sub(MOST_MESSAGES);
    let shown = messages.into_iter().take(MOST_MESSAGES);
    let more = (more > 0).then(|| format!("… and {more} more"));
    found.extend(shown.chain(more).map(|message| Verdict {
        rule: rule.clone(),
        message: message.into(),
    }));
}

/// The message that a value gives: itself, the field `msg`, or its JSON.
fn message(value: &Value) -> String {
    let of_field = |value: &Value| {
        let fields = value.as_object().ok()?;
        let text = fields.get(&Value::from("msg"))?;
        Some(text.as_string().ok()?.to_string())
    };
    let text = match value {
        Value::String(text) => text.to_string(),
        Value::Bool(true) => "holds".to_owned(),
        other => of_field(other).unwrap_or_else(|| other.to_string()),
    };
    match text.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The words of the engine for statements of which it finds no order.
const UNORDERED: &str = "statements not scheduled in query {query:?}";

/// An error of the engine in one line, without the picture of the source.
fn problem(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let text = text.replace(
        UNORDERED,
        "its statements cannot be brought into an order; a comprehension in the head of a rule belongs into its body",
    );
    let lines = text.lines().map(str::trim);
    let told: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.contains('|'))
        .collect();
    told.join(" ")
}

#[cfg(test)]
mod tests;
