//! Deploying over plain Redfish: off, boot override, on, wait for evidence, and take back what was set.
//!
//! Until the machine is switched on everything can be done again. After that a process that resumes it only waits:
//! what proves a deploy is asked before a person is. Without a report or a port a deploy ends unverified, which plan and
//! step say, and a crash leaves it ambiguous.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::boot::BootOverride;
use super::evidence::Evidence;
use super::machine::Machine;
use super::notes::{Before, Note, RequestState, state};
use super::powered::Power;
use super::settings::Source;
use super::time_of;
use crate::backend::hardware::raid;
use crate::backend::{ActError, Order, Probe};
use crate::design::NodeDesign;

/// The note before the machine is switched on.
const BOOT: &str = "boot";
/// The note that its evidence was waited for in vain.
const WAITED: &str = "wait";
/// The time that is left to take back what was set.
const RESERVE: Duration = Duration::from_secs(30);

/// How far a deploy came by its notes alone: until the machine is to be switched on, everything can be done again.
pub(super) fn is_begun(order: &Order) -> bool {
    state(order.notes_that_count(), BOOT) != RequestState::NotAsked
}

/// The probe of a deploy whose progress is unknown.
pub(super) fn unknown(node: &NodeDesign) -> Probe {
    Probe::Ambiguous(Arc::from(format!(
        "node `{}` was switched on to be deployed, and its progress is unknown: check its console, \
         and whether it is the new system that answers",
        node.name
    )))
}

impl Machine<'_> {
    /// How far a deploy is that has switched its machine on: a report that has come proves that it is done, if no port is
    /// waited for, too; if something can still prove it, it is waited for.
    pub(super) async fn probe_deploy(
        &self,
        order: &Order,
        node: &NodeDesign,
    ) -> Result<Probe, ActError> {
        let evidence = self.evidence(node)?;
        if self.has_reported(&evidence).await {
            return Ok(match evidence.is_report_alone() {
                true => Probe::Done,
                false => Probe::UnderWay,
            });
        }
        let was_waited_for = state(order.notes_that_count(), WAITED) != RequestState::NotAsked;
        let can_come = evidence.is_proof() && !was_waited_for;
        match can_come && matches!(self.power().await?, Power::On | Power::TurningOn) {
            true => Ok(Probe::UnderWay),
            false => Ok(unknown(node)),
        }
    }

    /// Has it boot into what installs or is its system, and waits for the evidence of that. Whatever the end, what was
    /// set for it is taken back.
    pub(super) async fn deploy(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        let evidence = self.evidence(node)?;
        let time = time_of(order);
        let until = Instant::now() + time - RESERVE.min(time / 10);
        let ended = self.install(order, node, &evidence, until).await;
        let is_proven = evidence.is_proof();
        let keeps_image = ended.is_ok() && !is_proven;
        match (ended, self.take_back(keeps_image).await) {
            (ended, Ok(())) => ended,
            (Ok(()), Err(left)) => {
                let found = self.boots_from().await;
                let installs = found.map_or(true, |found| found.source.is_some());
                if !installs {
                    order
                        .reporter
                        .progress(format!("the image is still inserted: {left}"));
                    return Ok(());
                }
                Err(ActError::Ambiguous(Arc::from(format!(
                    "the new system has come up, but the machine would be installed anew at its next start: {left}"
                ))))
            }
            (Err(error), Err(left)) => Err(error.map(|text| {
                Arc::from(format!(
                    "{text}; its boot override or image could not be taken back: {left}"
                ))
            })),
        }
    }

    async fn install(
        &self,
        order: &Order,
        node: &NodeDesign,
        evidence: &Evidence,
        until: Instant,
    ) -> Result<(), ActError> {
        let boot_override = match is_begun(order) {
            true => self.shown_override().await?,
            false => {
                let raid = raid::wanted(order, node).map_err(|why| self.permanent(&why))?;
                if let Some(raid) = &raid {
                    self.make_volumes(order, node, raid, until).await?;
                }
                self.begin(order, node, evidence).await?
            }
        };
        if boot_override == BootOverride::Continuous {
            // An installer that restarts would install for ever.
            self.await_firmware(until).await?;
            self.boot_as_usual().await?;
        }
        let ended = self
            .await_system(order, evidence, boot_override, until)
            .await;
        if ended.is_err() {
            let what = Arc::from(WAITED);
            self.note(order, Note::Done { what }).await?;
        }
        ended
    }

    /// Switches it off, has it boot from where it should, and switches it on.
    async fn begin(
        &self,
        order: &Order,
        node: &NodeDesign,
        evidence: &Evidence,
    ) -> Result<BootOverride, ActError> {
        let progress = |text: &str| order.reporter.progress(text);
        self.switch_off(order, Duration::ZERO).await?;
        if self.has_reported(evidence).await {
            return self.refuse(
                "`deploy.url` reports that the system has come up before it was installed: clear the status of the \
                 previous deploy at that URL first",
            );
        }
        if self.backend.settings.deploy.from == Source::VirtualMedia {
            progress("inserting the image");
            self.insert(node).await?;
        }
        progress("setting from where it boots");
        let boot_override = self.boot_next(node).await?;
        if boot_override == BootOverride::Continuous {
            progress(
                "its controller keeps the boot override for every boot: it is taken back once the machine is on",
            );
        }
        let note = Note::Asked {
            what: Arc::from(BOOT),
            before: Before::default(),
        };
        self.switch_on(order, Some(&note)).await?;
        Ok(boot_override)
    }
}
