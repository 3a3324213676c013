//! From where a machine boots next: the boot override, set, read back, and taken back.
//!
//! The source is chosen from the values that the machine offers. A request is no proof: after each, also after one that
//! failed, the override is read; if it is not as wanted, the next shape is tried, which does no harm to a level.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::machine::Machine;
use super::resource::Resource;
use super::settings::{Mode, Source, field};
use super::shapes::{
    CONTINUOUS, DISABLED, DISK, MODE, NO_TARGET, Operation, SETTINGS, Shape, Shapes,
};
use crate::backend::ActError;
use crate::backend::hardware::level::{self, Pace};
use crate::backend::hardware::written::for_node;
use crate::backend::http::{Class, Failure};
use crate::design::{NodeDesign, Section};
use crate::threads::lock;

/// How long a boot override that was accepted may take to show: three settling times, and no less than this.
const TIME: Duration = Duration::from_secs(1);
/// How often a request is sent whose answer was lost.
const LOST: u32 = 3;
/// Where the sources are said that a machine offers.
const TARGETS: &str = "/Boot/BootSourceOverrideTarget@Redfish.AllowableValues";
/// Sources from which a machine may be installed.
const INSTALLING: [&str; 7] = [
    "Pxe",
    "Cd",
    "UsbCd",
    "Usb",
    "Floppy",
    "UefiHttp",
    "RemoteDrive",
];

/// How a boot override is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BootOverride {
    /// It is not as asked for.
    No,
    /// For the next boot only.
    Once,
    /// For every boot, though it was asked for once: it is to be taken back.
    Continuous,
    /// Among the settings for the next boot, so that nothing shows when it is used.
    Later,
}

/// The boot sources that carry out a way to deploy, best first.
pub(super) fn targets(from: Source) -> &'static [&'static str] {
    match from {
        Source::Pxe => &["Pxe"],
        Source::VirtualMedia => &["Cd", "UsbCd", "Usb"],
        Source::UefiHttp => &["UefiHttp"],
    }
}

/// The boot source that a machine offers for a way to deploy; if it lists none, the first.
fn target(system: &Resource, from: Source) -> Option<&'static str> {
    let offered = system.texts(TARGETS);
    let mut wanted = targets(from).iter();
    if offered.is_empty() {
        return wanted.next().copied();
    }
    wanted.find(|target| offered.contains(target)).copied()
}

fn boot_override(resource: &Resource, target: &str) -> BootOverride {
    let is_set = resource.text("/Boot/BootSourceOverrideTarget") == Some(target);
    match resource.text("/Boot/BootSourceOverrideEnabled") {
        Some("Once") if is_set => BootOverride::Once,
        Some("Continuous") if is_set => BootOverride::Continuous,
        _ => BootOverride::No,
    }
}

/// The source from which a machine may be installed at its next boot, and for how long that counts.
pub(super) fn installs_from(resource: &Resource) -> Option<(Arc<str>, Arc<str>)> {
    let enabled = resource.text("/Boot/BootSourceOverrideEnabled")?;
    let target = resource.text("/Boot/BootSourceOverrideTarget")?;
    let counts = enabled != "Disabled" && INSTALLING.contains(&target);
    counts.then(|| (Arc::from(target), Arc::from(enabled)))
}

/// Whether a machine can only be told to boot from a source for good.
pub(super) fn only_continuous(system: &Resource) -> bool {
    let offered = system.texts("/Boot/BootSourceOverrideEnabled@Redfish.AllowableValues");
    !offered.is_empty() && !offered.contains(&"Once")
}

/// The shapes of a boot override: once before for good, at the system before its settings, with the mode first where
/// one is wanted.
fn boot_shapes(system: &Resource, mode: Option<Mode>) -> Vec<Shape> {
    let mut all = Vec::new();
    for continuous in [false, true] {
        for at_settings in [false, true] {
            for with_mode in [mode.is_some(), mode.is_none()] {
                let names = [
                    (continuous, CONTINUOUS),
                    (at_settings, SETTINGS),
                    (with_mode, MODE),
                ];
                let names: Vec<&str> = names
                    .iter()
                    .filter(|(has, _)| *has)
                    .map(|(_, name)| *name)
                    .collect();
                let is_possible = (!continuous || !refuses(system, CONTINUOUS))
                    && (continuous || !only_continuous(system))
                    && (!at_settings || settings_of(system).is_some());
                if is_possible {
                    all.push(Shape::of(&names));
                }
            }
        }
    }
    all
}

fn refuses(system: &Resource, enabled: &str) -> bool {
    let offered = system.texts("/Boot/BootSourceOverrideEnabled@Redfish.AllowableValues");
    !offered.is_empty() && !offered.contains(&enabled)
}

/// The shapes of a boot override that is taken back, of those values that the machine offers.
fn usual_shapes(system: &Resource) -> Vec<Shape> {
    let offered = system.texts(TARGETS);
    let offers = |target: &str| offered.is_empty() || offered.contains(&target);
    let mut all = Vec::new();
    if offers(NO_TARGET) {
        all.push(Shape::of(&[DISABLED, NO_TARGET]));
    }
    all.push(Shape::of(&[DISABLED]));
    if offers(DISK) {
        all.push(Shape::of(&[DISK]));
    }
    let with_mode: Vec<Shape> = all.iter().map(|shape| shape.with(MODE)).collect();
    all.extend(with_mode);
    if settings_of(system).is_some() {
        let at_settings: Vec<Shape> = all.iter().map(|shape| shape.with(SETTINGS)).collect();
        all.extend(at_settings);
    }
    all
}

/// Where the settings of a system for its next boot are.
fn settings_of(system: &Resource) -> Option<&str> {
    system.link("/@Redfish.Settings/SettingsObject")
}

fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Uefi => "UEFI",
        Mode::Legacy => "Legacy",
    }
}

/// The mode that the hardware profile of a node asks for.
fn profile_mode(node: &NodeDesign) -> Option<Mode> {
    let written = field(node, Section::Hardware, &["hardware_profile", "boot_mode"])?;
    match written.as_str()? {
        "uefi" => Some(Mode::Uefi),
        "bios" => Some(Mode::Legacy),
        _ => None,
    }
}

/// The mode in which a system boots; `None` if it does not say.
fn mode_of(system: &Resource) -> Option<&str> {
    system.text("/Boot/BootSourceOverrideMode")
}

impl Machine<'_> {
    /// Checks that it can boot from where it should.
    pub(super) async fn check_boot(&self, system: &Resource) -> Result<(), ActError> {
        let from = self.backend.settings.deploy.from;
        if target(system, from).is_none() {
            let offered = system.texts(TARGETS);
            let wanted = targets(from).join(" nor ");
            return self.refuse(&format!(
                "it cannot be booted from {wanted}, but only from: {}",
                offered.join(", ")
            ));
        }
        let has = |name: &str| system.value.pointer(name).is_some();
        let has_override = has(TARGETS)
            || has("/Boot/BootSourceOverrideTarget")
            || has("/Boot/BootSourceOverrideEnabled");
        if !has_override && settings_of(system).is_none() {
            return self.refuse(
                "its controller offers no boot override (`Boot` has no BootSourceOverrideTarget), so that it cannot be \
                 booted from what installs it",
            );
        }
        Ok(())
    }

    /// Tries whether its controller takes a boot override, before anything is changed that a deploy cannot do without: those of
    /// its make that took one are believed. Its disk is the source if that is offered, which installs nothing.
    pub(super) async fn try_boot(
        &self,
        node: &NodeDesign,
        system: Resource,
    ) -> Result<(), ActError> {
        if self.controller.has_taken(Operation::Boot) {
            return Ok(());
        }
        let from = self.backend.settings.deploy.from;
        let is_offered = system.texts(TARGETS).contains(&DISK);
        let body = match is_offered {
            true => json!({"BootSourceOverrideTarget": DISK}),
            false => self.boot_body(node, target(&system, from).unwrap_or_default()),
        };
        self.override_boot(node, system, body).await?;
        // That of the disk is set anew by the deploy, and harmless until then.
        match is_offered {
            true => Ok(()),
            false => self.boot_as_usual().await,
        }
    }

    /// Has it boot from where it should the next time, and reads that back.
    pub(super) async fn boot_next(&self, node: &NodeDesign) -> Result<BootOverride, ActError> {
        let system = self.unchanged().await?;
        self.check_boot(&system).await?;
        let target = target(&system, self.backend.settings.deploy.from).unwrap_or_default();
        let body = self.boot_body(node, target);
        self.override_boot(node, system, body).await
    }

    /// The body of a boot override to what installs a node.
    fn boot_body(&self, node: &NodeDesign, target: &str) -> Value {
        let settings = &self.backend.settings;
        let mut body = json!({"BootSourceOverrideTarget": target});
        if let (Source::UefiHttp, Some(image)) = (settings.deploy.from, &settings.image) {
            body["HttpBootUri"] = json!(for_node(image, node));
        }
        body
    }

    /// Sets a boot override in one shape after the other, until it is read back as it was set.
    async fn override_boot(
        &self,
        node: &NodeDesign,
        system: Resource,
        body: Value,
    ) -> Result<BootOverride, ActError> {
        let target = body["BootSourceOverrideTarget"].as_str();
        let target = &*target.unwrap_or_default().to_owned();
        let mode = self.backend.settings.deploy.mode;
        let mode = mode.or_else(|| profile_mode(node));
        let wanted_mode = mode.map(mode_text).or(mode_of(&system)).map(str::to_owned);
        let mut shapes = self
            .controller
            .shapes(Operation::Boot, boot_shapes(&system, mode));
        let mut next = shapes.next();
        let mut first: Option<ActError> = None;
        let mut read = Some(system);
        while let Some(shape) = next {
            let mut boot = body.clone();
            boot["BootSourceOverrideEnabled"] = json!(match shape.has(CONTINUOUS) {
                true => "Continuous",
                false => "Once",
            });
            if shape.has(MODE) {
                boot[MODE] = json!(wanted_mode.as_deref().unwrap_or("UEFI"));
            }
            let boot = json!({ "Boot": boot });
            let sent = self.send_boot(&shape, &boot, read.take()).await?;
            let (shown, system) = self.await_override(target, &shape, sent.is_ok()).await?;
            let problem = match (&sent, shown) {
                (Err(failure), BootOverride::No) => ActError::from(failure.clone()),
                (Ok(()), BootOverride::No) => self.permanent(&format!(
                    "its controller accepts a boot override to {target}, and does not show it"
                )),
                (_, shown) => match self.mode_differs(&system, wanted_mode.as_deref()) {
                    None => {
                        self.controller.takes(Operation::Boot, &shape);
                        return Ok(shown);
                    }
                    Some(problem) => problem,
                },
            };
            next = after(&mut shapes, &shape, &sent);
            first.get_or_insert(problem);
        }
        match first {
            Some(error) => Err(error),
            None => self.refuse("no shape of a boot override is left to try"),
        }
    }

    /// How it does not boot in the mode that is wanted, or was set before.
    fn mode_differs(&self, system: &Resource, wanted: Option<&str>) -> Option<ActError> {
        match (mode_of(system), wanted) {
            (Some(found), Some(wanted)) if found != wanted => Some(self.permanent(&format!(
                "it would boot in the mode {found}, not {wanted}, and its controller does not let that be set"
            ))),
            _ => None,
        }
    }

    /// Sends a change of the boot override, of the system as it was read just before; a refusal is in the result, and a lost
    /// answer is asked for again.
    async fn send_boot(
        &self,
        shape: &Shape,
        body: &Value,
        mut read: Option<Resource>,
    ) -> Result<Result<(), Failure>, ActError> {
        let mut lost = 0;
        loop {
            let system = match read.take() {
                Some(system) => system,
                None => self.sample().await?,
            };
            let resource = match settings_of(&system).filter(|_| shape.has(SETTINGS)) {
                None => system,
                Some(path) => match self.controller.get_if_there(path).await? {
                    Some(resource) => resource,
                    // Some only take changes there.
                    None => Resource {
                        value: Value::Null,
                        path: Arc::from(path),
                        etag: None,
                    },
                },
            };
            self.changes();
            match self.controller.patch(&resource, body).await {
                Ok(_) => return Ok(Ok(())),
                Err(failure) if failure.status().is_some() && failure.class() != Class::Passing => {
                    return Ok(Err(failure));
                }
                Err(failure) if failure.class() == Class::Permanent => return Err(failure.into()),
                Err(failure) => {
                    lost += 1;
                    if lost >= LOST {
                        return Err(failure.into());
                    }
                    tokio::time::sleep(self.backend.settings.settling).await;
                }
            }
        }
    }

    /// How a boot override shows, and the system that shows it: awaited if it was accepted, read once where it was not.
    async fn await_override(
        &self,
        target: &str,
        shape: &Shape,
        is_accepted: bool,
    ) -> Result<(BootOverride, Resource), ActError> {
        let look = || async move {
            let system = self.sample().await?;
            let shown = boot_override(&system, target);
            if shown != BootOverride::No || !shape.has(SETTINGS) {
                return Ok::<_, ActError>((shown, system));
            }
            let shown = match self.settings_resource(&system).await? {
                Some(settings) if boot_override(&settings, target) != BootOverride::No => {
                    BootOverride::Later
                }
                _ => BootOverride::No,
            };
            Ok((shown, system))
        };
        if is_accepted {
            let last = &Mutex::new(None);
            let is_set = || async move {
                let seen = look().await?;
                let is_set = seen.0 != BootOverride::No;
                *lock(last) = Some(seen);
                Ok(is_set)
            };
            // Not shown: the next shape is tried.
            let seen = level::seen(true, self.override_pace(), is_set).await;
            if let (Ok(()), Some(last)) = (seen, lock(last).take()) {
                return Ok(last);
            }
        }
        look().await
    }

    fn override_pace(&self) -> Pace<'static> {
        let settling = self.backend.settings.settling;
        Pace::within("boot override", settling, TIME.max(settling * 3))
    }

    async fn settings_resource(&self, system: &Resource) -> Result<Option<Resource>, ActError> {
        match settings_of(system) {
            Some(path) => Ok(self.controller.get_if_there(path).await?),
            None => Ok(None),
        }
    }

    /// Takes a boot override back if there is one that may install, and reads that back.
    pub(super) async fn boot_as_usual(&self) -> Result<(), ActError> {
        let is_begun = &AtomicBool::new(false);
        let is_back = || async move {
            let system = match is_begun.swap(true, Ordering::Relaxed) {
                false => self.recent().await?,
                true => self.sample().await?,
            };
            let settings = self.settings_resource(&system).await?;
            let is_later = settings.is_some_and(|settings| installs_from(&settings).is_some());
            Ok::<_, ActError>(installs_from(&system).is_none() && !is_later)
        };
        if is_back().await? {
            return Ok(());
        }
        let system = self.recent().await?;
        let mut shapes = self
            .controller
            .shapes(Operation::BootAsUsual, usual_shapes(&system));
        let mut next = shapes.next();
        let mut first: Option<ActError> = None;
        let mode = mode_of(&system).map(str::to_owned);
        let mut read = Some(system);
        while let Some(shape) = next {
            let body = json!({ "Boot": usual_body(&shape, mode.as_deref()) });
            let sent = self.send_boot(&shape, &body, read.take()).await?;
            // Not shown: the next shape is tried.
            let is_shown = sent.is_ok()
                && level::seen(true, self.override_pace(), is_back)
                    .await
                    .is_ok();
            if is_shown || is_back().await? {
                self.controller.takes(Operation::BootAsUsual, &shape);
                return Ok(());
            }
            next = after(&mut shapes, &shape, &sent);
            first.get_or_insert_with(|| match sent {
                Err(failure) => failure.into(),
                Ok(()) => self.permanent("its boot override was taken back, and is still shown"),
            });
        }
        match first {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The boot override of a deploy as it shows now.
    pub(super) async fn shown_override(&self) -> Result<BootOverride, ActError> {
        let system = self.sample().await?;
        let all = targets(self.backend.settings.deploy.from).iter();
        let mut shown = all.map(|target| boot_override(&system, target));
        let found = shown.find(|each| *each != BootOverride::No);
        Ok(found.unwrap_or(BootOverride::No))
    }

    /// Whether its boot override was used up.
    pub(super) async fn override_is_used(&self) -> Result<bool, ActError> {
        let system = self.recent().await?;
        let enabled = system.text("/Boot/BootSourceOverrideEnabled");
        Ok(enabled.is_none_or(|enabled| enabled == "Disabled"))
    }
}

/// The shape to try after one that did not come about.
fn after(shapes: &mut Shapes, shape: &Shape, sent: &Result<(), Failure>) -> Option<Shape> {
    let words = sent.as_ref().err().and_then(Failure::words);
    shapes.after(shape, words.unwrap_or_default())
}

fn usual_body(shape: &Shape, mode: Option<&str>) -> Value {
    let mut boot = json!({});
    if shape.has(DISABLED) {
        boot["BootSourceOverrideEnabled"] = json!("Disabled");
    }
    for target in [NO_TARGET, DISK] {
        if shape.has(target) {
            boot["BootSourceOverrideTarget"] = json!(target);
        }
    }
    if shape.has(MODE) {
        boot[MODE] = json!(mode.unwrap_or("UEFI"));
    }
    boot
}
