//! Which node is known by which identity: what the records say, what was learned, and what was observed.
//!
//! A machine is judged by what the document names, what the record keeps, and whether another node has the
//! same values. A value that two machines share proves nothing; nodes that nothing distinguishes are refused.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Identity, Kind, Match, Proof, Shared};
use crate::threads::lock;

/// How a machine stands whose identity was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// For good.
    Settled(Proof),
    /// As long as its MAC addresses are not observed, which may decide otherwise.
    NeedsMacs(Proof),
}

impl Verdict {
    /// The MAC addresses to judge by, as they were read; those that cannot be read contradict nothing that is proven.
    ///
    /// # Errors
    ///
    /// They could not be read, and decide.
    pub fn macs_of<M: Default, E>(&self, read: Result<M, E>) -> Result<M, E> {
        match (self, read) {
            (Self::NeedsMacs(Proof::Proven), read) => Ok(read.unwrap_or_default()),
            (_, read) => read,
        }
    }

    /// How it stands.
    #[must_use]
    pub fn into_proof(self) -> Proof {
        match self {
            Self::Settled(proof) | Self::NeedsMacs(proof) => proof,
        }
    }
}

/// Which node is known by what.
#[derive(Debug, Default)]
pub struct Registry(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// From the records, and learned since.
    known: Index,
    /// Observed, proven or not.
    observed: Index,
    /// The identities in the documents for those.
    designed: HashMap<Arc<str>, Identity>,
    /// Nodes whose machines may be changed though they are unverified.
    allowed: HashSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Index {
    identities: HashMap<Arc<str>, Identity>,
    owners: HashMap<(Kind, Arc<str>), BTreeSet<Arc<str>>>,
}

impl Index {
    fn put(&mut self, node: &str, identity: Identity) {
        let node: Arc<str> = Arc::from(node);
        if let Some(old) = self.identities.remove(&node) {
            for (kind, value) in old.values() {
                let key = (kind, folded(value));
                if let Some(owners) = self.owners.get_mut(&key) {
                    owners.remove(&node);
                }
            }
        }
        for (kind, value) in identity.values() {
            let owners = self.owners.entry((kind, folded(value))).or_default();
            owners.insert(node.clone());
        }
        self.identities.insert(node, identity);
    }

    /// Adds the values that a node's machine shares with those of others, from which it differs in
    /// something else.
    ///
    /// # Errors
    ///
    /// The other node that nothing distinguishes it from, and the value.
    fn shared(&self, node: &str, observed: &Identity, shared: &mut Shared) -> Result<(), Twin> {
        // Values that many boards share distinguish none of them: a few are enough to know.
        const COMPARED: usize = 64;
        for (kind, value) in observed.values() {
            let Some(owners) = self.owners.get(&(kind, folded(value))) else {
                continue;
            };
            let others = owners.iter().filter(|other| &***other != node);
            for other in others.take(COMPARED) {
                let theirs = &self.identities[other];
                if kind == Kind::Provisioner || !theirs.is_distinct_from(observed) {
                    let (other, value) = (other.clone(), value.clone());
                    return Err(Twin { other, kind, value });
                }
                shared.insert((kind, value.clone()));
            }
        }
        Ok(())
    }
}

/// Another node with the same value, and nothing that distinguishes the two.
struct Twin {
    other: Arc<str>,
    kind: Kind,
    value: Arc<str>,
}

fn folded(value: &Arc<str>) -> Arc<str> {
    match value.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Arc::from(value.to_ascii_lowercase()),
        false => value.clone(),
    }
}

impl Registry {
    /// Takes in what the records say.
    pub fn record<'a>(&self, recorded: impl IntoIterator<Item = (&'a str, Identity)>) {
        let mut state = self.state();
        for (node, identity) in recorded {
            state.known.put(node, identity);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// The identity of a node.
    #[must_use]
    pub fn known(&self, node: &str) -> Option<Identity> {
        self.state().known.identities.get(node).cloned()
    }

    /// Lets the machines of these nodes be changed though they are unverified.
    pub fn allow_unverified<'a>(&self, nodes: impl IntoIterator<Item = &'a str>) {
        let nodes = nodes.into_iter().map(Arc::from);
        self.state().allowed.extend(nodes);
    }

    /// Whether a node's machine may be changed though it is unverified.
    #[must_use]
    pub fn allows_unverified(&self, node: &str) -> bool {
        self.state().allowed.contains(node)
    }

    /// Keeps what a node's machine was observed to be, so that another one that looks the same is found.
    pub fn observe(&self, node: &str, designed: &Identity, identity: &Identity) {
        let mut state = self.state();
        state.observed.put(node, identity.clone());
        state.designed.insert(Arc::from(node), designed.clone());
    }

    /// Judges a node's machine again as it was observed last; `None` if it was not.
    #[must_use]
    pub fn judge_again(&self, node: &str) -> Option<Verdict> {
        let (designed, observed) = {
            let state = self.state();
            let observed = state.observed.identities.get(node)?;
            (state.designed.get(node)?.clone(), observed.clone())
        };
        Some(self.judge(node, &designed, &observed))
    }

    /// Judges the machine of a node by what the document names (`designed`) and what is known.
    #[must_use]
    pub fn judge(&self, node: &str, designed: &Identity, observed: &Identity) -> Verdict {
        let state = self.state();
        let known = state.known.identities.get(node);
        let mut shared = Shared::new();
        let is = |expected: &Identity, shared: &Shared| expected.compare(observed, shared);
        for (expected, who) in [(Some(designed), "document"), (known, "record")] {
            if let Some(expected) = expected
                && let Match::Differs(how) = is(expected, &shared)
            {
                let text = format!("it is another machine than its {who} names: {how}");
                return Verdict::Settled(Proof::Refused(Arc::from(text)));
            }
        }
        let has_macs = !observed.macs.is_empty();
        let is_all_of = |known: &Identity| {
            let same_kinds = known.covers(observed) && observed.covers(known);
            same_kinds && known.macs.is_empty() != has_macs
        };
        let is_recorded =
            known.is_some_and(|known| is(known, &shared) == Match::Same && is_all_of(known));
        let mut twin = state.known.shared(node, observed, &mut shared);
        // A machine that its record knows is not refused for what another controller shows.
        if !is_recorded && twin.is_ok() {
            twin = state.observed.shared(node, observed, &mut shared);
        }
        if let Err(Twin { other, kind, value }) = twin {
            let text = format!(
                "it is the same machine as that of node `{other}`: both have the {kind} {value}"
            );
            let proof = Proof::Refused(Arc::from(text));
            return match kind != Kind::Provisioner && !has_macs {
                true => Verdict::NeedsMacs(proof),
                false => Verdict::Settled(proof),
            };
        }
        let by_document = is(designed, &shared) == Match::Same;
        let by_record = known.filter(|known| is(known, &shared) == Match::Same);
        let names_macs = |identity: &Identity| !identity.macs.is_empty();
        if by_document || by_record.is_some_and(|known| !known.unverified) {
            // A MAC address that contradicts the document is of another machine, also if the rest fits.
            return match !has_macs && names_macs(designed) {
                true => Verdict::NeedsMacs(Proof::Proven),
                false => Verdict::Settled(Proof::Proven),
            };
        }
        let why = match by_record {
            Some(_) => "it was recorded without proof",
            None if known.is_none() && designed.is_empty() => {
                "neither document nor record names its UUID, serial number or boot MAC address"
            }
            None if observed.is_empty() => {
                "it shows no UUID, serial number or MAC address that distinguishes it from other machines"
            }
            None => {
                "it shows none of the values that document and record name, or only values that several boards share"
            }
        };
        let proof = Proof::Unverified(Arc::from(why));
        match !has_macs && (names_macs(designed) || known.is_some_and(names_macs)) {
            true => Verdict::NeedsMacs(proof),
            false => Verdict::Settled(proof),
        }
    }

    /// Keeps what a node is known by from now on; gives it if that is more than before.
    pub fn learn(&self, node: &str, observed: &Identity, proof: &Proof) -> Option<Identity> {
        let mut state = self.state();
        let before = state.known.identities.get(node);
        let mut learned = before.cloned().unwrap_or_default();
        learned.complete(observed);
        learned.unverified = !proof.is_proven();
        if learned.is_empty() || before == Some(&learned) {
            return None;
        }
        state.known.put(node, learned.clone());
        Some(learned)
    }

    /// Takes another id in the provisioner for a node: it was enrolled anew, or removed from it.
    pub fn enrolled(&self, node: &str, id: Option<&str>) {
        let mut state = self.state();
        if let Some(mut known) = state.known.identities.get(node).cloned() {
            known.provisioner = id.map(Arc::from);
            state.known.put(node, known);
        }
    }
}
