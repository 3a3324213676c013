//! Writes git objects so that a loss of power cannot take them back.
//!
//! New objects are collected first, and then written together: a few as loose objects, more as one
//! pack. Either way the bytes are on the disk under a temporary name before they get their own, and
//! the folder is synced after that, so that a ref never names what is not there. Temporary names are
//! those that `git prune` sweeps.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::pack::{Deflated, pack};
use super::{BlobId, Error, ObjectId, Repository, git};

/// Up to so many objects are written loose: a tag, a lock.
const MOST_LOOSE: usize = 4;

/// Objects that are to be written together, by id.
#[derive(Default)]
pub(super) struct NewObjects<'a> {
    objects: BTreeMap<ObjectId, Object<'a>>,
}

/// An object that is to be written.
pub(super) enum Object<'a> {
    /// What kind it is, and its bytes.
    Plain(git2::ObjectType, Cow<'a, [u8]>),
    /// A file that is deflated already.
    Deflated(&'a Deflated),
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
    /// Writes all objects that are not there yet, and syncs them to the disk.
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
            missing.iter().try_for_each(|(id, object)| match object {
                Object::Plain(kind, bytes) => write_loose(&folder, *id, *kind, bytes),
                Object::Deflated(file) => {
                    write_loose(&folder, *id, git2::ObjectType::Blob, &file.inflate()?)
                }
            })
        } else {
            let objects: Vec<_> = missing.into_values().collect();
            write_pack(&folder, &pack(&objects)?)
        }
    }
}

/// Writes a pack, which is given in parts, and its index, both synced before they get their names.
fn write_pack(folder: &Path, parts: &[Vec<u8>]) -> Result<(), Error> {
    let failed = || git("write a pack");
    let temporary = TemporaryFolder::new(folder)?;
    let mut indexer = git2::Indexer::new(None, &temporary.path, 0o444, false).map_err(failed())?;
    for part in parts {
        indexer.write_all(part).map_err(writing(&temporary.path))?;
    }
    let name = indexer.commit().map_err(failed())?;
    let packs = folder.join("pack");
    fs::create_dir_all(&packs).map_err(writing(&packs))?;
    // The index last: git knows a pack by its index.
    let files = [format!("pack-{name}.pack"), format!("pack-{name}.idx")];
    for file in &files {
        let path = temporary.path.join(file);
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(writing(&path))?;
    }
    for file in &files {
        let path = packs.join(file);
        fs::rename(temporary.path.join(file), &path).map_err(writing(&path))?;
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
    fs::create_dir_all(&folder).map_err(writing(&folder))?;
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

/// Syncs the names in a folder to the disk, where the system can.
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
