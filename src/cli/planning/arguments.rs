//! What shapes a plan, and how records are shared, as flags.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::follow;
use crate::cli::action::{self, ActionArguments};
use crate::cli::context::Context;
use crate::cli::revision::Checkout;
use crate::cli::{Failure, FailureKind};
use crate::design::Policy;
use crate::plan::{Allowance, Options, Request};
use crate::record::Store;
use crate::repository::{Patience, Repository};
use crate::run::Connection;
use crate::site::At;

/// What shapes a plan.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct PlanArguments {
    /// Only these: node names, globs, groups, racks or tags
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    target: Vec<String>,
    /// Not these: node names, globs, groups, racks or tags
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    exclude: Vec<String>,
    /// Redeploy these nodes where the design asks for it, or `all`
    #[arg(long, value_name = "NODE|all", value_delimiter = ',')]
    allow_redeploy: Vec<String>,
    /// Tear these nodes down where they have left the design, or `all`
    #[arg(long, value_name = "NODE|all", value_delimiter = ',')]
    allow_destroy: Vec<String>,
    /// Take these machines as they are and write their records, or `all`
    #[arg(long, value_name = "NODE|all", value_delimiter = ',')]
    adopt: Vec<String>,
    /// Change these machines though nothing proves that they are the ones that are meant, or `all`
    #[arg(long, value_name = "NODE|all", value_delimiter = ',')]
    allow_unverified: Vec<String>,
    /// Leave blocked changes out and carry out the rest
    #[arg(long)]
    skip_blocked: bool,
    /// Apply although commits lie between the last site action and this one
    #[arg(long)]
    allow_intermediate_commits: bool,
    /// Nodes worked on at the same time inside a group [default: the policy's, else 10]
    #[arg(long, value_name = "N")]
    parallelism: Option<usize>,
    /// Independent groups at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    parallel_groups: usize,
    /// Deploy a node as soon as it is prepared and its group's gate can no longer fail
    #[arg(long)]
    overlap: bool,
    /// Most redeploys at the same time [default: the policy's, else 1 control-plane node and 10 others]
    #[arg(long, value_name = "N")]
    max_unavailable: Option<usize>,
    /// Redeploy one node first, alone
    #[arg(long)]
    canary: bool,
    /// Halt when more nodes than this have failed
    #[arg(long, value_name = "N")]
    max_failures: Option<u64>,
    /// The day that retirement is judged by [default: today, UTC]
    #[arg(long, value_name = "YYYY-MM-DD")]
    as_of: Option<jiff::civil::Date>,
    /// Read what was seen from a file, or `none`: plan on records alone
    #[arg(long, visible_alias = "observations", value_name = "FILE|none")]
    pub(super) observed: Option<PathBuf>,
    /// A substitution whose source is not there is a warning
    #[arg(long)]
    pub(super) allow_missing_sources: bool,
    #[command(flatten)]
    pub(in crate::cli) action: ActionArguments,
    #[command(flatten)]
    pub(in crate::cli) remote: RemoteArguments,
    /// A request that was saved, in the place of the flags.
    #[arg(skip)]
    saved: Option<Saved>,
    /// No pods are looked at, nor rights: nothing is forecast.
    #[arg(skip)]
    pub(super) without_forecast: bool,
}

/// A request that was saved in a plan.
#[derive(Debug, Clone)]
struct Saved {
    options: Options,
    /// Only what was given here is allowed; `None`: all that the request allows.
    given: Option<Options>,
}

/// How records are shared.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct RemoteArguments {
    /// The remote that records, tags and the lock are shared through [default: the branch's]
    #[arg(long, value_name = "NAME")]
    remote: Option<String>,
    /// Ask no remote; a plan can be made, not applied
    #[arg(long)]
    offline: bool,
    /// Publish neither records nor tags
    #[arg(long)]
    no_push: bool,
}

impl RemoteArguments {
    /// The same for a run, which asks its remote for as long as it goes on.
    pub(in crate::cli) fn lasting_connection<'a>(
        &self,
        repository: &'a Repository,
    ) -> Result<Connection<'a>, Failure> {
        Ok(match self.connection(repository)? {
            Connection::Shared { remote, publish } => Connection::Shared {
                remote: remote.lasting(),
                publish,
            },
            other => other,
        })
    }

    /// How a command is connected: all that it asks of the remote has one time limit together.
    pub(in crate::cli) fn connection<'a>(
        &self,
        repository: &'a Repository,
    ) -> Result<Connection<'a>, Failure> {
        let name = match &self.remote {
            Some(name) => Some(name.clone()),
            None => repository.default_remote()?,
        };
        Ok(match name {
            None => Connection::Alone,
            Some(_) if self.offline => Connection::Offline,
            Some(name) => Connection::Shared {
                remote: repository.remote(&name, patience())?,
                publish: !self.no_push,
            },
        })
    }
}

fn patience() -> Patience {
    use std::io::IsTerminal;
    if std::io::stdin().is_terminal() {
        Patience::Attended(Duration::from_secs(600))
    } else {
        Patience::Unattended(Duration::from_secs(120))
    }
}

fn allowance(names: &[String]) -> Allowance {
    Allowance {
        all: names.iter().any(|name| name == "all"),
        nodes: names
            .iter()
            .filter(|name| *name != "all")
            .map(|name| Arc::from(name.as_str()))
            .collect(),
    }
}

fn set(names: &[String]) -> BTreeSet<Arc<str>> {
    names.iter().map(|name| Arc::from(name.as_str())).collect()
}

impl PlanArguments {
    /// Leaves blocked changes out, and carries out the rest.
    pub(in crate::cli) fn leave_blocked_out(&mut self) {
        self.skip_blocked = true;
    }

    /// The arguments with which a saved request is planned today. Its allowances count as far as these arguments
    /// repeat them, or all of them where `is_confirmed`.
    pub(in crate::cli) fn of_saved(
        &self,
        context: &Context,
        saved: &Options,
        is_confirmed: bool,
    ) -> Self {
        let given = self.given(context);
        Self {
            allow_missing_sources: true,
            remote: self.remote.clone(),
            saved: Some(Saved {
                options: Options {
                    as_of: context.today(),
                    ..saved.clone()
                },
                given: (!is_confirmed).then_some(given),
            }),
            ..Self::default()
        }
    }

    /// What a look at the site asks, which nothing is going to be done about.
    pub(in crate::cli) fn for_a_look(
        observed: Option<PathBuf>,
        allow_missing_sources: bool,
        remote: RemoteArguments,
    ) -> Self {
        Self {
            observed,
            allow_missing_sources,
            remote,
            ..Self::default()
        }
    }

    /// The same, without what only a forecast needs.
    pub(in crate::cli) fn without_forecast(self) -> Self {
        Self {
            without_forecast: true,
            ..self
        }
    }

    /// What some words ask for; `None` where the first is no action.
    ///
    /// # Errors
    ///
    /// A flag does not belong to the action.
    pub(in crate::cli) fn request(&self, words: &[String]) -> Result<Option<Request>, Failure> {
        let Some((action, nodes)) = action::parse(words, &self.action)? else {
            return Ok(None);
        };
        let request = self.action.request(action, nodes)?;
        let of_update = [
            ("--target", !self.target.is_empty()),
            ("--exclude", !self.exclude.is_empty()),
            ("--allow-redeploy", !self.allow_redeploy.is_empty()),
            ("--allow-destroy", !self.allow_destroy.is_empty()),
            ("--adopt", !self.adopt.is_empty()),
            (
                "--allow-intermediate-commits",
                self.allow_intermediate_commits,
            ),
        ];
        let stray = of_update.iter().find(|(_, given)| *given);
        if let Some((flag, _)) = stray.filter(|_| action.is_targeted()) {
            let message = format!("`{flag}` does not belong to `{action}`");
            return Err(
                Failure::new(FailureKind::Usage, message).hint("name the nodes after the action")
            );
        }
        Ok(Some(request))
    }

    /// The revision that a request is planned at; `own`: what every other plan is made of.
    pub(in crate::cli) fn revision(
        &self,
        context: &Context,
        checkout: &Checkout<'_>,
        connection: &Connection<'_>,
        request: &Request,
        own: At,
    ) -> Result<At, Failure> {
        match self.action.revision(request.action) {
            None => Ok(own),
            Some("committed") => checkout.resolve("committed"),
            Some(word) => {
                let store = Store::open(checkout.repository, &checkout.location.site)?;
                follow(context, &store, connection)?;
                checkout.resolve(word)
            }
        }
    }

    /// The options of a plan under the policy of its site.
    pub(super) fn options(&self, context: &Context, policy: &Policy) -> Options {
        match &self.saved {
            None => self.given(context),
            Some(Saved {
                options,
                given: None,
            }) => options.clone(),
            Some(Saved {
                options,
                given: Some(given),
            }) => options.allowed_by(given, policy),
        }
    }

    fn given(&self, context: &Context) -> Options {
        let day = self.as_of.map(|day| Arc::from(day.to_string()));
        Options {
            as_of: day.unwrap_or_else(|| context.today()),
            targets: set(&self.target),
            excludes: set(&self.exclude),
            allow_redeploy: allowance(&self.allow_redeploy),
            allow_destroy: allowance(&self.allow_destroy),
            adopt: allowance(&self.adopt),
            allow_unverified: allowance(&self.allow_unverified),
            skip_blocked: self.skip_blocked,
            allow_intermediate_commits: self.allow_intermediate_commits,
            parallelism: self.parallelism.unwrap_or(0),
            parallel_groups: self.parallel_groups,
            overlap: self.overlap,
            max_unavailable: self.max_unavailable,
            canary: self.canary,
            max_failures: self.max_failures,
            leaving: self.action.leaving(),
            remediation: self.action.remediation(),
        }
    }
}
