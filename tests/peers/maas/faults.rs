//! Each request fails in each way once, and the process dies around each: what comes of it is what comes of a run
//! without faults, and what must happen once happens once.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use trueup::observed::ObservedNode;
use trueup::step::{CleanStep, StepKind};

use super::lab::{Lab, reason};
use super::life::VERSIONS;
use super::region::{Fault, Machine, Region, Times, Version};
use crate::amount::every;

/// Operations that must not be repeated.
const ONCE: [&str; 7] = [
    "create",
    "commission",
    "allocate",
    "deploy",
    "erase",
    "release",
    "delete",
];

/// The versions that are tried: they do most of it alike, and each takes as long again.
fn tried() -> &'static [Version] {
    match super::takes_all() {
        true => &VERSIONS,
        false => &[Version::V35],
    }
}

/// Which request meets which fault: each request some of the faults, and each fault some of the requests, unless all are tried.
fn met<T: Copy>(requests: usize, faults: &[T]) -> Vec<(usize, T)> {
    let every = every(1, 3);
    let all = (0..requests).flat_map(|at| (0..faults.len()).map(move |fault| (at, fault)));
    let some = all.filter(|(at, fault)| (at + fault) % every == 0);
    some.map(|(at, fault)| (at, faults[fault])).collect()
}

/// What a run ends with.
#[derive(Debug, PartialEq)]
struct End {
    machines: Vec<Machine>,
    /// What a plan is made of then.
    observed: ObservedNode,
    once: BTreeMap<String, usize>,
    requests: usize,
}

impl End {
    /// Whether another run ended with the same, in however many requests.
    fn is_like(&self, other: &Self) -> bool {
        (&self.machines, &self.observed, &self.once)
            == (&other.machines, &other.observed, &other.once)
    }
}

/// A way through a machine's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From new to deployed and back.
    Life,
    /// Power and flags of a machine in use.
    InUse,
    /// Flags and cleaning of one that is ready.
    Idle,
    /// Disks and interfaces of one that is ready.
    Parts,
    /// From one that MAAS does not know to one that it has forgotten.
    Created,
    /// What a plan does with one that was adopted.
    Adopted,
}

impl Way {
    fn steps(self) -> Vec<(StepKind, Value)> {
        let plain = |kind| (kind, json!({}));
        let erase = json!({"clean_steps": [CleanStep::new("deploy", "erase_devices")]});
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
            Self::Created => {
                let forget = json!({"forget": true});
                let steps = vec![plain(StepKind::Prepare), plain(StepKind::Deploy)];
                let ends = [(StepKind::Destroy, forget)];
                steps.into_iter().chain(ends).collect()
            }
            Self::Adopted => vec![plain(StepKind::Lock), plain(StepKind::PowerOff)],
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
        let ended = self.tries(lab, fault).await;
        let version = lab.region.state().version;
        ended.unwrap_or_else(|(kind, why)| panic!("{version:?} {fault:?} {kind}: {why}"))
    }

    /// Goes as far as it comes: to the end, or to a step that fails.
    async fn tries(
        self,
        lab: &Lab,
        fault: Option<(usize, Fault)>,
    ) -> Result<End, (StepKind, String)> {
        let status = match self {
            Self::Life | Self::Created => 0,
            Self::InUse | Self::Adopted => 6,
            Self::Idle | Self::Parts => 4,
        };
        lab.region.reset();
        if self != Self::Created {
            lab.region.clone().with("abc001", "n1", status);
        }
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
        // Each time the site is a new one, which knows no machine yet.
        if self == Self::Created {
            lab.forget_identities();
        }
        for (kind, parameters) in self.steps() {
            let ended = lab.drive(kind, "n1", parameters).await;
            ended.map_err(|failure| (kind, format!("{failure:?}")))?;
        }
        let requests = lab.region.state().requests.len();
        let observed = lab.seen("n1").await;
        let state = lab.region.state();
        let mut once = BTreeMap::new();
        for effect in &state.effects {
            let (name, _) = effect.split_once(' ').unwrap();
            if ONCE.contains(&name) {
                *once.entry(name.to_owned()).or_default() += 1;
            }
        }
        Ok(End {
            machines: state.machines.values().cloned().collect(),
            observed,
            once,
            requests,
        })
    }

    /// Goes with faults of its requests, and ends as without.
    async fn survives_at(self, lab: &Lab, without: &End) {
        let version = lab.region.state().version;
        for (at, fault) in met(without.requests, &Fault::ALL) {
            let end = self.goes(lab, Some((at, fault))).await;
            assert!(
                end.is_like(without),
                "{version:?} {fault:?} of request {at}: {end:#?}\n{without:#?}"
            );
        }
    }

    async fn survives(self) {
        self.survives_with("").await;
    }

    async fn survives_with(self, settings: &str) {
        for &version in tried() {
            let lab = Lab::one(Region::new(version), settings).await;
            // What is asked for once in each process.
            self.goes(&lab, None).await;
            let without = self.goes(&lab, None).await;
            println!("{self:?} on {version:?}: {} requests", without.requests);
            self.survives_at(&lab, &without).await;
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
async fn what_is_created_and_forgotten_survives_each_fault_and_death() {
    let settings = "power_type: manual, networks: [127.0.0.0/8]";
    Way::Created.survives_with(settings).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_adopted_and_is_locked_survives_each_fault_and_death() {
    Way::Adopted.survives().await;
}

#[tokio::test(start_paused = true)]
async fn disks_and_interfaces_survive_each_fault_and_death() {
    for version in tried() {
        let lab = super::placed::site(*version, 4, super::placed::PARTS).await;
        Way::Parts.goes(&lab, None).await;
        let without = Way::Parts.goes(&lab, None).await;
        println!("{} requests on {version:?}", without.requests);
        Way::Parts.survives_at(&lab, &without).await;
    }
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
                assert!(
                    end.is_like(&without),
                    "{version:?} {fault:?} of request {at}: {end:#?}"
                );
            }
        }
    }
}

/// Whether an operation was carried out twice that must not be.
fn happened_twice(effects: &[String]) -> bool {
    let counted = |once: &&str| {
        let of = effects
            .iter()
            .filter(|each| each.starts_with(&format!("{once} ")));
        of.count() > 1
    };
    ONCE.iter().any(counted)
}

/// Answers that no table has: a step fails by them, or ends as without; none is taken for done that was not, and
/// nothing happens twice.
#[tokio::test(start_paused = true)]
async fn an_unknown_answer_fails_a_step_or_changes_nothing_and_is_never_taken_for_done() {
    const STATUSES: [u16; 13] = [
        200, 202, 204, 302, 400, 401, 403, 404, 405, 410, 418, 429, 501,
    ];
    let versions = match super::takes_all() {
        true => &VERSIONS[..],
        false => &[Version::V34],
    };
    for version in versions {
        let lab = Lab::one(Region::new(*version), "").await;
        // What a process asks for once is among it.
        let without = Way::Life.goes(&lab, None).await;
        let (mut failed, mut wrong) = (0, Vec::new());
        let met = met(without.requests, &STATUSES);
        println!("{version:?}: {} answers", met.len());
        for (at, status) in met {
            lab.restart();
            let fault = Some((at, Fault::Odd(status)));
            match Way::Life.tries(&lab, fault).await {
                Ok(end) if end.is_like(&without) => {}
                Ok(end) => wrong.push(format!(
                    "{status} to {at}: {:?} {:?}",
                    end.once, end.machines
                )),
                Err(_) => failed += 1,
            }
            let effects = lab.region.state().effects.clone();
            if happened_twice(&effects) {
                wrong.push(format!("{status} to {at}: {effects:?}"));
            }
        }
        println!("{version:?}: {failed} failed");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
