//! Writes git objects so that a loss of power cannot take them back.
//!
//! New objects are collected first, and then written together: a few as loose objects, more as one
//! pack. Either way the bytes are on the disk under a temporary name before they get their own, and
//! the folder is synced after that, so that a ref never names a missing object. Temporary names are
//! those that `git prune` sweeps.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::pack::{Deflated, Object, pack};
use super::{BlobId, Error, ObjectId, Repository, git};

/// Up to so many objects are written loose: a tag, a lock.
const MOST_LOOSE: usize = 4;

/// How often a write is begun anew whose folder or temporary files another process removed meanwhile:
/// `git gc` removes each empty folder, also one that was just made, and `git prune` all temporary files.
const SWEPT: u32 = 100;

/// How long it takes to sweep one folder.
const SWEEP: Duration = Duration::from_millis(20);

/// Objects that are to be written together, by id.
#[derive(Default)]
pub(super) struct NewObjects<'a> {
    objects: BTreeMap<ObjectId, Object<'a>>,
}

impl<'a> NewObjects<'a> {
    pub(super) fn add(
        &mut self,
        kind: git2::ObjectType,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<ObjectId, Error> {
        let bytes = bytes.into();
        let id = git2::Oid::hash_object(kind, &bytes)
            .map_err(git("compute the id of an object"))?
            .into();
        self.objects.entry(id).or_insert(Object::Plain(kind, bytes));
        Ok(id)
    }

    pub(super) fn blob(&mut self, bytes: impl Into<Cow<'a, [u8]>>) -> Result<BlobId, Error> {
        self.add(git2::ObjectType::Blob, bytes).map(BlobId)
    }

    pub(super) fn deflated(&mut self, file: &'a Deflated) -> BlobId {
        self.objects
            .entry(file.id.0)
            .or_insert(Object::Deflated(file));
        file.id
    }
}

impl Repository {
    /// Writes all missing objects, and syncs them to the disk.
    pub(super) fn write_objects(&self, new: NewObjects<'_>) -> Result<(), Error> {
        let missing = self.with(|handle| {
            let odb = handle.odb().map_err(git("open the object database"))?;
            odb.refresh().map_err(git("open the object database"))?;
            let mut missing = new.objects;
            missing.retain(|id, _| !odb.exists_ext(id.git(), git2::OdbLookupFlags::NO_REFRESH));
            Ok(missing)
        })?;
        let folder = self.common_dir.join("objects");
        if missing.len() <= MOST_LOOSE {
            missing.iter().try_for_each(|(id, object)| {
                let (kind, bytes) = match object {
                    Object::Plain(kind, bytes) => (*kind, Cow::Borrowed(&**bytes)),
                    Object::Deflated(file) => (git2::ObjectType::Blob, file.inflate()?.into()),
                };
                unless_swept(|| write_loose(&folder, *id, kind, &bytes))
            })
        } else {
            let objects: Vec<_> = missing.into_values().collect();
            let parts = pack(&objects)?;
            unless_swept(|| write_pack(&folder, &parts))
        }
    }
}

/// Writes something, again if what it was being written to is gone.
fn unless_swept(mut write: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let is_gone = |error: &Error| match error {
        Error::Write { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    };
    for _ in 1..SWEPT {
        match write() {
            Err(error) if is_gone(&error) => {}
            result => return result,
        }
    }
    write()
}

/// Writes a pack, which is given in parts, and its index, both synced before they get their names.
fn write_pack(folder: &Path, parts: &[Vec<u8>]) -> Result<(), Error> {
    let temporary = TemporaryFolder::new(folder)?;
    write_pack_through(&temporary.path, folder, parts).map_err(|error| {
        // Its files go before the folder does.
        std::thread::sleep(SWEEP);
        if temporary.path.is_dir() {
            error
        } else {
            writing(&temporary.path)(std::io::ErrorKind::NotFound.into())
        }
    })
}

fn write_pack_through(temporary: &Path, folder: &Path, parts: &[Vec<u8>]) -> Result<(), Error> {
    let failed = || git("write a pack");
    let mut indexer = git2::Indexer::new(None, temporary, 0o444, false).map_err(failed())?;
    for part in parts {
        indexer.write_all(part).map_err(writing(temporary))?;
    }
    let name = indexer.commit().map_err(failed())?;
    let packs = folder.join("pack");
    fs::create_dir_all(&packs).map_err(writing(&packs))?;
    // The index last: git knows a pack by its index.
    let files = [format!("pack-{name}.pack"), format!("pack-{name}.idx")];
    for file in &files {
        let path = temporary.join(file);
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(writing(&path))?;
    }
    for file in &files {
        let path = packs.join(file);
        fs::rename(temporary.join(file), &path).map_err(writing(&path))?;
    }
    sync_folder(&packs)
}

/// Writes one object in git's loose form: zlib of `kind size NUL bytes`.
fn write_loose(
    folder: &Path,
    id: ObjectId,
    kind: git2::ObjectType,
    bytes: &[u8],
) -> Result<(), Error> {
    let digits = id.to_string();
    let folder = folder.join(&digits[..2]);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(writing(&folder)(error));
        }
        _ => {}
    }
    let (temporary, file) = loop {
        let path = folder.join(format!("tmp_obj_trueup-{}", unique()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => break (path, file),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(writing(&path)(error)),
        }
    };
    let path = folder.join(&digits[2..]);
    let written = (|| {
        let mut file = flate2::write::ZlibEncoder::new(file, flate2::Compression::default());
        write!(file, "{} {}\0", kind.str(), bytes.len())?;
        file.write_all(bytes)?;
        let file = file.finish()?;
        let mut permissions = file.metadata()?.permissions();
        permissions.set_readonly(true);
        file.set_permissions(permissions)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)
    })();
    if let Err(error) = written {
        // What is left behind is swept by `git prune`.
        let _ = fs::remove_file(&temporary);
        return Err(writing(&path)(error));
    }
    sync_folder(&folder)?;
    folder.parent().map_or(Ok(()), sync_folder)
}

/// A folder that is removed with all that is in it.
struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    fn new(parent: &Path) -> Result<Self, Error> {
        loop {
            let path = parent.join(format!("tmp_objdir-trueup-{}", unique()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(writing(&path)(error)),
            }
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What is left behind is swept by `git prune`.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A part of a file name that no other writer of this process has; names of other processes are
/// stepped over.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// Syncs the names in a folder to the disk, if the system can.
pub(super) fn sync_folder(folder: &Path) -> Result<(), Error> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(writing(folder))?;
    }
    Ok(())
}

/// Turns a failure of the file system into an [`Error::Write`].
pub(super) fn writing(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Write { path, source }
}

#[cfg(test)]
mod tests {

    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Writes again and again while another process removes temporary files.
    fn while_sweeping(sweep: impl Fn() + Sync, times: usize, mut write: impl FnMut(usize)) {
        let is_over = AtomicBool::new(false);
        /// Ends the sweeping, also if a write fails.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        std::thread::scope(|scope| {
            let over = Over(&is_over);
            scope.spawn(|| {
                let mut pause = 0;
                while !is_over.load(Ordering::Relaxed) {
                    sweep();
                    pause = (pause + 7) % 50;
                    std::thread::sleep(Duration::from_micros(pause));
                }
            });
            for number in 0..times {
                write(number);
            }
            drop(over);
        });
    }

    #[test]
    fn objects_are_written_while_empty_folders_are_removed() {
        let folder = tempfile::TempDir::new().unwrap();
        let swept = folder.path().join("ab");
        while_sweeping(
            || drop(fs::remove_dir(&swept)),
            500,
            |number| {
                let id: ObjectId = format!("ab{number:038x}").parse().unwrap();
                let blob = git2::ObjectType::Blob;
                unless_swept(|| write_loose(folder.path(), id, blob, b"a")).unwrap();
                fs::remove_file(swept.join(&id.to_string()[2..])).unwrap();
            },
        );
    }

    #[test]
    fn packs_are_written_while_temporary_folders_are_pruned() {
        let folder = tempfile::TempDir::new().unwrap();
        // One in eight is left alone: on a busy machine any write takes longer than the next sweep does to come.
        let is_swept = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = name.rsplit('-').next().and_then(|it| it.parse().ok());
            name.starts_with("tmp_objdir") && number.is_none_or(|it: u64| !it.is_multiple_of(8))
        };
        let sweep = || {
            std::thread::sleep(Duration::from_millis(5));
            let entries = fs::read_dir(folder.path()).unwrap().flatten();
            for entry in entries.filter(is_swept) {
                let _ = fs::remove_dir_all(entry.path());
            }
        };
        while_sweeping(sweep, 100, |number| {
            let object = Object::Plain(
                git2::ObjectType::Blob,
                number.to_string().into_bytes().into(),
            );
            let parts = pack(&[object]).unwrap();
            unless_swept(|| write_pack(folder.path(), &parts)).unwrap();
            let packs = fs::read_dir(folder.path().join("pack")).unwrap();
            assert_eq!(packs.count(), 2 * (number + 1));
        });
    }
}
