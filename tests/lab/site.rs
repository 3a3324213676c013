//! A site of some machines of the lab, and the program's commands in it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::gate::{Gate, Trap};
use crate::machines::{Machines, uuid};

/// What all sites have in common.
const GENERAL: &str = include_str!("site.yaml");

/// A site.
pub(crate) struct Site {
    folder: TempDir,
    pub(crate) gate: Gate,
}

impl Site {
    /// Describes machines, by their numbers; nothing is recorded of them.
    pub(crate) fn new(lab: &Machines, numbers: &[usize], image: &str) -> Self {
        let gate = Gate::open(lab.redfish);
        let site = Self {
            folder: TempDir::new().unwrap(),
            gate,
        };
        let images = lab.images.port().to_string();
        let mut text = GENERAL
            .replace("{images}", &images)
            .replace("{port}", &site.gate.port().to_string())
            .replace("{image}", image);
        for number in numbers {
            let (uuid, mac) = (uuid(*number), lab.mac(*number));
            text.push_str(&format!(
                "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: n{number}}}\ndata:\n  host_profile: machine\n  \
                 oob: {{type: redfish, address: 127.0.0.1, system: {uuid}, uuid: {uuid}}}\n  \
                 metadata: {{boot_mac: '{mac}', tags: [all]}}\n"
            ));
        }
        fs::create_dir(site.path()).unwrap();
        fs::write(site.path().join("site-definition.yaml"), text).unwrap();
        site.git(&["init", "-q", "-b", "main"]);
        site.commit("Describe machines");
        site.run(&["trust", "--yes"], 0);
        site
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(self.path());
        assert!(environment(&mut command, self).status().unwrap().success());
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// Changes the documents, and commits that.
    pub(crate) fn edit(&self, old: &str, new: &str) {
        let path = self.path().join("site-definition.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{old}");
        fs::write(&path, text.replace(old, new)).unwrap();
        self.commit(new);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trueup"));
        command.args(arguments).current_dir(self.path());
        environment(&mut command, self).stdin(Stdio::null());
        command
    }

    /// Runs a command, which ends with this code; its output.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str], code: i32) -> String {
        let ended = self.command(arguments).output().unwrap();
        let said = said(&ended);
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }

    /// Runs a command that may end in any way.
    pub(crate) fn any(&self, arguments: &[&str]) -> String {
        said(&self.command(arguments).output().unwrap())
    }

    /// Runs a command that is killed at one of its changes; all that it printed until then.
    pub(crate) fn killed_at(&self, arguments: &[&str], change: usize, is_after: bool) -> String {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        self.gate.set(Trap {
            process: child.id(),
            change,
            is_after,
        });
        let ended = child.wait_with_output().unwrap();
        self.gate.take();
        said(&ended).trim_end().to_owned()
    }

    /// The status of a node in JSON.
    pub(crate) fn status(&self, node: &str) -> Value {
        let ended = self.command(&["status", node, "--format", "json"]).output();
        let ended = ended.unwrap();
        let all: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let nodes = all["nodes"].as_array().expect("a list of nodes");
        nodes[0].clone()
    }

    /// The run that was interrupted.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let ended = self.command(&["status", "--format", "json"]).output();
        let all: Value = serde_json::from_slice(&ended.unwrap().stdout).unwrap();
        Some(all["unfinished_run"]["run"].as_str()?.to_owned())
    }
}

/// All that a command has printed.
pub(crate) fn said(ended: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    format!("{:?}\n{out}\n{err}", ended.status)
}

fn environment<'c>(command: &'c mut Command, site: &Site) -> &'c mut Command {
    let home = site.folder.path().join("home");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TRUEUP_")) {
        command.env_remove(name);
    }
    command.env("HOME", &home).env("XDG_CONFIG_HOME", home);
    command
        .env("NO_COLOR", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "lab");
        command.env(format!("GIT_{who}_EMAIL"), "lab@example.org");
    }
    command
}
