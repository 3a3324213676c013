//! The record of each node and of each run: typed, stored in git.
//!
//! `refs/trueup/<site>/state` is a line of commits, one for each run and checkpoint. It is the
//! authority for "last success"; the tags publish it.

mod cached;
mod error;
mod exchange;
mod format;
mod message;
mod packed;
mod place;
mod relocate;
mod renew;
mod shard;
mod signing;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::design::{
    Acceptance, DIGEST_VERSION, DesignDifference, Digest, Digests, HardwareSetting, NodeName,
    OpenField, RunId, Section, SiteName, Ticket,
};
use crate::identity::Identity;
use crate::remediation::{Backup, Memory};

pub use error::Error;
pub use exchange::{Exchange, ExchangeOutcome};
pub use format::FORMAT_VERSION;
pub use packed::{Packed, Packing};
pub use place::Place;
pub use relocate::{Direction, Move, Relocation};
pub use signing::{
    NotReady, RunSignature, SignatureVerdict, Signing, bound_repository, is_bound_to,
};
pub use store::{Checkpoint, GUARDS_ACTION, PendingCheckpoint, RunFile, State, Store};

/// How far a machine has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Nothing was done to it, or it was torn down since.
    NotStarted,
    /// Prepared, not deployed.
    Prepared,
    /// Deployed with the recorded digests.
    Deployed,
    /// A step on it failed.
    Failed,
    /// A request to it may still be running; it is observed before anything else is done.
    Unknown,
}

impl Phase {
    /// The word for it, as in the records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not-started",
            Self::Prepared => "prepared",
            Self::Deployed => "deployed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// The record of one node. Also kept for nodes that have left the design, until they are torn down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Which node.
    pub node: NodeName,
    /// How far it has come.
    pub phase: Phase,
    /// The version of the rules behind `digests`.
    pub digest_version: u32,
    /// The digest of each section as it was last applied; empty if nothing was.
    #[serde(default, skip_serializing_if = "Digests::is_empty")]
    pub digests: Digests,
    /// The commit whose design was last applied to it.
    pub revision: Option<Arc<str>>,
    /// The run that last did something to it.
    pub run: RunId,
    /// The reason, if it is retired, and by which entry (the reason is the entry's).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<Arc<str>>,
    /// The reason, if it is in maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Arc<str>>,
    /// The last failure, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Arc<str>>,
    /// The clean step that failed; absent as soon as the machine was cleaned, or that was skipped on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_step: Option<Arc<str>>,
    /// It was taken under management, and was not made available since. What keeps its own states says
    /// itself whether that is so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manageable: bool,
    /// Labels and taints taken off its Kubernetes node, or lost with it, and not restored yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<Box<Backup>>,
    /// The running or aborted remediation: if no Metal3 holds them, its two annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Box<Memory>>,
    /// The identity of its machine since it was adopted or first changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Box<Identity>>,
    /// The differences between the machine and its design that were accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Box<Accepted>>,
    /// How its claim is known that the machine is as it says; absent in records of earlier versions, if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Known>,
    /// Whether it has joined its clusters since it was built; absent: it is to join none, or was not built by a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<Join>,
    /// The last service of its firmware and settings, for the way back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serviced: Option<Box<Serviced>>,
    /// The run that cordoned its node to service it, and has not lifted that: any other cordon is of an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned: Option<RunId>,
    /// The run that took its system off it, until one is put on it again; absent if it never had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torn_down: Option<RunId>,
    /// The run that took its system off it kept its other disks, which no one has let be erased since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept_disks: bool,
    /// The run in whose wave it came back, until a soak that watches it has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soaking: Option<RunId>,
}

/// A service of a machine's firmware and settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serviced {
    /// The run that did it.
    pub run: RunId,
    /// The values that it set, each with the value before if that was observed.
    pub settings: Vec<HardwareSetting>,
}

/// How many machines of a site are not known to be as designed, or are known not to be and were left so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Unproven {
    /// Other than designed, and left so: in maintenance, off, in no group.
    #[serde(skip_serializing_if = "is_none_of")]
    pub differing: usize,
    /// Taken as they were, and not compared in all sections.
    #[serde(skip_serializing_if = "is_none_of")]
    pub assumed: usize,
    /// Built, and in their clusters not yet.
    #[serde(skip_serializing_if = "is_none_of")]
    pub not_joined: usize,
    /// Not observed, or in a cluster that could not be read.
    #[serde(skip_serializing_if = "is_none_of")]
    pub unobserved: usize,
}

impl Unproven {
    /// Counts the machines of some records.
    pub fn of<'r>(records: impl IntoIterator<Item = &'r NodeRecord>) -> Self {
        let mut all = Self::default();
        for record in records {
            all.assumed += usize::from(!record.assumed().is_empty());
            all.not_joined += usize::from(record.awaited_since().is_some());
        }
        all
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Those of which an ordinary run, an observation or an operator may still prove that they are as designed: all but those
    /// that were taken as they were.
    #[must_use]
    pub fn open(self) -> Self {
        Self { assumed: 0, ..self }
    }

    /// The numbers, each with its words.
    pub fn words(self) -> impl Iterator<Item = String> {
        let counts = [
            (self.differing, "not as designed, left so"),
            (self.assumed, "assumed (not verified)"),
            (self.not_joined, "not recorded as joined"),
            (self.unobserved, "not observed"),
        ];
        let counts = counts.into_iter().filter(|(number, _)| *number > 0);
        counts.map(|(number, words)| format!("{number} {words}"))
    }
}

/// How it is known that a machine is as its record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// A run has built it so.
    Applied,
    /// It was taken as it was.
    Adopted(Box<Adopted>),
}

/// How a machine was taken as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopted {
    /// The sections of its design that were compared with what its backend and its cluster showed, and were equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<Section>,
    /// The sections that were not compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<Section>,
    /// The fields of these that no document filled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenField>,
    /// Why, if a person took it as it was though a run had begun to change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// Whether a machine that is to join its clusters has joined them since it was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Join {
    /// Not yet.
    Awaited {
        /// When it was deployed, in seconds since 1970.
        since: i64,
    },
    /// Its node was Ready in its cluster, and its members of etcd clusters voted.
    Joined,
}

/// The differences between a machine and its design that were accepted, so that it is not redeployed for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The commit whose design is on the machine: the record's own may be a later one, of labels or of what is on no
    /// machine.
    pub revision: Arc<str>,
    /// Which, sorted by section and path.
    pub differences: Vec<AcceptedDifference>,
}

/// An accepted difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedDifference {
    /// The field and its designed value, and why.
    #[serde(flatten)]
    pub acceptance: Acceptance,
    /// The person or account that began the run.
    pub by: Arc<str>,
    /// The run that recorded it.
    pub run: RunId,
}

impl NodeRecord {
    /// The commit whose design is on the machine.
    #[must_use]
    pub fn installed(&self) -> Option<&Arc<str>> {
        let accepted = self.accepted.as_ref().map(|accepted| &accepted.revision);
        accepted.or(self.revision.as_ref())
    }

    /// How a difference was accepted, with that value and no other.
    #[must_use]
    pub fn acceptance(&self, difference: &DesignDifference) -> Option<&AcceptedDifference> {
        let mut all = self.accepted.iter().flat_map(|all| &all.differences);
        all.find(|accepted| accepted.acceptance.difference == *difference)
    }
}

impl NodeRecord {
    /// The record of a node to which nothing was done yet.
    #[must_use]
    pub fn blank(node: NodeName, run: RunId) -> Self {
        Self {
            node,
            phase: Phase::NotStarted,
            digest_version: DIGEST_VERSION,
            digests: Digests::default(),
            revision: None,
            run,
            retired: None,
            maintenance: None,
            last_error: None,
            clean_step: None,
            manageable: false,
            owed: None,
            remediation: None,
            identity: None,
            accepted: None,
            known: Some(Known::Applied),
            join: None,
            serviced: None,
            cordoned: None,
            torn_down: None,
            soaking: None,
            kept_disks: false,
        }
    }

    /// Whether a run has taken its system off it, and none has put one on it since.
    #[must_use]
    pub fn is_torn_down(&self) -> bool {
        self.torn_down.is_some()
    }

    /// The labels, taints and annotations that its Kubernetes node does not carry any more, and has not been
    /// given back: those that clear-labels took, and those of a node that a remediation deleted.
    #[must_use]
    pub fn owed(&self) -> Option<Backup> {
        let remedied = self.remediation.as_ref();
        let remedied = remedied.and_then(|memory| memory.backup.as_ref());
        let owed = match (self.owed.as_deref(), remedied) {
            (Some(owed), Some(later)) => owed.clone().with(later),
            (Some(owed), None) | (None, Some(owed)) => owed.clone(),
            (None, None) => return None,
        };
        (!owed.is_empty()).then_some(owed)
    }
}

impl NodeRecord {
    /// The sections of a deployed machine that are assumed to be as recorded: they were not compared, and no run has
    /// built it.
    #[must_use]
    pub fn assumed(&self) -> &[Section] {
        match &self.known {
            _ if self.phase != Phase::Deployed || self.digests.is_empty() => &[],
            Some(Known::Applied) => &[],
            Some(Known::Adopted(adopted)) => &adopted.assumed,
            None => &Section::ON_MACHINE,
        }
    }

    /// Whether its machine carries a system by an applied design, whatever became of the last step.
    #[must_use]
    pub fn has_system(&self) -> bool {
        match self.phase {
            Phase::Deployed => true,
            Phase::Failed | Phase::Unknown => !self.digests.is_empty(),
            Phase::NotStarted | Phase::Prepared => false,
        }
    }

    /// By what it is assumed to be as recorded: an adoption, or what an operator gave as the reason.
    #[must_use]
    pub fn assumed_by(&self) -> &str {
        self.reason_to_assume().unwrap_or("adopted")
    }

    /// The reason that an operator gave to take it as it was.
    #[must_use]
    pub fn reason_to_assume(&self) -> Option<&str> {
        match &self.known {
            Some(Known::Adopted(adopted)) => adopted.reason.as_deref(),
            Some(Known::Applied) | None => None,
        }
    }

    /// The fields of its design that were open when it was adopted, if no run has built it since.
    #[must_use]
    pub fn open(&self) -> &[OpenField] {
        match &self.known {
            Some(Known::Adopted(adopted)) if !self.assumed().is_empty() => &adopted.open,
            Some(Known::Adopted(_) | Known::Applied) | None => &[],
        }
    }

    /// Since when it is deployed without having joined its clusters, in seconds since 1970, if that is so.
    #[must_use]
    pub fn awaited_since(&self) -> Option<i64> {
        match self.join {
            Some(Join::Awaited { since }) => Some(since),
            Some(Join::Joined) | None => None,
        }
    }

    /// Whether it shows that a run has deployed the node, without a change since.
    #[must_use]
    pub fn is_deployed_by(&self, run: &RunId) -> bool {
        self.phase == Phase::Deployed && self.run == *run
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Still running, or its runner is gone.
    Running,
    /// Everything succeeded.
    Succeeded,
    /// No critical group failed, but some nodes or groups did.
    SucceededWithFailures,
    /// A critical group failed, or a site step.
    Failed,
    /// Interrupted; it can be resumed.
    Interrupted,
    /// Aborted, or superseded by another run.
    Abandoned,
}

impl Outcome {
    /// It in words, for people; its name in files and queries is its `Display`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::SucceededWithFailures => "succeeded with failures",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Abandoned => "aborted",
        }
    }

    /// Whether it is final: nothing is resumed, and no report of it changes.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Running | Self::Interrupted => false,
            Self::Succeeded | Self::SucceededWithFailures | Self::Failed | Self::Abandoned => true,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::SucceededWithFailures => "succeeded-with-failures",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Abandoned => "abandoned",
        })
    }
}

/// How many nodes ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Nodes that the run changed and that are as designed now.
    pub succeeded: usize,
    /// Nodes that failed.
    pub failed: usize,
    /// Nodes that something was done to, or has begun on, and that are not as designed yet.
    #[serde(default)]
    pub half_done: usize,
    /// Nodes that were to be changed and were not begun.
    pub not_started: usize,
    /// Nodes that were to be changed and may have been begun by a process whose journal is in another clone.
    #[serde(default, skip_serializing_if = "is_none_of")]
    pub may_be_begun: usize,
}

/// The record of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Which run.
    pub run: RunId,
    /// For which site.
    pub site: SiteName,
    /// `update`, `redeploy` …
    pub action: Arc<str>,
    /// The commit that was applied.
    pub revision: Arc<str>,
    /// Digest of the site's files at that commit.
    pub site_digest: Digest,
    /// Digest of the plan.
    pub plan_digest: Digest,
    /// When it began, RFC 3339 in UTC.
    pub started: Arc<str>,
    /// When it ended.
    pub ended: Option<Arc<str>>,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether a change was skipped, or the run narrowed: then it is no success of the site.
    pub partial: bool,
    /// How many nodes ended how.
    pub counts: Counts,
    /// How many machines it changes though nothing proves that they are the ones that are meant.
    #[serde(default, skip_serializing_if = "is_none_of")]
    pub unverified: usize,
    /// How many machines of the site are not known to be as designed, where it ended with a tag.
    #[serde(default, skip_serializing_if = "Unproven::is_none")]
    pub unproven: Unproven,
    /// Why it was halted, where too many nodes failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<Arc<str>>,
    /// The tag that was made, if one was.
    pub tag: Option<Arc<str>>,
    /// The message of the tag beside its name and its commit: with that every clone makes the same tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation: Option<Box<Annotation>>,
    /// Whether the remote has refused the tag, so that it is still owed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tag_owed: bool,
    /// The person or account that began it; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
    /// The request to a service that asked for it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Box<Requested>>,
    /// The journal of the process that wrote the newest checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalMark>,
    /// The ticket of the work in another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<Ticket>,
    /// The approvals that it began with, and that no other run begins with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
    /// How it began without approvals that it needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<Box<BreakGlass>>,
    /// The commits of other repositories that held documents of the site, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repositories: BTreeMap<Arc<str>, Arc<str>>,
    /// Whether the Policy at its commit may ask for approvals of the changes that follow, or for signed runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub policy_asks: bool,
    /// How it is divided among workers, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Workers>,
}

/// How a run is divided among workers, each of which carries out parts of its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// The name by which the engine that starts the workers calls the run.
    pub name: Arc<str>,
    /// Digest of the saved plan that it began with, which was made again then.
    pub plan: Digest,
    /// The most nodes of a part.
    pub nodes_per_part: usize,
    /// How many pushes a minute all workers together make at most; 0: as many as they want.
    pub pushes_per_minute: u32,
}

/// A request to a service, as its run records it: who asked, and by what it is found in the logs of both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requested {
    /// The authenticated caller.
    pub subject: Arc<str>,
    /// The means of authentication: `peer`, `certificate`, `keystone`, `oidc`, `loopback`.
    pub by: Arc<str>,
    /// The id that the service gave the request.
    pub id: Arc<str>,
    /// The caller's own id, from `X-Context-Marker`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<Arc<str>>,
    /// The action by the name that the caller's API has for it, if that is not the name of the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<Box<NamedAction>>,
}

/// An action by the vocabulary of another API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedAction {
    /// Its name there.
    pub name: Arc<str>,
    /// Its parameters, as they were given.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Whether commits between the last site action and this one were allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_intermediate_commits: bool,
}

/// How a run began without approvals that it needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakGlass {
    /// The principal whose key signs the run.
    pub by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
    /// The effect of its plan, by which it is approved afterwards.
    pub effect: Digest,
    /// The machines that its plan was about.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<NodeName>,
    /// The rules of which signatures were missing.
    pub missing: Vec<MissingApproval>,
}

/// A rule of which signatures are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingApproval {
    /// The rule.
    pub rule: Arc<str>,
    /// Signatures of how many different principals.
    pub count: u64,
    /// Whose signatures count; empty: those of all allowed signers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<Arc<str>>,
}

/// A signed approval of a plan's effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The principal whose key has signed it.
    pub by: Arc<str>,
    /// The text that was signed.
    pub statement: Arc<str>,
    /// The signature, as `ssh-keygen -Y` writes it.
    pub signature: Arc<str>,
}

/// How far a journal was when a checkpoint was written. A journal that has another id is another
/// process's, and one that is shorter has lost something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalMark {
    /// Its id.
    pub id: Arc<str>,
    /// The least number of entries that it has.
    pub entries: usize,
}

/// The message of an annotated tag beside its name and its commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// The name of the tagger.
    pub name: Arc<str>,
    /// The mail address of the tagger.
    pub email: Arc<str>,
    /// When, in seconds since 1970.
    pub seconds: i64,
    /// The message.
    pub message: Arc<str>,
    /// The signature of the tag: no other clone can make it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Arc<str>>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_none_of(number: &usize) -> bool {
    *number == 0
}

/// The state of the whole site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteState {
    /// The version of the format of the state.
    pub format_version: u32,
    /// The newest run.
    pub last_run: Option<RunId>,
    /// The last site action that ended, whatever its result.
    pub last_action: Option<SiteAction>,
    /// The last site action that succeeded.
    pub last_success: Option<SiteAction>,
    /// The newest run, as long as no action on the whole site has ended: its guards are the ones that hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_partial: Option<SiteAction>,
    /// The last run that put guards in force without doing anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guards: Option<SiteAction>,
    /// The newest runs that began without approvals that they needed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub break_glass: BTreeSet<RunId>,
    /// The runs whose tags the remote has refused.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags_owed: BTreeSet<RunId>,
}

/// A site action that was tagged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteAction {
    /// The run.
    pub run: RunId,
    /// The commit.
    pub revision: Arc<str>,
    /// Digest of the site's files there.
    pub site_digest: Digest,
    /// The commits of other repositories that held documents of the site, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub repositories: BTreeMap<Arc<str>, Arc<str>>,
    /// Whether the Policy there may ask for approvals, or for signed runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub policy_asks: bool,
}
