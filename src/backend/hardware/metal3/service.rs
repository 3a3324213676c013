//! The service of a host in use: the values are wanted in the objects of its firmware, a HostUpdatePolicy has them applied,
//! the machine is switched off, observed off, and switched on, and the values are read a second time.
//!
//! The operator applies what is wanted while a machine is off, and reports success by its own word: only values that are read
//! after it count. The policy is set back where the step ends, and where it fails, so is what was wanted: else the operator
//! would try it again whenever the machine is next restarted. What was there before is noted first. Where the end of the step
//! is not known, all stays, and the mark with it: the step continues when its run is resumed.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::before::{Before, Policy, updates_with};
use super::change::CONFLICTS;
use super::firmware::{COMPONENTS, Finding, Firmware, POLICIES, SETTINGS};
use super::resource::{Host, key};
use super::steps::HostSteps;
use crate::backend::hardware::driver::Result;
use crate::backend::hardware::provided::{Changes, Provided};
use crate::backend::hardware::service::{ended, missing, settings, unchanged};
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
/// How long an ended step waits for a machine that is switched on again.
const POWERING: Duration = Duration::from_secs(30);
/// The text of a failure if the end of a service is not known.
const STAYS: &str =
    "what was set for its service stays until its next attempt, or until its run is resumed";
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
        match self.serviced(host).await {
            Ok(()) => {
                let back = self.set_back(false).await;
                let lost =
                    back.map_err(|left| not_set_back("its values are as designed", &left))?;
                if let Some(lost) = lost {
                    self.task.report(lost);
                }
                Ok(())
            }
            Err(failed @ (ActError::Permanent(_) | ActError::Refused(_))) => {
                match self.set_back(true).await {
                    Ok(None) => Err(failed),
                    Ok(Some(lost)) => Err(ActError::Permanent(format!("{failed}; {lost}").into())),
                    Err(left) => Err(not_set_back(&failed.to_string(), &left)),
                }
            }
            // The next attempt finds its notes.
            Err(passing) => Err(match self.before() {
                Ok(None) => passing,
                _ => ActError::Ambiguous(Arc::from(format!("{passing}; {STAYS}"))),
            }),
        }
    }

    /// Sets back what an ended step has left: all of it if its values are not as designed.
    pub(super) async fn take_back(&self) -> Result<Probe> {
        let Some(host) = self.task.look().await? else {
            return Ok(Probe::NotBegun);
        };
        if !self.is_ours(&host) {
            return ended(self.probe_service(&host).await);
        }
        let values = self.wanted_values(&host).await?;
        let is_true = missing(settings(self.task.order), &values.seen).is_empty();
        if let Some(lost) = self.set_back(!is_true).await? {
            return Err(self.task.permanent(lost));
        }
        let end = Instant::now() + POWERING;
        loop {
            let Some(host) = self.task.look().await? else {
                return Ok(Probe::NotBegun);
            };
            let probe = ended(self.probe_service(&host).await)?;
            // It was switched on again only now.
            if is_true && probe != Probe::Done && Instant::now() < end {
                sleep(self.pace()).await;
                continue;
            }
            return match host.state() == S::Servicing {
                true => Err(self.task.permanent(
                    "its operator had begun to service it, and continues: what was wanted may still be applied",
                )),
                false => Ok(probe),
            };
        }
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
        task.report("reading all values again");
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
        let firmware = self.beside(SETTINGS, name).await?;
        let components = self.beside(COMPONENTS, name).await?;
        let before = match self.before()? {
            Some(before) => before,
            None => {
                let (firmware, components) = (firmware.as_ref(), components.as_ref());
                let spec = |object: Option<&Firmware>| object.map(|each| each.spec.clone());
                let policy = self.beside(POLICIES, name).await?;
                let (before, lost) = Before::of(
                    settings(self.task.order),
                    &spec(firmware).unwrap_or_default(),
                    &spec(components).unwrap_or_default(),
                    policy.filter(|policy| !self.has_made(policy)).as_ref(),
                );
                for component in lost {
                    self.task.report(format!(
                        "another update of `{component}` is wanted, and will be no more: no note holds its address"
                    ));
                }
                self.note(before).await?
            }
        };
        self.apply_on_reboot(name, before).await?;
        self.task.report("wanting its firmware and settings");
        if firmware.is_some() && !changes.attributes.is_empty() {
            let settings = changes.attributes.iter();
            let settings: Map<String, Value> = settings
                .map(|(name, value)| (name.clone(), as_wanted(value)))
                .collect();
            let wanted = |_: &Firmware| Some(json!({ "settings": settings }));
            self.change_beside(SETTINGS, name, wanted).await?;
            self.judged(SETTINGS, name).await?;
        }
        if components.is_some() && !changes.updates.is_empty() {
            let own = changes.updates.iter();
            let own: Vec<_> = own
                .map(|(component, url)| (component.clone(), Some(url.to_string())))
                .collect();
            let wanted =
                |seen: &Firmware| Some(json!({"updates": updates_with(&seen.spec.updates, &own)}));
            self.change_beside(COMPONENTS, name, wanted).await?;
            self.judged(COMPONENTS, name).await?;
        }
        Ok(())
    }

    async fn note(&self, before: Before) -> Result<Before> {
        let note = format!("{BEFORE}{}", json!(before));
        self.task.order.reporter.note(note).await?;
        let noted = self.noted_before.lock();
        *noted.unwrap_or_else(PoisonError::into_inner) = Some(before.clone());
        Ok(before)
    }

    /// Whether a policy was made by this step.
    fn has_made(&self, policy: &Firmware) -> bool {
        let marker = policy.metadata.annotations.get(key::STEP);
        marker.is_some_and(|marker| **marker == *self.marker())
    }

    /// Has the policy apply all at a restart: this step makes it if the host has none, and notes what another client's has.
    async fn apply_on_reboot(&self, name: &str, mut before: Before) -> Result<()> {
        for _ in 0..CONFLICTS {
            let Some(policy) = self.beside(POLICIES, name).await? else {
                let management = &self.metal3().management;
                let spec = json!({"firmwareSettings": ON_REBOOT, "firmwareUpdates": ON_REBOOT});
                let marker = self.marker();
                let create = || async {
                    match management.create_policy(name, &marker, &spec).await {
                        Ok(()) => Ok(true),
                        // An answer was lost before, or another client has made one: it is read.
                        Err(error) if error.is_conflict() => Ok(false),
                        Err(error) => Err(error),
                    }
                };
                if self.task.ask(POLICIES, create).await? {
                    return Ok(());
                }
                continue;
            };
            if before.policy.is_none() && !self.has_made(&policy) {
                before.policy = Some(Policy::of(&policy));
                self.note(before).await?;
            }
            let wanted = |_: &Firmware| {
                Some(json!({"firmwareSettings": ON_REBOOT, "firmwareUpdates": ON_REBOOT}))
            };
            return self.change_beside(POLICIES, name, wanted).await;
        }
        Err(self.task.passing(format!(
            "{POLICIES}: another client makes and deletes it all the time"
        )))
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

    /// Sets its policy back, and where the step failed, what was wanted; switches the machine on, and takes the mark off. Gives
    /// what may stay of the step, since nothing is noted of what was there before.
    pub(super) async fn set_back(&self, failed: bool) -> Result<Option<String>> {
        let task = &self.task;
        let Some(mut host) = task.look().await? else {
            return Ok(None);
        };
        if !self.is_ours(&host) {
            return Ok(None);
        }
        let name = host.metadata.name.clone();
        let before = self.before()?;
        let policy = self.beside(POLICIES, &name).await?;
        // Only the clone of a run has its notes.
        let lost = match before.is_none() {
            true => self.lost(&host, policy.as_ref(), failed).await?,
            false => None,
        };
        let own_policy = policy.filter(|policy| self.has_made(policy));
        if let Some(before) = before.as_ref().filter(|_| failed) {
            let settings = |_: &Firmware| {
                let is_any = !before.settings.is_empty();
                is_any.then(|| json!({ "settings": before.settings }))
            };
            self.change_beside(SETTINGS, &name, settings).await?;
            // What the step did not want is another client's.
            let updates = |seen: &Firmware| {
                let is_any = !before.updates.is_empty();
                is_any
                    .then(|| json!({"updates": updates_with(&seen.spec.updates, &before.updates)}))
            };
            self.change_beside(COMPONENTS, &name, updates).await?;
        }
        if let Some(policy) = own_policy {
            let delete = || {
                let management = &self.metal3().management;
                management.delete_beside(POLICIES, &policy.metadata)
            };
            task.ask("set the policy back", delete).await?;
        } else if let Some(fields) = before.and_then(|before| before.policy) {
            // One that is new, and is not the step's, is another client's.
            let back = |seen: &Firmware| fields.back(seen, ON_REBOOT);
            self.change_beside(POLICIES, &name, back).await?;
        }
        if !host.spec.online {
            host = self.online(host, true).await?;
        }
        let clear = json!({"metadata": {"annotations": {key::STEP: null}}});
        let clear = |host: &Host| Ok(self.is_ours(host).then(|| clear.clone()));
        task.change("service", host, clear).await?;
        Ok(lost)
    }

    /// The rest that may stay of a step of which nothing is noted: what is wanted, if it failed, and the policy of another
    /// client.
    async fn lost(
        &self,
        host: &Host,
        policy: Option<&Firmware>,
        failed: bool,
    ) -> Result<Option<String>> {
        let mut wanting = Vec::new();
        if failed {
            let values = self.wanted_values(host).await?;
            let mut own = Changes::default();
            for each in settings(self.task.order) {
                let wanted = (&*each.name, &*each.value);
                // What cannot be changed was not wanted.
                let _ = values.add(&mut own, self.task.node, wanted, "Metal3");
            }
            for resource in [SETTINGS, COMPONENTS] {
                let found = self.beside(resource, &host.metadata.name).await?;
                if found.is_some_and(|found| wants_one_of(&found, &own)) {
                    wanting.push(resource);
                }
            }
        }
        let mut stay = Vec::new();
        if !wanting.is_empty() {
            let wanting = wanting.join(" and ");
            stay.push(format!("its {wanting} may still want values of this step"));
        }
        let others = policy.filter(|policy| !self.has_made(policy));
        if others.is_some_and(|policy| Policy::of(policy).has(ON_REBOOT)) {
            stay.push(format!("{ON_REBOOT} in its {POLICIES} may be of this step"));
        }
        Ok((!stay.is_empty()).then(|| {
            format!(
                "no note of what was there before it was found in this clone: {}; set them back by hand",
                stay.join(", and ")
            )
        }))
    }

    /// The state before that this attempt or an earlier one has noted; `None`: nothing yet.
    fn before(&self) -> Result<Option<Before>> {
        let noted = self.noted_before.lock();
        let noted = noted.unwrap_or_else(PoisonError::into_inner).clone();
        if noted.is_some() {
            return Ok(noted);
        }
        let notes = self.task.order.notes.iter();
        let mut texts = notes.filter_map(|note| note.strip_prefix(BEFORE));
        Before::read(texts.next_back()).map_err(|why| {
            self.task.permanent(format!(
                "what was there before it cannot be read from its note ({why}): set its HostUpdatePolicy, settings and updates back by \
                 hand, then take the annotation {} off its BareMetalHost",
                key::STEP
            ))
        })
    }

    async fn beside(&self, resource: &str, name: &str) -> Result<Option<Firmware>> {
        let management = &self.metal3().management;
        let look = || management.beside(resource, name);
        self.task.ask(resource, look).await
    }

    /// Changes the spec of an object by what is made of it as it is now, anew if another client changes it meanwhile;
    /// `None`: there is nothing to change. One that is gone has nothing to change.
    async fn change_beside(
        &self,
        resource: &str,
        name: &str,
        spec: impl Fn(&Firmware) -> Option<Value>,
    ) -> Result<()> {
        let management = &self.metal3().management;
        for _ in 0..CONFLICTS {
            let Some(seen) = self.beside(resource, name).await? else {
                return Ok(());
            };
            let Some(spec) = spec(&seen) else {
                return Ok(());
            };
            let send = || async {
                let patch = json!({"spec": spec});
                match management
                    .change_beside(resource, &seen.metadata, patch)
                    .await
                {
                    Ok(()) => Ok(true),
                    Err(error) if error.is_conflict() => Ok(false),
                    Err(error) => Err(error),
                }
            };
            if self.task.ask(resource, send).await? {
                return Ok(());
            }
        }
        Err(self.task.passing(format!(
            "{resource}: another client changes it all the time"
        )))
    }
}

/// The step stays open: what it has set for its own time is still there.
fn not_set_back(ended: &str, left: &ActError) -> ActError {
    let text = format!("{ended}; and what was set for it could not be set back: {left}; {STAYS}");
    ActError::Ambiguous(Arc::from(text))
}

/// Whether an object wants one of these changes.
fn wants_one_of(object: &Firmware, changes: &Changes) -> bool {
    let settings = &object.spec.settings;
    let mut attributes = changes.attributes.iter();
    let mut updates = changes.updates.iter();
    attributes.any(|(name, value)| settings.get(name) == Some(&as_wanted(value)))
        || updates.any(|(component, url)| {
            let mut wanted = object.spec.updates.iter();
            wanted.any(|each| each.component == *component && each.url == **url)
        })
}

/// A setting as the operator takes it: a number or a text.
fn as_wanted(value: &Value) -> Value {
    match value {
        Value::Bool(truth) => json!(truth.to_string()),
        other => other.clone(),
    }
}
