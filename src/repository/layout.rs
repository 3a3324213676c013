//! Where a repository's parts are, in which format they are, and its configuration: as git decides it.
//!
//! The git program is asked, once for each opened repository. It is not started where reading a few files proves
//! that there is nothing special: one `.git` folder of this user, in the first format of repositories, and
//! configuration that includes no other file and that no variable of the environment changes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::configuration::Configuration;
use super::program::{self, Environment, LOCAL};
use super::read::{Links, ReadError, read_file};
use super::{Error, git};

/// A larger file of configuration is not read here.
const LARGEST: u64 = 1 << 20;

/// Variables that change which configuration git reads, or where it looks for a repository.
const TELLING: [&str; 6] = [
    "GIT_CONFIG",
    "GIT_ATTR_",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_REPLACE_REF_BASE",
    "GIT_REF_PARANOIA",
];

/// Words of configuration files that make git read others, or take other folders or another format.
const SPECIAL: [&str; 5] = [
    "include",
    "worktree",
    "extensions",
    "repositoryformatversion = 1",
    "bare = true",
];

/// The extensions of a repository's format that need nothing of a reader of objects and refs.
const HARMLESS: [&str; 5] = [
    "noop",
    "partialclone",
    "preciousobjects",
    "relativeworktrees",
    "worktreeconfig",
];

/// The parts of a repository.
#[derive(Debug)]
pub(super) struct Layout {
    /// The top folder of the worktree; of a bare repository its own folder.
    pub(super) root: PathBuf,
    /// The folder of this worktree's git data.
    pub(super) git_dir: PathBuf,
    /// Whether there is no worktree.
    pub(super) is_bare: bool,
    pub(super) configuration: Configuration,
}

impl Layout {
    /// The layout of the repository that holds a folder, looked for from there upward; and a handle of it.
    pub(super) fn find(
        start: &Path,
        variables: &dyn Fn(&Path) -> Environment,
    ) -> Result<(Self, git2::Repository), Error> {
        let Some(top) = top_of(start) else {
            // Below no worktree: what looks like a repository there may be files that a change of the design brings,
            // configuration included.
            let found = git2::Repository::discover_path(start, NO_CEILINGS);
            let path = found.map_err(|_| Error::NoRepository {
                start: start.to_owned(),
            })?;
            return Self::bare(start, &path, variables);
        };
        let environment = variables(&top);
        if is_plain(&top, &environment) {
            let git_dir = top.join(".git");
            let handle = open(&git_dir, &top)?;
            let configuration = Configuration::of(&handle)?;
            let layout = Self {
                root: top,
                git_dir,
                is_bare: false,
                configuration,
            };
            return Ok((layout, handle));
        }
        let layout = Self::asked(start, &top, &environment)?;
        layout.refuse_unknown_formats()?;
        let handle = open(&layout.git_dir, &layout.root)?;
        Ok((layout, handle))
    }

    /// The layout of a bare repository, if the git program takes it for one: its rules for owners and for such
    /// repositories (`safe.directory`, `safe.bareRepository`) hold.
    fn bare(
        start: &Path,
        path: &Path,
        variables: &dyn Fn(&Path) -> Environment,
    ) -> Result<(Self, git2::Repository), Error> {
        let top = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let environment = variables(&top);
        let layout = Self::asked(start, &top, &environment)?;
        layout.refuse_unknown_formats()?;
        let handle = open(&layout.git_dir, &layout.root)?;
        Ok((layout, handle))
    }

    /// The layout as the git program tells it.
    fn asked(start: &Path, top: &Path, environment: &Environment) -> Result<Self, Error> {
        let ask = |arguments: &[&str]| program::ask(top, arguments, environment, LOCAL);
        let folders = ask(&[
            "rev-parse",
            "--is-bare-repository",
            "--absolute-git-dir",
            "--show-toplevel",
        ])?;
        // Of a bare repository it prints all but the last, and refuses that.
        let mut lines = folders.stdout.lines();
        let is_bare = lines.next() == Some("true");
        let git_dir = lines.next().map(PathBuf::from);
        let (git_dir, root) = match (git_dir, is_bare, lines.next(), lines.next()) {
            (Some(git_dir), true, None, None) => (git_dir.clone(), git_dir),
            (Some(git_dir), false, Some(root), None) if folders.success => {
                (git_dir, PathBuf::from(root))
            }
            _ => return Err(refusal(start, top, folders.stderr)),
        };
        let listed = ask(&["config", "--list", "-z", "--show-scope"])?;
        if !listed.success {
            return Err(Error::Program {
                attempt: "read the configuration of git".to_owned(),
                message: listed.stderr,
            });
        }
        Ok(Self {
            root,
            git_dir,
            is_bare,
            configuration: Configuration::listed(&listed.stdout),
        })
    }

    /// Refuses objects and refs that are in a format which libgit2 does not read.
    fn refuse_unknown_formats(&self) -> Result<(), Error> {
        for (key, value) in self.configuration.values() {
            let Some(extension) = key.strip_prefix("extensions.") else {
                continue;
            };
            let is_known = match extension {
                "refstorage" => value == "files",
                "objectformat" => value == "sha1",
                other => HARMLESS.contains(&other),
            };
            if !is_known {
                return Err(unreadable(&self.git_dir, extension));
            }
        }
        Ok(())
    }
}

/// A handle of libgit2, for objects and refs: the folders are given, and nothing is looked for.
pub(super) fn open(git_dir: &Path, root: &Path) -> Result<git2::Repository, Error> {
    let opening = || git(format!("open the repository at `{}`", git_dir.display()));
    let flags = git2::RepositoryOpenFlags::NO_SEARCH | git2::RepositoryOpenFlags::BARE;
    // The first knows where a history was cut off, and refuses owners and extensions that git does not.
    let handle = git2::Repository::open_ext(git_dir, flags, NO_CEILINGS)
        .or_else(|_| git2::Repository::open_bare(git_dir))
        .map_err(opening())?;
    handle.set_workdir(root, false).map_err(opening())?;
    Ok(handle)
}

const NO_CEILINGS: [&OsStr; 0] = [];

/// Returns the nearest folder from one upward that has an entry `.git`, which git lets no commit contain.
fn top_of(start: &Path) -> Option<PathBuf> {
    let start = start.canonicalize().ok()?;
    let mut folders = start.ancestors();
    let top = folders.find(|folder| folder.join(".git").symlink_metadata().is_ok());
    top.map(Path::to_owned)
}

/// The folder that all worktrees share of the repository that holds a folder, found as `Layout::find` finds it, but without the
/// git program: so much of a repository every command may ask.
#[must_use]
pub fn common_dir_around(start: &Path) -> Option<PathBuf> {
    let top = top_of(start)?;
    let entry = top.join(".git");
    let git_dir = match entry.is_dir() {
        true => entry,
        // A linked worktree, or a submodule.
        false => top.join(line_of(&entry)?.strip_prefix("gitdir:")?.trim()),
    };
    Some(match line_of(&git_dir.join("commondir")) {
        Some(common) => git_dir.join(common.trim()),
        None => git_dir,
    })
}

/// The value of a key in the file of configuration of a repository's common folder.
#[must_use]
pub fn setting_in(common_dir: &Path, key: &str) -> Option<String> {
    let file = git2::Config::open(&common_dir.join("config")).ok()?;
    file.get_string(key).ok()
}

/// The line that is a file's content.
fn line_of(path: &Path) -> Option<String> {
    let bytes = read_file(path, LARGEST, Links::Followed).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Whether the repository at a folder is one that has nothing special.
fn is_plain(top: &Path, environment: &Environment) -> bool {
    let git_dir = top.join(".git");
    let is_folder = git_dir.symlink_metadata().is_ok_and(|found| found.is_dir());
    let is_whole = ["HEAD", "objects", "refs", "config"]
        .iter()
        .all(|name| git_dir.join(name).exists());
    if !is_folder || !is_whole || !is_of_this_user(top) || !is_of_this_user(&git_dir) {
        return false;
    }
    let variable = |name: &str| program::variable(environment, name);
    let home = variable("HOME").map(PathBuf::from);
    let settings = variable("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
    let settings = settings.map(PathBuf::from);
    let settings = settings.or_else(|| home.as_ref().map(|home| home.join(".config")));
    let own: Vec<PathBuf> = [
        home.map(|home| home.join(".gitconfig")),
        settings.map(|folder| folder.join("git/config")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let system = Path::new("/etc/gitconfig");
    let is_telling = |(name, value): &(OsString, OsString)| match &*name.to_string_lossy() {
        // Without what they replace they change nothing.
        "GIT_CONFIG_NOSYSTEM" => system.exists(),
        "GIT_CONFIG_GLOBAL" => {
            own.iter().any(|file| file.exists())
                || std::fs::metadata(value).is_ok_and(|found| found.len() > 0)
        }
        name => TELLING.iter().any(|telling| name.starts_with(telling)),
    };
    let is_told = match environment {
        Some(variables) => variables.iter().any(is_telling),
        None => std::env::vars_os().any(|each| is_telling(&each)),
    };
    // libgit2 finds the user's files by the environment of this process, and those of the system at one place.
    let mut homes = ["HOME", "XDG_CONFIG_HOME"].iter();
    let is_at_home = homes.all(|name| variable(name) == std::env::var_os(name));
    let has_same_system = variable("PATH").is_some_and(|path| {
        let found = std::env::split_paths(&path).find(|folder| folder.join("git").is_file());
        found.is_some_and(|folder| {
            match [Path::new("/usr/bin"), Path::new("/bin")].contains(&&*folder) {
                true => true,
                false => !system.exists() && !folder.join("../etc/gitconfig").exists(),
            }
        })
    });
    let files = [git_dir.join("config"), system.to_owned()];
    let mut files = files.iter().chain(&own);
    has_same_system && is_at_home && !is_told && !files.any(|file| is_special(file))
}

/// Whether a file of configuration has more to it than values, or cannot be read.
fn is_special(file: &Path) -> bool {
    match read_file(file, LARGEST, Links::Followed) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
            SPECIAL.iter().any(|word| text.contains(word))
        }
        Err(ReadError::Io(error)) => error.kind() != std::io::ErrorKind::NotFound,
        Err(_) => true,
    }
}

#[cfg(unix)]
fn is_of_this_user(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    path.symlink_metadata()
        .is_ok_and(|found| found.uid() == user)
}

#[cfg(not(unix))]
fn is_of_this_user(_path: &Path) -> bool {
    false
}

/// The error for a repository that git refuses.
fn refusal(start: &Path, top: &Path, message: String) -> Error {
    if message.contains("dubious ownership") {
        return Error::ForeignOwner {
            path: top.to_owned(),
        };
    }
    if message.contains("not a git repository") {
        return Error::NoRepository {
            start: start.to_owned(),
        };
    }
    if message.contains("must be run in a work tree") {
        return Error::Bare {
            path: top.to_owned(),
        };
    }
    let unknown = message.split_once("unknown repository extension");
    if let Some((_, rest)) = unknown {
        let name = rest.trim_start_matches('s').trim_start_matches(" found");
        let name = name.trim_start_matches([':', ';', ' ']);
        let name = name.split([';', ' ', '\n']).next().unwrap_or_default();
        return unreadable(&top.join(".git"), name);
    }
    Error::Program {
        attempt: format!("open the repository at `{}`", top.display()),
        message,
    }
}

fn unreadable(path: &Path, extension: &str) -> Error {
    use super::error::Format;
    let path = path.to_owned();
    let format = match &*extension.to_ascii_lowercase() {
        "refstorage" => Format::Reftable,
        "objectformat" | "compatobjectformat" => Format::Sha256,
        other => Format::Extension(other.to_owned()),
    };
    Error::Format { path, format }
}
