//! The claims of records, held against what the simulated machines have been through.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use trueup::design::{Class, Digests, NodeName};
use trueup::record::{Known, NodeRecord, Phase};
use trueup::step::StepKind;

use super::Planned;

/// The system on each machine, by the machines' own file: that of the last deploy or teardown that has begun there.
fn installed(file: &Path) -> BTreeMap<String, Option<String>> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut installed = BTreeMap::new();
    for line in lines {
        let line: serde_json::Value = line;
        let Some(node) = line["node"].as_str() else {
            continue;
        };
        for effect in line["begun"]["effects"].as_array().into_iter().flatten() {
            if let Some(image) = effect["deployed"]["image"].as_str() {
                installed.insert(node.to_owned(), Some(image.to_owned()));
            } else if effect == "destroyed" {
                installed.insert(node.to_owned(), None);
            }
        }
    }
    installed
}

/// The system that a record says is on its machine, as the simulator calls it.
fn system(digests: &Digests) -> String {
    let mut hash = Sha256::new();
    for (section, digest) in digests.iter() {
        if section.class() == Class::Redeploy {
            for part in [section.to_string(), digest.to_string()] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
    }
    data_encoding::HEXLOWER.encode(&hash.finalize())
}

/// How many records say that a run has built their machine; each of these machines has just that system.
pub(super) fn check<'r>(file: &Path, records: impl IntoIterator<Item = &'r NodeRecord>) -> usize {
    let installed = installed(file);
    let mut claims = 0;
    for record in records {
        let is_claim = record.phase == Phase::Deployed
            && record.known == Some(Known::Applied)
            && record.accepted.is_none();
        if is_claim {
            let found = installed.get(record.node.as_str()).cloned().flatten();
            let history = || {
                let text = std::fs::read_to_string(file).unwrap_or_default();
                let own = format!("\"node\":\"{}\"", record.node);
                let lines = text
                    .lines()
                    .enumerate()
                    .filter(|(_, line)| line.contains(&own));
                let lines: Vec<String> = lines.map(|(at, line)| format!("{at} {line}")).collect();
                lines.join("\n")
            };
            assert_eq!(
                found,
                Some(system(&record.digests)),
                "{record:#?}\n{}",
                history()
            );
            claims += 1;
        }
    }
    claims
}

/// Of no machine that is as designed, and whose record says that a run has built it, does a plan build it again.
pub(super) fn check_plan(
    file: &Path,
    planned: &Planned,
    records: &BTreeMap<NodeName, NodeRecord>,
) -> usize {
    let installed = installed(file);
    let mut deploys = BTreeSet::new();
    for step in &planned.plan.steps {
        if step.id.kind == StepKind::Deploy {
            deploys.extend(step.id.node.as_ref());
        }
    }
    let mut as_designed = 0;
    for (name, design) in &planned.guarded.nodes {
        let found = installed.get(name.as_str()).cloned().flatten();
        if found != Some(system(&design.digests)) {
            continue;
        }
        as_designed += 1;
        // What became of one that a run had begun to change, and that could not be seen, is decided by an operator.
        let record = records.get(name);
        let is_open = record.is_none_or(|record| record.phase != Phase::Deployed);
        assert!(is_open || !deploys.contains(name), "{name}: {record:#?}");
    }
    as_designed
}
