//! Taking a system off a machine: erased once, switched off, and out of MAAS if it has left the design.

use super::api::{Fields, field};
use super::event::{Once, Trace};
use super::machine::{Machine, status};
use super::steps::{LEAVING, MachineSteps};
use crate::backend::hardware::driver::Result;
use crate::lifecycle::{PowerState, ProvisionState as S, Verb};

/// The disks that a release erases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wipe {
    /// All disks.
    All,
    /// The disk of the operating system, by a script.
    SystemDisk,
    /// Nothing, unless MAAS's own option has it.
    Nothing,
}

impl MachineSteps<'_> {
    /// Whether a teardown ends with the machine's removal from MAAS: that was asked for, or it left the design, is not
    /// retired, and trueup creates machines.
    pub(super) fn leaves(&self, machine: &Machine) -> bool {
        let creates = self.maas().settings.creation.is_some();
        let has_left = self.task.has_left() && machine.retired().is_none() && creates;
        has_left || *self.task.given().forget()
    }

    /// The disks that a release erases in this step.
    pub(super) fn wipe(&self) -> Wipe {
        let cleans = self.maas().roster.automated_clean(self.task.node);
        match self.task.preserves() {
            true => Wipe::SystemDisk,
            false if cleans.unwrap_or(true) => Wipe::All,
            false => Wipe::Nothing,
        }
    }

    /// Releases a machine, and waits until MAAS is done with it.
    pub(super) async fn release(&self, machine: Machine, wipe: Wipe) -> Result<Machine> {
        let fields = self.release_form(wipe).await?;
        let machine = self.unlock(machine).await?;
        self.task.once(machine, Once::Release, &fields).await
    }

    /// The form of a release. All flags are sent: in the place of absent ones MAAS puts options of its own.
    async fn release_form(&self, wipe: Wipe) -> Result<Fields<'static>> {
        let task = &self.task;
        let settings = &self.maas().settings;
        let mut fields = vec![field("comment", task.comment())];
        let mut flag = |name: &'static str, value: bool| {
            fields.push(field(name, if value { "true" } else { "false" }));
        };
        let erases = wipe == Wipe::All;
        let (secure, quick) = settings.erase.flags();
        flag("erase", erases);
        flag("secure_erase", erases && secure);
        flag("quick_erase", erases && quick);
        if wipe == Wipe::SystemDisk {
            if self.maas().api.region().await?.always_erases {
                return Err(task.permanent(
                    "MAAS erases all disks at each release (`enable_disk_erasing_on_release`): none can be kept",
                ));
            }
            let script = settings.system_disk_script.as_ref();
            let script = script.ok_or_else(|| {
                let text =
                    "MAAS can erase all disks or none: the settings name no `system_disk_script`";
                task.permanent(text)
            })?;
            fields.push(field("scripts", script.to_string()));
        }
        Ok(fields)
    }

    /// Tears the machine down.
    pub(super) async fn destroy(&self) -> Result<()> {
        let task = &self.task;
        let Some(machine) = task.look().await? else {
            if task.has_noted(LEAVING) {
                return Ok(());
            }
            return Err(task.permanent(format!("MAAS has no machine `{}`", task.name)));
        };
        let machine = task.settled(machine).await?;
        let is_begun = task.trace(Once::Release, &machine).await? == Some(Trace::Accepted);
        let machine = match machine.state() {
            S::Active | S::DeployFailed | S::Error => {
                if is_begun {
                    return Err(task.ended_in(Once::Release, &machine));
                }
                task.gate(&machine, Verb::Delete)?;
                self.release(machine, self.wipe()).await?
            }
            S::Available if machine.status == Some(status::ALLOCATED) => {
                self.release(machine, Wipe::Nothing).await?
            }
            S::Available => machine,
            S::Manageable | S::InspectFailed if is_begun || self.wipe() != Wipe::All => machine,
            S::Manageable => self.erase_idle(machine).await?,
            S::Enroll | S::InspectFailed if self.leaves(&machine) => machine,
            S::CleanFailed if is_begun => return Err(task.ended_in(Once::Release, &machine)),
            _ => return Err(self.refused(&machine, Verb::Delete)),
        };
        if machine.is_switched()
            && machine.power() != Some(PowerState::Off)
            && machine.state() != S::Enroll
        {
            self.switch(&machine, PowerState::Off).await?;
        }
        match self.leaves(&machine) {
            true => self.leave(machine).await,
            false => Ok(()),
        }
    }

    /// Erases a machine that is ready and not available: a retired one by the steps that the plan names.
    async fn erase_idle(&self, machine: Machine) -> Result<Machine> {
        let steps = self.task.given().clean_steps();
        if machine.retired().is_some() && steps.is_empty() {
            let text = "retired, and not erased: nothing was deployed on it since it was cleaned";
            self.task.report(text);
            return Ok(machine);
        }
        self.erase(machine).await
    }

    /// Takes the machine out of MAAS, which would do so in every state of it.
    async fn leave(&self, machine: Machine) -> Result<()> {
        let task = &self.task;
        task.order.reporter.note(LEAVING).await?;
        task.report("deleting it from MAAS");
        let api = &self.maas().api;
        let subject = format!("{}: delete", task.subject);
        let removed = api.remove(&subject, &machine.system_id).await;
        let Err(error) = removed else {
            return Ok(());
        };
        match task.look().await? {
            None => Ok(()),
            Some(_) => Err(error.into()),
        }
    }
}
