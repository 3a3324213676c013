//! Reads one file, and never more of it than is allowed; writes one, and never through a link of the checkout.
//!
//! A file is checked when it is open, so that it cannot be another file by then: a pipe, a
//! device or a folder is refused before anything is read, and without waiting for a writer.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::Repository;
use super::entry::is_document_name;

/// Whether a path may be a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It may: a user who may read the file named it.
    Followed,
    /// It may not: links were resolved before.
    Refused,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It has more bytes than are read.
    #[error("it is too large: {0} bytes")]
    TooLarge(u64),
    /// It is a pipe, a socket, a device or a folder.
    #[error("it is not a regular file")]
    NotAFile,
    /// The system does not let it be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The bytes of a regular file that has at most `limit` of them.
///
/// # Errors
///
/// Each of [`ReadError`].
pub fn read_file(path: &Path, limit: u64, links: Links) -> Result<Vec<u8>, ReadError> {
    let (file, size) = open_file(path, limit, links)?;
    // It may grow meanwhile.
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        size if size > limit => Err(ReadError::TooLarge(size)),
        _ => Ok(bytes),
    }
}

/// Opens a regular file that has at most `limit` bytes, without waiting: a stream of its bytes, and how many there are.
///
/// # Errors
///
/// Each of [`ReadError`].
pub fn open_file(path: &Path, limit: u64, links: Links) -> Result<(File, u64), ReadError> {
    let file = open(path, links)?;
    let metadata = file.metadata()?;
    match metadata.len() {
        _ if !metadata.is_file() => Err(ReadError::NotAFile),
        size if size > limit => Err(ReadError::TooLarge(size)),
        size => Ok((file, size)),
    }
}

fn open(path: &Path, links: Links) -> Result<File, ReadError> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        // Opening a pipe would wait for its writer.
        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        if links == Links::Refused {
            flags |= OFlags::NOFOLLOW;
        }
        options.custom_flags(flags.bits().cast_signed());
    }
    match options.open(path) {
        Ok(file) => Ok(file),
        Err(error) => match path.symlink_metadata() {
            // A socket cannot be opened, and a link must not be.
            Ok(found) if is_special(&found, links) => Err(ReadError::NotAFile),
            _ => Err(error.into()),
        },
    }
}

impl Repository {
    /// Writes a file as a whole ([`replace_file`]), and not through a link of the checkout ([`Self::unlinked`]).
    ///
    /// # Errors
    ///
    /// A part of the path below the root of the checkout is a link; the file cannot be written.
    pub fn replace_file(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        replace_file(&self.unlinked(path)?, write)
    }

    /// Writes a file that an operator names as a whole, if it replaces nothing that is the repository's
    /// ([`Self::refuse_output`]).
    ///
    /// # Errors
    ///
    /// As [`Self::refuse_output`] and [`Self::replace_file`].
    pub fn write_output(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.refuse_output(path)?;
        self.replace_file(path, write)
    }

    /// Refuses a file that an output would replace and that is not an output: one of git's own, one that git tracks, and a
    /// document, which may have edits that are in no commit.
    ///
    /// # Errors
    ///
    /// It is such a file, or the index cannot be read.
    pub fn refuse_output(&self, path: &Path) -> io::Result<()> {
        let refused = |why: &str| Err(io::Error::other(why.to_owned()));
        self.unlinked(path)?;
        let reached = match (path.canonicalize(), path.parent(), path.file_name()) {
            (Ok(reached), _, _) => reached,
            (Err(_), Some(parent), Some(name)) => match parent.canonicalize() {
                Ok(parent) => parent.join(name),
                // Writing tells that there is no such folder.
                Err(_) => return Ok(()),
            },
            (Err(_), _, _) => return Ok(()),
        };
        let is_git = |part: &std::ffi::OsStr| part.eq_ignore_ascii_case(".git");
        let git = self.common_dir.canonicalize()?;
        if reached.starts_with(&git) || reached.iter().any(is_git) {
            return refused("it is in git's own folder; name a file outside of it");
        }
        let root = self.root.canonicalize()?;
        let Some(below) = reached.strip_prefix(&root).ok().and_then(Path::to_str) else {
            return Ok(());
        };
        if self.is_tracked(below).map_err(io::Error::other)? {
            return refused("git tracks this file, which stays as it is; name another one");
        }
        if is_document_name(below) && reached.is_file() && !is_output(&reached) {
            return refused("it is a document, which stays as it is; name another file");
        }
        if is_document_name(below) && !reached.exists() {
            return refused(
                "it would be read as a document; name it otherwise, such as `site.plan`",
            );
        }
        Ok(())
    }

    /// A path to be written to. Links of the checkout are refused: every change of the design can make them lead to any file.
    ///
    /// # Errors
    ///
    /// A part of the path below the root of the checkout is a link.
    pub fn unlinked(&self, path: &Path) -> io::Result<PathBuf> {
        let root = self.root.canonicalize()?;
        let below = [&root, &self.root]
            .into_iter()
            .find_map(|root| path.strip_prefix(root).ok());
        let Some(below) = below else {
            return Ok(path.to_owned());
        };
        let mut reached = root;
        for part in below.components() {
            reached.push(part);
            if reached.is_symlink() {
                let text = format!("`{}` is a link in the checkout", reached.display());
                return Err(io::Error::other(text));
            }
        }
        Ok(reached)
    }
}

/// Whether a file begins as plans and bundles do, which are JSON.
fn is_output(path: &Path) -> bool {
    let mut first = [0; 1];
    let read = open(path, Links::Refused).and_then(|mut file| Ok(file.read(&mut first)?));
    matches!(read, Ok(0)) || matches!((read, first), (Ok(1), [b'{']))
}

/// Writes a file as a whole: one that is there stays as it was until all is written, also if the disk is full.
///
/// # Errors
///
/// It cannot be written; the error tells that the one that is there stays.
pub fn replace_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let found = std::fs::metadata(path);
    let is_kept = found.as_ref().is_ok_and(std::fs::Metadata::is_file);
    replace_found(path, found, write).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::StorageFull => "the disk is full".to_owned(),
            _ => error.to_string(),
        };
        match is_kept {
            true => io::Error::new(
                error.kind(),
                format!("{why}; the file that is there stays as it was"),
            ),
            false => io::Error::new(error.kind(), why),
        }
    })
}

fn replace_found(
    path: &Path,
    found: io::Result<std::fs::Metadata>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    // A terminal, a pipe: nothing of them could be kept.
    if found.as_ref().is_ok_and(|found| !found.is_file()) {
        let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        write(&mut out)?;
        return out.flush();
    }
    // What a link outside of a checkout leads to is written, and the link stays.
    let path = match found {
        Ok(_) => path.canonicalize()?,
        Err(_) => path.to_owned(),
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut draft = tempfile::Builder::new();
    draft.prefix(".trueup-");
    #[cfg(unix)]
    draft.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    // The name of the draft means nothing to those who named a file.
    let made = draft.tempfile_in(folder.unwrap_or(Path::new(".")));
    let made = made.map_err(|error| match error.kind() {
        kind @ io::ErrorKind::NotFound => io::Error::new(kind, "its folder does not exist"),
        kind => io::Error::from(kind),
    });
    let mut out = BufWriter::new(made?);
    write(&mut out)?;
    let draft = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    if let Ok(found) = std::fs::metadata(&path) {
        draft.as_file().set_permissions(found.permissions())?;
    }
    // Else a crash could leave the new name with nothing in it.
    draft.as_file().sync_all()?;
    draft.persist(&path).map(drop).map_err(|error| error.error)
}

fn is_special(found: &std::fs::Metadata, links: Links) -> bool {
    match found.is_symlink() {
        true => links == Links::Refused,
        false => !found.is_file() && !found.is_dir(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_leaves_the_file_that_is_there_and_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("plan.json");
        let full = |out: &mut dyn Write| {
            out.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        let error = replace_file(&place, full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(error.to_string(), "the disk is full");
        assert!(!place.exists());
        std::fs::write(&place, "old").unwrap();
        let error = replace_file(&place, full).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the disk is full; the file that is there stays as it was"
        );
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_does_not_exist_is_told_without_the_name_of_a_draft() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("none/plan.json");
        let error = replace_file(&place, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "its folder does not exist");
    }
}
