//! The steps of a plan: an ordered list of small builders, one for each family of rules.
//!
//! A builder adds steps to the end and needs only what is there already, so every need points backwards
//! and the graph has no circle. Barriers (starts, waves, gates, the critical check) keep the number of
//! edges linear in the number of nodes.

mod asked;
mod ends;
mod groups;
pub(super) mod leaving;
mod outside;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::action::Action;
use super::item::Item;
use super::soak::OwedSoak;
use super::{Options, PlannedGroup};
use crate::design::{GroupName, NodeDesign, NodeName, Section};
use crate::document::Node;
use crate::guard::{Guarded, WaveLimits, WaveSize};
use crate::step::{
    CleanStep, DeployParameters, DestroyParameters, Effect, Need, Parameters, SOAK_SLACK,
    ServiceLiveParameters, SoakParameters, SoakTerms, Step, StepId, StepIndex, StepKind, Wait,
};

/// The inputs of the builders.
pub(super) struct StepInputs<'a> {
    pub(super) site: &'a Guarded,
    pub(super) options: &'a Options,
    pub(super) limits: &'a WaveLimits<'a>,
    pub(super) groups: &'a [PlannedGroup],
    /// The nodes that an action names, in the order of their groups.
    pub(super) order: &'a [&'a NodeName],
    /// Every change that has work, by node.
    pub(super) items: &'a BTreeMap<&'a NodeName, &'a Item<'a>>,
    /// The machines whose soak an earlier run owes.
    pub(super) owed: &'a [OwedSoak<'a>],
}

/// The steps so far, and where those are that others need.
#[derive(Default)]
pub(super) struct StepList {
    pub(super) steps: Vec<Step>,
    verify_site: Option<StepIndex>,
    prepare_site: Option<StepIndex>,
    critical_check: Option<StepIndex>,
    unset_retired: FxHashMap<NodeName, StepIndex>,
    /// The relabels of each node, in each of its groups.
    relabels: FxHashMap<NodeName, Vec<StepIndex>>,
    /// The steps that wait until a node has joined its clusters.
    joins: FxHashMap<NodeName, Vec<StepIndex>>,
    /// Teardowns that must end before a group begins that holds a node with one of their addresses.
    early: FxHashMap<NodeName, Vec<StepIndex>>,
    /// Nodes that left the design and have their teardown already.
    torn_down: FxHashSet<NodeName>,
    /// Parameters that steps share.
    shared: FxHashSet<Arc<Parameters>>,
    /// The steps that the end waits for: each step, or a later one that waits for it.
    sinks: Vec<StepIndex>,
    /// The steps whose success the next wave needs, also that of another group or of none: members of a cluster's quorum are back.
    back_before: Vec<StepIndex>,
    /// The last steps of the canary, whose success each wave behind it needs: what one machine, alone, does not survive is not done to
    /// the others.
    canary: Vec<StepIndex>,
    /// The size of the waves of each group that has some, and of those outside the groups.
    sizes: Vec<(Option<GroupName>, WaveSize)>,
}

/// One family of rules.
type Family = fn(&mut StepList, &StepInputs<'_>);

/// The families, in the order in which their steps stand in a plan.
const FAMILIES: [Family; 8] = [
    ends::site,
    ends::owed_soak,
    outside::retirement,
    ends::early_teardowns,
    groups::all,
    outside::records_and_labels,
    ends::check_and_teardowns,
    ends::tag,
];

/// All steps, and the size of the waves of each group that has some, and of those outside the groups.
pub(super) fn build(
    inputs: &StepInputs<'_>,
    action: Action,
) -> (Vec<Step>, Vec<(Option<GroupName>, WaveSize)>) {
    let mut draft = StepList::default();
    match action {
        Action::Update => {
            for family in FAMILIES {
                family(&mut draft, inputs);
            }
        }
        Action::Redeploy => {
            ends::site(&mut draft, inputs);
            ends::owed_soak(&mut draft, inputs);
            groups::all(&mut draft, inputs);
            asked::rebuilt_outside_groups(&mut draft, inputs);
        }
        Action::Teardown
        | Action::Decommission
        | Action::Destroy
        | Action::Drain
        | Action::Uncordon
        | Action::ClearLabels
        | Action::RemoveEtcd
        | Action::CheckEtcd
        | Action::ShutdownKubelet
        | Action::RemoveFromCluster
        | Action::Relabel
        | Action::PowerOn
        | Action::PowerOff
        | Action::Manage
        | Action::Provide
        | Action::Clean
        | Action::Retire
        | Action::Unretire
        | Action::SetMaintenance
        | Action::UnsetMaintenance
        | Action::RotateBmcPassword
        | Action::Forget
        | Action::Remediate
        | Action::Accept
        | Action::Guards => asked::all(&mut draft, inputs, action),
    }
    // A large plan is kept for hours.
    draft.steps.shrink_to_fit();
    (draft.steps, draft.sizes)
}

/// A step that is being written.
struct NewStep {
    id: StepId,
    timeout: u64,
    effect: Effect,
    standby: bool,
    parameters: Option<Arc<Parameters>>,
    needs: Vec<Need>,
}

impl NewStep {
    fn new(kind: StepKind, group: Option<&GroupName>, node: Option<&NodeName>) -> Self {
        Self {
            id: StepId {
                kind,
                group: group.cloned(),
                node: node.cloned(),
                wave: None,
            },
            timeout: 0,
            effect: kind.facts().effect,
            standby: false,
            parameters: None,
            needs: Vec::new(),
        }
    }

    fn wave(mut self, wave: Option<u32>) -> Self {
        self.id.wave = wave;
        self
    }

    fn timeout(mut self, seconds: u64) -> Self {
        self.timeout = seconds;
        self
    }

    fn standby(mut self, standby: bool) -> Self {
        self.standby = standby;
        self
    }

    fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    fn parameters(mut self, parameters: Option<Arc<Parameters>>) -> Self {
        self.parameters = parameters;
        self
    }

    fn success(self, of: impl IntoIterator<Item = StepIndex>) -> Self {
        self.after(of, Wait::Success)
    }

    fn done(self, of: impl IntoIterator<Item = StepIndex>) -> Self {
        self.after(of, Wait::Done)
    }

    fn after(mut self, of: impl IntoIterator<Item = StepIndex>, wait: Wait) -> Self {
        let needs = of.into_iter().map(|step| Need { step, wait });
        self.needs.extend(needs);
        self
    }
}

impl StepList {
    /// Puts machines that are taken out of service into waves.
    fn waves<'n>(
        &mut self,
        limits: &WaveLimits<'_>,
        group: Option<&GroupName>,
        machines: Vec<&'n NodeDesign>,
        canary: bool,
    ) -> Vec<Vec<&'n NodeDesign>> {
        let waves = limits.waves(machines, canary);
        let size = limits.size(&waves);
        self.sizes.extend(size.map(|size| (group.cloned(), size)));
        waves
    }

    /// The barrier before a wave.
    fn start_wave(&self, group: Option<&GroupName>, number: u32) -> NewStep {
        NewStep::new(StepKind::StartWave, group, None)
            .wave(Some(number))
            .success(self.canary.iter().copied())
    }

    /// Adds the soak behind a wave, if the policy has one.
    fn soak(
        &mut self,
        inputs: &StepInputs<'_>,
        id: (Option<&GroupName>, u32),
        nodes: &[&NodeDesign],
        (wave, ended): (Option<StepIndex>, impl IntoIterator<Item = StepIndex>),
    ) -> Option<StepIndex> {
        self.soak_of(inputs, id, (nodes, Vec::new()), (wave, ended))
    }

    /// Adds the soak of machines that earlier runs owe theirs, by its group and its number.
    fn soak_owed<'o>(
        &mut self,
        inputs: &StepInputs<'_>,
        id: (Option<&GroupName>, u32),
        owed: impl Iterator<Item = &'o OwedSoak<'o>>,
        (opens, ended): (Option<StepIndex>, impl IntoIterator<Item = StepIndex>),
    ) -> Option<StepIndex> {
        let owed: Vec<&OwedSoak<'_>> = owed.collect();
        if owed.is_empty() {
            return None;
        }
        let nodes: Vec<&NodeDesign> = owed.iter().map(|each| each.node).collect();
        let joined = owed.iter().filter(|each| each.is_joined);
        let joined = joined.map(|each| each.node.name.clone()).collect();
        self.soak_of(inputs, id, (&nodes, joined), (opens, ended))
    }

    /// Adds a soak, if the policy has one; `joined`: those of its nodes that have joined their cluster before.
    fn soak_of(
        &mut self,
        inputs: &StepInputs<'_>,
        (group, number): (Option<&GroupName>, u32),
        (nodes, joined): (&[&NodeDesign], Vec<NodeName>),
        (opens, ended): (Option<StepIndex>, impl IntoIterator<Item = StepIndex>),
    ) -> Option<StepIndex> {
        let guards = inputs.site.guards();
        let policy = &guards.policy.soak;
        if policy.seconds == 0 {
            return None;
        }
        let clusters = guards.etcd_clusters.iter();
        let demands = guards.policy.demands_expected_hardware;
        let terms = SoakTerms {
            seconds: policy.seconds,
            namespaces: policy.namespaces.iter().cloned().collect(),
            nodes: nodes.iter().map(|node| node.name.clone()).collect(),
            joined,
            etcd: clusters
                .map(|cluster| (cluster.name.clone(), cluster.minimum_healthy))
                .collect(),
            parts: demands && nodes.iter().any(|node| !node.expected_parts().is_empty()),
        };
        let soak = Some(Box::new(terms));
        let step = NewStep::new(StepKind::Soak, group, None)
            .wave(Some(number))
            .timeout(policy.seconds.saturating_add(SOAK_SLACK))
            .parameters(self.share(SoakParameters { soak }))
            .success(opens)
            .done(ended);
        Some(self.add(step))
    }

    /// Adds a step. Of two needs of one step, the stricter counts.
    fn add(&mut self, mut written: NewStep) -> StepIndex {
        let index = StepIndex(self.steps.len() as u32);
        written.needs.sort_unstable();
        written.needs.dedup_by_key(|need| need.step);
        written.needs.shrink_to_fit();
        self.steps.push(Step {
            id: written.id,
            timeout: written.timeout,
            effect: written.effect,
            standby: written.standby,
            parameters: written.parameters,
            needs: written.needs,
        });
        index
    }

    /// One value for all steps that have the same parameters; `None` if there is nothing to know.
    fn share(&mut self, parameters: impl Into<Parameters>) -> Option<Arc<Parameters>> {
        let parameters = parameters.into();
        if parameters.is_empty() {
            return None;
        }
        if let Some(known) = self.shared.get(&parameters) {
            return Some(known.clone());
        }
        let parameters = Arc::new(parameters);
        self.shared.insert(parameters.clone());
        Some(parameters)
    }

    /// The change of firmware and settings of a machine that runs meanwhile, if there is one, behind a step; its record is
    /// brought up to date behind it.
    fn service_live(
        &mut self,
        inputs: &StepInputs<'_>,
        item: &Item<'_>,
        place: &leaving::Place<'_>,
        behind: impl IntoIterator<Item = StepIndex>,
    ) -> Option<StepIndex> {
        let service = item.work.service.as_ref().filter(|each| each.is_live)?;
        let name = item.subject.name;
        let parameters = ServiceLiveParameters {
            settings: service.settings.clone(),
        };
        let written = NewStep::new(StepKind::ServiceLive, place.group, Some(name))
            .timeout(inputs.site.guards().configuration.deploy_timeout)
            .standby(place.standby)
            .parameters(self.share(parameters))
            .success(behind)
            .success(self.unset_retired.get(name).copied());
        let step = self.add(written);
        self.relabels.entry(name.clone()).or_default().push(step);
        Some(step)
    }

    /// The teardown of a machine.
    fn destroy(
        &mut self,
        inputs: &StepInputs<'_>,
        item: &Item<'_>,
        group: Option<&GroupName>,
    ) -> NewStep {
        let parameters = DestroyParameters {
            disks: item.change.disks.clone(),
            preserve_local_storage: item.keeps_disks,
            forget: inputs.options.leaving.forget,
            clean_steps: clean_steps(item),
        };
        NewStep::new(StepKind::Destroy, group, Some(item.subject.name))
            .timeout(inputs.site.guards().configuration.destroy_timeout)
            .parameters(self.share(parameters))
    }
}

/// The parameters of a deploy: the disks, the image, and its additional steps.
fn deployed(item: &Item<'_>) -> DeployParameters {
    let system = item
        .subject
        .after
        .and_then(|node| node.sections.get(&Section::OperatingSystem));
    let image = system.and_then(|system| system.at(&["platform", "image"]));
    let steps = item.work.deploy_steps.as_deref();
    let raid = item.work.raid.as_deref();
    DeployParameters {
        disks: item.change.disks.clone(),
        preserve_local_storage: item.keeps_disks,
        image: image.and_then(Node::as_str).map(Arc::from),
        joins: item.work.joins,
        deploy_steps: steps.unwrap_or_default().to_vec(),
        settings: raid.unwrap_or_default().to_vec(),
    }
}

/// The machines of items that go in waves, those first that are down: until they are back, or away, they take places in every wave.
fn down_first<'i, 's: 'i>(items: impl Iterator<Item = &'i Item<'s>>) -> Vec<&'s NodeDesign> {
    let (down, up): (Vec<_>, Vec<_>) = items.partition(|item| item.subject.down().is_some());
    let items = down.into_iter().chain(up);
    items.filter_map(|item| item.subject.design()).collect()
}

/// The clean steps that its backend is told to run.
fn clean_steps(item: &Item<'_>) -> Vec<CleanStep> {
    let cleaning = item.work.cleaning.as_ref();
    cleaning.map_or_else(Vec::new, |cleaning| cleaning.to_run().to_vec())
}
