//! The plan: changes and steps from what was last applied to what is designed, as a value.
//!
//! Planning is a function: (design before, design after, observations, records, options) → [`Plan`].
//! Same input, same bytes; no clock, no network. What a plan may not yet do is in it as blocked.

mod accept;
mod accepted;
mod action;
mod addresses;
mod allowance;
mod approvals;
mod asked;
mod begun_elsewhere;
mod blast_radius;
mod block;
mod breaker;
mod change;
mod cleaning;
mod cluster;
mod covered;
mod deploy_steps;
mod drift;
pub mod effect;
mod etcd;
mod explanation;
mod fact;
mod facts;
mod flags;
mod forecast;
mod former;
mod graph;
mod groups;
mod guards;
mod input;
mod item;
mod joining;
mod leave;
mod leaving;
mod left;
mod make;
mod options;
mod parts;
mod preconditions;
mod refusals;
mod rehearsal;
mod remediate;
mod remedy;
mod renamed;
mod rules;
mod safeguards;
pub mod saved;
mod service;
mod soak;
mod stale;
mod steps;
mod subject;
#[cfg(test)]
pub(crate) mod tests;
mod tightened;
mod unavailable;
mod unblock;
mod way_back;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::design::{
    Digest, DisruptionPolicy, GroupName, NodeName, RunId, Rung, Section, SectionDigest, SiteName,
    SuccessCriteria,
};
use crate::guard::WaveSize;
use crate::record::{Phase, Unproven};
use crate::step::{Cleaning, Step, StepId, StepIndex};

pub use accept::no_difference;
pub use action::{Action, ClusterSteps, Request};
pub use allowance::Allowance;
pub use approvals::{
    Approvals, BreakGlassOutlook, GivenApproval, NeededApproval, RecoveryApproval, RefusedApproval,
};
pub use begun_elsewhere::take_begun_elsewhere;
pub use blast_radius::Exceeded;
pub use block::{Block, Cause};
pub use covered::{CoveredBackend, CoveredMachine};

pub use crate::diff::{FieldChange, Link, Reasons};
pub use breaker::{TooManyUnhealthy, may_remediate};
pub use effect::{Difference, PlanEffect};
pub use explanation::{
    BlockedNode, CausesNeeded, ExplainedSubject, Explanation, ExplanationBasis, PlanRefusal,
    StepCause, StepExplanation, StepStanding, StepTiming, SubjectKind, WayOut,
};
pub use fact::{FactName, FactSubject};
pub use facts::{Sources, sources};
pub use forecast::{EtcdForecast, Forecast, NodeForecast, StepTimes, TimeForecast};
pub use former::FormerSite;
pub use graph::{graph, waves_of_steps};
pub use groups::in_order;
pub use guards::{GuardBasis, Loosened, PlanGuards};
pub use input::{Error, Input, NoReasons};
pub use make::{make, named};
pub use options::{Leaving, Options, Remediation};
pub use parts::{Part, PartKind, Parts, TASKS_BESIDE};
pub use preconditions::records_digest;
pub use refusals::APPROVE;
pub use rehearsal::{Rehearsal, RehearsedCluster, RehearsedGroup, WorstRun};
pub use renamed::Renames;
pub use saved::digest;
pub use stale::{Current, Recorded, Staleness, broken, hold_to, outdated, stale};
pub(crate) use subject::PROTECTED;
pub use tightened::{GuardsNow, Tightened};
pub use unblock::{Unblocking, unblocking};
pub use way_back::{WayBack, WayBackLoss};

/// The version of the format of a saved plan.
pub const FORMAT_VERSION: u32 = 3;

/// The kind of change of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// `+`: nothing is there yet: prepare, deploy.
    Create,
    /// `?`: it exists without a record; blocked until adopted.
    Adopt,
    /// `?`: no record, and it could not be observed.
    Unknown,
    /// `~`: only the record is brought up to date.
    Record,
    /// `~`: it is built, and is waited for until it has joined its clusters.
    AwaitReady,
    /// `~`: the record of a machine that had another name moves to its new one.
    Rename,
    /// `~`: Kubernetes labels only.
    Relabel,
    /// `~`: drained, its firmware and settings changed, restarted; no disk is touched. Blocked until allowed.
    Service,
    /// `-/+`: torn down and built again; blocked until allowed.
    Redeploy,
    /// `-`: no longer designed: torn down; blocked until allowed.
    Destroy,
    /// Set retired, and left out of every group.
    Retire,
    /// The retired flag is taken off again.
    Unretire,
    /// `*`: what an action asks for; the design is not compared.
    Operation,
    /// `!`: the observed state differs though the design did not change; repaired by power-on or relabel.
    Drift,
    /// `=`: it differs in what would need a redeploy, which was accepted; its record lists that.
    Accept,
    /// Nothing.
    None,
}

impl ChangeKind {
    /// The sign in front of a line.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Create => "+",
            Self::Adopt | Self::Unknown => "?",
            Self::Record
            | Self::AwaitReady
            | Self::Rename
            | Self::Relabel
            | Self::Service
            | Self::Retire
            | Self::Unretire => "~",
            Self::Redeploy => "-/+",
            Self::Destroy => "-",
            Self::Drift => "!",
            Self::Operation => "*",
            Self::Accept => "=",
            Self::None => " ",
        }
    }
}

/// The change of one node, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Which node.
    pub node: NodeName,
    /// The kind of change.
    pub kind: ChangeKind,
    /// How far it goes with a machine that is in service; `None`: the machine is not in service yet, or nothing is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<Rung>,
    /// The action, for an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub does: Option<Arc<str>>,
    /// The first group in which it is worked on.
    pub group: Option<GroupName>,
    /// The rack of its machine, if the design names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<Arc<str>>,
    /// Why it is not carried out, where it is not.
    pub blocked: Option<Block>,
    /// Left out by `--target` or `--exclude`.
    pub excluded: bool,
    /// Shown and never carried out, without blocking anything: drift of a retired node or of one in
    /// maintenance. It has no steps.
    pub shown_only: bool,
    /// Nothing proves that its machine is the one that is meant, and it is changed all the same, as was
    /// allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// Whether it destroys data or takes a machine away.
    pub destructive: bool,
    /// Disks that are erased or written.
    pub disks: Vec<Arc<str>>,
    /// How the machine is cleaned on the way, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleaning: Option<Arc<Cleaning>>,
    /// Why, in words, if no field says it (`no record`, `is off`, `failed in run …`).
    pub reasons: Vec<Arc<str>>,
    /// The fields that differ.
    pub fields: Vec<FieldChange>,
    /// The node's standing in its groups' criteria, if no step of this plan is about it.
    pub counts_as: Standing,
    /// Its machine, as an approval of the plan covers it, where steps are about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Box<CoveredMachine>>,
    /// The digest of the section of its design that approvals do not cover: its record gets it with the others, also from
    /// an abort, which has the plan alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<SectionDigest>,
}

/// The standing of a node in the criteria of its groups before the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Nothing was done.
    NotStarted,
    /// Prepared.
    Prepared,
    /// Deployed.
    Deployed,
    /// Failed.
    Failed,
    /// Something has begun on it, or may have, and how that ended is not known: the standing of a run that has not ended, never of a plan.
    Unknown,
}

impl From<Phase> for Standing {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::NotStarted => Self::NotStarted,
            Phase::Prepared => Self::Prepared,
            Phase::Deployed => Self::Deployed,
            Phase::Failed => Self::Failed,
            Phase::Unknown => Self::Unknown,
        }
    }
}

impl Standing {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [
        Self::NotStarted,
        Self::Prepared,
        Self::Deployed,
        Self::Failed,
        Self::Unknown,
    ];
}

/// A group as the plan runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedGroup {
    /// Its name.
    pub name: GroupName,
    /// Whether the site action fails when it does.
    pub critical: bool,
    /// The groups that must have succeeded before.
    pub depends_on: Vec<GroupName>,
    /// Its criteria.
    pub success_criteria: SuccessCriteria,
    /// All its nodes, retired ones left out, sorted.
    pub nodes: Vec<NodeName>,
    /// Those of them that this plan has no change of and that are not deployed, as their records say: they count neither
    /// for its criteria nor against them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_deployed: BTreeMap<NodeName, Standing>,
    /// How many retired nodes were left out.
    pub retired: usize,
    /// The size of its waves, where machines are taken out of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves: Option<WaveSize>,
}

impl Change {
    /// Whether no run of this plan carries it out, though a later one may.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        self.blocked.is_some() || self.excluded
    }

    /// Whether flags or a policy allow it as far as it goes.
    #[must_use]
    pub fn is_within(&self, options: &Options, policy: &DisruptionPolicy) -> bool {
        self.rung.is_none_or(|rung| {
            rung <= policy.most(self.open_sections(), rung) || options.allow_rung(rung, &self.node)
        })
    }

    /// The sections of the fields that differ and are not accepted.
    #[must_use]
    pub fn open_sections(&self) -> BTreeSet<Section> {
        let open = self.fields.iter().filter(|field| field.accepted.is_none());
        open.map(|field| field.section).collect()
    }

    /// The lowest rung that brings all fields true that differ and are not accepted.
    #[must_use]
    pub fn lowest_rung(&self) -> Option<Rung> {
        let open = self.open_sections().into_iter();
        open.map(Section::lowest_rung).max()
    }

    /// Whether a machine is wiped or taken away: one that is remediated is switched off and on, and keeps its disks.
    #[must_use]
    pub fn wipes_or_takes_away(&self) -> bool {
        self.destructive && self.rung != Some(Rung::Restart)
    }

    /// Whether data is destroyed, or a machine in service is taken out of it or restarted.
    #[must_use]
    pub fn is_disruptive(&self) -> bool {
        self.destructive || self.rung.is_some_and(Rung::is_disruptive)
    }

    /// Whether all that differs was accepted, as its record lists already.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.kind == ChangeKind::Accept && self.shown_only
    }
}

/// Which documents are applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The commit; `None` for the worktree.
    pub revision: Option<Arc<str>>,
    /// SHA-256 over the sorted (path, mode, blob id) of the site's files.
    pub site_digest: Digest,
    /// Files of the site that differ from the commit, if the worktree was planned.
    pub dirty: Vec<Arc<str>>,
    /// The commits of other repositories that hold documents of the site, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repositories: BTreeMap<Arc<str>, Arc<str>>,
}

/// The base that the plan starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The run of the last success.
    pub run: RunId,
    /// Its commit.
    pub revision: Arc<str>,
    /// The digest of the site's files there.
    pub site_digest: Digest,
}

/// How an observed value must stand to the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The same.
    Equal,
    /// Everything seen is among what was expected.
    Subset,
    /// Not more.
    AtMost,
    /// Not less.
    AtLeast,
}

/// A fact about something, and what is expected of it. Most machines of a site have theirs in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expectation {
    /// Which fact.
    pub fact: FactName,
    /// The observed value when the plan was made, as compact JSON.
    pub expected: Arc<str>,
    /// The required relation of a later observed value to it.
    pub relation: Relation,
}

/// A fact that the plan relies on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(
    from = "saved::WrittenPrecondition",
    into = "saved::WrittenPrecondition"
)]
pub struct Precondition {
    /// The subject.
    pub subject: FactSubject,
    /// The expectation.
    pub what: Arc<Expectation>,
    /// The steps that rely on it.
    pub steps: Arc<[StepIndex]>,
}

/// A commit between the last site action and the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntermediateCommit {
    /// Its full id.
    pub commit: Arc<str>,
    /// Its first line.
    pub subject: Arc<str>,
}

/// How the target stands to the commit of the last site action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lineage {
    /// It is the next one that touches the site, or there is no other.
    #[default]
    Follows,
    /// Commits between were not applied on their own.
    IntermediateCommits,
    /// It is older, and undoes commits.
    Rollback,
    /// It is on another line.
    Diverged,
}

/// The commits that lead to the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitHistory {
    /// How it stands to the last site action.
    pub lineage: Lineage,
    /// Those since the last success that touch the site, the target among them; the newest first.
    pub since_base: Vec<IntermediateCommit>,
    /// The upstream branch that the target is not on yet.
    pub unpublished: Option<Arc<str>>,
}

impl CommitHistory {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnfinishedRun {
    /// Its id.
    pub run: RunId,
    /// The action.
    pub action: Arc<str>,
    /// Whether it is running.
    pub state: RunState,
    /// When it began.
    pub started: Arc<str>,
    /// The holder of the lock, now or then, if the lock names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
    /// On which host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
}

/// Whether a run that has not ended is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Its process holds the lock, and may be at work.
    Running,
    /// Its process is gone, or released the lock.
    Interrupted,
    /// It has ended in another clone, if its records wait to be published.
    EndedElsewhere,
}

/// How many nodes change how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// By kind of change, those that are carried out.
    pub changes: BTreeMap<ChangeKind, usize>,
    /// By kind of change, those that are blocked.
    pub blocked: BTreeMap<ChangeKind, usize>,
    /// The highest rung of the changes that are carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_rung: Option<Rung>,
    /// Disks that are erased or written on machines that had something on them.
    pub wiped_disks: usize,
    /// Machines that are not known to be as designed, though nothing shows that they are not.
    #[serde(default, skip_serializing_if = "Unproven::is_none")]
    pub unproven: Unproven,
    /// Retired nodes that do not change.
    pub retired: usize,
    /// Left out by `--target` or `--exclude`.
    pub excluded: usize,
    /// The longest path, in seconds, by the configured timeouts or past runs.
    pub longest_path: u64,
    /// The widest waves of machines that are taken out of service, and why no wider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves: Option<WaveSize>,
}

/// The verdict of the independent checker on a plan, for its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CheckSummary {
    /// How many rules it was held to.
    pub rules: usize,
    /// How many findings there were.
    pub findings: usize,
    /// The version of the rules.
    pub version: u32,
}

/// The verdicts of the rules of the site on a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdicts {
    /// Those that deny: the plan is not applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Verdict>,
    /// Those that warn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warned: Vec<Verdict>,
}

impl Verdicts {
    /// Adds the verdicts of more rules, each once.
    pub fn extend(&mut self, more: Self) {
        let add = |all: &mut Vec<Verdict>, more: Vec<Verdict>| {
            for verdict in more {
                if !all.contains(&verdict) {
                    all.push(verdict);
                }
            }
        };
        add(&mut self.denied, more.denied);
        add(&mut self.warned, more.warned);
    }

    /// Whether no rule says anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.denied.is_empty() && self.warned.is_empty()
    }
}

/// The verdict of a rule of the site on a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Its package and name.
    pub rule: Arc<str>,
    /// The message.
    pub message: Arc<str>,
}

/// A plan: the changes, and the steps to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which site.
    pub site: SiteName,
    /// The request: `update`, or another action, and its nodes.
    pub request: Request,
    /// Which documents are applied.
    pub target: Target,
    /// The base; `None` if no run succeeded before.
    pub base: Option<Base>,
    /// The options of the request.
    pub options: Options,
    /// Commits between the last site action and the target, or those that a rollback undoes; the newest first.
    pub intermediate_commits: Vec<IntermediateCommit>,
    /// The commits that lead to the target.
    pub history: CommitHistory,
    /// Every node that changes, sorted by name.
    pub changes: Vec<Change>,
    /// How many nodes do not change, retired ones left out.
    pub unchanged: usize,
    /// The groups, in the order in which they run.
    pub groups: Vec<PlannedGroup>,
    /// The steps; every need points to an earlier one.
    pub steps: Vec<Step>,
    /// Facts that must still hold when it is applied.
    pub relies_on: Vec<Precondition>,
    /// The digest of the records of the nodes that it touches or relies on.
    pub records_digest: Digest,
    /// Notices, shown before everything else of the plan.
    pub notices: Vec<Arc<str>>,
    /// The run that had not ended when the plan was made: what it did may not be in the records yet.
    pub unfinished: Option<UnfinishedRun>,
    /// Warnings.
    pub warnings: Vec<Arc<str>>,
    /// The verdicts of the rules of the site.
    pub policies: Verdicts,
    /// The guards that it is held to.
    pub guards: PlanGuards,
    /// The signatures that it needs and has.
    pub approvals: Approvals,
    /// The way back to a revision of the past that it goes, if it was made for that.
    pub way_back: Option<WayBack>,
    /// Counts.
    pub summary: Summary,
    /// The expected effect on workloads on the nodes; not part of the plan's digest.
    pub forecast: Forecast,
    /// The verdict of the checker of this process; not part of the digest, and never read back.
    pub checked: Option<CheckSummary>,
    /// Its rehearsal, if that was asked for; not part of the digest, and never read back.
    pub rehearsal: Option<Rehearsal>,
}

impl Summary {
    /// Counts changes.
    pub(super) fn count<'c>(&mut self, changes: impl IntoIterator<Item = &'c Change>) {
        for change in changes {
            if change.excluded {
                self.excluded += 1;
            } else if change.blocked.is_some() {
                *self.blocked.entry(change.kind).or_default() += 1;
            } else if !change.shown_only {
                *self.changes.entry(change.kind).or_default() += 1;
                self.highest_rung = self.highest_rung.max(change.rung);
                if change.destructive {
                    self.wiped_disks += change.disks.len();
                }
            }
        }
    }
}

impl Plan {
    /// Whether it is refused for commits since the last site action that are not allowed.
    #[must_use]
    pub fn is_refused_for_commits(&self) -> bool {
        let follows = self.history.lineage == Lineage::Follows || self.finds_nothing();
        !follows && !self.options.allow_intermediate_commits
    }

    /// Whether it is refused since its documents make guards weaker, and neither a flag nor approvals allow that.
    #[must_use]
    pub fn is_refused_for_loosening(&self) -> bool {
        let mut loosened = self.guards.loosened_by_documents();
        loosened.next().is_some() && self.approvals.is_empty() && !self.options.allow_loosening
    }

    /// Whether it is refused since it reaches more than the policy lets one plan reach, and no approval can lift that.
    #[must_use]
    pub fn is_refused_for_reach(&self) -> bool {
        !self.guards.exceeded.is_empty() && self.approvals.is_empty()
    }

    /// Whether it is refused since the policy asks for the ticket of the work, and it names none.
    #[must_use]
    pub fn is_refused_for_ticket(&self) -> bool {
        let asked = self.guards.values.get("ticket");
        asked.is_some_and(|asked| asked == true)
            && self.options.ticket.is_none()
            && !self.is_empty()
    }

    /// Whether it is not applied as it stands, whatever approvals it gets.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.is_blocked()
            || self.is_denied()
            || self.is_refused_for_commits()
            || self.is_refused_for_loosening()
            || self.is_refused_for_reach()
            || self.is_refused_for_ticket()
    }

    /// Whether a rule of the site denies it.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        !self.policies.denied.is_empty()
    }

    /// Whether a run of it leaves something out, so that it cannot mark the revision as reached.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.options.targets.is_empty()
            || !self.options.excludes.is_empty()
            || self.changes.iter().any(Change::is_left_out)
    }

    /// Whether there is nothing to be done, not even a tag to be made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && !self.guards.changes
    }

    /// Whether there is nothing to be done, and nothing was left out or blocked.
    #[must_use]
    pub fn finds_nothing(&self) -> bool {
        self.is_empty() && self.blocked().next().is_none()
    }

    /// Whether machines have the soak that an earlier run owes them.
    #[must_use]
    pub fn repeats_soak(&self) -> bool {
        self.steps.iter().any(Step::is_owed_soak)
    }

    /// The machines that have the soak that an earlier run owes them.
    pub fn owing_soak(&self) -> impl Iterator<Item = &NodeName> {
        let soaks = self.steps.iter().filter(|step| step.is_owed_soak());
        soaks.flat_map(Step::soaked)
    }

    /// The machines that are changed though nothing proves that they are the ones that are meant.
    pub fn unverified(&self) -> impl Iterator<Item = &NodeName> {
        let is_carried_out = |change: &&Change| {
            change.unverified && change.blocked.is_none() && !change.excluded && !change.shown_only
        };
        let changes = self.changes.iter().filter(is_carried_out);
        changes.map(|change| &change.node)
    }

    /// Whether any change is carried out, beside those that are blocked.
    #[must_use]
    pub fn carries_any(&self) -> bool {
        let mut carried = self.summary.changes.iter();
        carried.any(|(kind, number)| *kind != ChangeKind::None && *number > 0)
    }

    /// The changes that wait for a flag, or that nothing allows.
    pub fn blocked(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| change.blocked.is_some())
    }

    /// Whether it is refused as a whole: changes that are not excluded are blocked, and the rest is not to be carried
    /// out without them.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        !self.options.skip_blocked && self.blocked().any(|change| !change.excluded)
    }

    /// By its id, where each step stands.
    #[must_use]
    pub fn positions(&self) -> FxHashMap<&StepId, usize> {
        let ids = self.steps.iter().map(|step| &step.id);
        ids.zip(0..).collect()
    }

    /// How many changes of a kind are carried out.
    #[must_use]
    pub fn count(&self, kind: ChangeKind) -> usize {
        self.summary.changes.get(&kind).copied().unwrap_or_default()
    }
}
