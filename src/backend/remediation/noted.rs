//! A machine without Metal3: its annotations are notes, and its power is asked for as by any other step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::holder::{Holder, HostSeen};
use super::walk::part;
use crate::backend::{ActError, Hardware, Order, Pending, Probe};
use crate::lifecycle::PowerState;
use crate::observed::Fact;
use crate::remediation::{Backup, Memory, Note};
use crate::step::StepKind;

/// How long the rest of a switch may take that another process has begun.
const COMPLETED: Duration = Duration::from_secs(300);

/// The annotations of one machine, as they were noted.
pub(super) struct Noted<'a> {
    order: &'a Order,
    hardware: &'a dyn Hardware,
    needs_remediation: AtomicBool,
    held: AtomicBool,
    let_go: AtomicBool,
}

impl<'a> Noted<'a> {
    pub(super) fn new(order: &'a Order, hardware: &'a dyn Hardware, memory: &Memory) -> Self {
        Self {
            order,
            hardware,
            needs_remediation: AtomicBool::new(memory.needs_remediation),
            held: AtomicBool::new(memory.held),
            let_go: AtomicBool::new(memory.let_go),
        }
    }

    async fn note(&self, note: Note) -> Result<(), ActError> {
        self.order.reporter.note(note.to_text()).await
    }

    /// The power of the machine, by its controller itself: a node is deleted if that reports it as off.
    async fn power(&self) -> Option<Fact<PowerState>> {
        let node = self.order.node.as_ref()?;
        let reported = self.hardware.controller_power(node).await;
        if reported.is_some() {
            return reported;
        }
        let seen = self.hardware.observe(std::slice::from_ref(node)).await;
        seen.into_values().next().map(|seen| seen.power)
    }

    async fn switch(&self, kind: StepKind, attempt: u32, bound: Duration) -> Result<(), ActError> {
        let order = part(self.order, kind, attempt, bound, None);
        self.hardware.act(&order).await
    }
}

impl Holder for Noted<'_> {
    fn look(&self) -> Pending<'_, Result<HostSeen, ActError>> {
        Box::pin(async move {
            Ok(HostSeen {
                powered_on: match self.power().await {
                    Some(Fact::Known(power)) => Ok(power == PowerState::On),
                    Some(Fact::Unknown(why)) => Err(why),
                    None => Err("it was not observed".into()),
                },
                needs_remediation: self.needs_remediation.load(Ordering::Acquire),
                reboot_annotation: self.held.load(Ordering::Acquire),
                refused: None,
                backup: None,
                attempt: 0,
            })
        })
    }

    fn mark(&self, _: u32) -> Pending<'_, Result<(), ActError>> {
        self.needs_remediation.store(true, Ordering::Release);
        Box::pin(std::future::ready(Ok(())))
    }

    fn hold(&self) -> Pending<'_, Result<(), ActError>> {
        Box::pin(async move {
            self.note(Note::Hold).await?;
            self.held.store(true, Ordering::Release);
            Ok(())
        })
    }

    fn await_off(&self, attempt: u32, bound: Duration) -> Pending<'_, Result<(), ActError>> {
        Box::pin(self.switch(StepKind::PowerOff, attempt, bound))
    }

    fn keep<'a>(&'a self, _: &'a Backup) -> Pending<'a, Result<(), ActError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn unmark(&self) -> Pending<'_, Result<(), ActError>> {
        Box::pin(async move {
            self.note(Note::Unmarked).await?;
            self.needs_remediation.store(false, Ordering::Release);
            Ok(())
        })
    }

    fn let_go(&self) -> Pending<'_, Result<(), ActError>> {
        Box::pin(async move {
            self.note(Note::LetGo).await?;
            self.held.store(false, Ordering::Release);
            self.let_go.store(true, Ordering::Release);
            Ok(())
        })
    }

    fn await_on(&self, attempt: u32, bound: Duration) -> Pending<'_, Result<(), ActError>> {
        Box::pin(async move {
            if !self.let_go.load(Ordering::Acquire) {
                let text = "it is off, and not by trueup: `apply power on` it first";
                return Err(ActError::Permanent(text.into()));
            }
            self.switch(StepKind::PowerOn, attempt, bound).await
        })
    }

    fn drop_kept(&self) -> Pending<'_, Result<(), ActError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn end<'a>(&'a self, given_up: Option<&'a Arc<str>>) -> Pending<'a, Result<(), ActError>> {
        Box::pin(async move {
            if given_up.is_some() {
                return Ok(());
            }
            // A process before this one may have died behind the switch, with a part of it left to do.
            let order = part(self.order, StepKind::PowerOn, 0, COMPLETED, None);
            match self.hardware.probe(&order).await {
                Probe::UnderWay => self.hardware.act(&order).await,
                _ => Ok(()),
            }
        })
    }
}
