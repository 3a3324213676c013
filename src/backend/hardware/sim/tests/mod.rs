//! The simulator under its own clock.

mod clean;
mod cluster;
mod drain;
mod faults;
mod file;
mod life;
mod processes;
mod random;
mod settings;
mod values;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::backend::Reporter;
use crate::design::{RunId, Section, SiteName, build};
use crate::diagnostic::Sources;
use crate::document::{LoadSettings, load};
use crate::guard::Guarded;
use crate::step::{Effect as Harm, Parameters, Step, StepId, of_settings};

fn design(text: &str) -> (Sources, Guarded) {
    let mut sources = Sources::new();
    let id = sources.add("site.yaml", text);
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let documents = load(id, text, &settings).documents;
    let inputs: Vec<_> = documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    let (design, _) = build(SiteName::from("test"), &inputs);
    (sources, Guarded::under_one(&design))
}

fn machines(count: usize) -> Vec<Arc<NodeDesign>> {
    let profile = "schema: drydock/HostProfile/v1\nmetadata: {name: host}\ndata:\n  storage:\n    physical_devices:\n      sda: {partitions: [{name: root, size: 30g, bootable: true, filesystem: {mountpoint: /, fstype: ext4}}]}\n      sdb: {volume_group: data}\n  metadata: {owner_data: {plane: enabled}}\n";
    let nodes = (1..=count).map(|number| {
        format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: n{number}}}\ndata: {{host_profile: host}}\n"
        )
    });
    let (_, design) = design(&(profile.to_owned() + &nodes.collect::<String>()));
    assert_eq!(design.nodes.len(), count);
    design.nodes.values().cloned().collect()
}

fn settings(text: &str) -> Settings {
    let (_, design) = design(&backends(&format!("hardware: {{kind: sim, sim: {text}}}")));
    Settings::read(&design.guards().backends.hardware).unwrap()
}

fn backends(data: &str) -> String {
    format!("schema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata: {{{data}}}\n")
}

fn cluster_settings(machines: &str, cluster: &str) -> Settings {
    let data = format!(
        "hardware: {{kind: sim, sim: {machines}}}, clusters: {{kubernetes: {{kind: sim, sim: {cluster}}}}}"
    );
    let members: Vec<String> = (1..=3)
        .map(|n| format!("{{node: n{n}, name: m{n}, peer_url: 'https://n{n}:2380', client_url: 'https://n{n}:2379'}}"))
        .collect();
    let etcd = format!(
        "---\nschema: promenade/EtcdClusters/v1\nmetadata: {{name: etcd}}\ndata: {{clusters: [{{name: main, members: [{}]}}]}}\n",
        members.join(", ")
    );
    let (_, design) = design(&(backends(&data) + &etcd));
    assert_eq!(design.guards().etcd_clusters[0].members.len(), 3);
    let mut settings = Settings::read(&design.guards().backends.hardware).unwrap();
    settings.cluster = Arc::new(ClusterSettings::read(design.guards()).unwrap());
    settings
}

/// A site of its own, in a folder that goes away with it.
struct Site {
    folder: TempDir,
    nodes: Vec<Arc<NodeDesign>>,
}

impl Site {
    fn new(count: usize) -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            nodes: machines(count),
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("deep/simulated-site.json")
    }

    fn open(&self, text: &str) -> Simulator {
        Simulator::open(&self.path(), settings(text)).unwrap()
    }

    /// Opens it with a cluster, and an etcd cluster `main` of the first three machines.
    fn open_cluster(&self, machines: &str, cluster: &str) -> Simulator {
        Simulator::open(&self.path(), cluster_settings(machines, cluster)).unwrap()
    }

    /// Deploys all machines.
    async fn deployed(&self, simulator: &Simulator) {
        for kind in [StepKind::Prepare, StepKind::Deploy] {
            for node in 0..self.nodes.len() {
                Hardware::act(simulator, &self.order("R0", kind, node))
                    .await
                    .unwrap();
            }
        }
    }

    fn machine(&self, simulator: &Simulator, node: usize) -> Machine {
        let machine = simulator.machine(&self.nodes[node].name).unwrap();
        machine.unwrap()
    }

    fn order(&self, run: &str, kind: StepKind, node: usize) -> Order {
        self.order_with(run, kind, node, None)
    }

    fn order_with(
        &self,
        run: &str,
        kind: StepKind,
        node: usize,
        parameters: Option<Value>,
    ) -> Order {
        let node = &self.nodes[node];
        Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            notes: Vec::new(),
            reporter: Reporter::default(),
            run: RunId::from(run),
            step: Arc::new(Step {
                id: StepId {
                    kind,
                    group: None,
                    node: Some(node.name.clone()),
                    wave: None,
                },
                timeout: 0,
                effect: Harm::Reversible,
                standby: false,
                parameters: parameters.and_then(|given| Parameters::of(kind, &given)),
                needs: Vec::new(),
            }),
            node: Some(node.clone()),
        }
    }

    fn order_in_time(
        &self,
        (run, timeout): (&str, u64),
        kind: StepKind,
        node: usize,
        parameters: Value,
    ) -> Order {
        let mut order = self.order_with(run, kind, node, Some(parameters));
        let mut step = (*order.step).clone();
        step.timeout = timeout;
        order.step = Arc::new(step);
        order
    }

    fn ledger(&self, simulator: &Simulator, node: usize) -> Vec<Effect> {
        let machine = simulator.machine(&self.nodes[node].name).unwrap();
        let ledger = machine.map(|machine| machine.ledger).unwrap_or_default();
        ledger.effects().cloned().collect()
    }
}
