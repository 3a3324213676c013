//! The loop of one remediation: one task after the other, each with its bound, until the machine is back or the last attempt failed.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

use super::LiveNode;
use super::holder::{Holder, HostSeen};
use crate::backend::{ActError, Cluster, Order};
use crate::design::NodeDesign;
use crate::remediation::{
    AttemptProgress, MachineSeen, Memory, NodeSeen, Note, Power, Release, RemediationLimits, Task,
    Tried, after_failure, next,
};
use crate::step::{
    Parameters, RemoveFromClusterParameters, RestoreNodeParameters, SetOutOfServiceParameters,
    Step, StepId, StepKind, UnsetOutOfServiceParameters,
};

/// The interval between two polls of a node.
const PACE: Duration = Duration::from_secs(10);

/// How long a backend may be away before the attempt has failed.
const OUTAGE: Duration = Duration::from_secs(300);

/// The wait after a backend did not answer.
const AFTER_OUTAGE: Duration = Duration::from_secs(5);

/// The most tasks of one attempt, without the polls of a node that is to come back, which have a bound of their own: far more
/// than any way through the table has.
const TASKS: u32 = 40;

/// A part of a remediation, as an order of its own: named after its attempt, so that two attempts are two
/// orders.
pub(super) fn part(
    order: &Order,
    kind: StepKind,
    attempt: u32,
    bound: Duration,
    parameters: Option<Parameters>,
) -> Order {
    let step = Step {
        id: StepId {
            kind,
            group: None,
            node: order.step.id.node.clone(),
            wave: Some(attempt),
        },
        timeout: bound.as_secs(),
        effect: kind.facts().effect,
        standby: false,
        parameters: parameters.map(Arc::new),
        needs: Vec::new(),
    };
    Order {
        step: Arc::new(step),
        notes: Vec::new(),
        ..order.clone()
    }
}

/// One machine on its way.
pub(super) struct Walk<'a> {
    pub(super) order: &'a Order,
    pub(super) node: &'a NodeDesign,
    pub(super) cluster: &'a dyn Cluster,
    pub(super) holder: &'a dyn Holder,
    pub(super) limits: RemediationLimits,
    pub(super) memory: Memory,
    /// When the host was first observed off in this attempt: the clock of the attempt starts there.
    pub(super) seen_off: Option<Instant>,
    /// Two samples, and every one since, were off.
    pub(super) is_off: bool,
    /// The UIDs of nodes observed Ready, and voting if they are members.
    pub(super) confirmed: BTreeSet<Arc<str>>,
}

/// The observed state of one iteration.
struct Sight {
    seen: MachineSeen,
    node: Option<LiveNode>,
    host: HostSeen,
}

impl Walk<'_> {
    /// Walks until the machine is back.
    pub(super) async fn run(mut self) -> Result<(), ActError> {
        self.recall().await?;
        if self.memory.attempt == 0 {
            self.begin(1).await?;
        }
        loop {
            let Err(failure) = self.attempt().await else {
                return match self.memory.given_up.clone() {
                    None => self.end().await,
                    Some(reason) => self.abort(reason).await,
                };
            };
            // A failure to persist or to report ends the step.
            let (reason, is_last) = match failure {
                Failure::Attempt(reason) => (reason, false),
                Failure::Last(reason) => (reason, true),
                Failure::Run(error) => return Err(error),
            };
            if self.memory.given_up.is_some() {
                return self.abort(reason).await;
            }
            let tried = match is_last {
                true => Tried::Enough,
                false => after_failure(self.memory.attempt, &self.limits),
            };
            match tried {
                Tried::Again { attempt, after } => {
                    let text = format!(
                        "attempt {} of {} failed: {reason}; the next begins in {} s",
                        self.memory.attempt,
                        self.limits.attempts,
                        after.as_secs()
                    );
                    self.order.reporter.progress(text);
                    self.note(Note::AttemptFailed { reason }).await?;
                    sleep(after).await;
                    self.begin(attempt).await?;
                }
                Tried::Enough => {
                    self.note(Note::GivenUp { reason }).await?;
                    self.patiently(|| self.holder.unmark()).await?;
                }
            }
        }
    }

    /// Takes in what is kept beside the notes: those of a process elsewhere are not at hand.
    async fn recall(&mut self) -> Result<(), ActError> {
        let host = self.patiently(|| self.holder.look()).await?;
        if host.attempt > self.memory.attempt {
            let number = host.attempt;
            self.memory.take(&Note::Attempt { number });
        }
        if self.memory.backup.is_none() {
            self.memory.backup = host.backup;
        }
        Ok(())
    }

    async fn begin(&mut self, attempt: u32) -> Result<(), ActError> {
        // Marked before it is noted: after a crash in between the mark is found, and the attempt begins again.
        self.patiently(|| self.holder.mark(attempt)).await?;
        self.note(Note::Attempt { number: attempt }).await?;
        self.seen_off = None;
        self.confirmed.clear();
        Ok(())
    }

    /// One attempt, to its end: the machine is back, or was released after the last attempt failed.
    async fn attempt(&mut self) -> Result<(), Failure> {
        let mut tasks = 0;
        while tasks < TASKS {
            let sight = self.look().await?;
            if let Some(refused) = &sight.host.refused {
                return Err(Failure::Run(ActError::Permanent(refused.clone())));
            }
            let task = next(&sight.seen, &self.memory);
            if task == Task::Nothing || self.is_back(&task, &sight) {
                return Ok(());
            }
            tasks += u32::from(task != Task::AwaitNode);
            self.carry_out(task, &sight).await?;
        }
        Err(Failure::Attempt(
            "another client undoes each change again and again".into(),
        ))
    }

    fn is_back(&self, task: &Task, sight: &Sight) -> bool {
        let confirmed =
            |node: &LiveNode| self.confirmed.contains(&node.uid) && !node.out_of_service;
        *task == Task::AwaitReady && sight.node.as_ref().is_some_and(confirmed)
    }

    /// Observes node, host and annotations. If the power decides, two samples are taken.
    async fn look(&mut self) -> Result<Sight, Failure> {
        let mut host = self.patiently(|| self.holder.look()).await?;
        let first = host.powered_on.clone().ok();
        let power = if first == Some(false) && !self.is_off {
            sleep(Duration::from_secs(self.limits.settling)).await;
            host = self.patiently(|| self.holder.look()).await?;
            Power::of(first, host.powered_on.clone().ok())
        } else {
            Power::of(first, first)
        };
        self.is_off = power == Power::Off;
        if self.is_off && self.seen_off.is_none() {
            self.seen_off = Some(Instant::now());
        }
        let name = &self.node.name;
        let node = self.patiently(|| self.cluster.node(name)).await?;
        let seen = MachineSeen {
            node: node.as_ref().map(|node| NodeSeen {
                uid: node.uid.clone(),
                ready: node.ready,
                out_of_service: node.out_of_service && self.memory.released.contains(&node.uid),
            }),
            needs_remediation: host.needs_remediation,
            power,
            reboot_annotation: host.reboot_annotation,
        };
        Ok(Sight { seen, node, host })
    }

    async fn carry_out(&mut self, task: Task, sight: &Sight) -> Result<(), Failure> {
        let attempt = self.memory.attempt;
        self.report_task(&task);
        let (off, on) = (self.limits.power_off, self.limits.power_on);
        match task {
            Task::Hold => self.done(self.holder.hold()).await?,
            Task::AwaitOff => {
                let bound = Duration::from_secs(off);
                let wait = self.holder.await_off(attempt, bound);
                within(bound, wait, "the host was not observed off").await?;
            }
            Task::BackUp(uid) => {
                let Some(node) = sight.node.as_ref().filter(|node| node.uid == uid) else {
                    return Ok(());
                };
                let backup = node.backup.clone();
                self.note(Note::BackedUp { uid, backup }).await?;
                if let Some(backup) = &self.memory.backup {
                    self.done(self.holder.keep(backup)).await?;
                }
            }
            Task::Release(uid) => self.release(uid).await?,
            Task::Unmark => {
                self.done(self.holder.unmark()).await?;
                self.memory.take(&Note::Unmarked);
            }
            Task::LetGo => {
                self.done(self.holder.let_go()).await?;
                self.memory.take(&Note::LetGo);
                self.is_off = false;
            }
            Task::AwaitOn | Task::Stuck => {
                let bound = Duration::from_secs(on);
                let wait = self.holder.await_on(attempt, bound);
                within(bound, wait, "the host was not observed on").await?;
                self.is_off = false;
            }
            Task::AwaitNode => {
                if self.left().is_zero() {
                    return Err(self.not_back("the cluster has no node of it"));
                }
                sleep(PACE.min(self.left())).await;
            }
            Task::Restore => self.restore(sight).await?,
            Task::AwaitReady => self.await_ready(sight).await?,
            Task::Nothing => {}
        }
        Ok(())
    }

    /// Deletes the node: no workload that ran there is waited for any more.
    async fn release(&mut self, uid: Arc<str>) -> Result<(), Failure> {
        self.note(Note::Releasing { uid: uid.clone() }).await?;
        let (node_uid, machine_is_off) = (Some(uid.clone()), true);
        let (kind, parameters) = match self.limits.method {
            Release::DeleteNode => {
                let parameters = RemoveFromClusterParameters {
                    node_uid,
                    machine_is_off,
                    ..RemoveFromClusterParameters::default()
                };
                (StepKind::RemoveFromCluster, parameters.into())
            }
            Release::OutOfService => {
                let parameters = SetOutOfServiceParameters {
                    node_uid,
                    machine_is_off,
                };
                (StepKind::SetOutOfService, parameters.into())
            }
        };
        match self.act_on_node(kind, parameters).await {
            Ok(Ok(())) => Ok(self.note(Note::Released { uid }).await?),
            Ok(Err(ActError::Permanent(reason) | ActError::Refused(reason))) => {
                Err(Failure::Last(reason))
            }
            Ok(Err(ActError::Passing(reason) | ActError::Ambiguous(reason))) => {
                Err(Failure::Attempt(reason))
            }
            Err(_) => Err(Failure::Attempt("its node was not released in time".into())),
        }
    }

    /// Restores labels, taints and annotations of the node before, and drops the backup once they are observed.
    async fn restore(&mut self, sight: &Sight) -> Result<(), Failure> {
        let (Some(node), Some(backup)) = (&sight.node, &self.memory.backup) else {
            return Ok(());
        };
        if !backup.missing_on(&node.backup).is_empty() {
            let parameters = RestoreNodeParameters {
                node_uid: Some(node.uid.clone()),
                backup: Some(Box::new(backup.clone())),
            };
            self.on_living(StepKind::RestoreNode, parameters.into())
                .await?;
        }
        // Everything was observed there, or the write was confirmed.
        self.note(Note::Restored).await?;
        self.done(self.holder.drop_kept()).await
    }

    /// Does something to a node that is back. If that fails, the machine is not switched off again for it.
    async fn on_living(&self, kind: StepKind, parameters: Parameters) -> Result<(), Failure> {
        let late = || ActError::Passing(format!("`{kind}` did not end in time").into());
        let ended = self.act_on_node(kind, parameters).await;
        ended.unwrap_or_else(|_| Err(late())).map_err(Failure::Run)
    }

    /// Carries out a part of the step on the node, within the time of a release.
    async fn act_on_node(
        &self,
        kind: StepKind,
        parameters: Parameters,
    ) -> Result<Result<(), ActError>, Elapsed> {
        let bound = Duration::from_secs(self.limits.release);
        let order = part(
            self.order,
            kind,
            self.memory.attempt,
            bound,
            Some(parameters),
        );
        timeout(bound, self.cluster.act(&order)).await
    }

    async fn await_ready(&mut self, sight: &Sight) -> Result<(), Failure> {
        let Some(node) = &sight.node else {
            return Ok(());
        };
        if self.confirmed.contains(&node.uid) {
            let parameters = UnsetOutOfServiceParameters {
                node_uid: Some(node.uid.clone()),
            };
            return self
                .on_living(StepKind::UnsetOutOfService, parameters.into())
                .await;
        }
        let bound = self.left();
        if bound.is_zero() {
            return Err(self.not_back("its node is not Ready"));
        }
        let kind = StepKind::AwaitReady;
        let order = part(self.order, kind, self.memory.attempt, bound, None);
        within(bound, self.cluster.act(&order), "it did not come back").await?;
        self.confirmed.insert(node.uid.clone());
        Ok(())
    }

    /// How much time is left for the node to be back.
    fn left(&mut self) -> Duration {
        let began = *self.seen_off.get_or_insert_with(Instant::now);
        Duration::from_secs(self.limits.ready).saturating_sub(began.elapsed())
    }

    fn not_back(&self, what: &str) -> Failure {
        Failure::Attempt(format!("{what}, {} s after the host was off", self.limits.ready).into())
    }

    async fn done(&self, task: impl Future<Output = Result<(), ActError>>) -> Result<(), Failure> {
        match task.await {
            Ok(()) => Ok(()),
            // It is observed again, and retried if it was not done.
            Err(ActError::Passing(reason) | ActError::Ambiguous(reason)) => {
                self.order.reporter.progress(reason);
                sleep(AFTER_OUTAGE).await;
                Ok(())
            }
            Err(error) => Err(Failure::Run(error)),
        }
    }

    /// Retries until there is an answer, or the backend was away for too long.
    async fn patiently<'f, T>(
        &self,
        ask: impl Fn() -> crate::backend::Pending<'f, Result<T, ActError>>,
    ) -> Result<T, ActError> {
        let began = Instant::now();
        loop {
            match ask().await {
                Err(ActError::Passing(reason) | ActError::Ambiguous(reason))
                    if began.elapsed() < OUTAGE =>
                {
                    self.order
                        .reporter
                        .progress(format!("waiting for an answer: {reason}"));
                    sleep(AFTER_OUTAGE).await;
                }
                answer => return answer,
            }
        }
    }

    async fn note(&mut self, note: Note) -> Result<(), ActError> {
        self.order.reporter.note(note.to_text()).await?;
        self.memory.take(&note);
        Ok(())
    }

    async fn end(&self) -> Result<(), ActError> {
        self.patiently(|| self.holder.end(None)).await
    }

    async fn abort(&self, reason: Arc<str>) -> Result<(), ActError> {
        self.patiently(|| self.holder.end(Some(&reason))).await?;
        let attempts = self.memory.attempt;
        let times = if attempts == 1 { "attempt" } else { "attempts" };
        Err(ActError::Permanent(
            format!("remediation failed after {attempts} {times}: {reason}").into(),
        ))
    }

    fn report_task(&self, task: &Task) {
        let Some(activity) = task.activity(self.limits.method) else {
            return;
        };
        let progress = AttemptProgress {
            attempt: self.memory.attempt,
            activity,
        };
        self.order.reporter.progress(progress.to_string());
    }
}

/// Why an attempt ended.
enum Failure {
    /// It failed, and another one may not.
    Attempt(Arc<str>),
    /// It failed, and another one would fail too: the machine is unfenced.
    Last(Arc<str>),
    /// Nothing more may be tried now.
    Run(ActError),
}

impl From<ActError> for Failure {
    fn from(error: ActError) -> Self {
        Self::Run(error)
    }
}

/// Waits for a part, not beyond its bound; a part that fails for good is an attempt that failed.
async fn within(
    bound: Duration,
    task: impl Future<Output = Result<(), ActError>>,
    too_late: &str,
) -> Result<(), Failure> {
    match timeout(bound, task).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(
            ActError::Permanent(reason)
            | ActError::Passing(reason)
            | ActError::Ambiguous(reason)
            | ActError::Refused(reason),
        )) => Err(Failure::Attempt(reason)),
        Err(_) => Err(Failure::Attempt(
            format!("{too_late} within {} s", bound.as_secs()).into(),
        )),
    }
}
