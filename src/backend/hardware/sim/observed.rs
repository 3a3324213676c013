//! Simulated machines that are as others were observed, for a site that is tried out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::machine::{Machine, Member, image_of, uuid_of};
use super::world::{StateError, World};
use super::{Pods, SiteClock};
use crate::design::{EtcdCluster, NodeDesign, NodeName};
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::{ClusterNode, Observations, ObservedNode};

/// A machine to be simulated.
#[derive(Clone, Debug)]
pub struct Seed<'a> {
    /// Its name.
    pub node: &'a NodeName,
    /// Its design; absent: it has left the design.
    pub design: Option<&'a NodeDesign>,
    /// Whether its record says that it is deployed, which counts if it was not observed.
    pub is_recorded: bool,
}

/// The simulated machines that are as these were observed, and those of them whose state was not: they are as recorded.
#[must_use]
pub fn machines_of<'a>(
    seeds: impl IntoIterator<Item = Seed<'a>>,
    observations: &Observations,
    etcd: &[EtcdCluster],
) -> (BTreeMap<NodeName, Machine>, Vec<NodeName>) {
    let mut machines = BTreeMap::new();
    let mut assumed = Vec::new();
    for seed in seeds {
        let observed = observations.node(seed.node.as_str());
        let is_known = observed.is_some_and(|observed| {
            observed.provision.known().is_some()
                || observed.kept_by_records && observed.power.known().is_some()
        });
        if !is_known {
            assumed.push(seed.node.clone());
        }
        machines.insert(seed.node.clone(), machine_of(&seed, observed));
    }
    for cluster in etcd {
        for (node, member) in members_of(cluster, observations) {
            if let Some(machine) = machines.get_mut(&node) {
                machine.members.insert(cluster.name.clone(), member);
            }
        }
    }
    (machines, assumed)
}

/// Makes the site in a file of these machines.
///
/// # Errors
///
/// The file cannot be written.
pub fn seed(file: &Path, machines: BTreeMap<NodeName, Machine>) -> Result<(), StateError> {
    let mut world = World::open(file, SiteClock::alone())?;
    let mut change = world.change()?;
    for (node, machine) in machines {
        change.seed(&node, machine)?;
    }
    change.commit()
}

fn machine_of(seed: &Seed<'_>, observed: Option<&ObservedNode>) -> Machine {
    let known = observed.and_then(|each| each.provision.known());
    let provision = match known {
        Some(state) => settled(*state),
        None if seed.is_recorded => ProvisionState::Active,
        None => ProvisionState::Available,
    };
    let is_deployed = provision.is_deployed();
    let power = observed.and_then(|each| each.power.known()).copied();
    let new = match seed.design {
        Some(design) => Machine::factory_new(design),
        None => Machine::unknown(),
    };
    let disks = observed.and_then(|each| each.disks.known().cloned());
    let cluster = match observed.map(|each| each.cluster.known()) {
        Some(Some(node)) => node.clone(),
        _ => is_deployed.then(|| node_of(seed)),
    };
    let text =
        |of: fn(&ObservedNode) -> &Option<Arc<str>>| observed.and_then(|each| of(each).clone());
    Machine {
        power: power.unwrap_or(match is_deployed {
            true => PowerState::On,
            false => PowerState::Off,
        }),
        provision,
        disks: disks.unwrap_or(new.disks),
        image: is_deployed.then(|| match seed.design {
            Some(design) => image_of(design),
            None => Arc::from("observed"),
        }),
        cluster,
        pods: Pods::default(),
        retired: text(|each| &each.retired),
        maintenance: text(|each| &each.maintenance),
        protected: observed.is_some_and(|each| each.protected),
        last_error: text(|each| &each.last_error),
        clean_step: text(|each| &each.clean_step),
        ..new
    }
}

/// The state in which a machine is left by what was under way on it: nothing is, on a simulated one.
fn settled(state: ProvisionState) -> ProvisionState {
    match state {
        ProvisionState::Deploying | ProvisionState::WaitCallback => ProvisionState::DeployFailed,
        ProvisionState::Cleaning | ProvisionState::CleanWait => ProvisionState::CleanFailed,
        ProvisionState::Inspecting | ProvisionState::InspectWait => ProvisionState::InspectFailed,
        ProvisionState::Adopting => ProvisionState::AdoptFailed,
        other if other.is_transient() => ProvisionState::Error,
        other => other,
    }
}

/// The node of a machine whose cluster was not observed.
fn node_of(seed: &Seed<'_>) -> ClusterNode {
    let labels = seed.design.map(|design| (*design.labels).clone());
    ClusterNode {
        uid: uuid_of([seed.node.as_str(), "observed"]),
        ready: true,
        labels: labels.unwrap_or_default().into_iter().collect(),
        ..ClusterNode::default()
    }
}

/// The members of an etcd cluster, as one of them that takes part in a quorum lists them, else as any does.
fn members_of(cluster: &EtcdCluster, observations: &Observations) -> Vec<(NodeName, Member)> {
    let seen = observations.etcd.get(&cluster.name);
    let answers = seen.into_iter().flat_map(|seen| seen.answers.values());
    let answers: Vec<_> = answers.filter_map(|answer| answer.known()).collect();
    let deciding = answers.iter().find(|answer| answer.decides);
    let Some(answer) = deciding.or(answers.first()) else {
        return Vec::new();
    };
    let members = answer.members.iter().filter_map(|member| {
        let designed = cluster
            .members
            .iter()
            .find(|each| each.name == member.name)?;
        let first =
            |urls: &[Arc<str>], designed: &Arc<str>| urls.first().unwrap_or(designed).clone();
        let member = Member {
            id: member.id.clone(),
            name: member.name.clone(),
            peer_url: first(&member.peer_urls, &designed.peer_url),
            client_url: first(&member.client_urls, &designed.client_url),
            votes_from: 0,
            votes_after: 0,
            lost: false,
        };
        Some((designed.node.clone(), member))
    });
    members.collect()
}
