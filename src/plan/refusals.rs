//! Why a plan as a whole is not applied: every reason, and who can end it.

use serde::Serialize;

use super::{Lineage, Plan, PlanRefusal, RunState};
use crate::diagnostic::counted;

/// The command that approves a saved plan.
pub const APPROVE: &str = "trueup approve FILE";

/// The answer to whether a plan can be applied as it stands, as its JSON has it.
#[derive(Serialize)]
pub(super) struct Applicability {
    can_be_applied: bool,
    refusals: Vec<PlanRefusal>,
}

impl Applicability {
    /// The answer for a plan.
    pub(super) fn of(plan: &Plan) -> Self {
        let refusals = plan.refusals();
        Self {
            can_be_applied: refusals.is_empty(),
            refusals,
        }
    }
}

impl RunState {
    /// It in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Running => "is running",
            Self::Interrupted => "was interrupted",
            Self::EndedElsewhere => {
                "has ended in another clone, where its records wait to be published"
            }
        }
    }
}

impl Plan {
    /// Returns every reason for which it is not applied as it stands; empty if it can be applied. All of them have to
    /// end.
    #[must_use]
    pub fn refusals(&self) -> Vec<PlanRefusal> {
        let mut found = Vec::new();
        let mut add = |reason: String, who, command: Option<String>| {
            found.push(PlanRefusal {
                reason,
                who,
                command,
            });
        };
        if self.options.as_of_given {
            let reason = format!(
                "it is judged by the day {}, for a review only",
                self.options.as_of
            );
            add(
                reason,
                "the operator, by a plan of today",
                Some(self.again_with(None)),
            );
        }
        if let Some(run) = &self.unfinished {
            let reason = format!("run {} {}", run.run, run.state.words());
            let (who, command) = match run.state {
                RunState::Running => ("the run, by its end", None),
                RunState::Interrupted => (
                    "the operator: resume or abort it",
                    Some("trueup apply --resume".to_owned()),
                ),
                RunState::EndedElsewhere => ("the operator, by `trueup log` in that clone", None),
            };
            add(reason, who, command);
        }
        if let Some(reason) = self.not_committed() {
            add(
                reason,
                "the author of the change, by a commit",
                Some("git commit".to_owned()),
            );
        }
        if self.is_blocked() {
            let mut blocked = self.blocked().filter(|change| !change.excluded);
            let first = blocked.next().map(|change| change.node.to_string());
            let first = first.unwrap_or_default();
            let reason = match blocked.count() {
                0 => format!("the change of `{first}` is blocked"),
                more => format!("the changes of `{first}` and {more} more are blocked"),
            };
            let blocks = self.blocked().filter(|change| !change.excluded);
            let blocks = blocks.filter_map(|change| change.blocked.as_ref());
            let (allowed, others): (Vec<_>, Vec<_>) =
                blocks.partition(|block| block.flag.is_some());
            let skips = self.carries_any() && !self.guards.forbid("skip-blocked");
            let who = match (allowed.is_empty(), others.is_empty(), skips) {
                (false, true, true) => {
                    "the operator: allow each, or leave them out by `--skip-blocked`"
                }
                (false, true, false) => "the operator: allow each",
                (false, false, true) => {
                    "the operator: allow those that a flag allows, and leave the others out by `--skip-blocked`"
                }
                (false, false, false) => {
                    "the operator: allow those that a flag allows, and the others once the reasons are gone"
                }
                (true, _, true) => {
                    "the operator: leave them out by `--skip-blocked`, or once the reasons are gone"
                }
                (true, _, false) => "the operator, once the reasons are gone",
            };
            add(
                reason,
                who,
                skips.then(|| self.again_with(Some("--skip-blocked"))),
            );
        }
        if self.is_refused_for_commits() {
            let reason = match self.history.lineage {
                Lineage::Rollback => "it is a rollback",
                Lineage::Diverged => "the last site action applied a commit of another line",
                Lineage::IntermediateCommits | Lineage::Follows => {
                    "commits lie between the last site action and this one"
                }
            };
            let (who, command) = self.by_flag("--allow-intermediate-commits");
            add(reason.to_owned(), who, command);
        }
        if self.is_refused_for_loosening() {
            let mut guards: Vec<&str> = self
                .guards
                .loosened_by_documents()
                .map(|each| &*each.guard)
                .collect();
            guards.dedup();
            let reason = format!("its documents make guards weaker: {}", guards.join(", "));
            let (who, command) = self.by_flag("--allow-loosening");
            add(reason, who, command);
        }
        found.extend(self.refused_by_policy());
        found
    }

    /// The reasons that the policy and the rules of the site give.
    fn refused_by_policy(&self) -> impl Iterator<Item = PlanRefusal> {
        let reasons = [
            (
                self.reach(),
                "the operator: narrow it by `--target`, part by part",
                None,
            ),
            (
                self.no_ticket(),
                "the operator, by a flag",
                Some(self.again_with(Some("--ticket ID"))),
            ),
            (
                self.denials(),
                "the author of the change or of the rule, by a commit",
                None,
            ),
            (
                self.void_approvals(),
                "the author of the change, by a commit",
                None,
            ),
            (
                self.missing_approvals(),
                "those who may approve, by a signature of the saved plan (`trueup plan -o FILE`)",
                Some(APPROVE.to_owned()),
            ),
        ];
        reasons.into_iter().filter_map(|(reason, who, command)| {
            Some(PlanRefusal {
                reason: reason?,
                who,
                command,
            })
        })
    }

    fn not_committed(&self) -> Option<String> {
        let (first, more) = self.target.dirty.split_first()?;
        let text = match more.len() {
            0 => format!("`{first}` is not committed"),
            more => format!(
                "`{first}` and {} are not committed",
                counted(more, "more file", "more files")
            ),
        };
        (!self.request.action.is_targeted()).then_some(text)
    }

    /// Returns the person who can end a refusal that a flag lifts, and the command, if the policy does not forbid the flag.
    fn by_flag(&self, flag: &str) -> (&'static str, Option<String>) {
        match self.guards.forbid(flag.trim_start_matches('-')) {
            true => (
                "the author of the change, by a commit: the policy forbids the flag that allows it",
                None,
            ),
            false => ("the operator, by a flag", Some(self.again_with(Some(flag)))),
        }
    }

    fn reach(&self) -> Option<String> {
        let exceeded = self.guards.exceeded.iter().map(ToString::to_string);
        let exceeded: Vec<String> = exceeded.collect();
        self.is_refused_for_reach().then(|| {
            format!(
                "it reaches more than Policy `blast_radius` lets one plan reach: {}",
                exceeded.join("; ")
            )
        })
    }

    fn no_ticket(&self) -> Option<String> {
        let text = "the policy asks for the ticket of the work (`ticket: required`)";
        self.is_refused_for_ticket().then(|| text.to_owned())
    }

    fn denials(&self) -> Option<String> {
        let denied = self.policies.denied.iter();
        let rules: Vec<String> = denied
            .map(|each| format!("{} ({})", each.message, each.rule))
            .collect();
        let rules = rules.join("; ");
        self.is_denied()
            .then(|| format!("rules of the site deny it: {rules}"))
    }

    fn void_approvals(&self) -> Option<String> {
        let void = &self.approvals.void;
        (!void.is_empty())
            .then(|| format!("nothing could be approved any more: {}", void.join("; ")))
    }

    fn missing_approvals(&self) -> Option<String> {
        if !self.approvals.is_missing_any() {
            return None;
        }
        let does_without = match &self.approvals.break_glass {
            None => String::new(),
            Some(outlook) => match &outlook.refused {
                None => return None,
                Some(why) => format!(", and `--break-glass` cannot do without them: {why}"),
            },
        };
        let needed = self.approvals.needed.iter().filter(|rule| rule.missing > 0);
        let rules: Vec<String> = needed
            .map(|rule| {
                let by = match rule.of.is_empty() {
                    true => String::new(),
                    false => format!(", by {}", rule.of.join(", ")),
                };
                format!("{} of `{}`{by}", rule.missing, rule.rule)
            })
            .collect();
        let rules = rules.join("; ");
        Some(format!("approvals are missing: {rules}{does_without}"))
    }
}
