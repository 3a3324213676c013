//! Files of a run as the records keep them: zlib, since a plan of a large site is a hundred megabytes.

use std::fmt;
use std::io::{self, BufWriter, Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::error::Error;

/// The most bytes that a packed file is unpacked to.
const LARGEST: u64 = 1 << 30;
/// The effort of compression: beyond it, twice the time saves a tenth of the space.
const LEVEL: Compression = Compression::new(3);

/// A packed file; a clone is a reference.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed(Arc<[u8]>);

impl Packed {
    /// Packs what `write` writes, which is never in memory as a whole; gives what `write` gave too.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub fn new<T>(write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<(Self, T)> {
        let mut out = Packing::default();
        let result = write(&mut out)?;
        Ok((out.finish()?, result))
    }

    /// Packs the bytes of a file that is packed already.
    #[must_use]
    pub fn from_file(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// As it is kept.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Unpacks the bytes; `path` names the file where it is damaged.
    ///
    /// # Errors
    ///
    /// It is no zlib, or larger than any run.
    pub fn unpack(&self, path: &str) -> Result<Vec<u8>, Error> {
        let broken = |reason: &dyn fmt::Display| Error::Broken {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let mut plain = Vec::new();
        ZlibDecoder::new(&*self.0)
            .take(LARGEST + 1)
            .read_to_end(&mut plain)
            .map_err(|error| broken(&error))?;
        if plain.len() as u64 > LARGEST {
            return Err(broken(&"it is larger than any run"));
        }
        Ok(plain)
    }
}

/// A file that is packed while it grows.
pub struct Packing(BufWriter<ZlibEncoder<Vec<u8>>>);

impl Packing {
    /// The file, to which nothing more comes.
    ///
    /// # Errors
    ///
    /// It could not be packed.
    pub fn finish(self) -> io::Result<Packed> {
        let encoder = self
            .0
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        Ok(Packed(encoder.finish()?.into()))
    }
}

impl Default for Packing {
    fn default() -> Self {
        let encoder = ZlibEncoder::new(Vec::new(), LEVEL);
        Self(BufWriter::with_capacity(1 << 16, encoder))
    }
}

impl Write for Packing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes)", self.0.len())
    }
}
