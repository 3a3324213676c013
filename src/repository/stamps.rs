//! Which files of the worktree are as they were when they were last read, by the rules of git's index.
//!
//! A file whose size, times, inode and device are what they were has the bytes that it had, so that the
//! id of its bytes is known without reading them. As in git, that does not hold for a file that had
//! just been changed when it was read: it may be changed again without another time, and is read
//! the next time. This is a table of our own, beside git's index, because the index has the ids of what
//! git would commit, which filters make something else of, and what it has of files that were touched
//! waits until git runs.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::conversion::LineEnds;
use super::entry::Stamp;
use super::{BlobId, Entry, Repository};
use crate::cache::Key;

/// A file that was changed within this time before it was read is not remembered.
const RECENT: Duration = Duration::from_secs(2);

/// A file that was read.
#[derive(Debug, Serialize, Deserialize)]
struct Remembered<'a> {
    path: &'a str,
    stamp: Stamp,
    conversion: u8,
    blob: &'a [u8],
}

/// The files of a worktree while their ids are computed.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Files that were changed from then on are not remembered.
    recent: (i64, i64),
}

impl Moment {
    /// Now; to be taken before the worktree is listed.
    #[must_use]
    pub fn now() -> Self {
        let recent = SystemTime::now()
            .checked_sub(RECENT)
            .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let recent = recent.map_or((i64::MIN, 0), |since| {
            let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            (seconds, i64::from(since.subsec_nanos()))
        });
        Self { recent }
    }
}

impl Repository {
    /// The ids of the bytes of files of the worktree, if they are known without reading them: for
    /// each of the entries, which are sorted by path.
    #[must_use]
    pub fn known(&self, entries: &[Entry]) -> Vec<Option<BlobId>> {
        let segment = self.cache.read(&self.stamps_key());
        let files: Option<Vec<Remembered<'_>>> =
            segment.as_ref().and_then(|segment| segment.decode());
        let mut files = files.unwrap_or_default().into_iter().peekable();
        let known = entries.iter().map(|entry| {
            // Of another repository, or of `HEAD`.
            if entry.blob.is_some() {
                return entry.blob;
            }
            while files.next_if(|file| *file.path < *entry.path).is_some() {}
            let file = files.next_if(|file| *file.path == *entry.path)?;
            let blob = git2::Oid::from_bytes(file.blob).ok()?;
            let is_same = entry.stamp == Some(file.stamp) && code(entry) == file.conversion;
            is_same.then(|| blob.into())
        });
        known.collect()
    }

    /// Remembers the ids of files that were listed after a moment; the entries are sorted by path.
    pub fn remember<'a>(
        &self,
        moment: Moment,
        files: impl IntoIterator<Item = (&'a Entry, &'a BlobId)>,
    ) {
        if !self.cache.keeps() {
            return;
        }
        let remembered = |(entry, blob): (&'a Entry, &'a BlobId)| {
            let stamp = entry.stamp.filter(|stamp| stamp.is_before(moment.recent))?;
            // The index has a say in these.
            let conversion = entry.conversion.as_ref();
            if conversion.is_some_and(|each| each.line_ends == LineEnds::Guessed) {
                return None;
            }
            Some(Remembered {
                path: &entry.path,
                stamp,
                conversion: code(entry),
                blob: blob.0.as_bytes(),
            })
        };
        let files: Vec<Remembered<'_>> = files.into_iter().filter_map(remembered).collect();
        self.cache.write(&self.stamps_key(), &files);
    }

    fn stamps_key(&self) -> Key {
        let root: &Path = &self.root;
        let index = match self.line_ends {
            LineEnds::Unchanged => None,
            // It has a say in which files are changed.
            _ => Some(std::fs::metadata(self.git_dir.join("index"))),
        };
        let changed = index.map(|found| found.and_then(|found| found.modified()).ok());
        let line_ends = format!("{:?} {changed:?}", self.line_ends);
        let parts = [root.as_os_str().as_encoded_bytes(), line_ends.as_bytes()];
        self.cache.key("stamps", parts)
    }
}

/// How the bytes of a file are changed, as a number.
fn code(entry: &Entry) -> u8 {
    entry.conversion.as_ref().map_or(0, |each| 1 + each.code())
}
