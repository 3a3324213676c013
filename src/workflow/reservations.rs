//! Reserves machines for persons, and releases them: a ref that all callers share, which planning and the begin of a run read.
//!
//! A reservation is written first, and then asks for the run at work; a run takes its lock first, and then asks for the
//! reservations. So whichever of both comes second knows the other, and no machine is worked on by both.

use std::collections::BTreeSet;

use super::shared_file::SharedFile;
use super::{Checkout, Client, Failure, FailureKind, follow};
use crate::design::{NodeName, SiteName};
use crate::plan::{Plan, RunState, UnfinishedRun, saved};
use crate::record::RunFile;
use crate::repository::{CommitId, Repository};
use crate::reservation::{MOST_BYTES, Reservation, Reservations};
use crate::run::{self, Connection, SiteRepository};

/// The file in the tree of the ref.
const FILE: &str = "reservations.json";
/// How often they are written anew if another caller has moved the ref.
const TRIES: usize = 20;

/// The ref of the reservations of a site.
#[derive(Clone, Copy)]
pub struct ReservationRef<'a> {
    /// The repository.
    pub repository: &'a Repository,
    /// How it is shared.
    pub connection: &'a Connection<'a>,
    /// The site.
    pub site: &'a SiteName,
}

/// Reservations, as they were at an instant.
struct ReadReservations {
    seen: Option<CommitId>,
    reservations: Reservations,
}

impl<'a> ReservationRef<'a> {
    /// That of a site in its repository.
    #[must_use]
    pub fn of(site: &'a SiteRepository<'a>) -> Self {
        Self {
            repository: site.repository,
            connection: &site.connection,
            site: &site.name,
        }
    }

    fn file(&self) -> SharedFile<'_> {
        SharedFile {
            repository: self.repository,
            connection: self.connection,
            below: format!("{}/reservations", self.site),
            file: FILE,
            most_bytes: MOST_BYTES,
            what: "reservations are",
        }
    }

    fn read(&self) -> Result<ReadReservations, Failure> {
        let file = self.file();
        let Some(read) = file.read()? else {
            return Ok(ReadReservations {
                seen: None,
                reservations: Reservations::default(),
            });
        };
        let unusable = |message: &str| {
            file.unusable(message)
                .hint("until then no machine of the site counts as free, and nothing is planned")
        };
        let Some(bytes) = read.bytes else {
            let message = format!(
                "the ref of the reservations of site `{}` has no file `{FILE}`",
                self.site
            );
            return Err(unusable(&message));
        };
        let reservations = Reservations::read(self.site, &bytes);
        Ok(ReadReservations {
            seen: Some(read.seen),
            reservations: reservations.map_err(|error| unusable(&error.to_string()))?,
        })
    }

    /// The reservations that hold at a time.
    ///
    /// # Errors
    ///
    /// The remote cannot be asked, or what is there is no file of this site: then no machine may be taken for free.
    pub fn holding_at(&self, now: i64) -> Result<Reservations, Failure> {
        Ok(self.read()?.reservations.holding_at(now))
    }

    /// Writes reservations of another clone into one without any.
    ///
    /// # Errors
    ///
    /// The repository cannot be written.
    pub fn take_over(
        &self,
        client: &dyn Client,
        reservations: &Reservations,
    ) -> Result<(), Failure> {
        self.change(client, |own| {
            own.clone_from(reservations);
            let is_any = !own.nodes.is_empty();
            Ok(is_any.then(|| "reserve what is reserved elsewhere".to_owned()))
        })
    }

    /// Changes the reservations by compare-and-swap; `change` gives the message of the commit, or none if nothing changes.
    fn change(
        &self,
        client: &dyn Client,
        mut change: impl FnMut(&mut Reservations) -> Result<Option<String>, Failure>,
    ) -> Result<(), Failure> {
        let actor = client.actor(self.repository)?;
        for _ in 0..TRIES {
            let now = client.clock().seconds();
            let ReadReservations { seen, reservations } = self.read()?;
            let mut reservations = reservations.holding_at(now);
            let Some(message) = change(&mut reservations)? else {
                return Ok(());
            };
            let bytes = reservations.write(self.site);
            let bytes = bytes.map_err(|error| Failure::error(error.to_string()))?;
            let author = actor.at(now);
            if self.file().replace(seen, bytes, author, message)?.is_some() {
                return Ok(());
            }
        }
        let message = format!(
            "the reservations of site `{}` are changed by others all the time",
            self.site
        );
        Err(Failure::error(message).hint("try again"))
    }
}

/// The reservations of a site that hold at a time, as this clone knows them: like its records, without a question to the remote.
///
/// # Errors
///
/// They cannot be read.
pub fn known_reservations(checkout: &Checkout<'_>, now: i64) -> Result<Reservations, Failure> {
    let connection = match checkout.repository.remotes()?.is_empty() {
        false => Connection::Offline,
        true => Connection::Alone,
    };
    let state_ref = ReservationRef {
        repository: checkout.repository,
        connection: &connection,
        site: &checkout.location.site,
    };
    state_ref.holding_at(now)
}

/// The names of nodes, as a sentence has them.
fn listed<'n>(nodes: impl Iterator<Item = &'n NodeName>) -> String {
    let names = nodes.map(|node| format!("`{node}`"));
    names.collect::<Vec<_>>().join(", ")
}

/// The place of a site: its checkout, and how it is shared.
#[derive(Clone, Copy)]
pub struct ReservationSite<'a> {
    /// The caller.
    pub client: &'a dyn Client,
    /// The site.
    pub checkout: &'a Checkout<'a>,
    /// How it is shared.
    pub connection: &'a Connection<'a>,
}

impl<'a> ReservationSite<'a> {
    /// The ref of its reservations.
    #[must_use]
    pub fn state_ref(&self) -> ReservationRef<'a> {
        ReservationRef {
            repository: self.checkout.repository,
            connection: self.connection,
            site: &self.checkout.location.site,
        }
    }

    /// Reserves nodes until a time, all or none.
    ///
    /// # Errors
    ///
    /// A run works on one of them; one is reserved by another person; the remote or the records cannot be asked or written.
    pub fn reserve(
        &self,
        nodes: &BTreeSet<NodeName>,
        (until, reason): (i64, &str),
    ) -> Result<Reservation, Failure> {
        let actor = self.client.actor(self.checkout.repository)?;
        let now = self.client.clock().seconds();
        let own = Reservation::new((&actor.name, &actor.email), (now, until), reason);
        self.refuse_at_work(nodes)?;
        let state_ref = self.state_ref();
        let mut before = Reservations::default();
        state_ref.change(self.client, |reservations| {
            before.clone_from(reservations);
            for node in nodes {
                if let Some(other) = reservations.of(node.as_str())
                    && !other.is_of_same_person(&own)
                {
                    let message = format!("`{node}` is {other}");
                    let hint = format!("`trueup release {node}` ends that, and names who it was");
                    return Err(Failure::new(FailureKind::Locked, message).hint(hint));
                }
                reservations.nodes.insert(node.clone(), own.clone());
            }
            let names = listed(nodes.iter());
            Ok(Some(format!("reserve {names}: {}", own.reason)))
        })?;
        // A run may have begun since: it asks for reservations behind its lock.
        if let Err(failure) = self.refuse_at_work(nodes) {
            self.take_back(nodes, &own, &before)?;
            return Err(failure);
        }
        Ok(own)
    }

    /// Takes a reservation back that met a run: what was reserved before stays so.
    fn take_back(
        &self,
        nodes: &BTreeSet<NodeName>,
        own: &Reservation,
        before: &Reservations,
    ) -> Result<(), Failure> {
        self.state_ref().change(self.client, |reservations| {
            for node in nodes {
                if reservations.of(node.as_str()) != Some(own) {
                    continue;
                }
                match before.of(node.as_str()) {
                    Some(before) => reservations.nodes.insert(node.clone(), before.clone()),
                    None => reservations.nodes.remove(node),
                };
            }
            let names = listed(nodes.iter());
            Ok(Some(format!("take back {names}: a run works on it")))
        })
    }

    /// Releases nodes, by whomever they are reserved; each with its reservation, if it had one.
    ///
    /// # Errors
    ///
    /// The remote cannot be asked, or refuses the ref.
    pub fn release(
        &self,
        nodes: &BTreeSet<NodeName>,
    ) -> Result<Vec<(NodeName, Option<Reservation>)>, Failure> {
        let mut released = Vec::new();
        self.state_ref().change(self.client, |reservations| {
            released = nodes
                .iter()
                .map(|node| (node.clone(), reservations.nodes.remove(node)))
                .collect();
            let had = released.iter().filter(|(_, before)| before.is_some());
            let names = listed(had.map(|(node, _)| node));
            Ok((!names.is_empty()).then(|| format!("release {names}")))
        })?;
        Ok(released)
    }

    /// Refuses nodes that a run has which has not ended.
    fn refuse_at_work(&self, nodes: &BTreeSet<NodeName>) -> Result<(), Failure> {
        let store = follow(self.client, self.checkout, self.connection)?;
        let site = self.checkout.site(self.connection.clone())?;
        let Some(unfinished) = run::unfinished_run(&site)? else {
            return Ok(());
        };
        let state = store.read()?;
        let bytes = match store.run_file(&state, &unfinished.run, RunFile::Plan)? {
            Some(bytes) => Some(bytes),
            None => run::plan_of_lock(&site)?,
        };
        let plan = bytes.map(|bytes| saved::read(&bytes));
        let plan = match plan {
            Some(Ok(plan)) => plan,
            Some(Err(error)) => return Err(unknown(&unfinished, &error.to_string())),
            None => return Err(unknown(&unfinished, "its plan is not found")),
        };
        let acting = plan.acting_steps();
        let has = |node: &&NodeName| acting.contains_key(node);
        match nodes.iter().find(has) {
            Some(node) => Err(at_work(&unfinished, node, &plan)),
            None => Ok(()),
        }
    }
}

/// The failure for a machine that a run has.
fn at_work(unfinished: &UnfinishedRun, node: &NodeName, plan: &Plan) -> Failure {
    let run = &unfinished.run;
    let message = format!(
        "`{node}` is in the plan of run {run} (`{}`), which {}",
        plan.request.action,
        unfinished.state.words()
    );
    refused(unfinished, message)
}

/// The failure if the machines of a run are not known: any of them may be its.
fn unknown(unfinished: &UnfinishedRun, why: &str) -> Failure {
    let run = &unfinished.run;
    let message = format!(
        "run {run} {}, and which machines it works on is not known: {why}",
        unfinished.state.words()
    );
    refused(unfinished, message)
}

fn refused(unfinished: &UnfinishedRun, message: String) -> Failure {
    let run = &unfinished.run;
    let (kind, hint) = match unfinished.state {
        RunState::Running => (
            FailureKind::Locked,
            "wait for it to end, or stop it, and abort it".to_owned(),
        ),
        RunState::Interrupted => (
            FailureKind::Interrupted,
            format!(
                "`trueup abort {run}` ends it and tells what it leaves of the machine; `trueup apply --resume` resumes it"
            ),
        ),
        RunState::EndedElsewhere => (
            FailureKind::Locked,
            "`trueup log` in that clone publishes its end".to_owned(),
        ),
    };
    Failure::new(kind, message).hint(hint)
}
