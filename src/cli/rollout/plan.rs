//! `trueup rollout plan`: which site is in which phase, and what each would do.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;

use super::{RolloutFormat, decision, with_call};
use crate::cli::context::Context;
use crate::cli::plan_sites::{OnceForAll, Planning, Unplanned};
use crate::cli::planning::{PlanArguments, RemoteArguments};
use crate::cli::{Failure, FailureKind};
use crate::plan::Plan;
use crate::report::rollout::{Outcome, View};
use crate::report::sites::PlanState;
use crate::report::{counted, plan::summary};
use crate::repository::Repository;
use crate::run::Connection;
use crate::site::{Depth, Detail, Loader};
use crate::workflow::{FoundRollout, SiteOfMany, find_rollout, load_each, revisions};

#[derive(Debug, Args)]
pub(in crate::cli) struct PlanCommand {
    /// The rollout, by the name of its document
    #[arg(value_name = "NAME")]
    name: String,
    /// The revision [default: the one under way, else HEAD]
    #[arg(long, value_name = "R")]
    rev: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = RolloutFormat::Text)]
    format: RolloutFormat,
    #[command(flatten)]
    remote: RemoteArguments,
}

pub(super) fn run(context: &Context, command: &PlanCommand) -> Result<u8, Failure> {
    with_call(context, &command.name, &command.remote, |call| {
        let state = call.state_ref().read()?.state;
        let repository = call.repository;
        let wanted = match (&command.rev, &state) {
            (None, Some(_)) => None,
            (revision, _) => Some(repository.resolve(revision.as_deref().unwrap_or("HEAD"))?),
        };
        let found = match (wanted, &state) {
            (None, Some(state)) => call.of_state(state)?,
            (wanted, _) => {
                let wanted = wanted.map_or_else(|| repository.resolve("HEAD"), Ok)?;
                find_rollout(context, repository, &command.name, wanted)?
            }
        };
        // Another revision is another rollout, which was not begun.
        let state = state.filter(|state| *state.revision == found.commit.to_string());
        let decision = state.as_ref().map(|state| decision(context, &found, state));
        let mut outcomes = BTreeMap::new();
        let planning = ForPlans {
            context,
            remote: &command.remote,
            repository,
            found: &found,
        };
        let is_meant = |name: &str| found.phases.of(name).is_some();
        planning.each(&is_meant, &mut |site, planned| {
            let outcome = match planned {
                Ok(plan) => outcome(plan),
                Err(failure) => Outcome::failed(&failure.message),
            };
            outcomes.insert(Arc::from(site), outcome);
        })?;
        let view = View {
            name: &found.name,
            phases: &found.phases,
            state: state.as_ref(),
            decision: decision.as_ref(),
        };
        let printer = &context.printer;
        match command.format {
            RolloutFormat::Text => {
                printer.stream_text(|out| view.plan(out, &outcomes, printer.out))?;
            }
            RolloutFormat::Json => {
                let revision = found.commit.to_string();
                printer.stream(|out| view.json(out, &revision, &outcomes))?;
            }
        }
        Ok(0)
    })
}

/// The sites of a rollout that are planned at its revision.
pub(super) struct ForPlans<'a> {
    pub(super) context: &'a Context,
    pub(super) remote: &'a RemoteArguments,
    pub(super) repository: &'a Repository,
    pub(super) found: &'a FoundRollout,
}

impl ForPlans<'_> {
    /// Plans sites, and hands each plan over, or why there is none.
    pub(super) fn each(
        &self,
        is_meant: &dyn Fn(&str) -> bool,
        take: &mut dyn FnMut(&str, Result<&Plan, Failure>),
    ) -> Result<(), Failure> {
        let Self {
            context,
            remote,
            repository,
            found,
        } = *self;
        let arguments = PlanArguments::unattended(remote.clone());
        let Some(request) = &arguments.request(&[])? else {
            return Err(Failure::new(FailureKind::Usage, "there is nothing to plan"));
        };
        let planning = Planning {
            client: OnceForAll::new(context),
            connection: listed(remote.lasting_connection(repository)?)?,
            request,
            plan_request: arguments.plan_request(context),
        };
        // Those of the revision: the checkout may have others.
        let meant = found.sites.iter().filter(|site| is_meant(&site.name));
        let sites: Vec<SiteOfMany<'_>> = meant
            .map(|site| SiteOfMany::of(repository, site, context.backends_from.as_deref()))
            .collect();
        let located = revisions(&sites, &found.commit.to_string());
        let settings = arguments.settings(Depth::Checked, Detail::Designs);
        let mut loader = Loader::new(repository);
        load_each(
            &mut loader,
            located,
            settings,
            &mut |position, loaded, loader| {
                let site = &sites[position];
                match planning.one(loader, site, loaded) {
                    Ok((plan, _, _)) => take(&site.name, Ok(&plan)),
                    Err(Unplanned::Documents(problems)) => {
                        let (errors, _) = problems.counts();
                        let errors = counted(errors, "error", "errors");
                        let text = format!("its documents have {errors}");
                        take(&site.name, Err(Failure::error(text)));
                    }
                    Err(Unplanned::Failure(failure)) => take(&site.name, Err(failure)),
                }
            },
        );
        Ok(())
    }
}

/// The remote as it is at this instant, which is asked once for all sites.
fn listed(connection: Connection<'_>) -> Result<Connection<'_>, Failure> {
    Ok(match connection {
        Connection::Shared { remote, publish } => Connection::Shared {
            remote: remote.listed()?,
            publish,
        },
        Connection::Alone | Connection::Offline => connection,
    })
}

fn outcome(plan: &Plan) -> Outcome {
    let mut lines = summary(plan).into_iter();
    Outcome {
        state: PlanState::of(plan),
        changes: lines.next().unwrap_or_default(),
        blocked: lines.filter(|line| is_refusal(line)).collect(),
    }
}

/// Whether a line of a summary tells why nothing is applied: it begins with a word in capitals.
fn is_refusal(line: &str) -> bool {
    line.bytes().take(2).all(|byte| byte.is_ascii_uppercase())
}
