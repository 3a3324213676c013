//! The work on a node, of which its steps are built.
//!
//! Most nodes of a large plan are only built: what few have is in a box.

use std::sync::Arc;

use super::leave::Leave;
use crate::design::{AcceptedDesign, HardwareSetting, NodeName, OpenField, Rung, Section};
use crate::observed::Capability;
use crate::step::{Actor, Cleaning, DeployStep, Parameters, RelabelParameters, StepKind};

/// One step that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Single {
    pub(super) kind: StepKind,
    pub(super) parameters: Option<Parameters>,
}

/// The work of a service.
#[derive(Clone, Debug)]
pub(super) struct ServiceWork {
    pub(super) settings: Vec<HardwareSetting>,
    /// The parts that it has as expected, and is to have after its restart.
    pub(super) kept_parts: Vec<HardwareSetting>,
    /// The runbook of its provisioner that sets them.
    pub(super) runbook: Option<Arc<str>>,
    /// Its Kubernetes node takes pods again afterwards: no other has cordoned it.
    pub(super) uncordons: bool,
    /// The machine runs meanwhile.
    pub(super) is_live: bool,
}

/// The work that the steps of a node are built of.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeWork {
    pub(super) set_retired: Option<Arc<str>>,
    pub(super) unset_retired: bool,
    pub(super) power_on: bool,
    pub(super) lock: bool,
    /// Its node takes pods again, after a service that did not end.
    pub(super) uncordon: bool,
    pub(super) relabel: Option<Box<RelabelParameters>>,
    pub(super) destroy: bool,
    /// How it leaves its clusters before, if it is in any.
    pub(super) leave: Option<Box<Leave>>,
    /// The clusters that it joins again without having left them in this plan: an earlier plan was interrupted.
    pub(super) rejoins: Option<Box<Leave>>,
    /// It is to join its clusters once it is built.
    pub(super) joins: bool,
    /// One step that an action asks for.
    pub(super) single: Option<Box<Single>>,
    pub(super) prepare: bool,
    /// How it is cleaned while it is destroyed, prepared or provided.
    pub(super) cleaning: Option<Arc<Cleaning>>,
    pub(super) refused: Option<Arc<str>>,
    pub(super) deploy: bool,
    /// Its firmware and settings are changed.
    pub(super) service: Option<Box<ServiceWork>>,
    /// The steps of its deploy besides its own, if the design has any.
    pub(super) deploy_steps: Option<Arc<[DeployStep]>>,
    /// The volumes and hot spares that its deploy makes.
    pub(super) raid: Option<Box<[HardwareSetting]>>,
    pub(super) record: bool,
    /// The sections of Hardware documents that its record is to have as designed, as they were observed to be.
    pub(super) verified: Option<Box<[Section]>>,
    /// The differences that its record is to list; then the rest of the record is brought up to date, too.
    pub(super) accept: Option<Box<AcceptedDesign>>,
    pub(super) adopt: bool,
    /// The fields that no document fills of a machine that is adopted.
    pub(super) open: Option<Box<[OpenField]>>,
    /// Its record is that of this name.
    pub(super) renamed_from: Option<NodeName>,
    /// The node counts as what this work makes of it from the beginning.
    pub(super) promised: bool,
}

impl NodeWork {
    pub(super) const REDEPLOY: Self = Self {
        destroy: true,
        prepare: true,
        deploy: true,
        ..Self::NONE
    };
    const NONE: Self = Self {
        set_retired: None,
        unset_retired: false,
        power_on: false,
        lock: false,
        uncordon: false,
        relabel: None,
        destroy: false,
        leave: None,
        rejoins: None,
        joins: false,
        single: None,
        prepare: false,
        cleaning: None,
        refused: None,
        deploy: false,
        service: None,
        deploy_steps: None,
        raid: None,
        record: false,
        verified: None,
        accept: None,
        adopt: false,
        open: None,
        renamed_from: None,
        promised: false,
    };

    pub(super) fn is_empty(&self) -> bool {
        let is_asked = self.leave.is_some() || self.single.is_some();
        !self.is_in_a_group() && !self.is_outside_groups() && !self.destroy && !is_asked
    }

    /// Whether some of it is done inside the node's groups.
    pub(super) fn is_in_a_group(&self) -> bool {
        self.prepare
            || self.deploy
            || self.service.is_some()
            || self.power_on
            || self.uncordon
            || self.relabel.is_some()
            || self.rejoins.is_some()
    }

    /// How far it goes with a machine that is in service; `None`: it does nothing. `preserves`: the disks beside that of the
    /// system are kept where it is torn down.
    pub(super) fn rung(&self, preserves: bool) -> Option<Rung> {
        let of = |kind: StepKind| kind.facts().rung;
        let destroys = match preserves {
            true => Rung::Reinstall,
            false => of(StepKind::Destroy),
        };
        let leave = self.leave.as_deref().filter(|leave| !leave.only_judged);
        let leaving = leave.and_then(|leave| match leave.only {
            Some(only) => Some(of(only)),
            None => {
                let deletes = leave.deletes_node().then_some(StepKind::RemoveFromCluster);
                leave.before_machine().chain(deletes).map(of).max()
            }
        });
        let sets_flag = self.set_retired.is_some() || self.unset_retired;
        let records = self.record || self.accept.is_some() || self.renamed_from.is_some();
        let table = [
            (self.destroy, destroys),
            (self.deploy, of(StepKind::Deploy)),
            (self.restarts(), of(StepKind::Service)),
            (self.serves_meanwhile(), of(StepKind::ServiceLive)),
            (self.prepare, of(StepKind::Prepare)),
            (self.power_on, of(StepKind::PowerOn)),
            (self.lock, of(StepKind::Lock)),
            (self.uncordon, of(StepKind::Uncordon)),
            (self.relabel.is_some(), of(StepKind::Relabel)),
            (self.rejoins.is_some(), of(StepKind::AwaitReady)),
            (sets_flag, of(StepKind::SetRetired)),
            (records || self.adopt, of(StepKind::Record)),
        ];
        let done = table.into_iter().filter(|(is_done, _)| *is_done);
        let rungs = done.map(|(_, rung)| rung);
        let single = self.single.as_deref().map(|single| of(single.kind));
        rungs.chain(single).chain(leaving).max()
    }

    /// Whether its machine is restarted for its firmware and settings.
    pub(super) fn restarts(&self) -> bool {
        let service = self.service.as_deref();
        service.is_some_and(|service| !service.is_live)
    }

    /// Whether its firmware and settings are changed while its machine runs.
    pub(super) fn serves_meanwhile(&self) -> bool {
        let service = self.service.as_deref();
        service.is_some_and(|service| service.is_live)
    }

    /// Whether the node is taken out of service.
    pub(super) fn tears_down(&self) -> bool {
        let is_off = |single: &Single| single.kind == StepKind::PowerOff;
        self.destroy
            || self.restarts()
            || self.leave.as_deref().is_some_and(Leave::takes_out)
            || self.single.as_deref().is_some_and(is_off)
    }

    /// Whether a step of it changes its machine, or takes it as it is; `kept_by_records`: flags are the
    /// records' own.
    pub(super) fn touches_machine(&self, kept_by_records: bool) -> bool {
        let is_of_machine = |single: &Single| {
            matches!(single.kind.facts().actor, Actor::Hardware | Actor::Both)
                && single.kind != StepKind::Relabel
        };
        let sets_flag = self.unset_retired || self.set_retired.is_some();
        self.destroy
            || self.prepare
            || self.deploy
            || self.service.is_some()
            || self.power_on
            || self.lock
            || self.adopt
            || (sets_flag && !kept_by_records)
            || self.single.as_deref().is_some_and(is_of_machine)
    }

    fn is_outside_groups(&self) -> bool {
        let is_recorded =
            self.record || self.adopt || self.accept.is_some() || self.renamed_from.is_some();
        is_recorded || self.lock || self.unset_retired || self.set_retired.is_some()
    }

    /// The capabilities that its backend must have, with their names in messages.
    pub(super) fn needs(&self, preserve: bool) -> impl Iterator<Item = (Capability, &'static str)> {
        let wipe = match preserve {
            true => (
                Capability::WipeOperatingSystemDisk,
                "erase the disk of its operating system only",
            ),
            false => (Capability::Wipe, "erase its disks"),
        };
        let single = |kinds: &[StepKind]| {
            let single = self.single.as_deref();
            single.is_some_and(|single| kinds.contains(&single.kind))
        };
        let retire = self.unset_retired
            || self.set_retired.is_some()
            || single(&[StepKind::SetRetired, StepKind::UnsetRetired]);
        let power = single(&[StepKind::PowerOn, StepKind::PowerOff, StepKind::Remediate]);
        [
            (self.destroy, wipe.0, wipe.1),
            (power, Capability::Power, "switch it on and off"),
            (
                single(&[StepKind::Clean]),
                Capability::Clean,
                "run clean steps",
            ),
            (
                single(&[StepKind::RotateBmcPassword]),
                Capability::RotatePassword,
                "change the password of its controller: Redfish can, where `credentials.password` is a `file` with \
                 `{node}` outside of the checkout",
            ),
            (self.prepare, Capability::Prepare, "prepare it"),
            (self.deploy, Capability::Deploy, "deploy a system on it"),
            (
                self.restarts(),
                Capability::Service,
                "change its firmware and settings",
            ),
            (
                self.deploy_steps.is_some(),
                Capability::DeploySteps,
                "run deploy steps of the design",
            ),
            (
                self.raid.is_some(),
                Capability::Raid,
                "make RAID volumes: with `mode: report` their Hardware document asks for none",
            ),
            (
                self.relabel.is_some(),
                Capability::Relabel,
                "set its labels",
            ),
            (self.power_on, Capability::Power, "switch it on"),
            (retire, Capability::Retire, "hold its retired flag"),
        ]
        .into_iter()
        .filter_map(|(needed, capability, words)| needed.then_some((capability, words)))
    }
}
