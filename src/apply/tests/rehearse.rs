//! Rehearsals, against runs of the dispatcher in which the same steps fail.

use super::fixture::{Act, Fixture};
use super::*;
use crate::apply::rehearse::failing_steps;
use crate::record::Outcome;
use crate::run::Durations;

/// Three groups, the second of which needs the first, and all of whose machines have to succeed.
fn three_groups() -> Plan {
    let nodes = |letter: char| -> Vec<String> { (1..9).map(|n| format!("{letter}{n}")).collect() };
    let (a, b, c) = (nodes('a'), nodes('b'), nodes('c'));
    let of = |name: &str, critical, needs: &[&str], criteria, nodes: &[String]| {
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        group(name, critical, needs, criteria, &nodes)
    };
    let mut site = Site::of(vec![
        of("one", false, &[], (Some(100), None, None), &a),
        of("two", true, &["one"], (None, Some(6), None), &b),
        of("three", true, &[], (None, None, Some(0)), &c),
    ]);
    for (position, node) in c.iter().enumerate() {
        site.redeploys.insert(node.clone(), 1 + position as u32 / 2);
    }
    site.plan()
}

fn expected(plan: &Plan) -> ExpectedDurations {
    ExpectedDurations::of(plan, &BTreeMap::new(), &Durations::default(), &|_| None)
}

#[test]
fn a_rehearsed_run_ends_as_a_run_in_which_the_same_steps_fail() {
    let plan = three_groups();
    let expected = expected(&plan);
    let mut failed = BTreeMap::new();
    for seed in 1..=60 {
        let rehearsal = rehearse(&plan, &expected, seed, 1).unwrap();
        let failing = failing_steps(&plan, &expected, seed);
        let ids: Vec<String> = failing
            .iter()
            .map(|index| plan.steps[*index].id.to_string())
            .collect();
        let fixture = Fixture::new(ids.iter().map(|id| (id.as_str(), Act::Fail)));
        let (finished, ..) = run(&plan, &fixture);
        for (group, result) in rehearsal.groups.iter().zip(&finished.groups) {
            assert_eq!(group.group, result.group);
            assert_eq!(group.failed == 0, result.succeeded, "seed {seed}: {ids:?}");
            *failed.entry(group.group.to_string()).or_insert(0) += group.failed;
        }
        let is_failed = finished.outcome == Outcome::Failed;
        assert_eq!(rehearsal.failed == 1, is_failed, "seed {seed}: {ids:?}");
        let undone = finished.nodes.iter().filter(|node| !node.complete).count();
        let rehearsed = rehearsal.worst.map_or(0, |worst| worst.undone);
        assert_eq!(rehearsed, undone, "seed {seed}: {ids:?}");
    }
    // Some failed and some did not: the comparison says something of each group.
    assert!(
        failed.values().all(|count| (1..60).contains(count)),
        "{failed:?}"
    );
}

#[test]
fn runs_of_a_rehearsal_are_those_of_their_seeds() {
    let plan = three_groups();
    let expected = expected(&plan);
    let all = rehearse(&plan, &expected, 7, 50).unwrap();
    assert_eq!(all, rehearse(&plan, &expected, 7, 50).unwrap());
    let single = |seed| rehearse(&plan, &expected, seed, 1).unwrap();
    let each: Vec<_> = (7..57).map(single).collect();
    assert_eq!(all.failed, each.iter().map(|one| one.failed).sum::<usize>());
    assert_eq!(Some(all.longest), each.iter().map(|one| one.longest).max());
    assert_eq!(single(all.longest_seed).longest, all.longest);
    assert_eq!(single(all.most_away_seed).most_away, all.most_away);
    // Waves of two are out of service together, with those of earlier waves that did not come back.
    assert!(all.most_away >= 2, "{all:?}");
    assert!(all.median <= all.longest);
    let worst = all.worst.unwrap();
    assert_eq!(single(worst.seed).worst.unwrap(), worst);
    for group in &all.groups {
        let seed = group.seed.unwrap();
        let again = single(seed);
        let own = again.groups.iter().find(|one| one.group == group.group);
        assert_eq!(own.unwrap().failed, 1);
    }
}
