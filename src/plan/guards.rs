//! The guards that a plan is held to, and what of them its documents and flags make weaker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{Action, Exceeded, Options};
use crate::design::{NodeName, WindowList};
use crate::diagnostic::short_id;
use crate::guard::{self, GuardFiles, Guarded, PlaceLimit, Subject};
use crate::step::Step;

/// The guards of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanGuards {
    /// The commit whose guards are in force, and hold beside those of the documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<Arc<str>>,
    /// It puts the guards of its documents in force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes: bool,
    /// The guards that hold as they are in force, and are weaker in the documents.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub stricter_in_force: BTreeSet<Arc<str>>,
    /// The guards that become weaker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loosened: Vec<Loosened>,
    /// The limits on what one plan reaches that it exceeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exceeded: Vec<Exceeded>,
    /// The limits on machines out of service that its run holds: a machine that does not come back keeps its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceLimit>,
    /// The resolved guards by name, as far as they are about nodes that have steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<Arc<str>, Value>,
}

/// A guard that becomes weaker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loosened {
    /// The name of the guard.
    pub guard: Arc<str>,
    /// The flag by which it becomes so; `None`: the documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<Arc<str>>,
    /// How.
    pub how: Arc<str>,
}

/// The guards that a plan is made under, beside those of its design.
#[derive(Clone, Debug, Default)]
pub struct GuardBasis {
    /// The commit whose guards are in force.
    pub in_force: Option<Arc<str>>,
    /// The guards that hold as they are in force, and are weaker in the revision beside it.
    pub stricter_in_force: BTreeSet<Arc<str>>,
    /// Whether the guards that the plan would put in force are others than those that are.
    pub differ: bool,
    /// Those of them that are weaker.
    pub loosened: Vec<Loosened>,
    /// The files that guard beside the documents.
    pub files: GuardFiles,
}

impl GuardBasis {
    /// The way out for a refusal by some guards, if they are weaker in the documents than in force.
    #[must_use]
    pub fn way_out(&self, guards: &[&str]) -> Option<String> {
        way_out(self.in_force.as_deref(), &self.stricter_in_force, guards)
    }
}

fn way_out(
    in_force: Option<&str>,
    stricter: &BTreeSet<Arc<str>>,
    guards: &[&str],
) -> Option<String> {
    let stricter = stricter.iter();
    let stricter = stricter.filter(|guard| guards.contains(&&***guard));
    let names: Vec<String> = stricter.map(|guard| format!("`{guard}`")).collect();
    let commit = short_id(in_force.filter(|_| !names.is_empty())?);
    Some(format!(
        "commit {commit}, whose guards are in force, is stricter than the documents in {}: `trueup apply guards` puts those of the documents in force",
        names.join(", ")
    ))
}

impl PlanGuards {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The guards of a plan with these steps.
    pub fn of(
        action: Action,
        options: &Options,
        site: &Guarded,
        basis: &GuardBasis,
        steps: &[Step],
    ) -> Self {
        // Other actions put no guard in force, and are under some of the newest documents all the same.
        let puts_in_force = matches!(action, Action::Update | Action::Guards);
        let has = |kind| steps.iter().any(|step| step.id.kind == kind);
        let mut loosened = basis.loosened.clone();
        loosened.retain(|each| puts_in_force || guard::is_weaker_at_once(&each.guard, &has));
        loosened.extend(options.loosened(&site.guards().policy));
        let nodes: BTreeSet<&NodeName> = steps
            .iter()
            .filter_map(|step| step.id.node.as_ref())
            .collect();
        let subject = Subject {
            guards: site.guards(),
            design: site,
            files: &basis.files,
            nodes: (action != Action::Guards).then_some(&nodes),
            against: None,
        };
        Self {
            in_force: basis.in_force.clone(),
            changes: action == Action::Guards && basis.differ,
            stricter_in_force: match action == Action::Guards {
                true => BTreeSet::new(),
                false => basis.stricter_in_force.clone(),
            },
            loosened,
            exceeded: Vec::new(),
            places: Vec::new(),
            values: guard::values(&subject),
        }
    }

    /// Writes what counts in an effect: which commit's guards are in force is not among it.
    pub(super) fn write_effect<S: Serializer>(
        guards: &&Self,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let (loosened, exceeded) = (&guards.loosened, &guards.exceeded);
        match exceeded.is_empty() {
            true => (guards.changes, loosened, &guards.values).serialize(serializer),
            false => (guards.changes, loosened, &guards.values, exceeded).serialize(serializer),
        }
    }

    /// The maintenance windows that it is held to.
    #[must_use]
    pub fn maintenance_windows(&self) -> Vec<WindowList> {
        let value = self.values.get("maintenance_windows");
        value.map_or_else(Vec::new, guard::maintenance_windows_of)
    }

    /// Whether the policy forbids a flag, which is named without its dashes.
    #[must_use]
    pub fn forbid(&self, flag: &str) -> bool {
        let forbidden = self.values.get("forbidden_flags");
        let names = forbidden.and_then(Value::as_array).into_iter().flatten();
        names.into_iter().any(|name| name == flag)
    }

    /// The guards that its documents make weaker.
    pub fn loosened_by_documents(&self) -> impl Iterator<Item = &Loosened> {
        self.loosened.iter().filter(|each| each.flag.is_none())
    }

    /// The way out for a refusal by some guards, if they are weaker in the documents than in force.
    #[must_use]
    pub fn way_out(&self, guards: &[&str]) -> Option<String> {
        way_out(self.in_force.as_deref(), &self.stricter_in_force, guards)
    }

    /// The guards that are weaker here than in others, or become weaker only here; `takes`: whether the plan has a step on a
    /// node. Others that protect more nodes protect none of its own more.
    pub(super) fn looser_than(&self, other: &Self, takes: &dyn Fn(&str) -> bool) -> Vec<String> {
        let reviewed = guard::about(&other.values, takes);
        let weaker = guard::weaker(&reviewed, &self.values).into_iter();
        let weaker = weaker.map(|(guard, how)| format!("guard `{guard}` is weaker: {how}"));
        let more = self
            .loosened
            .iter()
            .filter(|each| !other.loosened.contains(each));
        let more = more.map(|each| match &each.flag {
            Some(flag) => format!("`--{flag}` loosens guard `{}`: {}", each.guard, each.how),
            None => format!("the documents loosen guard `{}`: {}", each.guard, each.how),
        });
        let known = |each: &&Exceeded| {
            let mut known = other.exceeded.iter();
            known.any(|old| {
                (old.rung, &old.limit) == (each.rung, &each.limit) && old.reached >= each.reached
            })
        };
        let further = self.exceeded.iter().filter(|each| !known(each));
        let further = further.map(|each| format!("it reaches {each}"));
        weaker.chain(more).chain(further).collect()
    }
}
