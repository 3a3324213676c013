//! Reads one file, and never more of it than is allowed; writes one, and never through a link of the checkout.
//!
//! A file is checked when it is open, so that it cannot be another file by then: a pipe, a
//! device or a folder is refused before anything is read, and without waiting for a writer.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;

use super::Repository;

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
    Io(#[from] std::io::Error),
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
    /// Creates a file, or empties one. Links of the checkout are not followed: every change of the design can
    /// make them lead to any file.
    ///
    /// # Errors
    ///
    /// A part of the path below the root of the checkout is a link; the file cannot be created.
    pub fn create_file(&self, path: &Path) -> std::io::Result<File> {
        let root = self.root.canonicalize()?;
        let below = [&root, &self.root]
            .into_iter()
            .find_map(|root| path.strip_prefix(root).ok());
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let Some(below) = below else {
            return options.open(path);
        };
        let mut reached = root;
        for part in below.components() {
            reached.push(part);
            if reached.is_symlink() {
                let text = format!("`{}` is a link in the checkout", reached.display());
                return Err(std::io::Error::other(text));
            }
        }
        options.open(reached)
    }
}

fn is_special(found: &std::fs::Metadata, links: Links) -> bool {
    match found.is_symlink() {
        true => links == Links::Refused,
        false => !found.is_file() && !found.is_dir(),
    }
}
