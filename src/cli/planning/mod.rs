//! From a checkout to a plan: what `plan` and `apply` have in common.
//!
//! Loads the site, follows the records, asks the backends (or reads what was seen elsewhere), loads the
//! old designs that are needed for reasons, and calls [`plan::make`].

mod arguments;
mod follow;
mod opened;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use crate::backend::{self, Backends, Clock, Look, Reach, Rights};
use crate::design::{Beside, DIGEST_VERSION, Design, NodeDesign, NodeName, Section};
use crate::diagnostic::chain;
use crate::diff::{NodeReasons, Revision};
use crate::identity::Identity;
use crate::observed::{self, Observations};
use crate::plan::{self, Action, Base, ClusterSteps, IntermediateCommit, Plan, Request, Target};
use crate::record::{NodeRecord, SiteState, State, Store};
use crate::repository::{CommitId, Links, Tree, read_file};
use crate::run::{Connection, History, intermediate_commits};
use crate::site::{At, Depth, Detail, Loader, Location, Settings, Site};

pub(in crate::cli) use self::opened::Opened;
pub(in crate::cli) use arguments::{PlanArguments, RemoteArguments};
pub(in crate::cli) use follow::{follow, tell_of_set_aside};

use crate::cli::context::Context;
use crate::cli::revision::{Checkout, sound};
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

impl Planned {
    /// The plan alone, for a process that ends soon: taking everything else apart piece by piece would only cost time.
    pub(in crate::cli) fn into_plan(self) -> Plan {
        let Self {
            plan,
            site,
            records,
            observations,
            applied,
            hardware,
            ..
        } = self;
        std::mem::forget((site, records, observations, applied, hardware));
        plan
    }
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

/// What was seen elsewhere; `Some(None)`: nothing was, and nothing is to be looked at.
type Snapshot = Option<Option<Observations>>;

/// A plan that is to be made.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Planner<'a> {
    pub(in crate::cli) context: &'a Context,
    pub(in crate::cli) checkout: &'a Checkout<'a>,
    /// The documents.
    pub(in crate::cli) at: At,
    pub(in crate::cli) arguments: &'a PlanArguments,
    pub(in crate::cli) connection: &'a Connection<'a>,
    pub(in crate::cli) request: &'a Request,
}

impl<'a> Planner<'a> {
    /// Makes the plan.
    pub(in crate::cli) fn plan(&self) -> Result<Planned, Failure> {
        self.made(|| self.snapshot())
    }

    /// Makes another plan of what was observed for one before.
    pub(in crate::cli) fn plan_again(
        &self,
        observations: Option<Observations>,
    ) -> Result<Planned, Failure> {
        self.made(|| Ok(Some(observations)))
    }

    fn made(
        &self,
        snapshot: impl FnOnce() -> Result<Snapshot, Failure> + Send,
    ) -> Result<Planned, Failure> {
        let location = self.checkout.location_at(self.at)?;
        let mut opened = Opened::new(self.checkout)?;
        let (ground, snapshot, head, site) = std::thread::scope(|scope| {
            let ground = scope.spawn(|| self.ground());
            let snapshot = scope.spawn(snapshot);
            let head = scope.spawn(|| self.head(&location));
            let settings = Settings {
                depth: Depth::Checked,
                detail: Detail::Designs,
                allow_missing_sources: self.arguments.allow_missing_sources,
            };
            let site = opened.load(&location, self.at, settings);
            (joined(ground), joined(snapshot), joined(head), site)
        });
        let (ground, head) = (ground?, head?);
        let site = sound(self.context, &opened.loader, Depth::Checked, site?)?;
        self.made_of(opened, site, ground, head, snapshot?)
    }

    fn made_of(
        &self,
        mut opened: Opened<'a>,
        mut site: Site,
        ground: Ground,
        head: Option<Head>,
        snapshot: Snapshot,
    ) -> Result<Planned, Failure> {
        let Self {
            context,
            checkout,
            request,
            ..
        } = *self;
        let Ground { state, records } = ground;
        let backends = backend_context(context, checkout, &site.location)?;
        backends.identities.record(identities(&records));
        let hardware = match &snapshot {
            // The place of what a backend refuses may be in any file.
            None => Some(opened.choose(&site, &backends)?),
            Some(_) => None,
        };
        let old = self.explained(&mut opened, &mut site, &records)?;
        let design = self.strictest(&mut opened, &site, head.as_ref())?;
        let designs: BTreeMap<Arc<str>, Arc<Design>> = old
            .iter()
            .map(|(revision, site)| (revision.clone(), site.design.clone()))
            .collect();
        let applied = applied(&records, &designs);
        allow_applied(&backends, &design, &records, &applied);
        let runtime = runtime(&design)?;
        let observations = match (&hardware, snapshot) {
            (Some(hardware), _) => {
                let nodes = subjects(&design, &applied);
                let named = plan::named(&design, &records, request);
                let observed = observe_nodes(hardware, &nodes, self.look(), named.as_ref());
                Some(runtime.block_on(observed))
            }
            (None, snapshot) => snapshot.flatten(),
        };

        let commit = commit_of(self.at).or(head.as_ref().map(|head| head.commit));
        if let Some(commit) = commit {
            deepen(self.connection, &state.site, commit)?;
        }
        let options = self.arguments.options(context, &design.policy);
        let intermediate = match (options.allow_intermediate_commits, commit) {
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
        let reasons = NodeReasons::new(opened.loader.sources(), &revisions, now);
        let plan = plan::make(&plan::Input {
            request: request.clone(),
            target: self.target(&site, head.as_ref()),
            after: &design,
            designs: &designs,
            base: state.site.last_success.clone().map(|action| Base {
                run: action.run,
                revision: action.revision,
                site_digest: action.site_digest,
            }),
            records: &records,
            observations: observations.as_ref(),
            options,
            intermediate_commits: intermediate,
            reasons: &reasons,
        })
        .map_err(|error| refused(&error, self.arguments))?;
        // Taking the trees of documents apart node by node would only cost time.
        std::mem::forget(old);
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

    fn ground(&self) -> Result<Ground, Failure> {
        let store = Store::open(self.checkout.repository, &self.checkout.location.site)?;
        follow(self.context, &store, self.connection)?;
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

    fn snapshot(&self) -> Result<Snapshot, Failure> {
        let Some(path) = &self.arguments.observed else {
            return Ok(None);
        };
        if path.as_os_str() == "none" {
            return Ok(Some(None));
        }
        let path = self.context.directory().join(path);
        let unreadable = |error: &dyn std::error::Error| {
            Failure::error(format!(
                "the snapshot `{}` could not be read: {}",
                path.display(),
                chain(error)
            ))
        };
        let bytes = read_file(&path, observed::LARGEST as u64, Links::Followed);
        let bytes = bytes.map_err(|error| unreadable(&error))?;
        let seen = observed::read(&bytes).map_err(|error| unreadable(&error))?;
        Ok(Some(Some(seen)))
    }

    /// The commit that is checked out, and where the worktree is planned the site's files in it.
    fn head(&self, location: &Location) -> Result<Option<Head>, Failure> {
        let repository = self.checkout.repository;
        let Some(commit) = repository.head()? else {
            return Ok(None);
        };
        let files = match self.at {
            At::Worktree => Some(repository.tree_at(commit, &location.selection)?),
            At::Commit(_) => None,
        };
        Ok(Some(Head { commit, files }))
    }

    /// Explains the machines that the design has otherwise than their records, and loads the sites that these name.
    fn explained(
        &self,
        opened: &mut Opened<'a>,
        site: &mut Site,
        records: &BTreeMap<NodeName, NodeRecord>,
    ) -> Result<BTreeMap<Arc<str>, Site>, Failure> {
        let design = site.design.clone();
        let differing: Vec<&NodeRecord> = differing(records, &design).collect();
        let names = differing.iter().map(|record| &record.node).collect();
        opened.loader.explain(site, &names)?;
        let revisions: BTreeSet<&Arc<str>> = differing
            .iter()
            .filter_map(|record| record.revision.as_ref())
            .collect();
        let mut sites = BTreeMap::new();
        for revision in revisions {
            let commit = recorded(self.checkout, self.connection, revision)?;
            let location = self.checkout.location_at(At::Commit(commit))?;
            let old = opened
                .loader
                .load_beside(site, &location, commit, AS_APPLIED)?;
            sites.insert(revision.clone(), old);
        }
        Ok(sites)
    }

    /// The design at a revision; where that is an older one, what HEAD forbids is forbidden too.
    fn strictest(
        &self,
        opened: &mut Opened<'a>,
        site: &Site,
        head: Option<&Head>,
    ) -> Result<Arc<Design>, Failure> {
        // Guards that the operator takes from elsewhere are the same at every revision.
        let is_asked =
            self.request.action.has_target_revision() && site.design.guards_from.is_none();
        let head = head.map(|head| head.commit).filter(|_| is_asked);
        let Some(head) = head.filter(|head| commit_of(self.at) != Some(*head)) else {
            return Ok(site.design.clone());
        };
        let at = At::Commit(head);
        let location = self.checkout.location_at(at)?;
        let newest = opened.loader.load(&location, at, AS_APPLIED)?;
        Ok(Arc::new(plan::strictest(&site.design, &newest.design)))
    }

    /// What is planned; where the worktree is, that is the commit that is checked out where nothing differs.
    fn target(&self, site: &Site, head: Option<&Head>) -> Target {
        let (revision, dirty): (Option<CommitId>, Vec<Arc<str>>) = match (self.at, head) {
            (At::Commit(commit), _) => (Some(commit), Vec::new()),
            (
                At::Worktree,
                Some(Head {
                    commit,
                    files: Some(committed),
                }),
            ) => {
                let files = site.files.iter();
                let files = files.map(|file| (&file.path, file.mode, file.blob));
                let differing = self.checkout.repository.differing(committed, files);
                let dirty: Vec<_> = differing.into_iter().map(|file| file.path).collect();
                (Some(*commit).filter(|_| dirty.is_empty()), dirty)
            }
            (At::Worktree, _) => {
                let paths = site.files.iter().map(|file| file.path.clone());
                (None, paths.collect())
            }
        };
        Target {
            revision: revision.map(|commit| Arc::from(commit.to_string())),
            site_digest: site.digest.clone(),
            dirty,
        }
    }

    /// What the plan goes by.
    fn look(&self) -> Look {
        if self.arguments.without_forecast {
            return Look {
                etcd: true,
                ..Look::default()
            };
        }
        let action = self.request.action;
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
}

/// How a revision is read that was checked when it was applied.
pub(in crate::cli) const AS_APPLIED: Settings = Settings {
    depth: Depth::Typed,
    detail: Detail::Designs,
    allow_missing_sources: true,
};

/// The commit that is checked out.
struct Head {
    commit: CommitId,
    /// The site's files in it, where they are compared.
    files: Option<Tree>,
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
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

pub(in crate::cli) fn commit_of(at: At) -> Option<CommitId> {
    match at {
        At::Worktree => None,
        At::Commit(commit) => Some(commit),
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
