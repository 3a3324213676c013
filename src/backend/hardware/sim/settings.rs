//! The settings of the simulator, as `hardware.sim` of `trueup/Backends/v1` has them.
//!
//! The schema has checked the form already where a site was validated; what is read here is strict
//! all the same, since a backend may be opened without.

use std::sync::Arc;
use std::time::Duration;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

use crate::backend::Clock;
use crate::design::{HardwareBackend, NodeName, name_problem};
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, from_node};
use crate::step::StepKind;

const CODE: &str = "schema-sim";

/// The longest duration, in seconds: somewhat more than thirty years.
const LONGEST: f64 = 1e9;

/// How late an answer is where the fault does not say.
const LATE: Duration = Duration::from_secs(60);

/// How the simulated site behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether time jumps; the simulator itself only ever waits, see [`super`].
    pub clock: Clock,
    /// The name of the state file; absent: the one that the caller hands in.
    pub state: Option<Arc<str>>,
    /// How long things take.
    pub durations: Durations,
    /// What goes wrong; the first that applies counts.
    pub faults: Vec<Fault>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock: Clock::Virtual,
            state: None,
            durations: Durations::default(),
            faults: Vec::new(),
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
    /// Switching on; also setting and taking off a flag.
    pub power: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            prepare: Duration::from_secs(120),
            deploy: Duration::from_secs(900),
            destroy: Duration::from_secs(180),
            relabel: Duration::from_secs(5),
            power: Duration::from_secs(10),
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
            _ => self.power,
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It takes its time and fails for good.
    Fail,
    /// It is begun and does not end.
    Hang,
    /// It takes longer.
    Late,
    /// It is done, and the answer says that nobody knows.
    LostAnswer,
    /// It is refused in a way that can pass, before anything is begun.
    FailOnce,
    /// The machine cannot be seen.
    Unobservable,
}

/// One line of the fault script.
#[derive(Clone, Debug)]
pub struct Fault {
    nodes: Vec<GlobMatcher>,
    step: Option<FaultyStep>,
    /// What goes wrong.
    pub outcome: Outcome,
    /// What is said about it.
    pub message: Option<Arc<str>>,
    /// How late, or how long it hangs.
    pub delay: Option<Duration>,
    /// How often for each node; absent: always.
    pub times: Option<u64>,
    /// By which it is counted: what it is and where it stands in the script.
    pub key: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FaultyStep {
    Prepare,
    Deploy,
    Destroy,
    Relabel,
    Power,
}

impl Fault {
    /// Whether it is about this node in this kind of step; without a kind: in being observed.
    #[must_use]
    pub fn is_about(&self, node: &NodeName, kind: Option<StepKind>) -> bool {
        let step = match (self.step, kind) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(step), Some(kind)) => matches!(
                (step, kind),
                (FaultyStep::Prepare, StepKind::Prepare)
                    | (FaultyStep::Deploy, StepKind::Deploy)
                    | (FaultyStep::Destroy, StepKind::Destroy)
                    | (FaultyStep::Relabel, StepKind::Relabel)
                    | (FaultyStep::Power, StepKind::PowerOn)
            ),
        };
        let named = |glob: &GlobMatcher| glob.is_match(node.as_str());
        step && (self.nodes.is_empty() || self.nodes.iter().any(named))
    }

    /// How much longer it takes.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.delay.unwrap_or(LATE)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenSettings {
    clock: WrittenClock,
    state: Option<Marked<Arc<str>>>,
    durations: WrittenDurations,
    faults: Vec<WrittenFault>,
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
    prepare: Option<Marked<f64>>,
    deploy: Option<Marked<f64>>,
    destroy: Option<Marked<f64>>,
    relabel: Option<Marked<f64>>,
    power: Option<Marked<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFault {
    #[serde(default)]
    nodes: Vec<Marked<Arc<str>>>,
    step: Option<FaultyStep>,
    outcome: Outcome,
    message: Option<Arc<str>>,
    seconds: Option<Marked<f64>>,
    times: Option<u64>,
}

impl Settings {
    /// Reads the settings of a backend of the kind `sim`.
    ///
    /// # Errors
    ///
    /// What does not fit, with its place.
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
            },
            faults: written
                .faults
                .into_iter()
                .enumerate()
                .map(|(position, fault)| read_fault(position, fault))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn read_fault(position: usize, written: WrittenFault) -> Result<Fault, Box<Diagnostic>> {
    let nodes = written.nodes.iter().map(|pattern| {
        let glob = GlobBuilder::new(&pattern.value).build();
        glob.map(|glob| glob.compile_matcher()).map_err(|error| {
            let message = format!("`{}` is no pattern: {}", pattern.value, error.kind());
            Box::new(Diagnostic::error(CODE, pattern.mark, message))
        })
    });
    Ok(Fault {
        nodes: nodes.collect::<Result<_, _>>()?,
        step: written.step,
        outcome: written.outcome,
        message: written.message,
        delay: duration(written.seconds)?,
        times: match written.outcome {
            Outcome::FailOnce => Some(written.times.unwrap_or(1)),
            _ => written.times,
        },
        key: Arc::from(format!("{position}:{:?}", written.outcome)),
    })
}

fn duration(written: Option<Marked<f64>>) -> Result<Option<Duration>, Box<Diagnostic>> {
    let Some(Marked { mark, value }) = written else {
        return Ok(None);
    };
    if !(0.0..=LONGEST).contains(&value) {
        let message = format!("a duration is from 0 to {LONGEST} seconds");
        return Err(Box::new(Diagnostic::error(CODE, mark, message)));
    }
    Ok(Some(Duration::from_secs_f64(value)))
}
