//! Workers of one host that publish their parts in one push.
//!
//! Hosts count pushes, not refs. The workers of one account on one machine meet in a folder for their run. The one that has
//! the lock of that folder pushes; another one leaves its update there, with the folder of its objects, and waits until it
//! is told that the remote has it, or until the lock is free. All that is certain comes from the remote: an update is made
//! only while its ref has the value that its worker observed, and a worker that is not answered takes its update for one that may
//! have arrived.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::design::RunId;
use crate::repository::RefUpdate;
use crate::run::site_repository::SiteRepository;
use crate::run::time::Timekeeper;

/// How often a worker that waits checks whether it is answered.
const GLANCE: Duration = Duration::from_millis(200);
/// How long a worker waits for another one: longer than a turn and its push take.
const TIMEOUT: Duration = Duration::from_secs(150);
/// The updates that one push takes along.
const MOST: usize = 64;
/// More than a request has.
const LONGEST: u64 = 16 * 1024;
/// The name of the lock in the folder.
const LOCK: &str = "lock";

/// Where the workers of this host meet that carry out parts of a run.
pub(in crate::run) struct SharedPushes {
    folder: PathBuf,
    /// The objects of this clone.
    objects: String,
}

/// A request for another worker to push an update.
#[derive(Serialize, Deserialize)]
struct Request {
    objects: String,
    name: String,
    old: Option<String>,
    new: String,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The remote has it.
    Published,
    /// The ref had another value there.
    Moved,
    /// It may have been sent or not.
    None,
    /// The same, after more time than a push takes.
    Late,
}

/// Which worker of this host pushes now.
pub(super) enum Lead {
    /// This one.
    Own(Leader),
    /// Another one.
    Another,
    /// They cannot meet.
    Nowhere,
}

/// The worker that pushes for all of this host, until it is dropped.
pub(in crate::run) struct Leader {
    folder: PathBuf,
    _lock: File,
}

/// An update that another worker of this host waits for.
pub(in crate::run) struct Waiting {
    request: PathBuf,
    pub(in crate::run) objects: String,
    pub(in crate::run) update: RefUpdate,
}

impl SharedPushes {
    /// The place of a run; `None` if there is no folder that is this account's alone, or the remote is reached in another way.
    pub(super) fn of(site: &SiteRepository<'_>, run: &RunId) -> Option<Self> {
        let remote = site.remote().ok().flatten()?;
        let objects = site.repository.common_dir().join("objects");
        // As git separates and quotes a list of folders.
        let objects = objects.to_str()?.to_owned();
        if !remote.is_of_program() || !is_plain(&objects) {
            return None;
        }
        let of_run = format!("{}\n{}\n{run}", site.repository.identity().ok()?, site.name);
        let digest: String = Sha256::digest(of_run)[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let folder = own_folder(&folder_of_account()?.join(format!("pushes-{digest}")))?;
        Some(Self { folder, objects })
    }

    /// Takes the right to push, unless another worker has it.
    pub(super) fn lead(&self) -> Lead {
        // It may have been removed since, as what lies with temporary files is.
        let is_there = self.folder.parent().and_then(own_folder).is_some()
            && own_folder(&self.folder).is_some();
        let lock = is_there.then(|| File::create(self.folder.join(LOCK)).ok());
        let Some(lock) = lock.flatten() else {
            return Lead::Nowhere;
        };
        match lock.try_lock() {
            Ok(()) => Lead::Own(Leader {
                folder: self.folder.clone(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Lead::Another,
            // The file system has no locks.
            Err(TryLockError::Error(_)) => Lead::Nowhere,
        }
    }

    /// Waits until the worker that leads has pushed an update.
    pub(super) fn ask(&self, update: &RefUpdate, time: &dyn Timekeeper) -> Answer {
        let Some(new) = update.new else {
            return Answer::None;
        };
        let request = Request {
            objects: self.objects.clone(),
            name: update.name.clone(),
            old: update.old.map(|old| old.to_string()),
            new: new.to_string(),
        };
        let (Ok(text), Ok(mut file)) = (
            serde_json::to_vec(&request),
            tempfile::NamedTempFile::new_in(&self.folder),
        ) else {
            return Answer::None;
        };
        let path = file.path().with_extension("request");
        let answer = file.path().with_extension("answer");
        let is_left = file.write_all(&text).is_ok()
            // So it is known to be of a process that lives.
            && file.as_file().try_lock().is_ok();
        let Some(left) = is_left.then(|| file.persist(&path).ok()).flatten() else {
            return Answer::None;
        };
        let began = time.monotonic();
        let said = loop {
            time.pause(GLANCE);
            if let Some(said) = read_answer(&answer) {
                break said;
            }
            if time.is_stopped() || !matches!(self.lead(), Lead::Another) {
                // It may have been answered right before.
                break read_answer(&answer).unwrap_or(Answer::None);
            }
            if time.monotonic().saturating_sub(began) > TIMEOUT {
                break Answer::Late;
            }
        };
        for path in [&path, &answer] {
            let _ = fs::remove_file(path);
        }
        drop(left);
        said
    }

    /// Removes the place, after the end of the run.
    pub(super) fn forget(&self) {
        if let Lead::Own(_) = self.lead() {
            let _ = fs::remove_dir_all(&self.folder);
            // That of the account stays while another run has a place in it.
            let _ = self.folder.parent().map(fs::remove_dir);
        }
    }
}

impl Leader {
    /// The updates of parts in `folder` that other workers wait for, one of each ref but those of `own`.
    pub(in crate::run) fn waiting(&self, folder: &str, own: &[&str]) -> Vec<Waiting> {
        let mut all: Vec<Waiting> = Vec::new();
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            if path.extension().is_none_or(|ending| ending != "request") {
                continue;
            }
            let Ok(file) = File::open(&path) else {
                continue;
            };
            if file.try_lock_shared().is_ok() {
                // Its process is gone.
                let _ = fs::remove_file(&path);
                continue;
            }
            if let Some(waiting) = Waiting::read(path, file, folder)
                && !own.contains(&waiting.update.name.as_str())
                && all.iter().all(|one| one.update.name != waiting.update.name)
                && all.len() < MOST
            {
                all.push(waiting);
            }
        }
        all
    }
}

impl Waiting {
    /// A request, as far as it is about a part of this run.
    fn read(path: PathBuf, file: File, folder: &str) -> Option<Self> {
        use std::io::Read as _;
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text).ok()?;
        let request: Request = serde_json::from_slice(&text).ok()?;
        let part = request.name.strip_prefix(folder)?;
        let is_part = !part.is_empty() && !part.contains('/');
        let is_folder = is_plain(&request.objects) && Path::new(&request.objects).is_dir();
        let old = match request.old {
            Some(old) => Some(old.parse().ok()?),
            None => None,
        };
        (is_part && is_folder).then_some(Self {
            request: path,
            objects: request.objects,
            update: RefUpdate {
                name: request.name,
                old,
                new: Some(request.new.parse().ok()?),
            },
        })
    }

    /// Tells the worker what became of its update.
    pub(in crate::run) fn answer(self, is_published: bool) {
        let answer = match is_published {
            true => Answer::Published,
            false => Answer::Moved,
        };
        let path = self.request.with_extension("answer");
        if let (Some(folder), Ok(text)) = (path.parent(), serde_json::to_vec(&answer))
            && let Ok(mut file) = tempfile::NamedTempFile::new_in(folder)
            && file.write_all(&text).is_ok()
        {
            let _ = file.persist(&path);
        }
    }
}

fn read_answer(path: &Path) -> Option<Answer> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Whether git takes a folder in a list as it is.
fn is_plain(folder: &str) -> bool {
    Path::new(folder).is_absolute() && !folder.contains([':', '"', '\n'])
}

/// A folder of this account that goes with the boot of this machine.
#[cfg(unix)]
fn folder_of_account() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|folder| folder.is_absolute() && folder.is_dir()) {
        Some(folder) => own_folder(&folder.join("trueup")),
        None => {
            let user = rustix::process::geteuid().as_raw();
            own_folder(&std::env::temp_dir().join(format!("trueup-{user}")))
        }
    }
}

/// The folder, which is made if it is missing; `None` if others could change it.
#[cfg(unix)]
fn own_folder(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let made = fs::DirBuilder::new().mode(0o700).create(path);
    if made.is_err_and(|error| error.kind() != std::io::ErrorKind::AlreadyExists) {
        return None;
    }
    let found = path.symlink_metadata().ok()?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    (found.is_dir() && is_own && found.mode() & 0o077 == 0).then(|| path.to_owned())
}

/// If it cannot be told whose a folder is, each worker pushes for itself.
#[cfg(not(unix))]
fn folder_of_account() -> Option<PathBuf> {
    None
}

#[cfg(not(unix))]
fn own_folder(_path: &Path) -> Option<PathBuf> {
    None
}
