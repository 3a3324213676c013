//! A drive as its controller shows it.

use std::sync::Arc;

use super::resource::Resource;

/// A drive of a machine.
#[derive(Clone, Debug)]
pub(super) struct Drive {
    /// Its name: its id, with that of its storage if another drive has the same.
    pub(super) name: Arc<str>,
    pub(super) resource: Resource,
}

impl Drive {
    pub(super) fn serial(&self) -> &str {
        self.resource.text("/SerialNumber").unwrap_or_default()
    }

    pub(super) fn can_be_erased(&self) -> bool {
        self.resource.action("Drive.SecureErase").is_some()
    }

    /// Whether it is called so: by its name, the controller's name for it, or its serial number.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let own = [
            Some(&*self.name),
            Some(self.resource.id()),
            self.resource.text("/Name"),
        ];
        let own = own.into_iter().flatten();
        own.chain([self.serial()])
            .any(|own| own.eq_ignore_ascii_case(name))
    }
}
