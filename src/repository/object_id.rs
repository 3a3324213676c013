//! Ids of git objects, each kind its own type.
//!
//! An id is the SHA-1 that git gives the object. A commit's id is never taken for a file's: what
//! names a revision is a [`CommitId`], what names the bytes of a file is a [`BlobId`].

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::diagnostic::short_id;

/// The id of any git object: 20 bytes, shown as 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ObjectId([u8; 20]);

/// A text that is no object id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no object id of 40 hexadecimal digits")]
pub struct NoObjectId(pub String);

impl ObjectId {
    /// The id as it stands in git's own objects.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The beginning, for people.
    #[must_use]
    pub fn short(&self) -> String {
        short_id(&self.to_string()).to_owned()
    }

    pub(super) fn git(self) -> git2::Oid {
        git2::Oid::from_bytes(&self.0).unwrap_or(git2::Oid::ZERO_SHA1)
    }
}

impl From<git2::Oid> for ObjectId {
    fn from(id: git2::Oid) -> Self {
        let mut bytes = [0; 20];
        bytes.copy_from_slice(&id.as_bytes()[..20]);
        Self(bytes)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&HEXLOWER.encode_display(&self.0), f)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ObjectId {
    type Err = NoObjectId;

    fn from_str(text: &str) -> Result<Self, NoObjectId> {
        let wrong = || NoObjectId(text.to_owned());
        let digits = text.as_bytes();
        if digits.len() != 40 {
            return Err(wrong());
        }
        let value = |digit: u8| (digit as char).to_digit(16).ok_or_else(wrong);
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for ObjectId {
    type Error = NoObjectId;

    fn try_from(text: String) -> Result<Self, NoObjectId> {
        text.parse()
    }
}

macro_rules! kind_of_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub ObjectId);

        impl $name {
            /// The beginning, for people.
            #[must_use]
            pub fn short(&self) -> String {
                self.0.short()
            }

            pub(super) fn git(self) -> git2::Oid {
                self.0.git()
            }
        }

        impl From<git2::Oid> for $name {
            fn from(id: git2::Oid) -> Self {
                Self(id.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NoObjectId;

            fn from_str(text: &str) -> Result<Self, NoObjectId> {
                text.parse().map(Self)
            }
        }
    };
}

kind_of_id! {
    /// The id of a commit: a revision.
    CommitId
}
kind_of_id! {
    /// The id of a file's bytes: equal bytes have equal ids, in the worktree and in every revision.
    BlobId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_digits_and_anything_else_is_refused() {
        let text = "00ff17a0b1c2d3e4f5061728394a5b6c7d8e9f10";
        let id: ObjectId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(id.short(), "00ff17a0b1c2");
        assert_eq!(ObjectId::from(id.git()), id);
        for bad in [
            "",
            "00ff",
            "zzff17a0b1c2d3e4f5061728394a5b6c7d8e9f10",
            "üüüüüüüüüüüüüüüüüüüü",
        ] {
            assert!(bad.parse::<ObjectId>().is_err(), "{bad}");
        }
    }
}
