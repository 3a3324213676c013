//! The program as an operator runs it, on a site whose machines the stand-in has.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use serde_json::Value;
use tempfile::TempDir;

use super::lab::node;
use super::placed::{NETWORKS, PARTS};
use super::region::{KEY, Machine, Region, Times, Version};
use super::serve::Server;
use crate::site::{Ended, Site, trueup_meanwhile};

/// The key, as the document refers to it.
pub(super) static ENVIRONMENT: [(&str, &str); 1] = [("MAAS_API_KEY", super::KEY_TEXT)];

pub(super) const GENERAL: &str = "\
---
schema: pegleg/SiteDefinition/v1
metadata: {name: lab}
data: {}
---
schema: drydock/HardwareProfile/v1
metadata: {name: small}
data: {vendor: Any}
---
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  groups:
    - {name: all, critical: true, depends_on: [], selectors: []}
---
schema: trueup/Policy/v1
metadata: {name: policy}
data: {max_unavailable: {total: 3}, max_failures: 1}
";

/// A site of three machines in MAAS, and the region.
pub(super) struct Lab {
    pub(super) region: Region,
    pub(super) site: Arc<Site>,
    server: Server,
}

impl Lab {
    pub(super) async fn start(version: Version) -> Self {
        assert!(ENVIRONMENT[0].1.ends_with(KEY.2));
        let region = Region::new(version)
            .with("abc001", "n1", 0)
            .with("abc002", "n2", 4)
            .with("abc003", "n3", 4);
        let long = Duration::from_millis(1500);
        region.state().times = Times {
            release: Duration::from_millis(300),
            ..Times::all(long)
        };
        let server = region.serve().await;
        let lab = Self {
            site: Arc::new(Site::new(&[
                ("site-definition.yaml", GENERAL),
                ("networks.yaml", NETWORKS),
            ])),
            region,
            server,
        };
        lab.design("noble");
        lab
    }

    /// Commits the documents of backend and machines, deployed from an image.
    pub(super) fn design(&self, image: &str) {
        let backends = format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  allow_plain_http: true\n  hardware:\n    \
             kind: maas\n    maas: {{endpoint: \"{}\", api_key: {{env: MAAS_API_KEY}}, erase: quick, request_timeout: 3}}\n",
            self.server.url
        );
        let machine = |number: u8| {
            let parts = PARTS
                .replace("noble", image)
                .replace(".77", &format!(".{}", 70 + number));
            let parts = format!("hardware_profile: small, {parts}");
            let (name, data) = node(&format!("n{number}"), &format!("abc{number:03}"), &parts);
            format!(
                "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: {name}}}\ndata: {{{data}}}\n"
            )
        };
        let nodes: String = (1..=3).map(machine).collect();
        self.site
            .commit(&[("backends.yaml", &backends), ("nodes.yaml", &nodes)]);
    }

    pub(super) async fn trueup(&self, arguments: &[&str]) -> Ended {
        trueup_meanwhile(self.site.clone(), arguments, &ENVIRONMENT).await
    }

    /// The address of the region.
    pub(super) fn url(&self) -> String {
        self.server.url.clone()
    }

    /// How often an operation had an effect on a machine.
    pub(super) fn count(&self, effect: &str) -> usize {
        let state = self.region.state();
        state.effects.iter().filter(|each| *each == effect).count()
    }

    /// What `status` says of a machine's provision state.
    pub(super) async fn provision(&self, machine: &str) -> String {
        let status = self.trueup(&["status", "--format", "json"]).await;
        let status: Value = serde_json::from_str(&status.stdout)
            .unwrap_or_else(|error| panic!("{error}: {status:?}"));
        let nodes = status["nodes"]
            .as_array()
            .unwrap_or_else(|| panic!("{status}"));
        let node = nodes
            .iter()
            .find(|node| node["node"] == machine || node["name"] == machine);
        let node = node.unwrap_or_else(|| panic!("{status}"));
        node.to_string()
    }
}

/// Both at the same time: they wait most of it.
async fn in_both_versions(tried: impl AsyncFn(Version)) {
    join(tried(Version::V34), tried(Version::V35)).await;
}

#[tokio::test]
async fn a_site_is_planned_applied_changed_and_torn_down() {
    in_both_versions(async |version| {
        let lab = Lab::start(version).await;
        lab.trueup(&["validate"]).await.with(0);
        let plan = lab.trueup(&["plan"]).await.with(0).stdout;
        assert!(plan.contains("routes of networks"), "{plan}");
        assert_eq!(lab.region.state().effects, [""; 0]);
        lab.trueup(&["apply", "--yes"]).await.with(0);
        for (number, id) in [(1, "abc001"), (2, "abc002"), (3, "abc003")] {
            let machine = lab.region.machine(id);
            assert_eq!((machine.status, machine.locked), (6, true), "{id}");
            assert_eq!(machine.parts.groups.len(), 1, "{id}");
            let links = &machine.parts.interfaces[0].links;
            assert_eq!(links[0].address, Some(format!("10.20.0.7{number}")));
            assert_eq!(lab.count(&format!("deploy {id}")), 1);
        }
        lab.trueup(&["plan", "--detailed-exitcode"]).await.with(0);
        let provision = lab.provision("n1").await;
        assert!(provision.contains("active"), "{provision}");

        // Released by another, behind trueup's back.
        lab.region.change("abc002", |machine| {
            machine.locked = false;
            machine.owner = None;
            machine.osystem.clear();
            machine.owner_data.clear();
            machine.status = 4;
            machine.power = "off";
        });
        let drift = lab.trueup(&["plan"]).await.with(0).stdout;
        for expected in [
            "n2: redeploy [wipe] BLOCKED\n",
            "recorded as deployed, is available\n",
        ] {
            assert!(drift.contains(expected), "{drift}");
        }
        assert!(!drift.contains("n3"), "{drift}");
        let again = ["apply", "--yes", "--allow-redeploy", "n2"];
        lab.trueup(&again).await.with(0);
        assert_eq!(lab.region.machine("abc002").status, 6);
        assert_eq!(lab.count("deploy abc002"), 2);

        // Another image redeploys all, which erases them first.
        lab.design("jammy");
        let redeploy = ["apply", "--yes", "--allow-redeploy", "all"];
        lab.trueup(&redeploy).await.with(0);
        for id in ["abc001", "abc002", "abc003"] {
            assert_eq!(lab.region.machine(id).series, "jammy");
            assert_eq!(lab.count(&format!("erase {id}")), 1, "{id}");
        }
        // A machine in use is retired, and then destroyed: erased once, and never deployed to again.
        let retire = ["apply", "retire", "n3", "--reason", "old", "--yes"];
        lab.trueup(&retire).await.with(0);
        let is_retired = |tag: &String| tag.starts_with("trueup-retired-");
        assert!(lab.region.machine("abc003").tags.iter().any(is_retired));
        assert_eq!(lab.region.machine("abc003").status, 6);
        lab.trueup(&["apply", "destroy", "n3", "--yes"])
            .await
            .with(0);
        let machine = lab.region.machine("abc003");
        assert_eq!(
            (machine.status, machine.power, machine.is_dirty),
            (4, "off", false)
        );
        assert_eq!(lab.count("erase abc003"), 2);
        let nodes = lab.trueup(&["nodes"]).await.with(0).stdout;
        assert!(nodes.contains("retired: by hand: old"), "{nodes}");
        lab.trueup(&["plan", "--detailed-exitcode"]).await.with(0);
    })
    .await;
}

/// Starts a run, and kills it when an operation has had its effect.
async fn killed_at(lab: &Lab, effect: &str) {
    let mut run = lab
        .site
        .start(&["apply", "--yes"], &ENVIRONMENT, Stdio::null());
    while lab.count(effect) == 0 {
        assert!(run.try_wait().unwrap().is_none(), "it ended before");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    run.kill().unwrap();
    run.wait().unwrap();
}

/// That all are deployed, and nothing was asked for twice.
fn everything_happened_once(lab: &Lab) {
    for id in ["abc001", "abc002", "abc003"] {
        assert_eq!(lab.region.machine(id).status, 6, "{id}");
        assert!(lab.region.machine(id).locked, "{id}");
        assert_eq!(lab.count(&format!("deploy {id}")), 1, "{id}");
    }
    assert_eq!(lab.count("commission abc001"), 1);
}

#[tokio::test]
async fn a_run_that_is_killed_while_maas_commissions_is_resumed_and_repeats_nothing() {
    in_both_versions(async |version| {
        let lab = Lab::start(version).await;
        killed_at(&lab, "commission abc001").await;
        lab.trueup(&["apply", "--resume", "--yes"]).await.with(0);
        everything_happened_once(&lab);
    })
    .await;
}

/// A remote that the clones of a site share.
struct Origin(TempDir);

impl Origin {
    /// A remote with the site of a lab.
    fn of(lab: &Lab) -> Self {
        let origin = Self(TempDir::new().unwrap());
        let url = origin.url();
        lab.site
            .git(&["init", "--quiet", "--bare", "--initial-branch=main", &url]);
        lab.site.git(&["remote", "add", "origin", &url]);
        lab.site
            .git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
        origin
    }

    fn url(&self) -> String {
        self.0.path().to_str().unwrap().to_owned()
    }

    /// Resumes the run in a clone that is new.
    async fn resume(&self) {
        let other = Arc::new(Site::clone_of(&self.url()));
        let resumed = trueup_meanwhile(other, &["apply", "--resume", "--yes"], &ENVIRONMENT).await;
        resumed.with(0);
    }
}

/// The disks of a machine are not known before it is commissioned, and are found empty when the run is resumed.
#[tokio::test]
async fn a_run_that_is_killed_while_maas_commissions_is_resumed_from_another_clone() {
    let lab = Lab::start(Version::V35).await;
    let origin = Origin::of(&lab);
    killed_at(&lab, "commission abc001").await;
    while lab.region.machine("abc001").status != 4 {
        lab.region.state().settle();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    origin.resume().await;
    everything_happened_once(&lab);
}

#[tokio::test]
async fn a_run_that_is_killed_while_maas_deploys_is_resumed_from_another_clone() {
    in_both_versions(async |version| {
        let lab = Lab::start(version).await;
        // It is commissioned, so that all are deployed in the run that is killed.
        lab.region.change("abc001", |machine| {
            *machine = Machine::new("abc001", "n1", 4)
        });
        lab.region
            .state()
            .effects
            .push("commission abc001".to_owned());
        let origin = Origin::of(&lab);
        killed_at(&lab, "deploy abc002").await;
        origin.resume().await;
        everything_happened_once(&lab);
    })
    .await;
}
