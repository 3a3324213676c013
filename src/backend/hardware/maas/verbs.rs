//! Asking MAAS for something and waiting for its end.
//!
//! A yes of MAAS is acceptance, and shows the state before: a machine is polled until nothing is done with it. What
//! must not be repeated is asked for by [`Task::once`] only, which leaves a note first.

use std::sync::Arc;

use super::api::{EVENTS, Fields, RequestError, is_busy, is_refusal};
use super::event::{Once, Trace};
use super::machine::Machine;
use super::tag::{Change, Tag};
use super::{Maas, event};
use crate::backend::ActError;
use crate::backend::hardware::busy::RetryBudget;
use crate::backend::hardware::driver::Result;
use crate::backend::hardware::poll::Waiter;
use crate::backend::hardware::provisioner::Task;
use crate::lifecycle::{ProvisionState as S, Verb};

/// How many looks may show nothing after something was accepted.
const LOOKS_WITHOUT_CHANGE: u32 = 3;

/// The failure if MAAS has been busy for too long.
const STUCK: &str =
    "MAAS has worked on no machine for 10 minutes: are its rack controllers connected?";

impl Task<'_, Maas> {
    /// Waits until MAAS does nothing with the machine.
    pub(super) async fn settled(&self, machine: Machine) -> Result<Machine> {
        let mut waiter = self.backend.watch.wait_for(&machine.system_id);
        let mut machine = machine;
        while !machine.is_idle() {
            self.report(machine.doing());
            machine = self.next(&mut waiter).await?;
        }
        Ok(machine)
    }

    /// The machine in the next look that shows it.
    async fn next(&self, waiter: &mut Waiter<Machine>) -> Result<Machine> {
        loop {
            let round = waiter.next().await;
            match &round.objects {
                Ok(machines) => {
                    let machine = machines.get(waiter.id()).cloned();
                    return machine.ok_or_else(|| self.permanent("has vanished from MAAS"));
                }
                Err(why) => self.report(why.clone()),
            }
        }
    }

    /// The machine as it is now, by the id that it had.
    pub(super) async fn again(&self, machine: &Machine) -> Result<Machine> {
        let mut waiter = self.backend.watch.wait_for(&machine.system_id);
        self.next(&mut waiter).await
    }

    /// Sends a request as soon as nothing is done with the machine and `verb` is legal, as often as MAAS has no time
    /// for it. Gives the machine as it was before.
    pub(super) async fn send<F>(
        &self,
        machine: Machine,
        verb: Option<Verb>,
        send: impl Fn(Arc<str>) -> F,
    ) -> Result<Machine>
    where
        F: Future<Output = Result<(), RequestError>>,
    {
        let mut machine = machine;
        let mut budget = RetryBudget::new(self.order);
        loop {
            machine = self.settled(machine).await?;
            if let Some(verb) = verb {
                self.gate(&machine, verb)?;
            }
            let Err(error) = send(machine.system_id.clone()).await else {
                return Ok(machine);
            };
            if !is_busy(&error) && !is_refusal(&error) {
                return Err(error.into());
            }
            // What it means, the machine tells.
            let now = self.again(&machine).await?;
            if is_refusal(&error) {
                return Err(match now.status == machine.status {
                    true => error.into(),
                    false => ActError::Ambiguous(Arc::from(error.to_string())),
                });
            }
            if !now.is_idle() {
                return Ok(machine);
            }
            machine = now;
            self.pause(&mut budget, &error).await?;
        }
    }

    /// Waits before a request is sent again for which MAAS had no time.
    async fn pause(&self, budget: &mut RetryBudget, error: &RequestError) -> Result<()> {
        let Some(delay) = budget.next(error, self.backend.watch.is_active()) else {
            return Err(budget.ended(error, STUCK));
        };
        let seconds = delay.as_secs();
        self.report(format!("MAAS is busy: {error}; retried in {seconds} s"));
        tokio::time::sleep(delay).await;
        Ok(())
    }

    /// Asks for an operation that does no harm when it is repeated.
    pub(super) async fn operate(
        &self,
        machine: Machine,
        operation: &str,
        fields: &Fields<'_>,
    ) -> Result<Machine> {
        let api = &self.backend.api;
        let send =
            |id: Arc<str>| async move { api.operate(&self.subject, &id, operation, fields).await };
        let before = self.send(machine, None, send).await?;
        self.again(&before).await
    }

    /// By which this step is known in MAAS's log of events.
    pub(super) fn comment(&self) -> String {
        format!("trueup {} {}", self.order.run, self.order.step.id)
    }

    /// The trace of an operation that an earlier attempt of this step noted; `None`: it noted none.
    pub(super) async fn trace(&self, operation: Once, machine: &Machine) -> Result<Option<Trace>> {
        let Some(after) = operation.noted(&self.order.notes) else {
            return Ok(None);
        };
        let api = &self.backend.api;
        let events = api
            .events(&self.subject, &machine.system_id, (Some(after), EVENTS))
            .await?;
        Ok(Some(Trace::of(operation, &events, after)))
    }

    /// The trace of an operation that this step asked for in another process, whose notes are not here: MAAS has logged
    /// its comment.
    pub(super) async fn trace_of_step(
        &self,
        operation: Once,
        machine: &Machine,
    ) -> Result<Option<Trace>> {
        let api = &self.backend.api;
        let id = &machine.system_id;
        let events = api.events(&self.subject, id, (None, EVENTS)).await?;
        Ok(Trace::of_comment(operation, &events, &self.comment()))
    }

    /// Asks for an operation that must not be repeated, and waits for its end. It was not asked for by this step
    /// before, or MAAS took it back.
    pub(super) async fn once(
        &self,
        machine: Machine,
        operation: Once,
        fields: &Fields<'_>,
    ) -> Result<Machine> {
        let machine = self.settled(machine).await?;
        if let Some(Trace::Accepted) = self.trace(operation, &machine).await? {
            return Err(self.ended_in(operation, &machine));
        }
        let after = match operation.noted(&self.order.notes) {
            Some(after) => after,
            None => self.note(operation, &machine).await?,
        };
        let api = &self.backend.api;
        let name = operation.as_str();
        let send =
            |id: Arc<str>| async move { api.operate(&self.subject, &id, name, fields).await };
        self.report(format!("{}: {name}", machine.status_name()));
        let before = self.send(machine, None, send).await?;
        self.ended(Some((&before, after)), operation).await
    }

    /// Notes durably that an operation is about to be asked for, and after which event.
    async fn note(&self, operation: Once, machine: &Machine) -> Result<u64> {
        let api = &self.backend.api;
        let newest = api
            .events(&self.subject, &machine.system_id, (None, 1))
            .await?;
        let newest = newest.first().map_or(0, |event: &event::Event| event.id);
        self.order.reporter.note(operation.note(newest)).await?;
        Ok(newest)
    }

    /// Waits for the end of an operation; `before`: the machine when it was accepted, and the newest event before it.
    pub(super) async fn ended(
        &self,
        before: Option<(&Machine, u64)>,
        operation: Once,
    ) -> Result<Machine> {
        let known;
        let id = match before {
            Some((before, _)) => &before.system_id,
            None => {
                known = self.known().await?;
                &known.system_id
            }
        };
        let mut waiter = self.backend.watch.wait_for(id);
        let mut unchanged = 0;
        loop {
            let machine = self.next(&mut waiter).await?;
            if !machine.is_idle() {
                self.report(machine.doing());
                self.abort_late(&machine, operation).await?;
                continue;
            }
            match before {
                Some((before, after)) if before.status == machine.status => {
                    unchanged += 1;
                    if unchanged >= LOOKS_WITHOUT_CHANGE {
                        return Err(self.unmoved(&machine, operation, after).await?);
                    }
                }
                _ if ends(operation).contains(&machine.state()) => return Ok(machine),
                _ => return Err(self.ended_in(operation, &machine)),
            }
        }
    }

    /// The failure of an operation that was accepted, if the machine is what it was.
    async fn unmoved(&self, machine: &Machine, operation: Once, after: u64) -> Result<ActError> {
        let api = &self.backend.api;
        let events = api
            .events(&self.subject, &machine.system_id, (Some(after), EVENTS))
            .await?;
        Ok(match Trace::of(operation, &events, after) {
            Trace::Accepted => self.ended_in(operation, machine),
            Trace::None | Trace::Reverted => self.passing(format!(
                "MAAS accepted `{}`, and nothing happens: {}",
                operation.as_str(),
                machine.failed()
            )),
        })
    }

    /// The failure of an operation that ended otherwise than it should.
    pub(super) fn ended_in(&self, operation: Once, machine: &Machine) -> ActError {
        let name = operation.as_str();
        self.permanent(format!("`{name}` ended in {}", machine.failed()))
    }

    /// Ends at the end of the step's time what would bring the machine up when it is not expected. An erasure is
    /// never broken off: MAAS has no time limit for it, and half an erasure is none.
    async fn abort_late(&self, machine: &Machine, operation: Once) -> Result<()> {
        let is_abortable = matches!(operation, Once::Commission | Once::Test | Once::Deploy);
        if !is_abortable || !self.is_over() {
            return Ok(());
        }
        self.report("aborting it in MAAS");
        let comment = vec![super::api::field("comment", self.comment())];
        let api = &self.backend.api;
        api.operate(&self.subject, &machine.system_id, "abort", &comment)
            .await?;
        let name = operation.as_str();
        Err(self.permanent(format!(
            "`{name}` did not end in the time of the step: aborted in MAAS"
        )))
    }

    /// Takes the machine for the user of the key.
    pub(super) async fn allocate(&self, machine: Machine, verb: Option<Verb>) -> Result<Machine> {
        let api = &self.backend.api;
        let comment = &self.comment();
        let send = |id: Arc<str>| async move { api.allocate(&self.subject, &id, comment).await };
        let before = self.send(machine, verb, send).await;
        let before = match before {
            Ok(before) => before,
            // Its answer was lost, or an earlier one: then it is ours.
            Err(error) => match self.known().await? {
                now if now.is_ours && now.status == Some(super::machine::status::ALLOCATED) => now,
                _ => return Err(error),
            },
        };
        self.again(&before).await
    }

    /// Puts a tag on the machine or takes it off.
    pub(super) async fn tag(&self, machine: &Machine, tag: &Tag, change: Change) -> Result<()> {
        let mut budget = RetryBudget::new(self.order);
        loop {
            let api = &self.backend.api;
            match api
                .tag(&self.subject, tag, change, &machine.system_id)
                .await
            {
                Ok(()) => return Ok(()),
                Err(error) if is_busy(&error) => self.pause(&mut budget, &error).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes sure that the machine carries a tag that must not be missing: MAAS skips in silence what it cannot tag.
    pub(super) async fn see_tag(&self, machine: &Machine, kind: &str) -> Result<()> {
        match self.again(machine).await?.has_tag(kind) {
            true => Ok(()),
            false => Err(self.passing(format!("MAAS has not kept the tag `{kind}`"))),
        }
    }

    /// Leaves on the machine, of the tags of a kind, only one, or none.
    pub(super) async fn only_tag(
        &self,
        machine: &Machine,
        kind: &str,
        wanted: Option<&Tag>,
    ) -> Result<()> {
        let is_wanted = |name: &str| wanted.is_some_and(|tag| *tag.name == *name);
        if let Some(tag) = wanted.filter(|tag| !machine.tag_names.contains(&tag.name)) {
            self.tag(machine, tag, Change::Add).await?;
        }
        let of_kind = machine
            .tag_names
            .iter()
            .filter(|name| super::tag::is_of(kind, name));
        for name in of_kind.filter(|name| !is_wanted(name)) {
            self.tag(machine, &Tag::plain(name), Change::Remove).await?;
        }
        Ok(())
    }
}

/// In which states an operation ends if it succeeds.
fn ends(operation: Once) -> &'static [S] {
    match operation {
        Once::Commission | Once::Test => &[S::Available, S::Manageable],
        Once::Deploy => &[S::Active],
        // What was never commissioned is new again.
        Once::Release => &[S::Available, S::Manageable, S::Enroll],
    }
}
