//! Refs, moved by compare-and-swap: of any number of writers exactly one wins, the others are told.
//!
//! A ref is written by git's own protocol: its `.lock` file is created exclusively, the present value
//! is compared while that is held, the new one is written and synced, and renamed to the ref. libgit2
//! does the same but cannot be told to sync without changing the user's configuration, and leaves its
//! lock file behind when it is killed; that is why the writes are here, down to the packed refs (refs
//! are always files: a repository with reftable is refused when it is opened). No reflog is kept: the
//! refs that trueup moves are lines of commits, which are their own log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::lock_file::{LockDraft, LockFile, path_of, take_away_if_left};
use super::objects::{sync_folder, writing};
use super::{Error, ObjectId, Repository, git};

/// How often a lock file is tried, and the pause between: about two seconds in all.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);

/// How many refs are deleted together: so many lock files exist at the same time.
const DELETED_AT_ONCE: usize = 100;

/// The refs that git has packed into one file.
const PACKED: &str = "packed-refs";
/// Where lock files are made before they get their names.
const DRAFTS: &str = "trueup/.locks";

impl Repository {
    /// The value of a ref; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// The ref cannot be read, or refers to another ref that does not exist.
    pub fn read_ref(&self, name: &str) -> Result<Option<ObjectId>, Error> {
        check_name(name)?;
        self.with(|handle| {
            let failed = || git(format!("read `{name}`"));
            match handle.find_reference(name) {
                Ok(reference) => {
                    let direct = reference.resolve().map_err(failed())?;
                    Ok(direct.target().map(ObjectId::from))
                }
                Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
                Err(error) => Err(failed()(error)),
            }
        })
    }

    /// All refs whose names begin with `prefix` (a whole component: `refs/trueup`), by name.
    ///
    /// # Errors
    ///
    /// The refs cannot be read.
    pub fn refs(&self, prefix: &str) -> Result<BTreeMap<String, ObjectId>, Error> {
        let pattern = format!("{}/*", prefix.trim_end_matches('/'));
        check_name(&pattern.replace('*', "any"))?;
        self.with(|handle| {
            let failed = || git(format!("list `{pattern}`"));
            let mut refs = BTreeMap::new();
            for reference in handle.references_glob(&pattern).map_err(failed())? {
                let reference = match reference {
                    Ok(reference) => reference,
                    // Deleted between the listing and the reading.
                    Err(error) if error.code() == git2::ErrorCode::NotFound => continue,
                    Err(error) => return Err(failed()(error)),
                };
                if let (Ok(name), Some(target)) = (reference.name(), reference.target()) {
                    refs.insert(name.to_owned(), target.into());
                }
            }
            Ok(refs)
        })
    }

    /// Moves a ref from its observed value to a new one; `None` creates it. Durable on return.
    ///
    /// # Errors
    ///
    /// [`Error::RefMoved`] if it has another value by now: then nothing was changed.
    /// [`Error::RefLocked`] if another process keeps it locked.
    pub fn update_ref(
        &self,
        name: &str,
        expected: Option<ObjectId>,
        new: ObjectId,
    ) -> Result<(), Error> {
        check_name(name)?;
        let path = self.common_dir.join(name);
        let lock = self.lock_ref(name, &path)?;
        let found = self.direct_ref(name)?;
        if found != expected {
            return Err(Error::RefMoved {
                name: name.to_owned(),
                expected,
                found,
            });
        }
        if expected.is_none() {
            self.refuse_conflicts(name)?;
        }
        replace(&lock, name, &path, format!("{new}\n").as_bytes())
    }

    /// Deletes a ref that has the observed value.
    ///
    /// # Errors
    ///
    /// [`Error::RefMoved`] if it has another value by now, or is gone: nothing was changed.
    pub fn delete_ref(&self, name: &str, expected: ObjectId) -> Result<(), Error> {
        self.delete_refs(&[(name, expected)])
    }

    /// Deletes refs that have the observed values, some hundred at a time: the file of the packed refs is written anew for
    /// each such part, and not for each ref.
    ///
    /// # Errors
    ///
    /// [`Error::RefMoved`] if one has another value by now, or is gone: nothing of its part was changed.
    pub fn delete_refs(&self, refs: &[(&str, ObjectId)]) -> Result<(), Error> {
        refs.chunks(DELETED_AT_ONCE)
            .try_for_each(|part| self.delete_together(part))
    }

    fn delete_together(&self, refs: &[(&str, ObjectId)]) -> Result<(), Error> {
        let moved = |name: &str, expected, found| Error::RefMoved {
            name: name.to_owned(),
            expected: Some(expected),
            found,
        };
        let mut locks = Vec::with_capacity(refs.len());
        let mut paths = Vec::with_capacity(refs.len());
        for (name, expected) in refs {
            check_name(name)?;
            let path = self.common_dir.join(name);
            if self.direct_ref(name)?.is_none() {
                return Err(moved(name, *expected, None));
            }
            locks.push(self.lock_ref(name, &path)?);
            let found = self.direct_ref(name)?;
            if found != Some(*expected) {
                return Err(moved(name, *expected, found));
            }
            paths.push(path);
        }
        // While they are locked, the refs that are about to go cannot be packed.
        let packed = self.common_dir.join(PACKED);
        let lock = self.lock_ref(PACKED, &packed)?;
        let names = refs.iter().map(|(name, _)| name.as_bytes()).collect();
        if let Some(rest) = packed_without(&packed, &names)? {
            replace(&lock, PACKED, &packed, &rest)?;
        }
        for path in &paths {
            match fs::remove_file(path) {
                Ok(()) => {}
                // It was packed; at its path may be nothing, or an empty folder.
                Err(error) if error.kind() == ErrorKind::NotFound || path.is_dir() => {}
                Err(error) => return Err(writing(path)(error)),
            }
        }
        let folders: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        folders.into_iter().try_for_each(sync_folder)
    }

    /// Gives a ref a value whatever it was: for refs that are copies of another repository's. Durable on
    /// return.
    pub(super) fn set_ref(&self, name: &str, new: ObjectId) -> Result<(), Error> {
        // Another process of this clone may set it at the same time: then the later one wins.
        let mut tries = 0;
        loop {
            let found = self.read_ref(name)?;
            if found == Some(new) {
                return Ok(());
            }
            match self.update_ref(name, found, new) {
                Err(Error::RefMoved { .. }) if tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    /// Takes git's lock file of a ref, waiting a little for another writer. One that a process of ours
    /// left, being killed, is taken away.
    fn lock_ref(&self, name: &str, path: &Path) -> Result<LockFile, Error> {
        let folder = path.parent().unwrap_or(&self.common_dir);
        let drafts = self.common_dir.join(DRAFTS);
        let mut draft = LockDraft::new(&drafts).map_err(writing(&drafts))?;
        for _ in 0..TRIES {
            match fs::create_dir_all(folder) {
                Ok(()) => {}
                // The empty folder was removed by the process that deleted the last ref in it.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NotADirectory | ErrorKind::AlreadyExists
                    ) =>
                {
                    return Err(in_the_way(name, &name[..name.rfind('/').unwrap_or(0)]));
                }
                Err(error) => return Err(writing(folder)(error)),
            }
            match draft.take(path) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) => {
                    if !take_away_if_left(path) {
                        std::thread::sleep(PAUSE);
                    }
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(writing(&path_of(path))(error)),
            }
        }
        Err(Error::RefLocked {
            name: name.to_owned(),
            path: path_of(path),
        })
    }

    /// The value of a ref that is no symbolic one.
    fn direct_ref(&self, name: &str) -> Result<Option<ObjectId>, Error> {
        self.with(|handle| match handle.find_reference(name) {
            Ok(reference) => match reference.target() {
                Some(target) => Ok(Some(target.into())),
                None => Err(Error::BadRef {
                    name: name.to_owned(),
                    reason: "it is a symbolic ref".to_owned(),
                }),
            },
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(git(format!("read `{name}`"))(error)),
        })
    }

    /// A ref cannot be a folder of another one, nor be in one that is a ref.
    fn refuse_conflicts(&self, name: &str) -> Result<(), Error> {
        for (slash, _) in name.match_indices('/').skip(1) {
            if self.direct_ref(&name[..slash])?.is_some() {
                return Err(in_the_way(name, &name[..slash]));
            }
        }
        match self.refs(name)?.into_keys().next() {
            Some(inside) => Err(in_the_way(name, &inside)),
            None => Ok(()),
        }
    }
}

/// Whether git takes a text for the full name of a ref.
#[must_use]
pub fn is_ref_name(name: &str) -> bool {
    name.starts_with("refs/") && git2::Reference::is_valid_name(name)
}

/// Whether a part of the name of a ref can be shown in a command as it is.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let plain = |each: char| each.is_ascii_alphanumeric() || "._/-".contains(each);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
}

fn check_name(name: &str) -> Result<(), Error> {
    if is_ref_name(name) {
        return Ok(());
    }
    Err(Error::BadRef {
        name: name.to_owned(),
        reason: "git does not take it for the name of a ref".to_owned(),
    })
}

fn in_the_way(name: &str, other: &str) -> Error {
    Error::BadRef {
        name: name.to_owned(),
        reason: format!("`{other}` is in the way"),
    }
}

/// Puts new bytes in the place of a locked file, durably.
fn replace(lock: &LockFile, name: &str, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = lock.write(bytes).map_err(writing(path))?;
    let renamed = fs::rename(new, path).or_else(|error| {
        // Folders of refs that are gone may be left over; they are removed if they are empty.
        if path.is_dir() && remove_empty(path).is_ok() {
            return fs::rename(new, path);
        }
        Err(error)
    });
    match renamed {
        Ok(()) => {}
        Err(_) if path.is_dir() => return Err(in_the_way(name, &format!("{name}/…"))),
        Err(error) => return Err(writing(path)(error)),
    }
    path.parent().map_or(Ok(()), sync_folder)
}

/// The packed refs without some of them; `None` if none is among them. A line is `ID NAME`; what
/// a tag points to follows it as `^ID`.
fn packed_without(path: &Path, names: &BTreeSet<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
    let packed = match fs::read(path) {
        Ok(packed) => packed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(Error::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    let mut rest = Vec::with_capacity(packed.len());
    let mut is_left_out = false;
    for line in packed.split_inclusive(|byte| *byte == b'\n') {
        if !line.starts_with(b"^") {
            let named = line.trim_ascii_end().splitn(2, |byte| *byte == b' ').nth(1);
            is_left_out =
                !line.starts_with(b"#") && named.is_some_and(|named| names.contains(named));
        }
        if !is_left_out {
            rest.extend_from_slice(line);
        }
    }
    Ok((rest.len() != packed.len()).then_some(rest))
}

fn remove_empty(folder: &Path) -> std::io::Result<()> {
    for child in fs::read_dir(folder)? {
        remove_empty(&child?.path())?;
    }
    fs::remove_dir(folder)
}
