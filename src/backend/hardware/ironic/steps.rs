//! Which clean steps Ironic runs by itself, and in which order.
//!
//! No request of its API says so before it cleans: only while it does, the node shows the list. So the
//! list is written down beside the node when a cleaning has ended, for the next plan to show, and for a
//! retired machine, which is never provided, to be erased by a step that it is known to have.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::node::Node;
use super::verbs::Mover;
use crate::backend::http::plain;
use crate::backend::{ActError, Order};
use crate::lifecycle::{CleanInterface, OfferedStep, Verb};
use crate::step::DeployStep;

/// Under which key of `extra` the steps are that Ironic ran when it last cleaned the node by itself.
pub(super) const STEPS: &str = "trueup_clean_steps";

/// Most steps of one node that are written down.
const MOST: usize = 100;

/// The version since which Ironic takes deploy steps with a deploy.
const DEPLOY_STEPS: u32 = 69;

/// Longest name of a step that is shown.
const LONGEST: usize = 60;

/// The steps of the cleaning that goes on, as far as they were seen.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Option<Value>>);

/// What a deploy runs besides the steps of Ironic's own, as its API has it.
pub(super) async fn of_design(mover: &Mover<'_>) -> Result<Vec<Value>, ActError> {
    let parameters = mover.order.step.parameters.as_ref();
    let steps = parameters.map_or(&[][..], |each| &each.deploy_steps);
    if !steps.is_empty() && !mover.backend.api.speaks(DEPLOY_STEPS).await? {
        let why = format!("deploy steps need version 1.{DEPLOY_STEPS} of Ironic's API");
        return Err(mover.permanent(why));
    }
    let written = steps.iter().map(|step| {
        let args = arguments(&step.name(), step.arguments.as_deref())?;
        let args = args.unwrap_or_else(|| json!({}));
        Ok(json!({"interface": step.interface, "step": step.step, "priority": step.priority, "args": args}))
    });
    let written: Result<_, String> = written.collect();
    written.map_err(|why| mover.permanent(why))
}

/// Which deploy steps of the design Ironic leaves out of a deploy: what no interface of a machine offers, it
/// takes for a step of an agent that is still to come, and forgets.
pub(super) struct LeftOut {
    /// Those that were in no list yet.
    missing: Vec<String>,
    /// Whether a list was seen.
    seen: bool,
}

impl LeftOut {
    pub(super) fn of(verb: Verb, order: &Order) -> Self {
        let parameters = order.step.parameters.as_ref();
        let steps = parameters.filter(|_| verb == Verb::Deploy);
        let steps = steps.map_or(&[][..], |all| &all.deploy_steps);
        let runs = steps.iter().filter(|step| step.priority > 0);
        Self {
            missing: runs.map(DeployStep::name).collect(),
            seen: false,
        }
    }

    /// Looks at the list of a node that is being deployed, as long as a step is in none.
    pub(super) async fn see(&mut self, mover: &Mover<'_>, node: &Node) {
        if self.missing.is_empty() {
            return;
        }
        let api = &mover.backend.api;
        let listed = api.running_steps(&mover.subject, &node.uuid, "deploy_steps");
        // What cannot be seen now may be seen at the next look.
        if let Ok(Some(listed)) = listed.await {
            self.seen = true;
            self.missing.retain(|step| !listed.contains(step));
        }
    }

    /// # Errors
    ///
    /// The deploy ended, and a step was never in its list.
    pub(super) fn check(&self, mover: &Mover<'_>) -> Result<(), ActError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let missing = self.missing.join(", ");
        if !self.seen {
            mover.say(format!("it was not seen whether Ironic ran {missing}"));
            return Ok(());
        }
        Err(mover.permanent(format!(
            "Ironic has deployed it without {missing}, and without saying so: no interface of the machine offers that"
        )))
    }
}

/// The arguments of a step, which plans and records hold as compact JSON.
pub(super) fn arguments(step: &str, arguments: Option<&str>) -> Result<Option<Value>, String> {
    let parsed = arguments.map(serde_json::from_str).transpose();
    parsed.map_err(|error| format!("the arguments of `{step}` are no JSON: {error}"))
}

impl Mover<'_> {
    /// Looks once at which steps Ironic runs in a cleaning of its own.
    pub(super) async fn see_steps(&self, node: &Node) {
        let lock = || self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lock().is_some() {
            return;
        }
        // What cannot be seen now may be seen at the next look.
        let api = &self.backend.api;
        if let Ok(Some(steps)) = api.cleaning_steps(&self.subject, &node.uuid).await
            && let Some(written) = written(&steps)
        {
            *lock() = Some(written);
        }
    }

    /// Writes down which steps Ironic has run, where it was seen and is not written down already. That it
    /// cannot be written is no failure of the cleaning.
    pub(super) async fn keep_steps(&self, node: Node) -> Node {
        let seen = {
            let mut seen = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
            seen.take()
        };
        let Some(steps) = seen.filter(|steps| node.extra.get(STEPS) != Some(steps)) else {
            return node;
        };
        let operation = json!({"op": "add", "path": format!("/extra/{STEPS}"), "value": steps});
        match self.patch(node.clone(), None, vec![operation], None).await {
            Ok(node) => node,
            Err(error) => {
                self.say(format!(
                    "its clean steps could not be written down: {error}"
                ));
                node
            }
        }
    }
}

/// Ironic's list as it is written down: in its order, names and priorities only.
fn written(steps: &Value) -> Option<Value> {
    let steps = steps.as_array()?.iter().take(MOST);
    let step = |step: &Value| {
        let text = |name: &str| step.get(name)?.as_str().map(|text| plain(text, LONGEST));
        Some(json!({
            "interface": text("interface")?,
            "step": text("step")?,
            "priority": step.get("priority").and_then(Value::as_u64).unwrap_or(0),
        }))
    };
    Some(Value::Array(steps.filter_map(step).collect()))
}

/// The steps that were written down, in the order in which Ironic ran them.
pub(super) fn offered(extra: &Value) -> Vec<OfferedStep> {
    let written = extra.get(STEPS).and_then(Value::as_array);
    let steps = written.into_iter().flatten().take(MOST);
    let step = |step: &Value| {
        let text = |name: &str| step.get(name)?.as_str().map(|text| plain(text, LONGEST));
        let interface = CleanInterface::of(&text("interface")?)?;
        let name = text("step")?;
        let priority = step.get("priority").and_then(Value::as_u64).unwrap_or(0);
        Some(OfferedStep {
            interface,
            erases: interface == CleanInterface::Deploy && name.starts_with("erase_devices"),
            step: Arc::from(name),
            priority: u32::try_from(priority).unwrap_or(u32::MAX),
            abortable: false,
        })
    };
    steps.filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ironic_ran_is_written_down_in_its_order_and_read_again_whatever_is_beside_it() {
        let shown = json!([
            {"interface": "vendor", "step": "log_passthrough", "priority": 99, "abortable": false, "argsinfo": null},
            {"interface": "deploy", "step": "erase_devices_metadata", "priority": 99},
            {"interface": "deploy", "step": 7},
            {"interface": "nosuch", "step": "a", "priority": 3},
            {"interface": "deploy", "step": "erase_devices", "priority": "high"},
        ]);
        let extra = json!({ STEPS: written(&shown).unwrap() });
        let steps = offered(&extra);
        let told: Vec<_> = steps
            .iter()
            .map(|step| (step.name(), step.priority, step.erases))
            .collect();
        assert_eq!(
            told,
            [
                ("vendor.log_passthrough".to_owned(), 99, false),
                ("deploy.erase_devices_metadata".to_owned(), 99, true),
                ("deploy.erase_devices".to_owned(), 0, true),
            ]
        );
        assert!(offered(&json!({STEPS: "x"})).is_empty() && written(&json!(null)).is_none());
    }
}
