//! Why a change is blocked, and the flag that allows it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Options;

/// Why a change is not carried out, and the flag that allows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Why, one sentence.
    pub reason: Arc<str>,
    /// The flag that allows it (`--allow-redeploy n4`); `None` if none does.
    pub flag: Option<Arc<str>>,
    /// The kind of refusal, for scripts.
    #[serde(default, skip_serializing_if = "Cause::is_rule")]
    pub cause: Cause,
}

/// The kind of refusal that blocks a change.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A rule forbids it now.
    #[default]
    Rule,
    /// A fact that it depends on could not be read.
    Unreadable,
    /// An etcd cluster would not bear it.
    Etcd,
    /// The policy or the provisioner protects the machine.
    Protected,
}

impl Cause {
    /// Whether a rule forbids it.
    #[must_use]
    pub fn is_rule(&self) -> bool {
        *self == Self::Rule
    }
}

impl Block {
    /// Takes the flag away that a policy forbids.
    pub(super) fn hold_to(&mut self, forbidden: &BTreeSet<Arc<str>>) {
        let words = self.flag.as_deref().unwrap_or_default().split(' ');
        let mut flags = words.filter_map(|word| word.strip_prefix("--"));
        if let Some(flag) = flags.find(|flag| forbidden.contains(*flag)) {
            self.reason = format!("{}; the policy forbids `--{flag}`", self.reason).into();
            self.flag = None;
        }
    }

    /// The reason, about one machine or about each of several.
    #[must_use]
    pub fn reason_for(&self, nodes: usize) -> Cow<'_, str> {
        match self.reason.strip_prefix("it ") {
            Some(rest) if nodes > 1 => Cow::Owned(format!("each {rest}")),
            _ => Cow::Borrowed(&self.reason),
        }
    }

    /// How to allow changes that are alike, if a flag does: as the plan gives it for one node, for more with what it can be given.
    #[must_use]
    pub fn way_out(&self, nodes: usize) -> Option<String> {
        let flag = self.flag.as_deref()?;
        if nodes == 1 {
            return Some(format!("allow it with {flag}"));
        }
        Some(match flag.split_once([' ', '=']) {
            None => format!("allow them with {flag}"),
            Some((name, _)) if Options::takes_all(name) => {
                format!("allow them with {name} NODE, or all")
            }
            Some((name, _)) => format!("allow them with {name} NODE for each"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_but_a_rule_is_written_and_read_back() {
        let causes = [
            (Cause::Rule, None),
            (Cause::Unreadable, Some("unreadable")),
            (Cause::Etcd, Some("etcd")),
            (Cause::Protected, Some("protected")),
        ];
        for (cause, written) in causes {
            let block = Block {
                reason: Arc::from("why"),
                flag: None,
                cause,
            };
            let value = serde_json::to_value(&block).unwrap();
            let found = value.get("cause").and_then(serde_json::Value::as_str);
            assert_eq!(found, written);
            assert_eq!(serde_json::from_value::<Block>(value).unwrap(), block);
        }
    }
}
