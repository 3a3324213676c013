//! The program as a user runs it: in a repository made for the test, with an environment of its own.
//!
//! Nothing of the person who runs the tests is seen by it: no home, no configuration of git, no
//! terminal, no colours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::git::Checkout;

/// What a command ended with.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code; a signal's death is -1.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// The same, having ended with this exit code.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// The same, having said this on its standard error.
    #[track_caller]
    pub(crate) fn saying(self, words: &str) -> Self {
        assert!(
            self.stderr.contains(words),
            "`{words}` is not said\nstdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// What it printed for scripts.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "{error}\nstdout:\n{}\nstderr:\n{}",
                self.stdout, self.stderr
            )
        })
    }

    /// The changes of the plan that it printed as JSON, other than none: node and kind.
    #[track_caller]
    pub(crate) fn changes(&self) -> BTreeMap<String, String> {
        let plan = self.json();
        plan["changes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|change| change["kind"] != "none")
            .map(|change| (text(&change["node"]), text(&change["kind"])))
            .collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// A site in a repository.
pub(crate) struct Fixture {
    pub(crate) checkout: Checkout,
    site: String,
}

impl Fixture {
    /// A repository without anything in it.
    pub(crate) fn empty(site: &str) -> Self {
        Self::of(Checkout::new(), site)
    }

    /// A site in a checkout.
    pub(crate) fn of(checkout: Checkout, site: &str) -> Self {
        Self {
            checkout,
            site: site.to_owned(),
        }
    }

    /// The name of the site.
    pub(crate) fn site(&self) -> &str {
        &self.site
    }

    /// A copy of the example site `one-rack`, with the specification's strategy, a simulator without
    /// faults, and one commit.
    pub(crate) fn one_rack() -> Self {
        Self::one_rack_with_faults("[]")
    }

    /// The same, with a fault script.
    pub(crate) fn one_rack_with_faults(faults: &str) -> Self {
        let fixture = Self::empty("one-rack");
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/one-rack");
        copy_folder(&example, fixture.checkout.path());
        fixture.faults(faults);
        fixture.checkout.commit("The site as it begins");
        fixture
    }

    /// Writes the simulator's settings with a fault script.
    pub(crate) fn faults(&self, faults: &str) {
        self.simulator(&format!(
            "{{clock: virtual, durations: {{prepare: 240, deploy: 1200, destroy: 300}}, faults: {faults}}}"
        ));
    }

    /// Writes the simulator's settings.
    pub(crate) fn simulator(&self, settings: &str) {
        self.simulator_at("backends.yaml", settings);
    }

    /// The same, in a file.
    pub(crate) fn simulator_at(&self, path: &str, settings: &str) {
        self.checkout.write(
            path,
            format!(
                "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  \
                 hardware:\n    kind: sim\n    sim: {settings}\n"
            ),
        );
    }

    /// Moves the management controllers of `one_rack` to addresses of this machine.
    pub(crate) fn on_loopback(&self) {
        let mut folders = vec![self.checkout.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    folders.extend((entry.file_name() != ".git").then_some(path));
                } else if path.extension().is_some_and(|end| end == "yaml") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    std::fs::write(&path, text.replace("10.20.0.", "127.20.0.")).unwrap();
                }
            }
        }
    }

    /// Replaces one piece of a file, which must be there exactly once.
    #[track_caller]
    pub(crate) fn edit(&self, path: &str, old: &str, new: &str) {
        let text = self.read(path);
        assert_eq!(text.matches(old).count(), 1, "`{old}` in {path}:\n{text}");
        self.checkout.write(path, text.replace(old, new));
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.checkout.path().join(path)).unwrap()
    }

    /// The program, to be run in the checkout.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trueup"));
        command
            .args(arguments)
            .current_dir(self.checkout.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.checkout.outside())
            .env("LC_ALL", "C")
            .env("NO_COLOR", "1")
            .env("PAGER", "cat")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env(
                "GIT_CONFIG_GLOBAL",
                self.checkout.outside().join(".gitconfig"),
            )
            .env("GIT_COMMITTER_NAME", "Ada")
            .env("GIT_COMMITTER_EMAIL", "ada@example.org")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.command(arguments).output().unwrap().into()
    }

    /// Starts the program, to be waited for or killed.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Commits everything and applies it.
    pub(crate) fn commit_and_apply(&self, message: &str, more: &[&str]) -> Ended {
        self.checkout.commit(message);
        self.run(&[&["apply", "--yes"], more].concat())
    }

    /// The changes of a plan of what is in the worktree.
    #[track_caller]
    pub(crate) fn planned(&self, more: &[&str]) -> BTreeMap<String, String> {
        self.run(&[&["plan", "--format", "json"], more].concat())
            .with(0)
            .changes()
    }

    /// The tags of the site's actions, sorted; `success` or `failure` alone.
    pub(crate) fn tags(&self) -> Vec<String> {
        let mut kinds = Vec::new();
        for tag in self.tag_names() {
            let (kind, rest) = tag.split_once('/').unwrap();
            assert!(rest.starts_with(&format!("{}/", self.site)), "{tag}");
            kinds.push(kind.trim_start_matches("site-action-").to_owned());
        }
        kinds
    }

    /// The tags of the site's actions in full, by run.
    pub(crate) fn tag_names(&self) -> Vec<String> {
        let all = self.checkout.git(&["tag", "--list", "site-action-*"]);
        let mut tags: Vec<String> = all.lines().map(str::to_owned).collect();
        tags.sort_by_key(|tag| tag.rsplit_once('/').map(|(_, run)| run.to_owned()));
        tags
    }

    /// The file of the simulated site.
    pub(crate) fn simulated_site(&self) -> PathBuf {
        let folder = self.checkout.path().join(".git/trueup").join(&self.site);
        folder.join("simulated-site.json")
    }

    /// Kills the next process that begins a step of a machine.
    pub(crate) fn kill_at(&self, node: &str, step: &str) {
        let kill = self.simulated_site().with_added_extension("kill");
        let folder = kill.parent().expect("a folder of the site");
        std::fs::create_dir_all(folder).expect("a folder of the site");
        let at = format!(r#"{{"nodes": ["{node}"], "step": "{step}"}}"#);
        std::fs::write(&kill, at).expect("a kill");
    }

    /// Suspends a process that works at the simulated site, at an instant when the machines still answer others: one that
    /// sleeps in the middle of a request holds the file that stands for all of them.
    pub(crate) fn suspend(&self, child: &Child) {
        let machines = std::fs::File::open(self.simulated_site()).unwrap();
        loop {
            signal(child, "STOP");
            if machines.try_lock().is_ok() {
                return machines.unlock().unwrap();
            }
            signal(child, "CONT");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// All that ever happened to the simulated site: how often each effect took place, as
    /// `NODE EFFECT`, such as `ntp01 deployed`.
    pub(crate) fn ledger(&self) -> BTreeMap<String, usize> {
        use trueup::backend::hardware::sim::{Effect, Settings, Simulator};
        let path = self.simulated_site();
        let simulator = Simulator::open(&path, Settings::default()).unwrap();
        let mut counts = BTreeMap::new();
        let lines = std::fs::read_to_string(&path).unwrap();
        let names: std::collections::BTreeSet<String> = lines
            .lines()
            .skip(1)
            .map(|line| text(&serde_json::from_str::<Value>(line).unwrap()["node"]))
            .collect();
        for name in names {
            let node = trueup::design::NodeName::from(name.as_str());
            let machine = simulator.machine(&node).unwrap().unwrap();
            for effect in machine.ledger.effects() {
                let what = match effect {
                    Effect::WroteDisk(disk) => format!("wrote {disk}"),
                    Effect::WipedDisk(disk) => format!("wiped {disk}"),
                    Effect::WipedMetadata(disk) => format!("wiped metadata of {disk}"),
                    Effect::CleanStepBegun(step) => format!("began {step}"),
                    // The others by the name that they have in the file.
                    other => match serde_json::to_value(other).unwrap() {
                        Value::Object(fields) => fields.keys().next().unwrap().clone(),
                        name => text(&name),
                    },
                };
                *counts.entry(format!("{name} {what}")).or_default() += 1;
            }
        }
        counts
    }

    /// How often an effect took place, over all nodes.
    pub(crate) fn effects(&self, what: &str) -> usize {
        let ledger = self.ledger();
        let same = ledger
            .iter()
            .filter(|(key, _)| key.split_once(' ').map(|(_, effect)| effect) == Some(what));
        same.map(|(_, count)| count).sum()
    }
}

/// Waits until something holds; fails the test when it does not within five minutes, which a busy machine may need.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &pid]).status();
    assert!(sent.unwrap().success());
}

/// Copies a folder with all that is in it, but git's own.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            if entry.file_name() != ".git" {
                copy_folder(&entry.path(), &target);
            }
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}
