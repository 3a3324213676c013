//! Bringing a machine to available: created, commissioned, tested, laid out.

use std::sync::Arc;

use super::api::{Fields, field};
use super::change::Change;
use super::event::Once;
use super::machine::{Machine, status};
use super::ports::Around;
use super::shown::BusDevice;
use super::steps::MachineSteps;
use super::tag::{self, Tag};
use crate::backend::hardware::driver::Result;
use crate::lifecycle::{ProvisionState as S, Verb};

/// Most operations that bring one machine from anywhere to available.
const WAY: usize = 6;
/// Most requests for the disks and interfaces of one machine.
const CHANGES: usize = 200;

impl MachineSteps<'_> {
    /// Creates the machine where MAAS does not know it, and brings it to available.
    pub(super) async fn prepare(&self) -> Result<()> {
        let task = &self.task;
        let mut machine = match task.look().await? {
            Some(machine) => machine,
            None => self.create().await?,
        };
        for _ in 0..WAY {
            machine = task.settled(machine).await?;
            self.can_be_prepared(&machine)?;
            if machine.status == Some(status::READY) {
                return self.lay_out(machine).await;
            }
            // MAAS keeps no word about a commissioning: who resumes the run in another clone finds this.
            let run = Tag::run(&task.order.run);
            task.only_tag(&machine, tag::RUN, Some(&run)).await?;
            if !machine.tag_names.contains(&run.name) {
                task.see_tag(&machine, tag::RUN).await?;
            }
            machine = match machine.status {
                Some(status::NEW | status::FAILED_COMMISSIONING) => {
                    self.commission(machine).await?
                }
                Some(status::FAILED_TESTING) => {
                    let fields = self.scripts("testing_scripts");
                    task.once(machine, Once::Test, &fields).await?
                }
                // Storage can be laid out in ready only; nothing was written to it since.
                Some(status::ALLOCATED) if !machine.has_system() => {
                    self.release(machine, super::destroy::Wipe::Nothing).await?
                }
                _ => self.release(machine, self.wipe()).await?,
            };
        }
        Err(task.permanent(format!("does not become available: {}", machine.failed())))
    }

    /// Commissions a machine, with the tests of the settings after it.
    pub(super) async fn commission(&self, machine: Machine) -> Result<Machine> {
        let mut fields = self.scripts("commissioning_scripts");
        fields.extend(self.scripts("testing_scripts"));
        self.task.once(machine, Once::Commission, &fields).await
    }

    /// Scripts of the settings, as a field of a form; none if MAAS chooses them.
    fn scripts(&self, name: &'static str) -> Fields<'static> {
        let settings = &self.maas().settings;
        let scripts = match name {
            "testing_scripts" => &settings.testing_scripts,
            _ => &settings.commissioning_scripts,
        };
        let text = scripts.as_ref().map(|scripts| match scripts.is_empty() {
            true => "none".to_owned(),
            false => scripts.join(","),
        });
        text.into_iter().map(|text| field(name, text)).collect()
    }

    /// Refuses at once, not on its way, what must not become available: a retired machine, one in maintenance, one
    /// whose erasure failed, and one that carries a system.
    fn can_be_prepared(&self, machine: &Machine) -> Result<()> {
        let task = &self.task;
        if let Some(reason) = machine.maintenance() {
            return Err(task.permanent(format!("is in maintenance ({reason})")));
        }
        if let Some(reason) = machine.retired() {
            return Err(task.permanent(format!("is retired ({reason}), and is never deployed to")));
        }
        match machine.state() {
            S::Available | S::Manageable | S::Enroll | S::InspectFailed | S::DeployFailed | S::Error => {
                Ok(())
            }
            S::CleanFailed => Err(task.permanent(format!(
                "is fenced (clean failed) and needs manual intervention: clean it again, or provide it on purpose ({})",
                machine.failed()
            ))),
            _ => Err(self.refused(machine, Verb::Provide)),
        }
    }

    /// Sets what a machine is deployed with and MAAS takes before that: its disks, its interfaces, its kernel
    /// parameters. It is available from then on.
    async fn lay_out(&self, machine: Machine) -> Result<()> {
        let task = &self.task;
        let machine = self.configure(machine).await?;
        let kernel = self.maas().system(task.node).kernel_tag();
        task.only_tag(&machine, tag::KERNEL, kernel.as_ref())
            .await?;
        if kernel.is_some_and(|kernel| !machine.tag_names.contains(&kernel.name)) {
            task.see_tag(&machine, tag::KERNEL).await?;
        }
        task.only_tag(&machine, tag::MANAGED, None).await
    }

    /// Brings disks and interfaces of a machine that is ready to its design; what is right is left as it is.
    pub(super) async fn configure(&self, machine: Machine) -> Result<Machine> {
        let (task, api) = (&self.task, &self.maas().api);
        let system = self.maas().system(task.node);
        let mut machine = machine;
        let mut last = None;
        let mut devices = Vec::new();
        if system.ports.names_bus() {
            devices = api.bus_devices(&task.subject, &machine.system_id).await?;
        }
        for _ in 0..CHANGES {
            let Some(change) = self.next_change(&machine, &devices).await? else {
                return Ok(machine);
            };
            task.report(change.said.clone());
            let (subject, sent) = (&task.subject, &change);
            let send = |id: Arc<str>| async move { api.change(subject, &id, sent).await };
            let before = task.send(machine, None, send).await?;
            let now = api.machine(&before.system_id).await?;
            machine = now.ok_or_else(|| task.permanent("has vanished from MAAS"))?;
            last = Some(change.said);
        }
        let last = last.unwrap_or_default();
        Err(task.permanent(format!(
            "its disks and interfaces in MAAS do not become what the design has: the last request was for {last}"
        )))
    }

    /// The next request that brings disks or interfaces to the design.
    async fn next_change(
        &self,
        machine: &Machine,
        devices: &[BusDevice],
    ) -> Result<Option<Change>> {
        let (task, api) = (&self.task, &self.maas().api);
        let system = self.maas().system(task.node);
        let disks = system.storage.as_ref().map(|disks| disks.next(machine));
        let disks = disks.transpose().map_err(|why| task.permanent(why))?;
        if disks.as_ref().is_some_and(Option::is_some) || system.ports.is_empty() {
            return Ok(disks.flatten());
        }
        let mut nets = api.nets().await?;
        // Made since they were read.
        if system.ports.unknown(&nets).is_some() {
            nets = api.read_nets().await?;
        }
        let around = Around {
            nets: &nets,
            devices,
        };
        let next = system.ports.next(machine, around);
        next.map_err(|why| task.permanent(why))
    }
}
