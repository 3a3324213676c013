//! The types of the service's own resources: what is answered, and what is asked.
//!
//! Each derives its schema, of which the OpenAPI document is made. Times are RFC 3339 in UTC.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A site of the repository.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Site)]
pub(in crate::serve) struct SiteListed {
    /// Its name.
    pub(in crate::serve) name: String,
    /// Whether this service plans and applies it.
    pub(in crate::serve) is_served: bool,
    /// The last site action that ended, whatever its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) last_action: Option<SiteActionView>,
    /// The last site action that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) last_success: Option<SiteActionView>,
    /// The newest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) last_run: Option<String>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) error: Option<String>,
}

/// A site action.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SiteAction)]
pub(in crate::serve) struct SiteActionView {
    /// Its run.
    pub(in crate::serve) run: String,
    /// The commit that was applied.
    pub(in crate::serve) revision: String,
}

/// The nodes of the site by its committed design and its records; no machine is asked.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub(in crate::serve) struct StatusView {
    /// The site.
    pub(in crate::serve) site: String,
    /// The commit that is checked out.
    pub(in crate::serve) revision: String,
    /// How many nodes differ from the design.
    pub(in crate::serve) differing: usize,
    /// The nodes, those that are recorded and not designed any more among them, sorted by name.
    pub(in crate::serve) nodes: Vec<NodeStatus>,
}

/// A node by its design and its record.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(in crate::serve) struct NodeStatus {
    /// Its name.
    pub(in crate::serve) node: String,
    /// Whether the design has it.
    pub(in crate::serve) is_designed: bool,
    /// How far it has come; absent if nothing was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PhaseWord>)]
    pub(in crate::serve) phase: Option<&'static str>,
    /// The commit whose design was last applied to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) revision: Option<String>,
    /// The run that last did something to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) run: Option<String>,
    /// The reason, if it is retired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) retired: Option<String>,
    /// The reason, if it is in maintenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) maintenance: Option<String>,
    /// By whom it is reserved, until when and why, if a person works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) reserved: Option<String>,
    /// The last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) last_error: Option<String>,
    /// The differences, one phrase each; empty if it is as designed.
    pub(in crate::serve) differs: Vec<String>,
}

/// How far a node has come.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Phase)]
#[expect(dead_code, reason = "the words of a phase, for the schema alone")]
pub(in crate::serve) enum PhaseWord {
    /// Nothing was done.
    NotStarted,
    /// Prepared.
    Prepared,
    /// Deployed.
    Deployed,
    /// Failed.
    Failed,
    /// Its state is not known.
    Unknown,
}

/// A node of the design.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Node)]
pub(in crate::serve) struct NodeView {
    /// Its name.
    pub(in crate::serve) name: String,
    /// Its rack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) rack: Option<String>,
    /// The deployment groups that hold it.
    pub(in crate::serve) groups: Vec<String>,
    /// Its host profile, and those that it is based on.
    pub(in crate::serve) host_profiles: Vec<String>,
    /// Its hardware profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) hardware_profile: Option<String>,
    /// Its tags.
    pub(in crate::serve) tags: Vec<String>,
    /// The labels of its Kubernetes node.
    pub(in crate::serve) labels: BTreeMap<String, String>,
}

/// A node of the design, and its state.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = NodeDetail)]
pub(in crate::serve) struct NodeDetail {
    /// Its design; absent if it is recorded and not designed any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) design: Option<NodeView>,
    /// Its state.
    pub(in crate::serve) status: NodeStatus,
}

/// The nodes that a plan of the committed design would change.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Drift)]
pub(in crate::serve) struct DriftView {
    /// The site.
    pub(in crate::serve) site: String,
    /// The commit that is checked out.
    pub(in crate::serve) revision: String,
    /// Whether machines and clusters were observed; otherwise the design is compared with the records alone.
    pub(in crate::serve) is_observed: bool,
    /// The nodes, sorted by name.
    pub(in crate::serve) nodes: Vec<NodeDrift>,
}

/// The drift of a node.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(in crate::serve) struct NodeDrift {
    /// Its name.
    pub(in crate::serve) node: String,
    /// The change that a plan has for it: `create`, `redeploy`, `destroy`, `relabel`, `drift` …
    pub(in crate::serve) change: String,
    /// The differences, one phrase each.
    pub(in crate::serve) differs: Vec<String>,
}

/// A word for nodes.
#[derive(ToSchema)]
#[schema(value_type = String, min_length = 1)]
pub(in crate::serve) struct NodeWord(
    #[expect(dead_code, reason = "a type of the document alone")] String,
);

/// A request for a plan, as `trueup plan` takes it.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = PlanRequest)]
pub(in crate::serve) struct PlanOrder {
    /// The site, if the caller wants to be sure; it is the one of the service.
    pub(in crate::serve) site: Option<String>,
    /// The action; `update` by default.
    pub(in crate::serve) action: Option<String>,
    /// The nodes of an action on nodes: names, globs, `group:NAME`, `rack:NAME`, `tag:NAME` or `label:KEY=VALUE`.
    #[schema(value_type = Vec<NodeWord>, max_items = 10000)]
    pub(in crate::serve) nodes: Vec<String>,
    /// Why machines are retired or in maintenance.
    pub(in crate::serve) reason: Option<String>,
    /// The design: `committed`, `successful-site-action`, `last-site-action` or `git:REV`.
    pub(in crate::serve) revision: Option<String>,
    /// Whether machines and clusters are asked; `none`: by records alone, and the plan cannot be applied before it was
    /// made again by an observation.
    pub(in crate::serve) observed: ObservedWord,
    /// Narrows `update` to these nodes.
    #[schema(value_type = Vec<NodeWord>, max_items = 10000)]
    pub(in crate::serve) targets: Vec<String>,
    /// Leaves these nodes out of `update`.
    #[schema(value_type = Vec<NodeWord>, max_items = 10000)]
    pub(in crate::serve) excludes: Vec<String>,
    /// The nodes that may be restarted: names and globs, or `all`.
    #[schema(value_type = Vec<NodeWord>, max_items = 10000)]
    pub(in crate::serve) allow_restart: Vec<String>,
    /// The nodes whose system may be installed again, their other disks being kept.
    #[schema(value_type = Vec<NodeWord>, max_items = 10000)]
    pub(in crate::serve) allow_reinstall: Vec<String>,
    /// The nodes whose redeploy is allowed: names and globs, or `all`.
    #[schema(value_type = Vec<NodeWord>, max_items = 10000)]
    pub(in crate::serve) allow_redeploy: Vec<String>,
    /// The nodes whose destruction is allowed.
    #[schema(value_type = Vec<NodeWord>, max_items = 10000)]
    pub(in crate::serve) allow_destroy: Vec<String>,
    /// The machines that are taken as they are.
    #[schema(value_type = Vec<NodeWord>, max_items = 10000)]
    pub(in crate::serve) adopt: Vec<String>,
    /// The machines that may be changed though nothing proves that they are the ones that are meant.
    #[schema(value_type = Vec<NodeWord>, max_items = 10000)]
    pub(in crate::serve) allow_unverified: Vec<String>,
    /// Carries the rest out if something is blocked.
    pub(in crate::serve) skip_blocked: bool,
    /// Plans although commits lie between the last site action and the design.
    pub(in crate::serve) allow_intermediate_commits: bool,
    /// Nodes worked on at the same time inside a group, one at least; without it: as the policy has it.
    #[schema(value_type = Option<u16>, minimum = 1)]
    pub(in crate::serve) parallelism: Option<NonZeroU16>,
    /// Most machines out of service together, one at least: a number, or a share such as `25%`.
    #[schema(value_type = Option<String>)]
    pub(in crate::serve) max_unavailable: Option<crate::design::Share>,
    /// Redeploys one node first, alone.
    pub(in crate::serve) canary: bool,
    /// Halts when more nodes than this have failed.
    pub(in crate::serve) max_failures: Option<u32>,
    /// The ticket of the work in another system.
    #[schema(value_type = Option<String>, pattern = r"^[A-Za-z0-9#./:_-]{1,100}$")]
    pub(in crate::serve) ticket: Option<crate::design::Ticket>,
}

/// Where the state of machines comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Observed)]
pub(in crate::serve) enum ObservedWord {
    /// They are asked.
    #[default]
    Now,
    /// Records alone.
    None,
}

/// The approval of a plan.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ApplyRequest)]
pub(in crate::serve) struct ApplyOrder {
    /// The digest of the effect that was reviewed, or at least its first 16 digits.
    #[schema(pattern = "^[0-9A-Fa-f]{16,}$")]
    pub(in crate::serve) effect: String,
}

/// A plan that is kept.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Plan)]
pub(in crate::serve) struct PlanView {
    /// Its id.
    pub(in crate::serve) id: String,
    /// Its address; with `.json`, `.md` or `.html` behind it the plan itself.
    pub(in crate::serve) url: String,
    /// The site.
    pub(in crate::serve) site: String,
    /// The action.
    pub(in crate::serve) action: String,
    /// The nodes that the action names.
    pub(in crate::serve) nodes: Vec<String>,
    /// The commit of the design.
    pub(in crate::serve) revision: Option<String>,
    /// The digest of its effect, which its application has to name.
    pub(in crate::serve) effect: String,
    /// Whether changes are blocked or denied, so that it cannot be applied.
    pub(in crate::serve) is_blocked: bool,
    /// Whether nothing is to be done.
    pub(in crate::serve) is_empty: bool,
    /// How many nodes change, by the kind of change.
    pub(in crate::serve) changes: BTreeMap<String, usize>,
    /// How many disks are erased or written on machines that had something on them.
    pub(in crate::serve) wiped_disks: usize,
    /// The expected duration of its run in seconds.
    pub(in crate::serve) seconds: Option<u64>,
    /// When it was made.
    pub(in crate::serve) created: String,
    /// The caller who asked for it.
    pub(in crate::serve) created_by: String,
}

/// A run.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Run)]
pub(in crate::serve) struct RunView {
    /// Its id.
    pub(in crate::serve) id: String,
    /// Its address; `/events` behind it is its stream of events, `.html` and `.md` its report.
    pub(in crate::serve) url: String,
    /// The site.
    pub(in crate::serve) site: String,
    /// The action.
    pub(in crate::serve) action: String,
    /// The commit that was applied.
    pub(in crate::serve) revision: String,
    /// How it ended: `running`, `succeeded`, `succeeded-with-failures`, `failed`, `interrupted`, `abandoned`.
    pub(in crate::serve) outcome: String,
    /// Whether only a part of the plan was to be carried out.
    pub(in crate::serve) is_partial: bool,
    /// When it began.
    pub(in crate::serve) started: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) ended: Option<String>,
    /// The person or account that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) actor: Option<String>,
    /// The request to a service that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) requested: Option<RequestView>,
    /// The tag that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) tag: Option<String>,
    /// Nodes that are as designed now.
    pub(in crate::serve) succeeded: usize,
    /// Nodes that failed.
    pub(in crate::serve) failed: usize,
    /// Nodes that something was done to, or has begun on, and that are not as designed yet.
    pub(in crate::serve) half_done: usize,
    /// Nodes that were not begun.
    pub(in crate::serve) not_started: usize,
}

/// A request that asked for a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Requested)]
pub(in crate::serve) struct RequestView {
    /// The authenticated caller.
    pub(in crate::serve) subject: String,
    /// The means of authentication.
    pub(in crate::serve) by: String,
    /// The id that the service gave the request.
    pub(in crate::serve) id: String,
    /// The id that the caller gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) marker: Option<String>,
}

/// How far a run is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(in crate::serve) struct RunProgress {
    /// The run.
    pub(in crate::serve) run: String,
    /// `running`, or how it ended.
    pub(in crate::serve) outcome: String,
    /// Since it began, in milliseconds, as of the newest event.
    pub(in crate::serve) elapsed_ms: u64,
    /// The expected time to its end, in milliseconds, as of the newest event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) remaining_ms: Option<u64>,
    /// The steps of its plan.
    pub(in crate::serve) steps: usize,
    /// Those that have ended.
    pub(in crate::serve) steps_ended: usize,
    /// The groups, in the order in which they run.
    pub(in crate::serve) groups: Vec<GroupProgress>,
    /// The nodes in work, sorted by name.
    pub(in crate::serve) in_work: Vec<NodeProgress>,
    /// The nodes of which a step failed, sorted by name.
    pub(in crate::serve) failed: Vec<NodeProgress>,
}

/// How far a group is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(in crate::serve) struct GroupProgress {
    /// Its name.
    pub(in crate::serve) name: String,
    /// `waiting`, `running`, `succeeded` or `failed`.
    pub(in crate::serve) state: String,
    /// Its nodes that the plan changes.
    pub(in crate::serve) nodes: usize,
    /// Those whose steps have all ended.
    pub(in crate::serve) done: usize,
    /// Those of which a step failed.
    pub(in crate::serve) failed: usize,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) reason: Option<String>,
}

/// How far a node is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(in crate::serve) struct NodeProgress {
    /// Its name.
    pub(in crate::serve) node: String,
    /// The step that runs, or that failed.
    pub(in crate::serve) step: String,
    /// When it began.
    pub(in crate::serve) since: String,
    /// The newest message of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) message: Option<String>,
}
