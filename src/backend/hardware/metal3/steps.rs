//! The steps: what each asks of a host, in which order, and when it is done.
//!
//! Each can be begun anew at any point: it observes the state of the host and continues from there. A request
//! for is always a level (this image, off, no image), so that asking twice does no more than asking once;
//! which step asked is kept in an annotation, so that a step after a crash knows its own work.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::Metal3;
use super::before::Before;
use super::manifest::{self, HostDesign, Names};
use super::resource::{Host, key};
use super::settings::Inspect;
use crate::backend::hardware::driver::{Result, StepTarget};
use crate::backend::hardware::payload;
use crate::backend::hardware::proof::Evidence;
use crate::backend::hardware::provisioner::Task;
use crate::backend::{ActError, Order, Probe, Secret};
use crate::design::NodeDesign;
use crate::lifecycle::{ProvisionState as S, Verb};
use crate::step::StepKind;

/// The note of a teardown before it deletes a host.
const LEAVING: &str = "its BareMetalHost is deleted";

/// The refusal of clean steps.
const NO_CLEAN_STEPS: &str =
    "Metal3 runs no clean steps on demand: it cleans when a system is taken off a host";

/// The steps on one node.
pub(super) struct HostSteps<'a> {
    pub(super) task: Task<'a, Metal3>,
    /// The state of the objects of its firmware before a service of this process.
    pub(super) noted_before: Mutex<Option<Before>>,
}

impl<'a> HostSteps<'a> {
    pub(super) fn new(metal3: &'a Metal3, order: &'a Order, node: &'a NodeDesign) -> Self {
        let namespace = metal3.management.namespace();
        let subject = |name: &str| format!("node `{}` (host {namespace}/{name})", node.name);
        Self {
            task: Task::new(metal3, order, node, subject),
            noted_before: Mutex::default(),
        }
    }

    pub(super) fn metal3(&self) -> &'a Metal3 {
        self.task.backend
    }

    fn design(&self) -> HostDesign<'a> {
        let metal3 = self.metal3();
        HostDesign {
            node: self.task.node,
            site: &metal3.roster.site,
            namespace: metal3.management.namespace(),
            settings: &metal3.settings,
            cleans: self.cleans(),
        }
    }

    fn cleans(&self) -> bool {
        self.metal3().cleans(self.task.node)
    }

    /// The marker of this step on a host.
    pub(super) fn marker(&self) -> String {
        let order = self.task.order;
        json!({"run": order.run.as_str(), "step": order.step.id.to_string()}).to_string()
    }

    pub(super) fn is_ours(&self, host: &Host) -> bool {
        host.annotation(key::STEP)
            .is_some_and(|marker| **marker == *self.marker())
    }

    /// Whether a teardown ends with the host's deletion: the machine left the design, is not retired, and
    /// trueup made the host.
    fn leaves(&self, host: &Host) -> bool {
        self.task.has_left() && !host.is_retired() && host.annotation(key::CREATED).is_some()
    }

    /// The image to deploy: its URL, and the `image` of a host.
    fn image(&self) -> Result<(String, Value)> {
        manifest::image(self.task.node, &self.metal3().settings).ok_or_else(|| {
            self.task
                .permanent("the settings name no `image` to deploy")
        })
    }

    /// How far the step is.
    pub(super) async fn probe(&self) -> Probe {
        let host = match self.task.look().await {
            Ok(Some(host)) => host,
            Ok(None) if self.task.kind() == StepKind::Destroy && self.task.has_noted(LEAVING) => {
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
        match self.task.kind() {
            StepKind::PowerOn => power(true),
            StepKind::PowerOff => power(false),
            StepKind::SetRetired => at(self.is_retired_as_wanted(&host)),
            StepKind::UnsetRetired => at(!host.is_retired()),
            StepKind::SetMaintenance => at(host.annotation(key::MAINTENANCE).is_some()),
            StepKind::UnsetMaintenance => at(host.annotation(key::MAINTENANCE).is_none()),
            StepKind::Manage => at(state == S::Manageable),
            StepKind::Provide => at(state == S::Available),
            StepKind::Service => self.probe_service(&host).await,
            _ if !self.is_ours(&host) => Probe::NotBegun,
            StepKind::Prepare if is_prepared(&host) => Probe::Done,
            StepKind::Deploy if self.is_deployed(&host) => Probe::Done,
            StepKind::Destroy if self.is_destroyed(&host) && !self.leaves(&host) => Probe::Done,
            StepKind::Prepare | StepKind::Deploy | StepKind::Destroy => Probe::UnderWay,
            _ => Probe::NotBegun,
        }
    }

    /// Refuses a host that must not become available: a retired machine, one in maintenance or in use, one
    /// that carries a system.
    fn can_be_prepared(&self, host: &Host) -> Result<()> {
        let task = &self.task;
        task.ours(host)?;
        if let Some(reason) = host.maintenance(&self.metal3().roster.site) {
            return Err(task.permanent(format!("is in maintenance ({reason})")));
        }
        if let Some(reason) = host.retired() {
            return Err(task.permanent(format!("is retired ({reason}), and is never deployed to")));
        }
        if host.is_going() {
            return Err(task.permanent("its BareMetalHost is being deleted"));
        }
        match host.state() {
            S::Active | S::Servicing | S::Other => Err(task
                .gate(host, Verb::Provide)
                .err()
                .unwrap_or_else(|| task.permanent(format!("is {}", host.state_name())))),
            _ => Ok(()),
        }
    }

    async fn create(&self) -> Result<Host> {
        let task = &self.task;
        let metal3 = self.metal3();
        if !metal3.settings.create {
            return Err(
                task.permanent("there is no such BareMetalHost, and the settings create none")
            );
        }
        let host = self.design().created(&task.name, &self.marker());
        let host = host.map_err(|why| task.permanent(why))?;
        self.put_account_for(None).await?;
        task.report("creating its BareMetalHost");
        let management = &metal3.management;
        let send = || async {
            match management.create_host(&host).await {
                Ok(created) => Ok(Some(created)),
                // Another client was faster, or an answer was lost before.
                Err(error) if error.is_conflict() => Ok(None),
                Err(error) => Err(error),
            }
        };
        let created = task.ask("create", send).await?;
        let registry = &metal3.roster.identities;
        let name = self.task.node.name.as_str();
        // What was deleted has left its UID in the record.
        registry.enrolled(name, None);
        let host = match created {
            Some(created) => created,
            None => task.known().await?,
        };
        let (identity, proof) = metal3.judge(self.task.node, &host);
        task.admit(identity, proof).await?;
        Ok(host)
    }

    /// Writes the account of the management controller, if one is configured. A host of another
    /// author, for which none is given, keeps its own.
    async fn put_account(&self, host: &Host) -> Result<()> {
        let settings = &self.metal3().settings;
        let is_own = *host.spec.bmc.credentials_name == *Names::of(&self.task.name).account;
        let has_other = !host.spec.bmc.credentials_name.is_empty() && !is_own;
        let knows = manifest::account(self.task.node, settings, &*self.metal3().secrets).is_ok();
        match has_other && !knows {
            true => Ok(()),
            false => self.put_account_for(Some(host)).await,
        }
    }

    async fn put_account_for(&self, host: Option<&Host>) -> Result<()> {
        let (task, metal3) = (&self.task, self.metal3());
        let account = manifest::account(self.task.node, &metal3.settings, &*metal3.secrets);
        let (username, password) = account.map_err(|why| task.permanent(why))?;
        let name = Names::of(&task.name).account;
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
        self.task
            .ask(&request, || management.put_secret(name, data, owner))
            .await
    }

    /// Makes an existing host what its design says, and marks it as this step's.
    async fn refresh(&self, host: Host) -> Result<Host> {
        let metal3 = self.metal3();
        let patch = |host: &Host| {
            self.can_be_prepared(host)?;
            let patch = self.design().refreshed(host);
            let mut patch = patch.map_err(|why| self.task.permanent(why))?;
            let mut annotations = json!({key::STEP: self.marker(), key::MANAGEABLE: null});
            if host.state() == S::Available && metal3.settings.inspect == Inspect::Always {
                annotations[key::INSPECT] = json!("");
            }
            patch["metadata"] = json!({ "annotations": annotations });
            if host.wants_system() {
                // An image whose deploy failed is taken off before the retry.
                take_off(&mut patch["spec"]);
            }
            Ok(Some(patch))
        };
        self.task.change("prepare", host, patch).await
    }

    /// Whether this step's image is on the host, and the machine is on.
    fn is_deployed(&self, host: &Host) -> bool {
        let image = manifest::image(self.task.node, &self.metal3().settings);
        image.is_some_and(|(url, _)| host.carries(&url))
            && host.state() == S::Active
            && host.status.powered_on
            && host.annotation(key::PRESERVED).is_none()
    }

    /// Has the host carry an image, with what its system is given in Secrets.
    async fn ask_for_system(&self, host: Host, image: Value) -> Result<Host> {
        let (task, metal3) = (&self.task, self.metal3());
        self.can_be_deployed(&host)?;
        let names = Names::of(&task.name);
        let secrets = &*metal3.secrets;
        let refuse = |why: String| task.permanent(why);
        let user = manifest::user_data(task.node, &metal3.settings, secrets).map_err(refuse)?;
        let network =
            manifest::network_data(task.node, &metal3.settings, secrets).map_err(refuse)?;
        self.put_secret(&names.user_data, &[("userData", &user)], Some(&host))
            .await?;
        let namespace = metal3.management.namespace();
        let refer = |name: &str| json!({"name": name, "namespace": namespace});
        let mut spec = json!({"image": image, "online": true, "userData": refer(&names.user_data)});
        if let Some(network) = &network {
            self.put_secret(
                &names.network_data,
                &[("networkData", network)],
                Some(&host),
            )
            .await?;
            spec["networkData"] = refer(&names.network_data);
        }
        let left = payload::not_carried(task.node).join(", ");
        if !left.is_empty() && metal3.settings.user_data.is_none() {
            task.report(format!(
                "the user data does not carry all of these boot actions: {left}"
            ));
        }
        let patch = |host: &Host| {
            self.can_be_deployed(host)?;
            let annotations = json!({key::STEP: self.marker()});
            Ok(Some(
                json!({"metadata": {"annotations": annotations}, "spec": spec}),
            ))
        };
        task.change("deploy", host, patch).await
    }

    /// Takes the image off if the operator fails to deploy it: it would try again for ever, and bring the
    /// machine up at a time when it is not expected.
    async fn abort_deploy(&self, url: &str) -> Result<()> {
        let task = &self.task;
        let patch = |host: &Host| {
            let image = host.spec.image.as_ref().map(|image| &*image.url);
            let fails = host.has_failed() && host.state() != S::Active;
            if !fails || !self.is_ours(host) || image != Some(url) {
                return Ok(None);
            }
            task.report("taking its image off again");
            let mut patch = json!({"spec": {"online": false}});
            take_off(&mut patch["spec"]);
            Ok(Some(patch))
        };
        match task.look().await? {
            Some(host) => task.change("abort the deploy", host, patch).await.map(drop),
            None => Ok(()),
        }
    }

    fn can_be_deployed(&self, host: &Host) -> Result<()> {
        self.task.ours(host)?;
        self.task.gate(host, Verb::Deploy)
    }

    fn is_destroyed(&self, host: &Host) -> bool {
        matches!(host.state(), S::Available | S::Manageable)
            && !host.wants_system()
            && !host.status.powered_on
    }

    /// The change that takes the system off.
    fn teardown(&self, host: &Host) -> Result<Value> {
        let task = &self.task;
        task.ours(host)?;
        match host.state() {
            S::Available | S::Manageable => {}
            S::Enroll if self.leaves(host) => {}
            _ => task.gate(host, Verb::Delete)?,
        }
        if host.spec.disable_power_off {
            return Err(task.permanent("disablePowerOff is set on it: it cannot be switched off"));
        }
        let cleans = self.cleans() && !self.task.preserves();
        let preserved = match self.task.preserves() {
            true => json!(self.task.order.run.as_str()),
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
        let (task, management) = (&self.task, &self.metal3().management);
        self.task.order.reporter.note(LEAVING).await?;
        task.report("deleting its BareMetalHost");
        let mut host = host;
        task.ask("delete", || management.delete_host(&host)).await?;
        while let Some(next) = task.next("delete", &mut waiter, &host).await? {
            host = next;
            task.report(host.failed());
        }
        self.delete_secrets().await
    }

    /// Deletes what a host that is gone was given in Secrets; nothing where they went with it.
    async fn delete_secrets(&self) -> Result<()> {
        let (task, management) = (&self.task, &self.metal3().management);
        let names = Names::of(&task.name);
        for name in [names.account, names.user_data, names.network_data] {
            let request = format!("delete Secret `{name}`");
            task.ask(&request, || management.delete_secret(&name))
                .await?;
        }
        Ok(())
    }

    /// Takes a host out of what is available, or back.
    async fn level(&self, verb: Verb, wanted: S, annotation: Option<&str>) -> Result<()> {
        let task = &self.task;
        let host = task.known().await?;
        let patch = |host: &Host| {
            if host.state() == wanted {
                return Ok(None);
            }
            task.ours(host)?;
            task.gate(host, verb)?;
            if !matches!(host.state(), S::Available | S::Manageable) {
                return Err(task.permanent(format!(
                    "is {}: the operator itself brings it to available",
                    host.failed()
                )));
            }
            Ok(Some(
                json!({"metadata": {"annotations": {key::MANAGEABLE: annotation}}}),
            ))
        };
        task.change(verb.as_str(), host, patch).await.map(drop)
    }

    fn is_retired_as_wanted(&self, host: &Host) -> bool {
        let reason = host.annotation(key::RETIRED_REASON);
        host.is_retired() && reason.is_some_and(|reason| **reason == *self.task.reason())
    }
}

impl StepTarget for HostSteps<'_> {
    async fn prove(&mut self, node: &NodeDesign) -> Result<Option<Evidence>> {
        self.task.evidence(&node.identity()).await
    }

    async fn act(&self, _: &Order, _: &NodeDesign) -> Result<()> {
        match self.task.kind() {
            StepKind::Prepare => self.prepare().await,
            StepKind::Deploy => self.deploy().await,
            StepKind::Destroy => self.destroy().await,
            StepKind::PowerOn => self.power(true).await,
            StepKind::PowerOff => self.power(false).await,
            StepKind::Manage => self.level(Verb::Manage, S::Manageable, Some("true")).await,
            StepKind::Provide => self.level(Verb::Provide, S::Available, None).await,
            StepKind::SetRetired => self.retire(true).await,
            StepKind::UnsetRetired => self.retire(false).await,
            StepKind::SetMaintenance => self.maintain(Some(self.task.reason())).await,
            StepKind::UnsetMaintenance => self.maintain(None).await,
            StepKind::Service => self.service().await,
            StepKind::Clean => Err(self.task.permanent(NO_CLEAN_STEPS)),
            other => Err(self.task.permanent(format!("Metal3 cannot do `{other}`"))),
        }
    }
}

impl HostSteps<'_> {
    /// Creates a missing host, else brings it up to date, and waits until it is available.
    async fn prepare(&self) -> Result<()> {
        let task = &self.task;
        let metal3 = self.metal3();
        let mut waiter = metal3.watch.wait_for(&task.name);
        let host = match task.look().await? {
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
        task.until("prepare", &mut waiter, host, judge).await?;
        Ok(())
    }

    /// Deploys the system.
    async fn deploy(&self) -> Result<()> {
        let (task, metal3) = (&self.task, self.metal3());
        let mut waiter = metal3.watch.wait_for(&task.name);
        let mut host = task.known().await?;
        let (url, image) = self.image()?;
        if !self.is_ours(&host) {
            host = self.ask_for_system(host, image).await?;
        }
        let still = |host: &Host| match host.spec.image.as_ref().map(|image| &*image.url) {
            Some(wanted) if *wanted == *url => Ok(()),
            _ => Err(task.permanent("another client has changed its image meanwhile")),
        };
        let judge = |host: &Host| {
            still(host)?;
            Ok(host.state() == S::Active && host.carries(&url))
        };
        let deployed = task.until("deploy", &mut waiter, host, judge).await;
        let host = match deployed {
            Ok(host) => host,
            Err(error @ ActError::Permanent(_)) => {
                self.abort_deploy(&url).await?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let host = task
            .powered("deploy", &mut waiter, host, true, still)
            .await?;
        if host.annotation(key::PRESERVED).is_some() {
            let mode = manifest::cleaning(self.cleans());
            let patch = json!({"metadata": {"annotations": {key::PRESERVED: null}},
                "spec": {"automatedCleaningMode": mode}});
            task.change("restore cleaning", host, |_| Ok(Some(patch.clone())))
                .await?;
        }
        Ok(())
    }

    /// Takes the system off, switches the machine off, and deletes the host if it has left the design.
    async fn destroy(&self) -> Result<()> {
        let task = &self.task;
        let mut waiter = self.metal3().watch.wait_for(&task.name);
        let Some(mut host) = task.look().await? else {
            return match self.task.has_noted(LEAVING) {
                true => self.delete_secrets().await,
                false => Err(task.permanent("there is no such BareMetalHost")),
            };
        };
        if !host.is_going() {
            if !self.is_ours(&host) {
                host = task
                    .change("destroy", host, |host| self.teardown(host).map(Some))
                    .await?;
            }
            if host.state() != S::Enroll {
                let judge = |host: &Host| {
                    Ok(host.is_going()
                        || matches!(host.state(), S::Available | S::Manageable)
                            && !host.wants_system())
                };
                host = task.until("destroy", &mut waiter, host, judge).await?;
                if !host.is_going() {
                    let any = |_: &Host| Ok(());
                    host = task
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

    async fn power(&self, on: bool) -> Result<()> {
        let task = &self.task;
        let (verb, what) = match on {
            true => (Verb::PowerOn, "power on"),
            false => (Verb::PowerOff, "power off"),
        };
        let can = |host: &Host| {
            task.driven(host)?;
            if !on && host.spec.disable_power_off {
                return Err(
                    task.permanent("disablePowerOff is set on it: it cannot be switched off")
                );
            }
            let held: Vec<&str> = host.power_holds().map(|each| &**each).collect();
            if on && !held.is_empty() {
                return Err(task.permanent(format!(
                    "is powered off by {}: the owner of that annotation has to remove it first",
                    held.join(", ")
                )));
            }
            Ok(())
        };
        let mut waiter = self.metal3().watch.wait_for(&task.name);
        let host = task.known().await?;
        let host = task
            .change(what, host, |host| {
                can(host)?;
                task.gate(host, verb)?;
                let patch = json!({"spec": {"online": on}});
                Ok((host.spec.online != on).then_some(patch))
            })
            .await?;
        let still = |host: &Host| match host.spec.online == on {
            true => can(host),
            false => Err(task.permanent("another client has switched it back meanwhile")),
        };
        task.powered(what, &mut waiter, host, on, still).await?;
        Ok(())
    }

    /// Sets the retired flag or takes it off. A host that is available counts as managed only from then on.
    async fn retire(&self, wanted: bool) -> Result<()> {
        let task = &self.task;
        let host = task.known().await?;
        let patch = |host: &Host| {
            let is_there = match wanted {
                true => self.is_retired_as_wanted(host),
                false => !host.is_retired(),
            };
            let (label, reason) = match wanted {
                true => (json!("true"), json!(self.task.reason())),
                false => (Value::Null, Value::Null),
            };
            let metadata = json!({"labels": {key::RETIRED: label},
                "annotations": {key::RETIRED_REASON: reason}});
            Ok((!is_there).then(|| json!({ "metadata": metadata })))
        };
        task.change("retire", host, patch).await.map(drop)
    }

    async fn maintain(&self, reason: Option<&str>) -> Result<()> {
        let task = &self.task;
        let host = task.known().await?;
        if reason.is_none()
            && let Some(why) = host.left_alone()
        {
            return Err(task.permanent(format!(
                "is {why}: the owner of that mark has to remove it first"
            )));
        }
        let patch = json!({"metadata": {"annotations": {key::MAINTENANCE: reason}}});
        let patch = |host: &Host| {
            let is_there = host.annotation(key::MAINTENANCE).map(|text| &**text) == reason;
            Ok((!is_there).then(|| patch.clone()))
        };
        task.change("maintenance", host, patch).await.map(drop)
    }
}

/// Whether a host is available, and not about to be inspected.
fn is_prepared(host: &Host) -> bool {
    host.state() == S::Available && host.annotation(key::INSPECT).is_none()
}

/// The fields taken off a host's spec together with its system.
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
