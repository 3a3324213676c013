//! The folder of a cache: values by name, each in a file with a checksum, written aside and renamed, swept
//! when there are too many.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use flate2::{Crc, CrcWriter};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The largest segment that is read, in bytes.
const LARGEST: u64 = 1 << 30;
/// Segments of one kind that are kept; the oldest go first.
const KEPT: usize = 4;
/// The age at which a temporary file has no writer any more.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// Bytes that are written at once.
const BUFFER: usize = 1 << 16;

/// The bytes of a checksum, which stand behind the value.
const CHECKSUM: usize = 4;

const ENDING: &str = ".segment";
const TEMPORARY: &str = "writing-";

/// Which segment: its kind, and the digest of all that its content depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    kind: &'static str,
    digest: String,
}

impl Key {
    fn new<'a>(
        program: &[u8],
        kind: &'static str,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update(program);
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let sum = hash.finalize();
        Self {
            kind,
            digest: HEXLOWER.encode(&sum[..16]),
        }
    }

    fn file_name(&self) -> String {
        format!("{}-{}{ENDING}", self.kind, self.digest)
    }
}

/// The bytes of a value, checked against their checksum.
#[derive(Debug)]
pub struct Segment(Vec<u8>);

impl Segment {
    /// The value, which may borrow from the bytes; `None` if it is none of this type.
    #[must_use]
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        postcard::from_bytes(&self.0).ok()
    }
}

fn sum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

/// Writes a new file with a value and its checksum; the bytes are never in memory as a whole.
fn write_segment<T: Serialize + ?Sized>(path: &Path, value: &T) -> io::Result<()> {
    let file = CrcWriter::new(fs::File::create_new(path)?);
    let written = postcard::to_io(value, BufWriter::with_capacity(BUFFER, file));
    let written = written.map_err(io::Error::other)?;
    let file = written
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    let checksum = file.crc().sum().to_le_bytes();
    file.into_inner().write_all(&checksum)
}

/// A folder of segments.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
    program: Vec<u8>,
}

impl Cache {
    /// The cache in a folder, which is made when something is written. `program` identifies the program that
    /// writes: segments of another one, as of an older build, are never read.
    #[must_use]
    pub fn new(folder: &Path, program: &[u8]) -> Self {
        Self {
            folder: Some(folder.to_owned()),
            program: program.to_vec(),
        }
    }

    /// A cache that holds nothing, ever.
    #[must_use]
    pub fn none() -> Self {
        Self {
            folder: None,
            program: Vec::new(),
        }
    }

    /// The key of what depends on these parts, and on the program. `kind` is part of a file name:
    /// lower-case letters.
    pub fn key<'a>(&self, kind: &'static str, parts: impl IntoIterator<Item = &'a [u8]>) -> Key {
        let program = Sha256::digest(&self.program);
        Key::new(&program, kind, parts)
    }

    /// Whether anything that is written may be there later.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.folder.is_some()
    }

    /// The segment of a key; `None` if not found or damaged.
    #[must_use]
    pub fn read(&self, key: &Key) -> Option<Segment> {
        let path = self.folder.as_ref()?.join(key.file_name());
        let size = fs::metadata(&path).ok()?.len();
        if size > LARGEST {
            return None;
        }
        let mut bytes = fs::read(path).ok()?;
        let value = bytes.len().checked_sub(CHECKSUM)?;
        let checksum = bytes.split_off(value);
        (checksum == sum(&bytes)).then_some(Segment(bytes))
    }

    /// Keeps a value, in the place of one of the same key; whether it is there now.
    pub fn write<T: Serialize + ?Sized>(&self, key: &Key, value: &T) -> bool {
        let Some(folder) = &self.folder else {
            return false;
        };
        if fs::create_dir_all(folder).is_err() {
            return false;
        }
        let temporary = folder.join(format!("{TEMPORARY}{}", unique()));
        let written = write_segment(&temporary, value)
            .and_then(|()| fs::rename(&temporary, folder.join(key.file_name())));
        if written.is_err() {
            // What is left behind is swept later.
            let _ = fs::remove_file(&temporary);
            return false;
        }
        sweep(folder, key.kind);
        true
    }
}

/// Removes the oldest segments of a kind, and what writers left behind that died.
fn sweep(folder: &Path, kind: &str) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let now = SystemTime::now();
    let mut segments = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(written) = entry.metadata().ok().and_then(|file| file.modified().ok()) else {
            continue;
        };
        let is_of_kind = name
            .strip_prefix(kind)
            .is_some_and(|rest| rest.starts_with('-') && rest.ends_with(ENDING));
        if is_of_kind {
            segments.push((written, entry.path()));
        } else if name.starts_with(TEMPORARY)
            && now.duration_since(written).is_ok_and(|age| age > ABANDONED)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    segments.sort();
    let surplus = segments.len().saturating_sub(KEPT);
    for (_, path) in segments.drain(..surplus) {
        let _ = fs::remove_file(path);
    }
}

/// A part of a file name that no other writer has.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    format!("{}-{now}-{number}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::new(b"", "test", [text.as_bytes()])
    }

    fn text(cache: &Cache, name: &str) -> Option<String> {
        cache.read(&key(name))?.decode()
    }

    #[test]
    fn what_was_kept_is_found_by_its_key_and_by_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(&folder.path().join("deep/cache"), b"one");
        assert_eq!(text(&cache, "a"), None);
        assert!(cache.write(&key("a"), "one"));
        assert!(cache.write(&key("a"), "two"));
        assert_eq!(text(&cache, "a").as_deref(), Some("two"));
        assert_eq!(text(&cache, "b"), None);
        let parts = |parts: [&'static str; 2]| Key::new(b"", "test", parts.map(str::as_bytes));
        assert_ne!(parts(["ab", "c"]), parts(["a", "bc"]));
        let other = Cache::new(folder.path(), b"two");
        assert_ne!(cache.key("test", []), other.key("test", []));
    }

    #[test]
    fn only_the_newest_segments_of_a_kind_stay() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), b"one");
        let other = Key::new(b"", "other", [&b"x"[..]]);
        assert!(cache.write(&other, "x"));
        for at in 0..KEPT + 3 {
            assert!(cache.write(&key(&at.to_string()), "x"));
            std::thread::sleep(Duration::from_millis(5));
        }
        let count = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(count, KEPT + 1);
        assert!(cache.read(&other).is_some() && cache.read(&key("6")).is_some());
        assert!(cache.read(&key("0")).is_none());
    }

    #[test]
    fn a_segment_that_is_damaged_anywhere_or_cut_off_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), b"one");
        let value = (vec![1_u32, u32::MAX], "wörter", None::<u8>);
        assert!(cache.write(&key("a"), &value));
        let segment = cache.read(&key("a")).unwrap();
        assert_eq!(segment.decode(), Some(value));
        assert_eq!(segment.decode::<Vec<String>>(), None);
        let path = folder.path().join(key("a").file_name());
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            for bytes in [&damaged[..], &whole[..at]] {
                fs::write(&path, bytes).unwrap();
                assert!(cache.read(&key("a")).is_none(), "{at}");
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_and_no_folder_hold_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for cache in [Cache::new(&file.join("cache"), b"one"), Cache::none()] {
            assert!(!cache.write(&key("a"), "one"));
            assert_eq!(text(&cache, "a"), None);
        }
    }
}
