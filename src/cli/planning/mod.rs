//! From a checkout to a plan: what `plan` and `apply` have in common.
//!
//! Loads the site, follows the records, asks the backends (or reads what was seen elsewhere), loads the
//! old designs that are needed for reasons, and calls [`plan::make`].

mod arguments;
mod follow;
mod opened;
mod short;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use crate::backend::{self, Backends, Clock, Look, Reach, Rights};
use crate::design::{Beside, DIGEST_VERSION, Design, Digest, NodeDesign, NodeName, Section};
use crate::diff::{NodeReasons, Revision};
use crate::identity::Identity;
use crate::observed::{self, Observations, ObservedNode};
use crate::plan::{self, Action, Base, ClusterSteps, IntermediateCommit, Plan, Request, Target};
use crate::record::{NodeRecord, SiteState, State, Store};
use crate::repository::{CommitId, LARGEST_FILE, Links, open_file};
use crate::run::{Connection, History, intermediate_commits};
use crate::site::{At, Depth, Loader, Location, Settings, Site};

pub(in crate::cli) use self::opened::Opened;
pub(in crate::cli) use arguments::{PlanArguments, RemoteArguments};
pub(in crate::cli) use follow::{follow, tell_of_set_aside};

use crate::cli::context::Context;
use crate::cli::revision::Checkout;
use crate::cli::secrets::ProcessSecrets;
use crate::cli::trust::TrustGate;
use crate::cli::{Failure, FailureKind};

/// A plan, and what it was made from.
pub(in crate::cli) struct Planned {
    pub(in crate::cli) plan: Plan,
    pub(in crate::cli) site: Site,
    pub(in crate::cli) state: SiteState,
    /// What was done to each node.
    pub(in crate::cli) records: BTreeMap<NodeName, NodeRecord>,
    /// What was seen, where anybody looked.
    pub(in crate::cli) observations: Option<Observations>,
    /// The designs of the nodes as they were applied last, of those that have left the design or
    /// differ from it.
    pub(in crate::cli) applied: BTreeMap<NodeName, Arc<NodeDesign>>,
    pub(in crate::cli) runtime: tokio::runtime::Runtime,
    pub(in crate::cli) hardware: Option<Arc<Backends>>,
}

/// What backends need that no document says; also what decides whether they are contacted.
pub(in crate::cli) fn backend_context(
    context: &Context,
    checkout: &Checkout<'_>,
    location: &Location,
) -> Result<backend::Context, Failure> {
    let repository = checkout.repository;
    let mut secrets = ProcessSecrets::new(repository.root());
    let mut named = None;
    if let Some(protected) = checkout.guards()? {
        secrets = secrets.at(context.repository()?, protected.commit);
        let guards = &protected.guards;
        named = Some((guards.revision().to_owned(), Reach::of(guards.design())));
    }
    let (site, printer) = (location.site.as_str(), context.printer);
    let gate = TrustGate::new(repository, context.directory(), site, printer, named);
    Ok(backend::Context {
        gate: Arc::new(gate),
        applied: Arc::default(),
        simulated_state: repository
            .common_dir()
            .join("trueup")
            .join(location.site.as_str())
            .join("simulated-site.json"),
        secrets: Arc::new(secrets),
        identities: Arc::default(),
    })
}

/// Lets the controllers be contacted whose addresses were applied: those of nodes whose designs are as
/// recorded, and those of `applied`, the designs that were applied last of the others.
pub(in crate::cli) fn allow_applied(
    backends: &backend::Context,
    design: &Design,
    records: &BTreeMap<NodeName, NodeRecord>,
    applied: &BTreeMap<NodeName, Arc<NodeDesign>>,
) {
    if Reach::of(design).is_empty() {
        return;
    }
    let mut nodes = Beside::of(&design.nodes);
    let unmoved = records.iter().filter_map(|(name, record)| {
        let node = nodes.get(name.as_str())?;
        let (section, own) = (&Section::OutOfBand, &node.digests);
        let is_same = record.digest_version == DIGEST_VERSION
            && record.digests.get(section) == own.get(section);
        is_same.then_some(&**node)
    });
    let others = applied.values().map(|node| &**node);
    for node in unmoved.chain(others) {
        backends.applied.add(node, design.backend_of(node).kind);
    }
}

/// What the records know machines by.
pub(in crate::cli) fn identities(
    records: &BTreeMap<NodeName, NodeRecord>,
) -> impl Iterator<Item = (&str, Identity)> {
    let records = records.iter();
    records.filter_map(|(name, record)| Some((name.as_str(), *record.identity.clone()?)))
}

/// A runtime whose clock is the backends'.
pub(in crate::cli) fn runtime(design: &Design) -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(backend::clock(design) == Clock::Virtual)
        .build()
        .map_err(|error| Failure::error(format!("the runtime could not be started: {error}")))
}

/// The commit that a record names, fetched where this clone does not have it.
pub(in crate::cli) fn recorded(
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    revision: &str,
) -> Result<CommitId, Failure> {
    if let (Connection::Shared { remote, .. }, Ok(commit)) = (connection, revision.parse()) {
        remote.fetch_commit(commit)?;
    }
    Ok(checkout.repository.resolve(revision)?)
}

/// Fetches more of a shallow history, until it reaches the last site action.
pub(in crate::cli) fn deepen(
    connection: &Connection<'_>,
    state: &SiteState,
    target: CommitId,
) -> Result<(), Failure> {
    if let (Connection::Shared { remote, .. }, Some(action)) = (connection, &state.last_action)
        && let Ok(base) = action.revision.parse()
    {
        remote.fetch_commit(base)?;
        remote.deepen(base, target)?;
    }
    Ok(())
}

/// What a plan starts from: the records.
struct Ground {
    state: State,
    records: BTreeMap<NodeName, NodeRecord>,
}

fn ground(
    context: &Context,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
) -> Result<Ground, Failure> {
    let store = Store::open(checkout.repository, &checkout.location.site)?;
    follow(context, &store, connection)?;
    let began = Instant::now();
    let state = store.read()?;
    let records = store.nodes(&state)?;
    ::log::info!(
        "records of {} nodes, in {:.1?}",
        records.len(),
        began.elapsed()
    );
    Ok(Ground { state, records })
}

/// Makes a plan for the documents at a revision.
pub(in crate::cli) fn make(
    context: &Context,
    checkout: &Checkout<'_>,
    at: At,
    arguments: &PlanArguments,
    connection: &Connection<'_>,
    request: &Request,
) -> Result<Planned, Failure> {
    let ground = ground(context, checkout, connection)?;
    let snapshot = snapshot(context, arguments)?;
    make_whole(
        context, checkout, at, arguments, connection, request, ground, snapshot,
    )
}

/// Makes another plan of what was observed for one before.
pub(in crate::cli) fn make_again(
    context: &Context,
    checkout: &Checkout<'_>,
    at: At,
    arguments: &PlanArguments,
    connection: &Connection<'_>,
    request: &Request,
    observations: Option<Observations>,
) -> Result<Planned, Failure> {
    let ground = ground(context, checkout, connection)?;
    let seen = Some(observations);
    make_whole(
        context, checkout, at, arguments, connection, request, ground, seen,
    )
}

/// The same where nothing but the plan is wanted: where the world was seen elsewhere, and most of the
/// site is as it was when it was loaded last, only the rest is loaded.
pub(in crate::cli) fn make_plan(
    context: &Context,
    checkout: &Checkout<'_>,
    at: At,
    arguments: &PlanArguments,
    connection: &Connection<'_>,
    request: &Request,
) -> Result<Plan, Failure> {
    let is_short =
        at == At::Worktree && !request.action.is_targeted() && arguments.observed.is_some();
    let mut whole = None;
    let ground = if is_short {
        let (ground, prepared) = short::prepare(context, checkout, arguments, connection)?;
        if let Some((prepared, part)) = prepared {
            let snapshot = sifted(context, arguments, || {
                short::sieve(part.design(), &ground.records)
            })?;
            let short = short::Short {
                context,
                checkout,
                arguments,
                connection,
                request,
                state: &ground.state,
                records: &ground.records,
                seen: &snapshot,
            };
            if let Some(plan) = short.make(prepared, part)? {
                std::mem::forget((ground, snapshot));
                return Ok(plan);
            }
            whole = snapshot.settled.is_empty().then_some(snapshot.seen);
        }
        ground
    } else {
        ground(context, checkout, connection)?
    };
    let snapshot = match whole {
        Some(snapshot) => snapshot,
        None => snapshot(context, arguments)?,
    };
    let planned = make_whole(
        context, checkout, at, arguments, connection, request, ground, snapshot,
    )?;
    let Planned {
        plan,
        site,
        records,
        observations,
        applied,
        hardware,
        ..
    } = planned;
    // The process ends soon: taking the site's trees apart node by node would only cost time.
    std::mem::forget((site, records, observations, applied, hardware));
    Ok(plan)
}

/// What was seen elsewhere; `Some(None)`: nothing was, and nothing is to be looked at.
type Snapshot = Option<Option<Observations>>;

/// What is kept of a snapshot.
struct Sifted {
    seen: Snapshot,
    /// The machines, sorted, of which nothing is.
    settled: Vec<NodeName>,
}

fn snapshot(context: &Context, arguments: &PlanArguments) -> Result<Snapshot, Failure> {
    let all = || |_: &NodeName, _: &ObservedNode| true;
    sifted(context, arguments, all).map(|sifted| sifted.seen)
}

/// Reads a snapshot as [`observed::read_sifted`] does; what is no file is read whole.
fn sifted<K: FnMut(&NodeName, &ObservedNode) -> bool>(
    context: &Context,
    arguments: &PlanArguments,
    sieve: impl Fn() -> K + Sync,
) -> Result<Sifted, Failure> {
    let whole = |seen| Sifted {
        seen,
        settled: Vec::new(),
    };
    let Some(path) = &arguments.observed else {
        return Ok(whole(None));
    };
    if path.as_os_str() == "none" {
        return Ok(whole(Some(None)));
    }
    let path = context.directory().join(path);
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::error(format!(
            "the snapshot `{}` could not be read: {error}",
            path.display()
        ))
    };
    let (file, _) = open_file(&path, Links::Followed).map_err(|error| unreadable(&error))?;
    let sifted = observed::read_sifted(file, sieve);
    let (seen, settled) = sifted.map_err(|error| unreadable(&error))?;
    Ok(Sifted {
        seen: Some(Some(seen)),
        settled,
    })
}

#[expect(
    clippy::too_many_arguments,
    reason = "the end of two ways that share all of it"
)]
fn make_whole(
    context: &Context,
    checkout: &Checkout<'_>,
    at: At,
    arguments: &PlanArguments,
    connection: &Connection<'_>,
    request: &Request,
    ground: Ground,
    snapshot: Snapshot,
) -> Result<Planned, Failure> {
    let repository = checkout.repository;
    let Ground { state, records } = ground;
    let location = checkout.location_at(at)?;
    let settings = Settings {
        depth: Depth::Checked,
        allow_missing_sources: arguments.allow_missing_sources,
    };
    let backends = backend_context(context, checkout, &location)?;
    backends.identities.record(identities(&records));
    let asked = snapshot.is_none().then_some(&backends);
    let place = (&location, at);
    let mut opened = Opened::open(context, checkout, place, settings, &records, asked)?;
    let head = repository.head()?;
    let design = strictest(&mut opened, checkout, at, request, head)?;
    let old = old_sites(checkout, &mut opened, &records, &design, connection)?;
    let designs: BTreeMap<Arc<str>, Arc<Design>> = old
        .iter()
        .map(|(revision, site)| (revision.clone(), site.design.clone()))
        .collect();
    let applied = applied(&records, &designs);

    allow_applied(&backends, &design, &records, &applied);

    let runtime = runtime(&design)?;
    let (hardware, observations) = observe(
        &backends,
        snapshot,
        (request, &records, arguments.without_forecast),
        &design,
        &applied,
        &runtime,
        &mut opened,
    )?;
    let Opened { loader, site, .. } = opened;

    if let Some(commit) = commit_of(at).or(head) {
        deepen(connection, &state.site, commit)?;
    }
    let target = target(checkout, &site, at, head)?;
    let options = arguments.options(context, &design.policy);
    let intermediate = match (options.allow_intermediate_commits, commit_of(at).or(head)) {
        (true, Some(commit)) => allowed_commits(checkout, &state.site, commit)?,
        _ => Vec::new(),
    };
    let revisions: Vec<Revision<'_>> = old
        .values()
        .map(|site| Revision {
            rendering: &site.rendering,
            design: &site.design,
        })
        .collect();
    let now = Revision {
        rendering: &site.rendering,
        design: &design,
    };
    let reasons = NodeReasons::new(loader.sources(), &revisions, now);
    let plan = plan::make(&plan::Input {
        request: request.clone(),
        target,
        after: &design,
        designs: &designs,
        base: state.site.last_success.clone().map(|action| Base {
            run: action.run,
            revision: action.revision,
            site_digest: action.site_digest,
        }),
        records: &records,
        observations: observations.as_ref(),
        settled: &[],
        options,
        intermediate_commits: intermediate,
        reasons: &reasons,
    })
    .map_err(|error| refused(&error, arguments))?;
    Ok(Planned {
        plan,
        site,
        state: state.site,
        records,
        observations,
        applied,
        runtime,
        hardware,
    })
}

/// Why no plan was made: wrong usage, or nodes and documents that are not as they should be.
fn refused(error: &plan::Error, arguments: &PlanArguments) -> Failure {
    let kind = match error {
        plan::Error::UnknownNode { .. }
        | plan::Error::NotInCluster { .. }
        | plan::Error::NoEtcd => FailureKind::NotFound,
        plan::Error::GracePeriod { .. } if !arguments.action.gives_times() => FailureKind::Error,
        _ => FailureKind::Usage,
    };
    Failure::new(kind, error.to_string())
}

/// The design at a revision; where that is an older one, what HEAD forbids is forbidden too.
fn strictest(
    opened: &mut Opened<'_>,
    checkout: &Checkout<'_>,
    at: At,
    request: &Request,
    head: Option<CommitId>,
) -> Result<Arc<Design>, Failure> {
    let site = &opened.site;
    // Guards that the operator takes from elsewhere are the same at every revision.
    let is_asked = request.action.has_target_revision() && site.design.guards_from.is_none();
    let (true, Some(head)) = (is_asked, head) else {
        return Ok(site.design.clone());
    };
    if commit_of(at) == Some(head) {
        return Ok(site.design.clone());
    }
    let settings = Settings {
        depth: Depth::Typed,
        allow_missing_sources: true,
    };
    let location = checkout.location_at(At::Commit(head))?;
    let newest = opened.loader.load(&location, At::Commit(head), settings)?;
    Ok(Arc::new(plan::strictest(&site.design, &newest.design)))
}

pub(in crate::cli) fn commit_of(at: At) -> Option<CommitId> {
    match at {
        At::Worktree => None,
        At::Commit(commit) => Some(commit),
    }
}

fn target(
    checkout: &Checkout<'_>,
    site: &Site,
    at: At,
    head: Option<CommitId>,
) -> Result<Target, Failure> {
    let dirty: Vec<Arc<str>> = match at {
        At::Commit(_) => Vec::new(),
        At::Worktree if head.is_none() => site.files.iter().map(|file| file.path.clone()).collect(),
        At::Worktree => {
            let changed = checkout
                .repository
                .dirty(&site.location.selection, LARGEST_FILE)?;
            changed.into_iter().map(|file| file.path).collect()
        }
    };
    Ok(match at {
        At::Commit(commit) => Target {
            revision: Some(Arc::from(commit.to_string())),
            site_digest: site.digest.clone(),
            dirty,
        },
        At::Worktree => dirty_target(&site.digest, dirty, head),
    })
}

/// What is planned where the worktree is; it is the commit that is checked out where nothing differs.
fn dirty_target(digest: &Digest, dirty: Vec<Arc<str>>, head: Option<CommitId>) -> Target {
    let revision = head.filter(|_| dirty.is_empty());
    Target {
        revision: revision.map(|commit| Arc::from(commit.to_string())),
        site_digest: digest.clone(),
        dirty,
    }
}

/// The records that the design differs from.
fn differing<'a>(
    records: &'a BTreeMap<NodeName, NodeRecord>,
    design: &'a Design,
) -> impl Iterator<Item = &'a NodeRecord> {
    let mut nodes = Beside::of(&design.nodes);
    records
        .iter()
        .filter(move |(name, record)| differs(record, nodes.get(name.as_str()).map(|node| &**node)))
        .map(|(_, record)| record)
}

/// Whether the design of a node, where it has one, is not what its record says.
fn differs(record: &NodeRecord, node: Option<&NodeDesign>) -> bool {
    node.is_none_or(|node| {
        record.digest_version != DIGEST_VERSION || record.digests != node.digests
    })
}

/// The sites at the revisions of the records that the design differs from.
fn old_sites(
    checkout: &Checkout<'_>,
    opened: &mut Opened<'_>,
    records: &BTreeMap<NodeName, NodeRecord>,
    design: &Design,
    connection: &Connection<'_>,
) -> Result<BTreeMap<Arc<str>, Site>, Failure> {
    let revisions: BTreeSet<&Arc<str>> = differing(records, design)
        .filter_map(|record| record.revision.as_ref())
        .collect();
    let settings = Settings {
        depth: Depth::Typed,
        allow_missing_sources: true,
    };
    let mut sites = BTreeMap::new();
    for revision in revisions {
        let commit = recorded(checkout, connection, revision)?;
        let location = checkout.location_at(At::Commit(commit))?;
        let site = opened.load_old(&location, commit, settings)?;
        sites.insert(revision.clone(), site);
    }
    Ok(sites)
}

/// The designs that were applied last, of the nodes whose old design was loaded.
pub(in crate::cli) fn applied(
    records: &BTreeMap<NodeName, NodeRecord>,
    designs: &BTreeMap<Arc<str>, Arc<Design>>,
) -> BTreeMap<NodeName, Arc<NodeDesign>> {
    records
        .values()
        .filter_map(|record| {
            let design = designs.get(record.revision.as_ref()?)?;
            let node = design.nodes.get(&record.node)?;
            Some((record.node.clone(), node.clone()))
        })
        .collect()
}

/// The backends, where they were asked, and what was seen, where anything was.
type Seen = (Option<Arc<Backends>>, Option<Observations>);

fn observe(
    backends: &backend::Context,
    snapshot: Snapshot,
    (request, records, without_forecast): (&Request, &BTreeMap<NodeName, NodeRecord>, bool),
    design: &Design,
    applied: &BTreeMap<NodeName, Arc<NodeDesign>>,
    runtime: &tokio::runtime::Runtime,
    opened: &mut Opened<'_>,
) -> Result<Seen, Failure> {
    if let Some(seen) = snapshot {
        return Ok((None, seen));
    }
    let hardware = opened.choose(design, backends)?;
    let nodes = subjects(design, applied);
    let named = plan::named(design, records, request);
    let look = match without_forecast {
        true => Look {
            etcd: true,
            ..Look::default()
        },
        false => look_of(request.action),
    };
    let observed = observe_nodes(&hardware, &nodes, look, named.as_ref());
    let observations = runtime.block_on(observed);
    Ok((Some(hardware), Some(observations)))
}

/// What a plan of an action goes by.
fn look_of(action: Action) -> Look {
    // It is lists of its own, and rights that nothing else needs.
    Look {
        remediation: action == Action::Remediate,
        rights: match action.cluster_steps() {
            ClusterSteps::None => Rights::None,
            ClusterSteps::One(kind) => Rights::Of(kind),
            ClusterSteps::Any => Rights::All,
        },
        ..Look::ALL
    }
}

/// Asks backends for what a plan goes by; `pods_of`: the nodes whose pods are wanted, where those are not all.
async fn observe_nodes(
    backends: &Backends,
    nodes: &[Arc<NodeDesign>],
    look: Look,
    pods_of: Option<&BTreeSet<NodeName>>,
) -> Observations {
    let began = Instant::now();
    let seen = backends.see(nodes, look, pods_of).await;
    ::log::info!(
        "looked at {} machines in {:.1?}",
        nodes.len(),
        began.elapsed()
    );
    seen
}

/// Every node of the design, and those that have left it.
fn subjects(
    design: &Design,
    applied: &BTreeMap<NodeName, Arc<NodeDesign>>,
) -> Vec<Arc<NodeDesign>> {
    let left = applied
        .iter()
        .filter(|(name, _)| !design.nodes.contains_key(*name));
    design
        .nodes
        .values()
        .cloned()
        .chain(left.map(|(_, node)| node.clone()))
        .collect()
}

pub(in crate::cli) fn backend_failure(error: &backend::Error, loader: &Loader<'_>) -> Failure {
    let mut failure = Failure::from_error(FailureKind::Error, error, None);
    if let backend::Error::Untrusted(untrusted) = error {
        failure.kind = FailureKind::Guard;
        failure.hints.extend(untrusted.hints.iter().cloned());
    }
    if let Some(diagnostic) = error.diagnostic() {
        let place = diagnostic.mark.map(|mark| loader.sources().place(mark));
        failure.message = match place {
            Some(place) => format!("{place}: {}", diagnostic.message),
            None => diagnostic.message.clone(),
        };
        failure.hints.extend(diagnostic.hint.clone());
    }
    if error.diagnostic().is_none() {
        failure.hints.extend(error.hint().map(str::to_owned));
    }
    failure
}

fn allowed_commits(
    checkout: &Checkout<'_>,
    state: &SiteState,
    commit: CommitId,
) -> Result<Vec<IntermediateCommit>, Failure> {
    let history = intermediate_commits(
        checkout.repository,
        &checkout.location.site,
        &checkout.location.selection,
        state,
        commit,
    )
    .map_err(|error| crate::cli::apply::session_failure(&error))?;
    Ok(match history {
        History::Between(commits) | History::Rollback(commits) => commits,
        History::None | History::Diverged { .. } => Vec::new(),
    })
}
