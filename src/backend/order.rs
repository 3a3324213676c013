//! One step to be carried out, and the way back to who ordered it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{ActError, Pending};
use crate::design::{NodeDesign, NodeName, RunId};
use crate::step::Step;

/// One step that is to be carried out.
#[derive(Clone, Debug)]
pub struct Order {
    /// In which run; part of every marker that a backend leaves.
    pub run: RunId,
    /// The step.
    pub step: Arc<Step>,
    /// The node's design: the one to be reached, or for what tears a machine down the last one applied;
    /// `None` for steps of the whole site.
    pub node: Option<Arc<NodeDesign>>,
    /// Notes of the step from an earlier attempt or run, in order ([`Reporter::note`]); before
    /// that, for what waits for a node, what was noted when it was taken down.
    pub notes: Vec<Arc<str>>,
    /// Nodes whose etcd members later steps of the plan remove: leadership is better with another.
    pub leaving: Arc<BTreeSet<NodeName>>,
    /// The machines whose parts a soak reads.
    pub soaked: Arc<[Arc<NodeDesign>]>,
    /// Receives the progress of the step.
    pub reporter: Reporter,
}

impl Order {
    /// The time that the step has, a little less than its limit so that it can say itself what it waited
    /// for; `None`: it has no limit.
    pub(in crate::backend) fn time(&self) -> Option<Duration> {
        const LONGEST_RESERVE: Duration = Duration::from_secs(5);
        let limit = Duration::from_secs(self.step.timeout);
        (!limit.is_zero()).then(|| limit - LONGEST_RESERVE.min(limit / 10))
    }
}

/// The note after which all notes before count no more: a person has decided that the step was not begun.
pub const NOT_BEGUN: &str = "decided: not begun";

impl Order {
    /// Its notes since a person has decided that it was not begun, or all.
    pub(in crate::backend) fn notes_that_count(&self) -> &[Arc<str>] {
        let last = self.notes.iter().rposition(|note| **note == *NOT_BEGUN);
        &self.notes[last.map_or(0, |at| at + 1)..]
    }
}

/// A receiver of the progress of a running step.
pub trait Listener: Send + Sync {
    /// How far it is, in words for people; replaces what was said before.
    fn progress(&self, text: Arc<str>);

    /// Something that the step must find again after a crash; ready when it is durable.
    fn note<'a>(&'a self, text: Arc<str>) -> Pending<'a, Result<(), ActError>>;
}

/// The way back to who ordered a step. The default listens to nothing.
#[derive(Clone, Default)]
pub struct Reporter(Option<Arc<dyn Listener>>);

impl Reporter {
    /// Reports to a listener.
    #[must_use]
    pub fn new(listener: Arc<dyn Listener>) -> Self {
        Self(Some(listener))
    }

    /// Reports the progress of the step (`12 pods left; budget web/front allows none`); a repeated text is
    /// told once.
    pub fn progress(&self, text: impl Into<Arc<str>>) {
        if let Some(listener) = &self.0 {
            listener.progress(text.into());
        }
    }

    /// Notes something that the step must find again after a crash, such as the location of a task;
    /// durable when this returns. Never a secret.
    ///
    /// # Errors
    ///
    /// The note could not be persisted: the step should stop.
    pub async fn note(&self, text: impl Into<Arc<str>>) -> Result<(), ActError> {
        match &self.0 {
            Some(listener) => listener.note(text.into()).await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Reporter(listened to)"
        } else {
            "Reporter(not listened to)"
        })
    }
}
