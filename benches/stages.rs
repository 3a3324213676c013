//! How long each stage takes, from the texts of a site to its differences, for sites of 1,000 and 10,000 nodes,
//! and how long records are written and read, also for 100,000.
//!
//! `cargo bench --bench stages`; a name after `--` picks some. But for records, nothing here reads the disk
//! or asks git.

mod generator;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use divan::Bencher;
use generator::{File, Size, files};
use trueup::design::{self, Digests, Documented, NodeName, Section, SectionDigest};
use trueup::diagnostic::Sources;
use trueup::diff::{NodeReasons, Reasons, Revision, documents};
use trueup::document::{Document, LoadSettings, load};
use trueup::guard::Guarded;
use trueup::plan::{self, Plan};
use trueup::record::{Checkpoint, Counts, NodeRecord, Outcome, Phase, RunRecord, State, Store};
use trueup::render::{RenderOptions, Rendering, render};
use trueup::repository::{Repository, Signature};

const SIZES: [usize; 2] = [1_000, 10_000];

fn main() {
    divan::main();
}

/// A site at two revisions: the second has another image in its versions.
struct Site {
    files: Vec<File>,
    sources: Sources,
    before: Built,
    after: Built,
}

struct Built {
    documents: Vec<Arc<Document>>,
    rendering: Rendering,
    design: Documented,
}

impl Built {
    fn new(documents: Vec<Arc<Document>>) -> Self {
        let rendering = render(&documents, &RenderOptions::default());
        assert!(!rendering.diagnostics.has_errors());
        let (design, problems) = design::check("large".into(), &inputs(&rendering), 2);
        let first = problems.iter().next();
        assert!(!problems.has_errors(), "{first:?}");
        Self {
            documents,
            rendering,
            design,
        }
    }

    fn revision(&self) -> Revision<'_> {
        Revision {
            rendering: &self.rendering,
            design: &self.design,
        }
    }
}

fn inputs(rendering: &Rendering) -> Vec<design::Input<'_>> {
    let documents = rendering.documents.iter();
    documents
        .map(|rendered| (&*rendered.document, &rendered.data))
        .collect()
}

fn parse(files: &[File], sources: &mut Sources) -> Vec<Vec<Arc<Document>>> {
    let settings = LoadSettings::default();
    let read = |(path, text): &File| {
        let source = sources.add(path.as_str(), text.as_str());
        load(source, text, &settings).documents
    };
    files.iter().map(read).collect()
}

/// The site of a size, made once.
fn site(nodes: usize) -> &'static Site {
    static SITES: [OnceLock<Site>; 2] = [OnceLock::new(), OnceLock::new()];
    let at = SIZES.iter().position(|size| *size == nodes).unwrap_or(0);
    SITES[at].get_or_init(|| {
        let files: Vec<File> = files(&Size::of(nodes))
            .into_iter()
            .filter(|(path, _)| !path.ends_with("site-definition.yaml"))
            .collect();
        let mut sources = Sources::new();
        let before = parse(&files, &mut sources);
        let edited = |(path, text): &File| (path.clone(), text.replace("xenial", "bionic"));
        let mut after = before.clone();
        for (at, (file, documents)) in files.iter().zip(&mut after).enumerate() {
            if file.1.contains("xenial") {
                *documents = parse(&[edited(&files[at])], &mut sources).concat();
            }
        }
        Site {
            files,
            sources,
            before: Built::new(before.concat()),
            after: Built::new(after.concat()),
        }
    })
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn parse_one_file_a_node(bencher: Bencher<'_, '_>, nodes: usize) {
    let site = site(nodes);
    bencher.bench_local(|| parse(&site.files, &mut Sources::new()));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn parse_a_hundred_nodes_a_file(bencher: Bencher<'_, '_>, nodes: usize) {
    let files = files(&Size {
        nodes_per_file: 100,
        ..Size::of(nodes)
    });
    bencher.bench_local(|| parse(&files, &mut Sources::new()));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn render_all(bencher: Bencher<'_, '_>, nodes: usize) {
    let site = site(nodes);
    bencher.bench_local(|| render(&site.before.documents, &RenderOptions::default()));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn type_all(bencher: Bencher<'_, '_>, nodes: usize) {
    let inputs = inputs(&site(nodes).before.rendering);
    bencher.bench_local(|| design::build("large".into(), &inputs));
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn check_all_on_two_threads(bencher: Bencher<'_, '_>, nodes: usize) {
    let inputs = inputs(&site(nodes).before.rendering);
    bencher.bench_local(|| design::check("large".into(), &inputs, 2));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn difference_of_revisions_that_share_files(bencher: Bencher<'_, '_>, nodes: usize) {
    let site = site(nodes);
    bencher.bench_local(|| documents(&site.before.documents, &site.after.documents));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn reasons_of_one_edit_that_reaches_every_node(bencher: Bencher<'_, '_>, nodes: usize) {
    let site = site(nodes);
    bencher.bench_local(|| {
        let (before, after) = (&site.before, &site.after);
        let reasons = NodeReasons::new(&site.sources, &[before.revision()], after.revision());
        let mut changes = BTreeMap::new();
        for (name, node) in &after.design.nodes {
            let old = before.design.nodes.get(name).map(|node| &**node);
            let fields = reasons.fields(name, old, node, &Section::ALL);
            assert_eq!(fields.len(), 1);
            changes.insert(name, fields);
        }
        changes
    });
}

/// The record of a node that a run has deployed.
fn deployed(node: NodeName, digests: Digests, run: &RunRecord) -> NodeRecord {
    NodeRecord {
        phase: Phase::Deployed,
        digests,
        revision: Some(run.revision.clone()),
        ..NodeRecord::blank(node, run.run.clone())
    }
}

/// A run that deploys a site.
fn run() -> RunRecord {
    let text = |text: &str| -> Arc<str> { Arc::from(text) };
    RunRecord {
        run: "01M7Z00000000000000000000A".into(),
        site: "large".into(),
        action: text("update"),
        revision: text("5ba93c9db0cff93f52b521d7420e43f6eda2784f"),
        site_digest: text("a digest"),
        plan_digest: text("a digest"),
        started: text("2026-01-01T00:00:00Z"),
        ended: None,
        outcome: Outcome::Running,
        partial: false,
        unverified: 0,
        counts: Counts::default(),
        unproven: trueup::record::Unproven::default(),
        halted: None,
        tag: None,
        annotation: None,
        journal: None,
        approvals: Vec::new(),
        ticket: None,
        break_glass: None,
        repositories: Default::default(),
        policy_asks: false,
        tag_owed: Default::default(),
        actor: None,
        requested: None,
        workers: None,
    }
}

/// A plan of the second revision of a site, on these records and without a look at the machines.
fn plan_on(nodes: usize, records: &BTreeMap<NodeName, NodeRecord>) -> Plan {
    let input = plan::Input {
        request: plan::Request::default(),
        target: plan::Target {
            revision: None,
            site_digest: "a digest".into(),
            dirty: Vec::new(),
            repositories: BTreeMap::new(),
        },
        after: &Guarded::under_one(&site(nodes).after.design),
        designs: &BTreeMap::new(),
        base: None,
        records,
        reservations: &trueup::reservation::Reservations::default(),
        former: &BTreeMap::new(),
        renames: &plan::Renames::default(),
        observations: None,
        options: plan::Options::default(),
        intermediate_commits: Vec::new(),
        history: plan::CommitHistory::default(),
        signers_changed: false,
        guards: &plan::GuardBasis::default(),
        reasons: &plan::NoReasons,
        resumes: &std::collections::BTreeSet::new(),
    };
    plan::make(&input).expect("a plan")
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn plan_of_a_new_site(bencher: Bencher<'_, '_>, nodes: usize) {
    site(nodes);
    bencher.bench(|| plan_on(nodes, &BTreeMap::new()));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn plan_of_a_site_without_changes(bencher: Bencher<'_, '_>, nodes: usize) {
    let run = run();
    let designed = site(nodes).after.design.nodes.iter();
    let records = designed.map(|(name, node)| {
        let record = deployed(name.clone(), node.digests.clone(), &run);
        (name.clone(), record)
    });
    let records = records.collect();
    bencher.bench(|| plan_on(nodes, &records));
}

/// A repository, and the records of nodes that a run is to write to it.
struct Records {
    folder: tempfile::TempDir,
    repository: Repository,
    run: RunRecord,
    nodes: Vec<NodeRecord>,
}

impl Records {
    fn new(nodes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder for a repository");
        let repository = Repository::init(folder.path()).expect("a new repository");
        let repository = repository.with_cache(b"measured");
        let run = run();
        let nodes = (0..nodes).map(|number| {
            let name = format!("node-{number:06}");
            // One section is the machine's own, as its addresses are.
            let digest = |section: &Section| match section {
                Section::Network => {
                    let mut sum = [0; 32];
                    sum[24..].copy_from_slice(&(number as u64).to_be_bytes());
                    SectionDigest(sum)
                }
                _ => SectionDigest([0x5e; 32]),
            };
            let digests = Section::ALL.iter().map(|each| (*each, digest(each)));
            deployed(name.as_str().into(), digests.collect(), &run)
        });
        Self {
            nodes: nodes.collect(),
            folder,
            repository,
            run,
        }
    }

    fn store(&self) -> Store<'_> {
        Store::open(&self.repository, &self.run.site).expect("records")
    }

    fn write(&self) -> State {
        let checkpoint = Checkpoint {
            run: &self.run,
            nodes: self.nodes.iter().collect(),
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
        let written = self.store().checkpoint(&State::default(), &checkpoint);
        written.expect("records written")
    }
}

const RECORDS: [usize; 2] = [10_000, 100_000];

#[divan::bench(args = RECORDS, sample_count = 3)]
fn records_written(bencher: Bencher<'_, '_>, nodes: usize) {
    let bencher = bencher.with_inputs(|| Records::new(nodes));
    bencher.bench_local_refs(|records| records.write());
}

#[divan::bench(args = RECORDS, sample_count = 3)]
fn records_read_the_first_time(bencher: Bencher<'_, '_>, nodes: usize) {
    let records = Records::new(nodes);
    let state = records.write();
    let kept = records.folder.path().join(".git/trueup/.cache");
    bencher
        .with_inputs(|| std::fs::remove_dir_all(&kept))
        .bench_local_refs(|_| records.store().nodes(&state).expect("records"));
}

#[divan::bench(args = RECORDS, sample_count = 3)]
fn records_read_again(bencher: Bencher<'_, '_>, nodes: usize) {
    let records = Records::new(nodes);
    let state = records.write();
    let read = || records.store().nodes(&state).expect("records");
    read();
    bencher.bench_local(read);
}

/// The real site beside the repository, if there is one.
fn real_files() -> Vec<File> {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/data/treasuremap-v1.9"
    );
    let mut found = Vec::new();
    let parts = ["global", "type/foundry", "site/seaworthy"];
    let mut folders: Vec<_> = parts.iter().map(|part| format!("{root}/{part}")).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.ends_with(".yaml")
                && !path.ends_with("site-definition.yaml")
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

#[divan::bench(sample_count = 20)]
fn parse_a_real_site(bencher: Bencher<'_, '_>) {
    let files = real_files();
    bencher.bench_local(|| parse(&files, &mut Sources::new()));
}

#[divan::bench(sample_count = 20)]
fn render_a_real_site(bencher: Bencher<'_, '_>) {
    let documents = parse(&real_files(), &mut Sources::new()).concat();
    bencher.bench_local(|| render(&documents, &RenderOptions::default()));
}
