//! Asks the operator's trust file, and on a terminal the operator, whether a reach may be used.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::Timestamp;

use super::store::{TrustStore, Trusted};
use crate::backend::{Gate, Reach, ReachEntry, Secrets, Untrusted, reach_digest};
use crate::cli::context::Printer;
use crate::repository::Repository;
use crate::threads::lock;

/// How many entries a refusal names.
const NAMED: usize = 6;

/// Decides by the trust file of the operator, or by the revision that the operator named.
#[derive(Debug)]
pub(in crate::cli) struct TrustGate {
    /// The trust file and the repository's identity in it, or why there is none.
    store: Result<(TrustStore, String), String>,
    site: String,
    printer: Printer,
    /// The revision that the operator named, and the reach that it has.
    named: Option<(String, Vec<ReachEntry>)>,
    /// The operator's answers in this process, by the digest of the declared reach.
    answers: Mutex<BTreeMap<String, bool>>,
}

impl TrustGate {
    /// `named`: the revision from which the operator takes the Backends document, and its reach.
    pub(in crate::cli) fn new(
        repository: &Repository,
        here: &Path,
        site: &str,
        printer: Printer,
        named: Option<(String, Reach)>,
    ) -> Self {
        let store = TrustStore::find(repository, here).and_then(|store| {
            let identity = repository.identity().map_err(|error| error.to_string())?;
            Ok((store, identity))
        });
        Self {
            store,
            site: site.to_owned(),
            printer,
            named: named.map(|(revision, reach)| (revision, reach.entries().to_vec())),
            answers: Mutex::default(),
        }
    }

    /// The trust file.
    pub(super) fn file(&self) -> Result<PathBuf, String> {
        let (store, _) = self.store.as_ref().map_err(Clone::clone)?;
        Ok(store.path().to_owned())
    }

    /// Returns what is new in a reach that is not trusted (nothing, if it only lacks what was trusted);
    /// `None` if it is trusted.
    pub(in crate::cli) fn untrusted(
        &self,
        reach: &Reach,
        secrets: &dyn Secrets,
    ) -> Result<Option<Vec<ReachEntry>>, String> {
        let (store, identity) = self.store.as_ref().map_err(Clone::clone)?;
        let all = store.read()?;
        let of_site = all
            .iter()
            .filter(|each| each.repository == *identity && each.site == self.site);
        let declared = reach_digest(reach.entries());
        let Some(trusted) = of_site.clone().find(|each| each.declared == declared) else {
            // Nothing that was not trusted is opened, not even to say where it leads.
            let newest = of_site.last().map_or(&[][..], |each| &each.reach);
            return Ok(Some(new_entries(reach.entries(), newest)));
        };
        // What cannot be read now cannot be used either.
        let Ok(resolved) = reach.resolved(secrets) else {
            return Ok(None);
        };
        match trusted.resolved.as_deref() == Some(&*reach_digest(&resolved)) {
            true => Ok(None),
            false => Ok(Some(new_entries(&resolved, &trusted.reach))),
        }
    }

    /// The reach that the operator trusted last for this site.
    fn trusted(&self) -> Option<Vec<ReachEntry>> {
        let (store, identity) = self.store.as_ref().ok()?;
        let all = store.read().ok()?;
        let mut of_site = all
            .into_iter()
            .filter(|each| each.repository == *identity && each.site == self.site);
        of_site.next_back().map(|each| each.reach)
    }

    /// Records that a reach is trusted.
    pub(super) fn record(&self, reach: &Reach, secrets: &dyn Secrets) -> Result<(), String> {
        let (store, identity) = self.store.as_ref().map_err(Clone::clone)?;
        let resolved = reach.resolved(secrets);
        let entries = match &resolved {
            Ok(entries) => entries.clone(),
            Err(_) => reach.entries().to_vec(),
        };
        store.add(Trusted {
            repository: identity.clone(),
            site: self.site.clone(),
            declared: reach_digest(reach.entries()),
            resolved: resolved.ok().map(|entries| reach_digest(&entries)),
            since: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            reach: entries,
        })
    }

    /// Shows what is new and asks; `None` if there is no terminal.
    fn ask(&self, reach: &Reach, missing: &[ReachEntry], secrets: &dyn Secrets) -> Option<bool> {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        let declared = reach_digest(reach.entries());
        let mut answers = lock(&self.answers);
        if let Some(answer) = answers.get(&declared) {
            return Some(*answer);
        }
        // On a terminal the operator sees where kubeconfigs lead before answering.
        let leads = reach.resolved(secrets).unwrap_or_default();
        let trusted = self.trusted().unwrap_or_default();
        let known = [trusted, reach.entries().to_vec(), missing.to_vec()].concat();
        let mut shown = missing.to_vec();
        shown.extend(new_entries(&leads, &known));
        let question = format!(
            "The documents of site `{}` would have trueup use what is not trusted yet:\n{}\nTrust it? Only \
             `yes` is taken as consent:",
            self.site,
            lines(&shown)
        );
        let answer = self.printer.confirms(&question, "yes").unwrap_or(false);
        answers.insert(declared, answer);
        Some(answer)
    }

    fn refusal(&self, missing: &[ReachEntry]) -> Untrusted {
        let mut named: Vec<String> = missing
            .iter()
            .take(NAMED)
            .map(ToString::to_string)
            .collect();
        if missing.len() > NAMED {
            named.push(format!("… and {} more", missing.len() - NAMED));
        }
        if named.is_empty() {
            named.push("less than was trusted before".to_owned());
        }
        Untrusted {
            message: format!(
                "the documents of site `{}` name endpoints, files or programs that are not trusted: {}",
                self.site,
                named.join("; ")
            ),
            hints: vec![
                "`trueup trust` shows all of it and records that you trust it".to_owned(),
                "`--backends-from REV` (in a pipeline `TRUEUP_BACKENDS_FROM`) takes the Backends document from a \
                 protected branch instead, such as `origin/main`"
                    .to_owned(),
            ],
        }
    }
}

/// The entries that are not among those known.
fn new_entries(entries: &[ReachEntry], known: &[ReachEntry]) -> Vec<ReachEntry> {
    let new = entries.iter().filter(|entry| !known.contains(entry));
    new.cloned().collect()
}

/// Entries as lines for people.
pub(super) fn lines(entries: &[ReachEntry]) -> String {
    let lines = entries
        .iter()
        .map(|entry| format!("  {}", crate::report::Visible(&entry.to_string())));
    lines.collect::<Vec<_>>().join("\n")
}

impl Gate for TrustGate {
    fn admit(&self, reach: &Reach, secrets: &dyn Secrets) -> Result<(), Untrusted> {
        if let Some((_, named)) = &self.named
            && named == reach.entries()
        {
            return Ok(());
        }
        let unusable = |message: String| Untrusted {
            message,
            hints: vec![
                "`TRUEUP_TRUST_FILE` names a trust file, and `--backends-from REV` needs none"
                    .to_owned(),
            ],
        };
        let Some(missing) = self.untrusted(reach, secrets).map_err(unusable)? else {
            return Ok(());
        };
        if self.ask(reach, &missing, secrets) == Some(true) {
            return self.record(reach, secrets).map_err(unusable);
        }
        Err(self.refusal(&missing))
    }
}
