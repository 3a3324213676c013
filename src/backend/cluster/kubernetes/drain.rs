//! Drains a node: cordoned, then emptied through the eviction API, so that budgets hold.
//!
//! Pods are listed once and watched from there on, so that a pod that goes is noticed at once and one
//! that comes later is evicted too; the end is a list that holds none. A budget that refuses is watched,
//! and its pods are evicted when its status has changed; any other refusal is waited out and asked for
//! again until the step's time is over: nothing is ever deleted but if a person chose so. Then, while
//! the kubelet is still there to detach them, the node's volumes are waited for.
//!
//! A server that goes away for a while is waited for; evictions requested before are found when
//! it is back, since a terminating pod has a deletion timestamp.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use super::PODS;
use super::allowance::{Allowances, Asked};
use super::conditions::{self, Maintenance};
use super::course::Course;
use super::discovery;
use super::endpoints::guard;
use super::evict::{Answer, delay, evict, waits};
use super::eviction_request::{self, Progress, Requested};
use super::force::{abandon, force};
use super::lease;
use super::node::{cordon, leave_cordoned};
use super::node_step::{NAMED, NodeStep, Outage, PACE, PARALLEL, conflict, count};
use super::object::Pod;
use super::pods::name;
use super::volumes::{awaited, release};
use crate::backend::api_server::{ApiError, Event, Watch};
use crate::backend::retry::Waits;
use crate::backend::{ActError, Pending, Probe};
use crate::design::NodeName;
use crate::observed::PodName;
use crate::step::{FailureReason, LeftPods, OnDrainTimeout, kubelet_silence};

/// Seconds that pods are given to end, if nothing else is said (airship-node-teardown).
const GRACE: u64 = 1800;

/// The longest time that is kept for deleting what is left.
const LONGEST_RESERVE: Duration = Duration::from_secs(60);

/// How long nothing more is said of what is left.
const BETWEEN_WORDS: Duration = Duration::from_secs(1);

/// How long a budget that refused is waited for before it is asked again all the same, since a change
/// may not have been heard of.
const UNHEARD: Duration = Duration::from_secs(120);

/// How often the node is read while nothing but its kubelet is waited for.
const NODE_PACE: Duration = Duration::from_secs(15);

/// Whether the kubelet of the node reports, as long as nothing but it is waited for.
#[derive(Debug)]
struct KubeletWatch {
    /// The first and the last of the readings that found it silent, none between them another.
    silent: Option<(Instant, Instant)>,
    /// When the node is read again.
    due: Instant,
}

impl KubeletWatch {
    /// Takes a reading in.
    fn note_silence(&mut self, is_silent: bool, now: Instant) {
        let since = self.silent.map_or(now, |(since, _)| since);
        self.silent = is_silent.then_some((since, now));
    }

    /// How long it was silent as far as it was read: time in which nothing was read is no silence.
    fn silence(&self) -> Duration {
        self.silent
            .map_or(Duration::ZERO, |(since, last)| last - since)
    }
}

/// A pod that has to leave.
#[derive(Debug)]
struct Left {
    pod: PodName,
    /// It is on its way.
    going: bool,
    /// An eviction is being asked for.
    asked: bool,
    /// How far its eviction request is.
    requested: Requested,
    /// Those after refusals.
    waits: Waits,
    due: Instant,
    /// The reason why it is not evicted yet.
    held: Option<Arc<str>>,
    /// It waits until a budget has changed; by `due` it is asked for all the same.
    awaits_budget: bool,
    /// By which budgets select it.
    labels: Arc<BTreeMap<String, String>>,
    ready: bool,
    /// By a rule, or by its label.
    course: Course,
}

type Flight = Pending<'static, (Arc<str>, Asked, Result<Answer, ApiError>)>;
type Request = Pending<'static, (Arc<str>, Result<Progress, ApiError>)>;

struct Drain<'e, 'a> {
    step: &'e NodeStep<'a>,
    version: Arc<str>,
    grace: u64,
    /// By UID.
    left: BTreeMap<Arc<str>, Left>,
    /// Pods that stay by a rule or by their label.
    skipped: BTreeSet<PodName>,
    flights: FuturesUnordered<Flight>,
    /// The server has eviction requests.
    has_requests: bool,
    requests: FuturesUnordered<Request>,
    budgets: Allowances,
    outage: Outage,
    kubelet: KubeletWatch,
    told: Option<Instant>,
    /// When the lease on the node was renewed.
    renewed: Instant,
    /// Something may have happened since.
    has_news: bool,
}

/// Whether the node is cordoned and empty, or on its way there by this run.
pub(super) async fn probe(step: &NodeStep<'_>) -> Result<Probe, ApiError> {
    let node = match step.meant_or_gone().await? {
        Ok(node) => node,
        Err(probe) => return Ok(probe),
    };
    if !node.spec.unschedulable {
        return Ok(Probe::NotBegun);
    }
    let (pods, _) = step.pods().await?;
    let empty = pods.iter().all(|pod| !step.course(pod).leaves());
    let by = node.cordoned_by().map(|by| &**by);
    let ours = by == Some(step.order.run.as_str());
    // A cordon of an earlier run is taken over, so that its mark and the records name the same run.
    let is_taken = ours || by.is_none();
    Ok(if is_taken && empty && awaited(step).await?.is_empty() {
        Probe::Done
    } else if ours {
        Probe::UnderWay
    } else {
        Probe::NotBegun
    })
}

/// Cordons, evicts, and waits for pods and volumes. A drain that has failed for good is at work no more.
pub(super) async fn act(step: &NodeStep<'_>) -> Result<(), ActError> {
    let ended = drain(step).await;
    match &ended {
        Err(ActError::Permanent(_)) => leave_cordoned(step).await,
        // A step that is retried finds its requests.
        Err(_) => {}
        Ok(()) => eviction_request::withdraw(step).await,
    }
    ended
}

async fn drain(step: &NodeStep<'_>) -> Result<(), ActError> {
    let grace = step.given.grace_period().unwrap_or(GRACE);
    let timeout = step.timeout();
    if timeout > 0 && grace >= timeout {
        let text = format_args!(
            "pods have {grace} s to end, which must be less than the {timeout} s of the drain"
        );
        return Err(ActError::Permanent(FailureReason::BadRequest.message(text)));
    }
    let node = step.present().await?;
    if *step.given.node_is_gone() {
        return abandon(step, &node).await;
    }
    guard(step, &node).await?;
    let others = match conditions::of_others(&node.status) {
        None => lease::take(step, &node.metadata.uid).await,
        some => some,
    };
    if let Some(by) = others {
        let why = format!("another maintainer is at work on it ({by})");
        let refused = conflict(step, &why).to_string();
        return Err(ActError::Refused(refused.into()));
    }
    cordon(step, &node)
        .await
        .map_err(|error| step.act_error(error))?;
    conditions::set(step, &node, Maintenance::Draining).await;
    let version = discovery::eviction(&step.server).await;
    let mut drain = Drain {
        step,
        version: version.map_err(|error| step.act_error(error))?.into(),
        grace,
        left: BTreeMap::new(),
        skipped: BTreeSet::new(),
        flights: FuturesUnordered::new(),
        has_requests: eviction_request::are_served(&step.server).await,
        requests: FuturesUnordered::new(),
        budgets: Allowances::none(),
        outage: Outage::none(),
        kubelet: KubeletWatch {
            silent: None,
            due: Instant::now(),
        },
        told: None,
        renewed: Instant::now(),
        has_news: false,
    };
    if !drain.empty().await? {
        let left = describe(drain.left.values());
        match step.on_timeout() {
            OnDrainTimeout::Fail => {
                let pods = count(drain.left.len(), "pod");
                let text = match drain.is_endless() {
                    true => format!(
                        "{pods} left that would not end, since the kubelet of `{}` is silent: {left}; \
                         `--on-drain-timeout force-delete` deletes them, and so does `--node-is-gone {}` when the machine is off",
                        step.node,
                        step.order
                            .step
                            .id
                            .node
                            .as_ref()
                            .map_or(&*step.node, NodeName::as_str)
                    ),
                    false => format!("{pods} left after {timeout} s: {left}"),
                };
                return Err(step.failure(text + &drain.stay()));
            }
            OnDrainTimeout::Continue => {
                step.progress(format!("continuing without having evicted {left}"));
                let pods = drain.left.values();
                let pods = pods.map(|left| format!("{}/{}", left.pod.namespace, left.pod.name));
                let left = LeftPods::new(pods);
                return step.order.reporter.note(left.to_note()).await;
            }
            OnDrainTimeout::ForceDelete => {
                step.progress(format!("deleting without regard to budgets: {left}"));
                force(step).await?;
            }
        }
    }
    if !drain.skipped.is_empty() {
        step.progress(format!("drained{}", drain.stay()));
    }
    release(step).await?;
    lease::renew(step).await;
    if let Ok(Some(node)) = step.meant().await {
        conditions::set(step, &node, Maintenance::Drained).await;
    }
    Ok(())
}

impl Drain<'_, '_> {
    /// Until when pods are evicted.
    fn end(&self) -> Option<Instant> {
        let reserve = match self.step.on_timeout() {
            OnDrainTimeout::ForceDelete => {
                LONGEST_RESERVE.min(Duration::from_secs(self.step.timeout()) / 4)
            }
            OnDrainTimeout::Fail | OnDrainTimeout::Continue => Duration::ZERO,
        };
        Some(self.step.deadline()? - reserve)
    }

    fn is_over(&self) -> bool {
        self.is_endless() || self.end().is_some_and(|end| Instant::now() >= end)
    }

    /// Whether the pods that are left wait for a kubelet that has been silent for too long.
    fn is_endless(&self) -> bool {
        self.kubelet.silence() >= kubelet_silence(self.step.timeout())
    }

    /// Whether all that is left has been evicted, and has only to be ended by the kubelet.
    fn awaits_kubelet(&self) -> bool {
        !self.left.is_empty() && self.left.values().all(|left| left.going)
    }

    /// Reads the node, if only its kubelet is waited for. A server that does not answer tells nothing of the kubelet.
    async fn watch_kubelet(&mut self) {
        if !self.awaits_kubelet() {
            self.kubelet.silent = None;
            return;
        }
        if Instant::now() < self.kubelet.due {
            return;
        }
        let pace = self
            .step
            .order
            .time()
            .map_or(NODE_PACE, |time| NODE_PACE.min(time / 8));
        self.kubelet.due = Instant::now() + pace;
        match self.step.meant().await {
            Ok(node) => {
                let is_silent = node.is_some_and(|node| node.status.is_silent());
                self.kubelet.note_silence(is_silent, Instant::now());
            }
            Err(error) => log::debug!("whether the kubelet reports could not be read: {error}"),
        }
    }

    /// Empties the node; whether it is empty, or time is over.
    async fn empty(&mut self) -> Result<bool, ActError> {
        loop {
            if self.is_over() {
                return Ok(self.left.is_empty());
            }
            let listed = self.step.pods().await;
            let began = Instant::now();
            let (pods, version) = match listed {
                Ok(listed) => listed,
                Err(error) => {
                    self.outage.retry_after(self.step, error).await?;
                    continue;
                }
            };
            self.outage.ends();
            if self.renewed.elapsed() > lease::DURATION / 4 {
                self.renewed = Instant::now();
                lease::renew(self.step).await;
            }
            self.adopt(pods);
            if self.left.is_empty() {
                return Ok(true);
            }
            let fields = format!("spec.nodeName={}", self.step.node);
            match Watch::open(&self.step.server, PODS, Some(&fields), &version).await {
                Ok(watch) => self.follow(watch).await?,
                // The list was too old already.
                Err(error) if error.code() == Some(410) => {}
                Err(error) => self.outage.retry_after(self.step, error).await?,
            }
            // A watch that breaks at once must not become a storm of lists.
            if !self.left.is_empty() && began.elapsed() < PACE / 2 {
                self.step.pause(PACE / 4).await;
            }
        }
    }

    /// Evicts while the watch lasts.
    async fn follow(&mut self, mut watch: Watch<Pod>) -> Result<(), ActError> {
        while !self.left.is_empty() && !self.is_over() {
            if self.budgets.open(&self.step.server).await {
                self.release(|_| true);
            }
            self.ask();
            self.watch_kubelet().await;
            self.tell();
            let now = Instant::now();
            let free = self.flights.len() + self.requests.len() < PARALLEL;
            let order = self.order();
            let waiting = self.left.values();
            let waiting = waiting.filter(|left| free && left.is_askable(order));
            let due = waiting.map(|left| left.due).min();
            let told = self.told.filter(|_| self.has_news);
            let next = told.map(|told| told + BETWEEN_WORDS);
            let kubelet = self.awaits_kubelet().then_some(self.kubelet.due);
            let wake = [due, self.end(), next, kubelet].into_iter().flatten().min();
            let wake = wake
                .unwrap_or(now + PACE * 30)
                .max(now + Duration::from_millis(1));
            tokio::select! {
                event = watch.next() => match event {
                    Some(Event::There(pod)) => self.see(&pod),
                    Some(Event::Gone(pod)) => {
                        self.left.remove(&pod.metadata.uid);
                    }
                    None => return Ok(()),
                },
                changed = self.budgets.next() => if let Some(changed) = changed {
                    self.release(|left| {
                        left.pod.namespace == changed.namespace && changed.is_about(&left.labels)
                    });
                },
                Some((uid, asked, answer)) = self.flights.next(), if !self.flights.is_empty() => {
                    self.take_answer(&uid, &asked, answer)?;
                }
                Some((uid, progress)) = self.requests.next(), if !self.requests.is_empty() => {
                    self.take_progress(&uid, progress)?;
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        Ok(())
    }

    /// Takes a whole list over: what is not in it is gone.
    fn adopt(&mut self, pods: Vec<Pod>) {
        let mut before = std::mem::take(&mut self.left);
        for pod in pods {
            if let Some(left) = before.remove(&pod.metadata.uid) {
                self.left.insert(pod.metadata.uid.clone(), left);
            }
            self.see(&pod);
        }
    }

    /// Takes a pod in as it is now.
    fn see(&mut self, pod: &Pod) {
        let uid = &pod.metadata.uid;
        let course = self.step.course(pod);
        match course {
            Course::Skipped => {
                self.skipped.insert(name(pod));
            }
            Course::Stays | Course::Evicted(_) | Course::Awaited => {}
        }
        if !course.leaves() {
            self.left.remove(uid);
            return;
        }
        let going = pod.metadata.deletion_timestamp.is_some();
        let left = self.left.entry(uid.clone()).or_insert_with(|| Left {
            pod: name(pod),
            going,
            asked: false,
            requested: Requested::Not,
            waits: waits(&name(pod)),
            due: Instant::now(),
            held: None,
            awaits_budget: false,
            labels: Arc::new(pod.metadata.labels.clone()),
            ready: pod.status.is_ready(),
            course,
        });
        left.course = course;
        left.going |= going;
        if left.ready && !pod.status.is_ready() && left.awaits_budget {
            // A budget may spare what is not ready.
            left.awaits_budget = false;
            left.due = Instant::now();
        }
        left.ready = pod.status.is_ready();
    }

    /// Has pods that waited for a budget asked for again.
    fn release(&mut self, is_meant: impl Fn(&Left) -> bool) {
        let now = Instant::now();
        let waiting = self.left.values_mut();
        for left in waiting.filter(|left| left.awaits_budget && is_meant(left)) {
            left.awaits_budget = false;
            left.due = now;
        }
    }

    /// The order of the pods whose turn it is: the lowest that is left.
    fn order(&self) -> i32 {
        let orders = self.left.values().map(|left| left.course.order());
        orders.min().unwrap_or_default()
    }

    /// Asks for the evictions that are due.
    fn ask(&mut self) {
        let now = Instant::now();
        let order = self.order();
        for (uid, left) in &mut self.left {
            if self.flights.len() + self.requests.len() >= PARALLEL {
                return;
            }
            if !left.is_askable(order) || left.due > now {
                continue;
            }
            let (server, pod, uid) = (self.step.server.clone(), left.pod.clone(), uid.clone());
            if self.has_requests && left.requested != Requested::Declined {
                left.asked = true;
                let (node, is_made) = (self.step.node.clone(), left.requested != Requested::Not);
                self.requests.push(Box::pin(async move {
                    let progress = eviction_request::ask(&server, &node, &pod, is_made).await;
                    (uid, progress)
                }));
                continue;
            }
            // What waited for so long that a change may have been missed, or is not ready, is asked for.
            let is_forced = left.awaits_budget || !left.ready;
            let allowance = self
                .budgets
                .ask(&left.pod.namespace, &left.labels, is_forced);
            let asked = match allowance {
                Ok(asked) => asked,
                Err(by) => {
                    left.await_budget(by);
                    continue;
                }
            };
            left.awaits_budget = false;
            left.asked = true;
            let (version, grace) = (self.version.clone(), self.grace);
            self.flights.push(Box::pin(async move {
                let answer = evict(&server, &version, &pod, grace).await;
                (uid, asked, answer)
            }));
        }
    }

    /// Takes an answer in.
    fn take_answer(
        &mut self,
        uid: &Arc<str>,
        asked: &Asked,
        answer: Result<Answer, ApiError>,
    ) -> Result<(), ActError> {
        let waits = self.budgets.answered(asked, answer.as_ref().ok());
        if !waits {
            // The budget may allow another.
            self.release(|left| left.pod.namespace == asked.namespace);
        }
        let answer = match answer {
            Ok(answer) => {
                self.outage.ends();
                answer
            }
            Err(error) => {
                // The answer may be lost and the eviction done: then the pod is terminating, or a second request does nothing.
                self.outage.note(self.step, error)?;
                Answer::Busy(0)
            }
        };
        let Some(left) = self.left.get_mut(uid) else {
            return Ok(());
        };
        left.asked = false;
        let asked = match answer {
            Answer::Budget(by) if waits => {
                left.await_budget(by);
                return Ok(());
            }
            Answer::Accepted => {
                left.going = true;
                left.held = None;
                return Ok(());
            }
            Answer::Gone => {
                self.left.remove(uid);
                return Ok(());
            }
            Answer::Budget(by) | Answer::Held(by) => {
                left.held = Some(by);
                0
            }
            Answer::Busy(seconds) => seconds,
        };
        left.due = Instant::now() + delay(&mut left.waits, asked);
        Ok(())
    }

    /// Takes the progress of an eviction request in.
    fn take_progress(
        &mut self,
        uid: &Arc<str>,
        progress: Result<Progress, ApiError>,
    ) -> Result<(), ActError> {
        let progress = progress.map_err(|error| (error.to_string(), error));
        let told = match progress {
            Ok(progress) => {
                self.outage.ends();
                Ok(progress)
            }
            Err((text, error)) => {
                self.outage.note(self.step, error)?;
                Err(text)
            }
        };
        let Some(left) = self.left.get_mut(uid) else {
            return Ok(());
        };
        left.asked = false;
        left.due = Instant::now() + eviction_request::PACE;
        left.held = Some(match told {
            Ok(progress) => left.requested.take(progress),
            Err(text) => text.into(),
        });
        if left.requested == Requested::Declined {
            left.due = Instant::now();
        }
        Ok(())
    }

    /// The pods that stay by a rule or by their label, behind a text.
    fn stay(&self) -> String {
        match self.skipped.len() {
            0 => String::new(),
            count => {
                let names = self.skipped.iter().take(NAMED);
                let names = names.map(|pod| format!("{}/{}", pod.namespace, pod.name));
                let mut names: Vec<String> = names.collect();
                if count > NAMED {
                    names.push(format!("{} more", count - NAMED));
                }
                format!("; skipped: {}", names.join(", "))
            }
        }
    }

    /// Reports the pods that are left, at most once a second.
    fn tell(&mut self) {
        let now = Instant::now();
        self.has_news = self.told.is_some_and(|told| now - told < BETWEEN_WORDS);
        if self.has_news {
            return;
        }
        let held = self
            .left
            .values()
            .filter(|left| left.held.is_some())
            .count();
        let text = match held {
            0 => format!(
                "{} pods left: {}",
                self.left.len(),
                describe(self.left.values())
            ),
            held => format!(
                "{} pods left, {held} of them held back: {}",
                self.left.len(),
                describe(self.left.values())
            ),
        };
        let text = format!("{text}{}", self.stay());
        let text = match self.kubelet.silent {
            Some(_) => format!("{text}; the kubelet that would end them is silent"),
            None => text,
        };
        self.step.progress(text);
        self.told = Some(now);
    }
}

impl Left {
    /// Whether its eviction is to be asked for, once it is due, while pods of this order have their turn.
    fn is_askable(&self, order: i32) -> bool {
        !self.going && !self.asked && self.course == Course::Evicted(order)
    }

    /// Waits until a budget has changed.
    fn await_budget(&mut self, by: Arc<str>) {
        self.held = Some(by);
        self.awaits_budget = true;
        self.due = Instant::now() + UNHEARD;
    }
}

/// Pods and what holds each back; those that are held first.
fn describe<'l>(left: impl Iterator<Item = &'l Left>) -> String {
    let mut all: Vec<&Left> = left.collect();
    all.sort_by_key(|left| (left.held.is_none(), &left.pod));
    let more = all.len().saturating_sub(NAMED);
    let mut names: Vec<String> = all.iter().take(NAMED).map(|left| said(left)).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

fn said(left: &Left) -> String {
    let name = format!("{}/{}", left.pod.namespace, left.pod.name);
    match &left.held {
        _ if left.going => format!("{name} (is ending)"),
        _ if left.course == Course::Awaited => format!("{name} (is waited for until it completes)"),
        Some(by) => format!("{name} (held by {by})"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_is_silent_for_as_long_as_it_was_read_to_be() {
        let bound = kubelet_silence(3600);
        for (readings, is_endless) in [
            (&[(0, true), (150, true), (299, true)][..], false),
            (&[(0, true), (150, true), (300, true)], true),
            // Nothing was read for a while, and then it reports.
            (&[(0, true), (200, true), (310, false)], false),
            // Nothing is read any more.
            (&[(0, true), (200, true)], false),
            (&[(0, true), (200, false), (310, true), (400, true)], false),
            (&[(0, true), (310, true)], true),
        ] {
            let began = Instant::now();
            let mut kubelet = KubeletWatch {
                silent: None,
                due: began,
            };
            for (at, is_silent) in readings {
                kubelet.note_silence(*is_silent, began + Duration::from_secs(*at));
            }
            assert_eq!(kubelet.silence() >= bound, is_endless, "{readings:?}");
        }
    }

    #[test]
    fn a_silent_kubelet_is_waited_for_by_the_timeout_of_the_drain() {
        let cases = [(0, 300), (3600, 300), (1200, 300), (600, 150), (40, 10)];
        for (timeout, seconds) in cases {
            assert_eq!(kubelet_silence(timeout), Duration::from_secs(seconds));
        }
    }
}
