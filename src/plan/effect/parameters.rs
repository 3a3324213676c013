//! How the parameters of a step that was reviewed cover those of one that is made now.
//!
//! All of them count, and each has to be equal, except if a row of the two tables says otherwise.

use std::iter;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::EffectPart;
use crate::step::{Parameters, StepKind};

/// How a parameter stands to the one that was reviewed.
#[derive(Clone, Copy, Debug)]
enum Relation {
    /// It is the same.
    Equal,
    /// It is the same, or absent.
    OrAbsent,
    /// It was absent, or is still set: a flag that holds something back.
    OrPresent,
    /// Each of its items was reviewed.
    Subset,
    /// It is no smaller, if both are there.
    AtLeast,
}

/// A parameter that needs not be equal.
struct Rule {
    name: &'static str,
    relation: Relation,
    part: EffectPart,
    /// The difference in words; `{}` is the item or the value.
    words: &'static str,
}

const fn rule(
    name: &'static str,
    relation: Relation,
    part: EffectPart,
    words: &'static str,
) -> Rule {
    Rule {
        name,
        relation,
        part,
        words,
    }
}

/// Where less than what was reviewed is covered, too, and how a difference is told.
const RULES: [Rule; 21] = [
    // A deploy without the steps that were reviewed does not do less: the machine is set up otherwise.
    rule(
        "deploy_steps",
        Relation::Equal,
        EffectPart::Rest,
        "other deploy steps are run: {}",
    ),
    rule(
        "settings",
        Relation::Subset,
        EffectPart::Rest,
        "its firmware or settings are changed: {}",
    ),
    // What a runbook does is its own.
    rule(
        "runbook",
        Relation::Equal,
        EffectPart::Rest,
        "its service is another runbook's: {}",
    ),
    rule(
        "disks",
        Relation::Subset,
        EffectPart::Teardown,
        "disk {} is erased or written",
    ),
    rule(
        "etcd_members",
        Relation::Subset,
        EffectPart::Etcd,
        "member {} is removed",
    ),
    rule(
        "node_uid",
        Relation::OrAbsent,
        EffectPart::Teardown,
        "another Kubernetes node with that name is meant",
    ),
    rule(
        "clean_steps",
        Relation::OrAbsent,
        EffectPart::Teardown,
        "other clean steps are run: {}",
    ),
    rule(
        "set_labels",
        Relation::Subset,
        EffectPart::Rest,
        "label {} is set",
    ),
    rule(
        "remove_labels",
        Relation::Subset,
        EffectPart::Rest,
        "label {} is removed",
    ),
    rule(
        "etcd_given_up",
        Relation::Subset,
        EffectPart::Rest,
        "`--destroy-etcd` takes effect: {}",
    ),
    rule(
        "preserve_local_storage",
        Relation::OrPresent,
        EffectPart::Rest,
        "disks that were to be preserved are erased",
    ),
    rule(
        "identity",
        Relation::OrAbsent,
        EffectPart::Rest,
        "another machine is recorded for it: {}",
    ),
    rule(
        "renamed_from",
        Relation::OrAbsent,
        EffectPart::Rest,
        "its record becomes that of {}",
    ),
    rule(
        "accepted",
        Relation::OrAbsent,
        EffectPart::Rest,
        "other differences from its design are accepted",
    ),
    rule(
        "image",
        Relation::OrAbsent,
        EffectPart::Rest,
        "image {} is deployed",
    ),
    rule(
        "remediation",
        Relation::OrAbsent,
        EffectPart::Rest,
        "the bounds of its remediation are others: {}",
    ),
    rule(
        "grace_period",
        Relation::AtLeast,
        EffectPart::Rest,
        "its pods are given {} s to end",
    ),
    rule(
        "on_drain_timeout",
        Relation::OrAbsent,
        EffectPart::Rest,
        "`--on-drain-timeout` takes effect: {}",
    ),
    rule(
        "node_is_gone",
        Relation::OrAbsent,
        EffectPart::Rest,
        "`--node-is-gone` takes effect",
    ),
    rule(
        "machine_is_off",
        Relation::OrAbsent,
        EffectPart::Rest,
        "it is taken for a machine that is off",
    ),
    rule(
        "forget",
        Relation::OrAbsent,
        EffectPart::Rest,
        "`--forget` takes effect",
    ),
];

/// A parameter that does not count, and why.
#[cfg_attr(not(test), expect(dead_code, reason = "the reasons are for readers"))]
pub(in crate::plan) struct Exception {
    /// Its name in a saved plan.
    pub(in crate::plan) name: &'static str,
    /// Of which kind of step; `None`: of all.
    pub(in crate::plan) kind: Option<StepKind>,
    /// Why.
    pub(in crate::plan) reason: &'static str,
}

/// All parameters that do not count.
pub(in crate::plan) const EXCEPTIONS: [Exception; 14] = [
    Exception {
        name: "kept_parts",
        kind: None,
        reason: "how the machine was observed: its service is the same, and fails where a part is lost meanwhile",
    },
    Exception {
        name: "reason",
        kind: None,
        reason: "a text, without a consequence for the machine",
    },
    Exception {
        name: "refused",
        kind: None,
        reason: "a step that is refused fails before anything is tried, and does not count at all",
    },
    Exception {
        name: "deploys",
        kind: None,
        reason: "each of these nodes has its own deploy",
    },
    Exception {
        name: "backup",
        kind: None,
        reason: "a copy of what was observed, which is put back as it was",
    },
    Exception {
        name: "remembered",
        kind: None,
        reason: "what an earlier run did, as its records have it",
    },
    Exception {
        name: "in_service",
        kind: None,
        reason: "how the machine was observed; the step is the same, and waits for a window",
    },
    Exception {
        name: "joins",
        kind: None,
        reason: "what is awaited of it follows from its design, and nothing is done for it",
    },
    Exception {
        name: "verified",
        kind: None,
        reason: "what was compared and is equal, as it was observed",
    },
    Exception {
        name: "open",
        kind: None,
        reason: "what no document fills, as its design and its record have it",
    },
    Exception {
        name: "soak",
        kind: None,
        reason: "how long and what is watched behind a wave follows from the policy, of which it is a guard",
    },
    Exception {
        name: "deployed_at",
        kind: None,
        reason: "how long it is waited for, as its record has it",
    },
    Exception {
        name: "members_only",
        kind: None,
        reason: "what is waited for follows from what was observed, and nothing is done for it",
    },
    Exception {
        name: "etcd_members",
        kind: Some(StepKind::AwaitReady),
        reason: "what is waited for follows from what is removed",
    },
];

/// The parameters of a step of a kind that count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Covered<'p> {
    pub(super) kind: StepKind,
    pub(super) all: Option<&'p Parameters>,
}

impl PartialEq for Covered<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.counting() == other.counting()
    }
}

impl Eq for Covered<'_> {}

impl Serialize for Covered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.counting() {
            Some(counting) => counting.serialize(serializer),
            None => serializer.collect_map(iter::empty::<(&str, &str)>()),
        }
    }
}

impl Covered<'_> {
    /// `None`: none of them counts.
    fn counting(&self) -> Option<Parameters> {
        let mut counting = self.all?.clone();
        let exceptions = EXCEPTIONS.iter();
        for exception in exceptions.filter(|each| each.kind.is_none_or(|kind| kind == self.kind)) {
            counting.clear(exception.name);
        }
        (!counting.is_empty()).then_some(counting)
    }

    /// The differences by which these parameters do more than those of a step of the same kind that was reviewed.
    pub(super) fn adds_to(&self, reviewed: &Self) -> Vec<(EffectPart, String)> {
        if self == reviewed {
            return Vec::new();
        }
        let (now, then) = (fields(self), fields(reviewed));
        let names = now
            .keys()
            .chain(then.keys().filter(|name| !now.contains_key(*name)));
        let added = names.map(|name| {
            let (now, then) = (now.get(name), then.get(name));
            let rule = RULES.iter().find(|rule| rule.name == name);
            match rule {
                Some(rule) => rule.adds(now, then),
                None if now == then => Vec::new(),
                None => {
                    let what = format!(
                        "`{name}` of `{}` is {}, not {}",
                        self.kind,
                        now.map_or_else(|| "absent".to_owned(), display_value),
                        then.map_or_else(|| "absent".to_owned(), display_value),
                    );
                    vec![(EffectPart::Rest, what)]
                }
            }
        });
        added.flatten().collect()
    }
}

impl Rule {
    fn adds(&self, now: Option<&Value>, then: Option<&Value>) -> Vec<(EffectPart, String)> {
        let tell = |value: &Value| (self.part, self.words.replace("{}", &display_value(value)));
        let label = |label: &Value| match label.as_array().map(Vec::as_slice) {
            Some([Value::String(key), Value::String(value)]) => {
                tell(&Value::String(format!("{key}={value}")))
            }
            _ => tell(label),
        };
        match (self.relation, now, then) {
            (Relation::Subset, Some(Value::Array(now)), then) => {
                let then = then.and_then(Value::as_array);
                let known = |item: &&Value| then.is_some_and(|then| then.contains(item));
                now.iter().filter(|item| !known(item)).map(label).collect()
            }
            (Relation::Equal, now, then) if now != then => vec![tell(now.unwrap_or(&Value::Null))],
            (Relation::OrPresent, None, Some(then)) => vec![tell(then)],
            (Relation::AtLeast, Some(now), Some(then)) if now.as_u64() < then.as_u64() => {
                vec![tell(now)]
            }
            (Relation::OrAbsent, Some(now), then) if Some(now) != then => vec![tell(now)],
            _ => Vec::new(),
        }
    }
}

/// The parameters by name. To let a drain fail is what it does without that parameter.
pub(super) fn fields(covered: &Covered<'_>) -> Map<String, Value> {
    let mut fields = match serde_json::to_value(covered) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    if fields.get("on_drain_timeout").and_then(Value::as_str) == Some("fail") {
        fields.remove("on_drain_timeout");
    }
    fields
}

/// A value in a sentence.
pub(super) fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        Value::Number(number) => number.to_string(),
        Value::Null => "none".to_owned(),
        Value::Array(texts) if texts.iter().all(Value::is_string) => {
            let texts: Vec<_> = texts.iter().map(display_value).collect();
            texts.join(" ")
        }
        Value::Array(steps) if steps.iter().all(|step| step.get("step").is_some()) => {
            let steps: Vec<_> = steps.iter().map(display_step).collect();
            steps.join(", ")
        }
        Value::Array(pairs) if pairs.iter().all(|pair| label(pair).is_some()) => {
            let labels: Vec<_> = pairs.iter().filter_map(label).collect();
            labels.join(" ")
        }
        other => format!("`{other}`"),
    }
}

/// A label, which is a pair of its key and its value.
fn label(pair: &Value) -> Option<String> {
    match pair.as_array()?.as_slice() {
        [Value::String(key), Value::String(value)] => Some(format!("`{key}={value}`")),
        _ => None,
    }
}

/// A step of a backend in a sentence: `deploy.erase_devices (erases, priority 10)`.
fn display_step(step: &Value) -> String {
    let name = |field| step.get(field).and_then(Value::as_str);
    let names: Vec<_> = ["interface", "step"].into_iter().filter_map(name).collect();
    let fields = step.as_object().into_iter().flatten();
    let fields = fields.filter(|(field, _)| !matches!(field.as_str(), "interface" | "step"));
    let fields: Vec<_> = fields
        .map(|(field, value)| match value {
            Value::Bool(true) => field.clone(),
            value => format!("{field} {}", display_value(value)),
        })
        .collect();
    match fields.is_empty() {
        true => names.join("."),
        false => format!("{} ({})", names.join("."), fields.join(", ")),
    }
}
