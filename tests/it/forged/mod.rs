//! Plans that somebody made or altered, in a file or in the records: nothing is done that a plan made now, with what the
//! operator allows, would not do.

mod checker;
mod drawn;
mod elsewhere;
mod files;
mod honest;
mod order;
mod runs;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use trueup::design::{Digest, SiteName};
use trueup::plan::Plan;
use trueup::plan::saved::{SavedError, read};
use trueup::record::{Packed, Place};
use trueup::repository::Repository;
use trueup::run::{
    ApprovedPlan, Committer, Connection, Process, Proposal, SiteRepository, TakeOver, Timekeeper,
    abort, begin, find_interrupted,
};
use trueup::step::{Parameters, Step};

use super::fixture::{Fixture, copy_folder};
use super::git::Checkout;
use super::session::SEES_NOTHING;

/// The example site, deployed, with changes of each kind in its documents: `monitor01` is relabelled; the storage of
/// `compute11` and of its like asks for a redeploy; `monitor02` has left.
fn changed() -> Fixture {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    relabel(&fixture);
    remove(&fixture, "monitor02");
    another_image(&fixture, "compute11");
    fixture.checkout.commit("Something of everything");
    fixture
}

/// The example site with three members of etcd, deployed.
fn control_plane() -> Fixture {
    let fixture = Fixture::of(Checkout::new(), "control-plane");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/control-plane");
    copy_folder(&example, fixture.checkout.path());
    fixture.checkout.commit("The site");
    fixture.run(&["apply", "--yes"]).with(0);
    fixture
}

fn relabel(fixture: &Fixture) {
    fixture.edit(
        "nodes/monitoring.yaml",
        "{rack: rack01, tags: [monitoring]}",
        "{rack: rack01, tags: [monitoring], owner_data: {tier: gold}}",
    );
}

/// Asks for a redeploy of a compute node.
fn another_image(fixture: &Fixture, node: &str) {
    let begin = format!("metadata: {{name: {node}}}\ndata:\n  host_profile: compute\n");
    let changed = format!("{begin}  platform: {{image: another}}\n");
    fixture.edit("nodes/compute.yaml", &begin, &changed);
}

fn remove(fixture: &Fixture, node: &str) {
    let nodes = fixture.read("nodes/monitoring.yaml");
    let kept: Vec<&str> = nodes
        .split("---\n")
        .filter(|document| !document.contains(node))
        .collect();
    let path = "nodes/monitoring.yaml";
    fixture.checkout.write(path, kept.join("---\n"));
}

/// Saves a plan beside the checkout and gives its path.
fn save(fixture: &Fixture, arguments: &[&str]) -> String {
    let path = fixture.checkout.outside().join("saved.plan");
    let file = path.to_str().unwrap().to_owned();
    let command = [&["plan"], arguments, &["-o", &file]].concat();
    fixture.run(&command).with(0);
    file
}

fn load(file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// The bytes of a plan with the digests that it should have, as somebody writes it who knows how they are made.
fn forge(plan: &Value) -> Vec<u8> {
    let mut text = plan.to_string();
    for _ in 0..3 {
        match read(text.as_bytes()) {
            Err(
                SavedError::Altered { written, computed }
                | SavedError::AnotherEffect { written, computed },
            ) => text = text.replace(&format!("\"{written}\""), &format!("\"{computed}\"")),
            _ => break,
        }
    }
    text.into_bytes()
}

/// The digits that pin the effect of a plan.
fn pin(file: &str) -> String {
    load(file)["effect"].as_str().unwrap()[..16].to_owned()
}

/// The first step of a kind, in the JSON of a plan.
fn step<'v>(plan: &'v mut Value, kind: &str) -> &'v mut Value {
    let steps = plan["steps"].as_array_mut().unwrap();
    steps.iter_mut().find(|step| step["kind"] == kind).unwrap()
}

/// The process's own time.
struct Now;

impl Timekeeper for Now {
    fn seconds(&self) -> i64 {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        i64::try_from(since.as_secs()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn lease_clock(&self) -> trueup::backend::LeaseClock {
        Arc::new(|| Duration::ZERO)
    }

    fn pause(&self, _: Duration) {}

    fn explain(&self, _: &str) {}
}

/// Writes a run into the records of a clone whose plan is in `bytes`, as if it had been pushed by somebody and followed: its
/// process is gone, and so is its folder. `honest` is a plan that can be read, for what the record says of the run.
fn plant(fixture: &Fixture, honest: &Plan, bytes: &[u8]) {
    let repository: Repository = fixture.checkout.open();
    let commit = repository.head().unwrap().unwrap();
    let site = SiteRepository {
        signing: None,
        repository: &repository,
        name: SiteName::from(fixture.site()),
        connection: Connection::Alone,
        place: Place::of(&repository, &SiteName::from(fixture.site()), None).unwrap(),
    };
    let actor = Committer {
        name: "Mallory".to_owned(),
        email: "mallory@example.org".to_owned(),
        random: 11,
    };
    let (plan_file, _) = Packed::new(|out| out.write_all(bytes)).unwrap();
    let plan_digest = Digest::from("forged");
    let nodes = BTreeMap::new();
    let proposal = Proposal {
        approved: ApprovedPlan {
            plan: honest,
            plan_file: &plan_file,
            commit,
            nodes: &nodes,
        },
        plan_digest: &plan_digest,
        approvals: &[],
        break_glass: None,
        policy_asks: false,
        workers: None,
    };
    let process = Process::new(&site, &actor, &Now);
    if let Ok(before) = find_interrupted(&site, None) {
        abort(
            process,
            &before.record.run,
            TakeOver::default(),
            SEES_NOTHING,
        )
        .unwrap();
    }
    let begun = begin(process, proposal, &mut |_| Ok(Vec::new())).unwrap();
    let run: Arc<str> = Arc::from(begun.session.run().as_str());
    drop(begun);
    let lock = format!("refs/trueup/{}/lock", fixture.site());
    fixture.checkout.git(&["update-ref", "-d", &lock]);
    let folder = fixture.checkout.path().join(".git/trueup");
    let folder = folder.join(fixture.site()).join(&*run);
    std::fs::remove_dir_all(&folder).unwrap();
    // Its process is certainly gone, so that its lease is not waited for.
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("released"), "").unwrap();
}

/// Gives the step of a kind another parameter.
fn give(step: &mut Step, name: &str, value: Value) {
    let mut all = serde_json::to_value(step.parameters.as_deref()).unwrap();
    all[name] = value;
    let given = Parameters::read(step.id.kind, &all.to_string());
    step.parameters = given.unwrap().map(Arc::new);
}
