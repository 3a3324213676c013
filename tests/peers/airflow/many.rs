//! Many simulated sites in one repository, so that one Airflow carries out plans of all of them: its remote, clones of it for
//! workers, and a copy in which the same plans are applied.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use trueup::design::{NodeName, SiteName};
use trueup::record::{RunFile, Store};
use trueup::repository::Repository;
use trueup::run::RunReport;

use super::ledger::{Ledger, Outcome};
use super::{Lab, said};

/// How many clones the workers have.
pub(super) const CLONES: usize = 4;
/// Where the sites are, and where the plans are applied instead.
pub(super) const SHARED: Place = Place {
    origin: "origin.git",
    machines: "machines",
};
pub(super) const ALONE: Place = Place {
    origin: "alone.git",
    machines: "machines-alone",
};
/// All that a plan may be allowed, so that as much as can be is carried out.
pub(super) const ALLOWED: [&str; 8] = [
    "--allow-redeploy",
    "all",
    "--allow-destroy",
    "all",
    "--adopt",
    "all",
    "--skip-blocked",
    "--allow-intermediate-commits",
];

/// A remote, and the folder of the simulated machines of its clones.
#[derive(Clone, Copy)]
pub(super) struct Place {
    origin: &'static str,
    machines: &'static str,
}

/// A plan of a site, exported.
pub(super) struct SitePlan {
    pub(super) site: String,
    pub(super) dag: String,
    path: PathBuf,
    names: BTreeSet<NodeName>,
}

/// The sites.
pub(super) struct Sites {
    pub(super) lab: Lab,
}

impl Sites {
    /// A repository without a site, whose first clone is `first`.
    pub(super) fn new() -> Option<Self> {
        let mut lab = Lab::empty()?;
        lab.git(".", &["clone", "--quiet", "origin.git", "first"]);
        lab.at_machines("first", SHARED);
        let clones = (0..CLONES).map(|clone| lab.path(&format!("worker-{clone}")));
        let clones = std::env::join_paths(clones).unwrap().into_string().unwrap();
        lab.environment.insert("TRUEUP_CHECKOUT".to_owned(), clones);
        for (name, value) in [
            ("TRUEUP_PROGRAM", env!("CARGO_BIN_EXE_trueup")),
            ("TRUEUP_RETRY_DELAY", "1"),
        ] {
            lab.environment.insert(name.to_owned(), value.to_owned());
        }
        Some(Self { lab })
    }

    /// Writes the documents of a site.
    pub(super) fn write(&self, site: &str, documents: &str) {
        let definition =
            format!("schema: pegleg/SiteDefinition/v1\nmetadata: {{name: {site}}}\ndata: {{}}\n");
        self.lab
            .write(&format!("first/{site}/site-definition.yaml"), &definition);
        self.lab
            .write(&format!("first/{site}/site.yaml"), documents);
    }

    /// Copies an example, as a site of this name.
    pub(super) fn copy(&self, site: &str, example: &str) {
        let from = concat!(env!("CARGO_MANIFEST_DIR"), "/site-examples/").to_owned() + example;
        let mut command = self.lab.command("cp", "first");
        Lab::ran(command.args(["-r", &from, site]));
        let definition = format!("{site}/site-definition.yaml");
        let path = self.lab.path("first").join(&definition);
        let text = std::fs::read_to_string(path).unwrap();
        let (own, other) = (format!("name: {site}"), format!("name: {example}"));
        self.lab
            .write(&format!("first/{definition}"), &text.replace(&other, &own));
    }

    /// Commits everything, and publishes it.
    pub(super) fn commit(&self) {
        self.lab.git("first", &["add", "--all"]);
        self.lab.git(
            "first",
            &["commit", "--quiet", "--allow-empty", "-m", "The sites"],
        );
        self.lab
            .git("first", &["push", "--quiet", "origin", "HEAD:main"]);
    }

    /// Applies the documents of a site as they are.
    pub(super) fn apply(&self, site: &str) {
        let mut command = self.trueup("first", site);
        let _ = command
            .args(["apply", "--yes"])
            .args(ALLOWED)
            .output()
            .unwrap();
    }

    /// Plans and exports; `None` if that is refused, or nothing has to be done.
    pub(super) fn plan(
        &self,
        site: &str,
        request: &[&str],
        nodes_per_part: usize,
    ) -> Option<SitePlan> {
        let path = self.lab.path(&format!("{site}.plan"));
        let plan = path.to_str().unwrap();
        let mut command = self.trueup("first", site);
        command.arg("plan").args(request).args(["-o", plan]);
        let output = command.output().unwrap();
        if !output.status.success() {
            eprintln!("{site}: {}", said(&output));
            return None;
        }
        let shown = self
            .trueup("first", site)
            .args(["show", plan, "--format", "json"])
            .output();
        let shown: Value = serde_json::from_slice(&shown.unwrap().stdout).unwrap();
        if shown["steps"].as_array().is_none_or(Vec::is_empty) {
            return None;
        }
        let changes = shown["changes"].as_array().unwrap();
        let nodes = changes
            .iter()
            .map(|change| change["node"].as_str().unwrap());
        let (dags, size) = (self.lab.path("dags"), nodes_per_part.to_string());
        let mut command = self.trueup("first", site);
        command.args(["export", "airflow", plan, "-o", dags.to_str().unwrap()]);
        command.args(["--nodes-per-part", &size, "--pushes-per-minute", "0"]);
        Lab::ran(&mut command);
        let prefix = format!("trueup-{site}-");
        let mut files = std::fs::read_dir(&dags)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let is_own = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(&prefix) && name.ends_with(".py")
        };
        Some(SitePlan {
            site: site.to_owned(),
            dag: super::dag_id(&files.find(is_own).unwrap()),
            path,
            names: nodes.map(NodeName::from).collect(),
        })
    }

    /// The program in a clone, for a site.
    pub(super) fn trueup(&self, clone: &str, site: &str) -> std::process::Command {
        let mut command = self.lab.command(env!("CARGO_BIN_EXE_trueup"), clone);
        command.arg(format!("--site={site}"));
        command
    }

    /// A clone whose sites are at a place.
    pub(super) fn clone(&self, name: &str, place: Place) {
        self.lab.git(".", &["clone", "--quiet", place.origin, name]);
        self.lab.at_machines(name, place);
    }

    /// The clones of the workers, as the remote is now.
    pub(super) fn clones(&self) {
        for clone in 0..CLONES {
            self.clone(&format!("worker-{clone}"), SHARED);
        }
    }

    /// Copies the remote and the machines as they are, and notes all requests from now on.
    pub(super) fn fork(&self, plans: &[SitePlan]) {
        self.lab.git(
            ".",
            &["clone", "--quiet", "--mirror", SHARED.origin, ALONE.origin],
        );
        for plan in plans {
            let [from, to] = [SHARED, ALONE].map(|place| self.folder(place, &plan.site));
            std::fs::create_dir_all(&from).unwrap();
            std::fs::create_dir_all(&to).unwrap();
            let name = "simulated-site.json";
            if from.join(name).exists() {
                std::fs::copy(from.join(name), to.join(name)).unwrap();
            }
            std::fs::write(self.requests(plan), "").unwrap();
        }
        self.clone("alone", ALONE);
    }

    /// Applies a plan in the copy; whether that did well, and all that it came to. `None`: it was not carried out to its end.
    pub(super) fn applied(&self, plan: &SitePlan) -> Option<(bool, Outcome)> {
        let path = plan.path.to_str().unwrap();
        let shown = self
            .trueup("alone", &plan.site)
            .args(["show", path, "--format", "json"])
            .output();
        let shown: Value = serde_json::from_slice(&shown.unwrap().stdout).unwrap();
        let effect = shown["effect"].as_str().unwrap();
        let mut command = self.trueup("alone", &plan.site);
        let output = command
            .args(["apply", path, "--yes", "--effect", effect])
            .output()
            .unwrap();
        match output.status.code() {
            Some(code @ (0 | 7)) => Some((code == 0, self.outcome(plan, ALONE))),
            _ => {
                eprintln!("{}: {}", plan.site, said(&output));
                None
            }
        }
    }

    /// Whether no run has the site.
    pub(super) fn is_over(&self, plan: &SitePlan) -> bool {
        let name = format!("refs/trueup/{}/lock", plan.site);
        let refs = self.lab.git(SHARED.origin, &["for-each-ref", &name]);
        refs.stdout.is_empty()
    }

    /// All that the run of a plan came to at a place.
    pub(super) fn outcome(&self, plan: &SitePlan, place: Place) -> Outcome {
        let name = format!("judged-{}-{}", place.machines, plan.site);
        self.lab.git(".", &["init", "--quiet", &name]);
        let origin = self.lab.path(place.origin);
        let refs = format!("+refs/trueup/{0}/*:refs/trueup/{0}/*", plan.site);
        let tags = "+refs/tags/*:refs/tags/*";
        self.lab.git(
            &name,
            &["fetch", "--quiet", origin.to_str().unwrap(), &refs, tags],
        );
        let repository = Repository::discover(&self.lab.path(&name)).unwrap();
        let own = format!("/{}/", plan.site);
        let refs: Vec<String> = repository.refs("refs/").unwrap().into_keys().collect();
        let left = refs.iter().filter(|name| name.contains(&own));
        let left = left.filter(|name| name.ends_with("/lock") || name.contains("/run/"));
        assert_eq!(left.count(), 0, "{}: {refs:?}", plan.site);
        let tags = refs
            .iter()
            .filter(|name| name.starts_with("refs/tags/") && name.contains(&own));
        let tags: Vec<String> = tags.cloned().collect();
        let store = Store::open(&repository, &SiteName::from(&*plan.site)).unwrap();
        let state = store.read().unwrap();
        let run = state.site.last_run.as_ref().unwrap();
        let report = store
            .run_file(&state, run, RunFile::Report)
            .unwrap()
            .unwrap();
        let report: RunReport = serde_json::from_slice(&report).unwrap();
        Outcome::of(
            &self.ledger(plan, place),
            store.nodes(&state).unwrap(),
            &tags,
            &report,
        )
    }

    /// The machines of a plan's site at a place.
    pub(super) fn ledger(&self, plan: &SitePlan, place: Place) -> Ledger {
        let file = self.folder(place, &plan.site).join("simulated-site.json");
        Ledger::read(&file, &plan.names)
    }

    /// All requests of a plan's run to machines.
    pub(super) fn requests(&self, plan: &SitePlan) -> PathBuf {
        self.folder(SHARED, &plan.site)
            .join("simulated-site.json.requests")
    }

    fn folder(&self, place: Place, site: &str) -> PathBuf {
        self.lab.path(place.machines).join(site)
    }
}

impl Lab {
    /// Lets a clone share the simulated machines of a place.
    fn at_machines(&self, clone: &str, place: Place) {
        let machines = self.path(place.machines);
        let machines = machines.to_str().unwrap();
        self.git(clone, &["config", "trueup.simulatedSites", machines]);
    }
}
