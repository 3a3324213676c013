//! The BIOS by its controller: back to defaults, and settings; both take effect at the next boot.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::machine::Machine;
use super::notes::{Begun, Note};
use super::resource::Resource;
use super::settings::field;
use super::task::{Accepted, TaskState};
use crate::backend::{ActError, Order};
use crate::design::{NodeDesign, Section};

impl Machine<'_> {
    async fn bios(&self) -> Result<Resource, ActError> {
        let system = self.read_system().await?;
        match system.link("/Bios") {
            Some(bios) => Ok(self.controller.get(bios).await?),
            None => self.refuse("its controller does not show its BIOS"),
        }
    }

    /// Sets the BIOS back to its defaults.
    pub(super) async fn reset_bios(&self, order: &Order) -> Result<(), ActError> {
        let bios = self.bios().await?;
        let Some(action) = bios.action("Bios.ResetBios") else {
            return self.refuse("its controller cannot reset its BIOS (no action Bios.ResetBios)");
        };
        let what = format!("reset-bios {}", bios.path);
        let before = self.before("").await?;
        let ask = || async {
            self.changes();
            self.controller.post(&action.target, &json!({})).await
        };
        let begun = self.once(order, &what, before, ask).await?;
        if let Begun::Task(task) = begun {
            self.look_at_once("the BIOS reset", &task).await?;
        }
        order
            .reporter
            .progress("the BIOS is reset at the next boot");
        self.note(
            order,
            Note::Done {
                what: Arc::from(what),
            },
        )
        .await
    }

    /// Applies settings: those of the step (`{"settings": [{"name": …, "value": …}]}`), else those of the
    /// hardware profile (`bios_settings`). Setting them twice does no harm.
    pub(super) async fn apply_bios_settings(
        &self,
        order: &Order,
        node: &NodeDesign,
        arguments: Option<&str>,
    ) -> Result<(), ActError> {
        let Some(attributes) = attributes(node, arguments) else {
            return self.refuse("the settings of the BIOS are no list of names and values");
        };
        if attributes.is_empty() {
            order.reporter.progress("no BIOS settings to apply");
            return Ok(());
        }
        let bios = self.bios().await?;
        let known = bios.value.get("Attributes").and_then(Value::as_object);
        if let Some(known) = known.filter(|known| !known.is_empty())
            && let Some(unknown) = attributes.keys().find(|name| !known.contains_key(*name))
        {
            return self.refuse(&format!("its BIOS has no setting `{unknown}`"));
        }
        if known.is_some_and(|known| {
            attributes
                .iter()
                .all(|(name, value)| known.get(name) == Some(value))
        }) {
            return Ok(());
        }
        let body = json!({ "Attributes": attributes });
        if let Accepted::Task(task) = self.set_bios(bios, &body).await? {
            self.look_at_once("applying BIOS settings", &task).await?;
        }
        order
            .reporter
            .progress("the BIOS settings take effect at the next boot");
        Ok(())
    }

    /// Changes its pending attributes; if it has no such resource, those that it shows.
    pub(super) async fn set_bios(
        &self,
        bios: Resource,
        body: &Value,
    ) -> Result<Accepted, ActError> {
        let target = match bios.link("/@Redfish.Settings/SettingsObject") {
            Some(settings) => self.controller.get(settings).await?,
            None => bios,
        };
        self.changes();
        Ok(self.controller.patch(&target, body).await?)
    }

    /// Checks a task that waits for the next boot: whether it was refused.
    async fn look_at_once(&self, what: &str, task: &str) -> Result<(), ActError> {
        match self.controller.task(task).await? {
            TaskState::Failed(text) => self.refuse(&format!("{what} failed: {text}")),
            TaskState::Running(_) | TaskState::Done | TaskState::Warned(_) | TaskState::Gone => {
                Ok(())
            }
        }
    }
}

/// The settings to apply; `None` if they are written as something else.
fn attributes(node: &NodeDesign, arguments: Option<&str>) -> Option<Map<String, Value>> {
    let Some(arguments) = arguments else {
        let written = field(
            node,
            Section::Hardware,
            &["hardware_profile", "bios_settings"],
        );
        let Some(written) = written else {
            return Some(Map::new());
        };
        let fields = written.as_map()?.iter();
        return Some(
            fields
                .filter_map(|(key, field)| {
                    let node = &field.node;
                    let text = || node.scalar_text().map(|text| json!(text));
                    let value = node.as_bool().map(Value::from);
                    let value = value.or_else(|| node.as_integer().map(Value::from));
                    Some((key.text.to_string(), value.or_else(text)?))
                })
                .collect(),
        );
    };
    let value: Value = serde_json::from_str(arguments).ok()?;
    let list = value.get("settings")?.as_array()?.iter();
    list.map(|setting| {
        let name = setting.get("name")?.as_str()?.to_owned();
        Some((name, setting.get("value")?.clone()))
    })
    .collect()
}
