//! The settings of the simulator, as `hardware.sim` of `trueup/Backends/v1` has them.
//!
//! The schema has checked the form already if a site was validated; what is read here is strict
//! all the same, since a backend may be opened without.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::cluster_settings::ClusterSettings;
use super::duration::{CODE, duration};
use super::faults::{self, Fault, WrittenFault};
use super::values::{self, HardwareRow, WrittenHardware};
use crate::backend::Clock;
use crate::design::{HardwareBackend, name_problem};
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, Seconds, from_node};
use crate::step::{Actor, StepKind};

/// How the simulated site behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether time jumps; the simulator itself only ever waits, see [`super`].
    pub clock: Clock,
    /// The name of the state file; absent: the one that the caller hands in.
    pub state: Option<Arc<str>>,
    /// How long things take.
    pub durations: Durations,
    /// Injected faults; the first that applies counts.
    pub faults: Vec<Fault>,
    /// The cluster that runs on the machines.
    pub cluster: Arc<ClusterSettings>,
    /// Firmware, settings and parts that the machines come with.
    pub(super) hardware: Vec<HardwareRow>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock: Clock::Virtual,
            state: None,
            durations: Durations::default(),
            faults: Vec::new(),
            cluster: Arc::default(),
            hardware: Vec::new(),
        }
    }
}

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durations {
    /// A prepare.
    pub prepare: Duration,
    /// A deploy.
    pub deploy: Duration,
    /// A destroy.
    pub destroy: Duration,
    /// A relabel.
    pub relabel: Duration,
    /// Switching on or off; also setting and taking off a flag.
    pub power: Duration,
    /// A clean step.
    pub clean: Duration,
    /// A change of firmware and settings, with its restart.
    pub service: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            prepare: Duration::from_secs(120),
            deploy: Duration::from_secs(900),
            destroy: Duration::from_secs(180),
            relabel: Duration::from_secs(5),
            power: Duration::from_secs(10),
            clean: Duration::from_secs(300),
            service: Duration::from_secs(600),
        }
    }
}

impl Durations {
    /// How long a kind of step takes.
    #[must_use]
    pub fn of(&self, kind: StepKind) -> Duration {
        match kind {
            StepKind::Prepare => self.prepare,
            StepKind::Deploy => self.deploy,
            StepKind::Destroy => self.destroy,
            StepKind::Relabel => self.relabel,
            StepKind::Clean => self.clean,
            StepKind::Service => self.service,
            _ => self.power,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenSettings {
    clock: WrittenClock,
    state: Option<Marked<Arc<str>>>,
    durations: WrittenDurations,
    faults: Vec<WrittenFault>,
    hardware: Vec<WrittenHardware>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenClock {
    #[default]
    Virtual,
    Real,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenDurations {
    prepare: Option<Marked<Seconds>>,
    deploy: Option<Marked<Seconds>>,
    destroy: Option<Marked<Seconds>>,
    relabel: Option<Marked<Seconds>>,
    power: Option<Marked<Seconds>>,
    clean: Option<Marked<Seconds>>,
    service: Option<Marked<Seconds>>,
}

impl Settings {
    /// Reads the settings of a backend of the kind `sim`.
    ///
    /// # Errors
    ///
    /// A setting is invalid; with its place.
    pub fn read(backend: &HardwareBackend) -> Result<Self, Box<Diagnostic>> {
        let written = backend.settings.as_ref();
        let Some(node) = written.filter(|node| !node.is_null()) else {
            return Ok(Self::default());
        };
        let written: WrittenSettings =
            from_node(node).map_err(|mismatch| Box::new(mismatch.into_diagnostic(CODE)))?;
        if let Some(state) = &written.state
            && let Some(problem) = name_problem(&state.value)
        {
            let message = format!("`state` is the name of a file, and this {problem}");
            let hint = "a name without folders: the file lies beside the checkout's git data";
            return Err(Box::new(
                Diagnostic::error(CODE, state.mark, message).hint(hint),
            ));
        }
        let default = Durations::default();
        let durations = &written.durations;
        Ok(Self {
            clock: match written.clock {
                WrittenClock::Virtual => Clock::Virtual,
                WrittenClock::Real => Clock::Real,
            },
            state: written.state.map(|state| state.value),
            durations: Durations {
                prepare: duration(durations.prepare)?.unwrap_or(default.prepare),
                deploy: duration(durations.deploy)?.unwrap_or(default.deploy),
                destroy: duration(durations.destroy)?.unwrap_or(default.destroy),
                relabel: duration(durations.relabel)?.unwrap_or(default.relabel),
                power: duration(durations.power)?.unwrap_or(default.power),
                clean: duration(durations.clean)?.unwrap_or(default.clean),
                service: duration(durations.service)?.unwrap_or(default.service),
            },
            faults: faults::read(written.faults, Actor::Hardware)?,
            cluster: Arc::default(),
            hardware: values::read(written.hardware)?,
        })
    }
}
