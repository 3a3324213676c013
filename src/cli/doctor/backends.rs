//! Checks of the site: its documents, the trust in them, and what its backends answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use super::checks::Checks;
use super::{notify, pushes, signers};
use crate::backend::Reach;
use crate::backend::http::server_dates;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::planning::{PlanArguments, RemoteArguments};
use crate::cli::revision::load_sound;
use crate::cli::trust::TrustGate;
use crate::design::{Design, Documented, Guards, NodeName};
use crate::identity::Proof;
use crate::observed::{Fact, Observations};
use crate::plan::Request;
use crate::report::counted;
use crate::repository::Repository;
use crate::site::{Accept, At, Depth, Detail, Settings};
use crate::workflow::{Checkout, Client, Planner};

/// A clock that is further off makes leases and certificates unreliable, in seconds.
const SKEW: i64 = 30;

/// Subjects that are named in a finding.
const NAMED: usize = 5;

/// Checks the site in a repository, and its backends if they are trusted.
pub(super) fn check(
    context: &mut Context,
    remote: &RemoteArguments,
    repository: &Repository,
    checks: &mut Checks,
) {
    let checkout = match context.checkout(repository) {
        Ok(checkout) => checkout,
        Err(failure) => {
            checks.failure("site", &failure, "`trueup init DIR` writes one");
            checks.skip("trust", "needs a site");
            return checks.skip("backends", "needs a site");
        }
    };
    if let Some(has_records) = pushes::records(remote, &checkout, checks) {
        pushes::lock(remote, &checkout, has_records, checks);
        pushes::trial(context, remote, &checkout, checks);
    }
    let design = match documents(context, &checkout) {
        Ok(design) => design,
        Err(failure) => {
            let next = "`trueup validate` shows every error";
            match failure.message.is_empty() {
                true => checks.fail("site", "its documents have errors", next),
                false => checks.failure("site", &failure, next),
            }
            checks.skip("trust", "needs documents without errors");
            return checks.skip("backends", "needs documents without errors");
        }
    };
    let nodes = counted(design.nodes.len(), "node", "nodes");
    checks.ok("site", format!("`{}`, {nodes}", design.site));
    signers::signers(context, &checkout, &design.guards, checks);
    signers::recovery(context, checkout.repository, &design.guards, checks);
    match trust(context, &checkout, &design.guards, checks) {
        Ok(true) => {
            observe(context, remote, &checkout, &design, checks);
            notify::check(context, &checkout, &design.guards, checks);
        }
        Ok(false) => checks.skip("backends", "not contacted, since they are not trusted"),
        Err(failure) => {
            checks.failure("trust", &failure, "`trueup trust`");
            checks.skip("backends", "not contacted, since they are not trusted");
        }
    }
}

fn documents(context: &Context, checkout: &Checkout<'_>) -> Result<Documented, Failure> {
    let mut loader = checkout.loader()?;
    let settings = Settings {
        depth: Depth::Checked,
        detail: Detail::Designs,
        accept: Accept::default(),
    };
    let location = &checkout.location;
    let site = load_sound(context, &mut loader, location, At::Worktree, settings)?;
    checkout.documented(&site)
}

/// Checks whether the backends may be contacted.
fn trust(
    context: &Context,
    checkout: &Checkout<'_>,
    guards: &Guards,
    checks: &mut Checks,
) -> Result<bool, Failure> {
    let reach = Reach::of(guards);
    if reach.is_empty() {
        checks.ok("trust", "the backends are simulated, and need none");
        return Ok(true);
    }
    if let Some(protected) = checkout.guards()?
        && Reach::of(&protected.guards).entries() == reach.entries()
    {
        let revision = &protected.revision;
        checks.ok(
            "trust",
            format!("of the revision `{revision}`, by `--backends-from`"),
        );
        return Ok(true);
    }
    let site = checkout.location.site.as_str();
    let repository = checkout.repository;
    let gate = TrustGate::new(repository, context.directory(), site, context.printer, None);
    let backends = context.backends(checkout, &checkout.location)?;
    let missing = gate
        .untrusted(&reach, &*backends.secrets)
        .map_err(Failure::error)?;
    match missing {
        None => {
            let entries = counted(reach.entries().len(), "entry", "entries");
            checks.ok("trust", format!("{entries}, all trusted"));
            Ok(true)
        }
        Some(missing) => {
            let named: Vec<String> = missing
                .iter()
                .take(NAMED)
                .map(ToString::to_string)
                .collect();
            let found = match named.is_empty() {
                true => "less than was trusted before".to_owned(),
                false => format!("not trusted yet: {}", named.join("; ")),
            };
            checks.fail(
                "trust",
                found,
                "`trueup trust` shows all of it and records that you trust it",
            );
            Ok(false)
        }
    }
}

/// Asks all backends, as a plan does.
fn observe(
    context: &mut Context,
    remote: &RemoteArguments,
    checkout: &Checkout<'_>,
    design: &Design,
    checks: &mut Checks,
) {
    let connection = match remote.connection(checkout.repository) {
        Ok(connection) => connection,
        Err(failure) => return checks.failure("backends", &failure, "check the remote first"),
    };
    let planner = Planner {
        client: &*context,
        checkout,
        at: At::Worktree,
        connection: &connection,
        request: &Request::default(),
        plan_request: &PlanArguments::default().plan_request(context),
    };
    let planned = match planner.plan() {
        Ok(planned) => planned,
        // The cause is named once.
        Err(_) if checks.has_failed("records") => {
            return checks.skip(
                "backends",
                "not contacted, since the records cannot be followed",
            );
        }
        Err(failure) => {
            return checks.failure(
                "backends",
                &failure,
                "correct what it names, here or in the documents; `trueup doctor` checks it again",
            );
        }
    };
    let Some(seen) = &planned.observations else {
        return checks.skip("backends", "nothing was observed");
    };
    machines(seen, design, checks);
    cluster(seen, checks);
    etcd(seen, checks);
    clocks(checks);
}

fn named(names: &[&NodeName]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(|name| name.as_str()).collect();
    match names.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Machines that answer, and those that do not, by the reason.
fn machines(seen: &Observations, design: &Design, checks: &mut Checks) {
    let mut answered = 0;
    let mut silent: BTreeMap<&str, Vec<&NodeName>> = BTreeMap::new();
    let mut unproven = Vec::new();
    for name in design.nodes.keys() {
        let Some(node) = seen.node(name.as_str()) else {
            continue;
        };
        match (&node.proof, &node.power, &node.provision) {
            (Proof::Refused(why), ..) => silent.entry(why).or_default().push(name),
            (_, Fact::Unknown(why), Fact::Unknown(_)) => silent.entry(why).or_default().push(name),
            _ => answered += 1,
        }
        if matches!(node.proof, Proof::Unverified(_)) {
            unproven.push(name);
        }
    }
    let all = design.nodes.len();
    match (silent.is_empty(), all) {
        (true, 0) => checks.skip(
            "backends",
            "not asked: the documents have no machine, and `trueup adopt` asks for theirs",
        ),
        (true, _) => checks.ok("backends", format!("{answered} of {all} machines answer")),
        (false, _) => {}
    }
    for (why, names) in silent {
        checks.fail(
            "backends",
            format!("{}: {why}", named(&names)),
            "check network, credentials and certificate of these controllers; `-vv` shows every request",
        );
    }
    if !unproven.is_empty() {
        checks.warn(
            "identity",
            format!(
                "nothing proves that these are the machines of the documents: {}",
                named(&unproven)
            ),
            "add `uuid`, `serial` or `boot_mac` to their documents",
        );
    }
}

fn cluster(seen: &Observations, checks: &mut Checks) {
    let Some(facts) = &seen.cluster else {
        return checks.skip(
            "cluster",
            "no Kubernetes cluster is named, or it did not answer",
        );
    };
    let missing: Vec<&str> = facts
        .missing_rights
        .iter()
        .map(|each| &*each.right)
        .collect();
    match missing.is_empty() {
        true => checks.ok(
            "cluster",
            format!("Kubernetes {}, no right is missing", facts.version),
        ),
        false => checks.fail(
            "cluster",
            format!(
                "Kubernetes {}, rights are missing: {}",
                facts.version,
                missing.join(", ")
            ),
            "grant them; docs/kubernetes.md lists those that are needed",
        ),
    }
    if let Some(Fact::Unknown(why)) = &facts.api_servers {
        checks.warn(
            "cluster",
            format!("its API servers cannot be counted: {why}"),
            "grant `list` of EndpointSlices",
        );
    }
}

fn etcd(seen: &Observations, checks: &mut Checks) {
    for (cluster, etcd) in &seen.etcd {
        let mut silent: BTreeSet<String> = BTreeSet::new();
        for (member, answer) in &etcd.answers {
            if let Fact::Unknown(why) = answer {
                silent.insert(format!("{member}: {why}"));
            }
        }
        silent.extend(
            etcd.invalid
                .iter()
                .map(|(member, why)| format!("{member}: {why}")),
        );
        match silent.is_empty() {
            true => checks.ok(
                "etcd",
                format!(
                    "`{cluster}`, {} answer",
                    counted(etcd.answers.len(), "member", "members")
                ),
            ),
            false => checks.fail(
                "etcd",
                format!(
                    "`{cluster}`: {}",
                    silent.into_iter().collect::<Vec<_>>().join("; ")
                ),
                "`trueup etcd` shows its health",
            ),
        }
    }
}

/// The clocks of the servers that answered, against that of this machine.
fn clocks(checks: &mut Checks) {
    let now = SystemTime::now();
    let mut wrong = Vec::new();
    let dates = server_dates();
    for (server, seen) in &dates {
        let Ok(there) = jiff::fmt::rfc2822::parse(&seen.date) else {
            continue;
        };
        let Ok(here) = jiff::Timestamp::try_from(now - seen.at.elapsed()) else {
            continue;
        };
        let skew = there.timestamp().as_second() - here.as_second();
        if skew.abs() > SKEW {
            wrong.push(format!("{server} is {skew:+} s off"));
        }
    }
    match (dates.len(), wrong.is_empty()) {
        (0, _) => checks.skip("clocks", "no backend tells its time"),
        (servers, true) => checks.ok(
            "clocks",
            format!(
                "{} within {SKEW} s of this one",
                counted(servers, "clock", "clocks")
            ),
        ),
        (_, false) => checks.warn(
            "clocks",
            wrong.into_iter().take(NAMED).collect::<Vec<_>>().join("; "),
            "set these clocks, or this one, by NTP",
        ),
    }
}
