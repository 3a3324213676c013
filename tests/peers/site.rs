//! A site in a git repository of its own, and the program as a user runs it there.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;

/// A repository on the branch `main`, removed when it is dropped.
pub(crate) struct Site {
    folder: TempDir,
    /// What lies outside the checkout: the operator's own configuration.
    home: TempDir,
}

/// What a command ended with.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The same, having ended with this exit code.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.code, code, "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }

    /// What it printed for scripts.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self:?}"))
    }
}

impl Site {
    /// A repository with these files in one commit.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let site = Self {
            folder: TempDir::new().unwrap(),
            home: TempDir::new().unwrap(),
        };
        site.git(&["init", "--quiet", "--initial-branch=main"]);
        site.commit(files);
        site
    }

    /// A clone of a repository.
    pub(crate) fn clone_of(url: &str) -> Self {
        let site = Self {
            folder: TempDir::new().unwrap(),
            home: TempDir::new().unwrap(),
        };
        site.git(&["clone", "--quiet", url, "."]);
        site
    }

    /// Its folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes files, and commits everything.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", "The site"]);
    }

    pub(crate) fn git(&self, arguments: &[&str]) {
        let ended = self.run("git", arguments, &[]).with(0);
        assert!(ended.stderr.is_empty(), "{ended:?}");
    }

    /// Runs `trueup` in it with nothing of the environment but these variables.
    pub(crate) fn trueup(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
        self.trust(environment);
        self.run(env!("CARGO_BIN_EXE_trueup"), arguments, environment)
    }

    /// Trusts what the site's documents would have `trueup` use, as an operator does.
    pub(crate) fn trust(&self, environment: &[(&str, &str)]) {
        let ended = self.run(
            env!("CARGO_BIN_EXE_trueup"),
            &["trust", "--yes"],
            environment,
        );
        assert!(ended.code <= 1, "{ended:?}");
    }

    /// Starts `trueup` in it, to be waited for or killed; its standard error is to be read or inherited.
    pub(crate) fn start(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
        stderr: Stdio,
    ) -> Child {
        self.trust(environment);
        self.command(env!("CARGO_BIN_EXE_trueup"), arguments, environment)
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap()
    }

    /// The program to be started in it, trusted as it is.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        self.trust(&[]);
        self.command(env!("CARGO_BIN_EXE_trueup"), arguments, &[])
    }

    fn run(&self, program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
        let output = self
            .command(program, arguments, environment)
            .output()
            .unwrap();
        Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn command(&self, program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home.path())
            .env("LC_ALL", "C")
            .env("NO_COLOR", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_NAME", "Ada")
            .env("GIT_AUTHOR_EMAIL", "ada@example.org")
            .env("GIT_COMMITTER_NAME", "Ada")
            .env("GIT_COMMITTER_EMAIL", "ada@example.org")
            .envs(environment.iter().copied())
            .stdin(Stdio::null());
        command
    }
}

/// Runs `trueup` in a site; what the tests play goes on meanwhile.
pub(crate) async fn trueup_meanwhile(
    site: Arc<Site>,
    arguments: &[&str],
    environment: &'static [(&'static str, &'static str)],
) -> Ended {
    let arguments: Vec<String> = arguments.iter().map(|each| (*each).to_owned()).collect();
    let ended = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        site.trueup(&arguments, environment)
    });
    ended.await.unwrap()
}

#[test]
fn the_program_runs_in_a_site_of_its_own() {
    let site = Site::new(&[(
        "site-definition.yaml",
        "---\nschema: pegleg/SiteDefinition/v1\nmetadata: {name: lab, schema: metadata/Document/v1, \
         layeringDefinition: {abstract: false, layer: site}, storagePolicy: cleartext}\ndata: {site_type: lab}\n",
    )]);
    assert!(site.path().join(".git").exists());
    let ended = site.trueup(&["validate", "--format", "json"], &[]);
    assert!(
        ended.json().is_object() || ended.json().is_array(),
        "{ended:?}"
    );
}
