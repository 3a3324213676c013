//! `trueup serve`, on simulated sites.

mod attack;
mod bearer;
mod bounds;
mod callers;
mod client;
mod contract;
mod deckhand;
mod elsewhere;
mod guards;
mod life;
mod own;
mod rights;
mod shipyard;

pub(crate) use bearer::{Key, claims, publish, start};
pub(crate) use callers::{Authority, over_tls_as};
pub(crate) use client::{Answer, Service, bytes, connect, exchange};

use crate::fixture::Fixture;

impl Service {
    /// Starts the service of a site.
    pub(crate) fn start(fixture: &Fixture, arguments: &[&str]) -> Self {
        Self::spawn(&mut fixture.command(&[&["serve", "-v"], arguments].concat()))
    }
}

/// The document of an etcd cluster of the three control nodes.
const ETCD: &str = "\
schema: promenade/EtcdClusters/v1
metadata: {name: etcd-clusters}
data:
  clusters:
  - name: kubernetes
    credentials: {ca: {file: ca.pem}, cert: {file: cert.pem}, key: {file: key.pem}}
    members:
    - {node: control01, name: control01, peer_url: 'https://10.20.2.12:2380', client_url: 'https://10.20.2.12:2379'}
    - {node: control02, name: control02, peer_url: 'https://10.20.2.13:2380', client_url: 'https://10.20.2.13:2379'}
    - {node: control03, name: control03, peer_url: 'https://10.20.2.14:2380', client_url: 'https://10.20.2.14:2379'}
";

/// The example site with an etcd cluster and a simulated Kubernetes cluster of these settings, deployed.
pub(crate) fn deployed(cluster: &str) -> Fixture {
    let fixture = Fixture::one_rack();
    fixture.checkout.write("etcd.yaml", ETCD);
    settings(&fixture, "clock: virtual", cluster);
    fixture.checkout.commit("An etcd cluster");
    let apply = ["apply", "--yes", "--allow-intermediate-commits"];
    fixture.run(&apply).with(0);
    fixture
}

/// Writes the settings of the simulator and its cluster.
fn settings(fixture: &Fixture, hardware: &str, cluster: &str) {
    fixture.checkout.write(
        "backends.yaml",
        format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  hardware:\n    kind: sim\n    \
             sim: {{{hardware}, durations: {{prepare: 0.3, deploy: 0.3, destroy: 0.3, relabel: 0.3, power: 0.3}}}}\n  \
             clusters:\n    kubernetes:\n      kind: sim\n      sim: {{{cluster}}}\n"
        ),
    );
}

/// The same site in real time, where draining compute11 takes long.
fn slow() -> Fixture {
    let fixture = deployed("");
    let pods = "pods: [{name: web, nodes: [compute11], ends_after: 4}]";
    settings(&fixture, "clock: real", pods);
    fixture.checkout.commit("In real time");
    fixture
}

/// The path of an operation on a node.
fn on(node: &str, operation: &str) -> String {
    format!("/api/v1.0/nodes/{node}/{operation}")
}
