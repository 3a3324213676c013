//! Refs, moved by compare-and-swap: of any number of writers exactly one wins, the others are told.
//!
//! A ref is written by git's own protocol: its `.lock` file is created exclusively, the present value
//! is compared while that is held, the new one is written and synced, and the lock file is renamed to
//! the ref. libgit2 does the same but cannot be told to sync without changing the user's
//! configuration; that is why the write is here. No reflog is kept: the refs that trueup moves are
//! lines of commits, which are their own log.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::objects::{sync_folder, writing};
use super::{Error, ObjectId, Repository, git};

/// How often a lock file is tried, and the pause between: about two seconds in all.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);

impl Repository {
    /// The value of a ref; `None` where it does not exist.
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

    /// Moves a ref from the value that was seen to a new one; `None` creates it. Durable on return.
    ///
    /// # Errors
    ///
    /// [`Error::RefMoved`] where it has another value by now: then nothing was changed.
    /// [`Error::RefLocked`] where another process keeps it locked.
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
        lock.commit(name, &path, new)
    }

    /// Deletes a ref that has the value that was seen.
    ///
    /// # Errors
    ///
    /// [`Error::RefMoved`] where it has another value by now, or is gone: nothing was changed.
    pub fn delete_ref(&self, name: &str, expected: ObjectId) -> Result<(), Error> {
        check_name(name)?;
        let moved = |found| Error::RefMoved {
            name: name.to_owned(),
            expected: Some(expected),
            found,
        };
        self.with(|handle| {
            for _ in 0..TRIES {
                let mut reference = match handle.find_reference(name) {
                    Ok(reference) => reference,
                    Err(error) if error.code() == git2::ErrorCode::NotFound => {
                        return Err(moved(None));
                    }
                    Err(error) => return Err(git(format!("read `{name}`"))(error)),
                };
                let found = reference.target().map(ObjectId::from);
                if found != Some(expected) {
                    return Err(moved(found));
                }
                // Compares once more, under the lock.
                match reference.delete() {
                    Ok(()) => return Ok(()),
                    Err(error)
                        if matches!(
                            error.code(),
                            git2::ErrorCode::Locked
                                | git2::ErrorCode::Modified
                                | git2::ErrorCode::NotFound
                        ) =>
                    {
                        std::thread::sleep(PAUSE);
                    }
                    Err(error) => return Err(git(format!("delete `{name}`"))(error)),
                }
            }
            Err(Error::RefLocked {
                name: name.to_owned(),
                path: lock_path(&self.common_dir.join(name)),
            })
        })
    }

    /// Takes git's lock file of a ref, waiting a little for another writer.
    fn lock_ref(&self, name: &str, path: &Path) -> Result<RefLock, Error> {
        let lock = lock_path(path);
        let folder = path.parent().unwrap_or(&self.common_dir);
        for _ in 0..TRIES {
            match fs::create_dir_all(folder) {
                Ok(()) => {}
                // The empty folder was swept by whoever deleted the last ref in it.
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
            match OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(file) => {
                    return Ok(RefLock {
                        path: lock,
                        file: Some(file),
                    });
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(writing(&lock)(error)),
            }
        }
        Err(Error::RefLocked {
            name: name.to_owned(),
            path: lock,
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

fn check_name(name: &str) -> Result<(), Error> {
    if name.starts_with("refs/") && git2::Reference::is_valid_name(name) {
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

fn lock_path(path: &Path) -> PathBuf {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    PathBuf::from(lock)
}

/// A held lock file; released when it is dropped.
struct RefLock {
    path: PathBuf,
    file: Option<fs::File>,
}

impl RefLock {
    /// Writes the new value and makes it the ref's.
    fn commit(mut self, name: &str, path: &Path, new: ObjectId) -> Result<(), Error> {
        if let Some(mut file) = self.file.take() {
            writeln!(file, "{new}")
                .and_then(|()| file.sync_all())
                .map_err(writing(&self.path))?;
        }
        let renamed = fs::rename(&self.path, path).or_else(|error| {
            // Folders of refs that are gone may be left over; they are removed if they are empty.
            if path.is_dir() && remove_empty(path).is_ok() {
                return fs::rename(&self.path, path);
            }
            Err(error)
        });
        match renamed {
            Ok(()) => {}
            Err(_) if path.is_dir() => return Err(in_the_way(name, &format!("{name}/…"))),
            Err(error) => return Err(writing(path)(error)),
        }
        self.path = PathBuf::new();
        path.parent().map_or(Ok(()), sync_folder)
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            drop(self.file.take());
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn remove_empty(folder: &Path) -> std::io::Result<()> {
    for child in fs::read_dir(folder)? {
        remove_empty(&child?.path())?;
    }
    fs::remove_dir(folder)
}
