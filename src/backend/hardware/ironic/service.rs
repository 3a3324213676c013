//! The service of a machine in use: steps of Ironic's firmware and BIOS interfaces, or a runbook of the site, and a second
//! reading.
//!
//! That Ironic calls a service ended is not believed: only values that are read after it count. If they are not as wanted,
//! all is tried once more, and then the step fails. A service that fails leaves the machine in a state of its own; the step
//! brings it back to active, and fails. Asked for twice, the same values do no harm; a service that runs is waited for.

use serde_json::{Value, json};

use super::mark;
use super::node::Node;
use super::steps::NodeSteps;
use super::versions::of_service;
use crate::backend::hardware::driver::Result;
use crate::backend::hardware::provided::{Changes, Provided};
use crate::backend::hardware::service::{TRIES, ended, missing, settings, unchanged};
use crate::backend::{ActError, Probe};
use crate::design::HardwareSetting;
use crate::lifecycle::{PowerState, ProvisionState, Verb};

/// The `fault` that Ironic sets if a step of a service failed and it put the node into maintenance itself.
const SERVICE_FAILURE: &str = "service failure";

impl NodeSteps<'_> {
    fn settings(&self) -> &[HardwareSetting] {
        settings(self.task.order)
    }

    async fn values(&self, node: &Node) -> Result<Provided> {
        let names = self.settings().iter().map(|each| each.name.clone());
        let names: Vec<_> = names.collect();
        let api = &self.ironic().api;
        Ok(api.values(&self.task.subject, &node.uuid, &names).await?)
    }

    /// How far a service is: its values are read.
    pub(super) async fn probe_service(&self, node: &Node) -> Probe {
        let is_begun = mark::has_moved(self.task.order, node);
        if !node.is_idle() {
            return match mark::is_ours(self.task.order, node) {
                true => Probe::UnderWay,
                false => Probe::NotBegun,
            };
        }
        let values = match self.values(node).await {
            Ok(values) => values,
            Err(error) => return Probe::Ambiguous(error.to_string().into()),
        };
        let is_true = missing(self.settings(), &values.seen).is_empty();
        let runs = node.state() == ProvisionState::Active && node.power() != Some(PowerState::Off);
        match (is_true && runs, is_begun) {
            (true, _) => Probe::Done,
            (false, true) => Probe::UnderWay,
            (false, false) => Probe::NotBegun,
        }
    }

    /// Brings the values of the step true, and reads them a second time.
    pub(super) async fn service(&self) -> Result<()> {
        let task = &self.task;
        let mut node = task.settled(task.known().await?).await?;
        for _ in 0..TRIES {
            if node.state() == ProvisionState::ServiceFailed && mark::is_ours(task.order, &node) {
                let failed = task.permanent(format!("`service` ended in {}", node.failed()));
                return Err(self.back_to_active(node, failed).await);
            }
            let values = self.values(&node).await?;
            if node.state() == ProvisionState::Active
                && missing(self.settings(), &values.seen).is_empty()
            {
                return self.runs(node).await;
            }
            task.gate(&node, Verb::Service)?;
            if node.state() == ProvisionState::ServiceFailed {
                return Err(task.permanent(format!(
                    "is {}; this step did not begin that service: bring the machine back to active in Ironic first (`abort`)",
                    node.failed()
                )));
            }
            let body = self.asked(&values).await?;
            node = self.mark(node, Vec::new()).await?;
            node = match task.ask(node, Verb::Service, body).await {
                Ok(node) => node,
                Err(error @ ActError::Permanent(_)) => {
                    let node = task.known().await?;
                    return Err(self.back_to_active(node, error).await);
                }
                Err(error) => return Err(error),
            };
            task.report("reading all values again");
        }
        let values = self.values(&node).await?;
        let left = missing(self.settings(), &values.seen);
        if left.is_empty() {
            return self.runs(node).await;
        }
        let left = left.into_iter();
        let left: Vec<(&HardwareSetting, _)> = left
            .map(|each| (each, values.seen.get(&each.name).cloned()))
            .collect();
        Err(task.permanent(unchanged(TRIES, &left, &[])))
    }

    /// The body of a request that brings true what is not; nothing is asked of Ironic before all of it is judged.
    async fn asked(&self, values: &Provided) -> Result<Value> {
        let task = &self.task;
        let ironic = self.ironic();
        // The one of the plan, which was reviewed.
        let runbook = task.given().runbook().as_deref();
        let is_named = ironic.settings.runbook.is_some();
        let lacking = ironic.api.lacks(of_service(is_named || runbook.is_some()));
        if let Some(refusal) = lacking.await? {
            return Err(task.permanent(refusal));
        }
        if runbook.is_none() && is_named {
            return Err(task.permanent(match ironic.runbook_of(task.node) {
                Err(refusal) => refusal,
                Ok(_) => "its plan names no runbook, and the settings do: plan again".to_owned(),
            }));
        }
        if let Some(runbook) = runbook {
            return Ok(json!({ "runbook": runbook }));
        }
        let mut changes = Changes::default();
        for each in missing(self.settings(), &values.seen) {
            let wanted = (&*each.name, &*each.value);
            let added = values.add(&mut changes, task.node, wanted, "Ironic");
            added.map_err(|refusal| {
                task.permanent(format!("`{}` cannot be changed: {refusal}", each.name))
            })?;
        }
        Ok(json!({ "service_steps": steps_of(&changes) }))
    }

    /// Brings a machine whose service failed back to active, where this step began it; one that runs is Ironic's to end.
    pub(super) async fn take_back(&self) -> Result<Probe> {
        let task = &self.task;
        let Some(node) = task.look().await? else {
            return Ok(Probe::NotBegun);
        };
        if !mark::is_ours(task.order, &node) {
            return ended(self.probe_service(&node).await);
        }
        match node.state() {
            ProvisionState::ServiceFailed => self.activate(node).await?,
            ProvisionState::Servicing
            | ProvisionState::ServiceWait
            | ProvisionState::ServiceHold => {
                let state = node.failed();
                return Err(task.permanent(format!("is {state}: that service continues in Ironic")));
            }
            _ if node.is_idle() => {}
            _ => {
                let text = "Ironic is at work on it: how far its service is cannot be read";
                return Err(task.permanent(text));
            }
        }
        ended(self.probe_service(&task.known().await?).await)
    }

    async fn activate(&self, node: Node) -> Result<()> {
        let task = &self.task;
        // Only the maintenance that the failure itself has set ends with it.
        let node = match node.fault.as_deref() == Some(SERVICE_FAILURE) {
            true => task.maintain(node, None).await?,
            false => node,
        };
        let node = task.ask(node, Verb::Abort, json!({})).await?;
        self.runs(node).await
    }

    /// Brings a machine whose service failed back to active: the failure, and its outcome.
    async fn back_to_active(&self, node: Node, failed: ActError) -> ActError {
        if node.state() != ProvisionState::ServiceFailed {
            return failed;
        }
        match self.activate(node).await {
            Ok(()) => {
                ActError::Permanent(format!("{failed}; it was brought back to active").into())
            }
            Err(error) => ActError::Permanent(
                format!("{failed}; and it could not be brought back to active: {error}").into(),
            ),
        }
    }
}

/// The steps of a service, updates before settings.
fn steps_of(changes: &Changes) -> Value {
    let mut steps = Vec::new();
    if !changes.updates.is_empty() {
        let updates = changes.updates.iter();
        let updates =
            updates.map(|(component, url)| json!({"component": component, "url": &**url}));
        let updates: Vec<Value> = updates.collect();
        steps.push(
            json!({"interface": "firmware", "step": "update", "args": {"settings": updates}}),
        );
    }
    if !changes.attributes.is_empty() {
        let settings = changes.attributes.iter();
        let settings = settings.map(|(name, value)| json!({"name": name, "value": value}));
        let settings: Vec<Value> = settings.collect();
        steps.push(json!({"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}}));
    }
    Value::Array(steps)
}
