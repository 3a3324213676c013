//! The registry of the attributes of a BIOS, found and read.

use std::sync::Arc;

use serde_json::Value;

use super::machine::{Machine, is_one_part};
use super::resource::{Resource, last};
use crate::backend::ActError;
use crate::backend::hardware::terms::Terms;

impl Machine<'_> {
    /// The terms of the attributes of its BIOS, if its controller has a registry of them; read once for each registry of
    /// a machine.
    pub(super) async fn attribute_terms(
        &self,
        bios: &Resource,
    ) -> Result<Option<Arc<Terms>>, ActError> {
        let Some(name) = bios.text("/AttributeRegistry") else {
            return Ok(None);
        };
        if let Some(known) = self.known_terms(name) {
            return Ok(Some(known));
        }
        let terms = self.read_terms(name).await?.map(Arc::new);
        if let Some(terms) = &terms {
            self.has_terms(name, terms);
        }
        Ok(terms)
    }

    async fn read_terms(&self, name: &str) -> Result<Option<Terms>, ActError> {
        let root = self.controller.root().await?;
        let Some(registries) = root.link("/Registries").filter(|_| is_one_part(name)) else {
            return Ok(None);
        };
        let path = format!("{}/{name}", registries.trim_end_matches('/'));
        let file = match self.controller.get_if_there(&path).await? {
            Some(file) => Some(file),
            None => {
                let members = self.controller.members(registries).await?;
                let own = members.iter().find(|path| last(path).starts_with(name));
                match own {
                    Some(path) => self.controller.get_if_there(path).await?,
                    None => None,
                }
            }
        };
        let Some(file) = file else { return Ok(None) };
        let places = file.value.get("Location").and_then(Value::as_array);
        let places = || places.into_iter().flatten();
        let english =
            places().find(|place| place.get("Language").and_then(Value::as_str) == Some("en"));
        let uri = english.or_else(|| places().next());
        let Some(uri) = uri.and_then(|place| place.get("Uri")?.as_str()) else {
            return Ok(None);
        };
        let registry = self.controller.get_if_there(uri).await?;
        Ok(registry.map(|registry| Terms::of_registry(&registry.value)))
    }
}
