//! The input of rules: a document of its own, with a version of its own.
//!
//! Rules read fields by their names, and a field that is missing makes a rule silently false. So the input does not
//! follow the file format of plans: its shape is that of `schemas/policy-input.json`, to which fields may be added.
//! Where one goes, is renamed or means something else, [`VERSION`] is raised, and rules that were written for another
//! version are refused.

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::plan::{Plan, PlanEffect, saved};

/// The version of the input.
pub const VERSION: u32 = 1;

/// The version that a package is written for if it states none: the first.
pub(super) const UNSTATED: u32 = 1;

/// The rule of a package by which it states the version that it is written for.
pub(super) const STATEMENT: &str = "input_version";

/// The input of the rules that judge a plan, as JSON.
#[must_use]
pub fn write(plan: &Plan) -> String {
    // All of a plan is text, numbers, lists and maps with text as keys, which JSON can always hold.
    serde_json::to_string(&PolicyInput(plan)).unwrap_or_default()
}

struct PolicyInput<'a>(&'a Plan);

impl Serialize for PolicyInput<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plan = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &VERSION)?;
        map.serialize_entry("site", &plan.site)?;
        map.serialize_entry("action", &plan.request.action)?;
        map.serialize_entry("request", &saved::request_details(plan))?;
        map.serialize_entry("effect", &PlanEffect::of(plan).digest())?;
        map.serialize_entry("target", &plan.target)?;
        map.serialize_entry("base", &plan.base)?;
        map.serialize_entry("options", &plan.options)?;
        map.serialize_entry("intermediate_commits", &plan.intermediate_commits)?;
        map.serialize_entry("history", &plan.history)?;
        if let Some(run) = &plan.unfinished {
            map.serialize_entry("unfinished_run", run)?;
        }
        if let Some(way) = &plan.way_back {
            map.serialize_entry("way_back", way)?;
        }
        map.serialize_entry("summary", &plan.summary)?;
        map.serialize_entry("notices", &plan.notices)?;
        map.serialize_entry("warnings", &plan.warnings)?;
        map.serialize_entry("guards", &plan.guards)?;
        map.serialize_entry("approvals", &plan.approvals)?;
        map.serialize_entry("unchanged", &plan.unchanged)?;
        map.serialize_entry("changes", &plan.changes)?;
        map.serialize_entry("groups", &plan.groups)?;
        map.serialize_entry("steps", &saved::WrittenSteps(&plan.steps))?;
        map.serialize_entry("relies_on", &plan.relies_on)?;
        map.serialize_entry("forecast", &plan.forecast)?;
        map.end()
    }
}
