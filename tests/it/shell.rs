//! Commands of console blocks, run by `sh` with the program on its path, and nothing of the person who runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::folder::folder;

/// A folder in which commands run, and a home of their own; both are removed when it is dropped.
pub(crate) struct Shell {
    outside: TempDir,
    folder: PathBuf,
}

impl Shell {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        let outside = folder();
        let top = outside.path().canonicalize().unwrap();
        let folder = top.join("site");
        std::fs::create_dir(top.join("home")).unwrap();
        std::fs::create_dir(&folder).unwrap();
        Self { outside, folder }
    }

    /// The folder that holds all others, without symbolic links.
    pub(crate) fn outside(&self) -> PathBuf {
        self.outside.path().canonicalize().unwrap()
    }

    /// Runs a command; gives its exit code and all that it printed, in the order in which it did. `cd DIR` alone
    /// holds for the commands behind it.
    pub(crate) fn run(&mut self, command: &str) -> (i32, String) {
        if let Some(inner) = command.strip_prefix("cd ") {
            self.folder = self.folder.join(inner).canonicalize().unwrap();
            return (0, String::new());
        }
        let output = self.command(command).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code().unwrap_or(-1), printed)
    }

    fn command(&self, command: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_trueup"));
        let mut search = vec![program.parent().unwrap().to_path_buf()];
        search.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", std::env::join_paths(search).unwrap())
            .env("HOME", self.outside.path().join("home"))
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("NO_COLOR", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "Ada")
            .env("GIT_AUTHOR_EMAIL", "ada@example.org")
            .env("GIT_AUTHOR_DATE", "1700000000 +0000")
            .env("GIT_COMMITTER_NAME", "Ada")
            .env("GIT_COMMITTER_EMAIL", "ada@example.org")
            .env("GIT_COMMITTER_DATE", "1700000000 +0000");
        shell
    }
}
