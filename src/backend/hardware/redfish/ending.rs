//! The end of a deploy: what was set for its own time is taken back.
//!
//! A boot override or an image that stays would install the machine again at a later start. Each ending takes both back,
//! tries that more than once, and reads it back. If an ending could not (the process died), the next step that
//! switches the machine on does, or refuses.

use std::sync::Arc;

use tokio::time::sleep;

use super::boot::{installs_from, targets};
use super::machine::Machine;
use super::media::Medium;
use super::powered::Power;
use super::settings::Source;
use crate::backend::hardware::written::for_node;
use crate::backend::{ActError, Order};
use crate::design::NodeDesign;

/// How often each is tried to be taken back.
const TRIES: u32 = 3;

/// From where a machine would boot, beside its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BootsFrom {
    /// The boot override: its source, and for how long it counts.
    pub(super) source: Option<(Arc<str>, Arc<str>)>,
    /// The contents of its virtual drives.
    pub(super) media: Vec<Medium>,
}

impl BootsFrom {
    /// The text for people; `None`: nothing but its disk.
    pub(super) fn text(&self) -> Option<String> {
        let images = self.media.iter().filter_map(Medium::told);
        let source = self.source.as_ref();
        let source =
            source.map(|(target, enabled)| format!("it will boot from {target} ({enabled})"));
        let parts: Vec<String> = source.into_iter().chain(images).collect();
        (!parts.is_empty()).then(|| parts.join(", and "))
    }
}

impl Machine<'_> {
    /// Takes back what a deploy set for its own time; `keeps_image`: what was booted may still be read.
    pub(super) async fn take_back(&self, keeps_image: bool) -> Result<(), ActError> {
        let boot = self.tried(|| self.boot_as_usual()).await;
        let has_image = self.backend.settings.deploy.from == Source::VirtualMedia;
        let image = match has_image && !keeps_image {
            true => self.tried(|| self.eject()).await,
            false => Ok(()),
        };
        boot.and(image)
    }

    async fn tried<F>(&self, take: impl Fn() -> F) -> Result<(), ActError>
    where
        F: Future<Output = Result<(), ActError>>,
    {
        let mut tries = 1;
        loop {
            match take().await {
                Err(ActError::Passing(_) | ActError::Ambiguous(_)) if tries < TRIES => tries += 1,
                ended => return ended,
            }
            sleep(self.backend.settings.settling).await;
        }
    }

    /// From where it would boot, beside its disk.
    pub(super) async fn boots_from(&self) -> Result<BootsFrom, ActError> {
        let system = self.sample().await?;
        let source = installs_from(&system);
        let media = match self.backend.settings.deploy.from {
            Source::VirtualMedia => self.inserted().await?,
            Source::Pxe | Source::UefiHttp => Vec::new(),
        };
        Ok(BootsFrom { source, media })
    }

    /// Takes back what an ended deploy left before the machine is switched on.
    ///
    /// # Errors
    ///
    /// It would be installed anew: what it will boot from cannot be taken back, or is not of a deploy.
    pub(super) async fn keep_from_installing(
        &self,
        order: &Order,
        node: &NodeDesign,
    ) -> Result<(), ActError> {
        if self.power().await? == Power::On {
            return Ok(());
        }
        let found = self.boots_from().await?;
        let Some(text) = found.text() else {
            return Ok(());
        };
        let settings = &self.backend.settings;
        let own = targets(settings.deploy.from);
        if let Some((target, _)) = &found.source
            && !own.contains(&&**target)
        {
            return self.refuse(&format!(
                "{text}, which may install it anew, and no deploy has set that: it is not switched on; take the boot \
                 override back at its controller first"
            ));
        }
        let image = settings.image.as_deref().map(|image| for_node(image, node));
        let is_own =
            image.is_some_and(|image| found.media.iter().any(|medium| medium.can_be(&image)));
        if found.source.is_none() && !is_own {
            order.reporter.progress(text);
            return Ok(());
        }
        order
            .reporter
            .progress(format!("{text}, as a deploy left it: taken back first"));
        self.take_back(!is_own).await.map_err(|error| {
            self.permanent(&format!(
                "{text}, which may install it anew, and that cannot be taken back, so it is not switched on: {error}"
            ))
        })
    }
}
