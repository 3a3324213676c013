//! The service of a machine: updates of firmware, attributes of the BIOS, Secure Boot and network services of the
//! controller, one restart unless all of it applies while the machine runs, and a second reading.
//!
//! What a controller reports of an update is not believed: a task that ended well, that failed or that is not found any more
//! tells only when to read again. Only values that are read after the restart count. If they are not as wanted, all is
//! tried once more, and then the step fails. Setting a value twice does no harm; an update that runs is followed, never
//! asked for again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::machine::Machine;
use super::network_protocol;
use super::notes::{Before, Begun, Note, RequestState, state};
use super::powered::{Power, power_of};
use super::resource::Resource;
use super::shapes::{APPLY_TIME, Operation, Shape, TARGETS, UPDATE_PROTOCOL};
use super::task::TaskState;
use super::time_of;
use super::values::HardwareReading;
use crate::backend::hardware::level::{Level, Twice, holds};
use crate::backend::hardware::service::{TRIES, missing, next_rung, settings, unchanged, unmet};
use crate::backend::hardware::terms::value_of;
use crate::backend::http::plain;
use crate::backend::{ActError, Order, Probe};
use crate::design::{HardwareSetting, NodeDesign, Section};
use crate::observed::{FixedValue, shows};
use crate::step::StepKind;

/// How many settling times a task may stand still in a state in which it waits, until it counts as waiting for the restart.
const STILL: u32 = 12;
/// The time at which pending values apply, best first.
const APPLY_TIMES: [&str; 2] = ["OnReset", "Immediate"];
/// The time at which an update is applied, best first.
const UPDATE_TIMES: [&str; 2] = ["Immediate", "OnReset"];

/// The path of a component, and whether it is one of the inventory: of others few controllers want it.
type Component = (Arc<str>, bool);

/// The way in which a value is brought true.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    Attribute {
        name: String,
        value: Value,
    },
    SecureBoot(bool),
    /// Properties of the controller's NetworkProtocol.
    Protocols(Map<String, Value>),
    Update {
        image: Arc<str>,
        component: Option<Component>,
    },
}

/// How far a try came.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// Something was accepted that a restart brings about.
    is_accepted: bool,
    /// The ends of tasks that were not good ones.
    pub(super) reports: Vec<String>,
}

/// The times at which pending values of a resource can apply, and the best of those: `Ok(None)` if none is listed.
fn apply_time(resource: &Resource) -> Result<Option<&'static str>, String> {
    let times = resource.texts("/@Redfish.Settings/SupportedApplyTimes");
    best_time(&times, &APPLY_TIMES)
        .map_err(|times| format!("its controller applies pending values only at: {times}"))
}

pub(super) fn best_time(
    offered: &[&str],
    wanted: &[&'static str],
) -> Result<Option<&'static str>, String> {
    if offered.is_empty() {
        return Ok(None);
    }
    let best = wanted.iter().find(|time| offered.contains(time));
    best.map(|time| Some(*time)).ok_or_else(|| {
        let offered: Vec<String> = offered.iter().take(8).map(|time| plain(time, 40)).collect();
        offered.join(", ")
    })
}

impl HardwareReading {
    /// The way in which a value is brought true, or why its controller cannot do that.
    fn change(&self, node: &NodeDesign, name: &str, wanted: &str) -> Result<Change, String> {
        if let Some(attribute) = name.strip_prefix("bios.") {
            let bios = self.bios.as_ref();
            let bios = bios.ok_or("its controller does not show its BIOS")?;
            apply_time(bios)?;
            let terms = self.terms.as_deref();
            let name = attribute.to_owned();
            let attributes = bios.value.get("Attributes").and_then(Value::as_object);
            let value = value_of(attributes, terms, attribute, wanted)?;
            return Ok(Change::Attribute { name, value });
        }
        if name.starts_with("firmware.") {
            return self.update(node, name);
        }
        if name.starts_with("bmc.") {
            let protocols = self.protocols.as_ref();
            return network_protocol::change(protocols, (name, wanted)).map(Change::Protocols);
        }
        match (name, &self.secure_boot) {
            ("boot.secure_boot", Some(_)) => Ok(Change::SecureBoot(wanted == "true")),
            ("boot.secure_boot", None) => {
                Err("its controller does not show Secure Boot".to_owned())
            }
            _ => Err("trueup does not set it over Redfish".to_owned()),
        }
    }

    fn update(&self, node: &NodeDesign, name: &str) -> Result<Change, String> {
        let updates = self.updates.as_ref();
        let updates = updates.ok_or("its controller has no UpdateService")?;
        let service = &updates.service;
        if service.boolean("/ServiceEnabled") == Some(false) {
            return Err("its UpdateService is switched off".to_owned());
        }
        let Some(action) = service.action("UpdateService.SimpleUpdate") else {
            return Err("its UpdateService fetches no images (no action SimpleUpdate)".to_owned());
        };
        let terms = node.firmware_terms(name).unwrap_or_default();
        let Some(image) = terms.image else {
            return Err("its Hardware document names no `image`".to_owned());
        };
        let image = image.url;
        let protocol = protocol_of(&image);
        if let Some(allowed) = action.allowed("TransferProtocol")
            && !allowed
                .iter()
                .any(|each| each.eq_ignore_ascii_case(&protocol))
        {
            let allowed: Vec<String> = allowed
                .iter()
                .take(12)
                .map(|each| plain(each, 20))
                .collect();
            return Err(format!(
                "its controller does not fetch images by {protocol}, but by: {}",
                allowed.join(", ")
            ));
        }
        let time = best_time(&action.apply_times(), &UPDATE_TIMES)
            .map_err(|times| format!("its controller applies updates only at: {times}"))?;
        if terms.live && time == Some("OnReset") {
            return Err(
                "its controller applies updates only at: OnReset, and its Hardware document says `apply: live`".to_owned(),
            );
        }
        let own = match name {
            "firmware.bios" => Some(&self.system),
            "firmware.bmc" => Some(&self.manager),
            _ => None,
        };
        if let Some(path) = own {
            let component = path.clone().map(|path| (path, false));
            return Ok(Change::Update { image, component });
        }
        let mut components = updates.components.iter();
        let component = components.find(|each| name.strip_prefix("firmware.") == Some(each.id()));
        let Some(component) = component else {
            return Err("its UpdateService does not list it".to_owned());
        };
        if component.boolean("/Updateable") == Some(false) {
            return Err("its UpdateService lists it as not updateable".to_owned());
        }
        let component = Some((component.path.clone(), true));
        Ok(Change::Update { image, component })
    }
}

/// The protocol of an address, as Redfish has it.
fn protocol_of(image: &str) -> String {
    let scheme = image.split_once("://").map_or("", |(scheme, _)| scheme);
    scheme.to_ascii_uppercase()
}

/// The note of an update in one of the tries.
fn update_of(round: u32, name: &str) -> String {
    format!("update {round} {name}")
}

/// The note of pending values in one of the tries.
fn set_of(round: u32) -> String {
    format!("set {round}")
}

/// The note of the restart in one of the tries.
fn restart_of(round: u32) -> String {
    format!("restart {round}")
}

impl Machine<'_> {
    /// The values that are enforced and not as designed, and that its controller cannot change in place, or of which it is not
    /// known whether it can.
    pub(super) async fn fixed_values(
        &self,
        node: &NodeDesign,
        mut reading: HardwareReading,
    ) -> Vec<FixedValue> {
        let mut designed = node.hardware(Section::Firmware);
        designed.retain(|each| !shows(&reading.seen, &each.name, &each.value));
        if designed.is_empty() {
            return Vec::new();
        }
        let names = designed.iter().map(|each| &*each.name);
        let unread = match reading.error.take() {
            Some(error) => Some(error),
            None => self.read_for_changes(names, &mut reading).await.err(),
        };
        let unread = unread.map(|error| format!("what that depends on could not be read: {error}"));
        let fixed = designed.into_iter().filter_map(|each| {
            let refusal = match &unread {
                Some(why) => why.clone(),
                None => reading.change(node, &each.name, &each.value).err()?,
            };
            Some(FixedValue {
                name: each.name,
                reason: Arc::from(refusal),
            })
        });
        fixed.collect()
    }

    /// Reads what changes of these values depend on, as far as that was not read.
    async fn read_for_changes<'n>(
        &self,
        names: impl Iterator<Item = &'n str> + Clone,
        reading: &mut HardwareReading,
    ) -> Result<(), ActError> {
        let has = |part: &str| names.clone().any(|name| name.starts_with(part));
        if reading.updates.is_none() && has("firmware.") {
            self.read_updates(reading).await?;
        }
        if has("bios.")
            && let Some(bios) = &reading.bios
        {
            reading.terms = self.attribute_terms(bios).await?;
        }
        Ok(())
    }

    async fn read_settings(
        &self,
        order: &Order,
        system: &Resource,
    ) -> Result<HardwareReading, ActError> {
        let kept = order.step.given().kept_parts().iter();
        let names = settings(order).iter().chain(kept);
        let names: Vec<Arc<str>> = names.map(|each| each.name.clone()).collect();
        let drives = match names.iter().any(|name| **name == *"expect.drives") {
            true => Some(self.drives(system).await?.len()),
            false => None,
        };
        let mut reading = self.values_of(&names, system, drives).await;
        match reading.error.take() {
            Some(error) => Err(error),
            None => Ok(reading),
        }
    }

    /// How far a service is: its values are read twice, and what its notes tell of a restart that is owed.
    pub(super) async fn probe_service(&self, order: &Order) -> Result<Probe, ActError> {
        let is_begun = !super::notes::states(&order.notes).is_empty();
        let restarts = order.step.id.kind == StepKind::Service;
        let owes_restart = restarts && (1..=TRIES).any(|round| self.is_owed(order, round));
        let read = || async {
            let system = self.read_system().await?;
            let reading = self.read_settings(order, &system).await?;
            let is_true = unmet(order, &reading.seen).is_empty();
            Ok(is_true && (!restarts || power_of(&system) == Some(Power::On)))
        };
        // One reading is none here, too: a run ends the step by what this answers.
        if !owes_restart && holds(true, self.backend.settings.settling, read).await? {
            return Ok(Probe::Done);
        }
        Ok(match is_begun {
            true => Probe::UnderWay,
            false => Probe::NotBegun,
        })
    }

    /// Whether something was accepted in a try, and the restart after it was not.
    fn is_owed(&self, order: &Order, round: u32) -> bool {
        let updates = settings(order).iter();
        let updates = updates.map(|each| update_of(round, &each.name));
        let mut all = updates.chain([set_of(round)]);
        let is_asked = all.any(|what| state(&order.notes, &what) != RequestState::NotAsked);
        is_asked && state(&order.notes, &restart_of(round)) != RequestState::Done
    }

    /// Brings the values of the step true, and reads them a second time.
    pub(super) async fn service(&self, order: &Order, node: &NodeDesign) -> Result<(), ActError> {
        let until = Instant::now() + time_of(order);
        let restarts = order.step.id.kind == StepKind::Service;
        let mut reports = Vec::new();
        for round in 1..=TRIES {
            let restarted = state(&order.notes, &restart_of(round)) == RequestState::Done;
            if !restarted {
                let tried = self.ask_for_all(order, node, round, until).await?;
                reports = tried.reports;
                if !tried.is_accepted {
                    continue;
                }
                if restarts {
                    self.restart(order, round).await?;
                }
            }
            order.reporter.progress("reading all values again");
            let time = self.backend.settings.deploy.boot_time;
            if self
                .await_values(order, until.min(Instant::now() + time))
                .await?
                .is_empty()
            {
                return Ok(());
            }
        }
        let left = self.await_values(order, Instant::now()).await?;
        if left.is_empty() {
            return Ok(());
        }
        let next = next_rung(order, left.iter().map(|(setting, _)| &*setting.name));
        self.refuse(&format!("{}{next}", unchanged(TRIES, &left, &reports)))
    }

    /// Asks for everything that is not as it should be, and follows the updates to their ends.
    async fn ask_for_all(
        &self,
        order: &Order,
        node: &NodeDesign,
        round: u32,
        until: Instant,
    ) -> Result<Tried, ActError> {
        let mut tried = Tried::default();
        let system = self.sample().await?;
        let mut reading = self.read_settings(order, &system).await?;
        let missing = missing(settings(order), &reading.seen);
        let names = missing.iter().map(|each| &*each.name);
        self.read_for_changes(names, &mut reading).await?;
        let mut attributes = Map::new();
        let (mut secure_boot, mut protocols) = (None, Map::new());
        // All at once are judged before the first is asked for.
        let mut updates = Vec::new();
        for setting in missing {
            match reading.change(node, &setting.name, &setting.value) {
                Err(refusal) => {
                    return self
                        .refuse(&format!("`{}` cannot be changed: {refusal}", setting.name));
                }
                Ok(Change::Attribute { name, value }) => {
                    attributes.insert(name, value);
                }
                Ok(Change::SecureBoot(is_on)) => secure_boot = Some(is_on),
                Ok(Change::Protocols(properties)) => protocols.extend(properties),
                Ok(Change::Update { image, component }) => {
                    updates.push((setting, image, component))
                }
            }
        }
        // Asked for before, and as it should be by now: only its restart is left.
        tried.is_accepted = self.is_owed(order, round) || power_of(&system) == Some(Power::Off);
        for (setting, image, component) in updates {
            let what = update_of(round, &setting.name);
            let update = (&*what, image, component);
            self.update(order, &reading, update, until, &mut tried)
                .await?;
        }
        if !attributes.is_empty() || secure_boot.is_some() || !protocols.is_empty() {
            let note = Note::Asked {
                what: Arc::from(set_of(round)),
                before: Before::default(),
            };
            self.note(order, note).await?;
        }
        if let Some(bios) = reading.bios.as_ref().filter(|_| !attributes.is_empty()) {
            self.set_attributes(order, bios, attributes).await?;
            tried.is_accepted = true;
        }
        if let (Some(is_on), Some(resource)) = (secure_boot, &reading.secure_boot) {
            order.reporter.progress("setting Secure Boot");
            if resource.boolean("/SecureBootEnable") != Some(is_on) {
                let body = json!({ "SecureBootEnable": is_on });
                self.changes();
                self.controller.patch(resource, &body).await?;
            }
            tried.is_accepted = true;
        }
        if let Some(shown) = reading.protocols.as_ref().filter(|_| !protocols.is_empty()) {
            order
                .reporter
                .progress("setting network services of its controller");
            self.changes();
            let body = Value::Object(protocols);
            self.controller.patch(&shown.resource, &body).await?;
            tried.is_accepted = true;
        }
        Ok(tried)
    }

    /// Sets pending attributes of the BIOS.
    async fn set_attributes(
        &self,
        order: &Order,
        bios: &Resource,
        attributes: Map<String, Value>,
    ) -> Result<(), ActError> {
        order
            .reporter
            .progress("setting pending values of the BIOS");
        let time = apply_time(bios).map_err(|refusal| self.permanent(&refusal))?;
        let mut body = json!({ "Attributes": attributes });
        if let Some(time) = time {
            body["@Redfish.SettingsApplyTime"] = json!({ "ApplyTime": time });
        }
        // A task of pending values ends after the restart, and decides nothing.
        self.set_bios(bios.clone(), &body).await.map(drop)
    }

    /// Asks for an update, or finds the one that runs, and follows it until it ends or waits for the restart.
    async fn update(
        &self,
        order: &Order,
        reading: &HardwareReading,
        (what, image, component): (&str, Arc<str>, Option<Component>),
        until: Instant,
        tried: &mut Tried,
    ) -> Result<(), ActError> {
        let service = reading.updates.as_ref().map(|updates| &updates.service);
        let Some(action) = service.and_then(|each| each.action("UpdateService.SimpleUpdate"))
        else {
            return self.refuse("its UpdateService fetches no images (no action SimpleUpdate)");
        };
        order.reporter.progress(what.to_owned());
        let is_lost = matches!(state(&order.notes, what), RequestState::Asked(_));
        let running = match is_lost {
            true => self.running_on(&action.target).await?,
            false => None,
        };
        let body = |shape: &Shape| {
            let mut body = json!({ "ImageURI": &*image });
            if let Some((component, _)) = component.as_ref().filter(|_| shape.has(TARGETS)) {
                body[TARGETS] = json!([&**component]);
            }
            if shape.has(UPDATE_PROTOCOL) {
                body[UPDATE_PROTOCOL] = json!(protocol_of(&image));
            }
            if let (true, Ok(Some(time))) = (
                shape.has(APPLY_TIME),
                best_time(&action.apply_times(), &UPDATE_TIMES),
            ) {
                body[APPLY_TIME] = json!(time);
            }
            body
        };
        // Without a target a controller of several systems may take the update for each of them.
        let is_only = self.is_only_system().await?;
        if !is_only && component.is_none() {
            return self.refuse(
                "its controller has several systems, and does not tell which component is of this one",
            );
        }
        let has_times = !action.apply_times().is_empty();
        let shapes = update_shapes(component.as_ref(), is_only, has_times);
        let target: &str = &action.target;
        let send = |shape: &Shape| {
            self.changes();
            let body = body(shape);
            async move { self.controller.post(target, &body).await }
        };
        let ask = || self.controller.in_shapes(Operation::Update, shapes, send);
        let begun = match running {
            Some(task) => Begun::Task(task),
            None => self.once(order, what, Before::default(), ask).await?,
        };
        let is_good = match begun {
            Begun::Done | Begun::Said => true,
            Begun::Task(task) => {
                self.follow_update(order, (what, &task), until, tried)
                    .await?
            }
        };
        tried.is_accepted |= is_good;
        let what = Arc::from(what);
        self.note(order, Note::Done { what }).await
    }

    /// Follows the task of an update until it ends or waits for the restart; whether something may come of it.
    pub(super) async fn follow_update(
        &self,
        order: &Order,
        (what, task): (&str, &str),
        until: Instant,
        tried: &mut Tried,
    ) -> Result<bool, ActError> {
        let settling = self.backend.settings.settling;
        let mut still: Option<(String, Instant)> = None;
        loop {
            match self.controller.task(task).await {
                Ok(TaskState::Done) => return Ok(true),
                Ok(TaskState::Warned(text)) => {
                    let text = plain(&text, 300);
                    tried
                        .reports
                        .push(format!("{what} ended with a warning: {text}"));
                    return Ok(true);
                }
                Ok(TaskState::Gone) => {
                    tried
                        .reports
                        .push(format!("the task of {what} is not found any more"));
                    return Ok(true);
                }
                Ok(TaskState::Failed(text)) => {
                    tried
                        .reports
                        .push(format!("{what} failed: {}", plain(&text, 300)));
                    return Ok(false);
                }
                Ok(TaskState::Running(state)) => {
                    order.reporter.progress(format!("{what}: {state}"));
                    let since = match still.take() {
                        Some((before, since)) if before == state => since,
                        _ => Instant::now(),
                    };
                    if waits(&state) && since.elapsed() >= settling * STILL {
                        order
                            .reporter
                            .progress(format!("{what} waits for the restart"));
                        return Ok(true);
                    }
                    still = Some((state, since));
                }
                // The controller may restart on the way.
                Err(failure) => match ActError::from(failure) {
                    ActError::Passing(text) | ActError::Ambiguous(text) => {
                        order.reporter.progress(format!("{what}: {text}"));
                    }
                    error @ (ActError::Permanent(_) | ActError::Refused(_)) => return Err(error),
                },
            }
            if Instant::now() >= until {
                let text = self.about(&format!("{what} has not ended in the time of the step"));
                return Err(ActError::Ambiguous(Arc::from(text)));
            }
            sleep(settling.clamp(Duration::from_millis(100), Duration::from_secs(10))).await;
        }
    }

    /// Switches it off, sees it off, and switches it on.
    async fn restart(&self, order: &Order, round: u32) -> Result<(), ActError> {
        self.switch_off(order, self.backend.settings.shutdown)
            .await?;
        self.switch_on(order, None).await?;
        let what = Arc::from(restart_of(round));
        self.note(order, Note::Done { what }).await
    }

    /// Reads the values of the step until they are as they should be, or it is time: those that are not, with what they show.
    /// A controller that is away meanwhile is waited for.
    async fn await_values<'o>(
        &self,
        order: &'o Order,
        until: Instant,
    ) -> Result<Vec<(&'o HardwareSetting, Option<Arc<str>>)>, ActError> {
        let settling = self.backend.settings.settling;
        let mut level = Twice::default();
        loop {
            let read = async {
                let system = self.sample().await?;
                self.read_settings(order, &system).await
            };
            let is_over = Instant::now() >= until;
            match read.await {
                Ok(reading) => {
                    let missing = unmet(order, &reading.seen);
                    // One reading is none: some show once what was asked for, and then what they have. So the first one
                    // that shows it is never the last, also if it is time.
                    let level = level.look(missing.is_empty());
                    if level == Level::Holds || (is_over && level != Level::SeenOnce) {
                        let shown = |each: &'o HardwareSetting| {
                            (each, reading.seen.get(&each.name).cloned())
                        };
                        return Ok(missing.into_iter().map(shown).collect());
                    }
                }
                Err(ActError::Passing(text) | ActError::Ambiguous(text)) if !is_over => {
                    order.reporter.progress(text.to_string());
                }
                Err(error) => return Err(error),
            }
            sleep(settling.clamp(Duration::from_millis(100), Duration::from_secs(10))).await;
        }
    }
}

/// Whether a task is in a state in which it waits for something.
fn waits(state: &str) -> bool {
    let word = state.split(',').next().unwrap_or_default();
    matches!(
        word,
        "New" | "Pending" | "Scheduled" | "Starting" | "Suspended"
    )
}

/// The shapes of an update; `is_only`: the controller has no other system, so that a target need not be named.
fn update_shapes(component: Option<&Component>, is_only: bool, has_times: bool) -> Vec<Shape> {
    const NAMED: [&[&str]; 2] = [&[TARGETS], &[TARGETS, UPDATE_PROTOCOL]];
    const ALONE: [&[&str]; 2] = [&[], &[UPDATE_PROTOCOL]];
    let names: Vec<&[&'static str]> = match component {
        Some(_) if !is_only => NAMED.to_vec(),
        Some((_, true)) => [NAMED, ALONE].concat(),
        Some((_, false)) => [ALONE, NAMED].concat(),
        None => ALONE.to_vec(),
    };
    let shapes = names.into_iter().map(Shape::of);
    match has_times {
        true => shapes.map(|shape| shape.with(APPLY_TIME)).collect(),
        false => shapes.collect(),
    }
}
