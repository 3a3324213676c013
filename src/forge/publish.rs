//! Publishes a text in the one entry that begins with its marker.
//!
//! Two processes at once may both create an entry. Each lists the entries again after its own creation: the oldest
//! is the one that stays, with the text of the process that came later, and the others are hidden. An answer that
//! was lost is decided in the same way, so that no entry is created twice.

use super::{Entries, Entry, Error, Forge};

/// Entries that one process creates at most, where answers are lost.
const MOST_CREATIONS: usize = 3;

/// The act that a publication was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A new entry.
    Created,
    /// The entry has a new text.
    Updated,
    /// The entry has this text already.
    Unchanged,
    /// The entry was closed.
    Closed,
    /// There was no entry to close.
    Nothing,
}

/// The result of a publication.
#[derive(Clone, Debug)]
pub struct Published {
    /// The act.
    pub act: Act,
    /// The address or name of the entry.
    pub shown: String,
    /// Outdated entries that were hidden.
    pub hidden: usize,
    /// The authors of other entries with the same marker, which were not changed.
    pub others: Vec<String>,
}

/// The marker that a text begins with; `None` if it has none.
#[must_use]
pub fn first_line(text: &str) -> Option<&str> {
    let line = text.lines().next()?.trim_end();
    (line.starts_with("<!-- trueup:") && line.ends_with(" -->")).then_some(line)
}

impl Entries {
    fn with<'a>(&'a self, marker: &'a str, is_own: bool) -> impl Iterator<Item = &'a Entry> {
        self.all
            .iter()
            .filter(move |entry| entry.is_own == is_own && first_line(&entry.body) == Some(marker))
    }

    fn others(&self, marker: &str) -> Vec<String> {
        let others = self.with(marker, false);
        others.map(|entry| entry.author.clone()).collect()
    }
}

/// Creates the entry of a text, or updates it in place, and hides outdated ones.
///
/// # Errors
///
/// A request failed for good, or the change has another head.
pub async fn publish(forge: &dyn Forge, marker: &str, text: &str) -> Result<Published, Error> {
    let mut created: Option<Entry> = None;
    let mut attempts = 0;
    loop {
        let entries = forge.entries().await?;
        let mut own = entries.with(marker, true);
        let first = own.next();
        let outdated: Vec<&Entry> = own.collect();
        let published = |act, entry: &Entry| Published {
            act,
            shown: entry.shown.clone(),
            hidden: outdated.len(),
            others: entries.others(marker),
        };
        let Some(first) = first else {
            // A list that does not have the new entry yet.
            if let Some(created) = &created {
                return Ok(published(Act::Created, created));
            }
            attempts += 1;
            match forge.create(&entries.subject, text).await {
                Ok(entry) => created = Some(entry),
                Err(error) if error.is_ambiguous() && attempts < MOST_CREATIONS => {}
                Err(error) => return Err(error),
            }
            continue;
        };
        let is_new = created.is_some_and(|created| created.id == first.id);
        let is_same = first.body.trim_end() == text.trim_end();
        let act = match (is_new, is_same) {
            (true, _) => Act::Created,
            (false, true) => Act::Unchanged,
            (false, false) => {
                forge.update(first, text).await?;
                Act::Updated
            }
        };
        for entry in &outdated {
            forge.hide(entry).await?;
        }
        return Ok(published(act, first));
    }
}

/// Updates and closes every open entry of a text; creates none.
///
/// # Errors
///
/// A request failed for good.
pub async fn close(forge: &dyn Forge, marker: &str, text: &str) -> Result<Published, Error> {
    let entries = forge.entries().await?;
    let mut own = entries.with(marker, true);
    let others = entries.others(marker);
    let Some(first) = own.next() else {
        return Ok(Published {
            act: Act::Nothing,
            shown: String::new(),
            hidden: 0,
            others,
        });
    };
    forge.update(first, text).await?;
    forge.hide(first).await?;
    let mut hidden = 0;
    for entry in own {
        forge.hide(entry).await?;
        hidden += 1;
    }
    Ok(Published {
        act: Act::Closed,
        shown: first.shown.clone(),
        hidden,
        others,
    })
}
