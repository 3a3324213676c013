//! The steps of a deploy besides its own (`platform.deploy_steps`): BIOS settings, RAID, firmware.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::item::Item;
use crate::design::{NodeDesign, Section};
use crate::document::from_node;
use crate::step::DeployStep;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    interface: Arc<str>,
    step: Arc<str>,
    priority: u32,
    #[serde(default)]
    args: Map<String, Value>,
}

/// Takes the deploy steps of the design into what is done to a machine, and blocks what makes no sense.
pub(super) fn take(mut item: Item<'_>) -> Item<'_> {
    let Some(design) = item.subject.after.filter(|_| item.work.deploy) else {
        return item;
    };
    let steps = match of(design) {
        Ok(steps) if steps.is_empty() => return item,
        Ok(steps) => steps,
        Err(why) => {
            item.block(&why, None);
            return item;
        }
    };
    for step in &steps {
        let arguments = step.arguments.as_deref().unwrap_or_default();
        let (name, priority) = (step.name(), step.priority);
        let line = format!("deploy step {name} {arguments}");
        item.because(format!("{} (priority {priority})", line.trim_end()));
    }
    item.work.deploy_steps = Some(Arc::from(steps));
    item
}

/// The deploy steps of a machine's design.
fn of(design: &NodeDesign) -> Result<Vec<DeployStep>, String> {
    let section = design.sections.get(&Section::OperatingSystem);
    let written = section.and_then(|section| section.at(&["platform", "deploy_steps"]));
    let Some(written) = written.filter(|written| !written.is_null()) else {
        return Ok(Vec::new());
    };
    let written: Vec<Written> = from_node(written).map_err(|mismatch| {
        format!(
            "its `platform.deploy_steps` make no sense: {}",
            mismatch.message
        )
    })?;
    let step = |written: Written| DeployStep {
        interface: written.interface,
        step: written.step,
        priority: written.priority,
        arguments: (!written.args.is_empty())
            .then(|| Arc::from(Value::Object(written.args).to_string())),
    };
    Ok(written.into_iter().map(step).collect())
}
