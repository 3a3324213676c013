//! git's lock file of a ref, made so that it does not outlive its process.
//!
//! To git a ref is locked while `<ref>.lock` exists, by any author and with any content. Killed at the
//! wrong instant, git leaves that file, and a person has to remove it. A lock file that is made here has
//! a mark in its first line, and is locked for the system too (`flock`) from before it appears under its name
//! until it is removed; the system releases it when the process ends, however it ends. So a file with our line
//! and without a lock was left by a crashed process, and a waiting process removes it. Any other is
//! respected: git's own; one of another machine, whose locks this system may not see; all of them where
//! the file system has no hard links or no locks.
//!
//! The new value of the ref is not written into the lock file, as git does, but beside it, under a name
//! that is the lock file of no legal ref.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::machine;

/// How the first line of a lock file begins that was made here.
const OURS: &str = "trueup lock, boot ";
/// More than the line ever has.
const LONGEST_LINE: u64 = 512;

/// A lock file that is going to be made; its draft is removed when it is dropped.
pub(super) struct LockDraft {
    path: PathBuf,
    file: Option<File>,
}

impl LockDraft {
    /// Prepares a lock file in a folder of the same file system.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(folder)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let path = folder.join(format!(
            "{}-{}-{}.lock",
            std::process::id(),
            now.unwrap_or_default().as_nanos(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        // Only a lock that the system would release is marked as ours.
        if file.try_lock().is_ok() {
            file.write_all(line().as_bytes())?;
        }
        Ok(Self {
            path,
            file: Some(file),
        })
    }

    /// Tries to lock `target`; `Ok(None)` if another process has it locked.
    pub(super) fn take(&mut self, target: &Path) -> io::Result<Option<LockFile>> {
        let path = with_ending(target, ".lock");
        let file = match fs::hard_link(&self.path, &path) {
            Ok(()) => self.file.take(),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
            // No hard links here: an unmarked one, as git makes it.
            Err(_) => match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        Ok(Some(LockFile {
            path,
            value: with_ending(target, "..lock"),
            _file: file,
        }))
    }
}

impl Drop for LockDraft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A lock file that is held; removed when it is dropped.
pub(super) struct LockFile {
    path: PathBuf,
    value: PathBuf,
    /// Keeps the system's lock.
    _file: Option<File>,
}

impl LockFile {
    /// Writes, durably, what is going to replace the locked file, and says where.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<&Path> {
        let mut file = File::create(&self.value)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(&self.value)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.value);
        let _ = fs::remove_file(&self.path);
    }
}

/// The lock file of a file.
pub(super) fn path_of(target: &Path) -> PathBuf {
    with_ending(target, ".lock")
}

/// Takes the lock file of `target` away if the process that made it is gone.
///
/// Of several that find it so, one has the system's lock and removes it; the others then find another
/// file under the name, or none.
#[cfg(unix)]
pub(super) fn take_away_if_left(target: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let path = with_ending(target, ".lock");
    let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&path) else {
        return false;
    };
    let mut text = String::new();
    let read = Read::by_ref(&mut file)
        .take(LONGEST_LINE)
        .read_to_string(&mut text);
    if read.is_err() || !is_of_this_machine(&text) || file.try_lock().is_err() {
        return false;
    }
    let is_same = match (file.metadata(), fs::symlink_metadata(&path)) {
        (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
        _ => false,
    };
    if is_same {
        let _ = fs::remove_file(with_ending(target, "..lock"));
    }
    is_same && fs::remove_file(&path).is_ok()
}

/// If two names cannot be told to be one file, nothing is taken away.
#[cfg(not(unix))]
pub(super) fn take_away_if_left(_target: &Path) -> bool {
    false
}

/// The line by which this machine knows its own lock files.
fn line() -> String {
    format!(
        "{OURS}{} on {}\n",
        machine::boot_id().unwrap_or_default(),
        machine::host().unwrap_or_default()
    )
}

/// Whether a lock file was made here, under this boot or on this host: then its lock is visible.
fn is_of_this_machine(text: &str) -> bool {
    let made = text
        .strip_prefix(OURS)
        .and_then(|rest| rest.strip_suffix('\n')?.split_once(" on "));
    let Some((boot, host)) = made else {
        return false;
    };
    (!boot.is_empty() && machine::boot_id().as_deref() == Some(boot))
        || (!host.is_empty() && host != "localhost" && machine::host().as_deref() == Some(host))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut longer = path.as_os_str().to_owned();
    longer.push(ending);
    PathBuf::from(longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_is_removed_only_when_it_is_ours_and_not_held() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("state");
        let path = path_of(&target);
        let mut first = LockDraft::new(folder.path()).unwrap();
        let held = first.take(&target).unwrap().unwrap();
        held.write(b"half").unwrap();
        let mut second = LockDraft::new(folder.path()).unwrap();
        assert!(second.take(&target).unwrap().is_none());
        assert!(!take_away_if_left(&target), "it is held");

        // As a kill leaves it.
        let text = fs::read_to_string(&path).unwrap();
        drop(held);
        drop(first);
        assert!(!path.exists());
        fs::write(&path, &text).unwrap();
        fs::write(with_ending(&target, "..lock"), "half").unwrap();
        assert!(take_away_if_left(&target));
        assert!(!take_away_if_left(&target), "it is gone");
        assert!(second.take(&target).unwrap().is_some());
        drop(second);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        for foreign in [
            String::new(),
            "5f2b6c1a5f2b6c1a5f2b6c1a5f2b6c1a5f2b6c1a\n".to_owned(),
            text.trim_end().to_owned(),
            format!("{OURS}another on elsewhere\n"),
            format!("{OURS} on \n"),
            format!("{OURS}another on localhost\n"),
        ] {
            fs::write(&path, &foreign).unwrap();
            assert!(!take_away_if_left(&target), "{foreign:?}");
        }
    }
}
