//! Flags that MAAS has no field for: managed and available, retired, in maintenance.

use super::destroy::Wipe;
use super::event::{Once, Trace};
use super::machine::{Machine, status};
use super::steps::MachineSteps;
use super::tag::{self, Tag};
use crate::backend::hardware::driver::Result;
use crate::lifecycle::{ProvisionState as S, Verb};

impl MachineSteps<'_> {
    /// Brings a machine under management, commissioned if it is new, and not available.
    pub(super) async fn manage(&self) -> Result<()> {
        let task = &self.task;
        let machine = task.settled(task.known().await?).await?;
        if machine.state() == S::Manageable {
            return Ok(());
        }
        task.gate(&machine, Verb::Manage)?;
        if machine.status == Some(status::FAILED_TESTING) {
            return Err(task.permanent(format!(
                "is {}: test it again, or override its failed tests in MAAS",
                machine.failed()
            )));
        }
        // Before it is ready: it must not be available meanwhile.
        self.manage_in_maas(&machine).await?;
        match machine.status {
            Some(status::NEW | status::FAILED_COMMISSIONING) => {
                self.commission(machine).await.map(drop)
            }
            _ => self.out_of_clean_failed(machine).await.map(drop),
        }
    }

    /// Makes a machine available. It was erased when it was released; out of a failed erasure the rest is skipped, on
    /// purpose.
    pub(super) async fn provide(&self) -> Result<()> {
        let task = &self.task;
        let machine = task.settled(task.known().await?).await?;
        if machine.state() == S::Available {
            return Ok(());
        }
        task.gate(&machine, Verb::Provide)?;
        let machine = match machine.status {
            Some(status::NEW | status::FAILED_COMMISSIONING) => self.commission(machine).await?,
            _ => self.out_of_clean_failed(machine).await?,
        };
        task.only_tag(&machine, tag::MANAGED, None).await
    }

    /// Releases a machine whose erasure failed, without another one.
    async fn out_of_clean_failed(&self, machine: Machine) -> Result<Machine> {
        if machine.state() != S::CleanFailed {
            return Ok(machine);
        }
        if self.task.trace(Once::Release, &machine).await? == Some(Trace::Accepted) {
            return Err(self.task.ended_in(Once::Release, &machine));
        }
        self.release(machine, Wipe::Nothing).await
    }

    /// Whether the retirement is as the step wants it.
    pub(super) fn is_retired_as_wanted(&self, machine: &Machine) -> bool {
        let wanted = Tag::with_reason(tag::RETIRED, self.task.reason());
        let is_to_be_locked = machine.can_be_locked() && self.maas().settings.lock;
        machine.tag_names.contains(&wanted.name) && !is_to_be_locked
    }

    /// Sets the retired flag, or takes it off. A machine in use is locked besides, so that no other user of MAAS takes
    /// it down.
    pub(super) async fn retire(&self, wanted: bool) -> Result<()> {
        let task = &self.task;
        if !wanted {
            // Forgotten, it carries no flag.
            return match task.look().await? {
                Some(machine) => task.only_tag(&machine, tag::RETIRED, None).await,
                None => Ok(()),
            };
        }
        let machine = task.known().await?;
        let retired = Tag::with_reason(tag::RETIRED, task.reason());
        task.only_tag(&machine, tag::RETIRED, Some(&retired))
            .await?;
        task.see_tag(&machine, tag::RETIRED).await?;
        if machine.can_be_locked() && self.maas().settings.lock {
            self.lock(machine).await?;
        }
        Ok(())
    }

    /// Sets maintenance, or takes it off. A machine that carries nothing is marked broken in MAAS besides, so that no
    /// other user of it is given the machine; marking one in use would release it.
    pub(super) async fn maintain(&self, wanted: bool) -> Result<()> {
        let task = &self.task;
        let machine = task.known().await?;
        if wanted {
            let machine = self.mark_broken(machine).await?;
            let reason = Tag::with_reason(tag::MAINTENANCE, task.reason());
            task.only_tag(&machine, tag::MAINTENANCE, Some(&reason))
                .await?;
            return task.see_tag(&machine, tag::MAINTENANCE).await;
        }
        let machine = match machine.status {
            Some(status::BROKEN) => {
                let comment = vec![super::api::field("comment", task.comment())];
                task.operate(machine, "mark_fixed", &comment).await?
            }
            _ => machine,
        };
        task.only_tag(&machine, tag::MAINTENANCE, None).await
    }

    /// Marks a machine broken that carries nothing; one that is ready is allocated first, since only an owner may.
    async fn mark_broken(&self, machine: Machine) -> Result<Machine> {
        let task = &self.task;
        let is_free = match machine.status {
            Some(status::READY) => true,
            Some(status::ALLOCATED) => machine.is_ours && !machine.has_system(),
            _ => false,
        };
        if !is_free {
            return Ok(machine);
        }
        let machine = match machine.status {
            Some(status::READY) => task.allocate(machine, None).await?,
            _ => machine,
        };
        let comment = vec![super::api::field("comment", task.reason())];
        task.operate(machine, "mark_broken", &comment).await
    }
}
