//! Who talks to machines and clusters: the only room that knows addresses and protocols.
//!
//! A backend observes many nodes in one go, and for each kind of step can tell from outside whether
//! it is not begun, under way or done ([`Hardware::probe`]), and carry it out ([`Hardware::act`]).

mod error;
pub mod hardware;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::design::{NodeDesign, NodeName, RunId};
use crate::observed::ObservedNode;
use crate::step::Step;

pub use error::Error;
pub use hardware::{Clock, Context, choose, clock, longest_request};

/// A future in a box, so that backends can be chosen when the program runs.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One step that is to be carried out.
#[derive(Clone, Debug)]
pub struct Order {
    /// In which run; part of every marker that a backend leaves.
    pub run: RunId,
    /// The step.
    pub step: Arc<Step>,
    /// The node's design: the one to be reached, or for a destroy the last one applied; `None` for
    /// steps of the whole site.
    pub node: Option<Arc<NodeDesign>>,
}

/// What a step looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Nothing was asked for yet; it can be done without harm.
    NotBegun,
    /// It goes on; acting again would do it twice, waiting is right.
    UnderWay,
    /// It is done.
    Done,
    /// It cannot be told; the text says what evidence to look at.
    Ambiguous(Arc<str>),
}

/// Why a step did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    /// It can pass: timeouts, refused connections, busy answers.
    #[error("{0}")]
    Passing(Arc<str>),
    /// It stays: a rule was broken, the machine said no.
    #[error("{0}")]
    Permanent(Arc<str>),
    /// The answer was lost; what was asked for may have happened.
    #[error("{0}")]
    Ambiguous(Arc<str>),
}

/// Moves and sees machines.
pub trait Hardware: Send + Sync {
    /// Sees many nodes in one go. Every node asked for is in the answer; what could not be seen is
    /// unknown with its reason.
    fn observe<'a>(
        &'a self,
        nodes: &'a [Arc<NodeDesign>],
    ) -> Pending<'a, BTreeMap<NodeName, ObservedNode>>;

    /// Tells from outside how far a step is.
    fn probe<'a>(&'a self, order: &'a Order) -> Pending<'a, Probe>;

    /// Carries a step out and waits for its end. Acting on a step that is under way waits for it.
    fn act<'a>(&'a self, order: &'a Order) -> Pending<'a, Result<(), ActError>>;
}
