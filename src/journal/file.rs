//! The file of a journal: frames, checksums, fsync, and what is done to a torn end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use flate2::Crc;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;

/// The version of the format of a journal.
pub const FORMAT_VERSION: u32 = 1;

const NAME: &str = "journal";
/// A journal that is going to take the place of another.
const DRAFT: &str = "journal.new";
const MAGIC: &[u8; 8] = b"trueupjl";
const HEADER: usize = MAGIC.len() + 4;
const FRAME_HEADER: usize = 12;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    pending: Vec<u8>,
    broken: bool,
}

impl Journal {
    /// Makes the journal of a new run in `directory`, which is created if missing.
    ///
    /// The file and the directories' entries are durable when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] if there is one already, [`Error::File`].
    pub fn create(directory: &Path) -> Result<Self, Error> {
        let missing = directory.ancestors().take_while(|path| !path.is_dir());
        // If it is there already, its entry may still not be durable.
        let entries = missing.count().max(1);
        std::fs::create_dir_all(directory).map_err(refused("make", directory))?;
        let path = directory.join(NAME);
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .open(&path);
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists { path });
            }
            other => other.map_err(refused("make", &path))?,
        };
        file.write_all(&header())
            .and_then(|()| file.sync_all())
            .map_err(refused("write", &path))?;
        sync_directory(directory)?;
        for parent in directory.ancestors().skip(1).take(entries) {
            let here = parent.as_os_str().is_empty();
            sync_directory(if here { Path::new(".") } else { parent })?;
        }
        Ok(Self {
            path,
            file,
            pending: Vec::new(),
            broken: false,
        })
    }

    /// Makes a journal of these entries, in the place of the one in `directory` if there is one. It is a
    /// file of its own: a process that still has the other open writes nothing into this one.
    ///
    /// # Errors
    ///
    /// [`Error::File`], [`Error::Entry`].
    pub fn replace<T: Serialize>(directory: &Path, entries: &[T]) -> Result<Self, Error> {
        std::fs::create_dir_all(directory).map_err(refused("make", directory))?;
        let (draft, path) = (directory.join(DRAFT), directory.join(NAME));
        let made = File::create(&draft).and_then(|_| {
            let options = OpenOptions::new().read(true).append(true).open(&draft);
            options.and_then(|mut file| file.write_all(&header()).map(|()| file))
        });
        let mut journal = Self {
            file: made.map_err(refused("make", &draft))?,
            path: draft,
            pending: Vec::new(),
            broken: false,
        };
        for entry in entries {
            journal.append(entry)?;
        }
        journal.commit()?;
        journal
            .file
            .sync_all()
            .and_then(|()| std::fs::rename(&journal.path, &path))
            .map_err(refused("write", &path))?;
        journal.path = path;
        sync_directory(directory)?;
        Ok(journal)
    }

    /// Whether there is a journal in `directory`.
    #[must_use]
    pub fn is_in(directory: &Path) -> bool {
        directory.join(NAME).is_file()
    }

    /// The file of the journal in `directory`.
    #[must_use]
    pub fn path_in(directory: &Path) -> PathBuf {
        directory.join(NAME)
    }

    /// Reads what can be read of the journal in `directory`, and changes nothing: its entries up to where it
    /// is damaged, and where that is, in words. A commit that was cut off while it was being written is no
    /// damage.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn salvage<T: DeserializeOwned>(
        directory: &Path,
    ) -> Result<(Vec<T>, Option<String>), Error> {
        let path = directory.join(NAME);
        let bytes = std::fs::read(&path).map_err(refused("read", &path))?;
        if bytes.len() < HEADER && header().starts_with(&bytes) {
            return Ok((Vec::new(), None));
        }
        if !bytes.starts_with(&header()) {
            let text = format!("it does not begin as one of format version {FORMAT_VERSION}");
            return Ok((Vec::new(), Some(text)));
        }
        let mut entries = Vec::new();
        let mut offset = HEADER;
        while let Some(payload) = frame(&bytes[offset..]) {
            for line in payload.split(|byte| *byte == b'\n') {
                if line.is_empty() {
                    continue;
                }
                match serde_json::from_slice(line) {
                    Ok(entry) => entries.push(entry),
                    Err(error) => {
                        return Ok((entries, Some(format!("at byte {offset}: {error}"))));
                    }
                }
            }
            offset += FRAME_HEADER + payload.len();
        }
        let damage = (!is_cut_off(&bytes[offset..])).then(|| format!("at byte {offset}"));
        Ok((entries, damage))
    }

    /// Opens the journal in `directory`, cuts a torn end off, and gives its entries in order.
    ///
    /// # Errors
    ///
    /// [`Error::Format`], [`Error::Damaged`], [`Error::Entry`], [`Error::File`].
    pub fn open<T: DeserializeOwned>(directory: &Path) -> Result<(Self, Vec<T>), Error> {
        let path = directory.join(NAME);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(&path)
            .map_err(refused("open", &path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(refused("read", &path))?;
        if bytes.len() < HEADER && header().starts_with(&bytes) {
            // Creation was interrupted: nothing was ever promised.
            file.set_len(0)
                .and_then(|()| file.write_all(&header()))
                .and_then(|()| file.sync_all())
                .map_err(refused("repair", &path))?;
            bytes = header().to_vec();
        }
        let (entries, offset) = entries(&bytes).map_err(|problem| match problem {
            Problem::Format => Error::Format { path: path.clone() },
            Problem::Damaged { offset } => Error::Damaged {
                path: path.clone(),
                offset: offset as u64,
            },
            Problem::Entry(error) => Error::Entry(error),
        })?;
        if offset < bytes.len() {
            file.set_len(offset as u64)
                .and_then(|()| file.sync_all())
                .map_err(refused("repair", &path))?;
        }
        file.seek(SeekFrom::End(0))
            .map_err(refused("read", &path))?;
        let journal = Self {
            path,
            file,
            pending: Vec::new(),
            broken: false,
        };
        Ok((journal, entries))
    }

    /// Adds an entry, which is durable after the next commit.
    ///
    /// # Errors
    ///
    /// [`Error::Entry`], [`Error::Broken`].
    pub fn append<T: Serialize>(&mut self, entry: &T) -> Result<(), Error> {
        if self.broken {
            return Err(Error::Broken);
        }
        if self.pending.is_empty() {
            self.pending.resize(FRAME_HEADER, 0);
        }
        let length = self.pending.len();
        if let Err(error) = serde_json::to_writer(&mut self.pending, entry) {
            self.pending.truncate(length);
            return Err(Error::Entry(error));
        }
        self.pending.push(b'\n');
        Ok(())
    }

    /// Makes all entries appended so far durable, with one write and one fsync.
    ///
    /// After a failure nothing more can be written: a second fsync could claim what the first lost.
    ///
    /// # Errors
    ///
    /// [`Error::File`], [`Error::Broken`].
    pub fn commit(&mut self) -> Result<(), Error> {
        if self.broken {
            return Err(Error::Broken);
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        seal(&mut self.pending).map_err(refused("write", &self.path))?;
        let began = Instant::now();
        let written = self
            .file
            .write_all(&self.pending)
            .and_then(|()| self.file.sync_data());
        let (bytes, took) = (self.pending.len(), began.elapsed());
        log::trace!("{bytes} bytes made durable in {took:.1?}");
        self.pending.clear();
        self.broken = written.is_err();
        written.map_err(refused("write", &self.path))
    }
}

/// Why bytes are not a journal that can be continued.
#[derive(Debug)]
pub(crate) enum Problem {
    /// They do not begin as a journal does.
    Format,
    /// A durable frame is not readable any more.
    Damaged { offset: usize },
    /// An entry is not what is expected.
    Entry(serde_json::Error),
}

/// The entries of a journal, and how many of its bytes are whole: what follows them was being written
/// when the machine went down.
pub(crate) fn entries<T: DeserializeOwned>(bytes: &[u8]) -> Result<(Vec<T>, usize), Problem> {
    if !bytes.starts_with(&header()) {
        return Err(Problem::Format);
    }
    let mut entries = Vec::new();
    let mut offset = HEADER;
    while offset < bytes.len() {
        let Some(payload) = frame(&bytes[offset..]) else {
            // Only the last frame can have been cut off: one behind it shows that this one was durable.
            // Its checksums are not to be trusted, so that one may begin at any byte.
            let rest = offset + 1..bytes.len();
            if rest.into_iter().any(|at| frame(&bytes[at..]).is_some()) {
                return Err(Problem::Damaged { offset });
            }
            break;
        };
        for line in payload.split(|byte| *byte == b'\n') {
            if !line.is_empty() {
                entries.push(serde_json::from_slice(line).map_err(Problem::Entry)?);
            }
        }
        offset += FRAME_HEADER + payload.len();
    }
    Ok((entries, offset))
}

/// Whether `rest` is what the write of a frame leaves that did not come to its end: its first bytes, or
/// space in which nothing was written yet. Anything else was durable, and is not readable any more.
fn is_cut_off(rest: &[u8]) -> bool {
    let written = rest
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    let Some((length, sum_of_length)) = rest.get(..8).map(|head| head.split_at(4)) else {
        return true;
    };
    if written == 0 {
        return true;
    }
    let announced = length
        .iter()
        .rev()
        .fold(0usize, |number, byte| (number << 8) | usize::from(*byte));
    sum(length) == sum_of_length && written < FRAME_HEADER.saturating_add(announced)
}

/// The payload of the frame at the beginning of `bytes`, if a whole and undamaged one is there.
fn frame(bytes: &[u8]) -> Option<&[u8]> {
    let (header, rest) = bytes.split_at_checked(FRAME_HEADER)?;
    let (length, sums) = header.split_at(4);
    let (length_sum, payload_sum) = sums.split_at(4);
    if sum(length) != length_sum {
        return None;
    }
    let length = length
        .iter()
        .rev()
        .fold(0usize, |number, byte| (number << 8) | usize::from(*byte));
    let payload = rest.get(..length)?;
    (sum(payload) == payload_sum).then_some(payload)
}

/// Writes the header of a frame in front of its payload.
fn seal(frame: &mut [u8]) -> io::Result<()> {
    let (header, payload) = frame.split_at_mut(FRAME_HEADER);
    // A frame holds what one turn of a loop appended: far below 4 GiB.
    let length = u32::try_from(payload.len())
        .map_err(io::Error::other)?
        .to_le_bytes();
    header[..4].copy_from_slice(&length);
    header[4..8].copy_from_slice(&sum(&length));
    header[8..].copy_from_slice(&sum(payload));
    Ok(())
}

/// A journal whose commits had these payloads.
#[cfg(any(test, fuzzing))]
pub(crate) fn sealed(payloads: &[&[u8]]) -> Vec<u8> {
    let mut bytes = header().to_vec();
    for payload in payloads {
        let start = bytes.len();
        bytes.extend([0; FRAME_HEADER]);
        bytes.extend_from_slice(payload);
        seal(&mut bytes[start..]).expect("payloads of tests are small");
    }
    bytes
}

fn sum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

fn header() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..MAGIC.len()].copy_from_slice(MAGIC);
    header[MAGIC.len()..].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header
}

fn sync_directory(path: &Path) -> Result<(), Error> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(refused("sync", path))
}

fn refused(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::File {
        what,
        path: path.to_path_buf(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(batches: &[&[&str]]) -> (tempfile::TempDir, Vec<u8>) {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(&directory.path().join("run")).unwrap();
        for batch in batches {
            for entry in *batch {
                journal.append(entry).unwrap();
            }
            journal.commit().unwrap();
        }
        let bytes = std::fs::read(directory.path().join("run").join(NAME)).unwrap();
        (directory, bytes)
    }

    fn read(directory: &Path, bytes: &[u8]) -> Result<Vec<String>, Error> {
        std::fs::write(directory.join("run").join(NAME), bytes).unwrap();
        Journal::open(&directory.join("run")).map(|(_, entries)| entries)
    }

    #[test]
    fn what_was_committed_is_read_again_and_what_was_not_is_gone() {
        let (directory, _) = written(&[&["a", "b"], &["c\nd"]]);
        let run = directory.path().join("run");
        let (mut journal, entries) = Journal::open::<String>(&run).unwrap();
        assert_eq!(entries, ["a", "b", "c\nd"]);
        journal.append(&"lost").unwrap();
        drop(journal);
        let (mut journal, _) = Journal::open::<String>(&run).unwrap();
        journal.append(&"e").unwrap();
        journal.commit().unwrap();
        let (_, entries) = Journal::open::<String>(&run).unwrap();
        assert_eq!(entries, ["a", "b", "c\nd", "e"]);
        assert!(matches!(Journal::create(&run), Err(Error::Exists { .. })));
    }

    #[test]
    fn a_journal_cut_anywhere_gives_the_whole_commits_before_the_cut() {
        let (directory, bytes) = written(&[&["a", "b"], &["c"], &["d"]]);
        let mut seen = Vec::new();
        for cut in 0..=bytes.len() {
            let entries = read(directory.path(), &bytes[..cut]).unwrap();
            assert!(["", "ab", "abc", "abcd"].contains(&entries.concat().as_str()));
            let again = Journal::open::<String>(&directory.path().join("run")).unwrap();
            assert_eq!(again.1, entries, "a repaired journal reads the same");
            if seen.last() != Some(&entries.len()) {
                seen.push(entries.len());
            }
        }
        assert_eq!(seen, [0, 2, 3, 4]);
    }

    #[test]
    fn an_end_of_zeroes_is_cut_off() {
        let (directory, mut bytes) = written(&[&["a"]]);
        bytes.extend([0; 4096]);
        assert_eq!(read(directory.path(), &bytes).unwrap(), ["a"]);
    }

    #[test]
    fn a_damaged_frame_in_the_middle_is_an_error_and_not_a_cut() {
        let (directory, mut bytes) = written(&[&["a"], &["b"]]);
        // Its length, the checksum of that, the checksum of its payload, the payload.
        for damaged in 0..=FRAME_HEADER {
            bytes[HEADER + damaged] ^= 1;
            let error = read(directory.path(), &bytes).unwrap_err();
            assert!(matches!(error, Error::Damaged { offset, .. } if offset == HEADER as u64));
            bytes[HEADER + damaged] ^= 1;
        }
        assert_eq!(read(directory.path(), &bytes).unwrap(), ["a", "b"]);
    }

    #[test]
    fn what_is_no_journal_is_refused() {
        let (directory, mut bytes) = written(&[&["a"]]);
        bytes[MAGIC.len()] = 9;
        let error = read(directory.path(), &bytes).unwrap_err();
        assert!(matches!(error, Error::Format { .. }));
    }
}
