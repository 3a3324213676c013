//! The operator's consent to a plan from a file or from the records: its allowances are requests, and
//! count if they are repeated on the command line, pinned by the plan's effect, or confirmed on a terminal.

use std::collections::BTreeSet;

use super::notices::not_approved;
use super::rules::not_denied;
use super::{
    Approving, Checkout, Clearance, Client, Failure, FailureKind, PlanRequest, Planned, Planner,
    commit_of,
};
use crate::diagnostic::in_shell;
use crate::plan::{
    self, Action, Block, Difference, IntermediateCommit, Lineage, Options, Plan, PlanEffect,
    PlanGuards, effect,
};
use crate::repository::CommitId;
use crate::run::{self, SiteRepository, admit};
use crate::site::At;

/// Differences that are listed.
const MOST_LISTED: usize = 40;

/// The operator of a workflow: what they allow, and how they are asked.
pub trait Operator {
    /// The settings of a saved request: its allowances count as far as the operator gave them, or all of
    /// them where `is_confirmed`.
    fn plan_request_of_saved(&self, saved: &Options, is_confirmed: bool) -> PlanRequest;

    /// The effect that the operator pinned.
    fn pinned(&self) -> Option<&str>;

    /// Shows the changes of a plan and asks the operator to approve it; `false`: there is no terminal to ask on.
    ///
    /// # Errors
    ///
    /// It is not approved.
    fn approve(&self, plan: &Plan) -> Result<bool, Failure>;
}

/// A plan that is to be made again, and what is known of the operator's will.
pub struct Consent<'a> {
    /// The caller.
    pub client: &'a dyn Client,
    /// Whose will it is.
    pub operator: &'a dyn Operator,
    /// The site.
    pub checkout: &'a Checkout<'a>,
    /// The same, with its lock and records.
    pub site: &'a SiteRepository<'a>,
    /// The command, as it is given again.
    pub again: &'a str,
    /// Whether it takes the flags of the plan.
    pub repeats_flags: bool,
    /// The plan that was reviewed, or is said to have been.
    pub reviewed: &'a Plan,
    /// Its documents.
    pub at: At,
    /// Whether a run of it has begun.
    pub has_begun: bool,
}

impl Consent<'_> {
    /// Makes the plan again with what the operator allows; `None`: there was nothing to do in the first place.
    ///
    /// # Errors
    ///
    /// It is stale, does more than the reviewed one, or takes allowances that were not given.
    pub fn plan(&self) -> Result<Option<(Planned, CommitId, Clearance)>, Failure> {
        let Some(commit) = commit_of(self.at) else {
            return Ok(None);
        };
        let is_pinned = is_pinned(self.operator, self.reviewed)?;
        let planned = self.make(is_pinned)?;
        let (day, today) = (&self.reviewed.options.as_of, &planned.plan.options.as_of);
        if day > today {
            let text = format!("the plan is made as of {day}, and today is {today}");
            return Err(Failure::new(FailureKind::Guard, text).hint("plan again"));
        }
        ensure_admitted(
            self.site,
            &planned,
            self.reviewed,
            commit,
            Origin::SavedPlan,
        )?;
        self.is_fresh(&planned)?;
        let clearance = self.clearance(&planned, self.reviewed);
        let clearance = clearance.inspect_err(|failure| {
            not_approved(&planned, self.approving(), self.reviewed, commit, failure);
        })?;
        let (mut planned, missing) = match is_pinned {
            true => (planned, None),
            false => self.to_confirm(planned)?,
        };
        self.adds_nothing(&planned.plan)?;
        self.clearance(&planned, &planned.plan)?;
        if let Some(observations) = &planned.observations {
            let clusters = &planned.guarded.guards().etcd_clusters;
            let plan = &mut planned.plan;
            let broken = plan::hold_to(self.reviewed, plan, observations, clusters);
            stale(self.site, &broken)?;
        }
        if let Some(missing) = missing.filter(|_| !clearance.is_approved()) {
            self.ask(&planned.plan, &missing)?;
        }
        Ok(Some((planned, commit, clearance)))
    }

    /// The clearance of a plan that does nothing which the reviewed one does not.
    fn clearance(&self, planned: &Planned, plan: &Plan) -> Result<Clearance, Failure> {
        planned
            .gate
            .clear(self.approving(), plan, self.reviewed, None)
    }

    /// Where its approvals are.
    pub(super) fn approving(&self) -> Approving<'_> {
        Approving::of(self.client, self.site)
    }

    /// Makes the plan of the same request today.
    pub(super) fn make(&self, is_confirmed: bool) -> Result<Planned, Failure> {
        let plan_request = self.plan_request(is_confirmed);
        self.planner(&plan_request).plan()
    }

    fn plan_request(&self, is_confirmed: bool) -> PlanRequest {
        let saved = &self.reviewed.options;
        PlanRequest {
            resumes: match self.has_begun {
                true => run::taken_out(self.reviewed),
                false => BTreeSet::new(),
            },
            ..self.operator.plan_request_of_saved(saved, is_confirmed)
        }
    }

    /// The planner of the same request.
    fn planner<'p>(&'p self, plan_request: &'p PlanRequest) -> Planner<'p> {
        Planner {
            client: self.client,
            checkout: self.checkout,
            at: self.at,
            connection: &self.site.connection,
            request: &self.reviewed.request,
            plan_request,
        }
    }

    /// Whether the records are those that the plan was made from.
    fn is_fresh(&self, planned: &Planned) -> Result<(), Failure> {
        let success = planned.state.last_success.as_ref();
        let current = plan::Current {
            site_digest: &planned.site.digest,
            guards: planned.guarded.guards(),
            recorded: plan::Recorded {
                base_run: success.map(|action| &action.run),
                records: &planned.records,
                reservations: &planned.reservations,
            },
            // Changes of a later day show in the new plan.
            today: &self.reviewed.options.as_of,
            observations: None,
        };
        stale(self.site, &plan::stale(self.reviewed, &current))
    }

    fn adds_nothing(&self, plan: &Plan) -> Result<(), Failure> {
        let added = PlanEffect::of(plan).adds_to(&PlanEffect::of(self.reviewed));
        if added.is_empty() {
            return Ok(());
        }
        let text = "a plan made now does more than this one shows:";
        Err(Failure::new(FailureKind::Stale, text)
            .details(listed(&added))
            .hint("plan again, review it, and apply that"))
    }

    /// The plan with what was given on the command line, if that is all that it takes; otherwise with all that was
    /// asked for, and the flags about which the operator is to be asked.
    pub(super) fn to_confirm(
        &self,
        mut planned: Planned,
    ) -> Result<(Planned, Option<Vec<String>>), Failure> {
        let given = planned.plan.options.allowances();
        let mut missing = self.reviewed.options.allowances();
        missing.retain(|flag| !given.contains(flag));
        let by_name = is_destructive_by_name(self.reviewed);
        if missing.is_empty() {
            return Ok((planned, by_name.then_some(missing)));
        }
        let plan_request = self.plan_request(true);
        let observations = planned.observations.take();
        let whole = self.planner(&plan_request).plan_again(observations)?;
        planned.observations = whole.observations;
        if !by_name && !takes_more(&whole.plan, &planned.plan) {
            return Ok((planned, None));
        }
        planned.plan = whole.plan;
        Ok((planned, Some(missing)))
    }

    /// Shows the changes of the plan and asks on a terminal; otherwise lists the flags to give.
    ///
    /// # Errors
    ///
    /// There is no terminal to ask on, or the answer is no.
    pub(super) fn ask(&self, plan: &Plan, missing: &[String]) -> Result<(), Failure> {
        if self.operator.approve(plan)? {
            return Ok(());
        }
        let flags = missing.iter().map(|flag| format!("`{flag}`"));
        let what = match missing.is_empty() {
            true => format!("`{}` of the nodes that it names", plan.request.action),
            false => flags.collect::<Vec<_>>().join(", "),
        };
        let message = format!(
            "the plan needs allowances that the command line lacks, and stdin is not a terminal to ask on: {what}"
        );
        let pin = PlanEffect::of(self.reviewed).digest();
        let (again, pin) = (self.again, effect::short(&pin));
        let failure = Failure::new(FailureKind::Guard, message).hint(format!(
            "review the plan, and pin its effect: `{again} --effect {pin}`"
        ));
        Err(match missing.is_empty() || !self.repeats_flags {
            true => failure,
            false => {
                let flags = missing.join(" ");
                failure.hint(format!("or allow the same again: `{again} {flags}`"))
            }
        })
    }
}

/// Whether a plan takes allowances that another one, of the same request, does without.
fn takes_more(plan: &Plan, other: &Plan) -> bool {
    PlanEffect::of(plan) != PlanEffect::of(other)
        || skipped(plan) != skipped(other)
        || (plan.options.skip_blocked != other.options.skip_blocked
            && other.blocked().next().is_some())
}

/// The commits whose check is skipped, as is allowed.
fn skipped(plan: &Plan) -> Option<(Lineage, &[IntermediateCommit])> {
    let lineage = plan.history.lineage;
    let is_skipped = lineage != Lineage::Follows && !plan.is_refused_for_commits();
    is_skipped.then_some((lineage, &plan.intermediate_commits[..]))
}

/// Whether its action takes away what it names: that a plan names it is no allowance of the operator's.
fn is_destructive_by_name(plan: &Plan) -> bool {
    plan.request.action.is_targeted() && PlanEffect::of(plan).takes_away()
}

/// Whether the command line pins the effect of a plan.
///
/// # Errors
///
/// It pins another one, or none.
pub(super) fn is_pinned(operator: &dyn Operator, plan: &Plan) -> Result<bool, Failure> {
    let Some(given) = operator.pinned() else {
        return Ok(false);
    };
    match effect::is_pinned(given, &PlanEffect::of(plan).digest()) {
        Ok(true) => Ok(true),
        Ok(false) => {
            let text = format!("the plan does not have the effect {given}");
            Err(Failure::new(FailureKind::Stale, text)
                .hint("`trueup show` prints its changes, and its effect"))
        }
        Err(text) => Err(Failure::new(FailureKind::Usage, text)),
    }
}

/// Reasons why a plan may not be applied any more.
fn stale(site: &SiteRepository<'_>, reasons: &[plan::Staleness]) -> Result<(), Failure> {
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Failure::from(run::Error::Stale {
        site: site.name.clone(),
        reasons: reasons.iter().map(ToString::to_string).collect(),
    }))
}

/// The source of the flags of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The request that is carried out.
    Request,
    /// The request of a plan that was saved, which takes no more.
    SavedPlan,
}

/// Checks that a plan may be applied to a commit, by what another one was made from now.
///
/// # Errors
///
/// Those of [`run::admit`]; a rule denies it, or no ticket is named.
pub fn ensure_admitted(
    site: &SiteRepository<'_>,
    planned: &Planned,
    plan: &Plan,
    commit: CommitId,
    origin: Origin,
) -> Result<(), Failure> {
    let admitted = || {
        not_denied(&planned.plan)?;
        names_ticket(&planned.plan, origin)?;
        let documents = &planned.site;
        let (selection, digest) = (&documents.location.selection, &documents.digest);
        admit(site, selection, &planned.state, plan, commit, digest).map_err(|error| {
            let failure = not_admitted(&error, plan);
            let help = flags_that_help(&error, &planned.plan.guards, origin);
            let failure = failure.hint_if(help);
            match failure.hints.is_empty() {
                true => failure.hint_if(explanation(&planned.plan)),
                false => failure,
            }
        })
    };
    admitted().map_err(|failure| with_all_reasons(failure, &planned.plan))
}

/// Where the first blocked change is explained; with an action it is another plan that is explained, and the state of the node.
fn explanation(plan: &Plan) -> Option<String> {
    let mut blocked = plan.blocked().filter(|change| !change.excluded);
    let first = blocked.next()?;
    let names_way = |block: &Block| block.reason.contains("`trueup ");
    if first.blocked.as_ref().is_some_and(names_way) {
        return None;
    }
    let node = in_shell([first.node.as_str()]);
    let what = match plan.request.action {
        Action::Update => "names what ends that",
        _ => "tells how it stands",
    };
    Some(format!("`trueup explain {node}` {what}"))
}

/// A refusal with every reason of the plan, if it is not the only one: else each is met by an apply of its own.
fn with_all_reasons(failure: Failure, plan: &Plan) -> Failure {
    let reasons: Vec<String> = plan
        .refusals()
        .into_iter()
        .map(|each| each.reason)
        .collect();
    match reasons.len() {
        0 | 1 => failure,
        number => failure.details([format!("{number} reasons in all: {}", reasons.join("; "))]),
    }
}

/// Checks that a plan names the ticket of its work, if the policy asks for it.
fn names_ticket(plan: &Plan, origin: Origin) -> Result<(), Failure> {
    if !plan.is_refused_for_ticket() {
        return Ok(());
    }
    let text = "the policy asks for the ticket of the work (`ticket: required`), and none is named";
    let hint = match origin {
        Origin::Request => "`--ticket ID` names it",
        Origin::SavedPlan => "plan again with `--ticket ID`",
    };
    let failure = Failure::new(FailureKind::Guard, text).hint(hint);
    Err(failure.hint_if(plan.guards.way_out(&["ticket"])))
}

/// The flags that the policy lets an operator give for a plan that is not admitted.
fn flags_that_help(error: &run::Error, guards: &PlanGuards, origin: Origin) -> Option<String> {
    let commits = "allow-intermediate-commits";
    match error {
        run::Error::Blocked {
            has_flag, has_rest, ..
        } => {
            let skips = *has_rest && !guards.forbid("skip-blocked");
            let ways = match origin {
                Origin::Request => [
                    has_flag.then_some("give the flags that are named"),
                    skips.then_some("carry out the rest with `--skip-blocked`"),
                ],
                Origin::SavedPlan => [
                    has_flag.then_some("plan again with the flags that are named"),
                    skips.then_some("plan the rest with `--skip-blocked`"),
                ],
            };
            let ways: Vec<&str> = ways.into_iter().flatten().collect();
            (!ways.is_empty()).then(|| ways.join(", or "))
        }
        run::Error::Gone { .. }
        | run::Error::IntermediateCommits { .. }
        | run::Error::Diverged { .. }
        | run::Error::Rollback { .. } => (!guards.forbid(commits)).then(|| match origin {
            Origin::Request if matches!(error, run::Error::Rollback { .. }) => {
                format!(
                    "`git pull`, if this clone is only behind (a commit that was never pushed is pushed by who applied it); `--{commits}` goes back on purpose"
                )
            }
            Origin::Request if matches!(error, run::Error::Gone { .. }) => format!(
                "push the commit from the clone that applied it, and `git pull`; if it is lost, `--{commits}` plans without it"
            ),
            Origin::Request => format!("`--{commits}` skips this check"),
            Origin::SavedPlan => format!("plan again with `--{commits}`, which skips this check"),
        }),
        _ => None,
    }
}

/// The guards by which changes are blocked.
const BLOCKING: &[&str] = &[
    "allow_plain_http",
    "etcd_clusters",
    "expected_hardware",
    "expected_parts",
    "protected",
    "redeploy_on_change",
    "remediation",
    "unverified",
    "wipe",
];

/// Why a plan is not admitted: what could not be read, and for the specification's own actions what an
/// etcd cluster would not bear, is a failure of the step and no conflict.
fn not_admitted(error: &run::Error, plan: &Plan) -> Failure {
    let mut failure = Failure::from(error);
    if let run::Error::Blocked { .. } = error {
        failure = failure.hint_if(plan.guards.way_out(BLOCKING));
    }
    let action = Some(plan.request.action).filter(|action| action.is_targeted());
    if let (run::Error::Blocked { cause, .. }, Some(action)) = (error, action) {
        let is_failure = match cause {
            plan::Cause::Rule | plan::Cause::Protected => false,
            plan::Cause::Unreadable => true,
            plan::Cause::Etcd => matches!(action, Action::RemoveEtcd | Action::Decommission),
        };
        if is_failure {
            failure.kind = FailureKind::Failed;
        }
    }
    failure
}

/// The differences, a line each; of many the first.
pub fn listed(differences: &[Difference]) -> impl Iterator<Item = String> {
    let more = differences.len().saturating_sub(MOST_LISTED);
    let more = (more > 0).then(|| format!("… and {more} more"));
    let shown = differences.iter().take(MOST_LISTED);
    shown.map(ToString::to_string).chain(more)
}
