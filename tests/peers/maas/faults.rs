//! Each request fails in each way once, and the process dies around each: what comes of it is what comes of a run
//! without faults, and what must happen once happens once.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup::step::{CleanStep, Parameters, StepKind};

use super::lab::{Lab, reason};
use super::life::VERSIONS;
use super::region::{Fault, Machine, Region, Times, Version};

/// Operations that must not be repeated.
const ONCE: [&str; 6] = [
    "commission",
    "allocate",
    "deploy",
    "erase",
    "release",
    "delete",
];

/// What a run ends with.
#[derive(Debug, PartialEq)]
struct End {
    machines: Vec<Machine>,
    once: BTreeMap<String, usize>,
    requests: usize,
}

/// A way through a machine's life.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// From new to deployed and back.
    Life,
    /// Power and flags of a machine in use.
    InUse,
    /// Flags and cleaning of one that is ready.
    Idle,
    /// Disks and interfaces of one that is ready.
    Parts,
}

impl Way {
    fn steps(self) -> Vec<(StepKind, Parameters)> {
        let plain = |kind| (kind, Parameters::default());
        let erase = Parameters {
            clean_steps: vec![CleanStep::new("deploy", "erase_devices")],
            ..Parameters::default()
        };
        match self {
            Self::Life => [StepKind::Prepare, StepKind::Deploy, StepKind::Destroy]
                .map(plain)
                .into(),
            Self::InUse => vec![
                (StepKind::SetRetired, reason("old")),
                plain(StepKind::PowerOff),
                plain(StepKind::PowerOn),
                plain(StepKind::UnsetRetired),
                (StepKind::SetMaintenance, reason("cables")),
            ],
            Self::Parts => vec![plain(StepKind::Prepare)],
            Self::Idle => vec![
                (StepKind::SetMaintenance, reason("cables")),
                plain(StepKind::UnsetMaintenance),
                plain(StepKind::Manage),
                (StepKind::Clean, erase),
                plain(StepKind::Provide),
            ],
        }
    }

    async fn goes(self, lab: &Lab, fault: Option<(usize, Fault)>) -> End {
        let status = match self {
            Self::Life => 0,
            Self::InUse => 6,
            Self::Idle | Self::Parts => 4,
        };
        lab.region.reset();
        let version = lab.region.state().version;
        lab.region.clone().with("abc001", "n1", status);
        {
            let mut state = lab.region.state();
            state.fault = fault;
            // A request is one fault: the fewer lists, the fewer runs.
            let seconds = Duration::from_secs;
            state.times = Times {
                commission: seconds(3),
                deploy: seconds(3),
                release: seconds(1),
                erase: seconds(3),
                dark: seconds(2),
            };
        }
        for (kind, parameters) in self.steps() {
            let ended = lab.drive(kind, "n1", parameters).await;
            ended.unwrap_or_else(|failure| panic!("{version:?} {fault:?} {kind}: {failure:?}"));
        }
        let state = lab.region.state();
        let mut once = BTreeMap::new();
        for effect in &state.effects {
            let (name, _) = effect.split_once(' ').unwrap();
            if ONCE.contains(&name) {
                *once.entry(name.to_owned()).or_default() += 1;
            }
        }
        End {
            machines: state.machines.values().cloned().collect(),
            once,
            requests: state.requests.len(),
        }
    }

    /// Goes with each fault of each of these requests, and ends as without.
    async fn survives_at(self, lab: &Lab, requests: impl Iterator<Item = usize>, without: &End) {
        let version = lab.region.state().version;
        for at in requests {
            for fault in Fault::ALL {
                let end = self.goes(lab, Some((at, fault))).await;
                let is_same = (&end.machines, &end.once) == (&without.machines, &without.once);
                assert!(
                    is_same,
                    "{version:?} {fault:?} of request {at}: {end:#?}\n{without:#?}"
                );
            }
        }
    }

    async fn survives(self) {
        for version in VERSIONS {
            let lab = Lab::one(Region::new(version), "").await;
            // What is asked for once in each process.
            self.goes(&lab, None).await;
            let without = self.goes(&lab, None).await;
            println!("{self:?} on {version:?}: {} requests", without.requests);
            let all = 0..without.requests;
            self.survives_at(&lab, all, &without).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_life_survives_each_fault_of_each_request_and_each_death_around_it() {
    Way::Life.survives().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_done_to_a_machine_in_use_survives_each_fault_and_death() {
    Way::InUse.survives().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_done_to_an_idle_machine_survives_each_fault_and_death() {
    Way::Idle.survives().await;
}

#[tokio::test(start_paused = true)]
async fn disks_and_interfaces_survive_each_fault_and_death() {
    let lab = super::placed::site(Version::V35, 4, super::placed::PARTS).await;
    Way::Parts.goes(&lab, None).await;
    let without = Way::Parts.goes(&lab, None).await;
    println!("{} requests", without.requests);
    let all = 0..without.requests;
    Way::Parts.survives_at(&lab, all, &without).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_requests_of_a_process_survive_each_fault_and_death() {
    for version in VERSIONS {
        let lab = Lab::one(Region::new(version), "").await;
        let without = Way::Life.goes(&lab, None).await;
        let first = lab.region.state().requests[..4].to_vec();
        let expected = [
            "GET version/",
            "GET users/?op=whoami",
            "GET maas/?op=get_config",
            "GET machines/",
        ];
        assert_eq!(first, expected);
        for at in 0..first.len() {
            for fault in Fault::ALL {
                lab.restart();
                let end = Way::Life.goes(&lab, Some((at, fault))).await;
                let is_same = (&end.machines, &end.once) == (&without.machines, &without.once);
                assert!(is_same, "{version:?} {fault:?} of request {at}: {end:#?}");
            }
        }
    }
}
