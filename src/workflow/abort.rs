//! Aborts an interrupted run, after an observation of the machines whose deploys had begun.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;

use super::client::driven;
use super::equip::in_history;
use super::{AS_APPLIED, Checkout, Client, Equipped, Error, Failure, Purpose, equip, plan_of};
use crate::backend::{self, Hardware as _, Order, Probe, Reporter};
use crate::design::{Guards, RunId};
use crate::run::{self, Aborted, Interrupted, Process, TakeOver, find_interrupted};
use crate::site::{At, Loader, locate_at};
use crate::step::StepId;

/// Machines that are probed at the same time.
const LOOKS_AT_ONCE: usize = 32;
/// How long one is waited for.
const LONGEST_LOOK: Duration = Duration::from_secs(60);

/// An interrupted run that is to be aborted.
#[derive(Clone, Copy)]
pub struct AbortRequest<'a> {
    /// The caller.
    pub client: &'a dyn Client,
    /// The checkout of the site.
    pub checkout: &'a Checkout<'a>,
    /// The run.
    pub run: &'a RunId,
    /// Take its lock where it is of another machine and has not moved for ten minutes.
    pub take_over_dead: bool,
}

/// Aborts an interrupted run; what its last request may still bring about is waited out, and machines whose deploys had
/// begun are probed: those that are built are recorded so, and of each is taken back what its deploy set for its own time.
///
/// # Errors
///
/// Those of [`find_interrupted`] and [`run::abort`]; the documents of its commit cannot be loaded.
pub fn abort(process: Process<'_>, request: AbortRequest<'_>) -> Result<Aborted, Error> {
    let found = find_interrupted(process.site, Some(request.run))?;
    let guards = guards_of(process, &found, request.checkout)?;
    let take_over = TakeOver {
        dead: request.take_over_dead,
        longest_request: backend::longest_request(&guards),
    };
    let look = |begun: &Begun| request.look(process, &found, begun);
    Ok(run::abort(process, request.run, take_over, &look)?)
}

/// Aborts a run that is divided among workers: no worker sends anything more before it is written that it was aborted.
///
/// # Errors
///
/// Those of [`run::abort_run`]; the documents of its commit cannot be loaded.
pub fn abort_run(
    process: Process<'_>,
    interrupted: &Interrupted,
    request: AbortRequest<'_>,
) -> Result<Aborted, Error> {
    let guards = guards_of(process, interrupted, request.checkout)?;
    let longest = backend::longest_request(&guards);
    let look = |begun: &Begun| request.look(process, interrupted, begun);
    Ok(run::abort_run(process, interrupted, longest, &look)?)
}

/// Deploys that had begun, each with its notes.
type Begun = BTreeMap<StepId, Vec<Arc<str>>>;

impl AbortRequest<'_> {
    /// The deploys that are done, as the machines show. Where none can be asked, that is told, and none is.
    fn look(&self, process: Process<'_>, found: &Interrupted, begun: &Begun) -> BTreeSet<StepId> {
        let equipped = in_history(self.checkout, found.commit).and_then(|()| {
            let plan = plan_of(found)?;
            let site = process.site;
            equip(self.client, self.checkout, site, found, plan, Purpose::End)
        });
        match equipped {
            Ok(equipped) => self.done(&equipped, found, begun),
            Err(why) => {
                self.untold(&why, begun.len());
                BTreeSet::new()
            }
        }
    }

    fn untold(&self, why: &Failure, machines: usize) {
        let machines = crate::diagnostic::counted(machines, "machine", "machines");
        self.client.tell(&format!(
            "warning: {machines} whose deploy had begun could not be observed, and count as half-done: {why}"
        ));
    }

    fn done(&self, equipped: &Equipped, found: &Interrupted, begun: &Begun) -> BTreeSet<StepId> {
        let (plan, hardware) = (&equipped.plan, &equipped.hardware);
        let positions = plan.positions();
        let orders = begun.iter().filter_map(|(id, notes)| {
            let step = &plan.steps[*positions.get(id)?];
            Some(Order {
                leaving: Arc::default(),
                run: found.record.run.clone(),
                step: Arc::new(step.clone()),
                node: equipped.guarded.nodes.get(id.node.as_ref()?).cloned(),
                notes: notes.clone(),
                reporter: Reporter::default(),
            })
        });
        let looks = orders.map(|order| async move {
            let probe = tokio::time::timeout(LONGEST_LOOK, hardware.probe(&order)).await;
            let taken = tokio::time::timeout(LONGEST_LOOK, hardware.take_back(&order)).await;
            let left = match taken {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("no answer in {} s", LONGEST_LOOK.as_secs())),
            };
            (order.step.id.clone(), probe == Ok(Probe::Done), left)
        });
        let asks = async {
            let looks = futures_util::stream::iter(looks).buffer_unordered(LOOKS_AT_ONCE);
            let found: Vec<(StepId, bool, Option<String>)> =
                hardware.in_time(looks.collect()).await;
            found
        };
        let mut done = BTreeSet::new();
        for (id, is_done, left) in driven(self.client, &equipped.runtime, asks) {
            if let Some(left) = left {
                self.client.tell(&format!(
                    "warning: boot override or image of `{id}` cannot be taken back, so that its machine may be installed \
                     anew at its next start; `trueup apply power on` takes them back first: {left}"
                ));
            }
            if is_done {
                done.insert(id);
            }
        }
        done
    }
}

/// The guards that the documents of the commit of a run say.
fn guards_of(
    process: Process<'_>,
    found: &Interrupted,
    checkout: &Checkout<'_>,
) -> Result<Arc<Guards>, Error> {
    let site = process.site;
    let at = At::Commit(found.commit);
    let definition = &checkout.location.definition;
    let folder = definition.rsplit_once('/').map_or("", |(folder, _)| folder);
    let location = locate_at(site.repository, at, folder, &site.name)?;
    Ok(Loader::new(site.repository)
        .load(&location, at, AS_APPLIED)?
        .documented_guards)
}
