//! The saved plan: one JSON file, with a digest over all of it.
//!
//! The fields stand in a fixed order, so that the same plan is the same bytes. Nothing in the file is
//! ever run or followed: a step names its kind, and its meaning is code. Secrets are not in a
//! plan. Reading takes nothing for granted, since the file comes from somewhere.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rustc_hash::FxHashSet;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::fact::{FactName, FactSubject};
use super::refusals::Applicability;
use super::{
    Action, Approvals, Base, Change, CommitHistory, Expectation, FORMAT_VERSION, Forecast,
    IntermediateCommit, Options, Plan, PlanEffect, PlanGuards, PlannedGroup, Precondition,
    Relation, Request, Summary, Target, UnfinishedRun, Verdicts, WayBack,
};
use crate::design::{Digest, GroupName, NodeName, SiteName};
use crate::diagnostic::json_problem;
use crate::step::{CleanStep, Effect, Need, Parameters, Step, StepId, StepIndex, StepKind, Wait};

/// The largest file that is read, in bytes.
pub const MAXIMUM_SIZE: usize = 512 << 20;

/// The longest name of a site, group or node, in bytes.
const LONGEST_NAME: usize = 255;

/// How many bytes are digested at once.
const PIECE: usize = 1 << 16;

/// Why a file is no plan that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// Larger than [`MAXIMUM_SIZE`].
    #[error("the file has {size} bytes; a plan has at most {MAXIMUM_SIZE}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// Not JSON, or JSON that is cut off.
    #[error("the file is not JSON, or cut off (line {line}, column {column})")]
    NotJson {
        /// Where: the line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// A bundle, which has a plan in it.
    #[error("the file is a bundle, not a plan")]
    Bundle,
    /// JSON, but not marked as a plan.
    #[error("the file is not a plan: it has no `format_version`")]
    NotAPlan,
    /// A plan of another version of this program.
    #[error("the plan has format version {found}; this program reads version {FORMAT_VERSION}")]
    Version {
        /// The version.
        found: u64,
    },
    /// A field is missing, unknown or of the wrong type.
    #[error("the plan is not well formed: {reason}")]
    Shape {
        /// The problem, and where.
        reason: String,
    },
    /// Its content is not what was written.
    #[error("the plan was altered after it was written: it does not have the digest {written}")]
    Altered {
        /// The digest in the file.
        written: Digest,
        /// The digest of its content. The message does not hold it: it would be the recipe for the next try.
        computed: Digest,
    },
    /// Its changes and steps have another effect than it says.
    #[error(
        "the plan was altered after it was written: its changes and steps do not have the effect {written}"
    )]
    AnotherEffect {
        /// The effect in the file.
        written: Digest,
        /// The effect of its changes and steps; not in the message.
        computed: Digest,
    },
    /// A name is empty, too long, or has characters that no name has.
    #[error("{name:?} cannot be the name of a {what}")]
    Name {
        /// Of what.
        what: &'static str,
        /// The name.
        name: Arc<str>,
    },
    /// A step's id is not made of its kind, group, node and wave.
    #[error("step {step} calls itself {written:?} and is `{id}`")]
    Id {
        /// Its position.
        step: usize,
        /// As written.
        written: Arc<str>,
        /// As it should be.
        id: StepId,
    },
    /// Two steps have one id.
    #[error("there is more than one step `{id}`")]
    RepeatedStep {
        /// The id.
        id: StepId,
    },
    /// A step waits for one that does not come before it.
    #[error("step `{id}` needs step {need}, which does not come before it")]
    Need {
        /// The step.
        id: StepId,
        /// The needed index.
        need: u32,
    },
    /// A fact names an unknown step.
    #[error("the fact `{fact}` of `{subject}` is for step {step}, which was not found in the plan")]
    Precondition {
        /// About what.
        subject: FactSubject,
        /// Which fact.
        fact: FactName,
        /// The step.
        step: u32,
    },
    /// A step has parameters that steps of its kind do not have, or not so.
    #[error("the parameters of step `{id}` are not those of its kind: {reason}")]
    Parameters {
        /// The step.
        id: StepId,
        /// The problem.
        reason: String,
    },
    /// A step is about a group or a node that the plan does not have.
    #[error("step `{id}` is about a {what} that the plan does not have")]
    Stranger {
        /// The step.
        id: StepId,
        /// `group` or `node`.
        what: &'static str,
    },
}

/// A fact that a plan relies on as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Precondition", deny_unknown_fields)]
pub(super) struct WrittenPrecondition {
    subject: FactSubject,
    fact: FactName,
    expected: Arc<str>,
    relation: Relation,
    steps: Arc<[StepIndex]>,
}

impl From<Precondition> for WrittenPrecondition {
    fn from(precondition: Precondition) -> Self {
        let what = &precondition.what;
        Self {
            subject: precondition.subject,
            fact: what.fact,
            expected: what.expected.clone(),
            relation: what.relation,
            steps: precondition.steps,
        }
    }
}

impl From<WrittenPrecondition> for Precondition {
    fn from(written: WrittenPrecondition) -> Self {
        Self {
            subject: written.subject,
            what: Arc::new(Expectation {
                fact: written.fact,
                expected: written.expected,
                relation: written.relation,
            }),
            steps: written.steps,
        }
    }
}

/// A plan as it is written, without its digest.
#[derive(Serialize)]
struct Body<'a> {
    format_version: u32,
    site: &'a SiteName,
    action: Action,
    #[serde(skip_serializing_if = "Details::is_empty")]
    request: Details<'a>,
    effect: Digest,
    target: &'a Target,
    base: &'a Option<Base>,
    options: &'a Options,
    intermediate_commits: &'a [IntermediateCommit],
    #[serde(skip_serializing_if = "CommitHistory::is_default")]
    history: &'a CommitHistory,
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished_run: Option<&'a UnfinishedRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    way_back: Option<&'a WayBack>,
    summary: &'a Summary,
    notices: &'a [Arc<str>],
    warnings: &'a [Arc<str>],
    #[serde(skip_serializing_if = "Verdicts::is_empty")]
    policies: &'a Verdicts,
    #[serde(skip_serializing_if = "PlanGuards::is_default")]
    guards: &'a PlanGuards,
    #[serde(skip_serializing_if = "Approvals::is_empty")]
    approvals: &'a Approvals,
    unchanged: usize,
    changes: &'a [Change],
    groups: &'a [PlannedGroup],
    steps: WrittenSteps<'a>,
    relies_on: &'a [Precondition],
    records_digest: &'a Digest,
}

/// The nodes of an action, as written.
#[derive(Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    nodes: &'a BTreeSet<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a Arc<str>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    clean_steps: &'a [CleanStep],
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    fields: &'a BTreeSet<Arc<str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    undo: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    as_is: bool,
}

impl<'a> Details<'a> {
    fn of(plan: &'a Plan) -> Self {
        let request = &plan.request;
        Self {
            nodes: &request.nodes,
            reason: request.reason.as_ref(),
            clean_steps: &request.clean_steps,
            fields: &request.fields,
            undo: request.undo,
            as_is: request.as_is,
        }
    }

    fn is_empty(&self) -> bool {
        let is_plain = self.reason.is_none() && self.clean_steps.is_empty();
        is_plain && self.nodes.is_empty() && self.fields.is_empty() && !self.undo && !self.as_is
    }
}

/// A step as it is written.
#[derive(Serialize)]
struct WrittenStep<'a> {
    id: &'a StepId,
    kind: StepKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a GroupName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a NodeName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wave: Option<u32>,
    timeout: u64,
    effect: Effect,
    standby: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a Parameters>,
    needs: &'a [Need],
}

/// Steps, as written.
pub(crate) struct WrittenSteps<'a>(pub(crate) &'a [Step]);

impl Serialize for WrittenSteps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|step| WrittenStep {
            id: &step.id,
            kind: step.id.kind,
            group: step.id.group.as_ref(),
            node: step.id.node.as_ref(),
            wave: step.id.wave,
            timeout: step.timeout,
            effect: step.effect,
            standby: step.standby,
            parameters: step.parameters.as_deref(),
            needs: &step.needs,
        }))
    }
}

/// The nodes of an action and what else it was given, as written.
pub(crate) fn request_details(plan: &Plan) -> impl Serialize + '_ {
    Details::of(plan)
}

impl<'a> Body<'a> {
    fn of(plan: &'a Plan) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            site: &plan.site,
            action: plan.request.action,
            request: Details::of(plan),
            effect: PlanEffect::of(plan).digest(),
            target: &plan.target,
            base: &plan.base,
            options: &plan.options,
            intermediate_commits: &plan.intermediate_commits,
            history: &plan.history,
            unfinished_run: plan.unfinished.as_ref(),
            way_back: plan.way_back.as_ref(),
            summary: &plan.summary,
            notices: &plan.notices,
            warnings: &plan.warnings,
            policies: &plan.policies,
            guards: &plan.guards,
            approvals: &plan.approvals,
            unchanged: plan.unchanged,
            changes: &plan.changes,
            groups: &plan.groups,
            steps: WrittenSteps(&plan.steps),
            relies_on: &plan.relies_on,
            records_digest: &plan.records_digest,
        }
    }
}

/// SHA-256 over the plan as it is saved, its digest left out.
#[must_use]
pub fn digest(plan: &Plan) -> Digest {
    // Nothing is written anywhere, and all of a plan is text, numbers, lists and maps with text as
    // keys, which JSON can always say.
    body_into(plan, io::sink()).map_or_else(|_| Digest::default(), |(digest, _)| digest)
}

/// The plan as one line of JSON; its forecast, the verdict on it and whether it can be applied, which the digest is not about;
/// and the digest.
#[must_use]
pub fn write(plan: &Plan) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = write_to(plan, &mut text);
    text
}

/// The same into `out`, so that it is never in memory as a whole; gives the digest.
///
/// # Errors
///
/// Those of `out`.
pub fn write_to(plan: &Plan, out: &mut dyn Write) -> io::Result<Digest> {
    let (digest, out) = body_into(plan, out)?;
    if !plan.forecast.is_empty() {
        out.write_all(b",\"forecast\":")?;
        serde_json::to_writer(&mut *out, &plan.forecast)?;
    }
    if let Some(checked) = &plan.checked {
        out.write_all(b",\"checked\":")?;
        serde_json::to_writer(&mut *out, checked)?;
    }
    if let Some(rehearsal) = &plan.rehearsal {
        out.write_all(b",\"rehearsal\":")?;
        serde_json::to_writer(&mut *out, rehearsal)?;
    }
    out.write_all(b",\"applicability\":")?;
    serde_json::to_writer(&mut *out, &Applicability::of(plan))?;
    writeln!(out, ",\"digest\":\"{digest}\"}}")?;
    Ok(digest)
}

/// Writes the plan as compact JSON without its digest, and without the brace at its end.
fn body_into<W: Write>(plan: &Plan, out: W) -> io::Result<(Digest, W)> {
    let mut file = Hashed {
        hash: Sha256::new(),
        pending: Vec::with_capacity(2 * PIECE),
        out,
    };
    serde_json::to_writer(&mut file, &Body::of(plan))?;
    file.hash.update(&file.pending);
    file.pending.pop();
    file.out.write_all(&file.pending)?;
    Ok((HEXLOWER.encode(&file.hash.finalize()).into(), file.out))
}

/// Bytes that are digested in large pieces on their way. At least the last one is kept back.
struct Hashed<W> {
    hash: Sha256,
    pending: Vec<u8>,
    out: W,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() > PIECE {
            let last = self.pending.len() - 1;
            self.hash.update(&self.pending[..last]);
            self.out.write_all(&self.pending[..last])?;
            self.pending.drain(..last);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The version alone.
#[derive(Deserialize)]
struct Head {
    format_version: Option<u64>,
    /// A bundle has a plan; a plan has none.
    plan: Option<serde::de::IgnoredAny>,
}

/// A file as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    #[serde(rename = "format_version")]
    _format_version: u32,
    site: SiteName,
    action: Action,
    #[serde(default)]
    request: ReadDetails,
    effect: Digest,
    target: Target,
    base: Option<Base>,
    options: Options,
    intermediate_commits: Vec<IntermediateCommit>,
    #[serde(default)]
    history: CommitHistory,
    unfinished_run: Option<UnfinishedRun>,
    way_back: Option<WayBack>,
    summary: Summary,
    #[serde(default)]
    notices: Vec<Arc<str>>,
    warnings: Vec<Arc<str>>,
    #[serde(default)]
    policies: Verdicts,
    #[serde(default)]
    guards: PlanGuards,
    #[serde(default)]
    approvals: Approvals,
    unchanged: usize,
    changes: Vec<Change>,
    groups: Vec<PlannedGroup>,
    steps: Vec<ReadStep>,
    relies_on: Vec<Precondition>,
    records_digest: Digest,
    #[serde(default)]
    forecast: Forecast,
    /// The verdict of the program that wrote the file, which does not count here.
    #[serde(default, rename = "checked")]
    _checked: Option<IgnoredAny>,
    /// Whether it could be applied when it was written, which is judged again by what it holds.
    #[serde(default, rename = "applicability")]
    _applicability: Option<IgnoredAny>,
    /// The rehearsal by the program that wrote the file.
    #[serde(default, rename = "rehearsal")]
    _rehearsal: Option<IgnoredAny>,
    digest: Digest,
}

/// The nodes of an action, as read.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ReadDetails {
    nodes: BTreeSet<Arc<str>>,
    reason: Option<Arc<str>>,
    clean_steps: Vec<CleanStep>,
    fields: BTreeSet<Arc<str>>,
    undo: bool,
    as_is: bool,
}

/// A step as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadStep {
    id: Arc<str>,
    kind: StepKind,
    group: Option<GroupName>,
    node: Option<NodeName>,
    wave: Option<u32>,
    timeout: u64,
    effect: Effect,
    standby: bool,
    /// As its kind has them.
    parameters: Option<Box<RawValue>>,
    needs: Vec<ReadNeed>,
}

/// A need as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadNeed {
    step: StepIndex,
    wait: Wait,
}

/// Reads a saved plan.
///
/// # Errors
///
/// Everything that is wrong with the file has its own [`SavedError`]; a file that was altered in any way
/// that means something is refused.
pub fn read(bytes: &[u8]) -> Result<Plan, SavedError> {
    if bytes.len() > MAXIMUM_SIZE {
        return Err(SavedError::TooLarge { size: bytes.len() });
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() {
            SavedError::NotAPlan
        } else {
            let (line, column) = (error.line(), error.column());
            SavedError::NotJson { line, column }
        }
    })?;
    // serde also takes a struct as the list of its fields.
    let is_map = bytes.trim_ascii_start().first() == Some(&b'{');
    if is_map && head.plan.is_some() {
        return Err(SavedError::Bundle);
    }
    match head.format_version.filter(|_| is_map) {
        None => return Err(SavedError::NotAPlan),
        Some(version) if version == u64::from(FORMAT_VERSION) => {}
        Some(found) => return Err(SavedError::Version { found }),
    }
    let file: ReadFile = serde_json::from_slice(bytes).map_err(|error| SavedError::Shape {
        reason: format!(
            "{} (line {}, column {})",
            json_problem(&error),
            error.line(),
            error.column()
        ),
    })?;
    let (written, effect) = (file.digest.clone(), file.effect.clone());
    let plan = file.into_plan()?;
    let computed = digest(&plan);
    if computed != written {
        return Err(SavedError::Altered { written, computed });
    }
    let computed = PlanEffect::of(&plan).digest();
    if computed != effect {
        return Err(SavedError::AnotherEffect {
            written: effect,
            computed,
        });
    }
    check(&plan)?;
    Ok(plan)
}

impl ReadFile {
    fn into_plan(mut self) -> Result<Plan, SavedError> {
        let mut shared: FxHashSet<Arc<Expectation>> = FxHashSet::default();
        for precondition in &mut self.relies_on {
            match shared.get(&precondition.what) {
                Some(known) => precondition.what = known.clone(),
                None => {
                    shared.insert(precondition.what.clone());
                }
            }
        }
        let steps = self.steps.into_iter().enumerate();
        let steps = steps.map(|(position, step)| step.into_step(position));
        Ok(Plan {
            steps: steps.collect::<Result<_, _>>()?,
            site: self.site,
            request: Request {
                action: self.action,
                nodes: self.request.nodes,
                reason: self.request.reason,
                clean_steps: self.request.clean_steps,
                fields: self.request.fields,
                undo: self.request.undo,
                as_is: self.request.as_is,
            },
            target: self.target,
            base: self.base,
            options: self.options,
            intermediate_commits: self.intermediate_commits,
            history: self.history,
            changes: self.changes,
            unchanged: self.unchanged,
            groups: self.groups,
            relies_on: self.relies_on,
            records_digest: self.records_digest,
            notices: self.notices,
            unfinished: self.unfinished_run,
            way_back: self.way_back,
            warnings: self.warnings,
            policies: self.policies,
            guards: self.guards,
            approvals: self.approvals,
            summary: self.summary,
            forecast: self.forecast,
            checked: None,
            rehearsal: None,
        })
    }
}

impl ReadStep {
    fn into_step(self, position: usize) -> Result<Step, SavedError> {
        let id = StepId {
            kind: self.kind,
            group: self.group,
            node: self.node,
            wave: self.wave,
        };
        if id.to_string() != *self.id {
            return Err(SavedError::Id {
                step: position,
                written: self.id,
                id,
            });
        }
        let needs = self.needs.into_iter().map(|need| Need {
            step: need.step,
            wait: need.wait,
        });
        let given = self.parameters.as_deref().map(RawValue::get);
        let given = given.map_or(Ok(None), |json| Parameters::read(self.kind, json));
        let given = given.map_err(|error| SavedError::Parameters {
            id: id.clone(),
            reason: json_problem(&error),
        })?;
        Ok(Step {
            id,
            timeout: self.timeout,
            effect: self.effect,
            standby: self.standby,
            parameters: given.map(Arc::new),
            needs: needs.collect(),
        })
    }
}

/// Checks the rules that every plan of this program keeps, for a file of any source.
fn check(plan: &Plan) -> Result<(), SavedError> {
    name("site", plan.site.as_str())?;
    for group in &plan.groups {
        name("group", group.name.as_str())?;
        for node in &group.nodes {
            name("node", node.as_str())?;
        }
    }
    for change in &plan.changes {
        name("node", change.node.as_str())?;
    }
    let groups: FxHashSet<&GroupName> = plan.groups.iter().map(|group| &group.name).collect();
    let nodes: FxHashSet<&NodeName> = plan.changes.iter().map(|change| &change.node).collect();
    let mut ids = FxHashSet::default();
    for (position, step) in plan.steps.iter().enumerate() {
        let id = || step.id.clone();
        let stranger = |what| SavedError::Stranger { id: id(), what };
        if step
            .id
            .group
            .as_ref()
            .is_some_and(|group| !groups.contains(group))
        {
            return Err(stranger("group"));
        }
        if step
            .id
            .node
            .as_ref()
            .is_some_and(|node| !nodes.contains(node))
        {
            return Err(stranger("node"));
        }
        if !ids.insert(&step.id) {
            return Err(SavedError::RepeatedStep { id: id() });
        }
        for need in &step.needs {
            if need.step.0 as usize >= position {
                return Err(SavedError::Need {
                    id: id(),
                    need: need.step.0,
                });
            }
        }
    }
    for precondition in &plan.relies_on {
        let missing = |step: &&StepIndex| step.0 as usize >= plan.steps.len();
        if let Some(step) = precondition.steps.iter().find(missing) {
            return Err(SavedError::Precondition {
                subject: precondition.subject.clone(),
                fact: precondition.what.fact,
                step: step.0,
            });
        }
    }
    Ok(())
}

fn name(what: &'static str, text: &str) -> Result<(), SavedError> {
    let refused = text.is_empty()
        || text.len() > LONGEST_NAME
        || text.contains(|each: char| each.is_control() || each == '/');
    if refused {
        let name = Arc::from(text);
        return Err(SavedError::Name { what, name });
    }
    Ok(())
}
