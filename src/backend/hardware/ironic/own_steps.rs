//! Which clean steps Ironic runs by itself, and in which order.
//!
//! Its API shows them only while it cleans, on the node. So the
//! list is written down beside the node when a cleaning has ended, for the next plan to show, and for a
//! retired machine, which is never provided, to be erased by a step that it is known to have.

use std::sync::Arc;

use serde_json::{Value, json};

use super::api::Api;
use super::node::{LONGEST_STEP, MOST_STEPS, Node, STEPS};
use super::raid;
use super::versions::Feature;
use crate::backend::http::plain;
use crate::backend::{ActError, Order};
use crate::design::Raid;
use crate::lifecycle::Verb;
use crate::step::DeployStep;

/// The steps of a running cleaning of Ironic's own, as far as it shows them.
#[derive(Debug, Default)]
pub(super) struct OwnSteps(Option<Value>);

impl OwnSteps {
    /// Asks once which steps Ironic runs.
    pub(super) async fn look(&mut self, api: &Api, subject: &str, node: &Node) {
        if self.0.is_some() {
            return;
        }
        // A failure to observe may pass by the next poll.
        if let Ok(Some(steps)) = api.cleaning_steps(subject, &node.uuid).await {
            self.0 = written(&steps);
        }
    }

    /// The change that stores the steps that Ironic has run, if they were observed and are not stored
    /// already.
    pub(super) fn operation(self, node: &Node) -> Option<Value> {
        let steps = self.0?;
        (node.extra.get(STEPS) != Some(&steps))
            .then(|| json!({"op": "add", "path": format!("/extra/{STEPS}"), "value": steps}))
    }
}

/// The steps of a deploy besides Ironic's own, as its API has them.
pub(super) async fn of_design(
    api: &Api,
    subject: &str,
    (order, raid): (&Order, Option<&Raid>),
) -> Result<Vec<Value>, ActError> {
    let permanent = |why: String| ActError::Permanent(Arc::from(format!("{subject}: {why}")));
    let steps = order.step.given().deploy_steps();
    if !steps.is_empty()
        && let Some(why) = api.lacks(Feature::DeploySteps).await?
    {
        return Err(permanent(why));
    }
    let written = steps.iter().map(|step| {
        let args = arguments(&step.name(), step.arguments.as_deref())?;
        let args = args.unwrap_or_else(|| json!({}));
        Ok(json!({"interface": step.interface, "step": step.step, "priority": step.priority, "args": args}))
    });
    let written: Result<Vec<Value>, String> = written.collect();
    let mut written = written.map_err(permanent)?;
    if let Some(raid) = raid {
        if let Some(why) = api.lacks(Feature::Raid).await? {
            return Err(permanent(why));
        }
        if raid.hot_spares.is_some() {
            return Err(permanent(raid::NO_SPARES.to_owned()));
        }
        written.push(raid::step(raid));
    }
    Ok(written)
}

/// Which deploy steps of the design Ironic leaves out of a deploy: what no interface of a machine offers, it
/// takes for a step of an agent that is still to come, and forgets.
pub(super) struct LeftOut {
    /// Those that were in no list yet.
    missing: Vec<String>,
    /// Whether a list was observed.
    seen: bool,
}

impl LeftOut {
    pub(super) fn of(verb: Verb, order: &Order) -> Self {
        let given = order.step.given();
        let (steps, makes_raid) = match verb {
            Verb::Deploy => (&**given.deploy_steps(), !given.settings().is_empty()),
            _ => (&[][..], false),
        };
        let runs = steps.iter().filter(|step| step.priority > 0);
        let runs = runs.map(DeployStep::name);
        Self {
            missing: runs
                .chain(makes_raid.then(|| raid::STEP.to_owned()))
                .collect(),
            seen: false,
        }
    }

    /// Reads the list of a node that is being deployed, as long as a step is in none.
    pub(super) async fn look(&mut self, api: &Api, subject: &str, node: &Node) {
        if self.missing.is_empty() {
            return;
        }
        let listed = api.running_steps(subject, &node.uuid, "deploy_steps");
        // A failure to observe may pass by the next poll.
        if let Ok(Some(listed)) = listed.await {
            self.seen = true;
            self.missing.retain(|step| !listed.contains(step));
        }
    }

    /// # Errors
    ///
    /// The deploy ended, and a step was never in its list.
    pub(super) fn check(&self, subject: &str, order: &Order) -> Result<(), ActError> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let missing = self.missing.join(", ");
        if !self.seen {
            let text = format!("it was not seen whether Ironic ran {missing}");
            order.reporter.progress(text);
            return Ok(());
        }
        let text = format!(
            "{subject}: Ironic has deployed it without {missing}, and without saying so: no interface of the machine offers that"
        );
        Err(ActError::Permanent(Arc::from(text)))
    }
}

/// The arguments of a step, which plans and records hold as compact JSON.
pub(super) fn arguments(step: &str, arguments: Option<&str>) -> Result<Option<Value>, String> {
    let parsed = arguments.map(serde_json::from_str).transpose();
    parsed.map_err(|error| format!("the arguments of `{step}` are no JSON: {error}"))
}

/// Ironic's list as it is written down: in its order, names and priorities only.
fn written(steps: &Value) -> Option<Value> {
    let steps = steps.as_array()?.iter().take(MOST_STEPS);
    let step = |step: &Value| {
        let text = |name: &str| {
            step.get(name)?
                .as_str()
                .map(|text| plain(text, LONGEST_STEP))
        };
        Some(json!({
            "interface": text("interface")?,
            "step": text("step")?,
            "priority": step.get("priority").and_then(Value::as_u64).unwrap_or(0),
        }))
    };
    Some(Value::Array(steps.filter_map(step).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::node::offered;
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
