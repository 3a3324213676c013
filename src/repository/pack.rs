//! The bytes of a git pack with new objects, each whole.
//!
//! libgit2's own builder looks for deltas between all of them, which for the records of a large site
//! takes seconds and is undone by their compression anyway; the next `git gc` does it better. The
//! format is git's `pack-format`, version 2: a header, then each object as kind, size and zlib, then
//! the SHA-1 of all that.

use std::io::Write;
use std::thread;

use sha1::{Digest, Sha1};

use super::Error;
use super::objects::Object;

/// Below this many bytes in all, threads cost more than they save.
const WORTH_A_THREAD: usize = 1 << 20;

/// A pack of these objects.
pub(super) fn pack(objects: &[Object<'_>]) -> Result<Vec<u8>, Error> {
    let total: usize = objects.iter().map(|(_, bytes)| bytes.len()).sum();
    let threads = match thread::available_parallelism() {
        Ok(threads) if total >= WORTH_A_THREAD => threads.get().min(8),
        _ => 1,
    };
    let part = objects.len().div_ceil(threads).max(1);
    let parts: Vec<std::io::Result<Vec<u8>>> = thread::scope(|scope| {
        let packers: Vec<_> = objects
            .chunks(part)
            .map(|objects| scope.spawn(move || packed(objects)))
            .collect();
        packers
            .into_iter()
            .map(|packer| {
                packer
                    .join()
                    .unwrap_or_else(|_| Err(std::io::Error::other("a thread failed")))
            })
            .collect()
    });
    let count = u32::try_from(objects.len()).map_err(|_| broken(&"it has too many objects"))?;
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend(count.to_be_bytes());
    for part in parts {
        pack.extend(part.map_err(|error| broken(&error))?);
    }
    let digest = Sha1::digest(&pack);
    pack.extend_from_slice(&digest);
    Ok(pack)
}

fn packed(objects: &[Object<'_>]) -> std::io::Result<Vec<u8>> {
    let mut pack = Vec::new();
    for (kind, bytes) in objects {
        let kind = match kind {
            git2::ObjectType::Commit => 1,
            git2::ObjectType::Tree => 2,
            git2::ObjectType::Blob => 3,
            git2::ObjectType::Tag => 4,
            git2::ObjectType::Any => return Err(std::io::Error::other("an object of no kind")),
        };
        // The low four bits of the size stand beside the kind, seven more in each byte after it.
        let mut head = (kind << 4) | (bytes.len() & 0xf) as u8;
        let mut size = bytes.len() >> 4;
        while size > 0 {
            pack.push(head | 0x80);
            head = (size & 0x7f) as u8;
            size >>= 7;
        }
        pack.push(head);
        let level = flate2::Compression::new(3);
        let mut encoder = flate2::write::ZlibEncoder::new(&mut pack, level);
        encoder.write_all(bytes)?;
        encoder.finish()?;
    }
    Ok(pack)
}

fn broken(reason: &dyn std::fmt::Display) -> Error {
    Error::Broken {
        what: "a new pack".to_owned(),
        reason: reason.to_string(),
    }
}
