//! Images as virtual media: inserted, read back, and ejected.
//!
//! A deploy begins by ejecting whatever is in, so that an image of an earlier one is never taken for its own. What a
//! drive shows of an image differs: its whole address, the last part of it, or nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};

use super::controller::is_not_there;
use super::machine::Machine;
use super::resource::{Part, Resource, last};
use super::shapes::{
    INSERTED, Operation, PATCH, Shape, TRANSFER_METHOD, TRANSFER_PROTOCOL, WRITE_PROTECTED,
};
use crate::backend::ActError;
use crate::backend::hardware::level::{self, Pace};
use crate::backend::hardware::written::for_node;
use crate::backend::http::{Class, plain};
use crate::design::NodeDesign;
use crate::threads::lock;

/// How long an image may take to show, or to go.
const TIME: Duration = Duration::from_secs(180);
/// Most virtual drives that are read.
const MOST_DRIVES: usize = 16;
/// Most virtual drives that are asked to take an image.
const MOST_ASKED: usize = 4;

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

    /// The text for people; `None`: there is none.
    pub(super) fn told(&self) -> Option<String> {
        match self {
            Self::Empty => None,
            Self::Unnamed => Some("an image is inserted".to_owned()),
            Self::Named(name) => Some(format!("the image {} is inserted", plain(name, 160))),
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

fn takes_discs(drive: &Resource) -> bool {
    let kinds = drive.texts("/MediaTypes");
    kinds.contains(&"CD") || kinds.contains(&"DVD")
}

fn inserted(drives: &[Resource]) -> Vec<Medium> {
    let media = drives.iter().map(Medium::of);
    media.filter(|medium| *medium != Medium::Empty).collect()
}

/// Whether a drive that was written out with others tells what it takes, and what is in.
fn tells_what_is_in(drive: &Resource) -> bool {
    let is_told = drive.boolean("/Inserted").is_some() || drive.text("/Image").is_some();
    is_told && !drive.texts("/MediaTypes").is_empty()
}

/// The shapes of an inserted image: as an action if the drive offers it, else as a change of the drive.
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

/// Whether anything was ejected from a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ejected {
    Nothing,
    Something,
}

/// A place of virtual drives.
enum Place {
    /// Their collection, if the system links one.
    Collection(Option<Arc<str>>),
    /// A manager of the system.
    Manager(Arc<str>),
}

impl Machine<'_> {
    /// The contents of the virtual drives that take images.
    pub(super) async fn inserted(&self) -> Result<Vec<Medium>, ActError> {
        Ok(inserted(&self.drives_for_images().await?))
    }

    /// The virtual drives that take images, the one that took an image before first.
    async fn drives_for_images(&self) -> Result<Vec<Resource>, ActError> {
        let Some(known) = self.known_media() else {
            return self.look_for_drives().await;
        };
        let mut drives = match &*known.drives {
            [only] => {
                let drive = self.controller.get_if_there(only).await?;
                drive.into_iter().collect()
            }
            _ => self.drives_of(&known.collection).await?,
        };
        if drives.is_empty() {
            return self.look_for_drives().await;
        }
        drives.sort_by_key(|drive| Some(&drive.path) != known.took.as_ref());
        Ok(drives)
    }

    /// Looks for drives: with the system, else with those that manage it.
    async fn look_for_drives(&self) -> Result<Vec<Resource>, ActError> {
        let system = self.recent().await?;
        let mut sticks = None;
        let mut places = vec![Place::Collection(
            system.link("/VirtualMedia").map(Arc::from),
        )];
        let managers = system.links("/Links/ManagedBy");
        places.extend(managers.into_iter().map(Place::Manager));
        for place in places {
            let collection: Option<Arc<str>> = match place {
                Place::Collection(collection) => collection,
                Place::Manager(manager) => {
                    let manager = self.controller.get_if_there(&manager).await?;
                    let link = manager.as_ref().and_then(|it| it.link("/VirtualMedia"));
                    link.map(Arc::from)
                }
            };
            let Some(collection) = collection else {
                continue;
            };
            let drives = self.drives_of(&collection).await?;
            if drives.iter().any(takes_discs) {
                self.has_media(&collection, &drives);
                return Ok(drives);
            }
            if sticks.is_none() && !drives.is_empty() {
                sticks = Some((collection, drives));
            }
        }
        let Some((collection, drives)) = sticks else {
            return Ok(Vec::new());
        };
        self.has_media(&collection, &drives);
        Ok(drives)
    }

    /// The drives of a collection that take images of discs; if none does, those that take images of sticks.
    async fn drives_of(&self, collection: &str) -> Result<Vec<Resource>, ActError> {
        let levels = self.expands.min(1);
        let members = match self.controller.parts(collection, levels).await {
            Ok(members) => members,
            Err(failure) if is_not_there(&failure) => return Ok(Vec::new()),
            Err(failure) => return Err(failure.into()),
        };
        // Most are called by what they take: the likely ones are read first, and others only if they are needed.
        let likely = |part: &Part| {
            let name = last(part.path()).to_ascii_lowercase();
            let is_called = |names: &[&str]| names.iter().any(|each| name.contains(each));
            match (
                is_called(&["cd", "dvd"]),
                is_called(&["floppy", "usb", "removable"]),
            ) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => 2,
            }
        };
        let mut members: Vec<Part> = members.into_iter().collect();
        members.sort_by_key(likely);
        members.truncate(MOST_DRIVES);
        let took = self.known_media().and_then(|media| media.took);
        let (mut discs, mut sticks) = (Vec::new(), Vec::new());
        for part in members {
            if !discs.is_empty() && likely(&part) == 2 {
                break;
            }
            let drive = match part {
                Part::Whole(drive) if tells_what_is_in(&drive) => Some(drive),
                // Some write members out without their values.
                part => match self.controller.get_if_there(part.path()).await {
                    // Of several drives one may be broken, which ends nothing unless it took the image.
                    Err(failure)
                        if !discs.is_empty()
                            && failure.class() == Class::Permanent
                            && took.as_deref() != Some(part.path()) =>
                    {
                        log::info!("{}: {failure}", self.about(part.path()));
                        None
                    }
                    drive => drive?,
                },
            };
            let Some(drive) = drive else {
                continue;
            };
            if takes_discs(&drive) {
                discs.push(drive);
            } else if drive.texts("/MediaTypes").contains(&"USBStick") {
                sticks.push(drive);
            }
        }
        Ok(if discs.is_empty() { sticks } else { discs })
    }

    /// Checks that there is a virtual drive that takes images: what is in those that there are, and is ejected by a deploy.
    pub(super) async fn check_media(&self) -> Result<Vec<Medium>, ActError> {
        let drives = self.drives_for_images().await?;
        self.some_drive(&drives)?;
        Ok(inserted(&drives))
    }

    fn some_drive(&self, drives: &[Resource]) -> Result<(), ActError> {
        match drives.is_empty() {
            false => Ok(()),
            true => self.refuse("it has no virtual drive that takes images (`VirtualMedia`)"),
        }
    }

    /// Ejects whatever is in, inserts the node's image, and reads that back. If a drive refuses it, the next is asked:
    /// some are kept for other uses, and report nothing of that.
    pub(super) async fn insert(&self, node: &NodeDesign) -> Result<(), ActError> {
        let Some(image) = &self.backend.settings.image else {
            return self
                .refuse("`hardware.redfish.image` is not set, so there is no image to boot from");
        };
        let image = &*for_node(image, node);
        let drives = self.drives_for_images().await?;
        self.some_drive(&drives)?;
        let mut refused = None;
        for (drive, ejected) in self.eject_all(drives).await?.into_iter().take(MOST_ASKED) {
            self.took_image(&drive.path);
            let path = drive.path.clone();
            let known = (ejected == Ejected::Nothing).then_some(drive);
            match self.insert_into((&path, known), image).await {
                Err(error @ ActError::Permanent(_)) => {
                    refused.get_or_insert(error);
                }
                ended => return ended,
            }
        }
        match refused {
            Some(error) => Err(error),
            None => self.refuse("each of its virtual drives keeps what is in"),
        }
    }

    /// Inserts an image into an empty drive, and reads that back; `known`: the drive as it was read just now.
    async fn insert_into(
        &self,
        (path, known): (&str, Option<Resource>),
        image: &str,
    ) -> Result<(), ActError> {
        let known = &Mutex::new(known);
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

    /// Ejects whatever is inserted, if there are drives.
    pub(super) async fn eject(&self) -> Result<(), ActError> {
        let drives = self.drives_for_images().await?;
        self.eject_all(drives).await.map(drop)
    }

    /// Ejects whatever is in these drives: those that are empty now. One that keeps what is in is left where another is known
    /// to be the one that takes the images of deploys; else what is in may be such an image.
    async fn eject_all(&self, drives: Vec<Resource>) -> Result<Vec<(Resource, Ejected)>, ActError> {
        let took = self.known_media().and_then(|media| media.took);
        let mut empty = Vec::new();
        for drive in drives {
            let is_used = took.as_ref().is_none_or(|took| *took == drive.path);
            match self.eject_from(&drive).await {
                Err(error @ ActError::Permanent(_)) if !is_used => log::info!("{error}"),
                ejected => empty.push((drive, ejected?)),
            }
        }
        Ok(empty)
    }

    /// Ejects whatever is in a drive, and reads that back.
    async fn eject_from(&self, drive: &Resource) -> Result<Ejected, ActError> {
        if Medium::of(drive) == Medium::Empty {
            return Ok(Ejected::Nothing);
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
            .map(|()| Ejected::Something)
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
            self.changes();
            let (body, is_change) = (body(shape), shape.has(PATCH));
            async move {
                match is_change {
                    // The version of one that was read with others may be in the headers alone.
                    true if drive.etag.is_none() => {
                        let drive = self.controller.get(&drive.path).await?;
                        self.controller.patch(&drive, &body).await
                    }
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
