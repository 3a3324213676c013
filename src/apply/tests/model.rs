//! The dispatcher against a plain model of the groups, written from the specification.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::fixture::Act;
use super::*;
use crate::guard;
use crate::plan::{PlannedGroup, Standing};

/// Processes the groups one after the other, as "Process" of airship-deployment-grouping tells, with
/// waves of redeploys inside a group.
fn model(site: &Site, fails: &BTreeSet<(&str, String)>) -> (BTreeMap<String, Standing>, Vec<bool>) {
    let mut status: BTreeMap<String, Standing> = BTreeMap::new();
    let mut failed_now: BTreeSet<String> = BTreeSet::new();
    let mut touched: BTreeSet<String> = BTreeSet::new();
    for node in site.groups.iter().flat_map(|group| &group.nodes) {
        let name = node.as_str().to_string();
        let standing = if let Some(standing) = site.left_alone.get(&name) {
            *standing
        } else if site.redeploys.contains_key(&name) {
            Standing::Deployed
        } else {
            Standing::NotStarted
        };
        status.insert(name, standing);
    }
    let mut results: Vec<bool> = Vec::new();
    for group in &site.groups {
        let ready = group.depends_on.iter().all(|other| {
            let position = site.groups.iter().position(|each| each.name == *other);
            results[position.unwrap()]
        });
        let result = ready && {
            let waves: BTreeSet<u32> = group
                .nodes
                .iter()
                .filter_map(|node| site.redeploys.get(node.as_str()).copied())
                .collect();
            let count = waves.len().max(1);
            let waves: Vec<Option<u32>> = waves.into_iter().map(Some).chain([None]).collect();
            (0..count).all(|wave| {
                process_wave(
                    site,
                    group,
                    wave,
                    waves[wave],
                    fails,
                    &mut status,
                    &mut failed_now,
                    &mut touched,
                )
            }) && passes(group, &status, &[Standing::Deployed])
        };
        results.push(result);
    }
    (status, results)
}

fn passes(group: &PlannedGroup, status: &BTreeMap<String, Standing>, good: &[Standing]) -> bool {
    let successful = group
        .nodes
        .iter()
        .filter(|node| good.contains(&status[node.as_str()]));
    guard::evaluate(
        &group.success_criteria,
        group.nodes.len(),
        successful.count(),
    )
    .passed
}

#[expect(
    clippy::too_many_arguments,
    reason = "the model keeps its state in the open"
)]
fn process_wave(
    site: &Site,
    group: &PlannedGroup,
    number: usize,
    wave: Option<u32>,
    fails: &BTreeSet<(&str, String)>,
    status: &mut BTreeMap<String, Standing>,
    failed_now: &mut BTreeSet<String>,
    touched: &mut BTreeSet<String>,
) -> bool {
    let can_succeed = group.nodes.iter().filter(|node| {
        let name = node.as_str();
        let left_alone = site.left_alone.get(name);
        !failed_now.contains(name) && left_alone.is_none_or(|as_is| *as_is == Standing::Deployed)
    });
    let total = group.nodes.len();
    let starts = wave.is_none()
        || guard::can_still_hold(&group.success_criteria, total, can_succeed.count());
    if !starts && number > 0 {
        return false;
    }
    let mut wave_nodes: Vec<&str> = Vec::new();
    for node in &group.nodes {
        let name = node.as_str();
        let own = site.redeploys.get(name).copied();
        // What is created does not wait for the wave, only for the group.
        let mine = if own.is_some() {
            starts && own == wave
        } else {
            number == 0
        };
        if mine && !site.left_alone.contains_key(name) {
            wave_nodes.push(name);
        }
    }
    for name in &wave_nodes {
        if site.redeploys.contains_key(*name) && touched.insert((*name).to_string()) {
            let failed = fails.contains(&("destroy", (*name).to_string()));
            let standing = if failed {
                Standing::Failed
            } else {
                Standing::NotStarted
            };
            status.insert((*name).to_string(), standing);
            if failed {
                failed_now.insert((*name).to_string());
            }
        }
    }
    for (stage, valid, next) in [
        ("prepare", Standing::NotStarted, Standing::Prepared),
        ("deploy", Standing::Prepared, Standing::Deployed),
    ] {
        for name in &wave_nodes {
            if status[*name] == valid {
                let failed = fails.contains(&(stage, (*name).to_string()));
                let standing = if failed { Standing::Failed } else { next };
                status.insert((*name).to_string(), standing);
                if failed {
                    failed_now.insert((*name).to_string());
                }
            }
        }
        let good = [Standing::Prepared, Standing::Deployed];
        if stage == "prepare" && !passes(group, status, &good) {
            return false;
        }
    }
    true
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) site: Site,
    pub(super) fails: Vec<(&'static str, usize)>,
    takes: Vec<u64>,
}

const NODES: [&str; 8] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];
const GROUPS: [&str; 5] = ["g0", "g1", "g2", "g3", "g4"];

pub(super) fn case() -> impl Strategy<Value = Case> {
    let groups = proptest::collection::vec(
        (
            proptest::bits::u8::between(0, 8),
            proptest::bits::u8::between(0, 4),
            any::<bool>(),
            proptest::option::weighted(0.4, 0u32..=100),
            proptest::option::weighted(0.3, 0u64..5),
            proptest::option::weighted(0.3, 0u64..4),
        ),
        1..5,
    );
    let treated = proptest::collection::vec(0u8..12, 8);
    let fails = proptest::collection::vec(
        (
            proptest::sample::select(vec!["destroy", "prepare", "deploy"]),
            0usize..8,
        ),
        0..6,
    );
    let takes = proptest::collection::vec(1u64..9, 24);
    (groups, treated, fails, takes, 1usize..5, any::<bool>()).prop_map(
        |(groups, treated, fails, takes, parallelism, overlap)| {
            let groups = groups
                .into_iter()
                .enumerate()
                .map(
                    |(number, (members, depends_on, critical, percent, minimum, maximum))| {
                        let nodes: Vec<&str> = (0..8)
                            .filter(|bit| members & (1 << bit) != 0)
                            .map(|bit| NODES[bit])
                            .collect();
                        let depends_on: Vec<&str> = (0..number)
                            .filter(|bit| depends_on & (1 << bit) != 0)
                            .map(|bit| GROUPS[bit])
                            .collect();
                        let criteria = (percent, minimum, maximum);
                        group(GROUPS[number], critical, &depends_on, criteria, &nodes)
                    },
                )
                .collect();
            let mut site = Site::of(groups);
            site.options.parallelism = parallelism;
            site.options.overlap = overlap;
            for (node, treated) in NODES.iter().zip(treated) {
                match treated {
                    0 => drop(site.left_alone.insert((*node).into(), Standing::Deployed)),
                    1 => drop(site.left_alone.insert((*node).into(), Standing::NotStarted)),
                    2 => drop(site.left_alone.insert((*node).into(), Standing::Prepared)),
                    3..=6 => drop(
                        site.redeploys
                            .insert((*node).into(), u32::from(treated) - 2),
                    ),
                    _ => {}
                }
            }
            Case { site, fails, takes }
        },
    )
}

impl Case {
    fn fails(&self) -> BTreeSet<(&str, String)> {
        self.fails
            .iter()
            .map(|(stage, node)| (*stage, NODES[*node].to_string()))
            .collect()
    }

    /// The fixture in which these nodes fail, whichever group sends them.
    pub(super) fn fixture(&self) -> Arc<Fixture> {
        let mut script: Vec<(String, Act)> = Vec::new();
        for group in GROUPS {
            for (number, node) in NODES.iter().enumerate() {
                for (stage, offset) in [("destroy", 0), ("prepare", 8), ("deploy", 16)] {
                    let act = if self.fails.contains(&(stage, number)) {
                        Act::Fail
                    } else {
                        Act::Take(self.takes[number + offset])
                    };
                    script.push((format!("{stage}/{group}/{node}"), act));
                }
            }
        }
        Fixture::new(
            script
                .iter()
                .map(|(step, act)| (step.as_str(), act.clone())),
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn groups_and_nodes_end_as_the_specification_says(case in case()) {
        let (expected_nodes, expected_groups) = model(&case.site, &case.fails());
        let fixture = case.fixture();
        let (finished, _, _) = run(&case.site.plan(), &fixture);
        let nodes: BTreeMap<String, Standing> = finished
            .standings
            .iter()
            .map(|(node, standing)| (node.to_string(), *standing))
            .collect();
        prop_assert_eq!(nodes, expected_nodes);
        let groups: Vec<bool> = finished.groups.iter().map(|group| group.succeeded).collect();
        prop_assert_eq!(groups, expected_groups);
        prop_assert!(fixture.most_running() <= case.site.options.parallelism);
        prop_assert!(fixture.effects().values().all(|times| *times == 1));
    }

    #[test]
    fn a_run_that_is_interrupted_and_resumed_ends_by_the_specification(
        case in case(),
        breaks in proptest::collection::vec(0usize..40, 1..4),
        torn in any::<bool>(),
    ) {
        let (expected, _) = model(&case.site, &case.fails());
        let fixture = case.fixture();
        let plan = case.site.plan();
        let finished = in_virtual_time(async {
            let mut entries: Vec<Entry> = Vec::new();
            for appends in breaks {
                let mut broken = Run::new(&plan, &fixture);
                broken.replay.entries = entries.clone();
                broken.log.appends_left = Some(appends);
                // A short run may come to its end before it breaks.
                let _ = broken.execute().await;
                entries.append(&mut broken.log.durable);
                if !torn {
                    entries.append(&mut broken.log.pending);
                }
            }
            let mut last = Run::new(&plan, &fixture);
            last.replay.entries = entries;
            last.execute().await.unwrap()
        });
        let nodes: BTreeMap<String, Standing> = finished
            .standings
            .iter()
            .map(|(node, standing)| (node.to_string(), *standing))
            .collect();
        prop_assert_eq!(nodes, expected);
        prop_assert!(fixture.effects().values().all(|times| *times == 1));
    }
}
