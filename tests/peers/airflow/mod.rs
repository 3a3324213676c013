//! Plans as DAGs of a real Airflow: imported, checked, and carried out.

mod all_sites;
mod carried;
#[path = "../../it/simulation/drawn.rs"]
#[expect(dead_code, reason = "what is edited later is for simulations")]
mod drawn;
mod equal;
mod harm;
mod imported;
#[path = "../../it/simulation/ledger.rs"]
#[expect(dead_code, reason = "some questions are asked of simulations only")]
mod ledger;
mod many;
mod overhead;
mod processes;
mod rollout;
mod scheduler;
#[path = "../../it/simulation/sites.rs"]
#[expect(dead_code, reason = "the site that is not drawn is for simulations")]
mod sites;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use super::harness::{shared, skip, turn};

/// The packages of an environment, which are got once.
const AIRFLOW: (&str, &str) = ("airflow", "apache-airflow==3.3.2");
const RUFF: (&str, &str) = ("ruff", "ruff==0.17.6");

/// The programs of a Python environment; `None`, said loudly, if they cannot be had.
fn python((name, package): (&str, &str)) -> Option<PathBuf> {
    let script = shared("peers/python-env.sh")?;
    let _turn = turn(&format!("python-{name}"));
    let ended = Command::new(script).args([name, package]).output();
    match ended {
        Ok(ended) if ended.status.success() => {
            let folder = String::from_utf8(ended.stdout).unwrap();
            Some(Path::new(folder.trim()).join("bin"))
        }
        _ => {
            skip(&format!("{package} cannot be got from PyPI"));
            None
        }
    }
}

/// All that a program printed.
fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// A site of simulated machines, its remote, clones of it for workers, and an Airflow.
struct Lab {
    folder: TempDir,
    /// The programs of Airflow.
    airflow: PathBuf,
    /// More of the environment of its programs.
    environment: BTreeMap<String, String>,
}

impl Lab {
    /// An Airflow, and the remote of a repository.
    fn empty() -> Option<Self> {
        let lab = Self {
            airflow: python(AIRFLOW)?,
            folder: TempDir::new().unwrap(),
            environment: BTreeMap::new(),
        };
        for folder in ["home", "airflow", "dags"] {
            std::fs::create_dir(lab.path(folder)).unwrap();
        }
        lab.write(
            "gitconfig",
            "[user]\n\tname = Ada\n\temail = ada@example.org\n",
        );
        lab.git(
            ".",
            &[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                "origin.git",
            ],
        );
        Some(lab)
    }

    /// The example of that many machines, published, and planned as `site.plan`.
    fn new(machines: usize) -> Option<Self> {
        let lab = Self::empty()?;
        lab.trueup(".", &["init", "edge"]);
        lab.git("edge", &["branch", "--move", "main"]);
        let networks = std::fs::read_to_string(lab.path("edge/networks.yaml")).unwrap();
        let networks = networks
            .replace("10.40.1.", "10.41.0.")
            .replace("/24", "/16")
            .replace(
                "10.40.0.100, end: 10.40.0.199",
                "10.40.250.1, end: 10.40.250.200",
            )
            .replace("10.40.0.99", "10.40.249.250")
            .replace("10.41.0.99", "10.41.249.250");
        lab.write("edge/networks.yaml", &networks);
        lab.write("edge/nodes.yaml", &nodes(machines));
        lab.git("edge", &["add", "--all"]);
        lab.git("edge", &["commit", "--quiet", "-m", "The site"]);
        let origin = lab.path("origin.git");
        lab.git(
            "edge",
            &["remote", "add", "origin", origin.to_str().unwrap()],
        );
        lab.git(
            "edge",
            &["push", "--quiet", "--set-upstream", "origin", "main"],
        );
        let plan = lab.path("site.plan");
        lab.trueup("edge", &["plan", "-o", plan.to_str().unwrap()]);
        Some(lab)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A program in a folder of the lab, in an environment of nothing else.
    fn command(&self, program: impl AsRef<Path>, folder: &str) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = std::env::var_os("PATH").unwrap();
        let airflow = self.path("airflow");
        command
            .current_dir(self.path(folder))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path("home"))
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", self.path("gitconfig"))
            .env("AIRFLOW_HOME", airflow)
            .env("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
            .env("AIRFLOW__CORE__DAGS_FOLDER", self.path("dags"))
            .envs(&self.environment);
        command
    }

    fn ran(command: &mut Command) -> Output {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", said(&output));
        output
    }

    fn git(&self, folder: &str, arguments: &[&str]) -> Output {
        Self::ran(self.command("git", folder).args(arguments))
    }

    fn trueup(&self, folder: &str, arguments: &[&str]) -> Output {
        Self::ran(
            self.command(env!("CARGO_BIN_EXE_trueup"), folder)
                .args(arguments),
        )
    }

    /// A clone of the remote for a worker.
    fn clone(&self, name: &str) -> PathBuf {
        self.git(".", &["clone", "--quiet", "origin.git", name]);
        self.path(name)
    }

    /// Writes the plan as a DAG into a folder; the file.
    fn export(&self, folder: &str, more: &[&str]) -> PathBuf {
        let (plan, out) = (self.path("site.plan"), self.path(folder));
        let (plan, out) = (plan.to_str().unwrap(), out.to_str().unwrap());
        self.trueup(
            "edge",
            &[&["export", "airflow", plan, "-o", out], more].concat(),
        );
        let mut entries = std::fs::read_dir(out)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries
            .find(|path| path.extension().is_some_and(|end| end == "py"))
            .unwrap()
    }

    /// Makes Airflow's database.
    fn migrate(&self) {
        let airflow = self.airflow.join("airflow");
        Self::ran(self.command(airflow, ".").args(["db", "migrate"]));
    }

    /// Imports DAGs as Airflow does.
    fn measured(&self, dags: &[PathBuf]) -> Vec<Value> {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/peers/airflow/measure.py"
        );
        let mut command = self.command(self.airflow.join("python"), ".");
        let output = Self::ran(command.arg(script).args(dags));
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("MEASURED "));
        serde_json::from_str(line.unwrap()).unwrap()
    }
}

/// The id of the DAG in a file.
fn dag_id(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let id = text.lines().find_map(|line| line.strip_prefix("DAG_ID = "));
    id.unwrap().trim_matches('"').to_owned()
}

/// The documents of machines.
fn nodes(machines: usize) -> String {
    let mut text = String::new();
    for number in 1..=machines {
        let address = format!("{}.{}", number / 200, 11 + number % 200);
        write!(
            text,
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: edge-{number}}}\ndata:\n  \
             host_profile: worker\n  metadata: {{rack: closet, tags: [worker]}}\n  addressing:\n    \
             - {{network: pxe, address: 10.40.{address}}}\n    - {{network: oam, address: 10.41.{address}}}\n"
        )
        .unwrap();
    }
    text
}
