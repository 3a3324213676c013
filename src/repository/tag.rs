//! Annotated tags whose bytes are fixed before they are made.
//!
//! Tagger, time and message are the caller's; so the id of a tag can be written down first
//! (in the journal), and a tag that is made twice is one tag.

use super::objects::NewObjects;
use super::{CommitId, Error, ObjectId, Repository, Signature, git};

/// A tag that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTag {
    /// Its name below `refs/tags/`.
    pub name: String,
    /// The commit that it marks.
    pub target: CommitId,
    /// By whom and when.
    pub tagger: Signature,
    /// Its message; a missing line break is added at the end.
    pub message: String,
    /// The signature of all that, armored.
    pub signature: Option<String>,
}

impl NewTag {
    /// The name of its ref.
    #[must_use]
    pub fn ref_name(&self) -> String {
        format!("refs/tags/{}", self.name)
    }

    /// The text that is signed.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            name,
            target,
            tagger,
            message,
            signature: _,
        } = self;
        let end = if message.ends_with('\n') { "" } else { "\n" };
        format!("object {target}\ntype commit\ntag {name}\ntagger {tagger}\n\n{message}{end}")
    }

    fn bytes(&self) -> Vec<u8> {
        let signature = self.signature.as_deref().unwrap_or_default();
        [&*self.text(), signature].concat().into_bytes()
    }

    /// The id that the tag will have.
    ///
    /// # Errors
    ///
    /// The id cannot be computed.
    pub fn id(&self) -> Result<ObjectId, Error> {
        git2::Oid::hash_object(git2::ObjectType::Tag, &self.bytes())
            .map(ObjectId::from)
            .map_err(git("compute the id of a tag"))
    }
}

/// A tag that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its name below `refs/tags/`.
    pub name: String,
    /// The id of the tag object (of the commit, if the tag is not annotated).
    pub id: ObjectId,
    /// The commit that it marks.
    pub target: CommitId,
    /// Its words; empty if the tag is not annotated.
    pub message: String,
}

impl Repository {
    /// Makes a tag, durably. Made before with the same bytes, it stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::RefMoved`] if there is another tag with that name.
    pub fn create_tag(&self, tag: &NewTag) -> Result<ObjectId, Error> {
        // A ref to what is not here breaks every walk of git through this clone, and no remote takes it.
        if !self.has(tag.target.0)? {
            return Err(Error::UnknownRevision {
                revision: tag.target.to_string(),
                is_shallow: self.is_shallow()?,
                reason: "it is not in this clone".to_owned(),
            });
        }
        let mut objects = NewObjects::default();
        let id = objects.add(git2::ObjectType::Tag, tag.bytes())?;
        self.write_objects(objects)?;
        match self.update_ref(&tag.ref_name(), None, id) {
            Err(Error::RefMoved { found, .. }) if found == Some(id) => Ok(id),
            other => other.map(|()| id),
        }
    }

    /// The tags whose names begin with `prefix/`, by name.
    ///
    /// # Errors
    ///
    /// The tags cannot be read. Tags of what is no commit are left out.
    pub fn tags(&self, prefix: &str) -> Result<Vec<Tag>, Error> {
        let refs = self.refs(&format!("refs/tags/{prefix}"))?;
        self.with(|handle| {
            let mut tags = Vec::with_capacity(refs.len());
            for (name, id) in refs {
                let name = name.trim_start_matches("refs/tags/").to_owned();
                let object = handle
                    .find_object(id.git(), None)
                    .map_err(|error| self.reading(&format!("tag `{name}`"), error))?;
                let message = object
                    .as_tag()
                    .and_then(|tag| tag.message_bytes())
                    .map(|message| String::from_utf8_lossy(message).into_owned());
                let Ok(target) = object.peel(git2::ObjectType::Commit) else {
                    continue;
                };
                tags.push(Tag {
                    name,
                    id,
                    target: target.id().into(),
                    message: message.unwrap_or_default(),
                });
            }
            Ok(tags)
        })
    }
}
