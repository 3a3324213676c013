//! The file in which an operator's trust is kept, outside of every checkout.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::backend::ReachEntry;
use crate::repository::{Links, ReadError, Repository, read_file};

/// The variable that names the file.
pub(super) const VARIABLE: &str = "TRUEUP_TRUST_FILE";

/// The largest trust file that is read, in bytes.
const LARGEST: u64 = 16 << 20;

/// The reaches that are remembered of one site: branches may differ.
const REMEMBERED: usize = 16;

/// A reach that an operator trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trusted {
    /// The repository's identity.
    pub(super) repository: String,
    /// The site.
    pub(super) site: String,
    /// The digest of what the documents name.
    pub(super) declared: String,
    /// The digest of that and of what it leads to; absent: that could not be read.
    pub(super) resolved: Option<String>,
    /// When it was trusted.
    pub(super) since: String,
    /// The trusted reach.
    pub(super) reach: Vec<ReachEntry>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    trusted: Vec<Trusted>,
}

/// The trust file of the operator.
#[derive(Debug)]
pub(super) struct TrustStore {
    path: PathBuf,
}

impl TrustStore {
    /// Returns the trust file that the environment names; nothing is read yet.
    ///
    /// # Errors
    ///
    /// It does not exist, or lies in the checkout.
    pub(super) fn find(repository: &Repository, here: &Path) -> Result<Self, String> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let configured = || {
            let folder = set("XDG_CONFIG_HOME").map(PathBuf::from);
            let folder = folder.filter(|path| path.is_absolute());
            folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")))
        };
        let path = match set(VARIABLE) {
            Some(path) => here.join(path),
            None => configured()
                .ok_or_else(|| {
                    format!("neither `HOME` nor `{VARIABLE}` says where the trust file lies")
                })?
                .join("trueup")
                .join("trust.json"),
        };
        let root = repository.root();
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        if real(&path).starts_with(&root) {
            return Err(format!(
                "the trust file `{}` lies in the checkout, where a change of the design could write it; name \
                 another in `{VARIABLE}`",
                path.display()
            ));
        }
        Ok(Self { path })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Everything that is trusted; nothing if there is no file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a trust file.
    pub(super) fn read(&self) -> Result<Vec<Trusted>, String> {
        let refuse = |why: &dyn std::fmt::Display| {
            format!(
                "the trust file `{}` cannot be used: {why}",
                self.path.display()
            )
        };
        let bytes = match read_file(&self.path, LARGEST, Links::Followed) {
            Ok(bytes) => bytes,
            Err(ReadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(refuse(&error)),
        };
        #[cfg(unix)]
        if let Ok(metadata) = fs::metadata(&self.path)
            && std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o002 != 0
        {
            return Err(refuse(&"it is writable for all users (`chmod o-w` it)"));
        }
        let written: Written = serde_json::from_slice(&bytes)
            .map_err(|error| refuse(&format!("it is not a trust file: {error}")))?;
        match written.version {
            1 => Ok(written.trusted),
            other => Err(refuse(&format!(
                "it has version {other}, and this build reads version 1"
            ))),
        }
    }

    /// Trusts a reach.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub(super) fn add(&self, trusted: Trusted) -> Result<(), String> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let is_of_site =
            |each: &Trusted| each.repository == trusted.repository && each.site == trusted.site;
        all.retain(|each| !(is_of_site(each) && each.declared == trusted.declared));
        let many = all.iter().filter(|each| is_of_site(each)).count();
        if many >= REMEMBERED
            && let Some(oldest) = all.iter().position(is_of_site)
        {
            all.remove(oldest);
        }
        all.push(trusted);
        self.write(all)
    }

    /// Ends the trust in the reaches of a site; gives how many there were.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub(super) fn revoke(&self, repository: &str, site: &str) -> Result<usize, String> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let before = all.len();
        all.retain(|each| each.repository != repository || each.site != site);
        let gone = before - all.len();
        if gone > 0 {
            self.write(all)?;
        }
        Ok(gone)
    }

    /// Locks the file against other processes that change it, until the lock is dropped. The lock is on a file beside it,
    /// since the file itself is replaced by each change; left behind, it locks nothing.
    fn lock(&self) -> Result<fs::File, String> {
        let mut path = self.path.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let lock = || {
            fs::create_dir_all(self.folder())?;
            let file = fs::File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(|error: std::io::Error| {
            format!(
                "the trust file `{}` cannot be changed: `{}` cannot be locked: {error}",
                self.path.display(),
                path.display()
            )
        })
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Replaces the file, durably and in one step; the lock is held.
    fn write(&self, trusted: Vec<Trusted>) -> Result<(), String> {
        let written = Written {
            version: 1,
            trusted,
        };
        let write = || -> std::io::Result<()> {
            let mut bytes = serde_json::to_vec_pretty(&written)?;
            bytes.push(b'\n');
            let mut file = tempfile::NamedTempFile::new_in(self.folder())?;
            file.write_all(&bytes)?;
            file.as_file().sync_all()?;
            file.persist(&self.path)?;
            fs::File::open(self.folder())?.sync_all()
        };
        write().map_err(|error| {
            format!(
                "the trust file `{}` cannot be written: {error}",
                self.path.display()
            )
        })
    }
}

/// A path with the links of the part of it that exists followed.
fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(real) = existing.canonicalize() {
            return missing
                .iter()
                .rev()
                .fold(real, |path, part| path.join(part));
        }
        match (existing.file_name(), existing.parent()) {
            (Some(name), Some(parent)) => {
                missing.push(name.to_owned());
                existing = parent;
            }
            _ => return path.to_owned(),
        }
    }
}
