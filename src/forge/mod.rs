//! Comments and issues on a forge: published once, updated in place, outdated ones hidden.
//!
//! A text is found again by its first line, its marker, and only among what the account of the token wrote: an
//! entry of another account is never changed, whatever it begins with. Requests take the frame of all backends:
//! bounded, retried if that does no harm, on one host, and without the token in any message.

mod api;
mod error;
mod github;
mod gitlab;
mod publish;

pub use api::{Account, Place};
pub use error::Error;
pub use github::GitHub;
pub use gitlab::GitLab;
pub use publish::{Act, Published, close, first_line, publish};

use crate::backend::Pending;

/// The largest text that every forge takes, in bytes.
pub const MOST_BYTES: usize = 65_536;

/// A comment of a change, or an issue.
#[derive(Clone, Debug)]
pub struct Entry {
    id: String,
    /// Its address, or its name where the forge tells none.
    shown: String,
    author: String,
    is_own: bool,
    body: String,
}

/// All entries of a place, the oldest first, without those that are hidden.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// The forge's name of the place.
    subject: String,
    all: Vec<Entry>,
}

/// A place on a forge with entries.
pub trait Forge: Send + Sync {
    /// Lists the entries.
    fn entries(&self) -> Pending<'_, Result<Entries, Error>>;

    /// Creates an entry in the place that [`Self::entries`] named.
    fn create<'a>(&'a self, subject: &'a str, body: &'a str) -> Pending<'a, Result<Entry, Error>>;

    /// Replaces the text of an entry.
    fn update<'a>(&'a self, entry: &'a Entry, body: &'a str) -> Pending<'a, Result<(), Error>>;

    /// Hides a comment as outdated, or closes an issue.
    fn hide<'a>(&'a self, entry: &'a Entry) -> Pending<'a, Result<(), Error>>;
}
