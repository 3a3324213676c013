//! Plans by hand, after the contract of the graph of steps.

use std::collections::{BTreeMap, BTreeSet};

use crate::design::{GroupName, NodeName, SuccessCriteria};
use crate::plan::{
    Change, ChangeKind, CommitHistory, Forecast, Options, Plan, PlannedGroup, Standing, Summary,
    Target,
};
use crate::step::{Effect, Need, Step, StepId, StepIndex, StepKind, Wait};

/// The parts of a plan. Nodes that are not named elsewhere are created.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    pub(super) groups: Vec<PlannedGroup>,
    /// Nodes that are built again, and in which wave.
    pub(super) redeploys: BTreeMap<String, u32>,
    /// Nodes without steps that count as this.
    pub(super) left_alone: BTreeMap<String, Standing>,
    pub(super) relabels: BTreeSet<String>,
    /// Nodes that leave their cluster before they are torn down, and come back.
    pub(super) in_cluster: BTreeSet<String>,
    /// Nodes that have left the design.
    pub(super) removed: BTreeSet<String>,
    /// Nodes that could not be observed.
    pub(super) refused: BTreeSet<String>,
    pub(super) timeout: u64,
    pub(super) options: Options,
}

/// A group; its criteria are percent, minimum, maximum.
pub(super) fn group(
    name: &str,
    critical: bool,
    depends_on: &[&str],
    criteria: (Option<u32>, Option<u64>, Option<u64>),
    nodes: &[&str],
) -> PlannedGroup {
    PlannedGroup {
        name: GroupName::from(name),
        critical,
        depends_on: depends_on
            .iter()
            .map(|name| GroupName::from(*name))
            .collect(),
        success_criteria: SuccessCriteria {
            percent_successful_nodes: criteria.0,
            minimum_successful_nodes: criteria.1,
            maximum_failed_nodes: criteria.2,
        },
        nodes: nodes.iter().map(|name| NodeName::from(*name)).collect(),
        not_deployed: BTreeMap::new(),
        retired: 0,
        waves: None,
    }
}

#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    fn add(
        &mut self,
        kind: StepKind,
        group: Option<&GroupName>,
        node: Option<&NodeName>,
        wave: Option<u32>,
        needs: impl IntoIterator<Item = (usize, Wait)>,
    ) -> usize {
        let mut needs: Vec<Need> = needs
            .into_iter()
            .map(|(step, wait)| Need {
                step: StepIndex::from_position(step),
                wait,
            })
            .collect();
        needs.sort_unstable();
        self.0.push(Step {
            id: StepId {
                kind,
                group: group.cloned(),
                node: node.cloned(),
                wave,
            },
            timeout: 0,
            effect: Effect::None,
            standby: false,
            parameters: None,
            needs,
        });
        self.0.len() - 1
    }
}

impl Site {
    /// The groups with everything created, ten nodes at a time.
    pub(super) fn of(groups: Vec<PlannedGroup>) -> Self {
        Self {
            groups,
            options: Options {
                parallelism: 10,
                parallel_groups: 1,
                ..Options::default()
            },
            ..Self::default()
        }
    }

    #[expect(clippy::too_many_lines, reason = "a plan, step by step")]
    pub(super) fn plan(&self) -> Plan {
        use StepKind::{
            AwaitReady, CriticalCheck, Deploy, GateDeployed, GatePrepared, Prepare, PrepareSite,
            Relabel, StartGroup, StartWave, Tag, VerifySite,
        };
        use Wait::{Done, Success};
        let mut steps = Steps::default();
        let verify = steps.add(VerifySite, None, None, None, []);
        let site = steps.add(PrepareSite, None, None, None, [(verify, Success)]);
        let mut gates: Vec<(GroupName, usize)> = Vec::new();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for each in &self.groups {
            let group = Some(&each.name);
            let mut needs = vec![(site, Success)];
            let before = gates.len().checked_sub(self.options.parallel_groups.max(1));
            for (position, (name, gate)) in gates.iter().enumerate() {
                if each.depends_on.contains(name) {
                    needs.push((*gate, Success));
                } else if Some(position) == before {
                    needs.push((*gate, Done));
                }
            }
            let start = steps.add(StartGroup, group, None, None, needs);
            let waves: BTreeSet<u32> = each
                .nodes
                .iter()
                .filter_map(|node| self.redeploys.get(node.as_str()).copied())
                .collect();
            let waves: Vec<Option<u32>> = if waves.is_empty() {
                vec![None]
            } else {
                waves.into_iter().map(Some).collect()
            };
            let mut ends = Vec::new();
            let mut last_deploys = Vec::new();
            for (number, wave) in (1u32..).zip(&waves) {
                let begin = wave.map(|_| {
                    let needs = last_deploys.iter().copied();
                    let needs: Vec<_> = std::iter::once((start, Success)).chain(needs).collect();
                    steps.add(StartWave, group, None, Some(number), needs)
                });
                let mut prepares = Vec::new();
                for node in &each.nodes {
                    let name = node.as_str();
                    if self.left_alone.contains_key(name) || self.relabels.contains(name) {
                        continue;
                    }
                    let first = match self.redeploys.get(name) {
                        Some(own) if Some(*own) == *wave => {
                            let needs: Vec<_> =
                                begin.map(|begin| (begin, Success)).into_iter().collect();
                            self.tear_down(&mut steps, group, node, needs)
                        }
                        None if number == 1 => start,
                        _ => continue,
                    };
                    let prepare = steps.add(Prepare, group, Some(node), None, [(first, Success)]);
                    prepares.push((node, prepare));
                }
                let wanted = prepares.iter().map(|(_, prepare)| (*prepare, Done));
                let needs: Vec<_> = std::iter::once((start, Success)).chain(wanted).collect();
                let number = (waves.len() > 1).then_some(number);
                let gate = steps.add(GatePrepared, group, None, number, needs);
                ends.push((gate, Done));
                last_deploys.clear();
                for (node, prepare) in prepares {
                    let needs = [(gate, Success), (prepare, Success)];
                    let deploy = steps.add(Deploy, group, Some(node), None, needs);
                    let mut last = (deploy, Done);
                    if self.in_cluster.contains(node.as_str()) {
                        ends.push(last);
                        let needs = [(deploy, Success)];
                        let back = steps.add(AwaitReady, group, Some(node), None, needs);
                        last = (back, Success);
                    }
                    last_deploys.push(last);
                }
                let last = last_deploys.iter().map(|(step, _)| *step);
                ends.extend(last.map(|step| (step, Done)));
            }
            for node in &each.nodes {
                if self.relabels.contains(node.as_str()) {
                    let needs = [(start, Success)];
                    ends.push((steps.add(Relabel, group, Some(node), None, needs), Done));
                }
            }
            let gate = steps.add(GateDeployed, group, None, None, ends);
            gates.push((each.name.clone(), gate));
            for step in &mut steps.0[start..gate] {
                if let Some(node) = &step.id.node {
                    step.standby = seen.contains(node.as_str());
                }
            }
            seen.extend(each.nodes.iter().map(NodeName::as_str));
        }
        let all: Vec<_> = (0..steps.0.len()).map(|step| (step, Done)).collect();
        let check = steps.add(CriticalCheck, None, None, None, all);
        let mut last = vec![(check, Done)];
        for name in &self.removed {
            let node = NodeName::from(name.as_str());
            let step = self.tear_down(&mut steps, None, &node, vec![(check, Success)]);
            last.push((step, Done));
        }
        steps.add(Tag, None, None, None, last);
        for step in &mut steps.0 {
            let name = step.id.node.as_ref().map(NodeName::as_str);
            if name.is_some() {
                step.timeout = self.timeout;
            }
            if step.id.kind == Prepare && name.is_some_and(|name| self.refused.contains(name)) {
                step.give("refused", "could not be observed");
            }
        }
        Plan {
            site: "site".into(),
            request: crate::plan::Request::default(),
            way_back: None,
            unfinished: None,
            target: Target {
                revision: None,
                site_digest: "".into(),
                dirty: Vec::new(),
                repositories: BTreeMap::new(),
            },
            base: None,
            options: self.options.clone(),
            intermediate_commits: Vec::new(),
            history: CommitHistory::default(),
            changes: self.changes(),
            unchanged: 0,
            groups: self.groups.clone(),
            steps: steps.0,
            relies_on: Vec::new(),
            records_digest: "".into(),
            notices: Vec::new(),
            warnings: Vec::new(),
            policies: crate::plan::Verdicts::default(),
            guards: crate::plan::PlanGuards::default(),
            approvals: crate::plan::Approvals::default(),
            summary: Summary::default(),
            forecast: Forecast::default(),
            checked: None,
            rehearsal: None,
        }
    }

    /// The steps that tear a node down, the last of which is what comes next needs.
    fn tear_down(
        &self,
        steps: &mut Steps,
        group: Option<&GroupName>,
        node: &NodeName,
        mut needs: Vec<(usize, Wait)>,
    ) -> usize {
        use StepKind::{
            CheckEtcd, ClearLabels, Destroy, Drain, RemoveEtcd, RemoveFromCluster, ShutdownKubelet,
        };
        use Wait::{Done, Success};
        let is_in_cluster = self.in_cluster.contains(node.as_str());
        if is_in_cluster {
            for kind in [Drain, ClearLabels, RemoveEtcd, CheckEtcd] {
                needs = vec![(steps.add(kind, group, Some(node), None, needs), Success)];
            }
            let kubelet = steps.add(ShutdownKubelet, group, Some(node), None, needs.clone());
            needs.push((kubelet, Done));
        }
        let destroy = steps.add(Destroy, group, Some(node), None, needs);
        if !is_in_cluster {
            return destroy;
        }
        let needs = [(destroy, Success)];
        steps.add(RemoveFromCluster, group, Some(node), None, needs)
    }

    fn changes(&self) -> Vec<Change> {
        let mut all: BTreeSet<&str> = self
            .groups
            .iter()
            .flat_map(|group| &group.nodes)
            .map(NodeName::as_str)
            .collect();
        all.extend(self.removed.iter().map(String::as_str));
        all.into_iter()
            .map(|name| {
                let (kind, counts_as) = if let Some(standing) = self.left_alone.get(name) {
                    (ChangeKind::Create, *standing)
                } else if self.redeploys.contains_key(name) {
                    (ChangeKind::Redeploy, Standing::Deployed)
                } else if self.relabels.contains(name) {
                    (ChangeKind::Relabel, Standing::Deployed)
                } else if self.removed.contains(name) {
                    (ChangeKind::Destroy, Standing::Deployed)
                } else {
                    (ChangeKind::Create, Standing::NotStarted)
                };
                Change {
                    node: name.into(),
                    kind,
                    rung: None,
                    does: None,
                    group: None,
                    rack: None,
                    blocked: None,
                    excluded: false,
                    unverified: false,
                    destructive: false,
                    disks: Vec::new(),
                    cleaning: None,
                    reasons: Vec::new(),
                    fields: Vec::new(),
                    counts_as,
                    machine: None,
                    inventory: None,
                    shown_only: false,
                }
            })
            .collect()
    }
}
