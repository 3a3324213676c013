//! Sites as a rollout has them applied and planned: by the command line's own ways.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan::ForPlans;
use crate::cli::apply;
use crate::cli::context::Context;
use crate::cli::plan::detailed;
use crate::cli::planning::{PlanArguments, RemoteArguments};
use crate::cli::{Failure, FailureKind};
use crate::plan::{Plan, RunState};
use crate::record::Unproven;
use crate::report::plan::summary;
use crate::report::rollout::line;
use crate::repository::Repository;
use crate::rollout::SiteProgress;
use crate::workflow::{Checkout, Drift, FoundRollout, SiteRunner};

/// This process, as it carries a rollout out.
pub(super) struct Runner<'c> {
    context: &'c Context,
    remote: &'c RemoteArguments,
    /// The arguments of the plan of each site.
    arguments: PlanArguments,
}

impl<'c> Runner<'c> {
    /// One that allows nothing.
    pub(super) fn new(context: &'c Context, remote: &'c RemoteArguments) -> Self {
        Self::with(context, remote, PlanArguments::unattended(remote.clone()))
    }

    /// One whose sites are planned with these arguments.
    pub(super) fn with(
        context: &'c Context,
        remote: &'c RemoteArguments,
        arguments: PlanArguments,
    ) -> Self {
        Self {
            context,
            remote,
            arguments,
        }
    }

    /// The context of a command about one site.
    fn of(&self, site: &str) -> Context {
        self.context.in_folder(self.context.directory(), Some(site))
    }
}

impl SiteRunner for Runner<'_> {
    fn apply(&self, site: &str) -> Result<Unproven, Failure> {
        let context = self.of(site);
        let applied = apply::unattended(&context, self.arguments.clone());
        applied.map_err(|failure| {
            // No flag of an apply is one of a rollout.
            let failure = match failure.kind {
                FailureKind::Guard => failure.hint(format!(
                    "what a rollout cannot allow is allowed to `trueup apply --site {site}`, and a success of that at its revision counts"
                )),
                _ => failure,
            };
            context.printer.fail(&failure);
            failure
        })
    }

    fn drifted(
        &self,
        found: &FoundRollout,
        sites: &[Arc<str>],
    ) -> Result<BTreeMap<Arc<str>, Drift>, Failure> {
        let repository = self.context.repository()?;
        let unknown = || Drift::Unknown(Failure::error("it cannot be planned"));
        let mut drifted: BTreeMap<Arc<str>, Drift> =
            sites.iter().map(|site| (site.clone(), unknown())).collect();
        let planning = ForPlans {
            context: self.context,
            remote: self.remote,
            repository: &repository,
            found,
        };
        let is_meant = |name: &str| sites.iter().any(|site| **site == *name);
        planning.each(&is_meant, &mut |site, planned| {
            match planned.map_or_else(|failure| Some(Drift::Unknown(failure)), drift) {
                Some(drift) => drifted.insert(Arc::from(site), drift),
                None => drifted.remove(site),
            };
        })?;
        Ok(drifted)
    }

    fn checkout<'a>(
        &self,
        repository: &'a Repository,
        site: &str,
    ) -> Result<Checkout<'a>, Failure> {
        self.of(site).checkout(repository)
    }

    fn tell(&self, site: &str, progress: &SiteProgress) {
        self.context.printer.tell(&line(site, progress));
    }
}

/// The drift that the plan of a site shows of it after its soak; `None`: it is as designed.
fn drift(plan: &Plan) -> Option<Drift> {
    if let Some(run) = &plan.unfinished {
        let kind = match run.state {
            RunState::Interrupted => FailureKind::Interrupted,
            RunState::Running | RunState::EndedElsewhere => FailureKind::Locked,
        };
        let text = format!("run {} {}", run.run, run.state.words());
        return Some(Drift::Unknown(Failure::new(kind, text)));
    }
    if plan.is_blocked() || detailed(plan) != 0 {
        return Some(Drift::Changes(changes(plan)));
    }
    let open = plan.summary.unproven.open();
    let words: Vec<String> = open.words().collect();
    (!open.is_none()).then(|| Drift::Unknown(Failure::error(words.join(", "))))
}

/// The changes of a plan in a few words, with the reason of the first that is blocked.
fn changes(plan: &Plan) -> String {
    let changes = summary(plan).into_iter().next().unwrap_or_default();
    let mut blocked = plan.blocked();
    let first = blocked.next();
    let first = first.and_then(|change| Some((&change.node, &change.blocked.as_ref()?.reason)));
    let Some((node, reason)) = first else {
        return changes;
    };
    let more = match blocked.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{changes} Blocked: {node}{more}: {reason}")
}
