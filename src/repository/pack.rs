//! The bytes of a git pack with new objects, each whole.
//!
//! libgit2's own builder looks for deltas between all of them, which for the records of a large site
//! takes seconds and is undone by their compression anyway; the next `git gc` does it better. The
//! format is git's `pack-format`, version 2: a header, then each object as kind, size and zlib, then
//! the SHA-1 of all that.

use std::borrow::Cow;
use std::fmt;
use std::io::{Read, Write};
use std::thread;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use sha1::{Digest, Sha1};

use super::{BlobId, Error, blob_id};
use crate::threads::in_parts;

/// Below this many bytes in all, threads cost more than they save.
const WORTH_A_THREAD: usize = 1 << 20;
/// The effort of compression: beyond it, much time saves few bytes.
const LEVEL: Compression = Compression::new(3);

/// A file that is to be written, as it stands in a pack.
///
/// Many large files that are written at once are held so until all are there, in little memory.
#[derive(Clone)]
pub struct Deflated {
    pub(super) id: BlobId,
    size: usize,
    zlib: Vec<u8>,
}

impl Deflated {
    /// Deflates a file.
    ///
    /// # Errors
    ///
    /// It could not be deflated.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        let mut zlib = Vec::new();
        deflate(&mut zlib, bytes).map_err(|error| broken(&error))?;
        zlib.shrink_to_fit();
        Ok(Self {
            id: blob_id(bytes),
            size: bytes.len(),
            zlib,
        })
    }

    /// The file as it was.
    pub(super) fn inflate(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(self.size);
        ZlibDecoder::new(&*self.zlib)
            .read_to_end(&mut bytes)
            .map_err(|error| broken(&error))?;
        Ok(bytes)
    }
}

impl fmt::Debug for Deflated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deflated({:?}, {} bytes)", self.id, self.size)
    }
}

/// An object that is to be written.
pub(super) enum Object<'a> {
    /// The kind, and the bytes.
    Plain(git2::ObjectType, Cow<'a, [u8]>),
    /// A file that is deflated already.
    Deflated(&'a Deflated),
}

/// A pack of these objects, in parts that follow each other.
pub(super) fn pack(objects: &[Object<'_>]) -> Result<Vec<Vec<u8>>, Error> {
    let sizes = objects.iter().map(|object| match object {
        Object::Plain(_, bytes) => bytes.len(),
        Object::Deflated(_) => 0,
    });
    let threads = match thread::available_parallelism() {
        Ok(threads) if sizes.sum::<usize>() >= WORTH_A_THREAD => threads.get().min(8),
        _ => 1,
    };
    let part = objects.len().div_ceil(threads).max(1);
    let packed = in_parts(objects.chunks(part), packed);
    let count = u32::try_from(objects.len()).map_err(|_| broken(&"it has too many objects"))?;
    let mut parts = vec![[*b"PACK", 2_u32.to_be_bytes(), count.to_be_bytes()].concat()];
    for part in packed {
        parts.push(part.map_err(|error| broken(&error))?);
    }
    let mut digest = Sha1::new();
    parts.iter().for_each(|part| digest.update(part));
    parts.push(digest.finalize().to_vec());
    Ok(parts)
}

fn packed(objects: &[Object<'_>]) -> std::io::Result<Vec<u8>> {
    let mut pack = Vec::new();
    for object in objects {
        match object {
            Object::Plain(kind, bytes) => {
                push_head(&mut pack, *kind, bytes.len())?;
                deflate(&mut pack, bytes)?;
            }
            Object::Deflated(file) => {
                push_head(&mut pack, git2::ObjectType::Blob, file.size)?;
                pack.extend_from_slice(&file.zlib);
            }
        }
    }
    Ok(pack)
}

fn push_head(pack: &mut Vec<u8>, kind: git2::ObjectType, size: usize) -> std::io::Result<()> {
    let kind = match kind {
        git2::ObjectType::Commit => 1,
        git2::ObjectType::Tree => 2,
        git2::ObjectType::Blob => 3,
        git2::ObjectType::Tag => 4,
        git2::ObjectType::Any => return Err(std::io::Error::other("an object of no kind")),
    };
    // The low four bits of the size stand beside the kind, seven more in each byte after it.
    let mut head = (kind << 4) | (size & 0xf) as u8;
    let mut size = size >> 4;
    while size > 0 {
        pack.push(head | 0x80);
        head = (size & 0x7f) as u8;
        size >>= 7;
    }
    pack.push(head);
    Ok(())
}

fn deflate(out: &mut Vec<u8>, bytes: &[u8]) -> std::io::Result<()> {
    let mut encoder = ZlibEncoder::new(out, LEVEL);
    encoder.write_all(bytes)?;
    encoder.finish()?;
    Ok(())
}

fn broken(reason: &dyn std::fmt::Display) -> Error {
    Error::Broken {
        what: "a new pack".to_owned(),
        reason: reason.to_string(),
    }
}
