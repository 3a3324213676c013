//! The fault script: what goes wrong, for whom and how often.

use std::sync::Arc;
use std::time::Duration;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

use super::super::driver::with_log;
use super::duration::{CODE, duration};
use crate::design::NodeName;
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, Seconds};
use crate::step::{Actor, StepKind};

/// How late an answer is where the fault does not say.
const LATE: Duration = Duration::from_secs(60);

/// The outcome of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultOutcome {
    /// It takes its time and fails for good.
    Fail,
    /// It is begun and does not end.
    Hang,
    /// It takes longer.
    Late,
    /// It is done, and its answer is lost.
    LostAnswer,
    /// It is refused in a way that can pass, before anything is begun.
    FailOnce,
    /// The machine, or its nodes, cannot be observed.
    Unobservable,
    /// The kubelet on it does not answer until it was switched on anew.
    NotReady,
    /// Its members of etcd do not run.
    NoEtcd,
}

impl FaultOutcome {
    /// Whether it is about observations, whatever step runs.
    #[must_use]
    pub fn is_about_seeing(self) -> bool {
        matches!(self, Self::Unobservable | Self::NotReady | Self::NoEtcd)
    }
}

/// One line of the fault script.
#[derive(Clone, Debug)]
pub struct Fault {
    nodes: Patterns,
    steps: Steps,
    /// Whose script it stands in: the machines' or the cluster's.
    pub of: Actor,
    /// The outcome.
    pub outcome: FaultOutcome,
    /// The message.
    pub message: Option<Arc<str>>,
    /// Entries that its controller writes in its event log, if the step fails for good.
    pub event_log: Vec<Arc<str>>,
    /// How late, or how long it hangs.
    pub delay: Option<Duration>,
    /// How often for each node; absent: always.
    pub times: Option<u64>,
    /// By which it is counted: what it is and where it stands in the script.
    pub key: Arc<str>,
}

/// In which steps a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    /// In all of those whose script it stands in, and in being observed.
    All,
    /// In switching on and off.
    Power,
    One(StepKind),
}

impl Fault {
    /// Whether it is about this node in this kind of step; without a kind: in being observed.
    #[must_use]
    pub fn is_about(&self, node: &NodeName, kind: Option<StepKind>) -> bool {
        let step = match (self.steps, kind) {
            (Steps::All, None) => true,
            (Steps::All, Some(kind)) => kind.facts().actor == self.of,
            (Steps::Power, Some(kind)) => matches!(kind, StepKind::PowerOn | StepKind::PowerOff),
            (Steps::One(step), Some(kind)) => step == kind,
            (Steps::Power | Steps::One(_), None) => false,
        };
        step && self.nodes.fit(node)
    }

    /// Whether it is about all nodes.
    #[must_use]
    pub fn is_about_all(&self) -> bool {
        self.nodes.0.is_empty() && self.steps == Steps::All
    }

    /// How much longer it takes.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.delay.unwrap_or(LATE)
    }

    /// The message of the fault.
    pub(super) fn said(&self, otherwise: &str) -> Arc<str> {
        let message = self.message.clone();
        let message = message.unwrap_or_else(|| Arc::from(otherwise));
        match self.outcome {
            FaultOutcome::Fail | FaultOutcome::Hang => with_log(message, &self.event_log),
            _ => message,
        }
    }
}

/// Nodes by name or pattern; none: all.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns(Vec<GlobMatcher>);

impl Patterns {
    pub(super) fn fit(&self, node: &NodeName) -> bool {
        self.fit_name(node.as_str())
    }

    pub(super) fn fit_name(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|glob| glob.is_match(name))
    }

    pub(super) fn read(written: &[Marked<Arc<str>>]) -> Result<Self, Box<Diagnostic>> {
        let globs = written.iter().map(|pattern| {
            let glob = GlobBuilder::new(&pattern.value).build();
            glob.map(|glob| glob.compile_matcher()).map_err(|error| {
                let message = format!("`{}` is no pattern: {}", pattern.value, error.kind());
                Box::new(Diagnostic::error(CODE, pattern.mark, message))
            })
        });
        Ok(Self(globs.collect::<Result<_, _>>()?))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenFault {
    #[serde(default)]
    nodes: Vec<Marked<Arc<str>>>,
    step: Option<Marked<Arc<str>>>,
    outcome: FaultOutcome,
    message: Option<Arc<str>>,
    #[serde(default)]
    event_log: Vec<Arc<str>>,
    seconds: Option<Marked<Seconds>>,
    times: Option<u64>,
}

/// Reads the script of the machines or of the cluster.
pub(super) fn read(written: Vec<WrittenFault>, of: Actor) -> Result<Vec<Fault>, Box<Diagnostic>> {
    let each = written.into_iter().enumerate();
    each.map(|(position, fault)| read_fault(position, fault, of))
        .collect()
}

fn read_fault(position: usize, written: WrittenFault, of: Actor) -> Result<Fault, Box<Diagnostic>> {
    let outcome = written.outcome;
    if matches!(outcome, FaultOutcome::NotReady | FaultOutcome::NoEtcd)
        && let Some(step) = &written.step
    {
        let text = "a kubelet or a member of etcd that does not answer is about no step";
        return Err(Box::new(Diagnostic::error(CODE, step.mark, text)));
    }
    let whose = if of == Actor::Cluster { "cluster:" } else { "" };
    Ok(Fault {
        nodes: Patterns::read(&written.nodes)?,
        steps: written.step.map_or(Ok(Steps::All), |step| steps(&step))?,
        of,
        outcome,
        message: written.message,
        event_log: written.event_log,
        delay: duration(written.seconds)?,
        times: match outcome {
            FaultOutcome::FailOnce | FaultOutcome::NotReady => Some(written.times.unwrap_or(1)),
            _ => written.times,
        },
        key: Arc::from(format!("{whose}{position}:{outcome:?}")),
    })
}

fn steps(written: &Marked<Arc<str>>) -> Result<Steps, Box<Diagnostic>> {
    if &*written.value == "power" {
        return Ok(Steps::Power);
    }
    let known = super::simulated_kinds;
    match known().find(|kind| kind.as_str() == &*written.value) {
        Some(kind) => Ok(Steps::One(kind)),
        None => {
            let message = format!("there is no step `{}` to go wrong", written.value);
            let diagnostic = Diagnostic::error(CODE, written.mark, message);
            Err(Box::new(diagnostic.did_you_mean(
                &written.value,
                known().map(StepKind::as_str).chain(["power"]),
            )))
        }
    }
}
