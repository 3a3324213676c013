//! From a checkout to a plan.
//!
//! [`Planner::plan`] is the whole pipeline: the records and the site are read at the same time, the machines that differ
//! from their records are explained, backends are observed (or a snapshot is read), and
//! [`plan::make`] makes the plan of all that, once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::approvals::{Approving, Gate, SigningRules};
use super::backends::{allow_applied, choose, identities, runtime};
use super::checking::checked_as_made;
use super::client::driven;
use super::compared::{Designs, share_digests, subjects};
use super::former::{AMONG_MANY, former_sites};
use super::guarded::GuardScope;
use super::outlook::{Outlook, expected_of};
use super::renewed::renewed;
use super::reservations::ReservationRef;
use super::warnings::{new_simulation, warnings};
use super::{Checkout, Client, Failure, FailureKind, follow, records, refuse_errors};
use crate::apply;
use crate::backend::{Backends, Look, Rights};
use crate::check::World;
use crate::design::{Digests, NodeDesign, NodeName, Policy};
use crate::diagnostic::chain;
use crate::diff::{NodeReasons, Revision};
use crate::guard::Guarded;
use crate::observed::{self, Observations};
use crate::plan::{
    self, Action, Base, ClusterSteps, CommitHistory, FormerSite, GuardBasis, IntermediateCommit,
    Lineage, Options, Plan, Renames, Request, Target, Unblocking,
};
use crate::record::{NodeRecord, SiteState, State};
use crate::repository::{CommitId, Links, open_file};
use crate::reservation::Reservations;
use crate::run::{self, Connection, Durations, History, intermediate_commits, since_success};
use crate::site::{Accept, At, Depth, Detail, Loader, Location, Settings, Site};
use crate::step::StepId;
use crate::telemetry::{Phase, Scope, in_phase};
use crate::threads::joined;

/// Where what is known of machines and clusters comes from.
#[derive(Clone, Debug, Default)]
pub enum Observed {
    /// They are asked.
    #[default]
    Now,
    /// A snapshot file.
    File(PathBuf),
    /// Nowhere: the plan is made on records alone.
    Nothing,
}

/// The settings of a plan.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The options.
    pub options: Options,
    /// Where `options` are those of a request that was saved: what is allowed now, of which the request takes what it
    /// asks for.
    pub allowed: Option<Options>,
    /// Where what is known of machines comes from.
    pub observed: Observed,
    /// The defects of documents that are accepted.
    pub accept: Accept,
    /// No pods are observed, nor rights: nothing is forecast.
    pub without_forecast: bool,
    /// The records are those of the last checkpoint: what a run that has not ended did since is left out.
    pub by_checkpoints: bool,
    /// Nothing is to be done: records that are not signed as the site demands are reported, and no refusal.
    pub only_looks: bool,
    /// Times of drains were given, which may contradict each other or the documents.
    pub gives_times: bool,
    /// A node of whose blocked change the flags are wanted that it needs.
    pub unblock: Option<NodeName>,
    /// The machines that a run takes out of service with whose plan this one is compared: each has its own place in that run.
    pub resumes: BTreeSet<NodeName>,
    /// The reservations of a plan that is made again; `None`: those that hold now.
    pub reservations: Option<Reservations>,
}

impl PlanRequest {
    /// The options of the plan under the policy of its site, as of the day there at a time, if no other day was given.
    fn options(&self, policy: &Policy, seconds: i64) -> Options {
        let mut options = match &self.allowed {
            None => self.options.clone(),
            Some(given) => self.options.allowed_by(given, policy),
        };
        if !options.as_of_given {
            options.as_of = policy.time_zone.day(seconds);
        }
        options
    }
}

/// A plan, and what it was made from.
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The site that it reaches, with the guards of its own documents.
    pub(super) site: Site,
    /// The design that it reaches, and the guards that hold.
    pub guarded: Guarded,
    /// The state of the site.
    pub state: SiteState,
    /// The record of each node.
    pub records: BTreeMap<NodeName, NodeRecord>,
    /// The machines that persons work on.
    pub reservations: Reservations,
    /// The observed state, if it was observed.
    pub observations: Option<Observations>,
    /// The designs of the nodes as they were applied last, of those that have left the design or
    /// differ from it.
    pub applied: BTreeMap<NodeName, Arc<NodeDesign>>,
    /// The runtime of the backends.
    pub runtime: tokio::runtime::Runtime,
    /// The observed backends.
    pub hardware: Option<Arc<Backends>>,
    /// The rules about approvals that it is held to.
    pub gate: Gate,
    /// The digests by the rules of now of records of earlier ones.
    pub(super) renewed: BTreeMap<NodeName, Digests>,
    /// The flags that the blocked change needs of the node for which that was asked.
    pub unblocking: Option<Unblocking>,
    /// The last parts of the plan, if it is to have a forecast.
    outlook: Option<Outlook>,
    /// The revisions that nodes were applied at which differ from the design.
    old: BTreeMap<Arc<str>, Site>,
}

impl Planned {
    /// Simulates the run of the plan so many times, in each of which some steps go wrong, and adds what it came to.
    ///
    /// # Errors
    ///
    /// The steps are no graph that can be run.
    pub fn rehearse(&mut self, first_seed: u64, runs: usize) -> Result<(), Failure> {
        let Some(outlook) = self.outlook.as_ref().filter(|_| !self.plan.is_empty()) else {
            return Ok(());
        };
        let expected = expected_of(&self.plan, &outlook.guarded, &outlook.durations);
        let rehearsal = apply::rehearse(&self.plan, &expected, first_seed, runs);
        let rehearsal = rehearsal.map_err(|error| Failure::error(error.to_string()))?;
        self.plan.rehearsal = Some(rehearsal);
        Ok(())
    }

    /// The steps that go wrong by themselves in the rehearsed run of a seed, each with whether it hangs.
    ///
    /// # Errors
    ///
    /// The steps are no graph that can be run.
    pub fn failing_steps(&self, seed: u64) -> Result<Vec<(StepId, bool)>, Failure> {
        let Some(outlook) = self.outlook.as_ref().filter(|_| !self.plan.is_empty()) else {
            return Ok(Vec::new());
        };
        let expected = expected_of(&self.plan, &outlook.guarded, &outlook.durations);
        let failing = apply::failing_in(&self.plan, &expected, seed);
        let failing = failing.map_err(|error| Failure::error(error.to_string()))?;
        let steps = failing
            .into_iter()
            .map(|(index, hangs)| (self.plan.steps[index].id.clone(), hangs));
        Ok(steps.collect())
    }

    /// The plan alone, for a process that ends soon: taking everything else apart piece by piece would only cost time.
    pub fn into_plan(self) -> Plan {
        let Self {
            plan,
            site,
            guarded,
            records,
            observations,
            applied,
            hardware,
            old,
            ..
        } = self;
        std::mem::forget((site, guarded, records, observations, applied, hardware, old));
        plan
    }
}

/// The base of a plan: the records.
struct RecordedSite {
    state: State,
    durations: Durations,
    records: BTreeMap<NodeName, NodeRecord>,
    /// The records of nodes that a process may have begun to change without a word here: they hold if their machines show it.
    possible: BTreeMap<NodeName, NodeRecord>,
    reservations: Reservations,
    /// The machines without a record that a former site has as deployed; known once the documents are.
    former: BTreeMap<NodeName, FormerSite>,
}

/// All that a plan is made of.
struct Basis<'p> {
    site: &'p Site,
    guarded: &'p Guarded,
    recorded: &'p RecordedSite,
    head: Option<&'p Head>,
    designs: &'p Designs,
    observations: Option<&'p Observations>,
    gate: &'p Gate,
    guards: &'p GuardBasis,
    renames: &'p Renames,
}

/// A snapshot; `Some(None)`: nothing is to be observed.
type Snapshot = Option<Option<Observations>>;

/// A plan that is to be made.
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    /// The caller.
    pub client: &'a dyn Client,
    /// The site.
    pub checkout: &'a Checkout<'a>,
    /// Its documents.
    pub at: At,
    /// How it is shared.
    pub connection: &'a Connection<'a>,
    /// The request.
    pub request: &'a Request,
    /// The settings.
    pub plan_request: &'a PlanRequest,
}

impl<'a> Planner<'a> {
    /// Makes the plan.
    ///
    /// # Errors
    ///
    /// The documents are wrong, what is asked for cannot be planned, or something cannot be read.
    pub fn plan(&self) -> Result<Planned, Failure> {
        self.plan_from(|| self.snapshot())
    }

    /// Makes another plan of what was observed for one before.
    ///
    /// # Errors
    ///
    /// As [`Planner::plan`].
    pub fn plan_again(&self, observations: Option<Observations>) -> Result<Planned, Failure> {
        self.plan_from(|| Ok(Some(observations)))
    }

    fn plan_from(
        &self,
        snapshot: impl FnOnce() -> Result<Snapshot, Failure> + Send,
    ) -> Result<Planned, Failure> {
        let location = self.checkout.location_at(self.at)?;
        let mut loader = self.checkout.loader()?;
        let (recorded, snapshot, head, site) = std::thread::scope(|scope| {
            let recorded = scope.spawn(|| self.recorded());
            // The documents take longer: what is read beside them leaves them their threads.
            let beside = scope.spawn(|| (snapshot(), self.head(&location)));
            let settings = Settings {
                depth: Depth::Checked,
                detail: Detail::Designs,
                accept: self.plan_request.accept,
            };
            let site = loader.load(&location, self.at, settings);
            let (snapshot, head) = joined(beside);
            (joined(recorded), snapshot, head, site)
        });
        let (mut recorded, head) = (recorded?, head?);
        let site = refuse_errors(self.client, &loader, Depth::Checked, site?)?;
        recorded.former = self.former_sites(&site, &recorded.records, usize::MAX)?;
        let mut planned = self.plan_loaded(&mut loader, site, recorded, head, snapshot?)?;
        if let Some(outlook) = planned.outlook.take() {
            outlook.add_to(&mut planned.plan)?;
            planned.outlook = Some(outlook);
        }
        Ok(planned)
    }

    /// Makes the plan of a site without errors that was loaded among others; the loader has listed what is checked out. Its
    /// outlook is left to be added.
    ///
    /// # Errors
    ///
    /// As [`Planner::plan`].
    pub fn plan_of(
        &self,
        loader: &mut Loader<'_>,
        site: Site,
    ) -> Result<(Plan, Option<Outlook>), Failure> {
        let head = self.checkout.head_if_any()?;
        let head = head.map(|commit| {
            let digest = match self.at {
                At::Worktree => Some(loader.tree(&site.location, At::Commit(commit))?.digest()),
                At::Commit(_) => None,
            };
            Ok::<_, Failure>(Head { commit, digest })
        });
        let (mut recorded, snapshot) = (self.recorded()?, self.snapshot()?);
        recorded.former = self.former_sites(&site, &recorded.records, AMONG_MANY)?;
        let planned = self.plan_loaded(loader, site, recorded, head.transpose()?, snapshot)?;
        Ok((planned.plan, planned.outlook))
    }

    fn plan_loaded(
        &self,
        loader: &mut Loader<'_>,
        mut site: Site,
        mut recorded: RecordedSite,
        head: Option<Head>,
        snapshot: Snapshot,
    ) -> Result<Planned, Failure> {
        share_digests(&mut recorded.records, &site.design);
        let backends = self.client.backends(self.checkout, &site.location)?;
        self.trusted(&recorded.state)?;
        let place = (self.checkout, self.connection);
        let mut designs = Designs::load(place, loader, &mut site, &recorded.records)?;
        let scope = GuardScope {
            checkout: self.checkout,
            connection: self.connection,
            request: self.request,
            state: &recorded.state.site,
            records: &recorded.records,
        };
        let resolved = scope.resolve(loader, &site)?;
        let guarded = resolved.guarded;
        designs.add_left(self.checkout, (&site, &guarded), &recorded.records)?;
        let renames = Renames::of(&guarded, &recorded.records, &designs.before);
        let known = identities(&recorded.records);
        // A machine that has another name now is to be the one that the record of its old name knows.
        let known = known.map(|(name, identity)| (renames.now_or_same(name), identity));
        backends.identities.record(known);
        let hardware = match &snapshot {
            None => Some(choose(loader, (&site, &guarded), &backends)?),
            Some(_) => None,
        };
        allow_applied(&backends, &guarded, &recorded.records, &designs.applied);
        let runtime = runtime(guarded.guards())?;
        let observations = match (&hardware, snapshot) {
            // It is not about what any machine is.
            (Some(_), _) if self.request.action == Action::Guards => None,
            (Some(hardware), _) => {
                let told = new_simulation(&backends, guarded.guards(), &recorded.records);
                told.iter().for_each(|warning| self.client.tell(warning));
                let nodes = subjects(&guarded, &designs.applied, &renames);
                let named = plan::named(&guarded, &recorded.records, self.request);
                Some(self.observe(&runtime, hardware, &nodes, named.as_ref()))
            }
            (None, snapshot) => snapshot.flatten(),
        };
        let possible = std::mem::take(&mut recorded.possible);
        plan::take_begun_elsewhere(&mut recorded.records, possible, observations.as_ref());
        let (plan, unblocking) = self.make(
            loader,
            &Basis {
                site: &site,
                guarded: &guarded,
                recorded: &recorded,
                head: head.as_ref(),
                designs: &designs,
                observations: observations.as_ref(),
                gate: &resolved.gate,
                guards: &resolved.basis,
                renames: &renames,
            },
        )?;
        let outlook = match self.plan_request.without_forecast {
            true => None,
            false => Some(Outlook {
                guarded: guarded.clone(),
                durations: recorded.durations,
                rules: resolved.rules,
            }),
        };
        let renewed = renewed(&recorded.records, |revision| {
            designs.before.get(revision).map(|site| &*site.design)
        });
        Ok(Planned {
            plan,
            site,
            guarded,
            renewed,
            state: recorded.state.site,
            records: recorded.records,
            reservations: recorded.reservations,
            observations,
            applied: designs.applied,
            runtime,
            hardware,
            gate: resolved.gate,
            unblocking,
            outlook,
            old: designs.old,
        })
    }

    /// Observes machines and clusters; `named`: those whose pods are wanted.
    fn observe(
        &self,
        runtime: &tokio::runtime::Runtime,
        hardware: &Backends,
        nodes: &[Arc<NodeDesign>],
        named: Option<&BTreeSet<NodeName>>,
    ) -> Observations {
        let observed = observe_nodes(hardware, nodes, self.look(), named);
        let _observing = Scope::phase(Phase::Observe);
        driven(self.client, runtime, observed)
    }

    /// Makes the plan, with the approvals that it needs and has, and what a blocked change needs for which that is asked.
    fn make(
        &self,
        loader: &Loader<'_>,
        basis: &Basis<'_>,
    ) -> Result<(Plan, Option<Unblocking>), Failure> {
        let Basis {
            site,
            guarded,
            recorded,
            head,
            designs,
            observations,
            gate,
            guards,
            renames,
        } = *basis;
        let state = &recorded.state.site;
        if !self.plan_request.only_looks {
            let of = (self.request.action, commit_of(self.at));
            let place = (self.checkout, self.connection);
            let told = warnings(place, &recorded.state, guarded, of)?;
            told.iter().for_each(|warning| self.client.tell(warning));
        }
        let (intermediate_commits, history) = self.history(state, head)?;
        let revisions: Vec<Revision<'_>> = designs
            .old
            .values()
            .map(|site| Revision {
                rendering: &site.rendering,
                design: &site.design,
            })
            .collect();
        let now = Revision {
            rendering: &site.rendering,
            design: guarded,
        };
        let reasons = NodeReasons::new(loader.sources(), &revisions, now);
        let input = plan::Input {
            request: self.request.clone(),
            target: self.target(site, head)?,
            after: guarded,
            designs: &designs.before,
            base: base(state),
            records: &recorded.records,
            reservations: &recorded.reservations,
            former: &recorded.former,
            renames,
            observations,
            options: self
                .plan_request
                .options(&guarded.guards().policy, self.client.clock().seconds()),
            intermediate_commits,
            history,
            signers_changed: gate.signers_changed,
            guards,
            reasons: &reasons,
            resumes: &self.plan_request.resumes,
        };
        let plan = in_phase(Phase::Plan, || plan::make(&input));
        let mut plan = plan.map_err(|error| self.refused(&error, guards))?;
        plan.approvals = gate.approvals(self.approving(), &plan)?;
        let world = World {
            applied: &designs.before,
            records: &recorded.records,
            reservations: &recorded.reservations,
            observations,
            resumes: &self.plan_request.resumes,
        };
        checked_as_made(&mut plan, guarded, world)?;
        let unblocking = match &self.plan_request.unblock {
            Some(node) => plan::unblocking(&input, &plan, node)
                .map_err(|error| self.refused(&error, guards))?,
            None => None,
        };
        Ok((plan, unblocking))
    }

    /// Checks that the records may be planned from.
    fn trusted(&self, state: &State) -> Result<(), Failure> {
        let location = &self.checkout.location;
        let rules = SigningRules::for_records(self.checkout, self.connection, &state.site)?;
        let refusal = rules.refusal(self.checkout.repository, &location.site, state.tip)?;
        let Some(why) = refusal else { return Ok(()) };
        let error = run::Error::Untrusted {
            site: location.site.clone(),
            why,
        };
        if self.plan_request.only_looks {
            self.client.tell(&format!("warning: {error}"));
            return Ok(());
        }
        Err(Failure::from(error))
    }

    /// Where its approvals are.
    fn approving(&self) -> Approving<'_> {
        Approving {
            client: self.client,
            repository: self.checkout.repository,
            site: &self.checkout.location.site,
            connection: self.connection,
        }
    }

    /// The commits between the last site action and what is planned, and those since the last success.
    fn history(
        &self,
        state: &SiteState,
        head: Option<&Head>,
    ) -> Result<(Vec<IntermediateCommit>, CommitHistory), Failure> {
        let Some(commit) = commit_of(self.at).or(head.map(|head| head.commit)) else {
            return Ok(Default::default());
        };
        records::deepen(self.connection, state, commit)?;
        if self.request.action.is_targeted() {
            return Ok(Default::default());
        }
        let Checkout {
            repository,
            location,
            ..
        } = self.checkout;
        let (site, selection) = (&location.site, &location.selection);
        let history = intermediate_commits(repository, site, selection, state, commit)?;
        let (lineage, commits) = match history {
            History::None => (Lineage::Follows, Vec::new()),
            History::Between(commits) => (Lineage::IntermediateCommits, commits),
            History::Rollback(undone) => (Lineage::Rollback, undone),
            History::Diverged { .. } => (Lineage::Diverged, Vec::new()),
            History::Gone { base } => {
                self.client.tell(&format!(
                    "warning: the last applied commit {} is neither here nor at the remote: it was never pushed, or the \
                     history was rewritten; what it said of the nodes is in their records, and the guards of the documents hold \
                     alone",
                    base.short()
                ));
                (Lineage::Diverged, Vec::new())
            }
        };
        let history = CommitHistory {
            lineage,
            since_base: since_success(repository, site, selection, state, commit)?,
            unpublished: repository.upstream_without(commit)?.map(Arc::from),
        };
        Ok((commits, history))
    }

    fn recorded(&self) -> Result<RecordedSite, Failure> {
        let store = follow(self.client, self.checkout, self.connection)?;
        let began = Instant::now();
        let state = store.read()?;
        let mut records = store.nodes(&state)?;
        let possible = match self.plan_request.by_checkpoints {
            true => BTreeMap::new(),
            false => {
                let (place, known) = ((self.checkout, self.connection), (&store, &state));
                records::bring_up_to_date(self.client, place, known, &mut records)?
            }
        };
        log::info!(
            "records of {} nodes, in {:.1?}",
            records.len(),
            began.elapsed()
        );
        let durations = match self.plan_request.without_forecast {
            true => Durations::default(),
            false => Durations::read(&store, &state)?,
        };
        Ok(RecordedSite {
            state,
            durations,
            records,
            possible,
            reservations: self.reservations()?,
            former: BTreeMap::new(),
        })
    }

    /// The machines without a record that a former site has as deployed.
    fn former_sites(
        &self,
        site: &Site,
        records: &BTreeMap<NodeName, NodeRecord>,
        most: usize,
    ) -> Result<BTreeMap<NodeName, FormerSite>, Failure> {
        let place = (self.checkout.repository, &self.checkout.location.site);
        let names = site.design.nodes.keys();
        former_sites(
            place,
            names.filter(|name| !records.contains_key(*name)),
            most,
        )
    }

    /// The machines that persons work on. Without them nothing is planned, so that no machine is taken for free.
    fn reservations(&self) -> Result<Reservations, Failure> {
        if let Some(known) = &self.plan_request.reservations {
            return Ok(known.clone());
        }
        let state_ref = ReservationRef {
            repository: self.checkout.repository,
            connection: self.connection,
            site: &self.checkout.location.site,
        };
        match state_ref.holding_at(self.client.clock().seconds()) {
            Err(failure) if self.plan_request.only_looks => {
                self.client.tell(&format!("warning: {}", failure.message));
                Ok(Reservations::default())
            }
            known => known,
        }
    }

    fn snapshot(&self) -> Result<Snapshot, Failure> {
        let path = match &self.plan_request.observed {
            Observed::Now => return Ok(None),
            Observed::Nothing => return Ok(Some(None)),
            Observed::File(path) => path,
        };
        let unreadable = |error: &dyn std::error::Error| {
            Failure::error(format!(
                "cannot read the snapshot `{}`: {}",
                path.display(),
                chain(error)
            ))
        };
        let opened = open_file(path, observed::LARGEST, Links::Followed);
        let (file, _) = opened.map_err(|error| unreadable(&error))?;
        let observations = observed::read(file).map_err(|error| unreadable(&error))?;
        Ok(Some(Some(observations)))
    }

    /// The commit that is checked out, and where the worktree is planned the digest of the site's files in it.
    fn head(&self, location: &Location) -> Result<Option<Head>, Failure> {
        let Some(commit) = self.checkout.head_if_any()? else {
            return Ok(None);
        };
        let repository = self.checkout.repository;
        let digest = match self.at {
            At::Worktree => Some(repository.digest_at(commit, &location.selection)?),
            At::Commit(_) => None,
        };
        Ok(Some(Head { commit, digest }))
    }

    /// The target of the plan; if it is the worktree, that is the commit that is checked out if nothing differs.
    fn target(&self, site: &Site, head: Option<&Head>) -> Result<Target, Failure> {
        let files = site.files.iter();
        let (revision, dirty): (Option<CommitId>, Vec<Arc<str>>) = match (self.at, head) {
            (At::Commit(commit), _) => (Some(commit), Vec::new()),
            (At::Worktree, Some(head)) if head.digest.as_ref() == Some(&site.digest) => {
                (Some(head.commit), Vec::new())
            }
            (At::Worktree, Some(head)) => {
                let files = files.map(|file| (&file.path, file.mode, file.blob));
                let selection = &site.location.selection;
                let repository = self.checkout.repository;
                let differing = repository.differing(head.commit, selection, files)?;
                let dirty: Vec<_> = differing.into_iter().map(|file| file.path).collect();
                (Some(head.commit).filter(|_| dirty.is_empty()), dirty)
            }
            (At::Worktree, None) => (None, files.map(|file| file.path.clone()).collect()),
        };
        Ok(Target {
            revision: revision.map(|commit| Arc::from(commit.to_string())),
            site_digest: site.digest.clone(),
            dirty,
            repositories: site
                .location
                .selection
                .elsewhere()
                .iter()
                .map(|other| (other.name.clone(), Arc::from(other.commit.to_string())))
                .collect(),
        })
    }

    /// Why no plan was made: wrong usage, or nodes and documents that are not as they should be.
    fn refused(&self, error: &plan::Error, guards: &GuardBasis) -> Failure {
        let kind = match error {
            plan::Error::Word(error) | plan::Error::Flag { error, .. } => Failure::from(error).kind,
            plan::Error::NotInCluster { .. } | plan::Error::NoEtcd => FailureKind::NotFound,
            plan::Error::GracePeriod { .. } if self.plan_request.gives_times => FailureKind::Usage,
            plan::Error::NoNodes { .. } | plan::Error::Field { .. } => FailureKind::Usage,
            plan::Error::Forbidden { .. } => FailureKind::Guard,
            plan::Error::GracePeriod { .. }
            | plan::Error::RemediationUnseen { .. }
            | plan::Error::GroupCycle { .. }
            | plan::Error::UnknownGroup { .. }
            | plan::Error::RepeatedGroup { .. } => FailureKind::Error,
        };
        let failure = Failure::new(kind, error.to_string());
        let is_forbidden = matches!(error, plan::Error::Forbidden { .. });
        let way_out = || guards.way_out(&["forbidden_flags"]);
        failure.hint_if(is_forbidden.then(way_out).flatten())
    }

    /// The parts of the cluster to observe.
    fn look(&self) -> Look {
        if self.plan_request.without_forecast {
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

/// The state that the last success has reached.
fn base(state: &SiteState) -> Option<Base> {
    let action = state.last_success.clone()?;
    Some(Base {
        run: action.run,
        revision: action.revision,
        site_digest: action.site_digest,
    })
}

/// The commit that is checked out.
struct Head {
    commit: CommitId,
    /// The digest of the site's files in it, if they are compared.
    digest: Option<Arc<str>>,
}

/// The commit of a revision; `None` for the worktree.
#[must_use]
pub fn commit_of(at: At) -> Option<CommitId> {
    match at {
        At::Worktree => None,
        At::Commit(commit) => Some(commit),
    }
}

/// Asks backends for what a plan goes by; `pods_of`: the nodes whose pods are wanted, if those are not all.
async fn observe_nodes(
    backends: &Backends,
    nodes: &[Arc<NodeDesign>],
    look: Look,
    pods_of: Option<&BTreeSet<NodeName>>,
) -> Observations {
    let began = Instant::now();
    let seen = backends.see(nodes, look, pods_of).await;
    log::info!(
        "observed {} machines in {:.1?}",
        nodes.len(),
        began.elapsed()
    );
    seen
}
