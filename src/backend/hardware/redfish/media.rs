//! Images as virtual media: inserted, read back, and ejected.
//!
//! A deploy begins by ejecting whatever is in, so that an image of an earlier one is never taken for its own. What a
//! drive shows of an image differs: its whole address, the last part of it, or nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};

use super::machine::Machine;
use super::resource::{Resource, last};
use super::shapes::{
    INSERTED, Operation, PATCH, Shape, TRANSFER_METHOD, TRANSFER_PROTOCOL, WRITE_PROTECTED,
};
use crate::backend::ActError;
use crate::backend::hardware::level::{self, Pace};
use crate::backend::hardware::written::for_node;
use crate::design::NodeDesign;
use crate::threads::lock;

/// How long an image may take to show, or to go.
const TIME: Duration = Duration::from_secs(180);

/// An image as a virtual drive shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// There is none.
    Empty,
    /// An image that it does not name.
    Unnamed,
    /// The image of this name.
    Named(Arc<str>),
}

impl Medium {
    /// The image in a drive. Some keep the name of an image that was ejected, and show that nothing is connected.
    pub(super) fn of(drive: &Resource) -> Self {
        let named = drive.text("/Image").or_else(|| drive.text("/ImageName"));
        let is_in = match drive.boolean("/Inserted") {
            _ if drive.text("/ConnectedVia") == Some("NotConnected") => false,
            Some(is_in) => is_in,
            None => named.is_some(),
        };
        match (is_in, named) {
            (false, _) => Self::Empty,
            (true, None) => Self::Unnamed,
            (true, Some(name)) => Self::Named(Arc::from(name)),
        }
    }

    /// Whether it can be an image: it has the same address, or is called like its file.
    pub(super) fn can_be(&self, image: &str) -> bool {
        match self {
            Self::Empty => false,
            Self::Unnamed => true,
            Self::Named(name) => **name == *image || last(name) == last(image),
        }
    }
}

/// The shapes of an inserted image: as an action where the drive offers it, else as a change of the drive.
fn insert_shapes(has_action: bool) -> Vec<Shape> {
    const ALL: [&[&str]; 6] = [
        &[INSERTED, WRITE_PROTECTED],
        &[],
        &[INSERTED, WRITE_PROTECTED, TRANSFER_PROTOCOL],
        &[TRANSFER_PROTOCOL],
        &[
            INSERTED,
            WRITE_PROTECTED,
            TRANSFER_PROTOCOL,
            TRANSFER_METHOD,
        ],
        &[TRANSFER_PROTOCOL, TRANSFER_METHOD],
    ];
    let actions = ALL.iter().map(|names| Shape::of(names));
    let changes = ALL.iter().map(|names| Shape::of(names).with(PATCH));
    match has_action {
        true => actions.chain(changes.take(2)).collect(),
        false => changes.chain(actions.take(2)).collect(),
    }
}

fn insert_body(shape: &Shape, image: &str) -> Value {
    let mut body = json!({ "Image": image });
    if shape.has(INSERTED) {
        body[INSERTED] = json!(true);
    }
    if shape.has(WRITE_PROTECTED) {
        body[WRITE_PROTECTED] = json!(true);
    }
    if shape.has(TRANSFER_PROTOCOL) {
        body[TRANSFER_PROTOCOL] = json!(protocol(image));
    }
    if shape.has(TRANSFER_METHOD) {
        body[TRANSFER_METHOD] = json!("Stream");
    }
    body
}

/// The protocol of an image's address, as Redfish calls it.
fn protocol(image: &str) -> String {
    let scheme =
        Url::parse(image).map_or_else(|_| "http".to_owned(), |url| url.scheme().to_owned());
    match &*scheme {
        "smb" => "CIFS".to_owned(),
        other => other.to_ascii_uppercase(),
    }
}

/// The shapes of an ejected image.
fn eject_shapes(has_action: bool) -> Vec<Shape> {
    let (action, change) = (Shape::default(), Shape::of(&[PATCH]));
    let full = Shape::of(&[INSERTED, PATCH]);
    match has_action {
        true => vec![action, full, change],
        false => vec![full, change, action],
    }
}

impl Machine<'_> {
    /// The virtual drive that takes images; `None` if not found.
    pub(super) async fn find_drive(&self) -> Result<Option<Resource>, ActError> {
        if let Some(path) = self.known_drive()
            && let Some(drive) = self.controller.get_if_there(&path).await?
        {
            return Ok(Some(drive));
        }
        let found = self.look_for_drive().await?;
        if let Some(drive) = &found {
            self.has_drive(&drive.path);
        }
        Ok(found)
    }

    async fn look_for_drive(&self) -> Result<Option<Resource>, ActError> {
        let system = self.recent().await?;
        let mut usb = None;
        if let Some(collection) = system.link("/VirtualMedia")
            && let Some(drive) = self.drive_of(collection, &mut usb).await?
        {
            return Ok(Some(drive));
        }
        for manager in system.links("/Links/ManagedBy") {
            let manager = self.controller.get_if_there(&manager).await?;
            let collection = manager
                .as_ref()
                .and_then(|manager| manager.link("/VirtualMedia"));
            let Some(collection) = collection else {
                continue;
            };
            if let Some(drive) = self.drive_of(collection, &mut usb).await? {
                return Ok(Some(drive));
            }
        }
        Ok(usb)
    }

    /// The drive of a collection that takes images of discs; `usb`: the first that takes those of sticks.
    async fn drive_of(
        &self,
        collection: &str,
        usb: &mut Option<Resource>,
    ) -> Result<Option<Resource>, ActError> {
        let Some(members) = self.controller.get_if_there(collection).await? else {
            return Ok(None);
        };
        let mut members = members.links("/Members");
        // Most are called by what they take: the likely ones are read first.
        members.sort_by_key(|path| {
            let name = last(path).to_ascii_lowercase();
            !["cd", "dvd"].iter().any(|kind| name.contains(kind))
        });
        for path in members {
            let drive = self.controller.get(&path).await?;
            let kinds = drive.texts("/MediaTypes");
            if kinds.contains(&"CD") || kinds.contains(&"DVD") {
                return Ok(Some(drive));
            }
            if usb.is_none() && kinds.contains(&"USBStick") {
                *usb = Some(drive);
            }
        }
        Ok(None)
    }

    /// The virtual drive that takes images.
    pub(super) async fn drive_for_images(&self) -> Result<Resource, ActError> {
        match self.find_drive().await? {
            Some(drive) => Ok(drive),
            None => self.refuse("it has no virtual drive that takes images (`VirtualMedia`)"),
        }
    }

    /// Ejects whatever is in, inserts the node's image, and reads that back.
    pub(super) async fn insert(&self, node: &NodeDesign) -> Result<(), ActError> {
        let Some(image) = &self.backend.settings.image else {
            return self
                .refuse("`hardware.redfish.image` is not set, so there is no image to boot from");
        };
        let image = &*for_node(image, node);
        let drive = self.drive_for_images().await?;
        let path = &drive.path;
        let is_changed = self.eject_from(&drive).await?;
        let known = &Mutex::new((!is_changed).then(|| drive.clone()));
        let is_inserted = || async move {
            // What was ejected, or was never in, is not the image: it was read just now.
            if lock(known).is_some() {
                return Ok(false);
            }
            let drive = self.controller.get(path).await?;
            Ok::<_, ActError>(Medium::of(&drive).can_be(image))
        };
        let insert = || async move {
            let known = lock(known).take();
            let drive = match known {
                Some(drive) => drive,
                None => self.controller.get(path).await?,
            };
            self.send_insert(&drive, image).await?;
            Ok(())
        };
        let what = self.about("image inserted");
        let pace = Pace::within(&what, self.backend.settings.settling, TIME);
        level::bring(true, pace, is_inserted, insert).await
    }

    async fn send_insert(&self, drive: &Resource, image: &str) -> Result<(), ActError> {
        let action = drive.action("VirtualMedia.InsertMedia");
        let target = action.map(|action| action.target);
        let shapes = insert_shapes(target.is_some());
        let body = |shape: &Shape| insert_body(shape, image);
        let way = (Operation::Insert, "InsertMedia");
        self.adapt(drive, way, (target, shapes), body).await
    }

    /// Ejects whatever is inserted, where there is a drive.
    pub(super) async fn eject(&self) -> Result<(), ActError> {
        match self.find_drive().await? {
            Some(drive) => self.eject_from(&drive).await.map(drop),
            None => Ok(()),
        }
    }

    /// Ejects whatever is in a drive, and reads that back; whether there was anything.
    async fn eject_from(&self, drive: &Resource) -> Result<bool, ActError> {
        if Medium::of(drive) == Medium::Empty {
            return Ok(false);
        }
        let path = &drive.path;
        let is_empty = || async move {
            let drive = self.controller.get(path).await?;
            Ok::<_, ActError>(Medium::of(&drive) == Medium::Empty)
        };
        let eject = || async move {
            let drive = self.controller.get(path).await?;
            let action = drive.action("VirtualMedia.EjectMedia");
            let target = action.map(|action| action.target);
            let shapes = eject_shapes(target.is_some());
            let body = |shape: &Shape| match (shape.has(PATCH), shape.has(INSERTED)) {
                (false, _) => json!({}),
                (true, false) => json!({"Image": null}),
                (true, true) => json!({"Image": null, "Inserted": false}),
            };
            let way = (Operation::Eject, "EjectMedia");
            self.adapt(&drive, way, (target, shapes), body).await
        };
        let what = self.about("image ejected");
        let pace = Pace::within(&what, self.backend.settings.settling, TIME);
        level::bring(true, pace, is_empty, eject)
            .await
            .map(|()| true)
    }

    /// Asks a drive for something in one shape after the other: its action, or a change of it.
    async fn adapt(
        &self,
        drive: &Resource,
        (operation, action): (Operation, &str),
        (target, shapes): (Option<Arc<str>>, Vec<Shape>),
        body: impl Fn(&Shape) -> Value,
    ) -> Result<(), ActError> {
        let path = drive.path.trim_end_matches('/');
        let usual = || Arc::from(format!("{path}/Actions/VirtualMedia.{action}"));
        let target: &str = &target.unwrap_or_else(usual);
        let send = |shape: &Shape| {
            let (body, is_change) = (body(shape), shape.has(PATCH));
            async move {
                match is_change {
                    true => self.controller.patch(drive, &body).await,
                    false => self.controller.post(target, &body).await,
                }
            }
        };
        let asked = self.controller.in_shapes(operation, shapes, send).await;
        asked.map(drop).map_err(ActError::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(value: Value) -> Medium {
        Medium::of(&Resource {
            value,
            path: Arc::from("/vm"),
            etag: None,
        })
    }

    #[test]
    fn an_image_is_known_by_its_address_or_its_file_and_a_name_that_stayed_is_none() {
        const IMAGE: &str = "http://images/n0.iso";
        for (value, expected) in [
            (json!({"Image": IMAGE, "Inserted": true}), true),
            (json!({"Image": IMAGE}), true),
            (json!({"Image": "n0.iso", "Inserted": true}), true),
            (
                json!({"Image": "", "ImageName": IMAGE, "Inserted": true}),
                true,
            ),
            (json!({"Image": "", "Inserted": true}), true),
            (
                json!({"Image": "http://images/n1.iso", "Inserted": true}),
                false,
            ),
            (json!({"Image": IMAGE, "Inserted": false}), false),
            (
                json!({"Image": IMAGE, "Inserted": true, "ConnectedVia": "NotConnected"}),
                false,
            ),
            (json!({}), false),
        ] {
            assert_eq!(drive(value.clone()).can_be(IMAGE), expected, "{value}");
        }
    }

    #[test]
    fn the_protocol_of_an_image_is_called_as_redfish_calls_it() {
        for (image, expected) in [
            ("http://i/x.iso", "HTTP"),
            ("https://i/x.iso", "HTTPS"),
            ("nfs://i/x.iso", "NFS"),
            ("smb://i/x.iso", "CIFS"),
        ] {
            assert_eq!(protocol(image), expected);
        }
    }
}
