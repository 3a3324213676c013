//! The service of a host in use: the values are wanted in the objects of its firmware, a HostUpdatePolicy has them applied,
//! the machine is switched off, observed off, and switched on, and the values are read a second time.
//!
//! The operator applies what is wanted while a machine is off, and reports success by its own word: only values that are read
//! after it count. The policy is set back in every ending, and where the step fails, so is what was wanted: else the operator
//! would try it again whenever the machine is next restarted. What was there before is noted first.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::firmware::{Before, COMPONENTS, Finding, Firmware, POLICIES, SETTINGS};
use super::resource::{Host, key};
use super::steps::HostSteps;
use crate::backend::hardware::driver::Result;
use crate::backend::hardware::provided::{Changes, Provided};
use crate::backend::hardware::service::{missing, settings, unchanged};
use crate::backend::{ActError, Probe};
use crate::lifecycle::{ProvisionState as S, Verb};

/// The note of what was there before, followed by it as JSON.
const BEFORE: &str = "firmware before ";
/// The note that the machine was observed off.
const NOTED_OFF: &str = "off for its service";
/// How many settling times the operator may take to read what a machine has: by default it does so every five minutes.
const READING: u32 = 72;
/// How long the operator may take to judge what is wanted.
const JUDGING: Duration = Duration::from_secs(60);
/// The word of a policy that has firmware applied to a machine in use.
const ON_REBOOT: &str = "onReboot";

impl HostSteps<'_> {
    async fn wanted_values(&self, host: &Host) -> Result<Provided> {
        let names = settings(self.task.order)
            .iter()
            .map(|each| each.name.clone());
        let names: Vec<Arc<str>> = names.collect();
        let read = || self.metal3().values(host, &names);
        self.task.ask("read firmware", read).await
    }

    /// How far a service is: its values are read.
    pub(super) async fn probe_service(&self, host: &Host) -> Probe {
        let values = match self.wanted_values(host).await {
            Ok(values) => values,
            Err(error) => return Probe::Ambiguous(error.to_string().into()),
        };
        let is_true = missing(settings(self.task.order), &values.seen).is_empty();
        let runs = host.state() == S::Active && host.status.powered_on && host.spec.online;
        match (is_true && runs, self.is_ours(host)) {
            // What it has set for its own time is still to be set back.
            (_, true) => Probe::UnderWay,
            (true, false) => Probe::Done,
            (false, false) => Probe::NotBegun,
        }
    }

    /// Brings the values of the step true, and reads them a second time.
    pub(super) async fn service(&self) -> Result<()> {
        let host = self.task.known().await?;
        let ended = self.serviced(host).await;
        // A failure that can pass is retried, and then finds its notes.
        let failed = match &ended {
            Ok(()) => false,
            Err(ActError::Permanent(_) | ActError::Refused(_)) => true,
            Err(_) => return ended,
        };
        let back = self.set_back(failed).await;
        ended.and(back)
    }

    async fn serviced(&self, mut host: Host) -> Result<()> {
        let task = &self.task;
        task.driven(&host)?;
        let values = self.wanted_values(&host).await?;
        let order = settings(task.order);
        let is_off = self.task.has_noted(NOTED_OFF);
        if missing(order, &values.seen).is_empty() && !self.is_ours(&host) {
            return Ok(());
        }
        if !is_off {
            if !self.is_ours(&host) {
                task.gate(&host, Verb::Service)?;
                self.can_restart(&host)?;
            }
            let mut changes = Changes::default();
            for each in missing(order, &values.seen) {
                let wanted = (&*each.name, &*each.value);
                let added = values.add(&mut changes, task.node, wanted, "Metal3");
                added.map_err(|refusal| {
                    task.permanent(format!("`{}` cannot be changed: {refusal}", each.name))
                })?;
            }
            let marker = json!({"metadata": {"annotations": {key::STEP: self.marker()}}});
            let mark = |host: &Host| Ok((!self.is_ours(host)).then(|| marker.clone()));
            host = task.change("service", host, mark).await?;
            self.want(&host, &changes).await?;
        }
        self.restart(host, is_off).await?;
        task.say("reading all values again");
        self.read_again().await
    }

    fn can_restart(&self, host: &Host) -> Result<()> {
        let task = &self.task;
        if host.spec.disable_power_off {
            return Err(task.permanent("disablePowerOff is set on it: it cannot be switched off"));
        }
        let held: Vec<&str> = host.power_holds().map(|each| &**each).collect();
        match held.is_empty() {
            true => Ok(()),
            false => Err(task.permanent(format!(
                "is powered off by {}: the owner of that annotation has to remove it first",
                held.join(", ")
            ))),
        }
    }

    /// Notes what the objects have, and wants the changes in them, applied at the next restart.
    async fn want(&self, host: &Host, changes: &Changes) -> Result<()> {
        let name = &host.metadata.name;
        let policy = self.beside(POLICIES, name).await?;
        let firmware = self.beside(SETTINGS, name).await?;
        let components = self.beside(COMPONENTS, name).await?;
        if self.before().is_none() {
            let wanted = firmware.as_ref().map(|each| &each.spec.settings);
            let settings = changes.attributes.iter().map(|(name, _)| {
                let before = wanted.and_then(|wanted| wanted.get(name)).cloned();
                (name.clone(), before.unwrap_or_default())
            });
            let updates = components.iter().flat_map(|each| &each.spec.updates);
            let before = Before {
                policy: policy.as_ref().map(|each| {
                    let spec = each.spec.clone();
                    (spec.firmware_settings, spec.firmware_updates)
                }),
                settings: settings.collect(),
                updates: updates
                    .map(|each| (each.component.clone(), each.url.clone()))
                    .collect(),
            };
            let note = format!("{BEFORE}{}", json!(before));
            self.task.order.reporter.note(note).await?;
            drop(self.noted_before.set(before));
        }
        self.put_policy(
            host,
            policy,
            (Some(ON_REBOOT.into()), Some(ON_REBOOT.into())),
        )
        .await?;
        self.task.say("wanting its firmware and settings");
        if let Some(firmware) = firmware.filter(|_| !changes.attributes.is_empty()) {
            let settings = changes.attributes.iter();
            let settings: Map<String, Value> = settings
                .map(|(name, value)| (name.clone(), as_wanted(value)))
                .collect();
            self.change_beside(SETTINGS, &firmware, json!({ "settings": settings }))
                .await?;
            self.judged(SETTINGS, name).await?;
        }
        if let Some(components) = components.filter(|_| !changes.updates.is_empty()) {
            let is_kept =
                |component: &str| !changes.updates.iter().any(|(own, _)| own == component);
            let kept = components.spec.updates.iter();
            let kept = kept.filter(|each| is_kept(&each.component));
            let kept = kept.map(|each| (each.component.clone(), each.url.clone()));
            let own = changes.updates.iter();
            let own = own.map(|(component, url)| (component.clone(), url.to_string()));
            let updates: Vec<_> = kept.chain(own).collect();
            self.change_beside(
                COMPONENTS,
                &components,
                json!({"updates": updates_of(&updates)}),
            )
            .await?;
            self.judged(COMPONENTS, name).await?;
        }
        Ok(())
    }

    /// Waits until the operator has taken or refused what is wanted.
    async fn judged(&self, resource: &str, name: &str) -> Result<()> {
        let end = Instant::now() + JUDGING;
        loop {
            let found = self.beside(resource, name).await?;
            match found.map_or(Finding::None, |each| each.finding()) {
                Finding::Taken => return Ok(()),
                Finding::Refused(why) => {
                    let why = crate::backend::http::plain(&why, 300);
                    return Err(self
                        .task
                        .permanent(format!("the operator refuses it: {why}")));
                }
                Finding::None if Instant::now() >= end || self.task.is_over() => {
                    return Err(self
                        .task
                        .permanent("the operator has not judged what is wanted"));
                }
                Finding::None => sleep(self.pace()).await,
            }
        }
    }

    fn pace(&self) -> Duration {
        let settling = self.metal3().settings.settling;
        settling.clamp(Duration::from_millis(100), Duration::from_secs(10))
    }

    /// Switches it off, observes it off, switches it on, and waits until the operator has serviced it.
    async fn restart(&self, host: Host, is_off: bool) -> Result<()> {
        let (task, metal3) = (&self.task, self.metal3());
        let mut waiter = metal3.watch.wait_for(&task.name);
        let mut host = host;
        if !is_off {
            host = self.online(host, false).await?;
            let any = |_: &Host| Ok(());
            host = task
                .powered("service", &mut waiter, host, false, any)
                .await?;
            task.order.reporter.note(NOTED_OFF).await?;
        }
        host = self.online(host, true).await?;
        let judge = |host: &Host| {
            Ok(host.status.powered_on && host.state() == S::Active && !host.has_failed())
        };
        host = task.until("service", &mut waiter, host, judge).await?;
        let still = |_: &Host| Ok(());
        task.powered("service", &mut waiter, host, true, still)
            .await?;
        Ok(())
    }

    async fn online(&self, host: Host, on: bool) -> Result<Host> {
        let patch = |host: &Host| {
            self.task.driven(host)?;
            Ok((host.spec.online != on).then(|| json!({"spec": {"online": on}})))
        };
        let what = if on { "power on" } else { "power off" };
        self.task.change(what, host, patch).await
    }

    async fn read_again(&self) -> Result<()> {
        let task = &self.task;
        let end = Instant::now() + self.metal3().settings.settling * READING;
        loop {
            let host = task.known().await?;
            let values = self.wanted_values(&host).await?;
            let left = missing(settings(task.order), &values.seen);
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end || task.is_over() {
                let left = left.into_iter();
                let left: Vec<_> = left
                    .map(|each| (each, values.seen.get(&each.name).cloned()))
                    .collect();
                return Err(task.permanent(unchanged(1, &left, &[])));
            }
            sleep(self.pace()).await;
        }
    }

    /// Sets its policy back, and where the step failed, what was wanted; switches the machine on, and takes the mark off.
    pub(super) async fn set_back(&self, failed: bool) -> Result<()> {
        let task = &self.task;
        let Some(mut host) = task.look().await? else {
            return Ok(());
        };
        if !self.is_ours(&host) {
            return Ok(());
        }
        let name = host.metadata.name.clone();
        if let Some(before) = self.before() {
            if failed {
                if let Some(firmware) = self.beside(SETTINGS, &name).await?
                    && !before.settings.is_empty()
                {
                    let spec = json!({ "settings": before.settings });
                    self.change_beside(SETTINGS, &firmware, spec).await?;
                }
                // What the step did not want is another client's.
                let mut wanted = settings(task.order).iter();
                if wanted.any(|each| each.name.starts_with("firmware."))
                    && let Some(components) = self.beside(COMPONENTS, &name).await?
                {
                    let spec = json!({"updates": updates_of(&before.updates)});
                    self.change_beside(COMPONENTS, &components, spec).await?;
                }
            }
            let policy = self.beside(POLICIES, &name).await?;
            match (policy, before.policy) {
                (Some(policy), None) => {
                    let delete = || {
                        let management = &self.metal3().management;
                        management.delete_beside(POLICIES, &policy.metadata)
                    };
                    task.ask("set the policy back", delete).await?;
                }
                (policy, Some(fields)) => self.put_policy(&host, policy, fields).await?,
                (None, None) => {}
            }
        }
        if !host.spec.online {
            host = self.online(host, true).await?;
        }
        let clear = json!({"metadata": {"annotations": {key::STEP: null}}});
        let clear = |host: &Host| Ok(self.is_ours(host).then(|| clear.clone()));
        task.change("service", host, clear).await.map(drop)
    }

    /// Whether the last attempt noted what was there before.
    fn before(&self) -> Option<Before> {
        if let Some(before) = self.noted_before.get() {
            return Some(before.clone());
        }
        let notes = self.task.order.notes.iter();
        let mut texts = notes.filter_map(|note| note.strip_prefix(BEFORE));
        serde_json::from_str(texts.next()?).ok()
    }

    async fn beside(&self, resource: &str, name: &str) -> Result<Option<Firmware>> {
        let management = &self.metal3().management;
        let look = || management.beside(resource, name);
        self.task.ask(resource, look).await
    }

    async fn change_beside(&self, resource: &str, seen: &Firmware, spec: Value) -> Result<()> {
        let management = &self.metal3().management;
        // What another client writes at the same time stays: only these fields are named.
        let change = || management.change_beside(resource, &seen.metadata, json!({"spec": spec}));
        self.task.ask(resource, change).await
    }

    /// Has its policy be so; it is made where it is missing.
    async fn put_policy(
        &self,
        host: &Host,
        policy: Option<Firmware>,
        (settings, updates): (Option<String>, Option<String>),
    ) -> Result<()> {
        let spec = json!({"firmwareSettings": settings, "firmwareUpdates": updates});
        match policy {
            Some(policy) => self.change_beside(POLICIES, &policy, spec).await,
            None => {
                let management = &self.metal3().management;
                let name = &host.metadata.name;
                let create = || async {
                    match management.create_policy(name, &spec).await {
                        // An answer was lost before.
                        Err(error) if error.is_conflict() => Ok(()),
                        ended => ended,
                    }
                };
                self.task.ask(POLICIES, create).await
            }
        }
    }
}

/// A setting as the operator takes it: a number or a text.
fn as_wanted(value: &Value) -> Value {
    match value {
        Value::Bool(truth) => json!(truth.to_string()),
        other => other.clone(),
    }
}

fn updates_of(updates: &[(String, String)]) -> Value {
    let updates = updates.iter();
    let updates = updates.map(|(component, url)| json!({"component": component, "url": url}));
    Value::Array(updates.collect())
}
