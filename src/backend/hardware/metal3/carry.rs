//! The steps: what each asks of a host, in which order, and when it is done.
//!
//! Each can be begun anew at any point: it looks where the host is and goes on from there. What is asked
//! for is always a level (this image, off, no image), so that asking twice does no more than asking once;
//! which step asked is kept in an annotation, so that a step after a crash knows its own work.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Metal3;
use super::manifest::{self, Names};
use super::mover::{Mover, Result};
use super::resource::{Host, key};
use super::settings::Inspect;
use crate::backend::hardware::payload;
use crate::backend::hardware::proof::admit;
use crate::backend::{ActError, Order, Probe, Secret};
use crate::design::NodeDesign;
use crate::lifecycle::{ProvisionState as S, Verb};
use crate::step::{Parameters, StepKind};

/// What a teardown notes before it deletes a host.
const LEAVING: &str = "its BareMetalHost is deleted";

/// What is said of clean steps.
const NO_CLEAN_STEPS: &str =
    "Metal3 runs no clean steps on demand: it cleans when a system is taken off a host";

/// Carries steps out for one node.
#[derive(Debug)]
pub(super) struct Carrier<'a> {
    mover: Mover<'a>,
    node: &'a NodeDesign,
}

/// A step of the whole site.
pub(super) async fn for_site(metal3: &Metal3, order: &Order) -> Result<()> {
    if order.step.id.kind != StepKind::VerifySite {
        return Ok(());
    }
    let management = &metal3.management;
    let (cluster, namespace) = (management.cluster(), management.namespace());
    let knocked = management.knock().await;
    let subject = format!("management cluster `{cluster}`, namespace {namespace}");
    knocked.map_err(|trouble| trouble.into_error(&format!("{subject}: list hosts")))?;
    let mut said = format!("Metal3 in {subject}");
    if !metal3.settings.controller.verify {
        said.push_str("; the operator does not verify the certificates of controllers");
    }
    order.reporter.progress(said);
    Ok(())
}

impl<'a> Carrier<'a> {
    pub(super) fn new(metal3: &'a Metal3, order: &'a Order, node: &'a NodeDesign) -> Self {
        let name = metal3.name_of(&node.name);
        Self {
            mover: Mover::new(metal3, order, name, node.name.as_str()),
            node,
        }
    }

    fn metal3(&self) -> &'a Metal3 {
        self.mover.backend
    }

    fn order(&self) -> &'a Order {
        self.mover.order
    }

    fn kind(&self) -> StepKind {
        self.order().step.id.kind
    }

    fn parameters(&self) -> Option<&'a Parameters> {
        self.order().step.parameters.as_deref()
    }

    fn preserves(&self) -> bool {
        self.parameters()
            .is_some_and(|each| each.preserve_local_storage)
    }

    fn reason(&self) -> &'a str {
        let reason = self.parameters().and_then(|each| each.reason.as_deref());
        reason.unwrap_or("set by trueup")
    }

    fn cleans(&self) -> bool {
        self.metal3().cleans(self.node)
    }

    /// What marks a host as this step's.
    fn marker(&self) -> String {
        let order = self.order();
        json!({"run": order.run.as_str(), "step": order.step.id.to_string()}).to_string()
    }

    fn is_ours(&self, host: &Host) -> bool {
        host.annotation(key::STEP)
            .is_some_and(|marker| **marker == *self.marker())
    }

    /// Whether a teardown ends with the host's deletion: the machine left the design, is not retired, and
    /// trueup made the host.
    fn leaves(&self, host: &Host) -> bool {
        !self.metal3().designed.contains(&self.node.name)
            && !host.is_retired()
            && host.annotation(key::CREATED).is_some()
    }

    fn was_leaving(&self) -> bool {
        self.order().notes.iter().any(|note| **note == *LEAVING)
    }

    /// What is deployed: where it is, and how a host names it.
    fn image(&self) -> Result<(String, Value)> {
        manifest::image(self.node, &self.metal3().settings).ok_or_else(|| {
            self.mover
                .permanent("the settings name no `image` to deploy")
        })
    }

    /// How far the step is.
    pub(super) async fn probe(&self) -> Probe {
        let host = match self.mover.look().await {
            Ok(Some(host)) => host,
            Ok(None) if self.kind() == StepKind::Destroy && self.was_leaving() => {
                // Its Secrets may still be there.
                return Probe::UnderWay;
            }
            Ok(None) => return Probe::NotBegun,
            Err(error) => return Probe::Ambiguous(Arc::from(error.to_string())),
        };
        let at = |is_there: bool| match is_there {
            true => Probe::Done,
            false => Probe::NotBegun,
        };
        let power = |on: bool| match (host.spec.online == on, host.status.powered_on == on) {
            (true, true) => Probe::Done,
            (true, false) => Probe::UnderWay,
            (false, _) => Probe::NotBegun,
        };
        let state = host.state();
        match self.kind() {
            StepKind::PowerOn => power(true),
            StepKind::PowerOff => power(false),
            StepKind::SetRetired => at(self.is_retired_as_wanted(&host)),
            StepKind::UnsetRetired => at(!host.is_retired()),
            StepKind::SetMaintenance => at(host.annotation(key::MAINTENANCE).is_some()),
            StepKind::UnsetMaintenance => at(host.annotation(key::MAINTENANCE).is_none()),
            StepKind::Manage => at(state == S::Manageable),
            StepKind::Provide => at(state == S::Available),
            _ if !self.is_ours(&host) => Probe::NotBegun,
            StepKind::Prepare if is_prepared(&host) => Probe::Done,
            StepKind::Deploy if self.is_deployed(&host) => Probe::Done,
            StepKind::Destroy if self.is_destroyed(&host) && !self.leaves(&host) => Probe::Done,
            StepKind::Prepare | StepKind::Deploy | StepKind::Destroy => Probe::UnderWay,
            _ => Probe::NotBegun,
        }
    }

    /// Carries the step out.
    pub(super) async fn carry_out(&self) -> Result<()> {
        let mover = &self.mover;
        mover.admit(self.node).await?;
        match self.kind() {
            StepKind::Prepare => self.prepare().await,
            StepKind::Deploy => self.deploy().await,
            StepKind::Destroy => self.destroy().await,
            StepKind::PowerOn => self.power(true).await,
            StepKind::PowerOff => self.power(false).await,
            StepKind::Manage => self.level(Verb::Manage, S::Manageable, Some("true")).await,
            StepKind::Provide => self.level(Verb::Provide, S::Available, None).await,
            StepKind::SetRetired => self.retire(true).await,
            StepKind::UnsetRetired => self.retire(false).await,
            StepKind::SetMaintenance => self.maintain(Some(self.reason())).await,
            StepKind::UnsetMaintenance => self.maintain(None).await,
            StepKind::Clean => Err(mover.permanent(NO_CLEAN_STEPS)),
            other => Err(mover.permanent(format!("Metal3 cannot do `{other}`"))),
        }
    }

    /// Creates the host where there is none, else brings it up to date, and waits until it is available.
    async fn prepare(&self) -> Result<()> {
        let mover = &self.mover;
        let metal3 = self.metal3();
        let mut waiter = metal3.watch.wait_for(&mover.name);
        let host = match mover.look().await? {
            Some(host) => host,
            None => self.create().await?,
        };
        self.can_be_prepared(&host)?;
        let host = if self.is_ours(&host) {
            host
        } else {
            self.put_account(&host).await?;
            self.refresh(host).await?
        };
        let judge = |host: &Host| {
            self.can_be_prepared(host)?;
            Ok(is_prepared(host))
        };
        mover.until("prepare", &mut waiter, host, judge).await?;
        Ok(())
    }

    /// Refuses what must not become available: a retired machine, one that somebody works on or uses, one
    /// that carries a system.
    fn can_be_prepared(&self, host: &Host) -> Result<()> {
        let mover = &self.mover;
        mover.ours(host)?;
        if let Some(reason) = host.maintenance(self.metal3().site()) {
            return Err(mover.permanent(format!("is in maintenance ({reason})")));
        }
        if let Some(reason) = host.retired() {
            return Err(mover.permanent(format!("is retired ({reason}), and is never deployed to")));
        }
        if host.is_going() {
            return Err(mover.permanent("its BareMetalHost is being deleted"));
        }
        match host.state() {
            S::Active | S::Servicing | S::Other => Err(mover
                .gate(host, Verb::Provide)
                .err()
                .unwrap_or_else(|| mover.permanent(format!("is {}", host.state_name())))),
            _ => Ok(()),
        }
    }

    async fn create(&self) -> Result<Host> {
        let mover = &self.mover;
        let metal3 = self.metal3();
        if !metal3.settings.create {
            return Err(
                mover.permanent("there is no such BareMetalHost, and the settings create none")
            );
        }
        let host = manifest::created(
            self.node,
            &mover.name,
            metal3.site(),
            metal3.management.namespace(),
            &metal3.settings,
            self.cleans(),
            &self.marker(),
        );
        let host = host.map_err(|why| mover.permanent(why))?;
        self.put_account_for(None).await?;
        mover.say("creating its BareMetalHost");
        let management = &metal3.management;
        let send = || async {
            match management.create_host(&host).await {
                Ok(created) => Ok(Some(created)),
                // Somebody was faster, or an answer was lost before.
                Err(trouble) if trouble.is_conflict() => Ok(None),
                Err(trouble) => Err(trouble),
            }
        };
        let created = mover.ask("create", send).await?;
        let registry = &metal3.identities;
        let name = self.node.name.as_str();
        // What was deleted has left its UID in the record.
        registry.enrolled(name, None);
        let host = match created {
            Some(created) => created,
            None => mover.known().await?,
        };
        let (identity, proof) = metal3.judge(self.node, &host);
        let seen = (&identity, &proof);
        admit(registry, self.order(), self.node, seen, &mover.subject).await?;
        Ok(host)
    }

    /// Writes the account of the management controller, where somebody knows one. A host that was made by
    /// somebody else, for which none is given, keeps its own.
    async fn put_account(&self, host: &Host) -> Result<()> {
        let settings = &self.metal3().settings;
        let is_own = *host.spec.bmc.credentials_name == *Names::of(&self.mover.name).account;
        let has_other = !host.spec.bmc.credentials_name.is_empty() && !is_own;
        let knows = manifest::account(self.node, settings, &*self.metal3().secrets).is_ok();
        match has_other && !knows {
            true => Ok(()),
            false => self.put_account_for(Some(host)).await,
        }
    }

    async fn put_account_for(&self, host: Option<&Host>) -> Result<()> {
        let (mover, metal3) = (&self.mover, self.metal3());
        let account = manifest::account(self.node, &metal3.settings, &*metal3.secrets);
        let (username, password) = account.map_err(|why| mover.permanent(why))?;
        let name = Names::of(&mover.name).account;
        let data = [("username", &username), ("password", &password)];
        self.put_secret(&name, &data, host).await
    }

    async fn put_secret(
        &self,
        name: &str,
        data: &[(&str, &Secret)],
        owner: Option<&Host>,
    ) -> Result<()> {
        let management = &self.metal3().management;
        let request = format!("write Secret `{name}`");
        self.mover
            .ask(&request, || management.put_secret(name, data, owner))
            .await
    }

    /// Makes an existing host what its design says, and marks it as this step's.
    async fn refresh(&self, host: Host) -> Result<Host> {
        let metal3 = self.metal3();
        let patch = |host: &Host| {
            self.can_be_prepared(host)?;
            let patch = manifest::refreshed(
                self.node,
                metal3.site(),
                metal3.management.namespace(),
                &metal3.settings,
                self.cleans(),
                host,
            );
            let mut patch = patch.map_err(|why| self.mover.permanent(why))?;
            let mut annotations = json!({key::STEP: self.marker(), key::MANAGEABLE: null});
            if host.state() == S::Available && metal3.settings.inspect == Inspect::Always {
                annotations[key::INSPECT] = json!("");
            }
            patch["metadata"] = json!({ "annotations": annotations });
            if host.wants_system() {
                // What was not deployed well is taken off before it is tried again.
                take_off(&mut patch["spec"]);
            }
            Ok(Some(patch))
        };
        self.mover.change("prepare", host, patch).await
    }

    /// Whether this step's image is on the host, and the machine is on.
    fn is_deployed(&self, host: &Host) -> bool {
        let image = manifest::image(self.node, &self.metal3().settings);
        image.is_some_and(|(url, _)| host.carries(&url))
            && host.state() == S::Active
            && host.status.powered_on
            && host.annotation(key::PRESERVED).is_none()
    }

    /// Deploys the system.
    async fn deploy(&self) -> Result<()> {
        let (mover, metal3) = (&self.mover, self.metal3());
        let mut waiter = metal3.watch.wait_for(&mover.name);
        let mut host = mover.known().await?;
        let (url, image) = self.image()?;
        if !self.is_ours(&host) {
            self.can_be_deployed(&host)?;
            let names = Names::of(&mover.name);
            let secrets = &*metal3.secrets;
            let refuse = |why: String| mover.permanent(why);
            let user = manifest::user_data(self.node, &metal3.settings, secrets).map_err(refuse)?;
            let network =
                manifest::network_data(self.node, &metal3.settings, secrets).map_err(refuse)?;
            self.put_secret(&names.user_data, &[("userData", &user)], Some(&host))
                .await?;
            let namespace = metal3.management.namespace();
            let refer = |name: &str| json!({"name": name, "namespace": namespace});
            let mut spec =
                json!({"image": image, "online": true, "userData": refer(&names.user_data)});
            if let Some(network) = &network {
                self.put_secret(
                    &names.network_data,
                    &[("networkData", network)],
                    Some(&host),
                )
                .await?;
                spec["networkData"] = refer(&names.network_data);
            }
            let left = payload::not_carried(self.node).join(", ");
            if !left.is_empty() && metal3.settings.user_data.is_none() {
                mover.say(format!(
                    "the user data does not carry all of these boot actions: {left}"
                ));
            }
            host = mover
                .change("deploy", host, |host| {
                    self.can_be_deployed(host)?;
                    let annotations = json!({key::STEP: self.marker()});
                    Ok(Some(
                        json!({"metadata": {"annotations": annotations}, "spec": spec}),
                    ))
                })
                .await?;
        }
        let still = |host: &Host| match host.spec.image.as_ref().map(|image| &*image.url) {
            Some(wanted) if *wanted == *url => Ok(()),
            _ => Err(mover.permanent("somebody else has changed its image meanwhile")),
        };
        let judge = |host: &Host| {
            still(host)?;
            Ok(host.state() == S::Active && host.carries(&url))
        };
        let deployed = mover.until("deploy", &mut waiter, host, judge).await;
        let host = match deployed {
            Ok(host) => host,
            Err(error @ ActError::Permanent(_)) => {
                self.give_up(&url).await?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let host = mover
            .powered("deploy", &mut waiter, host, true, still)
            .await?;
        if host.annotation(key::PRESERVED).is_some() {
            let mode = manifest::cleaning(self.cleans());
            let patch = json!({"metadata": {"annotations": {key::PRESERVED: null}},
                "spec": {"automatedCleaningMode": mode}});
            mover
                .change("restore cleaning", host, |_| Ok(Some(patch.clone())))
                .await?;
        }
        Ok(())
    }

    /// Takes the image off where the operator fails to deploy it: it would try again for ever, and bring the
    /// machine up some time when nobody reckons with it.
    async fn give_up(&self, url: &str) -> Result<()> {
        let mover = &self.mover;
        let patch = |host: &Host| {
            let image = host.spec.image.as_ref().map(|image| &*image.url);
            let fails = host.has_failed() && host.state() != S::Active;
            if !fails || !self.is_ours(host) || image != Some(url) {
                return Ok(None);
            }
            mover.say("taking its image off again");
            let mut patch = json!({"spec": {"online": false}});
            take_off(&mut patch["spec"]);
            Ok(Some(patch))
        };
        match mover.look().await? {
            Some(host) => mover.change("give up", host, patch).await.map(drop),
            None => Ok(()),
        }
    }

    fn can_be_deployed(&self, host: &Host) -> Result<()> {
        self.mover.ours(host)?;
        self.mover.gate(host, Verb::Deploy)
    }

    fn is_destroyed(&self, host: &Host) -> bool {
        matches!(host.state(), S::Available | S::Manageable)
            && !host.wants_system()
            && !host.status.powered_on
    }

    /// Takes the system off, switches the machine off, and deletes the host where it has left the design.
    async fn destroy(&self) -> Result<()> {
        let mover = &self.mover;
        let mut waiter = self.metal3().watch.wait_for(&mover.name);
        let Some(mut host) = mover.look().await? else {
            return match self.was_leaving() {
                true => self.delete_secrets().await,
                false => Err(mover.permanent("there is no such BareMetalHost")),
            };
        };
        if !host.is_going() {
            if !self.is_ours(&host) {
                host = mover
                    .change("destroy", host, |host| self.teardown(host).map(Some))
                    .await?;
            }
            if host.state() != S::Enroll {
                let judge = |host: &Host| {
                    Ok(host.is_going()
                        || matches!(host.state(), S::Available | S::Manageable)
                            && !host.wants_system())
                };
                host = mover.until("destroy", &mut waiter, host, judge).await?;
                if !host.is_going() {
                    let any = |_: &Host| Ok(());
                    host = mover
                        .powered("power off", &mut waiter, host, false, any)
                        .await?;
                }
            }
        }
        if !self.leaves(&host) && !host.is_going() {
            return Ok(());
        }
        self.delete(waiter, host).await
    }

    /// The change that takes the system off.
    fn teardown(&self, host: &Host) -> Result<Value> {
        let mover = &self.mover;
        mover.ours(host)?;
        match host.state() {
            S::Available | S::Manageable => {}
            S::Enroll if self.leaves(host) => {}
            _ => mover.gate(host, Verb::Delete)?,
        }
        if host.spec.disable_power_off {
            return Err(mover.permanent("disablePowerOff is set on it: it cannot be switched off"));
        }
        let cleans = self.cleans() && !self.preserves();
        let preserved = match self.preserves() {
            true => json!(self.order().run.as_str()),
            false => Value::Null,
        };
        let mut spec = json!({
            "online": false,
            "automatedCleaningMode": manifest::cleaning(cleans),
        });
        if host.spec.externally_provisioned {
            spec["externallyProvisioned"] = json!(false);
        }
        take_off(&mut spec);
        let annotations = json!({key::STEP: self.marker(), key::PRESERVED: preserved});
        Ok(json!({"metadata": {"annotations": annotations}, "spec": spec}))
    }

    /// Deletes the host and waits until it is gone, and its Secrets with it.
    async fn delete(&self, mut waiter: super::watch::Waiter, host: Host) -> Result<()> {
        let (mover, management) = (&self.mover, &self.metal3().management);
        self.order().reporter.note(LEAVING).await?;
        mover.say("deleting its BareMetalHost");
        let mut host = host;
        mover
            .ask("delete", || management.delete_host(&host))
            .await?;
        while let Some(next) = mover.next("delete", &mut waiter, &host).await? {
            host = next;
            mover.say(host.failed());
        }
        self.delete_secrets().await
    }

    /// Deletes what a host that is gone was given in Secrets; nothing where they went with it.
    async fn delete_secrets(&self) -> Result<()> {
        let (mover, management) = (&self.mover, &self.metal3().management);
        let names = Names::of(&mover.name);
        for name in [names.account, names.user_data, names.network_data] {
            let request = format!("delete Secret `{name}`");
            mover
                .ask(&request, || management.delete_secret(&name))
                .await?;
        }
        Ok(())
    }

    /// Switches the machine on or off, and sees it stay so.
    async fn power(&self, on: bool) -> Result<()> {
        let mover = &self.mover;
        let (verb, what) = match on {
            true => (Verb::PowerOn, "power on"),
            false => (Verb::PowerOff, "power off"),
        };
        let can = |host: &Host| {
            mover.driven(host)?;
            if !on && host.spec.disable_power_off {
                return Err(
                    mover.permanent("disablePowerOff is set on it: it cannot be switched off")
                );
            }
            let held: Vec<&str> = host.held_off().map(|each| &**each).collect();
            if on && !held.is_empty() {
                return Err(mover.permanent(format!(
                    "is held off by {}, until whoever set that takes it away",
                    held.join(", ")
                )));
            }
            Ok(())
        };
        let mut waiter = self.metal3().watch.wait_for(&mover.name);
        let host = mover.known().await?;
        let host = mover
            .change(what, host, |host| {
                can(host)?;
                mover.gate(host, verb)?;
                let patch = json!({"spec": {"online": on}});
                Ok((host.spec.online != on).then_some(patch))
            })
            .await?;
        let still = |host: &Host| match host.spec.online == on {
            true => can(host),
            false => Err(mover.permanent("somebody else has switched it back meanwhile")),
        };
        mover.powered(what, &mut waiter, host, on, still).await?;
        Ok(())
    }

    /// Takes a host out of what is available, or back.
    async fn level(&self, verb: Verb, wanted: S, annotation: Option<&str>) -> Result<()> {
        let mover = &self.mover;
        let host = mover.known().await?;
        let patch = |host: &Host| {
            if host.state() == wanted {
                return Ok(None);
            }
            mover.ours(host)?;
            mover.gate(host, verb)?;
            if !matches!(host.state(), S::Available | S::Manageable) {
                return Err(mover.permanent(format!(
                    "is {}: the operator itself brings it to available",
                    host.failed()
                )));
            }
            Ok(Some(
                json!({"metadata": {"annotations": {key::MANAGEABLE: annotation}}}),
            ))
        };
        mover.change(verb.as_str(), host, patch).await.map(drop)
    }

    fn is_retired_as_wanted(&self, host: &Host) -> bool {
        let reason = host.annotation(key::RETIRED_REASON);
        host.is_retired() && reason.is_some_and(|reason| **reason == *self.reason())
    }

    /// Sets the retired flag or takes it off. A host that is available counts as managed only from then on.
    async fn retire(&self, wanted: bool) -> Result<()> {
        let mover = &self.mover;
        let host = mover.known().await?;
        let patch = |host: &Host| {
            let is_there = match wanted {
                true => self.is_retired_as_wanted(host),
                false => !host.is_retired(),
            };
            let (label, reason) = match wanted {
                true => (json!("true"), json!(self.reason())),
                false => (Value::Null, Value::Null),
            };
            let metadata = json!({"labels": {key::RETIRED: label},
                "annotations": {key::RETIRED_REASON: reason}});
            Ok((!is_there).then(|| json!({ "metadata": metadata })))
        };
        mover.change("retire", host, patch).await.map(drop)
    }

    async fn maintain(&self, reason: Option<&str>) -> Result<()> {
        let mover = &self.mover;
        let host = mover.known().await?;
        if reason.is_none()
            && let Some(why) = host.left_alone()
        {
            return Err(mover.permanent(format!("is {why}: whoever set that has to take it off")));
        }
        let patch = json!({"metadata": {"annotations": {key::MAINTENANCE: reason}}});
        let patch = |host: &Host| {
            let is_there = host.annotation(key::MAINTENANCE).map(|text| &**text) == reason;
            Ok((!is_there).then(|| patch.clone()))
        };
        mover.change("maintenance", host, patch).await.map(drop)
    }
}

/// Whether a host is available, and not about to be inspected.
fn is_prepared(host: &Host) -> bool {
    host.state() == S::Available && host.annotation(key::INSPECT).is_none()
}

/// What is taken off a host's spec when its system is.
fn take_off(spec: &mut Value) {
    for field in [
        "image",
        "customDeploy",
        "userData",
        "networkData",
        "metaData",
    ] {
        spec[field] = Value::Null;
    }
}
