//! Erasing the disks of a machine that carries no system: MAAS erases only what it releases, so it is allocated first.

use super::destroy::Wipe;
use super::event::{Once, Trace};
use super::machine::{ERASE, Machine, status};
use super::steps::MachineSteps;
use super::tag::{self, Change, Tag};
use crate::backend::hardware::driver::Result;
use crate::lifecycle::{CleanInterface, ProvisionState as S, Verb};
use crate::step::CleanStep;

impl MachineSteps<'_> {
    /// Erases the disks, and leaves the machine managed.
    pub(super) async fn clean(&self) -> Result<()> {
        let task = &self.task;
        let steps = task.given().clean_steps();
        let is_erasure = |step: &&CleanStep| {
            *step.interface == *CleanInterface::Deploy.as_str() && *step.step == *ERASE
        };
        if let Some(other) = steps.iter().find(|step| !is_erasure(step)) {
            let name = other.name();
            return Err(task.permanent(format!(
                "MAAS has no clean step `{name}`: it has `deploy.{ERASE}`"
            )));
        }
        let machine = task.settled(task.known().await?).await?;
        let is_begun = task.trace(Once::Release, &machine).await? == Some(Trace::Accepted);
        let machine = match machine.state() {
            S::Manageable | S::Available if is_begun => machine,
            S::CleanFailed if is_begun => return Err(task.ended_in(Once::Release, &machine)),
            S::Available if !machine.is_ours => return Err(self.refused(&machine, Verb::Clean)),
            // An earlier attempt has allocated it.
            S::Available | S::Manageable | S::CleanFailed => {
                if machine.status != Some(status::ALLOCATED) {
                    task.gate(&machine, Verb::Clean)?;
                }
                self.manage_in_maas(&machine).await?;
                self.erase(machine).await?
            }
            _ => return Err(self.refused(&machine, Verb::Clean)),
        };
        self.manage_in_maas(&machine).await
    }

    /// Erases the disks of a machine that is idle.
    pub(super) async fn erase(&self, machine: Machine) -> Result<Machine> {
        let machine = match machine.status {
            Some(status::READY) => {
                self.task.report("allocating, to be erased");
                self.task.allocate(machine, Some(Verb::Clean)).await?
            }
            _ => machine,
        };
        self.release(machine, Wipe::All).await
    }

    /// Tags the machine as managed, so that it is not available when it is ready.
    pub(super) async fn manage_in_maas(&self, machine: &Machine) -> Result<()> {
        match machine.has_tag(tag::MANAGED) || machine.retired().is_some() {
            true => Ok(()),
            false => {
                let managed = Tag::plain(tag::MANAGED);
                self.task.tag(machine, &managed, Change::Add).await?;
                self.task.see_tag(machine, tag::MANAGED).await
            }
        }
    }
}
