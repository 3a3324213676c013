//! Each request fails in each way once, and the process dies around each: what comes of it is what comes of a run
//! without faults, and what must happen once happens once.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup::step::{CleanStep, Parameters, StepKind};

use super::lab::{Lab, reason};
use super::life::VERSIONS;
use super::region::{Fault, Machine, Region, Times};

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
            Self::Idle => 4,
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

    async fn survives(self) {
        for version in VERSIONS {
            let lab = Lab::one(Region::new(version), "").await;
            // What is asked for once in each process.
            self.goes(&lab, None).await;
            let without = self.goes(&lab, None).await;
            println!("{self:?} on {version:?}: {} requests", without.requests);
            for at in 0..without.requests {
                for fault in Fault::ALL {
                    let end = self.goes(&lab, Some((at, fault))).await;
                    let is_same = (&end.machines, &end.once) == (&without.machines, &without.once);
                    assert!(
                        is_same,
                        "{version:?} {fault:?} of request {at}: {end:#?}\n{without:#?}"
                    );
                }
            }
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
