//! Approvals: the signatures that a plan needs before it is applied, where they are, and which of them count.
//!
//! An approval is a commit without parents below `<prefix>/<site>/approvals/<effect>/`, with the signed text, its
//! signature and the plan that was approved; the ref's name says whose key it is. So of any number of refs that are pushed, one for each key that may
//! approve is read, and no more. Rules and allowed signers come from a protected revision ([`Gate`]). A run spends the
//! approvals that it begins with: its first records, written by compare-and-swap under the lock, name them.

mod break_glass;
mod gate;
mod missing;
mod other_effects;
mod protected;
mod runs;
mod signers;
mod statement;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use jiff::Timestamp;

use super::{Client, Failure, FailureKind};
use crate::design::{Digest, Policy, RunId, SiteName, Ticket};
use crate::plan::{
    Action, Approvals, GivenApproval, NeededApproval, Plan, PlanEffect, RefusedApproval, effect,
    saved,
};
use crate::record::{Approval, BreakGlass, RunRecord, Store};
use crate::repository::{
    CommitId, NewCommit, PublicKey, PushOutcome, RefUpdate, Repository, Signature, Signed,
    claimed_key,
};
use crate::run::{Connection, SiteRepository};

pub use break_glass::UnapprovedRun;
pub use gate::{Gate, recovery_keys};
use missing::missing;
pub(super) use protected::signer_times;
pub use protected::{policy_in_force, signers_out_of_time, signers_problems};
pub(super) use runs::{SigningRules, site_signed_if_needed};
pub use runs::{run_signatures, signature_of, signing_site};
pub use signers::Signer;
use signers::unmet_by;
pub use statement::{LONGEST, NAMESPACE, Statement};

/// The files of an approval.
const STATEMENT: &str = "approval";
const SIGNATURE: &str = "approval.sig";
const PLAN: &str = "plan.json";

/// Bytes of the largest of each.
const LARGEST_STATEMENT: u64 = 4096;
const LARGEST_SIGNATURE: u64 = 16 << 10;
/// Of a larger plan, nothing less than all of it is covered.
const LARGEST_PLAN: u64 = 64 << 20;

/// Where the approvals of a site are, and who asks for them.
#[derive(Clone, Copy)]
pub struct Approving<'a> {
    /// The caller.
    pub client: &'a dyn Client,
    /// The repository.
    pub repository: &'a Repository,
    /// The site.
    pub site: &'a SiteName,
    /// How it is shared.
    pub connection: &'a Connection<'a>,
}

/// The right to begin a run: the approvals that it spends. Only [`Gate::clear`] gives one if a policy asks for any.
#[derive(Clone, Debug)]
pub struct Clearance {
    pub(super) approvals: Vec<Approval>,
    /// How the run begins without approvals that it needs.
    pub(super) break_glass: Option<BreakGlass>,
    pub(super) policy_asks: bool,
}

impl Clearance {
    /// Whether approvals cover the plan.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        !self.approvals.is_empty()
    }

    /// The clearance of every plan under a policy that asks for no signatures.
    #[must_use]
    pub fn without_approvals(policy: &Policy) -> Option<Self> {
        (!policy.asks_for_signatures()).then(|| Self {
            approvals: Vec::new(),
            break_glass: None,
            policy_asks: false,
        })
    }
}

/// The approvals of a plan, judged.
#[derive(Clone, Debug, Default)]
pub struct Assessment {
    /// As the plan shows them.
    pub shown: Approvals,
    /// Those that count.
    counted: Vec<Approval>,
}

impl Assessment {
    /// Takes in the verdict on an approval of a signer.
    fn take(&mut self, signer: &Signer, verdict: Verdict) {
        let by: Arc<str> = Arc::from(signer.principal.as_str());
        let shown = &mut self.shown;
        match verdict {
            Ok((approval, expires)) => {
                shown.given.push(GivenApproval { by, expires });
                self.counted.push(approval);
            }
            Err(why) => shown.refused.push(RefusedApproval {
                by,
                reason: Arc::from(why),
            }),
        }
    }

    /// Finds out how much is missing of what is needed.
    fn weigh(&mut self, needed: &[NeededApproval]) {
        let given = &self.shown.given;
        let needed = needed.iter().cloned();
        self.shown.needed = needed.map(|rule| rule.with(given)).collect();
    }
}

/// The approval and the end of its time if it counts, else why not.
type Verdict<T = (Approval, Arc<str>)> = Result<T, String>;

/// An approval that was found, and the signer whose key it is said to be of.
struct Candidate<'s> {
    signer: &'s Signer,
    /// As it was found, or why it cannot be read.
    approval: Result<Approval, String>,
}

impl Gate {
    /// Judges the approvals of the effect of a plan that was reviewed, by what a plan needs; `own` is the run that is resumed,
    /// which keeps the approvals that it has.
    ///
    /// # Errors
    ///
    /// The remote cannot be asked, or the records cannot be read, or `ssh-keygen` cannot be run.
    pub fn assess(
        &self,
        approving: Approving<'_>,
        plan: &Plan,
        reviewed: &Plan,
        own: Option<&RunRecord>,
    ) -> Result<Assessment, Failure> {
        let mut needed: Vec<NeededApproval> = Vec::new();
        for rules in &self.rules {
            let more = NeededApproval::by(&rules.policy, plan);
            needed.extend(
                more.into_iter()
                    .filter(|rule| !needed.contains(rule))
                    .collect::<Vec<_>>(),
            );
        }
        let mut assessment = Assessment::default();
        if needed.is_empty() {
            return Ok(assessment);
        }
        let effect = &PlanEffect::of(reviewed).digest();
        let shown = &mut assessment.shown;
        shown.rules_from = self.from().unwrap_or_default();
        shown.advisory = self.is_advisory;
        let none = Vec::new();
        let signers = match &self.signers {
            Ok(signers) => signers,
            Err(void) => {
                shown.refused.push(RefusedApproval {
                    by: void.path.clone(),
                    reason: Arc::from(void.why.as_str()),
                });
                &none
            }
        };
        let applier_counts = self.rules.iter().all(|rules| rules.policy.applier_counts);
        let store = Store::open(approving.repository, approving.site)?;
        let judge = Judge {
            approving,
            effect,
            repository: approving.repository.signed_name()?,
            now: now(approving.client),
            needed: None,
            spent: store.spent_approvals(&store.read()?)?,
            own: own.map(|run| &run.run),
            ticket: reviewed.options.ticket.as_ref(),
            appliers: match applier_counts {
                true => BTreeSet::new(),
                false => appliers(approving, signers, own)?,
            },
        };
        for candidate in approving.candidates(signers, effect, own)? {
            let verdict = judge.verdict(&candidate, reviewed)?;
            assessment.take(candidate.signer, verdict);
        }
        assessment.weigh(&needed);
        if assessment.shown.is_missing_any() {
            for (signer, verdict) in judge.of_other_effects(signers, reviewed)? {
                // What is not needed is left for other plans.
                if verdict.is_err() || assessment.shown.is_missing_any() {
                    assessment.take(signer, verdict);
                    assessment.weigh(&needed);
                }
            }
            let departed = self.departed(&judge, reviewed, own)?;
            assessment.shown.refused.extend(departed);
        }
        Ok(assessment)
    }

    /// Why nothing could be approved any more once the documents of a plan are in force.
    fn void_of(&self, plan: &Plan, now: Timestamp) -> Vec<Arc<str>> {
        if !matches!(plan.request.action, Action::Update | Action::Guards) {
            return Vec::new();
        }
        let void = self.void.iter().map(|void| {
            let (path, why) = (&void.path, &void.why);
            Arc::from(format!(
                "the allowed signers of the documents (`{path}`): {why}"
            ))
        });
        let unmet = self
            .of_documents
            .iter()
            .flat_map(|(rules, signers)| unmet_by(rules, signers, now));
        void.chain(unmet.map(Arc::from)).collect()
    }

    /// The approvals of a plan, as it shows them.
    ///
    /// # Errors
    ///
    /// As [`Gate::assess`].
    pub fn approvals(&self, approving: Approving<'_>, plan: &Plan) -> Result<Approvals, Failure> {
        let mut shown = self.assess(approving, plan, plan, None)?.shown;
        shown.void = self.void_of(plan, now(approving.client));
        if shown.is_missing_any() && plan.options.break_glass.is_some() {
            shown.break_glass = Some(self.break_glass_outlook(approving, plan)?);
        }
        Ok(shown)
    }

    /// The clearance of a plan that does nothing which one that was reviewed does not. The only way to begin a run, or to resume one that another
    /// clone began.
    ///
    /// # Errors
    ///
    /// As [`Gate::assess`]; an approval is missing, or a key to sign the run with ([`FailureKind::Guard`]).
    pub fn clear(
        &self,
        approving: Approving<'_>,
        plan: &Plan,
        reviewed: &Plan,
        own: Option<&RunRecord>,
    ) -> Result<Clearance, Failure> {
        let void = self.void_of(plan, now(approving.client));
        if !void.is_empty() {
            let text = "once these documents are in force, nothing could be approved any more:";
            return Err(Failure::new(FailureKind::Guard, text)
                .details(void.iter().map(ToString::to_string))
                .hint("commit allowed signers with the keys of those who are to approve, or ask for fewer signatures"));
        }
        let assessment = self.assess(approving, plan, reviewed, own)?;
        // An approval is spent by the records that are published, and a run without approvals is known by them.
        let counts_on_records = !assessment.shown.is_empty() || !self.signing.is_empty();
        if let Connection::Shared { publish: false, .. } = approving.connection
            && counts_on_records
            && !plan.is_empty()
        {
            let text =
                "the rules of the site count on its records, which `--no-push` does not publish";
            return Err(Failure::new(FailureKind::Guard, text).hint("apply without `--no-push`"));
        }
        let mut break_glass = None;
        if assessment.shown.is_missing_any() {
            match &plan.options.break_glass {
                Some(reason) => {
                    let broken = self.break_glass(approving, plan, &assessment.shown, reason)?;
                    break_glass = Some(broken);
                }
                None => {
                    let effect = PlanEffect::of(reviewed).digest();
                    return Err(missing(plan, &assessment.shown, &effect, own));
                }
            }
        }
        if self.rules.is_empty() && plan.is_refused_for_loosening() {
            return Err(loosens(plan));
        }
        if self.rules.is_empty() && plan.is_refused_for_reach() {
            return Err(reaches_too_far(plan));
        }
        self.can_sign(approving, plan)?;
        Ok(Clearance {
            approvals: assessment.counted,
            break_glass,
            policy_asks: self.policy_asks,
        })
    }
}

impl Gate {
    /// Whether a run may be carried out further that began before more approvals were asked for.
    ///
    /// # Errors
    ///
    /// As [`Gate::assess`]; an approval is missing that the run did not begin without.
    pub(super) fn keeps(
        &self,
        approving: Approving<'_>,
        plan: &Plan,
        run: &RunRecord,
    ) -> Result<(), Failure> {
        let mut shown = self.assess(approving, plan, plan, Some(run))?.shown;
        let begun_without = run.break_glass.iter().flat_map(|broken| &broken.missing);
        let begun_without: BTreeSet<&Arc<str>> = begun_without.map(|rule| &rule.rule).collect();
        shown
            .needed
            .retain(|rule| !begun_without.contains(&rule.rule));
        match shown.is_missing_any() {
            true => Err(missing(
                plan,
                &shown,
                &PlanEffect::of(plan).digest(),
                Some(run),
            )),
            false => Ok(()),
        }
    }

    /// Whether a run can be signed, if it has to be, with a key that counts by the rules in force and by those that it
    /// puts in force.
    ///
    /// # Errors
    ///
    /// There is no key, or none that counts ([`FailureKind::Guard`]).
    pub(super) fn can_sign(&self, approving: Approving<'_>, plan: &Plan) -> Result<(), Failure> {
        match plan.is_empty() {
            true => Ok(()),
            false => runs::check_key(approving.repository, approving.site, &self.signing),
        }
    }
}

/// The failure of documents that make guards weaker without consent.
fn loosens(plan: &Plan) -> Failure {
    let loosened = plan.guards.loosened_by_documents();
    let lines = loosened.map(|each| format!("`{}`: {}", each.guard, each.how));
    let text = "the documents make guards weaker than those in force, which has to be allowed:";
    let flag = "plan or apply with `--allow-loosening`";
    Failure::new(FailureKind::Guard, text)
        .details(lines)
        .hint_if((!plan.guards.forbid("allow-loosening")).then(|| flag.to_owned()))
}

/// The failure of a plan that reaches more than the policy lets one plan reach, if no rule has an approval lift that.
fn reaches_too_far(plan: &Plan) -> Failure {
    let lines = plan.guards.exceeded.iter().map(ToString::to_string);
    let text = "the plan reaches more than Policy `blast_radius` lets one plan reach:";
    Failure::new(FailureKind::Guard, text)
        .details(lines)
        .hint("narrow it by `--target`, and apply it part by part")
}

/// The principals that those who apply are known by: git's identity, the key that git signs with, those on whose behalf the
/// client acts, and who asked a service for the run that is resumed.
fn appliers(
    approving: Approving<'_>,
    signers: &[Signer],
    own: Option<&RunRecord>,
) -> Result<BTreeSet<String>, Failure> {
    let actor = approving.client.actor(approving.repository)?;
    let mut names = BTreeSet::from([actor.name.to_lowercase(), actor.email.to_lowercase()]);
    let principals = approving.client.principals().iter();
    let asked = own.and_then(|run| run.requested.as_deref());
    let asked = asked.map(|request| &request.subject);
    names.extend(principals.chain(asked).map(|name| name.to_lowercase()));
    let key = approving.repository.signing_key()?;
    if let Some(key) = key.and_then(|key| key.public()) {
        let own = signers.iter().filter(|signer| signer.key == key);
        names.extend(own.map(|signer| signer.principal.to_lowercase()));
    }
    Ok(names)
}

/// The time, by the clock of the caller.
fn now(client: &dyn Client) -> Timestamp {
    Timestamp::from_second(client.clock().seconds()).unwrap_or(Timestamp::MAX)
}

/// Finds out whether approvals count.
struct Judge<'a> {
    approving: Approving<'a>,
    effect: &'a Digest,
    repository: String,
    now: Timestamp,
    /// When approvals have to hold; `None`: now.
    needed: Option<Timestamp>,
    spent: BTreeMap<Arc<str>, RunId>,
    own: Option<&'a RunId>,
    /// The ticket of the plan.
    ticket: Option<&'a Ticket>,
    appliers: BTreeSet<String>,
}

impl Judge<'_> {
    /// The verdict on an approval of the effect that is judged.
    fn verdict_on(&self, candidate: &Candidate<'_>) -> Result<Verdict, Failure> {
        let verdict = self.signed(candidate)?;
        Ok(
            verdict.and_then(|(approval, end, effect)| match effect == *self.effect {
                true => Ok((approval, end)),
                false => Err(format!(
                    "it is of another effect, {}",
                    effect::short(&effect)
                )),
            }),
        )
    }

    /// The verdict on an approval, but for its effect, which is named.
    fn signed(
        &self,
        candidate: &Candidate<'_>,
    ) -> Result<Verdict<(Approval, Arc<str>, Digest)>, Failure> {
        let signer = candidate.signer;
        let approval = match &candidate.approval {
            Ok(approval) => approval,
            Err(why) => return Ok(Err(why.clone())),
        };
        if claimed_key(&approval.signature).as_ref() != Some(&signer.key) {
            return Ok(Err("it is signed by another key".to_owned()));
        }
        let signed = Signed {
            namespace: NAMESPACE,
            message: &approval.statement,
            signature: &approval.signature,
            at: None,
        };
        let repository = self.approving.repository;
        for line in signer.lines() {
            if let Some(why) = repository.verify(signed, &line, &signer.principal)? {
                return Ok(Err(format!("its signature does not hold: {why}")));
            }
        }
        let Some(statement) = Statement::read(&approval.statement) else {
            return Ok(Err("what is signed is no approval".to_owned()));
        };
        let mut why = self.unfit(&statement);
        if let Some(run) = self.spent.get(&approval.statement)
            && self.own != Some(run)
        {
            why = Some(format!("it was spent by run {run}"));
        }
        if self.appliers.contains(&signer.principal.to_lowercase()) {
            why = Some("it is of the person who applies".to_owned());
        }
        let end = Arc::from(statement.expires.to_string());
        let effect = Digest::from(statement.effect.as_str());
        Ok(why.map_or_else(|| Ok((approval.clone(), end, effect)), Err))
    }

    /// Why it is for something else, or for another time.
    fn unfit(&self, statement: &Statement) -> Option<String> {
        let foreign = self.foreign(statement);
        foreign.or_else(|| statement.untimely(self.now, self.needed.unwrap_or(self.now)))
    }

    /// Why it is for something else.
    fn foreign(&self, statement: &Statement) -> Option<String> {
        if statement.repository != self.repository {
            let (theirs, ours) = (&statement.repository, &self.repository);
            return Some(format!(
                "it is for repository `{theirs}`, and this one is `{ours}` (`git config trueup.repository` names it)"
            ));
        }
        if statement.site != self.approving.site.as_str() {
            return Some(format!("it is for site `{}`", statement.site));
        }
        if let Some(run) = &statement.run
            && self.own.is_none_or(|own| own.as_str() != run)
        {
            return Some(format!("it is for run {run}, which had begun without"));
        }
        if let (Some(given), Some(ticket)) = (&statement.ticket, self.ticket)
            && given != ticket
        {
            return Some(format!(
                "it is for ticket {given}, and the plan has {ticket}"
            ));
        }
        None
    }
}

impl<'a> Approving<'a> {
    /// The approvals of a site.
    #[must_use]
    pub fn of(client: &'a dyn Client, site: &'a SiteRepository<'a>) -> Self {
        Self {
            client,
            repository: site.repository,
            site: &site.name,
            connection: &site.connection,
        }
    }
}

impl Approving<'_> {
    /// The ref of the approval of an effect by a key.
    fn ref_name(&self, effect: &str, key: &PublicKey) -> Result<String, Failure> {
        let prefix = self.repository.ref_prefix()?;
        let key = HEXLOWER.encode(&key.digest()[..16]);
        Ok(format!("{prefix}/{}/approvals/{effect}/{key}", self.site))
    }

    /// The approvals of an effect by the keys that may approve, and those that a run was begun with.
    fn candidates<'s>(
        &self,
        signers: &'s [Signer],
        effect: &Digest,
        own: Option<&RunRecord>,
    ) -> Result<Vec<Candidate<'s>>, Failure> {
        let names: Vec<String> = signers
            .iter()
            .map(|signer| self.ref_name(effect, &signer.key))
            .collect::<Result<_, _>>()?;
        let found = self.fetched(effect, &names)?;
        let mut candidates = Vec::new();
        for (signer, name) in signers.iter().zip(&names) {
            let kept = own.into_iter().flat_map(|run| &run.approvals);
            let kept =
                kept.filter(|kept| claimed_key(&kept.signature).as_ref() == Some(&signer.key));
            candidates.extend(kept.map(|kept| Candidate {
                signer,
                approval: Ok(kept.clone()),
            }));
            if let Some(commit) = found.get(name) {
                let approval = self.read(*commit, signer);
                candidates.push(Candidate { signer, approval });
            }
        }
        Ok(candidates)
    }

    /// The commits of refs, as the remote has them if there is one.
    fn fetched(
        &self,
        effect: &Digest,
        names: &[String],
    ) -> Result<BTreeMap<String, CommitId>, Failure> {
        let prefix = self.repository.ref_prefix()?;
        let folder = format!("{prefix}/{}/approvals/{effect}", self.site);
        let mut found = match self.connection {
            Connection::Alone | Connection::Offline => self.repository.refs(&folder)?,
            Connection::Shared { remote, .. } => remote.ls_remote(&[&format!("{folder}/*")])?,
        };
        found.retain(|name, _| names.contains(name));
        if let Connection::Shared { remote, .. } = self.connection {
            for (name, id) in &found {
                if self.repository.read_ref(name)? != Some(*id) {
                    remote.fetch(&[(name, name)])?;
                }
            }
        }
        Ok(found
            .into_iter()
            .map(|(name, id)| (name, CommitId(id)))
            .collect())
    }

    /// An approval at a commit, or why it cannot be read.
    fn read(&self, commit: CommitId, signer: &Signer) -> Result<Approval, String> {
        let file = |name: &str, limit: u64| {
            let bytes = self.repository.file_within(commit, name, limit);
            let bytes = bytes.map_err(|error| error.to_string())?;
            let bytes = bytes.ok_or_else(|| format!("it has no file `{name}`"))?;
            let text = String::from_utf8(bytes).map_err(|_| format!("`{name}` is not UTF-8"))?;
            Ok::<_, String>(Arc::from(text))
        };
        Ok(Approval {
            by: Arc::from(signer.principal.as_str()),
            statement: file(STATEMENT, LARGEST_STATEMENT)?,
            signature: file(SIGNATURE, LARGEST_SIGNATURE)?,
        })
    }

    /// Writes an approval and publishes it; one of the same key for the same effect is replaced.
    ///
    /// # Errors
    ///
    /// The repository cannot be written, or the remote does not take it.
    pub fn publish(
        &self,
        approval: &Approval,
        plan: &Plan,
        key: &PublicKey,
    ) -> Result<String, Failure> {
        let effect = &PlanEffect::of(plan).digest();
        let name = self.ref_name(effect, key)?;
        let text = |text: &Arc<str>| Some(text.as_bytes().to_vec());
        let mut files = BTreeMap::from([
            (STATEMENT.to_owned(), text(&approval.statement)),
            (SIGNATURE.to_owned(), text(&approval.signature)),
        ]);
        let plan = saved::write(plan);
        if plan.len() as u64 <= LARGEST_PLAN {
            files.insert(PLAN.to_owned(), Some(plan));
        }
        let actor = self.client.actor(self.repository)?;
        let commit = self.repository.write_commit(&NewCommit {
            base: None,
            parents: Vec::new(),
            changes: files,
            deflated: BTreeMap::new(),
            author: Signature {
                name: actor.name,
                email: actor.email,
                seconds: self.client.clock().seconds(),
            },
            message: format!(
                "approval of {} for site {} by {}",
                &effect[..16],
                self.site,
                approval.by
            ),
        })?;
        let here = self.repository.read_ref(&name)?;
        if let Connection::Shared {
            remote,
            publish: true,
        } = self.connection
        {
            let there = remote.ls_remote(&[&name])?.get(&name).copied();
            let update = RefUpdate {
                name: name.clone(),
                old: there,
                new: Some(commit.0),
            };
            if let PushOutcome::LostRace { name, .. } = remote.push(&[update])? {
                let text = format!("`{name}` of the remote has moved meanwhile");
                return Err(Failure::error(text).hint("run the command again"));
            }
        }
        self.repository.update_ref(&name, here, commit.0)?;
        Ok(name)
    }
}
