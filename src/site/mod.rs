//! The only loader: finds, parses, renders, types and checks a site at one revision.
//!
//! [`Loader`] lives as long as the program: it owns the sources that all marks point into, and
//! parses a file only once, so that two revisions that share a file share its parse.

mod cached;
mod chunks;
mod common;
mod consequence;
mod definition;
mod files;
mod find;
mod guards;
mod leaf;
mod load;
mod machines;
mod mask;
mod names;
mod rendered;
mod sandbox;
mod several;
mod unit;
mod units;
mod wanted;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::design::{Design, Documented, Guards, NodeName, SiteName};
use crate::diagnostic::Diagnostics;
use crate::document::Document;
use crate::render::Rendering;
use crate::repository::{BlobId, CommitId, Mode, Repository, Selection, Tree, site_digest};

pub use find::{FoundSite, is_layered, locate, locate_all, locate_at, site_around, site_names};
pub use guards::GuardDocuments;
pub use load::Loader;
pub use names::Names;
pub use rendered::RenderedText;
pub use sandbox::{Outside, Sandbox, SandboxSettings};
pub use units::Sizes;

/// Which revision of the files is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// The files as they are, committed or not.
    Worktree,
    /// A commit.
    Commit(CommitId),
}

impl At {
    /// It, or the commit that `HEAD` names of a repository that has no worktree: if its sites are is looked for there.
    fn or_head(self, repository: &Repository) -> Result<Self, Error> {
        match (self, repository.is_bare()) {
            (Self::Worktree, true) => match repository.head()? {
                Some(commit) => Ok(Self::Commit(commit)),
                None => Err(Error::Repository(crate::repository::Error::Unborn {
                    path: repository.root().to_owned(),
                })),
            },
            _ => Ok(self),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worktree => f.write_str("the worktree"),
            Self::Commit(commit) => write!(f, "commit {commit}"),
        }
    }
}

/// Why a site could not be found or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Git failed.
    #[error(transparent)]
    Repository(#[from] crate::repository::Error),
    /// There is no site at all.
    #[error(
        "there is no site here: no `site-definition.yaml` from `{from}` upward, or below the top"
    )]
    NoSite {
        /// Where the search began, in the repository.
        from: String,
        /// Whether no commit is checked out, of a repository that has some.
        is_unborn: bool,
    },
    /// The named site was not found.
    #[error("there is no site `{wanted}`")]
    UnknownSite {
        /// The name.
        wanted: String,
        /// The sites that are there.
        sites: Vec<String>,
    },
    /// The site is in the worktree, under this name, and not in a commit.
    #[error("{at} has no site `{site}`")]
    NotThere {
        /// The name in the worktree.
        site: String,
        /// The revision.
        at: String,
        /// The sites that are there.
        sites: Vec<String>,
    },
    /// Several sites, and none was named.
    #[error("there are several sites: {}", shown(sites))]
    SeveralSites {
        /// Their names.
        sites: Vec<String>,
    },
    /// Another repository was given that the definition of the site does not name.
    #[error("the definition of site `{site}` names no repository `{repository}`")]
    UnknownRepository {
        /// The site.
        site: String,
        /// The name as it was given.
        repository: String,
        /// The names in the definition.
        known: Vec<String>,
    },
    /// Neither the operator nor the definition names a revision of another repository.
    #[error("the definition names no revision of repository `{repository}`")]
    NoRevision {
        /// Its name.
        repository: String,
    },
    /// Another repository has nothing of the site.
    #[error("repository `{repository}` has no documents of the site at `{revision}`: no YAML files in {}", listed(.folders))]
    NothingThere {
        /// Its name.
        repository: String,
        /// The revision.
        revision: String,
        /// The folders that were looked in.
        folders: Vec<String>,
    },
    /// Git failed in another repository.
    #[error("repository `{repository}`: {source}")]
    OtherRepository {
        /// Its name.
        repository: String,
        /// Why.
        source: crate::repository::Error,
    },
    /// Several definitions have one name.
    #[error("several definitions are of a site `{name}`: {}", shown(.definitions))]
    RepeatedSite {
        /// The name.
        name: String,
        /// Their paths.
        definitions: Arc<[String]>,
    },
    /// The settings of a sandbox cannot be used: its documents must not be taken for those of a real site.
    #[error("the settings of the sandbox `{}` cannot be used: {problem}", path.display())]
    Sandbox {
        /// The file, or the folder of all.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A command in a sandbox would reach what is outside of it.
    #[error("this clone is a sandbox: {0}")]
    Outside(&'static str),
    /// A site's name cannot be used.
    #[error("the site's name `{name}` in `{definition}` {problem}")]
    BadName {
        /// Its definition.
        definition: String,
        /// The name.
        name: String,
        /// The problem.
        problem: &'static str,
    },
}

impl Error {
    /// The way out, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Repository(error) => error.hint(),
            Self::NoSite { is_unborn: true, .. } => Some(
                "no commit is checked out: `git switch BRANCH` does that, and `git branch --all` lists the branches"
                    .to_owned(),
            ),
            Self::NoSite { .. } => {
                Some("`trueup init DIR` writes a small site that works".to_owned())
            }
            Self::UnknownSite { wanted, sites } => {
                let near = crate::diagnostic::nearest(wanted, sites.iter().map(String::as_str));
                Some(match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the sites are: {}; `trueup sites` lists them", shown(sites)),
                })
            }
            Self::NotThere { site, sites, .. } => Some(format!(
                "the site is called `{site}` in the worktree only; {}: commit the change, or take it back",
                match sites.is_empty() {
                    true => "there is none there".to_owned(),
                    false => format!("the sites there are: {}", shown(sites)),
                }
            )),
            Self::SeveralSites { .. } => Some("pick one with `--site NAME`".to_owned()),
            Self::UnknownRepository {
                repository, known, ..
            } => {
                let names = known.iter().map(String::as_str);
                let near = crate::diagnostic::nearest(repository, names);
                Some(match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => {
                        "`repositories` of its `site-definition.yaml` names other repositories"
                            .to_owned()
                    }
                    None => format!("the repositories are: {}", known.join(", ")),
                })
            }
            Self::NoRevision { repository } => {
                Some(format!("pass `--repository {repository}=PATH@REV`"))
            }
            Self::NothingThere { repository, .. } => Some(format!(
                "`git ls-tree -r --name-only REV` in it lists its files; `--repository {repository}=PATH@REV` names another revision"
            )),
            Self::RepeatedSite { .. } => {
                Some("give each a name of its own: records, locks and tags are by name".to_owned())
            }
            Self::Sandbox { .. } => Some(
                "make another sandbox with `trueup try new DIR`, in the repository that this one was made of"
                    .to_owned(),
            ),
            Self::Outside(_) => {
                Some("run the command in the repository that the sandbox was made of".to_owned())
            }
            Self::OtherRepository { .. } | Self::BadName { .. } => None,
        }
    }
}

/// The first of some names, and how many more there are.
fn shown(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let few = names.iter().take(SHOWN).map(|name| format!("`{name}`"));
    let few = few.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => few,
        more => format!("{few} and {more} more"),
    }
}

fn listed(folders: &[String]) -> String {
    let folders: Vec<String> = folders
        .iter()
        .map(|folder| format!("`{folder}/`"))
        .collect();
    folders.join(", ")
}

/// Where the documents of a site are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Its name.
    pub site: SiteName,
    /// Its `site-definition.yaml`.
    pub definition: Arc<str>,
    /// Whether it is one folder; else it is in Pegleg's layout.
    pub is_flat: bool,
    /// Its files.
    pub selection: Selection,
}

impl Location {
    /// Whether a site, flat or not, leaves a file out though it lies among its own.
    #[must_use]
    pub fn is_left_out(is_flat: bool, path: &str) -> bool {
        wanted::is_tool(is_flat, path)
    }
}

/// One file of a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SiteFile {
    /// Its path in the repository.
    pub path: Arc<str>,
    /// The mode in git.
    pub mode: Mode,
    /// The id of its bytes.
    pub blob: BlobId,
}

fn digest_of(files: &[SiteFile]) -> Arc<str> {
    site_digest(files.iter().map(|file| (&*file.path, file.mode, file.blob)))
}

/// A site at one revision, rendered, typed and (where asked for) checked.
#[derive(Debug)]
pub struct Site {
    /// Where it is.
    pub location: Location,
    /// At which revision.
    pub at: At,
    /// Its files, sorted by path.
    pub files: Vec<SiteFile>,
    /// SHA-256 over the sorted (path, mode, blob id) of its files.
    pub digest: Arc<str>,
    /// Its documents as they were written, without those of machines that are not explained.
    pub documents: Vec<Arc<Document>>,
    /// The same, rendered.
    pub rendering: Rendering,
    /// The design of all of them.
    pub design: Arc<Design>,
    /// The guards as its documents say them. Those that hold are resolved of several revisions.
    pub documented_guards: Arc<Guards>,
    /// The problems, sorted, without warnings about machines that are not explained.
    pub diagnostics: Diagnostics,
    /// Warnings in all of it.
    pub warnings: usize,
    unexplained: Option<Unexplained>,
}

impl Site {
    /// Its design, and its guards as its documents say them.
    #[must_use]
    pub fn documented(&self) -> Documented {
        Documented {
            design: self.design.clone(),
            guards: self.documented_guards.clone(),
        }
    }

    /// How many machines are not explained: only their designs are at hand, and not their documents.
    #[must_use]
    pub fn unexplained(&self) -> usize {
        let files = self.unexplained.iter().flat_map(|all| &all.files);
        files.map(|file| file.nodes.len()).sum()
    }
}

/// The machines of a site that are not explained, and how to explain them.
#[derive(Debug)]
struct Unexplained {
    tree: Arc<Tree>,
    /// Sorted by position.
    files: Vec<UnexplainedFile>,
    sources: Range<u32>,
    settings: Settings,
}

/// A file of machines of which only the designs are at hand.
#[derive(Debug)]
struct UnexplainedFile {
    /// Its position among the files of the site.
    position: usize,
    nodes: Box<[NodeName]>,
    warnings: u32,
}

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Parsed and rendered only; the design stays empty.
    Rendered,
    /// Typed, without schemas and rules: for a revision that was checked when it was applied.
    Typed,
    /// Everything.
    Checked,
}

/// How much stays of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All documents, and what explains every machine.
    Documents,
    /// All warnings, and the designs of machines.
    Warnings,
    /// The designs of machines.
    Designs,
}

/// How a site is read.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How much is checked.
    pub depth: Depth,
    /// How much stays.
    pub detail: Detail,
    /// The accepted defects.
    pub accept: Accept,
}

/// Defects that are warnings instead of errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accept {
    /// A substitution whose source was not found.
    pub missing_sources: bool,
    /// A key that is twice in a map, of which the last counts.
    pub duplicate_keys: bool,
}
