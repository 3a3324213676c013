//! Switching a machine on and off, confirmed by observation.
//!
//! A machine is never told to restart: it is switched off, observed off, and switched on.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::machine::Machine;
use super::resource::{Resource, ResourceAction};
use super::time_of;
use crate::backend::hardware::level::{self, Pace};
use crate::backend::{ActError, Order, Probe};
use crate::lifecycle::PowerState;

/// How a machine is powered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    On,
    Off,
    /// On its way from one to the other.
    Between,
}

/// Resets that switch a machine on, best first; `ForceOn` is for systems that are stuck.
const ON: &[&str] = &["On", "ForceOn", "PushPowerButton"];
/// Resets that switch it off whatever it does.
const OFF: &[&str] = &["ForceOff"];
/// Resets that request a shutdown of the system.
const GRACEFUL: &[&str] = &["GracefulShutdown"];

/// How a system says it is powered.
pub(super) fn power_of(system: &Resource) -> Option<Power> {
    match system.text("/PowerState")? {
        "On" | "Paused" => Some(Power::On),
        "Off" => Some(Power::Off),
        "PoweringOn" | "PoweringOff" => Some(Power::Between),
        _ => None,
    }
}

impl From<Power> for PowerState {
    /// An operation on its way may still be running.
    fn from(power: Power) -> Self {
        match power {
            Power::Off => Self::Off,
            Power::On | Power::Between => Self::On,
        }
    }
}

impl Machine<'_> {
    pub(super) async fn power(&self) -> Result<Power, ActError> {
        let system = self.read_system().await?;
        match power_of(&system) {
            Some(power) => Ok(power),
            None => self.refuse("its controller does not say whether it is on (`PowerState`)"),
        }
    }

    /// Whether it is powered as wanted, a settling time long.
    pub(super) async fn probe_power(&self, wanted: Power) -> Result<Probe, ActError> {
        let holds = level::holds(wanted, self.backend.settings.settling, || self.power()).await?;
        Ok(if holds { Probe::Done } else { Probe::NotBegun })
    }

    /// Switches it on.
    pub(super) async fn switch_on(&self, order: &Order) -> Result<(), ActError> {
        order.reporter.progress("on");
        self.bring(Power::On, ON, time_of(order)).await
    }

    /// Switches it off: asks the system to shut down, and switches it off where it does not in time.
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
        self.bring(
            Power::Off,
            OFF,
            until.saturating_duration_since(Instant::now()),
        )
        .await
    }

    async fn bring(&self, wanted: Power, kinds: &[&str], time: Duration) -> Result<(), ActError> {
        let what = self.about("power");
        let pace = Pace::within(&what, self.backend.settings.settling, time);
        level::bring(wanted, pace, || self.power(), || self.reset(kinds)).await
    }

    async fn can_shut_down(&self) -> Result<bool, ActError> {
        let system = self.read_system().await?;
        let Some(action) = system.action("ComputerSystem.Reset") else {
            return Ok(false);
        };
        let allowed = self.allowed(&action).await?;
        let can = |allowed: &Vec<Arc<str>>| allowed.iter().any(|kind| GRACEFUL.contains(&&**kind));
        Ok(allowed.as_ref().is_none_or(can))
    }

    /// Sends the first of these kinds of reset that the machine offers.
    async fn reset(&self, kinds: &[&str]) -> Result<(), ActError> {
        let system = self.read_system().await?;
        let Some(action) = system.action("ComputerSystem.Reset") else {
            return self.refuse("its controller cannot switch it (no action ComputerSystem.Reset)");
        };
        let allowed = self.allowed(&action).await?;
        let offered = |kind: &&&str| {
            allowed
                .as_ref()
                .is_none_or(|allowed| allowed.iter().any(|each| **each == ***kind))
        };
        let Some(kind) = kinds.iter().find(offered) else {
            let offered = allowed.unwrap_or_default().join(", ");
            let wanted = kinds.join(" nor ");
            return self.refuse(&format!(
                "its controller offers neither {wanted}, but only: {offered}"
            ));
        };
        // Whether the answer is a task or a plain yes: the level is read.
        self.controller
            .post(&action.target, &json!({"ResetType": kind}))
            .await?;
        Ok(())
    }

    /// The kinds of reset that are offered; `None` where that is not said.
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
