//! The change of a node as it is shown, and the work, which is what its steps are built of.
//!
//! A node that is blocked, excluded or only shown has no work.

use std::sync::Arc;

use super::subject::{Membership, Subject};
use super::work::NodeWork;
use super::{Block, Cause, Change, ChangeKind, Standing};
use crate::design::{Guards, Rung};
use crate::observed::Fact;
use crate::reservation::Reservation;
use crate::step::{Effect, StepKind};

/// A change and its work.
pub(super) struct Item<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) change: Change,
    pub(super) work: NodeWork,
    /// It is torn down though its backend cannot erase its disks.
    pub(super) unwiped: bool,
    /// The disks beside that of its system are kept where it is torn down.
    pub(super) preserves: bool,
    /// They are kept by all of its steps: as was asked for, or as the run that tore it down has kept them.
    pub(super) keeps_disks: bool,
}

impl<'a> Item<'a> {
    pub(super) fn new(subject: Subject<'a>, kind: ChangeKind) -> Self {
        Self {
            subject,
            change: Change {
                node: subject.name.clone(),
                kind,
                rung: None,
                does: None,
                group: None,
                rack: subject.rack().cloned(),
                blocked: None,
                excluded: false,
                shown_only: false,
                unverified: false,
                destructive: false,
                disks: Vec::new(),
                cleaning: None,
                reasons: Vec::new(),
                fields: Vec::new(),
                counts_as: subject.standing(),
                machine: None,
                inventory: None,
            },
            work: NodeWork::default(),
            unwiped: false,
            preserves: false,
            keeps_disks: false,
        }
    }

    /// How much harm its deploy can do: less if the inventory shows that there is nothing to lose.
    pub(super) fn deploy_effect(&self) -> Effect {
        let inventory = self.subject.seen.node().map(|node| &node.disks);
        let empty = matches!(inventory, Some(Fact::Known(_))) && !self.change.destructive;
        if empty {
            Effect::Reversible
        } else {
            Effect::Destructive
        }
    }

    /// Whether it is built again.
    pub(super) fn comes_back(&self) -> bool {
        let single = self.work.single.as_ref();
        let stays_cordoned =
            matches!(self.subject.membership, Membership::In(node) if node.unschedulable);
        let service = self.work.service.as_ref();
        let is_serviced = service.is_some_and(|service| service.uncordons || !stays_cordoned);
        self.work.deploy
            || is_serviced
            || single.is_some_and(|single| single.kind == StepKind::Remediate)
    }

    /// Whether it is taken out of service, and is still down when all is done that was asked for.
    pub(super) fn stays_down(&self) -> bool {
        let leave = self.work.leave.as_deref();
        let stays = leave.is_some_and(|leave| match leave.only {
            None => !leave.delete,
            Some(kind) => matches!(kind, StepKind::Drain | StepKind::ShutdownKubelet),
        });
        let single = self.work.single.as_ref();
        let is_off = single.is_some_and(|single| single.kind == StepKind::PowerOff);
        (stays || is_off) && !self.comes_back() && !self.work.destroy
    }

    /// Whether it is restarted by a remediation though it serves.
    pub(super) fn is_remediated_in_service(&self) -> bool {
        let parameters = self.work.single.as_ref();
        let parameters = parameters.and_then(|single| single.parameters.as_ref());
        parameters.is_some_and(|parameters| *parameters.given().in_service())
    }

    /// Whether it is out of service before, and is built.
    pub(super) fn is_brought_back(&self) -> bool {
        self.is_carried() && self.comes_back() && self.subject.down().is_some()
    }

    /// Whether it is out of service before, and is built or leaves.
    pub(super) fn ends_being_down(&self) -> bool {
        let leaves = self.work.leave.as_ref().is_some_and(|leave| leave.delete);
        let is_over = self.comes_back() || self.work.destroy || leaves;
        is_over && self.subject.down().is_some()
    }

    /// Whether nothing keeps it from being carried out.
    pub(super) fn is_carried(&self) -> bool {
        self.change.blocked.is_none() && !self.change.excluded
    }

    pub(super) fn because(&mut self, reason: impl Into<Arc<str>>) {
        self.change.reasons.reserve_exact(1);
        self.change.reasons.push(reason.into());
    }

    /// Blocks it; what no flag allows wins over what a flag would.
    pub(super) fn block(&mut self, reason: &str, flag: Option<&str>) {
        let flag = flag.map(|flag| format!("{flag} {}", self.change.node));
        self.block_as(reason, flag.as_deref());
    }

    /// Blocks it since something that it depends on could not be read.
    pub(super) fn block_unreadable(&mut self, reason: &str, flag: Option<&str>) {
        let flag = flag.map(|flag| format!("{flag} {}", self.change.node));
        self.block_for(Cause::Unreadable, reason, flag.as_deref());
    }

    /// Blocks it if the policy or the provisioner protects the machine.
    pub(super) fn block_if_protected(&mut self, guards: &Guards) {
        if let Some(why) = self.subject.protection(guards) {
            self.block_for(Cause::Protected, why, None);
        }
    }

    /// Blocks it; `flag` is all that is to be given.
    pub(super) fn block_as(&mut self, reason: &str, flag: Option<&str>) {
        self.block_for(Cause::Rule, reason, flag);
    }

    /// Blocks it; `flag` is all that is to be given.
    pub(super) fn block_for(&mut self, cause: Cause, reason: &str, flag: Option<&str>) {
        if self
            .change
            .blocked
            .as_ref()
            .is_some_and(|block| block.flag.is_none())
        {
            return;
        }
        self.change.blocked = Some(Block {
            reason: Arc::from(reason),
            flag: flag.map(Arc::from),
            cause,
        });
    }

    /// How far it goes with a machine that is in service, by its work and by what differs.
    pub(super) fn rung(&self) -> Option<Rung> {
        // Not in service yet.
        if matches!(
            self.change.kind,
            ChangeKind::Create | ChangeKind::Unknown | ChangeKind::None
        ) {
            return None;
        }
        let cleaning = self.work.cleaning.as_deref();
        let erases = cleaning.is_some_and(|cleaning| cleaning.erases() && !self.work.destroy);
        let of_cleaning = erases.then_some(Rung::Wipe);
        let of_fields = self
            .work
            .deploy
            .then(|| self.change.lowest_rung())
            .flatten();
        let rung = self.work.rung(self.preserves).max(of_cleaning);
        rung.max(of_fields)
    }

    /// Leaves the machine as it is, whatever the plan wants.
    pub(super) fn leave_alone(&mut self, why: String) {
        let differs = self.subject.differing();
        if self.change.kind == ChangeKind::Redeploy && differs.is_none_or(|all| all.is_empty()) {
            self.change.kind = ChangeKind::Drift;
        }
        self.because(why);
        self.show_only();
    }

    /// Leaves a machine alone that a person works on. If it was named, the rest is not carried out without an answer.
    pub(super) fn leave_reserved(&mut self, reservation: &Reservation, is_named: bool) {
        let single = self.work.single.as_deref();
        let leave = self.work.leave.as_deref();
        let kind = single.map(|single| single.kind);
        let kind = kind.or_else(|| leave.and_then(|leave| leave.only));
        let is_look = kind.is_some_and(|kind| kind.facts().effect == Effect::None);
        let is_idle = self.work.is_empty() && self.change.blocked.is_none();
        let is_shown = !matches!(self.change.kind, ChangeKind::None) && !is_named;
        let why = reservation.left_alone(self.subject.name);
        if is_idle && is_shown {
            self.because(why);
            return;
        }
        if is_idle || (is_look && !kind.is_some_and(StepKind::only_records)) {
            return;
        }
        match is_named {
            true => self.block(&why, None),
            false => self.leave_alone(why),
        }
    }

    /// Shows it without ever carrying it out.
    pub(super) fn show_only(&mut self) {
        self.change.shown_only = true;
        self.change.blocked = None;
        self.change.destructive = false;
        self.change.cleaning = None;
        self.rest();
    }

    /// Leaves it out.
    pub(super) fn exclude(&mut self) {
        self.change.excluded = true;
        self.change.rung = self.rung();
        self.change.blocked = None;
        self.rest();
    }

    /// Has it count as what its work makes of it, from the beginning and as long as it has that work.
    pub(super) fn promise(&mut self, standing: Standing) {
        self.change.counts_as = standing;
        self.work.promised = true;
    }

    /// Removes the work; a record that is not brought up to date is listed as it was.
    fn rest(&mut self) {
        if self.work.promised {
            self.change.counts_as = self.subject.standing();
        }
        self.work = NodeWork::default();
    }

    pub(super) fn redeploy(&mut self) {
        self.change.kind = ChangeKind::Redeploy;
        self.change.destructive = true;
        self.change.disks = self.subject.all_disks();
        self.work = NodeWork::REDEPLOY;
    }
}
