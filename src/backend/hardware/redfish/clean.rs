//! Clean steps of trueup's own, as far as a controller offers them (ironic-cleaning).

use std::sync::Arc;

use super::inventory::built;
use super::machine::Machine;
use super::notes::{Note, RequestState, state};
use super::resource::Resource;
use crate::backend::{ActError, Order};
use crate::design::{NodeDesign, WipePolicy};
use crate::lifecycle::in_order;
use crate::step::clean_step_begins;

/// The step that erases drives.
pub(super) const ERASE: &str = "deploy.erase_devices";

/// The steps that only compare a machine with its hardware profile.
const COMPARISONS: [&str; 2] = ["management.verify_properties", "firmware.verify_firmware"];

impl Machine<'_> {
    /// Runs the steps that are named, or the automated ones in their order.
    pub(super) async fn clean(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        if order.step.given().clean_steps().is_empty() {
            for name in self.automated_steps(node).await? {
                self.clean_step(order, node, &name, None).await?;
            }
        }
        self.clean_as_planned(order, node).await
    }

    /// Runs the steps that the order names, in their order; none if it names none.
    pub(super) async fn clean_as_planned(
        &self,
        order: &Order,
        node: &NodeDesign,
    ) -> Result<(), ActError> {
        for step in order.step.given().clean_steps() {
            self.clean_step(order, node, &step.name(), step.arguments.as_deref())
                .await?;
        }
        Ok(())
    }

    async fn automated_steps(&self, node: &NodeDesign) -> Result<Vec<String>, ActError> {
        let system = self.read_system().await?;
        let offered = self.observe(node, system).await?.clean_steps;
        match in_order(&offered, &self.backend.priorities(node)) {
            Ok(steps) => Ok(steps.iter().map(|step| step.name()).collect()),
            Err(tie) => self.refuse(&tie.to_string()),
        }
    }

    /// Runs a step that was not run to its end before; that it begins is noted first.
    async fn clean_step(
        &self,
        order: &Order,
        node: &NodeDesign,
        name: &str,
        arguments: Option<&str>,
    ) -> Result<(), ActError> {
        let what = format!("clean {name}");
        if state(&order.notes, &what) == RequestState::Done {
            return Ok(());
        }
        order.reporter.note(clean_step_begins(name)).await?;
        order.reporter.progress(format!("clean step {name}"));
        self.run_clean_step(order, node, name, arguments).await?;
        let what = Arc::from(what);
        self.note(order, Note::Done { what }).await
    }

    async fn run_clean_step(
        &self,
        order: &Order,
        node: &NodeDesign,
        name: &str,
        arguments: Option<&str>,
    ) -> Result<(), ActError> {
        match name {
            ERASE => {
                let drives = self.drives_to_erase(order, WipePolicy::Require).await?;
                self.erase(order, &drives).await
            }
            "bios.reset_bios" => self.reset_bios(order).await,
            "bios.apply_bios_settings" => self.apply_bios_settings(order, node, arguments).await,
            name if COMPARISONS.contains(&name) => self.verify(node, name).await,
            _ => self.refuse(&format!("it does not offer the clean step `{name}`")),
        }
    }

    /// Refuses a machine that the comparisons of a later teardown would refuse: it is told before it is deployed, not
    /// when it is to be torn down.
    pub(super) fn check_comparisons(
        &self,
        system: &Resource,
        node: &NodeDesign,
    ) -> Result<(), ActError> {
        let policy = self.backend.cleaning_of(node);
        if policy.is_some_and(|policy| !policy.automated) {
            return Ok(());
        }
        let is_off = |step: &str| policy.is_some_and(|it| it.priorities.get(step) == Some(&0));
        let mut steps = COMPARISONS.into_iter().filter(|step| !is_off(step));
        match steps.find_map(|step| built(system).fails(step, node)) {
            Some(why) => self.refuse(&format!(
                "{why}: correct the profile, since its clean steps would refuse the machine at every teardown"
            )),
            None => Ok(()),
        }
    }

    /// Compares it with its hardware profile. That it is the machine of the document was proven before the step began.
    async fn verify(&self, node: &NodeDesign, step: &str) -> Result<(), ActError> {
        let system = self.read_system().await?;
        match built(&system).fails(step, node) {
            Some(why) => self.refuse(&why),
            None => Ok(()),
        }
    }
}
