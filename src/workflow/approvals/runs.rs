//! Signed runs: who signs the records of a run, and whether the signatures that are there count.
//!
//! The newest commit of the records vouches for all of them and for all before: its signer has written it on top of
//! records that they verified, or checked. So one signature is verified before anything is planned from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use jiff::Timestamp;

use super::protected::{self, Counting, allowed_signers};
use super::signers::Signer;
use super::statement::GIT;
use crate::design::{Policy, RunId, SiteName};
use crate::diagnostic::chain;
use crate::record::{
    NotReady, RunSignature, SignatureVerdict, Signing, SiteState, State, Store, bound_repository,
    is_bound_to,
};
use crate::repository::{CommitId, PublicKey, Repository, Signed, SigningKey, claimed_key};
use crate::run::{Connection, SiteRepository};
use crate::threads::lock;
use crate::workflow::{Checkout, Failure, FailureKind, if_recorded, recorded};

/// Runs whose signatures are verified at once: each is a call of a program.
const MOST: usize = 100;

/// The text by which a key is tried.
const TRIAL: &str = "trial of a key\n";

/// The demands of a site on the signatures of its runs, and the signers that count.
#[derive(Clone, Debug)]
pub(in crate::workflow) struct SigningRules {
    required: bool,
    from: Arc<str>,
    commit: Option<CommitId>,
    path: Arc<str>,
}

impl SigningRules {
    pub(super) fn of(counting: &Counting<'_>) -> Self {
        Self {
            required: counting.policy.signed_runs,
            from: Arc::from(counting.from),
            commit: counting.commit,
            path: Arc::from(counting.policy.allowed_signers()),
        }
    }

    /// The rules that count for the records of a site, if none of its documents is loaded.
    pub(in crate::workflow) fn for_records(
        checkout: &Checkout<'_>,
        connection: &Connection<'_>,
        state: &SiteState,
    ) -> Result<Self, Failure> {
        let of = |policy: &Policy, commit, from: &str| {
            Self::of(&Counting {
                policy,
                commit: Some(commit),
                from,
            })
        };
        let guards = checkout.guards()?;
        if let Some(guards) = guards
            .filter(|found| found.guards.policy.signed_runs || state.guards_in_force().is_none())
        {
            return Ok(of(&guards.guards.policy, guards.commit, &guards.revision));
        }
        let Some(applied) = state.guards_in_force() else {
            let head = checkout.head()?;
            return Ok(of(
                &protected::applied_policy(checkout, head)?,
                head,
                "HEAD",
            ));
        };
        if let (false, Ok(commit)) = (applied.policy_asks, applied.revision.parse()) {
            let from = protected::applied_last(Some(commit));
            return Ok(of(&Policy::default(), commit, &from));
        }
        let found = if_recorded(checkout, connection, &applied.revision)?;
        let commit = match (found, checkout.guards()?) {
            (Some(commit), _) => commit,
            (None, Some(guards)) => {
                return Ok(of(&guards.guards.policy, guards.commit, &guards.revision));
            }
            (None, None) => recorded(checkout, connection, &applied.revision)?,
        };
        let policy = protected::applied_policy(checkout, commit)?;
        Ok(of(&policy, commit, &protected::applied_last(Some(commit))))
    }

    /// Why records must not be planned from, or built on; `None`: they may.
    ///
    /// # Errors
    ///
    /// A commit cannot be read, or `ssh-keygen` cannot be run.
    pub(in crate::workflow) fn refusal(
        &self,
        repository: &Repository,
        site: &SiteName,
        tip: Option<CommitId>,
    ) -> Result<Option<String>, Failure> {
        let Some(tip) = tip.filter(|_| self.required) else {
            return Ok(None);
        };
        let judge = Judge::new(self, repository, site)?;
        let found = judge.verdict(tip, When::Now)?;
        let why = match found.verdict {
            SignatureVerdict::Good => return Ok(None),
            SignatureVerdict::Unsigned | SignatureVerdict::Unchecked => "they are not signed",
            SignatureVerdict::Bad => found.reason.as_deref().unwrap_or("their signature is bad"),
        };
        let (tip, from) = (tip.short(), &self.from);
        Ok(Some(format!(
            "its records ({tip}) are refused by the rules of {from}: {why}"
        )))
    }
}

/// Checks that a run which has to be signed by several rules can be, and that its signature would count by each.
///
/// # Errors
///
/// There is no key, or one that does not count ([`FailureKind::Guard`]); `ssh-keygen` cannot be run.
pub(super) fn check_key(
    repository: &Repository,
    site: &SiteName,
    rules: &[SigningRules],
) -> Result<(), Failure> {
    if rules.is_empty() {
        return Ok(());
    }
    let key = repository
        .run_signing_key()?
        .ok_or_else(|| no_key("the Policy demands signed runs"))?;
    let refused = |why: String| Failure::new(FailureKind::Guard, why);
    let public = key.public();
    let mut trial = None;
    for rules in rules {
        let judge = Judge::new(rules, repository, site)?;
        // The membership of a key is known without a signature, for which it may have to be touched.
        let known = public.as_ref().map(|public| judge.allowed(public));
        let verdict = match known {
            Some(Err(why)) => Err(why),
            Some(Ok(signer)) if !signer.is_limited() => Ok(()),
            Some(Ok(_)) | None => {
                let signed = match trial {
                    Some(signed) => signed,
                    None => repository
                        .sign_object(&key, TRIAL)
                        .map_err(|error| refused(format!("cannot sign: {}", chain(&error))))?,
                };
                let verdict = judge.signer(TRIAL, &signed, None)?.map(|_| ());
                trial = Some(signed);
                verdict
            }
        };
        verdict.map_err(|why| {
            refused(would_not_count(&why))
                .hint("`git config user.signingkey FILE` names the key of an allowed signer")
        })?;
    }
    Ok(())
}

fn would_not_count(why: &str) -> String {
    format!("a signature of this run would not count: {why}")
}

/// When a key has to be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Now,
    /// When the commit was made, as it says itself.
    Then,
}

/// Verifies signatures of the records of a site.
struct Judge<'a> {
    rules: &'a SigningRules,
    repository: &'a Repository,
    site: &'a SiteName,
    name: String,
    signers: Result<Vec<Signer>, String>,
}

impl<'a> Judge<'a> {
    fn new(
        rules: &'a SigningRules,
        repository: &'a Repository,
        site: &'a SiteName,
    ) -> Result<Self, Failure> {
        Ok(Self {
            rules,
            repository,
            site,
            name: repository.signed_name()?,
            signers: allowed_signers(repository, rules.commit, &rules.path, GIT),
        })
    }

    /// How the signature of a commit of the records is.
    fn verdict(&self, commit: CommitId, when: When) -> Result<RunSignature, Failure> {
        let Some(signed) = self.repository.signed_commit(commit)? else {
            return Ok(RunSignature::of(SignatureVerdict::Unsigned, Some(commit)));
        };
        let at = match when {
            When::Now => None,
            When::Then => {
                let seconds = self.repository.summary(commit)?.seconds;
                Timestamp::from_second(seconds).ok()
            }
        };
        let signer = match self.signer(&signed.text, &signed.signature, at)? {
            Ok(signer) => signer,
            Err(why) => return Ok(RunSignature::bad(commit, &why)),
        };
        if !is_bound_to(&signed, self.site, &self.name) {
            let (site, name) = (self.site, &self.name);
            let theirs = bound_repository(&signed).filter(|theirs| *theirs != name);
            let theirs = theirs.map_or_else(String::new, |theirs| {
                format!(", but of `{theirs}` (`git config trueup.repository` names it)")
            });
            let why = format!(
                "what {} has signed is no record of site `{site}` of repository `{name}`{theirs}",
                signer.principal
            );
            return Ok(RunSignature::bad(commit, &why));
        }
        Ok(RunSignature {
            by: Some(Arc::from(signer.principal.as_str())),
            ..RunSignature::of(SignatureVerdict::Good, Some(commit))
        })
    }

    /// The allowed signer of a key, or why there is none.
    fn allowed(&self, key: &PublicKey) -> Result<&Signer, String> {
        let (path, from) = (&self.rules.path, &self.rules.from);
        let signers = self
            .signers
            .as_ref()
            .map_err(|why| format!("the allowed signers (`{path}`) are void: {why}"))?;
        let found = signers.iter().find(|signer| signer.key == *key);
        found.ok_or_else(|| format!("its key {key:?} is not one of the allowed signers of {from}"))
    }

    /// The allowed signer whose signature of a text holds, or why it does not count.
    fn signer(
        &self,
        text: &str,
        signature: &str,
        at: Option<Timestamp>,
    ) -> Result<Result<&Signer, String>, Failure> {
        let Some(key) = claimed_key(signature) else {
            return Ok(Err("its signature is none of an SSH key".to_owned()));
        };
        let signer = match self.allowed(&key) {
            Ok(signer) => signer,
            Err(why) => return Ok(Err(why)),
        };
        let signed = Signed {
            namespace: GIT,
            message: text,
            signature,
            at: at.filter(|_| signer.is_limited()),
        };
        let why = self
            .repository
            .verify(signed, &signer.line(), &signer.principal)?;
        Ok(match why {
            None => Ok(signer),
            Some(why) => Err(format!(
                "its signature, said to be of {}, does not hold: {why}",
                signer.principal
            )),
        })
    }
}

/// The failure of a run that has to be signed, for a reason, and has no key.
pub(super) fn no_key(why: &str) -> Failure {
    Failure::new(FailureKind::Guard, format!("{why}: {NO_KEY}"))
        .hint("`git config gpg.format ssh` and `git config user.signingkey FILE` name a key")
}

const NO_KEY: &str = "git has no SSH key to sign with";

/// The site with its lock and records, whose runs are signed where git has a key for it.
///
/// # Errors
///
/// Git's configuration cannot be read, or names no key.
pub fn signing_site<'s>(
    checkout: &'s Checkout<'s>,
    connection: Connection<'s>,
) -> Result<SiteRepository<'s>, Failure> {
    let key = checkout.repository.run_signing_key()?;
    site_signed_by(checkout, connection, OnceLock::from(key))
}

/// The same, for commands that sign only what an earlier one has left: the key is looked for once it is needed, and without
/// one the records are read as well.
pub(in crate::workflow) fn site_signed_if_needed<'s>(
    checkout: &'s Checkout<'s>,
    connection: Connection<'s>,
) -> Result<SiteRepository<'s>, Failure> {
    site_signed_by(checkout, connection, OnceLock::new())
}

fn site_signed_by<'s>(
    checkout: &'s Checkout<'s>,
    connection: Connection<'s>,
    key: OnceLock<Option<SigningKey>>,
) -> Result<SiteRepository<'s>, Failure> {
    let signer = RunSigner {
        checkout,
        connection: connection.clone(),
        key,
        name: checkout.repository.signed_name()?,
        trusted: Mutex::default(),
    };
    Ok(SiteRepository {
        signing: Some(Arc::new(signer)),
        ..checkout.site(connection)?
    })
}

/// Signs the runs of a process.
struct RunSigner<'a> {
    checkout: &'a Checkout<'a>,
    connection: Connection<'a>,
    /// The key that git has, once it was looked for.
    key: OnceLock<Option<SigningKey>>,
    name: String,
    /// The records that this process has verified or written.
    trusted: Mutex<BTreeSet<CommitId>>,
}

impl fmt::Debug for RunSigner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunSigner")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl RunSigner<'_> {
    fn key(&self) -> Option<&SigningKey> {
        let found = || self.checkout.repository.run_signing_key().unwrap_or(None);
        self.key.get_or_init(found).as_ref()
    }

    /// The rules that count for records.
    fn rules(&self, tip: CommitId) -> Result<SigningRules, Failure> {
        let site = &self.checkout.location.site;
        let state = Store::open(self.checkout.repository, site)?.read_at(tip)?;
        SigningRules::for_records(self.checkout, &self.connection, &state.site)
    }

    fn is_trusted(&self, tip: CommitId) -> bool {
        let trusted = lock(&self.trusted);
        trusted.contains(&tip)
    }

    /// Why records must not be built on by some rules; if they may, that is not asked again.
    fn refused_by(&self, rules: &SigningRules, base: CommitId) -> Result<Option<String>, Failure> {
        if self.is_trusted(base) {
            return Ok(None);
        }
        let site = &self.checkout.location.site;
        let why = rules.refusal(self.checkout.repository, site, Some(base))?;
        if why.is_none() {
            self.trust(base);
        }
        Ok(why)
    }

    /// Whether a signature by the key would count.
    fn is_allowed(&self, rules: &SigningRules, trial: &str) -> Result<Result<(), String>, Failure> {
        let site = &self.checkout.location.site;
        let judge = Judge::new(rules, self.checkout.repository, site)?;
        let signer = judge.signer(TRIAL, trial, None)?;
        Ok(signer.map(|_| ()).map_err(|why| would_not_count(&why)))
    }
}

impl Signing for RunSigner<'_> {
    fn has_key(&self) -> bool {
        self.key().is_some()
    }

    fn ready(&self, base: Option<CommitId>) -> Result<(), NotReady> {
        let refused = |failure: Failure| NotReady::Refused(failure.message);
        let rules = match base {
            Some(base) => Some(self.rules(base).map_err(refused)?),
            None => None,
        };
        if let (Some(rules), Some(base)) = (&rules, base) {
            let why = self.refused_by(rules, base).map_err(refused)?;
            why.map_or(Ok(()), |why| Err(NotReady::Refused(why)))?;
        }
        let required = rules.filter(|rules| rules.required);
        if self.key().is_none() {
            return match required {
                Some(_) => Err(NotReady::Refused(NO_KEY.to_owned())),
                None => Ok(()),
            };
        }
        // A key that has to be touched is touched for the first records.
        if required.is_none() && self.is_touched() {
            return Ok(());
        }
        let trial = self.sign(TRIAL).map_err(NotReady::NoSignature)?;
        match required {
            Some(rules) => self
                .is_allowed(&rules, &trial)
                .map_err(refused)?
                .map_err(NotReady::Refused),
            None => Ok(()),
        }
    }

    fn sign(&self, text: &str) -> Result<String, String> {
        let key = self.key().ok_or(NO_KEY)?;
        let signed = self.checkout.repository.sign_object(key, text);
        signed.map_err(|error| chain(&error))
    }

    fn repository(&self) -> &str {
        &self.name
    }

    fn is_touched(&self) -> bool {
        let key = self.key().and_then(SigningKey::public);
        key.is_some_and(|key| key.kind().starts_with("sk-"))
    }

    fn refusal(&self, commit: CommitId, base: CommitId) -> Option<String> {
        if self.is_trusted(commit) {
            return None;
        }
        let found = self
            .rules(base)
            .and_then(|rules| self.refused_by(&rules, commit));
        found.unwrap_or_else(|failure| Some(failure.message))
    }

    fn vouches_for(&self, base: CommitId) -> bool {
        let rules = self.rules(base).ok().filter(|rules| rules.required);
        let refused = rules.map(|rules| self.refused_by(&rules, base));
        matches!(refused, Some(Ok(None)))
    }

    fn trust(&self, tip: CommitId) {
        let mut trusted = lock(&self.trusted);
        trusted.insert(tip);
    }
}

/// The signatures of the newest records of runs, the newest of which are verified.
///
/// # Errors
///
/// The records cannot be read, or `ssh-keygen` cannot be run.
pub fn run_signatures(
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    store: &Store<'_>,
    state: &State,
    runs: &[RunId],
) -> Result<BTreeMap<RunId, RunSignature>, Failure> {
    let repository = store.repository();
    let commits = store.newest_commits(state, runs)?;
    let mut found = BTreeMap::new();
    let mut signed = Vec::new();
    for (run, commit) in commits.into_iter().rev() {
        let mut signature = RunSignature::of(SignatureVerdict::Unsigned, commit);
        match commit {
            Some(commit) if repository.signed_commit(commit)?.is_some() => {
                signed.push((run, commit));
                continue;
            }
            Some(_) => {}
            None => {
                signature.verdict = SignatureVerdict::Bad;
                let why = "a commit that is said to be of another run has changed its files";
                signature.reason = Some(Arc::from(why));
            }
        }
        found.insert(run, signature);
    }
    if signed.is_empty() {
        return Ok(found);
    }
    let rules = match SigningRules::for_records(checkout, connection, &state.site) {
        Ok(rules) => rules,
        Err(failure) => {
            let reason: Arc<str> = Arc::from(failure.message);
            found.extend(signed.into_iter().map(|(run, commit)| {
                let unchecked = RunSignature {
                    reason: Some(reason.clone()),
                    ..RunSignature::of(SignatureVerdict::Unchecked, Some(commit))
                };
                (run, unchecked)
            }));
            return Ok(found);
        }
    };
    let judge = Judge::new(&rules, repository, store.site())?;
    for (position, (run, commit)) in signed.into_iter().enumerate() {
        let signature = match position < MOST {
            true => judge.verdict(commit, When::Then)?,
            false => RunSignature::of(SignatureVerdict::Unchecked, Some(commit)),
        };
        found.insert(run, signature);
    }
    Ok(found)
}

/// The signature of the newest record of a run, by what is in this clone.
///
/// # Errors
///
/// As [`run_signatures`].
pub fn signature_of(
    checkout: &Checkout<'_>,
    store: &Store<'_>,
    state: &State,
    run: &RunId,
) -> Result<Option<RunSignature>, Failure> {
    let runs = std::slice::from_ref(run);
    let found = run_signatures(checkout, &Connection::Offline, store, state, runs)?;
    Ok(found.into_values().next())
}
