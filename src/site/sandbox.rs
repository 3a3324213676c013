//! A sandbox: a clone in which every backend is the simulator, whatever its documents name, at every revision.
//!
//! Its mark is twofold: a folder beside git's data, which holds the settings of each site, and a setting of git. If only
//! the setting is left, nothing is loaded, so that no sandbox becomes a clone that reaches machines by the loss of a file.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Error;
use crate::design::{Backends, SiteName, backends_of};
use crate::diagnostic::{Mark, SourceId};
use crate::document::node_from_json;
use crate::repository::{
    Links, Repository, common_dir_around, read_file, replace_file, setting_in,
};

/// The folder of a sandbox, in git's common directory.
const FOLDER: &str = "trueup-sandbox";
/// The setting of git that marks a sandbox.
const SETTING: &str = "trueup.sandbox";
/// The file of its clock.
const CLOCK: &str = "clock";
/// The version of the form of the settings.
const FORMAT_VERSION: u32 = 1;
/// The largest file of settings: a script of faults that names each machine of a large site several times.
const LARGEST: u64 = 256 << 20;

/// A place outside of the clone which commands reach, besides machines and clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// A remote of the clone.
    Remote,
    /// The forge that publishes comments.
    Forge,
    /// The backends that a command names by flags.
    Named,
    /// The services that the settings of `trueup serve` name.
    Services,
}

impl Outside {
    fn refusal(self) -> &'static str {
        match self {
            Self::Remote => "it has no remote, and its records are published nowhere",
            Self::Forge => "nothing is published on a forge",
            Self::Named => "no backend is reached, whatever flags name",
            Self::Services => "no service is asked that `keystone`, `oidc` or `deckhand` names",
        }
    }
}

/// A sandbox.
#[derive(Debug)]
pub struct Sandbox {
    folder: PathBuf,
}

/// The settings of a site in a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxSettings {
    format_version: u32,
    /// The settings of the simulator of machines, without faults.
    pub machines: Map<String, Value>,
    /// Those of the simulated cluster, without faults.
    pub cluster: Map<String, Value>,
    /// When machines have to have joined the cluster, as the documents have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<Value>,
    /// The faults of machines, as the fault script of the simulator has them.
    pub machine_faults: Vec<Value>,
    /// Those of the cluster.
    pub cluster_faults: Vec<Value>,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            format_version: FORMAT_VERSION,
            machines: Map::new(),
            cluster: Map::new(),
            join: None,
            machine_faults: Vec::new(),
            cluster_faults: Vec::new(),
        }
    }
}

impl SandboxSettings {
    /// The backends: the simulator, and no other.
    #[must_use]
    pub fn backends(&self) -> Backends {
        let with = |settings: &Map<String, Value>, faults: &[Value]| {
            let mut settings = settings.clone();
            settings.insert("faults".to_owned(), faults.to_vec().into());
            settings
        };
        let machines = with(&self.machines, &self.machine_faults);
        let cluster = with(&self.cluster, &self.cluster_faults);
        let mut kubernetes = json!({"kind": "sim", "sim": cluster});
        if let Some(join) = &self.join {
            kubernetes["join"] = join.clone();
        }
        let data = json!({
            "hardware": {"kind": "sim", "sim": machines},
            "clusters": {"kubernetes": kubernetes},
        });
        // They stand in no file of the site.
        let nowhere = Mark::new(SourceId(u32::MAX), 0);
        backends_of(&node_from_json(&data, nowhere))
    }
}

impl Sandbox {
    /// The sandbox that a repository is; `None`: it is none.
    ///
    /// # Errors
    ///
    /// It is marked as one, and its settings are gone.
    pub fn of(repository: &Repository) -> Result<Option<Self>, Error> {
        let common_dir = repository.common_dir();
        Self::marked(common_dir, || Ok(repository.config(SETTING)?.is_some()))
    }

    /// The sandbox that a repository is by its marks.
    fn marked(
        common_dir: &Path,
        is_set: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<Option<Self>, Error> {
        let folder = common_dir.join(FOLDER);
        if folder.is_dir() {
            return Ok(Some(Self { folder }));
        }
        match is_set()? {
            false => Ok(None),
            true => Err(Error::Sandbox {
                path: folder,
                problem: format!(
                    "`{SETTING}` in git's configuration marks it, and its folder is missing"
                ),
            }),
        }
    }

    /// Refuses what is outside of a clone that is a sandbox. What may be reached from one is decided here, and by the
    /// backends that the loader takes.
    ///
    /// # Errors
    ///
    /// [`Error::Outside`]; or the settings of the sandbox are gone.
    pub fn refuse(repository: &Repository, outside: Outside) -> Result<(), Error> {
        match Self::of(repository)? {
            Some(_) => Err(Error::Outside(outside.refusal())),
            None => Ok(()),
        }
    }

    /// The sandbox that the repository around a folder is; found without the git program.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::of`].
    pub fn around(folder: &Path) -> Result<Option<Self>, Error> {
        let Some(common_dir) = common_dir_around(folder) else {
            return Ok(None);
        };
        Self::marked(&common_dir, || {
            Ok(setting_in(&common_dir, SETTING).is_some())
        })
    }

    /// How far its clock is ahead of the real one, in seconds.
    #[must_use]
    pub fn ahead(&self) -> i64 {
        let text = std::fs::read_to_string(self.folder.join(CLOCK));
        text.ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or_default()
    }

    /// Sets its clock.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn set_ahead(&self, seconds: i64) -> Result<(), Error> {
        let path = self.folder.join(CLOCK);
        let written = replace_file(&path, |out| writeln!(out, "{seconds}"));
        written.map_err(|error| unusable(&path, &error))
    }

    /// Makes a repository a sandbox.
    ///
    /// # Errors
    ///
    /// Its configuration or its folder cannot be written.
    pub fn create(repository: &Repository) -> Result<Self, Error> {
        repository.configure(SETTING, "true")?;
        let folder = repository.common_dir().join(FOLDER);
        let made = std::fs::create_dir_all(&folder);
        made.map_err(|error| unusable(&folder, &error))?;
        Ok(Self { folder })
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self, site: &SiteName) -> PathBuf {
        self.folder.join(format!("{site}.json"))
    }

    /// The settings of a site.
    ///
    /// # Errors
    ///
    /// The sandbox was made of another site, or its file cannot be used.
    pub fn read(&self, site: &SiteName) -> Result<SandboxSettings, Error> {
        let path = self.file(site);
        if !path.exists() {
            let problem = format!("it was not made of site `{site}`");
            return Err(Error::Sandbox { path, problem });
        }
        let bytes = read_file(&path, LARGEST, Links::Refused);
        let bytes = bytes.map_err(|error| unusable(&path, &error))?;
        let settings: SandboxSettings =
            serde_json::from_slice(&bytes).map_err(|error| unusable(&path, &error))?;
        if settings.format_version != FORMAT_VERSION {
            let problem = format!(
                "their form has version {}, and this trueup reads {FORMAT_VERSION}",
                settings.format_version
            );
            return Err(Error::Sandbox { path, problem });
        }
        Ok(settings)
    }

    /// Writes the settings of a site.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, site: &SiteName, settings: &SandboxSettings) -> Result<(), Error> {
        let path = self.file(site);
        let written = replace_file(&path, |out| {
            serde_json::to_writer_pretty(&mut *out, settings)?;
            out.write_all(b"\n")
        });
        written.map_err(|error| unusable(&path, &error))
    }
}

fn unusable(path: &Path, error: &dyn Display) -> Error {
    Error::Sandbox {
        path: path.to_owned(),
        problem: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;

    #[test]
    fn a_folder_is_in_the_sandbox_of_its_repository_alone() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let sandbox = top.join("box");
        create_dir_all(sandbox.join(".git").join(FOLDER)).unwrap();
        create_dir_all(sandbox.join("sites/edge")).unwrap();
        create_dir_all(sandbox.join("clone/.git")).unwrap();
        // A linked worktree, as git makes it, and a submodule.
        let own = sandbox.join(".git/worktrees/linked");
        create_dir_all(&own).unwrap();
        write(own.join("commondir"), "../..\n").unwrap();
        create_dir_all(top.join("linked")).unwrap();
        let line = format!("gitdir: {}\n", own.display());
        write(top.join("linked/.git"), line).unwrap();
        create_dir_all(sandbox.join(".git/modules/part")).unwrap();
        create_dir_all(sandbox.join("part")).unwrap();
        write(sandbox.join("part/.git"), "gitdir: ../.git/modules/part\n").unwrap();
        for (folder, is_in) in [
            ("box", true),
            ("box/sites/edge", true),
            ("linked", true),
            ("box/clone", false),
            ("box/part", false),
            (".", false),
        ] {
            let found = Sandbox::around(&top.join(folder)).unwrap();
            let found = found.map(|found| found.folder.canonicalize().unwrap());
            let expected = is_in.then(|| sandbox.join(".git").join(FOLDER));
            assert_eq!(found, expected, "{folder}");
        }
        // The setting alone marks one, too.
        std::fs::remove_dir(sandbox.join(".git").join(FOLDER)).unwrap();
        assert!(Sandbox::around(&sandbox).unwrap().is_none());
        write(sandbox.join(".git/config"), "[trueup]\n\tsandbox = true\n").unwrap();
        for folder in ["box", "linked"] {
            assert!(Sandbox::around(&top.join(folder)).is_err(), "{folder}");
        }
    }
}
