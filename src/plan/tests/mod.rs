//! Worlds written in a test, planned, and told in lines.

mod accepted;
mod addresses;
mod approvals;
mod asked;
mod changes;
mod checked;
mod cleaning;
mod deploy_steps;
mod effect;
mod former;
mod identity;
mod leaving;
mod order;
mod parts;
mod properties;
mod raid;
mod renamed;
mod reserved;
mod rungs;
pub(crate) mod saved;
mod secrets;
mod service;
mod soak;
mod stale;
mod tightened;
mod unavailable;
mod unblock;
mod walk;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Allowance, Base, ChangeKind, CommitHistory, Error, FieldChange, FormerSite, Input, Options,
    Plan, Reasons, Renames, Request, Target, make,
};
use crate::check;
use crate::design::{
    Addresses, Design, Digest, Documented, Group, GroupName, Guards, NodeDesign, NodeName,
    OutOfBand, RunId, Section, SectionDigest, Sections, Selector, SiteName, SuccessCriteria,
};
use crate::diagnostic::{Mark, SourceId};
use crate::diff::ValueDifference;
use crate::document::DocumentId;
use crate::guard::Guarded;
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::{ClusterNode, Disk, Fact, Observations, ObservedNode};
use crate::record::{NodeRecord, Phase};
use crate::reservation::{Reservation, Reservations};
use crate::step::{Step, StepIndex, Wait};

/// All that a plan is made from, owned.
#[derive(Clone, Debug)]
struct PlanFixture {
    after: Design,
    guards: Guards,
    old: Design,
    old_guards: Guards,
    records: BTreeMap<NodeName, NodeRecord>,
    reservations: Reservations,
    former: BTreeMap<NodeName, FormerSite>,
    observations: Option<Observations>,
    options: Options,
    request: Request,
    base: Option<Base>,
    site_digest: Digest,
    /// The fields that differ, of every node.
    values: Vec<ValueDifference>,
    /// The sections of which a field is shown where they differ.
    shown: Vec<Section>,
    /// The machines that a run takes out of service with whose plan this one is compared.
    resumes: BTreeSet<NodeName>,
}

impl Reasons for PlanFixture {
    fn fields(
        &self,
        _: &NodeName,
        _: Option<&NodeDesign>,
        _: &NodeDesign,
        sections: &[Section],
    ) -> Vec<FieldChange> {
        let shown = sections
            .iter()
            .filter(|section| self.shown.contains(section));
        let shown = shown.map(|section| FieldChange {
            section: *section,
            path: Arc::from("field"),
            before: None,
            after: Some(Arc::from("new")),
            chain: Vec::new(),
            accepted: None,
        });
        shown.collect()
    }

    fn values(&self, _: &NodeDesign, _: &NodeDesign, section: Section) -> Vec<ValueDifference> {
        let values = self.values.iter();
        let of_section = values.filter(|value| value.difference.section == section);
        of_section.cloned().collect()
    }
}

const REVISION: &str = "r1";

impl PlanFixture {
    /// A site of one group of all nodes, each designed, recorded as deployed with just that, and active.
    fn settled(names: &[&str]) -> Self {
        let mut fixture = Self {
            after: Design::empty(SiteName::from("site")),
            guards: Guards::default(),
            old: Design::empty(SiteName::from("site")),
            old_guards: Guards::default(),
            records: BTreeMap::new(),
            reservations: Reservations::default(),
            former: BTreeMap::new(),
            observations: Some(Observations::default()),
            options: Options {
                as_of: Arc::from("2030-06-01"),
                ..Options::default()
            },
            request: Request::default(),
            base: Some(Base {
                run: RunId::from("run-1"),
                revision: Arc::from(REVISION),
                site_digest: Arc::from("same"),
            }),
            site_digest: Arc::from("same"),
            values: Vec::new(),
            shown: Vec::new(),
            resumes: BTreeSet::new(),
        };
        for name in names {
            let node = Arc::new(node(name));
            fixture.records.insert(node.name.clone(), deployed(&node));
            fixture.old.nodes.insert(node.name.clone(), node.clone());
            fixture.after.nodes.insert(node.name.clone(), node);
            fixture.see(name, ProvisionState::Active);
        }
        fixture.guards.groups = vec![group("all", &[], Vec::new())];
        fixture
    }

    fn see(&mut self, name: &str, state: ProvisionState) -> &mut ObservedNode {
        let node = ObservedNode {
            provision: Fact::Known(state),
            power: Fact::Known(PowerState::On),
            disks: Fact::Known(vec![Disk {
                name: Arc::from("sda"),
                serial: Arc::from(format!("serial-{name}")),
                size: 1 << 30,
                partitioned: false,
            }]),
            cluster: Fact::Known(None),
            ..ObservedNode::unknown("")
        };
        let nodes = &mut self.observations.get_or_insert_default().nodes;
        nodes.insert(NodeName::from(name), Box::new(node));
        nodes.get_mut(name).unwrap()
    }

    fn seen(&mut self, name: &str) -> &mut ObservedNode {
        let observations = self.observations.as_mut().unwrap();
        observations.nodes.get_mut(name).unwrap()
    }

    /// Has a person work on a machine.
    fn reserve(&mut self, name: &str) {
        let reservation = Reservation::new(("Ada", "ada@example.org"), (0, 3600), "fan");
        let nodes = &mut self.reservations.nodes;
        nodes.insert(NodeName::from(name), reservation);
    }

    fn designed(&mut self, name: &str) -> &mut NodeDesign {
        Arc::make_mut(self.after.nodes.get_mut(name).unwrap())
    }

    fn record(&mut self, name: &str) -> &mut NodeRecord {
        self.records.get_mut(name).unwrap()
    }

    /// Removes all marks of a deploy from a node.
    fn bare(&mut self, name: &str) {
        self.records.remove(name);
        self.see(name, ProvisionState::Available);
    }

    /// Changes a section of a node's design.
    fn edit(&mut self, name: &str, section: Section) {
        let node = self.designed(name);
        node.digests.insert(section, SectionDigest([2; 32]));
        if section == Section::Labels {
            node.labels = Arc::new([(Arc::from("role"), Arc::from("new"))].into());
        }
    }

    /// Takes a node out of the design.
    fn leave(&mut self, name: &str) {
        self.after.nodes.remove(name);
    }

    /// A former site has a machine as deployed.
    fn built_by_former(&mut self, name: &str, asks: bool) {
        let name = NodeName::from(name);
        let former = FormerSite {
            name: Arc::from("former"),
            asks,
        };
        self.former.insert(name, former);
    }

    fn guarded(&self) -> Guarded {
        Guarded::of_test(&self.after, &self.guards)
    }

    fn plan(&self) -> Plan {
        self.try_plan().unwrap()
    }

    /// The documents that were applied, by revision.
    fn applied(&self) -> BTreeMap<Arc<str>, Documented> {
        let old = Documented {
            design: Arc::new(self.old.clone()),
            guards: Arc::new(self.old_guards.clone()),
        };
        [(Arc::from(REVISION), old)].into()
    }

    /// The findings of the checker in a plan that is made of this, and in the run of it that begins.
    fn checked(&self, plan: &Plan) -> Vec<String> {
        let (applied, guarded) = (self.applied(), self.guarded());
        let world = check::World {
            applied: &applied,
            records: &self.records,
            reservations: &self.reservations,
            observations: self.observations.as_ref(),
            resumes: &self.resumes,
        };
        let made = [(false, Some(world)), (true, None)];
        let findings = made.into_iter().flat_map(|(has_begun, world)| {
            let inputs = check::Inputs {
                site: Some(&guarded),
                world,
                has_begun,
            };
            check::plan(plan, &inputs)
        });
        findings.map(|found| found.to_string()).collect()
    }

    fn try_plan(&self) -> Result<Plan, Error> {
        let plan = self.unchecked()?;
        // No plan is made in which the checker finds something.
        let found = self.checked(&plan);
        assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(plan)
    }

    /// The plan, as it is made.
    fn unchecked(&self) -> Result<Plan, Error> {
        self.with_input(make)
    }

    /// Does something with all that the plan is made of.
    fn with_input<T>(&self, does: impl FnOnce(&Input<'_>) -> T) -> T {
        let designs = self.applied();
        let after = self.guarded();
        does(&Input {
            request: self.request.clone(),
            target: Target {
                revision: Some(Arc::from("r2")),
                site_digest: self.site_digest.clone(),
                dirty: Vec::new(),
                repositories: BTreeMap::new(),
            },
            after: &after,
            designs: &designs,
            base: self.base.clone(),
            renames: &Renames::of(&after, &self.records, &designs),
            records: &self.records,
            reservations: &self.reservations,
            former: &self.former,
            observations: self.observations.as_ref(),
            options: self.options.clone(),
            intermediate_commits: Vec::new(),
            history: CommitHistory::default(),
            signers_changed: false,
            guards: &crate::plan::GuardBasis::default(),
            reasons: self,
            resumes: &self.resumes,
        })
    }
}

pub(super) fn node(name: &str) -> NodeDesign {
    let digests = Section::ALL.map(|section| (section, SectionDigest([1; 32])));
    // What is only reported has none.
    let digests = digests.into_iter();
    let digests = digests.filter(|(section, _)| *section != Section::Expected);
    NodeDesign {
        name: NodeName::from(name),
        document: DocumentId {
            schema: Arc::from("drydock/BaremetalNode/v1"),
            name: Arc::from(name),
        },
        mark: mark(),
        rack: None,
        tags: Arc::default(),
        labels: Arc::new([(Arc::from("role"), Arc::from("old"))].into()),
        host_profiles: Arc::new([]),
        hardware_profile: None,
        out_of_band: OutOfBand::default(),
        addresses: Addresses::default(),
        disks: Arc::new([Arc::from("sda")]),
        sections: Sections::default(),
        digests: digests.collect(),
        depends_on: Vec::new(),
    }
}

fn mark() -> Mark {
    Mark::new(SourceId(0), 0)
}

fn deployed(node: &NodeDesign) -> NodeRecord {
    NodeRecord {
        phase: Phase::Deployed,
        digests: node.digests.clone(),
        revision: Some(Arc::from(REVISION)),
        ..NodeRecord::blank(node.name.clone(), RunId::from("run-1"))
    }
}

fn group(name: &str, depends_on: &[&str], selectors: Vec<Selector>) -> Group {
    Group {
        name: GroupName::from(name),
        critical: true,
        depends_on: depends_on
            .iter()
            .map(|name| GroupName::from(*name))
            .collect(),
        selectors,
        success_criteria: SuccessCriteria::default(),
        mark: mark(),
    }
}

fn named(names: &[&str]) -> Vec<Selector> {
    vec![Selector {
        node_names: names.iter().map(|name| Arc::from(*name)).collect(),
        ..Selector::default()
    }]
}

fn all() -> Allowance {
    Allowance {
        all: true,
        nodes: BTreeSet::new(),
    }
}

fn these(patterns: &[&str]) -> BTreeSet<Arc<str>> {
    patterns.iter().map(|pattern| Arc::from(*pattern)).collect()
}

fn in_cluster(role: &str) -> Fact<Option<ClusterNode>> {
    Fact::Known(Some(ClusterNode {
        uid: Arc::from("uid"),
        ready: true,
        unschedulable: false,
        labels: [(Arc::from("role"), Arc::from(role))].into(),
        ..ClusterNode::default()
    }))
}

/// The ids of all steps.
fn ids(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| step.id.to_string()).collect()
}

/// The steps that are about nodes.
fn work(plan: &Plan) -> String {
    let about = plan.steps.iter().filter(|step| step.id.node.is_some());
    let about: Vec<_> = about.map(|step| step.id.to_string()).collect();
    about.join(" ")
}

fn step<'p>(plan: &'p Plan, id: &str) -> &'p Step {
    let found = plan.steps.iter().find(|step| step.id.to_string() == id);
    found.unwrap_or_else(|| panic!("there is no step {id} in {:#?}", ids(plan)))
}

/// The dependencies of a step: `id` for its success, `id?` for its end.
fn needs(plan: &Plan, id: &str) -> String {
    let told = step(plan, id).needs.iter().map(|need| {
        let StepIndex(index) = need.step;
        let mark = if need.wait == Wait::Done { "?" } else { "" };
        format!("{}{mark}", plan.steps[index as usize].id)
    });
    told.collect::<Vec<_>>().join(" ")
}

/// The only change, as `kind; why it is held back; its steps`.
fn told(fixture: &PlanFixture) -> String {
    let plan = fixture.plan();
    let [change] = &plan.changes[..] else {
        assert!(plan.changes.is_empty(), "{:#?}", plan.changes);
        return "nothing".to_owned();
    };
    let kind = serde_json::to_value(change.kind).unwrap();
    let kind = kind.as_str().unwrap().to_owned();
    let held = match (&change.blocked, change.excluded, change.shown_only) {
        (Some(block), ..) => block.flag.as_deref().unwrap_or("never").to_owned(),
        (None, true, _) => "excluded".to_owned(),
        (None, _, true) => "shown".to_owned(),
        _ => String::new(),
    };
    format!("{kind}; {held}; {}", work(&plan))
}
