//! The evaluation of rules over their input: a function from values to values, without any limit of its own. The limits
//! are those of the process that calls it.

use std::sync::Arc;

use regorus::{Engine, Value};
use serde::{Deserialize, Serialize};

use super::input::{STATEMENT, UNSTATED, VERSION};
use super::{LONGEST_MESSAGE, MOST_MESSAGES, RuleFile};
use crate::plan::{Verdict, Verdicts};

/// A problem of rules, found by evaluating them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Problem {
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
    /// A package is written for another version of the input.
    #[error(
        "the rules of package `{package}` are written for version {version} of the input (`{STATEMENT}`), and this \
         program gives version {VERSION}"
    )]
    Version {
        /// The package.
        package: String,
        /// The version that it states, or does not state.
        version: String,
    },
}

/// A part of the rules, which is read or evaluated at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A file.
    File(Arc<str>),
    /// A package.
    Package(String),
}

/// The verdicts of rules on an input in JSON; `begin` is told of each part that is begun.
///
/// # Errors
///
/// A file is no Rego, a rule fails, or a package is written for another version of the input.
pub fn evaluate(
    files: &[RuleFile],
    input: &str,
    begin: &mut dyn FnMut(Part),
) -> Result<Verdicts, Problem> {
    let mut engine = Engine::new();
    // They would go to stderr.
    engine.set_gather_prints(true);
    let mut packages_of = Vec::new();
    for file in files {
        begin(Part::File(file.path.clone()));
        let added = engine.add_policy(file.path.to_string(), file.text.to_string());
        let package = added.map_err(|error| Problem::Invalid {
            path: file.path.clone(),
            problem: in_one_line(&error),
        })?;
        packages_of.push((format!("--> {}:", file.path), package));
    }
    // The first evaluation compiles the files of all packages: the error names the file.
    let failed = |package: &str, error: &dyn std::fmt::Display| {
        let problem = in_one_line(error);
        let own = packages_of
            .iter()
            .find(|(place, _)| problem.contains(place));
        let package = own.map_or(package, |(_, own)| own.trim_start_matches("data."));
        Problem::Failed {
            package: package.to_owned(),
            problem,
        }
    };
    let input = Value::from_json_str(input).map_err(|error| failed("input", &error))?;
    engine.set_input(input);
    let mut packages = engine.get_packages().map_err(|error| failed("", &error))?;
    packages.sort_unstable();
    packages.dedup();
    let mut verdicts = Verdicts::default();
    for query in packages {
        let package = query.trim_start_matches("data.").to_owned();
        begin(Part::Package(package.clone()));
        let results = engine
            .eval_query(query, false)
            .map_err(|error| failed(&package, &error))?;
        let mut version = None;
        let values = results.result.iter().flat_map(|each| &each.expressions);
        for rules in values.filter_map(|each| each.value.as_object().ok()) {
            for (name, value) in rules.iter() {
                match name.as_string() {
                    Ok(name) if &**name == STATEMENT => version = Some(value.clone()),
                    Ok(name) => take(&mut verdicts, &package, name, value),
                    Err(_) => {}
                }
            }
        }
        let version = version.unwrap_or_else(|| Value::from(u64::from(UNSTATED)));
        if version != Value::from(u64::from(VERSION)) {
            return Err(Problem::Version {
                package,
                version: shortened(version.to_string()),
            });
        }
    }
    Ok(verdicts)
}

/// Takes in the value of a rule, if it is one that denies or warns.
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
    let rule: Arc<str> = format!("{package}.{name}").into();
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
    shortened(text)
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The words of the engine for statements of which it finds no order.
const UNORDERED: &str = "statements not scheduled in query {query:?}";

/// An error of the engine in one line, without the picture of the source.
fn in_one_line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let text = text.replace(
        UNORDERED,
        "its statements cannot be brought into an order; a comprehension in the head of a rule belongs into its body",
    );
    let lines = text.lines().map(str::trim);
    let told: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.contains('|'))
        .collect();
    shortened(told.join(" "))
}
