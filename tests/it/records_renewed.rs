//! Records with digests of earlier rules: the next run that succeeds writes all of them anew, whatever it is about.

use std::collections::BTreeMap;

use trueup::design::{DIGEST_VERSION, Digests, Section, SectionDigest, SiteName};
use trueup::record::{Checkpoint, NodeRecord, Store};
use trueup::repository::Signature;

use super::accepted::example;
use super::fixture::Fixture;

fn records(fixture: &Fixture) -> BTreeMap<String, NodeRecord> {
    let repository = fixture.checkout.open();
    let store = Store::open(&repository, &SiteName::from("edge")).unwrap();
    let all = store.nodes(&store.read().unwrap()).unwrap().into_iter();
    all.map(|(name, record)| (name.to_string(), record))
        .collect()
}

/// Writes the records as an earlier version did, whose digests were others.
fn as_of_old(fixture: &Fixture) {
    let repository = fixture.checkout.open();
    let store = Store::open(&repository, &SiteName::from("edge")).unwrap();
    let state = store.read().unwrap();
    let run = state.site.last_run.clone().unwrap();
    let run = store.run(&state, &run).unwrap().unwrap();
    let mut nodes: Vec<NodeRecord> = store.nodes(&state).unwrap().into_values().collect();
    for (number, record) in (1..).zip(&mut nodes) {
        record.digest_version = 1;
        let sections = record.digests.iter().map(|(section, _)| section);
        let sections: Vec<Section> = sections.collect();
        let old = sections
            .into_iter()
            .map(|section| (section, SectionDigest([number; 32])));
        record.digests = old.collect::<Digests>();
    }
    let checkpoint = Checkpoint {
        run: &run,
        nodes: nodes.iter().collect(),
        forgotten: &[],
        plan: None,
        events: &[],
        report: None,
        durations: None,
        author: Signature {
            name: "Ada".to_owned(),
            email: "ada@example.org".to_owned(),
            seconds: 1_700_000_000,
        },
    };
    store.checkpoint(&state, &checkpoint).unwrap();
}

#[test]
fn a_run_that_succeeds_writes_all_records_of_earlier_rules_anew() {
    let fixture = example("edge");
    fixture.commit_and_apply("A site", &[]).with(0);
    let before = records(&fixture);
    as_of_old(&fixture);
    assert!(
        records(&fixture)
            .values()
            .all(|record| record.digest_version == 1)
    );
    // They are compared by values: nothing differs, and nothing is built again for it.
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    fixture
        .run(&["apply", "power", "off", "edge-2", "--yes"])
        .with(0);
    let after = records(&fixture);
    for (name, record) in &after {
        assert_eq!(record.digest_version, DIGEST_VERSION, "{name}");
        assert_eq!(record.digests, before[name].digests, "{name}");
        assert_eq!(record.revision, before[name].revision, "{name}");
    }
    // Whose work the record is has not changed for the machines that the run was not about.
    assert_eq!(after["edge-1"].run, before["edge-1"].run);
    fixture
        .run(&["apply", "power", "on", "edge-2", "--yes"])
        .with(0);
    fixture.run(&["plan", "--detailed-exitcode"]).with(0);
    assert_eq!(fixture.effects("destroyed"), 0);
}

#[test]
fn records_of_earlier_rules_keep_what_differs() {
    let fixture = example("edge");
    fixture.commit_and_apply("A site", &[]).with(0);
    as_of_old(&fixture);
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    fixture.checkout.commit("A new image");
    fixture
        .run(&["apply", "power", "off", "edge-2", "--yes"])
        .with(0);
    fixture
        .run(&["apply", "power", "on", "edge-2", "--yes"])
        .with(0);
    let planned = fixture.planned(&["--allow-redeploy", "all"]);
    assert_eq!(
        planned.values().filter(|kind| *kind == "redeploy").count(),
        3
    );
}
