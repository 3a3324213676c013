//! The flags that shape a plan, and those for the exchange of records.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::revision::{ReadArguments, RevisionArguments};
use crate::cli::action::{self, ActionArguments};
use crate::cli::context::Context;
use crate::cli::value::{at_least_one, day, number, share_of_at_least_one};
use crate::design::{Rung, Share, Ticket};
use crate::guard::{split_words, words_of};
use crate::plan::{Allowance, Options, Request};
use crate::repository::{ProgramTimeout, Repository};
use crate::run::Connection;
use crate::site::{At, Depth, Detail, Location, Outside, Sandbox, Settings};
use crate::workflow::{AS_APPLIED, Checkout, Failure, FailureKind, Observed, PlanRequest, follow};

/// The flags that shape a plan.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct PlanArguments {
    /// Only these: names or globs of nodes, group:NAME, rack:NAME, tag:NAME or label:KEY=VALUE
    #[arg(long, value_name = "NODE")]
    target: Vec<String>,
    /// Not these
    #[arg(long, value_name = "NODE")]
    exclude: Vec<String>,
    /// Change machines as far as a rung: restart, reinstall or wipe, all or these nodes (wipe: --allow-redeploy)
    #[arg(long, value_name = "RUNG[=NODE,…]", value_parser = rung_of_nodes)]
    allow: Vec<(Rung, Vec<String>)>,
    /// Restart these nodes if the design asks for it, or `all`
    #[arg(long, value_name = "NODE|all")]
    allow_restart: Vec<String>,
    /// Install the system of these nodes again and keep their other disks, or `all`
    #[arg(long, value_name = "NODE|all")]
    allow_reinstall: Vec<String>,
    /// Redeploy these nodes if the design asks for it, or `all`
    #[arg(long, value_name = "NODE|all")]
    allow_redeploy: Vec<String>,
    /// Tear these nodes down if they have left the design, or `all`
    #[arg(long, value_name = "NODE|all")]
    allow_destroy: Vec<String>,
    /// Adopt these machines as they are, by writing their records, or `all`
    #[arg(long, value_name = "NODE|all")]
    adopt: Vec<String>,
    /// Change these machines without a proof of their identity, or `all`
    #[arg(long, value_name = "NODE|all")]
    allow_unverified: Vec<String>,
    /// Allow guards to become weaker than those in force
    #[arg(long)]
    allow_loosening: bool,
    /// Apply without the approvals that are missing, as the policy lets you, and why
    #[arg(long, value_name = "REASON", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    break_glass: Option<String>,
    /// The ticket of this work in another system: it stands in plan, approvals, record and tag
    #[arg(long, value_name = "ID")]
    ticket: Option<Ticket>,
    /// Run outside of the maintenance windows of the policy
    #[arg(long)]
    pub(in crate::cli) outside_windows: bool,
    /// Leave blocked changes out and carry out the rest
    #[arg(long)]
    skip_blocked: bool,
    /// Apply although commits lie between the last site action and this one
    #[arg(long)]
    allow_intermediate_commits: bool,
    /// Nodes worked on at the same time inside a group [default: the policy's, else 10]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    parallelism: Option<usize>,
    /// Independent groups at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    parallel_groups: usize,
    /// Deploy a node as soon as it is prepared and its group's gate can no longer fail
    #[arg(long)]
    overlap: bool,
    /// Most machines out of service together, or the share of each group [default: the policy's, else one of the
    /// control plane, and of the others the least of ten, a quarter of each group, and what its criteria leave]
    #[arg(long, value_name = "N|N%", value_parser = share_of_at_least_one)]
    max_unavailable: Option<Share>,
    /// Redeploy one node first, alone
    #[arg(long)]
    canary: bool,
    /// Halt when more nodes than this have failed
    #[arg(long, value_name = "N", value_parser = number)]
    max_failures: Option<u64>,
    /// The day that retirement and rules are judged by, for a plan that is only reviewed [default: today, in the time zone of the site]
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    as_of: Option<jiff::civil::Date>,
    /// Read the observed state from a file, or `none`: plan on records alone
    #[arg(long, visible_alias = "observations", value_name = "FILE|none")]
    observed: Option<PathBuf>,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    pub(in crate::cli) action: ActionArguments,
    #[command(flatten)]
    pub(in crate::cli) remote: RemoteArguments,
}

/// How records are shared.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct RemoteArguments {
    /// The remote that records, tags and the lock are shared through [default: the branch's]
    #[arg(long, value_name = "NAME")]
    remote: Option<String>,
    /// Do not contact the remote; a plan can be made, not applied
    #[arg(long)]
    offline: bool,
    /// Publish neither records nor tags
    #[arg(long)]
    no_push: bool,
}

impl RemoteArguments {
    /// The connection for a run, which asks its remote for as long as it runs.
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
        if Sandbox::of(repository)?.is_some() {
            // Also if one was added since: the records of a sandbox are those of no site.
            if self.remote.is_some() {
                Sandbox::refuse(repository, Outside::Remote)?;
            }
            return Ok(Connection::Alone);
        }
        let name = match &self.remote {
            Some(name) => Some(name.clone()),
            None if self.offline && !repository.remotes()?.is_empty() => {
                return Ok(Connection::Offline);
            }
            None => repository.default_remote()?,
        };
        let gone = match name {
            None => gone_remote(repository)?,
            Some(_) => None,
        };
        if let Some(gone) = gone.as_ref().filter(|_| !self.offline) {
            let message = format!(
                "the records of this repository are shared through the remote `{gone}`, which this clone does not have any more"
            );
            return Err(Failure::new(FailureKind::Usage, message).hint(format!(
                "`git remote add {gone} URL`; `--offline` reads what was fetched of it; where this clone alone has the records from \
                 now on, `git config {WITHOUT_REMOTE} true`"
            )));
        }
        Ok(match name {
            None if gone.is_some() => Connection::Offline,
            None => Connection::Alone,
            Some(_) if self.offline => Connection::Offline,
            Some(name) => Connection::Shared {
                remote: repository.remote(&name, timeout())?,
                publish: !self.no_push,
            },
        })
    }
}

/// The key of git's configuration with which an operator says that a clone has the records alone from now on.
const WITHOUT_REMOTE: &str = "trueup.withoutRemote";

/// The remote through which records were shared, in a clone that has none any more: a run here would hold a lock that no other
/// clone sees.
fn gone_remote(repository: &Repository) -> Result<Option<String>, Failure> {
    let is_accepted = repository.config(WITHOUT_REMOTE)?.as_deref() == Some("true");
    if is_accepted || !repository.remotes()?.is_empty() {
        return Ok(None);
    }
    Ok(repository.copied_remote()?)
}

fn timeout() -> ProgramTimeout {
    use std::io::IsTerminal;
    if std::io::stdin().is_terminal() {
        ProgramTimeout::Attended(Duration::from_secs(600))
    } else {
        ProgramTimeout::Unattended(Duration::from_secs(120))
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

    /// No flags but those of an action and of the remote.
    pub(in crate::cli) fn of_action(action: ActionArguments, remote: RemoteArguments) -> Self {
        Self {
            action,
            remote,
            ..Self::default()
        }
    }

    /// No flags but those of the remote: nothing is allowed that the documents do not allow.
    pub(in crate::cli) fn unattended(remote: RemoteArguments) -> Self {
        Self {
            parallel_groups: 1,
            remote,
            ..Self::default()
        }
    }

    /// The arguments for the sites of a rollout: commits may lie between the last site action of each and the revision, where
    /// that is allowed, and the work may have a ticket.
    pub(in crate::cli) fn of_rollout(
        remote: RemoteArguments,
        allow_intermediate_commits: bool,
        ticket: Option<Ticket>,
    ) -> Self {
        Self {
            allow_intermediate_commits,
            ticket,
            ..Self::unattended(remote)
        }
    }

    /// The settings that documents are read with.
    pub(in crate::cli) fn settings(&self, depth: Depth, detail: Detail) -> Settings {
        self.read.settings(depth, detail)
    }

    /// The settings for a plan in these arguments.
    pub(in crate::cli) fn plan_request(&self, context: &Context) -> PlanRequest {
        PlanRequest {
            options: self.given(),
            allowed: None,
            observed: observed(context, self.observed.as_ref()),
            accept: self.read.accept(),
            without_forecast: false,
            by_checkpoints: false,
            only_looks: false,
            gives_times: self.action.gives_times(),
            unblock: None,
            resumes: BTreeSet::new(),
            reservations: None,
        }
    }

    /// The settings for a plan of a saved request today. Its allowances count as far as these arguments
    /// repeat them, or all of them where `is_confirmed`.
    pub(in crate::cli) fn plan_request_of_saved(
        &self,
        saved: &Options,
        is_confirmed: bool,
    ) -> PlanRequest {
        PlanRequest {
            options: Options {
                as_of_given: false,
                ..saved.clone()
            },
            allowed: (!is_confirmed).then(|| self.given()),
            observed: Observed::Now,
            accept: AS_APPLIED.accept,
            without_forecast: false,
            by_checkpoints: false,
            only_looks: false,
            gives_times: false,
            unblock: None,
            resumes: BTreeSet::new(),
            reservations: None,
        }
    }

    /// Refuses flags that shape a plan beside one that is made, and was made without them.
    ///
    /// # Errors
    ///
    /// There is one.
    pub(in crate::cli) fn shape_nothing_of(&self, made: &Options) -> Result<(), Failure> {
        let given = self.given();
        let shaping = [
            (
                "--target",
                !self.target.is_empty() && given.targets != made.targets,
            ),
            (
                "--exclude",
                !self.exclude.is_empty() && given.excludes != made.excludes,
            ),
            ("--skip-blocked", self.skip_blocked && !made.skip_blocked),
            ("--canary", self.canary && !made.canary),
            ("--overlap", self.overlap && !made.overlap),
            (
                "--parallelism",
                self.parallelism.is_some() && given.parallelism != made.parallelism,
            ),
            (
                "--parallel-groups",
                self.parallel_groups > 1 && given.parallel_groups != made.parallel_groups,
            ),
            (
                "--max-unavailable",
                self.max_unavailable.is_some() && given.max_unavailable != made.max_unavailable,
            ),
            (
                "--max-failures",
                self.max_failures.is_some() && given.max_failures != made.max_failures,
            ),
            ("--observed", self.observed.is_some()),
            (
                "--ticket",
                self.ticket.is_some() && given.ticket != made.ticket,
            ),
        ];
        let shaping = shaping.into_iter().filter(|(_, shapes)| *shapes);
        let mut shaping = shaping.map(|(flag, _)| flag).chain(self.action.given());
        let Some(flag) = shaping.next() else {
            return Ok(());
        };
        let text = format!("`{flag}` shapes a plan, and this one is made already, without it");
        Err(Failure::new(FailureKind::Usage, text).hint(format!(
            "leave it out, or make another plan: `trueup plan … {flag} … -o FILE`"
        )))
    }

    /// Refuses a day to judge by: what is applied is judged by the day of the apply.
    ///
    /// # Errors
    ///
    /// There is one, from a flag or the environment.
    pub(in crate::cli) fn judged_today(&self) -> Result<(), Failure> {
        if self.as_of.is_none() {
            return Ok(());
        }
        let text = "`--as-of` is for plans that are only reviewed: nothing is applied with it";
        Err(Failure::new(FailureKind::Usage, text)
            .hint("`trueup plan --as-of DAY` shows the plan of another day; without the flag and `TRUEUP_AS_OF`, today counts"))
    }

    /// The request in some words; `None` if the first is no action.
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
            ("--allow", !self.allow.is_empty()),
            ("--allow-restart", !self.allow_restart.is_empty()),
            ("--allow-reinstall", !self.allow_reinstall.is_empty()),
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
            Some(word) => resolve(context, checkout, connection, word),
        }
    }

    /// The nodes on which a rung is allowed, by its own flag and by `--allow`.
    fn up_to(&self, rung: Rung, own: &[String]) -> Allowance {
        let by_rung = self.allow.iter().filter(|(of, _)| *of == rung);
        let by_rung = by_rung.flat_map(|(_, words)| words).cloned();
        allowance(&by_rung.chain(split_words(own)).collect::<Vec<String>>())
    }

    fn given(&self) -> Options {
        let day = self.as_of.map(|day| Arc::from(day.to_string()));
        Options {
            as_of_given: day.is_some(),
            as_of: day.unwrap_or_default(),
            targets: set(&split_words(&self.target)),
            excludes: set(&split_words(&self.exclude)),
            allow_restart: self.up_to(Rung::Restart, &self.allow_restart),
            allow_reinstall: self.up_to(Rung::Reinstall, &self.allow_reinstall),
            allow_redeploy: self.up_to(Rung::Wipe, &self.allow_redeploy),
            allow_destroy: allowance(&split_words(&self.allow_destroy)),
            adopt: allowance(&split_words(&self.adopt)),
            allow_unverified: allowance(&split_words(&self.allow_unverified)),
            allow_loosening: self.allow_loosening,
            break_glass: self.break_glass.as_deref().map(Arc::from),
            ticket: self.ticket.clone(),
            outside_windows: self.outside_windows,
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

/// A rung, and the nodes on which it is allowed: `restart`, `reinstall=n1,n2`. What writes disks names its nodes.
fn rung_of_nodes(text: &str) -> Result<(Rung, Vec<String>), String> {
    let (name, nodes) = match text.split_once('=') {
        Some((name, nodes)) => (name, Some(nodes)),
        None => (text, None),
    };
    let rung = Rung::named(name).filter(|rung| *rung >= Rung::Restart);
    let rung = rung.ok_or(
        "the rungs that a flag allows are `restart`, which allows `live` and `record`, too, `reinstall` and `wipe`",
    )?;
    let nodes = match (nodes, rung) {
        (Some(nodes), _) => nodes,
        (None, Rung::Restart) => "all",
        (None, _) => {
            return Err(format!(
                "name the nodes: `--allow {rung}=NODE,…`, or `{rung}=all`"
            ));
        }
    };
    let words: Vec<String> = words_of(nodes);
    match words.iter().any(String::is_empty) {
        true => Err("a name of a node is empty".to_owned()),
        false => Ok((rung, words)),
    }
}

/// The commit of a revision word, which for a site action is the remote's newest.
///
/// # Errors
///
/// It names none, or the remote cannot be asked.
pub(super) fn resolve(
    context: &Context,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    word: &str,
) -> Result<At, Failure> {
    if Checkout::is_of_site(word) {
        follow(context, checkout, connection)?;
    }
    checkout.resolve(word)
}

/// The commit of a revision word for commands that go without a remote: where it cannot be asked they warn, and take the
/// newest that is here.
///
/// # Errors
///
/// It names none.
pub(super) fn resolve_to_read(
    context: &Context,
    checkout: &Checkout<'_>,
    remote: &RemoteArguments,
    word: &str,
) -> Result<At, Failure> {
    if Checkout::is_of_site(word)
        && let Ok(connection) = remote.connection(checkout.repository)
        && let Err(failure) = follow(context, checkout, &connection)
    {
        let why = crate::report::Visible(&failure.message).to_string();
        context.printer.tell(&format!(
            "warning: `{word}` is the newest in this clone: {why}"
        ));
    }
    checkout.resolve(word)
}

/// The revision that a command reads, and where the site's files are there.
///
/// # Errors
///
/// It names none, or has no such site.
pub(super) fn find_revision(
    context: &Context,
    checkout: &Checkout<'_>,
    remote: &RemoteArguments,
    revision: &RevisionArguments,
) -> Result<(At, Location), Failure> {
    let at = resolve_to_read(context, checkout, remote, revision.word())?;
    Ok((at, checkout.location_at(at)?))
}

/// Where what is known of machines comes from.
pub(super) fn observed(context: &Context, path: Option<&PathBuf>) -> Observed {
    match path {
        None => Observed::Now,
        Some(path) if path.as_os_str() == "none" => Observed::Nothing,
        Some(path) => Observed::File(context.directory().join(path)),
    }
}
