//! Repositories made for a test: fixed author, date and home, nothing of the person who runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use trueup::repository::{CommitId, Repository};

use crate::folder::folder;

/// A folder with a git repository in it, removed when it is dropped.
pub(crate) struct Checkout {
    folder: TempDir,
    path: PathBuf,
}

impl Checkout {
    /// An empty repository on the branch `main`.
    pub(crate) fn new() -> Self {
        let folder = folder();
        let path = folder.path().canonicalize().unwrap().join("repository");
        place(&path.join(".git"), "\tbare = false\n");
        Self { folder, path }
    }

    /// A clone of a repository, with more arguments for `git clone`.
    pub(crate) fn clone_of(origin: &str, arguments: &[&str]) -> Self {
        let folder = folder();
        let path = folder.path().canonicalize().unwrap().join("repository");
        let mut all = vec!["clone", "--quiet"];
        all.extend(arguments);
        all.extend([origin, path.to_str().unwrap()]);
        git_in(folder.path(), &all);
        Self { folder, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A folder beside the repository.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn open(&self) -> Repository {
        Repository::discover(&self.path).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[cfg(unix)]
    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.path.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// Commits everything, as `git add --all` and `git commit --allow-empty` do, and without a process.
    pub(crate) fn commit(&self, message: &str) -> CommitId {
        let needs_git = |file: &str| self.path.join(file).exists();
        match git2::Repository::open(&self.path) {
            Ok(repository) if ![".gitattributes", ".gitmodules"].into_iter().any(needs_git) => {
                commit_in(&repository, message)
            }
            // Filters, submodules, and forms of a repository that the library does not know.
            _ => {
                self.git(&["add", "--all"]);
                self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
                self.git(&["rev-parse", "HEAD"]).parse().unwrap()
            }
        }
    }

    /// What git says on its standard output, trimmed; it must succeed.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git_in(&self.path, arguments)
    }
}

/// A bare repository that takes pushes, removed when it is dropped.
pub(crate) struct Origin {
    folder: TempDir,
}

impl Origin {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let folder = folder();
        // Fetching by id, as hosts allow it.
        let hosts = "[uploadpack]\n\tallowAnySHA1InWant = true\n\tallowFilter = true\n";
        let settings = format!("\tbare = true\n[receive]\n\tautogc = false\n{hosts}");
        place(folder.path(), &settings);
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.folder.path().display())
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git_in(self.folder.path(), arguments)
    }
}

/// Makes a repository without commits, as `git init` does with an empty template, and without a process: there are
/// thousands of them.
pub(crate) fn place(folder: &Path, settings: &str) {
    for part in ["objects/pack", "refs/heads", "refs/tags", "info", "hooks"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
    }
    std::fs::write(folder.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = format!("[core]\n\trepositoryformatversion = 0\n{settings}");
    std::fs::write(folder.join("config"), config).unwrap();
}

fn commit_in(repository: &git2::Repository, message: &str) -> CommitId {
    let mut index = repository.index().unwrap();
    index
        .add_all(["*"], git2::IndexAddOption::DEFAULT, None)
        .unwrap();
    index.update_all(["*"], None).unwrap();
    index.write().unwrap();
    let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
    let parent = match repository.head() {
        Ok(head) => Some(head.peel_to_commit().unwrap()),
        Err(error) if error.code() == git2::ErrorCode::UnbornBranch => None,
        Err(error) => panic!("{error}"),
    };
    let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
    let when = git2::Time::new(1_700_000_000, 0);
    let ada = git2::Signature::new("Ada", "ada@example.org", &when).unwrap();
    let message = format!("{message}\n");
    let id = repository.commit(Some("HEAD"), &ada, &ada, &message, &tree, &parents);
    id.unwrap().to_string().parse().unwrap()
}

fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "protocol.file.allow=always"])
        // Nothing here gets old, and each commit would start two processes to see that.
        .args(["-c", "maintenance.auto=false"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("HOME", folder)
        .env("LC_ALL", "C")
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("GIT_AUTHOR_EMAIL", "ada@example.org")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_NAME", "Ada")
        .env("GIT_COMMITTER_EMAIL", "ada@example.org")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
