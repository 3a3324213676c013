//! Which files of the worktree are as they were when they were last read, by the rules of git's index.
//!
//! A file whose size, times, inode and device are what they were has the bytes that it had, so that the
//! id of its bytes is known without reading them. As in git, that does not hold for a file that had
//! just been changed when it was looked at: it may be changed again without another time, and is read
//! the next time. This is a table of our own, beside git's index, because the index has the ids of what
//! git would commit, which filters make something else of, and what it has of files that were touched
//! waits until somebody runs git.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::entry::FIELDS;
use super::{BlobId, Entry, Repository};
use crate::cache::Key;
use crate::cache::columns::{Reader, Writer};

/// A file that was changed within this time before it was looked at is not remembered.
const RECENT: Duration = Duration::from_secs(2);

const BLOB: usize = 20;

/// The files of a worktree while somebody finds out their ids.
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
    /// The ids of the bytes of files of the worktree, where they are known without reading them: for
    /// each of the entries, which are sorted by path.
    #[must_use]
    pub fn known(&self, entries: &[Entry]) -> Vec<Option<BlobId>> {
        let segment = self.cache.read(&self.stamps_key());
        let known = segment.and_then(|segment| known(&segment, entries));
        known.unwrap_or_else(|| vec![None; entries.len()])
    }

    /// Remembers the ids of files that were listed after a moment; the entries are sorted by path.
    pub fn remember<'a>(
        &self,
        moment: Moment,
        files: impl IntoIterator<Item = (&'a Entry, BlobId)>,
    ) {
        if !self.cache.keeps() {
            return;
        }
        let (mut paths, mut stamps, mut blobs) = (Vec::new(), Vec::new(), Vec::new());
        for (entry, blob) in files {
            let Some(stamp) = entry.stamp.filter(|stamp| stamp.is_before(moment.recent)) else {
                continue;
            };
            paths.push(&*entry.path);
            stamps.push(stamp.numbers());
            blobs.extend_from_slice(blob.0.as_bytes());
        }
        let mut writer = Writer::new();
        writer.texts(paths);
        for field in 0..FIELDS {
            writer.large(stamps.iter().map(|stamp| stamp[field]));
        }
        writer.bytes(blobs);
        self.cache.write(&self.stamps_key(), &writer.finish());
    }

    fn stamps_key(&self) -> Key {
        let root: &Path = &self.root;
        let strips = [u8::from(self.strips_carriage_returns)];
        self.cache
            .key("stamps", [root.as_os_str().as_encoded_bytes(), &strips])
    }
}

fn known(segment: &[u8], entries: &[Entry]) -> Option<Vec<Option<BlobId>>> {
    let mut reader = Reader::open(segment)?;
    let paths = reader.texts()?;
    let mut fields = Vec::with_capacity(FIELDS);
    for _ in 0..FIELDS {
        fields.push(reader.large()?);
    }
    let (blobs, rest) = reader.bytes()?.as_chunks::<BLOB>();
    let fits = fields.iter().all(|field| field.len() == paths.len());
    if !fits || !rest.is_empty() || blobs.len() != paths.len() {
        return None;
    }
    let mut result = Vec::with_capacity(entries.len());
    let mut at = 0;
    let mut stamp = [0; FIELDS];
    let mut next = |stamp: &mut [u64; FIELDS]| {
        for (slot, field) in stamp.iter_mut().zip(&mut fields) {
            *slot = field.next()?;
        }
        Some(())
    };
    let mut path = None;
    for entry in entries {
        while at < paths.len() && path.is_none_or(|path| path < &*entry.path) {
            path = Some(paths.get(at)?);
            next(&mut stamp)?;
            at += 1;
        }
        let is_same =
            path == Some(&*entry.path) && entry.stamp.is_some_and(|seen| seen.numbers() == stamp);
        let blob = at.checked_sub(1).and_then(|at| blobs.get(at));
        result.push(match blob.filter(|_| is_same) {
            Some(bytes) => Some(git2::Oid::from_bytes(bytes).ok()?.into()),
            None => None,
        });
    }
    Some(result)
}
