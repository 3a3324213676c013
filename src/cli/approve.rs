//! `trueup approve`: signs the effect of a saved plan with the person's SSH key, and publishes the signature.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use jiff::{SignedDuration, Timestamp};

use super::apply::actor;
use super::context::Context;
use super::planning::RemoteArguments;
use super::value::duration;
use super::{Failure, FailureKind};
use crate::design::RunId;
use crate::plan::{Plan, PlanEffect, effect};
use crate::record::Approval;
use crate::report::{self, Visible};
use crate::repository::{PublicKey, Repository, Signed, SigningKey};
use crate::run::{Connection, SiteRepository};
use crate::site::At;
use crate::workflow::{
    AS_APPLIED, Approving, Checkout, Gate, LONGEST, NAMESPACE, SavedNow, Statement, follow,
    gate_of, is_for_site, plan_of_run, saved_plan,
};

#[derive(Debug, Args)]
pub(super) struct ApproveCommand {
    /// A plan that `trueup plan -o FILE` saved, or the id of a run that began without approvals
    #[arg(value_name = "PLAN or RUN")]
    plan: PathBuf,
    /// The SSH key to sign with, private or public with the private one in the agent [default: git's `user.signingkey`, where `gpg.format` is `ssh`]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// How long the approval counts, up to 720h (30 days)
    #[arg(long, value_name = "DURATION", default_value = "72h", value_parser = duration)]
    expires: u64,
    /// Sign without asking
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    remote: RemoteArguments,
}

pub(super) fn run(context: &mut Context, command: &ApproveCommand) -> Result<u8, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let site = checkout.site(command.remote.connection(&repository)?)?;
    let lasts = lasts(command)?;
    let mut plan = plan(context, command, &checkout, &site)?;
    is_for_site(&plan, &site)?;
    if run_of(context, command).is_none() {
        warn_if_stale(
            context,
            &plan,
            &SavedNow::read(context, &checkout, &site, &plan)?,
        );
    }
    if matches!(site.connection, Connection::Offline) {
        let text = "an approval is published, and `--offline` asks no remote";
        return Err(Failure::new(FailureKind::Usage, text));
    }
    let (key, public) = key(context, command, &repository)?;
    let gate = gate(context, &checkout, &site)?;
    let by = principal(&gate, &public, context.now())?;
    plan.approvals = gate.approvals(Approving::of(context, &site), &plan)?;
    is_asked(&plan, &by)?;
    if plan.approvals.is_empty() {
        let text = "warning: no rule of the site asks for an approval of this plan";
        context.printer.tell(text);
    }
    show(context, &plan)?;
    if run_of(context, command).is_none() {
        warn_if_in_vain(context, &plan);
    }
    confirm(context, command, &plan)?;
    let (statement, expires) = statement(context, (command, lasts), &site, &plan)?;
    let signature = repository.sign(&key, NAMESPACE, &statement)?;
    let approval = Approval {
        by,
        statement: Arc::from(statement),
        signature: Arc::from(signature),
    };
    holds(&repository, &gate, &approval, &public)?;
    let digest = PlanEffect::of(&plan).digest();
    let name = Approving::of(context, &site).publish(&approval, &plan, &public)?;
    let place = match site.connection {
        Connection::Shared { publish: false, .. } => ", which is not published",
        _ => "",
    };
    context.printer.tell(&format!(
        "Approved effect {} of site `{}` as {} until {expires}: `{name}`{place}",
        effect::short(&digest),
        site.name,
        Visible(&approval.by),
    ));
    Ok(0)
}

/// Gives a saved plan the approvals that it has now, and tells whether it is stale. Those of the file were given, or
/// missing, when it was saved. `None`: outside of its repository nothing of that is known.
pub(super) fn refresh(
    context: &Context,
    remote: &RemoteArguments,
    plan: &mut Plan,
) -> Option<SavedNow> {
    let is_known = context.repository().is_ok() || !plan.approvals.is_empty();
    // Of several sites it is the one that the plan is for.
    let own = context.site.is_none().then(|| plan.site.to_string());
    let inside = context.in_folder(context.directory(), own.as_deref());
    match is_known.then(|| now(&inside, remote, plan))? {
        Ok(now) => {
            warn_if_stale(context, plan, &now);
            Some(now)
        }
        Err(failure) => {
            let why = Visible(&failure.message);
            context.printer.tell(&format!(
                "warning: {why}: the plan is shown as it was saved, and may be stale"
            ));
            None
        }
    }
}

fn now(context: &Context, remote: &RemoteArguments, plan: &mut Plan) -> Result<SavedNow, Failure> {
    let repository = context.repository()?;
    let checkout = context.checkout(&repository)?;
    let site = checkout.site(remote.connection(&repository)?)?;
    let now = SavedNow::read(context, &checkout, &site, plan)?;
    if !plan.approvals.is_empty() {
        let gate = gate(context, &checkout, &site)?;
        plan.approvals = gate.approvals(Approving::of(context, &site), plan)?;
    }
    Ok(now)
}

/// Warns that a saved plan is stale, if it is.
fn warn_if_stale(context: &Context, plan: &Plan, now: &SavedNow) {
    if now.outdated.is_empty() {
        return;
    }
    let (why, again) = (now.outdated.join("; "), plan.again_with(None));
    context.printer.tell(&format!(
        "warning: the plan is stale, and `trueup apply` refuses it: {}; `{} -o FILE` makes it again",
        Visible(&why),
        Visible(&again)
    ));
}

/// Warns that a plan has nothing to do, or could not be applied with all its approvals either.
fn warn_if_in_vain(context: &Context, plan: &Plan) {
    let mut approved = plan.clone();
    for rule in &mut approved.approvals.needed {
        rule.missing = 0;
    }
    let reasons: Vec<String> = approved
        .refusals()
        .into_iter()
        .map(|refusal| refusal.reason)
        .collect();
    let text = match (plan.is_empty(), &reasons[..]) {
        (false, []) => return,
        (true, []) => "there is nothing to do".to_owned(),
        (_, reasons) => format!(
            "with all its approvals, too, it cannot be applied as it stands: {}",
            reasons.join("; ")
        ),
    };
    let text = Visible(&text);
    context.printer.tell(&format!("warning: the plan: {text}"));
}

/// The plan of a file, or of a run.
fn plan(
    context: &Context,
    command: &ApproveCommand,
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
) -> Result<Plan, Failure> {
    let Some(run) = run_of(context, command) else {
        return saved_plan(context.directory(), &command.plan);
    };
    let store = follow(context, checkout, &site.connection)?;
    plan_of_run(&store, &store.read()?, &RunId::from(run))
}

/// The run that is named in place of a file.
fn run_of<'c>(context: &Context, command: &'c ApproveCommand) -> Option<&'c str> {
    let path = context.directory().join(&command.plan);
    let word = command.plan.to_str().filter(|_| !path.exists())?;
    ulid::Ulid::from_string(word).is_ok().then_some(word)
}

/// The key to sign with, and its public key.
fn key(
    context: &Context,
    command: &ApproveCommand,
    repository: &Repository,
) -> Result<(SigningKey, PublicKey), Failure> {
    let given = command.key.as_ref();
    let key = match given.map(|path| SigningKey::File(context.directory().join(path))) {
        Some(key) => key,
        None => repository.signing_key()?.ok_or_else(|| {
            Failure::error("there is no key to sign with").hint(
                "give one with `--key`, or name it to git: `git config gpg.format ssh` and `git config user.signingkey FILE`",
            )
        })?,
    };
    let public = key.public().ok_or_else(|| {
        Failure::error("the public key of the key to sign with is not found")
            .hint("it has the name of the private one and `.pub`; `ssh-keygen -y -f KEY` prints it")
    })?;
    Ok((key, public))
}

/// The rules that the plan is held to.
fn gate(
    context: &Context,
    checkout: &Checkout<'_>,
    site: &SiteRepository<'_>,
) -> Result<Gate, Failure> {
    let state = follow(context, checkout, &site.connection)?.read()?.site;
    let mut loader = checkout.loader()?;
    let documents = loader.load(&checkout.location, At::Worktree, AS_APPLIED)?;
    gate_of(checkout, &site.connection, &mut loader, &documents, &state)
}

/// The principal of a key.
fn principal(gate: &Gate, public: &PublicKey, now: Timestamp) -> Result<Arc<str>, Failure> {
    gate.from().ok_or_else(|| {
        Failure::error("the Policy of the site asks for no approvals").hint(
            "`approvals` of the Policy names the plans that need some; it counts once it is applied",
        )
    })?;
    let signer = gate.signer(public).ok_or_else(|| {
        let text = format!("the key {public:?} may not approve:");
        Failure::new(FailureKind::Guard, text).details(gate.lacks(public))
    })?;
    if signer.is_over(now) {
        let principal = &signer.principal;
        let text = format!(
            "the key {public:?} of `{principal}` counts no more: its time among the allowed signers is over"
        );
        return Err(Failure::new(FailureKind::Guard, text).hint(
            "`trueup apply guards` puts a file in force that gives it more time, with approvals by keys that count",
        ));
    }
    Ok(Arc::from(signer.principal.as_str()))
}

/// Refuses the approval of a principal whom no rule asks of those that the plan is held to.
fn is_asked(plan: &Plan, by: &str) -> Result<(), Failure> {
    let needed = &plan.approvals.needed;
    if needed.is_empty() || needed.iter().any(|rule| rule.counts(by)) {
        return Ok(());
    }
    let rules = needed.iter().map(|rule| {
        let recovery = rule.recovery.iter().flat_map(|recovery| &recovery.of);
        let of: Vec<&str> = rule.of.iter().chain(recovery).map(|name| &**name).collect();
        format!("`{}` counts those of {}", rule.rule, of.join(", "))
    });
    let text = format!("no rule of this plan counts an approval of `{by}`, so nothing was signed:");
    Err(Failure::new(FailureKind::Guard, text).details(rules))
}

/// Shows the changes that are approved.
fn show(context: &Context, plan: &Plan) -> Result<(), Failure> {
    let view = report::plan::View {
        palette: context.printer.out,
        ..Default::default()
    };
    context
        .printer
        .stream_text(|out| report::plan::text(out, plan, view))
}

/// Asks whether to sign, unless `--yes` was given.
fn confirm(context: &Context, command: &ApproveCommand, plan: &Plan) -> Result<(), Failure> {
    if command.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        let text = "stdin is not a terminal, so the approval cannot be confirmed";
        return Err(Failure::new(FailureKind::Usage, text).hint("pass `--yes`"));
    }
    let question = format!(
        "\n{}. Sign an approval of these changes to site `{}`? Only `yes` is taken as approval:",
        report::plan::scope(plan),
        plan.site
    );
    match context.printer.confirms(&question, "yes")? {
        true => Ok(()),
        false => Err(Failure::error("not approved; nothing was signed")),
    }
}

/// How long the approval is to count.
fn lasts(command: &ApproveCommand) -> Result<SignedDuration, Failure> {
    if command.expires == 0 {
        let text = "an approval that counts for no time approves nothing";
        return Err(Failure::new(FailureKind::Usage, text)
            .hint("leave `--expires` away, or give it hours such as `72h`"));
    }
    let lasts = SignedDuration::from_secs(i64::try_from(command.expires).unwrap_or(i64::MAX));
    if lasts > LONGEST {
        let days = LONGEST.as_hours() / 24;
        let text = format!("an approval counts for {days} days at most");
        return Err(Failure::new(FailureKind::Usage, text));
    }
    Ok(lasts)
}

/// The text to be signed, and until when it counts.
fn statement(
    context: &Context,
    (command, lasts): (&ApproveCommand, SignedDuration),
    site: &SiteRepository<'_>,
    plan: &Plan,
) -> Result<(String, Timestamp), Failure> {
    let issued = Timestamp::from_second(context.now().as_second()).unwrap_or(Timestamp::MIN);
    let expires = issued.checked_add(lasts).unwrap_or(Timestamp::MAX);
    let statement = Statement {
        repository: site.repository.signed_name()?,
        site: site.name.to_string(),
        effect: PlanEffect::of(plan).digest().to_string(),
        run: run_of(context, command).map(str::to_owned),
        ticket: plan.options.ticket.clone(),
        issued,
        expires,
        nonce: format!("{:032x}", actor(site.repository)?.random),
    };
    Ok((statement.to_string(), expires))
}

/// Whether the signature that was made holds: the private key may be of another pair, or its time over.
fn holds(
    repository: &Repository,
    gate: &Gate,
    approval: &Approval,
    public: &PublicKey,
) -> Result<(), Failure> {
    let signed = Signed {
        namespace: NAMESPACE,
        message: &approval.statement,
        signature: &approval.signature,
        at: None,
    };
    let line = gate.signer(public).map(|signer| signer.line());
    match repository.verify(signed, &line.unwrap_or_default(), &approval.by)? {
        None => Ok(()),
        Some(why) => {
            let text = format!("the signature does not hold by the allowed signers: {why}");
            Err(Failure::new(FailureKind::Guard, text))
        }
    }
}
