//! Asking Ironic for something and waiting for its end, as safely as one node allows it.
//!
//! A verb is sent only if trueup's own table has it, and only to a node that is idle. A 409 is told
//! apart by the node's state: a node with a lock is waited for; an idle one is a rule. A request whose answer
//! was lost is never repeated here: the error reports it, and the caller observes first.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Ironic;
use super::api::{RequestError, is_busy};
use super::node::Node;
use super::own_steps::{LeftOut, OwnSteps};
use crate::backend::hardware::busy::RetryBudget;
use crate::backend::hardware::driver::Result;
use crate::backend::hardware::level::{Level, Twice};
use crate::backend::hardware::poll::Waiter;
use crate::backend::hardware::provisioner::Task;
use crate::backend::{ActError, Secret};
use crate::lifecycle::{PowerState, ProvisionState, Verb};

/// The failure if Ironic has been busy for too long.
const STUCK: &str = "Ironic has worked on no machine for 10 minutes: a conductor whose pool of workers was once \
                     full may refuse all work until it is restarted";
/// How often a node that is idle and answers 409 all the same is asked again.
const IDLE_REFUSALS: u32 = 3;
/// How long to wait before that.
const REFUSED_DELAY: Duration = Duration::from_secs(2);
/// How many looks may show nothing after a verb was accepted.
const LOOKS_WITHOUT_CHANGE: u32 = 3;

impl Task<'_, Ironic> {
    /// Waits until the node is idle and unlocked.
    pub(super) async fn settled(&self, node: Node) -> Result<Node> {
        if node.is_idle() {
            return Ok(node);
        }
        let uuid = node.uuid.clone();
        let mut waiter = self.backend.watch.wait_for(&uuid);
        let mut node = node;
        loop {
            if node.is_idle() {
                return Ok(node);
            }
            if node.state().is_held() {
                let state = node.state_name();
                return Err(
                    self.permanent(format!("is paused ({state}): it needs manual intervention in Ironic (continue or abort it)"))
                );
            }
            self.report(node.doing());
            node = self.next(&mut waiter).await?;
        }
    }

    /// The node in the next look that shows it.
    async fn next(&self, waiter: &mut Waiter<Node>) -> Result<Node> {
        loop {
            let round = waiter.next().await;
            match &round.objects {
                Ok(nodes) => {
                    let node = nodes.get(waiter.id()).cloned();
                    return node.ok_or_else(|| self.permanent("has vanished from Ironic"));
                }
                Err(why) => self.report(why.clone()),
            }
        }
    }

    /// Sends a request as soon as the node is idle and `verb` is legal, as often as the node turns out to
    /// be locked by another client, or Ironic has no worker free: it answers 503 then, in normal service.
    pub(super) async fn send_with_retry<T, F>(
        &self,
        mut node: Node,
        verb: Option<Verb>,
        send: impl Fn(Arc<str>) -> F,
    ) -> Result<(Node, T)>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let mut refusals = 0;
        let mut budget = RetryBudget::new(self.order);
        loop {
            node = self.settled(node).await?;
            if let Some(verb) = verb {
                self.gate(&node, verb)?;
            }
            let error = match send(node.uuid.clone()).await {
                Ok(answer) => return Ok((node, answer)),
                Err(error) => error,
            };
            if !matches!(error.status(), Some(409 | 503)) {
                return Err(error.into());
            }
            // Held, or against a rule? The text and the code do not tell; the node does.
            let before = std::mem::replace(&mut node, self.known().await?);
            if error.status() == Some(503) && node.state() != before.state() {
                return Err(ActError::Ambiguous(Arc::from(error.to_string())));
            }
            if is_busy(&error) && node.is_idle() && node.state() == before.state() {
                let Some(delay) = budget.next(&error, self.backend.watch.is_active()) else {
                    return Err(budget.ended(&error, STUCK));
                };
                self.report(format!(
                    "Ironic is busy: {error}; retried in {} s",
                    delay.as_secs()
                ));
                tokio::time::sleep(delay).await;
            } else if node.is_idle() {
                refusals += 1;
                if refusals >= IDLE_REFUSALS {
                    return Err(error.into());
                }
                tokio::time::sleep(REFUSED_DELAY).await;
            } else {
                self.report(format!("locked by another client: {}", node.doing()));
            }
        }
    }

    /// Asks for a change of the provision state and waits for its end.
    pub(super) async fn ask(&self, node: Node, verb: Verb, more: Value) -> Result<Node> {
        let mut body = more;
        body["target"] = json!(target(verb));
        let body = &body;
        let api = &self.backend.api;
        let send = |uuid: Arc<str>| async move {
            api.put_state(&self.subject, &uuid, "provision", body).await
        };
        self.report(format!("{}: {verb}", node.state_name()));
        let (before, ()) = self.send_with_retry(node, Some(verb), send).await?;
        let mut own_steps = OwnSteps::default();
        let node = self.ended(&before, verb, &mut own_steps).await?;
        Ok(self.keep_steps(node, own_steps).await)
    }

    /// Writes down which steps Ironic has run by itself. That it cannot be written is no failure of the
    /// cleaning.
    async fn keep_steps(&self, node: Node, own_steps: OwnSteps) -> Node {
        let Some(operation) = own_steps.operation(&node) else {
            return node;
        };
        match self.patch(node.clone(), None, vec![operation], None).await {
            Ok(node) => node,
            Err(error) => {
                self.report(format!(
                    "its clean steps could not be written down: {error}"
                ));
                node
            }
        }
    }

    /// Waits for the end of a verb that was accepted when the node was as `before`.
    async fn ended(&self, before: &Node, verb: Verb, own_steps: &mut OwnSteps) -> Result<Node> {
        let mut waiter = self.backend.watch.wait_for(&before.uuid);
        let api = &self.backend.api;
        let mut unchanged = 0;
        let mut checked_steps = verb != Verb::Clean;
        let mut deploy_steps = LeftOut::of(verb, self.order);
        loop {
            let node = self.next(&mut waiter).await?;
            if !node.is_idle() {
                self.report(node.doing());
                if node.state().is_held() {
                    let state = node.state_name();
                    return Err(self.permanent(format!("`{verb}` is paused ({state})")));
                }
                if !checked_steps && node.state().is_cleaning() {
                    checked_steps = self.check_steps(&node).await?;
                }
                if verb != Verb::Clean && node.state().is_cleaning() {
                    own_steps.look(api, &self.subject, &node).await;
                }
                deploy_steps.look(api, &self.subject, &node).await;
                continue;
            }
            let state = node.state();
            if ends(verb).contains(&state)
                && (state != before.state() || node.has_moved_since(before))
            {
                deploy_steps.check(&self.subject, self.order)?;
                return Ok(node);
            }
            if node.has_moved_since(before) {
                return Err(self.permanent(format!("`{verb}` ended in {}", node.failed())));
            }
            unchanged += 1;
            if unchanged >= LOOKS_WITHOUT_CHANGE {
                return Err(self.passing(format!(
                    "Ironic accepted `{verb}`, and nothing happens: {}",
                    node.failed()
                )));
            }
        }
    }

    /// Whether Ironic runs all the steps that were asked for; it leaves some out silently.
    async fn check_steps(&self, node: &Node) -> Result<bool> {
        let running = self
            .backend
            .api
            .running_steps(&self.subject, &node.uuid, "clean_steps")
            .await;
        let Ok(Some(running)) = running else {
            return Ok(false);
        };
        let asked = self.order.step.given().clean_steps().iter();
        let missing: Vec<String> = asked
            .map(|step| format!("{}.{}", step.interface, step.step))
            .filter(|step| !running.contains(step))
            .collect();
        if missing.is_empty() || running.is_empty() {
            return Ok(true);
        }
        let missing = missing.join(", ");
        self.report(format!("Ironic leaves out {missing}"));
        Err(ActError::Ambiguous(self.about(format!(
            "Ironic has left out steps without saying so: {missing}"
        ))))
    }

    /// Changes fields of the node once it is idle, and gives it as it is then. `verb`: what must be legal.
    pub(super) async fn patch(
        &self,
        node: Node,
        verb: Option<Verb>,
        operations: Vec<Value>,
        secret: Option<&Secret>,
    ) -> Result<Node> {
        let operations = &Value::Array(operations);
        let api = &self.backend.api;
        let send = |uuid: Arc<str>| async move {
            api.patch(&self.subject, &uuid, operations, secret).await
        };
        let (_, node) = self.send_with_retry(node, verb, send).await?;
        Ok(node)
    }

    /// Switches the node on or off, and sees it stay so.
    pub(super) async fn power(&self, node: Node, wanted: PowerState) -> Result<Node> {
        let (verb, target) = match wanted {
            PowerState::On => (Verb::PowerOn, "power on"),
            PowerState::Off => (Verb::PowerOff, "power off"),
        };
        let node = self.settled(node).await?;
        if node.power() == Some(wanted) {
            return Ok(node);
        }
        let api = &self.backend.api;
        let body = &json!({ "target": target });
        let send = |uuid: Arc<str>| async move {
            api.put_state(&self.subject, &uuid, "power", body).await
        };
        self.report(target);
        let (before, ()) = self.send_with_retry(node, Some(verb), send).await?;
        let mut waiter = self.backend.watch.wait_for(&before.uuid);
        let mut level = Twice::default();
        let mut otherwise = 0;
        loop {
            let node = self.next(&mut waiter).await?;
            if !node.is_idle() {
                self.report(node.doing());
                continue;
            }
            match level.look(node.power() == Some(wanted)) {
                Level::Holds => return Ok(node),
                Level::SeenOnce => {}
                Level::Left => {
                    let why = "was switched, and switched back: another client changes its power";
                    return Err(self.passing(why));
                }
                Level::NotSeen => {
                    otherwise += 1;
                    if otherwise >= LOOKS_WITHOUT_CHANGE {
                        let why = format!("`{target}` had no effect: {}", node.failed());
                        return Err(self.passing(why));
                    }
                }
            }
        }
    }

    /// Sets maintenance or takes it off, and gives the node as it is then.
    pub(super) async fn maintain(&self, node: Node, reason: Option<&str>) -> Result<Node> {
        let api = &self.backend.api;
        let send = |uuid: Arc<str>| async move { api.maintain(&self.subject, &uuid, reason).await };
        self.send_with_retry(node, None, send).await?;
        self.known().await
    }

    /// Takes the node out of Ironic.
    pub(super) async fn remove(&self, node: Node) -> Result<()> {
        let api = &self.backend.api;
        let send = |uuid: Arc<str>| async move { api.remove(&self.subject, &uuid).await };
        let removed = self.send_with_retry(node, None, send).await;
        match removed {
            Ok(_) => Ok(()),
            Err(error) => match self.look().await? {
                None => Ok(()),
                Some(_) => Err(error),
            },
        }
    }
}

/// The name of a verb in Ironic's API.
fn target(verb: Verb) -> &'static str {
    match verb {
        Verb::Deploy => "active",
        Verb::Delete => "deleted",
        other => other.as_str(),
    }
}

/// In which states a verb ends if it succeeds.
fn ends(verb: Verb) -> &'static [ProvisionState] {
    match verb {
        Verb::Manage | Verb::Inspect | Verb::Clean => &[ProvisionState::Manageable],
        Verb::Provide => &[ProvisionState::Available],
        Verb::Delete => &[ProvisionState::Available, ProvisionState::Manageable],
        Verb::Deploy | Verb::Rebuild | Verb::Adopt | Verb::Service | Verb::Abort => {
            &[ProvisionState::Active]
        }
        _ => &[],
    }
}
