//! Documents that another program has rendered, such as Deckhand: the stages of the loader without git and layering.

use std::sync::Arc;

use super::files::Files;
use super::load::{Contents, Loader};
use super::wanted::Wanted;
use super::{At, Error, Location, Settings, Site, SiteFile};
use crate::design;
use crate::diagnostic::Diagnostics;
use crate::document::{self, LoadSettings, LoadedFile, SiteLimits, decode};
use crate::repository::{Mode, Tree, blob_id};
use crate::threads::THREADS;

/// Documents that decide how others are rendered.
const LAYERS: &str = "deckhand/LayeringPolicy/";

/// A text of documents, and its name in messages.
#[derive(Clone, Copy, Debug)]
pub struct RenderedText<'a> {
    /// Where it is from.
    pub name: &'a str,
    /// YAML, a document after the other.
    pub bytes: &'a [u8],
}

impl Loader<'_> {
    /// Reads the documents of a site that another program has rendered. Problems in them are in the result, which has
    /// the guards that the documents name: a caller uses those for comparison only.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub fn load_rendered(
        &mut self,
        location: &Location,
        at: At,
        text: RenderedText<'_>,
        settings: Settings,
    ) -> Result<Site, Error> {
        let location = Location {
            is_flat: true,
            ..location.clone()
        };
        let wanted = Wanted {
            location: &location,
            at,
            settings,
        };
        let tree = Tree {
            revision: None,
            entries: Vec::new(),
            problems: Vec::new(),
        };
        let contents = self.files.rendered(text);
        let stages = self.worked_out(&wanted, &tree, contents, (&mut design::alone, THREADS))?;
        let stages = self.finished(&wanted, &tree, stages)?;
        Ok(stages.into_site(&wanted))
    }
}

impl Files<'_> {
    /// Parses a text within the limits of a file and of a site.
    fn rendered(&mut self, text: RenderedText<'_>) -> Contents {
        let settings = LoadSettings {
            flat: true,
            rendered: true,
            blob: Some(*blob_id(text.bytes).0.as_bytes()),
            ..LoadSettings::default()
        };
        let mut contents = Contents::default();
        let decoded = match decode(text.name, text.bytes, &settings.limits) {
            Ok(decoded) => decoded,
            Err(problem) => {
                contents.diagnostics.push(*problem);
                return contents;
            }
        };
        let source = self.sources.add(text.name, decoded.clone());
        let mut content = document::load(source, &decoded, &settings);
        let limits = SiteLimits::new();
        if !limits.take_values(content.size.1) {
            content = LoadedFile {
                diagnostics: [super::files::too_large()]
                    .into_iter()
                    .collect::<Diagnostics>(),
                ..LoadedFile::default()
            };
        }
        for (start, end) in &content.secret {
            self.sources.hide(source, *start, *end);
        }
        content
            .documents
            .retain(|document| !document.id.schema.starts_with(LAYERS));
        contents.files.push(SiteFile {
            path: Arc::from(text.name),
            mode: Mode::Regular,
            blob: blob_id(text.bytes),
        });
        contents.loaded.push(Arc::new(content));
        contents
    }
}
