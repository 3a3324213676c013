//! Switching a machine on and off, confirmed by observation.
//!
//! A machine is never told to restart: it is switched off, observed off, and switched on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::machine::Machine;
use super::notes::Note;
use super::powered::{Power, power_of};
use super::resource::{Resource, ResourceAction};
use super::time_of;
use crate::backend::hardware::level::{self, Pace};
use crate::backend::{ActError, Order, Probe};
use crate::step::StepKind;
use crate::threads::lock;

/// Resets that switch a machine on, best first; `ForceOn` is for systems that are stuck.
const ON: &[&str] = &["On", "ForceOn", PUSH];
/// Resets that switch it off whatever it does; if those are not offered, others that request it.
const OFF: &[&str] = &["ForceOff", "GracefulShutdown", PUSH];
/// The reset that switches a machine to its other state: sent once, and only if it is known in which it is.
const PUSH: &str = "PushPowerButton";
/// Resets that request a shutdown of the system.
const GRACEFUL: &[&str] = &["GracefulShutdown"];

/// How many settling times a controller that answers does not show a system that it lists until that is off, and the
/// shortest such time.
const HIDDEN: (u32, Duration) = (4, Duration::from_secs(1));

impl Machine<'_> {
    /// How it is powered now; a controller that does not say it may say it the next time.
    pub(super) async fn power(&self) -> Result<Power, ActError> {
        let system = self.sample().await?;
        Ok(power_of(&system).unwrap_or(Power::Unclear))
    }

    /// Whether it is powered as wanted, a settling time long.
    pub(super) async fn probe_power(&self, wanted: Power) -> Result<Probe, ActError> {
        let holds = level::holds(wanted, self.backend.settings.settling, || self.power()).await?;
        Ok(if holds { Probe::Done } else { Probe::NotBegun })
    }

    /// Checks that it can be switched as a deploy and a later teardown need it: on, and off.
    pub(super) async fn check_power(&self, system: &Resource) -> Result<(), ActError> {
        let offered = self.offered(system).await?;
        offered.first(self, ON)?;
        offered.first(self, OFF).map(drop)
    }

    /// Checks that it can be switched off if it is not off.
    pub(super) async fn check_off(&self, system: &Resource) -> Result<(), ActError> {
        if power_of(system) != Some(Power::Off) {
            self.offered(system).await?.first(self, OFF)?;
        }
        Ok(())
    }

    /// Switches it on; `note`: written before it is asked for.
    pub(super) async fn switch_on(
        &self,
        order: &Order,
        note: Option<&Note>,
    ) -> Result<(), ActError> {
        order.reporter.progress("on");
        self.bring(Power::On, ON, (order, note), time_of(order))
            .await
    }

    /// Switches it off: asks the system to shut down, and switches it off if it does not in time.
    pub(super) async fn switch_off(&self, order: &Order, grace: Duration) -> Result<(), ActError> {
        let time = time_of(order);
        let until = Instant::now() + time;
        let grace = grace.min(time / 2);
        if !grace.is_zero() && self.power().await? != Power::Off && self.can_shut_down().await? {
            order.reporter.progress("shutting down");
            let what = self.about("power");
            let pace = Pace::within(&what, self.backend.settings.settling, grace);
            // Refused or lost: it is switched off below.
            let asked = self.reset(GRACEFUL).await;
            if asked.is_ok() && level::seen(Power::Off, pace, || self.power()).await.is_ok() {
                return Ok(());
            }
        }
        order.reporter.progress("off");
        let left = until.saturating_duration_since(Instant::now());
        self.bring(Power::Off, OFF, (order, None), left).await
    }

    /// Brings it to a power by one of these kinds of reset; the note is written before the first request, and in any
    /// case once it is there.
    async fn bring(
        &self,
        wanted: Power,
        kinds: &[&str],
        (order, note): (&Order, Option<&Note>),
        time: Duration,
    ) -> Result<(), ActError> {
        let what = self.about("power");
        let pace = Pace::within(&what, self.backend.settings.settling, time);
        let pace = pace.reporting(&order.reporter);
        let is_noted = &AtomicBool::new(false);
        let is_pushed = &AtomicBool::new(false);
        let is_sent = &AtomicBool::new(false);
        let waited = &Waited::default();
        let hides = wanted == Power::Off && order.step.id.kind == StepKind::Destroy;
        let look = || async move {
            if hides && is_sent.load(Ordering::Relaxed) {
                self.power_or_hidden(waited, order).await
            } else {
                self.power_in_time(waited, order).await
            }
        };
        let begin = || async move {
            match note {
                Some(note) if !is_noted.swap(true, Ordering::Relaxed) => {
                    self.note(order, note.clone()).await
                }
                _ => Ok(()),
            }
        };
        let ask = || async move {
            let system = self.recent().await?;
            let offered = self.offered(&system).await?;
            let kind = offered.first(self, kinds)?;
            if kind == PUSH {
                let power = power_of(&system);
                let is_clear = matches!(power, Some(Power::On | Power::Off));
                if !is_clear || power == Some(wanted) || is_pushed.swap(true, Ordering::Relaxed) {
                    return Ok(());
                }
            }
            // It is on its way already: some begin anew with each request.
            if wanted == Power::On && power_of(&system) == Some(Power::TurningOn) {
                return Ok(());
            }
            begin().await?;
            self.send_reset(&offered, kind).await?;
            is_sent.store(true, Ordering::Relaxed);
            Ok(())
        };
        level::bring(wanted, pace, look, ask).await?;
        begin().await
    }

    /// How it is powered; one that has been turning on as long as firmware takes to boot is on: its controller calls it
    /// nothing else.
    async fn power_in_time(&self, waited: &Waited, order: &Order) -> Result<Power, ActError> {
        // Before anything was asked for, what was read a moment ago is as good.
        let system = match waited.is_begun.swap(true, Ordering::Relaxed) {
            false => self.recent().await?,
            true => self.sample().await?,
        };
        let power = power_of(&system).unwrap_or(Power::Unclear);
        let time = self.backend.settings.deploy.boot_time;
        match power {
            Power::TurningOn if waited.turning_on.has_lasted(time) => {
                waited.report(
                    order,
                    "its controller shows PoweringOn as long as it takes to boot: taken for on",
                );
                Ok(Power::On)
            }
            Power::TurningOn => Ok(power),
            Power::On | Power::Off | Power::TurningOff | Power::Unclear => {
                waited.turning_on.ends();
                Ok(power)
            }
        }
    }

    /// How a machine is powered that was told to switch itself off to be torn down. Some controllers show no system that is
    /// off: one that is listed, and is not found for some time while its controller answers, is off.
    async fn power_or_hidden(&self, waited: &Waited, order: &Order) -> Result<Power, ActError> {
        if !self.is_hidden().await? {
            waited.hidden.ends();
            return self.power_in_time(waited, order).await;
        }
        let time = HIDDEN.1.max(self.backend.settings.settling * HIDDEN.0);
        if waited.hidden.has_lasted(time) {
            waited.report(
                order,
                "its controller lists its system, and does not show it: taken for off",
            );
            return Ok(Power::Off);
        }
        Ok(Power::Unclear)
    }

    async fn can_shut_down(&self) -> Result<bool, ActError> {
        let system = self.sample().await?;
        let offered = self.offered(&system).await;
        Ok(offered.is_ok_and(|offered| offered.first(self, GRACEFUL).is_ok()))
    }

    /// Sends the first of these kinds of reset that the machine offers.
    async fn reset(&self, kinds: &[&str]) -> Result<(), ActError> {
        let system = self.sample().await?;
        let offered = self.offered(&system).await?;
        let kind = offered.first(self, kinds)?;
        self.send_reset(&offered, kind).await
    }

    async fn send_reset(&self, offered: &Offered, kind: &str) -> Result<(), ActError> {
        self.changes();
        // Whether the answer is a task or a plain yes: the level is read.
        self.controller
            .post(&offered.target, &json!({"ResetType": kind}))
            .await?;
        Ok(())
    }

    /// The resets that it offers.
    async fn offered(&self, system: &Resource) -> Result<Offered, ActError> {
        match system.action("ComputerSystem.Reset") {
            Some(action) => Ok(Offered {
                kinds: self.allowed(&action).await?,
                target: action.target,
            }),
            None => self.refuse("its controller cannot switch it (no action ComputerSystem.Reset)"),
        }
    }

    /// The kinds of reset that are offered; `None` if that is not said.
    async fn allowed(&self, action: &ResourceAction) -> Result<Option<Vec<Arc<str>>>, ActError> {
        let own = |texts: Vec<&str>| texts.into_iter().map(Arc::from).collect();
        if let Some(allowed) = action.allowed("ResetType") {
            return Ok(Some(own(allowed)));
        }
        let Some(info) = action.info() else {
            return Ok(None);
        };
        let Some(info) = self.controller.get_if_there(info).await? else {
            return Ok(None);
        };
        let parameters = info
            .value
            .get("Parameters")
            .and_then(|list| list.as_array());
        let of_kind = parameters.into_iter().flatten().find(|parameter| {
            parameter.get("Name").and_then(|name| name.as_str()) == Some("ResetType")
        });
        let values = of_kind.and_then(|parameter| parameter.get("AllowableValues")?.as_array());
        Ok(values.map(|values| own(values.iter().filter_map(|value| value.as_str()).collect())))
    }
}

/// Answers that decide only once they have lasted for some time.
#[derive(Debug, Default)]
struct Waited {
    is_begun: AtomicBool,
    turning_on: Lasting,
    hidden: Lasting,
    is_reported: AtomicBool,
}

impl Waited {
    /// Reports what was decided, once.
    fn report(&self, order: &Order, text: &str) {
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            order.reporter.progress(text.to_owned());
        }
    }
}

/// Since when something has been so without a break.
#[derive(Debug, Default)]
struct Lasting(Mutex<Option<Instant>>);

impl Lasting {
    /// It is so now: whether it has been so this long.
    fn has_lasted(&self, time: Duration) -> bool {
        let since = *lock(&self.0).get_or_insert_with(Instant::now);
        since.elapsed() >= time
    }

    fn ends(&self) {
        *lock(&self.0) = None;
    }
}

/// The resets that a machine offers.
struct Offered {
    target: Arc<str>,
    /// Their kinds; `None` if that is not said.
    kinds: Option<Vec<Arc<str>>>,
}

impl Offered {
    /// The first of these kinds that is offered.
    fn first<'k>(&self, machine: &Machine<'_>, kinds: &[&'k str]) -> Result<&'k str, ActError> {
        let is_offered = |kind: &&str| match &self.kinds {
            None => true,
            Some(offered) => offered.iter().any(|each| **each == **kind),
        };
        if let Some(kind) = kinds.iter().copied().find(is_offered) {
            return Ok(kind);
        }
        let offered = self.kinds.as_deref().unwrap_or_default().join(", ");
        let wanted = kinds.join(" nor ");
        machine.refuse(&format!(
            "its controller offers neither {wanted}, but only: {offered}"
        ))
    }
}
