//! Firmware, settings and parts of a machine as Ironic shows them, as far as its Hardware documents name them.
//!
//! | value | read from |
//! | --- | --- |
//! | `bios.NAME` | the settings of the BIOS that Ironic holds |
//! | `firmware.NAME` | the components that its firmware interface lists, since API 1.86 |
//! | `raid.volumes` | the node itself (`raid_config`) |
//! | `expect.cpus`, `expect.memory_gib`, `expect.drives`, `expect.nics` | the inventory of the last inspection, since API 1.81 |
//!
//! Each costs a request if a document names something of it, but for the volumes, which are in the list of all nodes.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::{Map, Value};

use super::Ironic;
use super::api::{Api, RequestError};
use super::node::Node;
use super::raid;
use super::versions::{Feature, of_service};
use crate::backend::hardware::provided::Provided;
use crate::backend::hardware::terms::Terms;
use crate::design::NodeDesign;
use crate::observed::ObservedNode;

/// Most machines whose values are read at once.
const AT_ONCE: usize = 8;

impl Api {
    /// The values of a node, of those that are named by `wanted`.
    pub(super) async fn values(
        &self,
        subject: &str,
        uuid: &str,
        wanted: &[Arc<str>],
    ) -> Result<Provided, RequestError> {
        let mut values = Provided::default();
        self.read_values(&mut values, subject, uuid, wanted).await?;
        Ok(values)
    }

    /// Adds these values. An error of one resource does not keep the others from being read.
    async fn read_values(
        &self,
        values: &mut Provided,
        subject: &str,
        uuid: &str,
        wanted: &[Arc<str>],
    ) -> Result<(), RequestError> {
        let has = |part: &str| wanted.iter().any(|name| name.starts_with(part));
        let parts = match has("expect.") {
            true => self.read_parts(values, subject, uuid).await,
            false => Ok(()),
        };
        let settings = match has("bios.") {
            true => self.read_settings(values, subject, uuid).await,
            false => Ok(()),
        };
        let components = match has("firmware.") {
            true => self.read_components(values, subject, uuid).await,
            false => Ok(()),
        };
        parts.and(settings).and(components)
    }

    async fn read_parts(
        &self,
        values: &mut Provided,
        subject: &str,
        uuid: &str,
    ) -> Result<(), RequestError> {
        if self.has(Feature::Inventory).await? {
            add_parts(values, &self.inventory(subject, uuid).await?);
        }
        Ok(())
    }

    async fn read_settings(
        &self,
        values: &mut Provided,
        subject: &str,
        uuid: &str,
    ) -> Result<(), RequestError> {
        let query = match self.has(Feature::Terms).await? {
            true => "?detail=True",
            false => "",
        };
        let settings = self.part(subject, uuid, ("bios", query)).await?;
        let entries = || {
            settings
                .iter()
                .filter_map(|entry| Some((entry.get("name")?.as_str()?, entry)))
        };
        let value = |(name, entry): (&str, &Value)| {
            let value = entry.get("value").cloned();
            (name.to_owned(), value.unwrap_or_default())
        };
        let attributes: Map<String, Value> = entries().map(value).collect();
        values.has_bios(attributes, Terms::of_provisioner(entries()));
        Ok(())
    }

    async fn read_components(
        &self,
        values: &mut Provided,
        subject: &str,
        uuid: &str,
    ) -> Result<(), RequestError> {
        if !self.has(Feature::Firmware).await? {
            return Ok(());
        }
        for component in self.part(subject, uuid, ("firmware", "")).await? {
            let text = |name: &str| component.get(name).and_then(Value::as_str);
            let version = text("current_version").or_else(|| text("initial_version"));
            if let (Some(name), Some(version)) = (text("component"), version) {
                values.has_component(name, version);
            }
        }
        Ok(())
    }
}

impl Ironic {
    /// Adds how the values of machines stand to their Hardware documents.
    pub(super) async fn compare_hardware(
        &self,
        machines: Vec<(&NodeDesign, &Node, &mut ObservedNode)>,
    ) {
        let mut compared = Vec::with_capacity(machines.len());
        for (node, found, observed) in machines {
            compared.push(self.compare(node, found, observed));
        }
        let mut compared = stream::iter(compared).buffer_unordered(AT_ONCE);
        while compared.next().await.is_some() {}
    }

    async fn compare(&self, node: &NodeDesign, found: &Node, observed: &mut ObservedNode) {
        let sections = node.hardware_sections();
        let wanted = sections.flat_map(|section| node.hardware(section));
        let wanted: Vec<Arc<str>> = wanted.map(|value| value.name).collect();
        let subject = format!("node `{}`", node.name);
        let mut values = Provided::default();
        let api = &self.api;
        let read = api.read_values(&mut values, &subject, &found.uuid, &wanted);
        values.unread = read.await.err().map(|error| error.to_string().into());
        let runbook = self.runbook_of(node);
        let has_runbook = self.settings.runbook.is_some();
        if let Ok(refusal) = api.lacks(of_service(has_runbook)).await {
            observed.fixed = match (refusal.as_ref().or(runbook.as_ref().err()), has_runbook) {
                (None, true) => values.unseen(node, "Ironic").into(),
                (refusal, _) => values
                    .fixed(node, "Ironic", refusal.map(|why| &**why))
                    .into(),
            };
        }
        let not_made = raid::not_made(node, found);
        observed.fixed = observed.fixed.iter().cloned().chain(not_made).collect();
        raid::add_shown(&mut values.seen, node, found);
        observed.runbook = runbook.ok().flatten();
        observed.compare_hardware(node, &values.seen, values.unread);
    }

    /// The runbook that services a machine, if the settings name one; or why it has none.
    pub(super) fn runbook_of(&self, node: &NodeDesign) -> Result<Option<Arc<str>>, String> {
        const PROFILE: &str = "{profile}";
        let Some(runbook) = &self.settings.runbook else {
            return Ok(None);
        };
        match &node.hardware_profile {
            Some(profile) => Ok(Some(runbook.replace(PROFILE, profile).into())),
            None if runbook.contains(PROFILE) => Err(format!(
                "the name of its runbook, `{runbook}`, needs a hardware profile, and it has none"
            )),
            None => Ok(Some(runbook.clone())),
        }
    }
}

/// The parts that an inspection found.
fn add_parts(values: &mut Provided, inventory: &Value) {
    let number = |pointer: &str| inventory.pointer(pointer).and_then(Value::as_u64);
    let count = |pointer: &str| {
        let list = inventory.pointer(pointer).and_then(Value::as_array);
        list.map(Vec::len)
    };
    if let Some(sockets) = number("/inventory/cpu/socket_count") {
        values.has_part("expect.cpus", sockets);
    }
    if let Some(memory) = number("/inventory/memory/physical_mb") {
        values.has_part("expect.memory_gib", memory / 1024);
    }
    if let Some(drives) = count("/inventory/disks") {
        values.has_part("expect.drives", drives);
    }
    if let Some(nics) = count("/inventory/interfaces") {
        values.has_part("expect.nics", nics);
    }
}
